"""Measures and weights: what the measures have in common, and how sure the ranking is that they
make.
"""

from operator import ne
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.fusion import by_chance
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import PAGE, Data, Frames, listed, name
from mlflow_mleval.report.content.decision import PREFERENCES, counts_wins
from mlflow_mleval.report.content.ranking import MOST, rows_of_best
from mlflow_mleval.report.content.units import only_best
from mlflow_mleval.report.figures import TOP
from mlflow_mleval.report.figures.comparisons import (
    bump,
    correlation_graph,
    gaia,
    rank_acceptability,
    weight_intervals,
)
from mlflow_mleval.report.text import ARROWS, percent
from mlflow_mleval.sentences import agree, count
from mlflow_mleval.validation import present

# --------------------------------------------------------------------------------------------------
# The measures: their weights, which of them say the same, who leads by each, and the ranking
# without the redundant ones.


def section(c: Comparison) -> doc.Section:
    """What the measures contribute; with a single measure only its table."""
    r = c.redundancy
    hint = count(len(c.study.measures), "measure")
    if r is not None:
        hint += f", {len(r.kept)} of them kept at correlation {r.max_correlation:g}"

    def blocks() -> list[Any]:
        left: list[Any]
        if r is None:
            why = c.absent.get("redundancy", "not asked for")
            left = [doc.note(f"Redundancy was not examined: {why}.")]
        elif r.dropped.empty:
            left = [doc.note(f"No two measures correlate above {r.max_correlation:g}.")]
        else:
            left = [_correlation(c), _without(c)]
        plane = []
        if (found := c.plane) is not None:
            order = c.fusion.ranking.index
            doubt = (
                " Less than 60%: do not read distances from it." if found.explained < 0.6 else ""
            )
            caption = (
                "Methods (dots) do well by the measures (arrows) in their direction; the decision "
                f"axis points to the better. The plane shows {found.explained:.0%} of the "
                f"differences in mean net flow.{doubt}{only_best(len(order))}"
            )
            axis = (float(found.axis["x"]), float(found.axis["y"]))
            drawn = gaia(found.methods.loc[order], found.measures, axis, found.explained)
            plane = [doc.Figure(drawn, caption, title="GAIA plane")]
        return [_by_measure(c), doc.Beside(left, plane)]

    return doc.Section("measures", "Measures", doc.Late(blocks), hint=hint)


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


def _by_measure(c: Comparison) -> doc.Table:
    found = c.measure_tests
    columns = [
        doc.names("measure", found.index),
        doc.better(c.study.directions[m] for m in found.index),
        doc.decimals("weight", c.fusion.weights.mean()[found.index], 3, tip="mean over datasets"),
        doc.names("leader", found["leader"], "method"),
        doc.decimals("τ with fused", c.concordance.loc[FUSED, found.index], 2),
    ]
    note = "Who leads by each alone. τ: Kendall's, with the fused ranking."
    return doc.Table(columns, title="Each measure by itself", note=note, depth=PAGE)


def _correlation(c: Comparison) -> doc.Figure:
    r, n = present(c.redundancy), len(c.order)
    gone = dict(zip(r.dropped["measure"], r.dropped["because_of"], strict=True))
    arrows = {m: ARROWS[direction] for m, direction in c.study.directions.items()}
    groups = (r.max_correlation, r.groups, r.kept)
    svg = correlation_graph(r.correlation, *groups, c.fusion.weights.mean(), arrows, gone)
    averaged, doubt = ", averaged over datasets", ""
    if len(c.study.datasets) == 1:
        averaged = ""
        if (chance := by_chance(r.max_correlation, n)) >= 0.01:
            doubt = (
                f" Over {n} methods on one dataset, {chance:.0%} of pairs of unrelated measures "
                "would be joined by chance."
            )
    caption = (
        f"Joined: measures that correlate above {r.max_correlation:g} over methods{averaged}."
        f"{doubt} Kept: filled dots; beside a hollow one, what stands for it."
        f"{only_best(len(r.correlation), 'measures')}"
    )
    return doc.Figure(svg, caption, title="Measures that say the same")


def _without(c: Comparison) -> doc.Table:
    r = present(c.redundancy)
    shown = r.ranking.iloc[:TOP]
    columns = [
        doc.names("method", shown.index),
        doc.numbers("place", shown["rank"]),
        doc.numbers("place without", shown["rank_without"]),
        doc.decimals("mean rank", shown["mean_rank"], 2),
        doc.decimals("mean rank without", shown["mean_rank_without"], 2),
    ]
    title = f"The ranking by the {count(len(r.kept), 'measure')} that the filter keeps"
    return doc.Table(columns, len(r.ranking), title=title, things="methods", depth=PAGE)


