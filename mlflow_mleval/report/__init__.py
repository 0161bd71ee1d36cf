"""What results say, and the formats of it: each is one module with a function `render(document,
width)`, and its line here.
"""

from importlib import import_module
from types import ModuleType

# --------------------------------------------------------------------------------------------------
# The formats of a document: each is one module with a function `render(document, width)`, and its
# line here.

#: Name of a format -> its module, and the suffixes of its files.
_FORMATS = {
    "table": ("terminal", ["txt"]),
    "json": ("json", ["json"]),
    "csv": ("csv", ["csv"]),
    "md": ("md", ["md", "markdown"]),
    "latex": ("latex", ["tex"]),
    "html": ("html", ["html", "htm"]),
}
FORMATS = tuple(_FORMATS)
SUFFIXES = {suffix: name for name, (_, suffixes) in _FORMATS.items() for suffix in suffixes}


def renderer(format: str) -> ModuleType:
    """The module that writes a format; a ValueError where there is no such format."""
    if format not in _FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}, got {format!r}.")
    return import_module(f"mlflow_mleval.report.{_FORMATS[format][0]}")
