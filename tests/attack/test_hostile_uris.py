"""Passwords of any characters in the store's URI, in every command that reads or writes it: none is
shown, written or stored.

Every ninth URI as a rule; MLEVAL_ATTACK=9 tries all of them.
"""

import itertools
import os
import re
import traceback
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from click.testing import CliRunner

from mlflow_mleval.cli import main

pytestmark = pytest.mark.thorough
CORE = "qZ7hUsH4kW"
#: The core stands on both sides of what a parser may stumble over.
PASSWORDS = [
    CORE + middle + CORE[::-1]
    for middle in (
        "",
        "/",
        "#",
        "?",
        "@",
        ":",
        "%",
        "&",
        "=",
        " ",
        "%2F",
        "%40",
        "é",
        "\\",
        "://",
        "]",
        "[",
        "?a=",
        "/x?password=",
        "@/",
        ":80/",
        "'",
        '"',
        "?a=b&",
        "#token=",
    )
]
#: Nobody answers there, so that every command fails.
AWAY = [
    "http://me:{}@127.0.0.1:9",
    "postgresql+psycopg2://me:{}@127.0.0.1:9/db",
    "me:{}@127.0.0.1",
    "https://:{}@127.0.0.1:9/x",
    "postgresql+psycopg2://127.0.0.1:9/db?password={}",
]
HERE = "sqlite:///mlflow.db?password={}"
URIS = [
    shape.format(password)
    for shape, password in zip(itertools.cycle(AWAY), PASSWORDS, strict=False)
]
URIS += [HERE.format(quote_plus(password)) for password in PASSWORDS]
TRIED = URIS[:: max(1, 9 // int(os.environ.get("MLEVAL_ATTACK", "1")))]
NAMED = ["-n", "x"]
COMMANDS = [
    ["import", "results.csv", *NAMED],
    ["evaluate", "predictions.csv", "--method", "m0", "--dataset", "y", *NAMED],
    ["runs", *NAMED, "--output", "json"],
    ["rank", *NAMED, "--missing", "worst", "--output", "json"],
    ["compare", *NAMED, "--missing", "worst", "--output", "json"],
    ["profile", *NAMED, "--dataset", "y"],
    ["report", *NAMED, "--missing", "worst", "--draws", "20", "-o", "report.html"],
    ["report", *NAMED, "--missing", "worst", "--draws", "20", "--output", "json", "--log"],
]


def clean(text: str) -> None:
    """No part of the password is in the text, in whatever form."""
    found = re.search(f"{CORE}|{CORE[::-1]}", text, re.IGNORECASE)
    assert not found, text[max(0, found.start() - 200) : found.end() + 200]


def write_inputs() -> None:
    """What the commands read, into the working folder."""
    given = {
        "results.csv": "dataset,method,measure,value\n"
        + "".join(
            f"d{d},m{m},{name},{(d * 3 + m) / 20}\n"
            for d in range(6)
            for m in range(3)
            for name in ("f1", "recall")
        ),
        "predictions.csv": "true_a,score_a,true_b,score_b\n1,0.9,0,0.4\n0,0.2,1,0.7\n",
    }
    for name, text in given.items():
        Path(name).write_text(text)


def test_there_are_fifty_uris_and_eight_commands():
    assert len(set(URIS)) == 50 and len(COMMANDS) == 8
    assert all(CORE in uri for uri in URIS)


@pytest.mark.parametrize("uri", TRIED, ids=URIS.index)
def test_no_command_shows_or_stores_a_password(uri, db, monkeypatch, caplog, capfd):
    for name, value in {"TIMEOUT": "1", "MAX_RETRIES": "0", "BACKOFF_FACTOR": "0"}.items():
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    write_inputs()
    for command in COMMANDS:
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
