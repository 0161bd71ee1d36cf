"""What a type checker sees of the package is what there is."""

import ast
import importlib
import subprocess
import sys

import pytest
from make_stubs import ROOT, stubs

import mlflow_mleval


@pytest.mark.parametrize("name", stubs())
def test_a_stub_is_what_the_lists_of_its_module_give(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text == stubs()[name], "Run python tests/typed/make_stubs.py."


@pytest.mark.parametrize("name", stubs())
def test_a_stub_has_the_names_that_its_module_tells(name):
    module = (
        mlflow_mleval
        if name == "__init__.pyi"
        else importlib.import_module(f"mlflow_mleval.{name[:-4]}")
    )
    tree = ast.parse(stubs()[name])
    seen = {
        alias.asname
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    told = {*module.__all__} - {"__version__"}
    assert told <= seen and told <= {*dir(module)}


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "mlflow_mleval", "rank", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("Usage: python -m mlflow_mleval rank ")
