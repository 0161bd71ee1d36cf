"""Files of results, read strictly: tables of values, a result an answer, logs of other tools; what
is broken is named by its line.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import json
import math
import numbers
import re
import struct
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mlflow_mleval.analysis.answer_comparison import PASS, Answers
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.sentences import measure_name_problem, quoted, some, text_problem
from mlflow_mleval.validation import in_pandas

# --------------------------------------------------------------------------------------------------
# What the readers of files share: what they give, the rows of CSV, and how errors show what is in a
# file.


def csv_rows(lines: Iterable[str], line: int, name: str) -> Iterator[tuple[int, list[str]]]:
    """Line and stripped cells of each row, the first in this line; an empty line has no cells."""
    reader = csv.reader(lines, strict=True)
    while True:
        at = line + reader.line_num
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            reason = (
                "a quote is opened and never closed" if "end of data" in str(error) else str(error)
            )
            raise ImportFileError(f"{name}, line {at}: {reason}.") from error
        yield at, cells if any(cells) or len(cells) > 1 else []


def check_separator(header: Sequence[str], line: int, name: str) -> None:
    """Raise where another separator than the comma seems to stand in the header."""
    if len(header) == 1 and (other := next((c for c in ";\t|" if c in header[0]), None)):
        raise ImportFileError(
            f"{name}, line {line}: the separator seems to be {other!r}. Separate columns by commas."
        )


def unreadable(path: str | Path, error: OSError) -> ImportFileError:
    """The error of a file that the system does not let us read."""
    return ImportFileError(f"cannot read {str(path)!r}: {error.strerror or error}.")


def reason(error: Exception) -> str:
    """The text of an error of a library, short enough to be part of a sentence."""
    return " ".join(str(error).split())[:200].rstrip(".")


def columns_shown(header: Sequence[str]) -> str:
    """The first columns of a table that lacks others."""
    return ", ".join(map(quoted, header[:8])) + (" …" if len(header) > 8 else "")


# --------------------------------------------------------------------------------------------------
# A file or table of results, read strictly: every value is a number or empty, and each problem is
# named by row and column.

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
    method, value and, where there are folds, fold, and of repeats seed or repeat), wide (dataset,
    method, maybe fold and seed, and one column a measure) or a leaderboard (rows methods, columns
    datasets; its one measure is called `value`). An empty value is a method that did not finish. In
    a DataFrame NaN is empty, and named index levels count as columns. Space around names is
    dropped.

    >>> read_results(pd.DataFrame({"dataset": ["d"], "method": ["a"], "f1": [0.5]}))
      dataset method measure  value
    0       d      a      f1    0.5
    >>> read_results(pd.DataFrame({"wine": [0.5]}, index=["a"]))
      dataset method measure  value
    0    wine      a   value    0.5
    """
    return tidy(read_cells(source, name=name))


def read_cells(source: str | Path | pd.DataFrame, *, name: str | None = None) -> Cells:
    """Header and rows of a table as they stand there; of a file, ImportFileError where it cannot be
    read.
    """
    source = in_pandas(source)
    if isinstance(source, pd.DataFrame):
        return _from_frame(source, name or "the table")
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
        return _from_frame(frame, name)
    return _from_csv(content, name)


@dataclass
class Cells:
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


def _from_csv(content: bytes, name: str) -> Cells:
    table = Cells(name, [], [])
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
        rows = content[: error.start].split(b"\n")
        byte = f"byte 0x{content[error.start]:02x}"
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


def _from_frame(frame: pd.DataFrame, name: str) -> Cells:
    named = any(level is not None for level in frame.index.names)
    if "method" not in frame and not named and frame.index.inferred_type == "string":
        frame = frame.rename_axis("method")
        named = True
    if named:
        frame = frame.reset_index()
    columns = [frame.iloc[:, i].astype(object).tolist() for i in range(frame.shape[1])]
    rows: list[tuple[str, Sequence[object]]] = [
        (f"row {i}", cells) for i, cells in enumerate(zip(*columns, strict=True), 1)
    ]
    return Cells(name, [str(c).strip() for c in frame.columns], rows)


def tidy(table: Cells) -> pd.DataFrame:
    """The results of a table, as `read_results` gives them."""
    header = table.header
    _check_header(table)
    table.stop_if_problems()
    if not table.rows:
        raise ImportFileError(f"{table.name} has a header but no rows.")
    repeated = next((c for c in SEEDS if c in header), None)
    values = list(_given_once(table, _values(table, repeated), repeated))
    table.stop_if_problems()
    columns = ["dataset", "method", "seed", "fold", "measure", "value"]
    frame = pd.DataFrame([one.cells for one in values], columns=columns)
    frame["fold"] = frame["fold"].astype("Int64")
    frame = frame if repeated else frame.drop(columns="seed")
    return frame if frame["fold"].notna().any() else frame.drop(columns="fold")


