"""What results say, one module a topic: results in, sections of a document out, with their
sentences, tables and figures."""

from typing import Any

from mlflow_mleval.package import imported
from mlflow_mleval.report.blocks import Provenance
from mlflow_mleval.report.document import Document

#: Name of a result's class -> the module and its function that says it.
_DOCUMENTS = {
    "Comparison": ("study_report", "document"),
    "FoldComparison": ("units", "document"),
    "ProfileComparison": ("profiles", "document"),
    "InstanceTests": ("units", "document"),
    "RepeatTests": ("units", "document"),
    "AnswerComparison": ("units", "document"),
    "Study": ("listings", "document"),
    "Survey": ("listings", "survey_document"),
    "Evaluation": ("run", "document"),
    "RunReport": ("run", "document"),
    "Verdict": ("gate", "document"),
}


def document_of(result: Any, provenance: Provenance | None = None) -> Document:
    """What a result says, ready for every format; `provenance` is what reproduces it."""
    module, function = _DOCUMENTS[type(result).__name__]
    made = imported(f"report.content.{module}", function)
    return made(result, provenance or {})
