"""What is counted of one label of several classes: pairs of classes, ranks of the true one, and
scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.measures.score_counts import ScoreCounts, counts_of


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """What is counted of one label beside `Sums`, in instances or their weights; it adds up with
    ``+``.

    Attributes
    ----------
    confusion : csr_array of int, shape (C, C)
        Instances by true and predicted class.
    ranks : array of int, shape (C,), or None
        Instances whose true class has the first, second, … highest score; None without a score for
        each class.
    scores : ScoreCounts or None
        For each class, of two for the second, the scores of its instances and of the others; None
        without scores.
    confidence : ScoreCounts or None
        The largest probabilities, of instances that are right and of those that are wrong; None
        without probabilities.
    """

    confusion: sparse.csr_array
    ranks: NDArray[np.int64] | None = None
    scores: ScoreCounts | None = None
    confidence: ScoreCounts | None = None

    def __add__(self, other: ClassCounts) -> ClassCounts:
        further = {}
        for name in ("ranks", "scores", "confidence"):
            mine, theirs = getattr(self, name), getattr(other, name)
            further[name] = None if mine is None or theirs is None else mine + theirs
        return ClassCounts(sparse.csr_array(self.confusion + other.confusion), **further)

    @property
    def cells(self) -> int:
        """How many numbers JSON takes."""
        return 3 * self.confusion.nnz + sum(
            part.cells for part in (self.scores, self.confidence) if part is not None
        )

    def to_dict(self) -> dict[str, Any]:
        """The counts in lists and numbers, for JSON."""
        pairs = self.confusion.tocoo()
        further = {
            name: part and part.to_dict()
            for name, part in (("scores", self.scores), ("confidence", self.confidence))
        }
        table = [pairs.row.tolist(), pairs.col.tolist(), pairs.data.tolist()]
        return {
            "confusion": table,
            "ranks": None if self.ranks is None else self.ranks.tolist(),
            **further,
        }

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any], n_classes: int) -> ClassCounts:
        """The counts that `to_dict` wrote."""
        row, column, number = parts["confusion"]
        confusion = sparse.csr_array(
            (counts_of(number), (row, column)), shape=(n_classes, n_classes)
        )
        ranks = None if parts["ranks"] is None else counts_of(parts["ranks"])
        further = {
            name: parts[name] and ScoreCounts.from_dict(parts[name])
            for name in ("scores", "confidence")
        }
        return cls(confusion, ranks, **further)
