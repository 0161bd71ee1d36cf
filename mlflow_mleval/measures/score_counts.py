"""How often each score goes with right and wrong: what curves, the areas under them and calibration
follow from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from mlflow_mleval.measures.flat import ratio
from mlflow_mleval.measures.registry import ECE_NAME, numbers
from mlflow_mleval.validation import AnyArray, Array, Bools, Ints

# --------------------------------------------------------------------------------------------------
# How often each score goes with a positive and with a negative: what curves follow from, and what
# adds up over batches.
#
# Equal scores are joined, so the counts are exact whatever the order of batches. With more than
# `EXACT` different scores they are put on a fixed grid, the same for all data; what a measure can
# be wrong by is then computed with it.

#: Different scores, of all classes together, up to which the counts are exact; and the steps of the
#: grid beyond.
EXACT, STEPS = 1 << 20, 1 << 16
#: Number of the class, score (or step of the grid), and what is counted, in the order of class and
#: score.
_Rows = tuple[AnyArray, ...]


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
        both = replace(self, parts=tuple(parts), on_grid=on_grid)
        return (
            both if on_grid or max(len(part[0]) for part in parts) <= self.most else both._on_grid()
        )

    @property
    def _gridded_parts(self) -> tuple[_Rows, ...]:
        return self.parts if self.on_grid else tuple(map(_gridded, self.parts))

    def _on_grid(self) -> ScoreRows:
        return replace(self, parts=(_joined(self._gridded_parts),), on_grid=True)

    @cached_property
    def whole(self) -> Any:
        """The same in one part, on the grid if there are too many scores."""
        joined = replace(self, parts=(_joined(self.parts),))
        return (
            joined if joined.on_grid or len(joined.parts[0][0]) <= self.most else joined._on_grid()
        )

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
        cls, scores: ArrayLike, positive: ArrayLike, weights: Array | None = None
    ) -> ScoreCounts:
        """The counts of a matrix of scores, one column a class, and of which of them are
        positive.
        """
        scores, positive = np.asarray(scores, dtype=float), np.asarray(positive, dtype=bool)
        columns: list[Any] = []
        on_grid, size = False, 0
        for c in range(scores.shape[1]):
            rows = _joined([_rows(c, scores[:, c], positive[:, c], weights)])
            size += len(rows[0])
            if not on_grid and size > EXACT:
                columns, on_grid = list(map(_gridded, columns)), True
            columns.append(_gridded(rows) if on_grid else rows)
        return cls(scores.shape[1], (_joined(columns),), on_grid)

    @classmethod
    def of_entries(
        cls,
        n_classes: int,
        classes: Ints,
        scores: Array,
        positives: AnyArray,
        negatives: AnyArray,
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

    def lower_edges(self, scores: Array) -> Array:
        """The scores that these stand for, of a step of the grid its lower end."""
        return _ungridded(scores) if self.whole.on_grid else scores

    def positives(self) -> AnyArray:
        """Positives of each class."""
        classes, _, pos, _ = self.whole.parts[0]
        return _by_class(classes, pos, self.n_classes)

    def auroc(self) -> tuple[Array, Array]:
        """Area under the ROC curve of each class, and what it can be wrong by; NaN for a class
        without both kinds.

        It is the share of pairs of a positive and a negative in which the positive has the higher
        score, ties counting half.
        """
        classes, _, pos, neg = self.whole.parts[0]
        total, others = (_by_class(classes, side, self.n_classes) for side in (pos, neg))
        below = _running(classes, neg, others) - neg
        pairs = total.astype(float) * others
        defined = pairs > 0
        half = _by_class(classes, pos * neg, self.n_classes) / 2
        areas = np.full(self.n_classes, np.nan)
        area = (_by_class(classes, pos * below, self.n_classes) + half)[defined] / pairs[defined]
        areas[defined] = np.minimum(area, 1)  # of weights, rounding may lead beyond
        return areas, np.where(defined & self.whole.on_grid, ratio(half, pairs), 0.0)

    def average_precision(self, interpolated: bool = False) -> tuple[Array, Array]:
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
        defined = total > 0
        areas, bounds = np.full(self.n_classes, np.nan), np.zeros(self.n_classes)
        areas[defined] = np.minimum(
            _by_class(classes, area, self.n_classes)[defined] / total[defined], 1
        )
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
            bounds[defined] = off[defined] / total[defined]
        return areas, bounds

    def reached(self) -> tuple[AnyArray, AnyArray]:
        """For each class and score the positives and the negatives with at least this score."""
        classes, _, *sides = (column[::-1] for column in self.whole.parts[0])
        totals = (_by_class(classes[::-1], side[::-1], self.n_classes) for side in sides)
        last = self.n_classes - 1 - classes
        tp, fp = (
            _running(last, side, total[::-1])[::-1]
            for side, total in zip(sides, totals, strict=True)
        )
        return tp, fp

    def bins(self, number: int) -> tuple[AnyArray, AnyArray, Array]:
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


def counts_of(values: Sequence[float]) -> AnyArray:
    """Counts from JSON: whole numbers, or sums of weights."""
    weighted = any(isinstance(value, float) for value in values)
    return np.array(values, float if weighted else np.int64)


def _by_class(classes: Ints, values: AnyArray, n_classes: int) -> AnyArray:
    """The sum of the values of each class, whole numbers exactly; the classes ascend."""
    ends = np.searchsorted(classes, np.arange(n_classes + 1))
    return np.diff(np.append(0, np.cumsum(values))[ends])


def _running(classes: Ints, values: AnyArray, totals: AnyArray) -> AnyArray:
    """Running sums of the values within each class, of which these are the totals; the classes
    ascend.
    """
    if values.dtype.kind == "i":
        return np.cumsum(values) - (np.cumsum(totals) - totals)[classes]
    ends = np.searchsorted(classes, np.arange(len(totals) + 1))
    sums = np.empty_like(values)
    for start, end in pairwise(ends.tolist()):  # what classes before weigh would leave remainders
        np.cumsum(values[start:end], out=sums[start:end])
    return sums


def _rows(
    c: int,
    score: Array,
    positive: Bools,
    weights: Array | None,
) -> _Rows:
    score = score + 0.0  # -0 is 0
    sides = positive, ~positive
    counts = (side.astype(np.int64) if weights is None else side * weights for side in sides)
    return _present(np.full(len(score), c), score, *counts)


def _present(classes: Ints, scores: Array, *counts: AnyArray) -> _Rows:
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


def _ungridded(step: Array) -> Array:
    """The score at a place on the grid, infinite at its ends."""
    place = step / STEPS
    with np.errstate(divide="ignore"):
        return np.where(
            place < 0.25,
            1 - 0.25 / place,
            np.where(place > 0.75, 0.25 / (1 - place), 2 * place - 0.5),
        )


# --------------------------------------------------------------------------------------------------
# What is counted of one label of several classes: pairs of classes, ranks of the true one, and
# scores.


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """What is counted of one label beside `Sums`, in instances or their weights; it adds up with
    ``+``.

    Attributes
    ----------
    confusion : csr_array of int, shape (C, C)
        Instances by true and predicted class.
    ranks : array of int, shape (C,), or None
        Instances whose true class has the first, second, … highest score; None without a score for
        each class.
    scores : ScoreCounts or None
        For each class, of two for the second, the scores of its instances and of the others; None
        without scores.
    confidence : ScoreCounts or None
        The largest probabilities, of instances that are right and of those that are wrong; None
        without probabilities.
    """

    confusion: sparse.csr_array
    ranks: Ints | None = None
    scores: ScoreCounts | None = None
    confidence: ScoreCounts | None = None

    def __add__(self, other: ClassCounts) -> ClassCounts:
        further = {}
        for name in ("ranks", "scores", "confidence"):
            mine, theirs = getattr(self, name), getattr(other, name)
            further[name] = None if mine is None or theirs is None else mine + theirs
        return ClassCounts(sparse.csr_array(self.confusion + other.confusion), **further)

    @property
    def cells(self) -> int:
        """How many numbers JSON takes."""
        return 3 * self.confusion.nnz + sum(
            part.cells for part in (self.scores, self.confidence) if part is not None
        )

    def to_dict(self) -> dict[str, Any]:
        """The counts in lists and numbers, for JSON."""
        pairs = self.confusion.tocoo()
        further = {
            name: part and part.to_dict()
            for name, part in (("scores", self.scores), ("confidence", self.confidence))
        }
        table = [pairs.row.tolist(), pairs.col.tolist(), pairs.data.tolist()]
        return {
            "confusion": table,
            "ranks": None if self.ranks is None else self.ranks.tolist(),
            **further,
        }

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any], n_classes: int) -> ClassCounts:
        """The counts that `to_dict` wrote."""
        row, column, number = parts["confusion"]
        confusion = sparse.csr_array(
            (counts_of(number), (row, column)), shape=(n_classes, n_classes)
        )
        ranks = None if parts["ranks"] is None else counts_of(parts["ranks"])
        further = {
            name: parts[name] and ScoreCounts.from_dict(parts[name])
            for name in ("scores", "confidence")
        }
        return cls(confusion, ranks, **further)


# --------------------------------------------------------------------------------------------------
# Sparse scores beside sparse truth: tables of the stored entries alone, whatever the number of
# labels.

_BLOCK = 1 << 16  # entries that are looked at together: the working arrays stay in the cache


@dataclass(frozen=True, eq=False)
class StoredScores:
    """Scores N x K other than 0, as they are stored, and which of them are of relevant labels.

    Both matrices are CSR with sorted indices and without entries given twice, the truth boolean; no
    stored score is 0. All labels that are not stored tie at 0, below every positive score and above
    every negative one.
    """

    true: sparse.csr_array
    score: sparse.csr_array

    @cached_property
    def counts(self) -> Ints:
        """(N,): stored scores of each row."""
        return np.diff(self.score.indptr).astype(np.int64)

    @cached_property
    def zeros(self) -> Ints:
        """(N,): labels of each row whose score is 0."""
        return self.score.shape[1] - self.counts

    @cached_property
    def positive(self) -> Ints:
        """(N,): scores above 0 of each row."""
        return np.bincount(rows_of(self.score)[self.score.data > 0], minlength=self.score.shape[0])

    @cached_property
    def _cells(self) -> tuple[Ints, Ints]:
        return tuple(rows_of(m) * m.shape[1] + m.indices for m in (self.true, self.score))

    @cached_property
    def _met(self) -> tuple[Bools, Bools]:
        """Which entries of the truth have a stored score, and which stored scores are of relevant
        labels.
        """
        wanted, there = self._cells
        relevant = np.zeros(len(there), bool)
        if not len(there):
            return np.zeros(len(wanted), bool), relevant
        at = np.minimum(np.searchsorted(there, wanted), len(there) - 1)
        met = there[at] == wanted
        relevant[at[met]] = True
        return met, relevant

    @cached_property
    def relevant(self) -> Bools:
        """Which stored scores are of relevant labels."""
        return self._met[1]

    @cached_property
    def missed(self) -> tuple[Ints, Ints]:
        """Row and label of the relevant labels whose score is 0, in order."""
        lost = ~self._met[0]
        return rows_of(self.true)[lost], self.true.indices[lost].astype(np.int64)

    @cached_property
    def missed_counts(self) -> Ints:
        """(N,): relevant labels of each row whose score is 0."""
        return np.bincount(self.missed[0], minlength=self.true.shape[0])

    def is_true(self, rows: Ints, labels: Ints) -> Bools:
        """Whether these labels are relevant in these rows."""
        wanted = self._cells[0]
        if not len(wanted):
            return np.zeros(len(rows), bool)
        cells = rows * self.true.shape[1] + labels
        return wanted[np.minimum(np.searchsorted(wanted, cells), len(wanted) - 1)] == cells

    def stored_above(self, rows: Ints, labels: Ints) -> Ints:
        """How many stored labels of these rows have a higher index than these labels."""
        at = np.searchsorted(self._cells[1], rows * self.true.shape[1] + labels, side="right")
        return self.score.indptr[rows + 1] - at

    def first_zero(self, rows: Ints, last: bool = False) -> Ints:
        """The lowest label, or the highest, whose score is 0; of rows that have one."""
        row = rows_of(self.score)
        place = np.arange(len(row)) - self.score.indptr[row]
        in_row = self.score.indices == place + (self.zeros[row] if last else 0)
        before = np.bincount(row[in_row], minlength=len(self.counts))[rows]
        return self.score.shape[1] - 1 - before if last else before

    def tables(
        self,
    ) -> Iterator[tuple[Ints, AnyArray, Ints, Bools]]:
        """Tables of rows that store about as many scores: their numbers, scores, places in the
        data, and where a cell is stored.

        A row's cells are in the order of the labels, its stored ones first; the others hold -inf.
        """
        order = np.argsort(-self.counts, kind="stable")
        start = 0
        while start < len(order) and self.counts[order[start]]:
            width = int(self.counts[order[start]])
            rows = order[start : start + max(1, _BLOCK // width)]
            start += len(rows)
            at = self.score.indptr[rows].astype(np.int64)[:, None] + np.arange(width)
            stored = np.arange(width) < self.counts[rows][:, None]
            if full := bool(stored.all()):
                table = self.score.data[at]
            else:
                at[~stored] = 0
                table = np.where(stored, self.score.data[at], -np.inf)
            yield rows, table, at, stored if not full else np.ones_like(stored)


def rows_of(matrix: sparse.csr_array) -> Ints:
    """The row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))


