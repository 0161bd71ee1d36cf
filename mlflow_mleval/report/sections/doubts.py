"""What a reader must know before believing the verdict."""

from __future__ import annotations

from mlflow_mleval.report.blocks import Section, Text
from mlflow_mleval.report.sections.base import Report


def section(report: Report) -> Section | None:
    """The doubts as a marked list; nothing where there are none."""
    if not report.doubts:
        return None
    return Section("doubts", "Doubts", [Text([report.prose(doubt) for doubt in report.doubts], role="points")])
