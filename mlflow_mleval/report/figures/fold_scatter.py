"""The folds of one dataset: two measures as a scatter with an ellipse a method, one measure as
histograms.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from mlflow_mleval.report.figures.labels import Box, label, missed
from mlflow_mleval.report.numerals import aligned, number
from mlflow_mleval.report.svg import (
    COLOURS,
    SMALL,
    TOP,
    WIDTH,
    Scale,
    Svg,
    fit,
    room_for,
    text_width,
)

#: Methods whose folds and ellipse are drawn; of the others only the mean.
DETAILED = 8
#: Share of the fitted normal distribution inside its ellipse.
INSIDE = 0.68
HEIGHT, ROW, MARKS, BINS = 400, 26, 5, 24


def mark(
    svg: Svg, kind: int, x: float, y: float, r: float, tip: str = "", opacity: float | None = None
) -> None:
    """The mark of a method: thirty combinations of five shapes and six colours, so that colour is
    never alone.
    """
    options = {"class_": f"f{kind % COLOURS}", "tip": tip, "fill_opacity": opacity}
    shape = kind % MARKS
    if shape == 0:
        svg.dot(x, y, r, **options)
        return
    corners, turn = {1: (4, 45), 2: (3, -90), 3: (4, 0), 4: (3, 90)}[shape]
    size = r * (1.25 if corners == 4 else 1.4)
    angles = (math.radians(turn + 360 * k / corners) for k in range(corners))
    svg.path([(x + size * math.cos(a), y + size * math.sin(a)) for a in angles], **options)


def fold_scatter(
    values: pd.DataFrame, order: Sequence[str], heads: Sequence[str], title: str
) -> Svg:
    """Folds as points on two measures, the mean of each method with its name, and the ellipse of
    its fitted normal distribution.

    `values` has the index (method, fold), and a column across and one up, which `heads` name. Of
    the first eight methods of `order` the folds and the ellipse are drawn, of the next ones up to
    thirty the mean.
    """
    drawn = list(order)[:TOP]
    points = {m: values.loc[m].to_numpy(float) for m in drawn}
    means = {m: p.mean(axis=0) for m, p in points.items()}
    radius = math.sqrt(-2 * math.log(1 - INSIDE))
    spread = {m: np.cov(points[m].T) for m in drawn[:DETAILED]}
    reach = [
        means[m] + sign * radius * np.sqrt(np.diag(c))
        for m, c in spread.items()
        for sign in (-1, 1)
    ]
    everything = np.vstack([*(points[m] for m in spread), *reach, *means.values()])
    low, high = everything.min(axis=0), everything.max(axis=0)
    pad = 0.04 * np.where(high > low, high - low, np.maximum(np.abs(high), 1e-9))
    low, high = low - pad, high + pad
    words = "; ".join(f"{m} {', '.join(map(number, mean))}" for m, mean in means.items())
    svg = Svg(title, f"Means over folds of {heads[0]} and {heads[1]}: {words}.", HEIGHT)
    up = Scale(low[1], high[1], HEIGHT - 44, 24)
    ticks = [(t, number(t)) for t in up.ticks(6)]
    left = 10 + max(text_width(text, SMALL) for _, text in ticks)
    across = Scale(low[0], high[0], left, WIDTH - 12)
    bottom = HEIGHT - 44
    svg.axis(across, bottom, 24, about=6, label=number)
    for tick, text in ticks:
        svg.line(left, up(tick), across.stop, up(tick), "grid")
        svg.text(left - 6, up(tick) + 4, text, "muted small", "end")
    svg.line(left, 24, left, bottom, "axis")
    svg.text(0, 13, fit(heads[1], WIDTH), "strong")
    svg.text(across.stop, HEIGHT - 8, fit(heads[0], WIDTH - 20), "strong", "end")
    unit = np.array(
        [
            (across.stop - across.start) / (high[0] - low[0]),
            (up.stop - up.start) / (high[1] - low[1]),
        ]
    )
    taken: list[Box] = [(0, bottom, WIDTH, HEIGHT), (0, 0, left, HEIGHT), (0, 0, WIDTH, 22)]
    for kind, (m, covariance) in enumerate(spread.items()):
        svg.add(
            "path",
            d=_ellipse(
                across(means[m][0]), up(means[m][1]), radius, covariance * np.outer(unit, unit)
            ),
            class_=f"c{kind % COLOURS} thin",
        )
        for fold, (x, y) in zip(values.loc[m].index, points[m], strict=True):
            mark(
                svg, kind, across(x), up(y), 3.2, f"{m}, fold {fold}: {number(x)}, {number(y)}", 0.5
            )
    for kind, m in enumerate(drawn):
        x, y = across(means[m][0]), up(means[m][1])
        mark(svg, kind, x, y, 5.5, f"{m}: mean {number(means[m][0])}, {number(means[m][1])}")
        taken.append((x - 6, y - 6, x + 6, y + 6))
    missed(
        svg,
        sum(
            not label(svg, m, (across(means[m][0]), up(means[m][1])), taken, "small") for m in drawn
        ),
        left,
    )
    return svg


def _ellipse(cx: float, cy: float, radius: float, covariance: np.ndarray) -> str:
    """The path of an ellipse around a point."""
    sizes, axes = np.linalg.eigh(covariance)
    long, short = radius * np.sqrt(np.maximum(sizes[::-1], 0.0)) + 0.5
    dx, dy = axes[:, 1] * long
    turn = math.degrees(math.atan2(axes[1, 1], axes[0, 1]))
    arc = f"A{long:.1f} {short:.1f} {turn:.1f} 0 1"
    a, b = (f"{cx + s * dx:.1f} {cy + s * dy:.1f}" for s in (1, -1))
    return f"M{a}{arc} {b}{arc} {a}"


def fold_histogram(
    values: pd.Series, order: Sequence[str], head: str, intervals: pd.DataFrame | None = None
) -> Svg:
    """A row a method: how many of its folds fall where on one measure, their mean, and its interval
    if there is one.

    `values` has the index (method, fold), `intervals` low and high by method; the first thirty
    methods of `order` are drawn.
    """
    drawn = list(order)[:TOP]
    rows = {m: values.loc[m].to_numpy(float) for m in drawn}
    ends = np.concatenate(
        [
            *rows.values(),
            [] if intervals is None else intervals.loc[drawn, ["low", "high"]].to_numpy().ravel(),
        ]
    )
    low, high = ends.min(), ends.max()
    if high <= low:
        low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
    means = {m: float(row.mean()) for m, row in rows.items()}
    shown = dict(zip(means, aligned(means.values()), strict=True))
    words = "; ".join(map(" ".join, shown.items()))
    bottom = 24 + ROW * len(drawn)
    svg = Svg(f"Folds by {head}", f"Mean over folds: {words}.", bottom + 24)
    room = room_for([*drawn, head], 150) + 20
    x = Scale(low, high, room + 6, WIDTH - 66)
    edges = np.linspace(low, high, BINS + 1)
    svg.text(0, 12, fit(head, WIDTH - 60), "strong")
    svg.text(WIDTH, 12, "mean", "muted", "end")
    for tick in x.ticks(6):
        svg.line(x(tick), 20, x(tick), bottom, "grid")
    counts = {m: np.histogram(row, edges)[0] for m, row in rows.items()}
    most = max(int(c.max()) for c in counts.values())
    for i, m in enumerate(drawn):
        foot = 22 + ROW * (i + 1) - 3
        mark(svg, i, 8, foot - 7, 4.5)
        svg.name(18, foot - 3, m, room - 18)
        for k in np.flatnonzero(counts[m]):
            height = (ROW - 7) * counts[m][k] / most
            left, width = x(edges[k]), x(edges[k + 1]) - x(edges[k])
            tip = f"{m}: {counts[m][k]} folds from {number(edges[k])} to {number(edges[k + 1])}"
            svg.rect(
                left + 0.4,
                foot - height,
                width - 0.8,
                height,
                f"f{i % COLOURS}",
                fill_opacity=0.6,
                tip=tip,
            )
        svg.line(x.start, foot, x.stop, foot, "rule")
        if intervals is not None:
            svg.line(x(intervals.loc[m, "low"]), foot, x(intervals.loc[m, "high"]), foot, "tick")
        svg.line(x(means[m]), foot - ROW + 8, x(means[m]), foot, "tick")
        svg.text(WIDTH, foot - 3, shown[m], anchor="end")
    svg.axis(x, bottom, about=6, label=number)
    return svg
