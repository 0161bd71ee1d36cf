"""Set-based measures: class sets extended by their ancestors or descendants (Kosmopoulos et al.
2015, section 2.4).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from mlflow_mleval.measures.class_sets import distinct_rows, renumbered, row_sums
from mlflow_mleval.measures.closure import Parents, closure, compressed, stretches

_BLOCK = 1 << 20  # members of extended sets that are looked at together
_TABLE = 1 << 22  # cells of the dense table into which rows are spread


def rates(name: str, both: np.ndarray, true: np.ndarray, pred: np.ndarray) -> dict[str, np.ndarray]:
    """Precision, recall and F1 of the sizes of an intersection, a true and a predicted set, and
    these sizes.

    0 where the set to divide by is empty, but 1 where both are.
    """

    def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
        return np.divide(part, whole, out=np.where(true + pred > 0, 0.0, 1.0), where=whole > 0)

    values = ratio(both, pred), ratio(both, true), ratio(2 * both, true + pred), both, true, pred
    keys = "precision", "recall", "f1", "intersection", "true_size", "pred_size"
    return {f"{name}_{key}": value for key, value in zip(keys, values, strict=True)}


def pattern(
    above: sparse.csr_array, height: float = np.inf, count_root: bool = True
) -> sparse.csr_array:
    """Which entries a closure has, up to a height.

    Without one it shares the indices, and the virtual root, number 0, stays.
    """
    if height == np.inf:
        return sparse.csr_array(
            (np.ones(above.nnz, bool), above.indices, above.indptr), shape=above.shape
        )
    kept = (above.data <= height + 1) & ((above.indices > 0) | count_root)
    start = np.append(0, np.cumsum(kept))[above.indptr]
    return compressed(np.ones(start[-1], bool), above.indices[kept], start, above.shape[1])


def set_measures(
    up: Parents,
    known: sparse.csr_array,
    true: sparse.csr_array,
    pred: sparse.csr_array,
    count_root: bool,
    costs: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Set measures of the classes extended by their ancestors: those `known`, a pattern of the
    hierarchy's closure.

    With `count_root` the virtual root, number 0, counts where it is among them. `costs` of the
    classes are for h_loss.
    """
    common = np.diff(true.multiply(pred).indptr)
    exact = (common == np.diff(true.indptr)) & (common == np.diff(pred.indptr))
    sides = true @ known, pred @ known
    sizes = [np.diff(side.indptr) for side in sides]
    rows, width = sides[0].shape
    both, loss = np.zeros(rows, np.int64), np.zeros(rows)
    table = np.zeros(max(min(_TABLE, rows * width), width), bool)
    for lo, hi in stretches(np.full(rows, width), _TABLE):
        row = [np.repeat(np.arange(hi - lo), size[lo:hi]) for size in sizes]
        node = [side.indices[side.indptr[lo] : side.indptr[hi]] for side in sides]
        cell = [r * width + c for r, c in zip(row, node, strict=True)]
        for own, other in ((0, 1), (1, 0)):
            table[cell[other]] = True
            if not count_root:
                table[: (hi - lo) * width : width] = (
                    True  # then a root is like a class whose parent is in both sets
                )
            hit = table[cell[own]]
            if own == 0:
                both[lo:hi] = np.bincount(row[own][hit], minlength=hi - lo)
            loss[lo:hi] += _first_errors(
                up, row[own][~hit], node[own][~hit], table, width, hi - lo, costs
            )
            table[cell[other]] = table[: (hi - lo) * width : width] = False
    if (
        not count_root and known.indptr[1]
    ):  # the virtual root is in every set but the empty ones, and was taken for shared by all
        both -= sizes[0] > 0
        sizes = [size - (size > 0) for size in sizes]
    return rates("h", both, *sizes) | {
        "symmetric_difference_loss": sizes[0] + sizes[1] - 2 * both,
        "h_loss": loss,
        "exact_match": exact,
    }


def _first_errors(
    up: Parents,
    row: np.ndarray,
    node: np.ndarray,
    table: np.ndarray,
    width: int,
    rows: int,
    costs: np.ndarray | None,
) -> np.ndarray:
    """How many of these classes of each row have no parents, or one that is marked in the table; or
    what these cost.
    """
    counts = np.zeros(len(row), bool)
    place = np.arange(len(row))
    edge, end = up.start[node], up.start[node + 1]
    good = edge == end
    while len(place):
        counts[place[good]] = True
        more = ~good & (edge < end)
        place, edge, end = place[more], edge[more], end[more]
        good = table[row[place] * width + up.parent[edge]]
        edge = edge + 1
    return np.bincount(row[counts], None if costs is None else costs[node[counts]], minlength=rows)


def descendant_measures(
    up: Parents, number: np.ndarray, true: sparse.csr_array, pred: sparse.csr_array
) -> dict[str, np.ndarray]:
    """Set measures of the classes extended by their descendants in the whole hierarchy.

    `number` says what each of its classes is called in the part of it that the class sets speak of,
    -1 outside. Classes below others of their set may be left out.
    """
    first, place = distinct_rows(
        true, pred
    )  # few sets remain of instances that list all their ancestors
    old = np.empty(number.max() + 1, np.int64)
    old[number[number >= 0]] = np.flatnonzero(number >= 0)
    used = np.zeros(len(number), bool)
    used[old[np.concatenate([true.indices, pred.indices])]] = True
    part, new = up.part(up.below(np.flatnonzero(used)))
    columns = np.zeros(len(part.level), bool)
    columns[new[used]] = True
    below = pattern(closure(part, columns)).T.tocsr()
    true, pred = (renumbered(side[first], new[old], len(columns)) for side in (true, pred))
    counts = np.empty((3, len(first)), np.int64)
    size = np.diff(below.indptr)
    for lo, hi in stretches(row_sums(size, true) + row_sums(size, pred), _BLOCK):
        t, q = true[lo:hi] @ below, pred[lo:hi] @ below
        counts[:, lo:hi] = np.diff(t.multiply(q).indptr), np.diff(t.indptr), np.diff(q.indptr)
    return rates("descendant", *counts[:, place])
