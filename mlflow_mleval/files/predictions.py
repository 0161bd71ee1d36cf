"""Files of predictions, read block by block, so that a file may be larger than memory; what is
broken is named by its line.
"""

from __future__ import annotations

import io
import lzma
import math
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from scipy import sparse

from mlflow_mleval.analysis.measure_intervals import with_clusters
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical, merge
from mlflow_mleval.files.prediction_files import (
    FOLD,
    Batch,
    Batches,
    PredictionFile,
    Progress,
    fold_name,
    open_classes,
    open_lists,
    open_matrices,
    parquet_batches,
    read_matrix,
    unrounded,
)
from mlflow_mleval.files.results import (
    check_separator,
    columns_shown,
    csv_rows,
    reason,
    unreadable,
)
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.inputs import Propensities, split_digest
from mlflow_mleval.measures.one_label import is_vector
from mlflow_mleval.validation import AnyArray, Array, Bools, Ints, groups, instance_weights, present
from mlflow_mleval.words import Message, quoted, some

_NAMING = (
    "Name the columns true_LABEL with score_LABEL, pred_LABEL or both, one of each a label, and "
    "fold where there are folds; or, for one label of several classes, true with pred, "
    "score_CLASS or both."
)
_COLUMN = re.compile(r"(?:y_)?(true|score|pred)_(.+)", re.DOTALL)
_BLOCK = 1 << 22  # bytes of text that are parsed together
_CELLS = 1 << 18  # cells of arrays that are read together
_LONGEST = 1 << 26  # bytes of one row; more is no table
_LINES = 1 << 15  # lines of class ids that are read together
_BINARY = ("y_true", "y_pred")
#: What zipfile, zlib and NumPy raise for archives that are damaged, encrypted or packed in another
#: way.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    SyntaxError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    OverflowError,
    KeyError,
    struct.error,
    tokenize.TokenError,
)


def open_predictions(
    path: str | Path,
    progress: Progress = lambda done, total: None,
) -> PredictionFile:
    """Open a table of truth and predictions: CSV, parquet or npz.

    CSV (UTF-8, commas) and parquet have one row an instance and for each label a column
    ``true_LABEL`` of 0 and 1 with ``score_LABEL``, ``pred_LABEL`` or both; a leading ``y_`` does
    not matter. A column ``fold`` names the fold. Others are not used. An npz file has the matrices
    ``y_true`` and ``y_score``, ``y_pred`` or both, of shape (N, K), and maybe ``label_names`` (K)
    and ``folds`` (N). Of one label of several classes a column ``true`` holds the class, ``pred``
    the predicted one, and ``score_CLASS`` the scores, or ``score`` that of the second of two; in
    npz the arrays have the shapes that `evaluate` takes. Parquet may hold lists of labels instead,
    in ``true``, in ``scored`` with the lists of their ``score``, and in ``pred``. What is broken is
    an ImportFileError: here, or where the batch of a broken row is read.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start == b"PAR1" and (of_lists := open_lists(path, progress)) is not None:
            return of_lists
        if (of_classes := open_classes(path, start, progress)) is not None:
            return of_classes
        if start == b"PAR1":
            return _open_parquet(path, progress)
        if start in (b"PK\3\4", b"PK\5\6"):
            return _open_npz(path, progress)
        return _open_csv(path, progress)
    except OSError as error:
        raise unreadable(path, error) from error


def open_class_sets(
    path: str | Path,
    truth: str | Path,
    h: Hierarchy,
    progress: Progress,
) -> PredictionFile:
    """Open two files of class sets: each line holds the classes of one instance, separated by
    spaces.

    Line i of both is the same instance; an empty line is an empty set. Reading the batches raises
    an ImportFileError for an unknown class, and if a file ends before the other.
    """
    paths = Path(truth), Path(path)
    try:
        total = sum(p.stat().st_size for p in paths)
        files = [p.open(encoding="utf-8-sig", errors="replace", newline="\n") for p in paths]
    except OSError as error:
        raise unreadable(error.filename, error) from error
    return PredictionFile(
        tuple(h.nodes),
        ("pred_sets",),
        (),
        _class_set_batches(paths, files, h, total, progress),
    )


def read_hierarchy(path: str | Path) -> Hierarchy:
    """The hierarchy of a file of edges: CSV with the columns parent, child and maybe weight, or
    lines of "parent child".
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = [cell.strip() for cell in file.readline().split(",")]
            if len(header) > 1:
                return Hierarchy.from_csv(path, weight="weight" if "weight" in header else None)
            file.seek(0)
            edges: dict[tuple[str, ...], int] = {}
            for number, line in enumerate(file.read().lstrip("\ufeff").splitlines(), 1):
                parts = line.split()
                if parts and len(parts) != 2:
                    raise ImportFileError(
                        f"{path.name}, line {number}: an edge is two classes, parent and child, "
                        f"got {len(parts)}: {quoted(line.strip())}."
                    )
                if parts:
                    edges[tuple(parts)] = number
        return Hierarchy(edges)
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, UnicodeDecodeError) as error:
        raise ImportFileError(Message(f"{path.name}: ", error)) from error


