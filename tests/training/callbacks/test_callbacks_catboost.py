"""The rounds of real trainings in CatBoost."""

import mlflow
import numpy as np
import pandas as pd
import pytest

import mlflow_mleval as mleval
from mlflow_mleval.store import schema

catboost = pytest.importorskip("catboost")

from mlflow_mleval.training.callbacks.boosting import CatBoostCallback  # noqa: E402

NAMES = {"method": "CatBoost", "dataset": "toy"}
QUIET = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
ROUNDS = 4


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    Y = (X[:, :3] + 0.5 * rng.normal(size=(120, 3)) > 0).astype(int)
    return X[:80], Y[:80], X[80:], Y[80:]


def history(client, run_id, measure):
    return {
        m.step: m.value for m in client.get_metric_history(run_id, schema.EPOCH_PREFIX + measure)
    }


@pytest.mark.parametrize("target", ["label sets", "classes", "frames", "two classes"])
def test_each_round_and_the_end(client, data, target):
    X, Y, X_val, Y_val = data
    if target == "classes":
        Y, Y_val = (np.array(["none", "one", "two", "three"])[Y.sum(axis=1)] for Y in (Y, Y_val))
        X_val, Y_val = (
            X_val[Y_val != "none"],
            Y_val[Y_val != "none"],
        )  # a class that does not occur here
    elif target == "two classes":
        Y, Y_val = Y[:, 0], Y_val[:, 0]
    elif target == "frames":
        X, X_val, Y, Y_val = map(pd.DataFrame, (X, X_val, Y, Y_val))
    loss = {"classes": "MultiClass", "two classes": "Logloss"}.get(target, "MultiLogloss")
    model = catboost.CatBoostClassifier(iterations=ROUNDS, loss_function=loss, **QUIET)
    with mlflow.start_run() as run, CatBoostCallback(model, X_val, Y_val, **NAMES) as callback:
        model.fit(X, Y)
    names = {"label_names": model.classes_.tolist()} if "classes" in target else {}
    evs = [mleval.evaluate(Y_val, scores, **names) for scores in model.staged_predict_proba(X_val)]
    for measure in (
        ("top1_accuracy", "log_loss")
        if names
        else ("micro_f1", "ranking_loss", "soft_binomial_area")
    ):
        expected = {i: ev.measures[measure] for i, ev in enumerate(evs)}
        assert history(client, run.info.run_id, measure) == pytest.approx(expected, rel=1e-12)
    assert callback.epochs.evaluation.measures == pytest.approx(evs[-1].measures, rel=1e-12)
    assert callback.epochs.evaluation.measures == pytest.approx(
        mleval.evaluate(Y_val, model.predict_proba(X_val), **names).measures, rel=1e-12
    )
    tags = client.get_run(run.info.run_id).data.tags
    assert (tags[schema.TAG_EPOCH], tags[schema.TAG_STATUS]) == (str(ROUNDS - 1), schema.COMPLETE)


def test_early_stopping_is_evaluated_at_its_best_iteration(client, data):
    X, Y, X_val, Y_val = data
    model = catboost.CatBoost(
        {"iterations": 300, "learning_rate": 0.9, "loss_function": "MultiLogloss", **QUIET}
    )
    with mlflow.start_run() as run, CatBoostCallback(model, X_val, Y_val, **NAMES) as callback:
        model.fit(X, Y, eval_set=(X_val, Y_val), early_stopping_rounds=3)
    assert model.tree_count_ < 290
    expected = mleval.evaluate(Y_val, model.predict(X_val, prediction_type="Probability")).measures
    assert callback.epochs.evaluation.measures == pytest.approx(expected, rel=1e-12)
    assert client.get_run(run.info.run_id).data.tags[schema.TAG_EPOCH] == str(model.best_iteration_)


def test_what_the_block_raises_is_the_users(client, data):
    model = catboost.CatBoostClassifier(iterations=2, **QUIET)
    with (
        mlflow.start_run() as run,
        pytest.raises(ZeroDivisionError),
        CatBoostCallback(model, *data[2:], **NAMES),
    ):
        1 / 0  # noqa: B018
    assert schema.TAG_STATUS not in client.get_run(run.info.run_id).data.tags


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ("no run", "No run is active"),
        ("no training", "was not trained"),
        ("other features", "mleval: "),
        ("other labels", "each of the 2 labels"),
    ],
)
def test_a_failure_is_one_warning(client, data, broken, text):
    X, Y, X_val, Y_val = data
    model = catboost.CatBoostClassifier(iterations=2, loss_function="MultiLogloss", **QUIET)
    callback = CatBoostCallback(
        model,
        X_val[:, :2] if broken == "other features" else X_val,
        Y_val[:, :2] if broken == "other labels" else Y_val,
        **NAMES,
    )
    if broken != "no run":
        mlflow.start_run()
    try:
        with pytest.warns(UserWarning, match=text) as said, callback:
            if broken != "no training":
                model.fit(X, Y)
    finally:
        mlflow.end_run()
    assert (
        len([w for w in said if "mleval" in str(w.message)]) == 1
        and callback.epochs.evaluation is None
    )
