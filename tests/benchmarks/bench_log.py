"""Time to log one Evaluation against a bare create_run + log_batch of the same metrics, on the same
real server over HTTP.

    python tests/benchmarks/bench_log.py [workers ...]

10,000 instances, 50 labels, 10 folds: all measures, folds and profiles as metrics, tags, a dataset
input, and the artifacts with the run's own report, through the server's proxy. Bound: at most 3
times the bare requests; with one worker and with four, the server's default. Best of several,
alternating. Logging the same again into its run, and with instances too, for comparison.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from timing import best, peak

BOUND, REPEATS = 3.0, 15


@contextmanager
def server(workers: int):
    """A tracking server on localhost with SQLite and proxied artifacts."""
    import requests
    from mlflow import MlflowClient

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/mlflow.db"
        MlflowClient(store).search_experiments()
        command = [
            sys.executable,
            "-m",
            "mlflow",
            "server",
            "--workers",
            str(workers),
            "--port",
            str(port),
            "--backend-store-uri",
            store,
            "--artifacts-destination",
            f"{folder}/artifacts",
        ]
        settings = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=settings
            )
            try:
                for _ in range(600):
                    try:
                        if requests.get(f"http://127.0.0.1:{port}/health", timeout=2).ok:
                            break
                    except requests.RequestException:
                        time.sleep(0.2)
                yield f"http://127.0.0.1:{port}"
            finally:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(30)


def measured(workers: int) -> list[tuple[str, float, float, float]]:
    """Name, milliseconds, ratio to the bare requests and peak MB of each way."""
    import mlflow
    from mlflow import MlflowClient
    from mlflow.entities import Metric

    import mlflow_mleval as mleval

    rng = np.random.default_rng(0)
    y = rng.random((10_000, 50)) < 0.1
    scores = np.clip(0.4 * y + 0.6 * rng.random(y.shape), 0, 1)
    folds = np.arange(len(y)) % 10
    tests = [np.flatnonzero(folds == fold) for fold in range(10)]
    with server(workers) as url:
        mlflow.set_tracking_uri(url)
        client = MlflowClient()
        experiment_id = client.create_experiment("bench")
        mlflow.set_experiment("bench")
        evaluations = iter(
            [mleval.evaluate(y, scores, folds=folds) for _ in range(2 * REPEATS + 4)]
        )

        def logged(**options):
            facts = {"y_true": y, "test_indices": tests, "n_train": 9_000}
            return mleval.log_evaluation(
                next(evaluations), method="BR", dataset="made", **facts, **options
            )

        run_id = logged()
        found = client.get_run(run_id).data.metrics
        entries = [m for key in found for m in client.get_metric_history(run_id, key)]
        metrics = [Metric(m.key, m.value, m.timestamp, m.step) for m in entries]
        same = mleval.evaluate(y, scores, folds=folds)

        def bare():
            client.log_batch(client.create_run(experiment_id).info.run_id, metrics=metrics)

        def again():
            mleval.log_evaluation(
                same,
                method="BR",
                dataset="made",
                run_id=run_id,
                test_indices=tests,
                n_train=9_000,
            )

        bare()
        ways = {
            f"create_run + log_batch, {len(metrics)} metrics": bare,
            "log_evaluation": logged,
            "  with instances too": lambda: logged(log_instances=True),
            "  the same again": again,
        }
        times = best(*ways.values(), repeats=REPEATS)
        return [
            (name, 1e3 * t, t / times[0], peak(call))
            for (name, call), t in zip(ways.items(), times, strict=True)
        ]


def main() -> int:
    missed = False
    for workers in map(int, sys.argv[1:] or (1, 4)):
        print(
            f"\nserver with {workers} "
            f"worker{'s' * (workers > 1)}\n{'':34}{'ms':>8}{'ratio':>8}{'peak MB':>9}"
        )
        for name, milliseconds, ratio, megabytes in measured(workers):
            bounded = name == "log_evaluation"
            verdict = (
                ""
                if not bounded
                else f"  bound {BOUND:g}: " + ("ok" if ratio <= BOUND else "MISSED")
            )
            missed |= bounded and ratio > BOUND
            print(f"{name:<34}{milliseconds:8.1f}{ratio:8.2f}{megabytes:9.1f}{verdict}")
    return int(missed)


if __name__ == "__main__":
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    sys.exit(main())
