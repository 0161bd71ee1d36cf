"""A Study fused: PROMETHEE on every dataset, and the ranking of the methods over all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import special

from mlflow_mleval.analysis.pairs import components
from mlflow_mleval.analysis.promethee import (
    FlowsByMeasure,
    Preference,
    PrometheeResult,
    Threshold,
    WeighedFlows,
    Weights,
    can_be_fused,
    checked,
    flows_by_measure,
    tied_ranks,
)
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.sentences import some
from mlflow_mleval.study import Study, left_out
from mlflow_mleval.validation import Array

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Fusion:
    """One ranking of methods, from all measures and datasets of a study (`given`, and completed by
    its policy); `ranking` goes by the mean of net flows `phi`."""

    ranking: pd.DataFrame
    ranks: pd.DataFrame
    phi: pd.DataFrame
    weights: pd.DataFrame
    study: Study
    options: dict[str, Any]
    warnings: tuple[str, ...]
    flows: WeighedFlows = field(repr=False)
    given: Study = field(repr=False)

    @property
    def results(self) -> Mapping[str, PrometheeResult]:
        """What PROMETHEE says by dataset, each made when it is asked for."""
        return _Results(self.flows, {name: i for i, name in enumerate(self.ranks.index)})

    @property
    def by_weight(self) -> list[str]:
        """The measures by their mean weight, the heaviest first."""
        return self.weights.mean().sort_values(ascending=False, kind="stable").index.tolist()

    def reweighed(self, weights: Weights) -> Fusion:
        """The same with other weights."""
        options = {**self.options, "weights": weights}
        return _fused(self.study, self.given, self.flows.by_measure, options)

    def refit(self, study: Study) -> Fusion:
        """The same choices applied to another study; what was given by measure is cut down to its
        own."""
        kept = set(study.measures)
        options: dict[str, Any] = {
            key: {name: x for name, x in value.items() if name in kept} or None
            if isinstance(value, Mapping)
            else value
            for key, value in self.options.items()
        }
        return fuse(study, **options)


def fuse(
    study: Study,
    preference: Preference = "v_shape",
    weights: Weights = "entropy",
    p: Threshold = None,
    q: Threshold = None,
    s: Threshold = None,
    drop_constant: bool = False,
) -> Fusion:
    """Fuse the measures of a study into one ranking of its methods (Eftimov & Kocev 2019).

    PROMETHEE II gives the methods net flows and ranks on each dataset by itself, with thresholds
    and weights from that dataset where none are given. The final ranking is by the mean of the net
    flows, which tests over datasets compare, too; the paper's is by `mean_rank`. The study's policy
    for missing values is applied: MissingResultsError where it has none for its empty cells. The
    options, and what they may not be, are those of `promethee`.

    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> fuse(Study.from_frame(frame)).ranking.mean_rank.to_dict()
    {'b': 1.0, 'a': 2.0}
    """  # noqa: E501
    if len(study.methods) < 2:
        methods = ", ".join(study.methods)
        only = f"the study holds one method only ({methods}); a comparison needs two."
        raise IncomparableRunsError(" ".join([only, *left_out(study.excluded)]))
    full = study.complete()
    options = {
        "preference": preference,
        "weights": weights,
        "p": p,
        "q": q,
        "s": s,
        "drop_constant": drop_constant,
    }
    return _fused(full, study, study_flows(full, preference, p, q, s), options)


def _fused(
    study: Study, given: Study, by_measure: FlowsByMeasure, options: Mapping[str, Any]
) -> Fusion:
    """A completed study with its flows by measure, fused by the weights of the options."""
    weights = options["weights"]
    if isinstance(weights, pd.Series):
        weights = dict(weights)
    elif not isinstance(weights, str | Mapping) and len(weights) == len(study.measures):
        weights = dict(zip(study.measures, weights, strict=True))
    options = {**options, "weights": weights}
    flows = by_measure.weigh(weights, options["drop_constant"])
    datasets = study.datasets
    index = pd.Index(datasets, name="dataset"), pd.Index(study.methods, name="method")

    def table(values: Array) -> pd.DataFrame:
        return pd.DataFrame(values, *index)

    ranks = table(flows.ranks)
    phi = table(flows.phi)
    means = {"phi_plus": table(flows.plus).mean(), "phi_minus": table(flows.minus).mean()}
    ranking = mean_ranking(flows)[["mean_rank", "rank"]].assign(**means, phi=phi.mean())
    ranking = ranking.rename_axis("method").sort_values("rank", kind="stable")
    concerned: dict[str, list[str]] = {}
    for i, dataset in enumerate(datasets):
        for text in flows.warnings(i):
            concerned.setdefault(text, []).append(dataset)
    by_dataset = pd.DataFrame(flows.weights, ranks.index, study.values.columns)
    warnings = tuple(
        f"On {'every dataset' if 1 < len(datasets) == len(names) else some(names)}: {text}"
        for text, names in concerned.items()
    )
    return Fusion(ranking, ranks, phi, by_dataset, study, options, warnings, flows, given)


def study_flows(
    study: Study,
    preference: Preference = "v_shape",
    p: Threshold = None,
    q: Threshold = None,
    s: Threshold = None,
) -> FlowsByMeasure:
    """Flows by each measure of a completed study, before any weights."""
    matrices = study_cells(study)
    methods, measures = pd.Index(study.methods), study.values.columns
    for i, matrix in enumerate(matrices):
        if i == 0 or not can_be_fused(matrix):
            checked(pd.DataFrame(matrix, methods, measures))
    return flows_by_measure(matrices, methods, measures, study.minimize, preference, p, q, s)


def study_cells(study: Study) -> Array:
    """Datasets x methods x measures of a completed study."""
    cells = study.values.reindex(pd.MultiIndex.from_product([study.datasets, study.methods]))
    return cells.to_numpy().reshape(len(study.datasets), len(study.methods), -1)


def mean_ranking(flows: WeighedFlows) -> pd.DataFrame:
    """By method, over datasets: phi and mean_rank, and the rank by phi, ties averaged."""
    phi = flows.phi.mean(axis=0)
    mean_rank = flows.ranks.mean(axis=0)
    columns = {"phi": phi, "mean_rank": mean_rank, "rank": tied_ranks(-phi)}
    return pd.DataFrame(columns, flows.by_measure.methods)


def v_shape(table: pd.DataFrame) -> pd.DataFrame:
    """Net flows by one measure, larger is better: V-shape preference up to its range on a
    dataset."""
    spread = (table.max(axis=1) - table.min(axis=1)).replace(0, 1)
    return table.sub(table.mean(axis=1), axis=0).div(spread, axis=0) * (
        table.shape[1] / (table.shape[1] - 1)
    )


class _Results(Mapping[str, PrometheeResult]):
    """Results by dataset that are made when they are asked for."""

    def __init__(self, flows: WeighedFlows, places: Mapping[str, int]) -> None:
        self.flows = flows
        self.places = places

    def __getitem__(self, dataset: str) -> PrometheeResult:
        return self.flows.result(self.places[dataset])

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


# --------------------------------------------------------------------------------------------------
# Measures that say the same: their correlation, a filter, groups, and how the ranking moves without
# them.

#: A column whose values differ by less than this share of the largest is constant: float noise.
NOISE = 1e-12


@dataclass(frozen=True)
class Correlation:
    """Pearson correlation of measures over methods: absolute value of the mean over datasets."""

    matrix: pd.DataFrame
    n_datasets: pd.Series
    constant: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Redundancy:
    """Which measures are redundant, and what the fused ranking does without them."""

    max_correlation: float
    fusion: Fusion
    overlap: Correlation
    kept: list[str]
    dropped: pd.DataFrame

    @property
    def correlation(self) -> pd.DataFrame:
        """Measures x measures: mean absolute correlation."""
        return self.overlap.matrix

    @property
    def n_datasets(self) -> pd.Series:
        """Datasets behind each measure's correlations."""
        return self.overlap.n_datasets

    @property
    def ranking(self) -> pd.DataFrame:
        """By method: mean rank and rank by all and by the kept measures, mean_change."""
        return self._fewer[0]

    @property
    def without(self) -> Fusion:
        """The ranking by the kept measures only."""
        return self._fewer[1]

    @cached_property
    def _fewer(self) -> tuple[pd.DataFrame, Fusion]:
        return ranking_without(self.fusion, self.kept)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Which measures have no correlation somewhere."""
        where: dict[str, list[str]] = {}
        for dataset, measure in self.overlap.constant:
            where.setdefault(measure, []).append(dataset)
        return tuple(
            f"{measure} is the same for all methods on {some(datasets)}: its correlations there "
            "count as 0."
            for measure, datasets in where.items()
        )

    @property
    def groups(self) -> list[list[str]]:
        """The connected components of `graph`, the largest first, in the order of the measures."""
        joined = self.correlation.to_numpy() > self.max_correlation
        part = components(joined & ~np.eye(len(joined), dtype=bool))
        names = self.correlation.columns
        return sorted((names[part == i].tolist() for i in np.unique(part)), key=len, reverse=True)

    @property
    def graph(self) -> nx.Graph:
        """Measures, joined where they correlate by more than `max_correlation` (edge attribute
        ``correlation``).
        """
        import networkx as nx  # takes a tenth of a second, and no ranking needs it

        graph = nx.Graph()
        graph.add_nodes_from(self.correlation)
        for a, b in combinations(self.correlation, 2):
            if (r := self.correlation.loc[a, b]) > self.max_correlation:
                graph.add_edge(a, b, correlation=r)
        return graph


def overlap_of(study: Study) -> Correlation:
    """How the measures of a completed study of at least three methods correlate: over methods on
    each dataset, averaged with their signs. What is constant on a dataset counts as 0 there, as in
    Figure 3 of Eftimov & Kocev (2019).
    """
    values = study_cells(study)
    if values.shape[1] < 3:
        raise ValueError(
            f"`study` must hold at least three methods, got {values.shape[1]}. Add methods."
        )
    measures = study.values.columns
    varies = np.ptp(values, axis=1) > NOISE * np.abs(values).max(axis=1)
    centred = np.where(varies[:, None], values - values.mean(axis=1, keepdims=True), 0.0)
    unit = centred / np.where(varies, np.sqrt((centred**2).sum(axis=1)), 1.0)[:, None]
    mean = np.abs(np.clip(unit.swapaxes(1, 2) @ unit, -1, 1).mean(axis=0))
    np.fill_diagonal(mean, 1.0)
    at = zip(*np.nonzero(~varies), strict=True)
    return Correlation(
        pd.DataFrame(mean, measures, measures),
        pd.Series(varies.sum(axis=0), measures, name="n_datasets"),
        tuple((study.datasets[i], measures[j]) for i, j in at),
    )


def by_chance(max_correlation: float, n_methods: int) -> float:
    """How likely two independent normal measures exceed the correlation over so many methods."""
    df = n_methods - 2
    if df < 1 or max_correlation >= 1:
        return float(df < 1)
    return float(2 * special.stdtr(df, -max_correlation * np.sqrt(df / (1 - max_correlation**2))))


def redundancy_filter(corr: pd.DataFrame, max_correlation: float) -> tuple[list[str], pd.DataFrame]:
    """Drop one measure of each pair correlated above the limit: ``findCorrelation(exact = TRUE)``
    of the R package caret (Kuhn 2008), as Eftimov & Kocev (2019) did. The kept, and the dropped as
    rows.
    """
    if not 0 <= max_correlation <= 1:
        raise ValueError(
            f"`max_correlation` must be a correlation between 0 and 1, got {max_correlation!r}."
        )
    names = corr.columns
    left = corr.abs().to_numpy(dtype=float)
    order = np.argsort(-left.mean(axis=0), kind="stable")
    left = left[np.ix_(order, order)]
    np.fill_diagonal(left, np.nan)
    gone: dict[int, tuple[int, float, float]] = {}
    for i, j in combinations(range(len(order)), 2):
        # what is gone is NaN here, and so is above nothing
        if left[i, j] > max_correlation:
            own = np.nanmean(left[i])
            loser, winner = (i, j) if own > np.nanmean(np.delete(left, j, axis=0)) else (j, i)
            gone[loser] = (winner, left[i, j], np.nanmean(left[loser]))
            left[loser] = left[:, loser] = np.nan
    needed = [names[k] for k in sorted(k for i, k in enumerate(order) if i not in gone)]
    rows = [
        (names[order[i]], names[order[w]], float(r), float(mean))
        for i, (w, r, mean) in gone.items()
    ]
    return needed, pd.DataFrame(
        rows, columns=["measure", "because_of", "correlation", "mean_correlation"]
    )


def ranking_without(fusion: Fusion, kept: Sequence[str]) -> tuple[pd.DataFrame, Fusion]:
    """How the ranking moves when only the measures `kept` stay (Eftimov & Kocev 2019, Tables 4 to
    6), and the Fusion of them.
    """
    without = fusion.refit(fusion.study.select(list(kept)))
    columns = ["mean_rank", "rank"]
    ranking = fusion.ranking[columns].join(without.ranking[columns].add_suffix("_without"))
    ranking["mean_change"] = (fusion.ranks - without.ranks).abs().mean()
    return ranking, without


def redundancy(
    fusion: Fusion, max_correlation: float = 0.9, overlap: Correlation | None = None
) -> Redundancy:
    """Find the redundant measures of a fused study of at least three methods, and how the ranking
    moves without them.

    Measures with an absolute correlation above `max_correlation`, in [0, 1], count as the same.
    `overlap` is how they correlate, where that is known.

    >>> from mlflow_mleval.analysis.fusion import fuse
    >>> from mlflow_mleval.study import Study
    >>> frame = pd.DataFrame({"dataset": "d", "method": list("abc"), "f1": [0.9, 0.6, 0.5], "recall": [0.8, 0.55, 0.5]})
    >>> found = redundancy(fuse(Study.from_frame(frame)))
    >>> found.kept, found.groups, found.ranking.mean_change.tolist()
    (['f1'], [['f1', 'recall']], [0.0, 0.0, 0.0])
    """  # noqa: E501
    overlap = overlap or overlap_of(fusion.study)
    return Redundancy(
        max_correlation, fusion, overlap, *redundancy_filter(overlap.matrix, max_correlation)
    )
