"""The answer in words: no more than the tests and the recomputations say, and on what each sentence
rests.

"Leads" means the best mean rank and nothing else; "separates" is said only where the deciding test
rejects; "survives" means that the same method leads when everything is computed anew.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.folds.fold_comparison import FoldComparison, lost_pairs
from mlflow_mleval.analysis.survivals import Survivals
from mlflow_mleval.report.blocks import ALWAYS, SHOWN, Section, Sentence, Text, joined, listed
from mlflow_mleval.report.text import fixed, level, number, percent, pvalue
from mlflow_mleval.validation import present
from mlflow_mleval.words import count

#: Names of the preference functions as the reports write them.
PREFERENCES = {
    "usual": "usual",
    "u_shape": "U-shape",
    "v_shape": "V-shape",
    "level": "level",
    "linear": "linear",
    "gaussian": "Gaussian",
}


def section(c: Comparison) -> Section:
    """The answer, and how stable it is."""
    said = verdict(c)
    stable = [
        s.text
        for s in said
        if s.rests_on[0].startswith("stability") and s.rests_on[0] != "stability.separations"
    ]
    answer = Text([s.text for s in said if s.text not in stable], role="lead", depth=ALWAYS)
    return Section(
        "verdict",
        "Verdict",
        [answer, *([Text(stable, role="flow", depth=ALWAYS)] if stable else [])],
    )


def data(c: Comparison) -> dict[str, Any]:
    return {"verdict": verdict(c)}


def verdict(c: Comparison) -> list[Sentence]:
    """Who leads, over whom significantly, how stable, what was left out: up to six sentences
    computed from the results.

    Examples
    --------
    >>> import pandas as pd
    >>> from mlflow_mleval.analysis.comparison import compare
    >>> from mlflow_mleval.report.blocks import plain
    >>> from mlflow_mleval.study import Study
    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> for sentence in verdict(compare(Study.from_frame(frame))):
    ...     print(plain(sentence.text))
    b leads the fused ranking of 2 methods over 2 datasets (mean rank 1.00; 1 measure, V-shape preference).
    The evidence does not separate it from a (step-down max-T, α = .05).
    No pair can be separated on 2 datasets, where no p-value lies below .5; it takes 6.
    """  # noqa: E501
    untested = (
        "Tests over datasets need more than one, so that none says whether it would lead on "
        "others, too."
    )
    tested = (
        [Sentence(untested, ("absent", "study.datasets"))]
        if c.deciding is None
        else ([_evidence(c), *_overall(c), *_feasible(c)])
    )
    stable = (
        [_fused(c)]
        if c.on != FUSED
        else []
        if c.stability is None
        else (_tied_stability(c) if len(c.leaders) > 1 else _stability(c, c.leaders[0]))
    )
    return [_lead(c), *tested, *by_fold(c), *stable]


def by_fold(c: Comparison) -> list[Sentence]:
    """What the folds say: of one dataset, whom they separate from the leader; of several, how many
    pairs.
    """
    if not c.folds:
        return []
    first, *more = c.folds.values()
    pairs = [found.pairs for found in c.folds.values()]
    shaky = [dataset for dataset, found in c.folds.items() if not found.pairs["reliable"].all()]
    where = (
        ""
        if not more
        else " on all"
        if len(shaky) == len(pairs)
        else f" on {listed(shaky)}"
        if shaky
        else ""
    )
    doubted = f" (in doubt{where}: see the tests by fold)" if shaky else ""
    by = f"by {listed(first.measures)}{' together' if len(first.measures) > 1 else ''}"
    if (alone := apart_by_folds(c)) is not None:
        others, behind = [m for m in first.methods if m != c.leader], alone
        whom = (
            _everyone(others)
            if len(behind) == len(others) > 1
            else listed(behind)
            if behind
            else "no other method"
        )
        text = (
            f"Over its {first.folds_of_a_pair}, {by}, {listed(c.leaders)} is separated from {whom}"
        )
        text += directions(first, c.leader, behind)
    else:
        alike = (
            f" {by}"
            if all(tuple(found.measures) == tuple(first.measures) for found in more)
            else ""
        )
        total, apart = sum(map(len, pairs)), sum(int(p["significant"].sum()) for p in pairs)
        text = (
            f"Tests over folds{alike} separate {apart:,} of {count(total, 'pair')} on "
            f"{count(len(pairs), 'dataset')}"
        )
        text += ", corrected over pairs and datasets" if more else ""
    text += lost_pairs(c.folds.values())
    return [Sentence(f"{text}{doubted}.", ("folds",))]


def apart_by_folds(c: Comparison) -> list[str] | None:
    """Methods that the folds of the only dataset with any separate from the leader; None where they
    cannot say.
    """
    found = next(iter(c.folds.values()), None)
    if found is None or len(c.folds) != 1 or len(c.leaders) > 1 or c.leader not in found.methods:
        return None
    return [m for m in found.methods if m != c.leader and found.separated.loc[c.leader, m]]


def directions(found: FoldComparison, leader: str, behind: Sequence[str]) -> str:
    """On which measures the leader is better than those from whom it is separated, and on which it
    is worse.
    """
    said: dict[str, list[str]] = {}
    for other in behind:
        said.setdefault(found.direction(leader, other, listed), []).append(other)
    if len(found.measures) < 2 or not said:
        return ""
    if len(said) == 1:
        return f": {next(iter(said))}"
    than = (how.replace(" on", f" than {listed(others)} on", 1) for how, others in said.items())
    return f": {'; '.join(islice(than, SHOWN))}"


def _everyone(others: Sequence[str]) -> str:
    return (
        listed(others)
        if len(others) == 1
        else "both others"
        if len(others) == 2
        else f"all {len(others)} others"
    )


def choices(options: Mapping[str, Any], n_measures: int) -> str:
    """How the measures were fused, in a few words.

    >>> choices({"preference": "v_shape", "weights": "entropy"}, 16)
    'V-shape preference, entropy weights'
    """
    function, weights = options["preference"], options["weights"]
    if isinstance(function, str):
        text = f"{PREFERENCES[function]} preference"
    else:
        text = (
            _by_measure("preference", {m: PREFERENCES[f] for m, f in function.items()})
            or "preference functions by measure"
        )
    if n_measures == 1:
        return text
    if isinstance(weights, str):
        return f"{text}, {weights} weights"
    given = {m: number(w) for m, w in weights.items()} if isinstance(weights, Mapping) else {}
    return f"{text}, {_by_measure('weights', given) or 'given weights'}"


def _by_measure(what: str, chosen: Mapping[str, str]) -> str:
    """What was chosen for which measures, the most common choice last; empty for too many
    choices.
    """
    groups: dict[str, list[str]] = {}
    for measure, choice in chosen.items():
        groups.setdefault(choice, []).append(measure)
    if not 0 < len(groups) <= SHOWN:
        return ""
    *rare, (common, rest) = sorted(groups.items(), key=lambda item: len(item[1]))
    others = listed(rest) if len(rest) == 1 else "all others" if rare else "all"
    return (
        f"{what} "
        f"{', '.join([*(f'{choice} for {listed(names)}' for choice, names in rare), f'{common} for {others}'])}"  # noqa: E501
    )


def deciding_test(c: Comparison) -> str:
    """The test that decides about pairs, with its critical difference or correction, and the
    level.
    """
    return f"{present(c.deciding).wording}, α = {level(c.options['alpha'])}"


def _lead(c: Comparison) -> Sentence:
    many, datasets, measures = len(c.leaders) > 1, c.study.datasets, c.study.measures
    everyone, among = len(c.leaders) == len(c.study.methods), count(len(c.study.methods), "method")
    where = (
        f"over {count(len(datasets), 'dataset')}"
        if len(datasets) > 1
        else f"on {listed(datasets)}, the only dataset"
    )
    each = " each" if many else ""
    if c.on == FUSED:
        how = f"{count(len(measures), 'measure')}, {choices(c.options, len(measures))}"
        verb = "leads" if not many else "tie for the whole of" if everyone else "share the lead of"
        what, rests = f"the fused ranking of {among}", ("ranking", "study", "options")
        value = f"net flow {fixed(c.table.iloc[0][c.leader], 3)}{each}"
    else:
        how = f"{'smaller' if c.study.directions[c.on] == 'min' else 'larger'} is better"
        verb = "leads" if not many else "all tie" if everyone else "share the lead"
        what, rests = f"by {listed([c.on])} among {among}", ("ranking", "study")
        value = number(c.study.cells(c.on).iloc[0][c.leader])
    if len(datasets) > 1:
        value = f"mean rank {fixed(c.ranks.mean()[c.leader], 2)}{each}"
    return Sentence(f"{listed(c.leaders)} {verb} {what} {where} ({value}; {how}).", rests)


def _evidence(c: Comparison) -> Sentence:
    rests = (present(c.deciding).test.key, "decides", "separated")
    if c.options["control"] is not None:
        return Sentence(f"{_against_control(c, c.options['control'])} ({deciding_test(c)}).", rests)
    leaders = c.leaders
    them = "it" if len(leaders) == 1 else "both" if len(leaders) == 2 else "them"
    texts = [_apart(c, leader, them) for leader in leaders]
    if len(set(texts)) > 1:
        texts = [_apart(c, leader, listed([leader])) for leader in leaders[:SHOWN]]
    text = "; it ".join(dict.fromkeys(texts))
    if elsewhere := sum(1 for pair in c.separated if not set(pair) & set(leaders)):
        text += f"; among the others it separates {count(elsewhere, 'pair')}"
    elif not c.separated and 2 < len(c.order) > len(leaders) + 1:
        text += ", nor any two others from each other"
    return Sentence(f"The evidence {text} ({deciding_test(c)}).", rests)


def _apart(c: Comparison, leader: str, them: str) -> str:
    """Whom the deciding test separates from one leader: "separates it from A and B only"."""
    leaders, apart = c.leaders, set(c.separated)
    others = [m for m in c.order if m not in leaders]
    behind = [m for m in others if (leader, m) in apart]
    above = [m for m in others if (m, leader) in apart]
    rest = [m for m in others if m not in behind + above]
    if above and not behind:
        return f"puts {listed(above)} above {them}, against the mean ranks"
    if not others:
        return f"{'separates some of' if c.separated else 'does not separate'} them from each other"
    if not behind:
        either = "either" if them == "both" else them
        return (
            f"does not separate {either} from "
            f"{_everyone(others) if len(others) == 1 else 'any other method'}"
        )
    if len(behind) == len(others):
        whom = _everyone(others)
        them = "each" if them == "both" and len(others) == 2 else them
    elif len(behind) <= SHOWN:
        whom = f"{listed(behind)} only"
    elif len(rest) <= SHOWN and not above:
        whom = f"all others but {listed(rest)}"
    else:
        whom = f"{len(behind)} of the {len(others)} others ({listed(behind)})"
    return f"separates {them} from {whom}" + (
        f", and puts {listed(above)} above {them}, against the mean ranks" if above else ""
    )


def _against_control(c: Comparison, control: str) -> str:
    better = [a for a, b in c.separated if b == control]
    worse = [b for a, b in c.separated if a == control]
    found = [
        f"{listed(group)} {side} it"
        for group, side in ((better, "above"), (worse, "below"))
        if group
    ]
    left = len(c.order) - 1 - len(better) - len(worse)
    rest = (
        f", and does not separate the other {left if left > 1 else 'one'} from it" if left else ""
    )
    said = f"puts {' and '.join(found)}{rest}" if found else "separates no method from it"
    return f"Compared with the control {listed([control])} only, the evidence {said}"


def _overall(c: Comparison) -> list[Sentence]:
    """Friedman's test, where it finds nothing: then no difference is to be believed easily."""
    if c.friedman is None or len(c.order) < 3 or c.friedman.best_pvalue <= c.options["alpha"]:
        return []
    by = "Iman–Davenport" if c.friedman.exact_pvalue is None else "exact"
    found = (
        f"Over all methods together, Friedman's test finds no difference ({by}, "
        f"{pvalue(c.friedman.best_pvalue)})."
    )
    return [Sentence(found, ("friedman",))]


