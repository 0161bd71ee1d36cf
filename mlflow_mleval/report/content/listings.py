"""What a selection of runs holds, which measures are known, and what became of one evaluation."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.metric_names import is_bookkeeping
from mlflow_mleval.measures.registry import MEASURES, SETS
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import ALWAYS, Column, Data, Frames, listed, name
from mlflow_mleval.report.content import run
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.text import ARROWS, NONE, number
from mlflow_mleval.sentences import count, grouped, plural, some, span
from mlflow_mleval.study import Factor, Study, Survey

# --------------------------------------------------------------------------------------------------
# What a store holds before anybody has said how to compare it.

#: Rows that a table holds; characters of a value; names of metrics in a row.
OVERVIEW_ROWS, VALUE, OVERVIEW_SHOWN = 200, 24, 6
_FACTOR = ("what", "n", "by", "doubt")  #: what JSON holds of each factor


def survey_document(survey: Survey, provenance: doc.Provenance) -> Document:
    """What was found, and what to do next."""
    held = survey.experiments[survey.experiments["runs"] > 0]
    return Document.of(
        provenance,
        f"{count(int(held['runs'].sum()), 'run')} in {count(len(held), 'experiment')}",
        survey_sections(survey, named=True),
        data=lambda: survey_data(survey),
        frames=lambda: survey_frames(survey),
        main=main(survey),
    )


def survey_sections(survey: Survey, named: bool = False) -> list[doc.Section]:
    """Why there is no comparison yet, what is there, with names if `named`, and what to do next."""
    found: list[doc.Section] = []
    if survey.problem:
        why = doc.Text([survey.problem], depth=ALWAYS)
        found.append(doc.Section("problem", "Why there is no ranking yet", [why]))
    if survey.factors:
        found.append(_section_of_factors(survey.factors, named))
    filled = survey.experiments[survey.experiments["runs"] > 0]
    shown = filled.head(OVERVIEW_ROWS)
    columns = [doc.names("experiment", shown["experiment"]), doc.counts("runs", shown["runs"])]
    counted = ("finished", "failed", "running", "children")
    columns += [doc.counts(key, shown[key], keep=2) for key in counted if shown[key].any()]
    metrics = [_some(names, OVERVIEW_SHOWN) or NONE for names in shown["metrics"]]
    columns.append(Column("metrics", metrics, "wrap"))
    listing = doc.Table(columns, len(filled), things="experiments", depth=ALWAYS)
    tables = [("experiments", "Experiments", listing)]
    if main(survey) == "metrics":
        rules = pd.DataFrame(survey.candidates, columns=["role", "rule", "reason", "chosen"])
        candidates = [
            Column("for", [*rules["role"]], "<"),
            doc.names("rule", rules["rule"]),
            Column("chosen", [*rules["chosen"].map({True: "✓", False: ""})], "^"),
            Column("because", [*rules["reason"]], "wrap"),
        ]
        named_by = doc.Table(candidates, things="candidates", depth=ALWAYS)
        held = survey.variables.head(OVERVIEW_ROWS)
        rows = [*held.itertuples(index=False)]
        examples = [
            _some(row.examples, len(row.examples)) + ", …" * (row.values > len(row.examples))
            for row in rows
        ]
        columns = [
            doc.names("name", (f"{row.kind}:{row.name}" for row in rows)),
            Column("runs", [f"{row.runs} of {survey.n_runs}" for row in rows]),
            doc.counts("values", held["values"]),
            Column("such as", examples, "wrap"),
        ]
        total, things = len(survey.variables), "params and tags"
        variables = doc.Table(columns, total, things=things, depth=ALWAYS)
        tables += [
            ("metrics", "Metrics", _metrics(survey)),
            ("variables", "Params and tags with several values", variables),
            ("candidates", "What may name what", named_by),
        ]
    for key, title, table in tables:
        if table.held:
            found.append(doc.Section(key, title, [table]))
    if survey.notes:
        found.append(doc.Section("about", "Notes", doc.points(survey.notes, depth=ALWAYS)))
    return [*found, next_steps(survey)]


def next_steps(survey: Survey) -> doc.Section:
    """Commands to copy, and what to say where nobody knows it."""
    blocks: list[Any] = []
    if survey.undirected and main(survey) == "metrics" and len(survey.ways) != 1:
        ask = (
            f"Are larger or smaller values of {listed(survey.undirected, 8)} better? Nobody has "
            "said so. Declare each that is to count by --max NAME or --min NAME."
        )
        blocks.append(doc.Text([ask], depth=ALWAYS))
    if survey.ways:  # a shell takes the lines as they are
        lines = [line for way in survey.ways for line in (f"# {way.what}", way.line)]
        blocks.append(doc.Text(["\n".join(lines)], role="pre", depth=ALWAYS))
    else:
        advice = (
            "Choose other runs by -n, --filter or --run-id, or name methods and datasets by "
            "--method-by and --dataset-by."
        )
        if not survey.experiments["runs"].any():
            advice = (
                "Put results into the store by `mleval import results.csv -n NAME`, or set "
                "MLFLOW_TRACKING_URI to a store that has runs. `mleval demo` shows it all on a "
                "published study."
            )
        elif not survey.n_runs:
            advice = (
                "Only finished runs with metrics can be compared. `mlflow server` shows why runs "
                "failed. Run them again, or choose another experiment: `mleval runs` lists them."
            )
        elif "results" in survey.source:
            advice = "A ranking takes results of two methods or more, by a measure they share."
        blocks.append(doc.Text([advice], depth=ALWAYS))
    return doc.Section("next", "Next", blocks, open=True)


def survey_data(survey: Survey) -> Data:
    return {
        "problem": survey.problem or None,
        **{key: table.to_dict("records") for key, table in survey_frames(survey).items()},
        "factors": [doc.named(factor, *_FACTOR) for factor in survey.factors],
        "candidates": [doc.named(c, "role", "rule", "reason", "chosen") for c in survey.candidates],
        "commands": [{"what": way.what, "command": way.line} for way in survey.ways],
        **doc.named(survey, "undirected", "notes", "source"),
    }


def survey_frames(survey: Survey) -> Frames:
    """What CSV files hold; None where there is nothing to tell, times as text."""

    def fact(value: Any) -> Any:
        if value is pd.NaT or value == "":
            return None
        return value.isoformat() if isinstance(value, pd.Timestamp) else value

    tables = doc.named(survey, "experiments", "metrics", "variables")
    return {key: table.map(fact) for key, table in tables.items()}


def main(survey: Survey) -> str:
    """The one CSV file: the metrics of a selection; of a whole store, its experiments."""
    whole = not survey.n_runs or any(way.command == "runs" for way in survey.ways)
    return "experiments" if whole else "metrics"


#: What stands where no direction is known.
_MARKS = {
    "?": "?: nobody knows which way is better; an arrow beside it is what the name suggests.",
    NONE: f"{NONE}: measures no prediction.",
}


def _metrics(survey: Survey) -> doc.Table:
    table = survey.metrics.head(OVERVIEW_ROWS)
    arrows = []
    for row in table.itertuples(index=False):
        suggested = NONE if is_bookkeeping(row.metric) else f"{ARROWS.get(row.proposed, '')}?"
        arrows.append(ARROWS.get(row.direction, suggested))
    notes = [text for mark, text in _MARKS.items() if any(a.endswith(mark) for a in arrows)]
    columns = [
        doc.names("metric", table["metric"]),
        Column("runs", [f"{n} of {survey.n_runs}" for n in table["runs"]]),
        doc.numbers("from", table["low"]),
        doc.numbers("to", table["high"]),
        Column("better", arrows, "^", note=" ".join(notes)),
    ]
    return doc.Table(columns, len(survey.metrics), things="metrics", depth=ALWAYS)


def _some(texts: Sequence[str], most: int) -> str:
    """The first few, marked as names; a sign says that there are more."""
    return ", ".join(name(text, VALUE) for text in texts[:most]) + ", …" * (len(texts) > most)


# --------------------------------------------------------------------------------------------------
# What a study holds: counts, its gaps, what was left out, and one row a run.

SHOWN = 10  #: excluded runs that are named; more are counted
ROWS = 500  #: runs in the table; more are left to the data
_NAMES_SHOWN = 40  #: names of methods, of datasets and of measures that are told


def document(study: Study, provenance: doc.Provenance) -> Document:
    gaps, total = study.gaps(), len(study.datasets) * len(study.methods)
    why = f"; the others: {text}" if (text := study.why_empty(gaps)) else ""
    named = doc.named(study, "methods", "datasets", "measures")
    folds = "none"
    if study.folds is not None and len(study.folds):
        per_run = study.folds.groupby(level=[0, 1], sort=False).size()
        each = span(per_run.min(), per_run.max())
        folds = f"{each} per run, in {len(per_run)} of {len(study.runs)} runs"
    facts = [
        *((what, f"{len(names)}: {_some(names, _NAMES_SHOWN)}") for what, names in named.items()),
        ("folds", folds),
        ("conventions", doc.conventions(study.runs)),
        ("results", f"{total - len(gaps)} of {total} cells{why}"),
    ]
    kinds = {"unasked": "measure"}
    left = grouped(((kinds.get(e.kind, e.kind), e.reason), e.name) for e in study.excluded)
    left_out = [
        f"{kind if len(names) == 1 else plural(kind)} {listed(names, SHOWN)}: {why}"
        for (kind, why), names in left.items()
    ]
    sections = [
        doc.Section("study", "Study", [doc.Terms(facts, depth=ALWAYS)]),
        doc.Section("results", "Results by dataset", [_grid(study)] if gaps else []),
        doc.Section("left-out", "Left out", doc.points(left_out, depth=ALWAYS)),
        doc.Section("notes", "Notes", doc.points(study.notes, depth=ALWAYS)),
        doc.Section("runs", "Runs", [_rows(study.runs)] if len(study.runs) else []),
    ]
    return Document.of(
        provenance,
        f"{count(len(study.methods), 'method')} on {count(len(study.datasets), 'dataset')}",
        [section for section in sections if section.blocks],
        data=lambda: data(study),
        frames=lambda: {"runs": _as_text(study.runs)},
        main="runs",
    )


def found_document(study: Study | None, survey: Survey) -> Document:
    """The study that a selection yields, if any, what others logged, and what to do next."""
    if study is None:
        return survey_document(survey, {})
    made, about = document(study, {}), survey_data(survey)
    more = [_section_of_factors(study.factors), next_steps(survey)]
    tables: Frames = {}
    known: Data = {"commands": about["commands"]}
    if survey.foreign:
        more, tables, known = survey_sections(survey), survey_frames(survey), about
    factors = [doc.named(factor, *_FACTOR) for factor in study.factors]
    told = {"factors": factors, **doc.named(study, "notes", "source")}
    return replace(
        made,
        sections=[*made.sections, *more],
        frames=lambda: {**made.frames(), **tables},
        data=lambda: {**data(study), **known, **told},
    )


def data(study: Study) -> Data:
    runs = study.runs.astype(object).where(study.runs.notna(), None)
    folds = None if study.folds is None else int(study.folds.groupby(level=[0, 1]).size().max())
    return {
        **doc.named(study, "methods", "datasets", "excluded", "notes", "source"),
        "measures": [{"name": m, "direction": study.directions[m]} for m in study.measures],
        "gaps": [{"dataset": d, "method": m} for d, m in study.gaps()],
        "folds": folds,
        "runs": json.loads(runs.to_json(orient="records", date_format="iso")),
    }


def _section_of_factors(factors: Sequence[Factor], named: bool = False) -> doc.Section:
    """What tells methods, datasets and repeats apart, a line each; maybe with their names."""
    lines = []
    for f in factors:
        names = f" ({_some(f.names, OVERVIEW_SHOWN)})" if named and f.names else ""
        lines.append((f.what, f"{f.n}{names}, by {f.by}{'. ' if f.doubt else ''}{f.doubt}"))
    return doc.Section("factors", "What tells them apart", [doc.Terms(lines, depth=ALWAYS)])


def _grid(study: Study) -> doc.Table:
    """Which cells have no result."""
    gaps, methods = {*study.gaps()}, study.methods
    lost = [[m for m in methods if (d, m) in gaps] for d in study.datasets]
    there = [f"{len(methods) - len(missing)} of {len(methods)}" for missing in lost]
    columns = [
        doc.names("dataset", study.datasets),
        Column("there", there),
        Column("missing", [some(missing) for missing in lost], "wrap"),
    ]
    return doc.Table(columns, things="datasets", depth=ALWAYS, most=len(lost))


def _as_text(runs: pd.DataFrame) -> pd.DataFrame:
    """Rows as readers see them."""
    texts = runs.astype(object).fillna("")
    return texts.map(lambda v: " ".join(map(str, v)) if isinstance(v, tuple) else str(v))


def _rows(runs: pd.DataFrame) -> doc.Table:
    """One row a run, which keeps method and dataset longest where room lacks."""
    columns, shown = [], _as_text(runs.head(ROWS))
    for i, c in enumerate(runs):
        how: Any = {"keep": len(runs.columns) - i}
        if c in ("dataset", "method"):
            how = {"name": c}
        columns.append(Column(c, [*shown[c]], "<", **how))
    return doc.Table(columns, len(runs), things="runs")


def measures_document() -> Document:
    """The registry, a table a family, and the named sets."""
    frame = pd.DataFrame(
        {
            "name": m.name,
            "better": m.direction,
            "range": f"{number(m.range[0])} to {number(m.range[1])}",
            "low": m.range[0],
            "high": m.range[1],
            "family": m.family,
            "source": m.source,
            "definition": m.summary,
            "kinds": ", ".join(m.kinds),
            "convention": m.convention,
        }
        for m in MEASURES.values()
    )
    tables = []
    for (family, source), rows in frame.groupby(["family", "source"], sort=False):
        heads = {"name": "measure", "better": "better", "range": "range"}
        columns = [Column(head, [*rows[key]], "<") for key, head in heads.items()]
        columns.append(Column("what it is", [*rows["definition"]], "wrap"))
        title = f"{family} ({source})"
        tables.append(doc.Table(columns, title=title, depth=ALWAYS, most=len(rows)))
    sets = doc.Terms([(key, ", ".join(members)) for key, members in SETS.items()], depth=ALWAYS)
    more = (
        "Where a name holds a number, others are known, too: precision_at_10, level_3_f1, ece_20. "
        "Any other metric works once its direction is declared: --min NAME or --max NAME."
    )
    first = doc.Text(["Known measures, which way is better, and their range:"], depth=ALWAYS)
    title = "Named sets for --measure and --exclude-measure"
    record = frame.drop(columns="range").rename(columns={"better": "direction"})
    return Document(
        "Measures",
        [
            doc.Section("measures", "Measures", [first, *tables]),
            doc.Section("sets", title, [sets, doc.Text([more], depth=ALWAYS)]),
        ],
        data=lambda: {"measures": record, "sets": SETS},
        frames=lambda: {"measures": frame.drop(columns=["low", "high"])},
        main="measures",
    )


def evaluations_document(
    made: Sequence[tuple[Evaluation, Mapping[str, str], Sequence[str]]],
) -> Document:
    """Several Evaluations in short, each with what it is about and its notes."""
    documents = [evaluation_document(*each) for each in made]
    if len(documents) == 1:
        return documents[0]
    tables = {
        about["method"]: one.frames()["measures"]
        for one, (_, about, _) in zip(documents, made, strict=True)
    }
    return Document(
        count(len(made), "evaluation"),
        [section for one in documents for section in one.sections],
        data=lambda: {"evaluations": [one.data() for one in documents]},
        frames=lambda: {"measures": pd.concat(tables, names=["method"]).reset_index(0)},
        main="measures",
    )


def evaluation_document(
    ev: Evaluation, about: Mapping[str, str], notes: Sequence[str] = ()
) -> Document:
    """One Evaluation in short; `about` says what was evaluated: method, dataset, run_id."""
    report = run.RunReport.of(ev, about["method"], about["dataset"])
    facts = [*((key, name(text)) for key, text in about.items()), ("size", ", ".join(report.size))]
    first = doc.Section("evaluation", "Evaluation", [doc.Terms(facts, depth=ALWAYS)])
    sections = [first, run.measures(report)]
    if remarks := [*report.doubts(), *notes]:
        sections.append(doc.Section("notes", "Notes", doc.points(remarks, depth=ALWAYS)))
    return Document(
        report.title,
        sections,
        data=lambda: {**about, **run.data(report), "warnings": [*ev.warnings, *notes]},
        frames=lambda: run.frames(report),
        main="measures",
    )
