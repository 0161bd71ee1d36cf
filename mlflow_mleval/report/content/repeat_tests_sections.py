"""Tests over repeats as a document: every pair of methods on every measure, a dataset after the
other.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.repeat_tests import FEW, RepeatTests
from mlflow_mleval.naming import count
from mlflow_mleval.report import document as doc
from mlflow_mleval.report.content.differences import NOT_TRUSTED
from mlflow_mleval.report.content.doubts import doubts
from mlflow_mleval.report.content.provenance import made_from, when
from mlflow_mleval.report.document import (
    ALWAYS,
    PAGE,
    Column,
    Document,
    Section,
    Table,
    Text,
    listed,
    name,
)
from mlflow_mleval.report.numerals import aligned, with_intervals

#: Rows of a table on a terminal, and on a page.
ROWS, ALL_ROWS = 30, 500


def document(tests: RepeatTests, provenance: Mapping[str, Any]) -> Document:
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
        "pairs": _joined({dataset: tests.pairs for dataset, tests in found.items()}),
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
            "repeat_tests": _joined({dataset: tests.table for dataset, tests in found.items()})
        },
    )


def section(c: Comparison) -> Section | None:
    """The tests over the repeats of few datasets; nothing where there are none."""
    found = c.repeat_tests
    if not found:
        return None
    blocks = chain.from_iterable(
        _blocks(found[dataset], key, dataset, PAGE) for key, dataset in enumerate(found, start=1)
    )
    pairs = _joined({dataset: tests.pairs for dataset, tests in found.items()})
    hint = (
        f"{int(pairs['significant'].sum()):,} of {count(len(pairs), 'pair')} separated on "
        f"{count(len(found), 'dataset')}"
    )
    return Section("repeat_tests", "Tests over repeats", [*blocks], hint)


def data(c: Comparison) -> dict[str, Any]:
    return {"repeat_tests": {dataset: _record(tests) for dataset, tests in c.repeat_tests.items()}}


def frames(c: Comparison) -> dict[str, pd.DataFrame]:
    return (
        {"repeat_tests": _joined({d: tests.table for d, tests in c.repeat_tests.items()})}
        if c.repeat_tests
        else {}
    )


def _joined(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
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
    made = [text, _table(tests, f"repeat-tests-{key}", f"Pairs of methods over repeats{of}", depth)]
    return [
        *made,
        *doc.points(
            tests.warnings, f"Doubts about the verdicts{of.replace(' of ', ' on ', 1)}", depth=depth
        ),
    ]


def _table(tests: RepeatTests, key: str, caption: str, depth: int) -> Table:
    """One row a pair and measure, separated ones first."""
    rows = tests.ordered.head(ALL_ROWS)
    few = rows[["n_a", "n_b"]].min(axis=1) < FEW
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
            note=f"{NOT_TRUSTED}: fewer than {FEW} repeats."
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
        columns, len(tests.table), caption=caption, key=key, things="pairs", depth=depth, most=ROWS
    )
