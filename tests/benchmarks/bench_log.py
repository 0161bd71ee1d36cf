"""What logging an Evaluation takes beside a bare create_run and log_batch of the same metrics.

    python tests/benchmarks/bench_log.py [--json]

10,000 instances, 50 labels, 10 folds, on a server over HTTP, with the report through its proxy;
evaluating is not counted. Seconds of CPU, server included: medians of turns. Bound: 2.5 times the
bare requests. The same again into its run, and with instances, for comparison.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median
from unittest import mock

import numpy as np
import requests
from bench_query import serving
from timing import Row, cpu_of, told

BOUND, TURNS, CALLS = 2.5, 5, 6


def requests_of(call: Callable[[], object]) -> int:
    """How often a call asks a server."""
    honest = requests.Session.send
    with mock.patch.object(requests.Session, "send", autospec=True, side_effect=honest) as send:
        call()
    return send.call_count


def in_turns(pid: int, *calls: Callable[[], object]) -> list[float]:
    """Median seconds of each call, of this process and the server."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(TURNS):
        for call, seconds in zip(calls, taken, strict=True):
            start = time.process_time() + cpu_of(pid)
            for _ in range(CALLS):  # the server's clock ticks a hundred times a second
                call()
            seconds.append((time.process_time() + cpu_of(pid) - start) / CALLS)
    return list(map(median, taken))


def rows() -> Iterator[Row]:
    import mlflow
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    import mlflow_mleval as mleval

    rng = np.random.default_rng(0)
    y = rng.random((10_000, 50)) < 0.1
    scores = np.clip(0.4 * y + 0.6 * rng.random(y.shape), 0, 1)
    folds = np.arange(len(y)) % 10
    tests = [np.flatnonzero(folds == fold) for fold in range(10)]
    names = {"method": "BR", "dataset": "made", "test_indices": tests, "n_train": 9_000}
    # A result is logged once a run, so that each call logs another; the server is asked once only
    # whether it has the page.
    evaluated = [mleval.evaluate(y, scores, folds=folds) for _ in range(3 + 2 * TURNS * CALLS)]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with serving(folder, f"sqlite:///{folder}/mlflow.db") as (url, pid):
            mlflow.set_tracking_uri(url)
            experiment_id = mlflow.set_experiment("bench").experiment_id
            client, same = MlflowClient(), evaluated[0]

            def logged(**options):
                return mleval.log_evaluation(evaluated.pop(), **names, **options)

            run_id = logged()
            sent = requests_of(logged)
            entries = [
                entry
                for key in client.get_run(run_id).data.metrics
                for entry in client.get_metric_history(run_id, key)
            ]
            metrics = [Metric(m.key, m.value, m.timestamp, m.step) for m in entries]
            peer = f"create_run and log_batch, {len(metrics)} metrics"

            def bare():
                client.log_batch(client.create_run(experiment_id).info.run_id, metrics=metrics)

            alone, once, whole, again = in_turns(
                pid,
                bare,
                logged,
                lambda: logged(log_instances=True),
                lambda: mleval.log_evaluation(same, run_id=run_id, **names),
            )
            work = "log 10,000 × 50 in ten folds through a server"
            yield Row(work, once, peer, alone, note=f"{sent} requests", most=BOUND)
            yield Row(f"{work}, with instances", whole, peer, alone)
            yield Row(f"{work}, the same again", again, peer, alone)


if __name__ == "__main__":
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    sys.exit(told(rows()))
