"""How many more datasets, folds or repeats until two methods are told apart: power curves with
their uncertainty.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mlflow_mleval.analysis.paired import moments
from mlflow_mleval.analysis.planning import paired_power, required_size
from mlflow_mleval.validation import at_least_one, one_of, probability

#: Points of a curve, and the datasets it goes to at most.
POINTS, FARTHEST = 24, 1000


@dataclass(frozen=True)
class MoreRuns:
    """Whether more folds or repeats of the datasets there are would do instead of more datasets.

    More of them take away what each dataset's difference varies by itself, not how datasets differ.

    Attributes
    ----------
    over : "folds" or "repeats".
    n : Of these per dataset: the median.
    share : Of the variance of the differences between datasets, what more of them would take away.
    needed : So many on each of the datasets there are for the wanted power; needed_low, needed_high: 95% interval when the
        datasets are drawn again. Infinite: no number is enough.
    datasets : Datasets that it takes with as many of them as one likes, with datasets_low, datasets_high.
    """  # noqa: E501

    over: str
    n: float
    share: float
    needed: float
    needed_low: float
    needed_high: float
    datasets: float
    datasets_low: float
    datasets_high: float


@dataclass(frozen=True)
class PowerCurve:
    """Power against the number of datasets, were the effect the observed one, and what the datasets
    leave open.

    Attributes
    ----------
    curve : By number of datasets n: power, and low, high: its 95% interval when the datasets are drawn again; with folds or
        repeats also limit: the power with as many of these as one likes.
    method_a, method_b : The better method, by the data or as given, and the other.
    n : Datasets there are.
    effect : Mean difference in standard deviations of the differences, positive for a.
    needed : Datasets for the wanted power; needed_low, needed_high: 95% interval when the datasets are drawn again. Infinite: no
        number is enough.
    target, level : Wanted power; level that the test of all pairs leaves for this one.
    n_resamples, seed : Of the bootstrap.
    more : What more folds or repeats would do; None where there are none on some dataset.
    """  # noqa: E501

    curve: pd.DataFrame
    method_a: Hashable
    method_b: Hashable
    n: int
    effect: float
    needed: float
    needed_low: float
    needed_high: float
    target: float
    level: float
    n_resamples: int
    seed: int
    more: MoreRuns | None = None

    def sentence(self, goal: str = "", named: Callable[[Hashable], str] = str) -> str:
        """What it takes; `named` writes the names of methods, `goal` says when they count as told
        apart.
        """
        better, other = named(self.method_a), named(self.method_b)
        if np.isinf(self.needed):
            return (
                f"Were the difference the one observed, no number of datasets would tell {better} "
                f"from {other}{goal}."
            )
        drawn = (
            f"drawing these {self.n} again allows for {_range(self.needed_low, self.needed_high)}"
        )
        told = f"to tell {better} from {other}{goal} with a chance of {self.target:.0%}"
        if self.needed > FARTHEST:
            return (
                f"Were the difference the one observed, it would take more than {FARTHEST:,} "
                f"datasets {told}; {drawn}."
            )
        more = int(self.needed) - self.n
        so = f"{more:,} more than there are" if more > 0 else "no more than there are"
        return (
            f"Were the difference the one observed, it would take about {self.needed:,.0f} "
            f"datasets {told}, {so}; {drawn}."
        )

    def sentence_on_more(self) -> str:
        """Whether more folds or repeats would do instead; empty where there are none, or where no
        more is needed.
        """
        found = self.more
        if found is None or self.needed <= self.n:
            return ""
        what = (
            "repetitions of the cross-validation"
            if found.over == "folds"
            else "repeats with other seeds"
        )
        if found.needed <= FARTHEST:
            drawn = _range(found.needed_low, found.needed_high)
            return (
                f"More {what} would do as well: about {found.needed:,.0f} {found.over} of each "
                f"of the {self.n} datasets in place of {found.n:g} (drawing the datasets again "
                f"allows for {drawn})."
            )
        drawn = _range(found.datasets_low, found.datasets_high)
        still = (
            f"it would still take about {found.datasets:,.0f} datasets (drawing them again "
            f"allows for {drawn})"
        )
        least = (
            f"it would take more than {FARTHEST:,} datasets" if found.datasets > FARTHEST else still
        )
        return (
            f"More {what} would not do instead: they take away at most {found.share:.0%} of the "
            f"variance between datasets, and with as many as one likes {least}."
        )


def _range(low: float, high: float) -> str:
    """The ends of an interval, which may be very large or infinite."""
    if np.isinf(low):
        return "no number"
    if low > FARTHEST:
        return f"more than {FARTHEST:,}"
    return f"{low:,.0f} or more" if high > FARTHEST else f"{low:,.0f} to {high:,.0f}"


def power_curve(
    differences: ArrayLike | Sequence[ArrayLike],
    names: tuple[Hashable, Hashable] = ("a", "b"),
    *,
    level: float = 0.05,
    least: int = 2,
    power: float = 0.8,
    over: str = "repeats",
    n_resamples: int = 400,
    seed: int = 0,
) -> PowerCurve:
    r"""The power to tell two methods apart by their mean difference, and the datasets, folds or
    repeats that it takes.

    Parameters
    ----------
    differences : array_like of shape (datasets,), or sequence of arrays
        First method minus second, larger is better; NaN where one has none. An array for each
        dataset: on its folds or repeats.
    names : pair of hashable
        Of the two methods.
    level : float
        Of the test of this pair: what a correction leaves of alpha; see `level_of_a_pair` for
        step-down max-T.
    least : int
        Fewer datasets can show nothing.
    power : float
        Wanted.
    over : {"repeats", "folds"}
        What the arrays hold.
    n_resamples, seed : int
        Times that datasets are drawn again, with replacement, for the intervals.

    Raises
    ------
    ValueError
        Fewer than two differences, a level or power outside (0, 1), or another `over`.

    Notes
    -----
    Power is that of the t test at this level (noncentral t); changes of sign come near it from some
    ten datasets on. A draw in which the second method is ahead never tells that the first is
    better.

    The variance of the differences of datasets that have R folds or repeats each is :math:`V =
    V_\infty + \overline{s^2}/R`, with :math:`s^2` their variance within a dataset. More of them can
    take away the second part only. (What folds share of their training data is in the first part:
    more folds of the same data do not take it away.)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = power_curve(rng.normal(0.02, 0.04, 15))
    >>> found.needed, found.needed_low, found.needed_high
    (99.0, 11.0, inf)
    >>> found = power_curve(rng.normal(rng.normal(0.02, 0.005, (8, 1)), 0.08, (8, 5)))
    >>> found.needed, found.more.needed, round(found.more.share, 2)
    (12.0, 11.0, 0.7)
    """
    probability(level, "level")
    probability(power, "power")
    one_of(over, "over", ("repeats", "folds"))
    at_least_one(n_resamples, "n_resamples")
    parts = [np.asarray(part, dtype=float).ravel() for part in differences]
    parts = [part for part in (part[~np.isnan(part)] for part in parts) if len(part)]
    if len(parts) < 2:
        raise ValueError(
            f"`differences` must hold at least two values, got {len(parts)}. One difference has "
            "no variation."
        )
    a, b = names
    d = np.array([part.mean() for part in parts])
    if d.mean() < 0:
        a, b, d = b, a, -d
    n, size = len(d), np.array([len(part) for part in parts])
    own = np.array([part.var(ddof=1) for part in parts]) if size.min() > 1 else None
    again = np.random.default_rng(seed).integers(0, n, (n_resamples, n))
    drawn = np.concatenate([np.arange(n)[None], again])  # as they are comes first
    mean, deviation = moments(d[drawn], 1e-12 * np.abs(d[drawn]).max(axis=1))
    mean[1:] = np.maximum(mean[1:], 0)
    effect = _effect(mean, deviation)

    def needed(of: np.ndarray) -> np.ndarray:
        return np.maximum(required_size(of, power=power, alpha=level), least)

    enough, low, high = _with_interval(needed(effect))
    ends = [x for x in (enough, high) if np.isfinite(x)]
    farthest = int(min(max([2 * n, 1.25 * max(ends, default=FARTHEST)]), FARTHEST))
    steps = np.unique(
        np.append(np.geomspace(max(least, 2), max(farthest, least + 2), POINTS).round(), n)
    ).astype(int)
    steps = steps[steps >= 2]

    def powers(of: np.ndarray) -> np.ndarray:
        return np.where(
            steps[:, None] >= least, paired_power(of[None], steps[:, None], alpha=level), 0.0
        )

    found = powers(effect)
    ends = np.quantile(found[:, 1:], [0.025, 0.975], axis=1)
    curve, more = (
        pd.DataFrame({"n": steps, "power": found[:, 0], "low": ends[0], "high": ends[1]}),
        None,
    )
    if own is not None:
        taken, within = (own / size)[drawn].mean(axis=1), own[drawn].mean(axis=1)
        rest = np.maximum(deviation**2 - taken, 0.0)
        limit = _effect(mean, np.sqrt(rest))
        curve["limit"] = powers(limit[:1])[:, 0]
        wanted = _least_effect(n, power, level) if n >= least else np.inf
        room = (mean / wanted) ** 2 - rest  # of the variance, what their number may leave
        with np.errstate(divide="ignore", invalid="ignore"):
            runs = np.where(room > 0, np.maximum(np.ceil(within / room), 2), np.inf)
        share = float(min(taken[0] / deviation[0] ** 2, 1.0)) if deviation[0] else 0.0
        more = MoreRuns(
            over,
            float(np.median(size)),
            share,
            *_with_interval(runs),
            *_with_interval(needed(limit)),
        )
    return PowerCurve(
        curve, a, b, n, float(effect[0]), enough, low, high, power, level, n_resamples, seed, more
    )


def _with_interval(sizes: np.ndarray) -> tuple[float, float, float]:
    """The first number, and the 95% interval of the others."""
    low, high = np.quantile(sizes[1:], [0.025, 0.975], method="inverted_cdf")
    return float(sizes[0]), float(low), float(high)


def _effect(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Means in standard deviations, infinite where these are zero and the mean is not."""
    certain = np.where(mean == 0, 0.0, np.copysign(np.inf, mean))
    return np.divide(mean, deviation, out=certain, where=deviation > 0)


def _least_effect(n: int, power: float, level: float) -> float:
    """The smallest effect that n datasets show with this power."""
    low, high = 0.0, 1.0
    while paired_power(high, n, alpha=level) < power:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if paired_power(middle, n, alpha=level) >= power else (middle, high)
        )
    return high
