"""PROMETHEE: many measures fused into one ranking (Brans & Vincke 1985; Eftimov & Kocev 2019)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mlflow_mleval.measures.inputs import slices
from mlflow_mleval.sentences import did_you_mean, some
from mlflow_mleval.validation import Array, Bools, Places, in_pandas, known_keywords, one_of

# --------------------------------------------------------------------------------------------------
# Flows of one measure: how far each method is preferred to the others, and they to it.
#
# After one sort a preference function splits the methods below a value into three runs: those it is
# preferred to fully, those it is preferred to in part, and those it is not preferred to. Counts and
# prefix sums over the runs are the flows (Calders & Van Assche 2018, "PROMETHEE is not quadratic").
# The Gaussian has no such runs; it takes a fast Gauss transform.
#
# Where a run ends is decided by the predicate that the definition uses, ``a - b > threshold`` on
# floating-point numbers. ``b < a - threshold`` is not the same: with values of one or two decimals
# it moves whole groups of ties. The rounded difference is monotone in `b`, so the index found by
# `searchsorted` can be checked with the real predicate and, where it fails, found again by
# bisection.
#
# Inside, u are the r distinct values in rising order; n[i] methods are below u[i], and n[r] = m.

#: Flows, and differences of flows, closer than this are equal: rounding leaves up to 1e-14 where
#: they tie exactly.
TIE = 1e-12
#: Up to so many methods a methods x methods table is faster than sorting; how many cells of such
#: tables are held at once.
FEW_METHODS = 100
CELLS = 200_000
#: Powers that hold exp(ab) up to |ab| = 1/4, and boxes beyond which a Gaussian is nothing.
TERMS = 13
FAR = 10


def preferred(
    d: Array, function: str, q: Array | float, p: Array | float, s: Array | float
) -> Array:
    """The preference for a method better by d, 0 where it is not; thresholds broadcast."""
    if function == "gaussian":
        return -np.expm1(-((np.maximum(d, 0) / s) ** 2) / 2)
    if function == "level":
        return ((d > q) + 1.0 * (d > p)) / 2
    if function in ("usual", "u_shape"):
        return (d > (0 if function == "usual" else q)).astype(float)
    low = 0.0 if function == "v_shape" else q
    width = np.asarray(p - low)
    share = np.clip((d - low) / np.where(width > 0, width, 1.0), 0.0, 1.0)
    return np.where(width > 0, share, d > low)


def stacked_flows(
    values: Array, function: str, q: Array, p: Array, s: Array
) -> tuple[Array, Array]:
    """`unicriterion_flows` of each row; of few methods from tables of pairs, many rows at once."""
    up, down = np.empty((2, *values.shape))
    m = values.shape[1]
    if m > FEW_METHODS:
        for row, *limits in zip(range(len(values)), q, p, s, strict=True):
            up[row], down[row] = unicriterion_flows(values[row], function, *limits)
        return up, down
    for part in slices(len(values), max(1, CELLS // m**2)):
        v = values[part]
        ends = (x[part, None, None] for x in (q, p, s))
        prefers = preferred(v[:, :, None] - v[:, None, :], function, *ends)
        up[part] = prefers.sum(axis=2) / (m - 1)
        down[part] = prefers.sum(axis=1) / (m - 1)
    return up, down


def unicriterion_flows(
    values: Array, function: str, q: float = 0.0, p: float = 0.0, s: float = 0.0
) -> tuple[Array, Array]:
    """Positive and negative flow of each method by one measure, larger values being better: the
    means of P(a - b) and P(b - a) over the others."""
    m = len(values)
    order = np.argsort(values)
    v = values[order]
    n = np.flatnonzero(np.concatenate([[True], v[1:] > v[:-1], [True]]))
    limits = {"q": q, "p": p, "s": s}
    own = {key: limits[key] for key in PREFERENCES[function]}
    flows = np.empty((2, m))
    sums = np.array(_SUMS[function](v[n[:-1]], n, **own))
    flows[:, order] = np.repeat(sums / (m - 1), np.diff(n), axis=1)
    return flows[0], flows[1]


def tied_ranks(values: Array) -> Array:
    """Ranks along the last axis, 1 for the smallest; within gaps of `TIE` they share the mean."""
    first, last = tied_places(values)
    return (first + last) / 2 + 1


def tied_places(values: Array) -> tuple[Places, Places]:
    """First and last of the places, from 0, that each value covers with those it ties with."""
    order = np.argsort(values, axis=-1)
    new = np.diff(np.take_along_axis(values, order, axis=-1), axis=-1) > TIE
    place = np.arange(values.shape[-1])
    back = np.empty_like(order)
    np.put_along_axis(back, order, np.broadcast_to(place, order.shape), axis=-1)
    if new.all():  # nobody ties
        return back, back
    first, last = ends_of_runs(new)
    return np.take_along_axis(first, back, axis=-1), np.take_along_axis(last, back, axis=-1)


def ends_of_runs(new: Bools) -> tuple[Places, Places]:
    """First and last place of each place's run; `new`: where others than the first begin one."""
    place = np.arange(new.shape[-1] + 1)
    first, last = np.empty((2, *new.shape[:-1], len(place)), dtype=np.intp)
    first[..., 0], last[..., -1] = 0, place[-1]
    first[..., 1:] = np.maximum.accumulate(np.where(new, place[1:], 0), axis=-1)
    ends = np.where(new, place[:-1], place[-1])[..., ::-1]
    last[..., :-1] = np.minimum.accumulate(ends, axis=-1)[..., ::-1]
    return first, last


