"""One label of several classes as arrays: checked, and turned into the numbers of classes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mlflow_mleval.naming import some
from mlflow_mleval.validation import label_threshold, same_axes, score_matrix, unique_names

#: The class of a positive instance is the second of the two.
_BINARY = 2


@dataclass(frozen=True, eq=False)
class ClassVectors:
    """True and predicted classes of N instances as numbers, and their scores.

    Attributes
    ----------
    names : tuple of C names
    true, pred : array of int, shape (N,)
        Positions among the names.
    score : array of float, shape (N, C), or (N,) of the second of two classes, or None
    is_probability : bool
        Whether the scores are probabilities.
    epsilon : float
        The least probability that the scores can tell from 0, as scikit-learn has it.
    threshold : float or None
        Scores above which the second of two classes was predicted; None where that was otherwise.
    """

    names: tuple[Hashable, ...]
    true: NDArray[np.int64]
    pred: NDArray[np.int64]
    score: NDArray[np.float64] | None
    is_probability: bool
    epsilon: float
    threshold: float | None


def is_vector(value: Any) -> bool:
    """Whether a truth is one class an instance, and no matrix and no sets of labels.

    >>> is_vector([1, 0]), is_vector(["a"]), is_vector([[1, 0]]), is_vector([{"a"}, {"b"}])
    (True, True, False, False)
    """
    if sparse.issparse(value) or isinstance(value, pd.DataFrame):
        return False
    if (
        hasattr(value, "dtype")
        and hasattr(value, "shape")
        and getattr(value.dtype, "kind", "") in "biufcUSM"
    ):
        return len(value.shape) == 1
    if hasattr(value, "shape") and len(value.shape) != 1:
        return False
    try:
        first = next(iter(value), None)
    except TypeError:
        return False
    return isinstance(first, (str, bytes)) or (
        np.ndim(first) == 0 and not isinstance(first, (set, frozenset, dict))
    )


def classes_of(values: Any, name: str) -> NDArray[Any]:
    """One class an instance as integers, booleans or text, shape (N,).

    Raises
    ------
    ValueError
        Another shape, no instance, a missing class, or numbers that are not whole.
    TypeError
        Classes of different types, or of a type that cannot be one.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"`{name}` must be an array without a mask, got a masked array. Fill or drop the "
            "masked cells."
        )
    array = (
        np.asarray(values, dtype=object)
        if isinstance(values, (list, tuple))
        else np.asarray(values)
    )
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"`{name}` must hold one class for each instance, as `y_true` does, got shape "
            f"{array.shape}."
        )
    if not len(array):
        raise ValueError(
            f"`{name}` must hold at least one instance, got none. There is nothing to evaluate."
        )
    missing = pd.isna(array)
    if missing.any():
        raise ValueError(
            f"`{name}` must hold a class for each instance, got none {_where(missing)}. Leave "
            "these instances out."
        )
    if array.dtype.kind not in "biufU":
        array = _of_objects(array, name)
    if array.dtype.kind == "f":
        if (broken := array != np.floor(array)).any():
            raise ValueError(
                f"`{name}` must hold classes, got {array[broken][0]:.6g} {_where(broken)}: these "
                "are measurements, and mleval evaluates no regression. Cut them into classes, or "
                "use MLflow's own evaluator for regressors."
            )
        array = array.astype(np.int64)
    return array


