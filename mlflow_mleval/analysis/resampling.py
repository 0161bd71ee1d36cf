r"""Sign changes: the one kernel of tests of paired differences, of their correction and limits.

Where two methods do not differ, either sign of their difference on a unit (a dataset, fold, repeat,
instance or answer, or a cluster of them) is as likely as the other. So the statistic

.. math:: t = \sum_i d_i \Big/ \sqrt{\sum_i d_i^2}

is compared with what it is under other signs, the same for all hypotheses, so that their
correlation is kept. Pitman (1937); Westfall & Young (1993) and Romano & Wolf (2005) for the largest
statistic of several, step by step.

Rules that hold wherever signs change: all changes are made where those that keep the first sign are
no more than the random ones would be, else random ones and the one that changes nothing; statistics
that agree to rounding are equal (`EQUAL`); one seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf, isnan, log2
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.measures.inputs import slices
from mlflow_mleval.validation import AnyArray, Array, Bools, Places, at_least_one

#: Random sign changes where there are more than so many: beyond 14 units, for opposite ones give
#: the same size.
RESAMPLES = 9_999
#: Statistics this close, relative to their size, are equal: rounding of double and single
#: precision; and sums so small beside their terms are zero.
EQUAL = {np.float64: 1e-10, np.float32: 1e-5}
#: Units whose signs are drawn at a time.
UNITS = 1024
#: Rows of units that are alike are counted where there are so many times more rows.
ALIKE = 16
#: Hypotheses and sign changes in a block: 2 MB of statistics, which stay in a processor's cache.
ROWS = 256
CHANGES = 2048
#: Changes whose signs become numbers at a time: more do not stay in the cache.
TILE = 128


@dataclass(frozen=True)
class Signs:
    """Changes of the signs of n units (or clusters): all of them, or random ones where these are
    fewer. One-sided tests also change all signs at once."""

    n: int
    n_resamples: int = RESAMPLES
    seed: int = 0
    one_sided: bool = False

    @property
    def exact(self) -> bool:
        """Whether all changes are made."""
        return self.n - 1 <= log2(at_least_one(self.n_resamples, "n_resamples"))

    @property
    def changes(self) -> int:
        """How many are made, the one that changes nothing among them, as the first."""
        if not self.exact:
            return self.n_resamples + 1
        return 2 ** (self.n - (not self.one_sided))

    def matrix(self, number: Any = np.float64) -> AnyArray:
        """All signs at once, units x changes."""
        kept = np.concatenate([part for _, part in self._kept()], axis=1)
        return np.ascontiguousarray((kept * 2 - 1).T, dtype=number)

    def sums(self, columns: ArrayLike) -> Array:
        """Sums of columns (units x columns) by change, changes x columns, in bounded memory."""
        values = np.asarray(columns, dtype=float)
        if self.n > UNITS:
            alike = pd.DataFrame(values).value_counts(sort=False)
            if len(alike) * ALIKE <= self.n:
                # Of rows that are alike only the number matters that keeps its sign.
                rows, times = np.array(alike.index.to_list()), alike.to_numpy()
                rng = np.random.default_rng(self.seed)
                kept = rng.binomial(times, 0.5, (self.changes, len(times)))
                kept[0] = times
                return np.asarray((2.0 * kept - times) @ rows)
        positive = np.zeros((self.changes, values.shape[1]))
        for units, part in self._kept():
            for start in range(0, self.changes, TILE):
                at = slice(start, start + TILE)
                positive[at] += part[at].astype(float) @ values[units]
        return 2 * positive - values.sum(axis=0)

    def _kept(self) -> Iterator[tuple[slice, AnyArray]]:
        """Which signs are kept (1) and which change (0), changes x some of the units."""
        if self.exact:
            changed = np.arange(self.changes)[:, None] >> np.arange(self.n)[::-1] & 1
            yield slice(None), 1 - changed
            return
        rng = np.random.default_rng(self.seed)
        for start in range(0, self.n, UNITS):
            part = rng.integers(0, 2, (self.changes, min(UNITS, self.n - start)), dtype=np.int8)
            part[0] = 1
            yield slice(start, start + UNITS), part


@dataclass(frozen=True)
class SignTests:
    """What sign changes say of hypotheses, one value each: Σd, √Σd², the size of their ratio, its
    p-value by itself and step-down over all; and by change the largest statistic."""

    total: Array
    size: Array
    statistic: Array
    pvalue: Array
    corrected: Array
    largest: AnyArray
    changes: int
    exact: bool


def sign_tests(rows: Any, *, n_resamples: int = RESAMPLES, seed: int = 0) -> SignTests:
    """Test that mean differences are zero (hypotheses x units, an array or what makes rows of one;
    NaN does not count) by common changes of sign, step-down: units must be jointly symmetric."""
    n_rows, n = rows.shape
    signs = Signs(n, n_resamples, seed)
    many = n > UNITS
    number = np.float64 if signs.exact or many else np.float32
    total, size = np.empty((2, n_rows))

    def scaled(at: Places | slice) -> AnyArray:
        return np.nan_to_num(rows[at]) / np.where(size[at] > 0, size[at], 1.0)[:, None]

    for at in slices(n_rows, ROWS):
        part = np.nan_to_num(rows[at])
        total[at] = part.sum(axis=1)
        size[at] = np.sqrt(np.einsum("ij,ij->i", part, part))
    statistic = np.abs(total) / np.where(size > 0, size, 1.0)
    if many:
        units = np.concatenate([scaled(at) for at in slices(n_rows, ROWS)])
        drawn = by_columns(np.abs(signs.sums(units.T)))
    else:
        matrix = signs.matrix(number)

        def drawn(at: Places, part: slice) -> AnyArray:
            found = scaled(at).astype(number) @ matrix[:, part]
            return np.abs(found, out=found)

    counts = step_down(statistic, drawn, signs.changes, number)
    own, joint = counts.own / signs.changes, counts.joint / signs.changes
    return SignTests(total, size, statistic, own, joint, counts.largest, signs.changes, signs.exact)


class Counts(NamedTuple):
    """Of sign changes that reach the statistic of each hypothesis, by itself and step-down by the
    largest; and by change the largest statistic of all."""

    own: AnyArray
    joint: AnyArray
    largest: AnyArray


def step_down(
    statistic: Array,
    drawn: Callable[[Places, slice], AnyArray],
    changes: int,
    number: Any = np.float64,
) -> Counts:
    """Count the changes under which statistics, and the largest of them, reach those of the data;
    `drawn` gives statistics of some hypotheses under a slice of the changes. Memory is bounded."""
    own, joint = np.zeros((2, len(statistic)), dtype=np.int32)
    largest = np.full(changes, -np.inf, dtype=number)
    # from the smallest to the largest, a running maximum per change makes the successive maxima
    rising = np.argsort(statistic, kind="stable")
    for block in slices(len(statistic), ROWS):
        at = rising[block]
        limit = reached(statistic[at], number)[:, None]
        for start in range(0, changes, CHANGES):
            part = slice(start, start + CHANGES)
            found = drawn(at, part)
            own[at] += (found >= limit).sum(axis=1, dtype=np.int32)
            before = largest[part]
            for row in found:  # the ufunc's own accumulate is ten times slower along this axis
                before = np.maximum(row, before, out=row)
            largest[part] = before
            joint[at] += (found >= limit).sum(axis=1, dtype=np.int32)
    joint[rising] = np.maximum.accumulate(joint[rising][::-1])[::-1]
    return Counts(own, joint, largest)


def by_columns(drawn: Array) -> Callable[[Places, slice], AnyArray]:
    """What `step_down` takes, of statistics changes x hypotheses."""
    return lambda at, part: drawn[part][:, at].T


def normal_step_down(
    own: Array, statistic: Array, drawn: Callable[[Places, slice], AnyArray], n: int
) -> tuple[Array, Array]:
    """P-values corrected step-down by n draws of normal values, of tests whose own p-values stand
    at these places of the normal distribution; and by draw the largest value."""
    found = step_down(np.minimum(statistic, 40.0), drawn, n)
    return np.maximum((found.joint + 1) / (n + 1), own), np.asarray(found.largest, float)


def reached(statistic: ArrayLike, number: Any = np.float64) -> AnyArray:
    """What another statistic must be at least to be as large: less than this one by rounding."""
    t = np.asarray(statistic, dtype=float)
    t = np.where(np.abs(t) < EQUAL[np.float64], 0.0, t)
    return np.asarray(t - EQUAL[number] * np.abs(t)).astype(number)


def share(drawn: Array, statistic: ArrayLike) -> Array:
    """P-values: of each column of `drawn` (changes x hypotheses) the share that reaches it."""
    return np.asarray((drawn >= reached(statistic)).mean(axis=0))


def critical(drawn: AnyArray, alpha: float) -> float:
    """The value above which a statistic, and no other, is reached by at most a share alpha of the
    changes; infinite where these are too few. Of the largest of several it bounds them together."""
    allowed = int(alpha * len(drawn) * (1 + 1e-12))
    if allowed == 0:
        return np.inf
    place = max(len(drawn) - 1 - allowed, 0)
    value = float(np.partition(drawn, place)[place])
    return value + EQUAL[drawn.dtype.type] * abs(value)  # what equals it is not above it


class Moments(NamedTuple):
    """Of hypotheses, one value each: Σ S_k, Σ S_k², Σ n_k, Σ S_k n_k and Σ n_k² over units or
    clusters k, with sums S_k of n_k differences; limits follow from them."""

    total: Array
    squares: Array
    n: Array
    products: Array
    squared_sizes: Array

    @classmethod
    def of(cls, sums: ArrayLike, sizes: ArrayLike) -> Moments:
        """Of sums and sizes, hypotheses x units or clusters; see `cluster_sums`."""
        s, n = np.asarray(sums, float), np.asarray(sizes, float)
        return cls(*(term.sum(axis=-1) for term in (s, s**2, n, s * n, n**2)))

    def limits(self, critical: ArrayLike) -> tuple[Array, Array]:
        """The mean differences δ with |Σ(S_k - δ n_k)| ≤ c √Σ(S_k - δ n_k)², roots of a quadratic,
        which sign changes do not reject: endless where units are too few to reject any."""
        with np.errstate(invalid="ignore", divide="ignore"):
            c2 = np.square(critical)
            leading = self.n**2 - c2 * self.squared_sizes
            middle = self.total * self.n - c2 * self.products
            last = self.total**2 - c2 * self.squares
            root = np.sqrt(np.maximum(middle**2 - leading * last, 0.0))
            low, high = (middle - root) / leading, (middle + root) / leading
        bounded = leading > EQUAL[np.float64] * self.n**2
        return np.where(bounded, low, -np.inf), np.where(bounded, high, np.inf)


def up_to_zero(low: Array, high: Array, difference: Array, apart: Bools) -> tuple[Array, Array]:
    """Limits that exclude 0 where, and only where, a hypothesis is set apart; they end there where
    only a later step than theirs does it."""
    above, below = apart & (difference > 0), apart & (difference < 0)
    low = np.where(above, np.maximum(low, 0.0), np.minimum(low, 0.0))
    return low, np.where(below, np.minimum(high, 0.0), np.maximum(high, 0.0))


def normal_draws(covariance: Array, n: int, seed: int) -> Array:
    """Draws x columns: normal values around zero with this covariance."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(np.random.default_rng(seed).standard_normal((n, len(root))) @ root.T)


