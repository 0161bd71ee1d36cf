"""Pairs of methods: differences and intervals, the better one first, who is not separated; and the
tests of every pair, over units of any kind: one table, one correction, one verdict.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from string import ascii_letters
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.promethee import tied_ranks
from mlflow_mleval.analysis.resampling import up_to_zero
from mlflow_mleval.errors import IncomparableRunsError, MlevalError, StoreError
from mlflow_mleval.package import Reported
from mlflow_mleval.sentences import count, did_you_mean, quoted, some
from mlflow_mleval.validation import AnyArray, Places, in_pandas

if TYPE_CHECKING:
    from typing_extensions import Self

# --------------------------------------------------------------------------------------------------
# Pairs of methods on the same datasets or folds: differences, intervals, corrections.

#: Differences that agree within this share of the dataset's largest value are equal (ties), or
#: zero: float noise.
NOISE = 1e-12
#: Two methods, such as the better one and the worse.
Pair: TypeAlias = tuple[Hashable, Hashable]


class PairDifferences:
    """Differences of pairs of columns, or of others and a control, pairs x rows, made when asked
    for: positive where a is better, zero where they are noise, NaN where one is missing."""

    def __init__(
        self,
        table: ArrayLike | pd.DataFrame,
        control: Hashable | None = None,
        *,
        name: str = "table",
    ) -> None:
        self.frame = incomplete_table(table, name)
        values = self.frame.to_numpy()
        if bad := int(np.isinf(values).sum()):
            raise ValueError(
                f"`{name}` must be finite, got {bad} infinite cells. A difference of infinities "
                "has neither rank nor sign."
            )
        #: Positions of either method of each pair.
        self.a, self.b = pair_positions(self.frame, control)
        self.shape = len(self.a), len(values)
        #: Of each row, how large a difference may be by rounding.
        self.noise = NOISE * np.fmax.reduce(np.abs(values), axis=1, initial=0.0)
        self._by_method = values.T

    def __getitem__(self, rows: Any) -> AnyArray:
        found = self._by_method[self.a[rows]]
        found -= self._by_method[self.b[rows]]
        found[np.abs(found) <= self.noise] = 0.0
        return found

    def named(self) -> dict[str, pd.Index]:
        """The methods of the pairs; see `named_pairs`."""
        return named_pairs(self.frame.columns, self.a, self.b)


def pair_positions(
    frame: pd.DataFrame, control: Hashable | None = None
) -> tuple[AnyArray, AnyArray]:
    """Positions of the methods of each pair of columns, or of every other one and a control."""
    m = frame.shape[1]
    if control is None:
        a, b = np.triu_indices(m, 1)
        return a.astype(np.int32), b.astype(np.int32)  # of 1,000 methods half a million
    if control not in frame.columns:
        guess = did_you_mean([control], frame.columns)
        raise ValueError(
            f"`control` must be one of the methods ({some(frame.columns)}), got {control!r}.{guess}"
        )
    at = frame.columns.get_loc(control)
    return np.delete(np.arange(m), at), np.full(m - 1, at)


def moments(difference: AnyArray, noise: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Mean and standard deviation of each pair's differences but NaN; float noise counts as 0."""
    n = (~np.isnan(difference)).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(difference, axis=1) / n
        squares = np.nansum((difference - mean[:, None]) ** 2, axis=1)
        deviation = np.sqrt(squares / (n - 1))
    deviation[deviation <= noise.max()] = 0.0
    return mean, deviation


def taken_for_certain(deviation: AnyArray) -> list[str]:
    """What to tell of pairs whose differences do not vary."""
    if not (same := int((deviation == 0).sum())):
        return []
    return [
        f"Taken for certain, because they differ by the same in every row: {same} of "
        f"{len(deviation)} pairs."
    ]


def checked_ratio(ratio: float | None) -> float | None:
    """n_test / n_train as a float, if it is one; else a ValueError."""
    if ratio is not None and not 0 <= float(ratio) < np.inf:
        raise ValueError(
            f"`ratio` must be n_test / n_train of a fold (1/9 for ten folds), got {ratio!r}."
        )
    return None if ratio is None else float(ratio)


