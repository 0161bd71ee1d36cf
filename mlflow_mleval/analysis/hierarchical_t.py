r"""Would one method be better than another on the next dataset?

The hierarchical correlated t test over datasets and folds.

Corani, Benavoli, Demšar, Mangili & Zaffalon (2017), "Statistical comparison of classifiers through
Bayesian hierarchical modelling", Machine Learning 106, 1817-1837. The differences of dataset i over
its folds or repeats are normal about :math:`\mu_i` with standard deviation :math:`\sigma_i` and
correlate by :math:`\rho`; the :math:`\mu_i` are Student's t about :math:`\mu_0` with scale
:math:`\sigma_0` and :math:`\nu` degrees of freedom. The priors are the paper's.

It is integrated, not sampled. The spread of a dataset has a closed form. Its mean is integrated
over nodes about the data and about :math:`\mu_0`, each set as dense as its distribution is narrow.
What is left, :math:`\mu_0, \sigma_0, \nu`, is integrated over a grid: coarse ones find where the
posterior is, and a fine one measures it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.pairs import NOISE
from mlflow_mleval.validation import AnyArray, Array, Bools, in_pandas, probability
from mlflow_mleval.words import count, some

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
class Data:
    """What the differences of pairs x datasets say, and the bounds of the priors.

    Attributes
    ----------
    mean, squares : Pairs x datasets: mean, and sum of squares about it.
    n : Pairs x datasets: how many differences; 0 where a pair has none on the dataset.
    rho : Pairs x datasets: their correlation.
    bound, within, among : One a pair: mu_0 is uniform between -bound and bound, sigma_i up to `within`, sigma_0 up to `among`.
    least : One a pair: the smallest sigma_0, 0 but to check the model where it is known.
    freedom : Bounds of nu.
    """  # noqa: E501

    mean: Array
    squares: Array
    n: Array
    rho: Array
    bound: Array
    within: Array
    among: Array
    least: Array
    freedom: tuple[float, float] = (1.0, np.inf)

    def pairs(self, at: AnyArray) -> Data:
        """Some of the pairs."""
        names = ("mean", "squares", "n", "rho", "bound", "within", "among", "least")
        return replace(self, **{name: getattr(self, name)[at] for name in names})


@dataclass(frozen=True)
class HierarchicalT:
    """Posterior of the hierarchical correlated t test of two methods.

    Attributes
    ----------
    probabilities : better, equivalent, worse: that on the next dataset the difference is above the rope, within it, below it. The
        mean of these three masses over the posterior.
    share_of_draws : The same words: in which share of the posterior that mass is the largest, as in the paper and in baycomp. It says
        how sure it is which of the three is likeliest, not how likely that is.
    shrunken : By dataset: n (differences), mean (of them: the raw difference), shrunken (its posterior mean, drawn towards the
        other datasets), low, high (its credible interval).
    mean, low, high : Posterior mean of mu_0, the typical difference, with its credible interval.
    among, freedom : Posterior medians of sigma_0 (spread of the datasets) and nu.
    rope, credible_level : As given.
    rhat, effective_sample_size : 1 and infinite, for nothing is drawn.
    """  # noqa: E501

    probabilities: pd.Series
    share_of_draws: pd.Series
    shrunken: pd.DataFrame
    mean: float
    low: float
    high: float
    among: float
    freedom: float
    rope: float
    credible_level: float
    warnings: tuple[str, ...] = ()
    rhat: float = 1.0
    effective_sample_size: float = np.inf


@dataclass(frozen=True)
class HierarchicalPairs:
    """`hierarchical_t` of every pair of methods, each pair by itself.

    Attributes
    ----------
    table : One row a pair: method_a, method_b; n (datasets); p_better, p_equivalent, p_worse (of a; see
        `HierarchicalT.probabilities`), share_better, share_equivalent, share_worse (see
        `share_of_draws`); mean_difference (posterior mean of the typical difference) with low,
        high; among, freedom.
    shrunken : One row a pair and dataset: method_a, method_b, dataset, n, mean, shrunken, low, high.
    """  # noqa: E501

    table: pd.DataFrame
    shrunken: pd.DataFrame
    methods: list[Hashable]
    datasets: list[Hashable]
    rope: float
    credible_level: float
    warnings: tuple[str, ...] = ()


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

    Raises
    ------
    ValueError
        Fewer than two datasets, one with fewer than two differences, missing or infinite values, no
        variation at all, rho outside [0, 1), a negative rope.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = hierarchical_t(rng.normal(0.02, 0.03, (12, 10)), rho=1 / 10)
    >>> found.probabilities.round(1).tolist()
    [1.0, 0.0, 0.0]
    """  # noqa: E501
    labels, rows = _rows(differences)
    folds = (
        np.broadcast_to(np.asarray(rho, dtype=float), len(rows))
        if np.ndim(rho) == 0
        else np.asarray(rho, dtype=float)
    )
    if folds.shape != (len(rows),) or not ((folds >= 0) & (folds < 1)).all():
        raise ValueError(
            f"`rho` must be one number in [0, 1), or one for each of the {len(rows)} datasets, "
            f"got {rho!r}."
        )
    tests = _pairs([rows], folds, labels, np.array([float(rope)]), credible_level)[None]
    row = tests.table.iloc[0]
    probabilities, shares = (
        pd.Series([row[f"{kind}_{outcome}"] for outcome in OUTCOMES], OUTCOMES, name=name)
        for kind, name in (("p", "probability"), ("share", "share_of_draws"))
    )
    return HierarchicalT(
        probabilities,
        shares,
        tests.shrunken.set_index("dataset")[["n", "mean", "shrunken", "low", "high"]],
        float(row["mean_difference"]),
        float(row["low"]),
        float(row["high"]),
        float(row["among"]),
        float(row["freedom"]),
        tests.rope,
        credible_level,
        tests.warnings,
    )


