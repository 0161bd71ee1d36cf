"""One run: precision-recall, ROC and reliability curves of its scores."""

from collections.abc import Mapping, Sequence

import numpy as np

from mlflow_mleval.report.figures.fold_scatter import mark
from mlflow_mleval.report.figures.labels import spread
from mlflow_mleval.report.numerals import aligned, number
from mlflow_mleval.report.svg import COLOURS, SMALL, WIDTH, Scale, Svg, room_for, text_width

#: Curves that are named beside the one of all label cells; the others are grey.
NAMED = 5
HEIGHT, TOP, LINE = 300, 12, 17
#: How thick and dashed the named curves are drawn, the one of all label cells first.
_DASHES = (None, "7 3", "2 3", "9 3 2 3", "1 3", "5 2")


def score_curves(
    lines: Mapping[str, tuple[np.ndarray, float]],
    others: Sequence[tuple[str, np.ndarray]],
    axes: tuple[str, str, str],
    title: str,
    diagonal: bool = False,
) -> Svg:
    """Curves in the unit square, each with its name and area at the right: the first is thick,
    `others` are grey.

    A curve is an array of points, shape (P, 2); of `others` the name is a tooltip. `axes` say what
    lies across, up, and what the areas are called.
    """
    areas = dict(zip(lines, aligned([area for _, area in lines.values()], 3), strict=True))
    wide = max(text_width(text) for text in areas.values())
    room = room_for(lines, 170)
    words = ", ".join(f"{name} {area}" for name, area in areas.items())
    svg, x, y = _square(
        title,
        f"{axes[1]} against {axes[0].lower()}; {axes[2]}: {words}.",
        axes[:2],
        WIDTH - room - wide - 56,
    )
    svg.text(WIDTH, TOP, axes[2], "muted", "end")
    if diagonal:
        svg.line(x(0), y(0), x(1), y(1), "axis", stroke_dasharray="4 4")
    for name, points in others:
        svg.path(_pixels(points, x, y), "plain thin", tip=name)
    order = sorted(lines, key=lambda name: -lines[name][1])
    heights = dict(
        zip(
            order,
            spread([y(lines[name][1]) for name in order], LINE, TOP + 18, y(0) - 4),
            strict=True,
        )
    )
    for kind, (name, (points, _)) in reversed(list(enumerate(lines.items()))):
        pixels = _pixels(points, x, y)
        style = f"c{kind % COLOURS} {'thin' if kind else 'thick'}"
        svg.path(pixels, style, stroke_dasharray=_DASHES[kind], tip=f"{name}: {areas[name]}")
        for p in _spaced(pixels):
            mark(svg, kind, *p, 3)
        mark(svg, kind, x.stop + 18, heights[name], 4)
        svg.name(x.stop + 27, heights[name] + 4, name, room, "" if kind else "strong")
        svg.text(WIDTH, heights[name] + 4, areas[name], anchor="end")
    return svg


def reliability(bins: np.ndarray, title: str) -> Svg:
    """The share that is true against the mean probability, shape (B, 2), a dot a bin; on the
    diagonal both are the same.
    """
    axes = "Mean probability of a bin", "Share that is true"
    words = "; ".join(f"{number(a, 3)}: {number(b, 3)}" for a, b in bins)
    svg, x, y = _square(
        title, f"Share that is true by mean probability: {words}.", axes, WIDTH - 40
    )
    svg.line(x(0), y(0), x(1), y(1), "axis", stroke_dasharray="4 4")
    pixels = _pixels(bins, x, y)
    for p, (a, _) in zip(pixels, bins, strict=True):
        svg.line(*p, p[0], y(min(max(a, 0), 1)), "rule")
    svg.path(pixels, "c0 thin")
    for p, (a, b) in zip(pixels, bins, strict=True):
        svg.dot(*p, 4, "f0", tip=f"mean probability {number(a, 3)}, share {number(b, 3)}")
    return svg


def _square(
    title: str, words: str, axes: tuple[str, str], right: float
) -> tuple[Svg, Scale, Scale]:
    """A plot of shares against shares, its axes drawn."""
    svg = Svg(title, words, HEIGHT + 58)
    left = 12 + text_width("0.0", SMALL)
    x, y = Scale(0, 1, left, right), Scale(0, 1, HEIGHT + 16, TOP + 16)
    svg.text(0, TOP, axes[1], "muted")
    for tick in y.ticks(5):
        svg.line(left, y(tick), right, y(tick), "grid")
        svg.text(left - 6, y(tick) + 4, number(tick), "muted small", "end")
    svg.axis(x, y(0), about=5, label=number)
    svg.text((left + right) / 2, HEIGHT + 52, axes[0], "muted", "middle")
    return svg, x, y


def _pixels(points: np.ndarray, x: Scale, y: Scale) -> list[tuple[float, float]]:
    return [(x(a), y(b)) for a, b in np.asarray(points, float)]


def _spaced(pixels: list[tuple[float, float]], number: int = 6) -> list[tuple[float, float]]:
    """Some of the points, about evenly along the line."""
    steps = np.hypot(*np.diff(np.array(pixels), axis=0).T) if len(pixels) > 1 else np.zeros(0)
    along = np.append(0, np.cumsum(steps))
    wanted = np.linspace(0, along[-1], number + 2)[1:-1]
    return [pixels[i] for i in dict.fromkeys(np.searchsorted(along, wanted).tolist())]
