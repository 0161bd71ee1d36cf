"""What hierarchical measures take from each instance, and what tells a hierarchy and its options
from others.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.measures import hierarchical
from mlflow_mleval.measures.at_k import top_labels
from mlflow_mleval.measures.class_pairs import Pairs
from mlflow_mleval.measures.class_sets import renumbered
from mlflow_mleval.measures.closure import closure
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.hierarchy_levels import level_columns
from mlflow_mleval.measures.registry import DISTANCE_NAME, numbers


def of_label_matrices(
    true: Any,
    pred: Any,
    score: Any,
    names: Sequence[Hashable],
    h: Hierarchy | None,
    options: Mapping[str, Any],
    asked: Sequence[str],
    zeros: bool = False,
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """`of_class_sets` of label matrices, and what takes a score for each label; nothing without a
    hierarchy.

    Labels that score 0 are among the highest only with `zeros`.
    """
    if h is not None:
        true = _indicator(true, names, h)
        columns, identity = of_class_sets(true, _indicator(pred, names, h), h, options, asked)
        for k in numbers(DISTANCE_NAME, asked) if score is not None else ():
            columns[f"distance_at_{k}"] = _nearest(
                true, _indicator(top_labels(score, k, zeros), names, h), h
            )
        return columns, identity
    if options:
        raise TypeError(
            f"`hierarchy` must be given with {', '.join(map(repr, options))}. Leave these out "
            "without it."
        )
    return None, None


def of_class_sets(
    true: Any, pred: Any, h: Hierarchy, options: Mapping[str, Any], asked: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The hierarchical columns of each instance, and what tells the hierarchy and its options from
    others.
    """
    options = {**hierarchical.OPTIONS, **options}
    if options["measures"] is not None:
        options["measures"] = (
            [options["measures"]]
            if isinstance(options["measures"], str)
            else list(options["measures"])
        )
    table = hierarchical.instance_measures(true, pred, h, **options)
    for name in ("max_ancestors", "class_costs"):
        if options[name] is None:
            del options[
                name
            ]  # so that results of versions without it go on agreeing in their options
    if isinstance(costs := options.get("class_costs"), Mapping):
        text = repr([float(costs[name]) for name in h.nodes])
        options["class_costs"] = f"SHA-256 {sha256(text.encode()).hexdigest()[:16]}"
    columns = {name: table[name].to_numpy() for name in table} | level_columns(true, pred, h, asked)
    return columns, {"hierarchy": h.digest, **options}


def _nearest(true: sparse.csr_array, top: sparse.csr_array, h: Hierarchy) -> NDArray[np.float64]:
    """Of each instance the shortest path between a class of one set and a class of the other; NaN
    where one is empty.
    """
    used = np.zeros(len(h) + 1, bool)
    used[np.concatenate([h._number[side.indices] for side in (true, top)])] = True
    up, number = h._up.part(h._up.above(np.flatnonzero(used)))
    true, top = (renumbered(side, number[h._number], len(up.level)) for side in (true, top))
    pairs = Pairs.of(true, top, closure(up))
    some = np.flatnonzero(np.diff(pairs.start))
    found = np.full(true.shape[0], np.nan)
    if len(some):
        found[some] = np.minimum.reduceat(pairs.apart[pairs.kind], pairs.start[some])
    return found


def _indicator(matrix: Any, names: Sequence[Hashable], h: Hierarchy) -> sparse.csr_array:
    """A label matrix over all classes of the hierarchy."""
    position = {name: i for i, name in enumerate(h.nodes)}
    if unknown := [name for name in names if name not in position]:
        raise ValueError(
            f"`label_names` must be classes of `hierarchy`, got {len(unknown)} others: "
            f"{', '.join(map(repr, unknown[:8]))}."
        )
    found = sparse.csr_array(matrix)
    columns = np.array([position[name] for name in names])[found.indices]
    found = sparse.csr_array(
        (found.data, columns, found.indptr), shape=(found.shape[0], len(h.nodes))
    )
    found.sort_indices()
    return found
