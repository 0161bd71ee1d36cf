"""Tables of predictions, CSV and parquet, read some rows at a time; what is broken is named by its
line.
"""

from __future__ import annotations

import io
import itertools
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from scipy import sparse

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.results import check_separator, columns_shown, csv_rows, reason
from mlflow_mleval.sentences import quoted, some
from mlflow_mleval.validation import AnyArray, Bools

#: Called with how much is read and how much there is.
Progress = Callable[[int, int], None]
#: Arguments of `evaluate`, or of `evaluate_hierarchical`, of some rows.
Batch = dict[str, Any]
Batches = Iterator[Batch]
#: The column of the fold.
FOLD = "fold"

_NAMING = (
    "Name the columns true_LABEL with score_LABEL, pred_LABEL or both, one of each a label, and "
    "fold where there are folds; or, for one label of several classes, true with pred, "
    "score_CLASS or both."
)
_LISTS = ("true", "pred", "scored", "score")
_BLOCK = 1 << 18  # bytes of CSV that are parsed together, of which a line is part
_CELLS = 1 << 18  # cells of tables and arrays that are read together
_LINES = 1 << 14  # lines of text, and rows of sparse matrices, that are read together
_LONGEST = 1 << 26  # bytes of one line; more is no table
_PLENTY = 1 << 28  # bytes that a file may declare however small it is
_PACKED = 500  # times its own size that it may declare beyond that


@dataclass(frozen=True)
class PredictionFile:
    """What a file holds."""

    #: The K labels, or the classes of class sets; None where the classes are those that occur.
    names: tuple[Any, ...] | None
    inputs: tuple[str, ...]  # what each batch holds beside the truth: y_score, y_pred; or pred_sets
    ignored: tuple[str, ...]  # columns that are not used
    batches: Batches  # read once


def refuse_bomb(path: Path, declared: int) -> None:
    """Raise for a file that would unpack to hundreds of times its size."""
    size = path.stat().st_size
    if declared > max(_PLENTY, _PACKED * size):
        raise ImportFileError(
            f"{path.name} declares {declared:,} bytes of truth and predictions and has {size:,}, "
            f"which no predictions pack into: more than {_PACKED} times its size is not unpacked. "
            "If the file is yours, write it in parts or without compression."
        )


# ---- tables of columns ---------------------------------------------------------------------------

_COLUMN = re.compile(r"(?:y_)?(true|score|pred)_(.+)", re.DOTALL)
_SINGLE_COLUMNS = {"true", "score", "pred", "y_true", "y_score", "y_pred", FOLD}
#: The columns at some places, some rows at a time; and how errors call a row, counted from 0.
_Parts = Callable[[list[int]], Iterator[pa.RecordBatch]]
_NameRow = Callable[[int], str]


