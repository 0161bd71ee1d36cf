"""What the folds of one dataset say: multivariate tests of pairs, where they differ, how sure."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from scipy import special

from mlflow_mleval.analysis.fold_protocol import (
    FEW_SHARED,
    LEVEL,
    MANY_FOLDS,
    UNPAIRED,
    Declared,
    Protocol,
    SharedFolds,
    Sharing,
    disagreement,
    runs_of,
    shared_folds,
    unpaired,
    widest,
)
from mlflow_mleval.analysis.multivariate import (
    DEPENDENT,
    REPEATS,
    ManovaResult,
    MardiaResult,
    PairNumbers,
    f_of_pairs,
    manova,
    mardia,
    measures_left_out,
    pair_measures,
    rao_f,
    t2_of_pairs,
    t2_pvalue,
    two_way,
)
from mlflow_mleval.analysis.pairs import (
    NOISE,
    PAIR,
    Pair,
    PairTests,
    behind,
    better_first,
    cliques,
    holm,
    jointly,
    letters,
    limits_together,
    on_each,
    pair_matrix,
    pairs_by_measure,
    places,
    variance_factor,
)
from mlflow_mleval.errors import IncomparableRunsError, MeasureError
from mlflow_mleval.measures.registry import expand
from mlflow_mleval.sentences import count, did_you_mean, some
from mlflow_mleval.study import Excluded, Study
from mlflow_mleval.validation import AnyArray, Array, Bools, one_of, probability, refuse_keywords

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

#: Measures that are tested together where none are named, the first of which a study has all.
DEFAULTS = (
    ("tpr", "fpr"),
    ("micro_precision", "micro_recall"),
    ("precision", "recall"),
    ("micro_h_precision", "micro_h_recall"),
    ("h_precision", "h_recall"),
)
#: Rates that follow from counts, where these are recorded and the rates are not.
RATES = {"tpr": ("tp", "fn"), "fpr": ("fp", "tn"), "tnr": ("tn", "fp"), "fnr": ("fn", "tp")}
#: Which way counts and rates are better.
COUNTS = dict.fromkeys(("tp", "tn", "tpr", "tnr"), "max") | dict.fromkeys(
    ("fp", "fn", "fpr", "fnr"), "min"
)
#: What carries a difference that no measure shows alone.
COMBINED = "a combination"
#: Fewer denominator degrees of freedom than this, and a verdict is marked as one not to trust.
FEW_DF = 3
TOO_FEW = (
    f"fewer than {FEW_DF} degrees of freedom are left: use fewer measures or compare on more folds"
)


@dataclass(frozen=True)
class Ordering:
    """The methods in the order of one measure, and the groups that its tests (Holm) do not
    separate; a pair that all measures together do not separate is not separated here either."""

    direction: str
    order: list[str]
    pvalues: pd.DataFrame
    groups: list[list[str]]
    letters: Mapping[Hashable, str]


@dataclass(frozen=True, kw_only=True)
class FoldComparison(PairTests):
    """What `compare_folds` found. P-values of `table` are corrected for shared training data, those
    of naive_ not (NaN where that is refused); `directions` are weights per standard deviation."""

    unit: ClassVar[str] = "folds"
    about = "this is about data like these, and the folds of one dataset say nothing of others"
    beside: ClassVar[tuple[str, ...]] = ("naive_",)

    dataset: str
    methods: list[str]
    measures: list[str]
    n_folds: int
    n_shared_folds: int
    protocol: Protocol
    paired: bool
    values: pd.DataFrame
    means: pd.DataFrame
    tests: PairNumbers
    directions: pd.DataFrame
    manova: ManovaResult | None = None
    naive_manova: ManovaResult | None = None
    mardia: MardiaResult | None = None
    order: list[str]
    ways: Mapping[str, str]
    excluded: tuple[Excluded, ...]
    refusals: Mapping[str, str]

    @property
    def test(self) -> str:
        """The headline test, with what corrects it; on one measure it is a t test."""
        if self.is_five_by_two:
            return "the combined 5x2 cv F test"
        name = "Hotelling's T²" if len(self.measures) > 1 else "Student's t"
        test = f"{name} of {'paired' if self.paired else 'unpaired'} folds"
        if self.protocol.ratio is None:
            return test
        double = self.protocol.headline_ratio != self.protocol.ratio
        twice = " by twice n_test/n_train" if double else ""
        return f"{test} (corrected for shared training data{twice})"

    @property
    def extent(self) -> str:
        together = " together" if self.on_measures else ""
        return f"on {self.folds_of_a_pair}{self.on_measures}{together}"

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.manova is None or self.manova.pvalue <= self.alpha or not any(self.separated):
            return self.notes
        doubt = "Pairs are separated although MANOVA finds no difference"
        return (f"{doubt} (p = {self.manova.pvalue:.2g}).", *self.notes)

    @property
    def further(self) -> dict[str, pd.DataFrame]:
        index = ["method", "fold"]
        wide = self.values.rename_axis(index).reset_index()
        # a measure may be called value itself, but not 0
        values = wide.melt(index, var_name="measure", value_name=0).rename(columns={0: "value"})
        return {"posthoc": self.posthoc, "means": self.means.reset_index(), "values": values}

    def corrected(self, table: pd.DataFrame, n_datasets: int, n_comparisons: int) -> Self:
        """The same with the corrected table; of one measure with limits that hold together."""
        if len(self.measures) == 1:
            error, df = self.tests.error[:, 0], self.tests.df
            table = limits_together(table, error, df, self.alpha, n_comparisons)
        table = table.assign(carried_by=table["carried_by"].where(table["separated"], ""))
        return super().corrected(table, n_datasets, n_comparisons)

    @property
    def _apart(self) -> pd.DataFrame:
        """Whether pairs are separated, methods x methods in their order."""
        rows = self.table
        return pair_matrix(self.order, rows["method_a"], rows["method_b"], rows["separated"])

    @cached_property
    def cliques(self) -> list[list[str]]:
        """Maximal groups of methods that the headline test does not separate; they may overlap."""
        return cliques(self._apart)

    @property
    def letters(self) -> dict[Hashable, str]:
        """The same as letters, by method."""
        return letters(self.cliques, self.order)

    @cached_property
    def orderings(self) -> dict[str, Ordering]:
        """The methods by each measure, and which of them its own tests separate."""
        made = {}
        for k, (name, way) in enumerate(self.ways.items()):
            mean = self.means["mean"].xs(name, level="measure").rename(name)
            mean = mean.sort_values(ascending=way == "min", kind="stable")
            order = mean.index.tolist()
            a, b = (self.table[side] for side in PAIR)
            pvalues = pair_matrix(order, a, b, holm(self.tests.single[:, k]), own=1.0)
            both = (pvalues <= self.alpha) & self._apart.loc[order, order].astype(bool)
            groups = cliques(both)
            made[name] = Ordering(way, order, pvalues, groups, letters(groups, order))
        return made

    @property
    def is_five_by_two(self) -> bool:
        """Whether the headline test is the combined 5x2 cv F test."""
        return self.protocol.kind == "5x2" and self.paired

    @property
    def untested(self) -> dict[str, int]:
        """Why pairs among `pairs` could not be tested, and how many for each reason."""
        reasons = self.table["doubt"][self.table["pvalue"].isna()]
        return reasons.value_counts(sort=False).to_dict()

    @property
    def folds_of_a_pair(self) -> str:
        """On how many folds a pair stands that could be tested: "10 folds", "8 to 10 folds"."""
        tested = self.table["pvalue"].notna()
        folds = self.table["n"][tested if tested.any() else slice(None)]
        least, most = folds.min(), folds.max()
        return count(most, "fold") if least == most else f"{least} to {count(most, 'fold')}"

    @property
    def n_lost(self) -> int:
        """How many pairs were not tested because one of the two is among `excluded`."""
        gone = len({e.name for e in self.excluded if e.kind == "method"})
        return gone * len(self.methods) + gone * (gone - 1) // 2

    @property
    def separated(self) -> list[Pair]:
        """The separated pairs (better, worse), better by the mean rank over the measures."""
        rows = self.ordered[self.ordered["separated"]]
        return list(rows[PAIR].itertuples(index=False, name=None))

    @cached_property
    def ordered(self) -> pd.DataFrame:
        """`table`, the better method first, separated ones first, with the direction of each
        difference ("better on all", "better on x, worse on y")."""
        turned = behind(self.table, self.order)
        table = better_first(self.table, turned)
        ahead = np.where(turned[:, None], -self._ahead, self._ahead)
        table["direction"] = [_signs_in_words(row, self.measures) for row in np.sign(ahead)]
        table.loc[~table["separated"], "direction"] = ""
        keys = table.assign(k=~table["separated"], **places(table, self.order))
        rows = keys.sort_values(["k", "pvalue", "a", "b"], kind="stable").index
        return table.loc[rows].reset_index(drop=True)

    @property
    def _ahead(self) -> Array:
        """Pairs x measures: by how much the first is better, over the folds that both have."""
        minimised = [self.ways[m] == "min" for m in self.measures]
        return self.tests.difference * np.where(minimised, -1, 1)

    @property
    def better(self) -> list[Pair]:
        """The separated pairs (better, worse) of which one is worse on no measure."""
        apart, ahead = self.table["separated"].to_numpy(bool), self._ahead
        wins = apart & (ahead >= 0).all(axis=1) & (ahead > 0).any(axis=1)
        loses = apart & (ahead <= 0).all(axis=1) & (ahead < 0).any(axis=1)
        rows = better_first(self.table, loses)[wins | loses]
        return list(rows[PAIR].itertuples(index=False, name=None))

    @cached_property
    def posthoc(self) -> pd.DataFrame:
        """By pair and measure: univariate tests, Holm over the measures of a pair; significant only
        of pairs that the multivariate test separates."""
        p = len(self.measures)
        a, b, apart = (self.table[x].to_numpy(object).repeat(p) for x in (*PAIR, "separated"))
        corrected = holm(self.tests.single).ravel()
        significant = (corrected <= self.alpha) & apart.astype(bool)
        columns = {
            "method_a": a,
            "method_b": b,
            "measure": self.measures * len(self.table),
            "mean_difference": self.tests.difference.ravel(),
            "pvalue": self.tests.single.ravel(),
            "pvalue_corrected": corrected,
            "significant": significant,
            "better": np.where(significant, np.where(self._ahead.ravel() > 0, a, b), ""),
        }
        return pd.DataFrame(columns)


def compare_folds(
    study: Study,
    dataset: str,
    measures: Iterable[str] | None = None,
    *,
    paired: bool = True,
    dependent: str = "error",
    alpha: float = 0.05,
    **declared: Unpack[Declared],
) -> FoldComparison:
    """Compare the methods of one dataset over its folds, on several measures at once (Yıldız &
    Alpaydın 2014).

    Hotelling's T² for every pair with Holm's correction over pairs, univariate tests that say where
    a difference sits, MANOVA blocked by fold with the measures that it learns, Mardia's test, the
    groups that are not separated, and an ordering by each measure. Of one k-fold cross-validation
    both the test corrected for shared training data (the headline) and the paper's are made; of
    repeated and resampled cross-validation only the corrected one, and of 5x2 cv the combined F
    test.

    Methods need not have the same folds: each pair is compared on those that both have, and what
    concerns all methods on those that all have.

    Parameters
    ----------
    study : Study
        With values by fold. Its `runs` may say n_train and n_test (of each fold, or one number) and
        split_digest.
    dataset : str
    measures : iterable of str, optional
        Measures or sets that are tested together; also tpr, fpr, tnr and fnr where tp, fp, tn and
        fn are recorded. By default all if they are at most four and fewer than half the folds; else
        a pair such as micro precision and recall.
    protocol : {"k-fold", "repeated", "resampled", "5x2", "independent"}, optional
        How the folds came about, where that is not recorded or not recognised from the sizes. In
        "5x2", folds are in the order of repetitions.
    ratio : float, optional
        n_test / n_train of a fold, likewise.
    paired : bool
        False: two-sample tests and one-way MANOVA, for runs with different splits of the dataset.
    dependent : {"error", "drop"}
        What to do about measures that follow linearly from those before them.
    alpha : float

    Raises
    ------
    IncomparableRunsError
        The study has no such dataset, no folds, or no two methods that share two folds.
    MeasureError
        A measure that the folds do not have.
    ValueError
        Too few folds for so many measures, or dependent measures, which are named; a protocol
        without its ratio.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> index = pd.MultiIndex.from_product([["birds"], ["BR", "CC", "LP"], range(10)], names=["dataset", "method", "fold"])
    >>> folds = pd.DataFrame(rng.normal(0.6, 0.02, (30, 2)), index, ["precision", "recall"])
    >>> folds.loc[folds.index.get_level_values(1) == "LP", "recall"] += 0.08
    >>> study = Study(folds.groupby(level=[0, 1]).mean(), {"precision": "max", "recall": "max"}, folds=folds)
    >>> found = compare_folds(study, "birds")
    >>> found.cliques, found.table["carried_by"].tolist()
    ([['LP'], ['CC', 'BR']], ['', 'recall', 'recall'])
    """  # noqa: E501
    probability(alpha, "alpha")
    refuse_keywords(compare_folds, declared, Declared.__annotations__)
    one_of(dependent, "dependent", DEPENDENT)
    recorded = _folds_of(study, dataset)
    frame = _chosen(recorded, measures)
    names = list(frame)
    shared = shared_folds(frame, dataset, study.values.loc[dataset].index)
    of = shared.methods
    runs = runs_of(study.runs, dataset, of)
    hows, sharings, notes = shared.blocks(runs, declared)
    apart, unpaired_notes = unpaired(runs, of) if paired else (None, [])
    table_of_folds = shared.table(frame)
    values = table_of_folds.to_numpy().reshape(*shared.whole.shape, -1)
    by_all = np.asarray(shared.whole.all(axis=0))
    notes += [sharings[0].how.caution, *shared.notes, *unpaired_notes]
    notes += _disagreement(recorded, shared, by_all, runs)
    tests, columns, dropped = _tested(values, sharings, names, paired, dependent)
    names = [names[k] for k in columns]
    values = values.take(columns, axis=2)
    refused = widest([s.how for s in sharings]).naive_refused
    refusals = {"naive": refused} if refused else {}
    if apart is not None:
        for name in ("statistic", "f_statistic", "pvalue", "single", "error"):
            getattr(tests, name)[apart] = np.nan
        tests.problem[apart] = UNPAIRED
        pairs = count(int(apart.sum()), "pair")
        refusals["pairs"] = f"{pairs}: {UNPAIRED}; paired=False tests them, with less power"
        refusals["manova"] = UNPAIRED.replace("these two", "all methods")
    whole = values.compress(by_all, axis=1)
    together = _joint_tests(whole, of, names, paired, widest(hows).headline_ratio, refusals)
    ways = {name: study.directions.get(name) or COUNTS.get(name, "max") for name in names}
    left = two_way(values, paired)
    alike = _for_all(together.get("mardia"), sharings[0].how, alpha)
    table, doubts = _table(of, values, ways, tests, sharings, alpha, alike)
    means = _means(values, hows, alpha)
    index = pd.MultiIndex.from_product([of, names], names=["method", "measure"])
    minimised = np.array([*ways.values()]) == "min"
    costs = pd.DataFrame(np.where(minimised, 1, -1) * means["mean"])
    ranks = costs.rank().to_numpy().mean(axis=1)
    directions = tests.direction * left.std(axis=0)
    length = np.sqrt((directions**2).sum(axis=1, keepdims=True))
    comparison = FoldComparison(
        dataset=dataset,
        methods=of,
        measures=names,
        n_folds=len(shared.folds),
        n_shared_folds=int(by_all.sum()),
        protocol=sharings[0].how,
        paired=paired,
        alpha=alpha,
        values=table_of_folds[names][shared.whole.ravel()],
        means=pd.DataFrame({key: cells.ravel() for key, cells in means.items()}, index),
        table=table,
        tests=tests,
        directions=pd.DataFrame(directions / np.where(length > 0, length, np.nan), columns=names),
        order=[of[i] for i in np.argsort(ranks, kind="stable")],
        ways=ways,
        excluded=shared.excluded,
        refusals=refusals,
        **together,
    )
    with python_warnings.catch_warnings(record=True) as caught:
        python_warnings.simplefilter("always")
        comparison = jointly({dataset: comparison})[dataset]
        _ = comparison.cliques  # of very many it warns
    notes += [f"Left out: {e.name} {e.reason}." for e in shared.excluded]
    notes += [*getattr(comparison.manova, "warnings", ()), *measures_left_out(dropped), *doubts]
    notes += [str(w.message) for w in caught]
    if table["pvalue"].isna().any():
        notes.append("Pairs that could not be tested count as not separated in the groups.")
    return replace(comparison, notes=tuple(dict.fromkeys(filter(None, notes))))


def _tested(
    values: Array, sharings: Sequence[Sharing], names: Sequence[str], paired: bool, dependent: str
) -> tuple[PairNumbers, list[int], dict[Hashable, str]]:
    """The headline tests of all pairs, each on the folds that both have; the tested columns, and
    why others were dropped. The pairs that share most folds say by which test."""
    main = sharings[0]
    five = main.how.kind == "5x2" and paired
    members = np.unique([main.first, main.second])
    of_main = values[np.ix_(members, main.folds)]
    columns, dropped = pair_measures(of_main, names, paired, dependent)
    names = [names[k] for k in columns]
    p = len(columns)
    n = sum(len(s.rows) for s in sharings)
    problem = np.full(n, "", dtype=object)
    found = PairNumbers._make([*np.full((4, n), np.nan), problem, *np.full((4, n, p), np.nan)])
    for s in sharings:
        enough = s.n == 2 * REPEATS if five else (s.n - 1) * (1 if paired else 2) >= p
        if s is not main and not enough:  # of those that share most folds this is an error
            few = f"they have only {s.n} folds in common, too few to test {p} measures together"
            problem[s.rows] = FEW_SHARED if s.n < 2 else few
            continue
        members, at = np.unique([s.first, s.second], return_inverse=True)
        part = values[np.ix_(members, s.folds, np.array(columns))]
        first, second = at.reshape(2, -1)
        if five:
            made = f_of_pairs(part, names, first, second)
        else:
            made = t2_of_pairs(part, names, first, second, s.how.headline_ratio, paired)
        for of_all, theirs in zip(found, made, strict=True):
            of_all[s.rows] = theirs
    return found, columns, dropped


def _joint_tests(
    values: Array,
    methods: list[str],
    measures: list[str],
    paired: bool,
    ratio: float | None,
    refusals: dict[str, str],
) -> dict[str, Any]:
    """MANOVA and Mardia's test on the folds that all have; `refusals` gets why one is not made."""
    if values.shape[1] < 2:
        few = f"all methods together have {count(values.shape[1], 'fold')} in common"
        refusals |= {"mardia": few, "manova": refusals.get("manova", few)}
        return {}
    made: dict[str, Any] = {}
    try:
        made["mardia"] = mardia(values, measures=measures)
    except ValueError as error:
        refusals["mardia"] = str(error)
    if "manova" in refusals:
        return made
    design = "blocked" if paired else "one-way"
    several: dict[str, Any] = {"methods": methods, "measures": measures, "design": design}
    try:
        made["manova"] = manova(values, ratio=ratio, **several)
        if "naive" not in refusals:
            made["naive_manova"] = manova(values, **several)
    except ValueError as error:
        refusals["manova"] = str(error)
    return made


