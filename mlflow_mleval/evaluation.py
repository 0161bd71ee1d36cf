"""Evaluate predictions: one pass over the arrays, sums that add up over batches, folds and partitions.

An `Evaluation` holds, for each fold, counts and sums over instances, from which every measure follows. Sums of disjoint
batches add up to the sums of the whole, so a batch, an epoch, a partition and a fold are all evaluated by the same code.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mlflow_mleval.measures import dependence
from mlflow_mleval.measures.dependence import Profile
from mlflow_mleval.measures.flat import CONVENTIONS, Conventions, example_measures, label_measures, overlap, set_measures
from mlflow_mleval.measures.ranking import ranking_measures
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.validation import binary_matrix, one_of, same_shape, score_matrix

_BLOCK = 1 << 15  # cells handled at a time: the working arrays of a block stay in the cache


@dataclass(frozen=True, eq=False)
class Sums:
    """Counts and sums over the instances of one fold, or of several added up.

    Attributes
    ----------
    n : int
        Instances.
    counts : array of int, shape (M,)
        Instances that enter each of the averaged columns (`Evaluation.columns`).
    totals : array, shape (2, M)
        Sums of these columns over instances: value and rounding error, so that the order of additions leaves no trace.
    by_label : array of int, shape (3, K)
        True positives, predicted and true instances of each label.
    wrong : array of int, shape (K + 1,)
        Instances with 0, 1, …, K wrong labels.
    empty : array of int, shape (2,)
        Instances with an empty prediction and with an empty truth.
    errors : array, shape (2, K), or None
        Sums of the largest, the second largest, … error abs(score - truth) of an instance, as value and rounding error.
        None without scores or where a score lies outside [0, 1].
    score_range : tuple of float, or None
        Smallest and largest score.
    seconds : mapping of str to float
        ``fit_time``, ``predict_time``, where known of all parts.
    """

    n: int
    counts: NDArray[np.int64]
    totals: NDArray[np.float64]
    by_label: NDArray[np.int64]
    wrong: NDArray[np.int64]
    empty: NDArray[np.int64]
    errors: NDArray[np.float64] | None = None
    score_range: tuple[float, float] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: Sums) -> Sums:
        known = self.errors is not None and other.errors is not None
        ranges = self.score_range, other.score_range
        return Sums(
            n=self.n + other.n,
            counts=self.counts + other.counts,
            totals=_exact_sum(self.totals, other.totals),
            by_label=self.by_label + other.by_label,
            wrong=self.wrong + other.wrong,
            empty=self.empty + other.empty,
            errors=_exact_sum(self.errors, other.errors) if known else None,
            score_range=None if None in ranges else (min(r[0] for r in ranges), max(r[1] for r in ranges)),
            seconds={name: self.seconds[name] + other.seconds[name] for name in self.seconds.keys() & other.seconds},
        )


def _exact_sum(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add numbers kept as value and rounding error (Knuth's two-sum)."""
    value = a[0] + b[0]
    part = value - a[0]
    return np.array([value, a[1] + b[1] + ((a[0] - (value - part)) + (b[0] - part))])


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What one method did on one dataset: measures overall, per fold, per label and per instance.

    Made by `evaluate`, `evaluate_hierarchical`, `evaluate_batches` and `merge`.

    Attributes
    ----------
    sums : mapping of fold to Sums
        What everything else follows from. The one key is None where no folds were given.
    columns : tuple of str
        Names of the averaged columns of the sums.
    label_names : tuple
        Names of the K labels.
    conventions : {"sklearn", "mulan"}
        What empty sets and ties count.
    inputs : tuple of str
        Which of ``y_score`` and ``y_pred`` were given.
    threshold : float, tuple of K floats, or None
        Labels with at least this score were predicted. None where ``y_pred`` was given.
    instances : pandas.DataFrame or None
        One row an instance, one column a measure, and the sizes of the true and the predicted set; ``fold`` where given.
        None if not asked for.

    >>> ev = evaluate([[1, 0, 1], [0, 1, 0]], [[0.9, 0.2, 0.4], [0.3, 0.8, 0.1]])
    >>> ev
    Evaluation(2 instances, 3 labels, f1 0.8333, hamming_loss 0.1667)
    >>> ev.measures["ranking_loss"], ev.statistics["cardinality_true"]
    (0.0, 1.5)
    >>> ev.profile("binomial").losses.round(3)
    array([0.25 , 0.367, 0.45 ])
    """

    sums: Mapping[Hashable, Sums]
    columns: tuple[str, ...]
    label_names: tuple[Hashable, ...]
    conventions: Conventions = "sklearn"
    inputs: tuple[str, ...] = ()
    threshold: float | tuple[float, ...] | None = None
    instances: pd.DataFrame | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        shown = "".join(f", {name} {self.measures[name]:.4g}" for name in ("f1", "hamming_loss") if name in self.measures)
        folds = "" if None in self.sums else f", {len(self.sums)} folds"
        return f"Evaluation({self.total.n} instances, {len(self.label_names)} labels{folds}{shown})"

    @cached_property
    def total(self) -> Sums:
        """The sums of all folds together."""
        return reduce(Sums.__add__, self.sums.values())

    @property
    def measures(self) -> dict[str, float]:
        """Every measure by the name it has in the registry, over all instances of all folds together.

        No value is NaN: a measure that the input does not give is missing here and explained in `absent`.
        """
        return self._figures[0]

    @property
    def absent(self) -> dict[str, str]:
        """The measures that could not be computed, each with the reason."""
        return self._figures[1]

    @cached_property
    def _figures(self) -> tuple[dict[str, float], dict[str, str]]:
        sums = self.total
        found: dict[str, float] = dict(sums.seconds)
        for name, count, total in zip(self.columns, sums.counts, sums.totals.sum(axis=0), strict=True):
            if count:
                found[name] = float(total / count)
        found |= label_measures(sums.by_label, self.conventions)
        found |= dependence.profile_from_histogram(sums.wrong).measures
        if sums.errors is not None:
            found |= self.profile("binomial", kind="soft").measures
        measures = {name: found[name] for name in MEASURES if name in found}
        return measures, {name: self._reason(m.family) for name, m in MEASURES.items() if name not in found}

    def _reason(self, family: str) -> str:
        if family == "cost":
            return "it was not measured"
        if family.startswith("hierarchical"):
            return "no `hierarchy` was given"
        if "y_score" not in self.inputs:
            return "no `y_score` was given"
        if family == "dependence":
            low, high = self.total.score_range or (np.nan, np.nan)
            return f"it needs scores in [0, 1], and `y_score` reaches from {low:.6g} to {high:.6g}"
        return "the truth of every instance is empty"

    @property
    def statistics(self) -> dict[str, float]:
        """What was evaluated: n_instances, n_labels, empty_truth and empty_prediction (numbers of instances without a
        true and without a predicted label), cardinality_true and cardinality_pred (mean numbers of labels)."""
        sums = self.total
        _, predicted, true = sums.by_label.sum(axis=1)
        return {
            "n_instances": sums.n,
            "n_labels": len(self.label_names),
            "empty_truth": int(sums.empty[1]),
            "empty_prediction": int(sums.empty[0]),
            "cardinality_true": float(true / sums.n),
            "cardinality_pred": float(predicted / sums.n),
        }

    @property
    def labels(self) -> pd.DataFrame:
        """One row a label: tp, fp, fn, tn, support, predicted (numbers of instances), precision, recall, f1."""
        tp, predicted, support = self.total.by_label
        rates = set_measures(tp, predicted, support, self.conventions)
        return pd.DataFrame(
            {
                "tp": tp,
                "fp": predicted - tp,
                "fn": support - tp,
                "tn": self.total.n - predicted - support + tp,
                "support": support,
                "predicted": predicted,
                "precision": rates["precision"],
                "recall": rates["recall"],
                "f1": rates["f1"],
            },
            index=pd.Index(self.label_names, name="label", tupleize_cols=False),
        )

    def fold(self, key: Hashable) -> Evaluation:
        """The evaluation of one fold."""
        if key not in self.sums:
            raise KeyError(f"no fold {key!r}; the evaluation has {', '.join(map(repr, self.sums))}.")
        rows = self.instances
        return replace(self, sums={key: self.sums[key]}, instances=None if rows is None else rows[rows["fold"] == key])

    @cached_property
    def folds(self) -> pd.DataFrame:
        """One row a fold, one column a measure; no row where no folds were given."""
        keys = [key for key in self.sums if key is not None]
        rows = [self.fold(key).measures for key in keys]
        return pd.DataFrame(rows, index=pd.Index(keys, name="fold", tupleize_cols=False), columns=list(self.measures))

    def profile(
        self,
        family: str = "binomial",
        *,
        ks: ArrayLike | None = None,
        alphas: ArrayLike | None = None,
        kind: str | None = None,
    ) -> Profile:
        """Losses between Hamming and subset 0/1, see `mlflow_mleval.measures.dependence.Profile`.

        Parameters
        ----------
        family : {"binomial", "polynomial"}
        ks, alphas : array, optional
            Parameters of the binomial and of the polynomial family; by default k = 1..K, and alpha from 1 to 1000.
        kind : {"soft", "hard"}, optional
            Of the scores or of the predicted label sets. By default of the scores where they were given.

        Raises
        ------
        ValueError
            Parameters of the other family; a soft profile without scores or with scores outside [0, 1].
        """
        one_of(family, "family", dependence.FAMILIES)
        kind = one_of(kind or ("soft" if "y_score" in self.inputs else "hard"), "kind", ("soft", "hard"))
        own, other = (ks, alphas) if family == "binomial" else (alphas, ks)
        if other is not None:
            raise ValueError(f"`{'alphas' if family == 'binomial' else 'ks'}` must not be given for the {family} family.")
        sums = self.total
        if kind == "hard":
            return dependence.profile_from_histogram(sums.wrong, family, own)
        if sums.errors is None:
            raise ValueError(f"`kind` must be 'hard' here: {self._reason('dependence')}.")
        return dependence.profile_from_means(sums.errors.sum(axis=0) / sums.n, family, own)


# ---- evaluate --------------------------------------------------------------------------------------------------------


def evaluate(
    y_true: Any,
    y_score: Any = None,
    y_pred: Any = None,
    *,
    threshold: ArrayLike = 0.5,
    label_names: Sequence[Hashable] | None = None,
    folds: Any = None,
    conventions: Conventions = "sklearn",
    instances: bool = True,
) -> Evaluation:
    """Evaluate multi-label predictions: all measures in one pass.

    Parameters
    ----------
    y_true : array, pandas.DataFrame or scipy.sparse of 0 and 1, shape (N, K)
    y_score : the same of finite numbers, optional
        The larger, the more relevant. The ranking measures need it; the dependence-aware losses need it in [0, 1].
    y_pred : the same of 0 and 1, optional
        Predicted labels. Without it, the labels with ``y_score >= threshold``. One of the two must be given.
    threshold : float or array of shape (K,)
        Not used where ``y_pred`` is given.
    label_names : sequence of K names, optional
        By default the columns of a DataFrame ``y_true``, else 0..K-1.
    folds : sequence of length N, or one value, optional
        The fold of each instance, or of all.
    conventions : {"sklearn", "mulan"}
        What empty sets and ties count.
    instances : bool
        Keep a row for each instance.

    Returns
    -------
    Evaluation

    Raises
    ------
    ValueError, TypeError
        Shapes that differ, labels other than 0 and 1, scores that are NaN or infinite, no row, DataFrames whose columns
        or indexes differ, neither ``y_score`` nor ``y_pred``.

    >>> evaluate([[1, 0], [0, 1]], y_pred=[[1, 1], [0, 1]]).measures["micro_precision"].__round__(4)
    0.6667
    """
    one_of(conventions, "conventions", CONVENTIONS)
    true = binary_matrix(y_true, "y_true")
    score = None if y_score is None else score_matrix(y_score, "y_score")
    pred = None if y_pred is None else binary_matrix(y_pred, "y_pred")
    for matrix, value, name in ((score, y_score, "y_score"), (pred, y_pred, "y_pred")):
        if matrix is not None:
            same_shape(matrix, name, true, "y_true")
            _same_axes(value, name, y_true)
    if score is None and pred is None:
        raise ValueError("`y_score` or `y_pred` must be given, got neither. Pass scores, predicted labels, or both.")
    n, k = true.shape
    cut = None if pred is not None else _threshold(threshold, k)
    names = _names(label_names, y_true, k)
    sums, frames = {}, []
    for key, rows in _groups(folds, n).items():
        sums[key], columns = _measure(true, score, pred, rows, cut, conventions)
        if instances:
            frames.append(_frame(columns, key, rows, n))
    return Evaluation(
        sums=sums,
        columns=_EXAMPLE + (_RANKING if score is not None else ()),
        label_names=names,
        conventions=conventions,
        inputs=tuple(name for name, m in (("y_score", score), ("y_pred", pred)) if m is not None),
        threshold=cut if cut is None or np.ndim(cut) == 0 else tuple(cut.tolist()),
        instances=_assemble(frames, y_true) if instances else None,
    )


_EXAMPLE = tuple(m.name for m in MEASURES.values() if m.family == "example")
_RANKING = tuple(m.name for m in MEASURES.values() if m.family == "ranking")


def _measure(
    true: Any, score: Any, pred: Any, rows: Any, cut: Any, conventions: Conventions
) -> tuple[Sums, dict[str, NDArray[np.float64]]]:
    """The sums over some rows, and the columns they sum."""
    k = true.shape[1]
    n = true.shape[0] if isinstance(rows, slice) else len(rows)
    by_instance, by_label = np.empty((3, n), np.int64), np.zeros((3, k), np.int64)
    columns: dict[str, NDArray[np.float64]] = {}
    ranking, ends = np.empty((len(_RANKING), n)), np.empty((2, n))
    errors, low, high = np.zeros(k), np.inf, -np.inf
    sets_only = score is None and sparse.issparse(true) and sparse.issparse(pred)
    step = n if sets_only else max(1, _BLOCK // k)
    for start in range(0, n, step):
        at = slice(start, min(start + step, n))
        take = at if isinstance(rows, slice) else rows[at]
        if sets_only:
            by_instance[:, at], by_label = overlap(true[take], pred[take])
            continue
        t = _dense(true[take])
        s = None if score is None else _dense(score[take]).astype(float, order="C", copy=False)
        p = s >= cut if pred is None else _dense(pred[take])
        by_instance[:, at], counted = overlap(t, p)
        by_label += counted
        if s is None:
            continue
        ranked = ranking_measures(t, s, conventions)
        for i, name in enumerate(_RANKING):
            ranking[i, at] = ranked[name]
        low, high = min(low, s.min()), max(high, s.max())
        if low >= 0 and high <= 1:
            e = np.abs(s - t)
            e.sort(axis=1)
            errors += e.sum(axis=0)
            ends[:, at] = e.mean(axis=1), e[:, -1]
    shared, predicted, relevant = by_instance
    columns = example_measures(by_instance, k, conventions)
    if score is not None:
        columns |= dict(zip(_RANKING, ranking, strict=True))
    averaged = np.array(list(columns.values()))
    known = ~np.isnan(averaged)
    soft = low >= 0 and high <= 1
    sums = Sums(
        n=n,
        counts=known.sum(axis=1),
        totals=np.array([np.where(known, averaged, 0).sum(axis=1), np.zeros(len(averaged))]),
        by_label=by_label,
        wrong=np.bincount(predicted + relevant - 2 * shared, minlength=k + 1),
        empty=np.array([(predicted == 0).sum(), (relevant == 0).sum()]),
        errors=np.array([errors[::-1], np.zeros(k)]) if score is not None and soft else None,
        score_range=None if score is None else (float(low), float(high)),
    )
    if sums.errors is not None:
        columns |= {"soft_hamming_loss": ends[0], "soft_subset_loss": ends[1]}
    return sums, {**columns, "true_labels": relevant, "predicted_labels": predicted}


def _dense(block: Any) -> NDArray[Any]:
    return block.toarray() if sparse.issparse(block) else block


def _groups(folds: Any, n: int) -> dict[Hashable, Any]:
    """The rows of each fold, folds in order."""
    if folds is None or np.ndim(folds) == 0:
        return {folds.item() if isinstance(folds, np.generic) else folds: slice(None)}
    if len(folds) != n:
        raise ValueError(f"`folds` must hold one fold for each of the {n} instances, got {len(folds)}.")
    codes, keys = pd.factorize(np.asarray(folds), sort=True)
    if (codes < 0).any():
        raise ValueError(f"`folds` must not be missing, got NaN or None for instance {(codes < 0).argmax()} "
                         f"({(codes < 0).sum()} in all). Leave these instances out.")
    if len(keys) == 1:
        return {keys.tolist()[0]: slice(None)}
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    return dict(zip(keys.tolist(), rows, strict=True))


def _threshold(threshold: ArrayLike, n_labels: int) -> Any:
    cut = np.asarray(threshold, dtype=float)
    if cut.shape not in ((), (n_labels,)) or np.isnan(cut).any():
        raise ValueError(f"`threshold` must be one number or one for each of the {n_labels} labels, got {threshold!r}.")
    return cut.item() if cut.ndim == 0 else cut


def _names(label_names: Sequence[Hashable] | None, y_true: Any, n_labels: int) -> tuple[Hashable, ...]:
    if label_names is None:
        label_names = y_true.columns if isinstance(y_true, pd.DataFrame) else range(n_labels)
    names = tuple(v.item() if isinstance(v, np.generic) else v for v in label_names)
    if len(names) != n_labels:
        raise ValueError(f"`label_names` must hold one name for each of the {n_labels} labels, got {len(names)}.")
    if len(set(names)) != n_labels:
        twice = [v for v in dict.fromkeys(names) if names.count(v) > 1]
        raise ValueError(f"`label_names` must differ, got {', '.join(map(repr, twice[:8]))} more than once.")
    return names


def _same_axes(value: Any, name: str, y_true: Any) -> None:
    """DataFrames must agree in columns and index: by position they would be mixed up."""
    if not (isinstance(value, pd.DataFrame) and isinstance(y_true, pd.DataFrame)):
        return
    for axis, mine, theirs in (("columns", value.columns, y_true.columns), ("index", value.index, y_true.index)):
        if not mine.equals(theirs):
            at = next(i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b)
            raise ValueError(
                f"`{name}` must have the {axis} of `y_true` in the same order, got {mine[at]!r} for {theirs[at]!r} at "
                f"position {at}. Reorder it, or pass {name}.to_numpy() if the order is right."
            )


def _frame(columns: Mapping[str, NDArray[Any]], key: Hashable, rows: Any, n: int) -> pd.DataFrame:
    frame = pd.DataFrame(columns, index=np.arange(n) if isinstance(rows, slice) else rows)
    if key is not None:
        frame.insert(0, "fold", [key] * len(frame))
    return frame


def _assemble(frames: Sequence[pd.DataFrame], y_true: Any) -> pd.DataFrame:
    """One table in the order of the instances."""
    table = frames[0] if len(frames) == 1 else pd.concat(frames).sort_index()
    table.index = y_true.index if isinstance(y_true, pd.DataFrame) else pd.RangeIndex(len(table))
    return table
