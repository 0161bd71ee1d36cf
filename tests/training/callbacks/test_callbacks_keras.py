"""The callback for Keras in real trainings; the backend is KERAS_BACKEND's, by default one that is
installed.
"""

import importlib.util
import os

import mlflow
import numpy as np
import pandas as pd
import pytest

import mlflow_mleval as mleval
from mlflow_mleval.store import schema

BACKENDS = [name for name in ("torch", "jax", "tensorflow") if importlib.util.find_spec(name)]
pytest.importorskip("keras" if BACKENDS else "torch", reason="Keras needs torch, jax or tensorflow")
os.environ.setdefault("KERAS_BACKEND", BACKENDS[0])

import keras  # noqa: E402

from mlflow_mleval.training.callbacks.keras import KerasCallback  # noqa: E402

NAMES = {"method": "MLP", "dataset": "toy"}
EPOCHS = 3


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5)).astype("float32")
    Y = (X[:, :3] + 0.5 * rng.normal(size=(120, 3)) > 0).astype("int32")
    return X[:80], Y[:80], X[80:], Y[80:]


def network(activation="sigmoid"):
    """With dropout and batch normalisation, which behave differently in training."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((5,)),
            layers.Dense(8),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(3, activation),
        ]
    )
    loss = keras.losses.BinaryCrossentropy(from_logits=activation is None)
    model.compile(keras.optimizers.Adam(0.05), loss)
    return model


def fit(data, callbacks, epochs=EPOCHS, **options):
    X, Y = data[:2]
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
        self.scores.append(
            np.asarray(keras.ops.convert_to_numpy(self.model(self.x, training=False)))
        )


def history(client, run_id, measure):
    return [
        m.value
        for m in sorted(
            client.get_metric_history(run_id, schema.EPOCH_PREFIX + measure), key=lambda m: m.step
        )
    ]


def test_each_epoch_and_the_end(client, data):
    X_val, Y_val = data[2:]
    callback, keeper = KerasCallback(X_val, Y_val, **NAMES), Keeper(X_val)
    with mlflow.start_run() as run:
        model = fit(data, [callback, keeper], validation_data=(X_val, Y_val))
    for measure in ("hamming_loss", "ranking_loss", "soft_binomial_area"):
        expected = [mleval.evaluate(Y_val, s).measures[measure] for s in keeper.scores]
        assert history(client, run.info.run_id, measure) == pytest.approx(expected, rel=1e-5)
    expected = mleval.evaluate(Y_val, model.predict(X_val, verbose=0)).measures
    assert callback.epochs.evaluation.measures == pytest.approx(expected, rel=1e-6)
    tags = client.get_run(run.info.run_id).data.tags
    assert (tags[schema.TAG_METHOD], tags[schema.TAG_STATUS]) == ("MLP", schema.COMPLETE)


def test_the_training_is_the_same_with_and_without(client, data):
    weights = []
    for callbacks in ([], [KerasCallback(*data[2:], **NAMES)]):
        with mlflow.start_run():
            weights.append(fit(data, callbacks).get_weights())
    assert all(np.array_equal(a, b) for a, b in zip(*weights, strict=True))


def test_restored_weights_are_evaluated_behind_early_stopping(client, data):
    X_val, Y_val = data[2:]
    stopping = keras.callbacks.EarlyStopping(
        monitor="val_loss", patience=1, restore_best_weights=True
    )
    callback = KerasCallback(X_val, Y_val, batch_size=7, **NAMES)
    with mlflow.start_run():
        model = fit(data, [stopping, callback], epochs=30, validation_data=(X_val, Y_val))
    expected = mleval.evaluate(Y_val, model.predict(X_val, batch_size=7, verbose=0)).measures
    assert callback.epochs.evaluation.measures == pytest.approx(expected, rel=1e-6)


def test_best_epoch(client, data):
    X_val, Y_val = data[2:]
    callback, keeper = (
        KerasCallback(X_val, Y_val, best_by="soft_hamming_loss", **NAMES),
        Keeper(X_val),
    )
    with mlflow.start_run() as run:
        fit(data, [callback, keeper])
    losses = [mleval.evaluate(Y_val, s).measures["soft_hamming_loss"] for s in keeper.scores]
    assert client.get_run(run.info.run_id).data.tags[schema.TAG_EPOCH] == str(
        int(np.argmin(losses))
    )
    assert callback.epochs.evaluation.measures["soft_hamming_loss"] == pytest.approx(
        min(losses), rel=1e-5
    )


def test_logits_and_label_names(client, data):
    X_val, Y_val = data[2:]
    callback = KerasCallback(
        X_val, pd.DataFrame(Y_val, columns=list("xyz")), threshold=0.0, **NAMES
    )
    with mlflow.start_run() as run:
        model = fit(data, [callback], activation=None)
    expected = mleval.evaluate(Y_val, model.predict(X_val, verbose=0), threshold=0.0)
    assert callback.epochs.evaluation.measures == pytest.approx(expected.measures, rel=1e-6)
    assert callback.epochs.evaluation.label_names == ("x", "y", "z")
    assert "mleval.epoch.profile/k2" in client.get_run(run.info.run_id).data.metrics


def test_under_mlflows_own_callback_and_autologging(client, data):
    X_val, Y_val = data[2:]
    with mlflow.start_run() as run:
        fit(data, [mlflow.keras.MlflowCallback(), KerasCallback(X_val, Y_val, **NAMES)])
    found = client.get_run(run.info.run_id).data
    assert "loss" in found.metrics and found.tags[schema.TAG_STATUS] == schema.COMPLETE
    mlflow.keras.autolog(log_models=False, log_datasets=False, silent=True)
    try:
        fit(data, [KerasCallback(X_val, Y_val, **NAMES)])
    finally:
        mlflow.keras.autolog(disable=True)
    latest = client.search_runs(["0"], order_by=["attributes.start_time DESC"])[0]
    assert latest.info.run_id != run.info.run_id
    assert latest.data.tags[schema.TAG_STATUS] == schema.COMPLETE and "loss" in latest.data.metrics


@pytest.mark.parametrize("broken", ["no run", "other features", "other labels"])
def test_a_failure_is_one_warning_and_the_model_is_the_same(client, data, broken):
    X_val, Y_val = data[2:]
    plain = fit(data, []).get_weights()
    callback = {
        "no run": KerasCallback(X_val, Y_val, **NAMES),
        "other features": KerasCallback(X_val[:, :2], Y_val, **NAMES),
        "other labels": KerasCallback(X_val, Y_val[:, :2], **NAMES),
    }[broken]
    if broken != "no run":
        mlflow.start_run()
    try:
        with pytest.warns(UserWarning, match="mleval: ") as said:
            weights = fit(data, [callback]).get_weights()
    finally:
        mlflow.end_run()
    assert all(np.array_equal(a, b) for a, b in zip(plain, weights, strict=True))
    assert len([w for w in said if "mleval" in str(w.message)]) == 1
    assert callback.epochs.evaluation is None
