"""Options that several commands share, each set as one decorator, and how their values become arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

FORMATS = ("table", "json", "csv", "md", "latex", "html")
SUFFIXES = {"json": "json", "csv": "csv", "md": "md", "tex": "latex", "html": "html", "txt": "table"}
PREFERENCES = ("usual", "u_shape", "v_shape", "level", "linear", "gaussian")
Command = Callable[..., Any]


def _group(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator out of many; the options appear in the help in the order given."""
    return lambda command: reduce(lambda inner, option: option(inner), reversed(options), command)


def _many(*names: str, help: str, metavar: str = "NAME") -> Callable[[Command], Command]:
    return click.option(*names, multiple=True, metavar=metavar, help=help)


class PerMeasure(click.ParamType):
    """A number for all measures (0.1), or one per measure (f1=0.1,coverage=2)."""

    name = "NUMBER|NAME=NUMBER,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            if "=" not in value:
                return float(value)
            pairs = [part.partition("=") for part in value.split(",")]
            return {name.strip(): float(number) for name, _, number in pairs}
        except ValueError:
            self.fail(f"{value!r} is neither a number nor NAME=NUMBER,NAME=NUMBER.", param, ctx)


class Weights(PerMeasure):
    """entropy, equal, or NAME=NUMBER,… (1 for the others)."""

    name = "entropy|equal|NAME=NUMBER,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in ("entropy", "equal") or not isinstance(value, str):
            return value
        if "=" not in value:
            self.fail(f"{value!r} is neither entropy, equal nor NAME=NUMBER,NAME=NUMBER.", param, ctx)
        return super().convert(value, param, ctx)


class Preference(click.ParamType):
    """One preference function for all measures, or NAME=FUNCTION,… (v_shape for the others)."""

    name = "FUNCTION|NAME=FUNCTION,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        chosen = dict(part.split("=", 1) for part in value.split(",")) if "=" in value else {"": value}
        if unknown := [f for f in chosen.values() if f not in PREFERENCES]:
            self.fail(f"{', '.join(map(repr, unknown))} is not one of {', '.join(PREFERENCES)}.", param, ctx)
        return chosen if "=" in value else value


selection = _group(
    _many("-x", "--experiment-id", "experiment_ids", metavar="ID", help="Experiment to read, by id. Repeatable."),
    _many("-n", "--experiment-name", "experiment_names", help="Experiment to read, by name. Repeatable."),
    _many("--run-id", "run_ids", metavar="ID", help="Read these runs only. Repeatable."),
    click.option("--filter", "filter_string", default="", metavar="EXPR", help="MLflow's search syntax: \"params.lr = '0.1'\"."),
    click.option("--method-by", metavar="RULE", help="What names a run's method: tag:NAME, param:NAME, run_name, experiment."),
    click.option("--dataset-by", metavar="RULE", help="What names its dataset: the same, or input (the run's dataset input)."),
    click.option("--folds-by", metavar="RULE", help="Where runs that others logged hold values by fold: children, steps, or "
                 "key:PATTERN of their metrics, such as key:fold{fold}_{measure}."),
    _many("--method", "methods", help="Keep these methods only. Repeatable."),
    _many("--exclude-method", "exclude_methods", help="Leave this method out. Repeatable."),
    _many("--dataset", "datasets", help="Keep these datasets only. Repeatable."),
    _many("--exclude-dataset", "exclude_datasets", help="Leave this dataset out. Repeatable."),
    click.option("--duplicates", type=click.Choice(["latest", "error"]), default="latest", show_default=True,
                 help="Several runs of one method on one dataset: take the latest, or stop."),
)

measures = _group(
    _many("-m", "--measure", "measures", help="Measure or set of measures to use (see `mleval measures`). Repeatable. "
          "Default: every known measure that all compared runs have, costs and awareness apart."),
    _many("--exclude-measure", "exclude_measures", help="Measure or set to leave out. Repeatable."),
    _many("--min", "minimize", help="Declare a metric of which the smaller value is better. Repeatable."),
    _many("--max", "maximize", help="Declare a metric of which the larger value is better. Repeatable."),
    click.option("--missing", type=click.Choice(["error", "worst", "drop-datasets", "drop-methods"]), default="error",
                 show_default=True, help="What to do about methods without a result on a dataset."),
)

