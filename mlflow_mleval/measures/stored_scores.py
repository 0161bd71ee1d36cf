"""Sparse scores beside sparse truth: tables of the stored entries alone, whatever the number of
labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_BLOCK = 1 << 16  # entries that are looked at together: the working arrays stay in the cache


@dataclass(frozen=True, eq=False)
class StoredScores:
    """Scores N x K other than 0, as they are stored, and which of them are of relevant labels.

    Both matrices are CSR with sorted indices and without entries given twice, the truth boolean; no
    stored score is 0. All labels that are not stored tie at 0, below every positive score and above
    every negative one.
    """

    true: sparse.csr_array
    score: sparse.csr_array

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(N,): stored scores of each row."""
        return np.diff(self.score.indptr).astype(np.int64)

    @cached_property
    def zeros(self) -> NDArray[np.int64]:
        """(N,): labels of each row whose score is 0."""
        return self.score.shape[1] - self.counts

    @cached_property
    def positive(self) -> NDArray[np.int64]:
        """(N,): scores above 0 of each row."""
        return np.bincount(rows_of(self.score)[self.score.data > 0], minlength=self.score.shape[0])

    @cached_property
    def _cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return tuple(rows_of(m) * m.shape[1] + m.indices for m in (self.true, self.score))

    @cached_property
    def _met(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which entries of the truth have a stored score, and which stored scores are of relevant
        labels.
        """
        wanted, there = self._cells
        relevant = np.zeros(len(there), bool)
        if not len(there):
            return np.zeros(len(wanted), bool), relevant
        at = np.minimum(np.searchsorted(there, wanted), len(there) - 1)
        met = there[at] == wanted
        relevant[at[met]] = True
        return met, relevant

    @cached_property
    def relevant(self) -> NDArray[np.bool_]:
        """Which stored scores are of relevant labels."""
        return self._met[1]

    @cached_property
    def missed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and label of the relevant labels whose score is 0, in order."""
        lost = ~self._met[0]
        return rows_of(self.true)[lost], self.true.indices[lost].astype(np.int64)

    @cached_property
    def missed_counts(self) -> NDArray[np.int64]:
        """(N,): relevant labels of each row whose score is 0."""
        return np.bincount(self.missed[0], minlength=self.true.shape[0])

    def is_true(self, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether these labels are relevant in these rows."""
        wanted = self._cells[0]
        if not len(wanted):
            return np.zeros(len(rows), bool)
        cells = rows * self.true.shape[1] + labels
        return wanted[np.minimum(np.searchsorted(wanted, cells), len(wanted) - 1)] == cells

    def stored_above(self, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many stored labels of these rows have a higher index than these labels."""
        at = np.searchsorted(self._cells[1], rows * self.true.shape[1] + labels, side="right")
        return self.score.indptr[rows + 1] - at

    def first_zero(self, rows: NDArray[np.int64], last: bool = False) -> NDArray[np.int64]:
        """The lowest label, or the highest, whose score is 0; of rows that have one."""
        row = rows_of(self.score)
        place = np.arange(len(row)) - self.score.indptr[row]
        in_row = self.score.indices == place + (self.zeros[row] if last else 0)
        found = np.bincount(row[in_row], minlength=len(self.counts))[rows]
        return self.score.shape[1] - 1 - found if last else found

    def tables(
        self,
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64], NDArray[np.bool_]]]:
        """Tables of rows that store about as many scores: their numbers, scores, places in the
        data, and where a cell is stored.

        A row's cells are in the order of the labels, its stored ones first; the others hold -inf.
        """
        order = np.argsort(-self.counts, kind="stable")
        start = 0
        while start < len(order) and self.counts[order[start]]:
            width = int(self.counts[order[start]])
            rows = order[start : start + max(1, _BLOCK // width)]
            start += len(rows)
            at = self.score.indptr[rows].astype(np.int64)[:, None] + np.arange(width)
            stored = np.arange(width) < self.counts[rows][:, None]
            if full := bool(stored.all()):
                table = self.score.data[at]
            else:
                at[~stored] = 0
                table = np.where(stored, self.score.data[at], -np.inf)
            yield rows, table, at, stored if not full else np.ones_like(stored)


def rows_of(matrix: sparse.csr_array) -> NDArray[np.int64]:
    """The row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))


def without_zeros(matrix: Any) -> sparse.csr_array:
    """CSR in canonical form without stored zeros; the caller's matrix stays as it is."""
    found = sparse.csr_array(matrix)
    if not found.has_canonical_format:
        found = found.copy()
        found.sum_duplicates()
    if not found.data.all():
        found = found.copy()
        found.eliminate_zeros()
    return found
