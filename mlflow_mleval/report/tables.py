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
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.paired import mean_intervals
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report.escape import aligned, csv_cell, fixed, pvalue
from mlflow_mleval.report.pairs_text import joined
from mlflow_mleval.report.words import NOT_TRUSTED, deciding_test

#: What `render_csv` and the option --output csv can write.
CSV = ("ranking", "pairs")
FLOWS = ["phi_plus", "phi_minus", "phi"]


def ranking_frame(comparison: Comparison) -> pd.DataFrame:
    """One row a method, best first; methods with equal mean ranks share a position."""
    order, fused = comparison.order, comparison.fusion.ranking
    mean = comparison.ranks.mean()[order]
    return pd.DataFrame(
        {
            "position": mean.round(9).rank(method="min").astype(int).to_numpy(),
            "method": order,
            "rank": fused.loc[order, "mean_rank"].to_numpy(),
            **{flow: fused.loc[order, flow].to_numpy() for flow in FLOWS},
            "mean_rank": mean.to_numpy(),
            "best_rank": comparison.ranks[order].min().to_numpy(),
            "worst_rank": comparison.ranks[order].max().to_numpy(),
            "letters": [comparison.letters[m] if joined(comparison) else None for m in order],
        }
    )


def dataset_frame(comparison: Comparison) -> pd.DataFrame:
    """One row a dataset and method, in the order of the ranking of that dataset."""
    parts = []
    for dataset, result in comparison.fusion.results.items():
        part = result.flows[["rank", *FLOWS]].sort_values("rank", kind="stable")
        part = part.assign(tested_rank=comparison.ranks.loc[dataset], tested_value=comparison.table.loc[dataset])
        part.insert(0, "method", part.index)
        part.insert(0, "dataset", dataset)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def pairs_frame(comparison: Comparison) -> pd.DataFrame:
    """One row a pair, method_a better by mean rank: the separated ones first, then by p-value and difference of mean ranks."""
    columns = [
        "method_a", "method_b", "mean_rank_difference", "mean_difference", "mean_low", "mean_high", "median_difference",
        "median_low", "median_high", "wins", "ties", "losses", "effect_size", "statistic", "pvalue", "pvalue_corrected",
        "pvalue_nemenyi", "separated", "doubts",
    ]
    if comparison.pairwise is None or comparison.nemenyi is None:
        return pd.DataFrame(columns=columns)
    pairs = comparison.pairwise.table.copy()
    place = {method: i for i, method in enumerate(comparison.order)}
    turned = pairs["method_a"].map(place) > pairs["method_b"].map(place)
    opposite = [("method_a", "method_b"), ("wins", "losses"), ("mean_low", "mean_high"), ("median_low", "median_high")]
    swapped = pairs.rename(columns={old: new for a, b in opposite for old, new in ((a, b), (b, a))})
    signed = ["mean_difference", "mean_low", "mean_high", "median_difference", "median_low", "median_high", "effect_size"]
    swapped[signed] = -swapped[signed]
    pairs = pd.concat([pairs[~turned], swapped.loc[turned, pairs.columns]])
    ranks = comparison.ranks.mean()
    pairs["mean_rank_difference"] = ranks[pairs["method_a"]].to_numpy() - ranks[pairs["method_b"]].to_numpy()
    at = comparison.nemenyi.pvalues.columns
    a, b = at.get_indexer(pairs["method_a"]), at.get_indexer(pairs["method_b"])
    pairs["pvalue_nemenyi"] = comparison.nemenyi.pvalues.to_numpy()[a, b]
    apart = set(map(frozenset, comparison.separated))
    pairs["separated"] = [frozenset(pair) in apart for pair in zip(pairs["method_a"], pairs["method_b"], strict=True)]
    pairs["doubts"] = _doubts(comparison, pairs)
    deciding = "pvalue" if comparison.decides == "wilcoxon" else "pvalue_nemenyi"
    counted = {name: int for name in ("wins", "ties", "losses")}
    keys = pairs.assign(kept=~pairs["separated"], a=pairs["method_a"].map(place), b=pairs["method_b"].map(place))
    pairs = pairs.loc[keys.sort_values(["kept", deciding, "mean_rank_difference", "a", "b"]).index]
    return pairs[columns].astype(counted).infer_objects().reset_index(drop=True)


def _doubts(comparison: Comparison, pairs: pd.DataFrame) -> list[str]:
    """By row: why the verdict that the pair is separated is not to be trusted; empty where it is, or where there is none."""
    c = comparison
    none = c.friedman.best_pvalue > c.options["alpha"] and len(c.order) > 2
    filled = {method for _, method in c.study.filled}
    found = []
    for row in pairs[["method_a", "method_b", "effect_size", "separated"]].itertuples(index=False):
        reasons = {
            "Friedman's test over all methods finds no difference": none,
            f"results of the two were filled by the policy {c.study.missing}": bool(filled & {row.method_a, row.method_b}),
            "the signed ranks contradict the mean ranks": c.decides == "wilcoxon" and row.effect_size < 0,
        }
        found.append("; ".join(text for text, holds in reasons.items() if holds) if row.separated else "")
    return found


