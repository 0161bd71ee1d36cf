"""Pairs of methods on the same datasets or folds: their differences, means with intervals,
corrections for their number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds.covariance import variance_factor
from mlflow_mleval.analysis.ranks import column_of, complete_table, incomplete_table
from mlflow_mleval.measures.registry import Direction
from mlflow_mleval.validation import one_of

#: Corrections of p-values for their number, and what they are called.
CORRECTIONS = {
    "holm": "Holm's correction",
    "bonferroni": "Bonferroni's correction",
    "none": "no correction",
}
#: Differences that agree within this share of the dataset's largest value are equal (ties), or
#: zero: float noise.
NOISE = 1e-12


def pair_differences(
    table: ArrayLike | pd.DataFrame,
    direction: Direction = "max",
    control: Hashable | None = None,
    decimals: int | None = None,
    gaps: bool = False,
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The checked table, positions of either method of each pair, differences pairs x rows, and the
    float noise of each row.

    Differences are positive where a is better, and exactly zero where they are noise; with `gaps`
    they are NaN where either method has no value. Other arguments as in `wilcoxon_pairs`.
    """
    one_of(direction, "direction", ("max", "min"))
    frame = (incomplete_table if gaps else complete_table)(table, "table")
    values = frame.to_numpy() if decimals is None else np.round(frame.to_numpy(), decimals)
    if bad := int(np.isinf(values).sum()):
        raise ValueError(
            f"`table` must be finite, got {bad} infinite cells. A difference of infinities has "
            "no rank."
        )
    a, b = pair_positions(frame, control)
    by_method = (-values if direction == "min" else values).T
    noise = NOISE * np.fmax.reduce(np.abs(values), axis=1, initial=0.0)
    difference = by_method[a] - by_method[b]
    difference[np.abs(difference) <= noise] = 0.0
    return frame, a, b, difference, noise


def pair_positions(
    frame: pd.DataFrame, control: Hashable | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the methods of each pair of columns; with a control of every other one and the
    control.
    """
    m = frame.shape[1]
    if control is None:
        return np.triu_indices(m, 1)
    at = column_of(control, frame)
    return np.delete(np.arange(m), at), np.full(m - 1, at)


def moments(difference: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the differences of each pair, NaN left out; a deviation that
    is float noise is zero.
    """
    there = ~np.isnan(difference)
    n = there.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, difference, 0.0).sum(axis=1) / n
        deviation = np.sqrt(
            (np.where(there, difference - mean[:, None], 0.0) ** 2).sum(axis=1) / (n - 1)
        )
    deviation[deviation <= noise.max()] = 0.0
    return mean, deviation


def taken_for_certain(deviation: np.ndarray, row: str) -> list[str]:
    """What to tell of pairs whose differences do not vary."""
    same = int((deviation == 0).sum())
    return [
        f"Taken for certain, because they differ by the same in every {row}: {same} of "
        f"{len(deviation)} pairs."
    ] * bool(same)


def mean_intervals(
    table: pd.DataFrame, alpha: float = 0.05, ratio: float | None = None
) -> pd.DataFrame:
    """The mean of each column over datasets or folds (at least two; empty cells do not count) with
    its interval at 1 - alpha.

    By Student's t; `ratio`, n_test / n_train of a fold, widens the intervals for training data that
    folds share.
    """
    n = table.count()
    half = special.stdtrit(n - 1, 1 - alpha / 2) * table.std() * np.sqrt(variance_factor(n, ratio))
    return pd.DataFrame(
        {"mean": table.mean(), "low": table.mean() - half, "high": table.mean() + half}
    )


