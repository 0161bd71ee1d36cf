"""Would one method be better than another on the next dataset?

The hierarchical correlated t test over datasets and folds of Corani, Benavoli, Demšar, Mangili &
Zaffalon (2017), with their priors; see `hierarchical_t` for the model.

It is integrated, not sampled. The spread of a dataset has a closed form. Its mean is integrated
over nodes about the data and about mu_0, each set as dense as its distribution is narrow.
What is left, mu_0, sigma_0 and nu, is integrated over a grid: coarse ones find where the posterior
is, and a fine one measures it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, compress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.beyond_pvalues import checked_rope
from mlflow_mleval.analysis.fold_protocol import Declared, runs_of, shared_folds, widest
from mlflow_mleval.analysis.pairs import NOISE, behind, better_first, places
from mlflow_mleval.analysis.posthoc.max_t import rows_of_pair
from mlflow_mleval.errors import MlevalError
from mlflow_mleval.measures.inputs import slices
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.sentences import count, some
from mlflow_mleval.study import Study
from mlflow_mleval.validation import Array, Bools, in_pandas, probability

if TYPE_CHECKING:
    from typing_extensions import Unpack

OUTCOMES = ["better", "equivalent", "worse"]
#: Standard deviations are uniform up to so many times the observed spread; the paper's.
WIDE = 1000.0
#: nu - 1 ~ Gamma(shape, rate), shape and rate uniform on these; the paper's.
SHAPE = (1.0, 2.0)
RATE = (0.01, 0.1)
#: Fewer datasets than this say little against the priors.
FEW = 5
#: Cells of the grids over mu_0, sigma_0 and nu: those that find the posterior, and the last.
COARSE = (11, 9, 4)
FINE = (31, 20, 9)
#: Cells at the ends of an axis that hold less than this share of the posterior are cut off.
EMPTY = 1e-4
#: Nodes of an integral over the mean of a dataset, in units of arsinh, and their distance.
STEP = 0.6
NODES = np.arange(-12, 13) * STEP
#: The same for the posterior of that mean, and points of the grid that stand for all.
FINER = np.arange(-60, 61) * 0.1
POINTS = 300
#: Numbers that are in memory at once.
BLOCK = 2**19


@dataclass(frozen=True)
class HierarchicalT:
    """Posterior of each pair by itself. `table`: p_ are the mean masses on the next dataset, share_
    how often each is the largest (baycomp's); `shrunken`: a row a pair and dataset."""

    table: pd.DataFrame
    shrunken: pd.DataFrame
    rope: float
    credible_level: float
    warnings: tuple[str, ...] = ()

    def without_far(self) -> tuple[HierarchicalT, list[str]]:
        """The test without what it says of pairs far from its model, and these pairs: at .05 fewer
        datasets lie beyond the rope than it says of the next, or more as it draws them."""
        far = []
        for row in self.table.itertuples():
            same = rows_of_pair(self.shrunken, row.method_a, row.method_b)
            least = 1.0
            for sign, share in ((1, row.p_better), (-1, row.p_worse)):
                beyond = (sign * same[["mean", "shrunken"]] > self.rope).sum()
                raw = special.bdtr(beyond["mean"], len(same), share)
                least = min(least, raw, special.bdtrc(beyond["shrunken"] - 1, len(same), share))
            far.append(least < 0.05)
        table = self.table.copy()
        told = table.columns.str.startswith(("p_", "share_", "mean_difference", "low", "high"))
        table.loc[far, told] = np.nan
        unlike = [f"{row.method_a} and {row.method_b}" for row in table[far].itertuples()]
        return replace(self, table=table), unlike


def hierarchical_t(
    differences: ArrayLike | Sequence[ArrayLike] | Mapping[Hashable, ArrayLike] | pd.DataFrame,
    *,
    rho: ArrayLike,
    rope: float = 0.01,
    credible_level: float = 0.95,
) -> HierarchicalT:
    r"""How probable it is that one method is better than another on the next dataset (Corani et al.
    2017).

    .. math:: x_i \sim N(1\mu_i, \Sigma_i), \quad \mu_i \sim t(\mu_0, \sigma_0, \nu)

    with :math:`\Sigma_i` of variance :math:`\sigma_i^2` and correlation :math:`\rho`; :math:`\mu_0`
    uniform on :math:`\pm\max|x|`, :math:`\sigma_i` and :math:`\sigma_0` uniform up to 1,000 times
    the spread within and among datasets, :math:`\nu - 1` Gamma with shape uniform on [1, 2] and
    rate uniform on [.01, .1].

    Parameters
    ----------
    differences : matrix of shape (datasets, folds), sequence of arrays, mapping of dataset to array, or pandas.DataFrame
        Differences of one measure between two methods on the folds or repeats of each dataset, at
        least two of each; positive where the first method is better. Numbers of folds may differ.
    rho : float, or one a dataset
        Correlation of the differences of a dataset: n_test / (n_test + n_train) for the folds of a
        cross-validation (1/10 with ten of them), 0 for repeats with other seeds.
    rope : float
        Largest difference that does not matter, in units of the measure. 0.01 is the paper's, for
        accuracies in [0, 1].
    credible_level : float
        Of intervals.

    Returns
    -------
    HierarchicalT
        Of one pair, called "first" and "second".

    Raises
    ------
    ValueError
        Fewer than two datasets, one with fewer than two differences, missing or infinite values, no
        variation at all, rho outside [0, 1), a negative rope.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = hierarchical_t(rng.normal(0.02, 0.03, (12, 10)), rho=1 / 10)
    >>> found.table[["p_better", "p_equivalent", "p_worse"]].round(1).values.tolist()
    [[1.0, 0.0, 0.0]]
    """  # noqa: E501
    differences = in_pandas(differences, index="dataset")
    if isinstance(differences, pd.DataFrame):
        differences = dict(zip(differences.index, differences.to_numpy(dtype=float), strict=True))
    elif not isinstance(differences, Mapping):
        differences = dict(enumerate(differences))
    gaps = {name: np.asarray(part, dtype=float).ravel() for name, part in differences.items()}
    given = np.asarray(rho, dtype=float)
    if given.shape not in ((), (len(gaps),)) or not ((given >= 0) & (given < 1)).all():
        raise ValueError(
            f"`rho` must be one number in [0, 1), or one for each of the {len(gaps)} datasets, "
            f"got {rho!r}."
        )
    by_dataset = dict(zip(gaps, np.broadcast_to(given, len(gaps)), strict=True))
    return _found({("first", "second"): gaps}, by_dataset, float(rope), credible_level)


def hierarchical_pairs(
    values: Mapping[str, Mapping[Any, pd.DataFrame]],
    *,
    rho: Mapping[Any, float],
    ropes: Mapping[str, float],
    directions: Mapping[str, str],
    credible_level: float = 0.95,
) -> dict[str, HierarchicalT]:
    """`hierarchical_t` of every pair by measure, of tables folds or repeats x methods."""
    by_measure = {}
    for measure, tables in values.items():
        sign = -1.0 if directions[measure] == "min" else 1.0
        pairs = {}
        for a, b in combinations(dict.fromkeys(m for t in tables.values() for m in t), 2):
            both = {d: (t[a] - t[b]).dropna() for d, t in tables.items() if a in t and b in t}
            gaps = {d: sign * gap.to_numpy(float) for d, gap in both.items() if len(gap) > 1}
            if len(gaps) > 1:
                pairs[a, b] = gaps
        if pairs:
            by_measure[measure] = _found(pairs, rho, float(ropes[measure]), credible_level)
    if not by_measure:
        raise ValueError("`values` must have two methods on the same two datasets, got none.")
    return by_measure


def _found(
    pairs: Mapping[tuple[Any, Any], Mapping[Any, Array]],
    rho: Mapping[Any, float],
    rope: float,
    level: float,
) -> HierarchicalT:
    """The test of every pair, by its differences on each dataset."""
    probability(level, "credible_level")
    ends = [(1 - level) / 2, (1 + level) / 2]
    table, shrunken = [], []
    frozen: dict[Any, None] = {}
    for (a, b), gaps in pairs.items():
        correlations = np.array([rho[d] for d in gaps])
        data, constant = _data(gaps, correlations, checked_rope(rope, "the measure"))
        frozen |= dict.fromkeys(compress(gaps, constant))
        found = posterior(data)
        better = special.stdtr(found.freedom, (found.centre - rope) / found.among)
        worse = special.stdtr(found.freedom, (-rope - found.centre) / found.among)
        masses = np.stack([better, 1 - better - worse, worse])
        largest = masses.argmax(axis=0)
        row = {"method_a": a, "method_b": b, "n": len(gaps)}
        row |= {f"p_{o}": float(p @ found.mass) for o, p in zip(OUTCOMES, masses, strict=True)}
        row |= {f"share_{o}": found.mass[largest == i].sum() for i, o in enumerate(OUTCOMES)}
        row["mean_difference"] = float(found.centre @ found.mass)
        row["low"], row["high"] = _quantiles(found.centre, found.mass, ends).tolist()
        table.append(row)
        mu, mass = found.means()
        limits = np.array([_quantiles(at, of, ends) for at, of in zip(mu, mass, strict=True)])
        by_dataset = {
            "method_a": a,
            "method_b": b,
            "dataset": pd.Index([*gaps], tupleize_cols=False),
            "n": data.n,
            "mean": data.mean,
            "shrunken": (mu * mass).sum(axis=1),
            "low": limits[:, 0],
            "high": limits[:, 1],
        }
        shrunken.append(pd.DataFrame(by_dataset))
    rows = pd.DataFrame(table)
    told = []
    if frozen:
        within = "the rope" if rope else "the spread on the other datasets"
        told.append(
            f"On {some(frozen)} a difference is the same in every fold or repeat: it counts as "
            f"known to within {within}, the rule of the authors of the model."
        )
    if (n_datasets := int(rows["n"].min())) < FEW:
        few = count(n_datasets, "dataset")
        told.append(f"{few} say little about how far the next one may differ from them.")
    return HierarchicalT(rows, pd.concat(shrunken, ignore_index=True), rope, level, tuple(told))


def _data(gaps: Mapping[Any, Array], rho: Array, rope: float) -> tuple[Data, Bools]:
    """What the model needs, and where differences do not vary; ValueError if nothing is learned."""
    if len(gaps) < 2:
        text = f"`differences` must be of at least two datasets, got {len(gaps)}."
        raise ValueError(f"{text} On one, use `bayesian_t`.")
    rows = list(gaps.values())
    n = np.array([len(row) for row in rows])
    if bad := [d for d, row in gaps.items() if len(row) < 2 or not np.isfinite(row).all()]:
        raise ValueError(
            "`differences` must hold two or more finite differences a dataset, got fewer or others "
            f"for {some(bad)}. Leave these out."
        )
    mean = np.array([row.mean() for row in rows])
    squares = np.array([((row - row.mean()) ** 2).sum() for row in rows])
    largest = max(np.abs(row).max() for row in rows)
    constant = squares <= n * (NOISE * largest) ** 2
    among = mean.std()
    typical = among if constant.all() else np.sqrt(squares / n).sum() / (~constant).sum()
    if typical <= NOISE * largest:
        if rope == 0:
            raise ValueError(
                "`differences` must vary, got the same one everywhere. There is nothing to learn "
                "from them."
            )
        typical = rope
    # the authors' rule: what is the same in every fold counts as if folds were even on the rope
    squares = np.where(constant, n * (rope or typical) ** 2 / 3, squares)
    among = among if among > NOISE * largest else typical
    bound = max(largest, typical)
    return Data(mean, squares, n, rho, bound, WIDE * typical, WIDE * among), constant


@dataclass(frozen=True)
class Data:
    """What the differences of two methods say of the mean of each dataset, and the bounds of the
    priors: sigma_i up to `within`, sigma_0 from `least` to `among`."""

    mean: Array
    squares: Array
    n: Array
    rho: Array
    bound: float
    within: float
    among: float
    least: float = 0.0
    freedom: tuple[float, float] = (1.0, np.inf)

    @property
    def width(self) -> Array:
        """Standard error of the mean of each dataset."""
        factor = self.rho + (1 - self.rho) / self.n
        return np.sqrt(self.squares / (1 - self.rho) * factor / (self.n - 1))

    def log_likelihood(self, mu: Array) -> Array:
        """Of mu_i, datasets first, but for a constant; sigma_i is integrated out."""
        shape = (-1, *[1] * (mu.ndim - 1))
        squares = (self.squares / (1 - self.rho)).reshape(shape)
        factor = (self.rho + (1 - self.rho) / self.n).reshape(shape)
        half = (self.n - 1) / 2
        off = (mu - self.mean.reshape(shape)) ** 2 / (factor * squares)
        logs = -half.reshape(shape) * np.log(1 + off)
        for few, inside in ((0.5, special.erfc), (1.0, lambda x: np.exp(-(x**2)))):
            # sigma_i has a bound, which only two or three differences come near to
            if (rows := half == few).any():
                far = np.sqrt(squares[rows] * (1 + off[rows]) / 2) / self.within
                logs[rows] += np.log(np.maximum(inside(far), 1e-300))
        return logs


@dataclass(frozen=True)
class Posterior:
    """Points of the posterior of one pair, their masses, and log-likelihoods by dataset."""

    centre: Array
    among: Array
    freedom: Array
    mass: Array
    data: Data
    local: Array

    def means(self) -> tuple[Array, Array]:
        """Nodes of mu_i and their masses, datasets x nodes."""
        width = self.data.width[:, None]
        # Some points of the grid, each as often as its mass says, stand for all.
        at = np.searchsorted(np.cumsum(self.mass), (np.arange(POINTS) + 0.5) / POINTS)
        at = np.minimum(at, len(self.mass) - 1)
        mu = self.data.mean[:, None] + width * np.sinh(FINER)
        gap = width * np.cosh(FINER)
        density = np.zeros(mu.shape)
        for point, share in zip(*np.unique(at, return_counts=True), strict=True):
            # No narrower than the nodes are apart, or it would fall between them.
            among = np.maximum(self.among[point], gap * (FINER[1] - FINER[0]) / 2)
            z = (mu - self.centre[point]) / among
            t = _log_t(z, self.freedom[point]) - np.log(among)
            density += share * np.exp(t - self.local[:, [point]])
        mass = density * gap * np.exp(self.data.log_likelihood(mu))
        return mu, mass / mass.sum(axis=1, keepdims=True)


def posterior(data: Data) -> Posterior:
    """On a grid of mu_0 (in arsinh of its error), log sigma_0, log(nu - 1), narrowed twice."""
    width = data.width
    scale = 1 / np.sqrt((1 / width**2).sum())
    middle = float(np.median(data.mean))
    # below, sigma_0 makes no difference, and has hardly any prior mass
    smallest = max(data.least, min(data.among, width.min()) * np.exp(-7))
    low, high = np.array(data.freedom) - 1
    limits = np.array(
        [
            np.arcsinh((np.array([-data.bound, data.bound]) - middle) / scale),
            np.log([smallest, data.among]),
            np.log([max(low, 0.01), min(high, max(2 * low, 2_000.0))]),
        ]
    )
    box = limits.copy()
    for cells in (COARSE, COARSE, FINE):
        step = (box[:, 1] - box[:, 0]) / cells
        v, log_among, log_freedom = (
            start + (np.arange(n) + 0.5) * size
            for start, n, size in zip(box[:, 0], cells, step, strict=True)
        )
        prior = np.log(np.cosh(v))[:, None, None] + log_among[:, None]
        logs, density = _freedom_prior()
        prior = prior + log_freedom + np.interp(log_freedom, logs, density, right=-np.inf)
        axes = middle + scale * np.sinh(v), np.exp(log_among), np.exp(log_freedom) + 1
        local = _local(data, *axes)
        mass = prior.ravel() + local.sum(axis=0)
        mass = np.exp(mass - mass.max())
        mass /= mass.sum()
        for axis in range(3):
            along = mass.reshape(cells).sum(axis=tuple({0, 1, 2} - {axis}))
            full = np.flatnonzero(along > EMPTY)
            start = box[axis, 0]
            ends = start + (full[0] - 1) * step[axis], start + (full[-1] + 2) * step[axis]
            box[axis] = np.clip(ends, *limits[axis])
    centre, among, freedom = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    return Posterior(centre, among, freedom, mass, data, local)


def _local(data: Data, centre: Array, among: Array, freedom: Array) -> Array:
    """Log of the integral over mu_i of likelihood times t density, datasets x points; a node about
    either mean counts for its share of the place, so that both sums converge fast."""
    n = len(data.mean)
    centre, among = (x.reshape(-1, 1) for x in np.meshgrid(centre, among, indexing="ij"))
    stretch, slope = np.sinh(NODES), np.cosh(NODES)
    mean, width = data.mean[:, None, None], data.width[:, None, None]
    about_data = mean + width * stretch
    likelihood = np.exp(data.log_likelihood(about_data)) * width * slope
    powers = (freedom + 1) / 2
    density = np.exp(_log_t(stretch[:, None], freedom))
    out = np.empty((n, len(centre), len(freedom)))
    for at in slices(len(centre), max(1, BLOCK // (n * len(NODES) * len(freedom)))):
        c, a = centre[at], among[at]
        # squared distances of neighbours in the own and in the other set
        other = a**2 + (about_data - c) ** 2
        weight = likelihood / (1 + ((width * slope) ** 2 / other) ** 2)
        square = np.log1p(((about_data - c) / a) ** 2 / freedom[:, None, None, None])
        total = np.einsum("dpn,fdpn->dpf", weight, np.exp(-powers[:, None, None, None] * square))
        total *= np.exp(_log_t(np.zeros(1), freedom))  # the constant of the density
        mu = c + a * stretch
        other = width**2 + (mu - mean) ** 2
        weight = np.exp(data.log_likelihood(mu + 0 * mean)) * a * slope
        weight /= 1 + ((a * slope) ** 2 / other) ** 2
        total += weight @ density
        out[:, at] = np.log(np.maximum(total * STEP, 1e-300)) - np.log(a)
    return out.reshape(n, -1)


def _log_t(z: Array, freedom: Array) -> Array:
    """Log density of Student's t."""
    constant = special.gammaln((freedom + 1) / 2) - special.gammaln(freedom / 2)
    constant -= np.log(np.pi * freedom) / 2
    return constant - (freedom + 1) / 2 * np.log(1 + z**2 / freedom)


def _quantiles(values: Array, mass: Array, shares: ArrayLike) -> Array:
    """Where the distribution function has the shares; between the values as if normal."""
    points, at = np.unique(values, return_inverse=True)
    masses = np.bincount(at.ravel(), mass)
    places = np.concatenate([points[:1], (points[1:] + points[:-1]) / 2, points[-1:]])
    below = np.concatenate([[masses[0] / 2], np.cumsum(masses)[:-1], [1 - masses[-1] / 2]])
    z = special.ndtri(np.clip(below, 1e-12, 1 - 1e-12))
    return np.interp(special.ndtri(shares), z, places)


@cache
def _freedom_prior() -> tuple[Array, Array]:
    """Logarithms of nu - 1 and of its prior density, shape and rate integrated out."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    shape, rate = (low + (high - low) * (nodes + 1) / 2 for low, high in (SHAPE, RATE))
    logs = np.linspace(-20, 12, 2001)
    density = (
        shape[:, None] * np.log(rate)
        - special.gammaln(shape)[:, None]
        + (shape[:, None] - 1) * logs[:, None, None]
        - rate * np.exp(logs)[:, None, None]
    )
    return logs, special.logsumexp(density, axis=(1, 2), b=np.outer(weights, weights) / 4)


# --------------------------------------------------------------------------------------------------
# Whether a method would be better on the next dataset, from the folds or repeats of all.

#: Of accuracies, the paper takes differences up to a hundredth as too small to matter.
ROPE = 0.01
#: Of more methods than this only the best so many are compared, on so many measures.
MOST = 8
MEASURES_AT_MOST = 2


@dataclass(frozen=True)
class NextDataset:
    """What folds or repeats say about the next dataset: by measure the pairs of the best methods,
    and ropes; by dataset the correlation that was assumed, or why it is absent."""

    over: str
    pairs: Mapping[str, HierarchicalT]
    ropes: Mapping[str, float]
    ropes_from: Mapping[str, str]
    rho: Mapping[str, float]
    methods: list[str]
    absent: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def doubts(self) -> list[str]:
        """The notes, what the model warns of, each once, and what was left out."""
        texts = [*self.notes, *(text for tests in self.pairs.values() for text in tests.warnings)]
        texts += [f"{dataset} is left out: {why}" for dataset, why in self.absent.items()]
        return [*dict.fromkeys(texts)]

    def pair(self, measure: str, a: str, b: str) -> pd.Series | None:
        """The row of `pairs` with a as the first method, None where the two were not compared."""
        same = rows_of_pair(self.pairs[measure].table, a, b)
        return None if same.empty else same.iloc[0]

    def table(self, measure: str, order: Sequence[str]) -> pd.DataFrame:
        """The rows of `pairs`, the better method by `order` first, in that order."""
        table = self.pairs[measure].table
        table = better_first(table, behind(table, order))
        return table.loc[places(table, order).sort_values(["a", "b"]).index].reset_index(drop=True)


def next_dataset(
    study: Study,
    measures: Sequence[str],
    order: Sequence[str],
    *,
    rope: float | None = None,
    in_units: bool = False,
    alpha: float = 0.05,
    **declared: Unpack[Declared],
) -> NextDataset | None:
    """The test of the best methods on the folds, else the repeats; None where fewer than two
    datasets have any. The rope is a share of each measure's range, or `in_units` of it."""
    over, values = ("folds", study.folds) if study.folds is not None else ("repeats", study.repeats)
    if values is None:
        return None
    shown = list(order[:MOST])
    values = values[values.index.get_level_values(1).isin(shown)]
    measures = [m for m in measures if m in values.columns][:MEASURES_AT_MOST]
    frames, rho, absent, notes = _comparable_values(study, over, values[measures], declared)
    if len(rho) < 2 or not measures:
        return None
    tables = {m: {d: f[m].unstack(level=0) for d, f in frames.items()} for m in measures}
    sizes, reasons = {}, {}
    for m in measures:
        sizes[m], reasons[m] = _rope(m, study, rope, in_units)
    how: dict[str, Any] = {"ropes": sizes, "directions": study.directions}
    try:
        pairs = hierarchical_pairs(tables, rho=rho, credible_level=1 - alpha, **how)
    except ValueError:
        return None
    for measure, found in pairs.items():
        pairs[measure], unlike = found.without_far()
        if unlike:
            notes.append(
                f"Of {some(unlike)} by {measure}, the differences by dataset are far from the t "
                "distribution that the model takes: it cannot tell."
            )
    if len(order) > MOST:
        notes.append(f"Only the best {MOST} of {len(order)} methods are compared.")
    notes = [*dict.fromkeys(notes)]
    return NextDataset(over, pairs, sizes, reasons, rho, shown, absent, tuple(notes))


def _comparable_values(
    study: Study, over: str, values: pd.DataFrame, declared: Declared
) -> tuple[dict[str, pd.DataFrame], dict[str, float], dict[str, str], list[str]]:
    """By dataset the values that can be compared, their correlation, or why not; and notes."""
    frames, rho, absent = dict[str, pd.DataFrame](), dict[str, float](), dict[str, str]()
    notes: list[str] = []
    for dataset in study.datasets:
        if dataset not in values.index.get_level_values(0):
            absent[dataset] = f"no run on it has {over}"
            continue
        frame = values.xs(dataset, level=0)
        try:
            if over == "folds":
                frame, correlation, about = _folds(study, frame, dataset, declared)
                notes += about
            else:
                # as many of every method as the one with fewest has: any two make a pair
                whole, correlation = frame.dropna(), 0.0
                numbers = whole.groupby(level=0, sort=False).cumcount()
                keys = [whole.index.get_level_values(0), numbers]
                whole = whole.set_axis(pd.MultiIndex.from_arrays(keys))
                sizes = whole.groupby(level=0, sort=False).size().loc[lambda n: n > 1]
                if len(sizes) < 2:
                    raise ValueError("fewer than two methods have repeats on it")
                frame = whole.loc[pd.MultiIndex.from_product([sizes.index, range(sizes.min())])]
        except (MlevalError, ValueError) as error:
            absent[dataset] = str(error).rstrip(".")
        else:
            frames[dataset] = frame
            rho[dataset] = correlation
    return frames, rho, absent, notes


def _folds(
    study: Study, frame: pd.DataFrame, dataset: str, declared: Declared
) -> tuple[pd.DataFrame, float, list[str]]:
    """Values of the methods that share folds of the same split, their correlation, and notes."""
    shared = shared_folds(frame, dataset)
    methods = shared.methods
    runs = runs_of(study.runs, dataset, methods)
    notes = [f"On {dataset}, {e.name} {e.reason}." for e in shared.excluded]
    notes += [f"On {dataset}: {text}" for text in shared.notes]
    if "split_digest" in runs:
        digest = runs["split_digest"].fillna("").reindex(methods, fill_value="")
        most = digest[digest != ""].mode()
        if gone := [m for m in methods if digest[m] not in ("", *most[:1])]:
            methods = [m for m in methods if m not in gone]
            notes.append(f"On {dataset}, {some(gone)} had another split and are left out.")
    if len(methods) < 2:
        raise ValueError("no two methods had the same split")
    ways, _, _ = shared.blocks(runs, declared)
    how = widest([way for m, way in zip(shared.methods, ways, strict=True) if m in methods])
    correlation = 0.0 if how.ratio is None else how.ratio / (1 + how.ratio)
    return shared.table(frame).loc[methods], correlation, notes


def _rope(measure: str, study: Study, rope: float | None, in_units: bool) -> tuple[float, str]:
    """The largest difference that does not matter, in the measure's units, and its origin."""
    share = ROPE if rope is None else rope
    if in_units and rope is not None:
        return rope, "as given"
    low, high = MEASURES[measure].range if measure in MEASURES else (-np.inf, np.inf)
    if np.isfinite(high - low):
        return share * (high - low), f"{100 * share:g}% of its range"
    size = share * float(study.values[measure].abs().mean())
    return size, f"{100 * share:g}% of its mean size, for it has no bounds"
