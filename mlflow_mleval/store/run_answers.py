"""Runs into answers, question by question, from whichever they hold: traces, imported answers, or
tables of `mlflow.models.evaluate` and of `mlflow.log_table`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.answer_comparison import MOST_LOST, PASS, Answers, aligned, unclear
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
from mlflow_mleval.store.reader import period_doubts, rules_of
from mlflow_mleval.store.repeats import placed
from mlflow_mleval.store.runs_table import RunsTable, read_store, runs_of
from mlflow_mleval.store.schema import bounded_json, computable, refuse_cells, sha256_of
from mlflow_mleval.store.study_artifacts import changed_means
from mlflow_mleval.study import Units

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Assessment, Run, Trace

# --------------------------------------------------------------------------------------------------
# Runs of `mlflow.genai.evaluate`: a trace is an instance, its assessments are measures.

#: Traces that one request brings.
PAGE = 500
#: What a trace was given, and what it gave.
INPUTS, OUTPUTS = "inputs", "outputs"
#: MLflow cuts the inputs in a trace's metadata here.
CUT = 250
#: By measure that holds words, these from the worst to the best.
Grades: TypeAlias = Mapping[str, Sequence[str]]
_json_text = partial(json.dumps, sort_keys=True, ensure_ascii=False, default=str)


def read_traces(
    client: MlflowClient,
    run: Run,
    *,
    instance_by: str | None = None,
    grades: Grades | None = None,
    most: int | None = None,
) -> Answers:
    """The answers of one run, from its traces, in the order in which they were given."""
    rows, server = [], store.server_address()
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
        plain = {}  # inputs that are no structures, as text of bounded length
        for name, value in inputs.items() if isinstance(inputs, dict) else ():
            if isinstance(value, str | int | float | bool):
                text = str(value)
                # with a digest, so that passages that begin alike stay different
                cut = f"{text[:SHOWN]}…{sha256_of(text)[:8]}"
                plain[name] = text if len(text) <= SHOWN else cut
        when = trace.info.request_time, trace_id
        rows.append((when, key, plain | about, [*_said(trace, run, grades or {})]))
    rows.sort(key=lambda row: row[0])
    index = pd.Index([key for _, key, _, _ in rows], name="instance", dtype=object)
    about = pd.DataFrame([about for _, _, about, _ in rows], index=index)
    said = pd.DataFrame(
        [(i, *each) for i, (_, _, _, of_row) in enumerate(rows) for each in of_row],
        columns=["row", "scorer", "version", "measure", "number", "passes", "word"],
    )
    return replace(_answers_said(said, about), digest=digest(run), counted=counted(run))


def _answers_said(said: pd.DataFrame, about: pd.DataFrame) -> Answers:
    """The answers of a run of which scorers said this; several values of one are their mean."""
    in_words = said.loc[said["word"] != "", ["measure", "word"]]
    words = grouped(in_words.itertuples(index=False))
    notes = [unclear(measure, [*dict.fromkeys(texts)]) for measure, texts in words.items()]
    measures = [m for m in said["measure"].unique() if m not in words]
    if not measures:
        why = " ".join(notes).removesuffix(".")
        raise ValueError(why or "none of its traces has an assessment by a scorer")
    numbers = said.astype({"number": float}).groupby(["row", "measure"])["number"]
    means = numbers.mean().unstack()
    passing = said.groupby("measure")["passes"].all()
    versions = grouped(said[["scorer", "version"]].itertuples(index=False))
    return Answers(
        means.reindex(range(len(about)))[measures].set_axis(about.index),
        about,
        scorers={scorer: some(sorted({*of} - {""})) for scorer, of in versions.items()},
        passing=tuple(m for m in measures if passing[m]),
        notes=tuple(notes),
    )


def _said(
    trace: Trace, run: Run, grades: Grades
) -> Iterator[tuple[str, str, str, float | None, bool, str]]:
    """What the run's assessments of a trace say: scorer, its version, measure, number, whether that
    is pass or fail, and the word that is no number."""
    for assessment in trace.info.assessments or ():
        feedback = assessment.feedback
        if feedback is None or assessment.valid is False or not belongs(assessment, run):
            continue
        by_human = assessment.source.source_type == "HUMAN"
        scorer = f"{assessment.name} (human)" if by_human else assessment.name
        version = (assessment.metadata or {}).get("mlflow.assessment.scorerDigest", "")
        given = None if feedback.error is not None else feedback.value
        for measure, value in flat({scorer: given}).items():
            number, passes = number_assessed(value, grades.get(measure))
            yield scorer, version, measure, number, passes, str(value) if number is None else ""


def traces_of(
    client: MlflowClient,
    run: Run,
    parts: Sequence[str],
    instance_by: str | None,
    most: int | None = None,
) -> Iterator[tuple[Trace, str, list[Any]]]:
    """Each trace with the key of its question and the parts, the first of which are its inputs, as
    far as the data hold them; a page in memory at a time."""
    # A page comes with spans only where the metadata cut a part of a trace in it, or in the last.
    spans, n = False, 0
    names, lost = _inputs_of_data(run), list[str]()

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
            if names and isinstance(inputs, dict) and names <= inputs.keys():
                inputs = {name: inputs[name] for name in sorted(names)}
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


def _inputs_of_data(run: Run) -> set[str]:
    """The names of the inputs that the data hold: defaults belong to the method."""
    for given in run.inputs.dataset_inputs if run.inputs else ():
        with suppress(ValueError, AttributeError, TypeError, KeyError):
            columns = bounded_json(given.dataset.schema or "{}", 1_000_000)["mlflow_colspec"]
            inputs = (column for column in columns if column["name"] == "inputs")
            return {name for column in inputs for name in column["properties"]}
    return set()


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
    source = (assessment.metadata or {}).get("mlflow.assessment.sourceRunId")
    return source in (None, run.info.run_id)


def number_assessed(value: Any, grades: Sequence[str] | None) -> tuple[float | None, bool]:
    """The number that an assessment stands for, and whether it is pass or fail (None: either)."""
    if value is None:
        return np.nan, True
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
#: A table, by measure the column that is compared, and the columns that hold scores.
_Table: TypeAlias = tuple[pd.DataFrame, dict[str, str], set[str]]


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
    table_of = partial(_table_of, client, path, instance_by, measures, grades)
    read = {name: store.of_one_run(partial(table_of, run)) for name, run in runs.items()}
    tables = [found for found in read.values() if not isinstance(found, str)]
    keys = [instance_by] if instance_by else _key_columns(tables)
    if tables and not keys:
        raise ValueError(f"no column of {path} is the same in all runs. Name that of the instance.")
    return {
        name: found
        if isinstance(found, str)
        else store.of_one_run(partial(_answers_of_table, runs[name], found, keys, grades))
        for name, found in read.items()
    }


def _table_of(
    client: MlflowClient,
    path: str,
    instance_by: str | None,
    measures: Sequence[str] | None,
    grades: Grades,
    run: Run,
) -> _Table:
    """The table of a run, which has the column of the instances and some that hold measures."""
    frame = artifacts.artifact(client, run.info.run_id, path, read_frame)
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"its table {path} cannot be read: {frame or 'it is not there'}")
    if instance_by and instance_by not in frame:
        lacking, there = some([repr(instance_by)]), some(frame, 8)
        raise ValueError(f"its table {path} has no column {lacking}; it has {there}")
    scores = _score_columns(frame, grades, instance_by)
    named = scores if measures is None else measures
    columns = {m: column for m in named if (column := scores.get(m, m)) in frame}
    if not columns:
        advice = "Name measures, or declare their grades"
        raise ValueError(f"its table {path} has no column of numbers. {advice}")
    return frame, columns, {*scores.values(), *columns.values()}


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


def _score_columns(frame: pd.DataFrame, grades: Grades, instance_by: str | None) -> dict[str, str]:
    """By measure the column that holds it."""
    if scored := {c.removesuffix(_SCORE): c for c in frame if c.endswith(_SCORE)}:
        return scored
    found = {}
    for name in frame.columns.drop(instance_by or [], errors="ignore"):
        known = frame[name].dropna()
        numbers = [number_assessed(value, grades.get(name))[0] for value in known]
        if name in grades or (numbers and None not in numbers):
            found[name] = name
    return found


def _key_columns(tables: Sequence[_Table]) -> list[str]:
    """The columns that together say what was asked: they hold the same in all tables, and scores in
    none, wanted or not."""
    scores = {name for _, _, held in tables for name in held}
    texts = [
        {c: {*map(_json_text, frame[c])} for c in frame if c not in scores}
        for frame, _, _ in tables
    ]
    first = texts[0] if texts else {}
    return [c for c, known in first.items() if all(of.get(c) == known for of in texts)]


def _answers_of_table(run: Run, table: _Table, keys: Sequence[str], grades: Grades) -> Answers:
    """The answers in a table, by row under a short name of its own, else a hash of all that was
    asked."""
    frame, columns, _ = table
    names = [
        str(row[0])
        if len(row) == 1 and len(str(row[0])) <= _SHORT
        else sha256_of("\0".join(map(_json_text, row)))[:16]
        for row in frame[[*keys]].itertuples(index=False, name=None)
    ]
    index = pd.Index(names, name="instance", dtype=object)
    about = frame.drop(columns=[*columns.values()])
    about = about.astype(object).where(about.notna(), "").astype(str).set_axis(index)
    values, passing = {}, []
    for measure, column in columns.items():
        found = [number_assessed(value, grades.get(measure)) for value in frame[column]]
        numbers = [number for number, _ in found]
        if None in numbers:
            words = frame[column][[number is None for number in numbers]]
            raise ValueError(
                f"{measure} holds {some(map(_json_text, words), 5)}: declare its grades"
            )
        values[measure] = numbers
        passing += [measure] if all(passes for _, passes in found) else []
    asked = [*map(question_shown, frame[[*keys]].to_dict("records"))]
    # MLflow calls the column of a scorer a score, or the run has its mean
    means = {key.removesuffix("/mean").removesuffix("/v1") for key in run.data.metrics}
    return Answers(
        pd.DataFrame(values, index=index, dtype=float),
        about.assign(link="", asked=asked),
        digest(run),
        counted(run),
        {m: "" for m, column in columns.items() if column.endswith(_SCORE) or m in means},
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
    why it cannot be compared. `runs` has a row a run: run_id, experiment, dataset, method."""

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
    asked_of: str | None = None,  # the method of which all questions are kept
    most: int | None = None,  # answers of all data sets together
    progress: Progress = in_silence,
) -> SelectedAnswers:
    """What the runs of a selection answered, question by question; several runs of a method on a
    dataset are repeats, more answers to the same questions."""
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
    rows, notes = _named(client, holding, selection)
    if rows.empty:
        why = " ".join(notes) or "they are of other methods or datasets."
        raise NoRunsError(f"of {len(holding):,} runs with answers none is left: {why}")
    reader = _Reader(
        client, by_id, table, instance_by, measures, grades or {}, progress, len(rows), most
    )
    by_dataset, absent = reader.side_by_side(rows, notes, shared, asked_of)
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
) -> tuple[pd.DataFrame, list[str]]:
    """The runs that count, with dataset and method, and what others lack."""
    method, dataset = rules_of(selection, client, table)
    rows = table.frame[["run_id", "experiment"]].astype(object)
    rows = rows.assign(dataset=dataset.names(table), method=method.names(table))
    notes = []
    for rule in (method, dataset):
        lacking = table.at(rows.index[rows[rule.what] == ""])
        if len(lacking):
            notes += _left_out((rule.lacking(lacking), i) for i in lacking.frame["run_id"])
        rows = rows[rows[rule.what] != ""]
    for what in ("method", "dataset"):
        asked, excluded = (getattr(selection, f"{kind}{what}s") for kind in ("", "exclude_"))
        rows = rows[rows[what].isin(asked or rows[what]) & ~rows[what].isin(excluded)]
    if selection.run_ids and selection.dataset_by is None and len(rows):
        rows = rows.assign(dataset=rows["dataset"].iloc[0])  # they are of what the first is of
    return rows.reset_index(drop=True), notes


