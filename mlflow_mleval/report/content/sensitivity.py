"""How sure the ranking is: weights, random weights, other preference functions and policies,
methods left out.
"""

from itertools import starmap
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.survivals import Separations
from mlflow_mleval.naming import count
from mlflow_mleval.report import document as doc
from mlflow_mleval.report.content.best_methods import MOST, best, rows_among
from mlflow_mleval.report.content.differences import PAIRS, only_best
from mlflow_mleval.report.content.ranking import grid
from mlflow_mleval.report.content.verdict import PREFERENCES, counts_wins
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
    note,
)
from mlflow_mleval.report.figures.bump import bump
from mlflow_mleval.report.figures.weighting import rank_acceptability, weight_intervals
from mlflow_mleval.report.numerals import NONE, number, percent
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.validation import present


def section(c: Comparison) -> Section | None:
    """The fused ranking under other choices; nothing where that was not examined."""
    if c.stability is None:
        return None
    first = c.stability.acceptability.acceptability.iloc[0]
    weights = [_intervals(c), _acceptability(c)] if len(c.study.measures) > 1 else []
    hint = (
        ""
        if counts_wins(c)
        else f"{listed([first.name])} is first under {percent(first.iloc[0])} of random weights"
    )
    about = [] if c.on == FUSED else [Text(["All of this is about the fused ranking."], depth=PAGE)]
    return Section(
        "stability",
        "Stability",
        [*about, doc.Beside(weights, [_scenarios(c), *_separated(c), _left_out(c)])],
        hint,
    )


