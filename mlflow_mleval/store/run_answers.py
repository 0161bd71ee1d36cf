"""Runs into answers, question by question, from whichever they hold: traces, imported answers, or
tables of `mlflow.models.evaluate` and of `mlflow.log_table`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.answer_comparison import (
    MOST_LOST,
    PASS,
    Answers,
    aligned,
    unclear,
)
from mlflow_mleval.analysis.gate_tests import Changed
from mlflow_mleval.errors import (
    LostAnswersError,
    MissingResultsError,
    MlevalError,
    NoRunsError,
    StoreError,
)
from mlflow_mleval.files.harness_logs import SHOWN, flat, shortened
from mlflow_mleval.files.results import reason
from mlflow_mleval.selection import Progress, Selection, in_silence
from mlflow_mleval.sentences import grouped, joined, some
from mlflow_mleval.store import artifacts, schema, store
from mlflow_mleval.store.reader import period_doubts, rules_of, with_models
from mlflow_mleval.store.repeats import placed
from mlflow_mleval.store.runs_table import RunsTable, read_store, runs_of
from mlflow_mleval.store.schema import bounded_json, computable, refuse_cells, sha256_of
from mlflow_mleval.store.study_artifacts import changed_means
from mlflow_mleval.study import Units

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Assessment, Run, Trace

# --------------------------------------------------------------------------------------------------
# Runs of `mlflow.genai.evaluate`, answer by answer: a trace is an instance, its assessments are
# measures.

#: Traces that one request brings.
PAGE = 500
#: What a trace was given, and what it gave.
INPUTS, OUTPUTS = "inputs", "outputs"
#: MLflow cuts the inputs in a trace's metadata here.
CUT = 250
#: By measure that holds words, these from the worst to the best.
Grades: TypeAlias = Mapping[str, Sequence[str]]


def is_evaluated(run: Run) -> bool:
    """Whether `mlflow.genai.evaluate` made the run."""
    return run.data.tags.get("mlflow.runType") == "genai_evaluate"


def read_traces(
    client: MlflowClient,
    run: Run,
    *,
    instance_by: str | None = None,
    grades: Grades | None = None,
    most: int | None = None,
) -> Answers:
    """The answers of one run, from its traces, in the order in which they were given."""
    rows, scores = [], _Scores(run, grades or {})
    server = store.server_address()
    where = f"{server}/#/experiments/{quote(run.info.experiment_id, safe='')}/traces"
    for trace, key, (inputs,) in traces_of(client, run, (INPUTS,), instance_by, most):
        trace_id = trace.info.trace_id
        output = trace.info.response_preview or ""
        with suppress(ValueError):  # MLflow has cut it, or it is plain text
            output = bounded_json(output)
        about = {
            "link": trace_id,
            "asked": question_shown(inputs),
            "output": question_shown(output),
            "address": f"{where}?selectedEvaluationId={quote(trace_id, safe='')}" if server else "",
        }
        when = trace.info.request_time, trace_id
        rows.append((when, key, scores.means(trace), _plain_inputs(inputs) | about))
    rows.sort(key=lambda row: row[0])
    index = pd.Index([key for _, key, _, _ in rows], name="instance", dtype=object)
    values = pd.DataFrame([means for _, _, means, _ in rows], index=index, dtype=float)
    if values.empty:
        raise ValueError("none of its traces has an assessment by a scorer")
    values = values.drop(columns=[m for m in scores.words if m in values])
    return Answers(
        values,
        pd.DataFrame([about for _, _, _, about in rows], index=index),
        digest(run),
        counted(run),
        {m: some(sorted(digests - {""})) for m, digests in scores.versions.items()},
        tuple(m for m in values if scores.passing.get(m, False)),
        tuple(unclear(measure, [*texts]) for measure, texts in scores.words.items()),
    )


class _Scores:
    """What scorers said of the traces of a run.

    `versions` has the digests of the scorers by measure, `words` values that are no numbers, and
    `passing` whether all values of a measure are pass or fail.
    """

    def __init__(self, run: Run, grades: Grades) -> None:
        self.run, self.grades = run, grades
        self.versions: dict[str, set[str]] = defaultdict(set)
        self.words: dict[str, Counter[str]] = defaultdict(Counter)
        self.passing: dict[str, bool] = {}

    def means(self, trace: Trace) -> dict[str, float]:
        """The mean by measure over the assessments of a trace that belong to the run."""
        values: dict[str, list[float]] = defaultdict(list)
        for assessment in trace.info.assessments or ():
            feedback = assessment.feedback
            if feedback is None or assessment.valid is False or not belongs(assessment, self.run):
                continue
            by_human = assessment.source.source_type == "HUMAN"
            name = f"{assessment.name} (human)" if by_human else assessment.name
            metadata = assessment.metadata or {}
            self.versions[name].add(metadata.get("mlflow.assessment.scorerDigest", ""))
            if feedback.error is not None or feedback.value is None:
                values[name].append(np.nan)
                continue
            for measure, value in flat({name: feedback.value}).items():
                size, passes = number_assessed(value, self.grades.get(measure))
                if size is None:
                    self.words[measure][str(value)] += 1
                    continue
                values[measure].append(size)
                self.passing[measure] = self.passing.get(measure, True) and passes
        return {measure: _mean(sizes) for measure, sizes in values.items()}


def _mean(sizes: Sequence[float]) -> float:
    """The mean of those that are numbers; NaN without any."""
    numbers = [size for size in sizes if not np.isnan(size)]
    return sum(numbers) / len(numbers) if numbers else np.nan


def _plain_inputs(inputs: Any) -> dict[str, str]:
    """The inputs that are no structures, as text of bounded length; what is cut ends with a digest,
    so that passages that begin alike stay different.
    """
    found = {}
    for key, value in inputs.items() if isinstance(inputs, dict) else ():
        if isinstance(value, str | int | float | bool):
            text = str(value)
            cut = f"{text[:SHOWN]}…{sha256_of(text)[:8]}"
            found[key] = text if len(text) <= SHOWN else cut
    return found


def traces_of(
    client: MlflowClient,
    run: Run,
    parts: Sequence[str],
    instance_by: str | None,
    most: int | None = None,
) -> Iterator[tuple[Trace, str, list[Any]]]:
    """Each trace with the key of its question and the parts, the first of which are its inputs, as
    far as the data hold them; a page in memory at a time.

    A page comes with its spans only where the metadata have cut a part of some trace in it, or in
    the page before.
    """
    spans, n = False, 0
    asked, lost = asked_of(run), list[str]()

    def search(**place: Any) -> Any:
        nonlocal spans
        ask = partial(
            client.search_traces,
            locations=[run.info.experiment_id],
            run_id=run.info.run_id,
            max_results=PAGE,
            **place,
        )
        page = ask(include_spans=spans)
        cut = any(_part_in_full(trace, part) is None for trace in page for part in parts)
        if cut and not spans:
            page = ask(include_spans=True)
        spans = cut
        return page

    for page in store.paged(search, lambda trace: trace.info.trace_id, "traces"):
        n += len(page)
        if most is not None and n > most:
            raise ValueError(f"it holds more answers than the {most:,} that are read here.")
        for trace in page:
            inputs, *others = _trace_parts(trace, parts)
            if inputs is None:
                lost.append(trace.info.trace_id)
            inputs = asked(inputs)
            yield trace, question_key(trace, inputs, instance_by), [inputs, *others]
    if lost:
        raise ValueError(
            f"the inputs of {len(lost):,} traces are cut, and their spans are not there "
            f"({some(lost, 3)})"
        )


def _trace_parts(trace: Trace, parts: Sequence[str]) -> list[Any]:
    """The parts as the metadata have them, or where they cut one, as the root of the spans does."""
    values = [_part_in_full(trace, part) for part in parts]
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    if root is None or all(value is not None for value in values):
        return values
    return [getattr(root, part) for part in parts]


def _part_in_full(trace: Trace, part: str) -> Any:
    """A part in the metadata; None where it is not there in full."""
    text = trace.info.trace_metadata.get(f"mlflow.trace{part.capitalize()}", "")
    if not 0 < len(text) < CUT:
        return None
    try:
        return bounded_json(text)
    except ValueError:
        return None


def asked_of(run: Run) -> Callable[[Any], Any]:
    """What takes from a trace the inputs that the data hold: defaults belong to the method."""
    names: set[str] = set()
    for given in run.inputs.dataset_inputs if run.inputs else ():
        with suppress(ValueError, AttributeError, TypeError, KeyError):
            columns = bounded_json(given.dataset.schema or "{}", 1_000_000)["mlflow_colspec"]
            inputs = (column for column in columns if column["name"] == "inputs")
            names = {name for column in inputs for name in column["properties"]}
            break

    def asked(inputs: Any) -> Any:
        holds = names and isinstance(inputs, dict) and names <= inputs.keys()
        return {name: inputs[name] for name in sorted(names)} if holds else inputs

    return asked


def question_key(trace: Trace, inputs: Any, instance_by: str | None) -> str:
    """Which question a trace answers."""
    if instance_by is None:
        return sha256_of(_json_text(inputs))[:16]
    own = inputs.get(instance_by) if isinstance(inputs, dict) else None
    own = trace.info.tags.get(instance_by) if own is None else own
    if own is None:
        raise ValueError(
            f"its trace {trace.info.trace_id} has no input and no tag {instance_by!r}. Name another"
        )
    return str(own)


def question_shown(inputs: Any) -> str:
    if isinstance(inputs, dict) and len(inputs) == 1:
        (inputs,) = inputs.values()
    return shortened(inputs)


def belongs(assessment: Assessment, run: Run) -> bool:
    """Whether it belongs to this evaluation: others may have evaluated the trace, too."""
    return (assessment.metadata or {}).get("mlflow.assessment.sourceRunId") in (
        None,
        run.info.run_id,
    )


def number_assessed(value: Any, grades: Sequence[str] | None) -> tuple[float | None, bool]:
    """The number that an assessment stands for, and whether it is pass or fail."""
    if grades is not None:
        return (float(grades.index(str(value))) if str(value) in grades else None), False
    if isinstance(value, bool | str):
        size = PASS.get(value.strip().lower() if isinstance(value, str) else value)
        return size, size is not None
    if isinstance(value, int | float):
        return (float(value) if computable(value) else np.nan), False
    return None, False


def digest(run: Run) -> str:
    return "+".join(d.dataset.digest for d in run.inputs.dataset_inputs) if run.inputs else ""


def counted(run: Run) -> int | None:
    """The rows of the data that was evaluated, as MLflow wrote them down."""
    for given in run.inputs.dataset_inputs if run.inputs else ():
        with suppress(ValueError, AttributeError):
            rows = bounded_json(given.dataset.profile or "{}").get("num_rows")
            if type(rows) is int:
                return rows
    return None


#: What `mlflow.models.evaluate` writes, and how it marks the columns that hold scores.
EVALUATED, _SCORE = "eval_results_table.json", "/score"
#: Bytes of a table that is read, and characters of a question that is its own key.
_LARGEST, _SHORT = 500_000_000, 40
_Table: TypeAlias = tuple[pd.DataFrame, dict[str, str]]


def read_answer_tables(
    client: MlflowClient,
    runs: Mapping[str, Run],
    *,
    table: str | None = None,
    instance_by: str | None = None,
    measures: Sequence[str] | None = None,
    grades: Grades | None = None,
) -> dict[str, Answers | str]:
    """The answers of several runs, from a table of each, or why those of one cannot be read."""
    path, grades = table or EVALUATED, grades or {}

    def table_of(run: Run) -> _Table:
        frame = _frame_of(client, run, path, [instance_by] if instance_by else [])
        if not (columns := _measure_columns(frame, measures, grades, instance_by)):
            advice = "Name measures, or declare their grades"
            raise ValueError(f"its table {path} has no column of numbers. {advice}")
        return frame, columns

    read: dict[str, Answers | str] = {}
    tables: dict[str, _Table] = {}
    for name, run in runs.items():
        found = store.of_one_run(partial(table_of, run))
        if isinstance(found, str):
            read[name] = found
        else:
            tables[name] = found
    if not tables:
        return read
    scores = {  # also those that are not wanted: a question is the same whatever is compared
        name
        for frame, columns in tables.values()
        for found in (columns, _measure_columns(frame, None, grades, instance_by))
        for name in found.values()
    }
    keys = [instance_by] if instance_by else _key_columns([f for f, _ in tables.values()], scores)
    if not keys:
        raise ValueError(f"no column of {path} is the same in all runs. Name that of the instance.")
    for name, (frame, columns) in tables.items():
        read[name] = store.of_one_run(
            partial(_answers_of_table, runs[name], frame, columns, keys, grades)
        )
    return read


def _frame_of(client: MlflowClient, run: Run, path: str, needed: Sequence[str]) -> pd.DataFrame:
    """The table of a run, which has the columns that are needed."""
    found = artifacts.artifact(client, run.info.run_id, path, read_frame)
    if not isinstance(found, pd.DataFrame):
        raise ValueError(f"its table {path} cannot be read: {found or 'it is not there'}")
    if lacking := [column for column in needed if column not in found]:
        raise ValueError(
            f"its table {path} has no column {some(map(repr, lacking))}; it has {some(found, 8)}"
        )
    return found


def read_frame(path: Path) -> pd.DataFrame:
    """The table of a JSON file in split orientation."""
    if (size := path.stat().st_size) > _LARGEST:
        raise ValueError(f"it has {size:,} bytes, more than {_LARGEST:,}")
    try:
        found = json.loads(path.read_text("utf-8"))
        columns, data = [str(c) for c in found["columns"]], found["data"]
        if len(set(columns)) < len(columns) or any(len(row) != len(columns) for row in data):
            raise ValueError("its rows and columns do not fit")
    except Exception as error:
        raise ValueError(f"it is no table in split orientation ({reason(error)})") from error
    refuse_cells(len(data), len(columns))
    return pd.DataFrame(data, columns=columns, dtype=object)


def _measure_columns(
    frame: pd.DataFrame,
    wanted: Sequence[str] | None,
    grades: Grades,
    instance_by: str | None,
) -> dict[str, str]:
    """By measure the column that holds it."""
    scored = {c.removesuffix(_SCORE): c for c in frame if c.endswith(_SCORE)}
    if wanted is not None:
        return {m: column for m in wanted if (column := scored.get(m, m)) in frame}
    if scored:
        return scored
    found = {}
    for name in frame.columns.drop(instance_by or [], errors="ignore"):
        known = frame[name].dropna()
        sizes = [number_assessed(value, grades.get(name))[0] for value in known]
        if name in grades or (sizes and None not in sizes):
            found[name] = name
    return found


def _key_columns(frames: Sequence[pd.DataFrame], scores: set[str]) -> list[str]:
    """The columns that together say what was asked: they hold the same in all tables."""
    first, *others = frames
    texts = {c: set(map(_json_text, first[c])) for c in first if c not in scores}
    return [
        c
        for c, known in texts.items()
        if all(c in f and set(map(_json_text, f[c])) == known for f in others)
    ]


def _json_text(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def keys_of(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """By row a short name of its own, else a hash of all that was asked."""
    rows = frame[[*columns]].itertuples(index=False, name=None)
    return [
        str(row[0])
        if len(row) == 1 and len(str(row[0])) <= _SHORT
        else sha256_of("\0".join(map(_json_text, row)))[:16]
        for row in rows
    ]


def _answers_of_table(
    run: Run,
    frame: pd.DataFrame,
    columns: Mapping[str, str],
    keys: Sequence[str],
    grades: Grades,
) -> Answers:
    rows = [*frame[[*keys]].itertuples(index=False, name=None)]
    index = pd.Index(keys_of(frame, keys), name="instance", dtype=object)
    asked = [
        question_shown(row[0] if len(keys) == 1 else dict(zip(keys, row, strict=True)))
        for row in rows
    ]
    values, passing, scored = {}, [], []
    metrics = run.data.metrics.keys()
    for measure, column in columns.items():
        # MLflow calls the column of a scorer a score, or the run has its mean
        if column.endswith(_SCORE) or metrics & {measure, f"{measure}/mean", f"{measure}/v1/mean"}:
            scored.append(measure)
        found = [
            (np.nan, True) if v is None else number_assessed(v, grades.get(measure))
            for v in frame[column]
        ]
        if unclear := [
            v for v, (size, _) in zip(frame[column], found, strict=True) if size is None
        ]:
            raise ValueError(
                f"{measure} holds {some(map(_json_text, unclear), 5)}: declare its grades"
            )
        values[measure] = [size for size, _ in found]
        if all(passes for _, passes in found):
            passing.append(measure)
    about = frame[[c for c in frame if c not in columns.values()]]
    about = about.astype(object).where(about.notna(), "").astype(str).set_axis(index)
    return Answers(
        pd.DataFrame(values, index=index, dtype=float),
        about.assign(link="", asked=asked),
        digest(run),
        counted(run),
        dict.fromkeys(scored, ""),
        passing=tuple(passing),
    )


# --------------------------------------------------------------------------------------------------
# A selection of runs into answers, whichever they hold.

#: Digests of the function that gave the answers and of the scorers, from MLflow 3.18 on.
_AGENT = "mlflow.genaiEvaluate.agent.digest"
_SCORERS = "mlflow.genaiEvaluate.scorersDigest"


@dataclass(frozen=True)
class SelectedAnswers:
    """What a selection of runs answered: by data set the answers of its methods side by side, or
    why it cannot be compared. `runs` has a row a run: run_id, experiment, dataset, method.
    """

    found: dict[str, Units]
    absent: dict[str, str]
    runs: pd.DataFrame
    metrics: frozenset[str]
    notes: tuple[str, ...]
    source: dict[str, Any]
    changed: tuple[Changed, ...] = ()


def load_answers(
    selection: Selection,
    *,
    table: str | None = None,
    instance_by: str | None = None,
    measures: Sequence[str] | None = None,
    grades: Grades | None = None,
    shared: bool = False,
    asked_of: str | None = None,
    most: int | None = None,
    progress: Progress = in_silence,
) -> SelectedAnswers:
    """What the runs of a selection answered, question by question; several runs of a method on a
    data set are repeats, more answers to the same questions. With `asked_of` all questions of that
    method are kept, and `most` bounds the answers of all data sets together.
    """
    client = store.connect()
    where, read = placed(selection)
    every = read_store(client, where) if read is None else read
    holding = every if table is not None else every.where(hold_answers(every))
    by_id = runs_of(client, holding)
    holding = holding.where(holding.frame["run_id"].isin(by_id))
    if not len(holding):
        raise NoRunsError(
            f"none of the {len(every):,} selected runs holds answers: traces of "
            f"mlflow.genai.evaluate, {EVALUATED}, or imported ones. Name a table that they "
            "logged."
        )
    rows, nameless = _named(client, holding, selection)
    notes = _unread_runs(nameless)
    if rows.empty:
        why = " ".join(notes) or "they are of other methods or datasets."
        raise NoRunsError(f"of {len(holding):,} runs with answers none is left: {why}")
    reader = _Reader(
        client, by_id, table, instance_by, measures, grades or {}, progress, len(rows), most
    )
    by_dataset, absent = reader.side_by_side(rows, shared, asked_of)
    notes += reader.notes
    taken = rows.set_index("run_id")["method"]
    notes += _lineage([(method, by_id[run_id].data.tags) for run_id, method in taken.items()])
    ids = holding.frame["run_id"]
    notes += period_doubts(selection.method_by, holding.where(ids.isin(taken.index)))
    # an evaluation of the answers of a run belongs to that
    without = every.where(
        ~(every.frame["run_id"].isin(ids) | every.tag(schema.TAG_ANSWERS_OF).isin(ids))
    )
    if len(without):
        notes.append(f"Runs without answers: {some(without.frame['run_id'], 5)}.")
    return SelectedAnswers(
        by_dataset,
        absent,
        rows,
        frozenset(m for run_id in ids for m in by_id[run_id].data.metrics),
        tuple(notes),
        {
            "tracking_uri": store.store_name(),
            "filter": store.without_passwords(selection.filter_string),
            "method_by": selection.method_by or "run_name",
            "dataset_by": selection.dataset_by or "input",
            "instance_by": instance_by or "all that was asked",
            "table": table,
        },
        tuple(reader.changed),
    )


def _lineage(told: Sequence[tuple[str, Mapping[str, str]]]) -> Iterator[str]:
    """What MLflow's digests of scorers and agents, in the tags of their runs, say of methods."""
    for tag, other in (
        (_SCORERS, "Other scorers: {}. A difference may be theirs."),
        (_AGENT, "Other agent, by the code of its function: {}."),
    ):
        digests = [(tags[tag], method) for method, tags in told if tag in tags]
        for i, (digest, method) in enumerate(digests):
            with suppress(ValueError, AttributeError):  # which may stand in JSON
                digest = str(bounded_json(digest, 10_000).get("digest", ""))
            digests[i] = digest.removeprefix("sha256:")[:8] or "no digest", method
        by_digest = grouped(digests)
        if len(by_digest) > 1:
            each = (f"{digest} of {some(dict.fromkeys(of), 5)}" for digest, of in by_digest.items())
            yield other.format("; ".join(each))


