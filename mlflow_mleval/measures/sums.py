"""One pass over the rows of label matrices: counts and sums that add up over batches and folds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.measures.curves import (
    ClassesAbove,
    ScoreCounts,
    ScoreRows,
    ThresholdSums,
    counts_of,
)
from mlflow_mleval.measures.hierarchy import stretches
from mlflow_mleval.measures.inputs import (
    Csr,
    Propensities,
    added,
    dense,
    overlap,
    predicted,
    reaches_threshold,
    row_digests,
    row_sizes,
    sums_of_both,
)
from mlflow_mleval.measures.label_ranking import (
    RowScores,
    as_floats,
    at_k_measures,
    ranking_measures,
)
from mlflow_mleval.measures.owa import awareness
from mlflow_mleval.measures.registry import (
    CLASS_SETS,
    ECE_NAME,
    LABEL_SETS,
    MEASURES,
    ONE_LABEL,
    Conventions,
    Counts,
    numbers,
)
from mlflow_mleval.sentences import some
from mlflow_mleval.validation import AnyArray, Array, Columns, Ints, groups, present

# Cells, and stored entries, handled at a time: the working arrays of a block stay in the cache.
_BLOCK = 1 << 15
_STORED = 1 << 18
#: The column of instances that tells how much each counts.
SAMPLE_WEIGHT = "sample_weight"


@dataclass(frozen=True, eq=False)
class Sums:
    """Counts and sums over instances, which add up with ``+``; None of one is None of all."""

    n: int
    columns: tuple[str, ...]  # the M quantities that are summed over instances
    entering: Ints  # (M,): instances that enter each; the others are undefined (NaN) there
    totals: Array  # (M,): their sums
    by_label: AnyArray  # (3, K): true positives, predicted and true instances of each label
    wrong: AnyArray  # (K + 1,): instances with 0, 1, …, K wrong labels; none of one label
    empty: Ints  # instances with an empty prediction and with an empty truth
    conventions: Conventions = "sklearn"
    # (K,): sums of the largest, the second largest, … error; None without scores in [0, 1]
    errors: Array | None = None
    score_range: tuple[float, float] | None = None
    # fit_time, predict_time, where known of all parts
    seconds: Mapping[str, float] = field(default_factory=dict)
    truth: int = 0  # sum of the digests of the true label sets, which tells data apart
    confusion: Csr | None = None  # true x predicted, of one label of K classes
    ranks: Ints | None = None  # of one label: true classes with the highest score, the second, …
    largest: ScoreCounts | None = None  # of one label: right ones by the largest probability
    # of each label or class, of two classes the second; None if nobody asked
    counts_by_score: ScoreCounts | None = None
    squares: Array | None = None  # (K,): of (score - truth)²; None if no Brier score was asked for
    thresholds: ThresholdSums | None = None  # of classes of a hierarchy, where it was asked for
    weight: float | None = None  # of all instances; None where each counts once
    weights: Array | None = None  # (M,): of the instances that enter each column
    weighting: int | None = None  # as `truth`, of weights, too: tells these apart

    def __add__(self, other: Sums) -> Sums:
        parts: dict[str, Any] = {"columns": self.columns, "conventions": self.conventions}
        times = self.seconds.keys() & other.seconds.keys()
        parts["seconds"] = {name: self.seconds[name] + other.seconds[name] for name in times}
        for name in (f.name for f in fields(self) if f.name not in parts):
            add = _ADDED.get(name, operator.add)
            both = getattr(self, name), getattr(other, name)
            parts[name] = None if any(part is None for part in both) else add(*both)
        return Sums(**parts)

    @property
    def bounded(self) -> Sums:
        """The same with as many different scores as are merged or stored: see `curves.EXACT`."""
        parts = {name: getattr(self, name) for name in ("largest", "counts_by_score")}
        return replace(self, **{name: part and part.bounded for name, part in parts.items()})

    def to_dict(self) -> dict[str, Any]:
        """The sums in lists and numbers, for JSON."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in parts.items():
            if isinstance(value, np.ndarray):
                parts[name] = value.tolist()
            elif isinstance(value, ScoreRows):
                parts[name] = value.to_dict()
        if self.confusion is not None:
            pairs = self.confusion.tocoo()
            parts["confusion"] = [part.tolist() for part in (pairs.row, pairs.col, pairs.data)]
        return parts

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> Sums:
        """The sums that `to_dict` wrote."""
        own: dict[str, Any] = {**parts}
        own |= {name: counts_of(v) for name, v in parts.items() if isinstance(v, list)}
        own["columns"] = tuple(parts["columns"])
        own["score_range"] = parts["score_range"] and tuple(parts["score_range"])
        for name, kind in _BY_SCORE.items():
            own[name] = kind.from_dict(parts[name])
        if parts["confusion"] is not None:
            *places, numbers = parts["confusion"]
            width = own["by_label"].shape[1]
            entries = counts_of(numbers), tuple(places)
            own["confusion"] = sparse.csr_array(entries, shape=(width, width))
        return cls(**own)

    def mean_errors(self, kind: str) -> Array:
        """Mean over instances of the largest error, the second largest, …, shape (K,)."""
        if kind == "soft":
            return present(self.errors) / self.size  # there are scores between 0 and 1
        # The i-th largest error is 1 where at least i labels are wrong.
        return np.cumsum(self.wrong[:0:-1])[::-1] / self.size

    @cached_property
    def awareness(self) -> Mapping[str, Mapping[str, Array]]:
        """By kind the summaries of the binomial loss profile; none of scores without errors."""
        soft = {} if self.errors is None else awareness(self.mean_errors("soft"))
        return {"soft": soft, "hard": awareness(self.mean_errors("hard"))}

    @property
    def size(self) -> float:
        """The number of instances, or the sum of their weights."""
        return self.n if self.weight is None else self.weight

    @property
    def counts(self) -> Counts:
        """The sizes of the label sets, label by label."""
        empty = float(self.conventions == "mulan")
        shared, predicted, true = self.by_label
        return Counts(shared, predicted, true, self.size, empty, self.confusion is not None)

    @property
    def by_score(self) -> Columns:
        """What scores tell of each label, as far as it was asked for."""
        counts = self.counts_by_score
        columns = {}
        if counts is not None and counts.n_classes == self.by_label.shape[1]:
            columns["auroc"] = counts.auroc[0]
            columns["average_precision"] = counts.ap[0]
        if self.squares is not None:
            columns["brier_score"] = self.squares / (self.size or np.nan)
        return columns

    @property
    def confidence(self) -> ScoreCounts | None:
        """What is right by probability: of all label cells, of one label by the largest one."""
        if self.confusion is not None or self.counts_by_score is None or self.errors is None:
            return self.largest
        return self.counts_by_score.pooled

    @property
    def reach(self) -> str:
        """From where to where the scores reach."""
        return "from {:.8g} to {:.8g}".format(*present(self.score_range))

    @cached_property
    def means(self) -> dict[str, float]:
        """Mean of each column over the instances that enter it; NaN where none does."""
        entering = self.entering if self.weights is None else self.weights
        with np.errstate(invalid="ignore"):
            means = dict(zip(self.columns, (self.totals / entering).tolist(), strict=True))
        if self.errors is not None and self.size:
            soft = self.awareness["soft"]
            means |= {f"soft_{end}_loss": float(soft[end]) for end in ("hamming", "subset")}
        return means


