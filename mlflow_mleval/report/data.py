"""The data of a document, unrounded: as JSON and as CSV. NaN and infinity are null: a limit of null
is no limit. Keys may be added, never renamed."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.text import CLOSE, OPEN, csv_cell, shorten, terminal

if TYPE_CHECKING:
    from mlflow_mleval.report.document import Document

SCHEMA_VERSION = 1  #: counts changes of meaning
MOST = 2_000  #: bytes of the answer in brief
_ENDS = 12  #: characters at either end by which a name is found where it may be cut
#: What an assistant reads and nobody sees: selectors, of which any number hides in a name, and
#: letters that have no shape.
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_UNSEEN = re.compile("[\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]|[\u200c\u200d]{2,}")
_UNSAFE = (
    "[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufff0-\uffff]"
)


def as_json(document: Document, width: int = 100) -> str:
    """The data as text, in which letters of all scripts are readable; `width` changes nothing."""
    return "".join(pieces(document))


def brief(document: Document, width: int = 100) -> str:
    """The answer as JSON of less than `MOST` bytes: names are cut in the middle, lists and
    sentences at their end; `width` changes nothing."""
    made = document.brief

    def cut(text: str, names: int) -> str:
        shown = re.sub(f"{OPEN}(.*?){CLOSE}", lambda hit: _quoted(shorten(hit[1], names)), text)
        room = 4 * names + 100
        return shown if len(shown) <= room else f"{shown[:room]}…"

    certain = made.certain() or {}
    for names, items in ((200, 10), (60, 10), (40, 5), (24, 3), (12, 2), (6, 1)):
        shown = {
            key: shorten(value, names) if isinstance(value, str) else value
            for key, value in certain.items()
        }
        first = in_quotes(cut(made.doubts[0], names), made.names) if made.doubts else None
        record = {
            "schema_version": SCHEMA_VERSION,
            "decision": cut(made.decision, names),
            "methods": made.methods or None,
            "best_set": [shorten(method, names) for method in made.best_set[:items]],
            "n_best": len(made.best_set),
            "order": [shorten(method, names) for method in made.order[:items]],
            "most_certain": shown or None,
            "doubts": len(made.doubts),
            "first_doubt": first,
            # what is cut does not run
            "command": made.command if len(made.command) < 4 * names else None,
            "address": made.address if 0 < len(made.address) < 4 * names else None,
        }
        text = to_json(plain(record))
        if len(text.encode()) < MOST:
            break
    return text


def _quoted(name: str) -> str:
    """A stranger's name in a sentence that a program may read as one: no name ends its quotes."""
    return f"“{re.sub('[“”]', chr(39), cleaned(name))}”"


def cleaned(text: str) -> str:
    """A text with nothing in it that is read and not seen: besides what `terminal` replaces, also
    letters without a shape, selectors of variants, and joiners in a row."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", _SELECTORS.sub("", terminal(text)))


def in_quotes(text: str, names: Iterable[str]) -> str:
    """A text without marks, cleaned; whole in quotes if it holds a name that could pass for words:
    with blanks, or with three words between other signs, and no known measure."""
    from mlflow_mleval.measures.registry import MEASURES

    text = cleaned(text)
    shown = [cleaned(name) for name in names if name not in MEASURES]
    phrases = [name for name in shown if re.search("[\\s\N{REPLACEMENT CHARACTER}␀-␡]", name)]
    phrases += [name for name in shown if len(re.findall(r"[^\W\d_]{2,}", name)) > 2]
    holds = any(name[:_ENDS] in text or name[-_ENDS:] in text for name in phrases)
    return _quoted(text) if holds else text


def pieces(document: Document) -> Iterator[str]:
    """The same text part by part, so that memory holds one at a time."""
    return _pieces({"schema_version": SCHEMA_VERSION, **document.data()}, 2)


def as_dict(document: Document) -> dict[str, Any]:
    """The data as dicts, lists, text, numbers and None only."""
    return plain({"schema_version": SCHEMA_VERSION, **document.data()})


def to_json(record: Any, indent: int | None = 2) -> str:
    """JSON text: a line a key at two levels, and a row of a table; without `indent` on one line."""
    return _on_a_line(record) if indent is None else "".join(_pieces(record, 2))


def _on_a_line(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return re.sub(_UNSAFE, lambda m: f"\\u{ord(m[0]):04x}", text)


def _pieces(value: Any, depth: int, indent: str = "") -> Iterator[str]:
    """What `to_json` makes of the plain value, mappings down to `depth` item by item."""
    inner = indent + "  "
    value = _as_container(value)
    if depth and isinstance(value, Mapping) and value:
        start = "{\n"
        for key, item in value.items():
            yield f"{start}{inner}{_on_a_line(str(key))}: "
            yield from _pieces(item, depth - 1, inner)
            start = ",\n"
        yield f"\n{indent}}}"
        return
    value = plain(value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        rows = f",\n{inner}".join(map(_on_a_line, value))
        yield f"[\n{inner}{rows}\n{indent}]"
    else:
        yield _on_a_line(value)


def plain(value: Any) -> Any:
    """The value with tables, results and numpy numbers as plain data; NaN and infinity as None."""
    if isinstance(value, str):
        return doc.plain(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, pd.DataFrame):
        return _plain_rows(value)
    value = _as_container(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return [plain(item) for item in value]
    return None if value is pd.NaT or value is pd.NA else str(value)


def _plain_rows(frame: pd.DataFrame) -> list[doc.Data]:
    """A dict a row; numbers are taken by whole columns, for tables can be long."""
    columns: dict[str, list[Any]] = {}
    for key, column in frame.items():
        values = column.tolist()
        if column.dtype.kind == "f":
            values = [x if math.isfinite(x) else None for x in values]
        elif column.dtype.kind not in "biu":
            values = [*map(plain, column)]
        columns[str(key)] = values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _as_container(value: Any) -> Any:
    """Series and results by key, what is made when it is asked for; all else as it is."""
    if isinstance(value, pd.Series):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.metadata.get("key", f.name): getattr(value, f.name) for f in fields(value)}
    return value() if callable(value) else value


def as_csv(document: Document, width: int = 100) -> str:
    """The main table as CSV; the others lie beside a report, and `width` changes nothing."""
    return to_csv(document.frames()[document.main])


def to_csv(frame: pd.DataFrame) -> str:
    """A frame as CSV (RFC 4180: commas, CRLF, quotes doubled), numbers as they are."""
    heads, columns = [], []
    for head, column in frame.items():
        heads.append(csv_cell(str(head)))
        if column.dtype.kind in "fiu":
            columns.append([None if x != x else x for x in column.tolist()])
            continue
        values = column.astype(object).where(column.notna(), None)
        texts = {x: csv_cell(x) for x in {x for x in values if isinstance(x, str)}}
        columns.append([texts[x] if isinstance(x, str) else csv_cell(x) for x in values])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(heads)
    writer.writerows(zip(*columns, strict=True))
    return out.getvalue()
