"""Where the page sits on MLflow's server; the only module that touches what MLflow keeps to itself.

`mlflow server --app-name mleval` finds `create_app` by its entry point. Another app of the group
`mlflow.app`, such as MLflow's login basic-auth, goes beneath it by MLEVAL_BASE_APP.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import EntryPoint, entry_points, version
from types import FunctionType
from typing import Any

GROUP, NAME = "mlflow.app", "mleval"


def create_app() -> Any:
    """MLflow's application with the page, for the server that runs it: ASGI for uvicorn, WSGI for
    others.
    """
    from mlflow_mleval.server.routes import Page

    app, prefix = (
        _of_mlflow("mlflow.server", "app"),
        _of_mlflow("mlflow.server.handlers", "STATIC_PREFIX_ENV_VAR"),
    )
    page = Page(app, os.environ.get(prefix, "").rstrip("/"))
    page.install()
    base = os.environ.get("MLEVAL_BASE_APP", "")
    if not base:
        return _for_the_server(app)
    base_app = _entry(base).load()
    # The login makes its tables and its administrator: one process at a time.
    with _one_at_a_time():
        made = base_app() if isinstance(base_app, FunctionType) else base_app
    _let_members_in(page)
    return _for_the_server(made)


def _one_at_a_time() -> AbstractContextManager[None]:
    """A lock between the processes of the server; none where they have no folder, of which the page
    will tell.
    """
    from mlflow_mleval.server.answer_cache import CacheFolder

    try:
        return CacheFolder.of_this_server().locked("base")
    except OSError:
        return nullcontext()


def _for_the_server(app: Any) -> Any:
    from flask import Flask

    if (
        not isinstance(app, Flask)
        or _of_mlflow("mlflow.environment_variables", "_MLFLOW_SGI_NAME").get() != "uvicorn"
    ):
        return app
    return _of_mlflow("mlflow.server.fastapi_app", "create_fastapi_app")(app)


def _entry(base: str) -> EntryPoint:
    """Where the app is that goes beneath."""
    apps = {entry.name: entry for entry in entry_points(group=GROUP) if entry.name != NAME}
    if base not in apps:
        names = ", ".join(sorted(apps)) or "none"
        raise SystemExit(
            f"MLEVAL_BASE_APP must be one of {names}, got {base!r}. Install what brings it."
        )
    return apps[base]


def _let_members_in(page: Any) -> None:
    """Tell MLflow's login, where it is the app beneath, that whoever has logged in may ask for the
    page.

    What the page shows is asked of MLflow in the member's name. Without this, a login that is
    closed by default (MLFLOW_BASIC_AUTH_FAIL_CLOSED) lets only administrators in.
    """
    if "mlflow.server.auth" not in sys.modules:
        return
    validators = _of_mlflow("mlflow.server.auth", "BEFORE_REQUEST_VALIDATORS")
    for path, method in page.routes():
        for verb in (method, "HEAD") if method == "GET" else (method,):
            validators[page.prefix + path, verb] = _anybody


def _anybody() -> bool:
    return True


def _of_mlflow(module: str, name: str) -> Any:
    """Something that MLflow promises nobody; a clear message where this version has it no more."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SystemExit(
            f"The page of mleval does not fit MLflow {version('mlflow')}: {module} has no {name} "
            f"({error}). Start the server without --app-name mleval (with the app that "
            "MLEVAL_BASE_APP names, if any), and install a newer mlflow-mleval or another "
            "MLflow."
        ) from error


def _check_before_the_server() -> None:
    """Find what is wrong with the app beneath while `mlflow server` can still say so and end.

    It imports this module before it starts its processes. What failed in those, they would try
    again for ever.
    """
    if base := os.environ.get("MLEVAL_BASE_APP"):
        _entry(base)
        if base == "basic-auth":
            login = importlib.import_module("mlflow.server.auth")
            for name in ("get_flask_server_secret_key", "bootstrap_admin_user"):
                getattr(login, name, bool)()  # what a version lacks, it does later


if not os.environ.get("_MLFLOW_SGI_NAME"):
    _check_before_the_server()
