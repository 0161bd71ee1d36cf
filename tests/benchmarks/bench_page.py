"""The page on a server: its first answer against MLflow's own search, the second, and what MLflow
feels of 20 readers.

    python tests/benchmarks/bench_page.py [methods] [datasets] [workers]
    python tests/benchmarks/bench_page.py login

A real server on SQLite with 2,000 runs x 20 measures. Bounds: the first answer takes at most 1.3
times the search of the same runs by MLflow's client plus 2 s, the second at most 300 ms. Then 20
readers ask for answers of their own at once, while MLflow's `/health` and a search of 100 runs are
asked: their times, alone and beside the readers.

`login`: beneath the page is MLflow's login as it is by default, which hashes a password for each
question. CPU of one poll and of the list of six experiments, in times of MLflow's own search for
experiments by the same member; a poll takes three times as much at most.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import requests

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
FACTOR, MORE, SECOND, READERS = 1.3, 2.0, 0.3, 20


def fill(path: Path, methods: int, datasets: int, measures: list[str]) -> str:
    """Runs as mleval logs them, put straight into the tables; the experiment's id."""
    from mlflow import MlflowClient

    from mlflow_mleval.store import schema

    experiment_id = MlflowClient(f"sqlite:///{path}").create_experiment("many")
    rng, at = np.random.default_rng(0), 1_700_000_000_000
    with sqlite3.connect(path) as connection:
        put = connection.executemany
        for d in range(datasets):
            for m in range(methods):
                at += 60_000
                run = f"{at:032x}"
                row = {
                    "run_uuid": run,
                    "name": run,
                    "source_type": "LOCAL",
                    "source_name": "",
                    "entry_point_name": "",
                    "user_id": "me",
                    "status": "FINISHED",
                    "start_time": at,
                    "end_time": at + 5000,
                    "source_version": "",
                    "lifecycle_stage": "active",
                    "artifact_uri": f"mlflow-artifacts:/{run}",
                    "experiment_id": experiment_id,
                }
                put(
                    f"INSERT INTO runs ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                    [[*row.values()]],
                )
                tags = {
                    schema.TAG_METHOD: f"method {m}",
                    schema.TAG_DATASET: f"dataset {d}",
                    "mlflow.runName": run,
                }
                put(
                    "INSERT INTO tags (key, value, run_uuid) VALUES (?, ?, ?)",
                    [(*item, run) for item in tags.items()],
                )
                values = np.clip(
                    0.5 + 0.1 * rng.standard_normal(len(measures)) + m / methods / 5, 0, 1
                )
                rows = [
                    (key, float(value), at, 0, False, run)
                    for key, value in zip(measures, values, strict=True)
                ]
                for table in ("metrics", "latest_metrics"):
                    put(
                        f"INSERT INTO {table} (key, value, timestamp, step, is_nan, run_uuid) "
                        "VALUES (?, ?, ?, ?, ?, ?)",
                        rows,
                    )
    connection.close()
    return experiment_id


def timed(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def processor(session: int) -> float:
    """Seconds of CPU that all processes of a session and this one have taken, whatever else the
    machine does.
    """
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15])) if int(fields[3]) == session else 0
    return ticks / os.sysconf("SC_CLK_TCK") + time.process_time()


def quiet(session: int) -> None:
    """Wait until the server has nothing to do."""
    while True:
        before = processor(session)
        time.sleep(2)
        if processor(session) - before < 0.1:
            return


def search(url: str, experiment_id: str) -> int:
    """All runs by MLflow's client, page by page."""
    from mlflow import MlflowClient

    client, token, n = MlflowClient(url), None, 0
    while True:
        page = client.search_runs([experiment_id], page_token=token)
        n, token = n + len(page), page.token
        if not token:
            return n


