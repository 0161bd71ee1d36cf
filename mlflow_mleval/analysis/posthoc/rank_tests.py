"""Tests of ranks over datasets: mean ranks of all pairs (Nemenyi 1963; Demšar 2006) or with a
control (Dunn 1961), and Wilcoxon's signed ranks, exact with ties and zeros; what a design can show.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations
from math import ceil, comb, inf, isinf, isqrt, log2
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special
from scipy.special import ndtr, ndtri

from mlflow_mleval.analysis.pairs import (
    Pair,
    PairDifferences,
    better_and_worse,
    complete_table,
    components,
    decided,
    incomplete_table,
    pair_positions,
)
from mlflow_mleval.analysis.posthoc.max_t import PairsTested, Posthoc, datasets_needed
from mlflow_mleval.analysis.promethee import ends_of_runs
from mlflow_mleval.measures.inputs import slices
from mlflow_mleval.sentences import count, some
from mlflow_mleval.validation import AnyArray, one_of, probability

#: Step of the table that range_sf interpolates, and where the chance is below 1e-260 for any number
#: of methods in use.
RANGE_STEP = 0.02
RANGE_MAX = 50.0
#: Differences of pairs whose signed ranks are made at a time.
_CELLS = 2**17


@dataclass(frozen=True)
class NemenyiResult:
    """Differences of mean ranks, over all pairs or (Bonferroni-Dunn) against a control."""

    critical_difference: float
    pvalues: pd.DataFrame
    mean_ranks: pd.Series
    alpha: float
    n_datasets: int
    control: Hashable | None = None
    warnings: tuple[str, ...] = ()

    @property
    def significant(self) -> pd.DataFrame:
        """Methods x methods: whether the test separates the pair."""
        return self.pvalues <= self.alpha

    @property
    def significant_pairs(self) -> list[Pair]:
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
    from scipy import interpolate  # takes a third of a second, and few methods do without

    curve = interpolate.make_interp_spline(knots, np.log(_range_sf(knots, m)), k=7)
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
    low, high = 0.0, RANGE_MAX
    while high - low > 1e-13:  # the chance falls, so it crosses alpha between two of 17 points
        points = np.linspace(low, high, 17)
        at = int(np.count_nonzero(_range_sf(points, m) >= alpha))
        low, high = points[at - 1], points[min(at, 16)]
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
    return _by_mean_ranks(ranks, alpha)


def _by_mean_ranks(
    ranks: ArrayLike | pd.DataFrame, alpha: float, *control: Hashable
) -> NemenyiResult:
    """Differences of mean ranks of all pairs, or with a control."""
    probability(alpha, "alpha")
    table = complete_table(ranks, "ranks")
    doubled = np.rint(2 * table.rank(axis=1).to_numpy()).astype(np.int64)  # so sums are exact
    n, m = doubled.shape
    sums = doubled.sum(axis=0)
    gaps = np.abs(sums[:, None] - sums) / (2 * n)
    deviation = np.sqrt(m * (m + 1) / (6 * n))
    if control:
        with_control = table.columns == table.columns[pair_positions(table, *control)[1][0]]
        least = -ndtri(alpha / (2 * (m - 1)))
        pvalues = np.minimum(1.0, (m - 1) * 2 * ndtr(-gaps / deviation))
        pvalues[~(with_control[:, None] | with_control)] = np.nan
    else:
        deviation /= np.sqrt(2)
        least = _range_isf(alpha, m)
        kinds, where = np.unique(gaps, return_inverse=True)
        pvalues = range_sf(kinds / deviation, m)[where.reshape(m, m)]
    return NemenyiResult(
        critical_difference=float(least * deviation),
        pvalues=pd.DataFrame(pvalues, table.columns, table.columns),
        mean_ranks=pd.Series(sums / (2 * n), table.columns, name="mean_rank"),
        alpha=alpha,
        n_datasets=n,
        control=control[0] if control else None,
    )


class Nemenyi(Posthoc):
    """All pairs by mean ranks."""

    asked = key = "nemenyi"
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
    sentence = "Nemenyi's test on mean ranks"

    def run(self) -> NemenyiResult:
        control = () if self.tested.control is None else (self.tested.control,)
        return _by_mean_ranks(self.tested.ranks, self.tested.alpha, *control)

    @property
    def wording(self) -> str:
        return f"{self.title}, critical difference {self.result.critical_difference:.2f}"


def bonferroni_dunn(
    ranks: ArrayLike | pd.DataFrame, control: Hashable, alpha: float = 0.05
) -> NemenyiResult:
    r"""Compare every method with a control by mean ranks (Dunn 1961; Demšar 2006); `ranks` as for
    `nemenyi`.

    :math:`CD = z_{\alpha/(2(m-1))} \sqrt{m(m+1)/(6D)}`; p-values are two-sided normal, times the m
    - 1 comparisons.

    >>> result = bonferroni_dunn(pd.DataFrame([[1, 2, 3]] * 8, columns=["a", "b", "c"]), control="c")
    >>> round(result.critical_difference, 4), result.significant_pairs
    (1.1207, [('a', 'c')])
    """  # noqa: E501
    if control is None:
        raise ValueError("`control` must be one of the methods, got None. `nemenyi` takes none.")
    return _by_mean_ranks(ranks, alpha, control)


class BonferroniDunn(Nemenyi):
    """Every method against a control by mean ranks; it takes the place of Nemenyi's test."""

    asked = "bonferroni-dunn"
    title = "Bonferroni–Dunn"
    control = True
    head = "p (Dunn)"
    summary = "the same for pairs with one control only"
    sources = ("Dunn 1961", "Demšar 2006")
    sentence = "The Bonferroni-Dunn test on mean ranks"


