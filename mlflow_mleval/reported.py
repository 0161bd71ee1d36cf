"""Results that make a report of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


class Reported:
    """Gives a result the method `report`.

    Results know nothing of reports, which stand two layers above them. This is the one arrow that
    points up: `report` imports the layer of reports when it is called, by name.
    """

    def report(self, provenance: Mapping[str, Any] | None = None) -> Any:
        """What was found as a document: to_html(path), to_markdown(), to_latex(), to_dict(); a
        notebook shows it as a page.

        Parameters
        ----------
        provenance : mapping, optional
            What reproduces it: command, versions, run ids …; told at the end.
        """
        return import_module("mlflow_mleval.report.content").document_of(self, provenance)


class Detailed(Reported):
    """Gives a result the method `detail`, too."""

    def detail(
        self,
        *,
        method: str = "",
        dataset: str = "",
        against: str = "",
        provenance: Mapping[str, Any] | None = None,
    ) -> Any:
        """A closer look, as a document: at a method, a dataset, a method on a dataset, or a method
        against another.

        Of a method its ranks on each dataset, its places by each measure and its pairs; of a
        dataset its ranking, flows by measure, folds and profiles; of a method on a dataset its runs
        with their values, repeats and folds; of a pair the differences by each measure with their
        intervals, what each test says, and both profiles.

        Parameters
        ----------
        method, dataset, against : str
            What to look at; `against` is a second method.
        provenance : mapping, optional
            What reproduces it, as in `report`.

        Raises
        ------
        ValueError
            Neither a method nor a dataset, or another method without a first one, or beside a
            dataset.
        IncomparableRunsError
            A name that the comparison does not have.
        """
        if not (method or dataset) or (against and (dataset or not method)):
            raise ValueError(
                "`detail` must be of a method, a dataset, both, or a method against another, got "
                f"method={method!r}, dataset={dataset!r}, against={against!r}."
            )
        made = import_module("mlflow_mleval.report.content.details").document
        return made(self, provenance or {}, method=method, dataset=dataset, against=against)
