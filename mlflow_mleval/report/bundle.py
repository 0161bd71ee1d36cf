"""One door to every format of a report: what is asked for, as text; and the data that lie beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.report.data import as_dict, to_json
from mlflow_mleval.report.folds_text import fold_frames
from mlflow_mleval.report.html import render_html
from mlflow_mleval.report.latex import render_latex
from mlflow_mleval.report.markdown import render_markdown
from mlflow_mleval.report.pairs_text import pairs_verdict
from mlflow_mleval.report.tables import render_csv, report_tables, to_csv
from mlflow_mleval.report.terminal import render_pairs, render_terminal
from mlflow_mleval.report.words import verdict


def render(comparison: Comparison, provenance: Mapping[str, Any], *, what: str, format: str, width: int = 100) -> str:
    """The report, or the part of it that a command shows.

    Parameters
    ----------
    what : {"ranking", "pairs", "report"}
        The ranking with its pairs, or the pairs alone. JSON always holds everything; so does HTML but for pairs.
    format : {"table", "json", "csv", "md", "latex", "html"}
    width : int
        Columns of the terminal.
    """
    if format == "table":
        return (render_pairs if what == "pairs" else render_terminal)(comparison, provenance, width)
    if format == "csv":
        return render_csv(comparison, "pairs" if what == "pairs" else "ranking")
    if format == "json":
        return to_json(as_dict(comparison, provenance))
    if format == "html":
        said = pairs_verdict(comparison) if what == "pairs" else verdict(comparison)
        return render_html(comparison, provenance, said, comparison.doubts, what)
    return {"md": render_markdown, "latex": render_latex}[format](comparison, provenance, what)


def data_files(comparison: Comparison, provenance: Mapping[str, Any]) -> dict[str, str]:
    """File name to content: report.json, and every table as CSV. MLflow's viewer offers no downloads, so they lie beside."""
    frames = {**fold_frames(comparison.folds), **(comparison.profiles.frames if comparison.profiles is not None else {})}
    more = {f"{name}.csv": to_csv(frame) for name, frame in frames.items()}
    return {"report.json": to_json(as_dict(comparison, provenance)), **report_tables(comparison), **more}
