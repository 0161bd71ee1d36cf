"""What a comparison says, in words: no more than its tests and its recomputations say, and on what each sentence rests.

Texts are plain and unescaped: each format escapes whole sentences. "Leads" means the best mean rank and nothing else;
"separates" is said only where the deciding test rejects; "survives" means that the same method leads when computed anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.paired import CORRECTIONS
from mlflow_mleval.naming import count
from mlflow_mleval.report.escape import fixed, number, pvalue, shorten, terminal

#: Names of the preference functions as the reports write them.
PREFERENCES = {
    "usual": "usual", "u_shape": "U-shape", "v_shape": "V-shape", "level": "level", "linear": "linear", "gaussian": "Gaussian",
}
#: Marks a row whose verdict the assumptions do not carry.
NOT_TRUSTED = "[!]"
#: Longer names are cut in the middle; more names than SHOWN are counted.
NAME, SHOWN = 40, 4


@dataclass(frozen=True)
class Sentence:
    """A sentence of the verdict (sometimes two that belong together).

    Attributes
    ----------
    text : str
        Plain text, unescaped.
    rests_on : tuple of str
        Where in the JSON report its figures stand, as dotted keys.
    """

    text: str
    rests_on: tuple[str, ...]


def verdict(comparison: Comparison) -> list[Sentence]:
    """Who leads, over whom significantly, how stable, what was left out: up to six sentences computed from the results.

    Parameters
    ----------
    comparison : Comparison
        Parts that are None are passed over.

    Returns
    -------
    list of Sentence
        In reading order.

    Examples
    --------
    >>> import pandas as pd
    >>> from mlflow_mleval.analysis.comparison import compare
    >>> from mlflow_mleval.study import Study
    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> for sentence in verdict(compare(Study.from_frame(frame))):
    ...     print(sentence.text)
    b leads the fused ranking of 2 methods over 2 datasets (mean rank 1.00; 1 measure, V-shape preference).
    The evidence does not separate it from a (Nemenyi, critical difference 1.39, α = .05).
    Pairwise signed-rank tests cannot reject anything on 2 datasets; 6 datasets would be needed.
    """
    leaders = comparison.leaders
    sentences = [_lead(comparison, leaders)]
    if comparison.deciding is None:
        untested = "Tests over datasets need more than one, so that none says whether it would lead on others, too."
        sentences.append(Sentence(untested, ("absent", "study.datasets")))
    else:
        sentences += [_evidence(comparison, leaders), *_overall(comparison), *_feasible(comparison)]
    sentences += _by_fold(comparison, leaders)
    if comparison.on != FUSED:
        sentences.append(_fused(comparison, leaders))
    elif comparison.stability is not None:
        sentences += _tied_stability(comparison, leaders) if len(leaders) > 1 else _stability(comparison, leaders[0])
    return sentences + _left_out(comparison)


def _by_fold(c: Comparison, leaders: Sequence[str]) -> list[Sentence]:
    """What the folds say: of one dataset, whom they separate from the leader; of several, how many pairs."""
    if not c.folds:
        return []
    pairs = [found.pairs for found in c.folds.values()]
    shaky = [dataset for dataset, found in c.folds.items() if not found.pairs["reliable"].all()]
    where = "" if len(pairs) == 1 else " on all" if len(shaky) == len(pairs) else f" on {listed(shaky)}" if shaky else ""
    doubted = f" (in doubt{where}: see the tests by fold)" if shaky else ""
    total, apart = sum(map(len, pairs)), sum(int(p["significant"].sum()) for p in pairs)
    measures = {tuple(found.measures) for found in c.folds.values()}
    by = f" by {_together(next(iter(measures)))}" if len(measures) == 1 else ""
    text = f"Tests over folds{by} separate {apart:,} of {count(total, 'pair')} on {count(len(pairs), 'dataset')}"
    if len(pairs) == 1 and len(leaders) == 1:
        found = next(iter(c.folds.values()))
        others = [m for m in found.methods if m != leaders[0]]
        if leaders[0] in found.methods:
            behind = [m for m in others if found.separated.loc[leaders[0], m]]
            whom = listed(behind) if behind else "no other method"
            whom = f"all {len(others)} others" if len(behind) == len(others) > 1 else whom
            over = f"Over its {count(found.n_folds, 'fold')}, by {_together(found.measures)}"
            text = f"{over}, {listed(leaders)} is separated from {whom}"
    return [Sentence(f"{text}{doubted}.", ("folds",))]


def _together(measures: Sequence[str]) -> str:
    return f"{listed(measures)}{' together' if len(measures) > 1 else ''}"


def listed(names: Iterable[object], most: int = SHOWN, last: str = "and") -> str:
    """Names in running text; beyond `most` they are counted.

    >>> listed("ab"), listed("abc", last="or"), listed("abcdef")
    ('a and b', 'a, b or c', 'a, b, c and 3 more')
    """
    texts = [shorten(terminal(name), NAME) for name in names]
    if len(texts) > most:
        texts = [*texts[: most - 1], f"{len(texts) - most + 1} more"]
        last = "and"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {last} {texts[-1]}"


def level(alpha: float) -> str:
    """A significance level as it is written: ".05".

    >>> level(0.05)
    '.05'
    """
    return f"{alpha:g}".removeprefix("0")


def choices(options: Mapping[str, Any], n_measures: int) -> str:
    """How the measures were fused, in a few words.

    >>> choices({"preference": "v_shape", "weights": "entropy"}, 16)
    'V-shape preference, entropy weights'
    """
    function, weights = options["preference"], options["weights"]
    if isinstance(function, str):
        text = f"{PREFERENCES[function]} preference"
    else:
        text = _by_measure("preference", {m: PREFERENCES[f] for m, f in function.items()}) or "preference functions by measure"
    if n_measures == 1:
        return text
    if isinstance(weights, str):
        return f"{text}, {weights} weights"
    given = {m: number(w) for m, w in weights.items()} if isinstance(weights, Mapping) else {}
    return f"{text}, {_by_measure('weights', given) or 'given weights'}"


def _by_measure(what: str, chosen: Mapping[str, str]) -> str:
    """What was chosen for which measures, the most common choice last; empty for too many choices.

    >>> _by_measure("weights", {"f1": "2", "recall": "1", "coverage": "1"})
    'weights 2 for f1, 1 for all others'
    """
    groups: dict[str, list[str]] = {}
    for measure, choice in chosen.items():
        groups.setdefault(choice, []).append(measure)
    if not 0 < len(groups) <= SHOWN:
        return ""
    *rare, (common, rest) = sorted(groups.items(), key=lambda item: len(item[1]))
    others = listed(rest) if len(rest) == 1 else "all others" if rare else "all"
    return f"{what} {', '.join(f'{choice} for {listed(names)}' for choice, names in [*rare, (common, [others])])}"


def deciding_test(comparison: Comparison) -> str:
    """The test that decides about pairs, with its critical difference or correction, and the level."""
    return f"{comparison.deciding.wording}, α = {level(comparison.options['alpha'])}"


def _lead(c: Comparison, leaders: Sequence[str]) -> Sentence:
    many = len(leaders) > 1
    datasets, methods, measures = c.study.datasets, c.study.methods, c.study.measures
    who = listed(leaders)
    where = f"over {count(len(datasets), 'dataset')}" if len(datasets) > 1 else f"on {listed(datasets)}, the only dataset"
    rests = ["ranking", "study"]
    if c.on == FUSED:
        how = f"{count(len(measures), 'measure')}, {choices(c.options, len(measures))}"
        rests.append("options")
    else:
        how = f"{'smaller' if c.study.directions[c.on] == 'min' else 'larger'} is better"
    if len(datasets) > 1:
        value = f"mean rank {fixed(c.ranks.mean()[c.order[0]], 2)}{' each' if many else ''}"
    elif c.on == FUSED:
        value = f"net flow {fixed(c.table.iloc[0][c.order[0]], 3)}{' each' if many else ''}"
    else:
        value = number(c.study.cells(c.on).iloc[0][c.order[0]])
    what = f"the fused ranking of {count(len(methods), 'method')}" if c.on == FUSED else (
        f"by {listed([c.on])} among {count(len(methods), 'method')}"
    )
    if many:
        all_of_them = len(leaders) == len(methods)
        if c.on == FUSED:
            verb = "tie for the whole of" if all_of_them else "share the lead of"
        else:
            verb = "all tie" if all_of_them else "share the lead"
    else:
        verb = "leads"
    return Sentence(f"{who} {verb} {what} {where} ({value}; {how}).", tuple(rests))


def _evidence(c: Comparison, leaders: Sequence[str]) -> Sentence:
    rests = (c.deciding.test.key, "decides", "separated")
    if c.options["control"] is not None:
        return Sentence(f"{_against_control(c, c.options['control'])} ({deciding_test(c)}).", rests)
    them = "it" if len(leaders) == 1 else "both" if len(leaders) == 2 else "them"
    pairs = set(c.separated)
    texts = [_apart(c, pairs, leader, leaders, them) for leader in leaders]
    if len(set(texts)) > 1:
        texts = [_apart(c, pairs, leader, leaders, listed([leader])) for leader in leaders[:SHOWN]]
    text = "; it ".join(dict.fromkeys(texts))
    elsewhere = sum(1 for pair in c.separated if not set(pair) & set(leaders))
    if elsewhere:
        text += f"; among the others it separates {count(elsewhere, 'pair')}"
    elif not c.separated and len(c.order) > 2:
        text += ", nor any two others from each other" if len(leaders) < len(c.order) - 1 else ""
    return Sentence(f"The evidence {text} ({deciding_test(c)}).", rests)


def _apart(c: Comparison, pairs: set[tuple[str, str]], leader: str, leaders: Sequence[str], them: str) -> str:
    """Whom the deciding test separates from one leader: "separates it from A and B only"."""
    others = [m for m in c.order if m not in leaders]
    behind = [m for m in others if (leader, m) in pairs]
    above = [m for m in others if (m, leader) in pairs]
    rest = [m for m in others if m not in behind + above]
    everyone = listed(others) if len(others) == 1 else "both others" if len(others) == 2 else f"all {len(others)} others"
    if above and not behind:
        return f"puts {listed(above)} above {them}, against the mean ranks"
    if not others:
        return f"{'separates some of' if c.separated else 'does not separate'} them from each other"
    if not behind:
        either = "either" if them == "both" else them
        return f"does not separate {either} from {everyone if len(others) == 1 else 'any other method'}"
    if len(behind) == len(others):
        return f"separates {them} from {everyone}"
    if len(behind) <= SHOWN:
        text = f"separates {them} from {listed(behind)} only"
    elif len(rest) <= SHOWN and not above:
        text = f"separates {them} from all others but {listed(rest)}"
    else:
        text = f"separates {them} from {len(behind)} of the {len(others)} others ({listed(behind)})"
    return text + (f", and puts {listed(above)} above {them}, against the mean ranks" if above else "")


def _against_control(c: Comparison, control: str) -> str:
    better = [a for a, b in c.separated if b == control]
    worse = [b for a, b in c.separated if a == control]
    name = listed([control])
    found = [f"{listed(group)} {side} it" for group, side in ((better, "above"), (worse, "below")) if group]
    if not found:
        return f"Compared with the control {name} only, the evidence separates no method from it"
    left = len(c.order) - 1 - len(better) - len(worse)
    rest = f", and does not separate the other {left if left > 1 else 'one'} from it" if left else ""
    return f"Compared with the control {name} only, the evidence puts {' and '.join(found)}{rest}"


def _overall(c: Comparison) -> list[Sentence]:
    """Friedman's test, where it finds nothing: then no difference is to be believed easily."""
    if c.friedman is None or len(c.order) < 3 or c.friedman.best_pvalue <= c.options["alpha"]:
        return []
    by = "Iman–Davenport" if c.friedman.exact_pvalue is None else "exact"
    found = f"Over all methods together, Friedman's test finds no difference ({by}, {pvalue(c.friedman.best_pvalue)})."
    return [Sentence(found, ("friedman",))]