def cluster_sums(values: ArrayLike, clusters: Places | None = None) -> tuple[Array, Array]:
    """Sums and numbers of values (not NaN) of each column over clusters, or of each unit."""
    x = np.asarray(values, dtype=float)
    there = ~np.isnan(x)
    x, counts = np.where(there, x, 0.0), there.astype(float)
    if clusters is None:
        return x, counts
    of = [np.bincount(clusters, column) for table in (x, counts) for column in table.T]
    sums, sizes = np.array(of).reshape(2, x.shape[1], -1).swapaxes(1, 2)
    return sums, sizes


# --------------------------------------------------------------------------------------------------
# A mean of differences by independent unit against Student's t: of means of many answers their t
# statistic, of single answers, which have a bound, the score test, in which the worst unit may not
# have been seen: sign changes take differences to be symmetric, and few of them seldom look skewed.
#
# Tango (1998) for differences of -1, 0 and 1; Owen (2001), "Empirical likelihood".

#: Units that differ are put together into cells where there are more than so many kinds.
_KINDS, _CELLS, _SIZES = 1024, 512, 16
#: Fewer means of many answers than this (datasets, folds, repeats) decide nothing.
LEAST_MEANS = 5


@dataclass(frozen=True)
class Sample:
    """Sums of differences by independent unit (an answer or a cluster), and of how many: each kind
    once, and how often. Means of many answers need no bound, for they have a standard error."""

    sums: Array
    sizes: Array
    times: Array
    bound: float
    error: float | None = None
    rounded: bool = False

    @classmethod
    def of(cls, sums: Array, sizes: Array, bound: float, rounded: bool = False) -> Sample:
        """Of units with a value; `rounded` puts those together that hardly differ (by 1/512 of
        their range), which leaves some thousand kinds and totals as they are."""
        there = sizes > 0
        sums, sizes = sums[there], sizes[there]
        pairs, place, times = np.unique(sums + 1j * sizes, return_inverse=True, return_counts=True)
        if rounded and len(pairs) > _KINDS:
            cells = np.zeros(len(sums), dtype=int)
            for values, parts in ((sums, _CELLS), (sizes, _SIZES)):
                low, width = values.min(), np.ptp(values)
                place = (values - low) * ((parts - 1) / width if width else 0.0)
                cells = cells * parts + place.astype(int)
            _, place, times = np.unique(cells, return_inverse=True, return_counts=True)
            pairs = np.bincount(place, sums) / times + 1j * np.bincount(place, sizes) / times
        return cls(pairs.real, pairs.imag, times.astype(float), bound, rounded=rounded)

    @cached_property
    def units(self) -> int:
        return int(self.times.sum())

    @cached_property
    def mean(self) -> float:
        return float(self.times @ self.sums / (self.times @ self.sizes))

    @property
    def few(self) -> bool:
        """Whether so few units show nothing."""
        return self.units < (2 if self.error is None else LEAST_MEANS)

    def statistic(self, centre: float, sign: int = 1) -> float:
        """How far the mean is above (sign -1: below) this, as Student's t of units - 1 degrees."""
        if self.error is not None:
            gain = sign * (self.mean - centre)
            return gain / self.error if self.error else float(np.sign(gain) * 1e300)
        size = float(self.times @ self.sizes) / self.units
        worst = -(self.bound + sign * centre) * size
        x = sign * (self.sums - centre * self.sizes)
        return float(min(score(x, worst, self.times[None])[0], 1e300))

    def pvalue(self, centre: float, sign: int) -> float:
        """Of the hypothesis that the mean is no larger than this; if the sign is -1, no smaller."""
        if self.few:
            return 1.0
        return float(special.stdtr(self.units - 1, -self.statistic(centre, sign)))

    def limit(self, level: float, sign: int, start: float) -> float:
        """The mean beyond which, downwards or, if the sign is -1, upwards, the p-value is smaller
        than the level; no nearer than the start."""
        end = sign * (-inf if isnan(self.bound) else -self.bound)
        if not np.isfinite(start) or sign * start <= sign * end:
            return start
        if self.few:
            return end
        t = -special.stdtrit(self.units - 1, level)
        if self.error is not None:
            return sign * max(sign * end, min(sign * start, sign * self.mean - t * self.error))
        height = cache(lambda centre: t - self.statistic(centre, sign))
        if height(start) <= 0:
            return start
        for step in () if self.rounded else (0.05, 0.3):  # the one limit is near the other
            further = start + step * (start - self.mean)
            if sign * further > sign * end and height(further) <= 0:
                end = further
                break
        return crossing(height, end, start, 1e-6 * self.bound if self.rounded else 1e-9)


