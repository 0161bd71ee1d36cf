"""Several processes at the same time, forked or not: what they make is there, and once."""

import multiprocessing
import os
import shutil
import subprocess
import sys

import import_cases
import mlflow
import pandas as pd
import pytest
from import_cases import PROCESSES, write
from mlflow import MlflowClient
from sklearn.datasets import make_multilabel_classification
from sklearn.neighbors import KNeighborsClassifier

import mlflow_mleval as mleval
from mlflow_mleval.store import runs
from mlflow_mleval.store.importing import import_results
from mlflow_mleval.training import delivery

pytestmark = pytest.mark.thorough


def started(*args):
    code = "from mlflow_mleval.cli import main; main()"
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", code, *args], stdout=pipe, stderr=pipe, text=True
    )


def said(processes):
    outputs = [process.communicate(timeout=500) for process in processes]
    assert all(process.returncode == 0 for process in processes), outputs
    return [out.strip() for out, _ in outputs]


def test_two_copies_of_a_folder_make_one_run_of_each_result(client, tmp_path, monkeypatch):
    monkeypatch.setenv(delivery.SETTING, str(tmp_path / "kept"))
    for _ in range(8):
        delivery.keep(runs.Payload("A", "d", {"f1": 0.5}), run_id=None, experiment_name="kept")
    shutil.copytree(tmp_path / "kept", tmp_path / "copy")
    said([started("import", str(tmp_path / name)) for name in ("kept", "copy")])
    found = client.search_runs([client.get_experiment_by_name("kept").experiment_id])
    assert len(found) == 8 and {run.data.tags["mleval.status"] for run in found} == {"complete"}


def test_four_reports_are_one_run(client, tmp_path):
    values = [(d, m, i * j / 8) for i, d in enumerate("defgh") for j, m in enumerate("abc")]
    import_results(pd.DataFrame(values, columns=["dataset", "method", "f1"]), experiment_name="x")
    command = ["report", "-n", "x", "--seed", ":draws=10", "--log"]
    ids = said([started(*command, "-o", str(tmp_path / f"{i}.html")) for i in range(4)])
    experiment_id = client.get_experiment_by_name("x").experiment_id
    (report,) = client.search_runs([experiment_id], "tags.`mleval.kind` = 'report'")
    assert ids == [report.info.run_id] * 4 and report.info.status == "FINISHED"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def imported(paths):
    """What each of several commands says that import at the same time, into an experiment `x`."""
    return said([started("import", str(path), "-n", "x") for path in paths])


def test_three_imports_into_a_store_that_is_not_there(tmp_path, monkeypatch, unset):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/new.db")
    monkeypatch.chdir(tmp_path)
    import_cases.RESULTS.to_csv(tmp_path / "x.csv", index=False)
    imported([tmp_path / "x.csv"] * 3)
    import_cases.one_run_a_pair(MlflowClient())


def test_imports_that_differ_leave_each_run_as_one_of_them_has_it(client, tmp_path):
    values = [(d, m, i * j / 8) for i, d in enumerate("defgh") for j, m in enumerate("abc")]
    table = pd.DataFrame(values, columns=["dataset", "method", "f1"])
    paths = [tmp_path / f"{i}.csv" for i in range(3)]
    for i, path in enumerate(paths):
        table.assign(f1=table["f1"] + i, recall=table["f1"] + i).to_csv(path, index=False)
    imported(paths)
    found = client.search_runs([client.get_experiment_by_name("x").experiment_id])
    assert len(found) == len(table)
    for run in found:
        assert run.data.tags["mleval.status"] == "complete"
        assert run.data.metrics["mleval/f1"] == run.data.metrics["mleval/recall"]


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


X, Y = make_multilabel_classification(90, 6, n_classes=3, random_state=0)


def evaluate(neighbours):
    mleval.autolog(dataset="d", asynchronous=True)
    KNeighborsClassifier(neighbours).fit(X[:60], Y[:60]).score(X[60:], Y[60:])


@pytest.mark.parametrize(("method", "children"), [("fork", 2), ("spawn", 1)])
def test_children_write_their_own(db, method, children):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    context, started = multiprocessing.get_context(method), []
    try:
        evaluate(1)
        started = [context.Process(target=evaluate, args=(2 + i,)) for i in range(children)]
        for child in started:
            child.start()
        for child in started:
            child.join(300)
            assert child.exitcode == 0, "a child failed, or did not end within 5 minutes"
    finally:
        mleval.autolog(disable=True)
        for child in started:
            child.kill()
    found = mlflow.search_runs(experiment_names=["Default"], output_format="list")
    expected = {"KNeighborsClassifier"}
    assert {run.data.tags["mleval.method"].partition("(")[0] for run in found} == expected
    expected = ["1", "2", "3"][: 1 + children]
    assert sorted(run.data.params["n_neighbors"] for run in found) == expected
