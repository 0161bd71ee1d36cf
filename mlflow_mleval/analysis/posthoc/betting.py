"""Tests of pairs that may be looked at whenever something new has come in: betting on bounded
differences.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mlflow_mleval.analysis.pairs import NOISE, decided, pair_positions, pairs_table
from mlflow_mleval.analysis.posthoc.description import FLOWS, PairsTested, Posthoc, Tested
from mlflow_mleval.analysis.ranks import incomplete_table
from mlflow_mleval.sentences import count
from mlflow_mleval.validation import AnyArray, probability

#: Shares of the capital that are bet, from all of it down, and how the capital is divided among
#: them. Large differences are soon found by large bets; each halving is for a quarter of the
#: effect, and costs the others little.
BETS = 2.0 ** -np.arange(8)
SHARES = 1 / (np.arange(1, 9) * np.arange(2, 10))
SHARES = SHARES / SHARES.sum()
#: What it costs, as simulated (examples/studies/simulation_study.md).
COST = (
    "Bets hold their level however often datasets are added and the results looked at, and find "
    "less for it: it takes about twice as many datasets as by step-down max-T, which may be "
    "looked at once."
)


def log_capital(x: AnyArray) -> AnyArray:
    r"""Log of the capital after each of the differences x, which lie between -1 and 1; NaN is none,
    on which nothing is bet.

    Half of the capital bets that the differences are above zero on average, half that they are
    below: :math:`K_n = \sum_\lambda w_\lambda (\prod_{i \le n} (1 + \lambda x_i) + \prod_{i \le n}
    (1 - \lambda x_i)) / 2`. While the mean of each difference is zero, whatever came before it,
    this is a martingale from 1, and reaches 1 / alpha with a chance of at most alpha, ever (Ville).
    Bets are fixed before, so that :math:`K_n` does not depend on the order.

    >>> np.exp(log_capital(np.array([1.0, 1.0, -1.0]))).round(3).tolist()
    [1.0, 1.616, 0.384]
    """
    x = np.nan_to_num(x)
    with np.errstate(divide="ignore"):  # all of the capital may be lost
        steps = np.log1p(np.concatenate([BETS, -BETS])[:, None] * x)
    paths = np.cumsum(steps, axis=1) + np.log(np.tile(SHARES / 2, 2))[:, None]
    return np.logaddexp.reduce(paths, axis=0)


@dataclass(frozen=True)
class BettingResult(PairsTested):
    """Pairs of methods by betting on their differences.

    Attributes
    ----------
    table : One row a pair. method_a, method_b; n (datasets on which both have a value); mean_difference (positive where a is
        better); capital (after the last dataset, from 1: an e-value); statistic (the largest
        capital so far); pvalue (1 / statistic, at most 1), pvalue_corrected (Holm), significant.
    bound : No difference is larger.
    order : Datasets in the order in which they count.
    control : Method b of all pairs, if one was given.
    """  # noqa: E501

    bound: float
    order: list[Hashable]
    warnings: tuple[str, ...] = ()

    @property
    def datasets_needed(self) -> int:
        """The least number of datasets with which a pair could be separated, were its differences
        as large as can be.
        """
        return (
            int(np.argmax(log_capital(np.ones(999)) >= np.log(self.n_comparisons / self.alpha))) + 1
        )


def betting(
    values: ArrayLike | pd.DataFrame,
    control: Hashable | None = None,
    alpha: float = 0.05,
    bound: float = FLOWS,
) -> BettingResult:
    r"""Compare pairs of methods over datasets by betting (Waudby-Smith & Ramdas 2024); hold the
    level at any number of looks.

    Each pair starts with a capital of 1, and bets on its differences in the order of the rows. The
    bets are fair if the methods do not differ on average, so that the capital reaches 1 / alpha in
    at most a share alpha of such studies, however many datasets follow and whenever somebody looks
    or stops. The p-value is one over the largest capital so far; Holm corrects it for the number of
    pairs. It is never larger after more datasets.

    Parameters
    ----------
    values : array_like or pandas.DataFrame, shape (datasets, methods)
        Larger is better. Rows in the order in which the datasets came, which must not depend on the
        results. NaN where a method has none: a pair goes by the datasets on which both have one.
    control : hashable, optional
        Compare every method with this one only: method_b of every pair.
    alpha : float
        Family-wise significance level, over all looks.
    bound : float
        Differences lie between -bound and bound, whatever the data; of net flows, 2.

    Raises
    ------
    ValueError
        Fewer than two datasets or methods, a difference beyond the bound, an unknown control,
        `alpha` outside (0, 1).

    Notes
    -----
    The hypothesis is that the mean difference is zero on every dataset, given those before;
    differences need not be symmetric, nor alike. From look to look methods and measures must stay
    the same, for net flows depend on them, and what has been counted must not change.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = betting(pd.DataFrame({"a": 0.6 + 0.1 * rng.random(20), "b": 0.3 * rng.random(20)}), bound=1)
    >>> found.table[["n", "capital", "pvalue"]].round(4).values.tolist(), found.significant_pairs
    ([[20.0, 725.1142, 0.0014]], [('a', 'b')])
    """  # noqa: E501
    probability(alpha, "alpha")
    if not 0 < bound < np.inf:
        raise ValueError(
            f"`bound` must be positive and finite, got {bound!r}. Give the largest difference "
            "that there can be."
        )
    frame = incomplete_table(values, "values")
    by_method = frame.to_numpy().T
    m, n = by_method.shape
    a, b = pair_positions(frame, control)
    ends = np.empty((len(a), 2))
    total = np.empty(len(a))
    common = np.empty(len(a), dtype=int)
    for row, (first, second) in enumerate(zip(a, b, strict=True)):
        d = by_method[first] - by_method[second]
        path = log_capital(scaled(d, bound))
        ends[row] = path[-1], path.max()
        total[row] = np.nansum(d)
        common[row] = (~np.isnan(d)).sum()
    capital, largest = np.exp(np.minimum(ends, 700)).T
    columns = {
        "capital": capital,
        "statistic": largest,
        **decided(np.minimum(1.0, 1 / largest), alpha),
    }
    table = pairs_table(frame.columns, a, b, common, total, **columns)
    return BettingResult(
        table=table,
        alpha=alpha,
        n_datasets=n,
        n_methods=m,
        n_comparisons=len(a),
        control=control,
        methods=frame.columns.tolist(),
        bound=bound,
        order=frame.index.tolist(),
        warnings=(COST,),
    )


def scaled(difference: AnyArray, bound: float) -> AnyArray:
    """Differences in units of their bound."""
    x = difference / bound
    if (far := np.nanmax(np.abs(x), initial=0.0)) > 1 + NOISE:
        raise ValueError(
            f"`bound` must be at least as large as any difference can be, got {bound:g} and one "
            f"of {far * bound:g}."
        )
    return np.clip(x, -1, 1)


class Betting(Posthoc):
    """All pairs, or those with a control, by betting on the datasets in the order in which they
    came.
    """

    name = "betting"
    asked = "anytime"
    title = "Betting"
    key = "betting"
    always = False
    column = sort = "pvalue_betting"
    head = "p (betting)"
    summary = (
        "bets on every pair, dataset by dataset; holds α over all pairs and however often the "
        "results are looked at"
    )
    sources = ("Waudby-Smith & Ramdas 2024", "Holm 1979")

    def run(self, tested: Tested) -> BettingResult:
        flows = tested.flows
        if tested.arrival is not None:
            flows = flows.loc[[dataset for dataset in tested.arrival if dataset in flows.index]]
        return betting(flows, tested.control, tested.alpha, tested.bound)

    def possible(self, result: BettingResult) -> str:
        if unable := self.unable(result):
            return unable
        return (
            f"Betting on {count(result.n_datasets, 'dataset')} can separate pairs; it takes "
            f"{result.datasets_needed} at least."
        )

    def unable(self, result: BettingResult) -> str:
        if result.n_datasets >= result.datasets_needed:
            return ""
        on = count(result.n_datasets, "dataset")
        needed = f"it takes {result.datasets_needed}, were all differences as large as can be"
        return f"Betting on {on} cannot separate any pair; {needed}."

    def wording(self, result: BettingResult) -> str:
        return "betting, at any number of looks"

    def sentence(self, result: BettingResult) -> str:
        pairs = "all pairs" if result.control is None else f"every pair with {result.control}"
        return (
            f"Betting on {pairs}, dataset by dataset in the order in which the last run of each "
            "started, with Holm's correction"
        )
