"""Lists of labels, with their scores or without, as sparse matrices."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mlflow_mleval.naming import quoted, some
from mlflow_mleval.validation import unique_names


def are_lists(y_true: Any, y_score: Any) -> bool:
    """Whether the truth is Python sets of labels, or the scores are mappings of label to score."""
    kinds = ((y_true, (set, frozenset)), (y_score, Mapping))
    return any(
        isinstance(v, (list, tuple, pd.Series)) and len(v) and isinstance(next(iter(v)), kind)
        for v, kind in kinds
    )


def label_matrices(
    y_true: Any, y_score: Any, y_pred: Any, label_names: Sequence[Hashable] | None
) -> tuple[
    sparse.csr_array, sparse.csr_array | None, sparse.csr_array | None, tuple[Hashable, ...]
]:
    """Truth, scores and predictions as CSR, and the labels of the columns: those named, else all
    that occur, sorted.

    Each row is a collection of labels, of the scores a mapping of label to score. A ValueError or
    TypeError names what is not.
    """
    given = {"y_true": y_true, "y_score": y_score, "y_pred": y_pred}
    sides = {name: list(rows) for name, rows in given.items() if rows is not None}
    n = len(sides["y_true"])
    for name, rows in sides.items():
        if len(rows) != n:
            raise ValueError(f"`{name}` must hold the {n} instances of `y_true`, got {len(rows)}.")
        wanted, text = (
            (Mapping, "mappings of label to score")
            if name == "y_score"
            else (Collection, "collections of labels")
        )
        for i, row in enumerate(rows):
            if not isinstance(row, wanted) or isinstance(row, (str, bytes)):
                raise TypeError(
                    f"`{name}` must hold {text}, got {type(row).__name__} in row {i}. Convert it."
                )
    found = {label for rows in sides.values() for row in rows for label in row}
    if label_names is None:
        try:
            label_names = sorted(found)
        except TypeError:
            label_names = sorted(found, key=lambda label: (type(label).__name__, str(label)))
    names = unique_names(
        label_names, "label_names", len(label_names := list(label_names)), "labels"
    )
    place = {label: i for i, label in enumerate(names)}
    if unknown := found.difference(place):
        raise ValueError(
            "`label_names` must name all labels, got none for "
            f"{some(sorted(map(repr, unknown)), 8)}. Name them."
        )
    if not names:
        raise ValueError("`label_names` must name the labels where none occurs. Pass them.")
    matrices = []
    for name in given:
        rows = sides.get(name)
        if rows is None:
            matrices.append(None)
            continue
        rows = rows if name == "y_score" else [dict.fromkeys(row, True) for row in rows]
        ends = np.append(0, np.cumsum([len(row) for row in rows]))
        columns = np.fromiter((place[label] for row in rows for label in row), np.int64, ends[-1])
        values = np.array(
            [v for row in rows for v in row.values()], float if name == "y_score" else bool
        )
        matrix = sparse.csr_array((values, columns, ends), shape=(n, len(names)))
        matrix.sort_indices()
        matrices.append(matrix)
    return *matrices, names


def read_labels(answer: Any) -> Collection[str]:
    """The labels that an answer names: a collection of them, a JSON list, or text with commas.

    >>> read_labels('["b", "a"]'), read_labels("a, b"), read_labels("")
    (['b', 'a'], ['a', 'b'], [])
    """
    if isinstance(answer, str):
        text = answer.strip()
        try:
            answer = (
                json.loads(text)
                if text.startswith("[")
                else [part.strip() for part in text.split(",") if part.strip()]
            )
        except (ValueError, RecursionError):
            raise ValueError(f"{quoted(text)} is no list of labels.") from None
    if (
        not isinstance(answer, Collection)
        or isinstance(answer, Mapping)
        or not all(isinstance(a, str | int) for a in answer)
    ):
        raise ValueError(
            f"an answer must be a list of labels, or text that names them, got {quoted(answer)}."
        )
    return answer
