"""Methods compared over independent repeats, such as runs with other seeds: Welch's test, and
permutations of its statistic.

Welch (1947) for unequal variances and numbers; Janssen (1997) for the permutation test, which is
exact for equal distributions, and asymptotically so for equal means, because its statistic is
studentised; Holm (1979) over all pairs and measures.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import comb
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from scipy import special

from mlflow_mleval.analysis.fusion import Fusion, study_flows
from mlflow_mleval.analysis.pair_tests import COLUMNS, PAIR, PairTests, jointly
from mlflow_mleval.analysis.pairs import NOISE, Draws, drawn, named_pairs
from mlflow_mleval.analysis.promethee import FlowsByMeasure
from mlflow_mleval.analysis.resampling import sign_tests
from mlflow_mleval.errors import IncomparableRunsError, MlevalError
from mlflow_mleval.measures.metric_names import directions
from mlflow_mleval.sentences import Argument, Message, some
from mlflow_mleval.study import Study
from mlflow_mleval.validation import Array, present, probability, unique_names

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Up to so many ways to share out the repeats of a pair, all of them are taken.
EXACT = 20_000
#: Of `RepeatTests.table`, beside those of every table of pairs.
FURTHER = [
    "n_a",
    "n_b",
    "mean_a",
    "mean_b",
    "effect_size",
    "statistic",
    "df",
    "permutation_pvalue",
    "permutation_corrected",
    "exact",
    "smallest_pvalue",
]
#: Repeats of every cell from which on their blocks are tested.
FEWEST = 3
#: Fewer repeats than this, and Welch's test rests on values that scatter normally.
FEW = 5


@dataclass(frozen=True, kw_only=True)
class RepeatTests(PairTests):
    """Tests of every pair of methods over their repeats on one dataset.

    Attributes
    ----------
    table : One row a pair and measure: the columns of `pairs` (n is the number of repeats of the method that has fewer; repeats are
        won only where they are paired), then n_a and n_b (repeats with a value); mean_a, mean_b;
        effect_size (the difference in standard deviations, Hedges' g); statistic (t) and df;
        permutation_pvalue, permutation_corrected (Holm, like the p-values of t), exact (whether
        every permutation was taken); smallest_pvalue (that the permutation test can give).
    n_repeats : By method.
    by_seed : Whether repeats of the same seed were paired.
    same_split : Whether all repeats share their split of the data; None where unknown.
    n_resamples, seed : Of permutations that are drawn.
    """  # noqa: E501

    unit: ClassVar[str] = "repeats"
    beside: ClassVar[tuple[str, ...]] = ("permutation_",)

    n_repeats: Mapping[Any, int]
    by_seed: bool
    same_split: bool | None
    n_resamples: int = field(metadata={"key": "n_draws"})
    seed: int

    @property
    def feasibility(self) -> str:
        """What the permutation test could show at all, in a sentence: it has a smallest p-value,
        and Welch's test has none.
        """
        tested = self.table.dropna(subset="pvalue")
        smallest = tested["smallest_pvalue"].min()
        least = min(1.0, smallest * self.n_comparisons)
        over = (
            f", and {least:.2g} after Holm's correction over {self.n_comparisons:,} tests"
            if self.n_comparisons > 1
            else ""
        )
        can = "can" if least <= self.alpha else "cannot"
        return (
            "The smallest p-value that a permutation test can give with so many repeats is "
            f"{smallest:.2g}{over}: it {can} separate a pair at alpha = {self.alpha:g}. "
            f"{self.test} decides, which has no such bound but takes values to scatter "
            "normally."
        )

    @property
    def test(self) -> str:
        """The test that decides."""
        return "Student's t test of differences by seed" if self.by_seed else "Welch's t test"

    @property
    def extent(self) -> str:
        """What the tests stand on."""
        runs = [n for n in self.n_repeats.values() if n > 1]
        span = str(min(runs)) if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
        measures = f" and {len(self.measures)} measures" if len(self.measures) > 1 else ""
        return f"over {span} repeats a method{measures}"

    @property
    def about(self) -> str:
        """What repeats measure, and what they do not."""
        return {
            True: (
                "the repeats share their split, so this is about the randomness of training on "
                "this split: not about other data from the same source, nor about other "
                "datasets"
            ),
            False: (
                "the repeats split the data in different ways; where their parts overlap, they "
                "are less independent than the test takes them to be, and nothing follows for "
                "other datasets"
            ),
            None: (
                "repeats tell how much training varies; on one split, they say nothing of other "
                "data, nor of other datasets"
            ),
        }[self.same_split]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before believing the verdicts."""
        doubts = [*self.notes]
        if lost := {m: n for m, n in self.n_repeats.items() if n < 2}:
            doubts.append(f"Not tested, for want of a second repeat: {some(lost)}.")
        untested = self.table["pvalue"].isna()
        others = self.table[untested & ~self.table[PAIR].isin(list(lost)).any(axis=1)]
        for reason, rows in others.groupby("doubt", sort=False):
            shown = some(
                (f"{r.method_a} and {r.method_b} on {r.measure}" for r in rows.itertuples()), 6
            )
            doubts.append(f"Not tested, because {reason}: {shown}.")
        few = int(self.table["n"][~untested].min())
        if few < FEW:
            doubts.append(
                f"With as few as {few} repeats a method, {self.test} misses all but large "
                "differences, and rests on values that scatter normally, which so few cannot "
                "show."
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
    by_seed: bool = False,
    same_split: bool | None = None,
    alpha: float = 0.05,
    **draws: Unpack[Draws],
) -> RepeatTests:
    r"""Welch's test and a permutation test of every pair of methods, over independent repeats in
    any numbers.

    Repeats of one method and of another are independent samples: the same seed in two methods makes
    nothing alike, unless it also splits the data. The permutation test shares the repeats of a pair
    out anew and takes the same statistic, :math:`|\bar a - \bar b| / \sqrt{s_a^2/n_a + s_b^2/n_b}`.
    Its p-value is exact where there are at most 20,000 ways to do so. It stands beside Welch's
    test, which decides. Each of the two is corrected by Holm over all pairs and measures.

    Parameters
    ----------
    methods : mapping of name to pandas.DataFrame
        One row a repeat, one column a measure, as `Study.over` gives them; the index is the
        seed. NaN does not count.
    measures : iterable of str, optional
        Default: the columns of the first method.
    minimize, maximize : iterable of str
        Directions of measures that the registry does not know.
    by_seed : bool
        Whether repeats of the same seed are paired: Student's t test of their differences, and
        changes of their signs. For seeds that split the data, too.
    same_split : bool, optional
        Whether all repeats share their split of the data, as `Study.same_split` says it; for the
        verdict.
    alpha : float
        Family-wise significance level.
    n_resamples : int
        Permutations that are drawn where there are too many to take all, 9,999 by default.
    seed : int
        0 by default.

    Raises
    ------
    IncomparableRunsError
        Fewer than two methods with two repeats, or nothing that can be tested; with `by_seed`,
        seeds that are not the same.
    ValueError
        No measure, one without a direction or one that a method lacks, or infinite values.

    Examples
    --------
    >>> a = pd.DataFrame({"f1": [0.61, 0.62, 0.60, 0.63, 0.61]})
    >>> b = pd.DataFrame({"f1": [0.55, 0.57, 0.56, 0.54]})
    >>> found = repeat_tests({"a": a, "b": b})
    >>> found.pairs["separated"].item(), round(found.table["permutation_pvalue"].item(), 4)
    (True, 0.0079)
    """
    probability(alpha, "alpha")
    n_resamples, seed = drawn(repeat_tests, draws, 9_999)
    methods = {name: pd.DataFrame(rows) for name, rows in methods.items()}
    n_repeats = {name: len(rows) for name, rows in methods.items()}
    if sum(n > 1 for n in n_repeats.values()) < 2:
        has = some(f"{name} has {n}" for name, n in n_repeats.items()) or "there is none"
        raise IncomparableRunsError(
            f"a test over repeats needs two methods with two each; {has}. Train with other seeds."
        )
    if by_seed:
        methods = _in_order_of_seeds(methods)
    measures = (
        list(next(iter(methods.values()), pd.DataFrame()).columns)
        if measures is None
        else list(measures)
    )
    names = unique_names(measures, "measures", len(measures), "measures")
    if not names:
        raise ValueError("`measures` must hold at least one, got none.")
    better = directions(names, minimize, maximize)
    values = {name: _values(name, rows, names, better) for name, rows in methods.items()}
    labels = tuple(methods)
    first, second = np.triu_indices(len(labels), 1)
    rows = [
        _pair(values[labels[i]][:, k], values[labels[j]][:, k], by_seed, alpha, n_resamples, seed)
        for i, j in zip(first, second, strict=True)
        for k in range(len(names))
    ]
    at = np.repeat(np.arange(len(first)), len(names))
    table = pd.DataFrame(rows)
    sign = np.tile([-1.0 if better[m] == "min" else 1.0 for m in names], len(first))
    table[["mean_a", "mean_b"]] = table[["mean_a", "mean_b"]].mul(sign, axis=0)
    if table["pvalue"].isna().all():
        raise IncomparableRunsError(
            f"no pair of methods can be tested: {some(dict.fromkeys(table['doubt']))}."
        )
    table = table.assign(
        **named_pairs(labels, first[at], second[at]),
        measure=np.tile(names, len(first)),
        pvalue_corrected=np.nan,
        permutation_corrected=np.nan,
        separated=False,
    )
    made = RepeatTests(
        table=table[[*COLUMNS, *FURTHER]],
        methods=labels,
        measures=names,
        alpha=alpha,
        n_repeats=n_repeats,
        by_seed=by_seed,
        same_split=same_split,
        n_resamples=n_resamples,
        seed=seed,
        notes=_gaps(values, names),
    )
    return jointly({"": made})[""]


def compare_all_repeats(
    study: Study,
    absent: dict[str, str],
    measures: Iterable[str] | None = None,
    **options: Any,
) -> dict[str, RepeatTests]:
    """`repeat_tests` of every dataset, corrected over pairs, measures and datasets; `absent` gets
    why others were not tested.
    """
    measures = list(study.measures if measures is None else measures)
    sides: dict[str, Any] = {
        f"{way}imize": [m for m in measures if study.directions[m] == way] for way in ("min", "max")
    }
    tests = {}
    for dataset in study.datasets:
        try:
            repeats = study.over("repeats", dataset).tables
            lacking = [m for m in study.values.loc[dataset].index if m not in repeats]
            none = dict.fromkeys(lacking, next(iter(repeats.values())).iloc[:0])
            split = study.same_split(dataset)
            tests[dataset] = repeat_tests(
                {**repeats, **none},
                measures,
                same_split=split,
                **sides,
                **options,
            )
        except (MlevalError, ValueError) as error:
            absent[dataset] = str(error)
    return jointly(tests)


def flows_of_repeats(fusion: Fusion, on: str | None = None) -> pd.DataFrame | None:
    """Net flows within blocks, one block a repeat of a dataset: (dataset, number) x methods.

    Thresholds and weights are those of the dataset, from its means. `on` is the measure by which
    alone they are made, V-shaped. None where some cell has fewer than three whole repeats.
    """
    study = fusion.study
    if study.repeats is None or study.filled:
        return None
    by_measure = fusion.flows.by_measure
    weights = fusion.flows.weights
    if on is not None:
        by_measure = study_flows(study.select([on]))
        weights = np.ones((len(study.datasets), 1))
    parts = [_paired(study, dataset, by_measure) for dataset in study.datasets]
    if min(map(len, parts)) < FEWEST:
        return None
    of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    blocks = np.concatenate(parts)
    numbers = np.concatenate([np.arange(len(part)) for part in parts])
    index = pd.MultiIndex.from_arrays([np.array(study.datasets)[of], numbers])
    phi = (weights[of][:, None] @ by_measure.again(blocks, of).net)[:, 0]
    return pd.DataFrame(phi, index.set_names(["dataset", "repeat"]), by_measure.methods)


def _paired(study: Study, dataset: str, flows: FlowsByMeasure) -> Array:
    """Repeats x methods x measures: those of the same seed where methods share all of theirs, but
    for further ones of some; else in order, as many as the method with fewest has.
    """
    repeats = present(study.repeats)
    none = repeats.iloc[:0].droplevel([0, 1])
    known = dataset in repeats.index.get_level_values(0)
    on = study.over("repeats", dataset).tables if known else {}
    whole = [on.get(m, none)[list(flows.measures)].dropna() for m in flows.methods]
    fewest = min(map(len, whole))
    seeds = reduce(pd.Index.intersection, [rows.index for rows in whole])
    if len(seeds) == fewest and all(rows.index.is_unique for rows in whole):
        whole = [rows.loc[seeds] for rows in whole]
    return np.stack([rows.to_numpy(float)[:fewest] for rows in whole], axis=1)


def _values(
    name: Hashable,
    rows: pd.DataFrame,
    measures: Sequence[str],
    better: Mapping[str, str],
) -> Array:
    """Repeats x measures, larger is better."""
    if lacking := [m for m in measures if m not in rows]:
        raise ValueError(
            f"`methods` must all have {some(lacking)}, but {name!r} has not. Leave one of the "
            "two out."
        )
    values = rows[list(measures)].to_numpy(float)
    if bad := int(np.isinf(values).sum()):
        raise ValueError(
            f"`methods` must have finite values, got {bad} infinite ones for {name!r}."
        )
    return values * [-1.0 if better[m] == "min" else 1.0 for m in measures]


def _in_order_of_seeds(methods: Mapping[Hashable, pd.DataFrame]) -> dict[Hashable, pd.DataFrame]:
    """The repeats of all methods in the same order; they can be paired only where methods have each
    of the same seeds once.
    """
    several = {name: rows for name, rows in methods.items() if len(rows) > 1}
    reference, seeds = next((name, rows.index) for name, rows in several.items())
    for name, rows in several.items():
        if rows.index.has_duplicates:
            raise IncomparableRunsError(
                Message(
                    f"{name} has several repeats of one seed: none can be paired. Leave out ",
                    Argument("by_seed", True),
                    ".",
                )
            )
        if len(gone := seeds.symmetric_difference(rows.index)):
            raise IncomparableRunsError(
                Message(
                    f"repeats can be paired only if methods have the same seeds: {reference} and "
                    f"{name} do not share {some(gone)}. Leave out ",
                    Argument("by_seed", True),
                    ", or train what is missing.",
                )
            )
    return {name: rows.loc[seeds] if name in several else rows for name, rows in methods.items()}


#: What a pair that cannot be tested lacks.
_OF_TESTS = (
    *("low", "high", "pvalue", "wins", "ties", "losses"),
    *("effect_size", "statistic", "df", "permutation_pvalue", "smallest_pvalue"),
)


def _pair(
    a: Array, b: Array, by_seed: bool, alpha: float, n_resamples: int, seed: int
) -> dict[str, Any]:
    """Difference, tests and interval of one pair on one measure; larger is better, and positive
    differences are for a.
    """
    if by_seed and len(a) == len(b):
        both = ~(np.isnan(a) | np.isnan(b))
        a, b = a[both], b[both]
    a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    n, m = len(a), len(b)
    mean_a, mean_b = (x.mean() if len(x) else np.nan for x in (a, b))
    difference = mean_a - mean_b
    row: dict[str, Any] = dict.fromkeys(_OF_TESTS, np.nan) | {
        "n": min(n, m),
        "n_a": n,
        "n_b": m,
        "mean_a": mean_a,
        "mean_b": mean_b,
        "difference": difference,
        "exact": False,
        "doubt": "",
    }
    if min(n, m) < 2:
        return row | {"doubt": "it has a value in fewer than two repeats of a method"}
    noise = NOISE * max(np.abs(a).max(), np.abs(b).max())
    spread_a, spread_b = (0.0 if x.std() <= noise else x.var(ddof=1) for x in (a, b))
    if by_seed:
        d = a - b
        counts = [int(x.sum()) for x in (d > noise, np.abs(d) <= noise, d < -noise)]
        row |= dict(zip(("wins", "ties", "losses"), counts, strict=True))
        df = float(n - 1)
        error = 0.0 if d.std() <= noise else d.std(ddof=1) / np.sqrt(n)
    else:
        parts = spread_a / n, spread_b / m
        error = np.sqrt(sum(parts))
        df = error**4 / (parts[0] ** 2 / (n - 1) + parts[1] ** 2 / (m - 1)) if error else np.nan
    if not error:
        return row | {"doubt": "its values do not vary over repeats"}
    pooled = np.sqrt((spread_a + spread_b) / 2)
    hedges = 1 - 3 / (4 * (n + m - 2) - 1)
    t = difference / error
    half = special.stdtrit(df, 1 - alpha / 2) * error
    ways = 2**n if by_seed else comb(n + m, n)
    if by_seed:
        signs = sign_tests(d[None], n_resamples=n_resamples, seed=seed)
        permuted, exact = signs.pvalue.item(), signs.exact
    else:
        exact = ways <= EXACT
        permuted = _shared_out(a, b, noise, EXACT if exact else n_resamples, seed)
    least = (1 + (n == m)) / ways
    return row | {
        "low": difference - half,
        "high": difference + half,
        "effect_size": difference / pooled * hedges if pooled else np.nan,
        "statistic": t,
        "df": df,
        "pvalue": float(2 * special.stdtr(df, -abs(t))),
        "permutation_pvalue": permuted,
        "exact": exact,
        "smallest_pvalue": least if exact else max(least, 1 / (n_resamples + 1)),
        "doubt": f"fewer than {FEW} repeats" if min(n, m) < FEW else "",
    }


def _shared_out(a: Array, b: Array, noise: float, n_resamples: int, seed: int) -> float:
    """Permutation p-value of Welch's statistic, exact where there are no more ways to share the
    repeats out than that.
    """
    from scipy import stats  # slow to load, and a ranking does without it

    def welch(x: Array, y: Array, axis: int) -> Any:
        parts = [z.var(axis=axis, ddof=1) / z.shape[axis] for z in (x, y)]
        size = np.abs(x.mean(axis=axis) - y.mean(axis=axis))
        error = np.sqrt(parts[0] + parts[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(size <= noise, 0.0, size / np.where(error <= noise, 0.0, error))
        return np.round(t, 9)  # what is equal but for the order of sums

    found = stats.permutation_test(
        (a, b),
        welch,
        n_resamples=n_resamples,
        vectorized=True,
        alternative="greater",
        random_state=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def _gaps(values: Mapping[Hashable, Array], measures: Sequence[str]) -> tuple[str, ...]:
    """What repeats lack."""
    lost = [
        f"{m} in {n} of {len(rows)} of {name}"
        for name, rows in values.items()
        for m, n in zip(measures, np.isnan(rows).sum(axis=0).tolist(), strict=True)
        if n
    ]
    return (f"Repeats without a value were left out: {some(lost, 6)}.",) if lost else ()
