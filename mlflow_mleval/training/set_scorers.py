"""Measures of label sets as MLflow scorers, so that `mlflow.genai.evaluate` logs them with every
trace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlflow.entities import Feedback
from mlflow.genai.scorers import Scorer, scorer

from mlflow_mleval.evaluation import evaluate, evaluate_hierarchical
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.inputs import read_labels
from mlflow_mleval.measures.label_ranking import SCORED, parsed
from mlflow_mleval.measures.registry import meant
from mlflow_mleval.sentences import quoted, some
from mlflow_mleval.validation import present

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
    >>> [feedback] = flat(outputs="a, b", expectations={"labels": ["a", "c"]})
    >>> feedback.name, feedback.value
    ('f1', 0.5)
    """
    label_names = None if labels is None else sorted(set(map(str, labels)))
    usual = FLAT if hierarchy is None else (*FLAT, *HIERARCHICAL)
    wanted = list(dict.fromkeys(usual if measures is None else measures))
    flat_names = {*FLAT, "hamming_loss"}
    tree_names: set[str] = set()
    if hierarchy is not None:
        node = [hierarchy.nodes[0]]
        tree_names = set(present(evaluate_hierarchical([node], [node], hierarchy).instances))
    ranked_names = {f"{what}_at_{k}" for what, k in parsed(wanted) if what not in SCORED}
    names = flat_names | tree_names
    if unknown := [m for m in wanted if m not in names | ranked_names]:
        raise ValueError(
            f"`measures` must be measures of an instance ({some(sorted(names), 30)}, "
            f"precision_at_5, recall_at_5, ndcg_at_5 or other k), got {some(unknown)}."
            f"{meant(unknown)}"
            + ("" if hierarchy is not None else " Hierarchical ones need `hierarchy`.")
        )
    if label_names is None and "hamming_loss" in wanted:
        raise ValueError(
            "`labels` must be given for hamming_loss, got None. Name all labels there are."
        )
    answers = _Answers(expected, predicted, label_names, parse or read_labels)
    ranked = [m for m in wanted if m in ranked_names]

    def tree_values(true: set[str], predicted: set[str]) -> Mapping[str, float]:
        ev = evaluate_hierarchical([sorted(true)], [sorted(predicted)], present(hierarchy))
        return present(ev.instances).iloc[0]

    def ranked_values(true: set[str], scores: dict[str, float]) -> Mapping[str, float]:
        names = answers.named(true | scores.keys())
        ev = evaluate([true], [scores], label_names=names, measures=ranked)
        return present(ev.instances).iloc[0]

    groups: list[tuple[str, set[str], Callable, Callable]] = [
        ("mleval", flat_names, answers.sets, answers.flat_values),
        ("mleval_at_k", ranked_names, answers.ranking, ranked_values),
        ("mleval_hierarchical", tree_names, answers.sets, tree_values),
    ]
    return [
        _scorer(title, chosen, read, values)
        for title, names, read, values in groups
        if (chosen := [m for m in wanted if m in names])
    ]


@dataclass(frozen=True)
class _Answers:
    """How labels are read from an answer and from what was expected of it."""

    expected: str
    predicted: str | None
    label_names: list[str] | None
    parse: Callable[[Any], Collection[str]]

    def truth(self, expectations: Mapping[str, Any] | None) -> set[str]:
        if expectations is None or self.expected not in expectations:
            raise ValueError(
                f"`expectations` must hold {self.expected!r}, got "
                f"{some(expectations or ['nothing'])}."
            )
        return set(map(str, self.parse(expectations[self.expected])))

    def output(self, outputs: Any) -> Any:
        """The part of the answer that holds the labels."""
        is_key = isinstance(outputs, Mapping) and self.predicted is not None
        return outputs[self.predicted] if is_key else outputs

    def sets(self, outputs: Any, expectations: Any) -> tuple[set[str], set[str]]:
        true = self.truth(expectations)
        return true, set(map(str, self.parse(self.output(outputs))))

    def ranking(self, outputs: Any, expectations: Any) -> tuple[set[str], dict[str, float]]:
        scores = self.output(outputs)
        if not isinstance(scores, Mapping):
            order = self.parse(scores)
            if isinstance(order, set | frozenset):
                raise ValueError(
                    "an answer must be a list of labels, best first, or a mapping of label to "
                    "score, got a set."
                )
            # backwards, so that of a label named twice the better place counts
            places = reversed([*enumerate(order, -len(order))])
            scores = {label: -float(place) for place, label in places}
        true = self.truth(expectations)
        return true, {str(label): float(score) for label, score in scores.items()}

    def named(self, labels: set[str]) -> list[str]:
        """All labels there are, among which these must be."""
        names = self.label_names or sorted(labels) or ["none"]
        if strangers := labels.difference(names):
            raise ValueError(
                f"there is no label {some(map(quoted, sorted(strangers)))} in `labels`."
            )
        return names

    def flat_values(self, true: set[str], predicted: set[str]) -> Mapping[str, float]:
        ev = evaluate([true], y_pred=[predicted], label_names=self.named(true | predicted))
        return present(ev.instances).iloc[0]


def _scorer(title: str, chosen: list[str], read: Callable, values: Callable) -> Scorer:
    def score(outputs: Any, expectations: Any) -> list[Feedback]:
        by_name = values(*read(outputs, expectations))
        return [
            Feedback(name=m, value=float(by_name[m])) for m in chosen if np.isfinite(by_name[m])
        ]

    return scorer(score, name=title)
