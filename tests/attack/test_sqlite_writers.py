"""Processes that write to one SQLite file, not there when they start: every result arrives."""

import os

import mlflow
import numpy as np
import pytest
from import_cases import PROCESSES

import mlflow_mleval as mleval

pytestmark = pytest.mark.thorough


def write(process, results, uri):
    os.environ["MLFLOW_TRACKING_URI"] = uri
    rng = np.random.default_rng(process)
    for i in range(results):
        ev = mleval.evaluate(rng.integers(0, 2, (20, 3)), rng.random((20, 3)))
        mleval.log_evaluation(ev, method=f"m{process}", dataset=f"d{i}", experiment_name="e")


@pytest.mark.parametrize(
    ("processes", "results"), [(4, 4), pytest.param(8, 8, marks=pytest.mark.slow)]
)
def test_every_result_arrives(tmp_path, monkeypatch, unset, processes, results):
    uri = f"sqlite:///{tmp_path}/new.db"
    monkeypatch.chdir(tmp_path)
    with PROCESSES.Pool(processes) as pool:
        pool.starmap(write, [(i, results, uri) for i in range(processes)], chunksize=1)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    found = mlflow.search_runs(experiment_names=["e"], output_format="list")
    assert len(found) == processes * results
    assert {run.data.tags["mleval.status"] for run in found} == {"complete"}
