"""A comparison as plain data: the JSON report, unrounded, with keys that stay.

`KEYS` says what stands under each. Numbers that do not exist (NaN, infinite) are null: a limit of null is no limit. Names
stand as they are; `to_json` writes characters that could steer a terminal as escapes. Keys may be added, never renamed;
``schema_version`` counts changes of meaning.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import FLOWS, Comparison
from mlflow_mleval.analysis.promethee import PrometheeResult
from mlflow_mleval.report.certainty_text import certainty_dict
from mlflow_mleval.report.folds_text import folds_dict
from mlflow_mleval.report.profiles_text import profiles_dict
from mlflow_mleval.report.words import verdict

SCHEMA_VERSION = 1

KEYS: Mapping[str, str] = {
    "schema_version": "version of this layout",
    "verdict": "list of {text, rests_on}: the answer in sentences, and the keys below on which each rests (dotted)",
    "doubts": "list of text: what a reader must know before believing the verdict",
    "absent": "{part: reason}: what could not be computed",
    "ranking": "list, best first, of {position, method, rank, phi_plus, phi_minus, phi, mean_rank, best_rank, worst_rank, "
    "letters}: rank and flows of the fused ranking, means over datasets; mean_rank and its extremes of what the tests compare",
    "datasets": "{dataset: list, best first, of {method, rank, phi_plus, phi_minus, phi}}",
    "promethee": "{dataset: {unicriterion: {method: {measure: net flow}}, thresholds: {measure: {preference, q, p, s}}, "
    "incomparable: list of pairs that PROMETHEE I leaves open, gaia: {methods, measures, axis, explained}}}",
    "weights": "{dataset: {measure: weight}}, each summing to 1",
    "friedman": "{statistic, pvalue, df, iman_davenport_statistic, iman_davenport_pvalue, iman_davenport_df, "
    "exact_pvalue, mean_ranks, n_datasets, n_methods, ties, warnings}",
    "nemenyi": "{test, critical_difference, alpha, control, significant_pairs: list of [better, worse], warnings}; with a "
    "control the test is bonferroni-dunn",
    "pairwise": "{test, correction, alternative, alpha, n_comparisons, control, significant_pairs, pairs, warnings}; pairs are "
    "the rows of pairs.csv: separated ones first, method_a better by mean rank, differences a minus b",
    "skillings_mack": "{statistic, pvalue, df, ...}: Friedman's test with the gaps left empty, where one measure has any",
    "feasibility": "{can_reject, datasets_needed, max_methods, smallest_pvalue, smallest_corrected, message, ...}: what "
    "pairwise signed-rank tests could show at all",
    "decides": "wilcoxon, nemenyi or none: the test that gives the verdict about pairs",
    "decision": "why that one",
    "separated": "list of [better, worse]: the pairs which that test separates",
    "cliques": "list of lists: the maximal groups of methods that it does not separate",
    "measures": "list of {measure, direction, family, source, leader, mean_rank, friedman_pvalue, iman_davenport_pvalue}",
    "concordance": "{ranking: {ranking: tau}}: Kendall's tau-b between the rankings by single measures and the fused one",
    "redundancy": "{threshold, correlation, kept, dropped, groups, ranking, warnings}: correlated measures, and the ranking "
    "without them",
    "stability": "{intervals, dethrone, acceptability, leave_one_out, sensitivity}: how sure the fused ranking is; null unless "
    "asked for",
    "folds": "{dataset: {sentences, measures, protocol, test, means, pairs, posthoc, directions, manova, naive_manova, mardia, "
    "learned, cliques, orderings, excluded, refusals, warnings, ...}}: tests over the folds of each dataset, several measures "
    "together; pairs and posthoc are the rows of fold_pairs.csv and fold_posthoc.csv",
    "profiles": "{sentences, curves, ratios, crossings, claims, awareness, across, awareness_tests, n_labels, absent, warnings, "
    "options}: the loss profiles of the methods and their comparison, tables as the rows of the profile_*.csv; null where no two "
    "methods carry profiles",
    "beyond": "{rope, bayes, equivalence, plan, ranks, bootstrap, by_fold: {dataset: {measure: {bayes, equivalence, plan}}}, "
    "sentences, absent, warnings, ...}: what lies beyond p-values; null unless a rope was given",
    "excluded": "list of {kind, name, reason}: what was left out",
    "study": "{methods, datasets, measures, missing, filled, runs, values}: what was compared, filled gaps included",
    "options": "every choice that was made",
    "provenance": "what reproduces it: command, versions, store, selection, run ids, policy, seed, time",
}


def as_dict(comparison: Comparison, provenance: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Everything that a comparison found, of dicts, lists, text, numbers and None only.

    Parameters
    ----------
    comparison : Comparison
    provenance : mapping, optional
        What reproduces it.

    Returns
    -------
    dict
        With the keys of `KEYS`, all of them; parts that were not computed are None.

    Examples
    --------
    >>> from mlflow_mleval.analysis.comparison import compare
    >>> from mlflow_mleval.study import Study
    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> found = as_dict(compare(Study.from_frame(frame)))
    >>> {key: found["ranking"][0][key] for key in ("method", "rank", "phi")}, found["stability"]
    ({'method': 'b', 'rank': 1.0, 'phi': 1.0}, None)
    """
    c = comparison
    return plain(
        {
            "schema_version": SCHEMA_VERSION,
            "verdict": verdict(c),
            "doubts": c.doubts,
            "absent": c.absent,
            "ranking": c.ranking,
            "datasets": {name: _flows(result.flows) for name, result in c.fusion.results.items()},
            "promethee": {name: _promethee(result) for name, result in c.fusion.results.items()},
            "weights": c.fusion.weights.to_dict(orient="index"),
            "friedman": c.friedman,
            "nemenyi": _nemenyi(c),
            "pairwise": _pairwise(c),
            "skillings_mack": c.skillings_mack,
            "feasibility": c.feasibility,
            "decides": c.decides,
            "decision": c.decision,
            "separated": c.separated,
            "cliques": c.cliques,
            "measures": c.measures,
            "concordance": c.concordance.to_dict(orient="index"),
            "redundancy": _redundancy(c),
            "stability": _stability(c),
            "folds": {dataset: folds_dict(found) for dataset, found in c.folds.items()},
            "profiles": profiles_dict(c.profiles),
            "beyond": certainty_dict(c),
            "excluded": c.study.excluded,
            "study": _study(c),
            "options": c.options,
            "provenance": provenance or {},
        }
    )


