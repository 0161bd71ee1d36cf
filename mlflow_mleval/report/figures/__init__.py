"""Figures: plain tables in, SVG out. The builder that they share: text stays text, everything is
escaped, every figure says in words what it shows."""

import math
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from mlflow_mleval.report.text import latex, number, shorten, terminal

WIDTH = 600
#: Sizes of type; drawn 600 wide, they stay between 11 and 13 pixels on a page of 600.
SIZE, SMALL = 13, 12
BOLD = 1.09  #: how much wider bold type is
ROW = 20  #: the height of a row with a name
TOP = 30  #: methods that figures show; the others are summarised in words
COLOURS = 6
Point = tuple[float, float]  #: pixels across and down
Place = float | str  #: pixels across, or a share of the width, such as "12.5%"

# Widths in em of a wide sans serif (DejaVu Sans): what fits here fits in narrower fonts, too.
_WIDE = {0.29: "ijl'|", 0.40: " .,:;!If()[]/\\", 0.46: 'rt-"*{}', 0.98: "mwMW%@&", 0.84: "<>=+~−_"}
_EM = {char: width for width, chars in _WIDE.items() for char in chars}


@lru_cache(4096)
def text_width(text: str, size: float = SIZE) -> float:
    """An upper estimate of the width of a text in pixels."""
    widths = [
        1.05
        if unicodedata.east_asian_width(char) in "WF"
        else _EM.get(char, 0.76 if char.isupper() else 0.64)
        for char in text
        if not unicodedata.combining(char)
    ]
    return size * sum(widths)


def fit(text: str, width: float, size: float = SIZE) -> str:
    """The text, cut in the middle until it is no wider than so many pixels."""
    text = terminal(text)
    shown = text
    room = len(text)
    while text_width(shown, size) > width and room > 3:
        room = min(room - 1, int(room * 0.9))
        shown = shorten(text, room)
    return shown


def room_for(names: Iterable[object], most: float) -> float:
    """How many pixels a column of names takes, any of them bold, but no more than `most`."""
    return min(most, BOLD * max(text_width(terminal(name)) for name in names) + 1)


@dataclass(frozen=True)
class Scale:
    """A linear map of values from `low`..`high` to pixels from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: Any) -> Any:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.start + share * (self.stop - self.start)

    def ticks(self, about: int = 6) -> list[float]:
        """Round values inside the domain, about as many as asked."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        raw = span / max(about, 1)
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


