"""Results from a file or a table into the store; doing it twice changes nothing."""

from __future__ import annotations

import io
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, repeat, starmap
from pathlib import Path
from typing import NamedTuple, TypeAlias

import mlflow
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from mlflow import MlflowClient
from mlflow.entities import Run

from mlflow_mleval.analysis.answer_comparison import Answers, graded
from mlflow_mleval.errors import StoreError
from mlflow_mleval.files.harness_logs import ABOUT, is_answer_log, read_instance_results
from mlflow_mleval.files.results import INSTANCE, read_results
from mlflow_mleval.selection import Progress, in_silence
from mlflow_mleval.sentences import Argument, Message, some
from mlflow_mleval.store import runs, schema, store
from mlflow_mleval.store.artifacts import artifact
from mlflow_mleval.store.runs_table import grouped_results, result_name
from mlflow_mleval.store.schema import LARGEST, bounded_json, decoded, refuse_cells
from mlflow_mleval.validation import one_of

#: Dataset, method and seed (empty where there are no repeats).
_Cell = tuple[str, str, str]
_Results: TypeAlias = Mapping[_Cell, runs.Payload]
#: What a run that was imported as a repeat has as its param.
_SEED = "seed"
#: Changes that a summary lists.
_SHOWN = 20
#: How often an import looks again whether others made the same runs meanwhile.
_ROUNDS = 5


@dataclass(frozen=True)
class ImportReport:
    """What `import_results` did; runs are one per method and dataset (and seed) of the source."""

    experiment_id: str
    experiment_name: str
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    unfinished: int = 0  # of all these, how many have no value: the method did not finish
    changes: tuple[str, ...] = ()  # by updates, such as "BR on yeast: f1 0.5 -> 0.6"
    absent: tuple[str, ...] = ()  # imported earlier, not in the source, and left as they are
    warnings: tuple[str, ...] = ()  # such as that a mean was not taken because a fold is empty

    def summary(self) -> str:
        """The same in lines of text, with at most twenty changes."""
        counts = f"{self.created} runs created, {self.updated} updated, {self.unchanged} unchanged"
        lines = [
            f"experiment {self.experiment_name!r} (id {self.experiment_id}): {counts}; "
            f"{self.unfinished} did not finish"
        ]
        lines += self.changes[:_SHOWN]
        if len(self.changes) > _SHOWN:
            lines.append(f"and {len(self.changes) - _SHOWN} more changes")
        if self.absent:
            lines.append(f"left as they are, not in this source: {some(self.absent)}")
        # Names may hold line ends.
        return "\n".join(" ".join(line.split()) for line in [*lines, *self.warnings])


def import_results(
    source: str | Path | pd.DataFrame,
    *,
    experiment_name: str,
    conventions: str = schema.UNKNOWN_CONVENTIONS,
    progress: Progress | None = None,
) -> ImportReport:
    """Put results into the store that MLflow is set to: one run per method and dataset, and seed if
    there are repeats.

    The source states everything about the pairs that it mentions. A pair without any value is a
    method that did not finish: the run exists with status DNF (in MLflow: KILLED). Importing the
    same source again writes nothing. A changed one updates the runs in place: a new value becomes
    the latest of its metric, a value that is gone is marked as withdrawn. Pairs that the source
    does not mention stay. Nothing is written before the whole source has been checked, and an
    import that was interrupted is completed by importing again; until then readers skip the
    half-written run and say so. Several imports at the same time make each run once: of runs that
    claim the same pair the first is kept, and the report says of which.

    Parameters
    ----------
    source : path or pandas.DataFrame
        As `read_results` takes it. A column seed or repeat makes repeats: runs with the param
        ``seed``. With folds, a measure is the mean over them; a measure with an empty fold did not
        finish.
    experiment_name : str
        Experiment to write to; made if it does not exist.
    conventions : {"unknown", "sklearn", "mulan"}
        Under which conventions for empty sets and ties the values were computed; "unknown" leaves
        what an earlier import said.
    progress : callable, optional
        Called as ``progress(done, total)`` after each run.

    Returns
    -------
    ImportReport

    Raises
    ------
    ImportFileError
        The source is malformed; nothing was written.
    StoreError
        The store cannot be reached, or the experiment is deleted.
    """
    one_of(conventions, "conventions", schema.CONVENTIONS)
    table = read_results(source)
    held = grouped_results(table)
    is_known = conventions != schema.UNKNOWN_CONVENTIONS
    stated = {schema.TAG_CONVENTIONS: conventions} if is_known else {}
    results = {
        (dataset, method, seed): runs.Payload(
            method,
            dataset,
            of_one.means,
            of_one.folds.folds,
            of_one.folds.values,
            kind=schema.KIND_IMPORT,
            tags=stated,
            params={_SEED: seed} if seed else {},
            status=schema.COMPLETE if of_one.means else schema.DNF,
        )
        for (dataset, method, seed), of_one in held.items()
    }
    client = store.connect(create=True)
    experiment_id = store.ensure_experiment(client, experiment_name)
    with runs.quiet():
        done, others, absent = _write_all(client, experiment_id, results, progress or in_silence)
    counts = Counter(created=0, updated=0, unchanged=0)
    counts.update(outcome.what for outcome in done.values())
    changes = [change for cell in results for change in done[cell].changes]
    if others:
        told = some(starmap(result_name, others))
        changes.append(f"another import made the runs of {told} at the same time, which are kept")
    return ImportReport(
        experiment_id,
        experiment_name,
        **counts,
        unfinished=sum(result.status == schema.DNF for result in results.values()),
        changes=tuple(changes),
        absent=tuple(starmap(result_name, absent)),
        warnings=(*table.attrs["notes"], *(w for of_one in held.values() for w in of_one.warnings)),
    )


