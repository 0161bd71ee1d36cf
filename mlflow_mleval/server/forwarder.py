"""A door for jobs: a listener on the loopback that takes a job's requests to MLflow and makes them
in the member's name.

A job knows a random token and nothing of the member. It reaches what it needs: reading, and for a
job that stores a report, the few requests that write one. The token dies with the job.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mlflow_mleval.server.in_process import Caller, Inside

#: Requests of jobs that are made at a time: MLflow's own have the rest.
AT_ONCE = 4
#: Bytes of a request's content: artifacts that MLflow takes in one piece have 10 MB at most.
MOST_BYTES = 16_000_000
_API = r"/(?:ajax-)?api/\d\.\d/mlflow"
_GET = re.compile(
    rf"/get-artifact|{_API}/(?:artifacts|experiments|logged-models|metrics|runs|server-info|"
    r"traces)(?:/[\w.-]+)*"
)
_SEARCH = re.compile(rf"{_API}/(?:experiments|logged-models|runs|traces)/search")
_WRITE = re.compile(
    rf"{_API}/(?:runs/(?:create|update|log-batch|log-parameter|set-tag)|upload-artifact)"
)


@dataclass(frozen=True)
class _Job:
    caller: Caller
    writes: bool


class Forwarder:
    """The listener of a server process; it starts with the first job."""

    def __init__(self, inside: Inside) -> None:
        self.inside, self._jobs, self._lock, self._server = inside, {}, threading.Lock(), None
        self._room = threading.BoundedSemaphore(AT_ONCE)

    @contextmanager
    def open_for(self, caller: Caller, writes: bool = False) -> Iterator[tuple[str, str]]:
        """The address and the token by which a job asks in the name of the caller while the block
        runs.
        """
        token = secrets.token_urlsafe(32)
        with self._lock:
            if self._server is None:
                self._server = self._listen()
            self._jobs[_digest(token)] = _Job(caller, writes)
        try:
            yield f"http://127.0.0.1:{self._server.server_address[1]}", token
        finally:
            with self._lock:
                del self._jobs[_digest(token)]

    def job(self, token: str) -> _Job | None:
        return self._jobs.get(_digest(token))

    def _listen(self) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"forwarder": self, "room": self._room})
        )
        threading.Thread(target=server.serve_forever, name="mleval-forwarder", daemon=True).start()
        return server


class _Handler(BaseHTTPRequestHandler):
    """One request of a job."""

    forwarder: Forwarder
    room: threading.BoundedSemaphore
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True
    wbufsize = -1  # head and content leave together

    def _forward(self) -> None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        job = self.forwarder.job(token) if scheme == "Bearer" else None
        size = self.headers.get("Content-Length", "0")
        path, _, query = self.path.partition("?")
        if job is None:
            self._refuse(401, "no job has this token")
        elif not size.isdecimal() or int(size) > MOST_BYTES or "Transfer-Encoding" in self.headers:
            self._refuse(413, "the content is too large, or of unknown size")
        elif not allowed(self.command, path, job.writes):
            self._refuse(403, "jobs may not ask this")
        else:
            body = self.rfile.read(int(size))
            with self.room:
                answer = self.forwarder.inside.ask(
                    job.caller,
                    self.command,
                    path,
                    query=query,
                    body=body,
                    kind=self.headers.get("Content-Type", ""),
                )
            self._answer(answer.status, answer.body, answer.kind)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward

    def _refuse(self, status: int, text: str) -> None:
        self.close_connection = True
        self._answer(
            status,
            b'{"error_code": "PERMISSION_DENIED", "message": "%s"}' % text.encode(),
            "application/json",
        )

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *args: object) -> None:
        """Requests of jobs are logged nowhere: their paths hold names of strangers."""


def allowed(method: str, path: str, writes: bool) -> bool:
    """Whether a job may make such a request.

    >>> allowed("GET", "/api/2.0/mlflow/runs/get", False), allowed("POST", "/api/2.0/mlflow/runs/search", False)
    (True, True)
    >>> allowed("POST", "/api/2.0/mlflow/runs/create", False), allowed("GET", "/ajax-api/2.0/mlflow/gateway-proxy", False)
    (False, False)
    """  # noqa: E501
    if ".." in path:
        return False
    rule = {"GET": _GET, "POST": _SEARCH}.get(method)
    return bool(
        (rule and rule.fullmatch(path)) or (writes and method == "POST" and _WRITE.fullmatch(path))
    )


def _digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()
