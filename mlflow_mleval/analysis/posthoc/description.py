"""What a post-hoc test says of itself, so that comparisons, tables, sentences and references need
not know it by name; and the tests that join those of each dataset, over folds or repeats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.pairs import (
    PAIR,
    Pair,
    PairTests,
    better_and_worse,
    better_first,
    named_pairs,
    pair_matrix,
    rows_of_tests,
)
from mlflow_mleval.sentences import count


@dataclass(frozen=True)
class Tested:
    """What a post-hoc test may use: datasets x methods, larger is better (NaN where tests of pairs
    count no result); `most` statistics at most, pairs times sign changes."""

    table: pd.DataFrame
    ranks: pd.DataFrame
    flows: pd.DataFrame
    alpha: float
    control: str | None
    correction: str = "holm"
    seed: int = 0
    most: int = 5 * 10**9


@dataclass(frozen=True, kw_only=True)
class PairsTested:
    """A table of pairs with their p-values, and what is read off it."""

    table: pd.DataFrame
    alpha: float
    n_datasets: int
    n_methods: int
    n_comparisons: int
    control: Hashable | None
    methods: list[Hashable]
    warnings: tuple[str, ...] = ()

    @property
    def pvalues(self) -> pd.DataFrame:
        """Methods x methods: corrected p-values; NaN where the pair is not compared."""
        a, b, p = (self.table[name] for name in (*PAIR, "pvalue_corrected"))
        matrix = pair_matrix(self.methods, a, b, p, np.nan).astype(float)
        return matrix.where(~np.eye(len(matrix), dtype=bool), 1.0)

    @cached_property
    def significant_pairs(self) -> list[Pair]:
        """The separated pairs as (better, worse), the largest statistic first."""
        rows = self.table[self.table["significant"]].sort_values(
            "statistic", ascending=False, kind="stable"
        )
        return better_and_worse(rows, "mean_difference")


def rows_of_pair(table: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """The rows of two methods, turned so that `a` is the first."""
    same = table[table[PAIR].isin([a, b]).all(axis=1)]
    return better_first(same, same["method_a"] != a)


class Posthoc(ABC):
    """A test of pairs of methods over datasets; results have alpha, significant_pairs, warnings."""

    #: The test, as JSON names it.
    name: ClassVar[str]
    #: By which it is asked for (`compare(test=)`) and told (`Comparison.decides`).
    asked: ClassVar[str]
    #: As readers know it.
    title: ClassVar[str]
    #: Where JSON and `rests_on` have the result.
    key: ClassVar[str]
    #: Whether it needs a control (True), compares all pairs (False), or does either (None).
    control: ClassVar[bool | None] = None
    #: Whether it is made beside the deciding one, too; else only where it is asked for.
    always: ClassVar[bool] = True
    #: What its units are: "datasets", or "repeats" of them.
    over: ClassVar[str] = "datasets"
    #: Whether it joins tests of each dataset by itself.
    by_unit: ClassVar[bool] = False
    #: Whether it goes by mean ranks, and so never contradicts their order.
    by_mean_ranks: ClassVar[bool] = False
    #: Column of `Comparison.pairs` with its p-values, corrected for the number of pairs; the one by
    #: which it sorts; what readers see over it.
    column: ClassVar[str]
    sort: ClassVar[str]
    head: ClassVar[str]
    #: What it does, and its sources as they are cited: author and year.
    summary: ClassVar[str]
    sources: ClassVar[tuple[str, ...]]

    def applies(self, tested: Tested) -> bool:
        """Whether it can be made."""
        return self.control is None or self.control == (tested.control is not None)

    @abstractmethod
    def run(self, tested: Tested) -> Any:
        """The result."""

    def doubts(self, result: Any) -> tuple[str, ...]:
        """What a reader must know before believing the result."""
        return result.warnings

    def unable(self, result: Any) -> str:
        """That it could not reject anything, and what that would take; empty where it could."""
        return ""

    @abstractmethod
    def wording(self, result: Any) -> str:
        """The test in a few words: "Nemenyi, critical difference 5.02"."""

    @abstractmethod
    def sentence(self, result: Any) -> str:
        """What was tested, as the beginning of a sentence: "Nemenyi's test on mean ranks"."""

    def about(self, result: Any) -> str:
        """What a separation is about and what it is not, as a clause."""
        return "this is about datasets like these"


class Made(NamedTuple):
    """A test and its result."""

    test: Posthoc
    result: Any

    @property
    def wording(self) -> str:
        """The test in a few words: "Nemenyi, critical difference 5.02"."""
        return self.test.wording(self.result)

    @property
    def critical_difference(self) -> float | None:
        """The difference of mean ranks from which a pair is separated; None without such a
        thing."""
        return getattr(self.result, "critical_difference", None)


class OverFolds(Posthoc):
    """All pairs by the folds of a few datasets: separated where some dataset separates them, and
    none says the opposite."""

    name = asked = over = "folds"
    key = "over_folds"
    title = "Tests over folds"
    column = sort = "pvalue_folds"
    head = "p (folds)"
    always = False
    by_unit = True
    #: What it corrects over, on one dataset and on several.
    corrects: ClassVar[tuple[str, str]] = "pairs", "pairs and datasets"
    summary = (
        "tests the folds of each dataset and corrects over pairs and datasets; says nothing of "
        "other datasets"
    )
    sources: ClassVar[tuple[str, ...]] = ("Yıldız & Alpaydın 2014",)

    def __init__(self, by_dataset: Mapping[str, PairTests]) -> None:
        self.by_dataset = by_dataset

    def run(self, tested: Tested) -> PairsTested:
        names = [str(name) for name in tested.ranks.columns]
        ahead = pd.DataFrame(0, names, names)
        for better, worse in (pair for one in self.by_dataset.values() for pair in one.better):
            ahead.loc[better, worse] += 1
        ahead = ahead.to_numpy()
        lead = ahead - ahead.T
        rows = rows_of_tests(self.by_dataset)
        p = rows.dropna(subset="pvalue_corrected").sort_values("pvalue_corrected", ascending=False)
        a, b, values = (p[name] for name in (*PAIR, "pvalue_corrected"))
        least = pair_matrix(names, a, b, values, np.nan).to_numpy()  # of several the last one stays
        pairs = np.triu_indices(len(names), 1)
        table = {
            **named_pairs(names, *pairs),
            "mean_difference": lead[pairs],
            "statistic": np.abs(lead[pairs]),
            "pvalue_corrected": least[pairs],
            "significant": ((ahead > 0) != (ahead.T > 0))[pairs],
        }
        return PairsTested(
            table=pd.DataFrame(table),
            alpha=tested.alpha,
            n_datasets=len(self.by_dataset),
            n_methods=len(names),
            n_comparisons=len(rows),
            control=None,
            methods=[*names],
        )

    def wording(self, result: PairsTested) -> str:
        return f"tests over the {self.over} of {count(result.n_datasets, 'dataset')}"

    def sentence(self, result: PairsTested) -> str:
        return f"Tests over {self.over}, corrected over {self.corrects[result.n_datasets > 1]}"

    def about(self, result: PairsTested) -> str:
        n = result.n_datasets
        these = f"these {n} datasets" if n > 1 else "this dataset"
        return f"about {these} and no others"


class OverSeeds(OverFolds):
    """The same by the repeats of each dataset, where their blocks are too few."""

    name = asked = over = "repeats"
    key = "over_repeats"
    title = "Tests over repeats"
    column = sort = "pvalue_repeats"
    head = "p (repeats)"
    corrects = "pairs and measures", "pairs, measures and datasets"
    summary = (
        "tests the repeats of each dataset, measure by measure, and corrects over all these tests; "
        "says nothing of other datasets"
    )
    sources = ("Welch 1947", "Holm 1979")
