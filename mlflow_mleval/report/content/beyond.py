"""Beyond p-values: how probable a difference that matters is, and what it would take to know."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.beyond_pvalues import BeyondPvalues, PowerCurve
from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.recommendation import days_of, over_time
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    PAGE,
    PAPER,
    Column,
    Data,
    Figure,
    Frames,
    Late,
    Section,
    Sentence,
    Table,
    Text,
    capitalised,
    claim,
    joined,
    name,
    names,
    pvalues,
)
from mlflow_mleval.report.figures.comparisons import (
    leaders_over_time,
    power_lines,
)
from mlflow_mleval.report.text import NONE, number
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


def section(c: Comparison, depth: int = PAGE) -> Section | None:
    """Probabilities and planning; nothing where no rope was given.

    The sentences and doubts lie at `depth`.
    """
    rope = c.options["rope"]
    if rope is None:
        return None
    hint = f"differences up to {number(rope)} count as none"
    return Section("beyond", "Beyond p-values", Late(lambda: _blocks(c, depth)), hint)


def _blocks(c: Comparison, depth: int) -> list[Any]:
    found = present(c.beyond)
    blocks: list[Any] = [Text(sentences(c), "points", depth=depth)]
    blocks += doc.points(found.warnings, "Doubts about these", depth=depth)
    if found.bayes is not None:
        blocks.append(beyond_pairs(found, c.order, c.compared, "Every pair over the datasets"))
    if found.curve is not None:
        blocks.append(power_figure(found.curve, "by step-down max-T"))
    return blocks


def sentences(c: Comparison) -> list[str]:
    """The verdicts of the parts over datasets, a sentence each; the parts that are absent, with
    reasons.
    """
    found = present(c.beyond)
    parts = (found.bayes, found.equivalence)
    texts = [
        f"Differences of {c.compared} up to {number(found.rope)} count as too small to matter."
    ]
    texts += [capitalised(part.verdict(), c.order) for part in parts if part is not None]
    if found.curve is not None:
        texts.append(found.curve.sentence(" by step-down max-T", name))
    reasons = grouped((reason, PARTS[key]) for key, reason in found.absent.items())
    for reason, which in reasons.items():
        texts.append(f"Not computed: {joined(which)} ({reason.rstrip('.')}).")
    return [text for text in texts if text]


def beyond_pairs(found: BeyondPvalues, order: Sequence[str], what: str, title: str) -> Table:
    """The pairs, the better one by mean rank first, the most certain ones at the top:
    probabilities, equivalence.

    `order` has the methods, best first; `what` is compared.
    """
    table = present(found.pair_table(order))
    bayes = present(found.bayes)
    shown = table.head(PAIRS)
    columns = [
        *doc.pair(shown),
        doc.intervals(
            "difference",
            shown[["mean_difference", "low", "high"]],
            keep=1,
            note=(
                f"Difference of {what}, positive where the first is better, with "
                f"{bayes.credible_level:.0%} credible interval, each alone."
            ),
        ),
        Column(
            "decided",
            [DECISIONS[d] for d in shown["decision"]],
            "<",
            note=(
                f"Decided: what reaches {bayes.credible_level:g}; not corrected for the number "
                f"of pairs, of which chance would call {bayes.by_chance:.1f} different."
            ),
        ),
        _probabilities(
            "P first",
            shown["p_a"],
            keep=3,
            note=(
                f"P: probability that the first is better by more than {number(bayes.rope)}, "
                "that neither or the second is."
            ),
        ),
        _probabilities("P same", shown["p_equivalent"], keep=3),
        _probabilities("P second", shown["p_b"], keep=3),
    ]
    if found.equivalence:
        note = "Equivalent p: two one-sided tests, corrected for the number of pairs."
        columns.append(pvalues("equivalent p", shown["equivalence_p"], keep=1, note=note))
    return Table(columns, len(table), title, things="pairs", depth=PAGE)


def _probabilities(head: str, values: pd.Series, **more: Any) -> Column:
    return Column(head, [*map(probability_said, values)], **more)


def power_figure(found: PowerCurve, how: str) -> Figure:
    """Power against the number of datasets, with a table."""
    pair = f"{found.method_a} and {found.method_b}"
    caption = (
        f"The chance that {name(found.method_a)} and {name(found.method_b)} are told apart "
        f"{how}, by the number of datasets, were their difference the one observed. The band "
        f"holds 95% of the curves when the datasets are drawn again ({found.n_resamples:,} times, "
        f"seed {found.seed}); the ring is the study as it is"
    )
    if found.needed <= found.curve["n"].max():
        caption += f", the dot where the chance is {found.target:.0%}"
    caption += "."
    title = "How many datasets it takes"
    return Figure(power_lines(found, f"Power to tell {pair} apart"), caption, title=title)


def data(c: Comparison) -> Data:
    found = c.beyond
    if found is None:
        return {"beyond": None}
    return {
        "beyond": {
            **doc.named(found, "rope", "methods"),
            "sentences": sentences(c),
            **doc.named(found, "bayes", "equivalence", "curve", "absent", "warnings"),
        }
    }


def probability_said(p: float) -> str:
    """A probability to read, never all or nothing.

    >>> [probability_said(p) for p in (0.9999, 0.256, 0.0004)]
    ['>.99', '.26', '<.01']
    """
    if not np.isfinite(p):
        return NONE
    return ">.99" if p > 0.99 else "<.01" if p < 0.01 else f"{p:.2f}".removeprefix("0")


# --------------------------------------------------------------------------------------------------
# Would it be better on the next dataset?
#
# The hierarchical correlated t test.


def next_dataset_section(c: Comparison, depth: int = PAPER) -> Section | None:
    """Sentences and the pairs, or what it lacks; nothing where it was not asked for."""
    found = c.next_dataset
    if found is None:
        if not c.options["next_dataset"] or c.tells_of_next_dataset:
            return None
        lacks = "It takes folds or repeats on at least two datasets to tell of the next one."
        return Section("next_dataset", "On the next dataset", [Text([lacks], depth=depth)])
    text = Text([s.text for s in next_dataset_sentences(c)], depth=depth)
    if all(pairs.table["p_better"].isna().all() for pairs in found.pairs.values()):
        return next_dataset_heading(c, [text])
    doubts = doc.points(found.doubts, "Doubts about these", depth=depth)
    return next_dataset_heading(c, [text, *doubts, _table(c, depth)])


def next_dataset_heading(c: Comparison, blocks: Sequence[Any]) -> Section:
    """The section with these blocks, or none: where they take time, they can be made later."""
    over = "folds" if c.study.folds is not None else "repeats"
    return Section("next_dataset", "On the next dataset", blocks, f"from their {over}")


def next_dataset_sentences(c: Comparison) -> list[Sentence]:
    """By measure: how probable it is that the first of the first pair is better, alike or worse on
    the next dataset; what this rests on.
    """
    found = c.next_dataset
    if found is None:
        return []
    said = []
    for measure, pairs in found.pairs.items():
        row = found.table(measure, c.order).iloc[0]
        if np.isnan(row.p_better):
            said.append(
                f"Whether {name(row.method_a)} would be better than {name(row.method_b)} by "
                f"{name(measure)} on the next dataset, this cannot tell: their differences by "
                "dataset are far from the t distribution that it takes."
            )
            continue
        said.append(
            f"On the next dataset {name(row.method_a)} would be better than {name(row.method_b)} "
            f"by {name(measure)} with probability {probability_said(row.p_better)}, within "
            f"{number(pairs.rope)} ({found.ropes_from[measure]}) with "
            f"{probability_said(row.p_equivalent)}, and worse with {probability_said(row.p_worse)}."
        )
    kind = {"folds": "their folds", "repeats": "repeats with other seeds"}[found.over]
    said.append(
        f"This rests on datasets that are drawn as these {len(found.rho)} were, each known as "
        f"well as {kind} tell (hierarchical correlated t test)."
    )
    return [Sentence(text, claim("next dataset")) for text in said]


def _table(c: Comparison, depth: int) -> Table:
    found = present(c.next_dataset)
    parts = {measure: found.table(measure, c.order) for measure in found.pairs}
    table = pd.concat(
        [part.assign(measure=measure) for measure, part in parts.items()], ignore_index=True
    )
    pairs = next(iter(found.pairs.values()))
    columns = [
        *doc.pair(table),
        *([names("measure", table["measure"])] if len(parts) > 1 else []),
        _probabilities(
            "P first",
            table["p_better"],
            note=(
                "P: probability that on the next dataset the first is better by more than the "
                "rope, neither is, or the second is; the mean of these over the posterior."
            ),
        ),
        _probabilities("P same", table["p_equivalent"]),
        _probabilities("P second", table["p_worse"]),
        doc.intervals(
            "typical difference",
            table[["mean_difference", "low", "high"]],
            keep=3,
            note=(
                "Typical difference: positive where the first is better, with its "
                f"{pairs.credible_level:.0%} interval, each alone."
            ),
        ),
        doc.numbers("datasets", table["n"], keep=1),
    ]
    return Table(
        columns,
        title="Pairs on the next dataset",
        key="next-dataset",
        things="pairs",
        depth=depth,
    )


def next_dataset_data(c: Comparison) -> Data:
    found = c.next_dataset
    return {
        "next_dataset": found
        and {
            "sentences": [s.text for s in next_dataset_sentences(c)],
            "doubts": found.doubts,
            **doc.named(
                found,
                "over",
                "pairs",
                "ropes",
                "ropes_from",
                "rho",
                "methods",
                "absent",
            ),
        }
    }


def next_dataset_frames(c: Comparison) -> Frames:
    found = c.next_dataset
    if found is None:
        return {}
    return {
        f"next_dataset_{key}": pd.concat(
            {m: getattr(p, table) for m, p in found.pairs.items()}, names=["measure"]
        ).reset_index(0)
        for key, table in (("pairs", "table"), ("shrunken", "shrunken"))
    }


# --------------------------------------------------------------------------------------------------
# Over time.


def over_time_heading(c: Comparison, blocks: Sequence[Any] = ()) -> Section | None:
    """The section with these blocks, or none; None where all runs came on one day."""
    days = days_of(c.study)
    if not days:
        return None
    return Section("over_time", "Over time", blocks, f"{days[0]:%d %b} to {days[-1]:%d %b %Y}")


def over_time_blocks(c: Comparison, each: int = 0) -> list[Any]:
    """Who led on each day, or after `each` so many runs, and who may have been as good."""
    then = over_time(c, each)
    if len(then) < 2:
        return [Text(["Earlier too little was there to compare."])]
    changes = [
        f"{name(now.leader)} from {now.moment} on"
        for before, now in pairwise(then.itertuples())
        if before.leader != now.leader
    ]
    first = then.iloc[0]
    led = f"{name(first['leader'])} has led since {first['moment']}."
    if changes:
        led = f"{name(first['leader'])} led {'at' if each else 'on'} {first['moment']}"
        led = f"{led}, {joined(changes)}."
    sizes = [len(best) for best in then["best_set"]]
    among = f"{count(sizes[0], 'method')} may have been the best then, {sizes[-1]} may be now."
    about = _EACH_RUNS.format(count(each, "run")) if each else _EACH_DAY
    return [Text([led, among]), Figure(leaders_over_time(then, c.order), f"{_DOTS} {about}")]


_DOTS = "Large dot: leads. Ring: may be as good. Small dot: clearly worse."
_BY_ITSELF = (
    "is tested by itself: a method that passes in and out of the best set may do so by chance."
)
_EACH_DAY = (
    "By the results that were complete on that day, on the datasets that all of these methods had "
    f"finished. Each day {_BY_ITSELF}"
)
_EACH_RUNS = (
    "By the results that were complete when that run began, {} apart, on the datasets that all of "
    f"these methods had finished. Each column {_BY_ITSELF}"
)