def _feasible(c: Comparison) -> list[Sentence]:
    """Why the pairwise tests could not speak, and what they would need."""
    possible = c.feasibility
    if possible is None or possible.can_reject:
        return []
    correction = f" with {CORRECTIONS[c.options['correction']]}" if possible.n_comparisons > 1 else ""
    tests = "Pairwise signed-rank tests" if c.options["control"] is None else "Signed-rank tests against the control"
    design = f"{count(possible.n_methods, 'method')} on " if possible.n_methods > 2 else ""
    fewer = f" or at most {count(possible.max_methods, 'method')}" if possible.max_methods else ""
    return [
        Sentence(
            f"{tests}{correction} cannot reject anything {'with' if design else 'on'} {design}"
            f"{count(possible.n_datasets, 'dataset')}; {count(possible.datasets_needed, 'dataset')}{fewer} would be needed.",
            ("feasibility",),
        )
    ]


def _fused(c: Comparison, leaders: Sequence[str]) -> Sentence:
    """Who leads by all measures together, where the tests are about one."""
    mean = c.fusion.ranking["mean_rank"]
    first = mean.index[mean <= mean.min() + 1e-9].tolist()
    measures = c.study.measures
    also = " too" if set(first) == set(leaders) else ""
    verb = "leads" if len(first) == 1 else "share the lead"
    how = f"{'all ' if len(measures) > 1 else ''}{count(len(measures), 'measure')} ({choices(c.options, len(measures))})"
    value = f"mean rank {fixed(mean.min(), 2)}" if len(c.ranks) > 1 else f"net flow {fixed(c.fusion.ranking['phi'].iloc[0], 3)}"
    return Sentence(f"Fused over {how}, {listed(first)} {verb}{also} ({value}).", ("ranking", "options"))


