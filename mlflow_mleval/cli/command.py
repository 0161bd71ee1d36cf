"""Commands that list their options under headings, and whose errors are a line with options as
they are typed."""

from __future__ import annotations

import errno
import inspect
import os
import re
import shutil
import stat
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import uuid4

import click
from click.core import ParameterSource

from mlflow_mleval import assembling
from mlflow_mleval.errors import ChoiceError, MlevalError, UnclearError
from mlflow_mleval.secrets import raise_alone, redacted, tells_a_secret
from mlflow_mleval.selection import Choices, Selection, Typed, command_line
from mlflow_mleval.sentences import Argument, argument_of, grouped, worded

#: Columns that the flags take up in the help at most; longer ones stand on a line of their own.
_FLAGS = 30
#: Where a context keeps what was typed.
_TYPED = "mlflow_mleval.typed"
#: And a list that takes the document, where a command is called for it and writes nothing.
TAKEN = "mlflow_mleval.taken"
#: Options that choose experiments, or where an answer goes: the page has them otherwise.
_NOT_OF_THE_PAGE = frozenset({"experiment_ids", "experiment_names", "output", "log"})


class Option(click.Option):
    """An option under a heading of the help, which says its default, and NUMBER for any number."""

    #: The option that it is joined to, and by which key; see `joined`.
    into: tuple[Option, str] | None = None

    def __init__(
        self, heading: str, *names: str, metavar: str | None = None, **attributes: Any
    ) -> None:
        self.heading, kind = heading, attributes.get("type")
        #: The parts by their keys, as the help shows them.
        self.parts: dict[str, Option] = {}
        if kind in (int, float) or isinstance(kind, (click.FloatRange, click.IntRange)):
            metavar = "NUMBER"
        shown = attributes.get("default") not in (None, "")
        super().__init__(names, metavar=metavar, show_default=shown, **attributes)
        #: Its long flag, whether it is typed so or as a part of another.
        self.flag: str = max(self.opts, key=len)
        #: Its name in an address, and to tools.
        self.field = self.flag.removeprefix("--")

    def typed(self, value: str | None = None) -> Typed:
        """The flag and what follows it, with this value or with none."""
        if self.into is None:
            return self.flag, value
        whole, key = self.into
        text = "=".join(part for part in (key, value) if part)
        return whole.flag, f":{text}" if whole.expose_value else text

    def added(self, value: Any, given: Any) -> list[Typed]:
        """What is typed for a value, beside what was given where it may be repeated."""
        known = () if isinstance(value, str) else given or ()
        return [self.typed(text) for text in texts_of(value) if text not in known]

    @property
    def words(self) -> str:
        """What is typed, without a value."""
        return " ".join(filter(None, self.typed()))

    def get_error_hint(self, ctx: click.Context | None) -> str:
        return f"'{self.words}'"

    def rows(self, ctx: click.Context) -> Iterator[tuple[str, str]]:
        """Its rows in the help, and those of its parts: flags, and what they do."""
        yield self.get_help_record(ctx) or ("", "")
        for part in self.parts.values():
            _, text = part.get_help_record(ctx) or ("", "")
            yield f"  {':' * self.expose_value}{part.shown}", text

    @property
    def shown(self) -> str:
        """A part as the help shows it: its key, and what it takes."""
        key = self.into[1] if self.into else self.flag
        return key if self.is_flag else f"{key}={self.make_metavar(click.Context(_NONE))}"

    def apart(self, text: str) -> Iterator[str]:
        """What was typed behind its flag, as options of their own."""
        pieces = [text]
        if self.expose_value:
            keys = "|".join(map(re.escape, self.parts))
            own, *pieces = re.split(rf":(?=(?:{keys})(?:[=:]|$))", text)
            if own:
                yield f"{self.flag}={own}"
        for piece in pieces:
            key, equals, value = piece.partition("=")
            part = self.parts.get(key)
            if part is None or bool(equals) == part.is_flag:
                keys = ", ".join(part.shown for part in self.parts.values())
                raise click.BadParameter(f"{piece!r} is none of {keys}.", param=self)
            yield f"{part.flag}={value}" if equals else part.flag


