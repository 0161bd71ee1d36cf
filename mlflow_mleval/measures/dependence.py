"""Losses between Hamming and subset 0/1: OWA, binomial and polynomial losses and their profiles.

The loss of an instance weighs its errors e = abs(s - y) by size, the largest first (Hüllermeier et al. 2022, eq. 16).
Its mean over instances is linear in the means of the order statistics of e, so one sort of the errors gives the loss for
every parameter; the errors of hard predictions are 0 or 1, so the number of wrong labels of each instance suffices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mlflow_mleval.validation import one_of

FAMILIES = ("binomial", "polynomial")

#: Default exponents of the polynomial profile: ten a decade from 1 to 1000. A coarse grid: the loss moves by a few per cent
#: from one exponent to the next; pass your own exponents where a curve must be finer.
ALPHAS: NDArray[np.float64] = np.geomspace(1, 1000, 31)
ALPHAS.flags.writeable = False

_BLOCK = 1 << 17  # cells handled at a time: a megabyte of errors, which stays in the cache


# ---- weights ---------------------------------------------------------------------------------------------------------


def binomial_weights(n_labels: int, ks: ArrayLike | None = None) -> NDArray[np.float64]:
    """OWA weights of the binomial loss, the weight of the largest error first (Hüllermeier et al. 2022, eq. 18).

    The loss for k is the mean over all sets of k labels of the largest error in the set, so the i-th largest error of
    K counts in C(K-i, k-1) of the C(K, k) sets. k=1 is the Hamming loss, k=K the subset 0/1 loss.

    Parameters
    ----------
    n_labels : int
        K.
    ks : array of int, shape (P,), optional
        Sizes of the label sets, in 1..K; all of them by default.

    Returns
    -------
    array, shape (P, K)
        Rows are non-increasing and sum to 1.

    Raises
    ------
    ValueError
        ``ks`` holds anything but integers in 1..K.

    Notes
    -----
    Cumulative products of the ratios of neighbouring weights: relative error 5e-15 at K=1000, no overflow.

    >>> binomial_weights(4, [1, 2, 4]).round(3)
    array([[0.25 , 0.25 , 0.25 , 0.25 ],
           [0.5  , 0.333, 0.167, 0.   ],
           [1.   , 0.   , 0.   , 0.   ]])
    """
    ks = _parameters("binomial", n_labels, ks)[:, None]
    left = np.arange(n_labels - 1, 0, -1)
    return np.cumprod(np.hstack([ks / n_labels, np.maximum(left - ks + 1, 0) / left]), axis=1)


def polynomial_weights(n_labels: int, alphas: ArrayLike | None = None) -> NDArray[np.float64]:
    """OWA weights of the polynomial loss, the weight of the largest error first (Hüllermeier et al. 2022, eq. 17).

    The i-th largest error of K weighs ((K-i+1)/K)^alpha - ((K-i)/K)^alpha. alpha=1 is the Hamming loss, the limit for
    large alpha the subset 0/1 loss.

    Parameters
    ----------
    n_labels : int
        K.
    alphas : array of float, shape (P,), optional
        Exponents, at least 1; `ALPHAS` by default.

    Returns
    -------
    array, shape (P, K)
        Rows are non-increasing and sum to 1.

    Raises
    ------
    ValueError
        ``alphas`` holds anything but finite numbers of at least 1.

    >>> polynomial_weights(4, [1, 2]).round(4)
    array([[0.25  , 0.25  , 0.25  , 0.25  ],
           [0.4375, 0.3125, 0.1875, 0.0625]])
    """
    alphas = _parameters("polynomial", n_labels, alphas)[:, None]
    right = np.arange(n_labels, 0, -1)  # labels among the i-th largest error and those below it
    # Near 1 the logarithm of right/K loses digits that the exponent would magnify; near 0 that of 1 - (i-1)/K does.
    log_share = np.where(2 * right > n_labels, np.log1p((right - n_labels) / n_labels), np.log(right / n_labels))
    with np.errstate(divide="ignore"):
        log_step = np.log1p(-1 / right)  # log((right-1)/right), -inf for the last
    return np.exp(alphas * log_share) * -np.expm1(alphas * log_step)


def _parameters(family: str, n_labels: int, parameters: ArrayLike | None) -> NDArray[Any]:
    """The checked parameters of a family, or its default ones."""
    if isinstance(n_labels, bool) or int(n_labels) != n_labels or n_labels < 1:
        raise ValueError(f"`n_labels` must be a positive integer, got {n_labels!r}.")
    if one_of(family, "family", FAMILIES) == "binomial":
        name, want = "ks", f"integers in 1..{n_labels}, the number of labels"
        values = np.arange(1, n_labels + 1) if parameters is None else np.atleast_1d(np.asarray(parameters, dtype=float))
        bad = ~((values >= 1) & (values <= n_labels) & (values == np.floor(values)))
        kind: type = np.int64
    else:
        name, want = "alphas", "finite numbers of at least 1"
        values = ALPHAS if parameters is None else np.atleast_1d(np.asarray(parameters, dtype=float))
        bad = ~((values >= 1) & np.isfinite(values))
        kind = np.float64
    if values.ndim != 1 or not len(values):
        raise ValueError(f"`{name}` must be one number or a sequence of them, got an array of shape {values.shape}.")
    if bad.any():
        raise ValueError(f"`{name}` must be {want}, got {values[bad][:5].tolist()} ({bad.sum()} of {len(values)}).")
    return values.astype(kind)


def _weights(family: str, n_labels: int, parameters: NDArray[Any]) -> NDArray[np.float64]:
    return (binomial_weights if family == "binomial" else polynomial_weights)(n_labels, parameters)


# ---- what a profile is made of -----------------------------------------------------------------------------------------


def order_statistic_sums(y_true: Any, y_score: Any) -> NDArray[np.float64]:
    """Sums over the instances of their largest error, their second largest, and so on.

    Sums of disjoint sets of instances add up; divided by the number of instances they are what
    `profile_from_means` takes.

    Parameters
    ----------
    y_true : array or scipy.sparse matrix of 0 and 1, shape (N, K)
    y_score : array or scipy.sparse matrix in [0, 1], shape (N, K)
        Scores or hard predictions. Two sparse matrices are never made dense.

    Returns
    -------
    array, shape (K,)
        Non-increasing; the errors are abs(y_score - y_true), sorted from the largest within each row.

    Raises
    ------
    ValueError
        Shapes differ, a truth other than 0 or 1, a score that is NaN or outside [0, 1].

    >>> order_statistic_sums([[0, 1, 1], [0, 0, 1]], [[0.25, 1.0, 0.5], [0.5, 0.0, 0.25]])
    array([1.25, 0.75, 0.  ])
    """
    y_true, y_score = _pair(y_true, y_score, "y_score")
    n_labels = y_true.shape[1]
    if sparse.issparse(y_true) and sparse.issparse(y_score):
        errors = abs(y_score.astype(float) - y_true.astype(float))
        rows = np.repeat(np.arange(errors.shape[0]), np.diff(errors.indptr))
        order = np.lexsort((-errors.data, rows))
        place = np.arange(errors.nnz) - errors.indptr[rows]
        return np.bincount(place, weights=errors.data[order], minlength=n_labels)
    sums = np.zeros(n_labels)
    for _, errors in error_blocks(y_true, y_score):
        errors.sort(axis=1)
        sums += errors.sum(axis=0)
    return sums[::-1]


def error_blocks(y_true: Any, y_score: Any) -> Iterator[tuple[NDArray[Any], NDArray[np.float64]]]:
    """Blocks of rows of a checked pair of matrices: the truth, and abs(y_score - y_true) in a buffer that is used again."""
    n_rows, n_labels = y_true.shape
    step = max(1, _BLOCK // n_labels)
    buffer = np.empty((min(step, n_rows), n_labels))
    for start in range(0, n_rows, step):
        truth, score = (
            m[start : start + step].toarray() if sparse.issparse(m) else m[start : start + step] for m in (y_true, y_score)
        )
        errors = buffer[: len(truth)]
        np.subtract(score, truth, out=errors)
        yield truth, np.abs(errors, out=errors)


def error_histogram(y_true: Any, y_pred: Any) -> NDArray[np.int64]:
    """Number of instances with 0, 1, …, K wrong labels.

    Parameters
    ----------
    y_true, y_pred : array or scipy.sparse matrix of 0 and 1, shape (N, K)

    Returns
    -------
    array of int, shape (K + 1,)
        Sums to N. Histograms of disjoint sets of instances add up; `profile_from_histogram` takes them.

    Raises
    ------
    ValueError
        Shapes differ, or an entry other than 0 or 1.

    >>> error_histogram([[0, 1, 1], [0, 0, 1]], [[0, 1, 0], [0, 0, 1]])
    array([1, 1, 0, 0])
    """
    y_true, y_pred = _pair(y_true, y_pred, "y_pred")
    n_rows, n_labels = y_true.shape
    counts = np.empty(n_rows, dtype=np.int64)
    if sparse.issparse(y_true) and sparse.issparse(y_pred):
        counts[:] = np.asarray(abs(y_pred.astype(np.int8) - y_true.astype(np.int8)).sum(axis=1, dtype=np.int64)).ravel()
    else:
        ones = np.ones(n_labels, dtype=np.float32)  # a matrix product counts fastest, and exactly up to 2**24 labels
        step = max(1, _BLOCK // n_labels)
        for start in range(0, n_rows, step):
            truth, pred = (
                m[start : start + step].toarray() if sparse.issparse(m) else m[start : start + step] for m in (y_true, y_pred)
            )
            counts[start : start + step] = (truth != pred).astype(np.float32) @ ones
    return np.bincount(counts, minlength=n_labels + 1)


def _pair(y_true: Any, predicted: Any, name: str) -> tuple[Any, Any]:
    """Both matrices as ndarray or csr, checked: two-dimensional, of one shape, the truth 0 or 1, scores in [0, 1]."""
    pair = []
    for matrix, label in ((y_true, "y_true"), (predicted, name)):
        matrix = sparse.csr_array(matrix) if sparse.issparse(matrix) else np.asarray(matrix)
        if matrix.ndim != 2 or not all(matrix.shape):
            raise ValueError(
                f"`{label}` must be a matrix of instances by labels with at least one of each, got shape {matrix.shape}."
            )
        pair.append(matrix)
    if pair[0].shape != pair[1].shape:
        raise ValueError(f"`{name}` must have the shape of `y_true`, {pair[0].shape}, got {pair[1].shape}.")
    return pair[0], pair[1]


# ---- profiles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Profile:
    """The loss of one method over a family of losses that ask for more and more labels to be right together.

    Attributes
    ----------
    family : {"binomial", "polynomial"}
    kind : {"soft", "hard"}
        Of scores, or of predicted label sets.
    parameters : array, shape (P,)
        k or alpha, increasing.
    losses : array, shape (P,)
        Mean loss over instances for each parameter, in [0, 1], non-decreasing; 0 is best.
    n_labels : int
        K.
    hamming, subset : float
        The two ends, exact whatever the parameters: the mean error, and the mean over instances of the largest error
        (for hard predictions the Hamming loss and the subset 0/1 loss).
    """

    family: Literal["binomial", "polynomial"]
    kind: Literal["soft", "hard"]
    parameters: NDArray[Any]
    losses: NDArray[np.float64]
    n_labels: int
    hamming: float
    subset: float


def profile_from_means(means: ArrayLike, family: str = "binomial", parameters: ArrayLike | None = None) -> Profile:
    """The profile of scores, from the mean over instances of each order statistic of the errors.

    Parameters
    ----------
    means : array, shape (K,)
        `order_statistic_sums` divided by the number of instances.
    family : {"binomial", "polynomial"}
    parameters : array, shape (P,), optional
        Increasing; by default k = 1..K, or `ALPHAS`.

    >>> profile_from_means([0.625, 0.375, 0.0]).losses.round(4)
    array([0.3333, 0.5417, 0.625 ])
    """
    return _profile(np.asarray(means, dtype=float), family, parameters, "soft")


def profile_from_histogram(histogram: ArrayLike, family: str = "binomial", parameters: ArrayLike | None = None) -> Profile:
    """The profile of hard predictions, from the number of instances with 0, 1, …, K wrong labels.

    Parameters
    ----------
    histogram : array, shape (K + 1,)
        `error_histogram`.
    family : {"binomial", "polynomial"}
    parameters : array, shape (P,), optional
        Increasing; by default k = 1..K, or `ALPHAS`.

    >>> profile_from_histogram([1, 1, 0, 0]).losses.round(4)
    array([0.1667, 0.3333, 0.5   ])
    """
    histogram = np.asarray(histogram)
    at_least = np.cumsum(histogram[::-1])[::-1]  # the i-th largest error is 1 where at least i labels are wrong
    return _profile(at_least[1:] / at_least[0], family, parameters, "hard")


def _profile(means: NDArray[np.float64], family: Any, parameters: ArrayLike | None, kind: Any) -> Profile:
    n_labels = len(means)
    parameters = _parameters(family, n_labels, parameters)
    step = max(1, _BLOCK * 8 // n_labels)
    losses = np.concatenate(
        [_weights(family, n_labels, parameters[i : i + step]) @ means for i in range(0, len(parameters), step)]
    )
    # The exact profile is non-decreasing and ends at the largest error; rounding must not say otherwise.
    losses = np.minimum(np.maximum.accumulate(losses), means[0])
    return Profile(family, kind, parameters, losses, n_labels, float(means.mean()), float(means[0]))
