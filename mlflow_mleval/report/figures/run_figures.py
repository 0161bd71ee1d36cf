"""One run: its values by fold, and what becomes of each of its labels."""

from collections.abc import Mapping

import pandas as pd
from markupsafe import Markup

from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report.numerals import aligned, fixed, number
from mlflow_mleval.report.svg import TOP, WIDTH, Scale, Svg, room_for, text_width

ROW = 19
#: What becomes of an instance that has a label or is predicted to: count, class of the bar, its
#: opacity, words.
_PARTS = (
    ("tp", "faccent", None, "found"),
    ("fn", "faccent", 0.28, "missed"),
    ("fp", "fneg", None, "predicted wrongly"),
)


def run_folds(folds: pd.DataFrame, means: Mapping[str, float]) -> Svg:
    """Every fold as a dot on an axis from 0 to 1, a row a measure, the mean as a line."""
    names = list(folds.columns)
    heads = [f"{m} {MEASURES[m].arrow}" for m in names]
    room = room_for(heads, 240)
    x = Scale(0, 1, room + 6, WIDTH - 70)
    ends = zip(names, folds.min(), folds.max(), strict=True)
    words = "; ".join(f"{m} {number(low)} to {number(high)}" for m, low, high in ends)
    svg = Svg(
        "Values by fold", f"Range over {len(folds)} folds: {words}.", 22 + ROW * len(names) + 24
    )
    svg.text(WIDTH, 12, "mean", "muted", "end")
    bottom = 22 + ROW * len(names)
    for tick in x.ticks(5):
        svg.line(x(tick), 18, x(tick), bottom, "grid")
    shown = aligned(means.get(m) for m in names)
    for i, (m, head) in enumerate(zip(names, heads, strict=True)):
        at = 20 + ROW * i + ROW / 2
        svg.text(room, at + 4, head, anchor="end")
        known = [
            (fold, value)
            for fold, value in zip(folds.index, folds[m].tolist(), strict=True)
            if value == value
        ]
        dots = (f'<circle cx="{x(value):.2f}" cy="{at:g}" r="3.2"/>' for _, value in known)
        tip = f"{m}: " + ", ".join(f"fold {fold} {number(value)}" for fold, value in known)
        svg.add(
            "g", Markup("").join(map(Markup, dots)), class_="faccent", fill_opacity=0.45, tip=tip
        )
        if m in means:
            svg.line(x(means[m]), at - 6, x(means[m]), at + 6, "tick")
        svg.text(WIDTH, at + 4, shown[i], anchor="end")
    svg.axis(x, bottom, about=5, label=number)
    return svg


def run_labels(labels: pd.DataFrame) -> Svg:
    """What becomes of each label: the instances where it is true or predicted, in shares; the first
    thirty labels are drawn.
    """
    drawn = labels.iloc[:TOP]
    room = room_for(drawn.index, 180) + 10
    x = Scale(0, 1, room, WIDTH - 118)
    rows = drawn.to_dict("records")
    told = [
        ", ".join(f"{row[column]:,.0f} {text}" for column, _, _, text in _PARTS) for row in rows
    ]
    words = "; ".join(f"{label}: {text}" for label, text in zip(drawn.index, told, strict=True))
    svg = Svg("What becomes of each label", f"{words}.", 24 + ROW * len(drawn) + 6)
    at = x.start
    for _, class_, opacity, text in _PARTS:
        svg.rect(at, 3, 10, 10, class_, fill_opacity=opacity)
        svg.text(at + 14, 12, text, "muted")
        at += 14 + text_width(text) + 12
    svg.text(WIDTH - 58, 12, "F1", "muted", "end")
    svg.text(WIDTH, 12, "support", "muted", "end")
    for i, (label, row) in enumerate(zip(drawn.index, rows, strict=True)):
        top = 22 + i * ROW
        svg.name(room - 8, top + 12, label, room - 8, anchor="end")
        start, whole = 0.0, max(row["tp"] + row["fn"] + row["fp"], 1)
        for column, class_, opacity, _ in _PARTS:
            if n := row[column]:
                svg.rect(
                    x(start),
                    top,
                    x(start + n / whole) - x(start),
                    ROW - 5,
                    class_,
                    fill_opacity=opacity,
                )
            start += n / whole
        svg.rect(room, top, x.stop - room, ROW - 5, None, fill_opacity=0, tip=f"{label}: {told[i]}")
        svg.text(WIDTH - 58, top + 12, fixed(row["f1"], 3), anchor="end")
        svg.text(WIDTH, top + 12, f"{row['support']:,.0f}", "muted", "end")
    return svg
