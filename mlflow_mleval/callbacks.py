"""Callbacks that log how a model develops while it is trained, by framework: ``mleval.callbacks.keras(X_val, Y_val, ...)``.

Each framework is imported when its callback is first asked for.
"""

from importlib import import_module
from typing import Any

#: Framework -> the class of its callback.
CALLBACKS = {"keras": "KerasCallback", "lightning": "LightningCallback", "xgboost": "XGBoostCallback"}
__all__ = list(CALLBACKS)


def __getattr__(name: str) -> Any:
    if name not in CALLBACKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(CALLBACKS)}")
    return getattr(import_module(f"mlflow_mleval.training.callbacks.{name}"), CALLBACKS[name])


def __dir__() -> list[str]:
    return sorted({*globals(), *CALLBACKS})
