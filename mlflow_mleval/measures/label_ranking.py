"""Measures of the order in which scores, stored or not, put the labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from mlflow_mleval.measures.inputs import (
    Csr,
    compressed,
    found_among,
    row_sizes,
    rows_of,
)
from mlflow_mleval.measures.registry import AT_K_NAME, BEST, GAIN, Conventions
from mlflow_mleval.validation import AnyArray, Array, Bools, Columns, Ints

_TABLE = 1 << 16  # entries that are looked at together: the working arrays stay in the cache


@dataclass(frozen=True, eq=False)
class Table:
    """Scores of some rows, and which of them are of true labels; a cell that holds none is 0."""

    rows: Ints
    scores: AnyArray
    truth: Bools
    labels: Ints  # of each cell
    others: int  # labels that have no cell: they score 0, and are not true

    def others_before(self, row: Ints, column: Ints) -> Ints:
        """How many of the others go before each of these cells if lower labels go first."""
        score = self.scores[row, column]
        lower = self.labels[row, column] - column
        return np.where(score == 0, lower, self.others * (score < 0))


@dataclass(frozen=True, eq=False)
class RowScores:
    """Scores beside their truth, both dense or both CSR; what is not stored scores 0."""

    true: Any
    score: Any

    @cached_property
    def complete(self) -> tuple[Csr, Bools]:
        """The scores with those of 0 of true labels, as CSR, and which are of true labels."""
        n, k = self.score.shape
        stored, true = (rows_of(m) * k + m.indices for m in (self.score, self.true))
        missed = true[~found_among(stored, true)[0]]
        at = np.searchsorted(stored, missed)
        relevant = np.zeros(len(stored) + len(missed), bool)
        relevant[np.searchsorted(np.insert(stored, at, missed), true)] = True
        columns = np.insert(self.score.indices, at, missed % k)
        start = self.score.indptr + np.searchsorted(missed, np.arange(n + 1) * k)
        return compressed(np.insert(self.score.data, at, 0), columns, start, k), relevant

    @cached_property
    def tables(self) -> list[Table]:
        """Tables of rows that store about as many scores."""
        n, k = self.score.shape
        if not sparse.issparse(self.score):
            labels = np.broadcast_to(np.arange(k), (n, k))
            return [Table(np.arange(n), self.score, self.true, labels, 0)]
        score, relevant = self.complete
        whole = score.data, relevant, score.indices
        data, truth, labels = (np.append(part, np.zeros(1, part.dtype)) for part in whole)
        counts = row_sizes(score)
        order = np.argsort(-counts, kind="stable")
        tables = []
        start = 0
        while start < n:
            width = max(1, int(counts[order[start]]))
            rows = order[start : start + max(1, _TABLE // width)]
            start += len(rows)
            column = np.arange(width)
            at = np.where(column < counts[rows, None], score.indptr[rows, None] + column, score.nnz)
            tables.append(Table(rows, data[at], truth[at], labels[at], k - width))
        return tables


# ---- measures of the order of labels -------------------------------------------------------------


def ranking_measures(scores: RowScores, conventions: Conventions = "sklearn") -> Columns:
    """The four ranking measures of each instance."""
    n, k = scores.true.shape
    stable = conventions == "mulan"
    if stable:  # of equal scores the higher label goes first
        scores = RowScores(*(_reversed(side) for side in (scores.true, scores.score)))
    right = np.zeros(n, bool)
    found = []
    for table in scores.tables:
        each = np.arange(len(table.rows))
        top = table.scores.argmax(axis=1)
        right[table.rows] = table.truth[each, top] & (table.others_before(each, top) == 0)
        keys = _keys(table.truth, table.scores)
        keys.sort(axis=1)  # carries the truth, irrelevant ones first of equal scores
        at = np.flatnonzero(keys & 1)
        by_index = stable and (table.others > 0 or (np.diff(keys >> 1) == 0).any())
        if by_index:
            keys = np.argsort(-table.scores, axis=1, kind="stable")
            at = np.flatnonzero(np.take_along_axis(table.truth, keys, axis=1))
        row, place = np.divmod(at, keys.shape[1])
        own = keys.ravel()[at]
        if by_index:
            place += table.others_before(row, own)
        elif table.others:
            place += table.others * (place >= (table.scores > 0).sum(axis=1)[row])
        found.append((table.rows[row], place, own))
    row, place, own = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(row * k + place, kind="stable")
    ranked = _of_places(row[order], place[order], own[order], n, k, conventions)
    return {"one_error": 1.0 - right, **ranked}


def _reversed(matrix: Any) -> Any:
    """The same with the last label first."""
    turned = matrix[:, ::-1]
    if sparse.issparse(turned):
        turned.sort_indices()
    return turned


def _of_places(
    row: Ints, place: Ints, key: Ints, n: int, k: int, conventions: Conventions
) -> Columns:
    """Coverage, ranking loss and average precision from the places of the relevant labels."""
    stable = conventions == "mulan"
    count = np.bincount(row, minlength=n)
    end = np.cumsum(count)
    share = (np.arange(1, len(row) + 1) - (end - count)[row]) / (place + 1)
    if not stable:
        # Equal relevant scores stand behind irrelevant ones, so the last has the rank of all.
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


def _keys(true: Bools, scores: Array) -> Ints:
    """Integers that ascend as scores fall, irrelevant first; the lowest bit is the truth."""
    low = scores.min()
    largest = max(scores.max(), -low)
    if largest >= 2:
        scale = np.ldexp(1.0, int(np.frexp(largest)[1]) - 1)
        scaled = scores / scale
        # 1e300 beside 1e-300: number the values instead
        if not np.array_equal(scaled * scale, scores):
            return (~np.unique(scores, return_inverse=True)[1].reshape(scores.shape) << 1) | true
        scores = scaled
    bits = (scores + 0.0).view(np.int64)  # -0.0 becomes 0.0
    if low < 0:
        bits ^= (bits >> 63) & np.iinfo(np.int64).max  # sign and magnitude to an ascending integer
    np.invert(bits, out=bits)
    bits <<= 1
    bits |= true
    return bits


# ---- measures of the first k labels --------------------------------------------------------------
# Of equal scores the lower label comes first. A score of 0 is none, stored or not: where fewer than
# k labels are scored, the rest are misses.

#: Those that need propensities: ratios of sums of what was gained, and of what could be.
SCORED = ("psp", "psndcg")
_ROUNDS = 16  # up to this k, picking the largest k times beats sorting


def parsed(names: Iterable[str]) -> list[tuple[str, int]]:
    """What is measured, and k, of the names that are of measures at k."""
    return [(found[1], int(found[2])) for found in map(AT_K_NAME.fullmatch, names) if found]


def at_k_measures(names: Collection[str], scores: RowScores, propensities: Any) -> Columns:
    """The measures at k of each instance; two columns of each propensity-scored one."""
    wanted = parsed(names)
    if not wanted:
        return {}
    most = max(k for _, k in wanted)
    hits = np.full((scores.true.shape[0], most), -1)  # the labels that are hit, -1 for misses
    for row, rank, label, hit in _highest(scores, most):
        hits[row[hit], rank[hit]] = label[hit]
    hit = hits >= 0
    true = sparse.csr_array(scores.true)
    count = row_sizes(true)
    discount = 1 / np.log2(np.arange(most) + 2)
    ideal = np.append(0, np.cumsum(discount))
    if any(name in SCORED for name, _ in wanted):
        weighted = np.where(hit, propensities.weights[hits], 0)
        best = np.zeros(hit.shape)
        entries = propensities.weights[true.indices], true.indices, true.indptr
        of_true = RowScores(true, sparse.csr_array(entries, shape=true.shape))
        for row, rank, label, _ in _highest(of_true, most):
            best[row, rank] = propensities.weights[label]
    columns = {}
    for name, k in wanted:
        key = f"{name}_at_{k}"
        by_rank = discount[:k] if name in ("ndcg", "psndcg") else np.ones(k)
        norms: dict[str, Any] = {"precision": k, "recall": np.maximum(count, 1), "psp": k}
        norm = norms.get(name, np.maximum(ideal[np.minimum(count, k)], 1))
        if name in SCORED:
            columns[key + GAIN] = weighted[:, :k] @ by_rank / norm
            columns[key + BEST] = best[:, :k] @ by_rank / norm
        else:
            columns[key] = hit[:, :k] @ by_rank / norm
    return columns


def _highest(
    scores: RowScores, k: int, zeros: bool = False
) -> Iterator[tuple[Ints, Ints, Ints, Bools]]:
    """Row, rank, label and truth of the k highest scores; those of 0 only with `zeros`."""
    for table in scores.tables:
        most = min(k, table.scores.shape[1])
        order = np.empty((len(table.scores), most), np.int64)
        if most > _ROUNDS:
            order = np.argsort(-table.scores.astype(float), axis=1, kind="stable")[:, :most]
        else:
            left = table.scores.astype(float, copy=True)
            for i in range(most):
                order[:, i] = left.argmax(axis=1)
                left[np.arange(len(left)), order[:, i]] = -np.inf
        score, label, hit = (
            np.take_along_axis(part, order, axis=1)
            for part in (table.scores, table.labels, table.truth)
        )
        rank = np.arange(most) + table.others * (score < 0)
        there = (rank < k) & (zeros | (score != 0))
        row = np.broadcast_to(table.rows[:, None], order.shape)
        yield row[there], rank[there], label[there], hit[there]


def top_labels(scores: Any, k: int, zeros: bool = False) -> Csr:
    """Which labels have the k highest scores; those that score 0 only with `zeros`, of arrays."""
    scores = as_floats(without_zeros(scores) if sparse.issparse(scores) else np.asarray(scores))
    row, _, label, _ = zip(*_highest(RowScores(scores != 0, scores), k, zeros), strict=True)
    cells = np.concatenate(row), np.concatenate(label)
    return sparse.csr_array((np.ones(len(cells[0]), bool), cells), shape=scores.shape)


def as_floats(scores: Any) -> Any:
    """The scores as float64 in the order of C."""
    return (
        scores.astype(float) if sparse.issparse(scores) else scores.astype(float, "C", copy=False)
    )


def without_zeros(matrix: Any) -> Csr:
    """CSR without stored zeros; the caller's matrix stays as it is."""
    stored = sparse.csr_array(matrix)
    if not stored.data.all():
        stored = stored.copy()
        stored.eliminate_zeros()
    return stored
