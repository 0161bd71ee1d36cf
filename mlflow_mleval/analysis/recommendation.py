"""Whom a comparison speaks for, how sure that is, and a closer look at a method, a dataset or a
pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.answer_comparison import AnswerComparison
from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.fusion import mean_ranking
from mlflow_mleval.analysis.pairs import NOISE, better_first, mean_intervals
from mlflow_mleval.analysis.stability import first_ranked

# --------------------------------------------------------------------------------------------------
# What to use: whom the results speak for, by how much in the measures' own units, how sure, and
# what could turn it.

#: How many measures the answer is given in.
MEASURES = 2


@dataclass(frozen=True)
class Decision:
    """The answer to "which one shall I use?".

    Attributes
    ----------
    methods : Who leads: one, unless they tie.
    best : The methods that may be the best: none is separated from them on the better side. Empty without a test over datasets.
    separated : Methods that are separated from the leader, below it; None without a test over datasets.
    by_answers : Where there is but one dataset, and its answers are known: methods whose answers are separated from the leader's,
        which are better.
    measures : Measures in whose units it is told: the one that is compared, else those of most weight.
    means : By measure: methods (in order of the ranking) x mean, low, high over the datasets with a result, at 1 - alpha.
    next : The next in the ranking; None where all tie.
    differences : By measure, the leader's mean minus that of the next, over datasets on which both have a result, and how many.
    turns : What could turn it: {kind, ...}; None where nothing that was tried does.
    """  # noqa: E501

    methods: list[str]
    best: list[str]
    separated: list[str] | None
    by_answers: list[str] | None
    measures: list[str]
    means: Mapping[str, pd.DataFrame]
    next: str | None
    differences: Mapping[str, tuple[float, int]]
    turns: Mapping[str, Any] | None


def decision(c: Comparison) -> Decision:
    """The answer that a comparison gives; of several leaders the first is compared with the
    next.
    """
    weights = c.fusion.weights.mean()
    heaviest = weights.sort_values(ascending=False, kind="stable").index[:MEASURES]
    measures = [c.on] if c.on != FUSED else [m for m in c.study.measures if m in heaviest]
    there = pd.DataFrame(True, c.study.datasets, c.order)
    for dataset, method in c.study.filled:
        there.loc[dataset, method] = False
    cells = {m: c.study.cells(m)[c.order].where(there) for m in measures}
    rest = [m for m in c.order if m not in c.leaders]
    best, separated, by_answers = [], None, None
    if c.deciding is None:
        by_answers = _by_answers(c)
    else:
        best = c.best_set
        separated = [b for a, b in c.separated if a == c.leader]
    return Decision(
        methods=c.leaders,
        best=best,
        separated=separated,
        by_answers=by_answers,
        measures=measures,
        means={m: mean_intervals(table, c.options["alpha"]) for m, table in cells.items()},
        next=rest[0] if rest else None,
        differences=_differences(c.leader, rest[0], cells) if rest else {},
        turns=_turns(c),
    )


def _differences(
    leader: str, other: str, cells: Mapping[str, pd.DataFrame]
) -> dict[str, tuple[float, int]]:
    """By measure, the mean difference over the datasets that both finished, and their number."""
    gaps = {m: (table[leader] - table[other]).dropna() for m, table in cells.items()}
    return {m: (float(gap.mean()), len(gap)) for m, gap in gaps.items()}


def _by_answers(c: Comparison) -> list[str] | None:
    answers = c.instances.get(c.study.datasets[0])
    return answers.worse_than(c.leader) if isinstance(answers, AnswerComparison) else None


def _turns(c: Comparison) -> dict[str, Any] | None:
    """The likeliest other choice that puts another method first, or that makes the lead worth
    little.
    """
    if len(c.leaders) > 1:
        weighed = c.on == FUSED and len(c.study.measures) > 1 and len(c.leaders) < len(c.order)
        return {"kind": "tie"} if weighed else None
    if c.on != FUSED:
        return _untested(c)
    if len(c.order) == 2 and all(c.options[key] is None for key in "pqs"):
        return {"kind": "two methods"}
    turned = _equal_weights(c) if c.stability is None else _scenario(c)
    if turned := turned or _untested(c):
        return turned
    if c.stability is None:
        return {"kind": "missing"} if c.study.filled else None
    single = c.stability.dethrone.single
    if single is None:
        return None
    return {
        "kind": "weight",
        "choice": single["measure"],
        "to": single["to"],
        "weight": single["weight"],
        "methods": [single["rival"]],
    }


def _scenario(c: Comparison) -> dict[str, Any] | None:
    """The first other policy, else other weights, else another function under which others lead."""
    lost = {}
    for key, part in c.scenarios.items():
        first = first_ranked(part.set_index("method")["rank"])
        if first != [c.leader]:
            lost[key] = first
    for varies in ("policy", "weights", "function"):
        for (kind, function, weights, missing), first in lost.items():
            same = function == c.options["preference"]
            if varies == ("policy" if kind == "policy" else "weights" if same else "function"):
                choice = {"policy": missing, "weights": weights, "function": function}[varies]
                return _led_by(c, varies, choice, first)
    return None


def _equal_weights(c: Comparison) -> dict[str, Any] | None:
    """That others lead with equal weights, where entropy gave the weights."""
    if c.options["weights"] != "entropy" or len(c.study.measures) < 2:
        return None
    equal = c.fusion.flows.by_measure.weigh("equal", c.options["drop_constant"])
    first = first_ranked(mean_ranking(equal)["rank"])
    return None if first == [c.leader] else _led_by(c, "weights", "equal", first)


def _led_by(c: Comparison, kind: str, choice: Any, first: list[str]) -> dict[str, Any]:
    others = [m for m in first if m != c.leader] or first
    return {"kind": kind, "choice": choice, "methods": others}


def _untested(c: Comparison) -> dict[str, Any] | None:
    """That the tests leave the lead open, or that there are none."""
    if c.deciding is None:
        return {"kind": "one dataset"}
    return None if any(a == c.leader for a, _ in c.separated) else {"kind": "chance"}


# --------------------------------------------------------------------------------------------------
# A closer look at what a comparison holds: one cell, one method, or one pair of methods, measure by
# measure.


def runs_of_cell(c: Comparison, dataset: str, method: str) -> pd.DataFrame:
    """One row a run: what is known of it, and its value of each measure; NaN where it did not
    finish.
    """
    study = c.study
    if not {"dataset", "method", "run_id"} <= {*study.runs.columns}:
        return pd.DataFrame()
    runs = study.runs[
        (study.runs["dataset"] == dataset) & (study.runs["method"] == method)
    ].reset_index(drop=True)
    finished = runs.index[runs["status"] == "complete"] if "status" in runs else runs.index
    values = _at(study.repeats, dataset, method)
    if values.empty and (dataset, method) not in study.filled:
        values = study.values.loc[[(dataset, method)]]
    if len(values) != len(finished):
        return runs
    return runs.join(values.set_axis(finished))


def folds_of_cell(c: Comparison, dataset: str, method: str) -> pd.DataFrame:
    """Folds x measures; empty where the cell has none."""
    return _at(c.study.folds, dataset, method)


def measures_of_cell(c: Comparison, dataset: str, method: str) -> pd.DataFrame:
    """By measure: value; phi (net flow) and rank by it alone on this dataset; sd and standard_error
    over n repeats; fold_sd.
    """
    study, cell, place = c.study, (dataset, method), {m: i for i, m in enumerate(c.study.methods)}
    table = pd.DataFrame({"value": study.values.loc[cell]})
    flows = c.fusion.flows.by_measure.net[study.datasets.index(dataset)]
    table["phi"] = flows[:, place[method]]
    table["rank"] = [study.ranks(m).loc[dataset, method] for m in study.measures]
    for name, values in (("sd", study.spread), ("standard_error", study.standard_errors)):
        table[name] = values.loc[cell] if cell in values.index else float("nan")
    table["n"] = len(_at(study.repeats, *cell))
    folds = folds_of_cell(c, dataset, method)
    return table.assign(fold_sd=folds.std().reindex(table.index))


def measures_of_method(c: Comparison, method: str) -> pd.DataFrame:
    """By measure: weight; phi (mean net flow), mean_rank and place by it alone, 1 for the best mean
    rank.
    """
    means = pd.DataFrame({m: c.study.ranks(m).mean() for m in c.study.measures})
    return pd.DataFrame(
        {
            "weight": c.fusion.weights.mean(),
            "phi": c.mean_flows.loc[method],
            "mean_rank": means.loc[method],
            "place": means.round(9).rank(method="min").loc[method].astype(int),
        }
    )


def measures_of_pair(c: Comparison, a: str, b: str) -> pd.DataFrame:
    """By measure, over the datasets that both finished: how far a is better than b.

    Columns weight, mean_a, mean_b, n, difference (positive where a is better, whichever way the
    measure goes), low, high (its interval at 1 - alpha, not corrected), wins, ties, losses. Where a
    missing result is a failure, filled cells count.
    """
    study, filled = c.study, set() if c.options["missing_is_failure"] else set(c.study.filled)
    shared = [d for d in study.datasets if not {(d, a), (d, b)} & filled]
    first, second = (study.values.xs(m, level=1).reindex(shared) for m in (a, b))
    difference = first - second
    size = first.abs().combine(second.abs(), lambda x, y: x.where(x > y, y))
    difference = difference.mask(difference.abs() <= NOISE * size, 0.0)
    difference[study.minimize] *= -1
    intervals = mean_intervals(difference, c.options["alpha"])
    counts = {
        "wins": (difference > 0).sum(),
        "ties": (difference == 0).sum(),
        "losses": (difference < 0).sum(),
    }
    means = {
        "weight": c.fusion.weights.mean(),
        "mean_a": first.mean(),
        "mean_b": second.mean(),
        "n": difference.count(),
    }
    return pd.DataFrame({**means, **intervals.rename(columns={"mean": "difference"}), **counts})


def pairs_of(c: Comparison, method: str) -> pd.DataFrame:
    """The rows of `pairs` in which a method is, turned so that it is the first."""
    pairs = c.pairs[(c.pairs["method_a"] == method) | (c.pairs["method_b"] == method)]
    return better_first(pairs, pairs["method_a"] != method).reset_index(drop=True)


def _at(values: pd.DataFrame | None, dataset: str, method: str) -> pd.DataFrame:
    """The rows of a cell in a table by (dataset, method, …); none where there is no such table."""
    if values is None or (dataset, method) not in values.index.droplevel(2):
        return pd.DataFrame()
    return values.loc[(dataset, method)]
