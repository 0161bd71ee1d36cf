"""The page on a server: first words beside MLflow's own search, other weights, the second answer.

    python tests/benchmarks/bench_page.py [CASE] [--json]
    python tests/benchmarks/bench_page.py readers [workers]

CPU of all processes, on SQLite. `plain`: 2,000 runs x 20 measures; `repeats`: 8 methods x 10
datasets x 3 seeds; `large`: 500 methods x 20 datasets. First words are decision, ranking and
doubts, which a slider and a switch ask for again. Bounds: the search + 1 s; 2.5 s in all with
repeats; of `large` 1.5 times the search + 5 s, and 100 MB more memory of the server. `login`:
beneath MLflow's login a poll takes three times as much as MLflow's own search for experiments.
`readers`: what 20 readers of answers of their own add to MLflow's `/health` and a search.
"""

import os
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import requests
from timing import Row, cpu_of, pages, told

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
READERS = 20


class Case(NamedTuple):
    """A study, and how much CPU an answer may take: times MLflow's search, and more."""

    methods: int
    datasets: int
    seeds: int
    factor: float
    more: float


CASES = {
    "plain": Case(20, 100, 1, 1.0, 1.0),
    "repeats": Case(8, 10, 3, 0.0, 2.5),
    "large": Case(500, 20, 1, 1.5, 5.0),
}


def fill(path: Path, methods: int, datasets: int, measures: list[str], seeds: int = 1) -> str:
    """Runs as mleval logs them, put straight into the tables; the experiment's id."""
    from mlflow import MlflowClient
    from plain_store import Writer

    from mlflow_mleval.store import schema

    experiment_id = MlflowClient(f"sqlite:///{path}").create_experiment("many")
    rng = np.random.default_rng(0)
    with sqlite3.connect(path) as connection:
        writer = Writer(connection, {"many": experiment_id})
        for d, m, seed in product(range(datasets), range(methods), range(seeds)):
            values = np.clip(0.5 + 0.1 * rng.standard_normal(len(measures)) + m / methods / 5, 0, 1)
            tags = {schema.TAG_METHOD: f"method {m}", schema.TAG_DATASET: f"dataset {d}"}
            params = {"seed": seed} if seeds > 1 else {}
            writer.run("many", params, dict(zip(measures, values, strict=True)), tags=tags)
    connection.close()
    return experiment_id


def processor(server) -> float:
    """Seconds of CPU that the server and this process have taken, whatever else the machine
    does.
    """
    return cpu_of(server.process.pid) + time.process_time()


def quiet(server) -> None:
    """Wait until the server has nothing to do."""
    while True:
        before = processor(server)
        time.sleep(2)
        if processor(server) - before < 0.1:
            return


def taken(server, call) -> tuple[float, object]:
    """The seconds of CPU of a call, and what it returns."""
    start = processor(server)
    result = call()
    return processor(server) - start, result


def search(url: str, experiment_id: str) -> int:
    """MLflow's own search for all runs."""
    from mlflow import MlflowClient

    return sum(map(len, pages(MlflowClient(url), experiment_id)))


