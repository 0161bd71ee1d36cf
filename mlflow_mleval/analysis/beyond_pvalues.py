"""What a referee asks beyond p-values: how probable differences that matter are, whether methods
are equivalent, and what it would take to know.

Corani & Benavoli (2015) for the posterior; Benavoli, Corani, Demšar & Zaffalon (2017) for the rope;
Schuirmann (1987) for two one-sided tests; Cohen (1988) for power; Nadeau & Bengio (2003) for folds
that share training data.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.pairs import (
    PairDifferences,
    behind,
    better_first,
    checked_ratio,
    holm,
    moments,
    taken_for_certain,
    variance_factor,
)
from mlflow_mleval.analysis.posthoc.max_t import Tested, datasets_needed, level_of_a_pair
from mlflow_mleval.analysis.resampling import Signs
from mlflow_mleval.measures.registry import ratio as quotient
from mlflow_mleval.sentences import count
from mlflow_mleval.validation import Array, at_least_one, probability

#: More datasets or folds than this are as good as infinitely many.
UNBOUNDED = 2**20


@dataclass(frozen=True)
class EquivalenceResult:
    """Two one-sided tests of every pair of methods."""

    table: pd.DataFrame
    rope: float = field(metadata={"key": "margin"})
    ratio: float | None
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
    table: ArrayLike | pd.DataFrame, rope: float, *, ratio: float | None = None, alpha: float = 0.05
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
    alpha : float
        Family-wise level, by Holm over the pairs, at which a pair that differs by the rope is
        called equivalent.

    Raises
    ------
    ValueError
        Fewer than two rows that both methods of a pair have, a rope that is not positive.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [.80, .82, .79, .85, .81], "b": [.80, .81, .80, .85, .82]})
    >>> equivalence(table, rope=0.02, ratio=1 / 4).table["pvalue"].round(4).tolist()
    [0.0163]
    """
    probability(alpha, "alpha")
    if not 0 < float(rope) < np.inf:
        raise ValueError(f"`rope` must be positive, in units of the measure, got {rope!r}.")
    ratio = checked_ratio(ratio)
    pairs, _, n, mean, error = _means(table, ratio)
    above, below = (special.stdtr(n - 1, -_t(x, error)) for x in (mean + rope, rope - mean))
    pvalue = np.maximum(above, below)
    corrected = holm(pvalue)
    half = special.stdtrit(n - 1, 1 - alpha) * error
    columns = {
        **pairs.named(),
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
    methods, warnings = pairs.frame.columns.tolist(), tuple(taken_for_certain(error))
    return EquivalenceResult(pd.DataFrame(columns), float(rope), ratio, alpha, methods, warnings)


def _means(
    table: ArrayLike | pd.DataFrame, ratio: float | None
) -> tuple[PairDifferences, Array, Array, Array, Array]:
    """The pairs of methods and their differences; by pair the rows that both have, the mean
    difference and its error."""
    pairs = PairDifferences(table)
    difference = pairs[:]
    n = (~np.isnan(difference)).sum(axis=1)
    if n.min() < 2:
        raise ValueError(
            "`table` must have two rows that both methods of a pair have. Leave out methods with "
            "hardly any result."
        )
    mean, deviation = moments(difference, pairs.noise)
    return pairs, difference, n, mean, deviation * np.sqrt(variance_factor(n, ratio))


def _t(distance: Array, error: Array) -> Array:
    """The distances in their errors; endless where there is none."""
    return quotient(distance, error, np.where(distance > 0, np.inf, -np.inf))


def paired_power(effect: ArrayLike, n: ArrayLike, *, alpha: float = 0.05) -> Array:
    """Power of the two-sided paired t test: noncentral t with noncentrality effect · √n."""
    probability(alpha, "alpha")
    n = np.asarray(n, dtype=float)
    if (n < 2).any():
        raise ValueError(
            f"`n` must be at least 2, got {n.min():g}. One difference has no variation."
        )
    limit = special.stdtrit(n - 1, 1 - alpha / 2)
    shift = np.abs(np.asarray(effect, dtype=float)) / np.sqrt(1 / n)
    certain = np.isinf(shift)
    shift = np.where(certain, 0.0, shift)
    # nctdtr has NaN for some chances that are too small for floats
    below, far = (np.nan_to_num(special.nctdtr(n - 1, shift, t)) for t in (limit, -limit))
    return np.where(certain, 1.0, np.clip(1 - below + far, 0, 1))


def required_size(effect: ArrayLike, *, power: float = 0.8, alpha: float = 0.05) -> Array:
    """The least n with which the two-sided paired t test has the power; infinite where none has."""
    probability(power, "power")
    effect = np.atleast_1d(np.asarray(effect, dtype=float))
    low, high = np.full(effect.shape, 1), np.full(effect.shape, UNBOUNDED)
    possible = paired_power(effect, high, alpha=alpha) >= power
    while (high - low > 1).any():
        middle = np.maximum((low + high) // 2, 2)
        enough = paired_power(effect, middle, alpha=alpha) >= power
        low = np.where(enough, low, middle)
        high = np.where(enough, middle, high)
    return np.where(possible, high, np.inf)


# --------------------------------------------------------------------------------------------------
# How many more datasets until two methods are told apart.

#: Points of a curve, and the datasets it goes to at most.
POINTS = 24
FARTHEST = 1000


@dataclass(frozen=True)
class PowerCurve:
    """Power against the number of datasets, were the effect the observed one, with 95% intervals
    when the datasets are drawn again; `needed` is infinite where no number is enough."""

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
        """What it takes; `goal` says when the two count as told apart."""
        told = f"to tell {named(self.method_a)} from {named(self.method_b)}{goal}"
        number, low, high = (
            f"{n:,.0f}" if n <= FARTHEST else f"more than {FARTHEST:,}"
            for n in (self.needed, self.needed_low, self.needed_high)
        )
        about = "about " if self.needed <= FARTHEST else ""
        ends = low if low == high else f"{low} to {high}"
        return (
            f"Were the difference the one observed, it would take {about}{number} datasets {told} "
            f"with a chance of {self.target:.0%}, and there are {self.n:,}; these leave {ends} "
            "open."
        )


def power_curve(
    differences: ArrayLike,
    names: tuple[Hashable, Hashable] = ("a", "b"),
    *,
    level: float = 0.05,
    least: int = 2,
    power: float = 0.8,
    n_resamples: int = 400,
    seed: int = 0,
) -> PowerCurve:
    """The power to tell two methods apart by their mean difference, and the datasets that it takes.

    Parameters
    ----------
    differences : array_like of shape (datasets,)
        First method minus second, larger is better; NaN where one has none.
    names : pair of hashable
        Of the two methods.
    level : float
        Of the test of this pair: what a correction leaves of alpha; see `level_of_a_pair` for
        step-down max-T.
    least : int
        Fewer datasets can show nothing.
    power : float
        Wanted.
    n_resamples, seed : int
        Times that datasets are drawn again, with replacement, for the intervals.

    Raises
    ------
    ValueError
        Fewer than two differences, a level or power outside (0, 1).

    Notes
    -----
    Power is that of the t test at this level (noncentral t); changes of sign come near it from some
    ten datasets on. A draw in which the second method is ahead never tells that the first is
    better.

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
        raise ValueError(
            f"`differences` must hold at least two values, got {len(d)}. One difference has no "
            "variation."
        )
    a, b = names
    if d.mean() < 0:
        a, b, d = b, a, -d
    n = len(d)
    again = np.random.default_rng(seed).integers(0, n, (n_resamples, n))
    drawn = np.concatenate([np.arange(n)[None], again])  # as they are comes first
    mean, deviation = moments(d[drawn], 1e-12 * np.abs(d[drawn]).max(axis=1))
    mean[1:] = np.maximum(mean[1:], 0)
    effect = quotient(mean, deviation, np.where(mean == 0, 0.0, np.copysign(np.inf, mean)))

    sizes = np.maximum(required_size(effect, power=power, alpha=level), least)
    enough = float(sizes[0])
    low, high = map(float, np.quantile(sizes[1:], [0.025, 0.975], method="inverted_cdf"))
    finite = [x for x in (enough, high) if np.isfinite(x)]
    farthest = int(min(max([2 * n, 1.25 * max(finite, default=FARTHEST)]), FARTHEST))
    steps = np.geomspace(max(least, 2), max(farthest, least + 2), POINTS).round()
    steps = np.unique(np.append(steps, n)).astype(int)
    reached = paired_power(effect[None], steps[:, None], alpha=level)
    reached[steps < least] = 0.0
    ends = np.quantile(reached[:, 1:], [0.025, 0.975], axis=1)
    curve = pd.DataFrame({"n": steps, "power": reached[:, 0], "low": ends[0], "high": ends[1]})
    needed = enough, low, high
    return PowerCurve(curve, a, b, n, float(effect[0]), *needed, power, level, n_resamples, seed)


# --------------------------------------------------------------------------------------------------
# All of it for a comparison over datasets.

#: Fewer datasets than this tell no probabilities of pairs.
FEW = 10
#: Random changes of sign that say how many pairs chance would call different.
CHANGES = 20
#: Of more methods than this only the best so many are compared pair by pair.
MOST = 20


@dataclass(frozen=True)
class BayesResult:
    """Posterior probabilities of every pair; `by_chance` is how many chance calls different."""

    table: pd.DataFrame
    rope: float
    credible_level: float = field(metadata={"key": "threshold"})
    methods: list[Hashable]
    ratio: float | None
    by_chance: float
    seed: int
    warnings: tuple[str, ...] = ()

    def verdict(self) -> str:
        """What the probabilities say, in a sentence, and what they rest on."""
        n = self.table["decision"].value_counts().to_dict()
        return (
            f"of {count(len(self.table), 'pair')}, with probability {self.credible_level:g}: "
            f"{n.get('a', 0) + n.get('b', 0)} different by more than {self.rope:g} "
            f"({self.by_chance:.1f} expected by chance), {n.get('equivalent', 0)} practically "
            f"equivalent, {n.get('undecided', 0)} undecided; this rests on normal differences and "
            "is not corrected for the number of pairs."
        )


def bayesian_t(
    table: ArrayLike | pd.DataFrame,
    rope: float,
    *,
    ratio: float | None = None,
    credible_level: float = 0.95,
    seed: int = 0,
) -> BayesResult:
    r"""How probable it is that methods differ by more than a rope, pair by pair: the correlated t
    test of Corani & Benavoli (2015).

    The posterior of the mean difference is Student's t with R - 1 degrees of freedom, location
    :math:`\bar d` and squared scale :math:`(1/R + n_{test}/n_{train})\, s_d^2`, the variance of
    Nadeau & Bengio (2003).

    Parameters
    ----------
    table : array_like or pandas.DataFrame, shape (folds or datasets, methods)
        Values of one measure, larger is better. NaN where a method has none: a pair goes by the
        rows on which both have one.
    rope : float
        Largest difference that does not matter, in units of the measure.
    ratio : float, optional
        n_test / n_train of a fold: 1/9 in 10-fold cross-validation, also when repeated. None: the
        rows are independent, as datasets are.
    credible_level : float
        Probability at which a pair is decided.
    seed : int
        Of the signs by which `BayesResult.by_chance` is found.

    Raises
    ------
    ValueError
        Fewer than two methods, or rows that both of a pair have; a negative rope or ratio.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [.80, .82, .79, .85, .81], "b": [.78, .79, .78, .81, .80]})
    >>> bayesian_t(table, rope=0.01, ratio=1 / 4).table.loc[0, ["p_a", "p_equivalent", "p_b"]].astype(float).round(3).tolist()
    [0.879, 0.11, 0.011]
    """  # noqa: E501
    rope = checked_rope(rope, "the measure")
    if probability(credible_level, "credible_level") < 0.5:
        raise ValueError(
            f"`credible_level` must be at least 0.5, got {credible_level!r}. Two outcomes could "
            "reach it at once."
        )
    ratio = checked_ratio(ratio)
    pairs, difference, n, mean, scale = _means(table, ratio)
    unit = np.sqrt(variance_factor(n, ratio))
    called = 0
    changes = Signs(difference.shape[1], n_resamples=CHANGES, seed=seed).matrix().T[1:]
    for change in changes:
        moved, spread = moments(difference * change, pairs.noise)
        beyond = special.stdtr(n - 1, _t(np.abs(moved) - rope, spread * unit))
        called += np.count_nonzero(beyond >= credible_level)
    p_a, p_b = (special.stdtr(n - 1, _t(x - rope, scale)) for x in (mean, -mean))
    between = np.clip(1 - p_a - p_b, 0, 1)
    half = special.stdtrit(n - 1, (1 + credible_level) / 2) * scale
    reached = [p >= credible_level for p in (p_a, p_b, between)]
    columns = {
        **pairs.named(),
        "n": n,
        "mean_difference": mean,
        "low": mean - half,
        "high": mean + half,
        "p_a": p_a,
        "p_equivalent": between,
        "p_b": p_b,
        "decision": np.select(reached, ["a", "b", "equivalent"], "undecided"),
    }
    methods, warnings = pairs.frame.columns.tolist(), tuple(taken_for_certain(scale))
    table, by_chance = pd.DataFrame(columns), called / len(changes)
    return BayesResult(table, rope, credible_level, methods, ratio, by_chance, seed, warnings)


def checked_rope(rope: float, of: str) -> float:
    """The rope, if it is neither negative nor infinite; else a ValueError."""
    if not 0 <= float(rope) < np.inf:
        raise ValueError(f"`rope` must be zero or positive, in units of {of}, got {rope!r}.")
    return float(rope)


@dataclass(frozen=True)
class BeyondPvalues:
    """What `beyond_pvalues` found; `absent` says why parts are None."""

    rope: float
    methods: list[str]
    bayes: BayesResult | None
    equivalence: EquivalenceResult | None
    curve: PowerCurve | None
    absent: Mapping[str, str]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the parts over datasets warn of, each once."""
        parts = (self.bayes, self.equivalence)
        texts = [text for part in parts if part is not None for text in part.warnings]
        return tuple(dict.fromkeys(texts))

    def pair_table(self, order: Sequence[Hashable]) -> pd.DataFrame | None:
        """The pairs, the better by `order` first, by certainty; None without probabilities."""
        if self.bayes is None:
            return None
        same, turned = self.equivalence, behind(self.bayes.table, order)
        other = better_first(self.bayes.table, turned)
        other["equivalence_p"] = np.nan if same is None else same.table["pvalue_corrected"]
        swapped = other["decision"].replace({"a": "b", "b": "a"})
        other["decision"] = other["decision"].mask(turned, swapped)
        other["sure"] = other[["p_a", "p_equivalent", "p_b"]].max(axis=1)
        return other.sort_values("sure", ascending=False, kind="stable", ignore_index=True)


