"""Measures of answers that are label sets: as scorers, or evaluated after the fact."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from mlflow.entities import Feedback
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from mlflow_mleval.analysis.answer_comparison import MOST_LOST
from mlflow_mleval.errors import MissingResultsError
from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.inputs import read_labels
from mlflow_mleval.measures.label_ranking import SCORED, parsed
from mlflow_mleval.measures.registry import Conventions, meant
from mlflow_mleval.selection import Selection
from mlflow_mleval.sentences import quoted, some
from mlflow_mleval.store import runs, schema, store
from mlflow_mleval.store.reader import Rule, logged_models
from mlflow_mleval.store.run_answers import EXPECTATIONS, OUTPUTS, RawAnswers, read_raw_answers
from mlflow_mleval.store.runs_table import read_store, runs_of
from mlflow_mleval.training.log_evaluation import LogOptions, payload_of
from mlflow_mleval.validation import present, refuse_keywords

if TYPE_CHECKING:
    from mlflow.genai.scorers import Scorer
    from typing_extensions import Unpack


@dataclass(frozen=True)
class EvaluatedAnswers:
    """What one run's answers are worth as label sets.

    Attributes
    ----------
    source, run_id : Ids of the run that holds the answers, and of the one that holds the evaluation.
    method, dataset : What was evaluated on what.
    evaluation : Evaluation
    notes : What was left out.
    """  # noqa: E501

    source: str
    run_id: str
    method: str
    dataset: str
    evaluation: Evaluation
    notes: tuple[str, ...]


class AnswerOptions(TypedDict, total=False):
    """Further options of `evaluate_answers`, which are those of `evaluate`."""

    hierarchy: Hierarchy | None
    conventions: Conventions
    measures: Iterable[str] | None
    max_distance: float
    lca: str
    lca_max_distance: float | None
    count_root: bool
    far_pairs: str
    max_ancestors: float | None
    class_costs: Mapping[Hashable, float] | None


def evaluate_answers(
    run_ids: str | Sequence[str],
    predicted: str = OUTPUTS,
    expected: str = EXPECTATIONS,
    *,
    method: str | None = None,
    dataset: str | None = None,
    experiment_name: str | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    **options: Unpack[AnswerOptions],
) -> list[EvaluatedAnswers]:
    """Evaluate the answers of runs as label sets, and log each evaluation as a child of its run.

    Runs of `mlflow.genai.evaluate` are read from their traces. Runs that are named together are
    evaluated on the labels that occur in any of them, so that measures that depend on the number of
    labels compare. A new evaluation of the same labels takes the place of the old one. A list of
    str is labels as it is; text is read as a JSON list, else split at commas.

    Parameters
    ----------
    run_ids : str or sequence of str
        Ids of runs, or models (``models:/NAME@ALIAS``, ``models:/NAME/VERSION``) that they made.
    predicted, expected : str
        ``outputs`` and ``expectations`` of the traces, or one key of them (``outputs.labels``).
    method, dataset : str, optional
        Default: the run's name, and the name of its data or of its experiment.
    experiment_name : str, optional
        Where to log. Default: the experiment of each run.
    progress : callable, optional
        Called with the number of runs read and of all.
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
    client = store.connect()
    ids = [run_ids] if isinstance(run_ids, str) else list(run_ids)
    table = read_store(client, Selection(run_ids=ids))
    by_id = runs_of(client, table)
    chosen = [by_id[i] for i in table.frame["run_id"] if i in by_id]
    answers: dict[str, _LabelSets] = {}
    for done, run in enumerate(chosen, 1):
        try:
            raw = read_raw_answers(client, run, predicted, expected)
        except ValueError as error:
            raise ValueError(f"run {run.info.run_id} cannot be evaluated: {error}.") from error
        answers[run.info.run_id] = _label_sets(raw, run.info.run_id)
        progress(done, len(chosen))
    labels = _labels(answers.values(), options.get("hierarchy"))
    _, measured = logged_models(client, sorted({run.info.experiment_id for run in chosen}))
    evaluated = []
    about_runs = table.frame[["run_id", "experiment", "model"]].assign(
        method=Rule("method").names(table), dataset=Rule("dataset").names(table)
    )
    for source, experiment, model, own_method, own_dataset in about_runs.itertuples(index=False):
        true, guess, notes = answers[source]
        ev = evaluate(true, y_pred=guess, label_names=labels, **options)
        pair = method or own_method, dataset or own_dataset
        about = {
            MLFLOW_PARENT_RUN_ID: source,
            schema.TAG_ANSWERS_OF: source,
            schema.TAG_LABELS: f"{predicted},{expected}",
        }
        logged = LogOptions(log_instances=True, tags=about)
        payload = payload_of(ev, *pair, logged, model_id=model or measured.get(source))
        where = experiment_name or experiment
        experiment_id = store.ensure_experiment(client, where)
        of_source = f"tags.`{schema.TAG_ANSWERS_OF}` = '{source}'"
        before = store.search(client, [experiment_id], of_source)
        run_id = runs.write(payload, experiment_name=where)
        for old in before:  # those that the same call made
            if old.data.tags.get(schema.TAG_LABELS) == about[schema.TAG_LABELS]:
                client.delete_run(old.info.run_id)
        evaluated.append(EvaluatedAnswers(source, run_id, *pair, ev, notes))
    return evaluated


