"""A document: what results say, before it takes a form. Names of strangers are marked where a
sentence is made, so that every format may cut them; `terminal` lets no text hold these marks."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from typing import Any

import pandas as pd

from mlflow_mleval.report.figures import Svg
from mlflow_mleval.report.text import (
    ARROWS,
    CLOSE,
    NONE,
    OPEN,
    aligned,
    fixed,
    number,
    pvalue,
    shorten,
    shortened,
    terminal,
)
from mlflow_mleval.sentences import count

#: How deep a block lies: in every format, on paper (Markdown, LaTeX) and pages, on pages only.
ALWAYS = 0
PAPER = 1
PAGE = 2
NAME = 40  #: characters of a name in running text; longer ones are cut in the middle
SHOWN = 4  #: names in a row; of more, the others are counted
CELL = 28  #: characters of a name in a table of a page

#: What JSON holds of a result, and the tables of its CSV files by name; what reproduces it.
Data = dict[str, Any]
Frames = dict[str, pd.DataFrame]
Provenance = Mapping[str, Any]


def name(text: object, room: int = NAME) -> str:
    """A stranger's name, marked as such, cut in the middle where it is too long for a sentence."""
    return f"{OPEN}{shorten(terminal(text), room)}{CLOSE}"


def plain(text: str) -> str:
    """The text without marks."""
    return text.replace(OPEN, "").replace(CLOSE, "")


def listed(names: Iterable[object], most: int = SHOWN, last: str = "and") -> str:
    """Names in running text, marked; beyond `most` they are counted: "a, b, c and 3 more"."""
    texts = [*map(name, names)]
    if len(texts) > most:
        texts = [*texts[: most - 1], f"{len(texts) - most + 1} more"]
        last = "and"
    return joined(texts, last)


def named(result: Any, *attributes: str) -> Data:
    """Some attributes of a result by name."""
    return {key: getattr(result, key) for key in attributes}


def joined(parts: Sequence[str], last: str = "and") -> str:
    """Parts of a sentence in a row: "a, b and c"."""
    return "".join(parts) if len(parts) < 2 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"


#: The families of claims. A page has one that decides, at level α: where no methods differ, at most
#: a share α of pages says of any two that they do. All else is read on request, with a probability
#: beside it, or describes, without a verdict.
DECIDES = "decides"
ON_REQUEST = "on request"
DESCRIPTION = "description"


@dataclass(frozen=True)
class Claim:
    """What a reader may take for "this is so"."""

    key: str
    family: str
    rests_on: tuple[str, ...] = ()
    differ: bool = False  #: whether it says that methods differ


#: Every claim that sentences and marks are made from.
CLAIMS = {
    one.key: one
    for one in (
        Claim("use one", DECIDES, ("answer", "separated"), differ=True),
        Claim("best set", DECIDES, ("answer", "separated")),
        Claim("separated", DECIDES, ("separated", "decides"), differ=True),
        Claim("none separated", DECIDES, ("separated", "decides")),
        Claim("equivalent", ON_REQUEST, ("answer", "beyond")),
        Claim("next dataset", ON_REQUEST, ("next_dataset",)),
        Claim("folds separate", DECIDES, ("folds",), differ=True),
        Claim("folds do not separate", DECIDES, ("folds",)),
        Claim("ahead", DESCRIPTION, ("ranking", "study")),
        Claim("feasible", DESCRIPTION),
        Claim("survives", DESCRIPTION),
    )
}


def claim(key: str, *rests_on: str) -> Claim:
    """The registered claim, resting on these JSON keys, too, if any."""
    registered = CLAIMS[key]
    return replace(registered, rests_on=(*rests_on, *registered.rests_on))


@dataclass(frozen=True)
class Sentence:
    """A sentence of a verdict, or two that belong together, names marked, and what it claims."""

    text: str
    claim: Claim


def claims_in(sentences: Iterable[Sentence], alpha: float) -> list[Data]:
    """What JSON holds of sentences: each with its claim, and the family and level of that."""
    return [
        {
            "text": one.text,
            "claim": one.claim.key,
            "family": one.claim.family,
            "level": alpha if one.claim.family == DECIDES else None,
            "differ": one.claim.differ,
            "rests_on": one.claim.rests_on,
        }
        for one in sentences
    ]


