"""Pairs of methods over datasets: exact signed ranks, corrections for their number, and what a design can show at all."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import comb, isqrt

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from mlflow_mleval.analysis.ranks import column_of, complete_table
from mlflow_mleval.validation import one_of, probability

CORRECTIONS = ("holm", "bonferroni", "none")
ALTERNATIVES = ("two-sided", "greater", "less")
#: Differences that agree within this share of the dataset's largest value are equal (ties), or zero: float noise.
NOISE = 1e-12
#: The signed-rank distribution is exact up to this many datasets, normal beyond.
EXACT_DATASETS = 100


@dataclass(frozen=True)
class PairwiseResult:
    """Wilcoxon's signed-rank test of every pair of methods.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a pair. method_a, method_b; n (datasets), n_zero (equal on), wins, ties, losses (of a); mean_difference,
        median_difference (a over b: positive where a is better, in units of the measure); mean_low, mean_high (Student
        interval of the mean difference at 1 - alpha, not corrected for the number of pairs); effect_size (matched-pairs
        rank-biserial correlation in [-1, 1], 1: a always better); statistic (sum of the ranks for a; two-sided: the smaller of
        the sums for a and for b), pvalue, pvalue_corrected, significant, exact (whether the p-value is exact, or normal).
    correction : {"holm", "bonferroni", "none"}
    alternative : {"two-sided", "greater", "less"}
    alpha : float
    n_datasets, n_methods, n_comparisons : int
    control : hashable or None
        Method b of all pairs, if one was given.
    methods : list
    warnings : tuple of str
    """

    table: pd.DataFrame
    correction: str
    alternative: str
    alpha: float
    n_datasets: int
    n_methods: int
    n_comparisons: int
    control: Hashable | None
    methods: list[Hashable]
    warnings: tuple[str, ...] = ()

    def pvalues(self, corrected: bool = True) -> pd.DataFrame:
        """Methods x methods: p-values; NaN for pairs that are not compared, and for (b, a) of a one-sided test."""
        values = self.table["pvalue_corrected" if corrected else "pvalue"].to_numpy()
        at = pd.Index(self.methods)
        a, b = at.get_indexer(self.table["method_a"]), at.get_indexer(self.table["method_b"])
        matrix = np.full((self.n_methods, self.n_methods), np.nan)
        np.fill_diagonal(matrix, 1.0)
        matrix[a, b] = values
        if self.alternative == "two-sided":
            matrix[b, a] = values
        return pd.DataFrame(matrix, at, at)

    @property
    def significant_pairs(self) -> list[tuple[Hashable, Hashable]]:
        """The separated pairs as (better, worse)."""
        rows = self.table[self.table["significant"]]
        a_better = rows["effect_size"] > 0
        better = rows["method_a"].where(a_better, rows["method_b"])
        worse = rows["method_b"].where(a_better, rows["method_a"])
        return list(zip(better, worse, strict=True))


@dataclass(frozen=True)
class Feasibility:
    """What pairwise signed-rank tests can show with so many datasets and methods.

    Attributes
    ----------
    n_datasets, n_methods, n_comparisons : int
    smallest_pvalue, smallest_corrected : float
        Of a pair of which one method is better on every dataset.
    can_reject : bool
        Whether any outcome could be significant.
    datasets_needed : int
        The least number of datasets with which one could.
    max_methods : int or None
        The largest number of methods with which one could on these datasets; 0: not even two; None: any number.
    message : str
        The same in a sentence.
    """

    n_datasets: int
    n_methods: int
    n_comparisons: int
    smallest_pvalue: float
    smallest_corrected: float
    can_reject: bool
    datasets_needed: int
    max_methods: int | None
    message: str


def wilcoxon_pairs(
    table: ArrayLike | pd.DataFrame,
    minimize: bool = False,
    correction: str = "holm",
    control: Hashable | None = None,
    alternative: str = "two-sided",
    alpha: float = 0.05,
    decimals: int | None = None,
) -> PairwiseResult:
    r"""Wilcoxon's signed-rank test of every pair of methods over datasets, exact with ties and zeros.

    Ranks of :math:`|a - b|` are averaged over ties; zeros are ranked and then left out (Pratt 1959); the p-value is exact given
    those ranks, all :math:`2^n` signs being equally likely under the hypothesis. Recommended over post-hoc tests of mean ranks,
    whose verdict on a pair depends on the other methods (Benavoli, Corani & Mangili 2016).

    Differences that agree to within 1e-12 of the largest absolute value on the dataset count as tied, and as zero likewise, so
    that float noise (0.3 - 0.2 against 0.2 - 0.1) does not break ties.

    Parameters
    ----------
    table : array_like or pandas.DataFrame, shape (datasets, methods)
        Values of one measure, larger is better.
    minimize : bool
        Whether smaller is better instead.
    correction : {"holm", "bonferroni", "none"}
        For the number of pairs; family-wise error.
    control : hashable, optional
        Compare every method with this one only: method_b of every pair.
    alternative : {"two-sided", "greater", "less"}
        "greater": a is better than b.
    alpha : float
        Family-wise significance level.
    decimals : int, optional
        Round the values to so many decimals first, where they were reported so.

    Raises
    ------
    ValueError
        Fewer than two datasets or methods, empty or infinite cells, an unknown control or option.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [.91, .82, .73, .64, .55, .46], "b": [.9, .8, .7, .6, .5, .4]})
    >>> result = wilcoxon_pairs(table)
    >>> result.table.loc[0, ["wins", "losses", "effect_size", "statistic", "pvalue"]].tolist()
    [6.0, 0.0, 1.0, 0.0, 0.03125]
    >>> result.significant_pairs
    [('a', 'b')]
    """
    one_of(correction, "correction", CORRECTIONS)
    one_of(alternative, "alternative", ALTERNATIVES)
    probability(alpha, "alpha")
    frame = complete_table(table, "table")
    values = frame.to_numpy() if decimals is None else np.round(frame.to_numpy(), decimals)
    if bad := int(np.isinf(values).sum()):
        raise ValueError(f"`table` must be finite, got {bad} infinite cells. A difference of infinities has no rank.")
    n, m = values.shape
    if control is None:
        a, b = np.triu_indices(m, 1)
    else:
        at = column_of(control, frame)
        a = np.delete(np.arange(m), at)
        b = np.full(m - 1, at)
    by_method = (-values if minimize else values).T
    difference = by_method[a] - by_method[b]
    noise = np.broadcast_to(NOISE * np.abs(values).max(axis=1), difference.shape)
    difference[np.abs(difference) <= noise] = 0.0
    doubled, n_zero = _signed_ranks(difference, noise)
    plus = np.where(difference > 0, doubled, 0).sum(axis=1)
    minus = np.where(difference < 0, doubled, 0).sum(axis=1)
    exact = n <= EXACT_DATASETS
    nonzero = np.where(difference != 0, doubled, 0)
    if alternative == "two-sided":
        statistic = np.minimum(plus, minus)
        tail = _tail(nonzero, statistic, n_zero, exact)
        pvalue = np.minimum(1.0, 2 * tail)
    else:
        statistic = plus
        pvalue = _tail(nonzero, minus if alternative == "greater" else plus, n_zero, exact)
    corrected = adjust(pvalue, correction)
    mean = difference.mean(axis=1)
    margin = stats.t.isf(alpha / 2, n - 1) * difference.std(axis=1, ddof=1) / np.sqrt(n)
    pairs = pd.DataFrame(
        {
            "method_a": frame.columns[a],
            "method_b": frame.columns[b],
            "n": n,
            "n_zero": n_zero,
            "wins": (difference > 0).sum(axis=1),
            "ties": n_zero,
            "losses": (difference < 0).sum(axis=1),
            "mean_difference": mean,
            "median_difference": np.median(difference, axis=1),
            "mean_low": mean - margin,
            "mean_high": mean + margin,
            "effect_size": (plus - minus) / (n * (n + 1)),
            "statistic": statistic / 2,
            "pvalue": pvalue,
            "pvalue_corrected": corrected,
            "significant": corrected <= alpha,
            "exact": exact,
        }
    )
    possible = feasibility(n, m, alpha, correction, control is not None, alternative)
    warnings = [] if possible.can_reject else [possible.message]
    if not exact:
        warnings.append(f"p-values are normal approximations (corrected for ties): {n} datasets, more than {EXACT_DATASETS}.")
    return PairwiseResult(
        table=pairs,
        correction=correction,
        alternative=alternative,
        alpha=alpha,
        n_datasets=n,
        n_methods=m,
        n_comparisons=len(pairs),
        control=control,
        methods=frame.columns.tolist(),
        warnings=tuple(warnings),
    )


def _signed_ranks(difference: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Twice the midranks of the absolute differences in each row (integers), zeros included; and the number of zeros."""
    size = np.abs(difference)
    order = np.argsort(size, axis=1, kind="stable")
    ordered = np.take_along_axis(size, order, axis=1)
    slack = np.take_along_axis(noise, order, axis=1)
    n = size.shape[1]
    index = np.arange(n)
    new = np.ones_like(order, dtype=bool)
    new[:, 1:] = np.diff(ordered, axis=1) > np.maximum(slack[:, 1:], slack[:, :-1])
    new[:, 1:] |= (ordered[:, 1:] > 0) & (ordered[:, :-1] == 0)
    first = np.maximum.accumulate(np.where(new, index, 0), axis=1)
    last = np.ones_like(new)
    last[:, :-1] = new[:, 1:]
    final = np.minimum.accumulate(np.where(last, index, n)[:, ::-1], axis=1)[:, ::-1]
    doubled = np.empty_like(order)
    np.put_along_axis(doubled, order, first + final + 2, axis=1)
    return doubled, (size == 0).sum(axis=1)