#: The true and the predicted labels of each answer of a run, and what was left out.
_LabelSets = tuple[list[frozenset[str]], list[frozenset[str]], tuple[str, ...]]


def _labels(answers: Iterable[_LabelSets], hierarchy: Hierarchy | None) -> list[str]:
    """All labels that occur, which the hierarchy must know."""
    sets = [labels for true, guess, _ in answers for labels in (*true, *guess)]
    labels = sorted(frozenset().union(*sets))
    if strangers := [name for name in labels if hierarchy is not None and name not in hierarchy]:
        raise ValueError(f"`hierarchy` must hold all labels, got no {some(map(repr, strangers))}.")
    return labels


def _label_sets(raw: RawAnswers, run_id: str) -> _LabelSets:
    """The labels of each answer, unless too many cannot be read."""
    true, predicted, unread, first = [], [], 0, ""
    for output, expected in zip(raw.outputs, raw.expected, strict=True):
        try:
            pair = frozenset(read_labels(expected)), frozenset(read_labels(output))
        except ValueError as error:
            unread, first = unread + 1, first or str(error).rstrip(".")
        else:
            true.append(pair[0])
            predicted.append(pair[1])
    n = len(raw.outputs)
    if unread > MOST_LOST * n:
        raise MissingResultsError(
            f"run {run_id} has {unread:,} of {n:,} answers without labels that can be read; of "
            f"the first: {first}. Say where they are: outputs.KEY, expectations.KEY."
        )
    notes = []
    if unread:
        why = "answers are left out, for no labels can be read; of the first"
        notes.append(f"{unread:,} of {n:,} {why}: {first}.")
    if raw.counted and raw.counted > n:
        text = f"The run counted {raw.counted:,} answers, and the store holds {n:,}"
        notes.append(f"{text}: the evaluation is about these.")
    return true, predicted, tuple(notes)


# ---- scorers -------------------------------------------------------------------------------------

FLAT = ("accuracy", "precision", "recall", "f1", "subset_accuracy")
HIERARCHICAL = ("h_precision", "h_recall", "h_f1", "lca_f1", "exact_match")


