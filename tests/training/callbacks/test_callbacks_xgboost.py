"""The callback for XGBoost in real trainings."""

import pickle

import mlflow
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import mlflow_mleval as mleval
from mlflow_mleval.store import schema

xgb = pytest.importorskip("xgboost")
from mlflow_mleval.training.callbacks.xgboost import XGBoostCallback  # noqa: E402

NAMES = {"method": "XGB", "dataset": "toy"}
PARAMS = {"objective": "binary:logistic", "max_depth": 2, "seed": 0, "subsample": 0.7, "nthread": 1}
ROUNDS = 6


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 5))
    Y = (X[:, :3] + 0.5 * rng.normal(size=(160, 3)) > 0).astype(int)
    return X[:100], Y[:100], X[100:], Y[100:]


def history(client, run_id, measure):
    return {
        m.step: m.value for m in client.get_metric_history(run_id, schema.EPOCH_PREFIX + measure)
    }


@pytest.mark.parametrize(
    "extra",
    [{}, {"multi_strategy": "multi_output_tree", "tree_method": "hist"}, {"booster": "dart"}],
)
def test_native_booster_with_several_labels(client, data, extra):
    X, Y, X_val, Y_val = data
    callback = XGBoostCallback(X_val, Y_val, **NAMES)
    plain = xgb.train(PARAMS | extra, xgb.DMatrix(X, label=Y), ROUNDS)
    with mlflow.start_run() as run:
        model = xgb.train(PARAMS | extra, xgb.DMatrix(X, label=Y), ROUNDS, callbacks=[callback])
    assert model.save_raw("json") == plain.save_raw("json")
    found = history(client, run.info.run_id, "f1")
    for i in range(ROUNDS):
        scores = model.predict(xgb.DMatrix(X_val), iteration_range=(0, i + 1))
        expected = mleval.evaluate(Y_val, scores).measures["f1"]
        assert found[i] == pytest.approx(expected, rel=1e-12)
    assert len(found) == ROUNDS
    assert callback.epochs.evaluation.measures == pytest.approx(
        mleval.evaluate(Y_val, model.predict(xgb.DMatrix(X_val))).measures, rel=1e-12
    )
    tags = client.get_run(run.info.run_id).data.tags
    assert (tags[schema.TAG_METHOD], tags[schema.TAG_STATUS]) == ("XGB", schema.COMPLETE)


@pytest.mark.parametrize("autolog", [False, True], ids=["", "mlflow.xgboost.autolog"])
def test_classifier_with_a_matrix_of_labels(client, data, autolog):
    X, Y, X_val, Y_val = data
    callback = XGBoostCallback(X_val, Y_val, **NAMES)
    model = xgb.XGBClassifier(n_estimators=ROUNDS, max_depth=2, callbacks=[callback])
    if autolog:
        mlflow.xgboost.autolog(log_models=False, silent=True)
        try:
            model.fit(X, Y)
        finally:
            mlflow.xgboost.autolog(disable=True)
    else:
        with mlflow.start_run():
            model.fit(X, Y)
    (run,) = client.search_runs(["0"])
    assert callback.epochs.evaluation.measures == pytest.approx(
        mleval.evaluate(Y_val, model.predict_proba(X_val)).measures, rel=1e-12
    )
    assert len(history(client, run.info.run_id, "soft_binomial_area")) == ROUNDS
    assert run.data.tags[schema.TAG_STATUS] == schema.COMPLETE


def test_early_stopping_is_evaluated_at_its_best_iteration(client, data):
    X, Y, X_val, Y_val = data
    callback = XGBoostCallback(X_val, Y_val, **NAMES)
    model = xgb.XGBClassifier(
        n_estimators=400, learning_rate=1.0, early_stopping_rounds=3, callbacks=[callback]
    )
    with mlflow.start_run() as run:
        model.fit(X, Y, eval_set=[(X_val, Y_val)], verbose=False)
    assert model.best_iteration < 390
    assert callback.epochs.evaluation.measures == pytest.approx(
        mleval.evaluate(Y_val, model.predict_proba(X_val)).measures, rel=1e-12
    )
    assert client.get_run(run.info.run_id).data.tags[schema.TAG_EPOCH] == str(model.best_iteration)
    train = xgb.DMatrix(X, label=Y)
    for order in (1, -1):
        saving = xgb.callback.EarlyStopping(rounds=3, save_best=True)
        with mlflow.start_run():
            model = xgb.train(
                PARAMS | {"eta": 1},
                train,
                400,
                evals=[(xgb.DMatrix(X_val, label=Y_val), "val")],
                verbose_eval=False,
                callbacks=[callback, saving][::order],
            )
        assert callback.epochs.evaluation.measures == pytest.approx(
            mleval.evaluate(Y_val, model.predict(xgb.DMatrix(X_val))).measures, rel=1e-12
        )


