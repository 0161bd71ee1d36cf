"""Small marks that stand in the rows of a table: a bar around zero, a strip of ranks."""

import numpy as np
import pandas as pd

from mlflow_mleval.report.numerals import number
from mlflow_mleval.report.svg import Scale, Svg

HEIGHT = 14
#: More datasets than this are drawn by rank, so many of them in a cell.
CELLS = 88


def flow_bar(value: float, limit: float, width: float = 44) -> Svg:
    """A bar from zero to `value` on an axis from -limit to limit: blue to the right, orange to the
    left.
    """
    svg = Svg("", "", HEIGHT, width, inline=True)
    x = Scale(-limit, limit, 1, width - 1)
    a, b = sorted((x(0), x(value)))
    svg.rect(a, 2, b - a, HEIGHT - 4, "fpos" if value > 0 else "fneg")
    svg.line(x(0), 0, x(0), HEIGHT, "zero")
    return svg


def rank_strip(ranks: pd.Series, n_methods: int, width: float = 88) -> Svg:
    """One cell a dataset, the stronger its colour the better the method's rank there; a dot marks
    rank 1.
    """
    if len(ranks) > CELLS:
        return _ranks_in_order(ranks, n_methods, width)
    step = min(13.0, width / len(ranks))
    gap = 1 if step > 3 else 0
    words = ", ".join(f"{dataset} {number(rank)}" for dataset, rank in ranks.items())
    svg = Svg(words if len(ranks) <= 40 else "", "", HEIGHT, step * len(ranks), inline=True)
    for i, (dataset, rank) in enumerate(ranks.items()):
        tip = f"{dataset}: rank {number(rank)}"
        svg.rect(
            i * step, 0, step - gap, HEIGHT, "faccent", fill_opacity=shade(rank, n_methods), tip=tip
        )
        if rank == 1 and step > 5:
            svg.dot(i * step + (step - gap) / 2, HEIGHT / 2, 2, "fbg", pointer_events="none")
    return svg


def _ranks_in_order(ranks: pd.Series, n_methods: int, width: float) -> Svg:
    """The same of many datasets: from the best rank to the worst, each cell the mean of as many
    datasets.
    """
    n = CELLS // 2
    svg = Svg("", "", HEIGHT, width, inline=True)
    for i, cell in enumerate(np.array_split(np.sort(ranks.to_numpy()), n)):
        low, high = number(cell[0]), number(cell[-1])
        tip = (
            f"{i / n:.0%} to {(i + 1) / n:.0%} of the datasets: rank "
            f"{low if low == high else f'{low} to {high}'}"
        )
        svg.rect(
            i * width / n,
            0,
            width / n,
            HEIGHT,
            "faccent",
            fill_opacity=shade(float(cell.mean()), n_methods),
            tip=tip,
        )
    return svg


def shade(rank: float, n_methods: int) -> float:
    """How strong a rank is drawn: from 1 for the best to almost nothing for the worst."""
    return 1.0 - 0.93 * (rank - 1) / max(n_methods - 1, 1)
