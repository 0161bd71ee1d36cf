"""Where results go: data to stdout or a file, messages to stderr."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from mlflow_mleval import assembling
from mlflow_mleval.redaction import masked, without_passwords

#: Seconds before a long job shows how far it is.
PATIENCE = 2.0
#: Symbolic links that are followed one after the other, as in Linux.
_MOST_LINKS = 40


def say(text: str, quiet: bool = False) -> None:
    """A message for the person at the terminal: stderr, and only where a person is."""
    if not quiet and sys.stderr.isatty():
        click.echo(text, err=True)


@contextmanager
def progress(
    label: str, quiet: bool = False, unit: str = ""
) -> Iterator[Callable[[int, int], None]]:
    """A callable (done, total) that shows on stderr how far a long job is, at what rate, and the
    time that remains.

    It shows nothing off a terminal or before `PATIENCE` seconds. A total of 0 is not known yet;
    fewer done than before is a new round.
    """
    silent = quiet or not sys.stderr.isatty()
    start = began = last = time.monotonic()
    bar = click.progressbar(
        length=1,
        label=label,
        file=sys.stderr,
        hidden=True,
        show_pos=bool(unit),
        item_show_func=lambda rate: rate,
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
    return (
        min(shutil.get_terminal_size((100, 24)).columns, 120)
        if sys.stdout and sys.stdout.isatty()
        else 100
    )


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
            raise click.ClickException(
                f"cannot write to stdout: {error.strerror or error}."
            ) from error
        return
    write_all([(filename, [text])])
    say(f"wrote {filename}", quiet)


def write_all(files: Iterable[tuple[str, Iterable[str]]]) -> None:
    """Put parts of texts into files, all of them or none, each whole: only when all are on the disk
    do they take their places.

    A link stays one: its target is replaced. A file keeps its mode. A pipe or a device takes its
    texts when their turn comes.
    """
    parts: dict[Path, Path] = {}
    made: list[Path] = []
    filename = ""
    try:
        for filename, texts in files:
            if is_stream(filename):
                _pour(texts, filename)
                continue
            folder, target = Path(filename).parent, Path(os.path.realpath(filename))
            if not folder.exists():
                folder.mkdir()
                made.append(folder)
            if target.is_symlink():  # after all links were followed: they lead to each other
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            parts[target] = target.with_name(f".{uuid4().hex}.part")
            _write_beside(target, parts[target], texts)
        for target, part in parts.items():
            filename = str(target)
            part.replace(target)
    except (
        BaseException
    ) as error:  # texts are made while they are written: whatever goes wrong, nothing stays
        for part in parts.values():
            part.unlink(missing_ok=True)
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        if not isinstance(error, OSError) or isinstance(error, BrokenPipeError):
            raise
        raise click.ClickException(
            f"cannot write {filename!r}: {error.strerror or error}."
        ) from error


def is_stream(filename: str | None) -> bool:
    """Whether data flow on from there, as from stdout, a pipe or a device, so that there is no file
    to be replaced.
    """
    if filename in (None, "-") or _descriptor(filename) is not None:
        return True
    try:
        mode = os.stat(filename).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(path: str) -> int | None:
    """The number of our own descriptor that a path such as /dev/stdout stands for.

    To open such a path would empty a file that stdout goes to, and begin at its start again.
    """
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(path)
        folder = os.path.realpath(folder or os.curdir)
        if folder in (f"/proc/{os.getpid()}/fd", "/dev/fd") and name.isdecimal():
            return int(name)
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    return None


def _pour(texts: Iterable[str], filename: str) -> None:
    number = _descriptor(filename)
    if number is not None and sys.stdout is not None:
        sys.stdout.flush()  # what was said before goes before
    with open(
        filename if number is None else os.dup(number), "w", encoding="utf-8", newline=""
    ) as file:
        file.writelines(texts)


def _write_beside(target: Path, part: Path, texts: Iterable[str]) -> None:
    """The texts as a file of the target's mode and owner, which nobody can read at any time who
    cannot read the target.
    """
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    mode = 0o666 if old is None else stat.S_IMODE(old.st_mode)
    number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(number, "w", encoding="utf-8", newline="") as file:
        if old is not None:
            with suppress(OSError, AttributeError):  # only root can give a file away
                os.chown(part, old.st_uid, old.st_gid)
            os.chmod(part, mode)
        file.writelines(texts)
        file.flush()
        os.fsync(number)  # some disks say only now that they are full


def provenance(
    source: Mapping[str, Any], run_ids: list[str], options: Mapping[str, Any]
) -> dict[str, Any]:
    """What reproduces a result, with the command as it was typed."""
    return assembling.provenance(
        shlex.join(["mleval", *map(_argument, sys.argv[1:])]), source, run_ids, options
    )


def _argument(text: str) -> str:
    """An argument as it may be shown, also where it holds a URI whose password has spaces or
    quotes.
    """

    def fit(hit: re.Match[str]) -> str:
        return masked(f"{hit[0]}host").removesuffix("host")

    return re.sub(r"[\w+.-]*://[^/].*:.*@", fit, without_passwords(text), flags=re.DOTALL)