def _table(
    methods: Sequence[str],
    values: Array,
    ways: Mapping[str, str],
    tests: PairNumbers,
    sharings: Sequence[Sharing],
    alpha: float,
    alike: list[str],
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of `FoldComparison.table`, not yet corrected, and sentences of doubt about them."""
    n, p = tests.single.shape
    in_common = np.empty(n, dtype=np.int64)
    scale = np.full(n, np.nan)
    five = sharings[0].how.kind == "5x2" and np.isnan(tests.error).all()
    for s in sharings:
        in_common[s.rows] = s.n
        if not (five or s.how.naive_refused):
            scale[s.rows] = variance_factor(s.n, s.how.headline_ratio) * s.n
    # the same T² without the correction for shared training data, which only scales it
    naive = tests.statistic * scale
    fine = tests.problem == ""
    left = np.full(n, rao_f(1.0, p, 2 * REPEATS, REPEATS)[2]) if five else tests.df - p + 1
    doubt = np.where(fine, "; ".join(alike), tests.problem)
    few = fine & (left < FEW_DF)
    told = [TOO_FEW, *alike] if few.any() else alike
    doubt[few] = "; ".join(told)
    certain = holm(tests.single) <= alpha
    columns: dict[str, Any] = {}
    if p == 1:
        sign = -1.0 if [*ways.values()] == ["min"] else 1.0
        better = sign * values[..., 0]
        first, second = np.triu_indices(len(values), 1)
        by_fold = better[first] - better[second]
        by_fold[np.abs(by_fold) <= NOISE * np.nanmax(np.abs(better))] = 0.0
        columns["difference"] = sign * tests.difference[:, 0]
        for name, sides in (("wins", by_fold > 0), ("ties", by_fold == 0), ("losses", by_fold < 0)):
            columns[name] = sides.sum(axis=1)
    columns |= {
        "pvalue": tests.pvalue,
        "n": in_common,
        "doubt": doubt,
        "statistic": tests.statistic,
        "f_statistic": tests.f_statistic,
        "naive_statistic": naive,
        "naive_pvalue": t2_pvalue(naive, p, tests.df)[1],
        "naive_corrected": np.nan,
        "carried_by": [", ".join(compress(ways, row)) or COMBINED for row in certain],
    }
    table = pairs_by_measure(methods, [", ".join(ways)], **columns)
    return table, [f"{text[0].upper()}{text[1:]}." for text in told]


def _signs_in_words(signs: AnyArray, measures: Sequence[str]) -> str:
    """On which measures the first of a pair is better, worse and equal."""
    said = []
    for word, sign in (("better", 1), ("worse", -1), ("equal", 0)):
        on = [*compress(measures, signs == sign)]
        if len(on) == len(measures) > 1:
            return f"{word} on {'both' if len(on) == 2 else 'all'}"
        if on:
            said.append(f"{word} on {', '.join(on)}")
    return ", ".join(said)


def _means(values: Array, hows: Sequence[Protocol], alpha: float) -> dict[str, Array]:
    """Means over folds, methods x measures, with Student's intervals, their variance corrected."""
    n = (~np.isnan(values)).sum(axis=1)
    mean = np.nanmean(values, axis=1)
    sd = np.nanstd(values, axis=1, ddof=1)
    ratio = np.array([how.headline_ratio or 0.0 for how in hows])[:, None]
    half = special.stdtrit(n - 1, 1 - alpha / 2) * sd * np.sqrt(1 / n + ratio)
    return {"mean": mean, "sd": sd, "low": mean - half, "high": mean + half}


def _folds_of(study: Study, dataset: str) -> pd.DataFrame:
    """The values by (method, fold) of one dataset."""
    if dataset not in study.datasets:
        raise IncomparableRunsError(
            f"the study has no dataset {dataset!r}; it has {some(study.datasets)}."
        )
    folds = study.folds
    if folds is None or dataset not in folds.index.get_level_values(0):
        raise IncomparableRunsError(
            f"no run on {dataset} holds values by fold. Log them with folds, or test over datasets."
        )
    frame = folds.xs(dataset, level=0)
    if frame.index.has_duplicates:
        twice = frame.index[frame.index.duplicated()].unique()
        raise IncomparableRunsError(
            f"{some(twice)}: more than one row for the same method and fold on {dataset}."
        )
    return frame.loc[:, frame.notna().any()]


def _chosen(frame: pd.DataFrame, measures: Iterable[str] | None) -> pd.DataFrame:
    """The columns that were asked for, or the defaults; rates follow from counts."""
    recorded = list(frame)
    for rate, parts in RATES.items():
        if {*parts} <= {*recorded} and rate not in recorded:
            frame = frame.assign(**{rate: frame[parts[0]] / frame[[*parts]].sum(axis=1)})
    have = list(frame)
    n_folds = frame.groupby(level=0).size().max()
    if measures is not None:
        names = expand([measures] if isinstance(measures, str) else measures)
        if unknown := [name for name in names if name not in have]:
            raise MeasureError(
                f"the folds have no measure {some(unknown)}; they have "
                f"{some(have)}.{did_you_mean(unknown, have)}"
            )
    elif len(recorded) <= min(4, (n_folds - 1) // 2):
        names = recorded
    else:
        names = next((list(pair) for pair in DEFAULTS if {*pair} <= {*have}), recorded[:2])
    return frame[names].astype(float)


def _for_all(normal: MardiaResult | None, how: Protocol, alpha: float) -> list[str]:
    """Why no pair is to be trusted."""
    doubts = []
    if normal is not None and normal.pvalue <= alpha:
        doubts.append(
            f"the results do not look normal (Mardia p = {normal.pvalue:.2g}); "
            "hotelling(…, method='permutation') tests without that"
        )
    if not how.known and how.n_folds > MANY_FOLDS:
        doubts.append(
            f"{how.n_folds} folds of unknown origin may be repeated cross-validation, which "
            "needs a larger correction"
        )
    return doubts


def _disagreement(
    recorded: pd.DataFrame, shared: SharedFolds, by_all: Bools, runs: pd.DataFrame
) -> list[str]:
    """What to tell where the models of the folds disagree more than their instances explain."""
    if by_all.sum() < 2:
        return []
    folds = np.array(shared.folds, dtype=object)[by_all]
    recorded = recorded.loc[pd.MultiIndex.from_product([shared.methods, folds])].astype(float)
    sizes = [np.mean(n) for n in runs.get("n_test", ()) if np.size(n) and not np.isnan(np.mean(n))]
    scatter = disagreement(recorded, float(np.mean(sizes)) if sizes else None)
    if scatter is None or scatter > LEVEL:
        return []
    return [
        "The models of the folds disagree: the number of predicted positives scatters more between "
        f"folds than their instances explain (p = {scatter:.2g}). Learners that choose a feature "
        "or a threshold do so, such as stumps, and tests on the folds of one dataset tell equal "
        "ones apart too often (in a fifth of simulations at α = .05): try other datasets before "
        "believing these separations."
    ]


def lost_pairs(comparisons: Iterable[FoldComparison]) -> str:
    """How many pairs could not be tested, and for what, as the end of a sentence; or empty."""
    comparisons = list(comparisons)
    reasons = {why for one in comparisons for why in one.untested}
    total = sum(sum(one.untested.values()) + one.n_lost for one in comparisons)
    want = " for want of folds in common" if all("in common" in why for why in reasons) else ""
    return f"; {count(total, 'pair')} could not be tested{want}" if total else ""


def compare_all_folds(
    study: Study, absent: dict[str, str], step: Callable[[], object] = lambda: None, **options: Any
) -> dict[str, FoldComparison]:
    """What the folds of every dataset say, corrected over all; `absent` gets as "folds.DATASET" why
    others do not. Measures that follow from others are left out where none are named."""
    if study.folds is None:
        return {}
    if options.get("measures") is None:
        options["dependent"] = "drop"
    of_study = study.folds.index.droplevel("fold").isin(study.values.index)
    study = replace(study, folds=study.folds[of_study])
    tests, failed = on_each(study.datasets, partial(compare_folds, study, **options), step)
    absent |= {f"folds.{dataset}": str(error) for dataset, error in failed.items()}
    return tests
