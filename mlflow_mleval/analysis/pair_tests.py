"""Tests of every pair of methods, over units of any kind: one table, one correction, one verdict.

The units are datasets, folds, repeats, instances, answers or loss profiles. What is special to a
kind of unit stands in further columns of the table and in attributes of its own class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mlflow_mleval.analysis.pairs import better_first, stepped
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.reported import Reported
from mlflow_mleval.sentences import count, quoted
from mlflow_mleval.validation import AnyArray, Bools, Places

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
    """Tests of every pair of methods over units of one kind: one row a pair and measure, with the
    columns of `pairs` first; alpha holds over the pairs and measures of all datasets together.
    """

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
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before believing the verdict."""
        return self.notes

    @property
    def further(self) -> dict[str, pd.DataFrame]:
        """What this kind of unit tells beside the pairs, as tables by name."""
        return {}

    @property
    def pairs(self) -> pd.DataFrame:
        """The same for every kind of unit, one row a pair and measure: difference (positive: a is
        better) with its interval, p-values, separated, wins, ties, losses, n (units that both
        have) and doubt (why not to trust the verdict, or why there is none). NaN where a test
        has no such number.
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
        by = ["pvalue_corrected", "pvalue", "size"]
        ascending = [True, True, False]
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


@dataclass(frozen=True, kw_only=True)
class DatasetTests(PairTests):
    """Tests of every pair of methods over datasets, by the test that decides; `wording` names it
    and `n` says on how many datasets.
    """

    unit: ClassVar[str] = "datasets"

    wording: str
    n: int
    claim: str

    @property
    def test(self) -> str:
        """The test that decides, as the beginning of a sentence."""
        return f"{self.wording[:1].upper()}{self.wording[1:]}"

    @property
    def extent(self) -> str:
        """What the tests stand on."""
        return f"on {count(self.n, 'dataset')}"

    @property
    def about(self) -> str:
        """What the verdict is about."""
        return self.claim


def most_certain(tests: Mapping[str, PairTests]) -> dict[str, Any] | None:
    """Of the tests of all datasets, what is known of the pair with the least p-value; None where
    nothing could be tested.
    """
    if not tests:
        return None
    tables = [one.pairs.assign(dataset=dataset) for dataset, one in tests.items()]
    rows = pd.concat(tables, ignore_index=True).dropna(subset="pvalue_corrected")
    if rows.empty:
        return None
    rows["size"] = rows["difference"].abs()
    keys = {"separated": False, "pvalue_corrected": True, "pvalue": True, "size": False}
    rows = rows.sort_values([*keys], ascending=[*keys.values()], kind="stable").head(1)
    row = better_first(rows, rows["difference"] < 0).iloc[0]
    numbers = {"pvalue": row.pvalue_corrected, **row[["difference", "low", "high"]]}
    return {
        "better": str(row.method_a),
        "worse": str(row.method_b),
        "measure": row.measure,
        "dataset": row.dataset,
        **{key: float(x) if np.isfinite(x) else None for key, x in numbers.items()},
        "separated": bool(row.separated),
    }


def not_put_below(tests: Iterable[PairTests]) -> list[str]:
    """The methods that no separation on any dataset puts below another."""
    methods = dict.fromkeys(str(method) for one in tests for method in one.methods)
    below = {str(worse) for one in tests for _, worse in one.separated}
    return [method for method in methods if method not in below]


def crossings(
    tests: Mapping[str, PairTests],
) -> list[tuple[list[str], dict[Hashable, tuple[str, ...]]]]:
    """Two methods that are each certainly better on some dataset: by which measures, and where
    either is.
    """
    if not tests:
        return []
    rows = pd.concat([one.pairs.assign(dataset=dataset) for dataset, one in tests.items()])
    rows = rows[rows["separated"] & (rows["difference"].abs() > 0)]
    rows = better_first(rows, rows["method_a"].map(str) > rows["method_b"].map(str))
    found: dict[tuple[Any, ...], list[str]] = {}
    for (a, b, measure), each in rows.groupby([*PAIR, "measure"], sort=False):
        ahead = each["difference"] > 0
        on_a, on_b = (*each["dataset"][ahead],), (*each["dataset"][~ahead],)
        if on_a and on_b:
            found.setdefault((a, b, on_a, on_b), []).append(measure)
    return [(measures, {a: on_a, b: on_b}) for (a, b, on_a, on_b), measures in found.items()]


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
    first = next(iter(tests.values()))
    total = 0
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


# --------------------------------------------------------------------------------------------------
# Instances that belong together: one table of clusters for all methods, and what few or unequal
# clusters are worth.
#
# Bell & McCaffrey (2002), "Bias reduction in standard errors for linear regression with multi-stage
# samples", for CR2 and its degrees of freedom; Kish (1965), "Survey sampling", for the effective
# number.

#: With fewer clusters of equal size skewed values make intervals and tests err more often than they
#: say.
FEW_CLUSTERS = 20
#: Instances that an error names.
_NAMED = 5


def one_table(parts: Iterable[tuple[str, pd.Series]], column: str) -> pd.Series:
    """By instance the name of its cluster, from what methods say of each; None where nobody names
    one, an error where an instance is in several.
    """
    rows = pd.concat(
        pd.DataFrame({"cluster": cluster_names(part), "method": method}, index=part.index)
        for method, part in parts
    )
    named = rows[rows["cluster"].notna()].reset_index(names="instance")
    named = named.drop_duplicates(["instance", "cluster"])
    if len(wrong := named[named["instance"].duplicated(keep=False)]):
        shown = [
            f"{instance} "
            f"({' and '.join(f'{quoted(r.cluster)} by {r.method}' for r in of.itertuples())})"
            for instance, of in wrong.groupby("instance", sort=False)
        ]
        more = f" and {len(shown) - _NAMED:,} more" if len(shown) > _NAMED else ""
        raise IncomparableRunsError(
            f"{column!r} must put each instance into one cluster, and puts {len(shown):,} into "
            f"several: {', '.join(shown[:_NAMED])}{more}. Correct it in the data, or name another "
            "column."
        )
    clusters = named.set_index("instance")["cluster"].reindex(rows.index.unique()).astype(object)
    return clusters.where(clusters.notna(), None)


def cluster_numbers(clusters: ArrayLike | pd.Series, n: int, index: Any = None) -> Places:
    """By instance the number of its cluster; one without a name, blank or missing, is a cluster of
    its own.
    """
    if isinstance(clusters, pd.Series) and index is not None and not clusters.index.equals(index):
        raise ValueError(
            "`clusters` must have the index of the instances, got another. Reorder it, or pass "
            "an array."
        )
    codes, names = pd.factorize(np.asarray(clusters, dtype=object))
    if codes.shape != (n,):
        raise ValueError(
            f"`clusters` must hold one value for each of the {n} instances, got shape "
            f"{codes.shape}."
        )
    blank = blank_clusters(clusters)
    codes[blank] = len(names) + np.arange(blank.sum())
    codes = pd.factorize(codes)[0]
    if codes.max() == 0:
        raise ValueError(
            "`clusters` must hold at least two clusters, got one. Leave it out if the instances "
            "are independent."
        )
    return codes


def blank_clusters(clusters: ArrayLike | pd.Series) -> Bools:
    """Which instances name no cluster: what is missing, or text without a letter."""
    values = np.asarray(clusters, dtype=object)
    empty = [isinstance(value, str) and not value.strip() for value in values]
    return np.asarray(pd.isna(values), bool) | np.array(empty, bool)


def effective_number(sizes: ArrayLike) -> float:
    """How many clusters of equal size are worth as much as these (Kish)."""
    share = np.asarray(sizes, float) / np.sum(sizes)
    return round(float(1 / (share @ share)), 6)


def satterthwaite(sizes: ArrayLike) -> float:
    """Degrees of freedom of a mean's CR2 variance, as if instances were independent (Bell &
    McCaffrey).
    """
    share = np.asarray(sizes, float) / np.sum(sizes)
    left = share**2 / (1 - share)
    return float(1 / (share @ share + left.sum() ** 2 - left @ left))


def cluster_doubts(clusters: ArrayLike | pd.Series | None, numbers: Places) -> list[str]:
    """What to tell of instances that name no cluster, and of few or unequal ones."""
    sizes = np.bincount(numbers)
    doubts = []
    if clusters is not None and (n := int(blank_clusters(clusters).sum())):
        doubts.append(
            f"{n:,} of {len(numbers):,} instances name no cluster: each is one of its own."
        )
    if (worth := effective_number(sizes)) < FEW_CLUSTERS:
        doubts.append(
            f"The effective number of clusters is {worth:.3g}: there are {len(sizes):,}, and the "
            f"largest holds {sizes.max():,} of {len(numbers):,} instances. With so few, tests and "
            "intervals of skewed values err more often than they say."
        )
    return doubts


def cluster_names(clusters: ArrayLike | pd.Series) -> AnyArray:
    """The names of clusters as text, the same for 3, 3.0 and "3"; None where there is none.

    >>> cluster_names([3.0, "3", " ", None]).tolist()
    ['3', '3', None, None]
    """
    codes, values = pd.factorize(np.asarray(clusters, dtype=object))
    names = np.array(
        [*map(_name, values), None], dtype=object
    )  # the last stands for what is missing
    return names[codes]


def _name(value: Any) -> str | None:
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    return str(value).strip() or None
