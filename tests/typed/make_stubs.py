"""Write what a type checker sees of names that load lazily, from the lists that they load by."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import mlflow_mleval
from mlflow_mleval import callbacks, genai, losses, stats

ROOT = Path(mlflow_mleval.__file__).parent
HEAD = (
    "# Written by tests/typed/make_stubs.py: what a type checker sees of names that load lazily.\n"
)


def stubs() -> dict[str, str]:
    """By file name the text of each stub."""
    where = mlflow_mleval._WHERE
    spaces = (stats, losses, genai, callbacks)
    namespaces = {space.__name__.rpartition(".")[2]: rows(space.WHERE) for space in spaces}
    public = [(module, name, name) for name, module in where.items() if module != name]
    modules = [("", name, name) for name, module in where.items() if module == name]
    package = imports(modules + public) + "\n__version__: str\n" + exported(mlflow_mleval.__all__)
    texts = {
        name: imports(taken) + "\n" + exported([called for *_, called in taken])
        for name, taken in namespaces.items()
    }
    return {f"{name}.pyi": HEAD + text for name, text in {"__init__": package, **texts}.items()}


def rows(where: dict[str, str]) -> list[tuple[str, str, str]]:
    """Of a table of `lazily`: each name's module, what it is called there, and the name."""
    parts = {name: home.partition(":") for name, home in where.items()}
    return [(module, called or name, name) for name, (module, _, called) in parts.items()]


def imports(rows: list[tuple[str, str, str]]) -> str:
    """Statements that export a name of a module under a name, in the order of ruff."""
    full = sorted(
        (f"mlflow_mleval.{module}".removesuffix("."), not name[0].isupper(), name, called)
        for module, name, called in rows
    )
    return "".join(f"from {module} import {name} as {called}\n" for module, _, name, called in full)


def exported(names: Iterable[str]) -> str:
    """The list of what a module exports."""
    return "".join(["__all__ = [\n", *(f'    "{name}",\n' for name in sorted(names)), "]\n"])


def main() -> None:
    for name, text in stubs().items():
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
