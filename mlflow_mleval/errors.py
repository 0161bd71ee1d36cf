"""The errors above the pure layers. The pure layers raise ValueError or TypeError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlflow_mleval.sentences import Message


class MlevalError(Exception):
    """Base of every error that a user can fix; the CLI prints its text as one line and exits with
    1.
    """


class NoRunsError(MlevalError):
    """The selection holds no run that can be used."""


class IncomparableRunsError(MlevalError):
    """The runs cannot be put into one table: mixed conventions, no measure in common, one method
    only.
    """


class CandidatesError(IncomparableRunsError):
    """Runs of one method on one dataset differ in more than their seed; `ways` says what can be
    done about it.

    Attributes
    ----------
    text : str
        What is the matter.
    ways : sequence of (str, dict)
        What it does, and the arguments of `load_study` to add.
    sure : bool
        Whether the first way may be proposed alone.
    """

    def __init__(
        self,
        text: str,
        ways: Sequence[tuple[str, Mapping[str, Any]]],
        sure: bool = True,
    ) -> None:
        self.text = text
        self.ways = ways
        self.sure = sure
        choices = (
            f"{', '.join(f'`{name}={value!r}`' for name, value in options.items())} to {what}"
            for what, options in ways
        )
        super().__init__(f"{text} Choose: {'; '.join(choices)}.")


class MissingResultsError(IncomparableRunsError):
    """Cells of the table methods x datasets are empty and no policy for them was chosen.

    Attributes
    ----------
    text : str
        What is the matter.
    ways : sequence of (str, dict)
        What it does, and the arguments of `load_study` to add; empty where none helps.
    """

    def __init__(
        self,
        text: str,
        ways: Sequence[tuple[str, Mapping[str, Any]]] = (),
        advice: str = "",
    ) -> None:
        self.text = text
        self.ways = ways
        super().__init__(Message(text, " ", advice) if advice else text)


class UnclearError(MlevalError):
    """Nobody said what to compare, and what there is does not tell.

    Attributes
    ----------
    text : str
        What is the matter.
    ways : sequence of Way
        What there is to do, with the command.
    """

    def __init__(self, text: str, ways: Sequence[Any]) -> None:
        self.text = text
        self.ways = ways
        commands = (f"{way.what}: `{way.line}`" for way in ways)
        super().__init__(Message(text, " Choose: ", "; ".join(commands)) if ways else text)


class MeasureError(MlevalError):
    """A measure is unknown, has no declared direction, or is not in the selected runs."""


class ImportFileError(MlevalError):
    """A file of results or predictions is malformed; the text names the row and the column."""


class StoreError(MlevalError):
    """The tracking store cannot be reached or refused what was asked."""