def _tail(doubled: np.ndarray, sums: np.ndarray, n_zero: np.ndarray, exact: bool) -> np.ndarray:
    """Chance that a random half of the ranks (doubled; 0: left out) sums to at most `sums`, row by row."""
    if not exact:
        total, square = doubled.sum(axis=1), (doubled.astype(float) ** 2).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            z = (sums - total / 2) / (np.sqrt(square) / 2)
        return np.where(square > 0, stats.norm.cdf(z), 1.0)
    out = np.empty(len(doubled))
    pattern = np.sort(doubled, axis=1)
    keys, where = np.unique(pattern, axis=0, return_inverse=True)
    for i, key in enumerate(keys):
        chance = np.zeros(int(key.sum()) + 1)
        chance[0] = 1.0
        for rank in key[key > 0]:
            chance[rank:] += chance[:-rank].copy()
            chance /= 2
        rows = where.ravel() == i
        out[rows] = np.minimum(np.cumsum(chance)[sums[rows]], 1.0)
    return out


def adjust(pvalues: ArrayLike, method: str = "holm") -> np.ndarray:
    """P-values corrected for their number.

    Parameters
    ----------
    pvalues : array_like of float
        One a comparison.
    method : {"holm", "bonferroni", "none"}
        Holm's step-down (1979) is never weaker than Bonferroni; both bound the family-wise error.

    Examples
    --------
    >>> adjust([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    one_of(method, "method", CORRECTIONS)
    p = np.asarray(pvalues, dtype=float).ravel()
    if bad := int((~((p >= 0) & (p <= 1))).sum()):
        raise ValueError(f"`pvalues` must lie in [0, 1], got {bad} that do not. Leave out comparisons that were not made.")
    if method == "none":
        return p.copy()
    if method == "bonferroni":
        return np.minimum(1.0, p * p.size)
    order = np.argsort(p, kind="stable")
    out = np.empty_like(p)
    out[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return out


def feasibility(
    n_datasets: int,
    n_methods: int,
    alpha: float = 0.05,
    correction: str = "holm",
    control: bool = False,
    alternative: str = "two-sided",
) -> Feasibility:
    """Whether pairwise signed-rank tests could reject anything, before looking at data.

    The smallest exact p-value is 2 / 2^datasets (two-sided); Holm and Bonferroni multiply it by the number of pairs.

    Parameters
    ----------
    n_datasets, n_methods : int
        Size of the design.
    alpha, correction, alternative
        As in `wilcoxon_pairs`.
    control : bool
        Whether all methods are compared with one only.

    Examples
    --------
    >>> print(feasibility(11, 12).message)
    12 methods on 11 datasets cannot give a significant pair: the smallest signed-rank p-value is .00098, times 66 \
