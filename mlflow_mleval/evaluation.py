"""Evaluate predictions: one pass over the arrays, sums that add up over batches, folds and
partitions."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mlflow_mleval.measures import hierarchical, owa
from mlflow_mleval.measures import inputs as digests
from mlflow_mleval.measures.curves import classes_above, curve_table, reliability_table
from mlflow_mleval.measures.hierarchical import of_class_sets, of_label_matrices, requested
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.inputs import Propensities, are_lists, label_matrices, predicted
from mlflow_mleval.measures.label_ranking import SCORED, parsed, without_zeros
from mlflow_mleval.measures.one_label import (
    are_classes,
    class_vectors,
    is_vector,
    one_hot,
    sum_classes,
)
from mlflow_mleval.measures.owa import Profile
from mlflow_mleval.measures.registry import (
    BINS,
    CLASS_SETS,
    CONVENTIONS,
    LABEL_SETS,
    MANY_LABELS,
    MEASURES,
    ONE_LABEL,
    SETS,
    Conventions,
    f1,
    precision,
    ratio,
    recall,
)
from mlflow_mleval.measures.sums import (
    Inputs,
    SumPart,
    Sums,
    about_bounds,
    doubts_about,
    label_influences,
    sum_folds,
    sum_rows,
    why_absent,
)
from mlflow_mleval.package import Reported
from mlflow_mleval.sentences import Message
from mlflow_mleval.validation import (
    binary_matrix,
    column_names,
    from_tensor,
    instance_weights,
    label_threshold,
    one_of,
    present,
    refuse_keywords,
    same_axes,
    same_shape,
    score_matrix,
    unique_names,
)

if TYPE_CHECKING:
    import networkx as nx


Seconds: TypeAlias = float | Mapping[Hashable, float] | None  #: of all folds together, or by fold


@dataclass(frozen=True, eq=False)
class Evaluation(Reported):
    """What one method did on one dataset: measures overall, per fold, per label (or class) and per
    instance.

    Attributes
    ----------
    sums : mapping of fold to Sums
        What everything else follows from; the key is None without folds.
    label_names : tuple
    inputs : tuple of str; of ``y_score``, ``y_pred``, ``pred_sets``, ``sample_weight`` those given
    conventions : {"sklearn", "mulan"}
        What empty sets and ties count.
    threshold : float, tuple of K floats, or None
        Labels with at least this score were predicted. None where predictions were given.
    hierarchy : mapping or None
        The options of the hierarchical measures, and what identifies the hierarchy.
    instances : pandas.DataFrame or None
        One row an instance: its fold and its sample_weight, where these were given, its measures,
        the numbers of its true and predicted labels.
    taxonomy : Hierarchy or None
        The hierarchy itself. None without one, and in an Evaluation made by `from_dict`.
    split : str or None
        SHA-256 of which instances each fold tests, where that is known.
    instance_truth : array of int, shape (N,), or None
        A number for each row of `instances` that tells its set of true labels from others.
    asked : tuple of str
        The measures that were asked for beside the usual ones.
    propensities : mapping or None
        What identifies the propensities of labels: a, b, and the digest of the training labels.
    influences : mapping of str to array, shape (N,), or None
        What each instance adds to averages over labels, to first order. None without instances, and
        once merged or taken apart.

    >>> ev = evaluate([[1, 0, 1], [0, 1, 0]], [[0.9, 0.2, 0.4], [0.3, 0.8, 0.1]])
    >>> ev
    Evaluation(2 instances, 3 labels, f1 0.8333, hamming_loss 0.1667)
    >>> ev.measures["ranking_loss"], ev.statistics["cardinality_true"]
    (0.0, 1.5)
    >>> ev.profile("binomial").losses.round(3)
    array([0.25 , 0.367, 0.45 ])
    """

    sums: Mapping[Hashable, Sums]
    label_names: tuple[Hashable, ...]
    inputs: tuple[str, ...]
    conventions: Conventions = "sklearn"
    threshold: float | tuple[float, ...] | None = None
    hierarchy: Mapping[str, Any] | None = None
    instances: pd.DataFrame | None = field(default=None, repr=False)
    taxonomy: Hierarchy | None = None
    split: str | None = None
    instance_truth: NDArray[np.uint64] | None = None
    asked: tuple[str, ...] = ()
    propensities: Mapping[str, Any] | None = None
    influences: Mapping[str, NDArray[np.float32]] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        one = self.kind == ONE_LABEL
        shown = ("top1_accuracy", "macro_f1") if one else ("f1", "hamming_loss", "h_f1")
        folds = "" if None in self.sums else f", {len(self.sums)} folds"
        known = self.measures
        figures = "".join(f", {name} {known[name]:.4g}" for name in shown if name in known)
        labels = f"{len(self.label_names)} {'classes' if one else 'labels'}"
        return f"Evaluation({self.total.n} instances, {labels}{folds}{figures})"

    @cached_property
    def total(self) -> Sums:
        """The sums of all folds together."""
        return reduce(Sums.__add__, self.sums.values())

    @property
    def kind(self) -> str:
        """What was predicted of each instance: "label sets", "one label" of several classes, or
        "class sets" of a hierarchy.
        """
        if "pred_sets" in self.inputs:
            return CLASS_SETS
        return LABEL_SETS if self.total.confusion is None else ONE_LABEL

    @property
    def truth_digest(self) -> str:
        """What tells the truth from other data.

        It is made of the names of the labels, the number of instances, and the sum modulo 2^64 of
        64 bits of each label set: the same in whatever batches, folds or order they are
        evaluated and merged. It does not tell the order of instances, and who means to deceive can
        make up two truths of one sum. One that several folds test counts as often.
        """
        sums = self.total
        return digests.truth_digest(self.label_names, sums.n, sums.truth)

    @property
    def weights_digest(self) -> str | None:
        """What tells the weights from others, in whatever order; None where each counts once."""
        total = self.total.weighting
        return None if total is None else sha256(str(total).encode()).hexdigest()

    @property
    def measures(self) -> dict[str, float]:
        """Every measure by its name in the registry, over the instances of all folds together
        (times: their sum).

        No value is NaN: a measure that the input does not give is missing here and explained in
        `absent`.
        """
        return self._figures[0]

    @cached_property
    def absent(self) -> dict[str, str]:
        """The measures that could not be computed, each with the reason."""
        has_hierarchy = self.hierarchy is not None
        return {
            name: why_absent(name, self.kind, self.total, has_hierarchy, self.asked)
            for name in dict.fromkeys([*MEASURES, *self.asked])
            if name not in self.measures
        }

    @cached_property
    def _figures(self) -> tuple[dict[str, float], dict[str, float]]:
        """The values, and what they can be wrong by, where they can."""
        sums = self.total
        # A mean over fewer instances would be another measure, but where MULAN leaves some out.
        incomplete = {
            n for n, count in zip(sums.columns, sums.entering, strict=True) if count < sums.n
        } - {"average_precision"}
        values = {}
        bounds = {}
        for name in dict.fromkeys([*MEASURES, *self.asked]):
            measure = MEASURES[name]
            value, bound = float("nan"), 0.0
            some = sums.size or measure.family == "cost"
            if some and measure.is_of(self.kind, self.asked) and name not in incomplete:
                if measure.formula is None:
                    value = sums.means.get(name, value)
                else:
                    found = measure.formula(sums)
                    value, bound = found if isinstance(found, tuple) else (found, 0.0)
            if not np.isnan(value):
                low, high = measure.range
                values[name] = min(max(value, low), high)  # rounding may lead beyond
                if bound > 0:
                    bounds[name] = bound
        return values, bounds

    @property
    def statistics(self) -> dict[str, float]:
        """What was evaluated: numbers of instances, labels and empty sets, and the mean numbers of
        labels of an instance.

        Of one label: numbers of instances, of classes, and of classes that occur. With weights,
        also their sum.
        """
        sums = self.total
        size: dict[str, float] = {"n_instances": sums.n}
        if sums.weight is not None:
            size["sum_of_weights"] = sums.weight
        if self.kind == ONE_LABEL:
            occur = int((sums.by_label[2] > 0).sum())
            return {**size, "n_classes": len(self.label_names), "n_true_classes": occur}
        _, predicted, true = sums.by_label.sum(axis=1)
        return {
            **size,
            "n_labels": len(self.label_names),
            "empty_truth": int(sums.empty[1]),
            "empty_prediction": int(sums.empty[0]),
            "cardinality_true": float(ratio(true, sums.size)),
            "cardinality_pred": float(ratio(predicted, sums.size)),
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the measures must know about the input.

        >>> evaluate([[1, 0], [0, 0]], [[4.0, 0.2], [-3.0, 0.1]]).warnings  # doctest: +NORMALIZE_WHITESPACE
        ('1 of 2 instances have no true label; what they count is convention (sklearn)',
         '1 of 2 labels never occur in the truth; what they count in macro averages is convention (sklearn)',
         'labels with a score of at least 0.5 were predicted, but the scores reach from -3 to 4: they are no probabilities')
        """  # noqa: E501
        doubts = doubts_about(self.kind, self.total, self.label_names, self.threshold)
        off = self._figures[1]
        return doubts if not off else (*doubts, about_bounds(off))

    @property
    def confusion(self) -> pd.DataFrame:
        """Of one label: numbers of instances, or their weights, by true class (rows) and predicted
        class (columns).
        """
        if self.kind != ONE_LABEL:
            raise ValueError(f"`confusion` is of one label, got {self.kind}. See `labels`.")
        names = pd.Index(self.label_names, tupleize_cols=False)
        counts = present(self.total.confusion).toarray()
        return pd.DataFrame(counts, names.rename("true"), names.rename("predicted"))

    @property
    def labels(self) -> pd.DataFrame:
        """One row a label: tp, fp, fn, tn, support, predicted (numbers of instances, or their
        weights), precision, recall, f1.

        Also auroc and average_precision with scores of one label, else where areas under curves
        were asked for; and brier_score where that was asked for.
        """
        tp, predicted, support = self.total.by_label
        table = {"tp": tp, "fp": predicted - tp, "fn": support - tp}
        rest = self.total.size - predicted - support + tp
        table["tn"] = np.where(rest > 1e-12 * self.total.size, rest, 0)  # less is rounding
        table |= {"support": support, "predicted": predicted}
        counts = self.total.counts
        table |= {"precision": precision(counts), "recall": recall(counts), "f1": f1(counts)}
        index = pd.Index(self.label_names, name="label", tupleize_cols=False)
        return pd.DataFrame(table | self.total.by_score, index=index)

    def curves(self, labels: Sequence[Hashable] | None = None) -> pd.DataFrame:
        """Points of precision-recall and ROC curves: scope, label, threshold, recall, precision,
        fpr.

        The curve of all label cells together (scope "micro"), and of these labels, by default all
        that occur (scope "label"), at most 200 points each. No row where areas under curves were
        not asked for, or without scores.

        >>> ev = evaluate([[1, 0], [0, 1]], [[0.9, 0.2], [0.4, 0.6]], measures="micro_ap")
        >>> ev.curves([])[["threshold", "recall", "precision", "fpr"]].to_numpy().round(2).tolist()
        [[0.9, 0.5, 1.0, 0.0], [0.6, 1.0, 1.0, 0.0], [0.4, 1.0, 0.67, 0.5], [0.2, 1.0, 0.5, 1.0]]
        """
        drawn = self.label_names if labels is None else labels
        return curve_table(self.total.counts_by_score, self.label_names, drawn)

    def reliability(
        self, labels: Sequence[Hashable] | None = None, bins: int = BINS
    ) -> pd.DataFrame:
        """What probabilities promise and what is true, in bins of equal numbers: scope, label, n,
        mean_score, share.

        Labels and absence are as of `curves`. Of one label, scope "micro" is of the highest
        probability of each instance.
        """
        sums = self.total
        drawn = self.label_names if labels is None else labels
        counts = sums.counts_by_score
        return reliability_table(counts, sums.confidence, self.label_names, drawn, bins)

    def fold(self, key: Hashable) -> Evaluation:
        """The evaluation of one fold."""
        if key not in self.sums:
            raise KeyError(f"no fold {key!r}; there are {', '.join(map(repr, self.sums))}.")
        rows, truth = self.instances, self.instance_truth
        if rows is not None and key is not None:
            mine = (rows["fold"] == key).to_numpy()
            rows = rows[mine]
            truth = truth if truth is None else truth[mine]
        own = replace(self, sums={key: self.sums[key]}, instances=rows, instance_truth=truth)
        return replace(own, split=None, influences=None)

    @cached_property
    def folds(self) -> pd.DataFrame:
        """One row a fold, one column a measure; no row where no folds were given.

        The columns are those of `measures`. A cell is NaN where the fold does not give the measure.
        """
        keys = [key for key in self.sums if key is not None]
        light = replace(self, instances=None)
        rows = [light.fold(key).measures for key in keys]
        index = pd.Index(keys, name="fold", tupleize_cols=False)
        return pd.DataFrame(rows, index, [*self.measures], dtype=float)

    @property
    def fold_sizes(self) -> pd.Series:
        """Number of instances of each fold; empty where no folds were given."""
        sizes = {key: sums.n for key, sums in self.sums.items() if key is not None}
        return pd.Series(sizes, name="n_instances", dtype=np.int64).rename_axis("fold")

    def profile(
        self,
        family: str = "binomial",
        *,
        ks: ArrayLike | None = None,
        alphas: ArrayLike | None = None,
        kind: str | None = None,
    ) -> Profile:
        """Losses between Hamming and subset 0/1, see `mlflow_mleval.measures.owa.Profile`.

        The family is binomial, with parameters `ks`, by default 1..K, or polynomial, with `alphas`,
        by default from 1 to 1000. The kind is soft (of the scores, by default where they were
        given) or hard (of the label sets). A ValueError is raised for parameters of the other
        family or out of range, and for a soft profile without scores in [0, 1].
        """
        one_of(family, "family", owa.FAMILIES)
        if self.kind == ONE_LABEL:
            raise ValueError("`profile` is of label sets, got an evaluation of one label.")
        usual = "soft" if "y_score" in self.inputs else "hard"
        kind = one_of(kind or usual, "kind", ("soft", "hard"))
        own, other, name = (ks, alphas, "alphas") if family == "binomial" else (alphas, ks, "ks")
        if other is not None:
            raise ValueError(
                f"`{name}` must not be given for the {family} family, got {other!r}. Leave it out."
            )
        if kind == "hard":
            return owa.profile_from_histogram(self.total.wrong, family, own)
        if self.total.errors is None:
            why = self.absent["soft_hamming_loss"]
            raise ValueError(f"`kind` must be 'hard', got 'soft': {why}.")
        return owa.profile_from_means(self.total.mean_errors("soft"), family, own)

    def report(self, method: str = "", dataset: str = "") -> Any:  # type: ignore[override]
        """The report that a run would hold, as a document: see
        `mlflow_mleval.package.Reported.report`.
        """
        return super().report({"method": method, "dataset": dataset})

    def to_dict(self) -> dict[str, Any]:
        """The evaluation in lists, numbers and text for JSON, without `instances`; names and folds
        must be numbers or text.
        """
        parts = {f: getattr(self, f) for f in (*IDENTITY, "split")}
        sums = [{"fold": key, **sums.to_dict()} for key, sums in self.sums.items()]
        return {**parts, "sums": sums}

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> Evaluation:
        """The evaluation that `to_dict` wrote."""
        own = dict(parts)
        own |= {name: tuple(v) for name, v in parts.items() if isinstance(v, list)}
        by_fold = [dict(part) for part in own.pop("sums")]
        return cls({part.pop("fold"): Sums.from_dict(part) for part in by_fold}, **own)


