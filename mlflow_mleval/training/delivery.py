"""Results go to the store in bounded time, else to a local folder; nothing done beside a training
touches it.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Run
from mlflow.utils import autologging_utils

from mlflow_mleval.errors import ImportFileError, StoreError
from mlflow_mleval.paths import check_paths
from mlflow_mleval.secrets import raise_alone
from mlflow_mleval.sentences import quoted, some
from mlflow_mleval.store import budget, runs, schema, store
from mlflow_mleval.store.store import alone
from mlflow_mleval.validation import present

# --------------------------------------------------------------------------------------------------
# Results that a store did not take: kept in a local folder, and brought in later, exactly once.

#: The setting that names the folder, and what it is without.
SETTING, FOLDER = "MLEVAL_UNSENT", "mleval_unsent"
_FORMAT = 2
#: What the file of a kept result is called: a folder's order is that of keeping, also of a copy of
#: it.
_NAME, _PATTERN = "result-{time}-{claim}.json", "result-*.json"
#: Seconds to wait for another process that brings in the same folder.
_PATIENCE = 600
_CLAIM = re.compile("[0-9a-f]{32}")
_homes: dict[str, Path] = {}


def keep(payload: runs.Payload, *, run_id: str | None, experiment_name: str | None) -> Path:
    """Write the result to the local folder, complete or not at all; returns the file.

    Parameters
    ----------
    payload : Payload
    run_id, experiment_name : str or None
        Where it was to go; else to the experiment that MLflow is set to.
    """
    parts = {
        "format": _FORMAT,
        "claim": payload.claim,
        "digest": payload.digest,
        "run_id": run_id,
        "experiment": _experiment(experiment_name),
        "method": payload.method,
        "dataset": payload.dataset,
        "means": dict(payload.means),
        "folds": list(payload.folds),
        "by_fold": {m: list(v) for m, v in payload.by_fold.items()},
        "curves": {key: list(map(list, v.items())) for key, v in payload.curves.items()},
        "tags": dict(payload.tags),
        "files": {path: _encoded(make()) for path, make in payload.files.items()},
        "params": dict(payload.params),
        "note": payload.note,
        "history": [[m.key, m.value, m.timestamp, m.step] for m in payload.history],
    }
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(".part", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(parts, file)
            file.flush()
            os.fsync(file.fileno())
        path = folder / _NAME.format(time=time.time_ns(), claim=payload.claim)
        os.replace(partial, path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    return path


def home() -> Path:
    """Where results are kept: fixed when it is first asked for, so that a change of the working
    folder changes nothing.
    """
    named = os.environ.get(SETTING) or FOLDER
    if named not in _homes:
        _homes[named] = Path(named).absolute()
    return _homes[named]


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
    """Bring the results of a folder into the store, each exactly once, and remove each from the
    folder when it is there.

    Two that do this at once wait for each other, and of two copies of a folder each result becomes
    one run. Doing it again after an interruption completes what was begun.

    Parameters
    ----------
    folder : path
    experiment_name : str, optional
        Write new runs to this experiment instead of those for which the results were made.
    progress : callable, optional
        Called as ``progress(done, total)`` after each result.

    Raises
    ------
    ImportFileError
        The folder holds no kept results, and nothing was touched; or a file is damaged or of
        another version, and those before it have been brought in.
    StoreError
        The store cannot be reached; what it has not taken stays in the folder.
    """
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


def _send(payload: runs.Payload, parts: dict[str, Any], experiment_name: str | None) -> bool:
    """Write it to its run, or to a new one of its experiment; True where the store held it
    already.
    """
    client = store.connect(create=True)
    name = experiment_name
    if parts["run_id"] is not None and name is None:
        try:
            tags = runs.held(parts["run_id"])
        except StoreError:
            tags = None  # the run is gone; if the store is, what follows says so
        if tags is not None:
            same = tags.get(schema.TAG_CLAIM) == payload.claim
            if same or not runs.holds_result(tags):
                runs.write(payload, run_id=parts["run_id"])
                return same and runs.holds_result(tags)
            name = runs.experiment_of(parts["run_id"])
    if name is None:
        name = _name_of(client, parts["experiment"])
    experiment_id = store.ensure_experiment(client, name)

    def claimants() -> list[Run]:
        claimed = store.having(client, [experiment_id], schema.TAG_CLAIM, payload.claim)
        same = (run for run in claimed if run.data.tags.get(schema.TAG_DIGEST) == payload.digest)
        return sorted(same, key=runs.age)

    # What was interrupted may have left a run, even a whole one of which only the answer was lost.
    begun = claimants()
    held = _whole(begun)
    if begun:
        run_id = runs.write(payload, run_id=(held or begun)[0].info.run_id)
    else:
        run_id = runs.write(payload, experiment_name=name)
    return runs.settle(client, lambda: _whole(claimants()), run_id) != run_id or bool(held)


def _name_of(client: MlflowClient, experiment: Mapping[str, str]) -> str:
    if not experiment.get("id"):
        return experiment["name"]
    with store.quick(), store.store_errors("read"):
        return client.get_experiment(experiment["id"]).name


def _whole(claimants: Sequence[Run]) -> list[Run]:
    return [run for run in claimants if runs.holds_result(run.data.tags)]


def _experiment(name: str | None) -> dict[str, str]:
    """The experiment that MLflow is set to, as far as that is known without asking the store."""
    from mlflow.tracking import fluent

    if name is not None:
        return {"name": name}
    if active := fluent._active_experiment_id or os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return {"id": str(active)}
    return {"name": os.environ.get("MLFLOW_EXPERIMENT_NAME") or "Default"}


def _read(path: Path) -> tuple[runs.Payload, dict[str, Any]]:
    try:
        if path.is_symlink() or not path.is_file():
            raise ValueError("it is no regular file")
        parts = json.loads(path.read_text(encoding="utf-8"))
        if parts["format"] != _FORMAT:
            raise ValueError(f"format {parts['format']!r} is not known to this version")
        curves = {key: dict(map(tuple, values)) for key, values in parts["curves"].items()}
        check_paths(parts["files"])
        if foreign := [name for name in parts["files"] if not schema.is_result_file(name)]:
            raise ValueError(f"{some(map(repr, foreign))} is no file of a result")
        files = {name: _unsent_made(text) for name, text in parts["files"].items()}
        if not _CLAIM.fullmatch(parts["claim"]):
            raise ValueError(f"{quoted(parts['claim'])} is no identity of a result")
        plain = (
            "method",
            "dataset",
            "means",
            "folds",
            "by_fold",
            "tags",
            "params",
            "note",
            "claim",
        )
        history = [Metric(*values) for values in parts["history"]]
        own = {key: parts[key] for key in plain}
        payload = runs.Payload(**own, curves=curves, files=files, history=history)
        if payload.digest != parts["digest"]:
            raise ValueError("its digest is not that of its content")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ImportFileError(
            f"{path} holds no result that can be read: {error}. Move it elsewhere, and import "
            "again."
        ) from None
    return payload, parts


def _encoded(content: str | bytes) -> str:
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()


def _unsent_made(text: str) -> Callable[[], bytes]:
    content = base64.b64decode(text, validate=True)
    return lambda: content


# --------------------------------------------------------------------------------------------------
# Results go to the store in bounded time, else to a local folder: a training never waits for a
# store that is broken.

T = TypeVar("T")
#: Seconds that one evaluation waits for the store in all, and those after which a store that failed
#: is asked again.
LIMIT, AGAIN = budget.SETTING, "MLEVAL_RETRY"
_DEFAULTS = {LIMIT: budget.TRAINING, AGAIN: 60.0}
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
    renewed : bool
        Whether each request has that time.
    """

    def __init__(
        self, *, now: bool = False, seconds: float | None = None, renewed: bool = False
    ) -> None:
        self.warning = self.reason = ""
        self.error: Exception | None = None
        self.news = False
        self._uri = mlflow.get_tracking_uri()
        self._renewed = renewed
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
        return otherwise if self.reason else cast(T, answer)

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
    ) -> str | None:
        """Write to the store, else to the local folder; returns the run's id if it is in the
        store.
        """
        payload = _made(payload)
        written = self.write(
            lambda: runs.write(payload, run_id=run_id, experiment_name=experiment_name, run=run)
        )
        if not self.reason:
            return written
        try:
            folder = keep(payload, run_id=run_id, experiment_name=experiment_name).parent
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
            store.prepare()
            start = time.monotonic()
            return bounded(act, seconds, self._renewed)
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


