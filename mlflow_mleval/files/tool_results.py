"""Results that other tools write as JSON: one row a tool, which says how to know it and how to read
it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlflow_mleval.errors import ImportFileError

#: Measure, dataset, method and value.
Row = tuple[str, str, str, float]
#: Characters of a file, and rows of results.
_LARGEST, _MOST = 200_000_000, 1_000_000


@dataclass(frozen=True)
class Tool:
    """A tool: its name, whether what a file holds is of it, and the results in that."""

    name: str
    is_of: Callable[[Any], bool]
    rows: Callable[[Any], Iterator[Row]]


def _has(*keys: str) -> Callable[[Any], bool]:
    """Whether it is a mapping with these keys, the first of which holds another."""
    return lambda held: (
        isinstance(held, dict) and {*keys} <= held.keys() and isinstance(held[keys[0]], dict)
    )


def _numbers(scores: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The measures that are numbers, without standard errors; a filter that is none goes unsaid."""
    for key, value in scores.items():
        name, _, filtered = key.partition(",")
        is_error = name.endswith("stderr")
        if isinstance(value, int | float) and not isinstance(value, bool) and not is_error:
            yield name if filtered in ("", "none") else f"{name}/{filtered}", float(value)


def _harness(held: Any) -> Iterator[Row]:
    """lm-evaluation-harness: results by task; groups are means of their tasks."""
    config = held["config"]
    method = held.get("model_name") or config.get("model_args") or config.get("model")
    means = {group for group, of in (held.get("group_subtasks") or {}).items() if of}
    for task, scores in held["results"].items():
        if task not in means:
            for measure, value in _numbers(scores):
                yield measure, task, str(method), value


def _lighteval(held: Any) -> Iterator[Row]:
    """lighteval, as leaderboards of Hugging Face keep it: "all" is the mean of the tasks."""
    method = held["config_general"]["model_name"]
    for task, scores in held["results"].items():
        if task != "all":
            for measure, value in _numbers(scores):
                yield measure, task, str(method), value


def _is_helm(held: Any) -> bool:
    tables = held if isinstance(held, list) else [held]
    return bool(tables) and all(
        isinstance(t, dict) and {"title", "header", "rows"} <= t.keys() for t in tables
    )


def _helm(held: Any) -> Iterator[Row]:
    """HELM: tables whose rows are models; a column is a scenario, or says scenario and metric."""
    for table in held if isinstance(held, list) else [held]:
        header = [str(cell["value"]) for cell in table["header"]]
        for row in table["rows"]:
            model = str(row[0]["value"])
            for column, cell in zip(header[1:], row[1:], strict=True):
                dataset, _, metric = column.partition(" - ")
                if isinstance(value := cell.get("value"), int | float) and metric:
                    yield metric, dataset, model, float(value)


def _is_promptfoo(held: Any) -> bool:
    inner = held.get("results") if isinstance(held, dict) else None
    return isinstance(inner, dict) and isinstance(inner.get("results"), list)


def _promptfoo(held: Any) -> Iterator[Row]:
    """promptfoo: a result a test, prompt and provider; score and passing are means over tests."""
    results = held["results"]["results"]
    several = len({result.get("promptIdx", 0) for result in results}) > 1
    cells: dict[tuple[str, str], list[float]] = {}
    for result in results:
        provider = result["provider"]
        method = str(provider.get("label") or provider["id"])
        method += f" (prompt {result['promptIdx']})" if several else ""
        cells.setdefault(("score", method), []).append(float(result["score"]))
        cells.setdefault(("pass_rate", method), []).append(float(bool(result["success"])))
    dataset = str((held.get("config") or {}).get("description") or "tests")
    for (measure, method), values in cells.items():
        yield measure, dataset, method, sum(values) / len(values)


def _is_evals(held: Any) -> bool:
    return isinstance(held, list) and bool(held) and _has("spec")(held[0])


def _evals(held: Any) -> Iterator[Row]:
    """OpenAI evals: lines, of which the first says what ran, and one how it ended."""
    spec = held[0]["spec"]
    names = spec.get("completion_fns") or [spec.get("model_name")]
    for line in held:
        for measure, value in _numbers(line.get("final_report") or {}):
            yield measure, str(spec["eval_name"]), ", ".join(map(str, names)), value


#: The tools whose files are read, in the order in which they are tried.
TOOLS = (
    Tool("lighteval", _has("results", "config_general"), _lighteval),
    Tool("promptfoo", _is_promptfoo, _promptfoo),
    Tool("lm-evaluation-harness", _has("results", "config"), _harness),
    Tool("OpenAI evals", _is_evals, _evals),
    Tool("HELM", _is_helm, _helm),
)


def tool_results(text: str, name: str) -> list[Row] | None:
    """The results in a file that one of `TOOLS` wrote, JSON or lines of JSON; None where it is
    of none.

    Raises
    ------
    ImportFileError
        It is of one, and malformed or without a number.
    """
    if len(text) > _LARGEST:
        return None
    try:
        held = json.loads(text)
    except ValueError:
        try:
            held = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            return None
    except RecursionError:
        return None
    tool = next((tool for tool in TOOLS if tool.is_of(held)), None)
    if tool is None:
        return None
    try:
        rows = [row for row in tool.rows(held) if math.isfinite(row[3])]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        why = " ".join(str(error).split())[:100]
        raise ImportFileError(
            f"{name} is no file of {tool.name} that can be read: {type(error).__name__}: {why}."
        ) from error
    if not 0 < len(rows) <= _MOST:
        raise ImportFileError(f"{name} holds {len(rows):,} results of {tool.name}.")
    return rows
