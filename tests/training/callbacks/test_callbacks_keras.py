"""The callback for Keras in real trainings, on a backend that is installed."""

import importlib.util
import os

import mlflow
import numpy as np
import pandas as pd
import pytest
from callback_cases import assert_end, assert_epochs, label_sets, one_warning, tags_of

from mlflow_mleval.store import schema

BACKENDS = [name for name in ("torch", "jax", "tensorflow") if importlib.util.find_spec(name)]
os.environ.setdefault("KERAS_BACKEND", (BACKENDS or ["torch"])[0])  # read as it is imported
pytest.importorskip("keras" if BACKENDS else "torch", reason="Keras needs torch, jax or tensorflow")

import keras  # noqa: E402

from mlflow_mleval.training.callbacks.keras import KerasCallback  # noqa: E402

NAMES = {"method": "MLP", "dataset": "toy"}
EPOCHS = 3
X, Y, X_val, Y_val = (part.astype("float32") for part in label_sets(120, 80))


def network(activation="sigmoid"):
    """With dropout and batch normalisation, which behave differently in training."""
    layers = keras.layers
    inner = layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.5)
    model = keras.Sequential([layers.Input((5,)), *inner, layers.Dense(3, activation)])
    loss = keras.losses.BinaryCrossentropy(from_logits=activation is None)
    model.compile(keras.optimizers.Adam(0.05), loss)
    return model


def fit(callbacks, epochs=EPOCHS, **options):
    keras.utils.set_random_seed(1)
    model = network(options.pop("activation", "sigmoid"))
    model.fit(X, Y, epochs=epochs, batch_size=16, verbose=0, callbacks=callbacks, **options)
    return model


class Keeper(keras.callbacks.Callback):
    """The predictions after each epoch."""

    def __init__(self, x):
        super().__init__()
        self.x, self.scores = x, []

    def on_epoch_end(self, epoch, logs=None):
        scores = self.model(self.x, training=False)
        self.scores.append(np.asarray(keras.ops.convert_to_numpy(scores)))


def test_each_epoch_and_the_end(client):
    callback, keeper = KerasCallback(X_val, Y_val, **NAMES), Keeper(X_val)
    plain = fit([], validation_data=(X_val, Y_val)).get_weights()
    with mlflow.start_run() as run:
        model = fit([callback, keeper], validation_data=(X_val, Y_val))
    assert all(np.array_equal(a, b) for a, b in zip(plain, model.get_weights(), strict=True))
    measures = ("hamming_loss", "ranking_loss", "soft_binomial_area")
    scores = dict(enumerate(keeper.scores))
    assert_epochs(client, run.info.run_id, Y_val, scores, measures, 1e-5)
    assert_end(callback, Y_val, model.predict(X_val, verbose=0), 1e-6)
    assert tags_of(client, run, schema.TAG_METHOD, schema.TAG_STATUS) == ("MLP", schema.COMPLETE)


def test_restored_weights_are_evaluated_behind_early_stopping(client):
    stopping = keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True)
    callback = KerasCallback(X_val, Y_val, batch_size=7, **NAMES)
    with mlflow.start_run():
        model = fit([stopping, callback], epochs=30, validation_data=(X_val, Y_val))
    assert_end(callback, Y_val, model.predict(X_val, batch_size=7, verbose=0), 1e-6)


def test_logits_and_label_names(client):
    named = pd.DataFrame(Y_val, columns=list("xyz"))
    callback = KerasCallback(X_val, named, threshold=0.0, **NAMES)
    with mlflow.start_run() as run:
        model = fit([callback], activation=None)
    assert_end(callback, Y_val, model.predict(X_val, verbose=0), 1e-6, threshold=0.0)
    assert callback.epochs.evaluation.label_names == ("x", "y", "z")
    assert "mleval.epoch.profile/k2" in client.get_run(run.info.run_id).data.metrics


def test_under_mlflows_own_callback_and_autologging(client):
    with mlflow.start_run() as run:
        fit([mlflow.keras.MlflowCallback(), KerasCallback(X_val, Y_val, **NAMES)])
    found = client.get_run(run.info.run_id).data
    assert "loss" in found.metrics and found.tags[schema.TAG_STATUS] == schema.COMPLETE
    mlflow.keras.autolog(log_models=False, log_datasets=False, silent=True)
    try:
        fit([KerasCallback(X_val, Y_val, **NAMES)])
    finally:
        mlflow.keras.autolog(disable=True)
    latest = client.search_runs(["0"], order_by=["attributes.start_time DESC"])[0]
    assert latest.info.run_id != run.info.run_id
    assert latest.data.tags[schema.TAG_STATUS] == schema.COMPLETE and "loss" in latest.data.metrics


@pytest.mark.parametrize("broken", ["no run", "other features"])
def test_a_failure_is_one_warning_and_the_model_is_the_same(client, broken):
    plain = fit([]).get_weights()
    own = X_val[:, :2] if broken == "other features" else X_val
    callback = KerasCallback(own, Y_val, **NAMES)
    with one_warning(active=broken != "no run"):
        weights = fit([callback]).get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(plain, weights, strict=True))
    assert callback.epochs.evaluation is None
