"""Post-hoc tests: what each says of itself, so that comparisons, tables, sentences and references
need not know it by name; step-down max-T by sign changes of whole datasets, which judges all pairs
together; and the tests that join those of each dataset, over folds or repeats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, comb, log2
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis import resampling
from mlflow_mleval.analysis.pairs import (
    PAIR,
    Pair,
    PairDifferences,
    PairTests,
    better_and_worse,
    better_first,
    named_pairs,
    pair_matrix,
    pair_positions,
    rows_of_tests,
)
from mlflow_mleval.analysis.resampling import RESAMPLES, Moments, sign_tests
from mlflow_mleval.measures.inputs import slices
from mlflow_mleval.sentences import count
from mlflow_mleval.validation import AnyArray, at_least_one, probability


@dataclass(frozen=True)
class Tested:
    """What a post-hoc test may use: datasets x methods, larger is better (NaN where tests of pairs
    count no result); `most` statistics at most, pairs times sign changes."""

    table: pd.DataFrame
    ranks: pd.DataFrame
    flows: pd.DataFrame
    alpha: float
    control: str | None
    seed: int = 0
    most: int = 5 * 10**9


@dataclass(frozen=True, kw_only=True)
class PairsTested:
    """A table of pairs with their p-values, and what is read off it."""

    table: pd.DataFrame
    alpha: float
    n_datasets: int
    n_comparisons: int
    control: Hashable | None
    methods: list[Hashable]
    warnings: tuple[str, ...] = ()

    @property
    def pvalues(self) -> pd.DataFrame:
        """Methods x methods: corrected p-values; NaN where the pair is not compared."""
        a, b, p = (self.table[name] for name in (*PAIR, "pvalue_corrected"))
        matrix = pair_matrix(self.methods, a, b, p, np.nan).astype(float)
        return matrix.where(~np.eye(len(matrix), dtype=bool), 1.0)

    @cached_property
    def significant_pairs(self) -> list[Pair]:
        """The separated pairs as (better, worse), the largest statistic first."""
        rows = self.table[self.table["significant"]]
        rows = rows.sort_values("statistic", ascending=False, kind="stable")
        return better_and_worse(rows, "mean_difference")


def rows_of_pair(table: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """The rows of two methods, turned so that `a` is the first."""
    same = table[table[PAIR].isin([a, b]).all(axis=1)]
    return better_first(same, same["method_a"] != a)


@dataclass(frozen=True, eq=False)
class Posthoc(ABC):
    """A test of pairs of methods over datasets, with what it tests; its result is made when it is
    asked for, and has alpha, significant_pairs, warnings."""

    #: By which it is asked for (`compare(test=)`) and told (`Comparison.decides`, JSON).
    asked: ClassVar[str]
    #: As readers know it.
    title: ClassVar[str]
    #: Where JSON and `rests_on` have the result.
    key: ClassVar[str]
    #: Whether it needs a control (True), compares all pairs (False), or does either (None).
    control: ClassVar[bool | None] = None
    #: Whether it is made beside the deciding one, too; else only where it is asked for.
    always: ClassVar[bool] = True
    #: What its units are: "datasets", or "repeats" of them.
    over: ClassVar[str] = "datasets"
    #: Whether it joins tests of each dataset by itself.
    by_unit: ClassVar[bool] = False
    #: Whether it goes by mean ranks, and so never contradicts their order.
    by_mean_ranks: ClassVar[bool] = False
    #: Column of `Comparison.pairs` with its p-values, corrected for the number of pairs; the one by
    #: which it sorts; what readers see over it.
    column: ClassVar[str]
    sort: ClassVar[str]
    head: ClassVar[str]
    #: What it does, and its sources as they are cited: author and year.
    summary: ClassVar[str]
    sources: ClassVar[tuple[str, ...]]

    tested: Tested

    @cached_property
    def result(self) -> Any:
        return self.run()

    @property
    def critical_difference(self) -> float | None:
        """The difference of mean ranks from which a pair is separated, if the test has one."""
        return getattr(self.result, "critical_difference", None)

    @abstractmethod
    def run(self) -> Any:
        """Make the test."""

    @property
    def unable(self) -> str:
        """That it could not reject anything, and what that would take; empty where it could."""
        return ""

    @property
    @abstractmethod
    def wording(self) -> str:
        """The test in a few words: "Nemenyi, critical difference 5.02"."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What was tested, as the beginning of a sentence: "Nemenyi's test on mean ranks"."""

    @property
    def about(self) -> str:
        """What a separation is about and what it is not, as a clause."""
        return "this is about datasets like these"