@dataclass(frozen=True)
class _Value:
    """A value of a table, and where it stands."""

    row: str
    column: str
    cells: tuple[str, str, str, int | None, str, float]


def _values(table: Cells, repeated: str | None) -> Iterator[_Value]:
    """Each value with what it is of: one a row of a long table, one a measure of a wide one."""
    place = {column: i for i, column in enumerate(table.header)}
    if is_leaderboard(table):
        yield from _of_leaderboard(table)
        return
    is_long = "measure" in place
    beside = (*IDENTITY, *SEEDS, "fold")
    pairs = [] if is_long else [(column, column) for column in table.header if column not in beside]
    seeds = [""] * len(table.rows) if repeated is None else _seeds(table, repeated, place[repeated])
    for (row, cells), seed in zip(table.rows, seeds, strict=True):
        dataset, method = (_text(table, row, column, cells[place[column]]) for column in IDENTITY)
        fold = _fold(table, row, cells[place["fold"]]) if "fold" in place else None
        if is_long:
            own = _text(table, row, "measure", cells[place["measure"]])
            if own and (why := measure_name_problem(own)):
                table.problem(row, "measure", f"{quoted(own)} cannot name a metric: {why}.")
            pairs = [(own, "value")]
        for measure, column in pairs:
            value = _number(table, row, column, cells[place[column]])
            yield _Value(row, column, (dataset, method, seed, fold, measure, value))


def is_leaderboard(table: Cells) -> bool:
    """Whether the rows are methods and the columns datasets: no column says what a value is of, and
    all but the one of the methods hold numbers.
    """
    told = {"dataset", *SEEDS, "fold", INSTANCE, "measure", "value", *MEASURES}
    at = _methods_at(table)
    others = [i for i, _ in enumerate(table.header) if i != at]
    if not others or not told.isdisjoint(table.header):
        return False
    if "method" not in table.header and all(_is_number(row[at]) for _, row in table.rows):
        return False
    cells = [row[i] for _, row in table.rows for i in others if not _is_empty(row[i])]
    return 2 * sum(map(_is_number, cells)) > len(cells)


def _methods_at(table: Cells) -> int:
    """Where a leaderboard names its methods: the column method, else the first."""
    return table.header.index("method") if "method" in table.header else 0


def _of_leaderboard(table: Cells) -> Iterator[_Value]:
    at = _methods_at(table)
    for row, cells in table.rows:
        method = _text(table, row, table.header[at] or "method", cells[at])
        for i, dataset in enumerate(table.header):
            if i != at:
                value = _number(table, row, dataset, cells[i])
                yield _Value(row, dataset, (dataset, method, "", None, "value", value))


def _given_once(table: Cells, values: Iterator[_Value], repeated: str | None) -> Iterator[_Value]:
    """The values; noted is what is given twice, or both with and without folds."""
    seen: dict[tuple[str, str, str, int | None, str], str] = {}
    with_folds: dict[tuple[str, str, str, str], bool] = {}
    for one in values:
        dataset, method, seed, fold, measure, _ = one.cells
        label = f"{measure} of {quoted(method)} on {quoted(dataset)}"
        label += f" with {repeated} {quoted(seed)}" if repeated else ""
        has_fold = fold is not None
        first = seen.setdefault((dataset, method, seed, fold, measure), one.row)
        if first is not one.row:
            where = f" in fold {fold}" if has_fold else ""
            table.problem(one.row, one.column, f"{label}{where} was given in {first} already.")
        elif with_folds.setdefault((dataset, method, seed, measure), has_fold) != has_fold:
            table.problem(one.row, "fold", f"{label} is given both with and without a fold.")
        yield one


def _check_names(table: Cells, nameless: int | None) -> None:
    """Each column has a name of its own, but for the one that may be `nameless`."""
    header = table.header
    for i, column in enumerate(header):
        if not column and i != nameless:
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


