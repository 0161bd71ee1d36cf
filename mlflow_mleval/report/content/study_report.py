"""A Comparison as a document: the report, its ranking, or its pairs.

A topic joins by its line in `_TOPICS`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.report.blocks import ALWAYS, Section, Text, listed
from mlflow_mleval.report.content import (
    beyond,
    decision,
    definitions,
    differences,
    measures,
    profiles,
    provenance,
    ranking,
    units,
    verdict,
)
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.text import level
from mlflow_mleval.words import count


class Topic(NamedTuple):
    """What a topic gives: a section of the report, data for JSON, tables for CSV."""

    section: Callable[[Comparison], Section | None]
    data: Callable[[Comparison], Mapping[str, Any]] | None = None
    frames: Callable[[Comparison], Mapping[str, pd.DataFrame]] | None = None
    apart: bool = False  #: not in a ranking by itself


#: The topics of the report, in the order of reading.
_TOPICS = (
    Topic(decision.section, data=decision.data),
    Topic(verdict.section, data=verdict.data),
    Topic(definitions.doubts_section, data=definitions.doubts_data),
    Topic(ranking.section, data=ranking.data, frames=ranking.frames),
    Topic(ranking.spread_section, data=ranking.spread_data, frames=ranking.spread_frames),
    Topic(differences.section, data=differences.data, frames=differences.frames),
    Topic(
        beyond.next_dataset_section,
        data=beyond.next_dataset_data,
        frames=beyond.next_dataset_frames,
        apart=True,
    ),
    *(
        Topic(
            partial(units.section, unit=unit),
            data=partial(units.data, unit=unit),
            frames=partial(units.frames, unit=unit),
            apart=True,
        )
        for unit in ("repeats", "folds", "instances", "answers")
    ),
    Topic(profiles.section, data=profiles.data, frames=profiles.frames, apart=True),
    Topic(beyond.section, data=beyond.data),
    Topic(measures.section, data=measures.data, frames=measures.frames),
    Topic(measures.sensitivity_section, data=measures.sensitivity_data),
)
#: What JSON holds beside the topics.
_BESIDE = (provenance.data, provenance.best_methods_data)
PARTS = ("report", "ranking", "pairs")


def document(c: Comparison, made_by: Mapping[str, Any], what: str = "report") -> Document:
    """The report, or the part that a command shows ("ranking", "pairs"); JSON always holds
    everything.

    `made_by` is what reproduces it: command, versions, tracking_uri, experiments, filter, run_ids,
    seed, policy, time; any may lack. The ranking lacks what is about folds, instances and profiles.
    """
    sections: list[Section | None]
    if what == "pairs":
        sentences = differences.pairs_verdict(c)
        answer = Text([s.text for s in sentences], role="lead", depth=ALWAYS)
        sections = [
            Section("verdict", "Verdict", [answer]),
            definitions.doubts_section(c),
            differences.section(c, ALWAYS),
            beyond.next_dataset_section(c, ALWAYS),
            beyond.section(c, ALWAYS),
            provenance.section(c, made_by, sentences),
        ]
    else:
        chosen = [topic for topic in _TOPICS if what == "report" or not topic.apart]
        sections = [*(topic.section(c) for topic in chosen), provenance.section(c, made_by)]
    return Document(
        f"Pairs of {title_of(c)}" if what == "pairs" else title_of(c),
        [section for section in sections if section is not None],
        about=_about(c, made_by),
        time=provenance.when(made_by),
        data=lambda: {
            **_merged(c, [*(topic.data for topic in _TOPICS), *_BESIDE]),
            **(_pairs(c) if what == "pairs" else {}),
            "provenance": dict(made_by),
        },
        frames=lambda: _merged(c, [topic.frames for topic in _TOPICS]),
        main="pairs" if what == "pairs" else "ranking",
    )


def _pairs(c: Comparison) -> dict[str, Any]:
    """What JSON holds of pairs in the same way whatever they are tested over; of very many methods
    the best.
    """
    tests = c.tests_over("datasets")
    if not tests:
        return {"over": "datasets", "pairs": []}
    shape = units.shape(tests, c.absent, c.doubts)
    pairs = provenance.rows_among(shape["pairs"], provenance.best(c))
    shortened = provenance.best_methods_data(c)["shortened"]
    return {
        "over": "datasets",
        "verdict": shape["verdict"],
        "pairs": pairs,
        "shortened": shortened and {**shortened, "pairs": next(iter(shortened.values()))},
    }


def _merged(
    c: Comparison, makers: Iterable[Callable[[Comparison], Mapping[str, Any]] | None]
) -> dict[str, Any]:
    """What all topics give for JSON or CSV."""
    return {key: value for make in makers if make for key, value in make(c).items()}


def title_of(c: Comparison) -> str:
    """What was compared."""
    by = "" if c.on == FUSED else f" by {listed([c.on])}"
    return (
        f"{count(len(c.study.methods), 'method')} compared on "
        f"{count(len(c.study.datasets), 'dataset')}{by}"
    )


def _about(c: Comparison, made_by: Mapping[str, Any]) -> str:
    """How, in a line."""
    n, policy = len(c.study.measures), c.options["missing"]
    parts = [
        f"{count(n, 'measure')} fused by PROMETHEE II, {verdict.choices(c.options, n)}",
        "no missing results" if policy == "error" else f"missing results: {policy}",
        f"α = {level(c.options['alpha'])}",
        provenance.when(made_by),
    ]
    return " · ".join(filter(None, parts))
