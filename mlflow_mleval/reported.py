"""Results that make a report of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


class Reported:
    """Gives a result the method `report`.

    Results know nothing of reports, which stand two layers above them. This is the one arrow that points up: `report` imports
    the layer of reports when it is called, by name.
    """

    def report(self, provenance: Mapping[str, Any] | None = None) -> Any:
        """What was found as a document: to_html(path), to_markdown(), to_latex(), to_dict(); a notebook shows it as a page.

        Parameters
        ----------
        provenance : mapping, optional
            What reproduces it: command, versions, run ids …; told at the end.
        """
        return import_module("mlflow_mleval.report.content").document_of(self, provenance)
