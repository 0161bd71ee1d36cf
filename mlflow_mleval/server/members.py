"""Requests to MLflow in a member's name: what each may read, the experiments that they see, and the
jobs they start.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import wraps
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlencode, urlsplit

from flask import Request
from werkzeug.datastructures import Authorization
from werkzeug.test import Client

from mlflow_mleval.errors import StoreError
from mlflow_mleval.server.answer_cache import CacheFolder
from mlflow_mleval.store import schema

# --------------------------------------------------------------------------------------------------
# Requests to MLflow inside its own process, in the name of whoever asked: MLflow authenticates,
# authorises and filters.

#: What describes one request rather than who makes it; `HTTP_` names are headers.
_OF_THE_REQUEST = (
    "HTTP_ACCEPT",
    "HTTP_CONNECTION",
    "HTTP_CONTENT_",
    "HTTP_EXPECT",
    "HTTP_IF_",
    "HTTP_ORIGIN",
    "HTTP_RANGE",
    "HTTP_REFERER",
    "HTTP_SEC_",
    "HTTP_TE",
    "HTTP_TRANSFER_ENCODING",
    "HTTP_UPGRADE",
    "HTTP_X_MLEVAL_",
    "CONTENT_",
    "PATH_",
    "QUERY_STRING",
    "RAW_URI",
    "REQUEST_",
    "SCRIPT_NAME",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
    "wsgi.",
    "werkzeug.",
    "flask.",
    "gunicorn.",
    "asgi.",
)
WORKSPACE = "HTTP_X_MLFLOW_WORKSPACE"
#: Headers and variables by which logins and proxies say who it is.
_PROOF = re.compile("AUTH|COOKIE|EMAIL|IDENTITY|TOKEN|USER|WORKSPACE", re.IGNORECASE)


@dataclass(frozen=True)
class Caller:
    """Who asks, as MLflow sees it: the headers that came, and what a layer before said of them."""

    environ: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, environ: Mapping[str, Any], workspace: str = "") -> Caller:
        kept = {key: value for key, value in environ.items() if not key.startswith(_OF_THE_REQUEST)}
        return cls(kept | ({WORKSPACE: workspace} if workspace else {}))

    @property
    def workspace(self) -> str:
        return self.environ.get(WORKSPACE, "")

    @property
    def proof(self) -> str:
        """A digest of all that shows who it is."""
        found = {
            key: str(value)
            for key, value in self.environ.items()
            if _PROOF.search(key) and key != "HTTP_USER_AGENT"
        }
        return _digest(f"{key}={found[key]}" for key in sorted(found))

    @property
    def user(self) -> str:
        """The name that the member gave MLflow, if it came with the request."""
        login = Authorization.from_header(self.environ.get("HTTP_AUTHORIZATION"))
        return (login.username if login is not None else None) or str(
            self.environ.get("REMOTE_USER") or ""
        )

    @property
    def identity(self) -> str:
        """The same for the same member, and telling nothing: a digest of the user's name, or of
        what proves who it is.
        """
        return _digest(["user", self.user]) if self.user else self.proof


@dataclass(frozen=True)
class Answer:
    """What MLflow answered."""

    status: int
    body: bytes
    kind: str  #: the content type

    @property
    def ok(self) -> bool:
        return self.status < 300

    def json(self) -> Any:
        """The content; an empty dict where it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return {}


def _digest(parts: Iterable[str]) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()


#: The logins that were verified while one request is answered; None outside our requests.
_VERIFIED: ContextVar[dict[bytes, bool] | None] = ContextVar("verified logins", default=None)


def verified_once(verify: Callable[..., bool]) -> Callable[..., bool]:
    """MLflow's check of a password, made once while one request of ours is answered.

    Passwords are slow to hash on purpose, and MLflow hashes the member's for each question inside.
    """
    secret = secrets.token_bytes(32)

    @wraps(verify)
    def check(username: str, password: str, *args: Any, **more: Any) -> bool:
        verified = _VERIFIED.get()
        if verified is None:
            return verify(username, password, *args, **more)
        login = hmac.digest(secret, f"{username}\0{password}".encode(), "sha256")
        if login not in verified:
            verified[login] = verify(username, password, *args, **more)
        return verified[login]

    return check


