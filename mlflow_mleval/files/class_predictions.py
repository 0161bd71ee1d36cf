"""Files of predictions of one label of several classes, read some rows at a time; what is broken is
named by its line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.reading import FOLD, PredictionFile, Progress, csv_rows, fold_name, reason
from mlflow_mleval.naming import quoted, some

_ROWS = 1 << 15  # rows that are read together
_TRUE, _PRED, _SCORE = ("true", "y_true"), ("pred", "y_pred"), ("score", "y_score")
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
    at = {
        kind: [i for i, column in enumerate(header) if column in names]
        for kind, names in (("true", _TRUE), ("pred", _PRED), ("score", _SCORE), ("fold", (FOLD,)))
    }
    if not at["true"] or any(column.startswith(("true_", "y_true_")) for column in header):
        return None
    for kind, places in at.items():
        if len(places) > 1:
            raise ImportFileError(f"{path.name}: two columns hold {kind}. Remove one.")
    columns = {
        column.partition("score_")[2]: i
        for i, column in enumerate(header)
        if column.startswith(("score_", "y_score_"))
    }
    if not columns and not at["pred"] and not at["score"]:
        raise ImportFileError(
            f"{path.name} has the column {header[at['true'][0]]} and no predictions. Add a "
            "column pred, score_CLASS, or both."
        )
    own = (at["true"][0], *at["pred"])
    names = tuple(columns) or tuple(
        sorted({_class(row, header, place) for row in rows() for place in own})
    )
    if not columns and at["score"] and len(names) != 2:
        raise ImportFileError(
            f"{path.name}: a column score is that of the second of two classes, and there are "
            f"{len(names)} ({some(names, 8)}). Add one column score_CLASS for each class; "
            "measurements of a regression are not evaluated."
        )
    places = list(columns.values()) or at["score"]
    used = {*own, *places, *at["fold"]}
    inputs = (*(["y_score"] if places else []), *(["y_pred"] if at["pred"] else []))

    def batches() -> Iterator[dict[str, Any]]:
        read, known = rows(), set(names)
        empty = True
        while part := list(islice(read, _ROWS)):
            empty = False
            batch: dict[str, Any] = {}
            for kind, where in (("y_true", at["true"]), ("y_pred", at["pred"])):
                if where:
                    batch[kind] = [_class(row, header, where[0], known) for row in part]
            if places:
                scores = np.array(
                    [[_number(row, header, place) for place in places] for row in part]
                )
                batch["y_score"] = scores if columns else scores[:, 0]
            if at["fold"]:
                batch["folds"] = [fold_name(_class(row, header, at["fold"][0])) for row in part]
            yield batch
        if empty:
            raise ImportFileError(f"{path.name} has a header but no rows.")

    ignored = tuple(column for i, column in enumerate(header) if i not in used)
    return PredictionFile(names, inputs, ignored, batches())


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
    if (
        off.max() <= np.sqrt(np.finfo(float).eps)
        or not (off <= _by_rounding(scores) + _SINGLE).all()
        or not sums.all()
    ):
        return scores, ""
    shown = f"{sums[off.argmax()]:.9g}"
    return scores / sums[
        :, None
    ], f"probabilities were rounded: in each row they are divided by their sum, such as {shown}"


def _by_rounding(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far off 1 rounding can bring the sum of each row: to as many decimals, or digits, as all
    numbers have at most.
    """
    first = 10.0 ** np.floor(
        np.log10(np.where(scores > 0, scores, 1.0))
    )  # what the first digit counts
    by_decimals = scores.shape[1] * 0.5 * _last_place(scores)
    by_digits = (first * (scores > 0)).sum(axis=1) * 0.5 * _last_place(scores / first)
    return np.maximum(by_decimals, by_digits)


def _last_place(numbers: NDArray[np.float64]) -> float:
    """What the last of the decimals counts that all numbers have at most; 0 where they have
    many.
    """
    return next(
        (10.0**-d for d in _DIGITS if np.abs(np.round(numbers, d) - numbers).max() < 1e-12), 0.0
    )


def _class(row: _Row, header: Sequence[str], place: int, known: set[str] | None = None) -> str:
    """The class in a cell."""
    where, cells = row
    text = "" if cells[place] is None else str(cells[place])
    if not text or text == "nan":
        raise ImportFileError(f"{where}, column {quoted(header[place])}: the row has none.")
    if known is not None and text not in known:
        told = (
            f"{quoted(text)} is none of the classes with scores "
            f"({some(map(repr, sorted(known)), 8)})"
        )
        raise ImportFileError(f"{where}, column {quoted(header[place])}: {told}.")
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
    path: Path, progress: Progress
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


def _parquet_rows(path: Path, progress: Progress) -> tuple[list[str], Callable[[], Iterator[_Row]]]:
    file = parquet.ParquetFile(path)
    header = file.schema_arrow.names

    def rows() -> Iterator[_Row]:
        done, total = 0, file.metadata.num_rows
        try:
            for batch in file.iter_batches(_ROWS, use_threads=False):
                for i, cells in enumerate(
                    zip(*(column.to_pylist() for column in batch.columns), strict=True), done + 1
                ):
                    yield f"{path.name}, row {i}", cells
                done += len(batch)
                progress(done, total)
        except (pa.ArrowException, OSError) as error:
            raise ImportFileError(
                f"{path.name}, behind row {done}: the file is damaged: {reason(error)}."
            ) from error

    return header, rows


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
