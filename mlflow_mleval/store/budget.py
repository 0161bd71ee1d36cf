"""How long to wait for a store. A dealing with it runs in a thread of ours, and who asks waits no
longer than the budget. A thread that nobody waits for any more stops as soon as it runs Python
again; one that hangs in a system call is left behind until MLflow's own timeouts end that."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

from urllib3.response import HTTPResponse

from mlflow_mleval.errors import StoreError
from mlflow_mleval.secrets import masked

T = TypeVar("T")
#: The setting, and seconds without it: for one answer, and for all that a training asks for.
SETTING, READING, TRAINING = "MLEVAL_TIMEOUT", 30.0, 8.0
#: Bytes of one answer of a server, and of one artifact.
MOST_ANSWER, MOST_ARTIFACT = 256 * 2**20, 2 * 2**30
#: Seconds between looks at how much has come, and of how much time they take one part at most.
_LOOK, _RARELY = 0.5, 20
#: What the drivers of databases call the time that a connection may take.
_CONNECT = {"pysqlite": "timeout", "mysqlconnector": "connection_timeout"}
_CONNECT |= dict.fromkeys(("psycopg2", "psycopg", "pymysql", "mysqldb"), "connect_timeout")
#: Settings of MLflow: a server may ask to come back in hours, and lead to another host.
_ASKING = {
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
    "MLFLOW_ALLOW_HTTP_REDIRECTS": "false",
}
#: How many blocks hold each variable of the environment that is ours.
_blocks: Counter[str] = Counter()
_changing = threading.Lock()


class _NobodyWaits(SystemExit):
    """Ends a thread without a word."""


@dataclass
class Budget:
    """Until when somebody waits for these threads."""

    seconds: float
    renewed: bool
    until: float
    over: bool = False
    threads: set[int] = field(default_factory=set)

    @property
    def left(self) -> float:
        """Seconds; none where nobody waits."""
        return 0.0 if self.over else max(0.0, self.until - time.monotonic())


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


def seconds(otherwise: float) -> float:
    """What the setting says."""
    try:
        chosen = float(os.environ[SETTING])
    except (KeyError, ValueError):
        return otherwise
    return chosen if chosen > 0 else otherwise


@contextmanager
def allowing(chosen: float | None) -> Iterator[None]:
    """While the block runs, the setting is this, if it is given."""
    before = os.environ.get(SETTING)
    if chosen is not None:
        os.environ[SETTING] = f"{chosen:g}"
    try:
        yield
    finally:
        if chosen is not None:
            os.environ.pop(SETTING)
            os.environ |= {} if before is None else {SETTING: before}


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Environment variables that hold while the block runs, unless the user has set them; where
    such blocks run at the same time in several threads, until the last one ends."""
    with _changing:
        ours = [key for key in values if _blocks[key] or key not in os.environ]
        os.environ.update({key: values[key] for key in ours if not _blocks[key]})
        _blocks.update(ours)
    try:
        yield
    finally:
        with _changing:
            _blocks.subtract(ours)
            for key in ours:
                if not _blocks[key]:
                    os.environ.pop(key, None)


def within(what: str, act: Callable[[], T], most: int | None = None) -> T:
    """What the call returns, which asks the store for one thing, within the time for reading, and
    in at most so many bytes; under a budget already, within that."""
    if (budget := _budget.get()) is None:
        chosen = seconds(READING)

        def late() -> str:
            import mlflow

            return (
                f"the store {masked(mlflow.get_tracking_uri())} has not answered `{what}` within "
                f"{chosen:g} seconds. Is it well? To wait longer: --timeout SECONDS, or {SETTING}."
            )

        return bounded(act, chosen, late, most=most)
    go_on()
    thread = threading.get_ident()
    if thread in budget.threads:
        return act()
    budget.threads.add(thread)
    try:
        return act()
    finally:
        budget.threads.discard(thread)


def bounded(
    act: Callable[[], T],
    seconds: float,
    late: Callable[[], str],
    renewed: bool = False,
    most: int | None = None,
) -> T:
    """What the call returns, in at most so many seconds, which `mark` may renew."""
    seconds = min(seconds, threading.TIMEOUT_MAX)
    budget = Budget(seconds, renewed, time.monotonic() + seconds)
    answer: Future[T] = Future()

    def run() -> None:
        _budget.set(budget)
        try:
            answer.set_result(within("", act))
        except BaseException as error:
            answer.set_exception(error)

    # No executor: the interpreter would wait for its threads in the end.
    thread = threading.Thread(
        target=copy_context().run, args=(run,), daemon=True, name="mleval-store"
    )
    pause, largest = _LOOK, most or MOST_ANSWER
    try:
        with environment(**_ASKING):
            thread.start()
            while not wait([answer], min(budget.left, pause)).done and budget.left:
                began = time.monotonic()
                if _came(everywhere=most is not None) > largest:
                    raise StoreError(f"an answer has more than {largest:,} bytes")
                pause = max(_LOOK, _RARELY * (time.monotonic() - began))
        # As they are now: who stops answers nothing any more.
        error = answer.exception() if answer.done() else StoreError(late())
        spent = not budget.left
    finally:
        # Nobody waits any more: the threads stop as soon as they run Python again.
        budget.over, ends = True, ctypes.py_object(_NobodyWaits)
        for thread_id in list(budget.threads):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ends)
    if error is None:
        return answer.result()
    # What fails because the time is over says so in many ways, and at the same moment.
    raise StoreError(late()) if spent else error


def _came(everywhere: bool) -> int:
    """Bytes of the largest answer that is being read, of the store's servers or of any: looked for
    among all objects, for a look at the frames of a running thread may crash Python."""
    import mlflow

    uris = mlflow.get_tracking_uri(), mlflow.get_registry_uri()
    hosts = {urlsplit(uri).hostname for uri in uris}
    answers = [one for one in gc.get_objects() if type(one) is HTTPResponse]
    sources = [(one, one.connection) for one in answers]
    return max(
        (int(one.tell()) for one, at in sources if at and (everywhere or at.host in hosts)),
        default=0,
    )


def mark() -> None:
    """Something was done: a budget that is renewed begins anew."""
    budget = _budget.get()
    if budget is not None and budget.renewed:
        budget.until = time.monotonic() + budget.seconds


def go_on() -> None:
    """Raise StoreError where nobody waits for this thread any more."""
    budget = _budget.get()
    if budget is not None and not budget.left:
        raise StoreError("nobody waits for this any more.")


def connecting(driver: str) -> dict[str, int]:
    """What to tell a driver of databases, so that a connection ends soon after the budget."""
    budget = _budget.get()
    if budget is None or driver not in _CONNECT:
        return {}
    return {_CONNECT[driver]: math.ceil(min(budget.left, 3600)) + 2}
