"""The folder that all processes of one server share: what was answered, one file an answer, a
secret, sockets of the workers.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from mlflow_mleval.store.store import private

#: Bytes that answers may take together, unless MLEVAL_PAGE_CACHE_MB says otherwise.
DEFAULT_MB = 200
#: What the folder is called after: all processes of a server have the same.
_OF_A_SERVER = ("_MLFLOW_SERVER_BOOT_ID", "_MLFLOW_SERVER_FILE_STORE", "_MLFLOW_STATIC_PREFIX")


class CacheFolder:
    """The folder, which only the server's user may enter.

    It goes when the next server starts after all processes are gone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_this_server(cls) -> CacheFolder:
        """The same for all processes that the server's first one started."""
        root = Path(tempfile.gettempdir(), f"mleval-{os.geteuid()}")
        private(root)
        names = [os.environ.get(name, "") for name in _OF_A_SERVER]
        if not names[0]:  # MLflow before 3.14 does not say which start of the server this is
            names[0] = str(os.getppid())
        own = root / sha256("\0".join(names).encode()).hexdigest()[:12]
        _forget_dead(root, own)
        private(own)
        return cls(own)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """One process at a time."""
        with open(self.path / f"{name}.lock", "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def stay(self) -> int:
        """Say that this process uses the folder, until it ends; returns what has to stay open."""
        file = os.open(self.path / "alive", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(file, fcntl.LOCK_SH)
        return file

    def deserted(self) -> bool:
        """Whether no process of the server uses the folder any more."""
        return _free(self.path / "alive")

    @cached_property
    def secret(self) -> bytes:
        """Random, the same for all processes."""
        path = self.path / "secret"
        with self.locked("secret"):
            if not path.exists():
                path.touch(0o600)
                path.write_bytes(secrets.token_bytes(32))
            return path.read_bytes()

    @property
    def door(self) -> str:
        """The socket of the worker."""
        return str(self.path / "w")

    def holder(self, key: str) -> str:
        """The socket of the process that holds the comparison behind an answer."""
        return str(self.path / key[:16])

    def write(self, key: str, members: Iterable[tuple[str, str | Iterable[str]]]) -> None:
        """Put an answer in the place of the one before, whole."""
        part = self.path / f"{key}.{os.getpid()}.part"
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                for name, texts in members:
                    with archive.open(name, "w", force_zip64=True) as member:
                        for text in [texts] if isinstance(texts, str) else texts:
                            member.write(text.encode("utf-8", "replace"))
            part.replace(self.path / f"{key}.zip")
        finally:
            part.unlink(missing_ok=True)

    def read(self, key: str, name: str) -> str | None:
        """A part of an answer; None where there is none."""
        path = self.path / f"{key}.zip"
        try:
            with zipfile.ZipFile(path) as archive:
                text = archive.read(name).decode()
            os.utime(path)  # it is kept for longer than those nobody reads
        except (OSError, KeyError, zipfile.BadZipFile):
            return None
        return text

    def names(self, key: str) -> list[str]:
        try:
            with zipfile.ZipFile(self.path / f"{key}.zip") as archive:
                return archive.namelist()
        except (OSError, zipfile.BadZipFile):
            return []

    def about(self, key: str) -> dict[str, Any] | None:
        """What an answer says of itself."""
        text = self.read(key, "about.json")
        return None if text is None else json.loads(text)

    def shrink(self) -> None:
        """Let go what was not read for longest, until the rest fits."""
        room = 1_000_000 * float(os.environ.get("MLEVAL_PAGE_CACHE_MB") or DEFAULT_MB)
        files = []
        for path in self.path.glob("*.zip"):
            with suppress(OSError):
                files.append((path.stat().st_mtime, path.stat().st_size, path))
        for _, size, path in sorted(files, reverse=True):
            room -= size
            if room < 0:
                path.unlink(missing_ok=True)


def _free(path: Path) -> bool:
    try:
        with open(path, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _forget_dead(root: Path, own: Path) -> None:
    """Remove the folders of servers that ended; one without a sign of life may be of a server that
    starts just now.
    """
    for other in root.iterdir():
        with suppress(OSError):
            settled = (other / "alive").exists() or time.time() - other.stat().st_mtime > 3600
            if other != own and settled and _free(other / "alive"):
                shutil.rmtree(other, ignore_errors=True)
