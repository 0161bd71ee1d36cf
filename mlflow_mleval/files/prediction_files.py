"""Further files of predictions: one label of several classes, and sparse matrices of labels and
scores.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from scipy import sparse

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.results import (
    columns_shown,
    csv_rows,
    reason,
    unreadable,
)
from mlflow_mleval.validation import Array, Ints
from mlflow_mleval.words import quoted, some

#: Called with how much is read and how much there is.
Progress = Callable[[int, int], None]
#: Arguments of `evaluate`, or of `evaluate_hierarchical`, of some rows.
Batch = dict[str, Any]
Batches = Iterator[Batch]
#: The column of the fold.
FOLD = "fold"


@dataclass(frozen=True)
class PredictionFile:
    """What a file holds."""

    #: The K labels, or the classes of class sets; None where the classes are those that occur.
    names: tuple[Any, ...] | None
    inputs: tuple[str, ...]  # what each batch holds beside the truth: y_score, y_pred; or pred_sets
    ignored: tuple[str, ...]  # columns that are not used
    batches: Batches  # read once


def fold_name(text: str) -> int | str:
    """The name of a fold: a number where it looks like one."""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else text


# --------------------------------------------------------------------------------------------------
# Files of predictions of one label of several classes, read some rows at a time; what is broken is
# named by its line.

_ROWS = 1 << 15  # rows that are read together
#: What columns are called of which there is one.
_SINGLE_COLUMNS = {
    "true": ("true", "y_true"),
    "pred": ("pred", "y_pred"),
    "score": ("score", "y_score"),
    "fold": (FOLD,),
}
#: Sums of probabilities this close to 1 need no other reason than single precision.
_SINGLE = 1e-6
#: Decimals and significant digits to which probabilities may have been rounded; with more, sums
#: differ less than that.
_DIGITS = range(1, 8)
#: Where a row stands, and its cells.
_Row = tuple[str, Sequence[Any]]


def open_classes(path: Path, start: bytes, progress: Progress) -> PredictionFile | None:
    """Open a table with a column ``true`` of classes, or an npz file with a vector ``y_true``; None
    where it is another file.

    Beside it stand ``pred`` with the predicted class, ``score_CLASS`` for each class or ``score``
    for the second of two, and ``fold``; a leading ``y_`` does not matter. Classes are text. They
    are those of the scores, else all that occur, sorted.
    """
    if start in (b"PK\3\4", b"PK\5\6"):
        return _open_npz(path, progress)
    try:
        header, rows = (
            _parquet_rows(path, progress) if start == b"PAR1" else _csv_file_rows(path, progress)
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None  # the reader of label sets says what is wrong
    columns = _class_columns(header, path.name)
    if columns is None:
        return None
    names = columns.names(rows, path.name)
    batches = _class_batches(rows(), columns, set(names), path.name)
    return PredictionFile(names, columns.inputs, columns.ignored, batches)


@dataclass(frozen=True)
class _ClassColumns:
    """Which column of a table of one label holds what, by its place."""

    header: Sequence[str]
    true: int
    pred: int | None
    score: int | None  # of the second of two classes
    fold: int | None
    scores: Mapping[str, int]  # by class

    @property
    def of_classes(self) -> dict[str, int]:
        """Where classes stand, by argument of `evaluate`."""
        places = {"y_true": self.true, "y_pred": self.pred}
        return {name: place for name, place in places.items() if place is not None}

    @property
    def of_scores(self) -> list[int]:
        """Where scores stand."""
        return [*self.scores.values()] or [place for place in [self.score] if place is not None]

    @property
    def inputs(self) -> tuple[str, ...]:
        given = {"y_score": bool(self.of_scores), "y_pred": self.pred is not None}
        return tuple(name for name, there in given.items() if there)

    @property
    def ignored(self) -> tuple[str, ...]:
        used = {*self.of_classes.values(), *self.of_scores, self.fold}
        return tuple(column for i, column in enumerate(self.header) if i not in used)

    def names(self, rows: Callable[[], Iterator[_Row]], file: str) -> tuple[str, ...]:
        """The classes: those of the scores, else all that occur, sorted."""
        if self.scores:
            return tuple(self.scores)
        places = self.of_classes.values()
        names = {_class(row, self.header, place) for row in rows() for place in places}
        if self.score is not None and len(names) != 2:
            raise ImportFileError(
                f"{file}: a column score is that of the second of two classes, and there are "
                f"{len(names)} ({some(sorted(names), 8)}). Add one column score_CLASS for each "
                "class; measurements of a regression are not evaluated."
            )
        return tuple(sorted(names))


def _class_columns(header: Sequence[str], file: str) -> _ClassColumns | None:
    """Which column holds what; None where the table is of label sets."""
    places: dict[str, int | None] = {}
    for kind, spellings in _SINGLE_COLUMNS.items():
        at = [i for i, column in enumerate(header) if column in spellings]
        if len(at) > 1:
            raise ImportFileError(f"{file}: two columns hold {kind}. Remove one.")
        places[kind] = at[0] if at else None
    true = places.pop("true")
    if true is None or any(column.startswith(("true_", "y_true_")) for column in header):
        return None
    scores = {
        column.partition("score_")[2]: i
        for i, column in enumerate(header)
        if column.startswith(("score_", "y_score_"))
    }
    if not scores and places["pred"] is None and places["score"] is None:
        raise ImportFileError(
            f"{file} has the column {header[true]} and no predictions. Add a column pred, "
            "score_CLASS, or both."
        )
    return _ClassColumns(header, true, scores=scores, **places)


def _class_batches(
    rows: Iterator[_Row],
    columns: _ClassColumns,
    names: set[str],
    file: str,
) -> Batches:
    header = columns.header
    empty = True
    while part := list(islice(rows, _ROWS)):
        empty = False
        batch: Batch = {
            name: [_class(row, header, place, names) for row in part]
            for name, place in columns.of_classes.items()
        }
        if places := columns.of_scores:
            scores = np.array([[_number(row, header, place) for place in places] for row in part])
            batch["y_score"] = scores if columns.scores else scores[:, 0]
        if columns.fold is not None:
            batch["folds"] = [fold_name(_class(row, header, columns.fold)) for row in part]
        yield batch
    if empty:
        raise ImportFileError(f"{file} has a header but no rows.")


def unrounded(scores: Any) -> tuple[Any, str]:
    """Rounded probabilities of classes divided by their sums, and what to say of it; other scores
    as they are.

    Rounding moves each of C probabilities by half a unit of its last decimal, or of its last
    significant digit, at most.

    >>> unrounded(np.array([[0.333, 0.333, 0.333], [0.5, 0.25, 0.25]]))[1]
    'probabilities were rounded: in each row they are divided by their sum, such as 0.999'
    >>> unrounded(np.array([[0.333, 0.333, 0.233]]))[1]
    ''
    """
    if np.ndim(scores) != 2 or scores.dtype.kind != "f" or scores.min() < 0 or scores.max() > 1:
        return scores, ""
    sums = scores.sum(axis=1)
    off = np.abs(sums - 1)
    exact = off.max() <= np.sqrt(np.finfo(float).eps)
    if exact or not (off <= _by_rounding(scores) + _SINGLE).all() or not sums.all():
        return scores, ""
    note = "probabilities were rounded: in each row they are divided by their sum, such as"
    return scores / sums[:, None], f"{note} {sums[off.argmax()]:.9g}"


def _by_rounding(scores: Array) -> Array:
    """How far off 1 rounding can bring the sum of each row: to as many decimals, or digits, as all
    numbers have at most.
    """
    first = 10.0 ** np.floor(
        np.log10(np.where(scores > 0, scores, 1.0))
    )  # what the first digit counts
    by_decimals = scores.shape[1] * 0.5 * _last_place(scores)
    by_digits = (first * (scores > 0)).sum(axis=1) * 0.5 * _last_place(scores / first)
    return np.maximum(by_decimals, by_digits)


def _last_place(numbers: Array) -> float:
    """What the last of the decimals counts that all numbers have at most; 0 where they have
    many.
    """
    return next(
        (10.0**-d for d in _DIGITS if np.abs(np.round(numbers, d) - numbers).max() < 1e-12), 0.0
    )


def _class(row: _Row, header: Sequence[str], place: int, names: set[str] | None = None) -> str:
    """The class in a cell."""
    where, cells = row
    text = "" if cells[place] is None else str(cells[place])
    if not text or text == "nan":
        raise ImportFileError(f"{where}, column {quoted(header[place])}: the row has none.")
    if names is not None and text not in names:
        raise ImportFileError(
            f"{where}, column {quoted(header[place])}: {quoted(text)} is none of the classes with "
            f"scores ({some(map(repr, sorted(names)), 8)})."
        )
    return text


def _number(row: _Row, header: Sequence[str], place: int) -> float:
    where, cells = row
    try:
        value = float(cells[place])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ImportFileError(
            f"{where}, column {quoted(header[place])}: {quoted(cells[place])} is not a finite "
            "number."
        )
    return value


def _csv_file_rows(
    path: Path,
    progress: Progress,
) -> tuple[list[str], Callable[[], Iterator[_Row]]]:
    """The header of a CSV file, and what reads its rows."""
    total = path.stat().st_size

    def cells() -> Iterator[tuple[int, list[str]]]:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from ((at, row) for at, row in csv_rows(file, 1, path.name) if row)

    def rows() -> Iterator[_Row]:
        read = 0
        for i, (at, row) in enumerate(cells()):
            read += sum(map(len, row)) + len(row)
            if i % _ROWS == 0:
                progress(min(read, total), total)
            if i and len(row) != len(header):
                raise ImportFileError(
                    f"{path.name}, line {at}: the row has {len(row)} cells, the header has "
                    f"{len(header)}."
                )
            if i:
                yield f"{path.name}, line {at}", row
        progress(total, total)

    try:
        header = next(cells(), (0, []))[1]
    except ImportFileError:
        header = []  # the reader of label sets says it
    return header, rows


def parquet_batches(
    file: parquet.ParquetFile,
    name: str,
    progress: Progress,
    size: int,
    columns: list[str] | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Some rows at a time, with the number of rows before them; ImportFileError where the file is
    damaged.
    """
    done = 0
    try:
        for batch in file.iter_batches(size, columns=columns, use_threads=False):
            yield done, batch
            done += len(batch)
            progress(done, file.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise ImportFileError(
            f"{name}, behind row {done}: the file is damaged: {reason(error)}."
        ) from error


def _parquet_rows(path: Path, progress: Progress) -> tuple[list[str], Callable[[], Iterator[_Row]]]:
    file = parquet.ParquetFile(path)

    def rows() -> Iterator[_Row]:
        for done, batch in parquet_batches(file, path.name, progress, _ROWS):
            columns = (column.to_pylist() for column in batch.columns)
            for row, cells in enumerate(zip(*columns, strict=True), done + 1):
                yield f"{path.name}, row {row}", cells

    return file.schema_arrow.names, rows


def _open_npz(path: Path, progress: Progress) -> PredictionFile | None:
    """A vector y_true with y_score, y_pred or both, read at once; None where there is none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if "y_true" not in file.files or file["y_true"].ndim != 1:
                return None
            arrays = {name: file[name] for name in file.files}
    except Exception:  # damaged or of objects: the reader of label sets says it
        return None
    inputs = tuple(name for name in ("y_score", "y_pred") if name in arrays)
    if not inputs:
        raise ImportFileError(
            f"{path.name} has y_true and no predictions. Add y_score, y_pred or both."
        )
    batch = {name: arrays[name] for name in ("y_true", *inputs, "folds") if name in arrays}
    names = tuple(arrays["label_names"].tolist()) if "label_names" in arrays else None
    progress(1, 1)
    ignored = tuple(name for name in arrays if name not in (*batch, "label_names"))
    return PredictionFile(names, inputs, ignored, iter([batch]))


# --------------------------------------------------------------------------------------------------
# Sparse matrices of labels and scores in files: CSR of SciPy, text of the XMC repository, svmlight,
# parquet with lists.
#
# What is broken is named by its line.

_LINES = 1 << 14  # lines of text, and rows of matrices, that are evaluated together
_LISTS = ("true", "pred", "scored", "score")


def open_matrices(
    path: str | Path,
    truth: str | Path,
    progress: Progress,
) -> PredictionFile:
    """Open a file of scores and a file of true labels, both over labels 0..K-1; row i of both is
    the same instance.

    Each is a CSR matrix that ``scipy.sparse.save_npz`` wrote, or text, see `read_matrix`.
    """
    score = read_matrix(path, labels=False)
    true = read_matrix(truth, labels=True)
    if score.shape[0] != true.shape[0]:
        raise ImportFileError(
            f"{Path(path).name} has {score.shape[0]} rows and {Path(truth).name} "
            f"{true.shape[0]}. Both need one an instance."
        )
    width = max(score.shape[1], true.shape[1])
    n = true.shape[0]

    def batches() -> Batches:
        for start in range(0, n, _LINES):
            parts = (sparse.csr_array(m[start : start + _LINES]) for m in (true, score))
            t, s = (
                sparse.csr_array((m.data, m.indices, m.indptr), shape=(m.shape[0], width))
                for m in parts
            )
            progress(min(start + _LINES, n), n)
            yield {"y_true": t, "y_score": s}

    return PredictionFile(tuple(range(width)), ("y_score",), (), batches())


def read_matrix(path: str | Path, labels: bool) -> sparse.csr_array:
    """A sparse matrix: CSR that ``scipy.sparse.save_npz`` wrote, or text with a line a row.

    A row is ``LABEL:VALUE LABEL:VALUE …``, labels counted from 0, below an optional first line
    ``ROWS COLUMNS``. Where true `labels` are read, it may also be ``LABEL,LABEL,… FEATURE:VALUE
    …``, as in svmlight and in the data of the XMC repository, whose first line is ``ROWS FEATURES
    LABELS``; the values of the features are not used. An ImportFileError names the line.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            packed = file.read(4) in (b"PK\3\4", b"PK\5\6")
        if packed:
            return _of_npz(path)
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            return _of_text(file, path.name, labels)
    except OSError as error:
        raise unreadable(path, error) from error


def _of_npz(path: Path) -> sparse.csr_array:
    try:
        matrix = sparse.csr_array(sparse.load_npz(path))
        matrix.check_format(full_check=True)
        return matrix
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        raise ImportFileError(
            f"{path.name} holds no sparse matrix: {reason(error)}. Write it by "
            "scipy.sparse.save_npz."
        ) from error


def _of_text(file: Any, name: str, labels: bool) -> sparse.csr_array:
    sizes = _promised(file.readline(), labels)
    if not sizes:
        file.seek(0)
    lines = _entries(file, name, labels, is_data=len(sizes) == 3, before=1 if sizes else 0)
    rows = list(lines)
    if not rows:
        raise ImportFileError(f"{name} is empty. It needs a line for each instance.")
    widths = [int(columns.max()) + 1 if len(columns) else 0 for columns, _ in rows]
    if sizes:
        n_rows = sizes[0]
        n_labels = sizes[-1]
        if len(rows) != n_rows:
            raise ImportFileError(
                f"{name}: the first line promises {n_rows} rows, and there are {len(rows)}."
            )
        if wide := [i for i, width in enumerate(widths) if width > n_labels]:
            raise ImportFileError(
                f"{name}, line {wide[0] + 2}: label {widths[wide[0]] - 1} where the first line "
                f"promises {n_labels} labels."
            )
    else:
        n_labels = max(1, *widths)
    ends = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    values = np.concatenate([values for _, values in rows])
    columns = np.concatenate([columns for columns, _ in rows])
    return sparse.csr_array((values, columns, ends), shape=(len(rows), n_labels))


def _promised(line: str, labels: bool) -> list[int]:
    """The sizes in an optional first line: rows and columns, or rows, features and labels."""
    parts = line.split()
    if not all(part.isdecimal() for part in parts):
        return []
    return [int(part) for part in parts] if len(parts) in ((2, 3) if labels else (2,)) else []


def _entries(
    file: Any,
    name: str,
    labels: bool,
    is_data: bool,
    before: int,
) -> Iterator[tuple[Ints, Array]]:
    """Labels and values of each line, of which some stand before."""
    for at, text in enumerate(file, before + 1):
        try:
            yield _labels_of(text, is_data) if labels else _pairs(text)
        except ValueError:
            wanted = "LABEL:VALUE pairs" + " or LABEL,LABEL,… FEATURE:VALUE pairs" * labels
            raise ImportFileError(
                f"{name}, line {at}: {quoted(text.strip()[:60])} is not {wanted}."
            ) from None


def _pairs(text: str) -> tuple[Ints, Array]:
    parts = [pair.partition(":") for pair in text.split()]
    if not all(colon for _, colon, _ in parts):
        raise ValueError(text)
    column = np.array([int(label) for label, _, _ in parts], np.int64)
    value = np.array([float(v) for _, _, v in parts])
    if (column < 0).any() or not np.isfinite(value).all():
        raise ValueError(text)
    return column, value


def _labels_of(text: str, data_file: bool) -> tuple[Ints, Array]:
    """The labels before the features, or those of the pairs."""
    first = text.partition(" ")[0].strip()
    if ":" in first and not data_file:
        return _pairs(text)
    column = np.array(
        [] if not first or ":" in first else [int(v) for v in first.split(",")], np.int64
    )
    if (column < 0).any():
        raise ValueError(text)
    return column, np.ones(len(column))


# ---- parquet with lists --------------------------------------------------------------------------


def open_lists(path: Path, progress: Progress) -> PredictionFile | None:
    """Open parquet whose column ``true`` holds a list of labels; None where it is another table.

    Beside it stand ``scored`` with a list of labels and ``score`` with their scores, ``pred`` with
    a list of labels, or both, and maybe ``fold``. The labels are all that occur, in order.
    """
    try:
        file = parquet.ParquetFile(path)
    except pa.ArrowException:
        return None  # another reader says what is wrong
    schema = file.schema_arrow
    lists = _columns_of_lists(schema, path.name)
    if not lists:
        return None
    of_scores = ["scored", "score"] if {"scored", "score"} <= lists else []
    predicted = ["pred"] if "pred" in lists else []
    if not of_scores and not predicted:
        raise ImportFileError(
            f"{path.name}: no column of predictions (it has {columns_shown(schema.names)}). Add "
            "scored (lists of labels) with score (lists of their scores), pred (lists of labels), "
            "or both."
        )
    names = _labels_in(file, ["true", *of_scores[:1], *predicted], path.name)
    inputs = ("y_score",) * bool(of_scores) + ("y_pred",) * bool(predicted)
    folds = [FOLD] if FOLD in schema.names else []
    used = ["true", *of_scores, *predicted, *folds]
    ignored = tuple(name for name in schema.names if name not in used)
    batches = _list_batches(file, path.name, names, used, progress)
    return PredictionFile(names, inputs, ignored, batches)


def _columns_of_lists(schema: pa.Schema, name: str) -> set[str]:
    """The columns that hold lists of labels or their scores; none where the truth is no list."""
    kinds = {column: schema.field(column).type for column in _LISTS if column in schema.names}
    lists = {
        c for c, kind in kinds.items() if pa.types.is_list(kind) or pa.types.is_large_list(kind)
    }
    if "true" not in lists:
        return set()
    for column, kind in kinds.items():
        if column not in lists:
            raise ImportFileError(
                f"{name}: the column {column} holds {kind} and true lists. It needs lists, too."
            )
    return lists


def _labels_in(file: parquet.ParquetFile, columns: list[str], name: str) -> tuple[Any, ...]:
    """All labels that occur in columns of lists, sorted."""
    labels: set[Any] = set()
    for _, batch in parquet_batches(file, name, lambda done, total: None, _LINES, columns):
        for column in batch.columns:
            labels.update(column.flatten().unique().to_pylist())
    if None in labels:
        raise ImportFileError(f"{name}: a list of labels holds null. Leave it out.")
    return tuple(sorted(labels))


def _list_batches(
    file: parquet.ParquetFile,
    name: str,
    names: tuple[Any, ...],
    used: list[str],
    progress: Progress,
) -> Batches:
    labels_there = pa.array(names)
    sources = {"y_true": "true", "y_score": "scored", "y_pred": "pred"}
    held = {key: column for key, column in sources.items() if column in used}
    for done, batch in parquet_batches(file, name, progress, _LINES, used):
        sides: Batch = {}
        for key, column in held.items():
            lists = batch[column]
            if lists.null_count:
                row = done + lists.is_null().to_pylist().index(True) + 1
                raise ImportFileError(
                    f"{name}, row {row}, column {column}: there is no list. An empty list is an "
                    "empty set."
                )
            lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
            ends = np.append(0, np.cumsum(lengths)).astype(np.int64)
            labels = lists.flatten().dictionary_encode()
            own = labels.dictionary.cast(labels_there.type)
            place = pa.compute.index_in(own, labels_there).to_numpy(zero_copy_only=False)
            columns = place[labels.indices.to_numpy(zero_copy_only=False)]
            values = np.ones(len(columns), bool)
            if key == "y_score":
                values = _scores_of(batch["score"], ends, name, done)
            sides[key] = sparse.csr_array((values, columns, ends), shape=(len(batch), len(names)))
            if sides[key].nnz != len(columns) or not _distinct(columns, ends):
                raise ImportFileError(
                    f"{name}, rows {done + 1} to {done + len(batch)}: a list of {column} names a "
                    "label twice."
                )
        if FOLD in used:
            sides["folds"] = batch[FOLD].to_pylist()
        yield sides


def _scores_of(scores: pa.Array, ends: Ints, name: str, done: int) -> Array:
    """The scores of lists of labels that end there; before them so many rows are done."""
    lengths = pa.compute.fill_null(scores.value_lengths(), -1).to_numpy(zero_copy_only=False)
    if len(wrong := np.flatnonzero(lengths != np.diff(ends))):
        row = done + int(wrong[0]) + 1
        raise ImportFileError(
            f"{name}, row {row}: scored and score have different numbers of elements."
        )
    values = scores.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)
    if len(wrong := np.flatnonzero(~np.isfinite(values))):
        row = done + int(np.searchsorted(ends, wrong[0], side="right"))
        raise ImportFileError(
            f"{name}, row {row}, column score: {values[wrong[0]]} is not a finite number."
        )
    return values


def _distinct(columns: Ints, ends: Ints) -> bool:
    row = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    order = np.lexsort((columns, row))
    return not ((np.diff(columns[order]) == 0) & (np.diff(row[order]) == 0)).any()