def any_answers(selection: Selection) -> bool:
    """Whether the selection holds runs of other evaluators; the same errors as `load_answers`."""
    return hold_answers(read_store(store.connect(), placed(selection)[0])).any()


@dataclass
class _Reader:
    """What reads the answers of runs and sets them side by side, in all no more than `most`."""

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
    changed: list[Changed] = field(default_factory=list)

    def side_by_side(
        self, rows: pd.DataFrame, notes: list[str], shared: bool, asked_of: str | None
    ) -> tuple[dict[str, Units], dict[str, str]]:
        """By data set the answers of its methods, or why they do not compare."""
        by_dataset: dict[str, Units] = {}
        absent: dict[str, str] = {}
        for dataset, of_dataset in rows.groupby("dataset", sort=False):
            left_out: list[str] = []
            try:
                parts = self.parts(of_dataset["run_id"])
                why_not = {i: part for i, part in parts.items() if isinstance(part, str)}
                left_out = _left_out((why, i) for i, why in why_not.items())
                read = of_dataset[~of_dataset["run_id"].isin(why_not)]
                if read.empty:
                    raise MissingResultsError("none of its runs can be read.")
                for run_id in read["run_id"]:
                    self.changed += _changed(self.runs[run_id], parts[run_id])
                by_method = grouped((row.method, parts[row.run_id]) for row in read.itertuples())
                answers = {method: _repeats_joined(of) for method, of in by_method.items()}
                together = aligned(answers, shared=shared, asked_of=asked_of)
                by_dataset[dataset] = _of_measures(together, self.measures)
                notes += left_out
            except (StoreError, LostAnswersError):
                raise
            except (MlevalError, ValueError) as error:
                absent[dataset] = joined(" ", [str(error), *left_out])
        return by_dataset, absent

    def parts(self, ids: Iterable[str]) -> dict[str, Any]:
        """The answers of runs, or why they cannot be read."""
        from mlflow_mleval.store.importing import read_imported

        runs = {run_id: self.runs[run_id] for run_id in ids}
        self._refuse(self.held + sum(counted(run) or 0 for run in runs.values()))
        how: dict[str, Any] = {"instance_by": self.instance_by, "grades": self.grades}
        parts: dict[str, Any] = {}
        for run_id, run in runs.items() if self.table is None else ():
            tags, read = run.data.tags, None
            if schema.TAG_ANSWERS in tags and tags.get(schema.TAG_STATUS) == schema.COMPLETE:
                read = partial(read_imported, self.client, run, self.grades)
            elif tags.get("mlflow.runType") == "genai_evaluate":
                read = partial(read_traces, self.client, run, most=self.most, **how)
            if read:  # else a table holds them
                self._add(parts, {run_id: store.of_one_run(read)})
        if tabled := {run_id: run for run_id, run in runs.items() if run_id not in parts}:
            how |= {"table": self.table, "measures": self.measures}
            self._add(parts, read_answer_tables(self.client, tabled, **how))
        return parts

    def _add(self, parts: dict[str, Any], read: Mapping[str, Answers | str]) -> None:
        parts |= read
        self.held += sum(len(part.values) for part in read.values() if isinstance(part, Answers))
        self._refuse(self.held)
        self.done += len(read)
        self.progress(self.done, self.total)

    def _refuse(self, n: int) -> None:
        if self.most is not None and n > self.most:
            beyond = f"no more than {self.most:,} are read here, of all data sets together"
            raise ValueError(f"its runs hold {n:,} answers, and {beyond}.")