# --------------------------------------------------------------------------------------------------
# Step-down max-T: sign changes of whole datasets, or of blocks, one a repeat of a dataset.

#: Random sign changes at least, however many pairs there are.
FEWEST = 999
#: Of more pairs than this the level of one is alpha over their number.
MANY = 2_000


@dataclass(frozen=True, kw_only=True)
class MaxTResult(PairsTested):
    """Pairs by step-down max-T; low and high hold for all pairs together and exclude 0 where a pair
    is significant. `exact`: all sign changes were made, opposite ones once."""

    exact: bool
    n_resamples: int
    seed: int | None


def datasets_needed(alpha: float) -> int:
    """The least number D of datasets with 2 / 2^D ≤ alpha."""
    return max(2, ceil(1 - log2(alpha)))


def max_t(
    values: ArrayLike | pd.DataFrame,
    control: Hashable | None = None,
    alpha: float = 0.05,
    n_resamples: int = RESAMPLES,
    seed: int = 0,
) -> MaxTResult:
    r"""Compare pairs of methods over datasets by step-down max-T (Westfall & Young 1993; Romano &
    Wolf 2005).

    Where two methods do not differ, either sign of their difference on a dataset is as likely as
    the other. The statistic of a pair is :math:`|\sum_i d_i| / \sqrt{\sum_i d_i^2}`. Signs change
    for whole datasets, the same for all pairs, so that the correlation of the pairs is kept. Pairs
    are ordered by their statistic; the p-value of each is the share of sign changes under which the
    largest statistic among it and those after it reaches its own, and no smaller than that of any
    pair before it. This holds the family-wise error at `alpha` whatever the number of pairs, and no
    p-value can lie below 2 / 2^datasets.

    Parameters
    ----------
    values : array_like or pandas.DataFrame, shape (datasets, methods)
        Larger is better; net flows, or values that different datasets measure on the same scale.
        NaN where a method has none: a pair goes by the datasets on which both have one.
    control : hashable, optional
        Compare every method with this one only: method_b of every pair.
    alpha : float
        Family-wise significance level.
    n_resamples, seed : int
        Random sign changes, to which the one that changes nothing is added. All :math:`2^{D-1}` are
        made instead where these are no more, by default up to 14 datasets.

    Raises
    ------
    ValueError
        Fewer than two datasets or methods, infinite values, an unknown control, `alpha` outside (0,
        1), no sign changes.

    Notes
    -----
    Differences within 1e-12 of a dataset's largest value are zero, and statistics that agree to
    rounding are equal.

    Signs leave the denominator as it is, so that the statistics of many pairs under many sign
    changes are one matrix product: differences over their denominators (pairs x datasets) times
    signs (datasets x changes), in single precision where the changes are random. It is made in
    blocks; from the smallest observed statistic to the largest a running maximum per change makes
    the successive maxima, so that memory is bounded by 40 bytes a pair and a few megabytes. 1,000
    methods on 100 datasets (499,500 pairs, 10,000 changes) take about a quarter of a minute of one
    core.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [3, 4, 5, 6, 5, 4], "b": [2, 2, 3, 5, 3, 3], "c": [2, 1, 4, 4, 2, 3]})
    >>> found = max_t(table)
    >>> found.table[["method_a", "method_b", "statistic", "pvalue", "pvalue_corrected"]].round(3).values.tolist()
    [['a', 'b', 2.324, 0.031, 0.031], ['a', 'c', 2.2, 0.031, 0.031], ['b', 'c', 1.0, 0.625, 0.625]]
    >>> found.significant_pairs, found.exact, found.n_resamples
    ([('a', 'b'), ('a', 'c')], True, 32)
    """  # noqa: E501
    probability(alpha, "alpha")
    at_least_one(n_resamples, "n_resamples")
    pairs = PairDifferences(values, control=control, name="values")
    frame = pairs.frame
    tests = sign_tests(pairs, n_resamples=n_resamples, seed=seed)
    there = frame.notna().to_numpy(float)
    n_of = (there.T @ there).astype(int)[pairs.a, pairs.b]
    apart = tests.corrected <= alpha
    largest = resampling.critical(tests.largest, alpha)
    low, high = np.empty((2, len(n_of)))
    for at in slices(len(n_of), 1 << 16):  # some megabytes at a time
        total, n = tests.total[at], n_of[at]
        limits = Moments(total, tests.size[at] ** 2, n, total, n).limits(largest)
        low[at], high[at] = resampling.up_to_zero(*limits, total, apart[at])
    table = {
        **pairs.named(),
        "n": n_of,
        "mean_difference": tests.total / np.maximum(n_of, 1),
        "statistic": tests.statistic,
        "pvalue": tests.pvalue,
        "pvalue_corrected": tests.corrected,
        "significant": apart,
        "low": low,
        "high": high,
    }
    return MaxTResult(
        table=pd.DataFrame(table, copy=False),  # of half a million pairs a copy is much
        alpha=alpha,
        n_datasets=len(frame),
        n_comparisons=len(n_of),
        control=control,
        methods=frame.columns.tolist(),
        exact=tests.exact,
        n_resamples=tests.changes,
        seed=None if tests.exact else seed,
    )