#: In what evaluations agree that are merged.
IDENTITY: tuple[str, ...] = ("label_names", "inputs", "conventions", "threshold", "hierarchy")
IDENTITY += ("asked", "propensities")


# ---- evaluate ------------------------------------------------------------------------------------


def evaluate(
    y_true: Any,
    y_score: Any = None,
    y_pred: Any = None,
    *,
    threshold: ArrayLike = 0.5,
    label_names: Sequence[Hashable] | None = None,
    hierarchy: Hierarchy | nx.DiGraph | None = None,
    folds: Any = None,
    conventions: Conventions = "sklearn",
    instances: bool = True,
    fit_time: Seconds = None,
    predict_time: Seconds = None,
    probabilities: bool | None = None,
    measures: Iterable[str] | str | None = None,
    train_labels: Any = None,
    sample_weight: Any = None,
    **hierarchy_options: Any,
) -> Evaluation:
    """Evaluate predictions of label sets, or of one label of several classes: all measures in one
    pass.

    A matrix ``y_true`` is of label sets, a vector of one label.

    Parameters
    ----------
    y_true : array, data frame (pandas, polars, pyarrow) or scipy.sparse of 0 and 1, shape (N, K); or vector of N classes
        Classes are whole numbers, text or booleans. Label sets may also be N sets of labels, or any
        collections of labels where the scores are mappings.
    y_score : the same of finite numbers, optional
        The larger, the more relevant. The ranking measures need it; the dependence-aware losses
        need it in [0, 1]. Zeros that a sparse matrix does not store, and labels that a mapping of
        label to score lacks, are scores of 0. Integers that are all 0 or 1 give a warning. Of one
        label: probabilities or values of a decision function, shape (N, C); of two classes also
        (N,), for the second. Rows of probabilities sum to 1. A vector of text, booleans
        or integers is taken for ``y_pred``.
    y_pred : the same as ``y_true``, optional
        What is predicted. Without it, the labels with ``y_score >= threshold``, the threshold being
        rounded to the type of the scores; of one label, the class with the highest score (of equal
        ones the first). One of the two must be given.
    threshold : float or array of shape (K,)
        Not used where ``y_pred`` is given. See `calibrate_threshold`. Of one label it is for scores
        of shape (N,) only, which predict the second class above it; 0.5 counts as 0 for values of a
        decision function.
    label_names : sequence of K names, optional
        By default the columns of a data frame ``y_true``, else 0..K-1. Of one label: the classes in
        the order of the columns of ``y_score``; by default its columns, else the classes that
        occur, sorted.
    hierarchy : Hierarchy or networkx.DiGraph, optional
        Adds the hierarchical measures; the label names must be classes of it.
    folds : sequence of length N, or one value, optional
        The fold of each instance, or of all.
    conventions : {"sklearn", "mulan"}
        What empty sets and ties count.
    instances : bool
        Keep a row for each instance.
    fit_time, predict_time : float or mapping of fold to float, optional
        Seconds, measured by the caller. They add up over folds and merged parts.
    probabilities : bool, optional
        Of one label: whether ``y_score`` holds probabilities. By default it does where all lie in
        [0, 1].
    measures : str or iterable of str, optional
        Measures or named sets to compute beside the usual ones, see ``mleval measures``: those with
        any number in their name (``"precision_at_10"``, ``"ece_20"``), ``"at_k"``,
        ``"probabilistic"``, ``"hmc"``, ... With 1,000 labels or more the set at_k is always
        computed. With `hierarchy`, ``"set"``, ``"pair"`` and ``"lca"`` keep to these families of
        hierarchical measures.
    train_labels : matrix of 0 and 1, shape (M, K), or Propensities, optional
        The labels of the training instances, from which the propensities of labels follow, and the
        information that ``s_min`` needs. Adds the set xmc.
    sample_weight : array of shape (N,), optional
        How much each instance counts, as in scikit-learn: not negative; one of weight 2 counts as
        two equal ones, one of weight 0 as none. All measures are weighted but ``f_max`` and
        ``s_min``, which have no such form here, and times.
    **hierarchy_options
        The other options of `mlflow_mleval.measures.hierarchical.Options`:
        ``max_distance``, ``lca``, ...

    Raises
    ------
    ValueError, TypeError
        Shapes that differ, labels other than 0 and 1, scores that are NaN or infinite, no row, data
        frames whose columns or indexes differ, neither ``y_score`` nor ``y_pred``, label names that
        the hierarchy does not know. Of one label: classes that are missing, of different types or
        not among the names, measurements, probabilities that do not sum to 1.

    >>> evaluate(["cat", "dog", "cat"], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    Evaluation(3 instances, 2 classes, top1_accuracy 0.6667, macro_f1 0.6667)
    >>> evaluate([[1, 0], [0, 1]], y_pred=[[1, 1], [0, 1]]).measures["micro_precision"].__round__(4)
    0.6667
    """  # noqa: E501
    refuse_keywords(evaluate, hierarchy_options, hierarchical.OPTIONS)
    one_of(conventions, "conventions", CONVENTIONS)
    y_true, y_score, y_pred = map(from_tensor, (y_true, y_score, y_pred))
    h = hierarchy if isinstance(hierarchy, Hierarchy | None) else Hierarchy(hierarchy)
    index = own_index = y_true.index if isinstance(y_true, (pd.DataFrame, pd.Series)) else None
    if are_lists(y_true, y_score):
        own_index = None
        y_true, y_score, y_pred, label_names = label_matrices(y_true, y_score, y_pred, label_names)
    one_label = is_vector(y_true)
    if one_label and y_pred is None and are_classes(y_score):
        y_score, y_pred = None, y_score
    kind = ONE_LABEL if one_label else LABEL_SETS
    asked, chosen = requested(measures, kind, h is not None)
    hierarchy_options |= chosen
    sum_part = sum_rows
    if one_label:
        if train_labels is not None:
            raise TypeError("`train_labels` is for label sets, and `y_true` is of classes.")
        vectors = class_vectors(y_true, y_score, y_pred, label_names, threshold, probabilities)
        names, cut = vectors.names, vectors.threshold
        true, pred = (one_hot(side, len(names)) for side in (vectors.true, vectors.pred))
        matrices = Inputs(true, pred=pred, asked=asked)
        sum_part = partial(sum_classes, vectors)
        of_labels = true, pred, vectors.by_class
    else:
        if probabilities is not None:
            raise TypeError("`probabilities` is for one label, and `y_true` is a matrix. Omit it.")
        matrices, names = _set_inputs(
            y_true, y_score, y_pred, label_names, threshold, train_labels, asked
        )
        cut, pred = matrices.threshold, matrices.pred
        if pred is None and h is not None:
            pred = predicted(matrices.score, cut)
        of_labels = matrices.true, pred, matrices.score
    n = matrices.true.shape[0]
    each = None if sample_weight is None else instance_weights(sample_weight, n, index)
    further, identity = of_label_matrices(
        *of_labels, names, h, hierarchy_options, tuple(matrices.asked), zeros=one_label
    )
    matrices = replace(matrices, further=further, weights=each, conventions=conventions)
    if h is not None and each is None and _OVER_THRESHOLDS.intersection(matrices.asked):
        matrices = replace(matrices, classes=classes_above(names, h, matrices.propensities))
    given = {"y_score": y_score, "y_pred": y_pred, "sample_weight": each}
    return Evaluation(
        label_names=names,
        conventions=conventions,
        threshold=tuple(cut.tolist()) if isinstance(cut, np.ndarray) else cut,
        hierarchy=identity,
        taxonomy=h,
        asked=tuple(matrices.asked),
        propensities=getattr(matrices.propensities, "identity", None),
        **_summed(matrices, given, folds, fit_time, predict_time, instances, own_index, sum_part),
    )


