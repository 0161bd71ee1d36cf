"""What MLflow's datasets and models hold, in each of their shapes, as truth and predictions."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical
from mlflow_mleval.files.predictions import read_hierarchy
from mlflow_mleval.measures.hierarchical import OPTIONS
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.one_label import is_vector
from mlflow_mleval.measures.registry import MEASURES, expand
from mlflow_mleval.training import estimators
from mlflow_mleval.validation import AnyArray

#: Options of the hierarchical measures that a configuration may hold; its `measures` are those to
#: log.
HIERARCHICAL = tuple(name for name in OPTIONS if name != "measures")
_INSTEAD = (
    "With arrays, scipy.sparse or a fitted estimator call "
    "mleval.log_evaluation(mleval.evaluate(y_true, y_score), method=..., dataset=...)."
)


def evaluate_output(
    model_type: str, dataset: Any, model: Any, config: Mapping[str, Any]
) -> tuple[Evaluation, Any]:
    """Evaluate what a model returns for a dataset, or the predictions that the dataset holds; with
    the scikit-learn estimator.

    Parameters
    ----------
    model_type : {"multilabel", "hierarchical", "one_label"}
    dataset : mlflow.data.evaluation_dataset.EvaluationDataset
    model : mlflow.pyfunc.PyFuncModel, or None
    config : mapping
        The options, see `mlflow_mleval.training.evaluator.MlevalEvaluator`.

    Raises
    ------
    ValueError, TypeError
        Truth or predictions are missing or have a shape that cannot be used; the text says what
        can.
    """
    config = {**config, "hierarchy": _hierarchy(config.get("hierarchy"))}
    if model_type == "one_label":
        return _evaluate_classes(dataset, model, config)
    truth, names = _truth(dataset, config)
    if model_type == "hierarchical" and names is None and truth.ndim == 1:
        return _evaluate_sets(truth, dataset, model, config)
    truth = _matrix(truth, "the targets")
    names = list(range(truth.shape[1])) if names is None else list(names)
    estimator = _estimator(model)
    raw, seconds = _output(dataset, model, estimator, config, len(names))
    sides = _labels(raw, names)
    if "threshold" in config and "y_score" in sides:
        sides.pop("y_pred", None)
    options = _options(dataset, config, *_FLAT)
    return evaluate(truth, **sides, label_names=names, predict_time=seconds, **options), estimator


#: Options of `evaluate` that a configuration may hold, beside those of a hierarchy.
_FLAT = ("threshold", "conventions", "hierarchy")


def _options(dataset: Any, config: Mapping[str, Any], *further: str) -> dict[str, Any]:
    """The options of the evaluation that the configuration holds."""
    own = {name: config[name] for name in (*HIERARCHICAL, *further) if name in config}
    return own | {"sample_weight": _weights(dataset, config)} | _on_request(config)


def _evaluate_sets(
    truth: Any, dataset: Any, model: Any, config: Mapping[str, Any]
) -> tuple[Evaluation, Any]:
    """The same of sets of classes by name."""
    if wrong := [name for name in ("threshold", "conventions", "scores") if name in config]:
        raise ValueError(
            f"`evaluator_config[{wrong[0]!r}]` must be left out for sets of classes. They need "
            "it for nothing."
        )
    estimator = _estimator(model)
    raw, seconds = _output(dataset, model, estimator, config, None)
    predicted = list(_column(raw["predictions"]))
    options = _options(dataset, config)
    ev = evaluate_hierarchical(
        list(truth), predicted, config["hierarchy"], predict_time=seconds, **options
    )
    return ev, estimator


def _evaluate_classes(
    dataset: Any, model: Any, config: Mapping[str, Any]
) -> tuple[Evaluation, Any]:
    """The same of one label of several classes."""
    truth = _true_classes(dataset, config.get("targets"))
    names = config.get("label_names")
    estimator = _estimator(model)
    options = _options(dataset, config, *_FLAT)
    are_named = not {"predictions", "scores"}.isdisjoint(config)
    if estimator is None or not hasattr(estimator, "classes_") or are_named:
        raw, options["predict_time"] = _output(dataset, model, None, config, None)
        return evaluate(truth, **_classes(raw), label_names=names, **options), estimator
    table = _without_others(dataset.features_data, config)
    names = np.asarray(estimator.classes_).tolist() if names is None else list(names)
    predictions = estimators.predict(estimator, _inputs(model, table), names)
    _warn_without_scores(predictions)
    return predictions.evaluated(truth, label_names=names, **options), estimator


def _true_classes(dataset: Any, columns: Any) -> AnyArray:
    """The class of each instance, as MLflow hands it over or from the column that is named."""
    truth = dataset.labels_data
    if columns is not None:
        truth = _chosen(dataset.features_data, columns, "targets", "the data").iloc[:, 0]
    if truth is None:
        raise ValueError(
            f"`targets` must be given, got none: one class for each instance. {_INSTEAD}"
        )
    classes = estimators.column(truth)
    if not is_vector(classes):
        raise ValueError(
            "`targets` must hold one class for each instance with this `model_type`, got shape "
            f"{classes.shape} of {type(classes.flat[0]).__name__}. Label sets are "
            "model_type='multilabel', sets of classes 'hierarchical'."
        )
    return classes


def _classes(raw: Mapping[str, Any]) -> dict[str, Any]:
    """``y_score`` and ``y_pred`` of what is predicted of one label."""
    sides: dict[str, Any] = {}
    for name, values in raw.items():
        array = estimators.column(values)
        sides["y_score" if name == "scores" or array.ndim == 2 else "y_pred"] = array
    return sides


def _warn_without_scores(predictions: estimators.Predictions) -> None:
    if predictions.without_score:
        warnings.warn(f"mleval: there are no scores ({predictions.without_score})", stacklevel=4)


def _on_request(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Those of the measures to log that are computed only if they are named."""
    names = [m for m in expand(config.get("measures") or ()) if m in MEASURES and MEASURES[m].asked]
    return {"measures": names} if names else {}


