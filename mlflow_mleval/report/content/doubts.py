"""What a reader must know before believing the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mlflow_mleval.report.document import ALWAYS, Section, points

if TYPE_CHECKING:
    from mlflow_mleval.analysis.comparison import Comparison

#: Doubts that stand on a terminal.
MOST = 6


def section(c: Comparison) -> Section | None:
    """The doubts as a marked list; nothing where there are none."""
    if not c.doubts:
        return None
    names = {*c.study.methods, *c.study.datasets, *c.study.measures}
    return doubts([capitalised(text, names) for text in c.doubts], MOST)[0]


def doubts(texts: Sequence[str], most: int | None = None) -> list[Section]:
    """The section of any document that holds its doubts, if there are any."""
    return [Section("doubts", "Doubts", points(texts, depth=ALWAYS, most=most))] if texts else []


def data(c: Comparison) -> dict[str, Any]:
    return {"doubts": c.doubts, "absent": c.absent, "excluded": c.study.excluded}


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
