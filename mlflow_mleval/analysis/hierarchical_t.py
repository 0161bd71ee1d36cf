r"""Would one method be better than another on the next dataset?

The hierarchical correlated t test over datasets and folds.

Corani, Benavoli, Demšar, Mangili & Zaffalon (2017), "Statistical comparison of classifiers through
Bayesian hierarchical modelling", Machine Learning 106, 1817-1837. The differences of dataset i over
its folds or repeats are normal about :math:`\mu_i` with standard deviation :math:`\sigma_i` and
correlate by :math:`\rho`; the :math:`\mu_i` are Student's t about :math:`\mu_0` with scale
:math:`\sigma_0` and :math:`\nu` degrees of freedom. The priors are the paper's.

It is sampled by Gibbs steps, for all pairs and chains at once. Mean and sum of squares of the
differences of a dataset say all. With a weight :math:`\lambda_i` that makes the t of
:math:`\mu_i` a normal distribution, everything but :math:`\sigma_0` and :math:`\nu` has a known
conditional distribution; these two take Metropolis steps of several sizes, with :math:`\mu_0` and
:math:`\mu_i`, or :math:`\lambda_i`, integrated out, so that chains do not stick where
:math:`\sigma_0` is small.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import fft, special

from mlflow_mleval.analysis.pairs import NOISE
from mlflow_mleval.validation import at_least_one, probability
from mlflow_mleval.words import count, some

# --------------------------------------------------------------------------------------------------
# How far random draws of several chains can be trusted: rank-normalised split R-hat, and effective
# sample sizes.
#
# Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), "Rank-normalization, folding, and
# localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16(2). All
# functions take draws of shape (..., chains, draws), and work along the last two axes.

ConvergenceArray = NDArray[np.float64]
#: Chains that mixed are below this R-hat, and have more effective draws in all than this (Vehtari
#: et al. 2021).
RHAT, ENOUGH = 1.01, 400


def rhat(draws: ArrayLike) -> ConvergenceArray:
    """The larger of the R-hats of ranks and of folded ranks of split chains; 1 where nothing
    varies.

    >>> rng = np.random.default_rng(0)
    >>> bool(rhat(rng.normal(size=(4, 500))) < 1.01), bool(rhat(rng.normal(size=(4, 500)) + np.arange(4)[:, None]) > 1.5)
    (True, True)
    """  # noqa: E501
    x = _split(np.asarray(draws, dtype=float))
    return _rhat_by_ranks(x, _normal_ranks(x))


def effective_sample_size(draws: ArrayLike) -> ConvergenceArray:
    """The smallest of the effective sizes for the bulk and for both tails (5% and 95%).

    >>> rng = np.random.default_rng(0)
    >>> independent = rng.normal(size=(4, 500))
    >>> bool(effective_sample_size(independent) > 1000), bool(effective_sample_size(independent.cumsum(axis=1)) < 50)
    (True, True)
    """  # noqa: E501
    x = _split(np.asarray(draws, dtype=float))
    return _size_by_ranks(x, _normal_ranks(x))


def rhat_and_size(draws: ArrayLike) -> tuple[ConvergenceArray, ConvergenceArray]:
    """`rhat` and `effective_sample_size` of the same draws, which are ranked once."""
    x = _split(np.asarray(draws, dtype=float))
    ranks = _normal_ranks(x)
    return _rhat_by_ranks(x, ranks), _size_by_ranks(x, ranks)


def _rhat_by_ranks(x: ConvergenceArray, ranks: ConvergenceArray) -> ConvergenceArray:
    folded = np.abs(x - np.median(x, axis=(-2, -1), keepdims=True))
    return np.maximum(_rhat(ranks), _rhat(_normal_ranks(folded)))


def _size_by_ranks(x: ConvergenceArray, ranks: ConvergenceArray) -> ConvergenceArray:
    ends = np.quantile(x, [0.05, 0.95], axis=(-2, -1))[..., None, None]
    return np.minimum(_size(ranks), np.minimum(*(_size((x <= end).astype(float)) for end in ends)))


def _split(x: ConvergenceArray) -> ConvergenceArray:
    """Either half of a chain as a chain."""
    half = x.shape[-1] // 2
    return np.concatenate([x[..., :half], x[..., -half:]], axis=-2)


def _normal_ranks(x: ConvergenceArray) -> ConvergenceArray:
    from scipy import stats  # slow to load, and only this needs it

    flat = x.reshape(*x.shape[:-2], -1)
    ranks = stats.rankdata(flat, axis=-1)
    return special.ndtri((ranks - 0.375) / (flat.shape[-1] + 0.25)).reshape(x.shape)


def _spread(x: ConvergenceArray) -> tuple[ConvergenceArray, ConvergenceArray]:
    """Mean variance within chains, and the estimate of the whole variance."""
    n = x.shape[-1]
    within = x.var(axis=-1, ddof=1).mean(axis=-1)
    return within, within * (n - 1) / n + x.mean(axis=-1).var(axis=-1, ddof=1)


def _rhat(x: ConvergenceArray) -> ConvergenceArray:
    within, whole = _spread(x)
    return np.sqrt(np.divide(whole, within, out=np.where(whole > 0, np.inf, 1.0), where=within > 0))


def _size(x: ConvergenceArray) -> ConvergenceArray:
    """Draws divided by the autocorrelation time, which is summed over pairs of lags as long as they
    fall (Geyer 1992).
    """
    chains, n = x.shape[-2:]
    centred = x - x.mean(axis=-1, keepdims=True)
    spectrum = fft.rfft(centred, fft.next_fast_len(2 * n), axis=-1)
    power = (np.abs(spectrum) ** 2).mean(axis=-2)  # one transform back serves all chains
    covariance = fft.irfft(power, fft.next_fast_len(2 * n), axis=-1)[..., :n] / n
    within, whole = _spread(x)
    varies = whole > 0
    whole = np.where(varies, whole, 1.0)[..., None]
    correlation = 1 - (within[..., None] - covariance * n / (n - 1)) / whole
    correlation[..., 0] = 1.0
    even = n // 2 * 2
    pairs = correlation[..., :even:2] + correlation[..., 1:even:2]
    pairs = np.minimum.accumulate(
        np.where(np.logical_and.accumulate(pairs > 0, axis=-1), pairs, 0.0), axis=-1
    )
    time = np.maximum(2 * pairs.sum(axis=-1) - 1, 1 / np.log10(chains * n))
    return np.where(varies, chains * n / time, float(chains * n))


Array = NDArray[np.float64]
OUTCOMES = ["better", "equivalent", "worse"]
#: Standard deviations are uniform up to so many times the observed spread; the paper's.
WIDE = 1000.0
#: nu - 1 ~ Gamma(shape, rate), shape and rate uniform on these; the paper's.
SHAPE, RATE = (1.0, 2.0), (0.01, 0.1)
#: Fewer datasets than this, and the priors are heard.
FEW = 5
#: Chains, and draws of each that are left out before the others count.
CHAINS, WARM_UP = 8, 500
#: Sizes of the Metropolis steps, on a logarithmic scale; each is as likely.
STEPS = (0.2, 0.7, 2.5)
#: Means of datasets that are in memory at once.
BLOCK = 2**23


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

    def pairs(self, at: NDArray[Any]) -> Data:
        """Some of the pairs."""
        names = ("mean", "squares", "n", "rho", "bound", "within", "among", "least")
        return replace(self, **{name: getattr(self, name)[at] for name in names})


@dataclass(frozen=True)
class HierarchicalT:
    """Posterior of the hierarchical correlated t test of two methods.

    Attributes
    ----------
    probabilities : better, equivalent, worse: that on the next dataset the difference is above the rope, within it, below it. The
        mean of these three masses over the posterior draws.
    share_of_draws : The same words: in which share of the draws that mass is the largest, as in the paper and in baycomp. It says
        how sure it is which of the three is likeliest, not how likely that is.
    shrunken : By dataset: n (differences), mean (of them: the raw difference), shrunken (its posterior mean, drawn towards the
        other datasets), low, high (its credible interval).
    mean, low, high : Posterior mean of mu_0, the typical difference, with its credible interval.
    among, freedom : Posterior medians of sigma_0 (spread of the datasets) and nu.
    rope, credible_level : As given.
    rhat, effective_sample_size : The worst over everything that was drawn (rank-normalised split R-hat; bulk and tails).
    n_resamples, seed : Draws that count, over all chains.
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
    rhat: float
    effective_sample_size: float
    n_resamples: int
    seed: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class HierarchicalPairs:
    """`hierarchical_t` of every pair of methods, each pair by itself.

    Attributes
    ----------
    table : One row a pair: method_a, method_b; n (datasets); p_better, p_equivalent, p_worse (of a; see
        `HierarchicalT.probabilities`), share_better, share_equivalent, share_worse (see
        `share_of_draws`); mean_difference (posterior mean of the typical difference) with low,
        high; among, freedom, rhat, effective_sample_size.
    shrunken : One row a pair and dataset: method_a, method_b, dataset, n, mean, shrunken, low, high.
    """  # noqa: E501

    table: pd.DataFrame
    shrunken: pd.DataFrame
    methods: list[Hashable]
    datasets: list[Hashable]
    rope: float
    credible_level: float
    n_resamples: int
    seed: int
    warnings: tuple[str, ...] = ()

    @property
    def rhat(self) -> float:
        """The worst of all pairs."""
        return float(self.table["rhat"].max())

    @property
    def effective_sample_size(self) -> float:
        """The smallest of all pairs."""
        return float(self.table["effective_sample_size"].min())


