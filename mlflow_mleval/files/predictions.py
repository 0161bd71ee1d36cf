"""Files of predictions, read some rows at a time, so that a file may be larger than memory, and
evaluated; what is broken is named by its line.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from scipy import sparse

from mlflow_mleval.analysis.measure_intervals import with_clusters
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical, merge
from mlflow_mleval.files.prediction_tables import (
    Batch,
    Batches,
    PredictionFile,
    Progress,
    open_csv,
    open_parquet,
    parquet_column,
    refuse_bomb,
)
from mlflow_mleval.files.results import reason, unreadable
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.inputs import Propensities, split_digest
from mlflow_mleval.measures.one_label import is_vector
from mlflow_mleval.sentences import Message, quoted, some
from mlflow_mleval.validation import AnyArray, Array, Ints, groups, instance_weights, present

_CELLS = 1 << 18  # cells of arrays that are read together
_LINES = 1 << 14  # lines of text, and rows of sparse matrices, that are read together
_MOST_LABELS = 10_000_000  # numbers of labels in text; the largest public sets have three million


def open_predictions(
    path: str | Path, progress: Progress = lambda done, total: None
) -> PredictionFile:
    """Open a table of truth and predictions: CSV, parquet or npz.

    CSV (UTF-8, commas) and parquet have one row an instance and for each label a column
    ``true_LABEL`` of 0 and 1 with ``score_LABEL``, ``pred_LABEL`` or both; a leading ``y_`` does
    not matter. A column ``fold`` names the fold. Others are not used. An npz file has the matrices
    ``y_true`` and ``y_score``, ``y_pred`` or both, of shape (N, K), and maybe ``label_names`` (K)
    and ``folds`` (N). Of one label of several classes a column ``true`` holds the class, ``pred``
    the predicted one, and ``score_CLASS`` the scores, or ``score`` that of the second of two;
    classes are text, those of the scores, else all that occur, sorted. In npz the arrays have the
    shapes that `evaluate` takes. Parquet may hold lists of labels instead, in ``true``, in
    ``scored`` with the lists of their ``score``, and in ``pred``. What is broken is an
    ImportFileError: here, or where the batch of a broken row is read. So is a file that declares
    hundreds of times its own size.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start == b"PAR1":
            return open_parquet(path, progress)
        if start in (b"PK\3\4", b"PK\5\6"):
            return _open_npz(path, progress)
        return open_csv(path, progress)
    except OSError as error:
        raise unreadable(path, error) from error


# ---- npz -----------------------------------------------------------------------------------------

_NPZ_NEEDS = (
    "It needs y_true with y_score, y_pred or both, of shape (N, K); and maybe label_names (K) and "
    "folds (N)."
)


@dataclass(frozen=True)
class _Stored:
    """An array of an npz file that is not read yet."""

    path: Path
    name: str
    shape: tuple[int, ...]
    by_column: bool
    dtype: np.dtype[Any]

    def whole(self) -> AnyArray:
        """All of it, bytes as text."""
        with _damage_named(self.path), np.load(self.path, allow_pickle=False) as file:
            array = file[self.name]
            return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array

    def blocks(self, size: int) -> Iterator[AnyArray]:
        """All rows of a matrix, so many at a time."""
        starts = range(0, self.shape[0], size)
        if self.by_column:  # a row lies scattered over the file
            whole = self.whole()
            yield from (whole[start : start + size] for start in starts)
            return
        with (
            _damage_named(self.path),
            zipfile.ZipFile(self.path) as archive,
            archive.open(self.name + ".npy") as stream,
        ):
            _head(stream)
            for start in starts:
                shape = (min(size, self.shape[0] - start), *self.shape[1:])
                data = stream.read(math.prod(shape) * self.dtype.itemsize)
                yield np.frombuffer(data, self.dtype).reshape(shape)


