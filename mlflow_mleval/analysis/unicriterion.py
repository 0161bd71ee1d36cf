"""Flows of one measure: how far each method is preferred to the others, and they to it; of many
methods without a table of pairs.

After one sort a preference function splits the methods below a value into three runs: those it is
preferred to fully, those it is preferred to in part, and those it is not preferred to. Counts and
prefix sums over the runs are the flows (Calders & Van Assche 2018, "PROMETHEE is not quadratic").
The Gaussian has no such runs; it takes plain sums over all pairs.

Where a run ends is decided by the predicate that the definition uses, ``a - b > threshold`` on
floating-point numbers. ``b < a - threshold`` is not the same: with values of one or two decimals it
moves whole groups of ties. The rounded difference is monotone in `b`, so the index found by
`searchsorted` can be checked with the real predicate and, where it fails, found again by bisection.

Inside, u are the r distinct values in rising order and n[i] counts the methods below u[i]; n[r] =
m.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

#: Flows, and differences of flows, closer than this are equal: rounding leaves up to 1e-14 where
#: they tie exactly.
TIE = 1e-12
#: Up to so many methods a methods x methods table is faster than sorting; how many cells of such
#: tables are held at once.
FEW_METHODS, CELLS = 100, 200_000


def preferred(
    d: Array, function: str, q: Array | float, p: Array | float, s: Array | float
) -> Array:
    """The preference for a method that is better by d, which is 0 for d <= 0; thresholds broadcast.

    >>> preferred(np.array([-1.0, 0.5, 3.0]), "v_shape", 0.0, 2.0, 0.0).tolist()
    [0.0, 0.25, 1.0]
    """
    if function == "gaussian":
        return -np.expm1(-((np.maximum(d, 0) / s) ** 2) / 2)
    if function == "level":
        return ((d > q) + 1.0 * (d > p)) / 2
    if function in ("usual", "u_shape"):
        return (d > (0 if function == "usual" else q)).astype(float)
    low = 0.0 if function == "v_shape" else q
    width = np.asarray(p - low)
    if not (width == 0).any():
        return np.clip((d - low) / width, 0.0, 1.0)
    return np.where(
        width > 0, np.clip((d - low) / np.where(width > 0, width, 1.0), 0.0, 1.0), d > low
    )


def stacked_flows(
    values: Array, function: str, q: Array, p: Array, s: Array
) -> tuple[Array, Array]:
    """`unicriterion_flows` of each row; of few methods from a methods x methods table, many rows at
    once.

    >>> stacked_flows(np.array([[0.1, 0.3, 0.3], [3.0, 2.0, 1.0]]), "usual", *np.zeros((3, 2)))[0].tolist()
    [[0.0, 0.5, 0.5], [1.0, 0.5, 0.0]]
    """  # noqa: E501
    up, down = np.empty((2, *values.shape))
    m = values.shape[1]
    if m > FEW_METHODS:
        for row, *limits in zip(range(len(values)), q, p, s, strict=True):
            up[row], down[row] = unicriterion_flows(values[row], function, *limits)
        return up, down
    step = max(1, CELLS // m**2)
    for part in (slice(start, start + step) for start in range(0, len(values), step)):
        v = values[part]
        prefers = preferred(
            v[:, :, None] - v[:, None, :], function, *(x[part, None, None] for x in (q, p, s))
        )
        up[part], down[part] = prefers.sum(axis=2) / (m - 1), prefers.sum(axis=1) / (m - 1)
    return up, down


def unicriterion_flows(
    values: Array, function: str, q: float = 0.0, p: float = 0.0, s: float = 0.0
) -> tuple[Array, Array]:
    """Positive and negative flow of each method by one measure, larger values being better.

    The mean over b != a of P(values[a] - values[b]), and of P(values[b] - values[a]), where the
    preference P(d) is 0 for d <= 0 and has the thresholds q, p, s that the function uses. The
    values, at least two, are finite, and so is their range. Equal values get equal flows.

    >>> plus, minus = unicriterion_flows(np.array([0.1, 0.3, 0.3]), "usual")
    >>> plus.tolist(), minus.tolist()
    ([0.0, 0.5, 0.5], [1.0, 0.0, 0.0])
    """
    m = len(values)
    order = np.argsort(values)
    v = values[order]
    n = np.flatnonzero(np.concatenate([[True], v[1:] > v[:-1], [True]]))
    flows = np.empty((2, m))
    for flow, total in zip(flows, _SUMS[function](v[n[:-1]], n, q, p, s), strict=True):
        flow[order] = np.repeat(total / (m - 1), np.diff(n))
    return flows[0], flows[1]


def tied_ranks(values: Array) -> Array:
    """Ranks along the last axis, 1 for the smallest; values whose sorted gaps are within `TIE`
    share their mean rank.

    >>> tied_ranks(np.array([0.2, 0.1, 0.2 + 1e-16])).tolist()
    [2.5, 1.0, 2.5]
    """
    first, last = tied_places(values)
    return (first + last) / 2 + 1


def tied_places(values: Array) -> tuple[Index, Index]:
    """First and last of the places, from 0, that each value covers together with those it ties
    with.

    >>> [place.tolist() for place in tied_places(np.array([0.2, 0.1, 0.2 + 1e-16]))]
    [[1, 0, 1], [2, 0, 2]]
    """
    order = np.argsort(values, axis=-1)
    new = np.diff(np.take_along_axis(values, order, axis=-1), axis=-1) > TIE
    place = np.arange(values.shape[-1])
    back = np.empty_like(order)
    np.put_along_axis(back, order, np.broadcast_to(place, order.shape), axis=-1)
    if new.all():  # nobody ties
        return back, back
    first, last = np.zeros((2, *values.shape), dtype=np.intp)
    first[..., 1:] = np.maximum.accumulate(np.where(new, place[1:], 0), axis=-1)
    last[..., :-1] = np.where(new, place[:-1], place[-1])
    last[..., -1] = place[-1]
    last = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    return np.take_along_axis(first, back, axis=-1), np.take_along_axis(last, back, axis=-1)


def place_shares(best: Index, worst: Index) -> Array:
    """Methods x places: how often a method covers a place, those that tie sharing; as `tied_places`
    has draws x methods.

    >>> place_shares(*tied_places(np.array([[0.2, 0.1, 0.2], [0.1, 0.2, 0.3]]))).tolist()
    [[1.0, 0.5, 0.5], [1.0, 1.0, 0.0], [0.0, 0.5, 1.5]]
    """
    tied, m = worst - best + 1, best.shape[1]
    shares = np.zeros(m * m)
    for further in range(int(tied.max())):
        draw, method = np.nonzero(tied > further)
        np.add.at(shares, method * m + best[draw, method] + further, 1 / tied[draw, method])
    return shares.reshape(m, m)


def _below(u: Array, threshold: float) -> Index:
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
        low, high = (
            np.searchsorted(u, x - threshold - slack),
            np.searchsorted(u, x - threshold + slack, side="right"),
        )
        while (open_ := low < high).any():
            middle = (low + high) // 2
            more = open_ & (x - u[np.minimum(middle, len(u) - 1)] > threshold)
            low, high = np.where(more, middle + 1, low), np.where(open_ & ~more, middle, high)
        count[wrong] = low
    return count


def _above(below: Index) -> Index:
    """The same seen from k: the first i with u[i] - u[k] > threshold; they are all from there
    on.
    """
    r = len(below)
    return np.cumsum(np.bincount(below, minlength=r))[:r]


def _step(u: Array, n: Index, threshold: float) -> tuple[Array, Array]:
    """Sums of [d > threshold] over the methods below and above."""
    below = _below(u, threshold)
    return n[below].astype(float), (n[-1] - n[_above(below)]).astype(float)


def _level(u: Array, n: Index, q: float, p: float) -> tuple[Array, Array]:
    """Sums of ½[d > q] + ½[d > p]."""
    (below, above), (far_below, far_above) = _step(u, n, q), _step(u, n, p)
    return (below + far_below) / 2, (above + far_above) / 2


def _ramp(u: Array, n: Index, q: float, p: float) -> tuple[Array, Array]:
    """Sums of (d - q) / (p - q), held between 0 and 1, over the methods below and above.

    The prefix sums are kept in two parts, integers that add without rounding and small remainders,
    so that neither a large offset of the values nor a narrow ramp costs digits.
    """
    if p == q:
        return _step(u, n, q)
    full, some = _below(u, p), _below(u, q)
    scale = 2.0 ** (np.frexp(max(-u[0], u[-1]))[1] + int(n[-1]).bit_length() - 52)
    units = u / scale
    high = np.rint(units)
    parts = [
        (part, np.concatenate([[0.0], np.cumsum(part * np.diff(n))]))
        for part in (high, units - high)
    ]

    def partial(start: Index, stop: Index, sign: int) -> Array:
        count = n[stop] - n[start]
        distance = sum(count * part - (total[stop] - total[start]) for part, total in parts)
        return (sign * scale * distance - count * q) / (p - q)

    below = n[full] + partial(full, some, 1)
    some, full = _above(some), _above(full)
    return below, n[-1] - n[full] + partial(some, full, -1)


def _gaussian(u: Array, n: Index, s: float) -> tuple[Array, Array]:
    """Sums of 1 - exp(-d²/2s²) over the methods below and above; by blocks of rows, each pair
    once.
    """
    size = np.diff(n).astype(float)
    below, above = np.zeros((2, len(u)))
    step = max(1, CELLS // len(u))
    for start in range(0, len(u), step):
        rows, columns = slice(start, start + step), slice(start + step)
        # nothing is preferred to its equal or its better: in the block's own square only what is
        # below counts
        prefers = preferred(u[rows, None] - u[columns], "gaussian", 0.0, 0.0, s)
        below[rows] = prefers @ size[columns]
        above[columns] += size[rows] @ prefers
    return below, above


_SUMS = {
    "usual": lambda u, n, q, p, s: _step(u, n, 0.0),
    "u_shape": lambda u, n, q, p, s: _step(u, n, q),
    "v_shape": lambda u, n, q, p, s: _ramp(u, n, 0.0, p),
    "level": lambda u, n, q, p, s: _level(u, n, q, p),
    "linear": lambda u, n, q, p, s: _ramp(u, n, q, p),
    "gaussian": lambda u, n, q, p, s: _gaussian(u, n, s),
}
