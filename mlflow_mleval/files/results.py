"""Files of results, read strictly: what is broken is named by its line."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import numbers
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.sentences import count, measure_name_problem, quoted, some, text_problem
from mlflow_mleval.validation import in_pandas, of_kind

# ---- what readers of files share -----------------------------------------------------------------


def csv_rows(lines: Iterable[str], name: str) -> Iterator[tuple[int, list[str]]]:
    """Line and stripped cells of each row; an empty line has no cells."""
    reader = csv.reader(lines, strict=True)
    while True:
        at = 1 + reader.line_num
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            is_open = "end of data" in str(error)
            reason = "a quote is opened and never closed" if is_open else str(error)
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
    return (", ".join(map(quoted, header[:8])) or "none") + (" …" if len(header) > 8 else "")


# ---- tables of results ---------------------------------------------------------------------------

IDENTITY = ("dataset", "method")
PARQUET = (".parquet", ".pq")
#: The column that says which instance a result is of.
INSTANCE = "instance"
#: What a column that tells repeats apart may be called.
SEEDS = ("seed", "repeat")
LONG_COLUMNS = ("measure", *IDENTITY, "value")
#: No row of results is longer; the csv module has a limit of this order.
MAX_LINE = 100_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_EMPTY_HINT = "Leave the cell empty for a method that did not finish."
#: How tables write that there is no value.
_BLANK = ("-", "--", "–", "—", "n/a")
#: A value as people write it: a percentage, with its spread, marked by a footnote.
_WRITTEN = re.compile(
    r"(?P<value>[+-]?[\d.]+)\s*(?P<percent>%?)"
    r"\s*(?P<spread>(±|\+/-)\s*[\d.]+\s*%?|\([\d.]+%?\))?\s*[*†‡§]*",
    re.ASCII,
)
#: What a column or row of a leaderboard is called that is the mean of the others.
_MEANS = re.compile(r"(the )?(avg|average|mean|overall|macro[ -]avg)\.?( score)?\W*", re.IGNORECASE)
#: What a column of methods is called, and how columns begin that say what a model is.
_METHODS = ("method", "model")
_OF_MODELS = re.compile(r"#?\s?param|hub |co.? cost|size\b|available on|flagged|moe$", re.I)


def read_results(source: str | Path | pd.DataFrame, *, name: str | None = None) -> pd.DataFrame:
    """Results as one tidy table: dataset, method, seed and fold where there are any, measure, value
    (NaN where empty). An ImportFileError names row and column; `attrs["notes"]` tells how cells
    were read.
    """
    return tidy(read_cells(source, name=name))


def read_cells(source: str | Path | pd.DataFrame, *, name: str | None = None) -> SourceTable:
    """Header and rows of a file or a table as they stand there."""
    source = in_pandas(source)
    if isinstance(source, pd.DataFrame):
        return _from_frame(source, name or "the table")
    path = Path(of_kind(source, "results", (str, Path), "a file or a data frame"))
    name = name or path.name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    if content[:4] == b"PAR1" or path.suffix.lower() in PARQUET:
        try:
            frame = pd.read_parquet(io.BytesIO(content))
        except Exception as error:  # pyarrow raises many kinds for a damaged file
            raise ImportFileError(
                f"{name} is not a parquet file that can be read: {reason(error)}."
            ) from error
        return _from_frame(frame, name)
    if path.suffix.lower() in (".json", ".jsonl"):
        results = tool_results(_decoded(content, name), name)
        if results is None:
            known = some([tool.name for tool in TOOLS], len(TOOLS))
            why = "is JSON of none of the tools whose results are read"
            raise ImportFileError(f"{name} {why}: {known}.")
        table = SourceTable(name, [*LONG_COLUMNS], [])
        table.rows += [(f"result {i}", row) for i, row in enumerate(results, 1)]
        return table
    return _from_csv(content, name)


@dataclass
class SourceTable:
    """Header and rows of any source; rows are labelled as a reader would find them."""

    name: str
    header: list[str]
    rows: list[tuple[str, Sequence[object]]]
    problems: list[tuple[str, str]] = field(default_factory=list)  #: and in which row
    notes: dict[str, list[str]] = field(default_factory=dict)  #: what was read how, and where

    def problem(self, row: str, column: str, text: str) -> None:
        self.problems.append((row, f"{self.name}, {row}, column {quoted(column)}: {text}"))

    def note(self, what: str, where: str) -> None:
        """That this was read so there."""
        places = self.notes.setdefault(what, [])
        if where not in places:
            places.append(where)

    def stop_if_problems(self) -> None:
        """ImportFileError with the problem of the first row that has one."""
        if self.problems:
            n = len(self.problems)
            numbers = [re.sub(r"\D", "", row) for row, _ in self.problems]
            first = min(range(n), key=lambda i: int(numbers[i] or 0))
            text = self.problems[first][1]
            more = f" (and {count(n - 1, 'more problem')} in this file)" if n > 1 else ""
            raise ImportFileError(text + more)


#: By what columns a benchmark is known, and what they are called here.
_BENCHMARKS = (  # AutoML benchmark, TabArena
    {"metric": "measure", "task": "dataset", "framework": "method", "result": "value"},
    {"dataset": "dataset", "method": "method", "metric_error": "metric_error"},
    {"dataset": "dataset", "framework": "method", "metric_error": "metric_error"},
)


def _from_csv(content: bytes, name: str) -> SourceTable:
    table = SourceTable(name, [], [])
    lines = io.StringIO(_decoded(content, name), newline="")
    for number, text in enumerate(lines, 1):
        if len(text) > MAX_LINE:
            raise ImportFileError(
                f"{name}, line {number}: the line has {len(text):,} characters, more than any row "
                f"of results ({MAX_LINE:,}). Is it a file of results?"
            )
    lines.seek(0)
    for line, cells in csv_rows(lines, name):
        counted = f"{len(cells)} cells, the header has {len(table.header)}."
        if not cells:
            continue
        if not table.header:
            table.header = cells
            check_separator(cells, line, name)
        elif len(cells) != len(table.header):
            why = "ends before it"
            if len(cells) > len(table.header):
                why = f"goes on after it with {quoted(cells[len(table.header)])}"
            column = table.header[min(len(cells), len(table.header) - 1)]
            table.problem(f"line {line}", column, f"the row {why}: {counted}")
        else:
            table.rows.append((f"line {line}", cells))
    if not table.header:
        raise ImportFileError(f"{name} is empty. It needs the columns {', '.join(LONG_COLUMNS)}.")
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
        raise ImportFileError(f"{name}, line {line}: holds a NUL character, so it is no text.")
    return text


def _from_frame(frame: pd.DataFrame, name: str) -> SourceTable:
    named = any(level is not None for level in frame.index.names)
    if "method" not in frame and not named and frame.index.inferred_type == "string":
        frame = frame.rename_axis("method")
        named = True
    if named:
        frame = frame.reset_index()
    columns = [frame.iloc[:, i].astype(object).tolist() for i in range(frame.shape[1])]
    table = SourceTable(name, [str(c).strip() for c in frame.columns], [])
    table.rows += [(f"row {i}", cells) for i, cells in enumerate(zip(*columns, strict=True), 1)]
    return table


def tidy(table: SourceTable) -> pd.DataFrame:
    """The results of a table, as `read_results` gives them."""
    for columns in _BENCHMARKS:  # of which only what holds results counts
        kept = {**columns, "fold": "fold"}
        if {*kept} <= {*table.header} and not {"measure", "value"} & {*table.header}:
            at = [table.header.index(column) for column in kept]
            rows: list[tuple[str, Sequence[object]]] = [
                (row, [cells[i] for i in at]) for row, cells in table.rows
            ]
            table = replace(table, header=[*kept.values()], rows=rows)
    _check_header(table)
    table.stop_if_problems()
    if is_leaderboard(table):
        table = _in_one_scale(with_datasets_alone(table))
    if not table.rows:
        raise ImportFileError(f"{table.name} has a header but no rows.")
    repeated = next((c for c in SEEDS if c in table.header), None)
    values = _values_of_table(table, repeated)
    _note_given_twice(table, values, repeated)
    table.stop_if_problems()
    left = {"seed": repeated is None, "fold": values["fold"].isna().all()}
    names = ("dataset", "method", "seed", "fold", "measure", "value")
    frame = pd.DataFrame({c: values[c].array for c in names if not left.get(c)}).infer_objects()
    frame.attrs["notes"] = [f"{what}: {some(at, 4)}." for what, at in table.notes.items()]
    return frame


def _values_of_table(table: SourceTable, repeated: str | None) -> pd.DataFrame:
    """Each value with what it is of: one a row of a long table, one a measure of a wide one, one a
    dataset of a leaderboard.
    """
    place = {column: i for i, column in enumerate(table.header)}
    named = "column" if "measure" in place else "measure"  # what further columns are the names of
    if is_leaderboard(table):
        named, place["method"] = "dataset", _methods_at(table)
    beside = {place.get(name) for name in (*IDENTITY, *SEEDS, "measure", "fold")}
    columns = [column for column in table.header if place[column] not in beside]
    held: dict[str, Any] = {"measure": "value", "fold": None, "seed": ""}
    if repeated:
        held["seed"] = _seeds(table, repeated, place[repeated])
    for name in (*IDENTITY, "measure"):
        if name in place:
            held[name] = _texts(table, table.header[place[name]] or name, place[name])
    if "fold" in place:
        held["fold"] = [_fold(table, row, cells[place["fold"]]) for row, cells in table.rows]
    values = [
        [_number(table, row, column, cells[place[column]]) for column in columns]
        for row, cells in table.rows
    ]
    frame = pd.DataFrame(held, range(len(values)), dtype=object).astype({"fold": "Int64"})
    frame = frame.loc[frame.index.repeat(len(columns))]
    frame["column"] = np.array(columns * len(values), dtype=object)
    frame[named] = frame["column"]
    return frame.assign(value=np.ravel(values))


def is_leaderboard(table: SourceTable) -> bool:
    """Whether rows are methods and columns datasets: no other name, and most cells numbers."""
    told = {"dataset", *SEEDS, "fold", INSTANCE, "measure", "value", *MEASURES}
    at = _methods_at(table)
    others = [i for i, _ in enumerate(table.header) if i != at]
    if not others or not told.isdisjoint(table.header):
        return False
    if table.header[at].lower() not in _METHODS and all(_is_number(r[at]) for _, r in table.rows):
        return False
    cells = [_plain_cell(row[i]) for _, row in table.rows for i in others if not _is_empty(row[i])]
    enough = 2 * sum(map(_is_number, cells)) > len(cells)
    return enough or any(_MEANS.fullmatch(table.header[i]) for i in others)


def _methods_at(table: SourceTable) -> int:
    """Where a leaderboard names its methods: the column method or model, else the first."""
    named = (i for i, column in enumerate(table.header) if column.lower() in _METHODS)
    return next(named, 0)


def with_datasets_alone(table: SourceTable) -> SourceTable:
    """The leaderboard without means and columns that are no datasets; `notes` names them."""
    at = _methods_at(table)
    left = replace(table, notes={})
    kept = [at]
    for i, column in enumerate(table.header):
        if i != at and (why := _no_dataset(table, i)):
            left.note(f"Left out of the leaderboard, for {why}", column)
        elif i != at:
            kept.append(i)
    if len(kept) == 1:
        return table
    left.header, left.rows = [table.header[i] for i in kept], []
    for row, cells in table.rows:
        if _MEANS.fullmatch(name := str(cells[at]).strip()) and len(table.rows) > 2:
            left.note(f"Left out of the leaderboard, for {_A_MEAN}", name)
        else:
            left.rows.append((row, [cells[i] for i in kept]))
    return left


_A_MEAN = "it is called the mean of the others"
#: Plain numbers above this are out of 100.
LARGEST_SHARE = 1.5
_OUT_OF_100 = "Percentages stay numbers out of 100, like the columns beside them"


def _no_dataset(table: SourceTable, i: int) -> str:
    """Why a column of a leaderboard holds no results of a dataset; empty where it may."""
    column = table.header[i]
    held = [_plain_cell(row[i]) for _, row in table.rows if not _is_empty(row[i])]
    if _MEANS.fullmatch(column):
        return _A_MEAN
    if held and not any(map(_is_number, held)) and len(table.rows) > 1:
        return "it holds no number"
    is_raw = column in [f"{other} Raw" for other in table.header]
    about = is_raw or _OF_MODELS.match(column)
    return "it is no result, or one that is there already" if about else ""


def _in_one_scale(table: SourceTable) -> SourceTable:
    """The leaderboard; beside 90.5 a cell of 84.6% is 84.6, too, and `notes` says so."""
    at = _methods_at(table)
    others: list[Any] = [x for _, cells in table.rows for i, x in enumerate(cells) if i != at]
    plain = [float(x) if isinstance(x, str) else x for x in others if _is_number(x)]
    if not any(abs(x) > LARGEST_SHARE for x in plain):
        return table
    rows: list[tuple[str, Sequence[object]]] = []
    for row, cells in table.rows:
        own = [*cells]
        for i, cell in enumerate(cells):
            if i != at and isinstance(cell, str) and "%" in cell:
                own[i] = cell.replace("%", "")
                table.note(_OUT_OF_100, table.header[i])
        rows.append((row, own))
    return replace(table, rows=rows)


def _note_given_twice(table: SourceTable, values: pd.DataFrame, repeated: str | None) -> None:
    """Note what is given twice, or both with and without folds."""
    keys = ["dataset", "method", "seed", "measure"]
    has_fold = values["fold"].notna()
    twice = values.duplicated([*keys, "fold"])
    mixed = has_fold.to_numpy() & False
    if has_fold.nunique() > 1:
        mixed = has_fold != has_fold.groupby([values[key] for key in keys]).transform("first")
    if not (twice | mixed).any():
        return
    rows = pd.Series([table.rows[i][0] for i in values.index], values.index)
    first = rows.groupby([values[key] for key in (*keys, "fold")], dropna=False).transform("first")
    for one in values.assign(row=rows, first=first, twice=twice)[twice | mixed].itertuples():
        label = f"{one.measure} of {quoted(one.method)} on {quoted(one.dataset)}"
        label += f" with {repeated} {quoted(one.seed)}" if repeated else ""
        if one.twice:
            where = "" if pd.isna(one.fold) else f" in fold {one.fold}"
            table.problem(one.row, one.column, f"{label}{where} was given in {one.first} already.")
        else:
            table.problem(one.row, "fold", f"{label} is given both with and without a fold.")


def _check_header(table: SourceTable) -> None:
    """Each column has a name of its own, and says what a value is of, or is a measure."""
    header, board = table.header, is_leaderboard(table)
    may_lack_one = _methods_at(table) if board else None
    nameless = [i for i, c in enumerate(header) if not c and i != may_lack_one]
    if nameless:
        raise ImportFileError(
            f"{table.name}: column {nameless[0] + 1} has no name. In pandas, write index=False."
        )
    if twice := sorted({c for c in header if header.count(c) > 1}):
        columns = ", ".join(map(quoted, twice))
        raise ImportFileError(f"{table.name}: the column {columns} occurs twice in the header.")
    if {*SEEDS} <= {*header}:
        why = "both a column 'seed' and a column 'repeat' tell repeats apart"
        raise ImportFileError(f"{table.name}: {why}. Remove one of them.")
    if not board:
        _check_columns(table)


def _check_columns(table: SourceTable) -> None:
    """What a value is of is told; other columns are measures, and in a long table there is none."""
    header = table.header
    is_long = "measure" in header or "value" in header
    needed = LONG_COLUMNS if is_long else IDENTITY
    if INSTANCE in header:
        raise ImportFileError(
            f"{table.name}: the column {INSTANCE!r} says that its rows are answers. Import it with "
            "mleval import, and compare them with mleval compare."
        )
    if missing := [c for c in needed if c not in header]:
        other = "" if {*IDENTITY} & {*header} else " Predictions are for mleval evaluate."
        raise ImportFileError(
            f"{table.name}: no column {' and no column '.join(map(repr, missing))} (it has "
            f"{columns_shown(header)}). The long form has {', '.join(LONG_COLUMNS)}, the wide form "
            f"dataset, method and one column a measure; a leaderboard methods by datasets.{other}"
        )
    others = [c for c in header if c not in (*needed, *SEEDS, "fold")]
    if is_long and others:
        raise ImportFileError(
            f"{table.name}: unknown column {', '.join(map(quoted, others))} beside "
            f"{', '.join(LONG_COLUMNS)}, fold and seed. Remove it."
        )
    if not is_long and not others:
        raise ImportFileError(f"{table.name}: no column of a measure beside {', '.join(header)}.")
    for column in others:
        if why := measure_name_problem(column):
            table.problem("header", column, f"cannot name a metric: {why}.")


def _is_empty(cell: object) -> bool:
    if isinstance(cell, str):
        return not cell.strip()
    return pd.api.types.is_scalar(cell) and bool(pd.isna(cell))


def _texts(table: SourceTable, column: str, at: int) -> list[str]:
    """The names that a column holds."""
    texts = []
    for row, cells in table.rows:
        text = "" if _is_empty(cells[at]) else str(cells[at]).strip()
        if why := text_problem(text):
            table.problem(row, column, f"the name of the {column} {why}.")
        elif column == "measure" and (why := measure_name_problem(text)):
            table.problem(row, column, f"{quoted(text)} cannot name a metric: {why}.")
        texts.append(text)
    return texts


def _seeds(table: SourceTable, column: str, at: int) -> list[str]:
    """The seeds as text: all numbers, written alike, or none."""
    seeds: list[str] = []
    first: dict[bool, tuple[str, str]] = {}
    for (row, _), text in zip(table.rows, _texts(table, column, at), strict=True):
        is_number = _NUMBER.fullmatch(text) is not None
        if text:
            first.setdefault(is_number, (row, text))
        if is_number and len(text) < 20 and float(text).is_integer():
            # a float would round a seed of 17 digits
            text = str(int(text) if text.lstrip("+-").isdecimal() else int(float(text)))
        seeds.append(text)
    if len(first) == 2:
        (row, text), (other, number) = first[False], first[True]
        why = f"{quoted(text)} is no number, but {other} has {quoted(number)}. Use one kind."
        table.problem(row, column, why)
    return seeds


def _fold(table: SourceTable, row: str, cell: object) -> int | None:
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


def _plain_cell(cell: object, said: Callable[[str], object] = lambda what: None) -> object:
    """A cell without what people write beside a value; `said` is told what that is."""
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell.strip()):
        return cell
    if cell.strip().lower() in _BLANK:
        return ""
    written = _WRITTEN.fullmatch(cell.strip())
    if written is None or not _NUMBER.fullmatch(written["value"]):
        return cell
    if written["spread"]:
        said("What stands behind a value as its spread is not read")
    if written["percent"]:
        said("Percentages are read as shares")
        return float(written["value"]) / 100
    return written["value"]


def _is_number(cell: object) -> bool:
    """Whether it is a number, or text of one."""
    if isinstance(cell, str):
        return _NUMBER.fullmatch(cell.strip()) is not None
    return isinstance(cell, numbers.Real | Decimal) and not isinstance(cell, bool)


def _number(table: SourceTable, row: str, column: str, cell: Any) -> float:
    cell = _plain_cell(cell, lambda what: table.note(what, column))
    if _is_empty(cell):
        return math.nan
    value = math.nan
    if _is_number(cell):
        with suppress(OverflowError):
            value = float(cell)
    if not math.isfinite(value):
        table.problem(row, column, f"{quoted(cell)} is not a finite number. {_EMPTY_HINT}")
    return value


# ---- exports of runs, one row a run --------------------------------------------------------------

#: What the columns of an export that say what a run is are called, in lower case.
_ABOUT_RUNS = {
    "id": ("run_id", "run id", "id", "sys/id", "sys/custom_run_id", "run"),
    "name": ("tags.mlflow.runname", "name", "sys/name", "experiment", "sys/custom_run_id"),
    "status": ("status", "state", "sys/state"),
    "failed": ("sys/failed",),
    "started": ("start_time", "start time", "created", "sys/creation_time"),
    "experiment": ("experiment_id",),
}
#: Columns for what `mlflow.search_runs` leaves out: names of experiments, and the data.
_OF_MLFLOW = {
    "experiment_name": ("experiment_name",),
    "data": ("dataset",),
    "digest": ("dataset_digest",),
    "n_rows": ("dataset_rows",),
    "shape": ("dataset_shape",),
}
#: Further columns of the UIs of MLflow and Weights & Biases that say nothing of a result.
_PASSED_OVER = {
    *("agent", "notes", "user", "tags", "runtime", "sweep", "description", "duration", "updated"),
    *("hostname", "github", "group", "job type", "end time", "source type", "source name"),
    *("gpu type", "gpu count", "artifact_uri", "end_time"),
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
class RunRow:
    """A run: `data` and `digest` of its one test set; `started` in milliseconds since 1970."""

    run_id: str
    run_name: str
    status: str
    started: int
    experiment_id: str = "0"
    metrics: dict[str, float] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    data: str = ""
    digest: str = ""
    n_rows: int = 0  #: of the data, 0 where nobody says
    shape: str = ""  #: of its features, "13 features", as far as it is known
    model: str = ""  #: the id of the one LoggedModel that it made, or took
    last_step: int = 0  #: of its metrics


def exported_runs(
    table: SourceTable, results: Collection[str]
) -> tuple[list[RunRow], dict[str, str]] | None:
    """The runs of an export and names of experiments by id; None where the table is none."""
    kind = _exporter(table.header)
    if kind is None:
        return None
    table.stop_if_problems()
    header = [column.lower() for column in table.header]
    told = _ABOUT_RUNS | (_OF_MLFLOW if kind == "mlflow" else {})
    places = {
        what: header.index(name)
        for what, names in told.items()
        for name in reversed(names)  # the first of them counts
        if name in header
    }
    columns = [
        (at, *sort)
        for at, column in enumerate(table.header)
        if at not in places.values() and (sort := _sorted(column, kind, results))
    ]
    runs, experiments = list[RunRow](), dict[str, str]()
    for label, cells in table.rows:
        run, named = _run_of({what: cells[at] for what, at in places.items()}, label, len(runs))
        for at, where, name in columns:
            _put(run, where, name, cells[at])
        runs.append(run)
        experiments[run.experiment_id] = named
    if len(experiments) == 1 and "experiment_name" not in places:
        experiments.clear()
    return runs, experiments


def _run_of(cells: Mapping[str, Any], label: str, number: int) -> tuple[RunRow, str]:
    """A run without results, and its experiment; one without a time follows those before it."""
    about: dict[str, str] = defaultdict(str)
    about |= {what: str(cell).strip() for what, cell in cells.items() if not _is_empty(cell)}
    state = about["failed"] if about["failed"] == "True" else about["status"]
    begun = pd.to_datetime(about["started"], errors="coerce", utc=True)
    run = RunRow(
        about["id"] or label,
        about["name"] or about["id"] or label,
        _STATES.get(state.lower(), state.upper()),
        number if pd.isna(begun) else int(begun.timestamp() * 1000),
        about["experiment"],
        data=about["data"],
        digest=about["digest"],
        n_rows=int(float(about["n_rows"] or 0)),
        shape=about["shape"],
    )
    return run, about["experiment_name"] or f"experiment {run.experiment_id}"


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
    if header[:1] in (["run"], ["experiment"]) and any("/" in column for column in columns):
        return "neptune"
    if {"name", "state"} <= columns or {"run id", "name", "status"} <= columns:
        return "ui"
    return None


def _sorted(column: str, kind: str, results: Collection[str]) -> tuple[str, str] | None:
    """Whether a column holds metrics, params, tags or either, and its name; None if nothing."""
    if kind == "mlflow":
        what, dot, name = column.partition(".")
        return (what, name) if dot and what in ("metrics", "params", "tags") else None
    if kind == "wandb api":
        where = {"summary": "summary", "config": "config"}.get(column)
        return (where, "") if where else None
    name = column.partition(":")[0] if kind == "neptune" else column
    if column.lower() in _PASSED_OVER or name[:1] in ("", "_"):
        return None
    if name in results:
        return "metrics", name
    if kind == "neptune":
        space, slash, rest = name.partition("/")
        if space + slash in _SET:
            return "params", rest
        return None if space + slash in _OF_NEPTUNE else ("either", name.removeprefix("metrics/"))
    # what is known, or called like a result, is one where it is a number
    return ("either" if name in MEASURES or _RESULT.search(name) else "params"), name


def _put(run: RunRow, where: str, name: str, cell: Any) -> None:
    """Add what a cell holds to the run."""
    if _is_empty(cell):
        return
    if where in ("summary", "config"):
        values: Any = cell
        if not isinstance(cell, Mapping):  # as Python writes it; what is no number is left out
            text = re.sub(r"(?<=: )-?(nan|inf)\b", "None", str(cell))
            with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                values = ast.literal_eval(text)
        if not isinstance(values, Mapping):
            return
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


# ---- results that other tools write as JSON ------------------------------------------------------

#: Measure, dataset, method and value.
Row = tuple[str, str, str, float]
#: Characters of a file, and rows of results.
_LARGEST, _MOST = 200_000_000, 1_000_000


@dataclass(frozen=True)
class Tool:
    """A tool: its name, whether what a file holds is of it, and the results in that."""

    name: str
    is_of: Callable[[Any], bool]
    rows: Callable[[Any], Iterator[Row]]


def _with_keys(*keys: str) -> Callable[[Any], bool]:
    """Whether it is a mapping with these keys, the first of which holds another."""
    return lambda held: (
        isinstance(held, dict) and {*keys} <= held.keys() and isinstance(held[keys[0]], dict)
    )


def _numeric_scores(scores: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The measures that are numbers, without standard errors; a filter that is none goes unsaid."""
    for key, value in scores.items():
        name, _, filtered = key.partition(",")
        is_error = name.endswith("stderr")
        if isinstance(value, int | float) and not isinstance(value, bool) and not is_error:
            yield name if filtered in ("", "none") else f"{name}/{filtered}", float(value)


