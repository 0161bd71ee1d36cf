"""Commands that list their options under headings, and whose errors are one line that speaks of
options as they are typed.
"""

from __future__ import annotations

import re
import shlex
import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource

from mlflow_mleval.errors import CandidatesError, MissingResultsError, MlevalError
from mlflow_mleval.redaction import raise_alone, redacted, tells_a_secret, without_passwords

#: Columns that the flags take up in the help at most; longer ones stand on a line of their own.
_FLAGS = 30
#: What stands around the value of an argument of Python in a sentence.
_QUOTES = "[]'"
#: Where a context keeps what was typed.
_TYPED = "mlflow_mleval.typed"


class Option(click.Option):
    """An option under a heading of the help, which says its default, and NUMBER for a number of any
    range.
    """

    def __init__(
        self, heading: str, *names: str, metavar: str | None = None, **attributes: Any
    ) -> None:
        self.heading, kind = heading, attributes.get("type")
        if kind in (int, float) or isinstance(kind, (click.FloatRange, click.IntRange)):
            metavar = "NUMBER"
        shown = attributes.get("default") not in (None, "")
        super().__init__(names, metavar=metavar, show_default=shown, **attributes)


class Command(click.Command):
    """A command that lists its options under their headings.

    Errors a user can mend become one line and exit code 1. A ValueError about an argument that was
    typed as an option is wrong usage of it: exit code 2. Anything else stays a traceback, without
    secrets.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = list(args)
        try:
            return super().parse_args(ctx, args)
        except (
            click.NoSuchOption
        ) as error:  # click would propose what looks alike, such as --min for --missing
            commands, typed = (
                getattr(ctx.parent and ctx.parent.command, "commands", {}),
                error.option_name,
            )
            takers = [
                name
                for name, command in sorted(commands.items())
                if any(typed in p.opts for p in command.params)
            ]
            if not takers:
                raise
            text = (
                f"{typed} does nothing in `{ctx.command_path}`, only in {', '.join(takers)}. "
                "Leave it out."
            )
            raise click.UsageError(text, ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (MlevalError, ValueError) as error:
            if getattr(error, "ways", ()):
                raise_alone(click.ClickException(_with_commands(error, ctx)))
            from mlflow_mleval.report.escape import terminal

            text, typed = (
                terminal(in_flags(" ".join(redacted(str(error)).split()))),
                flags(ctx, typed=True),
            )
            about = re.match("`([a-z_]+)`", text)
            if isinstance(error, ValueError) and about and about[1] in typed:
                raise_alone(
                    click.UsageError(
                        re.sub("`([a-z_]+)`", lambda name: typed.get(name[1], name[0]), text), ctx
                    )
                )
            raise_alone(click.ClickException(text))
        except Exception as error:
            if isinstance(error, click.ClickException) or not tells_a_secret(error):
                raise
            click.echo(redacted("".join(traceback.format_exception(error))), err=True)
            raise_alone(SystemExit(1))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [option for option in self.params if isinstance(option, Option)]
        sections = {option.heading: [] for option in options}
        for option in options:
            sections[option.heading].append(option.get_help_record(ctx))
        sections[options[-1].heading].append(self.get_help_option(ctx).get_help_record(ctx))
        longest = max(len(flags) for rows in sections.values() for flags, _ in rows)
        for heading, ((flags, text), *rest) in sections.items():
            with formatter.section(
                heading
            ):  # the first row is padded, so that all sections have the same columns
                formatter.write_dl(
                    [(flags.ljust(min(longest, _FLAGS)), text), *rest], col_max=_FLAGS
                )


def arguments(choices: Mapping[str, Any], *options: Option) -> dict[str, Any]:
    """What was chosen by these options, as arguments of a function; what may be repeated and was
    not given is left out.
    """
    names = {option.name for option in options}
    return {name: value for name, value in choices.items() if name in names and value != ()}


def flags(context: click.Context, typed: bool = False) -> dict[str, str]:
    """The long flag of each option by the Python argument that it becomes; only of those that were
    typed, if asked for.
    """
    return {
        p.name: max(p.opts, key=len)
        for p in context.command.params
        if isinstance(p, click.Option)
        and (not typed or context.get_parameter_source(p.name) is ParameterSource.COMMANDLINE)
    }


def in_flags(text: str) -> str:
    """The text with arguments of Python (`missing='worst'`) as options (--missing worst) of this
    command or its siblings.
    """
    context = click.get_current_context()
    commands = [*getattr(context.find_root().command, "commands", {}).values(), context.command]
    names = {
        option.name: max(option.opts, key=len) for command in commands for option in command.params
    }

    def flag(found: re.Match[str]) -> str:
        value = "" if found[2] in ("True", "False") else found[2].strip(_QUOTES)
        return f"{names[found[1]]} {value}".rstrip() if found[1] in names else found[0]

    return re.sub(r"`([a-z_]+)=([^`]*)`", flag, text)


def _with_commands(error: CandidatesError | MissingResultsError, context: click.Context) -> str:
    """What is the matter, and each way on as the command that was typed with the options that it
    takes, to be copied.
    """
    from mlflow_mleval.report.escape import terminal

    names, lines = flags(context), []
    for what, options in error.ways:
        typed, more = list(context.meta[_TYPED]), []
        for name, values in options.items():
            given = context.params.get(name) or ()
            for value in (
                [values] if isinstance(values, str) else [v for v in values if v not in given]
            ):
                more += [names[name], value]
        lines += [
            f"{what[:1].upper()}{what[1:]}:",
            f"  {shlex.join(['mleval', context.info_name or '', *typed, *more])}",
        ]
    lines = [redacted(error.text), *map(without_passwords, lines)]
    return "\n".join(map(terminal, lines))


def excluded_in_flags(study: Any) -> Any:
    """The study with the reasons why something was left out in options of the command line."""
    return replace(
        study,
        excluded=tuple(replace(gone, reason=in_flags(gone.reason)) for gone in study.excluded),
    )
