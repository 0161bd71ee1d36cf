"""Files of results, read strictly: what is broken is named by its line."""

from __future__ import annotations

import ast
import csv
import io
import itertools
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
from typing import Any, TextIO

import numpy as np
import pandas as pd

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.sentences import count, measure_name_problem, quoted, some, text_problem
from mlflow_mleval.validation import in_pandas, of_kind

# ---- what readers of files share -----------------------------------------------------------------

#: What is no text: NUL, and bytes that are no UTF-8, as Python reads them.
_NO_TEXT = re.compile("[\0\udc80-\udcff]")


def csv_rows(file: TextIO, name: str, longest: int) -> Iterator[tuple[int, list[str]]]:
    """Line and stripped cells of each row that has any; of a file that has bytes that are no UTF-8
    as surrogates, and no row of more characters than `longest`."""

    def lines() -> Iterator[str]:
        for at in itertools.count(1):
            line = file.readline(longest + 1)
            if len(line) > longest:
                why = f"no row of a table has more than {longest:,} characters"
                raise ImportFileError(f"{name}, line {at}: {why}.")
            if odd := _NO_TEXT.search(line):
                where = f"{name}, line {at}, column {1 + line.count(',', 0, odd.start())}"
                byte = f"byte 0x{ord(odd[0]) % 256:02x}"
                raise ImportFileError(f"{where}: {byte} is not UTF-8 text. Save it as UTF-8.")
            if not line:
                return
            yield line

    reader = csv.reader(lines(), strict=True)
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
        if any(cells) or len(cells) > 1:
            yield at, cells


def unreadable(path: str | Path, error: OSError) -> ImportFileError:
    """The error of a file that the system does not let us read."""
    return ImportFileError(f"cannot read {str(path)!r}: {error.strerror or error}.")


def reason(error: Exception) -> str:
    """The text of an error of a library, short enough to be part of a sentence."""
    return " ".join(str(error).split())[:200].rstrip(".")


def columns_shown(header: Sequence[str]) -> str:
    """The first columns of a table that lacks others."""
    return (", ".join(map(quoted, header[:8])) or "none") + (" …" if len(header) > 8 else "")


# ---- tables as they stand there ------------------------------------------------------------------

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
#: How tables write that there is no value.
_BLANK = ("-", "--", "–", "—", "n/a")
#: A value as people write it: a percentage, with its spread, marked by a footnote.
_WRITTEN = re.compile(
    r"(?P<value>[+-]?[\d.]+)\s*(?P<percent>%?)"
    r"\s*(?P<spread>(±|\+/-)\s*[\d.]+\s*%?|\([\d.]+%?\))?\s*[*†‡§]*",
    re.ASCII,
)