def _named(
    client: MlflowClient, table: RunsTable, selection: Selection
) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """The runs that count, with dataset and method, and the ids of others by what they lack."""
    nameless: dict[str, list[str]] = {}
    by_method, by_dataset = rules_of(selection)
    by_method = with_models(client, [*table.experiments], by_method)
    methods, datasets = by_method.names(table), by_dataset.names(table)
    named = methods != ""
    for rule, without in ((by_method, ~named), (by_dataset, named & (datasets == ""))):
        lacking = table.where(without)
        if len(lacking):
            nameless.setdefault(rule.lacking(lacking), []).extend(lacking.frame["run_id"])
    rows = table.frame[["run_id", "experiment"]].assign(dataset=datasets, method=methods)
    rows = rows[named & (datasets != "")].astype(object)
    for column, asked, excluded in (
        ("method", selection.methods, selection.exclude_methods),
        ("dataset", selection.datasets, selection.exclude_datasets),
    ):
        rows = rows[rows[column].isin(asked or rows[column]) & ~rows[column].isin(excluded)]
    if selection.run_ids and selection.dataset_by is None and len(rows):
        rows = rows.assign(dataset=rows["dataset"].iloc[0])  # they are of what the first is of
    return rows.reset_index(drop=True), nameless


def any_answers(selection: Selection) -> bool:
    """Whether the selection holds runs of other evaluators; the same errors as `load_answers`."""
    return hold_answers(read_store(store.connect(), placed(selection)[0])).any()


