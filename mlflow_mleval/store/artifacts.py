"""Where the artifacts of a run are reached. A client goes to the address that the run names, with
its own rights to that storage. What works in the name of somebody else must not: it goes by the
routes of the server, which knows who may read and write them."""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from zipfile import ZipFile

import mlflow
import numpy as np
import pandas as pd
import requests
from mlflow import MlflowClient
from mlflow.entities import FileInfo, Run
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import (
    get_artifact_repository,
    get_registered_artifact_repositories,
)
from mlflow.utils.credentials import get_default_host_creds
from mlflow.utils.rest_utils import http_request

from mlflow_mleval.errors import StoreError
from mlflow_mleval.secrets import masked, remember
from mlflow_mleval.store import budget, schema, store
from mlflow_mleval.validation import check_paths, inside

#: Bytes that the server takes in one file, and seconds that it may take.
MOST_BYTES, SECONDS = 10 * 1024 * 1024, 300
#: The setting that names hosts which may learn the store's login, apart from its own.
HOSTS = "MLEVAL_ARTIFACT_HOSTS"
#: Bytes that `schema.ARTIFACT_DATA` and a file in it may have, and its list of contents.
MOST_DATA, _MOST_LISTED = 256 * 2**20, 4_096
#: How a zip ends: the marks of a large one and of any, and the sizes of its list and its comment.
_END = struct.Struct("<4s16x4s8xL4xH")
#: Seconds for which a host that gave no answer is not asked again: many runs may name it.
_REST = 60.0
#: Whether `go_by_routes` was called.
only_routes = False
Item = TypeVar("Item")
Found = TypeVar("Found")
#: Hosts that gave no answer, and until when they are left alone.
_silent: dict[str, float] = {}


def go_by_routes() -> None:
    """From now on this process reaches no artifact at an address: anybody may write one."""
    global only_routes
    only_routes = True
    get_registered_artifact_repositories().clear()


def download(client: MlflowClient, run_id: str, path: str, folder: str) -> Path | None:
    """An artifact of a run as a file in the folder, maybe out of the one that holds several; None
    where there is none. A ValueError if that one is not ours."""
    whole = partial(_whole, client, run_id, folder=folder)
    data = whole(schema.ARTIFACT_DATA) if path in schema.IN_DATA else None
    if data is None:
        return whole(path)
    size = data.stat().st_size
    with data.open("rb") as file:
        file.seek(max(0, size - _END.size))
        tail = file.read().rjust(_END.size, b"\0")
    large, mark, length, comment = _END.unpack(tail)
    # Of a stranger's file the list of contents is read only where it is as short as ours.
    is_ours = mark == b"PK\5\6" and large != b"PK\6\7" and not comment and length <= _MOST_LISTED
    if not is_ours or size > MOST_DATA:
        raise ValueError(f"{schema.ARTIFACT_DATA} is damaged, or larger than what is written")
    name, target = Path(path).name, inside(folder, path)
    try:
        with ZipFile(data) as together:
            if is_there := name in together.namelist():
                if together.getinfo(name).file_size > MOST_DATA:
                    raise ValueError(f"{name} is larger than what is written")
                target.write_bytes(together.read(name))
    except Exception as error:
        raise ValueError(f"{schema.ARTIFACT_DATA} is damaged: {str(error)[:200]}") from error
    return target if is_there else None


def artifact(
    client: MlflowClient, run_id: str, path: str, read: Callable[[Path], Found]
) -> Found | str | None:
    """What is read of an artifact of a run, why it cannot be read, or None where there is none."""

    def content() -> Found | None:
        with tempfile.TemporaryDirectory() as folder:
            local = download(client, run_id, path, folder)
            return None if local is None else read(local)

    return store.of_one_run(content)


def by_fold(table: pd.DataFrame) -> pd.Series:
    """The column fold as whole numbers."""
    fold = table["fold"].to_numpy(float)
    if not ((np.abs(fold) < 2**53) & (fold % 1 == 0)).all():
        raise ValueError("its column fold holds something else than whole numbers")
    return table["fold"].astype(int)


def at_once(read: Callable[[Item], Found], items: Iterable[Item]) -> list[Found | str]:
    """What reading each run yields, or why it cannot be read; several at a time."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(lambda item: store.of_one_run(partial(read, item)), items))


def _whole(client: MlflowClient, run_id: str, path: str, folder: str) -> Path | None:
    target = inside(folder, path)
    address, _ = store.noted(client, run_id)
    if not address:
        return None

    def fetch() -> bool:
        target.parent.mkdir(parents=True, exist_ok=True)
        is_route = urlsplit(address).scheme == "mlflow-artifacts" and store.server_address()
        is_own = is_route and _host(address) in ("", _host(mlflow.get_tracking_uri()))
        if is_own and not only_routes and _Routes(run_id).fetch(path, target):  # one request
            return True
        there = repository(run_id, address)
        beside = there.list_artifacts(path.rpartition("/")[0] or None)
        if all(entry.is_dir or entry.path != path for entry in beside):
            return False
        there._download_file(path, str(target))  # in this thread: `download_artifacts` has a pool
        return True

    with nullcontext() if only_routes else _address_errors(address):
        fetched = budget.within("download_artifacts", fetch, budget.MOST_ARTIFACT)
    return target if fetched else None


def check_login(address: str) -> None:
    """Raise a ValueError where MLflow would tell the store's login to a host that a run names."""
    host = _host(address)
    allowed = {_host(mlflow.get_tracking_uri()), *os.environ.get(HOSTS, "").split(",")}
    login = get_default_host_creds(address)
    told = login.username or login.password or login.token or login.auth or login.aws_sigv4
    if host and told and host not in allowed:
        raise ValueError(
            f"{host} is another host than the store's, and would be told its login. If you trust "
            f"it, set {HOSTS}={host}"
        )