def hierarchical_pairs(
    values: Mapping[str, Mapping[Any, pd.DataFrame]],
    *,
    rho: Mapping[Any, float],
    ropes: Mapping[str, float],
    directions: Mapping[str, str],
    credible_level: float = 0.95,
) -> dict[str, HierarchicalPairs]:
    """`hierarchical_t` of every pair of methods on every measure, all at once.

    `values` are by measure and dataset: folds or repeats x methods; a method may lack on a dataset,
    or some folds (NaN). `rho` is by dataset, `ropes` and `directions` ("max" or "min") are by
    measure. A ValueError as of `hierarchical_t`, or where no two methods share two datasets.
    """
    datasets = list(dict.fromkeys(dataset for tables in values.values() for dataset in tables))
    names = []
    rows = []
    for measure, tables in values.items():
        sign = -1.0 if directions[measure] == "min" else 1.0
        for (a, b), gaps in _gaps(tables, sign).items():
            names.append((measure, a, b))
            rows.append([_at_least_two(gaps.get(dataset)) for dataset in datasets])
    if not rows:
        raise ValueError("`values` must have two methods on the same two datasets, got none.")
    rope = np.array([float(ropes[measure]) for measure, *_ in names])
    by_measure = _pairs(
        rows,
        np.array([rho[d] for d in datasets]),
        datasets,
        rope,
        credible_level,
        names,
    )
    return {measure: by_measure[measure] for measure in values if measure in by_measure}


def _gaps(
    tables: Mapping[Any, pd.DataFrame],
    sign: float,
) -> dict[tuple[Hashable, Hashable], dict[Any, Array]]:
    """By pair of methods and dataset, their differences; only of pairs on two datasets or more."""
    columns = {
        dataset: {method: sign * table[method].to_numpy(float) for method in table}
        for dataset, table in tables.items()
    }
    methods = dict.fromkeys(method for values in columns.values() for method in values)
    by_pair = {
        (a, b): {d: of[a] - of[b] for d, of in columns.items() if a in of and b in of}
        for a, b in combinations(methods, 2)
    }
    return {pair: gaps for pair, gaps in by_pair.items() if len(gaps) > 1}


def _at_least_two(differences: Array | None) -> Array:
    """The differences that are there; none where they are fewer than two."""
    gaps = np.empty(0) if differences is None else differences[~np.isnan(differences)]
    return gaps if len(gaps) > 1 else np.empty(0)


def _rows(differences: Any) -> tuple[list[Hashable], list[Array]]:
    """Names of the datasets, and the differences on each."""
    differences = in_pandas(differences, index="dataset")
    if isinstance(differences, pd.DataFrame):
        labels = list(differences.index)
        parts = differences.to_numpy(dtype=float)
    elif isinstance(differences, Mapping):
        labels = list(differences)
        parts = list(differences.values())
    else:
        parts = list(differences)
        labels = list(range(len(parts)))
    return labels, [np.asarray(part, dtype=float).ravel() for part in parts]