def crossing(
    height: Callable[[float], float], below: float, above: float, tolerance: float = 1e-9
) -> float:
    """Where a function that rises between the ends is zero; the nearer end where it is not."""
    from scipy import optimize  # slow to load, and a ranking does without it

    if height(below) >= 0:
        return below
    if height(above) <= 0:
        return above
    found = optimize.brentq(lambda x: np.clip(height(x), -50, 50), below, above, xtol=tolerance)
    step = tolerance * np.sign(below - above)
    return found if height(found) >= 0 else found - step


def score(x: Array, worst: float, times: Array) -> Array:
    """By sample (a row of `times` says how often each x is in it) the statistic of a mean above
    zero (else 0), by the likeliest variance if it were zero and the `worst` unit may be unseen."""
    n, total = times.sum(axis=1), times @ x
    if worst >= 0:
        return np.where(total > 0, inf, 0.0)  # no unit can be as bad as that
    up = total > 0
    statistic, times, n = np.zeros(len(n)), times[up], n[up]
    # By sample the λ at which Σ x / (1 + λx), which falls from above zero, is zero; the steepest if
    # it lies beyond. By Newton's method, within brackets.
    steepest = (1 - 1e-12) / max(-worst, -x.min())
    low, high = np.zeros(len(times)), np.full(len(times), steepest)
    tilt = np.where(times @ (x / (1 + steepest * x)) >= 0, steepest, 0.0)
    left = np.flatnonzero(tilt == 0)
    for _ in range(60):
        if not len(left):
            break
        now = tilt[left]
        shrunk = x / (1 + now[:, None] * x)
        weighed = times[left] * shrunk
        excess, slope = weighed.sum(axis=1), (weighed * shrunk).sum(axis=1)
        rises = excess > 0
        low[left[rises]], high[left[~rises]] = now[rises], now[~rises]
        following = now + excess / slope
        outside = (following <= low[left]) | (following >= high[left])
        following[outside] = (low[left] + high[left])[outside] / 2
        tilt[left] = following
        left = left[np.abs(following - now) >= 1e-9 * steepest]
    weights = times / (n[:, None] * (1 + tilt[:, None] * x))
    unseen = np.maximum(0.0, tilt * (weights @ x))  # one minus their sum, without its rounding
    statistic[up] = total[up] / np.sqrt(n * (weights @ x**2 + unseen * worst**2))
    return statistic