def felt(server, experiment_id: str, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of MLflow's own requests, asked one after the other for so long."""
    times, end = {"/health": [], "search of 100 runs": []}, time.monotonic() + seconds
    asked = {"experiment_ids": [experiment_id], "max_results": 100}
    while time.monotonic() < end:
        took, _ = timed(lambda: requests.get(f"{server.url}/health", timeout=60))
        times["/health"].append(1000 * took)
        took, _ = timed(
            lambda: requests.post(
                f"{server.url}/api/2.0/mlflow/runs/search", json=asked, timeout=60
            )
        )
        times["search of 100 runs"].append(1000 * took)
    return times


def with_login(repeats: int = 15) -> int:
    """What a poll and the list cost behind MLflow's login; 1 where the bound is missed."""
    from mlflow import MlflowClient
    from page_servers import ADMIN, api, grant, page_server

    member = ("ann", "ann's long password")
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/mlflow.db"
        client = MlflowClient(store)
        ids = [client.create_experiment(f"experiment {i}") for i in range(6)]
        own = fill(Path(folder, "mlflow.db"), 8, 10, ["f1", "accuracy"])
        with page_server(Path(folder), store, base="basic-auth", believed=0) as server:
            content = {"username": member[0], "password": member[1]}
            api(server, "users/create", content, ADMIN)
            for experiment_id in (*ids, own):
                grant(server, "ann", experiment_id, "READ")
            selection = f"answer?experiment-id={own}"
            assert server.ask(selection, member, seconds=300).status_code == 200
            quiet(server.process.pid)  # the files beside the answer are written after it
            calls = {
                "MLflow's search": lambda: api(
                    server, "experiments/search", {"max_results": 20}, member
                ),
                "a poll": lambda: server.ask(selection, member),
                "the list": lambda: server.ask("experiments", member),
            }
            spent = {name: [] for name in calls}
            for _ in range(repeats):
                for name, call in calls.items():
                    before = processor(server.process.pid)
                    call()
                    spent[name].append(processor(server.process.pid) - before)
    base = statistics.mean(spent["MLflow's search"])
    for name, taken in spent.items():
        mean = statistics.mean(taken)
        print(f"{name:18} {1000 * mean:7.0f} ms of CPU {mean / base:6.2f} times")
    return int(statistics.mean(spent["a poll"]) > 3 * base)


def main() -> int:
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    if sys.argv[1:] == ["login"]:
        return with_login()
    from page_servers import page_server

    from mlflow_mleval.measures.registry import MEASURES

    numbers = [int(arg) for arg in sys.argv[1:]]
    methods, datasets, workers = [*numbers, *(20, 100, 1)[len(numbers) :]]
    measures = [m.name for m in MEASURES.values() if m.range == (0, 1)][:20]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        from mlflow import MlflowClient

        MlflowClient(f"sqlite:///{folder}/mlflow.db").search_experiments()
        experiment_id = fill(folder / "mlflow.db", methods, datasets, measures)
        with page_server(
            folder, f"sqlite:///{folder}/mlflow.db", "--workers", str(workers)
        ) as server:
            server.ask("")  # a visit of the page starts the worker
            search(server.url, experiment_id)  # what is slow the first time
            spent = [processor(server.process.pid)]
            searched, n = timed(lambda: search(server.url, experiment_id))
            spent.append(processor(server.process.pid))
            selection = f"answer?experiment-id={experiment_id}"
            first, answer = timed(lambda: server.ask(selection, seconds=300, pause=0.5))
            spent.append(processor(server.process.pid))
            assert answer.status_code == 200, answer.text
            second = min(timed(lambda: server.ask(selection))[0] for _ in range(5))
            bound = FACTOR * searched + MORE
            print(
                f"{n:,} runs x {len(measures)} measures, {methods} methods x {datasets} "
                f"datasets, {workers} workers"
            )
            own, ours = np.diff(spent)
            print(f"MLflow's own search      {searched:7.2f} s, {own:.2f} s of CPU")
            print(
                f"first answer             {first:7.2f} s   bound {bound:.2f} s "
                f"{'' if first <= bound else 'MISSED'}"
            )
            print(f"  of CPU                 {ours:7.2f} s   bound {FACTOR * own + MORE:.2f} s")
            print(
                f"second answer            {second:7.3f} s   bound {SECOND:.3f} s "
                f"{'' if second <= SECOND else 'MISSED'}"
            )
            alone, stop = felt(server, experiment_id, 5), threading.Event()

            def read(k: int) -> None:
                while not stop.is_set():
                    server.ask(f"{selection}&seed={k}", seconds=0)
                    stop.wait(1)  # as the page does

            readers = [
                threading.Thread(target=read, args=(k,), daemon=True) for k in range(READERS)
            ]
            for reader in readers:
                reader.start()
            beside = felt(server, experiment_id, 20)
            stop.set()
            for reader in readers:
                reader.join()
            for what, times in beside.items():
                before, now = (statistics.median(t) for t in (alone[what], times))
                worst = sorted(times)[int(0.95 * len(times))]
                print(
                    f"{what:24} {before:7.1f} ms alone, {now:.1f} ms beside {READERS} readers "
                    f"({now / before:.1f} times; 95 %: {worst:.0f} ms)"
                )
    return int(first > bound or second > SECOND)


if __name__ == "__main__":
    sys.exit(main())
