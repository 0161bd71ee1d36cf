"""Processes that log fifty results each to one PostgreSQL at the same time: all arrive, once."""

import os

import mlflow
import numpy as np
import pytest
from import_cases import PROCESSES

import mlflow_mleval as mleval

pytestmark = [pytest.mark.server, pytest.mark.thorough]


def write(process, results, settings):
    os.environ.update(settings)
    rng = np.random.default_rng(process)
    for i in range(results):
        ev = mleval.evaluate(rng.integers(0, 2, (20, 3)), rng.random((20, 3)))
        mleval.log_evaluation(ev, method=f"m{process}", dataset=f"d{i}", experiment_name="e")


@pytest.mark.parametrize("results", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_every_result_arrives_once(database, tmp_path, monkeypatch, unset, results):
    uri = f"postgresql+psycopg2://mlflow@127.0.0.1:{database.port}/mlflow"
    settings = {"MLFLOW_TRACKING_URI": uri, "PGPASSWORD": database.password}
    settings["MLEVAL_TIMEOUT"] = "240"  # of a busy machine, where a result would be kept instead
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    mlflow.MlflowClient().create_experiment("e")
    with PROCESSES.Pool(8) as pool:
        pool.starmap(write, [(i, results, settings) for i in range(8)], chunksize=1)
    found = mlflow.search_runs(experiment_names=["e"], output_format="list", max_results=5000)
    pairs = {(r.data.tags["mleval.method"], r.data.tags["mleval.dataset"]) for r in found}
    assert len(found) == len(pairs) == 8 * results
    assert {run.data.tags["mleval.status"] for run in found} == {"complete"}
    study = mleval.load_study(experiment_names=["e"])
    assert len(study.methods) == 8 and len(study.datasets) == results and not study.excluded