def _below(u: Array, threshold: float) -> Places:
    """For each i: how many k have u[i] - u[k] > threshold. They are the first ones."""
    if threshold == 0:
        return np.arange(len(u))
    if threshold >= u[-1] - u[0]:
        return np.zeros(len(u), dtype=np.intp)
    count = np.searchsorted(u, u - threshold)
    wrong = (u - u[count] > threshold) | ((count > 0) & (u - u[count - 1] <= threshold))
    if wrong.any():
        x = u[wrong]
        slack = 4 * np.finfo(float).eps * (np.abs(x) + threshold)
        low = np.searchsorted(u, x - threshold - slack)
        high = np.searchsorted(u, x - threshold + slack, side="right")
        while (open_ := low < high).any():
            middle = (low + high) // 2
            more = open_ & (x - u[np.minimum(middle, len(u) - 1)] > threshold)
            low = np.where(more, middle + 1, low)
            high = np.where(open_ & ~more, middle, high)
        count[wrong] = low
    return count


def _above(below: Places) -> Places:
    """The same seen from k: the first i with u[i] - u[k] > threshold; all are from there on."""
    r = len(below)
    return np.cumsum(np.bincount(below, minlength=r))[:r]


def _step(u: Array, n: Places, q: float = 0.0) -> tuple[Array, Array]:
    """Sums of [d > q] over the methods below and above."""
    below = _below(u, q)
    return n[below].astype(float), (n[-1] - n[_above(below)]).astype(float)


def _level(u: Array, n: Places, q: float, p: float) -> tuple[Array, Array]:
    """Sums of ½[d > q] + ½[d > p]."""
    near, far = _step(u, n, q), _step(u, n, p)
    return (near[0] + far[0]) / 2, (near[1] + far[1]) / 2


def _ramp(u: Array, n: Places, p: float, q: float = 0.0) -> tuple[Array, Array]:
    """Sums of (d - q) / (p - q), held between 0 and 1. Prefix sums are kept as integers and small
    remainders, so that neither offsets nor narrow ramps cost digits."""
    if p == q:
        return _step(u, n, q)
    full, in_part = _below(u, p), _below(u, q)
    scale = 2.0 ** (np.frexp(max(-u[0], u[-1]))[1] + int(n[-1]).bit_length() - 52)
    units = u / scale
    high = np.rint(units)
    parts = [
        (part, np.concatenate([[0.0], np.cumsum(part * np.diff(n))]))
        for part in (high, units - high)
    ]

    def partial(start: Places, stop: Places, sign: int) -> Array:
        count = n[stop] - n[start]
        distance = sum(count * part - (total[stop] - total[start]) for part, total in parts)
        return (sign * scale * distance - count * q) / (p - q)

    below = n[full] + partial(full, in_part, 1)
    in_part, full = _above(in_part), _above(full)
    return below, n[-1] - n[full] + partial(in_part, full, -1)


