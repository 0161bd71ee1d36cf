"""Which of my tracked multi-label or hierarchical runs is really better, on what, and am I sure?

>>> import mlflow_mleval as mleval
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mlflow_mleval import reported
from mlflow_mleval.version import __version__

#: Public name -> module (itself, where that has the name). Loaded on first use, so that importing
#: the package costs nothing.
_PUBLIC = {
    "compare": "analysis.comparison",
    "compare_folds": "analysis.folds.fold_comparison",
    "compare_profiles": "analysis.profile_comparison",
    "promethee": "analysis.promethee",
    "fuse": "analysis.fusion",
    "redundancy": "analysis.fusion",
    "instance_tests": "analysis.instance_tests",
    "hierarchical_t": "analysis.hierarchical_t",
    "plan": "analysis.planning",
    "Study": "study",
    "load_study": "store.query",
    "load_folds": "store.study_artifacts",
    "load_profiles": "store.study_artifacts",
    "import_results": "store.importing",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "evaluate_batches": "evaluation",
    "evaluate_hierarchical": "evaluation",
    "evaluate_spark": "files.evaluate_spark",
    "merge": "evaluation",
    "Hierarchy": "measures.hierarchy",
    "calibrate_threshold": "measures.flat",
    "log_evaluation": "training.log_evaluation",
    "log_profile": "training.log_evaluation",
    "autolog": "training.autolog",
    "callbacks": "callbacks",
    "genai": "genai",
    "cross_validate": "training.cross_validation",
    "log_search": "training.cross_validation",
    "scoring": "training.cross_validation",
    "surrogate_study": "surrogate",
    "load_surrogate_study": "surrogate",
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
    "bonferroni_dunn": "analysis.posthoc.nemenyi",
    "skillings_mack": "analysis.ranks",
    "wilcoxon_pairs": "analysis.posthoc.wilcoxon",
    "hotelling": "analysis.folds.hotelling",
    "hotelling_pairs": "analysis.folds.hotelling",
    "five_by_two": "analysis.folds.shared_folds",
    "manova": "analysis.folds.manova",
    "mardia": "analysis.folds.covariance",
    "repeat_tests": "analysis.repeat_tests",
    "sign_test": "analysis.instance_tests",
    "measure_intervals": "analysis.measure_intervals",
    "bayesian_signed_rank": "analysis.beyond_pvalues",
    "bayesian_t": "analysis.beyond_pvalues",
    "equivalence": "analysis.planning",
    "power_curve": "analysis.planning",
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
    "with_counts": "store.study_artifacts",
    "SurrogateStudy": "surrogate",
    "Profiles": "analysis.loss_profiles",
    "profiles_of": "store.study_artifacts",
    "spark_instances": "files.evaluate_spark",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def _report(result: Any, provenance: Any) -> Any:
    from mlflow_mleval.report.content import document_of

    return document_of(result, provenance)


def _detail(result: Any, *args: Any, **options: Any) -> Any:
    from mlflow_mleval.report.content.details import document

    return document(result, *args, **options)


# Results stand below the reports of them; only here, above all layers, do the two meet.
reported.register(report=_report, detail=_detail)


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
