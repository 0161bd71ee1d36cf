"""Methods and provenance: every choice, what was computed and after whom, and what reproduces it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report.blocks import Column, Columns, Section, Table, Terms, Text, name, names
from mlflow_mleval.report.escape import number
from mlflow_mleval.report.references import bibliography, methods_used
from mlflow_mleval.report.sections.base import Report, arrow
from mlflow_mleval.report.words import CORRECTIONS, PREFERENCES, level

_POLICIES = {
    "error": "none are missing",
    "worst": "a method without a result on a dataset gets the worst value that any method reached there",
    "drop-datasets": "only datasets on which every method has a result",
    "drop-methods": "only methods that have a result on every dataset",
}
_RANK_TIES = {"correct": "corrected for ties", "ignore": "without correction for ties, as in the papers"}


def section(report: Report) -> Section:
    """Choices, definitions, sources, what each sentence rests on, and how to make the report again."""
    c = report.comparison
    run_ids = list(report.provenance.get("run_ids") or [])
    command = report.provenance.get("command")
    again = [Text([command], role="pre", title="To make this report again")] if command else []
    made_from = _made_from(report.provenance, run_ids)
    blocks: list[Any] = [
        Columns([Terms(_choices(c), title="Choices")], [*again, *([Terms(made_from, title="Made from")] if made_from else [])]),
        _rests_on(report),
        _definitions(c),
        _measures(c),
        Text(["\n\n".join(r.bibtex for r in bibliography(c))], role="pre", title="Sources as BibTeX", folded=True),
    ]
    if run_ids:
        blocks.append(Text(["\n".join(run_ids)], role="pre", title=f"Run ids ({len(run_ids)})", folded=True))
    return Section("provenance", "Methods and provenance", blocks, hint="every choice, its source, and what reproduces it")


def _choices(c: Comparison) -> list[tuple[str, Any]]:
    o = c.options
    tested = "net flows φ and their ranks" if c.on == FUSED else name(c.on)
    rows = [
        ("compared", tested),
        ("preference function", _given(o["preference"], PREFERENCES)),
        ("thresholds", _thresholds(o)),
        ("weights", _given(o["weights"], {}) + (" (measures that do not differ weigh nothing)" if o["drop_constant"] else "")),
        ("missing results", f"{_POLICIES[o['missing']]} (policy {o['missing']})"),
        ("significance level", f"α = {level(o['alpha'])}"),
        ("deciding test", c.decision),
        ("correction", CORRECTIONS[o["correction"]]),
        ("ties of ranks", _RANK_TIES[o["ties"]]),
        ("control", name(o["control"]) if o["control"] is not None else "none: all pairs"),
        ("redundant above", f"{o['threshold']:g} (absolute correlation)"),
        ("random weights", f"{o['n_draws']:,} draws, seed {o['seed']}" if c.stability is not None else "not examined"),
    ]
    return rows


def _given(choice: Any, words: Mapping[str, str]) -> Any:
    """A choice by name, or per measure."""
    if isinstance(choice, str):
        return words.get(choice, choice)
    if isinstance(choice, Mapping):
        return names([f"{m} {words.get(x, x) if isinstance(x, str) else number(x)}" for m, x in choice.items()], 40)
    return str(choice)


def _thresholds(options: Mapping[str, Any]) -> Any:
    given = [Markup("{} = {}").format(key, _given(options[key], {})) for key in "pqs" if options[key] is not None]
    return Markup("; ").join(given) if given else "from the largest difference of each measure on each dataset"


def _made_from(provenance: Mapping[str, Any], run_ids: list[str]) -> list[tuple[str, Any]]:
    """What the CLI says of the way here, in its order; lists as text."""
    rows = []
    for key, value in provenance.items():
        if key in ("command", "run_ids") or value in (None, "", [], (), {}):
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{k} {v}" for k, v in value.items())
        elif isinstance(value, (list, tuple)):
            value = names(value, 40)
        rows.append((key.replace("_", " "), value))
    return [*rows, ("runs", number(len(run_ids)))] if run_ids else rows


def _rests_on(report: Report) -> Table:
    code = Markup("<code>{}</code>").format
    rows = [[report.prose(s.text), Markup(", ").join(map(code, s.rests_on))] for s in report.verdict]
    columns = [Column("sentence of the verdict", "wrap"), Column("keys in the JSON report", "wrap")]
    return Table(columns, rows, title="What the verdict rests on")


def _definitions(c: Comparison) -> Table:
    rows = [[text, line + ".", "; ".join(s.cite for s in sources)] for text, line, sources in methods_used(c)]
    columns = [Column("method", "left"), Column("what it does", "wrap"), Column("after", "wrap")]
    return Table(columns, rows, title="What was computed")


def _measures(c: Comparison) -> Table:
    rows = []
    for measure in c.study.measures:
        known = MEASURES.get(measure)
        what = known.summary if known else "not known here; its direction was declared by the user"
        rows.append([name(measure), arrow(c, measure), what, known.source if known else ""])
    columns = [Column("measure", "left"), Column("better", "centre"), Column("what it is", "wrap"), Column("after", "wrap")]
    return Table(columns, rows, title="What the measures are", folded=True)
