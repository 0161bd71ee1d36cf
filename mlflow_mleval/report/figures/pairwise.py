"""The pairwise matrix, after the Multi-Comparison Matrix of Ismail-Fawaz et al. (2023): every pair
in a cell.
"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from mlflow_mleval.naming import count
from mlflow_mleval.report.numerals import MINUS, fixed, number, pvalue
from mlflow_mleval.report.svg import SMALL, TOP, WIDTH, Svg, room_for, text_width

CELL = 46
#: Room for a name beside its row, and for the key of the cells.
NAME, KEY = 170, 140
#: Differences smaller than this are float noise.
NOISE = 1e-12


def pairwise_matrix(pairs: pd.DataFrame, order: Sequence[str], p: str) -> Svg:
    """A staircase of cells, a pair each: a method's row lies to the right of its name, its column
    above it.

    A cell says how much better the method of its row is than that of its column: mean difference,
    wins/ties/losses over the datasets, p-value (the column `p`); with many methods only the sign.
    Blue: better by mean difference, orange: worse; the stronger the effect, the stronger the
    colour. A frame marks pairs that are separated. Pairs that were not compared may lack; of more
    than thirty methods in `order`, best first, thirty are drawn.
    """
    methods = list(order[:TOP])
    place = {m: i for i, m in enumerate(methods)}
    pairs = pairs[pairs["method_a"].isin(place) & pairs["method_b"].isin(place)]
    n = len(methods)
    room = max(room_for(methods[:1], 138) + 12, 60)
    cell = min(CELL, (WIDTH - room - 4) / max(n - 1, 1))
    size = pairs["mean_difference"].abs().max()
    decimals = max(0, 1 - math.floor(math.log10(size))) if size > NOISE else 0
    lines = {
        (r.method_a, r.method_b): _lines(r, getattr(r, p), decimals) for r in pairs.itertuples()
    }
    widest = max((text_width(t, SMALL) for texts in lines.values() for t in texts), default=0)
    detailed = widest <= cell - 1 and cell >= 40
    apart = "; ".join(
        f"{r.method_a} and {r.method_b}, {pvalue(getattr(r, p))}"
        for r in pairs[pairs["separated"]].itertuples()
    )
    height = cell * (n - 1) + 20
    svg = Svg(
        "Pairwise matrix",
        f"{count(len(pairs), 'pair')} of methods. Separated: {apart or 'none'}.",
        max(height, 104),
    )
    for row in pairs.itertuples():
        i, j = place[row.method_a], place[row.method_b]
        x, y = room + (j - 1) * cell, 2 + i * cell
        words = (
            f"{row.method_a} against {row.method_b}: mean difference "
            f"{number(row.mean_difference)}, {row.wins} wins, "
        )
        words += (
            f"{row.ties} ties, {row.losses} losses, "
            f"{pvalue(getattr(row, p))}{', separated' if row.separated else ''}"
        )
        svg.rect(
            x + 0.5,
            y + 0.5,
            cell - 1,
            cell - 1,
            "fpos" if row.mean_difference >= 0 else "fneg",
            fill_opacity=0.06 + 0.3 * min(abs(row.effect_size), 1),
            tip=words,
        )
        texts = (
            lines[row.method_a, row.method_b] if detailed else [_sign(row.mean_difference) or "0"]
        )
        first = y + cell / 2 + 4 - (len(texts) - 1) * 7
        for k, text in enumerate(texts):
            style = "small strong" if k == 0 or (k == 2 and row.separated) else "small"
            svg.text(x + cell / 2, first + 14 * k, text, style, "middle", pointer_events="none")
        if row.separated:
            svg.rect(x + 1.5, y + 1.5, cell - 3, cell - 3, "sep", pointer_events="none")
    for i, method in enumerate(methods):
        x = room + i * cell - 6
        y = 2 + i * cell + cell / 2 + 4 if i < n - 1 else height - 5
        svg.name(x, y, method, min(x - 2, NAME), "strong" if i == 0 else None, "end")
    if detailed and (n - 2) * cell > NAME + KEY:
        _key(svg, room, height)
    return svg


def _key(svg: Svg, x: float, height: float) -> None:
    """What the lines of a cell are, in the empty corner."""
    y = height - CELL - 6
    svg.rect(x - 20, y, CELL - 1, CELL - 1, "fpale")
    for k, (cell, meaning) in enumerate(
        [("+0.10", "mean difference"), ("6/1/4", "won/tied/lost"), (".012", "p-value")]
    ):
        svg.text(
            x - 20 + CELL / 2,
            y + 13 + 14 * k,
            cell,
            "small strong" if k == 0 else "small",
            "middle",
        )
        svg.text(x + CELL - 14, y + 13 + 14 * k, meaning, "small muted")


def _lines(row: Any, p: float, decimals: int) -> list[str]:
    """Mean difference with its sign, wins/ties/losses, p-value: what a cell has room for."""
    difference = _sign(row.mean_difference) + fixed(abs(row.mean_difference), decimals)
    return [difference, f"{row.wins}/{row.ties}/{row.losses}", pvalue(p, bare=True)]


def _sign(value: float) -> str:
    return "" if abs(value) <= NOISE else "+" if value > 0 else MINUS
