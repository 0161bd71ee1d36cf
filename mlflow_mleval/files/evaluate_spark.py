"""Evaluate a Spark DataFrame: each partition gives an Evaluation, and an executor merges them."""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from mlflow_mleval.errors import MlevalError
from mlflow_mleval.evaluation import Evaluation, evaluate, merge
from mlflow_mleval.files.predictions import read_hierarchy, sets_in, table_columns
from mlflow_mleval.files.results import columns_shown
from mlflow_mleval.measures.hierarchical import OPTIONS
from mlflow_mleval.measures.hierarchy import Hierarchy, offsets
from mlflow_mleval.measures.registry import Conventions
from mlflow_mleval.sentences import quoted
from mlflow_mleval.validation import present, refuse_keywords

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SIDES = {"y_true": "truth", "y_score": "scores", "y_pred": "predictions"}
_PART = "part binary, error string"
#: Options that partitions can be evaluated with.
_FURTHER = ("label_names", "threshold", "conventions", "train_labels", "probabilities", *OPTIONS)
_TOGETHER = 1 << 22  # bytes of rows that are evaluated together
_SPARK_TYPES = {"int64": "bigint", "bool": "boolean"}
_NO_ROWS = "`df` must have at least one row, got none. There is nothing to evaluate."


@dataclass(frozen=True)
class _Layout:
    """How rows are evaluated, which each task gets; they have one column a side."""

    sides: Mapping[str, Sequence[str]]  # y_true, y_score, y_pred, by the columns that they were
    fold: str | None
    cluster: str | None
    names: Sequence[Hashable] | None
    options: Mapping[str, Any]
    hierarchy: Hierarchy | None
    lists: bool  # of classes

    def evaluate(self, batch: pa.RecordBatch, instances: bool = False) -> Evaluation:
        """The Evaluation of some rows."""
        given = {name: self._values(batch[name], name) for name in self.sides}
        if self.fold is not None:
            given["folds"] = _filled(batch["folds"], [self.fold]).to_pylist()
        given |= {"label_names": self.names, "hierarchy": self.hierarchy, "instances": instances}
        return evaluate(**given, **self.options)

    def _values(self, cells: pa.Array, name: str) -> Any:
        """A side of some rows, as `evaluate` takes it."""
        columns = self.sides[name]
        where = f"column {quoted(columns[0])}"
        if not pa.types.is_nested(cells.type):
            return np.array(_filled(cells, columns).to_pylist())
        lengths = cells.value_lengths().to_numpy(zero_copy_only=False)
        values, scores = cells.flatten(), None
        if pa.types.is_struct(values.type):
            ends = offsets(lengths).astype(np.int32)
            cells, scores = (pa.ListArray.from_arrays(ends, part) for part in values.flatten())
        elif name == "y_score" or not self.lists:
            width = int(lengths[0]) if self.names is None else len(self.names)
            if (odd := lengths[lengths != width]).size:
                raise ValueError(f"{where}: {odd[0]} elements instead of {width}")
            numbers = _filled(values, columns).to_numpy(zero_copy_only=False)
            return numbers.reshape(len(cells), width)
        try:
            return sets_in(cells, present(self.names), scores)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error

    def instances(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """The table of instances of some rows, with soft losses where these have none."""
        table = present(self.evaluate(batch, instances=True).instances)
        arrays = {} if self.fold is None else {self.fold: batch["folds"]}
        for name in table.columns.drop("fold", errors="ignore"):
            arrays[name] = pa.array(table[name], from_pandas=True)
        if "true_labels" in table and "y_score" in self.sides:
            for name in ("soft_hamming_loss", "soft_subset_loss"):
                arrays.setdefault(name, pa.nulls(len(batch), pa.float64()))
        return arrays if self.cluster is None else arrays | {self.cluster: batch["cluster"]}


def _filled(values: pa.Array, columns: Sequence[str]) -> pa.Array:
    """The values of these columns in turn, of which none is lacking."""
    if values.null_count:
        at = int(pc.index(values.is_null(), True).as_py()) % len(columns)
        raise ValueError(f"column {quoted(columns[at])}: the value is missing")
    return values


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
    **hierarchy_options: Any,
) -> Evaluation:
    """Evaluate a Spark DataFrame where its rows are: only sums travel, and an executor merges them.

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
        Label columns of finite numbers; or one array or vector of them, or an array of pairs of
        class and score. A class without a score has 0.
    predictions : str or sequence of str, optional
        As `truth`.
    folds : str, optional
        Column of the fold.
    hierarchy : Hierarchy, optional
        Adds the hierarchical measures.
    label_names : sequence, optional
        The labels, in the order of columns or elements. Default: the label columns' names without
        ``true_``, or numbers; lists of classes have those of the hierarchy. One class of several
        and lists of classes without hierarchy need it.
    threshold, conventions
        As for `evaluate`.
    **hierarchy_options
        As for `evaluate`.

    Returns
    -------
    Evaluation
        Equal to that of `evaluate` on the same rows, but for rounding (1e-12), in whatever
        partitions and order they come; without `instances`, which
        `spark_instances` has.

    Raises
    ------
    ValueError, TypeError
        As `evaluate`; of what stands in rows a ValueError that names the partition.
    ImportError
        Without pyspark.

    >>> ev = evaluate_spark(df, truth=["true_a", "true_b"], scores=["score_a", "score_b"])  # doctest: +SKIP
    """  # noqa: E501
    options: dict[str, Any] = {"label_names": label_names, "threshold": threshold}
    options |= {"conventions": conventions, **hierarchy_options}
    refuse_keywords(evaluate_spark, options, _FURTHER)
    sides = {"y_true": truth, "y_score": scores, "y_pred": predictions}
    selected, layout = _prepared(df, sides, {"folds": folds}, hierarchy, options)

    def evaluated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        parts = map(layout.evaluate, _joined_batches(batches))
        return _merged(parts, f"partition {present(TaskContext.get()).partitionId()}: ")

    def together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        return _merged(_unpacked(**row) for row in rows)

    parts = selected.mapInArrow(evaluated, _PART)
    rows = parts.repartition(1).mapInArrow(together, _PART).collect()
    if not rows:
        raise ValueError(_NO_ROWS)
    return replace(_unpacked(rows[0].part, rows[0].error), taxonomy=hierarchy)


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
    refuse_keywords(spark_instances, options, _FURTHER)
    sides = {"y_true": truth, "y_score": scores, "y_pred": predictions}
    beside = {"folds": folds, "cluster": cluster}
    selected, layout = _prepared(df, sides, beside, hierarchy, options)

    def kinds(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = layout.instances(batch)
            types = [str(array.type) for array in arrays.values()]
            named = [_SPARK_TYPES.get(kind, kind) for kind in types]
            yield pa.RecordBatch.from_pydict({"name": [*arrays], "kind": named})

    found = selected.limit(1).mapInArrow(kinds, "name string, kind string")
    fields = {row.name: row.kind for row in found.collect()}
    for name, column in ((layout.fold, "folds"), (layout.cluster, "cluster")):
        if name in fields:
            fields[name] = selected.schema[column].dataType.simpleString()
    if not fields:
        raise ValueError(_NO_ROWS)

    def tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in _joined_batches(batches):
            arrays = layout.instances(batch)
            lacking = pa.nulls(len(batch), pa.float64())
            yield pa.RecordBatch.from_pydict({name: arrays.get(name, lacking) for name in fields})

    return selected.mapInArrow(tables, ", ".join(f"`{name}` {of}" for name, of in fields.items()))


# ---- on the driver -------------------------------------------------------------------------------


def _prepared(
    df: DataFrame,
    sides: Mapping[str, str | Sequence[str] | None],
    beside: Mapping[str, str | None],
    hierarchy: Hierarchy | None,
    options: dict[str, Any],
) -> tuple[DataFrame, _Layout]:
    """Rows with one column a side, in types that Arrow knows, and how they are evaluated."""
    given = {name: value for name, value in sides.items() if value is not None}
    if len(given) < 2 or not all(given.values()):
        raise ValueError(
            "`scores` or `predictions` must be given with `truth`. Name the columns that hold them."
        )
    columns: list[Any] = []
    labels: dict[str, tuple[str, ...]] = {}  # label columns, by side
    own: dict[str, Sequence[str]] = {}
    for name, value in given.items():
        column, listed = _side(df, name, value)
        columns.append(column.alias(name))
        labels |= {name: listed} if listed else {}
        own[name] = [value] if isinstance(value, str) else [*value]
    columns += [_arrow_column(df, of, name).alias(name) for name, of in beside.items() if of]
    selected = df.select(*columns)
    held = {name: None if name in labels else _element(selected.select(name)) for name in given}
    # beside scores that are pairs with classes, arrays of numbers are classes
    lists = held["y_true"] == "string"
    if held.get("y_score") == "struct":
        lists = held["y_true"] is not None
    names = options.pop("label_names", None)
    if names is None:
        names = _label_names(labels, lists, held["y_true"] is not None, hierarchy)
    further = beside["folds"], beside.get("cluster")
    return selected, _Layout(own, *further, names, options, hierarchy, lists)


def _side(df: DataFrame, name: str, value: str | Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """The one column of a side; and the label columns of which it is an array, if it is of such."""
    from pyspark.sql import functions as f

    listed = (value,) if isinstance(value, str) else tuple(value)
    parts = [_arrow_column(df, column, _SIDES[name]) for column in listed]
    is_array = len(parts) == 1 and _element(df.select(*parts)) is not None
    if is_array or (isinstance(value, str) and name != "y_score"):
        return parts[0], ()
    return f.array(*(part.cast("double") for part in parts)), listed


def _element(df: DataFrame) -> str | None:
    """What the arrays in its first column hold; None where it holds none."""
    element = getattr(df.schema[0].dataType, "elementType", None)
    return None if element is None else str(element.typeName())


def _arrow_column(df: DataFrame, name: str, argument: str) -> Any:
    """The column, in a type that Arrow knows."""
    from pyspark.sql import functions as f

    if name not in df.columns:
        there = columns_shown(df.columns)
        raise ValueError(f"`{argument}` must name columns of `df` ({there}), got {name!r}.")
    kind = df.schema[name].dataType.typeName()
    column = f.col("`{}`".format(name.replace("`", "``")))
    if kind == "vectorudt":
        from pyspark.ml.functions import vector_to_array

        return vector_to_array(column)
    return column.cast("double") if kind == "decimal" else column


def _label_names(
    labels: Mapping[str, tuple[str, ...]], lists: bool, arrays: bool, hierarchy: Hierarchy | None
) -> Sequence[Hashable] | None:
    """The labels, None where arrays number them."""
    if lists and hierarchy is not None:
        return hierarchy.nodes
    if arrays and not lists:
        return None
    if "y_true" not in labels:
        what = "lists of classes without `hierarchy`" if lists else "one class of several"
        raise ValueError(f"`label_names` must be given for {what}, in the order of scores.")
    named = dict(labels)
    for name, columns in labels.items():
        prefix = f"{name.removeprefix('y_')}_"
        if all(column.startswith(prefix) for column in columns):
            named[name] = tuple(column.removeprefix(prefix) for column in columns)
    if len(orders := {named[name] for name in labels if named[name] != labels[name]}) > 1:
        text = "`truth`, `scores` and `predictions` must name the labels in one order"
        got = " and ".join(map(str, sorted(orders)))
        raise ValueError(f"{text}, got {got}. Reorder them.")
    return named["y_true"]


# ---- on the executors ----------------------------------------------------------------------------


def _joined_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows that are evaluated together: as Spark hands them over, narrow ones a few times that."""
    held: list[pa.RecordBatch] = []
    for batch in chain(batches, [None]):
        if held and (batch is None or sum(part.nbytes for part in held) >= _TOGETHER):
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held = []
        held.append(batch)


def _merged(parts: Iterable[Evaluation], where: str = "") -> Iterator[pa.RecordBatch]:
    """One part of several, held one at a time, or the first error; nothing of none."""
    whole: Evaluation | None = None
    row: dict[str, Any] = {"part": None, "error": None}
    try:
        for part in parts:
            whole = part if whole is None else merge([whole, part])
    except (ValueError, TypeError) as error:
        row["error"] = f"{where}{str(error).rstrip('.')}."
    if row["error"] is None:
        if whole is None:
            return
        row["part"] = zlib.compress(json.dumps(whole.to_dict()).encode(), 1)
    schema = pa.schema([("part", pa.binary()), ("error", pa.string())])
    yield pa.RecordBatch.from_pylist([row], schema)


def _unpacked(part: bytes, error: str | None = None) -> Evaluation:
    if error is not None:
        raise ValueError(error)
    return Evaluation.from_dict(json.loads(zlib.decompress(part)))


# ---- parquet, for the command line ---------------------------------------------------------------


def evaluate_with_spark(
    path: str,
    *,
    master: str | None = None,
    hierarchy: str | Hierarchy | None = None,
    progress: bool = False,
    **options: Any,
) -> tuple[Evaluation, tuple[str, ...]]:
    """The evaluation of label columns in parquet by Spark, and the columns it did not use."""
    try:
        from pyspark.errors import PySparkException
    except ImportError as error:
        raise MlevalError("pyspark is missing. Run: pip install 'mlflow-mleval[spark]'") from error
    if isinstance(hierarchy, str):
        hierarchy = read_hierarchy(hierarchy)
    try:
        with _session(master, progress) as session:
            df = session.read.parquet(path)
            columns = table_columns(df.columns, path)
            if columns.one_label:
                raise MlevalError(
                    f"{path} has a column true. On Spark the command reads label columns, "
                    "true_LABEL with score_LABEL or pred_LABEL; for others call "
                    "mleval.evaluate_spark."
                )
            for name, places in columns.places.items():
                options[_SIDES[name]] = [df.columns[place] for place in places]
            if columns.fold is not None:
                options["folds"] = df.columns[columns.fold]
            return evaluate_spark(df, hierarchy=hierarchy, **options), columns.ignored
    except (PySparkException, ImportError) as error:
        text = str(error).partition("JVM stacktrace")[0]
        lines = [line for line in text.splitlines() if line.strip()]
        cause = " ".join(dict.fromkeys((lines[0], lines[-1])))  # Spark's, and a worker's
        raise MlevalError(f"Spark failed on {path!r}: {cause}") from error


@contextmanager
def _session(master: str | None, progress: bool) -> Iterator[Any]:
    """A session that ends with the block."""
    from pyspark.sql import SparkSession

    if master is None or master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.appName("mleval evaluate")
    connects = "SPARK_REMOTE" in os.environ if master is None else master.startswith("sc://")
    if not connects:  # a server decides on these itself
        shown = {"spark.ui.showConsoleProgress": str(progress).lower()}
        builder = builder.config(map={**shown, "spark.log.level": "OFF"})
    if master is not None:
        builder = builder.remote(master) if connects else builder.master(master)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
