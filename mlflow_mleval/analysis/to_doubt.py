"""What a reader of a comparison must know before believing it, in sentences; what could turn the
answer comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.fusion import Fusion
from mlflow_mleval.analysis.posthoc.description import Made, Tested
from mlflow_mleval.analysis.posthoc.max_t import max_t
from mlflow_mleval.analysis.promethee import DOMINANT
from mlflow_mleval.analysis.survivals import Retest
from mlflow_mleval.naming import SHOWN, some
from mlflow_mleval.study import Study, left_out

#: Of two measures one always has half of the weight; this much is worth a word.
OUTVOTES = 0.75


def collected(
    study: Study,
    fusion: Fusion,
    sure: Any,
    tests: Mapping[str, Any],
    said: list[str],
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
        per = pd.Series([d for d, _ in study.filled]).value_counts()
        where = ", ".join(f"{d} ({n})" for d, n in per.items())
        total = len(study.datasets) * len(study.methods)
        are, them = ("is", "it") if len(study.filled) == 1 else ("are", "them")
        why = f" ({why})" if (why := study.why_empty(study.filled)) else ""
        left = (
            ""
            if counted or decides is None or decides.test.by_mean_ranks
            else f"; tests of pairs leave {them} out"
        )
        doubts.append(
            f"{len(study.filled)} of {total} results {are} missing{why}: {where}. The ranking "
            f"gives {them} the dataset's worst value{left}."
        )
    doubts += [*study.notes, *left_out(study.excluded), *_about_datasets(fusion)]
    doubts += [*(sure.dethrone.warnings if sure else ()), *said]
    doubts += [
        text for text in getattr(omnibus, "warnings", ()) if omnibus.exact_pvalue is None
    ]  # which stands beside it
    doubts += [text for test, result in tests["posthoc"] for text in test.doubts(result)]
    return tuple(dict.fromkeys(doubts))


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


def turning(
    fusion: Fusion, made: Made | None, ranks: pd.DataFrame, again: Retest | None, lean: list[Any]
) -> list[str]:
    """Doubts that could turn the answer about all measures together: two methods, what weights
    favour, what was filled.
    """
    found, options, measures = [], fusion.options, fusion.weights.columns
    if len(ranks.columns) == 2 and not any(options[key] is not None for key in "pqs"):
        found.append(
            "With two methods the fused ranking counts the measures that each wins, by their "
            "weights; it says nothing of how large the differences are."
        )
    if options["weights"] == "entropy" and len(measures) > 1:
        equal = fusion.flows.by_measure.weigh("equal", options["drop_constant"])
        mean, now = pd.Series(equal.ranks.mean(axis=0), ranks.columns), ranks.mean()
        first, leaders = (x.index[x <= x.min() + 1e-9].tolist() for x in (mean, now))
        says = (
            []
            if set(first) == set(leaders)
            else [f"{some(first)} {'leads' if len(first) == 1 else 'share the lead'}"]
        )
        pairs = [] if made is None or again is None else made.result.significant_pairs
        kept = set(again(fusion.study, equal)) if pairs and again is not None else set()
        if lost := [f"{a} from {b}" for a, b in pairs if (a, b) not in kept]:
            says.append(
                f"{'this separation is' if len(lost) == 1 else 'these separations are'} not "
                f"there: {some(lost)}"
            )
        if says:
            heaviest, weight = fusion.weights.mean().idxmax(), fusion.weights.mean().max()
            found.append(
                "Weights by entropy favour measures that set a few methods far apart, here "
                f"{heaviest} most ({weight:.2g} of the weight; {1 / len(measures):.2g} if all "
                f"weighed the same). With equal weights {', and '.join(says)}."
            )
    if lean:
        pairs = some(f"{a} from {b}" for a, b in lean)
        found.append(f"Separated only with the values that were given to missing results: {pairs}.")
    return found
