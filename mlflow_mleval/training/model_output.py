"""What MLflow's datasets and models hold, in each of their shapes, as truth and predictions."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mlflow_mleval.evaluation import Evaluation, evaluate_hierarchical
from mlflow_mleval.files.predictions import read_hierarchy
from mlflow_mleval.measures.hierarchical import OPTIONS
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.one_label import is_vector
from mlflow_mleval.measures.registry import MEASURES, expand
from mlflow_mleval.training.estimators import Predictions, as_matrix, column, predict, stacked
from mlflow_mleval.validation import AnyArray

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
        if isinstance(hierarchy, (str, Path)):
            hierarchy = read_hierarchy(hierarchy)
        elif hierarchy is not None and not isinstance(hierarchy, Hierarchy):
            hierarchy = Hierarchy(hierarchy)
        elif hierarchy is None and self.model_type == "hierarchical":
            raise ValueError("`evaluator_config['hierarchy']` must be given for hierarchical.")
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
