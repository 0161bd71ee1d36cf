"""Pairs of methods drawn: critical differences, the pairwise matrix, means and differences with
intervals, power.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.beyond_pvalues import PowerCurve
from mlflow_mleval.report.svg import (
    BOLD,
    SIZE,
    SMALL,
    TOP,
    WIDTH,
    Point,
    Scale,
    Svg,
    fit,
    missed,
    room_for,
    spans,
    text_width,
)
from mlflow_mleval.report.text import MINUS, fixed, latex, number, pvalue, shorten, terminal
from mlflow_mleval.sentences import count

# --------------------------------------------------------------------------------------------------
# The critical-difference diagram (Demšar 2006): mean ranks on an axis, bars over methods that no
# test separates.

ROW = 19
LEVEL = 9
#: More bars than this would hide what they say; the letters of the ranking table hold them all.
MOST_BARS = 24


@dataclass(frozen=True)
class _Diagram:
    """What both forms of the diagram share: methods on an axis, and bars by level."""

    ranks: pd.Series
    x: Scale
    ruler: bool  #: whether the critical difference finds room on the axis
    bars: list[tuple[int, list[int]]]

    @classmethod
    def of(
        cls,
        mean_ranks: pd.Series,
        cliques: Sequence[Sequence[str]],
        cd: float | None,
        ends: tuple[float, float],
        unit: float = 1,
    ) -> "_Diagram":
        """The diagram from one end to the other; `unit` is a millimetre or so in their unit."""
        ranks = mean_ranks.sort_values(kind="stable")[:TOP]
        low, high, ruler = _domain(ranks, len(mean_ranks), cd)
        x = Scale(low, high, *ends)
        groups = shown_cliques(cliques, list(ranks.index))
        return cls(ranks, x, ruler, _levels(groups, [x(rank) / unit for rank in ranks]))

    @property
    def levels(self) -> int:
        """How many bars lie above each other."""
        return 1 + max((level for level, _ in self.bars), default=-1)

    def ticks(self) -> list[int]:
        """The whole ranks on the axis."""
        return [int(t) for t in self.x.ticks(12) if t == int(t)]

    def rows(self) -> Iterator[tuple[str, float, bool, int]]:
        """Each method with its rank, whether its name stands at the left, and in which row."""
        n = len(self.ranks)
        for i, (method, rank) in enumerate(self.ranks.items()):
            left = i < (n + 1) // 2
            yield method, rank, left, i if left else n - 1 - i

    def pieces(self, over: float) -> Iterator[tuple[int, float, float, bool]]:
        """The bars from member to member: level, ends, and whether it passes over others; at its
        ends a bar reaches a little over.
        """
        places = [self.x(rank) for rank in self.ranks]
        for level, members in self.bars:
            for i, j in pairwise(members):
                start = places[i]
                stop = places[j]
                start = start - over * (i == members[0])
                stop = stop + over * (j == members[-1])
                yield level, start, stop, j > i + 1


def critical_difference(
    mean_ranks: pd.Series, cliques: Sequence[Sequence[str]], cd: float | None = None
) -> Svg:
    """Mean ranks, best at the left, with a bar over each maximal group of methods that are not
    separated, and `cd` as a ruler.

    Of more than thirty methods the best thirty are drawn. Where a group skips a method between its
    members, its bar is broken.
    """
    methods = list(mean_ranks.sort_values(kind="stable").index[:TOP])
    room = room_for(methods, 124) + 48
    drawn = _Diagram.of(mean_ranks, cliques, cd, (room + 14, WIDTH - room - 14))
    x = drawn.x
    top = 64 if cd is not None else 30
    first = top + 26 + LEVEL * drawn.levels
    height = first + ((len(methods) + 1) // 2 - 1) * ROW + 10
    svg = Svg("Critical-difference diagram", _words(drawn.ranks, drawn.bars, methods, cd), height)
    if cd is not None:
        _ruler(svg, drawn, cd)
    svg.level(top, x.start, x.stop, "axis")
    for tick in drawn.ticks():
        svg.upright(x(tick), top - 5, top, "axis")
        svg.text(x(tick), top - 9, tick, "muted", "middle")
    for method, rank, left, row in drawn.rows():
        y = first + row * ROW
        best = method == methods[0]
        end = room + 4
        edge = room
        anchor = "end"
        if not left:
            end = WIDTH - end
            edge = WIDTH - edge
            anchor = "start"
        svg.path([(x(rank), top), (x(rank), y), (end, y)], "leader" if best else "elbow")
        short = fit(method, room - 48, SIZE * (BOLD if best else 1))
        pieces = [(short, "strong" if best else ""), ("  ", ""), (fixed(rank, 2), "muted")]
        text = spans(*(pieces if left else pieces[::-1]))
        svg.text(edge, y + 4, text, None, anchor, tip=method)
    for level, start, stop, gap in drawn.pieces(over=2):
        y = top + 14 + level * LEVEL
        svg.level(y, start, stop, "gap" if gap else "bar")
    for level, members in drawn.bars:
        for i in members if members[-1] - members[0] >= len(members) else ():
            svg.dot(x(drawn.ranks.iloc[i]), top + 14 + level * LEVEL, 3.5, "bar-dot")
    return svg


def _ruler(svg: Svg, drawn: _Diagram, cd: float) -> None:
    """The critical difference above the axis, in words where it finds no room."""
    more = "" if drawn.ruler else ", more than this axis"
    svg.text(drawn.x.start, 13, f"critical difference {fixed(cd, 2)}{more}", "muted")
    if drawn.ruler:
        a = drawn.x(drawn.x.low)
        b = drawn.x(drawn.x.low + cd)
        svg.path([(a, 20), (a, 28), (a, 24), (b, 24), (b, 20), (b, 28)], "ruler")


def in_tikz(
    mean_ranks: pd.Series, cliques: Sequence[Sequence[str]], cd: float | None = None
) -> str:
    """The same diagram for a paper, as a picture in TikZ, 12 cm wide; needs no library of it."""
    drawn = _Diagram.of(mean_ranks, cliques, cd, (0, 12), unit=0.02)
    x = drawn.x
    first = 0.45 + 0.16 * drawn.levels
    lines = [r"\begin{tikzpicture}[x=1cm,y=1cm,font=\footnotesize]", r"\draw (0,0) -- (12,0);"]
    for tick in drawn.ticks():
        lines.append(rf"\draw ({x(tick):.3f},0) -- ({x(tick):.3f},.12) node[above] {{{tick}}};")
    if cd is not None and drawn.ruler:
        lines.append(
            rf"\draw[|-|] (0,.75) -- node[above] {{critical difference {cd:.2f}}} "
            rf"({x(x.low + cd):.3f},.75);"
        )
    for method, rank, left, row in drawn.rows():
        pieces = [latex(shorten(terminal(method), 24)), f"{rank:.2f}"]
        text = r"\quad ".join(pieces if left else pieces[::-1])
        end, side = (-0.3, "left") if left else (12.3, "right")
        lines.append(
            rf"\draw ({x(rank):.3f},0) |- ({end},{-first - 0.42 * row:.2f}) node[{side}] "
            rf"{{{text}}};"
        )
    for level, start, stop, gap in drawn.pieces(over=0.05):
        y = -0.25 - 0.16 * level
        style = "dotted, thick" if gap else "line width=2pt"
        lines.append(rf"\draw[{style}] ({start:.3f},{y:.2f}) -- ({stop:.3f},{y:.2f});")
    return "\n".join([*lines, r"\end{tikzpicture}%"])


def shown_cliques(cliques: Sequence[Sequence[str]], methods: Sequence[str]) -> list[list[int]]:
    """Positions of the members of the groups of two or more among the methods that are drawn,
    maximal ones only.
    """
    place = {m: i for i, m in enumerate(methods)}
    groups = {tuple(sorted(place[m] for m in clique if m in place)) for clique in cliques}
    several = [group for group in groups if len(group) > 1]
    maximal = [g for g in several if not any(set(g) < set(other) for other in several)]
    return [list(group) for group in sorted(maximal)]


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
    """Ends of the axis, and whether it has room for the critical difference, or half more."""
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
NAME = 170
KEY = 140
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
    n = len(methods)
    pairs = pairs[pairs["method_a"].isin(place) & pairs["method_b"].isin(place)]
    pairs = pairs.assign(p=pairs[p])
    room = max(room_for(methods[:1], 138) + 12, 60)
    cell = min(CELL, (WIDTH - room - 4) / max(n - 1, 1))
    rows = list(pairs.itertuples())
    detailed, texts = _texts(rows, cell)
    apart = [f"{r.method_a} and {r.method_b}, {pvalue(r.p)}" for r in rows if r.separated]
    words = f"{count(len(pairs), 'pair')} of methods. Separated: {'; '.join(apart) or 'none'}."
    height = cell * (n - 1) + 20
    svg = Svg("Pairwise matrix", words, max(height, 104))
    for row, lines in zip(rows, texts, strict=True):
        i = place[row.method_a]
        j = place[row.method_b]
        _cell(svg, row, lines, (room + (j - 1) * cell, 2 + i * cell), cell)
    for i, method in enumerate(methods):
        x = room + i * cell - 6
        y = 2 + i * cell + cell / 2 + 4 if i < n - 1 else height - 5
        svg.name(x, y, method, min(x - 2, NAME), "strong" if i == 0 else None, "end")
    if detailed and (n - 2) * cell > NAME + KEY:
        _add_key(svg, room, height)
    return svg


def _texts(rows: Sequence[Any], cell: float) -> tuple[bool, list[list[str]]]:
    """What stands in the cells: all there is to say where it finds room, else the sign alone."""
    size = max((abs(row.mean_difference) for row in rows), default=0)
    decimals = max(0, 1 - math.floor(math.log10(size))) if size > NOISE else 0
    texts = [_lines_of_cell(row, decimals) for row in rows]
    widest = max((text_width(text, SMALL) for lines in texts for text in lines), default=0)
    if widest <= cell - 1 and cell >= 40:
        return True, texts
    return False, [[_sign_shown(row.mean_difference) or "0"] for row in rows]


def _cell(svg: Svg, row: Any, lines: Sequence[str], corner: Point, size: float) -> None:
    """One pair: its colour, its texts, and a frame where it is separated."""
    x, y = corner
    tip = (
        f"{row.method_a} against {row.method_b}: mean difference "
        f"{number(row.mean_difference)}, {row.wins} wins, {row.ties} ties, {row.losses} losses, "
        f"{pvalue(row.p)}{', separated' if row.separated else ''}"
    )
    colour = "fpos" if row.mean_difference >= 0 else "fneg"
    strength = 0.06 + 0.3 * min(abs(row.effect_size), 1)
    svg.rect(x + 0.5, y + 0.5, size - 1, size - 1, colour, fill_opacity=strength, tip=tip)
    first = y + size / 2 + 4 - (len(lines) - 1) * 7
    for k, text in enumerate(lines):
        style = "small strong" if k == 0 or (k == 2 and row.separated) else "small"
        svg.text(x + size / 2, first + 14 * k, text, style, "middle", pointer_events="none")
    if row.separated:
        svg.rect(x + 1.5, y + 1.5, size - 3, size - 3, "sep", pointer_events="none")


def _add_key(svg: Svg, x: float, height: float) -> None:
    """What the lines of a cell are, in the empty corner."""
    y = height - CELL - 6
    svg.rect(x - 20, y, CELL - 1, CELL - 1, "fpale")
    lines = {"+0.10": "mean difference", "6/1/4": "won/tied/lost", ".012": "p-value"}
    for k, (cell, meaning) in enumerate(lines.items()):
        at = y + 13 + 14 * k
        style = "small strong" if k == 0 else "small"
        svg.text(x - 20 + CELL / 2, at, cell, style, "middle")
        svg.text(x + CELL - 14, at, meaning, "small muted")


def _lines_of_cell(row: Any, decimals: int) -> list[str]:
    """Mean difference with its sign, wins/ties/losses, p-value: what a cell has room for."""
    difference = _sign_shown(row.mean_difference) + fixed(abs(row.mean_difference), decimals)
    return [difference, f"{row.wins}/{row.ties}/{row.losses}", pvalue(row.p, bare=True)]


def _sign_shown(value: float) -> str:
    return "" if abs(value) <= NOISE else "+" if value > 0 else MINUS


# --------------------------------------------------------------------------------------------------
# Power against the number of datasets.


def power_lines(found: PowerCurve, title: str) -> Svg:
    """The curve with its band, the wanted power as a dashed line, and marks where the study is and
    where the power is reached.
    """
    c = found.curve
    bottom = 210
    x = Scale(c["n"].min(), c["n"].max(), 46, WIDTH - 24)
    y = Scale(0, 1, bottom, 14)
    there = float(c["power"][c["n"] == found.n].max())
    how_many = f"{found.needed:,.0f}" if found.needed <= c["n"].max() else "more than are drawn"
    svg = Svg(
        title,
        f"Power with {found.n} datasets {there:.0%}; {found.target:.0%} takes {how_many}.",
        bottom + 44,
    )
    svg.side_axis(y, [(share, f"{share:.0%}") for share in y.ticks(5)], x.start, x.stop)
    svg.axis(x, bottom, 14, label=lambda t: f"{t:,.0f}")
    svg.text(WIDTH / 2, bottom + 38, "datasets", "muted", "middle")
    across = [x(n) for n in c["n"]]
    svg.band(across, map(y, c["low"]), map(y, c["high"]), "f0")
    svg.level(y(found.target), 46, WIDTH - 24, "arrow", stroke_dasharray="4 3")
    svg.path([*zip(across, map(y, c["power"]), strict=True)], "c0 thick")
    svg.dot(x(found.n), y(there), 5, "hollow", tip=f"{found.n} datasets, as now: {there:.0%}")
    if found.needed <= c["n"].max():
        tip = f"{found.needed:,.0f} datasets: {found.target:.0%}"
        svg.dot(x(found.needed), y(found.target), 5, "faccent", tip=tip)
    return svg


# --------------------------------------------------------------------------------------------------
# A gate: differences against margins, and the evidence of a ledger.

#: Rows of a forest plot; the table has the others.
_FOREST = 40


def differences_and_margins(rows: pd.DataFrame) -> Svg:
    """A forest plot: difference with its limits a row, and minus the margin as a short line."""
    shown = rows.head(_FOREST)
    left = max(len(rows) - _FOREST, 0)
    labels = [
        f"{row.measure} · {row.slice}" if row.slice else str(row.measure)
        for row in shown.itertuples()
    ]
    ends = shown[["low", "high", "difference"]].to_numpy(float)
    reach = ends[np.isfinite(ends)]
    most = 1.15 * max(np.abs(reach).max(initial=0.0), shown["margin"].max(skipna=True) or 0.0, 1e-3)
    room = room_for(labels, 220)
    x = Scale(-most, most, room + 8, WIDTH - 74)
    bottom = 10 + ROW * len(shown)
    words = "; ".join(map("{} {}".format, labels, shown["verdict"]))
    svg = Svg("Differences and margins", f"{words}.", bottom + 30 + 16 * bool(left))
    svg.grid(x, 6, bottom, 6)
    svg.upright(x(0), 4, bottom, "axis")
    for i, (label, row) in enumerate(zip(labels, shown.itertuples(), strict=True)):
        y = 8 + ROW * (i + 0.5)
        colour = "fneg" if row.verdict == "worse" else "faccent"
        low, high = (float(np.clip(end, -most, most)) for end in (row.low, row.high))
        svg.name(room, y + 4, label, room, "strong" if row.verdict == "worse" else None, "end")
        if not math.isnan(row.low):
            svg.level(y, x(low), x(high), "arrow")
        if row.margin > 0:
            svg.upright(x(-row.margin), y - 7, y + 7, "tick")
        tip = f"{label}: {number(row.difference)} [{number(row.low)}, {number(row.high)}]"
        svg.dot(x(float(np.clip(row.difference, -most, most))), y, 4, colour, tip=tip)
        svg.text(WIDTH, y + 4, row.verdict, "muted small", "end")
    svg.axis(x, bottom, label=number)
    if left:
        svg.text(room + 8, bottom + 36, f"and {left} more rows in the table", "muted small")
    return svg


def ledger_steps(entries: pd.DataFrame) -> Svg:
    """Evidence of each gate of a ledger on a logarithmic axis, with what was needed; ships are
    filled; gates without evidence are left out.
    """
    entries = entries[entries["evidence"].notna()]
    needed = np.log10(1 / entries["level"].to_numpy(float))
    evidence = np.log10(np.clip(entries["evidence"].to_numpy(float), 1e-3, 1e12))
    bottom = 170
    numbers_ = entries["number"].to_numpy(float)
    x = Scale(min(numbers_.min(), 1), max(numbers_.max(), 2), 46, WIDTH - 16)
    y = Scale(min(evidence.min(), 0.0) - 0.3, max(evidence.max(), needed.max()) + 0.3, bottom, 12)
    shipped = entries["decision"] == "ship"
    about = f"{int(shipped.sum())} of {len(entries)} gates shipped."
    svg = Svg("Evidence in the ledger", about, bottom + 40)
    ticks = [t for t in y.ticks(5) if t == round(t)]
    svg.side_axis(y, [(t, f"1e{t:.0f}" if abs(t) > 3 else f"{10**t:g}") for t in ticks], 46, WIDTH)
    svg.axis(x, bottom, label=lambda t: f"{t:.0f}" if t == round(t) else "")
    svg.text(WIDTH / 2, bottom + 36, "gate", "muted", "middle")
    if len(entries) > 1:
        svg.path([*zip(map(x, numbers_), map(y, needed), strict=True)], "c0 thick")
    for row, at, height in zip(entries.itertuples(), numbers_, evidence, strict=True):
        tip = f"gate {row.number}: {row.candidate}, {number(row.evidence)}, {row.decision}"
        svg.dot(x(at), y(height), 4, "faccent" if row.decision == "ship" else "hollow", tip=tip)
    return svg


# --------------------------------------------------------------------------------------------------
# Who led, and who may have been as good, over time.

#: Height of a row, and methods that are drawn.
TIME_ROW, TIME_METHODS = 22, 12


def leaders_over_time(then: pd.DataFrame, order: Sequence[str]) -> Svg:
    """A row a method, a column a moment: the leader as a large dot, who may have been as good as a
    ring, who was there as a small dot.

    `then` has the columns moment, leader, best_set, methods, n_datasets; `order` is that of now.
    """
    ever = [m for m in order if any(m in best for best in then["best_set"])]
    drawn = ever[:TIME_METHODS]
    room = room_for(drawn, 200)
    bottom = 26 + TIME_ROW * len(drawn)
    words = "; ".join(f"{row.moment}: {row.leader}" for row in then.itertuples())
    svg = Svg("Who led over time", f"{words}.", bottom + 36)
    step = (WIDTH - room - 20) / max(len(then), 2)
    for i, row in enumerate(then.itertuples()):
        x = room + 20 + step * (i + 0.5)
        svg.text(x, 14, row.moment, "small", "middle")
        svg.text(x, bottom + 14, str(row.n_datasets), "muted small", "middle")
        svg.upright(x, 22, bottom)
        for at, method in enumerate(drawn):
            y, tip = 26 + TIME_ROW * (at + 0.5), f"{method}, {row.moment}"
            if method == row.leader:
                svg.dot(x, y, 6.5, "faccent", tip=f"{tip}: leads")
            elif method in row.best_set:
                svg.dot(x, y, 5, "hollow", tip=f"{tip}: may be as good")
            elif method in row.methods:
                svg.dot(x, y, 2, "fgrey", tip=f"{tip}: clearly worse")
    for at, method in enumerate(drawn):
        svg.text(room, 26 + TIME_ROW * (at + 0.5) + 4, fit(method, room), anchor="end")
    svg.text(room, bottom + 14, "datasets", "muted small", "end")
    missed(svg, len(ever) - len(drawn), 0)
    return svg
