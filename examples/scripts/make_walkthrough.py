"""Run the cells of walkthrough.py and write them with what they print to the guide walkthrough.md,
or FILE.

Works in a temporary folder with a store of its own.

    python examples/scripts/make_walkthrough.py [FILE]
"""

from __future__ import annotations

import ast
import io
import os
import re
import sys
import tempfile
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from threadpoolctl import threadpool_limits

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "walkthrough.py"
GUIDE = HERE.parent / "guides" / "walkthrough.md"
#: Ids of runs and times, which differ each time.
VOLATILE = re.compile(
    r"\b[0-9a-f]{32}\b|\bru…[0-9a-f]+|"
    r"\d{4}-\d\d-\d\dT[\d:+]+|\b[0-9a-f]{8}(?=…)|\d{4}-\d\d-\d\d \d\d:\d\d"
)


def cells(source: str) -> list[tuple[bool, str]]:
    """Whether each cell is text, and its content."""
    parts = re.split(r"^# %%(.*)\n", source, flags=re.M)[1:]
    found = []
    for head, body in zip(parts[::2], parts[1::2], strict=True):
        text = "[markdown]" in head
        found.append(
            (text, re.sub(r"^# ?", "", body, flags=re.M).strip() if text else body.strip())
        )
    return found


def printed(code: str, names: dict[str, Any]) -> str:
    """What a cell prints, and the value of its last line as a notebook shows it."""
    tree, value = ast.parse(code), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(tree, SOURCE.name, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), SOURCE.name, "eval"), names)
        if value is not None:
            print(value)
    return VOLATILE.sub(
        _hidden, "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")
    )


def _hidden(found: re.Match[str]) -> str:
    """What stands for an id or a time; in a column it keeps its width."""
    return {8: "", 16: f"{'…':>16}"}.get(len(found[0]), "…")


def page() -> str:
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = []
    for text, content in cells(SOURCE.read_text(encoding="utf-8")):
        blocks.append(content if text else f"```python\n{content}\n```")
        if not text and (shown := printed(content, names)):
            blocks.append(f"```text\n{shown}\n```")
    made = (
        "Made by `python examples/scripts/make_walkthrough.py` with scikit-learn "
        f"{sklearn.__version__} and numpy {np.__version__}."
    )
    return "\n\n".join([*blocks, made]) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else GUIDE).resolve()
    pd.set_option("display.width", 120)
    # One thread: the neighbour that wins a tie depends on their number.
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        os.chdir(folder)
        os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///mlflow.db"
        target.write_text(page(), encoding="utf-8")
        os.chdir(HERE)
