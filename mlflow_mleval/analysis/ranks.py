"""Tests on ranks over datasets: Friedman, Iman-Davenport, Skillings-Mack; Kendall's tau."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import factorial, inf, isinf, log10, prod

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from mlflow_mleval.sentences import did_you_mean, some
from mlflow_mleval.validation import AnyArray, in_pandas, one_of

TIES = ("correct", "ignore")
#: By number of methods, up to how many datasets Friedman's p-value is exact. There the F rejects up
#: to .19 of true hypotheses at .05; beyond, at most .067 on two datasets and .061 on more.
EXACT_DATASETS = {2: 10, 3: 10, 4: 10, 5: 4, 6: 3, 7: 2}


@dataclass(frozen=True)
class FriedmanResult:
    """Friedman's chi-square, the F of Iman and Davenport, and for few datasets and methods the
    exact p-value, by all orders of the methods within datasets."""

    statistic: float
    pvalue: float
    df: int
    iman_davenport_statistic: float
    iman_davenport_pvalue: float
    iman_davenport_df: tuple[int, int]
    exact_pvalue: float | None
    mean_ranks: pd.Series
    n_datasets: int
    n_methods: int
    ties: str
    warnings: tuple[str, ...] = ()

    @property
    def best_pvalue(self) -> float:
        """The exact p-value where there is one, else that of Iman and Davenport."""
        return self.iman_davenport_pvalue if self.exact_pvalue is None else self.exact_pvalue


@dataclass(frozen=True)
class SkillingsMackResult:
    """Friedman's test for tables with empty cells; more than one of `parts` means that the design
    is not connected."""

    statistic: float
    pvalue: float
    df: int
    adjusted_sums: pd.Series
    dropped: tuple[Hashable, ...]
    parts: list[list[Hashable]]
    n_datasets: int
    n_methods: int
    ties: str
    warnings: tuple[str, ...] = ()


def complete_table(values: ArrayLike | pd.DataFrame, name: str) -> pd.DataFrame:
    """A table datasets x methods of floats: at least two of each, no duplicate method, no NaN."""
    table = incomplete_table(values, name)
    if empty := int(table.isna().to_numpy().sum()):
        row, column = np.argwhere(table.isna().to_numpy())[0]
        raise ValueError(
            f"`{name}` must have a value in every cell, got {empty} of {table.size} empty "
            f"(first: {table.columns[column]} on {table.index[row]}). Choose a policy for "
            "missing values (worst, drop-datasets, drop-methods), or test the incomplete table "
            "with skillings_mack."
        )
    return table


def incomplete_table(values: ArrayLike | pd.DataFrame, name: str) -> pd.DataFrame:
    """The same, but cells may be empty."""
    values = in_pandas(values, index="dataset")
    table = values if isinstance(values, pd.DataFrame) else pd.DataFrame(np.asarray(values))
    if table.shape[0] < 2 or table.shape[1] < 2:
        raise ValueError(
            f"`{name}` must be datasets x methods with at least two of each, got "
            f"{table.shape[0]} x {table.shape[1]}. A test over datasets needs more results."
        )
    if table.columns.has_duplicates:
        twice = table.columns[table.columns.duplicated()].unique().tolist()
        raise ValueError(
            f"`{name}` must have distinct methods, got {len(twice)} more than once "
            f"({some(twice)}). Rename them."
        )
    try:
        return table.astype(float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must hold numbers, got {error}. Pass one number a cell."
        ) from None


def doubled_ranks(table: pd.DataFrame) -> AnyArray:
    """Twice the ranks within each row (ties averaged): integers, so that sums are exact."""
    return np.rint(2 * table.rank(axis=1).to_numpy()).astype(np.int64)


def components(joined: AnyArray) -> AnyArray:
    """By row, the number of its connected component of a symmetric graph of booleans."""
    labels = np.arange(len(joined))
    n = len(joined)
    while (
        lower := np.minimum(labels, np.where(joined, labels, n).min(axis=1, initial=n))
    ).tolist() != labels.tolist():
        labels = lower
    return np.unique(labels, return_inverse=True)[1]


def friedman(ranks: ArrayLike | pd.DataFrame, ties: str = "correct") -> FriedmanResult:
    r"""Test whether methods differ over datasets (Friedman 1937; Iman & Davenport 1980; Demšar
    2006).

    :math:`\chi^2_F = \frac{12D}{m(m+1)} [\sum_j R_j^2 - m(m+1)^2/4]` on m - 1 degrees of freedom,
    divided by :math:`1 - \sum (t^3 - t) / (D m (m^2 - 1))` for ties, and :math:`F_F = (D-1)\chi^2_F
    / (D(m-1) - \chi^2_F)` on (m - 1, (m - 1)(D - 1)).

    Parameters
    ----------
    ranks : array_like or pandas.DataFrame, shape (datasets, methods)
        Ranks, or any values of which the smaller is better; each row is ranked, ties averaged.
    ties : {"correct", "ignore"}
        Whether to correct for ties. "ignore" is what Madjarov et al. (2012) and Eftimov & Kocev
        (2019) print.

    Raises
    ------
    ValueError
        Fewer than two datasets or methods, empty cells, an unknown `ties`.

    Examples
    --------
    >>> result = friedman([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]])
    >>> result.statistic, round(result.pvalue, 4), result.mean_ranks.tolist()
    (4.5, 0.1054, [1.25, 2.0, 2.75])
    >>> round(result.iman_davenport_statistic, 3), round(result.iman_davenport_pvalue, 4), round(result.exact_pvalue, 4)
    (3.857, 0.0837, 0.125)
    """  # noqa: E501
    one_of(ties, "ties", TIES)
    table = complete_table(ranks, "ranks")
    doubled = doubled_ranks(table)
    n, m = doubled.shape
    between = int(((doubled.sum(axis=0) - n * (m + 1)) ** 2).sum())
    total = int((doubled**2).sum()) - n * m * (m + 1) ** 2
    untied = n * m * (m * m - 1) // 3
    warnings = []
    if total == 0:
        warnings.append("Every dataset ties all methods: there is nothing to test.")
    scale = total if ties == "correct" and total else untied
    rest = n * scale - between
    f = (n - 1) * between / rest if rest else inf
    if isinf(f):
        # the chance that n - 1 random orders with the same ties repeat the first
        orders = factorial(m) // prod(factorial(int(count)) for count in np.bincount(doubled[0]))
        warnings.append(
            f"All {n} datasets rank the methods alike, so the Iman-Davenport F is infinite and its "
            "p-value 0; counting orders, the chance of that is "
            f"10^{-(n - 1) * log10(orders):.1f}."
        )
    exact = None
    if n <= EXACT_DATASETS.get(m, 0):
        spread, share = _spreads(tuple(sorted(tuple(sorted(row)) for row in doubled.tolist())))
        exact = min(1.0, float(share[spread >= between].sum()))
        warnings.append(
            f"The approximations of Friedman's test are rough for {n} datasets and {m} methods; "
            f"by all orders of the methods p = {exact:.2g}."
        )
    elif n <= 10 or m <= 5:
        warnings.append(
            f"The chi-square approximation of Friedman's test is rough for {n} datasets and {m} "
            "methods (rule of thumb: more than 10 and 5)."
        )
    statistic = (m - 1) * between / scale
    df = m - 1
    f_df = (m - 1, (m - 1) * (n - 1))
    return FriedmanResult(
        statistic=statistic,
        pvalue=float(special.chdtrc(df, statistic)),
        df=df,
        iman_davenport_statistic=f,
        iman_davenport_pvalue=float(special.fdtrc(*f_df, f)),
        iman_davenport_df=f_df,
        exact_pvalue=exact,
        mean_ranks=mean_ranks(doubled, table),
        n_datasets=n,
        n_methods=m,
        ties=ties,
        warnings=tuple(warnings),
    )


@lru_cache(maxsize=64)
def _spreads(rows: tuple[tuple[int, ...], ...]) -> tuple[AnyArray, AnyArray]:
    """The spreads that column sums can have when each row is in random order, with their
    probabilities: row by row, by sorted sums."""
    n = len(rows)
    m = len(rows[0])
    sums: AnyArray = np.array(rows[:1])
    share: AnyArray = np.ones(1)
    digits = (2 * n * m + 1) ** np.arange(m)
    for row in rows[1:]:
        orders, times = np.unique(list(permutations(row)), axis=0, return_counts=True)
        sums = np.sort((sums[:, None] + orders).reshape(-1, m), axis=1)
        _, at, which = np.unique(sums @ digits, return_index=True, return_inverse=True)
        sums = sums[at]
        share = np.bincount(which, np.multiply.outer(share, times / times.sum()).ravel())
    return ((sums - n * (m + 1)) ** 2).sum(axis=1), share


def mean_ranks(doubled: AnyArray, table: pd.DataFrame) -> pd.Series:
    """Mean rank of each method, from ranks that are doubled."""
    return pd.Series(
        doubled.sum(axis=0) / (2 * len(doubled)), index=table.columns, name="mean_rank"
    )


def column_of(control: Hashable, table: pd.DataFrame) -> int:
    """Position of the control among the methods."""
    if control not in table.columns:
        guess = did_you_mean([control], table.columns)
        raise ValueError(
            f"`control` must be one of the methods ({some(table.columns)}), got {control!r}.{guess}"
        )
    return table.columns.get_loc(control)


def skillings_mack(table: ArrayLike | pd.DataFrame, ties: str = "correct") -> SkillingsMackResult:
    r"""Friedman's test where some methods have no result (NaN) on some datasets (Skillings & Mack
    1981); smaller is better.

    Ranks are taken among the :math:`k_i` results of a dataset, centred, weighted by
    :math:`\sqrt{12/(k_i+1)}` and summed to :math:`A_j`; the statistic is :math:`A^T \Sigma^- A`
    with the permutation covariance of A. Equals `friedman` on a complete table, ties corrected (by
    the variance of the tied ranks) or not (the original paper). ValueError without a dataset with
    two results.

    >>> result = skillings_mack([[1, 2, 3], [1, 2, np.nan], [1, np.nan, 2], [np.nan, 1, 2]])
    >>> round(result.statistic, 3), result.df, round(result.pvalue, 3), result.dropped
    (4.643, 2, 0.098, ())
    """
    one_of(ties, "ties", TIES)
    table = incomplete_table(table, "table")
    values = table.to_numpy()
    count = (~np.isnan(values)).sum(axis=1)
    dropped = table.index[count < 2].tolist()
    values = values[count >= 2]
    k = count[count >= 2, None].astype(float)
    if not len(values):
        raise ValueError(
            "`table` must have a dataset with two results, got none. Compare methods on common "
            "datasets."
        )
    there = ~np.isnan(values)
    centred = np.where(there, pd.DataFrame(values).rank(axis=1).to_numpy() - (k + 1) / 2, 0.0)
    sums = (np.sqrt(12 / (k + 1)) * centred).sum(axis=0)
    # within a dataset the ranks of two methods have covariance -variance / (k - 1); without ties
    # the factor becomes 1
    weight = (
        12 * (centred**2).sum(axis=1, keepdims=True) / (k * (k * k - 1))
        if ties == "correct"
        else np.ones_like(k)
    )
    met = there.T.astype(float) @ (there * weight)
    if informative := bool(weight.any()):
        meets = met
    else:
        meets = there.T.astype(float) @ there
    np.fill_diagonal(met, 0.0)
    covariance = np.diag(met.sum(axis=1)) - met
    part = components(meets > 0)
    n_parts = int(part.max()) + 1
    statistic = (
        max(float(sums @ np.linalg.pinv(covariance, hermitian=True, rcond=1e-10) @ sums), 0.0)
        if informative
        else 0.0
    )
    df = table.shape[1] - n_parts
    warnings = []
    if dropped:
        warnings.append(
            f"{len(dropped)} datasets with fewer than two results say nothing and were left out: "
            f"{some(dropped)}."
        )
    parts = [table.columns[part == i].tolist() for i in range(n_parts)]
    if n_parts > 1:
        shown = "; ".join(some(p) for p in parts)
        warnings.append(
            f"The design is not connected: methods of different parts are never compared ({shown})."
        )
    if not informative:
        warnings.append("Every dataset ties all methods: there is nothing to test.")
    return SkillingsMackResult(
        statistic=statistic,
        pvalue=float(special.chdtrc(df, statistic)),
        df=df,
        adjusted_sums=pd.Series(sums, table.columns, name="adjusted_sum"),
        dropped=tuple(dropped),
        parts=parts,
        n_datasets=len(values),
        n_methods=table.shape[1],
        ties=ties,
        warnings=tuple(warnings),
    )


def kendall(rankings: ArrayLike | pd.DataFrame) -> pd.DataFrame:
    """Kendall's tau-b between every two rankings, one a row; NaN where a ranking ties all
    methods."""
    rankings = in_pandas(rankings)
    table = rankings if isinstance(rankings, pd.DataFrame) else pd.DataFrame(np.asarray(rankings))
    values = table.to_numpy(dtype=float)
    if np.isnan(values).any():
        raise ValueError(
            f"`rankings` must have no empty cell, got {int(np.isnan(values).sum())}. Leave those "
            "methods out."
        )
    varies = np.ptp(values, axis=1) > 0
    return table.T.astype(float).corr(method="kendall").where(np.outer(varies, varies))
