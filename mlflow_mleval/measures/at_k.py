"""Measures of the k labels with the highest scores: precision, recall, nDCG, and their
propensity-scored forms.

Of equal scores the lower label comes first. A score of 0 is none, stored or not: where fewer than k
labels are scored, the rest are misses. The names carry k: ``precision_at_5``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.measures.label_ranking import ordered_floats
from mlflow_mleval.measures.registry import AT_K_NAME
from mlflow_mleval.measures.stored_scores import StoredScores, rows_of, without_zeros

#: Those that need propensities; they are ratios of sums over instances: of what was gained, and of
#: what could be.
SCORED = ("psp", "psndcg")
GAIN, BEST = "_gain", "_best"
_BLOCK = 1 << 18  # cells that are ranked at a time
_ROUNDS = 16  # up to this k, picking the largest k times beats sorting


def parsed(names: Iterable[str]) -> list[tuple[str, int]]:
    """What is measured, and k, of the names that are of measures at k."""
    return [(found[1], int(found[2])) for found in map(AT_K_NAME.fullmatch, names) if found]


def at_k_measures(
    names: Iterable[str],
    true: sparse.csr_array,
    hits: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
) -> dict[str, NDArray[np.float64]]:
    """The measures at k of each instance, of shape (n,); two columns, gain and best, of each that
    is propensity-scored.

    `hits` are the labels that are hit at the first, second, … rank, -1 for misses, for as many
    ranks as the largest k of the names. An instance without relevant labels has recall and nDCG 0,
    and adds nothing to the propensity-scored ones.
    """
    hit = hits >= 0
    count = np.diff(true.indptr)
    discount = 1 / np.log2(np.arange(hits.shape[1]) + 2)
    ideal = np.append(0, np.cumsum(discount))
    wanted = parsed(names)
    if any(name in SCORED for name, _ in wanted):
        assert weights is not None  # only those with propensities are asked
        weighted = np.where(hit, weights[hits], 0)
        best = _largest(true, weights, hits.shape[1])
    found = {}
    for name, k in wanted:
        key, first = f"{name}_at_{k}", slice(k)
        if name == "precision":
            found[key] = hit[:, first].sum(axis=1) / k
        elif name == "recall":
            found[key] = hit[:, first].sum(axis=1) / np.maximum(count, 1)
        elif name == "ndcg":
            found[key] = (hit[:, first] * discount[first]).sum(axis=1) / np.maximum(
                ideal[np.minimum(count, k)], 1
            )
        else:
            by = discount[first] if name == "psndcg" else np.ones(k)
            # The k of psp cancels in the ratio; with it the sums are those of the definition, to a
            # bit.
            norm = np.maximum(ideal[np.minimum(count, k)], 1) if name == "psndcg" else k
            found[key + GAIN], found[key + BEST] = (
                (side[:, first] * by).sum(axis=1) / norm for side in (weighted, best)
            )
    return found


def ratios(sums: Mapping[str, float]) -> dict[str, float]:
    """The propensity-scored measures from the sums of gain and best; NaN where nothing could be
    gained.
    """
    found = {}
    for name in (column.removesuffix(GAIN) for column in sums if column.endswith(GAIN)):
        best = sums[name + BEST]
        found[name] = sums[name + GAIN] / best if best else float("nan")
    return found


def dense_hits(true: NDArray[np.bool_], scores: NDArray[Any], k: int) -> NDArray[np.int64]:
    """The labels that are hit at the ranks up to k, shape (n, k), -1 for misses."""
    found = np.full((len(scores), k), -1)
    order = _top(scores.astype(float, copy=True), k)
    hit = np.take_along_axis(true, order, axis=1) & (np.take_along_axis(scores, order, axis=1) != 0)
    found[:, : order.shape[1]] = np.where(hit, order, -1)
    return found


def sparse_hits(scores: StoredScores, k: int) -> NDArray[np.int64]:
    """The same of sparse scores."""
    found = np.full((len(scores.counts), k), -1)
    for row, rank, cell in _highest(scores, k):
        hit = scores.relevant[cell]
        found[row[hit], rank[hit]] = scores.score.indices[cell[hit]]
    return found


def _highest(
    scores: StoredScores, k: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """The stored scores at the ranks up to k: their rows, ranks from 0, and places in the data."""
    for rows, table, at, _ in scores.tables():
        order = _top(table, k)
        cell = np.take_along_axis(at, order, axis=1)
        place = np.arange(order.shape[1])
        rank = place + np.where(place >= scores.positive[rows, None], scores.zeros[rows, None], 0)
        row, place = np.nonzero((place < scores.counts[rows, None]) & (rank < k))
        yield rows[row], rank[row, place], cell[row, place]


def top_labels(scores: Any, k: int, zeros: bool = False) -> sparse.csr_array:
    """Which labels have the k highest scores, as a CSR of booleans; those that score 0 only with
    `zeros`.
    """
    if sparse.issparse(scores):
        scores = ordered_floats(without_zeros(scores))
        found = [
            (row, scores.indices[cell])
            for row, _, cell in _highest(StoredScores(scores, scores), k)
        ]
    else:
        floats, found, step = (
            ordered_floats(np.asarray(scores)),
            [],
            max(1, _BLOCK // scores.shape[1]),
        )
        for start in range(0, len(floats), step):
            block = floats[start : start + step]
            order = _top(block.copy(), k)
            row, place = np.nonzero(zeros | (np.take_along_axis(block, order, axis=1) != 0))
            found.append((start + row, order[row, place]))
    none = np.zeros(0, np.int64)
    row, label = (np.concatenate(side) for side in zip((none, none), *found, strict=True))
    return sparse.csr_array((np.ones(len(row), bool), (row, label)), shape=scores.shape)


def _top(table: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Columns of the k highest scores of each row, of equal ones the lower first; the table is used
    up.
    """
    k = min(k, table.shape[1])
    if k > _ROUNDS:
        return np.argsort(-table, axis=1, kind="stable")[:, :k]
    rows, found = np.arange(len(table)), np.empty((len(table), k), np.int64)
    for i in range(k):
        found[:, i] = table.argmax(axis=1)
        table[rows, found[:, i]] = -np.inf
    return found


def _largest(true: sparse.csr_array, weights: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """The k largest weights of the relevant labels of each row, largest first, then zeros; shape
    (n, k).
    """
    row = rows_of(true)
    weight = weights[true.indices]
    order = np.lexsort((-weight, row))
    place = np.arange(len(row)) - true.indptr[row]
    kept = place < k
    found = np.zeros((true.shape[0], k))
    found[row[kept], place[kept]] = weight[order][kept]
    return found
