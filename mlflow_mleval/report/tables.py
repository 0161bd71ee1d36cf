"""The tables of a report: unrounded frames for CSV files, and a few columns for readers.

Files (all unrounded; the columns and their order are stable):

=====================  =================================================================================================
ranking.csv            position, method, rank, phi_plus, phi_minus, phi, mean_rank, best_rank, worst_rank, letters
ranks_by_dataset.csv   dataset, method, rank, phi_plus, phi_minus, phi, tested_rank, tested_value
pairs.csv              method_a, method_b, mean_rank_difference, mean_difference, mean_low, mean_high, median_difference,
                       median_low, median_high, wins, ties, losses, effect_size, statistic, pvalue, pvalue_corrected,
                       pvalue_nemenyi, separated, doubts
weights.csv            dataset, measure, weight
measures.csv           measure, direction, family, source, leader, mean_rank, friedman_pvalue, iman_davenport_pvalue
correlations.csv       measure_a, measure_b, correlation, redundant
values.csv             measure, dataset, method, value
=====================  =================================================================================================

``rank`` and the flows are those of the fused ranking, means over datasets in ranking.csv. ``mean_rank``, ``tested_rank``
and ``tested_value`` are those of what the tests compare: the same ranking, or one measure. In pairs.csv method_a is the
one with the better mean rank; differences are a minus b, of mean ranks negative and else positive where a is better;
``doubts`` says why a pair that is separated is not to be trusted to be, and is empty elsewhere.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.paired import mean_intervals
from mlflow_mleval.report.escape import aligned, csv_cell, fixed, pvalue
from mlflow_mleval.report.words import NOT_TRUSTED, deciding_test
from mlflow_mleval.validation import one_of

#: What `render_csv` and the option --output csv can write.
CSV = ("ranking", "pairs")


def to_csv(frame: pd.DataFrame) -> str:
    """A frame as CSV (RFC 4180: commas, CRLF, quotes doubled), every cell escaped."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(frame.columns)
    plain = frame.astype(object).where(frame.notna(), None)
    writer.writerows([csv_cell(_python(value)) for value in row] for row in plain.itertuples(index=False))
    return out.getvalue()


