"""What models say, and what MLflow's data hold, in whatever shape; names for what nobody named."""

from __future__ import annotations

import inspect
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.model_selection._search import BaseSearchCV
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import type_of_target

from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical
from mlflow_mleval.measures.hierarchical import OPTIONS
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.one_label import classes_of, is_vector
from mlflow_mleval.measures.registry import MEASURES, expand
from mlflow_mleval.store.schema import sha256_of
from mlflow_mleval.validation import AnyArray

#: Ways to a score in order of preference, and the score from which on a label is predicted.
SCORE_METHODS = {"predict_proba": 0.5, "decision_function": 0.0}


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says about N instances: of K labels as matrices, of one label its classes, and
    scores with a column for each class or of the second of two."""

    y_score: Any
    y_pred: Any
    predict_time: float | None = None
    without_score: str = ""  #: why there are no scores
    is_probability: bool = True  #: of the scores of one label

    def of_rows(self, rows: Any) -> Predictions:
        """What it says about some of the instances."""
        score, pred = (None if side is None else side[rows] for side in (self.y_score, self.y_pred))
        return replace(self, y_score=score, y_pred=pred)

    def evaluated(self, truth: Any, **options: Any) -> Evaluation:
        """Their evaluation, with the options of `evaluate`."""
        if is_vector(truth) and not self.is_probability:
            options["probabilities"] = False
        options = {"predict_time": self.predict_time} | options
        return evaluate(truth, self.y_score, self.y_pred, **options)


def labels_of(Y: Any) -> int | list[Any] | None:
    """The number of labels of a matrix of 0 and 1 with several columns, the classes of one label;
    None of anything else, as of measurements."""
    try:
        kind = type_of_target(Y)
        if kind == "multilabel-indicator":
            return np.shape(Y)[1]
        is_one = kind in ("binary", "multiclass") and is_vector(Y)
        return np.unique(classes_of(Y, "y")).tolist() if is_one else None
    except (ValueError, TypeError):
        return None


def refuse_regressor(estimator: Any) -> None:
    if hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator):
        raise TypeError(
            f"`estimator` must be a classifier, got {type(estimator).__name__}: mleval evaluates "
            "no regression."
        )


def predict(estimator: Any, X: Any, labels: int | Sequence[Any]) -> Predictions:
    """Label predictions and scores of a fitted estimator, or why it gives no scores. `labels` is K,
    or the classes of one label: one that the estimator does not know has the probability 0."""
    start = time.perf_counter()
    # those of others, such as of imbalanced-learn, may do more than transform and ask the last step
    while type(estimator) is Pipeline or (
        isinstance(estimator, BaseSearchCV) and hasattr(estimator, "best_estimator_")
    ):
        if type(estimator) is Pipeline:
            X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        else:
            estimator = estimator.best_estimator_
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
    y_pred = predicted(raw, labels)
    try:
        y_score, is_probability = _scores(estimator, X, labels, y_pred)
    except Exception as error:  # an estimator may raise anything, and its predictions are good
        return Predictions(None, y_pred, seconds, f"{type(error).__name__}: {error}")
    return Predictions(y_score, y_pred, seconds, is_probability=is_probability)


def _scores(estimator: Any, X: Any, labels: int | Sequence[Any], y_pred: Any) -> tuple[Any, bool]:
    """The scores, and whether they are probabilities of classes."""
    way = next(filter(partial(hasattr, estimator), SCORE_METHODS), "")
    of_pairs = getattr(estimator, "decision_function_shape", "ovr") == "ovo"
    if not isinstance(labels, int) and len(labels) > 2 and of_pairs and way != "predict_proba":
        raise ValueError("its decision values are of pairs of classes ('ovo')")
    try:
        if not way:
            known = hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator)
            has = "is a regressor and has" if known else "has"
            raise AttributeError(
                f"{type(estimator).__name__} {has} neither predict_proba nor decision_function"
            )
        given = getattr(estimator, way)(X)
        y_score, is_probability = scored(given, way, getattr(estimator, "classes_", None), labels)
    except (AttributeError, ValueError):
        # scikit-learn has none of several labels, or of a chain with a label of one class
        by_label = isinstance(estimator, (MultiOutputClassifier, ClassifierChain))
        if by_label and getattr(estimator, "chain_method_", "predict") == "predict":
            return _by_label(estimator, X, y_pred), False
        raise
    is_sparse = any(map(sparse.issparse, (y_score, y_pred)))
    if isinstance(labels, int) and y_pred is not None and not is_sparse:
        # most scores are lower where they are predicted: they are the other class's
        differs = y_pred - np.mean(y_pred, axis=0)
        covariance = np.sum(differs * y_score, axis=0)
        if (covariance < -1e-9).sum() > differs.any(axis=0).sum() / 2:
            raise ValueError("the scores are those of the absent labels")
    return y_score, is_probability


def _by_label(estimator: Any, X: Any, y_pred: Any) -> AnyArray:
    """Scores of the estimator of each label, of which those of a chain see earlier labels."""
    order = getattr(estimator, "order_", None)
    stack = partial(sparse.hstack, format="csr") if sparse.issparse(X) else np.hstack
    columns = []
    for i, part in enumerate(estimator.estimators_):
        seen = X if order is None else stack([X, y_pred[:, order[:i]]])
        columns.append(_scores(part, seen, 1, None)[0])
    return np.hstack(columns)[:, slice(None) if order is None else np.argsort(order)]


def predicted(raw: Any, labels: int | Sequence[Any]) -> Any:
    """Predictions in the one shape in which they are evaluated."""
    if isinstance(labels, int):
        return as_matrix(raw, labels)
    if (classes := column(raw)).ndim != 1:
        want = "one class for each instance"
        raise ValueError(f"the estimator must return {want}, got shape {classes.shape}.")
    return classes


def scored(raw: Any, way: str, trained: Any, labels: int | Sequence[Any]) -> tuple[Any, bool]:
    """Scores of all classes or labels, of what a method of an estimator with these classes gives,
    and whether they are probabilities of classes."""
    is_probability = way == "predict_proba"
    if isinstance(labels, int):
        by_label = trained if isinstance(trained, list) else [trained]
        known = by_label if len(by_label) == labels else None
        return as_matrix(raw, labels, known), is_probability
    scores, own, classes = np.asarray(raw, dtype=float), np.asarray(trained).tolist(), list(labels)
    if not np.isfinite(scores).all():
        raise ValueError("some scores are NaN or infinite")
    if scores.ndim == 1 and own == classes:
        return scores, is_probability
    if scores.shape[1:] != (len(own),) or not (own == classes or is_probability):
        raise ValueError(
            f"there are scores of shape {scores.shape} for {len(own)} classes of {len(classes)}"
        )
    of_all = np.zeros((len(scores), len(classes)))
    of_all[:, [classes.index(name) for name in own]] = scores
    return of_all, is_probability


def column(values: Any) -> AnyArray:
    """Values as an array, a single column of them as a vector."""
    array = np.asarray(values)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def as_matrix(raw: Any, n_labels: int, classes: Sequence[Any] | None = None) -> Any:
    """A matrix N x K of what comes as an array, scipy.sparse, a table, a column of lists, or a list
    of K arrays, (N,), (N, 2) or, of one class, (N, 1); `classes` are each label's, else 0 and 1."""
    own = classes or [None] * n_labels
    is_list = isinstance(raw, (list, tuple)) and len(raw) == n_labels
    if is_list and all(hasattr(part, "shape") for part in raw):
        return np.column_stack([*map(_positive, raw, own)])
    matrix = raw if sparse.issparse(raw) else np.asarray(raw)
    if matrix.dtype == object and 1 in (matrix.ndim, *matrix.shape[1:]):
        matrix = stacked(column(matrix), "the predictions")
    if n_labels == 1 and (matrix.ndim == 1 or matrix.shape[1] == 2 or own[0] is not None):
        matrix = _positive(matrix, own[0])[:, None]
    if matrix.ndim != 2 or matrix.shape[1] != n_labels:
        raise ValueError(
            f"the estimator must return one column for each of the {n_labels} labels, got shape "
            f"{matrix.shape}."
        )
    return matrix


