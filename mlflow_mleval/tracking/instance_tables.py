"""Measures of every instance, from the artifacts of the runs of a study, one column at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from mlflow.exceptions import MlflowException

from mlflow_mleval.errors import IncomparableRunsError, MeasureError, MissingResultsError
from mlflow_mleval.measures.registry import expand
from mlflow_mleval.naming import some
from mlflow_mleval.study import Study
from mlflow_mleval.tracking import schema, store


@dataclass(frozen=True)
class Instances:
    """What the runs of one dataset say of every instance.

    Attributes
    ----------
    sources : dict of str to callable
        By method: takes the name of a measure, returns its column, instances as the index in the same order for all.
    measures : list of str
        That all of them have, as `wanted` or in the order of the file.
    notes : tuple of str
        Runs without values by instance, and those of which it is not known on what data they were evaluated.
    """

    sources: dict[str, Callable[[str], pd.Series]]
    measures: list[str]
    notes: tuple[str, ...]


@contextmanager
def instances_of(study: Study, dataset: str, wanted: list[str] | None = None) -> Iterator[Instances]:
    """The values by instance of the methods on one dataset; the files are there until the context ends.

    Parameters
    ----------
    study : Study
        As `load_study` returns it.
    dataset : str
    wanted : list of str, optional
        Measures or sets. Default: the measures of the study that every run has by instance.

    Raises
    ------
    MissingResultsError
        Fewer than two runs carry values by instance.
    IncomparableRunsError
        The truth differs between runs.
    MeasureError
        A run lacks a measure that was asked for, or no measure of the study is known by instance.
    StoreError
        The store cannot be reached.
    """
    runs = study.runs[study.runs["dataset"] == dataset]
    known = runs.set_index("method")["dataset_digest"].fillna("") if "dataset_digest" in runs else pd.Series(dtype=object)
    if schema.differ(known):
        raise IncomparableRunsError(f"the runs on {dataset} were evaluated on other data (their digests of the truth differ).")
    with tempfile.TemporaryDirectory() as folder, store.store_errors("read"):
        client = store.connect()
        paths: dict[str, Path] = {}
        for run in runs.itertuples():
            place = Path(folder) / run.run_id
            place.mkdir()
            try:
                paths[run.method] = Path(client.download_artifacts(run.run_id, schema.ARTIFACT_INSTANCES, str(place)))
            except FileNotFoundError:
                continue
            except MlflowException as error:
                if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INTERNAL_ERROR"):
                    raise
        without = [m for m in runs["method"] if m not in paths]
        if len(paths) < 2:
            raise MissingResultsError(
                f"{len(paths)} of {len(runs)} runs on {dataset} carry values by instance; a test needs two. "
                "Log the evaluations with log_instances=True."
            )
        heads = {m: pq.read_schema(path) for m, path in paths.items()}
        columns = {m: set(head.names) for m, head in heads.items()}
        truth = {m: head.metadata[schema.INSTANCE_TRUTH] for m, head in heads.items() if schema.INSTANCE_TRUTH in head.metadata}
        if len(set(truth.values())) > 1:
            raise IncomparableRunsError(f"the instances of {dataset} have other true labels, or another order, in other runs.")
        names = expand(wanted) if wanted else [m for m in study.measures if all(m in have for have in columns.values())]
        if lacking := [f"{m} of {method}" for m in names for method, have in columns.items() if m not in have]:
            raise MeasureError(f"there are no values by instance for {some(lacking)}.")
        if not names:
            raise MeasureError(f"no measure of the study has values by instance in all {len(paths)} runs on {dataset}.")
        notes = [f"No values by instance: {some(without)}."] if without else []
        alike = schema.differ(known[list(paths)]) is False if len(known) else False
        if unsure := [m for m in paths if m not in truth and not (alike and known[m])]:
            notes.append(
                f"Whether the data are the same instances of {dataset} is unknown for {len(unsure)} of {len(paths)} methods: "
                "their instances are taken as pairs because they have the same numbers. Evaluate and log them again."
            )
        yield Instances({m: _reader(path) for m, path in paths.items()}, names, tuple(notes))


def _reader(path: Path) -> Callable[[str], pd.Series]:
    def read(measure: str) -> pd.Series:
        return pd.read_parquet(path, columns=[schema.INSTANCE, measure]).set_index(schema.INSTANCE)[measure].sort_index()

    return read
