"""Results from a file or a table into the store: one run per method, dataset and seed; doing it
twice changes nothing.
"""

from __future__ import annotations

import hashlib
import io
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

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
#: What a run that was imported as a repeat has as its param.
_SEED = "seed"
#: Changes that a summary lists.
_SHOWN = 20
#: How often an import looks again whether others made the same runs meanwhile.
_ROUNDS = 4


@dataclass(frozen=True)
class ImportReport:
    """What `import_results` did.

    Attributes
    ----------
    experiment_id, experiment_name : str
        Where the runs are.
    created, updated, unchanged : int
        Runs, one per method and dataset (and seed) of the source.
    unfinished : int
        How many of them have no value: the method did not finish.
    changes : tuple of str
        What an update changed, such as "BR on yeast: f1 0.5 -> 0.6".
    absent : tuple of str
        Runs imported earlier whose method and dataset the source does not mention; they were left
        as they are.
    warnings : tuple of str
        What a reader must know, such as a mean that was not taken because a fold is empty.
    """

    experiment_id: str
    experiment_name: str
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    unfinished: int = 0
    changes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

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
    results = {
        (dataset, method, seed): _Result(
            method,
            dataset,
            held.means,
            held.folds.folds,
            held.folds.values,
            tags={schema.TAG_CONVENTIONS: conventions},
            params={_SEED: seed} if seed else {},
            status=schema.COMPLETE if held.means else schema.DNF,
            warnings=held.warnings,
        )
        for (dataset, method, seed), held in grouped_results(table).items()
    }
    client = store.connect(create=True)
    experiment_id = store.ensure_experiment(client, experiment_name)
    earlier, _ = _imported(client, experiment_id)
    with runs.quiet():
        outcomes = _write_all(client, experiment_id, results, earlier, progress or in_silence)
        others = _settle(client, experiment_id, results, outcomes)
    counts = Counter(created=0, updated=0, unchanged=len(others))
    counts.update(outcome.what for outcome in outcomes.values())
    counts["created"] -= len(others)
    changes = [change for outcome in outcomes.values() for change in outcome.changes]
    if others:
        told = some(starmap(result_name, others))
        changes.append(f"another import made the runs of {told} at the same time, which are kept")
    return ImportReport(
        experiment_id,
        experiment_name,
        **counts,
        unfinished=sum(r.status == schema.DNF for r in results.values()),
        changes=tuple(changes),
        absent=tuple(result_name(*cell) for cell in earlier if cell not in results),
        warnings=(*table.attrs["notes"], *(w for r in results.values() for w in r.warnings)),
    )


@dataclass(frozen=True)
class _Result(runs.Payload):
    """What one run is to hold."""

    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return some([result_name(self.dataset, self.method, self.params.get(_SEED, ""))])

    def identity(self) -> dict[str, str]:
        """The tags of a run that is about to hold the result."""
        seed = {schema.TAG_SEED: self.params[_SEED]} if self.params else {}
        own = {schema.TAG_CLAIM: self.claim, **seed}
        return runs.marks(schema.KIND_IMPORT, self.method, self.dataset) | own


def _imported(client: MlflowClient, experiment_id: str) -> tuple[dict[_Cell, Run], list[Run]]:
    """Runs of earlier imports by (dataset, method, seed), and those that claim one which another
    has claimed before.

    Where there are several, a whole one counts: the first that claimed the pair, else the latest.
    """
    claims: dict[_Cell, list[Run]] = {}
    for run in store.search(
        client, [experiment_id], f"tags.`{schema.TAG_KIND}` = '{schema.KIND_IMPORT}'"
    ):
        if newer := schema.newer_schema(run.data.tags):
            raise StoreError(f"run {run.info.run_id} has {newer}")
        keys = schema.TAG_DATASET, schema.TAG_METHOD, schema.TAG_SEED
        dataset, method, seed = (run.data.tags.get(key, "") for key in keys)
        claims.setdefault((dataset, method, seed), []).append(run)
    counting, later = {}, []
    for pair, several in claims.items():
        whole = [run for run in several if runs.holds_result(run.data.tags)]
        claimed = sorted((run for run in whole if schema.TAG_CLAIM in run.data.tags), key=runs.age)
        counting[pair] = claimed[0] if claimed else max(whole or several, key=runs.age)
        later += claimed[1:]
    return counting, later