#: How parts add up that are no numbers, counts or arrays.
_ADDED: Mapping[str, Callable[[Any, Any], Any]] = {
    "truth": sums_of_both,
    "weighting": sums_of_both,
    "score_range": lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
}
#: The parts that count by score.
_BY_SCORE: Mapping[str, type[ScoreRows]] = {
    "largest": ScoreCounts,
    "counts_by_score": ScoreCounts,
    "thresholds": ThresholdSums,
}


def summed_columns(columns: Mapping[str, Array], weights: Array | None) -> dict[str, Any]:
    """What `Sums` holds of columns that are summed over instances where they are defined."""
    entering, totals, of_weights = np.zeros((3, len(columns)))
    for i, column in enumerate(columns.values()):
        each = np.ones(len(column)) if weights is None else weights
        defined = ~np.isnan(column)
        entering[i] = (defined | (each == 0)).sum()  # what has no weight lacks nothing
        totals[i] = (column * each)[defined].sum()
        of_weights[i] = each[defined].sum()
    return {
        "columns": tuple(columns),
        "entering": entering.astype(np.int64),
        "totals": totals,
        "weights": None if weights is None else of_weights,
    }


Rows = slice | Ints


@dataclass(frozen=True, eq=False)
class Inputs:
    """Checked matrices N x K, and what is to be summed over their rows."""

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

    def blocks(self, rows: Rows) -> Iterator[tuple[Any, Any, Any, Array | None]]:
        """Truth, scores, what is predicted and weights of blocks that fit the cache, all CSR or
        dense."""
        n, n_labels = self.true.shape
        widths = np.full(n, n_labels)
        if self.all_sparse:
            widths = row_sizes(self.true if self.score is None else self.score) + 1
        for lo, hi in stretches(widths[rows], _STORED if self.all_sparse else _BLOCK):
            at = slice(lo, hi) if isinstance(rows, slice) else rows[lo:hi]
            parts: list[Any] = [self.true, self.score, self.pred]
            parts = [None if m is None else m[at] for m in parts]
            if not self.all_sparse:
                parts = [None if m is None else dense(m) for m in parts]
            true, score, pred = parts
            if pred is None:
                reaching = predicted if self.all_sparse else reaches_threshold
                pred = reaching(score, self.threshold)
            yield true, score, pred, None if self.weights is None else self.weights[at]


