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
from mlflow_mleval.training.estimators import Predictions, as_matrix, column, predict
from mlflow_mleval.validation import AnyArray, present

#: Options of the hierarchical measures that a configuration may hold; its `measures` are those to
#: log.
HIERARCHICAL = tuple(name for name in OPTIONS if name != "measures")
_OF_SCORES = ("threshold", "conventions", "scores")
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
    one_label = model_type == "one_label"
    truth, names = _truth(dataset, config, one_label)
    estimator, options = _estimator(model), _options(dataset, config)
    if model_type == "hierarchical" and names is None and truth.ndim == 1:
        return _of_sets(dataset, model, config, truth, options), estimator
    options |= {name: config[name] for name in ("threshold", "conventions") if name in config}
    options["hierarchy"] = _hierarchy(config)
    if not one_label:
        truth = _matrix(truth, "the targets")
        names = list(range(truth.shape[1])) if names is None else list(names)
    predictions = _of_estimator(dataset, model, estimator, config, names, one_label)
    if predictions is None:
        raw, options["predict_time"] = _output(dataset, model, config)
    elif one_label:
        known = np.asarray(estimator.classes_).tolist() if names is None else list(names)
        return predictions.evaluated(truth, label_names=known, **options), estimator
    else:
        options["predict_time"] = predictions.predict_time
        both = {"predictions": predictions.y_pred, "scores": predictions.y_score}
        raw = {name: side for name, side in both.items() if side is not None}
    if one_label:
        return evaluate(truth, **_classes(raw), label_names=names, **options), estimator
    sides = _labels(raw, names or [])
    if "threshold" in config and "y_score" in sides:
        sides.pop("y_pred", None)
    return evaluate(truth, **sides, label_names=names, **options), estimator


