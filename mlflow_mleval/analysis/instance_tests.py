"""Methods compared instance by instance on one test set: sign test, signed ranks, and permutations
over several measures.

Yang & Liu (1999), "A re-examination of text categorization methods", for the micro sign test;
Wilcoxon (1945); Westfall & Young (1993), "Resampling-based multiple testing", for the permutation
test with the maximum over measures. One measure of all methods is in memory at a time, so that a
table of every instance, method and measure never is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mlflow_mleval.analysis.pair_tests import (
    COLUMNS,
    PairTests,
    cluster_doubts,
    cluster_numbers,
    jointly,
)
from mlflow_mleval.analysis.pairs import NOISE, Draws, adjust, drawn, named_pairs
from mlflow_mleval.analysis.posthoc.betting import log_capital, scaled
from mlflow_mleval.analysis.posthoc.wilcoxon import EXACT_DATASETS, share_at_most
from mlflow_mleval.measures.metric_names import directions
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.validation import Array, Bools, Places, one_of, probability, unique_names
from mlflow_mleval.words import some

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: What gives a measure of every instance: a table with a column a measure, or a function that reads
#: one column by its name.
Source: TypeAlias = Mapping[str, ArrayLike] | pd.DataFrame | Callable[[str], ArrayLike]
#: Random signs that are in memory at once.
BLOCK = 2**21
#: Draws that are multiplied at once, and the size of such a product: below it BLAS starts no
#: threads, which would cost more.
TILE = 64
PRODUCT = 2**18
#: Fewer differing instances than this, and a pair's tests see hardly anything.
FEW = 12
#: Statistics of permutations this close to the observed one are equal to it: they are sums in
#: another order.
EQUAL = 1e-9

#: What tests by betting may claim, and what they cost.
ANYTIME = (
    "The tests bet on instance after instance, in the order of the table. They may be looked at "
    "whenever instances have been added at its end, and take about twice as many as "
    "permutations, which may be looked at once."
)


@dataclass(frozen=True)
class SignTestResult:
    """The micro sign test.

    Attributes
    ----------
    k, n : Of n instances on which two systems differ, the first is better on k.
    statistic : Z = (k - n/2) / (sqrt(n)/2).
    pvalue : Exact, from the binomial distribution.
    normal_pvalue : From Z, as published; for n > 12.
    share, low, high : k / n with its exact (Clopper-Pearson) interval at 1 - alpha.
    alternative : "two-sided", "greater" or "less".
    """

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
    k: int,
    n: int,
    alternative: str = "two-sided",
    alpha: float = 0.05,
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
    k = int(k)
    n = int(n)
    z = (k - n / 2) / (np.sqrt(n) / 2) if n else 0.0
    if n == 0:
        exact = 1.0
        normal = 1.0
        low = 0.0
        high = 1.0
    else:
        test = stats.binomtest(k, n, alternative=alternative)
        exact = float(test.pvalue)
        low, high = stats.binomtest(k, n).proportion_ci(1 - alpha)
        normal = float(
            {"greater": stats.norm.sf(z), "less": stats.norm.cdf(z)}.get(
                alternative, 2 * stats.norm.sf(abs(z))
            )
        )
    warnings = (
        ()
        if n > FEW
        else (
            f"The systems differ on {n} instances only: use the exact p-value, not the normal one.",
        )
    )
    return SignTestResult(
        k,
        n,
        float(z),
        exact,
        normal,
        k / n if n else float("nan"),
        float(low),
        float(high),
        alternative,
        alpha,
        warnings,
    )


@dataclass(frozen=True, kw_only=True)
class InstanceTests(PairTests):
    """Tests of every pair of methods over the instances of one test set.

    Attributes
    ----------
    table : One row a pair and measure: the columns of `pairs` (n are instances; with clusters the interval holds the differences
        that the permutation test does not reject, endless where it can reject none; pvalue is that of the test that decides), then
        statistic (|mean difference| in standard errors about zero), any_pvalue (the same for all rows of a pair: permutation test
        with the maximum over measures, do they differ on any?); sign_statistic (Z) and sign_pvalue (exact); wilcoxon_statistic
        (sum of the ranks where a is better), wilcoxon_pvalue and exact (whether it is); permutation_pvalue; each with its
        *_corrected p-value over all rows: Holm for the sign and the signed-rank test; for the permutation test the maximum over
        all rows (step-down max-T). Of tests at any number of looks also anytime_pvalue (by betting, see `betting`) and
        anytime_corrected (Holm); these decide then, and statistic is the largest capital.
    n_instances : Before instances without a value were left out.
    n_clusters : Of instances that belong together; None where each counts by itself.
    n_resamples, seed : Of the permutation test.
    anytime : Whether bets decide, at any number of looks.
    """  # noqa: E501

    unit: ClassVar[str] = "instances"
    one_family: ClassVar[bool] = True

    n_instances: int
    n_clusters: int | None
    n_resamples: int = field(metadata={"key": "n_draws"})
    seed: int
    anytime: bool = False

    @property
    def test(self) -> str:
        """The test that decides, as the beginning of a sentence."""
        return "Betting" if self.anytime else "The permutation test"

    @property
    def extent(self) -> str:
        """What the tests stand on."""
        clusters = f" in {self.n_clusters:,} clusters" if self.n_clusters else ""
        measures = f" and {len(self.measures)} measures" if len(self.measures) > 1 else ""
        return f"on {self.n_instances:,} instances{clusters}{measures}"

    @property
    def about(self) -> str:
        """What the verdict is about and what it is not."""
        return (
            "this is about these methods as they were trained, on instances like these: not about "
            "training them again, nor about other datasets"
        )

    def verdict(self, named: Callable[[Hashable], str] = str) -> str:
        """What the tests say and what they are about; of bets also what they cost."""
        return super().verdict(named) + (f" {ANYTIME}" if self.anytime else "")


def instance_tests(
    methods: Mapping[Any, Source],
    measures: Iterable[str],
    *,
    minimize: Iterable[str] = (),
    maximize: Iterable[str] = (),
    clusters: ArrayLike | pd.Series | None = None,
    blocks: ArrayLike | pd.Series | None = None,
    alpha: float = 0.05,
    anytime: bool = False,
    **draws: Unpack[Draws],
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
    evidence. With `clusters` methods are swapped on whole clusters, intervals hold the mean
    differences that this test does not reject, and the sign test and the signed ranks take the mean
    difference of each cluster. So intervals and test agree, and both hold their level where
    clusters are few or of unequal size, as cluster-robust errors (Miller 2024) do not.

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
    alpha : float
        Family-wise significance level.
    n_resamples : int
        Random swaps, 9,999 by default. The smallest p-value is 1 / (n_resamples + 1).
    seed : int
        0 by default.
    anytime : bool
        Decide by betting (Waudby-Smith & Ramdas 2024; see `betting`), with Holm's correction over
        pairs and measures: the level holds however often the tests are made again after instances
        were added at the end of the tables. Measures must be known to lie between bounds.

    Raises
    ------
    ValueError
        Fewer than two methods, no measure or one without a direction or, with `anytime`, without
        bounds; columns of different lengths or indexes, infinite values, no instance with a value,
        or fewer than two clusters.

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
    n_resamples, seed = drawn(instance_tests, draws, 9_999)
    measures = list(measures)
    names = unique_names(measures, "measures", len(measures), "measures")
    if len(methods) < 2 or not names:
        raise ValueError(
            f"`methods` must hold at least two and `measures` one, got {len(methods)} and "
            f"{len(names)}."
        )
    better = directions(names, minimize, maximize)
    limits = _limits(names) if anytime else {}
    design = _Design(*np.triu_indices(len(methods), 1), alpha, n_resamples, seed)
    columns = _Columns(methods)
    unit = None
    by_measure = []
    for measure in names:
        values = columns.read(measure)
        if clusters is not None and unit is None:
            unit = cluster_numbers(clusters, len(values), columns.index)
        if better[measure] == "min":
            np.negative(values, out=values)
        by_measure.append(_on_measure(measure, values, unit, design, limits.get(measure)))
    n_clusters = None if unit is None else int(unit.max()) + 1
    table = _table(by_measure, design, tuple(methods), names)
    tests = InstanceTests(
        table=table,
        methods=tuple(methods),
        measures=names,
        alpha=alpha,
        n_instances=len(values),
        n_clusters=n_clusters,
        n_resamples=n_resamples,
        seed=seed,
        anytime=anytime,
        notes=(
            *([] if unit is None else cluster_doubts(clusters, unit)),
            *_doubts(table, [part.missing for part in by_measure], n_clusters, design),
        ),
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
        alpha=alpha,
        **draws,
    )
    return replace(tests, notes=(_fold_doubt(tests, by_fold), *tests.notes))


@dataclass(frozen=True)
class _Design:
    """What is the same for every measure: the columns of each pair, the level, and the draws."""

    first: Places
    second: Places
    alpha: float
    n_resamples: int
    seed: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The columns of each pair."""
        return list(zip(self.first.tolist(), self.second.tolist(), strict=True))


