"""Measures of every instance, from the artifacts of the runs of a study, one column at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from mlflow import MlflowClient

from mlflow_mleval.analysis.clusters import one_table
from mlflow_mleval.errors import IncomparableRunsError, MeasureError, MissingResultsError
from mlflow_mleval.measures.registry import expand
from mlflow_mleval.naming import inside, some
from mlflow_mleval.study import Study
from mlflow_mleval.tracking import schema, store
from mlflow_mleval.tracking.artifact_routes import download
from mlflow_mleval.tracking.bounds import decoded, read_table

#: The column that says which fold tested an instance.
_FOLD = "fold"


@dataclass(frozen=True)
class Instances:
    """What the runs of one dataset say of every instance.

    Attributes
    ----------
    sources : dict of str to callable
        By method: takes the name of a measure, returns its column, instances as the index in the
        same order for all.
    measures : list of str
        That all of them have, as `wanted` or in the order of the file.
    notes : tuple of str
        Runs without values by instance, means over repeats, and those of which it is not known on
        what data they were evaluated.
    clusters : Series or None
        Which cluster each instance belongs to, if a column was asked for; None where no run says
        it.
    folds : Series or None
        Which fold tested each instance, where there are several and all runs agree.
    """

    sources: dict[str, Callable[[str], pd.Series]]
    measures: list[str]
    notes: tuple[str, ...]
    clusters: pd.Series | None = None
    folds: pd.Series | None = None


@contextmanager
def instances_of(
    study: Study, dataset: str, wanted: list[str] | None = None, cluster: str | None = None
) -> Iterator[Instances]:
    """The values by instance of the methods on one dataset; the files are there until the context
    ends.

    Parameters
    ----------
    study : Study
        As `load_study` returns it.
    dataset : str
    wanted : list of str, optional
        Measures or sets. Default: the measures of the study that every run has by instance.
    cluster : str, optional
        The column of the tables that says which instances belong together.

    Raises
    ------
    MissingResultsError
        Fewer than two runs carry values by instance.
    IncomparableRunsError
        The truth differs between runs, or an instance is in several clusters.
    MeasureError
        A run lacks a measure that was asked for, or no measure of the study is known by instance.
    StoreError
        The store cannot be reached.
    """
    runs = study.runs[study.runs["dataset"] == dataset]
    known = (
        runs.set_index("run_id")["dataset_digest"].fillna("")
        if "dataset_digest" in runs
        else pd.Series(dtype=object)
    )
    method = dict(zip(runs["run_id"], runs["method"], strict=True))
    if schema.differ(known):
        raise IncomparableRunsError(
            f"the runs on {dataset} were evaluated on other data (their digests of the truth "
            "differ)."
        )
    with tempfile.TemporaryDirectory() as folder, store.store_errors("read"):
        client = store.connect()
        heads: dict[str, pa.Schema] = {}
        paths: dict[str, Path] = {}
        broken = []
        for run in runs.itertuples():
            place = inside(folder, run.run_id)
            place.mkdir()
            found = store.of_one_run(
                partial(_fetched, client, run.run_id, place, wanted or study.measures)
            )
            if isinstance(found, str):
                broken.append(
                    f"The values by instance of {run.method} (run {run.run_id}) are left out: "
                    f"{found}."
                )
            elif found is not None:
                paths[run.run_id], heads[run.run_id] = found
        without = [m for i, m in method.items() if i not in paths]
        by_method: dict[str, list[Path]] = {}
        for i, path in paths.items():
            by_method.setdefault(method[i], []).append(path)
        if len(by_method) < 2:
            raise MissingResultsError(
                f"{len(paths)} of {len(runs)} runs on {dataset} carry values by instance; a test "
                "needs two. " + " ".join(broken or ["Log the evaluations with log_instances=True."])
            )
        columns = {i: set(head.names) for i, head in heads.items()}
        known_truth = {
            i: (head.metadata or {}).get(schema.INSTANCE_TRUTH) for i, head in heads.items()
        }
        truth = {i: digest for i, digest in known_truth.items() if digest is not None}
        if len(set(truth.values())) > 1:
            raise IncomparableRunsError(
                f"the instances of {dataset} have other true labels, or another order, in other "
                "runs."
            )
        names = (
            expand(wanted)
            if wanted
            else [m for m in study.measures if all(m in have for have in columns.values())]
        )
        if lacking := [
            f"{m} of {method[i]}" for m in names for i, have in columns.items() if m not in have
        ]:
            raise MeasureError(f"there are no values by instance for {some(lacking)}.")
        if not names:
            raise MeasureError(
                f"no measure of the study has values by instance in all {len(paths)} runs on "
                f"{dataset}."
            )
        notes = [*broken, *([f"No values by instance: {some(without)}."] if without else [])]
        alike = schema.differ(known[list(paths)]) is False if len(known) else False
        if unsure := {method[i] for i in paths if i not in truth and not (alike and known[i])}:
            notes.append(
                f"Whether the data are the same instances of {dataset} is unknown for "
                f"{len(unsure)} of {len(by_method)} methods: their instances are taken as pairs "
                "because they have the same numbers. Evaluate and log them again."
            )
        if several := [f"{m} ({len(found)})" for m, found in by_method.items() if len(found) > 1]:
            notes.append(f"Values by instance are means over repeats: {some(several)}.")
        clusters = folds = None
        if cluster is not None:
            parts = [
                (method[i], _names(paths[i], cluster, i))
                for i, have in columns.items()
                if cluster in have
            ]
            if not parts:
                raise MeasureError(
                    f"the instances of runs {some(paths)} have no column {cluster!r}. Name another."
                )
            clusters = one_table(parts, cluster).sort_index()
        with suppress(MeasureError):  # a table cannot be read
            folds = _folds(paths, columns)
        readers = {m: _reader(dataset, m, found) for m, found in by_method.items()}
        yield Instances(readers, names, tuple(notes), clusters, folds)


def _fetched(
    client: MlflowClient, run_id: str, folder: Path, wanted: Iterable[str]
) -> tuple[Path, pa.Schema] | None:
    """The table of a run as a file in the folder, and what it holds; None where the run has
    none.
    """
    path = download(client, run_id, schema.ARTIFACT_INSTANCES, str(folder))
    return None if path is None else (path, _head(path, wanted))


def _head(path: Path, wanted: Iterable[str]) -> pa.Schema:
    """What the table holds, once its columns that are wanted have been read through.

    Raises
    ------
    ValueError
        The table is damaged or too large, or holds something else than names and numbers.
    """
    head = decoded(lambda: pq.read_schema(path))
    if schema.INSTANCE not in head.names:
        raise ValueError(f"it has no column {schema.INSTANCE}")
    for measure in (m for m in expand(wanted) if m in head.names):
        _series(path, measure)
    return head


def _series(path: Path, column: str) -> pd.Series:
    """A column by instance, of numbers or of names, in the order of the instances' names."""
    head = pq.read_schema(path)
    names = [name for name in (schema.INSTANCE, column) if not _is_number(head.field(name).type)]
    columns = [name for name in (schema.INSTANCE, column) if name not in names]
    return read_table(path, columns, names).set_index(schema.INSTANCE)[column].sort_index()


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _names(path: Path, column: str, run: str) -> pd.Series:
    """A column of names or numbers, instances as the index."""
    try:
        return _series(path, column)
    except ValueError as error:
        raise MeasureError(
            f"the column {column!r} of run {run} cannot be read: {error}."
        ) from error


def _folds(paths: Mapping[str, Path], columns: Mapping[str, set[str]]) -> pd.Series | None:
    """Which fold tested each instance, where there are several and all tables say the same."""
    if any(_FOLD not in columns[run] for run in paths):
        return None
    found, *others = (_names(path, _FOLD, run) for run, path in paths.items())
    return found if found.nunique() > 1 and all(own.equals(found) for own in others) else None


def _reader(dataset: str, method: str, paths: list[Path]) -> Callable[[str], pd.Series]:
    """Reads a measure by its name, the mean over repeats; they have to be of the same instances."""

    def read(measure: str) -> pd.Series:
        total = _series(paths[0], measure)
        for path in paths[1:]:
            more = _series(path, measure)
            if not more.index.equals(total.index):
                raise IncomparableRunsError(
                    f"the repeats of {method} on {dataset} were evaluated on other instances of it."
                )
            total = total + more
        return total / len(paths)

    return read
