"""What comes in beside plain arrays: lists, propensities, digests and blocks of rows."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from math import log
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.sentences import count, quoted, some
from mlflow_mleval.validation import (
    AnyArray,
    Array,
    Bools,
    Ints,
    binary_matrix,
    cells,
    matrix_shape,
    same_axes,
    same_shape,
    score_matrix,
    unique_names,
)

#: Matrices that keep rows of stored entries.
Csr: TypeAlias = sparse.csr_array

# ---- lists of labels -----------------------------------------------------------------------------


def are_lists(y_true: Any, y_score: Any) -> bool:
    """Whether the truth is Python sets of labels, or the scores are mappings of label to score."""
    kinds = ((y_true, (set, frozenset)), (y_score, Mapping))
    lists = ((v, kind) for v, kind in kinds if isinstance(v, (list, tuple, pd.Series)) and len(v))
    return any(isinstance(next(iter(v)), kind) for v, kind in lists)


def label_matrices(
    y_true: Any, y_score: Any, y_pred: Any, label_names: Sequence[Hashable] | None
) -> tuple[Csr, Csr | None, Csr | None, tuple[Hashable, ...]]:
    """Truth, scores and predictions as CSR from rows of labels, and the sorted labels."""
    what = "a collection of labels"
    true = listed(y_true, "y_true", what)
    pred = None if y_pred is None else listed(y_pred, "y_pred", what)
    score = None
    if y_score is not None:
        score = listed(y_score, "y_score", "a mapping of label to score", Mapping)
    sides = (rows for rows in (true, score, pred) if rows is not None)
    occurring = set(chain.from_iterable(chain.from_iterable(sides)))
    if label_names is None:
        label_names = sorted(occurring, key=lambda label: (type(label).__name__, label))
    names = unique_names(list(label_names), "label_names", len(label_names), "labels")
    place = {label: i for i, label in enumerate(names)}
    if unknown := occurring.difference(place):
        got = some(sorted(map(repr, unknown)), 8)
        raise ValueError(f"`label_names` must name all labels, got no {got}.")
    if not names:
        raise ValueError("`label_names` must name the labels where none occurs. Pass them.")

    def matrix(rows: list[Any], values: Iterable[float] | None = None) -> Csr:
        return matrix_of(rows, [place[label] for row in rows for label in row], len(names), values)

    scores = None
    if score is not None:
        scores = matrix(score, chain.from_iterable(row.values() for row in score))
    return matrix(true), scores, None if pred is None else matrix(pred), names


def listed(rows: Iterable[Any], name: str, what: str, kind: type = Collection) -> list[Any]:
    """The rows of the argument `name` as a list; TypeError where one is no such collection."""
    rows = list(rows)
    types = set(map(type, rows))
    bad = {t for t in types if issubclass(t, (str, bytes)) or not issubclass(t, kind)}
    if bad:
        wrong = [i for i, row in enumerate(rows) if type(row) in bad]
        raise TypeError(
            f"`{name}` must hold {what} for each instance, got {reprlib.repr(rows[wrong[0]])} for "
            f"instance {wrong[0]} ({listing(wrong, 'such instance')}). Convert these; one label "
            "alone goes into a list."
        )
    return rows


def listing(items: Iterable[Any], noun: str) -> str:
    """How many items there are, and the first few of them."""
    items = list(items)
    return f"{count(len(items), noun)}: {some(map(repr, items), 5)}"


def matrix_of(
    rows: Sequence[Any], columns: Any, width: int, values: Iterable[float] | None = None
) -> Csr:
    """The columns, or values in them, that each row has in turn, as CSR; a column counts once."""
    columns = np.asarray(columns, np.int64)
    data: AnyArray = np.ones(len(columns), bool)
    if values is not None:
        data = np.fromiter(values, float, len(columns))
    matrix = compressed(data, columns, np.append(0, np.cumsum([*map(len, rows)])), width)
    matrix.sum_duplicates()
    return matrix


def compressed(data: AnyArray, indices: AnyArray, start: AnyArray, width: int) -> Csr:
    """A csr_array with 32-bit indices where they suffice, which scipy does not choose itself."""
    kind = np.int32 if max(start[-1], width) < 2**31 else np.int64
    return sparse.csr_array(
        (data, indices.astype(kind, copy=False), start.astype(kind)), shape=(len(start) - 1, width)
    )


def read_labels(answer: Any) -> list[str]:
    """The labels that an answer names: a collection of them, a JSON list, or text with commas."""
    if isinstance(answer, str):
        text = answer.strip()
        try:
            parts = [part.strip() for part in text.split(",") if part.strip()]
            answer = json.loads(text) if text.startswith("[") else parts
        except (ValueError, RecursionError):
            raise ValueError(f"{quoted(text)} is no list of labels.") from None
    is_list = isinstance(answer, Collection) and not isinstance(answer, Mapping)
    if not is_list or not all(isinstance(label, str | int) for label in answer):
        want = "a list of labels, or text that names them"
        raise ValueError(f"an answer must be {want}, got {quoted(answer)}.")
    return [str(label) for label in answer]


# ---- propensities of labels ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Propensities:
    """How much a hit of each label weighs in propensity-scored measures: 1 + (log N − 1)(b + 1)^a
    (N_l + b)^−a of N training instances, N_l of which have it (Jain et al. 2016)."""

    weights: Array = field(repr=False)
    a: float
    b: float
    digest: str
    labels: Csr = field(repr=False)

    @property
    def identity(self) -> dict[str, Any]:
        """What tells them from others."""
        return {"a": self.a, "b": self.b, "digest": self.digest}

    @classmethod
    def of(cls, train_labels: Any, a: float = 0.55, b: float = 1.5) -> Propensities:
        """Propensities from a label matrix M x K, or these themselves."""
        if isinstance(train_labels, Propensities):
            return train_labels
        labels = binary_matrix(train_labels, "train_labels")
        if not (np.isfinite(a) and np.isfinite(b) and b > -1):
            raise ValueError(f"`a` and `b` must be finite, and `b` above -1, got {a!r} and {b!r}.")
        counts = np.asarray(labels.sum(axis=0), dtype=np.int64).ravel()
        n = labels.shape[0]
        scale = (log(n) - 1) * (b + 1) ** a
        text = f"{n} {float(a)!r} {float(b)!r} ".encode() + counts.astype("<i8").tobytes()
        as_bits = sparse.csr_array(labels, dtype=bool)
        weights = 1 + scale * (counts + b) ** -a
        return cls(weights, float(a), float(b), sha256(text).hexdigest(), as_bits)


# ---- digests of truth and splits -----------------------------------------------------------------

_ROWS = 1 << 14  # rows of a sparse matrix that are looked at together
_CELLS = 1 << 18  # and cells of a dense one


def row_digests(truth: Any) -> NDArray[np.uint64]:
    """64 bits of which columns each row of a checked matrix has: those of columns summed, mixed."""
    n, width = truth.shape
    is_sparse = sparse.issparse(truth)
    truth = sparse.csr_array(truth) if is_sparse else truth
    mixed = _mixed(np.arange(width))
    parts = []
    for at in slices(n, _ROWS if is_sparse else max(1, _CELLS // width)):
        rows = truth[at]
        if is_sparse:
            columns, ends = rows.indices, rows.indptr
        else:  # several times faster than making it sparse
            columns = np.flatnonzero(rows) % width
            ends = np.append(0, np.cumsum(np.count_nonzero(rows, axis=1)))
        running = np.append(np.uint64(0), mixed[columns].cumsum(dtype=np.uint64))
        parts.append(_mixed(running[ends[1:]] - running[ends[:-1]]))
    return np.concatenate(parts)


def _mixed(numbers: AnyArray) -> NDArray[np.uint64]:
    """64 bits of which each depends on all bits of a number (Steele, Lea and Flood 2014, "Fast
    splittable pseudorandom number generators"); sums wrap round."""
    words = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def added(digests: NDArray[np.uint64], weights: Array | None = None) -> int:
    """The sum of the rows' digests, whatever their order; with weights, each tells its weight."""
    if weights is not None:
        digests = _mixed(digests ^ _mixed(weights.view(np.uint64)))
    return int(digests.sum(dtype=np.uint64))


def sums_of_both(a: int, b: int) -> int:
    """The sum over the rows of both."""
    return (a + b) % (1 << 64)


def truth_digest(names: Iterable[Hashable], n: int, total: int) -> str:
    """The digest of `n` rows over the labels `names`, from the sum of the rows' digests."""
    head = repr((tuple(map(str, names)), n, total))
    return sha256(head.encode("utf-8", "surrogatepass")).hexdigest()


def instance_digest(names: Sequence[Hashable], truth: NDArray[np.uint64]) -> str:
    """SHA-256 of which truth the instance of each name has, in whatever order."""
    by_name = dict(sorted(zip(map(str, names), truth.tolist(), strict=True)))
    return sha256(repr(by_name).encode("utf-8", "surrogatepass")).hexdigest()


def split_digest(parts: Iterable[Sequence[int] | Ints]) -> str:
    """SHA-256 of which instances each fold tests, whatever their order within the fold."""
    digest = sha256()
    for part in parts:
        rows = np.sort(np.asarray(part)).astype("<i8")
        digest.update(len(rows).to_bytes(8, "little") + sha256(rows.tobytes()).digest())
    return digest.hexdigest()


# ---- blocks of rows that fit the cache -----------------------------------------------------------

_BLOCK = 1 << 16  # cells: half a megabyte of errors


def truth_and_scores(y_true: Any, y_score: Any) -> tuple[Any, Any]:
    """Truth as booleans and scores as numbers, dense or CSR, of one shape."""
    y_true = binary_matrix(y_true, "y_true")
    y_score = matrix_shape(y_score, "y_score")
    same_shape(y_score, "y_score", y_true)
    if sparse.issparse(y_score):
        _check_scores(y_score.data, y_score)
    return y_true, y_score


def slices(n: int, step: int) -> Iterator[slice]:
    """Slices of at most `step` that cover n rows in turn."""
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def blocks(*matrices: Any) -> Iterator[tuple[Any, ...]]:
    """Slices of rows that fit the cache, with these rows of each matrix, dense."""
    n_rows, n_labels = matrices[0].shape
    for rows in slices(n_rows, max(1, _BLOCK // n_labels)):
        yield rows, *(dense(matrix[rows]) for matrix in matrices)


def error_blocks(y_true: Any, y_score: Any) -> Iterator[tuple[slice, Bools, Array]]:
    """Blocks of rows: the slice, the truth, and abs(y_score - y_true) in a buffer."""
    buffer = None
    for rows, truth, score in blocks(y_true, y_score):
        _check_scores(score, y_score)
        buffer = np.empty(truth.shape) if buffer is None else buffer
        errors = buffer[: len(truth)]
        np.subtract(score, truth, out=errors, dtype=float)  # unsigned integers would wrap round
        yield rows, truth, np.abs(errors, out=errors)


def _check_scores(some: AnyArray, y_score: Any) -> None:
    """Raise a ValueError about all of ``y_score`` if any of these is outside [0, 1] or NaN."""
    if some.dtype == bool or not some.size or (some.min() >= 0 and some.max() <= 1):
        return
    values = y_score.data if sparse.issparse(y_score) else y_score.ravel()
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
    hint = "Rescale the scores, or leave these instances out."
    raise ValueError(f"`y_score` must lie in [0, 1], got {cells(y_score, bad)}. {hint}")


# ---- label sets as matrices ----------------------------------------------------------------------


def row_sizes(matrix: Csr) -> Ints:
    """How many entries each row stores."""
    return np.diff(matrix.indptr).astype(np.int64)


def rows_of(matrix: Csr) -> Ints:
    """The row of each stored entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), row_sizes(matrix))


def dense(matrix: Any) -> Any:
    """The same as an ndarray."""
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def found_among(among: Ints, wanted: Ints) -> tuple[Bools, Ints]:
    """Which of the wanted numbers are among these, which ascend; and where."""
    if not len(among):
        return np.zeros(len(wanted), bool), np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    return among[at] == wanted, at


def overlap(true: Any, pred: Any, weights: Array | None = None) -> tuple[Ints, AnyArray]:
    """The shared, predicted and true labels by instance, (3, n), and by label, (3, K)."""
    n, k = true.shape
    shared = true.multiply(pred).tocsr() if sparse.issparse(true) else true & pred
    # a matrix product counts fastest, and exactly up to 2**24
    columns = np.ones(k, np.float32)
    each = np.ones(n, np.float32) if weights is None else weights
    by_instance, by_label = [], []
    for labels in (shared, pred, true):
        counted = labels.astype(np.float32)
        by_instance.append(counted @ columns)
        by_label.append(each @ counted)
    kind = np.int64 if weights is None else float
    return np.array(by_instance, np.int64), np.array(by_label, kind)


# ---- thresholds on scores ------------------------------------------------------------------------


def reaches_threshold(scores: AnyArray, threshold: Any) -> Bools:
    """Where scores reach a threshold, in their own type: float32(.7) is less than .7."""
    cut = np.asarray(threshold, float)
    if scores.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return scores >= cut.astype(scores.dtype)
    return scores >= cut


def predicted(scores: Any, threshold: Any) -> Csr:
    """Where the scores reach the threshold, as CSR, made some rows at a time."""
    if sparse.issparse(scores) and np.min(threshold) > 0:
        cut = np.broadcast_to(np.asarray(threshold, float), scores.shape[1:])
        at = np.flatnonzero(reaches_threshold(scores.data, cut[scores.indices]))
        entries = np.ones(len(at), bool), scores.indices[at], np.searchsorted(at, scores.indptr)
        return sparse.csr_array(entries, shape=scores.shape)
    parts = slices(scores.shape[0], max(1, _CELLS // scores.shape[1]))
    above = (reaches_threshold(dense(scores[at]), threshold) for at in parts)
    return sparse.vstack([*map(sparse.csr_array, above)], format="csr")


def calibrate_threshold(y_true: Any, y_score: Any, *, per_label: bool = False) -> float | Array:
    """The threshold at which as many labels are predicted as are true.

    Read et al.'s PCut calibration, used by Madjarov et al. 2012: the label cardinality of ``y_score
    >= threshold`` is closest to that of the training truth. It is exact: every threshold that tells
    scores apart is considered.

    Parameters
    ----------
    y_true : array, data frame or scipy.sparse of 0 and 1, shape (M, K)
        The truth whose cardinality is to be met, usually that of the training instances. M need not
        be N.
    y_score : the same of finite numbers, shape (N, K)
        Scores of any range.
    per_label : bool
        One threshold a label, at which the label is predicted as often as it is true.

    Returns
    -------
    float, or array of shape (K,)
        Half way between the lowest score that is predicted and the highest that is not; the lowest
        score of all where all are predicted; the next number above the highest where none is. Of
        two that are equally close the higher one, which predicts fewer labels.

    Raises
    ------
    ValueError, TypeError
        Not matrices of numbers, different numbers or names of labels, a score that is NaN or
        infinite, a truth other than 0 or 1.

    >>> y_score = [[1.0, 0.75, 0.125], [0.75, 0.25, 0.0]]
    >>> calibrate_threshold([[1, 0, 0], [1, 1, 0]], y_score)
    0.5
    >>> calibrate_threshold([[1, 0, 0], [1, 1, 1]], y_score, per_label=True)
    array([0.75  , 0.5   , 0.0625])
    """
    score = score_matrix(y_score)
    true = binary_matrix(y_true, "y_true")
    same_axes(y_score, "y_score", y_true, "y_true", columns_alone=True)
    n, k = score.shape
    if true.shape[1] != k:
        raise ValueError(f"`y_true` must have the {k} labels of `y_score`, got {true.shape[1]}.")
    by_label = np.asarray(true.sum(axis=0)).ravel() * n / true.shape[0]
    cuts = []
    for j, wanted in enumerate(by_label if per_label else [by_label.sum()]):
        scores = dense(score[:, [j]] if per_label else score).ravel()
        scores = scores if scores.dtype.kind == "f" else scores.astype(float)
        values, times = np.unique(scores, return_counts=True)
        reached = np.append(np.cumsum(times[::-1])[::-1], 0)  # by each value, and by none
        # of two that are equally close the higher one
        best = len(values) - int(np.argmin(np.abs(reached - wanted)[::-1]))
        low = values[max(best - 1, 0)]
        high = values[best] if best < len(values) else np.nextafter(low, low.dtype.type(np.inf))
        middle = low / 2 + high / 2
        cuts.append(float(middle if low < middle <= high else high))
    return np.array(cuts) if per_label else cuts[0]
