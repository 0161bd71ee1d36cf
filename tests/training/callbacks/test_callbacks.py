"""The public names of the callbacks: what constructs each."""

import os

import pytest

import mlflow_mleval as mleval

os.environ.setdefault("KERAS_BACKEND", "torch")


@pytest.mark.parametrize(
    "framework", ["keras", "lightning", "huggingface", "xgboost", "lightgbm", "catboost", "optuna"]
)
def test_each_framework_has_its_callback(framework):
    pytest.importorskip({"huggingface": "transformers"}.get(framework, framework))
    own = getattr(mleval.callbacks, framework)
    assert own.__name__.lower() == f"{framework}callback"
    data = () if framework in ("lightning", "huggingface", "optuna") else ([[0.0]], [[0, 1]])
    data = (None, *data) if framework == "catboost" else data
    further = {"measure": "f1"} if framework == "optuna" else {}
    callback = own(*data, method="MLP", dataset="yeast", **further)
    assert callback.epochs.method == "MLP" and callback.epochs.dataset == "yeast"


def test_names_are_listed_and_others_are_refused():
    assert {"keras", "lightning", "xgboost"} <= set(dir(mleval.callbacks))
    assert "callbacks" in mleval.__all__
    said = "no attribute 'chainer'; it has .*keras, lightgbm, lightning"
    with pytest.raises(AttributeError, match=said):
        mleval.callbacks.chainer  # noqa: B018
