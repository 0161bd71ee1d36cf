"""What a referee asks beyond p-values: how probable differences that matter are, and what it would
take to know.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.bayes import BayesResult, bayesian_signed_rank, bayesian_t
from mlflow_mleval.analysis.better_first import behind, better_first
from mlflow_mleval.analysis.folds.fold_comparison import FoldComparison
from mlflow_mleval.analysis.folds.protocol import UNPAIRED
from mlflow_mleval.analysis.fusion import Fusion
from mlflow_mleval.analysis.planning import EquivalenceResult, Plan, equivalence, plan
from mlflow_mleval.analysis.posthoc.max_t import datasets_needed, level_of_a_pair
from mlflow_mleval.analysis.power_curve import PowerCurve, power_curve
from mlflow_mleval.analysis.resampling import RankBootstrap, bootstrap_ranks, flows_by_run

#: Draws of the bootstrap over folds, each of which ranks every dataset anew.
DRAWS = 200
#: Draws of the Bayesian signed-rank test: a probability is then known to about half a percent.
BAYES_DRAWS = 10_000
#: Of more methods than this only the best so many are compared pair by pair.
MOST = 20


@dataclass(frozen=True)
class FoldBeyond:
    """One measure over the folds of one dataset: probabilities, equivalence (None without a rope),
    the folds it would take.
    """

    bayes: BayesResult
    equivalence: EquivalenceResult | None
    plan: Plan

    def pair_table(self, order: Sequence[Hashable]) -> pd.DataFrame:
        """The pairs, the better method first, the most certain pairs first; see
        `BeyondPvalues.pair_table`.
        """
        return _pair_table(self.bayes, self.equivalence, self.plan, order)


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
    bootstrap : Ranks of the fusion when folds are drawn again.
    by_fold : By dataset and measure.
    """

    rope: float
    methods: list[str]
    bayes: BayesResult | None
    equivalence: EquivalenceResult | None
    plan: Plan | None
    curve: PowerCurve | None
    bootstrap: RankBootstrap | None
    by_fold: Mapping[str, Mapping[str, FoldBeyond]]
    absent: Mapping[str, str]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the parts over datasets warn of, each once."""
        parts = (self.bayes, self.equivalence, self.plan, self.bootstrap)
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
    bayes: BayesResult, same: EquivalenceResult | None, planned: Plan, order: Sequence[Hashable]
) -> pd.DataFrame:
    needed = ["needed", "needed_low", "needed_high"]
    table = bayes.table.assign(
        equivalence_p=np.nan if same is None else same.table["pvalue_corrected"]
    )
    table[needed] = planned.table[needed]
    turned = behind(table, order)
    other = better_first(
        table,
        turned,
        swap=[("p_a", "p_b"), ("low", "high")],
        negate=["mean_difference", "low", "high"],
    )
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
    table: pd.DataFrame,
    ranks: pd.DataFrame,
    flows: pd.DataFrame,
    folds: Mapping[str, FoldComparison],
    *,
    rope: float = 0.01,
    alpha: float = 0.05,
    correction: str = "holm",
    seed: int = 0,
    control: str | None = None,
) -> BeyondPvalues:
    """Probabilities of differences that matter, equivalence, and how many datasets or folds it
    would take.

    `table` and `ranks`, datasets x methods, are what is compared, larger is better (NaN: left out
    of pairs), and its ranks; `flows` are what max-T compares (with `control` only pairs with it),
    which plans are for; `folds` are by dataset, maybe none. Bayesian decisions need a probability
    of 1 - `alpha`; `correction` is for the number of pairs, in equivalence tests and plans over
    folds. A ValueError refuses a rope that is negative or not finite.
    """
    if not 0 <= float(rope) < np.inf:
        raise ValueError(
            f"`rope` must be zero or positive, in units of what is compared, got {rope!r}."
        )
    order = ranks.mean().sort_values(kind="stable").index.tolist()
    shown = order[:MOST]
    absent: dict[str, str] = {}

    def made(name: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except ValueError as error:
            absent[name] = str(error)
            return None

    found = dict.fromkeys(("bayes", "equivalence", "plan", "curve", "bootstrap"))
    if len(table) < 2:
        absent |= dict.fromkeys(
            ("bayes", "equivalence", "plan"), f"{len(table)} dataset: it takes at least two"
        )
    else:
        best = table[shown]
        credible: dict[str, Any] = {"credible_level": 1 - alpha} if alpha <= 0.5 else {}
        found["bayes"] = made(
            "bayes",
            lambda: bayesian_signed_rank(
                best, rope, n_resamples=BAYES_DRAWS, seed=seed, **credible
            ),
        )
        if rope:
            found["equivalence"] = made(
                "equivalence", lambda: equivalence(best, rope, alpha=alpha, correction=correction)
            )
        level = level_of_a_pair(flows, alpha, control, seed)
        found["plan"] = made("plan", lambda: plan(flows[shown], alpha=alpha, level=level))
        found["curve"] = made(
            "curve", lambda: _curve(fusion, flows, order, control, alpha, level, seed)
        )
    if not rope:
        absent["equivalence"] = "without a rope nothing counts as equivalent"
    if folds:
        found["bootstrap"] = made(
            "bootstrap", lambda: bootstrap_ranks(fusion, alpha=alpha, n_resamples=DRAWS, seed=seed)
        )
    else:
        absent["bootstrap"] = "no run has values by fold"
    by_fold = {}
    for dataset, comparison in folds.items():
        if not comparison.paired or (comparison.pairs["doubts"] == UNPAIRED).any():
            absent[f"by_fold.{dataset}"] = "the folds of some methods are not the same"
        else:
            shown = list(comparison.letters)[:MOST]
            tables = {
                m: comparison.values[m].unstack(level=0)[shown].dropna()
                for m in comparison.measures
            }
            if len(next(iter(tables.values()))) < 2:
                absent[f"by_fold.{dataset}"] = "the methods have fewer than two folds in common"
                continue
            by_fold[dataset] = {
                m: _over_folds(comparison, m, table, rope, alpha, correction)
                for m, table in tables.items()
            }
    return BeyondPvalues(rope=rope, methods=shown, by_fold=by_fold, absent=absent, **found)


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
    found = flows[first] - flows[second]
    kept = found.dropna()
    if len(kept) and kept.equals((fusion.phi[first] - fusion.phi[second])[kept.index]):
        runs = flows_by_run(fusion, first, second)
        found = [runs[dataset] for dataset in kept.index]
    over = "repeats" if fusion.study.folds is None else "folds"
    least = datasets_needed(alpha)
    return power_curve(found, (first, second), level=level, least=least, over=over, seed=seed)


def _over_folds(
    found: FoldComparison,
    measure: str,
    table: pd.DataFrame,
    rope: float,
    alpha: float,
    correction: str,
) -> FoldBeyond:
    ratio = found.protocol.headline_ratio
    options: dict[str, Any] = {"ratio": ratio, "direction": found.orderings[measure].direction}
    same = equivalence(table, rope, alpha=alpha, correction=correction, **options) if rope else None
    level: dict[str, Any] = {"credible_level": 1 - alpha} if alpha <= 0.5 else {}
    planned = plan(table, over="folds", alpha=alpha, correction=correction, **options)
    return FoldBeyond(bayesian_t(table, rope, **options, **level), same, planned)