def stacked(rows: Any, what: str) -> AnyArray:
    """Rows of equal length as a matrix of numbers."""
    try:
        matrix = np.stack([*rows])
    except ValueError:
        matrix = np.empty(0)
    if matrix.ndim != 2 or matrix.dtype.kind not in "buif":
        raise ValueError(
            f"{what} must hold as many numbers for each instance as there are labels, got "
            f"{list(rows[:2])!r}, ..."
        )
    return matrix


def _positive(given: Any, classes: Any) -> AnyArray:
    """The column of class 1; constant where the label has only one class."""
    part, own = np.asarray(given), [0, 1] if classes is None else np.asarray(classes).tolist()
    if part.shape[1:] != (len(own),):
        return part
    return part[:, own.index(1)] if 1 in own else np.zeros(len(part))


# ---- names for what nobody named -----------------------------------------------------------------

#: Parameters that change no result, and those that make a repeat of the same method.
_INCIDENTAL = {"n_jobs", "verbose", "memory", "copy_X"}
_SEEDS = {"random_state", "seed", "random_seed", "rng"}
_LONGEST = 120
#: Where a function lies in memory, as its text tells it.
_PLACE = re.compile(r" at 0x[0-9a-f]+")


@dataclass
class _Shown:
    """A value, also in lists, as scikit-learn shows it, of whatever type of number; of an estimator
    what makes another method of it."""

    value: Any

    def __repr__(self) -> str:
        value = self.value
        if type(value) in (list, tuple):
            return repr(type(value)(map(_Shown, value)))
        if isinstance(value, type) or not hasattr(value, "get_params"):
            text = repr(value.item() if isinstance(value, np.generic) else value)
            return _as_text(text).removesuffix(".0")
        own, declared = value.get_params(deep=False), inspect.signature(type(value)).parameters
        told = []
        for name in sorted(own.keys() - _INCIDENTAL - _SEEDS):
            default = declared[name].default if name in declared else None
            if (text := repr(_Shown(own[name]))) != repr(_Shown(default)):
                told.append(f"{name}={text}")
        return f"{type(value).__name__}({', '.join(told)})"


