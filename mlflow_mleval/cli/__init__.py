"""The command `mleval`: flags to calls, no arithmetic. What is heavy is imported inside."""

from __future__ import annotations

import codecs
import io
import os
import sys
from dataclasses import replace
from importlib.metadata import version
from importlib.resources import as_file, files
from itertools import chain
from pathlib import Path
from typing import Any

import click

from mlflow_mleval.assembling import comparison_of, read
from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.command import (
    TAKEN,
    Command,
    Option,
    Target,
    as_option,
    give,
    in_options,
    is_stream,
    joined,
    live_address,
    progress,
    provenance,
    say,
    tell,
    width,
    write_all,
)
from mlflow_mleval.cli.commands import evaluate, gate, heeded, profile, run_over
from mlflow_mleval.package import __version__
from mlflow_mleval.selection import Choices, Selection

#: By these endings a file is told from the id of a run.
_OF_FILES = (".csv", ".parquet", ".pq", ".json", ".jsonl")
#: What the tests of a study heed beside.
_TESTED = (*opt.fusion, *opt.tests, opt.level)
#: Where the help of `mleval` ends; the lines are not wrapped.
EPILOG = """\b
Completion in bash (or zsh_source, fish_source):
  eval "$(_MLEVAL_COMPLETE=bash_source mleval)"
"""
#: What stands for characters that a terminal lacks: a minus must not get lost.
_PLAIN = {
    **{"−": "-", "–": "-", "…": "...", "≤": "<=", "≥": ">=", "→": "->", "“": '"', "”": '"'},
    **{"φ": "phi", "α": "alpha", "↑": "^", "↓": "v"},
}


class _Program(click.Group):
    def main(self, *args: Any, **options: Any) -> Any:
        """What goes into a file or a pipe is UTF-8, as files are that are named; a terminal that
        lacks a character shows another, and the answer does not end there.
        """

        def plainer(error: UnicodeError) -> tuple[str, int]:
            assert isinstance(error, UnicodeEncodeError)
            text = error.object[error.start : error.end]
            return "".join(_PLAIN.get(character, "?") for character in text), error.end

        codecs.register_error("plainer", plainer)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # closed ones are None
                if not (stream.isatty() or "PYTHONIOENCODING" in os.environ):
                    stream.reconfigure(encoding="utf-8")
                stream.reconfigure(errors="plainer")
        return super().main(*args, **options)


