"""Fitted estimators: their scores in whatever shape they return them, and names for what nobody
named.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import is_regressor
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import type_of_target

from mlflow_mleval.measures.one_label import classes_of, is_vector
from mlflow_mleval.validation import AnyArray, Array

# --------------------------------------------------------------------------------------------------
# Scores and label predictions of a fitted estimator, in whatever shape it returns them.

#: Ways to a score in order of preference, each with the score from which on a label counts as
#: predicted.
SCORE_METHODS = {"predict_proba": 0.5, "decision_function": 0.0}


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a fitted estimator says about N instances and K labels, or one label of C classes.

    Attributes
    ----------
    y_score : array or scipy.sparse of shape (N, K), or None
        Probabilities, else values of the decision function; the larger, the more relevant. Of one
        label with a column for each class, or (N,) of the second of two.
    y_pred : array or scipy.sparse of 0 and 1, shape (N, K); or of classes, shape (N,)
    predict_time : float
        Seconds that ``predict`` took.
    without_score : str
        Why there is no score; empty where there is one.
    is_probability : bool
        Whether the scores of one label are probabilities.
    """

    y_score: Any
    y_pred: Any
    predict_time: float
    without_score: str = ""
    is_probability: bool = True


def is_multilabel(y: Any) -> bool:
    """Whether a target is a matrix of 0 and 1 with several columns, as scikit-learn sees it.

    >>> is_multilabel([[0, 1], [1, 1]]), is_multilabel([0, 1]), is_multilabel([[0, 2], [1, 1]]), is_multilabel(None)
    (True, False, False, False)
    """  # noqa: E501
    if len(getattr(y, "shape", (0, 0))) != 2:
        return False
    try:
        return type_of_target(y) == "multilabel-indicator"
    except (ValueError, TypeError):
        return False


def is_one_label(y: Any) -> bool:
    """Whether a target is one label of two or more classes, as scikit-learn sees it; a regression's
    measurements are none.

    >>> is_one_label([0, 1, 2]), is_one_label(["a", "b"]), is_one_label([0.5, 1.2]), is_one_label([[0, 1]])
    (True, True, False, False)
    """  # noqa: E501
    try:
        return type_of_target(y) in ("binary", "multiclass")
    except (ValueError, TypeError):
        return False


def refuse_regressor(estimator: Any) -> None:
    """Raise TypeError for what scikit-learn calls a regressor."""
    if _is_regressor(estimator):
        raise TypeError(
            f"`estimator` must be a classifier, got {type(estimator).__name__}: mleval evaluates "
            "no regression."
        )


def _is_regressor(estimator: Any) -> bool:
    return hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator)


def _without_scores(estimator: Any) -> AttributeError:
    """Why there are no scores."""
    has = "is a regressor and has" if _is_regressor(estimator) else "has"
    return AttributeError(
        f"{type(estimator).__name__} {has} neither predict_proba nor decision_function"
    )


@dataclass(frozen=True)
class _Forest:
    """A forest whose probabilities of the given instances are there already."""

    classes_: Any
    probabilities: Any

    def predict_proba(self, X: Any) -> Any:
        return self.probabilities


def _predicted(estimator: Any, X: Any) -> tuple[Any, Any]:
    """What the estimator predicts, and what has its scores: a forest of scikit-learn predicts what
    is most probable, so it is asked once for both.
    """
    is_forest = type(estimator).__module__ == "sklearn.ensemble._forest"
    if not is_forest or not hasattr(estimator, "predict_proba"):
        return estimator.predict(X), estimator
    forest = _Forest(estimator.classes_, estimator.predict_proba(X))
    if not isinstance(forest.probabilities, list):
        return forest.classes_[forest.probabilities.argmax(axis=1)], forest
    columns = zip(forest.classes_, forest.probabilities, strict=True)
    return np.column_stack([own[part.argmax(axis=1)] for own, part in columns]), forest


