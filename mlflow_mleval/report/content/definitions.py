"""What stands beside every result: the words of the reports, definitions of measures, and
doubts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pandas as pd

from mlflow_mleval.measures.metric_names import range_of
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import ALWAYS, PAGE, Column, Section, Table, points
from mlflow_mleval.words import count

if TYPE_CHECKING:
    from mlflow_mleval.analysis.comparison import Comparison


# --------------------------------------------------------------------------------------------------
# What the measures of a document are; no result is needed to say it, so that a ranking loads
# nothing of training.


def definitions(directions: Mapping[str, str]) -> Table:
    """What measures are, each with its direction; those that the registry lacks were declared."""
    known = [MEASURES.get(m) for m in directions]
    unknown = "not known here; its direction was declared by the user"
    columns = [
        doc.names("measure", directions),
        doc.better(directions.values()),
        Column("what it is", [m.summary if m else unknown for m in known], "wrap"),
        Column("after", [m.source if m else "" for m in known], "wrap"),
    ]
    return Table(columns, title="What the measures are", folded=True, depth=PAGE)


def within_range(means: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Means with their intervals (low, high), which end where the range of the measure does.

    >>> within_range(pd.DataFrame({"mean": [0.9], "low": [0.75], "high": [1.05]}), "f1")
       mean   low  high
    0   0.9  0.75   1.0
    """
    low, high = range_of(measure, means["mean"].dropna())
    return means.assign(low=means["low"].clip(low, high), high=means["high"].clip(low, high))


# --------------------------------------------------------------------------------------------------
# What a reader must know before believing the verdict.


def doubts_section(c: Comparison, most: int = 1) -> Section | None:
    """The doubts as a marked list, so many of them on a terminal; nothing where there are none."""
    if not c.doubts:
        return None
    names = {*c.study.methods, *c.study.datasets, *c.study.measures}
    return doubts([capitalised(text, names) for text in c.doubts], most)[0]


def doubts(texts: Sequence[str], most: int | None = None) -> list[Section]:
    """The section of any document that holds its doubts, if there are any: on a page a line with
    their number and the first, the others a click away.
    """
    title = count(len(texts), "doubt")
    held = points(texts, depth=ALWAYS, most=most)
    return [Section("doubts", title, held, hint=texts[0], open=False)] if texts else []


def doubts_data(c: Comparison) -> dict[str, Any]:
    return {"doubts": c.doubts, "absent": c.absent, "excluded": c.study.excluded}


#: What a star beside a value, or beside a rank that comes from it, means.
IMPUTED = "* no result: the dataset's worst value stands for it."


def starred(texts: Iterable[str], imputed: Iterable[bool]) -> list[str]:
    """Values as they are shown, those that a policy supplied with a star."""
    return [f"{text}*" if star else text for text, star in zip(texts, imputed, strict=True)]


def capitalised(text: str, names: Iterable[str]) -> str:
    """The text with a capital, unless it begins with one of the names, which stay as they are.

    >>> capitalised("random forest leads", ["random forest"]), capitalised("two lead", ["random forest"])
    ('random forest leads', 'Two lead')
    """  # noqa: E501
    return (
        text
        if text.startswith(tuple(f"{name} " for name in names))
        else text[:1].upper() + text[1:]
    )


# --------------------------------------------------------------------------------------------------
# What stands in ``glossary.md``: the words of the reports, the keys of their JSON data and the
# columns of their CSV files.

_TEXT = (files("mlflow_mleval.report") / "glossary.md").read_text("utf-8")
#: (topic, word, explanation), each a heading and the paragraph under it.
_ENTRIES = re.findall(r"^## (.+?): (.+)\n\n((?:[^#\n].*\n)+)", _TEXT, re.M)


def glossary(topic: str) -> dict[str, str]:
    """The words of a topic and what they mean; what stands in braces there is for the caller to
    fill in.

    >>> glossary("ties")["correct"]
    'corrected for ties'
    """
    return {word: " ".join(text.split()) for of, word, text in _ENTRIES if of == topic}
