"""Filters that MLflow does not accept, spelled so that it does."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from mlflow.exceptions import MlflowException
from mlflow.utils.search_utils import SearchUtils

from mlflow_mleval.sentences import Argument, Message

#: A condition: what, comparator, value. The comparators of words stand alone, or they would split
#: names.
_CONDITION = re.compile(
    r"\s*(?P<what>.+?)\s*(?P<comparator>!=|<=|>=|==|=|<|>|\s(?:not\s+in|in|"
    r"i?like)\s)\s*(?P<value>.+?)\s*",
    re.IGNORECASE | re.DOTALL,
)
_AND = re.compile(r"\s+and\s+|\s*&&?\s*", re.IGNORECASE)
_KINDS = {
    "metric": "metrics",
    "param": "params",
    "parameter": "params",
    "parameters": "params",
    "tag": "tags",
    "attribute": "attributes",
    "attr": "attributes",
    "run": "attributes",
    "datasets": "dataset",
}
#: What people call what MLflow keeps as a tag or as an attribute of another name.
_MEANT = {
    **dict.fromkeys(("user", "username", "user_name", "owner", "author"), ("tags", "mlflow.user")),
    **dict.fromkeys(("source", "source_name", "script"), ("tags", "mlflow.source.name")),
    **dict.fromkeys(("parent", "parent_run_id", "parentRunId"), ("tags", "mlflow.parentRunId")),
    **dict.fromkeys(("started", "start", "date", "time"), ("attributes", "start_time")),
    **dict.fromkeys(("ended", "end"), ("attributes", "end_time")),
    **dict.fromkeys(("name", "runName"), ("attributes", "run_name")),
    "id": ("attributes", "run_id"),
    "state": ("attributes", "status"),
    "dataset": ("dataset", "name"),
}
EXAMPLES = (
    "params.lr = '0.1'",
    "tags.mlflow.user = 'alice'",
    "metrics.f1 > 0.5",
    "attributes.status = 'FINISHED'",
    "attributes.start_time > 1700000000000 (milliseconds)",
)


#: What chooses experiments.
EXPERIMENTS = Message(Argument("experiment_names", ("NAME",)))


def advice(filter_string: str) -> str:
    """What to write in place of a filter that MLflow does not accept; examples, where it cannot be
    guessed.

    >>> advice("user='alice' and lr=0.1")
    'Write "tags.mlflow.user = \\'alice\\' and params.lr = \\'0.1\\'".'
    >>> advice("start_time > '2024-01-01'")
    'Write "attributes.start_time > 1704067200000".'
    """
    if re.search(r"\s(or|\|\|)\s", filter_string, re.IGNORECASE):
        return (
            "A filter knows `and` only, no `or`. Select more runs, and choose among them by "
            "method and dataset."
        )
    if re.search(
        r"(^|\band\s+)(\w+\.)?experiment(_id|_name)?\b", filter_string.strip(), re.IGNORECASE
    ):
        return Message("Experiments are chosen by ", EXPERIMENTS, ".")
    meant = _respelled(filter_string)
    if meant is None or meant == filter_string or not _accepted(meant):
        return f"Examples: {'; '.join(EXAMPLES)}. Join conditions with `and`."
    return f"Write '{meant}'." if "`" in meant else f'Write "{meant}".'


def _accepted(text: str) -> bool:
    try:
        return bool(SearchUtils.parse_search_filter(text))
    except MlflowException:
        return False


def _respelled(filter_string: str) -> str | None:
    conditions = _AND.split(filter_string.strip())
    matches = [m for part in conditions if (m := _CONDITION.fullmatch(part)) is not None]
    if len(matches) < len(conditions):
        return None
    parts = [
        _condition(m["what"], " ".join(m["comparator"].split()).replace("==", "="), m["value"])
        for m in matches
    ]
    # in a shell, text in double quotes must not hold backquotes
    text = " and ".join(parts)
    return text.replace("'", '"') if "`" in text else text


def _condition(what: str, comparator: str, value: str) -> str:
    kind, dot, name = what.partition(".")
    kind = _KINDS.get(kind.lower(), kind)
    if not dot or kind not in ("metrics", "params", "tags", "attributes", "dataset"):
        kind, name = "", what
    name, value = _bare(name), _bare(value) if not value.startswith("(") else value
    number = re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", value, re.IGNORECASE) is not None
    if kind in ("", "attributes"):
        if name in _MEANT:
            kind, name = _MEANT[name]
        elif name in SearchUtils.VALID_SEARCH_ATTRIBUTE_KEYS:
            kind = "attributes"
        # MLflow has no such attribute: what is compared by size or holds a number is a metric,
        # words are params
        else:
            kind = "metrics" if number and comparator in ("<", "<=", ">", ">=") else "params"
    timed = kind == "attributes" and name in SearchUtils.NUMERIC_ATTRIBUTES
    if timed and not number:
        value = _milliseconds(value)
    elif kind != "metrics" and not timed and not value.startswith("("):
        value = f"'{value}'"
    name = name if re.fullmatch(r"[\w.]+", name) else f"`{name}`"
    return f"{kind}.{name} {comparator} {value}"


def _bare(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"`" else text


def _milliseconds(value: str) -> str:
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return value
    return str(int((when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp() * 1000))
