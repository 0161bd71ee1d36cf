"""The callback for LightGBM in real trainings."""

from contextlib import nullcontext

import mlflow
import numpy as np
import pytest
from callback_cases import assert_end, assert_epochs, history, label_sets, one_warning, tags_of

from mlflow_mleval.store import schema

lgb = pytest.importorskip("lightgbm")

from mlflow_mleval.training.callbacks.boosting import LightGBMCallback  # noqa: E402

NAMES = {"method": "LightGBM", "dataset": "toy"}
QUIET = {"verbosity": -1, "n_jobs": 1, "min_child_samples": 5}
ROUNDS = 4
X, Y, X_VAL, Y_VAL = label_sets(150, 100)
DATA = X, Y[:, 0] + Y[:, 1], X_VAL, Y_VAL[:, 0] + Y_VAL[:, 1]


@pytest.mark.parametrize("classes", ["numbers", "names", "two"])
def test_each_round_and_the_end(client, classes):
    X, y, X_val, y_val = DATA
    if classes == "names":
        y, y_val = (np.array(["few", "more", "most"])[v] for v in (y, y_val))
    elif classes == "two":
        y, y_val = y > 0, y_val > 0
    with mlflow.start_run() as run, LightGBMCallback(X_val, y_val, **NAMES) as callback:
        model = lgb.LGBMClassifier(n_estimators=ROUNDS, **QUIET).fit(X, y, callbacks=[callback])
    scores = {i: model.predict_proba(X_val, num_iteration=i + 1) for i in range(ROUNDS)}
    measures = ("top1_accuracy", "log_loss", "macro_auroc")
    assert_epochs(client, run.info.run_id, y_val, scores, measures, 1e-9)
    assert_end(callback, y_val, scores[ROUNDS - 1], 1e-9)
    tags = tags_of(client, run, schema.TAG_EPOCH, schema.TAG_STATUS)
    assert tags == (str(ROUNDS - 1), schema.COMPLETE)


@pytest.mark.parametrize("by", ["callback", "parameter"])
def test_early_stopping_is_evaluated_at_its_best_iteration(client, by):
    X, y, X_val, y_val = DATA
    own = {"early_stopping_round": 3} if by == "parameter" else {}
    params = {"objective": "multiclass", "num_class": 3, "learning_rate": 0.9, **QUIET, **own}
    train = lgb.Dataset(X, y)
    with mlflow.start_run() as run, LightGBMCallback(X_val, y_val, **NAMES) as callback:
        stopping = [lgb.early_stopping(3, verbose=False)] if by == "callback" else []
        valid = [lgb.Dataset(X_val, y_val, reference=train)]
        model = lgb.train(params, train, 200, valid, callbacks=[callback, *stopping])
    assert 0 < model.best_iteration < 190
    assert_end(callback, y_val, model.predict(X_val))
    assert tags_of(client, run, schema.TAG_EPOCH) == (str(model.best_iteration - 1),)
    assert len(history(client, run.info.run_id, "log_loss")) == model.best_iteration + 3


BROKEN = {"no block": "Train in a block", "cv": "a model for each fold"}
BROKEN["other rows"] = "epoch 0 and later ones are not logged"


@pytest.mark.parametrize(("broken", "text"), BROKEN.items())
def test_a_failure_is_one_warning_and_the_model_is_the_same(client, broken, text):
    X, y, X_val, y_val = DATA
    params = {"objective": "multiclass", "num_class": 3, **QUIET}
    plain = lgb.train(params, lgb.Dataset(X, y), 3).model_to_string()
    callback = LightGBMCallback(X_val, y_val[:10] if broken == "other rows" else y_val, **NAMES)
    train = lgb.cv if broken == "cv" else lgb.train
    with one_warning(text), nullcontext() if broken == "no block" else callback:
        found = train(params, lgb.Dataset(X, y), 3, callbacks=[callback])
    assert broken == "cv" or found.model_to_string() == plain
    assert callback.epochs.evaluation is None
