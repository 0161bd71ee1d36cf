"""A closer look at what a comparison holds: one cell, one method, or one pair of methods, measure
by measure.
"""

from __future__ import annotations

import pandas as pd

from mlflow_mleval.analysis.better_first import better_first
from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.paired import NOISE, mean_intervals


def runs_of_cell(c: Comparison, dataset: str, method: str) -> pd.DataFrame:
    """One row a run: what is known of it, and its value of each measure; NaN where it did not
    finish.
    """
    study = c.study
    if not {"dataset", "method", "run_id"} <= {*study.runs.columns}:
        return pd.DataFrame()
    runs = study.runs[
        (study.runs["dataset"] == dataset) & (study.runs["method"] == method)
    ].reset_index(drop=True)
    finished = runs.index[runs["status"] == "complete"] if "status" in runs else runs.index
    values = _at(study.repeats, dataset, method)
    if values.empty and (dataset, method) not in study.filled:
        values = study.values.loc[[(dataset, method)]]
    if len(values) != len(finished):
        return runs
    return runs.join(values.set_axis(finished))


def folds_of_cell(c: Comparison, dataset: str, method: str) -> pd.DataFrame:
    """Folds x measures; empty where the cell has none."""
    return _at(c.study.folds, dataset, method)


def measures_of_cell(c: Comparison, dataset: str, method: str) -> pd.DataFrame:
    """By measure: value; phi (net flow) and rank by it alone on this dataset; sd and standard_error
    over n repeats; fold_sd.
    """
    study, cell, place = c.study, (dataset, method), {m: i for i, m in enumerate(c.study.methods)}
    found = pd.DataFrame({"value": study.values.loc[cell]})
    flows = c.fusion.flows.by_measure.net[study.datasets.index(dataset)]
    found["phi"] = flows[:, place[method]]
    found["rank"] = [study.ranks(m).loc[dataset, method] for m in study.measures]
    for name, values in (("sd", study.spread), ("standard_error", study.standard_errors)):
        found[name] = values.loc[cell] if cell in values.index else float("nan")
    found["n"] = len(_at(study.repeats, *cell))
    folds = folds_of_cell(c, dataset, method)
    return found.assign(fold_sd=folds.std().reindex(found.index))


def measures_of_method(c: Comparison, method: str) -> pd.DataFrame:
    """By measure: weight; phi (mean net flow), mean_rank and place by it alone, 1 for the best mean
    rank.
    """
    means = pd.DataFrame({m: c.study.ranks(m).mean() for m in c.study.measures})
    return pd.DataFrame(
        {
            "weight": c.fusion.weights.mean(),
            "phi": c.mean_flows.loc[method],
            "mean_rank": means.loc[method],
            "place": means.round(9).rank(method="min").loc[method].astype(int),
        }
    )


def measures_of_pair(c: Comparison, a: str, b: str) -> pd.DataFrame:
    """By measure, over the datasets that both finished: how far a is better than b.

    Columns weight, mean_a, mean_b, n, difference (positive where a is better, whichever way the
    measure goes), low, high (its interval at 1 - alpha, not corrected), wins, ties, losses. Where a
    missing result is a failure, filled cells count.
    """
    study, filled = c.study, set() if c.options["missing_is_failure"] else set(c.study.filled)
    shared = [d for d in study.datasets if not {(d, a), (d, b)} & filled]
    first, second = (study.values.xs(m, level=1).reindex(shared) for m in (a, b))
    difference = first - second
    size = first.abs().combine(second.abs(), lambda x, y: x.where(x > y, y))
    difference = difference.mask(difference.abs() <= NOISE * size, 0.0)
    difference[study.minimize] *= -1
    intervals = mean_intervals(difference, c.options["alpha"])
    counts = {
        "wins": (difference > 0).sum(),
        "ties": (difference == 0).sum(),
        "losses": (difference < 0).sum(),
    }
    means = {
        "weight": c.fusion.weights.mean(),
        "mean_a": first.mean(),
        "mean_b": second.mean(),
        "n": difference.count(),
    }
    return pd.DataFrame({**means, **intervals.rename(columns={"mean": "difference"}), **counts})


def pairs_of(c: Comparison, method: str) -> pd.DataFrame:
    """The rows of `pairs` in which a method is, turned so that it is the first."""
    pairs = c.pairs[(c.pairs["method_a"] == method) | (c.pairs["method_b"] == method)]
    swap = [("wins", "losses"), ("mean_low", "mean_high"), ("median_low", "median_high")]
    negate = [
        "mean_rank_difference",
        "mean_difference",
        "mean_low",
        "mean_high",
        "median_difference",
        "median_low",
        "median_high",
        "effect_size",
    ]
    return better_first(pairs, pairs["method_a"] != method, swap=swap, negate=negate).reset_index(
        drop=True
    )


def _at(values: pd.DataFrame | None, dataset: str, method: str) -> pd.DataFrame:
    """The rows of a cell in a table by (dataset, method, …); none where there is no such table."""
    if values is None or (dataset, method) not in values.index.droplevel(2):
        return pd.DataFrame()
    return values.loc[(dataset, method)]