def level_of_a_pair(
    flows: pd.DataFrame, alpha: float = 0.05, control: Hashable | None = None, seed: int = 0
) -> float:
    """The level that max-T leaves for one pair while all others are still to be tested: that of the
    largest statistic over all pairs under normal weights of datasets."""
    values = flows.to_numpy()
    a, b = pair_positions(flows, control)
    if len(a) == 1 or len(a) > MANY:
        return alpha / len(a)
    d = np.nan_to_num(values[:, a] - values[:, b])
    size = np.sqrt((d**2).sum(axis=0))
    d = d[:, size > 0] / size[size > 0]
    if not d.shape[1]:
        return alpha
    rng = np.random.default_rng(seed)
    drawn = (rng.standard_normal((500, len(d))) @ d for _ in range(20))
    largest = np.concatenate([np.abs(part).max(axis=1) for part in drawn])
    return float(2 * special.ndtr(-np.quantile(largest, 1 - alpha)))


def half_widths(flows: pd.DataFrame, result: MaxTResult) -> AnyArray:
    """By column, half-widths around the means that overlap about where max-T does not separate:
    least squares of w_a + w_b from c s / √(n - c²) over all pairs, in closed form."""
    values = flows.to_numpy()
    m = flows.shape[1]
    c = critical(result)
    own = np.zeros(m)
    for i in range(m - 1):  # pairs of all methods at once would take gigabytes
        d = pd.DataFrame(values[:, [i]] - values[:, i + 1 :])
        # on so few datasets that c cannot be reached nothing is separated, however large
        room = np.sqrt(np.maximum(d.count() - c**2, 1))
        bound = (c * d.std(ddof=0).fillna(0.0) / room).to_numpy()
        own[i] += bound.sum()
        own[i + 1 :] += bound
    total = own.sum() / 2 / (m - 1)
    return np.full(m, own[0] / 2) if m == 2 else np.maximum((own - total) / (m - 2), 0.0)


def critical(result: MaxTResult) -> float:
    """A statistic between those not separated and the others, near Bonferroni's."""
    statistic = result.table["statistic"]
    apart = result.table["significant"]
    bonferroni = -special.ndtri(result.alpha / 2 / result.n_comparisons)
    low = statistic[~apart].max() if not apart.all() else 0.0
    high = statistic[apart].min() if apart.any() else np.inf
    return float(np.clip(bonferroni, low, max(low, high)))


