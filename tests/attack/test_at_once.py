"""Several processes do the same at the same time: what they make is there once."""

import os
import shutil
import subprocess
import sys

import pandas as pd
import pytest

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
    print(said([mleval("import", str(tmp_path / name)) for name in ("kept", "copy")]))
    found = client.search_runs([client.get_experiment_by_name("kept").experiment_id])
    assert len(found) == 8 and {run.data.tags["mleval.status"] for run in found} == {"complete"}


def test_four_reports_are_one_run(client, tmp_path):
    values = [(d, m, i * j / 8) for i, d in enumerate("defgh") for j, m in enumerate("abc")]
    import_results(pd.DataFrame(values, columns=["dataset", "method", "f1"]), experiment_name="x")
    command = ["report", "-n", "x", "--draws", "10", "--log"]
    ids = said([mleval(*command, "-o", str(tmp_path / f"{i}.html")) for i in range(4)])
    experiment_id = client.get_experiment_by_name("x").experiment_id
    (report,) = client.search_runs([experiment_id], "tags.`mleval.kind` = 'report'")
    assert ids == [report.info.run_id] * 4 and report.info.status == "FINISHED"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]