@dataclass(frozen=True)
class _OnMeasure:
    """What one measure gives: a row a pair, the root of each pair's sum of squares, the sums of
    every method under each draw of signs, the capital of bets, and how many instances lack a value.
    """

    rows: pd.DataFrame
    scale: Array
    swapped: Array
    capital: Array | None
    missing: int


def _on_measure(
    measure: str,
    values: Array,
    unit: Places | None,
    design: _Design,
    limit: float | None,
) -> _OnMeasure:
    """The tests of every pair on one measure; `values`, instances x methods, larger is better, are
    used up.
    """
    empty = np.isnan(values).any(axis=1)
    if empty.all():
        raise ValueError(
            f"`methods` must have values of {measure!r}, got no instance that all have. "
            "Leave it out."
        )
    there: Bools = np.logical_not(empty)
    noise = NOISE * np.abs(values[there]).max()
    rows = pd.DataFrame(
        [
            _pair(values[:, a] - values[:, b], there, unit, noise, design.alpha)
            for a, b in design.pairs
        ]
    )
    capital = None
    if limit is not None:
        units = None if unit is None else unit[there]
        bets = [_largest_capital(values[there][:, pair], units, limit) for pair in design.pairs]
        capital = np.array(bets)
    scale = np.sqrt(rows.pop("square").to_numpy())
    values -= values.mean(axis=1, keepdims=True)
    values[empty] = 0.0
    if unit is None:
        swapped = _swapped_sums(values, design.n_resamples, design.seed)
    else:
        # The sizes of the clusters change signs with the sums of their values: intervals need both.
        sums = [np.bincount(unit, column) for column in (*values.T, there)]
        drawn = _swapped_sums(np.column_stack(sums), design.n_resamples, design.seed)
        swapped = drawn[:, :-1]
        sizes = drawn[:, -1]
        rows[["low", "high"]] = [
            _not_rejected(row, width, swapped[:, a] - swapped[:, b], sizes, design.alpha)
            for row, (a, b), width in zip(rows.itertuples(), design.pairs, scale, strict=True)
        ]
    return _OnMeasure(
        rows.assign(measure=measure, pair=np.arange(len(rows))),
        scale,
        swapped,
        capital,
        int(empty.sum()),
    )