def variance_factor(n: Any, ratio: float | None = None) -> Any:
    """Variance of a mean of n folds in those of one: 1/n + n_test/n_train (Nadeau & Bengio)."""
    return 1 / n + (ratio or 0.0)


def holm(pvalues: ArrayLike) -> AnyArray:
    """Holm's correction along the last axis; NaN where there is no test, which does not count."""
    pvalues = np.asarray(pvalues, dtype=float)
    order = np.argsort(pvalues, axis=-1, kind="stable")
    left = (~np.isnan(pvalues)).sum(axis=-1, keepdims=True) - np.arange(pvalues.shape[-1])
    ranked = np.take_along_axis(pvalues, order, axis=-1) * np.maximum(left, 1)
    out = np.empty_like(pvalues)
    np.put_along_axis(out, order, np.minimum(1.0, np.maximum.accumulate(ranked, axis=-1)), axis=-1)
    return out


def stepped(pvalues: AnyArray, worst: AnyArray, extra: int = 0) -> AnyArray:
    """Holm's step-down for p-values corrected in families: closed testing of the `worst` of each
    and of so many extra ones that reject nothing; a family counts until all of it is rejected."""
    worst = np.sort(worst)
    ahead = np.searchsorted(worst, pvalues, side="left")
    still = len(worst) - np.arange(len(worst)) + extra
    before = np.concatenate([[0.0], np.maximum.accumulate(worst * still)])
    stepwise = np.maximum(pvalues * (len(worst) - ahead + extra), before[ahead])
    return np.where(np.isnan(pvalues), np.nan, np.minimum(stepwise, 1.0))


def decided(pvalues: AnyArray, alpha: float) -> dict[str, AnyArray]:
    """Columns pvalue, pvalue_corrected (by Holm; NaN does not count), significant at alpha."""
    corrected = holm(pvalues)
    return {"pvalue": pvalues, "pvalue_corrected": corrected, "significant": corrected <= alpha}


def named_pairs(names: Sequence[Hashable], a: AnyArray, b: AnyArray) -> dict[str, pd.Index]:
    """Columns method_a and method_b of a table of pairs, from the positions of the two."""
    index = pd.Index(names, tupleize_cols=False)
    if index.inferred_type == "string":
        index = index.astype(object)  # Arrow's texts would be copied
    return {"method_a": index.take(a), "method_b": index.take(b)}


def pair_matrix(
    names: Sequence[Hashable],
    a: Iterable[Hashable],
    b: Iterable[Hashable],
    values: ArrayLike = True,
    own: object = False,
) -> pd.DataFrame:
    """Symmetric values of pairs, names x names; `own` stands for pairs that are not there."""
    at = pd.Index(names, tupleize_cols=False)
    i = at.get_indexer(pd.Index(a, tupleize_cols=False))
    j = at.get_indexer(pd.Index(b, tupleize_cols=False))
    matrix = np.full((len(at), len(at)), own)
    matrix[i, j] = matrix[j, i] = values
    return pd.DataFrame(matrix, at, at)


def cells_of_pairs(matrix: pd.DataFrame, pairs: pd.DataFrame) -> AnyArray:
    """By row of a table of pairs, what such a frame says of the two."""
    at = (matrix.index.get_indexer(pairs[side]) for side in PAIR)
    return matrix.to_numpy()[tuple(at)]


def apart(names: Sequence[Hashable], pairs: Sequence[Pair]) -> pd.DataFrame:
    """Whether the pairs (a, b) are separated, names x names."""
    return pair_matrix(names, [a for a, _ in pairs], [b for _, b in pairs])


