"""No command shows or stores a login that servers repeat; MLEVAL_ATTACK=34 tries all of them."""

import base64
import html
import json
import os
import traceback
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from answering import answering
from click.testing import CliRunner
from passwords import COMMANDS, PASSWORDS, clean, write_inputs

import mlflow_mleval as mleval
from mlflow_mleval.cli import main
from mlflow_mleval.training import delivery

pytestmark = pytest.mark.thorough
#: How a login is given: in one of three URIs or beside the URI; and all of them.
URIS = ["http://me:{}@127.0.0.1:{}", "http://:{}@127.0.0.1:{}", "http://me:{}@127.0.0.1:{}/mlflow/"]
WAYS = [*URIS, "environment", "file of credentials"]
LOGINS = [(way, password) for password in PASSWORDS[:20] for way in WAYS]
TRIED = LOGINS[:: max(1, 34 // int(os.environ.get("MLEVAL_ATTACK", "1")))]
SERVERS = ["text", "error of MLflow", "page", "redirection", "garbage"]


def echo(kind, logins, asked):
    """Repeats the header as it is and decoded."""
    header = asked.headers.get("Authorization", "")
    sent = base64.b64decode(header.partition(" ")[2])
    login = sent.decode("utf-8", "replace")
    there = f"http://127.0.0.1:9/{quote(login, safe='')}?auth={quote(header)}"
    escaped = f"<p>{html.escape(login)}<p>{html.escape(header)}<p>{login[3:].upper()}"
    of_mlflow = {"error_code": "BAD_REQUEST", "message": f"{login!r} by {header}"}
    status, body, more = {
        "text": (401, f"no {header}, that is {login}", {}),
        "error of MLflow": (400, json.dumps(of_mlflow), {}),
        "page": (500, escaped, {}),
        "redirection": (302, f"moved for {login}", {"Location": there}),
        "garbage": (200, f"{{{login}: {header}", {}),
    }[kind]
    # The line of the status is a place for it, too.
    asked.say(body.encode(), status, quote(login, safe=" :@/?&="), **more)
    logins.add(sent)


@pytest.fixture(scope="module")
def servers():
    """Of each kind the port of one, and the logins that it has seen."""
    with ExitStack() as running:
        found = {}
        for kind in SERVERS:
            logins: set[bytes] = set()
            url = running.enter_context(answering(partial(echo, kind, logins)))
            found[kind] = url.rpartition(":")[2], logins
        yield found


def log_in(monkeypatch, way: str, password: str, port: str) -> None:
    """Make MLflow use this server, and give the login in this way."""
    uri = way.format(quote(password, safe=""), port) if way in URIS else f"http://127.0.0.1:{port}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    if way == "environment":
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", password)
    elif way == "file of credentials":
        file = Path(os.environ["HOME"], ".mlflow", "credentials")
        file.parent.mkdir(exist_ok=True)
        lines = ["[mlflow]", "mlflow_tracking_username = me"]
        text = "\n".join([*lines, f"mlflow_tracking_password = {password}"])
        file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("way", "password"), TRIED, ids=[str(LOGINS.index(login)) for login in TRIED]
)
def test_no_command_shows_or_stores_what_servers_repeat(
    way, password, servers, unset, tmp_path_factory, monkeypatch, caplog, capfd
):
    home, work = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    for name, value in {"TIMEOUT": "5", "MAX_RETRIES": "0", "BACKOFF_FACTOR": "0"}.items():
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)
    caplog.set_level("DEBUG", logger="mlflow_mleval")
    write_inputs()
    ev = mleval.evaluate([[1, 0], [0, 1]], [[0.9, 0.4], [0.2, 0.7]])
    for kind, (port, seen) in servers.items():
        seen.clear()
        log_in(monkeypatch, way, password, port)
        for command in COMMANDS:
            result = CliRunner().invoke(main, command)
            assert result.exit_code == 1 and result.output, (kind, command, result.output)
            clean(result.output + "".join(traceback.format_exception(result.exception)))
        monkeypatch.setattr(delivery, "_troubles", {})
        with pytest.raises(mleval.MlevalError) as caught:
            mleval.log_evaluation(ev, method="m", dataset="d")
        clean("".join(traceback.format_exception(caught.value)))
        # The file cannot give MLflow a percent sign.
        sent = not (way == "file of credentials" and "%" in password)
        user = "" if way == URIS[1] else "me"
        logins = {f"{user}:{password}".encode(encoding) for encoding in ("utf-8", "latin-1")}
        assert bool(logins & seen) is sent, (kind, seen)
    clean(caplog.text + str(capfd.readouterr()))
    files = [path for path in work.rglob("*") if path.is_file()]
    texts = [path.read_bytes().decode("utf-8", "replace") for path in files]
    assert len(texts) == 2 + 2 * len(SERVERS)  # what the commands read, and what could not be sent
    for text in texts:
        clean(text)
        assert "Basic" not in text
