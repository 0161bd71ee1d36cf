"""`mleval compare --over instances` in each format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.instance_tests import FEW, InstanceTests
from mlflow_mleval.report.blocks import Section, Text
from mlflow_mleval.report.data import SCHEMA_VERSION, plain, to_json
from mlflow_mleval.report.escape import aligned, latex, markdown, pvalue, wrap
from mlflow_mleval.report.latex import HEAD, items, made_from, table_environment
from mlflow_mleval.report.markdown import points, table_parts
from mlflow_mleval.report.page import render_page
from mlflow_mleval.report.sections.base import from_reader, marked
from mlflow_mleval.report.tables import Column, ReaderTable, to_csv
from mlflow_mleval.report.terminal import grid, short_ids
from mlflow_mleval.report.words import NOT_TRUSTED, count, listed, origin

#: Rows of the table for readers, and on a page.
ROWS, ALL_ROWS = 30, 500


def instances_table(found: InstanceTests, top: int | None = None) -> ReaderTable:
    """One row a pair and measure, separated ones first."""
    rows = found.ordered
    shown = rows.head(top)
    share = zip(shown["wins"], shown["ties"], shown["losses"], strict=True)
    interval = list(zip(*[iter(aligned(shown[["mean_difference", "low", "high"]].to_numpy().ravel(), 3))] * 3, strict=True))
    few = shown["wins"] + shown["losses"] <= FEW
    apart = [("yes" if s else "no") + (f" {NOT_TRUSTED}" if f else "") for s, f in zip(shown["significant"], few, strict=True)]
    columns = [
        Column("method", shown["method_a"].map(str).tolist(), "<", name=True),
        Column("against", shown["method_b"].map(str).tolist(), "<", name=True),
        Column("measure", shown["measure"].tolist(), "<"),
        Column("separated", apart, "<",
               note=f"{NOT_TRUSTED}: so few instances differ that they say little." if few.any() else ""),
        Column("mean difference", [f"{d} [{a}, {b}]" for d, a, b in interval], keep=2,
               note="Mean difference: positive where the first is better, with an interval that is not corrected."),
        Column("won/tied/lost", [f"{a:,}/{b:,}/{c:,}" for a, b, c in share], keep=3),
        Column("sign", [pvalue(p, bare=True) for p in shown["sign_corrected"]], keep=1),
        Column("signed rank", [pvalue(p, bare=True) for p in shown["wilcoxon_corrected"]], keep=1),
        Column("permutation", [pvalue(p, bare=True) for p in shown["permutation_corrected"]], keep=4,
               note="p-values are corrected for the number of pairs and measures; permutation decides "
               f"({found.n_draws:,} draws, seed {found.seed})."),
    ]  # fmt: skip
    return ReaderTable(columns, len(rows))


def render_instances(
    found: Mapping[str, InstanceTests], absent: Mapping[str, str], notes: Sequence[str], provenance: Mapping[str, Any],
    format: str, width: int = 100,
) -> str:  # fmt: skip
    """The tests over instances of each dataset in a format; csv has a row a pair and measure.

    Parameters
    ----------
    found : mapping of dataset to InstanceTests
    absent : mapping of dataset to str
        Why there is none.
    notes : sequence of str
        Doubts about the study.
    provenance : mapping
    format : {"table", "json", "csv", "md", "latex", "html"}
    width : int
        Columns of the terminal.
    """
    if format == "csv":
        frames = [tests.table.assign(dataset=dataset) for dataset, tests in found.items()]
        frame = pd.concat(frames, ignore_index=True)
        return to_csv(frame[["dataset", *frame.columns.drop("dataset")]])
    if format == "json":
        datasets = {dataset: {"verdict": tests.verdict(), **plain(tests)} for dataset, tests in found.items()}
        record = {"schema_version": SCHEMA_VERSION, "over": "instances", "datasets": datasets, "absent": absent,
                  "doubts": list(notes), "provenance": provenance}  # fmt: skip
        return to_json(plain(record))
    lost = [f"{listed([dataset])} was not tested: {reason}" for dataset, reason in absent.items()]
    if format == "md":
        parts = ["# Tests over instances"]
        for dataset, tests in found.items():
            parts += [f"## {markdown(listed([dataset]))}", markdown(_verdict(tests))]
            parts += table_parts(instances_table(tests, ROWS), "rows")
            parts += [points(tests.warnings)] if tests.warnings else []
        parts += [points([*lost, *notes])] if lost or notes else []
        return "\n\n".join([*parts, "## Made from", markdown(origin(provenance))]) + "\n"
    if format == "latex":
        parts = [HEAD]
        for i, (dataset, tests) in enumerate(found.items(), start=1):
            caption = f"Pairs of methods over {count(tests.n_instances, 'instance')} of {listed([dataset])}."
            parts += [latex(f"On {listed([dataset])}: {tests.verdict()}")]
            parts += [table_environment(instances_table(tests, ROWS), caption, f"instances-{i}")]
            parts += [items(f"Doubts about {listed([dataset])}", tests.warnings)] if tests.warnings else []
        parts += [items("Doubts", [*lost, *notes])] if lost or notes else []
        return "\n\n".join([*parts, made_from(provenance)]) + "\n"
    if format == "html":
        return _page(found, [*lost, *notes], provenance)
    lines: list[str] = []
    for dataset, tests in found.items():
        lines += [*wrap("", f"On {listed([dataset])}: {tests.verdict()}", width), ""]
        lines += [*grid(instances_table(tests, ROWS), width), ""]
        lines += [line for text in tests.warnings for line in wrap("- ", text, width)]
    lines += [line for text in [*lost, *notes] for line in wrap("- ", short_ids(text), width)]
    return "\n".join([*lines, "", *wrap("", origin(provenance), width)])


def _page(found: Mapping[str, InstanceTests], notes: Sequence[str], provenance: Mapping[str, Any]) -> str:
    prose = marked({*found, *(name for tests in found.values() for name in (*tests.methods, *tests.measures))})
    blocks: list[Any] = []
    for dataset, tests in found.items():
        blocks.append(Text([prose(_verdict(tests))], title=f"On {listed([dataset])}"))
        reader = instances_table(tests, ALL_ROWS)
        table = from_reader(reader, title="Every pair and measure")
        rest = f"The first {ALL_ROWS} of {reader.total:,} rows; the CSV data hold all. " if reader.left_out else ""
        blocks.append(replace(table, note=f"{rest}{table.note}"))
        if tests.warnings:
            blocks.append(Text(list(map(prose, tests.warnings)), role="points", title="Doubts about these verdicts"))
    sections = [Section("instances", "Over instances", blocks)]
    if notes:
        sections.append(Section("doubts", "Doubts", [Text(list(map(prose, notes)), role="points")]))
    sections.append(Section("provenance", "Made from", [Text([origin(provenance)])]))
    return render_page(f"Tests over instances: {listed(found)}", "", sections, str(provenance.get("time") or ""))


def _verdict(tests: InstanceTests) -> str:
    text = tests.verdict()
    return text[:1].upper() + text[1:]
