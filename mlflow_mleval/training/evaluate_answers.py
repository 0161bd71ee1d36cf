"""Answers that are label sets, evaluated after the fact: from what runs recorded to an Evaluation
of each, logged beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from mlflow import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from mlflow_mleval.analysis.answer_comparison import MOST_LOST
from mlflow_mleval.errors import MissingResultsError
from mlflow_mleval.evaluation import Evaluation, evaluate
from mlflow_mleval.measures.formulas import Conventions
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.inputs import read_labels
from mlflow_mleval.selection import Selection
from mlflow_mleval.sentences import some
from mlflow_mleval.store import runs, schema, store
from mlflow_mleval.store.identity import Rule, logged_models
from mlflow_mleval.store.run_answers import EXPECTATIONS, OUTPUTS, RawAnswers, read_raw_answers
from mlflow_mleval.store.runs_table import select, table_of_runs
from mlflow_mleval.training.log_evaluation import LogOptions, payload_of
from mlflow_mleval.validation import refuse_keywords

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class EvaluatedAnswers:
    """What one run's answers are worth as label sets.

    Attributes
    ----------
    source, run_id : Ids of the run that holds the answers, and of the one that holds the evaluation.
    method, dataset : What was evaluated on what.
    evaluation : Evaluation
    status : {"created", "unchanged", "updated"}
    notes : What was left out.
    """  # noqa: E501

    source: str
    run_id: str
    method: str
    dataset: str
    evaluation: Evaluation
    status: Literal["created", "unchanged", "updated"]
    notes: tuple[str, ...]


class AnswerOptions(TypedDict, total=False):
    """Further options of `evaluate_answers`: where the answers are, and those of `evaluate`."""

    table: str | None
    instance_by: str | None
    hierarchy: Hierarchy | None
    conventions: Conventions
    measures: Iterable[str] | None
    max_distance: float
    lca: str
    lca_max_distance: float | None
    count_root: bool
    far_pairs: str
    max_ancestors: float | None
    class_costs: Mapping[Hashable, float] | str | None


def evaluate_answers(
    run_ids: str | Sequence[str],
    predicted: str = OUTPUTS,
    expected: str = EXPECTATIONS,
    *,
    parse: Callable[[Any], Collection[str]] | None = None,
    method: str | None = None,
    dataset: str | None = None,
    experiment_name: str | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    **options: Unpack[AnswerOptions],
) -> list[EvaluatedAnswers]:
    """Evaluate the answers of runs as label sets, and log each evaluation as a child of its run.

    Runs of `mlflow.genai.evaluate` are read from their traces, others from a table. Runs that are
    named together are evaluated on the labels that occur in any of them, so that measures that
    depend on the number of labels compare. The same again changes nothing; where answers, labels or
    options have changed since, the new evaluation takes the place of the old one.

    Parameters
    ----------
    run_ids : str or sequence of str
        Ids of runs, or models (``models:/NAME@ALIAS``, ``models:/NAME/VERSION``) that they made.
    predicted, expected : str
        Of traces ``outputs`` and ``expectations``, or one key of them (``outputs.labels``); of a
        table two columns.
    parse : callable, optional
        Makes labels of an output or an expectation. Default: a list of str as it is; text is read
        as a JSON list, else split at commas.
    method, dataset : str, optional
        Default: the run's name, and the name of its data or of its experiment.
    experiment_name : str, optional
        Where to log. Default: the experiment of each run.
    progress : callable, optional
        Called with the number of runs read and of all.
    table : str, optional
        Path of a table that the runs logged. Default: the traces, or the table of
        `mlflow.models.evaluate`.
    instance_by : str, optional
        The input, tag or column that says which question it is. Default: all that was asked; of a
        table the order of its rows.
    hierarchy : Hierarchy, optional
        Adds the hierarchical measures; the labels must be classes of it.
    conventions, measures, **options
        As in `evaluate`.

    Returns
    -------
    list of EvaluatedAnswers
        In the order in which the runs started.

    Raises
    ------
    NoRunsError
        There is no such run.
    ValueError
        A run does not hold what was named, or labels that the hierarchy does not know.
    MissingResultsError
        More than a twentieth of the answers of a run are lost, or no labels can be read from them.
    StoreError
        The store cannot be reached.
    """
    refuse_keywords(evaluate_answers, options, AnswerOptions.__annotations__)
    rest: dict[str, Any] = {**options}
    where = {name: rest.pop(name, None) for name in ("table", "instance_by")}
    ids = [run_ids] if isinstance(run_ids, str) else list(run_ids)
    client = store.connect()
    chosen, names = select(client, Selection(run_ids=ids))
    answers: dict[str, _Answers] = {}
    for done, run in enumerate(chosen, 1):
        with store.store_errors("read"):
            try:
                raw = read_raw_answers(client, run, predicted, expected, **where)
            except ValueError as error:
                raise ValueError(f"run {run.info.run_id} cannot be evaluated: {error}.") from error
        answers[run.info.run_id] = _label_sets(raw, run.info.run_id, parse or read_labels)
        progress(done, len(chosen))
    rest["label_names"] = _labels(answers.values(), rest.get("hierarchy"))
    with store.store_errors("read"):
        _, measured = logged_models(client, sorted({run.info.experiment_id for run in chosen}))
    evaluated = []
    table = table_of_runs(chosen, names)
    about_runs = table.frame[["run_id", "experiment", "model"]].assign(
        method=Rule("method").names(table), dataset=Rule("dataset").names(table)
    )
    for source, experiment, model, own_method, own_dataset in about_runs.itertuples(index=False):
        of_run = answers[source]
        ev = evaluate(of_run.true, y_pred=of_run.predicted, **rest)
        on_method = method or own_method
        on_dataset = dataset or own_dataset
        about = {
            MLFLOW_PARENT_RUN_ID: source,
            schema.TAG_ANSWERS_OF: source,
            schema.TAG_LABELS: ",".join(filter(None, (predicted, expected, where["table"]))),
        }
        payload = payload_of(ev, on_method, on_dataset, LogOptions(log_instances=True, tags=about))
        payload = replace(payload, model_id=model or measured.get(source))
        run_id, status = _log(client, payload, experiment_name or experiment)
        evaluated.append(
            EvaluatedAnswers(source, run_id, on_method, on_dataset, ev, status, of_run.notes)
        )
    return evaluated


@dataclass(frozen=True)
class _Answers:
    """The true and the predicted labels of each answer of a run, and what was left out."""

    true: list[frozenset[str]]
    predicted: list[frozenset[str]]
    notes: tuple[str, ...]


def _labels(answers: Iterable[_Answers], hierarchy: Hierarchy | None) -> list[str]:
    """All labels that occur, which the hierarchy must know."""
    sets = [labels for of_run in answers for labels in (*of_run.true, *of_run.predicted)]
    labels = sorted({label for one in sets for label in one})
    strangers = [] if hierarchy is None else [name for name in labels if name not in hierarchy]
    if strangers:
        raise ValueError(
            f"`hierarchy` must hold all labels, got none called {some(map(repr, strangers))}. "
            "Add them, or `parse`."
        )
    return labels


def _label_sets(raw: RawAnswers, run_id: str, parse: Callable[[Any], Collection[str]]) -> _Answers:
    """The labels of each answer, unless too many cannot be read."""
    true, predicted, unread, first = [], [], 0, ""
    for output, expected in zip(raw.outputs, raw.expected, strict=True):
        try:
            pair = frozenset(map(str, parse(expected))), frozenset(map(str, parse(output)))
        except Exception as error:  # whatever a stranger's `parse` meets
            unread, first = unread + 1, first or str(error).rstrip(".")
        else:
            true.append(pair[0])
            predicted.append(pair[1])
    n = len(raw.outputs)
    if unread > MOST_LOST * n:
        raise MissingResultsError(
            f"run {run_id} has {unread:,} of {n:,} answers without labels that can be read; of "
            f"the first: {first}. Say where they are (outputs.KEY, expectations.KEY), or how "
            "they are read (`parse`)."
        )
    notes = [
        f"{unread:,} of {n:,} answers are left out, for no labels can be read; of the first: "
        f"{first}."
    ] * bool(unread)
    if raw.counted and raw.counted > n:
        notes.append(
            f"The run counted {raw.counted:,} answers, and the store holds {n:,}: the "
            "evaluation is about these."
        )
    return _Answers(true, predicted, tuple(notes))


def _log(
    client: MlflowClient, payload: runs.Payload, experiment_name: str
) -> tuple[str, Literal["created", "unchanged", "updated"]]:
    """Log the evaluation in place of one that the same call made before."""
    experiment_id = store.ensure_experiment(client, experiment_name)
    source = payload.tags[schema.TAG_ANSWERS_OF]
    children = store.search(client, [experiment_id], f"tags.`{schema.TAG_ANSWERS_OF}` = '{source}'")
    before = [
        old
        for old in children
        if old.data.tags.get(schema.TAG_LABELS) == payload.tags[schema.TAG_LABELS]
    ]
    same = [old for old in before if old.data.tags.get(schema.TAG_DIGEST) == payload.digest]
    if same:
        whole = same[0].data.tags.get(schema.TAG_STATUS) == schema.COMPLETE
        run_id = runs.write(payload, run_id=same[0].info.run_id)
    else:
        run_id = runs.write(payload, experiment_name=experiment_name)
    for old in before:
        if old.info.run_id != run_id:
            with store.store_errors("write to"):
                client.delete_run(old.info.run_id)
    return run_id, "created" if not before else "unchanged" if same and whole else "updated"
