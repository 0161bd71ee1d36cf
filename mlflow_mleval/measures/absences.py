"""Why measures are absent, and what a reader must know of the input: in words, from the sums."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from mlflow_mleval.measures.label_sums import Sums
from mlflow_mleval.measures.registry import CLASS_SETS, LABEL_SETS, MEASURES, ONE_LABEL
from mlflow_mleval.naming import some

#: Why evaluations of this kind lack the measures of others.
_OF_OTHERS = {
    ONE_LABEL: "it is of label sets, and here each instance has one label",
    LABEL_SETS: "it is of one label of several classes, and here are label sets",
    CLASS_SETS: "it is of one label of several classes, and here are sets of classes",
}


def why_absent(name: str, kind: str, sums: Sums, has_hierarchy: bool, asked: Collection[str] = ()) -> str:
    """Why an evaluation of this kind lacks a measure."""
    measure = MEASURES[name]
    if kind in measure.asked and name not in asked:
        return "it was not asked for"
    if kind in measure.asked and sums.score_range is None and measure.family in ("at-k", "curve", "probability"):
        return "no `y_score` was given"
    if kind in measure.asked and (measure.family == "probability"):
        return _no_probabilities(sums)
    if sums.classes is not None and measure.family == "probability" and sums.score_range is not None:
        return _no_probabilities(sums)
    if name in sums.columns:
        left_out = sums.n - sums.counts[sums.columns.index(name)]
        return f"it is not defined for {left_out} of {sums.n} instances"
    if measure.family == "cost":
        return "it was not measured, or not of all parts"
    if measure.family.startswith("hierarchical"):
        if has_hierarchy and name in asked:
            return "no class of this level is true or predicted"
        return "no `hierarchy` was given" if not has_hierarchy else "it was not asked for"
    if kind == ONE_LABEL and name.startswith("micro_"):
        return "of one label it is top1_accuracy"
    if kind not in measure.kinds and (kind == ONE_LABEL or measure.kinds == (ONE_LABEL,)):
        return _OF_OTHERS[kind]
    if kind == CLASS_SETS:
        return "it needs label matrices: use `evaluate` with `hierarchy`"
    if name == "binomial_gain":
        return "with this Hamming loss all profiles are the same"
    if name == "kappa":
        return "all true and all predicted classes are one"
    if sums.score_range is None:
        return "no `y_score` was given"
    if measure.family == "curve":
        return "no class has both instances and others"
    if kind == LABEL_SETS and measure.family in ("at-k", "one-label"):
        return "nothing is true"
    if measure.family == "at-k":
        return "there are no more classes than that, or no score for each of them"
    return _no_probabilities(sums)


def _no_probabilities(sums: Sums) -> str:
    return f"it needs scores in [0, 1], and `y_score` reaches {sums.reach}"


def doubts_about(
    kind: str, sums: Sums, names: Sequence[Hashable], conventions: str, threshold: Any, inputs: Sequence[str]
) -> tuple[str, ...]:
    """What a reader of the measures must know about the input."""
    if kind == ONE_LABEL:
        return _doubts_about_classes(sums, names)
    found = []
    if empty := int(sums.empty[1]):
        found.append(f"{empty} of {sums.n} instances have no true label; what they count is convention ({conventions})")
    never = int((sums.by_label[2] == 0).sum())
    if never and kind == LABEL_SETS:
        found.append(
            f"{never} of {len(names)} labels never occur in the truth; what they count in macro averages is convention "
            f"({conventions})"
        )
    if threshold == 0.5 and sums.errors is None:
        text = f"labels with a score of at least 0.5 were predicted, but the scores reach {sums.reach}"
        found.append(f"{text}: they are no probabilities")
    soft = None if sums.errors is None or "y_pred" in inputs else sums.mean_errors("soft")
    if soft is not None and (soft == sums.mean_errors("hard")).all():
        found.append("all scores are 0 or 1, so the ranking measures tell little more than the label sets do")
    return tuple(found)


def about_bounds(bounds: Mapping[str, float]) -> str:
    """How far off measures can be that follow from scores on a grid."""
    worst = max(bounds, key=bounds.__getitem__)
    return (
        f"there are too many different scores to keep: {some(bounds, 9)} {'are' if len(bounds) > 1 else 'is'} off by "
        f"{bounds[worst]:.2g} at most"
    )


def _doubts_about_classes(sums: Sums, names: Sequence[Hashable]) -> tuple[str, ...]:
    found = []
    if never := [name for name, n in zip(names, sums.by_label[2], strict=True) if not n]:
        found.append(
            f"{len(never)} of {len(names)} classes never occur in the truth ({some(map(repr, never), 4)}); macro averages leave "
            "out those that are not predicted either"
        )
    scores = sums.classes.scores
    if scores is not None and (off := float(np.nan_to_num(scores.auroc()[1]).max())) > 0:
        found.append(f"there are too many different scores to keep: macro_auroc and weighted_auroc are off by {off:.2g} at most")
    return tuple(found)