def _of_tasks(held: Any, method: Any, means: Collection[str]) -> Iterator[Row]:
    """Results by task, without the means of tasks."""
    for task, scores in held["results"].items():
        if task not in means:
            for measure, value in _numeric_scores(scores):
                yield measure, task, str(method), value


def _harness(held: Any) -> Iterator[Row]:
    """lm-evaluation-harness: groups are means of their tasks."""
    config = held["config"]
    method = held.get("model_name") or config.get("model_args") or config.get("model")
    means = [group for group, of in (held.get("group_subtasks") or {}).items() if of]
    return _of_tasks(held, method, means)


def _tables(held: Any) -> list[Any]:
    return held if isinstance(held, list) else [held]


def _helm(held: Any) -> Iterator[Row]:
    """HELM: tables whose rows are models; a column is a scenario, or says scenario and metric."""
    for table in _tables(held):
        header = [str(cell["value"]) for cell in table["header"]]
        for row in table["rows"]:
            model = str(row[0]["value"])
            for column, cell in zip(header[1:], row[1:], strict=True):
                dataset, _, metric = column.partition(" - ")
                if isinstance(value := cell.get("value"), int | float) and metric:
                    yield metric, dataset, model, float(value)


def _promptfoo(held: Any) -> Iterator[Row]:
    """promptfoo: a result a test, prompt and provider; score and passing are means over tests."""
    results = held["results"]["results"]
    several = len({result.get("promptIdx", 0) for result in results}) > 1
    cells: dict[tuple[str, str], list[float]] = {}
    for result in results:
        provider = result["provider"]
        method = str(provider.get("label") or provider["id"])
        method += f" (prompt {result['promptIdx']})" if several else ""
        cells.setdefault(("score", method), []).append(float(result["score"]))
        cells.setdefault(("pass_rate", method), []).append(float(bool(result["success"])))
    dataset = str((held.get("config") or {}).get("description") or "tests")
    for (measure, method), values in cells.items():
        yield measure, dataset, method, sum(values) / len(values)


