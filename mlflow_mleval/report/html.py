"""The report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.report.page import render_page
from mlflow_mleval.report.sections import sections
from mlflow_mleval.report.sections.base import Report


def render_html(
    comparison: Comparison, provenance: Mapping[str, Any], verdict: Sequence[Any], doubts: Sequence[str], what: str = "report"
) -> str:
    """The whole report as a page, or what is about pairs alone.

    Parameters
    ----------
    comparison : Comparison
        What there is to tell; parts that were not computed are left out, or their absence is explained.
    provenance : mapping
        What reproduces it: command, versions, tracking_uri, experiments, filter, run_ids, seed, policy, time; any may lack.
    verdict : sequence of Sentence
        The answer in words: `text`, and `rests_on`, the key of the JSON report on which it rests.
    doubts : sequence of str
        What a reader must know before believing the verdict.
    what : {"report", "ranking", "pairs"}
        "pairs": only which methods differ.

    Returns
    -------
    str
        One HTML document. It runs its script in a sandboxed frame too, fetches nothing and follows no link.
    """
    report = Report(comparison, provenance, tuple(verdict), tuple(doubts))
    return render_page(report.title, report.about, sections(report, what), report.time)
