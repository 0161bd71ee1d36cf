"""Checks of arguments, arrays and paths that several layers share; every message names the argument
and says what to do."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path, PurePosixPath
from typing import Any, ParamSpec, TypeAlias, TypeVar
from urllib.parse import unquote

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mlflow_mleval.sentences import did_you_mean, quoted, some, text_problem

Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value")
Parameters = ParamSpec("Parameters")

#: Kinds of arrays, whatever their shape.
Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
AnyArray = NDArray[Any]
Columns: TypeAlias = dict[str, AnyArray]  #: columns of instances, by name
Places = NDArray[np.intp]  #: positions, as sorting gives them
#: What was stated: one number for all names, or numbers by name; None is nothing.
Stated: TypeAlias = float | Mapping[str, float] | None


def by_name(stated: Stated, names: Iterable[str]) -> dict[str, float]:
    """What was stated by name; one number is for all of these names."""
    if isinstance(stated, int | float):
        return dict.fromkeys(names, float(stated))
    return dict(stated or {})


def present(value: Value | None) -> Value:
    """The value of something optional where the caller knows that it is there."""
    assert value is not None
    return value


def of_kind(value: Any, name: str, kinds: type | tuple[type, ...], what: str) -> Any:
    """The value, if it is of these kinds; else a TypeError that says what it must be."""
    if not isinstance(value, kinds):
        raise TypeError(f"`{name}` must be {what}, got {type(value).__name__}.")
    return value


def one_of(value: str, name: str, allowed: Iterable[str]) -> str:
    """The value, if it is one of the allowed; else a ValueError that lists them."""
    allowed = list(allowed)
    if value not in allowed:
        listed = ", ".join(map(repr, allowed))
        guess = did_you_mean([value], allowed)
        raise ValueError(f"`{name}` must be one of {listed}, got {value!r}.{guess}")
    return value


def refuse_keywords(
    function: Callable[..., Any], given: Iterable[str], further: Iterable[str] = ()
) -> None:
    """TypeError for keywords that are neither those of the function nor among its further ones."""
    own = [p.name for p in signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    names = list(dict.fromkeys([*own, *further]))
    if wrong := [name for name in given if name not in names]:
        listed = some(map(repr, wrong))
        guess = did_you_mean(wrong, names)
        text = f"{function.__name__}() has no argument {listed}.{guess}"
        raise TypeError(f"{text} It takes {', '.join(names)}.")


def known_keywords(function: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
    """The function; given an argument that it does not have, it names the nearest."""

    @wraps(function)
    def checked(*args: Parameters.args, **options: Parameters.kwargs) -> Value:
        refuse_keywords(function, options)
        return function(*args, **options)

    return checked


def probability(value: float, name: str) -> float:
    """The value as a float strictly between 0 and 1; else a ValueError."""
    number = float(value)
    if not 0 < number < 1:
        raise ValueError(f"`{name}` must lie strictly between 0 and 1, got {value!r}.")
    return number


def at_least_one(value: int, name: str) -> int:
    """The value, if it is not below 1; else a ValueError."""
    if value < 1:
        raise ValueError(f"`{name}` must be at least 1, got {value!r}.")
    return value


def from_tensor(value: Any) -> Any:
    """A tensor of PyTorch as an array, wherever it is and whatever is derived by it, in a precision
    that numpy knows; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.float() if value.dtype is torch.bfloat16 else value).numpy()


