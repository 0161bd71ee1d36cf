"""Processes that log fifty results each to one PostgreSQL at the same time: all arrive, once."""

import os

import mlflow
import pytest
from import_cases import PROCESSES, write

import mlflow_mleval as mleval

pytestmark = [pytest.mark.server, pytest.mark.thorough, pytest.mark.slow]
WRITERS, RESULTS = 8, 50


def make(settings):
    os.environ.update(settings)
    mlflow.MlflowClient().create_experiment("e")


def read(settings):
    """What there is, in a process of its own: an open connection would keep the server from
    ending.
    """
    os.environ.update(settings)
    found = mlflow.search_runs(experiment_names=["e"], output_format="list", max_results=5000)
    study = mleval.load_study(experiment_names=["e"])
    cells = [(r.data.tags["mleval.method"], r.data.tags["mleval.dataset"]) for r in found]
    return cells, {r.data.tags["mleval.status"] for r in found}, study.values.shape[0]


def test_every_result_arrives_once(database, tmp_path, monkeypatch, unset):
    monkeypatch.chdir(tmp_path)
    settings = {
        "MLFLOW_TRACKING_URI": f"postgresql+psycopg2://mlflow@127.0.0.1:{database.port}/mlflow",
        "PGPASSWORD": database.password,
    }
    with PROCESSES.Pool(WRITERS) as pool:
        pool.apply(make, [settings])  # MLflow's tables are made by one
        pool.starmap(write, [(i, RESULTS, settings) for i in range(WRITERS)], chunksize=1)
        cells, status, compared = pool.apply(read, [settings])
    assert len(cells) == len({*cells}) == compared == WRITERS * RESULTS and status == {"complete"}
