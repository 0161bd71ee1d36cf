"""Which surrogate to train for which target: how far each surrogate falls behind the best
(Hüllermeier et al. 2022, Figure 4).
"""

from __future__ import annotations

import math

import pandas as pd

from mlflow_mleval.report.numerals import fixed, number
from mlflow_mleval.report.svg import SMALL, WIDTH, Svg, text_width

#: The largest cell, the smallest that still holds its number, and the most rows and columns.
CELL, READABLE, MOST = 40, 18, 100
#: Colour of the best; a difference of `clip` and more has none.
STRONGEST = 0.48
#: Losses that differ by no more are equal: float noise.
NOISE = 1e-12


def surrogate_differences(table: pd.DataFrame) -> pd.DataFrame:
    """Target x surrogate: how much larger the loss is than that of the best surrogate, from losses
    surrogate x target.
    """
    found = (table - table.min()).T
    return found.mask(found <= NOISE, 0.0)


def surrogate_heatmap(
    table: pd.DataFrame, clip: float = 0.02, title: str = "Surrogate and target losses"
) -> Svg:
    """A row a target, a column a surrogate: the stronger the colour, the nearer to the best
    surrogate for that target.

    Cells say the difference to the best in thousandths, the best of a row is framed; cells that
    fall behind by `clip` or more are left empty. Beyond 100 rows and columns, that many of them are
    drawn at even distances. The table has losses, a row a surrogate and a column a target.
    """
    found = surrogate_differences(table)
    best = {t: [s for s in found if found.loc[t, s] == 0] for t in found.index}
    words = "; ".join(f"target {t}: surrogate {', '.join(map(str, s))}" for t, s in best.items())
    skip = -(-max(found.shape) // MOST)
    drawn = found.iloc[::skip, ::skip]
    rows, columns = drawn.shape
    left = 30 + max(text_width(str(t), SMALL) for t in drawn.index)
    cell = min(CELL, (WIDTH - left - 2) / columns)
    top, foot = 44, 44 + cell * rows
    svg = Svg(title, f"Best surrogate for each target: {words}.", foot + 44)
    svg.text(
        0,
        13,
        "→ surrogate: k of the loss that was trained    ↓ target: k of the loss that counts",
        "strong",
    )
    widest = 6 + max(text_width(str(k), SMALL) for k in (*drawn.index, *drawn.columns))
    every = math.ceil(widest / cell)
    for j, surrogate in enumerate(drawn):
        if j % every == 0:
            svg.text(left + cell * (j + 0.5), 36, surrogate, "muted small", "middle")
    for i, (target, row) in enumerate(drawn.iterrows()):
        y = top + cell * i
        if i % every == 0:
            svg.text(left - 6, y + cell / 2 + 4, target, "muted small", "end")
        for j, (surrogate, difference) in enumerate(row.items()):
            _cell(
                svg,
                left + cell * j,
                y,
                cell,
                difference,
                clip,
                f"target k = {target}, surrogate k = {surrogate}: loss "
                f"{number(table.loc[surrogate, target])}, {number(difference, 3)} behind the "
                "best",
            )
    _scale(svg, left, foot + 12, clip)
    return svg


def _cell(
    svg: Svg, x: float, y: float, cell: float, difference: float, clip: float, tip: str
) -> None:
    gap = 1 if cell > 8 else 0
    near = difference < clip - NOISE
    svg.rect(
        x,
        y,
        cell - gap,
        cell - gap,
        "faccent" if near else "fpale",
        tip=tip,
        fill_opacity=max(STRONGEST * (1 - difference / clip), 0.04) if near else 0.5,
    )
    if near and cell >= READABLE:
        svg.text(
            x + (cell - gap) / 2,
            y + cell / 2 + 4,
            fixed(1000 * difference, 0),
            "small",
            "middle",
            pointer_events="none",
        )
    if difference == 0:
        svg.rect(x + 1, y + 1, cell - gap - 2, cell - gap - 2, "sep", pointer_events="none")


def _scale(svg: Svg, x: float, y: float, clip: float) -> None:
    """What the colours are, from the best to what is clipped."""
    svg.text(x, y + 12, "behind the best, in thousandths", "muted small")
    x += text_width("behind the best, in thousandths", SMALL) + 10
    for i, share in enumerate((0, 0.25, 0.5, 0.75, 1)):
        left = x + 48 * i
        value = number(1000 * clip * share, 3)
        svg.rect(
            left,
            y,
            46,
            18,
            "faccent" if share < 1 else "fpale",
            fill_opacity=STRONGEST * (1 - share) if share < 1 else 0.5,
        )
        svg.text(
            left + 23,
            y + 13,
            value if share < 1 else f"≥ {value}",
            "small",
            "middle",
            pointer_events="none",
        )
    svg.rect(x + 1, y + 1, 44, 16, "sep")