@contextmanager
def one_request() -> Iterator[None]:
    """What is asked in the block is asked for one request: a login is verified once."""
    before = _VERIFIED.set({})
    try:
        yield
    finally:
        _VERIFIED.reset(before)


class Inside:
    """The way into the server's own application."""

    def __init__(self, app: Callable[..., Any], prefix: str = "") -> None:
        self.prefix, self._client = prefix, Client(app, use_cookies=False)

    def ask(
        self,
        caller: Caller,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | str = "",
        body: bytes = b"",
        kind: str = "",
    ) -> Answer:
        """Make the request as the caller would; `path` is without the server's prefix."""
        text = query if isinstance(query, str) else urlencode(query)
        made: dict[str, Any] = {
            "method": method,
            "path": self.prefix + path,
            "query_string": text,
            "data": body or None,
            "content_type": kind or None,
            "environ_overrides": dict(caller.environ),
            "buffered": True,
        }
        verified = _VERIFIED.get()

        def opened() -> Any:
            _VERIFIED.set({} if verified is None else verified)
            return self._client.open(**made)

        # A context of its own: MLflow keeps request and workspace in context variables, and ends
        # those of the outer request else.
        response = Context().run(opened)
        with response:
            return Answer(
                response.status_code, response.get_data(), response.headers.get("Content-Type", "")
            )

    def get(self, caller: Caller, path: str, **query: str) -> Answer:
        return self.ask(caller, "GET", path, query=query)

    def post(self, caller: Caller, path: str, content: Mapping[str, Any]) -> Answer:
        return self.ask(
            caller, "POST", path, body=json.dumps(content).encode(), kind="application/json"
        )


# --------------------------------------------------------------------------------------------------
# Whether a member may read what an answer is made of, and whether a request to write is really
# theirs.

TOKEN = "X-Mleval-Token"
#: Seconds for which a token is made; the one of the period before holds, too.
PERIOD = 43_200


def unreadable(inside: Inside, caller: Caller, experiment_ids: Sequence[str]) -> str | None:
    """The first of the experiments that MLflow does not let the member see, or whose runs they may
    not search, now; None where they may read all.

    Raises
    ------
    StoreError
        MLflow itself fails, as it does without its database: nothing is said about rights then.
    """
    path = "/api/2.0/mlflow/experiments/get"
    for experiment_id in experiment_ids:
        answer = inside.get(caller, path, experiment_id=experiment_id)
        if answer.status >= 500:
            raise StoreError("MLflow could not tell whether you may read these experiments.")
        if not answer.ok or answer.json().get("experiment", {}).get("lifecycle_stage") != "active":
            return experiment_id
    searched = {"experiment_ids": [*experiment_ids], "max_results": 1}
    if inside.post(caller, "/api/2.0/mlflow/runs/search", searched).ok:
        return None
    return experiment_ids[0]


def is_active(inside: Inside, caller: Caller, run_id: str) -> bool:
    """Whether the member can see the run, and it is not deleted."""
    answer = inside.get(caller, "/api/2.0/mlflow/runs/get", run_id=run_id)
    return (
        answer.ok
        and answer.json().get("run", {}).get("info", {}).get("lifecycle_stage") == "active"
    )


def run_behind(inside: Inside, caller: Caller, named: str) -> tuple[str, str] | None:
    """Id and name of the run with this id, or of the one behind ``models:/NAME/VERSION`` or
    ``models:/NAME@ALIAS``, as MLflow tells the member now; None where it tells nothing.

    Raises
    ------
    StoreError
        MLflow itself fails.
    """
    run_id = named
    if named.startswith(_MODELS):
        model, _, alias = named.removeprefix(_MODELS).partition("@")
        path, query = "registered-models/alias", {"name": model, "alias": alias}
        if not alias:
            model, _, version = model.rpartition("/")
            path, query = "model-versions/get", {"name": model, "version": version}
        made = _told(inside, caller, path, query).get("model_version", {})
        run_id = made.get("run_id") or ""
    if not _RUN.fullmatch(run_id):
        return None
    run = _told(inside, caller, "runs/get", {"run_id": run_id}).get("run", {})
    if run.get("info", {}).get("lifecycle_stage") != "active":
        return None
    return run_id, run["info"].get("run_name") or ""


