"""A document for a terminal: what lies at the surface, in as many columns as there are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, zip_longest
from typing import TYPE_CHECKING, Any

from mlflow_mleval.report.blocks import Column, Table, Terms, Text, plain
from mlflow_mleval.report.text import columns, pad, shortened, terminal, wrap

if TYPE_CHECKING:
    from mlflow_mleval.report.document import Document

POINT = 200  #: characters beyond which points are cut
NAME_MIN = 16  #: a name is cut to no less before columns are left out
NAME_MAX = 40
GAP = 2


def render(document: Document, width: int = 100) -> str:
    """The answer first; headings from the second section on, but for tables and notes alone."""
    parts = []
    for i, section in enumerate(document.sections):
        found: list[Any] = []
        for running, group in groupby(
            section.linear(section.depth),
            lambda b: isinstance(b, Text) and b.role in ("lead", "flow") and not b.title,
        ):
            same = list(group)
            if running:  # as one, for lines are few
                whole = [*chain.from_iterable(b.paragraphs for b in same)]
                same = [replace(same[0], paragraphs=whole)]
            found += same
        first = next(iter(found), None)
        if isinstance(first, Text) and first.most == 1:
            points = first.paragraphs
            more = " (-v shows all)" if len(points) > 1 else ""
            text = f"{section.title}{more}: {short_ids(plain(points[0]))}"
            parts.append("\n".join(_point("", text, width, cut=True)))
            continue
        blocks = [text for block in found if (text := "\n".join(_lines(block, width)))]
        if i and blocks and not noted(found):
            blocks[0] = f"{section.title}\n{blocks[0]}"
        parts += blocks
    return "\n\n".join(parts)


def paragraph(document: Document, width: int = 100) -> str:
    """The answer on one line, to be pasted into a message; `width` changes nothing."""
    return terminal(plain(document.brief.paragraph))


def noted(blocks: Sequence[object]) -> bool:
    """Whether there are tables and notes only, which need no heading."""
    return all(
        isinstance(block, Table) or (isinstance(block, Text) and block.role == "note")
        for block in blocks
    )


def _lines(block: Any, width: int) -> Iterator[str]:
    if block.title:
        yield from wrap("", short_ids(plain(block.title)), width)
    if isinstance(block, Table):
        yield from _grid(block.in_words(block.most), width)
    elif isinstance(block, Terms):
        terms = [(terminal(plain(term)), plain(words)) for term, words in block.rows]
        room = max((columns(term) for term, _ in terms), default=0) + 1
        for term, words in terms:
            yield from wrap(pad(term, room) + " ", words, width)
    elif block.role == "pre":
        yield from map(terminal, plain("\n".join(block.running)).split("\n"))
    elif block.role == "points":
        shown = block.paragraphs[: block.most]
        for text in shown:
            yield from _point("- ", short_ids(plain(text)), width, block.most is not None)
        if more := len(block.paragraphs) - len(shown):
            yield f"- and {more} more, which other formats show"
    else:
        for text in block.running:
            yield from wrap("", short_ids(plain(text)), width)


def _point(mark: str, text: str, width: int, cut: bool) -> list[str]:
    """An item of a list, shortened to two lines or so."""
    lines = wrap(mark, text, width)
    room = -(-POINT // width)
    if not cut or len(lines) <= room:
        return lines
    return [*lines[: room - 1], f"{lines[room - 1].rpartition(' ')[0]} …"]


def _grid(table: Table, width: int) -> list[str]:
    """As many columns as there is room for, the table's notes, and how many rows are missing."""
    chosen, wide = fitting(table, width)
    aligns = [c.align for c in chosen]
    cut = [
        shortened(map(_for_terminal, [c.head, *c.cells]), w)
        for c, w in zip(chosen, wide, strict=True)
    ]
    head = [[c.head for c in chosen]] if any(c.head for c in chosen) else []
    lines: list[str] = []
    for cells in (*head, *zip(*(c.cells for c in chosen), strict=True)):
        parts = [
            wrap("", plain(text), w) if align == "wrap" else [short[_for_terminal(text)]]
            for text, w, short, align in zip(cells, wide, cut, aligns, strict=True)
        ]
        rows = zip_longest(*parts, fillvalue="")
        lines += [(" " * GAP).join(map(pad, texts, wide, aligns)).rstrip() for texts in rows]
    if table.hidden:
        lines.append(f"… and {table.hidden:,} more; --output csv lists all")
    notes = replace(table, columns=chosen).notes
    return lines + (wrap("", plain(notes), width) if notes else [])


def _for_terminal(text: object) -> str:
    return terminal(plain(str(text)))


def fitting(table: Table, width: int) -> tuple[list[Column], list[int]]:
    """The columns for which there is room, and how wide each is: names are cut first, then the
    columns with the least `keep` go; one whose text may wrap takes what is left."""
    chosen = list(table.columns)
    natural = {
        id(c): max(columns(_for_terminal(cell)) for cell in [c.head, *c.cells]) for c in chosen
    }

    def wide(longest: int, names: int) -> list[int]:
        return [
            min(natural[id(c)], longest if c.align == "wrap" else names)
            if c.name or c.align == "wrap"
            else natural[id(c)]
            for c in chosen
        ]

    def fits(longest: int) -> bool:
        return sum(wide(longest, longest)) + GAP * (len(chosen) - 1) <= width

    while not fits(NAME_MIN) and (spare := [c.keep for c in chosen if c.keep]):
        chosen = [c for c in chosen if c.keep != min(spare)]
    longest = next((n for n in range(max(NAME_MAX, width), 4, -1) if fits(n)), 4)
    return chosen, wide(longest, min(longest, NAME_MAX))


def short_ids(text: str) -> str:
    """The text with ids of runs cut to their beginning; JSON and HTML have them whole."""
    return re.sub(r"\b([0-9a-f]{8})[0-9a-f]{24}\b", r"\1…", text)
