"""How often each score goes with a positive and with a negative: what curves follow from, and what adds up over batches.

Equal scores are joined, so the counts are exact whatever the order of batches. With more than `EXACT` different scores they
are put on a fixed grid, the same for all data; what a measure can be wrong by is then computed with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
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

    def by_class(self) -> list[_Rows]:
        """The rows of each class."""
        rows = self.whole.parts[0]
        ends = np.searchsorted(rows[0], np.arange(self.n_classes + 1))
        return [tuple(column[a:b] for column in rows) for a, b in pairwise(ends)]

    def auroc(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Area under the ROC curve of each class, and what it can be wrong by; NaN for a class without both kinds.

        It is the share of pairs of a positive and a negative in which the positive has the higher score, ties counting half.
        """
        found, bounds = np.full(self.n_classes, np.nan), np.zeros(self.n_classes)
        for c, (_, _, pos, neg) in enumerate(self.by_class()):
            pairs = int(pos.sum()) * int(neg.sum())
            if pairs:
                below = np.cumsum(neg) - neg
                found[c] = (int(pos @ below) + int(pos @ neg) / 2) / pairs
                bounds[c] = int(pos @ neg) / 2 / pairs if self.whole.on_grid else 0.0
        return found, bounds

    def calibration_error(self, bins: int) -> float:
        """Mean distance of the share of positives from the mean score, over bins of equal numbers; of one class of probabilities.

        Equal scores stay together in the bin of their middle, so that the order of instances leaves no trace. Each bin weighs by
        its instances (Naeini et al. 2015, with the bins of equal mass of Nguyen & O'Connor 2015).
        """
        _, score, pos, neg = self.by_class()[0]
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
