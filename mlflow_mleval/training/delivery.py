"""Results go to the store in bounded time, else to a local folder: a training never waits for a store that is broken."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import mlflow

from mlflow_mleval.errors import StoreError
from mlflow_mleval.tracking import runs, store
from mlflow_mleval.training import unsent

T = TypeVar("T")
#: Seconds that one evaluation waits for the store in all, and those after which a store that failed is asked again.
LIMIT, AGAIN = "MLEVAL_TIMEOUT", "MLEVAL_RETRY"
_DEFAULTS = {LIMIT: 8.0, AGAIN: 60.0}
#: At most so long, a store that failed is given to answer one small question.
_PROBE = 2.0


@dataclass
class _Trouble:
    """A store that failed: nothing goes there until it answers again."""

    reason: str
    until: float


_troubles: dict[str, _Trouble] = {}


class Delivery:
    """One evaluation's dealings with the store.

    Attributes
    ----------
    warning : str
        What the user must be told; empty where all is well, or where it has been said already.
    """

    def __init__(self) -> None:
        self.warning = ""
        self._uri = mlflow.get_tracking_uri()
        self._left = _seconds(LIMIT)
        self._news = False
        self._reason = ""
        if (trouble := _troubles.get(self._uri)) is not None:
            if time.monotonic() < trouble.until:
                self._reason = trouble.reason
            else:
                self._try(_probe, _PROBE)

    def ask(self, question: Callable[[], T], otherwise: T) -> T:
        """What the store answers; something else if it fails."""
        if self._reason:
            return otherwise
        answer = self._try(question, self._left)
        return otherwise if self._reason else answer

    def send(self, what: str, payload: runs.Payload, run_id: str | None, experiment_name: str | None) -> str | None:
        """Write to the store, else to the local folder; returns the run's id if it is in the store."""
        payload = replace(payload, files={path: _constant(make()) for path, make in payload.files.items()})
        written = self.ask(lambda: runs.write(payload, run_id=run_id, experiment_name=experiment_name), None)
        if not self._reason:
            _troubles.pop(self._uri, None)
            return written
        try:
            path = unsent.keep(payload, run_id=run_id, experiment_name=experiment_name)
        except OSError as error:
            self.warning = f"{what} was not logged. {self._reason} Nor could it be kept: {error}"
            return None
        if self._news:
            more = ", and so is what follows until the store answers again" if self._uri in _troubles else ""
            self.warning = (
                f"{what} was not logged. {self._reason} It is kept in {path.parent}{more}. "
                f"Bring it in later: mleval import {path.parent}"
            )
        return None

    def _try(self, act: Callable[[], T], seconds: float) -> T | None:
        start = time.monotonic()
        try:
            return bounded(act, seconds)
        except Exception as error:
            self._reason = store.redacted(f"{_name(error)}: {error}")
            if not isinstance(error, runs.RunRefusedError):
                self._news = self._uri not in _troubles
                _troubles[self._uri] = _Trouble(self._reason, time.monotonic() + _seconds(AGAIN))
            else:
                self._news = True
            return None
        finally:
            self._left -= time.monotonic() - start


def bounded(act: Callable[[], T], seconds: float | None = None) -> T:
    """What the call returns, in at most so many seconds; one that takes longer does no more than the request it waits for.

    Raises
    ------
    StoreError
        It has taken longer; else what the call raises.
    """
    seconds = _seconds(LIMIT) if seconds is None else seconds
    found: list[tuple[bool, Any]] = []
    stopped = threading.Event()

    def run() -> None:
        runs.stopped.set(stopped)
        try:
            found.append((True, act()))
        except BaseException as error:
            found.append((False, error))

    patience = str(max(1, int(seconds / 2)))
    settings = {"MAX_RETRIES": "1", "BACKOFF_FACTOR": "1", "TIMEOUT": patience}
    with store.environment(**{f"MLFLOW_HTTP_REQUEST_{k}": v for k, v in settings.items()}), runs.quiet():
        # No executor: the interpreter would wait for its threads in the end.
        thread = threading.Thread(target=copy_context().run, args=(run,), daemon=True, name="mleval-delivery")
        try:
            thread.start()
            thread.join(max(seconds, 0))
        finally:
            stopped.set()
    if not found:
        raise StoreError(f"the store {store.store_name()} has not done it within {_seconds(LIMIT):g} seconds ({LIMIT}).")
    good, result = found[0]
    if good:
        return result
    raise result


def forget() -> None:
    """Ask every store again that has failed."""
    _troubles.clear()


def _probe() -> None:
    client = store.connect(create=True)
    with store.store_errors("read"):
        client.search_experiments(max_results=1)


def _seconds(name: str) -> float:
    try:
        return float(os.environ[name])
    except (KeyError, ValueError):
        return _DEFAULTS[name]


def _name(error: Exception) -> str:
    return StoreError.__name__ if isinstance(error, StoreError) else type(error).__name__


def _constant(content: str | bytes) -> Callable[[], str | bytes]:
    return lambda: content