def felt(server, experiment_id: str, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of MLflow's own requests, asked one after the other for so long."""
    asked = {"experiment_ids": [experiment_id], "max_results": 100}
    calls = {
        "/health": ("get", "health", None),
        "search of 100 runs": ("post", "api/2.0/mlflow/runs/search", asked),
    }
    times, end = {name: [] for name in calls}, time.monotonic() + seconds
    while time.monotonic() < end:
        for name, (method, path, given) in calls.items():
            start = time.perf_counter()
            requests.request(method, f"{server.url}/{path}", json=given, timeout=60)
            times[name].append(1000 * (time.perf_counter() - start))
    return times


def with_login(repeats: int = 15) -> list[Row]:
    """What a poll and the list cost behind MLflow's login."""
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
            quiet(server)  # the files beside the answer are written after it
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
                    spent[name].append(taken(server, call)[0])
    search, poll, listed = map(statistics.mean, spent.values())
    peer = "MLflow's search for experiments"
    return [
        Row("page: a poll behind MLflow's login", poll, peer, search, most=3),
        Row("page: the list of experiments behind MLflow's login", listed, peer, search),
    ]


def memory(session: int) -> float:
    """MB of the server's processes; those that compute, which end, do not count."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            ours = int(stat.read_text().rpartition(")")[2].split()[3]) == session
            if ours and b"forkserver" not in stat.with_name("cmdline").read_bytes():
                total += int(stat.with_name("statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


def names() -> list[str]:
    """Measures of the runs."""
    from mlflow_mleval.measures.registry import MEASURES

    return [m.name for m in MEASURES.values() if m.range == (0, 1)][:20]


@contextmanager
def served(case: Case, *options: str):
    """A server with the runs of a case, what computes started; the experiment's id."""
    from mlflow import MlflowClient
    from page_servers import page_server

    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/mlflow.db"
        MlflowClient(store).search_experiments()
        path = Path(folder, "mlflow.db")
        experiment_id = fill(path, case.methods, case.datasets, names(), case.seeds)
        with page_server(Path(folder), store, *options) as server:
            server.ask("")  # a visit of the page starts what computes
            search(server.url, experiment_id)  # what is slow the first time
            quiet(server)
            yield server, experiment_id


def measured(name: str) -> tuple[list[Row], bool]:
    """CPU of the survey, the first words, other weights, fewer measures and the second answer; and
    whether the server's memory keeps its bound.
    """
    case = CASES[name]
    with served(case) as (server, experiment_id):
        runs = f"experiment-id={experiment_id}"
        if case.seeds > 1:
            runs += "&repeats-by=param:seed"

        def asked(what: str, more: str = ""):
            return server.ask(f"{what}?{runs}{more}", seconds=600, pause=0.5)

        before = memory(server.process.pid)
        parts = {
            "MLflow's search": lambda: search(server.url, experiment_id),
            "survey": lambda: asked("survey"),
            "first words": lambda: asked("answer"),
            "a slider let go": lambda: asked("answer", f"&weights={names()[0]}%3D2"),
            "a measure switched off": lambda: asked("answer", f"&exclude-measure={names()[0]}"),
            "second answer": lambda: asked("answer"),
        }
        spent = {}
        for part, ask in parts.items():
            spent[part], answer = taken(server, ask)
            assert part == "MLflow's search" or answer.status_code == 200, answer.text
        more = memory(server.process.pid) - before
    theirs = spent.pop("MLflow's search")
    size = f"{case.methods} x {case.datasets}" + (f" x {case.seeds}" if case.seeds > 1 else "")
    limit = case.factor * theirs + case.more
    note = f"MLflow's search takes {theirs:.2f} s; the server has {more:.0f} MB more at the end"
    rows = [
        Row(f"page: {part}, {size} runs", ours, bound=round(limit, 2), note=note)
        for part, ours in spent.items()
    ]
    return rows, more <= 100


def with_readers(workers: int) -> int:
    """What MLflow's own requests take beside 20 readers."""
    with served(CASES["plain"], "--workers", str(workers)) as (server, experiment_id):
        selection = f"answer?experiment-id={experiment_id}"
        alone, stop = felt(server, experiment_id, 5), threading.Event()

        def read(k: int) -> None:
            while not stop.is_set():
                server.ask(f"{selection}&seed={k}", seconds=0)
                stop.wait(1)  # as the page does

        readers = [threading.Thread(target=read, args=(k,), daemon=True) for k in range(READERS)]
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
    return 0


def main() -> int:
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    asked = [argument for argument in sys.argv[1:] if argument != "--json"]
    if asked[:1] == ["readers"]:
        return with_readers(int(asked[1]) if asked[1:] else 4)
    missed = 0
    for name in asked or [*CASES, "login"]:
        rows, is_small = (with_login(), True) if name == "login" else measured(name)
        missed |= told(rows) | (not is_small)
    return missed


if __name__ == "__main__":
    sys.exit(main())
