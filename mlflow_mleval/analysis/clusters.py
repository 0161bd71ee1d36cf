"""Instances that belong together: one table of clusters for all methods, and what few or unequal
clusters are worth.

Bell & McCaffrey (2002), "Bias reduction in standard errors for linear regression with multi-stage
samples", for CR2 and its degrees of freedom; Kish (1965), "Survey sampling", for the effective
number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.words import quoted

Array = NDArray[np.float64]
#: With fewer clusters of equal size skewed values make intervals and tests err more often than they
#: say.
FEW_CLUSTERS = 20
#: Instances that an error names.
_NAMED = 5


def one_table(parts: Iterable[tuple[str, pd.Series]], column: str) -> pd.Series:
    """By instance the name of its cluster, None where nobody names one.

    Parameters
    ----------
    parts : iterable of (str, Series)
        A method, and what a table of it says of each instance; one that occurs again must be in the
        same cluster.
    column : str
        What errors call it.

    Raises
    ------
    IncomparableRunsError
        Instances are in several clusters; the text names them.

    Examples
    --------
    >>> parts = [("a", pd.Series({"q1": 1, "q2": ""})), ("b", pd.Series({"q1": "1"}))]
    >>> one_table(parts, "passage").to_dict()
    {'q1': '1', 'q2': None}
    """
    rows = pd.concat(
        pd.DataFrame({"cluster": cluster_names(part), "method": method}, index=part.index)
        for method, part in parts
    )
    named = rows[rows["cluster"].notna()].reset_index(names="instance")
    named = named.drop_duplicates(["instance", "cluster"])
    if len(wrong := named[named["instance"].duplicated(keep=False)]):
        shown = [
            f"{instance} "
            f"({' and '.join(f'{quoted(r.cluster)} by {r.method}' for r in of.itertuples())})"
            for instance, of in wrong.groupby("instance", sort=False)
        ]
        more = f" and {len(shown) - _NAMED:,} more" if len(shown) > _NAMED else ""
        raise IncomparableRunsError(
            f"{column!r} must put each instance into one cluster, and puts {len(shown):,} into "
            f"several: {', '.join(shown[:_NAMED])}{more}. Correct it in the data, or name another "
            "column."
        )
    clusters = named.set_index("instance")["cluster"].reindex(rows.index.unique()).astype(object)
    return clusters.where(clusters.notna(), None)


def cluster_numbers(clusters: ArrayLike | pd.Series, n: int, index: Any = None) -> NDArray[np.intp]:
    """By instance the number of its cluster; one without a name, blank or missing, is a cluster of
    its own.

    Raises
    ------
    ValueError
        Not one value for each of the n instances, another index, or a single cluster.
    """
    if isinstance(clusters, pd.Series) and index is not None and not clusters.index.equals(index):
        raise ValueError(
            "`clusters` must have the index of the instances, got another. Reorder it, or pass "
            "an array."
        )
    codes, names = pd.factorize(np.asarray(clusters, dtype=object))
    if codes.shape != (n,):
        raise ValueError(
            f"`clusters` must hold one value for each of the {n} instances, got shape "
            f"{codes.shape}."
        )
    blank = blank_clusters(clusters)
    codes[blank] = len(names) + np.arange(blank.sum())
    codes = pd.factorize(codes)[0]
    if codes.max() == 0:
        raise ValueError(
            "`clusters` must hold at least two clusters, got one. Leave it out if the instances "
            "are independent."
        )
    return codes


def blank_clusters(clusters: ArrayLike | pd.Series) -> NDArray[np.bool_]:
    """Which instances name no cluster: what is missing, or text without a letter."""
    values = np.asarray(clusters, dtype=object)
    empty = [isinstance(value, str) and not value.strip() for value in values]
    return np.asarray(pd.isna(values), bool) | np.array(empty, bool)


def effective_number(sizes: ArrayLike) -> float:
    """How many clusters of equal size are worth as much as these (Kish).

    >>> effective_number([5, 5, 5]), round(effective_number([50] + 10 * [5]), 2)
    (3.0, 3.64)
    """
    share = np.asarray(sizes, float) / np.sum(sizes)
    return round(float(1 / (share @ share)), 6)


def satterthwaite(sizes: ArrayLike) -> float:
    """Degrees of freedom of a mean's CR2 variance, as if instances were independent (Bell &
    McCaffrey).

    >>> round(satterthwaite([5, 5, 5]), 2), round(satterthwaite([50] + 10 * [5]), 2)
    (2.0, 3.31)
    """
    share = np.asarray(sizes, float) / np.sum(sizes)
    left = share**2 / (1 - share)
    return float(1 / (share @ share + left.sum() ** 2 - left @ left))


def cluster_doubts(clusters: ArrayLike | pd.Series | None, numbers: NDArray[np.intp]) -> list[str]:
    """What to tell of instances that name no cluster, and of few or unequal ones."""
    sizes, doubts = np.bincount(numbers), []
    if clusters is not None and (n := int(blank_clusters(clusters).sum())):
        doubts.append(
            f"{n:,} of {len(numbers):,} instances name no cluster: each is one of its own."
        )
    if (worth := effective_number(sizes)) < FEW_CLUSTERS:
        doubts.append(
            f"The effective number of clusters is {worth:.3g}: there are {len(sizes):,}, and the "
            f"largest holds {sizes.max():,} of {len(numbers):,} instances. With so few, tests and "
            "intervals of skewed values err more often than they say."
        )
    return doubts


def cluster_names(clusters: ArrayLike | pd.Series) -> NDArray[Any]:
    """The names of clusters as text, the same for 3, 3.0 and "3"; None where there is none.

    >>> cluster_names([3.0, "3", " ", None]).tolist()
    ['3', '3', None, None]
    """
    codes, values = pd.factorize(np.asarray(clusters, dtype=object))
    names = np.array(
        [*map(_name, values), None], dtype=object
    )  # the last stands for what is missing
    return names[codes]


def _name(value: Any) -> str | None:
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    return str(value).strip() or None