def _pairs(
    rows: Sequence[Sequence[Array]],
    rho: Array,
    datasets: Sequence[Hashable],
    rope: Array,
    credible_level: float,
    names: Sequence[tuple[Any, Hashable, Hashable]] = ((None, "a", "b"),),
) -> dict[Any, HierarchicalPairs]:
    """The tests of all pairs by measure: `rows` are pairs x datasets of differences, none where a
    pair lacks on a dataset.
    """
    probability(credible_level, "credible_level")
    if not ((rope >= 0) & (rope < np.inf)).all():
        raise ValueError(
            f"`rope` must be zero or positive, in units of the measure, got {rope.min():g}."
        )
    data, constant = _data(rows, rho, datasets, rope)
    summaries = [
        _summary(data.pairs(np.array([i])), size, credible_level) for i, size in enumerate(rope)
    ]
    tables = pd.DataFrame([table for table, _ in summaries])
    used = data.n > 0
    labels = pd.Index(datasets, tupleize_cols=False)
    means = np.concatenate([by_dataset for _, by_dataset in summaries])
    of, first, second = (np.array([name[i] for name in names], dtype=object) for i in range(3))
    table = pd.DataFrame(
        {
            "method_a": first,
            "method_b": second,
            "n": used.sum(axis=1),
            **tables,
        }
    )
    pair, dataset = np.nonzero(used)
    by_dataset = pd.DataFrame(
        {
            "method_a": first[pair],
            "method_b": second[pair],
            "dataset": labels.take(dataset),
            "n": data.n[used],
            "mean": data.mean[used],
            **dict(zip(("shrunken", "low", "high"), means.T, strict=True)),
        }
    )
    by_measure = {}
    for measure in dict.fromkeys(of):
        mine = np.array([m == measure for m in of])
        part = table[mine].reset_index(drop=True)
        by_measure[measure] = HierarchicalPairs(
            part,
            by_dataset[mine[pair]].reset_index(drop=True),
            list(dict.fromkeys([*first[mine], *second[mine]])),
            list(datasets),
            float(rope[mine][0]),
            credible_level,
            (*_frozen(constant[mine], datasets, rope[mine][0]), *_doubts(part)),
        )
    return by_measure


def _frozen(constant: Bools, datasets: Sequence[Hashable], rope: float) -> list[str]:
    """What to tell of differences that do not vary; `constant` are pairs x datasets."""
    where = [datasets[int(i)] for i in np.flatnonzero(constant.any(axis=0))]
    within = "the rope" if rope else "the spread on the other datasets"
    return [
        f"On {some(where)} a difference is the same in every fold or repeat: it counts as known "
        f"to within {within}, the rule of the authors of the model."
    ] * bool(where)


def _doubts(table: pd.DataFrame) -> list[str]:
    """Where there are hardly any datasets."""
    least = int(table["n"].min())
    return [
        f"{count(least, 'dataset')} say little about how far the next one may differ from them."
    ] * (least < FEW)


def _check_rows(
    rows: Sequence[Sequence[Array]],
    n: AnyArray,
    datasets: Sequence[Hashable],
) -> None:
    """ValueError for differences from which nothing can be learned; `n` is their number."""
    if short := [datasets[int(i)] for i in np.flatnonzero((n == 1).any(axis=0))]:
        raise ValueError(
            "`differences` must hold at least two differences a dataset, got one for "
            f"{some(short)}. One tells nothing of the spread: leave the dataset out."
        )
    if (few := (n > 0).sum(axis=1).min()) < 2:
        raise ValueError(
            f"`differences` must be of at least two datasets, got {few}. On one, use `bayesian_t`."
        )
    if bad := [
        datasets[i]
        for i in range(len(datasets))
        if not all(np.isfinite(pair[i]).all() for pair in rows)
    ]:
        raise ValueError(
            f"`differences` must be finite, got missing or infinite ones for {some(bad)}. Leave "
            "these out."
        )