def percent(x: float) -> str:
    """A share in percent, never rounded to all or nothing.

    >>> percent(0.8196), percent(0.9999), percent(1.0), percent(0.0001)
    ('82%', 'more than 99%', '100%', 'less than 1%')
    """
    if x in (0, 1):
        return f"{100 * x:g}%"
    return "less than 1%" if x < 0.01 else "more than 99%" if x > 0.99 else f"{100 * x:.0f}%"


def _left_out(c: Comparison) -> list[Sentence]:
    """How much is missing; the doubts say what and why."""
    parts = []
    if c.study.filled:
        total = len(c.study.datasets) * len(c.study.methods)
        verb = "is missing and counts" if len(c.study.filled) == 1 else "are missing and count"
        parts.append(f"{len(c.study.filled):,} of {count(total, 'result')} {verb} as the worst of the dataset")
    kinds = Counter(gone.kind for gone in c.study.excluded if gone.kind != "unasked")
    if kinds:
        verb = "was" if sum(kinds.values()) == 1 else "were"
        parts.append(f"{_joined([count(n, kind) for kind, n in kinds.items()])} {verb} left out")
    return [Sentence(f"{'; '.join(parts)}.", ("study.filled", "excluded"))] if parts else []


def _tied_stability(c: Comparison, leaders: Sequence[str]) -> list[Sentence]:
    if len(c.study.measures) < 2:
        return []
    found = c.stability.acceptability
    first = found.acceptability.loc[list(leaders), 1].sort_values(ascending=False, kind="stable").head(SHOWN)
    shares = _joined([f"{listed([m])} under {percent(x)}" for m, x in first.items()])
    text = f"Which of them is ahead hangs on the weights: first is {shares} of {found.n_draws:,} random weightings."
    return [Sentence(text, ("stability.acceptability",))]


