"""Other weights: how often each method takes each rank, and how far a weight may move before the
leader or the order changes.
"""

import math
from itertools import pairwise

import numpy as np
import pandas as pd

from mlflow_mleval.report.escape import shorten
from mlflow_mleval.report.figures.strips import shade
from mlflow_mleval.report.numerals import fixed
from mlflow_mleval.report.svg import SMALL, TOP, WIDTH, Scale, Svg, fit, room_for

ROW, NOBODY = 20, "nobody"
#: Pieces of a strip; more ranks share pieces.
PIECES = 60


def percent(share: float) -> str:
    """A share as a percentage that never claims more certainty than there is.

    >>> [percent(s) for s in (0, 0.0004, 0.256, 0.9999, 1)]
    ['0%', '<1%', '26%', '>99%', '100%']
    """
    return "<1%" if 0 < share < 0.005 else ">99%" if 0.995 < share < 1 else f"{share:.0%}"


def rank_acceptability(shares: pd.DataFrame) -> Svg:
    """A strip a method of the shares of its ranks (methods x ranks 1, 2, …, in order), the best at
    the left and strongest.
    """
    drawn, n = shares.iloc[:TOP], shares.shape[1]
    room = room_for(["method", *drawn.index], 150) + 10
    x = Scale(0, 1, room, WIDTH - 140)
    words = "; ".join(f"{m} first in {percent(row.iloc[0])}" for m, row in drawn.iterrows())
    svg = Svg(
        "Rank acceptability",
        f"Share of random weights that give each rank: {words}.",
        22 + ROW * len(drawn) + 22,
    )
    svg.text(room - 8, 12, "method", "muted", "end")
    svg.text(WIDTH - 92, 12, "first", "muted", "end")
    svg.text(WIDTH, 12, "likely ranks", "muted", "end")
    for i, (method, row) in enumerate(drawn.iterrows()):
        y = 20 + i * ROW
        svg.name(room - 8, y + 13, method, room - 8, "strong" if i == 0 else None, "end")
        edges = np.concatenate([[0.0], np.cumsum(row.to_numpy(float))])
        for first, last in pairwise([*range(0, n, math.ceil(n / PIECES)), n]):
            a, b, rank = edges[first], edges[last], (first + last + 1) / 2
            if b - a > 0.0005:
                tip = (
                    f"{method}: rank {first + 1}{f' to {last}' if last > first + 1 else ''} in "
                    f"{percent(b - a)}"
                )
                svg.rect(
                    x(a),
                    y,
                    x(b) - x(a) - 0.6,
                    ROW - 4,
                    "faccent",
                    fill_opacity=shade(rank, n),
                    tip=tip,
                )
        svg.text(WIDTH - 92, y + 13, percent(row.iloc[0]), anchor="end")
        svg.text(WIDTH, y + 13, likely(row.to_numpy(float)), "muted", "end")
    svg.axis(x, 22 + ROW * len(drawn), about=4, label=lambda t: f"{t:.0%}")
    return svg


def likely(shares: np.ndarray) -> str:
    """The central ranks that hold 95% of the draws, as "2–5".

    >>> likely(np.array([0.0, 0.5, 0.5, 0.0]))
    '2–3'
    """
    total = np.cumsum(shares)
    low, high = (np.searchsorted(total, [0.025 + 1e-12, 0.975 - 1e-12]) + 1).tolist()
    return str(low) if low == high else f"{low}–{min(high, len(shares))}"


def weight_intervals(table: pd.DataFrame) -> Svg:
    """A pale bar where the leader stays, a dark one where the whole order does, a tick at the
    weight; who takes over beside it.

    Of more than thirty measures those with the narrowest ranges are drawn.
    """
    width = (table["weight_high"] - table["weight_low"]).sort_values(kind="stable")
    drawn = table if len(table) <= TOP else table.loc[width.index[:TOP]]
    room = room_for(["measure", *drawn.index], 150) + 10
    x = Scale(0, 1, room, WIDTH - 178)
    words = "; ".join(f"{m}: {_range(row)}" for m, row in drawn.iterrows())
    height = 22 + ROW * len(drawn)
    svg = Svg(
        "Weight stability",
        f"Range of each weight, the others rescaled, in which the leader stays. {words}.",
        height + 22,
    )
    svg.text(room - 8, 12, "measure", "muted", "end")
    svg.text(WIDTH - 168, 12, "who takes the lead", "muted")
    svg.axis(x, height, 20, about=4)
    for i, (measure, row) in enumerate(drawn.iterrows()):
        y = 22 + i * ROW + ROW / 2
        svg.name(room - 8, y + 4, measure, room - 8, anchor="end")
        svg.rect(
            x(row.weight_low),
            y - 6,
            x(row.weight_high) - x(row.weight_low),
            12,
            "faccent",
            fill_opacity=0.28,
            tip=f"{measure}: {_range(row)}",
        )
        a, b = x(row.order_weight_low), x(row.order_weight_high)
        svg.rect(min(a, b - 1), y - 6, max(b - a, 1), 12, "faccent")
        svg.line(x(row.weight), y - 8, x(row.weight), y + 8, "tick")
        svg.text(
            WIDTH - 168,
            y + 4,
            fit(_rivals(row), 168, SMALL),
            "small muted" if _rivals(row) == NOBODY else "small",
        )
    return svg


def _rivals(row: pd.Series) -> str:
    """Who takes the lead beyond the ends of the range."""
    sides = (("below", row.rival_low, row.weight_low), ("above", row.rival_high, row.weight_high))
    return (
        ", ".join(
            f"{shorten(m, 14)} {word} {fixed(at, 3)}" for word, m, at in sides if not pd.isna(m)
        )
        or NOBODY
    )


def _range(row: pd.Series) -> str:
    weight, low, high = (
        fixed(v, 3) if math.isfinite(v) else "–"
        for v in (row.weight, row.weight_low, row.weight_high)
    )
    return f"weight {weight}, leader stays from {low} to {high}, {_rivals(row)}"
