"""Truth and scores walked through together, in blocks of rows that fit the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.validation import binary_matrix, cells, matrix_shape, same_shape

_BLOCK = 1 << 16  # cells: half a megabyte of errors


def truth_and_scores(y_true: Any, y_score: Any) -> tuple[Any, Any]:
    """Truth as booleans and scores as numbers, each an ndarray or csr, of one shape N x K; else a
    ValueError or TypeError.

    Scores are checked to lie in [0, 1] here if they are sparse, else block by block, while they are
    in the cache.
    """
    y_true = binary_matrix(y_true, "y_true")
    y_score = matrix_shape(y_score, "y_score")
    same_shape(y_score, "y_score", y_true, "y_true")
    if sparse.issparse(y_score):
        if not y_score.has_canonical_format:
            y_score = (
                y_score.copy()
            )  # entries given twice count as their sum; the caller's stay as they are
            y_score.sum_duplicates()
        _check_scores(y_score.data, y_score)
    return y_true, y_score


def blocks(*matrices: Any) -> Iterator[tuple[Any, ...]]:
    """Slices of rows that fit the cache, with these rows of each matrix, dense."""
    n_rows, n_labels = matrices[0].shape
    step = max(1, _BLOCK // n_labels)
    for start in range(0, n_rows, step):
        rows = slice(start, min(start + step, n_rows))
        yield rows, *(m[rows].toarray() if sparse.issparse(m) else m[rows] for m in matrices)


def error_blocks(
    y_true: Any, y_score: Any
) -> Iterator[tuple[slice, NDArray[np.bool_], NDArray[np.float64]]]:
    """Blocks of rows of `truth_and_scores`: the slice, the truth, and abs(y_score - y_true) in a
    buffer that is used again.
    """
    buffer = None
    for rows, truth, score in blocks(y_true, y_score):
        _check_scores(score, y_score)
        buffer = np.empty(truth.shape) if buffer is None else buffer
        errors = buffer[: len(truth)]
        np.subtract(
            score, truth, out=errors, dtype=float
        )  # the dtype keeps unsigned integers from wrapping round
        yield rows, truth, np.abs(errors, out=errors)


def _check_scores(some: NDArray[Any], y_score: Any) -> None:
    """Raise a ValueError about all of ``y_score`` if any of these is outside [0, 1] or NaN."""
    if some.dtype == bool or not some.size or (some.min() >= 0 and some.max() <= 1):
        return
    values = y_score.data if sparse.issparse(y_score) else y_score.ravel()
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
    raise ValueError(
        f"`y_score` must lie in [0, 1], got {cells(y_score, bad)}. Rescale the scores, or leave "
        "these instances out."
    )
