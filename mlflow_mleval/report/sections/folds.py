"""What the folds of each dataset say: several measures tested together, pair by pair, with pictures of the folds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mlflow_mleval.analysis.folds.fold_comparison import FoldComparison
from mlflow_mleval.report.blocks import Column, Columns, Figure, Section, Table, Terms, Text, name
from mlflow_mleval.report.escape import fixed, number, pvalue
from mlflow_mleval.report.figures.fold_scatter import DETAILED, INSIDE, fold_histogram, fold_scatter
from mlflow_mleval.report.folds_text import (
    ARROWS,
    Folds,
    explain,
    means_table,
    orderings_table,
    overview_table,
    pairs_table,
    sentences,
)
from mlflow_mleval.report.sections.base import Report, from_reader
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.report.words import count, listed

#: Datasets that are shown in full, pairs that a table lists, and histograms of single measures.
DATASETS, PAIRS, HISTOGRAMS = 12, 200, 4


def section(report: Report) -> Section | None:
    """The folds of every dataset that has any; nothing where none has."""
    c = report.comparison
    absent = {key.removeprefix("folds."): why for key, why in c.absent.items() if key.startswith("folds.")}
    return folds_section(c.folds, absent, report.prose) if c.folds or absent else None


def folds_section(folds: Folds, absent: Mapping[str, str], prose: Any) -> Section:
    """The section about these comparisons; `prose` turns running text into markup."""
    blocks: list[Any] = []
    if len(folds) > 1:
        blocks.append(from_reader(overview_table(folds), title="Every dataset"))
    for dataset, found in list(folds.items())[:DATASETS]:
        blocks += _dataset(dataset, found, prose)
    if len(folds) > DATASETS:
        rest = f"The first {DATASETS} of {len(folds)} datasets are shown; the JSON and CSV data hold all."
        blocks.append(Text([rest], role="note"))
    if absent:
        untested = [prose(f"{dataset} was not tested: {why}") for dataset, why in absent.items()]
        blocks.append(Text(untested, role="points", title="Not tested"))
    terms = {word: text for found in folds.values() for word, text in explain(found)}
    if terms:
        blocks.append(Terms(list(terms.items()), title="What these words mean, and when not to trust them"))
    total = sum(len(f.pairs) for f in folds.values())
    apart = sum(int(f.pairs["significant"].sum()) for f in folds.values())
    hint = f"{apart:,} of {count(total, 'pair')} separated on {count(len(folds), 'dataset')}" if folds else "not tested"
    return Section("folds", "By fold", blocks, hint=hint)


def _dataset(dataset: str, found: FoldComparison, prose: Any) -> list[Any]:
    said = found.doubts
    blocks = [Text([prose(text) for text in sentences(found)], title=f"On {listed([dataset])}"), _means(found)]
    if said:
        blocks.append(Text([prose(text) for text in said], role="points", title="Doubts about these verdicts"))
    pairs = from_reader(pairs_table(found, PAIRS), title="Every pair")
    if len(found.pairs) > PAIRS:
        pairs = replace(pairs, note=f"The first {PAIRS} of {len(found.pairs):,} pairs; the CSV data hold all. {pairs.note}")
    left = [*_scatter(dataset, found), *_learned(dataset, found)]
    right = [pairs, *_histograms(found)]
    if len(found.measures) > 1:
        table = from_reader(orderings_table(found), title="By each measure alone")
        columns = [table.columns[0], replace(table.columns[1], align="wrap")]
        right.append(replace(table, columns=columns, note="Methods that share a letter are not separated by that measure."))
    return [*blocks, Columns(left, right)] if left else [*blocks, *right]


def _means(found: FoldComparison) -> Table:
    table = from_reader(means_table(found, TOP))
    return table if len(found.methods) <= TOP else replace(table, note=f"The best {TOP} of {len(found.methods)}. {table.note}")


def _heads(found: FoldComparison) -> list[str]:
    return [f"{m} {ARROWS[found.orderings[m].direction]}" for m in found.measures]


def _shown(found: FoldComparison) -> str:
    many = len(found.methods)
    return "" if many <= DETAILED else f" Folds and ellipses of the best {DETAILED} are drawn, of others the mean" + (
        f" (of the best {TOP} of {many})." if many > TOP else "."
    )


def _scatter(dataset: str, found: FoldComparison) -> list[Figure]:
    if len(found.measures) < 2:
        return []
    caption = (
        f"Each point is a fold, the large mark the mean. The ellipse holds {INSIDE:.0%} of the normal distribution that fits the "
        f"folds of the method; it shows how they scatter, not how sure the mean is.{_shown(found)}"
    )
    if len(found.measures) > 2:
        caption += f" Drawn are the first two of {len(found.measures)} measures."
    heads = _heads(found)[:2]
    svg = fold_scatter(found.values.iloc[:, :2], found.order, heads, f"Folds on {listed([dataset])}")
    return [Figure(svg, caption, title="Folds on two measures")]


def _histograms(found: FoldComparison) -> list[Figure]:
    figures = []
    for measure, head in list(zip(found.measures, _heads(found), strict=True))[:HISTOGRAMS]:
        intervals = found.means.xs(measure, level="measure")
        figures.append(Figure(fold_histogram(found.values[measure], found.order, head, intervals), ""))
    if figures:
        first = figures[0]
        caption = "How many folds fall where; the tall line is the mean, the thick one at the foot its interval."
        figures[0] = replace(first, title="Folds on each measure alone", caption=caption)
    return figures


def _learned(dataset: str, found: FoldComparison) -> list[Any]:
    """Projections on the learned measures, their weights and tests."""
    learned = found.learned
    if learned is None or len(learned.weights) < 2:
        return []
    shares, shown = learned.shares, learned.projections.columns[:2]
    heads = [f"{m} ({shares[m]:.0%} of what separates)" for m in shown]
    caption = (
        "The folds on the combinations of measures that tell the methods apart best (eigenvectors of E⁻¹H). They were learned "
        f"from these folds, so some distance is there by construction.{_shown(found)}"
    )
    rows = [
        [name(m), *(fixed(learned.scaled_weights.loc[m, k], 2) for k in shares.index)] for m in learned.scaled_weights.index
    ]
    rows.append(["share", *(f"{x:.0%}" for x in shares)])
    rows.append(["p of it and those after it", *(pvalue(learned.dimensions.loc[k, "pvalue"], bare=True) for k in shares.index)])
    note = "Weights per standard deviation of what is left of fold and method: comparable between measures."
    columns = [Column("measure", "left"), *(Column(str(k)) for k in shares.index)]
    weights = Table(columns, rows, title="Weights of the learned measures", note=note)
    if len(shown) > 1:
        svg = fold_scatter(learned.projections[list(shown)], found.order, heads, f"Learned measures on {listed([dataset])}")
    else:
        svg = fold_histogram(learned.projections[shown[0]], found.order, heads[0])
    return [Figure(svg, caption, weights, title="Learned measures"), _learned_tests(found)]


def _learned_tests(found: FoldComparison) -> Table:
    tests = found.learned_tests
    first = tests[tests["learned"] == tests["learned"].iloc[0]].nsmallest(PAIRS, "pvalue")
    rows = [
        [name(r.method_a), name(r.method_b), number(r.mean_difference), number(r.statistic),
         pvalue(r.pvalue_corrected, bare=True)]
        for r in first.itertuples()
    ]  # fmt: skip
    columns = [Column("method", "left"), Column("against", "left"), Column("difference"), Column("t"), Column("p (Holm)")]
    note = "p holds for any choice of weights, so that the choice that was made on these folds is allowed for."
    return Table(columns, rows, title=f"Every pair on {tests['learned'].iloc[0]}", note=note, folded=True)
