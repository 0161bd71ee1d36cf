"""One label of several classes: arrays, sums over them, and the measures that follow."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse

from mlflow_mleval.measures.curves import ScoreCounts
from mlflow_mleval.measures.inputs import Csr, dense, slices
from mlflow_mleval.measures.sums import Inputs, Rows, Sums, summed_columns
from mlflow_mleval.sentences import Argument, Message, count, some
from mlflow_mleval.validation import (
    AnyArray,
    Array,
    Bools,
    Ints,
    label_threshold,
    same_axes,
    score_matrix,
    unique_names,
)

# ---- the arrays, checked -------------------------------------------------------------------------

#: The class of a positive instance is the second of the two.
_BINARY = 2


@dataclass(frozen=True, eq=False)
class ClassVectors:
    """True and predicted classes as numbers of names, and scores, N x C or of the second."""

    names: tuple[Hashable, ...]
    true: Ints
    pred: Ints
    score: Array | None
    is_probability: bool
    epsilon: float
    threshold: float | None
    by_class: Array | None  # the scores where each class has its own


def is_vector(value: Any) -> bool:
    """Whether a truth is one class an instance, and no matrix and no sets of labels."""
    if sparse.issparse(value) or isinstance(value, pd.DataFrame):
        return False
    shape = getattr(value, "shape", None)
    plain = getattr(getattr(value, "dtype", None), "kind", "none") in "biufcUSM"
    if shape is not None and (plain or len(shape) != 1):
        return len(shape) == 1
    try:
        first: Any = next(iter(value), None)
    except TypeError:
        return False
    is_set = isinstance(first, (set, frozenset, dict))
    return isinstance(first, (str, bytes)) or (np.ndim(first) == 0 and not is_set)


def are_classes(values: Any) -> bool:
    """Whether what stands in the place of scores is a vector of classes, which no fractions are."""
    if values is None or not is_vector(values):
        return False
    return pd.api.types.infer_dtype(np.asarray(values)) in ("string", "boolean", "integer")


def classes_of(values: Any, name: str) -> AnyArray:
    """Classes as a vector of integers, booleans or text, else a ValueError or TypeError."""
    if isinstance(values, np.ma.MaskedArray):
        hint = "Fill or drop its cells."
        raise TypeError(f"`{name}` must be an array without a mask, got a masked array. {hint}")
    array = np.asarray(values, dtype=object if isinstance(values, (list, tuple)) else None)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"`{name}` must hold one class an instance, got shape {array.shape}.")
    if not len(array):
        raise ValueError(f"`{name}` must hold at least one instance, got none.")
    missing = pd.isna(array)
    if missing.any():
        got = f"none {_where(missing)}"
        raise ValueError(f"`{name}` must hold a class for each instance, got {got}. Omit these.")
    if array.dtype.kind not in "biufU":  # Python objects, or what NumPy keeps as such
        kind = pd.api.types.infer_dtype(array)
        if kind not in ("string", "boolean", "integer", "floating", "mixed-integer-float"):
            raise TypeError(
                f"`{name}` must hold classes of one type, whole numbers, text or booleans, got "
                f"{kind} ({some(map(repr, array), 4)}). Convert them all, for example to text."
            )
        array = np.array(array.tolist())
    if array.dtype.kind == "f":
        if (broken := array != np.floor(array)).any():
            raise ValueError(
                f"`{name}` must hold classes, got {array[broken][0]:.6g} {_where(broken)}: these "
                f"are measurements, and mleval evaluates no regression. Cut them into classes."
            )
        array = array.astype(np.int64)
    return array


def class_vectors(
    y_true: Any,
    y_score: Any,
    y_pred: Any,
    label_names: Sequence[Hashable] | None,
    threshold: ArrayLike = 0.5,
    probabilities: bool | None = None,
) -> ClassVectors:
    """Truth, scores and predictions, checked against each other."""
    true = classes_of(y_true, "y_true")
    pred = None if y_pred is None else classes_of(y_pred, "y_pred")
    score, epsilon, n_classes = (None, 0.0, None) if y_score is None else _scores(y_score)
    sides = (("y_score", score, y_score), ("y_pred", pred, y_pred))
    for name, array, _ in sides:
        if array is not None and len(array) != len(true):
            want = f"the {len(true)} instances of `y_true`"
            raise ValueError(f"`{name}` must hold {want}, got {len(array)}.")
    probable = score is not None and _is_probability(score, epsilon, probabilities)
    for name, _, value in sides:
        same_axes(value, name, y_true, "y_true")
    names = _names(true, pred, y_score, n_classes, label_names)
    at = {name: i for i, name in enumerate(names)}
    numbers = _numbers(true, "y_true", at)
    by_class = score if getattr(score, "ndim", 0) == 2 else None
    cut: Any = None
    if pred is not None:
        pred = _numbers(pred, "y_pred", at)
    elif score is None:
        raise ValueError("`y_score` or `y_pred` must be given, got neither. Pass one.")
    elif by_class is not None:
        pred = by_class.argmax(axis=1)
    else:
        # values of a decision function, whose border is 0, were not meant to be cut at the default
        cut = label_threshold(threshold, 1)
        cut = 0.0 if cut == 0.5 and not probable else cut
        pred = (score > cut).astype(np.int64)
    return ClassVectors(names, numbers, pred, score, probable, epsilon, cut, by_class)


def _scores(y_score: Any) -> tuple[Array, float, int]:
    """Finite scores, N x C or N, the epsilon of their type, and of how many classes they are."""
    given = dense(score_matrix(np.asarray(y_score)[:, None] if is_vector(y_score) else y_score))
    kind = given.dtype if given.dtype.kind == "f" else np.dtype(float)
    score = given.astype(float)
    epsilon = float(np.finfo(kind).eps)
    if score.shape[1] == 1:
        return score[:, 0], epsilon, _BINARY
    return score, epsilon, score.shape[1]


def _is_probability(score: Array, epsilon: float, said: bool | None) -> bool:
    """Whether the scores are probabilities: those of an instance sum to 1 then."""
    inside = bool(score.min() >= 0 and score.max() <= 1)
    if said and not inside:
        want = f"in [0, 1] with {Argument('probabilities', True)}"
        got = f"{score.min():.6g} to {score.max():.6g}"
        raise ValueError(f"`y_score` must lie {want}, got {got}. Leave that out.")
    if said is False or not inside:
        return False
    total = score.sum(axis=1) if score.ndim == 2 else np.ones(1)
    wrong = np.abs(total - 1) > np.sqrt(epsilon)
    if wrong.any():
        text = "`y_score` must sum to 1 in each row where it holds probabilities, got "
        text += f"{total[wrong][0]:.6g} {_where(wrong)}. Divide each row by its sum, or pass "
        other = Argument("probabilities", False)
        raise ValueError(Message(text, other, " if these are other scores."))
    return True


def _names(
    true: AnyArray,
    pred: AnyArray | None,
    y_score: Any,
    n_classes: int | None,
    label_names: Sequence[Hashable] | None,
) -> tuple[Hashable, ...]:
    """The classes in the order of the scores' columns."""
    if label_names is not None:
        label_names = list(label_names)
        return unique_names(label_names, "label_names", n_classes or len(label_names), "classes")
    if pred is not None and (true.dtype.kind == "U") != (pred.dtype.kind == "U"):
        got = f"{pred[0].item()!r} where `y_true` has {true[0].item()!r}"
        raise TypeError(f"`y_pred` must hold classes of the type of `y_true`, got {got}.")
    seen = np.unique(true if pred is None else np.concatenate([true, pred])).tolist()
    if isinstance(y_score, pd.DataFrame) and set(seen) <= set(y_score.columns):
        return unique_names(y_score.columns, "y_score.columns", len(y_score.columns), "classes")
    if n_classes is None or len(seen) == n_classes:
        return tuple(seen)
    usual: tuple[Hashable, ...] = tuple(range(n_classes))
    hint = " If these are measurements, it is a regression, and mleval evaluates none."
    if true.dtype.kind not in "iuf":
        usual, hint = (False, True), ""
    # of several classes only those that begin with 0 are surely 0, 1, 2, …
    known = len(usual) == n_classes and {*seen} <= {*usual}
    if known and (0 in seen or n_classes == _BINARY):
        return usual
    raise ValueError(
        f"`label_names` must name the {n_classes} classes in the order of the scores, got none, "
        f"and `y_true` has {count(len(seen), 'class')} ({some(map(repr, seen), 8)}).{hint}"
    )


