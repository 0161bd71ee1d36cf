"""Measures of predicted label sets, per instance and per label, from counts of true, predicted and shared labels."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Conventions = Literal["sklearn", "mulan"]
CONVENTIONS: tuple[str, ...] = ("sklearn", "mulan")


def overlap(true: Any, pred: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the true, the predicted and the shared labels, by instance and by label.

    Parameters
    ----------
    true, pred : boolean array or CSR matrix, shape (n, K)
        Both dense or both sparse; fewer than 2**24 rows and columns.

    Returns
    -------
    by_instance, by_label : arrays of int, shapes (3, n) and (3, K)
        Rows: shared (true positives), predicted, true.

    >>> overlap(np.array([[True, False], [True, True]]), np.array([[True, True], [False, True]]))
    (array([[1, 1],
           [2, 1],
           [1, 2]]), array([[1, 1],
           [1, 2],
           [2, 1]]))
    """
    if sparse.issparse(true):
        matrices = (true.multiply(pred).tocsr(), pred, true)
        by_instance = np.array([np.diff(m.indptr) for m in matrices], dtype=np.int64)
        by_label = np.array([np.bincount(m.indices, minlength=m.shape[1]) for m in matrices], dtype=np.int64)
        return by_instance, by_label
    n, k = true.shape
    by_instance, by_label = np.empty((3, n), dtype=np.int64), np.empty((3, k), dtype=np.int64)
    rows, columns = np.ones(n, dtype=np.float32), np.ones(k, dtype=np.float32)
    for i, m in enumerate((true & pred, pred, true)):
        m = m.astype(np.float32)  # a matrix product counts fastest, and exactly up to 2**24
        by_instance[i] = m @ columns
        by_label[i] = rows @ m
    return by_instance, by_label


def set_measures(
    shared: NDArray[np.int64], predicted: NDArray[np.int64], true: NDArray[np.int64], conventions: Conventions = "sklearn"
) -> dict[str, NDArray[np.float64]]:
    """Accuracy, precision, recall and F1 of pairs of sets, given by their sizes (Madjarov et al. 2012, A.2 to A.5).

    The sets are the labels of an instance, or the instances of a label: with the counts of a label these are its
    precision, recall and F1, with the counts summed over labels the micro-averaged ones.

    Parameters
    ----------
    shared, predicted, true : arrays of int, one shape
        Sizes of Y ∩ Ŷ, Ŷ and Y.
    conventions : {"sklearn", "mulan"}
        Two empty sets count 0 or 1. One empty set counts 0 under both.

    Returns
    -------
    dict of str to array
        ``accuracy`` |Y∩Ŷ| / |Y∪Ŷ|, ``precision`` |Y∩Ŷ| / |Ŷ|, ``recall`` |Y∩Ŷ| / |Y|, ``f1`` 2|Y∩Ŷ| / (|Y|+|Ŷ|);
        in [0, 1], 1 is best.

    Notes
    -----
    Madjarov et al. print the denominators of precision and recall the wrong way round; their tables follow these.

    >>> {name: v.round(3).tolist() for name, v in set_measures(np.array([1, 0]), np.array([2, 0]), np.array([3, 0])).items()}
    {'accuracy': [0.25, 0.0], 'precision': [0.5, 0.0], 'recall': [0.333, 0.0], 'f1': [0.4, 0.0]}
    """
    both = predicted + true
    pairs = {
        "accuracy": (shared, both - shared),
        "precision": (shared, predicted),
        "recall": (shared, true),
        "f1": (2 * shared, both),
    }
    empty = float(conventions == "mulan")
    return {
        name: np.where(both == 0, empty, numerator / np.maximum(denominator, 1))
        for name, (numerator, denominator) in pairs.items()
    }


def example_measures(
    by_instance: NDArray[np.int64], n_labels: int, conventions: Conventions = "sklearn"
) -> dict[str, NDArray[np.float64]]:
    """The six example-based measures of each instance (Madjarov et al. 2012, A.1 to A.6).

    Parameters
    ----------
    by_instance : array of int, shape (3, n)
        Shared, predicted and true labels of each instance, from `overlap`.
    n_labels : int
        K.
    conventions : {"sklearn", "mulan"}
        What two empty sets count, see `set_measures`.

    Returns
    -------
    dict of str to array of shape (n,)
        ``hamming_loss`` (0 is best), ``accuracy``, ``precision``, ``recall``, ``f1``, ``subset_accuracy`` (1 is best).

    >>> example_measures(np.array([[1], [2], [1]]), 4)["hamming_loss"]
    array([0.25])
    """
    shared, predicted, true = by_instance
    wrong = predicted + true - 2 * shared
    return {
        "hamming_loss": wrong / n_labels,
        **set_measures(shared, predicted, true, conventions),
        "subset_accuracy": (wrong == 0).astype(float),
    }


def label_measures(by_label: NDArray[np.int64], conventions: Conventions = "sklearn") -> dict[str, float]:
    """The six label-based measures (Madjarov et al. 2012, A.7 to A.12).

    Parameters
    ----------
    by_label : array of int, shape (3, K)
        True positives, predicted and true instances of each label, from `overlap`.
    conventions : {"sklearn", "mulan"}
        What a label counts that is absent and never predicted: 0 or 1.

    Returns
    -------
    dict of str to float
        ``micro_precision``, ``micro_recall``, ``micro_f1`` and the ``macro_`` ones; 1 is best.

    >>> label_measures(np.array([[1, 0], [2, 1], [1, 0]]))["macro_precision"]
    0.25
    """
    micro = set_measures(*by_label.sum(axis=1), conventions)
    macro = set_measures(*by_label, conventions)
    names = ("precision", "recall", "f1")
    return {
        **{f"micro_{name}": float(micro[name]) for name in names},
        **{f"macro_{name}": float(macro[name].mean()) for name in names},
    }
