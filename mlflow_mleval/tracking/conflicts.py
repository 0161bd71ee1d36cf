"""Several processes that write to one store at the same time: wait for each other, and try again what a conflict has undone."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_TRIES = 12
_SECONDS = 0.05, 2.0
#: How databases say that somebody else has been quicker; nothing of the request has been done then.
_CONFLICTS = ("unique constraint", "duplicate key", "duplicate entry", "database is locked", "deadlock", "could not serialize")


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
def alone(path: str) -> Iterator[None]:
    """One process of this machine at a time for this file; the lock of one that dies is free at once."""
    owner = getattr(os, "getuid", lambda: "")()
    name = hashlib.sha256(f"{owner} {os.path.abspath(path)}".encode()).hexdigest()[:24]
    with closing(sqlite3.connect(Path(tempfile.gettempdir(), f"mleval-{name}.lock"), timeout=60, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield


def _is_conflict(error: BaseException) -> bool:
    text = str(error).lower()
    return any(words in text for words in _CONFLICTS)