def sum_rows(inputs: Inputs, rows: Rows) -> tuple[Sums, dict[str, Any]]:
    """The sums over some rows, and what each of these rows has as columns."""
    scored = inputs.score is not None
    n_labels = inputs.true.shape[1]
    weights = None if inputs.weights is None else inputs.weights[rows]
    by_label = np.zeros((3, n_labels), np.int64 if weights is None else float)
    by_instance = []
    of_order = []
    errors = _Errors(n_labels, inputs.asked)
    for true, score, pred, each in inputs.blocks(rows):
        sizes, counted = overlap(true, pred, each)
        by_instance.append(sizes)
        by_label += counted
        if not scored:
            continue
        scores = RowScores(true, as_floats(score))
        at_k = at_k_measures(inputs.asked, scores, inputs.propensities)
        of_order.append(ranking_measures(scores, inputs.conventions) | at_k)
        errors.add(scores, score.dtype, each)
    sizes = np.hstack(by_instance)
    shared, given, relevant = sizes
    values: dict[str, Any] = {}
    if inputs.flat:
        empty = float(inputs.conventions == "mulan")
        counts = Counts(shared, given, relevant, n_labels, empty)
        values = {m.name: m.each(counts) for m in MEASURES.values() if m.each is not None}
    if scored:
        of_scores = {n: np.concatenate([block[n] for block in of_order]) for n in of_order[0]}
        values |= of_scores | errors.losses(len(shared))
    values |= {name: column[rows] for name, column in inputs.further.items()}
    sums = Sums(
        n=len(shared),
        **summed_columns(values, weights),
        by_label=by_label,
        wrong=np.bincount(given + relevant - 2 * shared, weights, n_labels + 1),
        empty=np.array([(given == 0).sum(), (relevant == 0).sum()]),
        conventions=inputs.conventions,
    )
    if scored:
        sums = replace(sums, **errors.sums(inputs, rows, weights))
        if errors.are_soft:
            mean, largest = np.hstack(errors.ends)
            values |= {"soft_hamming_loss": mean, "soft_subset_loss": largest}
    return sums, values | {"true_labels": relevant, "predicted_labels": given}


