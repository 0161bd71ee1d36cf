"""The answer in two lines and a small picture, in the measures' own units and without words of
statistics.
"""

from typing import Any

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.recommendation import Decision, decision
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    ALWAYS,
    PAPER,
    Figure,
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
from mlflow_mleval.report.content.definitions import within_range
from mlflow_mleval.report.content.verdict import apart_by_folds, directions
from mlflow_mleval.report.figures.pair_diagrams import means_figure
from mlflow_mleval.report.text import ARROWS, aligned, number, with_intervals
from mlflow_mleval.words import agree, all_of, count

#: Methods in the picture.
SHOWN = 5


def section(c: Comparison) -> Section:
    """Whom to use, by how much, how sure, and what could turn it."""
    text = Text([s.text for s in sentences(c)], role="answer", depth=ALWAYS)
    return Section("decision", "Decision", [text], open=True)


def units_section(c: Comparison) -> Section:
    """The best methods in the units of the measures."""
    return Section("units", "In the measures' own units", [_picture(c, decision(c))])


def data(c: Comparison) -> dict[str, Any]:
    advice = decision(c)
    means = {m: table.rename_axis("method").reset_index() for m, table in advice.means.items()}
    differences = {m: {"mean": mean, "n": n} for m, (mean, n) in advice.differences.items()}
    facts = doc.named(
        advice, "methods", "best", "separated", "by_answers", "next", "measures", "turns"
    )
    return {
        "answer": {
            "sentences": claims_in(sentences(c, advice), c.options["alpha"]),
            **facts,
            "means": means,
            "differences": differences,
        }
    }


def sentences(c: Comparison, advice: Decision | None = None) -> list[Sentence]:
    """Whom to use and by how much; how sure, and the one doubt that could turn it."""
    advice = advice or decision(c)
    first = " ".join(filter(None, [_who(c, advice), _by_how_much(c, advice)]))
    second = " ".join(filter(None, [_how_sure(c, advice), _about(c), _doubt(c, advice)]))
    return [
        Sentence(first, claim(_claimed(c, advice))),
        *([Sentence(second, claim("best set"))] if second else []),
    ]


def _claimed(c: Comparison, advice: Decision) -> str:
    """Which claim the first sentence makes: that nobody else may be the best, or who is ahead."""
    alone = advice.next is not None and len(advice.methods) == len(advice.best) == 1
    return "use one" if alone else "by how much"


def _who(c: Comparison, advice: Decision) -> str:
    who = listed(advice.methods)
    if advice.next is None:
        return f"{who} come out alike."
    if len(advice.methods) > 1:
        return f"{who} tie for the first place."
    if len(advice.best) == 1:
        return f"Use {who}."
    if advice.by_answers is not None or (advice.separated is None and apart_by_folds(c) != []):
        return f"{who} is ahead."
    if len(c.order) == 2:
        return f"{who} is ahead of {listed([advice.next])}, but the difference is not certain."
    return (
        f"Try {who} first."
        if advice.separated
        else f"{who} is ahead, but no difference from it is certain."
    )


def _by_how_much(c: Comparison, advice: Decision) -> str:
    """The leader against the next, by means over the datasets that both finished."""
    if advice.next is None:
        return ""
    parts = []
    for measure, (difference, n) in advice.differences.items():
        if n:
            better = difference if c.study.directions[measure] == "max" else -difference
            word = "better" if better > 0 else "worse"
            parts.append(
                f"{number(abs(difference), 2)} {word} in {name(measure)}"
                if better
                else f"level in {name(measure)}"
            )
    if not parts:
        return ""
    n, total = max(n for _, n in advice.differences.values()), len(c.study.datasets)
    where = (
        f"on {listed(c.study.datasets)}"
        if total == 1
        else "on average"
        if n == total
        else (f"on average over the {count(n, 'dataset')} that both finished")
    )
    if len(c.order) == 2:
        return f"It is {joined(parts)}, {where}."
    who = listed([c.leader]) if len(advice.methods) > 1 else "it"
    return f"Against {listed([advice.next])}, the next, {who} is {joined(parts)}, {where}."