def _gaussian(u: Array, n: Places, s: float) -> tuple[Array, Array]:
    """Sums of 1 - exp(-d²/2s²) over the methods below and above."""
    size = np.diff(n).astype(float)
    below = _gauss_sums(u, size, s)
    above = _gauss_sums(-u[::-1], size[::-1], s)[::-1]
    return n[:-1] - below, n[-1] - n[1:] - above


def _gauss_sums(u: Array, size: Array, s: float) -> Array:
    """By i, the sum over k < i of size[k] exp(-(u[i] - u[k])² / 2s²), u rising, to 1e-15 of the
    sizes: a one-sided fast Gauss transform (Greengard & Strain 1991) in boxes one s wide."""
    with np.errstate(over="ignore"):
        box = np.floor(np.clip(u / s, -(2.0**60), 2.0**60))
    centre = (box + 0.5) * s
    a = np.clip((u - centre) / s, -0.75, 0.75)
    powers = a[:, None] ** np.arange(TERMS)
    sums = np.zeros(len(u))
    total = np.zeros((len(u) + 1, TERMS))
    for j in range(FAR):
        start = np.searchsorted(box, box - j, side="left")
        stop = np.searchsorted(box, box - j, side="right") if j else np.arange(len(u))
        near = stop > start
        source = centre[start[near]]
        b = a[near] + np.clip((centre[near] - source) / s - j, -0.25, 0.25)
        np.cumsum(powers * (size * np.exp(j * a - a**2 / 2))[:, None], axis=0, out=total[1:])
        moments = total[stop[near]] - total[start[near]]
        series = np.zeros(len(b))
        for k in range(TERMS - 1, -1, -1):
            series = series * b + moments[:, k] / math.factorial(k)
        sums[near] += np.exp(-(j**2) / 2 - j * b - b**2 / 2) * series
    return sums


#: By preference function what sums it, of the thresholds that it has.
_SUMS: Mapping[str, Callable[..., tuple[Array, Array]]] = {
    "usual": _step,
    "u_shape": _step,
    "v_shape": _ramp,
    "level": _level,
    "linear": _ramp,
    "gaussian": _gaussian,
}

#: The preference functions, and what part of a measure's largest difference R each threshold is by
#: default: R / number.
PREFERENCES: Mapping[str, Mapping[str, int]] = {
    "usual": {},
    "u_shape": {"q": 10},
    "v_shape": {"p": 1},
    "level": {"q": 10, "p": 2},
    "linear": {"q": 10, "p": 1},
    "gaussian": {"s": 3},
}
WEIGHTS = ("entropy", "equal")
THRESHOLDS = ("q", "p", "s")
#: A weight above this is reported: one measure then outvotes all others together.
DOMINANT = 0.5
NO_FLOW = (
    "all preferences are almost zero, so that ranks tie: the thresholds are too large for the "
    "differences."
)

Preference = str | Mapping[Any, str]
Weights = str | Mapping[Any, float] | Sequence[float]
Threshold = float | Mapping[Any, float] | None


class Function(NamedTuple):
    """The preference function of a measure, and its thresholds as far as they were given."""

    name: str
    given: Mapping[str, float | None]


@dataclass(frozen=True)
class Gaia:
    """The GAIA plane: the first two principal components of the flows by measure. `axis` shows the
    weights; `shares` is the variance that x and y hold."""

    methods: pd.DataFrame
    measures: pd.DataFrame
    axis: pd.Series
    shares: tuple[float, float]

    @property
    def explained(self) -> float:
        """Share of the variance that the plane shows; below about 0.6 it misleads."""
        return sum(self.shares)