def hierarchical_t(
    differences: ArrayLike | Sequence[ArrayLike] | Mapping[Hashable, ArrayLike] | pd.DataFrame,
    *,
    rho: ArrayLike,
    rope: float = 0.01,
    credible_level: float = 0.95,
    n_resamples: int = 20_000,
    seed: int = 0,
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
    n_resamples, seed : int
        Posterior draws, over eight chains.

    Returns
    -------
    HierarchicalT
        Its `warnings` tell where R-hat is above 1.01 or the effective sample size below 400.

    Raises
    ------
    ValueError
        Fewer than two datasets, one with fewer than two differences, missing or infinite values, no
        variation at all, rho outside [0, 1), a negative rope.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = hierarchical_t(rng.normal(0.02, 0.03, (12, 10)), rho=1 / 10)
    >>> found.probabilities.round(1).tolist(), bool(found.rhat < 1.01)
    ([1.0, 0.0, 0.0], True)
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
    found = _pairs(
        [rows], folds, labels, np.array([float(rope)]), credible_level, n_resamples, seed
    )[None]
    row = found.table.iloc[0]
    probabilities, shares = (
        pd.Series([row[f"{kind}_{outcome}"] for outcome in OUTCOMES], OUTCOMES, name=name)
        for kind, name in (("p", "probability"), ("share", "share_of_draws"))
    )
    return HierarchicalT(
        probabilities,
        shares,
        found.shrunken.set_index("dataset")[["n", "mean", "shrunken", "low", "high"]],
        float(row["mean_difference"]),
        float(row["low"]),
        float(row["high"]),
        float(row["among"]),
        float(row["freedom"]),
        found.rope,
        credible_level,
        np.float64(row["rhat"]),
        np.float64(row["effective_sample_size"]),
        found.n_resamples,
        seed,
        found.warnings,
    )


def hierarchical_pairs(
    values: Mapping[str, Mapping[Any, pd.DataFrame]],
    *,
    rho: Mapping[Any, float],
    ropes: Mapping[str, float],
    directions: Mapping[str, str],
    credible_level: float = 0.95,
    n_resamples: int = 20_000,
    seed: int = 0,
) -> dict[str, HierarchicalPairs]:
    """`hierarchical_t` of every pair of methods on every measure, all at once.

    `values` are by measure and dataset: folds or repeats x methods; a method may lack on a dataset,
    or some folds (NaN). `rho` is by dataset, `ropes` and `directions` ("max" or "min") are by
    measure. A ValueError as of `hierarchical_t`, or where no two methods share two datasets.
    """
    datasets = list(dict.fromkeys(dataset for tables in values.values() for dataset in tables))
    names, rows = [], []
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
        n_resamples,
        seed,
        names,
    )
    return {measure: by_measure[measure] for measure in values if measure in by_measure}