def class_matrix(values: Any, name: str, names: Sequence[Hashable]) -> Csr:
    """One class an instance as a label matrix over these classes."""
    at = {own: i for i, own in enumerate(names)}
    return one_hot(_numbers(classes_of(values, name), name, at), len(names))


def one_hot(numbers: Ints, n_classes: int) -> Csr:
    """The label matrix of one class an instance."""
    entries = np.ones(len(numbers), bool), numbers, np.arange(len(numbers) + 1)
    return sparse.csr_array(entries, shape=(len(numbers), n_classes))


def _numbers(values: AnyArray, name: str, at: dict[Hashable, int]) -> Ints:
    """The position of each class among the names."""
    codes, distinct = pd.factorize(values)
    numbers = np.array([at.get(value, -1) for value in distinct.tolist()])[codes]
    unknown = numbers < 0
    if unknown.any():
        want = f"classes of `label_names` ({some(map(repr, at), 8)})"
        got = f"{values[unknown][0].item()!r} {_where(unknown)}"
        raise ValueError(f"`{name}` must hold {want}, got {got}.")
    return numbers


def _where(wrong: Bools) -> str:
    """The first such row, and how many there are."""
    return f"in row {int(wrong.argmax())} ({count(int(wrong.sum()), 'such row')})"


# ---- the sums of a fold --------------------------------------------------------------------------

