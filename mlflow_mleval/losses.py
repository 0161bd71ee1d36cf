"""Losses that are aware of the dependence of labels, and the predictions that minimise them."""

from mlflow_mleval.package import lazily

#: Name -> its module.
WHERE = {
    "Capacity": "measures.capacities",
    "NearestNeighbourMinimiser": "measures.capacities",
    "Profile": "measures.owa",
    "bayes_optimal": "measures.capacities",
    "binomial_loss": "measures.owa",
    "choquet_loss": "measures.capacities",
    "loss_profile": "measures.owa",
    "owa_loss": "measures.owa",
    "polynomial_loss": "measures.owa",
}
__all__ = list(WHERE)
__getattr__, __dir__ = lazily(__name__, WHERE)
