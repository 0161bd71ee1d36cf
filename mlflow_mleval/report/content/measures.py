"""The measures: their weights, which of them say the same, who leads by each, and the ranking
without the redundant ones.
"""

from typing import Any

import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.redundancy import by_chance
from mlflow_mleval.naming import count
from mlflow_mleval.report import document as doc
from mlflow_mleval.report.content.differences import only_best
from mlflow_mleval.report.content.ranking import grid
from mlflow_mleval.report.document import (
    PAGE,
    Column,
    Figure,
    Section,
    Table,
    Text,
    decimals,
    listed,
    name,
    names,
    pvalues,
)
from mlflow_mleval.report.figures.correlation import correlation_graph
from mlflow_mleval.report.figures.gaia import gaia
from mlflow_mleval.report.numerals import ARROWS, fixed, number
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.validation import present


def section(c: Comparison) -> Section:
    """What the measures contribute; with a single measure only its table."""
    hint = count(len(c.study.measures), "measure")
    if c.redundancy is not None:
        left = [_correlation(c), _without(c)]
        hint += (
            f", {len(c.redundancy.kept)} of them kept at correlation "
            f"{c.redundancy.max_correlation:g}"
        )
    else:
        left = [
            doc.note(
                "Redundancy of measures was not examined: "
                f"{c.absent.get('redundancy', 'not asked for')}."
            )
        ]
    blocks: list[Any] = [
        _by_measure(c),
        doc.Beside(left, [_plane(c)] if c.plane is not None else []),
    ]
    if len(c.study.measures) > 1:
        blocks += [_flows(c), _agreement(c)]
    return Section("measures", "Measures", blocks, hint=hint)


def data(c: Comparison) -> dict[str, Any]:
    r = c.redundancy
    return {
        "weights": c.fusion.weights.to_dict(orient="index"),
        "measures": c.measures,
        "concordance": c.concordance.to_dict(orient="index"),
        "redundancy": r
        and {
            "threshold": r.max_correlation,
            **doc.named(r, "kept", "dropped", "groups", "warnings"),
            "correlation": r.correlation.to_dict(orient="index"),
            "ranking": r.ranking.rename_axis("method").reset_index(),
        },
    }


def frames(c: Comparison) -> dict[str, pd.DataFrame]:
    return {"weights": c.weights_long, "measures": c.measures, "correlations": c.correlations}


def _arrow(c: Comparison, measure: str) -> str:
    return ARROWS[c.study.directions[measure]]


def _heads(c: Comparison, measures: pd.Index) -> list[str]:
    return [
        f"{name(m, 18)} {_arrow(c, m)}" if m in c.study.directions else name(m, 18)
        for m in measures
    ]


def _by_measure(c: Comparison) -> Table:
    weights, found = c.fusion.weights.mean(), c.measure_tests
    several = len(c.study.datasets) > 1
    ranks = [
        decimals("its mean rank", found["mean_rank"], 2),
        pvalues("Friedman p", found["friedman_pvalue"]),
        pvalues("Iman–Davenport p", found["iman_davenport_pvalue"]),
    ]
    columns = [
        names("measure", found.index),
        Column("better", [_arrow(c, m) for m in found.index], "^"),
        decimals("weight", weights[found.index], 3, tip="mean over datasets"),
        names("leader", found["leader"], "method"),
        *(ranks if several else []),
        decimals(
            "τ with fused",
            c.concordance.loc[FUSED, found.index],
            2,
            tip="Kendall's tau between the ranking by this measure and the fused one",
        ),
    ]
    note = (
        "Who would lead by one measure alone, and how that ranking agrees with the fused one "
        "(Kendall's τ from −1 to 1)."
        + (
            " Mean ranks depend on each other and have no interval; the p-values say whether the "
            "ranking is more than chance."
        )
        * several
    )
    return Table(columns, title="Each measure by itself", note=note, depth=PAGE)


