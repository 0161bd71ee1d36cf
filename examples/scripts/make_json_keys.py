"""Write the guide json_keys.md, or FILE: the keys of the JSON report and the columns of the CSV
files, from the code.

python examples/scripts/make_json_keys.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

from mlflow_mleval.report.blocks import glossary

PAGE = Path(__file__).resolve().parents[1] / "guides" / "json_keys.md"


def table(head: str, what: str, rows: dict[str, str]) -> list[str]:
    """A table of Markdown with a row for each name."""
    return [
        f"| {head} | {what} |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in rows.items()),
    ]


def page() -> str:
    """The whole page."""
    lines = [
        "# JSON and CSV",
        "",
        "`--output json` is unrounded and has stable keys; `report().to_dict()` gives the same "
        "in Python. `--output csv` gives",
        "the ranking (`rank`, `report`) or the pairs (`compare`); `mleval report` writes every "
        "table as CSV beside the page.",
        "",
        "A sentence of the verdict names the keys on which it rests (`rests_on`), so that a "
        "program can check what a reader is",
        "told.",
        "",
        "## Keys of `rank`, `compare` and `report`",
        "",
        *table("key", "what it holds", glossary("keys")),
        "",
        "## CSV files beside a report",
        "",
        *table("file", "columns", glossary("files")),
        "",
        "## Keys of `compare --over folds`, `repeats` and `instances`",
        "",
        *table("key", "what it holds", glossary("pairs")),
        "",
        "## Keys of answers in brief, of `gate` and of the tools of `mleval mcp`",
        "",
        *table("key", "what it holds", glossary("brief")),
        "",
        "Made by `python examples/scripts/make_json_keys.py`.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE).write_text(page(), encoding="utf-8")
