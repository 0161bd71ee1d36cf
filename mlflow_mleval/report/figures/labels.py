"""Names beside points, where there is room for them."""

import math
from collections.abc import Iterator, Sequence

from mlflow_mleval.report.svg import BOLD, SIZE, SMALL, WIDTH, Svg, fit, text_width

LINE = 14
#: Left, top, right and bottom of what is drawn already.
Box = tuple[float, float, float, float]


def label(
    svg: Svg, name: str, point: tuple[float, float], taken: list[Box], class_: str = ""
) -> bool:
    """Write the name at the nearest free place around its point, with a thin line if that is not
    beside it; if there is one.
    """
    size = (SMALL if "small" in class_ else SIZE) * (BOLD if "strong" in class_ else 1)
    shown = fit(name, 150, size)
    width = text_width(shown, size)
    for far, (x, y) in _around(point, width):
        box = (x - 1, y - LINE + 3, x + width + 1, y + 3)
        inside = box[0] >= 2 and box[2] <= WIDTH - 2 and box[1] >= 2 and box[3] <= svg.height - 2
        if inside and not any(
            box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3] for o in taken
        ):
            taken.append(box)
            if far > 20:
                near = min(max(point[0], x), x + width), min(max(point[1], box[1]), box[3])
                svg.line(*point, *near, "rule")
            svg.text(x, y, shown, f"{class_} halo", tip=name if shown != name else "")
            return True
    return False


def missed(svg: Svg, count: int, x: float) -> None:
    """A line below the drawing about names that found no room, if there are any."""
    if count:
        svg.height += 16
        svg.text(x, svg.height - 4, f"no room for {count} names: see the table", "small muted halo")


def _around(
    point: tuple[float, float], width: float
) -> Iterator[tuple[float, tuple[float, float]]]:
    """Places for a text of this width, the nearest first: distance and the start of its
    baseline.
    """
    for far in (9, 14, 24, 36, 50, 66, 84, 104, 130, 160, 200):
        for degrees in (0, 180, 30, -30, 150, -150, 60, -60, 120, -120, 90, -90):
            dx, dy = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            x = point[0] + far * dx + (0 if dx > 0.3 else -width if dx < -0.3 else -width / 2)
            yield far, (x, point[1] + far * dy + 4)


def spread(places: Sequence[float], room: float, low: float, high: float) -> list[float]:
    """Where labels that want these places go, so that they lie `room` apart, between `low` and
    `high`, moved as little as can be.

    In order of the places: isotonic regression of the places less the room of the labels before
    them. What finds no room leaves at the low end.

    >>> spread([50.0, 10.0, 52.0], 10, 0, 100)
    [46.0, 10.0, 56.0]
    """
    order = sorted(range(len(places)), key=places.__getitem__)
    pools: list[tuple[float, int]] = []
    for i, at in enumerate(order):
        mean, size = places[at] - i * room, 1
        while pools and pools[-1][0] >= mean:
            before, n = pools.pop()
            mean, size = (mean * size + before * n) / (size + n), size + n
        pools.append((mean, size))
    wanted = [mean for mean, size in pools for _ in range(size)]
    last = high - (len(places) - 1) * room
    out = [0.0] * len(places)
    for i, (at, want) in enumerate(zip(order, wanted, strict=True)):
        out[at] = min(max(want, low), last) + i * room
    return out
