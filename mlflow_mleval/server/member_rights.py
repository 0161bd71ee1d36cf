"""Whether a member may read what an answer is made of, and whether a request to write is really
theirs.
"""

from __future__ import annotations

import hmac
import time
from urllib.parse import urlsplit

from flask import Request

from mlflow_mleval.errors import StoreError
from mlflow_mleval.server.in_process import Caller, Inside

TOKEN = "X-Mleval-Token"
#: Seconds for which a token is made; the one of the period before holds, too.
PERIOD = 43_200


def may_read(inside: Inside, caller: Caller, experiment_id: str) -> bool:
    """Whether MLflow lets the member see the experiment and search its runs, now.

    Raises
    ------
    StoreError
        MLflow itself fails, as it does without its database: nothing is said about rights then.
    """
    found = inside.get(caller, "/api/2.0/mlflow/experiments/get", experiment_id=experiment_id)
    if found.status >= 500:
        raise StoreError("MLflow could not tell whether you may read these experiments.")
    if not found.ok or found.json().get("experiment", {}).get("lifecycle_stage") != "active":
        return False
    return inside.post(
        caller, "/api/2.0/mlflow/runs/search", {"experiment_ids": [experiment_id], "max_results": 1}
    ).ok


def is_active(inside: Inside, caller: Caller, run_id: str) -> bool:
    """Whether the member can see the run, and it is not deleted."""
    found = inside.get(caller, "/api/2.0/mlflow/runs/get", run_id=run_id)
    return (
        found.ok and found.json().get("run", {}).get("info", {}).get("lifecycle_stage") == "active"
    )


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
