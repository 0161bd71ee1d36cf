"""Methods and provenance: every choice, what was computed and after whom, and what reproduces
it.
"""

from collections.abc import Mapping
from typing import Any

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.paired import CORRECTIONS
from mlflow_mleval.naming import count
from mlflow_mleval.report import document as doc
from mlflow_mleval.report.content.best_methods import told
from mlflow_mleval.report.content.definitions import definitions
from mlflow_mleval.report.content.verdict import PREFERENCES, verdict
from mlflow_mleval.report.document import (
    ALWAYS,
    PAGE,
    Beside,
    Column,
    Section,
    Sentence,
    Table,
    Terms,
    Text,
    listed,
    name,
)
from mlflow_mleval.report.glossary import glossary
from mlflow_mleval.report.numerals import level, number
from mlflow_mleval.report.references import bibliography, methods_used

#: Run ids on a page.
RUNS = 2000


def section(
    c: Comparison, provenance: Mapping[str, Any], said: list[Sentence] | None = None
) -> Section:
    """Choices, definitions, sources, what each sentence of the verdict rests on, and how to make
    the report again.
    """
    run_ids, command = list(provenance.get("run_ids") or []), provenance.get("command")
    again = (
        [Text([command], role="pre", title="To make this report again", depth=PAGE)]
        if command
        else []
    )
    facts = _facts(provenance, run_ids)
    bibtex = "\n\n".join(r.bibtex for r in bibliography(c))
    shown = f", the first {RUNS:,}; report.json holds all" if len(run_ids) > RUNS else ""
    ids = Text(
        ["\n".join(run_ids[:RUNS])],
        role="pre",
        title=f"Run ids ({len(run_ids)}{shown})",
        folded=True,
        depth=PAGE,
    )
    said = verdict(c) if said is None else said
    rests = [
        Column("sentence of the verdict", [s.text for s in said], "wrap"),
        Column("keys in the JSON report", [", ".join(s.rests_on) for s in said], "wrap"),
    ]
    blocks: list[Any] = [
        *made_from(provenance).blocks,
        *told(c),
        Beside(
            [Terms(_choices(c), title="Choices")],
            [*again, *([Terms(facts, title="Made from")] if facts else [])],
        ),
        Table(rests, title="What the verdict rests on", depth=PAGE),
        _used(c),
        definitions({m: c.study.directions[m] for m in c.study.measures}),
        Text([bibtex], role="pre", title="Sources as BibTeX", folded=True, depth=PAGE),
        *([ids] if run_ids else []),
    ]
    return Section(
        "provenance",
        "Methods and provenance",
        blocks,
        hint="every choice, its source, and what reproduces it",
    )


def made_from(provenance: Mapping[str, Any]) -> Section:
    """What reproduces a document, in a line."""
    runs, experiments, uri = (
        provenance.get(key) for key in ("run_ids", "experiments", "tracking_uri")
    )
    selected = (
        f"{count(len(runs), 'run')}{f' of {listed(experiments)}' if experiments else ''}"
        if runs
        else ""
    )
    version = (provenance.get("versions") or {}).get("mlflow-mleval")
    parts = [
        " ".join(filter(None, [selected, f"in {uri}" if uri else ""])),
        *(
            f"{key} {provenance[key]}"
            for key in ("filter", "policy", "seed")
            if provenance.get(key) not in (None, "")
        ),
        f"mlflow-mleval {version}" if version else "",
        str(provenance.get("time") or ""),
        f"command: {provenance['command']}" if provenance.get("command") else "",
    ]
    line = "; ".join(filter(None, parts))
    return Section("provenance", "Made from", [doc.note(line, ALWAYS)] if line else [])


def when(provenance: Mapping[str, Any]) -> str:
    """When it was made, to the second; nothing if unknown."""
    return str(provenance.get("time") or "").replace("T", " ", 1).replace("+00:00", " UTC")


def data(c: Comparison) -> dict[str, Any]:
    """What JSON holds, but for the provenance."""
    filled = [{"dataset": dataset, "method": method} for dataset, method in c.study.filled]
    values = c.study.values.rename_axis(["dataset", "method"]).reset_index()
    known = doc.named(c.study, "methods", "datasets", "measures", "missing", "runs")
    return {"study": {**known, "filled": filled, "values": values}, "options": c.options}


def _choices(c: Comparison) -> list[tuple[str, str]]:
    o = c.options
    chosen = c.study.source.get("measures_by")
    return [
        *([("measures", f"{len(c.study.measures)}: {chosen}")] if chosen else []),
        ("compared", "net flows φ and their ranks" if c.on == FUSED else name(c.on)),
        ("preference function", _given(o["preference"], PREFERENCES)),
        (
            "thresholds",
            "; ".join(f"{key} = {_given(o[key], {})}" for key in "pqs" if o[key] is not None)
            or "from the largest difference of each measure on each dataset",
        ),
        (
            "weights",
            _given(o["weights"], {})
            + (" (measures that do not differ weigh nothing)" if o["drop_constant"] else ""),
        ),
        ("missing results", f"{glossary('policies')[o['missing']]} (policy {o['missing']})"),
        ("significance level", f"α = {level(o['alpha'])}"),
        ("deciding test", c.decision),
        ("correction of signed ranks", CORRECTIONS[o["correction"]]),
        ("ties of ranks", glossary("ties")[o["ties"]]),
        ("control", name(o["control"]) if o["control"] is not None else "none: all pairs"),
        ("redundant above", f"{o['threshold']:g} (absolute correlation)"),
        (
            "random weights",
            f"{o['n_draws']:,} draws, seed {o['seed']}"
            if c.stability is not None
            else "not examined",
        ),
    ]


def _given(choice: Any, words: Mapping[str, str]) -> str:
    """A choice by name, or per measure."""
    if isinstance(choice, Mapping):
        return listed(
            [
                f"{m} {words.get(x, x) if isinstance(x, str) else number(x)}"
                for m, x in choice.items()
            ],
            40,
        )
    return words.get(choice, str(choice)) if isinstance(choice, str) else str(choice)


def _facts(provenance: Mapping[str, Any], run_ids: list[str]) -> list[tuple[str, str]]:
    """What is known of the way here, in its order; lists as text."""
    rows = []
    for key, value in provenance.items():
        if key in ("command", "run_ids", "measures_by") or value in (None, "", [], (), {}):
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{k} {v}" for k, v in value.items())
        elif isinstance(value, (list, tuple)):
            value = listed(value, 40)
        rows.append((key.replace("_", " "), str(value)))
    return [*rows, ("runs", number(len(run_ids)))] if run_ids else rows


def _used(c: Comparison) -> Table:
    methods, lines, sources = zip(*methods_used(c), strict=True)
    columns = [
        Column("method", methods, "<"),
        Column("what it does", [f"{line}." for line in lines], "wrap"),
        Column("after", ["; ".join(source.cite for source in cited) for cited in sources], "wrap"),
    ]
    return Table(columns, title="What was computed", depth=PAGE)
