"""What a referee asks beyond p-values: how probable differences that matter are, and what it would
take to know.

Corani & Benavoli (2015), "A Bayesian approach for comparing cross-validated algorithms on multiple
data sets", Machine Learning 100, for the posterior; Benavoli, Corani, Demšar & Zaffalon (2017),
JMLR 18(77), for the rope.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds.covariance import checked_ratio, variance_factor
from mlflow_mleval.analysis.pairs import (
    behind,
    better_first,
    moments,
    named_pairs,
    pair_differences,
    taken_for_certain,
)
from mlflow_mleval.analysis.planning import (
    EquivalenceResult,
    PowerCurve,
    equivalence,
    power_curve,
)
from mlflow_mleval.analysis.posthoc.description import Tested
from mlflow_mleval.analysis.posthoc.max_t import datasets_needed, level_of_a_pair
from mlflow_mleval.measures.registry import Direction
from mlflow_mleval.validation import Array, probability

#: Fewer datasets than this tell no probabilities of pairs.
FEW = 10
#: Random changes of sign that say how many pairs chance would call different.
CHANGES = 20
#: Of more methods than this only the best so many are compared pair by pair.
MOST = 20


@dataclass(frozen=True)
class BayesResult:
    """Posterior probabilities of every pair; `by_chance` is how many it would call different on
    average if signs were chance."""

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
        t = self.table
        if len(t) == 1:
            row = t.iloc[0]
            undecided = row.decision == "undecided"
            decided = (
                f"{row.method_a} is better than {row.method_b} by more than {self.rope:g} with "
                f"probability {row.p_a:.3f}, worse with {row.p_b:.3f}, practically equivalent "
                f"with {row.p_equivalent:.3f}, which "
                f"{'decides nothing' if undecided else f'reaches {self.credible_level:g}'}"
            )
        else:
            n = t["decision"].value_counts().to_dict()
            decided = (
                f"of {len(t)} pairs, with probability {self.credible_level:g}: "
                f"{n.get('a', 0) + n.get('b', 0)} different by more than {self.rope:g} "
                f"({self.by_chance:.1f} expected by chance), "
                f"{n.get('equivalent', 0)} practically equivalent, "
                f"{n.get('undecided', 0)} undecided"
            )
        rests = "normal differences and is not corrected for the number of pairs"
        return f"{decided}; this rests on {rests}."


def bayesian_t(
    table: ArrayLike | pd.DataFrame,
    rope: float,
    *,
    ratio: float | None = None,
    direction: Direction = "max",
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
    direction : {"max", "min"}
        "min": smaller is better instead.
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
    frame, a, b, difference, noise = pair_differences(table, direction, gaps=True)
    n = (~np.isnan(difference)).sum(axis=1)
    if n.min() < 2:
        raise ValueError("`table` must hold two rows that both methods of each pair have.")
    mean, deviation = moments(difference, noise)
    unit = np.sqrt(variance_factor(n, ratio))
    scale = deviation * unit

    def above(limit: float, mean: Array, scale: Array) -> Array:
        certain = np.where(mean > limit, np.inf, -np.inf)
        return special.stdtr(n - 1, np.divide(mean - limit, scale, out=certain, where=scale > 0))

    rng, called = np.random.default_rng(seed), 0
    for _ in range(CHANGES):
        moved, spread = moments(difference * rng.choice([-1.0, 1.0], difference.shape[1]), noise)
        beyond = above(rope, np.abs(moved), spread * unit)
        called += np.count_nonzero(beyond >= credible_level)
    p_a = above(rope, mean, scale)
    p_b = above(rope, -mean, scale)
    between = np.clip(1 - p_a - p_b, 0, 1)
    half = special.stdtrit(n - 1, (1 + credible_level) / 2) * scale
    reached = [p >= credible_level for p in (p_a, p_b, between)]
    rows = pd.DataFrame(
        {
            **named_pairs(frame.columns, a, b),
            "n": n,
            "mean_difference": mean,
            "low": mean - half,
            "high": mean + half,
            "p_a": p_a,
            "p_equivalent": between,
            "p_b": p_b,
            "decision": np.select(reached, ["a", "b", "equivalent"], "undecided"),
        }
    )
    warnings = taken_for_certain(scale, "row")
    if not rope:
        warnings = [*warnings, "Without a rope no difference is too small to matter."]
    methods = frame.columns.tolist()
    by_chance = called / CHANGES
    return BayesResult(rows, rope, credible_level, methods, ratio, by_chance, seed, tuple(warnings))


def checked_rope(rope: float, of: str) -> float:
    """The rope, if it is neither negative nor infinite; else a ValueError."""
    if not 0 <= float(rope) < np.inf:
        raise ValueError(f"`rope` must be zero or positive, in units of {of}, got {rope!r}.")
    return float(rope)


@dataclass(frozen=True)
class BeyondPvalues:
    """What `beyond_pvalues` found; parts that could not be computed are None, and `absent` says
    why."""

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
        return tuple(
            dict.fromkeys(text for part in parts if part is not None for text in part.warnings)
        )

    def pair_table(self, order: Sequence[Hashable]) -> pd.DataFrame | None:
        """The pairs over datasets, the better by `order` first, the most certain first; None
        without probabilities."""
        if self.bayes is None:
            return None
        same = self.equivalence
        turned = behind(self.bayes.table, order)
        other = better_first(self.bayes.table, turned)
        other["equivalence_p"] = np.nan if same is None else same.table["pvalue_corrected"]
        swapped = other["decision"].replace({"a": "b", "b": "a"})
        other["decision"] = other["decision"].mask(turned, swapped)
        other["sure"] = other[["p_a", "p_equivalent", "p_b"]].max(axis=1)
        keys = other.assign(turned=turned)
        rows = keys.sort_values(["sure", "turned"], ascending=[False, True], kind="stable").index
        return other.loc[rows].reset_index(drop=True)


def beyond_pvalues(
    tested: Tested,
    order: list[str],
    rope: float = 0.01,
) -> BeyondPvalues:
    """Probabilities of differences that matter, equivalence, and how many datasets it would take;
    `order` has the best method first."""
    n = len(tested.table)
    shown = order[:MOST]
    parts: dict[str, Callable[[], Any]] = {
        "bayes": lambda: _bayes_of(tested, shown, rope),
        "equivalence": lambda: equivalence(
            tested.table[shown], rope, alpha=tested.alpha, correction=tested.correction
        ),
        "curve": lambda: _curve(tested, order),
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


def _bayes_of(tested: Tested, methods: list[str], rope: float) -> BayesResult:
    level = 1 - tested.alpha if tested.alpha <= 0.5 else 0.95
    return bayesian_t(tested.table[methods], rope, credible_level=level, seed=tested.seed)


def equivalent(tested: Tested, two: list[str], rope: float) -> float | None:
    """How probable it is that two differ by no more than the rope; None where datasets are
    too few."""
    if len(tested.table) < FEW:
        return None
    try:
        found = _bayes_of(tested, two, rope)
    except ValueError:  # no two datasets hold both
        return None
    return float(found.table["p_equivalent"].iloc[0])


def _curve(tested: Tested, order: Sequence[str]) -> PowerCurve:
    """For the best two methods, or the best and the control."""
    first = order[0]
    second = order[1] if tested.control in (None, first) else tested.control
    gaps = tested.flows[first] - tested.flows[second]
    level = level_of_a_pair(tested.flows, tested.alpha, tested.control, tested.seed)
    least = datasets_needed(tested.alpha)
    pair = (first, second)
    return power_curve(gaps, pair, level=level, least=least, seed=tested.seed)