@dataclass(frozen=True)
class Columns:
    """Which column of a table holds what.

    Attributes
    ----------
    header : sequence of str
    places : dict of str to list of int
        The columns of ``y_true``, ``y_score`` and ``y_pred``, as far as they are there.
    names : tuple of str, or None
        The labels, or the classes that have scores; None where the classes are those that occur.
    fold : int or None
        The column of the fold.
    one_label : bool
        Whether the truth is one column of classes.
    """

    header: Sequence[str]
    places: dict[str, list[int]]
    names: tuple[str, ...] | None
    fold: int | None
    one_label: bool

    @property
    def kinds(self) -> dict[int, str]:
        """What the columns that are used hold: "binary", "number", "class" or "fold"."""
        other = "class" if self.one_label else "binary"
        kinds = {
            place: "number" if name == "y_score" else other
            for name, places in self.places.items()
            for place in places
        }
        return kinds if self.fold is None else kinds | {self.fold: "fold"}

    def opened(self, file: str, parts: _Parts, row_name: _NameRow) -> PredictionFile:
        """The file of these columns, of which `parts` gives some."""
        names = self.names
        if names is None:
            of_classes = {place: kind for place, kind in self.kinds.items() if kind == "class"}
            read = self._read(of_classes, None, file, parts, row_name)
            names = tuple(sorted({name for values in read for name in chain(*values.values())}))
            if "y_score" in self.places and len(names) != 2:
                raise ImportFileError(
                    f"{file}: a column score is that of the second of two classes, and there are "
                    f"{len(names)} ({some(names, 8)}). Add one column score_CLASS for each class; "
                    "measurements of a regression are not evaluated."
                )
        batches = map(self._batch, self._read(self.kinds, set(names), file, parts, row_name))
        ignored = tuple(name for place, name in enumerate(self.header) if place not in self.kinds)
        return PredictionFile(names, tuple(self.places)[1:], ignored, batches)

    def _read(
        self,
        kinds: Mapping[int, str],
        names: set[str] | None,
        file: str,
        parts: _Parts,
        row_name: _NameRow,
    ) -> Iterator[dict[int, Any]]:
        """The values of columns of these kinds by their places; else an ImportFileError that names
        the cell.
        """
        done = 0
        for part in parts([*kinds]):
            values = {}
            for (place, kind), cells in zip(kinds.items(), part.columns, strict=True):
                where = f"column {quoted(self.header[place])}"
                values[place] = _values(cells, kind, f"{file}, {where}")
                if (wrong := _first_wrong(values[place], kind, names)) is not None:
                    shown = str(cells[wrong])
                    if kind in ("class", "fold") or _is_text(cells.type):
                        shown = quoted(shown)
                    raise ImportFileError(
                        f"{file}, {row_name(done + wrong)}, {where}: "
                        f"{_complaint(shown, kind, names)}."
                    )
            done += len(part)
            yield values
        if not done:
            raise ImportFileError(f"{file} has a header but no rows.")

    def _batch(self, values: Mapping[int, Any]) -> Batch:
        """The arguments of `evaluate`."""
        arguments: Batch = {} if self.fold is None else {"folds": values[self.fold]}
        for name, places in self.places.items():
            is_vector = self.one_label and (name != "y_score" or self.names is None)
            parts = [values[place] for place in places]
            arguments[name] = parts[0] if is_vector else np.column_stack(parts)
            if name != "y_score" and not self.one_label:
                arguments[name] = arguments[name].astype(bool)
        return arguments


def table_columns(header: Sequence[str], file: str) -> Columns:
    """Which column holds what, by the names of the columns; else an ImportFileError that names the
    file.
    """
    single: dict[str, list[int]] = {}
    by_label: dict[str, dict[str, int]] = {"true": {}, "score": {}, "pred": {}}
    for place, column in enumerate(header):
        if column in _SINGLE_COLUMNS:
            single.setdefault(column.removeprefix("y_"), []).append(place)
        elif match := _COLUMN.fullmatch(column):
            kind, label = match.groups()
            if by_label[kind].setdefault(label, place) != place:
                raise ImportFileError(
                    f"{file}: two columns hold {kind} of the label {quoted(label)}. Remove one."
                )
    one_label = "true" in single and not by_label["true"]
    for kind in single if one_label else (FOLD,):
        if len(single.get(kind, ())) > 1:
            raise ImportFileError(f"{file}: two columns hold {kind}. Remove one.")
    names: tuple[str, ...] | None
    if one_label:
        names = tuple(by_label["score"]) or None
        scores = [*by_label["score"].values()] or single.get("score", [])
        there = {"true": single["true"], "score": scores, "pred": single.get("pred", [])}
    else:
        names = tuple(by_label["true"])
        _refuse_lonely(by_label, file)
        there = {k: [at[label] for label in names if at] for k, at in by_label.items()}
    if not there["true"] or not (there["score"] or there["pred"]):
        missing = "of scores or predictions" if there["true"] else "of the truth"
        raise ImportFileError(
            f"{file}: no column {missing} (it has {columns_shown(header)}). {_NAMING}"
        )
    places = {f"y_{kind}": at for kind, at in there.items() if at}
    return Columns(header, places, names, single.get(FOLD, [None])[0], one_label)


def _refuse_lonely(by_label: Mapping[str, Mapping[str, int]], file: str) -> None:
    """Raise where a label has a column of its truth or of its prediction alone."""
    true = by_label["true"]
    for kind, labels in by_label.items():
        lonely = [one for one in {**true, **labels} if one not in labels or one not in true]
        if labels and true and lonely:
            lacking = f"{'true' if lonely[0] in labels else kind}_{lonely[0]}"
            raise ImportFileError(
                f"{file}: the label {quoted(lonely[0])} has no column {lacking} ({len(lonely)} "
                f"such labels). {_NAMING}"
            )


