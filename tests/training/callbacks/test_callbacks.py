"""The public names of the callbacks: what constructs each, and nothing is imported before it is
asked for.
"""

import importlib
import os
import subprocess
import sys

import pytest

import mlflow_mleval as mleval

os.environ.setdefault("KERAS_BACKEND", "torch")


@pytest.mark.parametrize(
    "framework", ["keras", "lightning", "huggingface", "xgboost", "lightgbm", "catboost", "optuna"]
)
def test_each_framework_has_its_callback(framework):
    pytest.importorskip({"huggingface": "transformers"}.get(framework, framework))
    module = importlib.import_module(f"mlflow_mleval.training.callbacks.{framework}")
    (own,) = [
        v
        for name, v in vars(module).items()
        if name.endswith("Callback") and v.__module__ == module.__name__
    ]
    assert getattr(mleval.callbacks, framework) is own
    data = () if framework in ("lightning", "huggingface", "optuna") else ([[0.0]], [[0, 1]])
    data = (None, *data) if framework == "catboost" else data
    further = {"measure": "f1"} if framework == "optuna" else {}
    assert own is type(
        getattr(mleval.callbacks, framework)(*data, method="MLP", dataset="yeast", **further)
    )


def test_names_are_listed_and_others_are_refused():
    assert {"keras", "lightning", "xgboost"} <= set(
        dir(mleval.callbacks)
    ) and "callbacks" in mleval.__all__
    with pytest.raises(
        AttributeError, match="no attribute 'chainer'; it has .*keras, lightgbm, lightning"
    ):
        mleval.callbacks.chainer  # noqa: B018


def test_no_framework_is_imported_before_its_callback_is_asked_for():
    code = (
        "import sys, mlflow_mleval as m; m.callbacks; assert not {'keras', 'lightning', "
        "'xgboost', 'mlflow'} & {*sys.modules}"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).returncode == 0
    )
