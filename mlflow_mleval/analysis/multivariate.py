"""Methods over folds on several measures at once: Hotelling's T-squared and the combined 5x2 cv
test for pairs, MANOVA blocked by fold for all, what it learns, and whether results look normal.

Yıldız & Alpaydın (2014); Rencher (1995), "Methods of multivariate analysis"; Nadeau & Bengio (2003)
for folds that share training data; Alpaydın (1999), "Combined 5x2 cv F test"; Rao (1951) for the F
of Wilks' lambda; Mardia (1970, 1974) for skewness and kurtosis.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import linalg, special

from mlflow_mleval.analysis.pairs import checked_ratio, decided, holm, named_pairs, variance_factor
from mlflow_mleval.analysis.resampling import Signs, share
from mlflow_mleval.measures.inputs import slices
from mlflow_mleval.measures.registry import ratio as quotient
from mlflow_mleval.sentences import count
from mlflow_mleval.validation import (
    AnyArray,
    Array,
    Bools,
    Ints,
    column_names,
    one_of,
    probability,
    same_axes,
    unique_names,
)

# --------------------------------------------------------------------------------------------------
# Tables of folds and the algebra of their scatter, for many pairs of methods at once.

DEPENDENT = ("error", "drop")
#: A measure whose part outside the span of the measures before it is below this share of its length
#: depends on them.
DEPENDENCE = 1e-8
#: Variation below this share of the largest value is float noise.
NOISE = 1e-13


def table_of(values: ArrayLike | pd.DataFrame, name: str, ndim: int) -> Array:
    """The values as finite floats in so many dimensions; one dimension less means one measure."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must hold numbers in a regular array, got {error}. Pass one number a cell."
        ) from None
    if ndim == 2 and array.ndim == 1:
        array = array[:, None]
    if array.ndim != ndim or 0 in array.shape:
        axes = " x ".join(("methods", "folds", "measures")[-ndim:])
        raise ValueError(
            f"`{name}` must be {axes} with at least one of each, got shape {array.shape}."
        )
    if bad := int((~np.isfinite(array)).sum()):
        where = ", ".join(str(int(i)) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(
            f"`{name}` must be finite in every cell, got {bad} of {array.size} missing or "
            f"infinite (first at {where}). Leave out the fold for all methods, or the method."
        )
    return array


def names_of(
    given: Iterable[Hashable] | None, values: object, name: str, count: int
) -> list[Hashable]:
    """The names that were given, those of a data frame's columns, or 0, 1 .. count - 1."""
    if given is None and (given := column_names(values)) is None:
        given = range(count)
    return list(unique_names(given, name, count, name))


def two_way(values: Array, paired: bool) -> Array:
    """What is left of the means of methods, and of folds where these pair the methods, by rows."""
    left = values - np.nanmean(values, axis=1, keepdims=True)
    left = (left - np.nanmean(left, axis=0) if paired else left).reshape(-1, values.shape[2])
    return left[~np.isnan(left).any(axis=1)]


def tested_measures(
    values: Array, names: Sequence[Hashable], paired: bool, dependent: str
) -> tuple[list[int], dict[Hashable, str]]:
    """`independent_columns` of values methods x folds x measures."""
    df, size = (len(values) - paired) * (values.shape[1] - 1), np.abs(values).max(axis=(0, 1))
    return independent_columns(two_way(values, paired), names, size, df, dependent)


def independent_columns(
    residuals: Array, names: Sequence[Hashable], size: Array, df: int, dependent: str
) -> tuple[list[int], dict[Hashable, str]]:
    """Positions of the measures that do not follow from those before them, and why the others were
    dropped; ValueError where `dependent` is "error", or none is left."""
    length = np.linalg.norm(residuals, axis=0)
    independent, dropped = list[int](), dict[Hashable, str]()
    for k, name in enumerate(names):
        if length[k] <= NOISE * size[k] * np.sqrt(len(residuals)):
            dropped[name] = "does not vary over folds"
            continue
        scaled = residuals[:, independent] / length[independent]
        column = residuals[:, k] / length[k]
        weights = np.linalg.lstsq(scaled, column, rcond=None)[0] if independent else np.empty(0)
        if len(independent) >= df or np.linalg.norm(column - scaled @ weights) > DEPENDENCE:
            independent.append(k)
            continue
        used = [str(names[i]) for i, w in zip(independent, weights, strict=True) if abs(w) > 1e-6]
        dropped[name] = f"follows from {', '.join(used)}"
    if dropped and (dependent == "error" or not independent):
        listed = "; ".join(f"{name} {reason}" for name, reason in dropped.items())
        drop = "Leave them out, or pass dependent='drop'."
        raise ValueError(
            f"`measures` must be linearly independent over folds, got {len(dropped)} of "
            f"{len(names)} that are not: {listed}. "
            f"{drop if independent else 'There is no variation to test against.'}"
        )
    return independent, dropped


def solve_pairs(residuals: Array, mean: Array, size: Array) -> tuple[Array, Array, Ints, Array]:
    """By pair m' S⁻¹ m of mean m and scatter S of residuals (measures x rows x pairs; overwritten),
    S⁻¹ m, first dependent measure or -1, log det S / 2: by Gram-Schmidt, which is accurate."""
    p, _, n = residuals.shape
    before = np.sqrt(np.einsum("krn,krn->kn", residuals, residuals))
    scale = np.empty((p, n))
    along = np.zeros((p, p, n))
    singular = np.full(n, -1)
    for k in range(p):
        scale[k] = np.sqrt(np.einsum("rn,rn->n", residuals[k], residuals[k]))
        noise = NOISE * np.sqrt(residuals.shape[1]) * size[k]
        gone = scale[k] <= np.maximum(DEPENDENCE * before[k], noise)
        singular[gone & (singular < 0)] = k
        scale[k][gone] = 1.0
        residuals[k] /= scale[k]
        mean[k] /= scale[k]
        for j in range(k + 1, p):
            along[k, j] = np.einsum("rn,rn->n", residuals[k], residuals[j])
            residuals[j] -= along[k, j] * residuals[k]
            mean[j] -= along[k, j] * mean[k]
    direction = mean.copy()
    for k in range(p - 1, -1, -1):
        for j in range(k + 1, p):
            direction[k] -= along[k, j] * direction[j]
        direction[k] /= scale[k]
    return np.einsum("kn,kn->n", mean, mean), direction, singular, np.log(scale).sum(axis=0)


def problems(names: Sequence[Hashable], singular: Ints, bad: Bools) -> AnyArray:
    """By pair why it cannot be tested, for the measure that `solve_pairs` found; else empty."""
    texts = [f"{name} does not vary, or follows from the measures before it" for name in names]
    return np.where(bad, np.array(texts, dtype=object)[singular], "")


# --------------------------------------------------------------------------------------------------
# Whether results over folds look multivariate normal: Mardia's skewness and kurtosis.

#: Below so many rows the test hardly ever rejects, whatever the distribution.
FEW = 20


@dataclass(frozen=True)
class MardiaResult:
    """Mardia's test of normality; `pvalue` is twice the smaller of those of skewness, kurtosis."""

    skewness: float
    kurtosis: float
    skewness_statistic: float
    skewness_df: int
    skewness_pvalue: float
    kurtosis_statistic: float
    kurtosis_pvalue: float
    statistic: float
    pvalue: float
    n: int
    measures: list[Hashable]
    dropped: dict[Hashable, str]
    warnings: tuple[str, ...] = ()


def measures_left_out(dropped: Mapping[Any, str]) -> list[str]:
    """What to tell of measures that follow from others, by name with the reason."""
    return [f"Left out: {name} {reason}." for name, reason in dropped.items()]


def mardia(
    x: ArrayLike | pd.DataFrame,
    *,
    measures: Sequence[Hashable] | None = None,
    dependent: str = "error",
) -> MardiaResult:
    r"""Test whether results over folds are multivariate normal.

    With rows :math:`r_i` about their mean and :math:`S = \sum_i r_i r_i^T / n`, :math:`b_1 = n^{-2}
    \sum_{ij} (r_i^T S^{-1} r_j)^3` and :math:`b_2 = n^{-1} \sum_i (r_i^T S^{-1} r_i)^2`. Then
    :math:`n k b_1 / 6 \sim \chi^2` on p(p + 1)(p + 2)/6 degrees of freedom with :math:`k =
    \frac{(p+1)(n+1)(n+3)}{n((n+1)(p+1) - 6)}` (Mardia 1974, eq. 5.5), and b₂ is standardised by its
    mean :math:`p(p+2)\frac{n-1}{n+1}` and variance
    :math:`\frac{8p(p+2)(n-3)(n-p-1)(n-p+1)}{(n+1)^2(n+3)(n+5)}`.

    Parameters
    ----------
    x : array_like or pandas.DataFrame, shape (methods, folds, measures) or (folds, measures)
        Of several methods, what is left after taking out the means of methods and folds is pooled;
        of two, their differences are tested, because the residuals of one mirror those of the
        other.
    measures : sequence, optional
        Names.
    dependent : {"error", "drop"}
        What to do about measures that follow linearly from those before them.

    Raises
    ------
    ValueError
        Missing values, not more rows than measures plus one, or linearly dependent measures: they
        are named.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> result = mardia(rng.normal(size=(7, 10, 2)), measures=["tpr", "fpr"])
    >>> result.n, result.skewness_df, round(result.pvalue, 3)
    (70, 4, 0.253)
    """
    one_of(dependent, "dependent", DEPENDENT)
    several = np.ndim(x) == 3
    values = table_of(x, "x", 3 if several else 2)
    names = names_of(measures, x, "measures", values.shape[-1])
    if not several:
        values = values[None]
    if len(values) == 2:
        values = values[:1] - values[1:]
    n_methods, n_folds, _ = values.shape
    n = n_methods * n_folds
    df = max(1, n_methods - 1) * (n_folds - 1)
    independent, dropped = tested_measures(values, names, n_methods > 1, dependent)
    p = len(independent)
    names = [names[k] for k in independent]
    if df <= p:
        raise ValueError(
            "`x` must have at least two more folds than measures, got "
            f"{count(n_methods, 'method')} on {n_folds} folds for {p} measures. Test several "
            "methods together, or fewer measures."
        )
    rows = two_way(values[..., independent], n_methods > 1)
    white = np.linalg.qr(rows / np.linalg.norm(rows, axis=0))[0] * np.sqrt(n)
    square = (white[:, :, None] * white[:, None]).reshape(n, p * p)
    skewness = float((((square.T @ white) / n) ** 2).sum())
    kurtosis = float(((white**2).sum(axis=1) ** 2).mean())
    factor = (p + 1) * (n + 1) * (n + 3) / (n * ((n + 1) * (p + 1) - 6))
    mean = p * (p + 2) * (n - 1) / (n + 1)
    variance = 8 * p * (p + 2) * (n - 3) * (n - p - 1) * (n - p + 1)
    variance /= (n + 1) ** 2 * (n + 3) * (n + 5)
    chi = n * factor * skewness / 6
    skewness_df = p * (p + 1) * (p + 2) // 6
    # Of three rows, or one more than measures, b₂ is a constant and says nothing.
    z = (kurtosis - mean) / np.sqrt(variance) if variance > 0 else 0.0
    pvalues = float(special.chdtrc(skewness_df, chi)), float(2 * special.ndtr(-abs(z)))
    warnings = measures_left_out(dropped)
    if n < FEW:
        warnings.append(
            f"With {n} rows Mardia's test has almost no power: no rejection says nothing. Test "
            "several methods at once."
        )
    return MardiaResult(
        skewness=skewness,
        kurtosis=kurtosis,
        skewness_statistic=chi,
        skewness_df=skewness_df,
        skewness_pvalue=pvalues[0],
        kurtosis_statistic=float(z),
        kurtosis_pvalue=pvalues[1],
        statistic=chi if pvalues[0] <= pvalues[1] else float(z),
        pvalue=min(1.0, 2 * min(pvalues)),
        n=n,
        measures=names,
        dropped=dropped,
        warnings=tuple(warnings),
    )


# --------------------------------------------------------------------------------------------------
# Pairs: Hotelling's T-squared and the combined 5x2 cv test.

METHODS = ("f", "permutation")
#: Random swaps of the permutation test, which goes through all of them up to 17 folds.
SWAPS = 100_000
#: Pairs of methods that are handled together: their folds fit the cache.
BLOCK = 2048
#: Of twofold cross-validation in the combined 5x2 cv test.
REPEATS = 5


@dataclass(frozen=True)
class HotellingResult:
    """T-squared of two methods. Intervals of `posthoc` are not corrected, its p-values by Holm."""

    statistic: float
    f_statistic: float
    df: tuple[int, int]
    pvalue: float
    mean_difference: pd.Series
    direction: pd.Series
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
    one_of(dependent, "dependent", DEPENDENT)
    one_of(method, "method", METHODS)
    probability(alpha, "alpha")
    ratio = checked_ratio(ratio)
    first, second = _tables_of_two(x1, x2, paired)
    names = names_of(measures, x1, "measures", first.shape[1])
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
    spread = sum(variance_factor(len(x), ratio) for x in samples)
    independent, dropped = list(range(len(names))), dict[Hashable, str]()
    warnings = ["Both methods have the same values in every fold: p is 1 by convention."]
    if (mean != 0).any() or (np.abs(residuals) > NOISE * size).any():
        independent, dropped = independent_columns(residuals, names, size, df, dependent)
        warnings = measures_left_out(dropped)
    p = len(independent)
    names = [names[k] for k in independent]
    if df < p:
        raise ValueError(_too_few("x1", len(first), p, df, paired))
    scatter = residuals[:, independent].T[..., None].copy()
    found = _t2(scatter, mean[independent, None], size[independent, None], names, df, spread)
    pvalue = found.pvalue.item()
    if method == "permutation":
        swapped = samples[0][:, independent]
        largest = np.abs(swapped).max(axis=0)
        base = linalg.orth(swapped / np.where(largest > 0, largest, 1.0))
        # the share of swaps under which the sum of the rows is at least as long
        lengths = (Signs(len(base), SWAPS, seed).sums(base) ** 2).sum(axis=1)
        pvalue = float(share(lengths, lengths[0]))
    mean, direction, error = found.difference[0], found.direction[0], found.error[0]
    margin = special.stdtrit(df, 1 - alpha / 2) * error
    posthoc = {
        "mean_difference": mean,
        "low": mean - margin,
        "high": mean + margin,
        "statistic": quotient(mean, error),
        **decided(found.single[0], alpha),
    }
    return HotellingResult(
        statistic=found.statistic.item(),
        f_statistic=found.f_statistic.item(),
        df=(p, df - p + 1),
        pvalue=pvalue,
        mean_difference=pd.Series(mean, names, name="mean_difference"),
        direction=pd.Series(direction, names, name="direction"),
        posthoc=pd.DataFrame(posthoc, pd.Index(names, name="measure", tupleize_cols=False)),
        measures=names,
        dropped=dropped,
        warnings=tuple(warnings),
    )


def _tables_of_two(x1: Any, x2: Any, paired: bool) -> tuple[Array, Array]:
    """The values of two methods, folds x measures, on the same folds where these are paired."""
    first, second = table_of(x1, "x1", 2), table_of(x2, "x2", 2)
    if paired:
        same_axes(x1, "x1", x2, "x2")
    if first.shape[1] != second.shape[1] or (paired and len(first) != len(second)):
        raise ValueError(
            f"`x2` must have the shape {first.shape} of `x1`, got {second.shape}. Columns are the "
            "same measures in both, and rows the same folds where these are paired."
        )
    if min(len(first), len(second)) < 2:
        raise ValueError(_too_few("x1", len(first), first.shape[1], 0, paired))
    return first, second


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
    """T-squared of pairs, by positions of their methods in values methods x folds x measures."""
    _, n_folds, p = values.shape
    samples = 1 if paired else 2
    df = samples * (n_folds - 1)
    if df < p:
        raise ValueError(_too_few("x", n_folds, p, df, paired))
    spread = samples * variance_factor(n_folds, ratio)
    means = np.ascontiguousarray(values.mean(axis=1).T)
    left = values - values.mean(axis=1, keepdims=True)
    folds = np.ascontiguousarray(left.transpose(2, 1, 0))
    largest = np.abs(values).max(axis=1).T
    parts = []
    for at in slices(max(len(first), 1), BLOCK):
        a, b = first[at], second[at]
        one, other = folds.take(a, axis=2), folds.take(b, axis=2)
        residuals = one - other if paired else np.concatenate([one, other], axis=1)
        size = np.maximum(largest[:, a], largest[:, b])
        parts.append(_t2(residuals, means[:, a] - means[:, b], size, names, df, spread))
    return PairNumbers(*map(np.concatenate, zip(*parts, strict=True)))


def _t2(
    residuals: Array,
    difference: Array,
    size: Array,
    names: Sequence[Hashable],
    df: int,
    spread: Any,
) -> PairNumbers:
    """T-squared of pairs by their residuals, measures x rows x pairs (overwritten), mean
    differences and largest values, measures x pairs; `spread` is the variance of a mean."""
    error = np.sqrt(np.einsum("krn,krn->kn", residuals, residuals) * (spread / df))
    quadratic, direction, singular, _ = solve_pairs(residuals, difference.copy(), size)
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
    f, pvalue = t2_pvalue(t2, len(names), df)
    t = quotient(difference, error, np.where(difference == 0, 0.0, np.nan))
    single = 2 * special.stdtr(df, -np.abs(t))
    numbers = t2, f, pvalue, np.full(len(t2), float(df)), problems(names, singular, bad)
    return PairNumbers(*numbers, difference.T, direction.T * df, error.T, single.T)


def f_of_pairs(values: Array, names: Sequence[Hashable], first: Ints, second: Ints) -> PairNumbers:
    """The combined 5x2 cv test of pairs, as `t2_of_pairs`; see `five_by_two`."""
    n_methods, n_folds, p = values.shape
    if n_methods < 2 or n_folds != 2 * REPEATS or p > REPEATS:
        raise ValueError(
            f"`x` must hold at least two methods on ten folds and at most {REPEATS} measures, "
            f"got {n_methods} methods, {n_folds} folds and {p} measures. Five repetitions of "
            "twofold cross-validation give five degrees of freedom."
        )
    size = np.abs(values).max(axis=1)
    parts = []
    for at in slices(max(len(first), 1), BLOCK):
        a, b = first[at], second[at]
        d = values[a] - values[b]
        largest = np.maximum(size[a], size[b])
        d[np.abs(d) <= NOISE * largest[:, None]] = 0.0
        spread = (d[:, ::2] - d[:, 1::2]) / np.sqrt(2)
        spread[np.abs(spread) <= NOISE * largest[:, None]] = 0.0
        within, between = (spread**2).sum(axis=1), (d**2).sum(axis=1)
        f = quotient(between, 2 * within, np.where(between == 0, 0.0, np.nan))
        mean = d.mean(axis=1)
        sides = (x.transpose(2, 1, 0).copy() for x in (spread, np.concatenate([spread, d], axis=1)))
        solved = [solve_pairs(side, mean.T.copy(), largest.T) for side in sides]
        _, direction, singular, _ = solved[0]
        wilks = np.where(singular < 0, np.exp(2 * (solved[0][3] - solved[1][3])), 1.0)
        same = (mean == 0).all(axis=1) & (f == 0).all(axis=1)
        bad = (singular >= 0) & ~same
        wilks[same], wilks[bad] = 1.0, np.nan
        direction[:, same], direction[:, bad] = 0.0, np.nan
        statistic, _, _, pvalue = rao_f(wilks, p, 2 * REPEATS, REPEATS)
        numbers = (wilks, statistic, pvalue, np.full(len(a), float(REPEATS)))
        single = special.fdtrc(2 * REPEATS, REPEATS, f)
        by_measure = (mean, direction.T, np.full_like(mean, np.nan), single)
        parts.append((*numbers, problems(names, singular, bad), *by_measure))
    return PairNumbers(*map(np.concatenate, zip(*parts, strict=True)))


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
    one_of(dependent, "dependent", DEPENDENT)
    ratio = checked_ratio(ratio)
    values = table_of(x, "x", 3)
    names = names_of(measures, None, "measures", values.shape[-1])
    if len(values) < 2:
        raise ValueError(f"`x` must hold at least two methods, got {len(values)}.")
    independent, dropped = pair_measures(values, names, paired, dependent)
    names = [names[k] for k in independent]
    pairs = np.triu_indices(len(values), 1)
    found = t2_of_pairs(values.take(independent, axis=2), names, *pairs, ratio, paired)
    df = len(names), int(found.df[0]) - len(names) + 1
    warnings = measures_left_out(dropped)
    if untested := int(np.isnan(found.pvalue).sum()):
        warnings.append(
            f"{untested} of {len(found.pvalue)} pairs could not be tested: their differences are "
            "linearly dependent or do not vary."
        )
    of = names_of(methods, None, "methods", len(values))
    return _fold_tests(found, of, names, df, alpha, dropped, warnings)


def pair_measures(
    values: Array, names: Sequence[Hashable], paired: bool, dependent: str
) -> tuple[list[int], dict[Hashable, str]]:
    """`tested_measures`, for which it takes two folds."""
    if values.shape[1] < 2:
        raise ValueError(_too_few("x", values.shape[1], len(names), 0, paired))
    return tested_measures(values, names, paired, dependent)


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
    values = table_of(x, "x", 3)
    names = names_of(measures, None, "measures", values.shape[-1])
    found = f_of_pairs(values, names, *np.triu_indices(len(values), 1))
    _, *df, _ = rao_f(1.0, len(names), 2 * REPEATS, REPEATS)
    of = names_of(methods, None, "methods", len(values))
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
    """F, its degrees and p-value of Wilks' lambda with p measures, q and v degrees (Rao 1951)."""
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
    need = f"{p + 1} folds" if paired else f"{p + 2} folds of both methods together"
    fewer = f" or at most {count(df, 'measure')}" if df > 0 else ""
    got = f"{count(folds, 'fold')} for {count(p, 'measure')}. It takes at least {need}{fewer}."
    return f"`{name}` must have more folds than measures, got {got}"


# --------------------------------------------------------------------------------------------------
# All methods: MANOVA, and the measures that it learns.

DESIGNS = ("blocked", "one-way")
APPROXIMATIONS = ("rao", "chi2")
#: Methods of which one varies more than so many times as much as another (in variance) are told.
UNEQUAL = 9.0
_F = ["f_statistic", "df_numerator", "df_denominator", "pvalue"]


@dataclass(frozen=True)
class LearnedMeasures:
    """Linear combinations that tell methods apart best: eigenvectors of E⁻¹H and their shares."""

    weights: pd.DataFrame
    scaled_weights: pd.DataFrame
    eigenvalues: pd.Series
    shares: pd.Series
    projections: pd.DataFrame
    ratio: float | None
    paired: bool

    def tests(self, alpha: float = 0.05) -> pd.DataFrame:
        """Tests of every pair on every learned measure. `pvalue` refers t² to T² with all measures,
        for the directions come from the same folds; `pvalue_naive` is the paper's."""
        methods = self.projections.index.unique(level=0)
        p, n_learned = self.weights.shape
        values = self.projections.to_numpy().reshape(len(methods), -1, n_learned)
        pairs = np.triu_indices(len(methods), 1)
        parts = []
        for k, name in enumerate(self.weights):
            found = t2_of_pairs(values[..., [k]], [name], *pairs, self.ratio, self.paired)
            difference = found.difference[:, 0]
            part = {
                "learned": name,
                **named_pairs(methods, *pairs),
                "mean_difference": difference,
                "statistic": np.sign(difference) * np.sqrt(found.statistic),
                "pvalue_naive": found.pvalue,
                # NaN where all measures together could not be tested
                **decided(t2_pvalue(found.statistic, p, found.df)[1], alpha),
            }
            parts.append(pd.DataFrame(part))
        return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class ManovaResult:
    """Multivariate analysis of variance of methods over folds: four statistics, the matrices H and
    E, and what it learns. Roy's p is a lower bound."""

    statistic: float
    pvalue: float
    f_statistic: float
    df: tuple[float, float]
    table: pd.DataFrame
    between: pd.DataFrame
    within: pd.DataFrame
    learned: LearnedMeasures
    measures: list[Hashable]
    dropped: dict[Hashable, str]
    design: str
    warnings: tuple[str, ...] = ()


def manova(
    x: ArrayLike,
    *,
    methods: Sequence[Hashable] | None = None,
    measures: Sequence[Hashable] | None = None,
    design: str = "blocked",
    ratio: float | None = None,
    dependent: str = "error",
    approximation: str = "rao",
) -> ManovaResult:
    r"""Test whether any of several methods differs in the mean of any measure or combination of
    measures over folds.

    :math:`H = R \sum_i (\bar x_i - \bar x)(\bar x_i - \bar x)^T`, and E is the same of the
    residuals :math:`x_{ij} - \bar x_i - \bar x_j + \bar x` (blocked by fold: the folds pair the
    methods; for two methods this is the paired T²) or :math:`x_{ij} - \bar x_i` (one-way, Yıldız &
    Alpaydın 2014). :math:`\Lambda = |E| / |E + H|`; the table adds Pillai's trace, the
    Hotelling-Lawley trace and Roy's largest root with their usual F approximations.

    All methods are assumed to vary alike over folds; where one varies much more than another a
    warning says so, for the test then rejects too often (simulated: .10 at .05 for four methods
    with standard deviations .3, 1, 1, 2).

    Parameters
    ----------
    x : array_like, shape (methods, folds, measures)
    methods, measures : sequence, optional
        Names; numbers by default.
    design : {"blocked", "one-way"}
        "one-way" ignores that folds pair the methods; for unpaired folds, or to reproduce the
        paper.
    ratio : float, optional
        n_test / n_train of a fold: Nadeau & Bengio's correction for shared training data, as in
        `hotelling`, divides H by 1 + folds · ratio.
    dependent : {"error", "drop"}
        What to do about measures that follow linearly from those before them.
    approximation : {"rao", "chi2"}
        How `pvalue` follows from lambda: Rao's F (exact for up to two measures or three methods),
        or the paper's chi-square.

    Raises
    ------
    ValueError
        Fewer than two methods or folds, missing values, too many measures, or linearly dependent
        ones: they are named.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(3, 10, 2)) + np.array([[0, 0], [0, 0], [1.5, -1.5]])[:, None]
    >>> result = manova(x, measures=["tpr", "fpr"], ratio=1 / 9)
    >>> round(result.statistic, 4), result.df, round(result.pvalue, 4)
    (0.3312, (4.0, 34.0), 0.0007)
    """
    one_of(design, "design", DESIGNS)
    one_of(dependent, "dependent", DEPENDENT)
    one_of(approximation, "approximation", APPROXIMATIONS)
    ratio = checked_ratio(ratio)
    values = table_of(x, "x", 3)
    n_methods, n_folds, p = values.shape
    names = names_of(measures, x, "measures", p)
    of = names_of(methods, None, "methods", n_methods)
    if n_methods < 2 or n_folds < 2:
        raise ValueError(
            f"`x` must hold at least two methods and two folds, got {n_methods} and {n_folds}."
        )
    blocked = design == "blocked"
    df_within = (n_methods - blocked) * (n_folds - 1)
    independent, dropped = tested_measures(values, names, blocked, dependent)
    p = len(independent)
    names = [names[k] for k in independent]
    if df_within < p:
        raise ValueError(
            "`x` must have at least as many residual degrees of freedom as measures, got "
            f"{df_within} for {p} measures ({n_methods} methods on {n_folds} folds). Use more "
            f"folds or at most {df_within} measures."
        )
    values = values[..., independent]
    means = values.mean(axis=1) - values.mean(axis=(0, 1))
    residuals = two_way(values, blocked)
    df_between = n_methods - 1
    weight = 1 / variance_factor(n_folds, ratio)  # R of independent folds
    between, within = weight * means.T @ means, residuals.T @ residuals
    eigenvalues, vectors, table = _statistics(residuals, means * np.sqrt(weight), df_within)
    statistic, f, *df, pvalue = table.loc["wilks"].tolist()
    if approximation == "chi2":
        f = ((p - df_between + 1) / 2 - df_within) * np.log(statistic)
        df = [float(p * df_between), np.inf]
        pvalue = float(special.chdtrc(df[0], f))
    warnings = [*measures_left_out(dropped), *_unequal(residuals, of, n_folds)]
    weights = _unit_columns(vectors)
    learned = [f"M{k + 1}" for k in range(len(eigenvalues))]
    index = pd.MultiIndex.from_product([of, range(n_folds)], names=["method", "fold"])
    scaled = _unit_columns(weights * np.sqrt(np.diag(within))[:, None])
    return ManovaResult(
        statistic=statistic,
        pvalue=pvalue,
        f_statistic=float(f),
        df=(df[0], df[1]),
        table=table,
        between=pd.DataFrame(between, names, names),
        within=pd.DataFrame(within, names, names),
        learned=LearnedMeasures(
            weights=pd.DataFrame(weights, names, learned),
            scaled_weights=pd.DataFrame(scaled, names, learned),
            eigenvalues=pd.Series(eigenvalues, learned, name="eigenvalue"),
            shares=pd.Series(eigenvalues / (eigenvalues.sum() or 1.0), learned, name="share"),
            projections=pd.DataFrame(values.reshape(-1, p) @ weights, index, learned),
            ratio=ratio,
            paired=blocked,
        ),
        measures=names,
        dropped=dropped,
        design=design,
        warnings=tuple(warnings),
    )


def _statistics(residuals: Array, means: Array, v: int) -> tuple[Array, Array, pd.DataFrame]:
    """Eigenvalues of E⁻¹H, largest first, and eigenvectors as columns, from factors of E and H so
    that nothing is squared; four statistics, their F's as in SAS, on v degrees within."""
    scale = np.linalg.norm(residuals, axis=0)
    root = np.asarray(np.linalg.qr(residuals / scale, mode="r"))
    white = np.linalg.solve(root.T, (means / scale).T)
    left, singular, _ = np.linalg.svd(white, full_matrices=True)
    p, q = white.shape[0], white.shape[1] - 1
    s = min(p, q)
    eigenvalues = singular[:s] ** 2
    vectors = np.linalg.solve(root, left[:, :s]) / scale[:, None]
    m, n = (abs(p - q) - 1) / 2, (v - p - 1) / 2
    wilks, trace = float(np.exp(-np.log1p(eigenvalues).sum())), float(eigenvalues.sum())
    pillai, roy = float((eigenvalues / (1 + eigenvalues)).sum()), float(eigenvalues.max())
    rows = {"wilks": [wilks, *rao_f(wilks, p, q, v)[:3]]}
    df1, df2 = s * (2 * m + s + 1), s * (2 * n + s + 1)
    rows["pillai"] = [pillai, df2 / df1 * pillai / (s - pillai), df1, df2]
    if n > 0:  # McKeon (1974)
        b = (p + 2 * n) * (q + 2 * n) / (2 * (2 * n + 1) * (n - 1)) if n != 1 else np.inf
        df1, df2 = p * q, 4 + (p * q + 2) / (b - 1)
        f = df2 / df1 * trace * 2 * n / (df2 - 2)
    else:
        df2 = 2 * (s * n + 1)
        f = df2 / df1 / s * trace
    rows["hotelling_lawley"] = [trace, f, df1, df2]
    df1 = max(p, q)
    df2 = v - df1 + q
    rows["roy"] = [roy, df2 / df1 * roy, df1, df2]
    columns = ["statistic", *_F[:3]]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns, dtype=float)
    pvalue = special.fdtrc(*(table[name] for name in _F[1:3]), table[_F[0]])
    return eigenvalues, vectors, table.assign(pvalue=pvalue)


def _unequal(residuals: Array, methods: Sequence[Hashable], n_folds: int) -> list[str]:
    """What to tell where one method scatters much more over folds than another."""
    n, p = len(methods), residuals.shape[1]
    by_method = (np.linalg.qr(residuals)[0].reshape(n, -1) ** 2).sum(axis=1)
    inequality = by_method.max() / max(by_method.min(), np.finfo(float).tiny)
    df = (n_folds - 1) * p
    by_chance = n * (n - 1) * special.fdtrc(df, df, inequality)
    if n < 3 or inequality <= UNEQUAL or by_chance > 0.05:
        return []
    most, least = (methods[int(i)] for i in (by_method.argmax(), by_method.argmin()))
    return [
        f"The results of {most} vary {np.sqrt(inequality):.2g} times as much over folds as "
        f"those of {least}. MANOVA assumes that all vary alike and rejects too often then; "
        "T-squared of pairs does not."
    ]


def _unit_columns(vectors: Array) -> Array:
    """Columns of unit length whose largest entry is positive."""
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return vectors / (np.linalg.norm(vectors, axis=0) * np.sign(largest))
