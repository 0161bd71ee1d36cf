"""Files with a result an answer: tables with a column `instance`, and logs of other evaluation
tools.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from mlflow_mleval.analysis.answers import PASS, Answers
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.answer_logs import is_answer_log, read_answer_log
from mlflow_mleval.files.reading import check_separator, columns_shown, reason, unreadable
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.naming import measure_name_problem, quoted, some, text_problem

INSTANCE = "instance"
_NAMES = ("method", "dataset", INSTANCE)
#: What else a table may say of an instance, whatever it holds.
ABOUT = ("cluster", "asked", "link")
_LONG = ("measure", "value")


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

    A log holds one method. A table is CSV or parquet with the columns method, dataset and instance,
    and either one column a measure (wide) or the columns measure and value (long). Numbers, true
    and false, yes and no, pass and fail are values. The columns cluster, asked and link, in wide
    tables those that hold text alone, and in long ones all others say more about an instance. An
    empty value is a missing one; an instance that occurs again is another answer to the same
    question.

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
        raise ImportFileError(
            f"{path.name} has no column {lacking[0]!r}; it has {columns_shown(list(table))}. Add "
            "it."
        )
    for column in _NAMES:
        for row, text in table[column].items():
            if problem := text_problem(text):
                raise ImportFileError(
                    f"{path.name}, {_row(path, row)}, column {column!r}: {problem}."
                )
    long = set(_LONG) <= set(table)
    others = [c for c in table if c not in (*_NAMES, *ABOUT, *(_LONG if long else ()))]
    texts = others if long else [c for c in others if _is_text(table[c])]
    about_columns = [c for c in table if c in (*ABOUT, *texts)]
    measures = sorted(set(table["measure"])) if long else [c for c in others if c not in texts]
    for measure in measures:
        if problem := measure_name_problem(measure):
            raise ImportFileError(f"{path.name}, measure {quoted(measure)}: {problem}.")
    if not measures:
        text = f" ({some(map(quoted, texts))} holds text)" if texts else ""
        raise ImportFileError(
            f"{path.name} has no column of a measure{text}. Add one column a measure, or measure "
            "and value."
        )
    for column in ["value"] if long else measures:
        table[column] = _numbers(path, table[column])
    found = {}
    for (method, dataset), rows in table.groupby(["method", "dataset"], sort=False):
        if long:
            rows = _wide(path, rows, measures, about_columns)
        index = pd.Index(rows[INSTANCE], name=INSTANCE, dtype=object)
        values = rows[[m for m in measures if rows[m].notna().any()]].set_axis(index)
        about = rows[[c for c in about_columns if c in rows]].set_axis(index)
        about = about if "link" in about else about.assign(link="")
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
        table = pd.read_csv(
            path, dtype=str, keep_default_na=False, encoding="utf-8-sig", skipinitialspace=True
        )
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # pandas and pyarrow raise many kinds for a damaged file
        raise ImportFileError(f"{path.name} cannot be read: {reason(error)}.") from error
    check_separator(list(table), 1, path.name)
    return table.rename(columns=str.strip)


def _is_text(column: pd.Series) -> bool:
    """Whether a column describes the instances: it holds text, and no cell that is, or was meant
    as, a value of a measure.
    """
    cells = column[column.str.strip() != ""].str.strip()
    meant = (
        cells.str.fullmatch(r"[-+]?[\d.,]*\d[\d.,eE+-]*%?|[-+]?inf(inity)?|nan", case=False)
        | _passed(cells).notna()
    )
    return len(cells) > 0 and not meant.any() and column.name not in MEASURES


def _passed(cells: pd.Series) -> pd.Series:
    """1 and 0 of pass and fail, yes and no, true and false."""
    return cells.str.strip().str.lower().map(PASS)


def _numbers(path: Path, column: pd.Series) -> pd.Series:
    found = pd.to_numeric(column.where(column.str.strip() != "", None), errors="coerce").fillna(
        _passed(column)
    )
    bad = column[(found.isna() & (column.str.strip() != "")) | found.abs().eq(float("inf"))]
    if len(bad):
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        where = f"{path.name}, {_row(path, bad.index[0])}, column {quoted(column.name)}"
        raise ImportFileError(
            f"{where}: {quoted(bad.iloc[0])} is no finite number{more}. Leave the cell empty if "
            "there is none; call the column cluster if it is no measure and says which instances "
            "belong together, otherwise remove it."
        )
    return found.astype(float)


def _row(path: Path, row: int) -> str:
    return f"row {row + 1}" if str(path).endswith((".parquet", ".pq")) else f"line {row + 2}"


def _wide(
    path: Path, rows: pd.DataFrame, measures: list[str], about_columns: list[str]
) -> pd.DataFrame:
    """A row an answer; the k-th value of a measure for an instance belongs to its k-th answer.

    What rows of an answer do not agree in describes their values, and is left out; clusters must
    agree.
    """
    rows = rows.assign(_answer=rows.groupby([INSTANCE, "measure"]).cumcount())
    keys = [INSTANCE, "_answer"]
    values = rows.pivot(index=keys, columns="measure", values="value").reindex(columns=measures)
    cells = rows[about_columns]
    filled = rows[keys].join(cells.where(cells.apply(lambda column: column.str.strip() != "")))
    several = filled.groupby(keys, sort=False)[about_columns].nunique() > 1
    if "cluster" in several and len(wrong := several.index[several["cluster"]]):
        raise ImportFileError(
            f"{path.name}: the instances {some((key for key, _ in wrong), 5)} are in several "
            "clusters. Put each into one."
        )
    agreed = [c for c in about_columns if c in ("asked", "link") or not several[c].any()]
    about = filled.groupby(keys, sort=False)[agreed].first().fillna("")
    return about.join(values).reset_index()