_OVER_THRESHOLDS = frozenset({"f_max", "s_min"})  #: measures that need the classes above each label


def _set_inputs(
    y_true: Any,
    y_score: Any,
    y_pred: Any,
    label_names: Sequence[Hashable] | None,
    threshold: ArrayLike,
    train_labels: Any,
    asked: tuple[str, ...],
) -> tuple[Inputs, tuple[Hashable, ...]]:
    """Label matrices, with all that is asked of them, and the names of the labels."""
    true, score, pred = _label_matrices(y_true, y_score, y_pred)
    n_labels = true.shape[1]
    cut = None if pred is not None else label_threshold(threshold, n_labels)
    if label_names is None:
        own = column_names(y_true)
        label_names = range(n_labels) if own is None else own
    names = unique_names(label_names, "label_names", n_labels, "labels")
    scored, propensities = [f"{m}_at_{k}" for m, k in parsed(asked) if m in SCORED], None
    asked += SETS["at_k"] if n_labels >= MANY_LABELS else ()
    if train_labels is not None:
        propensities = Propensities.of(train_labels)
        if (n_columns := len(propensities.weights)) != n_labels:
            raise ValueError(
                f"`train_labels` must have the {n_labels} labels of `y_true`, got {n_columns} "
                "columns."
            )
        asked += SETS["xmc"]
    elif scored and score is not None:
        raise ValueError(f"`train_labels` must be given for {scored[0]}, of the training data.")
    if sparse.issparse(score):
        true, score = sparse.csr_array(true), without_zeros(score)
        pred = None if pred is None else sparse.csr_array(pred)
    asked = tuple(dict.fromkeys(asked))
    return Inputs(true, score, pred, cut, asked=asked, propensities=propensities), names


