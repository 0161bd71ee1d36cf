"""Sets of classes of a hierarchy: as sparse indicators, paired at least cost, extended by
ancestors, and level by level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from mlflow_mleval.measures.formulas import Counts, f1, precision, recall
from mlflow_mleval.measures.hierarchy import (
    Hierarchy,
    Parents,
    closure,
    compressed,
    lookup,
    offsets,
    spans,
    stretches,
)
from mlflow_mleval.measures.registry import LEVEL_NAME, SET_SIZES
from mlflow_mleval.measures.sets import found_among, rows_of
from mlflow_mleval.validation import AnyArray, Array

# --------------------------------------------------------------------------------------------------
# Pair-based measures: distances between true and predicted classes, and the least-cost pairing of
# an instance's classes.

_TABLE = 1 << 23  # cells of the dense table into which rows of the closure are spread
_SUBSETS = 4  # classes of the smaller side up to which all its subsets are tabulated


@dataclass(frozen=True)
class Pairs:
    """All pairs of a true and a predicted class of the same instance, and how far apart they
    are.
    """

    # the pairs of instance i stand at start[i] to start[i + 1]: its matrix true x predicted, row by
    # row
    start: AnyArray
    left: AnyArray  # places of the classes in true.indices
    right: AnyArray  # and in pred.indices
    a: AnyArray  # the distinct pairs of classes, sorted: the true class
    b: AnyArray  # and the predicted one
    kind: AnyArray  # which of the distinct pairs each pair is
    apart: AnyArray  # distance of each distinct pair

    @classmethod
    def of(cls, true: sparse.csr_array, pred: sparse.csr_array, above: sparse.csr_array) -> Pairs:
        """The pairs of class sets, given as indicators, in a hierarchy, given as its closure."""
        start, left, right = instance_pairs(true, pred)
        a, b, kind = distinct(true.indices[left], pred.indices[right], above.shape[1])
        return cls(start, left, right, a, b, kind, distances(above, a, b))


def instance_pairs(
    true: sparse.csr_array, pred: sparse.csr_array
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Start, left and right of `Pairs`."""
    m = np.diff(true.indptr)
    k = np.diff(pred.indptr)
    left = np.repeat(np.arange(true.nnz), np.repeat(k, m))
    right = spans(np.repeat(pred.indptr[:-1], m), np.repeat(k, m))
    return offsets(m.astype(np.int64) * k), left, right


def distinct(left: AnyArray, right: AnyArray, width: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """The distinct pairs, sorted, and the place of every given pair among them."""
    key = left.astype(np.int64) * width + right
    order = np.argsort(key)
    key = key[order]
    new = np.diff(key, prepend=-1) > 0
    place = np.empty(len(key), np.int64)
    place[order] = np.cumsum(new) - 1
    return key[new] // width, key[new] % width, place


def meetings(
    above: sparse.csr_array, left: AnyArray, right: AnyArray
) -> Iterator[tuple[slice, sparse.csr_array, AnyArray]]:
    """Walk through the ancestors of the right class of every pair of classes, some pairs at a time;
    `left` is sorted.

    Yields which pairs these are (a slice), the rows of the closure for their right classes, and for
    each entry of these rows the length of the path from left over the ancestor to right; beyond
    every distance if it is no ancestor of left.
    """
    width = above.shape[1]
    size = np.diff(above.indptr)
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


def distances(above: sparse.csr_array, left: AnyArray, right: AnyArray) -> AnyArray:
    """Shortest distance through a common ancestor of each pair of classes; `left` is sorted."""
    shortest = np.empty(len(left), above.dtype)
    for part, ancestors, length in meetings(above, left, right):
        shortest[part] = np.minimum.reduceat(length, ancestors.indptr[:-1])
    return shortest


def best_matching(weight: AnyArray) -> AnyArray:
    """Largest sum of weights of a one-to-one matching, for a stack of matrices of weights that are
    not negative.

    What is not matched weighs nothing.
    """
    if weight.shape[1] < weight.shape[2]:
        weight = weight.transpose(0, 2, 1)
    count, rows, columns = weight.shape
    if columns > _SUBSETS:
        from scipy.optimize import linear_sum_assignment

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
) -> dict[str, AnyArray]:
    """The pair-based measures of every instance, where a class that is not paired costs `limit`.

    Classes `far` apart, farther than that, may not be paired ("forbid"), may be ("allow"), or may
    be at the limit ("clip"). Distances that differ by no more than `tolerance` are equal.
    """
    start = pairs.start
    distance = pairs.apart[pairs.kind]
    m = np.diff(true.indptr)
    k = np.diff(pred.indptr)
    # nothing paired
    gie = limit * (m + k)
    cover = limit * (m + k)
    shape = m.astype(np.int64) * (k.max(initial=0) + 1) + k
    order = np.argsort(shape, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(shape[order])) + 1):
        rows = m[group[:1]].sum()
        columns = k[group[:1]].sum()
        if not rows * columns:
            continue
        cells = start[group, None] + np.arange(rows * columns)
        kappa = distance[cells].reshape(-1, rows, columns).astype(float)
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