def _data(
    rows: Sequence[Sequence[Array]],
    rho: Array,
    datasets: Sequence[Hashable],
    rope: Array,
) -> tuple[Data, Bools]:
    """What the model needs, and on which datasets the differences of which pairs do not vary."""
    n = np.array([[len(row) for row in pair] for pair in rows])
    _check_rows(rows, n, datasets)
    mean = np.array([[row.mean() if len(row) else 0.0 for row in pair] for pair in rows])
    squares = np.array(
        [[((row - row.mean()) ** 2).sum() if len(row) else 0.0 for row in pair] for pair in rows]
    )
    largest = np.array([max(np.abs(row).max() for row in pair if len(row)) for pair in rows])
    used = n > 0
    constant = used & (squares <= n * (NOISE * largest[:, None]) ** 2)
    spread = np.sqrt(squares / np.maximum(n, 1))
    among = np.array([m[u].std() for m, u in zip(mean, used, strict=True)])
    typical = np.divide(
        spread.sum(axis=1),
        (used & ~constant).sum(axis=1),
        out=among.copy(),
        where=spread.any(axis=1),
    )
    same = typical <= NOISE * largest
    if (same & (rope == 0)).any():
        raise ValueError(
            "`differences` must vary, got the same one everywhere. There is nothing to learn "
            "from them."
        )
    typical = np.where(same, rope, typical)
    # the authors' rule: what is the same in every fold is known as well as if its folds were drawn
    # evenly from the rope
    squares = np.where(constant, n * np.where(rope > 0, rope, typical)[:, None] ** 2 / 3, squares)
    among = np.where(among > NOISE * largest, among, typical)
    return Data(
        mean,
        squares,
        n,
        np.broadcast_to(rho, n.shape),
        np.maximum(largest, typical),
        WIDE * typical,
        WIDE * among,
        np.zeros(len(n)),
    ), constant


@dataclass(frozen=True)
class _Grid:
    """Places of mu_0, sigma_0 and nu, of which every three make a point; by point, the log of the
    prior mass of its cell.
    """

    centre: Array
    among: Array
    freedom: Array
    prior: Array

    @property
    def points(self) -> tuple[Array, Array, Array]:
        """mu_0, sigma_0 and nu of each point."""
        axes = np.meshgrid(self.centre, self.among, self.freedom, indexing="ij")
        centre, among, freedom = (axis.ravel() for axis in axes)
        return centre, among, freedom


@dataclass(frozen=True)
class Posterior:
    """Points of the posterior of one pair, and their masses.

    Attributes
    ----------
    centre, among, freedom : mu_0, sigma_0 and nu.
    mass : They sum to one.
    datasets : Of `_Datasets`, which it is of.
    local : Datasets x points: log of the likelihood of a dataset there.
    """

    centre: Array
    among: Array
    freedom: Array
    mass: Array
    datasets: _Datasets
    local: Array

    def quantiles(self, values: Array, shares: ArrayLike) -> Array:
        """Of one of the parameters."""
        return _quantiles(values, self.mass, shares)

    def means(self) -> tuple[Array, Array]:
        """Nodes of mu_i and their masses, datasets x nodes."""
        data = self.datasets
        # Some points of the grid, each as often as its mass says, stand for all.
        at = np.searchsorted(np.cumsum(self.mass), (np.arange(POINTS) + 0.5) / POINTS)
        at = np.minimum(at, len(self.mass) - 1)
        mu = data.mean[:, None] + data.width[:, None] * np.sinh(FINER)
        gap = data.width[:, None] * np.cosh(FINER)
        density = np.zeros(mu.shape)
        for point, share in zip(*np.unique(at, return_counts=True), strict=True):
            # No narrower than the nodes are apart, or it would fall between them.
            among = np.maximum(self.among[point], gap * (FINER[1] - FINER[0]) / 2)
            z = (mu - self.centre[point]) / among
            t = _log_t(z, self.freedom[point]) - np.log(among)
            density += share * np.exp(t - self.local[:, [point]])
        mass = density * gap * np.exp(data.log_likelihood(mu))
        return mu, mass / mass.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class _Datasets:
    """What the differences of one pair say of the mean of each dataset, sigma_i integrated out."""

    mean: Array
    squares: Array
    factor: Array
    half: Array
    within: float

    @property
    def width(self) -> Array:
        """Standard error of the mean."""
        return np.sqrt(self.squares * self.factor / (2 * self.half))

    def log_likelihood(self, mu: Array) -> Array:
        """Of mu_i, datasets first, but for a constant."""
        shape = (-1, *[1] * (mu.ndim - 1))
        squares = self.squares.reshape(shape)
        half = self.half.reshape(shape)
        off = (mu - self.mean.reshape(shape)) ** 2 / (self.factor * self.squares).reshape(shape)
        logs = -half * np.log(1 + off)
        for few, inside in ((0.5, special.erfc), (1.0, lambda x: np.exp(-(x**2)))):
            # sigma_i has a bound, which only two or three differences come near to
            if (rows := self.half == few).any():
                far = np.sqrt(squares[rows] * (1 + off[rows]) / 2) / self.within
                logs[rows] += np.log(np.maximum(inside(far), 1e-300))
        return logs


