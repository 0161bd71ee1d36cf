"""Measures of the order in which scores put the labels: one-error, coverage, ranking loss and average precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlflow_mleval.measures.flat import Conventions


def ranking_measures(
    true: NDArray[np.bool_], scores: NDArray[np.float64], conventions: Conventions = "sklearn"
) -> dict[str, NDArray[np.float64]]:
    """The four ranking measures of each instance (Madjarov et al. 2012, A.13 to A.16), each of shape (n,).

    Scores are finite; only their order within a row counts. One sort of each row, with the truth carried in the lowest bit of the
    sorted numbers. By the conventions, sklearn or mulan, equal scores share the worst rank of the group, or stand in the order of
    falling label index; an instance without a relevant label has average precision 1, or NaN (left out of the mean), its coverage
    and ranking loss being 0 and its one-error 1 under both; ties for the top label go to the lowest index, or the highest.

    >>> found = ranking_measures(np.array([[True, False, True]]), np.array([[0.9, 0.5, 0.2]]))
    >>> {name: v.round(3).item() for name, v in found.items()}
    {'one_error': 0.0, 'coverage': 2.0, 'ranking_loss': 0.5, 'average_precision': 0.833}
    """
    n, k = true.shape
    stable = conventions == "mulan"
    keys = _keys(true, scores)
    keys.sort(axis=1)
    ordered = (keys & 1).astype(bool)  # the truth, best score first
    if stable and (tied := ((keys[:, 1:] >> 1) == (keys[:, :-1] >> 1)).any(axis=1)).any():
        order = np.argsort(-scores[tied, ::-1], axis=1, kind="stable")
        ordered[tied] = np.take_along_axis(true[tied, ::-1], order, axis=1)
    at = np.flatnonzero(ordered)
    row, place = np.divmod(at, k)
    count = np.bincount(row, minlength=n)
    end = np.cumsum(count)
    share = (np.arange(1, len(at) + 1) - (end - count)[row]) / (place + 1)
    if not stable:
        # Equal relevant scores stand together behind equal irrelevant ones, so the last has the rank of them all.
        same = (np.diff(keys.ravel()[at]) == 0) & (np.diff(at) == 1) & (place[1:] != 0)
        if same.any():
            last = np.flatnonzero(np.append(~same, True))
            share = np.repeat(share[last], np.diff(last, prepend=-1))
    some = count > 0
    coverage = np.zeros(n)
    coverage[some] = place[end[some] - 1]
    misplaced = np.bincount(row, weights=place, minlength=n) - count * (count - 1) / 2
    precision = np.bincount(row, weights=share, minlength=n) / np.maximum(count, 1)
    top = k - 1 - scores[:, ::-1].argmax(axis=1) if stable else scores.argmax(axis=1)
    return {
        "one_error": 1.0 - true[np.arange(n), top],
        "coverage": coverage,
        "ranking_loss": misplaced / np.maximum(count * (k - count), 1),
        "average_precision": np.where(some, precision, np.nan if stable else 1.0),
    }


def ordered_floats(scores: NDArray[Any]) -> NDArray[np.float64]:
    """The scores as float64 in the same order, ties as ties: those that it would round are numbered instead."""
    exact = scores.dtype.kind == "b" or scores.dtype.itemsize < 8 or scores.dtype == float
    if not exact and scores.dtype.kind in "ui":
        exact = int(scores.max()) <= 2**53 and int(scores.min()) >= -(2**53)
    return (scores if exact else np.unique(scores, return_inverse=True)[1].reshape(scores.shape)).astype(float, "C", copy=False)


def _keys(true: NDArray[np.bool_], scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Integers that ascend as the scores fall, equal scores with the irrelevant label first; the lowest bit is the truth.

    The bits of a float below 2 leave one to spare, so nothing of the score is lost and ties are ties.
    """
    low, high = scores.min(), scores.max()
    largest = max(high, -low)
    if largest >= 2:
        scale = np.ldexp(1.0, int(np.frexp(largest)[1]) - 1)
        scaled = scores / scale
        if not np.array_equal(scaled * scale, scores):  # 1e300 beside 1e-300: number the values instead
            return (~np.unique(scores, return_inverse=True)[1].reshape(scores.shape) << 1) | true
        scores = scaled
    bits = (scores + 0.0).view(np.int64)  # -0.0 becomes 0.0
    if low < 0:
        bits ^= (bits >> 63) & np.iinfo(np.int64).max  # sign and magnitude to an ascending integer
    np.invert(bits, out=bits)
    bits <<= 1
    bits |= true
    return bits
