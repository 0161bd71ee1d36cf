"""A comparison drawn: ranks, weights, critical differences, pairs, gates, time."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations, compress, pairwise
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.report.figures import (
    BOLD,
    COLOURS,
    ROW,
    SIZE,
    SMALL,
    TOP,
    WIDTH,
    Box,
    Rows,
    Scale,
    Svg,
    fit,
    label_points,
    missed,
    point_label,
    room_for,
    scatter,
    text_width,
)
from mlflow_mleval.report.text import (
    MINUS,
    fixed,
    large,
    number,
    percent,
    pvalue,
    shortened,
    terminal,
)
from mlflow_mleval.sentences import count

# --------------------------------------------------------------------------------------------------
# A picture that runs through the rows of a table.

#: The height of a row where there are up to DENSE and where there are more.
RUNG, DENSE_RUNG, DENSE = 20, 16, 20
EDGE = 5  #: per cent that stay free at both ends


def rungs(
    table: pd.DataFrame, title: str, zero: bool, single: Mapping[str, Sequence[float]] | None = None
) -> tuple[list[Svg], Svg, Scale]:
    """A picture of a mean and its interval a row (mean, low, high), with `single` values as dots
    and a line at `zero` if asked for; what stands above it; its scale in per cent."""
    single = {row: values for row, values in (single or {}).items() if row in table.index}
    there = [*table.stack(), *chain.from_iterable(single.values())]
    x = Scale(min(there), max(there), EDGE, 100 - EDGE)
    height = RUNG if len(table) <= DENSE else DENSE_RUNG

    def at(value: float) -> str:
        return f"{x(value):.2f}%"

    drawn = []
    for row, mean, low, high in table.itertuples():
        svg = Svg("", "", height, 0, inline=True)
        if zero and x.low < 0 < x.high:
            svg.upright(at(0), 0, height, "zero")
        if math.isfinite(low):
            svg.level(height / 2, at(low), at(high), "whisker")
        for value in single.get(row, ()):
            svg.dot(at(value), height / 2, 2.5, "single")
        svg.dot(at(mean), height / 2, 4.5, "faccent")
        drawn.append(svg)
    axis = Svg(title, "", 34, 0, inline=True)
    axis.text(0, SMALL, title, "muted small")
    for tick in x.ticks(3):
        axis.upright(at(tick), 30, 34, "axis")
        anchor = "start" if x(tick) < 12 else "end" if x(tick) > 88 else "middle"
        axis.text(at(tick), 28, number(tick), "muted small", anchor)
    return drawn, axis, x


def shade(rank: float, n_methods: int) -> float:
    """How strong a rank is drawn: from 1 for the best to almost nothing for the worst."""
    return 1.0 - 0.93 * (rank - 1) / max(n_methods - 1, 1)


def rank_acceptability(shares: pd.DataFrame) -> Svg:
    """A strip a method of the shares of its ranks (methods x ranks), the best at the left."""
    drawn = shares.iloc[:TOP]
    words = "Share of random weights that give each rank, of which the first:"
    svg = Rows("Rank acceptability", words, drawn.index, 150, ("method", "first"))
    x = Scale(0, 1, svg.room + 8, WIDTH - 48)
    for y, row in zip(svg.rows(drawn.index[:1]), drawn.to_numpy(float), strict=True):
        edges = map(x, np.append(0.0, np.cumsum(row[:TOP])))
        for rank, (a, b) in enumerate(pairwise(edges), start=1):
            if b - a > 0.2:
                strength = shade(rank, shares.shape[1])
                svg.rect(a, y - 8, b - a - 0.6, 16, "faccent", fill_opacity=strength)
        svg.at_right(y, percent(row[0], bare=True))
    svg.axis(x, svg.bottom, about=4, label=lambda t: f"{t:.0%}")
    return svg


def weight_intervals(table: pd.DataFrame) -> Svg:
    """A bar where the leader stays, a tick at the weight; of too many, the narrowest ranges."""
    width = table["weight_high"] - table["weight_low"]
    drawn = table if len(table) <= TOP else table.loc[width.nsmallest(TOP).index]
    words = "Range of each weight, the others rescaled, in which the leader stays:"
    svg = Rows("Weight stability", words, drawn.index, 150, ("measure", "leader stays"))
    x = Scale(0, 1, svg.room + 8, WIDTH - 104)
    svg.axis(x, svg.bottom, 20, about=4)
    for y, row in zip(svg.rows(), drawn.itertuples(), strict=True):
        ends = row.weight_low, row.weight_high
        start, stop = map(x, ends)
        svg.rect(start, y - 6, stop - start, 12, "faccent", fill_opacity=0.28)
        svg.upright(x(row.weight), y - 8, y + 8, "tick")
        svg.at_right(y, " – ".join(fixed(end, 3) for end in ends), "muted")
    return svg


BUMP_ROW = 19
SLANT = -38


def bump(ranks: pd.DataFrame) -> Svg:
    """One line a method through its ranks, one column a way of ranking, the first of which orders;
    lines that are ever first are coloured, those of methods that were left out (NaN) broken."""
    order = ranks.sort_values(ranks.columns[0], kind="stable").iloc[:TOP]
    drawn = order.rank(method="first")
    room = room_for(drawn.index, 118) + 12
    x = Scale(0, max(len(drawn.columns) - 1, 1), room + 10, WIDTH - room - 10)
    heads = [fit(str(c), 130) for c in drawn.columns]
    top = 26 + max(map(text_width, heads)) * 0.62
    bottom = top + len(drawn) * BUMP_ROW
    texts = {m: ", ".join(map(number, row)) for m, row in order.iterrows()}
    words = "; ".join(map(": ".join, texts.items()))
    words = f"Ranks under {', '.join(map(str, ranks.columns))}. {words}."
    svg = Svg("Ranking under other choices", words, bottom + 2)
    for i, head in enumerate(heads):
        turned = f"translate({x(i) + 3:.1f} {top - 14:.1f}) rotate({SLANT})"
        svg.text(0, 0, head, "strong" if i == 0 else "muted", transform=turned)
        svg.upright(x(i), top - 8, bottom - 8)
    leaders = list(order.index[(drawn == 1).any(axis=1)])[:COLOURS]
    for method, *places in drawn.iloc[::-1].itertuples():
        style, line = None, "plain thin"
        if method in leaders:
            style, line = "strong", f"c{leaders.index(method)} thick"
        heights = [top + (rank - 1) * BUMP_ROW for rank in places]
        for i, (a, b) in enumerate(pairwise(heights)):
            if not math.isnan(a + b):
                svg.line(x(i), a, x(i + 1), b, line)
        svg.name(room, heights[0] + SIZE / 3, method, room - 4, style, "end")
        if not math.isnan(heights[-1]):
            svg.name(WIDTH - room, heights[-1] + SIZE / 3, method, room - 4, style)
    return svg


SWEEP = 180  #: how far an arc may reach to the right


def correlation_graph(
    correlation: pd.DataFrame,
    threshold: float,
    groups: Sequence[Sequence[str]],
    kept: Sequence[str],
) -> Svg:
    """One row a measure, those of `groups` first and in a colour each: a filled dot if the filter
    keeps it, arcs to those with which its mean absolute correlation is above `threshold`."""
    several = sorted((list(g) for g in groups if len(g) > 1), key=len, reverse=True)
    place = {m: i for i, g in enumerate(several) for m in g}
    drawn = sorted(correlation.index, key=lambda m: place.get(m, len(several)))[:TOP]
    between = ((pair, float(correlation.loc[pair])) for pair in combinations(drawn, 2))
    pairs = {pair: r for pair, r in between if r > threshold}
    words = "; ".join(f"{a} and {b} {number(r, 2)}" for (a, b), r in pairs.items()) or "none"
    above = f"above {threshold:g}"
    words = f"Pairs of measures with an average absolute correlation {above}: {words}."
    svg = Rows("Correlated measures", words, drawn, 300, ("measure", ""), below=4)
    spine = svg.room + 24
    svg.text(spine - 5, 12, f"correlated {above}", "muted")
    y = dict(zip(drawn, svg.rows(), strict=True))
    for a, b in pairs:
        tall = abs(y[a] - y[b]) / 2
        wide = min(SWEEP, 12 + 0.6 * tall)
        ends = f"{spine + 6:.1f} {y[a]:.1f}", f"{spine + 6:.1f} {y[b]:.1f}"
        path = f"M{ends[0]}A{wide:.1f} {tall:.1f} 0 0 1 {ends[1]}"  # half an ellipse to the right
        svg.add("path", d=path, class_=f"c{place.get(a, 0) % COLOURS} thin")
    for m in drawn:
        kind = place[m] % COLOURS if m in place else None
        fill, stroke = ("fgrey", "plain") if kind is None else (f"f{kind}", f"c{kind}")
        svg.dot(spine, y[m], 5, fill if m in kept else f"fbg {stroke}")
    return svg


GAIA_HEIGHT = 480
SIDE = 76  #: room for labels at both sides


def gaia(
    methods: pd.DataFrame, measures: pd.DataFrame, decision: tuple[float, float], explained: float
) -> Svg:
    """The plane: methods in the direction of an arrow do well by that measure; `decision` points to
    the better ones, `explained` is the share of the variance that the plane shows."""
    points, arrows = (  # of both the longest has length 1
        vectors / (float(np.hypot(*vectors.to_numpy(float).T).max(initial=0.0)) or 1.0)
        for vectors in (methods.iloc[:TOP], measures.iloc[:TOP])
    )
    arrows = 0.92 * arrows
    ends = np.vstack([points, arrows, [[0.0, 0.0]]])
    low, high = ends.min(axis=0), ends.max(axis=0)
    wide, tall = high - low
    unit = min((WIDTH - 2 * SIDE) / (wide or 1), (GAIA_HEIGHT - 60) / (tall or 1))
    height = unit * tall + 60
    cx, cy = WIDTH / 2 - unit * (low[0] + high[0]) / 2, 30 + unit * high[1]
    places = {m: (cx + unit * right, cy - unit * up) for m, right, up in points.itertuples()}
    tips = {m: (cx + unit * right, cy - unit * up) for m, right, up in arrows.itertuples()}
    words = (
        f"The plane shows {explained:.0%} of the differences. Methods by rank: "
        f"{', '.join(map(str, methods.index[:TOP]))}."
    )
    svg = Svg("GAIA plane", words, height)
    svg.upright(cx, 4, height - 4)
    svg.level(cy, 4, WIDTH - 4)
    taken: list[Box] = [(px - 5, py - 5, px + 5, py + 5) for px, py in places.values()]
    for tip in tips.values():
        svg.line(cx, cy, *tip, "arrow")
        svg.dot(*tip, 1.8, "fgrey")
    if (size := math.hypot(*decision)) > 0:
        end = cx + 0.7 * unit * decision[0] / size, cy - 0.7 * unit * decision[1] / size
        svg.line(cx, cy, *end, "leader decision-axis")
        svg.dot(*end, 3.5, "faccent decision-axis")
    shown = []
    for i, (method, place) in enumerate(places.items()):
        svg.dot(*place, 4.5, "fgrey" if i else "faccent", tip=method)
        shown.append(point_label(svg, method, place, taken, "" if i else "strong"))
    shown += [point_label(svg, measure, tip, taken, "muted small") for measure, tip in tips.items()]
    missed(svg, shown.count(False), 4)
    return svg


COST_HEIGHT = 340


def cost_figure(table: pd.DataFrame, cost: str, quality: str) -> Svg:
    """A dot a method, its quality upwards and its cost to the right, with the intervals of both:
    full where it is on the frontier for sure, hollow where it may be, grey where it is not."""
    sides = ["cost", "cost_low", "cost_high"]
    positive = bool((table[sides].fillna(1.0) > 0).all(axis=None))
    along = table.assign(**np.log10(table[sides])) if positive else table
    tips = {m: f"{number(r.quality, 3)} at {large(r.cost, 3)}" for m, r in table.iterrows()}
    ends = []
    for values in (along[sides], table[["quality", "low", "high"]]):
        least, most = float(np.nanmin(values)), float(np.nanmax(values))
        room = 0.06 * (most - least) or 0.5
        ends.append((least - room, most + room))
    svg, across, up, taken = scatter(
        f"{quality} against {cost}",
        f"By method: {'; '.join(map(': '.join, tips.items()))}.",
        COST_HEIGHT,
        ends,
        (f"{cost} (less is better)", quality),
        lambda x: large(10**x if positive else x),
    )
    places = {m: (across(r.cost), up(r.quality)) for m, r in along.iterrows()}
    for (x, y), r in zip(places.values(), along.itertuples(), strict=True):
        left, right, low, high = *map(across, (r.cost_low, r.cost_high)), *map(up, (r.low, r.high))
        if np.isfinite(left):
            svg.level(y, left, right, "axis")
            taken.append((left - 2, y - 2, right + 2, y + 2))
        if np.isfinite(low):
            svg.upright(x, low, high, "axis")
            taken.append((x - 2, high - 2, x + 2, low + 2))
    styles = {"on": "faccent", "open": "hollow", "off": "fgrey"}
    for m, at in places.items():
        svg.dot(*at, 5, styles[table.loc[m, "place"]], tip=m)
    label_points(svg, places, taken, across.start)
    return svg


LEVEL = 9


def critical_difference(
    mean_ranks: pd.Series,
    cliques: Sequence[Sequence[str]],
    cd: float | None = None,
    pen: Callable[[str, str, float], Svg] = Svg,
) -> Svg:
    """Mean ranks, best at the left, with a bar over each maximal group of methods that are not
    separated, and `cd` as a ruler (Demšar 2006), by whichever pen."""
    ranks = mean_ranks.sort_values(kind="stable")[:TOP]
    methods = [*ranks.index]
    low = max(1, math.floor(ranks.iloc[0]))
    high = max(min(len(mean_ranks), math.ceil(ranks.iloc[-1])), low + 1)
    end = low + (cd or 0)
    room = room_for(methods, 124) + 48
    x = Scale(low, max(high, end), room + 14, WIDTH - room - 14)
    places, short = [*map(x, ranks)], shortened(map(terminal, methods), 14)
    bars = stacked_bars(cliques, dict(zip(methods, places, strict=True)))
    top = 64 if cd is not None else 30
    first = top + 35 + LEVEL * max((level for level, _ in bars), default=-1)
    half = (len(methods) + 1) // 2
    height = first + (half - 1) * ROW + 10
    order = ", ".join(f"{m} {fixed(r, 2)}" for m, r in ranks.items())
    groups = "; ".join(", ".join(ranks.index[members]) for _, members in bars) or "no methods"
    words = f"Mean ranks, best first: {order}. Not separated from each other: {groups}."
    svg = pen("Critical-difference diagram", words, height)
    svg.axis_above(x, top, [t for t in x.ticks(12) if t == int(t)])
    if cd is not None:
        a, b = x(low), x(end)
        svg.path([(a, 20), (a, 28), (a, 24), (b, 24), (b, 20), (b, 28)], "ruler")
        svg.text(x.start, 13, f"critical difference {fixed(cd, 2)}", "muted")
    for i, (method, place) in enumerate(zip(methods, places, strict=True)):
        row, edge, away, anchor = i, room, -1, "end"
        if i >= half:  # the others at the right, from the bottom up
            row, edge, away, anchor = len(methods) - 1 - i, WIDTH - room, 1, "start"
        y = first + row * ROW
        line, style = ("elbow", None) if i else ("leader", "strong")
        svg.path([(place, top), (place, y), (edge - 4 * away, y)], line)
        svg.text(edge, y + 4, fixed(ranks[method], 2), "muted", anchor)
        shown = fit(short[terminal(method)], room - 48, SIZE * BOLD)
        svg.text(edge + 44 * away, y + 4, shown, style, anchor, tip=method)
    for level, members in bars:
        _bar(svg, [places[i] for i in members], members, top + 14 + level * LEVEL)
    return svg


def _bar(svg: Svg, places: Sequence[float], members: Sequence[int], y: float) -> None:
    """A bar a little beyond its members, dotted where it passes over others."""
    ends = [places[0] - 2, *places[1:-1], places[-1] + 2]
    for (i, j), (start, stop) in zip(pairwise(members), pairwise(ends), strict=True):
        svg.level(y, start, stop, "gap" if j > i + 1 else "bar")
    for place in places if members[-1] - members[0] >= len(members) else ():
        svg.dot(place, y, 3.5, "bar-dot")


def stacked_bars(
    cliques: Sequence[Sequence[str]], places: Mapping[str, float]
) -> list[tuple[int, list[int]]]:
    """A bar for each maximal group of two or more methods that are drawn: its level, so that none
    touches another, and the positions of its members."""
    place = {m: i for i, m in enumerate(places)}
    groups = {tuple(sorted(place[m] for m in clique if m in place)) for clique in cliques}
    several = [group for group in groups if len(group) > 1]
    maximal = [g for g in several if not any(set(g) < set(other) for other in several)]
    across = [*places.values()]
    ends: list[float] = []
    bars = []
    for group in sorted(maximal):
        level = next((k for k, end in enumerate(ends) if end + 10 < across[group[0]]), len(ends))
        ends[level : level + 1] = [across[group[-1]]]
        bars.append((level, [*group]))
    return bars


CELL = 46
NAME = 170  #: room for a name beside its row
NOISE = 1e-12  #: differences smaller than this are float noise


def pairwise_matrix(pairs: pd.DataFrame, order: Sequence[str], p: str) -> Svg:
    """A staircase of cells, a pair each, after the Multi-Comparison Matrix of Ismail-Fawaz et al.
    (2023): a method's row lies to the right of its name, its column above it. Pairs may lack."""
    methods = list(order[:TOP])
    place = {m: i for i, m in enumerate(methods)}
    n = len(methods)
    pairs = pairs[pairs["method_a"].isin(place) & pairs["method_b"].isin(place)]
    pairs = pairs.assign(p=pairs[p])
    room = max(room_for(methods[:1], 138) + 12, 60)
    cell = min(CELL, (WIDTH - room - 4) / max(n - 1, 1))
    rows = list(pairs.itertuples())
    apart = [f"{r.method_a} and {r.method_b}, {pvalue(r.p)}" for r in rows if r.separated]
    words = f"{count(len(pairs), 'pair')} of methods. Separated: {'; '.join(apart) or 'none'}."
    height = cell * (n - 1) + 20
    svg = Svg("Pairwise matrix", words, max(height, 104))
    for row, lines in zip(rows, _texts(rows, cell), strict=True):
        x, y = room + (place[row.method_b] - 1) * cell, 2 + place[row.method_a] * cell
        colour = "fpos" if row.mean_difference >= 0 else "fneg"
        strength = 0.06 + 0.3 * min(abs(row.effect_size), 1)
        svg.rect(x + 0.5, y + 0.5, cell - 1, cell - 1, colour, fill_opacity=strength)
        first = y + cell / 2 + 4 - (len(lines) - 1) * 7
        for k, text in enumerate(lines):
            style = "small strong" if k == 0 or (k == 2 and row.separated) else "small"
            svg.text(x + cell / 2, first + 14 * k, text, style, "middle")
        if row.separated:
            svg.rect(x + 1.5, y + 1.5, cell - 3, cell - 3, "sep")
    for i, method in enumerate(methods):
        x = room + i * cell - 6
        y = 2 + i * cell + cell / 2 + 4 if i < n - 1 else height - 5
        svg.name(x, y, method, min(x - 2, NAME), "strong" if i == 0 else None, "end")
    return svg