def beyond_pvalues(tested: Tested, order: list[str], rope: float = 0.01) -> BeyondPvalues:
    """Probabilities of differences that matter, equivalence, and how many datasets it would take;
    `order` has the best method first."""
    n, shown = len(tested.table), order[:MOST]
    # the best two methods, or the best and the control
    two = order[0], order[1] if tested.control in (None, order[0]) else tested.control
    parts: dict[str, Callable[[], Any]] = {
        "bayes": lambda: bayes_of(tested, shown, rope),
        "equivalence": lambda: equivalence(tested.table[shown], rope, alpha=tested.alpha),
        "curve": lambda: power_curve(
            tested.flows[two[0]] - tested.flows[two[1]],
            two,
            level=level_of_a_pair(tested.flows, tested.alpha, tested.control, tested.seed),
            least=datasets_needed(tested.alpha),
            seed=tested.seed,
        ),
    }
    absent: dict[str, str] = {}
    if n < 2:
        absent = dict.fromkeys(parts, f"{n} dataset: it takes at least two")
    elif n < FEW:
        absent["bayes"] = f"{n} datasets: it takes at least {FEW}"
    if not rope:
        absent["equivalence"] = "without a rope nothing counts as equivalent"
    found: dict[str, Any] = dict.fromkeys(parts)
    for key in parts.keys() - absent.keys():
        try:
            found[key] = parts[key]()
        except ValueError as error:
            absent[key] = str(error)
    return BeyondPvalues(rope=rope, methods=shown, absent=absent, **found)


def bayes_of(tested: Tested, methods: list[str], rope: float) -> BayesResult:
    level = 1 - tested.alpha if tested.alpha <= 0.5 else 0.95
    return bayesian_t(tested.table[methods], rope, credible_level=level, seed=tested.seed)
