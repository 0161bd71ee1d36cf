"""Tables among a run's artifacts, one row an answer: those of `mlflow.models.evaluate` and of
`mlflow.log_table`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Assessment, Run, Trace

from mlflow_mleval.analysis.answer_comparison import PASS, Answers, unclear
from mlflow_mleval.sentences import some
from mlflow_mleval.store import store
from mlflow_mleval.store.bounds import MAX_CELLS, bounded_json, computable
from mlflow_mleval.store.searches import artifact

# --------------------------------------------------------------------------------------------------
# Runs of `mlflow.genai.evaluate`, answer by answer: a trace is an instance, its assessments are
# measures.

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
    rows, scores = [], _Scores(run, grades or {})
    asked = asked_of(run)
    for trace, (inputs,) in traces_of(client, run, (INPUTS,), most):
        inputs = asked(inputs)
        key = key_of(trace, inputs, instance_by)
        if key is None:
            raise ValueError(
                f"its trace {trace.info.trace_id} has no input and no tag {instance_by!r}. Name "
                "another."
            )
        about = {
            "link": trace.info.trace_id,
            "asked": shown(inputs),
            "output": _output(trace),
            "address": _address(trace, run),
        }
        when = trace.info.request_time, trace.info.trace_id
        rows.append((when, key, scores.means(trace), _plain_inputs(inputs) | about))
    rows.sort(key=lambda row: row[0])
    index = pd.Index([key for _, key, _, _ in rows], name="instance", dtype=object)
    values = pd.DataFrame([means for _, _, means, _ in rows], index=index, dtype=float)
    if values.empty:
        raise ValueError("none of its traces has an assessment by a scorer")
    values = values.drop(columns=[m for m in scores.words if m in values])
    return Answers(
        values,
        pd.DataFrame([about for _, _, _, about in rows], index=index),
        digest(run),
        counted(run),
        {m: some(sorted(digests - {""})) for m, digests in scores.versions.items()},
        tuple(m for m in values if scores.passing.get(m, False)),
        tuple(unclear(measure, [*texts]) for measure, texts in scores.words.items()),
    )


def _output(trace: Trace) -> str:
    """The beginning of what a trace put out, as it is shown."""
    text = trace.info.response_preview or ""
    try:
        return shown(bounded_json(text))
    except ValueError:  # MLflow has cut it, or it is plain text
        return shown(text)


def _address(trace: Trace, run: Run) -> str:
    """Where MLflow's UI shows the trace; empty where no server is known."""
    server = store.server_address()
    if server is None:
        return ""
    where = f"experiments/{quote(run.info.experiment_id, safe='')}/traces"
    return f"{server}/#/{where}?selectedEvaluationId={quote(trace.info.trace_id, safe='')}"


class _Scores:
    """What scorers said of the traces of a run.

    `versions` has the digests of the scorers by measure, `words` values that are no numbers, and
    `passing` whether all values of a measure are pass or fail.
    """

    def __init__(self, run: Run, grades: Mapping[str, Sequence[str]]) -> None:
        self.run, self.grades = run, grades
        self.versions: dict[str, set[str]] = defaultdict(set)
        self.words: dict[str, Counter[str]] = defaultdict(Counter)
        self.passing: dict[str, bool] = {}

    def means(self, trace: Trace) -> dict[str, float]:
        """The mean by measure over the assessments of a trace that belong to the run."""
        values: dict[str, list[float]] = defaultdict(list)
        for assessment in trace.info.assessments or ():
            feedback = assessment.feedback
            if feedback is None or assessment.valid is False or not belongs(assessment, self.run):
                continue
            name, metadata = _name(assessment), assessment.metadata or {}
            self.versions[name].add(metadata.get("mlflow.assessment.scorerDigest", ""))
            if feedback.error is not None or feedback.value is None:
                values[name].append(np.nan)
                continue
            for measure, value in _parts(name, feedback.value).items():
                size, passes = number(value, self.grades.get(measure))
                if size is None:
                    self.words[measure][str(value)] += 1
                    continue
                values[measure].append(size)
                self.passing[measure] = self.passing.get(measure, True) and passes
        return {measure: _mean(sizes) for measure, sizes in values.items()}


def _parts(name: str, value: Any) -> dict[str, Any]:
    """What a scorer said, by measure: several values where it said a mapping."""
    if not isinstance(value, dict):
        return {name: value}
    return {f"{name}/{part}" if part else name: single for part, single in value.items()}


def _plain_inputs(inputs: Any) -> dict[str, str]:
    """The inputs that are no structures, as text of bounded length."""
    items = inputs.items() if isinstance(inputs, dict) else ()
    return {k: _short(str(v)) for k, v in items if isinstance(v, str | int | float | bool)}


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
    spans, n = False, 0
    lost: list[str] = []

    def search(token: str | None) -> Any:
        nonlocal spans
        ask = partial(
            client.search_traces,
            locations=[run.info.experiment_id],
            run_id=run.info.run_id,
            max_results=PAGE,
            page_token=token,
        )
        page = ask(include_spans=spans)
        cut = any(_whole(trace, part) is None for trace in page for part in parts)
        if cut and not spans:
            page = ask(include_spans=True)
        spans = cut
        return page

    for page in store.paged(search, lambda trace: trace.info.trace_id, "traces"):
        n += len(page)
        if most is not None and n > most:
            raise ValueError(f"it holds more answers than the {most:,} that are read here.")
        for trace in page:
            values = _values(trace, parts)
            if INPUTS in parts and values[parts.index(INPUTS)] is None:
                lost.append(trace.info.trace_id)
            yield trace, values
    if lost:
        raise ValueError(
            f"the inputs of {len(lost):,} traces are cut, and their spans are not there "
            f"({some(lost, 3)})"
        )


def _values(trace: Trace, parts: Sequence[str]) -> list[Any]:
    """The parts as the metadata have them, or where they cut one, as the root of the spans does."""
    values = [_whole(trace, part) for part in parts]
    if all(value is not None for value in values):
        return values
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    return values if root is None else [getattr(root, part) for part in parts]


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
        size = PASS.get(value.strip().lower() if isinstance(value, str) else value)
        return size, size is not None
    if isinstance(value, int | float):
        return (float(value) if computable(value) else np.nan), False
    return None, False


def _mean(values: list[float]) -> float:
    numbers = [v for v in values if not np.isnan(v)]
    return sum(numbers) / len(numbers) if numbers else np.nan


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