def _t_constant(freedom: Array) -> Array:
    """Log of the constant in the density of Student's t."""
    gammas = special.gammaln((freedom + 1) / 2) - special.gammaln(freedom / 2)
    return gammas - np.log(np.pi * freedom) / 2


def _log_t(z: Array, freedom: Array) -> Array:
    """Log density of Student's t."""
    return _t_constant(freedom) - (freedom + 1) / 2 * np.log(1 + z**2 / freedom)


def _summary(data: Data, rope: float, level: float) -> tuple[dict[str, float], Array]:
    """The posterior of one pair, and of the mean of each of its datasets: mean, low, high."""
    found = posterior(data)
    better = special.stdtr(found.freedom, (found.centre - rope) / found.among)
    worse = special.stdtr(found.freedom, (-rope - found.centre) / found.among)
    masses = np.stack([better, 1 - better - worse, worse])
    largest = masses.argmax(axis=0)
    ends = [(1 - level) / 2, (1 + level) / 2]
    low, high = found.quantiles(found.centre, ends)
    table = {
        **{f"p_{o}": float(mass @ found.mass) for o, mass in zip(OUTCOMES, masses, strict=True)},
        **{f"share_{o}": float(found.mass[largest == i].sum()) for i, o in enumerate(OUTCOMES)},
        "mean_difference": float(found.centre @ found.mass),
        "low": low,
        "high": high,
        "among": float(np.exp(found.quantiles(np.log(found.among), 0.5))),
        "freedom": float(1 + np.exp(found.quantiles(np.log(found.freedom - 1), 0.5))),
    }
    mu, mass = found.means()
    limits = [_quantiles(at, of, ends) for at, of in zip(mu, mass, strict=True)]
    return table, np.column_stack([(mu * mass).sum(axis=1), limits])


def _quantiles(values: Array, mass: Array, shares: ArrayLike) -> Array:
    """Where the distribution function has the shares: it is known between the values, and at the
    first and last; elsewhere it is taken to be normal, which it nearly is in its tails.
    """
    points, at = np.unique(values, return_inverse=True)
    masses = np.bincount(at.ravel(), mass)
    places = np.concatenate([points[:1], (points[1:] + points[:-1]) / 2, points[-1:]])
    below = np.concatenate([[masses[0] / 2], np.cumsum(masses)[:-1], [1 - masses[-1] / 2]])
    z = special.ndtri(np.clip(below, 1e-12, 1 - 1e-12))
    return np.interp(special.ndtri(shares), z, places)


def posterior(data: Data) -> Posterior:
    """Of the pair that `data` has, one."""
    used = data.n[0] > 0
    n = data.n[0][used]
    rho = data.rho[0][used]
    datasets = _Datasets(
        data.mean[0][used],
        data.squares[0][used] / (1 - rho),
        rho + (1 - rho) / n,
        (n - 1) / 2,
        float(data.within[0]),
    )
    box = _limits(data, datasets)
    # mu_0 is laid out in units of its error if all datasets had the same mean.
    scale = 1 / np.sqrt((1 / datasets.width**2).sum())
    centre = float(np.median(datasets.mean))
    box[0] = np.arcsinh((box[0] - centre) / scale)
    limits = box.copy()
    for cells in (COARSE, COARSE, FINE):
        grid = _grid(box, cells, centre, scale)
        local = _local(datasets, grid)
        logs = grid.prior + local.sum(axis=0)
        mass = np.exp(logs - logs.max())
        mass /= mass.sum()
        box = _where(mass.reshape(cells), box, limits)
    return Posterior(*grid.points, mass, datasets, local)


