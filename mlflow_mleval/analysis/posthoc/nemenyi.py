"""Nemenyi's test: all pairs of methods by their mean ranks over datasets (Nemenyi 1963; Demšar
2006).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from mlflow_mleval.analysis.posthoc.description import Posthoc, Tested
from mlflow_mleval.analysis.ranks import column_of, complete_table, doubled_ranks, mean_ranks
from mlflow_mleval.validation import AnyArray, probability

#: Step of the table that range_sf interpolates, and where the chance is below 1e-260 for any number
#: of methods in use.
RANGE_STEP = 0.02
RANGE_MAX = 50.0


@dataclass(frozen=True)
class NemenyiResult:
    """Differences of mean ranks, over all pairs (Nemenyi) or against a control
    (Bonferroni-Dunn)."""

    critical_difference: float
    pvalues: pd.DataFrame
    mean_ranks: pd.Series
    alpha: float
    n_datasets: int
    n_methods: int
    control: Hashable | None = None
    warnings: tuple[str, ...] = ()

    @property
    def significant(self) -> pd.DataFrame:
        """Methods x methods: whether the test separates the pair."""
        return self.pvalues <= self.alpha

    @property
    def significant_pairs(self) -> list[tuple[Hashable, Hashable]]:
        """The separated pairs as (better, worse), the best methods first."""
        order = np.argsort(self.mean_ranks.to_numpy(), kind="stable")
        better, worse = np.nonzero(np.triu(self.significant.to_numpy()[np.ix_(order, order)], 1))
        names = self.mean_ranks.index[order]
        return list(zip(names[better], names[worse], strict=True))


def range_sf(q: ArrayLike, m: int) -> AnyArray:
    """Chance that the range of m standard normals exceeds q, to 1e-11 relative: by the trapezoidal
    rule, small tails keeping their digits; many values are interpolated."""
    at = np.abs(np.asarray(q, dtype=float))
    top = min(float(at.max(initial=0.0)), RANGE_MAX)
    knots = np.arange(0.0, top + 10 * RANGE_STEP, RANGE_STEP)
    if at.size <= knots.size:
        return _range_sf(at.ravel(), m).reshape(at.shape)
    from scipy.interpolate import (
        make_interp_spline,
    )  # takes a third of a second, and few methods do without

    curve = make_interp_spline(knots, np.log(_range_sf(knots, m)), k=7)
    tail = np.minimum(np.exp(curve(np.minimum(at, RANGE_MAX))), 1.0)
    return np.where(at > RANGE_MAX, 0.0, tail)


def _range_sf(q: AnyArray, m: int) -> AnyArray:
    z = np.arange(-8.0, 38.0, 0.05)
    log_phi = np.log(ndtr(z))
    weight = 0.05 * m * np.exp(-(z**2) / 2 + (m - 1) * log_phi) / np.sqrt(2 * np.pi)
    out = np.empty(len(q))
    for start in range(0, len(q), 256):
        part = slice(start, start + 256)
        share = np.minimum(ndtr(z - q[part, None]) / ndtr(z), 1.0)
        with np.errstate(divide="ignore"):
            out[part] = -np.expm1((m - 1) * np.log1p(-share)) @ weight
    return np.minimum(out, 1.0)


@lru_cache(maxsize=64)
def _range_isf(alpha: float, m: int) -> float:
    """The range that m independent standard normals exceed with chance alpha."""
    low = 0.0
    high = RANGE_MAX
    while (
        high - low > 1e-13
    ):  # the chance falls with q, so it crosses alpha between two of 17 points
        points = np.linspace(low, high, 17)
        at = int(np.count_nonzero(_range_sf(points, m) >= alpha))
        low = points[at - 1]
        high = points[min(at, 16)]
    return float(low)


def nemenyi(ranks: ArrayLike | pd.DataFrame, alpha: float = 0.05) -> NemenyiResult:
    r"""Compare all pairs of methods by their mean ranks (Nemenyi 1963; Demšar 2006).

    :math:`CD = q_\alpha \sqrt{m(m+1)/(6D)}` with :math:`q_\alpha` the studentised range at infinite
    degrees of freedom over the square root of 2. Note that the verdict on a pair depends on which
    other methods are in the table (Benavoli et al. 2016).

    Parameters
    ----------
    ranks : array_like or pandas.DataFrame, shape (datasets, methods)
        Ranks, or any values of which the smaller is better; each row is ranked, ties averaged.
    alpha : float
        Family-wise significance level.

    Raises
    ------
    ValueError
        Fewer than two datasets or methods, empty cells, `alpha` outside (0, 1).

    Examples
    --------
    >>> result = nemenyi(pd.DataFrame([[1, 2, 3]] * 8, columns=["a", "b", "c"]))
    >>> round(result.critical_difference, 4), result.significant_pairs
    (1.1719, [('a', 'c')])
    """
    probability(alpha, "alpha")
    table = complete_table(ranks, "ranks")
    doubled = doubled_ranks(table)
    n, m = doubled.shape
    unit = np.sqrt(m * (m + 1) / (12 * n))
    sums = doubled.sum(axis=0)
    gaps, where = np.unique(np.abs(sums[:, None] - sums), return_inverse=True)
    pvalues = range_sf(gaps / (2 * n * unit), m)[where.reshape(m, m)]
    return NemenyiResult(
        critical_difference=float(_range_isf(alpha, m) * unit),
        pvalues=pd.DataFrame(pvalues, table.columns, table.columns),
        mean_ranks=mean_ranks(doubled, table),
        alpha=alpha,
        n_datasets=n,
        n_methods=m,
    )


class Nemenyi(Posthoc):
    """All pairs by mean ranks."""

    name = asked = key = "nemenyi"
    title = "Nemenyi"
    control = False
    by_mean_ranks = True
    column = sort = "pvalue_nemenyi"
    head = "p (Nemenyi)"
    summary = (
        "separates two methods whose mean ranks differ by the critical difference; holds α over "
        "all pairs"
    )
    sources = ("Nemenyi 1963", "Demšar 2006")

    def run(self, tested: Tested) -> NemenyiResult:
        return nemenyi(tested.ranks, tested.alpha)

    def critical_difference(self, result: NemenyiResult) -> float:
        return result.critical_difference

    def wording(self, result: NemenyiResult) -> str:
        return f"{self.title}, critical difference {result.critical_difference:.2f}"

    def sentence(self, result: NemenyiResult) -> str:
        return "Nemenyi's test on mean ranks"


# --------------------------------------------------------------------------------------------------
# The Bonferroni-Dunn test: every method against a control by mean ranks over datasets (Dunn 1961;
# Demšar 2006).


def bonferroni_dunn(
    ranks: ArrayLike | pd.DataFrame,
    control: Hashable,
    alpha: float = 0.05,
) -> NemenyiResult:
    r"""Compare every method with a control by mean ranks (Dunn 1961; Demšar 2006); `ranks` as for
    `nemenyi`.

    :math:`CD = z_{\alpha/(2(m-1))} \sqrt{m(m+1)/(6D)}`; p-values are two-sided normal, times the m
    - 1 comparisons.

    >>> result = bonferroni_dunn(pd.DataFrame([[1, 2, 3]] * 8, columns=["a", "b", "c"]), control="c")
    >>> round(result.critical_difference, 4), result.significant_pairs
    (1.1207, [('a', 'c')])
    """  # noqa: E501
    probability(alpha, "alpha")
    table = complete_table(ranks, "ranks")
    at = column_of(control, table)
    doubled = doubled_ranks(table)
    n, m = doubled.shape
    unit = np.sqrt(m * (m + 1) / (6 * n))
    mean = mean_ranks(doubled, table)
    pvalues = np.full((m, m), np.nan)
    against = np.minimum(1.0, (m - 1) * 2 * ndtr(-np.abs(mean - mean.iloc[at]) / unit))
    pvalues[at] = pvalues[:, at] = against
    return NemenyiResult(
        critical_difference=float(-ndtri(alpha / (2 * (m - 1))) * unit),
        pvalues=pd.DataFrame(pvalues, table.columns, table.columns),
        mean_ranks=mean,
        alpha=alpha,
        n_datasets=n,
        n_methods=m,
        control=control,
    )


class BonferroniDunn(Nemenyi):
    """Every method against a control by mean ranks; it takes the place of Nemenyi's test."""

    name = asked = "bonferroni-dunn"
    title = "Bonferroni–Dunn"
    control = True
    head = "p (Dunn)"
    summary = "the same for pairs with one control only"
    sources = ("Dunn 1961", "Demšar 2006")

    def run(self, tested: Tested) -> NemenyiResult:
        return bonferroni_dunn(tested.ranks, tested.control, tested.alpha)

    def sentence(self, result: NemenyiResult) -> str:
        return "The Bonferroni-Dunn test on mean ranks"
