"""What tells datasets and splits apart, taken batch by batch."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.validation import binary_matrix, groups


class Fingerprint:
    """SHA-256 of the truth, and of which instances each fold tests; in whatever batches it comes, the same.

    Parameters
    ----------
    names : iterable of K names
        Of the labels.

    Attributes
    ----------
    n : int
        Instances so far.

    >>> whole, parts = Fingerprint("ab"), Fingerprint("ab")
    >>> whole.update([[1, 0], [0, 1], [1, 1]], folds=[0, 1, 0])
    >>> parts.update([[1, 0]], folds=[0])
    >>> parts.update([[0, 1], [1, 1]], folds=[1, 0])
    >>> parts.truth == whole.truth, parts.split([0, 1]) == whole.split([0, 1])
    (True, True)
    """

    def __init__(self, names: Iterable[Hashable]):
        self._names = tuple(map(str, names))
        self.n = 0
        self._sizes, self._columns = sha256(), sha256()
        self._folds: dict[Hashable, tuple[int, Any]] = {}

    def update(self, y_true: Any, folds: Any = None) -> None:
        """Add instances.

        Parameters
        ----------
        y_true : array, pandas.DataFrame or scipy.sparse of 0 and 1, shape (N, K)
        folds : sequence of length N, or one value, optional
        """
        truth = sparse.csr_array(binary_matrix(y_true, "y_true"))
        if truth.shape[1] != len(self._names):
            raise ValueError(f"`y_true` must have the {len(self._names)} labels of `ev`, got {truth.shape[1]} columns.")
        truth.sort_indices()
        self._sizes.update(np.diff(truth.indptr).astype("<i8").tobytes())
        self._columns.update(truth.indices.astype("<i8").tobytes())
        if folds is not None:
            rows = np.arange(self.n, self.n + truth.shape[0])
            self.add_folds({key: rows[at] for key, at in groups(folds, "folds", len(rows)).items()})
        self.n += truth.shape[0]

    def add_folds(self, rows: Mapping[Hashable, NDArray[np.int64]]) -> None:
        """Add to each fold the numbers of further instances that it tests, in ascending order."""
        for key, numbers in rows.items():
            count, digest = self._folds.get(key, (0, sha256()))
            digest.update(numbers.astype("<i8").tobytes())
            self._folds[key] = count + len(numbers), digest

    @property
    def truth(self) -> str:
        """Of the names of the labels, the number of instances, and which labels each of them has."""
        digest = sha256(repr((self._names, self.n)).encode("utf-8", "surrogatepass"))
        digest.update(self._sizes.digest() + self._columns.digest())
        return digest.hexdigest()

    def split(self, keys: Iterable[Hashable]) -> str | None:
        """Of which instances each of these folds tests; None where no folds were given."""
        digest = sha256()
        for key in keys:
            if key not in self._folds:
                return None
            count, rows = self._folds[key]
            digest.update(count.to_bytes(8, "little") + rows.digest())
        return digest.hexdigest()