def _stability(c: Comparison, leader: str) -> list[Sentence]:
    survived, rivals = _survivals(c)
    falls = f"; where it falls, {listed(rivals, last='or')} leads" if rivals else ""
    rests = ["stability.sensitivity", *(["stability.leave_one_out"] if c.stability.leave_one_out is not None else [])]
    sentences = [Sentence(f"Its lead survives {_joined(survived)}{falls}.", tuple(rests))] if survived else []
    if len(c.study.measures) > 1:
        sentences.append(Sentence(f"{_random(c, leader)}; {_shift(c)}.", ("stability.acceptability", "stability.dethrone")))
    return sentences


def _survivals(c: Comparison) -> tuple[list[str], list[str]]:
    """What the lead survives, and who leads where it does not."""
    found, one = c.survivals(), len(c.study.measures) == 1
    functions = [PREFERENCES.get(f, f) + ("" if one else f" with {weights} weights") for f, weights in found.lost_functions]
    without = [f"{policy}, which leaves it out" if gone else policy for policy, gone in found.lost_policies.items()]
    combinations = "preference functions" if one else "combinations of preference function and weights"
    policies = f"{'policy' if found.policies == 1 else 'policies'} for missing results"
    said = [_of(found.functions, functions, combinations), _of(found.policies, without, policies)]
    if (n := found.methods) is not None:
        changes = found.lost_methods
        if not changes:
            said.append("the absence of any other method")
        elif len(changes) <= 2 < n:
            said.append(f"the absence of any other method but {listed(changes)}")
        else:
            said.append(f"the absence of {n - len(changes) or 'none'} of the {n} other methods")
    return [text for text in said if text], found.rivals


