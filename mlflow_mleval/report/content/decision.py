"""The answer in two lines and a small picture, in the measures' own units and without words of
statistics.
"""

from typing import Any

from mlflow_mleval.analysis.comparison import Comparison
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
from mlflow_mleval.report.figures.pair_diagrams import means_figure
from mlflow_mleval.report.text import ARROWS, aligned, number, percent, with_intervals
from mlflow_mleval.words import agree, count, in_words

#: Methods in the picture.
SHOWN = 5
#: So many methods are named, more are counted.
FEW = 2
#: From this probability on methods count as equivalent.
EQUIVALENT = 0.95


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
    facts = ("evidence", "ahead", "best_set", "worse", "next", "equivalent", "n_datasets", "turns")
    said = claims_in(sentences(c, advice), c.options["alpha"])
    return {"answer": {"sentences": said, **doc.named(advice, *facts), "means": means}}


def sentences(c: Comparison, advice: Decision | None = None) -> list[Sentence]:
    """Whom to use, or who may be as good; and the one doubt that could turn it."""
    advice = advice or decision(c)
    doubt = _doubt(advice)
    rest = " ".join(filter(None, [_about(c, advice), doubt]))
    return [_who(c, advice), *([Sentence(rest, claim("best set"))] if rest else [])]


def _who(c: Comparison, advice: Decision) -> Sentence:
    who, n = listed(advice.ahead, 3), len(c.order)
    alone = len(advice.ahead) == 1
    if advice.next is None:
        return Sentence(f"{who} come out alike.", claim("best set"))
    if alone and len(advice.best_set) == 1:
        return Sentence(
            f"Use {who}: {_by_how_much(c, advice)}{_where(c, advice)}.", claim("use one")
        )
    if advice.equivalent is not None and advice.equivalent >= EQUIVALENT:
        pair = listed(c.order[:2])
        return Sentence(f"{pair} are equivalent, as far as it matters.", claim("equivalent"))
    ahead = f"{who} {'is' if alone else 'are'} ahead"
    if not advice.evidence:
        by = f": {_by_how_much(c, advice)}{_where(c, advice)}" if n == 2 else ""
        return Sentence(f"{ahead}{by}.", claim("ahead"))
    if n == 2:
        how = _by_how_much(c, advice)
        text = f"{ahead}, {how}{_where(c, advice)}, but that may be chance."
        return Sentence(text, claim("best set"))
    equals = [m for m in advice.best_set if m not in advice.ahead]
    if not equals:
        good = ""
    elif len(equals) <= FEW:
        good = f", but {listed(equals)} may be as good"
    elif not advice.worse:
        good = f", but any of the {in_words(n)} methods may be as good"
    else:
        good = f", but {in_words(len(advice.best_set))} of the {in_words(n)} methods may be as good"
    return Sentence(
        f"{ahead}{good}{_worse(c, advice)}.",
        claim("separated" if advice.worse else "best set"),
    )


def _worse(c: Comparison, advice: Decision) -> str:
    """Who is clearly worse than some other method."""
    worse, control, n = advice.worse, c.options["control"], len(c.order)
    if not worse:
        return "" if control is None else f"; only {listed([control])} was compared with all"
    if len(worse) <= FEW:
        only = "only " if len(worse) == 1 and n > 2 else ""
        return f"; {only}{listed(worse)} {agree(worse, 'is')} clearly worse"
    rest = "the other " if len(advice.best_set) <= FEW else ""
    return f"; {rest}{in_words(len(worse))} are clearly worse"


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


def _about(c: Comparison, advice: Decision) -> str:
    """What the answer is about where that is less than datasets like these."""
    n = len(c.study.datasets)
    these = "this dataset" if n == 1 else f"these {n} datasets"
    if advice.evidence == "datasets":
        return ""
    if advice.evidence == "repeats":
        return f"That is about {these}, trained again."
    if n == 1:
        return "One dataset cannot say how it is on others."
    if advice.evidence:
        return f"That is about {these} only."
    return f"{in_words(n).capitalize()} datasets are too few for the test to tell methods apart."


def _doubt(advice: Decision) -> str:
    """What could turn it."""
    turns = advice.turns
    open_anyway = advice.evidence == "datasets" and not advice.worse and len(advice.best_set) > 2
    if turns is None or (open_anyway and turns["kind"] in ("weights", "function", "weight")):
        return ""
    methods = turns.get("methods", [""])
    ahead = f"{listed(methods, last='or')} {agree(methods, 'is')} ahead"
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
        "function": f"If differences are scored in another way, {ahead}.",
        "weight": (
            f"If {choice} counted for {percent(turns.get('to', 0))} instead of "
            f"{percent(turns.get('weight', 0))}, {listed(methods)} would be ahead."
        ),
    }[turns["kind"]]


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
    each = " that all of them finished" if c.study.filled else ""
    what = (
        f"Means{by} over the datasets{each}, with their {level} intervals"
        if several
        else f"Values{by}"
    )
    caption = f"{what}; methods in the order of the ranking.{best}"
    table = Table(columns, title="The same as a table", folded=True, depth=PAPER)
    svg = means_figure(tables, {m: c.study.directions[m] for m in tables}, set(advice.ahead))
    return Figure(svg, caption, table)
