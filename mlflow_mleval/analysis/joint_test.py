"""Do two methods differ on any of several measures of the same instances?

Hotelling's T² under sign changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlflow_mleval.validation import at_least_one

Array = NDArray[np.float64]
#: So many rows that differ are tried under all their sign changes, more under random ones.
EXACT = 14
#: Statistics this close are equal: sums in another order.
_EQUAL = 1e-9
#: Numbers in a block of random signs.
_BLOCK = 2**22


@dataclass(frozen=True)
class JointTest:
    """Hotelling's T² of paired differences, its distribution by sign changes.

    Attributes
    ----------
    statistic : T² = R · mean' S⁻¹ mean of the R rows (instances, or clusters of them); infinite where all rows are alike.
    pvalue : The share of sign changes of whole rows with a statistic at least as large.
    n_units : R, the rows that differ from zero.
    dependent : Positions of the measures that others determine, which are left out.
    exact : Whether all sign changes were counted; otherwise `n_resamples` random ones and the data as they are.
    n_resamples, seed : Of the random sign changes.
    """  # noqa: E501

    statistic: float
    pvalue: float
    n_units: int
    dependent: tuple[int, ...]
    exact: bool
    n_resamples: int
    seed: int


def joint_test(
    differences: ArrayLike,
    units: Sequence[int] | None = None,
    *,
    n_resamples: int = 9_999,
    seed: int = 0,
) -> JointTest:
    r"""Test that the differences of all measures together are centred at zero.

    The signs of a whole row change, or of all rows of a unit, so that the correlation of the
    measures is kept. Sign changes leave :math:`M = \sum_i d_i d_i^T` as it is, and T² rises with
    :math:`s^T M^{-1} s`, s the sum of the rows: no covariance has to be computed anew.

    Parameters
    ----------
    differences : array of shape (n, p)
        Of p measures on n instances; rows with NaN are left out.
    units : sequence of int, optional
        By row, the number of the cluster that it belongs to.
    n_resamples : int
        Random sign changes where there are more than 14 units.
    seed : int

    Raises
    ------
    ValueError
        Not two-dimensional, infinite, or no row without NaN.

    Examples
    --------
    >>> found = joint_test([[1.0, 2.0], [2.0, 1.0], [3.0, 2.5], [1.5, 1.0]])
    >>> found.pvalue, found.exact
    (0.25, True)
    """
    from scipy.linalg import qr  # slow to load, and a ranking does without it

    at_least_one(n_resamples, "n_resamples")
    d = np.asarray(differences, dtype=float)
    if d.ndim != 2 or np.isinf(d).any():
        raise ValueError(
            f"`differences` must be finite, of shape (instances, measures), got shape {d.shape}."
        )
    has = ~np.isnan(d).any(axis=1)
    if not has.any():
        raise ValueError(
            "`differences` must have a row without NaN, got none. Leave out the measure that "
            "lacks values."
        )
    d = d[has]
    if units is not None:
        unit = np.unique(np.asarray(units)[has], return_inverse=True)[1]
        summed = np.zeros((unit.max() + 1, d.shape[1]))
        np.add.at(summed, unit, d)
        d = summed
    scale = np.sqrt((d**2).mean(axis=0))
    d = d / np.where(scale > 0, scale, 1.0)
    d = d[(np.abs(d) > 1e-12).any(axis=1)]
    if not len(d):
        return JointTest(0.0, 1.0, 0, (), True, 0, seed)
    upper, order = qr(d, mode="r", pivoting=True)
    rank = int((np.abs(np.diag(upper)) > 1e-9 * abs(upper[0, 0])).sum())
    kept = np.sort(order[:rank])
    whitened = np.linalg.solve(np.linalg.cholesky(d[:, kept].T @ d[:, kept]), d[:, kept].T).T
    n = len(d)
    observed = float((whitened.sum(axis=0) ** 2).sum())
    exact = n <= EXACT
    if exact:  # the first row keeps its sign: turning all of them changes nothing
        signs = 1.0 - 2.0 * (np.arange(2 ** (n - 1))[:, None] >> np.arange(n - 1) & 1)
        drawn = whitened[0] + signs @ whitened[1:]
        pvalue = float(((drawn**2).sum(axis=1) >= observed - _EQUAL).mean())
    else:
        rng, count = np.random.default_rng(seed), 0
        step = max(_BLOCK // n, 1)
        for start in range(0, n_resamples, step):
            signs = (
                rng.integers(0, 2, size=(min(step, n_resamples - start), n), dtype=np.int8) * 2.0
                - 1.0
            )
            count += int((((signs @ whitened) ** 2).sum(axis=1) >= observed - _EQUAL).sum())
        pvalue = (count + 1) / (n_resamples + 1)
    share = min(observed / n, 1.0)  # T²/(R-1) = share / (1 - share), for M = (R-1) S + R mean mean'
    statistic = float("inf") if share > 1 - 1e-12 else (n - 1) * share / (1 - share)
    dependent = tuple(int(k) for k in np.sort(order[rank:]))
    return JointTest(statistic, pvalue, n, dependent, exact, 0 if exact else n_resamples, seed)
