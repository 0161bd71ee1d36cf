"""Files of predictions, which may be larger than memory; errors name the line."""

from __future__ import annotations

import math
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from scipy import sparse

from mlflow_mleval.analysis.measure_intervals import CLUSTER, with_clusters
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical, merge
from mlflow_mleval.files.results import INSTANCE, columns_shown, csv_rows, reason, unreadable
from mlflow_mleval.measures.hierarchy import Hierarchy, offsets
from mlflow_mleval.measures.inputs import Csr, Propensities, row_sizes, split_digest
from mlflow_mleval.measures.one_label import is_vector
from mlflow_mleval.measures.sums import SAMPLE_WEIGHT
from mlflow_mleval.sentences import Message, quoted, some
from mlflow_mleval.validation import AnyArray, Array, Bools, Ints, groups, present

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
    "score_CLASS or both; or, of lists of labels, true with pred, scored and score, or all."
)

_BLOCK = 1 << 18  # bytes of CSV that are parsed together, of which a line is part
_CELLS = 1 << 18  # cells of tables and arrays that are read together
_LINES = 1 << 14  # lines of text, and rows of sparse matrices, that are read together
_IN_MEMORY = 1 << 24  # bytes of an array that is read at once
_LONGEST = 1 << 26  # bytes of one line; more is no table
_PLENTY = 1 << 28  # bytes that a file may declare however small it is
_MOST_LABELS = 10_000_000  # numbers of labels in text; the largest public sets have three million
_PACKED = 500  # times its own size that it may declare beyond that


@dataclass(frozen=True)
class PredictionFile:
    """What a file holds."""

    #: The K labels, or the classes of class sets; None where the classes are those that occur.
    names: tuple[Any, ...] | None
    ignored: tuple[str, ...]  # columns that are not used
    batches: Batches  # read once


def refuse_bomb(path: Path, declared: int) -> None:
    """Raise for a file that would unpack to hundreds of times its size."""
    size = path.stat().st_size
    if declared > max(_PLENTY, _PACKED * size):
        raise ImportFileError(
            f"{path.name} declares {declared:,} bytes and has {size:,}; more than {_PACKED} times "
            "its size is not unpacked. If it is yours, write it in parts or uncompressed."
        )


def open_predictions(
    path: str | Path, progress: Progress = lambda done, total: None
) -> PredictionFile:
    """Open a table of truth and predictions, CSV, parquet or npz, see the guide to foreign data; an
    ImportFileError here says what is broken, or where the batch of a broken row is read."""
    path = Path(path)
    opened = {"parquet": open_parquet_predictions, "npz": open_npz, "csv": open_csv}
    try:
        return opened[_format(path)](path, progress)
    except OSError as error:
        raise unreadable(path, error) from error


def _format(path: Path) -> str:
    """Whether it is a parquet, an npz or else a CSV file, by how it begins."""
    with path.open("rb") as file:
        start = file.read(4)
    if start == b"PAR1":
        return "parquet"
    return "npz" if start in (b"PK\3\4", b"PK\5\6") else "csv"


# ---- npz -----------------------------------------------------------------------------------------

_NPZ_NEEDS = (
    "It needs y_true with y_score, y_pred or both, of shape (N, K); and maybe label_names (K) and "
    "folds (N)."
)


def _npz_arrays(path: Path) -> dict[str, AnyArray]:
    """The arrays of a file by name, unpacked on disk: in memory is what is looked at."""
    arrays = {}
    try:
        with (
            zipfile.ZipFile(path) as archive,
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        ):
            refuse_bomb(path, sum(member.file_size for member in archive.infolist()))
            for i, name in enumerate(archive.namelist()):
                if name.endswith(".npy"):
                    unpacked = Path(folder, f"{i}.npy")
                    with archive.open(name) as packed, unpacked.open("wb") as file:
                        shutil.copyfileobj(packed, file)
                    # files that are open stay until the last array is let go
                    is_large = unpacked.stat().st_size > _IN_MEMORY
                    array = np.load(unpacked, "r" if is_large else None, allow_pickle=False)
                    arrays[name.removesuffix(".npy")] = array
    except ImportFileError:
        raise
    except Exception as error:  # zipfile, zlib, lzma and NumPy raise a dozen kinds
        why = f"is not an npz file that can be read: {reason(error)}"
        raise ImportFileError(f"{path.name} {why}.") from error
    return arrays


