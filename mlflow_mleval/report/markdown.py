"""The report as Markdown: verdict, doubts, ranking, pairs, and what reproduces it; or what is about pairs alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.profile_comparison import ProfileComparison
from mlflow_mleval.report import profiles_text
from mlflow_mleval.report.certainty_text import certainty_sentences
from mlflow_mleval.report.escape import columns, markdown, pad, shorten
from mlflow_mleval.report.folds_text import Folds, means_table, sentences
from mlflow_mleval.report.folds_text import pairs_table as fold_pairs_table
from mlflow_mleval.report.pairs_text import omnibus, pairs_verdict
from mlflow_mleval.report.tables import ReaderTable, pairs_table, ranking_table
from mlflow_mleval.report.words import count, listed, new_doubts, origin, paragraphs

#: More rows than these are left to the CSV files.
METHODS, PAIRS, ALL_PAIRS, DATASETS = 100, 20, 500, 12
#: Longer names are cut in the middle.
NAME = 60


def render_markdown(comparison: Comparison, provenance: Mapping[str, Any] | None = None, what: str = "report") -> str:
    """The report as GitHub-flavoured Markdown; names of strangers are text, not markup.

    Parameters
    ----------
    comparison : Comparison
    provenance : mapping, optional
        What reproduces it; told in a line at the end.
    what : {"report", "ranking", "pairs"}
        "pairs": only which methods differ.
    """
    c, only = comparison, what == "pairs"
    title = f"{count(len(c.study.methods), 'method')} on {count(len(c.study.datasets), 'dataset')}"
    said = [s.text for s in pairs_verdict(c)] if only else paragraphs(c)
    parts = [f"# {'Pairs of ' if only else ''}{title}", *map(markdown, said)]
    if said := new_doubts(c):
        parts += ["## Doubts", points(said)]
    if not only:
        parts += ["## Ranking", *table_parts(ranking_table(c, METHODS), "methods")]
    pairs = pairs_table(c, ALL_PAIRS if only else PAIRS)
    if pairs.total:
        parts += ["## Pairs", *map(markdown, [*omnibus(c), c.decision]), *table_parts(pairs, "pairs")]
    if what == "report":
        parts += folds_markdown(dict(islice(c.folds.items(), DATASETS)))
        parts += [] if c.profiles is None else profiles_markdown(c.profiles)
    if only and c.beyond is not None:
        sure = [*certainty_sentences(c), *c.beyond.warnings]
        parts += ["## Beyond p-values", points(sure)]
    if provenance:
        parts += ["## Made from", markdown(origin(provenance))]
    return "\n\n".join(parts) + "\n"


def folds_markdown(folds: Folds) -> list[str]:
    """Paragraphs of Markdown, a heading a dataset."""
    parts = []
    for dataset, found in folds.items():
        parts += [f"## By fold: {markdown(listed([dataset]))}", *map(markdown, sentences(found))]
        parts += [*table_parts(means_table(found, METHODS), "methods"), *table_parts(fold_pairs_table(found, PAIRS), "pairs")]
        if said := found.doubts:
            parts.append(points(said))
    return parts


def profiles_markdown(found: ProfileComparison, depth: int = 2) -> list[str]:
    """Paragraphs of Markdown about loss profiles under a heading of this depth."""
    parts = [f"{'#' * depth} Loss profiles", *map(markdown, profiles_text.sentences(found))]
    tables = (profiles_text.main_table(found, PAIRS), "pairs"), (profiles_text.awareness_table(found, METHODS), "methods")
    parts += [part for table, things in tables if table.total for part in table_parts(table, things)]
    said = [*found.warnings, *profiles_text.left_out(found)]
    return [*parts, points(said)] if said else parts


def points(texts: Iterable[str]) -> str:
    """A list, escaped."""
    return "\n".join(f"- {markdown(text)}" for text in texts)


def table_parts(table: ReaderTable, things: str) -> list[str]:
    """The table, how many rows are missing, and what its columns mean: a paragraph each."""
    cells = [[markdown(shorten(cell, NAME)) for cell in [c.head, *c.cells]] for c in table.columns]
    wide = [max(3, *map(columns, column)) for column in cells]
    aligns = [c.align for c in table.columns]

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(pad(cell, w, a) for cell, w, a in zip(row, wide, aligns, strict=True)) + " |"

    rule = "|" + "|".join("-" * (w + 1) + (":" if a == ">" else "-") for w, a in zip(wide, aligns, strict=True)) + "|"
    head, *rows = zip(*cells, strict=True)
    parts = ["\n".join([line(head), rule, *map(line, rows)])]
    if table.left_out:
        parts.append(f"… and {table.left_out:,} more {things}.")
    note = " ".join(c.note for c in table.columns if c.note)
    return [*parts, markdown(note)] if note else parts
