"""Loss profiles: all methods on a dataset, pairs as ratios over datasets, and how aware of
dependence each method is.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from mlflow_mleval.measures.awareness import SUMMARIES as DIRECTIONS
from mlflow_mleval.report.figures.fold_scatter import DETAILED, mark
from mlflow_mleval.report.figures.labels import spread
from mlflow_mleval.report.numerals import ARROWS, aligned, number
from mlflow_mleval.report.svg import (
    BOLD,
    COLOURS,
    SIZE,
    SMALL,
    TOP,
    WIDTH,
    Scale,
    Svg,
    fit,
    room_for,
    text_width,
)

#: What the parameter of a family says.
AXES = {
    "binomial": "k: labels that have to be right together",
    "polynomial": "α: 1 is the Hamming loss, large values come near the subset 0/1 loss",
}
#: The same for several datasets at once.
POSITIONS = AXES | {"binomial": "(k−1)/(K−1): from Hamming loss (0) to subset 0/1 loss (1)"}
#: Line styles, each for as many lines as there are colours, so that colour is never alone.
DASHES = [dash for dash in (None, "7 3", "2 3", "9 3 2 3", "1 3") for _ in range(COLOURS)]
LINE, ROW = 15, 20
#: A panel of ratios: its width, the gap beside it, the height of its plot; and how many lines of it
#: are named.
PANEL, GAP, PLOT, NAMED = 292, 16, 132, 9
_BETTER = BOLD * text_width("↑  better")
#: Ratios are drawn up to this, and down to one over it.
LARGEST_RATIO = 100.0
#: Summaries of a whole profile, with their better directions.
SUMMARIES = {s: ARROWS[DIRECTIONS[s]] for s in ("area", "slope", "relative_gain")}


def profile_lines(
    curves: pd.DataFrame, family: str, title: str, kinds: Mapping[str, int] | None = None
) -> Svg:
    """Loss against the parameter of the family (k linear, α logarithmic), a line a method, named at
    its end.

    `curves` has the index (method, parameter), best method first, and loss, low and high (NaN: no
    band). The first thirty methods are drawn, with bands if they are eight or fewer. `kinds` keeps
    colour and mark of each from figure to figure.
    """
    lines = dict([(m, part.droplevel(0)) for m, part in curves.groupby(level=0, sort=False)][:TOP])
    kinds = kinds or {m: i for i, m in enumerate(lines)}
    drawn = pd.concat(lines)
    bands = len(lines) <= DETAILED
    values = drawn[["loss", "low", "high"] if bands else ["loss"]].to_numpy(float)
    low, high = np.nanmin(values), np.nanmax(values)
    bottom = max(290, LINE * len(lines) + 12)
    room = room_for(lines, 150)
    y = Scale(low, high if high > low else low + 1e-9, bottom, 10)
    ticks = [(t, number(t)) for t in y.ticks(6)]
    left = 8 + max(text_width(text, SMALL) for _, text in ticks)
    parameters = drawn.index.get_level_values(1).to_numpy(float)
    at = Scale(
        *_along(np.array([1.0, max(parameters.max(), 1 + 1e-9)]), family), left, WIDTH - room - 32
    )
    ends = {
        m: f"{number(c['loss'].iloc[0])} to {number(c['loss'].iloc[-1])}" for m, c in lines.items()
    }
    told = f"{'k' if family == 'binomial' else 'α'} = 1 to {number(parameters.max())}"
    words = "; ".join(f"{m} from {end}" for m, end in ends.items())
    svg = Svg(title, f"{family.capitalize()} loss for {told}: {words}. 0 is best.", bottom + 42)
    for tick, text in ticks:
        svg.line(left, y(tick), at.stop, y(tick), "grid")
        svg.text(left - 6, y(tick) + 4, text, "muted small", "end")
    for place, text in _ticks(at, family):
        svg.line(place, bottom, place, bottom + 4, "axis")
        svg.text(place, bottom + 17, text, "muted", "middle")
    svg.line(left, bottom, at.stop, bottom, "axis")
    svg.text(WIDTH / 2, bottom + 36, AXES[family], "muted", "middle")
    across = {m: [at(v) for v in _along(c.index.to_numpy(float), family)] for m, c in lines.items()}
    for m, c in lines.items():
        if bands and c["low"].notna().all():
            edge = [
                *zip(across[m], map(y, c["high"]), strict=True),
                *zip(across[m][::-1], map(y, c["low"][::-1]), strict=True),
            ]
            svg.path(edge, f"f{kinds[m] % COLOURS}", fill_opacity=0.13)
    places = spread([y(c["loss"].iloc[-1]) for c in lines.values()], LINE, 10, bottom)
    for (m, c), end in zip(lines.items(), places, strict=True):
        points = list(zip(across[m], map(y, c["loss"]), strict=True))
        if len(points) > 1:
            style = f"c{kinds[m] % COLOURS} {'thick' if bands else 'thin'}"
            svg.path(
                points,
                style,
                tip=f"{m}: {ends[m]}",
                stroke_dasharray=DASHES[kinds[m] % len(DASHES)],
            )
        if bands:
            for p in points[:: max(1, len(points) // 8)]:
                mark(svg, kinds[m], *p, 3)
        _named(svg, kinds[m], m, points[-1], (at.stop, end), room)
    return svg


def _named(
    svg: Svg,
    kind: int,
    name: str,
    point: tuple[float, float],
    end: tuple[float, float],
    room: float,
) -> None:
    """The name of a line beside its end, with its mark and a thin line from where it ends."""
    x, y = end
    svg.path(
        [(point[0] + 1, point[1]), (x + 3, point[1]), (x + 13, y)],
        f"c{kind % COLOURS} thin",
        stroke_opacity=0.6,
    )
    mark(svg, kind, x + 18, y, 4)
    svg.name(x + 27, y + 4, name, room)


def _along(parameters: np.ndarray, family: str) -> np.ndarray:
    """Where parameters stand on the axis of their family."""
    return parameters if family == "binomial" else np.log10(parameters)


def _ticks(at: Scale, family: str) -> Iterator[tuple[float, str]]:
    """Pixels and numbers: k = 1, K and round ones between; powers of ten for α."""
    if family == "polynomial":
        yield from ((at(t), f"{10**t:g}") for t in range(math.floor(at.high + 1e-9) + 1))
        return
    last = round(at.high)
    inside = [
        t
        for t in at.ticks(6)
        if t == int(t) and 1 < t < last and at(t) - at(1) > 20 and at.stop - at(t) > 24
    ]
    yield from ((at(t), f"{t:g}") for t in dict.fromkeys((1, *inside, last)))


def ratio_panels(
    ratios: pd.DataFrame,
    crossings: pd.DataFrame,
    pairs: Sequence[tuple[str, str]],
    family: str,
    title: str,
) -> Svg:
    """A small panel a pair: how many times the loss of the first the loss of the second is, a line
    a dataset.

    The axis of ratios is logarithmic, so that twice and half lie equally far from 1. Heavy
    stretches are significant; a circle marks a crossing, a filled one a crossing with a significant
    stretch on either side. `ratios` has the index (dataset, method_a, method_b, parameter); `pairs`
    say what to draw in which order, either way round.
    """
    kinds = {dataset: i for i, dataset in enumerate(ratios.index.unique("dataset"))}
    room = room_for(kinds, 84)
    across = min(2, len(pairs))
    wide = PANEL if across == 2 else WIDTH
    long = any(BOLD * text_width(m) > wide / 2 - 8 - _BETTER for pair in pairs for m in pair)
    stacked = LINE if long else 0
    tall, rows = PLOT + stacked + 58, -(-len(pairs) // across)
    last = float(ratios.index.get_level_values("parameter").max())
    known = {
        pair: part.droplevel([1, 2]) for pair, part in ratios.groupby(level=[1, 2], sort=False)
    }
    found = {pair: _turned(known, *pair) for pair in pairs}
    words = "; ".join(f"{b} against {a}: {_ends(found[a, b])}" for a, b in pairs)
    svg = Svg(
        title,
        f"Ratio of losses from Hamming to subset 0/1, above 1 the first is better. {words}.",
        rows * tall + 10,
    )
    for i, (a, b) in enumerate(pairs):
        left, top = (i % across) * (PANEL + GAP), (i // across) * tall
        here = crossings[crossings["method_a"].isin((a, b)) & crossings["method_b"].isin((a, b))]
        _panel(
            svg, found[a, b], here, (a, b), kinds, (left, top, wide, room), family, last, stacked
        )
    svg.text(WIDTH / 2, svg.height - 4, POSITIONS[family], "muted", "middle")
    return svg


def _turned(known: Mapping[tuple[str, str], pd.DataFrame], a: str, b: str) -> pd.DataFrame:
    """The ratios of b to a, whichever way round they are known."""
    other = known.get((b, a))
    with np.errstate(divide="ignore"):
        parts = [
            known.get((a, b)),
            None if other is None else other.assign(ratio=1 / other["ratio"]),
        ]
    return pd.concat([part for part in parts if part is not None])


def _ends(part: pd.DataFrame) -> str:
    lines = part.groupby(level=0, sort=False)["ratio"]
    return ", ".join(f"{d} {number(r.iloc[0], 3)} to {number(r.iloc[-1], 3)}" for d, r in lines)


def _panel(
    svg: Svg,
    part: pd.DataFrame,
    crossings: pd.DataFrame,
    pair: tuple[str, str],
    kinds: Mapping[str, int],
    box: tuple[float, float, float, float],
    family: str,
    last: float,
    stacked: int,
) -> None:
    """One pair: its lines, the line at 1, names of datasets at the right; the second method
    `stacked` below the first.
    """
    left, top, wide, room = box
    lines = {d: c.droplevel(0) for d, c in part.groupby(level=0, sort=False)}
    logs = {
        d: np.log(c["ratio"].clip(1 / LARGEST_RATIO, LARGEST_RATIO).to_numpy(float))
        for d, c in lines.items()
    }
    known = np.concatenate([*logs.values(), [-0.05, 0.05]])
    foot, head = top + 24 + stacked + PLOT, top + 24 + stacked
    y = Scale(np.nanmin(known), np.nanmax(known), foot, head)
    x = Scale(0, 1, left + 36, left + wide - room - 32)
    for i, (arrow, method) in enumerate(zip("↑↓", pair, strict=True)):
        place, anchor = (left + wide, "end") if i and not stacked else (left, "start")
        short = fit(method, (wide if stacked else wide / 2 - 8) - _BETTER, SIZE * BOLD)
        tip = method if short != method else ""
        svg.text(
            place, top + 13 + stacked * i, f"{arrow} {short} better", "strong", anchor, tip=tip
        )
    for value in _ratio_ticks(y):
        at = y(math.log(value))
        svg.line(x.start, at, x.stop, at, "axis" if value == 1 else "grid")
        svg.text(x.start - 5, at + 4, number(value), "muted small", "end")
    powers = Scale(0, math.log10(last) if last > 1 else 1.0, x.start, x.stop)
    for place, text in (
        [(x(p), f"{p:g}") for p in (0, 0.5, 1)] if family == "binomial" else _ticks(powers, family)
    ):
        svg.line(place, foot, place, foot + 4, "axis")
        svg.text(place, foot + 16, text, "muted small", "middle")
    ends: dict[str, tuple[float, float]] = {}
    for d, c in lines.items():
        points, real = (
            np.column_stack([c["position"].map(x), [y(v) for v in logs[d]]]),
            ~np.isnan(logs[d]),
        )
        if not real.any():
            continue
        ends[d] = tuple(points[real][-1])
        style = f"c{kinds[d] % COLOURS}"
        tip = f"{d}: {' to '.join(number(v, 3) for v in c['ratio'][real].iloc[[0, -1]])}"
        for run in _runs(real):
            _stretch(
                svg, kinds[d], points[run], f"{style} thin", tip, DASHES[kinds[d] % len(DASHES)]
            )
        for run in _runs(real & c["significant"].to_numpy(bool)):
            _stretch(svg, kinds[d], points[run], f"{style} thick", tip)
    for row in crossings.itertuples():
        kind = kinds[row.dataset] % COLOURS
        tip = f"{row.dataset}: {row.above} overtakes {row.below}"
        svg.dot(
            x(row.position),
            y(0),
            3.6,
            f"c{kind} {f'f{kind}' if row.certain else 'fbg'}",
            stroke_width=1.6,
            tip=tip,
        )
    named = sorted(ends, key=lambda d: -abs(ends[d][1] - y(0)))[:NAMED]
    for d, end in zip(
        named, spread([ends[d][1] for d in named], LINE - 1, head - 4, foot + 2), strict=True
    ):
        _named(svg, kinds[d], d, ends[d], (x.stop, end), room)


def _stretch(
    svg: Svg, kind: int, points: np.ndarray, class_: str, tip: str, dash: str | None = None
) -> None:
    """A piece of a line; a single point as a dot."""
    if len(points) > 1:
        svg.path([tuple(p) for p in points], class_, tip=tip, stroke_dasharray=dash)
    else:
        svg.dot(points[0][0], points[0][1], 2.4, f"f{kind % COLOURS}", tip=tip)


def _runs(flags: np.ndarray) -> list[np.ndarray]:
    """Where flags hold, in unbroken stretches.

    >>> [run.tolist() for run in _runs(np.array([True, True, False, True]))]
    [[0, 1], [3]]
    """
    at = np.flatnonzero(flags)
    return np.split(at, np.flatnonzero(np.diff(at) > 1) + 1) if len(at) else []


def _ratio_ticks(y: Scale) -> list[float]:
    """Round ratios with room between them, 1 among them."""
    low, high = math.exp(y.low), math.exp(y.high)
    round_ones = [
        f * 10.0**e for e in range(-3, 3) for f in (1, 2, 5) if low <= f * 10.0**e <= high
    ]
    chosen = Scale(low, high, 0, 1).ticks(4) if high / low < 4 else round_ones
    kept = [1.0]
    for value in sorted((v for v in chosen if v > 0), key=lambda v: abs(math.log(v))):
        if all(abs(y(math.log(value)) - y(math.log(k))) >= LINE for k in kept):
            kept.append(value)
    return kept


def awareness_strips(
    awareness: pd.DataFrame,
    order: Sequence[str],
    letters: Mapping[str, Mapping[str, str]],
    title: str,
) -> Svg:
    """A row a method, a strip a summary of its profiles: a dot a dataset, the mean as a line with
    its value.

    `awareness` has the index (dataset, method) and the columns of `SUMMARIES`; methods that share
    one of the `letters` of a summary are not separated in it. The first thirty methods of `order`
    are drawn.
    """
    methods = list(order)[:TOP]
    awareness = awareness[awareness.index.get_level_values("method").isin(methods)]
    means = awareness[list(SUMMARIES)].groupby(level="method").mean().loc[methods]
    words = "; ".join(f"{m} {', '.join(map(number, means.loc[m]))}" for m in methods)
    bottom = 24 + ROW * len(methods)
    svg = Svg(title, f"Means over datasets of {', '.join(SUMMARIES)}: {words}.", bottom + 24)
    room = room_for(methods, 130) + 8
    step = (WIDTH - room) / len(SUMMARIES)
    for i, m in enumerate(methods):
        svg.name(room - 8, 22 + ROW * i + 14, m, room - 8, anchor="end")
    for j, (summary, arrow) in enumerate(SUMMARIES.items()):
        values, marks = awareness[summary], letters.get(summary, {})
        wide = max((text_width(marks.get(m, ""), SMALL) for m in methods), default=0)
        shown = aligned(means[summary], 3)
        right = room + step * (j + 1) - wide - (14 if wide else 8)
        edge = right - max(text_width(t) for t in shown) - 6
        low, high = values.min(), values.max()
        x = Scale(
            *((low, high) if high > low else (low - 0.5, low + 0.5)), room + step * j + 6, edge - 4
        )
        svg.text(x.start - 4, 12, f"{summary.replace('_', ' ')} {arrow}", "strong")
        svg.line(x.start - 4, 20, x.start - 4, bottom, "grid")
        for i, m in enumerate(methods):
            at = 22 + ROW * i + ROW / 2
            svg.line(x.start - 4, at, edge, at, "grid")
            for dataset, value in values.xs(m, level="method").dropna().items():
                svg.dot(
                    x(value),
                    at,
                    3.4,
                    "faccent",
                    fill_opacity=0.5,
                    tip=f"{m} on {dataset}: {number(value)}",
                )
            if means.loc[m, summary] == means.loc[m, summary]:
                svg.line(x(means.loc[m, summary]), at - 6, x(means.loc[m, summary]), at + 6, "tick")
            svg.text(right, at + 4, shown[i], anchor="end")
            svg.text(right + 4, at + 4, marks.get(m, ""), "muted small")
        for tick in (low, high) if high > low else (low,):
            svg.text(x(tick), bottom + 15, number(tick, 2), "muted small", "middle")
    return svg