# --------------------------------------------------------------------------------------------------
# Class sets of instances: sparse indicators of instances by class numbers of a hierarchy.

_BLOCK = 1 << 20  # pairs of classes that are looked at together


def renumbered(labels: sparse.csr_array, number: AnyArray, width: int) -> sparse.csr_array:
    """The same class sets where class c has another number, ``number[c]``."""
    moved = compressed(labels.data, number[labels.indices], labels.indptr, width)
    moved.sort_indices()
    return moved


def part_above(h: Hierarchy, *sides: Any) -> tuple[Parents, AnyArray, list[sparse.csr_array]]:
    """The part of a hierarchy that class sets speak of, with all ancestors and the virtual root;
    the numbers of all classes in it, -1 outside, and the class sets by these.
    """
    by_number = [renumbered(sparse.csr_array(side), h._number, len(h) + 1) for side in sides]
    used = np.unique(np.concatenate([[0], *(side.indices for side in by_number)]))
    up, number = h._up.part(h._up.above(used))
    return up, number, [renumbered(side, number, len(up.level)) for side in by_number]


def row_sums(size: AnyArray, labels: sparse.csr_array) -> AnyArray:
    """Sum of a whole number of each class over the classes of each instance."""
    return np.diff(np.append(0, np.cumsum(size[labels.indices], dtype=np.int64))[labels.indptr])


def distinct_rows(true: sparse.csr_array, pred: sparse.csr_array) -> tuple[AnyArray, AnyArray]:
    """One instance for each different pair of class sets, and for every instance the place of its
    own among these.
    """
    size = np.diff(true.indptr), np.diff(pred.indptr)
    start = offsets(size[0] + size[1] + 1)
    joined = np.full(start[-1], -1, np.int32)  # true classes, -1, predicted classes
    joined[spans(start[:-1], size[0])] = true.indices
    joined[spans(start[1:] - size[1], size[1])] = pred.indices
    memory = joined.tobytes()
    keys: dict[bytes, int] = {}
    ends = pairwise((start * joined.itemsize).tolist())
    place = np.array([keys.setdefault(memory[a:b], len(keys)) for a, b in ends])
    return np.flatnonzero(np.diff(np.maximum.accumulate(place), prepend=-1)), place


def nested(labels: sparse.csr_array, above: sparse.csr_array) -> tuple[AnyArray, AnyArray]:
    """Masks of the classes that have an ancestor, and that have a descendant, in the set of their
    own instance.
    """
    lower = np.zeros(labels.nnz, bool)
    upper = np.zeros(labels.nnz, bool)
    for lo, hi in stretches(np.diff(labels.indptr).astype(np.int64) ** 2, _BLOCK):
        _, left, right = instance_pairs(labels[lo:hi], labels[lo:hi])
        left, right = (side[left != right] + labels.indptr[lo] for side in (left, right))
        under = lookup(above, labels.indices[left], labels.indices[right]) > 0
        lower[left[under]] = upper[right[under]] = True
    return lower, upper


def without(labels: sparse.csr_array, dropped: AnyArray) -> sparse.csr_array:
    """The class sets without the marked entries."""
    at = np.flatnonzero(~dropped)
    start = np.searchsorted(at, labels.indptr)
    return compressed(labels.data[at], labels.indices[at], start, labels.shape[1])


# --------------------------------------------------------------------------------------------------
# Set-based measures: class sets extended by their ancestors or descendants (Kosmopoulos et al.
# 2015, section 2.4).

_SET_BASED_BLOCK = 1 << 20  # members of extended sets that are looked at together


def rates(name: str, both: AnyArray, true: AnyArray, pred: AnyArray) -> dict[str, AnyArray]:
    """Precision, recall and F1 of the sizes of an intersection, a true and a predicted set, and
    these sizes.

    0 where the set to divide by is empty, but 1 where both are.
    """
    counts = Counts(both, pred, true, cells=0, empty=1.0)
    values = {"precision": precision(counts), "recall": recall(counts), "f1": f1(counts)}
    values |= dict(zip(SET_SIZES, (both, true, pred), strict=True))
    return {f"{name}_{key}": value for key, value in values.items()}