class _Errors:
    """What abs(score - truth) of blocks of rows sums to while all scores lie in [0, 1]."""

    def __init__(self, n_labels: int, asked: Collection[str]):
        self.asked = [name for name in ("log_loss", "brier_score") if name in asked]
        self.by_place = np.zeros(n_labels)  # sums of the largest, the second largest, … of a row
        self.squares = np.zeros(n_labels)  # sums of squares, label by label
        self.ends: list[Array] = []  # mean and largest of each row
        self._losses: list[Array] = []
        self.span = (np.inf, -np.inf)

    @property
    def are_soft(self) -> bool:
        return self.span[0] >= 0 and self.span[1] <= 1

    def losses(self, n: int) -> Columns:
        """Log loss and Brier score of each row, as far as they were asked for."""
        if not self.are_soft:
            return {name: np.full(n, np.nan) for name in self.asked}
        columns = np.hstack(self._losses) if self._losses else ()
        both = dict(zip(("log_loss", "brier_score"), columns, strict=False))
        return {name: both[name] for name in self.asked}

    def sums(self, inputs: Inputs, rows: Rows, weights: Array | None) -> dict[str, Any]:
        """What `Sums` holds of these rows' scores, as far as it was asked for."""
        parts: dict[str, Any] = {"score_range": self.span}
        on_counts = any(MEASURES[m].family == "curve" for m in inputs.asked)
        if on_counts or numbers(ECE_NAME, inputs.asked):
            true, score = inputs.true[rows], inputs.score[rows]
            parts["counts_by_score"] = ScoreCounts.of(score, true, weights)
        if self.are_soft:
            parts["errors"] = self.by_place
            parts["squares"] = self.squares if "brier_score" in self.asked else None
            if inputs.classes is not None:
                parts["thresholds"] = inputs.classes.sums(inputs.true[rows], inputs.score[rows])
        return parts

    def add(self, scores: RowScores, kind: np.dtype, weights: Array | None) -> None:
        """Take in a block of scores, given as numbers of this kind."""
        reached = [self.span, *((t.scores.min(), t.scores.max()) for t in scores.tables)]
        reached += [(0.0, 0.0) for table in scores.tables if table.others]
        lows, highs = zip(*reached, strict=True)
        self.span = float(min(lows)) + 0.0, float(max(highs)) + 0.0  # -0 is 0
        if not self.are_soft:
            return
        n, n_labels = scores.score.shape
        each = np.ones(n) if weights is None else weights
        mean, largest, logs, squares = np.zeros((4, n))
        # The errors of a logarithm are clipped as scikit-learn does, by the type of the scores.
        low = float(np.finfo(kind if kind.kind == "f" else float).eps)
        for table in scores.tables:
            rows = table.rows
            off = np.abs(np.subtract(table.scores, table.truth, dtype=float))
            if self.asked:
                taken = np.log(1 - np.clip(off, low, 1 - low)).sum(axis=1)
                logs[rows] = -taken - table.others * np.log(1 - low)
                squared = off**2
                squares[rows] = squared.sum(axis=1)
                by_cell = (squared * each[rows, None]).ravel()
                self.squares += np.bincount(table.labels.ravel(), by_cell, n_labels)
            off.sort(axis=1)
            mean[rows] = off.sum(axis=1)
            largest[rows] = off[:, -1]
            if weights is not None:
                off *= each[rows, None]
            self.by_place[: off.shape[1]] += off.sum(axis=0)[::-1]
        self.ends.append(np.array([mean / n_labels, largest]))
        self._losses.append(np.array([logs, squares]) / n_labels)


def label_influences(inputs: Inputs, sums: Iterable[Sums]) -> dict[str, NDArray[np.float32]]:
    """By measure the change that each instance makes, to first order, of sum 0."""
    parts = list(sums)
    n = inputs.true.shape[0]
    kind = LABEL_SETS if parts[0].confusion is None else ONE_LABEL
    scale = 1.0 if inputs.weights is None else n / inputs.weights.sum()
    shared, given, relevant = np.sum([part.by_label for part in parts], axis=0) * scale
    counts = replace(parts[0].counts, shared=shared, predicted=given, true=relevant, cells=n)
    slopes = {}
    for m in MEASURES.values():
        formula: Any = m.formula
        if m.is_of(kind, inputs.asked) and hasattr(formula, "slopes"):
            slopes[m.name] = formula.slopes(counts).astype(np.float32)
    changes = np.empty((len(slopes), n), np.float32)
    of_both, of_pred, of_true = np.stack(list(slopes.values()), axis=-1)
    start = 0
    for t, _, p, _ in inputs.blocks(slice(None)):
        t = t.astype(np.float32)
        p = p.astype(np.float32)
        at = slice(start, start := start + t.shape[0])
        both = t.multiply(p) if inputs.all_sparse else t * p
        changes[:, at] = (both @ of_both + p @ of_pred + t @ of_true).T
    each = None if inputs.weights is None else inputs.weights * scale
    changes -= np.average(changes, axis=1, weights=each)[:, None].astype(np.float32)
    if each is not None:
        changes *= each.astype(np.float32)
    return dict(zip(slopes, changes, strict=True))


#: What sums some rows, as `sum_rows`.
SumPart = Callable[[Inputs, Rows], tuple[Sums, dict[str, Any]]]


def sum_folds(
    inputs: Inputs,
    folds: Any,
    seconds: Mapping[str, Any],
    instances: bool,
    sum_part: SumPart = sum_rows,
) -> tuple[dict[Hashable, Sums], pd.DataFrame | None, NDArray[np.uint64] | None]:
    """The sums of each fold, the table of instances, and a number for the truth of each."""
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
        part, values = sum_part(inputs, rows)
        own_times = {name: of_folds[key] for name, of_folds in times.items()}
        sums[key] = replace(part, seconds=own_times, truth=added(digests[rows]))
        if weights is not None:
            own = weights[rows]
            weighting = added(digests[rows], own)
            sums[key] = replace(sums[key], weighting=weighting, weight=float(own.sum()))
            values = {SAMPLE_WEIGHT: own, **values}
        if instances:
            tables.append(pd.DataFrame(values, index=np.arange(n)[rows]))
            if key is not None:
                tables[-1].insert(0, "fold", [key] * len(tables[-1]))
    if not instances:
        return sums, None, None
    return sums, pd.concat(tables).sort_index().reset_index(drop=True), digests


