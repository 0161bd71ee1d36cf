"""The callback for XGBoost in real trainings."""

import pickle
from contextlib import nullcontext

import mlflow
import numpy as np
import pandas as pd
import pytest
from callback_cases import assert_end, assert_epochs, history, label_sets, one_warning, tags_of
from sklearn.base import clone

from mlflow_mleval.store import schema

xgb = pytest.importorskip("xgboost")
from mlflow_mleval.training.callbacks.xgboost import XGBoostCallback  # noqa: E402

NAMES = {"method": "XGB", "dataset": "toy"}
PARAMS = {"objective": "binary:logistic", "max_depth": 2, "seed": 0, "subsample": 0.7, "nthread": 1}
ROUNDS = 6
X, Y, X_val, Y_val = label_sets(160, 100)


@pytest.mark.parametrize(
    "extra",
    [{}, {"multi_strategy": "multi_output_tree", "tree_method": "hist"}, {"booster": "dart"}],
)
def test_native_booster_with_several_labels(client, extra):
    callback = XGBoostCallback(X_val, Y_val, **NAMES)
    train, matrix = xgb.DMatrix(X, label=Y), xgb.DMatrix(X_val)
    plain = xgb.train(PARAMS | extra, train, ROUNDS)
    with mlflow.start_run() as run:
        model = xgb.train(PARAMS | extra, train, ROUNDS, callbacks=[callback])
    assert model.save_raw("json") == plain.save_raw("json")
    scores = {i: model.predict(matrix, iteration_range=(0, i + 1)) for i in range(ROUNDS)}
    assert_epochs(client, run.info.run_id, Y_val, scores, ["f1"], 1e-12)
    assert_end(callback, Y_val, model.predict(matrix))
    assert tags_of(client, run, schema.TAG_METHOD, schema.TAG_STATUS) == ("XGB", schema.COMPLETE)


@pytest.mark.parametrize("autolog", [False, True], ids=["", "mlflow.xgboost.autolog"])
def test_classifier_with_a_matrix_of_labels(client, autolog):
    callback = XGBoostCallback(X_val, Y_val, **NAMES)
    model = xgb.XGBClassifier(n_estimators=ROUNDS, max_depth=2, callbacks=[callback])
    if autolog:
        mlflow.xgboost.autolog(log_models=False, silent=True)
    try:
        with nullcontext() if autolog else mlflow.start_run():
            model.fit(X, Y)
    finally:
        mlflow.xgboost.autolog(disable=True)
    (run,) = client.search_runs(["0"])
    assert_end(callback, Y_val, model.predict_proba(X_val))
    assert len(history(client, run.info.run_id, "soft_binomial_area")) == ROUNDS
    assert run.data.tags[schema.TAG_STATUS] == schema.COMPLETE


def test_early_stopping_is_evaluated_at_its_best_iteration(client):
    callback = XGBoostCallback(X_val, Y_val, **NAMES)
    model = xgb.XGBClassifier(
        n_estimators=400, learning_rate=1.0, early_stopping_rounds=3, callbacks=[callback]
    )
    with mlflow.start_run() as run:
        model.fit(X, Y, eval_set=[(X_val, Y_val)], verbose=False)
    assert model.best_iteration < 390
    assert_end(callback, Y_val, model.predict_proba(X_val))
    assert tags_of(client, run, schema.TAG_EPOCH) == (str(model.best_iteration),)
    params, evals = PARAMS | {"eta": 1}, [(xgb.DMatrix(X_val, label=Y_val), "val")]
    options = {"evals": evals, "verbose_eval": False}
    for order in (1, -1):
        callbacks = [callback, xgb.callback.EarlyStopping(rounds=3, save_best=True)][::order]
        with mlflow.start_run():
            model = xgb.train(params, xgb.DMatrix(X, label=Y), 400, callbacks=callbacks, **options)
        assert_end(callback, Y_val, model.predict(xgb.DMatrix(X_val)))


def test_data_frames_and_matrices(client):
    columns, labels = list("abcde"), ["x", "y", "z"]
    frame = pd.DataFrame(X, columns=columns).assign(kind=pd.Categorical(["u", "v"] * 50))
    frame_val = pd.DataFrame(X_val, columns=columns).assign(kind=pd.Categorical(["u", "v"] * 30))
    for own in (frame_val, xgb.DMatrix(frame_val, enable_categorical=True)):
        callback = XGBoostCallback(own, pd.DataFrame(Y_val, columns=labels), **NAMES)
        model = xgb.XGBClassifier(n_estimators=2, enable_categorical=True, callbacks=[callback])
        with mlflow.start_run():
            model.fit(frame, Y)
        assert_end(callback, Y_val, model.predict_proba(frame_val))
        assert list(callback.epochs.evaluation.label_names) == labels


def test_the_callback_is_copied_and_pickled_with_its_estimator(client):
    model = xgb.XGBClassifier(n_estimators=2, callbacks=[XGBoostCallback(X_val, Y_val, **NAMES)])
    for other in (model, clone(model), pickle.loads(pickle.dumps(model))):
        with mlflow.start_run():
            other.fit(X, Y)
        assert other.callbacks[0].epochs.evaluation is not None
    clone(model)


def test_cv_is_refused_with_one_warning_and_goes_on(client):
    callbacks = [XGBoostCallback(X_val, Y_val, **NAMES)]
    with one_warning(r"xgboost\.cv trains a model for each fold"):
        found = xgb.cv(PARAMS, xgb.DMatrix(X, label=Y), 3, nfold=3, callbacks=callbacks)
    assert len(found) == 3


@pytest.mark.parametrize("broken", ["no run", "other features"])
def test_a_failure_is_one_warning_and_the_model_is_the_same(client, broken):
    plain = xgb.train(PARAMS, xgb.DMatrix(X, label=Y), 3)
    own = np.hstack([X_val, X_val]) if broken == "other features" else X_val
    callback = XGBoostCallback(own, Y_val, **NAMES)
    with one_warning(active=broken != "no run"):
        model = xgb.train(PARAMS, xgb.DMatrix(X, label=Y), 3, callbacks=[callback])
    assert model.save_raw("json") == plain.save_raw("json")
    assert callback.epochs.evaluation is None