def _table(
    parts: Sequence[_OnMeasure],
    design: _Design,
    labels: Sequence[Hashable],
    names: Sequence[str],
) -> pd.DataFrame:
    """The rows of `InstanceTests.table`: pairs in their order, of each the measures in theirs."""
    rows = pd.concat([part.rows for part in parts], ignore_index=True)
    rows = rows.sort_values("pair", kind="stable").reset_index(drop=True)
    permuted = _permutation(rows, parts, design)
    at = rows.pop("pair")
    rows = pd.DataFrame({**named_pairs(labels, design.first[at], design.second[at]), **rows})
    for test in ("sign", "wilcoxon"):
        place = rows.columns.get_loc(f"{test}_pvalue") + 1
        rows.insert(place, f"{test}_corrected", adjust(rows[f"{test}_pvalue"]))
    rows["permutation_pvalue"] = permuted.single.ravel()
    rows["permutation_corrected"] = permuted.corrected.ravel()
    statistic = permuted.statistic
    joint = permuted.joint
    decides = "permutation"
    bets = [part.capital for part in parts if part.capital is not None]
    if bets:
        capital = np.column_stack(bets)
        statistic = capital
        pvalue = np.minimum(1.0, 1 / capital)
        decides = "anytime"
        joint = np.minimum(1.0, pvalue.min(axis=1) * len(names))
        rows["anytime_pvalue"] = pvalue.ravel()
        rows["anytime_corrected"] = adjust(pvalue)
    rows["pvalue"] = rows[f"{decides}_pvalue"]
    rows["pvalue_corrected"] = rows[f"{decides}_corrected"]
    rows["separated"] = rows["pvalue_corrected"] <= design.alpha
    rows["statistic"] = statistic.ravel()
    rows["any_pvalue"] = joint.repeat(len(names))
    few = rows["wins"] + rows["losses"] <= FEW
    rows["doubt"] = np.where(few, "so few instances differ that they say little", "")
    first = [*COLUMNS, "statistic", "any_pvalue"]
    return rows[[*first, *(name for name in rows if name not in first)]]


