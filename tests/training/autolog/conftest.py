"""Autologging is off after each test, and the runs that it made are at hand."""

import sys

import mlflow
import pytest
from autolog_cases import BEFORE, functions

import mlflow_mleval as mleval
from mlflow_mleval.store import schema


@pytest.fixture(autouse=True)
def no_figures(request, monkeypatch):
    """As without matplotlib, for figures take time; where MLflow's log is read, all are drawn."""
    if "caplog" not in request.fixturenames:
        monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture(autouse=True)
def everything_is_restored():
    yield
    mleval.autolog(disable=True)
    mlflow.sklearn.autolog(disable=True)
    now = functions()
    assert now.keys() == BEFORE.keys() and all(now[key] is BEFORE[key] for key in BEFORE)


@pytest.fixture(name="runs")
def runs_of_ours(client):
    """The runs with a result of ours, the oldest first."""

    def find(names=("Default",)):
        ids = [client.get_experiment_by_name(name).experiment_id for name in names]
        return [r for r in reversed(client.search_runs(ids)) if schema.TAG_STATUS in r.data.tags]

    return find
