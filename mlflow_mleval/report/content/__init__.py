"""What results say, one module a topic: results in, sections of a document out, with their
sentences, tables and figures.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from mlflow_mleval.report.document import Document

#: Name of a result's class -> the module whose function `document(result, provenance)` says it.
_DOCUMENTS = {
    "Comparison": "study_report",
    "FoldComparison": "folds",
    "ProfileComparison": "profiles",
    "InstanceTests": "instances",
    "RepeatTests": "repeat_tests_sections",
    "AnswerComparison": "answer_sections",
    "Study": "listings",
    "Survey": "overview",
    "Evaluation": "run",
    "RunReport": "run",
}


def document_of(result: Any, provenance: Mapping[str, Any] | None = None) -> Document:
    """What a result says, ready for every format; `provenance` is what reproduces it."""
    module = import_module(f"{__name__}.{_DOCUMENTS[type(result).__name__]}")
    return module.document(result, provenance or {})
