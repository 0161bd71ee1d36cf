"""Whether the models of the folds disagree more than their test instances explain, as those of
learners that choose do.

A test on folds sees how results vary between training sets that share most of their instances. A
learner that chooses one feature or threshold may be tilted the same way in all of them, and no test
on the folds of one dataset can see that. Where the choice differs between folds, it shows: the
number of instances predicted positive, or a mean over instances, scatters more than it does for one
fixed model. That is what is tested here; see examples/simulation_study.md for how often it notices.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

COUNTS = ("tp", "fp", "fn", "tn")
#: Means over instances of values in [0, 1]: their variance over folds of one fixed model is at most
#: mean (1 - mean) / n_test.
MEANS = (
    "accuracy",
    "precision",
    "recall",
    "f1",
    "subset_accuracy",
    "hamming_loss",
    "one_error",
    "top1_accuracy",
)
#: Less likely scatter than this, under one fixed model, is told.
LEVEL = 0.01


def disagreement(folds: pd.DataFrame, n_test: float | None) -> tuple[str, float] | None:
    """What scatters most between folds (index: method, fold), and how likely that is under fixed
    models; None where unknown.

    With tp, fp, fn and tn the number of predicted positives, given how many are positive; of
    several labels, decisions of an instance count as one, which errs towards silence. Else means
    over instances.
    """
    if not n_test:
        return None
    if {*COUNTS} <= {*folds.columns}:
        tp, fp, fn, tn = (folds[name].unstack().to_numpy() for name in COUNTS)
        positive, negative = tp + fn, fp + tn
        rates = [_share(hit, of) for hit, of in ((tp, positive), (fp, negative))]
        expected = rates[0] * positive + rates[1] * negative
        labels = max((positive + negative).mean() / n_test, 1.0)
        variance = labels * (
            rates[0] * (1 - rates[0]) * positive + rates[1] * (1 - rates[1]) * negative
        )
        return "the number of predicted positives", _tail(tp + fp - expected, variance)
    found = {}
    for name in (name for name in MEANS if name in folds):
        values = folds[name].unstack().to_numpy()
        mean = values.mean(axis=1, keepdims=True)
        found[name] = _tail(
            values - mean, np.broadcast_to(mean * (1 - mean) / n_test, values.shape)
        )
    if not found:
        return None
    least = min(found, key=found.__getitem__)
    return least, min(1.0, found[least] * len(found))


def _share(hits: NDArray[np.float64], of: NDArray[np.float64]) -> NDArray[np.float64]:
    total = of.sum(axis=1, keepdims=True)
    return np.divide(
        hits.sum(axis=1, keepdims=True),
        total,
        out=np.zeros_like(total, dtype=float),
        where=total > 0,
    )


def _tail(residual: NDArray[np.float64], variance: NDArray[np.float64]) -> float:
    """The p-value of squares in units of their variance, methods x folds."""
    squares = np.divide(residual**2, variance, out=np.zeros(residual.shape), where=variance > 0)
    return float(special.chdtrc(residual.shape[0] * (residual.shape[1] - 1), squares.sum()))
