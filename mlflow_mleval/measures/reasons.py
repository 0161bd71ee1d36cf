"""Why measures are absent, and what a reader must know of the input: in words, from the sums."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

from mlflow_mleval.measures.registry import CLASS_SETS, LABEL_SETS, MEASURES, ONE_LABEL
from mlflow_mleval.measures.sums import Sums
from mlflow_mleval.sentences import some
from mlflow_mleval.validation import present

#: Why evaluations of this kind lack the measures of others.
_OF_OTHERS = {
    ONE_LABEL: "it is of label sets, and here each instance has one label",
    LABEL_SETS: "it is of one label of several classes, and here are label sets",
    CLASS_SETS: "it is of one label of several classes, and here are sets of classes",
}
#: What leaves single measures without a value.
_UNDEFINED = {
    "s_min": "no `train_labels` were given",
    "binomial_gain": "with this Hamming loss all profiles are the same",
    "kappa": "all true and all predicted classes are one",
}
#: Families that need scores.
_OF_SCORES = ("ranking", "at-k", "curve", "probability", "hierarchical-threshold")


def why_absent(
    name: str, kind: str, sums: Sums, has_hierarchy: bool, asked: Collection[str] = ()
) -> str:
    """Why an evaluation of this kind lacks a measure."""
    return (
        _why_not_computed(name, kind, sums, has_hierarchy, asked)
        or _why_no_scores(name, sums)
        or _why_undefined(name, kind, sums)
    )


def _why_not_computed(
    name: str, kind: str, sums: Sums, has_hierarchy: bool, asked: Collection[str]
) -> str:
    """The reason where the kind of input or what was asked for rules the measure out."""
    measure = MEASURES[name]
    family = measure.family
    if sums.weight == 0 and family != "cost":
        return "all instances have the weight 0"
    if kind in measure.asked and name not in asked:
        return "it was not asked for"
    if family == "cost":
        return "it was not measured, or not of all parts"
    if kind not in measure.kinds:
        if kind == ONE_LABEL and name.startswith("micro_"):
            return "of one label it is top1_accuracy"
        if kind == ONE_LABEL or measure.kinds == (ONE_LABEL,):
            return _OF_OTHERS[kind]
        return "it needs label matrices: use `evaluate` with `hierarchy`"
    if family.startswith("hierarchical") and not has_hierarchy:
        return "no `hierarchy` was given"
    return ""


def _why_no_scores(name: str, sums: Sums) -> str:
    """The reason where there are no scores, or none that the measure can use."""
    family = MEASURES[name].family
    needs_scores = family in _OF_SCORES or name.startswith(("soft_", "distance_"))
    if needs_scores and sums.score_range is None:
        return "no `y_score` was given"
    if family in ("probability", "hierarchical-threshold"):
        if sums.errors is None or sums.classes is not None:
            return _no_probabilities(sums)
        if family == "hierarchical-threshold" and sums.weight is not None:
            return "it has no form with `sample_weight`"
    return ""


def _why_undefined(name: str, kind: str, sums: Sums) -> str:
    """The reason where the data give the measure no value."""
    family = MEASURES[name].family
    if name in sums.columns:
        left_out = sums.n - sums.entering[sums.columns.index(name)]
        return f"it is not defined for {left_out} of {sums.n} instances"
    if name in _UNDEFINED:
        return _UNDEFINED[name]
    if name.startswith("distance_"):
        return "there is no score for each class"
    if family == "hierarchical-level":
        return "no class of this level is true or predicted"
    if family == "curve":
        return "no class has both instances and others"
    if kind == LABEL_SETS and family in ("at-k", "one-label", "hierarchical-threshold"):
        return "nothing is true"
    if family.startswith("hierarchical-"):
        return "it was not asked for"
    if family == "at-k":
        return "there are no more classes than that, or no score for each of them"
    return _no_probabilities(sums)


def _no_probabilities(sums: Sums) -> str:
    low, high = present(sums.score_range)
    if low >= 0 and high <= 1:
        return "it needs probabilities, and `y_score` is said to hold other scores"
    return f"it needs scores in [0, 1], and `y_score` reaches {sums.reach}"


def doubts_about(
    kind: str,
    sums: Sums,
    names: Sequence[Hashable],
    conventions: str,
    threshold: Any,
    inputs: Sequence[str],
) -> tuple[str, ...]:
    """What a reader of the measures must know about the input."""
    doubts = []
    if sums.weight is not None:
        doubts.append(
            f"the {sums.n} instances count by their sample weights, which sum to "
            f"{sums.weight:.6g}; counts of labels are sums of weights"
        )
    if kind == ONE_LABEL:
        if lacking := [name for name, n in zip(names, sums.by_label[2], strict=True) if not n]:
            doubts.append(
                f"{len(lacking)} of {len(names)} classes never occur in the truth "
                f"({some(map(repr, lacking), 4)}); macro averages leave out those that are not "
                "predicted either"
            )
        return tuple(doubts)
    if empty := int(sums.empty[1]):
        doubts.append(
            f"{empty} of {sums.n} instances have no true label; what they count is convention "
            f"({conventions})"
        )
    never = int((sums.by_label[2] == 0).sum())
    if never and kind == LABEL_SETS:
        doubts.append(
            f"{never} of {len(names)} labels never occur in the truth; what they count in macro "
            f"averages is convention ({conventions})"
        )
    if threshold == 0.5 and sums.errors is None:
        text = (
            f"labels with a score of at least 0.5 were predicted, but the scores reach {sums.reach}"
        )
        doubts.append(f"{text}: they are no probabilities")
    decides = sums.errors is not None and "y_pred" not in inputs and sums.size
    if decides and (sums.mean_errors("soft") == sums.mean_errors("hard")).all():
        doubts.append(
            "all scores are 0 or 1, so the ranking measures tell little more than the label sets do"
        )
    return tuple(doubts)


def about_bounds(bounds: Mapping[str, float]) -> str:
    """How far off measures can be that follow from scores on a grid.

    >>> about_bounds({"macro_auroc": 0.002, "weighted_auroc": 0.002, "ece_15": 0.01})
    'there are too many different scores to keep, and measures can be off: macro_auroc, weighted_auroc by 0.002; ece_15 by 0.01'
    """  # noqa: E501
    by_size: dict[str, list[str]] = {}
    for name, bound in bounds.items():
        by_size.setdefault(f"{bound:.2g}", []).append(name)
    bounded = "; ".join(f"{some(names, 9)} by {size}" for size, names in by_size.items())
    return f"there are too many different scores to keep, and measures can be off: {bounded}"
