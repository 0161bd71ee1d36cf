"""A Study fused: PROMETHEE on every dataset, and the ranking of the methods over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.promethee import Preference, PrometheeResult, Threshold, Weights, promethee
from mlflow_mleval.analysis.unicriterion import tied_ranks
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
    results : By dataset.
    study : The study with its policy for missing values applied.
    options : preference, weights, p, q, s, drop_constant as chosen. Thresholds that are None were set per dataset.
    warnings : Those of the results, each with the datasets it concerns.
    """

    ranking: pd.DataFrame
    ranks: pd.DataFrame
    phi: pd.DataFrame
    weights: pd.DataFrame
    results: dict[str, PrometheeResult]
    study: Study
    options: dict[str, Any]
    warnings: tuple[str, ...]

    def refit(self, study: Study) -> Fusion:
        """The same choices applied to another study, such as this one with fewer measures or methods.

        What was given per measure is restricted to the measures of that study.
        """
        kept = set(study.measures)
        options = {
            key: {name: x for name, x in value.items() if name in kept} or None if isinstance(value, Mapping) else value
            for key, value in self.options.items()
        }
        return fuse(study, **options)


def fuse(
    study: Study, preference: Preference = "v_shape", weights: Weights = "entropy", p: Threshold = None, q: Threshold = None,
    s: Threshold = None, drop_constant: bool = False,
) -> Fusion:
    """Fuse the measures of a study into one ranking of its methods (Eftimov & Kocev 2019).

    PROMETHEE II ranks the methods on each dataset by itself, with thresholds and weights from that dataset where none are given;
    the final ranking is by the mean of these ranks. The study's policy for missing values is applied: MissingResultsError where
    it has none for its empty cells. The options, and what they may not be, are those of `promethee`.

    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> fuse(Study.from_frame(frame)).ranking.mean_rank.to_dict()
    {'b': 1.0, 'a': 2.0}
    """
    study = study.complete()
    methods, datasets = study.methods, study.datasets
    if isinstance(weights, pd.Series):
        weights = dict(weights)
    elif not isinstance(weights, str | Mapping) and len(weights) == len(study.measures):
        weights = dict(zip(study.measures, weights, strict=True))
    options = {"preference": preference, "weights": weights, "p": p, "q": q, "s": s, "drop_constant": drop_constant}
    results = {
        dataset: promethee(study.values.loc[dataset].reindex(methods), study.minimize, **options) for dataset in datasets
    }

    def table(field: str) -> pd.DataFrame:
        rows = np.stack([result.flows[field].to_numpy() for result in results.values()])
        return pd.DataFrame(rows, pd.Index(datasets, name="dataset"), pd.Index(methods, name="method"))

    ranks, flows = table("rank"), {name: table(name) for name in ("phi_plus", "phi_minus", "phi")}
    mean_rank = ranks.mean()
    ranking = pd.DataFrame({"mean_rank": mean_rank, "rank": tied_ranks(mean_rank.to_numpy())})
    ranking = ranking.assign(**{name: flow.mean() for name, flow in flows.items()}).sort_values("rank", kind="stable")
    concerned: dict[str, list[str]] = {}
    for dataset, result in results.items():
        for text in result.warnings:
            concerned.setdefault(text, []).append(dataset)
    by_dataset = pd.DataFrame({dataset: result.weights for dataset, result in results.items()}).T.rename_axis(index="dataset")
    warnings = tuple(f"On {_where(names, len(datasets))}: {text}" for text, names in concerned.items())
    return Fusion(ranking, ranks, flows["phi"], by_dataset, results, study, options, warnings)


def _where(names: list[str], total: int) -> str:
    if 1 < total == len(names):
        return "every dataset"
    return ", ".join(map(str, names[:SHOWN])) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
