"""The tests over the folds of a dataset in words, tables and plain data, as all formats show them.

Files (unrounded; the columns and their order are stable):

==================  ====================================================================================================
fold_pairs.csv      dataset, method_a, method_b, statistic, f_statistic, pvalue, pvalue_corrected, significant,
                    naive_statistic, naive_pvalue, naive_pvalue_corrected, naive_significant, carried_by, reliable, doubts
fold_posthoc.csv    dataset, method_a, method_b, measure, mean_difference, pvalue, pvalue_corrected, significant, better
fold_means.csv      dataset, method, measure, mean, sd, low, high
fold_values.csv     dataset, method, fold, measure, value
==================  ====================================================================================================

The headline test allows for training data that folds share; the naive one, the paper's, does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.folds.fold_comparison import FoldComparison
from mlflow_mleval.report.escape import aligned, number, pvalue
from mlflow_mleval.report.tables import Column, ReaderTable
from mlflow_mleval.report.words import NOT_TRUSTED, SHOWN, count, level, listed

Folds = Mapping[str, FoldComparison]
#: Methods of an ordering that are named.
METHODS = 15
ARROWS = {"min": "↓", "max": "↑"}


def headline_test(found: FoldComparison) -> str:
    """The headline test, with what corrects it.

    The name says on how many measures at once: one makes it a t test.
    """
    if found.is_five_by_two:
        return "the combined 5x2 cv F test"
    several = len(found.measures) > 1
    name = "Hotelling's T²" if several else "Student's t"
    name = f"{name} of {'paired' if found.paired else 'unpaired'} folds"
    return name if found.protocol.ratio is None else f"{name} (corrected for shared training data)"


def sentences(found: FoldComparison) -> list[str]:
    """What the folds of one dataset say, a sentence each: pairs, all methods, groups, learned measures, normality, refusals."""
    return [text for make in (_pairs, _overall, _groups, _learned, _normal, _refused) for text in make(found)]


def _pairs(found: FoldComparison) -> list[str]:
    table, alpha = found.pairs, level(found.alpha)
    total, tested = len(table), int(table["pvalue"].notna().sum())
    text = (
        f"{count(found.n_folds, 'fold')}, {count(len(found.methods), 'method')}, tested on {listed(found.measures, most=8)}"
        f"{' together' if len(found.measures) > 1 else ''}: {headline_test(found)} separates "
        f"{int(table['significant'].sum())} of {count(total, 'pair')} (Holm's correction, α = {alpha})"
    )
    if tested < total:
        text += f"; {count(total - tested, 'pair')} could not be tested"
    if "naive" not in found.refusals and found.shares_training:
        naive = int(table["naive_significant"].sum())
        same = naive == int(table["significant"].sum())
        text += "; so many without that correction, too" if same else f"; without that correction it would be {naive}"
    return [f"{text}."]


def _overall(found: FoldComparison) -> list[str]:
    m = found.manova
    if m is None or len(found.methods) < 3:
        return []
    df1, df2 = (number(d) for d in m.df)
    text = f"All methods together: MANOVA, {m.design}, Wilks Λ = {number(m.statistic)}, "
    text += f"F({df1}, {df2}) = {number(m.f_statistic)}, {pvalue(m.pvalue)}"
    if found.naive_manova is not None and m.ratio is not None:
        text += f" (not corrected: {pvalue(found.naive_manova.pvalue)})"
    return [f"{text}."]


def _groups(found: FoldComparison) -> list[str]:
    groups = [g for g in found.cliques if len(g) > 1]
    if not groups:
        return ["Every two methods are separated."]
    if not found.pairs["significant"].any():
        return ["No two methods are separated."]
    if len(groups) > SHOWN:
        largest = max(map(len, groups))
        return [f"The methods form {len(groups)} groups of up to {largest} in which no two are separated: see the letters."]
    alone = [g[0] for g in found.cliques if len(g) == 1]
    apart = f" {listed(alone)} {'is' if len(alone) == 1 else 'are'} separated from all others." if alone else ""
    return [f"Not separated from each other: {'; '.join(listed(g, most=8) for g in groups)}.{apart}"]


def _learned(found: FoldComparison) -> list[str]:
    learned = found.learned
    if learned is None or len(learned.weights) < 2:
        return []
    first = learned.shares.index[0]
    weights = learned.scaled_weights[first].sort_values(key=abs, ascending=False)
    terms = " ".join(f"{'−' if w < 0 else '+'} {number(abs(w), 2)} {listed([m])}" for m, w in weights.items()).removeprefix("+ ")
    dimensions = int((learned.dimensions["pvalue"] <= found.alpha).cumprod().sum())
    real = "one dimension of difference is" if dimensions == 1 else f"{dimensions or 'no'} dimensions of difference are"
    return [
        f"The combination of measures that tells the methods apart best, {first}, holds {_share(learned.shares.iloc[0])} of "
        f"what separates them: {terms} (weights per standard deviation); {real} more than chance."
    ]


def _share(x: float) -> str:
    return "more than 99%" if 0.995 < x < 1 else f"{x:.0%}"


def _normal(found: FoldComparison) -> list[str]:
    m = found.mardia
    if m is None:
        return []
    says = "do not look normal" if m.pvalue <= found.alpha else "show no departure from normality"
    caveat = " With so few rows it can hardly show one." if m.warnings and m.pvalue > found.alpha else ""
    return [f"The residuals {says} (Mardia: skewness {pvalue(m.skewness_pvalue)}, kurtosis {pvalue(m.kurtosis_pvalue)}).{caveat}"]


def _refused(found: FoldComparison) -> list[str]:
    names = {
        "naive": "The uncorrected test was refused", "manova": "MANOVA was refused", "mardia": "Mardia's test was refused",
        "pairs": "Pairs were refused",
    }  # fmt: skip
    return [f"{names[key]}: {reason.rstrip('.')}." for key, reason in found.refusals.items()]


def explain(found: FoldComparison) -> list[tuple[str, str]]:
    """What the words of the verdict mean and when not to trust them: (word, explanation), only for those that are used."""
    shared = found.shares_training
    rows = [
        (
            True,
            "separated",
            "The mean results of the two differ on a measure or on a combination of measures. That is no order: one may win by "
            "one measure and lose by the other. It is about training on data like these, not about other datasets.",
        ),
        (True, "not separated", "Not shown to differ with so many folds; not shown to be alike either."),
        (
            True,
            "carried by",
            "The measures that differ on their own (Holm over the measures); + where the first of the pair is better by it, "
            "− where the second is. A combination: none does alone, only together.",
        ),
        (
            shared,
            "corrected",
            "Folds share training data, so that results vary less from fold to fold than they would on new data. The variance is "
            f"widened for it (Nadeau & Bengio 2003, n_test/n_train = {number(found.protocol.ratio)}). The uncorrected test "
            "stands beside it because the paper uses it; it calls chance a difference more often than it says.",
        ),
        (
            not found.pairs["reliable"].all(),
            NOT_TRUSTED,
            "The assumptions do not carry the verdict on this row; the doubts say which.",
        ),
        (
            found.learned is not None and len(found.measures) > 1,
            "learned measures",
            "Weights are chosen on the same folds to tell the methods apart, so Student's t on them flatters; the p-values given "
            "hold for any choice of weights.",
        ),
    ]
    return [(word, text) for used, word, text in rows if used]


def pairs_table(found: FoldComparison, top: int | None = None) -> ReaderTable:
    """The pairs for readers."""
    rows = found.ordered_pairs
    shown = rows.head(top)
    five = found.is_five_by_two
    both = shown["naive_pvalue"].notna().any() and found.protocol.ratio is not None and not five
    apart = np.where(shown["pvalue"].isna(), "not tested", np.where(shown["significant"], "yes", "no"))
    marked = [text if fine else f"{text} {NOT_TRUSTED}" for text, fine in zip(apart, shown["reliable"], strict=True)]
    head = "Λ" if five else "T²"
    columns = [
        Column("method", shown["method_a"].tolist(), "<", name=True),
        Column("against", shown["method_b"].tolist(), "<", name=True),
        Column(head, aligned(shown["statistic"]), keep=1),
        Column("p", [pvalue(p, bare=True) for p in shown["pvalue"]], keep=2),
        Column("p (Holm)", [pvalue(p, bare=True) for p in shown["pvalue_corrected"]], keep=4,
               note=f"p: {headline_test(found)}; Holm over {count(len(rows), 'pair')}."),
        *([Column("uncorrected", [pvalue(p, bare=True) for p in shown["naive_pvalue_corrected"]], keep=3,
                  note="Uncorrected: Holm's p of the test that ignores shared training data.")] if both else []),
        Column("separated", marked, "<"),
        Column("carried by", shown["carried"].tolist(), "<",
               note="Carried by: measures that differ on their own, + where the first is better, − where the second is."),
    ]  # fmt: skip
    if not shown["reliable"].all():
        columns[-2] = Column("separated", marked, "<", note=f"{NOT_TRUSTED}: not to be trusted, see the doubts.")
    return ReaderTable(columns, len(rows))


def means_table(found: FoldComparison, top: int | None = None) -> ReaderTable:
    """Means over folds with their intervals and the groups, best mean rank first."""
    shown = found.order[:top]
    columns = [Column("method", shown, "<", name=True)]
    ordered = "The best mean rank over these measures comes first." if len(found.measures) > 1 else "The best comes first."
    for i, m in enumerate(found.measures):
        part = found.means.xs(m, level="measure").loc[shown, ["mean", "low", "high"]]
        cells = np.array(aligned(part.to_numpy().ravel(), 3)).reshape(-1, 3)
        shared = "" if found.protocol.ratio is None else ", as wide as shared training data make it"
        note = f"{ordered} Means with {100 * (1 - found.alpha):g}% intervals{shared}." if i == 0 else ""
        head = f"{m} {ARROWS[found.orderings[m].direction]}"
        columns.append(Column(head, [f"{a} [{b}, {c}]" for a, b, c in cells], keep=len(found.measures) - i, note=note))
    letters = [found.letters[m] for m in shown]
    columns.append(Column("groups", letters, "<", name=True, note="Methods that share a letter are not separated."))
    return ReaderTable(columns, len(found.methods))


def orderings_table(found: FoldComparison) -> ReaderTable:
    """The order of the methods by each measure alone; methods that share a letter are not separated by it."""
    heads = [f"{m} {ARROWS[o.direction]}" for m, o in found.orderings.items()]
    texts = []
    for o in found.orderings.values():
        cells = [f"{listed([m])} {o.letters[m]}" for m in o.order[:METHODS]]
        more = f" and {len(o.order) - METHODS} more" if len(o.order) > METHODS else ""
        texts.append(", ".join(cells) + more)
    return ReaderTable([Column("measure", heads, "<"), Column("best first, with groups", texts, "<")], len(heads))


def overview_table(folds: Folds) -> ReaderTable:
    """One row a dataset: how many pairs the tests separate, and what was tested where that differs."""
    found = list(folds.values())
    apart = [f"{int(f.pairs['significant'].sum())} of {len(f.pairs)}" for f in found]
    naive = ["refused" if "naive" in f.refusals else str(int(f.pairs["naive_significant"].sum())) for f in found]
    manova = [pvalue(None if f.manova is None else f.manova.pvalue, bare=True) for f in found]
    trust = ["" if f.pairs["reliable"].all() else NOT_TRUSTED for f in found]
    tested = {
        "folds": [count(f.n_folds, "fold") for f in found],
        "methods": [count(len(f.methods), "method") for f in found],
        "measures": [listed(f.measures, most=8) for f in found],
    }
    same = [what for what, cells in tested.items() if len(set(cells)) == 1]
    note = f"On every dataset: {', '.join(tested[what][0] for what in same)}." if same else ""
    columns = [
        Column("dataset", list(folds), "<", name=True, note=note),
        *(Column(what, cells, "<", keep=1) for what, cells in tested.items() if what not in same),
        Column("MANOVA p", manova, keep=3),
        Column("pairs separated", apart),
        Column("uncorrected", naive, keep=2),
        Column("doubt", trust, "<"),
    ]
    return ReaderTable(columns, len(found))


def folds_dict(found: FoldComparison) -> dict[str, Any]:
    """One dataset's comparison as plain data; the keys of `FoldComparison`, tables as lists of rows."""
    learned = found.learned
    names = ("dataset", "methods", "measures", "n_folds", "protocol", "paired", "alpha")
    ends = ("cliques", "letters", "excluded", "refusals", "warnings")
    return {
        "sentences": sentences(found),
        **{name: getattr(found, name) for name in names},
        "test": headline_test(found),
        "means": found.means.reset_index(),
        "pairs": found.pairs,
        "directions": found.directions,
        "posthoc": found.posthoc,
        "manova": _manova(found.manova),
        "naive_manova": _manova(found.naive_manova),
        "mardia": found.mardia,
        "orderings": {
            name: {"direction": o.direction, "order": o.order, "groups": o.groups, "letters": o.letters}
            for name, o in found.orderings.items()
        },
        "learned": None if learned is None else {
            "weights": learned.weights.to_dict(), "scaled_weights": learned.scaled_weights.to_dict(),
            "eigenvalues": learned.eigenvalues, "shares": learned.shares,
            "dimensions": learned.dimensions.to_dict(orient="index"), "tests": found.learned_tests,
        },
        **{name: getattr(found, name) for name in ends},
    }  # fmt: skip


