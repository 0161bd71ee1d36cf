"""What models say, and what MLflow's data hold, in whatever shape; names for what nobody named."""

from __future__ import annotations

import inspect
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import type_of_target

from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical
from mlflow_mleval.measures.hierarchical import OPTIONS
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.one_label import classes_of, is_vector
from mlflow_mleval.measures.registry import MEASURES, expand
from mlflow_mleval.validation import AnyArray, Array

#: Ways to a score in order of preference, and the score from which on a label is predicted.
SCORE_METHODS = {"predict_proba": 0.5, "decision_function": 0.0}


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says about N instances: of K labels as matrices, of one label its classes, and
    scores with a column for each class or of the second of two.

    `without_score` says why there is no score; `is_probability` is of the scores of one label.
    """

    y_score: Any
    y_pred: Any
    predict_time: float | None = None
    without_score: str = ""
    is_probability: bool = True

    def evaluated(self, truth: Any, **options: Any) -> Evaluation:
        """Their evaluation, with the options of `evaluate`."""
        if is_vector(truth) and not self.is_probability:
            options["probabilities"] = False
        options = {"predict_time": self.predict_time} | options
        return evaluate(truth, self.y_score, self.y_pred, **options)


def labels_of(Y: Any) -> int | list[Any] | None:
    """The number of labels of a matrix of 0 and 1 with several columns, the classes of one label;
    None of anything else, as of measurements.

    >>> labels_of([[0, 1], [1, 1]]), labels_of(["b", "a", "b"]), labels_of([0.5, 1.2]), labels_of([[0, 2], [1, 1]])
    (2, ['a', 'b'], None, None)
    """  # noqa: E501
    try:
        kind = type_of_target(Y)
        if kind == "multilabel-indicator":
            return (Y if hasattr(Y, "shape") else np.asarray(Y)).shape[1]
        is_one = kind in ("binary", "multiclass") and is_vector(Y)
        return np.unique(classes_of(Y, "y")).tolist() if is_one else None
    except (ValueError, TypeError):
        return None


def refuse_regressor(estimator: Any) -> None:
    """Raise TypeError for what scikit-learn calls a regressor."""
    if _is_regressor(estimator):
        raise TypeError(
            f"`estimator` must be a classifier, got {type(estimator).__name__}: mleval evaluates "
            "no regression."
        )


def _is_regressor(estimator: Any) -> bool:
    return hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator)


def _way_to_scores(estimator: Any) -> str:
    """The method that gives scores."""
    for name in SCORE_METHODS:
        if hasattr(estimator, name):
            return name
    has = "is a regressor and has" if _is_regressor(estimator) else "has"
    raise AttributeError(
        f"{type(estimator).__name__} {has} neither predict_proba nor decision_function"
    )


def predict(estimator: Any, X: Any, labels: int | Sequence[Any]) -> Predictions:
    """Label predictions and scores of a fitted estimator; `labels` is K, or the classes of one.

    Scores come from ``predict_proba``, else from ``decision_function``, else from the estimators by
    label. A class that the estimator does not know has the probability 0; scores that cannot be
    used are left out with the reason.

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> model = KNeighborsClassifier(2).fit([[0], [1], [2]], [[0, 1], [0, 0], [0, 1]])
    >>> predict(model, [[0.1]], 2).y_score
    array([[0. , 0.5]])
    >>> model = KNeighborsClassifier(1).fit([[0], [1]], ["a", "b"])
    >>> predict(model, [[0.1]], ["a", "b", "c"]).y_score
    array([[1., 0., 0.]])
    """
    start = time.perf_counter()
    is_forest = type(estimator).__module__ == "sklearn.ensemble._forest"
    if is_forest and hasattr(estimator, "predict_proba"):  # it is asked once for both
        scores, own = estimator.predict_proba(X), estimator.classes_
        estimator = SimpleNamespace(classes_=own, predict_proba=lambda X: scores)
        if isinstance(scores, list):
            by_label = zip(own, scores, strict=True)
            raw = np.column_stack([classes[part.argmax(axis=1)] for classes, part in by_label])
        else:
            raw = own[scores.argmax(axis=1)]
    else:
        raw = estimator.predict(X)
    seconds = time.perf_counter() - start
    is_probability = True
    if isinstance(labels, int):
        y_pred = as_matrix(raw, labels)
    elif (y_pred := column(raw)).ndim != 1:
        want = "one class for each instance"
        raise ValueError(f"the estimator must return {want}, got shape {y_pred.shape}.")
    try:
        if isinstance(labels, int):
            y_score = _score_of(estimator, X, labels, y_pred)
            if _inverted(y_score, y_pred):
                raise ValueError("the scores are those of the absent labels")
        else:
            way = _way_to_scores(estimator)
            last = getattr(estimator, "best_estimator_", estimator)
            last = last[-1] if isinstance(last, Pipeline) else last
            of_pairs = getattr(last, "decision_function_shape", "ovr") == "ovo"
            if way == "decision_function" and len(labels) > 2 and of_pairs:
                raise ValueError("its decision values are of pairs of classes ('ovo')")
            trained, given = np.asarray(estimator.classes_).tolist(), getattr(estimator, way)(X)
            y_score, is_probability = columns_of_classes(given, way, trained, list(labels))
            if not np.isfinite(y_score).all():
                raise ValueError("some scores are NaN or infinite")
    except Exception as error:  # an estimator may raise anything, and its predictions are good
        return Predictions(None, y_pred, seconds, f"{type(error).__name__}: {error}")
    return Predictions(y_score, y_pred, seconds, is_probability=is_probability)


def columns_of_classes(
    raw: Any, way: str, trained: list[Any], classes: list[Any]
) -> tuple[Array, bool]:
    """Scores of some classes as those of all, and whether they are probabilities."""
    scores, is_probability = np.asarray(raw, dtype=float), way == "predict_proba"
    if scores.ndim == 1 and trained == classes:
        return scores, is_probability
    is_of_others = trained != classes and not is_probability
    if scores.ndim != 2 or scores.shape[1] != len(trained) or is_of_others:
        raise ValueError(
            f"there are scores of shape {scores.shape} for {len(trained)} classes of {len(classes)}"
        )
    of_all = np.zeros((len(scores), len(classes)))
    of_all[:, [classes.index(name) for name in trained]] = scores
    return of_all, is_probability


def column(values: Any) -> AnyArray:
    """Values as an array, a single column of them as a vector."""
    array = np.asarray(values)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def as_matrix(raw: Any, n_labels: int, classes: Sequence[Any] | None = None) -> Any:
    """Predictions or scores as a matrix N x K, whatever they come as: an array, scipy.sparse, a
    table; one column of lists; or a list of K arrays, (N, 2), (N, 1) where only one class occurred,
    or (N,). `classes` are those of each label in the columns of such an array, by default 0 and 1.

    >>> as_matrix([np.array([[0.3, 0.7]]), np.array([[1.0]])], 2, classes=[[0, 1], [0]])
    array([[0.7, 0. ]])
    """
    own = [None] * n_labels if classes is None else classes
    is_list = isinstance(raw, (list, tuple)) and len(raw) == n_labels
    if is_list and all(hasattr(part, "shape") for part in raw):
        parts = map(np.asarray, raw)
        return np.column_stack([*map(_positive, parts, own)])
    matrix = raw if sparse.issparse(raw) else np.asarray(raw)
    if matrix.dtype == object and 1 in (matrix.ndim, *matrix.shape[1:]):
        matrix = stacked(column(matrix), "the predictions")
    if n_labels == 1 and (matrix.ndim == 1 or matrix.shape[1] == 2 or classes is not None):
        matrix = _positive(np.asarray(matrix), own[0])[:, None]
    if matrix.ndim != 2 or matrix.shape[1] != n_labels:
        raise ValueError(
            f"the estimator must return one column for each of the {n_labels} labels, got shape "
            f"{matrix.shape}."
        )
    return matrix


def stacked(rows: Any, what: str) -> AnyArray:
    """Rows of equal length as a matrix of numbers."""
    try:
        matrix = np.array([np.asarray(row) for row in rows])
    except ValueError:
        matrix = np.empty(0)
    if matrix.ndim != 2 or matrix.dtype.kind not in "buif":
        raise ValueError(
            f"{what} must hold as many numbers for each instance as there are labels, got "
            f"{list(rows[:2])!r}, ..."
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


def _score_of(estimator: Any, X: Any, n_labels: int, y_pred: Any) -> Any:
    """Scores of label sets, also of what stands at the end of a pipeline or was searched for."""
    if isinstance(estimator, Pipeline):
        inputs = estimator[:-1].transform(X) if len(estimator) > 1 else X
        return _score_of(estimator[-1], inputs, n_labels, y_pred)
    if hasattr(estimator, "best_estimator_"):
        return _score_of(estimator.best_estimator_, X, n_labels, y_pred)
    if isinstance(estimator, MultiOutputClassifier) and not hasattr(estimator, "predict_proba"):
        return np.column_stack([_score_of(part, X, 1, None) for part in estimator.estimators_])
    way = _way_to_scores(estimator)
    classes: Any = getattr(estimator, "classes_", None)
    if n_labels == 1 and isinstance(classes, np.ndarray):
        classes = [classes]
    elif not isinstance(classes, (list, tuple)) or len(classes) != n_labels:
        classes = None  # they are not kept by label
    try:
        return as_matrix(getattr(estimator, way)(X), n_labels, classes)
    except ValueError:
        if getattr(estimator, "chain_method_", None) != "predict":
            raise
    # a chain of which some link saw one class only, which scikit-learn refuses
    stack = partial(sparse.hstack, format="csr") if sparse.issparse(X) else np.hstack
    columns = []
    for i, link in enumerate(estimator.estimators_):
        seen = stack([X, y_pred[:, estimator.order_[:i]]])
        columns.append(_score_of(link, seen, 1, None))
    return np.hstack(columns)[:, np.argsort(estimator.order_)]


def _inverted(y_score: Any, y_pred: Any) -> bool:
    """Whether most scores are lower where they are predicted: the other class's."""
    if sparse.issparse(y_score) or sparse.issparse(y_pred):
        return False
    on = y_pred != 0
    both = on.any(axis=0) & ~on.all(axis=0)
    y_score, on = y_score[:, both], on[:, both]
    with_label = np.sum(y_score, axis=0, where=on) / on.sum(axis=0)
    without = np.sum(y_score, axis=0, where=~on) / (~on).sum(axis=0)
    return bool((with_label < without).sum() > both.sum() / 2)


