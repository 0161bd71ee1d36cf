"""Whom a comparison speaks for, how sure that is, and closer looks at a method, dataset or pair."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from mlflow_mleval.analysis.beyond_pvalues import required_size
from mlflow_mleval.analysis.comparison import FUSED, Comparison, compare, tests_of_repeats
from mlflow_mleval.analysis.fusion import first_ranked, leaders_by, mean_ranking
from mlflow_mleval.analysis.pairs import NOISE, PairTests, rows_of_tests
from mlflow_mleval.analysis.posthoc.max_t import (
    MaxTResult,
    datasets_needed,
    half_widths,
    max_t,
    rows_of_pair,
)
from mlflow_mleval.errors import MlevalError
from mlflow_mleval.study import Study
from mlflow_mleval.validation import present

# --------------------------------------------------------------------------------------------------
# What to use.

#: How many measures the answer is given in, and for how many methods; so few are all shown.
MEASURES = 2
METHODS, ALL_METHODS = 5, 8
#: A weight that has to move by more than this to turn the answer is no doubt.
FAR = 0.25


@dataclass(frozen=True)
class Decision:
    """The answer to "which one shall I use?": who is ahead, the best set (all without evidence),
    who comes next, means in the measures' own units, and what could turn it."""

    evidence: str
    ahead: list[str]
    best_set: list[str]
    worse: list[str]
    next: str | None
    equivalent: float | None
    means: pd.DataFrame
    n_datasets: int
    turns: Mapping[str, Any] | None


def decision(c: Comparison) -> Decision:
    """The answer that a comparison gives; of several leaders the first stands beside the next."""
    study = c.study
    order = pd.Index(c.order)
    rest = order.difference(c.leaders, sort=False).tolist()
    most = METHODS if len(c.order) > ALL_METHODS else ALL_METHODS
    methods = list(dict.fromkeys([*c.order[:most], *rest[:1]]))
    lacking = {dataset for dataset, method in study.filled if method in methods}
    datasets = [d for d in study.datasets if d not in lacking] or study.datasets
    heaviest = c.fusion.by_weight[:MEASURES]
    measures = [c.on] if c.on != FUSED else [m for m in study.measures if m in heaviest]
    best = c.best_set
    return Decision(
        evidence=c.decides_over,
        ahead=c.leaders or best[:1],
        best_set=best,
        worse=order.difference(best, sort=False).tolist(),
        next=rest[0] if rest else None,
        equivalent=c.equivalent,
        means=pd.DataFrame({m: study.cells(m).loc[datasets, methods].mean() for m in measures}),
        n_datasets=len(datasets),
        turns=_turns(c),
    )


def _turns(c: Comparison) -> dict[str, Any] | None:
    """The likeliest other choice that puts another method first."""
    if len(c.leaders) > 1:
        return {"kind": "tie"} if c.on == FUSED and len(c.leaders) < len(c.order) else None
    if c.on == FUSED and len(c.order) == 2 and all(c.options[key] is None for key in "pqs"):
        return {"kind": "two methods"}
    return next((turn for turn in _choices(c) if c.leader not in turn["methods"]), None)


def _choices(c: Comparison) -> Iterator[dict[str, Any]]:
    """Other choices, the likeliest first, and who leads by them."""
    lacking = {dataset for dataset, _ in c.study.filled}
    whole = c.flows.drop(index=list(lacking))
    if lacking and not whole.empty:
        by_value = c.options["order"] == "mean-value"
        mean = whole.mean() if by_value else -c.ranks.loc[whole.index].mean()
        yield {"kind": "policy", "choice": "drop-datasets", "methods": leaders_by(mean)}
    if c.on != FUSED:
        return
    if c.options["weights"] == "entropy":
        equal = c.fusion.flows.by_measure.weigh("equal", c.options["drop_constant"])
        first = first_ranked(mean_ranking(equal)["rank"])
        yield {"kind": "weights", "choice": "equal", "methods": first}
    single = None if c.stability is None else c.stability.smallest_change
    if single is not None and abs(single["change"]) <= FAR:
        moved = {"choice": single["measure"], "to": single["to"], "weight": single["weight"]}
        yield {"kind": "weight", **moved, "methods": [single["rival"]]}


# --------------------------------------------------------------------------------------------------
# Cost beside quality.


@dataclass(frozen=True)
class Frontier:
    """Who is worth its cost. Place is "on" where tests put every other behind in quality or cost,
    "off" where they put one before it in both, else "open"."""

    cost: str
    table: pd.DataFrame
    geometric: bool


