"""Beyond p-values: how probable a difference that matters is, and what it would take to know."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.beyond_pvalues import BeyondPvalues
from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.recommendation import days_of, over_time
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import PAGE, Column, Data, Frames, name
from mlflow_mleval.report.figures.comparisons import leaders_over_time
from mlflow_mleval.report.text import number, probability_said
from mlflow_mleval.sentences import count, grouped
from mlflow_mleval.validation import present

#: Pairs of a table.
PAIRS = 500
#: A decision in a cell.
DECISIONS = {"a": "first", "b": "second", "equivalent": "equivalent", "undecided": "undecided"}
PARTS = {
    "bayes": "Probabilities",
    "equivalence": "Equivalence",
    "curve": "Power of max-T",
}


def section(c: Comparison) -> doc.Section | None:
    """Probabilities and planning; nothing where no rope was given."""
    rope = c.options["rope"]
    if rope is None:
        return None

    def blocks() -> list[Any]:
        found = present(c.beyond)
        made: list[Any] = [doc.Text(sentences(c), "points")]
        made += doc.points(found.warnings, "Doubts about these")
        if found.bayes is not None:
            made.append(beyond_pairs(found, c.order, c.compared, "Every pair over the datasets"))
        return made

    hint = f"differences up to {number(rope)} count as none"
    return doc.Section("beyond", "Beyond p-values", doc.Late(blocks), hint)


def sentences(c: Comparison) -> list[str]:
    """The verdicts of the parts over datasets, a sentence each; the parts that are absent, with
    reasons.
    """
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


def beyond_pairs(found: BeyondPvalues, order: Sequence[str], what: str, title: str) -> doc.Table:
    """The pairs, the better one by mean rank first, the most certain ones at the top:
    probabilities, equivalence.

    `order` has the methods, best first; `what` is compared.
    """
    table = present(found.pair_table(order))
    bayes = present(found.bayes)
    shown = table.head(PAIRS)
    difference = (
        f"Difference of {what}, positive where the first is better, with "
        f"{bayes.credible_level:.0%} credible interval, each alone."
    )
    decided = (
        f"Decided: what reaches {bayes.credible_level:g}; not corrected for the number of pairs, "
        f"of which chance would call {bayes.by_chance:.1f} different."
    )
    says = (
        f"P: probability that the first is better by more than {number(bayes.rope)}, that neither "
        "or the second is."
    )
    limits = shown[["mean_difference", "low", "high"]]
    columns = [
        *doc.pair(shown),
        doc.intervals("difference", limits, keep=1, note=difference),
        Column("decided", [DECISIONS[d] for d in shown["decision"]], "<", note=decided),
        *_probabilities(shown[["p_a", "p_equivalent", "p_b"]], says, keep=3),
    ]
    if found.equivalence:
        note = "Equivalent p: two one-sided tests, corrected for the number of pairs."
        columns.append(doc.pvalues("equivalent p", shown["equivalence_p"], keep=1, note=note))
    return doc.Table(columns, len(table), title, things="pairs", depth=PAGE)


def _probabilities(values: pd.DataFrame, note: str, **more: Any) -> list[Column]:
    """That the first is better, that neither is, that the second is: three columns."""
    heads = zip(("P first", "P same", "P second"), (note, "", ""), values, strict=True)
    return [
        Column(head, [*map(probability_said, values[key])], note=said, **more)
        for head, said, key in heads
    ]


def data(c: Comparison) -> Data:
    """What JSON holds of probabilities and planning."""
    if (found := c.beyond) is None:
        return {"beyond": None}
    keys = ("rope", "methods", "bayes", "equivalence", "curve", "absent", "warnings")
    return {"beyond": {"sentences": sentences(c), **doc.named(found, *keys)}}


# --------------------------------------------------------------------------------------------------
# Would it be better on the next dataset?
#
# The hierarchical correlated t test.


def next_dataset_section(c: Comparison) -> doc.Section | None:
    """Sentences and the pairs, or what it lacks; nothing where it was not asked for."""
    found = c.next_dataset
    if found is None:
        if not c.options["next_dataset"] or c.tells_of_next_dataset:
            return None
        lacks = "It takes folds or repeats on at least two datasets to tell of the next one."
        return doc.Section("next_dataset", "On the next dataset", [doc.Text([lacks])])
    text = doc.Text([s.text for s in next_dataset_sentences(c)])
    if all(pairs.table["p_better"].isna().all() for pairs in found.pairs.values()):
        return next_dataset_heading(c, [text])
    doubts = doc.points(found.doubts, "Doubts about these")
    return next_dataset_heading(c, [text, *doubts, _table(c)])


def next_dataset_heading(c: Comparison, blocks: Sequence[Any]) -> doc.Section:
    """The section with these blocks, or none: where they take time, they can be made later."""
    over = "folds" if c.study.folds is not None else "repeats"
    return doc.Section("next_dataset", "On the next dataset", blocks, f"from their {over}")


def next_dataset_sentences(c: Comparison) -> list[doc.Sentence]:
    """By measure: how probable it is that the first of the first pair is better, alike or worse on
    the next dataset; what this rests on.
    """
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


def _table(c: Comparison) -> doc.Table:
    found = present(c.next_dataset)
    parts = [found.table(m, c.order).assign(measure=m) for m in found.pairs]
    table = pd.concat(parts, ignore_index=True)
    credible = next(iter(found.pairs.values())).credible_level
    says = (
        "P: probability that on the next dataset the first is better by more than the rope, "
        "neither is, or the second is; the mean of these over the posterior."
    )
    typical = (
        f"Typical difference: positive where the first is better, with its {credible:.0%} "
        "interval, each alone."
    )
    limits = table[["mean_difference", "low", "high"]]
    columns = [
        *doc.pair(table),
        *([doc.names("measure", table["measure"])] if len(parts) > 1 else []),
        *_probabilities(table[["p_better", "p_equivalent", "p_worse"]], says),
        doc.intervals("typical difference", limits, keep=3, note=typical),
        doc.numbers("datasets", table["n"], keep=1),
    ]
    title = "Pairs on the next dataset"
    return doc.Table(columns, title=title, key="next-dataset", things="pairs")


def next_dataset_data(c: Comparison) -> Data:
    """What JSON holds of the next dataset."""
    if (found := c.next_dataset) is None:
        return {"next_dataset": None}
    keys = ("doubts", "over", "pairs", "ropes", "ropes_from", "rho", "methods", "absent")
    said = [s.text for s in next_dataset_sentences(c)]
    return {"next_dataset": {"sentences": said, **doc.named(found, *keys)}}


def next_dataset_frames(c: Comparison) -> Frames:
    """The pairs and the shrunken differences of all measures."""
    if (found := c.next_dataset) is None:
        return {}
    tables = {"pairs": "table", "shrunken": "shrunken"}
    parts = {
        key: {m: getattr(p, table) for m, p in found.pairs.items()} for key, table in tables.items()
    }
    return {
        f"next_dataset_{key}": pd.concat(by_measure, names=["measure"]).reset_index(0)
        for key, by_measure in parts.items()
    }


def over_time_heading(c: Comparison, blocks: Sequence[Any] = ()) -> doc.Section | None:
    """The section with these blocks, or none; None where all runs came on one day."""
    days = days_of(c.study)
    if not days:
        return None
    span = f"{days[0]:%d %b} to {days[-1]:%d %b %Y}"
    return doc.Section("over_time", "Over time", blocks, span)


def over_time_blocks(c: Comparison, each: int = 0) -> list[Any]:
    """Who led on each day, or after `each` so many runs, and who may have been as good."""
    then = over_time(c, each)
    if len(then) < 2:
        return [doc.Text(["Earlier too little was there to compare."])]
    changes = [
        f"{name(now.leader)} from {now.moment} on"
        for before, now in pairwise(then.itertuples())
        if before.leader != now.leader
    ]
    first = then.iloc[0]
    led = f"{name(first['leader'])} has led since {first['moment']}."
    if changes:
        led = f"{name(first['leader'])} led at {first['moment']}, {doc.joined(changes)}."
    by, column = "on that day", "day"
    if each:
        by, column = f"when that run began, {count(each, 'run')} apart", "column"
    caption = (
        "Large dot: leads. Ring: may be as good. Small dot: clearly worse. By the results that "
        f"were complete {by}, on the datasets that all of these methods had finished. Each "
        f"{column} is tested by itself: a method that passes in and out of the best set may do so "
        "by chance."
    )
    return [doc.Text([led]), doc.Figure(leaders_over_time(then, c.order), caption)]
