"""How long to wait for a store: one setting for reading and writing, whatever the store does.

A caller waits no longer than its budget. What it waited for stops soon after: requests by HTTP know
the budget, connections to a database have a timeout, and nothing new is begun.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import mlflow
import requests
import sqlalchemy
from mlflow.store.artifact import artifact_repo
from mlflow.utils import request_utils
from requests.adapters import HTTPAdapter

from mlflow_mleval.errors import StoreError
from mlflow_mleval.secrets import masked

T = TypeVar("T")
#: The setting: seconds that reading waits for one answer, and all dealings of an evaluation in a
#: training take; and what they are without it.
SETTING, READING, TRAINING = "MLEVAL_TIMEOUT", 30.0, 8.0
#: Bytes of one answer of a server, and of one artifact.
MOST_ANSWER, MOST_ARTIFACT = 256 * 2**20, 2 * 2**30
_CHUNK = 64 * 2**10
#: What the drivers of databases call the time that a connection may take.
_CONNECT = {
    "psycopg2": "connect_timeout",
    "psycopg": "connect_timeout",
    "pymysql": "connect_timeout",
    "mysqldb": "connect_timeout",
    "mysqlconnector": "connection_timeout",
}
#: What ends by itself does so these seconds after the caller has gone, who says it better.
_LATER = 2


@dataclass
class Budget:
    """Until when somebody waits, and whether still; where it lies within another, that one counts,
    too.
    """

    seconds: float
    renewed: bool = False
    outer: Budget | None = None
    over: threading.Event = field(default_factory=threading.Event)
    sockets: set[socket.socket] = field(default_factory=set)
    until: float = 0.0

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.seconds

    @property
    def left(self) -> float:
        """Seconds; none where nobody waits."""
        left = 0.0 if self.over.is_set() else self.until - time.monotonic()
        return max(0.0, left if self.outer is None else min(left, self.outer.left))

    def close(self) -> None:
        """Nobody waits any more; what hangs in a request is cut off."""
        self.over.set()
        for each in list(self.sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


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


def within(what: str, act: Callable[[], T]) -> T:
    """What the call returns, which asks the store for one thing, within the time for reading; under
    a budget already, within that.

    Raises
    ------
    StoreError
        It has taken longer; else what the call raises.
    """
    if _budget.get() is not None:
        go_on()
        return act()
    return bounded(act, chosen := seconds(READING), late=partial(_late, what, chosen))


def bounded(act: Callable[[], T], most: float, late: Callable[[], str], renewed: bool = False) -> T:
    """What the call returns, in at most so many seconds, which `mark` may renew; one that takes
    longer does no more than the request it waits for.

    Raises
    ------
    StoreError
        It has taken longer: the text is that of `late`. Else what the call raises.
    """
    budget = Budget(min(most, threading.TIMEOUT_MAX), renewed, _budget.get())
    answers: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        _budget.set(budget)
        try:
            answers.append(act())
        except BaseException as error:
            errors.append(error)
        done.set()

    # No executor: the interpreter would wait for its threads in the end.
    thread = threading.Thread(
        target=copy_context().run, args=(run,), daemon=True, name="mleval-store"
    )
    try:
        thread.start()
        while not done.wait(min(budget.left, threading.TIMEOUT_MAX)) and budget.left:
            pass  # it has been renewed
        spent = not budget.left
        # As they are now: an answer that `close` cuts off may look like a whole one.
        answer, error = answers[:1], errors[:1]
    finally:
        budget.close()
    if answer:
        return answer[0]
    # What fails because the time is over says so in many ways, and at the same moment.
    raise StoreError(late()) if spent or not error else error[0]


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


def _late(what: str, chosen: float) -> str:
    return (
        f"the store {masked(mlflow.get_tracking_uri())} has not answered `{what}` within "
        f"{chosen:g} seconds. Is it well? To wait longer: --timeout SECONDS, or {SETTING}."
    )


# --------------------------------------------------------------------------------------------------
# Requests by HTTP. MLflow makes its sessions of the class of adapters that its module names, and
# downloads artifacts in pools of threads: here both learn of the budget. Without one, nothing is
# different.


if TYPE_CHECKING:
    # What they are mixed into, whatever class MLflow and the pools chose.
    from urllib3 import Retry as _Retry
    from urllib3.connection import HTTPConnection as _Connection

    _Adapter = HTTPAdapter
else:
    _Retry = _Connection = _Adapter = object


class _Pauses(_Retry):
    """Pauses between attempts that end with the budget, whatever a server asks for."""

    def increment(self, *args: Any, **parts: Any) -> Any:
        if _budget.get() is not None and (response := parts.get("response")) is not None:
            response.close()  # or else its body would be read to the end, and it may have none
        return super().increment(*args, **parts)

    def sleep(self, response: Any = None) -> None:
        if (budget := _budget.get()) is None:
            return super().sleep(response)
        asked = self.respect_retry_after_header and response and self.get_retry_after(response)
        pause = asked or self.get_backoff_time()
        if pause >= budget.left:
            status = "has failed" if response is None else f"has answered {response.status}"
            more = f" and asks to wait for {asked:g} seconds" if asked else ""
            raise requests.exceptions.RetryError(
                f"the server {status}{more}, and the time for another attempt has run out"
            )
        budget.over.wait(pause)
        go_on()
        return None


class _Watched(_Connection):
    """A connection whose answer is cut off when nobody waits for it."""

    def getresponse(self, *args: Any, **parts: Any) -> Any:
        if (budget := _budget.get()) is None:
            return super().getresponse(*args, **parts)
        here = self.sock
        budget.sockets.add(here)
        try:
            go_on()
            return super().getresponse(*args, **parts)
        finally:
            budget.sockets.discard(here)


class _InTime(_Adapter):
    """An adapter of requests that ends with the budget, and takes no more bytes than there may
    be.
    """

    def __init__(self, *args: Any, **parts: Any) -> None:
        super().__init__(*args, **parts)
        retries = copy(self.max_retries)
        retries.__class__ = type("Pauses", (_Pauses, type(retries)), {})
        self.max_retries = retries

    def init_poolmanager(self, *args: Any, **parts: Any) -> None:
        super().init_poolmanager(*args, **parts)
        pools = self.poolmanager.pool_classes_by_scheme
        self.poolmanager.pool_classes_by_scheme = {s: _watched(pools[s]) for s in pools}

    def send(  # type: ignore[override]  # it passes on whatever its base takes
        self, request: Any, stream: bool = False, timeout: Any = None, **parts: Any
    ) -> Any:
        if (budget := _budget.get()) is None:
            return super().send(request, stream=stream, timeout=timeout, **parts)
        go_on()
        longest = budget.left + _LATER
        connect, read = (min(t or longest, longest) for t in _pair(timeout))
        response = super().send(request, stream=stream, timeout=(connect, read), **parts)
        most = MOST_ARTIFACT if stream else MOST_ANSWER
        response.raw.stream = partial(_stream, response.raw, most)
        return response


def _watched(pool: Any) -> type:
    connection = type("Watched", (_Watched, pool.ConnectionCls), {})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


def _pair(timeout: Any) -> tuple[Any, Any]:
    return timeout if isinstance(timeout, tuple) else (timeout, timeout)


def _stream(raw: Any, most: int, amt: int = _CHUNK, decode_content: Any = None) -> Iterator[bytes]:
    """The body as it comes: what drips is seen to drip."""
    size, read = 0, getattr(raw, "read1", raw.read)
    while chunk := read(amt, decode_content=decode_content):
        size += len(chunk)
        try:
            go_on()
            if size > most:
                raise StoreError(f"an answer has more than {most:,} bytes")
        except StoreError:
            raw.close()
            raise
        yield chunk


class _InContextPool(artifact_repo.ThreadPoolExecutor):
    """Threads that know the budget of who gives them work."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **parts: Any) -> Any:
        return super().submit(copy_context().run, fn, *args, **parts)