def without_zeros(matrix: Any) -> sparse.csr_array:
    """CSR in canonical form without stored zeros; the caller's matrix stays as it is."""
    stored = sparse.csr_array(matrix)
    if not stored.has_canonical_format:
        stored = stored.copy()
        stored.sum_duplicates()
    if not stored.data.all():
        stored = stored.copy()
        stored.eliminate_zeros()
    return stored


# --------------------------------------------------------------------------------------------------
# Areas under ROC and precision-recall curves of labels, and the calibration of their probabilities,
# from counts by score.

#: The areas under curves.
AREAS = frozenset(
    (
        "macro_auroc",
        "weighted_auroc",
        "micro_auroc",
        "macro_ap",
        "weighted_ap",
        "micro_ap",
        "auprc_curve",
        "auprc_mean",
        "auprc_weighted",
    )
)


def need_counts(names: Collection[str]) -> bool:
    """Whether some of these measures follow from counts by score."""
    return not AREAS.isdisjoint(names) or bool(numbers(ECE_NAME, names))


def score_counts(
    true: Any,
    score: Any,
    rows: Ints | None = None,
    weights: Array | None = None,
) -> ScoreCounts:
    """The counts of each label over some rows of checked matrices, whose weights are given; CSR of
    both costs what is stored.
    """
    t, s = (m if rows is None else m[rows] for m in (true, score))
    if not (sparse.issparse(t) and sparse.issparse(s)):
        t, s = (m.toarray() if sparse.issparse(m) else m for m in (t, s))
        return ScoreCounts.of(s, t, weights)
    stored = StoredScores(t, s)
    n, n_labels = t.shape
    missed = np.bincount(stored.missed[1], minlength=n_labels)
    rest = n - np.bincount(s.indices, minlength=n_labels) - missed
    zero = np.flatnonzero(missed + rest)
    hit: AnyArray = stored.relevant.astype(np.int64)
    negative: AnyArray = 1 - hit
    if weights is not None:
        of_rows, of_missed = weights[rows_of(s)], weights[stored.missed[0]]
        hit, negative = hit * of_rows, negative * of_rows
        missed = np.bincount(stored.missed[1], of_missed, n_labels)
        others = weights.sum() - np.bincount(s.indices, of_rows, n_labels) - missed
        rest = np.where(rest > 0, np.maximum(others, 0), 0)  # what is left of none is rounding
    return ScoreCounts.of_entries(
        n_labels,
        np.concatenate([s.indices, zero]).astype(np.int64),
        np.concatenate([s.data.astype(float), np.zeros(len(zero))]),
        np.concatenate([hit, missed[zero]]),
        np.concatenate([negative, rest[zero]]),
    )


