"""Tables of folds: the algebra of their scatter, and whether they look normal."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.validation import (
    AnyArray,
    Array,
    Bools,
    Ints,
    column_names,
    one_of,
    unique_names,
)

# --------------------------------------------------------------------------------------------------
# Tables of folds and the algebra of their scatter: checks, linear dependence, and solving for many
# pairs of methods at once.

DEPENDENT = ("error", "drop")
#: A measure whose part outside the span of the measures before it is below this share of its length
#: depends on them.
DEPENDENCE = 1e-8
#: Variation below this share of the largest value is float noise.
NOISE = 1e-13


def checked_ratio(ratio: float | None) -> float | None:
    """n_test / n_train as a float, if it is one; else a ValueError."""
    if ratio is None:
        return None
    number = float(ratio)
    if not 0 <= number < np.inf:
        raise ValueError(
            f"`ratio` must be n_test / n_train of a fold (1/9 for ten folds), got {ratio!r}."
        )
    return number


def variance_factor(n: Any, ratio: float | None = None) -> Any:
    """Variance of a mean over n folds in variances of one: 1/n + n_test/n_train (Nadeau & Bengio
    2003)."""
    return 1 / n + (ratio or 0.0)


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
    given: Iterable[Hashable] | None,
    values: object,
    name: str,
    count: int,
) -> list[Hashable]:
    """The names that were given, those of a data frame's columns, or 0, 1 .. count - 1."""
    if given is None:
        columns = column_names(values)
        given = range(count) if columns is None else columns
    return list(unique_names(given, name, count, name))


def two_way(values: Array, paired: bool) -> Array:
    """What is left of the means of methods, and of folds where these pair the methods, by rows."""
    left = values - np.nanmean(values, axis=1, keepdims=True)
    left = (left - np.nanmean(left, axis=0) if paired else left).reshape(-1, values.shape[2])
    return left[~np.isnan(left).any(axis=1)]


def tested_measures(
    values: Array,
    names: Sequence[Hashable],
    paired: bool,
    dependent: str,
) -> tuple[list[int], dict[Hashable, str]]:
    """`independent_columns` of values methods x folds x measures."""
    means = values.mean(axis=1)
    df = (len(values) - paired) * (values.shape[1] - 1)
    size = np.abs(values).max(axis=(0, 1))
    left = two_way(values, paired)
    return independent_columns(left, names, size, df, dependent, means - means.mean(axis=0))


def independent_columns(
    residuals: Array,
    names: Sequence[Hashable],
    size: Array,
    df: int,
    dependent: str,
    mean: Array,
) -> tuple[list[int], dict[Hashable, str]]:
    """Positions of the measures that do not follow from those before them, and why the others were
    dropped; ValueError where `dependent` is "error", or none is left."""
    length = np.linalg.norm(residuals, axis=0)
    independent: list[int] = []
    dropped: dict[Hashable, str] = {}
    for k, name in enumerate(names):
        if length[k] <= NOISE * size[k] * np.sqrt(len(residuals)):
            constant = np.abs(mean[..., k]).max() > NOISE * size[k]
            differs = " although the methods differ in it" if constant else ""
            dropped[name] = f"does not vary over folds{differs}"
            continue
        scaled = residuals[:, independent] / length[independent]
        column = residuals[:, k] / length[k]
        weights = np.linalg.lstsq(scaled, column, rcond=None)[0] if independent else np.empty(0)
        if len(independent) >= df or np.linalg.norm(column - scaled @ weights) > DEPENDENCE:
            independent.append(k)
            continue
        used = [str(names[i]) for i, w in zip(independent, weights, strict=True) if abs(w) > 1e-6]
        dropped[name] = f"follows from {', '.join(used)}"
        theirs = length[k] * mean[..., independent] @ (weights / length[independent])
        if np.abs(mean[..., k] - theirs).max() > 1e-9 * size[k]:
            dropped[name] += " but for a constant in which the methods differ"
    if dropped and (dependent == "error" or not independent):
        listed = "; ".join(f"{name} {reason}" for name, reason in dropped.items())
        drop = "Leave them out, or pass dependent='drop'."
        raise ValueError(
            f"`measures` must be linearly independent over folds, got {len(dropped)} of "
            f"{len(names)} that are not: {listed}. "
            f"{drop if independent else 'There is no variation to test against.'}"
        )
    return independent, dropped


