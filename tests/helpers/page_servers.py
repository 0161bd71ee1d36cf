"""Real MLflow servers with the page, for the tests of the page: started, asked, and stopped."""

import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import requests
from waiting import MLFLOW_SETTINGS, PATIENCE, free_port, wait_for

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
            f"[mlflow]\ndatabase_uri = sqlite:///{folder / 'auth.db'}\nadmin_username = "
            f"{ADMIN[0]}\n"
            f"admin_password = {ADMIN[1]}\ndefault_permission = "
            f"NO_PERMISSIONS\nauth_cache_ttl_seconds = {believed}\n"
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
    inherited = {key: value for key, value in os.environ.items() if key not in MLFLOW_SETTINGS}
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--app-name", "mleval"),
        *("--host", "127.0.0.1", "--port", str(port), "--backend-store-uri", store),
        *("--artifacts-destination", str(folder / "artifacts"), *options),
    ]
    if "--workers" not in options:
        command += ["--workers", "1"]
    if prefix:
        command += ["--static-prefix", prefix]
    settings = {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "TMPDIR": str(scratch),
        **environment,
    }
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=inherited | settings,
        )
    root = f"http://127.0.0.1:{port}{prefix}"
    try:
        wait_for(root, process, folder / "server.log")
        yield SimpleNamespace(
            url=root, page=f"{root}/mleval", folder=folder, process=process, ask=Asking(root).ask
        )
    finally:
        os.killpg(process.pid, 15)
        process.wait(PATIENCE)
        shutil.rmtree(scratch, ignore_errors=True)


class Asking:
    """Asks the page as its script does: while it is at work, again."""

    def __init__(self, root: str) -> None:
        self.root = root

    def ask(
        self,
        path: str,
        auth=None,
        method: str = "GET",
        seconds: float = PATIENCE,
        pause: float = 0.1,
        **options,
    ) -> requests.Response:
        deadline = time.monotonic() + seconds
        while True:
            response = requests.request(
                method, f"{self.root}/mleval/{path}", auth=auth, timeout=PATIENCE, **options
            )
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
    assert _done(server, "3.0", "users/permissions/grant", {**content, "permission": right}) or (
        _done(server, "2.0", "experiments/permissions/create", old)
    ), "no way to give a right"


def revoke(server, who: str, experiment_id: str) -> None:
    content = {"username": who, "resource_type": "experiment", "resource_id": experiment_id}
    old = {"username": who, "experiment_id": experiment_id}
    if not _done(server, "3.0", "users/permissions/revoke", content):
        address = f"{server.url}/api/2.0/mlflow/experiments/permissions/delete"
        assert requests.delete(address, json=old, auth=ADMIN, timeout=PATIENCE).ok


def _done(server, version: str, path: str, content: dict) -> bool:
    address = f"{server.url}/api/{version}/mlflow/{path}"
    return requests.post(address, json=content, auth=ADMIN, timeout=PATIENCE).ok
