"""What a reader of the page chose: in the address, as choices of a comparison, and as the command
that reports the same.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import click

from mlflow_mleval.cli import main
from mlflow_mleval.redaction import without_passwords

#: Options of `mleval report` that the page does not have: it knows experiments by id, and what it
#: makes goes nowhere else.
_ELSEWHERE = {
    "experiment_names",
    "run_ids",
    "n_resamples",
    "require_significant",
    "log",
    "log_to",
    "format",
    "filename",
    "quiet",
}
#: Most values of an option, characters of a value and experiments of a selection.
MOST, LONGEST, EXPERIMENTS = 200, 5_000, 50
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MARKS = "[]()',"
_YES = ("", "1", "true", "on", "yes")


class SelectionError(ValueError):
    """A field of the selection cannot be taken as it is.

    Attributes
    ----------
    field : str
        Its name in the address, which is that of the option without dashes.
    """

    def __init__(self, field: str, text: str) -> None:
        self.field = field
        super().__init__(text)


@cache
def options() -> dict[str, click.Option]:
    """The options of `mleval report` that a selection may hold, by their names in the address, in
    the order of the help.
    """
    known = [
        p
        for p in main.commands["report"].params
        if isinstance(p, click.Option) and p.name not in _ELSEWHERE
    ]
    return {max(option.opts, key=len).removeprefix("--"): option for option in known}


@dataclass(frozen=True)
class PageSelection:
    """A selection, each value as it was given; what equals the default is left out.

    Attributes
    ----------
    given : tuple of (str, tuple of str)
        Names in the address and values, in the order of the options.
    choices : mapping
        The same as arguments of Python, of all options.
    """

    given: tuple[tuple[str, tuple[str, ...]], ...]
    choices: Mapping[str, Any]

    @property
    def experiment_ids(self) -> tuple[str, ...]:
        return self.choices["experiment_ids"]

    @property
    def query(self) -> str:
        """For the address; the same for every way to give the same."""
        return urlencode([(name, value) for name, values in self.given for value in values])

    @property
    def command(self) -> str:
        """The command that reports the same."""
        parts = ["mleval", "report"]
        for name, values in self.given:
            flag = f"--{name}"
            for value in values:
                parts += (
                    [flag]
                    if options()[name].is_flag
                    else [f"{flag}={value}"]
                    if value.startswith("-")
                    else [flag, value]
                )
        return without_passwords(shlex.join(parts))

    def key(self, *more: str) -> str:
        """A name for whatever this selection yields, among strangers' selections."""
        return sha256("\0".join([self.query, *more]).encode()).hexdigest()[:32]

    def adding(self, arguments: Mapping[str, Any]) -> PageSelection:
        """The selection with further arguments of Python; those that may be repeated are added to,
        others replaced.
        """
        values = {name: list(given) for name, given in self.given}
        for name, option in options().items():
            if option.name not in arguments:
                continue
            new = arguments[option.name]
            new = (
                [new]
                if isinstance(new, str)
                else [*map(str, new)]
                if isinstance(new, Iterable)
                else [str(new)]
            )
            values[name] = [*values.get(name, ()), *new] if option.multiple else new[-1:]
        return parsed(values)


def parsed(values: Mapping[str, Iterable[str]]) -> PageSelection:
    """The selection that these values make; names that no option has are for others.

    Raises
    ------
    SelectionError
        A value is none that the option takes.
    """
    given, choices = [], {}
    for name, option in options().items():
        texts = [text for text in values.get(name, ()) if text or option.is_flag]
        if len(texts) > MOST or any(len(text) > LONGEST for text in texts):
            raise SelectionError(
                name, f"at most {MOST} values of {LONGEST:,} characters each. Name fewer."
            )
        if any(not text.isprintable() for text in texts):
            raise SelectionError(name, "it holds a character that cannot be shown. Leave it out.")
        if option.multiple:
            texts = list(dict.fromkeys(texts))
            choices[option.name] = tuple(_converted(option, name, text) for text in texts)
        elif option.is_flag:
            on = bool(texts) and texts[-1].lower() in _YES
            texts = ["1"] if on else []
            choices[option.name] = option.callback(None, option, on) if option.callback else on
        else:
            default = option.default if isinstance(option.default, str | int | float) else None
            value = _converted(option, name, texts[-1]) if texts else default
            texts = texts[-1:] if texts and value != default else []
            choices[option.name] = value
        if texts:
            given.append((name, tuple(texts)))
    ids = choices["experiment_ids"]
    if wrong := [i for i in ids if not _ID.fullmatch(i)]:
        raise SelectionError(
            "experiment-id",
            f"{wrong[0][:40]!r} is no id of an experiment. Choose one from the list.",
        )
    if len(ids) > EXPERIMENTS:
        raise SelectionError(
            "experiment-id",
            f"{len(ids)} experiments are chosen; {EXPERIMENTS} are the most. Choose fewer.",
        )
    return PageSelection(tuple(given), choices)


def _converted(option: click.Option, name: str, text: str) -> Any:
    try:
        return option.type.convert(text, option, None)
    except click.BadParameter as error:
        raise SelectionError(name, error.message) from error


def field_of(argument: str) -> str | None:
    """The name in the address of an argument of Python; None where the page has none."""
    return next((name for name, option in options().items() if option.name == argument), None)


@cache
def _flags() -> dict[str, str]:
    return {option.name: f"--{name}" for name, option in options().items()}


def in_words(text: str) -> str:
    """The text with arguments of Python as options of `mleval report`, as the stored report has
    them.
    """

    def flag(found: re.Match[str]) -> str:
        value = "" if found[2] == "True" else found[2].strip("[]'")
        return f"{_flags()[found[1]]} {value}".rstrip() if found[1] in _flags() else found[0]

    return re.sub(r"`([a-z_]+)=([^`]*)`", flag, text)


#: What the page calls its fields, by the argument of Python of which sentences speak.
_FIELDS = {
    "method_by": "methods",
    "dataset_by": "datasets",
    "repeats_by": "repeats",
    "folds_by": "folds",
    "children": "child runs",
    "duplicates": "runs that differ",
    "missing": "missing results",
    "minimize": "smaller is better",
    "maximize": "larger is better",
    "weights": "weights",
    "measures": "measures",
    "exclude_measures": "measures left out",
}


def in_fields(text: str) -> str:
    """The text with arguments of Python as fields of the page.

    >>> in_fields("`children='best:METRIC'` takes the best trial of each.")
    '“child runs: best:METRIC” takes the best trial of each.'
    """

    def field(found: re.Match[str]) -> str:
        return (
            f"“{_FIELDS[found[1]]}: {found[2].strip(_MARKS)}”" if found[1] in _FIELDS else found[0]
        )

    return re.sub(r"`([a-z_]+)=([^`]*)`", field, text)
