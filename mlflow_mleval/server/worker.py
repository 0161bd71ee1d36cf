"""The process that computes for the page, beside the server: `python -m mlflow_mleval.server.worker
FOLDER LIMIT`.

It has everything imported and forks a process for each answer. That process puts the answer into
the folder, then holds the comparison for a while to answer what is asked of its details. Nothing
here knows a member: a job comes with an address of the server's forwarder and a token, and asks
MLflow there.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import resource
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from mlflow_mleval.server.answer_cache import CacheFolder

#: Computations at a time, by lane: surveys are short, and wait for no comparison.
LANES = {"survey": 1, "": 2}
#: Comparisons that are held after their answer.
HELD = 3
#: Seconds that a job may work after somebody asked for it: where the login is slow, questions come
#: rarely, and a job that began anew after each would never end.
LEASE = 30
#: Seconds without a question: after so long a job that tells nothing of its work is cancelled, a
#: place in the queue lost, a held comparison let go, the worker ended.
SILENCE, PATIENCE, HOLD, IDLE = 180, 60, 300, 900
#: Seconds without a question after which others in the queue go first.
ABSENT = 5
#: Seconds that a failure is told to whoever asks again.
REMEMBER = 5


_STARTING = {"state": "working", "step": "starting", "done": 0, "total": 0}


@dataclass
class _Child:
    """A process that computes, or holds what it computed."""

    key: str
    pid: int
    pipe: socket.socket
    job: socket.socket | None  #: open while the token is needed
    asked: float
    who: str
    scratch: str
    lane: str
    reads: str  #: what it has read, by `PageSelection.runs_only`
    made: int = 0  #: when it did, in milliseconds; 0 before
    worked: float = 0.0  #: seconds of work, as it told last
    leased: float = 0.0  #: and as it had told when somebody asked for it last
    began: float = field(default_factory=time.monotonic)
    told: dict[str, Any] = field(default_factory=lambda: {**_STARTING})
    buffer: bytes = b""

    @property
    def working(self) -> bool:
        return self.job is not None


@dataclass
class _Waiting:
    """A job in the queue."""

    who: str
    lane: str
    asked: float  #: when somebody asked for it last


class Worker:
    """Takes questions of the server's processes, one line of JSON each, and forks."""

    def __init__(self, folder: CacheFolder, limit: float, lock: int) -> None:
        self.folder, self.limit, self.lock = folder, limit, lock
        self.children: dict[str, _Child] = {}
        self.failed: dict[str, tuple[float, str, dict[str, Any]]] = {}
        self.waiting: dict[str, _Waiting] = {}
        self.selector = selectors.DefaultSelector()
        with suppress(FileNotFoundError):
            os.unlink(folder.door)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(folder.door)
        self.listener.listen(64)
        self.selector.register(self.listener, selectors.EVENT_READ, None)

    def run(self) -> None:
        last = time.monotonic()
        while time.monotonic() - last < IDLE and not self.folder.deserted():
            for key, _ in self.selector.select(0.5):
                if key.data is None:
                    last = time.monotonic()
                    self._serve()
                else:
                    self._hear(key.data)
            self._look_after()
        for child in [*self.children.values()]:
            self._end(child)

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        connection.settimeout(2)
        try:
            file = connection.makefile("r", encoding="utf-8")
            line = file.readline()
            if not line:  # somebody looked whether the worker is there
                connection.close()
                return
            asked = json.loads(line)
            answer = self._state(asked)
            connection.sendall(json.dumps(answer).encode() + b"\n")
            if answer["state"] == "start":
                self._start(asked, json.loads(file.readline()), connection)
                return
        except (OSError, ValueError) as error:
            print(f"mleval page: a question to the worker broke off: {error!r}", file=sys.stderr)
        connection.close()

    def _state(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Where the computation of an answer stands; "start" asks for the job."""
        now, key, who = time.monotonic(), asked["key"], asked["who"]
        child = self.children.get(key)
        if child is not None and child.working:
            child.asked, child.leased = now, child.worked
            return child.told
        if key in self.failed:
            since, whom, failure = self.failed[key]
            if whom == who and now - since < REMEMBER:
                return failure
            del self.failed[key]
        lane = asked["what"] if asked["what"] in LANES else ""
        self.waiting.setdefault(key, _Waiting(who, lane, now)).asked = now
        self.waiting = {k: job for k, job in self.waiting.items() if now - job.asked < PATIENCE}
        if key not in self._turns(lane, now):
            step = "waiting for other computations"
            return {"state": "working", "step": step, "done": 0, "total": 0}
        return {"state": "start"}

    def _turns(self, lane: str, now: float) -> list[str]:
        """The jobs of a lane that may start: first those of members who have the fewest at work,
        then in the order in which they came.
        """
        working = [child for child in self.children.values() if child.working]
        of_members = Counter(child.who for child in working)
        queue = {
            key: of_members[job.who]
            for key, job in self.waiting.items()
            if job.lane == lane and now - job.asked < ABSENT
        }
        free = LANES[lane] - sum(child.lane == lane for child in working)
        return sorted(queue, key=queue.__getitem__)[: max(0, free)]

    def _start(self, asked: dict[str, Any], job: dict[str, Any], connection: socket.socket) -> None:
        key, lane = asked["key"], self.waiting.pop(asked["key"]).lane
        if key in self.children:
            self._end(self.children[key])
        job["key"] = key
        if self._continued(asked, job, connection):
            return
        ours, theirs = socket.socketpair()
        scratch = tempfile.mkdtemp(dir=self.folder.path)
        pid = os.fork()
        if pid == 0:
            ours.close()
            tempfile.tempdir = scratch
            self._in_child(job, theirs)
        theirs.close()
        ours.setblocking(False)
        now, who, reads = time.monotonic(), asked["who"], asked.get("reads", "")
        child = _Child(key, pid, ours, connection, now, who, scratch, lane, reads)
        self.children[key] = child
        self.selector.register(ours, selectors.EVENT_READ, child)

    def _continued(
        self, asked: dict[str, Any], job: dict[str, Any], connection: socket.socket
    ) -> bool:
        """Give the job to a process that holds another comparison of the same runs, if there is
        one: it need not read them again.
        """
        reads, newer = asked.get("reads"), asked.get("newer", 0)
        for child in [*self.children.values()]:
            if not reads or child.working or child.reads != reads or child.made <= newer:
                continue
            try:
                child.pipe.sendall(json.dumps(job).encode() + b"\n")
            except OSError:  # it has just ended
                self._end(child)
                continue
            with suppress(FileNotFoundError):
                os.unlink(self.folder.holder(child.key))
            self.children[job["key"]] = self.children.pop(child.key)
            child.key, child.who, child.job = job["key"], asked["who"], connection
            child.asked = child.began = time.monotonic()
            child.leased = child.worked
            child.told = {**_STARTING}
            return True
        return False

    def _in_child(self, job: dict[str, Any] | None, pipe: socket.socket) -> None:
        """The forked process: it never returns."""
        code = 1
        try:
            os.close(self.lock)  # the worker's: else it would hold as long as this process
            self.selector.close()
            self.listener.close()
            for other in self.children.values():
                other.pipe.close()
                if other.job is not None:
                    other.job.close()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            from mlflow_mleval.server import page_content

            def tell(**content: Any) -> None:
                content["worked"] = time.process_time()
                pipe.sendall(json.dumps(content).encode() + b"\n")

            while job is not None:
                job = page_content.make(self.folder, job, tell, partial(hold, self.folder, pipe))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _hear(self, child: _Child) -> None:
        """What a process tells of itself."""
        try:
            data = child.pipe.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, child.buffer = (child.buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            child.worked = message.pop("worked")
            if message["state"] == "working":
                child.told |= message
            elif child.working:
                self._settle(child, message)
        if not data:
            if child.working:
                text = (
                    "The computation ended before its time; the server's log may say why (too "
                    "little memory?). Try again."
                )
                self._settle(child, {"state": "failed", "status": 500, "error": text})
            self._end(child)

    def _settle(self, child: _Child, message: dict[str, Any]) -> None:
        """The job is done or has failed: its token is needed no more."""
        child.made = message.get("made", 0)
        if message["state"] == "failed":
            self.failed[child.key] = (time.monotonic(), child.who, message)
        if child.job is not None:
            child.job.close()
            child.job = None
        child.asked = time.monotonic()
        self.folder.shrink()

    def _look_after(self) -> None:
        now = time.monotonic()
        for child in [*self.children.values()]:
            deserted = child.worked - child.leased > LEASE or now - child.asked > SILENCE
            if child.working and deserted:
                self._settle(child, {"state": "cancelled"})
                self._end(child)
            elif child.working and now - child.began > self.limit:
                text = (
                    f"The comparison took longer than {self.limit:g} seconds and was stopped. "
                    "Choose fewer runs or measures, or let the administrator raise "
                    "MLEVAL_PAGE_SECONDS."
                )
                self._settle(child, {"state": "failed", "status": 504, "error": text})
                self._end(child)
        held = sorted(
            (c for c in self.children.values() if not c.working), key=lambda child: child.asked
        )
        for child in held[: max(0, len(held) - HELD)]:
            self._end(child)
        self.failed = {
            key: entry for key, entry in self.failed.items() if now - entry[0] < REMEMBER
        }

    def _end(self, child: _Child) -> None:
        self.children.pop(child.key, None)
        with suppress(KeyError):
            self.selector.unregister(child.pipe)
        child.pipe.close()
        if child.job is not None:
            child.job.close()
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child.pid, 0)
        shutil.rmtree(child.scratch, ignore_errors=True)
        with suppress(FileNotFoundError):
            os.unlink(self.folder.holder(child.key))


def hold(
    folder: CacheFolder,
    pipe: socket.socket,
    key: str,
    answer: Callable[[dict[str, Any]], dict[str, Any]],
    before: Callable[[], None],
) -> dict[str, Any] | None:
    """Answer questions about what was computed, one line of JSON each, until nobody asks for `HOLD`
    seconds or the worker ends; a further job that the worker sends is returned.

    Who asks is heard from the beginning, and answered when what is to be done `before` is done.
    """
    with suppress(FileNotFoundError):
        os.unlink(folder.holder(key))
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as heard:
        listener.bind(folder.holder(key))
        listener.listen(64)
        before()
        heard.register(listener, selectors.EVENT_READ)
        heard.register(pipe, selectors.EVENT_READ)
        last = time.monotonic()
        while time.monotonic() - last < HOLD:
            for ready, _ in heard.select(2):
                if ready.fileobj is pipe:
                    line = pipe.makefile("r", encoding="utf-8").readline()
                    return json.loads(line) if line else None
                last = time.monotonic()
                connection, _ = listener.accept()
                with connection, suppress(OSError, ValueError):
                    connection.settimeout(5)
                    asked = json.loads(connection.makefile("r", encoding="utf-8").readline())
                    connection.sendall(json.dumps(answer(asked)).encode() + b"\n")
    return None


def main() -> None:
    folder, limit = CacheFolder(Path(sys.argv[1])), float(sys.argv[2])
    lock = folder.path / "worker"
    lock.touch(0o600)
    with open(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # another is there
        os.nice(5)  # MLflow's own requests go first
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        from mlflow_mleval.server import page_content

        page_content.warm()
        gc.collect()
        gc.freeze()  # what is imported stays shared with the processes that are forked
        with suppress(KeyboardInterrupt):
            Worker(folder, limit, file.fileno()).run()


if __name__ == "__main__":
    main()
