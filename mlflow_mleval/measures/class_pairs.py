"""Pair-based measures: distances between true and predicted classes, and the least-cost pairing of
an instance's classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from mlflow_mleval.measures.closure import offsets, spans, stretches

_TABLE = 1 << 23  # cells of the dense table into which rows of the closure are spread
_SUBSETS = 4  # classes of the smaller side up to which all its subsets are tabulated


@dataclass(frozen=True)
class Pairs:
    """All pairs of a true and a predicted class of the same instance, and how far apart they
    are.
    """

    # the pairs of instance i stand at start[i] to start[i + 1]: its matrix true x predicted, row by
    # row
    start: np.ndarray
    left: np.ndarray  # places of the classes in true.indices
    right: np.ndarray  # and in pred.indices
    a: np.ndarray  # the distinct pairs of classes, sorted: the true class
    b: np.ndarray  # and the predicted one
    kind: np.ndarray  # which of the distinct pairs each pair is
    apart: np.ndarray  # distance of each distinct pair

    @classmethod
    def of(cls, true: sparse.csr_array, pred: sparse.csr_array, above: sparse.csr_array) -> Pairs:
        """The pairs of class sets, given as indicators, in a hierarchy, given as its closure."""
        start, left, right = instance_pairs(true, pred)
        a, b, kind = distinct(true.indices[left], pred.indices[right], above.shape[1])
        return cls(start, left, right, a, b, kind, distances(above, a, b))


def instance_pairs(
    true: sparse.csr_array, pred: sparse.csr_array
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, left and right of `Pairs`."""
    m, k = np.diff(true.indptr), np.diff(pred.indptr)
    left = np.repeat(np.arange(true.nnz), np.repeat(k, m))
    right = spans(np.repeat(pred.indptr[:-1], m), np.repeat(k, m))
    return offsets(m.astype(np.int64) * k), left, right


def distinct(
    left: np.ndarray, right: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct pairs, sorted, and the place of every given pair among them."""
    key = left.astype(np.int64) * width + right
    order = np.argsort(key)
    key = key[order]
    new = np.diff(key, prepend=-1) > 0
    place = np.empty(len(key), np.int64)
    place[order] = np.cumsum(new) - 1
    return key[new] // width, key[new] % width, place


def meetings(
    above: sparse.csr_array, left: np.ndarray, right: np.ndarray
) -> Iterator[tuple[slice, sparse.csr_array, np.ndarray]]:
    """Walk through the ancestors of the right class of every pair of classes, some pairs at a time;
    `left` is sorted.

    Yields which pairs these are (a slice), the rows of the closure for their right classes, and for
    each entry of these rows the length of the path from left over the ancestor to right; beyond
    every distance if it is no ancestor of left.
    """
    width, size = above.shape[1], np.diff(above.indptr)
    far = 2 * above.data.max(initial=1)
    head = np.diff(left, prepend=-1) > 0
    # A stretch of pairs that starts within those of a class needs a row for it, too.
    table = np.full(min(_TABLE, head.sum() * width) + width, far, above.dtype)
    for lo, hi in stretches(head * width + 4 * size[right], _TABLE):
        head[lo] = True
        first = left[lo:hi][head[lo:hi]]
        row = (np.cumsum(head[lo:hi]) - 1) * width
        own = spans(above.indptr[first], size[first])
        cell = above.indices[own] + np.repeat(np.arange(len(first)) * width, size[first])
        table[cell] = above.data[own]
        ancestors = above[right[lo:hi]]
        length = table[np.repeat(row, np.diff(ancestors.indptr)) + ancestors.indices]
        length += ancestors.data
        length -= 2
        yield slice(lo, hi), ancestors, length
        table[cell] = far


def distances(above: sparse.csr_array, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Shortest distance through a common ancestor of each pair of classes; `left` is sorted."""
    found = np.empty(len(left), above.dtype)
    for part, ancestors, length in meetings(above, left, right):
        found[part] = np.minimum.reduceat(length, ancestors.indptr[:-1])
    return found


def best_matching(weight: np.ndarray) -> np.ndarray:
    """Largest sum of weights of a one-to-one matching, for a stack of matrices of weights that are
    not negative.

    What is not matched weighs nothing.
    """
    if weight.shape[1] < weight.shape[2]:
        weight = weight.transpose(0, 2, 1)
    count, rows, columns = weight.shape
    if columns > _SUBSETS:
        return np.array([w[linear_sum_assignment(w, maximize=True)].sum() for w in weight])
    best = np.zeros(
        (1 << columns, count), weight.dtype
    )  # the best use of a subset of the columns by the rows so far
    for i in range(rows):
        for subset in range(len(best) - 1, 0, -1):
            for j in range(columns):
                if subset >> j & 1:
                    np.maximum(
                        best[subset], best[subset ^ 1 << j] + weight[:, i, j], out=best[subset]
                    )
    return best[-1]


def pair_measures(
    true: sparse.csr_array,
    pred: sparse.csr_array,
    pairs: Pairs,
    limit: float,
    far: str,
    tolerance: float,
) -> dict[str, np.ndarray]:
    """The pair-based measures of every instance, where a class that is not paired costs `limit`.

    Classes `far` apart, farther than that, may not be paired ("forbid"), may be ("allow"), or may
    be at the limit ("clip"). Distances that differ by no more than `tolerance` are equal.
    """
    start, distance = pairs.start, pairs.apart[pairs.kind]
    m, k = np.diff(true.indptr), np.diff(pred.indptr)
    gie, cover = limit * (m + k), limit * (m + k)  # nothing paired
    shape = m.astype(np.int64) * (k.max(initial=0) + 1) + k
    order = np.argsort(shape, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(shape[order])) + 1):
        rows, columns = m[group[:1]].sum(), k[group[:1]].sum()
        if not rows * columns:
            continue
        kappa = (
            distance[start[group, None] + np.arange(rows * columns)]
            .reshape(-1, rows, columns)
            .astype(float)
        )
        near = (kappa <= limit + tolerance) | (far != "forbid")
        if far == "clip":
            kappa = np.minimum(kappa, limit)
        gie[group] -= best_matching(np.where(near, np.maximum(2 * limit - kappa, 0), 0))
        n, p = (np.minimum(kappa.min(axis, keepdims=True), limit) for axis in (2, 1))
        saved = best_matching(np.where(near, np.maximum(n + p - kappa, 0), 0))
        cover[group] = n.sum((1, 2)) + p.sum((1, 2)) - saved
    common = np.diff(true.multiply(pred).indptr)
    bound = limit * (m + k - 2 * common)
    single = np.full(len(m), np.nan)
    single[(m == 1) & (k == 1)] = distance[start[:-1][(m == 1) & (k == 1)]]
    total = np.bincount(np.repeat(np.arange(len(m)), np.diff(start)), distance, len(m))
    return {
        "tree_induced_error": single,
        "gie": gie,
        "mgia": 1 - np.divide(cover, bound, out=np.zeros(len(m)), where=bound > 0),
        "all_pairs_error": np.where(m * k > 0, total, np.nan),
        "mgia_error": cover,
        "mgia_bound": bound,
    }
