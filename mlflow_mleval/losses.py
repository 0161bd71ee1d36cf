"""Losses that are aware of the dependence of labels, and the predictions that minimise them."""

from __future__ import annotations

from typing import Any

import mlflow_mleval

NAMES = (
    "Capacity", "NearestNeighbourMinimiser", "Profile", "bayes_optimal", "binomial_loss", "choquet_loss", "loss_profile",
    "owa_loss", "polynomial_loss",
)  # fmt: skip
__all__ = list(NAMES)


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(NAMES)}")
    return getattr(mlflow_mleval, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})
