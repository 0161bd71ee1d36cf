"""Tests of every pair of methods, over units of any kind: one table, one correction, one verdict.

The units are datasets, folds, repeats, instances, answers or loss profiles. What is special to a
kind of unit stands in further columns of the table and in attributes of its own class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.pairs import stepped
from mlflow_mleval.reported import Reported
from mlflow_mleval.words import count

if TYPE_CHECKING:
    from typing_extensions import Self

#: The columns with which every table of pairs begins; further ones are special to a unit.
COLUMNS = [
    "method_a",
    "method_b",
    "measure",
    "difference",
    "low",
    "high",
    "pvalue",
    "pvalue_corrected",
    "separated",
    "wins",
    "ties",
    "losses",
    "n",
    "doubt",
]
PAIR = ["method_a", "method_b"]


@dataclass(frozen=True, kw_only=True)
class PairTests(Reported):
    """Tests of every pair of methods over units of one kind.

    Attributes
    ----------
    table : One row a pair and measure (measures that are tested together: one row a pair), with the columns of `pairs` first.
    methods, measures : That were tested.
    alpha : Family-wise significance level, over the pairs and measures of `n_datasets` datasets together.
    n_comparisons : How many tests that correction counts.
    notes : What a reader must know of the units.
    """  # noqa: E501

    #: "datasets", "folds", "repeats", "instances", "answers" or "profiles".
    unit: ClassVar[str]
    #: Whether p-values come corrected over pairs and measures, so that datasets are what is left
    #: to correct for; else each row is a test of its own.
    one_family: ClassVar[bool] = False
    #: Prefixes of further p-values, corrected over the same rows: "x_pvalue" to "x_corrected".
    beside: ClassVar[tuple[str, ...]] = ()

    table: pd.DataFrame
    methods: Sequence[Hashable]
    measures: Sequence[str]
    alpha: float
    notes: tuple[str, ...] = ()
    n_datasets: int = 1
    n_comparisons: int = 0

    @property
    @abstractmethod
    def test(self) -> str:
        """The test that decides, as the beginning of a sentence."""

    @property
    @abstractmethod
    def extent(self) -> str:
        """What the tests stand on: "on 200 instances and 2 measures"."""

    @property
    @abstractmethod
    def about(self) -> str:
        """What the verdict is about and what it is not, as a clause."""

    @property
    def feasibility(self) -> str:
        """What the tests could show at all with so many units; empty where that is no question."""
        return ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before believing the verdict."""
        return self.notes

    @property
    def further(self) -> dict[str, pd.DataFrame]:
        """What this kind of unit tells beside the pairs, as tables by name."""
        return {}

    @property
    def pairs(self) -> pd.DataFrame:
        """The same for every kind of unit, one row a pair and measure.

        dataset, where tests of several datasets are in one table; method_a,
        method_b, measure (those that are tested together joined by ", "); difference
        (positive: a is better) with its interval low, high at 1 - alpha, not corrected; pvalue;
        pvalue_corrected (over pairs, measures and datasets), separated (by that); wins, ties,
        losses (units on which a is better, neither, b); n (units that both have); doubt (why not
        to trust the verdict, or why there is none; else empty). NaN where a test has no such
        number.
        """
        return self.table[[*self._dataset, *COLUMNS]]

    @property
    def _dataset(self) -> list[str]:
        """The column that says of which dataset a row is, where there is one."""
        return ["dataset"] if "dataset" in self.table else []

    @cached_property
    def by_pair(self) -> pd.DataFrame:
        """One row a pair: the row of the measure that separates it most, but separated on any
        measure; a_better and b_better, on how many.
        """
        table = self.table
        size = table["statistic"].abs() if "statistic" in table else 0.0
        ahead = np.where(table["separated"], np.sign(table["difference"]), 0)
        pairs = table.assign(size=size, a_better=ahead > 0, b_better=ahead < 0)
        keys = [*self._dataset, *PAIR]
        totals = pairs.groupby(keys, sort=False)
        pairs["separated"] = totals["separated"].transform("any")
        for side in ("a_better", "b_better"):
            pairs[side] = totals[side].transform("sum")
        by, ascending = ["pvalue_corrected", "pvalue", "size"], [True, True, False]
        strongest = pairs.sort_values(by, ascending=ascending, kind="stable")
        first = strongest.drop_duplicates(keys).sort_index()
        return first.drop(columns="size").reset_index(drop=True)

    @property
    def ordered(self) -> pd.DataFrame:
        """The rows of `table`, separated ones first, then by p-value, those without a test last."""
        return self.table.sort_values(
            ["separated", "pvalue"], ascending=[False, True], kind="stable"
        )

    @property
    def separated(self) -> list[tuple[Hashable, Hashable]]:
        """The pairs (better, worse) that are separated on any measure, each once."""
        rows = self.table[self.table["separated"]]
        pairs = zip(rows["method_a"], rows["method_b"], rows["difference"], strict=True)
        return list(dict.fromkeys((b, a) if d < 0 else (a, b) for a, b, d in pairs))

    def is_separated(self, a: Hashable, b: Hashable) -> bool:
        """Whether the two methods are separated, in either direction."""
        return (a, b) in self.separated or (b, a) in self.separated

    def headline(self, named: Callable[[Hashable], str] = str) -> str:
        """What the tests say, in a clause; `named` writes the names of methods."""
        pairs = self.by_pair
        tested = pairs.dropna(subset="pvalue")
        if len(pairs) == len(tested) == 1:
            row = tested.iloc[0]
            does = "separates" if row.separated else "does not separate"
            return (
                f"{self.test} {does} {named(row.method_a)} and {named(row.method_b)} "
                f"{self.extent} (p={row.pvalue_corrected:.2g})"
            )
        text = (
            f"{self.test} separates {int(tested['separated'].sum())} of "
            f"{count(len(pairs), 'pair')} {self.extent}"
        )
        lost = len(pairs) - len(tested)
        return f"{text}; {count(lost, 'pair')} could not be tested" if lost else text

    def verdict(self, named: Callable[[Hashable], str] = str) -> str:
        """What the tests say and what they are about, in a sentence; `named` writes the names of
        methods.
        """
        return f"{self.headline(named)}; {self.about}."

    def corrected(self, table: pd.DataFrame, n_datasets: int, n_comparisons: int) -> Self:
        """The same with the corrected table, and what follows from it."""
        return replace(self, table=table, n_datasets=n_datasets, n_comparisons=n_comparisons)


