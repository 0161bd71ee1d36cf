"""`mleval compare --over folds` and `--over instances`: per dataset, what the folds or the instances say."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from mlflow_mleval.cli.output import excluded_in_flags, provenance, say, width, write
from mlflow_mleval.errors import MlevalError

#: Options of `mleval compare` that only tests over datasets heed, and those that only tests over folds do.
OVER_DATASETS = (
    "on", "control", "test", "correction", "ties", "rope", "preference", "weights", "p", "q", "s", "drop_constant",
)
OVER_FOLDS = ("protocol", "ratio", "unpaired")


def compare_over(
    what: str, selection: dict[str, Any], choices: dict[str, Any], format: str, filename: str | None, quiet: bool
) -> bool:
    """Test, write, and say whether any pair is separated.

    Parameters
    ----------
    what : {"folds", "instances"}
    selection : dict
        The arguments of `load_study`.
    choices : dict
        All options of the command.
    format, filename, quiet
        Where the result goes, and in which format.
    """
    source = click.get_current_context().get_parameter_source
    unfit = [*OVER_DATASETS, *(OVER_FOLDS if what == "instances" else ())]
    if given := [f"--{name.replace('_', '-')}" for name in unfit if source(name) not in (None, ParameterSource.DEFAULT)]:
        raise click.UsageError(
            f"{', '.join(given)}: not for tests over {what}, which take their measures from --measure and correct for all pairs. "
            "`mleval report` applies --rope to folds, too."
        )
    return (_folds if what == "folds" else _instances)(selection, choices, format, filename, quiet)


def _folds(selection: dict[str, Any], choices: dict[str, Any], format: str, filename: str | None, quiet: bool) -> bool:
    from mlflow_mleval.analysis.comparison import compare_all_folds
    from mlflow_mleval.report.over_folds import render_folds
    from mlflow_mleval.study import left_out
    from mlflow_mleval.tracking.counts import load_folds

    say("reading runs …", quiet)
    study = excluded_in_flags(load_folds(**selection))
    if study.folds is None:
        raise MlevalError("no selected run holds values by fold. Log them with folds, or test over datasets.")
    absent: dict[str, str] = {}
    options = {key: choices[key] for key in ("alpha", "protocol", "ratio", "dependent")}
    found = compare_all_folds(study, absent, measures=selection["measures"], paired=not choices["unpaired"], **options)
    absent = {key.removeprefix("folds."): reason for key, reason in absent.items()}
    if not found:
        raise MlevalError(" ".join(f"{dataset}: {reason}" for dataset, reason in absent.items()))
    origin = provenance(study.source, list(study.runs["run_id"]), options)
    notes = [*study.notes, *left_out(study.excluded)]
    write(render_folds(found, absent, notes, origin, format, width()), filename, quiet)
    return any(f.pairs["significant"].any() for f in found.values())


def _instances(selection: dict[str, Any], choices: dict[str, Any], format: str, filename: str | None, quiet: bool) -> bool:
    from mlflow_mleval.analysis.instance_tests import instance_tests
    from mlflow_mleval.report.over_instances import render_instances
    from mlflow_mleval.study import left_out
    from mlflow_mleval.tracking.instance_tables import instances_of
    from mlflow_mleval.tracking.query import load_study

    say("reading runs …", quiet)
    wanted = selection.pop("measures")
    study = excluded_in_flags(load_study(**selection))
    drawn = {"seed": choices["seed"]} | ({} if choices["swaps"] is None else {"n_draws": choices["swaps"]})
    found, absent, notes = {}, {}, [*study.notes, *left_out(e for e in study.excluded if e.kind != "measure")]
    for dataset in study.datasets:
        say(f"testing over the instances of {dataset} …", quiet)
        try:
            with instances_of(study, dataset, wanted) as known:
                found[dataset] = instance_tests(known.sources, known.measures, **drawn, alpha=choices["alpha"],
                                                minimize=selection["minimize"], maximize=selection["maximize"])  # fmt: skip
                notes += known.notes
        except (MlevalError, ValueError) as error:
            absent[dataset] = str(error)
    if not found:
        raise MlevalError(" ".join(f"{dataset}: {reason}" for dataset, reason in absent.items()))
    origin = provenance(study.source, list(study.runs["run_id"]), drawn)
    write(render_instances(found, absent, notes, origin, format, width()), filename, quiet)
    return any(t.pairs["significant"].any() for t in found.values())
