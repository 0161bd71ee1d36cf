"""Evaluate a Spark DataFrame: each partition gives an Evaluation, and the executors merge them in a
tree.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from numpy.typing import ArrayLike
from scipy import sparse

from mlflow_mleval.errors import MlevalError
from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical, merge
from mlflow_mleval.files.predictions import FOLD, read_hierarchy, table_columns
from mlflow_mleval.measures.hierarchical import OPTIONS
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.sets import Conventions
from mlflow_mleval.validation import AnyArray, Ints, present, refuse_keywords, unique_names
from mlflow_mleval.words import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CELLS = 1 << 19  # cells of a matrix that are evaluated together
_PART = "number int, part binary, kind string, error string"
_PREFIXES = {
    "y_true": ("true_", "y_true_"),
    "y_score": ("score_", "y_score_"),
    "y_pred": ("pred_", "y_pred_"),
}
_ARGUMENTS = {"y_true": "truth", "y_score": "scores", "y_pred": "predictions"}
#: How an input lies there: a column for each label, an array of numbers, a list of classes or of
#: pairs with scores, one class.
_COLUMNS = "columns"
_ARRAY = "array"
_CLASSES = "classes"
_PAIRS = "pairs"
_CLASS = "class"


class _BadRow(ValueError):
    """A row that cannot be evaluated, whatever the others are."""


@dataclass(frozen=True)
class _Layout:
    """What stands in which column, and how it is evaluated; each task gets it."""

    #: Of y_true, y_score, y_pred: how it lies there, and in which columns.
    inputs: Mapping[str, tuple[str, tuple[str, ...]]]
    fold: str | None
    names: tuple[Hashable, ...] | None
    options: Mapping[str, Any]
    hierarchy: Any = None  # a Hierarchy, or Spark's broadcast of one
    carried: tuple[str, ...] = ()  # further columns, for the table of instances
    position: dict[Hashable, int] = field(default_factory=dict, init=False)

    def evaluate(self, batch: pa.RecordBatch, instances: bool = False) -> Evaluation:
        """The Evaluation of some rows."""
        given = {}
        place = 0
        for name, (kind, columns) in self.inputs.items():
            given[name] = self._read(
                name,
                kind,
                batch.columns[place : place + len(columns)],
                columns,
            )
            place += len(columns)
        if self.fold is not None:
            given["folds"] = _complete(batch.columns[place], self.fold).to_pylist()
        h = getattr(self.hierarchy, "value", self.hierarchy)
        if self.names is None and self.inputs["y_true"][0] == _CLASSES:
            sets = {"true_sets": given.pop("y_true"), "pred_sets": given.pop("y_pred")}
            return evaluate_hierarchical(**sets, h=h, **given, **self.options, instances=instances)
        return evaluate(
            **given,
            **self.options,
            label_names=self.names,
            hierarchy=h,
            instances=instances,
        )

    def _read(self, name: str, kind: str, arrays: list[pa.Array], columns: tuple[str, ...]) -> Any:
        """One argument of `evaluate`."""
        arrays = [_complete(array, column) for array, column in zip(arrays, columns, strict=True)]
        if kind == _CLASS:
            self._places(arrays[0], columns[0])
            return np.array(arrays[0].to_pylist())
        if kind in (_CLASSES, _PAIRS):
            return self._sets(arrays[0], columns[0], has_scores=kind == _PAIRS)
        if kind == _ARRAY:
            matrix = _rows_of(arrays[0], columns[0], self.names)
        else:
            matrix = np.column_stack([array.to_numpy(zero_copy_only=False) for array in arrays])
        wrong = ~np.isfinite(matrix) if name == "y_score" else (matrix != 0) & (matrix != 1)
        if wrong.any():
            row, place = np.argwhere(wrong)[0]
            where = f"column {quoted(columns[place if kind == _COLUMNS else 0])}"
            where += "" if kind == _COLUMNS else f", element {place}"
            wanted = "a finite number" if name == "y_score" else "0 or 1"
            raise _BadRow(f"{where}: {matrix[row, place]} is not {wanted}")
        one_label = kind == _COLUMNS and self.inputs["y_true"][0] == _CLASS
        is_of_second = name == "y_score" and len(columns) == 1 and one_label
        return matrix[:, 0] if is_of_second else matrix

    def _sets(self, lists: pa.Array, column: str, has_scores: bool) -> sparse.csr_array:
        """Lists of classes, or of pairs of a class and its score, as a matrix."""
        inner = lists.flatten()
        data: AnyArray = np.ones(len(inner), bool)
        if has_scores:
            inner, scores = inner.flatten()
            data = _complete(scores, column).to_numpy(zero_copy_only=False)
            if (wrong := data[~np.isfinite(data)]).size:
                raise _BadRow(f"column {quoted(column)}: {wrong[0]} is not a finite number")
        places = self._places(_complete(inner, column), column)
        lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        sets = sparse.csr_array((data, places, ends), shape=(len(lists), len(self.position)))
        if not sets.has_canonical_format:
            entries = sets.nnz
            sets.sum_duplicates()  # a class that is named twice counts once
            if has_scores and sets.nnz < entries:
                raise _BadRow(f"column {quoted(column)}: a class has two scores")
        return sets

    def _places(self, values: pa.Array, column: str) -> Ints:
        """The position of each class among the names."""
        if not self.position:
            names = (
                getattr(self.hierarchy, "value", self.hierarchy).nodes
                if self.names is None
                else self.names
            )
            self.position.update({name: i for i, name in enumerate(names)})
        codes, distinct = pd.factorize(values.to_numpy(zero_copy_only=False))
        places = np.array([self.position.get(value, -1) for value in distinct.tolist()], np.int64)
        if (places < 0).any():
            unknown = distinct[int((places < 0).argmax())]
            raise _BadRow(
                f"column {quoted(column)}: {quoted(str(unknown))} is none of the "
                f"{len(self.position)} classes"
            )
        return places[codes]

    def pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows that are evaluated together: as many as Spark hands over at a few times, unless
        there are very many labels.
        """
        width = (
            64 if self.names is None or self.inputs["y_true"][0] == _CLASSES else len(self.names)
        )
        step = max(1, _CELLS // width)
        held: list[Any] = []
        for batch in batches:
            if held and sum(map(len, held)) + len(batch) > step:
                yield from pa.Table.from_batches(held).combine_chunks().to_batches(step)
                held = []
            held.append(batch)
        if held:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches(step)


def evaluate_spark(
    df: DataFrame,
    truth: str | Sequence[str],
    scores: str | Sequence[str] | None = None,
    predictions: str | Sequence[str] | None = None,
    *,
    folds: str | None = None,
    hierarchy: Hierarchy | None = None,
    label_names: Sequence[Hashable] | None = None,
    threshold: ArrayLike = 0.5,
    conventions: Conventions = "sklearn",
    instances: str | None = None,
    cluster: str | None = None,
    **hierarchy_options: Any,
) -> Evaluation:
    """Evaluate a Spark DataFrame where its rows are: only sums travel, and they are merged on the
    executors.

    Needs the extra ``spark``, and this package on every executor. Lost executors and tasks are
    Spark's business: what they had done is done again. Spark hands over
    `spark.sql.execution.arrow.maxRecordsPerBatch` rows at a time; lower it where a row is very
    wide.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One row an instance.
    truth : str or sequence of str
        Label columns of 0 and 1, in a list; or one column: an array of 0 and 1, a vector of Spark
        ML, a list of classes, or one class of several. Arrays of text are lists of classes, and so
        are arrays of whole numbers where scores are pairs.
    scores : str or sequence of str, optional
        Label columns of finite numbers; or one array or vector of them, a map from class to score,
        or an array of pairs of class and score. A class without a score has 0.
    predictions : str or sequence of str, optional
        As `truth`.
    folds : str, optional
        Column of the fold.
    hierarchy : Hierarchy, optional
        Adds the hierarchical measures. Lists of classes without `label_names` are evaluated as by
        `evaluate_hierarchical`.
    label_names : sequence, optional
        The labels, in the order of columns or elements. Default: the label columns' names without
        ``true_``, or numbers; lists of classes with scores have those of the hierarchy. One class
        of several and lists of classes without hierarchy need it.
    threshold, conventions
        As for `evaluate`.
    instances : str, optional
        Write the table of instances to this path as parquet, from the executors; see
        `spark_instances`.
    cluster : str, optional
        Column to keep in that table: which instances belong together.
    **hierarchy_options
        As for `evaluate`.

    Returns
    -------
    Evaluation
        Equal to that of `evaluate` on the same rows to the last bit, in whatever partitions and
        order they come; without `instances`.

    Raises
    ------
    ValueError, TypeError
        As `evaluate`; a row that cannot be evaluated is named with its file and row group, where it
        was read from parquet.
    ImportError
        Without pyspark.

    >>> ev = evaluate_spark(df, truth=["true_a", "true_b"], scores=["score_a", "score_b"])  # doctest: +SKIP
    """  # noqa: E501
    if cluster is not None and instances is None:
        raise ValueError(
            f"`cluster` must go with `instances`, got {cluster!r} alone. Say where the table of "
            "instances goes."
        )
    options = {"threshold": threshold, "conventions": conventions, **hierarchy_options}
    _refuse_others(evaluate_spark, options)
    options["label_names"] = label_names
    where = _Columns(truth, scores, predictions, folds)
    layout, columns = _layout(df, where, hierarchy, options)
    parts = df.select(*columns).mapInArrow(partial(_evaluate_partition, layout=layout), _PART)
    # Where a part goes depends on the number of its partition alone: of parts placed by their
    # content or in turn, Spark could lose one and count another twice when it repeats a task whose
    # rows come in another order. The number of tasks is Spark's choice, by the size of the parts.
    merged = (
        parts.repartition("number")
        .mapInArrow(_merge_parts, _PART)
        .repartition(1)
        .mapInArrow(_merge_parts, _PART)
    )
    rows = merged.collect()
    if not rows:
        raise ValueError("`df` must have at least one row, got none. There is nothing to evaluate.")
    row = rows[0]
    if row.error is not None:
        place = _place_of_bad_row(df, columns, layout) if row.kind == _BadRow.__name__ else None
        raise (TypeError if row.kind == "TypeError" else ValueError)(
            place or f"partition {row.number}: {row.error.rstrip('.')}."
        )
    if instances is not None:
        _instances(df, layout, columns, cluster).write.parquet(instances)
    return replace(_unpacked(row.part), taxonomy=hierarchy)


def spark_instances(
    df: DataFrame,
    truth: str | Sequence[str],
    scores: str | Sequence[str] | None = None,
    predictions: str | Sequence[str] | None = None,
    *,
    folds: str | None = None,
    hierarchy: Hierarchy | None = None,
    cluster: str | None = None,
    **options: Any,
) -> DataFrame:
    """The measures of each instance as a Spark DataFrame, which is computed when it is used.

    The arguments are those of `evaluate_spark`. The columns are those of `Evaluation.instances`,
    and `cluster`. A column that some rows do not give, such as the soft losses of scores outside
    [0, 1], is null there.

    >>> spark_instances(df, ["true_a"], ["score_a"], cluster="passage").write.parquet("instances")  # doctest: +SKIP
    """  # noqa: E501
    _refuse_others(spark_instances, options)
    where = _Columns(truth, scores, predictions, folds)
    layout, columns = _layout(df, where, hierarchy, options)
    return _instances(df, layout, columns, cluster)


def _refuse_others(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise TypeError for options that partitions cannot be evaluated with."""
    if "sample_weight" in options:
        raise TypeError(
            f"{function.__name__}() has no `sample_weight`: of Spark DataFrames each row counts "
            "once. Evaluate a file or arrays: mleval.evaluate(..., sample_weight=...)."
        )
    further = ("label_names", "threshold", "conventions", "train_labels", "probabilities")
    refuse_keywords(function, options, (*further, *OPTIONS))


@dataclass(frozen=True)
class _Columns:
    """The columns of truth, scores, predictions and folds, as `evaluate_spark` takes them."""

    truth: str | Sequence[str]
    scores: str | Sequence[str] | None
    predictions: str | Sequence[str] | None
    folds: str | None

    @property
    def given(self) -> dict[str, str | Sequence[str]]:
        """By argument of `evaluate`."""
        sides = {"y_true": self.truth, "y_score": self.scores, "y_pred": self.predictions}
        return {name: columns for name, columns in sides.items() if columns is not None}


def _instances(
    df: DataFrame,
    layout: _Layout,
    columns: list[Column],
    cluster: str | None,
) -> DataFrame:
    """The table of instances, computed when it is used."""
    if cluster is not None:
        layout = replace(layout, carried=(cluster,))
        columns = [*columns, _column(df, cluster, "cluster")]
    selected = df.select(*columns)
    kinds = (
        selected.limit(1)
        .mapInArrow(partial(_instance_kinds, layout=layout), "name string, kind string")
        .collect()
    )
    if not kinds:
        raise ValueError("`df` must have at least one row, got none. There is nothing to evaluate.")
    types = {"f": "double", "i": "bigint", "u": "bigint", "b": "boolean"}
    fields = {
        row.name: types.get(row.kind) or selected.schema[row.name].dataType.simpleString()
        for row in kinds
    }
    schema = ", ".join(f"`{name}` {kind}" for name, kind in fields.items())
    return selected.mapInArrow(
        partial(_instance_table, layout=layout, columns=tuple(fields)), schema
    )


def _cause(error: Exception) -> str:
    """What Spark says, and what a Python worker raised."""
    text = str(error).partition("JVM stacktrace")[0]
    lines = [line for line in text.splitlines() if line.strip()]
    return " ".join(dict.fromkeys((lines[0], lines[-1])))


def _used(df: Any, columns: Mapping[str, Any]) -> set[str]:
    """The columns that hold truth and predictions."""
    scored = ["scored"] if _is_list(df, columns) else []
    return {*scored, *(name for value in columns.values() for name in _listed(value))}


def evaluate_with_spark(
    path: str,
    *,
    master: str | None = None,
    hierarchy: str | Hierarchy | None = None,
    progress: bool = False,
    **options: Any,
) -> tuple[Evaluation, tuple[str, ...]]:
    """Evaluate parquet that Spark reads, a file or a folder, and tell which of its columns are not
    used.

    The columns are named as in files of predictions, see
    `mlflow_mleval.files.predictions.open_predictions`; a folder of ``fold=…`` folders has that
    column. `master` is that of a session that is started for it, or ``sc://HOST``, a server of
    Spark Connect; by default as Spark is set. The options are those of `evaluate_spark`. A
    MlevalError says what Spark could not do.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MlevalError(
            "pyspark is not installed. Run: pip install 'mlflow-mleval[spark]'"
        ) from error
    if isinstance(hierarchy, str):
        hierarchy = read_hierarchy(hierarchy)
    if master is None or master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    session = None
    try:
        session = running or _builder(SparkSession.builder, master, progress).getOrCreate()
        df = session.read.parquet(path)
        columns = _named_columns(df, path)
        used = _used(df, columns)
        ignored = tuple(c for c in df.columns if c not in used)
        if isinstance(columns["truth"], str):
            df, options["label_names"] = _with_classes(df, columns)
        elif running is None and len(used) < 500:
            # Spark 4 weighs its batch after each row, a quarter of its work; of rows so narrow the
            # number is bound enough.
            session.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", 2**31 - 1)
        return evaluate_spark(df, **columns, hierarchy=hierarchy, **options), ignored
    except ImportError as error:
        lacking = str(error).removeprefix("[PACKAGE_NOT_INSTALLED] ").rstrip(".")
        raise MlevalError(
            f"Spark Connect lacks a package: {lacking}. Run: pip install 'pyspark[connect]'"
        ) from error
    except PySparkException as error:
        raise MlevalError(f"Spark failed on {path!r}: {_cause(error)}") from error
    finally:
        if session is not None and running is None:
            session.stop()


def _builder(builder: Any, master: str | None, progress: bool) -> Any:
    """What makes a session of Spark there."""
    builder = builder.appName("mleval evaluate")
    connects = "SPARK_REMOTE" in os.environ if master is None else master.startswith("sc://")
    if not connects:  # a server decides on these itself
        shown = str(progress).lower()
        builder = builder.config(
            map={"spark.ui.showConsoleProgress": shown, "spark.log.level": "OFF"}
        )
    if master is None:
        return builder
    return builder.remote(master) if connects else builder.master(master)


def _named_columns(df: DataFrame, path: str) -> dict[str, Any]:
    """The columns of truth, scores, predictions and folds, as arguments of `evaluate_spark`."""
    truth = _first(df, "true", "y_true")
    if truth is None:
        columns = table_columns(df.columns, path)
        arguments: dict[str, Any] = {
            _ARGUMENTS[name]: [df.columns[at] for at in places]
            for name, places in columns.places.items()
        }
    else:
        prefixes = _PREFIXES["y_score"]
        scores = [c for c in df.columns if c.startswith(prefixes) and c not in prefixes]
        arguments = {
            "truth": truth,
            "scores": scores or _first(df, "score", "y_score"),
            "predictions": _first(df, "pred", "y_pred"),
        }
    arguments["folds"] = _first(df, FOLD)
    return {name: value for name, value in arguments.items() if value is not None}


def _first(df: DataFrame, *names: str) -> str | None:
    """The first of these columns that is there."""
    return next((name for name in names if name in df.columns), None)


def _is_list(df: DataFrame, columns: Mapping[str, Any]) -> bool:
    return (
        isinstance(columns["truth"], str)
        and df.schema[columns["truth"]].dataType.typeName() == "array"
    )


def _with_classes(
    df: DataFrame,
    columns: Mapping[str, Any],
) -> tuple[DataFrame, tuple[Hashable, ...]]:
    """The classes, and which there are, sorted: all that occur in lists; else, as text, those of
    the scores or all that occur.
    """
    from pyspark.sql import functions as f

    given = [columns[name] for name in ("truth", "predictions") if name in columns]
    if _is_list(df, columns):
        lists = [*given, *(("scored",) if "scores" in columns else ())]
        occur = {
            row[0] for name in lists for row in df.select(f.explode(name)).distinct().collect()
        }
        pairs = {"score": f.arrays_zip("scored", "score")} if "scores" in columns else {}
        return df.withColumns(pairs), tuple(sorted(occur - {None}))
    df = df.withColumns({name: df[name].cast("string") for name in given})
    if labels := _labels("y_score", columns.get("scores", ())):
        return df, labels
    occur = {row[0] for name in given for row in df.select(name).distinct().collect()}
    return df, tuple(sorted(occur - {None}))


# ---- on the executors ----------------------------------------------------------------------------


def _evaluate_partition(
    batches: Iterator[pa.RecordBatch],
    layout: _Layout,
) -> Iterator[pa.RecordBatch]:
    """One part, or one error; nothing of an empty partition."""
    from pyspark import TaskContext

    number = TaskContext.get().partitionId()
    whole = None
    try:
        for piece in layout.pieces(batches):
            part = layout.evaluate(piece)
            whole = part if whole is None else merge([whole, part])
    except (ValueError, TypeError) as error:
        yield _part(number, error=error)
    else:
        if whole is not None:
            yield _part(number, whole)


def _merge_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One part of several, held one at a time; of errors the one of the first partition."""
    whole = None
    number = -1
    failed = None
    for row in (row for batch in batches for row in batch.to_pylist()):
        if row["error"] is not None:
            failed = row if failed is None or row["number"] < failed["number"] else failed
        elif failed is None:
            part = _unpacked(row["part"])
            try:
                whole = part if whole is None else merge([whole, part])
                number = max(number, row["number"])
            except ValueError as error:
                failed = {
                    "number": row["number"],
                    "part": None,
                    "kind": "ValueError",
                    "error": str(error),
                }
    if failed is not None:
        yield _batch(failed)
    elif whole is not None:
        yield _part(number, whole)


def _part(
    number: int,
    whole: Evaluation | None = None,
    error: Exception | None = None,
) -> pa.RecordBatch:
    packed = None if whole is None else zlib.compress(json.dumps(whole.to_dict()).encode(), 1)
    kind = None if error is None else type(error).__name__
    if isinstance(error, TypeError):  # or what is derived from it
        kind = "TypeError"
    return _batch({"number": number, "part": packed, "kind": kind, "error": error and str(error)})


def _batch(row: Mapping[str, Any]) -> pa.RecordBatch:
    types = [
        ("number", pa.int32()),
        ("part", pa.binary()),
        ("kind", pa.string()),
        ("error", pa.string()),
    ]
    return pa.RecordBatch.from_pylist([row], pa.schema(types))


def _unpacked(part: bytes) -> Evaluation:
    return Evaluation.from_dict(json.loads(zlib.decompress(part)))


def _instance_kinds(batches: Iterator[pa.RecordBatch], layout: _Layout) -> Iterator[pa.RecordBatch]:
    """The columns of the table of instances, and the kind of each as NumPy tells it."""
    for batch in batches:
        if len(batch):
            table = present(layout.evaluate(batch, instances=True).instances)
            kinds: dict[Any, str] = {}
            for name, dtype in table.dtypes.items():
                own = layout.fold if name == "fold" else name
                kinds[own] = "O" if name == "fold" else dtype.kind
            if layout.inputs["y_true"][0] != _CLASS and "y_score" in layout.inputs:
                kinds |= {"soft_hamming_loss": "f", "soft_subset_loss": "f"}
            kinds |= dict.fromkeys(layout.carried, "O")
            yield pa.RecordBatch.from_pydict({"name": list(kinds), "kind": list(kinds.values())})


def _instance_table(
    batches: Iterator[pa.RecordBatch],
    layout: _Layout,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """The table of instances, some rows at a time."""
    for piece in layout.pieces(batches):
        table = present(layout.evaluate(piece, instances=True).instances)
        arrays = {}
        for name in columns:
            if name in layout.carried or name == layout.fold:
                arrays[name] = piece.column(piece.schema.get_field_index(name))
            elif name in table:
                arrays[name] = pa.array(table[name], from_pandas=True)
            else:
                arrays[name] = pa.nulls(len(piece), pa.float64())
        yield pa.RecordBatch.from_pydict(arrays)


def _find_bad_row(batches: Iterator[pa.RecordBatch], layout: _Layout) -> Iterator[pa.RecordBatch]:
    """Where the first row lies that cannot be evaluated; the last two columns are its file and its
    number there.
    """
    for piece in layout.pieces(batches):
        if _fails(layout, piece) is None:
            continue
        while len(piece) > 1:
            half = piece.slice(0, len(piece) // 2)
            piece = half if _fails(layout, half) else piece.slice(len(piece) // 2)
        file, row = (piece.columns[i][0].as_py() for i in (-2, -1))
        group = _row_group(file, row)
        place = f"row {row + 1}" if group is None else f"row group {group}, row {row + 1}"
        name = unquote(urlsplit(file).path).rpartition("/")[2]
        yield pa.RecordBatch.from_pydict(
            {"text": [f"{name}, {place}, {_fails(layout, piece)}. Mend the row, or leave it out."]}
        )
        return


def _fails(layout: _Layout, piece: pa.RecordBatch) -> str | None:
    try:
        layout.evaluate(piece)
    except _BadRow as error:
        return str(error)
    return None


def _row_group(file: str, row: int) -> int | None:
    """The row group of a row of a parquet file, from 0; None where Arrow does not reach the
    file.
    """
    try:
        system, path = pa.fs.FileSystem.from_uri(file)
        file_head = parquet.read_metadata(path, filesystem=system)
    except (OSError, pa.ArrowException):
        return None
    sizes = [file_head.row_group(i).num_rows for i in range(file_head.num_row_groups)]
    ends = np.cumsum(sizes)
    return int(np.searchsorted(ends, row, side="right"))


def _complete(array: pa.Array, column: str) -> pa.Array:
    """The array, if nothing is missing."""
    if array.null_count:
        raise _BadRow(f"column {quoted(column)}: the value is missing")
    return array


def _rows_of(array: pa.Array, column: str, names: Sequence[Hashable] | None) -> AnyArray:
    """A matrix of lists of one length."""
    lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
    width = int(lengths[0]) if names is None else len(names)
    if (odd := lengths[lengths != width]).size:
        raise _BadRow(f"column {quoted(column)}: {odd[0]} elements instead of {width}")
    return (
        _complete(array.flatten(), column).to_numpy(zero_copy_only=False).reshape(len(array), width)
    )


# ---- on the driver -------------------------------------------------------------------------------


def _layout(
    df: DataFrame,
    where: _Columns,
    hierarchy: Hierarchy | None,
    options: Mapping[str, Any],
) -> tuple[_Layout, list[Column]]:
    """What stands where, and the columns to select in that order."""
    given = where.given
    if len(given) < 2:
        raise ValueError(
            "`scores` or `predictions` must be given with `truth`. Name the columns that hold them."
        )
    pairs = "y_score" in given and _kind(df, "y_score", given["y_score"], False) == _PAIRS
    inputs = {
        name: (_kind(df, name, value, pairs), _listed(value)) for name, value in given.items()
    }
    _check_kinds({name: kind for name, (kind, _) in inputs.items()})
    rest = {**options}
    names = _names(inputs, rest.pop("label_names", None), hierarchy)
    if names is None and inputs["y_true"][0] == _CLASSES:
        usual = {"threshold": 0.5, "conventions": "sklearn"}
        if any(rest.pop(name, default) != default for name, default in usual.items()):
            raise ValueError(
                "`threshold` and `conventions` must be left out for class sets of a hierarchy. "
                "They need neither."
            )
    elif isinstance(rest.get("threshold"), (np.ndarray, list)):
        rest["threshold"] = tuple(np.asarray(rest["threshold"], float).tolist())
    columns = [
        _column(df, c, _ARGUMENTS[name]) for name, (_, listed) in inputs.items() for c in listed
    ]
    if where.folds is not None:
        columns.append(_fold_column(df, where.folds))
    return _Layout(inputs, where.folds, names, rest, _shared(df, hierarchy)), columns


def _shared(df: DataFrame, hierarchy: Hierarchy | None) -> Any:
    """A broadcast, of which each executor gets one; Spark Connect has none, and sends the hierarchy
    with each task.
    """
    if hierarchy is None or type(df).__module__.startswith("pyspark.sql.connect"):
        return hierarchy
    return df.sparkSession.sparkContext.broadcast(hierarchy)


def _names(
    inputs: Mapping[str, tuple[str, tuple[str, ...]]],
    label_names: Sequence[Hashable] | None,
    hierarchy: Hierarchy | None,
) -> tuple[Hashable, ...] | None:
    """The labels as they are named, else as the columns name them."""
    if label_names is None:
        return _own_names(inputs, hierarchy)
    kind, columns = inputs["y_true"]
    names = unique_names(label_names, "label_names", len(label_names), "labels")
    if kind == _COLUMNS:
        unique_names(names, "label_names", len(columns), "labels")
    return names


def _fold_column(df: DataFrame, name: str) -> Column:
    kind = _type(df, name, "folds").typeName()
    if kind not in ("byte", "short", "integer", "long", "string", "boolean"):
        raise TypeError(
            f"`folds` must name a column of whole numbers or text, got {kind} in {name!r}. Cast it."
        )
    return _column(df, name, "folds")


def _listed(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _type(df: DataFrame, column: str, argument: str) -> Any:
    if column not in df.columns:
        shown = ", ".join(map(repr, df.columns[:8])) + (" …" if len(df.columns) > 8 else "")
        raise ValueError(f"`{argument}` must name columns of `df` ({shown}), got {column!r}.")
    return df.schema[column].dataType


def _kind(df: DataFrame, name: str, value: Any, pairs: bool) -> str:
    """How an input lies in the DataFrame."""
    listed = _listed(value)
    argument = _ARGUMENTS[name]
    if not listed:
        raise ValueError(f"`{argument}` must name at least one column, got none.")
    types = [_type(df, column, argument) for column in listed]
    kind = types[0].typeName()
    element = getattr(types[0], "elementType", None)
    inner = "" if element is None else element.typeName()
    is_score = name == "y_score"
    if len(listed) == 1 and kind in ("array", "map", "vectorudt"):
        if kind != "map" and inner != "struct":
            return _CLASSES if inner == "string" or (pairs and not is_score) else _ARRAY
        if is_score:
            return _PAIRS
        raise TypeError(
            f"`{argument}` must be labels or lists of classes, got {types[0].simpleString()} in "
            f"{listed[0]!r}. Only scores are pairs."
        )
    if isinstance(value, str) and not is_score:
        return _CLASS
    _refuse_text(argument, dict(zip(listed, types, strict=True)))
    return _COLUMNS


def _refuse_text(argument: str, types: Mapping[str, Any]) -> None:
    numbers = ("byte", "short", "integer", "long", "float", "double", "decimal", "boolean")
    for column, kind in types.items():
        if kind.typeName() not in numbers:
            raise TypeError(
                f"`{argument}` must name columns of numbers, got {kind.simpleString()} in "
                f"{column!r}."
            )


def _check_kinds(kinds: Mapping[str, str]) -> None:
    """Raise where truth, scores and predictions cannot be of the same labels."""
    fits = {
        _COLUMNS: ({_COLUMNS, _ARRAY}, {_COLUMNS, _ARRAY}),
        _ARRAY: ({_COLUMNS, _ARRAY}, {_COLUMNS, _ARRAY}),
        _CLASSES: ({_PAIRS, _ARRAY, _COLUMNS}, {_CLASSES}),
        _CLASS: ({_COLUMNS, _ARRAY}, {_CLASS}),
    }[kinds["y_true"]]
    for name, allowed in zip(("y_score", "y_pred"), fits, strict=True):
        if name in kinds and kinds[name] not in allowed:
            raise ValueError(
                f"`{_ARGUMENTS[name]}` must fit `truth`, got {kinds[name]} where `truth` is "
                f"{kinds['y_true']}. Both hold label columns or arrays of them, lists of "
                "classes, or one class."
            )


def _own_names(
    inputs: Mapping[str, tuple[str, tuple[str, ...]]],
    hierarchy: Hierarchy | None,
) -> tuple[Hashable, ...] | None:
    """The labels as the columns name them, or the classes of the hierarchy; None where arrays or
    the hierarchy tell them.
    """
    in_columns = {
        name: _labels(name, columns) for name, (kind, columns) in inputs.items() if kind == _COLUMNS
    }
    kind, columns = inputs["y_true"]
    if kind == _COLUMNS:
        orders = dict.fromkeys(labels for labels in in_columns.values() if labels is not None)
        if in_columns["y_true"] is not None and len(orders) > 1:
            raise ValueError(
                "`truth`, `scores` and `predictions` must name the labels in one order, got "
                f"{' and '.join(map(str, orders))}. Reorder them."
            )
        return in_columns["y_true"] or columns
    if kind == _CLASS:
        if (labels := in_columns.get("y_score")) is None:
            raise ValueError(
                "`label_names` must be given for one class of several. Name the classes in the "
                "order of the scores."
            )
        return labels
    if kind == _CLASSES and hierarchy is None:
        raise ValueError(
            "`label_names` must be given for lists of classes, or a `hierarchy` that has them. "
            "Name all classes."
        )
    if kind == _CLASSES and "y_score" in inputs:
        return tuple(present(hierarchy).nodes)
    return None


def _labels(name: str, columns: Sequence[str]) -> tuple[str, ...] | None:
    """The labels of columns that are named as in files of predictions; None of others."""
    for prefix in _PREFIXES[name]:
        if all(column.startswith(prefix) and column != prefix for column in columns):
            return tuple(column.removeprefix(prefix) for column in columns)
    return None


def _column(df: DataFrame, name: str, argument: str) -> Column:
    """The column, in a type that Arrow knows."""
    from pyspark.sql import functions as f

    kind = _type(df, name, argument).typeName()
    column = f.col("`{}`".format(name.replace("`", "``")))
    if kind == "vectorudt":
        from pyspark.ml.functions import vector_to_array

        return vector_to_array(column).alias(name)
    if kind == "map":
        return f.map_entries(column).alias(name)
    return column.cast("double").alias(name) if kind == "decimal" else column


def _place_of_bad_row(df: DataFrame, columns: list[Column], layout: _Layout) -> str | None:
    """The first row that cannot be evaluated, by its file and row group; None where Spark does not
    know where rows come from.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    if not df.inputFiles():
        return None
    try:
        located = df.select(
            *columns,
            f.col("_metadata.file_path").alias("file"),
            f.col("_metadata.row_index").alias("row"),
        )
        row = located.mapInArrow(partial(_find_bad_row, layout=layout), "text string").first()
    except AnalysisException:  # no parquet, or a join or an aggregation since
        return None
    return row and row.text
