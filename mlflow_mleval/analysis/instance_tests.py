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
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from mlflow_mleval.analysis.clusters import cluster_doubts, cluster_numbers
from mlflow_mleval.analysis.pairs import NOISE, adjust, named_pairs
from mlflow_mleval.analysis.posthoc.betting import log_capital, scaled
from mlflow_mleval.analysis.posthoc.wilcoxon import ALTERNATIVES, EXACT_DATASETS, share_at_most
from mlflow_mleval.measures.registry import MEASURES, directions
from mlflow_mleval.reported import Reported
from mlflow_mleval.validation import at_least_one, one_of, probability, unique_names
from mlflow_mleval.words import some

Array = NDArray[np.float64]
#: What gives a measure of every instance: a table with a column a measure, or a function that reads
#: one column by its name.
Source: TypeAlias = Mapping[str, ArrayLike] | pd.DataFrame | Callable[[str], ArrayLike]
#: Random signs that are in memory at once.
BLOCK = 2**21
#: Draws that are multiplied at once, and the size of such a product: below it BLAS starts no
#: threads, which would cost more.
TILE, PRODUCT = 64, 2**18
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

    one_of(alternative, "alternative", ALTERNATIVES)
    probability(alpha, "alpha")
    if k != int(k) or n != int(n) or not 0 <= k <= n:
        raise ValueError(
            f"`k` and `n` must be integers with 0 <= k <= n, got {k!r} and {n!r}. Leave ties out "
            "of n."
        )
    k, n = int(k), int(n)
    z = (k - n / 2) / (np.sqrt(n) / 2) if n else 0.0
    if n == 0:
        exact, normal, low, high = 1.0, 1.0, 0.0, 1.0
    else:
        found = stats.binomtest(k, n, alternative=alternative)
        exact = float(found.pvalue)
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


@dataclass(frozen=True)
class InstanceTests(Reported):
    """Tests of every pair of methods over the instances of one test set.

    Attributes
    ----------
    pairs : One row a pair: method_a, method_b, measure (the one that separates them most), statistic (its largest |mean
        difference| in standard errors about zero), pvalue (permutation test with the maximum over
        measures: do they differ on any?), pvalue_corrected (the smallest of its rows in `table`),
        significant, a_better and b_better (on how many measures, see `table`).
    table : One row a pair and measure: method_a, method_b, measure; n (instances), wins, ties, losses (of a); mean_difference
        (positive: a is better) with its interval low, high at 1 - alpha, not corrected (with
        clusters the differences that the permutation test does not reject, endless where it can
        reject none); sign_statistic (Z) and sign_pvalue (exact); wilcoxon_statistic (sum of the
        ranks where a is better), wilcoxon_pvalue and exact (whether it is); permutation_pvalue;
        each with its *_corrected p-value over all rows: Holm for the sign and the signed-rank test;
        for the permutation test the maximum over all rows (step-down max-T); significant (by that).
        Of tests at any number of looks also anytime_pvalue (by betting, see `betting`) and
        anytime_corrected (Holm); significant and `pairs` go by these then, and the statistic of a
        pair is its largest capital.
    n_instances : Before instances without a value were left out.
    n_clusters : Of instances that belong together; None where each counts by itself.
    n_resamples, seed : Of the permutation test.
    anytime : Whether bets decide, at any number of looks.
    """  # noqa: E501

    pairs: pd.DataFrame
    table: pd.DataFrame
    methods: tuple[Hashable, ...]
    measures: tuple[str, ...]
    n_instances: int
    n_clusters: int | None
    alpha: float
    n_resamples: int = field(metadata={"key": "n_draws"})
    seed: int
    warnings: tuple[str, ...] = ()
    anytime: bool = False

    @property
    def ordered(self) -> pd.DataFrame:
        """The rows of `table`, separated ones first, then by the p-value of the permutation
        test.
        """
        return self.table.sort_values(
            ["significant", "permutation_pvalue"], ascending=[False, True], kind="stable"
        )

    def headline(self, named: Callable[[Hashable], str] = str) -> str:
        """What the tests say, in a clause; `named` writes the names of methods."""
        apart = self.pairs[self.pairs["significant"]]
        on = f"{self.n_instances:,} instances" + (
            f" in {self.n_clusters:,} clusters" if self.n_clusters else ""
        )
        on += f" and {len(self.measures)} measures" if len(self.measures) > 1 else ""
        if len(self.pairs) > 1:
            return f"{len(apart)} of {len(self.pairs)} pairs are separated on {on}"
        row = self.pairs.iloc[0]
        are = "are" if row.significant else "are not"
        return (
            f"{named(row.method_a)} and {named(row.method_b)} {are} separated on {on} (p="
            f"{row.pvalue_corrected:.2g})"
        )

    def verdict(self, named: Callable[[Hashable], str] = str) -> str:
        """What the tests say, in a sentence, and what they do not; `named` writes the names of
        methods.
        """
        return (
            f"{self.headline(named)}; this is about these methods as they were trained, on "
            "instances like these: not about training them again, nor about other datasets."
            + (f" {ANYTIME}" if self.anytime else "")
        )


