"""What methods put out and what was expected of them, answer by answer, as a run recorded it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run, Trace

from mlflow_mleval.analysis.answers import MOST_LOST
from mlflow_mleval.errors import MissingResultsError
from mlflow_mleval.naming import some
from mlflow_mleval.tracking.answer_tables import EVALUATED, keys_of, read_frame
from mlflow_mleval.tracking.fold_sources import artifact
from mlflow_mleval.tracking.traces import (
    INPUTS,
    OUTPUTS,
    asked_of,
    belongs,
    counted,
    is_evaluated,
    key_of,
    traces_of,
)
from mlflow_mleval.validation import present

EXPECTATIONS = "expectations"


@dataclass(frozen=True)
class RawAnswers:
    """The answers of one run, in the order of their questions' keys, so that runs on the same
    questions agree in it.

    Attributes
    ----------
    outputs, expected : list
        As they were recorded.
    counted : int, optional
        How many answers were scored; there are fewer where some were lost.
    """

    outputs: list[Any]
    expected: list[Any]
    counted: int | None


def read_raw_answers(
    client: MlflowClient,
    run: Run,
    predicted: str = OUTPUTS,
    expected: str = EXPECTATIONS,
    *,
    table: str | None = None,
    instance_by: str | None = None,
) -> RawAnswers:
    """What a run put out and what was expected, from its traces or a table.

    Parameters
    ----------
    client : MlflowClient
    run : Run
    predicted, expected : str
        Of traces ``outputs`` and ``expectations``, or one key of them: ``outputs.labels``,
        ``expectations.labels``; of a table the names of two columns.
    table : str, optional
        Path of a table among the artifacts. Default: the traces, or the table of
        `mlflow.models.evaluate`.
    instance_by : str, optional
        The input, tag or column that says which question it is. Default: all that was asked; of a
        table the order of its rows.

    Raises
    ------
    ValueError
        The run holds no answers, or not what was named.
    MissingResultsError
        More than a twentieth of the answers is lost.
    """
    if table is None and is_evaluated(run):
        rows = _from_traces(client, run, predicted, expected, instance_by)
    else:
        rows = _from_table(client, run, predicted, expected, table or EVALUATED, instance_by)
    if not rows:
        raise ValueError("it holds no answers")
    n = counted(run)
    if n and len(rows) < n * (1 - MOST_LOST):
        raise MissingResultsError(
            f"run {run.info.run_id} counted {n:,} answers, and the store holds {len(rows):,}. "
            "What is left may differ from what is lost. Evaluate again."
        )
    rows.sort(key=lambda row: row[0])
    _, outputs, wanted = zip(*rows, strict=True)
    return RawAnswers([*outputs], [*wanted], n)


def _from_traces(
    client: MlflowClient, run: Run, predicted: str, expected: str, instance_by: str | None
) -> list[tuple[Any, Any, Any]]:
    asked, rows = asked_of(run), []
    for trace, (inputs, outputs) in traces_of(client, run, (INPUTS, OUTPUTS)):
        known = {OUTPUTS: outputs, EXPECTATIONS: _expectations(trace, run)}
        key = key_of(trace, asked(inputs), instance_by)
        if key is None:
            raise ValueError(
                f"its trace {trace.info.trace_id} has no input and no tag {instance_by!r}"
            )
        rows.append(
            ((key, trace.info.request_time), _part(known, predicted), _part(known, expected))
        )
    return rows


def _expectations(trace: Trace, run: Run) -> dict[str, Any]:
    found = (
        a
        for a in trace.info.assessments or ()
        if a.expectation is not None and a.valid is not False
    )
    return {a.name: present(a.expectation).value for a in found if belongs(a, run)}


def _part(known: Mapping[str, Any], path: str) -> Any:
    """The outputs or the expectations, or one key of them; the only expectation there is stands for
    all.
    """
    root, _, key = path.partition(".")
    if root not in known:
        raise ValueError(
            f"traces have {OUTPUTS} and {EXPECTATIONS}, or keys of them such as "
            f"{OUTPUTS}.labels, not {path!r}"
        )
    value = known[root]
    if key:
        return value.get(key) if isinstance(value, Mapping) else None
    if root == EXPECTATIONS and len(value) > 1:
        raise ValueError(
            "its traces have several expectations: say which, as in "
            f"{EXPECTATIONS}.{next(iter(value))}"
        )
    return next(iter(value.values()), None) if root == EXPECTATIONS else value


def _from_table(
    client: MlflowClient,
    run: Run,
    predicted: str,
    expected: str,
    path: str,
    instance_by: str | None,
) -> list[tuple[Any, Any, Any]]:
    found = artifact(client, run.info.run_id, path, read_frame)
    if not isinstance(found, pd.DataFrame):
        raise ValueError(f"its table {path} cannot be read: {found or 'it is not there'}")
    columns = [predicted, expected, *([instance_by] if instance_by else [])]
    if lacking := [c for c in columns if c not in found]:
        raise ValueError(
            f"its table {path} has no column {some(map(repr, lacking))}; it has {some(found, 8)}"
        )
    keys: Sequence[Any] = (
        range(len(found)) if instance_by is None else keys_of(found, [instance_by])
    )
    return [*zip(keys, found[predicted], found[expected], strict=True)]