@dataclass(frozen=True)
class PrometheeResult:
    """Flows and rank by method, net flows by single measures, weights, thresholds, doubts."""

    flows: pd.DataFrame
    unicriterion: pd.DataFrame
    weights: pd.Series
    thresholds: pd.DataFrame
    warnings: tuple[str, ...]

    def partial_order(self) -> pd.DataFrame:
        """PROMETHEE I, row to column: "P" preferred, "-" the column is, "I" equal in both flows,
        "R" incomparable."""
        by_plus, by_minus = _signs(*self.flows[["phi_plus", "phi_minus"]].to_numpy().T)
        total = by_plus + by_minus
        words = np.select([by_plus * by_minus < 0, total > 0, total < 0], ["R", "P", "-"], "I")
        return pd.DataFrame(words, index=self.flows.index, columns=self.flows.index)

    def gaia(self) -> Gaia:
        """Coordinates in the GAIA plane (Mareschal & Brans 1988)."""
        flows, weights = self.unicriterion.to_numpy(), self.weights.to_numpy()
        variances, vectors = np.linalg.eigh(flows.T @ flows)
        plane = np.zeros((len(weights), 2))
        plane[:, : len(weights)] = vectors[:, ::-1][:, :2]
        plane *= np.where(weights @ plane < 0, -1.0, 1.0)
        kept = np.zeros(2)
        kept[: len(weights)] = np.maximum(variances[::-1][:2], 0)
        total = max(variances.sum(), kept.sum())
        shares = kept / total if total > 0 else np.array([1.0, 0.0])
        names = ["x", "y"]
        return Gaia(
            pd.DataFrame(flows @ plane, self.unicriterion.index, names),
            pd.DataFrame(plane, self.unicriterion.columns, names),
            pd.Series(weights @ plane, names),
            (float(shares[0]), float(shares[1])),
        )


@known_keywords
def promethee(
    table: pd.DataFrame | ArrayLike,
    minimize: Iterable[Any] = (),
    preference: Preference = "v_shape",
    weights: Weights = "entropy",
    p: Threshold = None,
    q: Threshold = None,
    s: Threshold = None,
    drop_constant: bool = False,
) -> PrometheeResult:
    """Rank methods by many measures at once: PROMETHEE I and II.

    For methods a, b and measure j let d be the difference of their values, positive where a is
    better, and P_j(d) in [0, 1] how far a is preferred; π(a,b) = Σ w_j P_j(d). phi_plus(a) is the
    mean of π(a,b) over the other methods b, phi_minus(a) that of π(b,a), and PROMETHEE II ranks by
    falling phi = phi_plus - phi_minus (Eftimov & Kocev 2019, eqs. 1-5; their additional factor 1/n
    only rescales).

    Parameters
    ----------
    table : DataFrame or array, shape (m, n)
        m >= 2 methods x n >= 1 measures; finite numbers. Rows and columns of an array are called 0,
        1, ...
    minimize : iterable of column names
        The measures of which the smaller value is better.
    preference : str or mapping of measure to str
        For d > 0 (P is 0 elsewhere): "usual" 1; "u_shape" [d > q]; "v_shape" d/p up to 1; "level" ½
        where d > q, 1 where d > p; "linear" (d-q)/(p-q) held between 0 and 1; "gaussian" 1 -
        exp(-d²/2s²).
    weights : {"entropy", "equal"}, mapping of measure to float, or sequence
        "entropy": by the information that values carry (Eftimov & Kocev 2019, eqs. 6-12). Each
        measure is scaled to [0, 1] towards better, divided by its sum over the methods, and its
        entropy e_j is the mean of W(x) / (e^½ - 1) with W(x) = x e^(1-x) + (1-x) e^x - 1; the
        weight is (1 - e_j) / Σ (1 - e). Given ones must be positive; they are normalised to sum 1.
    p, q, s : float or mapping of measure to float, optional
        Thresholds in the units of the measure. By default shares of R, the measure's largest
        difference in this table: v_shape p = R (Eftimov & Kocev); u_shape q = R/10; level q = R/10,
        p = R/2; linear q = R/10, p = R; gaussian s = R/3. A default p is at least a given q, and a
        default q at most a given p.
    drop_constant : bool
        Whether a measure that does not differ between methods gets weight 0 (the others are
        rescaled), unless all are so. It has no flow either way; kept, as in the paper, its weight
        makes the flows smaller but changes no order.

    Raises
    ------
    ValueError
        Missing or infinite values (rows and columns are named), fewer than two methods, no measure,
        repeated or unknown names, a threshold that is negative, out of order or not used by the
        function, weights that are not positive.

    Notes
    -----
    O(n · m log m) time and O(n · m) memory for all six functions; see
    `mlflow_mleval.analysis.promethee`.

    Examples
    --------
    >>> table = pd.DataFrame({"f1": [0.9, 0.7, 0.5], "one_error": [0.4, 0.2, 0.3]}, index=["a", "b", "c"])
    >>> promethee(table, minimize=["one_error"], weights="equal").flows.round(3)
       phi_plus  phi_minus    phi  rank
    a     0.375      0.375  0.000   2.0
    b     0.500      0.125  0.375   1.0
    c     0.125      0.500 -0.375   3.0
    """  # noqa: E501
    frame = checked(table)
    given = frame.to_numpy()[None], frame.index, frame.columns, minimize, preference
    return flows_by_measure(*given, p=p, q=q, s=s).weigh(weights, drop_constant).result(0)


