"""Runs into answers: whichever of traces, tables of instances and logged tables they hold, one run
at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run, Trace

from mlflow_mleval.analysis.answer_comparison import MOST_LOST, Answers, aligned, graded
from mlflow_mleval.analysis.gate_tests import Changed
from mlflow_mleval.errors import MissingResultsError, MlevalError, NoRunsError, StoreError
from mlflow_mleval.selection import Selection
from mlflow_mleval.sentences import joined, some
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.answer_tables import (
    EVALUATED,
    INPUTS,
    OUTPUTS,
    asked_of,
    belongs,
    counted,
    is_evaluated,
    key_of,
    keys_of,
    read_answer_tables,
    read_frame,
    read_traces,
    traces_of,
)
from mlflow_mleval.store.rules import rules_of, with_models
from mlflow_mleval.store.runs_table import RunsTable, select, table_of_runs
from mlflow_mleval.store.searches import artifact
from mlflow_mleval.store.study_artifacts import changed_means
from mlflow_mleval.study import Units
from mlflow_mleval.validation import present

#: The digest of the function that gave the answers, from MLflow 3.18 on.
_AGENT = "mlflow.genaiEvaluate.agent.digest"


@dataclass(frozen=True)
class Asked:
    """What a selection of runs answered.

    Attributes
    ----------
    found : By data set, the answers of its methods side by side.
    absent : By data set, why it cannot be compared.
    runs : DataFrame, one row a run: run_id, experiment, dataset, method.
    metrics : Names of the metrics of these runs.
    notes : Runs without answers.
    source : Where it was read: tracking_uri, filter, method_by, dataset_by, and what identified an instance.
    changed : Where the answers of a run do not give the means that were logged with them.
    """  # noqa: E501

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
    grades: Mapping[str, Sequence[str]] | None = None,
    shared: bool = False,
    asked_of: str | None = None,
    most: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Asked:
    """What the runs of a selection answered, question by question.

    Runs of `mlflow.genai.evaluate` are read from their traces, runs of `mlflow.models.evaluate`
    from ``eval_results_table.json``, and with `table` any run from that table. Several runs of a
    method on a data set are repeats: more answers to the same questions.

    Parameters
    ----------
    selection : Selection
        Of which experiments, run ids, filter, methods and datasets count. By default the method is
        the run's name, and the dataset the name of the data or of the experiment; runs named by id
        are about the same data, unless `dataset_by` says otherwise.
    table : str, optional
        Path of a table that every run logged, in JSON.
    instance_by : str, optional
        The input, tag or column that says which question it is. Default: all that was asked.
    measures : sequence of str, optional
        Default: all that the methods have in common.
    grades : mapping of str to sequence of str
        By measure, its categories from worst to best.
    shared : bool
        Whether to compare what is left where answers are lost.
    asked_of : str, optional
        Keep all questions of this method; of the others values are missing.
    most : int, optional
        Answers to be read, of all data sets together; the data sets beyond are absent.
    progress : callable, optional
        Called with the number of runs read and of all.

    Raises
    ------
    NoRunsError
        The selection holds no run with answers.
    StoreError
        The store cannot be reached or does not accept the filter.
    """
    client = store.connect()
    chosen, experiments = select(client, selection)
    holding = [run for run in chosen if table is not None or holds_answers(run)]
    if not holding:
        raise NoRunsError(
            f"none of the {len(chosen):,} selected runs holds answers: traces of "
            f"mlflow.genai.evaluate, {EVALUATED}, or imported ones. Name a table that they "
            "logged."
        )
    groups, rows, nameless = _grouped(client, holding, experiments, selection)
    notes = _left_out(nameless)
    if not rows:
        why = " ".join(notes) or "they are of other methods or datasets."
        raise NoRunsError(f"of {len(holding):,} runs with answers none is left: {why}")
    read = _Reader(client, table, instance_by, measures, grades or {}, progress, len(rows), most)
    by_dataset, absent = read.side_by_side(groups, shared, asked_of)
    notes += read.notes
    agents = {run.data.tags.get(_AGENT) for run in holding}
    if len(holding) > 1 and len(agents) == 1 and agents != {None}:
        notes.append(
            "The same function gave all answers, by MLflow's digest of its code: what differs is "
            "what it reads or calls, or chance."
        )
    if without := _without_answers(chosen, holding):
        notes.append(f"Runs without answers: {some(without, 5)}.")
    return Asked(
        by_dataset,
        absent,
        pd.DataFrame(rows),
        frozenset(m for run in holding for m in run.data.metrics),
        tuple(notes),
        {
            "tracking_uri": store.store_name(),
            "filter": store.without_passwords(selection.filter_string),
            "method_by": selection.method_by or "run_name",
            "dataset_by": selection.dataset_by or "input",
            "instance_by": instance_by or "all that was asked",
            "table": table,
        },
        tuple(read.changed),
    )


def _grouped(
    client: MlflowClient,
    runs: Sequence[Run],
    experiments: Mapping[str, str],
    selection: Selection,
) -> tuple[dict[str, dict[str, list[Run]]], list[dict[str, str]], dict[str, list[str]]]:
    """The runs that count by dataset and method, a row about each, and by what they lack, the ids
    of those that cannot be named.
    """
    groups: dict[str, dict[str, list[Run]]] = {}
    rows: list[dict[str, str]] = []
    nameless: dict[str, list[str]] = {}
    table = table_of_runs(runs, experiments)
    by_method, by_dataset = rules_of(selection)
    by_method = with_models(client, list(experiments), by_method)
    methods, datasets = by_method.names(table), by_dataset.names(table)
    for rule, without in (
        (by_method, methods == ""),
        (by_dataset, (datasets == "") & (methods != "")),
    ):
        lacking = table.where(without)
        for run_id, why in zip(lacking.frame["run_id"], rule.lacking(lacking), strict=True):
            nameless.setdefault(why, []).append(run_id)
    by_id = {run.info.run_id: run for run in runs}
    about = table.frame[["run_id", "experiment"]].assign(dataset=datasets, method=methods)
    for row in about[(methods != "") & (datasets != "")].to_dict("records"):
        if selection.run_ids and selection.dataset_by is None and groups:
            (row["dataset"],) = groups
        method, dataset = row["method"], row["dataset"]
        if _counts(method, selection.methods, selection.exclude_methods) and _counts(
            dataset, selection.datasets, selection.exclude_datasets
        ):
            run = by_id[row["run_id"]]
            groups.setdefault(dataset, {}).setdefault(method, []).append(run)
            rows.append(row)
    return groups, rows, nameless


def _counts(name: str, asked: Sequence[str] | None, excluded: Sequence[str]) -> bool:
    return name not in excluded and (not asked or name in asked)


def _without_answers(runs: Sequence[Run], holding: Sequence[Run]) -> list[str]:
    """Ids of runs that neither hold answers nor are evaluations of such runs."""
    ids = {run.info.run_id for run in holding}
    return [
        run.info.run_id
        for run in runs
        if ids.isdisjoint((run.info.run_id, run.data.tags.get(schema.TAG_ANSWERS_OF)))
    ]


def any_answers(selection: Selection) -> bool:
    """Whether the selection holds runs of other evaluators; the same errors as `load_answers`."""
    chosen, _ = select(store.connect(), selection)
    return any(map(holds_answers, chosen))


@dataclass
class _Reader:
    client: MlflowClient
    table: str | None
    instance_by: str | None
    measures: Sequence[str] | None
    grades: Mapping[str, Sequence[str]]
    progress: Callable[[int, int], object] | None
    total: int
    most: int | None
    done: int = 0
    held: int = 0
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)

    def side_by_side(
        self,
        groups: Mapping[str, Mapping[str, Sequence[Run]]],
        shared: bool,
        asked_of: str | None = None,
    ) -> tuple[dict[str, Units], dict[str, str]]:
        """By data set the answers of its methods, or why they cannot be compared; `notes` says
        which runs of those that can are left out.
        """
        by_dataset: dict[str, Units] = {}
        absent: dict[str, str] = {}
        for dataset, by_method in groups.items():
            try:
                answers = aligned(self.all(by_method), shared=shared, asked_of=asked_of)
                by_dataset[dataset] = _chosen(answers, self.measures)
            except StoreError:
                raise
            except (MlevalError, ValueError) as error:
                absent[dataset] = joined(" ", [str(error), *self.left_out])
            else:
                self.notes += self.left_out
        return by_dataset, absent

    def all(self, by_method: Mapping[str, Sequence[Run]]) -> dict[str, Answers]:
        """The answers of every method, those of its repeats one after the other; `left_out` says
        which runs cannot be read.
        """
        self.left_out = []
        self._refuse(sum(counted(run) or 0 for same in by_method.values() for run in same))
        runs = {
            f"{method}\0{k}": run
            for method, same in by_method.items()
            for k, run in enumerate(same)
        }
        parts = self._each(runs)
        if tabled := {key: run for key, run in runs.items() if key not in parts}:
            parts |= read_answer_tables(
                self.client,
                tabled,
                table=self.table,
                instance_by=self.instance_by,
                measures=self.measures,
                grades=self.grades,
            )
            self._step(len(tabled))
        read: dict[str, list[Answers]] = {}
        unreadable: dict[str, list[str]] = {}
        for key, part in parts.items():
            if isinstance(part, str):
                unreadable.setdefault(part, []).append(runs[key].info.run_id)
            else:
                read.setdefault(key.partition("\0")[0], []).append(part)
                self.changed += _changed(runs[key], part)
                self.held += len(part.values)
        self.left_out = _left_out(unreadable)
        if not read:
            raise MissingResultsError("none of its runs can be read.")
        return {method: _joined(same) for method, same in read.items()}

    def _each(self, runs: Mapping[str, Run]) -> dict[str, Answers | str]:
        """The answers of runs that are read one by one, or why they cannot be read."""
        parts: dict[str, Answers | str] = {}
        n = 0
        for key, run in runs.items():
            if self.table is None and (is_evaluated(run) or _holds_imported(run)):
                parts[key] = part = store.of_one_run(partial(self._one, run))
                n += len(part.values) if isinstance(part, Answers) else 0
                self._refuse(n)
                self._step(1)
        return parts

    def _one(self, run: Run) -> Answers:
        if _holds_imported(run):
            from mlflow_mleval.store.importing import read_imported

            return graded(read_imported(self.client, run), self.grades)
        return read_traces(
            self.client, run, instance_by=self.instance_by, grades=self.grades, most=self.most
        )

    def _refuse(self, n: int) -> None:
        if self.most is not None and n + self.held > self.most:
            beyond = f"no more than {self.most:,} are read here, of all data sets together"
            raise ValueError(f"its runs hold {n:,} answers, and {beyond}.")

    def _step(self, n: int) -> None:
        self.done += n
        if self.progress is not None:
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


def _left_out(runs: Mapping[str, Sequence[str]]) -> list[str]:
    """By reason, the ids of runs that are left out, as sentences."""
    return [
        f"Left out: run{'s' * (len(ids) > 1)} {some(ids, 5)}: {why}." for why, ids in runs.items()
    ]


def _joined(parts: Sequence[Answers]) -> Answers:
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


def _chosen(answers: Units, measures: Sequence[str] | None) -> Units:
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


def holds_answers(run: Run) -> bool:
    """Whether the run holds traces, imported answers, or the table of `mlflow.models.evaluate`."""
    return (
        is_evaluated(run)
        or _holds_imported(run)
        or EVALUATED in run.data.tags.get("mlflow.loggedArtifacts", "")
    )


def hold_answers(table: RunsTable) -> pd.Series:
    """Which runs of a table hold answers, as `holds_answers` says."""
    imported = table.has(f"tags.{schema.TAG_ANSWERS}")
    imported &= table.tag(schema.TAG_STATUS) == schema.COMPLETE
    logged = table.tag("mlflow.loggedArtifacts").str.contains(EVALUATED, regex=False)
    return imported | logged | (table.tag("mlflow.runType") == "genai_evaluate")


def _holds_imported(run: Run) -> bool:
    """Whether the run holds answers that were imported, complete."""
    tags = run.data.tags
    return schema.TAG_ANSWERS in tags and tags.get(schema.TAG_STATUS) == schema.COMPLETE


# --------------------------------------------------------------------------------------------------
# What methods put out and what was expected of them, answer by answer, as a run recorded it.

EXPECTATIONS = "expectations"


@dataclass(frozen=True)
class RawAnswers:
    """The answers of one run, in the order of their questions' keys, so that runs on the same
    questions agree in it.

    Attributes
    ----------
    outputs, expected : list
        As they were recorded.
    counted : int, optional
        How many answers were scored; there are fewer where some were lost.
    """

    outputs: list[Any]
    expected: list[Any]
    counted: int | None


def read_raw_answers(
    client: MlflowClient,
    run: Run,
    predicted: str = OUTPUTS,
    expected: str = EXPECTATIONS,
    *,
    table: str | None = None,
    instance_by: str | None = None,
) -> RawAnswers:
    """What a run put out and what was expected, from its traces or a table.

    Parameters
    ----------
    client : MlflowClient
    run : Run
    predicted, expected : str
        Of traces ``outputs`` and ``expectations``, or one key of them: ``outputs.labels``,
        ``expectations.labels``; of a table the names of two columns.
    table : str, optional
        Path of a table among the artifacts. Default: the traces, or the table of
        `mlflow.models.evaluate`.
    instance_by : str, optional
        The input, tag or column that says which question it is. Default: all that was asked; of a
        table the order of its rows.

    Raises
    ------
    ValueError
        The run holds no answers, or not what was named.
    MissingResultsError
        More than a twentieth of the answers is lost.
    """
    if table is None and is_evaluated(run):
        rows = _from_traces(client, run, predicted, expected, instance_by)
    else:
        rows = _from_table(client, run, predicted, expected, table or EVALUATED, instance_by)
    if not rows:
        raise ValueError("it holds no answers")
    n = counted(run)
    if n and len(rows) < n * (1 - MOST_LOST):
        raise MissingResultsError(
            f"run {run.info.run_id} counted {n:,} answers, and the store holds {len(rows):,}. "
            "What is left may differ from what is lost. Evaluate again."
        )
    rows.sort(key=lambda row: row[0])
    _, outputs, wanted = zip(*rows, strict=True)
    return RawAnswers([*outputs], [*wanted], n)


def _from_traces(
    client: MlflowClient, run: Run, predicted: str, expected: str, instance_by: str | None
) -> list[tuple[Any, Any, Any]]:
    asked, rows = asked_of(run), []
    for trace, (inputs, outputs) in traces_of(client, run, (INPUTS, OUTPUTS)):
        recorded = {OUTPUTS: outputs, EXPECTATIONS: _expectations(trace, run)}
        key = key_of(trace, asked(inputs), instance_by)
        if key is None:
            raise ValueError(
                f"its trace {trace.info.trace_id} has no input and no tag {instance_by!r}"
            )
        rows.append(
            ((key, trace.info.request_time), _part(recorded, predicted), _part(recorded, expected))
        )
    return rows


def _expectations(trace: Trace, run: Run) -> dict[str, Any]:
    valid = (
        a
        for a in trace.info.assessments or ()
        if a.expectation is not None and a.valid is not False
    )
    return {a.name: present(a.expectation).value for a in valid if belongs(a, run)}


def _part(recorded: Mapping[str, Any], path: str) -> Any:
    """The outputs or the expectations, or one key of them; the only expectation there is stands for
    all.
    """
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
        raise ValueError(
            "its traces have several expectations: say which, as in "
            f"{EXPECTATIONS}.{next(iter(value))}"
        )
    return next(iter(value.values()), None) if root == EXPECTATIONS else value


def _from_table(
    client: MlflowClient,
    run: Run,
    predicted: str,
    expected: str,
    path: str,
    instance_by: str | None,
) -> list[tuple[Any, Any, Any]]:
    table = artifact(client, run.info.run_id, path, read_frame)
    if not isinstance(table, pd.DataFrame):
        raise ValueError(f"its table {path} cannot be read: {table or 'it is not there'}")
    columns = [predicted, expected, *([instance_by] if instance_by else [])]
    if lacking := [c for c in columns if c not in table]:
        raise ValueError(
            f"its table {path} has no column {some(map(repr, lacking))}; it has {some(table, 8)}"
        )
    keys: Sequence[Any] = (
        range(len(table)) if instance_by is None else keys_of(table, [instance_by])
    )
    return [*zip(keys, table[predicted], table[expected], strict=True)]
