"""Results go to the store in bounded time, else to a folder; what is done beside a training does
not touch it."""

from __future__ import annotations

import base64
import json
import os
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Run

from mlflow_mleval.errors import ImportFileError, StoreError
from mlflow_mleval.secrets import raise_alone
from mlflow_mleval.sentences import quoted, some
from mlflow_mleval.store import budget, runs, schema, store
from mlflow_mleval.store.store import alone
from mlflow_mleval.validation import check_paths, present

# ---- results that the store did not take: kept in a folder, and brought in later -----------------

#: The setting that names the folder, and what it is without.
SETTING, FOLDER = "MLEVAL_UNSENT", "mleval_unsent"
_FORMAT = 3
#: What the file of a kept result is called: a folder's order is that of keeping, also of a copy of
#: it.
_NAME, _PATTERN = "result-{time}-{claim}.json", "result-*.json"
#: What a result is made of.
_PARTS = tuple(part.name for part in fields(runs.Payload))
#: Seconds to wait for another process that brings in the same folder.
_PATIENCE = 600
_homes: dict[str, Path] = {}


def keep(payload: runs.Payload, *, run_id: str | None, experiment_name: str | None) -> Path:
    """Write the result, and where it was to go, to a file of the local folder, or nothing."""
    from mlflow.tracking import fluent

    # The experiment that MLflow is set to, as far as that is known without asking the store.
    active = fluent._active_experiment_id or os.environ.get("MLFLOW_EXPERIMENT_ID")
    usual = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "Default"
    is_id = experiment_name is None and active
    files = {path: runs.made(content) for path, content in payload.files.items()}
    parts = {name: getattr(payload, name) for name in _PARTS} | {
        "format": _FORMAT,
        "digest": payload.digest,
        "run_id": run_id,
        "experiment": {"id": str(active)} if is_id else {"name": experiment_name or usual},
        "curves": {key: list(values.items()) for key, values in payload.curves.items()},
        "files": {path: base64.b64encode(content).decode() for path, content in files.items()},
        "history": [dict(metric) for metric in payload.history],
    }
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _NAME.format(time=time.time_ns(), claim=payload.claim)
    unfinished = path.with_suffix(".part")
    try:
        of_this_user = partial(os.open, mode=0o600)
        with open(unfinished, "w", encoding="utf-8", opener=of_this_user) as file:
            json.dump(parts, file, default=list)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return path


def home() -> Path:
    """Where results are kept, which a later change of the working folder does not change."""
    named = os.environ.get(SETTING) or FOLDER
    return _homes.setdefault(named, Path(named).absolute())


@dataclass(frozen=True)
class Sent:
    """What `send_unsent` did: results written to runs, and those that the store held already."""

    written: int
    held: int

    def summary(self) -> str:
        """The same in a line of text."""
        return f"{self.written} results written, {self.held} already there"


