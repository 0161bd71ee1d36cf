"""Which of my tracked multi-label or hierarchical runs is really better, on what, and am I sure?

>>> import mlflow_mleval as mleval
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> module (itself, where that has the name). Loaded on first use, so that importing the package costs nothing.
_PUBLIC = {
    "compare": "analysis.comparison",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "evaluate_batches": "evaluation",
    "evaluate_hierarchical": "evaluation",
    "merge": "evaluation",
    "calibrate_threshold": "measures.thresholds",
    "Study": "study",
    "import_results": "tracking.importing",
    "with_counts": "tracking.counts",
    "load_profiles": "tracking.read_profiles",
    "load_study": "tracking.query",
    "log_evaluation": "training.log_evaluation",
    "log_profile": "training.log_profile",
    "autolog": "training.autolog",
    "callbacks": "callbacks",
    "cross_validate": "training.cross_validation",
    "log_search": "training.search",
    "scoring": "training.search",
    "surrogate_study": "surrogate.surrogate_study",
    "load_surrogate_study": "surrogate.surrogate_study",
    "SurrogateStudy": "surrogate.surrogate_study",
    "compare_profiles": "analysis.profile_comparison",
    "Profiles": "analysis.loss_profiles",
    "profiles_of": "tracking.read_profiles",
    "promethee": "analysis.promethee",
    "MlevalError": "errors",
    "friedman": "analysis.ranks",
    "nemenyi": "analysis.posthoc.nemenyi",
    "compare_folds": "analysis.folds.fold_comparison",
    "hotelling": "analysis.folds.hotelling",
    "hotelling_pairs": "analysis.folds.hotelling",
    "manova": "analysis.folds.manova",
    "mardia": "analysis.folds.mardia",
    "wilcoxon_pairs": "analysis.posthoc.wilcoxon",
    "bayesian_signed_rank": "analysis.bayes",
    "bayesian_t": "analysis.bayes",
    "equivalence": "analysis.planning",
    "plan": "analysis.planning",
    "bootstrap_ranks": "analysis.resampling",
    "rank_confidence": "analysis.resampling",
    "instance_tests": "analysis.instance_tests",
    "sign_test": "analysis.instance_tests",
    "Hierarchy": "measures.hierarchy",
    "Capacity": "measures.capacities",
    "choquet_loss": "measures.capacities",
    "Profile": "measures.dependence",
    "binomial_loss": "measures.dependence",
    "loss_profile": "measures.dependence",
    "owa_loss": "measures.dependence",
    "polynomial_loss": "measures.dependence",
    "NearestNeighbourMinimiser": "measures.minimisers",
    "bayes_optimal": "measures.minimisers",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_PUBLIC[name]}")
    value = module if name == _PUBLIC[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