def predict(estimator: Any, X: Any, n_labels: int) -> Predictions:
    """Label predictions and scores of a fitted estimator.

    Scores come from ``predict_proba``, else from ``decision_function``, else from those of the
    estimators by label inside a `MultiOutputClassifier` or `ClassifierChain`, also at the end of a
    `Pipeline`.

    Parameters
    ----------
    estimator : object with ``predict``
    X : N instances
        As ``predict`` takes them.
    n_labels : int
        K.

    Raises
    ------
    ValueError
        ``predict`` returns something that is not N x K. Scores that cannot be used are left out
        with the reason.

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> model = KNeighborsClassifier(2).fit([[0], [1], [2]], [[0, 1], [0, 0], [0, 1]])
    >>> predict(model, [[0.1]], 2).y_score
    array([[0. , 0.5]])
    """
    start = time.perf_counter()
    raw, estimator = _predicted(estimator, X)
    seconds = time.perf_counter() - start
    y_pred = as_matrix(raw, n_labels)
    try:
        y_score = _score(estimator, X, n_labels, y_pred)
        if _inverted(y_score, y_pred):
            raise ValueError(
                "the scores are lower where the labels are predicted, so they are those of the "
                "absent labels"
            )
    except (
        Exception
    ) as error:  # an estimator may raise anything here, and its predictions are still good
        return Predictions(None, y_pred, seconds, f"{type(error).__name__}: {error}")
    return Predictions(y_score, y_pred, seconds)


def predict_classes(estimator: Any, X: Any, classes: Sequence[Any]) -> Predictions:
    """Class predictions and scores of a fitted estimator; the scores have a column for each of
    these classes.

    A class that the estimator does not know has the probability 0; decision values lack it, and are
    left out with the reason.

    Raises
    ------
    ValueError
        ``predict`` returns something else than one class for each instance.

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> model = KNeighborsClassifier(1).fit([[0], [1]], ["a", "b"])
    >>> predict_classes(model, [[0.1]], ["a", "b", "c"]).y_score
    array([[1., 0., 0.]])
    """
    start = time.perf_counter()
    raw, estimator = _predicted(estimator, X)
    y_pred = np.asarray(raw)
    seconds = time.perf_counter() - start
    y_pred = y_pred[:, 0] if y_pred.ndim == 2 and y_pred.shape[1] == 1 else y_pred
    if y_pred.ndim != 1:
        raise ValueError(
            f"the estimator must return one class for each instance, got shape {y_pred.shape}."
        )
    try:
        y_score, is_probability = _class_scores(estimator, X, list(classes))
        if not np.isfinite(y_score).all():
            raise ValueError("some scores are NaN or infinite")
    except (
        Exception
    ) as error:  # an estimator may raise anything here, and its predictions are still good
        return Predictions(None, y_pred, seconds, f"{type(error).__name__}: {error}")
    return Predictions(y_score, y_pred, seconds, is_probability=is_probability)


def _class_scores(estimator: Any, X: Any, classes: list[Any]) -> tuple[Array, bool]:
    way = next((name for name in SCORE_METHODS if hasattr(estimator, name)), None)
    if way is None:
        raise _without_scores(estimator)
    last = getattr(estimator, "best_estimator_", estimator)
    last = last[-1] if isinstance(last, Pipeline) else last
    if (
        way == "decision_function"
        and len(classes) > 2
        and getattr(last, "decision_function_shape", "ovr") == "ovo"
    ):
        raise ValueError(
            "its decision values are of pairs of classes (decision_function_shape='ovo')"
        )
    return columns_of_classes(
        getattr(estimator, way)(X), way, np.asarray(estimator.classes_).tolist(), classes
    )


def columns_of_classes(
    raw: Any, way: str, trained: list[Any], classes: list[Any]
) -> tuple[Array, bool]:
    """What ``predict_proba`` or ``decision_function`` gives for some classes as scores of all, and
    whether it is the former.
    """
    scores, is_probability = np.asarray(raw, dtype=float), way == "predict_proba"
    if scores.ndim == 1 and trained == classes:
        return scores, is_probability
    if (
        scores.ndim != 2
        or scores.shape[1] != len(trained)
        or (trained != classes and not is_probability)
    ):
        raise ValueError(
            f"there are scores of shape {scores.shape} for {len(trained)} classes of {len(classes)}"
        )
    of_all = np.zeros((len(scores), len(classes)))
    of_all[:, [classes.index(name) for name in trained]] = scores
    return of_all, is_probability


