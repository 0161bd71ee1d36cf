"""What MLflow's datasets and models hold, in each of their shapes, as truth and predictions."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical
from mlflow_mleval.files.predictions import read_hierarchy
from mlflow_mleval.measures.classes import is_vector
from mlflow_mleval.measures.hierarchical import OPTIONS
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.registry import MEASURES, expand
from mlflow_mleval.training import estimators

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
    h = _hierarchy(config.get("hierarchy"))
    if model_type == "one_label":
        return _evaluate_classes(dataset, model, config, h)
    truth, names = _truth(dataset, config)
    sets = model_type == "hierarchical" and names is None and truth.ndim == 1
    if not sets:
        truth = _matrix(truth, "the targets")
        names = list(range(truth.shape[1])) if names is None else list(names)
    elif wrong := [name for name in ("threshold", "conventions", "scores") if name in config]:
        raise ValueError(
            f"`evaluator_config[{wrong[0]!r}]` must be left out for sets of classes. They need "
            "it for nothing."
        )
    estimator = _estimator(model)
    raw, seconds = _output(dataset, model, estimator, config, None if sets else len(names))
    options = {name: config[name] for name in HIERARCHICAL if name in config} | {
        "predict_time": seconds,
        "sample_weight": _weights(dataset, config),
        **_on_request(config),
    }
    if sets:
        return evaluate_hierarchical(
            list(truth), list(_column(raw["predictions"])), h, **options
        ), estimator
    found = _labels(raw, names)
    if "threshold" in config and "y_score" in found:
        found.pop("y_pred", None)
    options |= {name: config[name] for name in ("threshold", "conventions") if name in config}
    return evaluate(truth, **found, label_names=names, hierarchy=h, **options), estimator


def _evaluate_classes(
    dataset: Any, model: Any, config: Mapping[str, Any], h: Hierarchy | None
) -> tuple[Evaluation, Any]:
    """The same of one label of several classes."""
    named = config.get("targets")
    truth = (
        dataset.labels_data
        if named is None
        else _chosen(dataset.features_data, named, "targets", "the data").iloc[:, 0]
    )
    if truth is None:
        raise ValueError(
            f"`targets` must be given, got none: one class for each instance. {_INSTEAD}"
        )
    truth = np.asarray(truth)
    truth = truth[:, 0] if truth.ndim == 2 and truth.shape[1] == 1 else truth
    if not is_vector(truth):
        raise ValueError(
            "`targets` must hold one class for each instance with this `model_type`, got shape "
            f"{truth.shape} of {type(truth.flat[0]).__name__}. Label sets are "
            "model_type='multilabel', sets of classes 'hierarchical'."
        )
    estimator, given = _estimator(model), config.get("label_names")
    options = {
        name: config[name] for name in (*HIERARCHICAL, "threshold", "conventions") if name in config
    } | _on_request(config)
    options["sample_weight"] = _weights(dataset, config)
    if (
        estimator is not None
        and hasattr(estimator, "classes_")
        and not {"predictions", "scores"} & config.keys()
    ):
        table = _without_others(dataset.features_data, config)
        classes = np.asarray(estimator.classes_).tolist() if given is None else list(given)
        found = estimators.predict_classes(estimator, _inputs(model, table), classes)
        if found.without_score:
            warnings.warn(f"mleval: there are no scores ({found.without_score})", stacklevel=2)
        options |= {
            "probabilities": None if found.is_probability else False,
            "predict_time": found.predict_time,
        }
        ev = evaluate(
            truth, found.y_score, found.y_pred, label_names=classes, hierarchy=h, **options
        )
        return ev, estimator
    raw, seconds = _output(dataset, model, None, config, None)
    found = {}
    for name, values in raw.items():
        array = (
            values.to_numpy()
            if isinstance(values, (pd.DataFrame, pd.Series))
            else np.asarray(values)
        )
        array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
        found["y_score" if name == "scores" or array.ndim == 2 else "y_pred"] = array
    return evaluate(
        truth, **found, label_names=given, hierarchy=h, predict_time=seconds, **options
    ), estimator


def _on_request(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Those of the measures to log that are computed only if they are named."""
    names = [m for m in expand(config.get("measures") or ()) if m in MEASURES and MEASURES[m].asked]
    return {"measures": names} if names else {}


def _hierarchy(given: Any) -> Hierarchy | None:
    if given is None or isinstance(given, Hierarchy):
        return given
    return read_hierarchy(given) if isinstance(given, (str, Path)) else Hierarchy(given)


def _truth(dataset: Any, config: Mapping[str, Any]) -> tuple[NDArray[Any], Sequence[Any] | None]:
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
        if not named:
            if dataset.predictions_data is None:
                raise ValueError(
                    "`predictions` must be given without a model, got none: one column of lists, "
                    f"or columns by label in evaluator_config={{'predictions': [...]}}. "
                    f"{_INSTEAD}"
                )
            return {"predictions": dataset.predictions_data}, None
        return {
            name: _chosen(table, columns, name, "the data") for name, columns in named.items()
        }, None
    table = _without_others(table, config)
    if estimator is not None and not named and n_labels is not None:
        found = estimators.predict(estimator, _inputs(model, table), n_labels)
        if found.without_score:
            warnings.warn(f"mleval: there are no scores ({found.without_score})", stacklevel=2)
        raw = {"predictions": found.y_pred} | (
            {} if found.y_score is None else {"scores": found.y_score}
        )
        return raw, found.predict_time
    start = time.perf_counter()
    raw = model.predict(table)
    seconds = time.perf_counter() - start
    if named:
        return {
            name: _chosen(raw, columns, name, "the model's output")
            for name, columns in named.items()
        }, seconds
    return {"predictions": raw}, seconds


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
    found = {}
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
        if ("y_pred" if binary else "y_score") in found:
            raise ValueError(
                "`evaluator_config['predictions']` must hold 0 and 1 where there are scores too, "
                "got others."
            )
        found["y_pred" if binary else "y_score"] = matrix
    return found


def _matrix(values: Any, what: str) -> NDArray[Any]:
    """Rows of equal length as a matrix."""
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return values
    try:
        found = np.array([np.asarray(row) for row in values])
    except ValueError:
        found = np.empty(0)
    if found.ndim != 2 or found.dtype.kind not in "buif":
        raise ValueError(
            f"{what} must hold as many numbers for each instance as there are labels, got "
            f"{list(values[:2])!r}, ... {_INSTEAD}"
        )
    return found


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
