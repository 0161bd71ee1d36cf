"""Servers that repeat the login that they were sent: no command shows or stores it, however they
spell it.

Some logins as a rule; MLEVAL_ATTACK=34 tries all of them.
"""

import base64
import html
import json
import os
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
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


class Echo(BaseHTTPRequestHandler):
    """Repeats the header as it is and decoded."""

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        header = self.headers.get("Authorization", "")
        sent = base64.b64decode(header.partition(" ")[2])
        login = sent.decode("utf-8", "replace")
        kind, more = self.server.kind, {}
        if kind == "text":
            status, body = 401, f"no {header}, that is {login}"
        elif kind == "error of MLflow":
            status = 400
            body = json.dumps({"error_code": "BAD_REQUEST", "message": f"{login!r} by {header}"})
        elif kind == "page":
            status, body = (
                500,
                f"<p>{html.escape(login)}<p>{html.escape(header)}<p>{login[3:].upper()}",
            )
        elif kind == "redirection":
            status, body = 302, f"moved for {login}"
            more["Location"] = f"http://127.0.0.1:9/{quote(login, safe='')}?auth={quote(header)}"
        else:
            status, body = 200, f"{{{login}: {header}"
        content = body.encode()
        # The line of the status is a place for it, too.
        self.send_response(status, quote(login, safe=" :@/?&="))
        for name, value in {"Content-Length": str(len(content)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.server.logins.add(sent)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def servers():
    """One of each kind."""
    running = {}
    for kind in SERVERS:
        server = running[kind] = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
        server.daemon_threads, server.kind, server.logins = True, kind, set()
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield running
    for server in running.values():
        server.shutdown()
        server.server_close()


def log_in(monkeypatch, way: str, password: str, port: int) -> None:
    """Make MLflow use this server, and give the login in this way."""
    uri = way.format(quote(password, safe=""), port) if way in URIS else f"http://127.0.0.1:{port}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    if way == "environment":
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", password)
    elif way == "file of credentials":
        file = Path(os.environ["HOME"], ".mlflow", "credentials")
        file.parent.mkdir(exist_ok=True)
        lines = [
            "[mlflow]",
            "mlflow_tracking_username = me",
            f"mlflow_tracking_password = {password}",
        ]
        file.write_text("\n".join(lines), encoding="utf-8")


def test_there_are_sixty_uris_and_more_logins_eight_commands_and_five_servers():
    assert len(set(LOGINS)) == 100 and len({login for login in LOGINS if login[0] in URIS}) == 60
    assert len(COMMANDS) == 8 and len(set(SERVERS)) == 5


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
    for kind, server in servers.items():
        server.logins.clear()
        log_in(monkeypatch, way, password, server.server_port)
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
        assert bool(logins & server.logins) is sent, (kind, server.logins)
    clean(caplog.text + str(capfd.readouterr()))
    texts = [
        path.read_bytes().decode("utf-8", "replace") for path in work.rglob("*") if path.is_file()
    ]
    assert len(texts) == 2 + 2 * len(SERVERS)  # what the commands read, and what could not be sent
    for text in texts:
        clean(text)
        assert "Basic" not in text
