"""What a referee asks beyond p-values: how probable differences that matter are, and what it would
take to know.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds.covariance import checked_ratio, variance_factor
from mlflow_mleval.analysis.fusion import Fusion
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
    Plan,
    PowerCurve,
    equivalence,
    plan,
    power_curve,
)
from mlflow_mleval.analysis.posthoc.description import Tested
from mlflow_mleval.analysis.posthoc.max_t import datasets_needed, level_of_a_pair
from mlflow_mleval.analysis.promethee import flows_by_measure
from mlflow_mleval.measures.registry import Direction
from mlflow_mleval.validation import Array, Bools, probability

# --------------------------------------------------------------------------------------------------
# How probable it is that one method is better than another by more than matters, and how probable
# that it does not matter.
#
# Benavoli, Corani, Demšar & Zaffalon (2017), "Time for a change: a tutorial for comparing multiple
# classifiers through Bayesian analysis", JMLR 18(77), for both tests; Corani & Benavoli (2015),
# Machine Learning 100, for the correlated t test.

#: Fewer datasets than this do not outweigh the prior: with 3 to 8 one of two equal methods is
#: preferred, at .95 and without a rope, in 17 to 24% of studies, with 12 and more in about 10%.
FEW = 10
#: Random changes of sign, and draws of each, that say how many pairs chance would call different.
CHANGES = 20
CHANCE_DRAWS = 500
#: Numbers of one array that are in memory at once.
BLOCK = 2**21
#: The same of an array that should stay in a processor's cache; and from how many datasets on each
#: pair is sorted.
CACHE = 2**15
MANY = 100


@dataclass(frozen=True)
class BayesResult:
    """Posterior probabilities of every pair of methods.

    Attributes
    ----------
    table : One row a pair: method_a, method_b, n (datasets or folds), mean_difference (positive: a is better) with its credible
        interval low, high at `credible_level`, p_a, p_equivalent, p_b (probabilities that a is
        better by more than the rope, that neither is, that b is; they sum to 1), decision ("a", "b"
        or "equivalent" where that probability reaches `credible_level`, else "undecided").
    test : "signed-rank" or "correlated t".
    rope : Differences up to this do not matter, in units of the measure.
    credible_level : Probability at which a pair is decided.
    ratio : n_test / n_train of the correlated t test.
    n_resamples, seed : Of the signed-rank test.
    by_chance : How many pairs it would call different on average if the signs of all datasets were chance.
    """  # noqa: E501

    table: pd.DataFrame
    test: str
    rope: float
    credible_level: float = field(metadata={"key": "threshold"})
    methods: list[Hashable]
    ratio: float | None = None
    n_resamples: int | None = field(default=None, metadata={"key": "n_draws"})
    seed: int | None = None
    by_chance: float | None = None
    warnings: tuple[str, ...] = ()

    def verdict(self) -> str:
        """What the probabilities say, in a sentence, and what they rest on."""
        t = self.table
        if len(t) == 1:
            row = t.iloc[0]
            few = (
                f", but {row.n} datasets are too few to outweigh the prior"
                if self.test == "signed-rank" and row.n < FEW
                else ""
            )
            reached = f"which reaches {self.credible_level:g}{few}"
            words = {"a": reached, "b": reached, "equivalent": reached}
            decided = (
                f"{row.method_a} is better than {row.method_b} by more than {self.rope:g} with "
                f"probability {row.p_a:.3f}, worse with {row.p_b:.3f}, practically equivalent "
                f"with {row.p_equivalent:.3f}, "
                f"{words.get(row.decision, 'which decides nothing')}"
            )
        else:
            n = (
                t["decision"]
                .value_counts()
                .reindex(["a", "b", "equivalent", "undecided"], fill_value=0)
            )
            chance = "" if self.by_chance is None else f" ({self.by_chance:.1f} expected by chance)"
            decided = (
                f"of {len(t)} pairs, with probability {self.credible_level:g}: {n['a'] + n['b']} "
                f"different by more than {self.rope:g}{chance}, {n['equivalent']} practically "
                f"equivalent, {n['undecided']} undecided"
            )
        rests = {
            "signed-rank": "datasets drawn as these were",
            "correlated t": "normal differences on folds of this one dataset",
        }
        return (
            f"{decided}; this rests on {rests[self.test]} and is not corrected for the number of "
            "pairs."
        )


def bayesian_signed_rank(
    table: ArrayLike | pd.DataFrame,
    rope: float,
    *,
    direction: Direction = "max",
    prior_strength: float = 0.5,
    credible_level: float = 0.95,
    n_resamples: int = 20_000,
    seed: int = 0,
) -> BayesResult:
    r"""The Bayesian signed-rank test of every pair of methods over datasets (Benavoli et al. 2017,
    section 4.2).

    The differences :math:`z_1 \ldots z_D` and a prior observation :math:`z_0 = 0` have random
    weights, Dirichlet(s, 1, .., 1). With the rope r, :math:`\theta_a = \sum_{ij} w_i w_j [z_i + z_j
    > 2r]`, :math:`\theta_b = \sum_{ij} w_i w_j [z_i + z_j < -2r]`, and the rest is equivalence; a
    probability is the share of draws in which that one of the three is the largest.

    Parameters
    ----------
    table : array_like or pandas.DataFrame, shape (datasets, methods)
        Values of one measure, larger is better. NaN where a method has none: a pair goes by the
        datasets on which both have one.
    rope : float
        Largest difference that does not matter, in units of the measure: 0.01 is usual for measures
        in [0, 1]. A sum that equals 2r counts as equivalent.
    direction : {"max", "min"}
        "min": smaller is better instead.
    prior_strength : float
        s: how many datasets the prior observation counts for.
    credible_level : float
        Probability at which a pair is decided, and of the credible interval.
    n_resamples, seed : int
        Draws of the weights, the same for every pair.

    Returns
    -------
    BayesResult
        low and high are for the weighted mean difference.

    Raises
    ------
    ValueError
        Fewer than two methods, or datasets that both of a pair have; a negative rope or prior
        strength.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [.91, .82, .73, .64, .55, .46], "b": [.85, .74, .66, .57, .50, .40]})
    >>> found = bayesian_signed_rank(table, rope=0.01)
    >>> found.table["decision"].item(), found.table["p_a"].item() > 0.99
    ('a', True)
    """  # noqa: E501
    rope, credible_level = _checked(rope, credible_level)
    if not 0 <= prior_strength < np.inf or n_resamples < 1:
        raise ValueError(
            "`prior_strength` must be at least 0 and `n_resamples` at least 1, got "
            f"{prior_strength!r} and {n_resamples!r}."
        )
    frame, a, b, difference, noise = pair_differences(table, direction, gaps=True)
    if np.isnan(difference).any():
        of_pair = partial(
            bayesian_signed_rank,
            rope=rope,
            direction=direction,
            prior_strength=prior_strength,
            credible_level=credible_level,
            n_resamples=n_resamples,
            seed=seed,
        )
        pairs = zip(a, b, strict=True)
        return _together(frame, [of_pair(frame.iloc[:, [i, j]].dropna()) for i, j in pairs])
    n = len(frame)
    draws = np.random.default_rng(seed).standard_gamma(
        np.r_[prior_strength, np.ones(n)], size=(n_resamples, n + 1)
    )
    draws /= draws.sum(axis=1, keepdims=True)
    z = np.pad(difference, ((0, 0), (1, 0)))
    numbers = np.empty((5, len(a)))
    tail = (1 - credible_level) / 2
    step = max(1, BLOCK // n_resamples)
    for part in (slice(start, start + step) for start in range(0, len(a), step)):
        numbers[:2, part] = _shares(draws, z[part], np.r_[0.0, noise], rope)
        numbers[3:, part] = np.quantile(draws @ z[part].T, [tail, 1 - tail], axis=0)
    numbers[2] = difference.mean(axis=1)
    few = [f"{n} datasets are too few to outweigh the prior."] * (n < FEW)
    by_chance = _by_chance(z, np.r_[0.0, noise], rope, prior_strength, credible_level, seed)
    return BayesResult(
        _table(frame, (a, b), numbers, credible_level),
        "signed-rank",
        rope,
        credible_level,
        frame.columns.tolist(),
        n_resamples=n_resamples,
        seed=seed,
        by_chance=by_chance,
        warnings=(*few, *_about(rope)),
    )


def _together(frame: pd.DataFrame, results: Sequence[BayesResult]) -> BayesResult:
    """The tests of single pairs, each by the datasets that both have, as one result."""
    table = pd.concat([each.table for each in results], ignore_index=True)
    warned = tuple(dict.fromkeys(text for each in results for text in each.warnings))
    by_chance = sum(each.by_chance or 0.0 for each in results)
    methods = frame.columns.tolist()
    return replace(results[0], table=table, methods=methods, by_chance=by_chance, warnings=warned)


def _by_chance(
    z: Array,
    noise: Array,
    rope: float,
    prior_strength: float,
    credible_level: float,
    seed: int,
) -> float:
    """How many of the pairs are called different on average when whole datasets change sign at
    random.
    """
    rng = np.random.default_rng(seed)
    n = z.shape[1]
    draws = rng.standard_gamma(np.r_[prior_strength, np.ones(n - 1)], size=(CHANCE_DRAWS, n))
    draws /= draws.sum(axis=1, keepdims=True)
    called = 0.0
    for _ in range(CHANGES):
        signs = rng.choice([-1.0, 1.0], size=n)
        called += (_shares(draws, z * signs, noise, rope) >= credible_level).any(axis=0).sum()
    return called / CHANGES


def _shares(draws: Array, z: Array, noise: Array, rope: float) -> Array:
    """By pair, the shares of the draws in which most of the weight of sums is above the rope, and
    below it.

    A weighted share of sums is linear in the products of two weights: one matrix product serves all
    pairs. For many datasets the products are too many; then each pair goes by its sorted
    differences, where the sums above the rope with each are a run.
    """
    if z.shape[1] > MANY:
        columns = np.ascontiguousarray(draws.T)
        return np.array([_shares_of_pair(columns, row, noise.max(), rope) for row in z]).T
    i, j = np.triu_indices(z.shape[1])
    sums = z[:, i] + z[:, j]
    slack = np.maximum(noise[i], noise[j])
    times = np.where(i == j, 1.0, 2.0)
    sides = [(side * times).T for side in (sums > 2 * rope + slack, sums < -2 * rope - slack)]
    count = np.zeros((2, len(z)))
    step = max(1, BLOCK // len(i))
    for start in range(0, len(draws), step):
        some = draws[start : start + step]
        products = some[:, i] * some[:, j]
        above, below = (products @ side for side in sides)
        within = 1 - above - below
        count += (
            ((above > below) & (above > within)).sum(axis=0),
            ((below > above) & (below > within)).sum(axis=0),
        )
    return count / len(draws)


def _shares_of_pair(columns: Array, z: Array, slack: float, rope: float) -> tuple[float, float]:
    """`_shares` of one pair in O(n log n) a draw (a column), with the largest float noise of all
    datasets for each.
    """
    order = np.argsort(z, kind="stable")
    z = z[order]
    above = np.searchsorted(z, 2 * rope + slack - z, "right")
    below = np.searchsorted(z, -2 * rope - slack - z, "left")
    count = np.zeros(2)
    step = max(1, CACHE // len(z))
    for start in range(0, columns.shape[1], step):
        weights = columns[:, start : start + step][order]
        total = np.zeros((len(z) + 1, weights.shape[1]))
        np.cumsum(weights, axis=0, out=total[1:])
        b = np.einsum("ij,ij->j", weights, total[below])
        a = 1 - np.einsum("ij,ij->j", weights, total[above])
        within = 1 - a - b
        count += ((a > b) & (a > within)).sum(), ((b > a) & (b > within)).sum()
    return tuple(count / columns.shape[1])


def bayesian_t(
    table: ArrayLike | pd.DataFrame,
    rope: float,
    *,
    ratio: float | None = None,
    direction: Direction = "max",
    credible_level: float = 0.95,
) -> BayesResult:
    r"""The Bayesian correlated t test of every pair of methods over the folds of one dataset
    (Corani & Benavoli 2015).

    The posterior of the mean difference is Student's t with R - 1 degrees of freedom, location
    :math:`\bar d` and squared scale :math:`(1/R + n_{test}/n_{train})\, s_d^2`, the variance of
    Nadeau & Bengio (2003).

    Parameters
    ----------
    table : array_like or pandas.DataFrame, shape (folds, methods)
        Values of one measure on the same folds, larger is better.
    rope : float
        Largest difference that does not matter, in units of the measure.
    ratio : float, optional
        n_test / n_train of a fold: 1/9 in 10-fold cross-validation, also when repeated. None: the
        folds are independent.
    direction : {"max", "min"}
        "min": smaller is better instead.
    credible_level : float
        Probability at which a pair is decided.

    Raises
    ------
    ValueError
        Empty cells, fewer than two folds or methods, a negative rope or ratio.

    Examples
    --------
    >>> table = pd.DataFrame({"a": [.80, .82, .79, .85, .81], "b": [.78, .79, .78, .81, .80]})
    >>> bayesian_t(table, rope=0.01, ratio=1 / 4).table.loc[0, ["p_a", "p_equivalent", "p_b"]].astype(float).round(3).tolist()
    [0.879, 0.11, 0.011]
    """  # noqa: E501
    rope, credible_level = _checked(rope, credible_level)
    ratio = checked_ratio(ratio)
    frame, a, b, difference, noise = pair_differences(table, direction)
    n = len(frame)
    mean, deviation = moments(difference, noise)
    scale = deviation * np.sqrt(variance_factor(n, ratio))

    def above(limit: float) -> Array:
        certain = np.where(mean > limit, np.inf, -np.inf)
        return special.stdtr(n - 1, np.divide(mean - limit, scale, out=certain, where=scale > 0))

    half = special.stdtrit(n - 1, (1 + credible_level) / 2) * scale
    warnings = []
    if not ratio:
        warnings.append(
            "Folds are taken as independent: where they share training data, this is too sure. "
            "Give a ratio."
        )
    warnings += taken_for_certain(scale, "fold")
    p_a = above(rope)
    p_b = np.where(scale > 0, 1 - above(-rope), mean < -rope)
    return BayesResult(
        _table(frame, (a, b), (p_a, p_b, mean, mean - half, mean + half), credible_level),
        "correlated t",
        rope,
        credible_level,
        frame.columns.tolist(),
        ratio=ratio,
        warnings=(*warnings, *_about(rope)),
    )


def _checked(rope: float, credible_level: float) -> tuple[float, float]:
    rope = checked_rope(rope, "the measure")
    credible_level = probability(credible_level, "credible_level")
    if credible_level < 0.5:
        raise ValueError(
            f"`credible_level` must be at least 0.5, got {credible_level!r}. Two outcomes could "
            "reach it at once."
        )
    return rope, credible_level


def checked_rope(rope: float, of: str) -> float:
    """The rope, if it is neither negative nor infinite; else a ValueError."""
    if not 0 <= float(rope) < np.inf:
        raise ValueError(f"`rope` must be zero or positive, in units of {of}, got {rope!r}.")
    return float(rope)


def _about(rope: float) -> tuple[str, ...]:
    return (
        ()
        if rope
        else (
            "Without a rope no difference is too small to matter, and hardly a pair can be found "
            "equivalent.",
        )
    )


def _table(
    frame: pd.DataFrame,
    pairs: tuple[Array, Array],
    numbers: Iterable[Array],
    credible_level: float,
) -> pd.DataFrame:
    """A row a pair, from the chances of either method, the mean difference and its interval."""
    p_a, p_b, mean, low, high = numbers
    between = np.clip(1 - p_a - p_b, 0, 1)
    reached = [p >= credible_level for p in (p_a, p_b, between)]
    return pd.DataFrame(
        {
            **named_pairs(frame.columns, *pairs),
            "n": len(frame),
            "mean_difference": mean,
            "low": low,
            "high": high,
            "p_a": p_a,
            "p_equivalent": between,
            "p_b": p_b,
            "decision": np.select(reached, ["a", "b", "equivalent"], "undecided"),
        }
    )


#: Draws of the Bayesian signed-rank test: a probability is then known to about half a percent.
BAYES_DRAWS = 10_000
#: Of more methods than this only the best so many are compared pair by pair.
MOST = 20


@dataclass(frozen=True)
class BeyondPvalues:
    """What `beyond_pvalues` found; parts that could not be computed are None, and `absent` says
    why.

    Attributes
    ----------
    rope : Differences up to this do not matter, in units of what is compared.
    methods : Whose pairs are compared: the best ones, if there are very many.
    bayes : Bayesian signed-rank test over datasets.
    equivalence : Two one-sided tests over datasets; None without a rope, too.
    plan : How many datasets would separate the pairs by step-down max-T.
    curve : Power of step-down max-T to tell the best two methods apart, by number of datasets.
    """

    rope: float
    methods: list[str]
    bayes: BayesResult | None
    equivalence: EquivalenceResult | None
    plan: Plan | None
    curve: PowerCurve | None
    absent: Mapping[str, str]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the parts over datasets warn of, each once."""
        parts = (self.bayes, self.equivalence, self.plan)
        return tuple(
            dict.fromkeys(text for part in parts if part is not None for text in part.warnings)
        )

    def pair_table(self, order: Sequence[Hashable]) -> pd.DataFrame | None:
        """The pairs over datasets, the better method by `order` first, the most certain pairs
        first; None without tests or plan.

        The columns of `BayesResult.table`, equivalence_p (corrected; NaN without a rope), needed,
        needed_low, needed_high (of the plan) and sure (the largest of the three probabilities).
        """
        if self.bayes is None or self.plan is None:
            return None
        return _pair_table(self.bayes, self.equivalence, self.plan, order)