class _Tuned:
    """Stands where a search tries values."""

    def __repr__(self) -> str:
        return "tuned"

    def set_params(self, **params: Any) -> None:
        """Of what a search tries here, it tries parameters, too."""


def method_name(estimator: Any) -> str:
    """What scikit-learn shows of an estimator, without seeds and the like; of a search what it
    searches, with the parameters that it tunes. A long name is cut, and ends with a digest."""
    if tuned := _tuned(estimator):
        estimator = clone(estimator.estimator).set_params(**dict.fromkeys(tuned, _Tuned()))
    name = _shown(estimator)
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 10]}… {sha256_of(name)[:8]}"


def params_of(estimator: Any) -> dict[str, str]:
    """The parameters of a run: the whole name as ``estimator``, and each parameter, seeds too, as
    text; of a search those of the winner. What changes no result is left out."""
    if _tuned(estimator):
        estimator = getattr(estimator, "best_estimator_", estimator.estimator)
    params = {"estimator": _shown(estimator)}
    values = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for name, value in values.items():
        # an estimator, or named ones, whose own parameters are told
        named = isinstance(value, list) and any(isinstance(part, tuple) for part in value)
        is_told = named or hasattr(value, "get_params")
        if not is_told and name.rpartition("__")[2] not in _INCIDENTAL:
            params[name] = value if isinstance(value, str) else _as_text(str(value))
    return params


def _as_text(text: str) -> str:
    """In one line, and alike in every process."""
    return _PLACE.sub("", " ".join(text.split()))


def _shown(estimator: Any) -> str:
    try:
        return repr(_Shown(estimator)).removesuffix("()")
    except Exception:  # as estimators of others may raise
        return _as_text(repr(estimator))


def _tuned(estimator: Any) -> set[str]:
    """The parameters that a search tries of the estimator that it holds."""
    grids = getattr(estimator, "param_grid", None) or getattr(estimator, "param_distributions", [])
    return {*chain.from_iterable([grids] if isinstance(grids, Mapping) else grids)}


def dataset_name(X: Any, Y: Any, weights: Any = None) -> str:
    """Instances, labels (or classes) and a digest of a sample of both, and of weights, such as
    ``569x6 labels-1a2b3c4d``."""
    if is_vector(Y):
        name = f"{len(Y)}x{len(np.unique(classes_of(Y, 'Y')))} classes"
    else:
        name = "{}x{} labels".format(*np.shape(Y))
    for what, arrays in (("", (X, Y)), (" weights", (weights,))):
        if arrays[0] is not None:
            name += f"{what}-{sha256_of(repr(sample(*arrays, size=512)))[:8]}"
    return name