def _feasible(c: Comparison) -> list[Sentence]:
    """Why the deciding test could not separate any pair, whatever the values, and what it would
    need.
    """
    unable = present(c.deciding).test.unable(present(c.deciding).result)
    return [Sentence(unable, (present(c.deciding).test.key,))] if unable else []


def _fused(c: Comparison) -> Sentence:
    """Who leads by all measures together, where the tests are about one."""
    mean, measures = c.fusion.ranking["mean_rank"], c.study.measures
    first = mean.index[mean <= mean.min() + 1e-9].tolist()
    also = " too" if set(first) == set(c.leaders) else ""
    verb = "leads" if len(first) == 1 else "share the lead"
    how = (
        f"{'all ' if len(measures) > 1 else ''}{count(len(measures), 'measure')} "
        f"({choices(c.options, len(measures))})"
    )
    value = (
        f"mean rank {fixed(mean.min(), 2)}"
        if len(c.ranks) > 1
        else f"net flow {fixed(c.fusion.ranking['phi'].iloc[0], 3)}"
    )
    return Sentence(
        f"Fused over {how}, {listed(first)} {verb}{also} ({value}).", ("ranking", "options")
    )


def _tied_stability(c: Comparison) -> list[Sentence]:
    if len(c.study.measures) < 2:
        return []
    found = present(c.stability).acceptability
    first = (
        found.acceptability.loc[c.leaders, 1]
        .sort_values(ascending=False, kind="stable")
        .head(SHOWN)
    )
    shares = joined([f"{listed([m])} under {percent(x)}" for m, x in first.items()])
    text = (
        f"Which of them is ahead depends on the weights: first is {shares} of "
        f"{found.n_resamples:,} random weightings."
    )
    return [Sentence(text, ("stability.acceptability",))]


