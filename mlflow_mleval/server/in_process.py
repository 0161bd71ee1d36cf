"""Requests to MLflow inside its own process, in the name of whoever asked: MLflow authenticates,
authorises and filters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

from werkzeug.datastructures import Authorization
from werkzeug.test import Client

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
        made = {
            "method": method,
            "path": self.prefix + path,
            "query_string": text,
            "data": body or None,
            "content_type": kind or None,
            "environ_overrides": dict(caller.environ),
            "buffered": True,
        }
        # A context of its own: MLflow keeps request and workspace in context variables, and ends
        # those of the outer request else.
        response = Context().run(lambda: self._client.open(**made))
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
