"""The command line, called in this process."""

import json
import shlex
from typing import Any

from click.testing import CliRunner, Result

from mlflow_mleval.cli import main
from mlflow_mleval.cli.mcp import answer


def words(args: Any) -> list[str]:
    """What is typed, where options may stand together in a text: "-n x --missing worst"."""
    found = list[str]()
    for text in map(str, args):
        several = text.startswith("-") and " " in text and "=" not in text.partition(" ")[0]
        found += shlex.split(text) if several else [text]
    return found


def mleval(*args: object, code: int | None = 0) -> Result:
    result = CliRunner().invoke(main, words(args), catch_exceptions=False)
    assert code is None or result.exit_code == code, result.output
    return result


def as_json(*args: object) -> Any:
    return json.loads(mleval(*args, "--output", "json").stdout)


def every_next(made: dict[str, Any], most: int = 12) -> list[Any]:
    """Calls what an answer proposes, what that proposes, and so on; each has to be answered."""
    waiting, seen = [*made.get("next", ())], []
    while waiting and len(seen) < most:
        call = waiting.pop(0)
        if call in seen:
            continue
        seen.append(call)
        text, failed = answer(main.commands, call["tool"], call["arguments"])
        assert not failed, (call, text)
        waiting += json.loads(text).get("next", ())
    return seen
