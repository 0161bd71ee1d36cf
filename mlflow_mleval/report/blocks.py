"""What a section of the report is made of: paragraphs, tables, figures with their words, lists of terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from markupsafe import Markup, escape

from mlflow_mleval.report.escape import shorten, terminal
from mlflow_mleval.report.svg import Svg

#: Longest name in tables and lists, in characters; longer ones are cut in the middle.
NAME = 28


@dataclass(frozen=True)
class Text:
    """Paragraphs; `role` is lead, note, points (a list) or pre (to copy); `folded` puts them behind a line to click."""

    paragraphs: Sequence[Any]
    role: str = ""
    title: str = ""
    folded: bool = False
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Column:
    """A column of a table: what stands in its head, how its cells are aligned, what the head means."""

    head: Any
    align: str = "number"
    tip: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the first column names its rows. `folded` puts it behind a line to click, `first` stresses the first row."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    note: Any = ""
    folded: bool = False
    first: bool = False
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Figure:
    """A drawing, the sentences under it, and the same as a table."""

    svg: Svg
    caption: Any
    table: Table | None = None
    title: str = ""
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class Terms:
    """Terms and what they say."""

    rows: Sequence[tuple[Any, Any]]
    title: str = ""
    kind: ClassVar[str] = "terms"


@dataclass(frozen=True)
class Columns:
    """Blocks that stand beside each other on a wide page, below each other on a narrow one."""

    left: Sequence[Any]
    right: Sequence[Any]
    kind: ClassVar[str] = "columns"


@dataclass(frozen=True)
class Section:
    """A part of the report that folds; `hint` says in a line what is in it while it is closed."""

    key: str
    title: str
    blocks: Sequence[Any]
    hint: str = ""


def name(text: object, room: int = NAME) -> Markup:
    """A name that never wraps, cut in the middle, the whole of it in a tooltip.

    >>> print(name("a<b"))
    <bdi class="name">a&lt;b</bdi>
    """
    whole = terminal(text)
    short = shorten(whole, room)
    tip = Markup(' title="{}"').format(whole) if short != whole else ""
    return Markup('<bdi class="name"{}>{}</bdi>').format(tip, short)


def names(items: Iterable[object], most: int = 12) -> Markup:
    """Names in running text, the first of them if they are many.

    >>> print(names(["a", "b", "c"], most=2))
    <bdi class="name">a</bdi>, <bdi class="name">b</bdi> and 1 more
    """
    items = list(items)
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return escape(", ").join(map(name, items[:most])) + more
