"""Measures of the order in which scores put the labels, of all of it or of its first k."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from mlflow_mleval.measures.curves import StoredScores, without_zeros
from mlflow_mleval.measures.registry import AT_K_NAME
from mlflow_mleval.measures.sets import Conventions, rows_of
from mlflow_mleval.validation import AnyArray, Array, Bools, Ints

# --------------------------------------------------------------------------------------------------
# Measures of the order in which scores put the labels: one-error, coverage, ranking loss and
# average precision.


def ranking_measures(
    true: Bools,
    scores: Array,
    conventions: Conventions = "sklearn",
) -> dict[str, Array]:
    """The four ranking measures of each instance (Madjarov et al. 2012, A.13 to A.16), each of
    shape (n,).

    Scores are finite; only their order within a row counts. One sort of each row, with the truth
    carried in the lowest bit of the sorted numbers. By the conventions, sklearn or mulan, equal
    scores share the worst rank of the group, or stand in the order of falling label index; an
    instance without a relevant label has average precision 1, or NaN (left out of the mean), its
    coverage and ranking loss being 0 and its one-error 1 under both; ties for the top label go to
    the lowest index, or the highest.

    >>> found = ranking_measures(np.array([[True, False, True]]), np.array([[0.9, 0.5, 0.2]]))
    >>> {name: v.round(3).item() for name, v in found.items()}
    {'one_error': 0.0, 'coverage': 2.0, 'ranking_loss': 0.5, 'average_precision': 0.833}
    """
    n, k = true.shape
    stable = conventions == "mulan"
    keys = _keys(true, scores)
    keys.sort(axis=1)
    ordered = (keys & 1).astype(bool)  # the truth, best score first
    if stable:
        _by_label_where_tied(ordered, keys, true, scores)
    at = np.flatnonzero(ordered)
    row, place = np.divmod(at, k)
    top = k - 1 - scores[:, ::-1].argmax(axis=1) if stable else scores.argmax(axis=1)
    return {"one_error": 1.0 - true[np.arange(n), top]} | _of_places(
        row,
        place,
        keys.ravel()[at],
        n,
        k,
        conventions,
    )


def _by_label_where_tied(ordered: Bools, keys: Ints, true: Bools, scores: Array) -> None:
    """Put the truth of rows with equal scores into the order of falling label index."""
    by_score = keys >> 1
    tied = (by_score[:, 1:] == by_score[:, :-1]).any(axis=1)
    order = np.argsort(-scores[tied, ::-1], axis=1, kind="stable")
    ordered[tied] = np.take_along_axis(true[tied, ::-1], order, axis=1)


def sparse_ranking_measures(
    scores: StoredScores,
    conventions: Conventions = "sklearn",
) -> dict[str, Array]:
    """The same of sparse scores, which must be float64; the zeros that they do not store are never
    made.
    """
    n, k = scores.true.shape
    stable = conventions == "mulan"
    right = np.zeros(n, bool)
    ordered_hits = []
    for rows, table, at, stored in scores.tables():
        true = scores.relevant[at] & stored
        keys = _keys(true, np.where(stored, table, 0))
        keys[~stored] = np.iinfo(np.int64).max
        keys.sort(axis=1)
        ordered = (keys & 1).astype(bool) & stored
        if stable:
            _by_label_where_tied(ordered, keys, true, table)
        width = table.shape[1]
        top = width - 1 - table[:, ::-1].argmax(axis=1) if stable else table.argmax(axis=1)
        right[rows] = true[np.arange(len(rows)), top]
        at = np.flatnonzero(ordered)
        row, place = np.divmod(at, width)
        row = rows[row]
        ordered_hits.append(
            (
                row,
                place + np.where(place >= scores.positive[row], scores.zeros[row], 0),
                keys.ravel()[at],
            )
        )
    if (low := np.flatnonzero((scores.positive == 0) & (scores.zeros > 0))).size:
        right[low] = scores.is_true(low, scores.first_zero(low, last=stable))
    row, label = scores.missed
    if stable:
        place = scores.positive[row] + k - 1 - label - scores.stored_above(row, label)
    else:
        number = np.arange(len(row)) - (np.cumsum(scores.missed_counts) - scores.missed_counts)[row]
        place = scores.positive[row] + (scores.zeros - scores.missed_counts)[row] + number
    ordered_hits.append(
        (row, place, np.full(len(row), np.iinfo(np.int64).min))
    )  # no score of a relevant label has this key
    row, place, keys = (np.concatenate(column) for column in zip(*ordered_hits, strict=True))
    order = np.argsort(row * k + place)
    return {"one_error": 1.0 - right} | _of_places(
        row[order],
        place[order],
        keys[order],
        n,
        k,
        conventions,
    )


def _of_places(
    row: Ints,
    place: Ints,
    key: Ints,
    n: int,
    k: int,
    conventions: Conventions,
) -> dict[str, Array]:
    """Coverage, ranking loss and average precision from the places of the relevant labels, counted
    from 0, row by row.

    Equal keys are equal scores; those of the irrelevant labels come first.
    """
    stable = conventions == "mulan"
    count = np.bincount(row, minlength=n)
    end = np.cumsum(count)
    share = (np.arange(1, len(row) + 1) - (end - count)[row]) / (place + 1)
    if not stable:
        # Equal relevant scores stand together behind equal irrelevant ones, so the last has the
        # rank of them all.
        same = (np.diff(key) == 0) & (np.diff(row) == 0)
        if same.any():
            last = np.flatnonzero(np.append(~same, True))
            share = np.repeat(share[last], np.diff(last, prepend=-1))
    some = count > 0
    coverage = np.zeros(n)
    coverage[some] = place[end[some] - 1]
    misplaced = np.bincount(row, weights=place, minlength=n) - count * (count - 1) / 2
    precision = np.bincount(row, weights=share, minlength=n) / np.maximum(count, 1)
    return {
        "coverage": coverage,
        "ranking_loss": misplaced / np.maximum(count * (k - count), 1),
        "average_precision": np.where(some, precision, np.nan if stable else 1.0),
    }


def ordered_floats(scores: Any) -> Any:
    """The scores as float64 in the same order, ties as ties: those that it would round are numbered
    instead.

    Zeros stay 0.
    """
    if sparse.issparse(scores):
        return sparse.csr_array(
            (ordered_floats(scores.data), scores.indices, scores.indptr), shape=scores.shape
        )
    exact = (
        scores.dtype.kind == "b"
        or scores.dtype.itemsize < 8
        or scores.dtype == float
        or not scores.size
    )
    if not exact and scores.dtype.kind in "ui":
        exact = int(scores.max()) <= 2**53 and int(scores.min()) >= -(2**53)
    if exact:
        return scores.astype(float, "C", copy=False)
    numbers = np.unique(np.append(scores, np.zeros(1, scores.dtype)), return_inverse=True)[1]
    return (numbers[:-1] - numbers[-1]).reshape(scores.shape).astype(float)


def _keys(true: Bools, scores: Array) -> Ints:
    """Integers that ascend as the scores fall, equal scores with the irrelevant label first; the
    lowest bit is the truth.

    The bits of a float below 2 leave one to spare, so nothing of the score is lost and ties are
    ties.
    """
    low = scores.min()
    high = scores.max()
    largest = max(high, -low)
    if largest >= 2:
        scale = np.ldexp(1.0, int(np.frexp(largest)[1]) - 1)
        scaled = scores / scale
        if not np.array_equal(
            scaled * scale, scores
        ):  # 1e300 beside 1e-300: number the values instead
            return (~np.unique(scores, return_inverse=True)[1].reshape(scores.shape) << 1) | true
        scores = scaled
    bits = (scores + 0.0).view(np.int64)  # -0.0 becomes 0.0
    if low < 0:
        bits ^= (bits >> 63) & np.iinfo(np.int64).max  # sign and magnitude to an ascending integer
    np.invert(bits, out=bits)
    bits <<= 1
    bits |= true
    return bits


# --------------------------------------------------------------------------------------------------
# Measures of the k labels with the highest scores: precision, recall, nDCG, and their
# propensity-scored forms.
#
# Of equal scores the lower label comes first. A score of 0 is none, stored or not: where fewer than
# k labels are scored, the rest are misses. The names carry k: ``precision_at_5``.

#: Those that need propensities; they are ratios of sums over instances: of what was gained, and of
#: what could be.
SCORED = ("psp", "psndcg")
GAIN = "_gain"
BEST = "_best"
_BLOCK = 1 << 18  # cells that are ranked at a time
_ROUNDS = 16  # up to this k, picking the largest k times beats sorting


def parsed(names: Iterable[str]) -> list[tuple[str, int]]:
    """What is measured, and k, of the names that are of measures at k."""
    return [(found[1], int(found[2])) for found in map(AT_K_NAME.fullmatch, names) if found]


def at_k_measures(
    names: Iterable[str],
    true: sparse.csr_array,
    hits: Ints,
    weights: Array | None,
) -> dict[str, Array]:
    """The measures at k of each instance, of shape (n,); two columns, gain and best, of each that
    is propensity-scored.

    `hits` are the labels that are hit at the first, second, … rank, -1 for misses, for as many
    ranks as the largest k of the names. An instance without relevant labels has recall and nDCG 0,
    and adds nothing to the propensity-scored ones.
    """
    hit = hits >= 0
    count = np.diff(true.indptr)
    discount = 1 / np.log2(np.arange(hits.shape[1]) + 2)
    ideal = np.append(0, np.cumsum(discount))
    wanted = parsed(names)
    if any(name in SCORED for name, _ in wanted):
        assert weights is not None  # only those with propensities are asked
        weighted = np.where(hit, weights[hits], 0)
        best = _largest(true, weights, hits.shape[1])
    columns = {}
    for name, k in wanted:
        key = f"{name}_at_{k}"
        first = slice(k)
        if name == "precision":
            columns[key] = hit[:, first].sum(axis=1) / k
        elif name == "recall":
            columns[key] = hit[:, first].sum(axis=1) / np.maximum(count, 1)
        elif name == "ndcg":
            columns[key] = (hit[:, first] * discount[first]).sum(axis=1) / np.maximum(
                ideal[np.minimum(count, k)], 1
            )
        else:
            by = discount[first] if name == "psndcg" else np.ones(k)
            # The k of psp cancels in the ratio; with it the sums are those of the definition, to a
            # bit.
            norm = np.maximum(ideal[np.minimum(count, k)], 1) if name == "psndcg" else k
            columns[key + GAIN], columns[key + BEST] = (
                (side[:, first] * by).sum(axis=1) / norm for side in (weighted, best)
            )
    return columns


def ratios(sums: Mapping[str, float]) -> dict[str, float]:
    """The propensity-scored measures from the sums of gain and best; NaN where nothing could be
    gained.
    """
    values = {}
    for name in (column.removesuffix(GAIN) for column in sums if column.endswith(GAIN)):
        best = sums[name + BEST]
        values[name] = sums[name + GAIN] / best if best else float("nan")
    return values


def dense_hits(true: Bools, scores: AnyArray, k: int) -> Ints:
    """The labels that are hit at the ranks up to k, shape (n, k), -1 for misses."""
    hits = np.full((len(scores), k), -1)
    order = _top(scores.astype(float, copy=True), k)
    hit = np.take_along_axis(true, order, axis=1) & (np.take_along_axis(scores, order, axis=1) != 0)
    hits[:, : order.shape[1]] = np.where(hit, order, -1)
    return hits


def sparse_hits(scores: StoredScores, k: int) -> Ints:
    """The same of sparse scores."""
    hits = np.full((len(scores.counts), k), -1)
    for row, rank, cell in _highest(scores, k):
        hit = scores.relevant[cell]
        hits[row[hit], rank[hit]] = scores.score.indices[cell[hit]]
    return hits


def _highest(scores: StoredScores, k: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """The stored scores at the ranks up to k: their rows, ranks from 0, and places in the data."""
    for rows, table, at, _ in scores.tables():
        order = _top(table, k)
        cell = np.take_along_axis(at, order, axis=1)
        place = np.arange(order.shape[1])
        rank = place + np.where(place >= scores.positive[rows, None], scores.zeros[rows, None], 0)
        row, place = np.nonzero((place < scores.counts[rows, None]) & (rank < k))
        yield rows[row], rank[row, place], cell[row, place]


def top_labels(scores: Any, k: int, zeros: bool = False) -> sparse.csr_array:
    """Which labels have the k highest scores, as a CSR of booleans; those that score 0 only with
    `zeros`.
    """
    if sparse.issparse(scores):
        scores = ordered_floats(without_zeros(scores))
        highest = [
            (row, scores.indices[cell])
            for row, _, cell in _highest(StoredScores(scores, scores), k)
        ]
    else:
        floats = ordered_floats(np.asarray(scores))
        highest = []
        step = max(1, _BLOCK // scores.shape[1])
        for start in range(0, len(floats), step):
            block = floats[start : start + step]
            order = _top(block.copy(), k)
            row, place = np.nonzero(zeros | (np.take_along_axis(block, order, axis=1) != 0))
            highest.append((start + row, order[row, place]))
    none = np.zeros(0, np.int64)
    row, label = (np.concatenate(side) for side in zip((none, none), *highest, strict=True))
    return sparse.csr_array((np.ones(len(row), bool), (row, label)), shape=scores.shape)


def _top(table: Array, k: int) -> Ints:
    """Columns of the k highest scores of each row, of equal ones the lower first; the table is used
    up.
    """
    k = min(k, table.shape[1])
    if k > _ROUNDS:
        return np.argsort(-table, axis=1, kind="stable")[:, :k]
    rows = np.arange(len(table))
    columns = np.empty((len(table), k), np.int64)
    for i in range(k):
        columns[:, i] = table.argmax(axis=1)
        table[rows, columns[:, i]] = -np.inf
    return columns


def _largest(true: sparse.csr_array, weights: Array, k: int) -> Array:
    """The k largest weights of the relevant labels of each row, largest first, then zeros; shape
    (n, k).
    """
    n, n_labels = true.shape
    falling = np.argsort(-weights)
    rank = np.empty(n_labels, np.int64)
    rank[falling] = np.arange(n_labels)
    row = rows_of(true)
    ranks = np.sort(row * n_labels + rank[true.indices]) % n_labels
    place = np.arange(len(row)) - true.indptr[row]
    first = place < k
    largest = np.zeros((n, k))
    largest[row[first], place[first]] = weights[falling[ranks[first]]]
    return largest