_BLOCK = 1 << 18  # cells of scores that are ranked at a time


def sum_classes(vectors: ClassVectors, inputs: Inputs, rows: Rows) -> tuple[Sums, dict[str, Any]]:
    """The sums over some rows, and the values of each of these rows, as of `sums.sum_rows`."""
    n_classes = len(vectors.names)
    weights = None if inputs.weights is None else inputs.weights[rows]
    true = vectors.true[rows]
    pred = vectors.pred[rows]
    score = None if vectors.score is None else vectors.score[rows]
    right = true == pred
    values: dict[str, Any] = {"top1_accuracy": right.astype(float)}
    each = np.ones(len(true), np.int64) if weights is None else weights
    confusion = sparse.csr_array((each, (true, pred)), shape=(n_classes, n_classes))
    confusion.sum_duplicates()
    further: dict[str, Any] = {}
    if score is not None:
        further = _counts_of_scores(true, score, weights)
        loss = squares = np.full(len(true), np.nan)  # where the scores are no probabilities
        if vectors.is_probability:
            if score.ndim == 1:
                of_true = np.where(true == 1, score, 1 - score)
                squares = (1 - of_true) ** 2
                largest = np.maximum(score, 1 - score)
            else:
                of_true = score[np.arange(len(true)), true]
                squares = ((score**2).sum(axis=1) + 1 - 2 * of_true) / n_classes
                largest = score.max(axis=1)
            loss = -np.log(np.clip(of_true, vectors.epsilon, 1 - vectors.epsilon))
            further["largest"] = ScoreCounts.of(largest[:, None], right[:, None], weights)
        values |= {"log_loss": loss, "brier_score": squares}
    values |= {name: column[rows] for name, column in inputs.further.items()}
    by_label = [confusion.diagonal(), confusion.sum(axis=0), confusion.sum(axis=1)]
    sums = Sums(
        n=len(true),
        **summed_columns(values, weights),
        by_label=np.array(by_label, each.dtype),
        wrong=np.zeros(0, np.int64),
        empty=np.zeros(2, np.int64),
        confusion=confusion,
        **further,
    )
    return sums, values


def _counts_of_scores(true: Ints, score: Array, weights: Array | None) -> dict[str, Any]:
    """Counts by score of each class, of two classes of the second, and ranks of the true ones."""
    found: dict[str, Any] = {"score_range": (float(score.min()), float(score.max()))}
    if score.ndim == 2:
        n_classes = score.shape[1]
        # classes before the true one: with a higher score, or with an equal one a lower number
        ranks = np.empty(len(true), np.int64)
        columns = np.arange(n_classes)
        for rows in slices(len(true), max(1, _BLOCK // n_classes)):
            s = score[rows]
            t = true[rows, None]
            own = np.take_along_axis(s, t, axis=1)
            ranks[rows] = ((s > own) | ((s == own) & (columns < t))).sum(axis=1)
        found["ranks"] = np.bincount(ranks, weights, n_classes)
        if n_classes > _BINARY:
            is_true = one_hot(true, n_classes).toarray()
            return found | {"counts_by_score": ScoreCounts.of(score, is_true, weights)}
        score = score[:, 1]
    of_second = ScoreCounts.of(score[:, None], (true == 1)[:, None], weights)
    return found | {"counts_by_score": of_second}
