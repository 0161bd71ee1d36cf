"""Methods compared over the units of one dataset: instance by instance (sign test, signed ranks,
permutations over several measures), and over independent repeats (Welch's test).

Yang & Liu (1999), "A re-examination of text categorization methods", for the micro sign test;
Wilcoxon (1945); Westfall & Young (1993), "Resampling-based multiple testing", for the permutation
test with the maximum over measures; beside it stands a score test, which does not take differences
to be symmetric. One measure of all methods is in memory at a time, so that a table of every
instance, method and measure never is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.fusion import Fusion, study_flows
from mlflow_mleval.analysis.pairs import (
    NOISE,
    PairTests,
    cluster_doubts,
    cluster_numbers,
    holm,
    jointly,
    limits_together,
    on_each,
    pairs_by_measure,
)
from mlflow_mleval.analysis.posthoc.rank_tests import EXACT_RANKS, signed_ranks
from mlflow_mleval.analysis.resampling import (
    RESAMPLES,
    Moments,
    Sample,
    Signs,
    cluster_sums,
    critical,
    normal_draws,
    normal_step_down,
    step_down,
    up_to_zero,
)
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.measures.metric_names import directions, range_of
from mlflow_mleval.sentences import Argument, Message, agree, count, some, span
from mlflow_mleval.study import Study
from mlflow_mleval.validation import (
    Array,
    Places,
    Stated,
    at_least_one,
    by_name,
    known_keywords,
    of_kind,
    one_of,
    probability,
    unique_names,
)

if TYPE_CHECKING:
    from typing_extensions import Self


#: What gives a measure of every instance: a table with a column a measure, or a function that reads
#: one column by its name.
Source: TypeAlias = Mapping[str, ArrayLike] | pd.DataFrame | Callable[[str], ArrayLike]
#: Values of further measures that wait for their signs: 16 MB.
TOGETHER = 2**21
#: Of no more differing instances the normal approximation of the sign test is rough.
FEW = 12
#: Of fewer instances or clusters sign changes alone err where differences are skewed.
SKEWED = 60
#: How far a value may lie outside of its measure's range by rounding.
ROUNDING = 1e-6


@dataclass(frozen=True)
class SignTestResult:
    """The micro sign test: of n instances on which two systems differ, the first is better on k; Z,
    the exact p-value, the one from Z, and the share with its Clopper-Pearson interval."""

    k: int
    n: int
    statistic: float
    pvalue: float
    normal_pvalue: float
    share: float
    low: float
    high: float
    alternative: str
    alpha: float
    warnings: tuple[str, ...] = ()


def sign_test(
    k: int, n: int, alternative: str = "two-sided", alpha: float = 0.05
) -> SignTestResult:
    """The micro sign test of two systems, exact and by the normal approximation (Yang & Liu 1999).

    Parameters
    ----------
    k, n : int
        Of the n instances (or decisions) on which the systems differ, the first is better on k.
    alternative : {"two-sided", "greater", "less"}
        "greater": the first system is better. Published p-values of this test are one-sided in this
        way.
    alpha : float
        The interval of the share is at 1 - alpha.

    Raises
    ------
    ValueError
        k or n not integers with 0 <= k <= n.

    Examples
    --------
    >>> found = sign_test(60, 100, alternative="greater")
    >>> found.statistic, round(found.normal_pvalue, 7), round(found.pvalue, 6)
    (2.0, 0.0227501, 0.028444)
    """
    from scipy import stats  # slow to load, and a ranking does without it

    one_of(alternative, "alternative", ("two-sided", "greater", "less"))
    probability(alpha, "alpha")
    if k != int(k) or n != int(n) or not 0 <= k <= n:
        raise ValueError(
            f"`k` and `n` must be integers with 0 <= k <= n, got {k!r} and {n!r}. Leave ties out "
            "of n."
        )
    k, n = int(k), int(n)
    z, exact, normal, low, high = 0.0, 1.0, 1.0, 0.0, 1.0
    if n:
        z = (2 * k - n) / np.sqrt(n)
        exact = float(stats.binomtest(k, n, alternative=alternative).pvalue)
        low, high = stats.binomtest(k, n).proportion_ci(1 - alpha)
        tails = {"greater": stats.norm.sf(z), "less": stats.norm.cdf(z)}
        normal = float(tails.get(alternative, 2 * stats.norm.sf(abs(z))))
    few = f"The systems differ on {n} instances only: use the exact p-value, not the normal one."
    share, warnings = k / n if n else float("nan"), () if n > FEW else (few,)
    found = k, n, float(z), exact, normal, share, float(low), float(high)
    return SignTestResult(*found, alternative, alpha, warnings)


@dataclass(frozen=True, kw_only=True)
class InstanceTests(PairTests):
    """Tests of every pair over the instances of one test set; see `instance_tests`. low to high is
    what not both tests reject, all rows and datasets together."""

    unit: ClassVar[str] = "instances"
    one_family: ClassVar[bool] = True
    test = "The test over instances"
    about = (
        "this is about these methods as they were trained, on instances like these: not about "
        "training them again, nor about other datasets"
    )

    n_instances: int
    n_clusters: int | None
    n_resamples: int = field(metadata={"key": "n_draws"})
    seed: int
    moments: Moments = field(repr=False)
    largest: Array = field(repr=False)
    #: Of rows whose measure has a range their units, and the largest score statistics by chance.
    bounded: Mapping[int, Sample] = field(repr=False)
    largest_score: Array = field(repr=False)

    def corrected(self, table: pd.DataFrame, n_datasets: int, n_comparisons: int) -> Self:
        """The same with the corrected table, and limits that hold together on all datasets."""
        level = self.alpha / n_datasets
        low, high = self.moments.limits(critical(self.largest, level))
        if self.bounded:
            tail = special.ndtr(-critical(self.largest_score, level))
            for k, units in self.bounded.items():
                low[k], high[k] = units.limit(tail, 1, low[k]), units.limit(tail, -1, high[k])
        low, high = up_to_zero(low, high, self.moments.total, table["separated"].to_numpy())
        return super().corrected(table.assign(low=low, high=high), n_datasets, n_comparisons)

    @property
    def extent(self) -> str:
        clusters = f" in {self.n_clusters:,} clusters" if self.n_clusters else ""
        return f"on {count(self.n_instances, 'instance')}{clusters}{self.on_measures}"


@known_keywords
def instance_tests(
    methods: Mapping[Any, Source],
    measures: Iterable[str],
    *,
    minimize: Iterable[str] = (),
    maximize: Iterable[str] = (),
    clusters: ArrayLike | None = None,
    blocks: ArrayLike | None = None,
    bounds: Stated = None,
    alpha: float = 0.05,
    n_resamples: int = RESAMPLES,
    seed: int = 0,
) -> InstanceTests:
    r"""Sign test, signed-rank test and permutation test of every pair of methods, on measures of
    the same instances.

    Signed ranks leave out instances on which both are equal (Wilcoxon 1945): two good systems tie
    on most, and ranking the ties first would turn the test into a sign test. The p-value is exact
    up to 200 instances that differ, normal (corrected for ties) beyond. The permutation test swaps
    the two methods on random instances, on all measures at once. Its statistic is :math:`|\sum_i
    d_i| / \sqrt{\sum_i d_i^2}`, the step-down maximum of which over all pairs and measures corrects
    for their number and knows their correlation (Westfall & Young 1993).

    Instances that belong together, such as the questions on one passage, are no independent
    evidence. With `clusters` methods are swapped on whole clusters, and sign test and signed ranks
    take the mean difference of each cluster. So the level holds where clusters are few or of
    unequal size, as that of cluster-robust errors (Miller 2024) does not.

    Sign changes take differences to be symmetric. A few instances that fail altogether are not, and
    would separate equal methods in up to half of all cases. So where a measure has a range, a
    p-value is the larger of two: of the permutation test and of the score test, whose variance is
    that of the likeliest distribution without a difference, in which the worst instance may have
    been unseen (Owen 2001), against Student's t; all rows are corrected by normal values as
    correlated as they are. Of measures without a range the permutation test alone decides, with a
    doubt below 60 instances or clusters.

    Intervals hold the mean differences that not both tests reject, for all pairs and measures
    together: one excludes 0 where, and only where, the methods are separated (it may end
    there, where only a later step separates them).

    Parameters
    ----------
    methods : mapping of name to source
        A source is a table with a column a measure (such as `Evaluation.instances`), or a function
        that takes the name of a measure and returns its column, from a file for example: it is
        called once a measure, so that one measure of all methods is in memory at a time. Columns
        with an index (pandas) must agree in it; without one, row i is the same instance for all.
    measures : iterable of str
    minimize, maximize : iterable of str
        Directions of measures that the registry does not know.
    clusters : array of shape (n_instances,), optional
        Which cluster each instance belongs to; what is missing or blank is a cluster of its own. A
        Series must have the index of the columns.
    blocks : array of shape (n_instances,), optional
        Which fold of a cross-validation tested each instance. The tests stay those of single
        instances, about the models of these folds; a warning says so, and which separations fold by
        fold do not confirm.
    bounds : float or mapping of measure to float, optional
        The largest difference that two values can have, of measures whose range the registry does
        not know; no smaller than any that was seen. One number is for all of them.
    alpha : float
        Family-wise significance level.
    n_resamples, seed : int
        Random swaps, and their seed. The smallest p-value is 1 / (n_resamples + 1).

    Raises
    ------
    ValueError
        Fewer than two methods, no measure or one without a direction; columns of different lengths
        or indexes, infinite values, no instance with a value, fewer than two clusters, or a bound
        below a difference.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a = pd.DataFrame({"f1": rng.random(200), "hamming_loss": rng.random(200)})
    >>> b = a + rng.normal(0, 0.1, a.shape) + np.array([-0.1, 0])
    >>> found = instance_tests({"a": a, "b": b}, ["f1", "hamming_loss"])
    >>> found.pairs["separated"].tolist()
    [True, False]
    """
    probability(alpha, "alpha")
    at_least_one(n_resamples, "n_resamples")
    measures = list(measures)
    names = unique_names(measures, "measures", len(measures), "measures")
    if len(methods) < 2 or not names:
        raise ValueError(
            f"`methods` must hold at least two and `measures` one, got {len(methods)} and "
            f"{len(names)}."
        )
    better = directions(names, minimize, maximize)
    pairs = np.triu_indices(len(methods), 1)
    rows, missing = [], {}
    swapped, waiting = [], []  # signs are drawn for several measures at once
    for measure, values, bound, unit in _measured(methods, better, clusters, bounds):
        empty = np.isnan(values).any(axis=1)
        missing[measure] = int(empty.sum())
        whole = values[~empty]
        noise = NOISE * np.abs(whole).max()
        units = None if unit is None else unit[~empty]
        for a, b in zip(*pairs, strict=True):
            rows.append(_pair(whole[:, a] - whole[:, b], units, noise, bound))
        values -= values.mean(axis=1, keepdims=True)
        values[empty] = 0.0
        waiting.append(cluster_sums(values, unit)[0])
        if measure == names[-1] or sum(x.size for x in waiting) > TOGETHER:
            sums = np.concatenate(waiting, axis=1)
            swapped.append(Signs(len(sums), n_resamples, seed).sums(sums).T)
            waiting = []
    # of each pair the measures, in their order; of sums of each measure the methods
    order = np.arange(len(rows)).reshape(len(names), -1).T.ravel()
    found = pd.DataFrame(rows).iloc[order].reset_index(drop=True)
    moments = Moments(*np.array(found.pop("moments").tolist()).T)
    bounded = {k: one for k, one in enumerate(found.pop("bounded")) if one is not None}
    for test in ("sign", "wilcoxon"):
        found[f"{test}_corrected"] = holm(found[f"{test}_pvalue"])
    sums = np.concatenate(swapped)
    start = len(methods) * np.arange(len(names))
    first, second = (np.array(pairs)[:, :, None] + start).reshape(2, -1)
    size = np.sqrt(moments.squares)
    size[size == 0] = 1.0
    statistic = np.abs(moments.total) / size
    counts = step_down(statistic, partial(_differences, sums, first, second, size), sums.shape[1])
    own, corrected = np.array([counts.own, counts.joint]) / sums.shape[1]
    at = [*bounded]
    by_score, joint, largest_score = _score_tests(
        [*bounded.values()], sums, (first[at], second[at]), n_resamples, seed
    )
    own[at], corrected[at] = np.maximum(own[at], by_score), np.maximum(corrected[at], joint)
    decided = {"pvalue": own, "pvalue_corrected": corrected, "separated": corrected <= alpha}
    table = pairs_by_measure(tuple(methods), names, statistic=statistic, **found, **decided)
    n_clusters = None if unit is None else int(unit.max()) + 1
    doubts = _instance_doubts(table.drop(at), missing, n_clusters, sums.shape[1], alpha)
    tests = InstanceTests(
        table=table,
        methods=tuple(methods),
        measures=names,
        alpha=alpha,
        n_instances=len(values),
        n_clusters=n_clusters,
        n_resamples=n_resamples,
        seed=seed,
        moments=moments,
        largest=np.asarray(counts.largest, dtype=float),
        bounded=bounded,
        largest_score=largest_score,
        notes=(*cluster_doubts(clusters, unit), *doubts),
    )
    tests = jointly({"": tests})[""]
    if blocks is None or clusters is not None:
        return tests
    by_fold = instance_tests(
        methods,
        measures,
        minimize=minimize,
        maximize=maximize,
        clusters=blocks,
        bounds=bounds,
        alpha=alpha,
        n_resamples=n_resamples,
        seed=seed,
    )
    return replace(tests, notes=(_fold_doubt(tests, by_fold), *tests.notes))


def _measured(
    methods: Mapping[Any, Source],
    better: Mapping[str, str],
    clusters: ArrayLike | None,
    bounds: Stated,
) -> Iterator[tuple[str, Array, float | None, Places | None]]:
    """Each measure with its values, instances x methods, larger is better; the largest possible
    difference, if it is known; and by instance its cluster, if there are any."""
    stated = by_name(bounds or None, better)
    if unknown := [m for m in stated if m not in better]:
        raise ValueError(f"`bounds` must name measures that are compared, got {some(unknown)}.")
    if below := {m: bound for m, bound in stated.items() if not 0 < bound < np.inf}:
        raise ValueError(f"`bounds` must be above 0, got {below}.")
    index, unit, n = None, None, 0
    for measure, way in better.items():
        values, index = _read(methods, measure, n, index)
        n = len(values)
        if np.isnan(values).any(axis=1).all():
            text = f"`methods` must have values of {measure!r}, got no instance that all have."
            raise ValueError(f"{text} Leave it out.")
        if clusters is not None and unit is None:
            unit = cluster_numbers(clusters, n, index)
        bound = _bound(measure, values, bounds)
        yield measure, -values if way == "min" else values, bound, unit


def _read(
    methods: Mapping[Any, Source], measure: str, n: int, index: pd.Index | None
) -> tuple[Array, pd.Index | None]:
    """One measure of all methods as finite numbers (or NaN), instances x methods, and the index of
    the instances where they have one; both must be those of the measures before."""
    columns = []
    for name, source in methods.items():
        try:
            column = source(measure) if callable(source) else source[measure]
        except KeyError:
            raise ValueError(
                f"`methods` must all have {measure!r}, but {name!r} has not. Leave one of the two "
                "out."
            ) from None
        values = np.asarray(column, dtype=float)
        if values.ndim != 1 or np.isinf(values).any():
            raise ValueError(
                "`methods` must give one finite value an instance, got another of "
                f"{measure!r} for {name!r}, of shape {values.shape}."
            )
        n = n or len(values)
        own = column.index if isinstance(column, pd.Series) else index
        index = own if index is None else index
        if len(values) != n or (index is not None and not index.equals(own)):
            raise ValueError(
                f"`methods` must have the same instances in the same order, got {len(values)} "
                f"values of {measure!r} for {name!r} where others have {n}, or another index. "
                "Evaluate all methods on the same test set, or pass arrays if the order is right."
            )
        columns.append(values)
    return np.column_stack(columns), index


def _bound(measure: str, values: Array, bounds: Stated) -> float | None:
    """The largest difference of two values: the stated one, else by the range of the measure; one
    number is for measures without a range. None where neither is known or values lie outside."""
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    low, high = range_of(measure, [least, most])
    width = high - low if np.isfinite(high - low) else None
    stated = bounds.get(measure) if isinstance(bounds, Mapping) else bounds
    if stated is None or (width is not None and not isinstance(bounds, Mapping)):
        inside = low - ROUNDING <= least and most <= high + ROUNDING
        return width if inside else None
    largest = np.nanmax(np.nanmax(values, axis=1) - np.nanmin(values, axis=1))
    if largest > stated * (1 + ROUNDING):
        raise ValueError(
            f"`bounds` must be at least as large as any difference, got {stated:g} for {measure!r} "
            f"and a difference of {largest:g}."
        )
    return float(stated)


def _score_tests(
    bounded: Sequence[Sample],
    sums: Array,
    pairs: tuple[Places, Places],
    n_resamples: int,
    seed: int,
) -> tuple[Array, Array, Array]:
    """P-values of the score test of pairs of rows of sums, alone and step-down, by normal values as
    correlated as the sums are under changes of sign; and by draw the largest statistic."""
    a, b = pairs
    own = np.array([s.pvalue(0.0, 1 if s.mean > 0 else -1) for s in bounded])
    own = np.minimum(2 * own, 1.0)
    if not bounded:
        return own, own, own
    covariance = sums @ sums.T / sums.shape[1]
    normal = np.ascontiguousarray(normal_draws(covariance, n_resamples, seed).T)
    spread = covariance[a, a] + covariance[b, b] - 2 * covariance[a, b]
    under = partial(_differences, normal, a, b, np.sqrt(np.where(spread > 0, spread, 1.0)))
    return own, *normal_step_down(own, -special.ndtri(own / 2), under, n_resamples)


def _differences(sums: Array, a: Places, b: Places, size: Array, at: Places, part: slice) -> Array:
    """What `step_down` asks for, of differences of rows of sums, each in its own unit."""
    found = sums[a[at], part] - sums[b[at], part]
    return np.abs(found, out=found) / size[at, None]


def _fold_doubt(tests: InstanceTests, by_fold: InstanceTests) -> str:
    """What tests over instances of a cross-validation are about, and what holds fold by fold."""
    about = (
        f"The instances were judged by {by_fold.n_clusters} models of each method, one a fold: "
        "the tests are about these models. What the instances of a fold have in common, such as "
        "a model that failed there, counts here once for each of them."
    )
    apart = tests.by_pair["separated"]
    lost = tests.by_pair[apart & ~by_fold.by_pair["separated"]]
    if not apart.any():
        return about
    if lost.empty:
        return f"{about} With the folds as units the same pairs are separated."
    shown = some(f"{row.method_a} from {row.method_b}" for row in lost.itertuples())
    return f"{about} With the folds as units, these are not separated: {shown}."


def _pair(d: Array, unit: Places | None, noise: float, bound: float | None) -> dict[str, Any]:
    """What tests say of a pair on a measure, and what the others take: positive differences are for
    the first; with clusters the sign test and the ranks take the mean difference of each."""
    from scipy import stats  # slow to load, and a ranking does without it

    d[np.abs(d) <= noise] = 0.0
    sums, sizes = (column[:, 0] for column in cluster_sums(d[:, None], unit))
    means = sums / np.maximum(sizes, 1)
    means = means[np.abs(means) > noise]
    positive, differ = int((means > 0).sum()), len(means)
    exact = differ <= EXACT_RANKS
    plus, _, wilcoxon = signed_ranks(means[None], np.full(differ, noise), exact)
    tail = stats.binom.cdf(min(positive, differ - positive), differ, 0.5)
    return {
        "n": len(d),
        "wins": (d > 0).sum(),
        "ties": (d == 0).sum(),
        "losses": (d < 0).sum(),
        "difference": d.mean(),
        "sign_statistic": (2 * positive - differ) / np.sqrt(max(differ, 1)),
        "sign_pvalue": min(1.0, 2 * tail),
        "sign_corrected": np.nan,
        "wilcoxon_statistic": plus.item() / 2,
        "wilcoxon_pvalue": wilcoxon.item(),
        "wilcoxon_corrected": np.nan,
        "exact": exact,
        "moments": [*Moments.of(sums, sizes)],
        "bounded": None if bound is None else Sample.of(sums, sizes, bound, rounded=True),
    }


def _instance_doubts(
    unbounded: pd.DataFrame,
    missing: Mapping[str, int],
    n_clusters: int | None,
    changes: int,
    alpha: float,
) -> Iterator[str]:
    """Doubts: differences few and unbounded, instances without a value, too few changes."""
    units = "instances" if n_clusters is None else "clusters"
    rows = unbounded[unbounded["wins"] + unbounded["losses"] > 0]
    if len(rows) and (n_clusters or rows["n"].min()) < SKEWED:
        names = rows["measure"].unique()
        yield Message(
            f"{some(names)} {agree(len(names), 'has')} no known range, or values outside of it: "
            f"with fewer than {SKEWED} {units} a few large differences on one side pass for a "
            "better method too often. The largest difference that is possible, in a comparison "
            "over instances (",
            Argument("bounds", (f"{names[0]}=NUMBER",)),
            "), guards against it.",
        )
    if lacking := some(f"{n:,} of {name}" for name, n in missing.items() if n):
        yield f"Instances without a value for some method are left out for all: {lacking}."
    if 1 / changes > alpha:
        yield (
            f"No pair can be separated at alpha = {alpha:g} by {count(changes, 'change')} of sign, "
            f"and intervals are endless: it takes more {units}, or more draws."
        )


# --------------------------------------------------------------------------------------------------
# Methods compared over independent repeats, such as runs with other seeds: Welch's test.
#
# Welch (1947) for unequal variances and numbers; Holm (1979) over all pairs and measures.

#: Repeats of every cell from which on their blocks are tested.
FEWEST = 3
#: Fewer repeats than this, and Welch's test rests on values that scatter normally.
FEW_REPEATS = 5


@dataclass(frozen=True, kw_only=True)
class RepeatTests(PairTests):
    """Welch's tests of pairs over repeats on one dataset; n are those of whichever has fewer."""

    unit: ClassVar[str] = "repeats"
    test = "Welch's t test"

    n_repeats: Mapping[Any, int]
    same_split: bool | None
    error: Array = field(repr=False)

    def corrected(self, table: pd.DataFrame, n_datasets: int, n_comparisons: int) -> Self:
        """The same with the corrected table, and limits that hold together on all datasets."""
        table = limits_together(table, self.error, table["df"], self.alpha, n_comparisons)
        return super().corrected(table, n_datasets, n_comparisons)

    @property
    def extent(self) -> str:
        runs = sorted({n for n in self.n_repeats.values() if n > 1})
        return f"over {span(runs[0], runs[-1])} repeats a method{self.on_measures}"

    @property
    def about(self) -> str:
        """What repeats measure, and what they do not."""
        if self.same_split is False:
            return (
                "the repeats split the data in different ways; where their parts overlap, they "
                "are less independent than the test takes them to be, and nothing follows for "
                "other datasets"
            )
        return (
            "this is about how much training varies: not about other data from the same source, "
            "nor about other datasets"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        doubts = [*self.notes]
        untested = self.table["pvalue"].isna()
        for reason, rows in self.table[untested].groupby("doubt", sort=False):
            named = (f"{r.method_a} and {r.method_b} on {r.measure}" for r in rows.itertuples())
            doubts.append(f"Not tested, because {reason}: {some(named)}.")
        few = int(self.table["n"][~untested].min())
        if few < FEW_REPEATS:
            doubts.append(
                f"With as few as {few} repeats a method, {self.test} misses all but large "
                "differences, and rests on values that scatter normally, which so few cannot show."
            )
        if self.same_split is None:
            doubts.append(
                "How the repeats split the data is not recorded: on one split they say nothing "
                "of other data."
            )
        return tuple(doubts)


def repeat_tests(
    methods: Mapping[Any, pd.DataFrame],
    measures: Iterable[str] | None = None,
    *,
    minimize: Iterable[str] = (),
    maximize: Iterable[str] = (),
    same_split: bool | None = None,
    alpha: float = 0.05,
) -> RepeatTests:
    r"""Welch's test of every pair of methods, over independent repeats in any numbers.

    Repeats of one method and of another are independent samples: the same seed in two methods makes
    nothing alike, unless it also splits the data. The statistic is :math:`(\bar a - \bar b) /
    \sqrt{s_a^2/n_a + s_b^2/n_b}`; Holm corrects over all pairs and measures.

    Parameters
    ----------
    methods : mapping of name to pandas.DataFrame
        One row a repeat, one column a measure, as `Study.over` gives them; the index is the
        seed. NaN does not count.
    measures : iterable of str, optional
        Default: the columns of the first method.
    minimize, maximize : iterable of str
        Directions of measures that the registry does not know.
    same_split : bool, optional
        Whether all repeats share their split of the data, as `Study.same_split` says it; for the
        verdict.
    alpha : float
        Family-wise significance level.

    Raises
    ------
    IncomparableRunsError
        Fewer than two methods with two repeats, or nothing that can be tested.
    ValueError
        No measure, one without a direction or one that a method lacks, or infinite values.

    Examples
    --------
    >>> a = pd.DataFrame({"f1": [0.61, 0.62, 0.60, 0.63, 0.61]})
    >>> b = pd.DataFrame({"f1": [0.55, 0.57, 0.56, 0.54]})
    >>> found = repeat_tests({"a": a, "b": b})
    >>> found.pairs["separated"].item(), round(found.table["df"].item(), 2)
    (True, 6.12)
    """
    probability(alpha, "alpha")
    of_kind(methods, "methods", Mapping, "a table of repeats by name of method")
    for name, rows in methods.items():
        of_kind(rows, f"methods[{name!r}]", pd.DataFrame, "a pandas.DataFrame of its repeats")
    n_repeats = {name: len(rows) for name, rows in methods.items()}
    if sum(n > 1 for n in n_repeats.values()) < 2:
        has = some(f"{name} has {n}" for name, n in n_repeats.items()) or "there is none"
        raise IncomparableRunsError(
            f"a test over repeats needs two methods with two each; {has}. Train with other seeds."
        )
    measures = list(next(iter(methods.values())) if measures is None else measures)
    names = unique_names(measures, "measures", len(measures), "measures")
    if not names:
        raise ValueError("`measures` must hold at least one, got none.")
    better = directions(names, minimize, maximize)
    tables = {name: _repeats(name, rows, names) for name, rows in methods.items()}
    gaps = [
        f"{measure} in {n} of {len(table)} of {name}"
        for name, table in tables.items()
        for measure, n in table.isna().sum().items()
        if n
    ]
    columns = _welch([*tables.values()], np.where([better[m] == "min" for m in names], -1.0, 1.0))
    error = columns.pop("error")
    if np.isnan(columns["pvalue"]).all():
        raise IncomparableRunsError(
            f"no pair of methods can be tested: {some(dict.fromkeys(columns['doubt']))}."
        )
    made = RepeatTests(
        table=pairs_by_measure(tuple(methods), names, **columns),
        methods=tuple(methods),
        measures=names,
        alpha=alpha,
        n_repeats=n_repeats,
        same_split=same_split,
        error=error,
        notes=(f"Repeats without a value were left out: {some(gaps)}.",) if gaps else (),
    )
    return jointly({"": made})[""]


def _repeats(name: object, rows: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """The measures of the repeats of a method, which must be there and finite (or NaN)."""
    if lacking := [m for m in measures if m not in rows]:
        raise ValueError(
            f"`methods` must all have {some(lacking)}, but {name!r} has not. Leave one of the "
            "two out."
        )
    table = rows[[*measures]].astype(float)
    if np.isinf(table).any(axis=None):
        raise ValueError(f"`methods` must have finite values, got infinite ones for {name!r}.")
    return table


def _welch(tables: Sequence[pd.DataFrame], sign: Array) -> dict[str, Array]:
    """Columns of the tests, by pairs of tables and measures; sign is -1 where less is better."""
    moments = [[t.count(), t.mean(), t.var(ddof=0), t.abs().max()] for t in tables]
    n, mean, variance, size = np.array(moments, dtype=float).swapaxes(0, 1)
    variance[np.sqrt(variance) <= NOISE * np.fmax.reduce(size)] = 0.0
    a, b = np.triu_indices(len(n), 1)
    difference = sign * (mean[a] - mean[b])
    with np.errstate(invalid="ignore", divide="ignore"):
        part = variance / (n - 1)
        error = np.sqrt(part[a] + part[b])
        spread = part**2 / (n - 1)
        df = error**4 / (spread[a] + spread[b])
        statistic = difference / error
    fewest = np.fmin(n[a], n[b])
    varies = error > 0
    pvalue = 2 * special.stdtr(df, -np.abs(statistic))
    tested = {"error": error, "pvalue": pvalue, "statistic": statistic, "df": df}
    doubts = {
        "it has a value in fewer than two repeats of a method": fewest < 2,
        "its values do not vary over repeats": ~varies,
        f"fewer than {FEW_REPEATS} repeats": fewest < FEW_REPEATS,
    }
    columns = {
        "n": fewest.astype(int),
        "n_a": n[a].astype(int),
        "n_b": n[b].astype(int),
        "mean_a": mean[a],
        "mean_b": mean[b],
        "difference": difference,
        **{name: np.where(varies, numbers, np.nan) for name, numbers in tested.items()},
        "doubt": np.select([*doubts.values()], [*doubts], "").astype(object),
    }
    return {name: numbers.ravel() for name, numbers in columns.items()}


def compare_all_repeats(
    study: Study, absent: dict[str, str], measures: Iterable[str] | None = None, **options: Any
) -> dict[str, RepeatTests]:
    """`repeat_tests` of every dataset, corrected over all; `absent` gets why others have none."""
    measures = list(study.measures if measures is None else measures)
    if why := study.unsure("repeat"):
        absent |= dict.fromkeys(study.datasets, why)
        return {}
    options |= {"minimize": study.minimize, "maximize": {*measures} - {*study.minimize}}

    def test(dataset: str) -> RepeatTests:
        repeats = study.over("repeats", dataset).tables
        none = next(iter(repeats.values())).iloc[:0]
        others = dict.fromkeys(study.values.loc[dataset].index.difference([*repeats], False), none)
        split = study.same_split(dataset)
        return repeat_tests({**repeats, **others}, measures, same_split=split, **options)

    tests, failed = on_each(study.datasets, test)
    absent |= {dataset: str(error) for dataset, error in failed.items()}
    return tests


def flows_of_repeats(fusion: Fusion, on: str | None = None) -> pd.DataFrame | None:
    """Net flows in blocks (dataset, number of a repeat) x methods, by thresholds and weights of the
    dataset's means, or `on` alone; None where some cell has fewer than `FEWEST` whole repeats."""
    study = fusion.study
    if study.repeats is None or study.filled:
        return None
    by_measure, weights = fusion.flows.by_measure, fusion.flows.weights
    if on is not None:
        by_measure, weights = study_flows(study.select([on])), np.ones((len(study.datasets), 1))
    repeats = study.repeats[[*by_measure.measures]].dropna()
    cells = {cell: rows.droplevel([0, 1]) for cell, rows in repeats.groupby(level=[0, 1])}
    parts = []
    for dataset in study.datasets:
        # repeats of the same seed where methods share all of theirs, but for further ones of some;
        # else in order, as many as the method with fewest has
        of_methods = [cells.get((dataset, method), repeats[:0]) for method in by_measure.methods]
        if (fewest := min(map(len, of_methods))) < FEWEST:
            return None
        seeds = reduce(pd.Index.intersection, [rows.index for rows in of_methods])
        if len(seeds) == fewest and all(rows.index.is_unique for rows in of_methods):
            of_methods = [rows.loc[seeds] for rows in of_methods]
        parts.append(np.stack([rows.to_numpy(float)[:fewest] for rows in of_methods], axis=1))
    sizes = [*map(len, parts)]
    at = np.repeat(np.arange(len(parts)), sizes)
    blocks, numbers = np.concatenate(parts), np.concatenate([*map(np.arange, sizes)])
    index = pd.MultiIndex.from_arrays([np.array(study.datasets)[at], numbers])
    phi = (weights[at][:, None] @ by_measure.again(blocks, at).net)[:, 0]
    return pd.DataFrame(phi, index.set_names(["dataset", "repeat"]), by_measure.methods)
