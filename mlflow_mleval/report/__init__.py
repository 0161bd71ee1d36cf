"""What results say, and the formats of it: each is a function of a module, `render(document,
width)` if it has but one, and its line here."""

from typing import Any, NamedTuple

from mlflow_mleval.package import imported

# --------------------------------------------------------------------------------------------------
# The formats of a document.


class Format(NamedTuple):
    """A format: its module, the suffixes of its files, the usual one first, and the function."""

    module: str
    suffixes: tuple[str, ...]
    function: str = "render"
    offered: bool = True  #: whether the page offers it; JSON and CSV lie beside a report anyway


#: By the name that `--output` takes.
_FORMATS = {
    "table": Format("terminal", ("txt",), offered=False),
    "json": Format("data", ("json",), "as_json", offered=False),
    "csv": Format("data", ("csv",), "as_csv", offered=False),
    "md": Format("md", ("md", "markdown")),
    "latex": Format("latex", ("tex",)),
    "html": Format("html", ("html", "htm")),
    "text": Format("terminal", ("txt",), "paragraph"),
    "brief": Format("data", ("json",), "brief", offered=False),
}
FORMATS = tuple(_FORMATS)
#: What a suffix alone stands for: of several formats the first.
SUFFIXES = {suffix: name for name, made in reversed(_FORMATS.items()) for suffix in made.suffixes}
#: What a report is called as a file, by the formats that the page offers.
FILES = {name: f"report.{made.suffixes[0]}" for name, made in _FORMATS.items() if made.offered}


def render(document: Any, format: str, width: int) -> str:
    """The document in the format; a ValueError where there is no such format."""
    if format not in _FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}, got {format!r}.")
    module, _, function, _ = _FORMATS[format]
    made: str = imported(f"report.{module}", function)(document, width)
    return made