def _texts(rows: Sequence[Any], cell: float) -> list[list[str]]:
    """What stands in the cells: all there is to say where it finds room, else the sign alone."""
    size = max((abs(row.mean_difference) for row in rows), default=0)
    decimals = max(0, 1 - math.floor(math.log10(size))) if size > NOISE else 0
    texts = []
    for row in rows:
        better = row.mean_difference
        sign = "" if abs(better) <= NOISE else "+" if better > 0 else MINUS
        counts = f"{row.wins}/{row.ties}/{row.losses}"
        texts.append([sign + fixed(abs(better), decimals), counts, pvalue(row.p, bare=True)])
    fits = all(text_width(text, SMALL) <= cell - 1 for lines in texts for text in lines)
    return texts if fits and cell >= 40 else [[lines[0][0]] for lines in texts]


_FOREST = 40  #: rows of a forest plot; the table has the others


def differences_and_margins(rows: pd.DataFrame) -> Svg:
    """A forest plot: difference with its limits a row, and minus the margin as a short line."""
    shown = rows.head(_FOREST)
    labels = [f"{r.measure} · {r.slice}" if r.slice else str(r.measure) for r in shown.itertuples()]
    ends = shown[["low", "high", "difference"]].to_numpy(float)
    reach = np.abs(ends[np.isfinite(ends)]).max(initial=0.0)
    most = 1.15 * max(reach, shown["margin"].max(skipna=True) or 0.0, 1e-3)
    words = "Whether the candidate is better or worse:"
    svg = Rows("Differences and margins", words, labels, 220, top=8, below=30)
    x = Scale(-most, most, svg.room + 8, WIDTH - 74)
    svg.axis(x, svg.bottom, 6, label=number)
    svg.upright(x(0), 4, svg.bottom, "axis")
    worse = [*compress(labels, shown["verdict"] == "worse")]
    drawn = zip(svg.rows(worse), shown.itertuples(), np.clip(ends, -most, most), strict=True)
    for y, row, (low, high, size) in drawn:
        if not math.isnan(low):
            svg.level(y, x(low), x(high), "arrow")
        if row.margin > 0:
            svg.upright(x(-row.margin), y - 7, y + 7, "tick")
        svg.dot(x(size), y, 4, "fneg" if row.verdict == "worse" else "faccent")
        svg.at_right(y, row.verdict, "muted small")
    missed(svg, len(rows) - len(shown), svg.room + 8)
    return svg


