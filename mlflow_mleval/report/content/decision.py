"""What a comparison answers: is one method better than another, whom to use of all, in the
measures' own units; the verdict; and on request how probable a difference that matters is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.beyond_pvalues import BeyondPvalues
from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.posthoc.max_t import datasets_needed
from mlflow_mleval.analysis.recommendation import (
    CLOSE,
    NO,
    YES,
    Decision,
    Frontier,
    Question,
    Verdict,
    days_of,
    decision,
    frontier,
    over_time,
)
from mlflow_mleval.analysis.recommendation import question as ask
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    PAGE,
    Column,
    Data,
    Frames,
    Sentence,
    claim,
    joined,
    listed,
    name,
)
from mlflow_mleval.report.figures import TOP
from mlflow_mleval.report.figures.comparisons import cost_figure, leaders_over_time
from mlflow_mleval.report.text import confidence, fixed, level, number, percent, probability_said
from mlflow_mleval.sentences import agree, all_of, count, grouped, in_words, plural
from mlflow_mleval.validation import present

FEW = 2  #: methods that are named; more are counted
ENOUGH = 6  #: on fewer datasets nobody is told what to use
EQUIVALENT = 0.95  #: from this probability on methods count as equivalent


def section(c: Comparison, asked: Question, command: str = "") -> doc.Section:
    """The question about two methods with its forest plot, whom to use, and what could turn it."""
    texts = [s.text for s in sentences(c, asked)]
    said, pair = _said(c, asked, command), {"a": asked.a, "b": asked.b}
    block = doc.Asked(texts, "answer", depth=doc.ALWAYS, said=said, pair=pair)
    return doc.Section("decision", "Decision", [block], open=True)


def data(c: Comparison, asked: Question) -> Data:
    """What JSON holds of the decision and of the question."""
    advice = decision(c)
    facts = ("evidence", "ahead", "best_set", "worse", "next", "equivalent", "n_datasets", "turns")
    said = doc.claims_in(sentences(c, asked, advice), c.options["alpha"])
    answer = {"sentences": said, **doc.named(advice, *facts), "means": advice.means.to_dict()}
    v, measures = asked.verdict, asked.measures.rename_axis("measure").reset_index()
    verdict = {"of": v.of, "over": v.unit, "verdict": v.word(), "needed": v.needed}
    found = {**verdict, "crossing": v.crossing, "rows": v.rows, "measures": measures}
    return {"answer": answer, "question": {"a": asked.a, "b": asked.b, **found}}


def sentences(
    c: Comparison, asked: Question | None = None, advice: Decision | None = None
) -> list[Sentence]:
    """Is one better; of more than two, whom to use or who may be as good; what could turn it."""
    asked = asked or ask(c)
    advice = advice or decision(c)
    row = asked.verdict.main
    own = row is not None and row["measure"] == FUSED and not row["dataset"]
    # that the first is ahead, by how much, and where nothing decides that it is too close to call
    said = own and [asked.a, asked.b] == [*advice.ahead, advice.next]
    who = [] if len(c.order) < 3 or (said and not advice.evidence) else [_who(c, advice)]
    doubt = _doubt(c, advice)
    last = [Sentence(doubt, claim("best set"))] if doubt else []
    word = asked.verdict.word()
    text = f"{title(asked)} {word}: {_answer_in_words(c, asked)}"
    key = CLAIMS[word] if asked.verdict.unit else "ahead"
    return [Sentence(text, claim(key)), *who, *last]


# --------------------------------------------------------------------------------------------------
# The reader's question, "Is A better than B?": the verdict in a line, the differences by measure,
# and what would settle it.

#: Measures in whose units a verdict by all together is told; rows of the forest plot.
TOLD, ROWS = 2, 24
NOTHING = "No number that anybody would collect."
CLAIMS = {YES: "use one", NO: "separated", CLOSE: "best set"}
_MORE = {
    "answers": "more questions",
    "instances": "more instances",
    "repeats": "more runs of each, with other seeds",
    "datasets": "more datasets",
}


def title(q: Question) -> str:
    return f"Is {name(q.a)} better than {name(q.b)}?"


def _answer_in_words(c: Comparison, q: Question) -> str:
    """By how much, with its interval, of what; and why no more can be said."""
    v = q.verdict
    if v.crossing and v.word() == CLOSE:
        sides = ((q.a, v.crossing["a"]), (q.b, v.crossing["b"]))
        where = " and ".join(f"{name(m)} on {listed(datasets)}" for m, datasets in sides)
        return f"it depends. Certainly better are {where}. {_of(c, v)}"
    return f"{_ahead(c, q, present(v.main))}. {_of(c, v)}"


def _ahead(c: Comparison, q: Question, row: Mapping[str, Any]) -> str:
    """Which of the two is better or ahead, in what and by how much."""
    v, size = q.verdict, float(row["difference"])
    if np.isnan(size):
        return "no dataset was finished by both"
    first, other = (q.a, q.b) if size >= 0 else (q.b, q.a)
    better, worse = name(first), name(other)
    what, by = _what(c, row, v, first, other), _by(c, row)
    if v.crossing:
        against = listed(v.crossing["b" if first == q.a else "a"])
        return f"{better} is better on average{by}, but certainly worse on {against}"
    close = v.word() == CLOSE
    mean = float(q.measures.loc[c.on, "difference"]) if c.on != FUSED == row["measure"] else 0.0
    if mean * size < 0:
        by_mean = f"by its mean ({number(abs(mean), 2)})"
        as_tested = f"as the test compares them{by}"
        if close:
            return f"{worse} is ahead {what} {by_mean}, {better} {as_tested}"
        return f"{better} is better than {worse} {what} {as_tested}, but {worse} {by_mean}"
    on = f" on {name(row['dataset'])}" if row["dataset"] else ""
    if close and not size:
        return f"they are level {what}{on}"
    own = _own(c, q, first) if size and row["measure"] == FUSED and not row["dataset"] else ""
    verb = "ahead" if close else f"better than {worse}"
    return f"{better} is {verb} {what}{on}{by}{own}"


def _what(c: Comparison, row: Mapping[str, Any], v: Verdict, better: str, worse: str) -> str:
    """In what one of two is better; where the ranking has them the other way round, also why."""
    if row["measure"] != FUSED or c.on != FUSED:
        return f"in {name(c.on if row['measure'] == FUSED else row['measure'])}"
    if row["dataset"] or c.order.index(better) < c.order.index(worse):
        return "overall"
    if v.unit == "datasets" and row["n"] < len(c.study.datasets):
        return f"on the {row['n']:.0f} datasets that both have"
    return "as the test compares them"


def _by(c: Comparison, row: Mapping[str, Any]) -> str:
    """By how much the better of two is so, with the interval of the test."""
    size, low, high = (float(row[key]) for key in ("difference", "low", "high"))
    if size < 0:
        size, low, high = -size, -high, -low
    by = f"net flow {number(size, 2)}" if row["measure"] == FUSED else number(size, 2)
    if np.isfinite([low, high]).all():
        level = confidence(c.options["alpha"])
        return f" ({by}, {level} interval {number(low, 2)} to {number(high, 2)})"
    alone = row["measure"] == FUSED and len(c.study.datasets) == 1
    return "" if alone else f" ({by})"


def _own(c: Comparison, q: Question, better: str) -> str:
    """The difference by the measures of most weight, in their own units."""
    if c.on != FUSED:
        return f", {number(abs(q.measures.loc[c.on, 'difference']), 2)} on average"
    sizes = q.measures.loc[c.fusion.by_weight[:TOLD], "difference"].dropna()
    if sizes.empty:  # no dataset was finished by both
        return ""
    sizes = sizes * (1 if better == q.a else -1)
    parts = []
    for m, size in sizes.items():
        how_far = f"{number(abs(size), 2)} {'better' if size > 0 else 'worse'}"
        parts.append(f"{how_far if size else 'level'} in {name(m)}")
    return f", {'but on average ' if (sizes < 0).all() else ''}{joined(parts)}"


def _of(c: Comparison, v: Verdict) -> str:
    """Of what it is a claim, or why it is none."""
    n = len(c.study.datasets)
    if v.unit:
        units = int(v.main["n"]) if v.main else 0
        runs = (v.rows if v.by_dataset.empty else v.by_dataset)["n"].astype(int)
        least = f"{runs.min()} to " if runs.min() < runs.max() else ""
        least = "up to " if c.study.filled else least
        method = " method on each" if n > 1 else ""
        again = f"these {in_words(n)} datasets trained again" if n > 1 else v.of
        of = {
            "datasets": f"{v.of}, from {units}" if units < n else v.of,
            "repeats": f"{again}, {least}{runs.max()} runs of each{method}",
            "folds": f"{again}, {units} folds{' each' if n > 1 else ''}",
        }
        return f"For {of.get(v.unit, f'these {units:,} {v.unit}')}."
    if c.decides_over:
        return "These two were not tested against each other."
    if n > 1:
        return f"{in_words(n).capitalize()} datasets cannot tell methods apart."
    if c.study.repeats is None:
        return "One run each: chance is not excluded."
    return "Too few runs of each to exclude chance."


def needed(c: Comparison, v: Verdict) -> str:
    """What would settle it; empty where it is settled."""
    if v.word() != CLOSE or v.crossing:
        return ""
    n = len(c.study.datasets)
    if not v.unit and n > 1:
        more = count(max(datasets_needed(v.alpha) - n, 1), "more dataset")
        return f"{more}, or three runs of each method on every one of these."
    if not v.unit:
        return f"{v.needed} {_MORE['repeats']}."
    if v.needed and v.unit in _MORE:
        return f"About {v.needed:,} {_MORE[v.unit]}, if the difference stays what it is."
    return "Runs with other seeds, or answers one by one." if v.unit == "folds" else NOTHING


def _said(c: Comparison, q: Question, command: str) -> Data:
    """The verdict with the rows of its forest plot: what decides, then each measure or dataset."""
    v = q.verdict
    parts = [v.rows.assign(decides=True)]
    unjudged = {"decides": False, "separated": False, "low": np.nan, "high": np.nan}
    if set(v.rows["measure"]) == {FUSED}:
        alone = q.measures.rename_axis("measure").reset_index()
        parts.append(alone.assign(dataset="", **unjudged))
    if not v.by_dataset.empty:
        described = {"decides": False} if v.crossing else unjudged
        parts.append(v.by_dataset.assign(**described))
    told = pd.concat(parts, ignore_index=True).dropna(subset="difference").head(ROWS)
    told = told.astype({"separated": bool, "decides": bool})
    # The scales of measures without an interval: those between 0 and 1 share one, so that a small
    # difference looks small; others reach as far as the best and the worst mean lie apart.
    values = c.study.values
    means = values.groupby(level="method").mean()
    shares = {*values.columns[(values.min() >= 0) & (values.max() <= 1)]}
    bare = told[~np.isfinite(told["low"].astype(float)) & told["measure"].isin(shares)]
    reaches = (means.max() - means.min()).to_dict()
    reaches |= dict.fromkeys(shares, float(bare["difference"].abs().max()))
    settles = needed(c, v)
    return {
        "word": v.word(),
        "text": _answer_in_words(c, q),
        "needed": settles,
        "command": command if settles not in ("", NOTHING) else "",
        "rows": [_row(row, c.on, reaches) for row in told.to_dict("records")],
    }


def _row(row: Data, on: str, reaches: dict[str, float]) -> Data:
    """A row of the forest plot: places in percent of a scale of its own, and what is written."""
    low, size, high = (float(row[key]) for key in ("low", "difference", "high"))
    limits = [x if np.isfinite(x) else None for x in (low, high)]
    ends = [abs(x) for x in limits if x is not None] or [reaches.get(row["measure"], 0.0)]
    reach = 1.12 * float(np.nanmax([abs(size), *ends, 1e-12]))
    places = [None if x is None else round(50 + 50 * x / reach, 3) for x in (*limits, size)]
    fused = row["measure"] == FUSED
    label = name(row["measure"])
    if fused:
        label = "all together, net flow" if on == FUSED else f"{name(on)}, net flow"
    return {
        "label": f"{label} on {name(row['dataset'])}" if row["dataset"] else label,
        "places": places,
        "difference": f"{'+' if size > 0 else ''}{number(size, 2)}",
        "interval": "" if None in limits else f"{number(low, 2)} to {number(high, 2)}",
        "data": {
            **{"measure": row["measure"], "part": row["dataset"]},
            **{"low": limits[0], "high": limits[1], "size": size},
            **{"apart": row["separated"], "decides": row["decides"]},
            **{"reach": reach, "own": not fused},
        },
    }


# --------------------------------------------------------------------------------------------------
# Of more than two methods: whom to use or who may be as good, and what could turn it.


def units_section(c: Comparison) -> doc.Section:
    """The means of the best methods by the measures; how they differ, the tests of pairs say."""

    def blocks() -> list[Any]:
        means = decision(c).means
        each = " that all of these methods finished" if c.study.filled else ""
        over = f"Means over the datasets{each}." if len(c.study.datasets) > 1 else ""
        columns = doc.by_measure(means, c.study.directions)
        columns.insert(0, doc.names("method", means.index))
        return [doc.Table(columns, len(c.order), things="methods", note=over, depth=PAGE)]

    return doc.Section("units", "In the measures' own units", doc.Late(blocks))


def _who(c: Comparison, advice: Decision) -> Sentence:
    """Whom to use or who is ahead, who else may be as good, and who is clearly worse."""
    who = listed(advice.ahead, 3)
    if advice.next is None:
        return Sentence(f"{who} come out alike.", claim("best set"))
    if len(advice.ahead) == len(advice.best_set) == 1:
        if advice.evidence == "datasets" and len(c.study.datasets) >= ENOUGH:
            return Sentence(f"Use {who}.", claim("use one"))
        others = c.order[1:]
        whom = listed(others) if len(others) == 1 else f"{all_of(len(others))} others"
        return Sentence(f"{who} is ahead of {whom}.", claim("separated"))
    if advice.equivalent is not None and advice.equivalent >= EQUIVALENT:
        pair = listed(c.order[:2])
        return Sentence(f"{pair} are equivalent, as far as it matters.", claim("equivalent"))
    if not advice.evidence:
        comes = agree(advice.ahead, "comes")
        return Sentence(f"{who} {comes} first, too close to call.", claim("ahead"))
    equals = [m for m in advice.best_set if m not in advice.ahead]
    as_good = listed(equals)
    if len(equals) > FEW:
        some = in_words(len(advice.best_set)) if advice.worse else "any"
        as_good = f"{some} of the {in_words(len(c.order))} methods"
    but = f", but {as_good} may be as good" if equals else ""
    text = f"{who} {agree(advice.ahead, 'is')} ahead{but}{_worse(c, advice)}."
    return Sentence(text, claim("separated" if advice.worse else "best set"))


def _worse(c: Comparison, advice: Decision) -> str:
    """Who is clearly worse than the leader, or else than others."""
    control = c.options["control"]
    if not advice.worse:
        return "" if control is None else f"; only {name(control)} was compared with all"
    leader = advice.ahead[0]
    whom = leader if all(pair in c.told_apart for pair in product([leader], advice.worse)) else ""
    worse = listed(advice.worse)
    if len(advice.worse) > FEW:
        worse = in_words(len(advice.worse))
    than = name(whom) if whom else "others"
    return f"; {worse} {agree(advice.worse, 'is')} clearly worse than {than}"


def _doubt(c: Comparison, advice: Decision) -> str:
    """What could turn it; one dataset has no weights that could."""
    turns = advice.turns
    if turns is None or len(c.study.datasets) == 1:
        return ""
    kind = turns["kind"]
    if kind == "tie":
        return "Which of them is ahead depends on the weights of the measures."
    if kind == "two methods":
        return "The ranking only counts which measures each wins, not by how much."
    open_anyway = advice.evidence == "datasets" and not advice.worse and len(advice.best_set) > 2
    if open_anyway and kind != "policy":
        return ""
    what = "all measures weighed alike"
    if kind == "weight":
        to, now = percent(turns["to"]), percent(turns["weight"])
        what = f"{name(str(turns['choice']))} counted for {to} instead of {now}"
    elif kind == "policy":
        what = "the datasets that some method did not finish were left out"
    return f"If {what}, {listed(turns['methods'], last='or')} would be ahead."


def cost_section(c: Comparison) -> doc.Section | None:
    """Quality against cost; nothing where the study holds no cost."""
    found = frontier(c)
    if found is None:
        return None

    def blocks() -> list[Any]:
        table = found.table.head(TOP)
        quality = c.compared if c.on == FUSED else f"net flow φ by {c.compared}"
        if c.options["order"] == "mean-rank":
            quality = "mean rank, turned"
        caption = (
            "Full: no other is better and cheaper, for sure; hollow: another may be both; grey: "
            "another is both, for sure."
        )
        if table[["low", "cost_low"]].notna().any(axis=None):
            level = confidence(c.options["alpha"])
            caption += f" Lines: {level} intervals of the tests, those of each side together."
        caption += f" Costs are {'geometric ' if found.geometric else ''}means over datasets."
        figure = doc.Figure(cost_figure(table, found.cost, quality), caption)
        return [doc.Text([cost_sentence(found)]), figure]

    return doc.Section("cost", "Cost beside quality", doc.Late(blocks))


def cost_data(c: Comparison) -> Data:
    """What JSON holds of cost: its name, the sentence, and the methods with their places."""
    found = frontier(c)
    if found is None:
        return {"cost": None}
    table = found.table.rename_axis("method").reset_index()
    return {"cost": {"name": found.cost, "sentence": cost_sentence(found), "methods": table}}


def cost_sentence(found: Frontier) -> str:
    """Who is on the frontier for sure, and who may be."""
    where = {place: listed(part.index, 3) for place, part in found.table.groupby("place")}
    says = {
        "on": "nobody is both better and cheaper than {}",
        "off": "some other method is both better and cheaper than {}",
        "open": "of {} tests cannot say whether another is both better and cheaper",
    }
    said = [text.format(where[place]) for place, text in says.items() if place in where]
    return f"By {name(found.cost)}: {'; '.join(said)}."


# --------------------------------------------------------------------------------------------------
# The verdict: no more than the tests and the recomputations say, and not what the decision says.
# "Separated" is said only where the deciding test rejects; "is ahead under" means that the same
# method leads when everything is computed anew.

GROUPS = 4  #: worse methods of separated pairs that are named; of more, pairs are counted
#: Names of the preference functions as the reports write them.
PREFERENCES = {
    "usual": "usual",
    "u_shape": "U-shape",
    "v_shape": "V-shape",
    "level": "level",
    "linear": "linear",
    "gaussian": "Gaussian",
}


def verdict_section(c: Comparison) -> doc.Section | None:
    """Why the decision says so, and what it survives; who is first, the ranking says."""
    if c.deciding is None and not _is_varied(c) and not by_fold(c):
        return None
    why = doc.Late(lambda: [doc.Text([s.text for s in verdict(c)[1:]], role="lead")])
    return doc.Section("verdict", "Verdict", why)


def verdict_data(c: Comparison) -> Data:
    return {"verdict": doc.claims_in(verdict(c), c.options["alpha"])}


def verdict(c: Comparison) -> list[Sentence]:
    """By what methods are in order, which pairs the tests separate, and under how many other
    choices the lead and the least certain separation stay: up to six sentences."""
    said = [_lead(c), *tested(c)]
    if not _is_varied(c):
        return said
    lead = c.fusion.ranking.index[0]
    found, stability = present(c.survivals()), present(c.stability)
    texts = [f"in {percent(stability.acceptability.loc[lead, 1])} of random weightings"]
    if found.tried:
        under = _out_of(found.tried - len(found.lost), found.tried)
        texts.insert(0, f"under {under} other choices of function, weights or policy")
    if found.methods:
        kept = found.methods - len(found.lost_methods)
        which = (
            "other method" if kept == found.methods else f"of {_out_of(kept, found.methods)} others"
        )
        texts.append(f"without any one {which}")
    else_ = f"; else {listed(found.rivals, last='or')} is" if found.rivals else ""
    keys = ("stability.sensitivity", "stability.acceptability", "stability.leave_one_out")
    text = f"{name(lead)} is ahead {joined(texts)}{else_}."
    said.append(Sentence(text, claim("survives", *keys)))
    if separations := stability.separations:
        pairs = {pair: separations.counts[pair] for pair in c.separated}
        (a, b), counts = min(pairs.items(), key=lambda item: item[1][0] / max(item[1][1], 1))
        which = f"The separation of {name(a)} from {name(b)}"
        if len(pairs) > 1:
            which += f", the least sure of {len(pairs):,},"
            which = f"Each of the {len(pairs):,} separations" if counts[0] == counts[1] else which
        text = f"{which} stays under {_out_of(*counts)} such choices and filters of measures."
        said.append(Sentence(text, claim("survives", "stability.separations")))
    return said


def by_fold(c: Comparison) -> list[Sentence]:
    """Whom the folds of the only dataset separate from the leader, where they decide it."""
    found = next(iter(c.folds.values()), None)
    if c.decides_over != "folds" or found is None or len(c.folds) > 1 or len(c.leaders) > 1:
        return []
    others = [m for m in found.methods if m != c.leader]
    if len(others) == len(found.methods):
        return []
    from mlflow_mleval.analysis.fold_comparison import lost_pairs

    behind = [m for m in others if found.is_separated(c.leader, m)]
    whom = listed(behind) if behind else "no other method"
    if len(behind) == len(others) > 1:
        whom = f"{all_of(len(others))} others"
    together = " together" if len(found.measures) > 1 else ""
    doubt = " (in doubt: see the tests by fold)" if (found.pairs["doubt"] != "").any() else ""
    text = (
        f"Over its {found.folds_of_a_pair}, by {listed(found.measures)}{together}, "
        f"{listed(c.leaders)} is separated from {whom}{lost_pairs([found])}{doubt}."
    )
    return [Sentence(text, claim(f"folds {'separate' if found.separated else 'do not separate'}"))]


def choices(options: Mapping[str, Any], n_measures: int) -> str:
    """How the measures were fused: "V-shape preference, entropy weights"."""
    function, weights = options["preference"], options["weights"]
    text = "preference functions by measure"
    if isinstance(function, str):
        text = f"{PREFERENCES[function]} preference"
    if n_measures == 1:
        return text
    return f"{text}, {weights if isinstance(weights, str) else 'given'} weights"


def _lead(c: Comparison) -> Sentence:
    """By what the methods are in order, and who comes first and next by it."""
    datasets, fused = c.study.datasets, c.on == FUSED
    several = len(datasets) > 1
    where = f"over {count(len(datasets), 'dataset')}" if several else f"on {listed(datasets)}"
    by = "net flow" if fused else name(c.on)
    values = c.table.mean() if fused else c.study.cells(c.on).mean()
    shown = {m: fixed(values[m], 3) if fused else number(values[m]) for m in c.order[:2]}
    if c.options["order"] == "mean-rank":
        by = "mean rank"
        shown = {m: fixed(c.ranks[m].mean(), 2) for m in c.order[:2]}
    elif several:
        by = f"mean {by}"
    n = count(len(c.study.measures), "measure")
    how = f" ({n}, {choices(c.options, 2)})" if fused else ""
    first, other = (f"{name(m)} ({value})" for m, value in shown.items())
    verb = "ties with" if len(c.leaders) > 1 else "is before"
    says = claim("ahead", *(["options"] if fused else []))
    return Sentence(f"By {by} {where}{how}, {first} {verb} {other}.", says)


def tested(c: Comparison) -> list[Sentence]:
    """Which pairs the deciding test separates, or why none; or else what folds say that decide."""
    if c.deciding is None:
        return by_fold(c)
    key = c.deciding.key
    if not c.separated and (unable := c.deciding.unable):
        return [Sentence(unable, claim("feasible", key))]
    pairs = count(c.n_pairs, "pair")
    if c.options["control"] is not None:
        pairs += " with the control"
    test = doc.capitalised(f"{c.deciding.wording}, α = {level(c.options['alpha'])}")
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
    """Without which single dataset or other method the least robust separation would not be."""
    found = c.needed_by
    if found is None or found.empty:
        return []
    needed = [len(row.jackknife) + len(row.companions or ()) for row in found.itertuples()]
    most = int(np.argmax(needed))
    if not needed[most]:
        text = "No separation depends on a single dataset"
        text += "" if found["companions"].isna().any() else " or other method"
    else:
        row = found.iloc[most]
        kinds = {"dataset": row["jackknife"], "method": row["companions"] or ()}
        gone = " or ".join(
            f"the {kind if len(held) == 1 else plural(kind)} {listed(held, 3)}"
            for kind, held in kinds.items()
            if held
        )
        any_of = "any one of " if needed[most] > 1 else ""
        text = (
            f"Were {any_of}{gone} left out, {name(row['better'])} would not be separated from "
            f"{name(row['worse'])}"
        )
    return [Sentence(f"{text}.", claim("survives", "separations"))]


def _out_of(kept: int, total: int) -> str:
    return f"all {total}" if kept == total else f"{kept or 'none'} of {total}"


def _is_varied(c: Comparison) -> bool:
    """Whether other choices can say something of the lead."""
    one = c.on != FUSED or len(c.study.datasets) == 1
    return c.stability is not None and not one and not counts_wins(c)


def counts_wins(c: Comparison) -> bool:
    """Whether the fused ranking only counts the measures that each of two methods wins."""
    return len(c.order) == 2 and all(c.options[key] is None for key in "pqs")


# --------------------------------------------------------------------------------------------------
# On request: how probable a difference that matters is, and what it would take to know.

PAIRS = 500  #: rows of a table
#: A decision in a cell.
DECISIONS = {"a": "first", "b": "second", "equivalent": "equivalent", "undecided": "undecided"}
PARTS = {"bayes": "Probabilities", "equivalence": "Equivalence", "curve": "Power of max-T"}


def beyond_section(c: Comparison) -> doc.Section | None:
    """Probabilities and planning; nothing where no rope was given."""
    if c.options["rope"] is None:
        return None

    def blocks() -> list[Any]:
        found = present(c.beyond)
        made: list[Any] = [doc.Text(beyond_sentences(c), "points")]
        made += doc.points(found.warnings, "Doubts about these")
        if found.bayes is not None:
            made.append(beyond_pairs(found, c.order, c.compared))
        return made

    return doc.Section("beyond", "Beyond p-values", doc.Late(blocks))


def beyond_sentences(c: Comparison) -> list[str]:
    """The verdicts over datasets, a sentence a part; the parts that are absent, with reasons."""
    found = present(c.beyond)
    small = f"Differences of {c.compared} up to {number(found.rope)} count as too small to matter."
    texts = [small]
    for part in (found.bayes, found.equivalence):
        if part is not None:
            texts.append(doc.capitalised(part.verdict(), c.order))
    if found.curve is not None:
        texts.append(found.curve.sentence(" by step-down max-T", name))
    reasons = grouped((reason, PARTS[key]) for key, reason in found.absent.items())
    for reason, which in reasons.items():
        texts.append(f"Not computed: {doc.joined(which)} ({reason.rstrip('.')}).")
    return [text for text in texts if text]


def beyond_pairs(found: BeyondPvalues, order: Sequence[str], what: str) -> doc.Table:
    """The pairs, the better one by mean rank first, the most certain ones at the top:
    probabilities, equivalence. `order` has the methods, best first."""
    table = present(found.pair_table(order))
    bayes = present(found.bayes)
    shown = table.head(PAIRS)
    decided = (
        f"Decided: what reaches {bayes.credible_level:g}; not corrected for the number of pairs, "
        f"of which chance would call {bayes.by_chance:.1f} different."
    )
    columns = [
        *doc.pair(shown),
        Column("decided", [DECISIONS[d] for d in shown["decision"]], "<", note=decided),
        *_probable(shown, ["p_a", "p_equivalent", "p_b"], bayes, f"difference of {what}"),
    ]
    if found.equivalence:
        note = "Equivalent p: two one-sided tests, corrected for the number of pairs."
        columns.append(doc.pvalues("equivalent p", shown["equivalence_p"], keep=1, note=note))
    title = "Every pair over the datasets"
    return doc.Table(columns, len(table), title, things="pairs", depth=PAGE)


def _probable(rows: pd.DataFrame, shares: list[str], pairs: Any, what: str) -> list[Column]:
    """How probable it is that the first is better, neither, or the second; how far they differ."""
    note = "P: probability that the first, neither or the second is better by more than the rope."
    columns = [
        Column(head, [*map(probability_said, rows[key])], keep=3)
        for head, key in zip(("P first", "P same", "P second"), shares, strict=True)
    ]
    interval = f"{pairs.credible_level:.0%} credible interval, each alone"
    note += f" Difference: {what}, positive where the first is better, with its {interval}."
    limits = rows[["mean_difference", "low", "high"]]
    return [*columns, doc.intervals("difference", limits, keep=1, note=note)]


def beyond_data(c: Comparison) -> Data:
    if (found := c.beyond) is None:
        return {"beyond": None}
    keys = ("rope", "methods", "bayes", "equivalence", "curve", "absent", "warnings")
    return {"beyond": {"sentences": beyond_sentences(c), **doc.named(found, *keys)}}


# --------------------------------------------------------------------------------------------------
# Would it be better on the next dataset? The hierarchical correlated t test.


def next_dataset_section(c: Comparison) -> doc.Section | None:
    """Sentences and the pairs, or what it lacks; nothing where it was not asked for."""
    if not c.options["next_dataset"]:
        return None

    def blocks() -> list[Any]:
        found = c.next_dataset
        if found is None:
            lacks = "It takes folds or repeats on at least two datasets to tell of the next one."
            return [doc.Text([lacks])]
        text = doc.Text([s.text for s in next_dataset_sentences(c)])
        if all(pairs.table["p_better"].isna().all() for pairs in found.pairs.values()):
            return [text]
        parts = [found.table(m, c.order).assign(measure=m) for m in found.pairs]
        rows = pd.concat(parts, ignore_index=True)
        what = "the typical one, of which P is the mean over the posterior"
        pairs = next(iter(found.pairs.values()))
        columns = [
            *doc.pair(rows),
            doc.names("measure", rows["measure"]),
            *_probable(rows, ["p_better", "p_equivalent", "p_worse"], pairs, what),
            doc.numbers("datasets", rows["n"], keep=1),
        ]
        title = "Pairs on the next dataset"
        table = doc.Table(columns, title=title, key="next-dataset", things="pairs")
        return [text, *doc.points(found.doubts, "Doubts about these"), table]

    return doc.Section("next_dataset", "On the next dataset", doc.Late(blocks))


def next_dataset_sentences(c: Comparison) -> list[doc.Sentence]:
    """By measure: how probable it is that the first of the first pair is better, alike or worse on
    the next dataset; what this rests on."""
    found = c.next_dataset
    if found is None:
        return []
    said = []
    for measure, pairs in found.pairs.items():
        row = found.table(measure, c.order).iloc[0]
        a, b, by = map(name, (row.method_a, row.method_b, measure))
        if np.isnan(row.p_better):
            said.append(
                f"Whether {a} would be better than {b} by {by} on the next dataset, this cannot "
                "tell: their differences by dataset are far from the t distribution that it takes."
            )
            continue
        better, same, worse = map(probability_said, (row.p_better, row.p_equivalent, row.p_worse))
        said.append(
            f"On the next dataset {a} would be better than {b} by {by} with probability {better}, "
            f"within {number(pairs.rope)} ({found.ropes_from[measure]}) with {same}, and worse "
            f"with {worse}."
        )
    kind = {"folds": "their folds", "repeats": "repeats with other seeds"}[found.over]
    said.append(
        f"This rests on datasets that are drawn as these {len(found.rho)} were, each known as "
        f"well as {kind} tell (hierarchical correlated t test)."
    )
    return [doc.Sentence(text, doc.claim("next dataset")) for text in said]


def next_dataset_data(c: Comparison) -> Data:
    if (found := c.next_dataset) is None:
        return {"next_dataset": None}
    keys = ("doubts", "over", "pairs", "ropes", "ropes_from", "rho", "methods", "absent")
    said = [s.text for s in next_dataset_sentences(c)]
    return {"next_dataset": {"sentences": said, **doc.named(found, *keys)}}


def next_dataset_frames(c: Comparison) -> Frames:
    """The pairs and the shrunken differences of all measures."""
    if (found := c.next_dataset) is None:
        return {}
    frames = {}
    for file, table in {"pairs": "table", "shrunken": "shrunken"}.items():
        by_measure = {m: getattr(pairs, table) for m, pairs in found.pairs.items()}
        whole = pd.concat(by_measure, names=["measure"]).reset_index(0)
        frames[f"next_dataset_{file}"] = whole
    return frames


def over_time_section(c: Comparison, each: int = 0) -> doc.Section | None:
    """Who led on each day, or after `each` so many runs; nothing where all came on one day."""
    if not days_of(c.study):
        return None

    def blocks() -> list[Any]:
        then = over_time(c, each)
        if len(then) < 2:
            return [doc.Text(["Earlier too little was there to compare."])]
        caption = (
            "Large dot: leads. Ring: may be as good. Small dot: clearly worse. By the results "
            "that were complete then, on the datasets that all of these methods had finished. "
            "Each column is tested by itself: a method that passes in and out of the best set "
            "may do so by chance."
        )
        return [doc.Figure(leaders_over_time(then, c.order), caption)]

    return doc.Section("over_time", "Over time", doc.Late(blocks))
