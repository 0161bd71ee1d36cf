"""What lies above which class of a hierarchy, and how far: the ancestor closure of chosen classes
as a sparse matrix.

Classes are numbered so that every parent comes before its children; number 0 is the virtual root
above all roots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse


def spans(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The indices ``starts[i], ..., starts[i] + lengths[i] - 1`` of every i, one after the
    other.
    """
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)


def offsets(lengths: np.ndarray) -> np.ndarray:
    """Where each of the consecutive stretches of these lengths starts, and where the last one
    ends.
    """
    return np.concatenate([[0], np.cumsum(lengths)])


def compressed(
    data: np.ndarray, indices: np.ndarray, start: np.ndarray, width: int
) -> sparse.csr_array:
    """A csr_array of this many columns with 32-bit indices where they suffice, which scipy does not
    choose by itself.
    """
    kind = np.int32 if max(start[-1], width) < 2**31 else np.int64
    return sparse.csr_array(
        (data, indices.astype(kind, copy=False), start.astype(kind)), shape=(len(start) - 1, width)
    )


def stretches(costs: np.ndarray, limit: float) -> Iterator[tuple[int, int]]:
    """Cut a sequence into stretches whose costs sum to at most the limit, or that are one item."""
    total = np.cumsum(costs)
    lo = 0
    while lo < len(total):
        hi = max(lo + 1, int(np.searchsorted(total, limit + (total[lo - 1] if lo else 0), "right")))
        yield lo, hi
        lo = hi


@dataclass(frozen=True)
class Parents:
    """The edges of a hierarchy from child to parent, in CSR form.

    Classes are numbered by level, and within a level by falling number of parents. Number 0 is the
    virtual root.
    """

    start: np.ndarray  # the parents of class c are parent[start[c]:start[c + 1]]
    parent: np.ndarray
    length: np.ndarray  # of each edge: integers where all lengths are whole numbers, else float64
    level: np.ndarray  # most edges on a path from the virtual root, of each class

    @classmethod
    def arrange(cls, child, parent, length, level) -> tuple[Parents, np.ndarray]:
        """Number the classes as the order demands; the numbers are returned beside the edges."""
        count = np.bincount(child, minlength=len(level))
        order = np.lexsort((-count, level))
        number = np.empty(len(level), np.int64)
        number[order] = np.arange(len(level))
        edge = np.lexsort((number[parent], number[child]))
        return cls(offsets(count[order]), number[parent[edge]], length[edge], level[order]), number

    def part(self, kept: np.ndarray) -> tuple[Parents, np.ndarray]:
        """The hierarchy of the kept classes (a mask) and the edges between them; and their new
        numbers, -1 for the others.
        """
        ids = np.flatnonzero(kept)
        old = np.full(len(kept), -1)
        old[ids] = np.arange(len(ids))
        child, parent = old[np.repeat(np.arange(len(kept)), self.count)], old[self.parent]
        edge = (child >= 0) & (parent >= 0)
        found, number = Parents.arrange(
            child[edge], parent[edge], self.length[edge], self.level[ids]
        )
        old[ids] = number
        return found, old

    @property
    def count(self) -> np.ndarray:
        """Parents of each class."""
        return np.diff(self.start)

    @property
    def farthest(self) -> float:
        """A bound on every upward distance."""
        return self.level.max(initial=0) * self.length.max(initial=0)

    @property
    def tolerance(self) -> float:
        """Distances that differ by no more are equal; 0 where lengths are whole numbers."""
        return 0 if self.length.dtype.kind == "i" else 1e-9 * self.length.max(initial=0)

    def above(self, classes: np.ndarray) -> np.ndarray:
        """Mask of the classes and all their ancestors, the virtual root included."""
        seen = np.zeros(len(self.level), bool)
        while len(classes):
            seen[classes] = True
            reached = self.parent[
                spans(self.start[classes], self.start[classes + 1] - self.start[classes])
            ]
            classes = np.flatnonzero(np.bincount(reached[~seen[reached]], minlength=1))
        return seen

    def below(self, classes: np.ndarray) -> np.ndarray:
        """Mask of the classes and all their descendants."""
        seen = np.zeros(len(self.level), bool)
        seen[classes] = True
        child = np.repeat(np.arange(len(self.level)), self.count)
        for a, b in pairwise(np.searchsorted(self.level[child], np.arange(1, self.level[-1] + 2))):
            seen[child[a:b][seen[self.parent[a:b]]]] = True
        return seen