@click.group(
    cls=_Program,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(
    __version__,
    message=f"mleval, version %(version)s (MLflow {version('mlflow')})",
    help="Show the versions of mleval and MLflow and exit.",
)
def main() -> None:
    """Which of my tracked runs is really better, on what, and am I sure?

    Reads runs from the MLflow store that MLFLOW_TRACKING_URI names (default: sqlite:///mlflow.db in
    this folder).

    \b
    mleval demo                                 try it on a published study
    mleval import results.csv -n mystudy        put results into the store
    mleval rank -n mystudy --missing worst      fuse the measures into a ranking
    mleval report -n mystudy --missing worst    write the whole report
    """


main.command_class = Command
main.add_command(evaluate)
main.add_command(profile)
main.add_command(gate)


@main.command(
    "import",
    params=[
        Option(
            "Options",
            "-n",
            "--experiment-name",
            metavar="NAME",
            help="Experiment to write to. Default: as the file is called, or a training was set.",
        ),
        Option(
            "Options",
            "--conventions",
            metavar="NAME",
            default="unknown",
            help="How empty sets and ties were counted: sklearn, mulan or unknown.",
        ),
        opt.timeout,
    ],
)
@click.argument("file", type=click.Path(exists=True))
def import_(file: str, experiment_name: str | None, conventions: str) -> None:
    """Put a file of results into the store.

    Each method gets one run per dataset. FILE is CSV or parquet, in long form (measure, dataset,
    method, value, and fold if there are folds) or wide form (dataset, method, and one column per
    measure). A column seed or repeat makes a run of each seed. An empty value means that the method
    did not finish. Importing a file again changes nothing; importing a changed file updates the
    runs and says what changed.

    FILE may also be a folder of results that the store did not take during a training, such as
    mleval_unsent. Each becomes a run, once, and leaves the folder then. With a column `instance` a
    table holds a result an answer, for tests over instances; so do logs of lm-evaluation-harness
    (samples_*.jsonl) and Inspect (.eval, .json).

    \b
    Examples:
      mleval import results.csv -n mystudy
      mleval import answers.csv -n answers
    """
    click.echo(_import(Path(file), experiment_name, conventions))


@main.command(
    params=[
        *opt.runs,
        click.Option(
            ["--forget"],
            is_flag=True,
            help="Show what mleval has put into these runs; with --yes, take it out of them, and "
            "delete runs that it made.",
        ),
        click.Option(["--yes"], is_flag=True, help="With --forget: do it."),
        opt.timeout,
        opt.output,
    ]
)
@opt.results
def runs(output: str | None, forget: bool, yes: bool, **choices: Any) -> None:
    """Show what a store, a file or runs hold, and how to rank them.

    Without a selection it lists the experiments. Of a selection it lists methods, datasets,
    measures, folds and conventions, the gaps among the results, and which runs are left out and
    why. Of runs that mleval did not log it lists metrics, params and tags, and what may name
    methods and datasets. It ends with the command to copy.

    \b
    Examples:
      mleval runs
      mleval runs -n mystudy
      mleval runs wandb_export.csv
      mleval runs -n mystudy --forget
    """
    if yes and not forget:
        raise click.UsageError("--yes goes with --forget.")
    if forget and choices["results"]:
        raise click.UsageError("--forget is for runs of a store, not for FILE.")
    if forget:
        from mlflow_mleval.store import runs as stored

        click.echo(stored.forget(Selection.of(choices), yes))
        if not yes:
            click.echo("Nothing was changed; --yes does it.")
        return
    from mlflow_mleval.report.content.listings import found_document
    from mlflow_mleval.store.survey import take_stock

    to = opt.target(output)
    with progress("reading", "runs") as step:
        study, survey = take_stock(Selection.of(choices), progress=step)
    study = None if study is None else study.worded(as_option)
    give(found_document(study, survey.worded(as_option)), to)


@main.command(params=[opt.output])
def measures(output: str | None) -> None:
    """List the known measures and the named sets of measures.

    Each measure comes with its direction, range and source.

    \b
    Example:
      mleval measures --output csv
    """
    from mlflow_mleval.report.content.listings import measures_document

    give(measures_document(), opt.target(output))


@main.command(params=[*opt.runs, *opt.missing, *_TESTED, opt.timeout, opt.output, opt.verbose])
@opt.results
def rank(output: str | None, verbose: bool, **choices: Any) -> None:
    """Fuse the measures into one ranking, per dataset and over all.

    PROMETHEE II gives the methods net flows on each dataset; their mean orders them over all. FILE
    is read in place of a store: results as `mleval import` takes them, a leaderboard (rows methods,
    columns datasets), or runs as MLflow, Weights & Biases and Neptune export them.

    \b
    Examples:
      mleval rank -n mystudy --missing worst --preference usual --output json
      mleval rank leaderboard.csv --max value
      mleval rank wandb_export.csv --method-by param:model --dataset-by param:data
    """
    to = opt.target(output)
    _tell_decision(_render(_compare(choices), "ranking", to, verbose), to)


@main.command(
    params=[
        *opt.selection,
        *opt.read(*opt.reading, *opt.answers, opt.shared),
        *opt.missing,
        *opt.over,
        *_TESTED,
        *joined(*opt.protocol, opt.pairing, opt.dependent),
        opt.cluster,
        opt.bound,
        *opt.rope,
        *joined(opt.seed, opt.swaps),
        opt.timeout,
        opt.output,
    ],
    common=["--over", "--method", "--cluster"],
)
@click.argument("runs", nargs=-1, metavar="[FILE|RUN …]")
def compare(over: str, runs: tuple[str, ...], output: str | None, **choices: Any) -> None:
    """Test which methods really differ, pair by pair.

    Over datasets, it first says whether the design can reject anything at all, and what that would
    take. Over folds, it tests the measures that --measure names together (tp, fp, fn, tn and the
    rates tpr, fpr, tnr, fnr among them); they must be fewer than the folds. Over instances, it
    tests each measure on the test instances of each dataset, or on the answers of runs of
    mlflow.genai.evaluate and mlflow.models.evaluate. Over repeats, it tests each measure on the
    runs of a method that differ in their seed. RUN is the id of a run, as --run-id; FILE is read in
    place of a store, as by `mleval rank`.

    \b
    Examples:
      mleval compare -n mystudy --missing worst --on macro_f1
      mleval compare -n mystudy --over folds -m tpr -m fpr --dataset yeast
      mleval compare -n mystudy --over instances -m f1
      mleval compare -n mystudy --over repeats -m f1 --dataset yeast
      mleval compare --over instances RUN_A RUN_B --cluster passage
    """
    to = opt.target(output)
    found = [text for text in runs if text.lower().endswith(_OF_FILES)]
    if found and len(runs) > 1:
        raise click.UsageError(f"one FILE stands alone, got {', '.join(runs)}. Leave out others.")
    results = str(opt.FILE.convert(found[0], None, None)) if found else None
    choices["run_ids"] = (*choices["run_ids"], *(() if found else runs))
    choices = {**heeded(over, choices), "results": results}
    if over == "instances" and results is not None:
        raise click.UsageError(
            "--over instances: answers are compared in a store. Import the file first: mleval "
            "import FILE."
        )
    if over == "datasets":
        _tell_decision(_render(_compare(choices), "pairs", to), to)
    else:
        run_over(over, choices, to)


@main.command(
    params=[
        *opt.selection,
        *opt.read(*opt.reading, *opt.answers, opt.shared, opt.cost),
        *opt.missing,
        *_TESTED,
        *joined(*opt.protocol, opt.pairing),
        opt.cluster,
        *opt.rope,
        *joined(opt.seed, opt.weightings),
        opt.pair,
        Option(
            "Output",
            "--log",
            is_flag=False,
            flag_value="",
            metavar="[=NAME]",
            help="Store the report as a run in MLflow, too, in the experiment of its runs, or of "
            "this name; its id goes to stdout. The same report again updates its run.",
        ),
        opt.timeout,
        opt.output,
    ],
    common=["--log", "--control"],
)
@opt.results
def report(
    output: str | None, log: str | None, pair: tuple[str, str] | None, **choices: Any
) -> None:
    """Write the whole report, the answer first.

    It gives the answer in words, the doubts, ranking, tests and stability, and what reproduces it.
    Without -o and --output it writes mleval_report.html, and the data as CSV and JSON to
    mleval_report_data/ beside it. FILE is read in place of a store, as by `mleval rank`.

    \b
    Examples:
      mleval report -n mystudy --missing worst
      mleval report -n mystudy --missing worst --log -o study.html
      mleval report -n mystudy --missing worst --pair BR HOMER
      mleval report -n mystudy --missing worst --output latex
    """
    if choices["results"] and log is not None:
        raise click.UsageError(
            "--log: the report of a file is of no runs to store it with. Import the file first: "
            "mleval import."
        )
    to = opt.target(output or "mleval_report.html")
    comparison = _compare(choices, stability=True)
    made = _render(comparison, "report", to, to.format == "table", pair or ())
    _tell_decision(made, to)
    if log is not None:
        from mlflow_mleval.store.runs import address, log_comparison

        texts = made.to_html(), made.to_markdown(), made.files()
        run_id = log_comparison(*texts, comparison, asked=choices, experiment_name=log or None)
        if is_stream(to.filename):
            say(f"logged as run {run_id}")
        else:
            where = address(run_id) or f"logged as run {run_id}; to look at it: mlflow server"
            click.echo(where if sys.stdout.isatty() else run_id)


@main.command(params=[opt.verbose])
def demo(verbose: bool) -> None:
    """Import, rank and test a published study, and report on it.

    The study has 12 methods, 11 datasets and 18 measures. It goes to sqlite:///mlflow.db in this
    folder, whatever MLFLOW_TRACKING_URI says, and the report to mleval_report.html beside it.

    \b
    Example:
      mleval demo
    """
    os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///mlflow.db"
    from mlflow_mleval.store.runs import log_comparison

    name = "madjarov2012"
    with as_file(files("mlflow_mleval") / "data" / f"{name}.csv") as path:
        click.echo(_import(path, name, "mulan"))
    choices = {"experiment_names": (name,), "missing": "worst"}
    comparison = _compare(choices, stability=True)
    made = _render(comparison, "report", opt.target("mleval_report.html"))
    texts = made.to_html(), made.to_markdown(), made.files()
    log_comparison(*texts, comparison, asked=choices, experiment_name=None)
    click.echo()
    _render(comparison, "ranking", opt.target(None), verbose)
    click.echo(
        "\nThe report is in mleval_report.html, its data in mleval_report_data/, and both in "
        "MLflow.\n\nNext:\n"
        "  mlflow server --app-name mleval                   compare them live: http://localhost:"
        "5000/mleval/\n"
        f"  mleval compare -n {name} --missing worst    who really differs from whom\n"
        f"  mleval runs -n {name}                       what the store holds\n"
        "  mleval import YOUR.csv -n yours                   the same with your own results"
    )


@main.command(
    params=[
        Option("Options", "--skill", is_flag=True, help="Print the skill file and exit."),
        opt.timeout,
    ]
)
def mcp(skill: bool) -> None:
    """Answer an assistant's questions about the store over stdio.

    A server of the Model Context Protocol with the tools survey, rank, compare, gate and explain.
    They only read, and each answer is below 2 kB. It needs the extra mcp: pip install
    'mlflow-mleval[mcp]'. The skill file, for assistants that read such, says what to ask and when
    not to conclude.

    \b
    Examples:
      mleval mcp
      mleval mcp --skill
    """
    if skill:
        click.echo((files("mlflow_mleval.cli") / "SKILL.md").read_text("utf-8").rstrip("\n"))
        return
    import asyncio

    from mlflow_mleval.cli.mcp import serve

    asyncio.run(serve(main.commands))


def _import(path: Path, experiment_name: str | None, conventions: str) -> str:
    """Import a file or a folder of kept results; say what was done in lines fit for a terminal."""
    from mlflow_mleval.files.harness_logs import holds_instances
    from mlflow_mleval.report.text import terminal
    from mlflow_mleval.store.importing import import_answers, import_results
    from mlflow_mleval.training.delivery import send_unsent

    done: Any
    with progress("importing") as step:
        if path.is_dir():
            done = send_unsent(str(path), experiment_name=experiment_name, progress=step)
            return done.summary()
        into = experiment_name or path.stem
        if holds_instances(str(path)):
            done = import_answers(str(path), experiment_name=into, progress=step)
            done = replace(done, warnings=tuple(map(in_options, done.warnings)))
        else:
            done = import_results(
                path, experiment_name=into, conventions=conventions, progress=step
            )
    return "\n".join(map(terminal, done.summary().splitlines()))


def _compare(choices: Choices, stability: bool = False) -> Any:
    how: dict[str, Any] = {"whole": stability, "stage": progress, "say": say}
    return comparison_of(read(choices, word=as_option, **how), choices, **how)


def _render(
    comparison: Any, what: str, to: Target, verbose: bool = False, pair: tuple[str, ...] = ()
) -> Any:
    """Write what was compared, a report with its data beside it; return the document."""
    from mlflow_mleval.report.content.study_report import document

    study = comparison.study
    origin = provenance(study.source, list(study.runs.get("run_id", ())), comparison.options)
    made = document(comparison, origin, what, pair)
    filename = to.filename
    if what == "report" and to.format == "html" and filename and not is_stream(filename):
        folder = Path(filename).with_name(Path(filename).stem + "_data")
        if folder.is_symlink():
            raise click.ClickException(
                f"the data of a report lie in {folder} beside it, and that is a link. Delete it, "
                "or choose another name."
            )
        from mlflow_mleval.validation import inside

        data = ((str(inside(folder, name)), make()) for name, make in made.parts().items())
        page = map(made.render, ["html"], [width()])  # made when data are written
        write_all(chain(data, [(filename, page)]))
        tell(f"wrote {filename}, and its data to {folder}/")
    else:
        give(made.in_full if verbose else made, to)
    experiments = study.source.get("experiments", ())
    if experiments and (live := live_address(one["id"] for one in experiments)):
        say(f"compare live: {live}")
    return made


def _tell_decision(made: Any, to: Target) -> None:
    """Say what was decided where the document goes to a file, a pipe or a program."""
    from mlflow_mleval.report.blocks import plain
    from mlflow_mleval.report.text import terminal

    if TAKEN in click.get_current_context().meta:
        return
    decision = terminal(plain(made.brief.decision))
    if to.filename is not None:
        tell(decision)
    elif not sys.stdout.isatty():
        tell(f"wrote {to.format}: {decision}")