Kind = TypeVar("Kind", bound=PairTests)


def jointly(tests: Mapping[str, Kind]) -> dict[str, Kind]:
    """The tests of several datasets, corrected over the pairs and measures of all of them together.

    Corrected within each dataset only, some pair of four equal methods is separated in a third of
    studies with ten datasets. The correction is Holm's (1979); where p-values come corrected over
    a dataset, each dataset counts until all of it is rejected.
    """
    if not tests:
        return {}
    tables = [one.table.copy() for one in tests.values()]
    first, total = next(iter(tests.values())), 0
    for prefix in ("", *first.beside):
        raw, corrected = (f"{prefix}{end}" for end in ("pvalue", "corrected"))
        corrected = corrected if prefix else "pvalue_corrected"
        within = "pvalue_corrected" if first.one_family else raw
        pvalues = [table[within].to_numpy(float) for table in tables]
        worst = [p.max(keepdims=True) if first.one_family else p[~np.isnan(p)] for p in pvalues]
        for table, p in zip(tables, pvalues, strict=True):
            table[corrected] = stepped(p, np.concatenate(worst))
        total = total or sum(int(table[raw].notna().sum()) for table in tables)
    return {
        dataset: one.corrected(
            table.assign(separated=table["pvalue_corrected"] <= one.alpha), len(tests), total
        )
        for (dataset, one), table in zip(tests.items(), tables, strict=True)
    }
