"""What formulas of measures are made of: sizes of sets, their rates, and averages of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from mlflow_mleval.validation import AnyArray, Array

Conventions = Literal["sklearn", "mulan"]
CONVENTIONS: tuple[str, ...] = ("sklearn", "mulan")
NAN = float("nan")


def ratio(part: Any, whole: Any, otherwise: Any = 0.0) -> Array:
    """The part of a whole, in counts or weights; where there is no whole, what stands for it."""
    quotient = np.broadcast_to(np.asarray(otherwise, float), np.shape(whole)).copy()
    return np.divide(part, whole, out=quotient, where=np.asarray(whole) > 0)


@dataclass(frozen=True, eq=False)
class Counts:
    """Sizes, or weights, of Y ∩ Ŷ, Ŷ and Y, of each instance or of each label."""

    shared: AnyArray
    predicted: AnyArray
    true: AnyArray
    cells: float  # that each set is taken from: labels, instances, or both
    empty: float = 0.0  # what two empty sets count; NaN: what nothing is divided by is NaN
    of_classes: bool = False  # of one label of several classes

    @property
    def pooled(self) -> Counts:
        """Those of all sets together."""
        sums: dict[str, Any] = {name: getattr(self, name).sum(keepdims=True) for name in _SIZES}
        return replace(self, **sums, cells=self.cells * len(self.true))

    def without(self, shared: int, predicted: int, true: int) -> Counts:
        """Each set without one cell that was so; what nothing is left of has NaN as its rates."""
        one = zip(_SIZES, (shared, predicted, true), strict=True)
        left: dict[str, Any] = {name: np.maximum(getattr(self, name) - n, 0) for name, n in one}
        return replace(self, **left, cells=max(self.cells - 1, 0), empty=NAN)

    def ratio(self, part: AnyArray, whole: AnyArray) -> Array:
        """A rate; of two empty sets, and of one, what the conventions say."""
        nothing = self.predicted + self.true == 0
        otherwise = np.where(nothing, self.empty, 0.0 if self.empty == self.empty else NAN)
        return ratio(part, whole, otherwise)


_SIZES = ("shared", "predicted", "true")


def jaccard(c: Counts) -> Array:
    """|Y∩Ŷ| / |Y∪Ŷ|."""
    return c.ratio(c.shared, c.predicted + c.true - c.shared)


def precision(c: Counts) -> Array:
    """|Y∩Ŷ| / |Ŷ|. Madjarov et al. 2012 (A.3, A.4) print the denominators of precision and recall
    the wrong way round; their tables follow these.
    """
    return c.ratio(c.shared, c.predicted)


def recall(c: Counts) -> Array:
    """|Y∩Ŷ| / |Y|."""
    return c.ratio(c.shared, c.true)


def f1(c: Counts) -> Array:
    """2|Y∩Ŷ| / (|Y| + |Ŷ|)."""
    return c.ratio(2 * c.shared, c.predicted + c.true)


def hamming(c: Counts) -> Array:
    """The share of cells in only one of the two sets."""
    return (c.predicted + c.true - 2 * c.shared) / c.cells


def exact(c: Counts) -> Array:
    """1 where the sets are equal."""
    return (c.predicted + c.true == 2 * c.shared).astype(float)


def matthews(c: Counts) -> Array:
    """Correlation of the two sets over the cells; 0 where one is empty or has all."""
    tp, predicted, true = (np.asarray(size, float) / (c.cells or 1) for size in _sizes(c))
    spread = np.sqrt(np.maximum(predicted * (1 - predicted), 0) * np.maximum(true * (1 - true), 0))
    # of weights, less is what rounding leaves of none
    some = spread > 1e-12
    return np.divide(tp - predicted * true, spread, out=np.zeros_like(tp), where=some)


def balanced(c: Counts) -> Array:
    """Of one label the recall of each class; else the mean recall of true and of other cells."""
    if c.of_classes:
        return recall(c)
    there = c.true > 0, c.true < c.cells
    outside = c.cells - c.true
    recalls = ratio(c.shared, c.true), ratio(outside - c.predicted + c.shared, outside)
    return np.where(there, recalls, 0).sum(axis=0) / np.maximum(np.sum(there, axis=0), 1)


def _sizes(c: Counts) -> tuple[AnyArray, AnyArray, AnyArray]:
    return c.shared, c.predicted, c.true


# ---- averages over labels ------------------------------------------------------------------------


def seen(c: Counts) -> AnyArray:
    """Each label counts once; of one label, each class that is true or predicted somewhere."""
    return (c.predicted + c.true > 0 if c.of_classes else np.ones(len(c.true))).astype(float)


def occurring(c: Counts) -> AnyArray:
    """Each label counts once; of one label, each class that is true somewhere."""
    return (c.true > 0 if c.of_classes else np.ones(len(c.true))).astype(float)


def support(c: Counts) -> AnyArray:
    """A label counts as often as it is true."""
    return c.true


@dataclass(frozen=True)
class OverLabels:
    """The average of a rate over labels, NaN where none counts, or its value for all labels
    `pooled`; what an instance moves is the jackknife of each label (Efron 1982)."""

    rate: Callable[[Counts], Array]
    weight: Callable[[Counts], AnyArray] = seen
    pooled: bool = False

    def __call__(self, sums: Any) -> float:
        counts = sums.counts.pooled if self.pooled else sums.counts
        return _average(self.rate(counts), self._weights(counts))

    def _weights(self, counts: Counts) -> AnyArray:
        return np.ones(1) if self.pooled else self.weight(counts)

    def slopes(self, counts: Counts) -> Array:
        """What a shared, a predicted and a true cell of each label add, shape (3, K)."""
        n_labels = len(counts.true)
        counts = counts.pooled if self.pooled else counts
        rate = self.rate(counts)
        weight = self._weights(counts)
        total = weight.sum()
        value = _average(rate, weight)
        added = []
        for kind in ((1, 1, 1), (0, 1, 0), (0, 0, 1), (0, 0, 0)):
            left = self.rate(counts.without(*kind))
            left = np.where(np.isnan(left), rate, left)
            fewer = kind[2] * (self.weight is support and not self.pooled)
            change = weight * rate - (weight - fewer) * left - fewer * value
            added.append(change / total if total else np.zeros_like(change))
        hit, wrong, missed, rest = added
        slopes = np.array([hit - wrong - missed + rest, wrong - rest, missed - rest])
        return np.broadcast_to(slopes, (3, n_labels))


def _average(values: Array, weights: AnyArray) -> float:
    total = weights.sum()
    return float(values @ weights / total) if total else NAN


@dataclass(frozen=True)
class OfClasses:
    """A function of the counts of all classes of one label, and its derivatives by them."""

    value: Callable[[Counts], float]
    derivative: Callable[[Counts], Array]

    def __call__(self, sums: Any) -> float:
        return self.value(sums.counts)

    def slopes(self, counts: Counts) -> Array:
        """Derivatives by the shared, predicted and true cells of each class, shape (3, C)."""
        return np.nan_to_num(self.derivative(counts), nan=0.0, posinf=0.0, neginf=0.0)


def class_matthews(c: Counts) -> float:
    """Matthews' correlation of several classes (Gorodkin 2004); 0 where one side is constant."""
    right, n, chance = _agreement_sums(c)
    spreads = [n * n - sum(a * a for a in side.tolist()) for side in (c.predicted, c.true)]
    if not all(_several(c)):
        return 0.0
    return (right * n - chance) / (float(spreads[0]) ** 0.5 * float(spreads[1]) ** 0.5)


