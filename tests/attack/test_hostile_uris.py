"""No command shows or stores a password of the store's URI; MLEVAL_ATTACK=9 tries all of them."""

import itertools
import json
import os
import traceback
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from click.testing import CliRunner
from passwords import COMMANDS, CORE, PASSWORDS, clean, write_inputs

from mlflow_mleval.cli import main

pytestmark = pytest.mark.thorough
#: Nobody answers there, so that every command fails.
AWAY = [
    *("http://me:{}@127.0.0.1:9", "postgresql+psycopg2://me:{}@127.0.0.1:9/db", "me:{}@127.0.0.1"),
    *("https://:{}@127.0.0.1:9/x", "postgresql+psycopg2://127.0.0.1:9/db?password={}"),
]
HERE = "sqlite:///mlflow.db?password={}"
URIS = [
    shape.format(password)
    for shape, password in zip(itertools.cycle(AWAY), PASSWORDS[:25], strict=False)
]
URIS += [HERE.format(quote_plus(password)) for password in PASSWORDS[:25]]
TRIED = URIS[:: max(1, 9 // int(os.environ.get("MLEVAL_ATTACK", "1")))]


@pytest.mark.parametrize("uri", TRIED, ids=URIS.index)
def test_no_command_shows_or_stores_a_password(uri, db, monkeypatch, caplog, capfd):
    for name, value in {"TIMEOUT": "1", "MAX_RETRIES": "0", "BACKOFF_FACTOR": "0"}.items():
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    for name in ("MLFLOW_TRACKING_TOKEN", "DATABRICKS_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, CORE)
    source = {"mlflow.source.name": f"https://me:{CORE}@host/x.git"}
    monkeypatch.setenv("MLFLOW_RUN_CONTEXT", json.dumps(source))
    write_inputs()
    typed = ["-n", "x", "--filter", f"tags.`mleval.method` != 'http://me:{CORE}@host'"]
    compare = ["compare", *typed, "--missing", "worst", "--output"]
    for command in [*COMMANDS, *([*compare, form] for form in ("csv", "html", "latex", "table"))]:
        result = CliRunner().invoke(main, command)
        clean(result.output)
        if result.exception is not None:
            clean("".join(traceback.format_exception(result.exception)))
        assert result.exit_code == (0 if uri.startswith("sqlite") else 1), (command, result.output)
    clean(caplog.text)
    clean(str(capfd.readouterr()))
    for path in Path().rglob("*"):
        clean(str(path))
        if path.is_file():
            clean(path.read_bytes().decode("utf-8", "replace"))