def _check_header(table: Cells) -> None:
    header = table.header
    leaderboard = is_leaderboard(table)
    _check_names(table, _methods_at(table) if leaderboard else None)
    if leaderboard:
        return
    is_long = "measure" in header or "value" in header
    needed = LONG_COLUMNS if is_long else IDENTITY
    if missing := [c for c in needed if c not in header]:
        raise ImportFileError(
            f"{table.name}: no column {' and no column '.join(map(repr, missing))} (it has "
            f"{columns_shown(header)}). The long form has {', '.join(LONG_COLUMNS)} and maybe "
            "fold and seed; the wide form dataset, method, maybe fold and seed, and one column a "
            "measure; a leaderboard has methods as rows and datasets as columns."
        )
    _check_measures(table, [c for c in header if c not in (*needed, *SEEDS, "fold")], is_long)


def _check_measures(table: Cells, others: list[str], is_long: bool) -> None:
    """The columns beside those that say what a value is of: measures, and in a long table none."""
    if is_long and others:
        beside = f"beside {', '.join(LONG_COLUMNS)}, fold and seed. Remove it."
        raise ImportFileError(
            f"{table.name}: unknown column {', '.join(map(quoted, others))} {beside}"
        )
    if not is_long and not others:
        listed = ", ".join(table.header)
        raise ImportFileError(f"{table.name}: no column of a measure beside {listed}.")
    for column in others:
        if why := measure_name_problem(column):
            table.problem("header", column, f"cannot name a metric: {why}.")


def _is_empty(cell: object) -> bool:
    return (
        not cell.strip()
        if isinstance(cell, str)
        else pd.api.types.is_scalar(cell) and bool(pd.isna(cell))
    )


def _text(table: Cells, row: str, column: str, cell: object) -> str:
    text = "" if _is_empty(cell) else str(cell).strip()
    if why := text_problem(text):
        table.problem(row, column, f"the name of the {column} {why}.")
    return text


def _seeds(table: Cells, column: str, at: int) -> list[str]:
    """The seeds of all rows as text, whole numbers alike however they are written; all are numbers,
    or none is.
    """
    seeds: list[str] = []
    first: dict[bool, tuple[str, str]] = {}
    for row, cells in table.rows:
        if _is_empty(cells[at]):
            hint = "Give every row one, or remove the column."
            table.problem(
                row, column, f"is empty, so that nothing tells which {column} this is. {hint}"
            )
            seeds.append("")
            continue
        text = _text(table, row, column, cells[at])
        is_number = _NUMBER.fullmatch(text) is not None
        first.setdefault(is_number, (row, text))
        if is_number and len(text) < 20 and float(text).is_integer():
            text = str(int(float(text))) if "." in text or "e" in text.lower() else str(int(text))
        seeds.append(text)
    if len(first) == 2:
        (row, text) = first[False]
        (other, number) = first[True]
        table.problem(
            row,
            column,
            f"{quoted(text)} is no number, but {other} has {quoted(number)}. Use one kind "
            "throughout.",
        )
    return seeds


def _fold(table: Cells, row: str, cell: object) -> int | None:
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


def _is_number(cell: object) -> bool:
    """Whether it is a number, or text of one."""
    if isinstance(cell, str):
        return _NUMBER.fullmatch(cell.strip()) is not None
    return isinstance(cell, numbers.Real | Decimal) and not isinstance(cell, bool)


def _number(table: Cells, row: str, column: str, cell: Any) -> float:
    if _is_empty(cell):
        return math.nan
    value = math.nan
    if _is_number(cell):
        with suppress(OverflowError):
            value = float(cell)
    if not math.isfinite(value):
        table.problem(row, column, f"{quoted(cell)} is not a finite number. {_EMPTY_HINT}")
    return value


# --------------------------------------------------------------------------------------------------
# Exports of runs, one row a run: a DataFrame of `mlflow.search_runs`, and the tables that MLflow's
# UI, Weights & Biases and Neptune let one download.

