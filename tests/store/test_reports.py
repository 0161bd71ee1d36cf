"""Reports as runs: the same again updates its run; and how processes wait for each other."""

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import pytest
from command_line import mleval
from mlflow import MlflowClient

from mlflow_mleval.errors import StoreError
from mlflow_mleval.store import runs as reports
from mlflow_mleval.store import store
from mlflow_mleval.store.importing import import_results
from mlflow_mleval.store.runs import address, log_report

FIRST = {"mleval_report.html": "<p>1", "mleval/a.csv": "a", "mleval/b.csv": "b"}
SECOND = {"mleval_report.html": "<p>2", "mleval/a.csv": "A"}


def contents(client, run_id, folder):
    root = Path(client.download_artifacts(run_id, "", str(folder)))
    files = [path for path in root.rglob("*") if path.is_file()]
    return {path.relative_to(root).as_posix(): path.read_text() for path in files}


def log(files, key="k", **more):
    return log_report(files, experiment_id="0", run_name="r", tags={"mleval.report": key}, **more)


def test_the_same_report_again_replaces_all_that_its_run_holds(client, tmp_path_factory):
    run_id = log(FIRST, params={"missing": "worst"}, summary="one")
    first = client.get_run(run_id)
    assert all(first.data.tags[f"mlflow.{key}"] for key in ("user", "source.name", "source.type"))
    assert log(SECOND, params={"missing": "worst"}, summary="two") == run_id
    assert contents(client, run_id, tmp_path_factory.mktemp("now")) == SECOND
    second = client.get_run(run_id)
    assert second.data.tags["mlflow.note.content"] == "two" and second.info.status == "FINISHED"
    assert int(second.data.tags["mleval.updated"]) > int(first.data.tags["mleval.updated"])
    assert log(FIRST, "other") != run_id


def test_a_report_that_cannot_be_replaced_stays_as_it_was(client, tmp_path_factory):
    run_id = log(FIRST, summary="one")
    broken = {"mleval/a.csv": "A", "mleval/b.csv/c.csv": "a folder named like a file"}
    with pytest.raises(StoreError, match="cannot write to the store"):
        log(broken, summary="two")
    run = client.get_run(run_id)
    assert contents(client, run_id, tmp_path_factory.mktemp("now")) == FIRST
    assert run.info.status == "FINISHED" and run.data.tags["mlflow.note.content"] == "one"

    def full():
        raise OSError("no space left")

    with pytest.raises(StoreError, match="cannot write to the store"):
        log({"mleval/a.csv": "A", "mleval/b.csv": full}, "new")
    (failed,) = client.search_runs(["0"], "tags.`mleval.report` = 'new'")
    assert failed.info.status == "FAILED"
    assert log(SECOND, "new") == failed.info.run_id
    assert client.get_run(failed.info.run_id).info.status == "FINISHED"


def test_several_machines_that_log_the_same_report_at_once_leave_one_run(client, monkeypatch):
    """Without the lock that one machine has, and all have looked before any has begun."""
    same, looked = reports._same, threading.Barrier(4)

    def looking(*where):
        found = same(*where)
        if not found:
            looked.wait()
        return found

    monkeypatch.setattr(reports, "alone", lambda *_: nullcontext())
    monkeypatch.setattr(reports, "_same", looking)
    with ThreadPoolExecutor(4) as threads:
        ids = [*threads.map(lambda _: log(FIRST, "together"), range(4))]
    (run,) = client.search_runs(["0"])
    assert run.info.run_id in ids and len(ids) == 4 and run.info.status == "FINISHED"


def test_the_command_writes_the_id_and_keeps_one_run_a_report(client):
    def report(*args):
        return mleval("report", "-n x --seed :draws=10", *args).stdout.strip()

    values = [(d, m, i * j) for i, d in enumerate("defgh") for j, m in enumerate("abc")]
    import_results(pd.DataFrame(values, columns=["dataset", "method", "f1"]), experiment_name="x")
    run_id = report("--log")
    run = client.get_run(run_id)
    newest, *others = client.search_runs([run.info.experiment_id])
    assert newest.info.run_id == run_id and len(others) == 15 and not run.data.metrics
    assert report("--log", "-o", "other.html") == run_id
    assert report("--log", "--alpha", "0.1") != run_id
    elsewhere = client.get_run(report("--log=reports"))
    assert client.get_experiment(elsewhere.info.experiment_id).name == "reports"
    assert report("--log=reports") == elsewhere.info.run_id
    assert run_id not in report("--log", "--output", "json")
    found = client.search_runs([run.info.experiment_id], "tags.`mleval.kind` = 'report'")
    assert len(found) == 2 and address(run_id) is None


@pytest.mark.thorough
def test_the_address_of_a_report_tells_no_password(server, monkeypatch):
    run_id = log(FIRST, "address")
    assert log(SECOND, "address") == run_id  # a server deletes what is no longer part of it
    assert [f.path for f in MlflowClient().list_artifacts(run_id, "mleval")] == ["mleval/a.csv"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.replace("http://", "http://me:secret@") + "/")
    assert address(run_id) == f"{server}/#/experiments/0/runs/{run_id}/artifacts/mleval_report.html"


def test_locks_lie_in_a_folder_of_the_users_own_and_one_not_given_back_is_an_error(
    tmp_path, monkeypatch
):
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(store.tempfile, "tempdir", str(shared))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with store.alone("x"):
        pass
    (folder,) = (tmp_path / "cache").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and len(list(folder.iterdir())) == 1
    assert not list(shared.iterdir())
    refused = pytest.raises(StoreError, match="another process has been busy with the same")
    with store.alone("x"), store.alone("y"), refused, store.alone("x", 0.1):
        pass


SPOILT = {
    "others may enter it": lambda own: (own.mkdir(), own.chmod(0o770)),
    "a link": lambda own: own.symlink_to(own.parents[1]),
    "a file": lambda own: own.write_text(""),
    "no folder": lambda own: (own.parent.rmdir(), own.parent.write_text("")),
    "no home": lambda own: os.environ.update({"XDG_CACHE_HOME": "~/.cache"}),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_folder_for_locks_that_is_not_ours_is_not_used(tmp_path, monkeypatch, spoil):
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(store.tempfile, "tempdir", str(shared))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    own = store._lock_folder()
    own.rmdir()
    spoil(own)
    with store.alone("x"):
        pass
    (folder,) = shared.iterdir()
    assert not (tmp_path / "~").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o750)
    with pytest.raises(PermissionError, match="not a folder of this user alone"), store.alone("x"):
        pass