@dataclass
class SourceTable:
    """Cells of any source as they stand there, whose index calls a row as a reader finds it."""

    name: str
    cells: pd.DataFrame
    notes: dict[str, list[str]] = field(default_factory=dict)  #: what was read how, and where

    @property
    def header(self) -> list[str]:
        return list(self.cells)

    @property
    def board(self) -> tuple[pd.Series, pd.DataFrame]:
        """As a leaderboard: the methods, of the column of that name, else the first; others."""
        at = self.header.index("method") if "method" in self.header else 0
        others = np.arange(len(self.header)) != at
        return self.cells.iloc[:, at], self.cells.iloc[:, others]

    def problem(self, row: str, column: str, text: str) -> ImportFileError:
        """What is wrong with a cell, to be raised."""
        return ImportFileError(f"{self.name}, {row}, column {quoted(column)}: {text}")

    def note(self, what: str, where: str) -> None:
        """That this was read so there."""
        places = self.notes.setdefault(what, [])
        if where not in places:
            places.append(where)

    def check_names(self, one_may_lack: bool = False) -> None:
        """Raise where columns have no name, or that of another."""
        lacking = [i for i, column in enumerate(self.header) if not column]
        if len(lacking) > one_may_lack:
            raise ImportFileError(
                f"{self.name}: column {lacking[0] + 1} has no name. In pandas, write index=False."
            )
        if twice := sorted({*self.cells.columns[self.cells.columns.duplicated()]}):
            columns = ", ".join(map(quoted, twice))
            raise ImportFileError(f"{self.name}: the column {columns} occurs twice in the header.")

    def check_measures(self, columns: Iterable[str]) -> None:
        """Raise where a column cannot be called as a measure."""
        for column in columns:
            if why := measure_name_problem(column):
                raise self.problem("header", column, f"cannot name a metric: {why}.")

    def texts(self, cells: pd.Series) -> pd.Series:
        """The names that a column holds."""
        column = cells.name or "method"
        held = ["" if _is_empty(cell) else str(cell).strip() for cell in cells]
        texts = pd.Series(held, cells.index, dtype=object)
        for row, text in texts.drop_duplicates().items():
            if why := text_problem(text):
                raise self.problem(row, column, f"the name of the {column} {why}.")
            if column == "measure" and (why := measure_name_problem(text)):
                raise self.problem(row, column, f"{quoted(text)} cannot name a metric: {why}.")
        return texts

    def numbers(self, cells: pd.Series) -> list[float]:
        """The values that a column holds, NaN where a cell is empty."""
        values = []
        for row, cell in cells.items():
            plain = _plain_cell(cell, lambda what: self.note(what, cells.name))
            values.append(_value(plain))
            if not (math.isfinite(values[-1]) or _is_empty(plain)):
                how = "Leave the cell empty for a method that did not finish."
                why = f"{quoted(plain)} is not a finite number. {how}"
                raise self.problem(row, cells.name, why)
        return values

    def seeds(self, cells: pd.Series) -> list[str]:
        """The seeds as text: all are numbers, or none."""
        texts = self.texts(cells)
        is_word = ~texts.map(_is_number).astype(bool)
        if is_word.any() and not is_word.all():
            word = quoted(texts[is_word].iloc[0])
            why = f"{word} is no number, as other seeds are. Use one kind."
            raise self.problem(is_word.idxmax(), cells.name, why)
        return [text.removesuffix(".0") for text in texts]  # as tables with gaps write whole ones

    def folds(self, cells: pd.Series) -> list[int | None]:
        """The numbers of folds that a column holds."""
        folds: list[int | None] = []
        for row, cell in cells.items():
            number = _value(cell)
            is_fold = number.is_integer() and 0 <= number < 2**31
            folds.append(int(number) if is_fold else None)
            if not (is_fold or _is_empty(cell)):
                raise self.problem(row, "fold", f"{quoted(cell)} is not a fold number (0, 1, 2 …).")
        return folds


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
            return _from_frame(pd.read_parquet(io.BytesIO(content)), name)
        except Exception as error:  # pyarrow raises many kinds for a damaged file
            why = f"is not a parquet file that can be read: {reason(error)}"
            raise ImportFileError(f"{name} {why}.") from error
    if path.suffix.lower() in (".json", ".jsonl"):
        results = tool_results(content.decode("utf-8-sig", "surrogateescape"), name)
        if results is None:
            known = some(TOOLS, len(TOOLS))
            why = "is JSON of none of the tools whose results are read"
            raise ImportFileError(f"{name} {why}: {known}.")
        rows = [f"result {i}" for i, _ in enumerate(results, 1)]
        return SourceTable(name, pd.DataFrame(results, rows, [*LONG_COLUMNS], dtype=object))
    return _from_csv(content, name)


def _from_frame(frame: pd.DataFrame, name: str) -> SourceTable:
    named = any(level is not None for level in frame.index.names)
    if "method" not in frame and not named and frame.index.inferred_type == "string":
        frame = frame.rename_axis("method")
        named = True
    frame = frame.reset_index(drop=not named).astype(object)
    rows = [f"row {i}" for i in range(1, 1 + len(frame))]
    return SourceTable(name, frame.set_axis([str(c).strip() for c in frame], axis=1).set_axis(rows))