def ledger_steps(entries: pd.DataFrame) -> Svg:
    """Evidence of each gate on a logarithmic axis, with what was needed; ships are filled."""
    entries = entries[entries["evidence"].notna()]
    needed = np.log10(1 / entries["level"].to_numpy(float))
    evidence = np.log10(np.clip(entries["evidence"].to_numpy(float), 1e-3, 1e12))
    at = entries["number"].to_numpy(float)
    bottom = 170
    x = Scale(min(at.min(), 1), max(at.max(), 2), 46, WIDTH - 16)
    y = Scale(min(evidence.min(), 0.0) - 0.3, max(evidence.max(), needed.max()) + 0.3, bottom, 12)
    shipped = entries["decision"] == "ship"
    about = f"{int(shipped.sum())} of {len(entries)} gates shipped."
    svg = Svg("Evidence in the ledger", about, bottom + 40)
    ticks = [t for t in y.ticks(5) if t == round(t)]
    svg.side_axis(y, [(t, f"1e{t:.0f}" if abs(t) > 3 else f"{10**t:g}") for t in ticks], 46, WIDTH)
    svg.axis(x, bottom, label=lambda t: f"{t:.0f}" if t == round(t) else "")
    svg.text(WIDTH / 2, bottom + 36, "gate", "muted", "middle")
    if len(entries) > 1:
        svg.path([*zip(map(x, at), map(y, needed), strict=True)], "c0 thick")
    for ship, place, height in zip(shipped, at, evidence, strict=True):
        svg.dot(x(place), y(height), 4, "faccent" if ship else "hollow")
    return svg