@dataclass
class _Reader:
    client: MlflowClient
    runs: Mapping[str, Run]
    table: str | None
    instance_by: str | None
    measures: Sequence[str] | None
    grades: Grades
    progress: Progress
    total: int
    most: int | None
    done: int = 0
    held: int = 0
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)

    def side_by_side(
        self, rows: pd.DataFrame, shared: bool, asked_of: str | None
    ) -> tuple[dict[str, Units], dict[str, str]]:
        """By data set the answers of its methods, or why they do not compare."""
        by_dataset: dict[str, Units] = {}
        absent: dict[str, str] = {}
        for dataset, of_dataset in rows.groupby("dataset", sort=False):
            try:
                answers = aligned(self._by_method(of_dataset), shared=shared, asked_of=asked_of)
                by_dataset[dataset] = _of_measures(answers, self.measures)
                self.notes += self.left_out
            except (StoreError, LostAnswersError):
                raise
            except (MlevalError, ValueError) as error:
                absent[dataset] = joined(" ", [str(error), *self.left_out])
        return by_dataset, absent

    def _by_method(self, rows: pd.DataFrame) -> dict[str, Answers]:
        """The answers of every method with its repeats; `left_out` says what cannot be read."""
        self.left_out = []
        parts = self._parts({run_id: self.runs[run_id] for run_id in rows["run_id"]})
        read: dict[str, list[Answers]] = {}
        unreadable: dict[str, list[str]] = {}
        for row in rows.itertuples():
            part = parts[row.run_id]
            if isinstance(part, str):
                unreadable.setdefault(part, []).append(row.run_id)
                continue
            read.setdefault(row.method, []).append(part)
            self.changed += _changed(self.runs[row.run_id], part)
            self.held += len(part.values)
        self.left_out = _unread_runs(unreadable)
        if not read:
            raise MissingResultsError("none of its runs can be read.")
        return {method: _repeats_joined(several) for method, several in read.items()}

    def _parts(self, runs: Mapping[str, Run]) -> dict[str, Answers | str]:
        """The answers of runs, or why they cannot be read."""
        from mlflow_mleval.store.importing import read_imported

        self._refuse(sum(counted(run) or 0 for run in runs.values()))
        how: dict[str, Any] = {"instance_by": self.instance_by, "grades": self.grades}
        parts: dict[str, Answers | str] = {}
        tabled: dict[str, Run] = {}
        n = 0
        for run_id, run in runs.items():
            read: Callable[[], Answers]
            tags = run.data.tags
            imported = schema.TAG_ANSWERS in tags
            imported &= tags.get(schema.TAG_STATUS) == schema.COMPLETE
            if self.table is None and imported:
                read = partial(read_imported, self.client, run, self.grades)
            elif self.table is None and is_evaluated(run):
                read = partial(read_traces, self.client, run, most=self.most, **how)
            else:
                tabled[run_id] = run
                continue
            parts[run_id] = part = store.of_one_run(read)
            n += len(part.values) if isinstance(part, Answers) else 0
            self._refuse(n)
            self._step(1)
        if tabled:
            options = how | {"table": self.table, "measures": self.measures}
            parts |= read_answer_tables(self.client, tabled, **options)
            self._step(len(tabled))
        return parts

    def _refuse(self, n: int) -> None:
        if self.most is not None and n + self.held > self.most:
            beyond = f"no more than {self.most:,} are read here, of all data sets together"
            raise ValueError(f"its runs hold {n:,} answers, and {beyond}.")

    def _step(self, n: int) -> None:
        self.done += n
        self.progress(self.done, self.total)


