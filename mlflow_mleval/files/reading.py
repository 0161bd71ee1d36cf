"""What the readers of files share: what they give, the rows of CSV, and how errors show what is in
a file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.naming import quoted

#: Called with how much is read and how much there is.
Progress = Callable[[int, int], None]
#: The column of the fold.
FOLD = "fold"


@dataclass(frozen=True)
class PredictionFile:
    """What a file holds."""

    names: tuple[Any, ...]  # the K labels, or the classes of class sets
    inputs: tuple[str, ...]  # what each batch holds beside the truth: y_score, y_pred; or pred_sets
    ignored: tuple[str, ...]  # columns that are not used
    batches: Iterator[
        dict[str, Any]
    ]  # arguments of `evaluate`, or of `evaluate_hierarchical`, some rows at a time; read once


def fold_name(text: str) -> int | str:
    """The name of a fold: a number where it looks like one."""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else text


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
            reason = (
                "a quote is opened and never closed" if "end of data" in str(error) else str(error)
            )
            raise ImportFileError(f"{name}, line {at}: {reason}.") from error
        yield at, cells if any(cells) or len(cells) > 1 else []


def check_separator(header: Sequence[str], line: int, name: str) -> None:
    """Raise where another separator than the comma seems to stand in the header."""
    if len(header) == 1 and (other := next((c for c in ";\t|" if c in header[0]), None)):
        raise ImportFileError(
            f"{name}, line {line}: the separator seems to be {other!r}. Separate columns by commas."
        )


def unreadable(path: str | Path, error: OSError) -> ImportFileError:
    """The error of a file that the system does not let us read."""
    return ImportFileError(f"cannot read {str(path)!r}: {error.strerror or error}.")


def reason(error: Exception) -> str:
    """The text of an error of a library, short enough to be part of a sentence."""
    return " ".join(str(error).split())[:200].rstrip(".")


def columns_shown(header: Sequence[str]) -> str:
    """The first columns of a table that lacks others."""
    return ", ".join(map(quoted, header[:8])) + (" …" if len(header) > 8 else "")
