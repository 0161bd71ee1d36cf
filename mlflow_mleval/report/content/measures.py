"""Measures and weights: what the measures have in common, and how sure the ranking is that they
make.
"""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.fusion import Separations, by_chance
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import PAGE, Column, Data, Frames, listed, name
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
        plane = [_plane(c)] if c.plane is not None else []
        made: list[Any] = [_by_measure(c), doc.Beside(left, plane)]
        if len(c.study.measures) > 1:
            flows = c.mean_flows.loc[c.fusion.ranking.index[:TOP], c.study.measures[:TOP]]
            heads = [doc.heading(c.study.directions, m, 18) for m in flows]
            note = f"Larger is better.{only_best(len(c.order))}"
            made.append(
                grid(
                    flows,
                    "method",
                    heads,
                    partial(fixed, decimals=2),
                    title="Net flow φ by each measure alone",
                    note=note,
                )
            )
        return made

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
    found, several = c.measure_tests, len(c.study.datasets) > 1
    concordance = c.concordance.loc[FUSED, found.index]
    tip = "Kendall's tau between the ranking by this measure and the fused one"
    columns = [
        doc.names("measure", found.index),
        doc.better(c.study.directions[m] for m in found.index),
        doc.decimals("weight", c.fusion.weights.mean()[found.index], 3, tip="mean over datasets"),
        doc.names("leader", found["leader"], "method"),
    ]
    note = "Who leads by each alone. τ: Kendall's, with the fused ranking."
    if several:
        note += " p-values describe, uncorrected."
        columns += [
            doc.decimals("its mean rank", found["mean_rank"], 2),
            doc.pvalues("Friedman p", found["friedman_pvalue"]),
            doc.pvalues("Iman–Davenport p", found["iman_davenport_pvalue"]),
        ]
    columns.append(doc.decimals("τ with fused", concordance, 2, tip=tip))
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
    moves = [
        "–" if places == 0 else f"{'▲' if places > 0 else '▼'} {number(abs(places))}"
        for places in shown["rank"] - shown["rank_without"]
    ]
    tip = "mean over datasets of the absolute change of rank"
    columns = [
        doc.names("method", shown.index),
        doc.decimals("mean rank", shown["mean_rank"], 2),
        doc.numbers("place", shown["rank"]),
        doc.decimals("mean rank without", shown["mean_rank_without"], 2),
        doc.numbers("place without", shown["rank_without"]),
        Column("moves", moves),
        doc.decimals("mean change", shown["mean_change"], 2, tip=tip),
    ]
    title = f"The ranking by the {count(len(r.kept), 'measure')} that the filter keeps"
    return doc.Table(columns, len(r.ranking), title=title, things="methods", depth=PAGE)


def _plane(c: Comparison) -> doc.Figure:
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
    return doc.Figure(drawn, caption, title="GAIA plane")


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
        weights = [_intervals(c), _acceptability(c)] if len(c.study.measures) > 1 else []
        choices = [_scenarios(c), *_separated(c), _left_out(c)]
        return [*([] if c.on == FUSED else [fused]), doc.Beside(weights, choices)]

    return doc.Section(
        "stability", "Stability", doc.Late(blocks), "what other weights and choices change"
    )


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


def _separated(c: Comparison) -> list[doc.Table]:
    """The separated pairs, and what they depend on."""
    found = present(c.stability).separations
    if not found or not len(found.stays):
        return []
    rows = present(_separations(found, PAIRS))
    lost = [[_choice(one["varies"], one["choice"]) for one in row["lost"]] for row in rows]
    columns = [
        doc.names("method", (row["better"] for row in rows)),
        doc.names("separated from", (row["worse"] for row in rows), "against"),
        Column("stays under", [f"{row['stays']} of {row['choices']}" for row in rows]),
        Column("but not under", [", ".join(texts) or "–" for texts in lost], "wrap"),
    ]
    about = (
        "The same test with one other choice at a time: preference function and weights, policy "
        "for missing results, or measures left out that correlate above .9, .8 or .7."
    )
    title = "What the separations survive"
    return [doc.Table(columns, len(c.separated), title, note=about, things="pairs", depth=PAGE)]