def _hierarchy(given: Any) -> Hierarchy | None:
    if given is None or isinstance(given, Hierarchy):
        return given
    return read_hierarchy(given) if isinstance(given, (str, Path)) else Hierarchy(given)


def _truth(dataset: Any, config: Mapping[str, Any]) -> tuple[AnyArray, Sequence[Any] | None]:
    """The targets as MLflow hands them over, and the names of the labels where they are given."""
    columns, truth = config.get("targets"), dataset.labels_data
    if columns is not None:
        if truth is not None:
            raise ValueError(
                "`evaluator_config['targets']` must be left out where MLflow knows the targets, "
                "got both."
            )
        table = _chosen(dataset.features_data, columns, "targets", "the data")
        if not _is_column_of_lists(table):
            return table.to_numpy(), config.get("label_names", list(table.columns))
        truth = table.iloc[:, 0].to_numpy()
    if truth is None:
        raise ValueError(
            "`targets` must be given, got none: an array, one column of lists, or columns by "
            f"label in evaluator_config={{'targets': [...]}}. {_INSTEAD}"
        )
    truth = np.asarray(truth)
    if truth.ndim == 1 and truth.dtype != object:
        raise ValueError(
            "`targets` must hold the labels of each instance, got one value an instance "
            f"({truth[0]!r}, ...). Pass a matrix of 0 and 1, or a column of lists; one label of "
            f"several classes is model_type='one_label'. {_INSTEAD}"
        )
    return truth, config.get("label_names")


def _output(
    dataset: Any, model: Any, estimator: Any, config: Mapping[str, Any], n_labels: int | None
) -> tuple[dict[str, Any], float | None]:
    """What is predicted, as it came (``predictions``, ``scores`` or both), and the seconds that a
    model took.
    """
    named = {
        name: config[name] for name in ("predictions", "scores") if config.get(name) is not None
    }
    table = dataset.features_data
    if model is None:
        if not named and dataset.predictions_data is None:
            raise ValueError(
                "`predictions` must be given without a model, got none: one column of lists, "
                f"or columns by label in evaluator_config={{'predictions': [...]}}. {_INSTEAD}"
            )
        output, seconds, where = table, None, "the data"
        whole = dataset.predictions_data
    elif estimator is not None and not named and n_labels is not None:
        inputs = _inputs(model, _without_others(table, config))
        predictions = estimators.predict(estimator, inputs, n_labels)
        _warn_without_scores(predictions)
        sides = {"predictions": predictions.y_pred, "scores": predictions.y_score}
        there = {name: side for name, side in sides.items() if side is not None}
        return there, predictions.predict_time
    else:
        start = time.perf_counter()
        output = whole = model.predict(_without_others(table, config))
        seconds, where = time.perf_counter() - start, "the model's output"
    if not named:
        return {"predictions": whole}, seconds
    return {name: _chosen(output, columns, name, where) for name, columns in named.items()}, seconds


