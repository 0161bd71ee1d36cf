"""What a type checker sees of the package is what there is."""

import subprocess
import sys

import pytest
from make_stubs import ROOT, stubs


@pytest.mark.parametrize("name", stubs())
def test_a_stub_is_what_the_lists_of_its_module_give(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text == stubs()[name], "Run python tests/typed/make_stubs.py."


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "mlflow_mleval", "rank", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("Usage: python -m mlflow_mleval rank ")
