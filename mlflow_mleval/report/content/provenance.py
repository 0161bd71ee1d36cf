"""Methods and provenance: every choice, what was computed and after whom, and what reproduces it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.naming import count
from mlflow_mleval.report.content.ranking import ARROWS
from mlflow_mleval.report.content.verdict import CORRECTIONS, PREFERENCES, verdict
from mlflow_mleval.report.document import ALWAYS, PAGE, Beside, Column, Section, Sentence, Table, Terms, Text, listed, name
from mlflow_mleval.report.numerals import level, number
from mlflow_mleval.report.references import bibliography, methods_used

_POLICIES = {
    "error": "none are missing",
    "worst": "a method without a result on a dataset gets the worst value that any method reached there",
    "drop-datasets": "only datasets on which every method has a result",
    "drop-methods": "only methods that have a result on every dataset",
}
_RANK_TIES = {"correct": "corrected for ties", "ignore": "without correction for ties, as in the papers"}

KEYS = {
    "study": "{methods, datasets, measures, missing, filled, runs, values}: what was compared, filled gaps included",
    "options": "every choice that was made",
    "provenance": "what reproduces it: command, versions, store, selection, run ids, policy, seed, time",
}


def section(c: Comparison, provenance: Mapping[str, Any], said: list[Sentence] | None = None) -> Section:
    """Choices, definitions, sources, what each sentence of the verdict rests on, and how to make the report again."""
    run_ids, command = list(provenance.get("run_ids") or []), provenance.get("command")
    again = [Text([command], role="pre", title="To make this report again", depth=PAGE)] if command else []
    facts = _facts(provenance, run_ids)
    bibtex = "\n\n".join(r.bibtex for r in bibliography(c))
    blocks: list[Any] = [
        *made_from(provenance).blocks,
        Beside([Terms(_choices(c), title="Choices")], [*again, *([Terms(facts, title="Made from")] if facts else [])]),
        _rests_on(verdict(c) if said is None else said),
        _definitions(c),
        _measures(c),
        Text([bibtex], role="pre", title="Sources as BibTeX", folded=True, depth=PAGE),
    ]
    if run_ids:
        ids = Text(["\n".join(run_ids)], role="pre", title=f"Run ids ({len(run_ids)})", folded=True, depth=PAGE)
        blocks.append(ids)
    return Section("provenance", "Methods and provenance", blocks, hint="every choice, its source, and what reproduces it")


def made_from(provenance: Mapping[str, Any]) -> Section:
    """What reproduces a document, in a line."""
    line = origin(provenance)
    return Section("provenance", "Made from", [Text([line], role="note", depth=ALWAYS)] if line else [])


def origin(provenance: Mapping[str, Any]) -> str:
    """What reproduces it; the JSON and HTML reports list the runs too."""
    runs, experiments = provenance.get("run_ids"), provenance.get("experiments")
    parts = [
        f"{count(len(runs), 'run')}{f' of {listed(experiments)}' if experiments else ''}" if runs else "",
        f"in {provenance['tracking_uri']}" if provenance.get("tracking_uri") else "",
    ]
    rest = [f"{key} {provenance[key]}" for key in ("filter", "policy", "seed") if provenance.get(key) not in (None, "")]
    version = (provenance.get("versions") or {}).get("mlflow-mleval")
    rest += [f"mlflow-mleval {version}"] if version else []
    rest += [str(provenance["time"])] if provenance.get("time") else []
    rest += [f"command: {provenance['command']}"] if provenance.get("command") else []
    return "; ".join(filter(None, [" ".join(filter(None, parts)), *rest]))


def when(provenance: Mapping[str, Any]) -> str:
    """When it was made, to the second; nothing if unknown."""
    return str(provenance.get("time") or "").replace("T", " ", 1).replace("+00:00", " UTC")


def data(c: Comparison) -> dict[str, Any]:
    """What JSON holds, but for the provenance."""
    study = c.study
    filled = [{"dataset": dataset, "method": method} for dataset, method in study.filled]
    names = ("methods", "datasets", "measures", "missing", "runs")
    values = study.values.rename_axis(["dataset", "method"]).reset_index()
    return {"study": {**{key: getattr(study, key) for key in names}, "filled": filled, "values": values}, "options": c.options}


def _choices(c: Comparison) -> list[tuple[str, str]]:
    o = c.options
    return [
        ("compared", "net flows φ and their ranks" if c.on == FUSED else name(c.on)),
        ("preference function", _given(o["preference"], PREFERENCES)),
        ("thresholds", "; ".join(f"{key} = {_given(o[key], {})}" for key in "pqs" if o[key] is not None)
         or "from the largest difference of each measure on each dataset"),
        ("weights", _given(o["weights"], {}) + (" (measures that do not differ weigh nothing)" if o["drop_constant"] else "")),
        ("missing results", f"{_POLICIES[o['missing']]} (policy {o['missing']})"),
        ("significance level", f"α = {level(o['alpha'])}"),
        ("deciding test", c.decision),
        ("correction", CORRECTIONS[o["correction"]]),
        ("ties of ranks", _RANK_TIES[o["ties"]]),
        ("control", name(o["control"]) if o["control"] is not None else "none: all pairs"),
        ("redundant above", f"{o['threshold']:g} (absolute correlation)"),
        ("random weights", f"{o['n_draws']:,} draws, seed {o['seed']}" if c.stability is not None else "not examined"),
    ]  # fmt: skip


def _given(choice: Any, words: Mapping[str, str]) -> str:
    """A choice by name, or per measure."""
    if isinstance(choice, Mapping):
        return listed([f"{m} {words.get(x, x) if isinstance(x, str) else number(x)}" for m, x in choice.items()], 40)
    return words.get(choice, str(choice)) if isinstance(choice, str) else str(choice)


def _facts(provenance: Mapping[str, Any], run_ids: list[str]) -> list[tuple[str, str]]:
    """What is known of the way here, in its order; lists as text."""
    rows = []
    for key, value in provenance.items():
        if key in ("command", "run_ids") or value in (None, "", [], (), {}):
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{k} {v}" for k, v in value.items())
        elif isinstance(value, (list, tuple)):
            value = listed(value, 40)
        rows.append((key.replace("_", " "), str(value)))
    return [*rows, ("runs", number(len(run_ids)))] if run_ids else rows


def _rests_on(said: list[Sentence]) -> Table:
    columns = [Column("sentence of the verdict", [s.text for s in said], "wrap"),
               Column("keys in the JSON report", [", ".join(s.rests_on) for s in said], "wrap")]  # fmt: skip
    return Table(columns, title="What the verdict rests on", depth=PAGE)


def _definitions(c: Comparison) -> Table:
    used = list(methods_used(c))
    columns = [
        Column("method", [method for method, _, _ in used], "<"),
        Column("what it does", [f"{line}." for _, line, _ in used], "wrap"),
        Column("after", ["; ".join(s.cite for s in sources) for _, _, sources in used], "wrap"),
    ]
    return Table(columns, title="What was computed", depth=PAGE)


def _measures(c: Comparison) -> Table:
    known = [MEASURES.get(m) for m in c.study.measures]
    unknown = "not known here; its direction was declared by the user"
    columns = [
        Column("measure", c.study.measures, "<", name=True),
        Column("better", [ARROWS[c.study.directions[m]] for m in c.study.measures], "^"),
        Column("what it is", [m.summary if m else unknown for m in known], "wrap"),
        Column("after", [m.source if m else "" for m in known], "wrap"),
    ]
    return Table(columns, title="What the measures are", folded=True, depth=PAGE)
