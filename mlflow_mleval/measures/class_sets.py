"""Class sets of instances: sparse indicators of instances by class numbers of a hierarchy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy import sparse

from mlflow_mleval.measures.class_pairs import instance_pairs
from mlflow_mleval.measures.closure import compressed, lookup, offsets, spans, stretches

_BLOCK = 1 << 20  # pairs of classes that are looked at together


def renumbered(labels: sparse.csr_array, number: np.ndarray, width: int) -> sparse.csr_array:
    """The same class sets where class c has another number, ``number[c]``."""
    found = compressed(labels.data, number[labels.indices], labels.indptr, width)
    found.sort_indices()
    return found


def row_sums(size: np.ndarray, labels: sparse.csr_array) -> np.ndarray:
    """Sum of a whole number of each class over the classes of each instance."""
    return np.diff(np.append(0, np.cumsum(size[labels.indices], dtype=np.int64))[labels.indptr])


def distinct_rows(true: sparse.csr_array, pred: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
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
    place = np.array(
        [
            keys.setdefault(memory[a:b], len(keys))
            for a, b in pairwise((start * joined.itemsize).tolist())
        ]
    )
    return np.flatnonzero(np.diff(np.maximum.accumulate(place), prepend=-1)), place


def nested(labels: sparse.csr_array, above: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the classes that have an ancestor, and that have a descendant, in the set of their
    own instance.
    """
    lower, upper = np.zeros(labels.nnz, bool), np.zeros(labels.nnz, bool)
    for lo, hi in stretches(np.diff(labels.indptr).astype(np.int64) ** 2, _BLOCK):
        _, left, right = instance_pairs(labels[lo:hi], labels[lo:hi])
        left, right = (side[left != right] + labels.indptr[lo] for side in (left, right))
        under = lookup(above, labels.indices[left], labels.indices[right]) > 0
        lower[left[under]] = upper[right[under]] = True
    return lower, upper


def without(labels: sparse.csr_array, dropped: np.ndarray) -> sparse.csr_array:
    """The class sets without the marked entries."""
    start = np.append(0, np.cumsum(~dropped))[labels.indptr]
    return compressed(labels.data[~dropped], labels.indices[~dropped], start, labels.shape[1])
