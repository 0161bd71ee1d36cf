"""The command `mleval`: flags to calls, no arithmetic. Everything heavy is imported inside the commands."""

from __future__ import annotations

import os
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import click

from mlflow_mleval import __version__
from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.evaluate import evaluate
from mlflow_mleval.cli.output import excluded_in_flags, one_line_errors, progress, provenance, say, width, write
from mlflow_mleval.cli.profile import profile

SELECTION = ("experiment_ids", "experiment_names", "run_ids", "filter_string", "method_by", "dataset_by", "folds_by",
             "methods", "exclude_methods", "datasets", "exclude_datasets", "duplicates")
MEASURES = ("measures", "exclude_measures", "minimize", "maximize", "missing")
FUSION = ("preference", "weights", "p", "q", "s", "drop_constant")
TESTS = ("on", "alpha", "test", "correction", "ties", "control")
DEPTH = ("threshold", "n_draws", "seed", "rope")
GATE = 3
#: Differences that do not matter where a report is not told.
ROPE = 0.01


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="mleval")
def main() -> None:
    """Which of my tracked runs is really better, on what, and am I sure?

    Reads runs from the MLflow store that MLFLOW_TRACKING_URI names (default: sqlite:///mlflow.db in this folder).

    \b
    mleval demo                                    try it on a published study
    mleval import results.csv -n mystudy           put results into the store
    mleval rank -n mystudy --missing worst         fuse the measures into one ranking
    mleval report -n mystudy --missing worst       write the whole report
    """


main.add_command(evaluate)
main.add_command(profile)


@main.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("-n", "--experiment-name", metavar="NAME", help="Experiment to write to. Default: the file's name without suffix.")
@click.option("--conventions", metavar="NAME", default="unknown", show_default=True,
              help="Conventions for empty sets and ties under which the values were computed: sklearn, mulan, unknown.")
@click.option("-q", "--quiet", is_flag=True, help="No messages on stderr.")
@one_line_errors
def import_(file: str, experiment_name: str | None, conventions: str, quiet: bool) -> None:
    """Put a file of results into the store: one run per method and dataset.

    FILE is CSV or parquet, in long form (measure, dataset, method, value, and fold where there are folds) or wide (dataset,
    method, one column a measure). An empty value is a method that did not finish. Importing a file again changes nothing;
    a changed file updates the runs and says what changed.

    \b
    Example:  mleval import results.csv -n mystudy
    """
    click.echo(_import(Path(file), experiment_name or Path(file).stem, conventions, quiet))


@main.command()
@opt.selection
@opt.measures
@opt.output
@one_line_errors
def runs(format: str | None, filename: str | None, quiet: bool, **choices: Any) -> None:
    """Show what a selection of runs holds: methods, datasets, folds, gaps, conventions, and what is left out.

    \b
    Example:  mleval runs -n mystudy
    """
    from mlflow_mleval.report.listings import render_runs

    chosen = opt.chosen_format(format, filename)
    study = _study(choices, quiet)
    write(render_runs(study, chosen, width()), filename, quiet)


@main.command()
@opt.output
@one_line_errors
def measures(format: str | None, filename: str | None, quiet: bool) -> None:
    """List the measures that are known, with direction, range and source, and the named sets.

    \b
    Example:  mleval measures --output csv
    """
    from mlflow_mleval.report.listings import render_measures

    write(render_measures(opt.chosen_format(format, filename), width()), filename, quiet)


@main.command()
@opt.selection
@opt.measures
@opt.fusion
@opt.tests
@opt.output
@one_line_errors
def rank(format: str | None, filename: str | None, quiet: bool, require_significant: bool, **choices: Any) -> None:
    """Fuse the measures into one PROMETHEE ranking per dataset and over all datasets.

    \b
    Example:  mleval rank -n mystudy --missing worst --preference usual --output json
    """
    chosen = opt.chosen_format(format, filename)
    comparison = _compare(choices, quiet)
    _render(comparison, "ranking", chosen, filename, quiet)
    _gate(comparison.separated, require_significant)


@main.command()
@opt.selection
@opt.measures
@opt.fusion
@opt.tests
@opt.over
@opt.folds
@opt.dependent
@opt.rope
@opt.draws
@opt.output
@one_line_errors
def compare(
    over: str, format: str | None, filename: str | None, quiet: bool, require_significant: bool, **choices: Any
) -> None:
    """Test which methods really differ, pair by pair: over the datasets, over the folds of each, or over test instances.

    Over datasets it says first whether the design can reject anything at all, and what it would need. Over folds, the measures
    that --measure names are tested together (also tp, fp, fn, tn and the rates tpr, fpr, tnr, fnr): they must be fewer than the
    folds.

    \b
    Examples: mleval compare -n mystudy --missing worst --on macro_f1
              mleval compare -n mystudy --over folds -m tpr -m fpr --dataset yeast
    """
    chosen = opt.chosen_format(format, filename)
    if over != "instances" and choices["swaps"] is not None:
        raise click.UsageError("--draws is for tests over instances. Add --over instances.")
    if over != "folds" and choices["dependent"] != "error":
        raise click.UsageError("--dependent is for tests over folds. Add --over folds.")
    if over != "datasets":
        from mlflow_mleval.cli.over import compare_over

        pick = opt.selected({key: choices[key] for key in (*SELECTION, *MEASURES)})
        separated = compare_over(over, pick, choices, chosen, filename, quiet)
        return _gate(separated, require_significant)
    comparison = _compare(choices, quiet)
    _render(comparison, "pairs", chosen, filename, quiet)
    _gate(comparison.separated, require_significant)


