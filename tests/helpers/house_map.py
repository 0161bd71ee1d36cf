"""The map of the package in CONTRIBUTING.md, made from its files.

`python tests/helpers/house_map.py` writes it; a test compares.
"""

import ast
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from places import ROOT

PACKAGE, GUIDE = ROOT / "mlflow_mleval", ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- the map, by python tests/helpers/house_map.py -->\n", "<!-- end of the map -->\n"
_MLFLOW = re.compile(r"^ *(from|import) mlflow\b", re.MULTILINE)


def house_map(layers: Iterable[Sequence[str]]) -> str:
    """A row a module or folder, from the ground up; stars mark what imports MLflow."""
    rows = ["| where | what is in it | modules |", "|---|---|---|"]
    for names in layers:
        for name in names:
            if (file := PACKAGE / f"{name}.py").exists():
                rows.append(f"| `{name}`{_star(file)} | {_purpose(file)} | |")
            elif (PACKAGE / name).is_dir():
                rows += _folder(PACKAGE / name)
    return "\n".join([*rows, ""])


def _folder(folder: Path) -> list[str]:
    """The row of a folder, and those of the folders in it."""
    files = [file for file in sorted(folder.glob("*.py")) if not file.name.startswith("__")]
    modules = ", ".join(f"{file.stem}{_star(file)}" for file in files)
    name = folder.relative_to(PACKAGE).as_posix()
    row = f"| `{name}/` | {_purpose(folder / '__init__.py')} | {modules} |"
    inside = [_folder(init.parent) for init in sorted(folder.glob("*/__init__.py"))]
    return [row, *(line for rows in inside for line in rows)]


def _purpose(file: Path) -> str:
    """The first sentence of a docstring."""
    text = " ".join((ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").split())
    return re.split(r"(?<=[a-z)/`?])\.( |$)", text)[0].replace("``", "`").replace("|", "\\|")


def _star(file: Path) -> str:
    return " \\*" if _MLFLOW.search(file.read_text("utf-8")) else ""


def written(layers: Iterable[Sequence[str]]) -> str:
    """CONTRIBUTING.md with the map as it has to be."""
    head, rest = GUIDE.read_text("utf-8").split(BEGIN)
    return f"{head}{BEGIN}\n{house_map(layers)}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    sys.path.append(str(ROOT / "tests"))
    from test_layers import LAYERS

    GUIDE.write_text(written(LAYERS), "utf-8")
