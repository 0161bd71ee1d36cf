"""Evaluate data larger than memory, batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from mlflow_mleval.evaluation import Evaluation, evaluate, merge
from mlflow_mleval.measures.propensities import Propensities


def evaluate_batches(
    batches: Iterable[Mapping[str, Any] | Sequence[Any]], *, progress: bool | None = None, **options: Any
) -> Evaluation:
    """Evaluate data larger than memory, batch by batch.

    Parameters
    ----------
    batches : iterable of sequences or mappings
        Each holds the arguments of `evaluate`: ``(y_true, y_score)``, ``(y_true, y_score, y_pred)``, or by name, with
        ``folds`` if need be. Only one batch is held at a time.
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
        raise ValueError("`batches` must yield at least one batch, got none. There is nothing to evaluate.")
    return whole