def _seconds(value: Any, name: str, folds: list[Hashable]) -> dict[Hashable, float]:
    """The seconds of each fold, given for it or for the only one."""
    of_one = dict.fromkeys(folds, value) if len(folds) == 1 else {}
    given = dict(value) if isinstance(value, Mapping) else of_one
    if given.keys() != set(folds) or not all(np.isfinite(v) and v >= 0 for v in given.values()):
        several = f"a mapping with one number for each of the {len(folds)} folds"
        want = "one number" if of_one else several
        raise ValueError(f"`{name}` must be {want}, in seconds and not negative, got {value!r}.")
    return {key: float(v) for key, v in given.items()}


# ---- why measures are absent, and what to know of the input --------------------------------------

#: Families that need scores, and such as are probabilities.
_OF_SCORES = ("ranking", "at-k", "curve")
_OF_PROBABILITIES = ("probability", "hierarchical-threshold")


def why_absent(
    name: str, kind: str, sums: Sums, has_hierarchy: bool, asked: Collection[str] = ()
) -> str:
    """Why an evaluation of this kind lacks a measure: the first reason that holds."""
    measure = MEASURES[name]
    family = measure.family
    hierarchical = family.startswith("hierarchical")
    of_probabilities = family in _OF_PROBABILITIES or name.startswith("soft_")
    of_scores = of_probabilities or family in _OF_SCORES or name.startswith("distance_")
    undefined = sums.n - dict(zip(sums.columns, sums.entering, strict=True)).get(name, sums.n)
    at_thresholds = family == "hierarchical-threshold"
    no_probabilities = "it needs probabilities, and `y_score` is said to hold other scores"
    low, high = sums.score_range or (0, 1)  # without scores an earlier reason holds
    if not 0 <= low <= high <= 1:
        no_probabilities = f"it needs scores in [0, 1], and `y_score` reaches {sums.reach}"
    reasons = (
        (family == "cost", "it was not measured, or not of all parts"),
        (sums.weight == 0, "all instances have the weight 0"),
        (kind in measure.asked and name not in asked, "it was not asked for"),
        (kind not in measure.kinds, f"it is of {' or '.join(measure.kinds)}, not of {kind}"),
        (hierarchical and not has_hierarchy, "no `hierarchy` was given"),
        (of_scores and sums.score_range is None, "no scores were given"),
        (of_probabilities and sums.errors is None, no_probabilities),
        (at_thresholds and sums.weight is not None, "it has no form with `sample_weight`"),
        (name in sums.columns, f"it is not defined for {undefined} of {sums.n} instances"),
        (name == "s_min", "no `train_labels` were given"),
        (hierarchical and not measure.asked, "it was not asked for"),
        (True, "it is not defined for these instances together"),
    )
    return next(text for holds, text in reasons if holds)


def doubts_about(
    kind: str, sums: Sums, names: Sequence[Hashable], threshold: Any
) -> tuple[str, ...]:
    """What a reader of the measures must know about the input."""
    doubts = []
    conventions = sums.conventions
    if sums.weight is not None:
        text = f"the {sums.n} instances count by their sample weights, in all {sums.weight:.6g}"
        doubts.append(f"{text}; counts of labels are sums of weights")
    never = int((sums.by_label[2] == 0).sum())
    if kind != ONE_LABEL and (empty := int(sums.empty[1])):
        text = f"{empty} of {sums.n} instances have no true label; what they count is convention"
        doubts.append(f"{text} ({conventions})")
    if never and kind != CLASS_SETS:
        noun = "labels" if kind == LABEL_SETS else "classes"
        text = f"{never} of {len(names)} {noun} never occur in the truth; what they count in macro"
        doubts.append(f"{text} averages is convention ({conventions})")
    if kind == LABEL_SETS and threshold == 0.5 and sums.errors is None:
        text = "labels with a score of at least 0.5 were predicted, but the scores reach"
        doubts.append(f"{text} {sums.reach}: they are no probabilities")
    return tuple(doubts)


def about_bounds(bounds: Mapping[str, float]) -> str:
    """How far off measures can be that follow from scores on a grid."""
    by_size: dict[str, list[str]] = {}
    for name, bound in bounds.items():
        by_size.setdefault(f"{bound:.2g}", []).append(name)
    bounded = "; ".join(f"{some(names, 9)} by {size}" for size, names in by_size.items())
    return f"there are too many different scores to keep, and measures can be off: {bounded}"
