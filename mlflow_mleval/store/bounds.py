"""What one run carries, held to bounds before memory is taken for it: JSON in tags, and tables
among artifacts.

Anybody may write anything into a run. Whatever is refused here is refused with a ValueError that
says why.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mlflow_mleval.sentences import MAX_TAG, quoted, some

#: Brackets within each other; what this package writes has four at most.
MAX_DEPTH = 20
#: Digits of a whole number: more are no 64-bit integer.
MAX_DIGITS = 18
#: Cells of a table that is read at once, bytes of a CSV file, and bytes of all names of a column.
MAX_CELLS, MAX_CSV, MAX_NAMES = 20_000_000, 64_000_000, 200_000_000
#: Larger numbers are no results: their squares and sums are beyond what a float can hold.
LARGEST = 1e150
_TEXT, _NO_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL), re.compile(r"[^][{}]+")
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}
#: Only such text can hold numbers that are too large; all other is spared the slower way.
_LARGE = re.compile(rf"\d[eE]|\d{{{MAX_DIGITS + 1}}}")


def bounded_json(text: str, longest: int = MAX_TAG) -> Any:
    """The content of JSON text: finite numbers, integers of 64 bits, few brackets within each
    other.

    Raises
    ------
    ValueError
        Anything else.

    >>> bounded_json('{"folds": [1, 2]}')
    {'folds': [1, 2]}
    >>> bounded_json("[1, Infinity]")
    Traceback (most recent call last):
    ValueError: Infinity is no finite number
    """
    if len(text) > longest:
        raise ValueError(f"it has {len(text):,} characters, more than {longest:,}")
    bare = _TEXT.sub('""', text)
    depth = max(accumulate(_STEP[char] for char in _NO_BRACKETS.sub("", bare)), default=0)
    if depth > MAX_DEPTH:
        raise ValueError(f"{depth:,} brackets are open within each other, more than {MAX_DEPTH}")
    numbers: dict[str, Any] = {}
    if _LARGE.search(bare):
        numbers = {"parse_int": _whole, "parse_float": _finite}
    return json.loads(text, parse_constant=_finite, **numbers)


def computable(value: float) -> bool:
    """Whether sums and squares of such values are numbers.

    >>> computable(-0.5), computable(1e308), computable(float("nan"))
    (True, False, False)
    """
    return abs(value) <= LARGEST


def whole_numbers(values: Any, least: int = -(2**63)) -> list[int]:
    """The values as they are, if they are a list of whole numbers of at least `least`."""
    if not isinstance(values, list) or any(type(v) is not int or v < least for v in values):
        raise ValueError(
            f"{quoted(values)} are no whole numbers"
            + (f" from {least}" if least > -(2**63) else "")
        )
    return values


def read_table(
    path: str | Path, columns: Collection[str], names: Collection[str] = ()
) -> pd.DataFrame:
    """Columns of numbers, and of names as text, of a parquet or CSV file; numbers may be missing,
    but not infinite.

    Raises
    ------
    ValueError
        The file is damaged or too large, or lacks a column, or one holds something else.
    """
    wanted = [*names, *columns]
    if Path(path).suffix == ".csv":
        table = _read_csv(path, wanted)
    else:
        file = open_parquet(path, wanted, names)
        table = decoded(lambda: plain_names(file.read(wanted), names).to_pandas())
    for name in columns:
        table[name] = _numbers(table[name], name)
    return table.astype(dict.fromkeys(names, str))


def open_parquet(
    path: str | Path, columns: Sequence[str], names: Collection[str] = ()
) -> pq.ParquetFile:
    """A parquet file whose columns can be read: its head says how much they hold, and no row is
    read for it.

    Names are read as a dictionary: a name that is repeated a million times takes its room once.
    """
    file = decoded(lambda: pq.ParquetFile(path, read_dictionary=list(names)))
    schema, rows = file.schema_arrow, file.metadata.num_rows
    if lacking := [name for name in columns if len(schema.get_all_field_indices(name)) != 1]:
        raise ValueError(f"it has no column {some(lacking)}, or more than one")
    if rows * len(columns) > MAX_CELLS:
        raise ValueError(f"it has {rows:,} rows, more than {MAX_CELLS // len(columns):,}")
    for name in columns:
        kind = schema.field(name).type
        number = (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        )
        if not (
            number
            or (
                name in names
                and pa.types.is_dictionary(kind)
                and pa.types.is_string(kind.value_type)
            )
        ):
            raise ValueError(f"its column {name} is of type {str(kind)[:40]}")
    return file


def plain_names(table: pa.Table, names: Collection[str]) -> pa.Table:
    """The table with names as plain text, if there is room for them."""
    for name in names:
        place, column = table.schema.get_field_index(name), table[name]
        if not pa.types.is_dictionary(column.type):
            continue
        chunks = column.chunks
        size = sum(
            pc.sum(pc.take(pc.binary_length(c.dictionary), c.indices)).as_py() or 0 for c in chunks
        )
        if size > MAX_NAMES:
            raise ValueError(
                f"the names in its column {name} take {size:,} bytes, more than {MAX_NAMES:,}"
            )
        table = table.set_column(place, name, column.cast(column.type.value_type))
    return table


def decoded(read: Any) -> Any:
    """What is read from a file; a ValueError where it is damaged."""
    try:
        return read()
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as error:
        raise ValueError(f"it is damaged: {' '.join(str(error).split())[:200]}") from error


def _read_csv(path: str | Path, columns: Sequence[str]) -> pd.DataFrame:
    if (size := Path(path).stat().st_size) > MAX_CSV:
        raise ValueError(f"it has {size:,} bytes, more than {MAX_CSV:,}")
    table = decoded(
        lambda: pd.read_csv(path, usecols=lambda name: name in columns, keep_default_na=True)
    )
    if lacking := [name for name in columns if name not in table]:
        raise ValueError(f"it has no column {some(lacking)}")
    return table[list(columns)]


def _numbers(column: pd.Series, name: str) -> pd.Series:
    if not pd.api.types.is_numeric_dtype(column):
        raise ValueError(f"its column {name} holds something else than numbers")
    if (np.abs(column.to_numpy(float)) > LARGEST).any():
        raise ValueError(f"its column {name} holds a number that is infinite or too large")
    return column


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(
            f"a whole number has {len(digits.lstrip('-')):,} digits, more than {MAX_DIGITS}"
        )
    return int(digits)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no finite number")
    if not computable(value):
        raise ValueError(f"{text[:40]} is too large")
    return value
