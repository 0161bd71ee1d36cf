"""A document: sections of blocks that say what results say, and the formats that it can take."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from mlflow_mleval.package import imported
from mlflow_mleval.report import render
from mlflow_mleval.report.blocks import (
    PAGE,
    PAPER,
    Figure,
    Provenance,
    Section,
    Text,
    made_from,
    name,
)
from mlflow_mleval.report.text import number, pvalue

OPEN = 4  #: sections of a page that are open where these do not say it themselves


@dataclass(frozen=True)
class Brief:
    """The answer in a few words, for a message or for a program; names in texts are marked."""

    decision: str
    best_set: Sequence[str] = ()  #: methods that no difference puts below another
    order: Sequence[str] = ()  #: the methods, best first; empty where they have no order
    methods: int = 0
    #: makes a row of the pair told apart most surely
    certain: Callable[[], Mapping[str, Any] | None] = lambda: None
    doubts: Sequence[str] = ()
    names: Sequence[str] = ()  #: strangers' names that doubts may hold, which nobody marked there
    doubt: str = ""  #: the one to tell beside the decision, if that does not tell it
    command: str = ""
    address: str = ""

    @property
    def paragraph(self) -> str:
        """All of it that a reader of a message needs, with the most certain difference."""
        certain = ""
        if (one := self.certain()) is not None:
            better, worse = name(one["better"]), name(one["worse"])
            on = f" on {name(one['dataset'])}" if one["dataset"] else ""
            of = f"in {one['measure']}{on} ({pvalue(one['pvalue'])})"
            if one["difference"] is None:
                verb = "differ" if one["separated"] else "do not certainly differ"
                certain = f"{better} and {worse} {verb} {of}."
            else:
                size = f"by {number(one['difference'], 2)}"
                if one["low"] is not None and one["high"] is not None:
                    size += f" [{number(one['low'], 2)}, {number(one['high'], 2)}]"
                no = "No difference is certain; nearest to it is"
                how = "Most certain is" if one["separated"] else no
                certain = f"{how} {better} over {worse}, {size} {of}."
        where = self.address or (f"({self.command})" if self.command else "")
        return " ".join(filter(None, [self.decision, certain, self.doubt, where]))


@dataclass(frozen=True)
class Document:
    """What results say, in sections and as plain data and tables; a notebook shows it."""

    title: str
    sections: Sequence[Section]  #: in the order of reading; the first is the answer
    about: str = ""  #: how it came about, in a line
    time: str = ""
    #: makes what JSON holds: dicts, tables and result objects; unrounded
    data: Callable[[], Mapping[str, Any]] = dict
    #: makes the tables that CSV files hold, by name, unrounded
    frames: Callable[[], Mapping[str, pd.DataFrame]] = dict
    main: str = ""  #: the one of them that is written where one CSV file is asked for
    shortened: Callable[[], Brief] | None = None  #: makes the answer in a few words
    pair: Sequence[str] = ()  #: the methods of which it asks which is better

    @classmethod
    def of(
        cls, provenance: Provenance, title: str, sections: Sequence[Section], **parts: Any
    ) -> "Document":
        """The document with what reproduces it as its last section, where something does."""
        made = made_from(provenance)
        time = str(provenance.get("time") or "").replace("T", " ", 1).replace("+00:00", " UTC")
        return cls(title, [*sections, *([made] if made.blocks else [])], time=time, **parts)

    @property
    def opened(self) -> list[str]:
        """Keys of the sections that a page shows open."""
        return [
            section.key
            for i, section in enumerate(self.sections)
            if (i < OPEN if section.open is None else section.open)
        ]

    def render(self, format: str, width: int = 100) -> str:
        """The document in one of `FORMATS`; `width` is that of a terminal in columns."""
        return render(self, format, width)

    @property
    def brief(self) -> Brief:
        """The answer in a few words; where none was made, what the first section says."""
        if self.shortened is not None:
            return self.shortened()
        texts = [block for block in self.sections[0].linear(PAGE) if isinstance(block, Text)]
        return Brief(" ".join(texts[0].paragraphs) if texts else f"{self.title}.")

    @property
    def text(self) -> str:
        """The answer as a paragraph to paste into a message; empty where none was made."""
        return self.render("text") if self.shortened else ""

    @property
    def in_full(self) -> "Document":
        """The document whose terminal shows all that its paper does, with all points of lists."""
        sections = []
        for section in self.sections:
            blocks = section.linear(PAPER)
            shown = [replace(b, most=None) if isinstance(b, Text) else b for b in blocks]
            sections.append(replace(section, blocks=shown, depth=PAPER))
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
        made: dict[str, Any] = imported("report.data", "as_dict")(self)
        return made

    def figures(self) -> dict[str, str]:
        """Every drawing by its title, as an SVG file of its own."""
        standalone = imported("report.html", "standalone")
        blocks = [block for section in self.sections for block in section.linear(PAGE)]
        return {b.svg.title: standalone(b.svg) for b in blocks if isinstance(b, Figure)}

    def files(self) -> dict[str, str]:
        """``report.json`` and every table as CSV, by file name: what lies beside a report."""
        return {name: "".join(make()) for name, make in self.parts().items()}

    def parts(self) -> dict[str, Callable[[], Iterable[str]]]:
        """The same, each file made when it is called, and in pieces: together they can be large."""
        to_csv, pieces = (imported("report.data", name) for name in ("to_csv", "pieces"))
        tables = {f"{name}.csv": frame for name, frame in self.frames().items() if len(frame)}
        made = {name: partial(map, to_csv, [frame]) for name, frame in tables.items()}
        return {"report.json": partial(pieces, self), **made}

    def _repr_html_(self) -> str:
        """In a frame, so that the notebook's style and the page's leave each other alone."""
        frame = (
            '<iframe srcdoc="{}" sandbox="allow-scripts" style="width:100%;height:80vh;border:'
            '0"></iframe>'
        )
        return frame.format(self.to_html().replace("&", "&amp;").replace('"', "&quot;"))

    def __str__(self) -> str:
        return self.to_text()
