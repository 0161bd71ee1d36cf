"""Measures and weights: what the measures have in common, and how sure the ranking is that they
make.
"""

from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.fusion import by_chance
from mlflow_mleval.analysis.stability import Separations
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    PAGE,
    Column,
    Data,
    Figure,
    Frames,
    Late,
    Section,
    Table,
    Text,
    decimals,
    listed,
    name,
    names,
    note,
    pvalues,
)
from mlflow_mleval.report.content.decision import PREFERENCES, counts_wins
from mlflow_mleval.report.content.ranking import MOST, best, grid, rows_among
from mlflow_mleval.report.content.units import PAIRS, only_best
from mlflow_mleval.report.figures import TOP
from mlflow_mleval.report.figures.comparisons import (
    bump,
    correlation_graph,
    gaia,
    rank_acceptability,
    weight_intervals,
)
from mlflow_mleval.report.text import ARROWS, fixed, number, percent
from mlflow_mleval.sentences import agree, count
from mlflow_mleval.validation import present

# --------------------------------------------------------------------------------------------------
# The measures: their weights, which of them say the same, who leads by each, and the ranking
# without the redundant ones.


def section(c: Comparison) -> Section:
    """What the measures contribute; with a single measure only its table."""
    hint = count(len(c.study.measures), "measure")
    if (r := c.redundancy) is not None:
        hint += f", {len(r.kept)} of them kept at correlation {r.max_correlation:g}"
    return Section("measures", "Measures", Late(lambda: _blocks(c)), hint=hint)


def _blocks(c: Comparison) -> list[Any]:
    r = c.redundancy
    left: list[Any]
    if r is None:
        why = c.absent.get("redundancy", "not asked for")
        left = [doc.note(f"Redundancy was not examined: {why}.")]
    elif r.dropped.empty:
        left = [doc.note(f"No two measures correlate above {r.max_correlation:g}.")]
    else:
        left = [_correlation(c), _without(c)]
    plane = [_plane(c)] if c.plane is not None else []
    several = [_flows(c)] if len(c.study.measures) > 1 else []
    return [_by_measure(c), doc.Beside(left, plane), *several]


def data(c: Comparison) -> Data:
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


def frames(c: Comparison) -> Frames:
    return {"weights": c.weights_long, "measures": c.measures, "correlations": c.correlations}


