"""Names for methods and datasets that nobody named: alike for the same thing, different for
another.
"""

from __future__ import annotations

import inspect
from hashlib import sha256
from typing import Any

import mlflow
import numpy as np
import pandas as pd
from scipy import sparse

from mlflow_mleval.measures.class_vectors import classes_of, is_vector

#: Parameters that change no result, and those that make a repeat of the same method.
_INCIDENTAL = {"n_jobs", "verbose", "memory", "copy_X"}
_SEEDS = {"random_state", "seed", "random_seed", "rng"}
_LONGEST = 200
#: What the field calls wrappers: by class, of label sets.
_WRAPPERS = {
    "MultiOutputClassifier": "BR",
    "OneVsRestClassifier": "BR",
    "BinaryRelevance": "BR",
    "ClassifierChain": "CC",
    "LabelPowerset": "LP",
    "OneVsOneClassifier": "OvO",
    "OutputCodeClassifier": "ECOC",
    "MLkNN": "ML-kNN",
    "BRkNNaClassifier": "BRkNN-a",
    "BRkNNbClassifier": "BRkNN-b",
    "RakelD": "RAkELd",
    "RakelO": "RAkELo",
    "EnsembleOfClassifierChains": "ECC",
    "EnsembleClassifierChain": "ECC",
    "ProbabilisticClassifierChain": "PCC",
    "MLARAM": "ML-ARAM",
    "MLTSVM": "ML-TSVM",
}
#: Names given in this process: by store and short name, the name for each set of parameters.
_named: dict[tuple[str, str], dict[tuple[tuple[str, str], ...], str]] = {}


def method_name(estimator: Any, Y: Any = None) -> str:
    """A short name: the estimator's class, of wrappers what the field calls them, without
    parameters.

    Where an estimator with other parameters has that name already in this process and store, those
    in which the two differ are added. A search is called as what it searches, so that its winner
    and its hold-out are one method.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> method_name(make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression(C=10, random_state=1))))
    'StandardScaler + BR(LogisticRegression)'
    """  # noqa: E501
    name, own = (
        _short(estimator, Y),
        hyperparameters(estimator) | dict.fromkeys(getattr(estimator, "best_params_", ()), "tuned"),
    )
    known = _named.setdefault((mlflow.get_tracking_uri(), name), {})
    key = tuple(sorted((p, v) for p, v in own.items() if p.rpartition("__")[2] not in _SEEDS))
    if key not in known:
        others = list(map(dict, known))
        differing = [p for p, v in key if any(other.get(p) != v for other in others)]
        told = ", ".join(f"{p}={own[p]}" for p in differing)
        known[key] = _cut(f"{name}({told})" if differing else name)
    return known[key]


def params_of(estimator: Any) -> dict[str, str]:
    """The parameters of a run: the whole name as ``estimator``, and each hyperparameter."""
    return {"estimator": full_name(estimator)} | hyperparameters(estimator)


def full_name(estimator: Any) -> str:
    """The estimator with all parameters that differ from their defaults, apart from seeds and the
    like.

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> full_name(KNeighborsClassifier(7, n_jobs=2))
    'KNeighborsClassifier(n_neighbors=7)'
    """
    return _described(_searched(estimator))


def hyperparameters(estimator: Any) -> dict[str, str]:
    """The parameters of an estimator and of those inside it by name, as text; of a search those of
    the winner.

    What changes no result is left out (``n_jobs``, ``verbose`` and the like), seeds are not.

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> hyperparameters(KNeighborsClassifier(7))["n_neighbors"]
    '7'
    """
    if not hasattr(found := _searched(estimator), "get_params"):
        return {}
    parts = {
        name: value for name, value in found.get_params(deep=True).items() if not _is_part(value)
    }
    kept = {
        name: value for name, value in parts.items() if name.rpartition("__")[2] not in _INCIDENTAL
    }
    return {
        name: " ".join(repr(value).split()) if not isinstance(value, str) else value
        for name, value in kept.items()
    }


