"""`mleval compare --over instances` of runs that hold answers: traces, tables of other evaluators,
logged tables.
"""

from __future__ import annotations

from typing import Any

import click

from mlflow_mleval.assembling import asked_answers
from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.command import arguments, in_flags
from mlflow_mleval.cli.output import progress, provenance, width, write
from mlflow_mleval.errors import MissingResultsError, MlevalError


def holds_answers(choices: dict[str, Any]) -> bool:
    """Whether the selection holds runs of other evaluators, or a table of theirs is named."""
    from mlflow_mleval.tracking.read_answers import any_answers

    named = arguments(choices, *opt.answers)
    chosen = arguments(choices, *opt.selection)
    where = {
        key: chosen[key]
        for key in ("experiment_ids", "experiment_names", "run_ids", "filter_string")
        if key in chosen
    }
    return any(named.values()) or any_answers(**where)


def run_answers(
    choices: dict[str, Any],
    wanted: list[str] | None,
    format: str,
    filename: str | None,
    quiet: bool,
) -> bool:
    """Compare, write, and say whether any pair is separated; MissingResultsError where there is
    nothing to compare.
    """
    from mlflow_mleval.analysis.answer_comparison import compare_answers
    from mlflow_mleval.report.content.answer_sections import answers_document
    from mlflow_mleval.tracking.read_answers import load_answers

    if choices.get("anytime"):
        raise click.UsageError(
            "--anytime: not for answers, of whose measures no bounds are known. Leave it out."
        )
    with progress("reading", quiet, unit="runs") as step:
        asked = load_answers(**asked_answers(choices), measures=wanted, progress=step)
    options = arguments(choices, opt.level, opt.cluster, opt.difference, opt.swaps, opt.seed)
    sides = {way: choices.get(way, ()) for way in ("minimize", "maximize")}
    found, absent = {}, {dataset: in_flags(reason) for dataset, reason in asked.absent.items()}
    for dataset, answers in asked.found.items():
        try:
            found[dataset] = compare_answers(answers, **sides, **options)
        except (MlevalError, ValueError) as error:
            absent[dataset] = in_flags(str(error))
    if not found:
        why = " ".join(f"{dataset}: {reason}" for dataset, reason in absent.items())
        raise MlevalError(why) if asked.found else MissingResultsError(why)
    origin = provenance(asked.source, list(asked.runs["run_id"]), options)
    write(
        answers_document(found, absent, asked.notes, origin).render(format, width()),
        filename,
        quiet,
    )
    return any(c.tests.pairs["significant"].any() for c in found.values())
