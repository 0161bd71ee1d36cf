"""Precision-recall, ROC and reliability curves as points, from counts by score."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mlflow_mleval.measures.flat import ratio
from mlflow_mleval.measures.label_sums import Sums
from mlflow_mleval.measures.registry import BINS
from mlflow_mleval.measures.score_counts import ScoreCounts

#: Points of a curve at most.
POINTS = 200
#: What a curve is of: all label cells together, or one label.
MICRO, LABEL = "micro", "label"


def points(counts: ScoreCounts, most: int = POINTS) -> pd.DataFrame:
    """The points of the curves of each class, from the highest threshold down: class, threshold,
    recall, precision, fpr.

    All lie on the curve. Of many those are kept that lie evenly along recall and false positive
    rate together, the last of all among them. Classes without positives have none; the false
    positive rate is NaN where all are positive.

    >>> points(ScoreCounts.of([[0.2], [0.9], [0.5]], [[False], [True], [True]])).round(2).to_numpy().tolist()
    [[0.0, 0.9, 0.5, 1.0, 0.0], [0.0, 0.5, 1.0, 1.0, 0.0], [0.0, 0.2, 1.0, 0.67, 1.0]]
    """  # noqa: E501
    classes, score, pos, neg = counts.whole.parts[0]
    start = np.searchsorted(classes, np.arange(counts.n_classes + 1))
    total, others = (np.diff(np.append(0, np.cumsum(side))[start]) for side in (pos, neg))
    tp, fp = counts.reached()
    with np.errstate(divide="ignore", invalid="ignore"):
        recall, fpr = tp / total[classes], fp / others[classes]
    place = (recall + np.where(others[classes] > 0, fpr, recall)) / 2
    known = total[classes] > 0
    bucket = np.where(known, np.floor(np.where(known, place, 0) * (most - 1)), -1)
    # Thresholds fall as places rise, so the first row of a bucket, by ascending score, reaches
    # farthest.
    first = np.append(True, (np.diff(bucket) != 0) | (np.diff(classes) != 0))[: len(bucket)]
    kept = np.flatnonzero(first & known)
    kept = kept[np.lexsort((-kept, classes[kept]))]
    threshold = counts.lower_edges(score[kept])
    table = {"class": classes, "recall": recall, "precision": ratio(tp, tp + fp), "fpr": fpr}
    found = pd.DataFrame({name: column[kept] for name, column in table.items()})
    found.insert(1, "threshold", threshold)
    return found


def precision_at(counts: ScoreCounts, recalls: NDArray[np.float64]) -> NDArray[np.float64]:
    """The precision at these recalls, in [0, 1], of counts of one class; between thresholds as
    Davis & Goadrich 2006 do.
    """
    pos, neg = (column[::-1] for column in counts.whole.parts[0][2:])
    pos, neg, before = pos[pos > 0], neg[pos > 0], (np.cumsum(neg) - neg)[pos > 0]
    tp = np.cumsum(pos)
    wanted = recalls * tp[-1]
    at = np.searchsorted(tp, wanted)
    way = (wanted - (tp - pos)[at]) / pos[at]
    fp = before[at] + way * neg[at]
    none = wanted <= 0  # what precision tends to
    limit = np.where(before[at] > 0, 0.0, pos[at] / (pos[at] + neg[at]))
    return np.where(none, limit, wanted / np.where(none, 1, wanted + fp))


def recall_at(counts: ScoreCounts, rates: NDArray[np.float64]) -> NDArray[np.float64]:
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


def chosen(counts: ScoreCounts, classes: Sequence[int]) -> ScoreCounts:
    """The counts of some classes, in their order."""
    own, *rest = counts.whole.parts[0]
    place = np.full(counts.n_classes, -1)
    place[classes] = np.arange(len(classes))
    rows = place[own] >= 0
    order = np.argsort(place[own[rows]], kind="stable")
    parts = tuple(column[rows][order] for column in (place[own], *rest))
    return ScoreCounts(len(classes), (parts,), counts.whole.on_grid)


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
    tables = []
    for scope, part, of in (
        (MICRO, counts.pooled, [None]),
        (LABEL, chosen(counts, [place[name] for name in drawn]), drawn),
    ):
        found = points(part)
        found.insert(0, "label", np.array([*of, None], object)[found.pop("class").to_numpy(int)])
        found.insert(0, "scope", scope)
        tables.append(found)
    return pd.concat(tables, ignore_index=True)


def reliability_table(
    sums: Sums, names: Sequence[Hashable], labels: Sequence[Hashable], bins: int = BINS
) -> pd.DataFrame:
    """What probabilities promise and what is true, all together and of these labels: see
    `Evaluation.reliability`.
    """
    counts, whole = sums.counts_by_score, None
    if counts is not None and sums.classes is not None:
        whole = sums.classes.confidence
    elif counts is not None and sums.errors is not None:
        whole = counts.pooled
    if whole is None:
        return pd.DataFrame(columns=["scope", "label", "n", "mean_score", "share"])
    assert counts is not None  # there is a whole
    place = {name: i for i, name in enumerate(names[-counts.n_classes :])}
    drawn = [name for name in labels if name in place]
    own, *rest = chosen(counts, [place[name] for name in drawn]).parts[0]
    start = np.searchsorted(own, np.arange(len(drawn) + 1))
    tables, of_labels = [], []
    for name, lo, hi in zip(drawn, start[:-1], start[1:], strict=True):
        rows = (np.zeros(hi - lo, np.int64), *(column[lo:hi] for column in rest))
        of_labels.append((LABEL, name, ScoreCounts(1, (rows,), counts.whole.on_grid)))
    for scope, label, part in [(MICRO, None, whole), *of_labels]:
        size, positives, total = part.bins(bins)
        there = size > 0
        values = {"n": size, "mean_score": ratio(total, size), "share": ratio(positives, size)}
        found = pd.DataFrame({name: column[there] for name, column in values.items()})
        found.insert(0, "label", np.full(len(found), label, object))
        found.insert(0, "scope", scope)
        tables.append(found)
    return pd.concat(tables, ignore_index=True)


def percent_curves(sums: Sums) -> Mapping[str, Mapping[int, float]]:
    """The curves of all label cells together by whole percents, as far as they are defined, by what
    they show.
    """
    counts, found = sums.counts_by_score, {}
    if counts is None:
        return {}
    whole, steps = counts.pooled, np.arange(101)
    _, _, pos, neg = whole.parts[0]
    if pos.sum():
        found["precision_at_recall_percent"] = precision_at(whole, steps / 100)
    if pos.sum() and neg.sum():
        found["recall_at_false_positive_percent"] = recall_at(whole, steps / 100)
    curves = {
        name: dict(zip(steps.tolist(), values.tolist(), strict=True))
        for name, values in found.items()
    }
    bins = reliability_table(sums, (), ())
    if len(bins):
        percent = (100 * bins["mean_score"]).round().astype(int)
        sums_of = (bins[["n"]].assign(right=bins["share"] * bins["n"])).groupby(percent).sum()
        curves["share_true_at_score_percent"] = (sums_of["right"] / sums_of["n"]).to_dict()
    return curves
