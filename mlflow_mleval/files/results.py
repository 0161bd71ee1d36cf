"""A file or table of results, read strictly: every value is a number or empty, and each problem is
named by row and column.
"""

from __future__ import annotations

import io
import math
import numbers
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pandas as pd

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.reading import check_separator, columns_shown, csv_rows, reason, unreadable
from mlflow_mleval.naming import measure_name_problem, quoted, text_problem

IDENTITY = ("dataset", "method")
#: What a column that tells repeats apart may be called.
SEEDS = ("seed", "repeat")
LONG_COLUMNS = ("measure", *IDENTITY, "value")
#: No row of results is longer; a longer one is a broken file, and the csv module has a limit of
#: this order.
MAX_LINE = 100_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_EMPTY_HINT = "Leave the cell empty for a method that did not finish."


def read_results(source: str | Path | pd.DataFrame, *, name: str | None = None) -> pd.DataFrame:
    """Results of methods on datasets as one tidy table, in the order of the source.

    Columns dataset, method, seed (only where the source has a column seed or repeat; text), fold
    (only where there are folds; Int64, missing where a value has none), measure, value (float, NaN
    where empty). An ImportFileError names the row (in a CSV file the line) and the column of what
    is malformed, and how many problems there are; `name` is what it calls the source, by default
    the file's name, or "the table".

    The source is CSV (UTF-8, commas), parquet or a DataFrame, long (columns measure, dataset,
    method, value and, where there are folds, fold, and of repeats seed or repeat) or wide (dataset,
    method, maybe fold and seed, and one column a measure). An empty value is a method that did not
    finish. In a DataFrame NaN is empty, and named index levels count as columns. Space around names
    is dropped.

    >>> read_results(pd.DataFrame({"dataset": ["d"], "method": ["a"], "f1": [0.5]}))
      dataset method measure  value
    0       d      a      f1    0.5
    """
    if isinstance(source, pd.DataFrame):
        return _tidy(_from_frame(source, name or "the table"))
    path = Path(source)
    name = name or path.name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    if content[:4] == b"PAR1" or path.suffix.lower() in (".parquet", ".pq"):
        try:
            frame = pd.read_parquet(io.BytesIO(content))
        except Exception as error:  # pyarrow raises many kinds for a damaged file
            raise ImportFileError(
                f"{name} is not a parquet file that can be read: {reason(error)}."
            ) from error
        return _tidy(_from_frame(frame, name))
    return _tidy(_from_csv(content, name))


@dataclass
class _Table:
    """Header and rows of any source; rows are labelled as a reader would find them."""

    name: str
    header: list[str]
    rows: list[tuple[str, Sequence[object]]]
    problems: list[str] = field(default_factory=list)

    def problem(self, row: str, column: str, text: str) -> None:
        self.problems.append(f"{self.name}, {row}, column {quoted(column)}: {text}")

    def stop_if_problems(self) -> None:
        if self.problems:
            more = len(self.problems) - 1
            tail = (
                f" (and {more} more problem{'s' if more > 1 else ''} in this file)" if more else ""
            )
            raise ImportFileError(self.problems[0] + tail)


def _from_csv(content: bytes, name: str) -> _Table:
    table = _Table(name, [], [])
    lines = io.StringIO(_decoded(content, name), newline="")
    for line, cells in csv_rows(_checked_lines(lines, name), 1, name):
        counted = f"{len(cells)} cells, the header has {len(table.header)}."
        if not cells:
            continue
        if not table.header:
            table.header = cells
            check_separator(cells, line, name)
        elif len(cells) < len(table.header):
            table.problem(
                f"line {line}", table.header[len(cells)], f"the row ends before it: {counted}"
            )
        elif len(cells) > len(table.header):
            more = quoted(cells[len(table.header)])
            table.problem(
                f"line {line}", table.header[-1], f"the row goes on after it with {more}: {counted}"
            )
        else:
            table.rows.append((f"line {line}", cells))
    if not table.header:
        raise ImportFileError(
            f"{name} is empty. It needs a header with the columns {', '.join(LONG_COLUMNS)}."
        )
    return table


