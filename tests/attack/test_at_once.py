"""Several processes do the same at the same time: what they make is there once."""

import os
import shutil
import subprocess
import sys

import import_cases
import pandas as pd
import pytest
from mlflow import MlflowClient

from mlflow_mleval.store import runs
from mlflow_mleval.store.importing import import_results
from mlflow_mleval.training import delivery

pytestmark = pytest.mark.thorough


def mleval(*args):
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
    said([mleval("import", str(tmp_path / name)) for name in ("kept", "copy")])
    found = client.search_runs([client.get_experiment_by_name("kept").experiment_id])
    assert len(found) == 8 and {run.data.tags["mleval.status"] for run in found} == {"complete"}


def test_four_reports_are_one_run(client, tmp_path):
    values = [(d, m, i * j / 8) for i, d in enumerate("defgh") for j, m in enumerate("abc")]
    import_results(pd.DataFrame(values, columns=["dataset", "method", "f1"]), experiment_name="x")
    command = ["report", "-n", "x", "--seed", ":draws=10", "--log"]
    ids = said([mleval(*command, "-o", str(tmp_path / f"{i}.html")) for i in range(4)])
    experiment_id = client.get_experiment_by_name("x").experiment_id
    (report,) = client.search_runs([experiment_id], "tags.`mleval.kind` = 'report'")
    assert ids == [report.info.run_id] * 4 and report.info.status == "FINISHED"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def imported(paths):
    """What each of several commands says that import at the same time, into an experiment `x`."""
    return said([mleval("import", str(path), "-n", "x") for path in paths])


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
