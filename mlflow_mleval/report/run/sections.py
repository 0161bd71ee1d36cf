"""The sections of the report of one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report.blocks import Column, Columns, Figure, Section, Table, Terms, Text, name
from mlflow_mleval.report.escape import NONE, aligned, fixed, number
from mlflow_mleval.report.run.content import FAMILIES, RunReport
from mlflow_mleval.report.run.figures import KINDS
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.report.words import count, listed

#: More rows than these are left to the files beside the report.
_LABELS, _FOLDS = 200, 30
#: Of these the correlation over folds is shown.
_COMMON = (
    "f1", "micro_f1", "macro_f1", "hamming_loss", "subset_accuracy", "ranking_loss", "soft_subset_loss", "h_f1", "lca_f1",
)  # fmt: skip


def run_sections(report: RunReport) -> list[Section]:
    """The sections in the order of reading; those that have nothing to say are left out."""
    makers = (_summary, _doubts, _measures, _labels, _profile, _hierarchy, _folds, _provenance)
    return [section for make in makers if (section := make(report)) is not None]


def _summary(report: RunReport) -> Section:
    return Section("verdict", "In short", [Text(report.sentences(), role="lead")])


def _doubts(report: RunReport) -> Section | None:
    doubts = report.doubts()
    return Section("doubts", "Doubts", [Text(doubts, role="points")]) if doubts else None


def _measures(report: RunReport) -> Section:
    rows = []
    table = report.measures
    for m, row in zip(table.index, table[["value", "half", "low", "high", "whole"]].to_numpy(), strict=True):
        value, half, low, high, whole = aligned(row)
        cells = [name(f"{m} {MEASURES[m].arrow}"), value]
        if report.statistics is not None:
            cells += ["" if half == NONE else f"± {half}", "" if low == NONE else f"{low} – {high}", whole]
        rows.append([*cells, FAMILIES[MEASURES[m].family]])
    columns = [Column("measure", "left"), Column("value" if report.statistics is None else "mean")]
    note = "↑ larger is better, ↓ smaller is."
    if report.statistics is not None:
        columns += [Column("95%"), Column("folds"), Column("all instances")]
        note += (
            f" Mean over {count(report.statistics.n_folds, 'fold')} with a 95% interval that allows for training data they share;"
            " smallest and largest fold; value over all instances together."
        )
    columns.append(Column("looks at", "left"))
    return Section("measures", "Measures", [Table(columns, rows, note=note)], hint=f"{len(table)} of them, with directions")


def _labels(report: RunReport) -> Section | None:
    table = report.labels
    if table.empty:
        return None
    first = "" if len(table) <= TOP else f"The {TOP} with the lowest F1 of {len(table):,} labels. "
    silent = len(report.ev.label_names) - len(table)
    left = f" Not drawn: {count(silent, 'label')} without a true or predicted instance." if silent else ""
    caption = (
        f"{first}Of the instances with a label, true or predicted: the share where it was found, missed, or predicted wrongly;"
        f" the lowest F1 first.{left}"
    )
    shown = table.head(_LABELS)
    counts = [[f"{n:,.0f}" for n in shown[c]] for c in ("support", "tp", "fp", "fn", "tn")]
    rates = [[fixed(v, 3) for v in shown[c]] for c in ("precision", "recall", "f1")]
    rows = list(zip(map(name, shown.index), *counts, *rates, strict=True))
    heads = ("support", "tp", "fp", "fn", "tn", "precision", "recall", "F1")
    note = "" if len(table) <= _LABELS else f"The first {_LABELS} of {len(table):,}; the tables beside this report hold all."
    folded = Table([Column("label", "left"), *map(Column, heads)], rows, title="All in numbers", note=note, folded=True)
    figure = Figure(report.figures["labels"], caption, folded)
    return Section("labels", "Labels", [figure], hint="the worst first, with confusion counts")


def _profile(report: RunReport) -> Section | None:
    if not report.profiles:
        return None
    profiles = report.profiles
    words = [
        f"Mean loss of {KINDS[kind]} over the degrees of dependence {number(p.area)}, rise {number(p.slope)}."
        for kind, p in profiles.items()
    ]
    caption = (
        "Binomial loss: the mean over all sets of k labels of the largest error in the set. At k = 1 it is the Hamming loss, at"
        f" k = {len(report.ev.label_names)} the subset 0/1 loss. The flatter the line, the more the errors fall on the same"
        f" instances. {' '.join(words)}"
    )
    first = next(iter(profiles.values()))
    at = np.unique(np.linspace(0, len(first.parameters) - 1, min(len(first.parameters), 30)).round().astype(int))
    rows = list(zip(map(str, first.parameters[at]), *(aligned(p.losses[at]) for p in profiles.values()), strict=True))
    table = Table([Column("k", "left"), *(Column(KINDS[k]) for k in profiles)], rows, title="In numbers", folded=True)
    figure = Figure(report.figures["profile"], caption, table)
    return Section("profile", "Loss profile", [figure], hint="from Hamming to subset 0/1")


def _hierarchy(report: RunReport) -> Section | None:
    """The hierarchical measures' own view: how far the classes reach, level by level, and where the errors lie."""
    if report.ev.hierarchy is None:
        return None
    options = [(key.replace("_", " "), str(value)) for key, value in report.ev.hierarchy.items()
               if key != "hierarchy" and value is not None]  # fmt: skip
    blocks: list[Any] = []
    if report.hierarchy is not None:
        blocks += _levels(report)
    blocks.append(Terms(options, title="Options of the hierarchical measures"))
    return Section("hierarchy", "Hierarchy", blocks, hint="classes by level, and where the errors lie")


