"""Means of a few methods by one or two measures in their own units, with intervals."""

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from mlflow_mleval.report.numerals import ARROWS, number
from mlflow_mleval.report.svg import SMALL, WIDTH, Scale, Svg, fit, room_for

ROW, GAP = 22, 26


def means_figure(
    tables: Mapping[str, pd.DataFrame], directions: Mapping[str, str], stressed: Collection[str]
) -> Svg:
    """A panel a measure, a row a method: its mean as a dot and its interval as a line.

    Tables have columns mean, low, high.
    """
    methods = list(next(iter(tables.values())).index)
    room = room_for(methods, 140) + 8
    wide = (WIDTH - room - GAP * len(tables)) / len(tables)
    bottom = 24 + ROW * len(methods)
    svg = Svg("Means in the measures' own units", _words(tables, directions), bottom + 24)
    for i, method in enumerate(methods):
        svg.name(
            room - 8,
            24 + ROW * (i + 0.5) + 4,
            method,
            room - 8,
            "strong" if method in stressed else None,
            "end",
        )
    for k, (measure, table) in enumerate(tables.items()):
        left = room + k * (wide + GAP) + 6
        ends = table.to_numpy()[np.isfinite(table.to_numpy())]
        low, high = (ends.min(), ends.max()) if len(ends) else (0.0, 1.0)
        pad = 0.04 * (high - low) or 0.5
        x = Scale(low - pad, high + pad, left, left + wide - 6)
        svg.text(
            left, 13, fit(f"{measure} {ARROWS[directions[measure]]}", wide, SMALL), "muted small"
        )
        svg.axis(x, bottom, 22, 4, lambda value: number(value, 3))
        for i, method in enumerate(methods):
            mean, start, stop = table.loc[method]
            y, accent = 24 + ROW * (i + 0.5), method in stressed
            if np.isfinite([start, stop]).all():
                svg.line(x(start), y, x(stop), y, "leader" if accent else "axis")
            if np.isfinite(mean):
                svg.dot(
                    x(mean),
                    y,
                    4,
                    "faccent" if accent else "fgrey",
                    tip=f"{method}: {number(mean, 3)}",
                )
    return svg


def _words(tables: Mapping[str, pd.DataFrame], directions: Mapping[str, str]) -> str:
    better = {"max": "larger is better", "min": "smaller is better"}
    return " ".join(
        f"{measure} ({better[directions[measure]]}): "
        f"{', '.join(f'{m} {number(x, 3)}' for m, x in table['mean'].items())}."
        for measure, table in tables.items()
    )
