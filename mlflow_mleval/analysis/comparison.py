"""A Comparison: all that a Study says about which method is better, on what, and how sure that is.

One function, `compare`, joins fusion, tests over datasets, redundancy and stability, decides which
test may speak, and collects the doubts. It computes nothing that the modules below do not compute;
reports only read it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis import beyond_pvalues
from mlflow_mleval.analysis.fusion import (
    METHODS,
    Fusion,
    Redundancy,
    Retest,
    Scenario,
    Stability,
    Survivals,
    against_the_order,
    collected,
    correlation_of,
    first_ranked,
    fuse,
    leaning,
    needed_by,
    redundancy,
    turning,
    v_shape,
)
from mlflow_mleval.analysis.pairs import (
    COLUMNS,
    PAIR,
    DatasetTests,
    PairTests,
    apart,
    behind,
    best_first,
    better_first,
    cells_of_pairs,
    cliques,
    letters,
    named_pairs,
    pair_matrix,
    places,
    possible_ranks,
    rows_of_tests,
)
from mlflow_mleval.analysis.posthoc import asked_names, make_tests
from mlflow_mleval.analysis.posthoc.max_t import (
    MaxTResult,
    OverFolds,
    OverRepeats,
    OverSeeds,
    Posthoc,
    Tested,
    datasets_needed,
    half_widths,
)
from mlflow_mleval.analysis.posthoc.rank_tests import (
    FriedmanResult,
    NemenyiResult,
    PairwiseResult,
    SkillingsMackResult,
    Wilcoxon,
    friedman,
    kendall,
    skillings_mack,
)
from mlflow_mleval.analysis.promethee import Gaia, Weights, tied_ranks
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.package import Detailed
from mlflow_mleval.selection import Choices
from mlflow_mleval.sentences import Argument, Message
from mlflow_mleval.study import Study, left_out
from mlflow_mleval.validation import at_least_one, known_keywords, one_of, probability

# what a study without folds, repeats, instances and profiles does not need loads where it is used
if TYPE_CHECKING:
    from mlflow_mleval.analysis.fold_comparison import FoldComparison
    from mlflow_mleval.analysis.hierarchical_t import NextDataset
    from mlflow_mleval.analysis.loss_profiles import ProfileComparison, Profiles
    from mlflow_mleval.analysis.pairs_by_unit import InstanceTests, RepeatTests

FUSED = "fused"
#: Fewer datasets than this, and a rank test says nothing worth printing.
MIN_DATASETS = 2
#: Of more methods the repeats of each dataset are not tested: `mleval compare --over repeats` does.
MOST_METHODS = 12
#: Random weightings that say how often each method gets each rank.
WEIGHTINGS = 10_000
#: By what methods may be in order.
ORDERS = ("mean-value", "mean-rank")
FLOWS = ["phi_plus", "phi_minus", "phi"]


@dataclass(frozen=True)
class Comparison(Detailed):
    """What `compare` found. Tests compare `table` (larger is better) by net `flows`; `order` is
    best first but for what the `deciding` test separates; `absent` says why a part is missing."""

    study: Study
    fusion: Fusion
    on: str
    table: pd.DataFrame
    flows: pd.DataFrame
    ranks: pd.DataFrame
    tested: Tested
    scores: pd.Series
    order: list[str]
    friedman: FriedmanResult | None
    skillings_mack: SkillingsMackResult | None
    posthoc: tuple[Posthoc, ...]
    deciding: Posthoc | None
    decision: str
    cliques: list[list[str]]
    letters: Mapping[str, str]
    redundancy: Redundancy | None
    stability: Stability | None
    folds: Mapping[str, FoldComparison]
    profiles: ProfileComparison | None
    instances: Mapping[str, InstanceTests]
    doubts: tuple[str, ...]
    absent: Mapping[str, str]
    options: Choices

    def reweighed(self, weights: Weights) -> Comparison:
        """The same with other weights: only what these change is made anew."""
        return _comparison_by(
            self.fusion.reweighed(weights),
            {**self.options, "weights": weights},
            None if self.redundancy is None else self.redundancy.correlation,
            self.stability is not None,
            self.absent,
            folds=self.folds,
            profiles=self.profiles,
            instances=self.instances,
        )

    @property
    def leader(self) -> str:
        """The method that comes first in the order; it is in the best set."""
        return self.order[0]

    @property
    def n_pairs(self) -> int:
        """How many pairs are compared: all, or those with the control."""
        n = len(self.order)
        return math.comb(n, 2) if self.options["control"] is None else n - 1

    def is_separated(self, a: str, b: str) -> bool:
        """Whether the deciding test separates the two methods, in either direction."""
        return (a, b) in self.separated or (b, a) in self.separated

    @cached_property
    def leaders(self) -> list[str]:
        """The methods of the best set with the score of the leader: one, unless they tie."""
        rank = pd.Series(tied_ranks(-self.scores.to_numpy()), self.order)
        return [m for m in self.best_set if rank[m] == rank[self.leader]]

    @cached_property
    def told_apart(self) -> list[tuple[str, str]]:
        """The pairs (better, worse) of the tests that decide, but those that disagree."""
        unit = self.decides_over
        if not unit or (self.deciding is not None and self.deciding.over == unit):
            return self.separated
        found = chain.from_iterable(tests.better for tests in self.tests_over(unit).values())
        pairs = dict.fromkeys((str(better), str(worse)) for better, worse in found)
        return [pair for pair in pairs if pair[::-1] not in pairs]

    @cached_property
    def best_set(self) -> list[str]:
        """The methods that none of these pairs puts below another, in the order of the ranking."""
        below = {worse for _, worse in self.told_apart}
        return [m for m in self.order if m not in below] or self.order

    @property
    def compared(self) -> str:
        """What the tests compare, in words: "net flow φ", or the measure."""
        return "net flow φ" if self.on == FUSED else self.on

    # ---- tests of pairs --------------------------------------------------------------------------

    @property
    def decides(self) -> str:
        """Which test gives the verdict about pairs: "max-t" or what was asked for, else "none"."""
        return "none" if self.deciding is None else self.deciding.asked

    @cached_property
    def separated(self) -> list[tuple[str, str]]:
        """The pairs (better, worse) that the deciding test separates at `alpha`."""
        return [] if self.deciding is None else list(self.deciding.result.significant_pairs)

    @property
    def decides_over(self) -> str:
        """Over what it decides: "datasets", "repeats", "folds", "answers", "instances" or ""."""
        if self.deciding is not None and not self.deciding.unable:
            return self.deciding.over
        kinds = [one.unit for one in self.instances.values()]
        return "folds" if self.folds else next(iter(sorted(kinds)), "")

    @property
    def max_t(self) -> MaxTResult | None:
        """Step-down max-T by sign changes of whole datasets."""
        return self._made("max_t")

    @property
    def pairwise(self) -> PairwiseResult | None:
        """Wilcoxon's signed ranks."""
        return self._made("pairwise")

    @property
    def nemenyi(self) -> NemenyiResult | None:
        """Nemenyi's test of mean ranks; with a control the Bonferroni-Dunn test against it."""
        return self._made("nemenyi")

    def _made(self, key: str) -> Any:
        return next((made.result for made in self.posthoc if made.key == key), None)

    @property
    def letters_apply(self) -> bool:
        """Whether letters say something: a test decides, and it compared all pairs."""
        return self.deciding is not None and self.options["control"] is None

    @cached_property
    def comparison_intervals(self) -> pd.DataFrame | None:
        """By method, best first: mean, low, high; two lie apart about where the deciding test
        separates the methods (Hochberg & Tamhane 1987). None where no such thing is."""
        made = self.deciding
        half: Any
        if made is None or not self.letters_apply:
            return None
        if made.critical_difference is not None:
            mean, half = self.ranks.mean()[self.order], made.critical_difference / 2
        elif self.decides == "max-t" and not made.unable:
            mean = self.flows.mean()[self.order]
            half = half_widths(self.tested.flows[self.order], made.result)
        else:
            return None
        return pd.DataFrame({"mean": mean, "low": mean - half, "high": mean + half})

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """One row a pair in the order: the separated first, then by p-value. Differences are a
        minus b; flow_low and flow_high hold for all pairs together."""
        columns = [
            *("method_a", "method_b", "n", "mean_rank_difference", "mean_difference"),
            *("flow_difference", "flow_low", "flow_high", "wins", "ties", "losses"),
            *("effect_size", "statistic", "pvalue", "pvalue_corrected"),
        ]
        if self.deciding is None:
            columns += ["pvalue_max_t", "pvalue_nemenyi", "separated", "doubts"]
            return pd.DataFrame(columns=columns)
        if self.pairwise is not None:
            rows = self.pairwise.table
        else:  # a single dataset, of which no signed ranks are
            values = self.table[self.order].to_numpy(float)[0]
            first, second = np.triu_indices(len(values), 1)
            size = values[first] - values[second]
            known = {"n": 1, "mean_difference": size, **named_pairs(self.order, first, second)}
            counts = {"wins": size > 0, "ties": size == 0, "losses": size < 0}
            rows = pd.DataFrame({**known, **counts}).astype(dict.fromkeys(counts, int))
        if isinstance(self.deciding.result, MaxTResult):
            flows = {"mean_difference": "flow_difference", "low": "flow_low", "high": "flow_high"}
            limits = self.deciding.result.table[[*PAIR, *flows]].rename(columns=flows)
            rows = rows.merge(limits, "left", PAIR)
        pairs = better_first(rows, behind(rows, self.order))
        a, b = pairs["method_a"], pairs["method_b"]
        ranks, means = self.ranks.mean(), self.table.mean()
        if self.on != FUSED and self.deciding.over == "repeats":  # blocks hold net flows
            pairs["mean_difference"] = a.map(means) - b.map(means)
        pairs["mean_rank_difference"] = a.map(ranks) - b.map(ranks)
        others = [made for made in self.posthoc if made.column not in pairs]
        for made in others:
            pairs[made.column] = cells_of_pairs(made.result.pvalues, pairs)
        pairs["separated"] = cells_of_pairs(apart(self.order, self.separated), pairs)
        counted = self.deciding.by_mean_ranks or self.options["missing_is_failure"]
        filled = pairs[PAIR].isin({method for _, method in self.study.filled}).any(axis=1)
        often = f"results of the two were filled by the policy {self.study.missing}"
        # objects, for texts of numpy take the room of the longest in every row
        pairs["doubts"] = pd.Series("", pairs.index, dtype=object)
        pairs.loc[pairs["separated"] & filled & counted, "doubts"] = often
        keys = pairs.assign(kept=~pairs["separated"], **places(pairs, self.order))
        by = ["kept", self.deciding.sort, "mean_rank_difference", "a", "b"]
        columns += [*(made.column for made in others), "separated", "doubts"]
        return pairs.reindex(keys.sort_values(by).index, columns=columns).reset_index(drop=True)

    def tests_over(self, unit: str) -> Mapping[str, PairTests]:
        """By dataset, the tests of pairs over a unit; the name of those over datasets is empty."""
        if unit == "folds":
            return self.folds
        if unit != "datasets":
            return {d: tests for d, tests in self.instances.items() if tests.unit == unit}
        if (made := self.deciding) is None:
            return {}
        rows = self.pairs.rename(columns={"mean_difference": "difference", "doubts": "doubt"})
        for end in ("low", "high"):
            rows[end] = rows[f"flow_{end}"] if self.on == FUSED else np.nan
        single = getattr(made.result, "table", pd.DataFrame())
        raw: Any = np.nan
        if "pvalue" in single:
            a, b, p = (single[name] for name in (*PAIR, "pvalue"))
            raw = cells_of_pairs(pair_matrix(self.order, a, b, p, np.nan), rows).astype(float)
        rows = rows.assign(measure=self.on, pvalue=raw, pvalue_corrected=rows[made.column])
        over_all = DatasetTests(
            table=rows[COLUMNS],
            methods=self.order,
            measures=[self.on],
            alpha=self.options["alpha"],
            n_comparisons=len(rows),
            notes=self.doubts,
            wording=made.wording,
            n=len(self.ranks),
            claim=made.about,
        )
        return {"": over_all}

    def untested_over(self, unit: str) -> dict[str, str]:
        """By dataset, why there are no tests over folds, or over instances or answers."""
        start = f"{'instances' if unit == 'answers' else unit}."
        absent = self.absent.items()
        return {key.removeprefix(start): why for key, why in absent if key.startswith(start)}

    @property
    def possible(self) -> pd.DataFrame:
        """By method, the ranks low to high that the separated pairs leave it."""
        return possible_ranks(self.order, self.told_apart)

    # ---- the fused ranking -----------------------------------------------------------------------

    @cached_property
    def ranking(self) -> pd.DataFrame:
        """One row a method, best first; neighbours with equal scores share a position."""
        fused = self.fusion.ranking
        mean = self.ranks.mean()
        new = np.diff(tied_ranks(-self.scores.to_numpy()), prepend=0) != 0
        table = {
            "position": np.maximum.accumulate(np.where(new, np.arange(len(new)) + 1, 1)),
            "method": self.order,
            "rank": fused["mean_rank"],
            **fused[FLOWS],
            "mean_rank": mean,
            "letters": [self.letters[m] if self.letters_apply else None for m in self.order],
            **(dict.fromkeys(("low", "high")) if self.options["control"] else self.possible),
        }
        return pd.DataFrame(table, self.order).reset_index(drop=True)

    @cached_property
    def by_dataset(self) -> pd.DataFrame:
        """One row a dataset and method, in the order of the ranking of that dataset."""
        flows = self.fusion.flows
        methods = flows.by_measure.methods
        phi = {"phi_plus": flows.plus, "phi_minus": flows.minus, "phi": flows.phi}
        order = np.argsort(flows.ranks, axis=1, kind="stable")
        table = {"dataset": self.ranks.index.repeat(len(methods)), "method": methods[order.ravel()]}
        for name, values in {"rank": flows.ranks, **phi}.items():
            table[name] = np.take_along_axis(values, order, axis=1).ravel()
        return pd.DataFrame(table)

    @property
    def mean_flows(self) -> pd.DataFrame:
        """Net flow by each measure alone, averaged over datasets: methods x measures."""
        by = self.fusion.flows.by_measure
        return pd.DataFrame(by.net.mean(axis=0).T, by.methods, by.measures)

    @property
    def plane(self) -> Gaia | None:
        """The GAIA plane of the mean flows; None with fewer than three measures or methods."""
        if len(self.study.measures) < 3 or len(self.order) < 3:
            return None
        one = self.fusion.flows.result(0)
        return replace(one, unicriterion=self.mean_flows, weights=self.fusion.weights.mean()).gaia()

    # ---- measures --------------------------------------------------------------------------------

    @cached_property
    def _ranks_by_measure(self) -> pd.DataFrame:
        """Measures x methods: the ranks by each alone, ties averaged."""
        tables = {m: _tested(self.fusion, m)[0] for m in self.study.measures}
        scores = pd.DataFrame({m: v_shape(table).mean() for m, table in tables.items()}).T
        return pd.DataFrame(tied_ranks(-scores.to_numpy()), scores.index, scores.columns)

    @cached_property
    def measures(self) -> pd.DataFrame:
        """By measure: direction, who leads by it alone (NaN where several tie), and its mean
        rank."""
        rows = {}
        for measure, ranks in self._ranks_by_measure.iterrows():
            first, *tied = first_ranked(ranks)
            way, mean = self.study.directions[measure], self.study.ranks(measure)[first].mean()
            leader = None if tied else first
            rows[measure] = {"direction": way, "leader": leader, "mean_rank": mean}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("measure")

    @property
    def concordance(self) -> pd.DataFrame:
        """Kendall's tau-b between the rankings by the single measures and the fused one."""
        fused = self.fusion.ranking["rank"].rename(FUSED)
        return kendall(pd.concat([fused.to_frame().T, self._ranks_by_measure]))

    @property
    def weights_long(self) -> pd.DataFrame:
        """One row a dataset and measure."""
        weights = self.fusion.weights.rename_axis(index="dataset", columns="measure")
        return weights.stack().rename("weight").reset_index()

    @property
    def values_long(self) -> pd.DataFrame:
        """The values that were fused, one row each; gaps hold what the policy gave them."""
        values = self.study.values.rename_axis(["dataset", "method"]).reset_index()
        # a measure may be called value itself, but not 0
        long = values.melt(["dataset", "method"], var_name="measure", value_name=0)
        return long.rename(columns={0: "value"})[["measure", "dataset", "method", "value"]]

    # ---- folds and repeats: of the measure tested, or the two of most weight; computed when first

    @property
    def tells_of_next_dataset(self) -> bool:
        """Whether cells of two datasets have more than one value."""
        several = self.study.folds is not None or self.study.repeats is not None
        return several and len(self.study.datasets) > 1

    @cached_property
    def next_dataset(self) -> NextDataset | None:
        """The hierarchical correlated t test; None where it was not asked for or cannot be made."""
        if not self.options["next_dataset"] or not self.tells_of_next_dataset:
            return None
        from mlflow_mleval.analysis.hierarchical_t import next_dataset

        over = {key: self.options["over_folds"].get(key) for key in ("protocol", "ratio")}
        choices = {key: self.options[key] for key in ("rope", "alpha")}
        measures = self.fusion.by_weight if self.on == FUSED else [self.on]
        in_units = self.on != FUSED
        return next_dataset(self.study, measures, self.order, in_units=in_units, **choices, **over)

    @cached_property
    def beyond(self) -> beyond_pvalues.BeyondPvalues | None:
        """What lies beyond p-values; only where a rope was given."""
        if (rope := self.options["rope"]) is None:
            return None
        return beyond_pvalues.beyond_pvalues(self.tested, self.order, rope)

    @cached_property
    def equivalent(self) -> float | None:
        """How probable it is that the first two differ by no more than the rope; None without, or
        on too few datasets."""
        rope = self.options["rope"]
        if rope is None or len(self.tested.table) < beyond_pvalues.FEW:
            return None
        try:
            found = beyond_pvalues.bayes_of(self.tested, self.order[:2], rope)
        except ValueError:  # no two datasets hold both
            return None
        return float(found.table["p_equivalent"].iloc[0])

    # ---- stability -------------------------------------------------------------------------------

    @cached_property
    def needed_by(self) -> pd.DataFrame | None:
        """How each separation fares without any one dataset or other method; None but for max-T."""
        if self.deciding is None or self.decides != "max-t":
            return None
        fusion = self.fusion if self.on == FUSED else None
        return needed_by(self.tested.flows, self.deciding.result, fusion)

    @property
    def scenarios(self) -> list[Scenario]:
        """The fused ranking as asked for, and under other choices; none if not examined."""
        return [] if self.stability is None else self.stability.sensitivity.scenarios

    def survivals(self) -> Survivals | None:
        """What the lead in the fused ranking survives; None where that was not examined."""
        if self.stability is None:
            return None
        scenarios, without = self.scenarios[1:], self.stability.leave_one_out
        leader = self.fusion.ranking.index[0]
        lost = [one for one in scenarios if one.leaders != [leader]]
        changes = {} if without is None else without.winner_changes
        n_others = None if without is None else len(without.ranks) - 1
        rivals = [m for one in lost for m in one.leaders if m != leader]
        rivals = list(dict.fromkeys([*rivals, *changes.values()]))
        return Survivals(len(scenarios), lost, n_others, changes, rivals)