comparisons (holm) .0645, above alpha = 0.05. It takes 12 datasets or at most 10 methods.
    """
    one_of(correction, "correction", CORRECTIONS)
    one_of(alternative, "alternative", ALTERNATIVES)
    probability(alpha, "alpha")
    if n_datasets < 1 or n_methods < 2:
        raise ValueError(f"`n_datasets` and `n_methods` must be at least 1 and 2, got {n_datasets} and {n_methods}.")
    pairs = n_methods - 1 if control else comb(n_methods, 2)
    factor = 1 if correction == "none" else pairs
    sides = 2 if alternative == "two-sided" else 1

    def smallest(datasets: int) -> float:
        return min(1.0, sides * 0.5**datasets)

    p = smallest(n_datasets)
    corrected = min(1.0, p * factor)
    needed = 1
    while smallest(needed) * factor > alpha:
        needed += 1
    allowed = int(alpha / p)
    if correction == "none" and allowed:
        most = None
    elif control:
        most = allowed + 1 if allowed else 0
    else:
        most = (1 + isqrt(1 + 8 * allowed)) // 2 if allowed else 0
    return Feasibility(
        n_datasets=n_datasets,
        n_methods=n_methods,
        n_comparisons=pairs,
        smallest_pvalue=p,
        smallest_corrected=corrected,
        can_reject=corrected <= alpha,
        datasets_needed=needed,
        max_methods=most,
        message=_possible(n_datasets, n_methods, p, factor, corrected, alpha, correction, needed, most),
    )


def _possible(
    n: int, m: int, p: float, factor: int, corrected: float, alpha: float, correction: str, needed: int, most: int | None
) -> str:
    def short(x: float) -> str:
        return f"{x:.2g}".replace("0.", ".", 1) if x < 1e-3 else f"{x:.4f}".lstrip("0")

    times = f", times {factor} comparisons ({correction}) {short(corrected)}" if factor > 1 else ""
    if corrected <= alpha:
        return f"{m} methods on {n} datasets can give a significant pair: the smallest signed-rank p-value is {short(p)}{times}."
    fewer = f" or at most {most} methods" if most else ""
    return (
        f"{m} methods on {n} datasets cannot give a significant pair: the smallest signed-rank p-value is {short(p)}{times}, "
        f"above alpha = {alpha:g}. It takes {needed} datasets{fewer}."
    )