def _limits(data: Data, datasets: _Datasets) -> Array:
    """Where mu_0, log sigma_0 and log(nu - 1) may be."""
    among = float(data.among[0])
    least = float(data.least[0])
    # Below, sigma_0 makes no difference, and has hardly any prior mass.
    smallest = max(least, min(among, datasets.width.min()) * np.exp(-7))
    low, high = np.array(data.freedom) - 1
    bound = float(data.bound[0])
    return np.array(
        [
            [-bound, bound],
            np.log([smallest, among]),
            np.log([max(low, 0.01), min(high, max(2 * low, 2_000.0))]),
        ]
    )


def _grid(box: Array, cells: tuple[int, ...], centre: float, scale: float) -> _Grid:
    """The middles of equal cells."""
    v, log_among, log_freedom = (
        low + (np.arange(n) + 0.5) * (high - low) / n
        for (low, high), n in zip(box, cells, strict=True)
    )
    prior = np.log(np.cosh(v))[:, None, None] + log_among[:, None]
    prior = prior + log_freedom + _log_prior(log_freedom)
    axes = (centre + scale * np.sinh(v), np.exp(log_among), np.exp(log_freedom) + 1)
    return _Grid(*axes, prior.ravel())


def _where(mass: Array, box: Array, limits: Array) -> Array:
    """The box without the cells at the ends of each axis that are all but empty."""
    found = []
    for axis, ((low, high), ends) in enumerate(zip(box, limits, strict=True)):
        along = mass.sum(axis=tuple({0, 1, 2} - {axis}))
        full = np.flatnonzero(along > EMPTY)
        step = (high - low) / len(along)
        found.append([low + (full[0] - 1) * step, low + (full[-1] + 2) * step])
        found[-1] = np.clip(found[-1], *ends)
    return np.array(found)


def _local(datasets: _Datasets, grid: _Grid) -> Array:
    """Log of the integral over mu_i of likelihood times t density: datasets x points."""
    n = len(datasets.mean)
    centre, among = (x.ravel() for x in np.meshgrid(grid.centre, grid.among, indexing="ij"))
    out = np.empty((n, len(centre), len(grid.freedom)))
    size = max(1, BLOCK // (n * len(NODES)))
    for start in range(0, len(centre), size):
        at = slice(start, start + size)
        out[:, at] = _integral(datasets, centre[at], among[at], grid.freedom)
    return out.reshape(n, -1)


def _integral(datasets: _Datasets, centre: Array, among: Array, freedom: Array) -> Array:
    """By nodes about the mean of the dataset and nodes about mu_0, each set spaced evenly in arsinh
    of its own units. A node counts for the share that its set has of the place: all but nothing
    where the other set is denser, and smooth in between, so that either sum converges fast.

    Datasets x places (of centre and among) x freedom: what does not depend on all three is computed
    once.
    """
    stretch = np.sinh(NODES)
    slope = np.cosh(NODES)
    mean = datasets.mean[:, None, None]
    width = datasets.width[:, None, None]
    centre = centre[:, None]
    among = among[:, None]
    constant = _t_constant(freedom)
    power = (freedom + 1) / 2
    # About the data; `own` and `other` are squared distances of neighbours in either set.
    mu = mean + width * stretch
    own = (width * slope) ** 2
    other = among**2 + (mu - centre) ** 2
    weight = np.exp(datasets.log_likelihood(mu)) * width * slope / (1 + (own / other) ** 2)
    square = ((mu - centre) / among) ** 2
    tails = (np.exp(-p * np.log1p(square / nu)) for p, nu in zip(power, freedom, strict=True))
    total = np.stack([(weight * tail).sum(axis=2) for tail in tails], axis=2) * np.exp(constant)
    # About mu_0.
    mu = centre + among * stretch
    own = (among * slope) ** 2
    other = width**2 + (mu - mean) ** 2
    weight = np.exp(datasets.log_likelihood(mu + 0 * mean)) * among * slope
    weight /= 1 + (own / other) ** 2
    total += weight @ np.exp(_log_t(stretch[:, None], freedom))
    return np.log(np.maximum(total * STEP, 1e-300)) - np.log(among)


@cache
def _prior_table() -> tuple[Array, Array]:
    """Logarithms of nu - 1 and of its prior density, over which shape and rate of the Gamma
    distribution are integrated out.
    """
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


def _log_prior(freedom: Array) -> Array:
    logs, density = _prior_table()
    return np.interp(freedom, logs, density, right=-np.inf)
