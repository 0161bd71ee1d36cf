"""Measures of label sets as MLflow scorers, so that `mlflow.genai.evaluate` logs them with every
trace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from mlflow.entities import Feedback
from mlflow.genai.scorers import Scorer, scorer

from mlflow_mleval.evaluation import evaluate, evaluate_hierarchical
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.inputs import read_labels
from mlflow_mleval.measures.label_ranking import SCORED, parsed
from mlflow_mleval.measures.registry import meant
from mlflow_mleval.words import quoted, some

FLAT = ("accuracy", "precision", "recall", "f1", "subset_accuracy")
HIERARCHICAL = ("h_precision", "h_recall", "h_f1", "lca_f1", "exact_match")


def scorers(
    measures: Iterable[str] | None = None,
    *,
    expected: str = "labels",
    predicted: str | None = None,
    labels: Iterable[str] | None = None,
    hierarchy: Hierarchy | None = None,
    parse: Callable[[Any], Collection[str]] | None = None,
) -> list[Scorer]:
    """Scorers for answers that are sets of labels, or rankings of them.

    Parameters
    ----------
    measures : iterable of str, optional
        Measures of an instance. Default: accuracy (the Jaccard index), precision, recall, f1,
        subset_accuracy; with a hierarchy also h_precision, h_recall, h_f1, lca_f1, exact_match. Two
        empty sets count as in `evaluate`. Of rankings precision_at_K, recall_at_K, ndcg_at_K with
        any K: the labels best first, or a mapping of label to score.
    expected : str
        The expectation that holds the true labels.
    predicted : str, optional
        The key of the output that holds the labels, where an output is a mapping.
    labels : iterable of str, optional
        All labels there are; hamming_loss needs them.
    hierarchy : Hierarchy, optional
        Of the labels.
    parse : callable, optional
        Makes labels of an output. Default: a list or set of str as it is; text is read as a JSON
        list, else split at commas.

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
    >>> [found] = flat(outputs="a, b", expectations={"labels": ["a", "c"]})
    >>> found.name, found.value
    ('f1', 0.5)
    """
    known = None if labels is None else sorted({str(label) for label in labels})
    wanted = (
        [*FLAT, *(HIERARCHICAL if hierarchy is not None else ())]
        if measures is None
        else list(dict.fromkeys(measures))
    )
    flat_names, tree_names = {*FLAT, "hamming_loss"}, set()
    if hierarchy is not None:
        node = [hierarchy.nodes[0]]
        tree_names = set(evaluate_hierarchical([node], [node], hierarchy).instances)
    ranked_names = {f"{what}_at_{k}" for what, k in parsed(wanted) if what not in SCORED}
    if unknown := [m for m in wanted if m not in flat_names | tree_names | ranked_names]:
        raise ValueError(
            "`measures` must be measures of an instance "
            f"({some(sorted(flat_names | tree_names), 30)}, precision_at_5, recall_at_5, "
            f"ndcg_at_5 or other k), got {some(unknown)}.{meant(unknown)}"
            + ("" if hierarchy is not None else " Hierarchical ones need `hierarchy`.")
        )
    if "hamming_loss" in wanted and known is None:
        raise ValueError(
            "`labels` must be given for hamming_loss, got None. Name all labels there are."
        )
    read = parse or read_labels

    def sets(outputs: Any, expectations: Mapping[str, Any] | None) -> tuple[set[str], set[str]]:
        if expected not in (expectations or {}):
            raise ValueError(
                f"`expectations` must hold {expected!r}, got {some(expectations or ['nothing'])}."
            )
        if isinstance(outputs, Mapping) and predicted is not None:
            outputs = outputs[predicted]
        return set(map(str, read(expectations[expected]))), set(map(str, read(outputs)))

    def ranking(
        outputs: Any, expectations: Mapping[str, Any] | None
    ) -> tuple[set[str], dict[str, float]]:
        scores = (
            outputs if predicted is None or not isinstance(outputs, Mapping) else outputs[predicted]
        )
        if not isinstance(scores, Mapping):
            order = read(scores)
            if isinstance(order, set | frozenset):
                raise ValueError(
                    "an answer must be a list of labels, best first, or a mapping of label to "
                    "score, got a set."
                )
            scores = {
                label: -float(place) for place, label in reversed([*enumerate(order, -len(order))])
            }
        return sets([], expectations)[0], {
            str(label): float(score) for label, score in scores.items()
        }

    def named(labels: set[str]) -> list[str]:
        names = known or sorted(labels) or ["none"]
        if strangers := labels.difference(names):
            raise ValueError(
                f"there is no label {some(map(quoted, sorted(strangers)))} in `labels`."
            )
        return names

    def ranked_values(true: set[str], scores: dict[str, float]) -> Mapping[str, float]:
        asked = [m for m in wanted if m in ranked_names]
        return evaluate(
            [true], [scores], label_names=named(true | scores.keys()), measures=asked
        ).instances.iloc[0]

    def flat_values(true: set[str], found: set[str]) -> Mapping[str, float]:
        names = named(true | found)
        rows = [np.array([[name in given for name in names]], dtype=int) for given in (true, found)]
        return evaluate(rows[0], y_pred=rows[1]).instances.iloc[0]

    def tree_values(true: set[str], found: set[str]) -> Mapping[str, float]:
        return evaluate_hierarchical([sorted(true)], [sorted(found)], hierarchy).instances.iloc[0]

    made = []
    for title, names, values, read_answer in (
        ("mleval", flat_names, flat_values, sets),
        ("mleval_at_k", ranked_names, ranked_values, ranking),
        ("mleval_hierarchical", tree_names, tree_values, sets),
    ):
        if chosen := [m for m in wanted if m in names]:
            made.append(_scorer(title, chosen, values, read_answer))
    return made


def _scorer(title: str, chosen: list[str], values: Callable, read_answer: Callable) -> Scorer:
    def score(outputs: Any, expectations: Any) -> list[Feedback]:
        found = values(*read_answer(outputs, expectations))
        return [Feedback(name=m, value=float(found[m])) for m in chosen if np.isfinite(found[m])]

    return scorer(score, name=title)
