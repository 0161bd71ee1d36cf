"""A Study fused: PROMETHEE on every dataset, and the ranking of the methods over all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

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
)
from mlflow_mleval.analysis.unicriterion import Array, tied_ranks
from mlflow_mleval.naming import SHOWN
from mlflow_mleval.study import Study


@dataclass(frozen=True)
class Fusion:
    """One ranking of methods, from all measures and datasets of a study.

    Attributes
    ----------
    ranking : By method, best first: mean_rank (of `ranks` over datasets; 1 is best), rank (of mean_rank, ties averaged),
        phi_plus, phi_minus, phi (means over datasets).
    ranks, phi : Datasets x methods: PROMETHEE II rank and net flow.
    weights : Datasets x measures.
    study : The study with its policy for missing values applied.
    options : preference, weights, p, q, s, drop_constant as chosen. Thresholds that are None were set per dataset.
    warnings : Those of the results, each with the datasets it concerns.
    flows : The flows of all datasets in arrays, datasets and methods in the order of the study.
    """  # noqa: E501

    ranking: pd.DataFrame
    ranks: pd.DataFrame
    phi: pd.DataFrame
    weights: pd.DataFrame
    study: Study
    options: dict[str, Any]
    warnings: tuple[str, ...]
    flows: WeighedFlows = field(repr=False)

    @property
    def results(self) -> Mapping[str, PrometheeResult]:
        """What PROMETHEE says by dataset, each made when it is asked for."""
        return _Results(self.flows, {name: i for i, name in enumerate(self.ranks.index)})

    @property
    def by_weight(self) -> list[str]:
        """The measures by their mean weight, the heaviest first."""
        return self.weights.mean().sort_values(ascending=False, kind="stable").index.tolist()

    def refit(self, study: Study) -> Fusion:
        """The same choices applied to another study, such as this one with fewer measures or
        methods.

        What was given per measure is restricted to the measures of that study.
        """
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

    PROMETHEE II ranks the methods on each dataset by itself, with thresholds and weights from that
    dataset where none are given; the final ranking is by the mean of these ranks. The study's
    policy for missing values is applied: MissingResultsError where it has none for its empty cells.
    The options, and what they may not be, are those of `promethee`.

    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> fuse(Study.from_frame(frame)).ranking.mean_rank.to_dict()
    {'b': 1.0, 'a': 2.0}
    """  # noqa: E501
    study = study.complete()
    methods, datasets = study.methods, study.datasets
    if isinstance(weights, pd.Series):
        weights = dict(weights)
    elif not isinstance(weights, str | Mapping) and len(weights) == len(study.measures):
        weights = dict(zip(study.measures, weights, strict=True))
    options = {
        "preference": preference,
        "weights": weights,
        "p": p,
        "q": q,
        "s": s,
        "drop_constant": drop_constant,
    }
    flows = study_flows(study, preference, p, q, s).weigh(weights, drop_constant)

    def table(values: Array) -> pd.DataFrame:
        return pd.DataFrame(
            values, pd.Index(datasets, name="dataset"), pd.Index(methods, name="method")
        )

    ranks, phi = table(flows.ranks), table(flows.phi)
    ranking = mean_ranking(ranks)
    means = {
        "phi_plus": table(flows.plus).mean(),
        "phi_minus": table(flows.minus).mean(),
        "phi": phi.mean(),
    }
    ranking = ranking.assign(**means).sort_values("rank", kind="stable")
    concerned: dict[str, list[str]] = {}
    for i, dataset in enumerate(datasets):
        for text in flows.warnings(i):
            concerned.setdefault(text, []).append(dataset)
    by_dataset = pd.DataFrame(flows.weights, ranks.index, study.values.columns)
    warnings = tuple(
        f"On {_where(names, len(datasets))}: {text}" for text, names in concerned.items()
    )
    return Fusion(ranking, ranks, phi, by_dataset, study, options, warnings, flows)


def study_flows(
    study: Study,
    preference: Preference = "v_shape",
    p: Threshold = None,
    q: Threshold = None,
    s: Threshold = None,
) -> FlowsByMeasure:
    """Flows by each measure of a completed study, before any weights."""
    values, methods, datasets = study.values, pd.Index(study.methods), study.datasets
    matrices = (
        values.reindex(pd.MultiIndex.from_product([datasets, methods]))
        .to_numpy()
        .reshape(len(datasets), len(methods), -1)
    )
    for dataset, matrix in zip(datasets, matrices, strict=True):
        if dataset == datasets[0] or not can_be_fused(matrix):
            checked(pd.DataFrame(matrix, methods, values.columns))
    return flows_by_measure(matrices, methods, values.columns, study.minimize, preference, p, q, s)


def mean_ranking(ranks: pd.DataFrame) -> pd.DataFrame:
    """mean_rank and rank by method, of ranks datasets x methods."""
    mean_rank = ranks.mean()
    return pd.DataFrame({"mean_rank": mean_rank, "rank": tied_ranks(mean_rank.to_numpy())})


class _Results(Mapping[str, PrometheeResult]):
    """Results by dataset that are made when they are asked for."""

    def __init__(self, flows: WeighedFlows, places: Mapping[str, int]) -> None:
        self.flows, self.places = flows, places

    def __getitem__(self, dataset: str) -> PrometheeResult:
        return self.flows.result(self.places[dataset])

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def _where(names: list[str], total: int) -> str:
    if 1 < total == len(names):
        return "every dataset"
    return ", ".join(map(str, names[:SHOWN])) + (
        f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    )
