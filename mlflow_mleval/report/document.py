"""A document: sections of blocks that say what results say, and the formats that it can take."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from mlflow_mleval.report import renderer
from mlflow_mleval.report.blocks import ALWAYS, PAGE, PAPER, Figure, Section, Text

#: So many sections of a page are open where these do not say it themselves.
OPEN = 4


@dataclass(frozen=True)
class Document:
    """What results say, in sections, beside the same as plain data and as tables.

    In a notebook it shows itself.
    """

    title: str
    sections: Sequence[Section]  #: in the order of reading; the first is the answer
    about: str = ""  #: how it came about, in a line
    time: str = ""
    data: Callable[[], Mapping[str, Any]] = (
        dict  #: makes what JSON holds: dicts, tables and result objects; unrounded
    )
    frames: Callable[[], Mapping[str, pd.DataFrame]] = (
        dict  #: makes the tables that CSV files hold, by name, unrounded
    )
    main: str = ""  #: the one of them that is written where one CSV file is asked for
    text: str = ""  #: the answer as a paragraph to paste into a message

    @property
    def opened(self) -> list[str]:
        """Keys of the sections that a page shows open."""
        return [
            section.key
            for i, section in enumerate(self.sections)
            if (i < OPEN if section.open is None else section.open)
        ]

    def render(self, format: str, width: int = 100) -> str:
        """The document in one of the formats of `mlflow_mleval.report`; `width` is that of
        a terminal in columns.
        """
        return renderer(format).render(self, width)

    @property
    def in_full(self) -> "Document":
        """The document whose terminal shows all that its paper does."""
        sections = [
            replace(section, blocks=[_surfaced(block) for block in section.linear(PAPER)])
            for section in self.sections
        ]
        return replace(self, sections=sections)

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained page; written to `path` if that is given."""
        text = self.render("html")
        if path is not None:
            Path(path).write_text(text, encoding="utf-8", newline="")
        return text

    def to_markdown(self) -> str:
        """GitHub-flavoured Markdown."""
        return self.render("md")

    def to_latex(self) -> str:
        r"""LaTeX, to be included by \\input; its head says which packages it needs."""
        return self.render("latex")

    def to_text(self, width: int = 100) -> str:
        """For a terminal of so many columns."""
        return self.render("table", width)

    def to_dict(self) -> dict[str, Any]:
        """All of it unrounded, of dicts, lists, text, numbers and None only: what JSON holds."""
        return renderer("json").as_dict(self)

    def figures(self) -> dict[str, str]:
        """Every drawing by its title, as an SVG file of its own."""
        blocks = [block for section in self.sections for block in section.linear(PAGE)]
        return {
            b.svg.title: renderer("html").standalone(b.svg) for b in blocks if isinstance(b, Figure)
        }

    def files(self) -> dict[str, str]:
        """``report.json`` and every table as CSV, by file name: what lies beside a report."""
        return {name: "".join(parts) for name, parts in self.parts()}

    def parts(self) -> Iterator[tuple[str, Iterable[str]]]:
        """The same, each file made when its turn comes, and in parts: together they can be
        large.
        """
        yield "report.json", renderer("json").pieces(self)
        for name, frame in self.frames().items():
            if len(frame):
                yield f"{name}.csv", [renderer("csv").to_csv(frame)]

    def _repr_html_(self) -> str:
        """In a frame of its own, so that the notebook's style and the page's leave each other
        alone.
        """
        frame = (
            '<iframe srcdoc="{}" sandbox="allow-scripts" style="width:100%;height:80vh;border:'
            '0"></iframe>'
        )
        return frame.format(self.to_html().replace("&", "&amp;").replace('"', "&quot;"))

    def __str__(self) -> str:
        return self.to_text()


def _surfaced(block: Any) -> Any:
    """The block as a terminal shows it, with all of its points."""
    return replace(block, depth=ALWAYS, **({"most": None} if isinstance(block, Text) else {}))