#: What the columns of an export that say what a run is are called, in lower case.
_ABOUT_RUNS = {
    "id": ("run_id", "run id", "id", "sys/id", "sys/custom_run_id", "run"),
    "name": ("tags.mlflow.runname", "name", "sys/name", "experiment", "sys/custom_run_id"),
    "status": ("status", "state", "sys/state"),
    "failed": ("sys/failed",),
    "started": ("start_time", "start time", "created", "sys/creation_time"),
}
#: Further columns of the UIs of MLflow and Weights & Biases that say nothing of a result.
_PASSED_OVER = {
    *("agent", "notes", "user", "tags", "runtime", "sweep", "description", "duration", "updated"),
    *("hostname", "github", "group", "job type", "end time", "source type", "source name"),
    *("gpu type", "gpu count", "artifact_uri", "experiment_id", "end_time"),
}
#: Namespaces of Neptune that hold no result, and those of what a run was set to.
_OF_NEPTUNE = ("sys/", "monitoring/", "source_code/", "artifacts/", "runtime/")
_SET = ("params/", "param/", "parameters/", "config/", "configs/", "hyperparameters/", "args/")
#: How trackers say where a run stands.
_STATES = {
    **dict.fromkeys(("", "finished", "inactive", "idle", "completed"), "FINISHED"),
    **dict.fromkeys(("running", "active", "pending", "scheduled"), "RUNNING"),
    **dict.fromkeys(("failed", "crashed", "true"), "FAILED"),
    **dict.fromkeys(("killed", "preempted", "preempting"), "KILLED"),
}
#: A number is a result, and no setting, where a part of its name says so.
_RESULT = re.compile(
    r"(^|[_./ :-])(acc|accuracy|auc|auroc|auprc|ap|bleu|brier|cost|dice|ece|elbo|er|err|error|em|"
    r"f1|fid|fpr|hits|iou|jaccard|kappa|latency|logloss|loss|lrap|mae|map|mape|mcc|mean|miou|mrr|"
    r"mse|ndcg|nll|pearson|perplexity|ppl|pr|precision|psnr|r2|recall|return|reward|rmse|roc|rouge"
    r"|rougel|score|spearman|specificity|ssim|success|throughput|time|top1|top5|tpr|wer)"
    r"([_./ @:-]|\d|$)",
    re.IGNORECASE,
)


@dataclass
class ExportedRun:
    """A row of an export: what a run is called, and what it holds."""

    id: str
    name: str
    status: str
    started: pd.Timestamp | None
    metrics: dict[str, float] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


def exported_runs(table: Cells, results: Collection[str]) -> list[ExportedRun] | None:
    """The runs of an export; None where the table is none. `results` are names of columns that
    hold results, whatever they are called.
    """
    kind = _exporter(table.header)
    if kind is None:
        return None
    table.stop_if_problems()
    header = [column.lower() for column in table.header]
    places = {
        what: header.index(present[0])
        for what, names in _ABOUT_RUNS.items()
        if (present := [name for name in names if name in header])
    }
    columns = [
        (at, *sort)
        for at, column in enumerate(table.header)
        if at not in places.values() and (sort := _sorted(column, kind, results))
    ]
    runs = []
    for row, cells in table.rows:
        run = _run_of({what: cells[at] for what, at in places.items()}, row)
        for at, where, name in columns:
            _put(run, where, name, cells[at])
        runs.append(run)
    return runs


def _run_of(cells: Mapping[str, Any], row: str) -> ExportedRun:
    """A run without results, from what its row says of it by `_ABOUT_RUNS`."""
    about: dict[str, str] = defaultdict(str)
    about |= {what: str(cell).strip() for what, cell in cells.items() if not _is_empty(cell)}
    state = about["failed"] if about["failed"] == "True" else about["status"]
    begun = pd.to_datetime(about["started"], errors="coerce", utc=True)
    return ExportedRun(
        about["id"] or row,
        about["name"] or about["id"] or row,
        _STATES.get(state.lower(), state.upper()),
        None if pd.isna(begun) else begun,
    )


def _exporter(header: Sequence[str]) -> str | None:
    """Whose export has such a header; None where it is none."""
    columns = {column.lower() for column in header}
    if {"dataset", "method"} <= columns or "measure" in columns:
        return None
    if "run_id" in columns and any(column.startswith("metrics.") for column in columns):
        return "mlflow"
    if {"summary", "config", "name"} <= columns:
        return "wandb api"
    if any(column.startswith("sys/") for column in columns):
        return "neptune"
    if header[0] in ("run", "experiment") and any("/" in column for column in columns):
        return "neptune"
    if {"name", "state"} <= columns or {"run id", "name", "status"} <= columns:
        return "ui"
    return None


def _sorted_of_neptune(name: str) -> tuple[str, str] | None:
    if name.startswith(_OF_NEPTUNE):
        return None
    return ("params" if name.startswith(_SET) else "either"), name.removeprefix("metrics/")