@known_keywords
def compare(
    study: Study | Fusion,
    *,
    on: str = FUSED,
    order: str | None = None,
    alpha: float = 0.05,
    ties: str = "correct",
    test: str = "max-t",
    control: str | None = None,
    missing_is_failure: bool = False,
    max_correlation: float = 0.9,
    stability: bool | int = False,
    seed: int = 0,
    over_folds: Choices | None = None,
    profiles: Profiles | None = None,
    rope: float | None = None,
    next_dataset: bool = False,
    instances: Mapping[str, InstanceTests | str] | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Comparison:
    """Fuse the measures of a study, test the differences over datasets, and say how far to trust
    it.

    Parameters
    ----------
    study : Study or Fusion
        At least two methods; its policy for missing values is applied. To choose preference,
        thresholds or weights, give ``fuse(study, …)``.
    on : str
        "fused" or a measure: what is compared. The only measure of a study is compared as itself.
    order : {"mean-value", "mean-rank"}, optional
        Whether methods are in the order of the mean over datasets of what is compared, or of their
        mean rank, as in older papers. By default that which the deciding test compares: the mean
        value, but for tests of mean ranks.
    alpha : float
        Significance level of every test.
    ties : {"correct", "ignore"}
        Tie correction of the Friedman statistic; "ignore" reproduces the papers.
    test : {"max-t", "nemenyi", "wilcoxon", "bonferroni-dunn", "benjamini-hochberg"}
        Which test decides about pairs; "bonferroni-dunn" needs a control, "nemenyi" compares all
        pairs.
    control : str, optional
        Compare every method with this one only.
    missing_is_failure : bool
        Whether a method that did not finish failed there. Then what the policy "worst" gave it
        counts in tests of pairs, too; else a pair goes by the datasets on which both finished (but
        for tests of mean ranks, which need every cell).
    max_correlation : float
        Absolute correlation above which a measure is redundant.
    stability : bool or int
        Whether to examine how sure the ranking is (weights, left-out methods, other functions and
        policies); a number says by how many random weightings, 10,000 by default.
    seed : int
        Of everything random.
    over_folds : mapping, optional
        Options of `compare_folds`: measures, protocol, ratio, paired.
    profiles : Profiles, optional
        Loss profiles of the same runs, to be compared too; see `compare_profiles`.
    instances : mapping of dataset to InstanceTests (or AnswerComparison) or str, optional
        What the instances of datasets say, to be reported too, or why they say nothing; see
        `instance_tests`, `compare_answers`.
    rope : float, optional
        Largest difference that does not matter, in units of what is compared. Given, `beyond` says
        how probable larger ones are, which ranks are possible, and how many datasets or folds it
        would take.
    next_dataset : bool
        Whether to ask the hierarchical model about the next dataset, where two have folds or
        repeats: of every pair, and how many datasets it would take.
    progress : callable, optional
        Called as ``progress(done, total)`` after each step.

    Raises
    ------
    IncomparableRunsError
        Fewer than two methods, or an unknown control.

    Examples
    --------
    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> compare(Study.from_frame(frame)).leader
    'b'
    """  # noqa: E501
    fusion = study if isinstance(study, Fusion) else fuse(study)
    full = fusion.study
    on = full.measures[0] if len(full.measures) == 1 else on
    _check_choices(full, on, test, control, missing_is_failure)
    beyond_pvalues.checked_rope(rope or 0.0, "what is compared")
    probability(alpha, "alpha")
    n_resamples = WEIGHTINGS if stability is True else at_least_one(stability or 1, "stability")
    steps = iter(range(1, n := 4 + len(full.datasets) * (full.folds is not None)))

    def step(result: Any = None) -> Any:
        progress(next(steps, n), n)
        return result

    step()
    over_folds = dict(over_folds or {})
    absent: dict[str, str] = {}
    by_fold = {}
    if full.folds is not None:
        from mlflow_mleval.analysis.fold_comparison import compare_all_folds

        by_fold = compare_all_folds(full, absent, step, alpha=alpha, **over_folds)
    by_instance = {}
    for dataset, one in (instances or {}).items():
        if isinstance(one, str):
            absent[f"instances.{dataset}"] = one
        else:
            by_instance[dataset] = one
    along = step(profiles and _along_profiles(full, profiles, alpha, over_folds, absent))
    correlation = None
    if len(full.measures) > 1 and len(full.methods) > 2:
        correlation = step(correlation_of(full))
    else:
        absent["redundancy"] = "needs at least two measures and three methods"
    options = {
        "on": on,
        **fusion.options,
        "order": order,
        "missing": full.missing,
        "alpha": alpha,
        "ties": ties,
        "test": test,
        "control": control,
        "missing_is_failure": missing_is_failure,
        "threshold": max_correlation,
        "n_draws": n_resamples,
        "seed": seed,
        "rope": rope,
        "over_folds": over_folds,
        "next_dataset": next_dataset,
    }
    beside = {"folds": by_fold, "profiles": along, "instances": by_instance}
    made = _comparison_by(fusion, options, correlation, bool(stability), absent, **beside)
    progress(n, n)
    return made


def _comparison_by(
    fusion: Fusion,
    options: dict[str, Any],
    correlation: pd.DataFrame | None,
    examined: bool,
    absent: Mapping[str, str],
    **beside: Any,
) -> Comparison:
    """The comparison by these weights; `beside` are the parts that no weights change."""
    study, full, absent = fusion.given, fusion.study, dict(absent)
    on, counted = options["on"], options["missing_is_failure"]
    table, ranks = _tested(fusion, on)
    there = study.select(None if on == FUSED else [on]).finished().reindex_like(table)
    for dataset, method in study.filled:
        there.loc[dataset, method] = False
    there |= counted
    flows = table if on == FUSED else v_shape(table)
    chosen = {name: options[name] for name in ("alpha", "control", "seed")}
    tested = Tested(table.where(there), ranks, flows.where(there), **chosen)
    tests = _tests(fusion, tested, beside, options, absent)
    made = tests["deciding"]
    order = options["order"] or ORDERS[made is not None and made.by_mean_ranks]
    one_of(order, "order", ORDERS)
    scores = {"mean-value": flows.mean(), "mean-rank": -ranks.mean()}[order]
    pairs = [] if made is None else made.result.significant_pairs
    methods, turned = best_first(scores, pairs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tests["cliques"] = groups = cliques(apart(methods, pairs))
    tests["letters"] = letters(groups, methods)
    warned = [str(w.message) for w in caught]
    redundant = None
    if correlation is not None:
        redundant = redundancy(fusion, options["threshold"], correlation)
    again = _retest(made, tested, there) if on == FUSED else None
    sure = _stability(fusion, again, correlation, options, absent) if examined else None
    of = "rank" if order == "mean-rank" else "net flow"
    yardsticks = {"mean net flow": flows.mean(), "mean rank": -ranks.mean()}
    could_turn = []
    if on == FUSED:
        # how far the plain means of a method are ahead of the leader's, where they are least
        means = full.values.groupby(level="method", sort=False).mean()
        means[full.minimize] *= -1
        spread = (means.max() - means.min()).replace(0, 1)
        least = ((means - means.loc[methods[0]]) / spread).min(axis=1)
        yardsticks["the plain mean of every measure"] = least
        could_turn = turning(fusion, again, leaning(study, tested, made, counted))
    else:
        yardsticks["plain mean"] = table.mean()
    could_turn += against_the_order(turned, f"mean {of}", methods[0], yardsticks)
    return Comparison(
        study=full,
        fusion=fusion,
        on=on,
        table=table,
        flows=flows,
        ranks=ranks,
        tested=tested,
        scores=scores[methods],
        order=methods,
        redundancy=redundant,
        stability=sure,
        absent=absent,
        doubts=collected(full, fusion, tests, warned, could_turn, counted),
        options={**options, "order": order},
        **beside,
        **tests,
    )


def _retest(made: Posthoc | None, tested: Tested, there: pd.DataFrame) -> Retest | None:
    """The deciding test, to be made again under other choices; None where that says nothing."""
    if made is None or made.over != "datasets" or len(there.columns) > METHODS:
        return None
    pairs = made.result.significant_pairs
    return Retest(made, pairs, tested, there) if pairs else None


def _stability(
    fusion: Fusion,
    again: Retest | None,
    correlation: pd.DataFrame | None,
    options: Choices,
    absent: dict[str, str],
) -> Stability | None:
    """How sure the fused ranking is; `absent` gets what cannot be said of it."""
    if len(fusion.study.measures) == 1:
        absent["stability"] = "one measure has no weights and no preference function to vary"
        return None
    if len(fusion.study.methods) < 3:
        absent["stability.leave_one_out"] = "needs three methods"
    draws = options["n_draws"], options["seed"]
    return Stability(fusion, fusion.given, again, correlation, *draws)


def _check_choices(
    study: Study, on: str, test: str, control: str | None, missing_is_failure: bool
) -> None:
    """Errors for choices that do not fit the study."""
    one_of(test, "test", asked_names())
    if missing_is_failure and study.missing != "worst":
        text = "`missing_is_failure` must be False where missing results do not count as the worst"
        raise ValueError(Message(f"{text}. Choose ", Argument("missing", "worst"), "."))
    if control is not None and control not in study.methods:
        text = f"the control {control!r} is not among the methods {', '.join(study.methods)}."
        gone = left_out(one for one in study.excluded if one.name == control)
        raise IncomparableRunsError(" ".join([text, *gone]))
    if on != FUSED:
        study.cells(on)


def _along_profiles(
    study: Study, profiles: Profiles, alpha: float, over_folds: Choices, absent: dict[str, str]
) -> ProfileComparison | None:
    """The comparison of the loss profiles of what the study holds."""
    from mlflow_mleval.analysis.loss_profiles import compare_profiles

    of_study = profiles.select(study.values.index)
    if not any(len(of_study.on(dataset)) > 1 for dataset in of_study.datasets):
        absent["profiles"] = "no two methods carry a loss profile on the same dataset"
        return None
    options: dict[str, Any] = {key: over_folds.get(key) for key in ("protocol", "ratio")}
    new = tuple(note for note in of_study.notes if note not in study.notes)
    return compare_profiles(replace(of_study, notes=new), alpha=alpha, **options)


def _tested(fusion: Fusion, on: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Values (larger is better) and ranks (1 is best) that tests compare: datasets x methods."""
    if on == FUSED:
        return fusion.phi, fusion.ranks
    study = fusion.study
    return study.cells(on) * (-1 if study.directions[on] == "min" else 1), study.ranks(on)


def _tests(
    fusion: Fusion, tested: Tested, beside: Choices, options: Choices, absent: dict[str, str]
) -> dict[str, Any]:
    """The fields of `Comparison` that hold tests over datasets, or by `_over_units`."""
    study, test, n = fusion.study, options["test"], len(tested.ranks)
    out: dict[str, Any] = {"friedman": None, "skillings_mack": None}
    posthoc: list[Posthoc] = []
    if unsure := study.unsure("dataset"):
        reason, out["decision"] = unsure, Message("No test decides. ", unsure)
    elif n < MIN_DATASETS:
        reason = f"{n} dataset: tests over datasets need at least {MIN_DATASETS}"
        out["decision"] = f"No test over datasets is possible with {n} dataset."
    else:
        out["friedman"] = friedman(tested.ranks, ties=options["ties"])
        posthoc = make_tests(tested, test)
    on, given = options["on"], fusion.given
    if on != FUSED and len(given.datasets) > 1 and given.cells(on).isna().any(axis=None):
        out["skillings_mack"] = skillings_mack(given.ranks(on))  # leaves empty cells empty
    if not posthoc:
        absent |= dict.fromkeys(("friedman", "max_t", "nemenyi", "pairwise"), reason)
    deciding = next((one for one in posthoc if one.asked == test), None)
    few = n < datasets_needed(tested.alpha) and not study.unsure("repeat")
    if few and test == "max-t" and (over_units := _over_units(beside, fusion, tested, on)):
        deciding = over_units[0]
        posthoc = [*(posthoc if deciding.by_unit else []), *over_units]
    if deciding is not None:
        out["decision"] = f"{deciding.sentence}."
    return {**out, "posthoc": tuple(posthoc), "deciding": deciding}


def _over_units(beside: Choices, fusion: Fusion, tested: Tested, on: str) -> list[Posthoc]:
    """Where datasets are too few: max-T by blocks of repeats, and signed ranks; else tests of each
    dataset, over the folds of several, or repeats where nothing else could decide."""
    by_fold, study = beside["folds"], fusion.study
    measures = study.measures if on == FUSED else [on]
    if study.repeats is not None:
        from mlflow_mleval.analysis.pairs_by_unit import flows_of_repeats

        flows = flows_of_repeats(fusion, None if on == FUSED else on)
        if flows is not None and len(flows) >= datasets_needed(tested.alpha):
            ranks = flows.rank(axis=1, ascending=False)
            blocks = replace(tested, table=flows, ranks=ranks, flows=flows)
            return [OverRepeats(blocks, len(study.datasets), study.same_split()), Wilcoxon(blocks)]
    if tested.control is not None:
        return []
    if by_fold:
        about_this = on == FUSED or all([*one.measures] == [on] for one in by_fold.values())
        decides = len(by_fold) >= MIN_DATASETS and about_this
        return [OverFolds(tested, by_fold)] if decides else []
    tests = {} if beside["instances"] else tests_of_repeats(study, measures, tested.alpha)
    return [OverSeeds(tested, tests)] if tests else []


def tests_of_repeats(study: Study, measures: list[str], alpha: float) -> dict[str, RepeatTests]:
    """By dataset the tests of few methods over their repeats; none where some cell has too few."""
    if study.repeats is None or len(study.methods) > MOST_METHODS:
        return {}
    from mlflow_mleval.analysis.pairs_by_unit import FEWEST, compare_all_repeats

    tests = compare_all_repeats(study, {}, measures, alpha=alpha)
    tested = rows_of_tests(tests).dropna(subset="pvalue")
    return tests if tested["n"].min() >= FEWEST else {}
