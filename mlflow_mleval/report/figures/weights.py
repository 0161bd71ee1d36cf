"""How far the weight of each measure may move before the leader, or the order, changes: ranges on one axis."""

from __future__ import annotations

import math

import pandas as pd

from mlflow_mleval.report.escape import shorten
from mlflow_mleval.report.numerals import fixed
from mlflow_mleval.report.svg import SMALL, TOP, WIDTH, Scale, Svg, fit, room_for

ROW, NOBODY = 20, "nobody"


def weight_intervals(table: pd.DataFrame) -> Svg:
    """A pale bar where the leader stays, a dark one where the whole order does, a tick at the weight; who takes over beside it.

    Of more than thirty measures those with the narrowest ranges are drawn.
    """
    width = (table["weight_high"] - table["weight_low"]).sort_values(kind="stable")
    drawn = table if len(table) <= TOP else table.loc[width.index[:TOP]]
    room = room_for(["measure", *drawn.index], 150) + 10
    x = Scale(0, 1, room, WIDTH - 178)
    words = "; ".join(f"{m}: {_range(row)}" for m, row in drawn.iterrows())
    height = 22 + ROW * len(drawn)
    svg = Svg("Weight stability", f"Range of each weight, the others rescaled, in which the leader stays. {words}.", height + 22)
    svg.text(room - 8, 12, "measure", "muted", "end")
    svg.text(WIDTH - 168, 12, "who takes the lead", "muted")
    svg.axis(x, height, 20, about=4)
    for i, (measure, row) in enumerate(drawn.iterrows()):
        y = 22 + i * ROW + ROW / 2
        svg.name(room - 8, y + 4, measure, room - 8, anchor="end")
        svg.rect(x(row.weight_low), y - 6, x(row.weight_high) - x(row.weight_low), 12, "faccent", fill_opacity=0.28,
                 tip=f"{measure}: {_range(row)}")
        a, b = x(row.order_weight_low), x(row.order_weight_high)
        svg.rect(min(a, b - 1), y - 6, max(b - a, 1), 12, "faccent")
        svg.line(x(row.weight), y - 8, x(row.weight), y + 8, "tick")
        svg.text(WIDTH - 168, y + 4, fit(_rivals(row), 168, SMALL), "small muted" if _rivals(row) == NOBODY else "small")
    return svg


def _rivals(row: pd.Series) -> str:
    """Who takes the lead beyond the ends of the range."""
    sides = (("below", row.rival_low, row.weight_low), ("above", row.rival_high, row.weight_high))
    return ", ".join(f"{shorten(m, 14)} {word} {fixed(at, 3)}" for word, m, at in sides if not pd.isna(m)) or NOBODY


def _range(row: pd.Series) -> str:
    weight, low, high = (fixed(v, 3) if math.isfinite(v) else "–" for v in (row.weight, row.weight_low, row.weight_high))
    return f"weight {weight}, leader stays from {low} to {high}, {_rivals(row)}"