def _sorted(column: str, kind: str, results: Collection[str]) -> tuple[str, str] | None:
    """What a column holds, metrics, params, tags, or of either by what it is, and its name; None
    where it is of no use.
    """
    if kind == "mlflow":
        what, dot, name = column.partition(".")
        return (what, name) if dot and what in ("metrics", "params", "tags") else None
    if kind == "wandb api":
        where = {"summary": "summary", "config": "config"}.get(column)
        return (where, "") if where else None
    name = column.partition(":")[0] if kind == "neptune" else column
    if column.lower() in _PASSED_OVER or name.startswith("_") or not name:
        return None
    if name in results:
        return "metrics", name
    if kind == "neptune":
        return _sorted_of_neptune(name)
    # what is known, or called like a result, is one where it is a number
    return ("either" if name in MEASURES or _RESULT.search(name) else "params"), name


def _put(run: ExportedRun, where: str, name: str, cell: Any) -> None:
    """Add what a cell holds to the run."""
    if _is_empty(cell):
        return
    if where in ("summary", "config"):
        values = cell if isinstance(cell, Mapping) else _literal(str(cell))
        sort = "either" if where == "summary" else "params"
        for key, value in values.items():
            if not str(key).startswith("_") and pd.api.types.is_scalar(value):
                _put(run, sort, str(key), value)
    elif where == "tags":
        run.tags[name] = str(cell)
    elif where != "params" and _is_number(cell):
        run.metrics[name] = float(cell)
    elif where != "metrics":
        run.params[name] = str(cell).strip()


def _literal(text: str) -> dict[Any, Any]:
    """A dictionary as Python writes it; empty where it is none. What is no number is left out."""
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        value = ast.literal_eval(re.sub(r"(?<=: )-?(nan|inf)\b", "None", text))
        return value if isinstance(value, dict) else {}
    return {}


# --------------------------------------------------------------------------------------------------
# Logs of other evaluation tools, one row an answer: lm-evaluation-harness (samples_*.jsonl) and
# Inspect (.eval, .json).

#: Bytes of one file within a log, or of one line, once it is unpacked.
LARGEST = 200_000_000
#: Characters of a question that a table shows.
_ASKED = 200
#: What Inspect's scorers say in place of numbers: correct, incorrect, partial, no answer.
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
#: What a line of lm-evaluation-harness holds beside its metrics.
_LINE = {
    "doc_id",
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "filter",
    "metrics",
    "doc_hash",
    "prompt_hash",
    "target_hash",
}
#: How a zip file says that a member is packed with zstandard, and the fixed part of what precedes
#: it.
_ZSTANDARD = 93
_HEAD = struct.Struct("<26xHH")


def is_answer_log(path: str | Path) -> bool:
    """Whether the file's name is that of a log."""
    name = Path(path).name
    return name.endswith((".eval", ".json")) or (
        name.startswith("samples_") and name.endswith(".jsonl")
    )


def read_answer_log(path: str | Path) -> tuple[str, str, Answers]:
    """The method, the data set and the answers of one log.

    The method is the model; lm-evaluation-harness names it by the folder. Epochs of Inspect are
    further answers to the same question. A metric whose values are lists is left out with a note;
    one of words waits for its grades, see `Answers.words`.

    Raises
    ------
    ImportFileError
        The file cannot be read, or is no log of a finished evaluation.
    """
    path = Path(path)
    try:
        method, dataset, rows = _harness(path) if path.suffix == ".jsonl" else _inspect(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        zipfile.BadZipFile,
        NotImplementedError,
    ) as error:
        reason = " ".join(str(error).split())[:150]
        raise ImportFileError(
            f"{path.name} is no log of answers that can be read: {type(error).__name__}: {reason}."
        ) from error
    if not rows:
        raise ImportFileError(f"{path.name} holds no scored answer. Log the samples, too.")
    return method, dataset, _answers(path, rows)


def _harness(path: Path) -> tuple[str, str, list[dict[str, Any]]]:
    """Lines of lm-evaluation-harness; each names its metrics, or in older logs holds them beside
    what all lines hold.
    """
    rows = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.strip():
                continue
            sample = json.loads(line)
            names = (
                sample["metrics"]
                if "metrics" in sample
                else [name for name in sample if name not in _LINE]
            )
            scores = _flat({m: sample[m] for m in names})
            key = str(sample.get("doc_hash") or sample["doc_id"])[:16]
            plain = {k: v for k, v in sample["doc"].items() if isinstance(v, str | int | float)}
            filtered = sample.get("filter", "none")
            if filtered != "none":
                scores = {f"{m}/{filtered}": v for m, v in scores.items()}
            rows.append(
                {"key": key, "scores": scores, "about": plain, "asked": _asked(sample["arguments"])}
            )
    task = path.stem.removeprefix("samples_").rpartition("_")[0]
    return path.resolve().parent.name, task or path.stem, rows


