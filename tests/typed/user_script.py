"""What a user writes, for type checkers; a line that says "ignore" has to be an error."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from typing_extensions import assert_type

import mlflow_mleval as mleval
from mlflow_mleval import genai, losses, stats
from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.posthoc.rank_tests import FriedmanResult
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.owa import Profile
from mlflow_mleval.study import Study

truth = np.array([[1, 0], [0, 1], [1, 1]])
scores = np.array([[0.9, 0.2], [0.4, 0.7], [0.8, 0.6]])


def evaluations() -> None:
    ev = mleval.evaluate(truth, scores, threshold=0.5)
    assert_type(ev, Evaluation)
    assert_type(ev.measures, dict[str, float])
    assert_type(mleval.merge([ev, ev]), Evaluation)
    assert_type(mleval.log_evaluation(ev, method="BR", dataset="yeast"), str)
    mleval.evalute(truth, scores)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    mleval.evaluate(truth, scores, conventions="weka")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def studies() -> None:
    study = mleval.load_study(experiment_names=["mystudy"], missing="worst")
    assert_type(study, Study)
    assert_type(study.methods, list[str])
    found = mleval.compare(study)
    assert_type(found, Comparison)
    assert_type(found.leader, str)
    found.leeder  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018


def tests() -> None:
    ranks = pd.DataFrame([[1, 2, 3], [1, 3, 2]], columns=list("abc"))
    assert_type(stats.friedman(ranks), FriedmanResult)
    assert_type(mleval.stats.friedman(ranks).pvalue, float)
    assert_type(mleval.friedman(ranks), FriedmanResult)
    stats.fridman  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018


def label_losses() -> None:
    assert_type(mleval.losses.loss_profile(truth, scores), Profile)
    assert_type(losses.bayes_optimal([[1, 0], [0, 1]], [0.4, 0.6]).expected_loss, float)


def training(model: Any, options: Mapping[str, Any]) -> None:
    callback = mleval.callbacks.keras(truth, scores, method="net", dataset="yeast")
    model.fit(truth, scores, callbacks=[callback])
    mleval.callbacks.kears  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
    mleval.autolog()


def answers() -> None:
    names = [scorer.name for scorer in genai.scorers(["f1"], labels=["a", "b"])]
    assert_type(names, list[str])
    mleval.genai.scorer  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