def curve_measures(
    counts: ScoreCounts, probable: bool, asked: Iterable[str] = ()
) -> tuple[dict[str, float], dict[str, float]]:
    """The areas, and if scores are probable the calibration errors asked for; and what each can be
    wrong by.

    NaN where none is defined. Labels without positives are left out of averages, for the ROC curve
    also those without negatives; weights are positives.
    """
    support = counts.positives()
    measures: dict[str, float] = {}
    bounds: dict[str, float] = {}
    whole = counts.pooled
    areas = {
        "auroc": (counts.auroc(), whole.auroc()),
        "ap": (counts.average_precision(), whole.average_precision()),
        "auprc": (
            counts.average_precision(interpolated=True),
            whole.average_precision(interpolated=True),
        ),
    }
    for name, ((values, off), (micro, micro_off)) in areas.items():
        defined = ~np.isnan(values)
        keys = (
            ("auprc_mean", "auprc_weighted", "auprc_curve")
            if name == "auprc"
            else [f"{a}_{name}" for a in _AVERAGES]
        )
        weights = np.ones(defined.sum()), support[defined]
        for key, weight in zip(keys[:2], weights, strict=True):
            for into, column in ((measures, values), (bounds, off)):
                into[key] = (
                    float(np.average(column[defined], weights=weight))
                    if defined.any()
                    else float("nan")
                )
        measures[keys[2]], bounds[keys[2]] = float(micro[0]), float(micro_off[0])
    for bins in numbers(ECE_NAME, asked) if probable else ():
        measures[f"ece_{bins}"], bounds[f"ece_{bins}"] = whole.calibration_error(bins)
    return measures, bounds


_AVERAGES = ("macro", "weighted", "micro")