def _values(cells: pa.Array, kind: str, where: str) -> Any:
    """The values of some rows of a column: numbers with NaN for what is none, else a list."""
    if kind in ("binary", "number"):
        try:
            return cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:  # text that is not, or not everywhere, written as usual
            return np.array([_number(cell) for cell in cells.to_pylist()])
    values = _texts(cells, where).to_pylist()
    if kind == "class":
        return [None if value is None else str(value) for value in values]
    known = {value: _fold_name(value) if isinstance(value, str) else value for value in set(values)}
    return [known[value] for value in values]


def _number(cell: str) -> float:
    try:
        return float({"true": "1", "false": "0"}.get(cell.lower(), "nan" if "_" in cell else cell))
    except ValueError:
        return math.nan


def _first_wrong(values: Any, kind: str, names: set[str] | None) -> int | None:
    """Which row is the first that cannot be used."""
    wrong: Bools
    if kind == "binary":
        wrong = (values != 0) & (values != 1)
    elif kind == "number":
        wrong = ~np.isfinite(values)
    else:
        strange = {None, "", "nan"}.intersection(values)
        if kind == "class" and names is not None:
            strange |= set(values) - names
        wrong = np.array([value in strange for value in values] if strange else [], bool)
    return int(wrong.argmax()) if wrong.any() else None


def _complaint(shown: str, kind: str, names: set[str] | None) -> str:
    """What is wrong with a cell."""
    if kind in ("binary", "number"):
        return f"{shown} is not {'0 or 1' if kind == 'binary' else 'a finite number'}"
    if names is None or kind == "fold" or shown in ("''", "'None'"):
        return "the row has none"
    return f"{shown} is none of the classes with scores ({some(map(repr, sorted(names)), 8)})"


def _fold_name(text: str) -> int | str:
    """The name of a fold: a number where it looks like one."""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else text


# ---- CSV -----------------------------------------------------------------------------------------


def open_csv(path: Path, progress: Progress) -> PredictionFile:
    with path.open("rb") as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            raise ImportFileError(f"{path.name} is UTF-16. Save it as UTF-8.")
    at, header = next(_csv_lines(path), (0, []))
    if not header:
        raise ImportFileError(f"{path.name} is empty. {_NAMING}")
    check_separator(header, at, path.name)

    def parts(places: list[int]) -> Iterator[pa.RecordBatch]:
        total = path.stat().st_size
        held: list[pa.RecordBatch] = []
        with path.open("rb") as file:
            try:
                for batch in _open_as_text(file, at, len(header), places):
                    held.append(_trimmed(batch))
                    if sum(map(len, held)) * len(places) >= _CELLS:
                        yield from _joined(held)
                        progress(min(file.tell(), total), total)
                        held = []
            except pa.ArrowException as error:
                yield from _joined(held)
                raise _broken_csv(path, len(header), error) from error
        yield from _joined(held)
        progress(total, total)

    def row_name(row: int) -> str:
        return f"line {next(islice(_csv_lines(path), 1 + row, None))[0]}"

    return table_columns(header, path.name).opened(path.name, parts, row_name)


def _open_as_text(
    file: BinaryIO, header_line: int, width: int, places: list[int]
) -> Iterable[pa.RecordBatch]:
    names = [str(place) for place in range(width)]
    used = [names[place] for place in places]
    return arrow_csv.open_csv(
        file,
        arrow_csv.ReadOptions(
            use_threads=False,  # they parse ahead, a block a core
            block_size=max(_BLOCK, width << 6),
            column_names=names,
            skip_rows=header_line - 1,
            skip_rows_after_names=1,
        ),
        arrow_csv.ParseOptions(newlines_in_values=True),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(used, pa.string()),
            include_columns=used,
            null_values=[],
            strings_can_be_null=False,
        ),
    )


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []


