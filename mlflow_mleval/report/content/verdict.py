"""The answer in words: no more than the tests and the recomputations say, and on what each sentence
rests.

"Leads" means the first place in the order and nothing else; "separates" is said only where the
deciding test rejects; "survives" means that the same method leads when everything is computed anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.stability import Separations, Survivals, first_ranked
from mlflow_mleval.report.blocks import (
    SHOWN,
    Section,
    Sentence,
    Text,
    claim,
    claims_in,
    joined,
    listed,
)
from mlflow_mleval.report.text import fixed, level, number, percent, pvalue
from mlflow_mleval.validation import present
from mlflow_mleval.words import agree, all_of, count, plural

if TYPE_CHECKING:
    from mlflow_mleval.analysis.folds.fold_comparison import FoldComparison

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
        if s.claim.key == "survives" and "stability.separations" not in s.rests_on
    ]
    answer = Text([s.text for s in said if s.text not in stable], role="lead")
    return Section(
        "verdict",
        "Verdict",
        [answer, *([Text(stable, role="flow")] if stable else [])],
    )


def data(c: Comparison) -> dict[str, Any]:
    return {"verdict": claims_in(verdict(c), c.options["alpha"])}


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
    2 datasets cannot say who is better: no p-value lies below .5. It takes 6, or three repeats of every method on each.
    """  # noqa: E501
    untested = (
        "Tests over datasets need more than one, so that none says whether it would lead on "
        "others, too."
    )
    tested = (
        [Sentence(untested, claim("untested", "study.datasets"))]
        if c.deciding is None
        else _feasible(c) or [_evidence(c), *_overall(c)]
    )
    stable = (
        [_fused(c)]
        if c.on != FUSED and len(c.study.measures) > 1
        else []
        if c.stability is None
        else (_tied_stability(c) if len(c.leaders) > 1 else _stability(c, c.leaders[0]))
    )
    return [_lead(c), *tested, *by_fold(c), *stable]


def by_fold(c: Comparison) -> list[Sentence]:
    """What the folds say where they decide: of one dataset, whom they separate from the leader; of
    several, how many pairs.
    """
    if c.decides_over != "folds":
        return []
    from mlflow_mleval.analysis.folds.fold_comparison import lost_pairs

    behind = apart_by_folds(c)
    text = _pairs_apart(c) if behind is None else _behind_by_folds(c, behind)
    lost = lost_pairs(c.folds.values())
    apart = any(folds.separated for folds in c.folds.values())
    says = claim("folds separate" if apart else "folds do not separate")
    return [Sentence(f"{text}{lost}{_shaky(c.folds)}.", says)]


def _by_measures(folds: FoldComparison) -> str:
    return f"by {listed(folds.measures)}{' together' if len(folds.measures) > 1 else ''}"


def _behind_by_folds(c: Comparison, behind: Sequence[str]) -> str:
    """Whom the folds of the only dataset separate from the leader."""
    (folds,) = c.folds.values()
    others = [m for m in folds.methods if m != c.leader]
    whom = listed(behind) if behind else "no other method"
    if len(behind) == len(others) > 1:
        whom = _everyone(others)
    return (
        f"Over its {folds.folds_of_a_pair}, {_by_measures(folds)}, {listed(c.leaders)} is "
        f"separated from {whom}{directions(folds, c.leader, behind)}"
    )


def _pairs_apart(c: Comparison) -> str:
    """How many pairs the folds separate on all datasets together."""
    first, *more = c.folds.values()
    alike = all(tuple(folds.measures) == tuple(first.measures) for folds in more)
    pairs = pd.concat([folds.pairs for folds in c.folds.values()])
    return (
        f"Tests over folds{f' {_by_measures(first)}' if alike else ''} separate "
        f"{int(pairs['separated'].sum()):,} of {count(len(pairs), 'pair')} on "
        f"{count(len(c.folds), 'dataset')}"
        f"{', corrected over pairs and datasets' if more else ''}"
    )


def _shaky(folds: Mapping[str, FoldComparison]) -> str:
    """On which datasets assumptions of the tests fail."""
    shaky = [dataset for dataset, found in folds.items() if (found.pairs["doubt"] != "").any()]
    if not shaky:
        return ""
    where = "" if len(folds) == 1 else " on all" if len(shaky) == len(folds) else None
    where = f" on {listed(shaky)}" if where is None else where
    return f" (in doubt{where}: see the tests by fold)"


