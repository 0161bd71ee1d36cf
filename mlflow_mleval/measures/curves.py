"""How often each score goes with right and wrong: curves, areas, calibration."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache, reduce
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mlflow_mleval.measures.hierarchy import Hierarchy, closure, offsets, pattern, spans, stretches
from mlflow_mleval.measures.inputs import (
    Csr,
    Propensities,
    dense,
    row_sizes,
    rows_of,
)
from mlflow_mleval.measures.label_ranking import RowScores
from mlflow_mleval.measures.registry import BINS, Bounded, ratio
from mlflow_mleval.validation import AnyArray, Array, Columns, Ints

# ---- positives and negatives by score ------------------------------------------------------------
# Equal scores are joined, so the counts are exact whatever the order of batches. Of what is merged
# or stored, more than `EXACT` different scores are put on one grid, with what that can be wrong by.

#: Different scores that are merged or stored exactly; and the steps of the grid beyond.
EXACT = 1 << 20
STEPS = 1 << 16
#: Class, score (or step of the grid), and what is counted, in the order of class and score.
_Rows = tuple[AnyArray, ...]


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """What is counted by class and score; that of disjoint instances adds up with ``+``."""

    n_classes: int
    # Each joined, and at most half as long as the one before: many batches cost n log n.
    parts: tuple[_Rows, ...]
    on_grid: bool = False

    def __add__(self, other: ScoreRows) -> ScoreRows:
        on_grid = self.on_grid or other.on_grid
        sides = [side.gridded if on_grid else side.counted for side in (self, other)]
        parts = sorted(chain(*(side.parts for side in sides)), key=lambda part: -len(part[0]))
        while len(parts) > 1 and 2 * len(parts[-1][0]) > len(parts[-2][0]):
            parts[-2:] = [joined_rows(parts[-2:])]
        return replace(sides[0], parts=tuple(parts))

    @property
    def counted(self) -> Any:
        """The same in rows."""
        return self

    @property
    def gridded(self) -> Any:
        """The same on the grid: half of its steps even over [0, 1], a quarter below, one above."""
        if self.on_grid:
            return self
        parts = []
        for classes, s, *counts in self.counted.parts:
            with np.errstate(divide="ignore"):
                place = np.where(s > 1, 1 - 0.25 / np.maximum(s, 1), 0.25 + 0.5 * s)
                place = np.where(s < 0, 0.25 / (1 - np.minimum(s, 0)), place)
            step = np.minimum(np.floor(place * STEPS), STEPS - 1)
            parts.append(joined_rows([(classes, step, *counts)]))
        return replace(self.counted, parts=tuple(parts), on_grid=True)

    @cached_property
    def whole(self) -> Any:
        """The same in rows of one part."""
        counted = self.counted
        if len(counted.parts) == 1:
            return counted
        return replace(counted, parts=(joined_rows(counted.parts),))

    @cached_property
    def bounded(self) -> Any:
        """The same as it is merged or stored: on the grid if there are too many scores."""
        counted = self.counted
        if self.on_grid or sum(len(part[0]) for part in counted.parts) <= EXACT:
            return counted
        if len(self.whole.parts[0][0]) <= EXACT:
            return self.whole
        return counted.gridded.whole

    def to_dict(self) -> dict[str, Any]:
        """The counts in lists and numbers, for JSON."""
        stored = self.bounded.whole
        names = [f.name for f in fields(self) if f.name not in ("parts", "sample")]
        facts = {name: getattr(stored, name) for name in names}
        return {**facts, "rows": [column.tolist() for column in stored.parts[0]]}

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any] | None) -> Any:
        """The counts that `to_dict` wrote; None of None."""
        if parts is None:
            return None
        classes, scores, *counts = parts["rows"]
        rows = np.array(classes, np.int64), np.array(scores, float), *map(counts_of, counts)
        facts = {name: value for name, value in parts.items() if name != "rows"}
        return cls(parts=(rows,), **facts)


@dataclass(frozen=True, eq=False)
class SortedScores:
    """The scores of all instances and of the positive ones in order, class by class."""

    ordered: Array  # (K, N)
    of_positives: Sequence[Array]

    def rows(self, c: int) -> _Rows:
        """What is counted by score of a class."""
        ordered = self.ordered[c]
        different, first = np.unique(ordered, return_index=True)
        place = np.searchsorted(different, self.of_positives[c])
        positives = np.bincount(place, minlength=len(first))
        negatives = np.diff(first, append=len(ordered)) - positives
        return np.zeros_like(first), different, positives, negatives

    def rises(self, c: int) -> _Rows:
        """The same as `ScoreCounts.rises` of a class."""
        ordered = self.ordered[c]
        own = self.of_positives[c]
        different, first = np.unique(own, return_index=True)
        start, end = (np.searchsorted(ordered, different, side) for side in ("left", "right"))
        positives = np.diff(first, append=len(own))
        tp = len(own) - first
        fp = len(ordered) - start - tp
        return np.zeros_like(first), positives, end - start - positives, tp, fp


@dataclass(frozen=True, eq=False)
class ScoreCounts(ScoreRows):
    """Positives and negatives by score; before merging, `sample` has the scores themselves."""

    sample: SortedScores | None = None

    @classmethod
    def of(cls, scores: Any, positive: Any, weights: Array | None = None) -> ScoreCounts:
        """The counts of a matrix of scores, one column a class, and of which are positive; CSR of
        both costs what is stored."""
        n, n_classes = scores.shape
        if sparse.issparse(scores) and sparse.issparse(positive):
            stored, relevant = RowScores(positive, scores).complete
            each = np.ones(n, np.int64) if weights is None else weights
            own = each[rows_of(stored)]
            # a class has labels that are neither stored nor true; what is left of none is rounding
            there = np.bincount(stored.indices, minlength=n_classes)
            left = each.sum() - _by_class(stored.indices, own, n_classes)
            rest = np.maximum(left, 0) * (n > there)
            zero = np.flatnonzero(rest)
            return cls.of_entries(
                n_classes,
                np.append(stored.indices, zero).astype(np.int64),
                np.append(stored.data.astype(float), np.zeros(len(zero))),
                np.append(own * relevant, np.zeros_like(rest[zero])),
                np.append(own * ~relevant, rest[zero]),
            )
        scores = np.asarray(dense(scores), dtype=float)
        positive = np.asarray(dense(positive), dtype=bool)
        if weights is None:
            ordered = np.add(scores.T, 0.0, order="C")  # a copy in which -0 is 0
            columns = zip(ordered, positive.T, strict=True)
            of_positives = [np.sort(own[rows]) for own, rows in columns]
            ordered.sort(axis=1)
            return cls(n_classes, (), sample=SortedScores(ordered, of_positives))
        classes = np.repeat(np.arange(n_classes), n)
        sides = (np.ravel((side * weights[:, None]).T) for side in (positive, ~positive))
        return cls.of_entries(n_classes, classes, scores.T.ravel(), *sides)

    @cached_property
    def counted(self) -> ScoreCounts:
        """The same in rows."""
        if self.sample is None:
            return self
        rows = _of_classes(map(self.sample.rows, range(self.n_classes)))
        return ScoreCounts(self.n_classes, (rows,))

    @classmethod
    def of_entries(
        cls, n_classes: int, classes: Ints, scores: Array, positives: AnyArray, negatives: AnyArray
    ) -> ScoreCounts:
        """The counts of entries: class, score, and how many positives and negatives have it."""
        rows: _Rows = (classes, scores + 0.0, positives, negatives)
        if positives.dtype.kind != "i":  # instances that weigh nothing leave no row
            there = positives + negatives > 0
            rows = tuple(column[there] for column in rows)
        return cls(n_classes, (joined_rows([rows]),))

    @cached_property
    def pooled(self) -> ScoreCounts:
        """The counts of all classes as of one."""
        if self.n_classes == 1:
            return self
        if self.sample is not None:
            ordered = np.sort(self.sample.ordered, axis=None)
            positives = np.sort(np.concatenate(self.sample.of_positives))
            return replace(self, n_classes=1, sample=SortedScores(ordered[None], [positives]))
        classes, *rest = self.whole.parts[0]
        return ScoreCounts(1, (joined_rows([(np.zeros_like(classes), *rest)]),), self.on_grid)

    def of_class(self, c: int) -> ScoreCounts:
        """The counts of one class."""
        if self.sample is not None:
            return ScoreCounts(1, (self.sample.rows(c),))
        classes, *rest = self.whole.parts[0]
        own = slice(*np.searchsorted(classes, (c, c + 1)))
        part = (np.zeros_like(classes[own]), *(column[own] for column in rest))
        return ScoreCounts(1, (part,), self.on_grid)

    @cached_property
    def totals(self) -> tuple[AnyArray, AnyArray]:
        """Positives and negatives of each class."""
        if self.sample is not None:
            positives = np.array([len(own) for own in self.sample.of_positives])
            return positives, self.sample.ordered.shape[1] - positives
        classes, _, *sides = self.whole.parts[0]
        pos, neg = (_by_class(classes, side, self.n_classes) for side in sides)
        return pos, neg

    @cached_property
    def auroc(self) -> tuple[Array, Array]:
        """Area under the ROC curve of each class, NaN without both kinds, and its error."""
        total, others = self.totals
        classes, own, beside, _, above = self.rises
        pairs = total.astype(float) * others
        defined = pairs > 0
        half = _by_class(classes, own * beside, self.n_classes) / 2
        won = _by_class(classes, own * (others[classes] - above), self.n_classes) + half
        areas = np.full(self.n_classes, np.nan)
        # of weights, rounding may lead beyond
        areas[defined] = np.clip(won[defined] / pairs[defined], 0, 1)
        return areas, np.where(defined & self.on_grid, ratio(half, pairs), 0.0)

    @cached_property
    def ap(self) -> tuple[Array, Array]:
        """Average precision of each class, NaN without positives, and its error."""
        _, pos, _, tp, fp = self.rises
        return self._under_curve(pos * (tp / (tp + fp)), first=1)

    @cached_property
    def interpolated(self) -> tuple[Array, Array]:
        """The same area, between thresholds as Davis & Goadrich 2006 interpolate."""
        _, pos, neg, tp, fp = self.rises
        slope = 1 + neg / pos
        before = tp - pos + fp - neg
        offset = fp - neg - neg / pos * (tp - pos)
        grown = np.log((tp + fp) / np.where(before > 0, before, 1))
        area = pos / slope - np.where(before > 0, offset / slope**2 * grown, 0)
        return self._under_curve(area, first=0)

    def _under_curve(self, area: Array, first: int) -> tuple[Array, Array]:
        """Areas from what each score adds, and their error within steps of the grid."""
        classes, pos, neg, tp, fp = self.rises
        total, _ = self.totals
        defined = total > 0
        areas = np.full(self.n_classes, np.nan)
        bounds = np.zeros(self.n_classes)
        under = _by_class(classes, area, self.n_classes)
        areas[defined] = np.minimum(under[defined] / total[defined], 1)
        if self.on_grid:
            high = pos * (tp / (tp + fp - neg))
            least = tp - pos + (first if pos.dtype.kind == "i" else 0)  # of weights, nobody knows
            low = pos * ratio(least, least + fp)
            sides = (_by_class(classes, off, self.n_classes) for off in (high - area, area - low))
            off = np.maximum(*sides)
            bounds[defined] = off[defined] / total[defined]
        return areas, bounds

    @cached_property
    def rises(self) -> _Rows:
        """Of each class and score of a positive: both kinds there, and with at least this score."""
        if self.sample is not None:
            return _of_classes(map(self.sample.rises, range(self.n_classes)))
        classes, _, pos, neg = self.whole.parts[0]
        sides = pd.DataFrame({"positive": pos, "negative": neg})[::-1]
        reached = sides.groupby(classes[::-1]).cumsum()[::-1].to_numpy().T
        rows = np.flatnonzero(pos)
        return tuple(column[rows] for column in (classes, pos, neg, *reached))

    def points(self) -> Columns:
        """At most `POINTS` points of the curve of the only class, even along recall and fpr."""
        (total,), (others,) = self.totals
        _, score, *sides = self.whole.parts[0]
        tp, fp = (np.cumsum(side[::-1])[::-1] for side in sides)
        with np.errstate(divide="ignore", invalid="ignore"):
            recall, fpr = tp / total, fp / others
        place = (recall + (fpr if others else recall)) / 2
        # Thresholds fall as places rise, so the first row of a bucket, by ascending score, reaches
        # farthest.
        begins = np.diff(np.floor(place * (POINTS - 1)), prepend=-1) != 0
        shown = np.flatnonzero(begins & (total > 0))[::-1]
        return {
            "threshold": (_ungridded(score) if self.on_grid else score)[shown],  # the end of a step
            "recall": recall[shown],
            "precision": ratio(tp[shown], tp[shown] + fp[shown]),
            "fpr": fpr[shown],
        }

    def bins(self, number: int) -> tuple[AnyArray, AnyArray, Array]:
        """Instances, positives and scores of bins of equal numbers; equal scores stay together."""
        _, score, pos, neg = self.whole.parts[0]
        n = pos + neg
        at = np.minimum((np.cumsum(n) - n / 2) / n.sum() * number, number - 1).astype(int)
        score = np.clip(_ungridded(score + 0.5), 0, 1) if self.on_grid else score
        size, positives = (np.bincount(at, side, number).astype(side.dtype) for side in (n, pos))
        return size, positives, np.bincount(at, n * score, number).astype(float, copy=False)

    def calibration_error(self, bins: int) -> Bounded:
        """Mean distance of share and score over bins (Naeini et al. 2015), and its error."""
        _, positives, total = self.bins(bins)
        _, score, pos, neg = self.whole.parts[0]
        n = pos + neg
        error = float(np.abs(positives - total).sum() / n.sum())
        if not self.on_grid:
            return error, 0.0
        # Scores lie up to half a step from the middle, and a step where a bin ends may belong to
        # both, in any order.
        ends = np.cumsum(n) / n.sum() * bins
        torn = np.ceil(ends) - 1 > np.floor(ends - n / n.sum() * bins)
        low, high = (np.clip(_ungridded(score + side), 0, 1) for side in (0, 1))
        return error, float(1 / STEPS + 2 * (pos * (1 - low) + neg * high)[torn].sum() / n.sum())


def counts_of(values: Sequence[Any]) -> AnyArray:
    """Counts from JSON: whole numbers, or sums of weights."""
    counts = np.array(values)
    return counts if counts.size else counts.astype(np.int64)


def _by_class(classes: Ints, values: AnyArray, n_classes: int) -> AnyArray:
    """The sum of the values of each class."""
    return np.bincount(classes, values, n_classes).astype(values.dtype, copy=False)


def _of_classes(pieces: Iterable[_Rows]) -> _Rows:
    """The rows of several classes, from those of each as of class 0."""
    numbered = ((classes + first, *rest) for first, (classes, *rest) in enumerate(pieces))
    return tuple(map(np.concatenate, zip(*numbered, strict=True)))


def joined_rows(parts: Sequence[_Rows]) -> _Rows:
    """The rows of all in order, those of the same class and score as one."""
    if not sum(len(part[0]) for part in parts):
        return parts[0]
    classes, scores, *counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((scores, classes))
    classes = classes[order]
    scores = scores[order]
    first = np.flatnonzero(np.append(True, (np.diff(classes) != 0) | (np.diff(scores) != 0)))
    sums = (np.add.reduceat(column[order], first) for column in counts)
    return classes[first], scores[first], *sums


def _ungridded(step: Array) -> Array:
    """The score at a place on the grid, infinite at its ends."""
    place = step / STEPS
    with np.errstate(divide="ignore"):
        score = np.where(place > 0.75, 0.25 / (1 - place), 2 * place - 0.5)
        return np.where(place < 0.25, 1 - 0.25 / place, score)


# ---- curves as points ----------------------------------------------------------------------------

#: Points of a curve at most.
POINTS = 200
#: What a curve is of: all label cells together, or one label.
MICRO = "micro"
LABEL = "label"


def _scopes(
    counts: ScoreCounts, whole: ScoreCounts, names: Sequence[Hashable], labels: Sequence[Hashable]
) -> Iterator[tuple[str, Hashable, ScoreCounts]]:
    """Scope, label and counts of all label cells together, and of each of these labels."""
    yield MICRO, None, whole.of_class(0)
    place = {name: i for i, name in enumerate(names[-counts.n_classes :])}  # of two the second
    for name in labels:
        if name in place:
            yield LABEL, name, counts.of_class(place[name])


def curve_table(
    counts: ScoreCounts | None, names: Sequence[Hashable], labels: Sequence[Hashable]
) -> pd.DataFrame:
    """The points of the curves of all cells and of these labels: see `Evaluation.curves`."""
    if counts is None:
        return pd.DataFrame(columns=["scope", "label", "threshold", "recall", "precision", "fpr"])
    tables = []
    for scope, label, part in _scopes(counts, counts.pooled, names, labels):
        points = part.points()
        of = {"scope": scope, "label": [label] * len(points["recall"])}
        tables.append(pd.DataFrame(of | points))
    return pd.concat(tables, ignore_index=True)


def reliability_table(
    counts: ScoreCounts | None,
    whole: ScoreCounts | None,
    names: Sequence[Hashable],
    labels: Sequence[Hashable],
    bins: int = BINS,
) -> pd.DataFrame:
    """What probabilities promise and what is true: see `Evaluation.reliability`."""
    if whole is None or counts is None:
        return pd.DataFrame(columns=["scope", "label", "n", "mean_score", "share"])
    tables = []
    for scope, label, part in _scopes(counts, whole, names, labels):
        size, positives, total = part.bins(bins)
        of = {"scope": scope, "label": [label] * len(size)}
        values = {"n": size, "mean_score": ratio(total, size), "share": ratio(positives, size)}
        tables.append(pd.DataFrame(of | values)[size > 0])
    return pd.concat(tables, ignore_index=True)


def percent_curves(sums: Any) -> Mapping[str, Mapping[int, float]]:
    """The curves of all label cells together by whole percents, as far as they are defined."""
    counts = sums.counts_by_score  # of `Sums`
    if counts is None:
        return {}
    by_name = {}
    whole = counts.pooled
    shares = np.arange(101) / 100
    (positives,), (negatives,) = whole.totals
    if positives:
        # as Davis & Goadrich 2006 interpolate; at recall 0 what precision tends to
        _, pos, neg, tp, fp = whole.rises
        found = shares * tp[0]
        missed = np.stack([-tp, pos - tp], axis=1).ravel()
        wrong = np.stack([fp, fp - neg], axis=1).ravel()
        given = np.where(found > 0, found + np.interp(-found, missed, wrong), 0)
        limit = 0.0 if fp[-1] > neg[-1] else pos[-1] / (pos[-1] + neg[-1])
        by_name["precision_at_recall_percent"] = ratio(found, given, limit)
    if positives and negatives:
        tp, fp = (offsets(side[::-1]) for side in whole.whole.parts[0][2:])
        reached = np.interp(shares * fp[-1], fp, tp) / tp[-1]  # the upper end where it jumps
        by_name["recall_at_false_positive_percent"] = reached
    curves = {name: dict(enumerate(values.tolist())) for name, values in by_name.items()}
    bins = reliability_table(counts, sums.confidence, (), ())
    if len(bins):
        percent = (100 * bins["mean_score"]).round().astype(int)
        sums_of = (bins[["n"]].assign(right=bins["share"] * bins["n"])).groupby(percent).sum()
        curves["share_true_at_score_percent"] = (sums_of["right"] / sums_of["n"]).to_dict()
    return curves


# ---- F_max and S_min over all thresholds ---------------------------------------------------------
# A class has the highest score of its own and of the classes below it (Clark & Radivojac 2013).

_ABOVE = 1 << 20  # scores of classes and of those above that are looked at together


@dataclass(frozen=True, eq=False)
class ThresholdSums(ScoreRows):
    """What falling thresholds change, by score: precisions, recalls, and wrong and found bits."""

    instances: int = 0
    with_truth: int = 0
    information: float | None = None  # of all true classes

    def __add__(self, other: ThresholdSums) -> ThresholdSums:  # type: ignore[override]
        known: Any = self.information, other.information
        return replace(
            super().__add__(other).bounded,
            instances=self.instances + other.instances,
            with_truth=self.with_truth + other.with_truth,
            information=None if None in known else sum(known),
        )

    @property
    def _changes(self) -> list[tuple[AnyArray, AnyArray]]:
        """The columns from the highest score to the lowest, and their running sums."""
        return [(column[::-1], np.cumsum(column[::-1])) for column in self.whole.parts[0][2:]]

    def f_max(self) -> Bounded:
        """The largest harmonic mean of precision and recall, NaN without truth, and its error."""
        if not self.with_truth:
            return float("nan"), 0.0
        (started, predicting), (_, gained), (loss, lost), (_, recall) = self._changes[:4]
        recall = recall / self.with_truth
        precisions = [(gained + lost) / predicting]
        if self.whole.on_grid:
            # Within a step precision cannot exceed what it gains there, over those who predicted
            # before; recall what it ends with.
            most = (gained + lost - loss) / np.maximum(predicting - started, 1)
            precisions.append(np.minimum(most, 1))
        curves = [ratio(2 * precision * recall, precision + recall) for precision in precisions]
        best, highest = (float(curves[i].max(initial=0.0)) for i in (0, -1))
        return best, max(highest - best, 0.0)

    def s_min(self) -> Bounded:
        """The least missing and wrong information, NaN if unknown, and its error."""
        if self.information is None:
            return float("nan"), 0.0
        (wrong, wronged), (_, found) = self._changes[4:]
        missing = np.append(self.information, np.maximum(self.information - found, 0))
        best = least = float(np.hypot(missing, np.append(0, wronged)).min())
        if self.whole.on_grid:
            least = float(np.hypot(missing[1:], wronged - wrong).min(initial=best))
        return best / self.instances, (best - least) / self.instances


@dataclass(frozen=True, eq=False)
class ClassesAbove:
    """The classes above labels, with themselves, and the bits of each beyond its parents."""

    above: Csr
    bits: Array | None

    @classmethod
    def of(
        cls, names: Sequence[Hashable], h: Hierarchy, train: Propensities | None
    ) -> ClassesAbove:
        """The classes above the named ones; the columns of the training labels have these names."""
        labels = h._number[h._positions(names, "label_names")]
        up, number = h._up.part(h._up.above(labels))
        above = sparse.csr_array(pattern(closure(up))[number[labels]][:, 1:])
        above.sort_indices()
        if train is None:
            return cls(above, None)
        # the training instances' sets with all ancestors
        extended = sparse.csr_array(train.labels @ above, dtype=bool)
        n, width = extended.shape
        have = np.bincount(extended.indices, minlength=width)
        parents = up.count[1:]
        first = up.parent[up.start[1:-1]]
        could = np.where(first == 0, n, have[first - 1])
        several = np.flatnonzero(parents > 1)
        if len(several):
            edges = spans(up.start[several + 1], parents[several])
            child = np.repeat(np.arange(len(several)), parents[several])
            upward = (np.ones(len(edges), np.int64), (up.parent[edges] - 1, child))
            met = extended.astype(np.int64) @ sparse.csr_array(upward, shape=(width, len(several)))
            all_met = met.indices[met.data == parents[several][met.indices]]
            could[several] = np.bincount(all_met, minlength=len(several))
        return cls(above, np.log2(np.maximum(could, 1) / np.maximum(have, 1)))

    def sums(self, true: Any, score: Any) -> ThresholdSums:
        """The sums over instances, given their labels and scores in [0, 1], N x K."""
        true = sparse.csr_array(true)
        score = sparse.csr_array(score if sparse.issparse(score) else np.asarray(score, float))
        size = row_sizes(self.above)
        cuts = stretches((score != 0) @ size + 1, _ABOVE)
        parts = (self._part(true[lo:hi], score[lo:hi], size) for lo, hi in cuts)
        return reduce(operator.add, parts)

    def _part(self, true: Csr, score: Csr, size: Ints) -> ThresholdSums:
        n = true.shape[0]
        width = self.above.shape[1]
        truth = true.astype(bool) @ self.above
        count = row_sizes(truth)
        positive = score.data > 0
        label = score.indices[positive]
        own = spans(self.above.indptr[label].astype(np.int64), size[label])
        cells = pd.DataFrame({"row": np.repeat(rows_of(score)[positive], size[label])})
        cells["place"] = self.above.indices[own]
        cells["score"] = np.repeat(score.data[positive].astype(float), size[label])
        # of each class the highest score
        cells = cells.sort_values(["row", "score"], ascending=[True, False], ignore_index=True)
        cells = cells.drop_duplicates(["row", "place"])
        key = cells["row"] * width + cells["place"]
        hit = key.isin(rows_of(truth) * width + truth.indices)
        values = {"found": hit.astype(float), "given": 1.0}
        information = None
        if self.bits is not None:
            bits = self.bits[cells["place"]]
            values |= {"wrong": bits * ~hit, "right": bits * hit}
            information = float(self.bits[truth.indices].sum())
        # sums of the classes of an instance down to each of its scores, and how they change
        sums = cells.assign(**values).groupby("row")[[*values]].cumsum()
        sums = sums[~cells.duplicated(["row", "score"], keep="last")]
        row = cells["row"][sums.index]
        sums.insert(0, "precision", sums["found"] / sums.pop("given"))
        sums["found"] /= np.maximum(count[row], 1)
        changes = sums.groupby(row).diff().fillna(sums)
        gained, *others = changes.to_numpy().T
        started = (~row.duplicated()).to_numpy(np.int64)
        of_score = started, np.maximum(gained, 0), np.minimum(gained, 0), *others
        scores = cells["score"][sums.index].to_numpy()
        rows = joined_rows([(np.zeros(len(scores), np.int64), scores, *of_score)])
        return ThresholdSums(1, (rows,), False, n, int((count > 0).sum()), information).bounded


#: The classes above the labels of the last call: batches ask for the same.
classes_above = lru_cache(maxsize=1)(ClassesAbove.of)