@dataclass(frozen=True)
class FlowsByMeasure:
    """Flows by each measure on many datasets at once: what no weights change. Arrays are datasets x
    measures x methods; `limits` are (q, p, s) x datasets x measures."""

    methods: pd.Index
    measures: pd.Index
    values: Array
    turned: Bools
    functions: tuple[Function, ...]
    limits: Array
    up: Array
    down: Array

    @property
    def constant(self) -> Bools:
        """Datasets x measures: whether all methods have the same value."""
        return np.ptp(self.values, axis=2) == 0

    @property
    def net(self) -> Array:
        """Net flows, datasets x measures x methods."""
        return self.up - self.down

    def weigh(self, weights: Weights = "entropy", drop_constant: bool = False) -> WeighedFlows:
        """The flows fused; options as in `promethee`."""
        if isinstance(weights, str) and weights == "entropy":
            parts = []
            for part in blocks_of(self.values):  # the information that values carry by measure
                values = self.values[part]
                low, high = values.min(axis=2, keepdims=True), values.max(axis=2, keepdims=True)
                x = np.where(self.turned[:, None], high - values, values - low)
                x = np.where(high > low, x / np.where(high > low, high - low, 1), 1.0)
                x /= x.sum(axis=2, keepdims=True)
                e = np.exp(x)
                most = np.expm1(0.5) * x.shape[2]
                entropy = (x * np.e / e + (1 - x) * e - 1).sum(axis=2) / most
                parts.append(np.maximum(1 - entropy, 0))
            information = np.concatenate(parts)
            total = information.sum(axis=1, keepdims=True)
            equal = 1 / len(self.measures)
            share = np.where(total > 0, information / np.where(total > 0, total, 1), equal)
        else:
            share = np.tile(_given(weights, self.measures), (len(self.values), 1))
        if drop_constant:
            varying = np.where(self.constant, 0, share)
            total = varying.sum(axis=1, keepdims=True)
            # as they are where every measure is constant
            share = np.where(total > 0, varying / np.where(total > 0, total, 1), share)
        plus, minus = ((share[:, None] @ flow)[:, 0] for flow in (self.up, self.down))
        return WeighedFlows(self, share, plus, minus)

    def again(self, matrices: Array, datasets: Places) -> FlowsByMeasure:
        """The flows of other values, methods x measures each, by these datasets' thresholds."""
        values = np.ascontiguousarray(matrices.swapaxes(1, 2))
        limits = self.limits[:, datasets]
        up, down = np.zeros((2, *values.shape))
        told_apart = ~self.constant[datasets] & (np.ptp(values, axis=2) > 0)
        _fill(up, down, values, self.turned, self.functions, limits, told_apart)
        return replace(self, values=values, limits=limits, up=up, down=down)

    def without(self, method: int) -> FlowsByMeasure:
        """The same without a method: its part taken out; made again where thresholds change."""
        left = np.delete(self.values, method, axis=2)
        m = len(self.methods)
        limits = _limits(self.functions, np.ptp(left, axis=2))
        d = self.values - self.values[..., [method]]
        d[:, self.turned] *= -1
        flows = np.stack([self.up, self.down])
        changed = ~((limits == self.limits) | np.isnan(limits)).all(axis=0) | (
            self.constant != (np.ptp(left, axis=2) == 0)
        )
        for function in {f.name for f in self.functions}:
            own = np.array([f.name == function for f in self.functions])
            q, p, s = np.where(self.constant[:, own], 1.0, self.limits[:, :, own])[..., None]
            for flow, sign in zip(flows, (1, -1), strict=True):
                flow[:, own] -= preferred(sign * d[:, own], function, q, p, s) / (m - 1)
        up, down = np.delete(flows, method, axis=3) * ((m - 1) / (m - 2))
        _fill(up, down, left, self.turned, self.functions, limits, changed)
        methods = self.methods.delete(method)
        return replace(self, methods=methods, values=left, limits=limits, up=up, down=down)


