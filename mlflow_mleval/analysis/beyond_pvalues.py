"""What a referee asks beyond p-values: how probable differences that matter are, and what it would
take to know.

Benavoli, Corani, Demšar & Zaffalon (2017), "Time for a change: a tutorial for comparing multiple
classifiers through Bayesian analysis", JMLR 18(77), for both tests; Corani & Benavoli (2015),
Machine Learning 100, for the correlated t test.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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

#: Fewer datasets than this do not outweigh the prior: with 3 to 8 one of two equal methods is
#: preferred, at .95 and without a rope, in 17 to 24% of studies, with 12 and more in about 10%.
FEW = 10
#: Random changes of sign, and draws of each, that say how many pairs chance would call different.
CHANGES = 20
CHANCE_DRAWS = 500
#: Numbers of one array that are in memory at once.
BLOCK = 2**21
#: From how many datasets on each pair is sorted.
MANY = 100
#: Draws of a study's test: a probability is then known to about half a percent.
BAYES_DRAWS = 10_000
#: Of more methods than this only the best so many are compared pair by pair.
MOST = 20


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
        rests = "normal differences on folds of this one dataset"
        few = ""
        if self.test == "signed-rank":
            rests = "datasets drawn as these were"
            few = f", but {t['n'].min()} datasets are too few to outweigh the prior"
            few = few if t["n"].min() < FEW else ""
        if len(t) == 1:
            row = t.iloc[0]
            reached = f"which reaches {self.credible_level:g}{few}"
            decided = (
                f"{row.method_a} is better than {row.method_b} by more than {self.rope:g} with "
                f"probability {row.p_a:.3f}, worse with {row.p_b:.3f}, practically equivalent "
                f"with {row.p_equivalent:.3f}, "
                f"{'which decides nothing' if row.decision == 'undecided' else reached}"
            )
        else:
            n = t["decision"].value_counts().to_dict()
            chance = "" if self.by_chance is None else f" ({self.by_chance:.1f} expected by chance)"
            decided = (
                f"of {len(t)} pairs, with probability {self.credible_level:g}: "
                f"{n.get('a', 0) + n.get('b', 0)} different by more than {self.rope:g}{chance}, "
                f"{n.get('equivalent', 0)} practically equivalent, "
                f"{n.get('undecided', 0)} undecided"
            )
        return f"{decided}; this rests on {rests} and is not corrected for the number of pairs."


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
    there = ~np.isnan(difference)
    if there.sum(axis=1).min() < 2:
        raise ValueError("`table` must hold two datasets that both methods of each pair have.")
    # pairs by the datasets that both have: weights are drawn for the same datasets alike
    parts, which = np.unique(there, axis=0, return_inverse=True)
    numbers = np.empty((5, len(a)))
    by_chance = 0.0
    for k, on in enumerate(parts):
        rows = np.flatnonzero(which.ravel() == k)
        z = np.pad(difference[np.ix_(rows, np.flatnonzero(on))], ((0, 0), (1, 0)))
        slack = np.r_[0.0, noise[on]]
        rng = np.random.default_rng(seed)
        shares, means = _posterior(rng, n_resamples, prior_strength, z, slack, rope)
        tail = (1 - credible_level) / 2
        numbers[:, rows] = (
            *shares,
            z[:, 1:].mean(axis=1),
            *np.quantile(means, [tail, 1 - tail], axis=0),
        )
        rng = np.random.default_rng(seed)
        weights = _weights(rng, CHANCE_DRAWS, prior_strength, z.shape[1])
        for _ in range(CHANGES):
            changed = z * rng.choice([-1.0, 1.0], size=z.shape[1])
            won = _outcomes(weights, changed, slack, rope) / CHANCE_DRAWS
            by_chance += (won >= credible_level).any(axis=0).sum()
    sizes = there.sum(axis=1)
    few = [
        f"{n} datasets are too few to outweigh the prior." for n in dict.fromkeys(sizes) if n < FEW
    ]
    return BayesResult(
        _table(frame, (a, b), sizes, numbers, credible_level),
        "signed-rank",
        rope,
        credible_level,
        frame.columns.tolist(),
        n_resamples=n_resamples,
        seed=seed,
        by_chance=float(by_chance) / CHANGES,
        warnings=(*few, *_about(rope)),
    )


def _weights(rng: np.random.Generator, count: int, prior_strength: float, n: int) -> Array:
    """Dirichlet weights of the prior observation and the others, draws x n."""
    draws = rng.standard_gamma(np.r_[prior_strength, np.ones(n - 1)], size=(count, n))
    draws /= draws.sum(axis=1, keepdims=True)
    return draws


def _posterior(
    rng: np.random.Generator,
    count: int,
    prior_strength: float,
    z: Array,
    noise: Array,
    rope: float,
) -> tuple[Array, Array]:
    """By pair the shares of draws in which either method is likeliest to be better, and the
    weighted means, draws x pairs; only a block of the draws is in memory.
    """
    n = z.shape[1]
    won = np.zeros((2, len(z)))
    means = np.empty((count, len(z)))
    step = max(1, BLOCK // (n * min(n, MANY)))
    for start in range(0, count, step):
        block = _weights(rng, min(step, count - start), prior_strength, n)
        won += _outcomes(block, z, noise, rope)
        means[start : start + len(block)] = block @ z.T
    return won / count, means


def _outcomes(draws: Array, z: Array, noise: Array, rope: float) -> Array:
    """By pair, in how many of the draws most of the weight of sums is above the rope, and below it.

    A weighted share of sums is linear in the products of two weights: one matrix product serves all
    pairs. For many datasets the products are too many; then each pair goes by its sorted
    differences, where the sums above the rope with each are a run, with the largest float noise of
    all datasets for each.
    """
    if z.shape[1] > MANY:
        columns = np.ascontiguousarray(draws.T)
        slack = noise.max()
        sides = np.empty((2, len(draws), len(z)))
        for k, row in enumerate(z):
            order = np.argsort(row, kind="stable")
            row = row[order]
            weights = columns[order]
            total = np.zeros((len(row) + 1, len(draws)))
            np.cumsum(weights, axis=0, out=total[1:])
            above = np.searchsorted(row, 2 * rope + slack - row, "right")
            below = np.searchsorted(row, -2 * rope - slack - row, "left")
            sides[0, :, k] = 1 - np.einsum("ij,ij->j", weights, total[above])
            sides[1, :, k] = np.einsum("ij,ij->j", weights, total[below])
    else:
        i, j = np.triu_indices(z.shape[1])
        sums = z[:, i] + z[:, j]
        slack = np.maximum(noise[i], noise[j])
        times = np.where(i == j, 1.0, 2.0)
        products = draws[:, i] * draws[:, j] * times
        sides = np.stack(
            [products @ side.T for side in (sums > 2 * rope + slack, sums < -2 * rope - slack)]
        )
    above, below = sides
    within = 1 - above - below
    return np.stack(
        [
            ((above > below) & (above > within)).sum(axis=0),
            ((below > above) & (below > within)).sum(axis=0),
        ]
    )


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
        _table(frame, (a, b), n, (p_a, p_b, mean, mean - half, mean + half), credible_level),
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
    n: Any,
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
            "n": n,
            "mean_difference": mean,
            "low": low,
            "high": high,
            "p_a": p_a,
            "p_equivalent": between,
            "p_b": p_b,
            "decision": np.select(reached, ["a", "b", "equivalent"], "undecided"),
        }
    )


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
        needed = ["needed", "needed_low", "needed_high"]
        same = self.equivalence
        turned = behind(self.bayes.table, order)
        other = better_first(self.bayes.table, turned)
        other["equivalence_p"] = np.nan if same is None else same.table["pvalue_corrected"]
        other[needed] = self.plan.table[needed]
        swapped = other["decision"].replace({"a": "b", "b": "a"})
        other["decision"] = other["decision"].mask(turned, swapped)
        other["sure"] = other[["p_a", "p_equivalent", "p_b"]].max(axis=1)
        keys = other.assign(turned=turned)
        rows = keys.sort_values(["sure", "turned"], ascending=[False, True], kind="stable").index
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
    n = len(table)
    shown = order[:MOST]
    parts: dict[str, Callable[[], Any]] = {}
    absent: dict[str, str] = {}
    if n >= FEW:
        parts["bayes"] = lambda: bayes_of(tested, shown, rope)
    else:
        absent["bayes"] = f"{n} datasets: it takes at least {FEW} to outweigh the prior"
    if n >= 2:
        level = level_of_a_pair(flows, alpha, tested.control, tested.seed)
        parts["equivalence"] = lambda: equivalence(
            table[shown], rope, alpha=alpha, correction=tested.correction
        )
        parts["plan"] = lambda: plan(flows[shown], alpha=alpha, level=level)
        parts["curve"] = lambda: _curve(fusion, tested, order, level)
    else:
        keys = ("bayes", "equivalence", "plan")
        absent |= dict.fromkeys(keys, f"{n} dataset: it takes at least two")
    if not rope:
        parts.pop("equivalence", None)
        absent["equivalence"] = "without a rope nothing counts as equivalent"
    found = dict.fromkeys(("bayes", "equivalence", "plan", "curve"))
    for key, make in parts.items():
        try:
            found[key] = make()
        except ValueError as error:
            absent[key] = str(error)
    return BeyondPvalues(rope=rope, methods=shown, absent=absent, **found)


def bayes_of(tested: Tested, methods: list[str], rope: float) -> BayesResult:
    """The Bayesian signed-rank test of these methods by what is compared over datasets."""
    level = 1 - tested.alpha if tested.alpha <= 0.5 else 0.95
    return bayesian_signed_rank(
        tested.table[methods],
        rope,
        credible_level=level,
        n_resamples=BAYES_DRAWS,
        seed=tested.seed,
    )


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


def _curve(fusion: Fusion, tested: Tested, order: Sequence[str], level: float) -> PowerCurve:
    """For the best two methods, or the best and the control; by fold or repeat where the flows are
    those of the fusion.
    """
    first = order[0]
    second = order[1] if tested.control in (None, first) else tested.control
    gaps: Any = tested.flows[first] - tested.flows[second]
    there = gaps.dropna()
    if len(there) and there.equals((fusion.phi[first] - fusion.phi[second])[there.index]):
        runs = flows_by_run(fusion, first, second)
        gaps = [runs[dataset] for dataset in there.index]
    over = "repeats" if fusion.study.folds is None else "folds"
    least = datasets_needed(tested.alpha)
    pair = (first, second)
    return power_curve(gaps, pair, level=level, least=least, over=over, seed=tested.seed)


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