def bounded(name: str) -> bool:
    """Whether a measure is known to lie between bounds."""
    return name in MEASURES and bool(np.isfinite(MEASURES[name].range).all())


def _limits(names: Sequence[str]) -> dict[str, float]:
    """By measure, the largest difference of two values."""
    if wide := [name for name in names if not bounded(name)]:
        raise ValueError(
            f"`anytime` needs measures that are known to lie between bounds, got {some(wide)}. "
            "Leave out what has none."
        )
    return {name: float(np.ptp(MEASURES[name].range)) for name in names}


def _largest_capital(values: Array, unit: Places | None, limit: float) -> float:
    """Of bets on the differences of two columns, in the order of the rows; with clusters, on the
    mean of each.
    """
    d = values[:, 0] - values[:, 1]
    if unit is not None:
        counts = np.bincount(unit)
        d = (np.bincount(unit, d) / np.maximum(counts, 1))[counts > 0]
    return float(np.exp(min(log_capital(scaled(d, limit)).max(), 700)))


def _fold_doubt(tests: InstanceTests, by_fold: InstanceTests) -> str:
    """What tests over instances of a cross-validation are about, and which of their verdicts hold
    fold by fold.
    """
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
    return (
        f"{about} With the {by_fold.n_clusters} folds as units, these are not separated: {shown}."
    )


class _Columns:
    """Reads one measure of all methods at a time, and sees that all have the same instances."""

    def __init__(self, methods: Mapping[Any, Source]) -> None:
        self.methods = methods
        self.n: int | None = None
        self.index: pd.Index | None = None

    def read(self, measure: str) -> Array:
        """The measure as instances x methods."""
        return np.column_stack([self._column(name, measure) for name in self.methods])

    def _column(self, name: Hashable, measure: str) -> Array:
        source = self.methods[name]
        try:
            column = source(measure) if callable(source) else source[measure]
        except KeyError:
            raise ValueError(
                f"`methods` must all have {measure!r}, but {name!r} has not. Leave one of the "
                "two out."
            ) from None
        values = np.asarray(column, dtype=float)
        if self.n is None and values.ndim == 1:
            self.n = len(values)
        if values.shape != (self.n,) or not len(values):
            raise ValueError(
                "`methods` must give one value an instance, the same instances for all, got "
                f"shape {values.shape} for {measure!r} of {name!r} and {self.n} instances before. "
                "Evaluate all methods on the same test set."
            )
        if isinstance(column, pd.Series):
            if self.index is not None and not column.index.equals(self.index):
                raise ValueError(
                    "`methods` must have the same instances in the same order, got another index "
                    f"for {measure!r} of {name!r}. Reorder it, or pass arrays if the order is "
                    "right."
                )
            self.index = column.index
        if bad := int(np.isinf(values).sum()):
            raise ValueError(
                f"`methods` must have finite values, got {bad} infinite ones of {measure!r} for "
                f"{name!r}."
            )
        return values