def _stability(c: Comparison, leader: str) -> list[Sentence]:
    if counts_wins(c):
        return []
    found = present(c.survivals())
    falls = f"; where it falls, {listed(found.rivals, last='or')} leads" if found.rivals else ""
    survived = _survived(found, one=len(c.study.measures) == 1)
    rests = ["stability.sensitivity"]
    if present(c.stability).leave_one_out is not None:
        rests.append("stability.leave_one_out")
    sentences = (
        [Sentence(f"Its lead survives {joined(survived)}{falls}.", tuple(rests))]
        if survived
        else []
    )
    sentences += separations_in_words(c, leader)
    if len(c.study.measures) > 1:
        draws, first = (
            present(c.stability).acceptability.n_resamples,
            present(c.stability).acceptability.acceptability[1],
        )
        ahead = first.idxmax()
        other = (
            ""
            if first[leader] >= first[ahead]
            else f", {listed([ahead])} under {percent(first[ahead])}"
        )
        text = (
            f"It leads under {percent(first[leader])} of {draws:,} random weightings{other}; "
            f"{_shift(c)}."
        )
        sentences.append(Sentence(text, ("stability.acceptability", "stability.dethrone")))
    return sentences


def counts_wins(c: Comparison) -> bool:
    """Whether the fused ranking only counts the measures that each of two methods wins, whatever
    the preference function.
    """
    return len(c.order) == 2 and all(c.options[key] is None for key in "pqs")