_MODELS, _RUN = "models:/", re.compile(r"[A-Za-z0-9_-]{1,64}")


def _told(inside: Inside, caller: Caller, path: str, query: Mapping[str, str]) -> dict[str, Any]:
    """What MLflow answers the member; nothing where it refuses."""
    answer = inside.get(caller, f"/api/2.0/mlflow/{path}", **query)
    if answer.status >= 500:
        raise StoreError("MLflow could not tell whether you may read these runs.")
    return answer.json() if answer.ok else {}


#: Runs and registered models that are offered to be judged.
OFFERED = 200


def sides_offered(
    inside: Inside, caller: Caller, experiment_ids: Sequence[str]
) -> list[tuple[str, str]]:
    """What the member may name as a side of a gate, and what it is: versions by alias and number,
    and the last runs of the experiments.
    """
    query = {"max_results": str(OFFERED // 2)}
    models = _told(inside, caller, "registered-models/search", query)
    sides = []
    for model in models.get("registered_models", ()):
        start = _MODELS + model["name"]
        versions = [v["version"] for v in model.get("latest_versions", ())]
        aliases = [(a["alias"], a["version"]) for a in model.get("aliases", ())]
        sides += [(f"{start}@{alias}", f"version {version}") for alias, version in aliases]
        sides += [(f"{start}/{version}", "latest version") for version in versions]
    asked = {"experiment_ids": [*experiment_ids], "max_results": OFFERED}
    asked["order_by"] = ["attributes.start_time DESC"]
    found = inside.post(caller, "/api/2.0/mlflow/runs/search", asked) if experiment_ids else None
    for run in found.json().get("runs", ()) if found is not None and found.ok else ():
        info = run["info"]
        started = datetime.fromtimestamp(int(info.get("start_time") or 0) / 1000, timezone.utc)
        sides.append((info["run_id"], f"{info.get('run_name', '')}, {started:%Y-%m-%d %H:%M}"))
    return sides


def token_of(secret: bytes, caller: Caller, periods_ago: int = 0) -> str:
    """What a page of the member sends back to show that a request comes from it."""
    period = int(time.time() // PERIOD) - periods_ago
    return hmac.new(secret, f"{period} {caller.identity}".encode(), "sha256").hexdigest()


def forged(request: Request, secret: bytes, caller: Caller) -> str:
    """Why a request to write is not believed to come from a page of the member; empty where it
    is.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    hosts = {request.headers.get(name, "") for name in ("Host", "X-Forwarded-Host")} - {""}
    if site not in (None, "same-origin") or (
        origin is not None and site is None and urlsplit(origin).netloc not in hosts
    ):
        return "The request comes from another site."
    given = request.headers.get(TOKEN, "")
    if not any(
        hmac.compare_digest(given.encode(), token_of(secret, caller, ago).encode())
        for ago in (0, 1)
    ):
        return "The page is too old, or another member's. Load it again."
    return ""


# --------------------------------------------------------------------------------------------------
# The experiments that a member may see: how many runs each has, which MLflow does not count, and
# when it changed last.

#: Experiments of a page; runs that are counted at most.
SHOWN, MOST = 20, 100_000
#: Seconds that counting takes at most for one list, and for which a count is believed.
PATIENCE, BELIEVED = 1.0, 60.0


class ExperimentList:
    """Lists experiments, and remembers for a while how many runs they have."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside
        self._counts: dict[Any, Any] = {}

    def rows(self, caller: Caller, experiments: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the list shows of experiments that MLflow found for the caller, the one that changed
        last first.
        """
        end = time.monotonic() + PATIENCE
        rows = [self._row(caller, each, end) for each in experiments if not _is_register(each)]
        return sorted(
            rows,
            key=lambda row: row["last"] or datetime.min.replace(tzinfo=timezone.utc),
            reverse=True,
        )

    def _row(self, caller: Caller, experiment: dict[str, Any], end: float) -> dict[str, Any]:
        key, now = (caller.workspace, experiment["experiment_id"]), time.monotonic()
        if (key not in self._counts or now - self._counts[key][0] > BELIEVED) and now < end:
            if len(self._counts) > 10_000:
                self._counts.clear()
            self._counts[key] = (now, *self._counted(caller, experiment["experiment_id"]))
        _, n, started = self._counts.get(key, (0, None, 0))  # None where there was no time to count
        last = max(started, int(experiment.get("last_update_time") or 0))
        return {
            "id": experiment["experiment_id"],
            "name": experiment["name"],
            "runs": n,
            "more": n == MOST,
            "last": datetime.fromtimestamp(last / 1000, timezone.utc) if last else None,
        }

    def _counted(self, caller: Caller, experiment_id: str) -> tuple[int | None, int]:
        """How many runs there are, by looking whether there is one so far down; and when the last
        began.
        """
        first = self._at(caller, experiment_id, 0)
        if not first:
            return (None if first is None else 0), 0
        low, high = 1, 2  # there is a run before `low`, and perhaps at it
        while high < MOST and self._at(caller, experiment_id, high - 1):
            low, high = high, high * 8
        high = min(high, MOST)
        while low < high:
            middle = (low + high) // 2
            if self._at(caller, experiment_id, middle):
                low = middle + 1
            else:
                high = middle
        return low, int(first[0]["info"].get("start_time") or 0)

    def _at(self, caller: Caller, experiment_id: str, place: int) -> list[dict[str, Any]] | None:
        """The run at a place, the last started first; None where MLflow does not tell."""
        token = base64.b64encode(
            json.dumps({"offset": place}).encode()
        ).decode()  # as MLflow makes them
        asked = {
            "experiment_ids": [experiment_id],
            "max_results": 1,
            "order_by": ["attributes.start_time DESC"],
        }
        answer = self.inside.post(
            caller, "/api/2.0/mlflow/runs/search", asked | ({"page_token": token} if place else {})
        )
        return answer.json().get("runs", []) if answer.ok else None


def _is_register(experiment: dict[str, Any]) -> bool:
    """Whether it holds a ledger of gates, or who moved an alias, and no results."""
    return any(tag["key"] == schema.TAG_REGISTER for tag in experiment.get("tags", ()))


# --------------------------------------------------------------------------------------------------
# A door for jobs: a listener on the loopback that takes a job's requests to MLflow and makes them
# in the member's name.
#
# A job knows a random token and nothing of the member. It reaches what it needs: reading, and for a
# job that stores a report, the few requests that write one. The token dies with the job.

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
        self.inside, self._lock = inside, threading.Lock()
        self._jobs: dict[str, _Job] = {}
        self._server: ThreadingHTTPServer | None = None
        self._room = threading.BoundedSemaphore(AT_ONCE)

    @contextmanager
    def open_for(self, caller: Caller, writes: bool = False) -> Iterator[tuple[str, str]]:
        """The address and the token by which a job asks in the name of the caller while the block
        runs.
        """
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._server = server = self._server or self._listen()
            self._jobs[_forwarder_digest(token)] = _Job(caller, writes)
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", token
        finally:
            with self._lock:
                del self._jobs[_forwarder_digest(token)]

    def job(self, token: str) -> _Job | None:
        return self._jobs.get(_forwarder_digest(token))

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


def _forwarder_digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


# --------------------------------------------------------------------------------------------------
# What a process of the server does to have something computed: finds or starts the worker, opens
# the forwarder for the job.

#: Seconds a computation may take, unless MLEVAL_PAGE_SECONDS says otherwise.
LIMIT = 300.0
#: What the worker's environment has of the server's: nothing that may hold a secret.
_ENVIRONMENT = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TMPDIR",
    "TZ",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "MLEVAL_PAGE_CACHE_MB",
)
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "600",
    "MLEVAL_TIMEOUT": "600",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
}
WAITING = {"state": "working", "step": "starting", "done": 0, "total": 0}


class PageJobs:
    """The jobs of one process of the server; nothing is made before the first is needed."""

    def __init__(self, inside: Inside) -> None:
        self.inside, self.forwarder = inside, Forwarder(inside)
        self._lock, self._started = threading.Lock(), 0.0
        self._folder: CacheFolder | None = None

    @property
    def folder(self) -> CacheFolder:
        with self._lock:
            if self._folder is None:
                self._folder = CacheFolder.of_this_server()
                self._stays = self._folder.stay()
            return self._folder

    def warm(self) -> None:
        """Start the worker if there is none, so that it has imported what it needs when it is
        needed.
        """
        with suppress(OSError):
            self._connection().close()

    def ask(
        self, key: str, caller: Caller, job: dict[str, Any], writes: bool = False
    ) -> dict[str, Any]:
        """Where the computation of an answer stands; started if nobody has.

        `job` is what the worker is to do.
        """
        try:
            connection = self._connection()
        except OSError:
            return WAITING
        try:
            file = connection.makefile("r", encoding="utf-8")
            question: dict[str, Any] = {"key": key, "who": caller.identity}
            question |= {name: job[name] for name in ("what", "reads", "newer") if name in job}
            connection.sendall(json.dumps(question).encode() + b"\n")
            state = json.loads(file.readline() or "null") or WAITING
        except (OSError, ValueError):
            connection.close()
            return WAITING
        if state["state"] != "start":
            connection.close()
            return state
        opened = threading.Event()
        threading.Thread(
            target=self._attend,
            args=(connection, caller, job, writes, opened),
            name="mleval-job",
            daemon=True,
        ).start()
        opened.wait(5)
        return WAITING

    def _attend(
        self,
        connection: socket.socket,
        caller: Caller,
        job: dict[str, Any],
        writes: bool,
        opened: threading.Event,
    ) -> None:
        """Keep the forwarder open for the job until the worker says that it is over."""
        with connection, self.forwarder.open_for(caller, writes) as (address, token):
            with suppress(OSError):
                connection.sendall(
                    json.dumps({**job, "server": address, "token": token}).encode() + b"\n"
                )
                opened.set()
                connection.settimeout(None)
                while connection.recv(1024):
                    pass
            opened.set()

    def held(self, key: str, question: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """What the process that holds the comparison behind an answer says, or that it is at work
        for longer than so many seconds; None where there is none.
        """
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(seconds)
                connection.connect(self.folder.holder(key))
                connection.sendall(json.dumps(question).encode() + b"\n")
                return json.loads(connection.makefile("r", encoding="utf-8").readline() or "null")
        except (TimeoutError, BlockingIOError):  # the second: too many ask
            return {**WAITING, "step": "writing"}
        except (OSError, ValueError):
            return None

    def _connection(self) -> socket.socket:
        folder = self.folder
        for attempt in range(2):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(5)
            try:
                connection.connect(folder.door)
                return connection
            except OSError:
                connection.close()
                if attempt:
                    raise
                self._start(folder)
        raise AssertionError

    def _start(self, folder: CacheFolder) -> None:
        """Start the worker; where another process has been quicker, it ends at once."""
        with self._lock:
            if time.monotonic() - self._started < 20:  # it is on its way: importing takes seconds
                return
            self._started = time.monotonic()
        kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        limit = float(os.environ.get("MLEVAL_PAGE_SECONDS") or LIMIT)
        command = [
            sys.executable,
            "-m",
            "mlflow_mleval.server.worker",
            str(folder.path),
            str(limit),
        ]
        process = subprocess.Popen(
            command, env=kept | _QUIET, cwd=folder.path, stdin=subprocess.DEVNULL
        )
        threading.Thread(target=process.wait, name="mleval-worker", daemon=True).start()