def _pair(
    difference: Array,
    has: Bools,
    unit: Places | None,
    noise: float,
    alpha: float,
) -> dict[str, float]:
    """Counts, mean, sign test and signed ranks of one pair on one measure; positive differences are
    for the first.

    With clusters both tests take the mean difference of each, and the interval follows from the
    permutations.
    """
    from scipy import stats  # slow to load, and a ranking does without it

    d = difference[has]
    size = np.abs(d)
    differs = size > noise
    d[~differs] = 0.0
    n = len(d)
    unequal = int(differs.sum())
    wins = int((d[differs] > 0).sum())
    # no BLAS: its threads would cost more
    mean = float(d.mean())
    square = float(np.einsum("i,i", d, d))
    half = np.nan
    positive = wins
    differ = unequal
    if unit is None and n > 1:
        deviation = max(square - n * mean**2, 0.0)
        half = float(stats.t.isf(alpha / 2, n - 1) * np.sqrt(deviation / (n - 1) / n))
    if unit is not None:
        counts = np.bincount(unit[has])
        sums = np.bincount(unit[has], d)
        counts, sums = counts[counts > 0], sums[counts > 0]
        square = float((sums**2).sum())
        d = sums / counts
        size = np.abs(sums / counts)
        differs = size > noise
        positive = int((d[differs] > 0).sum())
        differ = int(differs.sum())
    rank_sum, wilcoxon, exact = _signed_rank(d[differs], size[differs], noise)
    return {
        "n": n,
        "wins": wins,
        "ties": n - unequal,
        "losses": unequal - wins,
        "difference": mean,
        "low": mean - half,
        "high": mean + half,
        "sign_statistic": (2 * positive - differ) / np.sqrt(differ) if differ else 0.0,
        "sign_pvalue": min(
            1.0, 2 * float(stats.binom.cdf(min(positive, differ - positive), differ, 0.5))
        ),
        "wilcoxon_statistic": rank_sum,
        "wilcoxon_pvalue": wilcoxon,
        "exact": exact,
        "square": square,
    }


def _signed_rank(d: Array, size: Array, noise: float) -> tuple[float, float, bool]:
    """Sum of the midranks of positive differences, two-sided p-value, and whether it is exact; no
    difference is zero.
    """
    from scipy import stats  # slow to load, and a ranking does without it

    n = len(d)
    if n == 0:
        return 0.0, 1.0, True
    key = (size.view(np.int64) & ~1) | (
        d > 0
    )  # floats of one sign sort as integers: the lowest bit can hold the sign
    key.sort()
    size = (key & ~1).view(np.float64)
    start = np.flatnonzero(np.diff(size, prepend=-np.inf) > noise)
    count = np.diff(start, append=n)
    doubled = 2 * start + count + 1
    plus = int(doubled @ np.add.reduceat(key & 1, start))
    total = n * (n + 1)
    if n <= EXACT_DATASETS:
        below = min(plus, total - plus)
        tail = float(share_at_most(np.repeat(doubled, count), below)[below])
    else:
        deviation = np.sqrt(float((doubled.astype(float) ** 2 * count).sum())) / 2
        tail = float(stats.norm.cdf((min(plus, total - plus) - total / 2) / deviation))
    return plus / 2, min(1.0, 2 * tail), n <= EXACT_DATASETS