def to_json(record: Mapping[str, Any]) -> str:
    """The record as JSON text: letters of all scripts readable, characters that steer terminals or break encoders escaped.

    >>> print(to_json({"name": "Köln\\x9b2J\\u202e"}))
    {
      "name": "Köln\\u009b2J\\u202e"
    }
    """
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    unsafe = "[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufff0-\uffff]"
    return re.sub(unsafe, lambda m: f"\\u{ord(m[0]):04x}", text)


def plain(value: Any) -> Any:
    """The value with every table, series, result object and numpy number turned into plain data; NaN and infinity into None.

    >>> plain({"x": np.float64("nan"), 1: (np.int64(2), pd.Series({"a": 0.5}))})
    {'x': None, '1': [2, {'a': 0.5}]}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, np.generic):
        value = value.item()
        return value if isinstance(value, str | bool | int) else plain(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict(orient="records")]
    if isinstance(value, pd.Series):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return [plain(item) for item in value]
    return None if value is pd.NaT or value is pd.NA else str(value)


def _promethee(result: PrometheeResult) -> dict[str, Any]:
    """Flows by measure, thresholds, the incomparable pairs of PROMETHEE I, and the GAIA plane of one dataset."""
    order, gaia = result.partial_order(), result.gaia()
    a, b = np.nonzero(np.triu(order.to_numpy() == "R"))
    return {
        "unicriterion": result.unicriterion.to_dict(orient="index"),
        "thresholds": result.thresholds.to_dict(orient="index"),
        "incomparable": list(zip(order.index[a], order.index[b], strict=True)),
        "gaia": {
            "methods": gaia.methods.to_dict(orient="index"),
            "measures": gaia.measures.to_dict(orient="index"),
            "axis": gaia.axis,
            "explained": gaia.explained,
        },
    }


def _flows(flows: pd.DataFrame) -> pd.DataFrame:
    table = flows[["rank", *FLOWS]].sort_values("rank", kind="stable")
    table.insert(0, "method", table.index)
    return table


def _nemenyi(c: Comparison) -> dict[str, Any] | None:
    test = c.nemenyi
    if test is None:
        return None
    return {
        "test": "nemenyi" if test.control is None else "bonferroni-dunn",
        "critical_difference": test.critical_difference,
        "alpha": test.alpha,
        "control": test.control,
        "significant_pairs": test.significant_pairs,
        "warnings": test.warnings,
    }


def _pairwise(c: Comparison) -> dict[str, Any] | None:
    test = c.pairwise
    if test is None:
        return None
    names = ("correction", "alternative", "alpha", "n_comparisons", "control", "significant_pairs")
    return {
        "test": "wilcoxon",
        **{name: getattr(test, name) for name in names},
        "pairs": c.pairs,
        "warnings": test.warnings,
    }


def _redundancy(c: Comparison) -> dict[str, Any] | None:
    found = c.redundancy
    if found is None:
        return None
    return {
        "threshold": found.threshold,
        "correlation": found.correlation.to_dict(orient="index"),
        "kept": found.kept,
        "dropped": found.dropped,
        "groups": found.groups,
        "ranking": _named(found.ranking, "method"),
        "warnings": found.warnings,
    }


def _stability(c: Comparison) -> dict[str, Any] | None:
    found = c.stability
    if found is None:
        return None
    left = found.leave_one_out
    return {
        "intervals": {"leaders": found.intervals.leaders, "measures": _named(found.intervals.table, "measure")},
        "dethrone": found.dethrone,
        "acceptability": {
            "n_draws": found.acceptability.n_draws,
            "seed": found.acceptability.seed,
            "shares": {m: row.tolist() for m, row in found.acceptability.acceptability.iterrows()},
            "central_weights": found.acceptability.central_weights.to_dict(orient="index"),
        },
        "leave_one_out": left and {
            "winners": left.winners,
            "winner_changes": left.winner_changes,
            "reversals": left.reversals,
            "ranks": left.ranks.to_dict(orient="index"),
        },
        "sensitivity": {"scenarios": found.sensitivity.table, "impossible": found.sensitivity.impossible},
    }


def _study(c: Comparison) -> dict[str, Any]:
    study = c.study
    return {
        "methods": study.methods,
        "datasets": study.datasets,
        "measures": study.measures,
        "missing": study.missing,
        "filled": [{"dataset": dataset, "method": method} for dataset, method in study.filled],
        "runs": study.runs,
        "values": study.values.rename_axis(["dataset", "method"]).reset_index(),
    }


def _named(table: pd.DataFrame, name: str) -> pd.DataFrame:
    return table.rename_axis(name).reset_index()