def _decoded(content: bytes, name: str) -> str:
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        rows, byte = content[: error.start].split(b"\n"), f"byte 0x{content[error.start]:02x}"
        where = f"{name}, line {len(rows)}, column {rows[-1].count(b',') + 1}"
        raise ImportFileError(f"{where}: {byte} is not UTF-8. Save the file as UTF-8.") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ImportFileError(
            f"{name}, line {line}: holds a NUL character, so it is no text file. Save it as CSV "
            "in UTF-8."
        )
    return text


def _checked_lines(lines: io.StringIO, name: str) -> Iterator[str]:
    header: list[str] = []
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            parts = line.split(",")
            widest = max(range(len(parts)), key=lambda i: len(parts[i]))
            column = quoted(header[widest].strip()) if widest < len(header) else str(widest + 1)
            raise ImportFileError(
                f"{name}, line {number}, column {column}: the line has {len(line):,} characters, "
                f"more than any row of results ({MAX_LINE:,}). Is it a file of results?"
            )
        header = header or line.split(",")
        yield line


def _from_frame(frame: pd.DataFrame, name: str) -> _Table:
    if any(level is not None for level in frame.index.names):
        frame = frame.reset_index()
    columns = [frame.iloc[:, i].astype(object).tolist() for i in range(frame.shape[1])]
    rows: list[tuple[str, Sequence[object]]] = [
        (f"row {i}", cells) for i, cells in enumerate(zip(*columns, strict=True), 1)
    ]
    return _Table(name, [str(c).strip() for c in frame.columns], rows)


def _tidy(table: _Table) -> pd.DataFrame:
    header = table.header
    _check_header(table)
    table.stop_if_problems()
    if not table.rows:
        raise ImportFileError(f"{table.name} has a header but no rows.")
    place = {column: i for i, column in enumerate(header)}
    is_long = "measure" in place
    measures = [] if is_long else [c for c in header if c not in (*IDENTITY, *SEEDS, "fold")]
    repeated = next((c for c in SEEDS if c in place), None)
    seeds = [""] * len(table.rows) if repeated is None else _seeds(table, repeated, place[repeated])
    out: list[tuple[str, str, str, int | None, str, float]] = []
    seen: dict[tuple[str, str, str, str, int | None], str] = {}
    with_folds: dict[tuple[str, str, str, str], bool] = {}
    for (row, cells), seed in zip(table.rows, seeds, strict=True):
        dataset, method = (_text(table, row, column, cells[place[column]]) for column in IDENTITY)
        fold = _fold(table, row, cells[place["fold"]]) if "fold" in place else None
        if is_long:
            own = _text(table, row, "measure", cells[place["measure"]])
            if own and (why := measure_name_problem(own)):
                table.problem(row, "measure", f"{quoted(own)} cannot name a metric: {why}.")
        for measure, column in (
            [(own, "value")] if is_long else zip(measures, measures, strict=True)
        ):
            value = _number(table, row, column, cells[place[column]])
            cell = (dataset, method, seed, measure)
            label = (
                f"{measure} of {quoted(method)} on "
                f"{quoted(dataset)}{f' with {repeated} {quoted(seed)}' if repeated else ''}"
            )
            if (first := seen.setdefault((*cell, fold), row)) is not row:
                where = f" in fold {fold}" if fold is not None else ""
                table.problem(row, column, f"{label}{where} was given in {first} already.")
            elif with_folds.setdefault(cell, fold is not None) != (fold is not None):
                table.problem(row, "fold", f"{label} is given both with and without a fold.")
            out.append((dataset, method, seed, fold, measure, value))
    table.stop_if_problems()
    frame = pd.DataFrame(out, columns=["dataset", "method", "seed", "fold", "measure", "value"])
    frame["fold"] = frame["fold"].astype("Int64")
    frame = frame if repeated else frame.drop(columns="seed")
    return frame if frame["fold"].notna().any() else frame.drop(columns="fold")