@dataclass(eq=False)
class Svg:
    """An SVG under construction, in pixels that scale down with the page; an `inline` one stands in
    a table at its own size; one without a width fills its cell, and lies in per cent across."""

    title: str
    desc: str
    height: float
    width: float = WIDTH
    inline: bool = False
    parts: list[str] = field(default_factory=list, repr=False)

    def add(self, tag: str, content: Any = "", tip: str = "", **attributes: Any) -> None:
        """An element; underscores of attributes become hyphens, those at the end are dropped."""
        inner = content if isinstance(content, Markup) else escape(terminal(str(content)))
        if tip:
            inner += Markup(f"<title>{escape(terminal(tip))}</title>")
        self.parts.append(Markup(f"<{tag}{_attributes(attributes)}>{inner}</{tag}>"))

    def line(
        self, x1: Place, y1: float, x2: Place, y2: float, class_: str = "rule", **attributes: Any
    ) -> None:
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, **attributes)

    def upright(self, x: Place, top: float, bottom: float, class_: str = "grid") -> None:
        """A line from top to bottom."""
        self.line(x, top, x, bottom, class_)

    def level(self, y: float, left: Place, right: Place, class_: str = "grid") -> None:
        """A line from left to right."""
        self.line(left, y, right, y, class_)

    def rect(
        self, x: float, y: float, width: float, height: float, class_: str | None, **attributes: Any
    ) -> None:
        wide, tall = max(width, 0), max(height, 0)
        self.add("rect", x=x, y=y, width=wide, height=tall, class_=class_, **attributes)

    def dot(self, x: Place, y: float, r: float, class_: str, **attributes: Any) -> None:
        self.add("circle", cx=x, cy=y, r=r, class_=class_, **attributes)

    def path(self, points: list[Point], class_: str, **attributes: Any) -> None:
        through = "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
        self.add("path", d=f"M{through}", class_=class_, **attributes)

    def text(
        self,
        x: Place,
        y: float,
        content: Any,
        class_: str | None = None,
        anchor: str = "start",
        **attributes: Any,
    ) -> None:
        """A text whose baseline starts, centres or ends at a point."""
        where = None if anchor == "start" else anchor
        self.add("text", content, x=x, y=y, class_=class_, text_anchor=where, **attributes)

    def name(
        self,
        x: float,
        y: float,
        name: str,
        room: float,
        class_: str | None = None,
        anchor: str = "start",
    ) -> None:
        """A name cut in the middle to `room` pixels, the whole of it in a tooltip."""
        shown = fit(name, room, SIZE * (BOLD if class_ == "strong" else 1))
        self.text(x, y, shown, class_, anchor, tip=name if shown != name else "")

    def axis(
        self,
        scale: Scale,
        y: float,
        top: float | None = None,
        about: int = 6,
        label: Callable[[float], str] = str,
        ticks: Iterable[tuple[float, str]] = (),
    ) -> None:
        """Ticks with numbers under a line at `y`, and faint grid lines up to `top`; values that are
        about so many, or `ticks` with their texts."""
        for tick, text in ticks or [(tick, label(tick)) for tick in scale.ticks(about)]:
            x = scale(tick)
            self.upright(x, y if top is None else top, y + 4)
            self.text(x, y + 17, text, "muted", "middle")
        self.level(y, scale.start, scale.stop, "axis")

    def axis_above(self, scale: Scale, y: float, ticks: Iterable[float]) -> None:
        """A line at `y`, with short ticks and numbers above it."""
        self.level(y, scale.start, scale.stop, "axis")
        for tick in ticks:
            self.upright(scale(tick), y - 5, y, "axis")
            self.text(scale(tick), y - 9, number(tick), "muted", "middle")

    def side_axis(
        self, scale: Scale, ticks: Iterable[tuple[float, str]], left: float, right: float
    ) -> None:
        """Numbers at the left of a plot, each with a faint line through it."""
        for tick, text in ticks:
            y = scale(tick)
            self.level(y, left, right)
            self.text(left - 6, y + 4, text, "muted small", "end")

    def __html__(self) -> Markup:
        own: dict[str, Any] = {
            "viewBox": f"0 0 {_number(self.width)} {_number(self.height)}",
            "width": self.width,
            "role": "img",
        }
        if not self.width:
            own |= {"viewBox": None, "width": "100%"}
        if self.inline:
            own |= {"class_": "mark", "height": self.height}
        if not self.title:
            own |= {"role": None, "aria_hidden": "true"}
        words = [
            Markup("<{0}>{1}</{0}>").format(Markup(tag), terminal(text))
            for tag, text in (("title", self.title), ("desc", self.desc))
            if text
        ]
        head = Markup('<svg xmlns="http://www.w3.org/2000/svg"{}>').format(_attributes(own))
        return Markup("").join([head, *words, *self.parts, Markup("</svg>")])


class Rows(Svg):
    """A drawing with a row a name: the names at the left, what is drawn of each beside them.
    `heads` stand above the names and the texts at the right; `top` and `below` are pixels."""

    def __init__(
        self,
        title: str,
        desc: str,
        names: Iterable[object],
        most: float,
        heads: tuple[str, str] = ("", ""),
        top: float = 22,
        below: float = 22,
    ) -> None:
        self.names = [*map(str, names)]
        self.top = top
        self.bottom = top + ROW * len(self.names)
        self.room = room_for([heads[0], *self.names], most)
        super().__init__(title, desc, self.bottom + below)
        for x, head in zip((self.room, WIDTH), heads, strict=True):
            if head:
                self.text(x, 12, head, "muted", "end")

    def rows(self, strong: Collection[str] = ()) -> Iterator[float]:
        """The middle of each row, after its name was written."""
        for i, name in enumerate(self.names):
            y = self.top + ROW * (i + 0.5)
            style = "strong" if name in strong else None
            self.name(self.room, y + 4, name, self.room, style, "end")
            yield y

    def at_right(self, y: float, text: str, class_: str | None = None) -> None:
        """A text at the right of the row whose middle is `y`."""
        self.text(WIDTH, y + 4, text, class_, "end")
        self.desc += f" {self.names[int((y - self.top) / ROW)]}: {text}."


class Tikz(Svg):
    """The lines, dots and texts of a drawing as a picture in plain TikZ, 12 cm wide."""

    def path(self, points: list[Point], class_: str, **attributes: Any) -> None:
        style = {"bar": "[line width=2pt]", "gap": "[dotted, thick]"}.get(class_, "")
        through = " -- ".join(f"({x:.1f},{y:.1f})" for x, y in points)
        self.parts.append(rf"\draw{style} {through};")

    def add(self, tag: str, content: Any = "", tip: str = "", **at: Any) -> None:
        if tag == "line":
            self.path([(at["x1"], at["y1"]), (at["x2"], at["y2"])], at["class_"])
        elif tag == "circle":
            where = f"({at['cx']:.1f},{at['cy']:.1f})"
            self.parts.append(rf"\draw[fill] {where} circle[radius={at['r']:g}];")
        else:
            side = {None: "base west", "middle": "base", "end": "base east"}[at["text_anchor"]]
            node = f"({at['x']:.1f},{at['y']:.1f}) node[anchor={side},inner sep=0pt]"
            text = latex(shorten(terminal(tip), 24) if tip else content)
            self.parts.append(rf"\draw {node} {{{text}}};")

    def __str__(self) -> str:
        begin = r"\begin{tikzpicture}[x=.02cm,y=-.02cm,font=\footnotesize]"
        return "\n".join([begin, *self.parts, r"\end{tikzpicture}%"])