def _head(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it lies by columns, and type of an array, read up to its first value."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    return np.lib.format.read_array_header_2_0(stream)


def _npz_arrays(path: Path) -> dict[str, _Stored]:
    """The arrays of a file by name."""
    arrays = {}
    with _damage_named(path), zipfile.ZipFile(path) as archive:
        refuse_bomb(path, sum(member.file_size for member in archive.infolist()))
        for member in archive.namelist():
            if member.endswith(".npy"):
                with archive.open(member) as stream:
                    shape, by_column, dtype = _head(stream)
                if min(shape, default=0) < 0:
                    raise zipfile.BadZipFile(f"{member} has the shape {shape}")
                name = member.removesuffix(".npy")
                arrays[name] = _Stored(path, name, shape, by_column, dtype)
    return arrays


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except ImportFileError:
        raise
    except Exception as error:  # zipfile, zlib, lzma and NumPy raise a dozen kinds
        raise ImportFileError(
            f"{path.name} is not an npz file that can be read: {reason(error)}."
        ) from error


def _open_npz(path: Path, progress: Progress) -> PredictionFile:
    arrays = _npz_arrays(path)
    sides: tuple[str, ...] = ("y_true", "y_score", "y_pred")
    given = {key: arrays[key] for key in sides if key in arrays}
    if len(given) < 2 or "y_true" not in given:
        listed = ", ".join(map(quoted, arrays)) or "none"
        raise ImportFileError(f"{path.name} has the arrays {listed}. {_NPZ_NEEDS}")
    shape = given["y_true"].shape
    one_label = len(shape) == 1
    for key, array in given.items():
        own = array.shape[:1] if one_label else array.shape
        wanted = own == shape and len(shape) in (1, 2) and 0 not in shape
        if not wanted or array.dtype.kind not in ("biufUS" if one_label else "biuf"):
            raise _unfit(array, key, path)
    n_names = None if one_label else shape[1]
    ignored = tuple(key for key in arrays if key not in (*given, "label_names", "folds"))
    names = None if one_label else tuple(range(shape[1]))
    if "label_names" in arrays:
        names = tuple(_npz_names(arrays["label_names"], "label_names", n_names, path))
    folds: list[Any] = []
    if "folds" in arrays:
        folds = _npz_names(arrays["folds"], "folds", shape[0], path)

    def batches() -> Batches:
        step = shape[0] if one_label else max(1, _CELLS // (shape[1] * len(given)))
        sides = [[array.whole()] if one_label else array.blocks(step) for array in given.values()]
        for start, blocks in enumerate(zip(*sides, strict=True)):
            batch: Batch = dict(zip(given, blocks, strict=True))
            rows = slice(start * step, (start + 1) * step)
            yield batch | ({"folds": folds[rows]} if folds else {})
            progress(min(rows.stop, shape[0]), shape[0])

    return PredictionFile(names, tuple(given)[1:], ignored, batches())


def _npz_names(array: _Stored, key: str, length: int | None, path: Path) -> list[Any]:
    """The names of labels or folds, so many if that is known."""
    fits = len(array.shape) == 1 and length in (None, *array.shape)
    if not fits or array.dtype.kind not in "biufUSO":
        raise _unfit(array, key, path)
    return array.whole().tolist()


def _unfit(array: _Stored, key: str, path: Path) -> ImportFileError:
    return ImportFileError(
        f"{path.name}: {key} has shape {array.shape} and dtype {array.dtype}. {_NPZ_NEEDS}"
    )


# ---- sparse matrices -----------------------------------------------------------------------------


def open_matrices(path: str | Path, truth: str | Path, progress: Progress) -> PredictionFile:
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
            part = slice(start, start + _LINES)
            progress(min(part.stop, n), n)
            yield {"y_true": _widened(true[part], width), "y_score": _widened(score[part], width)}

    return PredictionFile(tuple(range(width)), ("y_score",), (), batches())


def _widened(matrix: sparse.csr_array, width: int) -> sparse.csr_array:
    """The matrix with further columns without entries."""
    parts = (matrix.data, matrix.indices, matrix.indptr)
    return sparse.csr_array(parts, shape=(matrix.shape[0], width))


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
        matrix = _of_npz(path) if packed else _of_text(path, labels)
    except OSError as error:
        raise unreadable(path, error) from error
    if matrix.shape[1] > _MOST_LABELS:
        raise ImportFileError(
            f"{path.name} declares {matrix.shape[1]:,} labels, more than {_MOST_LABELS:,}. Number "
            "the labels from 0."
        )
    return matrix


def _of_npz(path: Path) -> sparse.csr_array:
    _npz_arrays(path)  # what is damaged, or unpacks to hundreds of times its size, ends here
    try:
        matrix = sparse.csr_array(sparse.load_npz(path))
        matrix.check_format(full_check=True)
        return matrix
    except Exception as error:  # of as many kinds
        raise ImportFileError(
            f"{path.name} holds no sparse matrix: {reason(error)}. Write it by "
            "scipy.sparse.save_npz."
        ) from error


def _of_text(path: Path, labels: bool) -> sparse.csr_array:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        first = file.readline().split()
        promised = [int(part) for part in first if part.isdecimal()]
        is_head = len(promised) == len(first) and len(first) in ((2, 3) if labels else (2,))
        if not is_head:
            promised = []
            file.seek(0)
        rows: list[tuple[Ints, Array]] = []
        for at, text in enumerate(file, 2 if is_head else 1):
            try:
                rows.append(_entries(text, labels, is_data=len(promised) == 3))
            except ValueError:
                wanted = "LABEL:VALUE pairs" + " or LABEL,LABEL,… FEATURE:VALUE pairs" * labels
                raise ImportFileError(
                    f"{path.name}, line {at}: {quoted(text.strip()[:60])} is not {wanted}."
                ) from None
    if not rows:
        raise ImportFileError(f"{path.name} is empty. It needs a line for each instance.")
    widths = [int(columns.max(initial=-1)) + 1 for columns, _ in rows]
    n_labels = promised[-1] if promised else max(1, *widths)
    if promised and len(rows) != promised[0]:
        raise ImportFileError(
            f"{path.name}: the first line promises {promised[0]} rows, and there are {len(rows)}."
        )
    if wide := [i for i, width in enumerate(widths) if width > n_labels]:
        raise ImportFileError(
            f"{path.name}, line {wide[0] + 2}: label {widths[wide[0]] - 1} where the first line "
            f"promises {n_labels} labels."
        )
    ends = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    columns, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return sparse.csr_array((values, columns, ends), shape=(len(rows), n_labels))


def _entries(text: str, labels: bool, is_data: bool) -> tuple[Ints, Array]:
    """Labels and values of a line: of its pairs, or the labels before its features."""
    first = text.partition(" ")[0].strip()
    if labels and (is_data or ":" not in first):
        listed = first.split(",") if first and ":" not in first else []
        columns, values = np.array(listed, np.int64), np.ones(len(listed))
    else:
        pairs = [pair.partition(":") for pair in text.split()]
        columns = np.array([int(label) for label, _, _ in pairs], np.int64)
        values = np.array([float(value) for _, _, value in pairs])
    if (columns < 0).any() or not np.isfinite(values).all():
        raise ValueError(text)
    return columns, values


# ---- lines of classes, and hierarchies -----------------------------------------------------------


def open_class_sets(
    path: str | Path, truth: str | Path, h: Hierarchy, progress: Progress
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

    def batches() -> Batches:
        line = read = 0
        with files[0], files[1]:
            while any(parts := [list(islice(file, _LINES)) for file in files]):
                if len(parts[0]) != len(parts[1]):
                    short = int(len(parts[1]) < len(parts[0]))
                    raise ImportFileError(
                        f"{paths[short].name} ends behind line {line + len(parts[short])}, and "
                        f"{paths[1 - short].name} goes on. Both need a line for each instance."
                    )
                true, predicted = (
                    _indicator(lines, line, h, p.name)
                    for lines, p in zip(parts, paths, strict=True)
                )
                line += len(parts[0])
                read += sum(len(text) for lines in parts for text in lines)
                progress(min(read, total), total)
                yield {"true_sets": true, "pred_sets": predicted}
        if not line:
            raise ImportFileError(
                f"{paths[1].name} is empty. It needs a line of classes for each instance."
            )
        progress(total, total)

    return PredictionFile(tuple(h.nodes), ("pred_sets",), (), batches())


def _indicator(lines: Sequence[str], before: int, h: Hierarchy, file: str) -> Any:
    """Lines of classes as a matrix; so many lines stand before them."""
    rows = [text.split() for text in lines]
    for at, row in enumerate(rows, before + 1):
        if unknown := [name for name in row if name not in h]:
            raise ImportFileError(
                f"{file}, line {at}: {quoted(unknown[0])} is no class of the hierarchy "
                f"({len(h)} classes, such as {quoted(h.nodes[0])})."
            )
    return h.indicator(rows, file)


def read_hierarchy(path: str | Path) -> Hierarchy:
    """The hierarchy of a file of edges: CSV with the columns parent, child and maybe weight, or
    lines of "parent child".
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").lstrip("\ufeff").splitlines()
        header = [cell.strip() for cell in lines[0].split(",")] if lines else []
        if len(header) > 1:
            return Hierarchy.from_csv(path, weight="weight" if "weight" in header else None)
        edges: dict[tuple[str, ...], int] = {}
        for number, line in enumerate(lines, 1):
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


# ---- evaluated block by block --------------------------------------------------------------------

#: Options that say how scores are read.
_OF_SCORES = ("threshold", "conventions", "train_labels")
_FOR_ONE_LABEL = "`probabilities` is for one label of several classes. Leave it out."
#: Sums of probabilities this close to 1 need no other reason than single precision.
_SINGLE = 1e-6
#: Decimals and significant digits to which probabilities may have been rounded; with more, sums
#: differ less than that.
_DIGITS = range(1, 8)


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

    It is CSV, parquet or npz with truth and predictions, see `open_predictions`; with a file
    `truth`, a sparse matrix of scores, and `truth` one of labels, see `read_matrix`; with `truth`
    and `hierarchy`, lines of predicted and of true classes as HEMKit reads them. The hierarchy is a
    Hierarchy or a file of lines "parent child" or CSV with the columns parent, child and maybe
    weight. `cluster` is a column of a CSV or parquet file, or an array of an npz file, that tells
    which instances belong together, `sample_weight` one of how much each counts. `probabilities` is
    that of `evaluate`, for one label; by default probabilities whose sums only rounding keeps from
    1 are divided by them, and `say` is told once. Further options are those of
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
        if truth is None:
            source = open_predictions(path, progress)
        else:
            source = open_matrices(path, truth, progress)
        if train := options.pop("train_labels", None):
            labels = read_matrix(train, labels=True)
            width = max(len(source.names or ()), labels.shape[1])  # it may lack the last labels
            options["train_labels"] = Propensities.of(_widened(labels, width))
        evaluate_part = partial(evaluate, label_names=source.names, hierarchy=h, **options)
    if truth is None:
        source = replace(source, batches=_mended(source.batches, probabilities, say))
    elif probabilities is not None:
        raise ValueError(_FOR_ONE_LABEL)
    weights = None if sample_weight is None else _weights(path, sample_weight)
    whole = _whole(source.batches, evaluate_part, Path(path).name, weights)
    return whole if cluster is None else with_clusters(whole, _column(path, cluster, "cluster"))


def _whole(
    batches: Batches, evaluate_part: Callable[..., Evaluation], name: str, weights: Array | None
) -> Evaluation:
    """The evaluation of all batches, with the rows of each fold as its split."""
    whole: Evaluation | None = None
    tested: dict[Hashable, list[Any]] = {}
    start = 0
    for batch in batches:
        rows = batch["true_sets" if "true_sets" in batch else "y_true"]
        end = start + (rows.shape[0] if hasattr(rows, "shape") else len(rows))
        if weights is not None:
            batch["sample_weight"] = weights[start:end]
        try:
            part = evaluate_part(**batch, instances=whole is None)
        except (ValueError, TypeError) as error:
            where = f"{name}, rows from {start + 1} on: "
            raise ImportFileError(Message(where, str(error))) from error
        whole = part if whole is None else merge([whole, part])
        if "folds" in batch:
            for key, at in groups(batch["folds"], "folds", end - start).items():
                tested.setdefault(key, []).append(np.arange(start, end)[at])
        start = end
    whole = present(whole)  # a file without rows is refused when it is opened
    if not tested:
        return whole
    return replace(whole, split=split_digest(np.concatenate(tested[key]) for key in whole.sums))


def _mended(batches: Batches, probabilities: bool | None, say: Callable[[str], object]) -> Batches:
    """The batches; of one label, probabilities whose sums rounding has moved are divided by them,
    unless the scores are said to be others.
    """
    note = ""
    for batch in batches:
        if is_vector(batch["y_true"]):
            if probabilities is not False and "y_score" in batch:
                batch["y_score"], own = unrounded(batch["y_score"])
                note = own or note
            batch["probabilities"] = probabilities
        elif probabilities is not None:
            raise ValueError(_FOR_ONE_LABEL)
        yield batch
    if note:
        say(note)


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
    path = Path(path)
    try:
        if path.suffix == ".npz":
            return pd.Series(_npz_arrays(path)[name].whole())
        if path.suffix == ".parquet":
            return parquet_column(path, name)
        if path.suffix == ".csv":
            return pd.read_csv(path, usecols=[name], dtype=str, keep_default_na=False)[name]
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"`{argument}` must be a column of {path.name!r}, got {name!r}."
        ) from error
    raise ValueError(f"`{argument}` must go with a CSV, parquet or npz file, got {path.name!r}.")


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