@dataclass(frozen=True)
class Text:
    """Paragraphs. By `role`, lead and flow run on, the first of lead stands larger; points are a
    list; pre is to be copied."""

    paragraphs: Sequence[str]
    role: str = ""  #: "", "lead", "flow", "note", "points" or "pre"
    title: str = ""
    depth: int = PAPER
    most: int | None = None  #: so many points stand on a terminal; the others are counted

    @property
    def running(self) -> Sequence[str]:
        """The paragraphs, those that run on as one."""
        return [" ".join(self.paragraphs)] if self.role in ("lead", "flow") else self.paragraphs

    @property
    def plain(self) -> str:
        """The paragraphs without marks, as one."""
        return plain(" ".join(self.paragraphs))


def note(text: str, depth: int = PAGE) -> Text:
    """A paragraph in small type."""
    return Text([text], "note", depth=depth)


def points(texts: Iterable[str], title: str = "", **more: Any) -> list[Text]:
    """A list of points; nothing where there are none."""
    points = list(texts)
    return [Text(points, "points", title, **more)] if points else []


class Link(str):
    """A text in a cell that leads to an address on a page, if it has one."""

    address: str = ""

    @classmethod
    def to(cls, text: str, address: str) -> "Link":
        """The text, and where it leads."""
        link = cls(text)
        link.address = address
        return link


@dataclass(frozen=True)
class Column:
    head: Any  #: a text, not escaped; above drawings also a drawing
    cells: Sequence[Any]  #: texts, not escaped, or drawings, which stand on pages only
    align: str = ">"  #: ">", "<", "^" or "wrap"
    keep: int = 0  #: where room lacks, the columns with the least go first; those with 0 stay
    name: str = ""  #: what cells name, such as "method", where they are names of strangers
    note: str = ""  #: what the column means; stands below the table as well
    #: what scripts and styles of a page find it by: data-* of its head
    marks: Mapping[str, str] = field(default_factory=dict)
    #: what its names stand beside: data-* of each of them
    about: Mapping[str, str] = field(default_factory=dict)
    paper: bool = False  #: on paper and terminals only
    wide: bool = False  #: of pages, on those that are not narrow
    tones: Sequence[float] = ()  #: how strongly a page shades each cell, from 0 to 1

    @cached_property
    def short(self) -> Mapping[str, str]:
        """Its names as a page shows them, cut so that they still differ."""
        return shortened((terminal(plain(str(cell))) for cell in self.cells), CELL)


def names(head: str, cells: Iterable[object], of: str = "", **more: Any) -> Column:
    """A column of strangers' names; `of` says what they name where the head does not."""
    return Column(head, [*map(str, cells)], "<", name=of or head, **more)


def pair(frame: pd.DataFrame) -> list[Column]:
    """Two columns that name the methods of each pair."""
    return [names("method", frame["method_a"]), names("against", frame["method_b"])]


def decimals(head: str, values: Iterable[float], places: int, **more: Any) -> Column:
    return Column(head, [fixed(x, places) for x in values], **more)


def numbers(head: str, values: Iterable[float | None], **more: Any) -> Column:
    """A column of numbers, each with the digits that it has."""
    return Column(head, [*map(number, values)], **more)


def counts(head: str, values: Iterable[float], **more: Any) -> Column:
    return Column(head, [f"{n:,.0f}" for n in values], **more)


def alike(head: str, values: Iterable[float | None], digits: int = 4, **more: Any) -> Column:
    """A column of numbers with the same number of decimals."""
    return Column(head, aligned(values, digits), **more)


def intervals(head: str, values: pd.DataFrame, by_row: bool = False, **more: Any) -> Column:
    """A column of numbers with their intervals, "0.250 [0.100, 0.400]": of three columns, value,
    low and high, with the same number of decimals; `by_row` each has those of its own size."""
    rows, cells = values.to_numpy(float), []
    for group in rows if by_row else [rows.ravel()]:
        texts = iter(aligned(group.tolist(), 3))
        cells += [
            value if value.strip() == NONE else f"{value} [{low}, {high}]"
            for value, low, high in zip(texts, texts, texts, strict=True)
        ]
    return Column(head, cells, **more)


def won_tied_lost(pairs: pd.DataFrame, **more: Any) -> Column:
    """How often the first of each pair is better, equal and worse, where it was counted."""
    counts = pairs[["wins", "ties", "losses"]].to_numpy(float)
    cells = ["/".join("" if n != n else f"{n:,.0f}" for n in row) for row in counts]
    return Column("won/tied/lost", cells, **more)