def possible_ranks(names: Sequence[Hashable], pairs: Sequence[Pair]) -> pd.DataFrame:
    """By name, the ranks low to high that the separated pairs (better, worse) leave.

    >>> possible_ranks(["a", "b", "c"], [("a", "c"), ("b", "c")]).T.to_dict("list")
    {'a': [1, 2], 'b': [1, 2], 'c': [3, 3]}
    """
    better, worse = (
        pd.Series([pair[i] for pair in pairs], dtype=object).value_counts() for i in range(2)
    )
    low = 1 + worse.reindex(names, fill_value=0)
    high = len(names) - better.reindex(names, fill_value=0)
    return pd.DataFrame({"low": low.astype(int), "high": high.astype(int)})


def best_first(scores: pd.Series, pairs: Sequence[Pair]) -> tuple[list[Any], list[Pair]]:
    """The names by falling score, but none before one that a pair (better, worse) puts above it;
    and the pairs that go against the scores.

    >>> best_first(pd.Series({"a": 0.1, "b": 0.5, "c": 0.4}), [("c", "b")])
    (['c', 'b', 'a'], [('c', 'b')])
    >>> best_first(pd.Series({"a": 0.5, "b": 0.5}), [("b", "a")])  # a tie, which the pair decides
    (['b', 'a'], [])
    """
    rank = pd.Series(tied_ranks(-scores.to_numpy()), scores.index)
    left = rank.sort_values(kind="stable").index.tolist()
    at = rank.to_dict()  # a Series is slow to ask, and there may be half a million pairs
    turned = [(better, worse) for better, worse in pairs if at[better] > at[worse]]
    if all(at[better] < at[worse] for better, worse in pairs):
        return left, []
    above: dict[Hashable, set[Hashable]] = {name: set() for name in left}
    for better, worse in pairs:
        above[worse].add(better)
    order = []
    while left:
        # pairs on different datasets may run in a circle: then the scores decide
        free = next((name for name in left if above[name].isdisjoint(left)), left[0])
        order.append(free)
        left.remove(free)
    return order, turned


# --------------------------------------------------------------------------------------------------
# Tables of pairs with the better method first.

#: What is said of method_a and of method_b, and the ends of an interval.
_OPPOSITE = {"wins": "losses", "better": "worse", "low": "high", "p_a": "p_b"}
#: Differences a minus b, by the ends of their names.
_SIGNED = ("difference", "low", "high", "mean", "shrunken", "effect_size")


def better_first(pairs: pd.DataFrame, turned: ArrayLike) -> pd.DataFrame:
    """The rows in the same order, those that are `turned` with the methods the other way round: by
    their names, what is said of either and ends of intervals change places, differences sign."""
    turned = np.asarray(turned, dtype=bool)
    out = pairs.copy()
    swaps = [("method_a", "method_b")]
    for end, other in _OPPOSITE.items():
        swaps += [(a, a.removesuffix(end) + other) for a in map(str, pairs) if a.endswith(end)]
    for a, b in swaps:
        if b in pairs:
            out[a], out[b] = pairs[a].mask(turned, pairs[b]), pairs[b].mask(turned, pairs[a])
    for name in pairs:
        if str(name).endswith(_SIGNED):
            out[name] = out[name].mask(turned, -out[name])
    return out


def better_and_worse(pairs: pd.DataFrame, by: str) -> list[Pair]:
    """The methods of each row, the better first by the sign of a column."""
    return [*better_first(pairs[PAIR], pairs[by] < 0).itertuples(index=False, name=None)]


def behind(pairs: pd.DataFrame, order: Sequence[Hashable]) -> AnyArray:
    """Which rows have method_a behind method_b in the order, best first."""
    at = places(pairs, order)
    return (at["a"] > at["b"]).to_numpy()


def places(pairs: pd.DataFrame, order: Sequence[Hashable]) -> pd.DataFrame:
    """The places a and b of the two methods in the order, counted from 0."""
    place = {method: i for i, method in enumerate(order)}
    return pd.DataFrame({"a": pairs["method_a"].map(place), "b": pairs["method_b"].map(place)})


# --------------------------------------------------------------------------------------------------
# Which methods a test does not separate: maximal cliques, and letters that show them.

#: A graph may have exponentially many maximal cliques; of more than this, and than methods, only
#: some are shown.
MAX_CLIQUES = 1000


