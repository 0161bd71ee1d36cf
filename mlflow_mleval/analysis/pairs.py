"""Pairs of methods: differences and intervals, the better one first, who is not separated."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from string import ascii_letters
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.promethee import tied_ranks
from mlflow_mleval.analysis.ranks import column_of, complete_table, incomplete_table
from mlflow_mleval.measures.registry import Direction
from mlflow_mleval.validation import AnyArray, at_least_one, one_of, refuse_keywords

# --------------------------------------------------------------------------------------------------
# Pairs of methods on the same datasets or folds: their differences, means with intervals,
# corrections for their number.

#: Corrections of p-values for their number, and what they are called.
CORRECTIONS = {
    "holm": "Holm's correction",
    "bonferroni": "Bonferroni's correction",
    "none": "no correction",
}
#: Differences that agree within this share of the dataset's largest value are equal (ties), or
#: zero: float noise.
NOISE = 1e-12


class Draws(TypedDict, total=False):
    """How a test draws at random."""

    n_resamples: int
    seed: int


def drawn(test: Callable[..., Any], draws: Draws, n_resamples: int) -> tuple[int, int]:
    """The number of draws, by default `n_resamples`, and the seed, by default 0; a TypeError names
    what the test does not take.
    """
    refuse_keywords(test, draws, Draws.__annotations__)
    return at_least_one(draws.get("n_resamples", n_resamples), "n_resamples"), draws.get("seed", 0)


def pair_differences(
    table: ArrayLike | pd.DataFrame,
    direction: Direction = "max",
    control: Hashable | None = None,
    gaps: bool = False,
) -> tuple[pd.DataFrame, AnyArray, AnyArray, AnyArray, AnyArray]:
    """The checked table, positions of either method of each pair, differences pairs x rows
    (positive where a is better, zero where they are noise, NaN with `gaps`), and the float noise
    of each row.
    """
    one_of(direction, "direction", ("max", "min"))
    frame = (incomplete_table if gaps else complete_table)(table, "table")
    values = frame.to_numpy()
    if bad := int(np.isinf(values).sum()):
        raise ValueError(
            f"`table` must be finite, got {bad} infinite cells. A difference of infinities has "
            "no rank."
        )
    a, b = pair_positions(frame, control)
    by_method = (-values if direction == "min" else values).T
    noise = NOISE * np.fmax.reduce(np.abs(values), axis=1, initial=0.0)
    difference = by_method[a] - by_method[b]
    difference[np.abs(difference) <= noise] = 0.0
    return frame, a, b, difference, noise


def pair_positions(
    frame: pd.DataFrame,
    control: Hashable | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Positions of the methods of each pair of columns; with a control of every other one and the
    control.
    """
    m = frame.shape[1]
    if control is None:
        return np.triu_indices(m, 1)
    at = column_of(control, frame)
    return np.delete(np.arange(m), at), np.full(m - 1, at)


