"""What a comparison answers: the decision in two lines and a small picture, in the measures' own
units and without words of statistics; and the verdict, with what it rests on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.recommendation import Decision, Frontier, Question, decision, frontier
from mlflow_mleval.analysis.recommendation import question as ask
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    PAGE,
    Data,
    Figure,
    Late,
    Section,
    Sentence,
    Table,
    Text,
    claim,
    claims_in,
    joined,
    listed,
    name,
)
from mlflow_mleval.report.content import pair_question
from mlflow_mleval.report.figures import TOP
from mlflow_mleval.report.figures.comparisons import cost_figure
from mlflow_mleval.report.text import (
    aligned,
    confidence,
    fixed,
    level,
    number,
    percent,
)
from mlflow_mleval.sentences import agree, all_of, count, grouped, in_words
from mlflow_mleval.validation import present

if TYPE_CHECKING:
    from mlflow_mleval.analysis.fold_comparison import FoldComparison

#: So many methods are named, more are counted.
FEW = 2
#: On fewer datasets than this nobody is told what to use.
ENOUGH = 6
#: What counts by each preference function, with its default thresholds.
SCORED = {
    "usual": "only who is better counted, not by how much",
    "u_shape": "small differences did not count and all others counted alike",
    "v_shape": "differences counted in proportion to their size",
    "level": "small differences did not count and middling ones counted half",
    "linear": "small differences did not count",
    "gaussian": "small differences counted for less than their share",
}
#: From this probability on methods count as equivalent.
EQUIVALENT = 0.95


def section(c: Comparison, asked: Question, command: str = "") -> Section:
    """The question about two methods, whom to use of all, and what could turn it."""
    texts = [s.text for s in sentences(c, asked)]
    block = pair_question.block(c, asked, texts, command)
    return Section("decision", "Decision", [block], open=True)


def units_section(c: Comparison) -> Section:
    """The best methods in the units of the measures."""
    return Section("units", "In the measures' own units", Late(lambda: [_means(c, decision(c))]))


def data(c: Comparison, asked: Question) -> Data:
    advice = decision(c)
    means = advice.means.to_dict()
    facts = ("evidence", "ahead", "best_set", "worse", "next", "equivalent", "n_datasets", "turns")
    said = claims_in(sentences(c, asked, advice), c.options["alpha"])
    answer = {"sentences": said, **doc.named(advice, *facts), "means": means}
    return {"answer": answer, **pair_question.data(asked)}


def sentences(
    c: Comparison, asked: Question | None = None, advice: Decision | None = None
) -> list[Sentence]:
    """Is one better than the other; of more than two, whom to use or who may be as good; and the
    one doubt that could turn it.
    """
    asked = asked or ask(c)
    advice = advice or decision(c)
    doubt = _doubt(c, advice)
    said = _told_already(asked, advice)
    told = said and not advice.evidence  # that the first is ahead, and too close to call
    who = [] if told or len(c.order) < 3 else [_who(c, advice, said)]
    last = [Sentence(doubt, claim("best set"))] if doubt else []
    return [pair_question.sentence(c, asked), *who, *last]


def _told_already(asked: Question, advice: Decision) -> bool:
    """Whether the question is about the first and the next, in the measures' own units."""
    row = asked.verdict.main
    own = row is not None and row["measure"] == FUSED and not row["dataset"]
    return own and [asked.a, asked.b] == [*advice.ahead, advice.next]


def _who(c: Comparison, advice: Decision, told: bool) -> Sentence:
    who = listed(advice.ahead, 3)
    alone = len(advice.ahead) == 1
    if advice.next is None:
        return Sentence(f"{who} come out alike.", claim("best set"))
    if alone and len(advice.best_set) == 1:
        few = advice.evidence != "datasets" or len(c.study.datasets) < ENOUGH
        first = f"{who} is ahead of {_everyone([m for m in c.order if m != c.leader])}"
        by = "" if told else f": {_by_how_much(c, advice)}{_where(c, advice)}"
        text = f"{first if few else f'Use {who}'}{by}."
        return Sentence(text, claim("separated" if few else "use one"))
    if advice.equivalent is not None and advice.equivalent >= EQUIVALENT:
        pair = listed(c.order[:2])
        return Sentence(f"{pair} are equivalent, as far as it matters.", claim("equivalent"))
    if not advice.evidence:
        comes = "comes" if alone else "come"
        return Sentence(f"{who} {comes} first, too close to call.", claim("ahead"))
    ahead = f"{who} {'is' if alone else 'are'} ahead"
    says = claim("separated" if advice.worse else "best set")
    return Sentence(f"{ahead}{_as_good(c, advice)}{_worse(c, advice)}.", says)


