"""Of very many methods, tables of pairs in JSON hold the best only; and the page says so."""

from typing import Any

import pandas as pd

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.report.document import PAGE, Text, note

#: Methods whose pairs JSON holds; two thousand have four million.
MOST = 200
_TABLES = (
    "promethee.DATASET.incomparable",
    "stability.acceptability.shares",
    "stability.leave_one_out.ranks",
    "stability.leave_one_out.reversals",
    "pairwise.pairs",
)


def best(c: Comparison) -> pd.Index:
    """The methods whose pairs JSON holds, by the fused ranking."""
    return c.fusion.ranking.index[:MOST]


def rows_among(
    table: pd.DataFrame, methods: pd.Index, a: str = "method_a", b: str = "method_b"
) -> pd.DataFrame:
    """The rows of a table of pairs of which both are among the methods."""
    return table[table[a].isin(methods) & table[b].isin(methods)]


def data(c: Comparison) -> dict[str, Any]:
    """Which keys of JSON hold the best methods only."""
    total = len(c.order)
    return {
        "shortened": dict.fromkeys(_TABLES, f"the best {MOST} of {total:,} methods")
        if total > MOST
        else {}
    }


def told(c: Comparison) -> list[Text]:
    """What data are left out, where they are many, and where they are."""
    if len(c.order) <= MOST:
        return []
    where = (
        "pairs.csv and the comparison in Python hold"
        if len(c.ranks) > 1
        else "the comparison in Python holds"
    )
    held = f"tables of pairs of methods hold the best {MOST} of {len(c.order):,} methods"
    return [note(f"In report.json, {held}, as its key shortened says; {where} all.", PAGE)]