def _pair_table(
    bayes: BayesResult,
    same: EquivalenceResult | None,
    planned: Plan,
    order: Sequence[Hashable],
) -> pd.DataFrame:
    needed = ["needed", "needed_low", "needed_high"]
    turned = behind(bayes.table, order)
    other = better_first(bayes.table, turned)
    other["equivalence_p"] = np.nan if same is None else same.table["pvalue_corrected"]
    other[needed] = planned.table[needed]
    other["decision"] = other["decision"].mask(
        turned, other["decision"].replace({"a": "b", "b": "a"})
    )
    other["sure"] = other[["p_a", "p_equivalent", "p_b"]].max(axis=1)
    rows = (
        other.assign(turned=turned)
        .sort_values(["sure", "turned"], ascending=[False, True], kind="stable")
        .index
    )
    return other.loc[rows].reset_index(drop=True)


def beyond_pvalues(
    fusion: Fusion,
    tested: Tested,
    order: list[str],
    rope: float = 0.01,
) -> BeyondPvalues:
    """Probabilities of differences that matter, equivalence, and how many datasets it would take.

    `tested` is what is compared over datasets; its flows are what max-T compares (with a control
    only pairs with it), which plans are for; `order` has the methods best first. Bayesian decisions
    need ten datasets and a probability of 1 - alpha; the correction is for the number of pairs, in
    equivalence tests.
    """
    table = tested.table
    flows = tested.flows
    alpha = tested.alpha
    correction = tested.correction
    control = tested.control
    seed = tested.seed
    shown = order[:MOST]
    absent: dict[str, str] = {}

    def made(name: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except ValueError as error:
            absent[name] = str(error)
            return None

    parts = dict.fromkeys(("bayes", "equivalence", "plan", "curve"))
    if len(table) < 2:
        absent |= dict.fromkeys(
            ("bayes", "equivalence", "plan"), f"{len(table)} dataset: it takes at least two"
        )
    else:
        best = table[shown]
        if len(table) >= FEW:
            parts["bayes"] = made("bayes", lambda: bayes_of(tested, shown, rope))
        else:
            absent["bayes"] = (
                f"{len(table)} datasets: it takes at least {FEW} to outweigh the prior"
            )
        if rope:
            parts["equivalence"] = made(
                "equivalence", lambda: equivalence(best, rope, alpha=alpha, correction=correction)
            )
        level = level_of_a_pair(flows, alpha, control, seed)
        parts["plan"] = made("plan", lambda: plan(flows[shown], alpha=alpha, level=level))
        parts["curve"] = made(
            "curve", lambda: _curve(fusion, flows, order, control, alpha, level, seed)
        )
    if not rope:
        absent["equivalence"] = "without a rope nothing counts as equivalent"
    return BeyondPvalues(rope=rope, methods=shown, absent=absent, **parts)


def bayes_of(tested: Tested, methods: list[str], rope: float) -> BayesResult:
    """The Bayesian signed-rank test of these methods by what is compared over datasets."""
    credible: dict[str, Any] = {"credible_level": 1 - tested.alpha} if tested.alpha <= 0.5 else {}
    draws: dict[str, Any] = {"n_resamples": BAYES_DRAWS, "seed": tested.seed}
    return bayesian_signed_rank(tested.table[methods], rope, **draws, **credible)


def equivalent(tested: Tested, two: list[str], rope: float) -> float | None:
    """How probable it is that the two differ by no more than the rope; None where too few datasets
    hold both.
    """
    if len(tested.table) < FEW:
        return None
    try:
        found = bayes_of(tested, two, rope)
    except ValueError:  # no two datasets hold both
        return None
    return float(found.table["p_equivalent"].iloc[0])


def _curve(
    fusion: Fusion,
    flows: pd.DataFrame,
    order: Sequence[str],
    control: str | None,
    alpha: float,
    level: float,
    seed: int,
) -> PowerCurve:
    """For the best two methods, or the best and the control; by fold or repeat where the flows are
    those of the fusion.
    """
    first = order[0]
    second = order[1] if control is None or first == control else control
    gaps = flows[first] - flows[second]
    there = gaps.dropna()
    if len(there) and there.equals((fusion.phi[first] - fusion.phi[second])[there.index]):
        runs = flows_by_run(fusion, first, second)
        gaps = [runs[dataset] for dataset in there.index]
    over = "repeats" if fusion.study.folds is None else "folds"
    least = datasets_needed(alpha)
    return power_curve(gaps, (first, second), level=level, least=least, over=over, seed=seed)


def flows_by_run(fusion: Fusion, a: Hashable, b: Hashable) -> dict[str, Array]:
    """By dataset: the difference a minus b in net flow, one value for each fold or repeat that all
    methods have there.

    These are the pseudo-values of the jackknife (Efron & Tibshirani 1993): everything is computed
    again without one of them. Their mean is the difference that the fusion has, and their variance,
    over their number, that of this mean.
    """
    study = fusion.study
    methods = list(fusion.ranking.index)
    i = methods.index(a)
    j = methods.index(b)
    differences = {}
    for dataset in study.datasets:
        by_run, kept = _runs(fusion, dataset, methods, repeated=study.folds is None)
        n = by_run.shape[1]
        whole = float(fusion.phi.loc[dataset, a] - fusion.phi.loc[dataset, b])
        differences[dataset] = np.array([whole])
        if kept[[i, j]].all():
            moved = (by_run.mean(axis=1, keepdims=True) - by_run).swapaxes(0, 1) / (
                n - 1
            )  # the mean without one, less the mean
            moved[:, ~kept] = 0.0
            phi = _flows_of_moved(fusion, dataset, methods, moved)
            without = phi[:, i] - phi[:, j]
            differences[dataset] = whole - (n - 1) * (without - without.mean())
    return differences


def _flows_of_moved(
    fusion: Fusion, dataset: str, methods: Sequence[Hashable], moved: Array
) -> Array:
    """Net flows, draws x methods, where the values on a dataset are moved: draws x methods x
    measures.
    """
    choices = dict(fusion.options)
    weights = choices.pop("weights"), choices.pop("drop_constant")
    values = fusion.study.values.loc[dataset].reindex(methods)
    flows = flows_by_measure(
        values.to_numpy() + moved, values.index, values.columns, fusion.study.minimize, **choices
    )
    return flows.weigh(*weights).phi


def _runs(
    fusion: Fusion,
    dataset: str,
    methods: Sequence[Hashable],
    repeated: bool = False,
) -> tuple[Array, Bools]:
    """Values of the measures on one dataset, methods x folds x measures, and which methods have
    them all, if two or more do.

    Or repeats, as many as the method with fewest has.
    """
    study = fusion.study
    values = study.repeats if repeated else study.folds
    none = np.zeros((len(methods), 0, len(study.measures))), np.zeros(len(methods), dtype=bool)
    if values is None or dataset not in values.index.get_level_values(0):
        return none
    table = values.loc[dataset].reindex(columns=study.measures)
    if repeated:
        methods_of = table.index.get_level_values(0)
        number = table.groupby(level=0, sort=False).cumcount().to_numpy()
        table = table.set_axis(pd.MultiIndex.from_arrays([methods_of, number]))[
            number < methods_of.value_counts().min()
        ]
    keys = table.index.get_level_values(1).unique()
    full = (
        table.reindex(pd.MultiIndex.from_product([methods, keys]))
        .to_numpy()
        .reshape(len(methods), len(keys), -1)
    )
    whole = np.isfinite(full).all(axis=(1, 2))
    if len(keys) < 2 or whole.sum() < 2:
        return none
    return np.where(whole[:, None, None], full, 0.0), whole