def _of_objects(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Python objects, or what NumPy keeps as such, as an array of one type."""
    kinds: dict[str, int] = {}
    for i, value in enumerate(array):
        kind = (
            "text"
            if isinstance(value, str)
            else "booleans"
            if isinstance(value, (bool, np.bool_))
            else "numbers"
        )
        if kind == "numbers" and (not isinstance(value, Number) or isinstance(value, complex)):
            raise TypeError(
                f"`{name}` must hold classes as whole numbers, text or booleans, got "
                f"{type(value).__name__} in row {i}. Convert them."
            )
        kinds.setdefault(kind, i)
    if len(kinds) > 1:
        told = " and ".join(f"{kind} ({array[i]!r} in row {i})" for kind, i in kinds.items())
        raise TypeError(
            f"`{name}` must hold classes of one type, got {told}. Convert them all, for example "
            "to text."
        )
    return np.array(array.tolist())


def class_vectors(
    y_true: Any,
    y_score: Any,
    y_pred: Any,
    label_names: Sequence[Hashable] | None,
    threshold: ArrayLike = 0.5,
    probabilities: bool | None = None,
) -> ClassVectors:
    """Truth, scores and predictions, checked against each other.

    Raises
    ------
    ValueError, TypeError
        Different numbers of instances, classes that are not among the names, scores that are NaN or
        infinite or have another number of columns, probabilities that do not sum to 1; the text
        names the offenders.
    """
    true = classes_of(y_true, "y_true")
    pred = None if y_pred is None else classes_of(y_pred, "y_pred")
    score, epsilon = (None, 0.0) if y_score is None else _scores(y_score)
    for array, name in ((score, "y_score"), (pred, "y_pred")):
        if array is not None and len(array) != len(true):
            raise ValueError(
                f"`{name}` must hold the {len(true)} instances of `y_true`, got {len(array)}."
            )
    probable = score is not None and _is_probability(score, epsilon, probabilities)
    for value, name in ((y_score, "y_score"), (y_pred, "y_pred")):
        _same_index(value, name, y_true)
    n_classes = None if score is None else _BINARY if score.ndim == 1 else score.shape[1]
    names = _names(true, pred, y_score, n_classes, label_names)
    at = {name: i for i, name in enumerate(names)}
    numbers = _numbers(true, "y_true", at)
    if pred is not None:
        return ClassVectors(
            names, numbers, _numbers(pred, "y_pred", at), score, probable, epsilon, None
        )
    if score is None:
        raise ValueError(
            "`y_score` or `y_pred` must be given, got neither. Pass scores, predicted classes, "
            "or both."
        )
    if score.ndim == 2:
        return ClassVectors(names, numbers, score.argmax(axis=1), score, probable, epsilon, None)
    cut = label_threshold(threshold, "threshold", 1)
    if cut == 0.5 and not probable:
        cut = 0.0  # values of a decision function, whose border is 0
    return ClassVectors(
        names, numbers, (score > cut).astype(np.int64), score, probable, epsilon, cut
    )


def _scores(y_score: Any) -> tuple[NDArray[np.float64], float]:
    """Finite scores, N x C or N, and the epsilon of their type."""
    flat = is_vector(y_score)
    given = score_matrix(np.asarray(y_score)[:, None] if flat else y_score, "y_score")
    given = given.toarray() if sparse.issparse(given) else given
    kind = given.dtype if given.dtype.kind == "f" else np.dtype(float)
    score, epsilon = given.astype(float), float(np.finfo(kind).eps)
    return score[:, 0] if score.shape[1] == 1 else score, epsilon


def _is_probability(score: NDArray[np.float64], epsilon: float, said: bool | None) -> bool:
    """Whether the scores are probabilities; those of an instance sum to 1 then, but for rounding as
    scikit-learn allows it.
    """
    inside = bool(score.min() >= 0 and score.max() <= 1)
    if said and not inside:
        raise ValueError(
            f"`y_score` must lie in [0, 1] with `probabilities=True`, got {score.min():.6g} to "
            f"{score.max():.6g}. Leave that out."
        )
    if said is False or not inside:
        return False
    total = score.sum(axis=1) if score.ndim == 2 else np.ones(1)
    wrong = np.abs(total - 1) > np.sqrt(epsilon)
    if wrong.any():
        raise ValueError(
            "`y_score` must sum to 1 in each row where it holds probabilities, got "
            f"{total[wrong][0]:.6g} {_where(wrong)}. Divide each row by its sum, or pass "
            "`probabilities=False` if these are other scores."
        )
    return True


def _names(
    true: NDArray[Any],
    pred: NDArray[Any] | None,
    y_score: Any,
    n_classes: int | None,
    label_names: Sequence[Hashable] | None,
) -> tuple[Hashable, ...]:
    """The classes in the order of the scores' columns."""
    if label_names is not None:
        label_names = list(label_names)
        return unique_names(label_names, "label_names", n_classes or len(label_names), "classes")
    kinds = {"true": true} if pred is None else {"true": true, "pred": pred}
    if len({"text" if part.dtype.kind == "U" else "numbers" for part in kinds.values()}) > 1:
        raise TypeError(
            f"`y_pred` must hold classes of the type of `y_true`, got {pred[0].item()!r} where "
            f"`y_true` has {true[0].item()!r}."
        )
    seen = np.unique(np.concatenate([*kinds.values()])).tolist()
    if isinstance(y_score, pd.DataFrame) and set(seen) <= set(y_score.columns):
        return unique_names(y_score.columns, "y_score.columns", len(y_score.columns), "classes")
    if n_classes is None or len(seen) == n_classes:
        return tuple(seen)
    # A batch may lack classes. Only where the others are beyond doubt, they are added.
    for known in ((False, True), range(n_classes), (-1, 1)):
        anchored = isinstance(known, tuple) or 0 in seen or n_classes == _BINARY
        if (
            true.dtype.kind != "U"
            and len(known) == n_classes
            and anchored
            and set(seen) <= set(known)
        ):
            same_kind = all(isinstance(value, bool) for value in seen) == (known == (False, True))
            if same_kind:
                return tuple(known)
    hint = ""
    if len(seen) > n_classes and true.dtype.kind in "iu":
        hint = " If these are measurements, it is a regression, and mleval evaluates none."
    columns = (
        "`y_score` is one score of two classes"
        if n_classes == _BINARY
        else f"`y_score` has {n_classes} columns"
    )
    raise ValueError(
        f"`label_names` must name the {n_classes} classes in the order of the scores, got none: "
        f"{columns}, and `y_true` has {len(seen)} class{'es' * (len(seen) != 1)} "
        f"({some(map(repr, seen), 8)}).{hint}"
    )


def class_matrix(values: Any, name: str, names: Sequence[Hashable]) -> sparse.csr_array:
    """One class an instance as a label matrix over these classes; else the errors of `classes_of`,
    or of an unknown class.
    """
    return one_hot(
        _numbers(classes_of(values, name), name, {own: i for i, own in enumerate(names)}),
        len(names),
    )


def one_hot(numbers: NDArray[np.int64], n_classes: int) -> sparse.csr_array:
    """The label matrix of one class an instance."""
    ends = np.arange(len(numbers) + 1)
    return sparse.csr_array(
        (np.ones(len(numbers), bool), numbers, ends), shape=(len(numbers), n_classes)
    )


def _numbers(values: NDArray[Any], name: str, at: dict[Hashable, int]) -> NDArray[np.int64]:
    """The position of each class among the names."""
    codes, found = pd.factorize(values)
    numbers = np.array([at.get(value, -1) for value in found.tolist()])[codes]
    unknown = numbers < 0
    if unknown.any():
        raise ValueError(
            f"`{name}` must hold classes of `label_names` ({some(map(repr, at), 8)}), got "
            f"{values[unknown][0].item()!r} {_where(unknown)}. Name it, or leave these instances "
            "out."
        )
    return numbers


def _same_index(value: Any, name: str, y_true: Any) -> None:
    """Raise ValueError where pandas says that the rows are others."""
    if isinstance(value, (pd.Series, pd.DataFrame)) and isinstance(y_true, pd.Series):
        frames = [pd.DataFrame(index=part.index) for part in (value, y_true)]
        if len(frames[0]) == len(frames[1]):
            same_axes(frames[0], name, frames[1], "y_true")


def _where(wrong: NDArray[np.bool_]) -> str:
    """The first such row, and how many there are."""
    count = int(wrong.sum())
    return f"in row {int(wrong.argmax())} ({count} such row{'s' * (count != 1)})"
