"""Two methods over folds on several measures at once: Hotelling's paired T-squared and the combined
5x2 cv test, for one pair or all pairs of many methods.

Yıldız & Alpaydın (2014), "Multivariate comparison of classification algorithms"; Rencher (1995),
"Methods of multivariate analysis"; Nadeau & Bengio (2003), "Inference for the generalization
error", for folds that share training data; Alpaydın (1999), "Combined 5x2 cv F test for comparing
supervised classification learning classifiers", and Dietterich (1998).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds import covariance as cov
from mlflow_mleval.analysis.folds.covariance import NOISE
from mlflow_mleval.analysis.pairs import decided, holm, named_pairs
from mlflow_mleval.analysis.resampling import length_pvalue
from mlflow_mleval.sentences import count
from mlflow_mleval.validation import AnyArray, Array, Ints, one_of, probability, same_axes

METHODS = ("f", "permutation")
#: Random swaps of the permutation test, which goes through all of them up to 17 folds.
SWAPS = 100_000
#: Pairs of methods that are handled together: their folds fit the cache.
BLOCK = 2048
#: Of twofold cross-validation in the combined 5x2 cv test.
REPEATS = 5


@dataclass(frozen=True)
class HotellingResult:
    """Hotelling's T-squared test of two methods. `scaled_direction` is per standard deviation;
    intervals of `posthoc` are not corrected, its p-values by Holm."""

    statistic: float
    f_statistic: float
    df: tuple[int, int]
    pvalue: float
    mean_difference: pd.Series
    direction: pd.Series
    scaled_direction: pd.Series
    posthoc: pd.DataFrame
    measures: list[Hashable]
    dropped: dict[Hashable, str]
    warnings: tuple[str, ...] = ()


def hotelling(
    x1: ArrayLike | pd.DataFrame,
    x2: ArrayLike | pd.DataFrame,
    *,
    measures: Sequence[Hashable] | None = None,
    ratio: float | None = None,
    paired: bool = True,
    dependent: str = "error",
    method: str = "f",
    alpha: float = 0.05,
    seed: int = 0,
) -> HotellingResult:
    r"""Test whether two methods differ in the mean of any measure or combination of measures over
    folds.

    With the differences :math:`d_j = x_{1j} - x_{2j}` on folds j = 1 .. R, their mean :math:`\bar
    d` and covariance :math:`S_d`, :math:`T^2 = R\,\bar d^T S_d^{-1} \bar d` and
    :math:`\frac{R-p}{p(R-1)} T^2 \sim F(p, R-p)` (Yıldız & Alpaydın 2014, eq. 1). With one measure
    this is the paired t test, :math:`T^2 = t^2`. The direction of the largest difference is
    :math:`S_d^{-1}\bar d` (eq. 2).

    Folds of cross-validation share training data, so that this test rejects too often. Nadeau &
    Bengio's (2003) variance of the mean, :math:`(1/R + n_{test}/n_{train}) S_d` in place of
    :math:`S_d / R`, divides :math:`T^2` by :math:`1 + R \cdot ratio`; it is exact where all folds
    correlate by n_test / (n_test + n_train).

    Parameters
    ----------
    x1, x2 : array_like or pandas.DataFrame, shape (folds, measures)
        Values of either method, in the same order of folds.
    measures : sequence, optional
        Names; those of the columns of a DataFrame by default.
    ratio : float, optional
        n_test / n_train of a fold: 1/9 in 10-fold cross-validation, also when repeated. None or 0:
        folds are independent.
    paired : bool
        False: the folds of both methods are not the same; two-sample test with the pooled
        covariance. Less powerful.
    dependent : {"error", "drop"}
        What to do about measures that follow linearly from those before them (tp + fn is fixed,
        say).
    method : {"f", "permutation"}
        "permutation": p-value by swapping the methods fold by fold (paired only), all 2^R swaps up
        to 17 folds, 100,000 random ones beyond. It needs no normal distribution, but cannot be
        combined with `ratio`.
    alpha : float
        Level for the post hoc tests and `significant`.
    seed : int
        Of random swaps.

    Raises
    ------
    ValueError
        Shapes differ, values are missing, folds are too few (it takes more folds than measures), or
        measures are linearly dependent: they are named.

    Examples
    --------
    >>> a = pd.DataFrame({"precision": [0.80, 0.82, 0.79, 0.85, 0.81, 0.83], "recall": [0.60, 0.59, 0.62, 0.63, 0.58, 0.61]})
    >>> b = pd.DataFrame({"precision": [0.78, 0.79, 0.78, 0.81, 0.80, 0.79], "recall": [0.61, 0.62, 0.63, 0.63, 0.61, 0.63]})
    >>> result = hotelling(a, b, ratio=1 / 5)
    >>> round(result.statistic, 3), result.df, round(result.pvalue, 4)
    (18.459, (2, 4), 0.0454)
    >>> result.posthoc["pvalue_corrected"].round(4).tolist()
    [0.0605, 0.0722]
    """  # noqa: E501
    one_of(dependent, "dependent", cov.DEPENDENT)
    one_of(method, "method", METHODS)
    probability(alpha, "alpha")
    ratio = cov.checked_ratio(ratio)
    first = cov.table_of(x1, "x1", 2)
    second = cov.table_of(x2, "x2", 2)
    if paired:
        same_axes(x1, "x1", x2, "x2")
    names = cov.names_of(measures, x1, "measures", first.shape[1])
    if first.shape[1] != second.shape[1] or (paired and len(first) != len(second)):
        raise ValueError(
            f"`x2` must have the shape {first.shape} of `x1`, got {second.shape}. Columns are the "
            "same measures in both, and rows the same folds where these are paired."
        )
    if min(len(first), len(second)) < 2:
        raise ValueError(_too_few("x1", len(first), len(names), 0, paired))
    if method == "permutation" and (ratio or not paired):
        raise ValueError(
            "`method` must be 'f' with `ratio` or unpaired folds, got 'permutation'. Swapping "
            "the methods within folds needs the same folds, and these independent."
        )
    size = np.maximum(np.abs(first).max(axis=0), np.abs(second).max(axis=0))
    samples = [first - second] if paired else [first, -second]
    means = [x.mean(axis=0) for x in samples]
    mean = np.sum(means, axis=0)
    residuals = np.concatenate([x - m for x, m in zip(samples, means, strict=True)])
    df = len(residuals) - len(samples)
    spread = sum(cov.variance_factor(len(x), ratio) for x in samples)
    independent: list[int] = list(range(len(names)))
    dropped: dict[Hashable, str] = {}
    warnings = []
    if (mean != 0).any() or (np.abs(residuals) > NOISE * size).any():
        independent, dropped = cov.independent_columns(residuals, names, size, df, dependent, mean)
        warnings = cov.left_out(dropped)
    else:
        warnings.append(
            "Both methods have the same values in every fold: there is nothing to test, and p is "
            "1 by convention."
        )
    p = len(independent)
    names = [names[k] for k in independent]
    if df < p:
        raise ValueError(_too_few("x1", len(first), p, df, paired))
    mean = mean[independent]
    residuals = residuals[:, independent]
    quadratic, direction, _ = cov.solve_pairs(
        residuals.T[..., None].copy(), mean[:, None].copy(), size[independent, None]
    )
    t2 = quadratic.item() * df / spread
    f, pvalue = t2_pvalue(t2, p, df)
    if method == "permutation":
        pvalue = _swap_pvalue(samples[0][:, independent], seed)
    if not warnings and df - p < 2:
        warnings.append(
            f"{p} measures on {len(first)} folds: the test sees hardly anything. Use fewer "
            "measures or more folds."
        )
    deviation = np.sqrt((residuals**2).sum(axis=0) / df)
    error = deviation * np.sqrt(spread)
    t = np.divide(mean, error, out=np.zeros_like(mean), where=error > 0)
    margin = special.stdtrit(df, 1 - alpha / 2) * error
    posthoc = {
        "mean_difference": mean,
        "low": mean - margin,
        "high": mean + margin,
        "statistic": t,
        **decided(2 * special.stdtr(df, -np.abs(t)), alpha),
    }
    by_measure = pd.Index(names, name="measure", tupleize_cols=False)
    direction = direction[:, 0] * df
    return HotellingResult(
        statistic=t2,
        f_statistic=f,
        df=(p, df - p + 1),
        pvalue=float(pvalue),
        mean_difference=pd.Series(mean, names, name="mean_difference"),
        direction=pd.Series(direction, names, name="direction"),
        scaled_direction=pd.Series(direction * deviation, names, name="scaled_direction"),
        posthoc=pd.DataFrame(posthoc, by_measure),
        measures=names,
        dropped=dropped,
        warnings=tuple(warnings),
    )


def _swap_pvalue(difference: Array, seed: int) -> float:
    """Share of the swaps of methods within folds with a T-squared at least as large."""
    if not difference.any():
        return 1.0
    base = np.linalg.svd(difference / np.abs(difference).max(axis=0), full_matrices=False)[0]
    return length_pvalue(base, SWAPS, seed)


class PairNumbers(NamedTuple):
    """What a test finds, one row a pair, and pairs x measures; NaN where there is a problem."""

    statistic: Array
    f_statistic: Array
    pvalue: Array
    df: Array
    problem: AnyArray
    difference: Array
    direction: Array
    error: Array
    single: Array


def t2_of_pairs(
    values: Array,
    names: Sequence[Hashable],
    first: Ints,
    second: Ints,
    ratio: float | None = None,
    paired: bool = True,
) -> PairNumbers:
    """T-squared of pairs, by the positions of their methods in values methods x folds x
    measures."""
    _, n_folds, p = values.shape
    samples = 1 if paired else 2
    df = samples * (n_folds - 1)
    if df < p:
        raise ValueError(_too_few("x", n_folds, p, df, paired))
    spread = samples * cov.variance_factor(n_folds, ratio)
    means = np.ascontiguousarray(values.mean(axis=1).T)
    left = values - values.mean(axis=1, keepdims=True)
    folds = np.ascontiguousarray(left.transpose(2, 1, 0))
    largest = np.abs(values).max(axis=1).T
    size = np.maximum(largest[:, first], largest[:, second])
    difference = means[:, first] - means[:, second]
    error = np.empty(difference.shape)
    direction = np.empty(difference.shape)
    quadratic = np.empty(len(first))
    singular = np.empty(len(first), dtype=np.int64)
    for start in range(0, len(first), BLOCK):
        at = slice(start, start + BLOCK)
        one = folds.take(first[at], axis=2)
        other = folds.take(second[at], axis=2)
        residuals = one - other if paired else np.concatenate([one, other], axis=1)
        error[:, at] = np.einsum("krn,krn->kn", residuals, residuals)
        quadratic[at], direction[:, at], singular[at] = cov.solve_pairs(
            residuals, difference[:, at].copy(), size[:, at]
        )
    error = np.sqrt(error * (spread / df))
    t2 = quadratic * (df / spread)
    bad = singular >= 0
    if bad.any():
        constant = error <= NOISE * size
        error[constant] = 0.0
        difference[constant & (np.abs(difference) <= NOISE * size)] = 0.0
        same = (constant & (difference == 0)).all(axis=0)
        bad &= ~same
        for numbers in (t2, direction):
            numbers[..., same] = 0.0
            numbers[..., bad] = np.nan
    f, pvalue = t2_pvalue(t2, p, df)
    t = np.divide(difference, error, out=np.where(difference == 0, 0.0, np.nan), where=error > 0)
    single = 2 * special.stdtr(df, -np.abs(t))
    problem = cov.problems(names, singular, bad)
    by_measure = (difference.T, direction.T * df, error.T, single.T)
    return PairNumbers(t2, f, pvalue, np.full(len(first), float(df)), problem, *by_measure)


def f_of_pairs(
    values: Array,
    names: Sequence[Hashable],
    first: Ints,
    second: Ints,
) -> PairNumbers:
    """The combined 5x2 cv test of pairs, as `t2_of_pairs`; see `five_by_two`."""
    n_methods, n_folds, p = values.shape
    if n_methods < 2 or n_folds != 2 * REPEATS or p > REPEATS:
        raise ValueError(
            f"`x` must hold at least two methods on ten folds and at most {REPEATS} measures, "
            f"got {n_methods} methods, {n_folds} folds and {p} measures. Five repetitions of "
            "twofold cross-validation give five degrees of freedom."
        )
    n = len(first)
    size = np.abs(values).max(axis=1)
    determinants = np.empty(n)
    f = np.empty((n, p))
    mean = np.empty((n, p))
    direction = np.empty((n, p))
    singular = np.empty(n, dtype=np.int64)
    for start in range(0, n, BLOCK):
        at = slice(start, start + BLOCK)
        d = values[first[at]] - values[second[at]]
        largest = np.maximum(size[first[at]], size[second[at]])
        d[np.abs(d) <= NOISE * largest[:, None]] = 0.0
        spread = (d[:, ::2] - d[:, 1::2]) / np.sqrt(2)
        spread[np.abs(spread) <= NOISE * largest[:, None]] = 0.0
        within = (spread**2).sum(axis=1)
        between = (d**2).sum(axis=1)
        unvaried = np.where(between == 0, 0.0, np.nan)
        f[at] = np.divide(between, 2 * within, out=unvaried, where=within > 0)
        mean[at] = d.mean(axis=1)
        solved = cov.solve_pairs(spread.transpose(2, 1, 0).copy(), mean[at].T.copy(), largest.T)
        direction[at] = solved[1].T
        singular[at] = solved[2]
        unit = np.sqrt(np.where(within > 0, within, 1.0))[:, None]
        e = spread / unit
        t = np.concatenate([spread, d], axis=1) / unit
        logs = [np.linalg.slogdet(np.swapaxes(m, 1, 2) @ m)[1] for m in (e, t)]
        determinants[at] = np.subtract(logs[0], logs[1], out=np.zeros(len(d)), where=solved[2] < 0)
    wilks = np.exp(determinants)
    same = (mean == 0).all(axis=1) & (f == 0).all(axis=1)
    bad = (singular >= 0) & ~same
    wilks[same] = 1.0
    wilks[bad] = np.nan
    direction[same] = 0.0
    direction[bad] = np.nan
    statistic, _, _, pvalue = rao_f(wilks, p, 2 * REPEATS, REPEATS)
    problem = cov.problems(names, singular, bad)
    single = special.fdtrc(2 * REPEATS, REPEATS, f)
    numbers = (wilks, statistic, pvalue, np.full(n, float(REPEATS)))
    return PairNumbers(*numbers, problem, mean, direction, np.full((n, p), np.nan), single)


@dataclass(frozen=True)
class FoldTests:
    """Tests of every pair over folds, on several measures together: p-values by Holm over the
    pairs, those of single measures over the measures of a pair."""

    table: pd.DataFrame
    differences: pd.DataFrame
    directions: pd.DataFrame
    posthoc_pvalues: pd.DataFrame
    posthoc_corrected: pd.DataFrame
    df: tuple[float, float]
    methods: list[Hashable]
    measures: list[Hashable]
    dropped: dict[Hashable, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def hotelling_pairs(
    x: ArrayLike,
    *,
    methods: Sequence[Hashable] | None = None,
    measures: Sequence[Hashable] | None = None,
    ratio: float | None = None,
    paired: bool = True,
    dependent: str = "error",
    alpha: float = 0.05,
) -> FoldTests:
    """`hotelling` for every pair of methods, all at once.

    Parameters
    ----------
    x : array_like, shape (methods, folds, measures)
    methods, measures : sequence, optional
        Names; numbers by default.
    ratio, paired, dependent, alpha
        As in `hotelling`. All pairs are tested on the same measures: one is dependent if it is so
        over all methods. A pair of which the differences alone are singular cannot be tested, and
        its row says so.

    Raises
    ------
    ValueError
        As `hotelling`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(3, 10, 2)) + np.array([[0, 0], [0, 0], [3, -3]])[:, None]
    >>> pairs = hotelling_pairs(x, methods=["a", "b", "c"], ratio=1 / 9)
    >>> pairs.table["significant"].tolist()
    [False, True, True]
    """
    one_of(dependent, "dependent", cov.DEPENDENT)
    ratio = cov.checked_ratio(ratio)
    values = cov.table_of(x, "x", 3)
    names = cov.names_of(measures, None, "measures", values.shape[-1])
    if len(values) < 2:
        raise ValueError(f"`x` must hold at least two methods, got {len(values)}.")
    independent, dropped = pair_measures(values, names, paired, dependent)
    names = [names[k] for k in independent]
    pairs = np.triu_indices(len(values), 1)
    found = t2_of_pairs(values.take(independent, axis=2), names, *pairs, ratio, paired)
    df = len(names), int(found.df[0]) - len(names) + 1
    warnings = cov.left_out(dropped)
    if untested := int(np.isnan(found.pvalue).sum()):
        warnings.append(
            f"{untested} of {len(found.pvalue)} pairs could not be tested: their differences are "
            "linearly dependent or do not vary."
        )
    of = cov.names_of(methods, None, "methods", len(values))
    return _fold_tests(found, of, names, df, alpha, dropped, warnings)


def pair_measures(
    values: Array,
    names: Sequence[Hashable],
    paired: bool,
    dependent: str,
) -> tuple[list[int], dict[Hashable, str]]:
    """`tested_measures`, for which it takes two folds."""
    if values.shape[1] < 2:
        raise ValueError(_too_few("x", values.shape[1], len(names), 0, paired))
    return cov.tested_measures(values, names, paired, dependent)


def five_by_two(
    x: ArrayLike,
    *,
    methods: Sequence[Hashable] | None = None,
    measures: Sequence[Hashable] | None = None,
    alpha: float = 0.05,
) -> FoldTests:
    r"""Test every pair of methods on five repetitions of twofold cross-validation.

    With the differences :math:`d_{rj}` on half j of repetition r and :math:`s_r^2 = \sum_j (d_{rj}
    - \bar d_r)^2`, one measure is tested by :math:`\sum_{rj} d_{rj}^2 / (2 \sum_r s_r^2) \sim F(10,
    5)` (Alpaydın 1999). For several measures the sums of squares become matrices, :math:`H = \sum
    d_{rj} d_{rj}^T` and :math:`E = \sum_r S_r`, and Wilks' lambda :math:`|E| / |E + H|` with 10 and
    5 degrees of freedom takes the place of the F, which it equals for one measure. That
    generalisation is ours; in simulations its level is that of the F: .015 for independent folds,
    .03 and .06 where they correlate by .1 and .3, with one to four measures.

    `x` is methods x 10 folds x at most five measures (else a ValueError); folds 2r and 2r + 1 are
    the two halves of repetition r.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2, 10, 1))
    >>> found = five_by_two(x)
    >>> d = (x[0] - x[1]).reshape(5, 2)
    >>> f = (d**2).sum() / (d[:, 0] - d[:, 1]).dot(d[:, 0] - d[:, 1])
    >>> bool(np.isclose(found.table["f_statistic"].item(), f)), found.df
    (True, (10.0, 5.0))
    """
    values = cov.table_of(x, "x", 3)
    names = cov.names_of(measures, None, "measures", values.shape[-1])
    found = f_of_pairs(values, names, *np.triu_indices(len(values), 1))
    _, *df, _ = rao_f(1.0, len(names), 2 * REPEATS, REPEATS)
    of = cov.names_of(methods, None, "methods", len(values))
    return _fold_tests(found, of, names, (float(df[0]), float(df[1])), alpha)


def _fold_tests(
    found: PairNumbers,
    methods: list[Hashable],
    measures: list[Hashable],
    df: tuple[float, float],
    alpha: float,
    dropped: dict[Hashable, str] | None = None,
    warnings: Sequence[str] = (),
) -> FoldTests:
    """The numbers of all pairs as tables."""
    probability(alpha, "alpha")
    table = {
        **named_pairs(methods, *np.triu_indices(len(methods), 1)),
        "statistic": found.statistic,
        "f_statistic": found.f_statistic,
        **decided(found.pvalue, alpha),
        "problem": found.problem,
    }
    by_measure = (found.difference, found.direction, found.single, holm(found.single))
    frames = [pd.DataFrame(numbers, columns=measures) for numbers in by_measure]
    about = (df, methods, measures, dropped or {}, tuple(warnings))
    return FoldTests(pd.DataFrame(table), *frames, *about)  # type: ignore[call-arg]


def rao_f(wilks: ArrayLike, p: float, q: float, v: float) -> tuple[Any, float, float, Any]:
    """F, degrees of freedom and p-value of Wilks' lambda with p measures, q and v degrees (Rao
    1951)."""
    square = p * p + q * q - 5
    t = np.sqrt((p * p * q * q - 4) / square) if square > 0 else 1.0
    df1 = p * q
    df2 = (v - (p - q + 1) / 2) * t - (p * q - 2) / 2
    root = np.power(wilks, 1 / t)
    f = (1 - root) / root * df2 / df1
    return f, df1, df2, special.fdtrc(df1, df2, f)


def t2_pvalue(t2: Any, p: int, df: Any) -> tuple[Any, Any]:
    """T-squared of p measures, on so many residual degrees of freedom, as an F, and its p-value."""
    f = (df - p + 1) / (p * df) * t2
    return f, special.fdtrc(p, df - p + 1, f)


def _too_few(name: str, folds: int, p: int, df: int, paired: bool) -> str:
    need = (
        f"at least {p + 1} folds" if paired else f"at least {p + 2} folds of both methods together"
    )
    fewer = f" or at most {count(df, 'measure')}" if df > 0 else ""
    got = f"{count(folds, 'fold')} for {count(p, 'measure')}"
    return f"`{name}` must have more folds than measures, got {got}. It takes {need}{fewer}."
