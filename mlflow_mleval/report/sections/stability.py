"""How sure the ranking is: weights, random weights, other preference functions and policies, methods left out."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.report.blocks import Column, Columns, Figure, Section, Table, Text, name, names
from mlflow_mleval.report.escape import NONE, fixed, number
from mlflow_mleval.report.figures.acceptability import percent, rank_acceptability
from mlflow_mleval.report.figures.bump import bump
from mlflow_mleval.report.figures.weights import weight_intervals
from mlflow_mleval.report.sections.base import Report, grid, left_out
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.report.words import PREFERENCES, count, listed


def section(report: Report) -> Section | None:
    """The fused ranking under other choices; nothing where that was not examined."""
    c = report.comparison
    if c.stability is None:
        return None
    first = c.stability.acceptability.acceptability.iloc[0]
    weights = [_intervals(c), _acceptability(c)] if len(c.study.measures) > 1 else []
    hint = f"{listed([first.name])} is first under {percent(first.iloc[0])} of random weights"
    about = [] if c.on == FUSED else [Text(["All of this is about the fused ranking."])]
    return Section("stability", "Stability", [*about, Columns(weights, [_sensitivity(c), _left_out(c)])], hint=hint)


def _intervals(c: Comparison) -> Figure:
    found = c.stability.intervals
    table = found.table
    caption = (
        "How far the weight of one measure may move, the others rescaled. Pale: "
        + names(found.leaders)
        + (" stays in the lead" if len(found.leaders) == 1 else " stay in the lead")
        + ". Dark: the whole order stays. Tick: the weight now (mean over datasets). "
        + _smallest_shift(c)
        + " "
        + left_out(len(table), "measures")
    )
    rows = [
        [name(m), fixed(r.weight, 3), fixed(r.weight_low, 3), fixed(r.weight_high, 3), _rival(r.rival_low), _rival(r.rival_high),
         fixed(r.order_weight_low, 3), fixed(r.order_weight_high, 3)]
        for m, r in table.iterrows()
    ]  # fmt: skip
    columns = [
        Column("measure", "left"), Column("weight"), Column("leader from"), Column("to"), Column("leads below", "left"),
        Column("leads above", "left"), Column("order from"), Column("to"),
    ]  # fmt: skip
    words = Table(columns, rows, title="Weight ranges as a table", folded=True)
    return Figure(weight_intervals(table), caption, words, title="How far each weight may move")


def _rival(rival: object) -> object:
    return NONE if pd.isna(rival) else name(rival)


def _smallest_shift(c: Comparison) -> Markup:
    """The smallest change of all weights together that costs the lead by net flow."""
    d = c.stability.dethrone
    leader = name(d.leader_by_flow)
    if d.rival is None:
        return "No change of all weights together would cost " + leader + " the lead by mean net flow."
    share = percent(float(d.distances.iloc[0]))
    return (
        "If all weights may move together, " + name(d.rival) + " reaches the mean net flow of " + leader
        + f" once {share} of the weight is moved."
    )  # fmt: skip


def _acceptability(c: Comparison) -> Figure:
    found = c.stability.acceptability
    shares = found.acceptability
    caption = (
        f"How often each method takes each rank under weights drawn at random ({found.n_draws:,} draws, seed {found.seed}); "
        "the stronger the colour, the better the rank. Likely ranks hold the middle 95% of the draws. "
        f"{left_out(len(shares))}"
    )
    shown = shares.iloc[:TOP, :TOP]
    columns = [Column(str(rank)) for rank in shown.columns]
    table = grid(shown, "method", columns, percent, title="Rank acceptability as a table", folded=True)
    return Figure(rank_acceptability(shares), caption, table, title="Ranks under random weights")


def _sensitivity(c: Comparison) -> Figure:
    found = c.stability.sensitivity
    scenarios, order = c.scenarios, c.fusion.ranking.index
    everything = pd.DataFrame({_label(key): part.set_index("method")["rank"] for key, part in scenarios.items()}).reindex(order)
    chosen = next(iter(scenarios))
    drawn = everything[[_label(key) for key in scenarios if _changes(key, chosen) <= 1]]
    drawn.columns = [_label(chosen), *(_change(key, chosen) for key in scenarios if _changes(key, chosen) == 1)]
    caption = (
        "Places of the methods under the choices of this report (left), other policies for missing results, other weights and "
        "other preference functions, one change at a time. Coloured: methods that come first somewhere. A line is broken where "
        f"a policy drops the method. {left_out(len(order))}"
    )
    if found.impossible:
        caption += " Not possible: " + "; ".join(f"{policy} ({why})" for policy, why in found.impossible.items())
    columns = [Column(label) for label in everything.columns]
    table = grid(everything.iloc[:TOP], "method", columns, number, folded=True,
                 title=f"All {len(scenarios)} combinations as a table")
    return Figure(bump(drawn), caption, table, title="The ranking under other choices")


def _changes(key: tuple[str, ...], chosen: tuple[str, ...]) -> int:
    """In how many things it differs from the choices of the report."""
    return sum(a != b for a, b in zip(key[1:], chosen[1:], strict=True))


def _change(key: tuple[str, str, str, str], chosen: tuple[str, str, str, str]) -> str:
    """The one thing in which it differs."""
    varies, function, weights, missing = key
    if varies == "policy":
        return missing
    return PREFERENCES.get(function, function) if function != chosen[1] else f"{weights} weights"


def _label(key: tuple[str, str, str, str]) -> str:
    varies, function, weights, missing = key
    return missing if varies == "policy" else f"{PREFERENCES.get(function, function)}, {weights}"


def _left_out(c: Comparison) -> Table | Text:
    found = c.stability.leave_one_out
    if found is None or found.reversals.empty:
        why = "no two others change places" if found is not None else "it takes at least three methods"
        return Text([f"Leaving out one method at a time: {why}."], role="note")
    rows = []
    for out, part in list(found.reversals.groupby("left_out", sort=False))[:TOP]:
        turned = [name(r.behind, 20) + " before " + name(r.ahead, 20) for r in part.itertuples()]
        more = f" and {len(turned) - 3} more" if len(turned) > 3 else ""
        rows.append([name(out), name(found.winners[out]), number(len(part)), Markup(", ").join(turned[:3]) + more])
    columns = [Column("without", "left"), Column("leader", "left"), Column("reversals"), Column("which pairs turn round", "wrap")]
    calm = len(found.ranks) - found.reversals["left_out"].nunique()
    note = "Thresholds and weights are computed again without the method. " + (
        f"{count(calm, 'other method')} may go without any reversal." if calm else ""
    )
    return Table(columns, rows, title="Leaving out one method", note=note, folded=len(rows) > 12)
