"""What tests that start servers or browsers share: how long to wait, and for what."""

import os
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import requests
from sqlalchemy import event
from sqlalchemy.engine import Engine

MLFLOW_SETTINGS = (
    "MLFLOW_TRACKING_URI",
    "MLFLOW_EXPERIMENT_ID",
    "MLFLOW_EXPERIMENT_NAME",
    "MLFLOW_RUN_ID",
)


#: Seconds that a test waits at most for a server or a browser; a busy machine needs many times what
#: a quiet one does.
PATIENCE = 240


def wait_for(url: str, process: subprocess.Popen, log: Path) -> None:
    """Until a server is ready; an error with the end of its log where it never is."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if requests.get(f"{url}/health", timeout=10).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.2)
    how = (
        f"ended with {process.returncode}"
        if process.poll() is not None
        else f"was not ready after {PATIENCE} seconds"
    )
    raise RuntimeError(f"the MLflow server {how}:\n{log.read_text()[-2000:]}")


@contextmanager
def running(command: list[str], folder: Path, url: str, **settings: str):
    """`python -m` a server in this folder, from when it answers to the end of the block."""
    inherited = {key: value for key, value in os.environ.items() if key not in MLFLOW_SETTINGS}
    env = {**inherited, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **settings}
    with open(folder / "server.log", "wb") as log:
        how = {"stdout": log, "stderr": log, "start_new_session": True, "env": env}
        process = subprocess.Popen([sys.executable, "-m", *command], cwd=folder, **how)
    try:
        wait_for(url, process, folder / "server.log")
        yield process
    finally:
        os.killpg(process.pid, 15)
        process.wait(PATIENCE)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def do_not_wait_for_the_disk() -> None:
    """No test pulls the plug, and every commit to SQLite of this process would wait for a disk."""
    event.listen(Engine, "connect", _do_not_wait)


def _do_not_wait(connection, _) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")