# ---- names for what nobody named -----------------------------------------------------------------

#: Parameters that change no result, and those that make a repeat of the same method.
_INCIDENTAL = {"n_jobs", "verbose", "memory", "copy_X"}
_SEEDS = {"random_state", "seed", "random_seed", "rng"}
_LONGEST = 120
#: Where a function lies in memory, as its text tells it.
_PLACE = re.compile(r" at 0x[0-9a-f]+")


class _Tuned:
    """Stands where a search tries values."""

    def __repr__(self) -> str:
        return "tuned"


def method_name(estimator: Any) -> str:
    """What scikit-learn shows of an estimator, without seeds and the like; of a search what it
    searches, with the parameters that it tunes. A long name is cut, and ends with a digest.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> method_name(OneVsRestClassifier(LogisticRegression(C=10, random_state=1)))
    'OneVsRestClassifier(estimator=LogisticRegression(C=10))'
    """
    tuned: dict[str, Any] = {}
    if _is_search(estimator):
        grids = getattr(estimator, "param_grid", None) or estimator.param_distributions
        for grid in [grids] if isinstance(grids, Mapping) else grids:
            tuned |= dict.fromkeys(grid, _Tuned())
        estimator = estimator.estimator
    name = _shown(estimator, tuned)
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 10]}… {sha256(name.encode()).hexdigest()[:8]}"


