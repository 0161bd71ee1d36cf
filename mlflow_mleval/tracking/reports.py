"""A report stored as a run, so that others find it in MLflow's UI beside the runs that it compares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from mlflow_mleval import naming
from mlflow_mleval.tracking import runs, schema, store

if TYPE_CHECKING:
    from mlflow_mleval.analysis.comparison import Comparison

_CUT = "\n\n… (cut; the whole is in " + schema.ARTIFACT_SUMMARY + ")"
_MAX_PARAM = 500


def log_comparison(page: str, summary: str, data: Mapping[str, str | bytes], comparison: Comparison) -> str:
    """Store the report about a comparison in the experiment that most of its runs come from.

    Parameters
    ----------
    page : str
        The report as HTML; lies at the root of the artifacts, where MLflow can put reports side by side.
    summary : str
        The same in Markdown; also the run's description.
    data : mapping of str to str or bytes
        File name to content; lies in the folder ``mleval``.
    comparison : Comparison
        What the report is about.

    Returns
    -------
    str
        The run's id.
    """
    study = comparison.study
    files = {schema.ARTIFACT_REPORT: page, schema.ARTIFACT_SUMMARY: summary}
    files |= {f"{schema.ARTIFACT_FOLDER}/{name}": content for name, content in data.items()}
    return log_report(
        files,
        experiment_id=str(study.runs["experiment_id"].mode()[0]),
        run_name=f"report: {len(study.methods)} methods, {len(study.datasets)} datasets",
        summary=summary,
        params={name: value for name, value in comparison.options.items() if value is not None},
    )


def log_report(
    files: Mapping[str, str | bytes],
    *,
    experiment_id: str,
    run_name: str,
    summary: str = "",
    tags: Mapping[str, str] | None = None,
    params: Mapping[str, object] | None = None,
) -> str:
    """Store a report as a run of kind report; such runs are never read as results.

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
    if wrong := [p for p in files if not p or PurePosixPath(p).is_absolute() or ".." in PurePosixPath(p).parts]:
        raise ValueError(f"`files` must have relative paths without .., got {', '.join(map(repr, wrong))}.")
    note = summary if len(summary) <= naming.MAX_TAG else summary[: naming.MAX_TAG - len(_CUT)] + _CUT
    all_tags = {**(tags or {}), schema.TAG_KIND: schema.KIND_REPORT, schema.TAG_SCHEMA: str(schema.SCHEMA_VERSION)}
    client = store.connect()
    with runs.quiet(), store.store_errors("write to"):
        run = runs.create(client, experiment_id, run_name, all_tags)
        status = "FAILED"
        try:
            runs.send(run, files)
            about = {key: str(value)[:_MAX_PARAM] for key, value in (params or {}).items()}
            runs.log(client, run.info.run_id, tags={MLFLOW_RUN_NOTE: note} if note else {}, params=about)
            status = "FINISHED"
        finally:
            runs.end(client, run.info.run_id, status)
    return run.info.run_id
