"""Where results go: data to stdout or a file, messages to stderr, errors as one clear line."""

from __future__ import annotations

import functools
import os
import platform
import re
import shlex
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from mlflow_mleval.cli.options import flags
from mlflow_mleval.errors import MlevalError
from mlflow_mleval.redaction import raise_alone, redacted, tells_a_secret

#: What stands around the value of an argument of Python in a sentence.
QUOTES = "[]'"


def say(text: str, quiet: bool = False) -> None:
    """A message for the person at the terminal: stderr, and only where a person is."""
    if not quiet and sys.stderr.isatty():
        click.echo(text, err=True)


@contextmanager
def progress(label: str, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A callable (done, total) that shows on stderr how far a long job is; silent off a terminal."""
    hidden = quiet or not sys.stderr.isatty()
    with click.progressbar(length=1, label=label, file=sys.stderr, hidden=hidden) as bar:

        def step(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield step


def one_line_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the errors a user can mend into one line and exit code 1; anything else stays a traceback, without secrets.

    A ValueError about an argument that the user gave as an option is wrong usage: exit code 2, and it names the option.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (MlevalError, ValueError) as error:
            from mlflow_mleval.report.escape import terminal

            text = terminal(in_flags(" ".join(redacted(str(error)).split())))
            if isinstance(error, ValueError) and (usage := _about_option(text)):
                raise_alone(click.UsageError(usage, click.get_current_context()))
            raise_alone(click.ClickException(text))
        except click.ClickException:
            raise
        except Exception as error:
            if not tells_a_secret(error):
                raise
            click.echo(redacted("".join(traceback.format_exception(error))), err=True)
            raise_alone(SystemExit(1))

    return run


def in_flags(text: str) -> str:
    """The text with arguments of Python (`missing='worst'`) as options (--missing worst) of this command or its siblings."""
    context = click.get_current_context()
    commands = [*getattr(context.find_root().command, "commands", {}).values(), context.command]
    names = {option.name: max(option.opts, key=len) for command in commands for option in command.params}

    def flag(found: re.Match[str]) -> str:
        return f"{names[found[1]]} {found[2].strip(QUOTES)}".rstrip() if found[1] in names else found[0]

    return re.sub(r"`([a-z_]+)=([^`]*)`", flag, text)


def excluded_in_flags(study: Any) -> Any:
    """The study with the reasons why something was left out in options of the command line."""
    return replace(study, excluded=tuple(replace(gone, reason=in_flags(gone.reason)) for gone in study.excluded))


def _about_option(text: str) -> str:
    """An error about an argument ("`p` must be ...") as one about the option that was typed; empty where none was."""
    typed = flags(click.get_current_context(), typed=True)
    about = re.match("`([a-z_]+)`", text)
    if about is None or about[1] not in typed:
        return ""
    return re.sub("`([a-z_]+)`", lambda name: typed.get(name[1], name[0]), text)


def width() -> int:
    """Columns to write for: the terminal's, at most 120; 100 where there is no terminal."""
    return min(shutil.get_terminal_size((100, 24)).columns, 120) if sys.stdout and sys.stdout.isatty() else 100


def write(text: str, filename: str | None, quiet: bool = False) -> None:
    """Put the data on stdout, or into a file at once and whole (a reader never sees half of it)."""
    if filename in (None, "-"):
        if sys.stdout is None:
            raise click.ClickException("stdout is closed. Name a file: -o PATH.")
        try:
            click.echo(text.rstrip("\n"))
        except BrokenPipeError:
            raise  # the reader has what it wanted, as `head` has: no error to show
        except OSError as error:
            raise click.ClickException(f"cannot write to stdout: {error.strerror or error}.") from error
        return
    path = Path(filename)
    if not path.parent.is_dir():
        raise click.ClickException(f"there is no folder {str(path.parent)!r}. Create it first.")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise click.ClickException(f"cannot write {filename!r}: {error.strerror or error}.") from error
    say(f"wrote {filename}", quiet)


def provenance(source: Mapping[str, Any], run_ids: list[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What reproduces a result: command, versions, store, selection, run ids, policy, seed, time."""
    packages = ("mlflow-mleval", "mlflow", "numpy", "scipy", "pandas", "networkx")
    return {
        "command": shlex.join(["mleval", *map(_argument, sys.argv[1:])]),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        **source,
        "experiments": [experiment["name"] for experiment in source.get("experiments", ())],
        "run_ids": run_ids,
        "policy": options.get("missing"),
        "seed": options.get("seed"),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _argument(text: str) -> str:
    """An argument as it may be shown, also where it holds a URI whose password has spaces or quotes."""
    return re.sub("(?<=://)[^/].*@", "***@", redacted(text), flags=re.DOTALL)