def instance_tests(
    methods: Mapping[Hashable, Source],
    measures: Iterable[str],
    *,
    minimize: Iterable[str] = (),
    maximize: Iterable[str] = (),
    clusters: ArrayLike | pd.Series | None = None,
    blocks: ArrayLike | pd.Series | None = None,
    alpha: float = 0.05,
    n_resamples: int = 9_999,
    seed: int = 0,
    anytime: bool = False,
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
        Random swaps. The smallest p-value is 1 / (n_resamples + 1).
    seed : int
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
    >>> found.table["significant"].tolist()
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
    limits = _limits(names) if anytime else {}
    labels = tuple(methods)
    first, second = np.triu_indices(len(labels), 1)
    swapped = np.empty((len(names), n_resamples, len(labels)))
    parts, n_instances, index, missing, unequal = (
        [],
        None,
        None,
        {},
        np.zeros((len(names), len(first))),
    )
    capital = np.ones((len(first), len(names)))
    unit: NDArray[np.intp] | None = None
    for j, measure in enumerate(names):
        values, index = _read(methods, measure, n_instances, index)
        n_instances = len(values)
        if clusters is not None and unit is None:
            unit = cluster_numbers(clusters, n_instances, index)
        empty = np.isnan(values).any(axis=1)
        if empty.all():
            raise ValueError(
                f"`methods` must have values of {measure!r}, got no instance that all have. "
                "Leave it out."
            )
        missing[measure] = int(empty.sum())
        if better[measure] == "min":
            np.negative(values, out=values)
        noise = NOISE * np.abs(values[~empty]).max()
        rows = [
            _pair(values[:, a] - values[:, b], ~empty, unit, noise, alpha)
            for a, b in zip(first, second, strict=True)
        ]
        parts.append(pd.DataFrame(rows).assign(measure=measure, pair=np.arange(len(first))))
        if anytime:
            for k, pair in enumerate(zip(first, second, strict=True)):
                capital[k, j] = _largest_capital(
                    values[~empty][:, pair], unit if unit is None else unit[~empty], limits[measure]
                )
        unequal[j] = np.sqrt(parts[-1].pop("square"))
        values -= values.mean(axis=1, keepdims=True)
        values[empty] = 0.0
        if unit is None:
            swapped[j] = _swapped_sums(values, n_resamples, seed)
            continue
        # The sizes of the clusters change signs with the sums of their values: intervals need both.
        sums = [np.bincount(unit, column) for column in (*values.T, ~empty)]
        drawn = _swapped_sums(np.column_stack(sums), n_resamples, seed)
        swapped[j], sizes = drawn[:, :-1], drawn[:, -1]
        parts[-1][["low", "high"]] = [
            _not_rejected(row, scale, drawn[:, a] - drawn[:, b], sizes, alpha)
            for row, a, b, scale in zip(
                parts[-1].itertuples(), first, second, unequal[j], strict=True
            )
        ]
    table = pd.concat(parts, ignore_index=True).sort_values(
        ["pair", "measure"], kind="stable", key=_given_order(names)
    )
    table = table.reset_index(drop=True)
    raw, joint, stepped, statistic = _permutation(table, swapped, unequal, first, second)
    at = table.pop("pair")
    table = pd.DataFrame(
        {**named_pairs(labels, first[at], second[at]), "measure": table.pop("measure"), **table}
    )
    for test in ("sign", "wilcoxon"):
        at = table.columns.get_loc(f"{test}_pvalue") + 1
        table.insert(at, f"{test}_corrected", adjust(table[f"{test}_pvalue"]))
    table["permutation_pvalue"] = raw.ravel()
    table["permutation_corrected"] = stepped.ravel()
    decisive = table["permutation_corrected"].to_numpy()
    if anytime:
        statistic, pvalue = capital, np.minimum(1.0, 1 / capital)
        joint = np.minimum(1.0, pvalue.min(axis=1) * len(names))
        decisive = adjust(pvalue)
        stepped = decisive.reshape(pvalue.shape)
        table["anytime_pvalue"], table["anytime_corrected"] = pvalue.ravel(), decisive
    table["significant"] = decisive <= alpha
    signs = np.where(table["significant"], np.sign(table["mean_difference"]), 0).reshape(
        stepped.shape
    )
    most = statistic.argmax(axis=1)
    corrected = stepped.min(axis=1)
    pairs = pd.DataFrame(
        {
            **named_pairs(labels, first, second),
            "measure": [names[k] for k in most],
            "statistic": statistic.max(axis=1),
            "pvalue": joint,
            "pvalue_corrected": corrected,
            "significant": corrected <= alpha,
            "a_better": (signs > 0).sum(axis=1),
            "b_better": (signs < 0).sum(axis=1),
        }
    )
    n_clusters = None if unit is None else int(unit.max()) + 1
    found = InstanceTests(
        pairs,
        table,
        labels,
        names,
        int(n_instances),
        n_clusters,
        alpha,
        n_resamples,
        seed,
        (
            *([] if unit is None else cluster_doubts(clusters, unit)),
            *_doubts(table, missing, n_clusters, n_resamples, alpha),
        ),
        anytime,
    )
    if blocks is None or clusters is not None:
        return found
    by_fold = instance_tests(
        methods,
        measures,
        minimize=minimize,
        maximize=maximize,
        clusters=blocks,
        alpha=alpha,
        n_resamples=n_resamples,
        seed=seed,
    )
    return replace(found, warnings=(_fold_doubt(found, by_fold), *found.warnings))


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


def _largest_capital(values: Array, unit: NDArray[np.intp] | None, limit: float) -> float:
    """Of bets on the differences of two columns, in the order of the rows; with clusters, on the
    mean of each.
    """
    d = values[:, 0] - values[:, 1]
    if unit is not None:
        counts = np.bincount(unit)
        d = (np.bincount(unit, d) / np.maximum(counts, 1))[counts > 0]
    return float(np.exp(min(log_capital(scaled(d, limit)).max(), 700)))


def _fold_doubt(found: InstanceTests, by_fold: InstanceTests) -> str:
    """What tests over instances of a cross-validation are about, and which of their verdicts hold
    fold by fold.
    """
    said = (
        f"The instances were judged by {by_fold.n_clusters} models of each method, one a fold: "
        "the tests are about these models. What the instances of a fold have in common, such as "
        "a model that failed there, counts here once for each of them."
    )
    lost = found.pairs[found.pairs["significant"] & ~by_fold.pairs["significant"]]
    if not found.pairs["significant"].any():
        return said
    if lost.empty:
        return f"{said} With the folds as units the same pairs are separated."
    shown = some(f"{row.method_a} from {row.method_b}" for row in lost.itertuples())
    return f"{said} With the {by_fold.n_clusters} folds as units, these are not separated: {shown}."


def _given_order(names: Sequence[str]) -> Callable[[pd.Series], pd.Series]:
    """Sorts the column `measure` as the measures were given, and others as they are."""
    return lambda column: (
        column.map({name: k for k, name in enumerate(names)})
        if column.name == "measure"
        else column
    )


def _read(
    methods: Mapping[Hashable, Source], measure: str, n: int | None, index: Any
) -> tuple[Array, Any]:
    """One measure as instances x methods, and the index that all columns share, if they have
    one.
    """
    columns = []
    for name, source in methods.items():
        try:
            column = source(measure) if callable(source) else source[measure]
        except KeyError:
            raise ValueError(
                f"`methods` must all have {measure!r}, but {name!r} has not. Leave one of the "
                "two out."
            ) from None
        found = np.asarray(column, dtype=float)
        n = len(found) if n is None and found.ndim == 1 else n
        if found.shape != (n,) or n == 0:
            raise ValueError(
                "`methods` must give one value an instance, the same instances for all, got "
                f"shape {found.shape} for {measure!r} of {name!r} and {n} instances before. "
                "Evaluate all methods on the same test set."
            )
        if isinstance(column, pd.Series):
            if index is not None and not column.index.equals(index):
                raise ValueError(
                    "`methods` must have the same instances in the same order, got another index "
                    f"for {measure!r} of {name!r}. Reorder it, or pass arrays if the order is "
                    "right."
                )
            index = column.index
        if bad := int(np.isinf(found).sum()):
            raise ValueError(
                f"`methods` must have finite values, got {bad} infinite ones of {measure!r} for "
                f"{name!r}."
            )
        columns.append(found)
    return np.column_stack(columns), index


def _pair(
    difference: Array,
    has: NDArray[np.bool_],
    unit: NDArray[np.intp] | None,
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
    n, unequal = len(d), int(differs.sum())
    wins = int((d[differs] > 0).sum())
    mean, square, half = (
        float(d.mean()),
        float(np.einsum("i,i", d, d)),
        np.nan,
    )  # no BLAS: its threads would cost more
    positive, differ = wins, unequal
    if unit is None and n > 1:
        deviation = max(square - n * mean**2, 0.0)
        half = float(stats.t.isf(alpha / 2, n - 1) * np.sqrt(deviation / (n - 1) / n))
    if unit is not None:
        counts, sums = np.bincount(unit[has]), np.bincount(unit[has], d)
        counts, sums = counts[counts > 0], sums[counts > 0]
        square = float((sums**2).sum())
        d, size = sums / counts, np.abs(sums / counts)
        differs = size > noise
        positive, differ = int((d[differs] > 0).sum()), int(differs.sum())
    rank_sum, wilcoxon, exact = _signed_rank(d[differs], size[differs], noise)
    return {
        "n": n,
        "wins": wins,
        "ties": n - unequal,
        "losses": unequal - wins,
        "mean_difference": mean,
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
    tiles, methods = -(-n_resamples // TILE), values.shape[1]
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
    pair: Any, scale: float, drawn: Array, drawn_sizes: Array, alpha: float
) -> tuple[float, float]:
    """The mean differences δ of a pair that sign changes of whole clusters do not reject, as an
    interval.

    With sums S and sizes n of the clusters a draw s counts against δ where |Σ s(S - nδ)| >= |Σ(S -
    nδ)|. Both sides are linear in δ, and the sizes on the left add up to no more than those on the
    right: it does so between the two places where they are equal. The interval ends where as many
    draws count as the level allows.
    """
    n, total = pair.n, pair.mean_difference * pair.n
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([(total - drawn) / (n - drawn_sizes), (total + drawn) / (n + drawn_sizes)])
    roots[np.abs(roots) < EQUAL * scale / n] = 0.0
    unchanged = (
        np.abs(drawn_sizes) == n
    )  # the draw changes all signs or none: it counts against every δ
    low, high = (
        np.where(unchanged, -np.inf, roots.min(axis=0)),
        np.where(unchanged, np.inf, roots.max(axis=0)),
    )
    allowed = int(
        alpha * (len(drawn) + 1) + EQUAL
    )  # draws that count, the data as they are among them
    if allowed == 0:
        return -np.inf, np.inf
    return float(np.partition(low, allowed - 1)[allowed - 1]), float(
        -np.partition(-high, allowed - 1)[allowed - 1]
    )


def _permutation(
    table: pd.DataFrame,
    swapped: Array,
    scale: Array,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
) -> tuple[Array, Array, Array, Array]:
    """Pairs x measures: p-values of each measure; by pair, of its maximum; of the maximum over all
    (step-down); statistics.
    """
    n_pairs, n_measures = scale.shape[::-1]
    draws = swapped.shape[1]
    sums = (table["mean_difference"] * table["n"]).to_numpy().reshape(n_pairs, n_measures)
    unit = np.where(scale.T > 0, scale.T, 1.0)
    statistic = np.abs(sums) / unit
    reached = statistic - EQUAL
    raw, joint = np.zeros_like(statistic), np.zeros(n_pairs)
    order = np.argsort(statistic.ravel(), kind="stable")
    counts = np.zeros(statistic.size)
    step = max(BLOCK // statistic.size, 1)
    for start in range(0, draws, step):
        part = swapped[:, start : start + step]
        drawn = (np.abs(part[:, :, first] - part[:, :, second]) / unit.T[:, None, :]).transpose(
            1, 2, 0
        )
        raw += (drawn >= reached).sum(axis=0)
        joint += (drawn.max(axis=2) >= reached.max(axis=1)).sum(axis=0)
        largest = np.maximum.accumulate(drawn.reshape(len(drawn), -1)[:, order], axis=1)
        counts += (largest >= reached.ravel()[order]).sum(axis=0)
    stepped = np.empty(statistic.size)
    stepped[order] = np.maximum.accumulate(counts[::-1])[::-1]
    draws += 1
    return (
        (raw + 1) / draws,
        (joint + 1) / draws,
        (stepped.reshape(statistic.shape) + 1) / draws,
        statistic,
    )


def _doubts(
    table: pd.DataFrame,
    missing: Mapping[str, int],
    n_clusters: int | None,
    n_resamples: int,
    alpha: float,
) -> tuple[str, ...]:
    found = [
        f"{count} instances without a value of {name} for some method were left out for all of "
        "them."
        for name, count in missing.items()
        if count
    ]
    if 1 / (n_resamples + 1) > alpha:
        found.append(
            f"{n_resamples} draws cannot separate any pair at alpha = {alpha:g}: take at least "
            f"{ceil(1 / alpha) - 1}."
        )
    if n_clusters is not None and 2 / 2**n_clusters > alpha:
        found.append(
            f"{n_clusters} clusters cannot separate any pair at alpha = {alpha:g}, whatever the "
            "number of instances: intervals are endless."
        )
    differ = table["wins"] + table["losses"]
    if (few := differ <= FEW).any():
        shown = (
            f"{r.method_a} and {r.method_b} on {r.measure} ({r.wins + r.losses})"
            for r in table[few].itertuples()
        )
        found.append(f"Up to {FEW} instances differ, too few to say much, for {some(shown)}.")
    return tuple(found)
