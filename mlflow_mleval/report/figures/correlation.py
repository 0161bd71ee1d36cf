"""The graph of correlated measures, drawn as arcs beside a list, with the weight that each measure
has.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from mlflow_mleval.report.numerals import fixed, number
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

ROW = 20
#: How far an arc may reach to the right.
SWEEP = 84


def correlation_graph(
    correlation: pd.DataFrame,
    threshold: float,
    groups: Sequence[Sequence[str]],
    kept: Sequence[str],
    weights: pd.Series,
    arrows: Mapping[str, str],
    stands_for: Mapping[str, str],
) -> Svg:
    """One row a measure: its weight as a bar, a filled dot if the filter keeps it, arcs to the
    measures it follows closely.

    `correlation` is the absolute one, averaged over datasets; arcs join what lies above
    `threshold`; connected `groups` get a colour each; `arrows` say by measure which way is better,
    `stands_for` because of which other one the filter drops it.
    """
    large = sorted((list(g) for g in groups if len(g) > 1), key=len, reverse=True)
    group_of = {m: i for i, g in enumerate(large) for m in g}
    order = sorted(correlation.index, key=lambda m: (group_of.get(m, len(large)), -weights[m]))
    drawn = (
        order
        if len(order) <= TOP
        else [m for m in order if m in set(weights[order].nlargest(TOP).index)]
    )
    pairs = [
        (a, b)
        for i, a in enumerate(drawn)
        for b in drawn[i + 1 :]
        if correlation.loc[a, b] > threshold
    ]
    words = "; ".join(f"{a} and {b} {number(correlation.loc[a, b], 2)}" for a, b in pairs) or "none"
    above = f"above {threshold:g}"
    svg = Svg(
        "Correlated measures",
        f"Pairs of measures with an average absolute correlation {above}: {words}.",
        26 + ROW * len(drawn),
    )
    room = room_for(["measure", *drawn], 146) + 24
    x = Scale(0, float(weights[drawn].max()) or 1.0, room + 6, room + 92)
    spine = x.stop + 66
    svg.text(room - 18, 12, "measure", "muted", "end")
    svg.text(x.start, 12, "weight", "muted")
    beside = spine + SWEEP + 16
    svg.text(spine - 5, 12, f"correlated {above}", "muted")
    y = {m: 22 + ROW * i + ROW / 2 for i, m in enumerate(drawn)}
    for a, b in pairs:
        ry = abs(y[a] - y[b]) / 2
        rx = min(SWEEP, 12 + 0.6 * ry)
        path = f"M{spine + 6:.1f} {y[a]:.1f}A{rx:.1f} {ry:.1f} 0 0 1 {spine + 6:.1f} {y[b]:.1f}"
        strength = (correlation.loc[a, b] - threshold) / (1 - threshold)
        svg.add(
            "path",
            d=path,
            class_=f"c{group_of.get(a, 0) % COLOURS} thin",
            stroke_opacity=0.35 + 0.65 * strength,
            tip=f"{a} – {b}: {number(correlation.loc[a, b], 3)}",
        )
    for m in drawn:
        svg.text(room, y[m] + 4, arrows.get(m, ""), "muted", "end")
        svg.name(room - 18, y[m] + 4, m, room - 18, anchor="end")
        svg.rect(x.start, y[m] - 5, x(weights[m]) - x.start, 10, "faccent")
        svg.text(x(weights[m]) + 5, y[m] + 4, fixed(weights[m], 3))
        fill, stroke = (
            (f"f{group_of[m] % COLOURS}", f"c{group_of[m] % COLOURS}")
            if m in group_of
            else ("fgrey", "plain")
        )
        svg.dot(
            spine,
            y[m],
            5,
            fill if m in kept else f"fbg {stroke}",
            tip="kept" if m in kept else "redundant",
        )
        if other := stands_for.get(m):
            words = f"{fixed(correlation.loc[m, other], 2)} with "
            shown = words + fit(other, WIDTH - beside - text_width(words, SMALL), SMALL)
            svg.text(
                beside, y[m] + 4, shown, "small muted", tip=f"redundant: correlation {words}{other}"
            )
    return svg