def matrix_shape(value: Any, name: str) -> Any:
    """The value as a non-empty numeric array N x K, or CSR if it is sparse; text, objects, masked
    and complex numbers are a TypeError, other shapes a ValueError."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"`{name}` must be an array without a mask, got a masked array. Fill or drop the "
            "masked cells."
        )
    parts = value if isinstance(value, list | tuple) else ()
    if parts and all(getattr(part, "ndim", 0) == 2 for part in parts):
        raise ValueError(
            f"`{name}` must be a matrix N x K, got a list of {len(parts)} arrays, the first "
            f"of shape {parts[0].shape}: what `predict_proba` gives for several outputs, the "
            "classes of one label in each. Pass the probabilities of class 1, "
            f"np.column_stack([p[:, 1] for p in {name}]); where a label has one class only, "
            "they are 0 or 1 throughout."
        )
    try:
        array: Any = value.tocsr() if sparse.issparse(value) else np.asarray(value)
    except ValueError:
        raise ValueError(
            f"`{name}` must be a matrix N x K, got rows of different lengths. {_SETS_HINT}"
        ) from None
    if array.ndim != 2:
        raise ValueError(
            f"`{name}` must be a matrix N x K, got shape {array.shape}. For one instance, pass a "
            "matrix of one row; one label of several classes has a vector of classes as `y_true`."
        )
    if array.dtype.kind == "O":
        array = _from_objects(array, name)
    if array.dtype.kind not in "buif":
        kind = "text" if array.dtype.kind in "US" else f"dtype {array.dtype}"
        raise TypeError(f"`{name}` must hold numbers, got {kind}. {_SETS_HINT}")
    if 0 in array.shape:
        raise ValueError(
            f"`{name}` must have at least one row and one column, got shape {array.shape}. There "
            "is nothing to evaluate."
        )
    if sparse.issparse(array) and not array.has_canonical_format:
        array = array.copy()  # entries given twice count as their sum
        array.sum_duplicates()
    return array


def binary_matrix(value: Any, name: str) -> Any:
    """A label matrix N x K as booleans, dense or CSR without stored zeros, as it came; else the
    errors of `matrix_shape`."""
    array = matrix_shape(value, name)
    is_sparse = sparse.issparse(array)
    values = array.data if is_sparse else array
    ones = values.astype(bool)
    wrong = np.flatnonzero(values != ones)
    if len(wrong):
        raise ValueError(
            f"`{name}` must hold only 0 and 1, got {cells(array, wrong)}. Scores belong in "
            "`y_score`, one class for each instance in a vector; measurements of a regression "
            "are not evaluated."
        )
    if not is_sparse:
        return ones
    labels = type(array)((ones, array.indices, array.indptr), shape=array.shape)
    if not ones.all():
        labels = labels.copy()
        labels.eliminate_zeros()
    return labels


def score_matrix(value: Any) -> Any:
    """`y_score` as a matrix N x K, dense or CSR as it came, where zeros that are not stored are
    scores of 0; else the errors of `matrix_shape`."""
    array = matrix_shape(value, "y_score")
    data = array.data if sparse.issparse(array) else array
    if data.size and not (np.isfinite(data.min()) and np.isfinite(data.max())):
        wrong = np.flatnonzero(~np.isfinite(data).ravel())
        raise ValueError(
            f"`y_score` must hold finite scores, got {cells(array, wrong)}. Replace them, or "
            "leave these instances out."
        )
    return array


def same_shape(value: AnyArray, name: str, truth: AnyArray) -> None:
    """Raise ValueError unless the matrix has the shape of `y_true`."""
    if value.shape != truth.shape:
        got = f"`{name}` must have the shape {truth.shape} of `y_true`, got {value.shape}."
        raise ValueError(f"{got} Rows are instances and columns are labels in both.")


def column_names(value: Any) -> pd.Index | None:
    """The columns of a data frame of any library; None of what has none."""
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return None
    # of pyarrow `columns` are the data
    names = getattr(value, "column_names", getattr(value, "columns", None))
    if isinstance(names, list):
        return pd.Index(names, tupleize_cols=False)
    return names if isinstance(names, pd.Index) else None


def in_pandas(value: Any, index: str = "") -> Any:
    """A table of polars, pyarrow or another library that speaks Arrow as a pandas.DataFrame, with
    its column `index`, if there is one, as the index that pandas alone has; all else as it is."""
    speaks = hasattr(value, "__arrow_c_stream__") and not isinstance(value, pd.DataFrame)
    if not speaks or column_names(value) is None:
        return value
    import pyarrow as pa

    frame = pa.table(value).to_pandas()
    return frame.set_index(index) if index in frame else frame


def same_axes(
    value: Any, name: str, other: Any, other_name: str, columns_alone: bool = False
) -> None:
    """Raise ValueError unless two data frames or Series agree in columns and index, or in columns
    alone; what has none passes. By position their cells would be mixed up."""
    axes = {"columns": (column_names(value), column_names(other))}
    indexed = all(isinstance(one, pd.DataFrame | pd.Series) for one in (value, other))
    if indexed and not columns_alone:
        axes["index"] = value.index, other.index
    for axis, (mine, theirs) in axes.items():
        if mine is None or theirs is None or mine.equals(theirs):
            continue
        axis = f"the {axis} of `{other_name}`"
        if len(mine) != len(theirs):
            got = f"got {len(mine)} instead of {len(theirs)} of them"
            raise ValueError(f"`{name}` must have {axis}, {got}.")
        if wrong := [i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b]:
            raise ValueError(
                f"`{name}` must have {axis} in the same order, got {mine[wrong[0]]!r} where "
                f"`{other_name}` has {theirs[wrong[0]]!r} ({len(wrong)} of {len(mine)} differ). "
                f"Reorder it, or pass `{name}.to_numpy()` if the order is right."
            )


def unique_names(names: Iterable[Name], name: str, count: int, what: str) -> tuple[Name, ...]:
    """The names as a tuple, if they are as many as there should be and differ."""
    if isinstance(names, range) and len(names) == count:  # nothing to walk through
        numbers: Any = tuple(names)
        return numbers
    unique = tuple(v.item() if isinstance(v, np.generic) else v for v in names)
    if len(unique) != count:
        raise ValueError(
            f"`{name}` must hold one name for each of the {count} {what}, got {len(unique)}."
        )
    if len(set(unique)) != count:
        twice = [repr(v) for v, times in Counter(unique).items() if times > 1]
        raise ValueError(f"`{name}` must differ, got {some(twice, 8)} more than once. Rename them.")
    return unique


def groups(values: Any, name: str, n_rows: int) -> dict[Hashable, slice | Ints]:
    """The rows of each group in the order of the groups, where ``values`` names the group of each
    row or of all."""
    if values is None or np.ndim(values) == 0:
        return {values.item() if isinstance(values, np.generic) else values: slice(None)}
    if np.ndim(values) != 1 or len(values) != n_rows:
        raise ValueError(
            f"`{name}` must hold one value for each of the {n_rows} rows, got shape "
            f"{np.shape(values)}."
        )
    codes, keys = pd.factorize(np.asarray(values), sort=True)
    if (codes < 0).any():
        raise ValueError(
            f"`{name}` must not be missing, got none for row {(codes < 0).argmax()} "
            f"({(codes < 0).sum()} such rows). Leave these rows out."
        )
    if len(keys) == 1:
        return {keys.tolist()[0]: slice(None)}
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    return dict(zip(keys.tolist(), rows, strict=True))


def instance_weights(value: Any, n_rows: int, index: pd.Index | None = None) -> Array:
    """One finite weight an instance, not negative, in the order of their index if they have one;
    else a TypeError or ValueError."""
    if isinstance(value, pd.Series) and index is not None and len(index) == n_rows:
        own, theirs = (pd.DataFrame(index=part) for part in (value.index, index))
        same_axes(own, "sample_weight", theirs, "y_true")
    given = np.asarray(value)
    try:
        if given.dtype.kind not in "biufO":
            raise TypeError
        weights = given.astype(float)
    except (TypeError, ValueError):
        got = f"got dtype {given.dtype}"
        raise TypeError(f"`sample_weight` must hold numbers, {got}. Convert it.") from None
    if weights.shape != (n_rows,):
        shape = f"one weight for each of the {n_rows} instances"
        raise ValueError(f"`sample_weight` must hold {shape}, got shape {weights.shape}.")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        got = f"{weights[wrong[0]]} in row {wrong[0]} ({len(wrong)} such rows)"
        raise ValueError(
            f"`sample_weight` must be finite and not negative, got {got}. Correct them."
        )
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not np.isfinite(total):
        raise ValueError(f"`sample_weight` must have a finite sum, got {total}. Scale the weights.")
    return weights


def label_threshold(value: ArrayLike, n_labels: int) -> float | Array:
    """The `threshold`: one number, or an array of one for each label; else a ValueError."""
    try:
        cut = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        cut = np.array(np.nan)
    if cut.shape not in ((), (n_labels,)) or np.isnan(cut).any():
        raise ValueError(
            f"`threshold` must be one number or one for each of the {n_labels} labels, got "
            f"{value!r}."
        )
    return cut.item() if cut.ndim == 0 else cut


_SETS_HINT = (
    "For sets of label names, make a matrix first: sklearn.preprocessing.MultiLabelBinarizer."
)


def _from_objects(array: AnyArray, name: str) -> Array:
    """Numbers and booleans kept as Python objects (a DataFrame of mixed columns) as floats."""
    for at, value in enumerate(array.flat):
        if not isinstance(value, (bool, int, float, np.bool_, np.number)):
            row, column = np.unravel_index(at, array.shape)
            raise TypeError(
                f"`{name}` must hold numbers, got {value!r} in row {row}, column {column}. "
                f"{_SETS_HINT}"
            )
    return array.astype(float)


def cells(matrix: Any, wrong: Ints) -> str:
    """The first of these entries of a matrix, dense or CSR, where it is, and how many there are."""
    at = int(wrong[0])
    if sparse.issparse(matrix):
        value = matrix.data[at]
        row = np.searchsorted(matrix.indptr, at, side="right") - 1
        column = matrix.indices[at]
    else:
        value = matrix.ravel()[at]
        row, column = np.unravel_index(at, matrix.shape)
    return (
        f"{value} in row {row}, column {column} ({len(wrong)} such cell{'s' * (len(wrong) != 1)})"
    )


# --------------------------------------------------------------------------------------------------
# Which paths from outside may be joined to a folder.

#: What reads as a drive on Windows, at the start of any part; and the bytes of one part that file
#: systems take.
_DRIVE = re.compile(r"(^|/)[A-Za-z]:")
_LONGEST_PART = 255


def inside(folder: str | Path, path: str) -> Path:
    """A path from outside, joined to the folder: every place that joins one does it here. One that
    is not below the folder, or leads out of it by a link, is a ValueError."""
    check_paths([path])
    joined = Path(folder, path)
    if not Path(os.path.realpath(joined)).is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"the path {quoted(path)} leads out of {folder} by a link")
    return joined


def check_paths(paths: Collection[str]) -> None:
    """Raise a ValueError that names every path which cannot be a file below a folder, or lies below
    a file among them."""
    problems = ((path, path_problem(path)) for path in paths)
    if wrong := [f"the path {quoted(path)} {problem}" for path, problem in problems if problem]:
        raise ValueError(f"{some(wrong)}, and must lie below a folder")
    parents = {str(above): path for path in paths for above in PurePosixPath(path).parents}
    both = (path for path in paths if path in parents)
    if clash := [f"{quoted(path)} and {quoted(parents[path])}" for path in both]:
        raise ValueError(f"of {some(clash)} the first is a file and a folder")


def path_problem(path: str) -> str | None:
    """Why a path cannot be a file below a folder, on any system, as it stands or percent-decoded;
    None where it can."""
    decoded = path
    while (once := unquote(decoded)) != decoded:
        decoded = once
    for text in (path, decoded):
        if problem := text_problem(text):
            return problem
        parts = text.split("/")
        longest = max(len(part.encode()) for part in parts)
        problems = {
            "holds a control character": any(unicodedata.category(sign) == "Cc" for sign in text),
            "is absolute": text.startswith("/"),
            "holds a backslash": "\\" in text,
            "names a drive": _DRIVE.search(text) is not None,
            "holds an empty part, . or ..": not {"", ".", ".."}.isdisjoint(parts),
            f"has a part of more than {_LONGEST_PART} bytes": longest > _LONGEST_PART,
        }
        if found := [problem for problem, holds in problems.items() if holds]:
            return found[0]
    return None
