"""Which differences are more than chance: tests of pairs over units of any kind, datasets first.
What is special to a kind of unit stands in its class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.pairs import (
    PairTests,
    apart,
    cliques,
    crossings,
    most_certain,
    not_put_below,
)
from mlflow_mleval.measures.metric_names import range_of
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import ALWAYS, PAGE, PAPER, Column, Data, Frames, listed, name
from mlflow_mleval.report.content import decision
from mlflow_mleval.report.content.ranking import only_best, rows_of_best
from mlflow_mleval.report.document import Brief, Document
from mlflow_mleval.report.figures import Tikz
from mlflow_mleval.report.figures.comparisons import critical_difference, pairwise_matrix
from mlflow_mleval.report.text import ARROWS, confidence, level, number, percent, pvalue
from mlflow_mleval.sentences import all_of, count, grouped, span
from mlflow_mleval.validation import present

if TYPE_CHECKING:
    from mlflow_mleval.analysis.answer_comparison import AnswerComparison
    from mlflow_mleval.analysis.fold_comparison import FoldComparison
    from mlflow_mleval.analysis.pairs_by_unit import RepeatTests

#: By dataset.
Tests: TypeAlias = "Mapping[str, PairTests]"
#: Rows of a table of pairs on a terminal, and those that are not left to the CSV file.
ROWS, PAIRS = 30, 500
FEW = 3  #: pairs over datasets that a page shows at once, beside all that are separated
DATASETS = 12  #: in a report
ANSWERS_ROWS = 60  #: pairs of measures, and rows of what more would give, that a page holds
METHODS = 100  #: rows of a table
NOT_TRUSTED = "[!]"  #: marks a row whose verdict the assumptions do not carry
#: Keys and columns that say whether methods differ.
_MARKS = (
    *("verdict", "decides", "separated", "significant", "better"),
    *("cliques", "groups", "letters", "carried_by"),
)
#: Attributes that JSON holds in another form.
_REPLACED = (
    *("notes", "moments", "largest", "bounded", "largest_score", "error", "values", "means"),
    *("tests", "order", "ways", "manova", "naive_manova", "ranking"),
)


# --------------------------------------------------------------------------------------------------
# In the report of a study: tests over units within datasets, and why others have none.


def section(c: Comparison, unit: str) -> doc.Section | None:
    """The tests over these units of the first datasets, and why others have none; without verdicts
    where it decides over other units; nothing where there are neither."""
    tests = c.tests_over(unit)
    why = {} if unit == "instances" else c.untested_over(unit)  # those are told with the answers
    if not tests and not why:
        return None
    depth = PAPER if unit in ("folds", "answers") else PAGE
    if c.decides_over in (None, unit):
        return _section(unit, tests, why, depth)
    who = f"{c.decides_over} decide" if c.decides_over else "nothing can decide"
    about = (
        f"Here {who}; what {unit} tell is described, with p-values and no verdict. For one, ask "
        f"for tests over {unit} by themselves."
    )
    return _section(unit, tests, why, depth, about)


def data(c: Comparison, unit: str) -> Data:
    """The records of every dataset, by the key of the unit; without marks where others decide."""
    records = {d: record(tests) for d, tests in c.tests_over(unit).items()}
    if c.decides_over not in (None, unit):
        records = {d: _without_marks(one) for d, one in records.items()}
    return {_KINDS[unit].key: records}


def frames(c: Comparison, unit: str) -> Frames:
    found = tables(unit, c.tests_over(unit))
    return found if c.decides_over in (None, unit) else _without_marks(found)


def _without_marks(held: Mapping[str, Any]) -> dict[str, Any]:
    """The same without what says whether methods differ."""
    kept = {key: value for key, value in held.items() if key not in _MARKS}
    for key, value in kept.items():
        if isinstance(value, pd.DataFrame):
            kept[key] = value.drop(columns=[*_MARKS], errors="ignore")
        elif key == "orderings":
            kept[key] = {measure: _without_marks(one) for measure, one in value.items()}
    return kept


def tables(unit: str, tests: Tests) -> Frames:
    """The tables of all datasets by the names of their files, unrounded."""
    kind = _KINDS[unit]
    parts: dict[str, dict[str, pd.DataFrame]] = {}
    for dataset, one in tests.items():
        further = {f"{kind.prefix}_{key}": table for key, table in one.further.items()}
        for key, table in {kind.pairs_file: one.table, **further}.items():
            parts.setdefault(key, {})[dataset] = table
    return {key: _joined(by_dataset) for key, by_dataset in parts.items()}


def _joined(by_dataset: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The tables one below the other, with the dataset first where it has a name."""
    parts = {dataset: table for dataset, table in by_dataset.items() if len(table)}
    if not parts:
        return pd.DataFrame()
    whole = pd.concat(parts, names=["dataset"])
    return (whole.reset_index("dataset") if any(parts) else whole).reset_index(drop=True)