fusion = _group(
    click.option("--preference", type=Preference(), default="v_shape", show_default=True,
                 help="Preference function: " + ", ".join(PREFERENCES) + ". Measures that are not named: v_shape."),
    click.option("--weights", type=Weights(), default="entropy", show_default=True,
                 help="Weights of the measures, as shares of their sum. Measures that are not named: 1."),
    click.option("--p", type=PerMeasure(), help="Preference threshold. Default: from the data, per dataset."),
    click.option("--q", type=PerMeasure(), help="Indifference threshold. Default: from the data, per dataset."),
    click.option("--s", type=PerMeasure(), help="Width of the Gaussian. Default: from the data, per dataset."),
    click.option("--drop-constant", is_flag=True, help="Entropy weights: give a measure that does not vary no weight."),
)

tests = _group(
    click.option("--on", default="fused", show_default=True, metavar="fused|MEASURE",
                 help="What the tests compare: the fused ranking, or one measure."),
    click.option("--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05, show_default=True,
                 help="Significance level."),
    click.option("--test", type=click.Choice(["auto", "wilcoxon", "nemenyi"]), default="auto", show_default=True,
                 help="Which test decides about pairs; auto: Wilcoxon where it can reject at all, else Nemenyi."),
    click.option("--correction", type=click.Choice(["holm", "bonferroni", "none"]), default="holm", show_default=True,
                 help="Correction of the pairwise p-values."),
    click.option("--ties", type=click.Choice(["correct", "ignore"]), default="correct", show_default=True,
                 help="Tie correction of Friedman's test; ignore: as in the older papers."),
    click.option("--control", metavar="METHOD", help="Compare every method with this one only."),
    click.option("--require-significant", is_flag=True, help="Exit with 3 unless some pair is separated."),
)

protocol = _group(
    click.option("--protocol", type=click.Choice(["k-fold", "repeated", "resampled", "5x2", "independent"]),
                 help="How the folds came about. Default: recognised from their sizes."),
    click.option("--ratio", type=click.FloatRange(0), metavar="NUMBER",
                 help="n_test / n_train of a fold, which corrects for shared training data. Default: from the folds' sizes."),
)

folds = _group(
    protocol,
    click.option("--unpaired", is_flag=True, help="Test runs over folds although they split the data differently."),
)

dependent = click.option(
    "--dependent", type=click.Choice(["error", "drop"]), default="error", show_default=True,
    help="Over folds: measures that --measure names and that follow from others (tn from fp): stop, or leave them out by name.",
)

rope = click.option("--rope", type=click.FloatRange(0), metavar="NUMBER",
                    help="Largest difference that does not matter. Adds probabilities, possible ranks, planning. Report: 0.01.")

over = _group(
    click.option("--over", type=click.Choice(["datasets", "folds", "instances"]), default="datasets", show_default=True,
                 help="What the tests count: datasets; the folds of each dataset, several measures together; or test instances."),
)

seed = click.option("--seed", type=int, default=0, show_default=True, help="Seed of everything random.")

draws = _group(
    click.option("--draws", "swaps", type=click.IntRange(1), help="Over instances: random swaps of the permutation test. "
                 "Default: 9,999."),
    seed,
)

depth = _group(
    click.option("--correlated", "max_correlation", type=click.FloatRange(0, 1), default=0.9, show_default=True,
                 help="Absolute correlation above which a measure counts as redundant."),
    click.option("--draws", "n_resamples", type=click.IntRange(1), default=10_000, show_default=True,
                 help="Random weight vectors for the rank acceptability."),
    seed,
)

output = _group(
    click.option("--output", "format", type=click.Choice(FORMATS), help="Format. Default: table, or as -o's suffix says."),
    click.option("-o", "--filename", metavar="PATH", help="Write to this file; its suffix decides the format; - is stdout."),
    click.option("-q", "--quiet", is_flag=True, help="No messages on stderr."),
)


def chosen_format(format: str | None, filename: str | None, default: str = "table") -> str:
    """The format that --output or the suffix of --filename names; a contradiction is a usage error."""
    if filename in (None, "-"):
        return format or default
    if not Path(filename).parent.is_dir():
        raise click.UsageError(f"there is no folder {str(Path(filename).parent)!r}. Create it first.")
    suffix = filename.rpartition(".")[2].lower() if "." in filename else ""
    named = SUFFIXES.get(suffix)
    if named is None and format is None:
        raise click.UsageError(f"the suffix of {filename!r} names no format. Use one of .{', .'.join(SUFFIXES)}, or --output.")
    if named and format and named != format:
        raise click.UsageError(f"--output {format} and the suffix of {filename!r} disagree. Drop one of them.")
    return format or named or default


def selected(choices: dict[str, Any]) -> dict[str, Any]:
    """The choices as `load_study` takes them: what was not named is None."""
    several = ("methods", "datasets", "measures", "experiment_ids", "experiment_names", "run_ids")
    return choices | {key: choices.get(key) or None for key in several}
