"""What the tests of autologging share: data, the functions before any patch, fixtures, and the
orders of the calls.
"""

import sys
import types

import mlflow
import pytest
import sklearn
import sklearn.metrics
import sklearn.model_selection
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

import mlflow_mleval as mleval
from mlflow_mleval.store import schema
from mlflow_mleval.training.autolog import places_to_wrap

X, Y = make_multilabel_classification(150, 8, n_classes=4, random_state=1)
X_TRAIN, X_TEST, Y_TRAIN, Y_TEST = X[:100], X[100:], Y[:100], Y[100:]
# called through the modules, as autolog() asks
model_selection, metrics = sklearn.model_selection, sklearn.metrics

CLASSES = [
    *(KNeighborsClassifier, RandomForestClassifier, ClassifierChain, MultiOutputClassifier),
    *(OneVsRestClassifier, Pipeline, MLPClassifier, GridSearchCV, DecisionTreeClassifier),
    LogisticRegression,
]


def functions():
    """Every function that autologging may wrap, MLflow's slots included, by where it is."""
    found = {}
    for name in ("fit", "score", "predict", "predict_proba", "decision_function"):
        for owner, slot in places_to_wrap(CLASSES, name):
            found |= {
                (id(owner), key): value for key, value in vars(owner).items() if key.endswith(slot)
            }
    validation = sys.modules["sklearn.model_selection._validation"]
    for module in (model_selection, validation, metrics, metrics._classification):
        found |= {
            (id(module), key): value
            for key, value in vars(module).items()
            if isinstance(value, types.FunctionType)
        }
    return found


BEFORE = functions()


def value(run, measure):
    return run.data.metrics[f"mleval/{measure}"]


def assert_held_out(run, model, X=X_TEST, Y=Y_TEST):
    """The run holds what evaluate gives for the model."""
    tags = run.data.tags
    assert tags[schema.TAG_STATUS] == "complete" and tags[schema.TAG_KIND] == "evaluation"
    expected = mleval.evaluate(Y, y_pred=model.predict(X)).measures
    for name in ("f1", "micro_f1", "hamming_loss", "subset_accuracy"):
        assert value(run, name) == pytest.approx(expected[name])


def folds_of(run):
    return schema.decode_folds(run.data.tags[schema.TAG_FOLDS])


def mlflow_on():
    # One child of a search: MLflow writes several at once, each with the dataset, which a new
    # SQLite file may refuse.
    mlflow.sklearn.autolog(log_models=False, log_datasets=False, silent=True, max_tuning_runs=1)


def mlflow_off():
    mlflow.sklearn.autolog(disable=True)


def ours():
    mleval.autolog(dataset="d")


ORDERS = {
    "ours only": [ours],
    "before": [mlflow_on, ours],
    "after": [ours, mlflow_on],
    "before, then off": [mlflow_on, ours, mlflow_off],
    "after, then off": [ours, mlflow_on, mlflow_off],
    "before, off, on": [mlflow_on, ours, mlflow_off, mlflow_on],
    "after, off, on": [ours, mlflow_on, mlflow_off, mlflow_on],
    "on twice after": [mlflow_on, ours, mlflow_on],
    "ours twice around": [ours, mlflow_on, ours],
}
#: The orders as parameters: two after each change, the others where everything is tested.
TWO_ORDERS = ("before", "after, off, on")
MORE_ORDERS = [order for order in ORDERS if order not in TWO_ORDERS]
EACH_ORDER = [
    *TWO_ORDERS,
    *(pytest.param(order, marks=pytest.mark.thorough) for order in MORE_ORDERS),
]
