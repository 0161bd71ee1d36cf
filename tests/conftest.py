"""Fixtures that several areas share: a fresh MLflow store for each test, and a real tracking server."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
MLFLOW_SETTINGS = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID")


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory) -> Path:
    """A database file with MLflow's tables; made once, because that takes seconds."""
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def unset(monkeypatch) -> None:
    """No setting of MLflow is left from the environment or an earlier test, nor will one of this test be."""
    from mlflow.tracking import fluent

    for name in MLFLOW_SETTINGS:
        monkeypatch.setenv(name, "")  # so that the absence is restored, too
        monkeypatch.delenv(name)
    monkeypatch.setattr(fluent, "_active_experiment_id", None)


@pytest.fixture
def db(empty_store, tmp_path, monkeypatch, unset) -> Path:
    """A store of its own for the test, and a working folder; MLflow is set to it."""
    path = tmp_path / "mlflow.db"
    shutil.copy(empty_store, path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def client(db):
    """A client of the test's own store."""
    from mlflow import MlflowClient

    return MlflowClient()


@pytest.fixture(scope="session")
def server_url(empty_store, tmp_path_factory):
    """A real MLflow server on localhost, one for all tests that ask for it."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(empty_store, folder / "mlflow.db")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port),
               "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}", "--artifacts-destination", str(folder / "artifacts")]
    inherited = {key: value for key, value in os.environ.items() if key not in MLFLOW_SETTINGS}
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True,
                                   env={**inherited, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"})
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url, process, folder / "server.log")
        yield url
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


@pytest.fixture
def server(server_url, tmp_path, monkeypatch, unset) -> str:
    """The server's URL; MLflow is set to it."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server_url)
    monkeypatch.chdir(tmp_path)
    return server_url


def _wait_for(url: str, process: subprocess.Popen, log: Path, seconds: int = 120) -> None:
    import requests

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if requests.get(f"{url}/health", timeout=2).ok:
                return
        except requests.RequestException:
            time.sleep(0.2)
    raise RuntimeError(f"the MLflow server did not start:\n{log.read_text()[-2000:]}")
