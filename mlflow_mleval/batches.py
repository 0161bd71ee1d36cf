"""Evaluate data larger than memory, batch by batch, and merge what batches, partitions or folds
gave.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click
import numpy as np
import pandas as pd

from mlflow_mleval.evaluation import IDENTITY, Evaluation, evaluate
from mlflow_mleval.measures.label_sums import Sums
from mlflow_mleval.measures.propensities import Propensities
from mlflow_mleval.validation import present


def evaluate_batches(
    batches: Iterable[Mapping[str, Any] | Sequence[Any]],
    *,
    progress: bool | None = None,
    **options: Any,
) -> Evaluation:
    """Evaluate data larger than memory, batch by batch.

    Parameters
    ----------
    batches : iterable of sequences or mappings
        Each holds the arguments of `evaluate`: ``(y_true, y_score)``, ``(y_true, y_score,
        y_pred)``, or by name, with ``folds`` if need be. Only one batch is held at a time.
    progress : bool, optional
        Show progress on standard error; by default where that is a terminal.
    **options
        Options of `evaluate` for all batches.

    Returns
    -------
    Evaluation
        Equal to the evaluation of the whole; without `instances`.

    Raises
    ------
    ValueError, TypeError
        As `evaluate` and `merge`, with the number of the batch; no batch.

    >>> evaluate_batches(([[1, 0]], [[score, 0.5]]) for score in (0.7, 0.4)).measures["one_error"]
    0.5
    """
    if options.get("train_labels") is not None:
        options["train_labels"] = Propensities.of(options["train_labels"])  # once
    hidden = not (sys.stderr.isatty() if progress is None else progress)
    whole: Evaluation | None = None
    with click.progressbar(
        batches, label="evaluating", show_pos=True, file=sys.stderr, hidden=hidden
    ) as bar:
        for i, batch in enumerate(bar):
            positional: Any
            named: Any
            positional, named = ((), batch) if isinstance(batch, Mapping) else (batch, {})
            try:
                part = evaluate(*positional, **named, **options, instances=False)
                whole = part if whole is None else merge([whole, part])
            except (ValueError, TypeError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"batch {i}: {error}") from error
    if whole is None:
        raise ValueError(
            "`batches` must yield at least one batch, got none. There is nothing to evaluate."
        )
    return whole


def merge(evaluations: Iterable[Evaluation]) -> Evaluation:
    """One Evaluation of disjoint batches, partitions or folds, as if they had been evaluated
    together.

    Parameters
    ----------
    evaluations : iterable of Evaluation
        Of the same labels with the same conventions and options. The sums of equal folds are added
        up.

    Returns
    -------
    Evaluation
        Its `instances` stand in the order of the evaluations, and only if all have them.

    Raises
    ------
    ValueError
        No evaluation, or some that do not fit together; the difference is named.
    TypeError
        Something that is not an Evaluation.

    >>> parts = [evaluate([[1, 0]], [[score, 0.5]], folds=fold) for fold, score in enumerate([0.7, 0.4])]
    >>> merge(parts).folds["one_error"].tolist()
    [0.0, 1.0]
    """  # noqa: E501
    evaluations = list(evaluations)
    if not evaluations:
        raise ValueError("`evaluations` must hold at least one, got none.")
    for i, ev in enumerate(evaluations):
        if not isinstance(ev, Evaluation):
            raise TypeError(
                f"`evaluations` must hold Evaluations, got {type(ev).__name__} at position {i}."
            )
    first = evaluations[0]
    sums: dict[Hashable, Sums] = {}
    for i, ev in enumerate(evaluations):
        for name in IDENTITY:
            mine, theirs = getattr(first, name), getattr(ev, name)
            if mine != theirs:
                raise ValueError(
                    f"`evaluations` must agree in {name}, got {_difference(mine, theirs)} at "
                    f"positions 0 and {i}. Evaluate all parts alike."
                )
        if (None in ev.sums) != (None in first.sums):
            raise ValueError(
                f"`evaluations` must all have folds or none, got both at positions 0 and {i}. "
                "Pass `folds` to all."
            )
        for key, part in ev.sums.items():
            sums[key] = sums[key] + part if key in sums else part
    rows, truth = [ev.instances for ev in evaluations], [ev.instance_truth for ev in evaluations]
    instances = None
    if len(tables := [table for table in rows if table is not None]) == len(rows):
        instances = pd.concat(
            tables, ignore_index=all(isinstance(t.index, pd.RangeIndex) for t in tables)
        )
    known = None if any(part is None for part in truth) else np.concatenate([*map(present, truth)])
    taxonomy = next((ev.taxonomy for ev in evaluations if ev.taxonomy is not None), None)
    own: dict[str, Any] = (
        {} if len(evaluations) == 1 else {"split": None, "influences": None}
    )  # folds of parts are other folds
    return replace(
        first,
        sums=_in_order(sums),
        instances=instances,
        instance_truth=known,
        taxonomy=taxonomy,
        **own,
    )


def _in_order(sums: Mapping[Hashable, Sums]) -> dict[Hashable, Sums]:
    """Folds sorted, so that the order of merging leaves no trace."""
    try:
        return {key: sums[key] for key in sorted(sums)}  # type: ignore[type-var]
    except TypeError:
        return dict(sorted(sums.items(), key=lambda item: (type(item[0]).__name__, str(item[0]))))


def _difference(a: Any, b: Any) -> str:
    """The first thing in which two descriptions differ."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        name = next(name for name in [*a, *b] if a.get(name) != b.get(name))
        return f"{name} {a.get(name)!r} and {b.get(name)!r}"
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        i = next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
        return f"{a[i]!r} and {b[i]!r} (number {i})"
    if isinstance(a, tuple) and isinstance(b, tuple) and max(len(a), len(b)) > 4:
        return f"{len(a)} and {len(b)} of them"
    return f"{a!r} and {b!r}"
