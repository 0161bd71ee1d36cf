"""Results that a store did not take: kept in a local folder, and brought in later, exactly once."""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Run

from mlflow_mleval.errors import ImportFileError, StoreError
from mlflow_mleval.naming import check_paths, quoted, some
from mlflow_mleval.tracking import runs, schema, store
from mlflow_mleval.tracking.conflicts import alone

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
    experiment = parts["experiment"]
    if parts["run_id"] is not None and experiment_name is None:
        try:
            tags = runs.held(parts["run_id"])
        except StoreError:
            tags = None  # the run is gone; if the store is, what follows says so
        if tags is not None:
            same = tags.get(schema.TAG_CLAIM) == payload.claim
            if same or not runs.holds_result(tags):
                runs.write(payload, run_id=parts["run_id"])
                return same and runs.holds_result(tags)
            with store.quick(), store.store_errors("read"):
                experiment = {"id": client.get_run(parts["run_id"]).info.experiment_id}
    if experiment_name is None and experiment.get("id"):
        with store.quick(), store.store_errors("read"):
            experiment_name = client.get_experiment(experiment["id"]).name
    name = experiment_name or experiment["name"]
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


def _whole(claimants: Sequence[Run]) -> list[Run]:
    return [run for run in claimants if runs.holds_result(run.data.tags)]


def _experiment(name: str | None) -> dict[str, str]:
    """The experiment that MLflow is set to, as far as that is known without asking the store."""
    from mlflow.tracking import fluent

    if name is not None:
        return {"name": name}
    if found := fluent._active_experiment_id or os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return {"id": str(found)}
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
        files = {name: _made(text) for name, text in parts["files"].items()}
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


def _made(text: str) -> Callable[[], bytes]:
    content = base64.b64decode(text, validate=True)
    return lambda: content
