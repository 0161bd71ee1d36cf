"""Label sets as matrices: what true and predicted ones share, and the thresholds that make sets of
scores.
"""

from __future__ import annotations

from math import ceil
from typing import Any

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


def rows_of(matrix: sparse.csr_array) -> Ints:
    """The row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))


def dense(matrix: Any) -> Any:
    """The same as an ndarray."""
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def found_among(among: Ints, wanted: Ints) -> tuple[Bools, Ints]:
    """Which of the wanted numbers are among these, which ascend; and where."""
    if not len(among):
        return np.zeros(len(wanted), bool), np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    return among[at] == wanted, at


def overlap(
    true: Any, pred: Any, always: Bools | None = None, weights: Array | None = None
) -> tuple[Ints, AnyArray]:
    """Count the shared (true positive), the predicted and the true labels: by instance, shape (3,
    n), and by label, (3, K).

    Matrices of shape (n, K), both boolean and dense, or both CSR; fewer than 2**24 rows and
    columns. Sparse predictions may be differences from labels that are `always` predicted, see
    `apart`. The counts by label are sums of the weights of instances where these are given.
    """
    n, k = true.shape
    if not sparse.issparse(true):
        by_instance = np.empty((3, n), dtype=np.int64)
        by_label = np.empty((3, k), dtype=np.int64 if weights is None else float)
        each = np.ones(n, np.float32) if weights is None else weights
        columns = np.ones(k, np.float32)
        for i, labels in enumerate((true & pred, pred, true)):
            # a matrix product counts fastest, and exactly up to 2**24
            counted = labels.astype(np.float32)
            by_instance[i] = counted @ columns
            by_label[i] = each @ (counted if weights is None else labels)
        return by_instance, by_label
    matrices = true.multiply(pred).tocsr(), pred, true
    by_instance = np.array([np.asarray(m.sum(axis=1, dtype=np.int64)).ravel() for m in matrices])
    by_label = np.array([_by_label(m, weights) for m in matrices])
    if always is not None and always.any():
        by_instance[0] += np.bincount(rows_of(true), always[true.indices], n).astype(np.int64)
        by_instance[1] += always.sum()
        by_label[0] += by_label[2] * always
        by_label[1] += (always * (n if weights is None else weights.sum())).astype(by_label.dtype)
    return by_instance, np.maximum(by_label, 0)


def _by_label(matrix: sparse.csr_array, weights: Array | None) -> AnyArray:
    """The sums of the columns, weighted."""
    each = matrix.data.astype(float)
    if weights is not None:
        each *= weights[rows_of(matrix)]
    sums = np.bincount(matrix.indices, each, matrix.shape[1])
    return sums.astype(np.int64) if weights is None else sums


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
    at = np.flatnonzero(difference)
    start = np.searchsorted(at, scores.indptr)
    entries = difference[at], scores.indices[at], start
    return always, sparse.csr_array(entries, shape=scores.shape)


def predicted(scores: Any, threshold: Any) -> sparse.csr_array:
    """Where the scores reach the threshold, made some rows at a time where 0 reaches it: dense, it
    could be larger than sparse scores.
    """
    if sparse.issparse(scores) and np.min(threshold) > 0:
        return apart(scores, threshold)[1].astype(bool)
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