def _attributes(attributes: dict[str, Any]) -> Markup:
    texts = {
        name.rstrip("_").replace("_", "-"): _number(value)
        if isinstance(value, int | float)
        else _quoted(value)
        for name, value in attributes.items()
        if value is not None
    }
    return Markup("".join(f' {name}="{text}"' for name, text in texts.items()))


@lru_cache(256)
def _quoted(text: str) -> Markup:
    """An attribute's text; most elements have one of a few styles."""
    return escape(terminal(text))


def _number(value: float) -> str:
    """At most two decimals, none where they say nothing."""
    return f"{round(float(value), 2) + 0.0:.2f}".rstrip("0").rstrip(".")


# --------------------------------------------------------------------------------------------------
# Names beside points, where there is room for them.

LINE = 14
#: Left, top, right and bottom of what is drawn already.
Box = tuple[float, float, float, float]
#: Places around a point, the nearest first: how far away, how far across and down, and which share
#: of a text there lies to the left of it.
_AROUND = [
    (far, far * math.cos(turn), far * math.sin(turn), left)
    for far in (9, 14, 24, 36, 50, 66, 84, 104, 130, 160, 200)
    for degrees, left in (
        *((0, 0), (180, 1), (30, 0), (-30, 0), (150, 1), (-150, 1)),
        *((60, 0), (-60, 0), (120, 1), (-120, 1), (90, 0.5), (-90, 0.5)),
    )
    for turn in [math.radians(degrees)]
]


def point_label(svg: Svg, name: str, point: Point, taken: list[Box], class_: str) -> bool:
    """Write the name at the nearest free place around its point, with a line if it is far."""
    size = (SMALL if "small" in class_ else SIZE) * (BOLD if "strong" in class_ else 1)
    shown = fit(name, 150, size)
    width = text_width(shown, size)
    for far, across, down, left in _AROUND:
        x, y = point[0] + across - left * width, point[1] + down + 4
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


def scatter(
    title: str,
    words: str,
    height: float,
    ends: Sequence[tuple[float, float]],
    heads: Sequence[str],
    label: Callable[[float], str] = number,
    right: float = WIDTH - 12,
) -> tuple[Svg, Scale, Scale, list[Box]]:
    """A plot of points with its axes, the scales across and up, and what is drawn already; of
    `ends` and `heads` the first is across."""
    svg = Svg(title, words, height)
    bottom, top = height - 44, 24
    up = Scale(*ends[1], bottom, top)
    ticks, wide = left_ticks(up)
    left = 10 + wide
    across = Scale(*ends[0], left, right)
    svg.axis(across, bottom, top, label=label)
    svg.side_axis(up, ticks, left, across.stop)
    svg.upright(left, top, bottom, "axis")
    svg.text(0, 13, fit(heads[1], WIDTH), "strong")
    svg.text(across.stop, height - 8, fit(heads[0], WIDTH - 20), "strong", "end")
    return svg, across, up, [(0, bottom, WIDTH, height), (0, 0, left, height), (0, 0, WIDTH, 22)]


def left_ticks(scale: Scale) -> tuple[list[tuple[float, str]], float]:
    """Values of an axis at the left with their texts, and how wide these are."""
    ticks = [(tick, number(tick)) for tick in scale.ticks()]
    return ticks, max(text_width(text, SMALL) for _, text in ticks)


def label_points(svg: Svg, places: Mapping[Any, Point], taken: list[Box], left: float) -> None:
    """The names of points beside them, the first ones first, and how many find no room."""
    taken += [(x - 6, y - 6, x + 6, y + 6) for x, y in places.values()]
    labelled = [point_label(svg, name, at, taken, "small") for name, at in places.items()]
    missed(svg, labelled.count(False), left)


def missed(svg: Svg, count: int, x: float) -> None:
    """A line below the drawing about names that found no room, if there are any."""
    if count:
        svg.height += 16
        svg.text(x, svg.height - 4, f"no room for {count} names: see the table", "small muted halo")


def spread(places: Sequence[float], room: float, low: float, high: float) -> list[float]:
    """Where labels that want these places go, `room` apart between `low` and `high`: from the low
    end on each as near to its place as the one before leaves room, then back from the high end."""
    order = np.argsort(places, kind="stable")
    found = np.array(places, float)
    at = low - room
    for i in order:
        at = found[i] = max(found[i], at + room)
    at = high + room
    for i in order[::-1]:
        at = found[i] = min(found[i], at - room)
    return found.tolist()