def _from_csv(content: bytes, name: str) -> SourceTable:
    file = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", "surrogateescape", newline="")
    lines = csv_rows(file, name, MAX_LINE)
    _, header = next(lines, (0, []))
    if not header:
        raise ImportFileError(f"{name} is empty. It needs the columns {', '.join(LONG_COLUMNS)}.")
    for sign, called in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and sign in header[0]:
            why = f"its columns are separated by {called}"
            raise ImportFileError(f"{name}: {why}. Separate columns by commas.")
    rows, n = {f"line {line}": cells for line, cells in lines}, len(header)
    for line, cells in rows.items():
        if len(cells) != n:
            why = f"the row has {count(len(cells), 'cell')}, the header has {n}"
            raise ImportFileError(f"{name}, {line}: {why}. Separate columns by commas.")
    return SourceTable(name, pd.DataFrame([*rows.values()], [*rows], header, dtype=object))


def _is_empty(cell: object) -> bool:
    if isinstance(cell, str):
        return not cell.strip()
    return pd.api.types.is_scalar(cell) and bool(pd.isna(cell))


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


def _value(cell: Any) -> float:
    """The number that a cell is; NaN where it is none, or too large for one."""
    with suppress(OverflowError):
        return float(cell) if _is_number(cell) else math.nan
    return math.nan


# ---- tables of results ---------------------------------------------------------------------------

#: By what columns a benchmark is known, and what they are called here.
_BENCHMARKS = (  # AutoML benchmark, TabArena
    {"metric": "measure", "task": "dataset", "framework": "method", "result": "value"},
    {"dataset": "dataset", "method": "method", "metric_error": "metric_error"},
    {"dataset": "dataset", "framework": "method", "metric_error": "metric_error"},
)


def read_results(source: str | Path | pd.DataFrame, *, name: str | None = None) -> pd.DataFrame:
    """Results as a tidy table: dataset, method, seed and fold where there are any, measure, value
    (NaN where empty). ImportFileError names row and column, `attrs["notes"]` how cells are read."""
    return tidy(with_names_known_here(read_cells(source, name=name)))


def with_names_known_here(table: SourceTable) -> SourceTable:
    """The table whose columns Model, Dataset and Seed are called method, dataset and seed."""
    spelled = {column.lower(): column for column in reversed(table.header)}
    known = [*IDENTITY, *SEEDS, "fold", INSTANCE]
    if {*LONG_COLUMNS} - {*IDENTITY} <= spelled.keys():
        known += LONG_COLUMNS
    names = {spelled[name]: name for name in known if name in spelled}
    if "method" not in spelled and "model" in spelled:
        names[spelled["model"]] = "method"
    names = {column: name for column, name in names.items() if name not in table.header}
    return replace(table, cells=table.cells.rename(columns=names)) if names else table


def tidy(table: SourceTable) -> pd.DataFrame:
    """The results of a table with names known here, as `read_results` gives them."""
    for columns in _BENCHMARKS:  # of which only what holds results counts
        kept = {**columns, "fold": "fold"}
        if {*kept} <= {*table.header} and not {"measure", "value"} & {*table.header}:
            at = [table.header.index(column) for column in kept]
            table = replace(table, cells=table.cells.iloc[:, at].set_axis([*kept.values()], axis=1))
    is_board = is_leaderboard(table)
    table.check_names(is_board and not table.board[0].name)
    if {*SEEDS} <= {*table.header}:
        why = "both a column 'seed' and a column 'repeat' tell repeats apart"
        raise ImportFileError(f"{table.name}: {why}. Remove one of them.")
    if is_board:
        table = _in_one_scale(with_datasets_alone(table))
    else:
        _check_columns(table)
    if table.cells.empty:
        raise ImportFileError(f"{table.name} has a header but no rows.")
    values = _values_of_table(table)
    _check_given_once(table, values)
    names = ["dataset", "method", "seed", "fold", "measure", "value"]
    left = [name for name in ("seed", "fold") if values[name].isna().all()]
    frame = values[names].drop(columns=left).infer_objects()
    frame.attrs["notes"] = [f"{what}: {some(at, 4)}." for what, at in table.notes.items()]
    return frame