def send_unsent(
    folder: str | Path,
    *,
    experiment_name: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Sent:
    """Move the results of a folder into the store, each exactly once, also of copies of a folder
    and after an interruption: to the experiment that is named, else to that of the result."""
    folder, counts = Path(folder), [0, 0]
    if not (paths := sorted(folder.glob(_PATTERN))):
        raise ImportFileError(
            f"{folder} holds no kept results ({_PATTERN}). Name the folder that the warning named."
        )
    with alone(f"unsent {os.path.realpath(folder)}", _PATIENCE):
        for done, path in enumerate(paths, 1):
            if path.exists() or path.is_symlink():
                counts[_send(*_read(path), experiment_name)] += 1
                path.unlink()
            else:  # another process has brought it in meanwhile
                counts[True] += 1
            if progress:
                progress(done, len(paths))
    return Sent(*counts)


def _read(path: Path) -> tuple[runs.Payload, dict[str, Any]]:
    try:
        if path.is_symlink() or not path.is_file():
            raise ValueError("it is no regular file")
        parts = json.loads(path.read_text(encoding="utf-8"))
        if parts["format"] != _FORMAT:
            raise ValueError(f"format {parts['format']!r} is not known to this version")
        check_paths(parts["files"])
        if foreign := [name for name in parts["files"] if not schema.is_result_file(name)]:
            raise ValueError(f"{some(map(repr, foreign))} is no file of a result")
        if not schema.HEX_ID.fullmatch(parts["claim"]):
            raise ValueError(f"{quoted(parts['claim'])} is no identity of a result")
        payload = replace(
            runs.Payload(**{name: parts[name] for name in _PARTS}),
            curves={key: dict(map(tuple, values)) for key, values in parts["curves"].items()},
            files={path: base64.b64decode(t, validate=True) for path, t in parts["files"].items()},
            history=[Metric(**metric) for metric in parts["history"]],
        )
        if payload.digest != parts["digest"]:
            raise ValueError("its digest is not that of its content")
    except Exception as error:
        raise ImportFileError(
            f"{path} holds no result that can be read: {error}. Move it elsewhere, and import "
            "again."
        ) from None
    return payload, parts


def _send(payload: runs.Payload, parts: dict[str, Any], name: str | None) -> bool:
    """Write it to its run, or a new one of its experiment; True where it was there already."""
    client = store.connect(create=True)
    if (run_id := parts["run_id"]) is not None and name is None:
        try:
            tags = runs.held(run_id)
        except StoreError:
            tags = None  # the run is gone; if the store is, what follows says so
        if tags is not None:
            is_ours, is_whole = tags.get(schema.TAG_CLAIM) == payload.claim, runs.holds_result(tags)
            if is_ours or not is_whole:
                runs.write(payload, run_id=run_id)
                return is_ours and is_whole
            name = runs.experiment_of(run_id)
    kept_for = parts["experiment"]
    name = name or kept_for.get("name") or client.get_experiment(kept_for["id"]).name
    experiment_id = store.ensure_experiment(client, name)

    claimants = partial(_claimants, client, experiment_id, payload)
    # What was interrupted may have left a run, even a whole one of which only the answer was lost.
    held = claimants(True)
    begun = sorted(held or claimants(False), key=runs.age)
    where = {"run_id": begun[0].info.run_id} if begun else {"experiment_name": name}
    run_id = runs.write(payload, **where)
    return runs.settle(client, partial(claimants, True), run_id) != run_id or bool(held)


def _claimants(
    client: MlflowClient, experiment_id: str, payload: runs.Payload, whole: bool
) -> list[Run]:
    """The runs that were begun with this very result; if `whole` those that hold it."""
    claimed = store.having(client, [experiment_id], schema.TAG_CLAIM, payload.claim)
    same = (run for run in claimed if run.data.tags.get(schema.TAG_DIGEST) == payload.digest)
    return [run for run in same if not whole or runs.holds_result(run.data.tags)]


# ---- results go to the store in bounded time: a training never waits -----------------------------

T = TypeVar("T")
#: Seconds after which a store that failed is asked again.
_AGAIN = 60.0
#: At most so long, a store that failed is given to answer one small question.
_PROBE = 2.0
#: Why nothing goes to a store that failed, and until when it is not asked, by its address.
_troubles: dict[str, tuple[str, float]] = {}


class Delivery:
    """One evaluation's dealings with the store. With `now` one that has failed is asked even if its
    time has not come; `seconds` are those to wait in all, or, `renewed`, for each request."""

    def __init__(
        self, *, now: bool = False, seconds: float | None = None, renewed: bool = False
    ) -> None:
        #: Why nothing goes to the store any more, empty where all is well.
        self.reason = ""
        #: What this delivery met, and whether it is the first to.
        self.error: Exception | None = None
        self.news = False
        self._uri, self._renewed = mlflow.get_tracking_uri(), renewed
        self._left = budget.seconds(budget.TRAINING) if seconds is None else seconds

        def probe() -> None:
            store.check_unlocked()
            store.connect(create=True).search_experiments(max_results=1)

        if (trouble := _troubles.get(self._uri)) is not None:
            reason, until = trouble
            if time.monotonic() < until and not now:
                self.reason = reason
            self.ask(probe, None, _PROBE)

    def ask(self, question: Callable[[], T], otherwise: T, seconds: float | None = None) -> T:
        """What the store answers, in so many seconds; something else if it fails."""
        if self.reason:
            return otherwise
        start = time.monotonic()
        try:
            store.prepare()
            start = time.monotonic()
            return in_bounded_time(question, seconds or self._left, self._renewed)
        except Exception as error:
            self.error = error
            kind = StoreError if isinstance(error, StoreError) else type(error)
            self.reason = store.redacted(f"{kind.__name__}: {error}")
            refused = isinstance(error, runs.RunRefusedError)
            self.news = refused or self._uri not in _troubles
            if not refused:
                _troubles[self._uri] = self.reason, time.monotonic() + _AGAIN
            return otherwise
        finally:
            self._left -= time.monotonic() - start

    def write(self, act: Callable[[], T]) -> T | None:
        """As `ask`, for something to write: a store that takes it is well again."""
        done: T | None = self.ask(act, None)
        if not self.reason:
            _troubles.pop(self._uri, None)
        return done

    def send(
        self,
        what: str,
        payload: runs.Payload,
        run_id: str | None,
        experiment_name: str | None,
        run: Run | None = None,
    ) -> str:
        """Write to the store, else to the local folder; what the user must be told, if anything."""
        payload = _made(payload)
        self.write(
            lambda: runs.write(payload, run_id=run_id, experiment_name=experiment_name, run=run)
        )
        if not self.reason:
            return ""
        again = ", and so is what follows until the store answers again"
        more = again if self._uri in _troubles else ""
        is_kept, text = _kept(payload, run_id, experiment_name, more)
        return f"{what} was not logged. {self.reason} {text}" if self.news or not is_kept else ""


def in_bounded_time(act: Callable[[], T], seconds: float | None = None, renewed: bool = False) -> T:
    """What the call returns in so many seconds, else StoreError; a late one asks nothing more."""
    limit = budget.seconds(budget.TRAINING)
    seconds = limit if seconds is None else seconds
    patience = str(max(1, int(min(seconds, limit) / 2)))
    settings = {"MAX_RETRIES": "1", "BACKOFF_FACTOR": "1", "TIMEOUT": patience}
    with (
        budget.environment(**{f"MLFLOW_HTTP_REQUEST_{k}": v for k, v in settings.items()}),
        runs.quiet(),
    ):
        return budget.bounded(
            act,
            max(seconds, 0),
            lambda: (
                f"the store {store.store_name()} has not done it within {limit:g} seconds "
                f"({budget.SETTING})."
            ),
            renewed,
        )


def deliver(payload: runs.Payload, run_id: str | None, experiment_name: str | None) -> str:
    """The id of the run that is written, for a caller who asks for just that. StoreError says why
    the run cannot take the result, or in which folder it is kept."""
    if experiment_name is None:
        run_id = runs.target(run_id)  # here, for the thread that writes has no active run
    payload, uri = _made(payload), mlflow.get_tracking_uri()
    # Processes that write to one database wait for each other, so there each request has the time
    # that a server has in all; a file that is not locked answers in the end.
    away = store.place_of(uri).elsewhere
    renewed, most = away and not uri.startswith("http"), None if away else threading.TIMEOUT_MAX
    delivery = Delivery(now=True, seconds=most, renewed=renewed)

    def write() -> str:
        store.check_unlocked(budget.seconds(budget.TRAINING))
        return runs.write(payload, run_id=run_id, experiment_name=experiment_name)

    written, error = delivery.write(write), delivery.error
    if error is None:
        return present(written)
    if isinstance(error, runs.RunRefusedError):
        raise_alone(error)
    text = store.redacted(str(error) if isinstance(error, StoreError) else delivery.reason)
    raise_alone(StoreError(f"{text} {_kept(payload, run_id, experiment_name)[1]}"))
    return None


def _kept(
    payload: runs.Payload, run_id: str | None, experiment_name: str | None, more: str = ""
) -> tuple[bool, str]:
    """Whether it could be kept in the local folder, and what to say of it."""
    try:
        folder = keep(payload, run_id=run_id, experiment_name=experiment_name).parent
    except OSError as error:
        return False, f"Nor could the result be kept: {error}"
    return True, (
        f"The result is kept in {folder}{more}. Bring it in later: mleval import {folder}"
    )


def forget() -> None:
    """Ask every store again that has failed."""
    _troubles.clear()


def _made(payload: runs.Payload) -> runs.Payload:
    """The result with its files made: what is computed does not count as waiting for the store."""
    return replace(payload, files={path: runs.made(c) for path, c in payload.files.items()})


# ---- what is done beside a training touches neither its random state nor its course --------------


@contextmanager
def same_randomness() -> Iterator[None]:
    """Leave the random states of Python, numpy and PyTorch (a DataLoader draws) as they are."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 - the state that others draw from
    torch = sys.modules.get("torch")
    try:
        if torch is None:
            yield
        else:
            devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
            with torch.random.fork_rng(devices=devices):
                yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002


@contextmanager
def harmless(what: str, fail: Callable[[str, Exception], None]) -> Iterator[None]:
    """What fails in the block is told instead, and the random state stays."""
    try:
        with same_randomness():
            yield
    except Exception as error:
        fail(what, error)


def warn(text: str) -> None:
    """Say it without secrets, even where warnings are errors: that must not stop the training."""
    try:
        warnings.warn(store.redacted(text), stacklevel=3)
    except Warning as error:
        print(error, file=sys.stderr)
