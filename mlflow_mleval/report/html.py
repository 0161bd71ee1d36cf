"""The report as one self-contained HTML page: nothing fetched, nothing that navigates, names of strangers as text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mlflow_mleval import __version__
from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.report.escape import terminal
from mlflow_mleval.report.sections import all_sections
from mlflow_mleval.report.sections.base import Report


def render_html(comparison: Comparison, provenance: Mapping[str, Any], verdict: Sequence[Any], doubts: Sequence[str]) -> str:
    """The whole report as a page.

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

    Returns
    -------
    str
        One HTML document. It runs its script in a sandboxed frame too, fetches nothing and follows no link.
    """
    report = Report(comparison, provenance, tuple(verdict), tuple(doubts))
    environment = _environment()
    source = environment.loader.get_source
    style, script = (Markup(source(environment, f"report.{kind}")[0]) for kind in ("css", "js"))
    digest = base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode()
    return environment.get_template("page.html.j2").render(
        title=report.title,
        about=report.about,
        sections=all_sections(report),
        footer=" · ".join(filter(None, [f"mlflow-mleval {__version__}", report.time])),
        generator=f"mlflow-mleval {__version__}",
        style=style,
        script=script,
        script_hash=f"sha256-{digest}",
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("mlflow_mleval.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_visible,
    )


def _visible(value: Any) -> Any:
    """What a template prints: markup of our own as it is, all else as text without control characters."""
    return value if hasattr(value, "__html__") else terminal(value)
