"""All that the folds of one dataset say about its methods: multivariate tests of every pair, where
they differ, and how sure.
"""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from scipy import special

from mlflow_mleval.analysis.folds.covariance import MardiaResult, mardia, variance_factor
from mlflow_mleval.analysis.folds.hotelling import (
    FoldTests,
    five_by_two,
    hotelling,
    hotelling_pairs,
    t2_pvalue,
)
from mlflow_mleval.analysis.folds.manova import LearnedMeasures, ManovaResult, manova
from mlflow_mleval.analysis.folds.protocol import (
    LEVEL,
    MANY_FOLDS,
    UNPAIRED,
    Declared,
    Protocol,
    SharedFolds,
    Sharing,
    disagreement,
    over_sharings,
    runs_of,
    shared_folds,
    unpaired,
    widest,
)
from mlflow_mleval.analysis.pair_tests import COLUMNS, PAIR, PairTests, jointly
from mlflow_mleval.analysis.pairs import (
    NOISE,
    behind,
    better_first,
    decided,
    grouped,
    holm,
    mean_intervals,
    pair_matrix,
    places,
)
from mlflow_mleval.analysis.posthoc.description import PairsTested, Posthoc, Tested
from mlflow_mleval.errors import IncomparableRunsError, MeasureError
from mlflow_mleval.measures.registry import expand
from mlflow_mleval.sentences import count, did_you_mean, some
from mlflow_mleval.study import Excluded, Study
from mlflow_mleval.validation import AnyArray, probability, refuse_keywords

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
COUNTS = {
    "tp": "max",
    "tn": "max",
    "fp": "min",
    "fn": "min",
    "tpr": "max",
    "tnr": "max",
    "fpr": "min",
    "fnr": "min",
}
#: A measure whose part outside the span of the others before it is below this share nearly follows
#: from them.
NEARLY = 1e-3
#: Fewer denominator degrees of freedom than this, and a verdict is marked as one not to trust.
FEW_DF = 3


@dataclass(frozen=True)
class Ordering:
    """The methods in the order of one measure, and which of them it does not separate.

    Attributes
    ----------
    direction : "max" or "min".
    order : Best mean first.
    means : By method, in that order.
    pvalues : Methods x methods in that order: the test of each pair on this measure alone, corrected (Holm) over pairs; NaN where
        the pair could not be tested.
    alpha : Level of these tests.
    groups : Maximal groups that are not separated: the joined ones of the paper's orderings. The test of all measures together is
        heard first: a pair that it does not separate is not separated by one of them either.
    letters : The same as letters.
    """  # noqa: E501

    measure: str
    direction: str
    order: list[str]
    means: pd.Series
    pvalues: pd.DataFrame
    alpha: float
    groups: list[list[str]] = field(default_factory=list)
    letters: Mapping[str, str] = field(default_factory=dict)

    def where(self, apart: pd.DataFrame) -> Ordering:
        """With the groups that these separations of all measures together leave."""
        both = (self.pvalues <= self.alpha) & apart.loc[self.order, self.order].astype(bool)
        groups, shown = grouped(both)
        return replace(self, groups=groups, letters=shown)