# ---- tables of columns ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """Which column of a table holds what: by input, the place of each label's column."""

    places: dict[str, list[int]]
    names: tuple[str, ...]
    fold: int | None
    ignored: tuple[str, ...]

    @property
    def binary(self) -> dict[int, bool]:
        """The places that are used, and whether they hold 0 and 1."""
        return {place: name in _BINARY for name, places in self.places.items() for place in places}

    def opened(self, batches: Batches) -> PredictionFile:
        """The file of these columns."""
        return PredictionFile(self.names, tuple(self.places)[1:], self.ignored, batches)

    def batch(self, values: dict[int, AnyArray], folds: Sequence[Any] | None) -> Batch:
        """The arguments of `evaluate`, from columns by place."""
        arguments: Batch = {} if folds is None else {"folds": folds}
        for name, places in self.places.items():
            shape = len(values[places[0]]), len(places)
            matrix = np.empty(shape, bool if name in _BINARY else float)
            for column, place in enumerate(places):
                matrix[:, column] = values[place]
            arguments[name] = matrix
        return arguments


def table_columns(header: Sequence[str], name: str) -> _Columns:
    """Which column holds what, of a table of label sets; else an ImportFileError that names the
    table.
    """
    places: dict[str, dict[str, int]] = {}
    fold = None
    ignored = []
    for place, column in enumerate(header):
        if match := _COLUMN.fullmatch(column):
            kind, label = match.groups()
            if places.setdefault(f"y_{kind}", {}).setdefault(label, place) != place:
                raise ImportFileError(
                    f"{name}: two columns hold {kind} of the label {quoted(label)}. Remove one."
                )
        elif column == FOLD:
            if fold is not None:
                raise ImportFileError(f"{name}: two columns are called {FOLD}. Remove one.")
            fold = place
        else:
            ignored.append(column)
    if len(places) < 2 or "y_true" not in places:
        missing = "of the truth" if "y_true" not in places else "of scores or predictions"
        raise ImportFileError(
            f"{name}: no column {missing} (it has {columns_shown(header)}). {_NAMING}"
        )
    labels = list(places["y_true"])
    for kind, by_label in places.items():
        _refuse_lonely(kind, by_label, places["y_true"], name)
    order: list[str] = [kind for kind in ("y_true", "y_score", "y_pred") if kind in places]
    by_kind = {kind: [places[kind][label] for label in labels] for kind in order}
    return _Columns(by_kind, tuple(labels), fold, tuple(ignored))


