"""What runs say of their folds: how these came about, and whether those of two methods are the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mlflow_mleval.analysis.folds.protocol import Protocol, protocol_of, widest

UNPAIRED = "the folds of these two are not the same (their split digests differ)"


def runs_of(runs: pd.DataFrame, dataset: str, methods: Sequence[str]) -> pd.DataFrame:
    """The runs of some methods on a dataset, by method; without rows where nothing is known.

    Parameters
    ----------
    runs : pandas.DataFrame
        As `Study.runs`: one row a run.
    dataset : str
    methods : sequence of str
    """
    if not {"dataset", "method"} <= {*runs.columns}:
        return pd.DataFrame()
    runs = runs[(runs["dataset"] == dataset) & runs["method"].isin(methods)]
    return runs.drop_duplicates("method", keep="last").set_index("method")


def recorded_protocol(
    runs: pd.DataFrame, n_folds: int, kind: str | None = None, ratio: float | None = None
) -> tuple[Protocol, list[str]]:
    """How the folds came about: the most cautious of what the runs say, or what was declared.

    Parameters
    ----------
    runs : pandas.DataFrame
        As `runs_of` returns it; n_train and n_test hold the sizes of each fold, or one number for all.
    n_folds : int
    kind, ratio
        Declared, as in `protocol_of`.

    Returns
    -------
    protocol : Protocol
    notes : list of str
        What is not known, and where methods differ.

    Raises
    ------
    ValueError
        As `protocol_of`.

    Examples
    --------
    >>> runs = pd.DataFrame({"n_train": [90, 80], "n_test": [10, 20]}, index=["BR", "CC"])
    >>> how, notes = recorded_protocol(runs, 10)
    >>> how.ratio, notes[-1]
    (0.25, 'The methods were trained on parts of different sizes; the widest correction is used (0.25).')
    """
    sizes = {(None, None)}
    if {"n_train", "n_test"} <= {*runs.columns}:
        known = {tuple(_frozen(v) for v in row) for row in runs[["n_train", "n_test"]].itertuples(index=False)}
        sizes = {pair for pair in known if None not in pair} or sizes
    found = [protocol_of(n_folds, *pair, kind=kind, ratio=ratio) for pair in sizes]
    how = widest(found)
    notes = [] if how.known else [f"{how.reason} Say protocol and ratio if it was another."]
    notes += [how.caution] if how.caution else []
    if len({(p.kind, p.ratio) for p in found}) > 1:
        notes.append(f"The methods were trained on parts of different sizes; the widest correction is used ({how.ratio:.3g}).")
    return how, notes


def unpaired(runs: pd.DataFrame, methods: Sequence[str]) -> tuple[NDArray[np.bool_] | None, list[str]]:
    """Which pairs of methods have folds that are known to differ: their split digests do.

    Parameters
    ----------
    runs : pandas.DataFrame
        As `runs_of` returns it.
    methods : sequence of str

    Returns
    -------
    differ : array of bool, shape (pairs,), or None
        Pairs in the order of ``numpy.triu_indices(len(methods), 1)``; None where no pair differs.
    notes : list of str
        Of how many methods it is not known.

    Examples
    --------
    >>> runs = pd.DataFrame({"split_digest": ["x", "x", "y"]}, index=["BR", "CC", "LP"])
    >>> unpaired(runs, ["BR", "CC", "LP"])[0].tolist()
    [False, True, True]
    """
    recorded = runs["split_digest"].fillna("").to_dict() if "split_digest" in runs else {}
    digests = np.array([recorded.get(name, "") for name in methods], dtype=object)
    first, second = np.triu_indices(len(methods), 1)
    known = digests != ""
    differ = (digests[first] != digests[second]) & known[first] & known[second]
    notes = []
    if unknown := int((~known).sum()):
        notes.append(
            f"How the data were split is unknown for {unknown} of {len(methods)} methods; their folds are taken as pairs because "
            "they have the same numbers."
        )
    return (differ if differ.any() else None), notes


def _frozen(sizes: object) -> object:
    """Sizes as something that can be compared: a number, a tuple, or None for what is missing or empty."""
    if isinstance(sizes, (list, tuple, np.ndarray)):
        return tuple(sizes) or None
    return None if pd.isna(sizes) else sizes