@dataclass(frozen=True, kw_only=True)
class FoldComparison(PairTests):
    """What `compare_folds` found.

    Attributes
    ----------
    table : One row a pair: the columns of `pairs` (n are the folds that both have; differences and folds won are those of a single
        measure, NaN where several are tested together; p-values are the headline's, corrected for
        shared training data); statistic (T²; 5x2: Wilks' lambda), f_statistic; naive_statistic,
        naive_pvalue, naive_corrected: the paper's test, which is not corrected for it, NaN where it
        may not be made; plain_statistic, plain_pvalue, plain_corrected: corrected by n_test /
        n_train where the headline takes twice that (see `Protocol.headline_ratio`), else NaN;
        carried_by (measures that differ on their own after Holm, joined by ", "; "a combination"
        where the pair differs but none of them alone; else empty).
    methods, measures : That were tested; `excluded` lists methods that were not, with the reason.
    n_folds, n_shared_folds : Folds that any of the methods has, and those that all of them have: MANOVA and Mardia's test stand
        on the latter, each pair on the folds that its two have.
    values : Index (method, fold), one column a tested measure.
    means : Index (method, measure): mean, sd, low, high (interval of the mean at 1 - alpha, corrected like the tests).
    tests : The headline tests, with differences and directions, rows as in `table`. Pairs that were refused are in it all the
        same.
    manova, naive_manova : Of all methods together; None where `refusals` says why.
    mardia : Whether the residuals look normal.
    cliques : Maximal groups of methods that the headline test does not separate; they may overlap.
    letters : The same as letters, by method, the best mean rank over the measures first.
    orderings : By measure.
    refusals : Tests that were not made (naive, manova, mardia, pairs), with the reason.
    """  # noqa: E501

    unit: ClassVar[str] = "folds"
    beside: ClassVar[tuple[str, ...]] = ("naive_", "plain_")

    dataset: str
    methods: list[str]
    measures: list[str]
    n_folds: int
    n_shared_folds: int
    protocol: Protocol
    paired: bool
    values: pd.DataFrame
    means: pd.DataFrame
    tests: FoldTests
    manova: ManovaResult | None = None
    naive_manova: ManovaResult | None = None
    mardia: MardiaResult | None = None
    cliques: list[list[str]] = field(default_factory=list)
    letters: Mapping[str, str]
    orderings: Mapping[str, Ordering]
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
        """What the tests stand on."""
        together = f" and {len(self.measures)} measures together" if len(self.measures) > 1 else ""
        return f"on {self.folds_of_a_pair}{together}"

    @property
    def about(self) -> str:
        """What the verdict is about and what it is not."""
        return (
            "this is about these methods on data like these, and the folds of one dataset say "
            "nothing of others"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before believing the verdicts."""
        if self.manova is None or self.manova.pvalue <= self.alpha or not any(self.separated):
            return self.notes
        doubt = (
            "Pairs are separated although MANOVA finds no difference (p = "
            f"{self.manova.pvalue:.2g})."
        )
        return (doubt, *self.notes)

    @property
    def further(self) -> dict[str, pd.DataFrame]:
        """What folds tell beside the tests of pairs, as tables by name."""
        index = ["method", "fold"]
        wide = self.values.rename_axis(index).reset_index()
        # a measure may be called value itself, but not 0
        long = wide.melt(index, var_name="measure", value_name=0)
        values = long.rename(columns={0: "value"})
        return {"posthoc": self.posthoc, "means": self.means.reset_index(), "values": values}

    def corrected(self, table: pd.DataFrame, n_datasets: int, n_comparisons: int) -> Self:
        """The same with the corrected table, and the groups that follow from it, by each measure,
        too.
        """
        table = table.assign(carried_by=table["carried_by"].where(table["separated"], ""))
        apart = pair_matrix(self.order, table["method_a"], table["method_b"], table["separated"])
        cliques, shown = grouped(apart)
        orderings = {m: ordering.where(apart) for m, ordering in self.orderings.items()}
        made = super().corrected(table, n_datasets, n_comparisons)
        return replace(made, cliques=cliques, letters=shown, orderings=orderings)

    @property
    def order(self) -> list[str]:
        """The methods by their mean rank over the tested measures, best first."""
        return list(self.letters)

    @property
    def is_five_by_two(self) -> bool:
        """Whether the headline test is the combined 5x2 cv F test."""
        return self.tests.test == "5x2"

    @property
    def shares_training(self) -> bool:
        """Whether the headline test is corrected for training data that folds share."""
        return self.protocol.ratio is not None and not self.is_five_by_two

    @property
    def doubts(self) -> list[str]:
        """What a reader must know before believing the verdicts, without the refusals."""
        refused = set(self.refusals.values())
        return [text for text in self.warnings if text not in refused]

    @property
    def untested(self) -> dict[str, int]:
        """Why pairs among `pairs` could not be tested, and how many for each reason."""
        reasons = self.table["doubt"][self.table["pvalue"].isna()]
        return dict(reasons.value_counts(sort=False).items())

    @property
    def folds_of_a_pair(self) -> str:
        """On how many folds a pair stands that could be tested, in words: "10 folds", "8 to 10
        folds".
        """
        tested = self.table["pvalue"].notna()
        folds = self.table["n"][tested if tested.any() else slice(None)]
        least = folds.min()
        most = folds.max()
        return count(most, "fold") if least == most else f"{least} to {count(most, 'fold')}"

    @property
    def n_lost(self) -> int:
        """How many pairs were not tested because one of the two is among `excluded`; they are not
        in `pairs`.
        """
        gone = len({e.name for e in self.excluded if e.kind == "method"})
        return gone * len(self.methods) + gone * (gone - 1) // 2

    @property
    def separated(self) -> list[tuple[Hashable, Hashable]]:
        """The pairs (better, worse) that the headline test separates; of several measures the
        better mean rank over them decides which one is named first.
        """
        rows = self.ordered[self.ordered["separated"]]
        return list(zip(rows["method_a"], rows["method_b"], strict=True))

    @cached_property
    def ordered(self) -> pd.DataFrame:
        """`table`, the better method by mean rank first: separated ones first, then by p-value.

        Two columns more: `carried`, the measures that carry the difference, with + where the first
        is better by it and − where the second is, "a combination" where none does alone;
        `direction`, how the means lie by every measure, for the test says that the two differ, not
        which is better: "better on all", "better on x, worse on y". Both are empty for other pairs.
        """
        turned = behind(self.table, self.order)
        table = better_first(self.table, turned)
        won = self.posthoc["better"].to_numpy(dtype=object).reshape(len(table), -1)
        first = table["method_a"].to_numpy(dtype=object)[:, None]
        signs = np.where(won == "", "", np.where(won == first, "+", "−"))
        carried = [
            " ".join(s + m for s, m in zip(row, self.measures, strict=True) if s) or "a combination"
            for row in signs
        ]
        pairs = zip(table["method_a"], table["method_b"], table["separated"], strict=True)
        table["carried"] = np.where(table["separated"], carried, "")
        table["direction"] = [self.direction(a, b) if apart else "" for a, b, apart in pairs]
        keys = table.assign(k=~table["separated"], **places(table, self.order))
        rows = keys.sort_values(["k", "pvalue", "a", "b"], kind="stable").index
        return table.loc[rows].reset_index(drop=True)

    @cached_property
    def _gaps(self) -> dict[tuple[str, str], AnyArray]:
        """By pair, either way round: by how much the first is better on each measure, over the
        folds that both have.
        """
        gaps = self.tests.differences[self.measures].to_numpy() * self._signs
        pairs = zip(self.table["method_a"], self.table["method_b"], strict=True)
        by_pair = dict(zip(pairs, gaps, strict=True))
        return by_pair | {(b, a): -gap for (a, b), gap in by_pair.items()}

    @property
    def _signs(self) -> list[int]:
        """By measure 1, or -1 where smaller is better."""
        return [-1 if self.orderings[m].direction == "min" else 1 for m in self.measures]

    def direction(self, a: str, b: str, named: Callable[[Sequence[str]], str] = ", ".join) -> str:
        """On which measures a is better than b over the folds that both have, in words; `named`
        writes the measures.
        """
        gap = self._gaps[a, b]
        sides = {
            word: [m for m, there in zip(self.measures, side, strict=True) if there]
            for word, side in (("better", gap > 0), ("worse", gap < 0), ("equal", gap == 0))
        }
        if len(self.measures) > 1 and (
            whole := [word for word, on in sides.items() if len(on) == len(self.measures)]
        ):
            return f"{whole[0]} on {'both' if len(self.measures) == 2 else 'all'}"
        return ", ".join(f"{word} on {named(on)}" for word, on in sides.items() if on)

    @property
    def better(self) -> list[tuple[str, str]]:
        """The separated pairs (better, worse) of which one is worse on no measure."""
        separated = [(str(a), str(b)) for a, b in self.separated]
        signs = {pair: np.sign(self._gaps[pair]) for pair in separated}
        ahead = [pair for pair, sign in signs.items() if (sign >= 0).all() and sign.any()]
        turned = [(b, a) for (a, b), sign in signs.items() if (sign <= 0).all() and sign.any()]
        return [*ahead, *turned]

    @property
    def directions(self) -> pd.DataFrame:
        """Pairs x measures: the combination on which the pair differs most, of unit length.

        Weights are per standard deviation of what is left of fold and method, so that measures in
        other units compare.
        """
        whole = pd.MultiIndex.from_product([self.methods, self.values.index.unique(level=1)])
        values = self.values.reindex(whole).to_numpy().reshape(len(self.methods), self.n_folds, -1)
        scaled = self.tests.directions * _residuals(values, self.paired).std(axis=0)
        return scaled.div(np.sqrt((scaled**2).sum(axis=1)).replace(0.0, np.nan), axis=0)

    @property
    def learned(self) -> LearnedMeasures | None:
        """The combinations of measures that tell the methods apart best; `tests()` compares the
        pairs on them.
        """
        return None if self.manova is None else self.manova.learned

    @cached_property
    def posthoc(self) -> pd.DataFrame:
        """By pair and measure: method_a, method_b, measure, mean_difference, pvalue,
        pvalue_corrected, significant, better.

        Univariate tests with Holm's correction over the measures of a pair. They say where a
        difference sits that the pair's multivariate test found: only of pairs that it separates is
        any significant. better is empty where this measure does not differ.
        """
        p = len(self.measures)
        difference = self.tests.differences.to_numpy().ravel()
        pvalue = self.tests.posthoc_pvalues.to_numpy().copy()
        corrected = self.tests.posthoc_corrected.to_numpy().copy()
        gone = self.table["pvalue"].isna() & (self.table["doubt"] == UNPAIRED)
        pvalue[gone] = np.nan
        corrected[gone] = np.nan
        a, b = (np.repeat(self.table[name].to_numpy(dtype=object), p) for name in PAIR)
        apart = np.repeat(self.table["separated"].to_numpy(bool), p)
        significant = apart & (corrected.ravel() <= self.alpha)
        sign = np.tile(self._signs, len(self.table))
        better = np.where(significant, np.where(difference * sign > 0, a, b), "")
        columns = {
            "method_a": a,
            "method_b": b,
            "measure": np.tile(np.array(self.measures, dtype=object), len(self.table)),
            "mean_difference": difference,
            "pvalue": pvalue.ravel(),
            "pvalue_corrected": corrected.ravel(),
            "significant": significant,
            "better": better,
        }
        return pd.DataFrame(columns)

    @property
    def learned_tests(self) -> pd.DataFrame | None:
        """Every pair on every learned measure, with p-values that allow for the choice of the
        direction.
        """
        return None if self.learned is None else self.learned.tests(self.alpha)

    def permutation(self, seed: int = 0) -> pd.DataFrame:
        """Every pair again without a normal distribution: method_a, method_b, pvalue,
        pvalue_corrected (Holm), significant.

        The methods are swapped fold by fold. The smallest p is 2 / 2^folds, and shared training
        data are not corrected for: a ValueError where the folds are not paired, or not those of one
        cross-validation.
        """
        if reason := self.refusals.get("naive") or (
            "" if self.paired else "the folds are not paired"
        ):
            raise ValueError(f"`permutation` must not be used here: {reason}.")
        by_method = {name: self.values.loc[name] for name in self.methods}
        pvalues = np.full(len(self.table), np.nan)
        for i in np.flatnonzero(self.table["pvalue"].notna()):
            a, b = (by_method[self.table.at[i, name]] for name in PAIR)
            both = a.index.intersection(b.index)
            pvalues[i] = hotelling(
                a.loc[both].to_numpy(),
                b.loc[both].to_numpy(),
                method="permutation",
                seed=seed,
            ).pvalue
        return self.table[PAIR].assign(**decided(pvalues, self.alpha))


def compare_folds(
    study: Study,
    dataset: str,
    measures: Iterable[str] | None = None,
    *,
    methods: Iterable[str] | None = None,
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
    methods : iterable of str, optional
        Only these.
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
    protocol = declared.get("protocol")
    ratio = declared.get("ratio")
    recorded = _folds_of(study, dataset, methods)
    names = _measures_of(recorded, measures)
    frame = _with_rates(recorded, names)[names].astype(float)
    asked = study.values.loc[dataset].index if methods is None else []
    shared = shared_folds(frame, dataset, asked)
    compared = shared.methods
    runs = runs_of(study.runs, dataset, compared)
    sharings, hows, notes = shared.sharings(runs, protocol, ratio)
    split, unpaired_notes = unpaired(runs, compared) if paired else (None, [])
    notes += [*shared.notes, *unpaired_notes]
    design = _Design(shared, tuple(sharings), shared.cube(frame), names, split, paired, alpha)
    notes += _disagreement(design, recorded, runs)
    tests = _tested(design, dependent)
    names = [str(name) for name in tests.measures]
    columns = [design.measures.index(name) for name in names]
    design = replace(design, values=design.values[..., columns], measures=names)
    frame = shared.frame(design.values, names)
    together, refusals = _together(design, widest(hows).headline_ratio)
    ways = {name: study.directions.get(name) or COUNTS.get(name, "max") for name in names}
    table, doubts = _table(design, tests, ways, together.get("mardia"))
    with python_warnings.catch_warnings(record=True) as caught:
        python_warnings.simplefilter("always")
        orderings = {name: _ordering(design, tests, name, ways[name]) for name in names}
        comparison = FoldComparison(
            dataset=dataset,
            methods=compared,
            measures=names,
            n_folds=len(shared.folds),
            n_shared_folds=design.n_shared,
            protocol=design.how,
            paired=paired,
            alpha=alpha,
            values=frame,
            means=_means(frame, compared, hows, alpha),
            table=table,
            tests=tests,
            letters=dict.fromkeys(_overall(orderings, compared), ""),
            orderings=orderings,
            excluded=shared.excluded,
            refusals=refusals,
            **together,
        )
        comparison = jointly({dataset: comparison})[dataset]
    notes += [f"Left out: {e.name} {e.reason}." for e in shared.excluded]
    for made in (together.get("manova"), tests):
        notes += getattr(made, "warnings", ())
    notes += [*doubts, *(str(w.message) for w in caught)]
    if table["pvalue"].isna().any():
        notes.append("Pairs that could not be tested count as not separated in the groups.")
    return replace(comparison, notes=tuple(dict.fromkeys(notes)))


@dataclass(frozen=True)
class _Design:
    """What the tests of a dataset stand on: values are methods x folds x measures, `split` says
    which pairs had other splits.
    """

    shared: SharedFolds
    sharings: tuple[Sharing, ...]
    values: AnyArray
    measures: list[str]
    split: AnyArray | None
    paired: bool
    alpha: float

    @property
    def methods(self) -> list[str]:
        """The methods, in the order of the values."""
        return self.shared.methods

    @property
    def n_shared(self) -> int:
        """How many folds all methods have."""
        return int(self.shared.by_all.sum())

    @property
    def how(self) -> Protocol:
        """How the folds of the pairs with most folds came about."""
        return self.sharings[0].how

    @property
    def naive_refused(self) -> str:
        """Why the paper's test may not be made; empty where it may."""
        return next((s.how.naive_refused for s in self.sharings if s.how.naive_refused), "")

    @property
    def gone(self) -> AnyArray:
        """Which pairs may not be paired."""
        pairs = len(self.methods) * (len(self.methods) - 1) // 2
        return np.zeros(pairs, dtype=bool) if self.split is None else self.split


def _tested(design: _Design, dependent: str) -> FoldTests:
    """The headline tests of all pairs, each on the folds that both have."""

    def make(values: AnyArray, how: Protocol, methods: list[str]) -> FoldTests:
        options: dict[str, Any] = {"methods": methods, "alpha": design.alpha}
        tests = hotelling_pairs(
            values,
            ratio=how.headline_ratio,
            measures=design.measures,
            paired=design.paired,
            dependent=dependent,
            **options,
        )
        if how.kind != "5x2" or not design.paired:
            return tests
        at = [design.measures.index(str(name)) for name in tests.measures]
        return five_by_two(values[..., at], measures=tests.measures, **options)

    p = len(design.measures)
    least = p + 1 if design.paired else 2
    return over_sharings(design.values, design.sharings, design.methods, make, p, least)


def _corrected_otherwise(design: _Design, tests: FoldTests) -> dict[str, AnyArray]:
    """The same T² with other corrections for shared training data, which only scale it: none
    (naive), or by the plain ratio; NaN where such a test may not, or need not, be made.
    """
    scale = {kind: np.full(len(tests.table), np.nan) for kind in ("naive", "plain")}
    for s in design.sharings if tests.test == "T²" else ():
        n = int(s.folds.sum())
        headline = variance_factor(n, s.how.headline_ratio)
        if not s.how.naive_refused:
            scale["naive"][s.rows] = headline * n
        if s.how.headline_ratio != s.how.ratio:
            scale["plain"][s.rows] = headline / variance_factor(n, s.how.ratio)
    df = np.ravel(tests.residual_df)
    columns: dict[str, AnyArray] = {}
    for kind, factor in scale.items():
        t2 = tests.table["statistic"].to_numpy() * factor
        pvalue = t2_pvalue(t2, len(tests.measures), df)[1]
        columns |= {f"{kind}_statistic": t2, f"{kind}_pvalue": pvalue}
        columns[f"{kind}_corrected"] = np.full(len(t2), np.nan)
    return columns


def _together(design: _Design, ratio: float | None) -> tuple[dict[str, Any], dict[str, str]]:
    """MANOVA and Mardia's test of all methods on the folds that all have; and refusals, with the
    reason.
    """
    made: dict[str, Any] = {}
    refusals = {"naive": design.naive_refused} if design.naive_refused else {}
    if design.split is not None:
        pairs = count(int(design.split.sum()), "pair")
        refusals["pairs"] = f"{pairs}: {UNPAIRED}; paired=False tests them, with less power"
    if design.n_shared < 2:
        few = f"all methods together have {count(design.n_shared, 'fold')} in common"
        refusals |= {"mardia": few, "manova": few}
    else:
        values = design.values
        by_all = design.shared.by_all
        values = values if by_all.all() else np.ascontiguousarray(values[:, by_all])
        several: dict[str, Any] = {"methods": design.methods, "measures": design.measures}
        several["design"] = "blocked" if design.paired else "one-way"
        try:
            made["mardia"] = mardia(values, measures=design.measures)
        except ValueError as error:
            refusals["mardia"] = str(error)
        try:
            if design.split is None:
                made["manova"] = manova(values, ratio=ratio, **several)
                if not design.naive_refused:
                    made["naive_manova"] = manova(values, **several)
        except ValueError as error:
            refusals["manova"] = str(error)
    if design.split is not None:
        refusals["manova"] = UNPAIRED.replace("these two", "all methods")
    return made, refusals


def _folds_of(study: Study, dataset: str, methods: Iterable[str] | None) -> pd.DataFrame:
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
    if methods is not None:
        methods = list(methods)
        have = set(frame.index.get_level_values(0))
        if unknown := [m for m in methods if m not in have]:
            guess = did_you_mean(unknown, have)
            raise IncomparableRunsError(
                f"{some(unknown)} have no values by fold on {dataset}; {some(sorted(have))} "
                f"have.{guess}"
            )
        frame = frame[frame.index.get_level_values(0).isin(methods)]
    return frame.loc[:, frame.notna().any()]


def _measures_of(frame: pd.DataFrame, measures: Iterable[str] | None) -> list[str]:
    """The names that were asked for, or the defaults."""
    have = [
        *frame.columns,
        *(
            rate
            for rate, parts in RATES.items()
            if {*parts} <= {*frame.columns} and rate not in frame
        ),
    ]
    if measures is not None:
        names = expand([measures] if isinstance(measures, str) else measures)
        if unknown := [name for name in names if name not in have]:
            raise MeasureError(
                f"the folds have no measure {some(unknown)}; they have "
                f"{some(have)}.{did_you_mean(unknown, have)}"
            )
        return names
    n_folds = frame.groupby(level=0).size().max()
    if len(frame.columns) <= min(4, (n_folds - 1) // 2):
        return list(frame.columns)
    return next((list(pair) for pair in DEFAULTS if {*pair} <= {*have}), list(frame.columns[:2]))


def _with_rates(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    new = {
        n: frame[RATES[n][0]] / frame[list(RATES[n])].sum(axis=1)
        for n in names
        if n in RATES and n not in frame
    }
    return frame.assign(**new)


def _residuals(values: AnyArray, paired: bool) -> AnyArray:
    """What is left of the methods' means, and of the folds' where they are the same: one row a
    (method, fold).
    """
    mean = np.nanmean if np.isnan(values).any() else np.mean
    left = values - mean(values, axis=1, keepdims=True)
    left = (left - mean(left, axis=0) if paired else left).reshape(-1, values.shape[2])
    return left if mean is np.mean else left[~np.isnan(left).any(axis=1)]


def _nearly(design: _Design) -> str:
    """Which measures nearly follow from those before them, as rounded values of dependent ones do;
    else empty.
    """
    left = _residuals(design.values, design.paired)
    own = np.abs(np.diag(np.linalg.qr(left / np.linalg.norm(left, axis=0), mode="r")))
    near = [name for name, share in zip(design.measures, own, strict=True) if share < NEARLY]
    if not near:
        return ""
    return f"{some(near)}: nearly follows from the measures before, which magnifies rounding"


def _table(
    design: _Design,
    tests: FoldTests,
    ways: Mapping[str, str],
    normal: MardiaResult | None,
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of `FoldComparison.table`, not yet corrected, and the doubts that all of them
    share.
    """
    gone = design.gone
    names = design.measures
    problem = np.where(gone, UNPAIRED, tests.table["problem"].to_numpy(dtype=object))
    numbers = tests.table[["statistic", "f_statistic", "pvalue"]].assign(
        **_corrected_otherwise(design, tests)
    )
    numbers.loc[gone] = np.nan
    differs = (tests.posthoc_corrected.to_numpy() <= design.alpha) & ~gone[:, None]
    carried = [
        ", ".join(m for m, yes in zip(names, row, strict=True) if yes) or "a combination"
        for row in differs
    ]
    doubt, notes = _doubts(design, tests, problem, normal)
    table = tests.table[PAIR].assign(
        measure=", ".join(names),
        **_differences(design, tests, ways),
        pvalue_corrected=np.nan,
        separated=False,
        n=design.shared.in_common,
        doubt=doubt,
        **{name: numbers[name] for name in numbers},
        carried_by=carried,
    )
    return table[[*COLUMNS, *(name for name in table if name not in COLUMNS)]], notes


def _differences(design: _Design, tests: FoldTests, ways: Mapping[str, str]) -> dict[str, Any]:
    """By pair, of a single measure: the difference with its interval, and folds won, tied and
    lost.
    """
    names = ("difference", "low", "high", "wins", "ties", "losses")
    if len(ways) > 1:
        return dict.fromkeys(names, np.nan)
    sign = -1.0 if "min" in ways.values() else 1.0
    first, second = np.triu_indices(len(design.methods), 1)
    values = sign * design.values[..., 0]
    by_fold = values[first] - values[second]
    by_fold[np.abs(by_fold) <= NOISE * np.nanmax(np.abs(values))] = 0.0
    counts = [x.sum(axis=1) for x in (by_fold > 0, by_fold == 0, by_fold < 0)]
    difference = sign * tests.differences.to_numpy()[:, 0]
    reach = special.stdtrit(np.ravel(tests.residual_df), 1 - design.alpha / 2)
    half = reach * tests.errors.to_numpy()[:, 0]
    half[design.gone] = np.nan
    ends = (difference, difference - half, difference + half)
    return dict(zip(names, (*ends, *counts), strict=True))


def _doubts(
    design: _Design,
    tests: FoldTests,
    problem: AnyArray,
    normal: MardiaResult | None,
) -> tuple[AnyArray, list[str]]:
    """Why each pair is not to be trusted, or not tested, and what is said of all of them."""
    how = design.how
    n_measures = len(tests.measures)
    nearly = _nearly(design)
    several = []
    if normal is not None and normal.pvalue <= design.alpha:
        both = f"Mardia p = {normal.pvalue:.2g} for skewness and kurtosis together"
        several.append(
            f"the results do not look normal ({both}); in Python, compare_folds(…).permutation() "
            "tests without that"
        )
    if not how.known and how.n_folds > MANY_FOLDS:
        several.append(
            f"{how.n_folds} folds of unknown origin may be repeated cross-validation, which "
            "needs a larger correction"
        )
    freedom = np.ravel(tests.df[1])
    if tests.test == "T²":
        freedom = np.ravel(tests.residual_df) - n_measures + 1
    freedom = np.broadcast_to(freedom, len(problem))
    in_common = design.shared.in_common
    fine = problem == ""
    notes = []
    doubt = problem.copy()
    tested = zip(in_common[fine], freedom[fine], strict=True)
    for n, left in dict.fromkeys(tested) or [(how.n_folds, tests.df[1])]:
        doubts = [nearly] if nearly else []
        if left < FEW_DF:
            doubts.append(
                f"{count(n_measures, 'measure')} on {count(n, 'fold')} leave too few "
                f"degrees of freedom ({left:g}): use fewer measures or more folds"
            )
        doubts += several
        doubt[fine & (in_common == n)] = "; ".join(doubts)
        notes += doubts
    return doubt, [f"{text[0].upper()}{text[1:]}." for text in dict.fromkeys(notes)]


def _disagreement(design: _Design, recorded: pd.DataFrame, runs: pd.DataFrame) -> list[str]:
    """What to tell where the models of the folds disagree more than their instances explain."""
    if design.n_shared < 2:
        return []
    folds = np.array(design.shared.folds, dtype=object)[design.shared.by_all]
    recorded = recorded.loc[pd.MultiIndex.from_product([design.methods, folds])]
    sizes = [np.mean(n) for n in runs.get("n_test", ()) if np.size(n) and not np.isnan(np.mean(n))]
    scatter = disagreement(recorded.astype(float), float(np.mean(sizes)) if sizes else None)
    if scatter is None or scatter[1] > LEVEL:
        return []
    return [
        f"The models of the folds disagree: {scatter[0]} scatters more between folds than their "
        f"instances explain (p = {scatter[1]:.2g}). Learners that choose a feature or a threshold "
        "do so, such as stumps, and tests on the folds of one dataset tell equal ones apart too "
        "often (in a fifth of simulations at α = .05): try other datasets before believing these "
        "separations."
    ]


def lost_pairs(comparisons: Iterable[FoldComparison]) -> str:
    """How many pairs could not be tested, and for what, as the end of a sentence; empty where all
    could.

    >>> lost_pairs([])
    ''
    """
    comparisons = list(comparisons)
    reasons = {why for one in comparisons for why in one.untested}
    total = sum(sum(one.untested.values()) + one.n_lost for one in comparisons)
    want = " for want of folds in common" if all("in common" in why for why in reasons) else ""
    return f"; {count(total, 'pair')} could not be tested{want}" if total else ""


def _ordering(design: _Design, tests: FoldTests, name: str, direction: str) -> Ordering:
    """The methods by one measure, and which of them its own tests separate."""
    values = design.values[..., design.measures.index(name)]
    methods = design.methods
    mean = np.nanmean if np.isnan(values).any() else np.mean
    means = pd.Series(mean(values, axis=1), methods, name=name).sort_values(
        ascending=direction == "min", kind="stable"
    )
    order = means.index.tolist()
    pvalue = np.where(design.gone, np.nan, tests.posthoc_pvalues[name])
    first, second = zip(*combinations(methods, 2), strict=True)
    pvalues = pair_matrix(order, first, second, holm(pvalue), own=1.0)
    return Ordering(name, direction, order, means, pvalues, design.alpha)


def _overall(orderings: Mapping[str, Ordering], methods: Sequence[str]) -> list[str]:
    """The methods by their mean rank over the measures."""
    ranks = [
        o.means.rank(ascending=o.direction == "min").reindex(methods) for o in orderings.values()
    ]
    return pd.concat(ranks, axis=1).mean(axis=1).sort_values(kind="stable").index.tolist()


def _means(
    frame: pd.DataFrame,
    methods: list[str],
    hows: Sequence[Protocol],
    alpha: float,
) -> pd.DataFrame:
    """Means over folds with Student's intervals, whose variance is corrected for shared training
    data.
    """
    by_fold = frame.unstack("method").swaplevel(axis=1)[methods]
    of = {
        how: [m for m, theirs in zip(methods, hows, strict=True) if theirs == how] for how in hows
    }
    table = pd.concat(
        [mean_intervals(by_fold[names], alpha, how.headline_ratio) for how, names in of.items()]
    )
    table.insert(1, "sd", by_fold.std())
    return table.reindex(
        pd.MultiIndex.from_product([methods, frame.columns], names=["method", "measure"])
    )


@dataclass(frozen=True)
class FoldPairs(PairsTested):
    """Pairs of methods by the folds of several datasets together."""

    warnings: tuple[str, ...] = ()


class OverFolds(Posthoc):
    """All pairs by the folds of a few datasets: separated where some dataset separates them, one
    worse on no measure, and none says the opposite.
    """

    name = asked = over = "folds"
    key = "over_folds"
    title = "Tests over folds"
    column = sort = "pvalue_folds"
    head = "p (folds)"
    always = False
    summary = (
        "tests the folds of each dataset and corrects over pairs and datasets; says nothing of "
        "other datasets"
    )
    sources = ("Yıldız & Alpaydın 2014",)

    def __init__(self, by_dataset: Mapping[str, FoldComparison]) -> None:
        self.by_dataset = by_dataset

    def run(self, tested: Tested) -> FoldPairs:
        names = [str(name) for name in tested.ranks.columns]
        tests = self.by_dataset.values()
        better = [pair for one in tests for pair in one.better]
        rows = pd.concat([one.table for one in tests])
        least = pair_matrix(names, [], [], own=np.nan).astype(float)
        for a, b, p in rows[[*PAIR, "pvalue_corrected"]].itertuples(index=False):
            least.loc[a, b] = least.loc[b, a] = np.fmin(least.loc[a, b], p)
        pairs = list(combinations(names, 2))
        ahead = np.array([better.count((a, b)) for a, b in pairs])
        turned = np.array([better.count((b, a)) for a, b in pairs])
        table = {
            "method_a": [a for a, _ in pairs],
            "method_b": [b for _, b in pairs],
            "mean_difference": ahead - turned,
            "statistic": np.abs(ahead - turned),
            "pvalue_corrected": [least.loc[a, b] for a, b in pairs],
            "significant": (ahead > 0) != (turned > 0),
        }
        n = len(self.by_dataset)
        m = len(names)
        return FoldPairs(pd.DataFrame(table), tested.alpha, n, m, len(rows), None, [*names])

    def wording(self, result: FoldPairs) -> str:
        return f"tests over the folds of {count(result.n_datasets, 'dataset')}"

    def sentence(self, result: FoldPairs) -> str:
        return (
            f"Tests over the folds of {count(result.n_datasets, 'dataset')}, corrected over pairs "
            "and datasets"
        )

    def about(self, result: FoldPairs) -> str:
        return f"this is about these {count(result.n_datasets, 'dataset')}, and not about others"