def open_npz(path: Path, progress: Progress) -> PredictionFile:
    arrays = _npz_arrays(path)
    given = [name for name in ("y_true", "y_score", "y_pred") if name in arrays]
    if len(given) < 2 or "y_true" not in given:
        listed = some(map(quoted, arrays))
        raise ImportFileError(f"{path.name} has the arrays {listed}. {_NPZ_NEEDS}")
    n, *width = np.atleast_1d(arrays["y_true"]).shape
    names = _as_text(arrays.pop("label_names", np.arange(sum(width[:1])))).tolist()
    held = {key: arrays.pop(key) for key in (*given, "folds") if key in arrays}
    if not width and "y_score" in given and held["y_score"].dtype.kind in "iu":
        held["y_score"] = held["y_score"].astype(float)  # scores, also where they look like classes
    if not n or 0 in width or any(array.shape[:1] != (n,) for array in held.values()):
        shapes = ", ".join(f"{key} {array.shape}" for key, array in held.items())
        raise ImportFileError(f"{path.name}: the shapes are {shapes}. {_NPZ_NEEDS}")

    step = max(1, _CELLS // (width[0] * len(given))) if width else n
    batches = _rows_of_arrays(held, n, step, progress)
    return PredictionFile(tuple(names) or None, tuple(sorted(arrays)), batches)


def _rows_of_arrays(arrays: Batch, n: int, step: int, progress: Progress) -> Batches:
    """Some of the n rows of all arrays at a time."""
    for start in range(0, n, step):
        part = slice(start, start + step)
        yield {key: _as_text(array[part]) for key, array in arrays.items()}
        progress(min(part.stop, n), n)


def _as_text(array: Any) -> Any:
    """The array in memory, bytes as text; a sparse one is there already."""
    if sparse.issparse(array):
        return array
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else np.array(array)


# ---- sparse matrices -----------------------------------------------------------------------------


def open_matrices(path: str | Path, truth: str | Path, progress: Progress) -> PredictionFile:
    """Open files of scores and of true labels, see `read_matrix`, with a row an instance."""
    score = read_matrix(path, labels=False)
    true = read_matrix(truth, labels=True)
    if score.shape[0] != true.shape[0]:
        raise ImportFileError(
            f"{Path(path).name} has {score.shape[0]} rows and {Path(truth).name} {true.shape[0]}."
        )
    width = max(score.shape[1], true.shape[1])
    n = true.shape[0]
    for matrix in (true, score):
        matrix.resize((n, width))
    batches = _rows_of_arrays({"y_true": true, "y_score": score}, n, _LINES, progress)
    return PredictionFile(tuple(range(width)), (), batches)


def read_matrix(path: str | Path, labels: bool) -> Csr:
    """CSR of ``scipy.sparse.save_npz``, or lines ``LABEL:VALUE …`` below maybe ``ROWS COLUMNS``; of
    true `labels` also ``LABEL,LABEL,… FEATURE:VALUE …``, as the XMC repository has them."""
    path = Path(path)
    try:
        if _format(path) == "npz":
            _npz_arrays(path)  # what is damaged, or unpacks to hundreds of times its size
            matrix = sparse.csr_array(sparse.load_npz(path))
            matrix.check_format(full_check=True)
        else:
            matrix = _of_text(path, labels)
    except OSError as error:
        raise unreadable(path, error) from error
    except ImportFileError:
        raise
    except Exception as error:  # of as many kinds
        why = f"holds no sparse matrix of scipy.sparse.save_npz: {reason(error)}"
        raise ImportFileError(f"{path.name} {why}.") from error
    if matrix.shape[1] > _MOST_LABELS:
        most = f"more than {_MOST_LABELS:,}"
        raise ImportFileError(f"{path.name} declares {matrix.shape[1]:,} labels, {most}.")
    return matrix


def _of_text(path: Path, labels: bool) -> Csr:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        first = file.readline().split()
        is_head = all(map(str.isdecimal, first)) and len(first) in (2, 2 + labels)
        promised = [int(part) for part in first] if is_head else []
        if not is_head:
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
    ends = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    columns, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    n_labels = promised[-1] if promised else max(1, int(columns.max(initial=0)) + 1)
    if promised and len(rows) != promised[0]:
        raise ImportFileError(
            f"{path.name}: the first line promises {promised[0]} rows, and there are {len(rows)}."
        )
    if len(wide := np.flatnonzero(columns >= n_labels)):
        line = int(np.searchsorted(ends, wide[0], side="right")) + 1
        why = f"label {columns[wide[0]]} where the first line promises {n_labels} labels"
        raise ImportFileError(f"{path.name}, line {line}: {why}.")
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
    """Open two files of class sets: a line an instance, with spaces between classes."""
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
                    ends = f"{paths[short].name} ends behind line {line + len(parts[short])}"
                    why = f"{ends}, and {paths[1 - short].name} goes on"
                    raise ImportFileError(f"{why}. Both need a line for each instance.")
                batch: Batch = {}
                for side, lines, p in zip(("true_sets", "pred_sets"), parts, paths, strict=True):
                    rows = [text.split() for text in lines]
                    for at, row in enumerate(rows, line + 1):
                        if unknown := [name for name in row if name not in h]:
                            want = f"hierarchy ({len(h)} classes, such as {quoted(h.nodes[0])})"
                            why = f"{quoted(unknown[0])} is no class of the {want}"
                            raise ImportFileError(f"{p.name}, line {at}: {why}.")
                    batch[side] = h.indicator(rows, p.name)
                    read += sum(map(len, lines))
                line += len(parts[0])
                progress(min(read, total), total)
                yield batch
        if not line:
            raise ImportFileError(f"{paths[1].name} is empty. It needs a line an instance.")
        progress(total, total)

    return PredictionFile(tuple(h.nodes), (), batches())


def read_hierarchy(path: str | Path) -> Hierarchy:
    """The hierarchy of a CSV with the columns parent and child, or of lines "parent child"."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").lstrip("\ufeff").splitlines()
        header = [cell.strip() for cell in lines[0].split(",")] if lines else []
        if len(header) > 1:
            return Hierarchy.from_csv(path)
        edges = [line.split() for line in lines]
        for number, edge in enumerate(edges, 1):
            if len(edge) not in (0, 2):
                got = f"{len(edge)}: {quoted(lines[number - 1].strip())}"
                why = f"an edge is two classes, parent and child, got {got}"
                raise ImportFileError(f"{path.name}, line {number}: {why}.")
        return Hierarchy(dict.fromkeys(map(tuple, filter(None, edges))))
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise ImportFileError(Message(f"{path.name}: ", error)) from error


# ---- evaluated block by block --------------------------------------------------------------------

#: Options that say how scores are read.
_OF_SCORES = ("threshold", "conventions", "train_labels")
#: Sums of probabilities this close to 1 need no other reason than single precision.
_SINGLE = 1e-6
#: Decimals to which probabilities may have been rounded; with more, sums differ less than that.
_DIGITS = range(1, 8)


def evaluate_file(
    path: str | Path,
    *,
    truth: str | Path | None = None,
    hierarchy: str | Path | Hierarchy | None = None,
    cluster: str | None = None,
    probabilities: bool | None = None,
    instances: bool = False,
    progress: Progress = lambda done, total: None,
    say: Callable[[str], object] = lambda text: None,
    **options: Any,
) -> Evaluation:
    """Evaluate a file of predictions larger than memory, maybe beside one of the `truth`, with the
    options of `evaluate` or `evaluate_hierarchical`. Instances are kept for `cluster` or with
    `instances` only, which adds the columns that are not used: a gate goes by slices of these."""
    h = read_hierarchy(hierarchy) if isinstance(hierarchy, (str, Path)) else hierarchy
    evaluate_part: Callable[..., Evaluation]
    if truth is not None and h is not None:
        if unfit := [name for name in _OF_SCORES if options.pop(name, None) is not None]:
            listed = some(map("`{}`".format, unfit))
            want = "left out with `truth` and `hierarchy`"
            raise ValueError(f"{listed} must be {want}. Classes have no scores.")
        source = open_class_sets(path, truth, h, progress)
        evaluate_part = partial(evaluate_hierarchical, h=h, **options)
    else:
        if truth is None:
            source = open_predictions(path, progress)
        else:
            source = open_matrices(path, truth, progress)
        if train := options.pop("train_labels", None):
            labels = read_matrix(train, labels=True)
            n, width = labels.shape
            labels.resize((n, max(len(source.names or ()), width)))  # it may lack the last ones
            options["train_labels"] = Propensities.of(labels)
        evaluate_part = partial(evaluate, label_names=source.names, hierarchy=h, **options)
    together = None if cluster is None else _column(path, cluster, "cluster")
    evaluate_part = partial(evaluate_part, instances=instances or together is not None)
    whole = _whole(source.batches, evaluate_part, Path(path).name, probabilities, say)
    if instances and _format(Path(path)) != "npz":
        # what would be taken for a value or a cluster of its instance is none
        rows = present(whole.instances)
        taken = {cluster, INSTANCE, SAMPLE_WEIGHT, CLUSTER, *rows}
        beside = {name: _column(path, name, name) for name in source.ignored if name not in taken}
        whole = replace(whole, instances=rows.assign(**beside))
    return whole if together is None else with_clusters(whole, together)


def _whole(
    batches: Batches,
    evaluate_part: Callable[..., Evaluation],
    name: str,
    probabilities: bool | None,
    say: Callable[[str], object],
) -> Evaluation:
    """The evaluation of all batches, with the rows of each fold as its split; of one label,
    probabilities that were rounded sum to 1 again."""
    whole: Evaluation | None = None
    tested: dict[Hashable, list[Any]] = {}
    start, note = 0, ""
    for batch in batches:
        rows = batch["true_sets" if "true_sets" in batch else "y_true"]
        end = start + np.shape(rows)[0]
        if is_vector(rows):
            if probabilities is not False:
                batch["y_score"], own = unrounded(batch.get("y_score"))
                note = own or note
            batch["probabilities"] = probabilities
        elif probabilities is not None:
            raise ValueError("`probabilities` is for one label of several classes. Leave it out.")
        if whole is None:
            batch["instances"] = True
        try:
            part = evaluate_part(**batch)
        except (ValueError, TypeError) as error:
            where = f"{name}, rows from {start + 1} on: "
            raise ImportFileError(Message(where, str(error))) from error
        whole = part if whole is None else merge([whole, part])
        for key, at in groups(batch.get("folds"), "folds", end - start).items():
            tested.setdefault(key, []).append(np.arange(start, end)[at])
        start = end
    if note:
        say(note)
    whole = present(whole)  # a file without rows is refused when it is opened
    if None in tested:
        return whole
    return replace(whole, split=split_digest(np.concatenate(tested[key]) for key in whole.sums))


def _column(path: str | Path, name: str, argument: str) -> pd.Series:
    """One column of a CSV or parquet file, or an array of an npz file, with a value a row."""
    path = Path(path)
    kind = _format(path)
    try:
        if kind == "npz":
            return pd.Series(_as_text(_npz_arrays(path)[name]))
        if kind == "parquet":
            file = _parquet_file(path)
            _refuse_large(path, file, [name])
            return file.read([name]).to_pandas()[name]
        return pd.read_csv(path, usecols=[name], dtype=str, keep_default_na=False)[name]
    except (ValueError, KeyError) as error:
        want = f"a column of {path.name!r}"
        raise ValueError(f"`{argument}` must be {want}, got {name!r}.") from error


def unrounded(scores: Any) -> tuple[Any, str]:
    """Probabilities divided by their sums where rounding explains these, and what to say of it."""
    if np.ndim(scores) != 2 or scores.dtype.kind != "f" or scores.min() < 0 or scores.max() > 1:
        return scores, ""
    sums = scores.sum(axis=1)
    off = np.abs(sums - 1)
    # the last of the decimals that all have at most
    decimals = (d for d in _DIGITS if np.abs(np.round(scores, d) - scores).max() < 1e-12)
    places = scores.shape[1] * next((10.0**-d for d in decimals), 0.0)
    exact = off.max() <= np.sqrt(np.finfo(float).eps)
    if exact or off.max() > 0.5 * places + _SINGLE or not sums.all():
        return scores, ""
    note = "probabilities were rounded: in each row they are divided by their sum, such as"
    return scores / sums[:, None], f"{note} {sums[off.argmax()]:.9g}"


# ---- tables of columns ---------------------------------------------------------------------------

_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_COLUMN = re.compile(rf"(true|score|pred)(?:_(.+))?|{FOLD}", re.DOTALL)
#: Why a cell of each kind of column cannot be used.
_NEEDED = {
    "binary": "is not 0 or 1",
    "number": "is not a finite number",
    "class": "is none of the classes",
    "fold": "is no fold",
}
#: The columns at some places, some rows at a time; and how errors call a row, counted from 0.
_Parts = Callable[[list[int], Progress], Iterator[pa.RecordBatch]]
_NameRow = Callable[[int], str]


@dataclass(frozen=True)
class Columns:
    """Which column of a table holds what; `names` is None where labels are those that occur."""

    file: str
    header: Sequence[str]
    places: dict[str, list[int]]
    names: tuple[str, ...] | None
    fold: int | None
    one_label: bool
    lists: bool = False  # of labels, and of the scores beside them

    @cached_property
    def kinds(self) -> dict[int, str]:
        """What the columns that are used hold: "binary", "number", "class", "fold" or "list"."""
        other = "class" if self.one_label else "binary"
        kinds: dict[int, str] = {}
        for name, places in self.places.items():
            kind = "number" if name == "y_score" else other
            kinds |= dict.fromkeys(places, "list" if self.lists else kind)
        return kinds if self.fold is None else kinds | {self.fold: "fold"}

    @property
    def ignored(self) -> tuple[str, ...]:
        """The columns that are not used."""
        return tuple(name for place, name in enumerate(self.header) if place not in self.kinds)

    def opened(self, parts: _Parts, row_name: _NameRow, progress: Progress) -> PredictionFile:
        """The file of these columns, of which `parts` gives some."""
        names = self.names
        if names is None:
            occurring: set[Any] = set()
            sides = self.places.items()
            of_labels = [places[0] for side, places in sides if side != "y_score" or self.lists]
            for _, values in self._read(of_labels, None, parts, row_name):
                occurring.update(*values.values())
            names = tuple(sorted(occurring))
            if "y_score" in self.places and len(names) != 2 and not self.lists:
                raise ImportFileError(
                    f"{self.file}: a column score is that of the second of two classes, and there "
                    f"are {len(names)} ({some(names, 8)}). Add one column score_CLASS for each "
                    "class; measurements of a regression are not evaluated."
                )
        return PredictionFile(names, self.ignored, self._batches(names, parts, row_name, progress))

    def _batches(
        self, names: tuple[str, ...], parts: _Parts, row_name: _NameRow, progress: Progress
    ) -> Batches:
        """The arguments of `evaluate`, some rows at a time."""
        for done, values in self._read([*self.kinds], set(names), parts, row_name, progress):
            arguments: Batch = {} if self.fold is None else {"folds": values[self.fold]}
            for name, places in self.places.items():
                columns = [values[place] for place in places]
                if self.lists:
                    try:
                        arguments[name] = sets_in(columns[0], names, *columns[1:])
                    except BadRow as error:
                        where = f"{row_name(done + error.row)}, column {self.header[places[0]]}"
                        raise ImportFileError(f"{self.file}, {where}: {error}.") from error
                elif self.one_label and (name != "y_score" or self.names is None):
                    arguments[name] = columns[0]
                else:
                    matrix = np.column_stack(columns)
                    is_binary = name != "y_score" and not self.one_label
                    arguments[name] = matrix.astype(bool) if is_binary else matrix
            yield arguments

    def _read(
        self,
        places: list[int],
        names: set[str] | None,
        parts: _Parts,
        row_name: _NameRow,
        progress: Progress = lambda done, total: None,
    ) -> Iterator[tuple[int, dict[int, Any]]]:
        """The values of columns, some rows at a time, and the number of rows before them;
        ImportFileError names a cell that is none. Without `names`, the labels that lists hold."""
        done, kinds = 0, self.kinds
        for part in parts(places, progress):
            values: dict[int, Any] = {}
            for place, cells in zip(places, part.columns, strict=True):
                where, kind = f"column {quoted(self.header[place])}", kinds[place]
                if kind == "list":
                    values[place] = cells
                    if names is None:
                        labels = cells.flatten().unique()
                        if labels.null_count:
                            why = "a list of labels holds null"
                            raise ImportFileError(f"{self.file}, {where}: {why}. Leave it out.")
                        values[place] = labels.to_pylist()
                    continue
                known = names if kind == "class" else None
                values[place], unfit = _values_of_cells(cells, kind, known)
                if unfit.any():
                    wrong = int(unfit.argmax())
                    cell = cells[wrong].as_py()
                    shown = quoted(cell) if isinstance(cell, str) else cell
                    why = f"{shown} {_NEEDED[kind]}"
                    if known:
                        why += f" with scores ({some(map(repr, sorted(known)), 8)})"
                    raise ImportFileError(f"{self.file}, {row_name(done + wrong)}, {where}: {why}.")
            yield done, values
            done += len(part)
        if not done:
            raise ImportFileError(f"{self.file} has a header but no rows.")


def table_columns(header: Sequence[str], file: str, lists: Collection[str] = ()) -> Columns:
    """Which column holds what, by name and whether it is one of `lists`; else ImportFileError."""
    there, by_label = _found_columns(header, file)
    one_label = "true" in there and not by_label["true"]
    names = tuple(by_label["score" if one_label else "true"]) or None
    if one_label:
        there |= {"score": [*by_label["score"].values()]} if names else {}
    else:
        there |= _in_one_order(by_label, file)
    places = {f"y_{kind}": there[kind] for kind in by_label if there.get(kind)}
    if len(places) < 2 or "y_true" not in places:
        missing = "of scores or predictions" if "y_true" in places else "of the truth"
        held = columns_shown(header)
        raise ImportFileError(f"{file}: no column {missing} (it has {held}). {_NAMING}")
    fold = there.get(FOLD, [None])[0]
    if not one_label or header[places["y_true"][0]] not in lists:
        return Columns(file, header, places, names, fold, one_label)
    scores = places.pop("y_score", [])
    if scores and "scored" in header:
        places["y_score"] = [header.index("scored"), *scores]
    return Columns(file, header, places, None, fold, one_label, lists=True)


def _found_columns(
    header: Sequence[str], file: str
) -> tuple[dict[str, list[Any]], dict[str, dict[str, int]]]:
    """The columns of truth, scores, predictions and folds as such, and by label."""
    there: dict[str, list[Any]] = {}
    by_label: dict[str, dict[str, int]] = {"true": {}, "score": {}, "pred": {}}
    for place, column in enumerate(header):
        if match := _COLUMN.fullmatch(column):
            kind, label = match[1] or FOLD, match[2]
            of = f" of the label {quoted(label)}" if label else ""
            if (kind in there and not label) or label in by_label.get(kind, ()):
                raise ImportFileError(f"{file}: two columns hold {kind}{of}. Remove one.")
            if label:
                by_label[kind][label] = place
            else:
                there[kind] = [place]
    return there, by_label


def _in_one_order(by_label: Mapping[str, Mapping[str, int]], file: str) -> dict[str, list[int]]:
    """The columns by label in the order of the truth; each has one of its truth and of others."""
    true = by_label["true"]
    for kind, labels in by_label.items():
        lonely = [one for one in {**true, **labels} if one not in labels or one not in true]
        if labels and true and lonely:
            lacking = f"{'true' if lonely[0] in labels else kind}_{lonely[0]}"
            why = f"{quoted(lonely[0])} has no column {lacking} ({len(lonely)} such labels)"
            raise ImportFileError(f"{file}: the label {why}. {_NAMING}")
    return {kind: [at[label] for label in true] for kind, at in by_label.items() if at}


def _values_of_cells(cells: pa.Array, kind: str, names: set[str] | None) -> tuple[Any, Bools]:
    """The values of some rows of a column, and which of them cannot be used."""
    if kind in ("binary", "number"):
        try:
            numbers = cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:  # text that is not, or not everywhere, written as usual
            numbers = np.array([_number(cell) for cell in cells.to_pylist()])
        return numbers, ~(np.isin(numbers, (0, 1)) if kind == "binary" else np.isfinite(numbers))
    texts = cells.to_pylist()
    known: dict[Any, Any]
    if kind == "class":
        known = {text: None if text is None else str(text) for text in set(texts)}
    else:  # a fold's name is a number where it looks like one
        known = {t: int(t) if isinstance(t, str) and _WHOLE.fullmatch(t) else t for t in set(texts)}
    strange = {None, "", "nan"}.intersection(known.values())
    strange |= set() if names is None else {*known.values()} - names
    values = [known[text] for text in texts]
    return values, np.fromiter(map(strange.__contains__, values), bool)


def _number(cell: str) -> float:
    try:
        return float({"true": "1", "false": "0"}.get(cell.lower(), "nan" if "_" in cell else cell))
    except ValueError:
        return math.nan


# ---- CSV -----------------------------------------------------------------------------------------


def open_csv(path: Path, progress: Progress) -> PredictionFile:
    at, header = next(_csv_lines(path), (0, []))
    if not header:
        raise ImportFileError(f"{path.name} is empty. {_NAMING}")

    def parts(places: list[int], told: Progress) -> Iterator[pa.RecordBatch]:
        total = path.stat().st_size
        names = [str(place) for place in range(len(header))]
        used = [names[place] for place in places]
        # not in threads, which would parse ahead, a block a core
        reading = arrow_csv.ReadOptions(
            use_threads=False,
            block_size=max(_BLOCK, len(header) << 6),
            column_names=names,
            skip_rows=at - 1,
            skip_rows_after_names=1,
        )
        texts = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(used, pa.string()), include_columns=used, null_values=[]
        )
        lines = arrow_csv.ParseOptions(newlines_in_values=True)
        # no file of Python: its threads would ask the interpreter for bytes when that has ended
        with pa.OSFile(str(path)) as file:
            try:
                for batch in arrow_csv.open_csv(file, reading, lines, texts):
                    columns = [pc.utf8_trim_whitespace(column) for column in batch.columns]
                    yield pa.RecordBatch.from_arrays(columns, used)
                    told(min(file.tell(), total), total)
            except pa.ArrowException as error:
                why = f" is no table of CSV that can be read: {reason(error)}"
                for line, cells in _csv_lines(path):  # the first that is no row
                    if len(cells) != len(header):
                        why = f", line {line}: the row has {len(cells)} cells, the header has "
                        why += f"{len(header)}"
                        break
                raise ImportFileError(f"{path.name}{why}.") from error
        told(total, total)

    return table_columns(header, path.name).opened(
        parts,
        lambda row: f"line {next(islice(_csv_lines(path), 1 + row, None))[0]}",
        progress,
    )


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line and stripped cells of each row that has any."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        yield from csv_rows(file, path.name, _LONGEST)


# ---- parquet -------------------------------------------------------------------------------------


def open_parquet_predictions(path: Path, progress: Progress) -> PredictionFile:
    file = _parquet_file(path)
    names, types = file.schema_arrow.names, file.schema_arrow.types
    are_lists = [isinstance(held, pa.ListType | pa.LargeListType) for held in types]
    columns = table_columns(names, path.name, [*compress(names, are_lists)])
    for place, kind in columns.kinds.items():
        held = types[place]
        is_number = pa.types.is_integer(held) or pa.types.is_floating(held)
        fits, wanted = is_number or pa.types.is_boolean(held), "numbers"
        if kind == "list":
            fits, wanted = are_lists[place], "lists, as those of true"
        elif kind not in ("binary", "number"):
            fits, wanted = not pa.types.is_nested(held), "one value a row"
        if getattr(held, "value_type", held) in (pa.binary(), pa.large_binary()):
            fits, wanted = False, "text"
        if not fits:
            shown = held.value_type if pa.types.is_dictionary(held) else held
            where = f"{path.name}, column {quoted(names[place])}"
            raise ImportFileError(f"{where}: the type is {shown}, not {wanted}.")
    _refuse_large(path, file, [names[place] for place in columns.kinds])

    def parts(places: list[int], told: Progress) -> Iterator[pa.RecordBatch]:
        used, done = [names[place] for place in places], 0
        size = _LINES if columns.lists else max(1, _CELLS // len(used))
        try:
            for batch in file.iter_batches(size, columns=used, use_threads=False):
                yield batch.select(used)
                done += len(batch)
                told(done, file.metadata.num_rows)
        except (pa.ArrowException, OSError) as error:
            why = f"the file is damaged: {reason(error)}"
            raise ImportFileError(f"{path.name}, behind row {done}: {why}.") from error

    return columns.opened(parts, lambda row: f"row {row + 1}", progress)


def _parquet_file(path: Path) -> parquet.ParquetFile:
    """The file; a text that is packed once is unpacked once, whatever the number of rows."""
    try:
        schema = parquet.read_schema(path)
        texts = [field.name for field in schema if field.type in (pa.string(), pa.large_string())]
        return parquet.ParquetFile(
            path, pre_buffer=False, buffer_size=1 << 16, read_dictionary=texts
        )
    except pa.ArrowException as error:
        why = f"is not a parquet file that can be read: {reason(error)}"
        raise ImportFileError(f"{path.name} {why}.") from error


def _refuse_large(path: Path, file: parquet.ParquetFile, columns: Sequence[str]) -> None:
    """Raise where the columns would unpack to hundreds of times the file's size."""
    about, total = file.metadata, 0
    for group in map(about.row_group, range(about.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema.partition(".")[0] in columns:
                total += column.num_values
    refuse_bomb(path, 8 * total)


class BadRow(ValueError):
    """A row that cannot be evaluated, by its number from 0."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


def sets_in(lists: pa.Array, names: Sequence[Hashable], scores: pa.Array | None = None) -> Csr:
    """Lists of labels, maybe with scores, as a matrix of these names; else a BadRow."""
    if lists.null_count:
        row = int(pc.index(lists.is_null(), True).as_py())
        raise BadRow(row, "there is no list; an empty list is an empty set")
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    ends = offsets(lengths).astype(np.int64)
    labels = lists.flatten().dictionary_encode() if len(lists.flatten()) else None
    columns: AnyArray = np.empty(0, np.int64)
    if labels is not None:
        place = {name: i for i, name in enumerate(names)}
        places = np.array([place.get(name, -1) for name in labels.dictionary.to_pylist()] or [-1])
        columns = places[labels.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        if len(wrong := np.flatnonzero((columns < 0) | np.asarray(labels.indices.is_null()))):
            shown = quoted(str(labels[int(wrong[0])].as_py()))
            row = int(np.searchsorted(ends, wrong[0], side="right")) - 1
            raise BadRow(row, f"{shown} is none of the {len(names)} classes")
    values: AnyArray = np.ones(len(columns), bool)
    if scores is not None:
        own = pc.fill_null(scores.value_lengths(), -1).to_numpy(zero_copy_only=False)
        if len(odd := np.flatnonzero(own != lengths)):
            raise BadRow(int(odd[0]), "scored and score have different numbers of elements")
        values = scores.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)
        if len(odd := np.flatnonzero(~np.isfinite(values))):
            row = int(np.searchsorted(ends, odd[0], side="right")) - 1
            raise BadRow(row, f"score {values[odd[0]]} is not a finite number")
    sets = sparse.csr_array((values, columns, ends), shape=(len(lists), len(names)), copy=True)
    sets.sum_duplicates()
    if sets.nnz < len(columns):
        row = int(np.flatnonzero(row_sizes(sets) < lengths)[0])
        raise BadRow(row, "a list names a label twice")
    return sets
