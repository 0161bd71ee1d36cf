"""Results an answer into the store, and out of it again: one run a method and data set, its answers
as a table.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from mlflow import MlflowClient
from mlflow.entities import Run

from mlflow_mleval.analysis.answers import Answers, graded
from mlflow_mleval.files.answer_logs import is_answer_log
from mlflow_mleval.files.instance_results import ABOUT, INSTANCE, read_instance_results
from mlflow_mleval.tracking import runs, schema, store
from mlflow_mleval.tracking.bounds import LARGEST, MAX_CELLS, bounded_json, decoded
from mlflow_mleval.tracking.fold_sources import artifact
from mlflow_mleval.tracking.importing import ImportReport

#: SHA-256 of the answers that a run holds, and where.
ARTIFACT_ANSWERS = "mleval/answers.parquet"
_META = b"mleval.answers"


def import_answers(
    path: str | Path,
    *,
    experiment_name: str,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> ImportReport:
    """Put a file with a result an answer into the store: one run per method and data set, the means
    as metrics.

    Importing a file again changes nothing. A changed one makes new runs, which are repeats of those
    that are there.

    Parameters
    ----------
    path : str or Path
        As `read_instance_results` takes it.
    experiment_name : str
        The experiment is made if it does not exist.

    Raises
    ------
    ImportFileError
        The file is malformed; nothing was written.
    StoreError
        The store cannot be reached, or the experiment is deleted.
    """
    found = read_instance_results(path)
    client = store.connect(create=True)
    experiment_id = store.ensure_experiment(client, experiment_name)
    known = {
        run.data.tags[schema.TAG_ANSWERS]: run
        for run in store.having(client, [experiment_id], schema.TAG_ANSWERS)
    }
    counts, notes = dict.fromkeys(("created", "unchanged"), 0), _notes(path, found)
    for done, ((method, dataset), answers) in enumerate(found.items(), 1):
        table = _packed(answers)
        digest = hashlib.sha256(
            "\0".join((method, dataset)).encode("utf-8", "surrogatepass") + table
        ).hexdigest()
        run = known.get(digest)
        if run is not None and run.data.tags.get(schema.TAG_STATUS) == schema.COMPLETE:
            counts["unchanged"] += 1
        else:
            means = answers.values.groupby(level=0).mean().mean().to_dict()
            payload = runs.Payload(
                method,
                dataset,
                means,
                tags={schema.TAG_ANSWERS: digest},
                files={ARTIFACT_ANSWERS: lambda table=table: table},
            )
            into = (
                {"experiment_name": experiment_name} if run is None else {"run_id": run.info.run_id}
            )
            runs.write(payload, **into)
            counts["created"] += 1
        progress(done, len(found))
    return ImportReport(experiment_id, experiment_name, **counts, warnings=notes)


def _notes(path: str | Path, found: Mapping[tuple[str, str], Answers]) -> tuple[str, ...]:
    """What was not read as a measure, and what it is good for."""
    notes = [note for answers in found.values() for note in graded(answers, {}).notes]
    if not is_answer_log(path):
        texts = {c for answers in found.values() for c in answers.about if c not in ABOUT}
        notes += [
            f"{column} holds text, and is no measure: `cluster={column}` puts instances together "
            f"by it, and `grades={column}=WORST,…,BEST` makes it a measure."
            for column in sorted(texts)
        ]
    return tuple(dict.fromkeys(notes))


def holds_imported(run: Run) -> bool:
    """Whether the run holds answers that were imported, complete."""
    return (
        schema.TAG_ANSWERS in run.data.tags
        and run.data.tags.get(schema.TAG_STATUS) == schema.COMPLETE
    )


def read_imported(client: MlflowClient, run: Run) -> Answers:
    """The answers of a run.

    Raises
    ------
    ValueError
        The table is not there or damaged.
    """
    kept: list[Answers] = []

    def read(path: Path) -> pd.DataFrame:
        kept.append(_unpacked(path))
        return kept[0].values

    found = artifact(client, run.info.run_id, ARTIFACT_ANSWERS, read)
    if not isinstance(found, pd.DataFrame):
        raise ValueError(found or "its table of answers is not there")
    return kept[0]


def _packed(answers: Answers) -> bytes:
    """The answers as parquet: values as numbers, the rest as text."""
    about = answers.about.astype(object).where(answers.about.notna(), "").astype(str)
    frame = pd.concat([answers.values.add_prefix("value:"), about.add_prefix("about:")], axis=1)
    table = pa.Table.from_pandas(frame.reset_index(names=INSTANCE), preserve_index=False)
    meta = {"digest": answers.digest, "counted": answers.counted, "passing": list(answers.passing)}
    meta |= {
        key: list(texts)
        for key, texts in (("notes", answers.notes), ("words", answers.words))
        if texts
    }
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({_META: json.dumps(meta)}), buffer)
    return buffer.getvalue()


def _unpacked(path: Path) -> Answers:
    head = decoded(lambda: pq.ParquetFile(path))
    if head.metadata.num_rows * len(head.schema_arrow.names) > MAX_CELLS:
        raise ValueError(
            f"it has {head.metadata.num_rows:,} rows of {len(head.schema_arrow.names)} columns, "
            "too many"
        )
    meta = bounded_json(
        (head.schema_arrow.metadata or {}).get(_META, b"{}").decode("utf-8", "replace"), 1_000_000
    )
    frame = decoded(lambda: head.read().to_pandas(ignore_metadata=True))
    if INSTANCE not in frame or not isinstance(meta, dict):
        raise ValueError(f"it has no column {INSTANCE}")
    index = pd.Index(frame[INSTANCE].astype(str), name=INSTANCE, dtype=object)
    parts = {
        kind: frame[[c for c in frame if c.startswith(f"{kind}:")]]
        .set_axis(index)
        .rename(columns=lambda c: c.partition(":")[2])
        for kind in ("value", "about")
    }
    values = parts["value"].astype(float)
    if (np.abs(values.to_numpy()) > LARGEST).any() or not {"link", "asked"} <= set(parts["about"]):
        raise ValueError(
            "it holds a number that is infinite or too large, or does not say what was asked"
        )
    counted = meta.get("counted")
    texts = {
        key: tuple(map(str, given)) if isinstance(given := meta.get(key), list) else ()
        for key in ("notes", "words")
    }
    return Answers(
        values,
        parts["about"],
        str(meta.get("digest", "")),
        counted if type(counted) is int else None,
        passing=tuple(m for m in values if m in (meta.get("passing") or ())),
        **texts,
    )