_NONE = click.Command(None)


def joined(first: Option, *others: Option) -> tuple[Option, ...]:
    """Options that are typed as one: the first's own value and what follows it behind colons, as
    `--preference gaussian:s=0.1`; or, where it has none, `--read KEY=VALUE`, each time another."""
    whole = copy(first)
    whole.parts = {}
    parts = []
    for option in others:
        part = copy(option)
        key = option.field.removeprefix(f"{first.field}-").removeprefix("is-")
        part.into = whole, key
        whole.parts[key] = part
        parts.append(copy(part))
        parts[-1].hidden = True  # in the help it stands below the first
    return whole, *parts


def leaves(options: Iterable[click.Parameter]) -> Iterator[Option]:
    """The options that are arguments of Python: all but those that only join others."""
    for option in options:
        if isinstance(option, Option) and (option.expose_value or not option.parts):
            yield option


def texts_of(value: Any) -> list[str]:
    """What is typed for a value, or for each of several."""
    if isinstance(value, Mapping):
        return [",".join(f"{key}={each}" for key, each in value.items())]
    several = isinstance(value, Iterable) and not isinstance(value, str)
    return [*map(str, value)] if several else [str(value)]


def apart(options: Iterable[click.Parameter], typed: Iterable[str]) -> Iterator[str]:
    """What was typed, with what is joined as options of their own."""
    wholes = {o.flag: o for o in options if isinstance(o, Option) and o.parts}
    words = iter(typed)
    for word in words:
        flag, equals, value = word.partition("=")
        text = None
        if flag in wholes:
            text = value if equals else next(words, None)
        yield from [word] if text is None else wholes[flag].apart(text)
        if word == "--":
            yield from words