def _inspect(path: Path) -> tuple[str, str, list[dict[str, Any]]]:
    head, samples = _inspect_parts(path)
    if head.get("status") != "success":
        raise ValueError(f"its status is {head.get('status')!r}, not 'success'")
    rows = []
    for sample in samples:
        scores = _flat(
            {name: score.get("value") for name, score in (sample.get("scores") or {}).items()}
        )
        about = {
            k: v
            for k, v in (sample.get("metadata") or {}).items()
            if isinstance(v, str | int | float)
        }
        rows.append(
            {
                "key": str(sample["id"]),
                "scores": scores,
                "about": about,
                "asked": _asked(sample["input"]),
            }
        )
    return str(head["eval"]["model"]), str(head["eval"]["task"]), rows


def _inspect_parts(path: Path) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """What the log says of the whole, and its samples one by one."""
    with path.open("rb") as file:
        packed = file.read(4) == b"PK\x03\x04"
    if not packed:
        if (size := path.stat().st_size) > LARGEST:
            raise ValueError(f"it has {size:,} bytes, more than {LARGEST:,}")
        whole = json.loads(path.read_text("utf-8"))
        return whole, iter(whole.get("samples") or ())
    return _member(path, "header.json"), _members(path)


def _members(path: Path) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(path) as log:
        names = [name for name in log.namelist() if name.startswith("samples/")]
    for name in names:
        yield _member(path, name)


def _member(path: Path, name: str) -> dict[str, Any]:
    """A JSON file within the log, also where it is packed with zstandard, which zipfile of Python
    below 3.14 cannot unpack.
    """
    with zipfile.ZipFile(path) as log:
        info = log.getinfo(name)
        if info.file_size > LARGEST:
            raise ValueError(f"its {name} has {info.file_size:,} bytes, more than {LARGEST:,}")
        if info.compress_type != _ZSTANDARD:
            return json.loads(log.read(info))
    with path.open("rb") as file:
        file.seek(info.header_offset)
        skipped = sum(_HEAD.unpack(file.read(_HEAD.size)))
        file.seek(skipped, io.SEEK_CUR)
        packed = file.read(info.compress_size)
    return json.loads(
        pa.decompress(packed, decompressed_size=info.file_size, codec="zstd", asbytes=True)
    )


def _flat(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Values by measure; the parts of a mapping are measures of their own."""
    parts = {
        name: value if isinstance(value, dict) else {"": value} for name, value in scores.items()
    }
    return {
        f"{name}/{part}" if part else name: value
        for name, of in parts.items()
        for part, value in of.items()
    }


def _answers(path: Path, rows: Sequence[Mapping[str, Any]]) -> Answers:
    """The answers of a log, each given by its key, scores, question and what is about it."""
    index = pd.Index([row["key"] for row in rows], name="instance", dtype=object)
    texts = [{**row["about"], "link": "", "asked": row["asked"]} for row in rows]
    # as objects, whole numbers stay whole where some row has none
    about = pd.DataFrame(texts, index=index, dtype=object)
    values: dict[str, list[float | None]] = {}
    words = []
    notes = []
    for measure, cells in _by_measure(rows).items():
        if problem := _problem(measure, cells):
            notes.append(f"{measure} is left out: {problem}.")
            continue
        if str in map(type, cells):
            about[measure] = ["" if value is None else str(value) for value in cells]
        scores = [_answer_logs_number(value) for value in cells]
        if None in scores:
            words.append(measure)
        else:
            values[measure] = scores
    if not values and not words:
        raise ImportFileError(f"{path.name} holds no metric of numbers or words. {' '.join(notes)}")
    keys = "\n".join(sorted(set(index))).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(keys).hexdigest()[:8]
    table = pd.DataFrame(values, index=index, dtype=float)
    passing = tuple(m for m in table if table[m].notna().any() and _is_binary(table[m]))
    return Answers(table, about, digest, passing=passing, notes=tuple(notes), words=tuple(words))


def _by_measure(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The scores of all rows by measure, None where a row has none."""
    names = dict.fromkeys(name for row in rows for name in row["scores"])
    return {name: [row["scores"].get(name) for row in rows] for name in names}


def _is_binary(values: pd.Series) -> bool:
    """Whether all values there are 0 or 1, as of pass and fail."""
    return values.dropna().isin([0.0, 1.0]).all()


def _problem(measure: str, cells: Sequence[Any]) -> str | None:
    """Why the values are no measure of single answers, even if words are given an order; None where
    they are.
    """
    if problem := measure_name_problem(measure):
        return problem
    kinds: dict[type, str] = {list: "lists", dict: "mappings"}
    broken = [value for value in cells if type(value) in kinds]
    if broken:
        shown = json.dumps(broken[0], ensure_ascii=False, default=str)
        return f"its values are {kinds[type(broken[0])]}, such as {quoted(shown)}"
    return None


def _answer_logs_number(value: Any) -> float | None:
    """The number that a score stands for, NaN where there is none; None where it is a word without
    an order.
    """
    if value is None:
        return np.nan
    if isinstance(value, str):
        if (grade := GRADES.get(value, PASS.get(value.strip().lower()))) is not None:
            return grade
        if not value.strip():
            return np.nan
    try:
        number = float(value)
    except ValueError:
        return None
    except OverflowError:  # a whole number of hundreds of digits
        return np.nan
    return number if math.isfinite(number) else np.nan


def _asked(asked: Any) -> str:
    """The beginning of the question: text, the last message of a conversation, or the arguments of
    a request.
    """
    if isinstance(asked, list) and asked and isinstance(asked[-1], dict):
        asked = asked[-1].get("content", "")
    if isinstance(asked, dict) and asked:
        first = next(iter(asked.values()))
        asked = first.get("arg_0", "") if isinstance(first, dict) else first
    text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False, default=str)
    return text if len(text) <= _ASKED else f"{text[: _ASKED - 1]}…"


