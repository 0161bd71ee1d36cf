"""Which differences are more than chance: tests over datasets, critical-difference diagram, every pair."""

from __future__ import annotations

from dataclasses import replace

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.report.blocks import Column, Columns, Figure, Section, Table, Text, name
from mlflow_mleval.report.escape import fixed, number, pvalue
from mlflow_mleval.report.figures.critical import MOST_BARS, critical_difference, shown_cliques
from mlflow_mleval.report.figures.pairwise import pairwise_matrix
from mlflow_mleval.report.pairs_text import exact
from mlflow_mleval.report.sections.base import Report, from_reader, left_out
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.report.tables import pairs_table
from mlflow_mleval.report.words import count, deciding_test, listed

#: More pairs than this are for the CSV file.
MOST_PAIRS = 500


def section(report: Report) -> Section:
    """Friedman, the diagram, the matrix and the table of pairs; or why there are none."""
    c = report.comparison
    if c.deciding is None:
        return Section("differences", "Differences", [Text([c.decision])], hint=c.decision)
    found = f"{len(c.separated)} of {count(c.pairwise.n_comparisons, 'pair')} separated"
    return Section("differences", "Differences", [Columns([_overall(report), _diagram(c)], [_pairs(c)])], hint=found)


def _overall(report: Report) -> Text:
    """The tests over all methods, and which test decides about pairs."""
    c = report.comparison
    f = c.friedman
    df1, df2 = f.iman_davenport_df
    overall = (
        f"Over all methods: Friedman χ² = {number(f.statistic)} ({f.df} df), {pvalue(f.pvalue)}; Iman–Davenport "
        f"F = {number(f.iman_davenport_statistic)} ({df1}, {df2} df), {pvalue(f.iman_davenport_pvalue)}{exact(f)}."
    )
    paragraphs = [overall, f"For pairs: {c.decision}"]
    if c.skillings_mack is not None:
        s = c.skillings_mack
        gaps_open = f"With the gaps left open: Skillings–Mack χ² = {number(s.statistic)} ({s.df} df), {pvalue(s.pvalue)}."
        paragraphs.insert(1, gaps_open)
    return Text(list(map(report.prose, paragraphs)))


def _diagram(c: Comparison) -> Figure:
    control = c.options["control"]
    mean = c.ranks.mean()[c.order]
    if control is None:
        bars = c.cliques
        says = "A bar joins methods of which no pair is separated"
    else:
        bars = [[m for m in c.order if m == control or not c.is_separated(m, control)]]
        says = f"The bar joins what is not separated from the control {listed([control])}; no other pairs were compared"
    cd = c.deciding.critical_difference
    more = len(shown_cliques(bars, c.order[:TOP])) - MOST_BARS
    caption = (
        f"Mean ranks over {count(len(c.ranks), 'dataset')}, 1 is best. {says} ({deciding_test(c)}); a dotted stretch passes "
        f"over methods that do not belong to it. {left_out(len(c.order))}"
    )
    if more > 0:
        caption += f" The {MOST_BARS} longest bars are drawn, {more} more are not."
    rows = [
        [name(m), fixed(mean[m], 2), number(c.ranks[m].min()), number(c.ranks[m].max()), name(c.letters[m], 12)]
        for m in c.order[:TOP]
    ]
    columns = [Column("method", "left"), Column("mean rank"), Column("best"), Column("worst")]
    if control is None:
        columns.append(Column("groups", "left", "methods that share a letter are not separated"))
    else:
        rows = [row[:-1] for row in rows]
    table = Table(columns, rows, title="Mean ranks and groups as a table", folded=True)
    return Figure(critical_difference(mean, bars, cd), caption, table, title="Critical-difference diagram")


def _pairs(c: Comparison) -> Figure | Table:
    """Every pair as a matrix; against a control a table says it better."""
    reader = pairs_table(c, MOST_PAIRS)
    table = from_reader(reader, title="Every pair as a table", folded=True)
    if reader.left_out:
        table = replace(table, note=f"The first {MOST_PAIRS} of {reader.total:,} pairs; the CSV data hold all. {table.note}")
    if c.options["control"] is not None:
        return replace(table, title="Every method against the control", folded=False)
    caption = (
        f"Each cell: the method at the left of its row against the one at the foot of its column. It says the mean difference "
        f"of {c.compared}, datasets won/tied/lost and p where there is room, else the sign. Blue, +: the row is better; orange, "
        f"−: the column; stronger with the size of the effect. A frame marks pairs that are separated ({deciding_test(c)}). "
        f"{left_out(len(c.order))}"
    )
    return Figure(pairwise_matrix(c.pairs, c.order, c.deciding.test.column), caption, table, title="Every pair")
