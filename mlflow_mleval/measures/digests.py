"""What tells data and splits apart: digests of the truth that add up over batches, and of which
instances each fold tests.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

#: What a digest of the truth ends with; those without it were made in the order of the rows and do
#: not compare with these.
ROWS = "-rows"
_MODULUS = 1 << 256
_ROWS, _CELLS = (
    1 << 16,
    1 << 22,
)  # rows of a sparse matrix and cells of a dense one that are looked at together


def row_digests(truth: Any) -> NDArray[np.uint32]:
    """SHA-256 of which columns of each row are set, shape (N, 8); a checked matrix gives the same
    in any form.
    """
    step = _ROWS if sparse.issparse(truth) else max(1, _CELLS // truth.shape[1])
    parts = [_of_block(truth[i : i + step]) for i in range(0, truth.shape[0], step)]
    return np.frombuffer(b"".join(parts), "<u4").reshape(-1, 8)


def _of_block(rows: Any) -> bytes:
    if sparse.issparse(rows):
        rows = sparse.csr_array(rows)
        rows.sort_indices()
        columns, ends = rows.indices, rows.indptr.astype(np.int64)
    else:  # several times faster than making it sparse
        columns = np.flatnonzero(rows) % rows.shape[1]
        ends = np.append(0, np.cumsum(np.count_nonzero(rows, axis=1)))
    data = columns.astype("<u4").tobytes()
    sets = [data[start:end] for start, end in pairwise((4 * ends).tolist())]
    known = {one: sha256(one).digest() for one in set(sets)}
    return b"".join(map(known.__getitem__, sets))


def added(digests: NDArray[np.uint32]) -> int:
    """The sum of the rows' digests, whatever their order."""
    columns = digests.sum(axis=0, dtype=np.uint64).tolist()
    return sum(column << 32 * i for i, column in enumerate(columns)) % _MODULUS


def weighted_rows(digests: NDArray[np.uint32], weights: NDArray[np.float64]) -> int:
    """The sum of digests that tell each row and its weight, whatever their order."""
    rows = np.ascontiguousarray(digests, "<u4")
    parts = (
        sha256(row.tobytes() + weight.tobytes()).digest()
        for row, weight in zip(rows, weights.astype("<f8"), strict=True)
    )
    return added(np.frombuffer(b"".join(parts), "<u4").reshape(-1, 8))


def together(a: int | None, b: int | None) -> int | None:
    """The sum over the rows of both; None where that of one is not known."""
    return None if a is None or b is None else (a + b) % _MODULUS


def truth_digest(names: Iterable[Hashable], n: int, total: int) -> str:
    """The digest of `n` rows over the labels `names`, from the sum of the rows' digests: 64
    characters, the last are `ROWS`.
    """
    head = repr((tuple(map(str, names)), n, total))
    return sha256(head.encode("utf-8", "surrogatepass")).hexdigest()[: -len(ROWS)] + ROWS


def weights_digest(total: int) -> str:
    """The digest of weights, from the sum of the digests of weighted rows."""
    return sha256(f"{total:064x}".encode()).hexdigest()


def instance_digest(names: Sequence[Hashable], truth: NDArray[np.uint64]) -> str:
    """SHA-256 of which truth the instance of each name has, whatever their order and how often each
    is tested.
    """
    found = dict(sorted(zip(map(str, names), truth.tolist(), strict=True)))
    return sha256(repr(found).encode("utf-8", "surrogatepass")).hexdigest()


def split_digest(parts: Iterable[Sequence[int] | NDArray[np.int64]]) -> str:
    """SHA-256 of which instances each fold tests, whatever their order within the fold."""
    digest = sha256()
    for part in parts:
        rows = np.sort(np.asarray(part)).astype("<i8")
        digest.update(len(rows).to_bytes(8, "little") + sha256(rows.tobytes()).digest())
    return digest.hexdigest()
