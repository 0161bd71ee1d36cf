"""Pairs of methods drawn: critical differences, the pairwise matrix, means and differences with
intervals, power.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.planning import PowerCurve
from mlflow_mleval.report.svg import (
    BOLD,
    SIZE,
    SMALL,
    TOP,
    WIDTH,
    Scale,
    Svg,
    fit,
    room_for,
    spans,
    text_width,
)
from mlflow_mleval.report.text import ARROWS, MINUS, fixed, latex, number, pvalue, shorten, terminal
from mlflow_mleval.words import count

# --------------------------------------------------------------------------------------------------
# The critical-difference diagram (Demšar 2006): mean ranks on an axis, bars over methods that no
# test separates.

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


# --------------------------------------------------------------------------------------------------
# The pairwise matrix, after the Multi-Comparison Matrix of Ismail-Fawaz et al. (2023): every pair
# in a cell.

CELL = 46
#: Room for a name beside its row, and for the key of the cells.
NAME, KEY = 170, 140
#: Differences smaller than this are float noise.
NOISE = 1e-12


def pairwise_matrix(pairs: pd.DataFrame, order: Sequence[str], p: str) -> Svg:
    """A staircase of cells, a pair each: a method's row lies to the right of its name, its column
    above it.

    A cell says how much better the method of its row is than that of its column: mean difference,
    wins/ties/losses over the datasets, p-value (the column `p`); with many methods only the sign.
    Blue: better by mean difference, orange: worse; the stronger the effect, the stronger the
    colour. A frame marks pairs that are separated. Pairs that were not compared may lack; of more
    than thirty methods in `order`, best first, thirty are drawn.
    """
    methods = list(order[:TOP])
    place = {m: i for i, m in enumerate(methods)}
    pairs = pairs[pairs["method_a"].isin(place) & pairs["method_b"].isin(place)]
    n = len(methods)
    room = max(room_for(methods[:1], 138) + 12, 60)
    cell = min(CELL, (WIDTH - room - 4) / max(n - 1, 1))
    size = pairs["mean_difference"].abs().max()
    decimals = max(0, 1 - math.floor(math.log10(size))) if size > NOISE else 0
    lines = {
        (r.method_a, r.method_b): _lines(r, getattr(r, p), decimals) for r in pairs.itertuples()
    }
    widest = max((text_width(t, SMALL) for texts in lines.values() for t in texts), default=0)
    detailed = widest <= cell - 1 and cell >= 40
    apart = "; ".join(
        f"{r.method_a} and {r.method_b}, {pvalue(getattr(r, p))}"
        for r in pairs[pairs["separated"]].itertuples()
    )
    height = cell * (n - 1) + 20
    svg = Svg(
        "Pairwise matrix",
        f"{count(len(pairs), 'pair')} of methods. Separated: {apart or 'none'}.",
        max(height, 104),
    )
    for row in pairs.itertuples():
        i, j = place[row.method_a], place[row.method_b]
        x, y = room + (j - 1) * cell, 2 + i * cell
        words = (
            f"{row.method_a} against {row.method_b}: mean difference "
            f"{number(row.mean_difference)}, {row.wins} wins, "
        )
        words += (
            f"{row.ties} ties, {row.losses} losses, "
            f"{pvalue(getattr(row, p))}{', separated' if row.separated else ''}"
        )
        svg.rect(
            x + 0.5,
            y + 0.5,
            cell - 1,
            cell - 1,
            "fpos" if row.mean_difference >= 0 else "fneg",
            fill_opacity=0.06 + 0.3 * min(abs(row.effect_size), 1),
            tip=words,
        )
        texts = (
            lines[row.method_a, row.method_b] if detailed else [_sign(row.mean_difference) or "0"]
        )
        first = y + cell / 2 + 4 - (len(texts) - 1) * 7
        for k, text in enumerate(texts):
            style = "small strong" if k == 0 or (k == 2 and row.separated) else "small"
            svg.text(x + cell / 2, first + 14 * k, text, style, "middle", pointer_events="none")
        if row.separated:
            svg.rect(x + 1.5, y + 1.5, cell - 3, cell - 3, "sep", pointer_events="none")
    for i, method in enumerate(methods):
        x = room + i * cell - 6
        y = 2 + i * cell + cell / 2 + 4 if i < n - 1 else height - 5
        svg.name(x, y, method, min(x - 2, NAME), "strong" if i == 0 else None, "end")
    if detailed and (n - 2) * cell > NAME + KEY:
        _key(svg, room, height)
    return svg


def _key(svg: Svg, x: float, height: float) -> None:
    """What the lines of a cell are, in the empty corner."""
    y = height - CELL - 6
    svg.rect(x - 20, y, CELL - 1, CELL - 1, "fpale")
    for k, (cell, meaning) in enumerate(
        [("+0.10", "mean difference"), ("6/1/4", "won/tied/lost"), (".012", "p-value")]
    ):
        svg.text(
            x - 20 + CELL / 2,
            y + 13 + 14 * k,
            cell,
            "small strong" if k == 0 else "small",
            "middle",
        )
        svg.text(x + CELL - 14, y + 13 + 14 * k, meaning, "small muted")


def _lines(row: Any, p: float, decimals: int) -> list[str]:
    """Mean difference with its sign, wins/ties/losses, p-value: what a cell has room for."""
    difference = _sign(row.mean_difference) + fixed(abs(row.mean_difference), decimals)
    return [difference, f"{row.wins}/{row.ties}/{row.losses}", pvalue(p, bare=True)]


def _sign(value: float) -> str:
    return "" if abs(value) <= NOISE else "+" if value > 0 else MINUS


# --------------------------------------------------------------------------------------------------
# Means of a few methods by one or two measures in their own units, with intervals.

MEANS_ROW, GAP = 22, 26


def means_figure(
    tables: Mapping[str, pd.DataFrame], directions: Mapping[str, str], stressed: Collection[str]
) -> Svg:
    """A panel a measure, a row a method: its mean as a dot and its interval as a line.

    Tables have columns mean, low, high.
    """
    methods = list(next(iter(tables.values())).index)
    room = room_for(methods, 140) + 8
    wide = (WIDTH - room - GAP * len(tables)) / len(tables)
    bottom = 24 + MEANS_ROW * len(methods)
    svg = Svg("Means in the measures' own units", _means_words(tables, directions), bottom + 24)
    for i, method in enumerate(methods):
        svg.name(
            room - 8,
            24 + MEANS_ROW * (i + 0.5) + 4,
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
            y, accent = 24 + MEANS_ROW * (i + 0.5), method in stressed
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


def _means_words(tables: Mapping[str, pd.DataFrame], directions: Mapping[str, str]) -> str:
    better = {"max": "larger is better", "min": "smaller is better"}
    return " ".join(
        f"{measure} ({better[directions[measure]]}): "
        f"{', '.join(f'{m} {number(x, 3)}' for m, x in table['mean'].items())}."
        for measure, table in tables.items()
    )


# --------------------------------------------------------------------------------------------------
# Differences of two methods by dataset: as they were found, and drawn towards those on the other
# datasets.

SHRINKAGE_ROW = 22


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
    room, height = room_for(["dataset", *drawn.index], 150) + 12, 26 + SHRINKAGE_ROW * len(drawn)
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
        y = 20 + i * SHRINKAGE_ROW + SHRINKAGE_ROW / 2
        svg.name(room - 8, y + 4, str(dataset), room - 8, anchor="end")
        svg.dot(x(row["mean"]), y - 4, 4, "hollow", tip=tips[i])
        svg.line(x(row.low), y + 4, x(row.high), y + 4, "leader")
        svg.dot(x(row.shrunken), y + 4, 4, "faccent", tip=tips[i])
    return svg


# --------------------------------------------------------------------------------------------------
# Power against the number of datasets.


def power_lines(found: PowerCurve, title: str) -> Svg:
    """The curve with its band, the wanted power as a dashed line, and marks where the study is and
    where the power is reached.
    """
    c, bottom = found.curve, 210
    x, y = Scale(c["n"].min(), c["n"].max(), 46, WIDTH - 24), Scale(0, 1, bottom, 14)
    there = float(c["power"][c["n"] == found.n].max())
    how_many = f"{found.needed:,.0f}" if found.needed <= c["n"].max() else "more than are drawn"
    svg = Svg(
        title,
        f"Power with {found.n} datasets {there:.0%}; {found.target:.0%} takes {how_many}.",
        bottom + 44,
    )
    for share in (0, 0.2, 0.4, 0.6, 0.8, 1):
        svg.line(46, y(share), WIDTH - 24, y(share), "grid")
        svg.text(40, y(share) + 4, f"{share:.0%}", "muted small", "end")
    svg.axis(x, bottom, 14, label=lambda t: f"{t:,.0f}")
    svg.text(WIDTH / 2, bottom + 38, "datasets", "muted", "middle")
    across = [x(n) for n in c["n"]]
    edge = [
        *zip(across, map(y, c["high"]), strict=True),
        *zip(across[::-1], map(y, c["low"][::-1]), strict=True),
    ]
    svg.path(edge, "f0", fill_opacity=0.13)
    svg.line(46, y(found.target), WIDTH - 24, y(found.target), "arrow", stroke_dasharray="4 3")
    if found.more:
        svg.path([*zip(across, map(y, c["limit"]), strict=True)], "c0", stroke_dasharray="2 3")
    svg.path([*zip(across, map(y, c["power"]), strict=True)], "c0 thick")
    svg.dot(x(found.n), y(there), 5, "hollow", tip=f"{found.n} datasets, as now: {there:.0%}")
    if found.needed <= c["n"].max():
        svg.dot(
            x(found.needed),
            y(found.target),
            5,
            "faccent",
            tip=f"{found.needed:,.0f} datasets: {found.target:.0%}",
        )
    return svg
