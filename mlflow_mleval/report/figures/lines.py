"""Lines and scatters drawn: loss profiles, folds, and curves of scores."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.report.figures import (
    BOLD,
    COLOURS,
    SIZE,
    WIDTH,
    Point,
    Scale,
    Svg,
    fit,
    label_points,
    left_ticks,
    room_for,
    scatter,
    spread,
    text_width,
)
from mlflow_mleval.report.figures import TOP as svg_TOP
from mlflow_mleval.report.text import aligned, number

DETAILED = 8  #: methods whose folds and ellipse are drawn; of the others only the mean
INSIDE = 0.68  #: share of the fitted normal distribution inside its ellipse
HEIGHT = 400


def fold_scatter(
    values: pd.DataFrame, order: Sequence[str], heads: Sequence[str], title: str
) -> Svg:
    """Folds as points on two measures, the columns of `values`, the mean of each method with its
    name, and the ellipse of its fitted normal distribution."""
    detailed, by_method = [*order[:DETAILED]], values.groupby(level=0)
    means = by_method.mean().loc[[*order[:svg_TOP]]]
    radius = math.sqrt(-2 * math.log(1 - INSIDE))
    centre, reach = means.loc[detailed], radius * by_method.std().loc[detailed]
    drawn = np.vstack([values.loc[detailed], centre - reach, centre + reach, means])
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    pad = 0.04 * np.where(high > low, high - low, np.maximum(np.abs(high), 1e-9))
    told = "; ".join(f"{m} {number(x)}, {number(y)}" for m, x, y in means.itertuples())
    words = f"Means over folds of {heads[0]} and {heads[1]}: {told}."
    ends = np.column_stack([low - pad, high + pad]).tolist()
    svg, across, up, taken = scatter(title, words, HEIGHT, ends, heads)
    places = {m: (across(x), up(y)) for m, x, y in means.itertuples()}
    units = np.array([across(1) - across(0), up(1) - up(0)])
    for kind, m in enumerate(detailed):
        folds = values.loc[m]
        ellipse = _ellipse(places[m], radius, np.cov(folds.T) * np.outer(units, units))
        svg.add("path", d=ellipse, class_=f"c{kind % COLOURS} thin")
        for _, x, y in folds.itertuples():
            svg.dot(across(x), up(y), 3.2, f"f{kind % COLOURS}", fill_opacity=0.5)
    for kind, at in enumerate(places.values()):
        svg.dot(*at, 5.5, f"f{kind % COLOURS}")
    label_points(svg, places, taken, across.start)
    return svg


def _ellipse(centre: Point, radius: float, covariance: np.ndarray) -> str:
    sizes, axes = np.linalg.eigh(covariance)
    long, short = radius * np.sqrt(np.maximum(sizes[::-1], 0.0)) + 0.5
    turn = math.degrees(math.atan2(axes[1, 1], axes[0, 1]))
    arc = f"A{long:.1f} {short:.1f} {turn:.1f} 0 1"
    a, b = ("{:.1f} {:.1f}".format(*(centre + sign * axes[:, 1] * long)) for sign in (1, -1))
    return f"M{a}{arc} {b}{arc} {a}"


# --------------------------------------------------------------------------------------------------
# Loss profiles: all methods on a dataset, and pairs as ratios over datasets.

#: What the parameter of a family says.
AXES = {
    "binomial": "k: labels that have to be right together",
    "polynomial": "α: 1 is the Hamming loss, large values come near the subset 0/1 loss",
}
#: How the parameter is called.
SYMBOLS = {"binomial": "k", "polynomial": "α"}
#: The same for several datasets at once.
POSITIONS = AXES | {"binomial": "(k−1)/(K−1): from Hamming loss (0) to subset 0/1 loss (1)"}
_DASHES = (None, "7 3", "2 3", "9 3 2 3", "1 3", "5 2")
#: Line styles, each for as many lines as there are colours, so that colour is never alone.
DASHES = [dash for dash in _DASHES[:5] for _ in range(COLOURS)]
LINE = 15
#: A panel of ratios: its width, the gap beside it, the height of its plot.
PANEL, GAP, PLOT = 292, 16, 132
NAMED = 9  #: lines of a panel that are named
_BETTER = BOLD * text_width("↑  better")
LARGEST_RATIO = 100.0  #: ratios are drawn up to this, and down to one over it


def profile_lines(curves: pd.DataFrame, family: str, title: str) -> Svg:
    """Loss against the parameter of the family (k linear, α logarithmic), a line a method, named at
    its end; `curves` has the index (method, parameter), best first; low and high may be NaN."""
    methods = curves.index.unique(0)[:svg_TOP]
    bands = len(methods) <= DETAILED
    drawn = curves.loc[[*methods], ["loss", "low", "high"] if bands else ["loss"]]
    low, high = np.nanmin(drawn), np.nanmax(drawn)
    bottom, room = max(290, LINE * len(methods) + 12), room_for(methods, 150)
    y = Scale(low, max(high, low + 1e-9), bottom, 10)
    ticks, wide = left_ticks(y)
    along = np.asarray if family == "binomial" else np.log10
    last = drawn.index.get_level_values(1).max()
    first, end = along([1.0, max(last, 1 + 1e-9)])
    at = Scale(first, end, 8 + wide, WIDTH - room - 32)
    ends = drawn["loss"].groupby(level=0, sort=False).agg(["first", "last"])
    told = "; ".join(f"{m} from {number(a)} to {number(b)}" for m, a, b in ends.itertuples())
    span = f"{SYMBOLS[family]} = 1 to {number(last)}"
    words = f"{family.capitalize()} loss for {span}: {told}. 0 is best."
    svg = Svg(title, words, bottom + 42)
    svg.side_axis(y, ticks, at.start, at.stop)
    svg.axis(at, bottom, ticks=_ticks(at, family))
    svg.text(WIDTH / 2, bottom + 36, AXES[family], "muted", "middle")
    places = spread([*map(y, ends["last"])], LINE, 10, bottom)
    for kind, (m, place) in enumerate(zip(methods, places, strict=True)):
        part = drawn.loc[m]
        across, heights = at(along(part.index.to_numpy(float))), y(part)
        if bands and part["low"].notna().all():
            edge = zip(across, heights["high"], strict=True)
            back = zip(across[::-1], heights["low"][::-1], strict=True)
            svg.path([*edge, *back], f"f{kind % COLOURS}", fill_opacity=0.13)
        points = list(zip(across, heights["loss"], strict=True))
        style = f"c{kind % COLOURS} {'thick' if bands else 'thin'}"
        svg.path(points, style, tip=m, stroke_dasharray=DASHES[kind % len(DASHES)])
        _add_name(svg, kind, m, points[-1], (at.stop, place), room)
    return svg


def _add_name(svg: Svg, kind: int, name: str, point: Point, end: Point, room: float) -> None:
    """The name of a line beside its end, with a thin line from there."""
    x, y = end
    svg.path(
        [(point[0] + 1, point[1]), (x + 3, point[1]), (x + 13, y)],
        f"c{kind % COLOURS} thin",
        stroke_opacity=0.6,
    )
    svg.dot(x + 18, y, 4, f"f{kind % COLOURS}")
    svg.name(x + 27, y + 4, name, room)


def _ticks(at: Scale, family: str) -> list[tuple[float, str]]:
    """Values and numbers: k = 1, K and round ones between; powers of ten for α."""
    if family == "polynomial":
        return [(t, f"{10**t:g}") for t in range(math.floor(at.high + 1e-9) + 1)]
    last = round(at.high)
    inside = [
        t
        for t in at.ticks(6)
        if t == int(t) and 1 < t < last and at(t) - at(1) > 20 and at.stop - at(t) > 24
    ]
    return [(t, f"{t:g}") for t in dict.fromkeys((1, *inside, last))]


def ratio_panels(
    ratios: pd.DataFrame,
    crossings: pd.DataFrame,
    pairs: Sequence[tuple[str, str]],
    family: str,
    title: str,
) -> Svg:
    """A panel a pair: the second's loss over the first's, a line a dataset, a circle a crossing.
    `ratios` has the index (dataset, method_a, method_b, parameter), `pairs` go either way round."""
    kinds = {dataset: i for i, dataset in enumerate(ratios.index.unique("dataset"))}
    across = min(2, len(pairs))
    tall = PLOT + LINE + 58
    both = pd.concat([ratios, ratios.assign(ratio=1 / ratios["ratio"]).swaplevel(1, 2)])
    words = "Ratio of losses from Hamming to subset 0/1, above 1 the first is better."
    svg = Svg(title, words, -(-len(pairs) // across) * tall + 10)
    ticks = [(0.0, "0"), (0.5, "0.5"), (1.0, "1")]
    if family == "polynomial":
        last = float(ratios.index.get_level_values("parameter").max())
        along = Scale(0, math.log10(last) if last > 1 else 1.0, 0, 1)
        ticks = [(along(value), text) for value, text in _ticks(along, family)]
    wide, room = PANEL if across == 2 else WIDTH, room_for(kinds, 84)
    for i, pair in enumerate(pairs):
        left, top = (i % across) * (PANEL + GAP), (i // across) * tall
        for row, arrow, method in zip((0, 1), "↑↓", pair, strict=True):
            said = f"{arrow} {fit(method, wide - _BETTER, SIZE * BOLD)} better"
            svg.text(left, top + 13 + LINE * row, said, "strong", tip=method)
        here = crossings[crossings[["method_a", "method_b"]].isin(pair).all(axis=1)]
        x = Scale(0, 1, left + 36, left + wide - room - 32)
        svg.desc += f" {pair[1]} against {pair[0]}: "
        lines = both.xs(pair, level=(1, 2))
        _panel(svg, kinds, lines, here, x, top + 24 + LINE, room, ticks)
    svg.text(WIDTH / 2, svg.height - 4, POSITIONS[family], "muted", "middle")
    return svg


class _Ratios(Scale):
    """A scale of ratios, on which twice and half lie equally far from 1."""

    def __call__(self, value: Any) -> Any:
        return super().__call__(np.log(value))

    def ticks(self, about: int = 4) -> list[float]:
        """Round ratios with room between them, 1 among them."""
        low, high = math.exp(self.low), math.exp(self.high)
        chosen = [t for t in Scale(low, high, 0, 1).ticks(about) if t > 0]
        if high / low >= 4:
            rounds = np.outer([0.001, 0.01, 0.1, 1.0, 10.0, 100.0], [1, 2, 5]).ravel()
            chosen = rounds[(rounds >= low) & (rounds <= high)].tolist()
        kept = [1.0]
        for value in sorted(chosen, key=lambda value: abs(math.log(value))):
            if all(abs(self(value) - self(k)) >= LINE for k in kept):
                kept.append(value)
        return kept


def _panel(
    svg: Svg,
    kinds: Mapping[str, int],
    lines: pd.DataFrame,
    crossings: pd.DataFrame,
    x: Scale,
    head: float,
    room: float,
    ticks: Sequence[tuple[float, str]],
) -> None:
    """One pair: its lines, the line at 1, its crossings, names of datasets at the right."""
    drawn = lines.dropna(subset="ratio")
    ratio = drawn["ratio"].clip(1 / LARGEST_RATIO, LARGEST_RATIO)
    low, high = min(-0.05, np.log(ratio).min()), max(0.05, np.log(ratio).max())
    y = _Ratios(low, high, head + PLOT, head)
    for value in y.ticks():
        svg.level(y(value), x.start, x.stop, "axis" if value == 1 else "grid")
        svg.text(x.start - 5, y(value) + 4, number(value), "muted small", "end")
    for value, text in ticks:
        svg.upright(x(value), y.start, y.start + 4, "axis")
        svg.text(x(value), y.start + 16, text, "muted small", "middle")
    ends: dict[str, Point] = {}
    places = drawn.assign(x=x(drawn["position"]), y=y(ratio))
    told = []
    for d, line in places.groupby(level=0, sort=False):
        points = [*zip(line["x"], line["y"], strict=True)]
        ends[d] = points[-1]
        style, dash = f"c{kinds[d] % COLOURS} thin", DASHES[kinds[d] % len(DASHES)]
        svg.path(points, style, tip=d, stroke_dasharray=dash)
        told.append(" to ".join(number(line["ratio"].iloc[i], 3) for i in (0, -1)))
    svg.desc += f"{', '.join(map('{} {}'.format, ends, told))}."
    for row in crossings.itertuples():
        style = f"c{kinds[row.dataset] % COLOURS} fbg"
        svg.dot(x(row.position), y(1), 3.6, style, stroke_width=1.6)
    named = sorted(ends, key=lambda d: -abs(ends[d][1] - y(1)))[:NAMED]
    heights = spread([ends[d][1] for d in named], LINE - 1, y.stop - 4, y.start + 2)
    for d, place in zip(named, heights, strict=True):
        _add_name(svg, kinds[d], d, ends[d], (x.stop, place), room)


SCORE_CURVES_NAMED = 5  #: curves that are drawn beside the one of all label cells
SCORE_CURVES_HEIGHT = 358
_SHARES = ((0.0, 1.0), (0.0, 1.0))
TOP = 12
SCORE_CURVES_LINE = 17


def score_curves(
    lines: Mapping[str, tuple[np.ndarray, float]],
    axes: tuple[str, str, str],
    title: str,
    diagonal: bool = False,
) -> Svg:
    """Curves (P, 2) in the unit square, each with its name and area at the right: the first is
    thick. `axes` say what lies across, up, and what the areas are called."""
    *heads, called = axes
    areas = dict(zip(lines, aligned([area for _, area in lines.values()], 3), strict=True))
    room = room_for(lines, 170)
    right = WIDTH - room - max(map(text_width, areas.values())) - 56
    words = f"{heads[1]} against {heads[0].lower()}; {called}: "
    words += f"{', '.join(map(' '.join, areas.items()))}."
    svg, x, y, _ = scatter(title, words, SCORE_CURVES_HEIGHT, _SHARES, heads, right=right)
    if diagonal:
        svg.line(x(0), y(0), x(1), y(1), "axis", stroke_dasharray="4 4")
    svg.text(WIDTH, TOP, called, "muted", "end")
    order = sorted(lines, key=lambda name: -lines[name][1])
    wanted = [y(lines[name][1]) for name in order]
    places = spread(wanted, SCORE_CURVES_LINE, TOP + 18, y(0) - 4)
    heights = dict(zip(order, places, strict=True))
    for kind, (name, (points, _)) in reversed(list(enumerate(lines.items()))):
        pixels = [(x(a), y(b)) for a, b in points]
        style = f"c{kind} {'thin' if kind else 'thick'}"
        svg.path(pixels, style, tip=name, stroke_dasharray=_DASHES[kind])
        height = heights[name]
        svg.dot(x.stop + 18, height, 4, f"f{kind}")
        svg.name(x.stop + 27, height + 4, name, room, "" if kind else "strong")
        svg.text(WIDTH, height + 4, areas[name], anchor="end")
    return svg


def reliability(bins: np.ndarray, title: str) -> Svg:
    """The share that is true against the mean probability, shape (B, 2), a dot a bin."""
    told = "; ".join(f"{number(mean, 3)}: {number(share, 3)}" for mean, share in bins)
    words = f"Share that is true by mean probability: {told}."
    heads = "Mean probability of a bin", "Share that is true"
    svg, x, y, _ = scatter(title, words, SCORE_CURVES_HEIGHT, _SHARES, heads, right=WIDTH - 40)
    svg.line(x(0), y(0), x(1), y(1), "axis", stroke_dasharray="4 4")
    pixels = [*zip(x(bins[:, 0]), y(bins[:, 1]), strict=True)]
    svg.path(pixels, "c0 thin")
    for (across, up), (mean, _) in zip(pixels, bins, strict=True):
        svg.upright(across, up, y(min(max(mean, 0), 1)), "rule")
        svg.dot(across, up, 4, "f0")
    return svg
