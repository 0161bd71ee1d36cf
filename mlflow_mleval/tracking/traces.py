"""Runs of `mlflow.genai.evaluate`, answer by answer: a trace is an instance, its assessments are
measures.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Assessment, Run, Trace

from mlflow_mleval.analysis.answers import PASS, Answers, unclear
from mlflow_mleval.naming import some
from mlflow_mleval.tracking.bounds import bounded_json, computable

#: Traces that one request brings.
PAGE = 500
#: What a trace was given, and what it gave.
INPUTS, OUTPUTS = "inputs", "outputs"
#: MLflow cuts the inputs in a trace's metadata here.
CUT = 250
#: Characters of a question that a table shows.
_ASKED = 200


def is_evaluated(run: Run) -> bool:
    """Whether `mlflow.genai.evaluate` made the run."""
    return run.data.tags.get("mlflow.runType") == "genai_evaluate"


def read_traces(
    client: MlflowClient,
    run: Run,
    *,
    instance_by: str | None = None,
    grades: Mapping[str, Sequence[str]] | None = None,
    most: int | None = None,
) -> Answers:
    """The answers of one run, from its traces, in the order in which they were given.

    Parameters
    ----------
    client : MlflowClient
    run : Run
    instance_by : str, optional
        The input, or tag of the trace, whose value says which question it is. Default: a hash of
        all inputs.
    grades : mapping of str to sequence of str
        By measure, its categories from worst to best; they count 0, 1, 2 and so on.
    most : int, optional
        Traces to be read.

    Raises
    ------
    ValueError
        The run has no trace with assessments, or more than `most`, or one that does not tell
        `instance_by`.
    """
    rows, notes = [], []
    versions: dict[str, set[str]] = defaultdict(set)
    words: dict[str, Counter[str]] = defaultdict(Counter)
    passing: dict[str, bool] = {}
    asked = asked_of(run)
    for trace, (inputs,) in traces_of(client, run, (INPUTS,), most):
        inputs = asked(inputs)
        key = key_of(trace, inputs, instance_by)
        if key is None:
            raise ValueError(
                f"its trace {trace.info.trace_id} has no input and no tag {instance_by!r}. Name "
                "another."
            )
        row: dict[str, list[float]] = defaultdict(list)
        for assessment in trace.info.assessments or ():
            if (
                assessment.feedback is None
                or assessment.valid is False
                or not belongs(assessment, run)
            ):
                continue
            name = _name(assessment)
            versions[name].add(
                (assessment.metadata or {}).get("mlflow.assessment.scorerDigest", "")
            )
            value = assessment.feedback.value
            if assessment.feedback.error is not None or value is None:
                row[name].append(np.nan)
                continue
            for part, single in value.items() if isinstance(value, dict) else [("", value)]:
                measure = f"{name}/{part}" if part else name
                size, passes = number(single, (grades or {}).get(measure))
                if size is None:
                    words[measure][str(single)] += 1
                    continue
                row[measure].append(size)
                passing[measure] = passing.get(measure, True) and passes
        means = {measure: _mean(values) for measure, values in row.items()}
        plain = (
            {k: v for k, v in inputs.items() if isinstance(v, str | int | float | bool)}
            if isinstance(inputs, dict)
            else {}
        )
        told = {
            **{k: _short(str(v)) for k, v in plain.items()},
            "link": trace.info.trace_id,
            "asked": shown(inputs),
        }
        rows.append(((trace.info.request_time, trace.info.trace_id), key, means, told))
    rows.sort(key=lambda row: row[0])
    _, keys, scored, about = zip(*rows, strict=True) if rows else ((), (), (), ())
    index = pd.Index(keys, name="instance", dtype=object)
    values = pd.DataFrame([*scored], index=index, dtype=float)
    if values.empty:
        raise ValueError("none of its traces has an assessment by a scorer")
    for measure, found in words.items():
        values = values.drop(columns=measure, errors="ignore")
        notes.append(unclear(measure, [*found]))
    return Answers(
        values,
        pd.DataFrame([*about], index=index),
        digest(run),
        counted(run),
        {m: some(sorted(v - {""})) for m, v in versions.items()},
        tuple(m for m in values if passing.get(m, False)),
        tuple(notes),
    )


def _short(text: str) -> str:
    """Text of bounded length; what is cut ends with a digest, so that passages that begin alike
    stay different.

    >>> _short("short"), len(_short("long" * 100)), _short("a" * 300 + "b") == _short("a" * 300 + "c")
    ('short', 209, False)
    """  # noqa: E501
    if len(text) <= _ASKED:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{text[:_ASKED]}…{digest}"


def traces_of(
    client: MlflowClient, run: Run, parts: Sequence[str] = (INPUTS,), most: int | None = None
) -> Iterator[tuple[Trace, list[Any]]]:
    """Each trace with its full inputs, or other parts, a page in memory at a time.

    A page comes with its spans only where the metadata have cut a part of some trace in it, or in
    the page before.

    Raises
    ------
    ValueError
        There are more than `most`, or inputs are cut and the spans that held them are lost.
    """
    token, spans, n = None, False, 0
    lost: list[str] = []
    while True:
        search = partial(
            client.search_traces,
            locations=[run.info.experiment_id],
            run_id=run.info.run_id,
            max_results=PAGE,
            page_token=token,
        )
        page = search(include_spans=spans)
        known = [[_whole(trace, part) for part in parts] for trace in page]
        cut = any(value is None for values in known for value in values)
        if cut and not spans:
            page = search(include_spans=True)
            known = [[_whole(trace, part) for part in parts] for trace in page]
        if most is not None and (n := n + len(page)) > most:
            raise ValueError(f"it holds more answers than the {most:,} that are read here.")
        for trace, values in zip(page, known, strict=True):
            if any(value is None for value in values):
                root = next((s for s in trace.data.spans if s.parent_id is None), None)
                values = values if root is None else [getattr(root, part) for part in parts]
            if INPUTS in parts and values[parts.index(INPUTS)] is None:
                lost.append(trace.info.trace_id)
            yield trace, values
        if not (token := page.token):
            break
        spans = cut
    if lost:
        raise ValueError(
            f"the inputs of {len(lost):,} traces are cut, and their spans are not there "
            f"({some(lost, 3)})"
        )


def _whole(trace: Trace, part: str) -> Any:
    """A part in the metadata; None where it is not there in full."""
    text = trace.info.trace_metadata.get(f"mlflow.trace{part.capitalize()}", "")
    if not 0 < len(text) < CUT:
        return None
    try:
        return bounded_json(text)
    except ValueError:
        return None


def asked_of(run: Run) -> Callable[[Any], Any]:
    """What takes from the inputs of a trace those that the data hold: defaults of the function
    belong to the method.
    """
    names = _inputs_of_data(run)

    def asked(inputs: Any) -> Any:
        holds = names and isinstance(inputs, dict) and names <= inputs.keys()
        return {name: inputs[name] for name in sorted(names)} if holds else inputs

    return asked


def key_of(trace: Trace, inputs: Any, instance_by: str | None) -> str | None:
    """Which question a trace answers."""
    if instance_by is not None:
        own = inputs.get(instance_by) if isinstance(inputs, dict) else None
        own = trace.info.tags.get(instance_by) if own is None else own
        return None if own is None else str(own)
    text = json.dumps(inputs, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def shown(inputs: Any) -> str:
    if isinstance(inputs, dict) and len(inputs) == 1:
        (inputs,) = inputs.values()
    text = (
        inputs if isinstance(inputs, str) else json.dumps(inputs, ensure_ascii=False, default=str)
    )
    return text if len(text) <= _ASKED else f"{text[: _ASKED - 1]}…"


def belongs(assessment: Assessment, run: Run) -> bool:
    """Whether it belongs to this evaluation: a trace that is evaluated again keeps what others said
    of it.
    """
    return (assessment.metadata or {}).get("mlflow.assessment.sourceRunId") in (
        None,
        run.info.run_id,
    )


def _name(assessment: Assessment) -> str:
    return (
        f"{assessment.name} (human)"
        if assessment.source.source_type == "HUMAN"
        else assessment.name
    )


def number(value: Any, grades: Sequence[str] | None) -> tuple[float | None, bool]:
    """The number that an assessment stands for, and whether it is pass or fail."""
    if grades is not None:
        return (float(grades.index(str(value))) if str(value) in grades else None), False
    if isinstance(value, bool | str):
        found = PASS.get(value.strip().lower() if isinstance(value, str) else value)
        return found, found is not None
    if isinstance(value, int | float):
        return (float(value) if computable(value) else np.nan), False
    return None, False


def _mean(values: list[float]) -> float:
    known = [v for v in values if not np.isnan(v)]
    return sum(known) / len(known) if known else np.nan


def digest(run: Run) -> str:
    return "+".join(d.dataset.digest for d in run.inputs.dataset_inputs) if run.inputs else ""


def _inputs_of_data(run: Run) -> set[str]:
    """The inputs that the data hold; a trace also records the defaults of the function, which
    belong to the method.
    """
    for given in run.inputs.dataset_inputs if run.inputs else ():
        with suppress(ValueError, AttributeError, TypeError, KeyError):
            columns = bounded_json(given.dataset.schema or "{}", 1_000_000)["mlflow_colspec"]
            return {
                name
                for column in columns
                if column["name"] == "inputs"
                for name in column["properties"]
            }
    return set()


def counted(run: Run) -> int | None:
    """The rows of the data that was evaluated, as MLflow wrote them down."""
    for given in run.inputs.dataset_inputs if run.inputs else ():
        with suppress(ValueError, AttributeError):
            rows = bounded_json(given.dataset.profile or "{}").get("num_rows")
            if type(rows) is int:
                return rows
    return None
