"""Tests of pairs over units of any kind as sections, documents and data.

What is special to a kind of unit stands in `_KINDS`: columns of its table, and blocks beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.answer_comparison import POWER, AnswerComparison
from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.fold_comparison import FoldComparison, lost_pairs
from mlflow_mleval.analysis.fold_protocol import UNPAIRED
from mlflow_mleval.analysis.instance_tests import InstanceTests
from mlflow_mleval.analysis.multivariate import ManovaResult
from mlflow_mleval.analysis.pairs import (
    PairTests,
    crossings,
    most_certain,
    not_put_below,
)
from mlflow_mleval.analysis.repeat_tests import RepeatTests
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    ALWAYS,
    PAGE,
    PAPER,
    Column,
    Data,
    Figure,
    Frames,
    Late,
    Link,
    Provenance,
    Section,
    Table,
    Text,
    doubts,
    listed,
    made_from,
    name,
    when,
    within_range,
)
from mlflow_mleval.report.content.differences import NOT_TRUSTED
from mlflow_mleval.report.document import Brief, Document
from mlflow_mleval.report.figures import TOP
from mlflow_mleval.report.figures.lines import DETAILED, INSIDE, fold_scatter
from mlflow_mleval.report.text import (
    ARROWS,
    aligned,
    confidence,
    level,
    number,
    percent,
    with_intervals,
)
from mlflow_mleval.sentences import all_of, count, span
from mlflow_mleval.validation import present

#: Rows of a table of pairs on a terminal, and on a page; datasets that a report shows.
ROWS = 30
ALL_ROWS = 500
DATASETS = 12
#: Pairs of measures, and rows of what more would give, that a page holds.
ANSWERS_ROWS = 60
METHODS = 100
#: Keys and columns that say whether methods differ.
_MARKS = (
    *("verdict", "decides", "separated", "significant", "better"),
    *("cliques", "groups", "letters", "carried_by"),
)
#: Attributes that JSON holds in another form.
_REPLACED = (
    "notes",
    "moments",
    "largest",
    "bounded",
    "largest_score",
    "error",
    "values",
    "means",
    "tests",
    "order",
    "ways",
    "manova",
    "naive_manova",
    "ranking",
)


@dataclass(frozen=True)
class _Kind:
    """How a kind of unit is shown: its section, its key in the JSON of a report, the names of its
    CSV files; columns of the table of pairs and what else there is.
    """

    title: str
    key: str
    pairs_file: str
    prefix: str
    #: Columns of the table, the p-values that decide first.
    columns: Callable[[Any, pd.DataFrame], list[Column]]
    #: Sentences after the verdict.
    sentences: Callable[[Any], list[str]]
    #: What stands above and below the table; on the dataset with this number.
    above: Callable[[Any, int, str], list[Any]] = lambda tests, i, dataset: []
    below: Callable[[Any, int, str], list[Any]] = lambda tests, i, dataset: []
    record: Callable[[Any], Data] = lambda tests: {}
    #: Over what the tests of a dataset say, beside its name.
    heading: str = ""


def section(c: Comparison, unit: str) -> Section | None:
    """The tests over these units of every dataset, and why others have none; nothing where there
    are neither.
    """
    tests = c.tests_over(unit)
    why = c.untested_over(unit)
    if unit == "instances":
        why = {}  # told with the answers
    depth = PAPER if unit in ("folds", "answers") else PAGE
    return _section(unit, tests, why, depth, c.decides_over) if tests or why else None


def _describes(unit: str, decides_over: str | None) -> bool:
    """Whether tests over the unit have no say, because others decide, or nothing can."""
    return decides_over not in (None, unit)


def data(c: Comparison, unit: str) -> Data:
    """The records of every dataset, by the key of the unit; without marks where others decide."""
    records = {d: record(tests) for d, tests in c.tests_over(unit).items()}
    if _describes(unit, c.decides_over):
        records = {d: _without_marks(one) for d, one in records.items()}
    return {_KINDS[unit].key: records}


def frames(c: Comparison, unit: str) -> Frames:
    """The tables of every dataset by name."""
    found = tables(unit, c.tests_over(unit))
    return _without_marks(found) if _describes(unit, c.decides_over) else found


def _without_marks(held: Mapping[str, Any]) -> dict[str, Any]:
    """The same without what says whether methods differ."""
    kept = {key: value for key, value in held.items() if key not in _MARKS}
    for key, value in kept.items():
        if isinstance(value, pd.DataFrame):
            kept[key] = value.drop(columns=[*_MARKS], errors="ignore")
        elif key == "orderings":
            kept[key] = {measure: _without_marks(one) for measure, one in value.items()}
    return kept


def tables(unit: str, tests: Mapping[str, PairTests]) -> Frames:
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


def document_of_one(tests: PairTests, provenance: Provenance) -> Document:
    """The tests of one dataset."""
    return document({getattr(tests, "dataset", ""): tests}, provenance)


def document(
    tests: Mapping[str, PairTests],
    provenance: Provenance,
    absent: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Document:
    """The tests of several datasets; `absent` says why a dataset has none, `notes` are doubts about
    the selection.
    """
    absent = absent or {}
    unit = next(iter(tests.values())).unit
    lost = _not_tested(absent)
    named = f": {listed(tests)}" if any(tests) else ""
    sections = [_section(unit, tests, {}, ALWAYS), *doubts([*lost, *notes])]
    return Document(
        f"Tests over {unit}{named}",
        [*sections, made_from(provenance)],
        time=when(provenance),
        data=lambda: shape(tests, absent, notes) | {"provenance": provenance},
        main=_KINDS[unit].pairs_file,
        frames=lambda: tables(unit, tests),
        shortened=lambda: _shortened(tests, provenance, [*lost, *notes]),
    )


def _shortened(
    tests: Mapping[str, PairTests],
    provenance: Provenance,
    notes: Sequence[str],
) -> Brief:
    """The verdict in a few words: of several datasets, on how many pairs are separated."""
    parts = list(tests.values())
    first = next(iter(tests.values()))
    verdict = first.verdict(name)
    if len(parts) > 1:
        told = " ".join([*_crossing(tests), f"Tests over {first.unit}: {_hint(tests)}"])
        verdict = f"{told}; {first.about}."
    doubts = [*notes, *dict.fromkeys(text for one in parts for text in one.warnings)]
    methods = list(dict.fromkeys(str(method) for one in parts for method in one.methods))
    return Brief(
        f"{verdict[:1].upper()}{verdict[1:]}",
        not_put_below(parts),
        methods=len(methods),
        names=[*methods, *tests],
        certain=most_certain(tests),
        doubts=doubts,
        doubt=f"Doubt: {doubts[0]}" if doubts else "",
        command=provenance.get("command", ""),
    )


def shape(
    tests: Mapping[str, PairTests],
    absent: Mapping[str, str],
    notes: Sequence[str],
) -> Data:
    """What JSON holds of tests of pairs, the same keys for every kind of unit."""
    unit = next(iter(tests.values())).unit
    doubts_of_tests = [
        f"{dataset}: {text}".removeprefix(": ")
        for dataset, one in tests.items()
        for text in one.warnings
    ]
    whole: Data = {
        "over": "instances" if unit == "answers" else unit,
        "decides": "; ".join(dict.fromkeys(one.test for one in tests.values())),
        "verdict": doc.plain(
            " ".join([*_crossing(tests), "; ".join(one.headline() for one in tests.values())])
        ),
        "pairs": _joined({dataset: one.pairs for dataset, one in tests.items()}),
        "separated": list(dict.fromkeys(pair for one in tests.values() for pair in one.separated)),
        "doubts": [*notes, *doubts_of_tests],
        "absent": absent,
    }
    sizes = [one.n_instances for one in tests.values() if isinstance(one, InstanceTests)]
    if sizes:
        whole["n_instances"] = sum(sizes)
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


def _section(
    unit: str,
    tests: Mapping[str, PairTests],
    absent: Mapping[str, str],
    depth: int,
    decides_over: str | None = None,
) -> Section:
    """All datasets, on a terminal too, if they are the document; in the report of a study the first
    ones, without verdicts where it decides over other units.
    """
    kind = _KINDS[unit]
    lost = lost_pairs(one for one in tests.values() if isinstance(one, FoldComparison))
    describes = _describes(unit, decides_over)
    about = (
        f"Here {f'{decides_over} decide' if decides_over else 'nothing can decide'}; what {unit} "
        "tell is described, with p-values and no verdict. For one, ask for tests over "
        f"{unit} by themselves."
    ) * describes
    blocks = Late(lambda: _blocks(unit, tests, absent, depth, about))
    hint = "described" if describes else f"{_hint(tests)}{lost}"
    return Section(kind.key, kind.title, blocks, hint)


def _blocks(
    unit: str,
    tests: Mapping[str, PairTests],
    absent: Mapping[str, str],
    depth: int,
    about: str,
) -> list[Any]:
    """`about` says why they are only described, where other units decide."""
    blocks: list[Any] = [doc.note(about)] if about and tests else []
    shown = list(tests.items())[: None if depth == ALWAYS else DATASETS]
    said: set[str] = set()
    for key, (dataset, one) in enumerate(shown, start=1):
        parts = on_dataset(one, key, dataset, depth, said, about=key == 1 and depth == ALWAYS)
        blocks += _without_verdicts(parts, dataset) if about else parts
    if len(tests) > len(shown):
        rest = f"The first {DATASETS} of {len(tests)} datasets are shown"
        blocks.append(doc.note(f"{rest}; the JSON and CSV data hold all."))
    if (depends := _crossing(tests)) and not about:
        blocks.insert(0, Text(depends, "lead", depth=depth))
    lost = _not_tested(absent)
    blocks += doc.points(lost, "Not tested", depth=ALWAYS if unit == "answers" else PAPER)
    return blocks


def _not_tested(absent: Mapping[str, str]) -> list[str]:
    return [f"{name(dataset)} was not tested: {reason}" for dataset, reason in absent.items()]


def _without_verdicts(blocks: Sequence[Any], dataset: str) -> list[Any]:
    """Tables and figures of a dataset, of which none says that two methods differ."""
    kept: list[Any] = []
    for block in blocks:
        if isinstance(block, Table):
            columns = [c for c in block.columns if c.head.replace(" ", "_") not in _MARKS]
            kept.append(replace(block, columns=columns, title=block.title or f"On {name(dataset)}"))
        elif isinstance(block, Figure):
            kept.append(block)
    return kept


def _hint(tests: Mapping[str, PairTests]) -> str:
    """How many pairs are separated on how many datasets."""
    if not tests:
        return "not tested"
    by_pair = pd.concat([one.by_pair["separated"] for one in tests.values()])
    return (
        f"{int(by_pair.sum()):,} of {count(len(by_pair), 'pair')} separated on "
        f"{count(len(tests), 'dataset')}"
    )


def _crossing(tests: Mapping[str, PairTests]) -> list[str]:
    """Where it depends on the dataset which of two methods is better."""
    return depends(crossings(tests))


def depends(found: Sequence[tuple[Sequence[str], Mapping[Any, Sequence[str]]]]) -> list[str]:
    """Crossings in words."""
    told = []
    for measures, sides in found:
        (a, on_a), (b, on_b) = sides.items()
        by = f"by {listed(measures)}"
        where = f"{name(a)} is better on {listed(on_a)}, {name(b)} on {listed(on_b)}"
        told.append(f"It depends: {where} ({by}).")
    return told


def on_dataset(
    tests: PairTests,
    key: int = 1,
    dataset: str = "",
    depth: int = ALWAYS,
    said: set[str] | None = None,
    about: bool = True,
) -> list[Any]:
    """What the tests of a dataset say and what they are about, their table, and what else this kind
    of unit tells; not what was said of one before.
    """
    kind = _KINDS[tests.unit]
    on, of = (f" on {name(dataset)}", f" of {name(dataset)}") if dataset else ("", "")
    title = f"{kind.heading}{on}" if kind.heading else f"On {name(dataset)}" if dataset else ""
    verdict = tests.verdict(name) if about else f"{tests.headline(name)}."
    if key > 1:
        verdict = verdict.replace(f"{tests.test} ", "Here it ", 1)
    said = set() if said is None else said
    paragraphs = [verdict[:1].upper() + verdict[1:]]
    paragraphs += [text for text in kind.sentences(tests) if text not in said]
    doubted = ["; ".join(x for x in text.split("; ") if x not in said) for text in tests.warnings]
    again = doubted.count("")
    doubted.append(f"{count(again, 'doubt')} told above" if again else "")
    said.update(paragraphs, *(text.split("; ") for text in tests.warnings))
    caption = f"Pairs of methods over {tests.unit}{of}"
    table = pairs_table(tests, f"{kind.pairs_file.replace('_', '-')}-{key}", caption)
    role = "lead" if tests.unit == "answers" else ""
    tables = [*kind.above(tests, key, dataset), table]
    blocks = [
        Text([*filter(None, paragraphs)], role, title),
        *(tables if key == 1 else map(_unexplained, tables)),
        *kind.below(tests, key, dataset),
        *doc.points([*filter(None, doubted)], f"Doubts{on}"),
    ]
    return [
        replace(block, depth=depth if isinstance(block, Text) else max(block.depth, depth))
        for block in blocks
    ]


def _unexplained(table: Table) -> Table:
    """The table of a further dataset: what its columns mean was said under the first."""
    return replace(table, columns=[replace(c, note="", tip=c.note or c.tip) for c in table.columns])


def pairs_table(tests: PairTests, key: str, caption: str) -> Table:
    """One row a pair and measure, separated ones first."""
    rows = tests.ordered.head(ALL_ROWS)
    tested = rows["pvalue"].notna()
    apart = rows["separated"].map({True: "yes", False: "no"}).where(tested, "not tested")
    doubtful = tested & (rows["doubt"] != "")
    apart += doubtful.map({True: f" {NOT_TRUSTED}", False: ""})
    note = f"{NOT_TRUSTED}: see the doubts." if doubtful.any() else ""
    decides, *others = _KINDS[tests.unit].columns(tests, rows)
    columns = [
        *doc.pair(rows),
        *([] if tests.unit == "folds" else [Column("measure", [*rows["measure"]], "<")]),
        *_differences(rows, tests.alpha),
        decides,
        Column("separated", apart.tolist(), "<", note=note),
        *_counts(rows),
        *others,
    ]
    total = len(tests.table)
    return Table(columns, total, caption=caption, key=key, things="pairs", depth=ALWAYS, most=ROWS)


def _differences(rows: pd.DataFrame, alpha: float) -> list[Column]:
    """The difference of each row with its interval, where there is any."""
    if rows["difference"].isna().all():
        return []
    level = f"an interval at {percent(1 - alpha)} that holds together with all others"
    note = f"Mean difference: positive where the first is better, with {level}."
    values = rows[["difference", "low", "high"]]
    return [doc.intervals("mean difference", values, keep=4, note=note)]


def _counts(rows: pd.DataFrame) -> list[Column]:
    """Units won, tied and lost, where they are counted."""
    if rows["wins"].isna().all():
        return []
    counts = rows[["wins", "ties", "losses"]].to_numpy(float)
    cells = ["/".join("" if x != x else f"{x:,.0f}" for x in row) for row in counts]
    return [Column("won/tied/lost", cells, keep=3)]


# --------------------------------------------------------------------------------------------------
# What is special to folds: several measures tested together, and a picture of the folds.


def _fold_means(comparison: FoldComparison, i: int, dataset: str) -> list[Any]:
    """The means of the methods, over the table of pairs."""
    shared = comparison.n_shared_folds == comparison.n_folds
    far = "" if shared else ", as far as a method has them,"
    caption = f"Means over {count(comparison.n_folds, 'fold')}{far} of {name(dataset)}"
    return [means_table(comparison, caption=caption, key=f"fold-means-{i}", depth=ALWAYS)]


def fold_sentences(comparison: FoldComparison) -> list[str]:
    """What the folds of one dataset say beside the verdict, a sentence each: what was tested
    and what was refused.
    """
    refused = {"naive": "The uncorrected test was", "pairs": "Pairs were"}
    refusals = [
        f"{refused[key]} refused: {reason.rstrip('.')}."
        for key, reason in comparison.refusals.items()
        if key in refused
    ]
    return [_tested(comparison), *refusals]


def _tested(comparison: FoldComparison) -> str:
    """What was tested, and what could not be."""
    each = f", each pair on the {comparison.folds_of_a_pair} that both have,"
    text = (
        f"Tested{'' if comparison.n_shared_folds == comparison.n_folds else each} on "
        f"{listed(comparison.measures, most=8)} (Holm's correction"
        f"{_over(comparison)}, α = {level(comparison.alpha)})"
    )
    for why, n in comparison.untested.items():
        text += "" if why == UNPAIRED else f"; {count(n, 'pair')} could not be tested: {why}"
    if comparison.n_lost:
        gone = listed(dict.fromkeys(e.name for e in comparison.excluded if e.kind == "method"))
        text += (
            f"; {count(comparison.n_lost, 'further pair')} of {gone} could not be tested for want "
            "of folds in common"
        )
    return f"{text}."


def _over(comparison: FoldComparison) -> str:
    """What the correction counts, where that is more than the pairs of this dataset."""
    return (
        f" over the pairs of {all_of(comparison.n_datasets)} datasets"
        if comparison.n_datasets > 1
        else ""
    )


def _heads(comparison: FoldComparison) -> list[str]:
    return [f"{m} {ARROWS[o.direction]}" for m, o in comparison.orderings.items()]


def means_table(comparison: FoldComparison, **options: Any) -> Table:
    """Means over folds with their intervals and the groups, best mean rank first."""
    shown = comparison.order[:METHODS]
    shared = "" if comparison.protocol.ratio is None else ", widened for shared training data"
    note = f"Means with {confidence(comparison.alpha)} intervals, each alone{shared}."
    columns = [doc.names("method", shown, note=note)]
    if comparison.n_shared_folds < comparison.n_folds:
        own = comparison.values.groupby(level=0).size()
        note = "Folds: how many the method has; its means are over them."
        columns.append(Column("folds", [str(own[m]) for m in shown], note=note))
    for i, (measure, head) in enumerate(zip(comparison.measures, _heads(comparison), strict=True)):
        means = comparison.means.xs(measure, level="measure").loc[shown, ["mean", "low", "high"]]
        cells = with_intervals(within_range(means, measure).to_numpy())
        columns.append(Column(head, cells, keep=len(comparison.measures) - i))
    letters = [comparison.letters[m] for m in shown]
    columns.append(
        doc.names("groups", letters, note="Methods that share a letter are not separated.")
    )
    return Table(columns, len(comparison.methods), things="methods", **options)


def _fold_columns(comparison: FoldComparison, shown: pd.DataFrame) -> list[Column]:
    columns = [doc.pvalues("p (Holm)", shown["pvalue_corrected"], keep=6)]
    if (shown["carried"] != "").any():
        note = "Carried by: what differs on its own, + where the first is better, else −."
        columns.append(Column("carried by", shown["carried"].tolist(), "<", note=note))
    note = "Direction: of the means; the test itself has none."
    columns.append(Column("direction", shown["direction"].tolist(), "<", keep=3, note=note))
    columns.append(
        Column("Λ" if comparison.is_five_by_two else "T²", aligned(shown["statistic"]), keep=1)
    )
    if comparison.n_shared_folds < comparison.n_folds:
        note = "Folds: how many both methods have."
        columns.append(Column("folds", shown["n"].map(str).tolist(), keep=3, note=note))
    return columns


def _scatter(comparison: FoldComparison, i: int, dataset: str) -> list[Figure]:
    """The folds of one of the first datasets on two measures."""
    if len(comparison.measures) < 2 or i > DATASETS:
        return []
    many = len(comparison.methods)
    said = [
        f"Points: folds; large: their means. Ellipses: where {INSIDE:.0%} of folds lie if they are "
        "normal, not how sure the mean is."
    ] * (i == 1)
    if many > DETAILED:
        most = f" (of the best {TOP} of {many})" if many > TOP else ""
        drawn = f"Folds and ellipses of the best {DETAILED} are drawn, of others the mean"
        said.append(f"{drawn}{most}.")
    if len(comparison.measures) > 2:
        said.append(f"Drawn are the first two of {len(comparison.measures)} measures.")
    svg = fold_scatter(
        comparison.values.iloc[:, :2],
        comparison.order,
        _heads(comparison)[:2],
        f"Folds on {dataset}",
    )
    return [Figure(svg, " ".join(said), title="Folds on two measures")]


def _fold_record(comparison: FoldComparison) -> Data:
    """What JSON holds of the folds of one dataset beside what it holds of all tests of pairs."""
    learned = comparison.learned
    return {
        "sentences": fold_sentences(comparison),
        **doc.named(comparison, "cliques", "letters", "directions"),
        "manova": _manova(comparison.manova),
        "naive_manova": _manova(comparison.naive_manova),
        "orderings": {
            m: doc.named(o, "direction", "order", "groups", "letters")
            for m, o in comparison.orderings.items()
        },
        "learned": learned
        and {
            "weights": learned.weights.to_dict(),
            "scaled_weights": learned.scaled_weights.to_dict(),
            "dimensions": learned.dimensions.to_dict(orient="index"),
            "tests": comparison.learned_tests,
            **doc.named(learned, "eigenvalues", "shares"),
        },
    }


def _manova(manova: ManovaResult | None) -> Data | None:
    if manova is None:
        return None
    names = ("statistic", "pvalue", "f_statistic", "df", "design", "warnings")
    return {**doc.named(manova, *names), "table": manova.table.to_dict(orient="index")}


# --------------------------------------------------------------------------------------------------
# What is special to instances, and to repeats.


def _instance_columns(tests: InstanceTests, rows: pd.DataFrame) -> list[Column]:
    over = "pairs and measures" if tests.n_datasets == 1 else "pairs, measures and datasets"
    larger = " or, where larger, the score test" if tests.bounded else ""
    draws = f"{tests.n_resamples:,} draws, seed {tests.seed}"
    note = f"p: by changes of sign ({draws}){larger}, corrected for "
    note += f"the number of {over}."
    return [doc.pvalues("p", rows["pvalue_corrected"], keep=6, note=note)]


def _repeat_columns(tests: RepeatTests, rows: pd.DataFrame) -> list[Column]:
    together = f" on {tests.n_datasets} datasets together" if tests.n_datasets > 1 else ""
    over = count(tests.n_comparisons, "test")
    note = f"p: {tests.test} (Welch 1947), corrected by Holm over {over}"
    repeats = [f"{a}/{b}" for a, b in zip(rows["n_a"], rows["n_b"], strict=True)]
    pvalues = doc.pvalues("p", rows["pvalue_corrected"], keep=5, note=f"{note}{together}.")
    return [pvalues, Column("repeats", repeats, keep=2)]


# --------------------------------------------------------------------------------------------------
# What is special to answers: who leads, on which questions, and what more questions would give.


def _answer_blocks(c: AnswerComparison, key: int, dataset: str) -> list[Any]:
    """What answers tell beside the tests, each part under its title."""
    on = f" on {name(dataset)}" if dataset else ""
    parts = [
        (f"Ranking{on}", _ranking, c.ranking is not None),
        (f"Where they differ most{on}", _differing, len(c.differing)),
        (f"Which scorers agree{on}", _agreement, len(c.agreement)),
        (f"Questions and samples{on}", _sampling, len(c.sampling)),
        (f"What more questions would show{on}", _needed, True),
    ]
    tables = [(title, make(c, key)) for title, make, there in parts if there]
    return [replace(table, title=title or table.title) for title, table in tables]


def _leads(c: AnswerComparison) -> list[str]:
    """Who leads the fused ranking, which is no test."""
    if c.flows is None:
        return []
    first = c.flows.index[c.flows["rank"] == c.flows["rank"].iloc[0]]
    if len(first) > 1:
        return [f"{listed(first)} tie for the first place of the fused ranking."]
    return [f"{name(first[0])} leads the fused ranking of these instances."]


def _ranking(c: AnswerComparison, key: int) -> Table:
    table = present(c.ranking)
    flow = "φ: net flow of PROMETHEE on the means (V-shape, equal weights)."
    ranks = [span(low, high) for low, high in zip(table["low"], table["high"], strict=True)]
    return Table(
        [
            doc.names("method", table.index),
            doc.numbers("rank", table["rank"]),
            doc.decimals("φ", table["phi"], 3, note=flow),
            Column("ranks", ranks, note="Ranks: those that the separated pairs leave."),
        ],
        caption=f"Fused ranking over {len(c.measures)} measures",
        key=f"answer-ranking-{key}",
        first=True,
        depth=ALWAYS,
    )


def _differing(c: AnswerComparison, key: int) -> Table:
    rows = c.differing
    (a, b) = c.compared
    shown = [m for m in c.measures if rows[m].abs().max() > 0][:4]
    outputs = [
        Column(method, [*rows[f"output_{side}"].astype(str)], "wrap")
        for side, method in (("a", a), ("b", b))
        if rows[f"output_{side}"].astype(bool).any()
    ]
    scores = [
        Column(m, [f"{number(x)} | {number(y)}" for x, y in both.itertuples(index=False)])
        for m, both in ((m, rows[[f"{m}:a", f"{m}:b"]]) for m in shown)
    ]
    traces = [
        Column(head, [*map(Link.to, rows[f"link_{side}"], rows[f"address_{side}"])], "<", keep=1)
        for head, side in (("trace", "a"), ("trace of the other", "b"))
    ]
    asked = Column("asked", [*rows["asked"].astype(str)], "wrap")
    return Table(
        [asked, *outputs, *scores, *traces],
        caption=f"The answers on which {name(a)} and {name(b)} differ most",
        key=f"differing-{key}",
        note=f"Scores: {name(a)} | {name(b)}.",
        most=10,
    )


def _agreement(c: AnswerComparison, key: int) -> Table:
    rows = c.agreement.reindex(
        c.agreement["correlation"].abs().sort_values(ascending=False, na_position="last").index
    ).head(ANSWERS_ROWS)
    return Table(
        [
            Column("measure", [*rows["measure_a"]], "<"),
            Column("and", [*rows["measure_b"]], "<"),
            doc.decimals(
                "correlation",
                rows["correlation"],
                2,
                note="Correlation: Pearson's, over the answers of all methods, within each method.",
            ),
            doc.percents(
                "equal",
                rows["equal_share"],
                note="Equal: share of the answers that both pass or both fail.",
            ),
            doc.counts("answers", rows["n"], keep=1),
        ],
        len(c.agreement),
        caption="Agreement of the scorers",
        key=f"agreement-{key}",
        most=8,
    )


def _sampling(c: AnswerComparison, key: int) -> Table:
    rows = c.sampling.head(ANSWERS_ROWS)
    return Table(
        [
            doc.names("method", rows["method"]),
            Column("measure", [*rows["measure"]], "<"),
            doc.counts("questions", rows["questions"], keep=1),
            Column("samples", [number(x, 3) for x in rows["samples"]], keep=1),
            doc.percents(
                "question's",
                rows["question_share"],
                note="Question's: its share of the variance of one answer; the rest is sampling.",
            ),
            doc.alike(
                "error now",
                rows["standard_error"],
                2,
                note="Errors are standard errors of the mean.",
            ),
            doc.alike("twice the questions", rows["with_questions"], 2),
            doc.alike("twice the samples", rows["with_samples"], 2),
        ],
        len(c.sampling),
        caption="Questions and samples as sources of variance",
        key=f"sampling-{key}",
        most=8,
    )


def _needed(c: AnswerComparison, key: int) -> Table:
    rows = c.needed.head(ANSWERS_ROWS)
    unit = f"clusters ({c.cluster})" if c.cluster else "questions"
    return Table(
        [
            *doc.pair(rows),
            Column("measure", [*rows["measure"]], "<"),
            doc.alike("difference", rows["difference"], 3),
            doc.counts("now", rows["n"], keep=1),
            Column(
                "needed",
                ["" if x == float("inf") else f"{int(x):,}" for x in rows["needed"]],
                note=(
                    f"Needed: {unit} until a difference of this size would be found in "
                    f"{percent(POWER)} of such evaluations, at the level corrected for all rows; "
                    "none where no difference is seen."
                ),
            ),
        ],
        len(c.needed),
        caption="Size of an evaluation that would find the difference",
        key=f"needed-{key}",
        most=8,
    )


_KINDS = {
    "folds": _Kind(
        "By fold",
        "folds",
        "fold_pairs",
        "fold",
        _fold_columns,
        fold_sentences,
        _fold_means,
        _scatter,
        _fold_record,
    ),
    "repeats": _Kind(
        "Tests over repeats",
        "repeat_tests",
        "repeat_tests",
        "repeat",
        _repeat_columns,
        lambda tests: [],
    ),
    "instances": _Kind(
        "By instance",
        "instances",
        "instances",
        "instance",
        _instance_columns,
        lambda tests: [],
    ),
    "answers": _Kind(
        "Answer by answer",
        "answers",
        "answers_instances",
        "answers",
        _instance_columns,
        _leads,
        below=_answer_blocks,
        record=lambda c: {
            "ranking": None if c.ranking is None else {"table": c.ranking.reset_index()}
        },
        heading="Who answers better",
    ),
}