def _levels(report: RunReport) -> list[Any]:
    table = report.labels
    paths = {label: report.place(label) for label in table.index}
    rows = []
    for depth, group in table.groupby([len(paths[label]) for label in table.index]):
        tp, fp, fn = (group[c].sum() for c in ("tp", "fp", "fn"))
        rates = [tp / whole if whole else None for whole in (tp + fp, tp + fn)]
        counts = [f"{v:,.0f}" for v in (len(group), tp + fn, tp, fp, fn)]
        rows.append([str(depth), *counts, *aligned([*rates, 2 * tp / (2 * tp + fp + fn)], 3)])
    heads = ("classes", "support", "tp", "fp", "fn", "precision", "recall", "F1")
    note = "1 is a root. Classes as they were assigned, without those above them; sums over instances."
    by_depth = Table([Column("depth", "left"), *map(Column, heads)], rows, title="By depth", note=note)
    errors = (table["fp"] + table["fn"]).sort_values(ascending=False, kind="stable").head(20)
    rows = []
    for label, n in errors.items():
        counts = [f"{v:,.0f}" for v in (n, *table.loc[label, ["fp", "fn", "support"]])]
        rows.append([name(" › ".join(map(str, paths[label])), 50), *counts])
    heads = ("errors", "predicted wrongly", "missed", "support")
    most = Table([Column("class", "left"), *map(Column, heads)], rows, title="Classes with the most errors")
    return [Columns([by_depth], [most])]


def _folds(report: RunReport) -> Section | None:
    if report.statistics is None:
        return None
    folds = report.ev.folds
    others = [m for m in folds if m not in report.bounded_folds]
    caption = "A dot is a fold, the line its mean."
    if others:
        caption += f" Not drawn, for their range is another: {listed(others, 8)}."
    blocks: list[Any] = []
    shown = folds.head(_FOLDS)
    sizes = [f"{n:,}" for n in report.ev.fold_sizes[shown.index]]
    rows = list(zip(map(name, shown.index), sizes, *(aligned(shown[m]) for m in shown), strict=True))
    note = "" if len(folds) <= _FOLDS else f"The first {_FOLDS} of {len(folds):,} folds; folds.parquet holds all."
    columns = [Column("fold", "left"), Column("instances"), *(Column(name(m)) for m in folds)]
    table = Table(columns, rows, title="All in numbers", note=note, folded=True)
    if "folds" in report.figures:
        blocks.append(Figure(report.figures["folds"], caption, table))
    else:
        blocks.append(table)
    blocks += [*_correlations(report), Text([report.normality], role="note")]
    return Section("folds", "Folds", blocks, hint=f"{len(folds)} of them, a dot each")


def _correlations(report: RunReport) -> Sequence[Any]:
    """How a few measures move together from fold to fold."""
    whole = report.statistics.correlation
    varying = set(whole.columns[whole.notna().any()])
    chosen = [m for m in _COMMON if m in varying]
    if len(chosen) < 2:
        return []
    cells = whole.loc[chosen, chosen].to_numpy()
    rows = [[name(m), *(fixed(v, 2) for v in row)] for m, row in zip(chosen, cells, strict=True)]
    columns = [Column("measure", "left"), *(Column(name(m)) for m in chosen)]
    title = f"Correlation over {report.statistics.n_folds} folds"
    return [Table(columns, rows, title=title, note="Of the measures in common use; statistics.json holds all.", folded=True)]


def _provenance(report: RunReport) -> Section:
    rows = [("method", name(report.method, 80)), ("dataset", name(report.dataset, 80)), ("predicted", report.decision)]
    rows += [(key, name(value, 120)) for key, value in report.provenance.items()]
    again = 'import json\nfrom mlflow_mleval import Evaluation\nev = Evaluation.from_dict(json.load(open("evaluation.json")))'
    blocks: list[Any] = [Terms(rows)]
    if report.portable:
        blocks.append(Text([again], role="pre", title="To read evaluation.json back", folded=True))
    definitions = [[name(m), MEASURES[m].arrow, MEASURES[m].summary, MEASURES[m].source] for m in report.ev.measures]
    columns = [Column("measure", "left"), Column("better", "centre"), Column("what it is", "wrap"), Column("after", "wrap")]
    blocks.append(Table(columns, definitions, title="What the measures are", folded=True))
    return Section("provenance", "Provenance", blocks, hint="data, conventions, versions")
