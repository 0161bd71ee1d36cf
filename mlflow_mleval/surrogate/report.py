"""A surrogate study as a document: the heatmap, the best surrogate per target in words and as a
table, and all of it as data.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pandas as pd

from mlflow_mleval.naming import count
from mlflow_mleval.report.document import (
    ALWAYS,
    Column,
    Document,
    Figure,
    Section,
    Table,
    Text,
    joined,
    name,
)
from mlflow_mleval.report.numerals import aligned, level
from mlflow_mleval.surrogate.heatmap import surrogate_differences

#: Rows of the table for readers, and groups of targets that are named; the others are counted.
_ROWS, _SHOWN = 60, 8


def surrogate_sentences(study: Any) -> list[str]:
    """What the study found: the best surrogate by target, and of how much of that the folds are
    sure.
    """
    losses, best, n_folds = study.losses, study.best, study.n_folds
    groups = [(ks, list(ts)) for ks, ts in groupby(best.index, key=lambda t: best.loc[t, "equal"])]
    parts = [f"k = {_spans(ks)}{' alike' * (len(ks) > 1)} for {_targets(ts)}" for ks, ts in groups]
    if len(parts) > _SHOWN:
        parts[_SHOWN - 1 :] = [f"{len(parts) - _SHOWN + 1} more"]
    found = [f"The surrogate of least mean loss is {joined(parts)}."]
    if losses.shape[0] < 2:
        return found
    if n_folds < 2:
        return [*found, "Without several folds nothing can be said about how sure that is."]
    beaten = [t for t in best.index if t in losses.index and t not in best.loc[t, "not_separated"]]
    who, where = ("some other", f" for {_targets(beaten)}") if beaten else ("no", "")
    counts = best["not_separated"].map(len)
    low, high = int(counts.min()), int(counts.max())
    few = str(low) if low == high else f"{low} to {high}, depending on the target,"
    return [
        *found,
        f"Over {count(n_folds, 'fold')} (α = {level(study.alpha)} for each target), "
        f"{who} surrogate is shown to be better than the target's own loss{where}.",
        f"Of {count(len(losses), 'surrogate')}, {few} may be the best.",
    ]


def surrogate_frame(losses: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """One row a surrogate and target: loss, difference to the best one, whether it is the best, and
    not separated from it.
    """
    behind = surrogate_differences(losses)
    rows = [
        (k, t, v, behind.loc[t, k], k in best.loc[t, "equal"], k in best.loc[t, "not_separated"])
        for k, row in losses.iterrows()
        for t, v in row.items()
    ]
    return pd.DataFrame(
        rows, columns=["surrogate", "target", "loss", "difference", "best", "not_separated"]
    )


def surrogate_document(study: Any) -> Document:
    """The study as a document."""
    best, n_folds = study.best, study.n_folds
    about = (
        f"{len(study.losses)} surrogates, {study.losses.shape[1]} targets, {n_folds} folds, "
        f"{study.n_neighbors} nearest neighbours; runs of the experiment {study.experiment}"
    )
    caption = (
        "Each row is a loss that counts, each column a loss that was minimised over the "
        "neighbours: from the Hamming loss (k = 1) to the subset 0/1 loss (k = K)."
    )
    drawn = best.iloc[:_ROWS]
    columns = [
        Column("target k", [*map(str, drawn.index)]),
        Column("best surrogate k", [*map(_spans, drawn["equal"])]),
        Column("its loss ↓", aligned(drawn["loss"])),
        Column("not separated from the best", [*map(_spans, drawn["not_separated"])], "<"),
    ]
    blocks = [
        Text(surrogate_sentences(study), role="lead", depth=ALWAYS),
        Figure(study.heatmap, caption),
        Table(
            columns,
            len(best),
            title="Best surrogate by target",
            key="surrogates",
            things="targets",
            depth=ALWAYS,
        ),
        *(
            [Text(study.warnings, role="points", title="Doubts", depth=ALWAYS)]
            if study.warnings
            else []
        ),
    ]
    frame = surrogate_frame(study.losses, best)
    known = {
        "dataset": study.dataset,
        "losses": frame,
        "n_folds": n_folds,
        "alpha": study.alpha,
        "warnings": study.warnings,
    }
    return Document(
        f"Surrogate study: {name(study.dataset)}",
        [Section("surrogates", "Which loss to train for which target", blocks)],
        about=about,
        data=lambda: known,
        frames=lambda: {"surrogates": frame},
        main="surrogates",
    )


def _targets(targets: Sequence[int]) -> str:
    return f"target{'s' * (len(targets) > 1)} {_spans(targets)}"


def _spans(numbers: Sequence[int]) -> str:
    """Whole numbers with neighbours joined: 1–3, 5, 7, 8."""
    spans: list[list[int]] = []
    for n in numbers:
        if spans and n == spans[-1][-1] + 1:
            spans[-1].append(n)
        else:
            spans.append([n])
    return ", ".join(f"{s[0]}–{s[-1]}" if len(s) > 2 else ", ".join(map(str, s)) for s in spans)