def _as_good(c: Comparison, advice: Decision) -> str:
    """Who else may be as good as those ahead."""
    equals = [m for m in advice.best_set if m not in advice.ahead]
    if not equals:
        return ""
    if len(equals) <= FEW:
        return f", but {listed(equals)} may be as good"
    some = in_words(len(advice.best_set)) if advice.worse else "any"
    return f", but {some} of the {in_words(len(c.order))} methods may be as good"


def _worse(c: Comparison, advice: Decision) -> str:
    """Who is clearly worse, and than whom: the leader, or others."""
    worse = advice.worse
    control = c.options["control"]
    if not worse:
        return "" if control is None else f"; only {listed([control])} was compared with all"
    above = {m: [better for better, other in c.told_apart if other == m] for m in worse}
    leader = advice.ahead[0]
    by_leader = [m for m in worse if leader in above[m]]
    others = [m for m in worse if m not in by_leader]
    parts = []
    if by_leader:
        better = above[by_leader[0]] if len(by_leader) == 1 else [leader]
        whom = listed(better, 3)
        if len(better) > 3:
            whom = f"{listed([leader])} and {in_words(len(better) - 1)} more"
        parts.append(f"{_few(by_leader)} {agree(by_leader, 'is')} clearly worse than {whom}")
    if others:
        shared = [m for m in c.order if all(m in above[worse] for worse in others)]
        whom = in_words(len(shared)) if len(shared) > 3 else listed(shared) if shared else "others"
        verb = "" if parts else f" {agree(others, 'is')} clearly worse"
        parts.append(f"{_few(others)}{verb} than {whom}")
    return f"; {', and '.join(parts)}"


def _few(methods: Sequence[str]) -> str:
    return listed(methods) if len(methods) <= FEW else in_words(len(methods))


def _by_how_much(c: Comparison, advice: Decision) -> str:
    """The first against the next, by means over the same datasets."""
    parts = []
    for measure in advice.measures:
        better = advice.better(c, measure)
        word = "better" if better > 0 else "worse"
        size = f"{number(abs(better), 2)} {word}" if better else "level"
        parts.append(f"{size} in {name(measure)}")
    return f"{joined(parts)} than {listed([advice.next or ''])}"


def _where(c: Comparison, advice: Decision) -> str:
    """Over which datasets."""
    if len(c.study.datasets) == 1:
        return f" on {listed(c.study.datasets)}"
    return f", on average over {count(advice.n_datasets, 'dataset')}"


def _doubt(c: Comparison, advice: Decision) -> str:
    """What could turn it; one dataset has no weights that could."""
    turns = advice.turns
    if len(c.study.datasets) == 1:
        return ""
    open_anyway = advice.evidence == "datasets" and not advice.worse and len(advice.best_set) > 2
    if turns is None or (open_anyway and turns["kind"] in ("weights", "function", "weight")):
        return ""
    methods = turns.get("methods", [""])
    ahead = f"{listed(methods, last='or')} {agree(methods, 'is')} ahead"
    would = f"{listed(methods, last='or')} would be ahead"
    choice = name(turns.get("choice"))
    weighed = "all measures weighed alike" if turns.get("choice") == "equal" else "other weights"
    return {
        "tie": "Which of them is ahead depends on the weights of the measures.",
        "two methods": "The ranking only counts which measures each wins, not by how much.",
        "policy": {
            "drop-datasets": f"Without the datasets that some method did not finish, {ahead}.",
            "drop-methods": f"Without the methods that did not finish everywhere, {ahead}.",
        }.get(str(turns.get("choice")), f"With missing results counted as the worst, {ahead}."),
        "weights": f"With {weighed}, {ahead}.",
        "function": f"If {_scored(turns)}, {would}.",
        "weight": (
            f"If {choice} counted for {percent(turns.get('to', 0))} instead of "
            f"{percent(turns.get('weight', 0))}, {would}."
        ),
    }[turns["kind"]]


