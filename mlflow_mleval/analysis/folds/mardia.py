"""Whether results over folds look multivariate normal: Mardia's skewness and kurtosis.

Mardia (1970), "Measures of multivariate skewness and kurtosis with applications"; Mardia (1974) for
small samples.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds.covariance import (
    DEPENDENT,
    LEFT,
    independent_columns,
    names_of,
    table_of,
)
from mlflow_mleval.validation import one_of

#: Below so many rows the test hardly ever rejects, whatever the distribution.
FEW = 20


@dataclass(frozen=True)
class MardiaResult:
    """Mardia's test of multivariate normality.

    Attributes
    ----------
    skewness, kurtosis : b₁ and b₂: 0 and p(p + 2) for a normal distribution of p measures, if n is large.
    skewness_statistic, skewness_df, skewness_pvalue : Chi-square, with the small-sample factor.
    kurtosis_statistic, kurtosis_pvalue : Standard normal, by the exact mean and variance of b₂; two-sided.
    statistic, pvalue : That of the two with the smaller p, and twice this p (Bonferroni): small where either is not as if normal.
    n : Rows that were tested: folds, or methods times folds.
    dropped : Measures that were left out, and why.
    """  # noqa: E501

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
    rows = values - values.mean(axis=1, keepdims=True)
    if n_methods > 1:
        rows -= rows.mean(axis=0)
    rows, n = rows.reshape(-1, values.shape[-1]), n_methods * n_folds
    df = max(1, n_methods - 1) * (n_folds - 1)
    means = values.mean(axis=1)
    kept, dropped = independent_columns(
        rows,
        names,
        np.abs(values).max(axis=(0, 1)),
        df,
        dependent,
        LEFT,
        means - means.mean(axis=0),
    )
    p, names = len(kept), [names[k] for k in kept]
    if df <= p:
        raise ValueError(
            f"`x` must have at least two more folds than measures, got {n_methods} methods on "
            f"{n_folds} folds for {p} measures. Test several methods together, or fewer "
            "measures."
        )
    rows = rows[:, kept]
    white = np.linalg.qr(rows / np.linalg.norm(rows, axis=0))[0] * np.sqrt(n)
    square = (white[:, :, None] * white[:, None]).reshape(n, p * p)
    skewness, kurtosis = (
        float((((square.T @ white) / n) ** 2).sum()),
        float(((white**2).sum(axis=1) ** 2).mean()),
    )
    factor, mean, variance = 1.0, float(p * (p + 2)), 8 * p * (p + 2) / n
    if small_sample:
        factor = (p + 1) * (n + 1) * (n + 3) / (n * ((n + 1) * (p + 1) - 6))
        mean *= (n - 1) / (n + 1)
        variance *= n * (n - 3) * (n - p - 1) * (n - p + 1) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    chi, skewness_df = n * factor * skewness / 6, p * (p + 1) * (p + 2) // 6
    # Of three rows, or one more than measures, b₂ is a constant and says nothing.
    z = (kurtosis - mean) / np.sqrt(variance) if variance > 0 else 0.0
    pvalues = float(special.chdtrc(skewness_df, chi)), float(2 * special.ndtr(-abs(z)))
    warnings = [f"Left out: {name} {reason}." for name, reason in dropped.items()]
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
