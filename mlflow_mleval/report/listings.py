"""What a selection of runs holds, and which measures are known: listings for the terminal and for programs."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import pandas as pd

from mlflow_mleval.analysis.folds.summary import fold_statistics
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.registry import MEASURES, SETS
from mlflow_mleval.naming import count
from mlflow_mleval.report.data import plain, to_json
from mlflow_mleval.report.escape import columns, csv_cell, html, latex, markdown, number, pad, shorten, terminal, wrap
from mlflow_mleval.study import Study

#: More excluded runs than this are counted, not named, on a terminal.
SHOWN = 10


def render_runs(study: Study, format: str, width: int = 100) -> str:
    """What a study holds. Table: counts, the grid of results, and what was left out; other formats: one row a run."""
    if format == "json":
        return to_json(_as_dict(study))
    if format != "table":
        rows = study.runs.fillna("").map(lambda v: " ".join(map(str, v)) if isinstance(v, tuple) else str(v))
        return listing(list(rows.columns), rows.to_numpy().tolist(), format, width)
    gaps = study.gaps()
    total = len(study.datasets) * len(study.methods)
    head = [
        ("methods", f"{len(study.methods)}: {', '.join(study.methods)}"),
        ("datasets", f"{len(study.datasets)}: {', '.join(study.datasets)}"),
        ("measures", f"{len(study.measures)}: {', '.join(study.measures)}"),
        ("folds", _folds(study)),
        ("conventions", _counted(study.runs.get("conventions", pd.Series(dtype=str)))),
        ("results", f"{total - len(gaps)} of {total} cells"),
    ]
    lines = [line for key, value in head for line in wrap(f"{key:<12} ", value, width)]
    if gaps:
        lines += ["", *_grid(study, gaps, width)]
    out = Counter((e.kind, e.reason) for e in study.excluded)
    if out:
        lines += ["", "Left out:"]
        for (kind, reason), count in out.items():
            names = [e.name for e in study.excluded if (e.kind, e.reason) == (kind, reason)][:SHOWN]
            more = f" and {count - SHOWN} more" if count > SHOWN else ""
            lines += wrap(f"  {kind} ", f"{', '.join(names)}{more}: {reason}", width)
    if study.notes:
        lines += ["", "Notes:", *(line for note in study.notes for line in wrap("  ", note, width))]
    return "\n".join(lines)


def render_measures(format: str, width: int = 100) -> str:
    """The registry: one row a measure; for a terminal and for JSON also the named sets."""
    names = ["name", "better", "range", "family", "source", "definition"]
    rows = [
        [m.name, m.direction, f"{number(m.range[0])} to {number(m.range[1])}", m.family, m.source, m.summary]
        for m in MEASURES.values()
    ]
    if format == "json":
        known = [{"name": m.name, "direction": m.direction, "low": _finite(m.range[0]), "high": _finite(m.range[1]),
                  "family": m.family, "source": m.source, "definition": m.summary} for m in MEASURES.values()]
        return to_json({"measures": known, "sets": SETS})
    if format != "table":
        return listing(names, rows, format, width)
    lines = []
    for (family, source), members in groupby(MEASURES.values(), key=lambda m: (m.family, m.source)):
        lines += ["", f"{family} ({source})"]
        for m in members:
            span = f"{number(m.range[0])} to {number(m.range[1])}"
            lines += wrap(f"  {m.name:<26} {m.direction}  {span:<7}  ", m.summary, width)
    sets = [line for name, members in SETS.items() for line in wrap(f"  {name:<13} ", ", ".join(members), width)]
    return "\n".join([
        "Known measures, which way is better, and their range:", *lines,
        "", "Named sets for --measure and --exclude-measure:", *sets,
        "", "Any other metric works once its direction is declared: --min NAME or --max NAME.",
    ])


def render_evaluation(ev: Evaluation, about: Mapping[str, str], notes: Sequence[str], format: str, width: int = 100) -> str:
    """One Evaluation: its measures; for a terminal and for JSON also what it is about, what is absent, and what to know.

    Parameters
    ----------
    ev : Evaluation
    about : mapping of str to str
        What was evaluated, and where it is: method, dataset, run_id.
    notes : sequence of str
        What to know beside the evaluation's own warnings.
    format : str
    width : int
        Columns of the terminal.
    """
    means = ev.folds.mean(skipna=False).dropna().to_dict() if len(ev.folds) else ev.measures
    notes = [*ev.warnings, *notes]
    if format == "json":
        folds = {str(fold): row.dropna().to_dict() for fold, row in ev.folds.iterrows()}
        return to_json({**about, **ev.statistics, "conventions": ev.conventions, "measures": means, "folds": folds,
                        "absent": ev.absent, "warnings": notes})
    if format != "table":
        rows = [[m, repr(float(v)), MEASURES[m].direction, MEASURES[m].family] for m, v in means.items()]
        return listing(["measure", "value", "better", "family"], rows, format, width)
    size = f"{ev.statistics['n_instances']:,} instances, {ev.statistics['n_labels']:,} labels"
    sure = fold_statistics(ev.folds).table if len(ev.folds) > 1 else pd.DataFrame()
    spans = {m: f"  [{number(row.corrected_low)}, {number(row.corrected_high)}]" for m, row in sure.iterrows()}
    what = "means over folds, with 95% intervals as for one cross-validation" if spans else "means over folds"
    size += f", {count(len(ev.folds), 'fold')} ({what})" if len(ev.folds) else ""
    lines = [line for key, value in {**about, "size": size}.items() for line in wrap(f"{key:<10} ", value, width)]
    for family, names in groupby(means, key=lambda m: MEASURES[m].family):
        lines += ["", family, *(f"  {m:<26} {MEASURES[m].direction}  {number(means[m])}{spans.get(m, '')}" for m in names)]
    if notes:
        lines += ["", "Notes:", *(line for note in notes for line in wrap("- ", note, width))]
    return "\n".join(lines)


def listing(names: Sequence[str], rows: Iterable[Sequence[str]], format: str, width: int = 100) -> str:
    """A plain table of text in one of the formats; cells come from strangers and are escaped."""
    rows = [list(map(str, row)) for row in rows]
    if format == "csv":
        out = io.StringIO()
        csv.writer(out).writerows([[csv_cell(c) for c in row] for row in [list(names), *rows]])
        return out.getvalue()
    if format == "md":
        lines = [list(names), ["---"] * len(names), *([markdown(c) for c in row] for row in rows)]
        return "\n".join("| " + " | ".join(row) + " |" for row in lines)
    if format == "latex":
        body = [" & ".join(latex(c) for c in row) + r" \\" for row in [list(names), *rows]]
        return "\n".join([r"\begin{tabular}{" + "l" * len(names) + "}", r"\toprule", body[0], r"\midrule", *body[1:],
                          r"\bottomrule", r"\end{tabular}"])
    if format == "html":
        cells = ["".join(f"<td>{html(c)}</td>" for c in row) for row in rows]
        header = "".join(f"<th>{html(n)}</th>" for n in names)
        return ("<!doctype html><meta charset=utf-8><table><thead><tr>" + header + "</tr></thead><tbody>"
                + "".join(f"<tr>{row}</tr>" for row in cells) + "</tbody></table>")
    rows = [[terminal(c) for c in row] for row in rows]
    wide = [max(map(columns, column)) for column in zip(names, *rows, strict=True)]
    wide[-1] = max(12, min(wide[-1], width - sum(wide[:-1]) - 2 * (len(wide) - 1)))
    return "\n".join(
        "  ".join(pad(shorten(c, w), w) for c, w in zip(row, wide, strict=True)).rstrip() for row in [list(names), *rows]
    )


def _grid(study: Study, gaps: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Which cells have a result, and why others have none."""
    names = [terminal(d) for d in study.datasets]
    wide = max(map(columns, names), default=0)
    status = study.statuses()
    mark = {cell: {"dnf": "·", "complete": "○"}.get(status.get(cell), "–") for cell in gaps}
    meaning = {"·": "did not finish", "○": "without a value of some measure", "–": "no run" if status else "no result"}
    used = "".join(f", {sign} {text}" for sign, text in meaning.items() if sign in mark.values())
    head = f"Results by dataset (● there{used}):"
    if wide + 2 + len(study.methods) > width:
        have = {d: sum((d, m) not in mark for m in study.methods) for d in study.datasets}
        why = f" ({text})" if (text := study.why_empty(gaps)) else ""
        return [f"Results by dataset{why}:", *(f"  {terminal(d)}: {n} of {len(study.methods)}" for d, n in have.items())]
    marks = ["".join(mark.get((d, m), "●") for m in study.methods) for d in study.datasets]
    lost = [[m for m in study.methods if (d, m) in mark] for d in study.datasets]
    return [head, *(
        shorten(f"  {pad(name, wide)} {row}  {', '.join(map(terminal, missing))}".rstrip(), width)
        for name, row, missing in zip(names, marks, lost, strict=True)
    )]


def _as_dict(study: Study) -> dict:
    runs = study.runs.astype(object).where(study.runs.notna(), None)
    return {
        "methods": study.methods,
        "datasets": study.datasets,
        "measures": [{"name": m, "direction": study.directions[m]} for m in study.measures],
        "gaps": [{"dataset": d, "method": m} for d, m in study.gaps()],
        "folds": None if study.folds is None else int(study.folds.groupby(level=[0, 1]).size().max()),
        "runs": json.loads(runs.to_json(orient="records", date_format="iso")),
        "excluded": [{"kind": e.kind, "name": e.name, "reason": e.reason} for e in study.excluded],
        "notes": list(study.notes),
        "source": plain(study.source),
    }


def _folds(study: Study) -> str:
    if study.folds is None or study.folds.empty:
        return "none"
    per_run = study.folds.groupby(level=[0, 1], sort=False).size()
    low, high = per_run.min(), per_run.max()
    return f"{low if low == high else f'{low} to {high}'} per run, in {len(per_run)} of {len(study.runs)} runs"


def _counted(values: pd.Series) -> str:
    return ", ".join(f"{name} ({count})" for name, count in values.value_counts().items()) or "none"


def _finite(x: float) -> float | None:
    return x if abs(x) != float("inf") else None
