"""Answers that are label sets, evaluated after the fact: from what runs recorded to an Evaluation
of each, logged beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from mlflow import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from mlflow_mleval.analysis.answer_comparison import MOST_LOST
from mlflow_mleval.errors import MissingResultsError
from mlflow_mleval.evaluation import Evaluation, evaluate
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.inputs import read_labels
from mlflow_mleval.selection import Selection
from mlflow_mleval.store import runs, schema, store
from mlflow_mleval.store.answer_tables import OUTPUTS
from mlflow_mleval.store.read_answers import EXPECTATIONS, RawAnswers, read_raw_answers
from mlflow_mleval.store.reader import Rule, logged_models, model_of, select
from mlflow_mleval.training.log_evaluation import payload_of
from mlflow_mleval.words import some


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


def evaluate_answers(
    run_ids: str | Sequence[str],
    predicted: str = OUTPUTS,
    expected: str = EXPECTATIONS,
    *,
    table: str | None = None,
    instance_by: str | None = None,
    hierarchy: Hierarchy | None = None,
    parse: Callable[[Any], Collection[str]] | None = None,
    method: str | None = None,
    dataset: str | None = None,
    experiment_name: str | None = None,
    conventions: str = "sklearn",
    measures: Iterable[str] | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    **hierarchy_options: Any,
) -> list[EvaluatedAnswers]:
    """Evaluate the answers of runs as label sets, and log each evaluation as a child of its run.

    Runs of `mlflow.genai.evaluate` are read from their traces, others from a table. Runs that are
    named together are evaluated on the labels that occur in any of them, so that measures that
    depend on the number of labels compare. The same again changes nothing; where answers, labels or
    options have changed since, the new evaluation takes the place of the old one.

    Parameters
    ----------
    run_ids : str or sequence of str
    predicted, expected : str
        Of traces ``outputs`` and ``expectations``, or one key of them (``outputs.labels``); of a
        table two columns.
    table : str, optional
        Path of a table that the runs logged. Default: the traces, or the table of
        `mlflow.models.evaluate`.
    instance_by : str, optional
        The input, tag or column that says which question it is. Default: all that was asked; of a
        table the order of its rows.
    hierarchy : Hierarchy, optional
        Adds the hierarchical measures; the labels must be classes of it.
    parse : callable, optional
        Makes labels of an output or an expectation. Default: a list of str as it is; text is read
        as a JSON list, else split at commas.
    method, dataset : str, optional
        Default: the run's name, and the name of its data or of its experiment.
    experiment_name : str, optional
        Where to log. Default: the experiment of each run.
    conventions, measures, **hierarchy_options
        As in `evaluate`.
    progress : callable, optional
        Called with the number of runs read and of all.

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
    ids = [run_ids] if isinstance(run_ids, str) else list(run_ids)
    client = store.connect()
    chosen, names = select(client, Selection(run_ids=ids))
    sets, notes = {}, {}
    for done, run in enumerate(chosen, 1):
        with store.store_errors("read"):
            try:
                found = read_raw_answers(
                    client, run, predicted, expected, table=table, instance_by=instance_by
                )
            except ValueError as error:
                raise ValueError(f"run {run.info.run_id} cannot be evaluated: {error}.") from error
        sets[run.info.run_id], notes[run.info.run_id] = _label_sets(
            found, run.info.run_id, parse or read_labels
        )
        progress(done, len(chosen))
    labels = sorted(
        {label for pairs in sets.values() for pair in pairs for one in pair for label in one}
    )
    if hierarchy is not None and (
        strangers := [label for label in labels if label not in hierarchy]
    ):
        raise ValueError(
            f"`hierarchy` must hold all labels, got none called {some(map(repr, strangers))}. "
            "Add them, or `parse`."
        )
    with store.store_errors("read"):
        _, measured = logged_models(client, sorted({run.info.experiment_id for run in chosen}))
    made = []
    for run in chosen:
        true, predicted_sets = (list(side) for side in zip(*sets[run.info.run_id], strict=True))
        ev = evaluate(
            true,
            y_pred=predicted_sets,
            label_names=labels,
            hierarchy=hierarchy,
            conventions=conventions,
            measures=measures,
            **hierarchy_options,
        )
        experiment = names[run.info.experiment_id]
        given = {"method": method, "dataset": dataset}
        called = {
            what: chosen_name or Rule(what).find(run, experiment)[0]
            for what, chosen_name in given.items()
        }
        about = {
            MLFLOW_PARENT_RUN_ID: run.info.run_id,
            schema.TAG_ANSWERS_OF: run.info.run_id,
            schema.TAG_LABELS: ",".join(filter(None, (predicted, expected, table))),
        }
        payload = payload_of(ev, **called, log_instances=True, tags=about)
        payload = replace(payload, model_id=model_of(run) or measured.get(run.info.run_id))
        run_id, status = _log(client, payload, experiment_name or experiment)
        made.append(
            EvaluatedAnswers(
                run.info.run_id, run_id, *called.values(), ev, status, notes[run.info.run_id]
            )
        )
    return made


def _label_sets(
    found: RawAnswers, run_id: str, parse: Callable[[Any], Collection[str]]
) -> tuple[list[tuple[frozenset[str], frozenset[str]]], tuple[str, ...]]:
    """By answer the true labels and those that were found, and what was left out."""
    pairs, unread, first = [], 0, ""
    for given, wanted in zip(found.outputs, found.expected, strict=True):
        try:
            pairs.append((frozenset(map(str, parse(wanted))), frozenset(map(str, parse(given)))))
        except Exception as error:  # whatever a stranger's `parse` meets
            unread, first = unread + 1, first or str(error).rstrip(".")
    n = len(found.outputs)
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
    if found.counted and found.counted > n:
        notes.append(
            f"The run counted {found.counted:,} answers, and the store holds {n:,}: the "
            "evaluation is about these."
        )
    return pairs, tuple(notes)


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
