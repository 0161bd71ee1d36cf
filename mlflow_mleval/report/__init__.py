"""What results say, and the formats of it: each is one module with a function `render(document,
width)`, and its line here.
"""

from importlib import import_module
from types import ModuleType
from typing import NamedTuple

# --------------------------------------------------------------------------------------------------
# The formats of a document: each is one module with a function `render(document, width)`, and its
# line here.


class Format(NamedTuple):
    """A format: its module, and the suffixes of its files, the usual one first."""

    module: str
    suffixes: tuple[str, ...]
    offered: bool = True  #: whether the page offers it; JSON and CSV lie beside a report anyway


#: By the name that `--output` takes.
_FORMATS = {
    "table": Format("terminal", ("txt",), offered=False),
    "json": Format("json", ("json",), offered=False),
    "csv": Format("csv", ("csv",), offered=False),
    "md": Format("md", ("md", "markdown")),
    "latex": Format("latex", ("tex",)),
    "html": Format("html", ("html", "htm")),
}
FORMATS = tuple(_FORMATS)
SUFFIXES = {suffix: name for name, made in _FORMATS.items() for suffix in made.suffixes}
#: What a report is called as a file, by the formats that the page offers.
FILES = {name: f"report.{made.suffixes[0]}" for name, made in _FORMATS.items() if made.offered}


def renderer(format: str) -> ModuleType:
    """The module that writes a format; a ValueError where there is no such format."""
    if format not in _FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}, got {format!r}.")
    return import_module(f"mlflow_mleval.report.{_FORMATS[format].module}")
