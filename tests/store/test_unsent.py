"""Kept results come into the store once each, whatever is equal, copied or lost."""

import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import mlflow
import pytest
from answering import answering
from command_line import mleval

from mlflow_mleval.errors import ImportFileError, StoreError
from mlflow_mleval.store import runs, schema
from mlflow_mleval.training import delivery
from mlflow_mleval.training.delivery import Sent, send_unsent


def payload(value=0.5):
    return runs.Payload("A", "d", {"f1": value}, files={schema.ARTIFACT_DATA: lambda: "{}"})


def keep(count, folder, monkeypatch, run_id=None, value=0.5):
    monkeypatch.setenv(delivery.SETTING, str(folder))
    where = {"run_id": run_id, "experiment_name": None if run_id else "kept"}
    return [delivery.keep(payload(value), **where) for _ in range(count)]


def whole(client, name="kept"):
    """The runs of an experiment, each of which holds its result."""
    experiment = client.get_experiment_by_name(name)
    found = client.search_runs([experiment.experiment_id])
    assert all(run.data.tags[schema.TAG_STATUS] == schema.COMPLETE for run in found)
    assert all(run.info.status == "FINISHED" for run in found)
    return found


def test_equal_results_for_one_run_are_that_run_and_others_and_a_copy_is_none(
    client, tmp_path, monkeypatch
):
    """As autologging does that finds its active run taken."""
    run = client.create_run(client.create_experiment("kept"))
    keep(3, tmp_path / "kept", monkeypatch, run_id=run.info.run_id)
    shutil.copytree(tmp_path / "kept", tmp_path / "copy")
    assert send_unsent(tmp_path / "kept") == Sent(3, 0)
    client.set_terminated(run.info.run_id)
    assert send_unsent(tmp_path / "copy") == Sent(0, 3)
    assert run.info.run_id in {each.info.run_id for each in whole(client)}
    paths = keep(5, tmp_path / "kept", monkeypatch)
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    shutil.copytree(tmp_path / "kept", tmp_path / "new copy")
    assert send_unsent(tmp_path / "kept") == Sent(5, 0) and not [*(tmp_path / "kept").iterdir()]
    assert send_unsent(tmp_path / "new copy") == Sent(0, 5) and len(whole(client)) == 8


def test_importing_a_folder_twice_at_once_brings_each_in_once(client, tmp_path, monkeypatch):
    keep(3, tmp_path / "kept", monkeypatch)
    ready = threading.Barrier(2)

    def bring_in(_):
        ready.wait()
        return send_unsent(tmp_path / "kept")

    with ThreadPoolExecutor(2) as threads:
        sent = threads.map(bring_in, range(2))
    assert sum(each.written for each in sent) == 3 == len(whole(client))


def test_an_interrupted_import_goes_on(client, tmp_path, monkeypatch):
    keep(2, tmp_path / "kept", monkeypatch)
    fill = runs.put

    def broken(*given):
        monkeypatch.setattr(runs, "put", fill)
        raise OSError("gone")

    monkeypatch.setattr(runs, "put", broken)
    with pytest.raises(StoreError, match="gone"):
        send_unsent(tmp_path / "kept")
    assert send_unsent(tmp_path / "kept") == Sent(2, 0) and len(whole(client)) == 2


def test_a_folder_without_kept_results_is_an_error_that_touches_nothing(
    client, tmp_path, monkeypatch
):
    folder = tmp_path / "folder"
    keep(1, folder, monkeypatch)
    send_unsent(folder)
    for files in ([], ["package.json", "results.csv"]):
        for name in files:
            (folder / name).write_text("{}")
        told = mleval("import", folder, code=1).stderr
        assert "holds no kept results" in told and "Remove" not in told
        assert sorted(path.name for path in folder.iterdir()) == files


def test_a_damaged_result_is_told_and_stays(client, tmp_path, monkeypatch):
    (path,) = keep(1, tmp_path / "kept", monkeypatch)
    held = json.loads(path.read_text())
    damages = {"claim": "%"}, {"claim": 3}, {"digest": "0"}, {"format": 1}, {"files": []}
    for damage in damages:
        path.write_text(json.dumps(held | damage))
        with pytest.raises(ImportFileError, match="Move it elsewhere"):
            send_unsent(tmp_path / "kept")
        assert path.exists() and client.get_experiment_by_name("kept") is None


def test_the_folder_stays_where_it_was_first(client, tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.delenv(delivery.SETTING, raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    for name in ("first", "second"):
        os.chdir(tmp_path / name)  # the fixture of the store takes it back
        said = f"kept in {tmp_path}/first/mleval_unsent.*mleval import {tmp_path}/first/"
        with pytest.raises(StoreError, match=said):
            delivery.deliver(payload(), None, "kept")
    assert len(list((tmp_path / "first" / "mleval_unsent").iterdir())) == 2
    assert not list((tmp_path / "second").iterdir())


@pytest.mark.server
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_run_whose_last_answer_was_lost_is_finished(server, tmp_path, monkeypatch, goes_on):
    """The answer to what makes a run count is lost, and maybe all that come after it."""
    name, lost = f"lost answers {goes_on}", []

    def lossy(asked):
        if lost and not goes_on:
            return asked.connection.close()
        if asked.path.endswith("log-batch") and b'"complete"' in asked.body:
            lost.append(asked.answer_of(server))
            return asked.connection.close()
        return asked.pass_on(server)

    with answering(lossy) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        monkeypatch.setenv(delivery.SETTING, str(tmp_path / "kept"))
        if goes_on:
            delivery.deliver(payload(), None, name)
        else:
            with pytest.raises(StoreError, match="kept in"):
                delivery.deliver(payload(), None, name)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    client = mlflow.MlflowClient()
    assert len(whole(client, name)) == 1
    if not goes_on:
        # as one that has seen the failure would
        client.set_terminated(whole(client, name)[0].info.run_id, "FAILED")
        assert send_unsent(tmp_path / "kept") == Sent(0, 1)
        assert len(whole(client, name)) == 1
    assert not list((tmp_path / "kept").glob("*"))