def as_matrix(raw: Any, n_labels: int, classes: Sequence[Any] | None = None) -> Any:
    """Predictions or scores as a matrix N x K.

    Parameters
    ----------
    raw : array, scipy.sparse, DataFrame, or list of K arrays
        (N, K); (N,) where K is 1; or for each label (N, 2), (N, 1) where only one class occurred,
        or (N,).
    n_labels : int
    classes : sequence of K arrays, optional
        The classes of each label, in the order of the columns of a list's arrays; by default 0 and
        1.

    >>> as_matrix([np.array([[0.3, 0.7]]), np.array([[1.0]])], 2, classes=[[0, 1], [0]])
    array([[0.7, 0. ]])
    """
    if (
        isinstance(raw, (list, tuple))
        and len(raw) == n_labels
        and all(hasattr(part, "shape") for part in raw)
    ):
        classes = [None] * n_labels if classes is None else classes
        return np.column_stack(
            [_positive(np.asarray(part), own) for part, own in zip(raw, classes, strict=True)]
        )
    matrix = raw if sparse.issparse(raw) else np.asarray(raw)
    if n_labels == 1 and (matrix.ndim == 1 or matrix.shape[1] == 2 or classes is not None):
        matrix = _positive(np.asarray(matrix), None if classes is None else classes[0])[:, None]
    if matrix.ndim != 2 or matrix.shape[1] != n_labels:
        raise ValueError(
            f"the estimator must return one column for each of the {n_labels} labels, got shape "
            f"{matrix.shape}."
        )
    return matrix


def _positive(part: AnyArray, classes: Any) -> AnyArray:
    """The column of class 1; constant where the label has only one class."""
    if part.ndim == 1:
        return part
    own = list(range(part.shape[1]) if classes is None else np.asarray(classes).tolist())
    if len(own) != part.shape[1] or (classes is None and part.shape[1] != 2):
        raise ValueError(
            f"a label's scores must have a column for each of its classes {own}, got shape "
            f"{part.shape}."
        )
    return part[:, own.index(1)] if 1 in own else np.zeros(len(part))


def _score(estimator: Any, X: Any, n_labels: int, y_pred: Any) -> Any:
    if isinstance(estimator, Pipeline):
        return _score(
            estimator[-1],
            estimator[:-1].transform(X) if len(estimator) > 1 else X,
            n_labels,
            y_pred,
        )
    if hasattr(estimator, "best_estimator_"):
        return _score(estimator.best_estimator_, X, n_labels, y_pred)
    for name in SCORE_METHODS:
        if hasattr(estimator, name):
            try:
                return as_matrix(
                    getattr(estimator, name)(X), n_labels, label_classes(estimator, n_labels)
                )
            except ValueError:
                if (
                    not isinstance(estimator, ClassifierChain)
                    or getattr(estimator, "chain_method_", "predict") != "predict"
                ):
                    raise
                return _chain_score(estimator, X, y_pred)
    if isinstance(estimator, MultiOutputClassifier):
        return np.column_stack([_score(part, X, 1, None) for part in estimator.estimators_])
    raise _without_scores(estimator)


def label_classes(estimator: Any, n_labels: int) -> list[Any] | None:
    """The classes of each label where the estimator keeps them by label."""
    classes = getattr(estimator, "classes_", None)
    if n_labels == 1 and isinstance(classes, np.ndarray):
        return [classes]
    return (
        list(classes) if isinstance(classes, (list, tuple)) and len(classes) == n_labels else None
    )


def _chain_score(chain: ClassifierChain, X: Any, y_pred: AnyArray) -> AnyArray:
    """Scores of a chain of which some link saw one class only, which scikit-learn refuses."""
    stack = partial(sparse.hstack, format="csr") if sparse.issparse(X) else np.hstack
    seen = [
        stack([X, y_pred[:, chain.order_[:i]]]) if i else X for i in range(len(chain.estimators_))
    ]
    columns = [
        _score(link, own, 1, None) for link, own in zip(chain.estimators_, seen, strict=True)
    ]
    return np.hstack(columns)[:, np.argsort(chain.order_)]


def _inverted(y_score: Any, y_pred: Any) -> bool:
    """Whether most labels have lower scores where they are predicted: some estimators return the
    other class's.
    """
    if sparse.issparse(y_score) or sparse.issparse(y_pred):
        return False
    on = y_pred != 0
    both = on.any(axis=0) & ~on.all(axis=0)
    y_score, on = y_score[:, both], on[:, both]
    with_label = np.sum(y_score, axis=0, where=on) / on.sum(axis=0)
    without = np.sum(y_score, axis=0, where=~on) / (~on).sum(axis=0)
    return bool((with_label < without).sum() > both.sum() / 2)


# --------------------------------------------------------------------------------------------------
# Names for methods and datasets that nobody named: alike for the same thing, different for another.