def session() -> requests.Session:
    """What to ask servers with."""
    made = requests.Session()
    for scheme in ("https://", "http://"):
        made.mount(scheme, type("InTime", (_InTime, HTTPAdapter), {})())
    return made


def _install() -> None:
    name = next(n for n in ("TCPKeepAliveHTTPAdapter", "HTTPAdapter") if hasattr(request_utils, n))
    setattr(request_utils, name, type(name, (_InTime, getattr(request_utils, name)), {}))
    request_utils._cached_get_request_session.cache_clear()
    setattr(artifact_repo, "ThreadPoolExecutor", _InContextPool)  # noqa: B010 - it is a name


with suppress(AttributeError, StopIteration):  # a caller waits no longer all the same
    _install()


# --------------------------------------------------------------------------------------------------
# Databases.


@sqlalchemy.event.listens_for(sqlalchemy.engine.Engine, "do_connect")
def _connect_in_time(dialect: Any, record: Any, args: Any, parts: dict[str, Any]) -> None:
    if (budget := _budget.get()) is not None and (name := _CONNECT.get(dialect.driver)):
        parts.setdefault(name, math.ceil(min(budget.left, budget.seconds, 3600)) + _LATER)


@sqlalchemy.event.listens_for(sqlalchemy.engine.Engine, "begin")
def _end_statements(connection: Any) -> None:
    """For this transaction alone: others that come by the same connection are not touched."""
    if (budget := _budget.get()) is not None and connection.dialect.name == "postgresql":
        most = math.ceil(min(budget.left, 3600)) + _LATER
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{most}s'")
