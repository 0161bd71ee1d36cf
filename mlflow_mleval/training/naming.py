"""Names for methods and datasets that nobody named: alike for the same thing, different for another."""

from __future__ import annotations

import inspect
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

#: Parameters that do not make another method.
_INCIDENTAL = {"random_state", "n_jobs", "verbose", "memory", "copy_X"}
_LONGEST = 200
#: Rows and stored values that are read to tell arrays apart.
_SAMPLE = 512


def method_name(estimator: Any) -> str:
    """The estimator's class with the parameters that differ from their defaults, apart from seeds and the like.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> method_name(make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression(C=10, random_state=1))))
    'StandardScaler + OneVsRestClassifier(LogisticRegression(C=10))'
    """
    name = _described(estimator)
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 10]}… {sha256(name.encode()).hexdigest()[:8]}"


def dataset_name(X: Any, Y: Any) -> str:
    """Instances, labels and a digest of a sample of both, such as ``569x6 labels-1a2b3c4d``.

    >>> dataset_name(np.zeros((5, 3)), np.eye(5)) == dataset_name(np.zeros((5, 3)), np.eye(5))
    True
    """
    n_rows, n_labels = Y.shape if hasattr(Y, "shape") else np.shape(Y)
    return f"{n_rows}x{n_labels} labels-{fingerprint(X, Y)[:8]}"


def fingerprint(*arrays: Any) -> str:
    """Hex digest of the shapes and of a sample of the contents: cheap however large the arrays are."""
    digest = sha256()
    for array in arrays:
        digest.update(repr(getattr(array, "shape", None) or len(array)).encode())
        digest.update(_sample(array))
    return digest.hexdigest()


def _sample(array: Any) -> bytes:
    if isinstance(array, (pd.DataFrame, pd.Series)):
        rows = array.iloc[:: max(1, len(array) // _SAMPLE)]
        return pd.util.hash_pandas_object(rows).to_numpy().tobytes()
    if sparse.issparse(array):
        data = np.asarray(array.tocsr().data)
        return np.ascontiguousarray(data[:: max(1, len(data) // _SAMPLE)]).tobytes()
    rows = array[:: max(1, len(array) // _SAMPLE)]
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "buif":
        return np.ascontiguousarray(rows, dtype=float).tobytes()
    return repr(rows).encode()


def _described(value: Any) -> str:
    if hasattr(value, "steps"):
        return " + ".join(_described(step) for _, step in value.steps if step not in (None, "passthrough"))
    if not hasattr(value, "get_params") or isinstance(value, type):
        return " ".join(repr(value).split())
    defaults = {name: p.default for name, p in inspect.signature(type(value).__init__).parameters.items()}
    parts = []
    for name, own in value.get_params(deep=False).items():
        if name in _INCIDENTAL or _same(own, defaults.get(name, inspect.Parameter.empty)):
            continue
        parts.append(_described(own) if hasattr(own, "get_params") else f"{name}={_described(own)}")
    return type(value).__name__ + (f"({', '.join(parts)})" if parts else "")


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and repr(a) == repr(b))