def _scored(turns: Mapping[str, Any]) -> str:
    """By which function others lead, and by which weights if those are others, too."""
    weights = {"equal": "all measures weighed alike", "entropy": "the data gave the weights"}
    other = turns.get("weights")
    return SCORED.get(str(turns.get("choice")), "") + (f" and {weights[other]}" if other else "")


def _means(c: Comparison, advice: Decision) -> Table:
    """Means alone: how they differ, the tests of pairs say."""
    means = advice.means
    cells = [doc.Column(doc.heading(c.study.directions, m), aligned(means[m])) for m in means]
    each = " that all of these methods finished" if c.study.filled else ""
    over = f"Means over the datasets{each}." if len(c.study.datasets) > 1 else ""
    columns = [doc.names("method", means.index), *cells]
    return Table(columns, len(c.order), things="methods", note=over, depth=PAGE)


# --------------------------------------------------------------------------------------------------
# Cost beside quality: a figure and a sentence, no second ranking.


def cost_section(c: Comparison) -> Section | None:
    """Quality against cost; nothing where the study holds no cost."""
    found = frontier(c)
    if found is None:
        return None

    def blocks() -> list[Any]:
        return [Text([cost_sentence(found)]), _cost_picture(c, found)]

    return Section("cost", "Cost beside quality", Late(blocks), found.cost)


def cost_data(c: Comparison) -> Data:
    found = frontier(c)
    if found is None:
        return {"cost": None}
    table = found.table.rename_axis("method").reset_index()
    return {"cost": {"name": found.cost, "sentence": cost_sentence(found), "methods": table}}


def cost_sentence(found: Frontier) -> str:
    """Who is on the frontier for sure, and who may be."""
    where = {place: list(part.index) for place, part in found.table.groupby("place")}
    on, may, off = (where.get(place, []) for place in ("on", "open", "off"))
    said = []
    if on:
        said.append(f"nobody is both better and cheaper than {listed(on, 3)}")
    if off:
        both = "both" if on else "both better and cheaper"
        said.append(f"some other method is {both}, for {listed(off, 3)}")
    if may and not said:
        return (
            f"By {name(found.cost)}, tests cannot say of any method whether another is both better "
            "and cheaper."
        )
    if may:
        said.append(f"for {listed(may, 3)} tests cannot say")
    return f"By {name(found.cost)}: {'; '.join(said)}."


def _cost_picture(c: Comparison, found: Frontier) -> Figure:
    table = found.table.head(TOP)
    by_rank = c.options["order"] == "mean-rank"
    flows = c.compared if c.on == FUSED else f"net flow φ by {c.compared}"
    quality = "mean rank, turned" if by_rank else flows
    level = confidence(c.options["alpha"])
    lines = ""
    if table[["low", "cost_low"]].notna().any(axis=None):
        lines = f" Lines: {level} intervals of the tests, those of each side together."
    means = "geometric means" if found.geometric else "means"
    says = {
        "on": "Full: no other is better and cheaper, for sure.",
        "open": "Hollow: another may be both." if table["place"].nunique() > 1 else "",
        "off": "Grey: another is both, for sure.",
    }
    shown = " ".join(text for place, text in says.items() if place in {*table["place"]})
    caption = f"{shown}{lines} Costs are {means} over datasets.".strip()
    return Figure(cost_figure(table, found.cost, quality), caption)


# --------------------------------------------------------------------------------------------------
# The answer in words: no more than the tests and the recomputations say, and on what each sentence
# rests.
#
# What the decision says is not said again. "Separated" is said only where the deciding test
# rejects; "leads under" means that the same method leads when everything is computed anew.


#: Worse methods of separated pairs that are named; of more, pairs are counted.
GROUPS = 4
#: Names of the preference functions as the reports write them.
PREFERENCES = {
    "usual": "usual",
    "u_shape": "U-shape",
    "v_shape": "V-shape",
    "level": "level",
    "linear": "linear",
    "gaussian": "Gaussian",
}


def verdict_section(c: Comparison) -> Section | None:
    """Why the decision says so, and what it survives; who is first, the ranking says."""
    if c.deciding is None and not _is_varied(c) and not by_fold(c):
        return None
    why = Late(lambda: [Text([s.text for s in verdict(c)[1:]], role="lead")])
    return Section("verdict", "Verdict", why)


def verdict_data(c: Comparison) -> Data:
    return {"verdict": claims_in(verdict(c), c.options["alpha"])}


