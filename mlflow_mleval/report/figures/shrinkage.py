"""Differences of two methods by dataset: as they were found, and drawn towards those on the other
datasets.
"""

import pandas as pd

from mlflow_mleval.report.numerals import number
from mlflow_mleval.report.svg import TOP, WIDTH, Scale, Svg, room_for

ROW = 22


def shrinkage(
    table: pd.DataFrame, rope: float, mean: float, title: str, better: tuple[str, str]
) -> Svg:
    """A row a dataset (mean, shrunken, low, high; by falling difference): a ring where it was
    found, a dot where it is drawn to.

    Differences within the rope lie on a pale band; a line marks the typical one. Of more than
    thirty datasets those that differ most are drawn. `better` names the methods for which positive
    and negative differences speak.
    """
    drawn = table.loc[table["mean"].abs().sort_values(ascending=False, kind="stable").index[:TOP]]
    drawn = drawn.sort_values("mean", ascending=False, kind="stable")
    tips = [
        f"{dataset}: found {number(row['mean'], 3)}, shrunken {number(row.shrunken, 3)} "
        f"({number(row.low, 3)} to {number(row.high, 3)})"
        for dataset, row in drawn.iterrows()
    ]
    room, height = room_for(["dataset", *drawn.index], 150) + 12, 26 + ROW * len(drawn)
    ends = [*drawn["mean"], *drawn["low"], *drawn["high"], -rope, rope, mean]
    wide = max(ends) - min(ends)
    x = Scale(min(ends) - 0.03 * wide, max(ends) + 0.03 * wide, room, WIDTH - 12)
    words = (
        f"Differences by dataset; those up to {number(rope)} do not matter; the typical one is "
        f"{number(mean, 3)}."
    )
    svg = Svg(title, f"{words} {'; '.join(tips)}.", height + 24)
    svg.rect(
        x(-rope),
        20,
        x(rope) - x(-rope),
        height - 20,
        "fpale",
        tip=f"differences up to {number(rope)} do not matter",
    )
    svg.text(room - 8, 12, "dataset", "muted", "end")
    svg.name(WIDTH - 12, 12, f"{better[0]} better →", (WIDTH - room) / 2 - 10, "muted", "end")
    svg.name(room, 12, f"← {better[1]} better", (WIDTH - room) / 2 - 10, "muted")
    svg.axis(x, height, 20, label=lambda t: number(t, 3))
    svg.line(x(0), 20, x(0), height, "zero")
    svg.line(x(mean), 20, x(mean), height, "arrow", stroke_dasharray="4 3")
    for i, (dataset, row) in enumerate(drawn.iterrows()):
        y = 20 + i * ROW + ROW / 2
        svg.name(room - 8, y + 4, str(dataset), room - 8, anchor="end")
        svg.dot(x(row["mean"]), y - 4, 4, "hollow", tip=tips[i])
        svg.line(x(row.low), y + 4, x(row.high), y + 4, "leader")
        svg.dot(x(row.shrunken), y + 4, 4, "faccent", tip=tips[i])
    return svg