def params_of(estimator: Any) -> dict[str, str]:
    """The parameters of a run: the whole name as ``estimator``, and each parameter, seeds too, as
    text; of a search those of the winner. What changes no result is left out.

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> params = params_of(KNeighborsClassifier(7, n_jobs=2))
    >>> params["estimator"], params["n_neighbors"]
    ('KNeighborsClassifier(n_neighbors=7)', '7')
    """
    if _is_search(estimator):
        estimator = getattr(estimator, "best_estimator_", estimator.estimator)
    params = {"estimator": _shown(estimator, {})}
    values = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for name, value in values.items():
        parts = [value]  # whether any is an estimator, whose own parameters are told
        for pair in value if isinstance(value, (list, tuple)) else ():
            parts += pair if isinstance(pair, tuple) else ()
        holds = isinstance(value, type) or any(hasattr(part, "get_params") for part in parts)
        if not holds and name.rpartition("__")[2] not in _INCIDENTAL:
            params[name] = value if isinstance(value, str) else _value_as_text(value)
    return params


def _shown(estimator: Any, changes: dict[str, Any]) -> str:
    """The estimator as text, with these changes, without what makes no other method of it."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        return _value_as_text(estimator)
    try:
        shown = clone(estimator)
        values = shown.get_params()
        for name, value in values.items():
            path, _, own = name.rpartition("__")
            declared = inspect.signature(type(values.get(path, shown)).__init__).parameters
            default = declared[own].default if own in declared else inspect.Parameter.empty
            plain = value.item() if isinstance(value, np.generic) else value
            same = {type(plain), type(default)} <= {int, float} and plain == default
            if own in declared and (same or own in _INCIDENTAL | _SEEDS):
                plain = default
            if plain is not value and plain is not inspect.Parameter.empty:
                changes.setdefault(name, plain)
        shown.set_params(**changes)
    except Exception:  # as estimators of others may do
        shown = estimator
    with config_context(print_changed_only=True):
        return _value_as_text(shown).removesuffix("()")


def _value_as_text(value: Any) -> str:
    """A value, alike in every process and of whatever type of number."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, BaseEstimator):
        text = BaseEstimator.__repr__(plain, N_CHAR_MAX=10**6)
    else:
        text = repr(plain)
    return _PLACE.sub("", " ".join(text.split()))