def _host(address: str) -> str:
    """Host and port that MLflow would ask with the store's login; empty where it asks none."""
    url = urlsplit(address)
    scheme = url.scheme
    if scheme == "mlflow-artifacts":  # MLflow goes there as it goes to the store
        scheme = urlsplit(mlflow.get_tracking_uri()).scheme
    if not url.hostname or url.scheme not in ("http", "https", "mlflow-artifacts"):
        return ""
    port = url.port or (443 if scheme == "https" else 80)
    return f"{url.hostname}:{port}"


@contextmanager
def _address_errors(address: str) -> Iterator[None]:
    """Name an address at which something fails; leave a host alone that gave no answer."""
    host = ""
    try:
        host = urlsplit(address).netloc
        if time.monotonic() < _silent.get(host, 0.0):
            raise ValueError("it gave no answer when another run asked")
        check_login(address)
        yield
    except Exception as error:
        # With a host the address may be a stranger's; without one it is the store, which gives no
        # answer and would give none of the next run's.
        is_the_store = address.startswith("mlflow-artifacts:/") and "//" not in address
        if isinstance(error, StoreError) and is_the_store:
            raise
        if isinstance(error, StoreError) and host:
            _silent[host] = time.monotonic() + _REST
        if isinstance(error, ImportError):
            why = f"which takes the package {error.name}, and that is not installed"
        else:
            why = f"which cannot be read: {store.reason(error)}"
        raise ValueError(f"its artifacts are said to lie at {masked(address)}, {why}") from error


def contents_of(run: Run, folder: Path) -> dict[str, bytes]:
    """What the run holds, path to content."""
    there = repository(run.info.run_id, run.info.artifact_uri)
    try:
        paths = budget.within("list_artifacts", lambda: _all_files(there))
    except (MlflowException, OSError):
        if only_routes:
            raise
        return {}  # it has none
    content = {}
    for path in paths:
        target = inside(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        fetch = partial(there._download_file, path, str(target))
        budget.within("download_artifacts", fetch, budget.MOST_ARTIFACT)
        content[path] = target.read_bytes()
    return content


def _all_files(there: Any, folder: str | None = None) -> list[str]:
    """The paths of all files, read in this thread: `download_artifacts` has a pool of its own."""
    paths: list[str] = []
    for entry in there.list_artifacts(folder):
        paths += _all_files(there, entry.path) if entry.is_dir else [entry.path]
    return paths


def repository(run_id: str, address: str) -> Any:
    """What takes files for a run: it has `log_artifact(file, folder)`."""
    if only_routes:
        return _Routes(run_id)
    remember(address)
    check_login(address)
    return get_artifact_repository(address, tracking_uri=mlflow.get_tracking_uri())


def check_targets(there: Any, paths: Collection[str]) -> None:
    """Raise a ValueError where files would not land among the artifacts, as beyond a link."""
    check_paths(paths)
    if (folder := getattr(there, "artifact_dir", None)) is not None:
        for path in paths:
            inside(folder, path)


def remove(run: Run, paths: Collection[str]) -> None:
    """Delete artifacts of a run where the store can; the server's routes cannot."""
    if only_routes:
        return
    with store.store_errors("write to"):
        there = repository(run.info.run_id, run.info.artifact_uri)
        check_targets(there, paths)
        for path in sorted(paths):
            with suppress(MlflowException, NotImplementedError):
                there.delete_artifacts(path)


@dataclass(frozen=True)
class _Routes:
    """Artifacts of a run by the routes of the server, as a repository of MLflow's has them."""

    run_id: str

    def log_artifact(self, file: str, folder: str | None = None) -> None:
        path = f"{folder}/{Path(file).name}" if folder else Path(file).name
        query = {"run_uuid": self.run_id, "path": path}
        kind = {"Content-Type": "application/octet-stream"}
        content = Path(file).read_bytes()
        to = "/ajax-api/2.0/mlflow/upload-artifact"
        _asked("POST", to, query, data=content, extra_headers=kind).raise_for_status()

    def list_artifacts(self, folder: str | None = None) -> list[FileInfo]:
        query = {"run_id": self.run_id} | ({"path": folder} if folder else {})
        response = _asked("GET", "/api/2.0/mlflow/artifacts/list", query)
        response.raise_for_status()
        files = response.json().get("files", [])
        return [FileInfo(entry["path"], bool(entry.get("is_dir")), None) for entry in files]

    def _download_file(self, path: str, target: str) -> None:
        if not self.fetch(path, Path(target)):
            raise MlflowException(f"the server gives no {path}")

    def fetch(self, path: str, target: Path) -> bool:
        """Whether the server has the file, and gives it."""
        query = {"run_id": self.run_id, "path": path}
        with _asked("GET", "/get-artifact", query, stream=True) as response:
            if response.status_code != requests.codes.ok:
                return False
            with target.open("wb") as file:
                for chunk in response.iter_content(chunk_size=64 * 2**10):
                    file.write(chunk)
        return True


def _asked(method: str, path: str, query: dict[str, str], **more: Any) -> requests.Response:
    """What the server answers to one request in the name of whoever asks here."""
    login = get_default_host_creds(mlflow.get_tracking_uri())
    once: dict[str, Any] = {"max_retries": 0, "raise_on_status": False, "timeout": SECONDS}
    ask = partial(http_request, login, path, method, params=query, **once, **more)
    return budget.within(path, ask, budget.MOST_ARTIFACT)
