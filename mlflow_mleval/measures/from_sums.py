"""What follows from the sums beside the measures: points of curves, how much each instance moves a
value, why a measure is absent.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.measures.curves import ScoreCounts
from mlflow_mleval.measures.registry import BINS, CLASS_SETS, LABEL_SETS, MEASURES, ONE_LABEL
from mlflow_mleval.measures.sets import Conventions, apart, dense, ratio, reached, set_measures
from mlflow_mleval.measures.sums import Inputs, Sums
from mlflow_mleval.validation import Array, Ints, present
from mlflow_mleval.words import some

# --------------------------------------------------------------------------------------------------
# Precision-recall, ROC and reliability curves as points, from counts by score.

_BLOCK = 1 << 16  # rows or cells handled at a time: they stay in the cache
#: Points of a curve at most.
POINTS = 200
#: What a curve is of: all label cells together, or one label.
MICRO = "micro"
LABEL = "label"


def points(counts: ScoreCounts) -> pd.DataFrame:
    """The points of the curves of each class, from the highest threshold down: class, threshold,
    recall, precision, fpr.

    All lie on the curve. Of many those are kept that lie evenly along recall and false positive
    rate together, the last of all among them. Classes without positives have none; the false
    positive rate is NaN where all are positive.

    >>> points(ScoreCounts.of([[0.2], [0.9], [0.5]], [[False], [True], [True]])).round(2).to_numpy().tolist()
    [[0.0, 0.9, 0.5, 1.0, 0.0], [0.0, 0.5, 1.0, 1.0, 0.0], [0.0, 0.2, 1.0, 0.67, 1.0]]
    """  # noqa: E501
    columns = [_points(piece, first) for first, piece in counts.pieces()]
    names = ("class", "threshold", "recall", "precision", "fpr")
    return pd.DataFrame(
        dict(zip(names, map(np.concatenate, zip(*columns, strict=True)), strict=True))
    )


def _points(counts: ScoreCounts, first: int) -> tuple[Array, ...]:
    """The columns of the points of classes, which count from this one."""
    classes, score, _, _ = counts.whole.parts[0]
    total, others = counts.totals
    tp, fp = counts.reached()

    def rates(rows: Any) -> tuple[Array, Array]:
        of = classes[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            return tp[rows] / total[of], fp[rows] / others[of]

    begins = [np.zeros(0, np.int64)]
    bucket_before = -1.0
    for start in range(0, len(classes), _BLOCK):
        rows = slice(start, start + _BLOCK)
        recall, fpr = rates(rows)
        place = (recall + np.where(others[classes[rows]] > 0, fpr, recall)) / 2
        # Classes are in buckets of their own. Thresholds fall as places rise, so the first row of a
        # bucket, by ascending score, reaches farthest.
        bucket = np.floor(place * (POINTS - 1)) + classes[rows] * POINTS
        begins.append(start + np.flatnonzero(np.diff(bucket, prepend=bucket_before)))
        bucket_before = bucket[-1]
    shown = np.concatenate(begins)
    shown = shown[total[classes[shown]] > 0]
    shown = shown[np.lexsort((-shown, classes[shown]))]
    recall, fpr = rates(shown)
    precision = ratio(tp[shown], tp[shown] + fp[shown])
    return first + classes[shown], counts.lower_edges(score[shown]), recall, precision, fpr


def precision_at(counts: ScoreCounts, recalls: Array) -> Array:
    """The precision at these recalls, in [0, 1], of counts of one class; between thresholds as
    Davis & Goadrich 2006 do.
    """
    _, pos, neg, tp, fp = (column[::-1] for column in counts.rises)
    before = fp - neg
    wanted = recalls * tp[-1]
    at = np.searchsorted(tp, wanted)
    way = (wanted - (tp - pos)[at]) / pos[at]
    fp = before[at] + way * neg[at]
    none = wanted <= 0  # what precision tends to
    limit = np.where(before[at] > 0, 0.0, pos[at] / (pos[at] + neg[at]))
    return np.where(none, limit, wanted / np.where(none, 1, wanted + fp))


def recall_at(counts: ScoreCounts, rates: Array) -> Array:
    """The recall at these false positive rates, in [0, 1], of counts of one class with positives
    and negatives.
    """
    pos, neg = (column[::-1] for column in counts.whole.parts[0][2:])
    tp, fp = (np.append(0, np.cumsum(side)) for side in (pos, neg))
    wanted = rates * fp[-1]
    at = np.minimum(
        np.searchsorted(fp, wanted, "right"), len(fp) - 1
    )  # past those with as many, so the upper end of a jump
    step = fp[at] - fp[at - 1]
    way = np.where(step > 0, (wanted - fp[at - 1]) / np.where(step > 0, step, 1), 1.0)
    return (tp[at - 1] + way * (tp[at] - tp[at - 1])) / tp[-1]


def curve_table(sums: Sums, names: Sequence[Hashable], labels: Sequence[Hashable]) -> pd.DataFrame:
    """The points of the curves of all label cells together, and of these labels: see
    `Evaluation.curves`.
    """
    counts = sums.counts_by_score
    if counts is None:
        return pd.DataFrame(columns=["scope", "label", "threshold", "recall", "precision", "fpr"])
    own = names[-counts.n_classes :]  # of two classes there is the second
    place = {name: i for i, name in enumerate(own)}
    drawn = [name for name in labels if name in place]
    parts: list[tuple[str, ScoreCounts, list[Any]]] = [(MICRO, counts.pooled, [None])]
    if drawn:
        parts.append((LABEL, counts.chosen([place[name] for name in drawn]), drawn))
    tables = []
    for scope, part, of in parts:
        curve = points(part)
        label = np.array([*of, None], object)[curve.pop("class").to_numpy(int)]
        tables.append(pd.DataFrame({"scope": scope, "label": label, **curve}))
    return pd.concat(tables, ignore_index=True)


def reliability_table(
    sums: Sums,
    names: Sequence[Hashable],
    labels: Sequence[Hashable],
    bins: int = BINS,
) -> pd.DataFrame:
    """What probabilities promise and what is true, all together and of these labels: see
    `Evaluation.reliability`.
    """
    counts = sums.counts_by_score
    whole = None
    if counts is not None and sums.classes is not None:
        whole = sums.classes.confidence
    elif counts is not None and sums.errors is not None:
        whole = counts.pooled
    if whole is None:
        return pd.DataFrame(columns=["scope", "label", "n", "mean_score", "share"])
    assert counts is not None  # there is a whole
    place = {name: i for i, name in enumerate(names[-counts.n_classes :])}
    drawn = [name for name in labels if name in place]
    parts: list[tuple[str, Hashable, ScoreCounts]] = [(MICRO, None, whole)]
    parts += [(LABEL, name, counts.chosen([place[name]])) for name in drawn]
    tables = []
    for scope, label, part in parts:
        size, positives, total = part.bins(bins)
        there = size > 0
        values = {"n": size, "mean_score": ratio(total, size), "share": ratio(positives, size)}
        of = {"scope": scope, "label": np.full(len(size), label, object)}
        tables.append(pd.DataFrame(of | values)[there].reset_index(drop=True))
    return pd.concat(tables, ignore_index=True)


def percent_curves(sums: Sums) -> Mapping[str, Mapping[int, float]]:
    """The curves of all label cells together by whole percents, as far as they are defined, by what
    they show.
    """
    counts = sums.counts_by_score
    by_name = {}
    if counts is None:
        return {}
    whole = counts.pooled
    steps = np.arange(101)
    (positives,), (negatives,) = whole.totals
    if positives:
        by_name["precision_at_recall_percent"] = precision_at(whole, steps / 100)
    if positives and negatives:
        by_name["recall_at_false_positive_percent"] = recall_at(whole, steps / 100)
    curves = {
        name: dict(zip(steps.tolist(), values.tolist(), strict=True))
        for name, values in by_name.items()
    }
    bins = reliability_table(sums, (), ())
    if len(bins):
        percent = (100 * bins["mean_score"]).round().astype(int)
        sums_of = (bins[["n"]].assign(right=bins["share"] * bins["n"])).groupby(percent).sum()
        curves["share_true_at_score_percent"] = (sums_of["right"] / sums_of["n"]).to_dict()
    return curves


# --------------------------------------------------------------------------------------------------
# How much each instance moves the measures that follow from counts by label: what their intervals
# are made of.

#: Numerator and denominator of each rate, in true positives, predicted and true instances.
_RATES = {
    "precision": ((1, 0, 0), (0, 1, 0)),
    "recall": ((1, 0, 0), (0, 0, 1)),
    "f1": ((2, 0, 0), (0, 1, 1)),
    "accuracy": ((1, 0, 0), (-1, 1, 1)),
}


def label_influences(
    inputs: Inputs,
    sums: Iterable[Sums],
    one_label: bool = False,
) -> dict[str, NDArray[np.float32]]:
    """By measure the change that each instance makes, to first order, shape (N,): a sum of 0 and of
    squares the variance.

    The jackknife (Efron 1982) by derivatives of micro, macro and weighted averages by the counts of
    a label, shape (3, K), times what the instance adds to them, times its weight of mean 1. `sums`
    are those of all folds.
    """
    true = inputs.true
    score = inputs.score
    pred = inputs.pred
    threshold = inputs.threshold
    n, n_labels = true.shape
    counts = np.sum([part.by_label for part in sums], axis=0)
    each: Array = np.ones(n)
    if inputs.weights is not None:
        scale = n / inputs.weights.sum()
        each = inputs.weights * scale
        counts = counts * scale
    slopes = _slopes(counts, inputs.conventions, one_label)
    if sparse.issparse(true) and (
        sparse.issparse(pred) or (pred is None and sparse.issparse(score))
    ):
        always = np.zeros(n_labels, bool)
        if pred is None:
            always, pred = apart(score, threshold)
        shared = true.multiply(pred).tocsr()
        of_instances = {}
        for name, slope in slopes:
            of_shared, of_pred, of_true = slope.astype(np.float32)
            of_instances[name] = shared @ of_shared + pred @ of_pred + true @ of_true
            if always.any():  # what the rest adds is the same for all
                of_instances[name] += true @ (of_shared * always)
        return _centred(of_instances, np.array([*of_instances.values()], np.float32), each)
    names, of_measures = zip(*slopes, strict=True)
    rates = np.stack(of_measures, axis=-1).astype(np.float32)
    changes = np.empty((len(names), n), np.float32)
    step = max(1, _BLOCK // n_labels)
    for start in range(0, n, step):
        at = slice(start, start + step)
        chosen = reached(dense(score[at]), threshold) if pred is None else dense(pred[at])
        t = dense(true[at]).astype(np.float32)
        p = chosen.astype(np.float32)
        changes[:, at] = ((t * p) @ rates[0] + p @ rates[1] + t @ rates[2]).T
    return _centred(names, changes, each)


def _centred(
    names: Iterable[str],
    changes: NDArray[np.float32],
    each: Array,
) -> dict[str, NDArray[np.float32]]:
    """What the number of instances adds is the same for all of them; then by the weights, whose
    mean is 1.
    """
    mean = changes.mean(axis=1) if (each == 1).all() else changes @ each / len(each)
    centred = (changes - mean[:, None].astype(np.float32)) * each.astype(np.float32)
    return dict(zip(names, centred, strict=True))


def _slopes(
    by_label: Ints,
    conventions: Conventions,
    one_label: bool,
) -> Iterator[tuple[str, Array]]:
    """Each measure, and its derivatives by the counts of each label, shape (3, K)."""
    counts = by_label.astype(float)
    rates = set_measures(*by_label, conventions=conventions)
    slopes = _of_rates(counts)
    support = counts[2]
    total = max(counts[2].sum(), 1)
    there = counts[1] + support > 0 if one_label else np.ones(len(support), bool)
    micro = {} if one_label else _of_rates(counts.sum(axis=1, keepdims=True))
    for rate in ("precision", "recall", "f1"):
        if micro:
            yield f"micro_{rate}", np.broadcast_to(micro[rate], counts.shape)
        yield f"macro_{rate}", slopes[rate] / there.sum()
        weighted = slopes[rate] * support / total
        weighted[2] += (rates[rate] - rates[rate] @ support / total) / total
        yield f"weighted_{rate}", weighted
    if one_label:
        yield from _beyond_chance(counts).items()
        yield "balanced_accuracy", slopes["recall"] * (support > 0) / (support > 0).sum()
    else:
        yield "macro_jaccard", slopes["accuracy"] / len(support)


def _of_rates(counts: Array) -> dict[str, Array]:
    """Derivatives of the rates by counts of shape (3, K); 0 where a rate is a convention."""
    derivatives = {}
    for name, (above, below) in _RATES.items():
        size = np.array(below) @ counts
        value = np.divide(np.array(above) @ counts, size, out=np.zeros_like(size), where=size > 0)
        # As if the instance were left out, which counts once or, of F1, twice: few instances vary
        # more than derivatives say.
        rest = np.maximum(size - sum(below), 1)
        derivatives[name] = (
            (np.array(above)[:, None] - value * np.array(below)[:, None]) * (size > 0) / rest
        )
    return derivatives


def _beyond_chance(counts: Array) -> dict[str, Array]:
    """Derivatives of Matthews' correlation and Cohen's kappa of one label; none of what is not
    defined.
    """
    tp, predicted, true = counts
    n = true.sum()
    chance = predicted @ true
    derivatives = {}
    gain = tp.sum() * n - chance
    spreads = n**2 - predicted @ predicted, n**2 - true @ true
    if min(spreads) > 0:
        whole = np.sqrt(spreads[0] * spreads[1])
        ends = (
            gain / whole / spread * side
            for side, spread in ((predicted, spreads[0]), (true, spreads[1]))
        )
        derivatives["matthews"] = np.array(
            [np.full_like(tp, n / whole), next(ends) - true / whole, next(ends) - predicted / whole]
        )
    if (room := n**2 - chance) > 0:
        derivatives["kappa"] = (
            np.array([np.full_like(tp, n), (gain / room - 1) * true, (gain / room - 1) * predicted])
            / room
        )
    return derivatives


# --------------------------------------------------------------------------------------------------
# Why measures are absent, and what a reader must know of the input: in words, from the sums.

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
    name: str,
    kind: str,
    sums: Sums,
    has_hierarchy: bool,
    asked: Collection[str] = (),
) -> str:
    """Why an evaluation of this kind lacks a measure."""
    return (
        _why_not_computed(name, kind, sums, has_hierarchy, asked)
        or _why_no_scores(name, sums)
        or _why_undefined(name, kind, sums)
    )


def _why_not_computed(
    name: str,
    kind: str,
    sums: Sums,
    has_hierarchy: bool,
    asked: Collection[str],
) -> str:
    """The reason where the kind of input or what was asked for rules the measure out."""
    measure = MEASURES[name]
    if sums.weight == 0 and measure.family != "cost":
        return "all instances have the weight 0"
    if kind in measure.asked and name not in asked:
        return "it was not asked for"
    if measure.family == "cost":
        return "it was not measured, or not of all parts"
    if kind not in measure.kinds:
        if kind == ONE_LABEL and name.startswith("micro_"):
            return "of one label it is top1_accuracy"
        if kind == ONE_LABEL or measure.kinds == (ONE_LABEL,):
            return _OF_OTHERS[kind]
        return "it needs label matrices: use `evaluate` with `hierarchy`"
    if measure.family.startswith("hierarchical") and not has_hierarchy:
        return "no `hierarchy` was given"
    return ""


def _why_no_scores(name: str, sums: Sums) -> str:
    """The reason where there are no scores, or none that the measure can use."""
    family = MEASURES[name].family
    needs_scores = family in _OF_SCORES or name.startswith(("soft_", "distance_"))
    if needs_scores and sums.score_range is None:
        return "no `y_score` was given"
    needs_probabilities = family in ("probability", "hierarchical-threshold")
    if needs_probabilities and (sums.errors is None or sums.classes is not None):
        return _no_probabilities(sums)
    if family == "hierarchical-threshold" and sums.weight is not None:
        return "it has no form with `sample_weight`"
    return ""


def _why_undefined(name: str, kind: str, sums: Sums) -> str:
    """The reason where the data give the measure no value."""
    family = MEASURES[name].family
    if name in sums.columns:
        left_out = sums.n - sums.counts[sums.columns.index(name)]
        return f"it is not defined for {left_out} of {sums.n} instances"
    if name in _UNDEFINED:
        return _UNDEFINED[name]
    if name.startswith("distance_"):
        return "there is no score for each class"
    if family == "hierarchical-level":
        return "no class of this level is true or predicted"
    if family.startswith("hierarchical-") and family != "hierarchical-threshold":
        return "it was not asked for"
    if family == "curve":
        return "no class has both instances and others"
    if kind == LABEL_SETS and family in ("at-k", "one-label", "hierarchical-threshold"):
        return "nothing is true"
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
        return (*doubts, *_doubts_about_classes(sums, names))
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


def _doubts_about_classes(sums: Sums, names: Sequence[Hashable]) -> tuple[str, ...]:
    doubts = []
    if never := [name for name, n in zip(names, sums.by_label[2], strict=True) if not n]:
        doubts.append(
            f"{len(never)} of {len(names)} classes never occur in the truth "
            f"({some(map(repr, never), 4)}); macro averages leave out those that are not "
            "predicted either"
        )
    return tuple(doubts)