def _without_others(table: Any, config: Mapping[str, Any]) -> Any:
    """The data without what no model takes: the truth, and weights."""
    if not isinstance(table, pd.DataFrame):
        return table
    weights = config.get("sample_weights")
    own = [weights] if isinstance(weights, str) else []
    return table.drop(columns=[*_listed(config.get("targets", [])), *own])


def _weights(dataset: Any, config: Mapping[str, Any]) -> Any:
    """The weights of the instances: a column of the data, an array, or None."""
    given = config.get("sample_weights")
    if not isinstance(given, str):
        return given
    return _chosen(dataset.features_data, given, "sample_weights", "the data").iloc[:, 0].to_numpy()


def _labels(raw: Mapping[str, Any], names: Sequence[Any]) -> dict[str, Any]:
    """``y_score`` and ``y_pred`` of what is predicted; predictions other than 0 and 1 are
    scores.
    """
    sides: dict[str, Any] = {}
    for name, values in raw.items():
        if isinstance(values, pd.DataFrame) and not _is_column_of_lists(values):
            values = values[list(names)] if set(names) <= set(values.columns) else values
            matrix = estimators.as_matrix(values, len(names))
        elif isinstance(values, (pd.DataFrame, pd.Series)):
            matrix = _matrix(_column(values), f"the {name}")
        else:
            rows = isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1
            matrix = estimators.as_matrix(
                _matrix(values, f"the {name}") if rows else values, len(names)
            )
        if sparse.issparse(matrix):
            matrix = matrix.toarray()
        binary = name == "predictions" and ((matrix == 0) | (matrix == 1)).all()
        if ("y_pred" if binary else "y_score") in sides:
            raise ValueError(
                "`evaluator_config['predictions']` must hold 0 and 1 where there are scores too, "
                "got others."
            )
        sides["y_pred" if binary else "y_score"] = matrix
    return sides


def _matrix(values: Any, what: str) -> AnyArray:
    """Rows of equal length as a matrix."""
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return values
    try:
        matrix = np.array([np.asarray(row) for row in values])
    except ValueError:
        matrix = np.empty(0)
    if matrix.ndim != 2 or matrix.dtype.kind not in "buif":
        raise ValueError(
            f"{what} must hold as many numbers for each instance as there are labels, got "
            f"{list(values[:2])!r}, ... {_INSTEAD}"
        )
    return matrix


def _column(values: Any) -> Any:
    """One column of any kind of table."""
    if isinstance(values, pd.DataFrame):
        if values.shape[1] != 1:
            raise ValueError(
                f"the predictions must be one column of sets of classes, got {values.shape[1]} "
                "columns."
            )
        values = values.iloc[:, 0]
    return values.to_numpy() if isinstance(values, pd.Series) else values


def _is_column_of_lists(table: pd.DataFrame) -> bool:
    return table.shape[1] == 1 and table.dtypes.iloc[0].kind == "O"


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
            f"{', '.join(map(repr, missing[:5]))} ({len(missing)} of {len(columns)} are not "
            "there)."
        )
    return table[columns]


def _inputs(model: Any, table: Any) -> Any:
    """The columns that the model was logged with, in their order, as MLflow would hand them to
    it.
    """
    schema = model.metadata.get_input_schema()
    if not isinstance(table, pd.DataFrame) or schema is None or not schema.has_input_names():
        return table
    return table[[name for name in schema.input_names() if name in table]]


def _estimator(model: Any) -> Any:
    """The scikit-learn estimator that was logged with ``predict``, else None."""
    metadata = getattr(model, "metadata", None)
    flavor = getattr(metadata, "flavors", {}).get("python_function", {})
    if (
        flavor.get("loader_module") != "mlflow.sklearn"
        or flavor.get("predict_fn", "predict") != "predict"
    ):
        return None
    return model.get_raw_model()