def _changed(run: Run, answers: Answers) -> list[Changed]:
    """Where the answers do not give the means that were logged with them, unless some are lost."""
    if (answers.counted or len(answers.values)) > len(answers.values):
        return []
    values, metrics = answers.values, run.data.metrics
    logged = {m: metrics[schema.metric_key(m)] for m in values if schema.metric_key(m) in metrics}
    if logged:  # ours are means over questions, and of each question over its answers
        values = values.groupby(level=0).mean()
    logged = logged or {m: metrics[f"{m}/mean"] for m in values if f"{m}/mean" in metrics}
    return changed_means(f"run {run.info.run_id[:8]}", values, logged)


def _unread_runs(runs: Mapping[str, Sequence[str]]) -> list[str]:
    """By reason, the ids of runs that are left out, as sentences."""
    return [
        f"Left out: run{'s' * (len(ids) > 1)} {some(ids, 5)}: {why}." for why, ids in runs.items()
    ]


def _repeats_joined(parts: Sequence[Answers]) -> Answers:
    """Repeats of a method as answers to the same questions."""
    if len(parts) == 1:
        return parts[0]
    counts = [p.counted for p in parts]
    scorers = {
        m: some(sorted({p.scorers.get(m, "") for p in parts} - {""}))
        for p in parts
        for m in p.scorers
    }
    return Answers(
        pd.concat([p.values for p in parts]),
        pd.concat([p.about for p in parts]),
        digest="+".join(sorted({p.digest for p in parts})),
        counted=None if None in counts else sum(filter(None, counts)),
        scorers=scorers,
        passing=tuple(m for m in parts[0].passing if all(m in p.passing for p in parts)),
        notes=tuple(dict.fromkeys(note for p in parts for note in p.notes)),
    )