def _check_header(table: _Table) -> None:
    header = table.header
    for i, column in enumerate(header):
        if not column:
            raise ImportFileError(
                f"{table.name}: column {i + 1} has no name. If it is the index of a pandas "
                "table, write it with index=False."
            )
    if twice := sorted({c for c in header if header.count(c) > 1}):
        raise ImportFileError(
            f"{table.name}: the column {', '.join(map(quoted, twice))} occurs twice in the header."
        )
    if {*SEEDS} <= {*header}:
        raise ImportFileError(
            f"{table.name}: both a column 'seed' and a column 'repeat' tell repeats apart. "
            "Remove one of them."
        )
    is_long = "measure" in header or "value" in header
    if missing := [c for c in (LONG_COLUMNS if is_long else IDENTITY) if c not in header]:
        raise ImportFileError(
            f"{table.name}: no column {' and no column '.join(map(repr, missing))} (it has "
            f"{columns_shown(header)}). The long form has {', '.join(LONG_COLUMNS)} and maybe "
            "fold and seed; the wide form dataset, method, maybe fold and seed, and one column a "
            "measure."
        )
    others = [
        c for c in header if c not in (*(LONG_COLUMNS if is_long else IDENTITY), *SEEDS, "fold")
    ]
    if is_long and others:
        beside = f"beside {', '.join(LONG_COLUMNS)}, fold and seed. Remove it."
        raise ImportFileError(
            f"{table.name}: unknown column {', '.join(map(quoted, others))} {beside}"
        )
    if not is_long and not others:
        raise ImportFileError(f"{table.name}: no column of a measure beside {', '.join(header)}.")
    for column in others:
        if why := measure_name_problem(column):
            table.problem("header", column, f"cannot name a metric: {why}.")


def _is_empty(cell: object) -> bool:
    return (
        not cell.strip()
        if isinstance(cell, str)
        else pd.api.types.is_scalar(cell) and bool(pd.isna(cell))
    )


def _text(table: _Table, row: str, column: str, cell: object) -> str:
    text = "" if _is_empty(cell) else str(cell).strip()
    if why := text_problem(text):
        table.problem(row, column, f"the name of the {column} {why}.")
    return text


def _seeds(table: _Table, column: str, at: int) -> list[str]:
    """The seeds of all rows as text, whole numbers alike however they are written; all are numbers,
    or none is.
    """
    found: list[str] = []
    first: dict[str, object] = {}
    for row, cells in table.rows:
        if _is_empty(cells[at]):
            hint = "Give every row one, or remove the column."
            table.problem(
                row, column, f"is empty, so that nothing tells which {column} this is. {hint}"
            )
            found.append("")
            continue
        text = _text(table, row, column, cells[at])
        is_number = _NUMBER.fullmatch(text) is not None
        first.setdefault(is_number, (row, text))
        if is_number and len(text) < 20 and float(text).is_integer():
            text = str(int(float(text))) if "." in text or "e" in text.lower() else str(int(text))
        found.append(text)
    if len(first) == 2:
        (row, text), (other, number) = first[False], first[True]
        table.problem(
            row,
            column,
            f"{quoted(text)} is no number, but {other} has {quoted(number)}. Use one kind "
            "throughout.",
        )
    return found


def _fold(table: _Table, row: str, cell: object) -> int | None:
    if _is_empty(cell):
        return None
    try:
        number = float(cell)  # type: ignore[arg-type]
        if number != int(number) or not 0 <= number < 2**31 or isinstance(cell, bool):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        table.problem(row, "fold", f"{quoted(cell)} is not a fold number (0, 1, 2 …).")
        return None
    return int(number)


def _number(table: _Table, row: str, column: str, cell: object) -> float:
    if _is_empty(cell):
        return math.nan
    value = math.nan
    is_number = isinstance(cell, numbers.Real | Decimal) and not isinstance(cell, bool)
    if is_number or (isinstance(cell, str) and _NUMBER.fullmatch(cell.strip())):
        with suppress(OverflowError):
            value = float(cell)
    if not math.isfinite(value):
        table.problem(row, column, f"{quoted(cell)} is not a finite number. {_EMPTY_HINT}")
    return value