def test_data_frames_and_matrices(client, data):
    X, Y, X_val, Y_val = data
    columns, labels = list("abcde"), ["x", "y", "z"]
    frame = pd.DataFrame(X, columns=columns).assign(kind=pd.Categorical(["u", "v"] * 50))
    frame_val = pd.DataFrame(X_val, columns=columns).assign(kind=pd.Categorical(["u", "v"] * 30))
    for own in (frame_val, xgb.DMatrix(frame_val, enable_categorical=True)):
        callback = XGBoostCallback(own, pd.DataFrame(Y_val, columns=labels), **NAMES)
        model = xgb.XGBClassifier(n_estimators=2, enable_categorical=True, callbacks=[callback])
        with mlflow.start_run():
            model.fit(frame, Y)
        assert callback.epochs.evaluation.measures == pytest.approx(
            mleval.evaluate(Y_val, model.predict_proba(frame_val)).measures, rel=1e-12
        )
        assert list(callback.epochs.evaluation.label_names) == labels


def test_one_label(client, data):
    X, Y, X_val, Y_val = data
    callback = XGBoostCallback(X_val, Y_val[:, :1], **NAMES)
    with mlflow.start_run():
        xgb.train(PARAMS, xgb.DMatrix(X, label=Y[:, 0]), 2, callbacks=[callback])
    assert callback.epochs.evaluation.label_names == (0,)


def test_the_callback_is_copied_and_pickled_with_its_estimator(client, data):
    X, Y, X_val, Y_val = data
    model = xgb.XGBClassifier(n_estimators=2, callbacks=[XGBoostCallback(X_val, Y_val, **NAMES)])
    for other in (model, clone(model), pickle.loads(pickle.dumps(model))):
        with mlflow.start_run():
            other.fit(X, Y)
        assert other.callbacks[0].epochs.evaluation is not None
    clone(model)


def test_cv_is_refused_with_one_warning_and_goes_on(client, data):
    X, Y, X_val, Y_val = data
    with (
        mlflow.start_run(),
        pytest.warns(UserWarning, match=r"xgboost\.cv trains a model for each fold") as said,
    ):
        found = xgb.cv(
            PARAMS,
            xgb.DMatrix(X, label=Y),
            3,
            nfold=3,
            callbacks=[XGBoostCallback(X_val, Y_val, **NAMES)],
        )
    assert len(found) == 3
    assert len([w for w in said if "mleval" in str(w.message)]) == 1


@pytest.mark.parametrize("broken", ["no run", "other features", "other labels"])
def test_a_failure_is_one_warning_and_the_model_is_the_same(client, data, broken):
    X, Y, X_val, Y_val = data
    plain = xgb.train(PARAMS, xgb.DMatrix(X, label=Y), 3)
    callback = {
        "no run": XGBoostCallback(X_val, Y_val, **NAMES),
        "other features": XGBoostCallback(np.hstack([X_val, X_val]), Y_val, **NAMES),
        "other labels": XGBoostCallback(X_val, Y_val[:, :2], **NAMES),
    }[broken]
    if broken != "no run":
        mlflow.start_run()
    try:
        with pytest.warns(UserWarning, match="mleval: ") as said:
            model = xgb.train(PARAMS, xgb.DMatrix(X, label=Y), 3, callbacks=[callback])
    finally:
        mlflow.end_run()
    assert model.save_raw("json") == plain.save_raw("json")
    assert len([w for w in said if "mleval" in str(w.message)]) == 1
    assert callback.epochs.evaluation is None