def _settle(
    client: MlflowClient,
    experiment_id: str,
    results: Mapping[_Cell, _Result],
    outcomes: Mapping[_Cell, _Outcome],
) -> list[_Cell]:
    """Keep one run of each pair that several imports made at the same time; returns the pairs of
    which it is another's.

    A store has no lock, so each import looks again after it has written: of several whole runs that
    claim a pair the first is kept, and whoever sees a later one deletes it. Whoever is last sees
    them all, and all agree on the first, so that one stays.
    """
    if all(outcome.what == "unchanged" for outcome in outcomes.values()):
        return []
    lost: dict[_Cell, None] = {}
    written = {pair: outcome.run_id for pair, outcome in outcomes.items()}
    for _ in range(_ROUNDS):
        counting, later = _imported(client, experiment_id)
        for run in later:
            runs.withdraw(client, run.info.run_id)
        kept = {pair: run.info.run_id for pair, run in counting.items()}
        moved = {pair: results[pair] for pair in written if kept.get(pair) != written[pair]}
        again = _write_all(client, experiment_id, moved, counting)
        written |= {pair: outcome.run_id for pair, outcome in again.items()}
        lost |= dict.fromkeys(pair for pair in moved if pair in counting)
        if not moved:
            break
    return list(lost)


@dataclass(frozen=True)
class _Outcome:
    """What writing one result did (created, updated, unchanged), its changes, and its run."""

    what: str
    changes: list[str]
    run_id: str


def _write_all(
    client: MlflowClient,
    experiment_id: str,
    results: Mapping[_Cell, _Result],
    earlier: Mapping[_Cell, Run],
    progress: Progress = in_silence,
) -> dict[_Cell, _Outcome]:
    """Write what is missing, new runs in the order of the source; several at a time on a server."""
    outcomes: dict[_Cell, _Outcome] = {}
    lock = threading.Lock()

    def write(pair: _Cell, start: int) -> None:
        outcome = _write(client, experiment_id, results[pair], earlier.get(pair), start)
        with lock:
            outcomes[pair] = outcome
            progress(len(outcomes), len(results))

    def jobs() -> Iterator[Callable[[], None]]:
        begun = 0
        for pair in results:
            begun = max(int(time.time() * 1000), begun + 1)
            yield partial(write, pair, begun)

    if store.is_elsewhere(mlflow.get_tracking_uri()):
        runs.together(jobs())
    else:
        for job in jobs():
            job()
    return {pair: outcomes[pair] for pair in results}


def _write(
    client: MlflowClient,
    experiment_id: str,
    result: _Result,
    run: Run | None,
    start: int,
) -> _Outcome:
    """Write what is missing of a result.

    Trying again after an interruption uses the time of the first try: what it wrote is then no
    second entry.
    """
    created = run is None
    if run is None:
        parts = [schema.run_name(result.method, result.dataset), *result.params.values()]
        run = runs.create(client, experiment_id, " · ".join(parts), result.identity(), start)
    run_id, tags = run.info.run_id, run.data.tags
    missing = _missing(result, run)
    changed, finished = bool(missing.means or missing.tags), run.info.status == result.run_status
    if finished and not changed:
        return _Outcome("unchanged", [], run_id)
    updated = tags.get(schema.TAG_UPDATED, "")
    timestamp = int(updated) if updated.isdecimal() else run.info.start_time
    if runs.holds_result(tags) or any(result.means.get(m) != v for m, v in _stored(run).items()):
        timestamp = max(int(time.time() * 1000), timestamp + 1)
        missing = replace(missing, tags={schema.TAG_UPDATED: str(timestamp), **missing.tags})
    try:
        runs.put(client, run, missing, timestamp, ends=not finished)
    except StoreError:
        if not runs.is_deleted(client, run_id):
            raise
        created = True  # another import has withdrawn the run; `_settle` writes to the one kept
    if created:
        return _Outcome("created", [], run_id)
    changes = ["an interrupted import was completed"]
    if changed and runs.holds_result(tags):
        changes = _changes_in_words(result, run, missing.tags)
    return _Outcome("updated", [f"{result.name}: {change}" for change in changes], run_id)


def _stored(run: Run) -> dict[str, float]:
    """The measures that a run has."""
    metrics = run.data.metrics.items()
    return {m: value for key, value in metrics if (m := schema.measure_of(key))}


def _missing(result: _Result, run: Run) -> _Result:
    """What a run lacks of its result."""
    stored, tags = _stored(run), run.data.tags
    gone = sorted(stored.keys() - result.means.keys())
    told = schema.encode_folds(result.folds, result.by_fold) if len(result.folds) else ""
    wanted = {schema.TAG_FOLDS: told, schema.TAG_WITHDRAWN: json.dumps(gone) if gone else ""}
    wanted |= {**result.tags, schema.TAG_STATUS: result.status}
    unknown = wanted[schema.TAG_CONVENTIONS] == schema.UNKNOWN_CONVENTIONS
    if unknown and schema.TAG_CONVENTIONS in tags:  # what is known stays
        del wanted[schema.TAG_CONVENTIONS]
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