@dataclass(frozen=True)
class WeighedFlows:
    """Flows fused on many datasets at once, datasets x methods."""

    by_measure: FlowsByMeasure
    weights: Array
    plus: Array
    minus: Array

    @property
    def phi(self) -> Array:
        """Net flows, datasets x methods."""
        return self.plus - self.minus

    @property
    def ranks(self) -> Array:
        """Ranks by net flow, datasets x methods; 1 is best."""
        return tied_ranks(-self.phi)

    @property
    def lost(self) -> Bools:
        """By dataset: whether its thresholds leave no preference to speak of."""
        return (self.plus.max(axis=1) < 1000 * TIE) & ~self.by_measure.constant.all(axis=1)

    def result(self, dataset: int) -> PrometheeResult:
        """What `promethee` says of one dataset, by its position."""
        by, share = self.by_measure, self.weights[dataset]
        constant = np.ptp(by.values[dataset], axis=1) == 0
        warned = []
        if constant.any():
            names = _in_ticks(by.measures[constant])
            warned.append(f"The same for every method, so that it tells none apart: {names}.")
        if len(share) > 1 and share.max() > DOMINANT:
            warned.append(
                f"{str(by.measures[share.argmax()])!r} has more than half of the weight and "
                "outvotes all other measures."
            )
        if self.lost[dataset]:
            warned.append(NO_FLOW)
        plus, minus = self.plus[dataset], self.minus[dataset]
        phi = plus - minus
        flows = {"phi_plus": plus, "phi_minus": minus, "phi": phi, "rank": tied_ranks(-phi)}
        limits = dict(zip(THRESHOLDS, by.limits[:, dataset], strict=True))
        return PrometheeResult(
            pd.DataFrame(flows, index=by.methods),
            pd.DataFrame((by.up[dataset] - by.down[dataset]).T, by.methods, by.measures),
            pd.Series(share, by.measures, name="weight"),
            pd.DataFrame({"preference": [f.name for f in by.functions], **limits}, by.measures),
            tuple(warned),
        )


def flows_by_measure(
    matrices: Array,
    methods: pd.Index,
    measures: pd.Index,
    minimize: Iterable[Any] = (),
    preference: Preference = "v_shape",
    **thresholds: Threshold,
) -> FlowsByMeasure:
    """Flows on datasets x methods x measures; options as of `promethee`."""
    values = matrices.swapaxes(1, 2)
    smaller = [minimize] if isinstance(minimize, str) else list(minimize)
    _known(smaller, measures, "minimize")
    turned = measures.isin(smaller)
    functions = _functions(preference, thresholds, measures)
    ranges = np.ptp(values, axis=2)
    limits = _limits(functions, ranges)
    up, down = np.zeros((2, *values.shape))
    for part in blocks_of(values):
        given = values[part], turned, functions, limits[:, part], ranges[part] > 0
        _fill(up[part], down[part], *given)
    return FlowsByMeasure(methods, measures, values, turned, functions, limits, up, down)


