"""A document as a self-contained HTML page: nothing fetched, no navigation, names as text."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mlflow_mleval.package import __version__
from mlflow_mleval.report.blocks import PAGE, Column, Link, Section, Sliders, Table, plain
from mlflow_mleval.report.figures import Svg
from mlflow_mleval.report.text import CLOSE, OPEN, shortened, terminal
from mlflow_mleval.validation import present

if TYPE_CHECKING:
    from mlflow_mleval.report.document import Document

ROOM = 24  #: characters of a name above a plot
#: Text that is the same in HTML, as nearly all cells of tables are.
_BARE = re.compile(r"[\w .,:;()%+/-]*", re.ASCII)
#: What cells are called that are aligned so.
_CLASSES = {"<": "left", "^": "centre", "wrap": "wrap", ">": ""}
_MARKED = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")


def render(document: Document, width: int = 100) -> str:
    """The sections under a title and a line about them; made for sandboxed frames, too."""
    blocks = (block for section in document.sections for block in section.linear(PAGE))
    weighed = any(isinstance(block, Sliders) for block in blocks)
    scripts = ["report.js", "question.js", *(["weights.js"] if weighed else [])]
    script = Markup("").join(map(template_text, scripts))
    digest = base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode()
    maker = f"mlflow-mleval {__version__}"
    page = _templates().get_template("page.html.j2")
    return page.render(
        document=document,
        footer=" · ".join(filter(None, [maker, document.time])),
        generator=maker,
        style=template_text("report.css"),
        script=script,
        script_hash=f"sha256-{digest}",
    )


def fragment(section: Section) -> str:
    """What a section holds, without its heading, for a page that brings the style sheet itself."""
    return _templates().get_template("fragment.html.j2").render(section=section)


def standalone(svg: Svg) -> str:
    """A drawing as a file of its own, with the colours of the page by day and by night."""
    css = template_text("report.css")
    colours = css[: css.index("*{")]
    drawing = css.split("\n\n")[1]
    style = (
        f"<style>{colours}{drawing}\nsvg{{background:var(--bg);font-family:system-ui,"
        f"sans-serif}}</style>"
    )
    head, mark, rest = str(svg.__html__()).partition(">")
    return f"{head}{mark}{style}{rest}"


@cache
def template_text(name: str) -> Markup:
    """A file beside the templates, such as the style sheet, as it is."""
    environment = _templates()
    return Markup(present(environment.loader).get_source(environment, name)[0])


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("mlflow_mleval.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_visible,
    )
    made.globals |= {
        "marks": _marks,
        "rows": _rows,
        "name": _name,
        "kind": lambda block: type(block).__name__.lower(),
        "align": _aligned,
    }
    made.filters |= {"plain": plain, "shown": terminal, "cut": partial(shortened, width=ROOM)}
    # data for scripts, which nothing in them can end
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def _visible(value: Any) -> Any:
    """What a template prints: markup of our own; all else as text, its names marked."""
    if hasattr(value, "__html__"):
        return value
    if _BARE.fullmatch(text := str(value)):
        return Markup(text)
    pieces = _MARKED.split(text.replace(" = ", "\u00a0=\u00a0"))
    return Markup("").join(
        _name(piece) if i % 2 else escape(terminal(piece)) for i, piece in enumerate(pieces)
    )


def _name(shown: str, whole: str = "", marks: Mapping[str, str] = MappingProxyType({})) -> Markup:
    """A name that never wraps, the whole of it in a tooltip where it is cut."""
    tip = f' title="{escape(whole)}"' if whole and whole != shown else ""
    return Markup(f'<bdi class="name"{tip}{_marks(marks)}>{escape(shown)}</bdi>')


def _aligned(column: Column) -> Markup:
    """The class of the cells of a column, which nothing in it can name."""
    said = " ".join(filter(None, (_CLASSES[column.align], "wide" if column.wide else "")))
    return Markup(' class="{}"').format(said) if said else Markup("")


def _rows(table: Table, folds: bool) -> Markup:
    """The rows of a table; Jinja would take each cell through several calls."""
    named = {column.name: column.cells for column in reversed(table.columns)}
    methods = named.get("method", [""] * table.held)
    columns: list[list[str]] = []
    for at, column in enumerate(table.columns):
        opening, end = ("<td", "</td>") if at else ('<th scope="row"', "</th>")
        opening = f"{opening}{_aligned(column)}"
        tones = [f' data-tone="{round(9 * tone)}"' for tone in column.tones] or [""] * table.held
        texts = []
        for value, tone, method in zip(column.cells, tones, methods, strict=True):
            cell = _cell(value, column, method)
            # most are a few plain characters, which need no look at each
            bare = type(cell) is str and _BARE.fullmatch(cell)
            texts.append(f"{opening}{tone}>{cell if bare else escape(_visible(cell))}{end}")
        columns.append(texts)
    found: list[str] = []
    for i, cells in enumerate(zip(*columns, strict=True)):
        marks = {
            "first": table.first and not i,
            "shaded": i in table.shaded,
            "more": folds and i >= present(table.shown),
        }
        said = " ".join(mark for mark, holds in marks.items() if holds)
        found += [f'<tr class="{said}">' if said else "<tr>", *cells, "</tr>\n"]
    return Markup("".join(found))


def _cell(value: Any, column: Column, method: object = "") -> Any:
    """A cell of a table: a drawing, a link, a name cut to fit, or text. A name says of which method
    or dataset; of a method against another, also of which other, the `method` in its row."""
    if isinstance(value, Link) and value.address:
        return Markup('<a href="{}">{}</a>').format(value.address, _visible(str(value)))
    if isinstance(value, Svg) or not column.name:
        return value
    whole = terminal(plain(str(value)))
    marks = {}
    if whole and column.name in ("method", "dataset", "against"):
        marks = {**column.about, column.name: whole}
    if column.name == "against" and method:
        marks["method"] = plain(str(method))
    return _name(column.short[whole], whole, marks)


def _marks(marks: Mapping[str, str]) -> Markup:
    """Attributes that scripts find an element by."""
    texts = (f' data-{key}="{escape(terminal(text))}"' for key, text in marks.items())
    return Markup("".join(texts))
