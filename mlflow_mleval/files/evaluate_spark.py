"""Evaluate a Spark DataFrame: each partition gives an Evaluation, and the executors merge them."""

from __future__ import annotations

import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from mlflow_mleval.errors import MlevalError
from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical, merge
from mlflow_mleval.files.predictions import Columns, read_hierarchy, sets_in, table_columns
from mlflow_mleval.measures.formulas import Conventions
from mlflow_mleval.measures.hierarchical import OPTIONS
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.sentences import quoted
from mlflow_mleval.validation import present, refuse_keywords

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PART = pa.schema([("number", pa.int32()), ("part", pa.binary()), ("error", pa.string())])
_PART_OF_SPARK = "number int, part binary, error string"
_ARGUMENTS = {"y_true": "truth", "y_score": "scores", "y_pred": "predictions"}
_FOLDS = ("byte", "short", "integer", "long", "string", "boolean")
_TOGETHER = 1 << 22  # bytes of rows that are evaluated together
_NO_ROWS = "`df` must have at least one row, got none. There is nothing to evaluate."


@dataclass(frozen=True)
class _Layout:
    """What stands in which column, and how it is evaluated; each task gets it."""

    #: Of y_true, y_score, y_pred: label columns, or one column of classes, lists or pairs.
    columns: Mapping[str, str | tuple[str, ...]]
    fold: str | None
    names: tuple[Hashable, ...] | None
    options: Mapping[str, Any]
    hierarchy: Any  # a Hierarchy, or Spark's broadcast of one
    lists: bool  # of classes: without names of labels, those of the hierarchy
    cluster: str | None  # a further column, for the table of instances

    def evaluate(self, batch: pa.RecordBatch, instances: bool = False) -> Evaluation:
        """The Evaluation of some rows."""
        h = getattr(self.hierarchy, "value", self.hierarchy)
        class_sets = self.lists and self.names is None
        names = h.nodes if class_sets else self.names
        given: dict[str, Any] = {}
        for name, columns in self.columns.items():
            if isinstance(columns, str):
                given[name] = self._column(batch, name, columns, names)
            else:
                parts = [_filled(batch, column) for column in columns]
                given[name] = np.column_stack([p.to_numpy(zero_copy_only=False) for p in parts])
        if self.fold is not None:
            given["folds"] = _filled(batch, self.fold).to_pylist()
        given |= {**self.options, "instances": instances}
        if class_sets:
            sets = (given.pop("y_true"), given.pop("y_pred"))
            return evaluate_hierarchical(*sets, h, **given)
        return evaluate(**given, label_names=self.names, hierarchy=h)

    def _column(
        self, batch: pa.RecordBatch, name: str, column: str, names: Sequence[Hashable] | None
    ) -> Any:
        """A column of classes, of lists of them, of pairs with scores, or of arrays of numbers."""
        cells = batch[column]
        if not pa.types.is_nested(cells.type):
            return np.array(_filled(batch, column).to_pylist())
        lengths = cells.value_lengths().to_numpy(zero_copy_only=False)
        values = cells.flatten()
        scores = None
        if pa.types.is_struct(values.type):
            ends = np.append(0, np.cumsum(lengths)).astype(np.int32)
            cells, scores = (pa.ListArray.from_arrays(ends, part) for part in values.flatten())
        elif name == "y_score" or not self.lists:
            width = int(lengths[0]) if names is None else len(names)
            if (odd := lengths[lengths != width]).size:
                text = f"{odd[0]} elements instead of {width}"
                raise ValueError(f"column {quoted(column)}: {text}")
            return values.to_numpy(zero_copy_only=False).reshape(len(cells), width)
        try:
            return sets_in(cells, present(names), scores, repeats=scores is None)
        except ValueError as error:
            raise ValueError(f"column {quoted(column)}: {error}") from error