def _summed(
    matrices: Inputs,
    given: Mapping[str, Any],
    folds: Any,
    fit_time: Any,
    predict_time: Any,
    instances: bool,
    index: pd.Index | None,
    sum_part: SumPart = sum_rows,
) -> dict[str, Any]:
    """What an Evaluation holds of the rows, made in one pass over them, and which of the inputs
    were given."""
    seconds = {"fit_time": fit_time, "predict_time": predict_time}
    sums, table, truth = sum_folds(matrices, folds, seconds, instances, sum_part)
    if table is not None and index is not None:
        table.index = index
    weights = matrices.weights
    known = instances and matrices.flat and (weights is None or weights.any())
    return {
        "inputs": tuple(name for name, value in given.items() if value is not None),
        "sums": sums,
        "instances": table,
        "instance_truth": truth,
        "influences": label_influences(matrices, sums.values()) if known else None,
    }


def _label_matrices(y_true: Any, y_score: Any, y_pred: Any) -> tuple[Any, Any, Any]:
    """Truth, scores and predictions of label sets, checked against each other."""
    true = binary_matrix(y_true, "y_true")
    score = None if y_score is None else score_matrix(y_score)
    pred = None if y_pred is None else binary_matrix(y_pred, "y_pred")
    if score is None and pred is None:
        raise ValueError("`y_score` or `y_pred` must be given, got neither. Pass scores or labels.")
    for matrix, value, name in ((score, y_score, "y_score"), (pred, y_pred, "y_pred")):
        if matrix is not None:
            same_shape(matrix, name, true)
            same_axes(value, name, y_true, "y_true")
    if score is not None and score.dtype.kind in "bui" and score.max() <= 1 and score.min() >= 0:
        text = "`y_score` holds integers that are all 0 or 1. Pass predicted labels as `y_pred`."
        warnings.warn(text, stacklevel=4)
    return true, score, pred


