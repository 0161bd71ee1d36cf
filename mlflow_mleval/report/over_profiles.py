"""`mleval profile` in each format; the reports take their parts about loss profiles from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mlflow_mleval.analysis.profile_comparison import ProfileComparison
from mlflow_mleval.report.blocks import Section, Text
from mlflow_mleval.report.data import SCHEMA_VERSION, plain, to_json
from mlflow_mleval.report.escape import markdown, wrap
from mlflow_mleval.report.latex import HEAD, made_from, profiles_latex
from mlflow_mleval.report.markdown import profiles_markdown
from mlflow_mleval.report.page import render_page
from mlflow_mleval.report.profiles_text import (
    KINDS,
    awareness_table,
    left_out,
    main_table,
    profiles_dict,
    sentences,
)
from mlflow_mleval.report.sections.base import marked
from mlflow_mleval.report.sections.profiles import profiles_section
from mlflow_mleval.report.tables import to_csv
from mlflow_mleval.report.terminal import grid
from mlflow_mleval.report.words import count, listed, origin

#: On a terminal: methods and pairs of the tables, pairs that are told of, notes.
METHODS, PAIRS, TOLD, NOTES = 15, 5, 2, 4


def render_profiles(found: ProfileComparison, provenance: Mapping[str, Any], format: str, width: int = 100) -> str:
    """The comparison of loss profiles in a format.

    Parameters
    ----------
    found : ProfileComparison
    provenance : mapping
        What reproduces it.
    format : {"table", "json", "csv", "md", "latex", "html"}
        csv has a row a dataset and pair: who is ahead at small parameters, and where the order changes.
    width : int
        Columns of the terminal.
    """
    if format == "csv":
        return to_csv(found.patterns)
    if format == "json":
        record = {"schema_version": SCHEMA_VERSION, "profiles": profiles_dict(found), "provenance": provenance}
        return to_json(plain(record))
    if format == "md":
        return "\n\n".join([*profiles_markdown(found, depth=1), "## Made from", markdown(origin(provenance))]) + "\n"
    if format == "latex":
        return "\n\n".join([HEAD, *profiles_latex(found), made_from(provenance)]) + "\n"
    if format == "html":
        methods = found.curves.index.get_level_values("method").unique()
        prose = marked({*methods, *found.datasets})
        title = f"Loss profiles of {count(len(methods), 'method')} on {count(len(found.datasets), 'dataset')}"
        sections = [profiles_section(found, prose), Section("provenance", "Made from", [Text([origin(provenance)])])]
        about = f"{KINDS[found.options['kind']]} · {found.options['family']} family · {listed(found.datasets)}"
        return render_page(title, about, sections, str(provenance.get("time") or ""))
    return _terminal(found, provenance, width)


def _terminal(found: ProfileComparison, provenance: Mapping[str, Any], width: int) -> str:
    parts = [[line for text in sentences(found, TOLD) for line in wrap("", text, width)]]
    methods = awareness_table(found, METHODS)
    rest = [f"… and {methods.left_out:,} more; --output json lists all"] if methods.left_out else []
    pairs = main_table(found, PAIRS)
    parts += [grid(pairs, width)] if pairs.total else []
    parts.append([*grid(replace(methods, total=len(methods.rows)), width), *rest])
    rest = [*found.warnings, *left_out(found, brief=True)]
    more = [f"and {len(rest) - NOTES} more, see --output md"] if len(rest) > NOTES else []
    notes = [line for text in [*rest[:NOTES], *more] for line in wrap("- ", text, width)]
    parts.append([*notes, *wrap("", origin(provenance), width)])
    return "\n\n".join("\n".join(lines).rstrip("\n") for lines in parts)
