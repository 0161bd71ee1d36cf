"""Imports go one way, and only tracking and training know MLflow."""

import ast
from pathlib import Path

import mlflow_mleval

ROOT = Path(mlflow_mleval.__file__).parent
LAYERS = [
    ["errors", "redaction", "validation", "naming", "renamed", "reported"], ["measures"], ["evaluation", "study"], ["analysis"],
    ["files"], ["tracking", "report"], ["training", "callbacks"], ["surrogate"], ["cli"],
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
    assert users <= {"tracking", "training", "surrogate"}


def test_modules_stay_readable():
    long = {p.name: n for p in modules() if (n := len(p.read_text(encoding="utf-8").splitlines())) > 600}
    assert not long
