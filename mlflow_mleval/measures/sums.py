"""One pass over the rows of label matrices: counts and sums that add up over batches and folds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.measures.curves import (
    ClassCounts,
    ClassesAbove,
    ScoreCounts,
    StoredScores,
    ThresholdSums,
    need_counts,
    score_counts,
    without_zeros,
)
from mlflow_mleval.measures.hierarchy import stretches
from mlflow_mleval.measures.inputs import (
    SETS,
    Propensities,
    added,
    row_digests,
    together,
    weighted_rows,
)
from mlflow_mleval.measures.label_ranking import (
    at_k_measures,
    dense_hits,
    ordered_floats,
    parsed,
    ranking_measures,
    sparse_hits,
    sparse_ranking_measures,
)
from mlflow_mleval.measures.sets import (
    Conventions,
    apart,
    dense,
    example_measures,
    overlap,
    overlap_apart,
    predicted,
    reached,
    rows_of,
    weight_of_all,
)
from mlflow_mleval.validation import AnyArray, Array, Ints, groups

# Cells, and stored entries, handled at a time: the working arrays of a block stay in the cache.
_BLOCK = 1 << 15
_STORED = 1 << 18
#: Losses of probabilities, which take a pass over the errors of their own.
_PROBABLE = ("log_loss", "brier_score")
#: The parts of sums that write themselves.
_COUNTED = ("classes", "scores", "thresholds")
#: The column of instances that tells how much each counts.
SAMPLE_WEIGHT = "sample_weight"
_RANKING = ("one_error", "coverage", "ranking_loss", "average_precision")


@dataclass(frozen=True, eq=False)
class Sums:
    """Counts and sums over the instances of one fold, or of several added up with ``+``.

    Where instances have weights, what is counted by label, by number of wrong labels and by score
    is a sum of weights, and so are all sums; `n`, `counts` and `empty` are numbers of instances.
    """

    n: int
    columns: tuple[str, ...]  # the M quantities that are summed over instances
    counts: NDArray[
        np.int64
    ]  # (M,): instances that enter each of them; the others are undefined (NaN) there
    totals: NDArray[
        np.float64
        # (2, M): their sums, value and rounding error, so that the order of additions leaves no
        # trace
    ]
    by_label: AnyArray  # (3, K): true positives, predicted and true instances of each label
    wrong: AnyArray  # (K + 1,): instances with 0, 1, …, K wrong labels
    empty: Ints  # instances with an empty prediction and with an empty truth
    # (2, K): sums of the largest, the second largest, … error abs(score - truth) of an instance:
    # value and rounding error; None without scores or where a score lies outside [0, 1].
    errors: Array | None = None
    score_range: tuple[float, float] | None = None
    seconds: Mapping[str, float] = field(
        default_factory=dict
    )  # fit_time, predict_time, where known of all parts
    truth: int | None = (
        # sum of the digests of the true label sets, which tells data apart; None where it is not
        # known
        None
    )
    classes: ClassCounts | None = None  # of one label of K classes; `wrong` is empty then
    scores: ScoreCounts | None = None  # of each label, where curves were asked for
    squares: Array | None = (
        None  # (2, K): of (score - truth)² of each label, where the Brier score was asked for
    )
    thresholds: ThresholdSums | None = (
        None  # of classes of a hierarchy, where the best threshold was asked for
    )
    weight: float | None = (
        None  # of all instances, added up as the weights of labels are; None where each counts once
    )
    # (2, M): weights of the instances that enter each column, value and rounding error.
    weights: Array | None = None
    weighting: int | None = (
        None  # sum of the digests of true label sets and weights, which tells weights apart
    )

    def __add__(self, other: Sums) -> Sums:
        def both(name: str, add: Callable[[Any, Any], Any] = operator.add) -> Any:
            mine = getattr(self, name)
            theirs = getattr(other, name)
            return None if mine is None or theirs is None else add(mine, theirs)

        mine = self.score_range
        theirs = other.score_range
        span = (
            None
            if mine is None or theirs is None
            else (min(mine[0], theirs[0]), max(mine[1], theirs[1]))
        )
        return Sums(
            n=self.n + other.n,
            columns=self.columns,
            counts=self.counts + other.counts,
            totals=_exact_sum(self.totals, other.totals),
            by_label=self.by_label + other.by_label,
            wrong=self.wrong + other.wrong,
            empty=self.empty + other.empty,
            errors=both("errors", _exact_sum),
            score_range=span,
            seconds={
                name: self.seconds[name] + other.seconds[name]
                for name in self.seconds
                if name in other.seconds
            },
            truth=together(self.truth, other.truth),
            classes=both("classes"),
            scores=both("scores"),
            squares=both("squares", _exact_sum),
            thresholds=both("thresholds"),
            weight=both("weight"),
            weights=both("weights", _exact_sum),
            weighting=together(self.weighting, other.weighting),
        )

    @property
    def bounded(self) -> Sums:
        """The same with as many different scores as are merged or stored: see `score_counts`."""
        parts = {name: getattr(self, name) for name in ("classes", "scores")}
        return replace(self, **{name: part and part.bounded for name, part in parts.items()})

    def to_dict(self) -> dict[str, Any]:
        """The sums in lists and numbers, for JSON."""
        parts = {
            f.name: v.tolist() if isinstance(v := getattr(self, f.name), np.ndarray) else v
            for f in fields(self)
        }
        further = {
            "truth": None if self.truth is None else f"{self.truth:064x}{SETS}",
            "weighting": None if self.weighting is None else f"{self.weighting:064x}",
        }
        counted = {
            name: part and part.to_dict() for name in _COUNTED for part in [getattr(self, name)]
        }
        return parts | further | counted

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> Sums:
        """The sums that `to_dict` wrote."""
        weight = parts.get("weight")
        weighting = parts.get("weighting")
        counted = np.int64 if weight is None else float
        kinds: dict[str, type] = dict.fromkeys(("counts", "empty"), np.int64)
        kinds |= dict.fromkeys(("by_label", "wrong"), counted)
        kinds |= dict.fromkeys(("totals", "errors", "squares", "weights"), float)
        arrays: dict[str, Any] = {
            name: None if parts.get(name) is None else np.array(parts[name], kind)
            for name, kind in kinds.items()
        }
        span = parts["score_range"]
        own: dict[str, Any] = {
            "columns": tuple(parts["columns"]),
            "score_range": span if span is None else tuple(span),
        }
        # older versions did not write them, or digests of another form
        truth = parts.get("truth") or ""
        classes = parts.get("classes")
        total = int(truth.removesuffix(SETS), 16) if truth.endswith(SETS) else None
        for name, kind in (("scores", ScoreCounts), ("thresholds", ThresholdSums)):
            own[name] = parts.get(name) and kind.from_dict(parts[name])
        own["classes"] = classes and ClassCounts.from_dict(classes, arrays["by_label"].shape[1])
        own |= {"weight": weight, "weighting": weighting and int(weighting, 16)}
        return cls(n=parts["n"], seconds=parts["seconds"], truth=total, **own, **arrays)

    def mean_errors(self, kind: str) -> Array:
        """Mean over instances of the largest error, the second largest, …, shape (K,): of scores or
        of label sets.
        """
        if kind == "soft":
            assert self.errors is not None  # of scores between 0 and 1
            return self.errors.sum(axis=0) / self.size
        # The i-th largest error is 1 where at least i labels are wrong.
        return np.cumsum(self.wrong[:0:-1])[::-1] / self.size

    @property
    def size(self) -> float:
        """The number of instances, or the sum of their weights."""
        return self.n if self.weight is None else self.weight

    @property
    def by_score(self) -> dict[str, Array]:
        """What scores tell of each label, as far as it was asked for: auroc and average_precision,
        and brier_score.
        """
        counts = self.counts_by_score
        columns = {}
        if counts is not None and counts.n_classes == self.by_label.shape[1]:
            columns["auroc"] = counts.auroc()[0]
            columns["average_precision"] = counts.average_precision()[0]
        if self.squares is not None:
            columns["brier_score"] = self.squares.sum(axis=0) / (self.size or np.nan)
        return columns

    @property
    def counts_by_score(self) -> ScoreCounts | None:
        """Of each label; of each class of one label, of two for the second; None without scores, or
        where nobody asked.
        """
        return self.scores if self.classes is None else self.classes.scores

    @property
    def cells(self) -> int:
        """How many numbers JSON takes, about, beside those of each label."""
        parts = (self.classes, self.scores, self.thresholds)
        return sum(part.cells for part in parts if part is not None)

    @property
    def reach(self) -> str:
        """From where to where the scores reach, with the digits that it takes to see that they
        leave [0, 1].
        """
        assert self.score_range is not None  # there are scores
        shown = (
            v if f"{v:.6g}" in ("0", "1") and v not in (0, 1) else f"{v:.6g}"
            for v in self.score_range
        )
        return "from {} to {}".format(*shown)

    @property
    def by_column(self) -> dict[str, float]:
        """Sum of each column over instances."""
        return dict(zip(self.columns, self.totals.sum(axis=0).tolist(), strict=True))

    @property
    def means(self) -> dict[str, float]:
        """Mean of each column over the instances that enter it; NaN where none does."""
        entering = self.counts if self.weights is None else self.weights.sum(axis=0)
        with np.errstate(invalid="ignore"):
            return dict(
                zip(self.columns, (self.totals.sum(axis=0) / entering).tolist(), strict=True)
            )


def _exact_sum(a: Array, b: Array) -> Array:
    """Add numbers kept as value and rounding error (Knuth's two-sum)."""
    value = a[0] + b[0]
    part = value - a[0]
    return np.array([value, a[1] + b[1] + ((a[0] - (value - part)) + (b[0] - part))])


def summed_columns(columns: Mapping[str, Array], weights: Array | None) -> dict[str, Any]:
    """What `Sums` holds of columns that are summed over instances where they are defined."""
    defined = [~np.isnan(column) for column in columns.values()]
    pairs = zip(columns.values(), defined, strict=True)
    if weights is None:
        sums = [column_sums(column[where, None]) for column, where in pairs]
        of_weights = None
    else:
        products = [np.where(where, column, 0) * weights for column, where in pairs]
        sums = [column_sums(product[:, None]) for product in products]
        of_weights = np.hstack([column_sums((where * weights)[:, None]) for where in defined])
        defined = [where | (weights == 0) for where in defined]  # what has no weight lacks nothing
    counts = np.array([where.sum() for where in defined])
    return {
        "columns": tuple(columns),
        "counts": counts,
        "totals": np.hstack(sums),
        "weights": of_weights,
    }


def column_sums(values: Array) -> Array:
    """Sums over N rows, each as value and rounding error, shape (2, M): the same in whatever parts
    the rows are summed.

    The leading bits of all numbers are added first, so few that their sum is exact, then the next
    ones, and so on (Rump, Ogita and Oishi 2008, "Accurate floating-point summation", algorithm
    3.2): three times, which leaves less than 2^-90 of the largest.

    >>> column_sums(np.array([[1.0], [2.0**-70], [-1.0]]))[0] == 2.0**-70
    array([ True])
    """
    return _added_by(lambda leading: leading.sum(axis=0), values)


def group_sums(groups: Ints, values: Array) -> Array:
    """The same of the numbers of each group, shape (2, largest group + 1)."""
    return _added_by(lambda leading: np.bincount(groups, leading).astype(float, copy=False), values)


def _added_by(add: Callable[[Array], Array], values: Array) -> Array:
    """The sums that `add` makes along the first axis or less of it, exactly."""
    largest = np.abs(values).max(initial=0)
    if not np.isfinite(largest):
        return np.array([whole := add(values), np.zeros_like(whole)])
    total = np.zeros(2)[:, None]
    room = 2.0 ** np.ceil(np.log2(len(values) + 2))
    unit = 2.0 ** np.ceil(np.log2(largest or 1)) * room
    for _ in range(3):
        leading = (values + unit) - unit
        exact = add(leading)
        total = _exact_sum(total, np.array([exact, np.zeros_like(exact)]))
        values = values - leading
        unit *= room * 2.0**-53
    return total


Rows = slice | Ints


@dataclass(frozen=True, eq=False)
class Inputs:
    """Checked matrices, and what is to be summed over their rows.

    Attributes
    ----------
    true, score, pred : matrix of shape (N, K), or None
        Where `pred` is None, labels with ``score >= threshold`` are predicted.
    flat : bool
        Whether the example-based measures are wanted.
    further : mapping of str to array of shape (N,)
        Quantities known of each instance that are to be summed too.
    asked : collection of str
        Measures beside the usual ones; those over all thresholds need `classes`.
    weights : array of shape (N,), or None
    """

    true: Any
    score: Any = None
    pred: Any = None
    threshold: Any = 0.5
    conventions: Conventions = "sklearn"
    flat: bool = True
    further: Mapping[str, Array] = field(default_factory=dict)
    asked: Collection[str] = ()
    propensities: Propensities | None = None
    classes: ClassesAbove | None = None
    weights: Array | None = None

    @property
    def all_sparse(self) -> bool:
        return all(sparse.issparse(m) for m in (self.true, self.score, self.pred) if m is not None)

    @property
    def is_probable(self) -> bool:
        """Whether losses of probabilities were asked for."""
        return not set(_PROBABLE).isdisjoint(self.asked)

    def part(self, rows: Rows) -> Inputs:
        """Some rows of the matrices and weights."""
        matrices = {name: _at(getattr(self, name), rows) for name in ("true", "score", "pred")}
        return replace(self, **matrices, weights=_at(self.weights, rows))


def _at(values: Any, rows: Rows | None) -> Any:
    return values if values is None or rows is None else values[rows]


@dataclass(frozen=True)
class FoldFacts:
    """What is known of a fold beside its sums: see `Sums`."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    truth: int | None = None
    weighting: int | None = None


def sum_rows(
    inputs: Inputs,
    rows: Rows = slice(None),
    facts: FoldFacts | None = None,
) -> tuple[Sums, dict[str, Any]]:
    """The sums over some rows, and the values of each of these rows.

    The values are the example-based measures if `flat`, the ranking measures, those asked for, the
    further quantities, mean and largest error of scores in [0, 1], and the numbers of true and of
    predicted labels.
    """
    facts = facts or FoldFacts()
    if inputs.all_sparse or isinstance(rows, slice):
        part = inputs.part(rows)
        take = None
    else:  # a copy of so many rows of dense matrices is saved: each block takes its own
        part = replace(inputs, weights=_at(inputs.weights, rows))
        take = rows
    n_places = max((k for _, k in parsed(inputs.asked)), default=0)
    gathered = _of_stored(part, n_places) if inputs.all_sparse else _of_blocks(part, take, n_places)
    shared, predicted, relevant = gathered.by_instance
    n_labels = inputs.true.shape[1]
    scored = inputs.score is not None
    low, high = gathered.span
    soft = scored and low >= 0 and high <= 1
    values: dict[str, Any] = {}
    if inputs.flat:
        values |= example_measures(gathered.by_instance, n_labels, inputs.conventions)
    if scored:
        values |= _values_of_scores(part, take, gathered, n_places, soft)
    values |= {name: column[rows] for name, column in inputs.further.items()}
    sums = Sums(
        n=len(shared),
        **summed_columns(values, part.weights),
        by_label=gathered.by_label,
        wrong=np.bincount(predicted + relevant - 2 * shared, part.weights, n_labels + 1),
        empty=np.array([(predicted == 0).sum(), (relevant == 0).sum()]),
        seconds=facts.seconds,
        truth=facts.truth,
        weight=gathered.weight,
        weighting=facts.weighting,
    )
    if scored:
        span = float(low) + 0.0, float(high) + 0.0  # -0 is 0
        sums = replace(sums, score_range=span, scores=_counts_by_score(part, take))
    if soft:
        squares = gathered.squares if "brier_score" in inputs.asked else None
        thresholds = _over_thresholds(part, take)
        sums = replace(sums, errors=gathered.errors, squares=squares, thresholds=thresholds)
        values |= {"soft_hamming_loss": gathered.ends[0], "soft_subset_loss": gathered.ends[1]}
    return sums, {**values, "true_labels": relevant, "predicted_labels": predicted}


def _values_of_scores(
    part: Inputs,
    take: Ints | None,
    gathered: _OfRows,
    n_places: int,
    soft: bool,
) -> dict[str, Array]:
    """What the scores give of each instance: rankings, those at k, probabilistic losses."""
    values = dict(gathered.ranking)
    if n_places:
        true = sparse.csr_array(_at(part.true, take))
        weights = None if part.propensities is None else part.propensities.weights
        values |= at_k_measures(part.asked, true, gathered.hits, weights)
    undefined = np.full(gathered.by_instance.shape[1], np.nan)
    for name in _PROBABLE:
        if name in part.asked:
            values[name] = gathered.probable[name] if soft else undefined
    return values


def _counts_by_score(part: Inputs, take: Ints | None) -> ScoreCounts | None:
    if not need_counts(part.asked):
        return None
    return score_counts(part.true, part.score, take, part.weights)


def _over_thresholds(part: Inputs, take: Ints | None) -> ThresholdSums | None:
    if part.classes is None:
        return None
    return part.classes.sums(_at(part.true, take), _at(part.score, take))


@dataclass
class _OfRows:
    """What the rows of matrices give before it is summed."""

    by_instance: Ints
    by_label: AnyArray
    ranking: Mapping[str, Array]
    hits: AnyArray
    probable: Mapping[str, Array]
    ends: Array  # (2, n): mean and largest error
    # (2, K): sums of the largest, the second largest, …, value and rounding error
    errors: Array
    span: tuple[float, float]  # from the lowest to the highest score
    squares: Array  # (2, K): of the errors of each label, value and rounding error
    weight: float | None  # of all instances


def _of_blocks(part: Inputs, rows: Ints | None, n_places: int) -> _OfRows:
    """Dense blocks of rows, one after the other."""
    weights = part.weights
    n_labels = part.true.shape[1]
    n = part.true.shape[0] if rows is None else len(rows)
    by_label = np.zeros((3, n_labels), np.int64 if weights is None else float)
    by_instance = np.empty((3, n), np.int64)
    weight = 0.0
    ranking = np.empty((4, n))
    ends = np.empty((2, n))
    errors = np.zeros((2, n_labels))
    squares = np.zeros((2, n_labels))
    hits = np.empty((n, n_places), np.int64)
    losses = np.empty((2, n))
    low = np.inf
    high = -np.inf
    step = max(1, _BLOCK // n_labels)
    for start in range(0, n, step):
        at = slice(start, min(start + step, n))
        block = at if rows is None else rows[at]
        given = (part.true, part.score, part.pred)
        blocks: list[Any] = [None if matrix is None else dense(matrix[block]) for matrix in given]
        t, s, p = blocks
        w = _at(weights, at)
        if s is not None:
            floats = ordered_floats(s)
            ranking[:, at] = list(ranking_measures(t, floats, part.conventions).values())
            if n_places:
                hits[at] = dense_hits(t, floats, n_places)
            low = min(low, s.min())
            high = max(high, s.max())
            if low >= 0 and high <= 1:
                off = np.abs(np.subtract(s, t, dtype=float))
                if part.is_probable:
                    squared = off**2
                    clipped = np.clip(off, *_clip(s.dtype))
                    losses[:, at] = -np.log(1 - clipped).mean(axis=1), squared.mean(axis=1)
                    squares = _exact_sum(squares, column_sums(_weighted(squared, w)))
                off.sort(axis=1)
                errors = _exact_sum(errors, column_sums(_weighted(off, w)))
                ends[:, at] = off.mean(axis=1), off[:, -1]
        predicted = reached(s, part.threshold) if p is None else p
        by_instance[:, at], counted = overlap(t, predicted, w)
        by_label += counted
        if w is not None:
            weight += weight_of_all(w)
    return _OfRows(
        by_instance,
        by_label,
        dict(zip(_RANKING, ranking, strict=True)),
        hits,
        dict(zip(_PROBABLE, losses, strict=True)),
        ends,
        errors[:, ::-1],
        (low, high),
        squares,
        None if weights is None else weight,
    )


def _weighted(values: Array, weights: Array | None) -> Array:
    """The values of each instance times its weight."""
    return values if weights is None else values * weights[:, None]


def _of_stored(part: Inputs, n_places: int) -> _OfRows:
    """The stored entries of CSR alone, whatever the number of labels."""
    true = part.true
    score = part.score
    weights = part.weights
    n, n_labels = true.shape
    weight = None if weights is None else weight_of_all(weights)
    if part.pred is not None:
        counted = overlap(true, part.pred, weights)
    else:
        counted = overlap_apart(true, *apart(score, part.threshold), weights)
    if score is None:
        none: AnyArray = np.empty(0)
        return _OfRows(*counted, {}, none, {}, none, none, (np.inf, -np.inf), none, weight)
    ends_of_scores = [score.data.min(), score.data.max()] if score.nnz else []
    if score.nnz < n * n_labels:
        ends_of_scores.append(0)  # of what is not stored
    low = float(min(ends_of_scores))
    high = float(max(ends_of_scores))
    soft = low >= 0 and high <= 1
    ranking = []
    hits = []
    losses = []
    ends = []
    errors = np.zeros((2, n_labels))
    for start, end in stretches(np.diff(score.indptr) + 1, _STORED):
        block = part.part(slice(start, end))
        stored = StoredScores(block.true, ordered_floats(block.score))
        ranking.append(list(sparse_ranking_measures(stored, part.conventions).values()))
        if n_places:
            hits.append(sparse_hits(stored, n_places))
        if soft:
            off = np.abs(block.score.data - stored.relevant.astype(float))
            ends.append(_add_stored_errors(stored, off, block.weights, errors))
            if part.is_probable:
                losses.append(_stored_losses(stored, off, _clip(score.dtype)))
    return _OfRows(
        *counted,
        dict(zip(_RANKING, np.hstack(ranking), strict=True)),
        np.concatenate(hits) if hits else np.empty((n, 0), np.int64),
        dict(zip(_PROBABLE, np.hstack(losses), strict=True)) if losses else {},
        np.hstack(ends) if ends else np.zeros((2, n)),
        errors,
        (low, high),
        _stored_squares(part) if losses else np.zeros((2, n_labels)),
        weight,
    )


def _add_stored_errors(
    stored: StoredScores,
    off: Array,
    weights: Array | None,
    errors: Array,
) -> Array:
    """Mean and largest error of each row, shape (2, n); the sums of errors by place are added."""
    missed = stored.missed_counts
    n = len(stored.counts)
    # Entry by entry in their order, so that what other rows store leaves no trace in the last bit.
    ends = np.array([missed + np.bincount(rows_of(stored.score), off, n), missed > 0], float)
    ones = np.bincount(missed, weights)[:0:-1].cumsum()[::-1]  # rows with at least 1, 2, … ones
    errors[0, : len(ones)] += ones
    for rows, _, at, there in stored.tables():
        e = np.where(there, off[at], 0)
        e.sort(axis=1)
        e = e[:, ::-1]
        ends[1, rows] = np.maximum(ends[1, rows], e[:, 0])
        # behind the errors of 1 of true labels that are not stored, which are the largest
        place = missed[rows, None] + np.arange(e.shape[1])
        of_table = _weighted(e, _at(weights, rows))
        sums = group_sums(place[there], of_table[there])
        errors[:, : sums.shape[1]] = _exact_sum(errors[:, : sums.shape[1]], sums)
    ends[0] /= stored.score.shape[1]
    return ends


def _stored_losses(stored: StoredScores, off: Array, clip: tuple[float, float]) -> Array:
    """Log loss and Brier score of each row, shape (2, n)."""
    low, high = clip
    missed = stored.missed_counts
    row = rows_of(stored.score)
    n = len(stored.counts)
    # what is not stored scores 0: a true label costs the most then, another the least
    none = -missed * np.log(1 - high) - (stored.zeros - missed) * np.log(1 - low)
    log_loss = none - np.bincount(row, np.log(1 - np.clip(off, low, high)), n)
    return np.array([log_loss, missed + np.bincount(row, off**2, n)]) / stored.score.shape[1]


def _stored_squares(part: Inputs) -> Array:
    """The sums of squared errors of each label, shape (2, K)."""
    stored = StoredScores(part.true, part.score)
    squared = (part.score.data - stored.relevant.astype(float)) ** 2
    of_missed = None
    if part.weights is not None:
        squared *= part.weights[rows_of(part.score)]
        of_missed = part.weights[stored.missed[0]]
    squares = np.zeros((2, part.true.shape[1]))
    squares[0] = np.bincount(stored.missed[1], of_missed, squares.shape[1])
    of_labels = group_sums(part.score.indices.astype(np.int64), squared)
    seen = of_labels.shape[1]
    squares[:, :seen] = _exact_sum(squares[:, :seen], of_labels)
    return squares


def _clip(kind: np.dtype) -> tuple[float, float]:
    """The errors of probabilities between which a logarithm is taken, by their type, as
    scikit-learn does.
    """
    epsilon = float(np.finfo(kind if kind.kind == "f" else float).eps)
    return epsilon, 1 - epsilon


def comparable(true: Any, score: Any, pred: Any, threshold: Any) -> tuple[Any, Any, Any]:
    """Checked matrices, where scores are sparse as CSR, with the labels that reach the threshold
    unless that is 0 or below.
    """
    if not sparse.issparse(score):
        return true, score, pred
    score = without_zeros(score)
    if pred is None and np.min(threshold) > 0:
        pred = predicted(score, threshold)
    return sparse.csr_array(true), score, None if pred is None else sparse.csr_array(pred)


#: What sums some rows, as `sum_rows`.
SumPart = Callable[[Inputs, Rows, FoldFacts], tuple[Sums, dict[str, Any]]]


def sum_folds(
    inputs: Inputs,
    folds: Any,
    seconds: Mapping[str, Any],
    instances: bool,
    sum_part: SumPart = sum_rows,
) -> tuple[dict[Hashable, Sums], pd.DataFrame | None, NDArray[np.uint64] | None]:
    """The sums of each fold, a table of all instances in their order, and a number that tells the
    truth of each apart.

    `folds` is the fold of each instance, or of all; `seconds` holds one number or one a fold by
    name; table and numbers are made only with `instances`.
    """
    n = inputs.true.shape[0]
    weights = inputs.weights
    by_fold = groups(folds, "folds", n)
    times = {
        name: _seconds(value, name, list(by_fold))
        for name, value in seconds.items()
        if value is not None
    }
    sums = {}
    tables = []
    digests = row_digests(inputs.true)
    for key, rows in by_fold.items():
        known_times = {name: of_folds[key] for name, of_folds in times.items()}
        facts = FoldFacts(known_times, added(digests[rows]))
        if weights is not None:
            facts = replace(facts, weighting=weighted_rows(digests[rows], weights[rows]))
        sums[key], values = sum_part(inputs, rows, facts)
        if weights is not None:
            values = {SAMPLE_WEIGHT: weights[rows], **values}
        if instances:
            tables.append(pd.DataFrame(values, index=np.arange(n)[rows]))
            if key is not None:
                tables[-1].insert(0, "fold", [key] * len(tables[-1]))
    if not instances:
        return sums, None, None
    # The first 64 bits are enough to tell the instances of one table apart.
    numbers = digests.view("<u8")[:, 0].astype(np.uint64)
    return sums, pd.concat(tables).sort_index().reset_index(drop=True), numbers


def _seconds(value: Any, name: str, folds: list[Hashable]) -> dict[Hashable, float]:
    one = len(folds) == 1
    given = (
        dict(value) if isinstance(value, Mapping) else dict.fromkeys(folds if one else (), value)
    )
    if given.keys() != set(folds) or not all(np.isfinite(v) and v >= 0 for v in given.values()):
        several = f"a mapping with one number for each of the {len(folds)} folds"
        want = "one number" if one else several
        raise ValueError(f"`{name}` must be {want}, in seconds and not negative, got {value!r}.")
    return {key: float(v) for key, v in given.items()}
