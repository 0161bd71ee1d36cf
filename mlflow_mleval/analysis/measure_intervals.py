"""Intervals for the measures of one evaluation: what other instances of the same kind would have
given the same models.

Efron (1982), "The jackknife, the bootstrap and other resampling plans", for the delta method by
what each instance adds; Wilson (1927) for values between two bounds; Bell & McCaffrey (2002) for
clusters that are few or of unequal size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mlflow_mleval.analysis.pairs import (
    cluster_doubts,
    cluster_names,
    cluster_numbers,
    effective_number,
    satterthwaite,
)
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.registry import MEASURES, OfMeans
from mlflow_mleval.measures.sums import SAMPLE_WEIGHT
from mlflow_mleval.validation import Array, of_kind, probability

#: The column of instances that tells which belong together.
CLUSTER = "cluster"
#: A label that fewer instances have, or are predicted to have, says too little by itself for an
#: average over labels.
RARE = 5


@dataclass(frozen=True)
class MeasureIntervals:
    """Intervals of the measures of one evaluation; `absent` says which have none, and why."""

    table: pd.DataFrame
    absent: dict[str, str]
    n_instances: int
    n_clusters: int | None
    alpha: float
    warnings: tuple[str, ...] = ()


def measure_intervals(
    ev: Evaluation, *, clusters: ArrayLike | None = None, alpha: float = 0.05
) -> MeasureIntervals:
    r"""Intervals for the measures over all instances, with the models as they were trained.

    A measure is, to first order, a sum of what each instance adds, :math:`\psi_i` with mean 0. Its
    variance is :math:`\sum_g (\sum_{i \in g} \psi_i)^2 / (1 - n_g / n)` over instances or clusters
    of n_g of the n instances (delta method; for clusters CR2, which corrects for what the residuals
    of a large one lack). Without bounds the interval is that of Student's t, with Satterthwaite's
    degrees of freedom (G - 1 for G clusters of equal size); between bounds it is Wilson's, for as
    many trials as would have this variance, so that it never leaves them. Where instances have
    weights, what each adds is weighted, n_g / n is a share of weights, and the number of trials the
    effective one (Kish).

    Parameters
    ----------
    ev : Evaluation
        With `instances`. Averages over labels need one that `evaluate` made, and not `merge`.
    clusters : array of shape (N,) or Series, optional
        Instances that belong together, such as the pictures of a patient. By default the column
        ``cluster``, if there is one; `with_clusters` makes it. What is missing or blank is a
        cluster of its own.
    alpha : float
        1 - alpha is the confidence of each interval by itself.

    Raises
    ------
    ValueError
        Clusters that do not fit, or fewer than two of them.

    Examples
    --------
    >>> from mlflow_mleval.evaluation import evaluate
    >>> found = measure_intervals(evaluate([[1, 0], [0, 1], [1, 1]] * 20, y_pred=[[1, 0], [0, 1], [0, 1]] * 20))
    >>> found.table.loc["subset_accuracy", ["ci_low", "ci_high"]].round(3).tolist()
    [0.537, 0.775]
    """  # noqa: E501
    probability(alpha, "alpha")
    rows = of_kind(ev, "ev", Evaluation, "what `evaluate` returns").instances
    n = ev.total.n
    clusters = _given(ev, clusters)
    index = None if rows is None else rows.index
    units = None if clusters is None else cluster_numbers(clusters, n, index)
    weights = np.ones(n)
    if rows is not None and SAMPLE_WEIGHT in rows:
        weights = rows[SAMPLE_WEIGHT].to_numpy(float)
    sizes = weights if units is None else np.bincount(units, weights)
    values = pd.Series(ev.measures, dtype=float)
    absent: dict[str, str] = {}
    columns = dict.fromkeys(("standard_error", "ci_low", "ci_high"), np.nan)
    table = pd.DataFrame({"value": values, **columns}, dtype=float)
    if rows is None or np.count_nonzero(sizes) < 2:
        why = "the evaluation kept no instances" if rows is None else "there is one instance"
        absent = dict.fromkeys(values.index, why)
    else:
        from scipy import special

        quantile = float(special.stdtrit(satterthwaite(sizes), 1 - alpha / 2))
        errors = {}
        for m in map(str, values.index):
            added = _added(ev, m, rows, weights)
            if isinstance(added, str):
                absent[m] = added
                continue
            sums = added if units is None else np.bincount(units, added)
            errors[m] = np.sqrt(sums @ (sums / (1 - sizes / sizes.sum())))
        error = values.index.map(errors).to_numpy(float)
        value = values.to_numpy()
        low, high = np.array([MEASURES[m].range for m in values.index]).T
        student = np.maximum(value - quantile * error, low), value + quantile * error
        with np.errstate(divide="ignore", invalid="ignore"):
            width = np.where(np.isfinite(high - low), high - low, np.nan)
            share, size = np.clip((value - low) / width, 0, 1), error / width
            varies = (size > 1e-9) & (share > 0) & (share < 1)
            # where nothing varies, as many as there are
            trials = np.where(varies, share * (1 - share) / size**2, effective_number(sizes))
            spread = np.sqrt(share * (1 - share) / trials + (quantile / (2 * trials)) ** 2)
            middle = (share + quantile**2 / (2 * trials)) / (1 + quantile**2 / trials)
            half = quantile / (1 + quantile**2 / trials) * spread
            sides = np.minimum(middle - half, share), np.maximum(middle + half, share)
            wilson = np.clip(sides, 0, 1)
        ends = np.where(np.isnan(size), student, low + width * wilson)
        table[[*columns]] = np.column_stack([error, *ends])
    n_clusters = None if units is None else len(sizes)
    doubts = tuple(cluster_doubts(clusters, units))
    return MeasureIntervals(table, absent, n, n_clusters, alpha, doubts)


def with_clusters(ev: Evaluation, clusters: ArrayLike) -> Evaluation:
    """The evaluation with a column ``cluster`` in its instances, by which tests then go."""
    given: Any = _given(ev, clusters)
    assert ev.instances is not None  # else it raised
    cluster_numbers(given, ev.total.n, ev.instances.index)
    names = cluster_names(clusters)
    names = names if pd.isna(names).any() else np.asarray(clusters)
    return replace(ev, instances=ev.instances.assign(**{CLUSTER: names}))


def _added(ev: Evaluation, measure: str, rows: pd.DataFrame, weights: Array) -> Array | str:
    """What each instance adds to a measure, with mean 0; or why that is not known."""
    row = MEASURES[measure]
    formula = row.formula
    if measure in rows:
        return _of_mean(rows[measure].to_numpy(float), weights)
    if isinstance(formula, OfMeans):
        means = {m: _of_mean(rows[m].to_numpy(float), weights) for m in formula.columns}
        slopes = formula.derivatives(ev.total)
        return np.sum([slopes[m] * added for m, added in means.items()], axis=0)
    if row.family == "cost":
        return "it is no sample of instances"
    if not hasattr(formula, "slopes"):
        return "its variance is not known from sums over instances"
    if ev.influences is None or measure not in ev.influences:
        return "the evaluation was merged or taken apart"
    if measure.startswith(("macro_", "balanced_")):
        sums = ev.total
        _, predicted, true = sums.by_label * (sums.n / sums.size)  # by weights of mean 1
        few = int(((true < RARE) | (predicted < RARE)).sum())
        if few * 50 > len(true):
            these = f"{few} of {len(true)} labels"
            return f"{these} have, or are predicted for, fewer than {RARE} instances"
    return ev.influences[measure].astype(float)


def _of_mean(values: Array, weights: Array) -> Array:
    there = ~np.isnan(values)
    total = weights[there].sum()
    mean = (weights * values)[there].sum() / total
    return np.where(there, weights * (values - mean), 0.0) / total


def _given(ev: Evaluation, clusters: Any) -> ArrayLike | None:
    """The clusters of the instances: given, or of the column ``cluster``; else None."""
    rows = ev.instances
    if clusters is None:
        return rows[CLUSTER] if rows is not None and CLUSTER in rows else None
    if rows is None:
        raise ValueError("`clusters` must be left out here: the evaluation kept no instances.")
    return clusters
