"""What is right at each level of a hierarchy, and whether predictions obey it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.measures.class_sets import renumbered
from mlflow_mleval.measures.closure import closure
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.registry import LEVEL_NAME
from mlflow_mleval.measures.set_based import pattern

_PARTS = ("intersection", "true_size", "pred_size")


def level_columns(
    true: Any, pred: Any, h: Hierarchy, names: Iterable[str]
) -> dict[str, NDArray[np.float64]]:
    """What the measures of these names are made of, of each instance; nothing for other names.

    Class sets are extended by their ancestors. The level of a class is the most edges on a way from
    a root, plus 1. `violation_rate` is 1 where a predicted class lacks an ancestor in the predicted
    set as given, `missing_ancestors` the number of classes that are lacking.
    """
    names = set(names)
    levels = sorted({int(found[1]) for found in map(LEVEL_NAME.fullmatch, names) if found})
    told = names & {"violation_rate", "missing_ancestors"}
    if not levels and not told:
        return {}
    y, p = (renumbered(sparse.csr_array(side), h._number, len(h) + 1) for side in (true, pred))
    used = np.flatnonzero(np.bincount(np.concatenate([y.indices, p.indices]), minlength=len(h) + 1))
    up, number = h._up.part(h._up.above(np.append(used, 0)))
    y, p = (renumbered(side, number, len(up.level)) for side in (y, p))
    known = pattern(closure(up))[:, 1:]  # without the virtual root
    sides = y @ known, p @ known
    columns = {}
    for level in levels:
        a, b = (side[:, np.flatnonzero(up.level[1:] == level)] for side in sides)
        for part, matrix in zip(_PARTS, (a.multiply(b).tocsr(), a, b), strict=True):
            columns[f"level_{level}_{part}"] = np.diff(matrix.indptr).astype(float)
    missing = np.diff(sides[1].indptr) - np.diff(p.indptr)
    violations = {
        "violation_rate": (missing > 0).astype(float),
        "missing_ancestors": missing.astype(float),
    }
    return columns | {name: violations[name] for name in violations if name in told}


def level_measures(sums: Mapping[str, float]) -> dict[str, float]:
    """Precision, recall and F1 of each level from set sizes summed over instances; NaN where there
    is nothing to divide by.
    """
    found: dict[str, float] = {}
    for head in (
        name.removesuffix(_PARTS[0])
        for name in sums
        if name.startswith("level_") and name.endswith(_PARTS[0])
    ):
        both, true, pred = (sums[head + part] for part in _PARTS)
        values = {"precision": (both, pred), "recall": (both, true), "f1": (2 * both, true + pred)}
        found |= {
            head + name: part / whole if whole else float("nan")
            for name, (part, whole) in values.items()
        }
    return found
