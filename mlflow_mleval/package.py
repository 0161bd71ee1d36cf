"""The version of the package, and what loads when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__version__ = "0.2.0"


class Later:
    """A module that loads when something in it is first asked for, and has what that has then."""

    def __init__(self, module: str) -> None:
        self.__dict__["module"] = module

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__.get("module")
        if not isinstance(module, str):
            raise AttributeError(f"{self.__name__} has no attribute {name!r}")
        self.__dict__ = import_module(module).__dict__
        return getattr(self, name)


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
