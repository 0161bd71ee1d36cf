"""How often each score goes with a positive and with a negative: what curves follow from, and what
adds up over batches.

Equal scores are joined, so the counts are exact whatever the order of batches. With more than
`EXACT` different scores they are put on a fixed grid, the same for all data; what a measure can be
wrong by is then computed with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlflow_mleval.measures.flat import ratio

#: Different scores, of all classes together, up to which the counts are exact; and the steps of the
#: grid beyond.
EXACT, STEPS = 1 << 20, 1 << 16
#: Number of the class, score (or step of the grid), and what is counted, in the order of class and
#: score.
_Rows = tuple[NDArray[Any], ...]


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """What is counted by score for one or several classes; that of disjoint instances adds up with
    ``+``.

    Counts are whole numbers, or sums of the weights of instances, and then real ones.
    """

    n_classes: int
    parts: tuple[
        _Rows, ...
    ]  # each of them at most half as long as the one before: joining many batches costs n log n
    on_grid: bool = False

    @property
    def most(self) -> int:
        """Different scores up to which the counts are exact."""
        return EXACT

    def __add__(self, other: ScoreRows) -> ScoreRows:
        on_grid = self.on_grid or other.on_grid
        sides = [
            part
            for side in (self, other)
            for part in (side._gridded_parts if on_grid else side.parts)
        ]
        parts = sorted(sides, key=lambda part: -len(part[0]))
        while len(parts) > 1 and 2 * len(parts[-1][0]) > len(parts[-2][0]):
            parts[-2:] = [_joined(parts[-2:])]
        found = replace(self, parts=tuple(parts), on_grid=on_grid)
        return (
            found
            if on_grid or max(len(part[0]) for part in parts) <= self.most
            else found._on_grid()
        )

    @property
    def _gridded_parts(self) -> tuple[_Rows, ...]:
        return self.parts if self.on_grid else tuple(map(_gridded, self.parts))

    def _on_grid(self) -> ScoreRows:
        return replace(self, parts=(_joined(self._gridded_parts),), on_grid=True)

    @cached_property
    def whole(self) -> Any:
        """The same in one part, on the grid if there are too many scores."""
        found = replace(self, parts=(_joined(self.parts),))
        return found if found.on_grid or len(found.parts[0][0]) <= self.most else found._on_grid()

    @property
    def cells(self) -> int:
        """How many numbers JSON takes."""
        rows = self.whole.parts[0]
        return len(rows) * len(rows[0])

    def to_dict(self) -> dict[str, Any]:
        """The counts in lists and numbers, for JSON."""
        rows = [column.tolist() for column in self.whole.parts[0]]
        return {
            **{f.name: getattr(self.whole, f.name) for f in fields(self) if f.name != "parts"},
            "rows": rows,
        }

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> Any:
        """The counts that `to_dict` wrote."""
        classes, scores, *counts = parts["rows"]
        rows = np.array(classes, np.int64), np.array(scores, float), *map(counts_of, counts)
        return cls(
            parts=(rows,), **{name: value for name, value in parts.items() if name != "rows"}
        )


@dataclass(frozen=True, eq=False)
class ScoreCounts(ScoreRows):
    """Positives and negatives by score for one or several classes.

    >>> counts = ScoreCounts.of([[0.2], [0.9], [0.9]], [[False], [True], [False]])
    >>> (counts + counts).auroc()[0]
    array([0.75])
    """

    @classmethod
    def of(
        cls, scores: ArrayLike, positive: ArrayLike, weights: NDArray[np.float64] | None = None
    ) -> ScoreCounts:
        """The counts of a matrix of scores, one column a class, and of which of them are
        positive.
        """
        scores, positive = np.asarray(scores, dtype=float), np.asarray(positive, dtype=bool)
        found: list[Any] = []
        on_grid, size = False, 0
        for c in range(scores.shape[1]):
            rows = _joined([_rows(c, scores[:, c], positive[:, c], weights)])
            size += len(rows[0])
            if not on_grid and size > EXACT:
                found, on_grid = list(map(_gridded, found)), True
            found.append(_gridded(rows) if on_grid else rows)
        return cls(scores.shape[1], (_joined(found),), on_grid)

    @classmethod
    def of_entries(
        cls,
        n_classes: int,
        classes: NDArray[np.int64],
        scores: NDArray[np.float64],
        positives: NDArray[Any],
        negatives: NDArray[Any],
    ) -> ScoreCounts:
        """The counts of entries, each a class, a score, and how many positives and negatives have
        it.
        """
        rows = _joined([_present(classes, scores + 0.0, positives, negatives)])
        on_grid = len(rows[0]) > EXACT
        return cls(n_classes, (_gridded(rows) if on_grid else rows,), on_grid)

    @cached_property
    def pooled(self) -> ScoreCounts:
        """The counts of all classes as of one."""
        classes, *rest = self.whole.parts[0]
        return ScoreCounts(1, (_joined([(np.zeros_like(classes), *rest)]),), self.whole.on_grid)

    def lower_edges(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores that these stand for, of a step of the grid its lower end."""
        return _ungridded(scores) if self.whole.on_grid else scores

    def positives(self) -> NDArray[Any]:
        """Positives of each class."""
        classes, _, pos, _ = self.whole.parts[0]
        return _by_class(classes, pos, self.n_classes)

    def auroc(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Area under the ROC curve of each class, and what it can be wrong by; NaN for a class
        without both kinds.

        It is the share of pairs of a positive and a negative in which the positive has the higher
        score, ties counting half.
        """
        classes, _, pos, neg = self.whole.parts[0]
        total, others = (_by_class(classes, side, self.n_classes) for side in (pos, neg))
        below = _running(classes, neg, others) - neg
        pairs = total.astype(float) * others
        known = pairs > 0
        half = _by_class(classes, pos * neg, self.n_classes) / 2
        found = np.full(self.n_classes, np.nan)
        area = (_by_class(classes, pos * below, self.n_classes) + half)[known] / pairs[known]
        found[known] = np.minimum(area, 1)  # of weights, rounding may lead beyond
        return found, np.where(known & self.whole.on_grid, ratio(half, pairs), 0.0)

    def average_precision(
        self, interpolated: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Area under the precision-recall curve of each class, and what it can be wrong by; NaN for
        a class without positives.

        The sum over thresholds of precision times gain in recall, as in scikit-learn;
        `interpolated` between thresholds as Davis & Goadrich 2006 do, negatives growing in
        proportion to positives.
        """
        classes, _, pos, neg = self.whole.parts[0]
        total = _by_class(classes, pos, self.n_classes)
        tp, fp = self.reached()
        before_tp, before_fp = tp - pos, fp - neg
        some = pos > 0
        classes, pos, neg, tp, fp, before_tp, before_fp = (
            v[some] for v in (classes, pos, neg, tp, fp, before_tp, before_fp)
        )
        if interpolated:
            slope = 1 + neg / pos
            offset = before_fp - neg / pos * before_tp
            before = before_tp + before_fp
            grown = np.log((tp + fp) / np.where(before > 0, before, 1))
            area = pos / slope - np.where(before > 0, offset / slope**2 * grown, 0)
        else:
            area = pos * (tp / (tp + fp))
        known = total > 0
        found, bounds = np.full(self.n_classes, np.nan), np.zeros(self.n_classes)
        found[known] = np.minimum(_by_class(classes, area, self.n_classes)[known] / total[known], 1)
        if self.whole.on_grid:  # scores of one step may stand in any order
            high = pos * (tp / (tp + before_fp))
            whole_numbers = (
                pos.dtype.kind == "i"
            )  # the first positive of a step counts 1; of weights, nobody knows
            first = before_tp + (1 if whole_numbers and not interpolated else 0)
            low = pos * ratio(first, first + fp)
            off = np.maximum(
                _by_class(classes, high - area, self.n_classes),
                _by_class(classes, area - low, self.n_classes),
            )
            bounds[known] = off[known] / total[known]
        return found, bounds

    def reached(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """For each class and score the positives and the negatives with at least this score."""
        classes, _, *sides = (column[::-1] for column in self.whole.parts[0])
        totals = (_by_class(classes[::-1], side[::-1], self.n_classes) for side in sides)
        last = self.n_classes - 1 - classes
        tp, fp = (
            _running(last, side, total[::-1])[::-1]
            for side, total in zip(sides, totals, strict=True)
        )
        return tp, fp

    def bins(self, number: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
        """Instances, positives and the sum of scores of each of so many bins of equal numbers; of
        one class of probabilities.

        Equal scores stay together in the bin of their middle, so that the order of instances leaves
        no trace.
        """
        _, score, pos, neg = self.whole.parts[0]
        n = pos + neg
        at = np.minimum((np.cumsum(n) - n / 2) / n.sum() * number, number - 1).astype(int)
        score = np.clip(_ungridded(score + 0.5), 0, 1) if self.whole.on_grid else score
        size, positives = (np.bincount(at, side, number).astype(side.dtype) for side in (n, pos))
        return size, positives, np.bincount(at, n * score, number).astype(float, copy=False)

    def calibration_error(self, bins: int) -> tuple[float, float]:
        """Mean distance of the share of positives from the mean score over bins, and what it can be
        wrong by.

        Each bin weighs by its instances (Naeini et al. 2015, with the bins of equal mass of Nguyen
        & O'Connor 2015).
        """
        _, positives, total = self.bins(bins)
        _, score, pos, neg = self.whole.parts[0]
        n = pos + neg
        error = float(np.abs(positives - total).sum() / n.sum())
        if not self.whole.on_grid:
            return error, 0.0
        # Scores lie up to half a step from the middle, and a step where a bin ends may belong to
        # both, in any order.
        ends = np.cumsum(n) / n.sum() * bins
        torn = np.ceil(ends) - 1 > np.floor(ends - n / n.sum() * bins)
        low, high = (np.clip(_ungridded(score + side), 0, 1) for side in (0, 1))
        return error, float(1 / STEPS + 2 * (pos * (1 - low) + neg * high)[torn].sum() / n.sum())


def counts_of(values: Sequence[float]) -> NDArray[Any]:
    """Counts from JSON: whole numbers, or sums of weights."""
    weighted = any(isinstance(value, float) for value in values)
    return np.array(values, float if weighted else np.int64)


def _by_class(classes: NDArray[np.int64], values: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """The sum of the values of each class, whole numbers exactly; the classes ascend."""
    ends = np.searchsorted(classes, np.arange(n_classes + 1))
    return np.diff(np.append(0, np.cumsum(values))[ends])


def _running(
    classes: NDArray[np.int64], values: NDArray[Any], totals: NDArray[Any]
) -> NDArray[Any]:
    """Running sums of the values within each class, of which these are the totals; the classes
    ascend.
    """
    if values.dtype.kind == "i":
        return np.cumsum(values) - (np.cumsum(totals) - totals)[classes]
    ends = np.searchsorted(classes, np.arange(len(totals) + 1))
    found = np.empty_like(values)
    for start, end in pairwise(ends.tolist()):  # what classes before weigh would leave remainders
        np.cumsum(values[start:end], out=found[start:end])
    return found


def _rows(
    c: int,
    score: NDArray[np.float64],
    positive: NDArray[np.bool_],
    weights: NDArray[np.float64] | None,
) -> _Rows:
    score = score + 0.0  # -0 is 0
    sides = positive, ~positive
    counts = (side.astype(np.int64) if weights is None else side * weights for side in sides)
    return _present(np.full(len(score), c), score, *counts)


def _present(
    classes: NDArray[np.int64], scores: NDArray[np.float64], *counts: NDArray[Any]
) -> _Rows:
    """The rows without those of instances that weigh nothing."""
    if counts[0].dtype.kind == "i":
        return classes, scores, *counts
    there = np.add(*counts) > 0
    return tuple(column[there] for column in (classes, scores, *counts))


def _joined(parts: Sequence[_Rows]) -> _Rows:
    """The rows of all in order, those of the same class and score as one."""
    if not sum(len(part[0]) for part in parts):
        return parts[0]
    classes, scores, *counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((scores, classes))
    classes, scores = classes[order], scores[order]
    first = np.flatnonzero(np.append(True, (np.diff(classes) != 0) | (np.diff(scores) != 0)))
    return (
        classes[first],
        scores[first],
        *(np.add.reduceat(column[order], first) for column in counts),
    )


def _gridded(rows: _Rows) -> _Rows:
    """The rows on the grid: half of its steps are even ones over [0, 1], a quarter each lies below
    and above.
    """
    classes, s, *counts = rows
    with np.errstate(divide="ignore"):
        place = np.where(
            s < 0,
            0.25 / (1 - np.minimum(s, 0)),
            np.where(s > 1, 1 - 0.25 / np.maximum(s, 1), 0.25 + 0.5 * s),
        )
    return _joined([(classes, np.minimum(np.floor(place * STEPS), STEPS - 1), *counts)])


def _ungridded(step: NDArray[np.float64]) -> NDArray[np.float64]:
    """The score at a place on the grid, infinite at its ends."""
    place = step / STEPS
    with np.errstate(divide="ignore"):
        return np.where(
            place < 0.25,
            1 - 0.25 / place,
            np.where(place > 0.75, 0.25 / (1 - place), 2 * place - 0.5),
        )
