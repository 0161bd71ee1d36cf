"""Which loss to minimise while training for which loss in the end: the best surrogate per target,
and how sure that is.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from mlflow_mleval.analysis.folds.covariance import variance_factor
from mlflow_mleval.validation import probability

#: Losses that differ by less are equal: sums of the same losses in another order do.
_NOISE = 1e-12


def best_surrogates(
    by_fold: pd.DataFrame, *, ratio: float | None = None, alpha: float = 0.05
) -> pd.DataFrame:
    """The surrogate of least mean loss for each target, and the surrogates that the folds do not
    separate from the best.

    A surrogate is separated where some other one is better by a one-sided paired t test over the
    folds, corrected for training data that folds share (Nadeau & Bengio 2003) and for the number of
    other surrogates (Bonferroni). So for each target the surrogate that is truly best is among
    those not separated with a probability of at least 1 - alpha, even though the one of least mean
    was chosen by these same folds. Where a difference is the same on every fold its uncertainty is
    not known, and it separates nothing.

    `by_fold` has the index (surrogate, fold) and a column a target; `ratio` is n_test / n_train of
    a fold, by default that of one cross-validation, 1 / (R - 1); `alpha` is for each target. The
    result is that of ``SurrogateStudy.best``: of equals ``surrogate`` is the first; with fewer than
    two folds all are ``not_separated``.

    >>> folds = pd.MultiIndex.from_product([[1, 2], range(4)], names=["surrogate", "fold"])
    >>> losses = pd.DataFrame({1: [.1, .2, .1, .2, .3, .5, .4, .5], 2: [.5, .6, .7, .8, .6, .5, .8, .7]}, index=folds)
    >>> best_surrogates(losses)[["surrogate", "not_separated"]].values.tolist()
    [[1, (1,)], [1, (1, 2)]]
    """  # noqa: E501
    probability(alpha, "alpha")
    surrogates = list(dict.fromkeys(by_fold.index.get_level_values(0)))
    folds = list(dict.fromkeys(by_fold.index.get_level_values(1)))
    whole = by_fold.reindex(pd.MultiIndex.from_product([surrogates, folds]))
    if len(whole) != len(by_fold) or not np.isfinite(whole.to_numpy(dtype=float)).all():
        raise ValueError(
            f"`by_fold` must hold a finite loss of every surrogate on each of the {len(folds)} "
            "folds."
        )
    losses = whole.to_numpy(dtype=float).reshape(len(surrogates), len(folds), -1)
    names = np.array(surrogates, dtype=object)
    rows = []
    for target, at in enumerate(by_fold.columns):
        mean = losses[:, :, target].mean(axis=1)
        best = int(np.argmax(mean <= mean.min() + _NOISE))
        equal = names[mean <= mean.min() + _NOISE]
        kept = names[~_separated(losses[:, :, target], ratio, alpha)]
        rows.append((at, surrogates[best], float(mean[best]), tuple(equal), tuple(kept)))
    columns = ["target", "surrogate", "loss", "equal", "not_separated"]
    return pd.DataFrame(rows, columns=columns).set_index("target")


def _separated(losses: np.ndarray, ratio: float | None, alpha: float) -> np.ndarray:
    """Whether some other surrogate is significantly better than each, from losses of shape
    (surrogates, folds).
    """
    count, n_folds = losses.shape
    if n_folds < 2 or count < 2:
        return np.zeros(count, dtype=bool)
    difference = losses[:, None] - losses[None]
    deviation = difference.std(axis=2, ddof=1)
    error = deviation * np.sqrt(
        variance_factor(n_folds, 1 / (n_folds - 1) if ratio is None else ratio)
    )
    known = deviation > _NOISE
    statistic = np.where(known, difference.mean(axis=2) / np.where(known, error, 1), -np.inf)
    return stats.t.sf(statistic.max(axis=1), n_folds - 1) * (count - 1) <= alpha