def evaluate_hierarchical(
    true_sets: Any,
    pred_sets: Any,
    h: Hierarchy | nx.DiGraph,
    *,
    folds: Any = None,
    instances: bool = True,
    sample_weight: Any = None,
    fit_time: Seconds = None,
    predict_time: Seconds = None,
    **hierarchy_options: Any,
) -> Evaluation:
    """Evaluate predicted sets of classes of a hierarchy.

    Parameters
    ----------
    true_sets, pred_sets : sequence of N collections of class names, or scipy.sparse of 0 and 1, shape (N, C)
        The columns of a matrix are ``h.nodes``.
    h : Hierarchy or networkx.DiGraph
    folds, instances, fit_time, predict_time, sample_weight
        As for `evaluate`.
    **hierarchy_options
        ``max_distance``, ``lca``, ``lca_max_distance``, ``count_root``, ``far_pairs``,
        ``max_ancestors``, ``measures``: see
        `mlflow_mleval.measures.hierarchical.Options`.

    Returns
    -------
    Evaluation
        Its labels are the classes. The flat measures over all classes are absent; `evaluate` gives
        both.

    Raises
    ------
    ValueError, TypeError
        Unknown classes, different numbers of instances, two Series with different indexes, no
        instance, options out of range.

    >>> h = Hierarchy([("animal", "cat"), ("animal", "dog")])
    >>> evaluate_hierarchical([["cat"], ["dog"]], [["dog"], ["dog"]], h).measures["h_f1"]
    0.75
    """  # noqa: E501
    refuse_keywords(evaluate_hierarchical, hierarchy_options, hierarchical.OPTIONS)
    same_axes(pred_sets, "pred_sets", true_sets, "true_sets")
    h = h if isinstance(h, Hierarchy) else Hierarchy(h)
    true, pred = h.indicator(true_sets, "true_sets"), h.indicator(pred_sets, "pred_sets")
    if true.shape != pred.shape:
        raise ValueError(
            f"`pred_sets` must hold as many instances as `true_sets` ({true.shape[0]}), got "
            f"{pred.shape[0]}."
        )
    asked, chosen = requested(hierarchy_options.pop("measures", None), CLASS_SETS, True)
    hierarchy_options |= chosen
    index = true_sets.index if isinstance(true_sets, pd.Series) else None
    n = true.shape[0]
    each = None if sample_weight is None else instance_weights(sample_weight, n, index)
    further, identity = of_class_sets(true, pred, h, hierarchy_options, asked)
    matrices = Inputs(true, pred=pred, flat=False, further=further, weights=each)
    given = {"pred_sets": pred, "sample_weight": each}
    return Evaluation(
        label_names=tuple(h.nodes),
        hierarchy=identity,
        taxonomy=h,
        asked=asked,
        **_summed(matrices, given, folds, fit_time, predict_time, instances, index),
    )


