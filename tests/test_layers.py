"""Imports go one way and in no circle, only tracking and training know MLflow, and a file name means one thing."""

import ast
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest

import mlflow_mleval

ROOT = Path(mlflow_mleval.__file__).parent
LAYERS = [
    ["errors", "redaction", "validation", "naming", "renamed", "reported", "lazy"], ["measures"],
    ["evaluation", "batches", "study", "survey"],
    ["analysis"], ["files"], ["tracking", "report"], ["training", "callbacks", "genai", "stats", "losses"],
    ["surrogate", "assembling"], ["cli", "server"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path):
    """The modules that a file imports anywhere, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules():
    return [p for p in sorted(ROOT.rglob("*.py")) if p.name != "__init__.py" or p.parent != ROOT]


def test_each_layer_imports_only_what_lies_below():
    wrong = []
    for path in modules():
        own = layer_of(path)
        for name in imports(path):
            parts = name.split(".")
            if parts[0] != "mlflow_mleval" or len(parts) < 2 or parts[1] not in LEVEL:
                continue
            if LEVEL[parts[1]] > LEVEL[own] or (parts[1] != own and {own, parts[1]} == {"tracking", "report"}):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, wrong


def test_every_module_belongs_to_a_layer():
    assert {layer_of(p) for p in modules()} <= set(LEVEL)


def test_only_tracking_and_training_import_mlflow():
    users = {layer_of(p) for p in modules() if any(n.split(".")[0] == "mlflow" for n in imports(p))}
    assert users <= {"tracking", "training", "surrogate", "server"}


def test_no_two_modules_share_a_file_name():
    names = Counter(path.name for path in modules())
    assert not {name for name, n in names.items() if n > 1 and name != "__init__.py"}


def statements(node: ast.AST, inside_functions: bool):
    """The statements of a module, also in classes and branches; those of functions if asked for."""
    for child in ast.iter_child_nodes(node):
        yield child
        if inside_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from statements(child, inside_functions)


def import_graph(inside_functions: bool) -> nx.DiGraph:
    """Which module of the package imports which; of a package, its __init__."""
    names = {path: path.relative_to(ROOT.parent).with_suffix("").as_posix().replace("/", ".") for path in ROOT.rglob("*.py")}
    names = {path: name.removesuffix(".__init__") for path, name in names.items()}
    known, graph = set(names.values()), nx.DiGraph()
    for path, name in names.items():
        for node in statements(ast.parse(path.read_text(encoding="utf-8")), inside_functions):
            if isinstance(node, ast.Import):
                graph.add_edges_from((name, alias.name) for alias in node.names if alias.name in known)
            elif isinstance(node, ast.ImportFrom) and node.module in known:
                full = (f"{node.module}.{alias.name}" for alias in node.names)
                graph.add_edges_from((name, other if other in known else node.module) for other in full)
    return graph


@pytest.mark.parametrize("inside_functions", [False, True])
def test_imports_run_in_no_circle(inside_functions):
    graph = import_graph(inside_functions)
    assert len(graph) > 100 and not list(nx.selfloop_edges(graph))
    assert not [found for found in nx.strongly_connected_components(graph) if len(found) > 1]


def test_modules_stay_readable():
    long = {p.name: n for p in modules() if (n := len(p.read_text(encoding="utf-8").splitlines())) > 600}
    assert not long