def cliques(separated: pd.DataFrame) -> list[list[Any]]:
    """The maximal sets of methods of which no pair is separated, in the order of the frame; where
    there are too many (see `MAX_CLIQUES`) some that hold every such pair, and a UserWarning."""
    together = ~separated.to_numpy(dtype=bool)
    np.fill_diagonal(together, False)
    groups = _all_cliques(together)
    if not groups:  # there are too many: each is grown from an open pair by what closes most
        warnings.warn(
            f"the graph of unseparated methods has more than {max(MAX_CLIQUES, len(together))} "
            "maximal cliques; some are shown that hold every pair.",
            stacklevel=2,
        )
        open_pairs = (together | np.eye(len(together), dtype=bool)).astype(np.int32)
        while open_pairs.any():
            pair = np.unravel_index(int(np.argmax(open_pairs)), open_pairs.shape)
            clique = [*{int(v) for v in pair}]
            common = together[clique].all(axis=0)
            fresh = open_pairs[clique].sum(axis=0)  # pairs with the clique, by what joins it
            while common.any():
                v = int(np.argmax(np.where(common, fresh, -1)))
                clique.append(v)
                common &= together[v]
                fresh += open_pairs[v]
            open_pairs[np.ix_(clique, clique)] = 0
            groups.append(clique)
    return [separated.index[members].tolist() for members in sorted(map(sorted, groups))]


def _all_cliques(together: AnyArray) -> list[list[int]]:
    """The maximal cliques; none at all where there are too many. Vertices come one by one; sets of
    them are bits of integers. networkx takes 10 s for 1,000 methods on a line, this .2 s."""
    groups: list[int] = []
    for v, row in enumerate(together):
        near = int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little")
        # what v joins as a whole is no longer maximal; a vertex without neighbours stands alone
        joined: list[int] = []
        for one in sorted({group & near for group in groups}, key=int.bit_count, reverse=True):
            if all(one & ~larger for larger in joined):
                joined.append(one)
        groups = [group for group in groups if group & ~near]
        groups += [group | 1 << v for group in joined or [0]]
        # cliques never become fewer when a vertex comes
        if len(groups) > max(MAX_CLIQUES, len(together)):
            return []
    return [[v for v in range(len(together)) if group >> v & 1] for group in groups]


def letters(groups: Iterable[Sequence[Hashable]], order: Sequence[Hashable]) -> dict[Hashable, str]:
    """The compact letter display (Piepho 2004): two share a letter exactly where they are not
    separated. "a" goes to the group of the best; after z come capitals, then a2, b2 and so on."""
    place = {name: i for i, name in enumerate(order)}
    out = dict.fromkeys(order, "")
    for i, members in enumerate(sorted(sorted(place[name] for name in group) for group in groups)):
        turn, letter = divmod(i, len(ascii_letters))
        for at in members:
            out[order[at]] += ascii_letters[letter] + (str(turn + 1) if turn else "")
    return out


# --------------------------------------------------------------------------------------------------
# Tests of every pair; what is special to a kind of unit stands in further columns and attributes.

#: The columns with which every table of pairs begins; further ones are special to a unit.
COLUMNS = [
    *("method_a", "method_b", "measure", "difference", "low", "high", "pvalue", "pvalue_corrected"),
    *("separated", "wins", "ties", "losses", "n", "doubt"),
]
PAIR = ["method_a", "method_b"]


