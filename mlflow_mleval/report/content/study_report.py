"""A Comparison as a document: the report, its ranking, or its pairs.

A topic joins by its line in `_TOPICS`.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.naming import count
from mlflow_mleval.report.content import (
    answer_sections,
    best_methods,
    beyond,
    differences,
    doubts,
    folds,
    instances,
    next_dataset,
    profiles,
    provenance,
    repeat_tests_sections,
    verdict,
)
from mlflow_mleval.report.document import ALWAYS, Document, Section, Text, listed
from mlflow_mleval.report.numerals import level

#: The modules that make the report, in the order of reading: `section(c)`, and where there is any
#: `data(c)`, what JSON holds, and `frames(c)`, what CSV files hold.
_TOPICS = [
    import_module(f"mlflow_mleval.report.content.{name}")
    for name in (
        "decision",
        "verdict",
        "doubts",
        "ranking",
        "spread",
        "differences",
        "next_dataset",
        "repeat_tests_sections",
        "folds",
        "instances",
        "answer_sections",
        "profiles",
        "beyond",
        "measures",
        "sensitivity",
        "provenance",
    )
]
#: What a ranking lacks.
_APART = (folds, instances, answer_sections, profiles, next_dataset, repeat_tests_sections)
PARTS = ("report", "ranking", "pairs")


def document(c: Comparison, made_by: Mapping[str, Any], what: str = "report") -> Document:
    """The report, or the part that a command shows ("ranking", "pairs"); JSON always holds
    everything.

    `made_by` is what reproduces it: command, versions, tracking_uri, experiments, filter, run_ids,
    seed, policy, time; any may lack. The ranking lacks what is about folds, instances and profiles.
    """
    if what == "pairs":
        said = differences.pairs_verdict(c)
        answer = Section(
            "verdict", "Verdict", [Text([s.text for s in said], role="lead", depth=ALWAYS)]
        )
        parts = [
            doubts.section(c),
            differences.section(c, ALWAYS),
            next_dataset.section(c, ALWAYS),
            beyond.section(c, ALWAYS),
        ]
        sections = [answer, *parts, provenance.section(c, made_by, said)]
        title = f"Pairs of {title_of(c)}"
    else:
        chosen = [topic for topic in _TOPICS[:-1] if what == "report" or topic not in _APART]
        sections, title = (
            [*(topic.section(c) for topic in chosen), provenance.section(c, made_by)],
            title_of(c),
        )
    return Document(
        title,
        [section for section in sections if section is not None],
        about=_about(c, made_by),
        time=provenance.when(made_by),
        data=lambda: {**_merged(c, "data"), "provenance": dict(made_by)},
        frames=lambda: _merged(c, "frames"),
        main="pairs" if what == "pairs" else "ranking",
    )


def _merged(c: Comparison, kind: str) -> dict[str, Any] | dict[str, pd.DataFrame]:
    """What all topics give for JSON or CSV."""
    makers = (getattr(topic, kind) for topic in [*_TOPICS, best_methods] if hasattr(topic, kind))
    return {key: value for make in makers for key, value in make(c).items()}


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
