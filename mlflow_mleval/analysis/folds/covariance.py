"""Tables of folds and the algebra of their scatter: checks, linear dependence, and solving for many
pairs of methods at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from mlflow_mleval.validation import unique_names

DEPENDENT = ("error", "drop")
#: A measure whose part outside the span of the measures before it is below this share of its length
#: depends on them.
DEPENDENCE = 1e-8
#: What residuals of several methods are.
LEFT = "what is left of fold and method"
#: Variation below this share of the largest value is float noise.
NOISE = 1e-13

Array = NDArray[np.float64]


def checked_ratio(ratio: float | None) -> float | None:
    """n_test / n_train as a float, if it is one; else a ValueError."""
    if ratio is None:
        return None
    number = float(ratio)
    if not 0 <= number < np.inf:
        raise ValueError(
            f"`ratio` must be n_test / n_train of a fold (1/9 for ten folds), got {ratio!r}."
        )
    return number


def variance_factor(n: ArrayLike, ratio: float | None = None) -> Any:
    """The variance of a mean over n folds in variances of a single fold: 1/n + n_test/n_train
    (Nadeau & Bengio 2003).

    Without a ratio, that of independent values such as datasets, 1/n.
    """
    return 1 / np.asarray(n) + (ratio or 0.0)


def drawn_folds(rng: np.random.Generator, n: int, n_resamples: int, ratio: float | None) -> Array:
    """Shares of n folds that are drawn again, draws x folds, spread so that means over them vary as
    the corrected variance says.

    They apply to values about their mean over folds.
    """
    shares = rng.multinomial(n, np.full(n, 1 / n), n_resamples) / n
    return shares * np.sqrt(n * variance_factor(n, ratio) * n / (n - 1))


def table_of(values: ArrayLike | pd.DataFrame, name: str, ndim: int) -> Array:
    """The values as finite floats in so many dimensions; one dimension less means one measure."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must hold numbers in a regular array, got {error}. Pass one number a cell."
        ) from None
    if ndim == 2 and array.ndim == 1:
        array = array[:, None]
    if array.ndim != ndim or 0 in array.shape:
        axes = " x ".join(("methods", "folds", "measures")[-ndim:])
        raise ValueError(
            f"`{name}` must be {axes} with at least one of each, got shape {array.shape}."
        )
    if bad := int((~np.isfinite(array)).sum()):
        where = ", ".join(str(int(i)) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(
            f"`{name}` must be finite in every cell, got {bad} of {array.size} missing or "
            f"infinite (first at {where}). Leave out the fold for all methods, or the method."
        )
    return array


def names_of(
    given: Iterable[Hashable] | None, values: object, name: str, count: int
) -> list[Hashable]:
    """The names that were given, those of a DataFrame's columns, or 0, 1 .. count - 1."""
    if given is None:
        given = values.columns if isinstance(values, pd.DataFrame) else range(count)
    return list(unique_names(given, name, count, name))


def independent_columns(
    residuals: Array,
    names: Sequence[Hashable],
    size: Array,
    df: int,
    dependent: str,
    what: str,
    mean: Array,
) -> tuple[list[int], dict[Hashable, str]]:
    """Positions of the measures that do not follow from those before them, and why the others were
    dropped.

    `residuals` are rows x measures with `df` degrees of freedom (as many independent measures
    exhaust them, so that what follows is no dependence); `what` says what they are, in words;
    `size` is the largest absolute value of each measure, far below which variation is noise; a
    dependence that the tested `mean` does not share is told. ValueError where `dependent` is
    "error", or none is left.
    """
    length = np.linalg.norm(residuals, axis=0)
    kept: list[int] = []
    dropped: dict[Hashable, str] = {}
    for k, name in enumerate(names):
        if length[k] <= NOISE * size[k] * np.sqrt(len(residuals)):
            constant = np.abs(mean[..., k]).max() > NOISE * size[k]
            dropped[name] = "does not vary over folds" + (
                " although the methods differ in it" if constant else ""
            )
            continue
        column = residuals[:, k] / length[k]
        if kept:
            base = residuals[:, kept] / length[kept]
            weights = np.linalg.lstsq(base, column, rcond=None)[0]
            if len(kept) < df and np.linalg.norm(column - base @ weights) <= DEPENDENCE:
                used = [i for i, w in zip(kept, weights, strict=True) if abs(w) > 1e-6]
                dropped[name] = f"follows from {', '.join(str(names[i]) for i in used)}"
                gap = mean[..., k] - length[k] * mean[..., kept] @ (weights / length[kept])
                if np.abs(gap).max() > 1e-9 * size[k]:
                    dropped[name] += " but for a constant in which the methods differ"
                continue
        kept.append(k)
    if dropped and (dependent == "error" or not kept):
        listed = "; ".join(f"{name} {reason}" for name, reason in dropped.items())
        drop = "Leave them out, or pass dependent='drop'."
        mend = drop if kept else "There is no variation to test against."
        raise ValueError(
            f"`measures` must be linearly independent ({what}), got {len(dropped)} of "
            f"{len(names)} that are not: {listed}. {mend}"
        )
    return kept, dropped


def solve_pairs(
    residuals: Array, mean: Array, size: Array
) -> tuple[Array, Array, NDArray[np.int64]]:
    """Of every pair the quadratic form of the mean in the inverse of the residuals' sum of squares
    and products, and more.

    Modified Gram-Schmidt along the measures, all pairs at once: the condition number is not
    squared, as it would be by forming the covariance. `residuals` (measures x rows x pairs) and
    `mean` (measures x pairs) are overwritten; `size` is the largest absolute value of each measure
    (and pair). Also the inverse times the mean, and the first measure that does not vary or depends
    on those before it, else -1; with one, the other results mean nothing.
    """
    p, _, n = residuals.shape
    before = np.sqrt(np.einsum("krn,krn->kn", residuals, residuals))
    scale = np.empty((p, n))
    along = np.zeros((p, p, n))
    singular = np.full(n, -1)
    for k in range(p):
        scale[k] = np.sqrt(np.einsum("rn,rn->n", residuals[k], residuals[k]))
        gone = scale[k] <= np.maximum(
            DEPENDENCE * before[k], NOISE * np.sqrt(residuals.shape[1]) * size[k]
        )
        singular[gone & (singular < 0)] = k
        scale[k][gone] = 1.0
        residuals[k] /= scale[k]
        mean[k] /= scale[k]
        for j in range(k + 1, p):
            along[k, j] = np.einsum("rn,rn->n", residuals[k], residuals[j])
            residuals[j] -= along[k, j] * residuals[k]
            mean[j] -= along[k, j] * mean[k]
    direction = mean.copy()
    for k in range(p - 1, -1, -1):
        for j in range(k + 1, p):
            direction[k] -= along[k, j] * direction[j]
        direction[k] /= scale[k]
    return np.einsum("kn,kn->n", mean, mean), direction, singular