def frontier(c: Comparison) -> Frontier | None:
    """Quality and cost of the methods by the same test at the same level, costs by their
    logarithms; None where the study holds no cost of them all."""
    cells = {"index": c.table.index, "columns": c.order}
    tables = {cost: x.unstack().reindex(**cells) for cost, x in c.study.costs.items()}
    # those that are known of all methods, and tell them apart
    known = [cost for cost, x in tables.items() if x.notna().any().all() and x.nunique().max()]
    if not known or len(c.order) < 2:
        return None
    name, values = known[0], tables[known[0]]
    geometric = bool((values.isna() | (values > 0)).all(axis=None))
    cheap = -np.log(values) if geometric else -values
    mean, half, cheaper = -cheap.mean(), np.full(len(c.order), np.nan), set()
    if len(values) > 1:
        test = max_t(cheap, alpha=c.options["alpha"], seed=c.options["seed"])
        cheaper = {*test.significant_pairs}
        if 1 / test.n_resamples <= test.alpha:
            half = half_widths(cheap, test)
    ends = pd.DataFrame({"cost": mean, "cost_low": mean - half, "cost_high": mean + half})
    quality = c.comparison_intervals
    if quality is None or c.options["order"] != "mean-value":
        quality = pd.DataFrame({"mean": c.scores, "low": np.nan, "high": np.nan})
    better = {*c.told_apart}
    ahead = Counter(a for a, _ in better | cheaper)
    table = quality.rename(columns={"mean": "quality"}).join(np.exp(ends) if geometric else ends)
    dominated = table.index.isin([b for _, b in better & cheaper])
    on = table.index.map(ahead) == len(c.order) - 1
    return Frontier(
        name, table.assign(place=np.select([on, dominated], ["on", "off"], "open")), geometric
    )


# --------------------------------------------------------------------------------------------------
# A closer look at one cell, one method, or one pair of methods, measure by measure.


def runs_of_cell(c: Comparison, dataset: str, method: str) -> pd.DataFrame:
    """One row a run: what is known of it, and its values; NaN where it did not finish."""
    study = c.study
    if not {"dataset", "method", "run_id"} <= {*study.runs.columns}:
        return pd.DataFrame()
    of_cell = (study.runs["dataset"] == dataset) & (study.runs["method"] == method)
    runs = study.runs[of_cell].reset_index(drop=True)
    finished = runs.index[runs["status"] == "complete"] if "status" in runs else runs.index
    values = rows_of_cell(study.repeats, dataset, method)
    if values.empty and (dataset, method) not in study.filled:
        values = study.values.loc[[(dataset, method)]]
    return runs.join(values.set_axis(finished)) if len(values) == len(finished) else runs


def measures_of_cell(c: Comparison, dataset: str, method: str) -> pd.DataFrame:
    """By measure: value; sd and standard_error over n repeats."""
    study, cell = c.study, (dataset, method)
    tables = {"value": study.values, "sd": study.spread, "standard_error": study.standard_errors}
    columns = {name: values.reindex([cell]).iloc[0] for name, values in tables.items()}
    n = len(rows_of_cell(study.repeats, *cell))
    return pd.DataFrame(columns, study.values.columns).assign(n=n)


def measures_of_pair(c: Comparison, a: str, b: str) -> pd.DataFrame:
    """By measure, on datasets that both finished: how far a is better; not corrected."""
    study = c.study
    filled = set() if c.options["missing_is_failure"] else set(study.filled)
    shared = [d for d in study.datasets if not {(d, a), (d, b)} & filled]
    first, second = (study.values.xs(m, level=1).reindex(shared) for m in (a, b))
    difference = first - second
    noise = NOISE * np.fmax(first.abs(), second.abs())
    difference = difference.mask(difference.abs() <= noise, 0.0)
    difference[study.minimize] *= -1
    n, mean = difference.count(), difference.mean()
    half = special.stdtrit(n - 1, 1 - c.options["alpha"] / 2) * difference.sem()
    # what cancels but for rounding is zero
    mean = mean.mask(mean.abs() <= NOISE * difference.abs().mean(), 0.0)
    limits = {"difference": mean, "low": mean - half, "high": mean + half}
    return pd.DataFrame({**limits, "mean_a": first.mean(), "mean_b": second.mean(), "n": n})


def rows_of_cell(values: pd.DataFrame | None, dataset: str, method: str) -> pd.DataFrame:
    """The rows of a cell in a table by (dataset, method, …); none where there is no such table."""
    if values is None:
        return pd.DataFrame()
    datasets, methods = (values.index.get_level_values(level) for level in (0, 1))
    return values[(datasets == dataset) & (methods == method)].droplevel([0, 1])


# --------------------------------------------------------------------------------------------------
# Over time: what the same comparison would have said on earlier days.

#: Days, or numbers of runs, that are looked back on at most.
MOMENTS = 8


