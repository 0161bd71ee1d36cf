"""Flows of one measure: how far each method is preferred to the others, and they to it, without a methods x methods table.

After one sort a preference function splits the methods below a value into three runs: those it is not preferred to,
those it is preferred to in part, and those it is preferred to fully. Counts and prefix sums over the runs are the flows
(Calders & Van Assche 2018, "PROMETHEE is not quadratic").

Where a run ends is decided by the predicate that the definition uses, ``a - b > threshold`` on floating-point numbers.
``b < a - threshold`` is not the same: with values of one or two decimals it moves whole groups of ties. The rounded
difference is monotone in `b`, so the index found by `searchsorted` can be checked with the real predicate and, where it
fails, found again by bisection.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

#: Flows, and differences of flows, closer than this are equal: rounding leaves up to 1e-14 where they tie exactly.
TIE = 1e-12


def unicriterion_flows(values: Array, function: str, q: float = 0.0, p: float = 0.0, s: float = 0.0) -> tuple[Array, Array]:
    """Positive and negative flow of each method by one measure, larger values being better.

    Parameters
    ----------
    values : array, shape (m,)
        Finite, m >= 2, with a finite range.
    function : {"usual", "u_shape", "v_shape", "level", "linear", "gaussian"}
        Preference P(d) of a difference d > 0; it is 0 for d <= 0.
    q, p, s : float
        Thresholds that the function uses.

    Returns
    -------
    plus, minus : array, shape (m,)
        Mean of P(values[a] - values[b]) over b != a, and of P(values[b] - values[a]). Equal values get equal flows.

    >>> plus, minus = unicriterion_flows(np.array([0.1, 0.3, 0.3]), "usual")
    >>> plus.tolist(), minus.tolist()
    ([0.0, 0.5, 0.5], [1.0, 0.0, 0.0])
    """
    order = np.argsort(values)
    v = values[order]
    below, above = _SUMS[function](v, q, p, s)
    first = _below(v, 0.0)
    plus, minus = np.empty_like(v), np.empty_like(v)
    plus[order] = below[first] / (len(v) - 1)
    minus[order] = above[first] / (len(v) - 1)
    return plus, minus


def tied_ranks(values: Array, tolerance: float = TIE) -> Array:
    """Ranks along the last axis, 1 for the smallest; values whose sorted gaps are within the tolerance share their mean rank.

    >>> tied_ranks(np.array([0.2, 0.1, 0.2 + 1e-16])).tolist()
    [2.5, 1.0, 2.5]
    """
    order = np.argsort(values, axis=-1)
    v = np.take_along_axis(values, order, axis=-1)
    place = np.arange(v.shape[-1])
    new = np.diff(v, axis=-1) > tolerance
    first = np.zeros(v.shape, dtype=np.intp)
    first[..., 1:] = np.maximum.accumulate(np.where(new, place[1:], 0), axis=-1)
    last = np.full(v.shape, v.shape[-1] - 1)
    last[..., :-1] = np.minimum.accumulate(np.where(new, place[:-1], v.shape[-1] - 1)[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(v.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=-1)
    return ranks


def _below(v: Array, threshold: float) -> Index:
    """For sorted v and each i: how many k have v[i] - v[k] > threshold. They are the first ones."""
    m = len(v)
    if threshold >= v[-1] - v[0]:
        return np.zeros(m, dtype=np.intp)
    if threshold == 0:
        return np.maximum.accumulate(np.where(np.diff(v, prepend=v[0]) > 0, np.arange(m), 0))
    count = np.searchsorted(v, v - threshold)
    short = v - v[np.minimum(count, m - 1)] > threshold
    wrong = np.flatnonzero(short | ((count > 0) & (v - v[count - 1] <= threshold)))
    if len(wrong):
        low, high = np.zeros(len(wrong), dtype=np.intp), wrong.copy()
        while np.any(low < high):
            middle = (low + high) // 2
            more = (v[wrong] - v[middle] > threshold) & (low < high)
            low, high = np.where(more, middle + 1, low), np.where(more, high, middle)
        count[wrong] = low
    return count


def _above(below: Index) -> Index:
    """The same seen from k: how many i have v[i] - v[k] > threshold. They are the last ones."""
    m = len(below)
    return m - np.cumsum(np.bincount(below, minlength=m + 1))[:m]


def _step(v: Array, threshold: float) -> tuple[Array, Array]:
    """Sums of [d > threshold] over the methods below and above."""
    below = _below(v, threshold)
    return below.astype(float), _above(below).astype(float)


def _ramp(v: Array, q: float, p: float) -> tuple[Array, Array]:
    """Sums of (d - q) / (p - q), held between 0 and 1, over the methods below and above.

    The prefix sums are kept in two parts, integers that add without rounding and small remainders, so that neither a
    large offset of the values nor a narrow ramp costs digits.
    """
    m = len(v)
    full, some = _below(v, p), _below(v, q)
    scale = 2.0 ** (np.frexp(np.abs(v[[0, -1]]).max())[1] + m.bit_length() - 52)
    units = v / scale
    high = np.rint(units)
    parts = [(part, np.concatenate([[0.0], np.cumsum(part)])) for part in (high, units - high)]

    def ramp(start: Index, stop: Index, sign: int) -> Array:
        n = stop - start
        distance = sum(n * part - (total[stop] - total[start]) for part, total in parts)
        return (sign * scale * distance - n * q) / (p - q)

    below = full + ramp(full, some, 1)
    full, some = _above(full), _above(some)
    return below, full + ramp(m - some, m - full, -1)


def _gaussian(v: Array, s: float) -> tuple[Array, Array]:
    """Sums of 1 - exp(-d²/2s²) over the methods below and above."""
    preference = np.array([-np.expm1(-(((x - v) / s) ** 2) / 2) for x in v])
    return np.tril(preference).sum(axis=1), np.tril(preference).sum(axis=0)


_SUMS = {
    "usual": lambda v, q, p, s: _step(v, 0.0),
    "u_shape": lambda v, q, p, s: _step(v, q),
    "v_shape": lambda v, q, p, s: _ramp(v, 0.0, p),
    "level": lambda v, q, p, s: tuple((a + b) / 2 for a, b in zip(_step(v, q), _step(v, p), strict=True)),
    "linear": lambda v, q, p, s: _ramp(v, q, p) if p > q else _step(v, q),
    "gaussian": lambda v, q, p, s: _gaussian(v, s),
}