def solve_pairs(
    residuals: Array,
    mean: Array,
    size: Array,
) -> tuple[Array, Array, Ints]:
    """Of every pair the quadratic form of the mean in the inverse scatter of the residuals
    (measures x rows x pairs; overwritten), the direction, and the first measure that depends on
    others, else -1; by Gram-Schmidt, so that no condition number is squared."""
    p, _, n = residuals.shape
    before = np.sqrt(np.einsum("krn,krn->kn", residuals, residuals))
    scale = np.empty((p, n))
    along = np.zeros((p, p, n))
    singular = np.full(n, -1)
    for k in range(p):
        scale[k] = np.sqrt(np.einsum("rn,rn->n", residuals[k], residuals[k]))
        gone = scale[k] <= np.maximum(
            DEPENDENCE * before[k], NOISE * np.sqrt(residuals.shape[1]) * size[k]
        )
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
    return np.einsum("kn,kn->n", mean, mean), direction, singular


def problems(names: Sequence[Hashable], singular: Ints, bad: Bools) -> AnyArray:
    """By pair why it cannot be tested, for the measure that `solve_pairs` found; else empty."""
    texts = [f"{name} does not vary, or follows from the measures before it" for name in names]
    return np.where(bad, np.array(texts, dtype=object)[singular], "")


# --------------------------------------------------------------------------------------------------
# Whether results over folds look multivariate normal: Mardia's skewness and kurtosis.
#
# Mardia (1970), "Measures of multivariate skewness and kurtosis with applications"; Mardia (1974)
# for small samples.

#: Below so many rows the test hardly ever rejects, whatever the distribution.
FEW = 20


@dataclass(frozen=True)
class MardiaResult:
    """Mardia's test of multivariate normality; `pvalue` is twice the smaller of that of skewness
    and kurtosis."""

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


def left_out(dropped: Mapping[Any, str]) -> list[str]:
    """What to tell of measures that follow from others, by name with the reason."""
    return [f"Left out: {name} {reason}." for name, reason in dropped.items()]


def mardia(
    x: ArrayLike | pd.DataFrame,
    *,
    measures: Sequence[Hashable] | None = None,
    small_sample: bool = True,
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
    small_sample : bool
        False: k = 1, mean p(p + 2) and variance 8p(p + 2)/n, which hold for large n.
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
            f"`x` must have at least two more folds than measures, got {n_methods} methods on "
            f"{n_folds} folds for {p} measures. Test several methods together, or fewer "
            "measures."
        )
    rows = two_way(values[..., independent], n_methods > 1)
    white = np.linalg.qr(rows / np.linalg.norm(rows, axis=0))[0] * np.sqrt(n)
    square = (white[:, :, None] * white[:, None]).reshape(n, p * p)
    skewness = float((((square.T @ white) / n) ** 2).sum())
    kurtosis = float(((white**2).sum(axis=1) ** 2).mean())
    factor = 1.0
    mean = float(p * (p + 2))
    variance = 8 * p * (p + 2) / n
    if small_sample:
        factor = (p + 1) * (n + 1) * (n + 3) / (n * ((n + 1) * (p + 1) - 6))
        mean *= (n - 1) / (n + 1)
        variance *= n * (n - 3) * (n - p - 1) * (n - p + 1) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    chi = n * factor * skewness / 6
    skewness_df = p * (p + 1) * (p + 2) // 6
    # Of three rows, or one more than measures, b₂ is a constant and says nothing.
    z = (kurtosis - mean) / np.sqrt(variance) if variance > 0 else 0.0
    pvalues = float(special.chdtrc(skewness_df, chi)), float(2 * special.ndtr(-abs(z)))
    warnings = left_out(dropped)
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