def days_of(study: Study) -> list[pd.Timestamp]:
    """The days on which cells were complete, at most `MOMENTS`; none where all came on one."""
    days = sorted({*_completed(study).dt.floor("D").dropna()})
    if len(days) < 2:
        return []
    places = np.unique(np.linspace(0, len(days) - 1, MOMENTS).round().astype(int))
    return [days[place] for place in places]


def _completed(study: Study) -> pd.Series:
    """When the last run of each cell began; without a run, that of its dataset."""
    if not {"dataset", "method", "start_time"} <= {*study.runs.columns}:
        return pd.Series(dtype="datetime64[ns, UTC]")
    started = study.runs.assign(start_time=pd.to_datetime(study.runs["start_time"], utc=True))
    by_cell = started.groupby(["dataset", "method"])["start_time"].max()
    by_cell = by_cell.reindex(study.values.index)
    return by_cell.fillna(by_cell.groupby(level="dataset").transform("max"))


def over_time(c: Comparison, each: int = 0) -> pd.DataFrame:
    """One row a day, or for `each` so many runs: who led then, by the cells that were complete, on
    the datasets that all methods of most datasets had finished."""
    taken = signature(compare).parameters
    options = {k: v for k, v in c.options.items() if k in taken and k != "next_dataset"}
    completed, rows = _completed(c.study), []
    if each:
        started = pd.to_datetime(c.study.runs["start_time"], utc=True).dropna().sort_values()
        sizes = range(len(started), 0, -each)[:MOMENTS]
        moments = {f"run {n:,}": started.iloc[n - 1] for n in reversed(sizes)}
    else:
        moments = {f"{day:%d %b}": day for day in days_of(c.study)}
        completed = completed.dt.floor("D")
    for moment, last in moments.items():
        values = c.study.values[completed <= last]
        per_method = values.groupby(level="method").size()
        often = per_method.index[2 * per_method >= per_method.max()]
        values = values[values.index.isin(often, level="method")]
        there = Study(values, c.study.directions, missing="drop-datasets")
        try:
            then = compare(c.fusion.refit(there), **options)
        except (MlevalError, ValueError):  # too little was there
            continue
        rows.append((moment, then.order[0], then.best_set, then.order, len(then.study.datasets)))
    return pd.DataFrame(rows, columns=["moment", "leader", "best_set", "methods", "n_datasets"])


# --------------------------------------------------------------------------------------------------
# Is A better than B? The verdict on one pair by the tests that a comparison holds.

YES, NO, CLOSE = "YES", "NO", "TOO CLOSE"
#: Of what a verdict is a claim, by the units of its tests.
OF = {
    "answers": "these answers",
    "instances": "these instances",
    "folds": "this data trained again",
    "repeats": "this data trained again",
    "datasets": "new datasets",
}
#: A number of units that nobody would collect is none: runs and datasets are dear.
MOST_UNITS = {"answers": 10_000, "instances": 10_000}
FEW = 500


@dataclass(frozen=True)
class Verdict:
    """What one kind of unit says of the pair."""

    #: "answers", "instances", "folds", "repeats" or "datasets"; empty where nothing was tested.
    unit: str
    #: What decides, see `_TOLD`: the dataset is empty of all, low and high are corrected.
    rows: pd.DataFrame
    alpha: float
    #: The same by dataset where what decides is about all together; empty else.
    by_dataset: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def of(self) -> str:
        """Of what it is a claim."""
        return OF.get(self.unit, "")

    def word(self) -> str:
        """Whether A is better: YES or NO where all that is certain agrees, else TOO CLOSE."""
        certain = self.rows.loc[self.rows["separated"].astype(bool), "difference"]
        sides = {*np.sign(certain)} - {0}
        return (YES if sides == {1} else NO) if len(sides) == 1 else CLOSE

    @property
    def crossing(self) -> dict[str, list[str]]:
        """The datasets on which A is certainly better, and on which B is; empty without both."""
        rows = self.rows if self.by_dataset.empty else self.by_dataset
        apart = rows[rows["separated"] & (rows["dataset"] != "")]
        a, b = (apart.loc[apart["difference"] * sign > 0, "dataset"].unique() for sign in (1, -1))
        return {"a": [*a], "b": [*b]} if len(a) and len(b) else {}

    @cached_property
    def main(self) -> Mapping[str, Any] | None:
        """The row that is told: of the first measure that is separated anywhere, else of the
        first, the surest."""
        width = self.rows["high"] - self.rows["low"]
        keys = {
            "open": ~self.rows["separated"].astype(bool),
            "measure": pd.factorize(self.rows["measure"])[0],
            "doubt": width / self.rows["difference"].abs(),
        }
        order = pd.DataFrame(keys).sort_values([*keys], kind="stable").index
        return self.rows.loc[order[0]].to_dict() if len(order) else None

    @property
    def needed(self) -> int | None:
        """How many units more would tell them apart four times in five; None if not known."""
        if not self.unit:
            return datasets_needed(self.alpha) - 1
        if self.main is None or self.word() != CLOSE:
            return None
        keys = ("n", "low", "high", "difference")
        n, low, high, difference = (float(self.main[key]) for key in keys)
        if n < 2 or not 0 < high - low < np.inf:
            return None
        error = (high - low) / 2 / special.stdtrit(n - 1, 1 - self.alpha / 2)
        effect = abs(difference) / (error * math.sqrt(n))
        size = float(required_size(effect, alpha=self.alpha)[0]) if effect > 0 else math.inf
        return max(int(size - n), 1) if size <= MOST_UNITS.get(self.unit, FEW) else None


