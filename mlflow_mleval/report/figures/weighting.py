"""Rankings and the weights of measures drawn: strips, bumps, other weights, correlated measures,
the GAIA plane.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, combinations, pairwise

import numpy as np
import pandas as pd

from mlflow_mleval.report.svg import (
    COLOURS,
    SIZE,
    SMALL,
    TOP,
    WIDTH,
    Box,
    Point,
    Scale,
    Svg,
    fit,
    left_ticks,
    missed,
    point_label,
    room_for,
    text_width,
)
from mlflow_mleval.report.text import fixed, large, number, shorten
from mlflow_mleval.sentences import span

# --------------------------------------------------------------------------------------------------
# Small marks that stand in the rows of a table: a bar around zero, a strip of ranks.

HEIGHT = 14
#: The width of a strip; more datasets than it has pixels are drawn by rank, many in a cell.
CELLS = 88


#: Of a picture that runs through the rows of a table: the height of a row where there are up to
#: DENSE and where there are more, and how many per cent stay free at both ends.
RUNG = 20
DENSE_RUNG = 16
DENSE = 20
EDGE = 5


def rungs(
    table: pd.DataFrame, title: str, zero: bool, single: Mapping[str, Sequence[float]] | None = None
) -> tuple[list[Svg], Svg, Scale]:
    """A picture of a mean and its interval a row (mean, low, high), what stands above it, and its
    scale in per cent; with a line at zero if that is asked for, and with `single` values as dots.
    """
    single = {row: values for row, values in (single or {}).items() if row in table.index}
    there = [*table.stack(), *chain.from_iterable(single.values())]
    x = Scale(min(there), max(there), EDGE, 100 - EDGE)
    height = RUNG if len(table) <= DENSE else DENSE_RUNG
    drawn = []
    for row, mean, low, high in table.itertuples():
        svg = Svg("", "", height, 0, inline=True)
        if zero and x.low < 0 < x.high:
            svg.add("line", **_across(x(0), x(0)), y1=0, y2=height, class_="zero")
        if math.isfinite(low):
            ends = _across(x(low), x(high))
            svg.add("line", **ends, y1=height / 2, y2=height / 2, class_="whisker")
        for value in single.get(row, ()):
            svg.add("circle", cx=f"{x(value):.2f}%", cy=height / 2, r=2.5, class_="single")
        tip = f"{title} {number(mean)}"
        cx = f"{x(mean):.2f}%"
        svg.add("circle", cx=cx, cy=height / 2, r=4.5, class_="faccent", tip=tip)
        drawn.append(svg)
    return drawn, _rung_axis(title, x), x


def _across(start: float, stop: float) -> dict[str, str]:
    return {"x1": f"{start:.2f}%", "x2": f"{stop:.2f}%"}


def _rung_axis(title: str, x: Scale) -> Svg:
    """What stands above the rows: what is drawn, and its values."""
    height = 34
    svg = Svg(title, "", height, 0, inline=True)
    svg.text(0, SMALL, title, "muted small")
    for tick in x.ticks(3):
        ends = _across(x(tick), x(tick))
        svg.add("line", **ends, y1=height - 4, y2=height, class_="axis")
        x1 = ends["x1"]
        y = height - 6
        anchor = "start" if x(tick) < 12 else "end" if x(tick) > 88 else "middle"
        svg.add("text", number(tick), class_="muted small", x=x1, y=y, text_anchor=anchor)
    return svg


def rank_strip(ranks: pd.Series, n_methods: int, imputed: Collection[str] = ()) -> Svg:
    """One cell a dataset, the stronger its colour the better the method's rank there; a dot marks
    rank 1, a frame a rank that comes from a value that a policy supplied.
    """
    if len(ranks) > CELLS:
        return _ranks_in_order(ranks, n_methods)
    step = min(13.0, CELLS / len(ranks))
    gap = 1 if step > 3 else 0
    stars = {dataset: "*" * (dataset in imputed) for dataset in ranks.index}
    words = ", ".join(f"{d} {number(rank)}{stars[d]}" for d, rank in ranks.items())
    svg = Svg(words if len(ranks) <= 40 else "", "", HEIGHT, step * len(ranks), inline=True)
    for i, (dataset, rank) in enumerate(ranks.items()):
        tip = f"{dataset}: rank {number(rank)}{stars[dataset]}"
        strength = shade(rank, n_methods)
        style = "faccent imputed" if stars[dataset] else "faccent"
        svg.rect(i * step, 0, step - gap, HEIGHT, style, fill_opacity=strength, tip=tip)
        if rank == 1 and step > 5:
            svg.dot(i * step + (step - gap) / 2, HEIGHT / 2, 2, "fbg", pointer_events="none")
    return svg


def _ranks_in_order(ranks: pd.Series, n_methods: int) -> Svg:
    """The same of many datasets, best rank first, each cell the mean of as many of them."""
    n = CELLS // 2
    svg = Svg("", "", HEIGHT, CELLS, inline=True)
    for i, cell in enumerate(np.array_split(np.sort(ranks.to_numpy()), n)):
        ranks_here = span(number(cell[0]), number(cell[-1]))
        tip = f"{i / n:.0%} to {(i + 1) / n:.0%} of the datasets: rank {ranks_here}"
        strength = shade(float(cell.mean()), n_methods)
        svg.rect(i * CELLS / n, 0, CELLS / n, HEIGHT, "faccent", fill_opacity=strength, tip=tip)
    return svg


def shade(rank: float, n_methods: int) -> float:
    """How strong a rank is drawn: from 1 for the best to almost nothing for the worst."""
    return 1.0 - 0.93 * (rank - 1) / max(n_methods - 1, 1)


# --------------------------------------------------------------------------------------------------
# Other weights: how often each method takes each rank, and how far a weight may move before the
# leader or the order changes.

ROW = 20
NOBODY = "nobody"
#: Pieces of a strip; more ranks share pieces.
PIECES = 60


def percent(share: float) -> str:
    """A share as a percentage that never claims more certainty than there is.

    >>> [percent(s) for s in (0, 0.0004, 0.256, 0.9999, 1)]
    ['0%', '<1%', '26%', '>99%', '100%']
    """
    return "<1%" if 0 < share < 0.005 else ">99%" if 0.995 < share < 1 else f"{share:.0%}"


def rank_acceptability(shares: pd.DataFrame) -> Svg:
    """A strip a method of the shares of its ranks (methods x ranks 1, 2, …, in order), the best at
    the left and strongest.
    """
    drawn = shares.iloc[:TOP]
    n = shares.shape[1]
    room = room_for(["method", *drawn.index], 150) + 10
    x = Scale(0, 1, room, WIDTH - 140)
    words = "; ".join(f"{m} first in {percent(row.iloc[0])}" for m, row in drawn.iterrows())
    svg = Svg(
        "Rank acceptability",
        f"Share of random weights that give each rank: {words}.",
        22 + ROW * len(drawn) + 22,
    )
    svg.text(room - 8, 12, "method", "muted", "end")
    svg.text(WIDTH - 92, 12, "first", "muted", "end")
    svg.text(WIDTH, 12, "likely ranks", "muted", "end")
    for i, (method, row) in enumerate(drawn.iterrows()):
        y = 20 + i * ROW
        svg.name(room - 8, y + 13, method, room - 8, "strong" if i == 0 else None, "end")
        edges = np.concatenate([[0.0], np.cumsum(row.to_numpy(float))])
        for first, last in pairwise([*range(0, n, math.ceil(n / PIECES)), n]):
            a = edges[first]
            b = edges[last]
            rank = (first + last + 1) / 2
            if b - a > 0.0005:
                tip = f"{method}: rank {span(first + 1, last)} in {percent(b - a)}"
                width = x(b) - x(a) - 0.6
                strength = shade(rank, n)
                svg.rect(x(a), y, width, ROW - 4, "faccent", fill_opacity=strength, tip=tip)
        svg.text(WIDTH - 92, y + 13, percent(row.iloc[0]), anchor="end")
        svg.text(WIDTH, y + 13, likely(row.to_numpy(float)), "muted", "end")
    svg.axis(x, 22 + ROW * len(drawn), about=4, label=lambda t: f"{t:.0%}")
    return svg


def likely(shares: np.ndarray) -> str:
    """The central ranks that hold 95% of the draws, as "2–5".

    >>> likely(np.array([0.0, 0.5, 0.5, 0.0]))
    '2–3'
    """
    total = np.cumsum(shares)
    low, high = (np.searchsorted(total, [0.025 + 1e-12, 0.975 - 1e-12]) + 1).tolist()
    return span(low, min(high, len(shares)), "–")


def weight_intervals(table: pd.DataFrame) -> Svg:
    """A pale bar where the leader stays, a dark one where the whole order does, a tick at the
    weight; who takes over beside it.

    Of more than thirty measures those with the narrowest ranges are drawn.
    """
    width = (table["weight_high"] - table["weight_low"]).sort_values(kind="stable")
    drawn = table if len(table) <= TOP else table.loc[width.index[:TOP]]
    room = room_for(["measure", *drawn.index], 150) + 10
    x = Scale(0, 1, room, WIDTH - 178)
    words = "; ".join(f"{m}: {_range_of_ranks(row)}" for m, row in drawn.iterrows())
    height = 22 + ROW * len(drawn)
    svg = Svg(
        "Weight stability",
        f"Range of each weight, the others rescaled, in which the leader stays. {words}.",
        height + 22,
    )
    svg.text(room - 8, 12, "measure", "muted", "end")
    svg.text(WIDTH - 168, 12, "who takes the lead", "muted")
    svg.axis(x, height, 20, about=4)
    for i, (measure, row) in enumerate(drawn.iterrows()):
        y = 22 + i * ROW + ROW / 2
        svg.name(room - 8, y + 4, measure, room - 8, anchor="end")
        ends = (row.weight_low, row.weight_high)
        tip = f"{measure}: {_range_of_ranks(row)}"
        svg.bar(x, ends, y - 6, 12, "faccent", fill_opacity=0.28, tip=tip)
        a = x(row.order_weight_low)
        b = x(row.order_weight_high)
        svg.rect(min(a, b - 1), y - 6, max(b - a, 1), 12, "faccent")
        svg.upright(x(row.weight), y - 8, y + 8, "tick")
        rivals = _rivals(row)
        style = "small muted" if rivals == NOBODY else "small"
        svg.text(WIDTH - 168, y + 4, fit(rivals, 168, SMALL), style)
    return svg


def _rivals(row: pd.Series) -> str:
    """Who takes the lead beyond the ends of the range."""
    sides = (("below", row.rival_low, row.weight_low), ("above", row.rival_high, row.weight_high))
    return (
        ", ".join(
            f"{shorten(m, 14)} {word} {fixed(at, 3)}" for word, m, at in sides if not pd.isna(m)
        )
        or NOBODY
    )


def _range_of_ranks(row: pd.Series) -> str:
    weight, low, high = (
        fixed(v, 3) if math.isfinite(v) else "–"
        for v in (row.weight, row.weight_low, row.weight_high)
    )
    return f"weight {weight}, leader stays from {low} to {high}, {_rivals(row)}"


# --------------------------------------------------------------------------------------------------
# A bump chart: how the order of the methods moves from one way of ranking to the next.

BUMP_ROW = 19
SLANT = -38


def bump(ranks: pd.DataFrame) -> Svg:
    """One line a method through its ranks, one column a way of ranking; lines that are ever first
    are coloured.

    `ranks` are methods x ways of ranking, NaN where a method was left out: there its line is
    broken. The first column orders.
    """
    order = ranks.sort_values(ranks.columns[0], kind="stable").iloc[:TOP]
    drawn = order.rank(method="first")
    room = room_for(drawn.index, 118) + 12
    x = Scale(0, max(len(drawn.columns) - 1, 1), room + 10, WIDTH - room - 10)
    heads = [fit(str(c), 130) for c in drawn.columns]
    top = 26 + max(text_width(h) for h in heads) * 0.62
    bottom = top + len(drawn) * BUMP_ROW
    y = Scale(1, len(drawn) + 1, top, bottom)
    texts = {m: ", ".join(map(number, row)) for m, row in order.iterrows()}
    words = "; ".join(f"{m}: {text}" for m, text in texts.items())
    words = f"Ranks under {', '.join(map(str, ranks.columns))}. {words}."
    svg = Svg("Ranking under other choices", words, bottom + 2)
    for i, head in enumerate(heads):
        turned = f"translate({x(i) + 3:.1f} {top - 14:.1f}) rotate({SLANT})"
        svg.text(0, 0, head, "strong" if i == 0 else "muted", transform=turned)
        svg.upright(x(i), top - 8, bottom - 8)
    leaders = list(order.index[(drawn == 1).any(axis=1)])[:COLOURS]
    for method, places in drawn.iloc[::-1].iterrows():
        kind = leaders.index(method) if method in leaders else None
        points = [(x(i), y(r)) if r == r else None for i, r in enumerate(places)]
        _bump_line(svg, points, kind, f"{method}: {texts[method]}")
        style = None if kind is None else "strong"
        first = places.iloc[0]
        last = places.iloc[-1]
        svg.name(room, y(first) + SIZE / 3, method, room - 4, style, "end")
        if last == last:
            svg.name(WIDTH - room, y(last) + SIZE / 3, method, room - 4, style)
    return svg


def _bump_line(svg: Svg, points: Sequence[Point | None], kind: int | None, tip: str) -> None:
    """A line with a dot at each point, broken where there is none; coloured where it has a kind."""
    line = "plain thin"
    fill = "fgrey"
    r = 2.2
    if kind is not None:
        line = f"c{kind} thick"
        fill = f"f{kind}"
        r = 4
    for a, b in pairwise(points):
        if a and b:
            svg.line(*a, *b, line)
    for x, y in filter(None, points):
        svg.dot(x, y, r, fill, tip=tip)


# --------------------------------------------------------------------------------------------------
# The graph of correlated measures, drawn as arcs beside a list, with the weight that each measure
# has.

CORRELATION_ROW = 20
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
    place = {m: i for i, g in enumerate(large) for m in g}
    group_of = {m: i % COLOURS for m, i in place.items()}
    order = sorted(correlation.index, key=lambda m: (place.get(m, len(large)), -weights[m]))
    heaviest = set(weights[order].nlargest(TOP).index)
    drawn = [m for m in order if m in heaviest]
    pairs = _close_pairs(correlation, drawn, threshold)
    words = "; ".join(f"{a} and {b} {number(r, 2)}" for (a, b), r in pairs.items()) or "none"
    above = f"above {threshold:g}"
    svg = Svg(
        "Correlated measures",
        f"Pairs of measures with an average absolute correlation {above}: {words}.",
        26 + CORRELATION_ROW * len(drawn),
    )
    room = room_for(["measure", *drawn], 146) + 24
    x = Scale(0, float(weights[drawn].max()) or 1.0, room + 6, room + 92)
    spine = x.stop + 66
    svg.text(room - 18, 12, "measure", "muted", "end")
    svg.text(x.start, 12, "weight", "muted")
    svg.text(spine - 5, 12, f"correlated {above}", "muted")
    y = {m: 22 + CORRELATION_ROW * i + CORRELATION_ROW / 2 for i, m in enumerate(drawn)}
    for (a, b), r in pairs.items():
        strength = 0.35 + 0.65 * (r - threshold) / (1 - threshold)
        style = f"c{group_of.get(a, 0)} thin"
        tip = f"{a} – {b}: {number(r, 3)}"
        path = _arc(spine + 6, y[a], y[b])
        svg.add("path", d=path, class_=style, stroke_opacity=strength, tip=tip)
    for m in drawn:
        svg.text(room, y[m] + 4, arrows.get(m, ""), "muted", "end")
        svg.name(room - 18, y[m] + 4, m, room - 18, anchor="end")
        svg.bar(x, (0, weights[m]), y[m] - 5, 10, "faccent")
        svg.text(x(weights[m]) + 5, y[m] + 4, fixed(weights[m], 3))
        _node(svg, spine, y[m], group_of.get(m), m in kept)
    beside = spine + SWEEP + 16
    for m in filter(stands_for.get, drawn):
        other = stands_for[m]
        _follows(svg, beside, y[m] + 4, correlation.loc[m, other], other)
    return svg


def _close_pairs(
    correlation: pd.DataFrame, measures: Sequence[str], threshold: float
) -> dict[tuple[str, str], float]:
    """The pairs of measures whose correlation lies above the threshold."""
    pairs = {(a, b): float(correlation.loc[a, b]) for a, b in combinations(measures, 2)}
    return {pair: r for pair, r in pairs.items() if r > threshold}


def _follows(svg: Svg, x: float, y: float, correlation: float, other: str) -> None:
    """Because of which other measure one is redundant."""
    words = f"{fixed(correlation, 2)} with "
    shown = words + fit(other, WIDTH - x - text_width(words, SMALL), SMALL)
    svg.text(x, y, shown, "small muted", tip=f"redundant: correlation {words}{other}")


def _node(svg: Svg, x: float, y: float, kind: int | None, kept: bool) -> None:
    """A measure on the spine, filled where the filter keeps it, in the colour of its group."""
    fill, stroke = ("fgrey", "plain") if kind is None else (f"f{kind}", f"c{kind}")
    tip = "kept" if kept else "redundant"
    svg.dot(x, y, 5, fill if kept else f"fbg {stroke}", tip=tip)


def _arc(x: float, start: float, stop: float) -> str:
    """The path of half an ellipse to the right, from one height to another."""
    ry = abs(start - stop) / 2
    return f"M{x:.1f} {start:.1f}A{min(SWEEP, 12 + 0.6 * ry):.1f} {ry:.1f} 0 0 1 {x:.1f} {stop:.1f}"


# --------------------------------------------------------------------------------------------------
# The GAIA plane: methods as points, measures as arrows, in the two directions that hold most of the
# differences.

GAIA_HEIGHT = 480
#: Room for labels at both sides.
SIDE = 76


def gaia(
    methods: pd.DataFrame, measures: pd.DataFrame, decision: tuple[float, float], explained: float
) -> Svg:
    """The plane: methods in the direction of an arrow do well by that measure; arrows that point
    the same way agree.

    Both tables have two columns of coordinates; of each the first thirty rows are drawn. `decision`
    points to the better methods; `explained` is the share of the variance that the plane shows.
    """
    points = _unit(methods.iloc[:TOP].to_numpy(float))
    arrows = 0.92 * _unit(measures.iloc[:TOP].to_numpy(float))
    ends = np.vstack([points, arrows, [[0.0, 0.0]]])
    (left, bottom) = ends.min(axis=0)
    (right, top) = ends.max(axis=0)
    unit = min((WIDTH - 2 * SIDE) / (right - left or 1), (GAIA_HEIGHT - 60) / (top - bottom or 1))
    height = unit * (top - bottom) + 60
    cx = WIDTH / 2 - unit * (left + right) / 2
    cy = 30 + unit * top

    def at(u: float, v: float) -> Point:
        return cx + u * unit, cy - v * unit

    words = (
        f"The plane shows {explained:.0%} of the differences. Methods by rank: "
        f"{', '.join(map(str, methods.index[:TOP]))}."
    )
    svg = Svg("GAIA plane", words, height)
    svg.upright(cx, 4, height - 4)
    svg.level(cy, 4, WIDTH - 4)
    places = dict(zip(methods.index[:TOP], (at(*p) for p in points), strict=True))
    tips = dict(zip(measures.index[:TOP], (at(*p) for p in arrows), strict=True))
    taken: list[Box] = [(px - 5, py - 5, px + 5, py + 5) for px, py in places.values()]
    for tx, ty in tips.values():
        svg.line(cx, cy, tx, ty, "arrow")
        svg.dot(tx, ty, 1.8, "fgrey")
    size = math.hypot(*decision)
    if size > 0:
        dx, dy = at(0.7 * decision[0] / size, 0.7 * decision[1] / size)
        svg.line(cx, cy, dx, dy, "leader decision-axis")
        svg.dot(dx, dy, 3.5, "faccent decision-axis")
        point_label(svg, "decision axis", (dx, dy), taken, "strong small decision-axis")
    shown = []
    for i, (method, place) in enumerate(places.items()):
        svg.dot(place[0], place[1], 4.5, "faccent" if i == 0 else "fgrey", tip=method)
        shown.append(point_label(svg, method, place, taken, "strong" if i == 0 else ""))
    shown += [point_label(svg, measure, tip, taken, "muted small") for measure, tip in tips.items()]
    missed(svg, shown.count(False), 4)
    return svg


def _unit(vectors: np.ndarray) -> np.ndarray:
    """So that the longest has length 1."""
    return vectors / (float(np.hypot(*vectors.T).max(initial=0.0)) or 1.0)


# --------------------------------------------------------------------------------------------------
# Quality against cost.

COST_HEIGHT = 340


def _padded(values: pd.DataFrame) -> tuple[float, float]:
    """The ends of a scale on which all of the values lie."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    room = 0.06 * (high - low) or 0.5
    return low - room, high + room


