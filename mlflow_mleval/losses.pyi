# Written by tests/typed/make_stubs.py: what a type checker sees of names that load lazily.
from mlflow_mleval.measures.capacities import Capacity as Capacity
from mlflow_mleval.measures.capacities import NearestNeighbourMinimiser as NearestNeighbourMinimiser
from mlflow_mleval.measures.capacities import bayes_optimal as bayes_optimal
from mlflow_mleval.measures.capacities import choquet_loss as choquet_loss
from mlflow_mleval.measures.owa import Profile as Profile
from mlflow_mleval.measures.owa import binomial_loss as binomial_loss
from mlflow_mleval.measures.owa import loss_profile as loss_profile
from mlflow_mleval.measures.owa import owa_loss as owa_loss
from mlflow_mleval.measures.owa import polynomial_loss as polynomial_loss

__all__ = [
    "Capacity",
    "NearestNeighbourMinimiser",
    "Profile",
    "bayes_optimal",
    "binomial_loss",
    "choquet_loss",
    "loss_profile",
    "owa_loss",
    "polynomial_loss",
]
