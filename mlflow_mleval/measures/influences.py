"""How much each instance moves the measures that follow from counts by label: what their intervals
are made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.measures.flat import Conventions, set_measures
from mlflow_mleval.measures.label_sums import Sums
from mlflow_mleval.measures.thresholds import apart, reached

Array = NDArray[np.float64]
#: Numerator and denominator of each rate, in true positives, predicted and true instances.
_RATES = {
    "precision": ((1, 0, 0), (0, 1, 0)),
    "recall": ((1, 0, 0), (0, 0, 1)),
    "f1": ((2, 0, 0), (0, 1, 1)),
    "accuracy": ((1, 0, 0), (-1, 1, 1)),
}
_BLOCK = 1 << 18  # cells handled at a time


def label_influences(
    true: Any,
    score: Any,
    pred: Any,
    threshold: Any,
    sums: Iterable[Sums],
    conventions: Conventions = "sklearn",
    one_label: bool = False,
    weights: NDArray[np.float64] | None = None,
) -> dict[str, NDArray[np.float32]]:
    """By measure the change that each instance makes, to first order, shape (N,): a sum of 0 and of
    squares the variance.

    The jackknife (Efron 1982) by derivatives of micro, macro and weighted averages by the counts of
    a label, shape (3, K), times what the instance adds to them, times its weight of mean 1. `sums`
    are those of all folds. Where `pred` is None, labels with ``score >= threshold`` are predicted.
    """
    n, n_labels = true.shape
    counts = np.sum([part.by_label for part in sums], axis=0)
    each = np.ones(n) if weights is None else weights * (n / weights.sum())
    if weights is not None:
        counts = counts * (n / weights.sum())
    slopes = _slopes(counts, conventions, one_label)
    rates = np.stack(list(slopes.values()), axis=-1).astype(np.float32)
    if sparse.issparse(true) and (
        sparse.issparse(pred) or (pred is None and sparse.issparse(score))
    ):
        always, pred = (
            (np.zeros(n_labels, bool), pred) if pred is not None else apart(score, threshold)
        )
        found = true.multiply(pred).tocsr() @ rates[0] + pred @ rates[1] + true @ rates[2]
        if always.any():
            found += true @ (rates[0] * always[:, None])  # what the rest adds is the same for all
        return _centred(slopes, np.asarray(found).T, each)
    found = np.empty((len(slopes), n), np.float32)
    step = max(1, _BLOCK // n_labels)
    for start in range(0, n, step):
        at = slice(start, start + step)
        t, p = true[at], reached(_dense(score[at]), threshold) if pred is None else pred[at]
        t, p = _dense(t).astype(np.float32), _dense(p).astype(np.float32)
        found[:, at] = ((t * p) @ rates[0] + p @ rates[1] + t @ rates[2]).T
    return _centred(slopes, found, each)


def _centred(
    names: Iterable[str], found: NDArray[np.float32], each: Array
) -> dict[str, NDArray[np.float32]]:
    """What the number of instances adds is the same for all of them; then by the weights, whose
    mean is 1.
    """
    mean = found.mean(axis=1) if (each == 1).all() else found @ each / len(each)
    centred = (found - mean[:, None].astype(np.float32)) * each.astype(np.float32)
    return dict(zip(names, centred, strict=True))


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def _slopes(
    by_label: NDArray[np.int64], conventions: Conventions, one_label: bool
) -> dict[str, Array]:
    """Of each measure the derivatives by the counts of each label, shape (3, K)."""
    counts = by_label.astype(float)
    rates, slopes = set_measures(*by_label, conventions=conventions), _of_rates(counts)
    support, total = counts[2], max(counts[2].sum(), 1)
    there = counts[1] + support > 0 if one_label else np.ones(len(support), bool)
    found = {}
    if not one_label:
        micro = _of_rates(counts.sum(axis=1, keepdims=True))
        found = {
            f"micro_{r}": np.broadcast_to(micro[r], counts.shape)
            for r in ("precision", "recall", "f1")
        }
    for rate in ("precision", "recall", "f1"):
        found[f"macro_{rate}"] = slopes[rate] / there.sum()
        weighted = slopes[rate] * support / total
        weighted[2] += (rates[rate] - rates[rate] @ support / total) / total
        found[f"weighted_{rate}"] = weighted
    if one_label:
        return (
            found
            | _beyond_chance(counts)
            | {"balanced_accuracy": slopes["recall"] * (support > 0) / (support > 0).sum()}
        )
    return found | {"macro_jaccard": slopes["accuracy"] / len(support)}


def _of_rates(counts: Array) -> dict[str, Array]:
    """Derivatives of the rates by counts of shape (3, K); 0 where a rate is a convention."""
    found = {}
    for name, (above, below) in _RATES.items():
        size = np.array(below) @ counts
        value = np.divide(np.array(above) @ counts, size, out=np.zeros_like(size), where=size > 0)
        # As if the instance were left out, which counts once or, of F1, twice: few instances vary
        # more than derivatives say.
        rest = np.maximum(size - sum(below), 1)
        found[name] = (
            (np.array(above)[:, None] - value * np.array(below)[:, None]) * (size > 0) / rest
        )
    return found


def _beyond_chance(counts: Array) -> dict[str, Array]:
    """Derivatives of Matthews' correlation and Cohen's kappa of one label; none of what is not
    defined.
    """
    tp, predicted, true = counts
    n, chance, found = true.sum(), predicted @ true, {}
    gain = tp.sum() * n - chance
    spreads = n**2 - predicted @ predicted, n**2 - true @ true
    if min(spreads) > 0:
        whole = np.sqrt(spreads[0] * spreads[1])
        ends = (
            gain / whole / spread * side
            for side, spread in ((predicted, spreads[0]), (true, spreads[1]))
        )
        found["matthews"] = np.array(
            [np.full_like(tp, n / whole), next(ends) - true / whole, next(ends) - predicted / whole]
        )
    if (room := n**2 - chance) > 0:
        found["kappa"] = (
            np.array([np.full_like(tp, n), (gain / room - 1) * true, (gain / room - 1) * predicted])
            / room
        )
    return found
