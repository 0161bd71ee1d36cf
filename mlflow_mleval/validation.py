"""Checks of arguments and arrays that several layers share; every message names the argument and says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from scipy import sparse


def one_of(value: str, name: str, allowed: Iterable[str]) -> str:
    """The value, if it is one of the allowed; else a ValueError that lists them.

    >>> one_of("holm", "correction", ["holm", "none"])
    'holm'
    """
    allowed = list(allowed)
    if value not in allowed:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
    return value


def probability(value: float, name: str) -> float:
    """The value as a float strictly between 0 and 1; else a ValueError.

    >>> probability(0.05, "alpha")
    0.05
    """
    number = float(value)
    if not 0 < number < 1:
        raise ValueError(f"`{name}` must lie strictly between 0 and 1, got {value!r}.")
    return number


def matrix_shape(value: object, name: str) -> np.ndarray | sparse.csr_matrix | sparse.csr_array:
    """The value as a non-empty two-dimensional numeric array N x K, or as CSR where it is scipy.sparse.

    Raises
    ------
    TypeError
        Text, objects, masked or complex numbers.
    ValueError
        Not two-dimensional, no row or no column.
    """
    if sparse.issparse(value):
        array = value.tocsr()
    elif isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"`{name}` must be an array without a mask, got a masked array. Fill or drop the masked cells.")
    else:
        try:
            array = np.asarray(value)
        except ValueError:
            raise ValueError(f"`{name}` must be a matrix N x K, got rows of different lengths. {_SETS_HINT}") from None
    if array.dtype.kind == "O":
        array = _from_objects(array, name)
    if array.dtype.kind not in "buif":
        raise TypeError(f"`{name}` must hold numbers, got {_dtype(array)}. {_SETS_HINT}")
    if array.ndim != 2:
        hint = "For one class number an instance, pass np.eye(n_classes)[y]; for one instance, a matrix of one row."
        raise ValueError(f"`{name}` must be a matrix N x K, got shape {array.shape}. {hint}")
    if 0 in array.shape:
        what = "row" if array.shape[0] == 0 else "column"
        raise ValueError(f"`{name}` must have at least one {what}, got shape {array.shape}. There is nothing to evaluate.")
    return array


def binary_matrix(value: object, name: str) -> np.ndarray | sparse.csr_matrix | sparse.csr_array:
    """A label matrix N x K as booleans, dense or CSR without stored zeros, as it came.

    Raises
    ------
    ValueError, TypeError
        As `matrix_shape`; and a cell other than 0 and 1, with its row and column.

    >>> binary_matrix([[0, 1], [1.0, 0]], "y_true")
    array([[False,  True],
           [ True, False]])
    >>> binary_matrix([[0, 1], [2, 0]], "y_true")
    Traceback (most recent call last):
    ValueError: `y_true` must hold only 0 and 1, got 2 in row 1, column 0 (1 such cell). ...
    """
    array = matrix_shape(value, name)
    if sparse.issparse(array):
        if not array.has_canonical_format:
            array = array.copy()
            array.sum_duplicates()
        ones = _binary(array.data, lambda at: _sparse_cell(array, at), name)
        found = type(array)((ones, array.indices, array.indptr), shape=array.shape)
        if not ones.all():
            found = found.copy()
            found.eliminate_zeros()
        return found
    return _binary(array, lambda at: np.unravel_index(at, array.shape), name)


def score_matrix(value: object, name: str) -> np.ndarray | sparse.csr_matrix | sparse.csr_array:
    """A matrix N x K of finite scores, dense or CSR as it came; zeros that a sparse matrix does not store are scores of 0.

    Raises
    ------
    ValueError, TypeError
        As `matrix_shape`; and a score that is NaN or infinite, with its row and column.
    """
    array = matrix_shape(value, name)
    data = array.data if sparse.issparse(array) else array
    if data.size and not (np.isfinite(data.min()) and np.isfinite(data.max())):
        wrong = np.flatnonzero(~np.isfinite(data).ravel())
        row, column = _sparse_cell(array, wrong[0]) if sparse.issparse(array) else np.unravel_index(wrong[0], array.shape)
        raise ValueError(
            f"`{name}` must hold finite scores, got {data.ravel()[wrong[0]]} in row {row}, column {column} "
            f"({_cells(len(wrong))}). Replace them, or leave these instances out."
        )
    return array


def same_shape(value: np.ndarray, name: str, other: np.ndarray, other_name: str) -> None:
    """Raise ValueError unless both matrices have the same shape."""
    if value.shape != other.shape:
        raise ValueError(
            f"`{name}` must have the shape {other.shape} of `{other_name}`, got {value.shape}. "
            "Rows are instances and columns are labels in both."
        )


_SETS_HINT = "For sets of label names, make a matrix first: sklearn.preprocessing.MultiLabelBinarizer."


def _from_objects(array: np.ndarray, name: str) -> np.ndarray:
    """Numbers and booleans kept as Python objects (a DataFrame of mixed columns) as floats."""
    if array.ndim == 2 and all(isinstance(v, (bool, int, float, np.bool_, np.number)) for v in array.flat):
        return array.astype(float)
    if array.ndim == 2:
        at = next(i for i, v in enumerate(array.flat) if not isinstance(v, (bool, int, float, np.bool_, np.number)))
        row, column = np.unravel_index(at, array.shape)
        raise TypeError(f"`{name}` must hold numbers, got {array.flat[at]!r} in row {row}, column {column}. {_SETS_HINT}")
    raise TypeError(f"`{name}` must be a matrix N x K of numbers, got objects in shape {array.shape}. {_SETS_HINT}")


def _binary(values: np.ndarray, cell: Callable[[int], tuple[int, int]], name: str) -> np.ndarray:
    if values.dtype == bool:
        return values
    ones = values != 0
    exact = values.dtype.kind in "ui" and (not values.size or (values.min() >= 0 and values.max() <= 1))
    if not exact and (wrong := np.flatnonzero((values != ones).ravel())).size:
        row, column = cell(wrong[0])
        raise ValueError(
            f"`{name}` must hold only 0 and 1, got {values.ravel()[wrong[0]]} in row {row}, column {column} "
            f"({_cells(len(wrong))}). Scores belong in `y_score`; class numbers need one column a class."
        )
    return ones


def _sparse_cell(matrix: sparse.csr_matrix, at: int) -> tuple[int, int]:
    return int(np.searchsorted(matrix.indptr, at, side="right")) - 1, int(matrix.indices[at])


def _dtype(array: np.ndarray) -> str:
    return "text" if array.dtype.kind in "US" else f"dtype {array.dtype}"


def _cells(count: int) -> str:
    return f"{count} such cell{'s' * (count != 1)}"
