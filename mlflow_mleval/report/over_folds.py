"""`mleval compare --over folds` in each format; the reports take their parts about folds from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from mlflow_mleval.report.blocks import Section, Text
from mlflow_mleval.report.data import SCHEMA_VERSION, plain, to_json
from mlflow_mleval.report.escape import markdown, wrap
from mlflow_mleval.report.folds_text import (
    Folds,
    fold_frames,
    folds_dict,
    means_table,
    orderings_table,
    overview_table,
    pairs_table,
    sentences,
)
from mlflow_mleval.report.latex import HEAD, folds_latex, items, made_from
from mlflow_mleval.report.markdown import folds_markdown, points
from mlflow_mleval.report.page import render_page
from mlflow_mleval.report.sections.base import marked
from mlflow_mleval.report.sections.folds import folds_section
from mlflow_mleval.report.tables import to_csv
from mlflow_mleval.report.terminal import grid, short_ids
from mlflow_mleval.report.words import listed, origin

#: Rows of a table for readers.
METHODS, PAIRS = 15, 20


def render_folds_terminal(
    folds: Folds, absent: Mapping[str, str], provenance: Mapping[str, Any] | None = None, width: int = 100
) -> str:
    """Per dataset: the sentences, means with intervals, pairs, doubts; then datasets that could not be tested.

    Parameters
    ----------
    folds : mapping of dataset to FoldComparison
    absent : mapping of dataset to str
        Why there is none.
    provenance : mapping, optional
        Its time, seed and policy make the last line.
    width : int
        Columns of the terminal.
    """
    lines: list[str] = []
    if len(folds) > 1:
        lines += [*grid(overview_table(folds), width), ""]
    for dataset, found in folds.items():
        lines += wrap("", f"On {listed([dataset])}", width)
        lines += [line for text in sentences(found) for line in wrap("", text, width)]
        lines += ["", *grid(means_table(found, METHODS), width), "", *grid(pairs_table(found, PAIRS), width)]
        if len(found.measures) > 1:
            lines += ["", "By each measure alone"]
            lines += [line for head, text in orderings_table(found).rows for line in wrap(f"{head}: ", text, width)]
        if said := found.doubts:
            lines += ["", "Doubts", *(line for text in said for line in wrap("- ", text, width))]
        lines.append("")
    lines += [line for dataset, why in absent.items() for line in wrap("", f"{listed([dataset])} was not tested: {why}", width)]
    if provenance:
        lines += wrap("", origin(provenance), width)
    return "\n".join(lines).rstrip("\n")


def _prose(folds: Folds) -> Callable[[str], Markup]:
    """Marks the names of methods, datasets and measures in running text."""
    return marked({*folds, *(name for f in folds.values() for name in (*f.methods, *f.measures))})


def render_folds(
    folds: Folds, absent: Mapping[str, str], notes: Sequence[str], provenance: Mapping[str, Any], format: str, width: int = 100
) -> str:
    """The tests over folds in a format; csv holds the pairs.

    Parameters
    ----------
    folds : mapping of dataset to FoldComparison
    absent : mapping of dataset to str
    notes : sequence of str
        Doubts about the study.
    provenance : mapping
    format : {"table", "json", "csv", "md", "latex", "html"}
    width : int
        Columns of the terminal.
    """
    if format == "csv":
        return to_csv(fold_frames(folds)["fold_pairs"])
    if format == "json":
        record = {
            "schema_version": SCHEMA_VERSION,
            "over": "folds",
            "datasets": {name: folds_dict(found) for name, found in folds.items()},
            "absent": absent,
            "doubts": notes,
            "provenance": provenance,
        }
        return to_json(plain(record))
    if format == "html":
        sections = [folds_section(folds, absent, _prose(folds))]
        if notes:
            sections.append(Section("doubts", "Doubts", [Text(notes, role="points")]))
        sections.append(Section("provenance", "Made from", [Text([origin(provenance)])]))
        return render_page(f"Tests over folds: {listed(folds)}", "", sections, str(provenance.get("time") or ""))
    lost = [f"{listed([dataset])} was not tested: {why}" for dataset, why in absent.items()]
    if format == "md":
        parts = ["# Tests over folds", *folds_markdown(folds)]
        parts += [points([*lost, *notes])] if lost or notes else []
        return "\n\n".join([*parts, "## Made from", markdown(origin(provenance))]) + "\n"
    if format == "latex":
        parts = [HEAD, *folds_latex(folds), *([items("Doubts", [*lost, *notes])] if lost or notes else [])]
        return "\n\n".join([*parts, made_from(provenance)]) + "\n"
    text = render_folds_terminal(folds, absent, None, width)
    lines = [line for note in notes for line in wrap("- ", short_ids(note), width)]
    return "\n".join([text, *([""] if lines else []), *lines, "", *wrap("", origin(provenance), width)])
