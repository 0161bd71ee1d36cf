"""Beyond p-values: how probable a difference that matters is, which ranks are possible, and what it would take to know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlflow_mleval.report.blocks import Columns, Section, Table, Terms, Text
from mlflow_mleval.report.certainty_text import certainty_sentences, fold_sentence, pairs_table, ranks_table
from mlflow_mleval.report.escape import number
from mlflow_mleval.report.sections.base import Report, from_reader
from mlflow_mleval.report.tables import ReaderTable
from mlflow_mleval.report.words import listed

#: Pairs of a table, and tables over folds.
PAIRS, TABLES = 100, 12


def section(report: Report) -> Section | None:
    """Probabilities, possible ranks and planning; nothing where no region of practical equivalence was given."""
    c = report.comparison
    found = c.beyond
    if found is None:
        return None
    blocks: list[Any] = [Text([report.prose(text) for text in certainty_sentences(c)])]
    left, right = [], []
    if found.bayes is not None and found.plan is not None:
        reader = pairs_table(found, c.order, c.compared, PAIRS)
        left.append(_table(reader, "Every pair over the datasets"))
    if found.ranks is not None or found.bootstrap is not None:
        right.append(from_reader(ranks_table(found), title="Ranks that the data allow"))
    blocks += [Columns(left, right)] if left and right else [*left, *right]
    if found.by_fold:
        blocks += _over_folds(report)
    if found.warnings:
        blocks.append(Text([report.prose(text) for text in found.warnings], role="points", title="Doubts about these"))
    blocks.append(Terms(_meaning(found.rope), title="What these words mean, and when not to trust them"))
    hint = f"differences up to {number(found.rope)} count as none"
    return Section("certainty", "Beyond p-values", blocks, hint=hint)


def _table(reader: ReaderTable, title: str, folded: bool = False) -> Table:
    table = from_reader(reader, title=title, folded=folded)
    if not reader.left_out:
        return table
    return replace(table, note=f"The {PAIRS} most certain of {reader.total:,} pairs; the JSON data hold all. {table.note}")


def _over_folds(report: Report) -> list[Any]:
    c = report.comparison
    texts, tables = [], []
    for dataset, measures in c.beyond.by_fold.items():
        best = c.folds[dataset].order
        for measure, found in measures.items():
            texts.append(report.prose(fold_sentence(dataset, measure, found)))
            reader = pairs_table(found, best, measure, PAIRS)
            tables.append(_table(reader, f"Every pair over the folds of {listed([dataset])} by {measure}", folded=True))
    tables[1:] = [replace(table, note="") for table in tables[1:]]
    more = [Text([f"Tables of {len(tables) - TABLES} more are in the JSON data."], role="note")] if len(tables) > TABLES else []
    return [Text(texts, role="points", title="Over the folds of each dataset"), *tables[:TABLES], *more]


def _meaning(rope: float) -> list[tuple[str, str]]:
    return [
        (
            "P first, same, second",
            "Given these results, how probable it is that the first is better by more than the limit, that neither is, or that "
            "the second is. Over datasets by Bayesian signed ranks, over folds by the correlated t test (Benavoli et al. 2017). "
            "Not corrected for the number of pairs: of many pairs, some are decided by chance.",
        ),
        (
            "the limit",
            f"{number(rope)}, in units of what is compared. It must be chosen before looking: another limit gives other "
            "probabilities.",
        ),
        (
            "possible ranks",
            "Ranks of the mean that no test of all pairs together excludes (Mogstad et al. 2024). Wide ranges mean that the data "
            "cannot tell; they are honest, not a fault.",
        ),
        (
            "needed",
            "A guess for planning, from effects that are estimates themselves: observed effects of the best pairs are too large "
            "on average. Read the range, not the number.",
        ),
    ]