def data(c: Comparison) -> dict[str, Any]:
    found = c.stability
    if found is None:
        return {"stability": None}
    left, shares = found.leave_one_out, found.acceptability
    return {
        "stability": {
            "intervals": {
                "leaders": found.intervals.leaders,
                "measures": found.intervals.table.rename_axis("measure").reset_index(),
            },
            "dethrone": found.dethrone,
            "separations": _separations(found.separations),
            "acceptability": {
                "n_draws": shares.n_resamples,
                "seed": shares.seed,
                "shares": {
                    m: row.tolist() for m, row in shares.acceptability.iloc[:MOST, :MOST].iterrows()
                },
                "central_weights": shares.central_weights.to_dict(orient="index"),
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


def _separations(found: Separations | None, most: int | None = None) -> list[dict[str, Any]] | None:
    """By separated pair, under how many other choices it stays, and those under which it does
    not.
    """
    if found is None:
        return None
    rows, choices = [], list(found.stays.index)
    for pair in found.stays.columns[:most]:
        stays, of = found.of(pair)
        kept = found.stays[pair].to_numpy()
        lost = [
            {"varies": kind, "choice": which}
            for (kind, which), value in zip(choices, kept, strict=True)
            if value == 0
        ]
        rows.append(
            {"better": pair[0], "worse": pair[1], "stays": stays, "choices": of, "lost": lost}
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
        "One choice at a time is another: the preference function and the weights, the policy "
        "for missing results, or measures that correlate above .9, .8 or .7 left out. The same "
        "test is made each time."
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


def lost_choices(found: Separations, pair: tuple[str, str]) -> list[str]:
    """Under which other choices a pair is not separated any more, in words."""
    column = found.stays[pair]
    return [_choice(kind, which) for kind, which in column.index[column == 0]]


def _choice(kind: str, which: str) -> str:
    if kind == "filter":
        return f"measures correlated above {which.removeprefix('0')} left out"
    return (
        which
        if kind == "policy"
        else f"{PREFERENCES.get(which.split(', ')[0], which)}, {which.split(', ')[1]} weights"
    )


def _intervals(c: Comparison) -> Figure:
    found = present(c.stability).intervals
    table = found.table
    stays = "stays in the lead" if len(found.leaders) == 1 else "stay in the lead"
    caption = (
        "How far the weight of one measure may move, the others rescaled. Pale: "
        f"{listed(found.leaders, 12)} {stays}. Dark: the whole order stays. Tick: the weight now "
        f"(mean over datasets). {_smallest_shift(c)}{only_best(len(table), 'measures')}"
    )
    rivals = {
        head: table[key].astype(object).where(table[key].notna(), NONE)
        for head, key in (("leads below", "rival_low"), ("leads above", "rival_high"))
    }
    columns = [
        names("measure", table.index),
        decimals("weight", table["weight"], 3),
        decimals("leader from", table["weight_low"], 3),
        decimals("to", table["weight_high"], 3),
        *starmap(names, rivals.items()),
        decimals("order from", table["order_weight_low"], 3),
        decimals("to", table["order_weight_high"], 3),
    ]
    words = Table(columns, title="Weight ranges as a table", folded=True, depth=PAGE)
    return Figure(weight_intervals(table), caption, words, title="How far each weight may move")


def _smallest_shift(c: Comparison) -> str:
    """The smallest change of all weights together that costs the lead by net flow."""
    d = present(c.stability).dethrone
    leader = name(d.leader_by_flow)
    if d.rival is None:
        return f"No change of all weights together would cost {leader} the lead by mean net flow."
    reached = f"{name(d.rival)} reaches the mean net flow of {leader}"
    return (
        f"If all weights may move together, {reached} once {percent(float(d.distances.iloc[0]))} "
        "of the weight is moved."
    )


def _acceptability(c: Comparison) -> Figure:
    found = present(c.stability).acceptability
    shares = found.acceptability
    caption = (
        "How often each method takes each rank under weights drawn at random "
        f"({found.n_resamples:,} draws, seed {found.seed}); the stronger the colour, the better "
        "the rank. Likely ranks hold the middle 95% of the draws."
    )
    if counts_wins(c):
        caption += (
            " Of two methods this only tells which has more weight on the measures that it wins, "
            "not how sure its lead is."
        )
    held = (
        f" The best {TOP} of {len(shares):,} methods are shown; the JSON data hold the best {MOST}."
    )
    caption += held if len(shares) > MOST else only_best(len(shares))
    shown = shares.iloc[:TOP, :TOP]
    table = grid(
        shown,
        "method",
        list(map(str, shown.columns)),
        percent,
        title="Rank acceptability as a table",
    )
    return Figure(rank_acceptability(shares), caption, table, title="Ranks under random weights")


def _scenarios(c: Comparison) -> Figure | Text:
    scenarios, order = c.scenarios, c.fusion.ranking.index
    everything = pd.DataFrame(
        {_label(key): part.set_index("method")["rank"] for key, part in scenarios.items()}
    ).reindex(order)
    if counts_wins(c) and (everything.nunique(axis=1) == 1).all():
        return note(
            "Other preference functions and weights rank two methods alike: all count the "
            "measures that each wins."
        )
    chosen = next(iter(scenarios))
    changes = {
        key: sum(a != b for a, b in zip(key[1:], chosen[1:], strict=True)) for key in scenarios
    }
    drawn = everything[[_label(key) for key, n in changes.items() if n <= 1]]
    drawn.columns = [_label(chosen), *(_label(key, chosen) for key, n in changes.items() if n == 1)]
    caption = (
        "Places of the methods under the choices of this report (left), other policies for "
        "missing results, other weights and other preference functions, one change at a time. "
        "Coloured: methods that come first somewhere. A line is broken where a policy drops the "
        f"method.{only_best(len(order))}"
    )
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
    return (
        f"{shown}, {weights}"
        if chosen is None
        else shown
        if function != chosen[1]
        else f"{weights} weights"
    )


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
    more = f" {count(calm, 'other method')} may go without any reversal." if calm else ""
    about = f"Thresholds and weights are computed again without the method.{more}"
    return Table(
        columns, title="Leaving out one method", note=about, folded=len(groups) > 12, depth=PAGE
    )