def pattern(
    above: sparse.csr_array, height: float = np.inf, count_root: bool = True
) -> sparse.csr_array:
    """Which entries a closure has, up to a height.

    Without one it shares the indices, and the virtual root, number 0, stays.
    """
    shape = above.shape
    entries = np.ones(above.nnz, bool)
    whole = sparse.csr_array((entries, above.indices, above.indptr), shape=shape)
    if height == np.inf:
        return whole
    near = (above.data <= height + 1) & ((above.indices > 0) | count_root)
    return without(whole, ~near)


def set_measures(
    up: Parents,
    known: sparse.csr_array,
    true: sparse.csr_array,
    pred: sparse.csr_array,
    count_root: bool,
    costs: AnyArray | None = None,
) -> dict[str, AnyArray]:
    """Set measures of the classes extended by their ancestors: those `known`, a pattern of the
    hierarchy's closure.

    With `count_root` the virtual root, number 0, counts where it is among them. `costs` of the
    classes are for h_loss.
    """
    common = np.diff(true.multiply(pred).indptr)
    exact = (common == np.diff(true.indptr)) & (common == np.diff(pred.indptr))
    sides = true @ known, pred @ known
    for side in sides:
        side.sort_indices()
    sizes = [np.diff(side.indptr) for side in sides]
    both = np.zeros(true.shape[0], np.int64)
    loss = np.zeros(true.shape[0])
    width = known.shape[1]
    cells = [rows_of(side) * width + side.indices for side in sides]
    for own, other in (cells, cells[::-1]):
        # Where the virtual root does not count it is as if both sets had it.
        shared = found_among(other, own)[0] | (not count_root) & (own % width == 0)
        both = np.bincount(own[shared] // width, minlength=len(both))
        row, node = np.divmod(own[~shared], width)
        parents = up.count[node]
        parent = up.parent[spans(up.start[node], parents)]
        child = np.repeat(np.arange(len(node)), parents)
        met = found_among(other, row[child] * width + parent)[0]
        met |= (not count_root) & (parent == 0)
        # of errors those that have no parents, or one that both sets have
        first = parents == 0
        first[child[met]] = True
        cost = None if costs is None else costs[node[first]]
        loss += np.bincount(row[first], cost, minlength=len(loss))
    # the virtual root is in every set but the empty ones, and was taken for shared by all
    if not count_root and known.indptr[1]:
        both -= sizes[1] > 0
        sizes = [size - (size > 0) for size in sizes]
    return rates("h", both, *sizes) | {
        "symmetric_difference_loss": sizes[0] + sizes[1] - 2 * both,
        "h_loss": loss,
        "exact_match": exact,
    }


def descendant_measures(
    up: Parents, number: AnyArray, true: sparse.csr_array, pred: sparse.csr_array
) -> dict[str, AnyArray]:
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
    for lo, hi in stretches(row_sums(size, true) + row_sums(size, pred), _SET_BASED_BLOCK):
        t = true[lo:hi] @ below
        q = pred[lo:hi] @ below
        counts[:, lo:hi] = np.diff(t.multiply(q).indptr), np.diff(t.indptr), np.diff(q.indptr)
    return rates("descendant", *counts[:, place])


# --------------------------------------------------------------------------------------------------
# What is right at each level of a hierarchy, and whether predictions obey it.


def level_columns(true: Any, pred: Any, h: Hierarchy, names: Iterable[str]) -> dict[str, Array]:
    """What the measures of these names are made of, of each instance; nothing for other names.

    Class sets are extended by their ancestors. The level of a class is the most edges on a way from
    a root, plus 1. `violation_rate` is 1 where a predicted class lacks an ancestor in the predicted
    set as given, `missing_ancestors` the number of classes that are lacking.
    """
    names = set(names)
    levels = sorted({int(found[1]) for found in map(LEVEL_NAME.fullmatch, names) if found})
    of_violations = names & {"violation_rate", "missing_ancestors"}
    if not levels and not of_violations:
        return {}
    up, _, (y, p) = part_above(h, true, pred)
    extended = pattern(closure(up))[:, 1:]  # without the virtual root
    sides = y @ extended, p @ extended
    columns = {}
    for level in levels:
        a, b = (side[:, np.flatnonzero(up.level[1:] == level)] for side in sides)
        for part, matrix in zip(SET_SIZES, (a.multiply(b).tocsr(), a, b), strict=True):
            columns[f"level_{level}_{part}"] = np.diff(matrix.indptr).astype(float)
    missing = np.diff(sides[1].indptr) - np.diff(p.indptr)
    violations = {
        "violation_rate": (missing > 0).astype(float),
        "missing_ancestors": missing.astype(float),
    }
    return columns | {name: violations[name] for name in violations if name in of_violations}
