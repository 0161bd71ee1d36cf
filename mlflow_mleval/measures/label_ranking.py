"""Measures of the order in which scores, stored or not, put the labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from mlflow_mleval.measures.inputs import Csr, found_among, row_sizes, rows_of, slices
from mlflow_mleval.measures.registry import AT_K_NAME, BEST, GAIN, Conventions
from mlflow_mleval.validation import AnyArray, Array, Bools, Columns, Ints

_TABLE = 1 << 16  # entries that are looked at together: the working arrays stay in the cache


@dataclass(frozen=True, eq=False)
class Table:
    """Scores of some rows, in the order of the labels, and which of these are true."""

    rows: Ints
    scores: AnyArray
    truth: Bools
    labels: Ints | None = None  # of each cell; None where the columns are the labels
    stored: Bools | None = None  # the cells that hold a score, first in each row; None: all do


@dataclass(frozen=True, eq=False)
class RowScores:
    """Scores beside their truth, both dense or both CSR; what is not stored ties at 0."""

    true: Any
    score: Any

    @property
    def all_stored(self) -> bool:
        """Whether each label has a score of its own, as in dense matrices."""
        return not sparse.issparse(self.score)

    @cached_property
    def counts(self) -> Ints:
        """(N,): stored scores of each row."""
        n, k = self.score.shape
        return np.full(n, k) if self.all_stored else row_sizes(self.score)

    @property
    def zeros(self) -> Ints:
        """(N,): labels of each row that are not stored."""
        return self.score.shape[1] - self.counts

    @cached_property
    def positive(self) -> Ints:
        """(N,): stored scores above 0 of each row."""
        return np.bincount(rows_of(self.score)[self.score.data > 0], minlength=self.score.shape[0])

    @cached_property
    def _cells(self) -> tuple[Ints, Ints]:
        return tuple(rows_of(m) * m.shape[1] + m.indices for m in (self.true, self.score))

    @cached_property
    def met(self) -> tuple[Bools, Bools]:
        """Which true cells have a stored score, and which stored scores are of true labels, both in
        the order of CSR."""
        wanted, there = self._cells
        met, at = found_among(there, wanted)
        relevant = np.zeros(len(there), bool)
        relevant[at[met]] = True
        return met, relevant

    @cached_property
    def missed(self) -> tuple[Ints, Ints]:
        """Row and label of the true labels that are not stored, in order."""
        if self.all_stored:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        lost = ~self.met[0]
        return rows_of(self.true)[lost], self.true.indices[lost].astype(np.int64)

    @cached_property
    def missed_counts(self) -> Ints:
        """(N,): true labels of each row that are not stored."""
        return np.bincount(self.missed[0], minlength=self.true.shape[0])

    def zero_is_true(self, rows: Ints, last: bool) -> Bools:
        """Whether the lowest label that is not stored, or the `last`, is true; of rows with one."""
        row = rows_of(self.score)
        place = np.arange(len(row)) - self.score.indptr[row]
        in_row = self.score.indices == place + (self.zeros[row] if last else 0)
        before = np.bincount(row[in_row], minlength=len(self.counts))[rows]
        n_labels = self.score.shape[1]
        label = n_labels - 1 - before if last else before
        return found_among(self._cells[0], rows * n_labels + label)[0]

    def stored_above(self, rows: Ints, labels: Ints) -> Ints:
        """How many stored labels of these rows have a higher index than these labels."""
        at = np.searchsorted(self._cells[1], rows * self.true.shape[1] + labels, side="right")
        return self.score.indptr[rows + 1] - at

    def tables(self) -> Iterator[Table]:
        """Tables of rows that store about as many scores; cells that hold none have -inf."""
        if self.all_stored:
            yield Table(np.arange(len(self.score)), self.score, self.true)
            return
        order = np.argsort(-self.counts, kind="stable")
        start = 0
        while start < len(order) and self.counts[order[start]]:
            width = int(self.counts[order[start]])
            rows = order[start : start + max(1, _TABLE // width)]
            start += len(rows)
            stored = np.arange(width) < self.counts[rows, None]
            at = self.score.indptr[rows].astype(np.int64)[:, None] + np.arange(width)
            at[~stored] = 0
            scores = np.where(stored, self.score.data[at], -np.inf)
            yield Table(rows, scores, self.met[1][at] & stored, self.score.indices[at], stored)


# ---- measures of the order of labels -------------------------------------------------------------


def ranking_measures(scores: RowScores, conventions: Conventions = "sklearn") -> Columns:
    """The four ranking measures of each instance, by one sort that carries the truth."""
    n, k = scores.true.shape
    stable = conventions == "mulan"
    right = np.zeros(n, bool)
    found = []
    for table in scores.tables():
        stored = table.stored
        held = table.scores if stored is None else np.where(stored, table.scores, 0)
        keys = _keys(table.truth, held)
        if stored is not None:
            keys[~stored] = np.iinfo(np.int64).max
        keys.sort(axis=1)
        ordered = (keys & 1).astype(bool)  # the truth, best score first
        if stored is not None:
            ordered &= stored
        if stable:
            # rows with equal scores in the order of falling label index
            by_score = keys >> 1
            tied = (by_score[:, 1:] == by_score[:, :-1]).any(axis=1)
            order = np.argsort(-table.scores[tied, ::-1], axis=1, kind="stable")
            ordered[tied] = np.take_along_axis(table.truth[tied, ::-1], order, axis=1)
        width = ordered.shape[1]
        best = table.scores[:, ::-1] if stable else table.scores
        top = width - 1 - best.argmax(axis=1) if stable else best.argmax(axis=1)
        right[table.rows] = table.truth[np.arange(len(top)), top]
        at = np.flatnonzero(ordered)
        row, place = np.divmod(at, width)
        row = table.rows[row]
        if not scores.all_stored:
            place = place + np.where(place >= scores.positive[row], scores.zeros[row], 0)
        found.append((row, place, keys.ravel()[at]))
    if scores.all_stored:
        return {"one_error": 1.0 - right, **_of_places(*found[0], n, k, conventions)}
    low = np.flatnonzero((scores.positive == 0) & (scores.zeros > 0))
    right[low] = scores.zero_is_true(low, last=stable)
    row, label = scores.missed
    if stable:
        place = scores.positive[row] + k - 1 - label - scores.stored_above(row, label)
    else:
        number = np.arange(len(row)) - (np.cumsum(scores.missed_counts) - scores.missed_counts)[row]
        place = scores.positive[row] + (scores.zeros - scores.missed_counts)[row] + number
    # no score of a relevant label has this key
    found.append((row, place, np.full(len(row), np.iinfo(np.int64).min)))
    row, place, keys = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(row * k + place)
    ranked = _of_places(row[order], place[order], keys[order], n, k, conventions)
    return {"one_error": 1.0 - right, **ranked}


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


def ordered_floats(scores: Any) -> Any:
    """The scores as float64 in the same order, ties as ties, zeros as 0."""
    if sparse.issparse(scores):
        return sparse.csr_array(
            (ordered_floats(scores.data), scores.indices, scores.indptr), shape=scores.shape
        )
    fits = scores.dtype.kind == "b" or scores.dtype.itemsize < 8
    exact = fits or scores.dtype == float or not scores.size
    if not exact and scores.dtype.kind in "ui":
        exact = int(scores.max()) <= 2**53 and int(scores.min()) >= -(2**53)
    if exact:
        return scores.astype(float, "C", copy=False)
    numbers = np.unique(np.append(scores, np.zeros(1, scores.dtype)), return_inverse=True)[1]
    return (numbers[:-1] - numbers[-1]).reshape(scores.shape).astype(float)


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
_BLOCK = 1 << 18  # cells that are ranked at a time
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
    hits = np.full((len(scores.counts), most), -1)  # the labels that are hit, -1 for misses
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
    """Row, rank, label and truth of the k highest scores; dense zeros only with `zeros`."""
    for table in scores.tables():
        most = min(k, table.scores.shape[1])
        order = np.empty((len(table.scores), most), np.int64)
        if most > _ROUNDS:
            order = np.argsort(-table.scores.astype(float), axis=1, kind="stable")[:, :most]
        else:
            left = table.scores.astype(float, copy=True)
            for i in range(most):
                order[:, i] = left.argmax(axis=1)
                left[np.arange(len(left)), order[:, i]] = -np.inf
        rank = np.broadcast_to(np.arange(order.shape[1]), order.shape)
        there = rank < scores.counts[table.rows, None]
        if scores.all_stored:
            there = there & (zeros | (np.take_along_axis(table.scores, order, axis=1) != 0))
        else:
            behind = rank >= scores.positive[table.rows, None]
            rank = rank + np.where(behind, scores.zeros[table.rows, None], 0)
            there = there & (rank < k)
        label = order if table.labels is None else np.take_along_axis(table.labels, order, axis=1)
        hit = np.take_along_axis(table.truth, order, axis=1)
        row = np.broadcast_to(table.rows[:, None], order.shape)
        yield row[there], rank[there], label[there], hit[there]


def top_labels(scores: Any, k: int, zeros: bool = False) -> Csr:
    """Which labels have the k highest scores; those that score 0 only with `zeros`."""
    is_sparse = sparse.issparse(scores)
    floats = ordered_floats(without_zeros(scores) if is_sparse else np.asarray(scores))
    step = scores.shape[0] if is_sparse else max(1, _BLOCK // scores.shape[1])
    rows = [np.zeros(0, np.int64)]
    labels = [np.zeros(0, np.int64)]
    for at in slices(scores.shape[0], step):
        block = floats[at]
        for row, _, label, _ in _highest(RowScores(block != 0, block), k, zeros):
            rows.append(at.start + row)
            labels.append(label)
    cells = np.concatenate(rows), np.concatenate(labels)
    return sparse.csr_array((np.ones(len(cells[0]), bool), cells), shape=scores.shape)


def without_zeros(matrix: Any) -> Csr:
    """CSR without stored zeros; the caller's matrix stays as it is."""
    stored = sparse.csr_array(matrix)
    if not stored.data.all():
        stored = stored.copy()
        stored.eliminate_zeros()
    return stored