class Command(click.Command):
    """A command that lists its options under their headings. Errors a user can mend are one line
    and exit code 1; anything else stays a traceback, without secrets."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = list(args)
        try:
            return super().parse_args(ctx, [*apart(self.params, args)])
        except click.NoSuchOption as error:
            # click would propose what looks alike, such as --min for --missing
            commands = getattr(ctx.parent and ctx.parent.command, "commands", {})
            typed = error.option_name
            takers = [
                name
                for name, command in sorted(commands.items())
                if any(typed in param.opts for param in command.params)
            ]
            if not takers:
                raise
            text = f"{typed} does nothing in `{ctx.command_path}`, only in {', '.join(takers)}."
            raise click.UsageError(f"{text} Leave it out.", ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (MlevalError, ValueError) as error:
            from mlflow_mleval.report.text import terminal

            if isinstance(error, UnclearError) or (isinstance(error, ChoiceError) and error.ways):
                lines = [redacted(in_options(error.text)), *_as_commands(error, ctx)]
                raise_alone(click.ClickException("\n".join(map(terminal, lines))))
            text = terminal(" ".join(redacted(in_options(error)).split()))
            typed = flags(ctx, typed=True)
            # about an argument that was typed as an option: wrong usage, exit code 2
            if isinstance(error, ValueError) and argument_of(error) in typed:
                text = re.sub("`([a-z_]+)`", lambda name: typed.get(name[1], name[0]), text)
                raise_alone(click.UsageError(text, ctx))
            raise_alone(click.ClickException(text))
        except Exception as error:
            if isinstance(error, click.ClickException) or not tells_a_secret(error):
                raise
            click.echo(redacted("".join(traceback.format_exception(error))), err=True)
            raise_alone(SystemExit(1))

    def __init__(self, *args: Any, common: Iterable[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.common = frozenset(common)
        many = sum(not getattr(param, "hidden", False) for param in self.params) > _FEW
        # its own, for click keeps what the first context says, which may have no parent
        names = {"help_option_names": ["--help"] if many else ["-h", "--help"]}
        self.context_settings = {**self.context_settings, **names}
        self.params = [*self.params, *([_SHORT] if many else []), _SILENT]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """All options by their headings; of the short help those that most people use."""
        options = [o for o in self.params if isinstance(o, Option) and not o.hidden]
        sections: dict[str, list[tuple[str, str]]]
        if ctx.meta.get(_BRIEF):
            rows = [row for option in options for row in self._in_short(option)]
            sections = {"Options": [*rows, ("--help", "All options, by topic.")]}
        else:
            pairs = [(option.heading, row) for option in options for row in option.rows(ctx)]
            last = pairs[-1][0] if pairs else "Options"
            help = self.get_help_option(ctx)
            pairs += [] if help is None else [(last, help.get_help_record(ctx) or ("", ""))]
            sections = grouped(pairs)
        longest = max(len(flags) for rows in sections.values() for flags, _ in rows)
        for heading, ((flags, text), *rest) in sections.items():
            with formatter.section(heading):
                # the first row is padded, so that all sections have the same columns
                first = flags.ljust(min(longest, _FLAGS)), text
                formatter.write_dl([first, *rest], col_max=_FLAGS)

    def _in_short(self, option: Option) -> Iterator[tuple[str, str]]:
        """Its row in the short help, if it is one that most people use."""
        known = next((name for name in option.opts if name in _COMMON), "")
        if known or option.flag in self.common:
            first = re.split(r"(?<=\.) |; ", option.help or "")[0]
            text = _COMMON.get(known if option.heading in _READ else "") or first
            taken = option.metavar if option.flag not in ("--missing", "--over") else ""
            yield " ".join(filter(None, [known or option.flag, taken])), text

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not ctx.meta.get(_BRIEF):
            return super().format_help_text(ctx, formatter)
        text = inspect.cleandoc(self.help or "")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text.partition("\n\n")[0])
        examples = re.sub(r"\\\n\s*", "", text).partition("Examples:")[2].splitlines()[1:3]
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{' ' * formatter.current_indent}{line.strip()}\n")
        return None


#: What most people use, of any command that has it, in a few words.
_COMMON = {
    "-n": "Experiment to read.",
    "--method-by": "What names a run's method: param:NAME, tag:NAME, run_name.",
    "--dataset-by": "What names its dataset: the same, input, or digest.",
    "--filter": "Only runs that match: \"params.lr = '0.1'\".",
    "-m": "Measure to use.",
    "--min": "Metric of which smaller values are better.",
    "--max": "Metric of which larger values are better.",
    "--missing": "Where results are missing: error, worst, drop-datasets.",
    "-o": "The format, or a file whose suffix says it.",
    "-v": "Tell all, not only the first things.",
}
#: The headings under which they mean that.
_READ = ("Selection", "Measures", "Output")
#: A command with more options than this has a short help, too.
_FEW = 15
_BRIEF = "mlflow_mleval.brief"
_QUIET = "mlflow_mleval.quiet"


def _show_short_help(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[_BRIEF] = True
        click.echo(ctx.get_help())
        ctx.exit()


_SHORT = Option(
    "Output",
    "-h",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_short_help,
    help="The options that most people use.",
)
#: Of every command; the help of `-o` tells of it.
_SILENT = click.Option(
    ["-q", "--quiet"],
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, option, asked: ctx.meta.update({_QUIET: asked}),
)


def arguments(choices: Choices, *options: Option) -> Choices:
    """What was chosen by these options, as arguments; without what may be repeated and was not."""
    names = {option.name for option in leaves(options)}
    return {name: value for name, value in choices.items() if name in names and value != ()}


def flags(context: click.Context, typed: bool = False) -> dict[str, str]:
    """The long flag of each option, or of those typed, by the Python argument that it becomes."""
    return {
        str(p.name): p.words
        for p in leaves(context.command.params)
        if not typed or context.get_parameter_source(str(p.name)) is ParameterSource.COMMANDLINE
    }


def live_address(experiment_ids: Iterable[str]) -> str:
    """Where the server's page shows what this command chose; empty where there is no such page."""
    from mlflow_mleval.store.runs import page_of
    from mlflow_mleval.store.store import server_address

    page, context = page_of(experiment_ids), click.get_current_context()
    if not page or context.params.get("run_ids"):  # single runs, which the page does not take
        return ""
    chosen, typed = [], flags(context, typed=True).keys() - _NOT_OF_THE_PAGE
    for option in leaves(context.command.params):
        if option.name in typed:
            value = context.params[option.name]
            texts = texts_of(1 if value is True else value)
            chosen += [(option.field, text) for text in texts]
    more = f"&{urlencode(chosen)}" if chosen else ""
    return f"{server_address()}/{page}{more}"


