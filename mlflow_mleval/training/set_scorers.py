"""Measures of label sets as MLflow scorers, so that `mlflow.genai.evaluate` logs them with every trace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from mlflow.entities import Feedback
from mlflow.genai.scorers import Scorer, scorer

from mlflow_mleval.evaluation import evaluate, evaluate_hierarchical
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.label_lists import read_labels
from mlflow_mleval.naming import quoted, some

FLAT = ("accuracy", "precision", "recall", "f1", "subset_accuracy")
HIERARCHICAL = ("h_precision", "h_recall", "h_f1", "lca_f1", "exact_match")


def scorers(
    measures: Iterable[str] | None = None, *, expected: str = "labels", predicted: str | None = None,
    labels: Iterable[str] | None = None, hierarchy: Hierarchy | None = None,
    parse: Callable[[Any], Collection[str]] | None = None,
) -> list[Scorer]:
    """Scorers for answers that are sets of labels.

    Parameters
    ----------
    measures : iterable of str, optional
        Measures of an instance. Default: accuracy (the Jaccard index), precision, recall, f1, subset_accuracy; with a hierarchy
        also h_precision, h_recall, h_f1, lca_f1, exact_match. Two empty sets count as in `evaluate`.
    expected : str
        The expectation that holds the true labels.
    predicted : str, optional
        The key of the output that holds the labels, where an output is a mapping.
    labels : iterable of str, optional
        All labels there are; hamming_loss needs them.
    hierarchy : Hierarchy, optional
        Of the labels.
    parse : callable, optional
        Makes labels of an output. Default: a list or set of str as it is; text is read as a JSON list, else split at commas.

    Returns
    -------
    list of Scorer
        To be passed to `mlflow.genai.evaluate`; one for the flat measures and one for the hierarchical ones. An output that
        holds no labels, or unknown ones, is an error of the scorer for that answer: it has no value then.

    Raises
    ------
    ValueError
        An unknown measure, a hierarchical one without a hierarchy, or hamming_loss without `labels`.

    Examples
    --------
    >>> (flat,) = scorers(["f1"])
    >>> [found] = flat(outputs="a, b", expectations={"labels": ["a", "c"]})
    >>> found.name, found.value
    ('f1', 0.5)
    """
    known = None if labels is None else sorted({str(label) for label in labels})
    wanted = [*FLAT, *(HIERARCHICAL if hierarchy is not None else ())] if measures is None else list(dict.fromkeys(measures))
    flat_names, tree_names = {*FLAT, "hamming_loss"}, set()
    if hierarchy is not None:
        node = [hierarchy.nodes[0]]
        tree_names = set(evaluate_hierarchical([node], [node], hierarchy).instances)
    if unknown := [m for m in wanted if m not in flat_names | tree_names]:
        raise ValueError(
            f"`measures` must be measures of an instance ({some(sorted(flat_names | tree_names), 30)}), got {some(unknown)}."
            + ("" if hierarchy is not None else " Hierarchical ones need `hierarchy`.")
        )
    if "hamming_loss" in wanted and known is None:
        raise ValueError("`labels` must be given for hamming_loss, got None. Name all labels there are.")
    read = parse or read_labels

    def sets(outputs: Any, expectations: Mapping[str, Any] | None) -> tuple[set[str], set[str]]:
        if expected not in (expectations or {}):
            raise ValueError(f"`expectations` must hold {expected!r}, got {some(expectations or ['nothing'])}.")
        if isinstance(outputs, Mapping) and predicted is not None:
            outputs = outputs[predicted]
        return set(map(str, read(expectations[expected]))), set(map(str, read(outputs)))

    def flat_values(true: set[str], found: set[str]) -> Mapping[str, float]:
        names = known or sorted(true | found) or ["none"]
        if strangers := (true | found).difference(names):
            raise ValueError(f"there is no label {some(map(quoted, sorted(strangers)))} in `labels`.")
        rows = [np.array([[name in given for name in names]], dtype=int) for given in (true, found)]
        return evaluate(rows[0], y_pred=rows[1]).instances.iloc[0]

    def tree_values(true: set[str], found: set[str]) -> Mapping[str, float]:
        return evaluate_hierarchical([sorted(true)], [sorted(found)], hierarchy).instances.iloc[0]

    made = []
    for title, names, values in (("mleval", flat_names, flat_values), ("mleval_hierarchical", tree_names, tree_values)):
        if chosen := [m for m in wanted if m in names]:
            made.append(_scorer(title, chosen, values, sets))
    return made


def _scorer(title: str, chosen: list[str], values: Callable, sets: Callable) -> Scorer:
    def score(outputs: Any, expectations: Any) -> list[Feedback]:
        found = values(*sets(outputs, expectations))
        return [Feedback(name=m, value=float(found[m])) for m in chosen if np.isfinite(found[m])]

    return scorer(score, name=title)