def _evals(held: Any) -> Iterator[Row]:
    """OpenAI evals: lines, of which the first says what ran, and one how it ended."""
    spec = held[0]["spec"]
    names = spec.get("completion_fns") or [spec.get("model_name")]
    for line in held:
        for measure, value in _numeric_scores(line.get("final_report") or {}):
            yield measure, str(spec["eval_name"]), ", ".join(map(str, names)), value


#: The tools whose files are read, in the order in which they are tried.
TOOLS = (
    Tool(  # as leaderboards of Hugging Face keep it: "all" is the mean of the tasks
        "lighteval",
        _with_keys("results", "config_general"),
        lambda held: _of_tasks(held, held["config_general"]["model_name"], ["all"]),
    ),
    Tool(
        "promptfoo",
        lambda held: (
            _with_keys("results")(held) and isinstance(held["results"].get("results"), list)
        ),
        _promptfoo,
    ),
    Tool("lm-evaluation-harness", _with_keys("results", "config"), _harness),
    Tool(
        "OpenAI evals",
        lambda held: isinstance(held, list) and any(map(_with_keys("spec"), held[:1])),
        _evals,
    ),
    Tool(
        "HELM",
        lambda held: (
            bool(held)
            and all(
                isinstance(table, dict) and {"title", "header", "rows"} <= table.keys()
                for table in _tables(held)
            )
        ),
        _helm,
    ),
)


def tool_results(text: str, name: str) -> list[Row] | None:
    """The results in a file of one of `TOOLS`, None where it is of none."""
    if len(text) > _LARGEST:
        return None
    try:
        held = json.loads(text)
    except ValueError:
        try:
            held = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            return None
    except RecursionError:
        return None
    tool = next((tool for tool in TOOLS if tool.is_of(held)), None)
    if tool is None:
        return None
    try:
        rows = [row for row in tool.rows(held) if math.isfinite(row[3])]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        why = " ".join(str(error).split())[:100]
        raise ImportFileError(
            f"{name} is no file of {tool.name} that can be read: {type(error).__name__}: {why}."
        ) from error
    if not 0 < len(rows) <= _MOST:
        raise ImportFileError(f"{name} holds {len(rows):,} results of {tool.name}.")
    return rows
