"""Sparse matrices of labels and scores in files: CSR of SciPy, text of the XMC repository,
svmlight, parquet with lists.

What is broken is named by its line.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.reading import (
    FOLD,
    PredictionFile,
    Progress,
    columns_shown,
    reason,
    unreadable,
)
from mlflow_mleval.naming import quoted

_LINES = 1 << 14  # lines of text, and rows of matrices, that are evaluated together
_LISTS = ("true", "pred", "scored", "score")


def open_matrices(
    path: str | Path, truth: str | Path, progress: Progress = lambda done, total: None
) -> PredictionFile:
    """Open a file of scores and a file of true labels, both over labels 0..K-1; row i of both is
    the same instance.

    Each is a CSR matrix that ``scipy.sparse.save_npz`` wrote, or text, see `read_matrix`.
    """
    score, true = read_matrix(path, labels=False), read_matrix(truth, labels=True)
    if score.shape[0] != true.shape[0]:
        raise ImportFileError(
            f"{Path(path).name} has {score.shape[0]} rows and {Path(truth).name} "
            f"{true.shape[0]}. Both need one an instance."
        )
    width = max(score.shape[1], true.shape[1])
    n = true.shape[0]

    def batches() -> Iterator[dict[str, Any]]:
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
        found = sparse.csr_array(sparse.load_npz(path))
        found.check_format(full_check=True)
        return found
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        told = (
            f"{path.name} holds no sparse matrix: {reason(error)}. Write it by "
            "scipy.sparse.save_npz."
        )
        raise ImportFileError(told) from error


def _of_text(file: Any, name: str, labels: bool) -> sparse.csr_array:
    first = file.readline()
    head = (
        [int(v) for v in first.split()]
        if first.strip() and all(v.isdecimal() for v in first.split())
        else []
    )
    data_file = len(head) == 3 and labels
    head = head if len(head) == 2 or data_file else []
    if not head:
        file.seek(0)
    columns: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float64]] = []
    ends = [0]
    at = 1 if head else 0
    while lines := list(islice(file, _LINES)):
        for text in lines:
            at += 1
            try:
                column, value = _labels_of(text, data_file) if labels else _pairs(text)
            except ValueError:
                wanted = "LABEL:VALUE pairs" + " or LABEL,LABEL,… FEATURE:VALUE pairs" * labels
                raise ImportFileError(
                    f"{name}, line {at}: {quoted(text.strip()[:60])} is not {wanted}."
                ) from None
            columns.append(column)
            values.append(value)
            ends.append(ends[-1] + len(column))
    if not columns:
        raise ImportFileError(f"{name} is empty. It needs a line for each instance.")
    rows, width = len(columns), max((int(c.max()) + 1 for c in columns if len(c)), default=1)
    if head and rows != head[0]:
        raise ImportFileError(
            f"{name}: the first line promises {head[0]} rows, and there are {rows}."
        )
    if head and width > head[-1]:
        line = next(i for i, c in enumerate(columns) if len(c) and c.max() >= head[-1]) + 2
        worst = columns[line - 2].max()
        raise ImportFileError(
            f"{name}, line {line}: label {worst} where the first line promises {head[-1]} labels."
        )
    shape = rows, head[-1] if head else width
    return sparse.csr_array(
        (np.concatenate(values), np.concatenate(columns), np.array(ends)), shape=shape
    )


def _pairs(text: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    parts = [pair.partition(":") for pair in text.split()]
    if not all(colon for _, colon, _ in parts):
        raise ValueError(text)
    column = np.array([int(label) for label, _, _ in parts], np.int64)
    value = np.array([float(v) for _, _, v in parts])
    if (column < 0).any() or not np.isfinite(value).all():
        raise ValueError(text)
    return column, value


def _labels_of(text: str, data_file: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
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
    kinds = {name: schema.field(name).type for name in _LISTS if name in schema.names}
    is_list = {
        name: pa.types.is_list(kind) or pa.types.is_large_list(kind) for name, kind in kinds.items()
    }
    if not is_list.get("true"):
        return None
    if wrong := [name for name, fine in is_list.items() if not fine]:
        raise ImportFileError(
            f"{path.name}: the column {wrong[0]} holds {kinds[wrong[0]]} and true lists. It "
            "needs lists, too."
        )
    scored = "scored" in kinds and "score" in kinds
    if not scored and "pred" not in kinds:
        need = (
            "scored (lists of labels) with score (lists of their scores), pred (lists of "
            "labels), or both"
        )
        raise ImportFileError(
            f"{path.name}: no column of predictions (it has {columns_shown(schema.names)}). Add "
            f"{need}."
        )
    own = [name for name in ("true", "scored" * scored, "pred") if name in kinds]
    found: set[Any] = set()
    for batch in file.iter_batches(_LINES, columns=own):
        for column in batch.columns:
            found.update(column.flatten().unique().to_pylist())
    if None in found:
        raise ImportFileError(f"{path.name}: a list of labels holds null. Leave it out.")
    names = tuple(sorted(found))
    inputs = (*(["y_score"] if scored else []), *(["y_pred"] if "pred" in kinds else []))
    used = [*own, *(["score"] if scored else []), *([FOLD] if FOLD in schema.names else [])]
    ignored = tuple(name for name in schema.names if name not in used)
    return PredictionFile(
        names, inputs, ignored, _list_batches(file, path.name, names, used, progress)
    )


def _list_batches(
    file: parquet.ParquetFile,
    name: str,
    names: tuple[Any, ...],
    used: list[str],
    progress: Progress,
) -> Iterator[dict[str, Any]]:
    total, done = file.metadata.num_rows, 0
    known = pa.array(names)
    for batch in file.iter_batches(_LINES, columns=used):
        sides: dict[str, Any] = {}
        for key, column in (("y_true", "true"), ("y_score", "scored"), ("y_pred", "pred")):
            if column not in used:
                continue
            lists = batch[column]
            if lists.null_count:
                row = done + lists.is_null().to_pylist().index(True) + 1
                raise ImportFileError(
                    f"{name}, row {row}, column {column}: there is no list. An empty list is an "
                    "empty set."
                )
            ends = np.append(
                0, np.cumsum(lists.value_lengths().to_numpy(zero_copy_only=False))
            ).astype(np.int64)
            labels = lists.flatten().dictionary_encode()
            place = pa.compute.index_in(labels.dictionary.cast(known.type), known).to_numpy(
                zero_copy_only=False
            )
            columns = place[labels.indices.to_numpy(zero_copy_only=False)]
            values = np.ones(len(columns), bool)
            if key == "y_score":
                scores = batch["score"]
                lengths = pa.compute.fill_null(scores.value_lengths(), -1).to_numpy(
                    zero_copy_only=False
                )
                if len(wrong := np.flatnonzero(lengths != np.diff(ends))):
                    row = done + int(wrong[0]) + 1
                    raise ImportFileError(
                        f"{name}, row {row}: scored and score have different numbers of elements."
                    )
                values = scores.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)
                if len(wrong := np.flatnonzero(~np.isfinite(values))):
                    row = done + int(np.searchsorted(ends, wrong[0], side="right"))
                    raise ImportFileError(
                        f"{name}, row {row}, column score: {values[wrong[0]]} is not a finite "
                        "number."
                    )
            sides[key] = sparse.csr_array((values, columns, ends), shape=(len(batch), len(names)))
            if sides[key].nnz != len(columns) or not _distinct(columns, ends):
                raise ImportFileError(
                    f"{name}, rows {done + 1} to {done + len(batch)}: a list of {column} names a "
                    "label twice."
                )
        if FOLD in used:
            sides["folds"] = batch[FOLD].to_pylist()
        done += len(batch)
        progress(done, total)
        yield sides


def _distinct(columns: NDArray[np.int64], ends: NDArray[np.int64]) -> bool:
    row = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    order = np.lexsort((columns, row))
    return not ((np.diff(columns[order]) == 0) & (np.diff(row[order]) == 0)).any()