def sample(*arrays: Any, size: int = 32) -> tuple[Any, ...]:
    """Shapes and some of the content: hashable, and cheap however large the arrays are."""
    samples: list[tuple[Any, bytes]] = []
    for array in arrays:
        whole, most = getattr(array, "shape", None) or len(array), size
        if sparse.issparse(array):
            array, most = array.tocsr().data, size**2  # its stored values, enough with the shape
        for axis, length in enumerate(getattr(array, "shape", (len(array),))[:2]):
            array = _safe_indexing(array, slice(None, None, max(1, length // most)), axis=axis)
        part = np.asarray(array, dtype=None if hasattr(array, "shape") else object)
        # of one content, whatever it is kept in
        is_number = part.dtype.kind in "buif"
        text = part.astype(float).tobytes() if is_number else repr(part.tolist()).encode()
        samples.append((whole, text))
    return tuple(samples)


# ---- what MLflow's datasets and models hold ------------------------------------------------------

#: Options of the hierarchical measures; the `measures` of a configuration are those to log.
HIERARCHICAL = tuple(name for name in OPTIONS if name != "measures")
_INSTEAD = (
    "With arrays, scipy.sparse or a fitted estimator call "
    "mleval.log_evaluation(mleval.evaluate(y_true, y_score), method=..., dataset=...)."
)


def evaluate_output(
    model_type: str, dataset: Any, model: Any, config: Mapping[str, Any]
) -> tuple[Evaluation, Any]:
    """Evaluate what a model returns, or a dataset holds; with the scikit-learn estimator."""
    one_label = model_type == "one_label"
    truth, names = _truth(model_type, dataset, config)
    options = _options(model_type == "hierarchical", dataset, config)
    estimator = _estimator(model)
    if names is None and not one_label:
        if others := sorted({"threshold", "conventions", "scores"} & config.keys()):
            name = f"`evaluator_config[{others[0]!r}]`"
            raise ValueError(f"{name} must be left out for sets of classes.")
        output, seconds = _output(dataset, model, config)
        sets, hierarchy = output["predictions"], options.pop("hierarchy")
        sets = list(sets if isinstance(sets, list) else column(sets))
        options["predict_time"] = seconds
        return evaluate_hierarchical(list(truth), sets, hierarchy, **options), estimator
    named = config.get("predictions"), config.get("scores")
    if named == (None, None) and hasattr(estimator, "classes_" if one_label else "predict"):
        names = np.asarray(estimator.classes_).tolist() if names is None else names
        inputs = _features(dataset, config, model.metadata.get_input_schema())
        predictions = predict(estimator, inputs, names if one_label else len(names))
        if reason := predictions.without_score:
            warnings.warn(f"mleval: there are no scores ({reason})", stacklevel=3)
    else:
        predictions = _sides(*_output(dataset, model, config), None if one_label else names)
    if "threshold" in config and not one_label and predictions.y_score is not None:
        predictions = replace(predictions, y_pred=None)
    return predictions.evaluated(truth, label_names=names, **options), estimator


def _estimator(model: Any) -> Any:
    """The scikit-learn estimator that was logged with ``predict``, else None."""
    flavor = getattr(getattr(model, "metadata", None), "flavors", {}).get("python_function", {})
    predicts = flavor.get("predict_fn", "predict") == "predict"
    is_known = flavor.get("loader_module") == "mlflow.sklearn" and predicts
    return model.get_raw_model() if is_known else None


def _truth(
    model_type: str, dataset: Any, config: Mapping[str, Any]
) -> tuple[AnyArray, list[Any] | None]:
    """The targets, and the names of the labels, which sets of classes have none of."""
    one_label, names = model_type == "one_label", config.get("label_names")
    given = _targets(dataset, config)
    truth = np.asarray(given)
    if one_label or truth.dtype == object:
        truth = column(truth)
    if is_vector(truth) != one_label:
        got = f"one value an instance ({truth[0]!r}, ...)" if truth.ndim == 1 else truth.shape
        raise ValueError(
            f"`targets` must hold {'one class' if one_label else 'the labels'} of each instance "
            f"with this `model_type`, got {got}. Label sets are model_type='multilabel', sets of "
            f"classes 'hierarchical', one class of several 'one_label'. {_INSTEAD}"
        )
    if not one_label and (truth.ndim == 2 or names is not None or model_type != "hierarchical"):
        truth = stacked(truth, "the targets") if truth.dtype == object else truth
        if names is None:
            columns = list(given) if config.get("targets") is not None else []
            names = columns if len(columns) == truth.shape[1] else range(truth.shape[1])
    return truth, names if names is None else list(names)


def _targets(dataset: Any, config: Mapping[str, Any]) -> Any:
    """As MLflow has them, or by named columns."""
    columns, given = config.get("targets"), dataset.labels_data
    if columns is not None and given is not None:
        raise ValueError(
            "`evaluator_config['targets']` must be left out where MLflow knows them, got both."
        )
    if columns is not None:
        return _chosen(dataset.features_data, columns, "targets", "the data")
    if given is None:
        raise ValueError(
            "`targets` must be given, got none: an array, one column of lists or classes, or "
            f"columns by label in evaluator_config={{'targets': [...]}}. {_INSTEAD}"
        )
    return given


def _options(is_tree: bool, dataset: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Options of every evaluation; measures that are only computed when they are asked for."""
    names = (*HIERARCHICAL, "threshold", "conventions")
    options = {name: config[name] for name in names if name in config}
    hierarchy, weights = config.get("hierarchy"), config.get("sample_weights")
    if (is_tree or hierarchy is not None) and not isinstance(hierarchy, Hierarchy):
        raise TypeError(
            "`evaluator_config['hierarchy']` must be a Hierarchy, got "
            f"{type(hierarchy).__name__}. Pass mleval.Hierarchy(edges)."
        )
    if isinstance(weights, str):
        weights = column(_chosen(dataset.features_data, weights, "sample_weights", "the data"))
    wanted = expand(config.get("measures") or ())
    if asked := [m for m in wanted if m in MEASURES and MEASURES[m].asked]:
        options["measures"] = asked
    return options | {"hierarchy": hierarchy, "sample_weight": weights}


def _features(dataset: Any, config: Mapping[str, Any], schema: Any = None) -> Any:
    """The data without what no model takes, the truth and weights; with the schema of a logged
    model its columns in their order, as MLflow hands them over."""
    table, weights = dataset.features_data, config.get("sample_weights")
    if not isinstance(table, pd.DataFrame):
        return table
    targets = config.get("targets") or []
    own = [weights] if isinstance(weights, str) else []
    table = table.drop(columns=[*([targets] if isinstance(targets, str) else targets), *own])
    if schema is None or not schema.has_input_names():
        return table
    return table[[name for name in schema.input_names() if name in table]]


def _output(
    dataset: Any, model: Any, config: Mapping[str, Any]
) -> tuple[dict[str, Any], float | None]:
    """What is predicted as it came, and the seconds that a model took."""
    table, whole, where = dataset.features_data, dataset.predictions_data, "the data"
    seconds = None
    if model is not None:
        start = time.perf_counter()
        table = whole = model.predict(_features(dataset, config))
        seconds, where = time.perf_counter() - start, "the model's output"
    sides = {}
    for name in ("predictions", "scores"):
        if (columns := config.get(name)) is not None:
            sides[name] = _chosen(table, columns, name, where)
    if not sides and whole is None:
        raise ValueError(
            "`predictions` must be given without a model, got none: one column of lists, or "
            f"columns by label in evaluator_config={{'predictions': [...]}}. {_INSTEAD}"
        )
    return sides or {"predictions": whole}, seconds


def _sides(
    raw: Mapping[str, Any], seconds: float | None, names: Sequence[Any] | None
) -> Predictions:
    """Scores and predictions; what is not 0 and 1 is scores."""
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
    return Predictions(sides.get("y_score"), sides.get("y_pred"), seconds)


def _chosen(table: Any, columns: Any, name: str, where: str) -> pd.DataFrame:
    columns = [columns] if isinstance(columns, str) else list(columns)
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"`evaluator_config[{name!r}]` must be left out unless {where} is a DataFrame, got "
            f"{type(table).__name__}. {_INSTEAD}"
        )
    if missing := [column for column in columns if column not in table]:
        raise ValueError(
            f"`evaluator_config[{name!r}]` must name columns of {where}, got "
            f"{', '.join(map(repr, missing[:5]))}."
        )
    return table[columns]
