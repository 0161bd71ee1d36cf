"""What lies beyond p-values in words, tables and plain data: probabilities, equivalence, possible ranks, planning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.bayes import FEW
from mlflow_mleval.analysis.beyond_pvalues import BeyondPvalues, FoldBeyond
from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.report.escape import NONE, aligned, fixed, number, pvalue
from mlflow_mleval.report.tables import Column, ReaderTable
from mlflow_mleval.report.words import NOT_TRUSTED, capitalised, count, listed

#: A probability in words of a table.
DECISIONS = {"a": "first", "b": "second", "equivalent": "equivalent", "undecided": "undecided"}


def certainty_sentences(c: Comparison) -> list[str]:
    """The verdicts of the parts over datasets and of the bootstrap, a sentence each; the parts that are absent, with reasons."""
    found = c.beyond
    what = c.compared
    parts = (found.bayes, found.equivalence, found.plan, found.ranks, found.bootstrap)
    said = [capitalised(part.verdict(), c.order) for part in parts if part is not None]
    said.insert(0, f"Differences of {what} up to {number(found.rope)} count as too small to matter.")
    names = {
        "bayes": "Bayesian signed ranks", "equivalence": "Equivalence", "plan": "Planning", "ranks": "Possible ranks",
        "bootstrap": "Ranks over folds drawn again",
    }  # fmt: skip
    reasons: dict[str, list[str]] = {}
    for key, reason in found.absent.items():
        reasons.setdefault(reason, []).append(names.get(key, f"folds of {key.removeprefix('by_fold.')}"))
    return [*said, *(f"Not computed: {listed(which, most=6)} ({reason.rstrip('.')})." for reason, which in reasons.items())]


def pairs_table(found: BeyondPvalues | FoldBeyond, order: Sequence[str], what: str, top: int | None = None) -> ReaderTable:
    """The pairs for readers, the better one by mean rank first: probabilities, equivalence, and what it would take.

    Parameters
    ----------
    found
        With its tests.
    order : sequence of str
        Methods, best first.
    what : str
        What is compared.
    top : int, optional
        Show this many pairs: the least certain last.
    """
    bayes, planned, table = found.bayes, found.plan, found.pair_table(order)
    shown = table.head(top)
    interval = np.array(aligned(shown[["mean_difference", "low", "high"]].to_numpy().ravel(), 3)).reshape(-1, 3)
    span = [_span(*row) for row in shown[["needed", "needed_low", "needed_high"]].to_numpy()]
    few = bayes.test == "signed-rank" and len(table) and table["n"].iloc[0] < FEW
    decided = [f"{DECISIONS[d]} {NOT_TRUSTED}" if few else DECISIONS[d] for d in shown["decision"]]
    mark = f" {NOT_TRUSTED}: so few datasets hardly outweigh the prior." if few else ""
    columns = [
        Column("method", shown["method_a"].map(str).tolist(), "<", name=True),
        Column("against", shown["method_b"].map(str).tolist(), "<", name=True),
        Column("difference", [f"{d} [{a}, {b}]" for d, a, b in interval], keep=1,
               note=f"Difference of {what}, positive where the first is better, with {bayes.threshold:.0%} credible interval."),
        Column("P first", [_probability(p) for p in shown["p_a"]], keep=3,
               note=f"P: probability that the first is better by more than {number(bayes.rope)}, that neither or the second is."),
        Column("P same", [_probability(p) for p in shown["p_equivalent"]], keep=3),
        Column("P second", [_probability(p) for p in shown["p_b"]], keep=3),
        Column("decided", decided, "<",
               note=f"Decided: what reaches {bayes.threshold:g}; not corrected for the number of pairs.{mark}"),
        Column(f"{planned.over} needed", span, "<", keep=2,
               note=f"{planned.over.capitalize()} needed to separate the pair with power {planned.power:g} if the effect is the "
               f"observed one, and from the largest to the smallest effect that the data allow; there are {planned.n}. "
               "∞: no number is enough."),
    ]  # fmt: skip
    if found.equivalence is not None:
        columns.insert(-1, Column("equivalent p", [pvalue(p, bare=True) for p in shown["equivalence_p"]], keep=1,
                                  note="Equivalent p: two one-sided tests, corrected for the number of pairs."))  # fmt: skip
    return ReaderTable(columns, len(table))


def ranks_table(found: BeyondPvalues) -> ReaderTable:
    """The ranks that the data allow, by method: over datasets, and where there are folds when they are drawn again."""
    first = found.ranks.table if found.ranks is not None else found.bootstrap.table
    methods = list(first.index)
    columns = [Column("method", list(map(str, methods)), "<", name=True)]
    if found.ranks is not None:
        t = found.ranks.table
        columns.append(Column("mean rank", [fixed(x, 2) for x in t["mean"]]))
        note = f"Possible ranks: by mean rank, for all methods at once with confidence {1 - found.ranks.alpha:g}."
        columns.append(Column("possible ranks", _ranges(t), note=note))
    if found.bootstrap is not None:
        t = found.bootstrap.table.reindex(methods)
        note = f"Ranks over folds: in {1 - found.bootstrap.alpha:.0%} of {found.bootstrap.n_draws} draws of the folds."
        columns.append(Column("ranks over folds", _ranges(t), note=note))
        columns.append(Column("first in", [_probability(p) for p in t["p_best"]]))
    return ReaderTable(columns, len(methods))


def certainty_dict(c: Comparison) -> dict[str, Any] | None:
    """Everything as plain data would have it; None where nothing was asked."""
    found = c.beyond
    if found is None:
        return None
    ranks, bootstrap = found.ranks, found.bootstrap
    return {
        "rope": found.rope,
        "methods": found.methods,
        "sentences": certainty_sentences(c),
        **{name: getattr(found, name) for name in ("bayes", "equivalence", "plan")},
        "ranks": ranks and {
            "table": ranks.table.rename_axis("method").reset_index(), "pairs": ranks.pairs, "alpha": ranks.alpha,
            "best": ranks.best, "n_draws": ranks.n_draws, "exact": ranks.exact, "seed": ranks.seed,
        },
        "bootstrap": bootstrap and {
            "table": bootstrap.table.rename_axis("method").reset_index(),
            "shares": {m: row.tolist() for m, row in bootstrap.acceptability.iterrows()},
            "ratios": bootstrap.ratios, "alpha": bootstrap.alpha, "n_draws": bootstrap.n_draws, "seed": bootstrap.seed,
        },
        "by_fold": found.by_fold,
        "absent": found.absent,
        "warnings": found.warnings,
    }  # fmt: skip


def fold_sentence(dataset: str, measure: str, found: FoldBeyond) -> str:
    """How many pairs are decided on one measure over the folds of one dataset, and how many folds would do."""
    decided = found.bayes.table["decision"].value_counts()
    differ, same = decided.get("a", 0) + decided.get("b", 0), decided.get("equivalent", 0)
    return (
        f"On {listed([dataset])} by {measure}, of {count(len(found.bayes.table), 'pair')}, with probability "
        f"{found.bayes.threshold:g}: {differ} different by more than {number(found.bayes.rope)}, {same} equivalent."
    )


def _probability(p: float) -> str:
    """A probability to read, never all or nothing.

    >>> [_probability(p) for p in (0.9999, 0.256, 0.0004)]
    ['>.99', '.26', '<.01']
    """
    if not np.isfinite(p):
        return NONE
    return ">.99" if p > 0.99 else "<.01" if p < 0.01 else f"{p:.2f}".removeprefix("0")


def _ranges(table: pd.DataFrame) -> list[str]:
    ends = zip(table["low"], table["high"], strict=True)
    return [number(low) if low == high else f"{number(low)}–{number(high)}" for low, high in ends]


def _span(needed: float, low: float, high: float) -> str:
    """How many it takes, and the range that the data allow."""
    now, least, most = ("∞" if np.isinf(x) else f"{x:,.0f}" for x in (needed, low, high))
    return now if now == least == most else f"{now} ({least}–{most})"
