"""Losses that are aware of the dependence of labels, and the predictions that minimise them."""

import mlflow_mleval
from mlflow_mleval.words import lazily

NAMES = (
    "Capacity",
    "NearestNeighbourMinimiser",
    "Profile",
    "bayes_optimal",
    "binomial_loss",
    "choquet_loss",
    "loss_profile",
    "owa_loss",
    "polynomial_loss",
)
__all__ = list(NAMES)
__getattr__, __dir__ = lazily(__name__, NAMES, lambda name: getattr(mlflow_mleval, name))