def _of(total: int, lost: Sequence[str], things: str) -> str:
    if total == 0:
        return ""
    if not lost:
        return f"the other {things}" if total == 1 else f"{'both' if total == 2 else f'all {total}'} other {things}"
    if len(lost) == total:
        return f"none of the {total} other {things}" if total > 1 else f"not the other {things} ({lost[0]})"
    return f"{total - len(lost)} of {total} other {things}" + (f" (not {' or '.join(lost)})" if len(lost) <= 2 else "")


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _random(c: Comparison, leader: str) -> str:
    found = c.stability.acceptability
    first = found.acceptability[1]
    ahead = first.idxmax()
    other = "" if first[leader] >= first[ahead] else f", {listed([ahead])} under {percent(first[ahead])}"
    return f"It leads under {percent(first[leader])} of {found.n_draws:,} random weightings{other}"


def _shift(c: Comparison) -> str:
    """The smallest change of one weight that costs the lead."""
    single = c.stability.dethrone.single
    if single is None:
        return "no change of a single weight would cost it the lead"
    rival, measure, now, to = listed([single["rival"]]), listed([single["measure"]]), single["weight"], single["to"]
    if abs(single["change"]) < 1e-9:
        return f"the smallest change of the weight of {measure} would let {rival} take or share it"
    moved = "rose above" if to > now else "fell below"
    return f"{rival} would take or share the lead if the weight of {measure} {moved} {number(to, 2)} (now {number(now, 2)})"


def paragraphs(comparison: Comparison) -> list[str]:
    """The verdict in one or two paragraphs: the answer, and how stable it is."""
    answer, stable = [], []
    for sentence in verdict(comparison):
        (stable if sentence.rests_on[0].startswith("stability") else answer).append(sentence.text)
    return [" ".join(part) for part in (answer, stable) if part]


def new_doubts(comparison: Comparison) -> list[str]:
    """The doubts, capitalised, without what the verdict has said already."""
    said = comparison.feasibility.message if comparison.feasibility is not None else None
    names = {*comparison.study.methods, *comparison.study.datasets, *comparison.study.measures}
    return [capitalised(text, names) for text in comparison.doubts if text != said]


def capitalised(text: str, names: Iterable[str]) -> str:
    """The text with a capital, unless it begins with one of the names, which stay as they are.

    >>> capitalised("random forest leads", ["random forest"]), capitalised("two lead", ["random forest"])
    ('random forest leads', 'Two lead')
    """
    return text if text.startswith(tuple(f"{name} " for name in names)) else text[:1].upper() + text[1:]


def origin(provenance: Mapping[str, Any]) -> str:
    """What reproduces it, in a line; the JSON and HTML reports list the runs too."""
    runs, experiments = provenance.get("run_ids"), provenance.get("experiments")
    parts = [
        f"{count(len(runs), 'run')}{f' of {listed(experiments)}' if experiments else ''}" if runs else "",
        f"in {provenance['tracking_uri']}" if provenance.get("tracking_uri") else "",
    ]
    rest = [f"{name} {provenance[name]}" for name in ("filter", "policy", "seed") if provenance.get(name) not in (None, "")]
    version = (provenance.get("versions") or {}).get("mlflow-mleval")
    rest += [f"mlflow-mleval {version}"] if version else []
    rest += [str(provenance["time"])] if provenance.get("time") else []
    rest += [f"command: {provenance['command']}"] if provenance.get("command") else []
    return "; ".join(filter(None, [" ".join(filter(None, parts)), *rest]))


