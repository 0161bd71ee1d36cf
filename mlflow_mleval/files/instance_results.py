"""Files with a result an answer: tables with a column `instance`, and logs of other evaluation tools."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from mlflow_mleval.analysis.answers import Answers
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.answer_logs import is_answer_log, read_answer_log
from mlflow_mleval.files.reading import check_separator, columns_shown, reason, unreadable
from mlflow_mleval.naming import measure_name_problem, quoted, text_problem

INSTANCE = "instance"
_NAMES = ("method", "dataset", INSTANCE)
#: What else a table may say of an instance; every other column is a measure.
ABOUT = ("cluster", "asked", "link")


def holds_instances(path: str | Path) -> bool:
    """Whether the file holds a result an answer: a log, or a table with a column `instance`."""
    if is_answer_log(path):
        return True
    try:
        if str(path).endswith((".parquet", ".pq")):
            return INSTANCE in pq.read_schema(path).names
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            return INSTANCE in [cell.strip() for cell in next(csv.reader(file), [])]
    except (OSError, ValueError, csv.Error):  # whoever reads it in full says what is wrong
        return False


def read_instance_results(path: str | Path) -> dict[tuple[str, str], Answers]:
    """By method and data set, the answers in a file.

    A log holds one method. A table is CSV or parquet with the columns method, dataset and instance, and either one column a
    measure (wide) or the columns measure and value (long); the columns cluster, asked and link say more about an instance. An
    empty value is a missing one; an instance that occurs again is another answer to the same question.

    Raises
    ------
    ImportFileError
        The file is malformed; the text names the row and the column.
    """
    path = Path(path)
    if is_answer_log(path):
        method, dataset, answers = read_answer_log(path)
        return {(method, dataset): answers}
    table = _read(path)
    if lacking := [c for c in _NAMES if c not in table]:
        raise ImportFileError(f"{path.name} has no column {lacking[0]!r}; it has {columns_shown(list(table))}. Add it.")
    for column in _NAMES:
        for row, text in table[column].items():
            if problem := text_problem(text):
                raise ImportFileError(f"{path.name}, {_row(path, row)}, column {column!r}: {problem}.")
    long = {"measure", "value"} <= set(table)
    measures = sorted(set(table["measure"])) if long else [c for c in table if c not in (*_NAMES, *ABOUT)]
    for measure in measures:
        if problem := measure_name_problem(measure):
            raise ImportFileError(f"{path.name}, measure {quoted(measure)}: {problem}.")
    if not measures:
        raise ImportFileError(f"{path.name} has no column of a measure. Add one column a measure, or measure and value.")
    for column in ["value"] if long else measures:
        table[column] = _numbers(path, table[column])
    found = {}
    for (method, dataset), rows in table.groupby(["method", "dataset"], sort=False):
        if long:
            rows = _wide(path, rows, measures)
        index = pd.Index(rows[INSTANCE], name=INSTANCE, dtype=object)
        values = rows[[m for m in measures if rows[m].notna().any()]].set_axis(index)
        about = rows[[c for c in ABOUT if c in rows]].set_axis(index).assign(**{c: "" for c in ("link",) if c not in rows})
        about = about if "asked" in about else about.assign(asked=index)
        passing = tuple(m for m in values if values[m].dropna().isin([0.0, 1.0]).all())
        found[(method, dataset)] = Answers(values.astype(float), about, passing=passing)
    return found


def _read(path: Path) -> pd.DataFrame:
    """The table as text."""
    try:
        if str(path).endswith((".parquet", ".pq")):
            table = pd.read_parquet(path)
            return table.astype(object).where(table.notna(), "").astype(str)
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig", skipinitialspace=True)
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # pandas and pyarrow raise many kinds for a damaged file
        raise ImportFileError(f"{path.name} cannot be read: {reason(error)}.") from error
    check_separator(list(table), 1, path.name)
    return table.rename(columns=str.strip)


def _numbers(path: Path, column: pd.Series) -> pd.Series:
    found = pd.to_numeric(column.where(column.str.strip() != "", None), errors="coerce")
    bad = column[(found.isna() & (column.str.strip() != "")) | found.abs().eq(float("inf"))]
    if len(bad):
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        where = f"{path.name}, {_row(path, bad.index[0])}, column {quoted(column.name)}"
        raise ImportFileError(f"{where}: {quoted(bad.iloc[0])} is no finite number{more}. Leave the cell empty if there is none.")
    return found.astype(float)


def _row(path: Path, row: int) -> str:
    return f"row {row + 1}" if str(path).endswith((".parquet", ".pq")) else f"line {row + 2}"


def _wide(path: Path, rows: pd.DataFrame, measures: list[str]) -> pd.DataFrame:
    """A row an answer; the k-th value of a measure for an instance belongs to its k-th answer."""
    rows = rows.assign(_answer=rows.groupby([INSTANCE, "measure"]).cumcount())
    keys = [INSTANCE, "_answer"]
    values = rows.pivot(index=keys, columns="measure", values="value").reindex(columns=measures)
    about = rows.groupby(keys, sort=False)[[c for c in ABOUT if c in rows]].first()
    return about.join(values).reset_index()