def _how_sure(c: Comparison, advice: Decision) -> str:
    if advice.separated is None:
        return (
            f"{_how_sure_on_one(c, advice)}One dataset cannot say whether it would be so on others."
        )
    if len(advice.methods) > 1:
        return f"The best may be any of {len(advice.best)}." if len(advice.best) > 1 else ""
    total, control = len(c.order) - 1, c.options["control"]
    if control is not None and control != c.leader:
        apart = "is" if c.is_separated(c.leader, control) else "is not"
        return (
            f"Only {listed([control])} was compared with all others, and {listed([c.leader])} "
            f"{apart} separated from it."
        )
    if total == 1:
        return "The two are separated." if advice.separated else ""
    everyone = len(advice.separated) == total
    whom = all_of(total) if everyone else f"{len(advice.separated) or 'none'} of {total}"
    best = f"the best is one of {len(advice.best)}"
    if len(advice.best) == 1:
        best = "no other may be the best"
    rest = "" if control is not None or everyone else f"; {best}"
    return f"It is separated from {whom} others{rest}."


def _about(c: Comparison) -> str:
    """What the answer is about where that is less than datasets like these."""
    if c.decides_over != "repeats":
        return ""
    n = len(c.study.datasets)
    return f"That is about {'this dataset' if n == 1 else f'these {n} datasets'}, trained again."


def _how_sure_on_one(c: Comparison, advice: Decision) -> str:
    """What folds or answers say on the only dataset; nothing where they do not tell."""
    if behind := apart_by_folds(c):
        folds = next(iter(c.folds.values()))
        same = [m for m in folds.methods if m not in (c.leader, *behind)]
        rest = f"; it is not separated from {listed(same)}" if same else ""
        better = directions(folds, c.leader, behind)
        return f"Its folds separate it from {listed(behind)}{better}{rest}. "
    if advice.by_answers is None or len(advice.methods) > 1 or advice.next is None:
        return ""
    if advice.by_answers:
        apart = f"is separated from {listed(advice.by_answers)}"
    elif len(c.order) > 2:
        apart = "is separated from none of the others"
    else:
        apart = "is not separated from the other"
    return f"Answer by answer it {apart} there. "


def _doubt(c: Comparison, advice: Decision) -> str:
    turns = advice.turns
    if turns is None:
        tried = c.stability is not None and c.on == FUSED
        return "Nothing that was tried puts another method first." if tried else ""
    methods = turns.get("methods", [])
    others = listed(methods or [""], last="or")
    leads = f"{others} {agree(methods, 'leads')}"
    weighed = "all measures weighed alike" if turns.get("choice") == "equal" else "other weights"
    doubts = {
        "tie": "Which of them is ahead depends on the weights of the measures.",
        "two methods": "The ranking only counts which measures each wins, not by how much.",
        "one dataset": "",
        "chance": "Chance alone could have put it first.",
        "policy": {
            "drop-datasets": f"Without the datasets that some method did not finish, {leads}.",
            "drop-methods": f"Without the methods that did not finish everywhere, {leads}.",
        }.get(str(turns.get("choice")), f"With missing results counted as the worst, {leads}."),
        "missing": (
            f"{len(c.study.filled)} of {count(len(c.study.datasets) * len(c.order), 'result')} "
            f"{agree(c.study.filled, 'is')} missing, which may matter."
        ),
        "weights": f"With {weighed}, {leads}.",
        "function": f"If differences are scored in another way, {leads}.",
        "weight": (
            f"{others} leads if {name(turns.get('choice'))} weighs "
            f"{number(turns.get('to', 0), 2)} in place of {number(turns.get('weight', 0), 2)}."
        ),
    }
    return doubts[turns["kind"]]


def _picture(c: Comparison, advice: Decision) -> Figure:
    methods = c.order[:SHOWN]
    tables = {m: within_range(table.loc[methods], m) for m, table in advice.means.items()}
    columns = [doc.names("method", methods)]
    for m, table in tables.items():
        cells = (
            aligned(table["mean"])
            if table["low"].isna().all()
            else with_intervals(table.to_numpy())
        )
        columns.append(doc.Column(f"{name(m)} {ARROWS[c.study.directions[m]]}", cells))
    level = f"{100 * (1 - c.options['alpha']):g}%"
    best = (
        f" The best {SHOWN} of {len(c.order):,} methods are shown." if len(c.order) > SHOWN else ""
    )
    several = len(c.study.datasets) > 1
    by = " by the two measures of most weight" if len(c.study.measures) > len(tables) > 1 else ""
    each = " that each finished" if c.study.filled else ""
    what = (
        f"Means{by} over the datasets{each}, with their {level} intervals"
        if several
        else f"Values{by}"
    )
    caption = f"{what}; methods in the order of the ranking.{best}"
    table = Table(columns, title="The same as a table", folded=True, depth=PAPER)
    svg = means_figure(tables, {m: c.study.directions[m] for m in tables}, set(advice.methods))
    return Figure(svg, caption, table)
