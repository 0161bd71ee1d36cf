"""Two methods over five repetitions of twofold cross-validation: the combined F test, on one
measure or several.

Alpaydın (1999), "Combined 5x2 cv F test for comparing supervised classification learning
classifiers"; Dietterich (1998).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.analysis.folds.covariance import NOISE, names_of, solve_pairs, table_of
from mlflow_mleval.analysis.folds.hotelling import BLOCK
from mlflow_mleval.analysis.folds.manova import rao_f
from mlflow_mleval.analysis.paired import decided, holm, named_pairs
from mlflow_mleval.validation import probability

REPEATS = 5


@dataclass(frozen=True)
class FiveByTwoPairs:
    """The combined 5x2 cv test of every pair of methods.

    Attributes
    ----------
    table : One row a pair: method_a, method_b, statistic (Wilks' lambda), f_statistic, pvalue, pvalue_corrected (Holm, over the
        pairs that could be tested), significant, problem (why the pair could not be tested, else
        empty).
    differences, directions : Pairs x measures: mean of a minus mean of b; weights of the combination on which they differ most.
    posthoc_pvalues, posthoc_corrected : Pairs x measures: Alpaydın's F test of each measure; with Holm's correction over the
        measures of a pair.
    df : Degrees of freedom of the F; 10 and 5 for one measure.
    """  # noqa: E501

    table: pd.DataFrame
    differences: pd.DataFrame
    directions: pd.DataFrame
    posthoc_pvalues: pd.DataFrame
    posthoc_corrected: pd.DataFrame
    df: tuple[float, float]
    methods: list[Hashable]
    measures: list[Hashable]
    alpha: float


def five_by_two(
    x: ArrayLike,
    *,
    methods: Sequence[Hashable] | None = None,
    measures: Sequence[Hashable] | None = None,
    alpha: float = 0.05,
) -> FiveByTwoPairs:
    r"""Test every pair of methods on five repetitions of twofold cross-validation.

    With the differences :math:`d_{rj}` on half j of repetition r and :math:`s_r^2 = \sum_j (d_{rj}
    - \bar d_r)^2`, one measure is tested by :math:`\sum_{rj} d_{rj}^2 / (2 \sum_r s_r^2) \sim F(10,
    5)` (Alpaydın 1999). For several measures the sums of squares become matrices, :math:`H = \sum
    d_{rj} d_{rj}^T` and :math:`E = \sum_r S_r`, and Wilks' lambda :math:`|E| / |E + H|` with 10 and
    5 degrees of freedom takes the place of the F, which it equals for one measure. That
    generalisation is ours; in simulations its level is that of the F: .015 for independent folds,
    .03 and .06 where they correlate by .1 and .3, with one to four measures.

    `x` is methods x 10 folds x at most five measures (else a ValueError); folds 2r and 2r + 1 are
    the two halves of repetition r.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2, 10, 1))
    >>> found = five_by_two(x)
    >>> d = (x[0] - x[1]).reshape(5, 2)
    >>> f = (d**2).sum() / (d[:, 0] - d[:, 1]).dot(d[:, 0] - d[:, 1])
    >>> bool(np.isclose(found.table["f_statistic"].item(), f)), found.df
    (True, (10.0, 5.0))
    """
    probability(alpha, "alpha")
    values = table_of(x, "x", 3)
    n_methods, n_folds, p = values.shape
    of, names = (
        names_of(methods, None, "methods", n_methods),
        names_of(measures, None, "measures", p),
    )
    if n_methods < 2 or n_folds != 2 * REPEATS or p > REPEATS:
        raise ValueError(
            f"`x` must hold at least two methods on ten folds and at most {REPEATS} measures, "
            f"got {n_methods} methods, {n_folds} folds and {p} measures. Five repetitions of "
            "twofold cross-validation give five degrees of freedom."
        )
    first, second = np.triu_indices(n_methods, 1)
    n, size = len(first), np.abs(values).max(axis=1)
    determinants, f = np.empty(n), np.empty((n, p))
    mean, direction, singular = np.empty((n, p)), np.empty((n, p)), np.empty(n, dtype=np.int64)
    for start in range(0, n, BLOCK):
        at = slice(start, start + BLOCK)
        d = values[first[at]] - values[second[at]]
        largest = np.maximum(size[first[at]], size[second[at]])
        d[np.abs(d) <= NOISE * largest[:, None]] = 0.0
        spread = (d[:, ::2] - d[:, 1::2]) / np.sqrt(2)
        spread[np.abs(spread) <= NOISE * largest[:, None]] = 0.0
        within, between = (spread**2).sum(axis=1), (d**2).sum(axis=1)
        f[at] = np.divide(
            between, 2 * within, out=np.where(between == 0, 0.0, np.nan), where=within > 0
        )
        mean[at] = d.mean(axis=1)
        found = solve_pairs(spread.transpose(2, 1, 0).copy(), mean[at].T.copy(), largest.T)
        direction[at], singular[at] = found[1].T, found[2]
        unit = np.sqrt(np.where(within > 0, within, 1.0))[:, None]
        e, t = spread / unit, np.concatenate([spread, d], axis=1) / unit
        logs = [np.linalg.slogdet(np.swapaxes(m, 1, 2) @ m)[1] for m in (e, t)]
        determinants[at] = np.subtract(logs[0], logs[1], out=np.zeros(len(d)), where=found[2] < 0)
    wilks = np.exp(determinants)
    same = (mean == 0).all(axis=1) & (f == 0).all(axis=1)
    bad = (singular >= 0) & ~same
    wilks[same], wilks[bad] = 1.0, np.nan
    direction[same], direction[bad] = 0.0, np.nan
    statistic, df1, df2, pvalue = rao_f(wilks, p, 2 * REPEATS, REPEATS)
    problem = np.full(n, "", dtype=object)
    problem[bad] = [
        f"{names[k]} does not vary, or follows from the measures before it" for k in singular[bad]
    ]
    table = {
        **named_pairs(of, first, second),
        "statistic": wilks,
        "f_statistic": statistic,
        **decided(pvalue, alpha),
        "problem": problem,
    }
    posthoc = special.fdtrc(2 * REPEATS, REPEATS, f)
    means, directions, pvalues, corrected = (
        pd.DataFrame(x, columns=names) for x in (mean, direction, posthoc, holm(posthoc))
    )
    return FiveByTwoPairs(
        pd.DataFrame(table),
        means,
        directions,
        pvalues,
        corrected,
        (float(df1), float(df2)),
        of,
        names,
        alpha,
    )
