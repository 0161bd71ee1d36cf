"""Attacks meet the package with the constants that users have."""

import ast
from pathlib import Path


def test_attacks_change_no_constant():
    files = [
        *Path(__file__).parent.glob("test_*.py"),
        *Path(__file__).parents[1].glob("conftest.py"),
    ]
    changed = set()
    for file in files:
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "setattr":
                names = [arg.value for arg in call.args[:2] if isinstance(arg, ast.Constant)]
                changed |= {str(name).rpartition(".")[2] for name in names}
    assert not {name for name in changed if name.isupper()}
