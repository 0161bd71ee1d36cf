"""The errors above the pure layers. The pure layers raise ValueError or TypeError."""

from __future__ import annotations


class MlevalError(Exception):
    """Base of every error that a user can fix; the CLI prints its text as one line and exits with 1."""


class NoRunsError(MlevalError):
    """The selection holds no run that can be used."""


class IncomparableRunsError(MlevalError):
    """The runs cannot be put into one table: mixed conventions, no measure in common, one method only."""


class MissingResultsError(IncomparableRunsError):
    """Cells of the table methods x datasets are empty and no policy for them was chosen."""


class MeasureError(MlevalError):
    """A measure is unknown, has no declared direction, or is not in the selected runs."""


class ImportFileError(MlevalError):
    """A file of results or predictions is malformed; the text names the row and the column."""


class StoreError(MlevalError):
    """The tracking store cannot be reached or refused what was asked."""