def bounded(act: Callable[[], T], seconds: float | None = None, renewed: bool = False) -> T:
    """What the call returns, in at most so many seconds; one that takes longer does no more than
    the request it waits for.

    Raises
    ------
    StoreError
        It has taken longer; else what the call raises.
    """
    limit = _seconds(LIMIT)
    seconds = limit if seconds is None else seconds
    patience = str(max(1, int(min(seconds, limit) / 2)))
    settings = {"MAX_RETRIES": "1", "BACKOFF_FACTOR": "1", "TIMEOUT": patience}

    def late() -> str:
        name = store.store_name()
        return f"the store {name} has not done it within {limit:g} seconds ({LIMIT})."

    with (
        budget.environment(**{f"MLFLOW_HTTP_REQUEST_{k}": v for k, v in settings.items()}),
        runs.quiet(),
    ):
        return budget.bounded(act, max(seconds, 0), late, renewed)


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
    payload, delivery = _made(payload), Delivery(now=True, **_patience())

    def write() -> str:
        store.check_unlocked(_seconds(LIMIT))
        return runs.write(payload, run_id=run_id, experiment_name=experiment_name)

    written = delivery.write(write)
    if delivery.error is None:
        return present(written)
    if isinstance(delivery.error, runs.RunRefusedError):
        raise_alone(delivery.error)
    text = store.redacted(
        str(delivery.error) if isinstance(delivery.error, StoreError) else delivery.reason
    )
    try:
        folder = keep(payload, run_id=run_id, experiment_name=experiment_name).parent
    except OSError as error:
        raise_alone(StoreError(f"{text} Nor could the result be kept: {error}"))
    raise_alone(
        StoreError(
            f"{text} The result is kept in {folder}. Bring it in later: mleval import {folder}"
        )
    )
    return None


