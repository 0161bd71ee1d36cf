"""Set-based measures: class sets extended by their ancestors or descendants (Kosmopoulos et al. 2015, section 2.4)."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from mlflow_mleval.measures.class_sets import distinct_rows, renumbered, row_sums
from mlflow_mleval.measures.closure import Parents, blocks, closure

_BLOCK = 1 << 20  # members of extended sets that are looked at together
_TABLE = 1 << 22  # cells of the dense table into which rows are spread


def rates(name: str, both: np.ndarray, true: np.ndarray, pred: np.ndarray) -> dict[str, np.ndarray]:
    """Precision, recall and F1 of the sizes of an intersection, a true and a predicted set, and these sizes.

    0 where the set to divide by is empty, but 1 where both are.
    """

    def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
        return np.divide(part, whole, out=np.where(true + pred > 0, 0.0, 1.0), where=whole > 0)

    values = ratio(both, pred), ratio(both, true), ratio(2 * both, true + pred), both, true, pred
    keys = "precision", "recall", "f1", "intersection", "true_size", "pred_size"
    return {f"{name}_{key}": value for key, value in zip(keys, values, strict=True)}


def pattern(above: sparse.csr_array) -> sparse.csr_array:
    """Which entries a closure has; it shares its indices."""
    return sparse.csr_array((np.ones(above.nnz, bool), above.indices, above.indptr), shape=above.shape)


def set_measures(
    up: Parents, known: sparse.csr_array, true: sparse.csr_array, pred: sparse.csr_array, count_root: bool
) -> dict[str, np.ndarray]:
    """Set measures of the classes extended by their ancestors.

    Parameters
    ----------
    up : Parents
    known : csr_array of bool, shape (n, n)
        Pattern of its closure.
    true, pred : csr_array of bool, shape (N, n)
    count_root : bool
        Whether the virtual root, number 0, counts.
    """
    true, pred = true @ known, pred @ known
    size_true, size_pred = (size - ((size > 0) & (not count_root)) for size in (np.diff(true.indptr), np.diff(pred.indptr)))
    both, true_errors = _compare(up, true, pred, count_root)
    _, pred_errors = _compare(up, pred, true, count_root)
    return rates("h", both, size_true, size_pred) | {
        "symmetric_difference_loss": size_true + size_pred - 2 * both,
        "h_loss": true_errors + pred_errors,
    }


def _compare(up: Parents, own: sparse.csr_array, other: sparse.csr_array, count_root: bool) -> tuple[np.ndarray, np.ndarray]:
    """How many of each row's classes are in the other row; and how many are not, but are roots or have a parent there."""
    rows, width = own.shape
    shared, errors = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    table = np.zeros(max(_TABLE, width), bool)
    for lo, hi in blocks(np.full(rows, width), _TABLE):
        place = slice(own.indptr[lo], own.indptr[hi])
        mine, marks = (
            side.indices[side.indptr[lo] : side.indptr[hi]]
            + np.repeat(np.arange(hi - lo) * width, np.diff(side.indptr[lo : hi + 1]))
            for side in (own, other)
        )
        table[marks] = True
        if not count_root:
            table[: (hi - lo) * width : width] = True  # then a root is like a class whose parent is in both sets
        hit = table[mine]
        shared[lo:hi] = np.bincount(mine[hit] // width, minlength=hi - lo)
        row, edge = mine[~hit] // width, own.indices[place][~hit]
        edge, end = up.start[edge], up.start[edge + 1]
        found = edge == end
        while len(row):
            errors[lo:hi] += np.bincount(row[found], minlength=hi - lo)
            more = ~found & (edge < end)
            row, edge, end = row[more], edge[more], end[more]
            found = table[row * width + up.parent[edge]]
            edge = edge + 1
        table[marks] = table[: (hi - lo) * width : width] = False
    return shared - ((np.diff(own.indptr) > 0) & (not count_root)), errors


def descendant_measures(
    up: Parents, number: np.ndarray, true: sparse.csr_array, pred: sparse.csr_array
) -> dict[str, np.ndarray]:
    """Set measures of the classes extended by their descendants.

    Parameters
    ----------
    up : Parents
        The whole hierarchy.
    number : ndarray
        Number of each of its classes in a part of it, -1 outside.
    true, pred : csr_array of bool
        Class sets in the numbers of the part; classes below others of their set may be left out.
    """
    first, place = distinct_rows(true, pred)  # few sets remain of instances that list all their ancestors
    old = np.empty(number.max() + 1, np.int64)
    old[number[number >= 0]] = np.flatnonzero(number >= 0)
    used = np.zeros(len(number), bool)
    used[old[np.concatenate([true.indices, pred.indices])]] = True
    part, new = up.part(up.below(np.flatnonzero(used)))
    columns = np.zeros(len(part.level), bool)
    columns[new[used]] = True
    below = pattern(closure(part, columns)).T.tocsr()
    true, pred = (renumbered(side[first], new[old], len(columns)) for side in (true, pred))
    counts = np.empty((3, len(first)))
    size = np.diff(below.indptr)
    for lo, hi in blocks(row_sums(size, true) + row_sums(size, pred), _BLOCK):
        t, q = true[lo:hi] @ below, pred[lo:hi] @ below
        counts[:, lo:hi] = np.diff(t.multiply(q).indptr), np.diff(t.indptr), np.diff(q.indptr)
    return rates("descendant", *counts[:, place])