def adjust(pvalues: ArrayLike, method: str = "holm") -> np.ndarray:
    """P-values corrected for their number; Holm's step-down (1979) is never weaker than Bonferroni.

    >>> adjust([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    one_of(method, "method", CORRECTIONS)
    p = np.asarray(pvalues, dtype=float).ravel()
    if bad := int((~((p >= 0) & (p <= 1))).sum()):
        raise ValueError(
            f"`pvalues` must lie in [0, 1], got {bad} that do not. Leave out comparisons that "
            "were not made."
        )
    if method == "holm":
        return holm(p)
    return np.minimum(1.0, p * p.size) if method == "bonferroni" else p.copy()


def holm(pvalues: np.ndarray) -> np.ndarray:
    """Holm's correction along the last axis; NaN where there is no test, which does not count."""
    order = np.argsort(pvalues, axis=-1, kind="stable")
    left = (~np.isnan(pvalues)).sum(axis=-1, keepdims=True) - np.arange(pvalues.shape[-1])
    ranked = np.take_along_axis(pvalues, order, axis=-1) * np.maximum(left, 1)
    out = np.empty_like(pvalues)
    np.put_along_axis(out, order, np.minimum(1.0, np.maximum.accumulate(ranked, axis=-1)), axis=-1)
    return out


def decided(pvalues: np.ndarray, alpha: float, correction: str = "holm") -> dict[str, np.ndarray]:
    """Columns of a table of tests: pvalue, pvalue_corrected (NaN does not count), significant at
    alpha.
    """
    corrected = holm(pvalues) if correction == "holm" else adjust(pvalues, correction)
    return {"pvalue": pvalues, "pvalue_corrected": corrected, "significant": corrected <= alpha}


def named_pairs(names: Sequence[Hashable], a: np.ndarray, b: np.ndarray) -> dict[str, pd.Index]:
    """Columns method_a and method_b of a table of pairs, from the positions of the two."""
    index = pd.Index(names, tupleize_cols=False)
    return {"method_a": index.take(a), "method_b": index.take(b)}


def pairs_table(
    names: Sequence[Hashable],
    a: np.ndarray,
    b: np.ndarray,
    n: np.ndarray,
    total: np.ndarray,
    **columns: ArrayLike,
) -> pd.DataFrame:
    """A table of pairs tested over datasets: method_a, method_b, n (datasets), mean_difference of
    this total, further columns.
    """
    return pd.DataFrame(
        {**named_pairs(names, a, b), "n": n, "mean_difference": total / np.maximum(n, 1), **columns}
    )


def pair_matrix(
    names: Sequence[Hashable],
    a: Iterable[Hashable],
    b: Iterable[Hashable],
    values: ArrayLike = True,
    own: object = False,
) -> pd.DataFrame:
    """Values of pairs (a, b), the same for (b, a), as a frame names x names; `own` stands for pairs
    that are not there.
    """
    at = pd.Index(names, tupleize_cols=False)
    i, j = (
        at.get_indexer(pd.Index(a, tupleize_cols=False)),
        at.get_indexer(pd.Index(b, tupleize_cols=False)),
    )
    matrix = np.full((len(at), len(at)), own)
    matrix[i, j] = matrix[j, i] = values
    return pd.DataFrame(matrix, at, at)


def apart(names: Sequence[Hashable], pairs: Sequence[tuple[Hashable, Hashable]]) -> pd.DataFrame:
    """Whether the pairs (a, b) are separated, names x names."""
    return pair_matrix(names, [a for a, _ in pairs], [b for _, b in pairs])


def possible_ranks(
    names: Sequence[Hashable], pairs: Sequence[tuple[Hashable, Hashable]]
) -> pd.DataFrame:
    """By name, the ranks low to high that the separated pairs (better, worse) leave: none passes
    those separated from it.

    >>> possible_ranks(["a", "b", "c"], [("a", "c"), ("b", "c")]).T.to_dict("list")
    {'a': [1, 2], 'b': [1, 2], 'c': [3, 3]}
    """
    better, worse = (
        pd.Series([pair[i] for pair in pairs], dtype=object).value_counts() for i in range(2)
    )
    low, high = (
        1 + worse.reindex(names, fill_value=0),
        len(names) - better.reindex(names, fill_value=0),
    )
    return pd.DataFrame({"low": low.astype(int), "high": high.astype(int)})


def sign_changes(n: int) -> np.ndarray:
    """All changes of n signs, one a row, but for opposite ones: the first sign is kept, and the
    first row changes none.
    """
    return np.array([(1.0, *signs) for signs in product((1.0, -1.0), repeat=n - 1)])