def blocks_of(values: Array) -> Iterable[slice]:
    """Datasets that are looked at together, so that memory is bounded."""
    return slices(len(values), max(1, CELLS // (values.shape[1] * values.shape[2])))


def _fill(
    up: Array,
    down: Array,
    values: Array,
    turned: Bools,
    functions: Sequence[Function],
    limits: Array,
    wanted: Bools,
) -> None:
    """Put the flows of the wanted (dataset, measure) in place; those of constant measures are 0."""
    constant = np.ptp(values, axis=2) == 0
    up[wanted & constant] = down[wanted & constant] = 0
    for function in dict.fromkeys(f.name for f in functions):
        which = wanted & ~constant & np.array([f.name == function for f in functions])
        signs = np.broadcast_to(np.where(turned, -1.0, 1.0), which.shape)
        columns = signs[which][:, None] * values[which]
        up[which], down[which] = stacked_flows(columns, function, *limits[:, which])


def checked(table: pd.DataFrame | ArrayLike) -> pd.DataFrame:
    """The table of numbers that `promethee` takes, or why it cannot take it."""
    table = pd.DataFrame(in_pandas(table, index="method"))
    if table.shape[1] < 1 or table.shape[0] < 2:
        raise ValueError(
            f"`table` must hold at least two methods and one measure, got {table.shape[0]} x "
            f"{table.shape[1]}."
        )
    for names, what in ((table.index, "method"), (table.columns, "measure")):
        if names.has_duplicates:
            raise ValueError(
                f"`table` must name each {what} once, got "
                f"{_in_ticks(names[names.duplicated()].unique())} repeatedly."
            )
    if other := [c for c, kind in table.dtypes.items() if not pd.api.types.is_numeric_dtype(kind)]:
        raise ValueError(
            f"`table` must hold numbers, got others in {_in_ticks(other)}. Convert or drop them."
        )
    table = table.astype(float)
    finite = np.isfinite(table.to_numpy())
    if not finite.all():
        wrong = table.stack(future_stack=True)[~finite.ravel()]
        cells = some(f"{method} / {measure} ({x})" for (method, measure), x in wrong.items())
        raise ValueError(
            f"`table` must hold finite numbers, got {len(wrong)} that are not: {cells}. Fill them "
            "by a policy for missing values, or leave the method or the measure out."
        )
    if (bad := lost(table.to_numpy())).any():
        raise ValueError(
            "`table` must have ranges that floats can hold, not that of "
            f"{_in_ticks(table.columns[bad])}. Rescale it."
        )
    return table


def lost(matrix: Array) -> Bools:
    """By column: whether its range is too wide or too narrow for floats."""
    with np.errstate(over="ignore"):
        ranges = np.ptp(matrix, axis=0)
    return (ranges == np.inf) | ((ranges > 0) & (ranges < np.finfo(float).tiny))


def _known(given: Collection[Any], measures: pd.Index, argument: str, every: str = "") -> None:
    """ValueError for names that are none of the measures', or where a measure is given none."""
    if unknown := [name for name in given if name not in measures]:
        guess = did_you_mean(unknown, measures)
        text = f"`{argument}` must name measures of the table, got {_in_ticks(unknown)}; it has"
        raise ValueError(f"{text} {_in_ticks(measures)}.{guess}")
    if every and (lacking := [name for name in measures if name not in given]):
        raise ValueError(
            f"`{argument}` must give every measure {every}, got none for {_in_ticks(lacking)}."
        )


def _in_ticks(names: Iterable[Any]) -> str:
    return some(repr(str(name)) for name in names)


def _given(weights: Weights, measures: pd.Index) -> Array:
    """Weights that are the same on every dataset."""
    if isinstance(weights, str):
        one_of(weights, "weights", WEIGHTS)
        return np.full(len(measures), 1 / len(measures))
    if isinstance(weights, Mapping | pd.Series):
        weights = dict(weights)
        _known(weights, measures, "weights", every="one")
        weights = [weights[name] for name in measures]
    share = np.asarray(weights, dtype=float)
    if share.shape != (len(measures),):
        raise ValueError(
            f"`weights` must hold one number a measure, {len(measures)} in all, got shape "
            f"{share.shape}."
        )
    if (wrong := ~(np.isfinite(share) & (share > 0))).any():
        each = zip(share[wrong], measures[wrong], strict=True)
        got = ", ".join(f"{weight:g} for {str(name)!r}" for weight, name in each)
        raise ValueError(
            f"`weights` must be positive numbers, got {got}. Leave out measures that should not "
            "count."
        )
    return share / share.sum()


def _functions(
    preference: Preference, given: Mapping[str, Threshold], measures: pd.Index
) -> tuple[Function, ...]:
    """The preference functions with the thresholds that were given, all checked."""
    for_all = isinstance(preference, str)
    by_measure: Any = dict.fromkeys(measures, preference) if for_all else preference
    _known(by_measure, measures, "preference", every="a function")
    functions = {name: one_of(by_measure[name], "preference", PREFERENCES) for name in measures}
    for key, value in given.items():
        everywhere = measures if for_all and value is not None else ()
        concerned = value if isinstance(value, Mapping) else everywhere
        _known(concerned, measures, key)
        if idle := [name for name in concerned if key not in PREFERENCES[functions[name]]]:
            raise ValueError(
                f"`{key}` is not a threshold of {functions[idle[0]]!r}, the preference function "
                f"of {_in_ticks(idle)}."
            )
    chosen = []
    for name in measures:
        fixed = {
            key: _threshold_of(given.get(key), key, name) for key in PREFERENCES[functions[name]]
        }
        q, p = fixed.get("q"), fixed.get("p")
        if q is not None and p is not None and q > p:
            raise ValueError(
                f"`p` must not be smaller than `q`, got p={p}, q={q} for {str(name)!r}."
            )
        chosen.append(Function(functions[name], fixed))
    return tuple(chosen)


def _limits(functions: Sequence[Function], ranges: Array) -> Array:
    """(q, p, s) x datasets x measures."""
    limits = np.full((len(THRESHOLDS), *ranges.shape), np.nan)
    for j, (name, given) in enumerate(functions):
        for key, part in PREFERENCES[name].items():
            usual = ranges[:, j] / part
            limits[THRESHOLDS.index(key), :, j] = usual if given[key] is None else given[key]
        if len(given) == 2:
            q, p, _ = limits[:, :, j]
            if given["p"] is None:
                np.maximum(p, q, out=p)
            else:
                np.minimum(q, p, out=q)
    return limits


def _threshold_of(value: Threshold, key: str, name: Any) -> float | None:
    """The threshold given for one measure; None where none is."""
    if isinstance(value, Mapping):
        value = value.get(name)
    if value is None:
        return None
    number = float(value)
    if not (np.isfinite(number) and (number > 0 or (key == "q" and number == 0))):
        raise ValueError(
            f"`{key}` must be {'zero or ' if key == 'q' else ''}a positive number, got {value!r} "
            f"for {str(name)!r}."
        )
    return number


def left_open(plus: Array, minus: Array) -> tuple[Places, Places]:
    """Places (a, b), a < b, of the pairs that PROMETHEE I leaves open ("R" in `partial_order`)."""
    by_plus, by_minus = _signs(plus, minus)
    first, second = np.nonzero(np.triu(by_plus * by_minus < 0, 1))
    return first, second


def _signs(plus: Array, minus: Array) -> list[Array]:
    """Methods x methods: which is ahead by either flow, 0 where they tie within the tolerance."""
    differences = plus[:, None] - plus, minus - minus[:, None]
    return [np.where(np.abs(d) <= TIE, 0.0, np.sign(d)) for d in differences]