def _gaps(
    tables: Mapping[Any, pd.DataFrame], sign: float
) -> dict[tuple[Hashable, Hashable], dict[Any, pd.Series]]:
    """By pair of methods and dataset, their differences; only of pairs on two datasets or more."""
    methods = dict.fromkeys(method for table in tables.values() for method in table.columns)
    by_pair = {
        (a, b): {d: sign * (t[a] - t[b]) for d, t in tables.items() if a in t and b in t}
        for a, b in combinations(methods, 2)
    }
    return {pair: gaps for pair, gaps in by_pair.items() if len(gaps) > 1}


def _at_least_two(differences: pd.Series | None) -> Array:
    """The differences that are there; none where they are fewer than two."""
    gaps = np.empty(0) if differences is None else differences.dropna().to_numpy(float)
    return gaps if len(gaps) > 1 else np.empty(0)


def _rows(differences: Any) -> tuple[list[Hashable], list[Array]]:
    """Names of the datasets, and the differences on each."""
    if isinstance(differences, pd.DataFrame):
        labels, parts = list(differences.index), differences.to_numpy(dtype=float)
    elif isinstance(differences, Mapping):
        labels, parts = list(differences), list(differences.values())
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
    n_resamples: int,
    seed: int,
    names: Sequence[tuple[Any, Hashable, Hashable]] = ((None, "a", "b"),),
) -> dict[Any, HierarchicalPairs]:
    """The tests of all pairs by measure: `rows` are pairs x datasets of differences, none where a
    pair lacks on a dataset.
    """
    probability(credible_level, "credible_level")
    at_least_one(n_resamples, "n_resamples")
    if not ((rope >= 0) & (rope < np.inf)).all():
        raise ValueError(
            f"`rope` must be zero or positive, in units of the measure, got {rope.min():g}."
        )
    data, constant = _data(rows, rho, datasets, rope)
    rng, draws = np.random.default_rng(seed), -(-n_resamples // CHAINS)
    step, tables, parts = max(1, BLOCK // (draws * CHAINS * len(datasets))), [], []
    for at in range(0, len(rows), step):
        some_data, some_ropes = (
            data.pairs(np.arange(at, min(at + step, len(rows)))),
            rope[at : at + step],
        )
        table, means = _summary(some_data, rng, draws, some_ropes, credible_level)
        if (loose := _loose(table)).any():  # these need longer chains
            better, theirs = _summary(
                some_data.pairs(loose), rng, draws, some_ropes[loose], credible_level, every=5
            )
            table.loc[loose], means[loose] = better.to_numpy(), theirs
        tables.append(table)
        parts.append(means)
    used, means, labels = data.n > 0, np.concatenate(parts), pd.Index(datasets, tupleize_cols=False)
    of, first, second = (np.array([name[i] for name in names], dtype=object) for i in range(3))
    table = pd.DataFrame(
        {
            "method_a": first,
            "method_b": second,
            "n": used.sum(axis=1),
            **pd.concat(tables, ignore_index=True),
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
            **dict(zip(("shrunken", "low", "high"), means[used].T, strict=True)),
        }
    )
    found = {}
    for measure in dict.fromkeys(of):
        mine = np.array([m == measure for m in of])
        part = table[mine].reset_index(drop=True)
        found[measure] = HierarchicalPairs(
            part,
            by_dataset[mine[pair]].reset_index(drop=True),
            list(dict.fromkeys([*first[mine], *second[mine]])),
            list(datasets),
            float(rope[mine][0]),
            credible_level,
            draws * CHAINS,
            seed,
            (*_frozen(constant[mine], datasets, rope[mine][0]), *_doubts(part)),
        )
    return found


def _frozen(constant: NDArray[np.bool_], datasets: Sequence[Hashable], rope: float) -> list[str]:
    """What to tell of differences that do not vary; `constant` are pairs x datasets."""
    where = [datasets[int(i)] for i in np.flatnonzero(constant.any(axis=0))]
    within = "the rope" if rope else "the spread on the other datasets"
    return [
        f"On {some(where)} a difference is the same in every fold or repeat: it counts as known "
        f"to within {within}, the rule of the authors of the model."
    ] * bool(where)


def _doubts(table: pd.DataFrame) -> list[str]:
    """Where the draws are not to be trusted, and where there are hardly any datasets."""
    found, least = [], int(table["n"].min())
    if least < FEW:
        found.append(
            f"{count(least, 'dataset')} hardly tell how the next one may differ: the priors are "
            "heard."
        )
    if (loose := _loose(table)).any():
        worst = table[loose]
        found.append(
            f"The chains of {count(int(loose.sum()), 'pair')} did not settle (R-hat up to "
            f"{worst['rhat'].max():.3f}, effective sample size down to "
            f"{worst['effective_sample_size'].min():.0f}): take more draws before trusting these "
            "probabilities."
        )
    return found


def _loose(table: pd.DataFrame) -> NDArray[np.bool_]:
    """The pairs whose chains did not settle."""
    return ((table["rhat"] > RHAT) | (table["effective_sample_size"] < ENOUGH)).to_numpy()


def _check_rows(
    rows: Sequence[Sequence[Array]], n: NDArray[Any], datasets: Sequence[Hashable]
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
    rows: Sequence[Sequence[Array]], rho: Array, datasets: Sequence[Hashable], rope: Array
) -> tuple[Data, NDArray[np.bool_]]:
    """What the sampler needs, and on which datasets the differences of which pairs do not vary."""
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


def _summary(
    data: Data, rng: np.random.Generator, draws: int, rope: Array, level: float, every: int = 1
) -> tuple[pd.DataFrame, Array]:
    """The posterior of every pair as a table, and of the mean of every dataset: pairs x datasets x
    (mean, low, high).
    """
    centre, among, freedom, means = sample(data, rng, draws, every)
    flat = [x.reshape(len(x), -1) for x in (centre, among, freedom)]
    better = special.stdtr(flat[2], (flat[0] - rope[:, None]) / flat[1])
    worse = special.stdtr(flat[2], (-rope[:, None] - flat[0]) / flat[1])
    masses = np.stack([better, 1 - better - worse, worse])
    largest = masses.argmax(axis=0)
    ends = [(1 - level) / 2, (1 + level) / 2]
    drawn = np.concatenate([means, np.stack([centre, among, freedom], axis=1)], axis=1)
    used = np.pad(data.n > 0, ((0, 0), (0, 3)), constant_values=True)
    mixed, sizes = (
        np.where(used, x, none) for x, none in zip(rhat_and_size(drawn), (1.0, np.inf), strict=True)
    )
    low, high = np.quantile(flat[0], ends, axis=1)
    table = {
        **{
            f"p_{outcome}": mass.mean(axis=1)
            for outcome, mass in zip(OUTCOMES, masses, strict=True)
        },
        **{f"share_{outcome}": (largest == i).mean(axis=1) for i, outcome in enumerate(OUTCOMES)},
        "mean_difference": flat[0].mean(axis=1),
        "low": low,
        "high": high,
        "among": np.median(flat[1], axis=1),
        "freedom": np.median(flat[2], axis=1),
        "rhat": mixed.max(axis=1),
        "effective_sample_size": sizes.min(axis=1),
    }
    by_dataset = means.reshape(*means.shape[:2], -1)
    return pd.DataFrame(table), np.stack(
        [by_dataset.mean(axis=2), *np.quantile(by_dataset, ends, axis=2)], axis=2
    )


def sample(
    data: Data, rng: np.random.Generator, draws: int, every: int = 1
) -> tuple[Array, Array, Array, Array]:
    """Draws of mu_0, sigma_0 and nu, pairs x chains x draws, and of mu_i, pairs x datasets x chains
    x draws.

    Of so many steps as `every` says one is kept.
    """
    chains = _Chains(data, rng)
    out = [np.empty((*chains.each, draws)) for _ in range(3)]
    means = np.empty((*chains.shape, draws))
    for _ in range(WARM_UP):
        chains.step()
    for i in range(draws):
        for _ in range(every):
            chains.step()
        for kept, value in zip(
            out, (chains.typical, np.exp(chains.among), np.exp(chains.freedom) + 1), strict=True
        ):
            kept[..., i] = value
        means[..., i] = chains.mu
    return *out, means.swapaxes(1, 2)


class _Chains:
    """The state of all chains: pairs x chains (x datasets).

    Standard deviations and nu - 1 are logarithms, in which they step.
    """

    def __init__(self, data: Data, rng: np.random.Generator) -> None:
        self.rng, self.each = rng, (len(data.mean), CHAINS)
        self.shape = (*self.each, data.mean.shape[1])
        rho, n = data.rho[:, None], data.n[:, None]
        self.mean, self.used = data.mean[:, None], n > 0
        self.half = np.where(self.used, n - 1, 1) / 2
        self.squares = np.where(self.used, data.squares[:, None] / (1 - rho), 1.0)
        self.factor = np.where(
            self.used, rho + (1 - rho) / np.maximum(n, 1), np.inf
        )  # variance of the mean, in sigma_i^2
        self.loosest = 1 / data.within[:, None, None] ** 2  # precision of a dataset
        self.bound = data.bound[:, None]
        self.ends = np.log([np.maximum(data.least, 1e-12 * data.among), data.among])[..., None]
        self.ends_of_freedom = np.log(np.maximum(np.array(data.freedom) - 1, 1e-8))
        # every chain begins elsewhere
        self.variance = self.squares / (2 * self.half) * np.exp(rng.normal(0, 0.5, self.shape))
        self.weight = np.ones(self.shape)
        self.among = np.clip(self.ends[1] - np.log(WIDE) + rng.normal(0, 1, self.each), *self.ends)
        self.freedom = np.clip(rng.normal(2, 1, self.each), *self.ends_of_freedom)

    def step(self) -> None:
        """One draw of everything."""
        self._scale_and_means()
        self._scale_and_tails()
        self._weights_and_spreads()

    def _steps(self, *which: tuple[int, int]) -> Array:
        """Metropolis steps of sigma_0 and nu, those of either that are asked for."""
        size = (len(which), 2, *self.each)
        return (
            self.rng.choice(STEPS, size)
            * self.rng.normal(size=size)
            * np.array(which)[..., None, None]
        )

    def _inside(self, among: Array, freedom: Array) -> NDArray[np.bool_]:
        (least, most), (low, high) = self.ends, self.ends_of_freedom
        return (among >= least) & (among <= most) & (freedom >= low) & (freedom <= high)

    def _scale_and_means(self) -> None:
        """sigma_0 with mu_0 and mu_i integrated out; then these. nu moves along, and the weights by
        its distribution.
        """
        rng, logs = self.rng, np.log(self.weight)
        state = [
            self.among,
            self.freedom,
            logs,
            *self._without_means(self.among, self.freedom, logs),
            *_log_gamma(self.freedom),
        ]
        for step in self._steps((1, 0), (1, 1)):
            among, freedom = state[0] + step[0], state[1] + step[1]
            inside = self._inside(among, freedom)
            freedom = np.where(inside, freedom, state[1])
            middle, spread = _log_gamma(freedom)
            times = spread / state[7]
            logs = (state[2] - state[6][..., None]) * times[..., None] + middle[..., None]
            asked = [
                among,
                freedom,
                logs,
                *self._without_means(among, freedom, logs),
                middle,
                spread,
            ]
            gain = asked[3] - state[3] + self.shape[2] * np.log(times)
            taken = inside & (np.log(rng.random(self.each)) < gain)
            of_each = {2: taken, 3: taken[..., None]}
            state = [
                np.where(of_each[old.ndim], new, old) for new, old in zip(asked, state, strict=True)
            ]
        self.among, self.freedom, logs, _, centre, error, *_ = state
        self.weight = np.exp(logs)
        low, high = self._within_bound(centre, error)
        z = special.ndtri(low + rng.random(self.each) * (high - low))
        self.typical = np.clip(centre + np.copysign(error, centre) * z, -self.bound, self.bound)
        known, drawn = (
            1 / (self.variance * self.factor),
            self.weight * np.exp(-2 * self.among)[..., None],
        )
        mu = (known * self.mean + drawn * self.typical[..., None]) / (known + drawn)
        self.mu = mu + rng.normal(size=self.shape) / np.sqrt(known + drawn)

    def _without_means(
        self, among: Array, freedom: Array, logs: Array
    ) -> tuple[Array, Array, Array]:
        """Log density of sigma_0, nu and weights without mu_0 and mu_i; mean and standard error of
        mu_0.
        """
        weight = np.exp(logs)
        w = 1 / (self.variance * self.factor + np.exp(2 * among)[..., None] / weight)
        total = w.sum(axis=2)
        centre, error = (w * self.mean).sum(axis=2) / total, 1 / np.sqrt(total)
        squared = (
            w * (self.mean - centre[..., None]) ** 2 - np.log(np.where(self.used, w, 1.0))
        ).sum(axis=2)
        low, high = self._within_bound(centre, error)
        inside = np.maximum(high - low, 1e-300)
        half = (np.exp(freedom) + 1) / 2
        of_weights = self.shape[2] * (half * np.log(half) - special.gammaln(half)) + half * (
            logs - weight
        ).sum(axis=2)
        return (
            among
            - squared / 2
            + np.log(error * inside)
            + freedom
            + _log_prior(freedom)
            + of_weights,
            centre,
            error,
        )

    def _within_bound(self, centre: Array, error: Array) -> Array:
        """Normal probabilities below either bound of mu_0, whose centre is taken as positive: small
        ones are then exact.
        """
        return special.ndtr(
            (np.array([-1.0, 1.0])[:, None, None] * self.bound - np.abs(centre)) / error
        )

    def _around(self, mu: Array) -> Array:
        """Sum of squares of the folds about mu_i, whitened."""
        return self.squares + (self.mean - mu) ** 2 / self.factor

    def _scale_and_tails(self) -> None:
        """sigma_0 and nu with the weights integrated out."""
        off = (self.mu - self.typical[..., None]) ** 2
        now = self._without_weights(self.among, self.freedom, off)
        for step in self._steps((0, 1), (1, 1)):
            among, freedom = self.among + step[0], self.freedom + step[1]
            inside = self._inside(among, freedom)
            freedom = np.where(inside, freedom, self.freedom)
            then = self._without_weights(among, freedom, off)
            taken = inside & (np.log(self.rng.random(self.each)) < then - now)
            self.among, self.freedom, now = (
                np.where(taken, new, old)
                for new, old in ((among, self.among), (freedom, self.freedom), (then, now))
            )

    def _without_weights(self, among: Array, freedom: Array, off: Array) -> Array:
        """Log density of sigma_0 and nu; `off` are the squared distances of mu_i from mu_0."""
        nu = np.exp(freedom) + 1
        each = special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2) - 0.5 * np.log(nu) - among
        logs = np.log1p(off * (np.exp(-2 * among) / nu)[..., None]).sum(axis=2)
        return among + freedom + _log_prior(freedom) + self.shape[2] * each - (nu + 1) / 2 * logs

    def _weights_and_spreads(self) -> None:
        off = (self.mu - self.typical[..., None]) ** 2 * np.exp(-2 * self.among)[..., None]
        nu = np.exp(self.freedom)[..., None] + 1
        self.weight = self.rng.standard_gamma(np.broadcast_to((nu + 1) / 2, self.shape)) / (
            (nu + off) / 2
        )
        half, rate = np.broadcast_to(self.half, self.shape), self._around(self.mu) / 2
        precision = self.rng.standard_gamma(half) / rate
        if (far := precision <= self.loosest).any():
            least = (rate * self.loosest)[far]
            left = special.gammaincc(half[far], least) * (1 - self.rng.random(least.shape))
            precision[far] = np.maximum(special.gammainccinv(half[far], left), least) / rate[far]
        self.variance = 1 / precision


def _log_gamma(freedom: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the logarithm of a weight, which is Gamma(nu / 2, nu / 2)."""
    half = (np.exp(freedom) + 1) / 2
    return special.psi(half) - np.log(half), np.sqrt(special.zeta(2, half))


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
