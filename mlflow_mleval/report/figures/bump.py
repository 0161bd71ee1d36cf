"""A bump chart: how the order of the methods moves from one way of ranking to the next."""

from itertools import pairwise

import pandas as pd

from mlflow_mleval.report.numerals import number
from mlflow_mleval.report.svg import (
    COLOURS,
    SIZE,
    TOP,
    WIDTH,
    Scale,
    Svg,
    fit,
    room_for,
    text_width,
)

ROW, SLANT = 19, -38


def bump(ranks: pd.DataFrame) -> Svg:
    """One line a method through its ranks, one column a way of ranking; lines that are ever first
    are coloured.

    `ranks` are methods x ways of ranking, NaN where a method was left out: there its line is
    broken. The first column orders.
    """
    order = ranks.sort_values(ranks.columns[0], kind="stable").iloc[:TOP]
    drawn = order.rank(method="first")
    room = room_for(drawn.index, 118) + 12
    x = Scale(0, max(len(drawn.columns) - 1, 1), room + 10, WIDTH - room - 10)
    heads = [fit(str(c), 130) for c in drawn.columns]
    top = 26 + max(text_width(h) for h in heads) * 0.62
    y = Scale(1, len(drawn) + 1, top, top + len(drawn) * ROW)
    words = "; ".join(f"{m}: {', '.join(number(r) for r in row)}" for m, row in order.iterrows())
    words = f"Ranks under {', '.join(map(str, ranks.columns))}. {words}."
    svg = Svg("Ranking under other choices", words, top + len(drawn) * ROW + 2)
    for i, head in enumerate(heads):
        turned = f"translate({x(i) + 3:.1f} {top - 14:.1f}) rotate({SLANT})"
        svg.text(0, 0, head, "strong" if i == 0 else "muted", transform=turned)
        svg.line(x(i), top - 8, x(i), top + len(drawn) * ROW - 8, "grid")
    leaders = list(order.index[(drawn == 1).any(axis=1)])[:COLOURS]
    for method in reversed(drawn.index):
        leads = method in leaders
        tip = f"{method}: {', '.join(number(r) for r in order.loc[method])}"
        points = [(x(i), y(r)) if r == r else None for i, r in enumerate(drawn.loc[method])]
        for a, b in pairwise(points):
            if a and b:
                svg.line(*a, *b, f"c{leaders.index(method)} thick" if leads else "plain thin")
        for point in filter(None, points):
            svg.dot(
                *point,
                4 if leads else 2.2,
                f"f{leaders.index(method)}" if leads else "fgrey",
                tip=tip,
            )
        first, last = drawn.loc[method].iloc[[0, -1]]
        svg.name(room, y(first) + SIZE / 3, method, room - 4, "strong" if leads else None, "end")
        if last == last:
            svg.name(
                WIDTH - room, y(last) + SIZE / 3, method, room - 4, "strong" if leads else None
            )
    return svg
