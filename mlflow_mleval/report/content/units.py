"""Tests over instances, repeats and answers as sections and documents."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.answer_comparison import POWER, AnswerComparison
from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.instance_tests import FEW, InstanceTests
from mlflow_mleval.analysis.repeat_tests import FEW as repeat_tests_FEW
from mlflow_mleval.analysis.repeat_tests import RepeatTests
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    ALWAYS,
    PAGE,
    PAPER,
    Column,
    Section,
    Table,
    Text,
    listed,
    name,
)
from mlflow_mleval.report.content.definitions import doubts
from mlflow_mleval.report.content.differences import NOT_TRUSTED
from mlflow_mleval.report.content.provenance import made_from, when
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.text import aligned, number, percent, with_intervals
from mlflow_mleval.validation import present
from mlflow_mleval.words import count

# --------------------------------------------------------------------------------------------------
# Tests over instances as a document: every pair of methods on every measure, a test set after the
# other.

#: Rows of a table on a terminal, and on a page.
ROWS, ALL_ROWS = 30, 500


def instance_tests_section(c: Comparison) -> Section | None:
    """The tests over the instances of every dataset whose runs carry them; nothing where none
    do.
    """
    found = _found(c)
    if not found:
        return None
    parts = (
        [*blocks(tests, key, dataset, PAGE)]
        for key, (dataset, tests) in enumerate(found.items(), start=1)
    )
    pairs = pd.concat([tests.pairs for tests in found.values()])
    hint = (
        f"{pairs['significant'].sum():,} of {count(len(pairs), 'pair')} separated on "
        f"{count(len(found), 'dataset')}"
    )
    return Section("instances", "By instance", [*chain.from_iterable(parts)], hint)


def instance_tests_data(c: Comparison) -> dict[str, Any]:
    return {"instances": {dataset: record(tests) for dataset, tests in _found(c).items()} or None}


def instance_tests_frames(c: Comparison) -> dict[str, pd.DataFrame]:
    return {"instances": _joined(found)} if (found := _found(c)) else {}


def _found(c: Comparison) -> dict[str, InstanceTests]:
    """Of datasets whose runs hold tables of ours; what answers say is in a section of its own."""
    return {
        dataset: found for dataset, found in c.instances.items() if isinstance(found, InstanceTests)
    }


def _joined(found: Mapping[str, InstanceTests]) -> pd.DataFrame:
    return pd.concat(
        {dataset: tests.table for dataset, tests in found.items()}, names=["dataset"]
    ).reset_index(0)


def instances_document(
    found: Mapping[str, InstanceTests],
    absent: Mapping[str, str],
    notes: Sequence[str],
    provenance: Mapping[str, Any],
) -> Document:
    """The tests of several datasets; `absent` says why a dataset has none, `notes` are doubts about
    the study.
    """
    shown = chain.from_iterable(
        blocks(tests, key, dataset) for key, (dataset, tests) in enumerate(found.items(), start=1)
    )
    lost = [f"{name(dataset)} was not tested: {reason}" for dataset, reason in absent.items()]
    all_of_it = {
        "over": "instances",
        "n_instances": sum(tests.n_instances for tests in found.values()),
        "pairs": pd.concat([t.pairs.assign(dataset=d) for d, t in found.items()])
        if found
        else pd.DataFrame(),
        "datasets": {dataset: record(tests) for dataset, tests in found.items()},
        "absent": absent,
        "doubts": [
            *notes,
            *(f"{d}: {said}" for d, tests in found.items() for said in tests.warnings),
        ],
        "provenance": provenance,
    }
    return Document(
        f"Tests over instances: {listed(found)}",
        [
            Section("instances", "Over instances", [*shown]),
            *doubts([*lost, *notes]),
            made_from(provenance),
        ],
        time=when(provenance),
        data=lambda: all_of_it,
        main="instances",
        frames=lambda: {"instances": _joined(found)},
    )


def instance_tests_document(tests: InstanceTests, provenance: Mapping[str, Any]) -> Document:
    """The tests of one set of instances."""
    return Document(
        "Tests over instances",
        [Section("instances", "Over instances", [*blocks(tests)]), made_from(provenance)],
        time=when(provenance),
        data=lambda: {**record(tests), "provenance": provenance},
        frames=lambda: {"instances": tests.table},
        main="instances",
    )


def record(tests: InstanceTests) -> dict[str, Any]:
    found = {
        "n_draws" if key == "n_resamples" else key: value for key, value in vars(tests).items()
    }
    return {"verdict": tests.verdict(), **found}


def blocks(
    tests: InstanceTests, key: int = 1, dataset: str | None = None, depth: int = ALWAYS
) -> list[Any]:
    of, title = ("", "") if dataset is None else (f" of {name(dataset)}", f"On {name(dataset)}")
    said = tests.verdict(name)
    caption = f"Pairs of methods over {count(tests.n_instances, 'instance')}{of}"
    made = [
        Text([said[:1].upper() + said[1:]], title=title, depth=depth),
        _table(tests, f"instances-{key}", caption, depth),
    ]
    return [
        *made,
        *doc.points(
            tests.warnings, f"Doubts about the verdicts{of.replace(' of ', ' on ', 1)}", depth=depth
        ),
    ]


def _table(tests: InstanceTests, key: str, caption: str, depth: int) -> Table:
    """One row a pair and measure, separated ones first."""
    rows = tests.ordered.head(ALL_ROWS)
    few = rows["wins"] + rows["losses"] <= FEW
    apart = [
        ("yes" if s else "no") + (f" {NOT_TRUSTED}" if f else "")
        for s, f in zip(rows["significant"], few, strict=True)
    ]
    counts = zip(rows["wins"], rows["ties"], rows["losses"], strict=True)
    columns = [
        *doc.pair(rows),
        Column("measure", [*rows["measure"]], "<"),
        Column(
            "mean difference",
            with_intervals(rows[["mean_difference", "low", "high"]].to_numpy()),
            keep=3,
            note=(
                "Mean difference: positive where the first is better, with an interval that is "
                "not corrected."
            ),
        ),
        *(
            [
                doc.pvalues(
                    "betting",
                    rows["anytime_corrected"],
                    keep=6,
                    note="Betting decides; the other tests hold at one look.",
                )
            ]
            if tests.anytime
            else []
        ),
        doc.pvalues(
            "permutation",
            rows["permutation_corrected"],
            keep=5,
            note=(
                "p-values are corrected for the number of pairs and measures; permutation"
                f"{'' if tests.anytime else ' decides'} ({tests.n_resamples:,} draws, seed "
                f"{tests.seed})."
            ),
        ),
        Column(
            "separated",
            apart,
            "<",
            note=f"{NOT_TRUSTED}: so few instances differ that they say little."
            if few.any()
            else "",
        ),
        Column("won/tied/lost", [f"{a:,}/{b:,}/{c:,}" for a, b, c in counts], keep=4),
        doc.pvalues("sign", rows["sign_corrected"], keep=1),
        doc.pvalues("signed rank", rows["wilcoxon_corrected"], keep=2),
    ]
    return Table(columns, len(tests.table), caption=caption, key=key, depth=depth, most=ROWS)


# --------------------------------------------------------------------------------------------------
# Tests over repeats as a document: every pair of methods on every measure, a dataset after the
# other.

#: Rows of a table on a terminal, and on a page.
REPEAT_TESTS_ROWS, REPEAT_TESTS_ALL_ROWS = 30, 500


def repeat_tests_document(tests: RepeatTests, provenance: Mapping[str, Any]) -> Document:
    """The tests of one dataset."""
    return Document(
        "Tests over repeats",
        [Section("repeats", "Over repeats", [*_blocks(tests)]), made_from(provenance)],
        time=when(provenance),
        data=lambda: {**_record(tests), "provenance": provenance},
        frames=lambda: {"repeat_tests": tests.table},
        main="repeat_tests",
    )


def repeats_document(
    found: Mapping[str, RepeatTests],
    absent: Mapping[str, str],
    notes: Sequence[str],
    provenance: Mapping[str, Any],
) -> Document:
    """The tests of several datasets; `absent` says why a dataset has none, `notes` are doubts about
    the study.
    """
    shown = chain.from_iterable(
        _blocks(tests, key, dataset) for key, (dataset, tests) in enumerate(found.items(), start=1)
    )
    lost = [f"{name(dataset)} was not tested: {reason}" for dataset, reason in absent.items()]
    all_of_it = {
        "over": "repeats",
        "pairs": _repeat_tests_joined({dataset: tests.pairs for dataset, tests in found.items()}),
        "datasets": {dataset: _record(tests) for dataset, tests in found.items()},
        "absent": absent,
        "doubts": [
            *notes,
            *(f"{d}: {said}" for d, tests in found.items() for said in tests.warnings),
        ],
        "provenance": provenance,
    }
    return Document(
        f"Tests over repeats: {listed(found)}",
        [
            Section("repeats", "Over repeats", [*shown]),
            *doubts([*lost, *notes]),
            made_from(provenance),
        ],
        time=when(provenance),
        data=lambda: all_of_it,
        main="repeat_tests",
        frames=lambda: {
            "repeat_tests": _repeat_tests_joined(
                {dataset: tests.table for dataset, tests in found.items()}
            )
        },
    )


def repeat_tests_section(c: Comparison) -> Section | None:
    """The tests over the repeats of few datasets; nothing where there are none."""
    found = c.repeat_tests
    if not found:
        return None
    blocks = chain.from_iterable(
        _blocks(found[dataset], key, dataset, PAGE) for key, dataset in enumerate(found, start=1)
    )
    pairs = _repeat_tests_joined({dataset: tests.pairs for dataset, tests in found.items()})
    hint = (
        f"{int(pairs['significant'].sum()):,} of {count(len(pairs), 'pair')} separated on "
        f"{count(len(found), 'dataset')}"
    )
    return Section("repeat_tests", "Tests over repeats", [*blocks], hint)


def repeat_tests_data(c: Comparison) -> dict[str, Any]:
    return {"repeat_tests": {dataset: _record(tests) for dataset, tests in c.repeat_tests.items()}}


def repeat_tests_frames(c: Comparison) -> dict[str, pd.DataFrame]:
    return (
        {
            "repeat_tests": _repeat_tests_joined(
                {d: tests.table for d, tests in c.repeat_tests.items()}
            )
        }
        if c.repeat_tests
        else {}
    )


def _repeat_tests_joined(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, names=["dataset"]).reset_index(0)


def _record(tests: RepeatTests) -> dict[str, Any]:
    found = {
        "n_draws" if key == "n_resamples" else key: value for key, value in vars(tests).items()
    }
    return doc.named(tests, "feasibility", "test") | {
        "verdict": tests.verdict(),
        **found,
        "warnings": tests.warnings,
    }


def _blocks(
    tests: RepeatTests, key: int = 1, dataset: str | None = None, depth: int = ALWAYS
) -> list[Any]:
    of, title = ("", "") if dataset is None else (f" of {name(dataset)}", f"On {name(dataset)}")
    said = tests.verdict(name)
    text = Text([tests.feasibility, said[:1].upper() + said[1:]], title=title, depth=depth)
    made = [
        text,
        _repeat_tests_table(
            tests, f"repeat-tests-{key}", f"Pairs of methods over repeats{of}", depth
        ),
    ]
    return [
        *made,
        *doc.points(
            tests.warnings, f"Doubts about the verdicts{of.replace(' of ', ' on ', 1)}", depth=depth
        ),
    ]


def _repeat_tests_table(tests: RepeatTests, key: str, caption: str, depth: int) -> Table:
    """One row a pair and measure, separated ones first."""
    rows = tests.ordered.head(REPEAT_TESTS_ALL_ROWS)
    few = rows[["n_a", "n_b"]].min(axis=1) < repeat_tests_FEW
    words = np.where(
        rows["pvalue"].isna(), "not tested", np.where(rows["significant"], "yes", "no")
    )
    apart = [
        f"{word} {NOT_TRUSTED}" if f and word == "yes" else word
        for word, f in zip(words, few, strict=True)
    ]
    over = f"{count(tests.n_comparisons, 'test')}{f' on {tests.n_datasets} datasets together' if tests.n_datasets > 1 else ''}"  # noqa: E501
    exact, source = rows["exact"].all(), "" if tests.by_seed else " (Welch 1947)"
    columns = [
        *doc.pair(rows),
        Column("measure", [*rows["measure"]], "<"),
        Column(
            "repeats", [f"{a}/{b}" for a, b in zip(rows["n_a"], rows["n_b"], strict=True)], keep=2
        ),
        Column(
            "mean difference",
            with_intervals(rows[["mean_difference", "low", "high"]].to_numpy()),
            keep=4,
            note=(
                "Mean difference: positive where the first is better, with an interval that is "
                "not corrected."
            ),
        ),
        Column(
            "effect",
            aligned(rows["effect_size"], 3),
            keep=1,
            note="Effect: the difference in standard deviations (Hedges' g).",
        ),
        doc.pvalues(
            "p (Holm)",
            rows["pvalue_corrected"],
            keep=5,
            note=f"p: {tests.test}{source}, corrected by Holm over {over}.",
        ),
        Column(
            "separated",
            apart,
            "<",
            note=f"{NOT_TRUSTED}: fewer than {repeat_tests_FEW} repeats."
            if any(NOT_TRUSTED in a for a in apart)
            else "",
        ),
        doc.pvalues(
            "permutation",
            rows["permutation_corrected"],
            keep=3,
            note=(
                "Permutation: the same by permutations of the studentised difference (Janssen "
                "1997)"
                f"{'' if exact else f' (all of them, or {tests.n_resamples:,} draws, seed {tests.seed})'}."  # noqa: E501
            ),
        ),
    ]
    return Table(
        columns,
        len(tests.table),
        caption=caption,
        key=key,
        things="pairs",
        depth=depth,
        most=REPEAT_TESTS_ROWS,
    )


# --------------------------------------------------------------------------------------------------
# Answers as a document: who answers better, on what, on which questions, and what more questions
# would give.

#: Pairs of measures, and rows of what more would give, that a page holds.
ANSWERS_ROWS = 60


def answer_comparison_section(c: Comparison) -> Section | None:
    """What the answers on every dataset say, and why those on others say nothing; nothing where no
    run holds any.
    """
    found = _answers_found(c)
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


def answer_comparison_data(c: Comparison) -> dict[str, Any]:
    return {
        "answers": {
            dataset: answers_record(answers) for dataset, answers in _answers_found(c).items()
        }
        or None
    }


def answer_comparison_frames(c: Comparison) -> dict[str, pd.DataFrame]:
    return {f"answers_{key}": frame for key, frame in _frames(_answers_found(c)).items()}


def _answers_found(c: Comparison) -> dict[str, AnswerComparison]:
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
        "datasets": {d: answers_record(c) for d, c in found.items()},
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


def answer_comparison_document(c: AnswerComparison, provenance: Mapping[str, Any]) -> Document:
    """The comparison of one set of answers."""
    first, *others = _sections(c, 1, None)
    return Document(
        "Answers compared",
        [first, *doubts(c.warnings), *others, made_from(provenance)],
        time=when(provenance),
        data=lambda: {**answers_record(c), "provenance": provenance},
        frames=lambda: _frames({"": c}),
        main="instances",
    )


def answers_record(c: AnswerComparison) -> dict[str, Any]:
    keys = ("joint", "compared", "agreement", "sampling", "needed", "cluster")
    ranking = c.ranking and {**vars(c.ranking), "table": c.ranking.table.reset_index()}
    differing = c.differing.reset_index(names="instance")
    return {
        **record(c.tests),
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
    _, pairs, *_ = blocks(c.tests, key, dataset)
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
    rows = c.joint.head(ANSWERS_ROWS)
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
    ).head(ANSWERS_ROWS)
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
    rows = c.sampling.head(ANSWERS_ROWS)
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
    rows = c.needed.head(ANSWERS_ROWS)
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