def separations_in_words(c: Comparison, leader: str) -> list[Sentence]:
    """How far the separations stay under other functions, weights, policies and sets of
    measures.
    """
    found = present(c.stability).separations
    if not found:
        return []
    share = {pair: found.of(pair) for pair in c.separated}
    own = {worse: share[leader, worse] for better, worse in c.separated if better == leader}
    rest = [share[pair] for pair in c.separated if pair[0] != leader]
    varied = {kind for kind, _ in found.leaders}
    kinds = {"function": "function", "weights": "weights", "policy": "policy", "filter": "measures"}
    known = [
        word
        for kind, word in kinds.items()
        if kind in varied or (kind == "weights" and len(c.study.measures) > 1)
    ]
    other = f"choices of {joined(known, 'or')}"
    texts = []
    if all(stays == of for stays, of in share.values()):
        pairs = f"All {len(share):,} separations stay" if len(share) > 1 else "The separation stays"
        text = (
            f"{pairs} under every other choice of {joined(known, 'or')} "
            f"({max(share.values())[1]} were tried)."
        )
        return [Sentence(text, ("stability.separations",))]
    if own:
        shown = list(own)[: SHOWN if len(own) <= SHOWN else SHOWN - 1]
        stays = ["stays under", *["under"] * len(own)]
        parts = [
            f"from {listed([worse])} {how} {_share(*own[worse])}"
            for worse, how in zip(shown, stays, strict=False)
        ]
        if more := len(own) - len(shown):
            least = min((own[worse] for worse in own if worse not in shown), key=_part)
            parts.append(f"from {more} more under at least {_share(*least)}")
        texts.append(f"its separation {joined(parts)} other {other}")
    if rest:
        low, high = min(rest, key=_part), max(rest, key=_part)
        least = f"{'' if low == high else 'at least '}{_share(*low)}"
        which = (
            f"the other {f'{len(rest):,} stay' if len(rest) > 1 else 'one stays'}"
            if own
            else (
                f"the {len(rest):,} separations stay" if len(rest) > 1 else "the separation stays"
            )
        )
        texts.append(f"{which} under {least}")
    turned = []
    for (kind, which), leaders in found.leaders.items():
        if kind == "policy" and leader not in leaders:
            kept, of = (
                int(found.stays.loc[[(kind, which)]].fillna(0).to_numpy().sum()),
                len(c.separated),
            )
            what = (
                ("it stays" if kept else "it does not stay")
                if of == 1
                else (
                    f"{'both' if of == 2 else f'all {of}'} stay"
                    if kept == of
                    else f"{kept or 'none'} of the {of} {'stays' if kept < 2 else 'stay'}"
                )
            )
            said_already = set(leaders) <= set(present(c.survivals()).rivals)
            where = (
                ""
                if said_already
                else f", where {listed(leaders)} {'leads' if len(leaders) == 1 else 'lead'},"
            )
            turned.append(f"Under {which}{where} {what}.")
    said = "; ".join(texts)
    return [
        Sentence(" ".join([f"{said[0].upper()}{said[1:]}.", *turned]), ("stability.separations",))
    ]