def _is_search(estimator: Any) -> bool:
    """Whether it tries parameters of the estimator that it holds."""
    grids = hasattr(estimator, "param_grid") or hasattr(estimator, "param_distributions")
    return grids and hasattr(estimator, "get_params") and hasattr(estimator, "estimator")


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
    digests = [
        sha256(repr(sample(*arrays, size=512)).encode()).hexdigest()[:8]
        for arrays in ((X, Y), *([] if weights is None else [(weights,)]))
    ]
    return f"{size}-{' weights-'.join(digests)}"


def sample(*arrays: Any, size: int = 32) -> tuple[Any, ...]:
    """Shapes and some of the content: hashable, and cheap however large the arrays are."""
    samples: list[tuple[Any, bytes]] = []
    for array in arrays:
        whole, most = getattr(array, "shape", None) or len(array), size
        if sparse.issparse(array):
            array, most = array.tocsr().data, size**2  # its stored values, enough with the shape
        for axis, length in enumerate(getattr(array, "shape", (len(array),))[:2]):
            array = _safe_indexing(array, np.arange(0, length, max(1, length // most)), axis=axis)
        part = np.asarray(array) if hasattr(array, "shape") else None
        if part is None:
            text = repr(array).encode()
        elif part.dtype.kind in "buif":  # of one content, whatever it is kept in
            text = part.astype(float).tobytes()
        else:
            text = repr(part.tolist()).encode()
        samples.append((whole, text))
    return tuple(samples)


# ---- what MLflow's datasets and models hold ------------------------------------------------------

#: Options of the hierarchical measures; the `measures` of a configuration are those to log.
HIERARCHICAL = tuple(name for name in OPTIONS if name != "measures")
_INSTEAD = (
    "With arrays, scipy.sparse or a fitted estimator call "
    "mleval.log_evaluation(mleval.evaluate(y_true, y_score), method=..., dataset=...)."
)


@dataclass(frozen=True)
class _Request:
    """What MLflow asks for: the dataset, what predicts, and what the user configured."""

    model_type: str
    dataset: Any
    model: Any
    config: Mapping[str, Any]

    @property
    def one_label(self) -> bool:
        return self.model_type == "one_label"

    @property
    def named(self) -> dict[str, Any]:
        """The columns of predictions and scores that the configuration names."""
        given = {name: self.config.get(name) for name in ("predictions", "scores")}
        return {name: columns for name, columns in given.items() if columns is not None}

    @property
    def estimator(self) -> Any:
        """The scikit-learn estimator that was logged with ``predict``, else None."""
        about = getattr(getattr(self.model, "metadata", None), "flavors", {})
        flavor = about.get("python_function", {})
        predicts = flavor.get("predict_fn", "predict") == "predict"
        is_known = flavor.get("loader_module") == "mlflow.sklearn" and predicts
        return self.model.get_raw_model() if is_known else None

    @property
    def features(self) -> Any:
        """The data without what no model takes: the truth, and weights."""
        table, weights = self.dataset.features_data, self.config.get("sample_weights")
        if not isinstance(table, pd.DataFrame):
            return table
        own = [weights] if isinstance(weights, str) else []
        return table.drop(columns=[*_listed(self.config.get("targets", [])), *own])

    def options(self) -> dict[str, Any]:
        """Options of every evaluation; measures that are only computed when they are asked for."""
        config = self.config
        names = (*HIERARCHICAL, "threshold", "conventions")
        options = {name: config[name] for name in names if name in config}
        hierarchy, weights = config.get("hierarchy"), config.get("sample_weights")
        is_needed = hierarchy is not None or self.model_type == "hierarchical"
        if is_needed and not isinstance(hierarchy, Hierarchy):
            raise TypeError(
                "`evaluator_config['hierarchy']` must be a Hierarchy, got "
                f"{type(hierarchy).__name__}. Pass mleval.Hierarchy(edges)."
            )
        if isinstance(weights, str):
            data = self.dataset.features_data
            weights = column(_chosen(data, weights, "sample_weights", "the data"))
        wanted = expand(config.get("measures") or ())
        if asked := [m for m in wanted if m in MEASURES and MEASURES[m].asked]:
            options["measures"] = asked
        return options | {"hierarchy": hierarchy, "sample_weight": weights}

    def truth(self) -> tuple[AnyArray, Sequence[Any] | None]:
        """The targets as MLflow has them or by named columns, and the names of the labels."""
        columns, names = self.config.get("targets"), self.config.get("label_names")
        given = self.dataset.labels_data
        if columns is not None:
            if given is not None:
                raise ValueError(
                    "`evaluator_config['targets']` must be left out where MLflow knows them, got "
                    "both."
                )
            given = _chosen(self.dataset.features_data, columns, "targets", "the data")
            is_lists = given.shape[1] == 1 and given.dtypes.iloc[0].kind == "O"
            if not (self.one_label or is_lists):
                return given.to_numpy(), list(given.columns) if names is None else names
        if given is None:
            raise ValueError(
                "`targets` must be given, got none: an array, one column of lists or classes, or "
                f"columns by label in evaluator_config={{'targets': [...]}}. {_INSTEAD}"
            )
        truth = np.asarray(given)
        if self.one_label or truth.dtype == object:
            truth = column(truth)
        if self.one_label and not is_vector(truth):
            raise ValueError(
                "`targets` must hold one class for each instance with this `model_type`, got shape "
                f"{truth.shape} of {type(truth.flat[0]).__name__}. Label sets are "
                "model_type='multilabel', sets of classes 'hierarchical'."
            )
        if not self.one_label and truth.ndim == 1 and truth.dtype != object:
            raise ValueError(
                "`targets` must hold the labels of each instance, got one value an instance "
                f"({truth[0]!r}, ...). Pass a matrix of 0 and 1, or a column of lists; one label "
                f"of several classes is model_type='one_label'. {_INSTEAD}"
            )
        return truth, names

    def of_estimator(self, estimator: Any, names: Sequence[Any] | None) -> Predictions | None:
        """What a scikit-learn estimator says, with scores; None without one, or with columns."""
        lacks = self.one_label and not hasattr(estimator, "classes_")
        if estimator is None or self.named or lacks:
            return None
        labels: Any = len(names or ())
        if self.one_label:
            labels = np.asarray(estimator.classes_ if names is None else names).tolist()
        table, schema = self.features, self.model.metadata.get_input_schema()
        if isinstance(table, pd.DataFrame) and schema is not None and schema.has_input_names():
            # the columns that the model was logged with, in their order, as MLflow would hand them
            # over
            table = table[[name for name in schema.input_names() if name in table]]
        predictions = predict(estimator, table, labels)
        if predictions.without_score:
            reason = f"mleval: there are no scores ({predictions.without_score})"
            warnings.warn(reason, stacklevel=4)
        return predictions

    def of_sets(self, truth: AnyArray, options: dict[str, Any]) -> Evaluation:
        """The evaluation of lists of classes."""
        for name in ("threshold", "conventions", "scores"):
            if name in self.config:
                why = "must be left out for sets of classes"
                raise ValueError(f"`evaluator_config[{name!r}]` {why}.")
        raw, options["predict_time"] = self.output()
        sets, h = raw["predictions"], options.pop("hierarchy")
        sets = list(sets if isinstance(sets, list) else column(sets))
        return evaluate_hierarchical(list(truth), sets, h, **options)

    def output(self) -> tuple[dict[str, Any], float | None]:
        """What is predicted as it came, and the seconds that a model took."""
        table, seconds, where = self.dataset.features_data, None, "the data"
        whole = self.dataset.predictions_data
        if self.model is not None:
            start = time.perf_counter()
            table = whole = self.model.predict(self.features)
            seconds, where = time.perf_counter() - start, "the model's output"
        elif not self.named and whole is None:
            raise ValueError(
                "`predictions` must be given without a model, got none: one column of lists, or "
                f"columns by label in evaluator_config={{'predictions': [...]}}. {_INSTEAD}"
            )
        if not self.named:
            return {"predictions": whole}, seconds
        sides = {name: _chosen(table, by, name, where) for name, by in self.named.items()}
        return sides, seconds


def evaluate_output(
    model_type: str, dataset: Any, model: Any, config: Mapping[str, Any]
) -> tuple[Evaluation, Any]:
    """Evaluate what a model returns, or a dataset holds; with the scikit-learn estimator."""
    asked = _Request(model_type, dataset, model, config)
    (truth, names), estimator, options = asked.truth(), asked.estimator, asked.options()
    if model_type == "hierarchical" and names is None and truth.ndim == 1:
        return asked.of_sets(truth, options), estimator
    if not asked.one_label:
        is_matrix = truth.ndim == 2 and truth.dtype != object
        truth = truth if is_matrix else stacked(truth, "the targets")
        names = list(range(truth.shape[1])) if names is None else list(names)
    predictions = asked.of_estimator(estimator, names)
    if predictions is None:
        raw, seconds = asked.output()
        sides = _sides(raw, None if asked.one_label else names)
        predictions = Predictions(sides.get("y_score"), sides.get("y_pred"), seconds)
    elif asked.one_label and names is None:
        names = np.asarray(estimator.classes_).tolist()
    if "threshold" in config and not asked.one_label and predictions.y_score is not None:
        predictions = replace(predictions, y_pred=None)
    return predictions.evaluated(truth, label_names=names, **options), estimator


def _sides(raw: Mapping[str, Any], names: Sequence[Any] | None) -> dict[str, Any]:
    """``y_score`` and ``y_pred`` of what is predicted; what is not 0 and 1 is scores."""
    sides: dict[str, Any] = {}
    for name, given in raw.items():
        if names is None:
            values = column(given)
            is_pred = values.ndim == 1
        else:
            by_name = isinstance(given, pd.DataFrame) and set(names) <= set(given.columns)
            values = as_matrix(given[list(names)] if by_name else given, len(names))
            values = values.toarray() if sparse.issparse(values) else values
            is_pred = bool(((values == 0) | (values == 1)).all())
        side = "y_pred" if name == "predictions" and is_pred else "y_score"
        if side in sides:
            raise ValueError("`evaluator_config['predictions']` must be 0 and 1 beside scores.")
        sides[side] = values
    return sides


def _listed(columns: Any) -> list[Any]:
    return [columns] if isinstance(columns, str) else list(columns)


def _chosen(table: Any, columns: Any, name: str, where: str) -> pd.DataFrame:
    columns = _listed(columns)
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"`evaluator_config[{name!r}]` must be left out unless {where} is a DataFrame, got "
            f"{type(table).__name__}. {_INSTEAD}"
        )
    if missing := [column for column in columns if column not in table]:
        raise ValueError(
            f"`evaluator_config[{name!r}]` must name columns of {where}, got "
            f"{', '.join(map(repr, missing[:5]))} ({len(missing)} are not there)."
        )
    return table[columns]
