"""What the lead in the fused ranking, and the separations of pairs, survive: other choices, and the
absence of other methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.fusion import Fusion, redundancy_filter
from mlflow_mleval.analysis.posthoc.description import FLOWS, Made, Posthoc, Tested
from mlflow_mleval.analysis.posthoc.max_t import max_t
from mlflow_mleval.analysis.promethee import DOMINANT, WeighedFlows
from mlflow_mleval.analysis.stability import LeaveOneOut, Sensitivity
from mlflow_mleval.study import Study, left_out
from mlflow_mleval.words import SHOWN, some

#: Correlations above which measures are left out, to see what stays.
FILTERS = (0.9, 0.8, 0.7)
#: Statistics (pairs times sign changes) of a test under one other choice; of more methods than this
#: none is made.
MOST, METHODS = 10**8, 300
#: Mean ranks this close are equal.
EQUAL = 1e-9


@dataclass(frozen=True)
class Survivals:
    """What the lead survives: that the same method alone has the best mean rank when everything is
    computed again.

    Attributes
    ----------
    functions : Other combinations of preference function and weights that were tried; with a single measure, of function only.
    lost_functions : (function, weights) under which the lead is lost or shared.
    policies : Other policies for missing results that were tried.
    lost_policies : Those under which the lead is lost or shared, and whether the policy leaves the leader out.
    methods : Other methods that were left out, one at a time; None where that takes more methods.
    lost_methods : Those without which another method leads, and which.
    rivals : Who leads, alone or beside the leader, where the lead is lost.
    """  # noqa: E501

    functions: int
    lost_functions: list[tuple[str, str]]
    policies: int
    lost_policies: Mapping[str, bool]
    methods: int | None
    lost_methods: Mapping[str, str]
    rivals: list[str]


def survivals(
    sensitivity: Sensitivity, without: LeaveOneOut | None, leader: str, n_measures: int
) -> Survivals:
    """What the lead of `leader` survives; with a single measure weights change nothing and are not
    counted.
    """
    table = sensitivity.table
    table = table[~table["chosen"].astype(bool)]
    if n_measures == 1:
        table = table[
            (table["varies"] == "policy") | (table["weights"] == table["weights"].iloc[0])
        ]
    total = {"function": 0, "policy": 0}
    functions, policies, rivals = [], {}, []
    for (varies, function, weights, missing), part in table.groupby(
        ["varies", "preference", "weights", "missing"], sort=False
    ):
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
    return Survivals(
        total["function"], functions, total["policy"], policies, n_others, changes, rivals
    )


@dataclass(frozen=True)
class Separations:
    """Which separations stay when one choice is another.

    Attributes
    ----------
    stays : Other choices x pairs (better, worse): whether the same test still separates them so; NaN where the choice leaves one
        of the two out. A choice is (what, which): ("function", "usual, equal"), ("policy",
        "drop-datasets"), ("filter", "0.8").
    leaders : By choice, who leads then.
    """  # noqa: E501

    stays: pd.DataFrame
    leaders: Mapping[tuple[str, str], list[str]]

    def of(self, pair: tuple[str, str]) -> tuple[int, int]:
        """Under how many of the other choices the separation of a pair stays, and how many there
        are.
        """
        stays = self.stays[pair].to_numpy()
        return int(np.nansum(stays)), int(np.count_nonzero(~np.isnan(stays)))


class Retest:
    """The deciding test made again on other flows of the same study, with the same options; gaps
    are left out as before.
    """

    def __init__(self, test: Posthoc, tested: Tested, finished: pd.DataFrame) -> None:
        self.test, self.tested, self.finished = test, tested, finished

    def __call__(self, study: Study, flows: WeighedFlows) -> list[tuple[str, str]]:
        """The separated pairs (better, worse)."""
        index, columns = pd.Index(study.datasets), pd.Index(study.methods)
        t = self.tested
        if (
            len(index) < 2
            or len(columns) < 2
            or (t.control is not None and t.control not in columns)
        ):
            return []
        phi, ranks = (pd.DataFrame(x, index, columns) for x in (flows.phi, flows.ranks))
        phi = phi.where(self.finished.reindex(index=index, columns=columns))
        wide = (
            float((phi.max(axis=1) - phi.min(axis=1)).max()) > t.bound
        )  # as other preference functions may make them
        again = replace(
            t, table=phi, ranks=ranks, flows=phi, most=MOST, bound=FLOWS if wide else t.bound
        )
        return list(self.test.run(again).significant_pairs)


def separations(
    retest: Retest,
    pairs: list[tuple[str, str]],
    sensitivity: Sensitivity,
    fusion: Fusion,
    correlation: pd.DataFrame | None,
) -> Separations:
    """Which of the pairs stay separated under the scenarios, and with fewer measures by the filter
    of their `correlation`.
    """
    asked = fusion.options["weights"]
    first = (
        asked if isinstance(asked, str) else "equal"
    )  # with one measure the weights change nothing
    variants: dict[tuple[str, str], tuple[list[tuple[str, str]], pd.Series]] = {}
    for (varies, function, weights, missing), part in sensitivity.scenarios.items():
        same = varies == "policy" or len(fusion.study.measures) > 1 or weights == first
        if not part["chosen"].all() and same:
            label = missing if varies == "policy" else f"{function}, {weights}"
            rank = part.set_index("method")["mean_rank"]
            variants[varies, label] = (
                sensitivity.separated[varies, function, weights, missing],
                rank,
            )
    for limit in FILTERS if correlation is not None else ():
        needed, _ = redundancy_filter(correlation, limit)
        fewer = fusion.refit(fusion.study.select(needed))
        variants["filter", f"{limit:g}"] = (
            retest(fewer.study, fewer.flows),
            fewer.ranking["mean_rank"],
        )
    rows = {}
    for choice, (apart, rank) in variants.items():
        there, stayed = set(rank.dropna().index), set(apart)  # asked once a pair
        rows[choice] = [float(pair in stayed) if there.issuperset(pair) else None for pair in pairs]
    stays = pd.DataFrame.from_dict(rows, orient="index", dtype=float)
    stays = stays.set_axis(pd.Index(pairs, tupleize_cols=False), axis=1) if rows else stays
    leaders = {
        choice: rank.index[rank <= rank.min() + EQUAL].tolist()
        for choice, (_, rank) in variants.items()
    }
    return Separations(stays, leaders)


# --------------------------------------------------------------------------------------------------
# What a reader of a comparison must know before believing it, in sentences; what could turn the
# answer comes first.

#: Of two measures one always has half of the weight; this much is worth a word.
OUTVOTES = 0.75


def collected(
    study: Study,
    fusion: Fusion,
    sure: Any,
    tests: Mapping[str, Any],
    warned: list[str],
    could_turn: list[str],
    counted: bool,
) -> tuple[str, ...]:
    """What a reader must know, what could turn the answer first; `counted`: missing results are
    failures.
    """
    doubts = list(could_turn)
    omnibus, decides = tests["friedman"], tests["deciding"]
    if (
        decides is not None
        and decides.result.significant_pairs
        and omnibus.best_pvalue > decides.result.alpha
    ):
        doubts.append(
            "Pairs are separated although the Friedman test over all methods finds no difference."
        )
    if study.filled:
        alone = decides is not None and not decides.test.by_mean_ranks and not counted
        doubts.append(_filled(study, alone))
    doubts += [*study.notes, *left_out(study.excluded), *_about_datasets(fusion)]
    doubts += [*(sure.dethrone.warnings if sure else ()), *warned]
    doubts += [
        text for text in getattr(omnibus, "warnings", ()) if omnibus.exact_pvalue is None
    ]  # which stands beside it
    doubts += [text for test, result in tests["posthoc"] for text in test.doubts(result)]
    return tuple(dict.fromkeys(doubts))


def _filled(study: Study, left_out: bool) -> str:
    """Which results are missing, what the ranking does, and what tests of pairs do."""
    per = pd.Series([d for d, _ in study.filled]).value_counts()
    where = ", ".join(f"{d} ({n})" for d, n in per.items())
    total = len(study.datasets) * len(study.methods)
    are, them = ("is", "it") if len(study.filled) == 1 else ("are", "them")
    why = f" ({why})" if (why := study.why_empty(study.filled)) else ""
    tests = f"; tests of pairs leave {them} out" if left_out else ""
    return (
        f"{len(study.filled)} of {total} results {are} missing{why}: {where}. The ranking "
        f"gives {them} the dataset's worst value{tests}."
    )


def leaning(
    study: Study, tested: Tested, made: Made | None, counted: bool
) -> list[tuple[str, str]]:
    """Separated pairs that max-T would not separate without the values that the policy gave to
    missing results.
    """
    if made is None or study.missing != "worst" or not (counted or made.test.by_mean_ranks):
        return []
    finished = study.finished().reindex_like(tested.table)
    filled = set(finished.columns[~finished.all()])
    pairs = [pair for pair in made.result.significant_pairs if filled & {*pair}]
    if not pairs:
        return []
    without = max_t(
        tested.flows.where(finished), tested.control, tested.alpha, seed=tested.seed
    ).significant_pairs
    return [pair for pair in pairs if pair not in without]


def _about_datasets(fusion: Fusion) -> list[str]:
    """What holds of measures on some datasets, a line each kind."""
    flows, datasets, measures = fusion.flows, fusion.ranks.index, fusion.weights.columns
    heavy = flows.weights > (DOMINANT if len(measures) > 2 else OUTVOTES)
    kinds = {
        "The same for all methods, so that it tells none apart": flows.by_measure.constant,
        "More than half of the weight, which outvotes all other measures": heavy
        if len(measures) > 1
        else heavy & False,
    }
    lines = []
    for what, holds in kinds.items():
        where = [
            f"{measure} on "
            f"{'every dataset' if 1 < len(datasets) == on.sum() else some(datasets[on])}"
            for measure, on in zip(measures, holds.T, strict=True)
            if on.any()
        ]
        if where:
            lines.append(
                f"{what}: "
                f"{'; '.join(where[:SHOWN])}{f'; and {len(where) - SHOWN} more' if len(where) > SHOWN else ''}."  # noqa: E501
            )
    return lines + [text for text in fusion.warnings if "all preferences are almost zero" in text]


def _with_equal_weights(
    fusion: Fusion, made: Made | None, ranks: pd.DataFrame, again: Retest | None
) -> list[str]:
    """What equal weights would change, as clauses: who leads, and which separations are gone."""
    equal = fusion.flows.by_measure.weigh("equal", fusion.options["drop_constant"])
    mean, now = pd.Series(equal.ranks.mean(axis=0), ranks.columns), ranks.mean()
    first, leaders = (x.index[x <= x.min() + 1e-9].tolist() for x in (mean, now))
    clauses = []
    if set(first) != set(leaders):
        clauses.append(f"{some(first)} {'leads' if len(first) == 1 else 'share the lead'}")
    pairs = [] if made is None or again is None else made.result.significant_pairs
    stay = set(again(fusion.study, equal)) if pairs and again is not None else set()
    if lost := [f"{a} from {b}" for a, b in pairs if (a, b) not in stay]:
        these = "this separation is" if len(lost) == 1 else "these separations are"
        clauses.append(f"{these} not there: {some(lost)}")
    return clauses


def turning(
    fusion: Fusion, made: Made | None, ranks: pd.DataFrame, again: Retest | None, lean: list[Any]
) -> list[str]:
    """Doubts that could turn the answer about all measures together: two methods, what weights
    favour, what was filled.
    """
    doubts, options, measures = [], fusion.options, fusion.weights.columns
    if len(ranks.columns) == 2 and not any(options[key] is not None for key in "pqs"):
        doubts.append(
            "With two methods the fused ranking counts the measures that each wins, by their "
            "weights; it says nothing of how large the differences are."
        )
    if options["weights"] == "entropy" and len(measures) > 1:
        turned = _with_equal_weights(fusion, made, ranks, again)
        if turned:
            heaviest, weight = fusion.weights.mean().idxmax(), fusion.weights.mean().max()
            doubts.append(
                "Weights by entropy favour measures that set a few methods far apart, here "
                f"{heaviest} most ({weight:.2g} of the weight; {1 / len(measures):.2g} if all "
                f"weighed the same). With equal weights {', and '.join(turned)}."
            )
    if lean:
        pairs = some(f"{a} from {b}" for a, b in lean)
        doubts.append(
            f"Separated only with the values that were given to missing results: {pairs}."
        )
    return doubts
