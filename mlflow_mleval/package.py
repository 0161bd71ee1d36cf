"""The version of the package, and modules whose names load when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__version__ = "0.2.0"


def lazily(
    module: str, where: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module whose names load on first use: each from a
    module of the package, where ``module:other`` says that it is called otherwise there.
    """
    names = sorted(where)

    def __getattr__(name: str) -> Any:
        if name not in where:
            raise AttributeError(
                f"module {module!r} has no attribute {name!r}; it has {', '.join(names)}"
            )
        home, _, called = where[name].partition(":")
        return getattr(import_module(f"mlflow_mleval.{home}"), called or name)

    return __getattr__, lambda: names
