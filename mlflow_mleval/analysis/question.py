"""Is A better than B? The verdict on one pair by the tests that a comparison holds: of these
answers, of this data trained again, of new datasets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from mlflow_mleval.analysis.beyond_pvalues import required_size
from mlflow_mleval.analysis.comparison import FUSED, Comparison, tests_of_repeats
from mlflow_mleval.analysis.pairs import PairTests, better_first
from mlflow_mleval.analysis.posthoc.max_t import datasets_needed
from mlflow_mleval.analysis.recommendation import measures_of_pair

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
FAR = {"answers": 10_000, "instances": 10_000}
FEW = 500


@dataclass(frozen=True)
class Verdict:
    """What one kind of unit says of the pair.

    Attributes
    ----------
    unit : "answers", "instances", "folds", "repeats" or "datasets"; empty where nothing was tested.
    rows : What decides: measure ("fused" of all together, in net flows), dataset (empty of all), difference (positive: A is better), low, high (as the test has them: corrected), separated, n.
    alpha : Level of the test.
    by_dataset : The same by dataset where what decides is about all together; empty else.
    """  # noqa: E501

    unit: str
    rows: pd.DataFrame
    alpha: float
    by_dataset: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def of(self) -> str:
        """Of what it is a claim."""
        return OF.get(self.unit, "")

    def word(self, margin: float = 0.0) -> str:
        """Whether A is better by more than a margin.

        YES where some difference is certainly larger and none certainly as far the other way; NO
        where the opposite is certain, or all are certainly not larger; else TOO CLOSE. Without a
        margin the test alone says what is certain: intervals may end at 0, or be of one pair alone.
        """
        rows = self.rows
        beyond = {"low": 1.0, "high": -1.0}
        better, worse = (
            rows["separated"]
            & (sign * rows["difference"] > 0)
            & ((margin == 0) | rows[end].isna() | (sign * rows[end] > margin))
            for end, sign in beyond.items()
        )
        if better.any() and not worse.any():
            return YES
        within = len(rows) > 0 and margin > 0 and bool((rows["high"] <= margin).all())
        return NO if not better.any() and (worse.any() or within) else CLOSE

    @property
    def crossing(self) -> dict[str, list[str]]:
        """The datasets on which A is certainly better, and those on which B is; empty unless there
        are both.
        """
        rows = self.rows if self.by_dataset.empty else self.by_dataset
        apart = rows[rows["separated"] & (rows["dataset"] != "")]
        sides = {
            side: list(dict.fromkeys(apart.loc[apart["difference"] * sign > 0, "dataset"]))
            for side, sign in (("a", 1), ("b", -1))
        }
        return sides if all(sides.values()) else {}

    @cached_property
    def main(self) -> Mapping[str, Any] | None:
        """The row that is told: the first that is separated, else the first."""
        rows = self.rows.sort_values("separated", ascending=False, kind="stable")
        return None if rows.empty else rows.iloc[0].to_dict()

    @property
    def needed(self) -> int | None:
        """How many units more would tell the two apart four times in five, if the difference stays
        what it is; None where it is certain, or where no number is known.
        """
        if not self.unit:
            return datasets_needed(self.alpha) - 1
        one = self.main
        if one is None or self.word() != CLOSE or not np.isfinite([one["low"], one["high"]]).all():
            return None
        n = float(one["n"])
        half = (float(one["high"]) - float(one["low"])) / 2
        if n < 2 or half <= 0:
            return None
        error = half / special.stdtrit(n - 1, 1 - self.alpha / 2)
        effect = abs(float(one["difference"])) / (error * math.sqrt(n))
        size = float(required_size(effect, alpha=self.alpha)[0]) if effect > 0 else math.inf
        return max(int(size - n), 1) if size <= FAR.get(self.unit, FEW) else None


@dataclass(frozen=True)
class Question:
    """Is `a` better than `b`?

    Attributes
    ----------
    verdict : By the units that decide the comparison; no other family of tests says a word.
    measures : By measure: how far `a` is better on average, and n; not tested.
    """

    a: str
    b: str
    verdict: Verdict
    measures: pd.DataFrame


def question(c: Comparison, a: str = "", b: str = "") -> Question:
    """The question about two methods; by default about the leader and the next, or the control.

    Raises
    ------
    ValueError
        A method is not compared, or both are one.
    """
    unknown = [method for method in (a, b) if method and method not in c.order]
    if unknown:
        methods = ", ".join(c.order)
        raise ValueError(f"`pair`: {unknown[0]!r} is not among the methods {methods}.")
    if a and a == b:
        raise ValueError(f"`pair`: {a!r} is named twice. Name two methods.")
    a = a or next(m for m in c.order if m != b)
    b = b or next(m for m in [c.options["control"], *c.order] if m not in (None, a))
    measures = measures_of_pair(c, a, b).loc[c.fusion.by_weight]
    measures = measures[["difference", "n"]]
    return Question(a, b, _verdict(c, a, b) or _together(c, a, b, measures), measures)


def _verdict(c: Comparison, a: str, b: str) -> Verdict | None:
    """What the units that decide say; None where they have no difference of the pair."""
    unit, by_dataset = c.decides_over, pd.DataFrame()
    if c.deciding is not None and c.deciding.test.over == unit and not c.deciding.test.by_unit:
        rows = _decided(c, a, b)
        if unit == "repeats":
            by_dataset = _tested(_tests(c, unit), a, b)
    else:
        rows = _tested(_tests(c, unit), a, b) if unit else pd.DataFrame()
    if rows.empty or rows["n"].max() < 2:
        return None
    return Verdict(unit, rows, c.options["alpha"], by_dataset)


def _together(c: Comparison, a: str, b: str, measures: pd.DataFrame) -> Verdict:
    """The pair where no test has a difference of one measure: T² of folds decides, or nothing."""
    unknown = {"low": np.nan, "high": np.nan, "separated": False}
    if c.on != FUSED:
        rows = measures.loc[[c.on]].assign(dataset="", **unknown)
        return Verdict("", rows.rename_axis("measure").reset_index(), c.options["alpha"])
    flows = c.table[a] - c.table[b]
    together = {"measure": FUSED, "difference": flows.mean(), "dataset": "", "n": len(flows)}
    rows = pd.DataFrame([{**together, **unknown}])
    tests = c.tests_over("folds") if c.decides_over == "folds" else {}
    n = [one.pairs["n"].max() for one in tests.values() if {a, b} <= {*one.methods}]
    if n:
        rows["n"] = max(n)
        apart = [d for d, one in tests.items() if {(a, b), (b, a)} & {*one.better}]
        if apart:
            names = apart if len(tests) > 1 else [""]
            rows = pd.concat([rows] * len(apart), ignore_index=True)
            rows = rows.assign(dataset=names, difference=flows[apart].to_numpy(), separated=True)
    return Verdict("folds" if n else "", rows, c.options["alpha"])


def _tests(c: Comparison, unit: str) -> Mapping[str, PairTests]:
    if unit != "repeats":
        return c.tests_over(unit)
    measures = c.study.measures if c.on == FUSED else [c.on]
    return tests_of_repeats(c.study, measures, c.options["alpha"])


def _tested(tests: Mapping[str, PairTests], a: str, b: str) -> pd.DataFrame:
    """The rows of the pair, A first."""
    several = len(tests) > 1
    parts = [one.pairs.assign(dataset=dataset if several else "") for dataset, one in tests.items()]
    if not parts:
        return pd.DataFrame()
    rows = pd.concat(parts)
    rows = rows[rows["method_a"].isin([a, b]) & rows["method_b"].isin([a, b])]
    rows = better_first(rows, rows["method_a"] == b).reset_index(drop=True)
    rows = rows[rows["difference"].notna()]
    return rows[["measure", "dataset", "difference", "low", "high", "separated", "n"]]


def _decided(c: Comparison, a: str, b: str) -> pd.DataFrame:
    """The row of the test that decides, in net flows, by one measure, too."""
    assert c.deciding is not None
    rows = _tested(c.tests_over("datasets"), a, b)
    table = getattr(c.deciding.result, "table", pd.DataFrame())
    if rows.empty or not {"low", "high", "mean_difference"} <= {*table}:
        return rows.assign(low=np.nan, high=np.nan)
    row = table[table["method_a"].isin([a, b]) & table["method_b"].isin([a, b])]
    row = better_first(row, row["method_a"] == b)
    rows[["difference", "low", "high"]] = row[["mean_difference", "low", "high"]].to_numpy()
    return rows.assign(measure=FUSED)
