"""Loss profiles of many runs: the losses of methods on datasets between Hamming and subset 0/1, by
fold.

`Profiles` holds what both families follow from (the mean largest, second largest .. error of an
instance in each fold), so that any parameter can be asked for.
`mlflow_mleval.analysis.profile_comparison.compare_profiles` says who is better where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mlflow_mleval.measures.owa import (
    ALPHAS,
    FAMILIES,
    _weights,
    awareness,
    positions,
    rising_parameters,
)
from mlflow_mleval.sentences import some
from mlflow_mleval.validation import AnyArray, Array, one_of

Pair = tuple[str, str]
#: Parameters of the binomial family where none are named, at most: all k up to so many labels, else
#: evenly spread ones.
MOST_PARAMETERS = 100
#: What the parameter of each family is called.
PARAMETER = {"binomial": "k", "polynomial": "alpha"}
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class Profiles:
    """The loss profiles of methods on datasets.

    Made by `from_counts`, `from_errors` and `mlflow_mleval.load_profiles`.

    Attributes
    ----------
    errors : mapping of (dataset, method) to array, shape (R, W)
        One row a fold, or one row of all instances: the mean over instances of the largest error,
        the second largest, …; zeros at the end may be left out, W <= K.
    n_labels : mapping of str to int
        K of each dataset.
    folds : mapping of (dataset, method) to tuple
        The fold of each row; empty where the one row is that of all instances.
    kind : {"hard", "soft"}
        Of predicted label sets, or of scores.
    absent : mapping of str to str
        What has no profile here ("METHOD on DATASET"), and why.
    runs : pandas.DataFrame
        What the runs say of themselves, as `Study.runs`: the tests by fold need split_digest,
        n_train and n_test.
    notes : tuple of str
        Doubts a reader must know.
    source : mapping
        How they came about, as `Study.source`.

    >>> profiles = Profiles.from_counts({("d", "A"): [64, 48, 12, 1], ("d", "B"): [1, 0, 0, 1]})
    >>> profiles.losses("d").round(3).loc["A"].tolist()
    [0.2, 0.36, 0.488]
    >>> profiles.losses("d", "polynomial", [1, 1000]).round(3).loc["B"].tolist()
    [0.5, 0.5]
    """

    errors: Mapping[Pair, Array]
    n_labels: Mapping[str, int]
    folds: Mapping[Pair, tuple[Hashable, ...]]
    kind: Literal["hard", "soft"] = "hard"
    absent: Mapping[str, str] = field(default_factory=dict)
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"Profiles({len(self.errors)} {self.kind} profiles, {len(self.methods)} methods, "
            f"{len(self.datasets)} datasets)"
        )

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[Pair, ArrayLike],
        *,
        folds: Mapping[Pair, Sequence[Hashable]] | None = None,
        runs: pd.DataFrame | None = None,
    ) -> Profiles:
        """Profiles of label sets from the numbers of instances with 0, 1, …, K wrong labels, as
        `error_histogram` counts them.

        `counts` maps (dataset, method) to those of each fold, shape (R, K + 1), or of all
        instances, (K + 1,). `folds` says which folds the rows are, by default 0, 1 .. where there
        are several; `runs` has columns dataset, method and what is known of split_digest, n_train,
        n_test. A ValueError refuses counts that are negative, not whole, or none in some fold.

        >>> Profiles.from_counts({("d", "A"): [[3, 1], [2, 2]]}).by_fold("d")[1].tolist()
        [0.25, 0.5]
        """
        errors = {}
        n_labels = {}
        for pair, value in counts.items():
            rows = np.atleast_2d(np.asarray(value, dtype=float))
            whole = ((rows >= 0) & (rows < 2**53)).all() and not (rows % 1).any()
            if rows.ndim != 2 or rows.shape[1] < 2 or not whole or not rows.any(axis=1).all():
                raise ValueError(
                    "`counts` must hold the numbers of instances with 0, 1, …, K wrong labels in "
                    f"each fold, at least one of them positive, got {value!r} for {_named(pair)}. "
                    "Take them from `error_histogram`."
                )
            at_least = np.cumsum(rows[:, ::-1], axis=1)[
                :, ::-1
            ]  # the i-th largest error is 1 where at least i labels are wrong
            errors[pair] = at_least[:, 1:] / at_least[:, :1]
            n_labels[pair] = rows.shape[1] - 1
        return gather(errors, n_labels, _rows_of(counts, folds), "hard", runs=runs)

    @classmethod
    def from_errors(
        cls,
        errors: Mapping[Pair, ArrayLike],
        *,
        folds: Mapping[Pair, Sequence[Hashable]] | None = None,
        runs: pd.DataFrame | None = None,
    ) -> Profiles:
        """Profiles of scores from the means of the order statistics of their errors; `folds` and
        `runs` as for `from_counts`.

        `errors` maps (dataset, method) to the mean over instances of the largest error, the second
        largest, …, of each fold, shape (R, K), or of all instances, (K,): `order_statistic_sums`
        divided by their number. Others are a ValueError.

        >>> Profiles.from_errors({("d", "A"): [0.625, 0.375, 0.0]}).losses("d").round(4).loc["A"].tolist()
        [0.3333, 0.5417, 0.625]
        """  # noqa: E501
        checked = {}
        for pair, value in errors.items():
            rows = np.atleast_2d(np.asarray(value, dtype=float))
            in_range = (
                rows.size and rows.ndim == 2 and rows.min() >= -_SLACK and rows.max() <= 1 + _SLACK
            )
            if not in_range or (np.diff(rows, axis=1) > _SLACK).any():
                raise ValueError(
                    "`errors` must hold non-increasing sequences in [0, 1], the mean of the "
                    f"largest error of each instance first, got {value!r} for {_named(pair)}. "
                    "Divide `order_statistic_sums` by the number of instances."
                )
            checked[pair] = rows
        n_labels = {pair: rows.shape[1] for pair, rows in checked.items()}
        return gather(checked, n_labels, _rows_of(errors, folds), "soft", runs=runs)

    @property
    def datasets(self) -> list[str]:
        """Datasets in order of first appearance."""
        return list(dict.fromkeys(dataset for dataset, _ in self.errors))

    @property
    def methods(self) -> list[str]:
        """Methods in order of first appearance."""
        return list(dict.fromkeys(method for _, method in self.errors))

    def on(self, dataset: str) -> list[str]:
        """The methods with a profile on the dataset, in the order of `methods`."""
        methods = [method for method in self.methods if (dataset, method) in self.errors]
        if not methods:
            raise ValueError(
                f"`dataset` must be one of {some(map(repr, self.datasets))}, got {dataset!r}."
            )
        return methods

    def select(self, pairs: Iterable[Pair]) -> Profiles:
        """The same with these (dataset, method) only, as far as they have a profile."""
        wanted = set(pairs)
        return replace(
            self, errors={pair: rows for pair, rows in self.errors.items() if pair in wanted}
        )

    def parameters(
        self,
        dataset: str,
        family: str = "binomial",
        parameters: ArrayLike | None = None,
    ) -> AnyArray:
        """The checked parameters, or those that are used by default: k = 1..K (at most 100 of
        them), or `ALPHAS`.
        """
        n_labels = self.n_labels[dataset]
        if parameters is None:
            ks = np.unique(
                np.linspace(1, n_labels, min(n_labels, MOST_PARAMETERS)).round().astype(int)
            )
            return ks if one_of(family, "family", FAMILIES) == "binomial" else ALPHAS
        return rising_parameters(family, n_labels, parameters)

    def positions(
        self,
        dataset: str,
        family: str = "binomial",
        parameters: ArrayLike | None = None,
    ) -> Array:
        """Place of each parameter between Hamming (0) and subset 0/1 (1): (k-1)/(K-1), or
        log(alpha) over that of the largest.
        """
        at = self.parameters(dataset, family, parameters)
        return positions(family, self.n_labels[dataset], at)

    def losses(
        self,
        dataset: str,
        family: str = "binomial",
        parameters: ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Losses methods x parameters, in [0, 1], non-decreasing along the parameter; the mean over
        folds; 0 is best.

        Parameters
        ----------
        dataset : str
        family : {"binomial", "polynomial"}
        parameters : array, shape (P,), optional
            Increasing k in 1..K or alpha of at least 1; by default those of `parameters`.
        """
        arrays = self.by_row(dataset, family, parameters)
        columns = pd.Index(self.parameters(dataset, family, parameters), name=PARAMETER[family])
        means = np.array([rows.mean(axis=0) for rows in arrays.values()])
        return pd.DataFrame(means, pd.Index(list(arrays), name="method"), columns)

    def by_fold(
        self,
        dataset: str,
        family: str = "binomial",
        parameters: ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Losses with index (method, fold) and one column a parameter; without rows of methods that
        have no folds.
        """
        arrays = self.by_row(dataset, family, parameters)
        keys = [(method, fold) for method in arrays for fold in self.folds[dataset, method]]
        rows = [arrays[method] for method in arrays if self.folds[dataset, method]]
        columns = pd.Index(self.parameters(dataset, family, parameters), name=PARAMETER[family])
        index = pd.MultiIndex.from_arrays(
            [[m for m, _ in keys], [fold for _, fold in keys]], names=["method", "fold"]
        )
        return pd.DataFrame(np.concatenate([np.empty((0, len(columns))), *rows]), index, columns)

    def by_row(
        self,
        dataset: str,
        family: str = "binomial",
        parameters: ArrayLike | None = None,
    ) -> dict[str, Array]:
        """Losses by method, arrays of shape (R, P), R = 1 where there are no folds."""
        methods = self.on(dataset)
        at = self.parameters(dataset, family, parameters)
        widest = max(1, *(self.errors[dataset, m].shape[1] for m in methods))
        weights = _weights(family, self.n_labels[dataset], at, widest)
        by_method = {}
        for method in methods:
            rows = self.errors[dataset, method]
            losses = rows @ weights[:, : rows.shape[1]].T
            largest = rows[:, :1] if rows.shape[1] else np.zeros((len(rows), 1))
            # The exact profile is non-decreasing and ends at the largest error; rounding must not
            # say otherwise.
            by_method[method] = np.minimum(np.maximum.accumulate(losses, axis=1), largest)
        return by_method

    def awareness(self, family: str = "binomial") -> pd.DataFrame:
        """By (dataset, method): hamming, subset, area, slope, relative_gain, see
        `mlflow_mleval.measures.owa.awareness`.

        Of the mean over folds; relative_gain is NaN where it is not defined.
        """
        tables = []
        for dataset in self.datasets:
            methods = self.on(dataset)
            rows = [self.errors[dataset, m].mean(axis=0) for m in methods]
            means = np.zeros((len(rows), max(1, *map(len, rows))))
            for i, row in enumerate(rows):
                means[i, : len(row)] = row
            index = pd.MultiIndex.from_product([[dataset], methods], names=["dataset", "method"])
            tables.append(pd.DataFrame(awareness(means, self.n_labels[dataset], family), index))
        if not tables:
            raise ValueError("there is no profile to summarise.")
        return pd.concat(tables)


def gather(
    errors: Mapping[Pair, Array],
    n_labels: Mapping[Pair, int],
    folds: Mapping[Pair, tuple[Hashable, ...]],
    kind: Literal["hard", "soft"],
    *,
    absent: Mapping[str, str] | None = None,
    runs: pd.DataFrame | None = None,
    notes: Iterable[str] = (),
    source: Mapping[str, Any] | None = None,
) -> Profiles:
    """Profiles from what is known of each pair; those with another number of labels than most on
    the dataset go to `absent`.
    """
    absent = dict(absent or {})
    by_dataset: dict[str, Counter[int]] = {}
    for (dataset, _), count in n_labels.items():
        by_dataset.setdefault(dataset, Counter())[count] += 1
    common = {dataset: counts.most_common(1)[0][0] for dataset, counts in by_dataset.items()}
    read = {}
    for pair, rows in errors.items():
        if n_labels[pair] == common[pair[0]]:
            read[pair] = rows
        else:
            absent[_named(pair)] = (
                f"it has {n_labels[pair]} labels and most methods on the dataset have "
                f"{common[pair[0]]}"
            )
    return Profiles(
        read,
        {dataset: common[dataset] for dataset, _ in read},
        folds,
        kind,
        absent,
        pd.DataFrame() if runs is None else runs,
        tuple(notes),
        dict(source or {}),
    )


def _named(pair: Pair) -> str:
    return f"{pair[1]} on {pair[0]}"


def _rows_of(
    values: Mapping[Pair, ArrayLike],
    folds: Mapping[Pair, Sequence[Hashable]] | None,
) -> dict[Pair, tuple[Hashable, ...]]:
    """The folds of the rows of each pair."""
    rows = {}
    for pair, value in values.items():
        given = None if folds is None else folds.get(pair)
        n_rows = np.shape(value)[0] if np.ndim(value) == 2 else 0
        if given is not None and (len(given) != n_rows or len(set(given)) != n_rows):
            raise ValueError(
                f"`folds` must name the {n_rows} rows of {_named(pair)}, each once, got "
                f"{list(given)!r}."
            )
        rows[pair] = tuple(range(n_rows)) if given is None else tuple(given)
    return rows