# --------------------------------------------------------------------------------------------------
# Files with a result an answer: tables with a column `instance`, and logs of other evaluation
# tools.

INSTANCE = "instance"
_NAMES = ("method", "dataset", INSTANCE)
#: What else a table may say of an instance, whatever it holds.
ABOUT = ("cluster", "asked", "link")
_LONG = ("measure", "value")


def holds_instances(path: str | Path) -> bool:
    """Whether the file holds a result an answer: a log, or a table with a column `instance`."""
    if is_answer_log(path):
        return True
    try:
        if str(path).endswith((".parquet", ".pq")):
            return INSTANCE in pq.read_schema(path).names
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            return INSTANCE in [cell.strip() for cell in next(csv.reader(file), [])]
    except (OSError, ValueError, csv.Error):  # whoever reads it in full says what is wrong
        return False


def read_instance_results(path: str | Path) -> dict[tuple[str, str], Answers]:
    """By method and data set, the answers in a file.

    A log holds one method. A table is CSV or parquet with the columns method, dataset and instance,
    and either one column a measure (wide) or the columns measure and value (long). Numbers, true
    and false, yes and no, pass and fail are values. The columns cluster, asked and link, in wide
    tables those that hold text alone, and in long ones all others say more about an instance. An
    empty value is a missing one; an instance that occurs again is another answer to the same
    question.

    Raises
    ------
    ImportFileError
        The file is malformed; the text names the row and the column.
    """
    path = Path(path)
    if is_answer_log(path):
        method, dataset, answers = read_answer_log(path)
        return {(method, dataset): answers}
    table = _read(path)
    _refuse_names(path, table)
    columns = _instance_columns(path, table)
    for column in ["value"] if columns.is_long else columns.measures:
        table[column] = _numbers(path, table[column])
    results = {}
    for (method, dataset), rows in table.groupby(["method", "dataset"], sort=False):
        if columns.is_long:
            rows = _wide(path, rows, columns.measures, columns.about)
        index = pd.Index(rows[INSTANCE], name=INSTANCE, dtype=object)
        measured = [m for m in columns.measures if rows[m].notna().any()]
        values = rows[measured].set_axis(index)
        about = rows[[c for c in columns.about if c in rows]].set_axis(index)
        about = about if "link" in about else about.assign(link="")
        about = about if "asked" in about else about.assign(asked=index)
        passing = tuple(m for m in measured if _is_binary(values[m]))
        results[(method, dataset)] = Answers(values.astype(float), about, passing=passing)
    return results


def _refuse_names(path: Path, table: pd.DataFrame) -> None:
    """Raise where a table does not name method, data set and instance of each row."""
    if lacking := [c for c in _NAMES if c not in table]:
        raise ImportFileError(
            f"{path.name} has no column {lacking[0]!r}; it has {columns_shown(list(table))}. Add "
            "it."
        )
    for column in _NAMES:
        for row, text in table[column].items():
            if problem := text_problem(text):
                raise ImportFileError(
                    f"{path.name}, {_row(path, row)}, column {column!r}: {problem}."
                )


@dataclass(frozen=True)
class _InstanceColumns:
    """What a table of instances holds beside their names."""

    is_long: bool
    measures: list[str]
    about: list[str]