def _check_columns(table: SourceTable) -> None:
    """What a value is of is told; other columns are measures, and in a long table there is none."""
    header = table.header
    is_long = "measure" in header or "value" in header
    needed = LONG_COLUMNS if is_long else IDENTITY
    if INSTANCE in header:
        why = f"the column {INSTANCE!r} says that its rows are answers"
        hint = "Import it with mleval import, and compare them with mleval compare."
        raise ImportFileError(f"{table.name}: {why}. {hint}")
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
    table.check_measures(others)


def _values_of_table(table: SourceTable) -> pd.DataFrame:
    """Each value with what it is of, its row and its column: one a row of a long table, one a
    measure of a wide one, one a dataset of a leaderboard."""
    cells = table.cells
    names = {name: cells[name] for name in (*IDENTITY, "measure") if name in cells}
    named = "column" if "measure" in cells else "measure"  # what further columns are the names of
    if is_leaderboard(table):
        named, names = "dataset", {"method": table.board[0]}
    held: dict[str, Any] = {"measure": "value", "fold": None, "seed": None}
    for seed in {*SEEDS}.intersection(cells):
        held["seed"] = table.seeds(cells[seed])
    held |= {name: table.texts(column) for name, column in names.items()}
    if "fold" in cells:
        held["fold"] = table.folds(cells["fold"])
    beside = {*SEEDS, "fold", *(column.name for column in names.values())}
    columns = [column for column in cells if column not in beside]
    values = np.column_stack([table.numbers(cells[column]) for column in columns])
    frame = pd.DataFrame(held, cells.index, dtype=object).astype({"fold": "Int64"})
    frame = frame.rename_axis("row").reset_index()
    frame = frame.loc[frame.index.repeat(len(columns))].reset_index(drop=True)
    frame["column"] = np.array(columns * len(values), dtype=object)
    frame[named] = frame["column"]
    return frame.assign(value=values.ravel())


def _check_given_once(table: SourceTable, values: pd.DataFrame) -> None:
    """Raise where a value is given twice, or both with and without folds."""
    keys = ["dataset", "method", "seed", "measure"]
    twice = values.duplicated([*keys, "fold"])
    has_fold = values["fold"].notna()
    is_mixed = has_fold & False
    if has_fold.any() and not has_fold.all():
        same = [values[key] for key in keys]
        is_mixed = has_fold != has_fold.groupby(same, dropna=False).transform("first")
    for row in values[twice | is_mixed].head(1).itertuples():
        what = f"{row.measure} of {quoted(row.method)} on {quoted(row.dataset)}"
        what += "" if pd.isna(row.seed) else f" with seed {quoted(row.seed)}"
        what += "" if pd.isna(row.fold) else f" in fold {row.fold}"
        why = "given twice" if twice[row.Index] else "given both with and without a fold"
        raise table.problem(row.row, row.column, f"{what} is {why}.")


# ---- leaderboards: rows are methods, columns datasets --------------------------------------------

#: What a column or row of a leaderboard is called that is the mean of the others.
_MEANS = re.compile(r"(the )?(avg|average|mean|overall|macro[ -]avg)\.?( score)?\W*", re.IGNORECASE)
#: How columns begin that say what a model is.
_OF_MODELS = re.compile(r"#?\s?param|hub |co.? cost|size\b|available on|flagged|moe$", re.I)
_A_MEAN = "it is called the mean of the others"
#: Plain numbers above this are out of 100.
LARGEST_SHARE = 1.5


def is_leaderboard(table: SourceTable) -> bool:
    """Whether rows are methods and columns datasets: no other name, and most cells numbers."""
    told = {"dataset", *SEEDS, "fold", INSTANCE, "measure", "value", *MEASURES}
    if len(table.header) < 2 or not told.isdisjoint(table.header):
        return False
    methods, others = table.board
    if methods.name != "method" and methods.map(_is_number).all():
        return False
    cells = [_plain_cell(cell) for cell in others.to_numpy().ravel() if not _is_empty(cell)]
    enough = 2 * sum(map(_is_number, cells)) > len(cells)
    return enough or any(map(_MEANS.fullmatch, others))