def _refuse_lonely(
    kind: str,
    by_label: Mapping[str, int],
    true: Mapping[str, int],
    name: str,
) -> None:
    """Raise where a label has a column of its truth or of its prediction alone."""
    if lonely := [one for one in [*true, *by_label] if one not in by_label or one not in true]:
        label = lonely[0]
        lacking = f"{kind[2:] if label not in by_label else 'true'}_{label}"
        raise ImportFileError(
            f"{name}: the label {quoted(label)} has no column {lacking} ({len(lonely)} such "
            f"labels). {_NAMING}"
        )


def _wrong(values: AnyArray, binary: bool) -> Bools:
    """Which values cannot be used."""
    return (values != 0) & (values != 1) if binary else ~np.isfinite(values)


def _expected(binary: bool) -> str:
    return "0 or 1" if binary else "a finite number"


# ---- CSV -----------------------------------------------------------------------------------------


def _open_csv(path: Path, progress: Progress) -> PredictionFile:
    with path.open("rb") as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            raise ImportFileError(f"{path.name} is UTF-16. Save it as UTF-8.")
        file.seek(0)
        rows = (
            row
            for line, block in _blocks(file, path.name)
            for row in _rows(block, line, path.name)
            if row[1]
        )
        at, header = next(rows, (0, []))
        if not header:
            raise ImportFileError(f"{path.name} is empty. {_NAMING}")
        check_separator(header, at, path.name)
        columns = table_columns(header, path.name)
        first = next(rows, (0, []))[1]
    return columns.opened(_csv_batches(path, header, at, columns, first, progress))


def _csv_batches(
    path: Path,
    header: list[str],
    header_line: int,
    columns: _Columns,
    first: list[str],
    progress: Progress,
) -> Batches:
    words = {p for p in columns.binary if p < len(first) and first[p].lower() in ("true", "false")}
    types = {str(p): pa.bool_() if p in words else pa.float64() for p in columns.binary}
    if columns.fold is not None:
        types[str(columns.fold)] = pa.string()
    convert = arrow_csv.ConvertOptions(
        column_types=types,
        include_columns=list(types),
        null_values=[],
        strings_can_be_null=False,
    )
    total = path.stat().st_size
    empty = True
    with path.open("rb") as file:
        for line, block in _blocks(file, path.name):
            if line <= header_line:
                skip = _end_of_record(block, header_line - line + 1)
                line = line + block.count(b"\n", 0, skip)
                block = block[skip:]
            batch = _csv_fast(block, len(header), columns, convert) or _csv_careful(
                block,
                line,
                header,
                columns,
                path.name,
            )
            progress(file.tell(), total)
            if len(batch["y_true"]):
                empty = False
                yield batch
    if empty:
        raise ImportFileError(f"{path.name} has a header but no rows.")


def _csv_fast(
    block: bytes,
    width: int,
    columns: _Columns,
    convert: arrow_csv.ConvertOptions,
) -> Batch | None:
    """The rows of a block, or None where there is anything unusual about them."""
    try:
        table = arrow_csv.read_csv(
            pa.py_buffer(block),
            arrow_csv.ReadOptions(
                block_size=len(block) + 1, column_names=[str(i) for i in range(width)]
            ),
            arrow_csv.ParseOptions(newlines_in_values=b'"' in block),
            convert,
        )
    except pa.ArrowInvalid:
        return None
    values = {place: table[str(place)].to_numpy() for place in columns.binary}
    folds = (
        None
        if columns.fold is None
        else [text.strip() for text in table[str(columns.fold)].to_pylist()]
    )
    if any(_wrong(values[p], binary).any() for p, binary in columns.binary.items()) or not all(
        folds or ()
    ):
        return None
    return columns.batch(values, folds and [fold_name(text) for text in folds])


