"""`mleval compare --over`: which options tests over datasets, folds, instances and repeats heed,
and the latter three.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from mlflow_mleval.assembling import tested_instances
from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.command import arguments, excluded_in_flags, flags, in_flags
from mlflow_mleval.cli.output import provenance, say, width, write
from mlflow_mleval.cli.over_answers import holds_answers, run_answers
from mlflow_mleval.errors import MissingResultsError, MlevalError

#: What all tests heed, and what those over each do beside.
ALWAYS = (*opt.selection, opt.folds_by, *opt.measures, opt.level)
HEEDED = {
    "datasets": (
        opt.missing,
        *opt.fusion,
        *opt.tests,
        *opt.protocol,
        opt.pairing,
        opt.rope,
        opt.seed,
        opt.anytime,
    ),
    "folds": (*opt.protocol, opt.pairing, opt.dependent),
    "instances": (*opt.answers, opt.difference, opt.cluster, opt.swaps, opt.seed, opt.anytime),
    "repeats": (opt.by_seed, opt.swaps, opt.seed),
}


def heeded(over: str, choices: dict[str, Any]) -> dict[str, Any]:
    """The choices that tests over this heed; a usage error names what was typed and would go
    unheeded.
    """
    typed = flags(click.get_current_context(), typed=True)
    unfit: dict[str, list[str]] = {}
    for name, flag in typed.items():
        places = [
            place
            for place, options in HEEDED.items()
            if any(name == option.name for option in options)
        ]
        if places and over not in places:
            which = " or ".join(filter(None, [", ".join(places[:-1]), places[-1]]))
            unfit.setdefault(which, []).append(flag)
    if unfit:
        said = "; ".join(
            f"{', '.join(flags)}: only for tests over {places}" for places, flags in unfit.items()
        )
        folds = (
            " `mleval report` applies --rope to folds, too."
            if over == "folds" and "rope" in typed
            else ""
        )
        raise click.UsageError(f"{said}. Leave out what does not fit, or change --over.{folds}")
    if "dependent" in typed and choices["dependent"] == "error" and not choices["measures"]:
        raise click.UsageError(
            "--dependent error: only for measures that --measure names. Leave it out, or name some."
        )
    return arguments(choices, *ALWAYS, *HEEDED[over])


def run_over(
    over: str, choices: dict[str, Any], format: str, filename: str | None, quiet: bool
) -> bool:
    """Test over the folds, instances or repeats of each dataset, write, and say whether any pair is
    separated.
    """
    from mlflow_mleval.measures.registry import expand
    from mlflow_mleval.report.content.folds import folds_document
    from mlflow_mleval.report.content.instances import instances_document
    from mlflow_mleval.report.content.repeat_tests_sections import repeats_document
    from mlflow_mleval.study import left_out

    say("reading runs …", quiet)
    selection = arguments(choices, *opt.selection, opt.folds_by, *opt.measures)
    named, excluded = (
        expand(selection.pop("measures", ())),
        expand(choices.get("exclude_measures", ())),
    )
    wanted = [m for m in named if m not in excluded] or None
    if named and not wanted:
        raise MlevalError("no measure is left after the exclusions. Keep at least one.")
    unanswered: MlevalError | None = None
    if over == "instances" and holds_answers(choices):
        try:
            return run_answers(choices, wanted, format, filename, quiet)
        except MissingResultsError as error:  # runs that only claim to hold answers hide no others
            if any(arguments(choices, *opt.answers).values()):
                raise
            unanswered = error
    if choices.get("difference") is not None:
        raise click.UsageError(
            "--difference: only for answers, such as those of mlflow.genai.evaluate. Leave it out."
        )
    test, document = {
        "folds": (_folds, folds_document),
        "instances": (_instances, instances_document),
        "repeats": (_repeats, repeats_document),
    }[over]
    options = arguments(
        choices, opt.level, *(o for o in HEEDED[over] if o not in (*opt.answers, opt.difference))
    )
    try:
        study, found, absent, notes = test(selection, wanted, options, quiet)
    except MlevalError as error:
        raise unanswered or error from None
    study = excluded_in_flags(study)
    absent = {dataset: in_flags(reason) for dataset, reason in absent.items()}
    if not found:
        why = " ".join(f"{dataset}: {reason}" for dataset, reason in absent.items())
        raise unanswered or MlevalError(why)
    notes += [f"Answers were not compared: {unanswered}"] * bool(unanswered)
    origin = provenance(study.source, list(study.runs["run_id"]), options)
    gone = left_out(e for e in study.excluded if over != "instances" or e.kind != "measure")
    write(
        document(found, absent, [*study.notes, *gone, *notes], origin).render(format, width()),
        filename,
        quiet,
    )
    return any(tests.pairs["significant"].any() for tests in found.values())


def _folds(
    selection: dict[str, Any], wanted: list[str] | None, options: dict[str, Any], quiet: bool
) -> tuple[Any, ...]:
    from mlflow_mleval.analysis.datasets_and_folds import compare_all_folds
    from mlflow_mleval.tracking.counts import load_folds

    study = load_folds(measures=wanted, **selection)
    if study.folds is None:
        raise MlevalError(
            "no selected run holds values by fold. Log them with folds, or test over datasets."
        )
    absent: dict[str, str] = {}
    found = compare_all_folds(study, absent, measures=wanted, **options)
    return study, found, {key.removeprefix("folds."): reason for key, reason in absent.items()}, []


def _instances(
    selection: dict[str, Any], wanted: list[str] | None, options: dict[str, Any], quiet: bool
) -> tuple[Any, ...]:
    from mlflow_mleval.tracking.query import load_study

    study = load_study(**selection)
    options |= {way: selection.get(way, ()) for way in ("minimize", "maximize")}
    return study, *tested_instances(study, wanted, partial(say, quiet=quiet), **options)


def _repeats(
    selection: dict[str, Any], wanted: list[str] | None, options: dict[str, Any], quiet: bool
) -> tuple[Any, ...]:
    from mlflow_mleval.analysis.repeat_tests import compare_all_repeats
    from mlflow_mleval.tracking.query import load_study

    study = load_study(measures=wanted, **selection)
    absent: dict[str, str] = {}
    return study, compare_all_repeats(study, absent, **options), absent, []