def kappa(c: Counts) -> float:
    """Cohen's kappa; NaN where all true and all predicted classes are one."""
    right, n, chance = _agreement_sums(c)
    if not any(_several(c)) and c.predicted.argmax() == c.true.argmax():
        return NAN
    return (right * n - chance) / (n * n - chance)


def _agreement_sums(c: Counts) -> tuple[float, float, float]:
    """Right ones, all, and products of class sizes: whole numbers of any size, or weights."""
    pairs = zip(c.predicted.tolist(), c.true.tolist(), strict=True)
    return c.shared.sum().item(), c.true.sum().item(), sum(a * b for a, b in pairs)


def _several(c: Counts) -> list[bool]:
    # Of weights, differences that should be 0 are remainders of rounding.
    return [bool(np.count_nonzero(side) > 1) for side in (c.predicted, c.true)]


def class_matthews_slopes(c: Counts) -> Array:
    """Derivatives of `class_matthews` by the counts."""
    tp, predicted, true = (np.asarray(size, float) for size in _sizes(c))
    n = true.sum()
    gain = tp.sum() * n - predicted @ true
    spreads = n**2 - predicted @ predicted, n**2 - true @ true
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.sqrt(spreads[0] * spreads[1])
        by_predicted = gain / whole / spreads[0] * predicted - true / whole
        by_true = gain / whole / spreads[1] * true - predicted / whole
        return np.array([np.full_like(tp, n / whole), by_predicted, by_true])