def cost_figure(table: pd.DataFrame, cost: str, quality: str) -> Svg:
    """A dot a method, its quality upwards and its cost to the right, with the intervals of both:
    full where it is on the frontier for sure, hollow where it may be, grey where it is not.

    `table` has quality, low, high, cost, cost_low, cost_high and place, of at most `TOP` methods.
    """
    sides = ["cost", "cost_low", "cost_high"]
    positive = bool((table[sides].fillna(1.0) > 0).all(axis=None))
    along = table.assign(**(np.log10(table[sides]) if positive else table[sides]))
    words = "; ".join(
        f"{m}: {number(r.quality, 3)} at {large(r.cost, 3)}" for m, r in table.iterrows()
    )
    svg = Svg(f"{quality} against {cost}", f"By method: {words}.", COST_HEIGHT)
    bottom = COST_HEIGHT - 44
    up = Scale(*_padded(table[["quality", "low", "high"]]), bottom, 26)
    ticks, wide = left_ticks(up)
    left = 10 + wide
    across = Scale(*_padded(along[sides]), left, WIDTH - 12)
    svg.axis(across, bottom, 26, 5, lambda x: large(10**x if positive else x))
    svg.side_axis(up, ticks, left, across.stop)
    svg.text(0, 13, quality, "strong")
    head = fit(f"{cost} (less is better)", WIDTH - 20)
    svg.text(across.stop, COST_HEIGHT - 8, head, "strong", "end")
    places = {m: (across(r.cost), up(r.quality)) for m, r in along.iterrows()}
    styles = {"on": "faccent", "open": "hollow", "off": "fgrey"}
    taken: list[Box] = [
        (0, bottom, WIDTH, COST_HEIGHT),
        (0, 0, left, COST_HEIGHT),
        (0, 0, WIDTH, 22),
    ]
    for m, r in along.iterrows():
        x, y = places[m]
        if np.isfinite(r.cost_low):
            svg.level(y, across(r.cost_low), across(r.cost_high), "axis")
            taken.append((across(r.cost_low) - 2, y - 2, across(r.cost_high) + 2, y + 2))
        if np.isfinite(r.low):
            svg.upright(x, up(r.low), up(r.high), "axis")
            taken.append((x - 2, up(r.high) - 2, x + 2, up(r.low) + 2))
    for m, (x, y) in places.items():
        row = table.loc[m]
        tip = f"{m}: {number(row.quality, 3)} at {large(row.cost, 3)}"
        svg.dot(x, y, 5, styles[row.place], tip=tip)
        taken.append((x - 6, y - 6, x + 6, y + 6))
    labelled = [point_label(svg, m, place, taken, "small") for m, place in places.items()]
    missed(svg, labelled.count(False), left)
    return svg
