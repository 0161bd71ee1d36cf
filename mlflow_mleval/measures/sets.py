"""Measures of predicted label sets, and the thresholds that make sets of scores."""

from __future__ import annotations

from math import ceil
from typing import Any, Literal

import numpy as np
from scipy import sparse

from mlflow_mleval.validation import (
    AnyArray,
    Array,
    Bools,
    Ints,
    binary_matrix,
    same_columns,
    score_matrix,
)

# --------------------------------------------------------------------------------------------------
# Measures of predicted label sets, per instance and per label, from counts of true, predicted and
# shared labels.


def rows_of(matrix: sparse.csr_array) -> Ints:
    """The row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))


def dense(matrix: Any) -> Any:
    """The same as an ndarray."""
    return matrix.toarray() if sparse.issparse(matrix) else matrix


Conventions = Literal["sklearn", "mulan"]
CONVENTIONS: tuple[str, ...] = ("sklearn", "mulan")


def overlap(true: Any, pred: Any, weights: Array | None = None) -> tuple[Ints, AnyArray]:
    """Count the shared (true positive), the predicted and the true labels: by instance, shape (3,
    n), and by label, (3, K).

    Boolean matrices of shape (n, K), both dense or both CSR; fewer than 2**24 rows and columns. The
    counts by label are sums of the weights of instances where these are given.
    """
    if sparse.issparse(true):
        matrices = (true.multiply(pred).tocsr(), pred, true)
        by_instance = np.array([np.diff(m.indptr) for m in matrices], dtype=np.int64)
        return by_instance, np.array([label_weights(m, weights) for m in matrices])
    n, k = true.shape
    by_instance = np.empty((3, n), dtype=np.int64)
    by_label = np.empty((3, k), dtype=np.int64)
    rows = np.ones(n, dtype=np.float32)
    columns = np.ones(k, dtype=np.float32)
    for i, m in enumerate((true & pred, pred, true)):
        m = m.astype(np.float32)  # a matrix product counts fastest, and exactly up to 2**24
        by_instance[i] = m @ columns
        by_label[i] = rows @ m
    if weights is None:
        return by_instance, by_label
    return by_instance, np.array([label_weights(m, weights) for m in (true & pred, pred, true)])


def label_weights(labels: Any, weights: Array | None) -> AnyArray:
    """By label the instances that have it, or the sum of their weights, shape (K,).

    Weights are added row by row: then no label has more weight than one that more instances have,
    and a label of all instances has just `weight_of_all`.
    """
    if not sparse.issparse(labels):
        row, column = np.nonzero(labels)
    else:
        row = rows_of(labels)
        column = labels.indices
    of_rows = None if weights is None else weights[row]
    return np.bincount(column, of_rows, labels.shape[1])


def weight_of_all(weights: Array) -> float:
    """The sum of the weights, added row by row as those of a label are."""
    return float(np.bincount(np.zeros(len(weights), np.int64), weights)[0])


def overlap_apart(
    true: sparse.csr_array,
    always: Bools,
    difference: sparse.csr_array,
    weights: Array | None = None,
) -> tuple[Ints, AnyArray]:
    """The same of predictions given by what is always predicted and the difference from it, see
    `thresholds.apart`.
    """
    shared = true.multiply(difference).tocsr()
    met = np.bincount(rows_of(true), always[true.indices], true.shape[0])
    by_instance = (
        met + shared.sum(axis=1),
        always.sum() + difference.sum(axis=1),
        np.diff(true.indptr),
    )
    relevant = label_weights(true, weights)
    if weights is None:
        n = true.shape[0]
        changes = [m.sum(axis=0) for m in (shared, difference)]
    else:
        n = weight_of_all(weights)
        changes = [m.T @ weights for m in (shared, difference)]
    by_label = relevant * always + changes[0], n * always + changes[1], relevant
    kind = np.int64 if weights is None else float
    return np.array(by_instance, dtype=np.int64), np.maximum(np.array(by_label, dtype=kind), 0)


def set_measures(
    shared: Ints,
    predicted: Ints,
    true: Ints,
    *,
    conventions: Conventions = "sklearn",
) -> dict[str, Array]:
    """Accuracy, precision, recall and F1 of pairs of sets, given by the sizes of Y ∩ Ŷ, Ŷ and Y; in
    [0, 1], 1 is best.

    The sets are the labels of an instance, or the instances of a label: with the counts of a label
    these are its precision, recall and F1, with the counts summed over labels the micro-averaged
    ones. Two empty sets count 0 (sklearn) or 1 (mulan), one empty set 0 under both. Madjarov et al.
    2012 (A.2 to A.5) print the denominators of precision and recall the wrong way round; their
    tables follow these.

    >>> {name: v.round(3).tolist() for name, v in set_measures(np.array([1, 0]), np.array([2, 0]), np.array([3, 0])).items()}
    {'accuracy': [0.25, 0.0], 'precision': [0.5, 0.0], 'recall': [0.333, 0.0], 'f1': [0.4, 0.0]}
    """  # noqa: E501
    both = predicted + true
    pairs = {
        "accuracy": (shared, both - shared),
        "precision": (shared, predicted),
        "recall": (shared, true),
    }
    pairs["f1"] = (2 * shared, both)
    empty = np.where(both == 0, float(conventions == "mulan"), 0.0)
    return {name: ratio(*parts, empty) for name, parts in pairs.items()}


def ratio(part: Any, whole: Any, otherwise: Any = 0.0) -> Array:
    """The part of a whole, in counts or weights; where there is no whole, what stands for it."""
    quotient = np.broadcast_to(np.asarray(otherwise, float), np.shape(whole)).copy()
    return np.divide(part, whole, out=quotient, where=np.asarray(whole) > 0)


def example_measures(
    by_instance: Ints,
    n_labels: int,
    conventions: Conventions = "sklearn",
) -> dict[str, Array]:
    """The six example-based measures of each instance (Madjarov et al. 2012, A.1 to A.6), each of
    shape (n,).

    From the counts of `overlap` by instance; for the conventions see `set_measures`.
    """
    shared, predicted, true = by_instance
    wrong = predicted + true - 2 * shared
    return {
        "hamming_loss": wrong / n_labels,
        **set_measures(shared, predicted, true, conventions=conventions),
        "subset_accuracy": (wrong == 0).astype(float),
    }


def label_measures(by_label: Ints, conventions: Conventions = "sklearn") -> dict[str, float]:
    """The six label-based measures (Madjarov et al. 2012, A.7 to A.12), from the counts of
    `overlap` by label.
    """
    micro = set_measures(*by_label.sum(axis=1), conventions=conventions)
    macro = set_measures(*by_label, conventions=conventions)
    names = ("precision", "recall", "f1")
    return {f"micro_{name}": float(micro[name]) for name in names} | {
        f"macro_{n}": float(macro[n].mean()) for n in names
    }


def further_label_measures(
    by_label: AnyArray,
    n: float,
    conventions: Conventions = "sklearn",
) -> dict[str, float]:
    """Weighted precision, recall and F1, macro Jaccard, balanced accuracy, and Matthews
    correlations over cells and labels.

    From the counts of `overlap` by label and the number of instances, or their weights. A label
    weighs as much as its true instances; without any, the weighted measures are NaN. Balanced
    accuracy is the mean over labels of the mean recall of the instances with and of those without
    the label, or of one of these recalls where there are no others. A correlation is 0 where truth
    or prediction is all one value. Both are as in scikit-learn.
    """
    rates = set_measures(*by_label, conventions=conventions)
    support = by_label[2]
    total = support.sum().item()
    values = {
        f"weighted_{m}": float(rates[m] @ support / total) if total else np.nan
        for m in ("precision", "recall", "f1")
    }
    values["macro_jaccard"] = float(rates["accuracy"].mean())
    there = support > 0, support < n
    recalls = (
        ratio(by_label[0], support),
        ratio(n - by_label[1] - support + by_label[0], n - support),
    )
    values["balanced_accuracy"] = float(
        (np.where(there, recalls, 0).sum(axis=0) / np.sum(there, axis=0)).mean()
    )
    values["macro_matthews"] = float(_matthews(by_label.astype(float), n).mean())
    cells = np.full(by_label.shape[1], n).sum()  # added up as the counts are
    values["micro_matthews"] = float(
        _matthews(by_label.sum(axis=1, keepdims=True).astype(float), cells)[0]
    )
    return values


def _matthews(counts: Array, n: float) -> Array:
    """Correlation of truth and prediction in n cells with these counts of shared, predicted and
    true ones, shape (3, K).
    """
    tp, predicted, true = counts / n
    spread = np.sqrt(predicted * (1 - predicted)) * np.sqrt(true * (1 - true))
    return np.divide(tp - predicted * true, spread, out=np.zeros_like(tp), where=spread > 0)


# --------------------------------------------------------------------------------------------------
# Thresholds on scores: which scores reach them, and those that predict as many labels as there are
# in truth.


def reached(scores: AnyArray, threshold: Any) -> Bools:
    """Where scores N x K reach a threshold, one number or one for each label, as the type of the
    scores tells numbers apart.

    >>> reached(np.float32([[0.7, 0.69]]), 0.7)  # float32(0.7) is less than 0.7
    array([[ True, False]])
    >>> reached(np.array([[2**53 + 1, 2**53]]), 2.0**53 + 2)  # as float64, the first would be rounded up
    array([[False, False]])
    """  # noqa: E501
    cut = np.asarray(threshold, float)
    if scores.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return scores >= cut.astype(scores.dtype)
    if scores.dtype.kind == "b":
        return scores >= cut
    span = np.iinfo(scores.dtype)
    thresholds = cut.ravel().tolist()  # Python compares a float with an integer exactly
    whole = [
        span.max if t > span.max else span.min if t < span.min else ceil(t) for t in thresholds
    ]
    possible = np.array([t <= span.max for t in thresholds], bool).reshape(cut.shape)
    return (scores >= np.array(whole, scores.dtype).reshape(cut.shape)) & possible


def apart(scores: sparse.csr_array, threshold: Any) -> tuple[Bools, sparse.csr_array]:
    """The labels that a score of 0 predicts, shape (K,), and where stored scores differ from that:
    1 predicted, -1 not, else 0.

    The CSR has no entries given twice; what it does not store is never looked at, whatever the
    threshold.

    >>> always, difference = apart(sparse.csr_array([[0.5, -0.5, 0.0]]), [0.4, 0.0, 0.0])
    >>> always.tolist(), difference.toarray().tolist()
    ([False, True, True], [[1, -1, 0]])
    """
    cut = np.broadcast_to(np.asarray(threshold, float), scores.shape[1:])
    always = reached(np.zeros(scores.shape[1], scores.dtype), cut)
    high = reached(scores.data, cut[scores.indices])
    difference = high.astype(np.int8) - always[scores.indices].astype(np.int8)
    return always, sparse.csr_array((difference, scores.indices, scores.indptr), shape=scores.shape)


def predicted(scores: Any, threshold: Any) -> sparse.csr_array:
    """Where the scores reach the threshold, made some rows at a time: dense, it could be larger
    than sparse scores.

    Of CSR without entries given twice only what is stored is looked at where 0 does not reach it.
    """
    if sparse.issparse(scores) and np.min(threshold) > 0:
        cut = np.asarray(threshold, float)
        high = reached(scores.data, cut if cut.ndim == 0 else cut[scores.indices])
        at = np.flatnonzero(high)
        start = np.searchsorted(at, scores.indptr)
        return sparse.csr_array(
            (np.ones(len(at), bool), scores.indices[at], start), shape=scores.shape
        )
    blocks = (scores[i : i + 1024] for i in range(0, scores.shape[0], 1024))
    above = [sparse.csr_array(reached(dense(block), threshold)) for block in blocks]
    return sparse.vstack(above, format="csr")


def calibrate_threshold(y_true: Any, y_score: Any, *, per_label: bool = False) -> float | Array:
    """The threshold at which as many labels are predicted as are true.

    Read et al.'s PCut calibration, used by Madjarov et al. 2012: the label cardinality of ``y_score
    >= threshold`` is closest to that of the training truth. It is exact: every threshold that tells
    scores apart is considered.

    Parameters
    ----------
    y_true : array, data frame or scipy.sparse of 0 and 1, shape (M, K)
        The truth whose cardinality is to be met, usually that of the training instances. M need not
        be N.
    y_score : the same of finite numbers, shape (N, K)
        Scores of any range.
    per_label : bool
        One threshold a label, at which the label is predicted as often as it is true.

    Returns
    -------
    float, or array of shape (K,)
        Half way between the lowest score that is predicted and the highest that is not; the lowest
        score of all where all are predicted; the next number above the highest where none is. Of
        two that are equally close the higher one, which predicts fewer labels.

    Raises
    ------
    ValueError, TypeError
        Not matrices of numbers, different numbers or names of labels, a score that is NaN or
        infinite, a truth other than 0 or 1.

    >>> y_score = [[1.0, 0.75, 0.125], [0.75, 0.25, 0.0]]
    >>> calibrate_threshold([[1, 0, 0], [1, 1, 0]], y_score)
    0.5
    >>> calibrate_threshold([[1, 0, 0], [1, 1, 1]], y_score, per_label=True)
    array([0.75  , 0.5   , 0.0625])
    """
    score = score_matrix(y_score, "y_score")
    true = binary_matrix(y_true, "y_true")
    same_columns(y_score, "y_score", y_true, "y_true")
    n, k = score.shape
    if true.shape[1] != k:
        raise ValueError(f"`y_true` must have the {k} labels of `y_score`, got {true.shape[1]}.")
    wanted = np.asarray(true.sum(axis=0)).ravel() * n / true.shape[0]
    if not per_label:
        return _threshold(dense(score), wanted.sum())
    return np.array([_threshold(dense(score[:, [j]]), wanted[j]) for j in range(k)])


def _threshold(scores: AnyArray, wanted: float) -> float:
    """The threshold that as nearly as possible ``wanted`` of the scores reach; a number of their
    own type.
    """
    scores = scores.ravel() if scores.dtype.kind == "f" else scores.ravel().astype(float)
    place = min(max(int(np.ceil(wanted)), 1), len(scores))
    at = np.partition(scores, len(scores) - place)[len(scores) - place]
    # Thresholds up to `at` are reached by at least `place` scores, those above it by fewer: the
    # best count is one of these two.
    above = scores[scores > at]
    below = scores[scores < at]
    fewer = len(above)
    more = len(scores) - len(below)
    if wanted - fewer <= more - wanted:
        low = at
        high = above.min() if fewer else np.nextafter(at, at.dtype.type(np.inf))
    else:
        low = below.max() if len(below) else at
        high = at
    middle = low / 2 + high / 2
    return float(middle if low < middle <= high else high)
