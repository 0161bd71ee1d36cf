"""Imports go one way and in no circle, only store and training know MLflow, and a file name
means one thing.
"""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import pytest

import mlflow_mleval

ROOT = Path(mlflow_mleval.__file__).parent
LAYERS = [
    ["errors", "version", "words", "validation", "reported"],
    ["measures"],
    ["evaluation", "study"],
    ["analysis"],
    ["files"],
    ["store", "report"],
    ["training", "callbacks", "genai", "stats", "losses"],
    ["surrogate", "assembling"],
    ["cli", "server", "__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


MODULES = [p for p in sorted(ROOT.rglob("*.py")) if p != ROOT / "__init__.py"]


class Import(NamedTuple):
    """What an import statement names: a module, and what it takes from there."""

    module: str
    names: tuple[str, ...]
    inside_function: bool


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def imports(path: Path) -> list[Import]:
    """The imports of a file, also those of functions, classes and branches; each file is parsed
    once.
    """
    found, blocks = [], [(ast.parse(path.read_text(encoding="utf-8")), False)]
    while blocks:
        block, inside = blocks.pop()
        if isinstance(block, ast.Import):
            found += [Import(alias.name, (), inside) for alias in block.names]
        elif isinstance(block, ast.ImportFrom) and block.module:
            found.append(Import(block.module, tuple(alias.name for alias in block.names), inside))
        inside = inside or isinstance(block, ast.FunctionDef | ast.AsyncFunctionDef)
        # statements stand in lists; what stands alone is an expression, which holds no import
        parts = [
            part for _, field in ast.iter_fields(block) if isinstance(field, list) for part in field
        ]
        blocks += [
            (part, inside)
            for part in parts
            if isinstance(part, ast.stmt | ast.excepthandler | ast.match_case)
        ]
    return found


def imported(path: Path) -> set[str]:
    """The full names of what a file imports anywhere."""
    return {
        name
        for i in imports(path)
        for name in (i.module, *(f"{i.module}.{taken}" for taken in i.names))
    }


def test_every_way_to_import_is_seen(tmp_path):
    (tmp_path / "ways.py").write_text(
        "import a, b.c\nif True:\n    from d import e\nelse:\n    import f\n"
        "try:\n    import g\nexcept ImportError:\n    import h\nfinally:\n    import i\n"
        "class C:\n    import j\n    def method(self):\n        with x:\n            from k "
        "import l\n"
        "match x:\n    case 1:\n        import m\nfor y in x:\n    import n\nasync def f():\n    "
        "import o\n"
    )
    found = imports(tmp_path / "ways.py")
    assert imported(tmp_path / "ways.py") == {*"abcdefghijklmno", "b.c", "d.e", "k.l"} - {
        "b",
        "c",
        "e",
        "l",
    }
    assert {i.module for i in found if i.inside_function} == {"k", "o"}


def test_each_layer_imports_only_what_lies_below():
    wrong = []
    for path in MODULES:
        own = layer_of(path)
        for name in imported(path):
            parts = name.split(".")
            if parts[0] != "mlflow_mleval" or len(parts) < 2 or parts[1] not in LEVEL:
                continue
            if LEVEL[parts[1]] > LEVEL[own] or (
                parts[1] != own and {own, parts[1]} == {"store", "report"}
            ):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, wrong


def test_every_module_belongs_to_a_layer():
    assert {layer_of(p) for p in MODULES} <= set(LEVEL)


def test_only_store_and_training_import_mlflow():
    users = {layer_of(p) for p in MODULES if any(n.split(".")[0] == "mlflow" for n in imported(p))}
    assert users <= {"store", "training", "surrogate", "server"}


def test_no_two_modules_share_a_file_name():
    names = Counter(path.name for path in MODULES)
    assert not {name for name, n in names.items() if n > 1 and name != "__init__.py"}


def import_graph(inside_functions: bool) -> nx.DiGraph:
    """Which module of the package imports which; of a package, its __init__."""
    names = {
        path: path.relative_to(ROOT.parent).with_suffix("").as_posix().replace("/", ".")
        for path in ROOT.rglob("*.py")
    }
    names = {path: name.removesuffix(".__init__") for path, name in names.items()}
    modules, graph = set(names.values()), nx.DiGraph()
    for path, name in names.items():
        for i in imports(path):
            if i.module in modules and (inside_functions or not i.inside_function):
                full = [f"{i.module}.{taken}" for taken in i.names] or [i.module]
                graph.add_edges_from(
                    (name, other if other in modules else i.module) for other in full
                )
    return graph


@pytest.mark.parametrize("inside_functions", [False, True])
def test_imports_run_in_no_circle(inside_functions):
    graph = import_graph(inside_functions)
    assert len(graph) > 100 and not list(nx.selfloop_edges(graph))
    assert not [found for found in nx.strongly_connected_components(graph) if len(found) > 1]


def test_modules_stay_readable():
    long = {
        p.name: n for p in MODULES if (n := len(p.read_text(encoding="utf-8").splitlines())) > 1_100
    }
    assert not long


def test_the_map_of_contributing_names_every_layer():
    text = (ROOT.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", text, re.M)
    named = [name.rstrip("/") for row in rows for name in re.findall(r"`([\w/]+)`", row)]
    assert sorted(named) == sorted(LEVEL)
