"""Predictions that were made elsewhere and written to a file, evaluated block by block."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical, merge
from mlflow_mleval.files.predictions import open_class_sets, open_predictions, read_hierarchy
from mlflow_mleval.measures.class_vectors import is_vector
from mlflow_mleval.measures.digests import split_digest
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.validation import groups


def evaluate_file(
    path: str | Path, *, truth: str | Path | None = None, hierarchy: str | Path | Hierarchy | None = None,
    threshold: float = 0.5, conventions: str = "sklearn", progress: Callable[[int, int], None] = lambda done, total: None,
    **hierarchy_options: Any,
) -> Evaluation:
    """Evaluate a file of predictions; it may be larger than memory.

    It is CSV, parquet or npz with truth and predictions, see `mlflow_mleval.files.predictions.open_predictions`; or, with a file
    `truth` of lines of true classes, lines of predicted classes as HEMKit reads them. These need `hierarchy`, a Hierarchy or a
    file of lines "parent child" or CSV with the columns parent, child and maybe weight, and leave `threshold` and `conventions`
    alone. Further options are those of `mlflow_mleval.evaluate_hierarchical`. An ImportFileError names the line of a broken row.
    The Evaluation has no `instances`; its `split` takes the rows of the file for the instances in their order.
    """
    h = hierarchy if hierarchy is None or isinstance(hierarchy, Hierarchy) else read_hierarchy(hierarchy)
    if truth is None:
        source = open_predictions(path, progress)
        options = {"threshold": threshold, "conventions": conventions, "label_names": source.names, "hierarchy": h}
        part = partial(evaluate, **options, **hierarchy_options, instances=False)
    else:
        if h is None:
            raise ValueError("`hierarchy` must be given with `truth`, got none. Lines of classes need the classes they are of.")
        if threshold != 0.5 or conventions != "sklearn":
            raise ValueError("`threshold` and `conventions` must be left out with `truth`. Classes need neither.")
        source = open_class_sets(path, truth, h, progress)
        part = partial(evaluate_hierarchical, h=h, **hierarchy_options, instances=False)
    whole, tested = None, {}
    for batch in source.batches:
        start = 0 if whole is None else whole.total.n
        try:
            found = part(**batch)
        except (ValueError, TypeError) as error:
            if truth is None and is_vector(batch["y_true"]):  # those of label sets were looked through when they were read
                raise ImportFileError(f"{Path(path).name}, rows from {start + 1} on: {error}") from error
            raise
        whole = found if whole is None else merge([whole, found])
        if "folds" in batch:
            _add_rows(tested, batch["folds"], start, whole.total.n)
    return replace(whole, split=split_digest(np.concatenate(tested[key]) for key in whole.sums)) if tested else whole


def _add_rows(tested: dict[Hashable, list[Any]], folds: Any, start: int, end: int) -> None:
    """Add the numbers of the rows from `start` to those that each fold tests."""
    for key, at in groups(folds, "folds", end - start).items():
        tested.setdefault(key, []).append(np.arange(start, end)[at])
