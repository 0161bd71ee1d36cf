"""Where results go: data to stdout or a file, messages to stderr."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from mlflow_mleval import assembling
from mlflow_mleval.redaction import redacted

#: Seconds before a long job shows how far it is.
PATIENCE = 2.0


def say(text: str, quiet: bool = False) -> None:
    """A message for the person at the terminal: stderr, and only where a person is."""
    if not quiet and sys.stderr.isatty():
        click.echo(text, err=True)


@contextmanager
def progress(label: str, quiet: bool = False, unit: str = "") -> Iterator[Callable[[int, int], None]]:
    """A callable (done, total) that shows on stderr how far a long job is, at what rate, and the time that remains.

    It shows nothing off a terminal or before `PATIENCE` seconds. A total of 0 is not known yet; fewer done than before is a new
    round.
    """
    silent = quiet or not sys.stderr.isatty()
    start = began = last = time.monotonic()
    bar = click.progressbar(
        length=1, label=label, file=sys.stderr, hidden=True, show_pos=bool(unit), item_show_func=lambda rate: rate
    )
    with bar:

        def step(done: int, total: int) -> None:
            nonlocal began, last
            if done < bar.pos:
                bar.pos, bar.finished, bar.avg, began = 0, False, [], last
                bar.start = bar.last_eta = time.time()
            bar.length, bar.show_eta = total or None, total > 0
            last = time.monotonic()
            bar.hidden = silent or (bar.hidden and last - start < PATIENCE)
            rate = f"{done / (last - began):,.1f} {unit}/s" if unit and last > began else None
            bar.update(done - bar.pos, rate)

        yield step


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
    write_all([(filename, [text])])
    say(f"wrote {filename}", quiet)


def write_all(files: Iterable[tuple[str, Iterable[str]]]) -> None:
    """Put parts of texts into files, all of them or none, each whole: only when all are on the disk do they take their places."""
    parts: dict[Path, Path] = {}
    made: list[Path] = []
    filename = ""
    try:
        for filename, texts in files:
            path = Path(filename)
            if not path.parent.exists():
                path.parent.mkdir()
                made.append(path.parent)
            parts[path] = part = path.with_name(f".{path.name}.{os.getpid()}.part")
            with part.open("w", encoding="utf-8", newline="") as file:
                file.writelines(texts)
                file.flush()
                os.fsync(file.fileno())  # some disks say only now that they are full
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        for path, part in parts.items():
            filename = str(path)
            part.replace(path)
    except BaseException as error:  # texts are made while they are written: whatever goes wrong, nothing stays
        for part in parts.values():
            part.unlink(missing_ok=True)
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        if not isinstance(error, OSError):
            raise
        raise click.ClickException(f"cannot write {filename!r}: {error.strerror or error}.") from error


def provenance(source: Mapping[str, Any], run_ids: list[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What reproduces a result, with the command as it was typed."""
    return assembling.provenance(shlex.join(["mleval", *map(_argument, sys.argv[1:])]), source, run_ids, options)


def _argument(text: str) -> str:
    """An argument as it may be shown, also where it holds a URI whose password has spaces or quotes."""
    return re.sub("(?<=://)[^/].*@", "***@", redacted(text), flags=re.DOTALL)
