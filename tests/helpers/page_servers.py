"""Real MLflow servers with the page, for the tests of the page: started, asked, and stopped."""

import re
import secrets
import shutil
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import requests
from waiting import PATIENCE, free_port, running

ADMIN = ("admin", secrets.token_urlsafe(12))


@contextmanager
def page_server(
    folder: Path,
    store: str,
    *options: str,
    base: str = "",
    prefix: str = "",
    believed: int = 60,
    **environment: str,
):
    """`mlflow server --app-name mleval` on a port of its own; `.url` is its root, `.ask` asks the
    page. A login is `believed` for so many seconds (MLflow's default is 0).
    """
    port = free_port()
    if base:
        (folder / "auth.ini").write_text(
            f"[mlflow]\ndatabase_uri = sqlite:///{folder / 'auth.db'}\n"
            f"admin_username = {ADMIN[0]}\nadmin_password = {ADMIN[1]}\n"
            f"default_permission = NO_PERMISSIONS\nauth_cache_ttl_seconds = {believed}\n"
            "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
        )
        environment |= {
            "MLEVAL_BASE_APP": base,
            "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "key-of-the-server",
            "MLFLOW_BASIC_AUTH_FAIL_CLOSED": "true",
        }
    scratch = folder / "t"
    scratch.mkdir(exist_ok=True)
    command = [
        *("mlflow", "server", "--app-name", "mleval"),
        *("--host", "127.0.0.1", "--port", str(port), "--backend-store-uri", store),
        *("--artifacts-destination", str(folder / "artifacts"), *options),
    ]
    if "--workers" not in options:
        command += ["--workers", "1"]
    if prefix:
        command += ["--static-prefix", prefix]
    root = f"http://127.0.0.1:{port}{prefix}"
    try:
        with running(command, folder, root, TMPDIR=str(scratch), **environment) as process:
            about = {"url": root, "page": f"{root}/mleval", "folder": folder}
            yield SimpleNamespace(**about, process=process, ask=partial(ask, root))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def ask(root, path, auth=None, method="GET", seconds=PATIENCE, pause=0.1, **options):
    """Asks the page as its script does: while it is at work, again."""
    deadline, how = time.monotonic() + seconds, {"auth": auth, "timeout": PATIENCE}
    while True:
        response = requests.request(method, f"{root}/mleval/{path}", **how, **options)
        if response.status_code != 202 or time.monotonic() > deadline:
            return response
        assert response.json()["state"] == "working"
        time.sleep(pause)


def token_of_page(server, auth=None) -> str:
    """With which the page tells that it asks to write."""
    return re.search('name="mleval-token" content="([0-9a-f]+)"', server.ask("", auth).text)[1]


def api(server, path: str, content=None, auth=None, version: str = "2.0", **query) -> dict:
    """MLflow's own REST; an assertion where it refuses."""
    method = "GET" if content is None else "POST"
    address = f"{server.url}/api/{version}/mlflow/{path}"
    response = requests.request(
        method, address, json=content, params=query, auth=auth, timeout=PATIENCE
    )
    assert response.ok, response.text
    return response.json() if response.content else {}


def grant(server, who: str, experiment_id: str, right: str) -> None:
    content = {"username": who, "resource_type": "experiment", "resource_id": experiment_id}
    old = {"username": who, "experiment_id": experiment_id, "permission": right}
    given = _done(server, "3.0", "users/permissions/grant", {**content, "permission": right})
    assert given or _done(server, "2.0", "experiments/permissions/create", old)


def revoke(server, who: str, experiment_id: str) -> None:
    content = {"username": who, "resource_type": "experiment", "resource_id": experiment_id}
    old = {"username": who, "experiment_id": experiment_id}
    if not _done(server, "3.0", "users/permissions/revoke", content):
        address = f"{server.url}/api/2.0/mlflow/experiments/permissions/delete"
        assert requests.delete(address, json=old, auth=ADMIN, timeout=PATIENCE).ok


def _done(server, version: str, path: str, content: dict) -> bool:
    address = f"{server.url}/api/{version}/mlflow/{path}"
    return requests.post(address, json=content, auth=ADMIN, timeout=PATIENCE).ok