# --------------------------------------------------------------------------------------------------
# How sure the ranking is: weights, random weights, other preference functions and policies, methods
# left out.


def sensitivity_section(c: Comparison) -> doc.Section | None:
    """The fused ranking under other choices; nothing where that was not examined, or of one
    dataset, which is told in its own units.
    """
    if c.stability is None or len(c.study.datasets) == 1:
        return None

    def blocks() -> list[Any]:
        fused = doc.Text(["All of this is about the fused ranking."], depth=PAGE)
        stability = present(c.stability)
        found, smallest = stability.intervals, "No single weight would cost the lead."
        if (change := stability.smallest_change) is not None:
            rival, measure = name(change["rival"]), name(change["measure"])
            to = percent(float(change["to"]))
            smallest = f"{rival} reaches the lead first, once {measure} has {to}."
        stay = agree(found.leaders, "stays")
        caption = (
            f"The others are rescaled. Pale: {listed(found.leaders, 12)} {stay} in the lead; dark: "
            "the whole order stays. Tick: the weight now. "
            f"{smallest}{only_best(len(found.table), 'measures')}"
        )
        title = "How far each weight may move"
        intervals = doc.Figure(weight_intervals(found.table), caption, title=title)
        shares = stability.acceptability
        caption = (
            f"Shares of {shares.n_resamples:,} random weightings (seed {shares.seed}). Likely: the "
            f"middle 95%.{only_best(len(shares.acceptability))}"
        )
        drawn = rank_acceptability(shares.acceptability)
        acceptability = doc.Figure(drawn, caption, title="Ranks under random weights")
        weights = [intervals, acceptability] if len(c.study.measures) > 1 else []
        return [*([] if c.on == FUSED else [fused]), doc.Beside(weights, [_scenarios(c)])]

    return doc.Section(
        "stability", "Stability", doc.Late(blocks), "what other weights and choices change"
    )


def sensitivity_data(c: Comparison) -> Data:
    found = c.stability
    if found is None:
        return {"stability": None}
    left, shares, kept = found.leave_one_out, found.acceptability, found.separations
    separations = None
    if kept is not None:  # by pair, under how many choices it stays, and under which it does not
        fails = kept.stays.to_numpy(float) == 0
        tried = [{"varies": kind, "choice": which} for kind, which in kept.stays.index]
        separations = [
            {
                **{"better": better, "worse": worse, "stays": stays, "choices": choices},
                "lost": [tried[j] for j in np.flatnonzero(fails[:, i])],
            }
            for i, ((better, worse), (stays, choices)) in enumerate(kept.counts.items())
        ]
    return {
        "stability": {
            "intervals": {
                "leaders": found.intervals.leaders,
                "measures": found.intervals.table.rename_axis("measure").reset_index(),
            },
            "smallest_change": found.smallest_change,
            "separations": separations,
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
                "reversals": rows_of_best(c, left.reversals, "ahead", "behind"),
                "ranks": left.ranks.iloc[:MOST, :MOST].to_dict(orient="index"),
            },
            "sensitivity": {
                "scenarios": found.sensitivity.table,
                "impossible": found.sensitivity.impossible,
            },
        }
    }


def _scenarios(c: Comparison) -> doc.Figure | doc.Text:
    order, (chosen, *others) = c.fusion.ranking.index, c.scenarios
    near = [one for one in others if sum(map(ne, one.key[1:], chosen.key[1:])) == 1]
    ranks = {}
    for one in (chosen, *near):
        shown = PREFERENCES.get(one.preference, one.preference)
        if one.varies == "policy":
            label = one.missing
        elif one is chosen:
            label = f"{shown}, {one.weights}"
        else:
            label = shown if one.preference != chosen.preference else f"{one.weights} weights"
        ranks[label] = one.ranking["rank"]
    drawn = pd.DataFrame(ranks).reindex(order)
    if counts_wins(c) and (drawn.nunique(axis=1) == 1).all():
        return doc.note(
            "Other preference functions and weights rank two methods alike: all count the "
            "measures that each wins."
        )
    caption = (
        "Places under the choices of this report (left) and with one changed. Coloured: first "
        f"somewhere.{only_best(len(order))}"
    )
    if drawn.isna().any(axis=None):
        caption += " A line breaks where a policy drops the method."
    return doc.Figure(bump(drawn), caption, title="The ranking under other choices")
