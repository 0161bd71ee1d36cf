"""A report stored as a run, so that others find it in MLflow's UI beside the runs that it
compares.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from mlflow_mleval import naming
from mlflow_mleval.tracking import artifact_routes, runs, schema, store
from mlflow_mleval.tracking.conflicts import alone
from mlflow_mleval.tracking.tag_packing import packed

if TYPE_CHECKING:
    from mlflow_mleval.analysis.comparison import Comparison

_CUT = "\n\n… (cut; the whole is in " + schema.ARTIFACT_SUMMARY + ")"
_MAX_PARAM = 500
#: Seconds to wait for other processes that write the same report.
_PATIENCE = 600


def log_comparison(
    page: str,
    summary: str,
    data: Mapping[str, str | bytes],
    comparison: Comparison,
    *,
    asked: Mapping[str, object] | None = None,
    experiment_name: str | None = None,
) -> str:
    """Store the report about a comparison; where the same was asked before, in the run that holds
    the answer.

    MLflow's charts show the ten runs that started last. The report is said to start just before the
    first run that it compares, so that it takes the place of none of them.

    Parameters
    ----------
    page : str
        The report as HTML; lies at the root of the artifacts, where MLflow can put reports side by
        side.
    summary : str
        The same in Markdown; also the run's description.
    data : mapping of str to str or bytes
        File name to content; lies in the folder ``mleval``.
    comparison : Comparison
        What the report is about.
    asked : mapping, optional
        The selection and the options as the user gave them: a report of the same experiments by the
        same options is the same.
    experiment_name : str, optional
        Where to store it; made if there is none. Default: the experiment that most of its runs come
        from.

    Returns
    -------
    str
        The run's id.
    """
    files = {schema.ARTIFACT_REPORT: page, schema.ARTIFACT_SUMMARY: summary}
    files |= {f"{schema.ARTIFACT_FOLDER}/{name}": content for name, content in data.items()}
    about = described(comparison, asked)
    if experiment_name is not None:
        about["experiment_id"] = store.ensure_experiment(store.connect(), experiment_name)
    return log_report(files, summary=summary, **about)


def described(comparison: Comparison, asked: Mapping[str, object] | None = None) -> dict[str, Any]:
    """What the run of a report about a comparison says of itself, as `log_report` takes it."""
    study, where = comparison.study, ("experiment_ids", "experiment_names")
    params = {name: value for name, value in comparison.options.items() if value is not None}
    key = [
        sorted({*study.runs["experiment_id"]}),
        params,
        {k: v for k, v in (asked or {}).items() if k not in where},
    ]
    return {
        "experiment_id": str(study.runs["experiment_id"].mode()[0]),
        "run_name": f"report: {len(study.methods)} methods, {len(study.datasets)} datasets",
        "tags": {
            schema.TAG_REPORT: sha256(
                json.dumps(key, sort_keys=True, default=str).encode()
            ).hexdigest()
        },
        "params": params,
        "start": int(study.runs["start_time"].min().timestamp() * 1000) - 1,
    }


def log_report(
    files: Mapping[str, str | bytes],
    *,
    experiment_id: str,
    run_name: str,
    summary: str = "",
    tags: Mapping[str, str] | None = None,
    params: Mapping[str, object] | None = None,
    start: int | None = None,
) -> str:
    """Store a report as a run of kind report; such runs are never read as results.

    A run with the same tag ``mleval.report`` is taken again: its artifacts are replaced, all of
    them or, where that fails, none. Several who do that at the same time make one run: on one
    machine one after the other; of the runs of several machines the first is kept.

    Parameters
    ----------
    files : mapping of str to str or bytes
        Artifact path to content.
    experiment_id : str
        Where to store it.
    run_name : str
        What the UI calls it.
    summary : str
        Markdown; the run's description in the UI, cut where it is too long for MLflow.
    tags, params : mapping, optional
        More to say about it.
    start : int, optional
        When the run started, in milliseconds since 1970. Default: now.

    Returns
    -------
    str
        The run's id.

    Raises
    ------
    ValueError
        An artifact path is absolute or leaves the folder.
    StoreError
        The store cannot be reached. A report that was written in part has status FAILED.
    """
    try:
        naming.check_paths(files)
    except ValueError as error:
        raise ValueError(f"`files` must have paths below a folder, but {error}.") from None
    note = (
        summary if len(summary) <= naming.MAX_TAG else summary[: naming.MAX_TAG - len(_CUT)] + _CUT
    )
    all_tags = store.context_tags() | dict(tags or {})
    all_tags |= {schema.TAG_KIND: schema.KIND_REPORT, schema.TAG_SCHEMA: str(schema.SCHEMA_VERSION)}
    client, key = store.connect(), all_tags.get(schema.TAG_REPORT)
    with (
        _alone(experiment_id, key),
        runs.quiet(),
        store.store_errors("write to"),
        tempfile.TemporaryDirectory() as folder,
    ):
        run = next(iter(_same(client, experiment_id, key)), None)
        before = {} if run is None else artifact_routes.all_of(client, run, Path(folder))
        if new := run is None:
            run = runs.create(client, experiment_id, run_name, all_tags, start)
        run_id, status = run.info.run_id, "FAILED"
        try:
            client.update_run(run_id, "RUNNING", run_name[: schema.MAX_RUN_NAME])
            try:
                runs.send(run, files)
            except BaseException:
                with suppress(Exception):  # the error that counts is the first
                    runs.send(run, before)
                    status = run.info.status if before else status
                raise
            artifact_routes.remove(run, before.keys() - files.keys())
            said = {
                **all_tags,
                schema.TAG_UPDATED: str(int(time.time() * 1000)),
                **({MLFLOW_RUN_NOTE: note} if note else {}),
            }
            about = {
                key: str(value)[:_MAX_PARAM]
                for key, value in (params or {}).items()
                if key not in run.data.params
            }
            runs.log(client, run_id, tags=packed(said, run.data.tags), params=about)
            status = "FINISHED"
        finally:
            runs.end(client, run_id, status)
        if new and key and not artifact_routes.only_routes():  # by which nothing can be deleted
            run_id = runs.settle(
                client, lambda: _finished(_same(client, experiment_id, key)), run_id
            )
    return run_id


def address(run_id: str) -> str | None:
    """Where a browser finds the run; None where no server holds it."""
    uri = urlsplit(mlflow.get_tracking_uri())
    if uri.scheme not in ("http", "https"):
        return None
    with store.store_errors("read"):
        experiment_id = store.connect().get_run(run_id).info.experiment_id
    server = f"{uri.scheme}://{uri.netloc.rpartition('@')[2]}{uri.path.rstrip('/')}"
    return (
        f"{server}/#/experiments/{experiment_id}/runs/{run_id}/artifacts?workflowType="
        "machine_learning"
    )


def _same(client: MlflowClient, experiment_id: str, key: str | None) -> list[Run]:
    """The runs that hold the same report; there is one, unless several were made at the same
    time.
    """
    several = (
        store.search(client, [experiment_id], f"tags.`{schema.TAG_REPORT}` = '{key}'")
        if key
        else []
    )
    return sorted(
        (run for run in several if run.data.tags.get(schema.TAG_KIND) == schema.KIND_REPORT),
        key=runs.age,
    )


def _finished(several: Sequence[Run]) -> list[Run]:
    return [run for run in several if run.info.status == "FINISHED"]


def _alone(experiment_id: str, key: str | None) -> AbstractContextManager[None]:
    """One process of this machine at a time writes the report."""
    what = f"report {mlflow.get_tracking_uri()} {experiment_id} {key}"
    return alone(what, _PATIENCE) if key else nullcontext()
