"""Beside MLflow's autologging fit_time is that of the fit alone, and MLflow has nothing to say."""

import logging

import mlflow
import pytest
from autolog_cases import X_TEST, X_TRAIN, Y_TEST, Y_TRAIN, mlflow_on, ours, value
from sklearn.ensemble import RandomForestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from mlflow_mleval.training import wrappers

now = [0.0]


class Timed(KNeighborsClassifier):
    """By the clock of the test a fit takes 1 second, and whatever predicts, as MLflow does after a
    fit, 1000.
    """

    def fit(self, X, y):
        now[0] += 1
        return super().fit(X, y)

    def predict(self, X):
        now[0] += 1000
        return super().predict(X)


@pytest.fixture(autouse=True)
def no_figures():
    """All are drawn: of any that is not MLflow would say so."""


@pytest.mark.parametrize(
    ("make", "order"),
    [
        *((Timed, [mlflow_on, ours]), (Timed, [ours, mlflow_on, ours]), (Timed, [ours])),
        (lambda: make_pipeline(Timed()), [ours, mlflow_on]),
    ],
)
def test_fit_time_is_that_of_the_fit_alone(runs, monkeypatch, make, order):
    monkeypatch.setattr(wrappers.time, "perf_counter", lambda: now[0])
    for step in order:
        step()
    model = make().fit(X_TRAIN, Y_TRAIN)
    model.score(X_TEST, Y_TEST)
    (run,) = runs()
    assert value(run, "fit_time") == 1


def loud():
    mlflow.sklearn.autolog(log_models=False, log_datasets=False)


SEVERAL = MultiOutputClassifier(DecisionTreeClassifier())
MODELS = [RandomForestClassifier(3), KNeighborsClassifier(), SEVERAL]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("order", [[loud, ours], [ours, loud]])
def test_our_predictions_make_mlflow_say_nothing(runs, caplog, model, order):
    for step in order:
        step()
    model.fit(X_TRAIN, Y_TRAIN)
    caplog.clear()
    logging.getLogger("mlflow").addHandler(caplog.handler)
    try:
        model.score(X_TEST, Y_TEST)
    finally:
        logging.getLogger("mlflow").removeHandler(caplog.handler)
    assert len(runs()) == 1
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING], caplog.text
