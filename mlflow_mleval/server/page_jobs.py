"""What a process of the server does to have something computed: finds or starts the worker, opens
the forwarder for the job.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from mlflow_mleval.server.answer_cache import CacheFolder
from mlflow_mleval.server.forwarder import Forwarder
from mlflow_mleval.server.in_process import Caller, Inside

#: Seconds a computation may take, unless MLEVAL_PAGE_SECONDS says otherwise.
LIMIT = 300.0
#: What the worker's environment has of the server's: nothing that may hold a secret.
_ENVIRONMENT = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TMPDIR",
    "TZ",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "MLEVAL_PAGE_CACHE_MB",
)
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "600",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
}
WAITING = {"state": "working", "step": "starting", "done": 0, "total": 0}


class PageJobs:
    """The jobs of one process of the server; nothing is made before the first is needed."""

    def __init__(self, inside: Inside) -> None:
        self.inside, self.forwarder = inside, Forwarder(inside)
        self._lock, self._folder, self._started = threading.Lock(), None, 0.0

    @property
    def folder(self) -> CacheFolder:
        with self._lock:
            if self._folder is None:
                self._folder = CacheFolder.of_this_server()
                self._stays = self._folder.stay()
            return self._folder

    def warm(self) -> None:
        """Start the worker if there is none, so that it has imported what it needs when it is
        needed.
        """
        with suppress(OSError):
            self._connection().close()

    def ask(
        self, key: str, caller: Caller, job: dict[str, Any], writes: bool = False
    ) -> dict[str, Any]:
        """Where the computation of an answer stands; started if nobody has.

        `job` is what the worker is to do.
        """
        try:
            connection = self._connection()
        except OSError:
            return WAITING
        try:
            file = connection.makefile("r", encoding="utf-8")
            connection.sendall(json.dumps({"key": key, "who": caller.identity}).encode() + b"\n")
            state = json.loads(file.readline() or "null") or WAITING
        except (OSError, ValueError):
            connection.close()
            return WAITING
        if state["state"] != "start":
            connection.close()
            return state
        opened = threading.Event()
        threading.Thread(
            target=self._attend,
            args=(connection, caller, job, writes, opened),
            name="mleval-job",
            daemon=True,
        ).start()
        opened.wait(5)
        return WAITING

    def _attend(
        self,
        connection: socket.socket,
        caller: Caller,
        job: dict[str, Any],
        writes: bool,
        opened: threading.Event,
    ) -> None:
        """Keep the forwarder open for the job until the worker says that it is over."""
        with connection, self.forwarder.open_for(caller, writes) as (address, token):
            with suppress(OSError):
                connection.sendall(
                    json.dumps({**job, "server": address, "token": token}).encode() + b"\n"
                )
                opened.set()
                connection.settimeout(None)
                while connection.recv(1024):
                    pass
            opened.set()

    def held(self, key: str, question: dict[str, Any]) -> dict[str, Any] | None:
        """What the process that holds the comparison behind an answer says; None where there is
        none.
        """
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(30)
                connection.connect(self.folder.holder(key))
                connection.sendall(json.dumps(question).encode() + b"\n")
                return json.loads(connection.makefile("r", encoding="utf-8").readline() or "null")
        except (OSError, ValueError):
            return None

    def _connection(self) -> socket.socket:
        folder = self.folder
        for attempt in range(2):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(5)
            try:
                connection.connect(folder.door)
                return connection
            except OSError:
                connection.close()
                if attempt:
                    raise
                self._start(folder)
        raise AssertionError

    def _start(self, folder: CacheFolder) -> None:
        """Start the worker; where another process has been quicker, it ends at once."""
        with self._lock:
            if time.monotonic() - self._started < 20:  # it is on its way: importing takes seconds
                return
            self._started = time.monotonic()
        kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        limit = float(os.environ.get("MLEVAL_PAGE_SECONDS") or LIMIT)
        command = [
            sys.executable,
            "-m",
            "mlflow_mleval.server.worker",
            str(folder.path),
            str(limit),
        ]
        process = subprocess.Popen(
            command, env=kept | _QUIET, cwd=folder.path, stdin=subprocess.DEVNULL
        )
        threading.Thread(target=process.wait, name="mleval-worker", daemon=True).start()
