"""The report of one run in its forms."""

from __future__ import annotations

from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report.escape import NONE, aligned, markdown
from mlflow_mleval.report.markdown import table_parts
from mlflow_mleval.report.page import render_page
from mlflow_mleval.report.run.content import RunReport
from mlflow_mleval.report.run.sections import run_sections
from mlflow_mleval.report.tables import Column, ReaderTable

#: Labels that the summary names.
_WORST = 10


def render_run_html(report: RunReport) -> str:
    """The report as one self-contained page."""
    return render_page(report.title, report.about, run_sections(report), report.time)


def render_run_markdown(report: RunReport) -> str:
    """The report in short, as GitHub-flavoured Markdown."""
    parts = [f"# {markdown(report.title)}", markdown(report.about), markdown(" ".join(report.sentences()))]
    if doubts := report.doubts():
        parts += ["## Doubts", "\n".join(f"- {markdown(text)}" for text in doubts)]
    parts += ["## Measures", *table_parts(_measures(report), "measures")]
    labels = report.labels
    if len(labels) > 1:
        worst = labels.head(_WORST)
        counts = [Column(c, [f"{v:,}" for v in worst[c]]) for c in ("support", "tp", "fp", "fn")]
        columns = [Column("label", [str(label) for label in worst.index], "<"), *counts, Column("F1", aligned(worst["f1"], 3))]
        parts += ["## Labels with the lowest F1", *table_parts(ReaderTable(columns, len(labels)), "labels")]
    return "\n\n".join(parts) + "\n"


def _measures(report: RunReport) -> ReaderTable:
    table = report.measures
    cells = [aligned(row) for row in table[["value", "half", "low", "high"]].to_numpy()]
    columns = [
        Column("measure", list(table.index), "<"),
        Column("better", [MEASURES[m].arrow for m in table.index], "<", note="↑ larger is better, ↓ smaller is."),
        Column("value" if report.statistics is None else "mean", [c[0] for c in cells]),
    ]
    if report.statistics is not None:
        note = "95%: interval of the mean that allows for training data which folds share."
        columns.append(Column("95%", ["" if c[1] == NONE else f"± {c[1]}" for c in cells], note=note))
        columns.append(Column("folds", ["" if c[2] == NONE else f"{c[2]} – {c[3]}" for c in cells]))
    return ReaderTable(columns, len(table))