def _options(dataset: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Options of every evaluation; measures that are only computed when they are asked for."""
    options = {name: config[name] for name in HIERARCHICAL if name in config}
    options["sample_weight"] = _weights(dataset, config)
    asked = [m for m in expand(config.get("measures") or ()) if m in MEASURES and MEASURES[m].asked]
    return options | ({"measures": asked} if asked else {})


def _hierarchy(config: Mapping[str, Any]) -> Hierarchy | None:
    given = config.get("hierarchy")
    if isinstance(given, (str, Path)):
        return read_hierarchy(given)
    return given if given is None or isinstance(given, Hierarchy) else Hierarchy(given)


def _of_sets(
    dataset: Any, model: Any, config: Mapping[str, Any], truth: AnyArray, options: dict[str, Any]
) -> Evaluation:
    """The evaluation of lists of classes."""
    if wrong := [name for name in _OF_SCORES if name in config]:
        raise ValueError(
            f"`evaluator_config[{wrong[0]!r}]` must be left out for sets of classes. They need "
            "it for nothing."
        )
    raw, options["predict_time"] = _output(dataset, model, config)
    predicted = list(_one_column(raw["predictions"]))
    h = present(_hierarchy(config))
    return evaluate_hierarchical(list(truth), predicted, h, **options)


def _truth(
    dataset: Any, config: Mapping[str, Any], one_label: bool
) -> tuple[AnyArray, Sequence[Any] | None]:
    """The targets as MLflow hands them over or by the columns that are named, and the names of the
    labels where they are given.
    """
    columns, truth, names = config.get("targets"), dataset.labels_data, config.get("label_names")
    if columns is not None:
        if truth is not None:
            raise ValueError(
                "`evaluator_config['targets']` must be left out where MLflow knows the targets, "
                "got both."
            )
        table = _chosen(dataset.features_data, columns, "targets", "the data")
        if not one_label and not _is_column_of_lists(table):
            return table.to_numpy(), list(table.columns) if names is None else names
        truth = table.iloc[:, 0].to_numpy()
    if truth is None:
        wanted = "an array, one column of lists, or columns by label in evaluator_config"
        wanted = "one class for each instance" if one_label else f"{wanted}={{'targets': [...]}}"
        raise ValueError(f"`targets` must be given, got none: {wanted}. {_INSTEAD}")
    if one_label:
        classes = column(truth)
        if not is_vector(classes):
            raise ValueError(
                "`targets` must hold one class for each instance with this `model_type`, got shape "
                f"{classes.shape} of {type(classes.flat[0]).__name__}. Label sets are "
                "model_type='multilabel', sets of classes 'hierarchical'."
            )
        return classes, names
    truth = np.asarray(truth)
    if truth.ndim == 1 and truth.dtype != object:
        raise ValueError(
            "`targets` must hold the labels of each instance, got one value an instance "
            f"({truth[0]!r}, ...). Pass a matrix of 0 and 1, or a column of lists; one label of "
            f"several classes is model_type='one_label'. {_INSTEAD}"
        )
    return truth, names


def _named(config: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of predictions and scores that the configuration names."""
    return {n: config[n] for n in ("predictions", "scores") if config.get(n) is not None}


def _of_estimator(
    dataset: Any,
    model: Any,
    estimator: Any,
    config: Mapping[str, Any],
    names: Sequence[Any] | None,
    one_label: bool,
) -> Predictions | None:
    """What a scikit-learn estimator says, with its scores; None where there is none, or columns
    are named.
    """
    if estimator is None or _named(config) or (one_label and not hasattr(estimator, "classes_")):
        return None
    classes = estimator.classes_ if one_label and names is None else names
    labels = list(np.asarray(classes).tolist()) if one_label else len(names or ())
    table = _without_others(dataset.features_data, config)
    schema = model.metadata.get_input_schema()
    if isinstance(table, pd.DataFrame) and schema is not None and schema.has_input_names():
        # the columns that the model was logged with, in their order, as MLflow would hand them over
        table = table[[name for name in schema.input_names() if name in table]]
    predictions = predict(estimator, table, labels)
    if predictions.without_score:
        reason = f"mleval: there are no scores ({predictions.without_score})"
        warnings.warn(reason, stacklevel=4)
    return predictions


def _output(
    dataset: Any, model: Any, config: Mapping[str, Any]
) -> tuple[dict[str, Any], float | None]:
    """What is predicted, as it came (``predictions``, ``scores`` or both), and the seconds that a
    model took.
    """
    named = _named(config)
    table, seconds, where = dataset.features_data, None, "the data"
    whole = dataset.predictions_data
    if model is not None:
        start = time.perf_counter()
        table = whole = model.predict(_without_others(table, config))
        seconds, where = time.perf_counter() - start, "the model's output"
    elif not named and whole is None:
        raise ValueError(
            "`predictions` must be given without a model, got none: one column of lists, or "
            f"columns by label in evaluator_config={{'predictions': [...]}}. {_INSTEAD}"
        )
    if not named:
        return {"predictions": whole}, seconds
    return {name: _chosen(table, columns, name, where) for name, columns in named.items()}, seconds


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


def _classes(raw: Mapping[str, Any]) -> dict[str, Any]:
    """``y_score`` and ``y_pred`` of what is predicted of one label."""
    sides: dict[str, Any] = {}
    for name, values in raw.items():
        array = column(values)
        sides["y_score" if name == "scores" or array.ndim == 2 else "y_pred"] = array
    return sides


def _labels(raw: Mapping[str, Any], names: Sequence[Any]) -> dict[str, Any]:
    """``y_score`` and ``y_pred`` of what is predicted; predictions other than 0 and 1 are
    scores.
    """
    sides: dict[str, Any] = {}
    for name, given in raw.items():
        values = given
        if isinstance(values, pd.DataFrame) and not _is_column_of_lists(values):
            values = values[list(names)] if set(names) <= set(values.columns) else values
        elif isinstance(values, (pd.DataFrame, pd.Series)):
            values = _matrix(_one_column(values), f"the {name}")
        elif isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1:
            values = _matrix(values, f"the {name}")
        matrix = as_matrix(values, len(names))
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


def _one_column(values: Any) -> Any:
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


def _estimator(model: Any) -> Any:
    """The scikit-learn estimator that was logged with ``predict``, else None."""
    flavors = getattr(getattr(model, "metadata", None), "flavors", {})
    flavor = flavors.get("python_function", {})
    is_sklearn = flavor.get("loader_module") == "mlflow.sklearn"
    return (
        model.get_raw_model()
        if is_sklearn and flavor.get("predict_fn", "predict") == "predict"
        else None
    )
