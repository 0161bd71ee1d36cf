"""Evaluate a Spark DataFrame: each partition gives an Evaluation, and the executors merge them in a
tree.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from mlflow_mleval.validation import present, refuse_keywords, unique_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CELLS = 1 << 19  # cells of a matrix that are evaluated together
_PART = "number int, part binary, error string"
_ARGUMENTS = {"y_true": "truth", "y_score": "scores", "y_pred": "predictions"}
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal", "boolean")
_FOLDS = ("byte", "short", "integer", "long", "string", "boolean")
#: How an input lies there: a column for each label, an array of numbers, a list of classes or of
#: pairs with scores, one class.
_COLUMNS = "columns"
_ARRAY = "array"
_CLASSES = "classes"
_PAIRS = "pairs"
_CLASS = "class"
_NO_ROWS = "`df` must have at least one row, got none. There is nothing to evaluate."


@dataclass(frozen=True)
class _Layout:
    """What stands in which column, and how it is evaluated; each task gets it."""

    #: Of y_true, y_score, y_pred: how it lies there, and in which columns.
    inputs: Mapping[str, tuple[str, tuple[str, ...]]]
    fold: str | None
    names: tuple[Hashable, ...] | None
    options: Mapping[str, Any]
    hierarchy: Any = None  # a Hierarchy, or Spark's broadcast of one
    cluster: str | None = None  # a further column, for the table of instances

    def evaluate(self, batch: pa.RecordBatch, instances: bool = False) -> Evaluation:
        """The Evaluation of some rows."""
        h = getattr(self.hierarchy, "value", self.hierarchy)
        given = {name: self._read(batch, name, h) for name in self.inputs}
        if self.fold is not None:
            given["folds"] = batch[self.fold].to_pylist()
            if None in given["folds"]:
                raise ValueError(f"column {quoted(self.fold)}: the value is missing")
        given |= self.options
        if self.names is None and self.inputs["y_true"][0] == _CLASSES:
            sets = {"true_sets": given.pop("y_true"), "pred_sets": given.pop("y_pred")}
            return evaluate_hierarchical(**sets, h=h, **given, instances=instances)
        return evaluate(**given, label_names=self.names, hierarchy=h, instances=instances)

    def _read(self, batch: pa.RecordBatch, name: str, h: Hierarchy | None) -> Any:
        """One argument of `evaluate`."""
        kind, columns = self.inputs[name]
        column = batch[columns[0]]
        if kind in (_CLASSES, _PAIRS):
            names = present(h).nodes if self.names is None else self.names
            scores = None
            if kind == _PAIRS:
                ends = np.append(0, np.cumsum(column.value_lengths())).astype(np.int32)
                parts = column.flatten().flatten()
                column, scores = (pa.ListArray.from_arrays(ends, part) for part in parts)
            try:
                return sets_in(column, names, scores, repeats=kind == _CLASSES)
            except ValueError as error:
                raise ValueError(f"column {quoted(columns[0])}: {error}") from error
        if kind == _ARRAY:
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
            width = int(lengths[0]) if self.names is None else len(self.names)
            if (odd := lengths[lengths != width]).size:
                text = f"{odd[0]} elements instead of {width}"
                raise ValueError(f"column {quoted(columns[0])}: {text}")
            return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), width)
        if missing := [c for c in columns if batch[c].null_count]:
            raise ValueError(f"column {quoted(missing[0])}: the value is missing")
        if kind == _CLASS:
            return np.array(column.to_pylist())
        return np.column_stack([batch[c].to_numpy(zero_copy_only=False) for c in columns])

    def pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows that are evaluated together: as many as Spark hands over at a few times, unless
        there are very many labels.
        """
        wide = self.names is not None and self.inputs["y_true"][0] != _CLASSES
        step = max(1, _CELLS // (len(present(self.names)) if wide else 64))
        held: list[pa.RecordBatch] = []
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
        Equal to that of `evaluate` on the same rows, but for rounding (1e-12), in whatever
        partitions and order they come; without `instances`.

    Raises
    ------
    ValueError, TypeError
        As `evaluate`; of what stands in rows a ValueError that names the partition.
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
    sides = _sides(truth, scores, predictions)
    selected, layout = _prepared(df, sides, folds, cluster, hierarchy, label_names, options)
    parts = selected.mapInArrow(partial(_evaluate_partition, layout=layout), _PART)
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
        raise ValueError(_NO_ROWS)
    if rows[0].error is not None:
        raise ValueError(f"partition {rows[0].number}: {rows[0].error.rstrip('.')}.")
    if instances is not None:
        _instances(selected, layout).write.parquet(instances)
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
    _refuse_others(spark_instances, options)
    sides = _sides(truth, scores, predictions)
    names = options.pop("label_names", None)
    return _instances(*_prepared(df, sides, folds, cluster, hierarchy, names, options))


def _refuse_others(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise TypeError for options that partitions cannot be evaluated with."""
    if "sample_weight" in options:
        raise TypeError(
            f"{function.__name__}() has no `sample_weight`: of Spark DataFrames each row counts "
            "once. Evaluate a file or arrays: mleval.evaluate(..., sample_weight=...)."
        )
    further = ("label_names", "threshold", "conventions", "train_labels", "probabilities")
    refuse_keywords(function, options, (*further, *OPTIONS))


def _instances(selected: DataFrame, layout: _Layout) -> DataFrame:
    """The table of instances, computed when it is used."""
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
    return selected.mapInArrow(
        partial(_instance_table, layout=layout, columns=tuple(fields)), schema
    )


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
    session = None
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


# ---- on the executors ----------------------------------------------------------------------------


def _evaluate_partition(
    batches: Iterator[pa.RecordBatch], layout: _Layout
) -> Iterator[pa.RecordBatch]:
    """One part, or one error; nothing of an empty partition."""
    from pyspark import TaskContext

    number = TaskContext.get().partitionId()
    pieces = layout.pieces(batches)
    return _merged((number, partial(layout.evaluate, piece)) for piece in pieces)


def _merge_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = (row for batch in batches for row in batch.to_pylist())
    return _merged((row["number"], partial(_unpacked, row["part"], row["error"])) for row in rows)


def _merged(parts: Iterable[tuple[int, Callable[[], Evaluation]]]) -> Iterator[pa.RecordBatch]:
    """One part of several, held one at a time; of errors that of the first partition."""
    whole: Evaluation | None = None
    failed: tuple[int, str] | None = None
    number = 0
    for number, make in parts:
        try:
            part = make()
            whole = part if whole is None else merge([whole, part])
        except (ValueError, TypeError) as error:
            failed = min(failed or (number, str(error)), (number, str(error)))
    if failed is not None:
        yield _row(failed[0], None, failed[1])
    elif whole is not None:
        yield _row(number, whole)


def _row(number: int, whole: Evaluation | None, error: str | None = None) -> pa.RecordBatch:
    part = None if whole is None else zlib.compress(json.dumps(whole.to_dict()).encode(), 1)
    columns = {"number": [number], "part": [part], "error": [error]}
    types = [("number", pa.int32()), ("part", pa.binary()), ("error", pa.string())]
    return pa.RecordBatch.from_pydict(columns, pa.schema(types))


def _unpacked(part: bytes, error: str | None = None) -> Evaluation:
    if error is not None:
        raise ValueError(error)
    return Evaluation.from_dict(json.loads(zlib.decompress(part)))


def _instance_kinds(batches: Iterator[pa.RecordBatch], layout: _Layout) -> Iterator[pa.RecordBatch]:
    """The columns of the table of instances, and the kind of each as NumPy tells it; those of the
    DataFrame have "O".
    """
    for batch in batches:
        if len(batch):
            table = present(layout.evaluate(batch, instances=True).instances)
            kinds = {name: dtype.kind for name, dtype in table.dtypes.items() if name != "fold"}
            if layout.inputs["y_true"][0] != _CLASS and "y_score" in layout.inputs:
                kinds |= {"soft_hamming_loss": "f", "soft_subset_loss": "f"}
            kinds = {name: "O" for name in [layout.fold] if name is not None} | kinds
            kinds |= {name: "O" for name in [layout.cluster] if name is not None}
            yield pa.RecordBatch.from_pydict({"name": list(kinds), "kind": list(kinds.values())})


def _instance_table(
    batches: Iterator[pa.RecordBatch], layout: _Layout, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The table of instances, some rows at a time."""
    for piece in layout.pieces(batches):
        table = present(layout.evaluate(piece, instances=True).instances)
        arrays = {}
        for name in columns:
            if name in (layout.fold, layout.cluster):
                arrays[name] = piece[name]
            elif name in table:
                arrays[name] = pa.array(table[name], from_pandas=True)
            else:
                arrays[name] = pa.nulls(len(piece), pa.float64())
        yield pa.RecordBatch.from_pydict(arrays)


# ---- on the driver -------------------------------------------------------------------------------


def _sides(
    truth: str | Sequence[str],
    scores: str | Sequence[str] | None,
    predictions: str | Sequence[str] | None,
) -> dict[str, str | Sequence[str]]:
    """What is given, by the argument of `evaluate`."""
    if scores is None and predictions is None:
        raise ValueError(
            "`scores` or `predictions` must be given with `truth`. Name the columns that hold them."
        )
    sides = {"y_true": truth, "y_score": scores, "y_pred": predictions}
    return {name: value for name, value in sides.items() if value is not None}


def _prepared(
    df: DataFrame,
    given: Mapping[str, str | Sequence[str]],
    folds: str | None,
    cluster: str | None,
    hierarchy: Hierarchy | None,
    label_names: Sequence[Hashable] | None,
    options: dict[str, Any],
) -> tuple[DataFrame, _Layout]:
    """The columns that are used, in types that Arrow knows, and what stands where."""
    forms: dict[str, str] = {}
    for name in sorted(given, key=lambda name: name != "y_score"):  # which may be pairs
        forms[name] = _form(df, name, given[name], forms.get("y_score") == _PAIRS)
    _check_forms(forms)
    inputs = {name: (forms[name], _listed(value)) for name, value in given.items()}
    names = _names(inputs, label_names, hierarchy)
    if names is None and forms["y_true"] == _CLASSES:
        usual = {"threshold": 0.5, "conventions": "sklearn"}
        if any(options.pop(name, default) != default for name, default in usual.items()):
            raise ValueError(
                "`threshold` and `conventions` must be left out for class sets of a hierarchy. "
                "They need neither."
            )
    used = {c: _ARGUMENTS[name] for name, (_, listed) in inputs.items() for c in listed}
    used |= {name: of for name, of in ((folds, "folds"), (cluster, "cluster")) if name is not None}
    selected = df.select(*(_column(df, column, argument) for column, argument in used.items()))
    shared: Any = hierarchy
    if hierarchy is not None and not type(df).__module__.startswith("pyspark.sql.connect"):
        shared = df.sparkSession.sparkContext.broadcast(hierarchy)  # Spark Connect has none
    return selected, _Layout(inputs, folds, names, options, shared, cluster)


def _listed(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _type(df: DataFrame, column: str, argument: str) -> Any:
    if column not in df.columns:
        shown = ", ".join(map(repr, df.columns[:8])) + (" …" if len(df.columns) > 8 else "")
        raise ValueError(f"`{argument}` must name columns of `df` ({shown}), got {column!r}.")
    return df.schema[column].dataType


def _form(df: DataFrame, name: str, value: str | Sequence[str], pairs: bool) -> str:
    """How an input lies in the DataFrame."""
    listed = _listed(value)
    argument = _ARGUMENTS[name]
    if not listed:
        raise ValueError(f"`{argument}` must name at least one column, got none.")
    types = {column: _type(df, column, argument) for column in listed}
    first = types[listed[0]]
    kind = first.typeName()
    is_score = name == "y_score"
    if len(listed) == 1 and kind in ("array", "map", "vectorudt"):
        inner = first.elementType.typeName() if kind == "array" else kind
        if inner in ("map", "struct"):
            if is_score:
                return _PAIRS
            raise TypeError(
                f"`{argument}` must be labels or lists of classes, got {first.simpleString()} in "
                f"{listed[0]!r}. Only scores are pairs."
            )
        return _CLASSES if inner == "string" or (pairs and not is_score) else _ARRAY
    if isinstance(value, str) and not is_score:
        return _CLASS
    for column, given in types.items():
        if given.typeName() not in _NUMBERS:
            raise TypeError(
                f"`{argument}` must name columns of numbers, got {given.simpleString()} in "
                f"{column!r}."
            )
    return _COLUMNS


def _check_forms(forms: Mapping[str, str]) -> None:
    """Raise where truth, scores and predictions cannot be of the same labels."""
    matrices = {_COLUMNS, _ARRAY}
    fits = {
        _COLUMNS: (matrices, matrices),
        _ARRAY: (matrices, matrices),
        _CLASSES: ({_PAIRS, *matrices}, {_CLASSES}),
        _CLASS: (matrices, {_CLASS}),
    }[forms["y_true"]]
    for name, allowed in zip(("y_score", "y_pred"), fits, strict=True):
        if forms.get(name, min(allowed)) not in allowed:
            raise ValueError(
                f"`{_ARGUMENTS[name]}` must fit `truth`, got {forms[name]} where `truth` is "
                f"{forms['y_true']}. Both hold label columns or arrays of them, lists of "
                "classes, or one class."
            )


def _names(
    inputs: Mapping[str, tuple[str, tuple[str, ...]]],
    label_names: Sequence[Hashable] | None,
    hierarchy: Hierarchy | None,
) -> tuple[Hashable, ...] | None:
    """The labels as they are named, else as the columns or the hierarchy name them; None where
    arrays tell how many there are, or sets of a hierarchy are evaluated.
    """
    form, columns = inputs["y_true"]
    if label_names is not None:
        n_labels = len(columns) if form == _COLUMNS else len(label_names)
        return unique_names(label_names, "label_names", n_labels, "labels")
    by_columns: dict[str, tuple[str, ...]] = {}
    for name, (own, listed) in inputs.items():
        prefix = re.compile(f"(?:y_)?{name.removeprefix('y_')}_(.+)", re.DOTALL)
        labels = tuple(found[1] for found in map(prefix.fullmatch, listed) if found)
        if own == _COLUMNS and len(labels) == len(listed):
            by_columns[name] = labels
    if form == _COLUMNS:
        orders = set(by_columns.values())
        if len(orders) > 1:
            raise ValueError(
                "`truth`, `scores` and `predictions` must name the labels in one order, got "
                f"{' and '.join(map(str, sorted(orders)))}. Reorder them."
            )
        return by_columns.get("y_true", columns)
    if form == _CLASS:
        if "y_score" not in by_columns:
            raise ValueError(
                "`label_names` must be given for one class of several. Name the classes in the "
                "order of the scores."
            )
        return by_columns["y_score"]
    if form == _CLASSES and hierarchy is None:
        raise ValueError(
            "`label_names` must be given for lists of classes, or a `hierarchy` that has them. "
            "Name all classes."
        )
    return tuple(present(hierarchy).nodes) if form == _CLASSES and "y_score" in inputs else None


def _column(df: DataFrame, name: str, argument: str) -> Column:
    """The column, in a type that Arrow knows."""
    from pyspark.sql import functions as f

    kind = _type(df, name, argument).typeName()
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