def _filled(batch: pa.RecordBatch, column: str) -> pa.Array:
    """A column that lacks no value."""
    if batch[column].null_count:
        raise ValueError(f"column {quoted(column)}: the value is missing")
    return batch[column]


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
    options: dict[str, Any] = {"label_names": label_names, **hierarchy_options}
    if conventions != "sklearn":
        options["conventions"] = conventions
    if not np.array_equal(threshold, 0.5):
        options["threshold"] = threshold
    _refuse_other_options(evaluate_spark, options)
    selected, layout = _prepared(df, truth, scores, predictions, folds, None, hierarchy, options)
    parts = selected.mapInArrow(partial(_evaluate_partition, layout=layout), _PART_OF_SPARK)
    # Where a part goes depends on the number of its partition alone: of parts placed by their
    # content or in turn, Spark could lose one and count another twice when it repeats a task whose
    # rows come in another order. The number of tasks is Spark's choice, by the size of the parts.
    merged = (
        parts.repartition("number")
        .mapInArrow(_merge_parts, _PART_OF_SPARK)
        .repartition(1)
        .mapInArrow(_merge_parts, _PART_OF_SPARK)
    )
    rows = merged.collect()
    if not rows:
        raise ValueError(_NO_ROWS)
    if rows[0].error is not None:
        raise ValueError(rows[0].error)
    return replace(_unpacked(rows[0].part), taxonomy=hierarchy)


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
    _refuse_other_options(spark_instances, options)
    selected, layout = _prepared(df, truth, scores, predictions, folds, cluster, hierarchy, options)
    first = selected.limit(1)
    kinds = first.mapInArrow(partial(_instance_kinds, layout=layout), "name string, kind string")
    if not (rows := kinds.collect()):
        raise ValueError(_NO_ROWS)
    types = {"f": "double", "i": "bigint", "u": "bigint", "b": "boolean"}
    fields = {
        row.name: types.get(row.kind) or selected.schema[row.name].dataType.simpleString()
        for row in rows
    }
    schema = ", ".join(f"`{name}` {kind}" for name, kind in fields.items())
    table = partial(_instance_table, layout=layout, columns=tuple(fields))
    return selected.mapInArrow(table, schema)


