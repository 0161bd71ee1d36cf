"""Predictions that were made elsewhere and written to a file, evaluated block by block."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mlflow_mleval.analysis.measure_intervals import with_clusters
from mlflow_mleval.batches import merge
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.evaluation import Evaluation, evaluate, evaluate_hierarchical
from mlflow_mleval.files.class_predictions import unrounded
from mlflow_mleval.files.predictions import open_class_sets, open_predictions, read_hierarchy
from mlflow_mleval.files.sparse_predictions import open_matrices, read_matrix
from mlflow_mleval.measures.class_vectors import is_vector
from mlflow_mleval.measures.digests import split_digest
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.propensities import Propensities
from mlflow_mleval.validation import groups, present


def evaluate_file(
    path: str | Path,
    *,
    truth: str | Path | None = None,
    hierarchy: str | Path | Hierarchy | None = None,
    threshold: float = 0.5,
    conventions: str = "sklearn",
    progress: Callable[[int, int], None] = lambda done, total: None,
    measures: Sequence[str] | None = None,
    train_labels: str | Path | None = None,
    cluster: str | None = None,
    probabilities: bool | None = None,
    say: Callable[[str], object] = lambda text: None,
    **hierarchy_options: Any,
) -> Evaluation:
    """Evaluate a file of predictions; it may be larger than memory.

    It is CSV, parquet or npz with truth and predictions, see
    `mlflow_mleval.files.predictions.open_predictions`; with a file `truth`, a sparse matrix of
    scores, and `truth` one of labels, see `mlflow_mleval.files.sparse_predictions.read_matrix`;
    with `truth` and `hierarchy`, lines of predicted and of true classes as HEMKit reads them, which
    leave `threshold` and `conventions` alone. The hierarchy is a Hierarchy or a file of lines
    "parent child" or CSV with the columns parent, child and maybe weight. `train_labels` is a file
    of labels as `truth`, for propensities. `cluster` is a column of a CSV or parquet file that
    tells which instances belong together. `probabilities` is that of `evaluate`, for one label; by
    default probabilities whose sums only rounding keeps from 1 are divided by them, and `say` is
    told once. Further options are those of `mlflow_mleval.evaluate_hierarchical`. An
    ImportFileError names the line of a broken row. The Evaluation has `instances` where the file is
    read in one block; its `split` takes the rows of the file for the instances in their order.
    """
    h = (
        hierarchy
        if hierarchy is None or isinstance(hierarchy, Hierarchy)
        else read_hierarchy(hierarchy)
    )
    if truth is None or h is None:
        source = (
            open_predictions(path, progress)
            if truth is None
            else open_matrices(path, truth, progress)
        )
        options: dict[str, Any] = {
            "threshold": threshold,
            "conventions": conventions,
            "label_names": source.names,
            "hierarchy": h,
        }
        options |= {
            "measures": measures,
            "train_labels": train_labels and _propensities(train_labels, len(source.names)),
        }
        part = partial(evaluate, **options, **hierarchy_options)
    else:
        if threshold != 0.5 or conventions != "sklearn":
            raise ValueError(
                "`threshold` and `conventions` must be left out with `truth` and `hierarchy`. "
                "Classes need neither."
            )
        if train_labels is not None:
            raise ValueError(
                "`train_labels` must be left out with `truth` and `hierarchy`. Classes have no "
                "scores."
            )
        source = open_class_sets(path, truth, h, progress)
        options = {} if measures is None else {"measures": measures}
        part = partial(evaluate_hierarchical, h=h, **options, **hierarchy_options)
    whole: Evaluation | None = None
    tested: dict[Any, Any] = {}
    note = ""
    for batch in source.batches:
        start = 0 if whole is None else whole.total.n
        one_label = truth is None and is_vector(batch["y_true"])
        if one_label:
            note = _as_probabilities(batch, probabilities) or note
        elif probabilities is not None:
            raise ValueError("`probabilities` is for one label of several classes. Leave it out.")
        try:
            found = part(**batch, instances=whole is None)
        except (ValueError, TypeError) as error:
            if one_label:  # those of label sets were looked through when they were read
                raise ImportFileError(
                    f"{Path(path).name}, rows from {start + 1} on: {error}"
                ) from error
            raise
        whole = found if whole is None else merge([whole, found])
        if "folds" in batch:
            _add_rows(tested, batch["folds"], start, whole.total.n)
    whole = present(whole)  # a file without rows is refused when it is opened
    if note:
        say(note)
    if cluster is not None:
        whole = with_clusters(whole, _column(path, cluster))
    return (
        replace(whole, split=split_digest(np.concatenate(tested[key]) for key in whole.sums))
        if tested
        else whole
    )


def _as_probabilities(batch: dict[str, Any], probabilities: bool | None) -> str:
    """Mend the sums of rounded probabilities in the batch, unless its scores are said to be others;
    what to tell of it.
    """
    note = ""
    if probabilities is not False and "y_score" in batch:
        batch["y_score"], note = unrounded(batch["y_score"])
    batch["probabilities"] = probabilities
    return note


def _column(path: str | Path, name: str) -> pd.Series:
    """One column of a CSV or parquet file."""
    kind = Path(path).suffix
    if kind not in (".csv", ".parquet"):
        raise ValueError(f"`cluster` must go with a CSV or parquet file, got {Path(path).name!r}.")
    try:
        if kind == ".parquet":
            return pd.read_parquet(path, columns=[name])[name]
        return pd.read_csv(path, usecols=[name], dtype=str, keep_default_na=False)[name]
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"`cluster` must be a column of {Path(path).name!r}, got {name!r}."
        ) from error


def _add_rows(tested: dict[Hashable, list[Any]], folds: Any, start: int, end: int) -> None:
    """Add the numbers of the rows from `start` to those that each fold tests."""
    for key, at in groups(folds, "folds", end - start).items():
        tested.setdefault(key, []).append(np.arange(start, end)[at])


def _propensities(path: str | Path, n_labels: int) -> Propensities:
    """From a file of training labels, which may end before the last label that is evaluated."""
    labels = read_matrix(path, labels=True)
    width = max(n_labels, labels.shape[1])
    return Propensities.of(
        sparse.csr_array(
            (labels.data, labels.indices, labels.indptr), shape=(labels.shape[0], width)
        )
    )