TIME_METHODS = 12  #: methods that are drawn over time


def leaders_over_time(then: pd.DataFrame, order: Sequence[str]) -> Svg:
    """A row a method, a column a moment: the leader as a large dot, who may have been as good as a
    ring, who was there as a small dot."""
    ever = [m for m in order if any(m in best for best in then["best_set"])]
    drawn = ever[:TIME_METHODS]
    words = "; ".join(map(": ".join, zip(then["moment"], then["leader"], strict=True)))
    svg = Rows("Who led over time", f"{words}.", drawn, 200, top=26, below=36)
    heights = dict(zip(drawn, svg.rows(), strict=True))
    bottom, step = svg.bottom, (WIDTH - svg.room - 20) / max(len(then), 2)
    for i, row in enumerate(then.itertuples()):
        x = svg.room + 20 + step * (i + 0.5)
        svg.text(x, 14, row.moment, "small", "middle")
        svg.text(x, bottom + 14, row.n_datasets, "muted small", "middle")
        svg.upright(x, 22, bottom)
        for method, y in heights.items():
            if method == row.leader:
                svg.dot(x, y, 6.5, "faccent")
            elif method in row.best_set:
                svg.dot(x, y, 5, "hollow")
            elif method in row.methods:
                svg.dot(x, y, 2, "fgrey")
    svg.text(svg.room, bottom + 14, "datasets", "muted small", "end")
    missed(svg, len(ever) - len(drawn), 0)
    return svg