def _changes_in_words(result: _Result, run: Run, different: Mapping[str, str]) -> list[str]:
    """What an update changed, in words."""
    tags = run.data.tags
    withdrawn = schema.withdrawn(tags)
    old = {m: v for m, v in _stored(run).items() if m not in withdrawn}
    new = {m: v for m, v in result.means.items() if old.get(m) != v}
    changes = []
    for m, v in new.items():
        if m not in old:
            changes.append(f"{m} {v:.6g} added")
            continue
        digits = 17 if f"{old[m]:.6g}" == f"{v:.6g}" else 6  # as many as tell them apart
        changes.append(f"{m} {old[m]:.{digits}g} -> {v:.{digits}g}")
    changes += [f"{m} {v:.6g} withdrawn" for m, v in old.items() if m not in result.means]
    for key, label in ((schema.TAG_CONVENTIONS, "conventions"), (schema.TAG_STATUS, "status")):
        if key in different:
            changes.append(f"{label} {tags.get(key)} -> {different[key]}")
    if schema.TAG_FOLDS in different:
        changes.append("values by fold changed")
    return changes


# --------------------------------------------------------------------------------------------------
# Results an answer into the store, and out of it again: one run a method and data set, its answers
# as a table.

#: SHA-256 of the answers that a run holds, and where.
ARTIFACT_ANSWERS = "mleval/answers.parquet"
_META = b"mleval.answers"


def import_answers(
    path: str | Path,
    *,
    experiment_name: str,
    progress: Progress = in_silence,
) -> ImportReport:
    """Put a file with a result an answer into the store: one run per method and data set, the means
    as metrics. Importing it again changes nothing; a changed one makes new runs, which are repeats
    of those that are there.
    """
    results = read_instance_results(path)
    client = store.connect(create=True)
    experiment_id = store.ensure_experiment(client, experiment_name)
    earlier = {
        run.data.tags[schema.TAG_ANSWERS]: run
        for run in store.having(client, [experiment_id], schema.TAG_ANSWERS)
    }
    created = 0
    for done, ((method, dataset), answers) in enumerate(results.items(), 1):
        # values as numbers, the rest as text
        about = answers.about.astype(object).where(answers.about.notna(), "").astype(str)
        values = answers.values.add_prefix("value:")
        frame = pd.concat([values, about.add_prefix("about:")], axis=1)
        arrow = pa.Table.from_pandas(frame.reset_index(names=INSTANCE), preserve_index=False)
        meta: dict[str, Any] = {"digest": answers.digest, "counted": answers.counted}
        meta["passing"] = list(answers.passing)
        texts = {"notes": list(answers.notes), "words": list(answers.words)}
        meta |= {key: lines for key, lines in texts.items() if lines}
        buffer = io.BytesIO()
        pq.write_table(arrow.replace_schema_metadata({_META: json.dumps(meta)}), buffer)
        table = buffer.getvalue()
        digest = hashlib.sha256(
            "\0".join((method, dataset)).encode("utf-8", "surrogatepass") + table
        ).hexdigest()
        run = earlier.get(digest)
        if run is None or run.data.tags.get(schema.TAG_STATUS) != schema.COMPLETE:
            means = answers.values.groupby(level=0).mean().mean().to_dict()
            payload = runs.Payload(
                method,
                dataset,
                means,
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


def read_imported(client: MlflowClient, run: Run, grades: Mapping[str, Sequence[str]]) -> Answers:
    """The answers of a run, with what is graded as numbers."""

    def answers_in(path: Path) -> Answers:
        head = decoded(lambda: pq.ParquetFile(path))
        refuse_cells(head.metadata.num_rows, len(head.schema_arrow.names))
        text = (head.schema_arrow.metadata or {}).get(_META, b"{}").decode("utf-8", "replace")
        meta = {"passing": [], "notes": [], "words": [], **bounded_json(text, 1_000_000)}
        frame = decoded(lambda: head.read().to_pandas(ignore_metadata=True))
        if INSTANCE not in frame:
            raise ValueError(f"it has no column {INSTANCE}")
        frame.index = pd.Index(frame[INSTANCE].astype(str), name=INSTANCE, dtype=object)
        values, about = (
            frame[[c for c in frame if c.startswith(kind)]].rename(
                columns=lambda c: c.partition(":")[2]
            )
            for kind in ("value:", "about:")
        )
        values = values.astype(float)
        if (np.abs(values.to_numpy()) > LARGEST).any() or not {"link", "asked"} <= set(about):
            raise ValueError(
                "it holds a number that is infinite or too large, or does not say what was asked"
            )
        counted = meta.get("counted")
        return Answers(
            values,
            about,
            str(meta.get("digest", "")),
            counted if type(counted) is int else None,
            passing=tuple(m for m in values if m in meta["passing"]),
            notes=tuple(map(str, meta["notes"])),
            words=tuple(map(str, meta["words"])),
        )

    answers = artifact(client, run.info.run_id, ARTIFACT_ANSWERS, answers_in)
    if not isinstance(answers, Answers):
        raise ValueError(answers or "its table of answers is not there")
    return graded(answers, grades)