def _trimmed(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pc.utf8_trim_whitespace(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _broken_csv(path: Path, width: int, error: Exception) -> ImportFileError:
    """The error of a table that Arrow does not read: it names the first line that is no row."""
    for at, cells in _csv_lines(path):
        if len(cells) != width:
            return ImportFileError(
                f"{path.name}, line {at}: the row has {len(cells)} cells, the header has {width}."
            )
    return ImportFileError(f"{path.name} is no table of CSV that can be read: {reason(error)}.")


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line and stripped cells of each row that has any."""

    def lines() -> Iterator[str]:
        with path.open("rb") as file:
            for at in itertools.count(1):
                line = file.readline(_LONGEST + 1)
                if len(line) > _LONGEST:
                    raise ImportFileError(
                        f"{path.name}, line {at}: the line is no row of a table (more than "
                        f"{_LONGEST:,} characters)."
                    )
                if not line:
                    return
                try:
                    text = line.decode("utf-8-sig" if at == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    byte = f"byte 0x{line[error.start]:02x}"
                    raise ImportFileError(
                        f"{path.name}, line {at}: {byte} is not UTF-8. Save the file as UTF-8."
                    ) from error
                yield from io.StringIO(text, newline="")

    return ((at, cells) for at, cells in csv_rows(lines(), 1, path.name) if cells)


# ---- parquet -------------------------------------------------------------------------------------


def open_parquet(path: Path, progress: Progress) -> PredictionFile:
    file = _parquet_file(path)
    schema = file.schema_arrow
    if lists := _columns_of_lists(schema, path.name):
        return _open_lists(path, file, lists, progress)
    columns = table_columns(schema.names, path.name)
    for place, kind in columns.kinds.items():
        _check_type(schema.types[place], kind, f"{path.name}, column {quoted(schema.names[place])}")
    refuse_bomb(path, 8 * file.metadata.num_rows * len(columns.kinds))

    def parts(places: list[int]) -> Iterator[pa.RecordBatch]:
        used = [schema.names[place] for place in places]
        told = progress if len(used) == len(columns.kinds) else lambda done, total: None
        size = max(1, _CELLS // len(used))
        return (batch.select(used) for _, batch in _parquet_batches(path, file, used, size, told))

    return columns.opened(path.name, parts, lambda row: f"row {row + 1}")


def _parquet_file(path: Path) -> parquet.ParquetFile:
    """The file, whose texts are read as numbers into a list of them: a long one that is packed
    once is unpacked once.
    """
    try:
        schema = parquet.read_schema(path)
        texts = [field.name for field in schema if _is_text(field.type)]
        return parquet.ParquetFile(
            path, pre_buffer=False, buffer_size=1 << 16, read_dictionary=texts
        )
    except pa.ArrowException as error:
        raise ImportFileError(
            f"{path.name} is not a parquet file that can be read: {reason(error)}."
        ) from error


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _check_type(kind: pa.DataType, wanted: str, where: str) -> None:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if wanted in ("binary", "number") and not is_number:
        shown = kind.value_type if pa.types.is_dictionary(kind) else kind
        raise ImportFileError(f"{where}: the type is {shown}, not numbers.")
    if pa.types.is_nested(kind):
        raise ImportFileError(f"{where}: the type is {kind}, not one value a row.")


def _parquet_batches(
    path: Path, file: parquet.ParquetFile, columns: list[str], size: int, progress: Progress
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Some rows at a time, with the number of rows before them."""
    done = 0
    try:
        for batch in file.iter_batches(size, columns=columns, use_threads=False):
            yield done, batch
            done += len(batch)
            progress(done, file.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise ImportFileError(
            f"{path.name}, behind row {done}: the file is damaged: {reason(error)}."
        ) from error


def _texts(cells: pa.Array, where: str) -> pa.Array:
    """The cells, bytes among them as text."""
    packed = pa.types.is_dictionary(cells.type)
    values = cells.dictionary if packed else cells
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        try:
            values = values.cast(pa.large_string())
        except pa.ArrowInvalid as error:
            raise ImportFileError(
                f"{where}: bytes that are no UTF-8. Write the column as text."
            ) from error
    return pa.DictionaryArray.from_arrays(cells.indices, values) if packed else values


def _columns_of_lists(schema: pa.Schema, file: str) -> set[str]:
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
                f"{file}: the column {column} holds {kind} and true lists. It needs lists, too."
            )
    return lists


def _open_lists(
    path: Path, file: parquet.ParquetFile, lists: set[str], progress: Progress
) -> PredictionFile:
    """Parquet whose column ``true`` holds a list of labels an instance, beside it ``scored`` with
    ``score``, ``pred``, or both; the labels are all that occur, sorted.
    """
    header = file.schema_arrow.names
    sources = {"y_true": "true"}
    if {"scored", "score"} <= lists:
        sources["y_score"] = "scored"
    if "pred" in lists:
        sources["y_pred"] = "pred"
    if len(sources) == 1:
        raise ImportFileError(
            f"{path.name}: no column of predictions (it has {columns_shown(header)}). Add scored "
            "(lists of labels) with score (lists of their scores), pred (lists of labels), or both."
        )
    scores = ["score"] if "y_score" in sources else []
    used = [*sources.values(), *scores, *([FOLD] if FOLD in header else [])]
    refuse_bomb(path, 8 * _elements(file, used))
    found: set[Any] = set()
    for _, batch in _parquet_batches(path, file, [*sources.values()], _LINES, lambda *_: None):
        for column in batch.schema.names:
            labels = _texts(batch[column].flatten(), f"{path.name}, column {quoted(column)}")
            found.update(labels.unique().to_pylist())
    if None in found:
        raise ImportFileError(f"{path.name}: a list of labels holds null. Leave it out.")
    names = tuple(sorted(found))

    def batches() -> Batches:
        for done, batch in _parquet_batches(path, file, used, _LINES, progress):
            sides: Batch = {}
            for name, column in sources.items():
                given = batch["score"] if name == "y_score" else None
                try:
                    sides[name] = sets_in(batch[column], names, given)
                except BadRow as error:
                    where = f"{path.name}, row {done + error.row + 1}, column {column}"
                    raise ImportFileError(f"{where}: {error}.") from error
            if FOLD in used:
                sides["folds"] = batch[FOLD].to_pylist()
            yield sides

    ignored = tuple(name for name in header if name not in used)
    return PredictionFile(names, tuple(sources)[1:], ignored, batches())


def _elements(file: parquet.ParquetFile, columns: Iterable[str]) -> int:
    """How many values the columns hold, as the file declares."""
    roots = set(columns)
    about = file.metadata
    groups_of_rows = (about.row_group(i) for i in range(about.num_row_groups))
    return sum(
        group.column(i).num_values
        for group in groups_of_rows
        for i in range(group.num_columns)
        if group.column(i).path_in_schema.partition(".")[0] in roots
    )


class BadRow(ValueError):
    """A row that cannot be evaluated, by its number from 0."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


def sets_in(
    lists: pa.Array,
    names: Sequence[Hashable],
    scores: pa.Array | None = None,
    repeats: bool = False,
) -> sparse.csr_array:
    """Lists of labels, and of their scores, as a matrix with a column for each name; a BadRow
    where they are none. A label that a list names twice counts once, where `repeats` are allowed.
    """
    if lists.null_count:
        row = int(pc.index(lists.is_null(), True).as_py())
        raise BadRow(row, "there is no list; an empty list is an empty set")
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    ends = np.append(0, np.cumsum(lengths)).astype(np.int64)

    def row_of(element: int) -> int:
        return int(np.searchsorted(ends, element, side="right")) - 1

    labels = lists.flatten().dictionary_encode() if len(lists.flatten()) else None
    columns: AnyArray = np.empty(0, np.int64)
    if labels is not None:
        place = {name: i for i, name in enumerate(names)}
        known = _texts(labels.dictionary, "a list").to_pylist()
        places = np.array([place.get(name, -1) for name in known] or [-1])
        columns = places[labels.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        if len(wrong := np.flatnonzero((columns < 0) | np.asarray(labels.indices.is_null()))):
            shown = quoted(str(labels[int(wrong[0])].as_py()))
            raise BadRow(row_of(wrong[0]), f"{shown} is none of the {len(names)} classes")
    values: AnyArray = np.ones(len(columns), bool)
    if scores is not None:
        own = pc.fill_null(scores.value_lengths(), -1).to_numpy(zero_copy_only=False)
        if len(odd := np.flatnonzero(own != lengths)):
            raise BadRow(int(odd[0]), "scored and score have different numbers of elements")
        values = scores.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)
        if len(odd := np.flatnonzero(~np.isfinite(values))):
            raise BadRow(row_of(odd[0]), f"score {values[odd[0]]} is not a finite number")
    sets = sparse.csr_array((values, columns, ends), shape=(len(lists), len(names)))
    whole = sets.nnz
    once = sets.copy()
    once.sum_duplicates()
    if once.nnz < whole and not repeats:
        row = int(np.flatnonzero(np.diff(once.indptr) < lengths)[0])
        raise BadRow(row, "a list names a label twice")
    return once


def parquet_column(path: Path, name: str) -> Any:
    """One column as a pandas Series; KeyError where it is not there."""
    file = _parquet_file(path)
    refuse_bomb(path, 8 * _elements(file, [name]))
    return file.read([name]).to_pandas()[name]