class _Outcome(NamedTuple):
    """What writing one result did (created, updated, unchanged), its run, and what changed."""

    what: str
    run_id: str
    changes: Sequence[str] = ()


def _imported(client: MlflowClient, experiment_id: str) -> tuple[dict[_Cell, Run], list[Run]]:
    """Runs of earlier imports by cell, of several a whole one: the first that claimed it, else the
    latest; and the later ones that claim it, too."""
    claims: dict[_Cell, list[Run]] = defaultdict(list)
    kind = f"tags.`{schema.TAG_KIND}` = '{schema.KIND_IMPORT}'"
    for run in store.search(client, [experiment_id], kind):
        tags = run.data.tags
        if newer := schema.newer_schema(tags):
            raise StoreError(f"run {run.info.run_id} has {newer}")
        dataset, method = tags.get(schema.TAG_DATASET, ""), tags.get(schema.TAG_METHOD, "")
        claims[dataset, method, tags.get(schema.TAG_SEED, "")].append(run)
    counting, later = {}, []
    for cell, several in claims.items():
        by_age = sorted(several, key=runs.age)
        whole = [run for run in by_age if runs.holds_result(run.data.tags)]
        claimed = [run for run in whole if schema.TAG_CLAIM in run.data.tags]
        counting[cell] = claimed[0] if claimed else (whole or by_age)[-1]
        later += claimed[1:]
    return counting, later


def _write_all(
    client: MlflowClient, experiment_id: str, results: _Results, progress: Progress
) -> tuple[dict[_Cell, _Outcome], list[_Cell], list[_Cell]]:
    """Write what is missing, several runs at a time on a server; returns what that did, and the
    cells of which the run is another import's, and which are not in the source."""
    done: dict[_Cell, _Outcome] = {}
    others: dict[_Cell, None] = {}
    starts = count(int(time.time() * 1000))  # new runs in the order of the source
    told = threading.Lock()

    def write(cell: _Cell, start: int) -> None:
        outcome = _write(client, experiment_id, cell, results[cell], there.get(cell), start)
        with told:
            done[cell] = outcome
            progress(len(done), len(results))

    elsewhere = store.place_of(mlflow.get_tracking_uri()).elsewhere
    # A store has no lock, so each import looks again after it has written: whoever sees a later one
    # of several whole runs that claim a cell deletes it, and all agree on the first.
    for _ in range(_ROUNDS):
        there, later = _imported(client, experiment_id)
        for run in later:
            runs.withdraw(client, run.info.run_id)
        kept = {cell: run.info.run_id for cell, run in there.items()}
        open_cells = [c for c in results if c not in done or done[c].run_id != kept.get(c)]
        others |= dict.fromkeys(cell for cell in open_cells if cell in done and cell in kept)
        jobs = map(partial, repeat(write), open_cells, starts)
        runs.together(jobs, runs.THREADS if elsewhere else 1)
        if all(done[cell].what == "unchanged" for cell in open_cells):
            break
    return done, [*others], [cell for cell in there if cell not in results]