def in_options(text: object) -> str:
    """A text, or an error's, with arguments of Python as options of this command or others."""
    return worded(text, as_option)


def as_option(argument: Argument) -> str:
    """An argument of Python as it is typed."""
    context = click.get_current_context()
    commands = [context.command, *getattr(context.find_root().command, "commands", {}).values()]
    return said(argument, [o for command in commands for o in leaves(command.params)])


def said(argument: Argument, options: Iterable[Option]) -> str:
    """An argument of Python as one of these options is typed."""
    ids = "experiment_names" if argument.name == "experiment_ids" else ""
    option = next((option for option in options if option.name in (argument.name, ids)), None)
    typed = () if option is None else option.typed(argument.plain or None)
    return " ".join(filter(None, typed)) or str(argument)


def _as_commands(error: ChoiceError | UnclearError, context: click.Context) -> Iterator[str]:
    """What each way on does, and the command to be copied: the one that was typed, with the options
    that the way takes, unless it reads the runs otherwise than was typed."""
    takes = {o.name: o for o in leaves(context.command.params)}
    if isinstance(error, UnclearError):
        taken = {*takes, "experiment_ids"}
        if context.params.get("over", "datasets") != "datasets":
            taken.discard("missing")  # which tests over other units do not heed
        left_out: Any = {f.name: f.default for f in fields(Selection) if f.name not in taken}
        given = [*Selection.of(context.params).options()]
        for way in error.ways:
            line = way.line
            if way.command == "rank":
                chosen = [*replace(way.selection, **left_out).options()]
                line = command_line(["mleval", context.info_name or ""], chosen)
                if {*given} <= {*chosen}:
                    line = _as_typed(context, [option for option in chosen if option not in given])
            yield from (f"# {way.what}", line)
        return
    for what, options in error.ways:
        if options.keys() <= takes.keys():
            more = (takes[name].added(v, context.params.get(name)) for name, v in options.items())
            yield redacted(f"{what[:1].upper()}{what[1:]}:", typed=True)
            yield f"  {_as_typed(context, chain.from_iterable(more))}"


def _as_typed(context: click.Context, more: Iterable[Typed] = ()) -> str:
    """The command that was typed, with further options, to be copied."""
    typed = context.meta[_TYPED]
    at = typed.index("--") if "--" in typed else len(typed)
    command = command_line(["mleval", context.info_name or "", *typed[:at]], more)
    return " ".join(filter(None, [command, command_line(typed[at:])]))


# ---- where results go: data to stdout or a file, messages to stderr ------------------------------

#: Seconds before a long job shows how far it is.
PATIENCE = 2.0


def _is_quiet() -> bool:
    """Whether stderr stays silent, by -q or MLEVAL_QUIET."""
    context = click.get_current_context(silent=True)
    asked = context is not None and context.meta.get(_QUIET)
    return bool(asked or os.environ.get("MLEVAL_QUIET"))