def _patience() -> dict[str, Any]:
    """How long to wait for the store: processes that write to one database wait for each other, so
    there each request has the time that a server has in all; a file that is not locked answers in
    the end.
    """
    uri = mlflow.get_tracking_uri()
    if not store.is_elsewhere(uri):
        return {"seconds": threading.TIMEOUT_MAX}
    return {"renewed": not uri.startswith("http")}


def forget() -> None:
    """Ask every store again that has failed."""
    _troubles.clear()


def _probe() -> None:
    store.check_unlocked()
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


# --------------------------------------------------------------------------------------------------
# What is done beside a training must not touch it: not its random state, not its course.


@contextmanager
def same_randomness() -> Iterator[None]:
    """Leave the random states of Python, numpy and PyTorch as they are; iterating over a PyTorch
    DataLoader draws a number.
    """
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
def without_mlflow() -> Iterator[None]:
    """Without MLflow's own autologging: its wrappers would log what is predicted for an evaluation,
    and stumble over lists.
    """
    if autologging_utils._AUTOLOGGING_GLOBALLY_DISABLED:
        yield
    else:
        with autologging_utils.disable_autologging():
            yield


def warn(text: str) -> None:
    """Say it without secrets, even where warnings are errors: that must not stop the training."""
    try:
        warnings.warn(store.redacted(text), stacklevel=3)
    except Warning as error:
        print(error, file=sys.stderr)
