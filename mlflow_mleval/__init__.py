"""Which of my tracked multi-label or hierarchical runs is really better, on what, and am I sure?

>>> import mlflow_mleval as mleval
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Public name -> module (itself, where that has the name). Loaded on first use, so that importing
#: the package costs nothing.
_PUBLIC = {
    "compare": "analysis.comparison",
    "compare_folds": "analysis.folds.fold_comparison",
    "compare_profiles": "analysis.profile_comparison",
    "promethee": "analysis.promethee",
    "fuse": "analysis.fusion",
    "redundancy": "analysis.redundancy",
    "instance_tests": "analysis.instance_tests",
    "hierarchical_t": "analysis.hierarchical_t",
    "plan": "analysis.planning",
    "Study": "study",
    "load_study": "tracking.query",
    "load_folds": "tracking.counts",
    "load_profiles": "tracking.read_profiles",
    "import_results": "tracking.importing",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "evaluate_batches": "batches",
    "evaluate_hierarchical": "evaluation",
    "evaluate_spark": "files.evaluate_spark",
    "merge": "batches",
    "Hierarchy": "measures.hierarchy",
    "calibrate_threshold": "measures.thresholds",
    "log_evaluation": "training.log_evaluation",
    "log_profile": "training.log_profile",
    "autolog": "training.autolog",
    "callbacks": "callbacks",
    "genai": "genai",
    "cross_validate": "training.cross_validation",
    "log_search": "training.search",
    "scoring": "training.search",
    "surrogate_study": "surrogate.surrogate_study",
    "load_surrogate_study": "surrogate.surrogate_study",
    "stats": "stats",
    "losses": "losses",
    "MlevalError": "errors",
}
#: Names that go on working, though they are told elsewhere: in `stats`, in `losses`, or not at all.
_ALSO = {
    "friedman": "analysis.ranks",
    "max_t": "analysis.posthoc.max_t",
    "betting": "analysis.posthoc.betting",
    "nemenyi": "analysis.posthoc.nemenyi",
    "bonferroni_dunn": "analysis.posthoc.bonferroni_dunn",
    "skillings_mack": "analysis.ranks",
    "wilcoxon_pairs": "analysis.posthoc.wilcoxon",
    "hotelling": "analysis.folds.hotelling",
    "hotelling_pairs": "analysis.folds.hotelling",
    "five_by_two": "analysis.folds.five_by_two",
    "manova": "analysis.folds.manova",
    "mardia": "analysis.folds.mardia",
    "repeat_tests": "analysis.repeat_tests",
    "sign_test": "analysis.instance_tests",
    "measure_intervals": "analysis.measure_intervals",
    "bayesian_signed_rank": "analysis.bayes",
    "bayesian_t": "analysis.bayes",
    "equivalence": "analysis.planning",
    "power_curve": "analysis.power_curve",
    "rank_confidence": "analysis.resampling",
    "bootstrap_ranks": "analysis.resampling",
    "Capacity": "measures.capacities",
    "Profile": "measures.dependence",
    "NearestNeighbourMinimiser": "measures.minimisers",
    "bayes_optimal": "measures.minimisers",
    "binomial_loss": "measures.dependence",
    "choquet_loss": "measures.capacities",
    "loss_profile": "measures.dependence",
    "owa_loss": "measures.dependence",
    "polynomial_loss": "measures.dependence",
    "with_counts": "tracking.counts",
    "SurrogateStudy": "surrogate.surrogate_study",
    "Profiles": "analysis.loss_profiles",
    "profiles_of": "tracking.read_profiles",
    "spark_instances": "files.evaluate_spark",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    where = _PUBLIC.get(name) or _ALSO.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{where}")
    value = module if name == where else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