def closure(up: Parents, columns: np.ndarray | None = None) -> sparse.csr_array:
    """1 + the shortest distance from class c up to a in entry (c, a), for a = c and every ancestor
    a; rows sorted by column.

    Every row is the union of its parents' rows and the class itself. The mask `columns` names the
    classes that are looked for.
    """
    n = len(up.level)
    count = up.count
    own = np.ones(n, bool) if columns is None else columns
    # Nearness falls as distance grows and is 0 where there is no path, so the union of rows is an
    # elementwise maximum. Sums of three distances must fit the type.
    top = 2 ** int(np.ceil(np.log2(up.farthest + 2)))
    kind = np.float64 if up.length.dtype.kind == "f" else np.int16 if top <= 2**13 else np.int32
    length = up.length.astype(kind)
    start = np.zeros(n + 1, np.int64)
    column, near = np.empty(4 * n, np.int32), np.empty(4 * n, kind)

    def gather(edges: np.ndarray, known: sparse.csr_array) -> sparse.csr_array:
        part = known[up.parent[edges]]
        part.data -= np.repeat(length[edges], np.diff(part.indptr))
        return part

    for lo, hi in pairwise(
        np.flatnonzero(np.diff(up.level, prepend=-1, append=up.level.max(initial=0) + 1)).tolist()
    ):
        union = sparse.csr_array((hi - lo, n), dtype=kind)
        known = compressed(near[: start[lo]], column[: start[lo]], start[: lo + 1], n)
        for slot in range(count[lo] - 1, -1, -1):
            several = lo + np.searchsorted(-count[lo:hi], -slot)
            part = gather(up.start[lo:several] + slot, known)
            if slot < count[lo] - 1:
                union.resize(part.shape)
                part = union.maximum(part)
            union = part
        union.resize((hi - lo, n))
        size = np.diff(union.indptr) + own[lo:hi]
        start[lo + 1 : hi + 1] = start[lo] + np.cumsum(size)
        if start[hi] > len(column):
            column.resize(start[hi] * 5 // 4, refcheck=False)
            near.resize(start[hi] * 5 // 4, refcheck=False)
        last = np.zeros(size.sum(), bool)  # a class has the highest number of its row
        last[start[lo + 1 : hi + 1][own[lo:hi]] - start[lo] - 1] = True
        for array, inherited, self in (
            (column, union.indices, lo + np.flatnonzero(own[lo:hi])),
            (near, union.data, top),
        ):
            level = array[start[lo] : start[hi]]
            level[last], level[~last] = self, inherited
    column.resize(start[-1], refcheck=False)
    near.resize(start[-1], refcheck=False)
    np.subtract(top + 1, near, out=near)
    return compressed(near, column, start, n)


def lookup(above: sparse.csr_array, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The entries of a closure at these places, 0 where there is none: bisection of all rows at
    once.
    """
    lo, end = above.indptr[rows].astype(np.int64), above.indptr[rows + 1].astype(np.int64)
    hi = end.copy()
    while (open := lo < hi).any():
        middle = np.where(open, (lo + hi) // 2, 0)
        less = above.indices[middle] < columns
        lo[open & less] = middle[open & less] + 1
        hi[open & ~less] = middle[open & ~less]
    found = lo < end
    place = np.where(found, lo, 0)
    return np.where(
        found & (above.indices[place] == columns), above.data[place], above.dtype.type(0)
    )
