"""The command line, called in this process."""

import json
from typing import Any

from click.testing import CliRunner, Result

from mlflow_mleval.cli import main


def mleval(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(args), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def as_json(*args: str) -> Any:
    return json.loads(mleval(*args, "--output", "json").stdout)
