"""One label of several classes: what is summed over the instances of a fold, and the measures that
follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.measures.class_counts import ClassCounts
from mlflow_mleval.measures.class_vectors import ClassVectors
from mlflow_mleval.measures.flat import set_measures, weight_of_all
from mlflow_mleval.measures.label_sums import Sums, summed_columns
from mlflow_mleval.measures.registry import BINS, ECE_NAME, TOP, TOP_NAME, numbers
from mlflow_mleval.measures.score_counts import ScoreCounts

_BLOCK = 1 << 18  # cells of scores that are ranked at a time
#: What the scores give by instance; NaN where they are no probabilities.
_PROBABILITIES = ("log_loss", "brier_score")


def sum_classes(
    true: Any,
    score: Any,
    pred: Any,
    *,
    rows: slice | NDArray[np.int64] = slice(None),
    vectors: ClassVectors,
    further: Mapping[str, NDArray[np.float64]] | None = None,
    seconds: Mapping[str, float] | None = None,
    truth: int | None = None,
    weights: NDArray[np.float64] | None = None,
    weighting: int | None = None,
) -> tuple[Sums, dict[str, NDArray[np.float64]]]:
    """The sums over some rows, and the values of each of these rows; see `label_sums.sum_rows`,
    whose place it takes.

    The matrices are those of the vectors, which know more.
    """
    n_classes = len(vectors.names)
    t, p = vectors.true[rows], vectors.pred[rows]
    s = None if vectors.score is None else vectors.score[rows]
    w = None if weights is None else weights[rows]
    right = t == p
    values: dict[str, NDArray[np.float64]] = {"top1_accuracy": right.astype(float)}
    each = np.ones(len(t), np.int64) if w is None else w
    confusion = sparse.csr_array((each, (t, p)), shape=(n_classes, n_classes))
    confusion.sum_duplicates()
    ranks = scores = confidence = None
    if s is not None:
        binary = s.ndim == 1
        if not binary:
            ranks = np.bincount(_ranks(t, s), w, n_classes)
        own = s if binary else s[:, 1] if n_classes == 2 else None
        one = s if own is None else own[:, None]
        scores = ScoreCounts.of(one, true[rows].toarray() if own is None else (t == 1)[:, None], w)
        values |= dict.fromkeys(_PROBABILITIES, np.full(len(t), np.nan))
        if vectors.is_probability:
            of_true = np.where(t == 1, s, 1 - s) if binary else s[np.arange(len(t)), t]
            squares = (
                (1 - of_true) ** 2 if binary else ((s**2).sum(axis=1) + 1 - 2 * of_true) / n_classes
            )
            loss = -np.log(np.clip(of_true, vectors.epsilon, 1 - vectors.epsilon))
            values |= dict(zip(_PROBABILITIES, (loss, squares), strict=True))
            largest = np.maximum(s, 1 - s) if binary else s.max(axis=1)
            confidence = ScoreCounts.of(largest[:, None], right[:, None], w)
    values |= {name: column[rows] for name, column in (further or {}).items()}
    sums = Sums(
        n=len(t),
        **summed_columns(values, w),
        by_label=np.array(
            [confusion.diagonal(), confusion.sum(axis=0), confusion.sum(axis=1)], each.dtype
        ),
        wrong=np.zeros(0, np.int64),
        empty=np.zeros(2, np.int64),
        score_range=None if s is None else (float(s.min()), float(s.max())),
        seconds=seconds or {},
        truth=truth,
        classes=ClassCounts(confusion, ranks, scores, confidence),
        weight=None if w is None else weight_of_all(w),
        weighting=weighting,
    )
    return sums, values


def _ranks(true: NDArray[np.int64], score: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many classes come before the true one: those with a higher score, of equal ones those
    with a lower number.
    """
    found = np.empty(len(true), np.int64)
    step = max(1, _BLOCK // score.shape[1])
    columns = np.arange(score.shape[1])
    for start in range(0, len(true), step):
        s, t = score[start : start + step], true[start : start + step, None]
        own = np.take_along_axis(s, t, axis=1)
        found[start : start + step] = ((s > own) | ((s == own) & (columns < t))).sum(axis=1)
    return found


def one_label_measures(sums: Sums, asked: Iterable[str] = ()) -> dict[str, float]:
    """The measures that follow from the sums and are no means over instances; NaN where one is not
    defined.

    `asked` are names beside the usual ones: other k of top-k accuracy, other numbers of bins. As in
    scikit-learn, averages are over the classes that are true or predicted somewhere, balanced
    accuracy over the true ones.
    """
    tp, predicted, true = sums.by_label
    rates = set_measures(tp, predicted, true)
    there, occurs = predicted + true > 0, true > 0
    found = {"balanced_accuracy": float(rates["recall"][occurs].mean())}
    for name in ("precision", "recall", "f1"):
        found[f"macro_{name}"] = float(rates[name][there].mean())
        found[f"weighted_{name}"] = float(rates[name] @ true / sums.size)
    found |= _beyond_chance(tp, predicted, true)
    counts = sums.classes
    assert counts is not None  # of one label
    if counts.ranks is not None:
        tops = [k for k in numbers(TOP_NAME, (f"top_k_accuracy_{TOP}", *asked)) if k < len(true)]
        found |= {f"top_k_accuracy_{k}": float(counts.ranks[:k].sum() / sums.size) for k in tops}
    if counts.scores is not None:
        areas, _ = counts.scores.auroc()
        known = ~np.isnan(areas)
        if known.any():
            weights = true[known] if len(areas) == len(true) else np.ones(1)
            found["macro_auroc"] = float(areas[known].mean())
            found["weighted_auroc"] = float(np.average(areas[known], weights=weights))
    if counts.confidence is not None:
        found |= {
            f"ece_{b}": counts.confidence.calibration_error(b)[0]
            for b in numbers(ECE_NAME, (f"ece_{BINS}", *asked))
        }
    return found


def one_label_bounds(sums: Sums, asked: Iterable[str] = ()) -> dict[str, float]:
    """What the measures can be wrong by that follow from scores on a grid."""
    counts = sums.classes
    assert counts is not None  # of one label
    found: dict[str, float] = {}
    if counts.scores is not None:
        found |= dict.fromkeys(
            ("macro_auroc", "weighted_auroc"), float(np.nan_to_num(counts.scores.auroc()[1]).max())
        )
    if counts.confidence is not None:
        found |= {
            f"ece_{b}": counts.confidence.calibration_error(b)[1]
            for b in numbers(ECE_NAME, (f"ece_{BINS}", *asked))
        }
    return found


def _beyond_chance(
    tp: NDArray[Any], predicted: NDArray[Any], true: NDArray[Any]
) -> dict[str, float]:
    """Matthews' correlation of several classes (Gorodkin 2004) and Cohen's kappa, from whole
    numbers of any size, or weights.
    """
    right, n = tp.sum().item(), true.sum().item()
    chance = sum(a * b for a, b in zip(predicted.tolist(), true.tolist(), strict=True))
    spreads = [n * n - sum(a * a for a in side.tolist()) for side in (predicted, true)]
    # Of weights, differences that should be 0 are remainders of rounding: whether they are is
    # counted.
    several = [np.count_nonzero(side) > 1 for side in (predicted, true)]
    matthews, kappa = 0.0, float("nan")
    if all(several):
        matthews = (right * n - chance) / (float(spreads[0]) ** 0.5 * float(spreads[1]) ** 0.5)
    if any(several) or predicted.argmax() != true.argmax():
        kappa = (right * n - chance) / (n * n - chance)
    return {"matthews": matthews, "kappa": kappa}