def scorers(
    measures: Iterable[str] | None = None,
    *,
    expected: str = "labels",
    predicted: str | None = None,
    labels: Iterable[str] | None = None,
    hierarchy: Hierarchy | None = None,
) -> list[Scorer]:
    """Scorers for answers that are sets of labels, or rankings of them: a list or set of str as it
    is; text is read as a JSON list, else split at commas.

    Parameters
    ----------
    measures : iterable of str, optional
        Measures of an instance. Default: accuracy (the Jaccard index), precision, recall, f1,
        subset_accuracy; with a hierarchy also h_precision, h_recall, h_f1, lca_f1, exact_match. Two
        empty sets count as in `evaluate`. Of rankings precision_at_K, recall_at_K, ndcg_at_K with
        any K: the labels best first.
    expected : str
        The expectation that holds the true labels.
    predicted : str, optional
        The key of the output that holds the labels, where an output is a mapping.
    labels : iterable of str, optional
        All labels there are; hamming_loss needs them.
    hierarchy : Hierarchy, optional
        Of the labels.

    Returns
    -------
    list of Scorer
        To be passed to `mlflow.genai.evaluate`; one for the flat measures, one for those at k and
        one for the hierarchical ones. An output that holds no labels, or unknown ones, is an error
        of the scorer for that answer: it has no value then.

    Raises
    ------
    ValueError
        An unknown measure, a hierarchical one without a hierarchy, or hamming_loss without
        `labels`.

    Examples
    --------
    >>> (flat,) = scorers(["f1"])
    >>> [feedback] = flat(outputs="a, b", expectations={"labels": ["a", "c"]})
    >>> feedback.name, feedback.value
    ('f1', 0.5)
    """
    label_names = None if labels is None else sorted(set(map(str, labels)))
    usual = FLAT if hierarchy is None else (*FLAT, *HIERARCHICAL)
    wanted = list(dict.fromkeys(usual if measures is None else measures))
    kinds = {
        "mleval": {*FLAT, "hamming_loss"},
        _AT_K: {f"{what}_at_{k}" for what, k in parsed(wanted) if what not in SCORED},
    }
    if hierarchy is not None:
        node = [hierarchy.nodes[0]]
        kinds[_TREE] = {*present(evaluate_hierarchical([node], [node], hierarchy).instances)}
    if unknown := sorted({*wanted}.difference(*kinds.values()), key=wanted.index):
        names = sorted(kinds["mleval"].union(kinds.get(_TREE, ())))
        raise ValueError(
            f"`measures` must be measures of an instance ({some(names, 30)}, precision_at_5, "
            f"recall_at_5, ndcg_at_5 or other k), got {some(unknown)}.{meant(unknown)}"
            + ("" if hierarchy is not None else " Hierarchical ones need `hierarchy`.")
        )
    if label_names is None and "hamming_loss" in wanted:
        raise ValueError("`labels` must be given for hamming_loss. Name all labels.")
    from mlflow.genai.scorers import scorer

    return [
        scorer(_scoring(kind, chosen, expected, predicted, label_names, hierarchy), name=kind)
        for kind, names in kinds.items()
        if (chosen := [m for m in wanted if m in names])
    ]


#: Scorers that rank labels, and that know of a hierarchy.
_AT_K, _TREE = "mleval_at_k", "mleval_hierarchical"


def _scoring(
    kind: str,
    chosen: list[str],
    expected: str,
    predicted: str | None,
    label_names: list[str] | None,
    hierarchy: Hierarchy | None,
) -> Callable[..., list[Feedback]]:
    """The measures of an answer, as MLflow calls them."""

    def score(outputs: Any, expectations: Any) -> list[Feedback]:
        if expectations is None or expected not in expectations:
            got = some(expectations or ["nothing"])
            raise ValueError(f"`expectations` must hold {expected!r}, got {got}.")
        is_key = isinstance(outputs, Mapping) and predicted is not None
        output = outputs[predicted] if is_key else outputs
        if kind == _AT_K and isinstance(output, set | frozenset):
            raise ValueError("an answer must be labels, best first, got a set.")
        true, order = set(read_labels(expectations[expected])), read_labels(output)
        names = label_names or sorted(true.union(order)) or ["none"]
        strangers = sorted(true.union(order).difference(names))
        if kind == _TREE:
            ev = evaluate_hierarchical([sorted(true)], [sorted(order)], present(hierarchy))
        elif strangers:
            raise ValueError(f"there is no label {some(map(quoted, strangers))} in `labels`.")
        elif kind == _AT_K:
            # backwards, so that of a label named twice the better place counts
            places = reversed([*enumerate(order, -len(order))])
            scores = {label: -float(place) for place, label in places}
            ev = evaluate([true], [scores], label_names=names, measures=chosen)
        else:
            ev = evaluate([true], y_pred=[{*order}], label_names=names)
        values = present(ev.instances)[chosen].iloc[0].astype(float)
        return [Feedback(name=m, value=v) for m, v in values[np.isfinite(values)].items()]

    return score
