"""Answers as a document: who answers better, on what, on which questions, and what more questions
would give.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.answer_comparison import POWER, AnswerComparison
from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.naming import count
from mlflow_mleval.report import document as doc
from mlflow_mleval.report.content import instances
from mlflow_mleval.report.content.doubts import doubts
from mlflow_mleval.report.content.provenance import made_from, when
from mlflow_mleval.report.document import (
    ALWAYS,
    PAPER,
    Column,
    Document,
    Section,
    Table,
    Text,
    listed,
    name,
)
from mlflow_mleval.report.numerals import aligned, number, percent
from mlflow_mleval.validation import present

#: Pairs of measures, and rows of what more would give, that a page holds.
ROWS = 60


def section(c: Comparison) -> Section | None:
    """What the answers on every dataset say, and why those on others say nothing; nothing where no
    run holds any.
    """
    found = _found(c)
    why = {
        key.removeprefix("instances."): reason
        for key, reason in c.absent.items()
        if key.startswith("instances.")
    }
    if not found and not why:
        return None
    blocks: list[Any] = []
    for key, (dataset, answers) in enumerate(
        found.items(), start=len(c.instances) - len(found) + 1
    ):
        for part in _sections(answers, key, dataset):
            first, *rest = part.blocks
            blocks += [replace(first, title=part.title), *rest]
        blocks += doc.points(answers.warnings, f"Doubts about these answers of {name(dataset)}")
    blocks = [replace(block, depth=max(block.depth, PAPER)) for block in blocks]
    lost = [f"{name(dataset)} was not compared: {reason}" for dataset, reason in why.items()]
    blocks += doc.points(lost, "Left out", depth=ALWAYS)
    pairs = pd.concat([answers.tests.pairs for answers in found.values()] or [pd.DataFrame()])
    hint = (
        f"{pairs['significant'].sum():,} of {count(len(pairs), 'pair')} separated"
        if found
        else "not compared"
    )
    return Section(
        "answers",
        "Answer by answer",
        blocks,
        f"{hint} on {count(len(found), 'dataset')}" if found else hint,
    )


def data(c: Comparison) -> dict[str, Any]:
    return {"answers": {dataset: record(answers) for dataset, answers in _found(c).items()} or None}


def frames(c: Comparison) -> dict[str, pd.DataFrame]:
    return {f"answers_{key}": frame for key, frame in _frames(_found(c)).items()}


def _found(c: Comparison) -> dict[str, AnswerComparison]:
    return {
        dataset: found
        for dataset, found in c.instances.items()
        if isinstance(found, AnswerComparison)
    }


def answers_document(
    found: Mapping[str, AnswerComparison],
    absent: Mapping[str, str],
    notes: Sequence[str],
    provenance: Mapping[str, Any],
) -> Document:
    """The comparisons of several data sets; `absent` says why one has none, `notes` are doubts
    about the selection.
    """
    shown = chain.from_iterable(
        _sections(c, key, dataset) for key, (dataset, c) in enumerate(found.items(), start=1)
    )
    lost = [f"{name(dataset)} was not compared: {reason}" for dataset, reason in absent.items()]
    said = [
        f"{name(d)}: {text}" if len(found) > 1 else text
        for d, c in found.items()
        for text in c.warnings
    ]
    first, *others = [*shown]
    everything = {
        "over": "instances",
        "n_instances": sum(c.tests.n_instances for c in found.values()),
        "pairs": pd.concat([c.tests.pairs.assign(dataset=d) for d, c in found.items()]),
        "datasets": {d: record(c) for d, c in found.items()},
        "absent": absent,
        "doubts": [*notes, *said],
        "provenance": provenance,
    }
    return Document(
        f"Answers compared: {listed(found)}",
        [first, *doubts([*lost, *notes, *said]), *others, made_from(provenance)],
        time=when(provenance),
        data=lambda: everything,
        main="instances",
        frames=lambda: _frames(found),
    )


def document(c: AnswerComparison, provenance: Mapping[str, Any]) -> Document:
    """The comparison of one set of answers."""
    first, *others = _sections(c, 1, None)
    return Document(
        "Answers compared",
        [first, *doubts(c.warnings), *others, made_from(provenance)],
        time=when(provenance),
        data=lambda: {**record(c), "provenance": provenance},
        frames=lambda: _frames({"": c}),
        main="instances",
    )


def record(c: AnswerComparison) -> dict[str, Any]:
    keys = ("joint", "compared", "agreement", "sampling", "needed", "cluster")
    ranking = c.ranking and {**vars(c.ranking), "table": c.ranking.table.reset_index()}
    differing = c.differing.reset_index(names="instance")
    return {
        **instances.record(c.tests),
        **doc.named(c, *keys),
        "ranking": ranking,
        "differing": differing,
        "doubts": c.warnings,
    }


def _frames(found: Mapping[str, AnswerComparison]) -> dict[str, pd.DataFrame]:
    def of(what: str) -> pd.DataFrame:
        tables = {
            d: c.tests.table if what == "instances" else getattr(c, what) for d, c in found.items()
        }
        tables = {
            d: t.reset_index(names="instance") if what == "differing" else t
            for d, t in tables.items()
            if len(t)
        }
        return pd.concat(tables, names=["dataset"]).reset_index(0) if tables else pd.DataFrame()

    return {
        key: of(key)
        for key in ("instances", "joint", "differing", "agreement", "sampling", "needed")
    }


def _sections(c: AnswerComparison, key: int, dataset: str | None) -> list[Section]:
    on = "" if dataset is None else f" on {name(dataset)}"
    _, pairs, *_ = instances.blocks(c.tests, key, dataset)
    said = (
        f"{c.tests.headline(name)}; this is about these methods as they answered here, on "
        "questions like these."
    )
    lead = Text([said[:1].upper() + said[1:], *_leads(c)], "lead", depth=ALWAYS)
    found = [
        Section(
            f"answers-{key}",
            f"Who answers better{on}",
            [lead, pairs, *([] if c.joint.empty else [_joint(c, key)])],
        ),
        Section(f"ranking-{key}", f"Ranking{on}", [_ranking(c, key)])
        if c.ranking is not None
        else None,
        Section(f"differing-{key}", f"Where they differ most{on}", [_differing(c, key)])
        if len(c.differing)
        else None,
        Section(f"scorers-{key}", f"Which scorers agree{on}", [_agreement(c, key)])
        if len(c.agreement)
        else None,
        Section(f"sampling-{key}", f"Questions and samples{on}", [_sampling(c, key)])
        if len(c.sampling)
        else None,
        Section(f"needed-{key}", f"What more questions would show{on}", [_needed(c, key)]),
    ]
    return [section for section in found if section is not None]


def _leads(c: AnswerComparison) -> list[str]:
    said = [] if c.ranking is None else [c.ranking.verdict(name)]
    if c.joint.empty:
        return said
    apart = c.joint[c.joint["significant"]]
    gives = (
        f"separates {len(apart)} of {len(c.joint)} pairs"
        if len(c.joint) > 1
        else f"gives p = {c.joint['pvalue'].item():.2g}"
    )
    weaker = (
        ", which is weaker where few of them differ,"
        if len(apart) < c.tests.pairs["significant"].sum()
        else ""
    )
    return [*said, f"Hotelling's test of all measures at once{weaker} {gives}."]


def _joint(c: AnswerComparison, key: int) -> Table:
    rows = c.joint.head(ROWS)
    how = (
        "all sign changes"
        if c.joint["exact"].all()
        else f"{c.tests.n_resamples:,} random sign changes, seed {c.tests.seed}"
    )
    return Table(
        [
            *doc.pair(rows),
            Column(
                "T²",
                aligned(rows["statistic"]),
                note="T²: Hotelling's, of the differences on all measures.",
            ),
            doc.pvalues(
                "p",
                rows["pvalue_corrected"],
                note=f"p: by {how}; corrected for the number of pairs (Holm).",
            ),
            Column("differ", ["yes" if s else "no" for s in rows["significant"]], "<"),
            Column("left out", [", ".join(d) for d in rows["dependent"]], "wrap", keep=1),
        ],
        len(c.joint),
        title="All measures together",
        key=f"joint-{key}",
    )


def _ranking(c: AnswerComparison, key: int) -> Table:
    r = present(c.ranking)
    table = r.table
    return Table(
        [
            doc.names("method", table.index),
            Column("rank", [number(x) for x in table["rank"]]),
            doc.decimals(
                "φ",
                table["phi"],
                3,
                note="φ: net flow of PROMETHEE on the means (V-shape, equal weights).",
            ),
            Column(
                "ranks",
                [f"{a}–{b}" for a, b in zip(table["low"], table["high"], strict=True)],
                note=(
                    f"Ranks: what 95% of {r.n_resamples:,} resamples of the {r.n_units:,} "
                    f"{r.unit} span (seed {r.seed})."
                ),
            ),
            Column(
                "first",
                [percent(x) for x in table["first_share"]],
                note="First: share of the resamples in which it leads.",
            ),
        ],
        caption=f"Fused ranking over {len(c.tests.measures)} measures, no test over datasets",
        key=f"answer-ranking-{key}",
        first=True,
        depth=ALWAYS,
    )


def _differing(c: AnswerComparison, key: int) -> Table:
    rows, (a, b) = c.differing, c.compared
    shown = [m for m in c.tests.measures if rows[m].abs().max() > 0][:6]
    return Table(
        [
            Column("asked", [*rows["asked"].astype(str)], "<", name="asked"),
            *(Column(m, [number(x) for x in rows[m]]) for m in shown),
            *(
                Column(head, [*rows[link].astype(str)], "<", keep=1)
                for head, link in (("answer", "link_a"), ("against", "link_b"))
            ),
        ],
        caption=f"The answers on which {name(a)} and {name(b)} differ most",
        key=f"differing-{key}",
        note=(
            f"Differences are positive where {name(a)} is better. Answer and against: the ids of "
            "the traces."
        ),
        most=10,
    )


def _agreement(c: AnswerComparison, key: int) -> Table:
    rows = c.agreement.reindex(
        c.agreement["correlation"].abs().sort_values(ascending=False, na_position="last").index
    ).head(ROWS)
    return Table(
        [
            Column("measure", [*rows["measure_a"]], "<"),
            Column("and", [*rows["measure_b"]], "<"),
            doc.decimals(
                "correlation",
                rows["correlation"],
                2,
                note="Correlation: Pearson's, over the answers of all methods, within each method.",
            ),
            Column(
                "equal",
                [percent(x) if x == x else "" for x in rows["equal_share"]],
                note="Equal: share of the answers that both pass or both fail.",
            ),
            Column("answers", [f"{n:,}" for n in rows["n"]], keep=1),
        ],
        len(c.agreement),
        caption="Agreement of the scorers",
        key=f"agreement-{key}",
        most=8,
    )


def _sampling(c: AnswerComparison, key: int) -> Table:
    rows = c.sampling.head(ROWS)
    return Table(
        [
            doc.names("method", rows["method"]),
            Column("measure", [*rows["measure"]], "<"),
            Column("questions", [f"{n:,}" for n in rows["questions"]], keep=1),
            Column("samples", [number(x, 3) for x in rows["samples"]], keep=1),
            Column(
                "question's",
                [percent(x) if x == x else "" for x in rows["question_share"]],
                note="Question's: its share of the variance of one answer; the rest is sampling.",
            ),
            Column(
                "error now",
                aligned(rows["standard_error"], 2),
                note="Errors are standard errors of the mean.",
            ),
            Column("twice the questions", aligned(rows["with_questions"], 2)),
            Column("twice the samples", aligned(rows["with_samples"], 2)),
        ],
        len(c.sampling),
        caption="Questions and samples as sources of variance",
        key=f"sampling-{key}",
        most=8,
    )


def _needed(c: AnswerComparison, key: int) -> Table:
    rows = c.needed.head(ROWS)
    unit = f"clusters ({c.cluster})" if c.cluster else "questions"
    return Table(
        [
            *doc.pair(rows),
            Column("measure", [*rows["measure"]], "<"),
            Column("difference", aligned(rows["difference"], 3)),
            Column("now", [f"{n:,}" for n in rows["n"]], keep=1),
            Column(
                "needed",
                ["" if x == float("inf") else f"{int(x):,}" for x in rows["needed"]],
                note=(
                    f"Needed: {unit} until a difference of this size would be found in "
                    f"{percent(POWER)} of such evaluations, at the level corrected for all rows; "
                    "none where no difference is seen."
                ),
            ),
        ],
        len(c.needed),
        caption="Size of an evaluation that would find the difference",
        key=f"needed-{key}",
        most=8,
    )