def with_datasets_alone(table: SourceTable) -> SourceTable:
    """The leaderboard without means and columns that are no datasets; `notes` names them."""
    left = replace(table, notes={})
    methods, others = table.board
    kept = [methods]
    for column, cells in others.items():
        held = [_plain_cell(cell) for cell in cells if not _is_empty(cell)]
        is_raw = column.removesuffix(" Raw") in {*table.header} - {column}
        if _MEANS.fullmatch(column):
            why = _A_MEAN
        elif held and not any(map(_is_number, held)) and len(cells) > 1:
            why = "it holds no number"
        elif is_raw or _OF_MODELS.match(column):
            why = "it is no result, or one that is there already"
        else:
            kept.append(cells)
            continue
        left.note(f"Left out of the leaderboard, for {why}", column)
    if len(kept) == 1:
        return table
    is_mean = np.array([bool(_MEANS.fullmatch(str(name).strip())) for name in methods])
    is_mean &= len(methods) > 2
    for name in methods[is_mean]:
        left.note(f"Left out of the leaderboard, for {_A_MEAN}", str(name).strip())
    left.cells = pd.concat(kept, axis=1)[~is_mean]
    return left


def _in_one_scale(table: SourceTable) -> SourceTable:
    """The leaderboard; beside 90.5 a cell of 84.6% is 84.6, too, and `notes` says so."""
    methods, others = table.board
    if not any(abs(_value(cell)) > LARGEST_SHARE for cell in others.to_numpy().ravel()):
        return table
    is_percent = others.map(lambda cell: isinstance(cell, str) and "%" in cell)
    for column in others.columns[is_percent.any()]:
        table.note("Percentages stay numbers out of 100, like the columns beside them", column)
    plain = others.map(lambda cell: cell.replace("%", "") if isinstance(cell, str) else cell)
    return replace(table, cells=pd.concat([methods, plain], axis=1))


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
    for label, *cells in table.cells.itertuples(name=None):
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
#: The tools whose files are read.
TOOLS = ("lighteval", "promptfoo", "lm-evaluation-harness", "OpenAI evals", "HELM")


def _numeric_scores(scores: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The measures that are numbers, without standard errors; a filter that is none goes unsaid."""
    for key, value in scores.items():
        name, _, filtered = key.partition(",")
        is_error = name.endswith("stderr")
        if isinstance(value, int | float) and not isinstance(value, bool) and not is_error:
            yield name if filtered in ("", "none") else f"{name}/{filtered}", float(value)


def _of_tasks(held: Any) -> Iterator[Row]:
    """Results by task of lighteval, as leaderboards of Hugging Face keep it, or of
    lm-evaluation-harness; without means of tasks, which are "all" of the one, groups of the other.
    """
    if "config_general" in held:
        method, means = held["config_general"]["model_name"], ["all"]
    else:
        config = held["config"]
        method = held.get("model_name") or config.get("model_args") or config.get("model")
        means = [group for group, of in (held.get("group_subtasks") or {}).items() if of]
    for task, scores in held["results"].items():
        if task not in means:
            for measure, value in _numeric_scores(scores):
                yield measure, task, str(method), value


def _helm(held: Any) -> Iterator[Row]:
    """HELM: tables whose rows are models; a column is a scenario, or says scenario and metric."""
    for table in held if isinstance(held, list) else [held]:
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
    match held:
        case {"results": dict(), "config_general": _}:
            tool, found = "lighteval", _of_tasks(held)
        case {"results": {"results": [*_]}}:
            tool, found = "promptfoo", _promptfoo(held)
        case {"results": dict(), "config": _}:
            tool, found = "lm-evaluation-harness", _of_tasks(held)
        case [{"spec": dict()}, *_]:
            tool, found = "OpenAI evals", _evals(held)
        case {"title": _, "header": _, "rows": _} | [{"title": _, "header": _, "rows": _}, *_]:
            tool, found = "HELM", _helm(held)
        case _:
            return None
    try:
        rows = [row for row in found if math.isfinite(row[3])]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        why = f"{type(error).__name__}: {reason(error)}"
        raise ImportFileError(f"{name} is no file of {tool} that can be read: {why}.") from error
    if not 0 < len(rows) <= _MOST:
        raise ImportFileError(f"{name} holds {len(rows):,} results of {tool}.")
    return rows
