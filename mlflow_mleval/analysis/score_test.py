"""The score test of a mean of differences that have a bound, in which the worst unit may not have
been seen: sign changes take differences to be symmetric, and few of them seldom look skewed.

Tango (1998) for differences of -1, 0 and 1; Owen (2001), "Empirical likelihood".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from scipy import optimize, special

from mlflow_mleval.validation import Array

#: Units that differ are put together into cells where there are more than so many kinds.
_KINDS, _CELLS, _SIZES = 1024, 512, 16


@dataclass(frozen=True)
class BoundedUnits:
    """Sums of differences by independent unit (an answer, or a cluster of them), and of how many:
    each kind once, and how often it is there. No difference is larger than the bound.
    """

    sums: Array
    sizes: Array
    times: Array
    bound: float

    @classmethod
    def of(cls, sums: Array, sizes: Array, bound: float, rounded: bool = False) -> BoundedUnits:
        """Of units with a value; `rounded` puts units together that hardly differ, so that no more
        than some thousand kinds are kept: by 1/512 of their range, which leaves totals as they are.
        """
        there = sizes > 0
        sums, sizes = sums[there], sizes[there]
        pairs, place, times = np.unique(sums + 1j * sizes, return_inverse=True, return_counts=True)
        if rounded and len(pairs) > _KINDS:
            cells = _cell(sums, _CELLS) * _SIZES + _cell(sizes, _SIZES)
            _, place, times = np.unique(cells, return_inverse=True, return_counts=True)
            pairs = np.bincount(place, sums) / times + 1j * np.bincount(place, sizes) / times
        return cls(pairs.real, pairs.imag, times.astype(float), bound)

    @cached_property
    def units(self) -> int:
        """How many there are."""
        return int(self.times.sum())

    @cached_property
    def mean(self) -> float:
        """The mean difference."""
        return float(self.times @ self.sums / (self.times @ self.sizes))

    def statistic(self, centre: float, sign: int = 1) -> float:
        """How far the mean lies above this (if the sign is -1, below) on the scale of Student's t
        with a degree less than there are units.
        """
        size = float(self.times @ self.sizes) / self.units
        worst = -(self.bound + sign * centre) * size
        x = sign * (self.sums - centre * self.sizes)
        return float(min(score(x, worst, self.times[None])[0], 1e300))

    def pvalue(self) -> float:
        """Of the hypothesis that the mean is zero, two-sided."""
        if self.units < 2:
            return 1.0
        larger = self.statistic(0.0, 1 if self.mean > 0 else -1)
        return float(min(1.0, 2 * special.stdtr(self.units - 1, -larger)))

    def limit(self, t: float, sign: int, start: float) -> float:
        """The mean beyond which, downwards or, if the sign is -1, upwards, the statistic is larger
        than this; no nearer than the start.
        """
        end = -sign * self.bound
        if not np.isfinite(start) or sign * start <= sign * end:
            return start
        if self.units < 2:
            return end
        if self.statistic(start, sign) >= t:
            return start
        height = lambda centre: t - self.statistic(centre, sign)  # noqa: E731
        return crossing(height, end, start, 1e-6 * self.bound)


def _cell(values: Array, cells: int) -> Array:
    """In which of so many parts of their range the values lie."""
    low, width = values.min(), np.ptp(values)
    return ((values - low) * ((cells - 1) / width if width else 0.0)).astype(int)


def crossing(
    height: Callable[[float], float], below: float, above: float, tolerance: float = 1e-9
) -> float:
    """Where a function that rises from one end to the other crosses zero; the nearer end where it
    does not.
    """
    if height(below) >= 0:
        return below
    if height(above) <= 0:
        return above
    found: float = optimize.brentq(
        lambda x: np.clip(height(x), -50, 50), below, above, xtol=tolerance
    )
    step = tolerance * np.sign(below - above)
    return found if height(found) >= 0 else found - step


def score(x: Array, worst: float, times: Array) -> Array:
    """By sample (a row of `times` says how often each of the values x is in it) the statistic of a
    mean above zero whose variance is that of the likeliest distribution with mean zero, in which
    the worst unit may have been unseen; zero of a mean that is not above it.
    """
    n, total = times.sum(axis=1), times @ x
    if worst >= 0:
        return np.where(total > 0, inf, 0.0)  # no unit can be as bad as that
    up = total > 0
    statistic, times, n = np.zeros(len(n)), times[up], n[up]
    tilt = _tilt(x, times, (1 - 1e-12) / max(-worst, -x.min()))
    weights = times / (n[:, None] * (1 + tilt[:, None] * x))
    unseen = np.maximum(0.0, 1 - weights.sum(axis=1))
    statistic[up] = total[up] / np.sqrt(n * (weights @ x**2 + unseen * worst**2))
    return statistic


def _tilt(x: Array, times: Array, steepest: float) -> Array:
    """By sample the λ at which Σ x / (1 + λx), which falls from above zero, is zero; the steepest
    if it lies beyond. By Newton's method, within brackets.
    """
    low, high = np.zeros(len(times)), np.full(len(times), steepest)
    tilt = np.where(times @ (x / (1 + steepest * x)) >= 0, steepest, 0.0)
    left = np.flatnonzero(tilt == 0)
    for _ in range(60):
        if not len(left):
            break
        now, of = tilt[left], times[left]
        shrunk = x / (1 + now[:, None] * x)
        weighed = of * shrunk
        total, slope = weighed.sum(axis=1), (weighed * shrunk).sum(axis=1)
        rises = total > 0
        low[left[rises]], high[left[~rises]] = now[rises], now[~rises]
        following = now + total / slope
        outside = (following <= low[left]) | (following >= high[left])
        following[outside] = (low[left] + high[left])[outside] / 2
        tilt[left] = following
        left = left[np.abs(following - now) >= 1e-9 * steepest]
    return tilt
