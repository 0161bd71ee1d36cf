"""The experiments that a member may see: how many runs each has, which MLflow does not count, and
when it changed last.
"""

from __future__ import annotations

import base64
import json
import time
from datetime import datetime, timezone
from typing import Any

from mlflow_mleval.server.in_process import Caller, Inside

#: Experiments of a page; runs that are counted at most.
SHOWN, MOST = 20, 100_000
#: Seconds that counting takes at most for one list, and for which a count is believed.
PATIENCE, BELIEVED = 1.0, 60.0


class ExperimentList:
    """Lists experiments, and remembers for a while how many runs they have."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside
        self._counts: dict[Any, Any] = {}

    def rows(self, caller: Caller, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the list shows of experiments that MLflow found for the caller, the one that changed
        last first.
        """
        end = time.monotonic() + PATIENCE
        rows = [self._row(caller, experiment, end) for experiment in found]
        return sorted(
            rows,
            key=lambda row: row["last"] or datetime.min.replace(tzinfo=timezone.utc),
            reverse=True,
        )

    def _row(self, caller: Caller, found: dict[str, Any], end: float) -> dict[str, Any]:
        key, now = (caller.workspace, found["experiment_id"]), time.monotonic()
        if (key not in self._counts or now - self._counts[key][0] > BELIEVED) and now < end:
            if len(self._counts) > 10_000:
                self._counts.clear()
            self._counts[key] = (now, *self._counted(caller, found["experiment_id"]))
        _, n, started = self._counts.get(key, (0, None, 0))  # None where there was no time to count
        last = max(started, int(found.get("last_update_time") or 0))
        return {
            "id": found["experiment_id"],
            "name": found["name"],
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