def _changed(run: Run, answers: Answers) -> list[Changed]:
    """Where the answers do not give the means that were logged with them, unless some are lost."""
    if (answers.counted or len(answers.values)) > len(answers.values):
        return []
    values, metrics = answers.values, run.data.metrics
    logged = {m: metrics[key] for m in values if (key := schema.METRIC_PREFIX + m) in metrics}
    if logged:  # ours are means over questions, and of each question over its answers
        values = values.groupby(level=0).mean()
    logged = logged or {m: metrics[f"{m}/mean"] for m in values if f"{m}/mean" in metrics}
    return changed_means(f"run {run.info.run_id[:8]}", values, logged)


def _left_out(runs: Iterable[tuple[str, str]]) -> list[str]:
    """Runs that are left out, each given by the reason and its id, as sentences."""
    return [
        f"Left out: {'run' if len(ids) == 1 else 'runs'} {some(ids, 5)}: {why}."
        for why, ids in grouped(runs).items()
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
    """The answers of one run by their questions' keys: runs on the same ones agree in order."""

    outputs: list[Any]  # as they were recorded
    expected: list[Any]
    counted: int | None  # how many were scored; there are fewer where some were lost


def read_raw_answers(
    client: MlflowClient, run: Run, predicted: str = OUTPUTS, expected: str = EXPECTATIONS
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
