"""The tests by themselves: tables in, results out, as in scipy.stats."""

import mlflow_mleval
from mlflow_mleval.words import lazily

NAMES = (
    "bayesian_signed_rank",
    "bayesian_t",
    "betting",
    "bonferroni_dunn",
    "bootstrap_ranks",
    "equivalence",
    "five_by_two",
    "friedman",
    "hierarchical_t",
    "hotelling",
    "hotelling_pairs",
    "instance_tests",
    "manova",
    "mardia",
    "max_t",
    "measure_intervals",
    "nemenyi",
    "plan",
    "power_curve",
    "rank_confidence",
    "repeat_tests",
    "sign_test",
    "skillings_mack",
    "wilcoxon_pairs",
)
__all__ = list(NAMES)
__getattr__, __dir__ = lazily(__name__, NAMES, lambda name: getattr(mlflow_mleval, name))
