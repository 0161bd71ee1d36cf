"""Imports go one way and in no circle, also those by name or on first use."""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import pytest
from house_map import GUIDE, written

import mlflow_mleval

PACKAGE = Path(mlflow_mleval.__file__).parent
#: From the ground up. The package itself, whose table names all that is public, is the roof.
LAYERS = [
    ["errors", "package", "sentences", "secrets", "validation"],
    ["measures"],
    ["evaluation", "selection", "study"],
    ["analysis"],
    ["files"],
    ["store", "report"],
    ["training", "callbacks", "genai", "stats", "losses"],
    ["assembling", "gates"],
    ["cli", "server", "__main__"],
    ["mlflow_mleval"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
#: What loads modules by their names: the texts of a file that calls one of them may be names.
LOADERS = {"import_module", "lazily", "imported"}


class Import(NamedTuple):
    """What a file imports: a module, and what it takes from there."""

    module: str
    names: tuple[str, ...]
    when: str  # "now", "on use" in a function, "by name" on use, or "types" for a checker alone

    def targets(self, modules: Collection[str]) -> set[str]:
        """The modules that it takes, or takes something from."""
        taken = {f"{self.module}.{name}" for name in self.names} or {self.module}
        return {name if name in modules else self.module for name in taken}


class Source(NamedTuple):
    """A file of the package; `layer` is its part of the package, or the package itself."""

    path: Path
    layer: str
    tree: ast.Module
    lines: int
    imports: list[Import]


@cache
def sources() -> dict[str, Source]:
    """The files of the package by the names of their modules; each is parsed once."""
    paths = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        dotted = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        paths[dotted.removesuffix(".__init__")] = path
    read = {}
    for name, path in paths.items():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        imports = [*statements(tree), *loaded(tree, package, paths)]
        layer = (name.split(".") * 2)[1]
        read[name] = Source(path, layer, tree, len(text.splitlines()), imports)
    return read


def statements(tree: ast.Module) -> Iterator[Import]:
    """The import statements of a file, also those of functions, classes and branches."""
    nodes = list(ast.walk(tree))
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    on_use = {part for function in functions for part in ast.walk(function)}
    branches = [n for n in nodes if isinstance(n, ast.If)]
    checked = [n for n in branches if ast.unparse(n.test) == "TYPE_CHECKING"]
    types = {part for branch in checked for part in ast.walk(branch)}
    for node in nodes:
        when = "on use" if node in on_use else "types" if node in types else "now"
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, (), when) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield Import(node.module, tuple(alias.name for alias in node.names), when)


def loaded(tree: ast.Module, package: str, modules: Collection[str]) -> Iterator[Import]:
    """Where a file calls a loader: the modules that its texts name, from whichever root."""
    nodes = list(ast.walk(tree))
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    if not LOADERS & {getattr(f, "id", getattr(f, "attr", "")) for f in called}:
        return
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    for text in sorted(text.partition(":")[0] for text in texts if isinstance(text, str)):
        for name in (text, f"mlflow_mleval.{text}", f"{package}.{text}"):
            if name in modules or name.split(".")[0] == "mlflow":
                yield Import(name, (), "by name")


def test_it_is_seen_when_an_import_runs():
    tree = ast.parse(
        "import a, b.c\nclass C:\n    async def method(self):\n        from d import e\n"
        "if TYPE_CHECKING:\n    import f\n"
    )
    seen = {i.module: i.when for i in statements(tree)}
    assert seen == {"a": "now", "b.c": "now", "d": "on use", "f": "types"}


def test_the_tables_of_what_loads_on_first_use_are_seen():
    graph = import_graph()
    for package, module in (
        ("", "store.query"),
        ("analysis.posthoc", "analysis.posthoc.max_t"),
        ("genai", "training.label_answers"),
        ("losses", "measures.capacities"),
        ("callbacks", "training.callbacks.keras"),
        ("report", "report.html"),
        ("report.content", "report.content.study_report"),
        ("stats", "analysis.posthoc.rank_tests"),
    ):
        loading = f"mlflow_mleval.{package}".removesuffix(".")
        assert graph.has_edge(loading, f"mlflow_mleval.{module}"), module


def import_graph(*without: str) -> nx.DiGraph:
    """Which module of the package imports which, without these kinds of import."""
    modules = sources()
    graph = nx.DiGraph()
    graph.add_nodes_from(modules)
    for name, source in modules.items():
        for i in source.imports:
            if i.when not in without:
                graph.add_edges_from((name, other) for other in i.targets(modules) & set(modules))
    return graph


def test_each_layer_imports_only_what_lies_below():
    wrong = []
    for name, other in import_graph().edges:
        own, others = sources()[name].layer, sources()[other].layer
        if LEVEL[others] > LEVEL[own] or {own, others} == {"store", "report"}:
            wrong.append(f"{name} imports {other}")
    assert not wrong, wrong


def test_every_module_belongs_to_a_layer():
    assert {source.layer for source in sources().values()} == set(LEVEL)


def test_only_store_and_training_import_mlflow():
    imports = [(source.layer, i.module) for source in sources().values() for i in source.imports]
    users = {layer for layer, module in imports if module.split(".")[0] == "mlflow"}
    assert users <= {"store", "training", "server"}


def test_no_two_modules_share_a_file_name():
    names = Counter(source.path.name for source in sources().values())
    assert not {name for name, n in names.items() if n > 1 and name != "__init__.py"}


# A document names its formats in a table, and each format the type of a document.
@pytest.mark.parametrize("without", ["by name", "types"])
def test_imports_run_in_no_circle(without):
    graph = import_graph(without)
    assert len(graph) > 100 and not list(nx.selfloop_edges(graph))
    assert not [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1]


def test_modules_stay_readable():
    assert not {name: s.lines for name, s in sources().items() if s.lines > 1_100}


def sentences(tree):
    """The texts of a module that are no docstrings, f-strings in parts."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_layers_below_the_command_line_name_no_flags_and_no_arguments_in_prose():
    """They hold an Argument, which each surface words in its own way."""
    in_prose = re.compile(r"\S[ (]--[a-z]|`[a-z_]+=[^`]*`")
    below = [
        (name, source)
        for name, source in sources().items()
        if source.layer in ("study", "assembling", "measures", "analysis", "store")
        and name != "mlflow_mleval.store.budget"  # --timeout has no argument in Python
    ]
    texts = [(name, text) for name, source in below for text in sentences(source.tree)]
    assert len(below) > 40 and not [found for found in texts if in_prose.search(found[1])]


def test_attacks_meet_the_package_with_the_constants_that_users_have():
    tests = Path(__file__).parent
    files = [*(tests / "attack").glob("test_*.py"), tests / "conftest.py"]
    changed = set()
    for file in files:
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "setattr":
                names = [arg.value for arg in call.args[:2] if isinstance(arg, ast.Constant)]
                changed |= {str(name).rpartition(".")[2] for name in names}
    assert not {name for name in changed if name.isupper()}


def test_the_map_is_true():
    assert written(LAYERS) == GUIDE.read_text("utf-8"), "run python tests/helpers/house_map.py"