def verdict(c: Comparison) -> list[Sentence]:
    """By what methods are in order, which pairs the tests separate, and what that survives: up to
    six sentences computed from the results.

    Examples
    --------
    >>> import pandas as pd
    >>> from mlflow_mleval.analysis.comparison import compare
    >>> from mlflow_mleval.report.blocks import plain
    >>> from mlflow_mleval.study import Study
    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> for sentence in verdict(compare(Study.from_frame(frame))):
    ...     print(plain(sentence.text))
    By mean f1 over 2 datasets, b (0.5) is before a (0.35).
    Over 2 datasets no p-value of a pair lies below .5. It takes 6, or three repeats of every method on each.
    """  # noqa: E501
    return [_lead(c), *_tested(c), *by_fold(c), *_stable(c)]


def by_fold(c: Comparison) -> list[Sentence]:
    """Whom the folds of the only dataset separate from the leader, where they decide."""
    behind = apart_by_folds(c) if c.decides_over == "folds" else None
    if behind is None:
        return []
    from mlflow_mleval.analysis.fold_comparison import lost_pairs

    (folds,) = c.folds.values()
    others = [m for m in folds.methods if m != c.leader]
    whom = listed(behind) if behind else "no other method"
    if len(behind) == len(others) > 1:
        whom = _everyone(others)
    together = " together" if len(folds.measures) > 1 else ""
    doubt = " (in doubt: see the tests by fold)" if (folds.pairs["doubt"] != "").any() else ""
    text = (
        f"Over its {folds.folds_of_a_pair}, by {listed(folds.measures)}{together}, "
        f"{listed(c.leaders)} is separated from {whom}{directions(folds, c.leader, behind)}"
        f"{lost_pairs([folds])}{doubt}."
    )
    says = claim("folds separate" if folds.separated else "folds do not separate")
    return [Sentence(text, says)]


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
    said = grouped((found.direction(leader, other, listed), other) for other in behind)
    if len(found.measures) < 2 or not said:
        return ""
    if len(said) == 1:
        return f": {next(iter(said))}"
    than = (how.replace(" on", f" than {listed(others)} on", 1) for how, others in said.items())
    return f": {'; '.join(islice(than, doc.SHOWN))}"


def _everyone(others: Sequence[str]) -> str:
    return listed(others) if len(others) == 1 else f"{all_of(len(others))} others"


def choices(options: Mapping[str, Any], n_measures: int) -> str:
    """How the measures were fused, in a few words.

    >>> choices({"preference": "v_shape", "weights": "entropy"}, 16)
    'V-shape preference, entropy weights'
    """
    function, weights = options["preference"], options["weights"]
    text = "preference functions by measure"
    if isinstance(function, str):
        text = f"{PREFERENCES[function]} preference"
    if n_measures == 1:
        return text
    return f"{text}, {weights if isinstance(weights, str) else 'given'} weights"


def deciding_test(c: Comparison) -> str:
    """The test that decides about pairs, with its critical difference or correction, and the
    level.
    """
    return f"{present(c.deciding).wording}, α = {level(c.options['alpha'])}"


def _lead(c: Comparison) -> Sentence:
    """By what the methods are in order, and who comes first and next by it."""
    datasets = c.study.datasets
    several = len(c.study.datasets) > 1
    where = f"over {count(len(datasets), 'dataset')}" if several else f"on {listed(datasets)}"
    what = "net flow" if c.on == FUSED else listed([c.on])
    by = f"mean {what}" if several else what
    digits = 3
    values = c.table.mean() if c.on == FUSED else c.study.cells(c.on).mean()
    if c.options["order"] == "mean-rank":
        by = "mean rank"
        digits = 2
        values = c.ranks.mean()
    how = f" ({count(len(c.study.measures), 'measure')}, {choices(c.options, 2)})" * (c.on == FUSED)
    fused = c.on == FUSED or c.options["order"] == "mean-rank"
    shown = {m: fixed(values[m], digits) if fused else number(values[m]) for m in c.order[:2]}
    first, other = (f"{listed([m])} ({value})" for m, value in shown.items())
    verb = "ties with" if len(c.leaders) > 1 else "is before"
    says = claim("ahead", *(["options"] if c.on == FUSED else []))
    return Sentence(f"By {by} {where}{how}, {first} {verb} {other}.", says)