def moments(difference: AnyArray, noise: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Mean and standard deviation of the differences of each pair, NaN left out; a deviation that
    is float noise is zero.
    """
    there = ~np.isnan(difference)
    n = there.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, difference, 0.0).sum(axis=1) / n
        deviation = np.sqrt(
            (np.where(there, difference - mean[:, None], 0.0) ** 2).sum(axis=1) / (n - 1)
        )
    deviation[deviation <= noise.max()] = 0.0
    return mean, deviation


def taken_for_certain(deviation: AnyArray, row: str) -> list[str]:
    """What to tell of pairs whose differences do not vary."""
    same = int((deviation == 0).sum())
    return [
        f"Taken for certain, because they differ by the same in every {row}: {same} of "
        f"{len(deviation)} pairs."
    ] * bool(same)


def checked_ratio(ratio: float | None) -> float | None:
    """n_test / n_train as a float, if it is one; else a ValueError."""
    if ratio is None:
        return None
    number = float(ratio)
    if not 0 <= number < np.inf:
        raise ValueError(
            f"`ratio` must be n_test / n_train of a fold (1/9 for ten folds), got {ratio!r}."
        )
    return number


def variance_factor(n: Any, ratio: float | None = None) -> Any:
    """Variance of a mean over n folds in variances of one: 1/n + n_test/n_train (Nadeau & Bengio
    2003)."""
    return 1 / n + (ratio or 0.0)


def mean_intervals(
    table: pd.DataFrame,
    alpha: float = 0.05,
    ratio: float | None = None,
) -> pd.DataFrame:
    """The mean of each column over datasets or folds with its interval by Student's t; `ratio`,
    n_test / n_train of a fold, widens it for training data that folds share.
    """
    n = table.count()
    half = special.stdtrit(n - 1, 1 - alpha / 2) * table.std() * np.sqrt(variance_factor(n, ratio))
    return pd.DataFrame(
        {"mean": table.mean(), "low": table.mean() - half, "high": table.mean() + half}
    )


def adjust(pvalues: ArrayLike, method: str = "holm") -> AnyArray:
    """P-values corrected for their number."""
    one_of(method, "method", CORRECTIONS)
    p = np.asarray(pvalues, dtype=float).ravel()
    if bad := int((~((p >= 0) & (p <= 1))).sum()):
        raise ValueError(
            f"`pvalues` must lie in [0, 1], got {bad} that do not. Leave out comparisons that "
            "were not made."
        )
    if method == "holm":
        return holm(p)
    return np.minimum(1.0, p * p.size) if method == "bonferroni" else p.copy()


def holm(pvalues: AnyArray) -> AnyArray:
    """Holm's correction along the last axis; NaN where there is no test, which does not count."""
    order = np.argsort(pvalues, axis=-1, kind="stable")
    left = (~np.isnan(pvalues)).sum(axis=-1, keepdims=True) - np.arange(pvalues.shape[-1])
    ranked = np.take_along_axis(pvalues, order, axis=-1) * np.maximum(left, 1)
    out = np.empty_like(pvalues)
    np.put_along_axis(out, order, np.minimum(1.0, np.maximum.accumulate(ranked, axis=-1)), axis=-1)
    return out


def stepped(pvalues: AnyArray, worst: AnyArray, extra: int = 0) -> AnyArray:
    """Holm's step-down for p-values that are corrected within families: closed testing of `worst`,
    the largest of each family, and of so many extra ones that reject nothing. A family counts
    until all of it is rejected. NaN where there is no test.
    """
    worst = np.sort(worst)
    ahead = np.searchsorted(worst, pvalues, side="left")
    still = len(worst) - np.arange(len(worst)) + extra
    before = np.concatenate([[0.0], np.maximum.accumulate(worst * still)])
    stepwise = np.maximum(pvalues * (len(worst) - ahead + extra), before[ahead])
    return np.where(np.isnan(pvalues), np.nan, np.minimum(stepwise, 1.0))


def decided(pvalues: AnyArray, alpha: float, correction: str = "holm") -> dict[str, AnyArray]:
    """Columns of a table of tests: pvalue, pvalue_corrected (NaN does not count), significant at
    alpha.
    """
    corrected = holm(pvalues) if correction == "holm" else adjust(pvalues, correction)
    return {"pvalue": pvalues, "pvalue_corrected": corrected, "significant": corrected <= alpha}


def named_pairs(names: Sequence[Hashable], a: AnyArray, b: AnyArray) -> dict[str, pd.Index]:
    """Columns method_a and method_b of a table of pairs, from the positions of the two."""
    index = pd.Index(names, tupleize_cols=False)
    return {"method_a": index.take(a), "method_b": index.take(b)}


def pairs_table(
    names: Sequence[Hashable],
    a: AnyArray,
    b: AnyArray,
    n: AnyArray,
    total: AnyArray,
    **columns: ArrayLike,
) -> pd.DataFrame:
    """A table of pairs tested over datasets: method_a, method_b, n (datasets), mean_difference of
    this total, further columns.
    """
    return pd.DataFrame(
        {**named_pairs(names, a, b), "n": n, "mean_difference": total / np.maximum(n, 1), **columns}
    )


def pair_matrix(
    names: Sequence[Hashable],
    a: Iterable[Hashable],
    b: Iterable[Hashable],
    values: ArrayLike = True,
    own: object = False,
) -> pd.DataFrame:
    """Values of pairs (a, b), the same for (b, a), as a frame names x names; `own` stands for pairs
    that are not there.
    """
    at = pd.Index(names, tupleize_cols=False)
    i = at.get_indexer(pd.Index(a, tupleize_cols=False))
    j = at.get_indexer(pd.Index(b, tupleize_cols=False))
    matrix = np.full((len(at), len(at)), own)
    matrix[i, j] = matrix[j, i] = values
    return pd.DataFrame(matrix, at, at)


def apart(names: Sequence[Hashable], pairs: Sequence[tuple[Hashable, Hashable]]) -> pd.DataFrame:
    """Whether the pairs (a, b) are separated, names x names."""
    return pair_matrix(names, [a for a, _ in pairs], [b for _, b in pairs])


def possible_ranks(
    names: Sequence[Hashable],
    pairs: Sequence[tuple[Hashable, Hashable]],
) -> pd.DataFrame:
    """By name, the ranks low to high that the separated pairs (better, worse) leave: none passes
    those separated from it.

    >>> possible_ranks(["a", "b", "c"], [("a", "c"), ("b", "c")]).T.to_dict("list")
    {'a': [1, 2], 'b': [1, 2], 'c': [3, 3]}
    """
    better, worse = (
        pd.Series([pair[i] for pair in pairs], dtype=object).value_counts() for i in range(2)
    )
    low = 1 + worse.reindex(names, fill_value=0)
    high = len(names) - better.reindex(names, fill_value=0)
    return pd.DataFrame({"low": low.astype(int), "high": high.astype(int)})


def best_first(
    scores: pd.Series,
    pairs: Sequence[tuple[Hashable, Hashable]],
) -> tuple[list[Any], list[tuple[Hashable, Hashable]]]:
    """The names by falling score, but none before one that a pair (better, worse) puts above it;
    and the pairs that go against the scores.

    >>> best_first(pd.Series({"a": 0.1, "b": 0.5, "c": 0.4}), [("c", "b")])
    (['c', 'b', 'a'], [('c', 'b')])
    """
    rank = pd.Series(tied_ranks(-scores.to_numpy()), scores.index)
    left = rank.sort_values(kind="stable").index.tolist()
    at = rank.to_dict()
    turned = [(better, worse) for better, worse in pairs if at[better] > at[worse]]
    if not turned:
        return left, []
    above: dict[Hashable, set[Hashable]] = {name: set() for name in left}
    for better, worse in pairs:
        above[worse].add(better)
    order: list[Any] = []
    while left:
        # pairs on different datasets may run in a circle: then the scores decide
        free = next((name for name in left if above[name].isdisjoint(left)), left[0])
        order.append(free)
        left.remove(free)
    return order, turned


# --------------------------------------------------------------------------------------------------
# Tables of pairs with the better method first: what tells the two apart changes places or sign with
# them.


#: What is said of method_a and of method_b, and the ends of an interval.
_OPPOSITE = {"wins": "losses", "better": "worse", "low": "high", "p_a": "p_b"}
#: Differences a minus b, by the ends of their names.
_SIGNED = ("difference", "low", "high", "mean", "shrunken", "effect_size")


def better_first(pairs: pd.DataFrame, turned: ArrayLike) -> pd.DataFrame:
    """The rows in the same order, those that are `turned` (see `behind`) with the methods the other
    way round.

    By their names, columns of what is said of either method change places (wins and losses, p_better
    and p_worse), and so do the ends of intervals; then differences change sign.

    >>> pairs = pd.DataFrame({"method_a": ["x"], "method_b": ["y"], "wins": [2], "losses": [5], "low": [-3], "high": [-1]})
    >>> better_first(pairs, [True]).values.tolist()
    [['y', 'x', 5, 2, 1, 3]]
    """  # noqa: E501
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


def behind(pairs: pd.DataFrame, order: Sequence[Hashable]) -> AnyArray:
    """Which rows have method_a behind method_b in the order, best first.

    >>> behind(pd.DataFrame({"method_a": ["x", "y"], "method_b": ["y", "z"]}), ["y", "z", "x"]).tolist()
    [True, False]
    """  # noqa: E501
    at = places(pairs, order)
    return (at["a"] > at["b"]).to_numpy()


def places(pairs: pd.DataFrame, order: Sequence[Hashable]) -> pd.DataFrame:
    """The places a and b of the two methods in the order, counted from 0."""
    place = {method: i for i, method in enumerate(order)}
    return pd.DataFrame({"a": pairs["method_a"].map(place), "b": pairs["method_b"].map(place)})


# --------------------------------------------------------------------------------------------------
# Which methods a test does not separate: maximal cliques of the non-rejection graph, and letters
# that show them.

#: A graph may have exponentially many maximal cliques; of more than this, and than methods, only
#: some are shown.
MAX_CLIQUES = 1000


def cliques(separated: pd.DataFrame) -> list[list[Any]]:
    """The maximal sets of methods of which the test separates no pair, in the order of the frame;
    where there are more than `MAX_CLIQUES` and than methods, some that hold every such pair, and
    a UserWarning.
    """
    if separated.shape[0] != separated.shape[1] or not separated.index.equals(separated.columns):
        raise ValueError(
            f"`separated` must be square with the same names both ways, got {separated.shape}. "
            "Reindex it."
        )
    apart = separated.to_numpy(dtype=bool)
    if (apart != apart.T).any():
        raise ValueError(
            f"`separated` must be symmetric, got {int((apart != apart.T).sum() // 2)} pairs that "
            "differ."
        )
    together = ~apart
    np.fill_diagonal(together, False)
    groups = _all_cliques(together) or _some_cliques(together)
    return [
        separated.index[members].tolist() for members in sorted(sorted(group) for group in groups)
    ]


def grouped(separated: pd.DataFrame) -> tuple[list[list[Any]], dict[Any, str]]:
    """The `cliques`, and the `letters` that show them; the methods of the frame are best first."""
    groups = cliques(separated)
    return groups, letters(groups, separated.index.tolist())


def _maximal(sets: Collection[int]) -> list[int]:
    """The sets (bits of integers) that lie in no other."""
    largest: list[int] = []
    for one in sorted(sets, key=int.bit_count, reverse=True):
        if all(one & ~larger for larger in largest):
            largest.append(one)
    return largest


def _all_cliques(together: AnyArray) -> list[list[int]]:
    """The maximal cliques; none at all where there are too many. Vertices come one by one; sets of
    them are bits of integers. networkx takes 10 s for 1,000 methods on a line, this .2 s.
    """
    groups: list[int] = []
    for v, row in enumerate(together[:, ::-1]):  # the first vertex is the last digit
        near = int("".join("1" if joined else "0" for joined in row), 2)
        # what v joins as a whole is no longer maximal; a vertex without neighbours stands alone
        joined = _maximal({group & near for group in groups}) or [0]
        groups = [group for group in groups if group & ~near]
        groups += [group | 1 << v for group in joined]
        # cliques never become fewer when a vertex comes
        if len(groups) > max(MAX_CLIQUES, len(together)):
            return []
    return [[v for v in range(len(together)) if group >> v & 1] for group in groups]


def _some_cliques(together: AnyArray) -> list[list[int]]:
    """Maximal cliques that hold every pair, each grown from a pair that was open by what closes
    most.
    """
    limit = max(MAX_CLIQUES, len(together))
    warnings.warn(
        f"the graph of unseparated methods has more than {limit} maximal cliques; "
        "some are shown that hold every pair.",
        stacklevel=3,
    )
    open_pairs = together.astype(np.int32)
    chosen = [[int(v)] for v in np.flatnonzero(~together.any(axis=0))]
    while open_pairs.any():
        a, b = np.unravel_index(int(np.argmax(open_pairs)), open_pairs.shape)
        clique = [int(a), int(b)]
        common = together[a] & together[b]
        fresh = open_pairs[a] + open_pairs[b]  # pairs with the clique, by the vertex that joins it
        while common.any():
            v = int(np.argmax(np.where(common, fresh, -1)))
            clique.append(v)
            common &= together[v]
            fresh += open_pairs[v]
        open_pairs[np.ix_(clique, clique)] = 0
        chosen.append(clique)
    return chosen


def letters(groups: Iterable[Sequence[Hashable]], order: Sequence[Hashable]) -> dict[Hashable, str]:
    """The compact letter display: two methods share a letter exactly where they are not separated
    (Piepho 2004). "a" goes to the group of the best; after z come capitals, then a2, b2 and so
    on.
    """
    place: Mapping[Hashable, int] = {name: i for i, name in enumerate(order)}
    out = dict.fromkeys(order, "")
    for i, members in enumerate(sorted(sorted(place[name] for name in group) for group in groups)):
        turn, letter = divmod(i, len(ascii_letters))
        for at in members:
            out[order[at]] += ascii_letters[letter] + (str(turn + 1) if turn else "")
    return out
