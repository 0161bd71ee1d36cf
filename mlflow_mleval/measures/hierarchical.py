"""Measures of hierarchical classification, one row an instance (Kosmopoulos et al. 2015)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from ..validation import binary_matrix, one_of
from .closure import Parents, blocks, closure, lookup
from .hierarchy import Hierarchy, listing
from .lca import extended_graphs, meet
from .lca_minimal import minimal_graphs
from .pairings import Pairs, instance_pairs, pair_measures

#: The measures of each family, and the counts that their micro averages need.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "set": (
        "h_precision", "h_recall", "h_f1", "symmetric_difference_loss", "h_loss",
        "descendant_precision", "descendant_recall", "descendant_f1",
        "h_intersection", "h_true_size", "h_pred_size",
        "descendant_intersection", "descendant_true_size", "descendant_pred_size",
    ),
    "pair": ("tree_induced_error", "gie", "mgia", "all_pairs_error", "exact_match", "mgia_error", "mgia_bound"),
    "lca": ("lca_precision", "lca_recall", "lca_f1", "lca_intersection", "lca_true_size", "lca_pred_size"),
}  # fmt: skip

_BLOCK = 1 << 20  # ancestors and pairs of the instances that are looked at together
_MARKS = 1 << 22


def rates(name: str, both: np.ndarray, true: np.ndarray, pred: np.ndarray) -> dict[str, np.ndarray]:
    """Precision, recall and F1 of set sizes; the counts stand beside them. Two empty sets are a perfect answer."""

    def ratio(a, b):
        return np.divide(a, b, out=np.where(true + pred > 0, 0.0, 1.0), where=b > 0)

    values = ratio(both, pred), ratio(both, true), ratio(2 * both, true + pred), both, true, pred
    keys = "precision", "recall", "f1", "intersection", "true_size", "pred_size"
    return {f"{name}_{key}": value for key, value in zip(keys, values, strict=True)}


def micro(sums: Mapping[str, float]) -> dict[str, float]:
    """Micro averages of the counts summed over instances: precision, recall, F1 and MGIA of the sums.

    >>> micro({"h_intersection": 2, "h_true_size": 4, "h_pred_size": 2})
    {'micro_h_precision': 1.0, 'micro_h_recall': 0.5, 'micro_h_f1': 0.6666666666666666}
    """
    found = {}
    for name in ("h", "descendant", "lca"):
        if f"{name}_intersection" in sums:
            sizes = (np.float64(sums[f"{name}_{part}"]) for part in ("intersection", "true_size", "pred_size"))
            values = rates(f"micro_{name}", *sizes)
            found |= {key: float(value) for key, value in list(values.items())[:3]}
    if "mgia_bound" in sums:
        found["micro_mgia"] = 1.0 - float(sums["mgia_error"] / sums["mgia_bound"] if sums["mgia_bound"] else 0)
    return found


def instance_measures(
    true: Any,
    pred: Any,
    h: Hierarchy,
    *,
    max_distance: float = 5,
    lca: str = "extended",
    lca_max_distance: float | None = None,
    count_root: bool = False,
    far_pairs: str = "forbid",
    measures: Iterable[str] | None = None,
) -> pd.DataFrame:
    """Every hierarchical measure of every instance."""
    one_of(lca, "lca", ("extended", "minimal"))
    one_of(far_pairs, "far_pairs", ("forbid", "allow"))
    families = list(FAMILIES) if measures is None else [one_of(m, "measures", FAMILIES) for m in measures]
    y, p = labels(true, "true", h), labels(pred, "pred", h)
    if y.shape != p.shape:
        raise ValueError(f"`pred` must hold as many instances as `true` ({y.shape[0]}), got {p.shape[0]}.")
    first, place = distinct_rows(y, p)
    y, p = y[first], p[first]
    used = np.flatnonzero(np.bincount(np.concatenate([y.indices, p.indices]), minlength=len(h) + 1))
    up, number = h._up.part(h._up.above(np.append(used, 0)))
    y, p = renumbered(y, number, up), renumbered(p, number, up)
    above = closure(up)
    known = pattern(above)
    (y_lower, y_upper), (p_lower, p_upper) = nested(y, above), nested(p, above)
    size = np.diff(above.indptr)
    cost = row_sums(size, y) + row_sums(size, p) + np.diff(y.indptr).astype(np.int64) * np.diff(p.indptr)
    parts = []
    for lo, hi in blocks(cost, _BLOCK):
        t, q = y[lo:hi], p[lo:hi]
        columns: dict[str, np.ndarray] = {}
        if "set" in families:
            columns |= set_measures(up, known, t, q, count_root)
        if "pair" in families or "lca" in families:
            pairs = Pairs.of(t, q, above)
        if "pair" in families:
            columns |= pair_measures(t, q, pairs, float(max_distance), far_pairs == "forbid")
        if "lca" in families:
            kept = ~y_upper[y.indptr[lo] : y.indptr[hi]], ~p_upper[p.indptr[lo] : p.indptr[hi]]
            met = meet(up, above, t, q, pairs, kept, np.inf if lca_max_distance is None else lca_max_distance)
            if lca == "extended":
                columns |= rates("lca", *extended_graphs(met, hi - lo))
            else:
                *sizes, columns["lca_exact"] = minimal_graphs(met, hi - lo)
                columns |= rates("lca", *sizes)
        parts.append(pd.DataFrame(columns))
    found = pd.concat(parts, ignore_index=True).astype(float)
    del above, known, parts
    if "set" in families:
        found = found.assign(**descendant_measures(h._up, number, without(y, y_lower), without(p, p_lower)))
    names = [name for family in families for name in FAMILIES[family]] + ["lca_exact"] * ("lca_exact" in found)
    return found[names].iloc[place].reset_index(drop=True)


def row_sums(size: np.ndarray, labels: sparse.csr_array) -> np.ndarray:
    """Sum of a number of each class over the classes of each instance."""
    return np.diff(np.append(0, np.cumsum(size[labels.indices]))[labels.indptr])


def labels(value: Any, name: str, h: Hierarchy) -> sparse.csr_array:
    """Class sets as an indicator of instances by class numbers of the hierarchy."""
    if sparse.issparse(value):
        matrix = binary_matrix(value, name)
        if matrix.shape[1] != len(h):
            raise ValueError(f"`{name}` must have one column for each of the {len(h)} classes, got shape {matrix.shape}.")
        start, numbers = matrix.indptr, h._number[matrix.indices]
    else:
        rows = _rows(value, name)
        start = np.append(0, np.cumsum([len(row) for row in rows]))
        numbers = h._numbers(chain.from_iterable(rows), name)
    found = sparse.csr_array((np.ones(len(numbers), bool), numbers, start), shape=(len(start) - 1, len(h) + 1))
    found.sum_duplicates()
    return found


def _rows(value: Any, name: str) -> list[Any]:
    rows = list(value)
    bad = {kind for kind in set(map(type, rows)) if issubclass(kind, (str, bytes)) or not hasattr(kind, "__len__")}
    if bad:
        wrong = [i for i, row in enumerate(rows) if type(row) in bad]
        raise TypeError(
            f"`{name}` must hold a set of classes for each instance, got {rows[wrong[0]]!r} "
            f"({listing(wrong, 'such row')}). Put single classes into sets."
        )
    if not rows:
        raise ValueError(f"`{name}` must hold at least one instance, got none. There is nothing to evaluate.")
    return rows


def renumbered(labels: sparse.csr_array, number: np.ndarray, up: Parents) -> sparse.csr_array:
    """The same class sets in the numbers of a part of the hierarchy."""
    shape = labels.shape[0], len(up.level)
    found = sparse.csr_array((labels.data, number[labels.indices], labels.indptr), shape=shape)
    found.sort_indices()
    return found


def distinct_rows(true: sparse.csr_array, pred: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """One instance for each different pair of class sets, and for every instance the place of its own among these."""
    keys: dict[tuple[bytes, bytes], int] = {}
    sides = []
    for side in (true, pred):
        memory = side.indices.tobytes()
        sides.append([memory[a:b] for a, b in pairwise((side.indptr * side.indices.itemsize).tolist())])
    place = np.array([keys.setdefault(key, len(keys)) for key in zip(*sides, strict=True)])
    first = np.flatnonzero(np.diff(np.maximum.accumulate(place), prepend=-1))
    return first, place


def nested(labels: sparse.csr_array, above: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the classes that have an ancestor, and that have a descendant, in the set of their own instance."""
    lower, upper = np.zeros(labels.nnz, bool), np.zeros(labels.nnz, bool)
    for lo, hi in blocks(np.diff(labels.indptr).astype(np.int64) ** 2, _BLOCK):
        _, left, right = instance_pairs(labels[lo:hi], labels[lo:hi])
        left, right = (side[left != right] + labels.indptr[lo] for side in (left, right))
        under = lookup(above, labels.indices[left], labels.indices[right]) > 0
        lower[left[under]] = upper[right[under]] = True
    return lower, upper