def kappa_slopes(c: Counts) -> Array:
    """Derivatives of `kappa` by the counts."""
    tp, predicted, true = (np.asarray(size, float) for size in _sizes(c))
    n = true.sum()
    chance = predicted @ true
    room = n**2 - chance
    with np.errstate(divide="ignore", invalid="ignore"):
        off = (tp.sum() * n - chance) / room - 1
        return np.array([np.full_like(tp, n), off * true, off * predicted]) / room


# ---- functions of means, and of what is counted by score -----------------------------------------


@dataclass(frozen=True)
class OfMeans:
    """A function of means of columns, in plain arithmetic: its derivative is a complex step."""

    function: Callable[..., Any]
    columns: tuple[str, ...]

    def __call__(self, sums: Any) -> float:
        if not sums.means.keys() >= {*self.columns}:
            return NAN
        return float(self.function(*(sums.means[name] for name in self.columns)))

    def derivatives(self, sums: Any) -> dict[str, float]:
        """By the mean of each column."""
        means = [sums.means[name] for name in self.columns]
        found = {}
        for i, name in enumerate(self.columns):
            moved = [m + 1e-30j if i == j else m for j, m in enumerate(means)]
            found[name] = complex(self.function(*moved)).imag / 1e-30
        return found


def share(part: Any, whole: Any) -> Any:
    """The part of a whole, NaN without one."""
    return part / whole if whole else NAN


def share_of_sets(part: Any, whole: Any, other: Any) -> Any:
    """The part of the one of two sets; 1 where both are empty, 0 where only this is."""
    return part / whole if whole else float(not other)


def f1_of_sets(shared: Any, one: Any, other: Any) -> Any:
    """Twice what two sets share, as a part of both; 1 where they are empty."""
    return 2 * shared / (one + other) if one + other else 1.0


def area(curve: str, average: str) -> Callable[[Any], tuple[float, float]]:
    """The area under a curve, ``auroc``, ``ap`` or ``interpolated``, and what it can be wrong by:
    of all labels pooled ("micro"), or averaged where it is defined ("macro"), by positives
    ("weighted").
    """

    def read(sums: Any) -> tuple[float, float]:
        counts = sums.counts_by_score
        if counts is None:
            return NAN, 0.0
        if average == "micro":
            values, off = getattr(counts.pooled, curve)
            return float(values[0]), float(off[0])
        values, off = getattr(counts, curve)
        defined = ~np.isnan(values)
        positives = counts.totals[0][defined]
        weights = positives if average == "weighted" else np.ones(len(positives))
        return _average(values[defined], weights), _average(off[defined], weights)

    return read


def calibration(bins: int) -> Callable[[Any], tuple[float, float]]:
    """The calibration error of so many bins, and what it can be wrong by."""

    def read(sums: Any) -> tuple[float, float]:
        return sums.confidence.calibration_error(bins) if sums.confidence else (NAN, 0.0)

    return read


def top_k(k: int) -> Callable[[Any], float]:
    """The share of instances whose class has one of the k highest scores."""

    def read(sums: Any) -> float:
        ranks = sums.classes.ranks
        return NAN if ranks is None or k >= len(ranks) else float(ranks[:k].sum() / sums.size)

    return read


def over_thresholds(name: str) -> Callable[[Any], tuple[float, float]]:
    """A measure of `ThresholdSums`, and what it can be wrong by."""

    def read(sums: Any) -> tuple[float, float]:
        there = sums.thresholds is not None and sums.errors is not None
        return getattr(sums.thresholds, name)() if there else (NAN, 0.0)

    return read


def seconds(name: str) -> Callable[[Any], float]:
    """A time that the caller measured."""
    return lambda sums: sums.seconds.get(name, NAN)


def profile(kind: str, summary: str) -> Callable[[Any], float]:
    """A summary of the binomial loss profile of scores ("soft") or label sets ("hard")."""
    return lambda sums: float(sums.awareness[kind].get(summary, NAN))
