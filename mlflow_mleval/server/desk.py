"""Who computes for the page: a job goes to a process of its own, and its answer is kept. Such a
process knows no member: it asks MLflow at the `Door` of the process that has the desk."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import threading
import time
import traceback
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3
from werkzeug.wrappers import Response

from mlflow_mleval.server.members import Caller, Door, Inside
from mlflow_mleval.store.schema import sha256_of
from mlflow_mleval.store.store import private

if TYPE_CHECKING:
    from mlflow_mleval.server.page_selection import Job, Made

# ---- the process of a job: a fork of one that has everything imported ----------------------------

#: What its environment has of the server's: nothing that may hold a secret.
_ENVIRONMENT = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "VIRTUAL_ENV"),
    *("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
)
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "600",
    "MLEVAL_TIMEOUT": "600",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
}
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["mlflow_mleval.server.warm"])


def work(told: Connection, scratch: str, job: Job) -> None:
    """Do the job in this process, which knows no secret, gives way to MLflow, and ends with its
    server: send how far it is, and at last what it made."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    os.environ.clear()
    os.environ.update(kept | _QUIET)
    tempfile.tempdir = scratch
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = multiprocessing.parent_process()

    def end_with_server() -> None:
        if server is not None:
            server.join()
            os._exit(0)

    threading.Thread(target=end_with_server, daemon=True).start()
    from mlflow_mleval.server import answers

    told.send({"made": answers.make(job, lambda **far: told.send({"told": far}))})


# ---- the desk: answers that are there, and jobs in the order in which members take turns ---------

#: How many processes may compute comparisons at a time, and how many what is short.
LANES = {"answer": 2, "survey": 1, "part": 3}
#: Seconds: how long a job is kept that nobody asks for, and a failure for whoever asks again; and a
#: computation, unless MLEVAL_PAGE_SECONDS says otherwise.
ABSENT, REMEMBER, LIMIT = 3.0, 5.0, 300.0
#: Megabytes of answers, packed, unless MLEVAL_PAGE_CACHE_MB says otherwise.
ROOM = 100.0
#: Seconds between two looks at a job.
OFTEN = 0.2


@dataclass
class Task:
    """A job that waits, is at work, or has just failed."""

    key: str
    job: Job
    lane: str
    caller: Caller
    asked: float  #: when somebody asked for it last
    patience: float = ABSENT
    working: bool = False
    told: Made = field(default_factory=lambda: {"step": "starting"})
    failure: Made | None = None

    @property
    def is_left(self) -> bool:
        """Whether nobody waits for it any more."""
        return time.monotonic() - self.asked > self.patience


class Desk:
    """Keeps answers, packed, and has those made that are not there."""

    def __init__(self, door: Door, folder: Path) -> None:
        self.door, self.folder = door, folder
        self.limit = float(os.environ.get("MLEVAL_PAGE_SECONDS") or LIMIT)
        self.room = 1e6 * float(os.environ.get("MLEVAL_PAGE_CACHE_MB") or ROOM)
        self.answers: OrderedDict[str, Made] = OrderedDict()
        self.tasks: dict[str, Task] = {}
        self.changed = threading.Condition()
        forkserver.ensure_running()  # it imports, which takes seconds

    def ask(
        self,
        key: str,
        caller: Caller,
        job: Job,
        *,
        lane: str,
        newer: float = 0,
        patience: float = 0.0,
        wait: float = 0.0,
    ) -> Made:
        """What was made under this name after a time in milliseconds; else it is made now, and
        ``{"state": "working", …}`` says how far, or ``{"state": "failed", …}`` why not."""
        # `patience`: the seconds that the member's requests take, for who logs in slowly asks
        # rarely; `wait`: those to wait here.
        end = time.monotonic() + wait
        with self.changed:
            while True:
                made = self.answers.get(key)
                if made is not None and made["made"] > newer:
                    self.answers.move_to_end(key)
                    return made
                task, now = self.tasks.get(key), time.monotonic()
                if task is not None and task.failure and task.caller.identity == caller.identity:
                    return task.failure
                if task is None or task.failure:
                    task = self.tasks[key] = Task(key, job, lane, caller, now)
                    threading.Thread(target=self._see_to, args=(task,), daemon=True).start()
                task.asked, task.patience = now, max(task.patience, ABSENT + 3 * patience)
                if now >= end:
                    return {"state": "working", **task.told}
                self.changed.wait(min(OFTEN, end - now))

    def held(self, reads: str, newer: float) -> bytes:
        """What was read last by this name after that time, packed with how it compares, or b""."""
        with self.changed:
            for made in reversed(self.answers.values()):
                if made.get("reads") == reads and made["made"] > newer:
                    return made["held"]
        return b""

    def forget(self, key: str) -> None:
        """Let an answer go, so that it is made anew."""
        with self.changed:
            self.answers.pop(key, None)

    def _see_to(self, task: Task) -> None:
        """Have a job done when its turn comes, and keep what came out."""
        try:
            made = self._done(task) if self._turn_comes(task) else None
        except Exception:
            traceback.print_exc()
            made = failed(500, "Something went wrong. The server's log says what.")
        with self.changed:
            task.working = False
            if made is not None and made.get("state") == "failed":
                task.failure = made
            elif made is not None:
                self.answers[task.key] = made
                self.answers.move_to_end(task.key)
                size = sum(map(_size, self.answers.values()))
                while size > self.room and len(self.answers) > 1:  # asked for longest ago
                    size -= _size(self.answers.popitem(last=False)[1])
            self.changed.notify_all()
            if task.failure:
                self.changed.wait_for(lambda: self.tasks.get(task.key) is not task, REMEMBER)
            if self.tasks.get(task.key) is task:
                del self.tasks[task.key]

    def _turn_comes(self, task: Task) -> bool:
        """Wait until the job may start: of the member who has the fewest at work, the first that
        came. False where nobody waits for it any more."""
        with self.changed:
            while not task.is_left:
                others = [t for t in self.tasks.values() if not t.failure]
                working = [t for t in others if t.working]
                of_members = Counter(t.caller.identity for t in working)
                waiting = [t for t in others if t.lane == task.lane and not t.working]
                first = min(waiting, key=lambda t: of_members[t.caller.identity])
                if first is task and sum(t.lane == task.lane for t in working) < LANES[task.lane]:
                    task.working = True
                    self.changed.notify_all()
                    return True
                task.told = {"step": "waiting for other computations"}
                self.changed.wait(OFTEN)
        return False

    def _done(self, task: Task) -> Made | None:
        """What a process of its own makes of the job, or why there is nothing; None where nobody
        waits for it any more."""
        task.told, began = {"step": "starting"}, time.monotonic()
        scratch = tempfile.mkdtemp(dir=self.folder)
        heard, told = PROCESSES.Pipe(duplex=False)
        token = self.door.open_for(task.caller, task.job["what"] == "store")
        job = {**task.job, "server": self.door.address, "token": token}
        process = PROCESSES.Process(target=work, args=(told, scratch, job), daemon=True)
        try:
            process.start()
            told.close()
            while not task.is_left:
                if heard.poll(OFTEN):
                    said = heard.recv()
                    if "made" in said:
                        return dict(said["made"])
                    task.told = said["told"]
                if time.monotonic() - began > self.limit:
                    return failed(504, _LONG.format(self.limit))
            return None
        except EOFError:
            return failed(500, _ENDED)
        finally:
            self.door.shut(token)
            heard.close()
            if process.pid is not None:
                process.kill()
                process.join(1)
            shutil.rmtree(scratch, ignore_errors=True)


