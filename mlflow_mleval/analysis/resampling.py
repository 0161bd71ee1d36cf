"""How sure PROMETHEE ranks are when folds are drawn again.

Efron & Tibshirani (1993), "An introduction to the bootstrap"; Nadeau & Bengio (2003) for folds that
share training data.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.folds.covariance import checked_ratio, drawn_folds
from mlflow_mleval.analysis.folds.protocol import recorded_protocol, runs_of, unpaired
from mlflow_mleval.analysis.fusion import Fusion
from mlflow_mleval.analysis.promethee import flows_by_measure, place_shares, tied_places, tied_ranks
from mlflow_mleval.validation import Array, Bools, at_least_one, probability
from mlflow_mleval.words import count, some


@dataclass(frozen=True)
class RankBootstrap:
    """PROMETHEE ranks when folds are drawn again.

    Attributes
    ----------
    table : By method, best first: rank and phi of the fusion; low and high (interval of the rank at 1 - alpha), p_best
        (share of draws in which it is first; ties share).
    acceptability : Methods x ranks: share of draws. Methods that tie share the places they cover.
    draws : Draws x methods: mean net flow over datasets.
    ratios : By dataset: n_test / n_train that widened the spread.
    """  # noqa: E501

    table: pd.DataFrame
    acceptability: pd.DataFrame
    draws: pd.DataFrame
    ratios: dict[str, float]
    alpha: float
    n_resamples: int
    seed: int
    warnings: tuple[str, ...] = ()

    def verdict(self) -> str:
        """What the draws say, in a sentence."""
        first = self.table.iloc[0]
        low = int(np.floor(first.low))
        high = int(np.ceil(first.high))
        stays = f"rank {low}" if low == high else f"ranks {low} to {high}"
        return (
            f"{self.table.index[0]} is first in {first.p_best:.0%} of "
            f"{count(self.n_resamples, 'draw')} of the folds and has {stays} in "
            f"{1 - self.alpha:.0%} of them; this is about other splits of the same "
            f"{count(n, 'dataset') if (n := len(self.ratios)) > 1 else 'dataset'}, not about "
            "other datasets."
        )


def bootstrap_ranks(
    fusion: Fusion,
    *,
    ratio: float | None = None,
    alpha: float = 0.05,
    n_resamples: int = 500,
    seed: int = 0,
) -> RankBootstrap:
    r"""The PROMETHEE ranking when the folds of each dataset are drawn again, with replacement, the
    same for all methods.

    Everything is computed again in each draw: thresholds, weights, flows, ranks. With means
    :math:`\bar x` over R folds and :math:`\bar x^*` over drawn ones, values become :math:`x +
    \sqrt{(1 + R \cdot ratio) R/(R-1)}\,(\bar x^* - \bar x)`: they vary as the corrected variance of
    Nadeau & Bengio (2003) says, about the values that the fusion ranks.

    Parameters
    ----------
    fusion : Fusion
        What `fuse` returned, of a study with folds. Cells without all folds of their dataset (such
        as those that a policy filled) keep their values.
    ratio : float, optional
        n_test / n_train of a fold; 0: folds are independent. By default what the runs of the study
        say, else that of one cross-validation, 1 / (R - 1). It counts twice where folds are
        repeated or resampled.
    alpha : float
        Intervals of ranks are at 1 - alpha.
    n_resamples, seed : int
        Draws of the folds, and where they start.

    Raises
    ------
    ValueError
        No dataset has two folds that several methods share.

    Notes
    -----
    Quantiles of draws treat the variation between the folds as known, which Student's t does not:
    in simulations with ten folds an interval at .95 missed the rank in 7% of cases where no method
    differed, and in 2% where methods did.

    Examples
    --------
    >>> from mlflow_mleval.analysis.fusion import fuse
    >>> from mlflow_mleval.study import Study
    >>> index = pd.MultiIndex.from_product([["d"], ["a", "b"], range(5)], names=["dataset", "method", "fold"])
    >>> folds = pd.DataFrame({"f1": [.6, .7, .6, .7, .6, .5, .6, .5, .6, .5]}, index)
    >>> study = Study(folds.groupby(level=[0, 1]).mean(), {"f1": "max"}, folds=folds)
    >>> bootstrap_ranks(fuse(study), n_resamples=100).table["p_best"].to_dict()
    {'a': 1.0, 'b': 0.0}
    """  # noqa: E501
    probability(alpha, "alpha")
    at_least_one(n_resamples, "n_resamples")
    ratio = checked_ratio(ratio)
    study = fusion.study
    methods = list(fusion.ranking.index)
    rng = np.random.default_rng(seed)
    total = np.zeros((n_resamples, len(methods)))
    ratios: dict[str, float] = {}
    fixed = []
    assumed = []
    differing = []
    for dataset in study.datasets:
        by_fold, kept = _runs(fusion, dataset, methods)
        fixed += [f"{methods[i]} on {dataset}" for i in np.flatnonzero(~kept)]
        if not kept.any():
            total += fusion.phi.loc[dataset, methods].to_numpy()
            continue
        n_folds = by_fold.shape[1]
        having = [name for name, has in zip(methods, kept, strict=True) if has]
        runs = runs_of(study.runs, dataset, having)
        how = recorded_protocol(runs, n_folds, ratio=ratio)[0]
        ratios[dataset] = how.headline_ratio or 0.0
        assumed += [] if how.known or ratio is not None else [dataset]
        differing += [] if unpaired(runs, having)[0] is None else [dataset]
        drawn = drawn_folds(rng, n_folds, n_resamples, how.headline_ratio)
        moved = np.einsum("dr,irj->dij", drawn, by_fold - by_fold.mean(axis=1, keepdims=True))
        moved[:, ~kept] = 0.0
        total += _flows_of_moved(fusion, dataset, methods, moved)
    if not ratios:
        raise ValueError(
            "`fusion` must have a dataset with two folds that two methods share, got none. Log "
            "values by fold."
        )
    phi = total / len(study.datasets)
    share = place_shares(*tied_places(-phi)) / n_resamples
    rank = tied_ranks(-phi)
    low, high = np.quantile(rank, [alpha / 2, 1 - alpha / 2], axis=0, method="nearest")
    table = fusion.ranking[["rank", "phi"]].assign(low=low, high=high, p_best=share[:, 0])
    shares = pd.DataFrame(share, methods, pd.RangeIndex(1, len(methods) + 1, name="rank"))
    doubts = _doubts(fixed, assumed, differing, len(study.datasets) - len(ratios))
    return RankBootstrap(
        table,
        shares,
        pd.DataFrame(phi, columns=methods),
        ratios,
        alpha,
        n_resamples,
        seed,
        doubts,
    )


def flows_by_run(fusion: Fusion, a: Hashable, b: Hashable) -> dict[str, Array]:
    """By dataset: the difference a minus b in net flow, one value for each fold or repeat that all
    methods have there.

    These are the pseudo-values of the jackknife (Efron & Tibshirani 1993): everything is computed
    again without one of them. Their mean is the difference that the fusion has, and their variance,
    over their number, that of this mean.
    """
    study = fusion.study
    methods = list(fusion.ranking.index)
    i = methods.index(a)
    j = methods.index(b)
    differences = {}
    for dataset in study.datasets:
        by_run, kept = _runs(fusion, dataset, methods, repeated=study.folds is None)
        n = by_run.shape[1]
        whole = float(fusion.phi.loc[dataset, a] - fusion.phi.loc[dataset, b])
        differences[dataset] = np.array([whole])
        if kept[[i, j]].all():
            moved = (by_run.mean(axis=1, keepdims=True) - by_run).swapaxes(0, 1) / (
                n - 1
            )  # the mean without one, less the mean
            moved[:, ~kept] = 0.0
            phi = _flows_of_moved(fusion, dataset, methods, moved)
            without = phi[:, i] - phi[:, j]
            differences[dataset] = whole - (n - 1) * (without - without.mean())
    return differences


def _flows_of_moved(
    fusion: Fusion, dataset: str, methods: Sequence[Hashable], moved: Array
) -> Array:
    """Net flows, draws x methods, where the values on a dataset are moved: draws x methods x
    measures.
    """
    choices = dict(fusion.options)
    weights = choices.pop("weights"), choices.pop("drop_constant")
    values = fusion.study.values.loc[dataset].reindex(methods)
    flows = flows_by_measure(
        values.to_numpy() + moved, values.index, values.columns, fusion.study.minimize, **choices
    )
    return flows.weigh(*weights).phi


def _runs(
    fusion: Fusion,
    dataset: str,
    methods: Sequence[Hashable],
    repeated: bool = False,
) -> tuple[Array, Bools]:
    """Values of the measures on one dataset, methods x folds x measures, and which methods have
    them all, if two or more do.

    Or repeats, as many as the method with fewest has.
    """
    study = fusion.study
    values = study.repeats if repeated else study.folds
    none = np.zeros((len(methods), 0, len(study.measures))), np.zeros(len(methods), dtype=bool)
    if values is None or dataset not in values.index.get_level_values(0):
        return none
    table = values.loc[dataset].reindex(columns=study.measures)
    if repeated:
        methods_of = table.index.get_level_values(0)
        number = table.groupby(level=0, sort=False).cumcount().to_numpy()
        table = table.set_axis(pd.MultiIndex.from_arrays([methods_of, number]))[
            number < methods_of.value_counts().min()
        ]
    keys = table.index.get_level_values(1).unique()
    full = (
        table.reindex(pd.MultiIndex.from_product([methods, keys]))
        .to_numpy()
        .reshape(len(methods), len(keys), -1)
    )
    whole = np.isfinite(full).all(axis=(1, 2))
    if len(keys) < 2 or whole.sum() < 2:
        return none
    return np.where(whole[:, None, None], full, 0.0), whole


def _doubts(
    fixed: Sequence[str],
    assumed: Sequence[str],
    differing: Sequence[str],
    without: int,
) -> tuple[str, ...]:
    doubts = []
    if fixed:
        doubts.append(f"Cells without all folds of their dataset keep their values: {some(fixed)}.")
    if without:
        doubts.append(
            f"{count(without, 'dataset')} without folds to draw from: ranks there stay, the "
            "ranking varies too little."
        )
    if assumed:
        doubts.append(
            f"The folds are taken as one cross-validation on {some(assumed)}: repeated ones need "
            "a ratio."
        )
    if differing:
        doubts.append(
            "Methods were run on different splits, yet folds are drawn as if they were the same, "
            f"on {some(differing)}."
        )
    return tuple(doubts)
