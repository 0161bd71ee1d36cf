"""The ranking: one row a method, best first."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.report.blocks import Column, Section, Table, Text, name, names
from mlflow_mleval.report.escape import number
from mlflow_mleval.report.figures.strips import flow_bar, rank_strip
from mlflow_mleval.report.sections.base import Report, arrow, from_reader, grid
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.report.tables import ranking_table


def section(report: Report) -> Section:
    """The ranking table with a bar of net flow and a strip of ranks in each row, and the ranks in numbers."""
    c = report.comparison
    shown = c.order[:TOP]
    table = _with_marks(c, from_reader(ranking_table(c, TOP), first=True), shown)
    blocks = [table]
    if len(c.order) > TOP:
        blocks.append(_rest(c))
    if len(c.ranks) > 1:
        columns = [Column(name(d, 18)) for d in c.ranks.index]
        blocks.append(grid(c.ranks[shown].T, "method", columns, number, title="Rank on each dataset", folded=True))
    if c.on == FUSED:
        blocks.append(_partial_order(c))
    return Section("ranking", "Ranking", blocks)


def _with_marks(c: Comparison, table: Table, shown: list[str]) -> Table:
    """The table with a bar behind φ and a strip of ranks; φ⁺ and φ⁻, which a narrow page may cut off, come last."""
    by_head = {column.head: [column, *cells] for column, *cells in zip(table.columns, *table.rows, strict=True)}
    note = table.note
    if "groups" in by_head:
        head, *letters = by_head["groups"]
        by_head["groups"] = [head, *(name(text, 9) for text in letters)]
    for head in (c.on, f"mean {c.on}"):
        if head in by_head:
            by_head[head][0] = Column(name(head) + f" {arrow(c, c.on)}")
    last = [by_head.pop(head) for head in ("φ⁺", "φ⁻") if head in by_head]
    if "φ" in by_head:
        phi = c.fusion.ranking["phi"]
        limit = max(phi.abs().max(), 1e-9)
        by_head["bar"] = [Column("− | +", "left", "φ as a bar around zero"), *(flow_bar(phi[m], limit) for m in shown)]
        by_head = {head: by_head[head] for head in sorted(by_head, key=lambda h: h == "groups")}
    if len(c.ranks) > 1:
        by_head["strip"] = [Column("rank on each dataset", "left"), *(rank_strip(c.ranks[m], len(c.order)) for m in shown)]
        note += " Strip: a cell a dataset, the stronger the better; a dot marks rank 1."
    columns, *rows = zip(*by_head.values(), *last, strict=True)
    return replace(table, columns=columns, rows=rows, note=note)


def _rest(c: Comparison) -> Text:
    """What there is to say of the methods beyond the best ones."""
    mean = c.ranks.mean()[c.order[TOP:]]
    words = f"The other {len(mean)} have mean ranks from {number(mean.iloc[0])} to {number(mean.iloc[-1])}: "
    return Text([words + names(mean.index) + "."], role="note")


def _partial_order(c: Comparison) -> Text:
    """PROMETHEE I on the mean flows: whom the leader really beats, where strengths and weaknesses disagree."""
    order = c.partial_order
    leader = order.index[0]
    row: pd.Series = order.loc[leader]
    against = [m for m in order.index if row[m] == "R"]
    n_pairs = len(order) * (len(order) - 1) // 2
    n_apart = int((order == "R").to_numpy().sum()) // 2
    if not n_apart:
        return Text(["PROMETHEE I leaves no pair incomparable: φ⁺ and φ⁻ agree on the whole order."], role="note")
    words = f"PROMETHEE I, which lets no strength make up for a weakness, leaves {n_apart:,} of {n_pairs:,} pairs incomparable"
    if not against:
        return Text([f"{words}; the leader is in none of them."], role="note")
    return Text([f"{words}; the leader cannot be compared with " + names(against) + "."], role="note")