def _refuse_other_options(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise TypeError for options that partitions cannot be evaluated with."""
    if "sample_weight" in options:
        raise TypeError(
            f"{function.__name__}() has no `sample_weight`: of Spark DataFrames each row counts "
            "once. Evaluate a file or arrays: mleval.evaluate(..., sample_weight=...)."
        )
    further = ("label_names", "threshold", "conventions", "train_labels", "probabilities")
    refuse_keywords(function, options, (*further, *OPTIONS))


# ---- on the driver -------------------------------------------------------------------------------


def _prepared(
    df: DataFrame,
    truth: str | Sequence[str],
    scores: str | Sequence[str] | None,
    predictions: str | Sequence[str] | None,
    folds: str | None,
    cluster: str | None,
    hierarchy: Hierarchy | None,
    options: dict[str, Any],
) -> tuple[DataFrame, _Layout]:
    """The columns that are used, in types that Arrow knows, and what stands where."""
    given = _columns_given(truth, scores, predictions)
    used = {column: _ARGUMENTS[name] for name, listed in given.items() for column in listed}
    used |= {name: of for name, of in ((folds, "folds"), (cluster, "cluster")) if name}
    selected = df.select(
        *(_arrow_column(df, column, argument) for column, argument in used.items())
    )
    single = {n for n, value in (("y_true", truth), ("y_pred", predictions)) if value in df.columns}
    elements: dict[str, str] = {}  # what arrays hold
    for name, listed in given.items():
        element = getattr(selected.schema[listed[0]].dataType, "elementType", None)
        if len(listed) == 1 and element is not None:
            elements[name] = element.typeName()
    single |= elements.keys()
    columns = {name: listed[0] if name in single else listed for name, listed in given.items()}
    # beside scores that are pairs with classes, arrays of numbers are classes
    pairs = elements.get("y_score") == "struct"
    lists = "y_true" in elements if pairs else elements.get("y_true") == "string"
    own = options.pop("label_names", None)
    names = _label_names(own, columns, lists, "y_true" in elements, hierarchy)
    return selected, _Layout(
        columns, folds, names, options, _shared_hierarchy(df, hierarchy), lists, cluster
    )


def _shared_hierarchy(df: DataFrame, hierarchy: Hierarchy | None) -> Any:
    """The hierarchy as each executor gets it once; with each task on Spark Connect."""
    if hierarchy is None or type(df).__module__.startswith("pyspark.sql.connect"):
        return hierarchy
    return df.sparkSession.sparkContext.broadcast(hierarchy)


def _columns_given(
    truth: str | Sequence[str],
    scores: str | Sequence[str] | None,
    predictions: str | Sequence[str] | None,
) -> dict[str, tuple[str, ...]]:
    """The columns that are given, by the argument of `evaluate`."""
    sides = {"y_true": truth, "y_score": scores, "y_pred": predictions}
    given = {
        name: (value,) if isinstance(value, str) else tuple(value)
        for name, value in sides.items()
        if value is not None
    }
    if len(given) < 2 or not all(given.values()):
        raise ValueError(
            "`scores` or `predictions` must be given with `truth`. Name the columns that hold them."
        )
    return given


def _arrow_column(df: DataFrame, name: str, argument: str) -> Any:
    """The column, in a type that Arrow knows."""
    from pyspark.sql import functions as f

    if name not in df.columns:
        shown = ", ".join(map(repr, df.columns[:8])) + (" …" if len(df.columns) > 8 else "")
        raise ValueError(f"`{argument}` must name columns of `df` ({shown}), got {name!r}.")
    kind = df.schema[name].dataType.typeName()
    if argument == "folds" and kind not in _FOLDS:
        raise TypeError(
            f"`folds` must name a column of whole numbers or text, got {kind} in {name!r}. Cast it."
        )
    column = f.col("`{}`".format(name.replace("`", "``")))
    if kind == "vectorudt":
        from pyspark.ml.functions import vector_to_array

        return vector_to_array(column).alias(name)
    if kind == "map":
        return f.map_entries(column).alias(name)
    return column.cast("double").alias(name) if kind == "decimal" else column


def _label_names(
    given: Sequence[Hashable] | None,
    columns: Mapping[str, str | tuple[str, ...]],
    lists: bool,
    arrays: bool,
    hierarchy: Hierarchy | None,
) -> tuple[Hashable, ...] | None:
    """The labels as they are named, else as the columns or the hierarchy name them; None where
    arrays tell how many there are, or sets of a hierarchy are evaluated.
    """
    if given is not None:
        return tuple(given)
    if lists:
        if hierarchy is None:
            raise ValueError(
                "`label_names` must be given for lists of classes, or a `hierarchy` that has them. "
                "Name all classes."
            )
        return tuple(hierarchy.nodes) if "y_score" in columns else None
    by_columns: dict[str, tuple[str, ...]] = {}
    for name, listed in columns.items():
        prefix = re.compile(f"(?:y_)?{name.removeprefix('y_')}_(.+)", re.DOTALL)
        labels = tuple(match[1] for match in map(prefix.fullmatch, listed) if match)
        if len(labels) == len(listed):  # a single column is text, which has no such parts
            by_columns[name] = labels
    truth = columns["y_true"]
    if not isinstance(truth, str):
        if len(orders := set(by_columns.values())) > 1:
            raise ValueError(
                "`truth`, `scores` and `predictions` must name the labels in one order, got "
                f"{' and '.join(map(str, sorted(orders)))}. Reorder them."
            )
        return by_columns.get("y_true", truth)
    if not arrays and "y_score" not in by_columns:
        raise ValueError(
            "`label_names` must be given for one class of several. Name the classes in the order "
            "of the scores."
        )
    return None if arrays else by_columns["y_score"]


# ---- on the executors ----------------------------------------------------------------------------


def _joined_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows that are evaluated together: as Spark hands them over, narrow ones a few times that."""
    held: list[pa.RecordBatch] = []
    for batch in chain(batches, [None]):
        if held and (batch is None or sum(part.nbytes for part in held) >= _TOGETHER):
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held = []
        held.append(batch)


def _evaluate_partition(
    batches: Iterator[pa.RecordBatch], layout: _Layout
) -> Iterator[pa.RecordBatch]:
    """One part, or one error; nothing of an empty partition."""
    from pyspark import TaskContext

    number = present(TaskContext.get()).partitionId()
    parts = map(layout.evaluate, _joined_batches(batches))
    return _merged(number, parts, f"partition {number}: ")


def _merge_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = (row for batch in batches for row in batch.to_pylist())
    return _merged(0, (_unpacked(row["part"], row["error"]) for row in rows))


def _merged(number: int, parts: Iterable[Evaluation], where: str = "") -> Iterator[pa.RecordBatch]:
    """One part of several, held one at a time, or the first error."""
    whole: Evaluation | None = None
    try:
        for part in parts:
            whole = part if whole is None else merge([whole, part])
    except (ValueError, TypeError) as error:
        text = f"{where}{str(error).rstrip('.')}."
        yield pa.RecordBatch.from_pylist([{"number": number, "error": text}], _PART)
        return
    if whole is not None:
        packed = zlib.compress(json.dumps(whole.to_dict()).encode(), 1)
        yield pa.RecordBatch.from_pylist([{"number": number, "part": packed}], _PART)


def _unpacked(part: bytes, error: str | None = None) -> Evaluation:
    if error is not None:
        raise ValueError(error)
    return Evaluation.from_dict(json.loads(zlib.decompress(part)))


def _instance_kinds(batches: Iterator[pa.RecordBatch], layout: _Layout) -> Iterator[pa.RecordBatch]:
    """The columns of the table of instances, and the kind of each as NumPy tells it; those of the
    DataFrame have "O".
    """
    for batch in _joined_batches(batches):
        table = present(layout.evaluate(batch, instances=True).instances)
        own = [name for name in (layout.fold, layout.cluster) if name is not None]
        kinds = dict.fromkeys(own[: layout.fold is not None], "O")
        kinds |= {name: dtype.kind for name, dtype in table.dtypes.items() if name != "fold"}
        if "true_labels" in table and "y_score" in layout.columns:
            kinds |= {"soft_hamming_loss": "f", "soft_subset_loss": "f"}
        kinds |= dict.fromkeys(own, "O")
        yield pa.RecordBatch.from_pydict({"name": list(kinds), "kind": list(kinds.values())})


def _instance_table(
    batches: Iterator[pa.RecordBatch], layout: _Layout, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The table of instances, some rows at a time."""
    for batch in _joined_batches(batches):
        table = present(layout.evaluate(batch, instances=True).instances)
        arrays = {}
        for name in columns:
            if name in (layout.fold, layout.cluster):
                arrays[name] = batch[name]
            elif name in table:
                arrays[name] = pa.array(table[name], from_pandas=True)
            else:
                arrays[name] = pa.nulls(len(batch), pa.float64())
        yield pa.RecordBatch.from_pydict(arrays)


# ---- parquet, for the command line ---------------------------------------------------------------


def evaluate_with_spark(
    path: str,
    *,
    master: str | None = None,
    hierarchy: str | Hierarchy | None = None,
    progress: bool = False,
    **options: Any,
) -> tuple[Evaluation, tuple[str, ...]]:
    """Evaluate parquet that Spark reads, named as `predictions.open_predictions` has it, and tell
    which columns are not used; a MlevalError says what Spark could not do.
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
    session = running
    try:
        session = running or _builder(SparkSession.builder, master, progress).getOrCreate()
        df = session.read.parquet(path)
        df, arguments, ignored = _by_names(df, path)
        if running is None and "label_names" not in arguments and len(df.columns) < 500:
            # Spark 4 weighs its batch after each row, a quarter of its work; of rows so narrow the
            # number is bound enough.
            session.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", 2**31 - 1)
        return evaluate_spark(df, **arguments, hierarchy=hierarchy, **options), ignored
    except ImportError as error:
        lacking = str(error).removeprefix("[PACKAGE_NOT_INSTALLED] ").rstrip(".")
        raise MlevalError(
            f"Spark Connect lacks a package: {lacking}. Run: pip install 'pyspark[connect]'"
        ) from error
    except PySparkException as error:
        text = str(error).partition("JVM stacktrace")[0]
        lines = [line for line in text.splitlines() if line.strip()]
        cause = " ".join(dict.fromkeys((lines[0], lines[-1])))  # Spark's, and a worker's
        raise MlevalError(f"Spark failed on {path!r}: {cause}") from error
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


def _by_names(df: DataFrame, path: str) -> tuple[DataFrame, dict[str, Any], tuple[str, ...]]:
    """A table whose columns are named as in files: with the arguments of `evaluate_spark`, and the
    columns that are not used. Classes are text, those of the scores or all that occur, sorted.
    """
    columns = table_columns(df.columns, path)
    at = {name: [df.columns[i] for i in places] for name, places in columns.places.items()}
    fold = None if columns.fold is None else df.columns[columns.fold]
    arguments: dict[str, Any] = {_ARGUMENTS[name]: listed for name, listed in at.items()}
    used = {fold, *(column for listed in at.values() for column in listed)}
    if columns.one_label:
        df, of_classes, lists = _one_label_arguments(df, columns, at)
        arguments |= of_classes
        used.update(lists)
    ignored = tuple(column for column in df.columns if column not in used)
    return df, arguments | {"folds": fold}, ignored


def _one_label_arguments(
    df: DataFrame, columns: Columns, at: Mapping[str, list[str]]
) -> tuple[DataFrame, dict[str, Any], list[str]]:
    """Of classes, or lists of them: the table, the arguments that name them, and the lists."""
    from pyspark.sql import functions as f

    given = [at[name][0] for name in ("y_true", "y_pred") if name in at]
    arguments: dict[str, Any] = dict(zip(("truth", "predictions"), given, strict=False))
    lists: list[str] = []
    if df.schema[given[0]].dataType.typeName() == "array":
        lists = [*given, *(("scored",) if "y_score" in at else ())]
        occur = [df.select(f.explode(name)) for name in lists]
        if "y_score" in at:
            df = df.withColumn("score", f.arrays_zip("scored", "score"))
            arguments["scores"] = "score"
    else:
        df = df.withColumns({name: df[name].cast("string") for name in given})
        occur = [] if columns.names else [df.select(name) for name in given]
    found = {row[0] for one in occur for row in one.distinct().collect()}
    arguments["label_names"] = columns.names or tuple(sorted(found - {None}))
    return df, arguments, lists