# ---- batches and their merging -------------------------------------------------------------------


def evaluate_batches(
    batches: Iterable[Mapping[str, Any] | Sequence[Any]], **options: Any
) -> Evaluation:
    """Evaluate data larger than memory, batch by batch.

    Parameters
    ----------
    batches : iterable of sequences or mappings
        Each holds the arguments of `evaluate`: ``(y_true, y_score)``, ``(y_true, y_score,
        y_pred)``, or by name, with ``folds`` if need be. Only one batch is held at a time.
    **options
        Options of `evaluate` for all batches.

    Returns
    -------
    Evaluation
        Equal to the evaluation of the whole; without `instances`. Areas under curves of more than a
        million different scores of a fold go by a grid; `warnings` says how far off they can be.

    Raises
    ------
    ValueError, TypeError
        As `evaluate` and `merge`, with the number of the batch; no batch.

    >>> evaluate_batches(([[1, 0]], [[score, 0.5]]) for score in (0.7, 0.4)).measures["one_error"]
    0.5
    """
    if options.get("train_labels") is not None:
        options["train_labels"] = Propensities.of(options["train_labels"])  # once
    whole = None
    for i, batch in enumerate(batches):
        try:
            of_part = {**options, "instances": False}
            if isinstance(batch, Mapping):
                part = evaluate(**batch, **of_part)
            else:
                part = evaluate(*batch, **of_part)
            whole = part if whole is None else merge([whole, part])
        except (ValueError, TypeError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(Message(f"batch {i}: ", error)) from error
    if whole is None:
        raise ValueError("`batches` must yield at least one batch, got none.")
    return whole


def merge(evaluations: Iterable[Evaluation]) -> Evaluation:
    """One Evaluation of disjoint batches, partitions or folds, as if they had been evaluated
    together.

    Parameters
    ----------
    evaluations : iterable of Evaluation
        Of the same labels with the same conventions and options. The sums of equal folds are added
        up.

    Returns
    -------
    Evaluation
        Its `instances` stand in the order of the evaluations, and only if all have them. For areas
        under curves of very many scores see `evaluate_batches`.

    Raises
    ------
    ValueError
        No evaluation, or some that do not fit together; the difference is named.
    TypeError
        Something that is not an Evaluation.

    >>> parts = [evaluate([[1, 0]], [[score, 0.5]], folds=fold) for fold, score in enumerate([0.7, 0.4])]
    >>> merge(parts).folds["one_error"].tolist()
    [0.0, 1.0]
    """  # noqa: E501
    evaluations = list(evaluations)
    if not evaluations:
        raise ValueError("`evaluations` must hold at least one, got none.")
    first = evaluations[0]
    _refuse_differences(first, evaluations)
    if len(evaluations) == 1:
        return first
    sums: dict[Hashable, Sums] = {}
    for ev in evaluations:
        for key, part in ev.sums.items():
            sums[key] = (sums[key] + part).bounded if key in sums else part
    tables = [ev.instances for ev in evaluations if ev.instances is not None]
    truths = [ev.instance_truth for ev in evaluations if ev.instance_truth is not None]
    instances = None
    if len(tables) == len(evaluations):
        plain = all(isinstance(table.index, pd.RangeIndex) for table in tables)
        instances = pd.concat(tables, ignore_index=plain)
    return replace(
        first,
        # sorted, so that the order of merging leaves no trace
        sums=dict(sorted(sums.items(), key=lambda item: (type(item[0]).__name__, item[0]))),
        instances=instances,
        instance_truth=np.concatenate(truths) if len(truths) == len(evaluations) else None,
        taxonomy=next((ev.taxonomy for ev in evaluations if ev.taxonomy is not None), None),
        split=None,  # folds of parts are other folds
        influences=None,
    )


def _refuse_differences(first: Evaluation, evaluations: Sequence[Evaluation]) -> None:
    """Raise where these are not parts of one evaluation."""
    for i, ev in enumerate(evaluations):
        if not isinstance(ev, Evaluation):
            raise TypeError(f"`evaluations` must be Evaluations, got {type(ev).__name__} at {i}.")
        for name in IDENTITY:
            a, b = getattr(first, name), getattr(ev, name)
            if a == b:
                continue
            got = f"{reprlib.repr(a)} and {reprlib.repr(b)}"
            if isinstance(a, Mapping) and isinstance(b, Mapping):
                key = next(key for key in [*a, *b] if a.get(key) != b.get(key))
                got = f"{key} {a.get(key)!r} and {b.get(key)!r}"
            raise ValueError(
                f"`evaluations` must agree in {name}, got {got} at positions 0 and {i}. Evaluate "
                "all parts alike, with the same `label_names` and options."
            )
        if (None in ev.sums) != (None in first.sums):
            raise ValueError(f"`evaluations` must all have folds or none, got both at 0 and {i}.")