@main.command()
@opt.selection
@opt.measures
@opt.fusion
@opt.tests
@opt.folds
@opt.rope
@opt.depth
@click.option("--log", is_flag=True, help="Store the report as a run in MLflow too, so that others find it in the UI.")
@opt.output
@one_line_errors
def report(format: str | None, filename: str | None, quiet: bool, log: bool, require_significant: bool, **choices: Any) -> None:
    """Write the whole report: the answer in words, ranking, tests, stability, doubts, and what reproduces it.

    Without -o and --output it writes mleval_report.html, and the data as CSV and JSON into mleval_report_data/ beside it.

    \b
    Examples: mleval report -n mystudy --missing worst
              mleval report -n mystudy --missing worst --log -o study.html
              mleval report -n mystudy --missing worst --output latex
    """
    if filename is None and format is None:
        filename = "mleval_report.html"
    chosen = opt.chosen_format(format, filename)
    comparison = _compare(choices | {"rope": ROPE if choices["rope"] is None else choices["rope"]}, quiet, stability=True)
    _render(comparison, "report", chosen, filename, quiet, log=log)
    _gate(comparison.separated, require_significant)


@main.command()
@click.option("-q", "--quiet", is_flag=True, help="No messages on stderr.")
@one_line_errors
def demo(quiet: bool) -> None:
    """Import a published study (12 methods, 11 datasets, 18 measures), rank it, test it and write the report.

    Writes to sqlite:///mlflow.db in this folder, whatever MLFLOW_TRACKING_URI says, and mleval_report.html beside it.
    """
    os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///mlflow.db"
    name = "madjarov2012"
    with as_file(files("mlflow_mleval") / "data" / f"{name}.csv") as path:
        click.echo(_import(path, name, "mulan", quiet))
    comparison = _compare({"experiment_names": (name,), "missing": "worst", "rope": ROPE}, quiet, stability=True)
    _render(comparison, "report", "html", "mleval_report.html", quiet, log=True)
    click.echo()
    _render(comparison, "ranking", "table", None, quiet)
    click.echo(
        "\nThe report is in mleval_report.html, its data in mleval_report_data/, and both in MLflow.\n\nNext:\n"
        "  mlflow server                                     look at the runs and the report in MLflow's UI\n"
        f"  mleval compare -n {name} --missing worst    who really differs from whom\n"
        f"  mleval runs -n {name}                       what the store holds\n"
        "  mleval import YOUR.csv -n yours                   the same with your own results"
    )


def _import(path: Path, experiment_name: str, conventions: str, quiet: bool) -> str:
    """Import, and say what was done in lines that are safe for a terminal."""
    from mlflow_mleval.report.escape import terminal
    from mlflow_mleval.tracking.importing import import_results

    with progress("importing", quiet) as step:
        done = import_results(path, experiment_name=experiment_name, conventions=conventions, progress=step)
    return "\n".join(map(terminal, done.summary().splitlines()))


def _study(choices: dict[str, Any], quiet: bool) -> Any:
    from mlflow_mleval.tracking.query import load_study

    say("reading runs …", quiet)
    return excluded_in_flags(load_study(**opt.selected({key: choices[key] for key in (*SELECTION, *MEASURES) if key in choices})))


def _compare(choices: dict[str, Any], quiet: bool, stability: bool = False) -> Any:
    from mlflow_mleval.analysis.comparison import compare as run

    study = _study(choices, quiet)
    say(f"comparing {len(study.methods)} methods on {len(study.datasets)} datasets by {len(study.measures)} measures …", quiet)
    picked = {key: choices[key] for key in (*FUSION, *TESTS, *DEPTH) if key in choices}
    for name, default in (("preference", "v_shape"), ("weights", 1.0)):
        if isinstance(picked.get(name), dict):
            picked[name] = dict.fromkeys(study.measures, default) | picked[name]
    folds = {"protocol": choices.get("protocol"), "ratio": choices.get("ratio"), "paired": not choices.get("unpaired", False)}
    profiles = _profiles(study) if stability else None
    return run(study, **picked, stability=stability, over_folds=folds, profiles=profiles)


def _profiles(study: Any) -> Any:
    """The loss profiles that the runs of the study carry; None where they carry none."""
    from mlflow_mleval.errors import NoRunsError
    from mlflow_mleval.tracking.read_profiles import profiles_of

    try:
        return profiles_of(study)
    except NoRunsError:
        return None


def _render(comparison: Any, what: str, format: str, filename: str | None, quiet: bool, log: bool = False) -> None:
    from mlflow_mleval.report.bundle import data_files, render

    origin = provenance(comparison.study.source, list(comparison.study.runs["run_id"]), comparison.options)
    text = render(comparison, origin, what=what, format=format, width=width())
    write(text, filename, quiet)
    if what != "report" or (format != "html" and not log):
        return
    data = data_files(comparison, origin)
    if format == "html" and filename not in (None, "-"):
        folder = Path(filename).with_name(Path(filename).stem + "_data")
        folder.mkdir(exist_ok=True)
        for name, content in data.items():
            write(content, str(folder / name), quiet=True)
    if log:
        from mlflow_mleval.tracking.reports import log_comparison

        page = text if format == "html" else render(comparison, origin, what=what, format="html")
        summary = render(comparison, origin, what=what, format="md")
        run_id = log_comparison(page, summary, data, comparison)
        say(f"logged as run {run_id}", quiet)


def _gate(separated: Any, wanted: bool) -> None:
    if wanted and not separated:
        click.echo("no pair of methods is separated", err=True)
        raise SystemExit(GATE)