def weights_frame(comparison: Comparison) -> pd.DataFrame:
    """One row a dataset and measure."""
    weights = comparison.fusion.weights
    return pd.DataFrame(
        [(d, m, w) for d, row in weights.iterrows() for m, w in row.items()], columns=["dataset", "measure", "weight"]
    )


def measures_frame(comparison: Comparison) -> pd.DataFrame:
    """One row a measure: what it is, who leads by it, and its own tests."""
    tests = comparison.measure_tests
    return pd.DataFrame(
        {
            "measure": tests.index,
            "direction": tests["direction"].to_numpy(),
            "family": [MEASURES[m].family if m in MEASURES else None for m in tests.index],
            "source": [MEASURES[m].source if m in MEASURES else None for m in tests.index],
            **{name: tests[name].to_numpy() for name in ("leader", "mean_rank", "friedman_pvalue", "iman_davenport_pvalue")},
        }
    )


def correlations_frame(comparison: Comparison) -> pd.DataFrame:
    """One row a pair of measures: their mean absolute correlation, and whether it exceeds the threshold."""
    columns = ["measure_a", "measure_b", "correlation", "redundant"]
    if comparison.redundancy is None:
        return pd.DataFrame(columns=columns)
    matrix, threshold = comparison.redundancy.correlation, comparison.redundancy.threshold
    a, b = np.triu_indices(len(matrix), 1)
    value = matrix.to_numpy()[a, b]
    return pd.DataFrame(dict(zip(columns, (matrix.index[a], matrix.index[b], value, value > threshold), strict=True)))


def values_frame(comparison: Comparison) -> pd.DataFrame:
    """The values that were fused, in the long form that `mleval import` reads; gaps hold what the policy gave them."""
    values = comparison.study.values.rename_axis(["dataset", "method"]).reset_index()
    long = values.melt(["dataset", "method"], var_name="measure", value_name="value")
    return long[["measure", "dataset", "method", "value"]]


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
    frames = {"ranking": ranking_frame, "pairs": pairs_frame}
    if what not in frames:
        raise ValueError(f"`what` must be one of {', '.join(map(repr, frames))}, got {what!r}.")
    return to_csv(frames[what](comparison))


def report_tables(comparison: Comparison) -> dict[str, str]:
    """All tables of a report as CSV by file name: what lies beside it, since MLflow's viewer offers no downloads."""
    files: dict[str, Callable[[Comparison], pd.DataFrame]] = {
        "ranking": ranking_frame, "ranks_by_dataset": dataset_frame, "pairs": pairs_frame, "weights": weights_frame,
        "measures": measures_frame, "correlations": correlations_frame, "values": values_frame,
    }
    return {f"{name}.csv": to_csv(frame) for name, make in files.items() if len(frame := make(comparison))}


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
    frame = ranking_frame(comparison)
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
    if joined(comparison):
        note = "Methods that share a letter are not separated."
        columns.append(Column("groups", shown["letters"].tolist(), "<", note=note))
    return ReaderTable(columns, total)


def pairs_table(comparison: Comparison, top: int | None = None) -> ReaderTable:
    """The pairs for readers: the `top` first of `pairs_frame`."""
    frame = pairs_frame(comparison)
    shown, test = frame.head(top), comparison.pairwise
    if test is None:
        return ReaderTable([Column("method", [], "<", name=True)], 0)
    interval = np.array(aligned(shown[["mean_difference", "mean_low", "mean_high"]].to_numpy().ravel(), 3)).reshape(-1, 3)
    counts = zip(shown["wins"], shown["ties"], shown["losses"], strict=True)
    what = "net flow φ" if comparison.on == FUSED else comparison.on
    if comparison.on != FUSED and comparison.study.directions[comparison.on] == "min":
        what += " with its sign turned"
    meaning = f"Mean difference: of {what}, with its {100 * (1 - test.alpha):g}% interval; positive where the first is better."
    wilcoxon = f"p: Wilcoxon's signed ranks over {test.n_datasets} datasets"
    single = test.correction == "none" or test.n_comparisons == 1
    wilcoxon += "." if single else f", plain and corrected for {test.n_comparisons} comparisons."
    corrected = "p" if single else f"p ({test.correction})"
    ranks_test = "Nemenyi" if test.control is None else "Dunn"
    against = comparison.decides == "wilcoxon"
    apart = [
        ("yes, reversed" if against and effect < 0 else "yes") + (f" {NOT_TRUSTED}" if doubt else "") if separated else ""
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
        Column(f"p ({ranks_test})", [pvalue(p, bare=True) for p in shown["pvalue_nemenyi"]], keep=4),
        Column("separated", apart, "<", note=f"Separated: by {deciding_test(comparison)}.{untrusted}"),
    ]
    if single:
        del columns[4]
    return ReaderTable(columns, len(frame))
