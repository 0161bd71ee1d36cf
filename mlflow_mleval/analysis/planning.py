"""What it would take: equivalence of methods, the power of a test, and how many datasets, folds or
repeats tell two methods apart.

Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15, for two one-sided tests;
Cohen (1988), "Statistical power analysis for the behavioral sciences"; Nadeau & Bengio (2003),
"Inference for the generalization error", for folds that share training data.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds.covariance import checked_ratio, variance_factor
from mlflow_mleval.analysis.pairs import (
    CORRECTIONS,
    adjust,
    moments,
    named_pairs,
    pair_differences,
    taken_for_certain,
)
from mlflow_mleval.measures.registry import Direction
from mlflow_mleval.sentences import count
from mlflow_mleval.validation import AnyArray, Array, at_least_one, one_of, probability

#: More datasets or folds than this are as good as infinitely many.
MOST = 2**20


@dataclass(frozen=True)
class EquivalenceResult:
    """Two one-sided tests of every pair of methods.

    Attributes
    ----------
    table : One row a pair: method_a, method_b, n (datasets or folds), mean_difference (positive: a is better) with its interval
        low, high at 1 - 2 alpha, not corrected, p_above and p_below (that the difference is not
        above -rope, not below rope), pvalue (the larger), pvalue_corrected, equivalent.
    correction : "holm", "bonferroni" or "none".
    """  # noqa: E501

    table: pd.DataFrame
    rope: float = field(metadata={"key": "margin"})
    ratio: float | None
    correction: str
    alpha: float
    methods: list[Hashable]
    warnings: tuple[str, ...] = ()

    def verdict(self) -> str:
        """What the tests say, in a sentence."""
        shown = self.table["equivalent"]
        return (
            f"shown to be equivalent within {self.rope:g}: {int(shown.sum())} of "
            f"{count(len(shown), 'pair')}; a pair that is not shown equivalent need not differ: "
            "there may be too little data for either."
        )


def equivalence(
    table: ArrayLike | pd.DataFrame,
    rope: float,
    *,
    ratio: float | None = None,
    direction: Direction = "max",
    correction: str = "holm",
    alpha: float = 0.05,
) -> EquivalenceResult:
    r"""Whether the mean difference of each pair is shown to lie within the rope: two one-sided t
    tests (Schuirmann 1987).

    Parameters
    ----------
    table : array_like or pandas.DataFrame, shape (datasets or folds, methods)
        Values of one measure, larger is better. NaN where a method has none: a pair goes by the
        rows on which both have one.
    rope : float
        Largest mean difference that counts as none, in units of the measure; chosen before looking
        at the data.
    ratio : float, optional
        n_test / n_train of a fold, where rows are folds that share training data: the variance of
        the mean is then :math:`(1/R + ratio)\, s^2` (Nadeau & Bengio 2003).
    direction : {"max", "min"}
        "min": smaller is better instead.
    correction : {"holm", "bonferroni", "none"}
        For the number of pairs.
    alpha : float
        Family-wise level at which a pair that differs by the rope is called equivalent.

    Raises
    ------
    ValueError
        Fewer than two rows that both methods of a pair have, a rope that is not positive, an
        unknown correction.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [.80, .82, .79, .85, .81], "b": [.80, .81, .80, .85, .82]})
    >>> equivalence(table, rope=0.02, ratio=1 / 4).table["pvalue"].round(4).tolist()
    [0.0163]
    """
    one_of(correction, "correction", CORRECTIONS)
    probability(alpha, "alpha")
    ratio = checked_ratio(ratio)
    if not 0 < float(rope) < np.inf:
        raise ValueError(f"`rope` must be positive, in units of the measure, got {rope!r}.")
    frame, a, b, difference, noise = pair_differences(table, direction, gaps=True)
    n = (~np.isnan(difference)).sum(axis=1)
    if n.min() < 2:
        raise ValueError(
            "`table` must have two rows that both methods of a pair have. Leave out methods with "
            "hardly any result."
        )
    mean, deviation = moments(difference, noise)
    error = deviation * np.sqrt(variance_factor(n, ratio))

    def beyond(distance: Array) -> Array:
        certain = np.where(distance > 0, np.inf, -np.inf)
        return special.stdtr(n - 1, -np.divide(distance, error, out=certain, where=error > 0))

    above = beyond(mean + rope)
    below = beyond(rope - mean)
    pvalue = np.maximum(above, below)
    corrected = adjust(pvalue, correction)
    half = special.stdtrit(n - 1, 1 - alpha) * error
    rows = pd.DataFrame(
        {
            **named_pairs(frame.columns, a, b),
            "n": n,
            "mean_difference": mean,
            "low": mean - half,
            "high": mean + half,
            "p_above": above,
            "p_below": below,
            "pvalue": pvalue,
            "pvalue_corrected": corrected,
            "equivalent": corrected <= alpha,
        }
    )
    warnings = tuple(taken_for_certain(error, "row"))
    return EquivalenceResult(
        rows,
        float(rope),
        ratio,
        correction,
        alpha,
        frame.columns.tolist(),
        warnings,
    )


def paired_power(
    effect: ArrayLike,
    n: ArrayLike,
    *,
    ratio: float | None = None,
    alpha: float = 0.05,
) -> Array:
    r"""Power of the two-sided paired t test: how often it finds an effect that is there.

    The statistic is noncentral t with n - 1 degrees of freedom and noncentrality :math:`effect /
    \sqrt{1/n + ratio}`. `effect` is the mean difference in standard deviations of the differences,
    `n` the number of datasets or folds, at least 2; with a `ratio` power stays below 1 however many
    folds there are. `alpha` is the level after any correction.

    >>> paired_power(0.5, [10, 34]).round(3).tolist()
    [0.293, 0.808]
    """
    probability(alpha, "alpha")
    n = np.asarray(n, dtype=float)
    if (n < 2).any():
        raise ValueError(
            f"`n` must be at least 2, got {n.min():g}. One difference has no variation."
        )
    limit = special.stdtrit(n - 1, 1 - alpha / 2)
    shift = np.abs(np.asarray(effect, dtype=float)) / np.sqrt(
        variance_factor(n, checked_ratio(ratio))
    )
    certain = np.isinf(shift)
    shift = np.where(certain, 0.0, shift)
    # nctdtr has NaN for some chances that are too small for floats
    below, far = (np.nan_to_num(special.nctdtr(n - 1, shift, t)) for t in (limit, -limit))
    return np.where(certain, 1.0, np.clip(1 - below + far, 0, 1))


def required_size(
    effect: ArrayLike,
    *,
    power: float = 0.8,
    ratio: float | None = None,
    alpha: float = 0.05,
) -> Array:
    """The least number of datasets or folds with which the two-sided paired t test has the power;
    infinite where none has.
    """
    probability(power, "power")
    effect = np.atleast_1d(np.asarray(effect, dtype=float))
    low = np.full(effect.shape, 1)
    high = np.full(effect.shape, MOST)
    possible = paired_power(effect, high, ratio=ratio, alpha=alpha) >= power
    while (high - low > 1).any():
        middle = np.maximum((low + high) // 2, 2)
        enough = paired_power(effect, middle, ratio=ratio, alpha=alpha) >= power
        low = np.where(enough, low, middle)
        high = np.where(enough, middle, high)
    return np.where(possible, high, np.inf)


# --------------------------------------------------------------------------------------------------
# How many more datasets, folds or repeats until two methods are told apart: power curves with their
# uncertainty.

#: Points of a curve, and the datasets it goes to at most.
POINTS = 24
FARTHEST = 1000


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
        better = named(self.method_a)
        other = named(self.method_b)
        if np.isinf(self.needed):
            return (
                f"Were the difference the one observed, no number of datasets would tell {better} "
                f"from {other}{goal}."
            )
        drawn = f"these leave {_range(self.needed_low, self.needed_high)} open"
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
        """Whether more folds or repeats would do as well; empty where there are none, where no more
        is needed, or where no number of them would.
        """
        more = self.more
        if more is None or self.needed <= self.n or more.needed > FARTHEST:
            return ""
        what = (
            "repetitions of the cross-validation"
            if more.over == "folds"
            else "repeats with other seeds"
        )
        drawn = _range(more.needed_low, more.needed_high)
        return (
            f"More {what} would do as well: about {more.needed:,.0f} {more.over} of each of the "
            f"{self.n} datasets in place of {more.n:g} (these leave {drawn} open)."
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
    given: Any = differences
    rows = [np.asarray(row, dtype=float).ravel() for row in given]
    parts = [row for row in (row[~np.isnan(row)] for row in rows) if len(row)]
    if len(parts) < 2:
        raise ValueError(
            f"`differences` must hold at least two values, got {len(parts)}. One difference has "
            "no variation."
        )
    a, b = names
    d = np.array([part.mean() for part in parts])
    if d.mean() < 0:
        a, b, d = b, a, -d
    n = len(d)
    size = np.array([len(part) for part in parts])
    own = np.array([part.var(ddof=1) for part in parts]) if size.min() > 1 else None
    again = np.random.default_rng(seed).integers(0, n, (n_resamples, n))
    drawn = np.concatenate([np.arange(n)[None], again])  # as they are comes first
    mean, deviation = moments(d[drawn], 1e-12 * np.abs(d[drawn]).max(axis=1))
    mean[1:] = np.maximum(mean[1:], 0)
    effect = _effect(mean, deviation)

    def needed(of: AnyArray) -> AnyArray:
        return np.maximum(required_size(of, power=power, alpha=level), least)

    enough, low, high = _with_interval(needed(effect))
    finite = [x for x in (enough, high) if np.isfinite(x)]
    farthest = int(min(max([2 * n, 1.25 * max(finite, default=FARTHEST)]), FARTHEST))
    steps = np.unique(
        np.append(np.geomspace(max(least, 2), max(farthest, least + 2), POINTS).round(), n)
    ).astype(int)
    steps = steps[steps >= 2]

    def powers(of: AnyArray) -> AnyArray:
        return np.where(
            steps[:, None] >= least, paired_power(of[None], steps[:, None], alpha=level), 0.0
        )

    reached = powers(effect)
    ends = np.quantile(reached[:, 1:], [0.025, 0.975], axis=1)
    curve = pd.DataFrame({"n": steps, "power": reached[:, 0], "low": ends[0], "high": ends[1]})
    more = None
    if own is not None:
        taken = (own / size)[drawn].mean(axis=1)
        within = own[drawn].mean(axis=1)
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
        curve,
        a,
        b,
        n,
        float(effect[0]),
        enough,
        low,
        high,
        power,
        level,
        n_resamples,
        seed,
        more,
    )


def _with_interval(sizes: AnyArray) -> tuple[float, float, float]:
    """The first number, and the 95% interval of the others."""
    low, high = np.quantile(sizes[1:], [0.025, 0.975], method="inverted_cdf")
    return float(sizes[0]), float(low), float(high)


def _effect(mean: AnyArray, deviation: AnyArray) -> AnyArray:
    """Means in standard deviations, infinite where these are zero and the mean is not."""
    certain = np.where(mean == 0, 0.0, np.copysign(np.inf, mean))
    return np.divide(mean, deviation, out=certain, where=deviation > 0)


def _least_effect(n: int, power: float, level: float) -> float:
    """The smallest effect that n datasets show with this power."""
    low = 0.0
    high = 1.0
    while paired_power(high, n, alpha=level) < power:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if paired_power(middle, n, alpha=level) >= power else (middle, high)
        )
    return high
