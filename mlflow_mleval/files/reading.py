"""What the readers of files share: the rows of CSV, and how errors show what is in a file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.naming import quoted


def csv_rows(lines: Iterable[str], line: int, name: str) -> Iterator[tuple[int, list[str]]]:
    """Line and stripped cells of each row, the first in this line; an empty line has no cells."""
    reader = csv.reader(lines, strict=True)
    while True:
        at = line + reader.line_num
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            reason = "a quote is opened and never closed" if "end of data" in str(error) else str(error)
            raise ImportFileError(f"{name}, line {at}: {reason}.") from error
        yield at, cells if any(cells) or len(cells) > 1 else []


def check_separator(header: Sequence[str], line: int, name: str) -> None:
    """Raise where another separator than the comma seems to stand in the header."""
    if len(header) == 1 and (other := next((c for c in ";\t|" if c in header[0]), None)):
        raise ImportFileError(f"{name}, line {line}: the separator seems to be {other!r}. Separate columns by commas.")


def unreadable(path: str | Path, error: OSError) -> ImportFileError:
    """The error of a file that the system does not let us read."""
    return ImportFileError(f"cannot read {str(path)!r}: {error.strerror or error}.")


def reason(error: Exception) -> str:
    """The text of an error of a library, short enough to be part of a sentence."""
    return " ".join(str(error).split())[:200].rstrip(".")


def columns_shown(header: Sequence[str]) -> str:
    """The first columns of a table that lacks others."""
    return ", ".join(map(quoted, header[:8])) + (" …" if len(header) > 8 else "")
