"""A document as GitHub-flavoured Markdown; names of strangers are text, not markup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mlflow_mleval.report.blocks import PAPER, Table, Terms, plain
from mlflow_mleval.report.text import columns, markdown, pad, shortened, terminal

if TYPE_CHECKING:
    from mlflow_mleval.report.document import Document

NAME = 60  #: longer ones are cut in the middle
ROWS = 100  #: more are left to the data


def render(document: Document, width: int = 100) -> str:
    """Sections under headings, from the second on; `width` changes nothing."""
    parts = [f"# {_text(document.title)}", *([_text(document.about)] if document.about else [])]
    for i, section in enumerate(document.sections):
        blocks = [part for block in section.linear(PAPER) for part in _parts(block)]
        if blocks:
            parts += [*([f"## {_text(section.title)}"] if i else []), *blocks]
    return "\n\n".join(parts) + "\n"


def _text(text: object) -> str:
    return markdown(plain(str(text)))


def _parts(block: Any) -> Iterator[str]:
    """A block as paragraphs."""
    if block.title:
        yield f"### {_text(block.title)}"
    if isinstance(block, Table):
        yield from _table(block.in_words(ROWS))
    elif isinstance(block, Terms):
        yield "\n".join(f"- **{_text(term)}**: {_text(words)}" for term, words in block.rows)
    elif block.role == "points":
        yield "\n".join(f"- {_text(text)}" for text in block.paragraphs)
    elif block.role == "pre":
        yield from (
            "\n".join(f"    {terminal(line)}" for line in plain(text).split("\n"))
            for text in block.paragraphs
        )
    else:
        yield from map(_text, block.running)


def _table(table: Table) -> Iterator[str]:
    chosen = table.columns
    cells = []
    for c in chosen:
        texts = [plain(str(cell)) for cell in c.cells]
        short = shortened(texts, NAME) if c.name else {}
        cells.append([_text(c.head), *(markdown(short.get(text, text)) for text in texts)])
    wide = [max(3, *map(columns, column)) for column in cells]
    aligns = [">" if c.align == ">" else "<" for c in chosen]
    rules = ["-" * (w + 1) + (":" if a == ">" else "-") for w, a in zip(wide, aligns, strict=True)]
    head, *rows = (
        f"| {' | '.join(map(pad, row, wide, aligns))} |" for row in zip(*cells, strict=True)
    )
    yield "\n".join([head, f"|{'|'.join(rules)}|", *rows])
    if table.hidden:
        yield f"… and {table.hidden:,} more {table.things}."
    if table.notes:
        yield _text(table.notes)