def document(
    tests: PairTests | Tests,
    provenance: doc.Provenance,
    absent: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Document:
    """The tests of one dataset or of several; `absent` says why others have none."""
    if isinstance(tests, PairTests):
        tests = {getattr(tests, "dataset", ""): tests}
    by_dataset, absent = tests, absent or {}
    unit = next(iter(by_dataset.values())).unit
    lost = [*_not_tested(absent), *notes]
    named = f": {listed(by_dataset)}" if any(by_dataset) else ""
    return Document.of(
        provenance,
        f"Tests over {unit}{named}",
        [_section(unit, by_dataset, {}, ALWAYS), *doc.doubts(lost)],
        data=lambda: shape(by_dataset, absent, notes) | {"provenance": provenance},
        main=_KINDS[unit].pairs_file,
        frames=lambda: tables(unit, by_dataset),
        shortened=lambda: _shortened(by_dataset, provenance, lost),
    )


def _shortened(tests: Tests, provenance: doc.Provenance, notes: Sequence[str]) -> Brief:
    """The verdict in a few words: of several datasets, on how many pairs are separated."""
    parts = list(tests.values())
    first = parts[0]
    verdict = first.verdict(name)
    if len(parts) > 1:
        separated = pd.concat([one.by_pair["separated"] for one in parts])
        verdict = (
            f"Tests over {first.unit}: {int(separated.sum()):,} of {count(len(separated), 'pair')} "
            f"separated on {count(len(parts), 'dataset')}; {first.about}."
        )
        verdict = " ".join([*depends(crossings(tests)), verdict])
    doubts = [*notes, *dict.fromkeys(text for one in parts for text in one.warnings)]
    methods = list(dict.fromkeys(str(method) for one in parts for method in one.methods))
    return Brief(
        doc.capitalised(verdict),
        not_put_below(parts),
        methods=len(methods),
        names=[*methods, *tests],
        certain=lambda: most_certain(tests),
        doubts=doubts,
        doubt=f"Doubt: {doubts[0]}" if doubts else "",
        command=provenance.get("command", ""),
    )


def shape(tests: Tests, absent: Mapping[str, str], notes: Sequence[str]) -> Data:
    """What JSON holds of tests of pairs, the same keys for every kind of unit."""
    parts = tests.values()
    unit = next(iter(parts)).unit
    doubts = [
        f"{d}: {text}".removeprefix(": ") for d, one in tests.items() for text in one.warnings
    ]
    headlines = "; ".join(one.headline() for one in parts)
    whole: Data = {
        "over": "instances" if unit == "answers" else unit,
        "decides": "; ".join(dict.fromkeys(one.test for one in parts)),
        "verdict": doc.plain(" ".join([*depends(crossings(tests)), headlines])),
        "pairs": _joined({dataset: one.pairs for dataset, one in tests.items()}),
        "separated": list(dict.fromkeys(pair for one in parts for pair in one.separated)),
        "doubts": [*notes, *doubts],
        "absent": absent,
    }
    if unit in ("instances", "answers"):
        whole["n_instances"] = sum(getattr(one, "n_instances", 0) for one in parts)
    if unit not in _KINDS:  # it has keys of its own
        return whole
    records = {dataset: record(one) for dataset, one in tests.items()}
    return whole | ({"datasets": records} if any(records) else records[""])


def record(tests: PairTests) -> Data:
    """What JSON holds of the tests of one dataset, beside the rows of `pairs`."""
    values = {
        field.metadata.get("key", field.name): getattr(tests, field.name)
        for field in fields(tests)
        if field.name not in _REPLACED
    }
    further = {key: table for key, table in tests.further.items() if key != "values"}
    verdicts = {"verdict": tests.verdict(), "decides": tests.test, "doubts": tests.warnings}
    return verdicts | values | further | _KINDS[tests.unit].record(tests)


# --------------------------------------------------------------------------------------------------
# The section of tests over any units within datasets.


def _section(
    unit: str, tests: Tests, absent: Mapping[str, str], depth: int, about: str = ""
) -> doc.Section:
    """What the tests say; `about` says why they are only described, where other units decide."""

    def blocks() -> list[Any]:
        made: list[Any] = told(tests, depth) if tests else []
        if about and tests:
            shown = [block for block in made if isinstance(block, doc.Table | doc.Figure)]
            for i, block in enumerate(shown):
                if isinstance(block, doc.Table):
                    kept = [c for c in block.columns if c.head.replace(" ", "_") not in _MARKS]
                    shown[i] = replace(block, columns=kept)
            made = [doc.note(about), *shown]
        elif depending := depends(crossings(tests)):
            made.insert(0, doc.Text(depending, "lead", depth=depth))
        lost_depth = ALWAYS if unit == "answers" else PAPER
        return made + doc.points(_not_tested(absent), "Not tested", depth=lost_depth)

    return doc.Section(_KINDS[unit].key, _KINDS[unit].title, doc.Late(blocks, ALWAYS))


def _not_tested(absent: Mapping[str, str]) -> list[str]:
    return [f"{name(dataset)} was not tested: {reason}" for dataset, reason in absent.items()]


def depends(found: Sequence[tuple[Sequence[str], Mapping[Any, Sequence[str]]]]) -> list[str]:
    """Crossings in words: where it depends on the dataset which of two methods is better."""
    told = []
    for measures, sides in found:
        (a, on_a), (b, on_b) = sides.items()
        where = f"{name(a)} is better on {listed(on_a)}, {name(b)} on {listed(on_b)}"
        told.append(f"It depends: {where} (by {listed(measures)}).")
    return told


def told(tests: Tests, depth: int = ALWAYS) -> list[Any]:
    """What the tests of each dataset say, their table, and what else this kind of unit tells."""
    first = next(iter(tests.values()))
    kind = _KINDS[first.unit]
    shown = list(tests.items())[:DATASETS]
    paragraphs, beside = [], []
    for key, (dataset, one) in enumerate(shown, start=1):
        said = one.headline(name).replace(f"{one.test} ", "it " if key > 1 else f"{one.test} ", 1)
        if dataset:
            said = f"On {name(dataset)} {said[:3].replace('The', 'the')}{said[3:]}"
        paragraphs.append(doc.capitalised(f"{said}."))
        beside += kind.below(one, key, dataset)
    if depth == ALWAYS:
        paragraphs.append(doc.capitalised(f"{first.about}."))
    paragraphs += dict.fromkeys(text for _, one in shown for text in kind.sentences(one))
    if len(tests) > len(shown):
        paragraphs.append(f"These are the first {DATASETS} of {len(tests)} datasets.")
    doubts = grouped((text, d) for d, one in tests.items() for text in one.warnings)
    points = [
        text if len(on) == len(tests) else f"On {listed(on)}: {text}" for text, on in doubts.items()
    ]
    blocks = [
        doc.Text(paragraphs),
        *kind.above(tests),
        pairs_table(tests),
        *beside,
        *doc.points(points, "Doubts"),
    ]
    return [
        replace(block, depth=depth if isinstance(block, doc.Text) else max(block.depth, depth))
        for block in blocks
    ]


def pairs_table(tests: Tests) -> doc.Table:
    """One row a dataset, pair and measure, separated ones first."""
    first = next(iter(tests.values()))
    kind = _KINDS[first.unit]
    rows = pd.concat({d: one.ordered for d, one in tests.items()}, names=["dataset"])
    total = len(rows)
    rows = rows.reset_index("dataset").sort_values("separated", ascending=False, kind="stable")
    rows = rows.head(PAIRS)
    tested = rows["pvalue"].notna()
    verdicts = rows["separated"].map({True: "yes", False: "no"}).where(tested, "not tested")
    doubtful = tested & (rows["doubt"] != "")
    verdicts += doubtful.map({True: f" {NOT_TRUSTED}", False: ""})
    trust = f"{NOT_TRUSTED}: see the doubts." if doubtful.any() else ""
    decides, *others = kind.columns(first, rows)
    columns = doc.pair(rows)
    if len(tests) > 1:
        columns.insert(0, doc.names("dataset", rows["dataset"]))
    if first.unit != "folds":
        columns.append(Column("measure", [*rows["measure"]], "<"))
    if rows["difference"].notna().any():
        level = f"an interval at {percent(1 - first.alpha)} that holds together with all others"
        note = f"Mean difference: positive where the first is better, with {level}."
        values = rows[["difference", "low", "high"]]
        columns.append(doc.intervals("mean difference", values, keep=4, note=note))
    columns += [decides, Column("separated", verdicts.tolist(), "<", note=trust)]
    if rows["wins"].notna().any():
        columns.append(doc.won_tied_lost(rows, keep=3))
    key, columns = kind.pairs_file.replace("_", "-"), [*columns, *others]
    return doc.Table(columns, total, key=key, things="pairs", depth=ALWAYS, most=ROWS)


# --------------------------------------------------------------------------------------------------
# Over datasets: tests of all methods together, the diagram, the matrix, and every pair.


def over_datasets(c: Comparison) -> doc.Section:
    """Friedman, the diagram, the matrix and the table of pairs, separated ones first, on a page the
    others folded; or why there are none."""
    if c.deciding is None:
        return doc.Section("differences", "Differences", [doc.Text([c.decision])])
    decides = c.deciding

    def blocks() -> list[Any]:
        # what decides comes right after the difference, other tests where one was asked for
        shown = c.pairs.head(PAIRS)
        made = sorted(c.posthoc, key=lambda made: made is not decides)
        decided, *others = [
            doc.pvalues(m.head, shown[m.column], keep=1 if i else 9)
            for i, m in enumerate(made[:1] if c.options["test"] == "max-t" else made)
        ]
        reverse = {(worse, better) for better, worse in c.separated}
        marks = []
        for row in shown.itertuples():
            text = "yes, reversed" if (row.method_a, row.method_b) in reverse else "yes"
            text += f" {NOT_TRUSTED}" if row.doubts else ""
            marks.append(text if row.separated else "")
        note = ""
        if decides.by_unit:
            note = f"Separated: where {decides.over} tell two apart, and none says the opposite."
        if doubts := "; ".join(filter(None, shown["doubts"])):
            reasons = " or ".join(dict.fromkeys(doubts.split("; ")))
            note = f"{NOT_TRUSTED}: not to be trusted, since {reasons}."
        separated = Column("separated", marks, "<", note=note)
        columns = [*doc.pair(shown), *differences(c, shown), decided, separated]
        if shown["n"].min() < len(c.ranks):
            note = "Datasets: on which both finished."
            columns.append(Column("datasets", [*map(str, shown["n"])], keep=3, note=note))
        columns += [doc.won_tied_lost(shown, keep=3), *others]
        at_once = max(len(c.separated), FEW)
        every = c.options["control"] is None
        title = "Pairs of methods" if every else "Every method against the control"
        pairs = doc.Table(columns, c.n_pairs, title, "pairs", things="pairs", shown=at_once)
        tests = [doc.Text([*omnibus(c), f"For pairs: {c.decision}"]), _diagram(c)]
        return [doc.Beside(tests, [_matrix(c)]), pairs] if every else [*tests, pairs]

    return doc.Section("differences", "Differences", doc.Late(blocks))


_EVERY = ("alpha", "control", "significant_pairs", "warnings")
#: What JSON holds of the tests that it always names.
_HELD = {
    "max_t": (*_EVERY, "n_comparisons", "exact", "n_resamples", "seed"),
    "nemenyi": (*_EVERY, "critical_difference"),
    "pairwise": (*_EVERY, "n_comparisons"),
}


def data_over_datasets(c: Comparison) -> Data:
    """What JSON holds of each test, of what decides, and of the pairs that it separates."""
    tests: Data = dict.fromkeys(_HELD)
    for made in c.posthoc:
        keys = _HELD.get(made.key, ("alpha", "significant_pairs", "warnings"))
        tests[made.key] = {"test": made.asked, **doc.named(made.result, *keys)}
    if c.pairwise:
        tests["pairwise"] |= {"alternative": "two-sided", "pairs": rows_of_best(c, c.pairs)}
    rest = doc.named(c, "skillings_mack", "decides", "decision", "separated")
    rest |= {"cliques": c.cliques}
    unit = c.decides_over
    if unit and (c.deciding is None or c.deciding.over != unit):  # units where datasets cannot
        said = [c.decision, *(doc.plain(sentence.text) for sentence in decision.by_fold(c))]
        rest |= {"decides": unit, "decision": " ".join(said), "separated": c.told_apart}
        rest |= {"cliques": cliques(apart(c.order, c.told_apart))}
    needed = c.needed_by
    if needed is not None:  # the many that nothing carries alone are not listed
        needed = needed[[bool(row.jackknife or row.companions) for row in needed.itertuples()]]
    return {"friedman": c.friedman, **tests, **rest, "separations": needed}


def frames_over_datasets(c: Comparison) -> Frames:
    """The pairs, of very many methods the best."""
    return {"pairs": rows_of_best(c, c.pairs)}


def omnibus(c: Comparison) -> list[str]:
    """The tests over all methods together, a sentence each."""
    lines = []
    if (f := c.friedman) is not None:
        low, high = f.iman_davenport_df
        policy = c.study.missing
        filled = f", missing results filled by the policy {policy}" if c.study.filled else ""
        tests = (
            f"Friedman χ²({f.df}) = {number(f.statistic)}, {pvalue(f.pvalue)}; Iman–Davenport "
            f"F({low}, {high}) = {number(f.iman_davenport_statistic)}, "
            f"{pvalue(f.iman_davenport_pvalue)}"
        )
        notes = f.warnings
        if f.exact_pvalue is not None:  # beside which the approximations are rough, or false
            tests = f"Friedman's test by all orders of the methods, {pvalue(f.exact_pvalue)}"
            notes = ()
        lines.append(" ".join([f"All methods together{filled}: {tests}.", *notes]))
    if (s := c.skillings_mack) is not None:
        lines.append(
            f"With the gaps left empty: Skillings–Mack χ²({s.df}) = {number(s.statistic)}, "
            f"{pvalue(s.pvalue)}."
        )
    return lines


def _diagram(c: Comparison) -> doc.Figure:
    control = c.options["control"]
    bars = c.cliques
    says = "A bar joins methods that are not separated"
    if control is not None:
        bars = [[m for m in c.order if m == control or not c.is_separated(m, control)]]
        says = (
            f"The bar joins what is not separated from the control {name(control)}; no other "
            "pairs were compared"
        )
    caption = (
        f"Mean ranks over {count(len(c.ranks), 'dataset')}, 1 is best. {says}; dotted, it passes "
        f"over others.{only_best(len(c.order))}"
    )
    drawn = (c.ranks.mean()[c.order], bars, present(c.deciding).critical_difference)
    svg, tikz = critical_difference(*drawn), str(critical_difference(*drawn, Tikz))
    return doc.Figure(svg, caption, title=svg.title, tikz=tikz)


def _matrix(c: Comparison) -> doc.Figure:
    test = present(c.deciding)
    units = "repeats" if test.over == "repeats" and not test.by_unit else "datasets"
    caption = (
        f"Row against column: mean difference of {_what(c)}, {units} won/tied/lost, and p. Blue, "
        f"+: the row is better; orange, −: the column. Framed: separated.{only_best(len(c.order))}"
    )
    return doc.Figure(pairwise_matrix(c.pairs, c.order, test.column), caption, title="Every pair")


def _what(c: Comparison) -> str:
    return c.compared if c.on == FUSED else name(c.on)


def differences(c: Comparison, shown: pd.DataFrame) -> list[Column]:
    """How far the first is better in the units of what is compared, and in net flows with the
    intervals of the deciding test, where it has some."""
    limits = shown[["flow_difference", "flow_low", "flow_high"]]
    has_limits = bool(np.isfinite(limits[["flow_low", "flow_high"]].astype(float)).any(axis=None))
    columns = []
    if c.on != FUSED or not has_limits:
        turned = " with its sign turned" if c.study.directions.get(c.on) == "min" else ""
        note = f"Mean difference: of {_what(c)}{turned}, positive where the first is better."
        columns = [doc.numbers("mean difference", shown["mean_difference"], keep=5, note=note)]
    if has_limits:
        of = "" if c.on == FUSED else f" by {_what(c)}"
        note = (
            f"Difference of net flows φ{of}; the {confidence(c.options['alpha'])} intervals hold "
            "together: one excludes 0, or ends at it, where the pair is separated."
        )
        columns.append(doc.intervals("difference in φ", limits, keep=4, note=note))
    return columns


# --------------------------------------------------------------------------------------------------
# The kinds of units.


@dataclass(frozen=True)
class Kind:
    """How a kind of unit is shown: its section, its key in the JSON of a report, the names of its
    CSV files; columns of the table of pairs and what else there is."""

    title: str
    key: str
    pairs_file: str
    prefix: str

    def columns(self, tests: Any, rows: pd.DataFrame) -> list[Column]:
        """Columns of the table, the p-values that decide first."""
        over = "pairs and measures" if tests.n_datasets == 1 else "pairs, measures and datasets"
        larger = " or, where larger, the score test" if tests.bounded else ""
        draws = f"{tests.n_resamples:,} draws, seed {tests.seed}"
        note = f"p: by changes of sign ({draws}){larger}, corrected for the number of {over}."
        return [doc.pvalues("p", rows["pvalue_corrected"], keep=6, note=note)]

    def sentences(self, tests: Any) -> list[str]:
        """Sentences about a dataset after the verdict."""
        return []

    def above(self, tests: Mapping[str, Any]) -> list[Any]:
        """What stands above the table."""
        return []

    def below(self, tests: Any, i: int, dataset: str) -> list[Any]:
        """What stands below it on the dataset with this number."""
        return []

    def record(self, tests: Any) -> Data:
        """What JSON holds beside what it holds of all tests of pairs."""
        return {}


class Folds(Kind):
    """Several measures tested together, and a picture of the folds."""

    def columns(self, tests: FoldComparison, rows: pd.DataFrame) -> list[Column]:
        columns = [doc.pvalues("p (Holm)", rows["pvalue_corrected"], keep=6)]
        if (rows["carried_by"] != "").any():
            note = "Carried by: what differs on its own."
            columns.append(Column("carried by", [*rows["carried_by"]], "<", keep=2, note=note))
        note = "Direction: of the means; the test itself has none."
        columns.append(Column("direction", rows["direction"].tolist(), "<", keep=3, note=note))
        if rows["n"].nunique() > 1:
            note = "Folds: how many both methods have."
            columns.append(Column("folds", rows["n"].map(str).tolist(), keep=3, note=note))
        return columns

    def sentences(self, tests: FoldComparison) -> list[str]:
        """What was tested on the folds of one dataset, what could not be, what was refused."""
        from mlflow_mleval.analysis.fold_protocol import UNPAIRED

        n = tests.n_datasets
        over = f" over the pairs of {all_of(n)} datasets" if n > 1 else ""
        each = f", each pair on the {tests.folds_of_a_pair} that both have,"
        tested = (
            f"Tested{'' if tests.n_shared_folds == tests.n_folds else each} on "
            f"{listed(tests.measures, most=8)} (Holm's correction{over}, α = {level(tests.alpha)})"
        )
        for why, pairs in tests.untested.items():
            lost = f"; {count(pairs, 'pair')} could not be tested: {why}"
            tested += "" if why == UNPAIRED else lost
        if tests.n_lost:
            gone = listed(dict.fromkeys(e.name for e in tests.excluded if e.kind == "method"))
            tested += (
                f"; {count(tests.n_lost, 'further pair')} of {gone} could not be tested for want "
                "of folds in common"
            )
        refused = {"naive": "The uncorrected test was", "pairs": "Pairs were"}
        refusals = [
            f"{refused[key]} refused: {reason.rstrip('.')}."
            for key, reason in tests.refusals.items()
            if key in refused
        ]
        return [f"{tested}.", *refusals]

    def above(self, tests: Mapping[str, FoldComparison]) -> list[Any]:
        """Means over folds with their intervals and the groups, best mean rank first."""
        first = next(iter(tests.values()))
        rows = [(d, one, m) for d, one in tests.items() for m in one.order]
        shown = rows[:METHODS]
        shared = "" if first.protocol.ratio is None else ", widened for shared training data"
        note = f"Means with {confidence(first.alpha)} intervals, each alone{shared}."
        columns = [doc.names("method", [m for _, _, m in shown], note=note)]
        if len(tests) > 1:
            columns.insert(0, doc.names("dataset", [d for d, _, _ in shown]))
        n = [str(len(one.values.loc[m])) for _, one, m in shown]
        if len({*n}) > 1:
            note = "Folds: how many the method has; its means are over them."
            columns.append(Column("folds", n, note=note))
        arrows = {
            m: ARROWS[o.direction] for one in tests.values() for m, o in one.orderings.items()
        }
        means = pd.concat({d: one.means for d, one in tests.items()})[["mean", "low", "high"]]
        for keep, (measure, arrow) in zip(range(len(arrows), 0, -1), arrows.items(), strict=True):
            values = means.reindex([(d, m, measure) for d, _, m in shown])
            ends = range_of(measure, values["mean"].dropna())  # which intervals do not pass
            values = values.assign(**values[["low", "high"]].clip(*ends))
            columns.append(doc.intervals(f"{measure} {arrow}", values, keep=keep))
        note = "Methods that share a letter are not separated."
        columns.append(doc.names("groups", [one.letters[m] for _, one, m in shown], note=note))
        title, n_rows = "Means over folds", len(rows)
        return [doc.Table(columns, n_rows, title, "fold-means", things="methods", depth=ALWAYS)]

    def below(self, tests: FoldComparison, i: int, dataset: str) -> list[Any]:
        from mlflow_mleval.report.figures.lines import DETAILED, INSIDE, fold_scatter

        if len(tests.measures) < 2:
            return []
        caption = ""
        if i == 1:
            caption = (
                f"Points: folds; large: their means. Ellipses: where {INSIDE:.0%} of folds lie if "
                "they are normal, not how sure the mean is."
            )
        if len(tests.methods) > DETAILED:
            caption += f" Folds and ellipses of the best {DETAILED} are drawn."
        heads = [f"{m} {ARROWS[o.direction]}" for m, o in tests.orderings.items()][:2]
        title = f"Folds on {dataset}" if dataset else "Folds on two measures"
        svg = fold_scatter(tests.values.iloc[:, :2], tests.order, heads, title)
        return [doc.Figure(svg, caption.strip(), title=title)]

    def record(self, tests: FoldComparison) -> Data:
        learned = tests.manova and tests.manova.learned
        keys = ("direction", "order", "groups", "letters")
        facts = ("statistic", "pvalue", "f_statistic", "df", "design", "warnings")
        manovas: Data = {"manova": tests.manova, "naive_manova": tests.naive_manova}
        for key, made in manovas.items():
            if made is not None:
                by_measure = made.table.to_dict(orient="index")
                manovas[key] = {**doc.named(made, *facts), "table": by_measure}
        return {
            "sentences": self.sentences(tests),
            **doc.named(tests, "cliques", "letters", "directions"),
            **manovas,
            "orderings": {m: doc.named(o, *keys) for m, o in tests.orderings.items()},
            "learned": learned
            and {
                "weights": learned.weights.to_dict(),
                "scaled_weights": learned.scaled_weights.to_dict(),
                "tests": learned.tests(tests.alpha),
                **doc.named(learned, "eigenvalues", "shares"),
            },
        }


class Repeats(Kind):
    """Means of repeats compared."""

    def columns(self, tests: RepeatTests, rows: pd.DataFrame) -> list[Column]:
        together = f" on {tests.n_datasets} datasets together" if tests.n_datasets > 1 else ""
        over = f"{count(tests.n_comparisons, 'test')}{together}"
        note = f"p: {tests.test} (Welch 1947), corrected by Holm over {over}."
        repeats = [f"{a}/{b}" for a, b in zip(rows["n_a"], rows["n_b"], strict=True)]
        pvalues = doc.pvalues("p", rows["pvalue_corrected"], keep=5, note=note)
        return [pvalues, Column("repeats", repeats, keep=2)]


class Answers(Kind):
    """Who leads, on which questions, and what more questions would give: tables by title."""

    PARTS = (
        ("ranking", "Ranking"),
        ("differing", "Where they differ most"),
        ("agreement", "Which scorers agree"),
        ("sampling", "Questions and samples"),
        ("needed", "What more questions would show"),
    )

    def below(self, tests: AnswerComparison, i: int, dataset: str) -> list[Any]:
        on = f" on {name(dataset)}" if dataset else ""
        tables = []
        for part, title in self.PARTS:
            rows = getattr(tests, part)
            if rows is not None and len(rows):
                table = getattr(self, part)(tests, rows)
                tables.append(replace(table, title=f"{title}{on}", key=f"{table.key}-{i}"))
        return tables

    def record(self, tests: AnswerComparison) -> Data:
        ranking = tests.ranking
        return {"ranking": None if ranking is None else {"table": ranking.reset_index()}}

    def ranking(self, c: AnswerComparison, table: pd.DataFrame) -> doc.Table:
        flow = "φ: net flow of PROMETHEE on the means (V-shape, equal weights)."
        ranks = [span(low, high) for low, high in zip(table["low"], table["high"], strict=True)]
        columns = [
            doc.names("method", table.index),
            doc.numbers("rank", table["rank"]),
            doc.decimals("φ", table["phi"], 3, note=flow),
            Column("ranks", ranks, note="Ranks: those that the separated pairs leave."),
        ]
        return doc.Table(columns, key="answer-ranking", first=True, depth=ALWAYS)

    def differing(self, c: AnswerComparison, rows: pd.DataFrame) -> doc.Table:
        a, b = map(name, c.compared)
        columns = [Column("asked", [*rows["asked"].astype(str)], "wrap")]
        for method, side in zip(c.compared, "ab", strict=True):
            if rows[f"output_{side}"].astype(bool).any():
                columns.append(Column(method, [*rows[f"output_{side}"].astype(str)], "wrap"))
        for m in [m for m in c.measures if rows[m].abs().max() > 0][:4]:
            both = zip(rows[f"{m}:a"], rows[f"{m}:b"], strict=True)
            columns.append(Column(m, [f"{number(x)} | {number(y)}" for x, y in both]))
        for head, side in (("trace", "a"), ("trace of the other", "b")):
            links = map(doc.Link.to, rows[f"link_{side}"], rows[f"address_{side}"])
            columns.append(Column(head, [*links], "<", keep=1))
        note = f"Scores: {a} | {b}."
        return doc.Table(columns, key="differing", note=note, most=10)

    def agreement(self, c: AnswerComparison, found: pd.DataFrame) -> doc.Table:
        rows = found.sort_values("correlation", key=abs, ascending=False).head(ANSWERS_ROWS)
        how = "Correlation: Pearson's, over the answers of all methods, within each method."
        columns = [
            Column("measure", [*rows["measure_a"]], "<"),
            Column("and", [*rows["measure_b"]], "<"),
            doc.decimals("correlation", rows["correlation"], 2, note=how),
            doc.counts("answers", rows["n"], keep=1),
        ]
        return doc.Table(columns, len(found), key="agreement", most=8)

    def sampling(self, c: AnswerComparison, found: pd.DataFrame) -> doc.Table:
        rows = found.head(ANSWERS_ROWS)
        share = "Question's: its share of the variance of one answer; the rest is sampling."
        shares = ["" if x != x else percent(x) for x in rows["question_share"]]
        errors = "Errors are standard errors of the mean."
        columns = [
            doc.names("method", rows["method"]),
            Column("measure", [*rows["measure"]], "<"),
            doc.counts("questions", rows["questions"], keep=1),
            Column("samples", [number(x, 3) for x in rows["samples"]], keep=1),
            Column("question's", shares, note=share),
            doc.alike("error now", rows["standard_error"], 2, note=errors),
            doc.alike("twice the questions", rows["with_questions"], 2),
            doc.alike("twice the samples", rows["with_samples"], 2),
        ]
        return doc.Table(columns, len(found), key="sampling", most=8)

    def needed(self, c: AnswerComparison, found: pd.DataFrame) -> doc.Table:
        from mlflow_mleval.analysis.answer_comparison import POWER

        rows = found.head(ANSWERS_ROWS)
        unit = f"clusters ({c.cluster})" if c.cluster else "questions"
        note = (
            f"Needed: {unit} until a difference of this size would be found in {percent(POWER)} "
            "of such evaluations, at the level corrected for all rows; none where no difference is "
            "seen, or a single one of them."
        )
        needed = [f"{int(x):,}" if np.isfinite(x) else "" for x in rows["needed"]]
        columns = [
            *doc.pair(rows),
            Column("measure", [*rows["measure"]], "<"),
            doc.alike("difference", rows["difference"], 3),
            doc.counts("now", rows["n"], keep=1),
            Column("needed", needed, note=note),
        ]
        return doc.Table(columns, len(found), key="needed", most=8)


_KINDS = {
    "folds": Folds("By fold", "folds", "fold_pairs", "fold"),
    "repeats": Repeats("Tests over repeats", "repeat_tests", "repeat_tests", "repeat"),
    "instances": Kind("By instance", "instances", "instances", "instance"),
    "answers": Answers("Answer by answer", "answers", "answers_instances", "answers"),
}
