"""`mleval compare --over`: which options tests over datasets, folds and instances heed, and the tests over the latter two."""

from __future__ import annotations

from typing import Any

import click

from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.output import excluded_in_flags, in_flags, provenance, say, width, write
from mlflow_mleval.errors import MlevalError

#: What all tests heed, and what those over each do beside.
ALWAYS = (opt.selection, opt.folds_by, opt.measures, opt.level)
HEEDED = {
    "datasets": (opt.missing, opt.fusion, opt.tests, opt.protocol, opt.pairing, opt.rope, opt.seed),
    "folds": (opt.protocol, opt.pairing, opt.dependent),
    "instances": (opt.swaps, opt.seed),
}


def heeded(over: str, choices: dict[str, Any]) -> dict[str, Any]:
    """The choices that tests over this heed; a usage error names what was typed and would go unheeded."""
    typed = opt.flags(click.get_current_context(), typed=True)
    unfit: dict[str, list[str]] = {}
    for name, flag in typed.items():
        places = [place for place, groups in HEEDED.items() if any(name in group.names for group in groups)]
        if places and over not in places:
            unfit.setdefault(" or ".join(places), []).append(flag)
    if unfit:
        said = "; ".join(f"{', '.join(flags)}: only for tests over {places}" for places, flags in unfit.items())
        folds = " `mleval report` applies --rope to folds, too." if over == "folds" and "rope" in typed else ""
        raise click.UsageError(f"{said}. Leave out what does not fit, or change --over.{folds}")
    if over == "datasets" and "seed" in typed and choices["rope"] is None:
        raise click.UsageError("--seed: nothing is random here without --rope. Leave it out, or give --rope.")
    if "dependent" in typed and choices["dependent"] == "error" and not choices["measures"]:
        raise click.UsageError("--dependent error: only for measures that --measure names. Leave it out, or name some.")
    return opt.arguments(choices, *ALWAYS, *HEEDED[over])


def run_over_folds(choices: dict[str, Any], format: str, filename: str | None, quiet: bool) -> bool:
    """Test over the folds of each dataset, write, and say whether any pair is separated."""
    from mlflow_mleval.analysis.comparison import compare_all_folds
    from mlflow_mleval.report.content.folds import folds_document
    from mlflow_mleval.study import left_out
    from mlflow_mleval.tracking.counts import load_folds

    say("reading runs …", quiet)
    wanted = _wanted(choices)
    study = excluded_in_flags(load_folds(**_selection(choices) | {"measures": wanted}))
    if study.folds is None:
        raise MlevalError("no selected run holds values by fold. Log them with folds, or test over datasets.")
    absent: dict[str, str] = {}
    options = opt.arguments(choices, opt.level, *HEEDED["folds"])
    found = compare_all_folds(study, absent, measures=wanted, **options)
    absent = {key.removeprefix("folds."): in_flags(reason) for key, reason in absent.items()}
    if not found:
        raise MlevalError(" ".join(f"{dataset}: {reason}" for dataset, reason in absent.items()))
    origin = provenance(study.source, list(study.runs["run_id"]), options)
    notes = [*study.notes, *left_out(study.excluded)]
    write(folds_document(found, absent, notes, origin).render(format, width()), filename, quiet)
    return any(f.pairs["significant"].any() for f in found.values())


def run_over_instances(choices: dict[str, Any], format: str, filename: str | None, quiet: bool) -> bool:
    """Test over the instances of each dataset, write, and say whether any pair is separated."""
    from mlflow_mleval.analysis.instance_tests import instance_tests
    from mlflow_mleval.report.content.instances import instances_document
    from mlflow_mleval.study import left_out
    from mlflow_mleval.tracking.instance_tables import instances_of
    from mlflow_mleval.tracking.query import load_study

    say("reading runs …", quiet)
    wanted = _wanted(choices)
    selection = _selection(choices)
    study = excluded_in_flags(load_study(**selection))
    options = opt.arguments(choices, opt.level, *HEEDED["instances"])
    options |= {way: selection.get(way, ()) for way in ("minimize", "maximize")}
    found, absent, notes = {}, {}, [*study.notes, *left_out(e for e in study.excluded if e.kind != "measure")]
    for dataset in study.datasets:
        say(f"testing over the instances of {dataset} …", quiet)
        try:
            with instances_of(study, dataset, wanted) as known:
                found[dataset] = instance_tests(known.sources, known.measures, **options)
                notes += known.notes
        except (MlevalError, ValueError) as error:
            absent[dataset] = in_flags(str(error))
    if not found:
        raise MlevalError(" ".join(f"{dataset}: {reason}" for dataset, reason in absent.items()))
    origin = provenance(study.source, list(study.runs["run_id"]), options)
    write(instances_document(found, absent, notes, origin).render(format, width()), filename, quiet)
    return any(t.pairs["significant"].any() for t in found.values())


def _selection(choices: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `load_study`, but for the measures: folds and instances have others than runs have."""
    selection = opt.arguments(choices, opt.selection, opt.folds_by, opt.measures)
    return {name: value for name, value in selection.items() if name != "measures"}


def _wanted(choices: dict[str, Any]) -> list[str] | None:
    """The measures that were named, without those that were excluded; None where none were named."""
    from mlflow_mleval.measures.registry import expand

    if not choices.get("measures"):
        return None
    excluded = expand(choices.get("exclude_measures", ()))
    wanted = [m for m in expand(choices["measures"]) if m not in excluded]
    if not wanted:
        raise MlevalError("no measure is left after the exclusions. Keep at least one.")
    return wanted
