"""Kept results come into the store once each: equal ones, copies of a folder, lost answers, other
working folders.
"""

import json
import os
import shutil
import threading

import mlflow
import pytest
from answering import answering
from click.testing import CliRunner

from mlflow_mleval.cli import main
from mlflow_mleval.errors import ImportFileError, StoreError
from mlflow_mleval.store import runs, schema
from mlflow_mleval.training import delivery
from mlflow_mleval.training import delivery as unsent
from mlflow_mleval.training.delivery import Sent, send_unsent


@pytest.fixture(autouse=True)
def no_trouble(monkeypatch):
    monkeypatch.setattr(delivery, "_troubles", {})


def payload(value=0.5):
    return runs.Payload("A", "d", {"f1": value}, files={schema.ARTIFACT_DATA: lambda: "{}"})


def keep(count, folder, monkeypatch, run_id=None, value=0.5):
    monkeypatch.setenv(unsent.SETTING, str(folder))
    where = {"run_id": run_id, "experiment_name": None if run_id else "kept"}
    return [unsent.keep(payload(value), **where) for _ in range(count)]


def whole(client, name="kept"):
    """The runs of an experiment, each of which holds its result."""
    experiment = client.get_experiment_by_name(name)
    found = client.search_runs([experiment.experiment_id])
    assert all(run.data.tags[schema.TAG_STATUS] == schema.COMPLETE for run in found)
    assert all(run.info.status == "FINISHED" for run in found)
    return found


def test_equal_results_are_runs_of_their_own_and_a_copy_of_them_is_none(
    client, tmp_path, monkeypatch
):
    keep(5, tmp_path / "kept", monkeypatch)
    shutil.copytree(tmp_path / "kept", tmp_path / "copy")
    assert send_unsent(tmp_path / "kept") == Sent(5, 0)
    assert len(whole(client)) == 5 and not list((tmp_path / "kept").iterdir())
    assert send_unsent(tmp_path / "copy") == Sent(0, 5)
    assert len(whole(client)) == 5


def test_equal_results_for_one_run_are_that_run_and_others(client, tmp_path, monkeypatch):
    """As autologging does that finds its active run taken."""
    run = client.create_run(client.create_experiment("kept"))
    keep(3, tmp_path / "kept", monkeypatch, run_id=run.info.run_id)
    shutil.copytree(tmp_path / "kept", tmp_path / "copy")
    assert send_unsent(tmp_path / "kept") == Sent(3, 0)
    client.set_terminated(run.info.run_id)
    assert send_unsent(tmp_path / "copy") == Sent(0, 3)
    assert len(whole(client)) == 3
    assert run.info.run_id in {each.info.run_id for each in whole(client)}


@pytest.mark.thorough
def test_two_copies_at_once_make_one_run_of_each_result(client, tmp_path, monkeypatch):
    """Whenever one import has found that there is no run yet, another brings the same result in
    before it goes on.
    """
    keep(8, tmp_path / "kept", monkeypatch)
    shutil.copytree(tmp_path / "kept", tmp_path / "copy")
    write, others = runs.write, sorted((tmp_path / "copy").iterdir())

    def overtaken(given, **where):
        monkeypatch.setattr(runs, "write", write)
        (tmp_path / "next").mkdir()
        shutil.move(others.pop(0), tmp_path / "next")
        assert send_unsent(tmp_path / "next") == Sent(1, 0)
        (tmp_path / "next").rmdir()
        run_id = write(given, **where)
        monkeypatch.setattr(runs, "write", overtaken)
        return run_id

    monkeypatch.setattr(runs, "write", overtaken)
    sent = send_unsent(tmp_path / "kept")
    assert sent.written + sent.held == 8 and not others and len(whole(client)) == 8


def test_importing_a_folder_twice_at_once_brings_each_in_once(client, tmp_path, monkeypatch):
    keep(3, tmp_path / "kept", monkeypatch)
    ready, sent = threading.Barrier(2), []

    def bring_in():
        ready.wait()
        sent.append(send_unsent(tmp_path / "kept"))

    threads = [threading.Thread(target=bring_in) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each.written for each in sent) == 3 == len(whole(client))


def test_an_interrupted_import_goes_on(client, tmp_path, monkeypatch):
    keep(2, tmp_path / "kept", monkeypatch)
    fill = runs._send_all

    def broken(*given):
        monkeypatch.setattr(runs, "_send_all", fill)
        raise OSError("gone")

    monkeypatch.setattr(runs, "_send_all", broken)
    with pytest.raises(StoreError, match="gone"):
        send_unsent(tmp_path / "kept")
    assert send_unsent(tmp_path / "kept") == Sent(2, 0) and len(whole(client)) == 2


@pytest.mark.parametrize("what", ["nothing", "foreign", "emptied"])
def test_a_folder_without_kept_results_is_an_error_that_touches_nothing(
    client, tmp_path, monkeypatch, what
):
    folder = tmp_path / "folder"
    folder.mkdir()
    if what == "foreign":
        (folder / "package.json").write_text("{}")
        (folder / "results.csv").write_text("a,b")
    if what == "emptied":
        keep(1, folder, monkeypatch)
        send_unsent(folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = CliRunner().invoke(main, ["import", str(folder)])
    assert done.exit_code == 1 and "holds no kept results" in done.stderr
    assert "Remove" not in done.stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "value"), [("claim", "%"), ("claim", 3), ("digest", "0"), ("format", 1), ("files", [])]
)
def test_a_damaged_result_is_told_and_stays(client, tmp_path, monkeypatch, name, value):
    (path,) = keep(1, tmp_path / "kept", monkeypatch)
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(ImportFileError, match="Move it elsewhere"):
        send_unsent(tmp_path / "kept")
    assert path.exists() and client.get_experiment_by_name("kept") is None


def test_the_folder_stays_where_it_was_first(client, tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.delenv(unsent.SETTING, raising=False)
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
        answer = asked.answer_of(server)
        if asked.path.endswith("log-batch") and b'"complete"' in asked.body:
            lost.append(asked.path)
            return asked.connection.close()
        kind = {"Content-Type": answer.headers.get("Content-Type", "")}
        return asked.say(answer.content, answer.status_code, **kind)

    with answering(lossy) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        monkeypatch.setenv(unsent.SETTING, str(tmp_path / "kept"))
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
