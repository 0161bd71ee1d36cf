"""The measures: their weights, which of them say the same, who leads by each, and the ranking without the redundant ones."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.report.blocks import Column, Columns, Figure, Section, Table, Text, name, names
from mlflow_mleval.report.escape import fixed, number, pvalue
from mlflow_mleval.report.figures.correlation import correlation_graph
from mlflow_mleval.report.figures.gaia import gaia
from mlflow_mleval.report.sections.base import Report, arrow, grid, left_out
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.report.words import count


def section(report: Report) -> Section:
    """What the measures contribute; with a single measure only its table."""
    c = report.comparison
    hint = count(len(c.study.measures), "measure")
    left: list[Any] = []
    if c.redundancy is not None:
        left = [_correlation(c), _without(c)]
        hint += f", {len(c.redundancy.kept)} of them kept at correlation {c.redundancy.threshold:g}"
    else:
        why = c.absent.get("redundancy", "not asked for")
        left = [Text([f"Redundancy of measures was not examined: {why}."], role="note")]
    right = [_plane(c)] if c.plane is not None else []
    blocks = [_by_measure(c), Columns(left, right)]
    if len(c.study.measures) > 1:
        blocks += [_flows(c), _agreement(c)]
    return Section("measures", "Measures", blocks, hint=hint)


def _by_measure(c: Comparison) -> Table:
    weights = c.fusion.weights.mean()
    rows = []
    for measure, found in c.measure_tests.iterrows():
        rows.append([
            name(measure), arrow(c, measure), fixed(weights[measure], 3), name(found.leader), fixed(found.mean_rank, 2),
            pvalue(found.friedman_pvalue, bare=True), pvalue(found.iman_davenport_pvalue, bare=True),
            fixed(c.concordance.loc[FUSED, measure], 2),
        ])  # fmt: skip
    columns = [
        Column("measure", "left"), Column("better", "centre"), Column("weight", tip="mean over datasets"),
        Column("leader", "left"), Column("its mean rank"), Column("Friedman p"), Column("Iman–Davenport p"),
        Column("τ with fused", tip="Kendall's tau between the ranking by this measure and the fused one"),
    ]  # fmt: skip
    note = (
        "Who would lead by one measure alone, and how that ranking agrees with the fused one (Kendall's τ from −1 to 1). "
        "Mean ranks depend on each other and have no interval; the p-values say whether the ranking is more than chance."
    )
    return Table(columns, rows, title="Each measure by itself", note=note)


def _correlation(c: Comparison) -> Figure:
    r = c.redundancy
    gone = dict(zip(r.dropped["measure"], r.dropped["because_of"], strict=True))
    joined = [g for g in r.groups if len(g) > 1]
    svg = correlation_graph(
        r.correlation, r.threshold, r.groups, r.kept, c.fusion.weights.mean(), {m: arrow(c, m) for m in c.study.measures}, gone
    )
    caption = (
        f"Measures joined where their correlation over methods, averaged over datasets, exceeds {r.threshold:g} in absolute "
        f"value: {count(len(joined), 'group') if joined else 'none do'}. Filled dots are kept by the filter; beside a hollow one "
        "stands the measure because of which it goes. Weights are means over datasets. "
        f"{left_out(len(r.correlation), 'measures')}"
    )
    shown = r.correlation.iloc[:TOP, :TOP]
    columns = [Column(name(m, 18) + f" {arrow(c, m)}") for m in shown.columns]
    table = grid(shown, "measure", columns, lambda v: fixed(v, 2), title="Correlations as a table", folded=True)
    return Figure(svg, caption, table, title="Measures that say the same")


def _without(c: Comparison) -> Table | Text:
    r = c.redundancy
    if r.dropped.empty:
        return Text(["Nothing is redundant at this threshold, so the filter keeps the ranking as it is."], role="note")
    rows = [
        [name(m), fixed(row.mean_rank, 2), number(row["rank"]), fixed(row.mean_rank_without, 2), number(row.rank_without),
         _moved(row["rank"] - row.rank_without), fixed(row.mean_change, 2)]
        for m, row in r.ranking.iloc[:TOP].iterrows()
    ]  # fmt: skip
    columns = [
        Column("method", "left"), Column("mean rank"), Column("place"), Column("mean rank without"), Column("place without"),
        Column("moves"),
        Column("mean change", tip="mean over datasets of the absolute change of rank"),
    ]  # fmt: skip
    change = ". Mean change: average over datasets of how many ranks the method moves. "
    note = "Left out: " + names(r.dropped["measure"]) + change + left_out(len(r.ranking))
    title = f"The ranking by the {count(len(r.kept), 'measure')} that the filter keeps"
    return Table(columns, rows, title=title, note=note)


def _moved(places: float) -> str:
    """How many places up or down: by sign and arrow."""
    return "–" if places == 0 else f"{'▲' if places > 0 else '▼'} {number(abs(places))}"


def _plane(c: Comparison) -> Figure:
    plane = c.plane
    order = c.fusion.ranking.index
    doubt = " Less than 60%: do not read distances from it." if plane.explained < 0.6 else ""
    caption = (
        f"Methods (dots) and measures (arrows) in the plane that shows {plane.explained:.0%} of the differences between net "
        f"flows, averaged over datasets.{doubt} A method in the direction of an arrow does well by that measure; arrows that "
        f"point the same way agree. The decision axis points to the better methods. {left_out(len(order))}"
    )
    columns = [Column("x"), Column("y")]
    points = pd.concat([plane.methods.loc[order[:TOP]], plane.measures])
    table = grid(points, "method or measure", columns, lambda v: fixed(v, 3), title="Coordinates as a table", folded=True)
    axis = (float(plane.axis["x"]), float(plane.axis["y"]))
    return Figure(gaia(plane.methods.loc[order], plane.measures, axis, plane.explained), caption, table, title="GAIA plane")


def _flows(c: Comparison) -> Table:
    shown = c.mean_flows.loc[c.fusion.ranking.index[:TOP], c.study.measures[:TOP]]
    columns = [Column(name(m, 18) + f" {arrow(c, m)}") for m in shown.columns]
    note = "Mean over datasets, from −1 to 1, larger is better whatever the measure. " + left_out(len(c.order))
    return grid(shown, "method", columns, lambda v: fixed(v, 2), title="Net flow φ by each measure alone", note=note, folded=True)


def _agreement(c: Comparison) -> Table:
    shown = c.concordance.iloc[: TOP + 1, : TOP + 1]
    note = "Kendall's τ between the rankings by mean rank, from −1 to 1; – where a ranking ties all methods."
    columns = [Column(name(m, 18)) for m in shown.columns]
    return grid(shown, "ranking by", columns, lambda v: fixed(v, 2), title="Agreement of the rankings", note=note, folded=True)