def _csv_careful(
    block: bytes,
    line: int,
    header: list[str],
    columns: _Columns,
    name: str,
) -> Batch:
    """The rows of a block, cell by cell; says which line is broken."""
    kinds = columns.binary
    values: dict[int, list[float]] = {p: [] for p in kinds}
    folds: list[int | str] | None = None if columns.fold is None else []
    for at, cells in _rows(block, line, name):
        if not cells:
            continue
        if len(cells) != len(header):
            raise ImportFileError(
                f"{name}, line {at}: the row has {len(cells)} cells, the header has {len(header)}."
            )
        for p, binary in kinds.items():
            value = _number(cells[p])
            if _wrong(np.float64(value), binary):
                where = f"{name}, line {at}, column {quoted(header[p])}"
                raise ImportFileError(f"{where}: {quoted(cells[p])} is not {_expected(binary)}.")
            values[p].append(value)
        if folds is not None and columns.fold is not None:
            if not cells[columns.fold]:
                raise ImportFileError(f"{name}, line {at}, column {FOLD}: the row has no fold.")
            folds.append(fold_name(cells[columns.fold]))
    return columns.batch({p: np.array(column) for p, column in values.items()}, folds)


def _number(cell: str) -> float:
    try:
        return float({"true": "1", "false": "0"}.get(cell.lower(), "nan" if "_" in cell else cell))
    except ValueError:
        return np.nan