def apart_by_folds(c: Comparison) -> list[str] | None:
    """Methods that the folds of the only dataset with any separate from the leader; None where they
    cannot say.
    """
    found = next(iter(c.folds.values()), None)
    if found is None or len(c.folds) != 1 or len(c.leaders) > 1 or c.leader not in found.methods:
        return None
    return [m for m in found.methods if m != c.leader and found.is_separated(c.leader, m)]


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
    return listed(others) if len(others) == 1 else f"{all_of(len(others))} others"


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
        what = f"the fused ranking of {among}"
        mean = "mean net flow" if len(datasets) > 1 else "net flow"
        value = f"{mean} {fixed(c.table.mean()[c.leader], 3)}{each}"
    else:
        how = f"{'smaller' if c.study.directions[c.on] == 'min' else 'larger'} is better"
        verb = "leads" if not many else "all tie" if everyone else "share the lead"
        what = f"by {listed([c.on])} among {among}"
        mean = number(c.study.cells(c.on).mean()[c.leader])
        value = f"mean {mean}{each}" if len(datasets) > 1 else mean
    if c.options["order"] == "mean-rank" and len(datasets) > 1:
        value = f"mean rank {fixed(c.ranks.mean()[c.leader], 2)}{each}"
    says = claim("ahead", *(["options"] if c.on == FUSED else []))
    return Sentence(f"{listed(c.leaders)} {verb} {what} {where} ({value}; {how}).", says)


def _evidence(c: Comparison) -> Sentence:
    says = claim("separated" if c.separated else "none separated", present(c.deciding).test.key)
    if c.options["control"] is not None:
        return Sentence(f"{_against_control(c, c.options['control'])} ({deciding_test(c)}).", says)
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
    made = present(c.deciding)
    about = "" if made.test.over == "datasets" else f": {made.test.about(made.result)}"
    return Sentence(f"The evidence {text} ({deciding_test(c)}){about}.", says)


def _apart(c: Comparison, leader: str, them: str) -> str:
    """Whom the deciding test separates from one leader: "separates it from A and B only"."""
    apart, others = set(c.separated), [m for m in c.order if m not in c.leaders]
    behind = [m for m in others if (leader, m) in apart]
    above = [m for m in others if (m, leader) in apart]
    puts = f"puts {listed(above)} above {them}, against the mean ranks" if above else ""
    if not others:
        return f"{'separates some of' if c.separated else 'does not separate'} them from each other"
    if behind:
        return ", and ".join(filter(None, [_separates(others, behind, above, them), puts]))
    if puts:
        return puts
    either = "either" if them == "both" else them
    whom = _everyone(others) if len(others) == 1 else "any other method"
    return f"does not separate {either} from {whom}"


def _separates(
    others: Sequence[str], behind: Sequence[str], above: Sequence[str], them: str
) -> str:
    """From which others the leaders are separated, by the fewest names."""
    rest = [m for m in others if m not in behind]
    if not rest:
        return (
            f"separates {'each' if them == 'both' and len(others) == 2 else them} from "
            f"{_everyone(others)}"
        )
    whom = f"{len(behind)} of the {len(others)} others ({listed(behind)})"
    if len(behind) <= SHOWN:
        whom = f"{listed(behind)} only"
    elif len(rest) <= SHOWN and not above:
        whom = f"all others but {listed(rest)}"
    return f"separates {them} from {whom}"


def _against_control(c: Comparison, control: str) -> str:
    better = [a for a, b in c.separated if b == control]
    worse = [b for a, b in c.separated if a == control]
    sides = {"above": better, "below": worse}
    puts = [f"{listed(group)} {side} it" for side, group in sides.items() if group]
    left = len(c.order) - 1 - len(better) - len(worse)
    rest = f", and does not separate the other {left if left > 1 else 'one'} from it" * bool(left)
    verdict = f"puts {' and '.join(puts)}{rest}" if puts else "separates no method from it"
    return f"Compared with the control {listed([control])} only, the evidence {verdict}"