def heading(directions: Mapping[str, str], measure: str, room: int = NAME) -> str:
    """A measure, and which way it is better."""
    return f"{name(measure, room)} {ARROWS[directions[measure]]}"


def by_measure(
    values: pd.DataFrame, directions: Mapping[str, str], room: int = NAME
) -> list[Column]:
    """A column a measure; where room lacks the last go first."""
    keeps = range(len(values.columns), 0, -1)
    shown = zip(values, keeps, strict=True)
    return [alike(heading(directions, m, room), values[m], keep=keep) for m, keep in shown]


def better(directions: Iterable[str]) -> Column:
    """A column of arrows: which way is better."""
    return Column("better", [ARROWS[direction] for direction in directions], "^")


def pvalues(head: str, values: Iterable[float | None], **more: Any) -> Column:
    return Column(head, [pvalue(p, bare=True) for p in values], **more)


@dataclass(frozen=True)
class Table:
    """A table; its first column names the rows."""

    columns: Sequence[Column]
    total: int | None = None  #: how many rows there are; the table holds the first of them
    title: str = ""
    key: str = ""  #: what LaTeX calls it: ``tab:mleval-KEY``
    things: str = "rows"  #: what a row is
    note: str = ""  #: beside what the columns say
    folded: bool = False  #: on a page, behind a line to click
    first: bool = False  #: on a page, the first row is stressed
    shaded: Collection[int] = ()  #: rows that a page shades
    shown: int | None = None  #: so many rows a page shows at once; a click brings the others
    depth: int = PAPER
    most: int = 20  #: so many rows stand on a terminal

    @property
    def held(self) -> int:
        """How many rows it holds."""
        return len(self.columns[0].cells)

    @property
    def hidden(self) -> int:
        """How many rows are not held."""
        return 0 if self.total is None else self.total - self.held

    def in_words(self, most: int) -> "Table":
        """The first rows without drawings, for formats that have none."""
        shown = [c for c in self.columns if not any(isinstance(cell, Svg) for cell in c.cells)]
        total = self.held if self.total is None else self.total
        return replace(self, columns=[replace(c, cells=c.cells[:most]) for c in shown], total=total)

    @property
    def notes(self) -> str:
        """What the columns mean, each once, and what else there is to say."""
        return " ".join(filter(None, dict.fromkeys([*(c.note for c in self.columns), self.note])))

    @property
    def on_page(self) -> "Table":
        """The table without the columns that are for papers only."""
        return replace(self, columns=[c for c in self.columns if not c.paper])


@dataclass(frozen=True)
class Figure:
    """A drawing, and the sentences under it."""

    svg: Svg
    caption: str = ""
    title: str = ""
    depth: int = PAGE
    tikz: str = ""  #: the same for a paper: a picture in TikZ


@dataclass(frozen=True)
class Sliders:
    """Weights that a reader may move, on pages only: a script ranks anew from `data`."""

    about: str
    #: of each slider the measure, the arrow that says which way is better, and its first step
    rows: Sequence[Mapping[str, Any]]
    steps: int  #: how many each slider has
    data: Mapping[str, Any]
    depth: int = PAGE


@dataclass(frozen=True)
class Asked(Text):
    """The question about a pair: a page shows its verdict, which a reader may weigh against a
    margin; elsewhere it is its text, the verdict in the first paragraph."""

    #: its word (YES, NO, TOO CLOSE), a sentence (`text`), what would settle it (`needed`), the
    #: `command` that then looks again, and the `rows` of its forest plot
    said: Mapping[str, Any] = field(default_factory=dict)
    pair: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Terms:
    """Terms and what they say."""

    rows: Sequence[tuple[str, str]]
    title: str = ""
    depth: int = PAGE


@dataclass(frozen=True)
class Beside:
    """Blocks that stand beside each other on a wide page, below each other elsewhere."""

    left: Sequence[Any]
    right: Sequence[Any]


class Late(Sequence[Any]):
    """Blocks that are made when somebody first looks at them: a page shows the heading before, and
    a terminal need not make those of which none lies above `depth`."""

    def __init__(self, make: Callable[[], Sequence[Any]], depth: int = PAPER) -> None:
        self._make, self.depth = make, depth

    @cached_property
    def _blocks(self) -> Sequence[Any]:
        return self._make()

    def __getitem__(self, at: Any) -> Any:
        return self._blocks[at]

    def __len__(self) -> int:
        return len(self._blocks)