def _of_measures(answers: Units, measures: Sequence[str] | None) -> Units:
    """Only these measures."""
    if measures is None:
        return answers
    if lacking := [m for m in measures if m not in answers.measures]:
        raise MissingResultsError(
            f"not all methods have {some(lacking)} by instance; they share "
            f"{some(answers.measures)}."
        )
    return replace(
        answers, measures=[*measures], passing=[m for m in answers.passing if m in measures]
    )


def hold_answers(table: RunsTable) -> pd.Series:
    """Which runs hold traces, imported answers, or the table of `mlflow.models.evaluate`."""
    imported = table.has(f"tags.{schema.TAG_ANSWERS}")
    imported &= table.tag(schema.TAG_STATUS) == schema.COMPLETE
    logged = table.tag("mlflow.loggedArtifacts").str.contains(EVALUATED, regex=False)
    return imported | logged | (table.tag("mlflow.runType") == "genai_evaluate")


# --------------------------------------------------------------------------------------------------
# What methods put out and what was expected of them, answer by answer, as a run recorded it.

EXPECTATIONS = "expectations"


@dataclass(frozen=True)
class RawAnswers:
    """The answers of one run, in the order of their questions' keys, so that runs on the same
    questions agree in it.

    outputs, expected: As they were recorded.
    counted: How many answers were scored; there are fewer where some were lost.
    """

    outputs: list[Any]
    expected: list[Any]
    counted: int | None