def _choice(kind: str, which: str) -> str:
    if kind == "filter":
        return f"measures correlated above {which.removeprefix('0')} left out"
    if kind == "policy":
        return which
    function, weights = which.split(", ")
    return f"{PREFERENCES.get(function, which)}, {weights} weights"


def _intervals(c: Comparison) -> doc.Figure:
    """How far each weight may move, and the smallest change of one that costs the lead."""
    stability = present(c.stability)
    found, smallest = stability.intervals, "No single weight would cost the lead."
    if (change := stability.smallest_change) is not None:
        rival, measure = name(change["rival"]), name(change["measure"])
        to = percent(float(change["to"]))
        smallest = f"{rival} reaches the lead first, once {measure} has {to}."
    stay = agree(found.leaders, "stays")
    caption = (
        f"The others are rescaled. Pale: {listed(found.leaders, 12)} {stay} in the lead; dark: the "
        "whole order stays. Tick: the weight now. "
        f"{smallest}{only_best(len(found.table), 'measures')}"
    )
    return doc.Figure(weight_intervals(found.table), caption, title="How far each weight may move")


def _acceptability(c: Comparison) -> doc.Figure:
    found = present(c.stability).acceptability
    shares = found.acceptability
    caption = (
        f"Shares of {found.n_resamples:,} random weightings (seed {found.seed}). Likely: the "
        "middle 95%."
    )
    if counts_wins(c):
        caption += " Of two methods this only tells which has more weight on what it wins."
    held = only_best(len(shares))
    if len(shares) > MOST:
        best = f"The best {TOP} of {len(shares):,} methods are shown"
        held = f" {best}; the JSON data hold the best {MOST}."
    return doc.Figure(
        rank_acceptability(shares), caption + held, title="Ranks under random weights"
    )


def _scenarios(c: Comparison) -> doc.Figure | doc.Text:
    scenarios = c.scenarios
    order = c.fusion.ranking.index
    everything = pd.DataFrame({_label(one.key): one.ranking["rank"] for one in scenarios}).reindex(
        order
    )
    if counts_wins(c) and (everything.nunique(axis=1) == 1).all():
        return doc.note(
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
    return doc.Figure(bump(drawn), caption, table, title="The ranking under other choices")


def _label(key: tuple[str, str, str, str], chosen: tuple[str, str, str, str] | None = None) -> str:
    """A scenario, or the one thing in which it differs from the chosen one."""
    varies, function, weights, missing = key
    if varies == "policy":
        return missing
    shown = PREFERENCES.get(function, function)
    if chosen is None:
        return f"{shown}, {weights}"
    return shown if function != chosen[1] else f"{weights} weights"


def _left_out(c: Comparison) -> doc.Table | doc.Text:
    found = present(c.stability).leave_one_out
    if found is None or found.reversals.empty:
        why = "no two others change places" if found else "it takes at least three methods"
        return doc.note(f"Leaving out one method at a time: {why}.")
    groups = dict(list(found.reversals.groupby("left_out", sort=False))[:TOP])
    turned = []
    for part in groups.values():
        texts = [f"{name(r.behind, 20)} before {name(r.ahead, 20)}" for r in part.itertuples()]
        more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
        turned.append(", ".join(texts[:3]) + more)
    columns = [
        doc.names("without", groups),
        doc.names("leader", (found.winners[out] for out in groups), "method"),
        Column("reversals", [number(len(part)) for part in groups.values()]),
        Column("which pairs turn round", turned, "wrap"),
    ]
    calm = len(found.ranks) - found.reversals["left_out"].nunique()
    others = f" Without any of the other {calm}, no two change places." if calm > 1 else ""
    note = f"Thresholds and weights are computed anew.{others}"
    return doc.Table(
        columns, title="Leaving out one method", note=note, folded=len(groups) > 12, depth=PAGE
    )
