"""The rounds of real trainings in CatBoost."""

import mlflow
import numpy as np
import pandas as pd
import pytest
from callback_cases import assert_end, assert_epochs, label_sets, one_warning, tags_of

from mlflow_mleval.store import schema

catboost = pytest.importorskip("catboost")

from mlflow_mleval.training.callbacks.boosting import CatBoostCallback  # noqa: E402

NAMES = {"method": "CatBoost", "dataset": "toy"}
QUIET = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
ROUNDS = 4
DATA = X, Y, X_val, Y_val = label_sets(120, 80, 4)


@pytest.mark.parametrize("target", ["label sets", "classes", "frames", "two classes"])
def test_each_round_and_the_end(client, target):
    X, Y, X_val, Y_val = DATA
    if target == "classes":
        Y, Y_val = (np.array(["none", "one", "two", "three"])[Y.sum(axis=1)] for Y in (Y, Y_val))
        there = Y_val != "none"  # a class that does not occur here
        X_val, Y_val = X_val[there], Y_val[there]
    elif target == "two classes":
        Y, Y_val = Y[:, 0], Y_val[:, 0]
    elif target == "frames":
        X, X_val, Y, Y_val = map(pd.DataFrame, (X, X_val, Y, Y_val))
    loss = {"classes": "MultiClass", "two classes": "Logloss"}.get(target, "MultiLogloss")
    model = catboost.CatBoostClassifier(iterations=ROUNDS, loss_function=loss, **QUIET)
    with mlflow.start_run() as run, CatBoostCallback(model, X_val, Y_val, **NAMES) as callback:
        model.fit(X, Y)
    names = {"label_names": model.classes_.tolist()} if "classes" in target else {}
    scores = dict(enumerate(model.staged_predict_proba(X_val)))
    measures = ("micro_f1", "ranking_loss", "soft_binomial_area")
    measures = ("top1_accuracy", "log_loss") if names else measures
    assert_epochs(client, run.info.run_id, Y_val, scores, measures, 1e-12, **names)
    assert_end(callback, Y_val, model.predict_proba(X_val), **names)
    tags = tags_of(client, run, schema.TAG_EPOCH, schema.TAG_STATUS)
    assert tags == (str(ROUNDS - 1), schema.COMPLETE)


def test_early_stopping_is_evaluated_at_its_best_iteration(client):
    model = catboost.CatBoost(
        {"iterations": 300, "learning_rate": 0.9, "loss_function": "MultiLogloss", **QUIET}
    )
    with mlflow.start_run() as run, CatBoostCallback(model, X_val, Y_val, **NAMES) as callback:
        model.fit(X, Y, eval_set=(X_val, Y_val), early_stopping_rounds=3)
    assert model.tree_count_ < 290
    assert_end(callback, Y_val, model.predict(X_val, prediction_type="Probability"))
    assert tags_of(client, run, schema.TAG_EPOCH) == (str(model.best_iteration_),)


def test_what_the_block_raises_is_the_users(client):
    model = catboost.CatBoostClassifier(iterations=2, **QUIET)
    callback = CatBoostCallback(model, X_val, Y_val, **NAMES)
    with mlflow.start_run() as run, pytest.raises(ZeroDivisionError), callback:
        1 / 0  # noqa: B018
    assert tags_of(client, run, schema.TAG_STATUS) == (None,)


@pytest.mark.parametrize(
    ("broken", "text"), [("no training", "was not trained"), ("other features", "mleval: ")]
)
def test_a_failure_is_one_warning(client, broken, text):
    model = catboost.CatBoostClassifier(iterations=2, loss_function="MultiLogloss", **QUIET)
    own = X_val[:, :2] if broken == "other features" else X_val
    callback = CatBoostCallback(model, own, Y_val, **NAMES)
    with one_warning(text), callback:
        if broken != "no training":
            model.fit(X, Y)
    assert callback.epochs.evaluation is None
