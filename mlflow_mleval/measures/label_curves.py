"""Areas under ROC and precision-recall curves of labels, and the calibration of their
probabilities, from counts by score.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.measures.registry import ECE_NAME, numbers
from mlflow_mleval.measures.score_counts import ScoreCounts
from mlflow_mleval.measures.stored_scores import StoredScores, rows_of

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
    rows: NDArray[np.int64] | None = None,
    weights: NDArray[np.float64] | None = None,
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
    hit = stored.relevant.astype(np.int64)
    negative = 1 - hit
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
    found: dict[str, float] = {}
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
        known = ~np.isnan(values)
        keys = (
            ("auprc_mean", "auprc_weighted", "auprc_curve")
            if name == "auprc"
            else [f"{a}_{name}" for a in _AVERAGES]
        )
        weights = np.ones(known.sum()), support[known]
        for key, weight in zip(keys[:2], weights, strict=True):
            for into, column in ((found, values), (bounds, off)):
                into[key] = (
                    float(np.average(column[known], weights=weight))
                    if known.any()
                    else float("nan")
                )
        found[keys[2]], bounds[keys[2]] = float(micro[0]), float(micro_off[0])
    for bins in numbers(ECE_NAME, asked) if probable else ():
        found[f"ece_{bins}"], bounds[f"ece_{bins}"] = whole.calibration_error(bins)
    return found, bounds


_AVERAGES = ("macro", "weighted", "micro")
