"""Which of my tracked runs is really better, on what, and am I sure?

>>> import mlflow_mleval as mleval
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mlflow_mleval import losses, package, stats
from mlflow_mleval.package import __version__

#: Public name -> module (itself, where that has the name). Loaded on first use, so that importing
#: the package costs nothing.
_PUBLIC = {
    "compare": "analysis.comparison",
    "compare_folds": "analysis.fold_comparison",
    "compare_profiles": "analysis.loss_profiles",
    "promethee": "analysis.promethee",
    "fuse": "analysis.fusion",
    "redundancy": "analysis.fusion",
    "instance_tests": "analysis.pairs_by_unit",
    "hierarchical_t": "analysis.hierarchical_t",
    "gate": "gates",
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
    "calibrate_threshold": "measures.inputs",
    "log_evaluation": "training.log_evaluation",
    "log_profile": "training.log_evaluation",
    "autolog": "training.autolog",
    "callbacks": "callbacks",
    "genai": "genai",
    "cross_validate": "training.cross_validation",
    "log_search": "training.cross_validation",
    "scoring": "training.cross_validation",
    "stats": "stats",
    "losses": "losses",
    "MlevalError": "errors",
}
#: Names that go on working, though they are told nowhere; those of `stats` and `losses` do, too.
_ALSO = {
    "with_counts": "store.study_artifacts",
    "Profiles": "analysis.loss_profiles",
    "profiles_of": "store.study_artifacts",
    "spark_instances": "files.evaluate_spark",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


_WHERE = {**stats.WHERE, **losses.WHERE, **_ALSO, **_PUBLIC}  #: all that can be asked for


# Results stand below the reports of them; only here, above all layers, do the two meet.
package.makers.report = "report.content:document_of"
package.makers.detail = "report.content.study_report:detail_document"
package.makers.plot = "report.displays:plot"


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    is_module = name == where
    value = import_module(f"{__name__}.{where}") if is_module else package.imported(where, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
