"""The report for a terminal: the verdict, one table and the doubts, on about thirty lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.report.certainty_text import certainty_sentences
from mlflow_mleval.report.escape import columns, pad, shorten, terminal, wrap
from mlflow_mleval.report.pairs_text import omnibus, pairs_verdict
from mlflow_mleval.report.tables import ReaderTable, pairs_table, ranking_table
from mlflow_mleval.report.words import new_doubts, origin, paragraphs

#: More rows and doubts than these are left to the report, and what a doubt says beyond this many characters.
METHODS, PAIRS, DOUBTS, DOUBT = 15, 20, 4, 200
#: A name is cut to no less than this before columns are left out.
NAME_MIN, NAME_MAX, GAP = 16, 40, 2


def render_terminal(
    comparison: Comparison, provenance: Mapping[str, Any] | None = None, width: int = 100, color: bool = False
) -> str:
    """The verdict, the ranking and the doubts.

    Parameters
    ----------
    comparison : Comparison
    provenance : mapping, optional
        Its time, seed and policy make the last line.
    width : int
        Columns of the terminal.
    color : bool
        Whether to set headings in bold; only for a terminal that understands it.

    Returns
    -------
    str
        Names of strangers hold no control characters.
    """
    head = _bold if color else str
    lines = "\n\n".join("\n".join(wrap("", text, width)) for text in paragraphs(comparison)).split("\n")
    lines += ["", *grid(ranking_table(comparison, METHODS), width, head)]
    lines += _doubts(comparison, width, head)
    if provenance:
        lines += ["", *wrap("", origin(provenance), width)]
    return "\n".join(lines)


def render_pairs(
    comparison: Comparison, provenance: Mapping[str, Any] | None = None, width: int = 100, color: bool = False
) -> str:
    """Which methods differ: what the design can show at all, the groups, the test over all methods, the pairs, the doubts.

    Parameters are those of `render_terminal`.
    """
    head = _bold if color else str
    said = [*(s.text for s in pairs_verdict(comparison)), *omnibus(comparison), comparison.decision]
    lines = [line for text in dict.fromkeys(said) for line in wrap("", text, width)]
    table = pairs_table(comparison, PAIRS)
    if table.total:
        lines += ["", *grid(table, width, head)]
    if comparison.beyond is not None:
        lines += ["", head("Beyond p-values")]
        said = [*certainty_sentences(comparison), *comparison.beyond.warnings]
        lines += [line for text in said for line in wrap("- ", text, width)]
    lines += _doubts(comparison, width, head)
    if provenance:
        lines += ["", *wrap("", origin(provenance), width)]
    return "\n".join(lines)


def grid(table: ReaderTable, width: int, head: Any = str) -> list[str]:
    """The table in as many of its columns as there is room for, its note, and how many rows are missing."""
    chosen = list(table.columns)
    natural = {id(c): max(columns(terminal(cell)) for cell in [c.head, *c.cells]) for c in chosen}

    def needed(longest: int) -> int:
        return sum(min(natural[id(c)], longest) if c.name else natural[id(c)] for c in chosen) + GAP * (len(chosen) - 1)

    while needed(NAME_MIN) > width and (spare := [c for c in chosen if c.keep]):
        least = min(c.keep for c in spare)
        chosen = [c for c in chosen if c.keep != least]
    longest = next((n for n in range(NAME_MAX, 4, -1) if needed(n) <= width), 4)
    wide = [min(natural[id(c)], longest) if c.name else natural[id(c)] for c in chosen]

    def line(cells: Sequence[str]) -> str:
        texts = (pad(shorten(terminal(t), w), w, c.align) for t, w, c in zip(cells, wide, chosen, strict=True))
        return (" " * GAP).join(texts).rstrip()

    lines = [head(line([c.head for c in chosen])), *map(line, zip(*(c.cells for c in chosen), strict=True))]
    if table.left_out:
        lines.append(f"… and {table.left_out:,} more; --output csv lists all")
    return lines + wrap("", " ".join(c.note for c in chosen if c.note), width)


def _doubts(comparison: Comparison, width: int, head: Any) -> list[str]:
    """The doubts that were not yet said, shortened."""
    doubts = new_doubts(comparison)
    if not doubts:
        return []
    lines = ["", head("Doubts")]
    for text in doubts[:DOUBTS]:
        own = wrap("- ", short_ids(text), width)
        room = -(-DOUBT // width)
        lines += own if len(own) <= room else [*own[: room - 1], f"{own[room - 1].rpartition(' ')[0]} …"]
    if len(doubts) > DOUBTS:
        lines.append(f"- and {len(doubts) - DOUBTS} more, see the report")
    return lines


def short_ids(text: str) -> str:
    """The text with ids of runs cut to their beginning; JSON and HTML have them whole.

    >>> short_ids("a on d (run 0123456789abcdef0123456789abcdef)")
    'a on d (run 01234567…)'
    """
    return re.sub(r"\b([0-9a-f]{8})[0-9a-f]{24}\b", r"\1…", text)


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m"
