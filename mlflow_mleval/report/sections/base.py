"""What all sections read, and what several of them say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.report.blocks import Column, Table, name
from mlflow_mleval.report.escape import shorten, terminal
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.report.tables import ReaderTable
from mlflow_mleval.report.words import NAME, Sentence, choices, count, level, listed


@dataclass(frozen=True)
class Report:
    """Everything that a section may read."""

    comparison: Comparison
    provenance: Mapping[str, Any]
    verdict: Sequence[Sentence]
    doubts: Sequence[str]

    @property
    def title(self) -> str:
        """What was compared."""
        study = self.comparison.study
        by = "" if self.comparison.on == FUSED else f" by {listed([self.comparison.on])}"
        return f"{count(len(study.methods), 'method')} compared on {count(len(study.datasets), 'dataset')}{by}"

    @property
    def about(self) -> str:
        """How, in a line."""
        c = self.comparison
        n = len(c.study.measures)
        policy = c.options["missing"]
        parts = [f"{count(n, 'measure')} fused by PROMETHEE II, {choices(c.options, n)}",
                 "no missing results" if policy == "error" else f"missing results: {policy}",
                 f"α = {level(c.options['alpha'])}", self.time]
        return " · ".join(part for part in parts if part)

    @property
    def time(self) -> str:
        """When it was made, to the minute; nothing if unknown."""
        return str(self.provenance.get("time") or "").replace("T", " ", 1).replace("+00:00", " UTC")

    @cached_property
    def prose(self) -> Callable[[str], Markup]:
        """Turns running text into markup, with the names of methods, datasets and measures marked."""
        study = self.comparison.study
        return marked({*study.methods, *study.datasets, *study.measures})


def marked(names: Iterable[object]) -> Callable[[str], Markup]:
    """A function for running text that breaks neither in one of these names nor around an equals sign.

    Names are marked wherever they occur as words, whole or cut as the texts cut them.
    """
    whole = {terminal(name) for name in names}
    known = sorted({text for name in whole for text in (name, shorten(name, NAME))}, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, known))})(?!\w)")

    def prose(text: str) -> Markup:
        escaped = (Markup('<bdi class="name">{}</bdi>').format(part) if i % 2 else escape(part)
                   for i, part in enumerate(pattern.split(terminal(text).replace(" = ", "\u00a0=\u00a0"))))  # fmt: skip
        return Markup("").join(escaped)

    return prose


def arrow(c: Comparison, measure: str) -> str:
    """The better direction of a measure."""
    return {"min": "↓", "max": "↑"}[c.study.directions[measure]]


def from_reader(table: ReaderTable, **options: Any) -> Table:
    """A table for readers of any format as one of the page; what its columns mean stands in their tips and below."""
    columns = [Column(c.head, "left" if c.align == "<" else "number", c.note) for c in table.columns]
    cells = [[name(cell) for cell in c.cells] if c.name else c.cells for c in table.columns]
    note = " ".join(c.note for c in table.columns if c.note)
    return Table(columns, list(zip(*cells, strict=True)), note=note, **options)


def left_out(total: int, what: str = "methods") -> str:
    """That only the best are shown, if so."""
    if total <= TOP:
        return ""
    return f"The best {TOP} of {total:,} {what} are shown; the JSON and CSV data hold all."


def grid(frame: pd.DataFrame, head: str, columns: Sequence[Column], cell: Any, **options: Any) -> Table:
    """A table of a frame whose rows are named; `cell` turns a value into what is shown."""
    rows = [[name(index), *map(cell, values)] for index, values in zip(frame.index, frame.to_numpy(), strict=True)]
    return Table([Column(head, "left"), *columns], rows, **options)
