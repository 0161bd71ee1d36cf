"""Processes that write to one SQLite file, not there when they start: every result arrives."""

import mlflow
import pytest
from import_cases import PROCESSES, write

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    ("processes", "results"), [(4, 4), pytest.param(8, 8, marks=pytest.mark.slow)]
)
def test_every_result_arrives(tmp_path, monkeypatch, unset, processes, results):
    uri = f"sqlite:///{tmp_path}/new.db"
    monkeypatch.chdir(tmp_path)
    with PROCESSES.Pool(processes) as pool:
        settings = {"MLFLOW_TRACKING_URI": uri}
        pool.starmap(write, [(i, results, settings) for i in range(processes)], chunksize=1)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    found = mlflow.search_runs(experiment_names=["e"], output_format="list")
    assert len(found) == processes * results
    assert {run.data.tags["mleval.status"] for run in found} == {"complete"}
