"""Sections as one self-contained HTML page: nothing fetched, nothing that navigates, names of strangers as text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mlflow_mleval import __version__
from mlflow_mleval.report.blocks import Section
from mlflow_mleval.report.escape import terminal


def render_page(title: str, about: str, sections: Sequence[Section], time: str) -> str:
    """The sections under a title and a line about them; the first three are open.

    Returns
    -------
    str
        One HTML document. It runs its script in a sandboxed frame too, fetches nothing and follows no link.
    """
    script = template_text("report.js")
    digest = base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode()
    return _environment().get_template("page.html.j2").render(
        title=title,
        about=about,
        sections=sections,
        footer=" · ".join(filter(None, [f"mlflow-mleval {__version__}", time])),
        generator=f"mlflow-mleval {__version__}",
        style=template_text("report.css"),
        script=script,
        script_hash=f"sha256-{digest}",
    )


@cache
def template_text(name: str) -> Markup:
    """A file beside the templates, such as the style sheet, as it is."""
    environment = _environment()
    return Markup(environment.loader.get_source(environment, name)[0])


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