def describe_weights(comparison: Comparison) -> str:
    """The weights of the measures in words: the largest, the smallest, and how even they are."""
    mean = comparison.fusion.weights.mean().sort_values(ascending=False, kind="stable")
    over = f", means over {count(len(comparison.fusion.weights), 'dataset')}" if len(comparison.fusion.weights) > 1 else ""
    if len(mean) == 1:
        return f"{listed(mean.index)} is the only measure."
    if mean.iloc[0] - mean.iloc[-1] < 1e-9:
        return f"All {len(mean)} measures weigh the same, {number(mean.iloc[0], 2)}."
    return (
        f"Weights lie between {number(mean.iloc[-1], 2)} ({listed(mean.index[-1:])}) and {number(mean.iloc[0], 2)} "
        f"({listed(mean.index[:1])}){over}; equal ones would be {number(1 / len(mean), 2)}."
    )


def describe_redundancy(comparison: Comparison) -> str:
    """Which measures say the same, and what the ranking does without the redundant ones."""
    found = comparison.redundancy
    if found is None:
        return f"Redundancy of measures was not examined: {comparison.absent.get('redundancy', 'not asked for')}."
    groups = [listed(group, most=8) for group in found.groups if len(group) > 1]
    if not groups:
        return f"No two measures correlate above {number(found.threshold)}."
    text = f"Above a correlation of {number(found.threshold)} belong together: {'; '.join(groups)}."
    ranking = found.ranking
    gone = len(found.correlation) - len(found.kept)
    before, after = ranking["mean_rank"].idxmin(), ranking["mean_rank_without"].idxmin()
    lead = f"{listed([before])} still leads" if before == after else f"{listed([after])} leads in place of {listed([before])}"
    most = ranking["mean_change"].idxmax()
    move, largest = number(ranking["mean_change"].mean(), 2), number(ranking["mean_change"].max(), 2)
    return (
        f"{text} Without the {count(gone, 'redundant measure')} {lead}; ranks on a dataset move by {move} on average, "
        f"most for {listed([most])} ({largest})."
    )


def explain(comparison: Comparison) -> list[tuple[str, str]]:
    """What the words of the verdict mean, and when not to trust them: (word, explanation), only for those that are used."""
    c = comparison
    possible, stable = c.feasibility, c.stability is not None and c.on == FUSED
    by = "On each dataset the rank is by net flow, which depends on which methods are compared." if c.on == FUSED else ""
    rows = [
        (True, "leads", f"Has the best mean rank over the datasets, no more: some method has it by chance alone. {by}"),
        (c.deciding is not None, "separated", c.deciding and c.deciding.test.meaning(c.deciding.result)),
        (
            c.deciding is not None,
            "not separated",
            f"Not shown to differ on {count(len(c.study.datasets), 'dataset')}; not shown to be alike either.",
        ),
        (
            possible is not None and not possible.can_reject,
            "cannot reject",
            "Even a method that wins on every dataset would not reach the level: the smallest signed-rank p-value that so few "
            "datasets allow, times the number of pairs, is above it.",
        ),
        (
            stable,
            "survives",
            "The same method alone has the best mean rank when everything is computed again. Not a test: it says how much hangs "
            "on choices, not how much on chance.",
        ),
        (
            stable and len(c.study.measures) > 1,
            "random weightings",
            "Weights of the measures drawn uniformly, one set for all datasets. Measures that say the same count as often as "
            "they occur.",
        ),
        (
            bool(c.study.filled),
            "policy worst",
            "A method without a result on a dataset gets the worst value that another reached there: having none counts as being "
            "worst, whether it did not finish or was never run.",
        ),
    ]
    return [(word, text.strip()) for used, word, text in rows if used]
