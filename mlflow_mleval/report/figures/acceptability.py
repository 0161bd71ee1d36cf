"""Rank acceptability: how often each method takes each rank when the weights are drawn at random."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from mlflow_mleval.report.figures.strips import shade
from mlflow_mleval.report.svg import TOP, WIDTH, Scale, Svg, room_for

ROW = 20


def percent(share: float) -> str:
    """A share as a percentage that never claims more certainty than there is.

    >>> [percent(s) for s in (0, 0.0004, 0.256, 0.9999, 1)]
    ['0%', '<1%', '26%', '>99%', '100%']
    """
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 < share < 1:
        return ">99%"
    return f"{share:.0%}"


def rank_acceptability(shares: pd.DataFrame) -> Svg:
    """A strip a method of the shares of its ranks (methods x ranks 1, 2, …, in order), the best at the left and strongest."""
    drawn, n = shares.iloc[:TOP], shares.shape[1]
    room = room_for(["method", *drawn.index], 150) + 10
    x = Scale(0, 1, room, WIDTH - 140)
    words = "; ".join(f"{m} first in {percent(row.iloc[0])}" for m, row in drawn.iterrows())
    svg = Svg("Rank acceptability", f"Share of random weights that give each rank: {words}.", 22 + ROW * len(drawn) + 22)
    svg.text(room - 8, 12, "method", "muted", "end")
    svg.text(WIDTH - 92, 12, "first", "muted", "end")
    svg.text(WIDTH, 12, "likely ranks", "muted", "end")
    for i, (method, row) in enumerate(drawn.iterrows()):
        y = 20 + i * ROW
        svg.name(room - 8, y + 13, method, room - 8, "strong" if i == 0 else None, "end")
        edges = np.concatenate([[0.0], np.cumsum(row.to_numpy(float))])
        for rank, (a, b) in enumerate(pairwise(edges), start=1):
            if b - a > 0.0005:
                tip = f"{method}: rank {rank} in {percent(b - a)}"
                svg.rect(x(a), y, x(b) - x(a) - 0.6, ROW - 4, "faccent", fill_opacity=shade(rank, n), tip=tip)
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
    low = int(np.searchsorted(total, 0.025 + 1e-12)) + 1
    high = int(np.searchsorted(total, 0.975 - 1e-12)) + 1
    return str(low) if low == high else f"{low}–{min(high, len(shares))}"