def without(labels: sparse.csr_array, dropped: np.ndarray) -> sparse.csr_array:
    """The class sets without the marked entries."""
    start = np.append(0, np.cumsum(~dropped))[labels.indptr]
    return sparse.csr_array((labels.data[~dropped], labels.indices[~dropped], start), shape=labels.shape)


def pattern(above: sparse.csr_array) -> sparse.csr_array:
    """Which entries a closure has; it shares its indices."""
    return sparse.csr_array((np.ones(above.nnz, bool), above.indices, above.indptr), shape=above.shape)


def descendant_measures(
    up: Parents, number: np.ndarray, true: sparse.csr_array, pred: sparse.csr_array
) -> dict[str, np.ndarray]:
    """Set measures of the classes extended by their descendants.

    Parameters
    ----------
    up : Parents
        The whole hierarchy.
    number : ndarray
        Number of each of its classes in a part of it.
    true, pred : csr_array of bool
        Class sets in the numbers of the part; classes below others of their set may be left out.
    """
    first, place = distinct_rows(true, pred)
    old = np.flatnonzero(number >= 0)
    old = old[np.argsort(number[old])]
    used = np.zeros(len(number), bool)
    used[old[np.concatenate([true.indices, pred.indices])]] = True
    part, new = up.part(up.below(np.flatnonzero(used)))
    columns = np.zeros(len(part.level), bool)
    columns[new[used]] = True
    below = pattern(closure(part, columns)).T.tocsr()
    true, pred = (renumbered(side[first], new[old], part) for side in (true, pred))
    counts = np.empty((3, len(first)))
    size = np.diff(below.indptr)
    for lo, hi in blocks(row_sums(size, true) + row_sums(size, pred), _BLOCK):
        t, q = true[lo:hi] @ below, pred[lo:hi] @ below
        counts[:, lo:hi] = np.diff(t.multiply(q).indptr), np.diff(t.indptr), np.diff(q.indptr)
    return rates("descendant", *counts[:, place])


