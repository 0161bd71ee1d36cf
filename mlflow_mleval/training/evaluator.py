"""The evaluator behind ``mlflow.models.evaluate(..., evaluators="mleval")``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

# MLflow loads this module whenever it is asked to evaluate anything, so all that is heavy is
# imported where it is used. In mlflow.models these classes are not there yet at that time, and the
# evaluator would stay unknown without a word.
from mlflow.models.evaluation import EvaluationArtifact, EvaluationResult, ModelEvaluator

#: The types that are ours, and one of MLflow's, which is one label, only where mleval is named.
MODEL_TYPES = ("multilabel", "hierarchical", "one_label", "classifier")
_OPTIONS = ["method", "dataset", "measures", "log_instances", "targets", "predictions", "scores"]
_OPTIONS += ["label_names", "threshold", "conventions", "hierarchy", "sample_weights"]


class MlevalEvaluator(ModelEvaluator):
    """Evaluates models whose outputs are label sets, or one label of several classes, and logs an
    Evaluation into the run.

    The model types are ``"multilabel"``, ``"hierarchical"`` and ``"one_label"``; MLflow's own
    ``"classifier"`` is evaluated as one label where ``evaluators`` names mleval. Targets are an
    array (N, K), a column of lists of zeros and ones or of names of classes, columns by label that
    the configuration names, or of one label a column of classes; so are predictions.

    A model gives what it returns: values other than 0 and 1 are scores. A logged scikit-learn model
    gives its scores too. ``evaluator_config`` may hold

    ``targets``, ``predictions``, ``scores``
        Columns by label: of the data, or, with a model, of what it returns. What ``scores`` names are scores in any case.
    ``label_names``
        By default the columns of the targets, else 0..K-1.
    ``sample_weights``
        How much each instance counts, as for MLflow's own evaluator: an array, or a column of the data.
    ``hierarchy``
        A Hierarchy. The type hierarchical needs it.
    ``threshold``, ``conventions``, ``max_distance``, ``lca``, ``lca_max_distance``, ``count_root``,
    ``far_pairs``, ``max_ancestors``
        As in `mlflow_mleval.evaluate` and `mlflow_mleval.evaluate_hierarchical`.
    ``method``, ``dataset``
        The names under which `load_study` finds the run. By default from the estimator or the run's name, and from the
        dataset's name or its truth.
    ``measures``, ``log_instances``
        As in `mlflow_mleval.log_evaluation`.

    The metrics are ``mleval/<measure>``; the artifacts are named by their paths.
    """  # noqa: E501

    @classmethod
    def can_evaluate(
        cls, *, model_type: str, evaluator_config: Mapping[str, Any], **kwargs: Any
    ) -> bool:
        """Whether the type is one of ours, or, where mleval is named, ``"classifier"``; another one
        is a warning then, for MLflow does not say what was wrong with it."""
        # Where no evaluator is named, MLflow asks all of them while it resolves them.
        is_named = sys._getframe(1).f_code.co_name == "_evaluate"
        if is_named and model_type not in MODEL_TYPES:
            types = ", ".join(map(repr, MODEL_TYPES))
            text = f"mleval evaluates the model types {types}, got {model_type!r}."
            warnings.warn(text, stacklevel=2)
        return model_type in MODEL_TYPES and (is_named or model_type != "classifier")

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any] | None,
        model: Any = None,
        model_id: str | None = None,
        **further: Any,
    ) -> EvaluationResult:
        """Evaluate and log; see `mlflow.models.evaluation.ModelEvaluator` for the arguments."""
        from mlflow_mleval.measures.registry import MEASURES, known_measures
        from mlflow_mleval.store import schema
        from mlflow_mleval.training.estimators import HIERARCHICAL, evaluate_output
        from mlflow_mleval.training.log_evaluation import log_evaluation

        config = dict(evaluator_config or {})
        _refuse_other_settings(config, [*_OPTIONS, *HIERARCHICAL])
        for name in ("extra_metrics", "custom_artifacts"):
            if further.get(name):
                warnings.warn(f"mleval does not compute `{name}`.", stacklevel=2)
        if further.get("predictions") is not None:
            config.setdefault("predictions", [further["predictions"]])
        kind = "one_label" if model_type == "classifier" else model_type
        ev, estimator = evaluate_output(kind, dataset, model, config)
        asked = config.get("measures")
        allowed = MEASURES if asked is None else set(known_measures(asked))
        wanted = [name for name in ev.measures if name in allowed]
        instances = config.get("log_instances", False)
        log_evaluation(
            ev,
            method=config.get("method") or _method(estimator, run_id),
            dataset=config.get("dataset") or _dataset(dataset, ev),
            run_id=run_id,
            # Of a model that it knows, MLflow logs what is returned, and links it to the model.
            measures=wanted if model_id is None else (),
            log_instances=instances,
        )
        metrics = {schema.METRIC_PREFIX + name: ev.measures[name] for name in wanted}
        paths = [schema.ARTIFACT_REPORT, schema.ARTIFACT_DATA]
        if instances:
            paths.append(schema.ARTIFACT_INSTANCES)
        files = {path: StoredFile(f"runs:/{run_id}/{path}") for path in paths}
        return EvaluationResult(metrics, files, run_id)


class StoredFile(EvaluationArtifact):
    """A file of the run, fetched when asked for: a table, text, or the files of a zip by name."""

    def _load_content_from_file(self, local_artifact_path: str) -> Any:
        import pandas as pd

        path = Path(local_artifact_path)
        if path.suffix == ".zip":
            with ZipFile(path) as together:
                return {name: together.read(name) for name in together.namelist()}
        is_table = path.suffix == ".parquet"
        return pd.read_parquet(path) if is_table else path.read_text(encoding="utf-8")

    def _save(self, output_artifact_path: str) -> None:
        from mlflow.artifacts import download_artifacts

        from mlflow_mleval.store import budget

        with TemporaryDirectory() as folder:
            fetch = partial(download_artifacts, self.uri, dst_path=folder)
            file = budget.within("download_artifacts", fetch)
            Path(output_artifact_path).write_bytes(Path(file).read_bytes())


def _refuse_other_settings(config: Mapping[str, Any], options: list[str]) -> None:
    from mlflow_mleval.sentences import did_you_mean

    if unknown := [name for name in config if name not in options]:
        got, guess = ", ".join(map(repr, unknown)), did_you_mean(unknown, options)
        want = f"`evaluator_config` must hold options of mleval ({', '.join(options)})"
        raise ValueError(f"{want}, got {got}.{guess}")


def _dataset(dataset: Any, ev: Any) -> str:
    """The name that the user gave; MLflow's own is not that of one dataset alone."""
    if dataset.name not in ("dataset", dataset.hash):
        return dataset.name
    return f"{ev.total.n}x{len(ev.label_names)} labels-{ev.truth_digest[:8]}"


def _method(estimator: Any, run_id: str) -> str:
    from mlflow_mleval.store import store
    from mlflow_mleval.training.delivery import in_bounded_time
    from mlflow_mleval.training.estimators import method_name

    if estimator is not None:
        return method_name(estimator)
    with store.store_errors("read"):
        return in_bounded_time(lambda: store.connect().get_run(run_id).info.run_name)
