"""The GAIA plane: methods as points, measures as arrows, in the two directions that hold most of the differences."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from mlflow_mleval.report.svg import BOLD, SIZE, SMALL, TOP, WIDTH, Svg, fit, text_width

HEIGHT = 480
#: Room for labels at both sides.
SIDE = 76
LINE = 14
Box = tuple[float, float, float, float]


def gaia(methods: pd.DataFrame, measures: pd.DataFrame, decision: tuple[float, float], explained: float) -> Svg:
    """Draw the plane: methods in the direction of an arrow do well by that measure; arrows that point the same way agree.

    Parameters
    ----------
    methods : pandas.DataFrame
        Two columns of coordinates, methods in order of rank; of more than thirty the first thirty are drawn.
    measures : pandas.DataFrame
        Two columns of coordinates.
    decision : tuple of float
        The weighted sum of the measures' directions: towards the better methods.
    explained : float
        Share of the variance that the plane shows.
    """
    points, arrows = methods.iloc[:TOP].to_numpy(float), measures.iloc[:TOP].to_numpy(float)
    points, arrows = points / _longest(points), 0.92 * arrows / _longest(arrows)
    ends = np.vstack([points, arrows, [[0.0, 0.0]]])
    (left, bottom), (right, top) = ends.min(axis=0), ends.max(axis=0)
    unit = min((WIDTH - 2 * SIDE) / (right - left or 1), (HEIGHT - 60) / (top - bottom or 1))
    height = unit * (top - bottom) + 60
    cx, cy = WIDTH / 2 - unit * (left + right) / 2, 30 + unit * top

    def at(u: float, v: float) -> tuple[float, float]:
        return cx + u * unit, cy - v * unit

    svg = Svg(
        "GAIA plane",
        f"The plane shows {explained:.0%} of the differences. Methods by rank: {', '.join(map(str, methods.index[:TOP]))}.",
        height,
    )
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
        svg.line(cx, cy, dx, dy, "leader")
        svg.dot(dx, dy, 3.5, "faccent")
        _label(svg, "decision axis", (dx, dy), taken, "strong small")
    shown = []
    for i, (method, place) in enumerate(places.items()):
        svg.dot(*place, 4.5, "faccent" if i == 0 else "fgrey", tip=method)
        shown.append(_label(svg, method, place, taken, "strong" if i == 0 else ""))
    shown += [_label(svg, measure, tip, taken, "muted small") for measure, tip in tips.items()]
    if not all(shown):
        svg.text(4, height - 6, f"no room for {shown.count(False)} names: see the table", "small muted halo")
    return svg


def _longest(vectors: np.ndarray) -> float:
    return float(np.hypot(*vectors.T).max(initial=0.0)) or 1.0


def _label(svg: Svg, name: str, point: tuple[float, float], taken: list[Box], class_: str) -> bool:
    """Write the name at the nearest free place around its point, with a thin line if that is not beside it; if there is one."""
    size = (SMALL if "small" in class_ else SIZE) * (BOLD if "strong" in class_ else 1)
    shown = fit(name, 150, size)
    width = text_width(shown, size)
    for far, (x, y) in _around(point, width):
        box = (x - 1, y - LINE + 3, x + width + 1, y + 3)
        inside = box[0] >= 2 and box[2] <= WIDTH - 2 and box[1] >= 2 and box[3] <= svg.height - 2
        if inside and not any(box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3] for o in taken):
            taken.append(box)
            if far > 20:
                near = min(max(point[0], x), x + width), min(max(point[1], box[1]), box[3])
                svg.line(*point, *near, "rule")
            svg.text(x, y, shown, f"{class_} halo", tip=name if shown != name else "")
            return True
    return False


def _around(point: tuple[float, float], width: float) -> Iterator[tuple[float, tuple[float, float]]]:
    """Places for a text of this width, the nearest first: distance and the start of its baseline."""
    for far in (9, 14, 24, 36, 50, 66, 84, 104, 130, 160, 200):
        for degrees in (0, 180, 30, -30, 150, -150, 60, -60, 120, -120, 90, -90):
            dx, dy = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            x = point[0] + far * dx + (0 if dx > 0.3 else -width if dx < -0.3 else -width / 2)
            yield far, (x, point[1] + far * dy + 4)