def _share(stays: int, choices: int) -> str:
    return f"all {choices}" if stays == choices > 1 else f"{stays or 'none'} of {choices}"


def _part(share: tuple[int, int]) -> float:
    return share[0] / max(share[1], 1)


def _survived(found: Survivals, one: bool) -> list[str]:
    """What the lead survives; `one` where there is a single measure, so that weights change
    nothing.
    """
    functions = [
        PREFERENCES.get(f, f) + ("" if one else f" with {weights} weights")
        for f, weights in found.lost_functions
    ]
    policies = [
        f"{policy}, which leaves it out" if gone else policy
        for policy, gone in found.lost_policies.items()
    ]
    combinations = (
        "preference functions" if one else "combinations of preference function and weights"
    )
    said = [
        _of(found.functions, functions, combinations),
        _of(
            found.policies,
            policies,
            f"{'policy' if found.policies == 1 else 'policies'} for missing results",
        ),
    ]
    if (n := found.methods) is not None:
        lost = found.lost_methods
        few = f"any one other method{f' but {listed(lost)}' if lost else ''}"
        some = f"{n - len(lost) or 'none'} of the {n} other methods"
        said.append(f"the absence of {few if not lost or len(lost) <= 2 < n else some}")
    return [text for text in said if text]


def _of(total: int, lost: Sequence[str], things: str) -> str:
    if total == 0:
        return ""
    if not lost:
        return (
            f"the other {things}"
            if total == 1
            else f"{'both' if total == 2 else f'all {total}'} other {things}"
        )
    if len(lost) == total:
        return (
            f"none of the {total} other {things}"
            if total > 1
            else f"not the other {things} ({lost[0]})"
        )
    return f"{total - len(lost)} of {total} other {things}" + (
        f" (not {' or '.join(lost)})" if len(lost) <= 2 else ""
    )


def _shift(c: Comparison) -> str:
    """The smallest change of one weight that costs the lead."""
    single = present(c.stability).dethrone.single
    if single is None:
        return "no change of a single weight would cost it the lead"
    rival, measure, now, to = (
        listed([single["rival"]]),
        listed([single["measure"]]),
        single["weight"],
        single["to"],
    )
    if abs(single["change"]) < 1e-9:
        return f"the smallest change of the weight of {measure} would let {rival} take or share it"
    moved = "rose above" if to > now else "fell below"
    return (
        f"{rival} would take or share the lead if the weight of {measure} {moved} "
        f"{number(to, 2)} (now {number(now, 2)})"
    )