def pairs_by_measure(
    methods: Sequence[Hashable], measures: Sequence[str], **columns: ArrayLike
) -> pd.DataFrame:
    """A table with a row a pair and measure, `COLUMNS` first; what is not given is not known."""
    first, second = (side.repeat(len(measures)) for side in np.triu_indices(len(methods), 1))
    names = np.array(measures, dtype=object)
    columns = {"measure": np.tile(names, len(first) // len(names)), **columns}
    unknown = dict.fromkeys(COLUMNS, np.nan) | {"separated": False, "doubt": ""}
    return pd.DataFrame({**unknown, **named_pairs(methods, first, second), **columns})


@dataclass(frozen=True, kw_only=True)
class PairTests(Reported):
    """Tests of every pair of methods over units of one kind: one row a pair and measure, with the
    columns of `pairs` first; alpha holds over the pairs and measures of all datasets together."""

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
    def on_measures(self) -> str:
        """How many measures are tested, as the end of a clause; empty of one."""
        return f" and {len(self.measures)} measures" if len(self.measures) > 1 else ""

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
        """One row a pair and measure, `COLUMNS` for every unit: difference (positive: a is better),
        n (units that both have), doubt (why not to trust the verdict, or why there is none)."""
        return self.table[[name for name in ("dataset", *COLUMNS) if name in self.table]]

    @cached_property
    def by_pair(self) -> pd.DataFrame:
        """One row a pair: of the measure that separates it most, but separated on any."""
        table = self.table
        size = -table["statistic"].abs() if "statistic" in table else 0.0  # largest first
        keys = [name for name in ("dataset", *PAIR) if name in table]
        apart = table.groupby(keys, sort=False)["separated"].transform("any")
        pairs = table.assign(size=size, separated=apart)
        strongest = pairs.sort_values(["pvalue_corrected", "pvalue", "size"], kind="stable")
        first = strongest.drop_duplicates(keys).sort_index()
        return first.drop(columns="size").reset_index(drop=True)

    @property
    def ordered(self) -> pd.DataFrame:
        """The rows of `table`, separated ones first, then by p-value, those without a test last."""
        return self.table.sort_values(
            ["separated", "pvalue"], ascending=[False, True], kind="stable"
        )

    @property
    def separated(self) -> list[Pair]:
        """The pairs (better, worse) that are separated on any measure, each once."""
        rows = self.table[self.table["separated"]]
        return list(dict.fromkeys(better_and_worse(rows, "difference")))

    @property
    def better(self) -> list[tuple[Any, Any]]:
        """The separated pairs (better, worse) but those of which each is better on some measure."""
        separated = self.separated
        return [(a, b) for a, b in separated if (b, a) not in separated]

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
        """What the tests say and what they are about, in a sentence; see `headline`."""
        return f"{self.headline(named)}; {self.about}."

    def corrected(self, table: pd.DataFrame, n_datasets: int, n_comparisons: int) -> Self:
        """The same with the corrected table, and what follows from it."""
        return replace(self, table=table, n_datasets=n_datasets, n_comparisons=n_comparisons)


Kind = TypeVar("Kind", bound=PairTests)


@dataclass(frozen=True, kw_only=True)
class DatasetTests(PairTests):
    """Tests over n datasets by the test that decides, which `wording` names."""

    unit: ClassVar[str] = "datasets"

    wording: str
    n: int
    claim: str

    @property
    def test(self) -> str:
        return f"{self.wording[:1].upper()}{self.wording[1:]}"

    @property
    def extent(self) -> str:
        return f"on {count(self.n, 'dataset')}"

    @property
    def about(self) -> str:
        return self.claim


def on_each(
    datasets: Iterable[str], test: Callable[[str], Kind], step: Callable[[], object] = lambda: None
) -> tuple[dict[str, Kind], dict[str, Exception]]:
    """The tests of each dataset, corrected over all of them together, and why others have none;
    after each a `step`."""
    tests = {}
    failed: dict[str, Exception] = {}
    for dataset in datasets:
        try:
            tests[dataset] = test(dataset)
        except StoreError:
            raise
        except (MlevalError, ValueError) as error:
            failed[dataset] = error
        finally:
            step()
    return jointly(tests), failed


def rows_of_tests(tests: Mapping[str, PairTests]) -> pd.DataFrame:
    """`PairTests.pairs` of all datasets, in one table; none where there are no tests."""
    tables = [one.pairs.assign(dataset=dataset) for dataset, one in tests.items()]
    return pd.concat(tables or [pd.DataFrame(columns=["dataset", *COLUMNS])], ignore_index=True)


def most_certain(tests: Mapping[str, PairTests]) -> dict[str, Any] | None:
    """What is known of the pair with the least p-value on any dataset; None without a test."""
    rows = rows_of_tests(tests).dropna(subset="pvalue_corrected")
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


#: By which measures two methods cross, and on which datasets either is better.
Crossings = Sequence[tuple[list[str], dict[Hashable, tuple[str, ...]]]]


def crossings(tests: Mapping[str, PairTests]) -> Crossings:
    """Methods that are each certainly better on some dataset: by which measures, and where."""
    rows = rows_of_tests(tests)
    rows = rows[rows["separated"].astype(bool)]
    rows = better_first(rows, rows["method_a"].map(str) > rows["method_b"].map(str))
    found: dict[tuple[Any, ...], list[str]] = {}
    for (a, b, measure), each in rows.groupby([*PAIR, "measure"], sort=False):
        where = each.groupby(np.sign(each["difference"]))["dataset"].agg(tuple)
        if {-1, 1} <= {*where.index}:
            found.setdefault((a, b, where[1], where[-1]), []).append(measure)
    return [(measures, {a: on_a, b: on_b}) for (a, b, on_a, on_b), measures in found.items()]


def limits_together(
    table: pd.DataFrame, error: ArrayLike, df: ArrayLike, alpha: float, n_comparisons: int
) -> pd.DataFrame:
    """The table with Student's limits of its differences, each at the same level: that of all
    together over their number (Bonferroni); a later step of Holm's may separate more."""
    difference, apart = table["difference"].to_numpy(float), table["separated"].to_numpy(bool)
    half = special.stdtrit(df, 1 - alpha / max(n_comparisons, 1) / 2) * error
    low, high = up_to_zero(difference - half, difference + half, difference, apart)
    return table.assign(low=low, high=high)


def jointly(tests: Mapping[str, Kind]) -> dict[str, Kind]:
    """The tests of several datasets, corrected (Holm 1979) over all pairs: within each alone, ten
    datasets separate some pair of four equal methods in a third of cases."""
    if not tests:
        return {}
    first, tables = next(iter(tests.values())), [one.table.copy() for one in tests.values()]
    total = sum(int(table["pvalue"].count()) for table in tables)
    for prefix in ("", *first.beside):
        within = "pvalue_corrected" if first.one_family else f"{prefix}pvalue"
        pvalues = [table[within].to_numpy(float) for table in tables]
        worst = [p.max(keepdims=True) if first.one_family else p[~np.isnan(p)] for p in pvalues]
        for table, p in zip(tables, pvalues, strict=True):
            table[f"{prefix or 'pvalue_'}corrected"] = stepped(p, np.concatenate(worst))
    return {
        dataset: one.corrected(
            table.assign(separated=table["pvalue_corrected"] <= one.alpha), len(tests), total
        )
        for (dataset, one), table in zip(tests.items(), tables, strict=True)
    }


# --------------------------------------------------------------------------------------------------
# Instances that belong together: one table of clusters for all methods, and what they are worth.
#
# Bell & McCaffrey (2002), "Bias reduction in standard errors for linear regression with multi-stage
# samples", for CR2 and its degrees of freedom; Kish (1965) for the effective number.

#: With fewer clusters of equal size skewed values make intervals and tests err more often than they
#: say.
FEW_CLUSTERS = 20
#: Instances that an error names.
_NAMED = 5


def one_table(parts: Iterable[tuple[str, pd.Series]], column: str) -> pd.Series:
    """By instance the name of its cluster, from what methods say of each; None where nobody names
    one, an error where an instance is in several."""
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
        raise IncomparableRunsError(
            f"{column!r} must put each instance into one cluster, and puts {len(shown):,} into "
            f"several: {some(shown, _NAMED)}. Correct it in the data, or name another column."
        )
    clusters = named.set_index("instance")["cluster"].reindex(rows.index.unique()).astype(object)
    return clusters.where(clusters.notna(), None)


def cluster_numbers(clusters: ArrayLike, n: int, index: Any = None) -> Places:
    """By instance the number of its cluster; without a name, it is a cluster of its own."""
    if isinstance(clusters, pd.Series) and index is not None and not clusters.index.equals(index):
        raise ValueError(
            "`clusters` must have the index of the instances, got another. Reorder it, or pass "
            "an array."
        )
    names = cluster_names(clusters)
    if names.shape != (n,):
        raise ValueError(
            f"`clusters` must hold one value for each of the {n} instances, got shape "
            f"{names.shape}."
        )
    codes: Places = pd.factorize(np.where(pd.isna(names), np.arange(n), names))[0]
    if codes.max() == 0:
        raise ValueError(
            "`clusters` must hold at least two clusters, got one. Leave it out if the instances "
            "are independent."
        )
    return codes


def effective_number(sizes: ArrayLike) -> float:
    """How many clusters of equal size are worth as much as these (Kish)."""
    share = np.asarray(sizes, float) / np.sum(sizes)
    return round(float(1 / (share @ share)), 6)


def satterthwaite(sizes: ArrayLike) -> float:
    """Degrees of freedom of a mean's CR2 variance of independent instances (Bell & McCaffrey)."""
    share = np.asarray(sizes, float) / np.sum(sizes)
    left = share**2 / (1 - share)
    return float(1 / (share @ share + left.sum() ** 2 - left @ left))


def cluster_doubts(clusters: ArrayLike | None, numbers: Places | None) -> list[str]:
    """What to tell of instances that name no cluster, and of few or unequal ones, if any."""
    if numbers is None:
        return []
    sizes = np.bincount(numbers)
    doubts = []
    if clusters is not None and (n := int(pd.isna(cluster_names(clusters)).sum())):
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


def cluster_names(clusters: ArrayLike) -> AnyArray:
    """The names of clusters as text, the same for 3, 3.0 and "3"; None where there is none.

    >>> cluster_names([3.0, "3", " ", None]).tolist()
    ['3', '3', None, None]
    """
    codes, values = pd.factorize(np.asarray(clusters, dtype=object))
    names = []
    for value in values:
        whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
        names.append(str(int(value) if whole else value).strip() or None)
    # the last stands for what is missing
    return np.array([*names, None], dtype=object)[codes]


# --------------------------------------------------------------------------------------------------
# Tables datasets x methods, and what is in them.


def complete_table(values: ArrayLike | pd.DataFrame, name: str) -> pd.DataFrame:
    """A table datasets x methods of floats: at least two of each, no duplicate method, no NaN."""
    table = incomplete_table(values, name)
    if empty := int(table.isna().to_numpy().sum()):
        row, column = np.argwhere(table.isna().to_numpy())[0]
        raise ValueError(
            f"`{name}` must have a value in every cell, got {empty} of {table.size} empty "
            f"(first: {table.columns[column]} on {table.index[row]}). Choose a policy for "
            "missing values (worst, drop-datasets, drop-methods), or test the incomplete table "
            "with skillings_mack."
        )
    return table


def incomplete_table(values: ArrayLike | pd.DataFrame, name: str) -> pd.DataFrame:
    """The same, but cells may be empty."""
    values = in_pandas(values, index="dataset")
    table = values if isinstance(values, pd.DataFrame) else pd.DataFrame(np.atleast_2d(values))
    if table.shape[0] < 2 or table.shape[1] < 2:
        raise ValueError(
            f"`{name}` must be datasets x methods with at least two of each, got "
            f"{table.shape[0]} x {table.shape[1]}. A test over datasets needs more results."
        )
    if table.columns.has_duplicates:
        twice = table.columns[table.columns.duplicated()].unique().tolist()
        raise ValueError(
            f"`{name}` must have distinct methods, got {len(twice)} more than once "
            f"({some(twice)}). Rename them."
        )
    try:
        return table.astype(float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must hold numbers, got {error}. Pass one number a cell."
        ) from None


def components(joined: AnyArray) -> AnyArray:
    """By row, the number of its connected component of a symmetric graph of booleans."""
    from scipy.sparse import csgraph  # slow to load, and most rankings do without it

    labels: AnyArray = csgraph.connected_components(joined, directed=False)[1]
    return labels