def _swapped_sums(values: Array, n_resamples: int, seed: int) -> Array:
    """Draws x methods: sums of the columns under random signs of the rows.

    The same signs for every call with these sizes.
    """
    rng = np.random.default_rng(seed)
    tiles = -(-n_resamples // TILE)
    methods = values.shape[1]
    sums = np.zeros((tiles, TILE, methods))
    step = max(min(BLOCK // (tiles * TILE), PRODUCT // (TILE * methods)) // 8, 1) * 8
    for start in range(0, len(values), step):
        part = values[start : start + step]
        packed = np.frombuffer(
            rng.bytes(tiles * TILE * -(-len(part) // 8)), dtype=np.uint8
        ).reshape(tiles, TILE, -1)
        sums += np.unpackbits(packed, axis=2, count=len(part)).astype(float) @ part
    return (2 * sums - values.sum(axis=0)).reshape(-1, methods)[:n_resamples]


def _not_rejected(
    pair: Any,
    scale: float,
    drawn: Array,
    drawn_sizes: Array,
    alpha: float,
) -> tuple[float, float]:
    """The mean differences δ of a pair that sign changes of whole clusters do not reject, as an
    interval.

    With sums S and sizes n of the clusters a draw s counts against δ where |Σ s(S - nδ)| >= |Σ(S -
    nδ)|. Both sides are linear in δ, and the sizes on the left add up to no more than those on the
    right: it does so between the two places where they are equal. The interval ends where as many
    draws count as the level allows.
    """
    n = pair.n
    total = pair.difference * pair.n
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([(total - drawn) / (n - drawn_sizes), (total + drawn) / (n + drawn_sizes)])
    roots[np.abs(roots) < EQUAL * scale / n] = 0.0
    unchanged = (
        np.abs(drawn_sizes) == n
    )  # the draw changes all signs or none: it counts against every δ
    low = np.where(unchanged, -np.inf, roots.min(axis=0))
    high = np.where(unchanged, np.inf, roots.max(axis=0))
    allowed = int(
        alpha * (len(drawn) + 1) + EQUAL
    )  # draws that count, the data as they are among them
    if allowed == 0:
        return -np.inf, np.inf
    return float(np.partition(low, allowed - 1)[allowed - 1]), float(
        -np.partition(-high, allowed - 1)[allowed - 1]
    )


@dataclass(frozen=True)
class _Permuted:
    """Pairs x measures: p-values of each by itself, of the maximum over all (step-down), and the
    statistics; `joint`, by pair, of the maximum over its measures.
    """

    single: Array
    corrected: Array
    statistic: Array
    joint: Array


def _permutation(rows: pd.DataFrame, parts: Sequence[_OnMeasure], design: _Design) -> _Permuted:
    """The permutation test of all pairs and measures together."""
    first = design.first
    second = design.second
    swapped = np.stack([part.swapped for part in parts])
    scale = np.stack([part.scale for part in parts], axis=1)
    n_pairs, n_measures = scale.shape
    sums = (rows["difference"] * rows["n"]).to_numpy().reshape(n_pairs, n_measures)
    unit = np.where(scale > 0, scale, 1.0)
    statistic = np.abs(sums) / unit
    reached = statistic - EQUAL
    single = np.zeros_like(statistic)
    joint = np.zeros(n_pairs)
    order = np.argsort(statistic.ravel(), kind="stable")
    counts = np.zeros(statistic.size)
    step = max(BLOCK // statistic.size, 1)
    for start in range(0, design.n_resamples, step):
        part = swapped[:, start : start + step]
        drawn = np.abs(part[:, :, first] - part[:, :, second]) / unit.T[:, None, :]
        drawn = drawn.transpose(1, 2, 0)
        single += (drawn >= reached).sum(axis=0)
        joint += (drawn.max(axis=2) >= reached.max(axis=1)).sum(axis=0)
        largest = np.maximum.accumulate(drawn.reshape(len(drawn), -1)[:, order], axis=1)
        counts += (largest >= reached.ravel()[order]).sum(axis=0)
    stepped = np.empty(statistic.size)
    stepped[order] = np.maximum.accumulate(counts[::-1])[::-1]
    draws = design.n_resamples + 1  # the data as they are among them
    corrected = (stepped.reshape(statistic.shape) + 1) / draws
    return _Permuted((single + 1) / draws, corrected, statistic, (joint + 1) / draws)


def _doubts(
    table: pd.DataFrame,
    missing: Sequence[int],
    n_clusters: int | None,
    design: _Design,
) -> tuple[str, ...]:
    """What to tell of instances without a value, and of designs that show nothing."""
    doubts = [
        f"{count} instances without a value of {name} for some method were left out for all of "
        "them."
        for name, count in zip(table["measure"].unique(), missing, strict=True)
        if count
    ]
    n_resamples = design.n_resamples
    alpha = design.alpha
    if 1 / (n_resamples + 1) > alpha:
        doubts.append(
            f"{n_resamples} draws cannot separate any pair at alpha = {alpha:g}: take at least "
            f"{ceil(1 / alpha) - 1}."
        )
    if n_clusters is not None and 2 / 2**n_clusters > alpha:
        doubts.append(
            f"{n_clusters} clusters cannot separate any pair at alpha = {alpha:g}, whatever the "
            "number of instances: intervals are endless."
        )
    if (few := table["doubt"] != "").any():
        shown = (
            f"{r.method_a} and {r.method_b} on {r.measure} ({r.wins + r.losses})"
            for r in table[few].itertuples()
        )
        doubts.append(f"Up to {FEW} instances differ, too few to say much, for {some(shown)}.")
    return tuple(doubts)