NOT_READY = "The page is not ready. Try again in a moment."
_ENDED = (
    "The computation ended before its time; the server's log may say why (too little memory?). "
    "Try again."
)
_LONG = (
    "The comparison took longer than {:g} seconds and was stopped. Choose fewer runs or measures, "
    "or let the administrator raise MLEVAL_PAGE_SECONDS."
)


def failed(status: int, text: str) -> Made:
    return {"state": "failed", "status": status, "error": text}


def _size(made: Made) -> int:
    return sum(map(len, [made["held"], *made["texts"].values()])) + 1000


# ---- which process of the server has the desk ----------------------------------------------------
# The one that first takes a lock says in a file of this user alone where its door is.

#: What the folder is called after: all processes of a server have the same.
_OF_A_SERVER = ("_MLFLOW_SERVER_BOOT_ID", "_MLFLOW_SERVER_FILE_STORE", "_MLFLOW_STATIC_PREFIX")


def server_folder() -> Path:
    """The folder of this server, which only its user may enter; those of servers that ended go."""
    root = Path(tempfile.gettempdir(), f"mleval-{os.geteuid()}")
    private(root)
    # MLflow before 3.14 does not say which start of the server this is.
    names = [os.environ.get(name, "") for name in _OF_A_SERVER]
    own = root / sha256_of("\0".join([names[0] or str(os.getppid()), *names[1:]]))
    for other in root.iterdir():
        with suppress(OSError):
            settled = time.time() - other.stat().st_mtime > 3600
            lock = None if other == own or not settled else locked(other / "desk", wait=False)
            if lock is not None:
                shutil.rmtree(other, ignore_errors=True)
                os.close(lock)
    private(own)
    return own


def locked(path: Path, wait: bool) -> int | None:
    """The descriptor of a file that this process alone has locked until it is closed, or None."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(file)
        return None
    return file


class Desks:
    """The desk of the server, here or in another process."""

    def __init__(self, app: Callable[..., Any], inside: Inside) -> None:
        self.app, self.inside = app, inside
        self._desk: Desk | None = None
        self._lock = threading.Lock()
        self._way = urllib3.PoolManager(maxsize=8, timeout=600, retries=False)

    def here(self) -> Desk | None:
        """The desk, if this process has it, or nobody had."""
        with self._lock:
            if self._desk is None:
                folder = server_folder()
                file = locked(folder / "desk", wait=False)
                if file is not None:
                    door = Door(self.app, self.inside)
                    self._desk = Desk(door, folder)
                    os.ftruncate(file, 0)
                    told = {"address": door.address, "token": door.token}
                    os.pwrite(file, json.dumps(told).encode(), 0)
            return self._desk

    def elsewhere(self, environ: Mapping[str, Any]) -> Response | None:
        """What the process says that has the desk; None where it is this one."""
        told = {key: value for key, value in environ.items() if isinstance(value, str)}
        for _ in range(50):
            if self.here() is not None:
                return None
            try:
                door = json.loads((server_folder() / "desk").read_text())
                head = {"Authorization": f"Bearer {door['token']}"}
                got = self._way.request("POST", door["address"], json=told, headers=head)
                return Response(got.data, got.status, [*got.headers.items()])
            except (ValueError, urllib3.exceptions.HTTPError):  # it begins, or has just ended
                time.sleep(0.1)
        return Response(json.dumps(failed(503, NOT_READY)), 503, content_type="application/json")
