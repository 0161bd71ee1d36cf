"""Propensities of labels (Jain et al. 2016): how probable it is that a relevant label was noted,
from the training labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mlflow_mleval.validation import binary_matrix


@dataclass(frozen=True, eq=False)
class Propensities:
    """How much a hit of each label weighs in propensity-scored measures.

    Attributes
    ----------
    weights : array of shape (K,)
        1 / p, with p = 1 / (1 + C e^(−a log(N_l + b))), C = (log N − 1)(b + 1)^a, of N training
        instances N_l of which have l.
    a, b : float
        Jain et al. fit .5 and .4 for Wikipedia, .6 and 2.6 for Amazon; .55 and 1.5 are for the
        rest.
    digest : str
        SHA-256 of N, of N_l and of a and b: values under other propensities do not compare.
    labels : csr_array of bool, shape (M, K)
        The training labels themselves, of which classes of a hierarchy take their information.

    >>> Propensities.of([[1, 0], [1, 0], [1, 1]]).weights.round(3)
    array([1.071, 1.099])
    """

    weights: NDArray[np.float64] = field(repr=False)
    a: float
    b: float
    digest: str
    labels: sparse.csr_array = field(repr=False)

    @classmethod
    def of(cls, train_labels: Any, a: float = 0.55, b: float = 1.5) -> Propensities:
        """Propensities from a label matrix M x K, or these themselves; a ValueError or TypeError
        for anything else.
        """
        if isinstance(train_labels, Propensities):
            return train_labels
        labels = binary_matrix(train_labels, "train_labels")
        if not (np.isfinite(a) and np.isfinite(b) and b > -1):
            raise ValueError(
                f"`a` and `b` must be finite numbers, and `b` above -1, got {a!r} and {b!r}. See "
                "Jain et al. 2016."
            )
        counts = np.asarray(labels.sum(axis=0), dtype=np.int64).ravel()
        n = labels.shape[0]
        scale = (log(n) - 1) * (b + 1) ** a
        text = f"{n} {float(a)!r} {float(b)!r} ".encode() + counts.astype("<i8").tobytes()
        known = sparse.csr_array(labels, dtype=bool)
        return cls(
            1 + scale * (counts + b) ** -a, float(a), float(b), sha256(text).hexdigest(), known
        )
