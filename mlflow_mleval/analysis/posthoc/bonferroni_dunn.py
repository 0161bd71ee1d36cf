"""The Bonferroni-Dunn test: every method against a control by mean ranks over datasets (Dunn 1961;
Demšar 2006).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from mlflow_mleval.analysis.posthoc.description import Tested
from mlflow_mleval.analysis.posthoc.nemenyi import Nemenyi, NemenyiResult
from mlflow_mleval.analysis.ranks import column_of, complete_table, doubled_ranks, mean_ranks
from mlflow_mleval.validation import probability


def bonferroni_dunn(
    ranks: ArrayLike | pd.DataFrame, control: Hashable, alpha: float = 0.05
) -> NemenyiResult:
    r"""Compare every method with a control by mean ranks (Dunn 1961; Demšar 2006); `ranks` as for
    `nemenyi`.

    :math:`CD = z_{\alpha/(2(m-1))} \sqrt{m(m+1)/(6D)}`; p-values are two-sided normal, times the m
    - 1 comparisons.

    >>> result = bonferroni_dunn(pd.DataFrame([[1, 2, 3]] * 8, columns=["a", "b", "c"]), control="c")
    >>> round(result.critical_difference, 4), result.significant_pairs
    (1.1207, [('a', 'c')])
    """  # noqa: E501
    probability(alpha, "alpha")
    table = complete_table(ranks, "ranks")
    at = column_of(control, table)
    doubled = doubled_ranks(table)
    n, m = doubled.shape
    unit = np.sqrt(m * (m + 1) / (6 * n))
    mean = mean_ranks(doubled, table)
    pvalues = np.full((m, m), np.nan)
    against = np.minimum(1.0, (m - 1) * 2 * ndtr(-np.abs(mean - mean.iloc[at]) / unit))
    pvalues[at] = pvalues[:, at] = against
    return NemenyiResult(
        critical_difference=float(-ndtri(alpha / (2 * (m - 1))) * unit),
        pvalues=pd.DataFrame(pvalues, table.columns, table.columns),
        mean_ranks=mean,
        alpha=alpha,
        n_datasets=n,
        n_methods=m,
        control=control,
    )


class BonferroniDunn(Nemenyi):
    """Every method against a control by mean ranks; it takes the place of Nemenyi's test, also in
    JSON and CSV.
    """

    name = asked = "bonferroni-dunn"
    title = "Bonferroni–Dunn"
    control = True
    head = "p (Dunn)"
    summary = "the same for pairs with one control only"
    sources = ("Dunn 1961", "Demšar 2006")

    def run(self, tested: Tested) -> NemenyiResult:
        return bonferroni_dunn(tested.ranks, tested.control, tested.alpha)

    def sentence(self, result: NemenyiResult) -> str:
        return "The Bonferroni-Dunn test on mean ranks"
