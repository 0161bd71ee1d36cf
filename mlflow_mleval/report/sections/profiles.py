"""Loss profiles: where the order of the methods changes while more labels have to be right together, and who is aware of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mlflow_mleval.analysis.profile_comparison import ProfileComparison
from mlflow_mleval.report.blocks import Columns, Figure, Section, Table, Terms, Text
from mlflow_mleval.report.figures.fold_scatter import DETAILED
from mlflow_mleval.report.figures.profile_lines import NAMED, awareness_strips, profile_lines, ratio_panels
from mlflow_mleval.report.profiles_text import (
    KINDS,
    awareness_table,
    curves_table,
    dataset_sentences,
    dataset_table,
    explain,
    left_out,
    pairs_table,
    sentences,
)
from mlflow_mleval.report.sections.base import Report, from_reader
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.report.tables import ReaderTable
from mlflow_mleval.report.words import count, listed

#: Datasets that are shown in full, pairs that are drawn and that a table lists, and crossings told of one dataset.
DATASETS, PANELS, PAIRS, TOLD = 12, 12, 200, 3


def section(report: Report) -> Section | None:
    """The profiles that the runs carry; nothing where there are none to compare."""
    found = report.comparison.profiles
    return None if found is None else profiles_section(found, report.prose)


def profiles_section(found: ProfileComparison, prose: Callable[[str], Any]) -> Section:
    """The section about this comparison; `prose` turns running text into markup."""
    datasets = found.datasets
    blocks: list[Any] = [Text([prose(text) for text in sentences(found)])]
    if found.warnings:
        blocks.append(Text([prose(text) for text in found.warnings], role="points", title="Doubts about these"))
    right = [_table(awareness_table(found, TOP), "How aware of dependence each method is, on average", "methods")]
    if len(datasets) > 1 and len(found.ratios):
        right = [_strips(found), *right, _table(pairs_table(found, PAIRS), "Every pair", "pairs")]
    blocks.append(Columns(_ratios(found), right))
    for dataset in datasets[:DATASETS]:
        blocks += _dataset(found, dataset, prose, alone=len(datasets) == 1)
    if len(datasets) > DATASETS:
        rest = f"The first {DATASETS} of {len(datasets)} datasets are shown; the JSON and CSV data hold all."
        blocks.append(Text([rest], role="note"))
    if said := left_out(found):
        blocks.append(Text([prose(text) for text in said], role="points", title="What there is not"))
    blocks.append(Terms(explain(found), title="What these words mean, and when not to trust them"))
    crossed = len(found.crossings)
    hint = f"{count(crossed, 'change')} of order on {count(len(datasets), 'dataset')}"
    return Section("profiles", "Loss profiles", blocks, hint=hint)


def _table(reader: ReaderTable, title: str, things: str, **options: Any) -> Table:
    table = from_reader(reader, title=title, **options)
    if not reader.left_out:
        return table
    shown = len(reader.rows)
    return replace(table, note=f"The first {shown} of {reader.total:,} {things}; the CSV data hold all. {table.note}")


def _ratios(found: ProfileComparison) -> list[Figure]:
    frame = found.pair_patterns
    if frame.empty:
        return []
    drawn = list(zip(frame["method"], frame["against"], strict=True))[:PANELS]
    caption = (
        "The loss of the second method over that of the first, a line a dataset: above 1 the first is better. "
        "A circle is a crossing. "
    )
    if found.ratios["significant"].any():
        caption += "Where a line is heavy the folds are sure of the difference; a full circle has such stretches on both sides. "
    if len(frame) > PANELS:
        caption += f"The {PANELS} pairs with the most crossings of {len(frame):,} are drawn. "
    if len(found.datasets) > NAMED:
        caption += f"Of the datasets the {NAMED} farthest from 1 are named. "
    svg = ratio_panels(found.ratios, found.crossings, drawn, found.options["family"], "Ratios of losses")
    return [Figure(svg, caption.strip(), title="Where the order changes")]


def _strips(found: ProfileComparison) -> Figure:
    order = awareness_table(found).columns[0].cells
    shared = found.shared_awareness
    rows = shared.loc[[key for m in order for key in shared.index if key[1] == m]]
    caption = "A dot is a dataset, the line the mean. Letters: methods that share one are not separated over the datasets."
    letters = found.awareness_letters
    if not letters:
        caption = caption.partition(" Letters")[0]
    if len(order) > TOP:
        caption += f" The flattest {TOP} of {len(order):,} methods."
    return Figure(awareness_strips(rows, letters, "Awareness of dependence"), caption, title="Awareness of dependence by dataset")


def _dataset(found: ProfileComparison, dataset: str, prose: Callable[[str], Any], alone: bool) -> list[Any]:
    methods = found.methods_on(dataset)
    curves = found.curves.xs(dataset, level="dataset")
    curves = curves.loc[methods[:TOP]]
    name = listed([dataset])
    caption = f"Mean loss of {KINDS[found.options['kind']]}; 0 is best."
    if curves["low"].notna().any() and len(methods) <= DETAILED:
        caption += f" Bands: {1 - found.options['alpha']:.0%} bootstrap intervals of the mean, over folds."
    elif curves["low"].notna().any():
        caption += f" Bands over folds are drawn for at most {DETAILED} methods; the JSON data hold those of all."
    if len(methods) > TOP:
        caption += f" The {TOP} of {len(methods):,} methods with the least mean loss along the profile are drawn."
    numbers = _table(curves_table(found, dataset, 100), "In numbers", "methods", folded=True)
    everyone = found.awareness["area"].groupby(level="method").mean().sort_values(kind="stable").index
    kinds = {m: i for i, m in enumerate(everyone)} if len(everyone) <= TOP else None
    svg = profile_lines(curves, found.options["family"], f"Loss profiles on {name}", kinds)
    figure = Figure(svg, caption, numbers, title=f"On {name}")
    right = [_table(dataset_table(found, dataset, PAIRS), "Every pair", "pairs")] if len(methods) > 1 else []
    if not alone and (said := dataset_sentences(found, dataset, TOLD)):
        right.insert(0, Text([prose(text) for text in said]))
    return [Columns([figure], right)]
