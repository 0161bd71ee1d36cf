"""Take out of runs what the package put into them: its tags and files, and runs that are its own.

MLflow deletes no metric, so those named ``mleval/…`` stay; a deleted run can be restored until
``mlflow gc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.entities import Run

from mlflow_mleval.errors import StoreError
from mlflow_mleval.selection import Selection
from mlflow_mleval.sentences import count, some
from mlflow_mleval.store import artifacts, schema, store
from mlflow_mleval.store.runs_table import select


class Marks(NamedTuple):
    """What the package put into a run; the run itself is its own where it made it."""

    run: Run
    own: bool
    tags: list[str]
    files: list[str]


def marks_of(selection: Selection) -> list[Marks]:
    """The selected runs that hold anything of the package."""
    client, found = store.connect(), []
    runs, _ = select(client, selection)
    for run in runs:
        held = run.data.tags
        if any(key.startswith(schema.TAG_PREFIX) for key in held):
            own = (
                held.get(schema.TAG_OWN_RUN) == "true"
                or held.get(schema.TAG_KIND) in schema.RECORDS
            )
            with store.store_errors("read"):
                written = client.get_run(run.info.run_id).data.tags  # several stand in one
            tags = [key for key in written if key.startswith(schema.TAG_PREFIX)]
            found.append(Marks(run, own, tags, [] if own else _files(client, run)))
    return found


def _files(client: MlflowClient, run: Run) -> list[str]:
    with store.store_errors("read"):
        there = client.list_artifacts(run.info.run_id)
    own = schema.ARTIFACT_FOLDER
    return [entry.path for entry in there if entry.path == own or entry.path.startswith(f"{own}_")]


def told(found: Sequence[Marks]) -> str:
    """What `forget` would take away."""
    others = [marks for marks in found if not marks.own]
    own = len(found) - len(others)
    lines = [
        f"{count(len(others), 'run')}: {count(sum(len(m.tags) for m in others), 'tag')}, "
        f"{count(sum(len(m.files) for m in others), 'artifact')}",
        f"{count(own, 'run')} that mleval made, as a whole (mlflow runs restore brings one back)",
        "Metrics named mleval/… stay: MLflow deletes none.",
    ]
    return "\n".join(lines)


def forget(found: Sequence[Marks]) -> None:
    """Take it away, tags last, so that what fails half-way is found again.

    Raises
    ------
    StoreError
        The store does not allow it, or does not delete artifacts: those runs are named.
    """
    client = store.connect()
    kept = []
    with store.store_errors("write"):
        for marks in found:
            run_id = marks.run.info.run_id
            if marks.own:
                client.delete_run(run_id)
                continue
            artifacts.remove(marks.run, marks.files)
            if _files(client, marks.run):
                kept.append(run_id)
                continue
            for key in marks.tags:
                client.delete_tag(run_id, key)
    if kept:
        raise StoreError(f"the store deletes no artifacts: those of {some(kept)} stay.")
