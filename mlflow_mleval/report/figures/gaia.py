"""The GAIA plane: methods as points, measures as arrows, in the two directions that hold most of
the differences.
"""

import math

import numpy as np
import pandas as pd

from mlflow_mleval.report.figures.labels import Box, label, missed
from mlflow_mleval.report.svg import TOP, WIDTH, Svg

HEIGHT = 480
#: Room for labels at both sides.
SIDE = 76


def gaia(
    methods: pd.DataFrame, measures: pd.DataFrame, decision: tuple[float, float], explained: float
) -> Svg:
    """The plane: methods in the direction of an arrow do well by that measure; arrows that point
    the same way agree.

    Both tables have two columns of coordinates; of each the first thirty rows are drawn. `decision`
    points to the better methods; `explained` is the share of the variance that the plane shows.
    """
    points, arrows = (
        _unit(methods.iloc[:TOP].to_numpy(float)),
        0.92 * _unit(measures.iloc[:TOP].to_numpy(float)),
    )
    ends = np.vstack([points, arrows, [[0.0, 0.0]]])
    (left, bottom), (right, top) = ends.min(axis=0), ends.max(axis=0)
    unit = min((WIDTH - 2 * SIDE) / (right - left or 1), (HEIGHT - 60) / (top - bottom or 1))
    height = unit * (top - bottom) + 60
    cx, cy = WIDTH / 2 - unit * (left + right) / 2, 30 + unit * top

    def at(u: float, v: float) -> tuple[float, float]:
        return cx + u * unit, cy - v * unit

    words = (
        f"The plane shows {explained:.0%} of the differences. Methods by rank: "
        f"{', '.join(map(str, methods.index[:TOP]))}."
    )
    svg = Svg("GAIA plane", words, height)
    svg.line(cx, 4, cx, height - 4, "grid")
    svg.line(4, cy, WIDTH - 4, cy, "grid")
    places = dict(zip(methods.index[:TOP], (at(*p) for p in points), strict=True))
    tips = dict(zip(measures.index[:TOP], (at(*p) for p in arrows), strict=True))
    taken: list[Box] = [(px - 5, py - 5, px + 5, py + 5) for px, py in places.values()]
    for tx, ty in tips.values():
        svg.line(cx, cy, tx, ty, "arrow")
        svg.dot(tx, ty, 1.8, "fgrey")
    size = math.hypot(*decision)
    if size > 0:
        dx, dy = at(0.7 * decision[0] / size, 0.7 * decision[1] / size)
        svg.line(cx, cy, dx, dy, "leader decision-axis")
        svg.dot(dx, dy, 3.5, "faccent decision-axis")
        label(svg, "decision axis", (dx, dy), taken, "strong small decision-axis")
    shown = []
    for i, (method, place) in enumerate(places.items()):
        svg.dot(place[0], place[1], 4.5, "faccent" if i == 0 else "fgrey", tip=method)
        shown.append(label(svg, method, place, taken, "strong" if i == 0 else ""))
    shown += [label(svg, measure, tip, taken, "muted small") for measure, tip in tips.items()]
    missed(svg, shown.count(False), 4)
    return svg


def _unit(vectors: np.ndarray) -> np.ndarray:
    """So that the longest has length 1."""
    return vectors / (float(np.hypot(*vectors.T).max(initial=0.0)) or 1.0)
