"""The best of all thresholds on the scores of classes of a hierarchy: F_max and S_min (Clark &
Radivojac 2013).

A class has the highest score of its own and of the classes below it. All that is summed over
instances are whole numbers, for shares and bits are rounded to binary digits, so that the order of
instances and batches leaves no trace.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from scipy import sparse

from mlflow_mleval.measures.class_sets import pattern
from mlflow_mleval.measures.flat import rows_of
from mlflow_mleval.measures.hierarchy import Hierarchy, Parents, closure, spans, stretches
from mlflow_mleval.measures.inputs import Propensities
from mlflow_mleval.measures.score_counts import EXACT, ScoreRows, joined_rows
from mlflow_mleval.validation import AnyArray, Array, Ints

MEASURES = ("f_max", "s_min")
#: Shares are counted in units of 2^-54, bits in units of 2^-40, both in two parts of which the
#: lower has 30 digits.
_SHARE, _BITS, _LOWER = 54, 40, 30
_LOW = (1 << _LOWER) - 1
_BLOCK = 1 << 20  # scores of classes and of those above that are looked at together


@dataclass(frozen=True, eq=False)
class ThresholdSums(ScoreRows):
    """What falling thresholds change, by score: predicting instances, gain and loss of precision,
    recall, and maybe bits.

    The columns beside class (always 0) and score: instances that begin to predict; and, each in two
    parts, gain and loss of the sum of precisions, gain of the sum of recalls, and with training
    labels gain of wrong and of found information.
    """

    instances: int = 0
    with_truth: int = 0
    information: int | None = None  # of all true classes, in units of 2^-40 bits

    @property
    def most(self) -> int:
        """Its rows are several times as long as those of other counts."""
        return EXACT // 4

    def __add__(self, other: ThresholdSums) -> ThresholdSums:  # type: ignore[override]
        mine, theirs = self.information, other.information
        added = super().__add__(other).bounded
        assert isinstance(added, ThresholdSums)
        return replace(
            added,
            instances=self.instances + other.instances,
            with_truth=self.with_truth + other.with_truth,
            information=None if mine is None or theirs is None else mine + theirs,
        )

    @property
    def _changes(self) -> list[tuple[AnyArray, AnyArray]]:
        """The columns with their parts together, as numbers, from the highest score to the lowest;
        and their running sums.
        """
        started, *parts = (column[::-1] for column in self.whole.parts[0][2:])
        digits = [_SHARE] * 3 + [_BITS] * 2
        columns = [(started, np.cumsum(started))]
        for high, low, places in zip(
            parts[::2], parts[1::2], digits[: len(parts) // 2], strict=True
        ):
            columns.append(
                tuple(
                    np.ldexp(a.astype(float), _LOWER - places) + np.ldexp(b.astype(float), -places)
                    for a, b in ((high, low), (np.cumsum(high), np.cumsum(low)))
                )
            )
        return columns

    def f_max(self) -> tuple[float, float]:
        """The largest harmonic mean of precision and recall, and what it can be wrong by; NaN where
        nothing is true.
        """
        if not self.with_truth:
            return float("nan"), 0.0
        (started, predicting), (_, gained), (loss, lost), (_, recall) = self._changes[:4]
        recall = recall / self.with_truth
        best = _largest_f((gained + lost) / predicting, recall)
        if not self.whole.on_grid:
            return best, 0.0
        # Within a step precision cannot exceed what it gains there, over those who predicted
        # before; recall what it ends with.
        before = predicting - started
        highest = np.minimum((gained + lost - loss) / np.maximum(before, 1), 1)
        return best, max(_largest_f(highest, recall) - best, 0.0)

    def s_min(self) -> tuple[float, float]:
        """The least distance of missing and wrong information from none, and what it can be wrong
        by; NaN where not known.
        """
        if self.information is None:
            return float("nan"), 0.0
        (wrong, wronged), (_, found) = self._changes[4:]
        whole = float(np.ldexp(float(self.information), -_BITS))
        missing = np.append(whole, whole - found)
        best = float(np.hypot(missing, np.append(0, wronged)).min())
        least = (
            float(np.hypot(missing[1:], wronged - wrong).min(initial=best))
            if self.whole.on_grid
            else best
        )
        return best / self.instances, (best - least) / self.instances


def _largest_f(precision: Array, recall: Array) -> float:
    both = precision + recall
    return float(
        np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0).max(
            initial=0.0
        )
    )


@dataclass(frozen=True, eq=False)
class ClassesAbove:
    """The classes above labels, and the information of each.

    Attributes
    ----------
    above : csr_array of bool, shape (K, A)
        Of each label itself and its ancestors.
    bits : array of int, shape (A,), or None
        Information of each class beyond its parents, in units of 2^-40; None without training
        labels.
    """

    above: sparse.csr_array
    bits: Ints | None

    @classmethod
    def of(
        cls, names: Sequence[Hashable], h: Hierarchy, train: Propensities | None
    ) -> ClassesAbove:
        """The classes above the named ones; the columns of the training labels have these names."""
        labels = h._number[h._positions(names, "label_names")]
        up, number = h._up.part(h._up.above(labels))
        above = sparse.csr_array(pattern(closure(up))[number[labels]][:, 1:])
        above.sort_indices()
        return cls(above, None if train is None else _information(train.labels @ above, up))

    def sums(self, true: Any, score: Any) -> ThresholdSums:
        """The sums over instances, given their labels and scores in [0, 1], N x K."""
        true = sparse.csr_array(true)
        score = sparse.csr_array(score if sparse.issparse(score) else np.asarray(score, float))
        size = np.diff(self.above.indptr).astype(np.int64)
        cost = np.diff(np.append(0, np.cumsum(size[score.indices]))[score.indptr])
        parts = (
            self._part(true[lo:hi], score[lo:hi], size) for lo, hi in stretches(cost + 1, _BLOCK)
        )
        return reduce(operator.add, parts)

    def _part(self, true: sparse.csr_array, score: sparse.csr_array, size: Ints) -> ThresholdSums:
        n, width = true.shape[0], self.above.shape[1]
        truth = true.astype(bool) @ self.above
        truth.sort_indices()
        row = rows_of(score)
        positive = score.data > 0
        row, label, value = (
            row[positive],
            score.indices[positive],
            score.data[positive].astype(float),
        )
        own = spans(self.above.indptr[label].astype(np.int64), size[label])
        cell = np.repeat(row * width, size[label]) + self.above.indices[own]
        value = np.repeat(value, size[label])
        order = np.lexsort((-value, cell))
        order = order[np.diff(cell[order], prepend=-1) > 0]  # of each class the highest score
        cell, value = cell[order], value[order]
        row, place = np.divmod(cell, width)
        order = np.lexsort((-value, row))
        row, place, cell, value = row[order], place[order], cell[order], value[order]
        wanted = rows_of(truth) * width + truth.indices
        hit = np.isin(cell, wanted, assume_unique=True)
        count = np.diff(truth.indptr)

        last = np.append((np.diff(row) > 0) | (np.diff(value) != 0), True)[
            : len(row)
        ]  # of a score in an instance
        head = np.diff(row[last], prepend=-1) > 0
        first = np.flatnonzero(np.diff(row, prepend=-1) > 0)

        def reached(weights: Ints) -> Ints:
            """Sums of the classes of an instance down to each of its scores."""
            total = np.cumsum(weights)
            return (
                total
                - np.repeat(total[first] - weights[first], np.diff(np.append(first, len(row))))
            )[last]

        def changes(values: Ints) -> Ints:
            return values - np.where(head, 0, np.append(0, values[:-1])[: len(values)])

        found, given = reached(hit.astype(np.int64)), reached(np.ones(len(row), np.int64))
        precision = changes(_whole(found / np.maximum(given, 1)))
        recall = changes(_whole(found / np.maximum(count[row[last]], 1)))
        columns = [head.astype(np.int64)]
        sums = [np.maximum(precision, 0), np.minimum(precision, 0), recall]
        information = None
        if self.bits is not None:
            bits = self.bits[place]
            sums += [
                changes(reached(np.where(hit, 0, bits))),
                changes(reached(np.where(hit, bits, 0))),
            ]
            all_bits = self.bits[truth.indices]
            information = (int((all_bits >> _LOWER).sum()) << _LOWER) + int((all_bits & _LOW).sum())
        for column in sums:
            columns += [column >> _LOWER, column & _LOW]
        rows = joined_rows([(np.zeros(last.sum(), np.int64), value[last], *columns)])
        return ThresholdSums(1, (rows,), False, n, int((count > 0).sum()), information).bounded


def _whole(share: Array) -> Ints:
    return np.ldexp(share, _SHARE).astype(np.int64)


def _information(extended: sparse.csr_array, up: Parents) -> Ints:
    """The information of each class but the virtual root, from the training instances' sets with
    all ancestors.
    """
    extended = sparse.csr_array(extended, dtype=bool)
    n, width = extended.shape
    have = np.bincount(extended.indices, minlength=width)
    parents = up.count[1:]
    first = up.parent[up.start[1:-1]]
    could = np.where(first == 0, n, have[first - 1])
    several = np.flatnonzero(parents > 1)
    if len(several):
        edges = spans(up.start[several + 1], parents[several])
        child = np.repeat(np.arange(len(several)), parents[several])
        above = (np.ones(len(edges), np.int64), (up.parent[edges] - 1, child))
        met = extended.astype(np.int64) @ sparse.csr_array(above, shape=(width, len(several)))
        could[several] = np.bincount(
            met.indices[met.data == parents[several][met.indices]], minlength=len(several)
        )
    bits = np.log2(np.maximum(could, 1) / np.maximum(have, 1))
    return np.rint(np.ldexp(bits, _BITS)).astype(np.int64)


#: The classes above the labels of the last call: batches ask for the same.
classes_above = lru_cache(maxsize=1)(ClassesAbove.of)
