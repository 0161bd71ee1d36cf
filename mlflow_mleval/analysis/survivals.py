"""What the lead in the fused ranking survives: other choices, and the absence of other methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlflow_mleval.analysis.stability import LeaveOneOut, Sensitivity

#: Mean ranks this close are equal.
EQUAL = 1e-9


@dataclass(frozen=True)
class Survivals:
    """What the lead survives: that the same method alone has the best mean rank when everything is computed again.

    Attributes
    ----------
    functions : Other combinations of preference function and weights that were tried; with a single measure, of function only.
    lost_functions : (function, weights) under which the lead is lost or shared.
    policies : Other policies for missing results that were tried.
    lost_policies : Those under which the lead is lost or shared, and whether the policy leaves the leader out.
    methods : Other methods that were left out, one at a time; None where that takes more methods.
    lost_methods : Those without which another method leads, and which.
    rivals : Who leads, alone or beside the leader, where the lead is lost.
    """

    functions: int
    lost_functions: list[tuple[str, str]]
    policies: int
    lost_policies: Mapping[str, bool]
    methods: int | None
    lost_methods: Mapping[str, str]
    rivals: list[str]


def survivals(sensitivity: Sensitivity, without: LeaveOneOut | None, leader: str, n_measures: int) -> Survivals:
    """What the lead of `leader` survives; with a single measure weights change nothing and are not counted."""
    table = sensitivity.table
    table = table[~table["chosen"].astype(bool)]
    if n_measures == 1:
        table = table[(table["varies"] == "policy") | (table["weights"] == table["weights"].iloc[0])]
    total = {"function": 0, "policy": 0}
    functions, policies, rivals = [], {}, []
    for (varies, function, weights, missing), part in table.groupby(["varies", "preference", "weights", "missing"], sort=False):
        rank = part.set_index("method")["mean_rank"].dropna()
        first = rank.index[rank <= rank.min() + EQUAL].tolist()
        total[varies] += 1
        if first == [leader]:
            continue
        if varies == "policy":
            policies[missing] = leader not in rank
        else:
            functions.append((function, weights))
        rivals += [m for m in first if m != leader]
    changes = {} if without is None else without.winner_changes
    n_others = None if without is None else len(without.ranks) - 1
    rivals = list(dict.fromkeys([*rivals, *changes.values()]))
    return Survivals(total["function"], functions, total["policy"], policies, n_others, changes, rivals)
