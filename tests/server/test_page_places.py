"""The page where a server is started in other ways: prefix, gunicorn, several processes,
PostgreSQL, wrong settings.
"""

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient
from page_servers import api, page_server, token_of_page
from waiting import PATIENCE

from mlflow_mleval.store.importing import import_results

pytestmark = [pytest.mark.server, pytest.mark.slow]


def seen_and_stored(server, experiment: str = "1") -> None:
    """Choose, answer, download, store: as a reader does, each time on a connection of its own, and
    so by any process.
    """
    selection = f"experiment-id={experiment}"
    assert "mystudy" in server.ask("experiments").text
    assert "2 methods, 3 datasets" in server.ask(f"survey?{selection}").text
    answer = server.ask(f"answer?{selection}").json()
    assert answer["state"] == "ready" and answer["runs"] == 6
    for _ in range(4):
        assert server.ask(f"answer?{selection}").json()["made"] == answer["made"]
        assert server.ask(f"detail?of=method&the-method=a&{selection}").ok
    assert server.ask(f"section?part=ranking&{selection}").ok
    assert server.ask(f"download?file=report.html&{selection}").text.startswith("<!doctype html>")
    own = {"X-Mleval-Token": token_of_page(server)}
    stored = server.ask(f"store?{selection}", None, "POST", headers=own)
    assert stored.ok and stored.json()["run_id"] in stored.json()["address"]


def study(monkeypatch, uri: str) -> str:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    rows = [(d, m, (i + k) / 9) for i, d in enumerate("xyz") for k, m in enumerate("ab")]
    results = pd.DataFrame(rows, columns=["dataset", "method", "f1"])
    import_results(results, experiment_name="mystudy")
    return MlflowClient().get_experiment_by_name("mystudy").experiment_id


@pytest.mark.parametrize(
    "options",
    [
        {"options": ["--workers", "4"]},
        {"options": ["--gunicorn-opts", "--timeout 120", "--workers", "4"], "prefix": "/tools/m"},
    ],
    ids=["four", "gunicorn-four-prefix"],
)
def test_other_servers(db, tmp_path, monkeypatch, options):
    uri = f"sqlite:///{db}"
    study(monkeypatch, uri)
    with page_server(tmp_path, uri, *options.pop("options"), **options) as server:
        seen_and_stored(server)


def test_postgres(database, tmp_path, monkeypatch, unset):
    monkeypatch.setenv("PGPASSWORD", database.password)
    uri = f"postgresql+psycopg2://mlflow@127.0.0.1:{database.port}/mlflow"
    with page_server(tmp_path, uri, "--workers", "2", PGPASSWORD=database.password) as server:
        seen_and_stored(server, study(monkeypatch, server.url))


def test_a_base_app_that_is_not_there_is_told_once(tmp_path, empty_store):
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    command = [sys.executable, "-m", "mlflow", "server", "--app-name", "mleval"]
    how = {"cwd": tmp_path, "env": {**os.environ, "MLEVAL_BASE_APP": "nothing"}}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **how)
    assert done.returncode
    assert "MLEVAL_BASE_APP must be one of basic-auth, got 'nothing'" in done.stderr


def test_a_workspace_shows_its_own_experiments_only(empty_store, tmp_path, monkeypatch, unset):
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with page_server(tmp_path, uri, MLFLOW_ENABLE_WORKSPACES="true") as server:
        api(server, "workspaces", {"name": "team-a"}, version="3.0")
        monkeypatch.setenv("MLFLOW_WORKSPACE", "team-a")
        own = study(monkeypatch, server.url)
        assert "mystudy" in server.ask("experiments?workspace=team-a").text
        assert "mystudy" not in server.ask("experiments").text
        assert server.ask(f"answer?experiment-id={own}&workspace=team-a").json()["runs"] == 6
        assert server.ask(f"answer?experiment-id={own}").status_code == 403


def test_a_comparison_ends_with_its_time_and_processes_with_their_server(db, tmp_path, monkeypatch):
    study(monkeypatch, f"sqlite:///{db}")
    with page_server(tmp_path, f"sqlite:///{db}", MLEVAL_PAGE_SECONDS="0.01") as server:
        answer = server.ask("answer?experiment-id=1")
        assert answer.status_code == 504 and "MLEVAL_PAGE_SECONDS" in answer.json()["error"]
        assert computing(tmp_path)
    deadline = time.monotonic() + PATIENCE
    while computing(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not computing(tmp_path), f"still there {PATIENCE} seconds after the server"


def computing(folder) -> list:
    """The processes that compute for a server whose temporary files lie there."""
    scratch = str(folder / "t").encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ours = scratch in (path / "environ").read_bytes()
            if ours and b"multiprocessing.forkserver" in (path / "cmdline").read_bytes():
                found.append(path)
    return found
