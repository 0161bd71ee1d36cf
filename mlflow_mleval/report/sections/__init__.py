"""The sections of the HTML report, one module each: a function that picks from a Report what it shows, or None.

A new section is a module with a function `section(report)` and its line in `_SECTIONS`.
"""

from __future__ import annotations

from importlib import import_module

from mlflow_mleval.report.blocks import Section
from mlflow_mleval.report.sections.base import Report

_SECTIONS = (
    "verdict", "doubts", "ranking", "differences", "folds", "profiles", "certainty", "measures", "stability", "provenance",
)  # fmt: skip
#: Those of the answer to which pairs of methods differ over the datasets.
_PAIRS = ("verdict", "doubts", "differences", "certainty", "provenance")


def sections(report: Report, what: str = "report") -> list[Section]:
    """The sections in the order of reading; those that have nothing to say are left out."""
    chosen = _PAIRS if what == "pairs" else _SECTIONS
    made = (import_module(f"{__name__}.{name}").section(report) for name in chosen)
    return [section for section in made if section is not None]
