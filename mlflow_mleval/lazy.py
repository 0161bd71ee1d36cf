"""Modules whose names are imported when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def lazily(
    module: str, names: Iterable[str], find: Callable[[str], Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module that has these names and finds their values
    so.
    """
    told = sorted(names)

    def __getattr__(name: str) -> Any:
        if name not in told:
            raise AttributeError(
                f"module {module!r} has no attribute {name!r}; it has {', '.join(told)}"
            )
        return find(name)

    return __getattr__, lambda: told