def set_measures(
    up: Parents, known: sparse.csr_array, true: sparse.csr_array, pred: sparse.csr_array, count_root: bool
) -> dict[str, np.ndarray]:
    """Set measures of the classes extended by their ancestors; the virtual root, number 0, is one if asked."""
    true, pred = true @ known, pred @ known
    size_true, size_pred = (size - (size > 0) * (not count_root) for size in (np.diff(true.indptr), np.diff(pred.indptr)))
    both, true_errors = _compare(up, true, pred, count_root)
    _, pred_errors = _compare(up, pred, true, count_root)
    return rates("h", both, size_true, size_pred) | {
        "symmetric_difference_loss": size_true + size_pred - 2 * both,
        "h_loss": true_errors + pred_errors,
    }


def _compare(up: Parents, own: sparse.csr_array, other: sparse.csr_array, count_root: bool) -> tuple[np.ndarray, np.ndarray]:
    """Of each row's classes: how many are in the other row, and how many are not but are roots or have a parent there."""
    rows, width = own.shape
    shared, errors = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    table = np.zeros(max(_MARKS, width), bool)
    cells = [np.repeat(np.arange(rows) * width, np.diff(side.indptr)) + side.indices for side in (own, other)]
    for lo, hi in blocks(np.full(rows, width), len(table)):
        mine, marks = (c[side.indptr[lo] : side.indptr[hi]] - lo * width for c, side in zip(cells, (own, other), strict=True))
        table[marks] = True
        if not count_root:
            table[: (hi - lo) * width : width] = True
        hit = table[mine]
        shared[lo:hi] = np.bincount(mine[hit] // width, minlength=hi - lo)
        first, c = mine[~hit] // width * width, own.indices[own.indptr[lo] : own.indptr[hi]][~hit]
        edge, end = up.start[c], up.start[c + 1]
        found = edge == end
        while len(first):
            errors[lo:hi] += np.bincount(first[found] // width, minlength=hi - lo)
            more = ~found & (edge < end)
            first, edge, end = first[more], edge[more], end[more]
            found = table[first + up.parent[edge]]
            edge = edge + 1
        table[marks] = table[: (hi - lo) * width : width] = False
    return shared - (0 if count_root else np.diff(own.indptr) > 0), errors