def _by_measure(c: Comparison) -> Table:
    weights = c.fusion.weights.mean()
    found = c.measure_tests
    several = len(c.study.datasets) > 1
    ranks = [
        decimals("its mean rank", found["mean_rank"], 2),
        pvalues("Friedman p", found["friedman_pvalue"]),
        pvalues("Iman–Davenport p", found["iman_davenport_pvalue"]),
    ]
    columns = [
        names("measure", found.index),
        doc.better(c.study.directions[m] for m in found.index),
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
    note = "Who leads by each alone. τ: Kendall's, with the fused ranking."
    if several:
        note += " p-values describe, uncorrected."
    return Table(columns, title="Each measure by itself", note=note, depth=PAGE)


def _correlation(c: Comparison) -> Figure:
    r = present(c.redundancy)
    gone = dict(zip(r.dropped["measure"], r.dropped["because_of"], strict=True))
    arrows = {m: ARROWS[direction] for m, direction in c.study.directions.items()}
    svg = correlation_graph(
        r.correlation,
        r.max_correlation,
        r.groups,
        r.kept,
        c.fusion.weights.mean(),
        arrows,
        gone,
    )
    n = len(c.order)
    several = len(c.study.datasets) > 1
    chance = by_chance(r.max_correlation, n)
    doubt = (
        ""
        if several or chance < 0.01
        else (
            f" Over {n} methods on one dataset, {chance:.0%} of pairs of unrelated measures "
            "would be joined by chance."
        )
    )
    caption = (
        f"Joined: measures that correlate above {r.max_correlation:g} over "
        f"methods{', averaged over datasets' if several else ''}.{doubt} Kept: filled dots; beside "
        f"a hollow one, what stands for it.{only_best(len(r.correlation), 'measures')}"
    )
    return Figure(svg, caption, title="Measures that say the same")


def _without(c: Comparison) -> Table:
    r = present(c.redundancy)
    shown = r.ranking.iloc[:TOP]
    columns = [
        names("method", shown.index),
        decimals("mean rank", shown["mean_rank"], 2),
        doc.numbers("place", shown["rank"]),
        decimals("mean rank without", shown["mean_rank_without"], 2),
        doc.numbers("place without", shown["rank_without"]),
        Column("moves", [*map(_moved, shown["rank"] - shown["rank_without"])]),
        decimals(
            "mean change",
            shown["mean_change"],
            2,
            tip="mean over datasets of the absolute change of rank",
        ),
    ]
    title = f"The ranking by the {count(len(r.kept), 'measure')} that the filter keeps"
    return Table(columns, len(r.ranking), title=title, things="methods", depth=PAGE)


def _moved(places: float) -> str:
    """How many places up or down: by sign and arrow."""
    return "–" if places == 0 else f"{'▲' if places > 0 else '▼'} {number(abs(places))}"


def _plane(c: Comparison) -> Figure:
    plane = present(c.plane)
    order = c.fusion.ranking.index
    doubt = " Less than 60%: do not read distances from it." if plane.explained < 0.6 else ""
    caption = (
        f"Methods (dots) do well by the measures (arrows) in their direction; the decision axis "
        f"points to the better. The plane shows {plane.explained:.0%} of the differences in mean "
        f"net flow.{doubt}{only_best(len(order))}"
    )
    axis = (float(plane.axis["x"]), float(plane.axis["y"]))
    drawn = gaia(plane.methods.loc[order], plane.measures, axis, plane.explained)
    return Figure(drawn, caption, title="GAIA plane")


def _flows(c: Comparison) -> Table:
    shown = c.mean_flows.loc[c.fusion.ranking.index[:TOP], c.study.measures[:TOP]]
    note = f"Larger is better.{only_best(len(c.order))}"
    heads = [doc.heading(c.study.directions, m, 18) for m in shown]
    return grid(
        shown,
        "method",
        heads,
        lambda flow: fixed(flow, 2),
        title="Net flow φ by each measure alone",
        note=note,
    )


# --------------------------------------------------------------------------------------------------
# How sure the ranking is: weights, random weights, other preference functions and policies, methods
# left out.


def sensitivity_section(c: Comparison) -> Section | None:
    """The fused ranking under other choices; nothing where that was not examined, or of one
    dataset, which is told in its own units.
    """
    if c.stability is None or len(c.study.datasets) == 1:
        return None

    def blocks() -> list[Any]:
        fused = Text(["All of this is about the fused ranking."], depth=PAGE)
        weights = [_intervals(c), _acceptability(c)] if len(c.study.measures) > 1 else []
        choices = [_scenarios(c), *_separated(c), _left_out(c)]
        return [*([] if c.on == FUSED else [fused]), doc.Beside(weights, choices)]

    return Section("stability", "Stability", Late(blocks), "what other weights and choices change")


def sensitivity_data(c: Comparison) -> Data:
    found = c.stability
    if found is None:
        return {"stability": None}
    left = found.leave_one_out
    shares = found.acceptability
    return {
        "stability": {
            "intervals": {
                "leaders": found.intervals.leaders,
                "measures": found.intervals.table.rename_axis("measure").reset_index(),
            },
            "smallest_change": found.smallest_change,
            "separations": _separations(found.separations),
            "acceptability": {
                "n_draws": shares.n_resamples,
                "seed": shares.seed,
                "shares": {
                    m: row.tolist() for m, row in shares.acceptability.iloc[:MOST, :MOST].iterrows()
                },
            },
            "leave_one_out": left
            and {
                **doc.named(left, "winners", "winner_changes"),
                "reversals": rows_among(left.reversals, best(c), "ahead", "behind"),
                "ranks": left.ranks.iloc[:MOST, :MOST].to_dict(orient="index"),
            },
            "sensitivity": {
                "scenarios": found.sensitivity.table,
                "impossible": found.sensitivity.impossible,
            },
        }
    }


def _separations(found: Separations | None, most: int | None = None) -> list[Data] | None:
    """By separated pair, under how many other choices it stays, and under which it does not."""
    if found is None:
        return None
    rows = []
    fails = found.stays.to_numpy(float) == 0
    tried = [{"varies": kind, "choice": which} for kind, which in found.stays.index]
    for i, ((better, worse), (stays, choices)) in enumerate([*found.counts.items()][:most]):
        lost = [tried[j] for j in np.flatnonzero(fails[:, i])]
        rows.append(
            {"better": better, "worse": worse, "stays": stays, "choices": choices, "lost": lost}
        )
    return rows


def _separated(c: Comparison) -> list[Table]:
    """The separated pairs, and what they depend on."""
    found = present(c.stability).separations
    if not found or not len(found.stays):
        return []
    rows = present(_separations(found, PAIRS))
    lost = [
        ", ".join(_choice(choice["varies"], choice["choice"]) for choice in row["lost"]) or "–"
        for row in rows
    ]
    columns = [
        names("method", (row["better"] for row in rows)),
        names("separated from", (row["worse"] for row in rows), "against"),
        Column("stays under", [f"{row['stays']} of {row['choices']}" for row in rows]),
        Column("but not under", lost, "wrap"),
    ]
    about = (
        "The same test with one other choice at a time: preference function and weights, policy "
        "for missing results, or measures left out that correlate above .9, .8 or .7."
    )
    return [
        Table(
            columns,
            len(c.separated),
            title="What the separations survive",
            note=about,
            things="pairs",
            depth=PAGE,
        )
    ]


def _choice(kind: str, which: str) -> str:
    if kind == "filter":
        return f"measures correlated above {which.removeprefix('0')} left out"
    if kind == "policy":
        return which
    function, weights = which.split(", ")
    return f"{PREFERENCES.get(function, which)}, {weights} weights"


def _intervals(c: Comparison) -> Figure:
    found = present(c.stability).intervals
    table = found.table
    stay = agree(found.leaders, "stays")
    caption = (
        f"The others are rescaled. Pale: {listed(found.leaders, 12)} {stay} in the lead; dark: the "
        "whole order stays. Tick: the weight now. "
        f"{_smallest_change(c)}{only_best(len(table), 'measures')}"
    )
    return Figure(weight_intervals(table), caption, title="How far each weight may move")


def _smallest_change(c: Comparison) -> str:
    """The smallest change of one weight that costs the lead."""
    found = present(c.stability).smallest_change
    if found is None:
        return "No single weight would cost the lead."
    to = percent(float(found["to"]))
    return f"{name(found['rival'])} reaches the lead first, once {name(found['measure'])} has {to}."


def _acceptability(c: Comparison) -> Figure:
    found = present(c.stability).acceptability
    shares = found.acceptability
    caption = (
        f"Shares of {found.n_resamples:,} random weightings (seed {found.seed}). Likely: the "
        "middle 95%."
    )
    if counts_wins(c):
        caption += " Of two methods this only tells which has more weight on what it wins."
    held = (
        f" The best {TOP} of {len(shares):,} methods are shown; the JSON data hold the best {MOST}."
    )
    caption += held if len(shares) > MOST else only_best(len(shares))
    return Figure(rank_acceptability(shares), caption, title="Ranks under random weights")


def _scenarios(c: Comparison) -> Figure | Text:
    scenarios = c.scenarios
    order = c.fusion.ranking.index
    everything = pd.DataFrame({_label(one.key): one.ranking["rank"] for one in scenarios}).reindex(
        order
    )
    if counts_wins(c) and (everything.nunique(axis=1) == 1).all():
        return note(
            "Other preference functions and weights rank two methods alike: all count the "
            "measures that each wins."
        )
    chosen, *_ = keys = [one.key for one in scenarios]
    changes = {key: sum(a != b for a, b in zip(key[1:], chosen[1:], strict=True)) for key in keys}
    drawn = everything[[_label(key) for key, n in changes.items() if n <= 1]]
    drawn.columns = [_label(chosen), *(_label(key, chosen) for key, n in changes.items() if n == 1)]
    caption = (
        "Places under the choices of this report (left) and with one changed. Coloured: first "
        f"somewhere.{only_best(len(order))}"
    )
    if drawn.isna().any(axis=None):
        caption += " A line breaks where a policy drops the method."
    if impossible := present(c.stability).sensitivity.impossible:
        caption += " Not possible: " + "; ".join(
            f"{policy} ({why})" for policy, why in impossible.items()
        )
    title = f"All {len(scenarios)} combinations as a table"
    table = grid(everything.iloc[:TOP], "method", list(everything.columns), number, title=title)
    return Figure(bump(drawn), caption, table, title="The ranking under other choices")


def _label(key: tuple[str, str, str, str], chosen: tuple[str, str, str, str] | None = None) -> str:
    """A scenario, or the one thing in which it differs from the chosen one."""
    varies, function, weights, missing = key
    if varies == "policy":
        return missing
    shown = PREFERENCES.get(function, function)
    if chosen is None:
        return f"{shown}, {weights}"
    return shown if function != chosen[1] else f"{weights} weights"


def _left_out(c: Comparison) -> Table | Text:
    found = present(c.stability).leave_one_out
    if found is None or found.reversals.empty:
        why = (
            "no two others change places"
            if found is not None
            else "it takes at least three methods"
        )
        return note(f"Leaving out one method at a time: {why}.")
    groups = list(found.reversals.groupby("left_out", sort=False))[:TOP]
    turned = [
        [f"{name(r.behind, 20)} before {name(r.ahead, 20)}" for r in part.itertuples()]
        for _, part in groups
    ]
    columns = [
        names("without", (out for out, _ in groups)),
        names("leader", (found.winners[out] for out, _ in groups), "method"),
        Column("reversals", [number(len(texts)) for texts in turned]),
        Column(
            "which pairs turn round",
            [
                ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")
                for texts in turned
            ],
            "wrap",
        ),
    ]
    calm = len(found.ranks) - found.reversals["left_out"].nunique()
    more = f" Without any of the other {calm}, no two change places." if calm > 1 else ""
    about = f"Thresholds and weights are computed anew.{more}"
    return Table(
        columns,
        title="Leaving out one method",
        note=about,
        folded=len(groups) > 12,
        depth=PAGE,
    )