class MaxT(Posthoc):
    """All pairs, or those with a control, by sign changes of whole datasets."""

    asked = "max-t"
    title = "Step-down max-T"
    key = "max_t"
    column = sort = "pvalue_max_t"
    head = "p (max-T)"
    summary = (
        "changes signs of whole datasets and judges every pair by the largest statistic of all; "
        "holds α over all pairs"
    )
    sources = ("Westfall & Young 1993", "Romano & Wolf 2005")

    def run(self) -> MaxTResult:
        t = self.tested
        changes = max(FEWEST, min(RESAMPLES, t.most // comb(t.flows.shape[1], 2)))
        return max_t(t.flows, t.control, t.alpha, changes, t.seed)

    @property
    def unable(self) -> str:
        result = self.result
        if 1 / result.n_resamples <= result.alpha:
            return ""
        least = f"{1 / result.n_resamples:.3g}".removeprefix("0")  # whatever the values
        return (
            f"Over {count(result.n_datasets, 'dataset')} no p-value of a pair lies below {least}. "
            f"It takes {datasets_needed(result.alpha)}, or three repeats of every method on each."
        )

    @property
    def wording(self) -> str:
        return "step-down max-T"

    @property
    def sentence(self) -> str:
        result = self.result
        pairs = "all pairs" if result.control is None else f"every pair with {result.control}"
        n = result.n_resamples
        how, seed = f"all {n:,} changes", ""
        if not result.exact:
            how, seed = f"{n - 1:,} random changes", f" (seed {result.seed})"
        return f"Step-down max-T over {pairs}, by {how} of sign of whole datasets{seed}"


@dataclass(frozen=True, eq=False)
class OverRepeats(MaxT):
    """The same by sign changes of blocks, one a repeat of a dataset, where datasets are too few."""

    asked = over = "repeats"
    title = "Step-down max-T over repeats"
    key = "over_repeats"
    column = sort = "pvalue_repeats"
    head = "p (repeats)"
    always = False
    summary = (
        "changes signs of blocks, one a repeat of a dataset, and judges every pair by the largest "
        "statistic of all; holds α over all pairs, and says nothing of other datasets"
    )

    n_datasets: int
    same_split: bool | None

    @property
    def wording(self) -> str:
        return f"step-down max-T over {self._blocks}"

    @property
    def sentence(self) -> str:
        return super().sentence.replace("whole datasets", self._blocks)

    @property
    def about(self) -> str:
        these = "this dataset" if self.n_datasets == 1 else f"these {self.n_datasets} datasets"
        split = " and their splits" if self.same_split else ""
        return f"this is about training again on {these}{split}, and not about others"

    @property
    def _blocks(self) -> str:
        return f"{self.result.n_datasets} repeats of {count(self.n_datasets, 'dataset')}"


# --------------------------------------------------------------------------------------------------
# Tests of each dataset, joined.


@dataclass(frozen=True, eq=False)
class OverFolds(Posthoc):
    """All pairs by folds: separated on some dataset, and on none the other way round."""

    asked = over = "folds"
    key = "over_folds"
    title = "Tests over folds"
    column = sort = "pvalue_folds"
    head = "p (folds)"
    always = False
    by_unit = True
    summary = (
        "tests the folds of each dataset and corrects over pairs and datasets; says nothing of "
        "other datasets"
    )
    sources: ClassVar[tuple[str, ...]] = ("Yıldız & Alpaydın 2014",)
    sentence = "Tests over folds, corrected over pairs and datasets"

    by_dataset: Mapping[str, PairTests]

    def run(self) -> PairsTested:
        names = [*map(str, self.tested.ranks.columns)]
        ahead = pd.DataFrame(0, names, names)
        for better, worse in (pair for one in self.by_dataset.values() for pair in one.better):
            ahead.loc[better, worse] += 1
        ahead = ahead.to_numpy()
        lead = ahead - ahead.T
        rows = rows_of_tests(self.by_dataset)
        p = rows.dropna(subset="pvalue_corrected").sort_values("pvalue_corrected", ascending=False)
        a, b, values = (p[name] for name in (*PAIR, "pvalue_corrected"))
        least = pair_matrix(names, a, b, values, np.nan).to_numpy()  # of several the last one stays
        least = np.fmin(least, least.T)  # datasets may name the two in either order
        pairs = np.triu_indices(len(names), 1)
        table = {
            **named_pairs(names, *pairs),
            "mean_difference": lead[pairs],
            "statistic": np.abs(lead[pairs]),
            "pvalue_corrected": least[pairs],
            "significant": ((ahead > 0) != (ahead.T > 0))[pairs],
        }
        return PairsTested(
            table=pd.DataFrame(table),
            alpha=self.tested.alpha,
            n_datasets=len(self.by_dataset),
            n_comparisons=len(rows),
            control=None,
            methods=[*names],
        )

    @property
    def wording(self) -> str:
        return f"tests over the {self.over} of {count(len(self.by_dataset), 'dataset')}"

    @property
    def about(self) -> str:
        n = len(self.by_dataset)
        these = f"these {n} datasets" if n > 1 else "this dataset"
        return f"about {these} and no others"


class OverSeeds(OverFolds):
    """The same by the repeats of each dataset, where their blocks are too few."""

    asked = over = "repeats"
    key = "over_repeats"
    title = "Tests over repeats"
    column = sort = "pvalue_repeats"
    head = "p (repeats)"
    summary = (
        "tests the repeats of each dataset, measure by measure, and corrects over all these tests; "
        "says nothing of other datasets"
    )
    sources = ("Welch 1947", "Holm 1979")
    sentence = "Tests over repeats, corrected over pairs, measures and datasets"