def _instance_columns(path: Path, table: pd.DataFrame) -> _InstanceColumns:
    is_long = set(_LONG) <= set(table)
    taken = (*_NAMES, *ABOUT, *(_LONG if is_long else ()))
    others = [c for c in table if c not in taken]
    texts = others if is_long else [c for c in others if _is_text(table[c])]
    measures = [c for c in others if c not in texts]
    if is_long:
        measures = sorted(set(table["measure"]))
    _refuse_measures(path, measures, texts)
    return _InstanceColumns(is_long, measures, [c for c in table if c in (*ABOUT, *texts)])


def _refuse_measures(path: Path, measures: Sequence[str], texts: Sequence[str]) -> None:
    for measure in measures:
        if problem := measure_name_problem(measure):
            raise ImportFileError(f"{path.name}, measure {quoted(measure)}: {problem}.")
    if not measures:
        text = f" ({some(map(quoted, texts))} holds text)" if texts else ""
        raise ImportFileError(
            f"{path.name} has no column of a measure{text}. Add one column a measure, or measure "
            "and value."
        )


def _read(path: Path) -> pd.DataFrame:
    """The table as text."""
    try:
        if str(path).endswith((".parquet", ".pq")):
            table = pd.read_parquet(path)
            return table.astype(object).where(table.notna(), "").astype(str)
        table = pd.read_csv(
            path,
            dtype=str,
            keep_default_na=False,
            encoding="utf-8-sig",
            skipinitialspace=True,
        )
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # pandas and pyarrow raise many kinds for a damaged file
        raise ImportFileError(f"{path.name} cannot be read: {reason(error)}.") from error
    check_separator(list(table), 1, path.name)
    return table.rename(columns=str.strip)


def _is_text(column: pd.Series) -> bool:
    """Whether a column describes the instances: it holds text, and no cell that is, or was meant
    as, a value of a measure.
    """
    cells = column[column.str.strip() != ""].str.strip()
    meant = (
        cells.str.fullmatch(r"[-+]?[\d.,]*\d[\d.,eE+-]*%?|[-+]?inf(inity)?|nan", case=False)
        | _passed(cells).notna()
    )
    return len(cells) > 0 and not meant.any() and column.name not in MEASURES


def _passed(cells: pd.Series) -> pd.Series:
    """1 and 0 of pass and fail, yes and no, true and false."""
    return cells.str.strip().str.lower().map(PASS)


def _numbers(path: Path, column: pd.Series) -> pd.Series:
    values = pd.to_numeric(column.where(column.str.strip() != "", None), errors="coerce").fillna(
        _passed(column)
    )
    bad = column[(values.isna() & (column.str.strip() != "")) | values.abs().eq(float("inf"))]
    if len(bad):
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        where = f"{path.name}, {_row(path, bad.index[0])}, column {quoted(column.name)}"
        raise ImportFileError(
            f"{where}: {quoted(bad.iloc[0])} is no finite number{more}. Leave the cell empty if "
            "there is none; call the column cluster if it is no measure and says which instances "
            "belong together, otherwise remove it."
        )
    return values.astype(float)


def _row(path: Path, row: int) -> str:
    return f"row {row + 1}" if str(path).endswith((".parquet", ".pq")) else f"line {row + 2}"


def _wide(
    path: Path,
    rows: pd.DataFrame,
    measures: list[str],
    about_columns: list[str],
) -> pd.DataFrame:
    """A row an answer; the k-th value of a measure for an instance belongs to its k-th answer.

    What rows of an answer do not agree in describes their values, and is left out; clusters must
    agree.
    """
    rows = rows.assign(_answer=rows.groupby([INSTANCE, "measure"]).cumcount())
    keys = [INSTANCE, "_answer"]
    values = rows.pivot(index=keys, columns="measure", values="value").reindex(columns=measures)
    cells = rows[about_columns]
    filled = rows[keys].join(cells.where(cells.apply(lambda column: column.str.strip() != "")))
    several = filled.groupby(keys, sort=False)[about_columns].nunique() > 1
    if "cluster" in several and len(wrong := several.index[several["cluster"]]):
        raise ImportFileError(
            f"{path.name}: the instances {some((key for key, _ in wrong), 5)} are in several "
            "clusters. Put each into one."
        )
    agreed = [c for c in about_columns if c in ("asked", "link") or not several[c].any()]
    about = filled.groupby(keys, sort=False)[agreed].first().fillna("")
    return about.join(values).reset_index()
