"""Thresholds on scores: which scores reach them, and those that predict as many labels as there are
in truth.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.validation import binary_matrix, same_columns, score_matrix


def reached(scores: NDArray[Any], threshold: Any) -> NDArray[np.bool_]:
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
    known = cut.ravel().tolist()  # Python compares a float with an integer exactly
    whole = [span.max if t > span.max else span.min if t < span.min else ceil(t) for t in known]
    possible = np.array([t <= span.max for t in known], bool).reshape(cut.shape)
    return (scores >= np.array(whole, scores.dtype).reshape(cut.shape)) & possible


def apart(scores: sparse.csr_array, threshold: Any) -> tuple[NDArray[np.bool_], sparse.csr_array]:
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
        start = np.append(0, np.cumsum(high))[scores.indptr]
        return sparse.csr_array(
            (np.ones(start[-1], bool), scores.indices[high], start), shape=scores.shape
        )
    blocks = (scores[i : i + 1024] for i in range(0, scores.shape[0], 1024))
    blocks = (b.toarray() if sparse.issparse(b) else b for b in blocks)
    return sparse.vstack([sparse.csr_array(reached(b, threshold)) for b in blocks], format="csr")


def calibrate_threshold(
    y_true: Any, y_score: Any, *, per_label: bool = False
) -> float | NDArray[np.float64]:
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
    score, true = score_matrix(y_score, "y_score"), binary_matrix(y_true, "y_true")
    same_columns(y_score, "y_score", y_true, "y_true")
    n, k = score.shape
    if true.shape[1] != k:
        raise ValueError(f"`y_true` must have the {k} labels of `y_score`, got {true.shape[1]}.")
    wanted = np.asarray(true.sum(axis=0)).ravel() * n / true.shape[0]
    if not per_label:
        return _threshold(_dense(score).ravel(), wanted.sum())
    return np.array([_threshold(_dense(score[:, [j]]).ravel(), wanted[j]) for j in range(k)])


def _threshold(scores: NDArray[Any], wanted: float) -> float:
    """The threshold that as nearly as possible ``wanted`` of the scores reach; a number of their
    own type.
    """
    place = min(max(int(np.ceil(wanted)), 1), len(scores))
    at = np.partition(scores, len(scores) - place)[len(scores) - place]
    # Thresholds up to `at` are reached by at least `place` scores, those above it by fewer: the
    # best count is one of these two.
    above, below = scores[scores > at], scores[scores < at]
    fewer, more = len(above), len(scores) - len(below)
    if wanted - fewer <= more - wanted:
        low, high = at, above.min() if fewer else np.nextafter(at, at.dtype.type(np.inf))
    else:
        low, high = below.max() if len(below) else at, at
    middle = low / 2 + high / 2
    return float(middle if low < middle <= high else high)


def _dense(block: Any) -> NDArray[Any]:
    block = block.toarray() if sparse.issparse(block) else block
    return block if block.dtype.kind == "f" else block.astype(float)
