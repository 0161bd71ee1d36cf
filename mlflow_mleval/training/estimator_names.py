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
    digest = sha256(repr(sample(X, Y, size=512)).encode())
    return f"{n_rows}x{n_labels} labels-{digest.hexdigest()[:8]}"


def sample(*arrays: Any, size: int = 32) -> tuple[Any, ...]:
    """Shapes and some of the content: hashable, and cheap however large the arrays are.

    >>> sample(np.arange(6).reshape(2, 3)) == sample(np.arange(6).reshape(2, 3))
    True
    """
    return tuple((getattr(array, "shape", None) or len(array), _some_of(array, size)) for array in arrays)


def _some_of(array: Any, size: int) -> bytes:
    if sparse.issparse(array):
        array = np.asarray(array.tocsr().data)  # its stored values, enough with the shape
        size = size**2
    n_rows = array.shape[0] if hasattr(array, "shape") else len(array)
    rows = slice(None, None, max(1, n_rows // size))
    columns = slice(None, None, max(1, array.shape[1] // size)) if np.ndim(array) == 2 and hasattr(array, "shape") else None
    if isinstance(array, (pd.DataFrame, pd.Series)):
        part = array.iloc[rows] if columns is None else array.iloc[rows, columns]
        part = part.to_numpy()
    else:
        part = array[rows] if columns is None else array[rows, columns]
    if isinstance(part, np.ndarray) and part.dtype.kind in "buif":
        return part.astype(float).tobytes()  # one content, whatever it is kept in
    return repr(part.tolist() if isinstance(part, np.ndarray) else part).encode()


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
