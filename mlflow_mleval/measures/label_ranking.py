"""Measures of the order in which scores put the labels: one-error, coverage, ranking loss and
average precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.measures.flat import Conventions
from mlflow_mleval.measures.stored_scores import StoredScores


def ranking_measures(
    true: NDArray[np.bool_], scores: NDArray[np.float64], conventions: Conventions = "sklearn"
) -> dict[str, NDArray[np.float64]]:
    """The four ranking measures of each instance (Madjarov et al. 2012, A.13 to A.16), each of
    shape (n,).

    Scores are finite; only their order within a row counts. One sort of each row, with the truth
    carried in the lowest bit of the sorted numbers. By the conventions, sklearn or mulan, equal
    scores share the worst rank of the group, or stand in the order of falling label index; an
    instance without a relevant label has average precision 1, or NaN (left out of the mean), its
    coverage and ranking loss being 0 and its one-error 1 under both; ties for the top label go to
    the lowest index, or the highest.

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
    top = k - 1 - scores[:, ::-1].argmax(axis=1) if stable else scores.argmax(axis=1)
    return {"one_error": 1.0 - true[np.arange(n), top]} | _of_places(
        row, place, keys.ravel()[at], n, k, conventions
    )


def sparse_ranking_measures(
    scores: StoredScores, conventions: Conventions = "sklearn"
) -> dict[str, NDArray[np.float64]]:
    """The same of sparse scores, which must be float64; the zeros that they do not store are never
    made.
    """
    n, k = scores.true.shape
    stable = conventions == "mulan"
    right = np.zeros(n, bool)
    found = []
    for rows, table, at, stored in scores.tables():
        true = scores.relevant[at] & stored
        keys = _keys(true, np.where(stored, table, 0))
        keys[~stored] = np.iinfo(np.int64).max
        keys.sort(axis=1)
        ordered = (keys & 1).astype(bool) & stored
        if stable and (tied := ((keys[:, 1:] >> 1) == (keys[:, :-1] >> 1)).any(axis=1)).any():
            order = np.argsort(-table[tied, ::-1], axis=1, kind="stable")
            ordered[tied] = np.take_along_axis(true[tied, ::-1], order, axis=1)
        width = table.shape[1]
        top = width - 1 - table[:, ::-1].argmax(axis=1) if stable else table.argmax(axis=1)
        right[rows] = true[np.arange(len(rows)), top]
        at = np.flatnonzero(ordered)
        row, place = np.divmod(at, width)
        row = rows[row]
        found.append(
            (
                row,
                place + np.where(place >= scores.positive[row], scores.zeros[row], 0),
                keys.ravel()[at],
            )
        )
    if (low := np.flatnonzero((scores.positive == 0) & (scores.zeros > 0))).size:
        right[low] = scores.is_true(low, scores.first_zero(low, last=stable))
    row, label = scores.missed
    if stable:
        place = scores.positive[row] + k - 1 - label - scores.stored_above(row, label)
    else:
        number = np.arange(len(row)) - (np.cumsum(scores.missed_counts) - scores.missed_counts)[row]
        place = scores.positive[row] + (scores.zeros - scores.missed_counts)[row] + number
    found.append(
        (row, place, np.full(len(row), np.iinfo(np.int64).min))
    )  # no score of a relevant label has this key
    row, place, keys = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(row * k + place)
    return {"one_error": 1.0 - right} | _of_places(
        row[order], place[order], keys[order], n, k, conventions
    )


def _of_places(
    row: NDArray[np.int64],
    place: NDArray[np.int64],
    key: NDArray[np.int64],
    n: int,
    k: int,
    conventions: Conventions,
) -> dict[str, NDArray[np.float64]]:
    """Coverage, ranking loss and average precision from the places of the relevant labels, counted
    from 0, row by row.

    Equal keys are equal scores; those of the irrelevant labels come first.
    """
    stable = conventions == "mulan"
    count = np.bincount(row, minlength=n)
    end = np.cumsum(count)
    share = (np.arange(1, len(row) + 1) - (end - count)[row]) / (place + 1)
    if not stable:
        # Equal relevant scores stand together behind equal irrelevant ones, so the last has the
        # rank of them all.
        same = (np.diff(key) == 0) & (np.diff(row) == 0)
        if same.any():
            last = np.flatnonzero(np.append(~same, True))
            share = np.repeat(share[last], np.diff(last, prepend=-1))
    some = count > 0
    coverage = np.zeros(n)
    coverage[some] = place[end[some] - 1]
    misplaced = np.bincount(row, weights=place, minlength=n) - count * (count - 1) / 2
    precision = np.bincount(row, weights=share, minlength=n) / np.maximum(count, 1)
    return {
        "coverage": coverage,
        "ranking_loss": misplaced / np.maximum(count * (k - count), 1),
        "average_precision": np.where(some, precision, np.nan if stable else 1.0),
    }


def ordered_floats(scores: Any) -> Any:
    """The scores as float64 in the same order, ties as ties: those that it would round are numbered
    instead.

    Zeros stay 0.
    """
    if sparse.issparse(scores):
        return sparse.csr_array(
            (ordered_floats(scores.data), scores.indices, scores.indptr), shape=scores.shape
        )
    exact = (
        scores.dtype.kind == "b"
        or scores.dtype.itemsize < 8
        or scores.dtype == float
        or not scores.size
    )
    if not exact and scores.dtype.kind in "ui":
        exact = int(scores.max()) <= 2**53 and int(scores.min()) >= -(2**53)
    if exact:
        return scores.astype(float, "C", copy=False)
    numbers = np.unique(np.append(scores, np.zeros(1, scores.dtype)), return_inverse=True)[1]
    return (numbers[:-1] - numbers[-1]).reshape(scores.shape).astype(float)


def _keys(true: NDArray[np.bool_], scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Integers that ascend as the scores fall, equal scores with the irrelevant label first; the
    lowest bit is the truth.

    The bits of a float below 2 leave one to spare, so nothing of the score is lost and ties are
    ties.
    """
    low, high = scores.min(), scores.max()
    largest = max(high, -low)
    if largest >= 2:
        scale = np.ldexp(1.0, int(np.frexp(largest)[1]) - 1)
        scaled = scores / scale
        if not np.array_equal(
            scaled * scale, scores
        ):  # 1e300 beside 1e-300: number the values instead
            return (~np.unique(scores, return_inverse=True)[1].reshape(scores.shape) << 1) | true
        scores = scaled
    bits = (scores + 0.0).view(np.int64)  # -0.0 becomes 0.0
    if low < 0:
        bits ^= (bits >> 63) & np.iinfo(np.int64).max  # sign and magnitude to an ascending integer
    np.invert(bits, out=bits)
    bits <<= 1
    bits |= true
    return bits