@dataclass(frozen=True)
class Question:
    """Is `a` better than `b`? The verdict is by the units that decide, no other family of tests
    says a word; `measures` say how far `a` is better on average, not tested."""

    a: str
    b: str
    verdict: Verdict
    measures: pd.DataFrame


def question(c: Comparison, a: str = "", b: str = "") -> Question:
    """The question about two methods; by default about the leader and the next, or the control."""
    for method in filter(None, (a, b)):
        if method not in c.order:
            raise ValueError(f"`pair`: {method!r} is not among the methods {', '.join(c.order)}.")
    if a and a == b:
        raise ValueError(f"`pair`: {a!r} is named twice. Name two methods.")
    a = a or next(m for m in c.order if m != b)
    b = b or next(m for m in [c.options["control"], *c.order] if m not in (None, a))
    measures = measures_of_pair(c, a, b).loc[c.fusion.by_weight, ["difference", "n"]]
    return Question(a, b, _verdict(c, a, b) or _together(c, a, b, measures), measures)


#: What is told of a pair: the measure is "fused" of all together, in net flows; of a positive
#: difference A is better.
_TOLD = ["measure", "dataset", "difference", "low", "high", "separated", "n"]


def _verdict(c: Comparison, a: str, b: str) -> Verdict | None:
    """What the units that decide say; None where they have no difference of the pair."""
    unit, by_dataset = c.decides_over, pd.DataFrame()
    if c.deciding is not None and c.deciding.over == unit and not c.deciding.by_unit:
        in_flows = isinstance(c.deciding.result, MaxTResult)  # by one measure, too
        found = c.deciding.result if in_flows else present(c.pairwise)
        rows = rows_of_pair(found.table, a, b).rename(columns={"mean_difference": "difference"})
        of = {"dataset": "", "measure": FUSED if in_flows else c.on}
        rows = rows.assign(**of, separated=c.is_separated(a, b)).reindex(columns=_TOLD)
        if unit == "repeats":
            by_dataset = _tested(c, unit, a, b)
    else:
        rows = _tested(c, unit, a, b) if unit else pd.DataFrame()
    if rows.empty or rows["n"].max() < 2:
        return None
    return Verdict(unit, rows, c.options["alpha"], by_dataset)


def _together(c: Comparison, a: str, b: str, measures: pd.DataFrame) -> Verdict:
    """The pair where no test has a difference of one measure: T² of folds decides, or nothing."""
    row = {"measure": c.on, "dataset": "", "low": np.nan, "high": np.nan, "separated": False}
    if c.on != FUSED:
        return Verdict("", pd.DataFrame([row | {**measures.loc[c.on]}]), c.options["alpha"])
    flows = c.table[a] - c.table[b]
    row |= {"difference": flows.mean(), "n": len(flows)}
    tests = c.tests_over("folds") if c.decides_over == "folds" else {}
    of_both = {d: one for d, one in tests.items() if {a, b} <= {*one.methods}}
    if not of_both:
        return Verdict("", pd.DataFrame([row]), c.options["alpha"])
    row["n"] = max(one.pairs["n"].max() for one in of_both.values())
    rows = [
        {**row, "dataset": d if len(tests) > 1 else "", "difference": flows[d], "separated": True}
        for d, one in of_both.items()
        if {(a, b), (b, a)} & {*one.better}
    ]
    return Verdict("folds", pd.DataFrame(rows or [row]), c.options["alpha"])


def _tested(c: Comparison, unit: str, a: str, b: str) -> pd.DataFrame:
    """What the tests over a unit say of the pair, A first."""
    tests: Mapping[str, PairTests]
    if unit == "repeats":
        measures = c.study.measures if c.on == FUSED else [c.on]
        tests = tests_of_repeats(c.study, measures, c.options["alpha"])
    else:
        tests = c.tests_over(unit)
    rows = rows_of_tests(tests).dropna(subset="difference")
    rows = rows_of_pair(rows, a, b).reset_index(drop=True)
    if len(tests) == 1:
        rows["dataset"] = ""
    return rows[_TOLD]
