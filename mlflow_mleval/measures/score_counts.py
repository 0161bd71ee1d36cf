"""How often each score goes with a positive and with a negative: what curves follow from, and what adds up over batches.

Equal scores are joined, so the counts are exact whatever the order of batches. With more than `EXACT` different scores they
are put on a fixed grid, the same for all data; what a measure can be wrong by is then computed with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Different scores, of all classes together, up to which the counts are exact; and the steps of the grid beyond.
EXACT, STEPS = 1 << 20, 1 << 16
#: Number of the class, score (or step of the grid), positives, negatives: one row for each score of a class, in this order.
_Rows = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """Positives and negatives by score for one or several classes; those of disjoint instances add up with ``+``.

    >>> counts = ScoreCounts.of([[0.2], [0.9], [0.9]], [[False], [True], [False]])
    >>> (counts + counts).auroc()[0]
    array([0.75])
    """

    n_classes: int
    parts: tuple[_Rows, ...]  # each of them at most half as long as the one before: joining many batches costs n log n
    on_grid: bool = False

    @classmethod
    def of(cls, scores: ArrayLike, positive: ArrayLike) -> ScoreCounts:
        """The counts of a matrix of scores, one column a class, and of which of them are positive."""
        scores, positive = np.asarray(scores, dtype=float), np.asarray(positive, dtype=bool)
        found, on_grid, size = [], False, 0
        for c in range(scores.shape[1]):
            rows = _joined([_rows(c, scores[:, c], positive[:, c])])
            size += len(rows[0])
            if not on_grid and size > EXACT:
                found, on_grid = list(map(_gridded, found)), True
            found.append(_gridded(rows) if on_grid else rows)
        return cls(scores.shape[1], (_joined(found),), on_grid)

    @classmethod
    def of_entries(
        cls, n_classes: int, classes: NDArray[np.int64], scores: NDArray[np.float64], positives: NDArray[np.int64],
        negatives: NDArray[np.int64],
    ) -> ScoreCounts:
        """The counts of entries, each a class, a score, and how many positives and negatives have it."""
        rows = _joined([(classes, scores + 0.0, positives, negatives)])
        on_grid = len(rows[0]) > EXACT
        return cls(n_classes, (_gridded(rows) if on_grid else rows,), on_grid)

    def __add__(self, other: ScoreCounts) -> ScoreCounts:
        on_grid = self.on_grid or other.on_grid
        sides = [part for side in (self, other) for part in (side._gridded_parts if on_grid else side.parts)]
        parts = sorted(sides, key=lambda part: -len(part[0]))
        while len(parts) > 1 and 2 * len(parts[-1][0]) > len(parts[-2][0]):
            parts[-2:] = [_joined(parts[-2:])]
        found = ScoreCounts(self.n_classes, tuple(parts), on_grid)
        return found if on_grid or max(len(part[0]) for part in parts) <= EXACT else found._on_grid()

    @property
    def _gridded_parts(self) -> tuple[_Rows, ...]:
        return self.parts if self.on_grid else tuple(map(_gridded, self.parts))

    def _on_grid(self) -> ScoreCounts:
        return ScoreCounts(self.n_classes, (_joined(self._gridded_parts),), True)

    @cached_property
    def whole(self) -> ScoreCounts:
        """The same in one part, on the grid if there are too many scores."""
        found = ScoreCounts(self.n_classes, (_joined(self.parts),), self.on_grid)
        return found if found.on_grid or len(found.parts[0][0]) <= EXACT else found._on_grid()

    def pooled(self) -> ScoreCounts:
        """The counts of all classes as of one."""
        classes, *rest = self.whole.parts[0]
        return ScoreCounts(1, (_joined([(np.zeros_like(classes), *rest)]),), self.whole.on_grid)

    def positives(self) -> NDArray[np.int64]:
        """Positives of each class."""
        classes, _, pos, _ = self.whole.parts[0]
        return _by_class(classes, pos, self.n_classes)

    def auroc(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Area under the ROC curve of each class, and what it can be wrong by; NaN for a class without both kinds.

        It is the share of pairs of a positive and a negative in which the positive has the higher score, ties counting half.
        """
        classes, _, pos, neg = self.whole.parts[0]
        total, others = (_by_class(classes, side, self.n_classes) for side in (pos, neg))
        below = np.cumsum(neg) - neg - (np.cumsum(others) - others)[classes]
        pairs = total.astype(float) * others
        known = pairs > 0
        half = _by_class(classes, pos * neg, self.n_classes) / 2
        found = np.full(self.n_classes, np.nan)
        found[known] = (_by_class(classes, pos * below, self.n_classes) + half)[known] / pairs[known]
        return found, np.where(known & self.whole.on_grid, half / np.maximum(pairs, 1), 0.0)

    def average_precision(self, interpolated: bool = False) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Area under the precision-recall curve of each class, and what it can be wrong by; NaN for a class without positives.

        The sum over thresholds of precision times gain in recall, as in scikit-learn; `interpolated` between thresholds as Davis
        & Goadrich 2006 do, negatives growing in proportion to positives.
        """
        classes, _, pos, neg = self.whole.parts[0]
        total, others = (_by_class(classes, side, self.n_classes) for side in (pos, neg))
        tp, fp = (np.cumsum(side)[classes] - np.cumsum(own) + own for side, own in ((total, pos), (others, neg)))
        before_tp, before_fp = tp - pos, fp - neg
        some = pos > 0
        classes, pos, neg, tp, fp, before_tp, before_fp = (v[some] for v in (classes, pos, neg, tp, fp, before_tp, before_fp))
        if interpolated:
            slope = 1 + neg / pos
            offset = before_fp - neg / pos * before_tp
            grown = np.log((tp + fp) / np.maximum(before_tp + before_fp, 1))
            area = pos / slope - np.where(before_tp + before_fp > 0, offset / slope**2 * grown, 0)
        else:
            area = pos * (tp / (tp + fp))
        known = total > 0
        found, bounds = np.full(self.n_classes, np.nan), np.zeros(self.n_classes)
        found[known] = _by_class(classes, area, self.n_classes)[known] / total[known]
        if self.whole.on_grid:  # scores of one step may stand in any order
            high = pos * (tp / (tp + before_fp))
            first = before_tp + (0 if interpolated else 1)
            low = pos * (first / np.maximum(first + fp, 1))
            off = np.maximum(_by_class(classes, high - area, self.n_classes), _by_class(classes, area - low, self.n_classes))
            bounds[known] = off[known] / total[known]
        return found, bounds

    def calibration_error(self, bins: int) -> float:
        """Mean distance of the share of positives from the mean score, over bins of equal numbers; of one class of probabilities.

        Equal scores stay together in the bin of their middle, so that the order of instances leaves no trace. Each bin weighs by
        its instances (Naeini et al. 2015, with the bins of equal mass of Nguyen & O'Connor 2015).
        """
        _, score, pos, neg = self.whole.parts[0]
        n = pos + neg
        at = np.minimum((np.cumsum(n) - n / 2) / n.sum() * bins, bins - 1).astype(int)
        gap = np.bincount(at, pos - n * (_ungridded(score) if self.whole.on_grid else score), bins)
        return float(np.abs(gap).sum() / n.sum())

    def to_dict(self) -> dict[str, Any]:
        """The counts in lists and numbers, for JSON."""
        rows = [column.tolist() for column in self.whole.parts[0]]
        return {"n_classes": self.n_classes, "on_grid": self.whole.on_grid, "rows": rows}

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> ScoreCounts:
        """The counts that `to_dict` wrote."""
        kinds = (np.int64, np.float64, np.int64, np.int64)
        rows = tuple(np.array(column, kind) for column, kind in zip(parts["rows"], kinds, strict=True))
        return cls(parts["n_classes"], (rows,), parts["on_grid"])


def _by_class(classes: NDArray[np.int64], values: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """The sum of the values of each class, whole numbers exactly; the classes ascend."""
    ends = np.searchsorted(classes, np.arange(n_classes + 1))
    return np.diff(np.append(0, np.cumsum(values))[ends])


def _rows(c: int, score: NDArray[np.float64], positive: NDArray[np.bool_]) -> _Rows:
    score = score + 0.0  # -0 is 0
    return np.full(len(score), c), score, positive.astype(np.int64), (~positive).astype(np.int64)


def _joined(parts: Sequence[_Rows]) -> _Rows:
    """The rows of all in order, those of the same class and score as one."""
    if not sum(len(part[0]) for part in parts):
        return parts[0]
    classes, scores, pos, neg = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((scores, classes))
    classes, scores = classes[order], scores[order]
    first = np.flatnonzero(np.append(True, (np.diff(classes) != 0) | (np.diff(scores) != 0)))
    return classes[first], scores[first], np.add.reduceat(pos[order], first), np.add.reduceat(neg[order], first)


def _gridded(rows: _Rows) -> _Rows:
    """The rows on the grid: half of its steps are even ones over [0, 1], a quarter each lies below and above."""
    classes, s, pos, neg = rows
    with np.errstate(divide="ignore"):
        place = np.where(s < 0, 0.25 / (1 - np.minimum(s, 0)), np.where(s > 1, 1 - 0.25 / np.maximum(s, 1), 0.25 + 0.5 * s))
    return _joined([(classes, np.minimum(np.floor(place * STEPS), STEPS - 1), pos, neg)])


def _ungridded(step: NDArray[np.float64]) -> NDArray[np.float64]:
    """The middle of a step over [0, 1]."""
    return np.clip(((step + 0.5) / STEPS - 0.25) * 2, 0, 1)
