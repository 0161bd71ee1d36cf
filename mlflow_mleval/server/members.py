"""Requests to MLflow in a member's name: what each may read, whether a request to write is really
theirs, and the door by which a job asks for them."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import wraps
from typing import Any
from urllib.parse import urlencode, urlsplit

from werkzeug.datastructures import Authorization
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import Client, EnvironBuilder, run_wsgi_app
from werkzeug.wrappers import Request, Response

from mlflow_mleval.errors import StoreError
from mlflow_mleval.store import schema

API = "/api/2.0/mlflow/"
#: What describes one request rather than who makes it; `HTTP_` names are headers.
_OF_THE_REQUEST = (
    *(f"HTTP_{name}" for name in ("ACCEPT", "CONNECTION", "CONTENT_", "EXPECT", "IF_", "ORIGIN")),
    *(f"HTTP_{name}" for name in ("RANGE", "REFERER", "SEC_", "TE", "TRANSFER_ENCODING")),
    *("HTTP_UPGRADE", "HTTP_X_MLEVAL_", "CONTENT_", "PATH_", "QUERY_STRING", "RAW_URI", "REQUEST_"),
    *("SCRIPT_NAME", "SERVER_PROTOCOL", "SERVER_SOFTWARE"),
    *("wsgi.", "werkzeug.", "flask.", "gunicorn.", "asgi."),
)
WORKSPACE = "HTTP_X_MLFLOW_WORKSPACE"
#: Headers and variables by which logins and proxies say who it is.
_PROOF = re.compile("AUTH|COOKIE|EMAIL|IDENTITY|TOKEN|USER(?!_AGENT)|WORKSPACE", re.IGNORECASE)


@dataclass(frozen=True)
class Caller:
    """Who asks, as MLflow sees it: the headers that came, and what a layer before said of them."""

    environ: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, environ: Mapping[str, Any], workspace: str = "") -> Caller:
        kept = {key: value for key, value in environ.items() if not key.startswith(_OF_THE_REQUEST)}
        return cls(kept | ({WORKSPACE: workspace} if workspace else {}))

    @property
    def user(self) -> str:
        """The name that the member gave MLflow, if it came with the request."""
        login = Authorization.from_header(self.environ.get("HTTP_AUTHORIZATION"))
        named = login.username if login is not None else None
        return named or str(self.environ.get("REMOTE_USER") or "")

    @property
    def identity(self) -> str:
        """A digest of the user's name, or of all that shows who it is: the same for one member."""
        proof = [f"{key}={self.environ[key]}" for key in sorted(self.environ) if _PROOF.search(key)]
        told = ["user", self.user] if self.user else proof
        return schema.sha256_of("\0".join(told))


class Answer(Response):
    @property
    def ok(self) -> bool:
        return self.status_code < 300

    def content(self) -> Any:
        """What its JSON holds; an empty dict where it is no JSON."""
        return self.get_json(force=True, silent=True) or {}


#: The logins that were verified while one request is answered; None outside our requests.
_VERIFIED: ContextVar[dict[bytes, bool] | None] = ContextVar("verified logins", default=None)


def verified_once(verify: Callable[..., bool]) -> Callable[..., bool]:
    """MLflow's check of a password, made once while one request of ours is answered: passwords are
    slow to hash on purpose, and MLflow hashes the member's for each question inside."""
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
    """The way into the server's own application: MLflow authenticates, authorises and filters."""

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
        how: dict[str, Any] = {"method": method, "data": body or None, "content_type": kind or None}
        asked = query if isinstance(query, str) else urlencode(query)
        verified = _VERIFIED.get()

        def opened() -> Any:
            _VERIFIED.set({} if verified is None else verified)
            made = {**how, "query_string": asked, "environ_overrides": dict(caller.environ)}
            return self._client.open(self.prefix + path, buffered=True, **made)

        # A context of its own: MLflow keeps request and workspace in context variables, and ends
        # those of the outer request else.
        with Context().run(opened) as response:
            kind = response.headers.get("Content-Type", "")
            return Answer(response.get_data(), response.status_code, content_type=kind)

    def post(self, caller: Caller, path: str, content: Mapping[str, Any]) -> Answer:
        body = json.dumps(content).encode()
        return self.ask(caller, "POST", API + path, body=body, kind="application/json")

    def told(self, caller: Caller, path: str, **query: str) -> dict[str, Any]:
        """What MLflow answers the member; nothing where it refuses, and a StoreError where it fails
        itself, as without its database, which says nothing about rights."""
        answer = self.ask(caller, "GET", API + path, query=query)
        if answer.status_code >= 500:
            raise StoreError("MLflow could not tell whether you may read this.")
        return answer.content() if answer.ok else {}


