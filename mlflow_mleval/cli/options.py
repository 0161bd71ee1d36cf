"""The options of all commands, each declared once, by the Python arguments that they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import click
from click import Choice, FloatRange, IntRange
from click.shell_completion import CompletionItem

from mlflow_mleval.analysis.posthoc import asked_names
from mlflow_mleval.cli.command import Option, Target, is_stream, joined
from mlflow_mleval.report import FORMATS, SUFFIXES
from mlflow_mleval.selection import DIRECTIONS, FLAGS, SEVERAL, Selection

PREFERENCES = ("usual", "u_shape", "v_shape", "level", "linear", "gaussian")
PROBABILITY = FloatRange(0, 1, min_open=True, max_open=True)


def _many(heading: str, *names: str, help: str, metavar: str = "NAME") -> Option:
    return Option(heading, *names, multiple=True, metavar=metavar, help=f"{help} Repeatable.")


class PerMeasure(click.ParamType):
    """A number, or one of some words, for all measures, or a number each: f1=0.1,coverage=2. Or one
    of a choice in place of a number."""

    def __init__(self, *words: str, choice: Sequence[str] = ()) -> None:
        self.one: click.ParamType = Choice(choice) if choice else click.FLOAT
        self.kind = "FUNCTION" if choice else "NUMBER"
        self.words = (*words, *choice)
        self.name = f"{'|'.join(words) or self.kind}|NAME={self.kind},…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value in self.words:
            return value
        try:
            if "=" not in value and not self.words:
                return self.one(value)
            parts = (part.partition("=") for part in value.split(","))
            return {name.strip(): self.one(text) for name, _, text in parts}
        except click.BadParameter:
            wanted = ", ".join(self.words) or "a number"
            self.fail(
                f"{value!r} is neither {wanted} nor NAME={self.kind},NAME={self.kind}.", param, ctx
            )


def _stated(
    context: click.Context, option: click.Parameter, stated: Sequence[float | dict[str, float]]
) -> float | dict[str, float] | None:
    """What was stated: one number for all measures, or numbers by name."""
    named: dict[str, float] = {}
    for each in stated:
        if isinstance(each, dict):
            named |= each
        elif len(stated) > 1:
            raise click.BadParameter("give one number for all, or one for each name.")
        else:
            return each
    return named or None


#: Of what takes a number for all measures, or one for each.
_by_measure: dict[str, Any] = {"type": PerMeasure(), "multiple": True, "callback": _stated}


#: Options under the headings that have several.
_selecting = partial(Option, "Selection")
_of_instances = partial(Option, "Instances")
_of_measures = partial(Option, "Measures")
_fusing = partial(Option, "Fusion")
_testing = partial(Option, "Tests")
_gating = partial(Option, "Gate")
_of_folds = partial(Option, "Folds")
_ledgers = partial(Option, "Ledger")
_writing = partial(Option, "Output")
_beyond = partial(Option, "Beyond p-values")
_UNSAID = {f.name: f.default for f in fields(Selection)}


def _of_runs(argument: str, help: str, metavar: str | None = "NAME", **attributes: Any) -> Option:
    """An option that becomes this argument of `Selection`, typed as `FLAGS` says."""
    *short, long = FLAGS[argument]
    whole, _, key = long.partition(" ")
    if key:
        long = f"--{key}" if whole == "--read" else f"{whole}-{key}"
    if argument in SEVERAL:
        attributes["multiple"], help = True, f"{help} Repeatable."
    else:
        attributes["default"] = _UNSAID[argument]
    heading = attributes.pop("heading", "Selection")
    return Option(heading, *short, long, argument, metavar=metavar, help=help, **attributes)


_of_results = partial(_of_runs, heading="Measures")
#: How runs are read where they do not say it, each by a key of `--read`.
reading = (
    _of_runs(
        "duplicates",
        metavar="POLICY",
        help="If runs of a method on a dataset differ in more than their seed: error (stop), mean, "
        "latest, best:METRIC or latest-data. The mean of those that differ in their seed counts.",
    ),
    _of_runs(
        "repeats_by",
        metavar="RULE",
        help="In what repeats may differ beside their seeds: param:NAME, tag:NAME, or digest where "
        "each is on another split of the data.",
    ),
    _of_runs(
        "folds_by",
        metavar="RULE",
        help="Where runs of others hold values by fold: children, steps, or key:PATTERN of their "
        "metrics, such as key:fold{fold}_{measure}.",
    ),
    _of_runs(
        "name_as",
        metavar="PATTERN",
        help="What the names of runs say: {method}_{dataset}_s{seed}. Others are left out.",
    ),
    _of_runs(
        "children",
        "The best child run of each parent, by this metric. Default: children are no results.",
        "best:METRIC",
    ),
    _of_runs(
        "step",
        "Of metrics by epoch or step, the values where this metric is best. Default: the last.",
        "best:METRIC",
    ),
    _of_runs(
        "percent",
        help="A metric that some runs hold as a percentage: divide what is above 1.5 by 100.",
    ),
)
#: How answers are read, over which instances are compared.
table = _of_instances("--table", metavar="PATH", help="Of answers: this logged table of each run.")
instance_by = _of_instances(
    "--instance-by",
    metavar="NAME",
    help="Input, tag or column that tells the question of an answer. Default: all that was asked.",
)
answers = (
    table,
    instance_by,
    _many(
        "Instances",
        "--grades",
        help="Categories of a measure, from worst to best.",
        metavar="MEASURE=WORST,…,BEST",
    ),
)
shared = _of_instances(
    "--shared",
    is_flag=True,
    help="Compare on the instances that all runs hold, even where many are missing.",
)
#: Of what only joins others.
_keys: dict[str, Any] = {"multiple": True, "expose_value": False, "metavar": "KEY=VALUE"}


def read(*parts: Option) -> tuple[Option, ...]:
    """`--read` with these keys."""
    text = "How runs are read where they do not say it. Repeatable."
    return joined(_selecting("--read", help=text, **_keys), *parts)


#: As the page names experiments.
experiment_ids = _many(
    "Selection", "--experiment-id", "experiment_ids", metavar="ID", help="By id."
)
experiments = _of_runs("experiment_names", "Experiment to read, by name or id.", "NAME|ID")
methods = _of_runs("methods", "Keep only this method.")
run_ids = _of_runs(
    "run_ids",
    metavar="ID",
    help="Read only this run; models:/NAME@ALIAS or models:/NAME/VERSION is the model's.",
)
since = _of_runs(
    "since",
    metavar="SPAN|DATE",
    help="Read only runs that started since then, such as 7d or 2026-11-16T08:30.",
)
_filter = _of_runs(
    "filter_string",
    metavar="EXPR",
    help="Read only runs that match this, in MLflow's search syntax: \"params.lr = '0.1' and "
    'tags.mlflow.user = \'alice\'", "metrics.f1 > 0.5".',
)
_method_by = _of_runs(
    "method_by",
    metavar="RULE",
    help="What names a run's method: tag:NAME, param:NAME, run_name, run_id, experiment, model "
    "(its version, tagger/2), prompt (the versions that it loaded, qa/2) or since:DATE (runs "
    'before and since then). Several give "xgb, lr=0.1".',
)
_dataset_by = _of_runs(
    "dataset_by",
    metavar="RULE",
    help="What names its dataset: one of the same, input (the run's dataset input), shape (each "
    "number of features) or digest (of the data).",
)
datasets = _of_runs("datasets", "Keep only this dataset.")
exclude = joined(
    _selecting("--exclude", help="Leave out what is named. Repeatable.", **_keys),
    _of_runs("exclude_runs", "By its id.", "ID"),
    _of_runs("exclude_methods", "Of this name."),
    _of_runs("exclude_datasets", "Of this name."),
    _of_runs("exclude_measures", "A measure or a set of them."),
)
_shown = (experiments, since, _filter, _method_by, _dataset_by, datasets, *exclude)
_declared = (
    _of_results(
        "measures",
        "Measure or set of measures to use, as `mleval measures` lists them. Default: the set "
        "sixteen, one-label or class-sets, by what was evaluated; and declared measures.",
    ),
    _of_results("minimize", "Declare a metric of which smaller values are better."),
    _of_results("maximize", "Declare a metric of which larger values are better."),
    _of_results(
        "directions",
        type=Choice(DIRECTIONS),
        metavar=None,
        help="Metrics of which nobody knows which way is better: only those that are declared, or "
        "as their names propose.",
    ),
)
#: What is read, and how, without `--read`; of a gate also without the runs and methods to keep.
selection = (*_shown, run_ids, methods, *_declared)
of_sides = (*_shown, *_declared)
#: What is read, with `--read`, where it is no answers.
runs = (*selection, *read(*reading))
missing = joined(
    _of_results(
        "missing",
        type=Choice(["error", "worst", "drop-datasets", "drop-methods"]),
        metavar=None,
        help="If a method has no result on a dataset: stop, give it the worst value there, or drop "
        "the datasets or methods that have gaps.",
    ),
    _of_measures(
        "--missing-is-failure",
        is_flag=True,
        help="The worst value counts in tests of pairs, too. Otherwise a pair goes by the datasets "
        "that both finished.",
    ),
)


_THRESHOLDS = {
    "--p": "Preference threshold.",
    "--q": "Indifference threshold.",
    "--s": "Width of the Gaussian.",
}
fusion = (
    *joined(
        _fusing(
            "--preference",
            type=PerMeasure(choice=PREFERENCES),
            default="v_shape",
            help=f"Preference function: {', '.join(PREFERENCES)}.",
        ),
        *(
            _fusing(flag, type=PerMeasure(), help=f"{it} Default: from the data of each dataset.")
            for flag, it in _THRESHOLDS.items()
        ),
    ),
    *joined(
        _fusing(
            "--weights",
            type=PerMeasure("entropy", "equal"),
            metavar="entropy|equal|NAME=NUMBER,…",
            default="entropy",
            help="Weights of the measures; 1 for those that are not named.",
        ),
        _fusing("--drop-constant", is_flag=True, help="No weight where all methods are equal."),
    ),
)
cost = _of_measures(
    "--cost",
    metavar="NAME",
    help="Metric that is drawn beside the quality. Default: the first of time, money or size.",
)
#: A part of `--over`, for answers.
difference = _testing(
    "--difference",
    type=PerMeasure(),
    help="Of answers: the difference for which is told how many questions find it.",
)
over = joined(
    _testing(
        "--over",
        type=Choice(["datasets", "folds", "instances", "repeats"]),
        default="datasets",
        help="What the tests count: datasets, or of each its folds, instances or repeats.",
    ),
    difference,
)
tests = (
    _testing("--on", default="fused", metavar="fused|MEASURE", help="Compare by all, or by one."),
    _testing(
        "--test",
        type=Choice(asked_names()),
        default="max-t",
        help="The test that decides about pairs of methods; bonferroni-dunn needs --control.",
    ),
    _testing(
        "--as-in-papers",
        is_flag=True,
        help="As older papers: methods by their mean rank, Friedman's test without ties.",
    ),
    _testing("--control", metavar="METHOD", help="Compare every method with this one only."),
)
pair = _writing(
    "--pair",
    nargs=2,
    metavar="A B",
    help="Ask whether A is better than B. Default: the leader and the next.",
)
anytime = _testing(
    "--anytime",
    is_flag=True,
    help="Hold the level however often a store that grows is looked at; this finds less.",
)
level = _testing("--alpha", type=PROBABILITY, default=0.05, help="Significance level.")
gate = (
    _gating(
        "--champion",
        metavar="RUN|MODEL|METHOD",
        help="What may be replaced: a run, models:/NAME@ALIAS, models:/NAME/VERSION or a method.",
    ),
    _gating(
        "--margin",
        "margins",
        help="The loss that does not matter. Default: 0.01 between 0 and 1. Repeatable.",
        **_by_measure,
    ),
    _gating(
        "--bound",
        "bounds",
        help="The largest difference of two answers that counts, of a measure without a range: "
        "else it is not judged. Repeatable.",
        **_by_measure,
    ),
    _many("Gate", "--improve", help="Measure that must be better.", metavar="MEASURE"),
    _gating(
        "--over",
        type=Choice(["auto", "answers", "instances", "folds", "repeats", "datasets"]),
        default="auto",
        help="What counts as a unit. Default: the first that the runs hold.",
    ),
    _many(
        "Gate",
        "--slice",
        "slices",
        metavar="COLUMN",
        help="Column of the units whose parts can block; or dataset; or, over folds, label.",
    ),
    _gating(
        "--promote",
        metavar="ALIAS",
        help="On SHIP, move this alias to the candidate, if it still points at the champion.",
    ),
    _gating("--log", is_flag=True, help="Store the verdict with the candidate's run, too."),
    *joined(
        _ledgers(
            "--ledger",
            metavar="NAME",
            help="Enter the gate into this ledger of many candidates, made if there is none: of "
            "all that is shipped on average at most --alpha is wrong.",
        ),
        _ledgers(
            "--ledger-error",
            type=Choice(["fdr", "family"]),
            default="fdr",
            help="What it keeps: that share, or the chance of any wrong ship.",
        ),
    ),
)
#: How folds came about.
protocol = (
    _of_folds(
        "--protocol",
        type=Choice(["k-fold", "repeated", "resampled", "5x2", "independent"]),
        help="How the folds were made. Default: by their sizes.",
    ),
    _of_folds(
        "--ratio",
        type=FloatRange(0),
        help="n_test / n_train of a fold, for training data that folds share. Default: by sizes.",
    ),
)
pairing = _of_folds(
    "--unpaired",
    "paired",
    is_flag=True,
    callback=lambda context, option, value: not value,
    help="Test over folds even if the runs split the data differently.",
)
dependent = _of_folds(
    "--dependent",
    type=Choice(["error", "drop"]),
    default="error",
    help="If a named measure follows from others (tn from fp): stop, or leave it out.",
)
rope = joined(
    _beyond(
        "--rope",
        type=FloatRange(0),
        help="Largest difference that does not matter. Adds probabilities and planning.",
    ),
    _beyond(
        "--next",
        "next_dataset",
        is_flag=True,
        help="Say of every pair, by folds or repeats, who is probably better on the next dataset.",
    ),
)
cluster = _of_instances(
    "--cluster",
    metavar="COLUMN",
    help="Over instances: the column that says which belong together, such as a passage; or fold.",
)
bound = _of_instances(
    "--bound",
    "bounds",
    help="Over instances: the largest possible difference of two values of a measure of unknown "
    "range, so that few are tested without assuming symmetry. Repeatable.",
    **_by_measure,
)


_drawing = partial(Option, "Random numbers", "--draws", "n_resamples", type=IntRange(1))
seed = Option("Random numbers", "--seed", type=int, default=0, help="Seed of everything random.")
weightings = _drawing(
    default=10_000, help="Random weightings that say how often each method gets each rank."
)
swaps = _drawing(default=9_999, help="Over instances: changes of sign that are drawn.")


def _allow(context: click.Context, option: click.Parameter, seconds: float | None) -> None:
    """Let the store have that time while the command runs."""
    from mlflow_mleval.store.budget import allowing

    context.with_resource(allowing(seconds))


FILE = click.Path(exists=True, dir_okay=False)
#: Results that are read in place of a store.
results = click.argument("results", required=False, metavar="[FILE]", type=FILE)


timeout = Option(
    "Store",
    "--timeout",
    type=FloatRange(0, min_open=True),
    envvar="MLEVAL_TIMEOUT",
    expose_value=False,
    callback=_allow,
    help="Seconds to wait for an answer of the store. Default: 30, or MLEVAL_TIMEOUT.",
)
verbose = _writing(
    "-v", "--verbose", is_flag=True, help="On a terminal: why, pairs, measures and provenance, too."
)
output = _writing(
    "-o",
    "--output",
    metavar="FORMAT|PATH",
    shell_complete=lambda context, option, typed: [
        *map(CompletionItem, [name for name in FORMATS if name.startswith(typed)]),
        CompletionItem(typed, type="file"),
    ],
    help="Write in this format, or to this file, whose suffix decides it. Formats: "
    f"{', '.join(FORMATS)}. Default: table. With -q stderr stays silent.",
)


def target(output: str | None) -> Target:
    """The format that is asked for, and the file; None for stdout."""
    if output in (None, "-"):
        return Target("table", None)
    if output in FORMATS:
        return Target(output, None)
    if not Path(output).parent.is_dir():
        raise click.UsageError(f"there is no folder {str(Path(output).parent)!r}. Create it first.")
    suffix = output.rpartition(".")[2].lower() if "." in output else ""
    if suffix not in SUFFIXES and not is_stream(output):
        raise click.UsageError(
            f"--output {output!r} is no format ({', '.join(FORMATS)}), nor a file with one "
            f"of their suffixes: .{', .'.join(SUFFIXES)}."
        )
    return Target(SUFFIXES.get(suffix, "table"), output)
