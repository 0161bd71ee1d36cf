"""Differences of losses tested at every parameter of a profile: p-values that allow for all of
them, and intervals of ratios.

Worsley (1994), "Local maxima and the expected Euler characteristic of excursion sets of chi2, F and
t fields", for the largest t along a parameter; Holm (1979) for step-down; Fieller (1954) for
ratios.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
#: Differences of losses below this are float noise.
NOISE = 1e-12
#: Numbers in memory at once.
BLOCK = 1 << 22


def along_parameter(difference: Array, scale: float) -> tuple[Array, Array]:
    """P-values of the differences of pairs at each parameter, corrected for testing at all of them
    in a single step; and angles.

    `difference` is pairs x R x P, by fold and parameter; `scale` the standard error of a mean over
    folds, in standard deviations of a fold. P-values are pairs x P, NaN where the differences are
    the same in every fold, but not 0; the angles between the differences at neighbouring parameters
    are pairs x (P - 1).
    """
    df = difference.shape[1] - 1
    mean = difference.mean(axis=1)
    left = difference - mean[:, None]
    size = np.sqrt((left**2).sum(axis=1))
    flat = size <= NOISE * np.sqrt(df)
    size[flat] = 1.0
    t = np.abs(mean) / (size / np.sqrt(df) * scale)
    t[flat] = np.where(np.abs(mean[flat]) <= NOISE, 0.0, np.nan)
    left /= size[:, None]
    cosine = np.abs(
        (left[..., 1:] * left[..., :-1]).sum(axis=1)
    )  # |t| is the same for a process and its negative
    angles = np.where(flat[:, 1:] | flat[:, :-1], np.pi / 2, np.arccos(np.minimum(cosine, 1.0)))
    return _anywhere(t, angles, df), angles


def _anywhere(t: Array, angles: Array, df: int) -> Array:
    """Chance that the largest of the t statistics of a pair along its profile is at least t, shape
    of t: pairs x any.
    """
    here = 2 * special.stdtr(df, -t)
    crossed = (1 + t**2 / df) ** (-(df - 1) / 2) / np.pi
    more = np.minimum(angles[:, None] * crossed[..., None], here[..., None]).sum(axis=-1)
    return np.minimum(here + more, 1.0)


def critical(angles: Array, level: float, df: int) -> Array:
    """The statistic that each pair reaches anywhere along its profile with this chance, by
    bisection.
    """
    low, high = np.full((len(angles), 1), -7.0), np.full((len(angles), 1), 28.0)  # powers of e
    for _ in range(50):
        middle = (low + high) / 2
        above = _anywhere(np.exp(middle), angles, df) > level
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.exp(high[:, 0])


def stepped(values: Array, worst: Array, extra: int) -> Array:
    """Holm's step-down for claims at single parameters: closed testing of `worst`, the largest
    p-value of each pair.

    The p-value of a claim is the largest, over sets of pairs with its own, of the size of the set
    times the least of the claim's p-value and the largest ones of the others.
    """
    worst = np.sort(worst)
    ahead = np.searchsorted(worst, values, side="left")
    still = len(worst) - np.arange(len(worst)) + extra
    before = np.concatenate([[0.0], np.maximum.accumulate(worst * still)])
    found = np.maximum(values * (len(worst) - ahead + extra), before[ahead])
    return np.where(np.isnan(values), np.nan, np.minimum(found, 1.0))


def fieller(
    by_fold: Array, first: NDArray[np.int64], second: NDArray[np.int64], width: Array
) -> tuple[Array, Array]:
    """Fieller's interval of the ratio of the mean losses, second over first: it holds 1 where the t
    test does not reject.
    """
    mean = by_fold.mean(axis=1)
    left = by_fold - mean[:, None]
    df = by_fold.shape[1] - 1
    variance = (left**2).sum(axis=1) / df
    low, high = np.empty((2, len(first), mean.shape[1]))
    step = max(1, BLOCK // (by_fold.shape[1] * mean.shape[1]))
    for start in range(0, len(first), step):
        i, j, w = (
            first[start : start + step],
            second[start : start + step],
            width[start : start + step, None] ** 2,
        )
        covariance = np.einsum("irp,irp->ip", left[i], left[j]) / df
        c2, c1, c0 = (
            mean[i] ** 2 - w * variance[i],
            mean[i] * mean[j] - w * covariance,
            mean[j] ** 2 - w * variance[j],
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(np.maximum(c1**2 - c2 * c0, 0.0))
            ends = (c1 - root) / c2, (c1 + root) / c2
            bounded = c2 > 0  # else the first loss may be 0
            low[start : start + step] = np.where(bounded, ends[0], np.where(c0 > 0, ends[0], 0.0))
            high[start : start + step] = np.where(bounded, ends[1], np.inf)
    empty = (mean[first] <= NOISE) & (mean[second] <= NOISE)
    low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    low[empty] = high[empty] = np.nan
    return low, high
