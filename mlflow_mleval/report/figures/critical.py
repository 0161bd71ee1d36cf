"""The critical-difference diagram (Demšar 2006): mean ranks on an axis, bars over methods that no
test separates.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import pandas as pd

from mlflow_mleval.report.escape import latex, shorten, terminal
from mlflow_mleval.report.numerals import fixed
from mlflow_mleval.report.svg import BOLD, SIZE, TOP, WIDTH, Scale, Svg, fit, room_for, spans

ROW, LEVEL = 19, 9
#: More bars than this would hide what they say; the letters of the ranking table hold them all.
MOST_BARS = 24


def critical_difference(
    mean_ranks: pd.Series, cliques: Sequence[Sequence[str]], cd: float | None = None
) -> Svg:
    """Mean ranks, best at the left, with a bar over each maximal group of methods that are not
    separated, and `cd` as a ruler.

    Of more than thirty methods the best thirty are drawn. Where a group skips a method between its
    members, its bar is broken.
    """
    ranks = mean_ranks.sort_values(kind="stable")[:TOP]
    methods, n = list(ranks.index), len(ranks)
    room = room_for(methods, 124) + 48
    low, high, ruler = _domain(ranks, len(mean_ranks), cd)
    x = Scale(low, high, room + 14, WIDTH - room - 14)
    places = [x(r) for r in ranks]
    bars = _levels(shown_cliques(cliques, methods), places)
    half = (n + 1) // 2
    top = 64 if cd is not None else 30
    first = top + 26 + LEVEL * (1 + max((level for level, _ in bars), default=-1))

    svg = Svg(
        "Critical-difference diagram",
        _words(ranks, bars, methods, cd),
        first + (half - 1) * ROW + 10,
    )
    if cd is not None:
        svg.text(
            x(low),
            13,
            f"critical difference {fixed(cd, 2)}{'' if ruler else ', more than this axis'}",
            "muted",
        )
        if ruler:
            a, b = x(low), x(low + cd)
            svg.path([(a, 20), (a, 28), (a, 24), (b, 24), (b, 20), (b, 28)], "ruler")
    svg.line(x(low), top, x(high), top, "axis")
    for tick in (t for t in x.ticks(12) if t == int(t)):
        svg.line(x(tick), top - 5, x(tick), top, "axis")
        svg.text(x(tick), top - 9, int(tick), "muted", "middle")
    for i, method in enumerate(methods):
        left = i < half
        y = first + (i if left else n - 1 - i) * ROW
        end = room + 4 if left else WIDTH - room - 4
        svg.path(
            [(x(ranks[method]), top), (x(ranks[method]), y), (end, y)],
            "leader" if i == 0 else "elbow",
        )
        size = SIZE * (BOLD if i == 0 else 1)
        shown, value = (
            (fit(method, room - 48, size), "strong" if i == 0 else ""),
            (fixed(ranks[method], 2), "muted"),
        )
        pieces = [shown, ("  ", ""), value] if left else [value, ("  ", ""), shown]
        svg.text(
            room if left else WIDTH - room,
            y + 4,
            spans(*pieces),
            None,
            "end" if left else "start",
            tip=method,
        )
    for level, members in bars:
        y = top + 14 + level * LEVEL
        for i, j in pairwise(members):
            svg.line(
                places[i] - 2 * (i == members[0]),
                y,
                places[j] + 2 * (j == members[-1]),
                y,
                "bar" if j == i + 1 else "gap",
            )
        if members[-1] - members[0] >= len(members):
            for i in members:
                svg.dot(places[i], y, 3.5, "bar-dot")
    return svg


def in_tikz(
    mean_ranks: pd.Series, cliques: Sequence[Sequence[str]], cd: float | None = None
) -> str:
    """The same diagram for a paper, as a picture in TikZ, 12 cm wide; needs no library of it."""
    ranks = mean_ranks.sort_values(kind="stable")[:TOP]
    methods, n = list(ranks.index), len(ranks)
    low, high, ruler = _domain(ranks, len(mean_ranks), cd)
    x = Scale(low, high, 0, 12)
    places = [x(r) for r in ranks]
    bars = _levels(shown_cliques(cliques, methods), [50 * place for place in places])
    half, first = (n + 1) // 2, 0.45 + 0.16 * (1 + max((level for level, _ in bars), default=-1))
    lines = [r"\begin{tikzpicture}[x=1cm,y=1cm,font=\footnotesize]", r"\draw (0,0) -- (12,0);"]
    for tick in (t for t in x.ticks(12) if t == int(t)):
        lines.append(
            rf"\draw ({x(tick):.3f},0) -- ({x(tick):.3f},.12) node[above] {{{int(tick)}}};"
        )
    if cd is not None and ruler:
        lines.append(
            rf"\draw[|-|] (0,.75) -- node[above] {{critical difference {cd:.2f}}} "
            rf"({x(low + cd):.3f},.75);"
        )
    for i, (method, rank) in enumerate(ranks.items()):
        left = i < half
        y, end = -first - 0.42 * (i if left else n - 1 - i), -0.3 if left else 12.3
        name, value = latex(shorten(terminal(method), 24)), f"{rank:.2f}"
        text = f"{name}\\quad {value}" if left else f"{value}\\quad {name}"
        lines.append(
            rf"\draw ({places[i]:.3f},0) |- ({end},{y:.2f}) node[{'left' if left else 'right'}] "
            rf"{{{text}}};"
        )
    for level, members in bars:
        y = -0.25 - 0.16 * level
        for i, j in pairwise(members):
            style = "line width=2pt" if j == i + 1 else "dotted, thick"
            start, stop = (
                places[i] - 0.05 * (i == members[0]),
                places[j] + 0.05 * (j == members[-1]),
            )
            lines.append(rf"\draw[{style}] ({start:.3f},{y:.2f}) -- ({stop:.3f},{y:.2f});")
    return "\n".join([*lines, r"\end{tikzpicture}%"])


def shown_cliques(cliques: Sequence[Sequence[str]], methods: Sequence[str]) -> list[list[int]]:
    """Positions of the members of the groups of two or more among the methods that are drawn,
    maximal ones only.
    """
    place = {m: i for i, m in enumerate(methods)}
    found = {tuple(sorted(place[m] for m in clique if m in place)) for clique in cliques}
    kept = [c for c in found if len(c) > 1 and not any(set(c) < set(other) for other in found)]
    return [list(c) for c in sorted(kept)]


def _levels(groups: list[list[int]], places: list[float]) -> list[tuple[int, list[int]]]:
    """Stack the bars so that none touches another: (level, members)."""
    ends: list[float] = []
    placed = []
    for group in sorted(sorted(groups, key=lambda g: -len(g))[:MOST_BARS]):
        level = next((k for k, end in enumerate(ends) if end + 10 < places[group[0]]), len(ends))
        ends[level : level + 1] = [places[group[-1]]]
        placed.append((level, group))
    return placed


def _domain(ranks: pd.Series, n_methods: int, cd: float | None) -> tuple[float, float, bool]:
    """Ends of the axis, and whether the critical difference finds room on it, if it may grow by
    half.
    """
    low = max(1, math.floor(ranks.iloc[0]))
    high = max(min(n_methods, math.ceil(ranks.iloc[-1])), low + 1)
    end = low + (cd or 0)
    fits = end - high <= (high - low) / 2
    return low, max(high, end) if fits else high, fits


def _words(
    ranks: pd.Series, bars: list[tuple[int, list[int]]], methods: list[str], cd: float | None
) -> str:
    order = ", ".join(f"{m} {fixed(r, 2)}" for m, r in ranks.items())
    groups = "; ".join(", ".join(methods[i] for i in members) for _, members in bars)
    ruler = f" Critical difference {fixed(cd, 2)}." if cd is not None else ""
    return (
        f"Mean ranks, best first: {order}.{ruler} Not separated from each other: "
        f"{groups or 'no methods'}."
    )