@dataclass(frozen=True)
class Section:
    """A part of a document that folds on a page."""

    key: str
    title: str
    blocks: Sequence[Any]
    hint: str = ""  #: beside the title while it is closed
    open: bool | None = None  #: whether a page shows what it holds; else the first four do
    evidence: bool = False  #: on a page, in the fold "Evidence" below all others
    depth: int = ALWAYS  #: how deep a terminal shows it

    def linear(self, depth: int, tikz: bool = False) -> Iterator[Any]:
        """The blocks down to this depth, one below the other; deeper figures stay in TikZ."""
        least = self.blocks.depth if isinstance(self.blocks, Late) else ALWAYS
        pending = list(self.blocks)[::-1] if least <= depth else []
        while pending:
            block = pending.pop()
            if isinstance(block, Beside):
                pending += [*block.left, *block.right][::-1]
            elif block.depth <= depth or (tikz and getattr(block, "tikz", "")):
                yield block


# --------------------------------------------------------------------------------------------------
# What reports of any kind say: what reproduces them, conventions, doubts, imputed values.


def made_from(provenance: Provenance) -> Section:
    """What reproduces a document, in a line."""
    runs, experiments, uri = map(provenance.get, ("run_ids", "experiments", "tracking_uri"))
    selected = count(len(runs), "run") if runs else ""
    if runs and experiments:
        selected += f" of {listed(experiments)}"
    told = {key: provenance[key] for key in ("filter", "policy", "seed") if key in provenance}
    version = (provenance.get("versions") or {}).get("mlflow-mleval")
    command = provenance.get("command")
    parts = [
        " ".join(filter(None, [selected, f"in {uri}" if uri else ""])),
        provenance.get("results"),
        *(f"{key} {value}" for key, value in told.items() if value not in (None, "")),
        f"mlflow-mleval {version}" if version else "",
        provenance.get("time"),
        f"command: {command}" if command else "",
    ]
    line = "; ".join(map(str, filter(None, parts)))
    return Section("provenance", "Made from", [note(line, ALWAYS)] if line else [])


def conventions(runs: pd.DataFrame) -> str:
    """Under which conventions so many runs were computed."""
    found = runs.get("conventions", pd.Series(dtype=str)).value_counts()
    return ", ".join(f"{each} ({n})" for each, n in found.items()) or "none"


def doubts(texts: Sequence[str], most: int | None = None) -> list[Section]:
    """The section of any document that holds its doubts, if there are any: on a page a line with
    their number and the first, the others a click away."""
    title = count(len(texts), "doubt")
    held = points(texts, depth=ALWAYS, most=most)
    return [Section("doubts", title, held, hint=texts[0], open=False)] if texts else []


#: What a star beside a value, or beside a rank that comes from it, means.
IMPUTED = "* no result: the dataset's worst value stands for it."


def starred(head: str, texts: Iterable[str], imputed: Sequence[bool], **more: Any) -> Column:
    """A column of values as they are shown, those that a policy supplied with a star."""
    cells = [f"{text}*" if star else text for text, star in zip(texts, imputed, strict=True)]
    return Column(head, cells, note=IMPUTED if any(imputed) else "", **more)


def capitalised(text: str, names: Iterable[str] = ()) -> str:
    """The text with a capital, unless it begins with one of the names, which stay as they are."""
    if text.startswith(tuple(f"{name} " for name in names)):
        return text
    return text[:1].upper() + text[1:]


# --------------------------------------------------------------------------------------------------
# What stands in ``glossary.md``: words of the reports, keys of JSON data, columns of CSV files.

_TEXT = (files("mlflow_mleval.report") / "glossary.md").read_text("utf-8")
#: (topic, word, explanation), each a heading and the paragraph under it.
_ENTRIES = re.findall(r"^## (.+?): (.+)\n\n((?:[^#\n].*\n)+)", _TEXT, re.M)


def glossary(topic: str) -> dict[str, str]:
    """The words of a topic and what they mean; callers fill in what stands in braces."""
    return {word: " ".join(text.split()) for of, word, text in _ENTRIES if of == topic}
