"""The values of one run by fold."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from markupsafe import Markup

from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report.numerals import aligned, number
from mlflow_mleval.report.svg import WIDTH, Scale, Svg, room_for

ROW = 19


def run_folds(folds: pd.DataFrame, means: Mapping[str, float]) -> Svg:
    """Every fold as a dot on an axis from 0 to 1, a row a measure, the mean as a line."""
    names = list(folds.columns)
    heads = [f"{m} {MEASURES[m].arrow}" for m in names]
    room = room_for(heads, 240)
    x = Scale(0, 1, room + 6, WIDTH - 70)
    ends = zip(names, folds.min(), folds.max(), strict=True)
    words = "; ".join(f"{m} {number(low)} to {number(high)}" for m, low, high in ends)
    svg = Svg("Values by fold", f"Range over {len(folds)} folds: {words}.", 22 + ROW * len(names) + 24)
    svg.text(WIDTH, 12, "mean", "muted", "end")
    bottom = 22 + ROW * len(names)
    for tick in x.ticks(5):
        svg.line(x(tick), 18, x(tick), bottom, "grid")
    shown = aligned(means.get(m) for m in names)
    for i, (m, head) in enumerate(zip(names, heads, strict=True)):
        at = 20 + ROW * i + ROW / 2
        svg.text(room, at + 4, head, anchor="end")
        known = [(fold, value) for fold, value in zip(folds.index, folds[m].tolist(), strict=True) if value == value]
        dots = (f'<circle cx="{x(value):.2f}" cy="{at:g}" r="3.2"/>' for _, value in known)
        tip = f"{m}: " + ", ".join(f"fold {fold} {number(value)}" for fold, value in known)
        svg.add("g", Markup("").join(map(Markup, dots)), class_="faccent", fill_opacity=0.45, tip=tip)
        if m in means:
            svg.line(x(means[m]), at - 6, x(means[m]), at + 6, "tick")
        svg.text(WIDTH, at + 4, shown[i], anchor="end")
    svg.axis(x, bottom, about=5, label=number)
    return svg