def _manova(found: Any) -> dict[str, Any] | None:
    if found is None:
        return None
    names = ("statistic", "pvalue", "f_statistic", "df", "design", "approximation", "ratio", "warnings")
    return {**{name: getattr(found, name) for name in names}, "table": found.table.to_dict(orient="index")}


def fold_frames(folds: Folds) -> dict[str, pd.DataFrame]:
    """The tables of all datasets by name, unrounded: what lies beside a report."""
    makers: dict[str, Callable[[FoldComparison], pd.DataFrame]] = {
        "fold_pairs": lambda f: f.pairs,
        "fold_posthoc": lambda f: f.posthoc,
        "fold_means": lambda f: f.means.reset_index(),
        "fold_values": _long_values,
    }

    def table(make: Callable[[FoldComparison], pd.DataFrame]) -> pd.DataFrame:
        parts = [make(found).assign(dataset=dataset) for dataset, found in folds.items()]
        frame = pd.concat(parts, ignore_index=True)
        return frame[["dataset", *frame.columns.drop("dataset")]]

    return {name: table(make) for name, make in makers.items()} if folds else {}


def _long_values(found: FoldComparison) -> pd.DataFrame:
    return found.values.rename_axis(["method", "fold"]).reset_index().melt(["method", "fold"], var_name="measure")
