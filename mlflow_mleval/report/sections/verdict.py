"""The answer in words."""

from __future__ import annotations

from mlflow_mleval.report.blocks import Section, Text
from mlflow_mleval.report.sections.base import Report


def section(report: Report) -> Section:
    """The sentences of the verdict; the first stands larger."""
    return Section("verdict", "Verdict", [Text([report.prose(sentence.text) for sentence in report.verdict], role="lead")])
