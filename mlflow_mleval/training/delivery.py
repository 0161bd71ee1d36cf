"""Results go to the store in bounded time, else to a local folder: a training never waits for a
store that is broken.
"""

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
from mlflow_mleval.redaction import raise_alone
from mlflow_mleval.tracking import runs, store
from mlflow_mleval.training import unsent

T = TypeVar("T")
#: Seconds that one evaluation waits for the store in all, and those after which a store that failed
#: is asked again.
LIMIT, AGAIN = "MLEVAL_TIMEOUT", "MLEVAL_RETRY"
_DEFAULTS = {LIMIT: 8.0, AGAIN: 60.0}
#: At most so long, a store that failed is given to answer one small question.
_PROBE = 2.0
_FOREVER = threading.TIMEOUT_MAX


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
    reason : str
        Why nothing goes to the store any more; empty where all is well.
    error : Exception or None
        What this delivery met.
    news : bool
        Whether this delivery is the first to meet the trouble.

    Parameters
    ----------
    now : bool
        Ask a store that has failed even if its time has not come.
    seconds : float, optional
        How long to wait for the store in all, by default as `LIMIT` says.
    """

    def __init__(self, *, now: bool = False, seconds: float | None = None) -> None:
        self.warning = self.reason = ""
        self.error: Exception | None = None
        self.news = False
        self._uri = mlflow.get_tracking_uri()
        self._left = _seconds(LIMIT) if seconds is None else seconds
        if (trouble := _troubles.get(self._uri)) is not None:
            if time.monotonic() < trouble.until and not now:
                self.reason = trouble.reason
            else:
                self._try(_probe, _PROBE)

    def ask(self, question: Callable[[], T], otherwise: T) -> T:
        """What the store answers; something else if it fails."""
        if self.reason:
            return otherwise
        answer = self._try(question, self._left)
        return otherwise if self.reason else answer

    def write(self, act: Callable[[], T]) -> T | None:
        """As `ask`, for something to write: a store that takes it is well again."""
        done = self.ask(act, None)
        if not self.reason:
            _troubles.pop(self._uri, None)
        return done

    def send(
        self, what: str, payload: runs.Payload, run_id: str | None, experiment_name: str | None
    ) -> str | None:
        """Write to the store, else to the local folder; returns the run's id if it is in the
        store.
        """
        payload = _made(payload)
        written = self.write(
            lambda: runs.write(payload, run_id=run_id, experiment_name=experiment_name)
        )
        if not self.reason:
            return written
        try:
            folder = unsent.keep(payload, run_id=run_id, experiment_name=experiment_name).parent
        except OSError as error:
            self.warning = f"{what} was not logged. {self.reason} Nor could it be kept: {error}"
            return None
        if self.news:
            more = (
                ", and so is what follows until the store answers again"
                if self._uri in _troubles
                else ""
            )
            self.warning = (
                f"{what} was not logged. {self.reason} It is kept in {folder}{more}. Bring it in "
                f"later: mleval import {folder}"
            )
        return None

    def _try(self, act: Callable[[], T], seconds: float) -> T | None:
        start = time.monotonic()
        try:
            return bounded(act, seconds)
        except Exception as error:
            self.error = error
            self.reason = store.redacted(f"{_name(error)}: {error}")
            if not isinstance(error, runs.RunRefusedError):
                self.news = self._uri not in _troubles
                _troubles[self._uri] = _Trouble(self.reason, time.monotonic() + _seconds(AGAIN))
            else:
                self.news = True
            return None
        finally:
            self._left -= time.monotonic() - start


def bounded(act: Callable[[], T], seconds: float | None = None) -> T:
    """What the call returns, in at most so many seconds; one that takes longer does no more than
    the request it waits for.

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

    patience = str(max(1, int(min(seconds, _seconds(LIMIT)) / 2)))
    settings = {"MAX_RETRIES": "1", "BACKOFF_FACTOR": "1", "TIMEOUT": patience}
    with (
        store.environment(**{f"MLFLOW_HTTP_REQUEST_{k}": v for k, v in settings.items()}),
        runs.quiet(),
    ):
        # No executor: the interpreter would wait for its threads in the end.
        thread = threading.Thread(
            target=copy_context().run, args=(run,), daemon=True, name="mleval-delivery"
        )
        try:
            thread.start()
            thread.join(max(seconds, 0))
        finally:
            stopped.set()
    if not found:
        raise StoreError(
            f"the store {store.store_name()} has not done it within {_seconds(LIMIT):g} seconds "
            f"({LIMIT})."
        )
    good, result = found[0]
    if good:
        return result
    raise result


def deliver(payload: runs.Payload, run_id: str | None, experiment_name: str | None) -> str:
    """Write to the store for a caller who asks for just that, and may be told by an error; returns
    the run's id.

    Raises
    ------
    StoreError
        The run cannot take the result; or the store has failed, and the result is kept in the local
        folder, which the text names.
    """
    if experiment_name is None:
        run_id = runs.target(run_id)  # here, for the thread that writes has no active run
    # Processes that write to one database wait for each other, which may take long, and MLflow ends
    # it.
    server = mlflow.get_tracking_uri().startswith("http")
    payload, delivery = _made(payload), Delivery(now=True, seconds=None if server else _FOREVER)
    written = delivery.write(
        lambda: runs.write(payload, run_id=run_id, experiment_name=experiment_name)
    )
    if delivery.error is None:
        return written
    if isinstance(delivery.error, runs.RunRefusedError):
        raise_alone(delivery.error)
    text = store.redacted(
        str(delivery.error) if isinstance(delivery.error, StoreError) else delivery.reason
    )
    try:
        folder = unsent.keep(payload, run_id=run_id, experiment_name=experiment_name).parent
    except OSError as error:
        raise_alone(StoreError(f"{text} Nor could the result be kept: {error}"))
    raise_alone(
        StoreError(
            f"{text} The result is kept in {folder}. Bring it in later: mleval import {folder}"
        )
    )


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


def _made(payload: runs.Payload) -> runs.Payload:
    """The result with its files made: what is computed does not count as waiting for the store."""
    return replace(payload, files={path: _constant(make()) for path, make in payload.files.items()})


def _constant(content: str | bytes) -> Callable[[], str | bytes]:
    return lambda: content
