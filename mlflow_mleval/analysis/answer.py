"""What to use: whom the results speak for, by how much in the measures' own units, how sure, and
what could turn it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.answer_comparison import AnswerComparison
from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.paired import mean_intervals

#: How many measures the answer is given in.
MEASURES = 2


@dataclass(frozen=True)
class Decision:
    """The answer to "which one shall I use?".

    Attributes
    ----------
    methods : Who leads: one, unless they tie.
    best : The methods that may be the best: none is separated from them on the better side. Empty without a test over datasets.
    separated : Methods that are separated from the leader, below it; None without a test over datasets.
    by_answers : Where there is but one dataset, and its answers are known: methods whose answers are separated from the leader's,
        which are better.
    measures : Measures in whose units it is told: the one that is compared, else those of most weight.
    means : By measure: methods (in order of the ranking) x mean, low, high over the datasets with a result, at 1 - alpha.
    next : The next in the ranking; None where all tie.
    differences : By measure, the leader's mean minus that of the next, over datasets on which both have a result, and how many.
    turns : What could turn it: {kind, ...}; None where nothing that was tried does.
    """  # noqa: E501

    methods: list[str]
    best: list[str]
    separated: list[str] | None
    by_answers: list[str] | None
    measures: list[str]
    means: Mapping[str, pd.DataFrame]
    next: str | None
    differences: Mapping[str, tuple[float, int]]
    turns: Mapping[str, Any] | None


def decision(c: Comparison) -> Decision:
    """The answer that a comparison gives; of several leaders the first is compared with the
    next.
    """
    weights = c.fusion.weights.mean()
    heaviest = weights.sort_values(ascending=False, kind="stable").index[:MEASURES]
    measures = [c.on] if c.on != FUSED else [m for m in c.study.measures if m in heaviest]
    filled = set(c.study.filled)
    there = pd.DataFrame(
        [[(d, m) not in filled for m in c.order] for d in c.study.datasets],
        c.study.datasets,
        c.order,
    )
    cells = {m: c.study.cells(m)[c.order].where(there) for m in measures}
    rest = [m for m in c.order if m not in c.leaders]
    differences = {}
    for m in measures if rest else ():
        difference = (cells[m][c.leader] - cells[m][rest[0]]).dropna()
        differences[m] = float(difference.mean()), len(difference)
    tested = c.deciding is not None
    return Decision(
        methods=c.leaders,
        best=c.possible.index[c.possible["low"] == 1].tolist() if tested else [],
        separated=[b for a, b in c.separated if a == c.leader] if tested else None,
        by_answers=None if tested else _by_answers(c),
        measures=measures,
        means={m: mean_intervals(table, c.options["alpha"]) for m, table in cells.items()},
        next=rest[0] if rest else None,
        differences=differences,
        turns=_turns(c),
    )


def _by_answers(c: Comparison) -> list[str] | None:
    found = c.instances.get(c.study.datasets[0])
    return found.worse_than(c.leader) if isinstance(found, AnswerComparison) else None


def _turns(c: Comparison) -> dict[str, Any] | None:
    """The likeliest other choice that puts another method first, or that makes the lead worth
    little.
    """
    if len(c.leaders) > 1:
        weighed = c.on == FUSED and len(c.study.measures) > 1 and len(c.leaders) < len(c.order)
        return {"kind": "tie"} if weighed else None
    if c.on != FUSED:
        return _untested(c)
    if len(c.order) == 2 and all(c.options[key] is None for key in "pqs"):
        return {"kind": "two methods"}
    if c.stability is not None:
        rank = {
            key: part.set_index("method")["mean_rank"].dropna() for key, part in c.scenarios.items()
        }
        first = {key: r.index[r <= r.min() + 1e-9].tolist() for key, r in rank.items()}
        lost = {key: others for key, others in first.items() if others != [c.leader]}
        for varies in ("policy", "weights", "function"):
            for (kind, function, weights, missing), others in lost.items():
                same = function == c.options["preference"]
                if varies == ("policy" if kind == "policy" else "weights" if same else "function"):
                    new = {"policy": missing, "weights": weights, "function": function}[varies]
                    return {
                        "kind": varies,
                        "choice": new,
                        "methods": [m for m in others if m != c.leader] or others,
                    }
    elif c.options["weights"] == "entropy" and len(c.study.measures) > 1:
        equal = c.fusion.flows.by_measure.weigh("equal", c.options["drop_constant"]).ranks.mean(
            axis=0
        )
        mean = pd.Series(equal, c.fusion.ranks.columns)
        if (others := mean.index[mean <= mean.min() + 1e-9].tolist()) != [c.leader]:
            return {
                "kind": "weights",
                "choice": "equal",
                "methods": [m for m in others if m != c.leader] or others,
            }
    if (found := _untested(c)) is not None:
        return found
    if c.stability is None and c.study.filled:
        return {"kind": "missing"}
    single = None if c.stability is None else c.stability.dethrone.single
    if single is not None:
        return {
            "kind": "weight",
            "choice": single["measure"],
            "to": single["to"],
            "weight": single["weight"],
            "methods": [single["rival"]],
        }
    return None


def _untested(c: Comparison) -> dict[str, Any] | None:
    """That the tests leave the lead open, or that there are none."""
    if c.deciding is None:
        return {"kind": "one dataset"}
    return None if any(a == c.leader for a, _ in c.separated) else {"kind": "chance"}