def _write(
    client: MlflowClient,
    experiment_id: str,
    cell: _Cell,
    result: runs.Payload,
    run: Run | None,
    start: int,
) -> _Outcome:
    """Write what is missing of a result. Trying again after an interruption uses the time of the
    first try: what it wrote is then no second entry."""
    created = run is None
    if run is None:
        dataset, method, seed = cell
        own = {schema.TAG_SEED: seed} if seed else {}
        name = " · ".join([schema.run_name(method, dataset), *own.values()])
        run = runs.create(client, experiment_id, name, result.identity() | own, start)
    run_id, tags, stored = run.info.run_id, run.data.tags, _stored(run)
    missing = _missing(result, tags, stored)
    changed, ends = bool(missing.means or missing.tags), run.info.status != result.run_status
    if not (changed or ends):
        return _Outcome("unchanged", run_id)
    updated, was_whole = tags.get(schema.TAG_UPDATED, ""), runs.holds_result(tags)
    timestamp = int(updated) if updated.isdecimal() else run.info.start_time
    if was_whole or stored.items() - result.means.items():
        timestamp = max(int(time.time() * 1000), timestamp + 1)
        missing = replace(missing, tags={schema.TAG_UPDATED: str(timestamp), **missing.tags})
    try:
        runs.put(client, run, missing, timestamp, ends)
    except StoreError:
        if not runs.is_deleted(client, run_id):
            raise
        created = True  # another import has withdrawn the run, and the next look misses it
    if created:
        return _Outcome("created", run_id)
    changes = ["an interrupted import was completed"]
    if changed and was_whole:
        changes = _changes_in_words(result.means, tags, stored, missing.tags)
    return _Outcome("updated", run_id, [f"{result_name(*cell)}: {one}" for one in changes])


def _stored(run: Run) -> dict[str, float]:
    """The measures that a run has."""
    metrics = run.data.metrics.items()
    return {m: value for key, value in metrics if (m := schema.measure_of(key))}


def _missing(
    result: runs.Payload, tags: Mapping[str, str], stored: Mapping[str, float]
) -> runs.Payload:
    """What a run with these tags and measures lacks of its result."""
    gone = sorted(stored.keys() - result.means.keys())
    told = schema.encode_folds(result.folds, result.by_fold) if len(result.folds) else ""
    wanted = {schema.TAG_FOLDS: told, schema.TAG_WITHDRAWN: json.dumps(gone) if gone else ""}
    wanted |= {**result.tags, schema.TAG_STATUS: result.status}
    different = {key: value for key, value in wanted.items() if tags.get(key, "") != value}
    means = {m: v for m, v in result.means.items() if stored.get(m) != v}
    by_fold = result.by_fold if schema.TAG_FOLDS in different else {}
    with suppress(ValueError):  # what the run holds already, as far as its tag tells, stays
        old = schema.decode_folds(tags.get(schema.TAG_FOLDS, ""))
        if by_fold and old.digits is None and not old.omitted:
            now, before = pd.DataFrame(by_fold, result.folds), pd.DataFrame(old.values, old.folds)
            by_fold = now.mask(now == before.reindex_like(now)).to_dict("list")
    folds = result.folds if by_fold else ()
    return replace(result, means=means, folds=folds, by_fold=by_fold, tags=different)


def _changes_in_words(
    means: Mapping[str, float],
    tags: Mapping[str, str],
    stored: Mapping[str, float],
    different: Mapping[str, str],
) -> list[str]:
    """What an update to these means and different tags changes."""
    withdrawn = schema.withdrawn(tags)
    old = {m: v for m, v in stored.items() if m not in withdrawn}
    changes = []
    for m, v in means.items():
        if m not in old:
            changes.append(f"{m} {v:.6g} added")
        elif old[m] != v:
            digits = 17 if f"{old[m]:.6g}" == f"{v:.6g}" else 6  # as many as tell them apart
            changes.append(f"{m} {old[m]:.{digits}g} -> {v:.{digits}g}")
    changes += [f"{m} {old[m]:.6g} withdrawn" for m in old if m not in means]
    for key in (schema.TAG_CONVENTIONS, schema.TAG_STATUS):
        if key in different:
            what, before = key.removeprefix(schema.TAG_PREFIX), tags.get(key, "unknown")
            changes.append(f"{what} {before} -> {different[key]}")
    if schema.TAG_FOLDS in different:
        changes.append("values by fold changed")
    return changes


# --------------------------------------------------------------------------------------------------
# Results an answer into the store and out again: a run a method and data set, answers as a table.