def _overall(c: Comparison) -> list[Sentence]:
    """Friedman's test, where it finds nothing: then no difference is to be believed easily."""
    whole = c.friedman if present(c.deciding).test.over == "datasets" else None
    if whole is None or len(c.order) < 3 or whole.best_pvalue <= c.options["alpha"]:
        return []
    by = "Iman–Davenport" if whole.exact_pvalue is None else "exact"
    found = (
        f"Over all methods together, Friedman's test finds no difference ({by}, "
        f"{pvalue(whole.best_pvalue)})."
    )
    return [Sentence(found, claim("all methods"))]


def _feasible(c: Comparison) -> list[Sentence]:
    """Why the deciding test could not separate any pair, whatever the values, and what it would
    need.
    """
    unable = present(c.deciding).test.unable(present(c.deciding).result)
    return [Sentence(unable, claim("feasible", present(c.deciding).test.key))] if unable else []


def _fused(c: Comparison) -> Sentence:
    """Who leads by all measures together, where the tests are about one."""
    ranking, measures = c.fusion.ranking, c.study.measures
    first = first_ranked(ranking["rank"])
    also = " too" if set(first) == set(c.leaders) else ""
    verb = "leads" if len(first) == 1 else "share the lead"
    how = (
        f"{'all ' if len(measures) > 1 else ''}{count(len(measures), 'measure')} "
        f"({choices(c.options, len(measures))})"
    )
    value = f"net flow {fixed(ranking['phi'].iloc[0], 3)}"
    return Sentence(
        f"Fused over {how}, {listed(first)} {verb}{also} ({value}).", claim("ahead", "options")
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
    return [Sentence(text, claim("survives", "stability.acceptability"))]


def _stability(c: Comparison, leader: str) -> list[Sentence]:
    if counts_wins(c):
        return []
    found = present(c.survivals())
    falls = f"; where it falls, {listed(found.rivals, last='or')} leads" if found.rivals else ""
    survived = _survived(found, one=len(c.study.measures) == 1)
    rests = ["stability.sensitivity"]
    if present(c.stability).leave_one_out is not None:
        rests.append("stability.leave_one_out")
    lead = f"Its lead survives {joined(survived)}{falls}." if survived else ""
    sentences = [Sentence(lead, claim("survives", *rests))] if lead else []
    sentences += separations_in_words(c, leader)
    if len(c.study.measures) > 1:
        text = f"{_random_weights(c, leader)}; {_shift(c)}."
        sentences.append(
            Sentence(text, claim("survives", "stability.acceptability", "stability.dethrone"))
        )
    return sentences


def _random_weights(c: Comparison, leader: str) -> str:
    """How often the leader leads by chance, and who leads more often."""
    draws = present(c.stability).acceptability
    first = draws.acceptability[1]
    ahead = first.idxmax()
    more = first[ahead] > first[leader]
    other = f", {listed([ahead])} under {percent(first[ahead])}" if more else ""
    return (
        f"It leads under {percent(first[leader])} of {draws.n_resamples:,} random weightings{other}"
    )


def counts_wins(c: Comparison) -> bool:
    """Whether the fused ranking only counts the measures that each of two methods wins, whatever
    the preference function.
    """
    return len(c.order) == 2 and all(c.options[key] is None for key in "pqs")


#: What may be chosen otherwise, as a sentence calls it.
_CHOICES = {"function": "function", "weights": "weights", "policy": "policy", "filter": "measures"}


def separations_in_words(c: Comparison, leader: str) -> list[Sentence]:
    """How far the separations stay under other functions, weights, policies and sets of
    measures.
    """
    found = present(c.stability).separations
    if not found:
        return []
    share, kinds = {pair: found.of(pair) for pair in c.separated}, _varied(c, found)
    if all(stays == of for stays, of in share.values()):
        subject = "The separation" if len(share) == 1 else f"All {len(share):,} separations"
        stay, (_, tried) = agree(share, "stays"), max(share.values())
        text = f"{subject} {stay} under every other choice of {kinds} ({tried} were tried)."
        return [Sentence(text, claim("survives", "stability.separations"))]
    own = {worse: of for (better, worse), of in share.items() if better == leader}
    others = [of for (better, _), of in share.items() if better != leader]
    parts = [f"its separation {joined(_own_shares(own))} other choices of {kinds}"] if own else []
    if others:
        only = "other one" if own else "separation"
        many = f"other {len(others):,}" if own else f"{len(others):,} separations"
        subject = f"the {many if len(others) > 1 else only} {agree(others, 'stays')}"
        parts.append(f"{subject} under {_least_share(others)}")
    first = "; ".join(parts)
    texts = [f"{first[0].upper()}{first[1:]}.", *_turned(c, found, leader)]
    return [Sentence(" ".join(texts), claim("survives", "stability.separations"))]


def _varied(c: Comparison, found: Separations) -> str:
    """What was chosen otherwise: "function, weights or policy"."""
    varied = {kind for kind, _ in found.leaders}
    if len(c.study.measures) > 1:
        varied.add("weights")
    return joined([word for kind, word in _CHOICES.items() if kind in varied], "or")


def _own_shares(shares: Mapping[str, tuple[int, int]]) -> list[str]:
    """Under how many other choices each separation of the leader stays; of many, the least of the
    others.
    """
    shown = list(shares)[: SHOWN if len(shares) <= SHOWN else SHOWN - 1]
    verbs = ["stays under", *["under"] * len(shown)]
    texts = [
        f"from {listed([worse])} {verb} {_share(*shares[worse])}"
        for worse, verb in zip(shown, verbs, strict=False)
    ]
    if rest := [share for worse, share in shares.items() if worse not in shown]:
        texts.append(f"from {len(rest)} more under at least {_share(*min(rest, key=_part))}")
    return texts


def _least_share(shares: Sequence[tuple[int, int]]) -> str:
    low, high = min(shares, key=_part), max(shares, key=_part)
    return f"{'' if low == high else 'at least '}{_share(*low)}"


def _turned(c: Comparison, found: Separations, leader: str) -> list[str]:
    """The policies under which somebody else leads, and what they leave of the separations."""
    rivals, of = present(c.survivals()).rivals, len(c.separated)
    texts = []
    for (kind, which), leaders in found.leaders.items():
        if kind != "policy" or leader in leaders:
            continue
        stays = int(found.stays.loc[[(kind, which)]].fillna(0).to_numpy().sum())
        what = f"{stays or 'none'} of the {of} {agree(stays or 1, 'stays')}"
        if of == 1:
            what = "it stays" if stays else "it does not stay"
        elif stays == of:
            what = f"{all_of(of)} stay"
        new = not set(leaders) <= set(rivals)
        where = f", where {listed(leaders)} {agree(leaders, 'leads')}," if new else ""
        texts.append(f"Under {which}{where} {what}.")
    return texts


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
    rules = f"{plural('policy') if found.policies > 1 else 'policy'} for missing results"
    texts = [
        _of(found.functions, functions, combinations),
        _of(found.policies, policies, rules),
        _absences(found),
    ]
    return [text for text in texts if text]


def _absences(found: Survivals) -> str:
    """Which methods may be left out; nothing where that was not tried."""
    n, lost = found.methods, found.lost_methods
    if n is None:
        return ""
    if lost and not len(lost) <= 2 < n:
        return f"the absence of {n - len(lost) or 'none'} of the {n} other methods"
    return f"the absence of any one other method{f' but {listed(lost)}' if lost else ''}"


def _of(total: int, lost: Sequence[str], things: str) -> str:
    """Which of the other choices the lead survives; nothing where there are none."""
    if total == 0:
        return ""
    if total == 1:
        return f"not the other {things} ({lost[0]})" if lost else f"the other {things}"
    if not lost:
        return f"{all_of(total)} other {things}"
    if len(lost) == total:
        return f"none of the {total} other {things}"
    but = f" (not {' or '.join(lost)})" if len(lost) <= 2 else ""
    return f"{total - len(lost)} of {total} other {things}{but}"


def _shift(c: Comparison) -> str:
    """The smallest change of one weight that costs the lead."""
    single = present(c.stability).dethrone.single
    if single is None:
        return "no change of a single weight would cost it the lead"
    rival, measure = listed([single["rival"]]), listed([single["measure"]])
    now, to = single["weight"], single["to"]
    if abs(single["change"]) < 1e-9:
        return f"the smallest change of the weight of {measure} would let {rival} take or share it"
    moved = "rose above" if to > now else "fell below"
    return (
        f"{rival} would take or share the lead if the weight of {measure} {moved} "
        f"{number(to, 2)} (now {number(now, 2)})"
    )