def dataset_name(X: Any, Y: Any, weights: Any = None) -> str:
    """Instances, labels (or classes) and a digest of a sample of both, such as ``569x6
    labels-1a2b3c4d``; with that of weights.

    >>> dataset_name(np.zeros((5, 3)), np.eye(5)) == dataset_name(np.zeros((5, 3)), np.eye(5))
    True
    """
    if is_vector(Y):
        size = f"{len(Y)}x{len(np.unique(classes_of(Y, 'Y')))} classes"
    else:
        size = "{}x{} labels".format(*(Y.shape if hasattr(Y, "shape") else np.shape(Y)))
    digest = sha256(repr(sample(X, Y, size=512)).encode())
    name = f"{size}-{digest.hexdigest()[:8]}"
    if weights is None:
        return name
    return f"{name} weights-{sha256(repr(sample(weights, size=512)).encode()).hexdigest()[:8]}"


def sample(*arrays: Any, size: int = 32) -> tuple[Any, ...]:
    """Shapes and some of the content: hashable, and cheap however large the arrays are.

    >>> sample(np.arange(6).reshape(2, 3)) == sample(np.arange(6).reshape(2, 3))
    True
    """
    return tuple(
        (getattr(array, "shape", None) or len(array), _some_of(array, size)) for array in arrays
    )


def _some_of(array: Any, size: int) -> bytes:
    if sparse.issparse(array):
        array = np.asarray(array.tocsr().data)  # its stored values, enough with the shape
        size = size**2
    n_rows = array.shape[0] if hasattr(array, "shape") else len(array)
    rows = slice(None, None, max(1, n_rows // size))
    columns = (
        slice(None, None, max(1, array.shape[1] // size))
        if np.ndim(array) == 2 and hasattr(array, "shape")
        else None
    )
    if isinstance(array, (pd.DataFrame, pd.Series)):
        part = array.iloc[rows] if columns is None else array.iloc[rows, columns]
        part = part.to_numpy()
    else:
        part = array[rows] if columns is None else array[rows, columns]
    if isinstance(part, np.ndarray) and part.dtype.kind in "buif":
        return part.astype(float).tobytes()  # one content, whatever it is kept in
    return repr(part.tolist() if isinstance(part, np.ndarray) else part).encode()


def _searched(estimator: Any) -> Any:
    """What a search tries, with the winner's parameters once it is known; anything else is
    itself.
    """
    if not hasattr(estimator, "get_params"):
        return estimator
    inner = getattr(estimator, "estimator", None)
    if inner is not None and (
        hasattr(estimator, "param_grid") or hasattr(estimator, "param_distributions")
    ):
        return getattr(estimator, "best_estimator_", inner)
    return estimator


def _short(value: Any, Y: Any) -> str:
    """Classes only, wrappers by their usual names."""
    value = _searched(value)
    if hasattr(value, "steps"):
        return " + ".join(
            _short(step, Y) for _, step in value.steps if step not in (None, "passthrough")
        )
    name = type(value).__name__
    if name == "OneVsRestClassifier" and Y is not None and is_vector(Y):
        name = "OvR"
    name = _WRAPPERS.get(name, name)
    if not hasattr(value, "get_params"):
        return name
    parts = (
        own
        for own in value.get_params(deep=False).values()
        if hasattr(own, "get_params") and not isinstance(own, type)
    )
    inner = [_short(own, Y) for own in parts]
    return name + (f"({', '.join(inner)})" if inner else "")


def _is_part(value: Any) -> bool:
    """Whether a parameter holds other estimators, whose own parameters are told."""
    if hasattr(value, "get_params") or isinstance(value, type):
        return True
    pairs = (v for v in value if isinstance(v, tuple)) if isinstance(value, (list, tuple)) else ()
    return any(hasattr(part, "get_params") for pair in pairs for part in pair)


def _cut(name: str) -> str:
    return (
        name
        if len(name) <= _LONGEST
        else f"{name[: _LONGEST - 10]}… {sha256(name.encode()).hexdigest()[:8]}"
    )


def _described(value: Any) -> str:
    if hasattr(value, "steps"):
        return " + ".join(
            _described(step) for _, step in value.steps if step not in (None, "passthrough")
        )
    if not hasattr(value, "get_params") or isinstance(value, type):
        return " ".join(repr(value).split())
    defaults = {
        name: p.default for name, p in inspect.signature(type(value).__init__).parameters.items()
    }
    parts = []
    for name, own in value.get_params(deep=False).items():
        if name in _INCIDENTAL | _SEEDS or _same(own, defaults.get(name, inspect.Parameter.empty)):
            continue
        parts.append(_described(own) if hasattr(own, "get_params") else f"{name}={_described(own)}")
    return type(value).__name__ + (f"({', '.join(parts)})" if parts else "")


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and repr(a) == repr(b))
