"""Tests over instances as a document: every pair of methods on every measure, a test set after the
other.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.instance_tests import FEW, InstanceTests
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
from mlflow_mleval.report.numerals import with_intervals

#: Rows of a table on a terminal, and on a page.
ROWS, ALL_ROWS = 30, 500


def section(c: Comparison) -> Section | None:
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


def data(c: Comparison) -> dict[str, Any]:
    return {"instances": {dataset: record(tests) for dataset, tests in _found(c).items()} or None}


def frames(c: Comparison) -> dict[str, pd.DataFrame]:
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


def document(tests: InstanceTests, provenance: Mapping[str, Any]) -> Document:
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