#: Where a run holds the answers, and what is told of them in the file's metadata.
ARTIFACT_ANSWERS = "mleval/answers.parquet"
_META, _TOLD = b"mleval.answers", ("digest", "counted", "passing", "notes", "words")


def import_answers(
    path: str | Path, *, experiment_name: str, progress: Progress = in_silence
) -> ImportReport:
    """Put a file with a result an answer into the store, one run per method and dataset. Importing
    it again changes nothing; a changed one makes new runs, which are repeats."""
    results = read_instance_results(path)
    client = store.connect(create=True)
    experiment_id = store.ensure_experiment(client, experiment_name)
    holding = store.having(client, [experiment_id], schema.TAG_ANSWERS)
    earlier = {run.data.tags[schema.TAG_ANSWERS]: run for run in holding}
    created = 0
    for done, ((method, dataset), answers) in enumerate(results.items(), 1):
        table = _parquet_of(answers)
        digest = schema.sha256_of("\0".join((method, dataset, table.hex())))
        run = earlier.get(digest)
        if run is None or not runs.holds_result(run.data.tags):
            payload = runs.Payload(
                method,
                dataset,
                answers.values.groupby(level=0).mean().mean().to_dict(),
                tags={schema.TAG_ANSWERS: digest},
                files={ARTIFACT_ANSWERS: table},
            )
            new = {"experiment_name": experiment_name}
            runs.write(payload, **(new if run is None else {"run_id": run.info.run_id}))
            created += 1
        progress(done, len(results))
    # what was not read as a measure, and what it is good for
    notes = [note for answers in results.values() for note in graded(answers, {}).notes]
    columns = {c for answers in results.values() for c in answers.about if c not in ABOUT}
    for column in () if is_answer_log(path) else sorted(columns):
        cluster = Argument("cluster", column), " puts instances together by it, and "
        grades = Argument("grades", f"{column}=WORST,…,BEST"), " makes it a measure."
        notes.append(Message(f"{column} holds text, and is no measure: ", *cluster, *grades))
    return ImportReport(
        experiment_id,
        experiment_name,
        created,
        unchanged=len(results) - created,
        warnings=tuple(dict.fromkeys(notes)),
    )


def _parquet_of(answers: Answers) -> bytes:
    """Values as numbers, the rest as text, and what is told of them."""
    about = answers.about.astype(object).where(answers.about.notna(), "").astype(str)
    values = answers.values.add_prefix("value:")
    frame = pd.concat([values, about.add_prefix("about:")], axis=1)
    table = pa.Table.from_pandas(frame.reset_index(names=INSTANCE), preserve_index=False)
    meta = json.dumps({name: getattr(answers, name) for name in _TOLD})
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({_META: meta}), buffer)
    return buffer.getvalue()


def read_imported(client: MlflowClient, run: Run, grades: Mapping[str, Sequence[str]]) -> Answers:
    """The answers of a run, with what is graded as numbers."""

    def answers_in(path: Path) -> Answers:
        head = decoded(lambda: pq.ParquetFile(path))
        refuse_cells(head.metadata.num_rows, len(head.schema_arrow.names))
        text = (head.schema_arrow.metadata or {}).get(_META, b"{}").decode("utf-8", "replace")
        told = dict.fromkeys(_TOLD, ()) | bounded_json(text, 1_000_000)
        frame = decoded(lambda: head.read().to_pandas(ignore_metadata=True))
        if INSTANCE not in frame:
            raise ValueError(f"it has no column {INSTANCE}")
        frame.index = pd.Index(frame[INSTANCE].astype(str), name=INSTANCE, dtype=object)
        values, about = (
            frame.filter(regex=f"^{kind}:").rename(columns=lambda c: c.partition(":")[2])
            for kind in ("value", "about")
        )
        values = values.astype(float)
        if (np.abs(values.to_numpy()) > LARGEST).any() or not {"link", "asked"} <= set(about):
            why = "it holds a number that is infinite or too large, or does not say what was asked"
            raise ValueError(why)
        return Answers(
            values,
            about,
            str(told["digest"]),
            told["counted"] if type(told["counted"]) is int else None,
            passing=tuple(m for m in values if m in told["passing"]),
            notes=tuple(map(str, told["notes"])),
            words=tuple(map(str, told["words"])),
        )

    answers = artifact(client, run.info.run_id, ARTIFACT_ANSWERS, answers_in)
    if not isinstance(answers, Answers):
        raise ValueError(answers or "its table of answers is not there")
    return graded(answers, grades)