# ---- what a member may read, and whether a request to write is theirs ----------------------------


_MODELS, _RUN = "models:/", re.compile(r"[A-Za-z0-9_-]{1,64}")


def run_behind(inside: Inside, caller: Caller, named: str) -> tuple[str, str] | None:
    """Id and name of the run with this id, or behind ``models:/NAME/VERSION`` or
    ``models:/NAME@ALIAS``, as MLflow tells the member now; None where it tells nothing."""
    run_id = named
    if named.startswith(_MODELS):
        model, _, alias = named.removeprefix(_MODELS).partition("@")
        path, query = "registered-models/alias", {"name": model, "alias": alias}
        if not alias:
            model, _, version = model.rpartition("/")
            path, query = "model-versions/get", {"name": model, "version": version}
        run_id = inside.told(caller, path, **query).get("model_version", {}).get("run_id") or ""
    if not _RUN.fullmatch(run_id):
        return None
    info = inside.told(caller, "runs/get", run_id=run_id).get("run", {}).get("info", {})
    return (run_id, info.get("run_name") or "") if info.get("lifecycle_stage") == "active" else None


#: Runs and registered models that are offered to be judged.
OFFERED = 200


def sides_offered(
    inside: Inside, caller: Caller, experiment_ids: Sequence[str]
) -> list[tuple[str, str]]:
    """What the member may name as a side of a gate, and what it is: versions of models, and the
    last runs of the experiments."""
    models = inside.told(caller, "registered-models/search", max_results=str(OFFERED // 2))
    sides = []
    for model in models.get("registered_models", ()):
        start = _MODELS + model["name"]
        aliases = [(a["alias"], a["version"]) for a in model.get("aliases", ())]
        sides += [(f"{start}@{alias}", f"version {version}") for alias, version in aliases]
        versions = [v["version"] for v in model.get("latest_versions", ())]
        sides += [(f"{start}/{version}", "latest version") for version in versions]
    asked = {"experiment_ids": [*experiment_ids], "max_results": OFFERED}
    asked["order_by"] = ["attributes.start_time DESC"]
    found = inside.post(caller, "runs/search", asked).content() if experiment_ids else {}
    for info in (run["info"] for run in found.get("runs", ())):
        started = datetime.fromtimestamp(int(info.get("start_time") or 0) / 1000, timezone.utc)
        sides.append((info["run_id"], f"{info.get('run_name', '')}, {started:%Y-%m-%d %H:%M}"))
    return sides


OTHER_SITE = "The request comes from another site."
TOKEN = "X-Mleval-Token"
#: Seconds for which a token is made; the one of the period before holds, too.
PERIOD = 43_200


def token_of(secret: bytes, caller: Caller, periods_ago: int = 0) -> str:
    """What a page of the member sends back to show that a request comes from it."""
    period = int(time.time() // PERIOD) - periods_ago
    return hmac.new(secret, f"{period} {caller.identity}".encode(), "sha256").hexdigest()


def forged(request: Request, secret: bytes, caller: Caller) -> str:
    """Why a request to write is not believed to come from the member's page; empty where it is."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    hosts = {request.headers.get(name, "") for name in ("Host", "X-Forwarded-Host")} - {""}
    elsewhere = origin is not None and site is None and urlsplit(origin).netloc not in hosts
    if site not in (None, "same-origin") or elsewhere:
        return OTHER_SITE
    given = request.headers.get(TOKEN, "").encode()
    tokens = (token_of(secret, caller, ago).encode() for ago in (0, 1))
    if not any(hmac.compare_digest(given, token) for token in tokens):
        return "The page is too old, or another member's. Load it again."
    return ""


#: Experiments of a page of their list.
SHOWN = 20


def listed(experiments: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the list shows of experiments that MLflow found; those of ledgers hold no results."""
    rows = []
    for each in experiments:
        if any(tag["key"] == schema.TAG_REGISTER for tag in each.get("tags", ())):
            continue
        changed = int(each.get("last_update_time") or 0)
        last = datetime.fromtimestamp(changed / 1000, timezone.utc) if changed else None
        rows.append({"id": each["experiment_id"], "name": each["name"], "last": last})
    return rows


# ---- the door: a listener on the loopback for the requests of jobs to MLflow ---------------------
# A job reaches what it needs: reading, and for one that stores a report, the few requests that
# write one. Its token dies with it.

#: Requests of jobs that are made at a time: MLflow's own have the rest.
AT_ONCE = 4
#: Bytes of a request's content: artifacts that MLflow takes in one piece have 10 MB at most.
MOST_BYTES = 16_000_000
_API = r"/(?:ajax-)?api/\d\.\d/mlflow"
_READ = {
    "GET": re.compile(
        rf"/get-artifact|{_API}/(?:artifacts|experiments|logged-models|metrics|runs|server-info|"
        r"traces)(?:/[\w.-]+)*"
    ),
    "POST": re.compile(rf"{_API}/(?:experiments|logged-models|runs|traces)/search"),
}
_WRITE = re.compile(
    rf"{_API}/(?:runs/(?:create|update|log-batch|log-parameter|set-tag)|upload-artifact)"
)


def allowed(method: str, path: str, writes: bool) -> bool:
    """Whether a job may make such a request."""
    rule = _READ.get(method)
    reads = rule is not None and rule.fullmatch(path)
    stores = writes and method == "POST" and _WRITE.fullmatch(path)
    return ".." not in path and bool(reads or stores)


class _Silent(WSGIRequestHandler):
    """Requests of jobs are logged nowhere: their paths hold names of strangers."""

    def log(self, type: str, message: str, *args: Any) -> None:
        pass


class Door:
    """The listener of a server process: what comes with a job's token goes to MLflow in the
    member's name, what comes with its own is a request for the page from another process."""

    def __init__(self, app: Callable[..., Any], inside: Inside) -> None:
        self.app, self.inside, self.token = app, inside, secrets.token_urlsafe(32)
        self._jobs: dict[str, tuple[Caller, bool]] = {}
        self._room = threading.BoundedSemaphore(AT_ONCE)
        server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=_Silent)
        self.address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, name="mleval-door", daemon=True).start()

    def open_for(self, caller: Caller, writes: bool = False) -> str:
        """A token by which a job asks in the name of the caller, until `shut`."""
        token = secrets.token_urlsafe(32)
        self._jobs[schema.sha256_of(token)] = caller, writes
        return token

    def shut(self, token: str) -> None:
        self._jobs.pop(schema.sha256_of(token), None)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        request = Request(environ)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        known = schema.sha256_of(token) if scheme == "Bearer" else ""
        size = request.headers.get("Content-Length", "0")
        if known == schema.sha256_of(self.token):
            asked = EnvironBuilder().get_environ() | request.get_json()
            content, status, headers = run_wsgi_app(self.app, asked, buffered=True)
            answer = Response(b"".join(content), status, headers)
        elif known not in self._jobs:
            answer = _refused(401, "no job has this token")
        elif not size.isdecimal() or int(size) > MOST_BYTES or "HTTP_TRANSFER_ENCODING" in environ:
            answer = _refused(413, "the content is too large, or of unknown size")
        elif not allowed(request.method, request.path, self._jobs[known][1]):
            answer = _refused(403, "jobs may not ask this")
        else:
            with self._room:
                how = {"query": environ.get("QUERY_STRING", "")}
                how |= {"body": request.get_data(), "kind": request.content_type or ""}
                caller = self._jobs[known][0]
                answer = self.inside.ask(caller, request.method, request.path, **how)
        return answer(environ, start_response)


def _refused(status: int, text: str) -> Response:
    told = {"error_code": "PERMISSION_DENIED", "message": text}
    answer = Response(json.dumps(told), status, content_type="application/json")
    answer.headers["Connection"] = "close"
    return answer