def is_watched() -> bool:
    """Whether somebody at a terminal wants to be told how a job goes."""
    return sys.stderr.isatty() and not _is_quiet()


def say(text: str) -> None:
    """A message for the person at the terminal: stderr, and only where a person is."""
    if is_watched():
        click.echo(text, err=True)


def tell(text: str) -> None:
    """What was written, and the verdict: stderr, in a pipe, too."""
    if not _is_quiet():
        click.echo(text, err=True)


@contextmanager
def progress(label: str, unit: str = "") -> Iterator[Callable[[int, int], None]]:
    """A callable (done, total) that shows a person at a terminal, after `PATIENCE` seconds, how far
    a job is. A total of 0 is not known yet; fewer done than before is a new round."""
    silent = not is_watched()
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
    is_terminal = sys.stdout and sys.stdout.isatty()
    return min(shutil.get_terminal_size((100, 24)).columns, 120) if is_terminal else 100


class Target(NamedTuple):
    """Where a document goes, and in which format; None is stdout."""

    format: str
    filename: str | None


def give(made: Any, to: Target) -> None:
    """Put a document on stdout, or into a file at once and whole (a reader never sees half of it);
    or hand it to whoever called the command for it."""
    taken = click.get_current_context().meta.get(TAKEN)
    if taken is not None:
        taken.append(made)
        return
    text = made.render(to.format, width())
    if to.filename is not None:
        write_all([(to.filename, [text])])
        if not is_stream(to.filename):
            tell(f"wrote {to.filename}")
        return
    if sys.stdout is None:
        raise click.ClickException("stdout is closed. Name a file: -o PATH.")
    try:
        click.echo(text.rstrip("\n"))
    except BrokenPipeError:
        raise  # the reader has what it wanted, as `head` has: no error to show
    except OSError as error:
        raise click.ClickException(f"cannot write to stdout: {error.strerror or error}.") from error


def write_all(files: Iterable[tuple[str, Iterable[str]]]) -> None:
    """Put texts into files, all of them or none: when all are on the disk they take their places.
    A link stays one, a file keeps its mode; a pipe or device takes texts when their turn comes."""
    parts, made, filename = dict[Path, Path](), list[Path](), ""
    try:
        for filename, texts in files:
            if is_stream(filename):
                number = _descriptor(filename)
                if number is not None and sys.stdout is not None:
                    sys.stdout.flush()  # what was said before goes before
                place = filename if number is None else os.dup(number)
                with open(place, "w", encoding="utf-8", newline="") as stream:
                    stream.writelines(texts)
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
    except BrokenPipeError:
        raise
    except OSError as error:
        text = f"cannot write {filename!r}: {error.strerror or error}."
        raise click.ClickException(text) from error
    finally:  # texts are made while they are written: whatever goes wrong, nothing stays
        for part in parts.values():
            part.unlink(missing_ok=True)
        for folder in made:
            with suppress(OSError):  # it holds what was written
                folder.rmdir()


def is_stream(filename: str | None) -> bool:
    """Whether data flow on from there, as from stdout or a pipe: no file is to be replaced."""
    if filename is None or _descriptor(filename) is not None:
        return True
    try:
        mode = os.stat(filename).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(path: str) -> int | None:
    """The number of our stdout or stderr, where a path such as /dev/stdout leads there: to open it
    would empty a file that stdout goes to, and begin at its start again."""
    with suppress(OSError):
        there = os.stat(path)
        for number in (1, 2):
            if os.path.samestat(there, os.fstat(number)):
                return number
    return None


def _write_beside(target: Path, part: Path, texts: Iterable[str]) -> None:
    """The texts as a file of the target's mode and owner, at no time open to more readers."""
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


def provenance(source: Mapping[str, Any], run_ids: list[str], options: Choices) -> dict[str, Any]:
    """What reproduces a result, with the command as it was typed."""
    return assembling.provenance(_as_typed(click.get_current_context()), source, run_ids, options)