def _correlation(c: Comparison) -> Figure:
    r = present(c.redundancy)
    gone = dict(zip(r.dropped["measure"], r.dropped["because_of"], strict=True))
    groups = [g for g in r.groups if len(g) > 1]
    arrows = {m: _arrow(c, m) for m in c.study.measures}
    svg = correlation_graph(
        r.correlation, r.max_correlation, r.groups, r.kept, c.fusion.weights.mean(), arrows, gone
    )
    n, several = len(c.order), len(c.study.datasets) > 1
    chance = by_chance(r.max_correlation, n)
    doubt = (
        ""
        if several or chance < 0.01
        else (
            f" Over {n} methods on one dataset, {chance:.0%} of pairs of unrelated measures "
            "would be joined by chance."
        )
    )
    joins = count(len(groups), "group") if groups else "none do"
    caption = (
        "Measures joined where their correlation over "
        f"methods{', averaged over datasets,' if several else ''} exceeds {r.max_correlation:g} "
        f"in absolute value: {joins}.{doubt} Filled dots are kept by the filter; beside a hollow "
        "one stands the measure because of which it goes."
        f"{' Weights are means over datasets.' if several else ''}"
        f"{only_best(len(r.correlation), 'measures')}"
    )
    shown = r.correlation.iloc[:TOP, :TOP]
    table = grid(
        shown,
        "measure",
        _heads(c, shown.columns),
        lambda v: fixed(v, 2),
        title="Correlations as a table",
    )
    return Figure(svg, caption, table, title="Measures that say the same")


def _without(c: Comparison) -> Table | Text:
    r = present(c.redundancy)
    if r.dropped.empty:
        return doc.note(
            "Nothing is redundant at this threshold, so the filter keeps the ranking as it is."
        )
    shown = r.ranking.iloc[:TOP]
    columns = [
        names("method", shown.index),
        decimals("mean rank", shown["mean_rank"], 2),
        Column("place", [*map(number, shown["rank"])]),
        decimals("mean rank without", shown["mean_rank_without"], 2),
        Column("place without", [*map(number, shown["rank_without"])]),
        Column("moves", [*map(_moved, shown["rank"] - shown["rank_without"])]),
        decimals(
            "mean change",
            shown["mean_change"],
            2,
            tip="mean over datasets of the absolute change of rank",
        ),
    ]
    left = listed(r.dropped["measure"], 12)
    note = (
        f"Left out: {left}. Mean change: average over datasets of how many ranks the method moves."
    )
    title = f"The ranking by the {count(len(r.kept), 'measure')} that the filter keeps"
    return Table(columns, len(r.ranking), title=title, note=note, things="methods", depth=PAGE)


def _moved(places: float) -> str:
    """How many places up or down: by sign and arrow."""
    return "–" if places == 0 else f"{'▲' if places > 0 else '▼'} {number(abs(places))}"


def _plane(c: Comparison) -> Figure:
    plane, order = present(c.plane), c.fusion.ranking.index
    doubt = " Less than 60%: do not read distances from it." if plane.explained < 0.6 else ""
    caption = (
        f"Methods (dots) and measures (arrows) in the plane that shows {plane.explained:.0%} of "
        f"the differences between net flows, averaged over datasets.{doubt} A method in the "
        "direction of an arrow does well by that measure; arrows that point the same way agree. "
        f"The decision axis points to the better methods.{only_best(len(order))}"
    )
    points = pd.concat([plane.methods.loc[order[:TOP]], plane.measures])
    table = grid(
        points,
        "method or measure",
        ["x", "y"],
        lambda v: fixed(v, 3),
        title="Coordinates as a table",
    )
    axis = (float(plane.axis["x"]), float(plane.axis["y"]))
    return Figure(
        gaia(plane.methods.loc[order], plane.measures, axis, plane.explained),
        caption,
        table,
        title="GAIA plane",
    )


def _flows(c: Comparison) -> Table:
    shown = c.mean_flows.loc[c.fusion.ranking.index[:TOP], c.study.measures[:TOP]]
    note = "Mean over datasets, from −1 to 1, larger is better whatever the measure." + only_best(
        len(c.order)
    )
    heads = _heads(c, shown.columns)
    return grid(
        shown,
        "method",
        heads,
        lambda v: fixed(v, 2),
        title="Net flow φ by each measure alone",
        note=note,
    )


def _agreement(c: Comparison) -> Table:
    shown = c.concordance.iloc[: TOP + 1, : TOP + 1]
    note = (
        "Kendall's τ between the rankings by mean rank, from −1 to 1; – where a ranking ties all "
        "methods."
    )
    heads = [name(m, 18) for m in shown.columns]
    return grid(
        shown,
        "ranking by",
        heads,
        lambda v: fixed(v, 2),
        title="Agreement of the rankings",
        note=note,
    )
