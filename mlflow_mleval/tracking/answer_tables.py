"""Tables among a run's artifacts, one row an answer: those of `mlflow.models.evaluate` and of
`mlflow.log_table`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

from mlflow_mleval.analysis.answers import PASS, Answers
from mlflow_mleval.naming import some
from mlflow_mleval.tracking import store
from mlflow_mleval.tracking.bounds import MAX_CELLS
from mlflow_mleval.tracking.fold_sources import artifact
from mlflow_mleval.tracking.traces import counted, digest, number, shown

#: What `mlflow.models.evaluate` writes, and how it marks the columns that hold scores.
EVALUATED, _SCORE = "eval_results_table.json", "/score"
#: Bytes of a table that is read, and characters of a question that is its own key.
_LARGEST, _SHORT = 500_000_000, 40
_Table: TypeAlias = tuple[pd.DataFrame, dict[str, str]]


def read_answer_tables(
    client: MlflowClient,
    runs: Mapping[str, Run],
    *,
    table: str | None = None,
    instance_by: str | None = None,
    measures: Sequence[str] | None = None,
    grades: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Answers | str]:
    """The answers of several runs, from a table that each of them holds, or why those of one cannot
    be read.

    Parameters
    ----------
    client : MlflowClient
    runs : mapping of str to Run
        By method.
    table : str, optional
        Path of the artifact. Default: what `mlflow.models.evaluate` writes.
    instance_by : str, optional
        The column that says which question a row is about. Default: all columns that hold the same
        values in all runs, which what a method answered does not.
    measures : sequence of str, optional
        Columns that are measures. Default: those that end in ``/score``; without any, all columns
        of numbers or of pass and fail.
    grades : mapping of str to sequence of str
        By measure, its categories from worst to best.

    Raises
    ------
    ValueError
        The tables do not say which of their rows are about the same question.
    """
    path, grades = table or EVALUATED, grades or {}
    read: dict[str, Answers | str] = {}
    tables: dict[str, _Table] = {}
    for method, run in runs.items():
        found = store.of_one_run(partial(_table, client, run, path, measures, grades, instance_by))
        if isinstance(found, str):
            read[method] = found
        else:
            tables[method] = found
    if not tables:
        return read
    scores = {name for _, columns in tables.values() for name in columns.values()}
    keys = _keys(
        {method: frame for method, (frame, _) in tables.items()}, scores, instance_by, path
    )
    for method, (frame, columns) in tables.items():
        read[method] = store.of_one_run(
            partial(_answers, runs[method], frame, columns, keys, grades)
        )
    return read


def _table(
    client: MlflowClient,
    run: Run,
    path: str,
    measures: Sequence[str] | None,
    grades: Mapping[str, Sequence[str]],
    instance_by: str | None,
) -> _Table:
    """The table of a run, and by measure the column that holds it."""
    found = artifact(client, run.info.run_id, path, read_frame)
    if not isinstance(found, pd.DataFrame):
        raise ValueError(f"its table {path} cannot be read: {found or 'it is not there'}")
    columns = _measures(found, measures, grades, instance_by)
    if not columns:
        advice = "Name measures, or declare their grades"
        raise ValueError(f"its table {path} has no column of numbers. {advice}")
    if instance_by is not None and instance_by not in found:
        raise ValueError(f"its table {path} has no column {instance_by!r}. Name another")
    return found, columns


def read_frame(path: Path) -> pd.DataFrame:
    """The table of a JSON file in split orientation.

    Raises
    ------
    ValueError
        It is damaged or too large.
    """
    if (size := path.stat().st_size) > _LARGEST:
        raise ValueError(f"it has {size:,} bytes, more than {_LARGEST:,}")
    try:
        found = json.loads(path.read_text("utf-8"))
        columns, data = [str(c) for c in found["columns"]], found["data"]
        if len(set(columns)) < len(columns) or any(len(row) != len(columns) for row in data):
            raise ValueError("its rows and columns do not fit")
    except (
        RecursionError,
        KeyError,
        TypeError,
        OverflowError,
        UnicodeDecodeError,
        json.JSONDecodeError,
    ) as error:
        raise ValueError(
            f"it is no table in split orientation ({' '.join(str(error).split())[:100]})"
        ) from error
    if len(columns) * len(data) > MAX_CELLS:
        raise ValueError(f"it has {len(data):,} rows, more than {MAX_CELLS // len(columns):,}")
    return pd.DataFrame(data, columns=columns, dtype=object)


def _measures(
    frame: pd.DataFrame,
    wanted: Sequence[str] | None,
    grades: Mapping[str, Sequence[str]],
    instance_by: str | None,
) -> dict[str, str]:
    """By measure the column that holds it."""
    scored = {c.removesuffix(_SCORE): c for c in frame if c.endswith(_SCORE)}
    if wanted is not None:
        return {m: column for m in wanted if (column := scored.get(m, m)) in frame}
    return scored or {
        c: c for c in frame if c != instance_by and (c in grades or _is_measure(frame[c]))
    }


def _is_measure(column: pd.Series) -> bool:
    known = [v for v in column if v is not None]
    return bool(known) and all(
        isinstance(v, bool | int | float) or (isinstance(v, str) and v.strip().lower() in PASS)
        for v in known
    )


def _keys(
    frames: Mapping[str, pd.DataFrame], scores: set[str], instance_by: str | None, path: str
) -> list[str]:
    """The columns that together say what was asked."""
    if instance_by is not None:
        return [instance_by]
    first, *others = frames.values()
    texts = {c: set(map(_text, first[c])) for c in first if c not in scores}
    same = [
        c
        for c, known in texts.items()
        if all(c in f and set(map(_text, f[c])) == known for f in others)
    ]
    if not same:
        raise ValueError(
            f"no column of the tables {path} holds the same values in all runs. Say which one "
            "names the instance."
        )
    return same


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def keys_of(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """By row a short name of its own, else a hash of all that was asked."""
    return [
        own
        if len(row) == 1 and len(own := str(row[0])) <= _SHORT
        else hashlib.sha256(
            "\0".join(map(_text, row)).encode("utf-8", "surrogatepass")
        ).hexdigest()[:16]
        for row in frame[[*columns]].itertuples(index=False, name=None)
    ]


def _answers(
    run: Run,
    frame: pd.DataFrame,
    columns: Mapping[str, str],
    keys: Sequence[str],
    grades: Mapping[str, Sequence[str]],
) -> Answers:
    rows = [*frame[[*keys]].itertuples(index=False, name=None)]
    index = pd.Index(keys_of(frame, keys), name="instance", dtype=object)
    asked = [shown(row[0] if len(keys) == 1 else dict(zip(keys, row, strict=True))) for row in rows]
    values, passing = {}, []
    for measure, column in columns.items():
        found = [
            (np.nan, True) if v is None else number(v, grades.get(measure)) for v in frame[column]
        ]
        if unclear := [
            v for v, (size, _) in zip(frame[column], found, strict=True) if size is None
        ]:
            raise ValueError(f"{measure} holds {some(map(_text, unclear), 5)}: declare its grades")
        values[measure] = [size for size, _ in found]
        if all(passes for _, passes in found):
            passing.append(measure)
    about = frame[[c for c in frame if c not in columns.values()]]
    about = about.astype(object).where(about.notna(), "").astype(str).set_axis(index)
    return Answers(
        pd.DataFrame(values, index=index, dtype=float),
        about.assign(link="", asked=asked),
        digest(run),
        counted(run),
        passing=tuple(passing),
    )