#: Parameters that change no result, and those that make a repeat of the same method.
_INCIDENTAL = {"n_jobs", "verbose", "memory", "copy_X"}
_SEEDS = {"random_state", "seed", "random_seed", "rng"}
_LONGEST = 120
#: What the field calls wrappers: by class, of label sets.
_WRAPPERS = {
    "MultiOutputClassifier": "BR",
    "OneVsRestClassifier": "BR",
    "BinaryRelevance": "BR",
    "ClassifierChain": "CC",
    "LabelPowerset": "LP",
    "OneVsOneClassifier": "OvO",
    "OutputCodeClassifier": "ECOC",
    "MLkNN": "ML-kNN",
    "BRkNNaClassifier": "BRkNN-a",
    "BRkNNbClassifier": "BRkNN-b",
    "RakelD": "RAkELd",
    "RakelO": "RAkELo",
    "EnsembleOfClassifierChains": "ECC",
    "EnsembleClassifierChain": "ECC",
    "ProbabilisticClassifierChain": "PCC",
    "MLARAM": "ML-ARAM",
    "MLTSVM": "ML-TSVM",
}
#: Where a function lies in memory, as its text tells it.
_PLACE = re.compile(r" at 0x[0-9a-f]+")


def method_name(estimator: Any, Y: Any = None) -> str:
    """A short name, which depends on the estimator alone: its class, of wrappers what the field
    calls them, and the parameters that differ from their defaults, apart from seeds and the like.

    A search is called as what it searches, with the parameters that it tunes.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> method_name(make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression(C=10, random_state=1))))
    'StandardScaler + BR(LogisticRegression(C=10))'
    """  # noqa: E501

    def called(kind: str) -> str:
        one_label = kind == "OneVsRestClassifier" and Y is not None and is_vector(Y)
        return "OvR" if one_label else _WRAPPERS.get(kind, kind)

    return _cut(_described(estimator, called))


def params_of(estimator: Any) -> dict[str, str]:
    """The parameters of a run: the whole name as ``estimator``, and each hyperparameter."""
    return {"estimator": full_name(estimator)} | hyperparameters(estimator)


def full_name(estimator: Any) -> str:
    """The estimator with all parameters that differ from their defaults, apart from seeds and the
    like.

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> full_name(KNeighborsClassifier(7, n_jobs=2))
    'KNeighborsClassifier(n_neighbors=7)'
    """
    return _described(_searched(estimator), str)


def hyperparameters(estimator: Any) -> dict[str, str]:
    """The parameters of an estimator and of those inside it by name, as text; of a search those of
    the winner.

    What changes no result is left out (``n_jobs``, ``verbose`` and the like), seeds are not.

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> hyperparameters(KNeighborsClassifier(7))["n_neighbors"]
    '7'
    """
    if not hasattr(inner := _searched(estimator), "get_params"):
        return {}
    return {
        name: value if isinstance(value, str) else _text(value)
        for name, value in inner.get_params(deep=True).items()
        if not _is_part(value) and name.rpartition("__")[2] not in _INCIDENTAL
    }


def dataset_name(X: Any, Y: Any, weights: Any = None) -> str:
    """Instances, labels (or classes) and a digest of a sample of both, such as ``569x6
    labels-1a2b3c4d``; with that of weights.

    >>> dataset_name(np.zeros((5, 3)), np.eye(5)) == dataset_name(np.zeros((5, 3)), np.eye(5))
    True
    """
    if is_vector(Y):
        size = f"{len(Y)}x{len(np.unique(classes_of(Y, 'Y')))} classes"
    else:
        size = "{}x{} labels".format(*(Y.shape if hasattr(Y, "shape") else np.shape(Y)))
    digest = sha256(repr(sample(X, Y, size=512)).encode())
    name = f"{size}-{digest.hexdigest()[:8]}"
    if weights is None:
        return name
    return f"{name} weights-{sha256(repr(sample(weights, size=512)).encode()).hexdigest()[:8]}"


def sample(*arrays: Any, size: int = 32) -> tuple[Any, ...]:
    """Shapes and some of the content: hashable, and cheap however large the arrays are.

    >>> sample(np.arange(6).reshape(2, 3)) == sample(np.arange(6).reshape(2, 3))
    True
    """
    return tuple(
        (getattr(array, "shape", None) or len(array), _some_of(array, size)) for array in arrays
    )