def _tested(c: Comparison) -> list[Sentence]:
    """Which pairs the deciding test separates, or why it can separate none."""
    if c.deciding is None:
        return []
    key = c.deciding.test.key
    if not c.separated and (unable := c.deciding.test.unable(c.deciding.result)):
        return [Sentence(unable, claim("feasible", key))]
    control = c.options["control"]
    n = len(c.order)
    total = n * (n - 1) // 2 if control is None else n - 1
    pairs = count(total, "pair") if control is None else f"{count(total, 'pair')} with the control"
    test = deciding_test(c)
    test = f"{test[:1].upper()}{test[1:]}"
    if not c.separated:
        return [Sentence(f"{test}: none of {pairs} is separated.", claim("none separated", key))]
    apart = set(c.separated)
    below = grouped((tuple(m for m in c.order if (m, x) in apart), x) for x in c.order)
    groups = [f"{listed(better)} from {listed(worse)}" for better, worse in below.items() if better]
    which = f": {'; '.join(groups)}" if len(groups) <= GROUPS else ""
    n_apart = len(c.separated)
    text = f"{test}: {n_apart:,} of {pairs} {agree(n_apart, 'is')} separated{which}."
    return [Sentence(text, claim("separated", key)), *needed_in_words(c)]


def needed_in_words(c: Comparison) -> list[Sentence]:
    """Without which single dataset or other method the separation that depends on most would not
    be.
    """
    found = c.needed_by
    if found is None or found.empty:
        return []
    needed = [[*row.jackknife, *(row.companions or ())] for row in found.itertuples()]
    most = max(range(len(needed)), key=lambda i: len(needed[i]))
    if not needed[most]:
        text = "No separation depends on a single dataset"
        text += "" if found["companions"].isna().any() else " or other method"
    else:
        row = found.iloc[most]
        any_of = "any one of " if len(needed[most]) > 1 else ""
        text = (
            f"Were {any_of}{listed(needed[most], 3)} left out, {listed([row['better']])} would not "
            f"be separated from {listed([row['worse']])}"
        )
    return [Sentence(f"{text}.", claim("survives", "separations"))]


def _stable(c: Comparison) -> list[Sentence]:
    """Under how many other choices the lead stays, and, counted apart, the least certain of the
    separations.
    """
    if not _is_varied(c):
        return []
    lead = c.fusion.ranking.index[0]
    stability = present(c.stability)
    draws = stability.acceptability
    found = present(c.survivals())
    lost, tried = len(found.lost), found.tried
    which = f"{tried - lost or 'none'} of" if lost else "all"
    texts = [f"under {which} {tried} other choices of function, weights or policy"] * (tried > 0)
    texts.append(f"in {percent(draws.acceptability.loc[lead, 1])} of random weightings")
    if found.methods:
        kept = found.methods - len(found.lost_methods)
        left_out = f"of {kept or 'none'} of the {found.methods} others"
        whichever = kept == found.methods
        texts.append(f"without any one {'other method' if whichever else left_out}")
    else_ = f"; else {listed(found.rivals, last='or')} is" if found.rivals else ""
    keys = ("stability.sensitivity", "stability.acceptability", "stability.leave_one_out")
    text = f"{listed([lead])} is ahead {joined(texts)}{else_}."
    said = [Sentence(text, claim("survives", *keys))]
    if separations := stability.separations:
        pairs = {pair: separations.counts[pair] for pair in c.separated}
        (a, b), (stays, of) = min(pairs.items(), key=lambda item: item[1][0] / max(item[1][1], 1))
        which = f"The separation of {listed([a])} from {listed([b])}"
        if stays == of and len(pairs) > 1:
            which = f"Each of the {len(pairs):,} separations"
        elif len(pairs) > 1:
            which += f", the least sure of {len(pairs):,},"
        under = f"all {of}" if stays == of else f"{stays} of {of}"
        text = f"{which} stays under {under} such choices and filters of measures."
        said.append(Sentence(text, claim("survives", "stability.separations")))
    return said


def _is_varied(c: Comparison) -> bool:
    """Whether other choices can say something of the lead."""
    return not (
        c.stability is None or c.on != FUSED or counts_wins(c) or len(c.study.datasets) == 1
    )


def counts_wins(c: Comparison) -> bool:
    """Whether the fused ranking only counts the measures that each of two methods wins, whatever
    the preference function.
    """
    return len(c.order) == 2 and all(c.options[key] is None for key in "pqs")
