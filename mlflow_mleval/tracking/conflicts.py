"""Several processes that write to one store at the same time: wait for each other, and try again
what a conflict has undone.
"""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from mlflow_mleval.errors import StoreError

T = TypeVar("T")
_TRIES = 12
_SECONDS = 0.05, 2.0
#: How databases say that somebody else has been quicker; nothing of the request has been done then.
_CONFLICTS = (
    "unique constraint",
    "duplicate key",
    "duplicate entry",
    "database is locked",
    "deadlock",
    "could not serialize",
)


def patiently(act: Callable[[], T]) -> T:
    """What the call returns, which is tried again where another process came between.

    >>> answers = iter([ValueError("UNIQUE constraint failed: datasets.name"), 3])
    >>> def act():
    ...     if isinstance(answer := next(answers), Exception):
    ...         raise answer
    ...     return answer
    >>> patiently(act)
    3
    """
    for attempt in range(_TRIES):
        try:
            return act()
        except Exception as error:
            if attempt == _TRIES - 1 or not _is_conflict(error):
                raise
        # Processes that met once must not meet again; the state of `random` is the user's.
        least, most = _SECONDS
        time.sleep(min(most, least * 2**attempt) * random.SystemRandom().uniform(0.5, 1.5))
    raise AssertionError


@contextmanager
def alone(what: str, seconds: float = 60) -> Iterator[None]:
    """One process of this user and machine at a time for what is named; the lock of one that dies
    is free at once.

    Raises
    ------
    StoreError
        Another process has kept it for longer than so many seconds.
    """
    digest = hashlib.sha256(what.encode("utf-8", "surrogatepass")).hexdigest()
    path = _lock_folder() / f"{digest[:24]}.lock"
    with closing(sqlite3.connect(path, timeout=seconds, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if not _is_conflict(error):
                raise
            message = (
                f"another process has been busy with the same for {seconds:g} seconds. Try again."
            )
            raise StoreError(message) from None
        yield


def private(path: Path) -> None:
    """Make the folder, or make sure that it is ours alone: others may write beside it.

    Raises
    ------
    PermissionError
        It is somebody else's, others may enter it, or it is no folder.
    """
    with suppress(FileExistsError):
        path.mkdir(0o700)
    status = path.lstat()
    for_others = stat.S_IMODE(status.st_mode) & 0o077
    ours = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not for_others)
    if not (stat.S_ISDIR(status.st_mode) and ours):
        raise PermissionError(
            f"{path} is not a folder of this user alone. Delete it, or set TMPDIR to another place."
        )


def _lock_folder() -> Path:
    """A folder of this user alone: in the cache of their home or, where that takes none, among
    temporary files.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    name = f"mleval-locks-{getattr(os, 'geteuid', lambda: 0)()}"
    with suppress(OSError):
        if cache.is_absolute():  # a user without a home has it below "~"
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            private(cache / name)
            if os.access(cache / name, os.W_OK | os.X_OK):
                return cache / name
    other = Path(tempfile.gettempdir(), name)
    private(other)
    return other


def _is_conflict(error: BaseException) -> bool:
    text = str(error).lower()
    return any(words in text for words in _CONFLICTS)
