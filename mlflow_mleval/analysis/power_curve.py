"""How many more datasets until two methods are told apart: power against the number of datasets, with its uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.paired import moments
from mlflow_mleval.analysis.planning import paired_power, required_size
from mlflow_mleval.naming import count
from mlflow_mleval.validation import at_least_one, probability

#: Points of a curve, and the datasets it goes to at most.
POINTS, FARTHEST = 24, 1000
#: Of more pairs than this the level of one is alpha over their number.
PAIRS = 2_000


@dataclass(frozen=True)
class PowerCurve:
    """Power against the number of datasets, were the effect the observed one, and what the datasets leave open.

    Attributes
    ----------
    curve : By number of datasets n: power, and low, high: its 95% interval when the datasets are drawn again.
    method_a, method_b : The better method, by the data or as given, and the other.
    n : Datasets there are.
    effect : Mean difference in standard deviations of the differences, positive for a.
    needed : Datasets for the wanted power; needed_low, needed_high: 95% interval when the datasets are drawn again. Infinite: no
        number is enough.
    target, level : Wanted power; level that the test of all pairs leaves for this one.
    n_resamples, seed : Of the bootstrap.
    """

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

    def sentence(self, goal: str = "", named: Callable[[Hashable], str] = str) -> str:
        """What it takes; `named` writes the names of methods, `goal` says when they count as told apart."""
        better, other = named(self.method_a), named(self.method_b)
        if np.isinf(self.needed):
            return f"With the difference observed, no number of datasets tells {better} from {other}{goal}."
        if self.needed > FARTHEST:
            return (
                f"With the difference observed, it takes more than {FARTHEST:,} datasets to tell {better} from {other}{goal} "
                f"with a chance of {self.target:.0%}; there are {self.n}. These, drawn again, allow for {self.needed_low:,.0f} "
                "or more."
            )
        far = f"{self.needed_high:,.0f}" if np.isfinite(self.needed_high) else "any number"
        more = max(int(self.needed) - self.n, 0)
        so = f"{count(more, 'dataset')} more than the {self.n} there are" if more else f"no more than the {self.n} there are"
        return (
            f"With the difference observed, it takes about {self.needed:,.0f} datasets to tell {better} from {other}{goal} with "
            f"a chance of {self.target:.0%}: {so}. These datasets, drawn again, allow for {self.needed_low:,.0f} to {far}."
        )


def power_curve(
    differences: ArrayLike, names: tuple[Hashable, Hashable] = ("a", "b"), *, level: float = 0.05, least: int = 2,
    power: float = 0.8, n_resamples: int = 400, seed: int = 0,
) -> PowerCurve:
    """The power to tell two methods apart by their mean difference, and the datasets that it takes.

    Parameters
    ----------
    differences : array_like, shape (datasets,)
        First method minus second, larger is better; NaN where one has none.
    names : pair of hashable
        Of the two methods.
    level : float
        Of the test of this pair: what a correction leaves of alpha; see `level_of_a_pair` for step-down max-T.
    least : int
        Fewer datasets can show nothing.
    power : float
        Wanted.
    n_resamples, seed : int
        Times that datasets are drawn again, with replacement, for the intervals.

    Raises
    ------
    ValueError
        Fewer than two differences, or a level or power outside (0, 1).

    Notes
    -----
    Power is that of the t test at this level (noncentral t); changes of sign come near it from some ten datasets on. A draw in
    which the second method is ahead never tells that the first is better.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = power_curve(rng.normal(0.02, 0.04, 15))
    >>> found.needed, found.needed_low, found.needed_high
    (99.0, 11.0, inf)
    """
    probability(level, "level")
    probability(power, "power")
    at_least_one(n_resamples, "n_resamples")
    d = np.asarray(differences, dtype=float).ravel()
    d = d[~np.isnan(d)]
    if len(d) < 2:
        raise ValueError(f"`differences` must hold at least two values, got {len(d)}. One difference has no variation.")
    a, b = names
    if d.mean() < 0:
        a, b, d = b, a, -d
    drawn = d[np.random.default_rng(seed).integers(0, len(d), (n_resamples, len(d)))]
    effect, effects = _effects(d[None])[0], np.maximum(_effects(drawn), 0)

    def needed(of: np.ndarray) -> np.ndarray:
        return np.maximum(required_size(of, power=power, alpha=level), least)

    sizes = needed(effects)
    low, high = (float(np.quantile(sizes, share, method="inverted_cdf")) for share in (0.025, 0.975))
    enough = float(needed(np.array([effect]))[0])
    ends = [x for x in (enough, high) if np.isfinite(x)]
    farthest = int(min(max([2 * len(d), 1.25 * max(ends, default=FARTHEST)]), FARTHEST))
    steps = np.unique(np.append(np.geomspace(max(least, 2), max(farthest, least + 2), POINTS).round(), len(d))).astype(int)
    steps = steps[steps >= 2]
    powers = np.where(steps[:, None] >= least, paired_power(np.append(effect, effects)[None], steps[:, None], alpha=level), 0.0)
    ends = np.quantile(powers[:, 1:], [0.025, 0.975], axis=1)
    curve = pd.DataFrame({"n": steps, "power": powers[:, 0], "low": ends[0], "high": ends[1]})
    return PowerCurve(curve, a, b, len(d), float(effect), enough, low, high, power, level, n_resamples, seed)


def _effects(differences: np.ndarray) -> np.ndarray:
    """By row: mean in standard deviations, infinite where all are the same and not zero."""
    mean, deviation = moments(differences, 1e-12 * np.abs(differences).max(axis=1))
    certain = np.where(mean == 0, 0.0, np.copysign(np.inf, mean))
    return np.divide(mean, deviation, out=certain, where=deviation > 0)


def level_of_a_pair(flows: pd.DataFrame, alpha: float = 0.05, control: Hashable | None = None, seed: int = 0) -> float:
    r"""The level that step-down max-T leaves for one pair while all others are still to be tested.

    It is that of the largest :math:`|\sum_i z_i d_i| / \sqrt{\sum_i d_i^2}` over all pairs, z standard normal and the same for
    all pairs: what changes of sign come to with many datasets. Correlated pairs leave more of alpha than their number says.

    >>> rng = np.random.default_rng(0)
    >>> level = level_of_a_pair(pd.DataFrame(rng.normal(size=(20, 5))))
    >>> 0.05 / 10 < level < 0.05
    True
    """
    values = flows.to_numpy()
    m = values.shape[1]
    a, b = np.triu_indices(m, 1)
    if control is not None:
        at = flows.columns.get_loc(control)
        kept = (a == at) | (b == at)
        a, b = a[kept], b[kept]
    if len(a) > PAIRS:
        return alpha / len(a)
    d = np.nan_to_num(values[:, a] - values[:, b])
    size = np.sqrt((d**2).sum(axis=0))
    d = d[:, size > 0] / size[size > 0]
    if not d.shape[1]:
        return alpha
    rng = np.random.default_rng(seed)
    largest = np.concatenate([np.abs(rng.standard_normal((500, len(d))) @ d).max(axis=1) for _ in range(20)])
    return float(2 * special.ndtr(-np.quantile(largest, 1 - alpha)))