def _blocks(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole rows, each with the number of its first line."""
    rest = b""
    line = 1
    while data := file.read(_BLOCK):
        block = rest + data
        cut = _last_record(block)
        if cut:
            yield line, block[:cut]
        elif len(block) > _LONGEST:
            why = (
                "a quote is opened and never closed"
                if b'"' in block
                else "the line is no row of a table"
            )
            raise ImportFileError(f"{name}, line {line}: {why} ({len(block):,} characters).")
        line += _count(block[:cut], b"\n")
        rest = block[cut:]
    if rest:
        yield line, rest


def _count(block: bytes, char: bytes) -> int:
    # Several times faster than bytes.count. Older NumPy takes no empty buffer.
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord(char))) if block else 0


def _ends(block: bytes) -> Ints:
    """Where rows end: behind each newline that is not within quotes."""
    array = np.frombuffer(block or b" ", np.uint8)
    newlines = np.flatnonzero(array == 10)
    quotes = np.flatnonzero(array == 34)
    return newlines[np.searchsorted(quotes, newlines) % 2 == 0] + 1


def _last_record(block: bytes) -> int:
    """Where the last whole row ends; 0 where there is none."""
    end = block.rfind(b"\n") + 1
    if _count(block[:end], b'"') % 2 == 0:
        return end
    ends = _ends(block)
    return int(ends[-1]) if len(ends) else 0


def _end_of_record(block: bytes, number: int) -> int:
    """Where the row ends that begins in the line of that number within the block."""
    ends = _ends(block)
    lines = np.array([block.count(b"\n", 0, end) for end in ends[:number]])
    behind = np.flatnonzero(lines >= number)
    return int(ends[behind[0]]) if len(behind) else len(block)


def _rows(block: bytes, line: int, name: str) -> Iterator[tuple[int, list[str]]]:
    """Line and stripped cells of each row; an empty line has none."""
    try:
        text = block.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        at = line + block.count(b"\n", 0, error.start)
        byte = f"byte 0x{block[error.start]:02x}"
        raise ImportFileError(
            f"{name}, line {at}: {byte} is not UTF-8. Save the file as UTF-8."
        ) from error
    return csv_rows(io.StringIO(text, newline=""), line, name)


# ---- parquet -------------------------------------------------------------------------------------


def _open_parquet(path: Path, progress: Progress) -> PredictionFile:
    try:
        file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16)
    except pa.ArrowException as error:
        raise ImportFileError(
            f"{path.name} is not a parquet file that can be read: {reason(error)}."
        ) from error
    header = file.schema_arrow.names
    columns = table_columns(header, path.name)
    for place in columns.binary:
        kind = file.schema_arrow.types[place]
        if not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        ):
            raise ImportFileError(
                f"{path.name}, column {quoted(header[place])}: the type is {kind}, not numbers."
            )
    return columns.opened(_parquet_batches(file, path.name, columns, progress))


def _parquet_batches(
    file: parquet.ParquetFile,
    name: str,
    columns: _Columns,
    progress: Progress,
) -> Batches:
    header = file.schema_arrow.names
    wanted = [*columns.binary, *([] if columns.fold is None else [columns.fold])]
    if not file.metadata.num_rows:
        raise ImportFileError(f"{name} has no rows.")
    used = [header[p] for p in wanted]
    for done, batch in parquet_batches(file, name, progress, max(1, _CELLS // len(used)), used):
        values = {}
        for p, binary in columns.binary.items():
            cells = batch[header[p]]
            values[p] = cells.to_numpy(zero_copy_only=False).astype(float)  # missing: NaN
            if (wrong := np.flatnonzero(_wrong(values[p], binary))).size:
                where = f"{name}, row {done + wrong[0] + 1}, column {quoted(header[p])}"
                raise ImportFileError(
                    f"{where}: {cells[int(wrong[0])]} is not {_expected(binary)}."
                )
        folds = None if columns.fold is None else batch[FOLD].to_pylist()
        if folds is not None and None in folds:
            raise ImportFileError(
                f"{name}, row {done + folds.index(None) + 1}, column {FOLD}: the row has no fold."
            )
        yield columns.batch(values, folds)


# ---- npz -----------------------------------------------------------------------------------------


def _open_npz(path: Path, progress: Progress) -> PredictionFile:
    try:
        archive = zipfile.ZipFile(path)
        arrays = {
            n.removesuffix(".npy"): _Array(archive, n, path)
            for n in archive.namelist()
            if n.endswith(".npy")
        }
    except _DAMAGED as error:
        raise ImportFileError(
            f"{path.name} is not an npz file that can be read: {reason(error)}."
        ) from error
    matrices = _npz_matrices(arrays, path.name)
    shape = matrices["y_true"].shape
    rest: dict[str, list[Any]] = {}
    for key, length in (("label_names", shape[1]), ("folds", shape[0])):
        if key in arrays:
            rest[key] = _npz_names(arrays[key], key, length, path.name)
    names = tuple(rest.get("label_names", range(shape[1])))
    ignored = tuple(key for key in arrays if key not in matrices and key not in rest)
    batches = _npz_batches(matrices, rest.get("folds"), path.name, progress)
    return PredictionFile(names, tuple(matrices)[1:], ignored, batches)


_NPZ_NEEDS = (
    "It needs y_true with y_score, y_pred or both, of shape (N, K); and maybe label_names (K) and "
    "folds (N)."
)


def _npz_matrices(arrays: Mapping[str, _Array], name: str) -> dict[str, _Array]:
    """Truth, scores and predictions, all of one shape."""
    matrices = {key: arrays[key] for key in ("y_true", "y_score", "y_pred") if key in arrays}
    if len(matrices) < 2 or "y_true" not in matrices:
        listed = ", ".join(map(quoted, arrays)) or "none"
        raise ImportFileError(f"{name} has the arrays {listed}. {_NPZ_NEEDS}")
    shape = matrices["y_true"].shape
    for key, array in matrices.items():
        is_matrix = len(array.shape) == 2 and 0 not in array.shape and array.shape == shape
        if not is_matrix or array.dtype.kind not in "buif":
            raise ImportFileError(
                f"{name}: {key} has shape {array.shape} and dtype {array.dtype}. {_NPZ_NEEDS}"
            )
    return matrices


def _npz_names(array: _Array, key: str, length: int, name: str) -> list[Any]:
    """The names of labels or of folds."""
    if array.shape != (length,) or array.dtype.kind not in "biuU":
        hint = " Save names with .astype(str)." if array.dtype.hasobject else ""
        raise ImportFileError(
            f"{name}: {key} has shape {array.shape} and dtype {array.dtype}. {_NPZ_NEEDS}{hint}"
        )
    try:
        return array.rows(length).tolist()
    except _DAMAGED as error:
        raise ImportFileError(f"{name}, {key}: the file is damaged: {reason(error)}.") from error


class _Array:
    """An array within an npz file, read from its first row on."""

    def __init__(self, archive: zipfile.ZipFile, member: str, path: Path):
        self._stream = archive.open(member)
        version = np.lib.format.read_magic(self._stream)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        self.shape, fortran, self.dtype = read(self._stream)
        # What the head promises must be there before room is made for it.
        if math.prod(self.shape) * self.dtype.itemsize > archive.getinfo(member).file_size:
            raise zipfile.BadZipFile(f"{member} ends too soon")
        self._whole = None
        if (
            fortran and len(self.shape) > 1 and not self.dtype.hasobject
        ):  # its rows lie scattered over the file
            with np.load(path, allow_pickle=False) as file:
                self._whole = iter(file[member.removesuffix(".npy")])

    def rows(self, count: int) -> AnyArray:
        """The next rows."""
        if self._whole is not None:
            return np.array(list(islice(self._whole, count)))
        width = int(np.prod(self.shape[1:], dtype=int))
        data = self._stream.read(count * width * self.dtype.itemsize)
        if len(data) < count * width * self.dtype.itemsize:
            raise zipfile.BadZipFile("an array ends too soon")
        return np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])


def _npz_batches(
    matrices: Mapping[str, _Array],
    folds: list[Any] | None,
    name: str,
    progress: Progress,
) -> Batches:
    n, width = matrices["y_true"].shape
    step = max(1, _CELLS // (width * len(matrices)))
    for start in range(0, n, step):
        count = min(step, n - start)
        batch: Batch = {} if folds is None else {"folds": folds[start : start + count]}
        for key, array in matrices.items():
            try:
                batch[key] = array.rows(count)
            except _DAMAGED as error:
                raise ImportFileError(
                    f"{name}, {key}, behind row {start}: the file is damaged: {reason(error)}."
                ) from error
            for row, column in np.argwhere(_wrong(batch[key], key in _BINARY)):
                where = f"{name}, {key}[{start + row}, {column}]"
                value = batch[key][row, column]
                raise ImportFileError(f"{where}: {value} is not {_expected(key in _BINARY)}.")
        progress(start + count, n)
        yield batch


# ---- lines of classes ----------------------------------------------------------------------------


def _class_set_batches(
    paths: Sequence[Path],
    files: Sequence[Any],
    h: Hierarchy,
    total: int,
    progress: Progress,
) -> Batches:
    line = read = 0
    with files[0], files[1]:
        while True:
            parts = [list(islice(file, _LINES)) for file in files]
            for (path, mine), other in zip(
                zip(paths, parts, strict=True), parts[::-1], strict=True
            ):
                if len(mine) < len(other):
                    longer = paths[path is paths[0]].name
                    end = f"{path.name} ends behind line {line + len(mine)}"
                    raise ImportFileError(
                        f"{end}, and {longer} goes on. Both need a line for each instance."
                    )
            if not parts[0]:
                break
            sides = []
            for path, lines in zip(paths, parts, strict=True):
                rows = [text.split() for text in lines]
                for at, unknown in (
                    (i, c) for i, row in enumerate(rows, line + 1) for c in row if c not in h
                ):
                    classes = f"({len(h)} classes, such as {quoted(h.nodes[0])})"
                    raise ImportFileError(
                        f"{path.name}, line {at}: {quoted(unknown)} is no class of the hierarchy "
                        f"{classes}."
                    )
                sides.append(h.indicator(rows, path.name))
            line += len(parts[0])
            read += sum(len(text) for lines in parts for text in lines)
            progress(min(read, total), total)
            yield {"true_sets": sides[0], "pred_sets": sides[1]}
    if not line:
        raise ImportFileError(
            f"{paths[1].name} is empty. It needs a line of classes for each instance."
        )


# --------------------------------------------------------------------------------------------------
# Predictions that were made elsewhere and written to a file, evaluated block by block.


#: Options that say how scores are read.
_OF_SCORES = ("threshold", "conventions", "train_labels")


def evaluate_file(
    path: str | Path,
    *,
    truth: str | Path | None = None,
    hierarchy: str | Path | Hierarchy | None = None,
    cluster: str | None = None,
    sample_weight: str | None = None,
    probabilities: bool | None = None,
    progress: Progress = lambda done, total: None,
    say: Callable[[str], object] = lambda text: None,
    **options: Any,
) -> Evaluation:
    """Evaluate a file of predictions; it may be larger than memory.

    It is CSV, parquet or npz with truth and predictions, see
    `mlflow_mleval.files.predictions.open_predictions`; with a file `truth`, a sparse matrix of
    scores, and `truth` one of labels, see `mlflow_mleval.files.prediction_files.read_matrix`;
    with `truth` and `hierarchy`, lines of predicted and of true classes as HEMKit reads them. The
    hierarchy is a Hierarchy or a file of lines "parent child" or CSV with the columns parent, child
    and maybe weight. `cluster` is a column of a CSV or parquet file, or an array of an npz file,
    that tells which instances belong together, `sample_weight` one of how much each counts.
    `probabilities` is that of `evaluate`, for one label; by default probabilities whose sums only
    rounding keeps from 1 are divided by them, and `say` is told once. Further options are those of
    `mlflow_mleval.evaluate` (`train_labels` is a file of labels as `truth`) and of
    `mlflow_mleval.evaluate_hierarchical`. An ImportFileError names the line of a broken row. The
    Evaluation has `instances` where the file is read in one block; its `split` takes the rows of
    the file for the instances in their order.
    """
    h = read_hierarchy(hierarchy) if isinstance(hierarchy, (str, Path)) else hierarchy
    evaluate_part: Callable[..., Evaluation]
    if truth is not None and h is not None:
        if unfit := [name for name in _OF_SCORES if options.pop(name, None) is not None]:
            raise ValueError(
                f"{some(map('`{}`'.format, unfit))} must be left out with `truth` and `hierarchy`. "
                "Classes have no scores."
            )
        source = open_class_sets(path, truth, h, progress)
        evaluate_part = partial(evaluate_hierarchical, h=h, **options)
    else:
        source = _opened(path, truth, progress)
        if train := options.pop("train_labels", None):
            options["train_labels"] = _propensities(train, len(source.names or ()))
        evaluate_part = partial(evaluate, label_names=source.names, hierarchy=h, **options)
    if sample_weight is not None:
        source = replace(source, batches=_weighted(source.batches, _weights(path, sample_weight)))
    if truth is None:
        source = replace(source, batches=_mended(source.batches, probabilities, say))
    elif probabilities is not None:
        raise ValueError("`probabilities` is for one label of several classes. Leave it out.")
    whole = _whole(source, evaluate_part, Path(path).name)
    return whole if cluster is None else with_clusters(whole, _column(path, cluster, "cluster"))


def _opened(path: str | Path, truth: str | Path | None, progress: Progress) -> PredictionFile:
    if truth is None:
        return open_predictions(path, progress)
    return open_matrices(path, truth, progress)


def _whole(
    source: PredictionFile,
    evaluate_part: Callable[..., Evaluation],
    name: str,
) -> Evaluation:
    """The evaluation of all batches, with the rows of each fold as its split."""
    whole: Evaluation | None = None
    tested: dict[Hashable, list[Any]] = {}
    for batch in source.batches:
        start = 0 if whole is None else whole.total.n
        try:
            part = evaluate_part(**batch, instances=whole is None)
        except (ValueError, TypeError) as error:
            if "probabilities" in batch:  # label sets were looked through when they were read
                where = f"{name}, rows from {start + 1} on: "
                raise ImportFileError(Message(where, str(error))) from error
            raise
        whole = part if whole is None else merge([whole, part])
        if "folds" in batch:
            _add_rows(tested, batch["folds"], start, whole.total.n)
    whole = present(whole)  # a file without rows is refused when it is opened
    if not tested:
        return whole
    return replace(whole, split=split_digest(np.concatenate(tested[key]) for key in whole.sums))


def _weighted(batches: Batches, weights: Array) -> Batches:
    """The batches with the weights of their rows."""
    start = 0
    for batch in batches:
        rows = batch["true_sets" if "true_sets" in batch else "y_true"]
        end = start + (rows.shape[0] if hasattr(rows, "shape") else len(rows))
        yield batch | {"sample_weight": weights[start:end]}
        start = end


def _mended(batches: Batches, probabilities: bool | None, say: Callable[[str], object]) -> Batches:
    """The batches, those of one label with probabilities whose sums rounding has moved divided by
    them.
    """
    note = ""
    for batch in batches:
        if is_vector(batch["y_true"]):
            note = _as_probabilities(batch, probabilities) or note
        elif probabilities is not None:
            raise ValueError("`probabilities` is for one label of several classes. Leave it out.")
        yield batch
    if note:
        say(note)


def _as_probabilities(batch: Batch, probabilities: bool | None) -> str:
    """Mend the sums of rounded probabilities in the batch, unless its scores are said to be others;
    what to tell of it.
    """
    note = ""
    if probabilities is not False and "y_score" in batch:
        batch["y_score"], note = unrounded(batch["y_score"])
    batch["probabilities"] = probabilities
    return note


def _weights(path: str | Path, name: str) -> Array:
    """A column of weights; what is none is named by its row."""
    column = _column(path, name, "sample_weight")
    values = pd.to_numeric(column, errors="coerce").to_numpy(float)
    if (wrong := np.isnan(values)).any():
        row = int(wrong.argmax())
        cell = f"{quoted(column.iloc[row])} in row {row + 1}"
        raise ImportFileError(f"{Path(path).name}, column {quoted(name)}: {cell} is no weight.")
    weights = instance_weights(values, "sample_weight", len(values))
    if not weights.any():
        raise ImportFileError(f"{Path(path).name}, column {quoted(name)}: all weights are 0.")
    return weights


def _column(path: str | Path, name: str, argument: str) -> pd.Series:
    """One column of a CSV or parquet file, or an array of an npz file, with a value a row."""
    kind = Path(path).suffix
    if kind not in (".csv", ".parquet", ".npz"):
        file = Path(path).name
        raise ValueError(f"`{argument}` must go with a CSV, parquet or npz file, got {file!r}.")
    try:
        if kind == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return pd.Series(arrays[name])
        if kind == ".parquet":
            return pd.read_parquet(path, columns=[name])[name]
        return pd.read_csv(path, usecols=[name], dtype=str, keep_default_na=False)[name]
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"`{argument}` must be a column of {Path(path).name!r}, got {name!r}."
        ) from error


def _add_rows(tested: dict[Hashable, list[Any]], folds: Any, start: int, end: int) -> None:
    """Add the numbers of the rows from `start` to those that each fold tests."""
    for key, at in groups(folds, "folds", end - start).items():
        tested.setdefault(key, []).append(np.arange(start, end)[at])


def _propensities(path: str | Path, n_labels: int) -> Propensities:
    """From a file of training labels, which may end before the last label that is evaluated."""
    labels = read_matrix(path, labels=True)
    width = max(n_labels, labels.shape[1])
    return Propensities.of(
        sparse.csr_array(
            (labels.data, labels.indices, labels.indptr), shape=(labels.shape[0], width)
        )
    )
