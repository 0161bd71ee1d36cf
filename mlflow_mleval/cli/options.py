"""The options of all commands, each declared once. Destination names are those of the Python arguments they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mlflow_mleval.report.formats import FORMATS, SUFFIXES

PREFERENCES = ("usual", "u_shape", "v_shape", "level", "linear", "gaussian")
#: Columns that the flags take up in the help at most; longer ones stand on a line of their own.
_FLAGS = 30
#: Differences that do not matter where a report is not told.
ROPE = 0.01


class Group:
    """Options that a command has or heeds together.

    Parameters
    ----------
    heading : str
        Where the help lists them; groups of one heading stand under it together.
    *options : click.Option
    """

    def __init__(self, heading: str, *options: click.Option) -> None:
        self.heading, self.options = heading, options
        self.names = tuple(option.name for option in options)


class Command(click.Command):
    """A command that takes its options in groups and lists them under the headings of these."""

    def __init__(
        self, *args: Any, groups: Sequence[Group], params: Sequence[click.Parameter] | None = None, **attributes: Any
    ) -> None:
        options = [option for group in groups for option in group.options]
        super().__init__(*args, params=[*(params or ()), *options], **attributes)
        self.groups = groups

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:  # click would propose what looks alike, such as --min for --missing
            commands = getattr(ctx.parent and ctx.parent.command, "commands", {})
            takers = [name for name, c in sorted(commands.items()) if any(error.option_name in o.opts for o in c.params)]
            if not takers:
                raise
            raise click.UsageError(
                f"{error.option_name} does nothing in `{ctx.command_path}`, only in {', '.join(takers)}. Leave it out.", ctx
            ) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[click.Option | None]] = {}
        for group in self.groups:
            sections.setdefault(group.heading, []).extend(group.options)
        sections[self.groups[-1].heading].append(self.get_help_option(ctx))
        records = {heading: [o.get_help_record(ctx) for o in options if o] for heading, options in sections.items()}
        longest = max(len(flags) for rows in records.values() for flags, _ in rows)
        for heading, ((flags, text), *rest) in records.items():
            with formatter.section(heading):  # the first row is padded, so that all sections have the same columns
                formatter.write_dl([(flags.ljust(min(longest, _FLAGS)), text), *rest], col_max=_FLAGS)


def arguments(choices: Mapping[str, Any], *groups: Group) -> dict[str, Any]:
    """What was chosen in these groups, as arguments of a function; what may be repeated and was not given is left out."""
    names = {name for group in groups for name in group.names}
    return {name: value for name, value in choices.items() if name in names and value != ()}


def flags(context: click.Context, typed: bool = False) -> dict[str, str]:
    """The long flag of each option by the Python argument that it becomes; only of those that were typed, if asked for."""
    source = click.core.ParameterSource.COMMANDLINE
    return {
        option.name: max(option.opts, key=len)
        for option in context.command.params
        if isinstance(option, click.Option) and (not typed or context.get_parameter_source(option.name) is source)
    }


def _option(*names: str, **attributes: Any) -> click.Option:
    return click.Option(names, **attributes)


def _many(*names: str, help: str, metavar: str = "NAME") -> click.Option:
    return click.Option(names, multiple=True, metavar=metavar, help=f"{help} Repeatable.")


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


selection = Group(
    "Selection",
    _many("-x", "--experiment-id", "experiment_ids", metavar="ID", help="Experiment to read, by id."),
    _many("-n", "--experiment-name", "experiment_names", help="Experiment to read, by name."),
    _many("--run-id", "run_ids", metavar="ID", help="Read only this run."),
    _option("--filter", "filter_string", default="", metavar="EXPR",
            help="Read only runs that match this, in MLflow's search syntax: \"params.lr = '0.1'\"."),
    _option("--method-by", metavar="RULE", help="What names a run's method: tag:NAME, param:NAME, run_name or experiment."),
    _option("--dataset-by", metavar="RULE",
            help="What names its dataset: one of the same, or input (the run's dataset input)."),
    _many("--method", "methods", help="Keep only this method."),
    _many("--exclude-method", "exclude_methods", help="Leave this method out."),
    _many("--dataset", "datasets", help="Keep only this dataset."),
    _many("--exclude-dataset", "exclude_datasets", help="Leave this dataset out."),
    _option("--duplicates", type=click.Choice(["latest", "error"]), default="latest", show_default=True,
            help="If a method has several runs on a dataset: take the latest, or stop."),
)

folds_by = Group(
    "Selection",
    _option("--folds-by", metavar="RULE", help="Where runs that mleval did not log hold values by fold: children, steps, or "
            "key:PATTERN of their metrics, such as key:fold{fold}_{measure}."),
)

measures = Group(
    "Measures",
    _many("-m", "--measure", "measures", help="Measure or set of measures to use (see `mleval measures`). Default: every known "
          "measure that all runs have, except costs and awareness."),
    _many("--exclude-measure", "exclude_measures", help="Leave this measure or set out."),
    _many("--min", "minimize", help="Declare a metric of which smaller values are better."),
    _many("--max", "maximize", help="Declare a metric of which larger values are better."),
)

missing = Group(
    "Measures",
    _option("--missing", type=click.Choice(["error", "worst", "drop-datasets", "drop-methods"]), default="error",
            show_default=True, help="If a method has no result on a dataset: stop, give it the dataset's worst value, or drop "
            "the datasets or methods that have gaps."),
)

redundancy = Group(
    "Measures",
    _option("--correlated", "max_correlation", type=click.FloatRange(0, 1), metavar="NUMBER", default=0.9, show_default=True,
            help="Absolute correlation above which a measure counts as redundant."),
)

fusion = Group(
    "Fusion",
    _option("--preference", type=Preference(), default="v_shape", show_default=True,
            help="Preference function: " + ", ".join(PREFERENCES) + ". For measures that are not named: v_shape."),
    _option("--weights", type=Weights(), metavar=Weights.name, default="entropy", show_default=True,
            help="Weights of the measures; they are scaled to sum to 1. For measures that are not named: 1."),
    _option("--p", type=PerMeasure(), help="Preference threshold. Default: from the data of each dataset."),
    _option("--q", type=PerMeasure(), help="Indifference threshold. Default: from the data of each dataset."),
    _option("--s", type=PerMeasure(), help="Width of the Gaussian. Default: from the data of each dataset."),
    _option("--drop-constant", is_flag=True, help="Give no weight to a measure on which all methods are equal."),
)

over = Group(
    "Tests",
    _option("--over", type=click.Choice(["datasets", "folds", "instances"]), default="datasets", show_default=True,
            help="What the tests count: datasets, the folds of each dataset, or test instances."),
)

tests = Group(
    "Tests",
    _option("--on", default="fused", show_default=True, metavar="fused|MEASURE", help="Test the fused ranking, or one measure."),
    _option("--test", type=click.Choice(["auto", "wilcoxon", "nemenyi"]), default="auto", show_default=True,
            help="Which test decides about pairs; auto: Wilcoxon where it can reject at all, otherwise Nemenyi."),
    _option("--correction", type=click.Choice(["holm", "bonferroni", "none"]), default="holm", show_default=True,
            help="How to correct the pairwise p-values for their number."),
    _option("--ties", type=click.Choice(["correct", "ignore"]), default="correct", show_default=True,
            help="Correct Friedman's test for ties, or ignore them as older papers do."),
    _option("--control", metavar="METHOD", help="Compare every method with this one only."),
)

level = Group(
    "Tests",
    _option("--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="NUMBER", default=0.05,
            show_default=True, help="Significance level."),
)

gate = Group("Tests", _option("--require-significant", is_flag=True, help="Exit with 3 unless some pair is separated."))

protocol = Group(
    "Folds",
    _option("--protocol", type=click.Choice(["k-fold", "repeated", "resampled", "5x2", "independent"]),
            help="How the folds were made. Default: recognised from their sizes."),
    _option("--ratio", type=click.FloatRange(0), metavar="NUMBER",
            help="n_test / n_train of a fold, to correct for training data that folds share. Default: from the folds' sizes."),
)

pairing = Group(
    "Folds",
    _option("--unpaired", "paired", is_flag=True, callback=lambda context, option, value: not value,
            help="Test over folds even if the runs split the data differently."),
)

dependent = Group(
    "Folds",
    _option("--dependent", type=click.Choice(["error", "drop"]), default="error", show_default=True,
            help="If a measure that --measure names follows from others (tn from fp): stop, or leave it out and say so."),
)



def _rope(default: float | None) -> Group:
    return Group(
        "Beyond p-values",
        _option("--rope", type=click.FloatRange(0), metavar="NUMBER", default=default, show_default=True,
                help="Largest difference that does not matter. Adds probabilities, possible ranks and planning."),
    )  # fmt: skip


rope, rope_of_reports = _rope(None), _rope(ROPE)


weightings = Group(
    "Random numbers",
    _option("--draws", "n_resamples", type=click.IntRange(1), metavar="NUMBER", default=10_000, show_default=True,
            help="Random weightings that say how often each method gets each rank."),
)

swaps = Group(
    "Random numbers",
    _option("--draws", "n_resamples", type=click.IntRange(1), metavar="NUMBER", default=9_999, show_default=True,
            help="Over instances: random swaps of the permutation test."),
)

seed = Group(
    "Random numbers",
    _option("--seed", type=int, metavar="NUMBER", default=0, show_default=True, help="Seed of everything random."),
)

quiet = _option("-q", "--quiet", is_flag=True, help="Write no messages to stderr.")

output = Group(
    "Output",
    _option("--output", "format", type=click.Choice(FORMATS), help="Format. Default: as the suffix of -o says, otherwise table."),
    _option("-o", "--filename", type=click.Path(readable=False), metavar="PATH",
            help="Write to this file; its suffix decides the format; - is stdout."),
    quiet,
)


def chosen_format(format: str | None, filename: str | None) -> str:
    """The format that --output or the suffix of --filename names; a contradiction is a usage error."""
    if filename in (None, "-"):
        return format or "table"
    if not Path(filename).parent.is_dir():
        raise click.UsageError(f"there is no folder {str(Path(filename).parent)!r}. Create it first.")
    suffix = filename.rpartition(".")[2].lower() if "." in filename else ""
    named = SUFFIXES.get(suffix)
    if named is None and format is None:
        raise click.UsageError(f"the suffix of {filename!r} names no format. Use one of .{', .'.join(SUFFIXES)}, or --output.")
    if named and format and named != format:
        raise click.UsageError(f"--output {format} and the suffix of {filename!r} disagree. Drop one of them.")
    return format or named