def _python(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def render_csv(comparison: Comparison, what: str = "ranking") -> str:
    """The ranking or the pairs as CSV, unrounded; for the columns see the head of this module."""
    return to_csv(getattr(comparison, one_of(what, "what", CSV)))


def report_tables(comparison: Comparison) -> dict[str, str]:
    """All tables of a report as CSV by file name: what lies beside it, since MLflow's viewer offers no downloads."""
    frames = {
        "ranking": comparison.ranking, "ranks_by_dataset": comparison.by_dataset, "pairs": comparison.pairs,
        "weights": comparison.weights_long, "measures": comparison.measures, "correlations": comparison.correlations,
        "values": comparison.values_long,
    }
    return {f"{name}.csv": to_csv(frame) for name, frame in frames.items() if len(frame)}


@dataclass(frozen=True)
class Column:
    """A column for readers: formatted cells, not yet escaped.

    Where room lacks, the columns with the least `keep` go first; those with 0 stay, but names are cut where `name` says so.
    `note` says what the column means.
    """

    head: str
    cells: list[str]
    align: str = ">"
    keep: int = 0
    name: bool = False
    note: str = ""


@dataclass(frozen=True)
class ReaderTable:
    """A table for readers: the first rows of `total`."""

    columns: list[Column]
    total: int

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells, row by row."""
        return list(zip(*(c.cells for c in self.columns), strict=True))

    @property
    def left_out(self) -> int:
        """How many rows are not shown."""
        return self.total - len(self.columns[0].cells)


def ranking_table(comparison: Comparison, top: int | None = None) -> ReaderTable:
    """The ranking for readers: the best `top` methods."""
    frame = comparison.ranking
    total, shown = len(frame), frame.head(top)
    several = len(comparison.ranks) > 1
    methods = shown["method"]
    mean = [fixed(r, 2) if several else f"{r:g}" for r in shown["mean_rank"]]
    columns = [
        Column("#", shown["position"].astype(str).tolist()),
        Column("method", methods.tolist(), "<", name=True),
        Column("mean rank" if several else "rank", mean, note="Rank 1 is best."),
    ]
    sure = comparison.beyond.ranks if comparison.beyond is not None else None
    if several and sure is not None:
        allowed = sure.table.loc[methods, ["low", "high"]].itertuples(index=False)
        note = f"Possible: ranks of the mean that the datasets allow, for all methods at once with confidence {1 - sure.alpha:g}."
        spans = [f"{low}–{high}" if low < high else str(low) for low, high in allowed]
        columns.append(Column("possible", spans, keep=2, note=note))
    elif several:
        columns[-1] = replace(columns[-1], note="Rank 1 is best. Mean ranks depend on each other and have no interval of their "
                              "own; mleval report says which ranks the datasets allow.")  # fmt: skip
    if several:
        span = zip(shown["best_rank"], shown["worst_rank"], strict=True)
        columns.append(Column("best–worst", [f"{low:g}–{high:g}" if low < high else f"{low:g}" for low, high in span], keep=2))
    if comparison.on == FUSED:
        phi, plus, minus = ([fixed(x, 3) for x in shown[flow]] for flow in ("phi", "phi_plus", "phi_minus"))
        note = "φ: how far a method is preferred to the others (φ⁺) less how far they are to it (φ⁻)."
        columns += [Column("φ", phi, keep=3, note=note), Column("φ⁺", plus, keep=1), Column("φ⁻", minus, keep=1)]
    else:
        values = comparison.study.cells(comparison.on)[methods]
        if several:
            alpha = comparison.options["alpha"]
            cells = np.array(aligned(mean_intervals(values, alpha).to_numpy().ravel(), 3)).reshape(-1, 3)
            note = f"Mean: over datasets, with its {100 * (1 - alpha):g}% interval; how methods differ, the pairs say."
            columns.append(Column(f"mean {comparison.on}", [f"{a} [{b}, {c}]" for a, b, c in cells], keep=3, note=note))
        else:
            columns.append(Column(comparison.on, aligned(values.iloc[0]), keep=3))
        columns.append(Column("fused rank", [fixed(r, 2) for r in shown["rank"]], keep=1))
    if comparison.letters_apply:
        note = "Methods that share a letter are not separated."
        columns.append(Column("groups", shown["letters"].tolist(), "<", note=note))
    return ReaderTable(columns, total)


def pairs_table(comparison: Comparison, top: int | None = None) -> ReaderTable:
    """The pairs for readers: the `top` first of `pairs_frame`."""
    frame = comparison.pairs
    shown, test = frame.head(top), comparison.pairwise
    if test is None:
        return ReaderTable([Column("method", [], "<", name=True)], 0)
    interval = np.array(aligned(shown[["mean_difference", "mean_low", "mean_high"]].to_numpy().ravel(), 3)).reshape(-1, 3)
    counts = zip(shown["wins"], shown["ties"], shown["losses"], strict=True)
    what = comparison.compared
    if comparison.on != FUSED and comparison.study.directions[comparison.on] == "min":
        what += " with its sign turned"
    meaning = f"Mean difference: of {what}, with its {100 * (1 - test.alpha):g}% interval; positive where the first is better."
    wilcoxon = f"p: Wilcoxon's signed ranks over {test.n_datasets} datasets"
    single = test.correction == "none" or test.n_comparisons == 1
    wilcoxon += "." if single else f", plain and corrected for {test.n_comparisons} comparisons."
    corrected = "p" if single else f"p ({test.correction})"
    reversible = not comparison.deciding.test.by_mean_ranks
    apart = [
        ("yes, reversed" if reversible and effect < 0 else "yes") + (f" {NOT_TRUSTED}" if doubt else "") if separated else ""
        for separated, effect, doubt in zip(shown["separated"], shown["effect_size"], shown["doubts"], strict=True)
    ]
    reasons = dict.fromkeys(reason for doubt in shown["doubts"] for reason in doubt.split("; ") if reason)
    untrusted = f" {NOT_TRUSTED}: not to be trusted, since {' or '.join(reasons)}." if reasons else ""
    columns = [
        Column("method", shown["method_a"].tolist(), "<", name=True),
        Column("against", shown["method_b"].tolist(), "<", name=True),
        Column("mean difference", [f"{d} [{a}, {b}]" for d, a, b in interval], keep=2, note=meaning),
        Column("won/tied/lost", [f"{won}/{tied}/{lost}" for won, tied, lost in counts], keep=3),
        Column("p", [pvalue(p, bare=True) for p in shown["pvalue"]], keep=1),
        Column(corrected, [pvalue(p, bare=True) for p in shown["pvalue_corrected"]], keep=4, note=wilcoxon),
        *(
            Column(made.head, [pvalue(p, bare=True) for p in shown[made.column]], keep=4)
            for made, _ in comparison.posthoc
            if made.column != "pvalue_corrected"
        ),
        Column("separated", apart, "<", note=f"Separated: by {deciding_test(comparison)}.{untrusted}"),
    ]
    if single:
        del columns[4]
    return ReaderTable(columns, len(frame))
