"""`mleval compare --over instances` of runs that hold answers: traces, tables of other evaluators, logged tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.command import arguments, in_flags
from mlflow_mleval.cli.output import progress, provenance, say, width, write
from mlflow_mleval.errors import MlevalError

#: Answers that a report reads, of all runs together; `mleval compare --over instances` reads any number.
MOST_ANSWERS = 50_000
#: How MLflow marks the metric that is the mean of a scorer's values.
MEAN = "/mean"


def holds_answers(choices: dict[str, Any]) -> bool:
    """Whether the selection holds runs of other evaluators, or a table of theirs is named."""
    from mlflow_mleval.tracking.read_answers import any_answers

    named = arguments(choices, *opt.answers)
    chosen = arguments(choices, *opt.selection)
    where = {key: chosen[key] for key in ("experiment_ids", "experiment_names", "run_ids", "filter_string") if key in chosen}
    return any(named.values()) or any_answers(**where)


def answers_of_report(choices: dict[str, Any], quiet: bool) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """By data set, what its answers say or why that is unknown; and metrics that are means of theirs, by their directions."""
    from mlflow_mleval.analysis.answer_comparison import answer_directions, compare_answers, directed
    from mlflow_mleval.errors import NoRunsError
    from mlflow_mleval.tracking.read_answers import load_answers

    try:
        with progress("reading answers", quiet, unit="runs") as step:
            asked = load_answers(**_asked(choices), most=MOST_ANSWERS, progress=step)
    except NoRunsError:  # no run holds any, or there are no runs at all, which others will say
        return {}, {}
    found: dict[str, Any] = {dataset: in_flags(why) for dataset, why in asked.absent.items()}
    told = {way: [m.removesuffix(MEAN) for m in choices.get(way, ())] for way in ("minimize", "maximize")}
    means: dict[str, list[str]] = {way: [] for way in told}
    options = arguments(choices, opt.level, opt.cluster, opt.seed)
    for dataset, answers in asked.found.items():
        try:
            answers = directed(answers, **told)
            answers = replace(answers, notes=tuple(map(in_flags, answers.notes)))
            for measure, side in answer_directions(answers, **told).items():
                if measure + MEAN in asked.metrics:
                    means[f"{side}imize"].append(measure + MEAN)
            say(f"comparing the answers on {dataset} …", quiet)
            found[dataset] = compare_answers(answers, **told, **options)
        except (MlevalError, ValueError) as error:
            found[dataset] = in_flags(str(error))
    return found, {way: [*dict.fromkeys(names)] for way, names in means.items()}


def run_answers(choices: dict[str, Any], wanted: list[str] | None, format: str, filename: str | None, quiet: bool) -> bool:
    """Compare, write, and say whether any pair is separated."""
    from mlflow_mleval.analysis.answer_comparison import compare_answers
    from mlflow_mleval.report.content.answer_sections import answers_document
    from mlflow_mleval.tracking.read_answers import load_answers

    if choices.get("anytime"):
        raise click.UsageError("--anytime: not for answers, of whose measures no bounds are known. Leave it out.")
    with progress("reading", quiet, unit="runs") as step:
        asked = load_answers(**_asked(choices), measures=wanted, progress=step)
    options = arguments(choices, opt.level, opt.cluster, opt.swaps, opt.seed)
    sides = {way: choices.get(way, ()) for way in ("minimize", "maximize")}
    found, absent = {}, {dataset: in_flags(reason) for dataset, reason in asked.absent.items()}
    for dataset, answers in asked.found.items():
        try:
            found[dataset] = compare_answers(answers, **sides, **options)
        except (MlevalError, ValueError) as error:
            absent[dataset] = in_flags(str(error))
    if not found:
        raise MlevalError(" ".join(f"{dataset}: {reason}" for dataset, reason in absent.items()))
    origin = provenance(asked.source, list(asked.runs["run_id"]), options)
    write(answers_document(found, absent, asked.notes, origin).render(format, width()), filename, quiet)
    return any(c.tests.pairs["significant"].any() for c in found.values())


def _asked(choices: dict[str, Any]) -> dict[str, Any]:
    """The selection, and how its answers are read."""
    chosen = arguments(choices, *opt.selection)
    taken = ("experiment_ids", "experiment_names", "run_ids", "filter_string", "method_by", "dataset_by", "datasets", "methods")
    how = arguments(choices, *opt.answers)
    how["grades"] = dict(_grades(text) for text in how.get("grades", ()))
    return {key: chosen[key] for key in taken if key in chosen} | how


def _grades(text: str) -> tuple[str, list[str]]:
    measure, _, grades = text.partition("=")
    listed = [grade.strip() for grade in grades.split(",") if grade.strip()]
    if not measure or len(listed) < 2 or len(set(listed)) < len(listed):
        raise click.UsageError(f"--grades: {text!r} is not MEASURE=WORST,…,BEST with two grades or more.")
    return measure, listed