def _some_of(array: Any, size: int) -> bytes:
    if sparse.issparse(array):
        array = np.asarray(array.tocsr().data)  # its stored values, enough with the shape
        size = size**2
    n_rows = array.shape[0] if hasattr(array, "shape") else len(array)
    rows = slice(None, None, max(1, n_rows // size))
    columns = (
        slice(None, None, max(1, array.shape[1] // size))
        if np.ndim(array) == 2 and hasattr(array, "shape")
        else None
    )
    if isinstance(array, (pd.DataFrame, pd.Series)):
        part = array.iloc[rows] if columns is None else array.iloc[rows, columns]
        part = part.to_numpy()
    else:
        part = array[rows] if columns is None else array[rows, columns]
    if isinstance(part, np.ndarray) and part.dtype.kind in "buif":
        return part.astype(float).tobytes()  # one content, whatever it is kept in
    return repr(part.tolist() if isinstance(part, np.ndarray) else part).encode()


def _is_search(estimator: Any) -> bool:
    """Whether it tries parameters of the estimator that it holds."""
    grids = hasattr(estimator, "param_grid") or hasattr(estimator, "param_distributions")
    return grids and hasattr(estimator, "get_params") and hasattr(estimator, "estimator")


def _searched(estimator: Any) -> Any:
    """What a search tries, with the winner's parameters once it is known; anything else is
    itself.
    """
    if not _is_search(estimator):
        return estimator
    return getattr(estimator, "best_estimator_", estimator.estimator)


def _tuned(search: Any) -> set[str]:
    """The parameters that a search tries."""
    grids: Any = getattr(search, "param_grid", None) or getattr(search, "param_distributions", ())
    return {name for grid in ([grids] if isinstance(grids, Mapping) else grids) for name in grid}


def _is_part(value: Any) -> bool:
    """Whether a parameter holds other estimators, whose own parameters are told."""
    if hasattr(value, "get_params") or isinstance(value, type):
        return True
    pairs = (v for v in value if isinstance(v, tuple)) if isinstance(value, (list, tuple)) else ()
    return any(hasattr(part, "get_params") for pair in pairs for part in pair)


def _cut(name: str) -> str:
    return (
        name
        if len(name) <= _LONGEST
        else f"{name[: _LONGEST - 10]}… {sha256(name.encode()).hexdigest()[:8]}"
    )


def _described(value: Any, called: Callable[[str], str], tuned: Collection[str] = ()) -> str:
    """The estimator with the parameters that differ from their defaults; those that are `tuned` by
    a search around it are only named. `called` says what a class is called.
    """
    if _is_search(value):
        return _described(value.estimator, called, {*tuned, *_tuned(value)})

    def inner(name: str, part: Any) -> str:
        own = f"{name}__"
        return _described(part, called, {t[len(own) :] for t in tuned if t.startswith(own)})

    if hasattr(value, "steps"):
        steps = [step for step in value.steps if step[1] not in (None, "passthrough")]
        return " + ".join("tuned" if step[0] in tuned else inner(*step) for step in steps)
    if not hasattr(value, "get_params") or isinstance(value, type):
        return _text(value)
    parts: list[str] = []
    for name, own in _differing(value, tuned).items():
        if name in tuned:
            parts.append(f"{name}=tuned")
        elif _is_part(own) and not isinstance(own, type):
            named = [(name, own)] if hasattr(own, "get_params") else _estimators_in(own)
            parts += [inner(*part) for part in named]
        else:
            parts.append(f"{name}={_text(own)}")
    return called(type(value).__name__) + (f"({', '.join(parts)})" if parts else "")


def _differing(value: Any, tuned: Collection[str]) -> dict[str, Any]:
    """The parameters that differ from the defaults of the class, and those that are tuned."""
    declared = inspect.signature(type(value).__init__).parameters
    defaults = {name: parameter.default for name, parameter in declared.items()}
    return {
        name: own
        for name, own in value.get_params(deep=False).items()
        if name in tuned
        or not (
            name in _INCIDENTAL | _SEEDS or _same(own, defaults.get(name, inspect.Parameter.empty))
        )
    }


def _estimators_in(pairs: Iterable[Any]) -> list[tuple[str, Any]]:
    """The estimators with their names in a list of pairs, as of a vote."""
    return [(p[0], p[1]) for p in pairs if isinstance(p, tuple) and hasattr(p[1], "get_params")]


def _text(value: Any) -> str:
    """A value, alike in every process and of whatever type of number."""
    plain = value.item() if isinstance(value, np.generic) else value
    return _PLACE.sub("", " ".join(repr(plain).split()))


def _same(a: Any, b: Any) -> bool:
    """Whether two values are told alike, 1 and 1.0 among them."""
    numbers = [isinstance(x, (int, float, np.number)) and not isinstance(x, bool) for x in (a, b)]
    if all(numbers):
        return repr(float(a)) == repr(float(b))
    return a is b or (type(a) is type(b) and _text(a) == _text(b))