def read_raw_answers(
    client: MlflowClient,
    run: Run,
    predicted: str = OUTPUTS,
    expected: str = EXPECTATIONS,
) -> RawAnswers:
    """What a run put out and what was expected, from its traces."""
    rows: list[tuple[Any, Any, Any]] = []
    for trace, question, (_, outputs) in traces_of(client, run, (INPUTS, OUTPUTS), None):
        wanted = {
            said.name: said.expectation.value
            for said in trace.info.assessments or ()
            if said.valid is not False and said.expectation and belongs(said, run)
        }
        recorded = {OUTPUTS: outputs, EXPECTATIONS: wanted}
        parts = _recorded_part(recorded, predicted), _recorded_part(recorded, expected)
        rows.append(((question, trace.info.request_time), *parts))
    if not rows:
        raise ValueError("it holds no traces of mlflow.genai.evaluate")
    n = counted(run)
    if n and len(rows) < n * (1 - MOST_LOST):
        raise MissingResultsError(
            f"run {run.info.run_id} counted {n:,} answers, and the store holds {len(rows):,}. "
            "What is left may differ from what is lost. Evaluate again."
        )
    rows.sort(key=lambda row: row[0])
    _, given, due = zip(*rows, strict=True)
    return RawAnswers([*given], [*due], n)


def _recorded_part(recorded: Mapping[str, Any], path: str) -> Any:
    """The outputs or expectations, or one key of them; a single expectation stands for all."""
    root, _, key = path.partition(".")
    if root not in recorded:
        raise ValueError(
            f"traces have {OUTPUTS} and {EXPECTATIONS}, or keys of them such as "
            f"{OUTPUTS}.labels, not {path!r}"
        )
    value = recorded[root]
    if key:
        return value.get(key) if isinstance(value, Mapping) else None
    if root == EXPECTATIONS and len(value) > 1:
        which = f"{EXPECTATIONS}.{next(iter(value))}"
        raise ValueError(f"its traces have several expectations: say which, as in {which}")
    return next(iter(value.values()), None) if root == EXPECTATIONS else value