# --------------------------------------------------------------------------------------------------
# Signed ranks of pairs.

#: The signed-rank distribution is exact up to this many datasets, normal beyond.
EXACT_RANKS = 200


@dataclass(frozen=True, kw_only=True)
class PairwiseResult(PairsTested):
    """Signed ranks of every pair; effect_size is the matched-pairs rank-biserial correlation."""

    @property
    def significant_pairs(self) -> list[Pair]:
        """The separated pairs as (better, worse)."""
        return better_and_worse(self.table[self.table["significant"]], "effect_size")


def wilcoxon_pairs(
    table: ArrayLike | pd.DataFrame, control: Hashable | None = None, alpha: float = 0.05
) -> PairwiseResult:
    r"""Wilcoxon's signed-rank test of every pair of methods over datasets, exact with ties and
    zeros, with Holm's correction for the number of pairs.

    Ranks of :math:`|a - b|` are averaged over ties; zeros are ranked and then left out (Pratt
    1959); the p-value is exact given those ranks, all :math:`2^n` signs being equally likely under
    the hypothesis. Recommended over post-hoc tests of mean ranks, whose verdict on a pair depends
    on the other methods (Benavoli, Corani & Mangili 2016).

    Differences that agree to within 1e-12 of the largest absolute value on the dataset count as
    tied, and as zero likewise, so that float noise (0.3 - 0.2 against 0.2 - 0.1) does not break
    ties.

    Parameters
    ----------
    table : array_like or pandas.DataFrame, shape (datasets, methods)
        Values of one measure, larger is better. NaN where a method has none: a pair goes by the
        datasets on which both have one.
    control : hashable, optional
        Compare every method with this one only: method_b of every pair.
    alpha : float
        Family-wise significance level.

    Raises
    ------
    ValueError
        Fewer than two datasets or methods, infinite cells, an unknown control.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [.91, .82, .73, .64, .55, .46], "b": [.9, .8, .7, .6, .5, .4]})
    >>> result = wilcoxon_pairs(table)
    >>> result.table.loc[0, ["wins", "losses", "effect_size", "statistic", "pvalue"]].tolist()
    [6.0, 0.0, 1.0, 0.0, 0.03125]
    >>> result.significant_pairs
    [('a', 'b')]
    """
    probability(alpha, "alpha")
    every = PairDifferences(table, control=control)
    n, m = every.frame.shape
    exact = n <= EXACT_RANKS
    tested = []
    for rows in slices(len(every.a), max(1, _CELLS // n)):
        difference = every[rows]
        plus, minus, pvalue = signed_ranks(difference, every.noise, exact)
        shared = (~np.isnan(difference)).sum(axis=1)
        part = {
            "n": shared,
            "wins": (difference > 0).sum(axis=1),
            "ties": (difference == 0).sum(axis=1),
            "losses": (difference < 0).sum(axis=1),
            "mean_difference": pd.DataFrame(difference.T).mean(),
            "effect_size": (plus - minus) / np.maximum(shared * (shared + 1), 1),
            "statistic": np.minimum(plus, minus) / 2,
            "pvalue": pvalue,
        }
        tested.append(pd.DataFrame(part))
    columns = pd.concat(tested, ignore_index=True)
    corrected = decided(columns.pop("pvalue").to_numpy(), alpha)
    unable = cannot_reject(n, m, alpha, control is not None)
    return PairwiseResult(
        table=pd.DataFrame({**every.named(), **columns, **corrected, "exact": exact}),
        alpha=alpha,
        n_datasets=n,
        n_comparisons=len(columns),
        control=control,
        methods=every.frame.columns.tolist(),
        warnings=(unable,) if unable else (),
    )


def signed_ranks(
    difference: AnyArray, noise: AnyArray, exact: bool
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """By row twice the sums of the midranks of positive and of negative differences (NaN has none),
    and the two-sided p-value: exact, or normal with the variance of the tied ranks."""
    size = np.abs(difference)
    order = np.argsort(size, axis=1)
    ordered = np.take_along_axis(size, order, axis=1)
    slack = noise[order]
    tied = np.diff(ordered, axis=1) <= np.maximum(slack[:, 1:], slack[:, :-1])
    first, last = ends_of_runs(~tied | (ordered[:, :-1] == 0))
    ranks = np.where(ordered > 0, first + last + 2, 0)  # rising, and doubled
    positive = np.take_along_axis(difference, order, axis=1) > 0
    total = ranks.sum(axis=1)
    plus = np.where(positive, ranks, 0).sum(axis=1)
    least = np.minimum(plus, total - plus)
    if exact:
        # chance that a random half of the ranks adds up to at most the smaller sum
        tail = np.empty(len(ranks))
        kinds, kind = np.unique(ranks, axis=0, return_inverse=True)
        for i, alike in enumerate(kinds):
            rows = kind.ravel() == i
            limit = int(least[rows].max())
            ways = np.zeros(limit + 1)  # by sum, how many subsets have it: exact below 2^53 subsets
            ways[0] = 1.0
            reach = 0
            nonzero = alike[alike > 0].tolist()
            for rank in nonzero:
                reach = min(reach + rank, limit)
                if rank <= reach:
                    ways[rank : reach + 1] += ways[: reach + 1 - rank]
            tail[rows] = np.ldexp(np.cumsum(ways), -len(nonzero))[least[rows]]
    else:
        deviation = np.sqrt((ranks.astype(float) ** 2).sum(axis=1)) / 2
        z = (least - total / 2) / np.where(deviation > 0, deviation, 1.0)
        tail = np.where(deviation > 0, ndtr(z), 1.0)
    return plus, total - plus, np.minimum(1.0, 2 * tail)


def cannot_reject(
    n_datasets: int, n_methods: int, alpha: float = 0.05, control: bool = False
) -> str:
    """That signed ranks of pairs can reject nothing, whatever the data, and what it would take: the
    smallest p-value is 2 / 2^datasets, times the number of pairs; empty where they can."""
    pairs = n_methods - 1 if control else comb(n_methods, 2)
    smallest = min(1.0, 2 * 0.5**n_datasets * pairs)
    if smallest <= alpha:
        return ""
    needed = ceil(1 + log2(pairs / alpha))
    allowed = int(alpha / 2 * 2**n_datasets)  # comparisons
    most = allowed + 1 if control else (1 + isqrt(1 + 8 * allowed)) // 2
    fewer = f" or at most {most} methods" if allowed else ""
    return (
        f"{n_methods} methods on {n_datasets} datasets cannot give a significant pair: the "
        f"smallest signed-rank p-value, times {count(pairs, 'comparison')}, is {smallest:.3g}, "
        f"above alpha = {alpha:g}. It takes {needed} datasets{fewer}."
    )


class Wilcoxon(Posthoc):
    """Every pair by itself, by signed ranks."""

    asked = "wilcoxon"
    title = "Wilcoxon's signed ranks"
    key = "pairwise"
    column = "pvalue_corrected"
    sort = "pvalue"
    head = "p"
    summary = "tests a pair of methods by itself, exactly with ties and zeros"
    sources: ClassVar[tuple[str, ...]] = ("Wilcoxon 1945", "Pratt 1959", "Benavoli et al. 2016")
    wording = "Wilcoxon's signed ranks, Holm's correction"

    def run(self) -> PairwiseResult:
        return wilcoxon_pairs(self.tested.table, self.tested.control, self.tested.alpha)

    @property
    def unable(self) -> str:
        return " ".join(self.result.warnings)

    @property
    def sentence(self) -> str:
        control = self.tested.control
        pairs = "every pair" if control is None else f"every pair with {control}"
        return f"Wilcoxon's signed-rank test on {pairs}, p-values corrected (holm)"


class BenjaminiHochberg(Wilcoxon):
    """Signed ranks; of the pairs that are separated, a share of α may be so by chance."""

    asked = "benjamini-hochberg"
    title = "Benjamini–Hochberg"
    key = "benjamini_hochberg"
    always = False
    column = sort = "pvalue_benjamini_hochberg"
    head = "p (BH)"
    summary = (
        "tests pairs by signed ranks and bounds the share of false ones among those it "
        "separates, not the chance of any"
    )
    sources = ("Wilcoxon 1945", "Benjamini & Hochberg 1995")
    wording = "Wilcoxon's signed ranks, Benjamini–Hochberg's false discovery rate"
    sentence = "Wilcoxon's signed ranks with the false discovery rate of Benjamini and Hochberg"

    def run(self) -> PairwiseResult:
        from scipy import stats  # takes a third of a second, and is seldom asked for

        tests = super().run()
        corrected = stats.false_discovery_control(tests.table["pvalue"])
        table = tests.table.assign(pvalue_corrected=corrected, significant=corrected <= tests.alpha)
        return replace(tests, table=table, warnings=())  # those are of Holm's correction

    @property
    def unable(self) -> str:
        n, needed = self.result.n_datasets, datasets_needed(self.result.alpha)
        if n >= needed:
            return ""
        return f"{count(n, 'dataset')} cannot give a significant pair: it takes {needed}."


# --------------------------------------------------------------------------------------------------
# Tests on ranks over datasets: Friedman, Iman-Davenport, Skillings-Mack; Kendall's tau.

TIES = ("correct", "ignore")
#: By number of methods, up to how many datasets Friedman's p-value is exact. There the F rejects up
#: to .19 of true hypotheses at .05; beyond, at most .067 on two datasets and .061 on more.
EXACT_DATASETS = {2: 10, 3: 10, 4: 10, 5: 4, 6: 3, 7: 2}


@dataclass(frozen=True)
class FriedmanResult:
    """Friedman's chi-square, the F of Iman and Davenport, and for few datasets and methods the
    exact p-value, by all orders of the methods within datasets."""

    statistic: float
    pvalue: float
    df: int
    iman_davenport_statistic: float
    iman_davenport_pvalue: float
    iman_davenport_df: tuple[int, int]
    exact_pvalue: float | None
    mean_ranks: pd.Series
    n_datasets: int
    n_methods: int
    ties: str
    warnings: tuple[str, ...] = ()

    @property
    def best_pvalue(self) -> float:
        """The exact p-value where there is one, else that of Iman and Davenport."""
        return self.iman_davenport_pvalue if self.exact_pvalue is None else self.exact_pvalue


@dataclass(frozen=True)
class SkillingsMackResult:
    """Friedman's test with empty cells; several `parts`: the design is not connected."""

    statistic: float
    pvalue: float
    df: int
    dropped: tuple[Hashable, ...]
    parts: list[list[Hashable]]
    n_datasets: int
    warnings: tuple[str, ...] = ()


def friedman(ranks: ArrayLike | pd.DataFrame, ties: str = "correct") -> FriedmanResult:
    r"""Test whether methods differ over datasets (Friedman 1937; Iman & Davenport 1980; Demšar
    2006).

    :math:`\chi^2_F = \frac{12D}{m(m+1)} [\sum_j R_j^2 - m(m+1)^2/4]` on m - 1 degrees of freedom,
    divided by :math:`1 - \sum (t^3 - t) / (D m (m^2 - 1))` for ties, and :math:`F_F = (D-1)\chi^2_F
    / (D(m-1) - \chi^2_F)` on (m - 1, (m - 1)(D - 1)).

    Parameters
    ----------
    ranks : array_like or pandas.DataFrame, shape (datasets, methods)
        Ranks, or any values of which the smaller is better; each row is ranked, ties averaged.
    ties : {"correct", "ignore"}
        Whether to correct for ties. "ignore" is what Madjarov et al. (2012) and Eftimov & Kocev
        (2019) print.

    Raises
    ------
    ValueError
        Fewer than two datasets or methods, empty cells, an unknown `ties`.

    Examples
    --------
    >>> result = friedman([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]])
    >>> result.statistic, round(result.pvalue, 4), result.mean_ranks.tolist()
    (4.5, 0.1054, [1.25, 2.0, 2.75])
    >>> round(result.iman_davenport_statistic, 3), round(result.iman_davenport_pvalue, 4), round(result.exact_pvalue, 4)
    (3.857, 0.0837, 0.125)
    """  # noqa: E501
    one_of(ties, "ties", TIES)
    table = complete_table(ranks, "ranks")
    doubled = np.rint(2 * table.rank(axis=1).to_numpy()).astype(np.int64)  # so sums are exact
    n, m = doubled.shape
    sums = doubled.sum(axis=0)
    between = int(((sums - n * (m + 1)) ** 2).sum())
    total = int((doubled**2).sum()) - n * m * (m + 1) ** 2
    untied = n * m * (m * m - 1) // 3
    warnings = []
    if total == 0:
        warnings.append("Every dataset ties all methods: there is nothing to test.")
    scale = total if ties == "correct" and total else untied
    rest = n * scale - between
    f = (n - 1) * between / rest if rest else inf
    if isinf(f):
        warnings.append(
            f"All {n} datasets rank the methods alike, so the Iman-Davenport F is infinite and its "
            "p-value 0."
        )
    exact = None
    if n <= EXACT_DATASETS.get(m, 0):
        spread, share = _spreads(tuple(sorted(tuple(sorted(row)) for row in doubled.tolist())))
        exact = min(1.0, float(share[spread >= between].sum()))
        warnings.append(
            f"The approximations of Friedman's test are rough for {n} datasets and {m} methods; "
            f"by all orders of the methods p = {exact:.2g}."
        )
    elif n <= 10 or m <= 5:
        warnings.append(
            f"The chi-square approximation of Friedman's test is rough for {n} datasets and {m} "
            "methods (rule of thumb: more than 10 and 5)."
        )
    statistic = (m - 1) * between / scale
    df = m - 1
    f_df = (m - 1, (m - 1) * (n - 1))
    return FriedmanResult(
        statistic=statistic,
        pvalue=float(special.chdtrc(df, statistic)),
        df=df,
        iman_davenport_statistic=f,
        iman_davenport_pvalue=float(special.fdtrc(*f_df, f)),
        iman_davenport_df=f_df,
        exact_pvalue=exact,
        mean_ranks=pd.Series(sums / (2 * n), table.columns, name="mean_rank"),
        n_datasets=n,
        n_methods=m,
        ties=ties,
        warnings=tuple(warnings),
    )


@lru_cache(maxsize=64)
def _spreads(rows: tuple[tuple[int, ...], ...]) -> tuple[AnyArray, AnyArray]:
    """Spreads that column sums of rows in random order can have, and their probabilities."""
    n, m = len(rows), len(rows[0])
    sums: AnyArray = np.array(rows[:1])
    share: AnyArray = np.ones(1)
    digits = (2 * n * m + 1) ** np.arange(m)
    for row in rows[1:]:
        orders, times = np.unique(list(permutations(row)), axis=0, return_counts=True)
        sums = np.sort((sums[:, None] + orders).reshape(-1, m), axis=1)
        _, at, which = np.unique(sums @ digits, return_index=True, return_inverse=True)
        sums = sums[at]
        share = np.bincount(which, np.multiply.outer(share, times / times.sum()).ravel())
    return ((sums - n * (m + 1)) ** 2).sum(axis=1), share


def skillings_mack(table: ArrayLike | pd.DataFrame) -> SkillingsMackResult:
    r"""Friedman's test where some methods have no result (NaN) on some datasets (Skillings & Mack
    1981); smaller is better.

    Ranks are taken among the :math:`k_i` results of a dataset, centred, weighted by
    :math:`\sqrt{12/(k_i+1)}` and summed to :math:`A_j`; the statistic is :math:`A^T \Sigma^- A`
    with the permutation covariance of A, ties corrected by the variance of the tied ranks. Equals
    `friedman` on a complete table. ValueError without a dataset with two results.

    >>> result = skillings_mack([[1, 2, 3], [1, 2, np.nan], [1, np.nan, 2], [np.nan, 1, 2]])
    >>> round(result.statistic, 3), result.df, round(result.pvalue, 3), result.dropped
    (4.643, 2, 0.098, ())
    """
    table = incomplete_table(table, "table")
    count = table.count(axis=1)
    dropped = table.index[count < 2].tolist()
    ranks = table[count >= 2].rank(axis=1)
    if ranks.empty:
        raise ValueError(
            "`table` must have a dataset with two results, got none. Compare methods on common "
            "datasets."
        )
    there = ranks.notna().to_numpy(float)
    k = there.sum(axis=1, keepdims=True)
    centred = np.nan_to_num(ranks - (k + 1) / 2)
    sums = (np.sqrt(12 / (k + 1)) * centred).sum(axis=0)
    # within a dataset the ranks of two have covariance -variance / (k - 1)
    weight = 12 * (centred**2).sum(axis=1, keepdims=True) / (k * (k * k - 1))
    informative = bool(weight.any())
    met = there.T @ (there * weight)
    np.fill_diagonal(met, 0.0)
    covariance = np.diag(met.sum(axis=1)) - met
    # methods that meet only where all tie are not compared, unless all tie everywhere
    part = components((met if informative else there.T @ there) > 0)
    parts = [table.columns[part == i].tolist() for i in range(int(part.max()) + 1)]
    statistic = float(sums @ np.linalg.pinv(covariance, hermitian=True, rcond=1e-10) @ sums)
    df = table.shape[1] - len(parts)
    warnings = []
    if dropped:
        warnings.append(
            f"{len(dropped)} datasets with fewer than two results say nothing and were left out: "
            f"{some(dropped)}."
        )
    if len(parts) > 1:
        shown = "; ".join(map(some, parts))
        warnings.append(
            f"The design is not connected: methods of different parts are never compared ({shown})."
        )
    if not informative:
        warnings.append("Every dataset ties all methods: there is nothing to test.")
    return SkillingsMackResult(
        statistic=max(statistic, 0.0),
        pvalue=float(special.chdtrc(df, max(statistic, 0.0))),
        df=df,
        dropped=tuple(dropped),
        parts=parts,
        n_datasets=len(ranks),
        warnings=tuple(warnings),
    )


def kendall(rankings: ArrayLike | pd.DataFrame) -> pd.DataFrame:
    """Kendall's tau-b between every two rankings (rows); NaN where a ranking ties all methods."""
    table = pd.DataFrame(rankings, dtype=float)
    varies = np.ptp(table.to_numpy(), axis=1) > 0
    return table.T.corr(method="kendall").where(np.outer(varies, varies))
