r"""A document as LaTeX to include in a paper: sentences, lists, complete table environments with
the labels ``tab:mleval-KEY``: ``ranking``, ``pairs``, ``fold-means``, ``fold-pairs`` and so on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlflow_mleval.report.blocks import PAPER, Figure, Section, Table, Terms, plain
from mlflow_mleval.report.terminal import fitting, noted
from mlflow_mleval.report.text import latex, shortened

if TYPE_CHECKING:
    from mlflow_mleval.report.document import Document

#: Rows and characters of a line that fit on a page.
ROWS, LINE = 40, 110
NAME = 60  #: longer ones are cut in the middle
#: A table that is too wide for the page is made smaller; no other one is changed.
SHRINK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
HEAD = r"""% To be included by \input. In the preamble:
%   \usepackage[T1]{fontenc}
%   \usepackage{booktabs}
%   \usepackage{graphicx}
%   \usepackage{tikz}
% Names in scripts other than Latin need LuaLaTeX or XeLaTeX and a font that has them.
\begin{sloppypar}"""


def render(document: Document, width: int = 100) -> str:
    """Sections under run-in headings; lines may be loose, for names of measures do not break."""
    parts = [HEAD, *([_latex_of(document.about)] if document.about else [])]
    for i, section in enumerate(document.sections):
        found = list(section.linear(PAPER, tikz=True))
        if blocks := [part for block in found for part in _parts(block, section)]:
            headed = i and not noted(found)
            parts += [*([rf"\paragraph{{{_latex_of(section.title)}}}"] if headed else []), *blocks]
    return "\n\n".join([*parts, r"\end{sloppypar}"]) + "\n"


def _latex_of(text: object) -> str:
    """The text without parts of sentences about the command line, which no paper has."""
    shown = plain(str(text))
    return latex(re.sub(r"[;,]?\s*(command: .*|[^;.]*\s--[a-z][^;.]*)", "", shown))


def _parts(block: Any, section: Section) -> Iterator[str]:
    """A block as paragraphs and environments."""
    if isinstance(block, Table):
        yield _table(block.in_words(ROWS), section.title)
        return
    if isinstance(block, Figure):
        lines = [r"\begin{figure}", r"\centering", SHRINK, block.tikz, "}"]
        caption = rf"\caption{{{_latex_of(block.caption)}}}"
        yield "\n".join([*lines, caption, r"\end{figure}"])
        return
    if block.title:
        yield rf"\paragraph{{{_latex_of(block.title)}}}"
    if isinstance(block, Terms):
        points = [rf"  \item[{_latex_of(term)}] {_latex_of(words)}" for term, words in block.rows]
        yield "\n".join([r"\begin{description}", *points, r"\end{description}"])
    elif block.role == "points":
        points = [rf"  \item {_latex_of(text)}" for text in block.paragraphs]
        yield "\n".join([r"\begin{itemize}", *points, r"\end{itemize}"])
    elif block.role == "note":
        yield from (
            rf"{{\footnotesize\raggedright {_latex_of(text)}\par}}" for text in block.paragraphs
        )
    else:
        yield from map(_latex_of, block.running)


def _table(table: Table, title: str) -> str:
    """The table with its caption, label and notes."""
    chosen, _ = fitting(table, LINE)
    shown = ""
    if table.hidden:
        shown = f"The first {table.held} of {table.total:,} {table.things} are shown."
    first = f"{(table.title or title).rstrip('.')}."
    caption = " ".join(filter(None, [first, shown, replace(table, columns=chosen).notes]))
    texts = [[plain(cell) for cell in c.cells] for c in chosen]
    cut = [shortened(cells, NAME) for cells in texts]
    escaped = ([latex(a[cell]) for cell in cells] for a, cells in zip(cut, texts, strict=True))
    rows = zip(*escaped, strict=True)
    lines = [
        r"\begin{table}",
        r"\centering\small\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{_latex_of(caption)}}}",
        *([rf"\label{{tab:mleval-{table.key}}}"] if table.key else []),
        SHRINK,
        rf"\begin{{tabular}}{{{''.join('r' if c.align == '>' else 'l' for c in chosen)}}}",
        r"\toprule",
        " & ".join(_latex_of(c.head) for c in chosen) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}}",
        r"\end{table}",
    ]
    return "\n".join(lines)
