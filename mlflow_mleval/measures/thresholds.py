"""Thresholds on scores that predict as many labels as there are in truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.validation import binary_matrix, score_matrix


def calibrate_threshold(y_score: Any, y_true: Any, *, per_label: bool = False) -> float | NDArray[np.float64]:
    """The threshold at which as many labels are predicted as are true.

    Read et al.'s PCut calibration, used by Madjarov et al. 2012: the label cardinality of ``y_score >= threshold`` is
    closest to that of the training truth. It is exact: every threshold that tells scores apart is considered.

    Parameters
    ----------
    y_score : array, pandas.DataFrame or scipy.sparse of finite numbers, shape (N, K)
        Scores of any range.
    y_true : the same of 0 and 1, shape (M, K)
        The truth whose cardinality is to be met, usually that of the training instances. M need not be N.
    per_label : bool
        One threshold a label, at which the label is predicted as often as it is true.

    Returns
    -------
    float, or array of shape (K,)
        Half way between the lowest score that is predicted and the highest that is not; the lowest score of all where all
        are predicted; the next number above the highest where none is. Of two that are equally close the higher one, which
        predicts fewer labels.

    Raises
    ------
    ValueError, TypeError
        Not matrices of numbers, different numbers of labels, a score that is NaN or infinite, a truth other than 0 or 1.

    >>> y_score = [[1.0, 0.75, 0.125], [0.75, 0.25, 0.0]]
    >>> calibrate_threshold(y_score, [[1, 0, 0], [1, 1, 0]])
    0.5
    >>> calibrate_threshold(y_score, [[1, 0, 0], [1, 1, 1]], per_label=True)
    array([0.75  , 0.5   , 0.0625])
    """
    score, true = score_matrix(y_score, "y_score"), binary_matrix(y_true, "y_true")
    n, k = score.shape
    if true.shape[1] != k:
        raise ValueError(f"`y_true` must have the {k} labels of `y_score`, got {true.shape[1]}.")
    wanted = np.asarray(true.sum(axis=0)).ravel() * n / true.shape[0]
    if not per_label:
        return _threshold(_dense(score).ravel(), wanted.sum())
    return np.array([_threshold(_dense(score[:, [j]]).ravel(), wanted[j]) for j in range(k)])


def _threshold(scores: NDArray[np.float64], wanted: float) -> float:
    """The threshold that as nearly as possible ``wanted`` of the scores reach."""
    place = min(max(int(np.ceil(wanted)), 1), len(scores))
    at = np.partition(scores, len(scores) - place)[len(scores) - place]
    # Thresholds up to `at` are reached by at least `place` scores, those above it by fewer: the best count is one of these two.
    above, below = scores[scores > at], scores[scores < at]
    fewer, more = len(above), len(scores) - len(below)
    if wanted - fewer <= more - wanted:
        low, high = at, above.min() if fewer else np.nextafter(at, np.inf)
    else:
        low, high = below.max() if len(below) else at, at
    middle = low / 2 + high / 2
    return float(middle if low < middle <= high else high)


def _dense(block: Any) -> NDArray[np.float64]:
    return (block.toarray() if sparse.issparse(block) else block).astype(float, copy=False)
