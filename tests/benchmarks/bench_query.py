"""Time to rank stored runs against MLflow's own search for the same runs, in one process.

    python tests/benchmarks/bench_query.py [runs]
    python tests/benchmarks/bench_query.py stores [runs, 10,000 by default]

2,000 runs x 20 measures in a SQLite store, as few methods on many datasets and as many methods on
few; "with folds" each run carries five folds. The peer is `MlflowClient.search_runs` page by page,
results thrown away. Bound: reading a Study and fusing it takes at most 1.3 times the bare search.
Best of five, alternating.

With `stores` the runs lie in SQLite, in PostgreSQL (where it is installed) and behind a server, and
are read by processes of their own, each way in turn: the median of the seconds of CPU of reader,
server and database together, and the largest resident set of the reader. Bounds: 1.3 times the bare
search, and 100 MB more.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tracemalloc
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from uuid import uuid4

import numpy as np
import pandas as pd
from timing import timed

for name in ("server", "helpers"):
    sys.path.insert(0, str(Path(__file__).parents[1] / name))

BOUND, REPEATS, MORE = 1.3, 5, 100
SHAPES = ((20, 100, 0), (1000, 2, 0), (20, 100, 5))


def results(n_methods, n_datasets, n_folds, measures):
    rng = np.random.default_rng(0)
    names = [range(n_datasets), range(n_methods), range(max(n_folds, 1))]
    table = pd.DataFrame(
        [(f"dataset {d}", f"method {m}", f) for d in names[0] for m in names[1] for f in names[2]],
        columns=["dataset", "method", "fold"],
    )
    table[measures] = rng.random((len(table), len(measures)))
    return table if n_folds else table.drop(columns="fold")


def bare(client, experiment_id):
    token, n = None, 0
    while True:
        page = client.search_runs([experiment_id], page_token=token)
        n, token = n + len(page), page.token
        if not token:
            return n


def measured(client, experiment_id, name):
    """Runs, and the best seconds of the bare search, of reading a Study, and of reading and fusing
    it.
    """
    from mlflow_mleval.analysis.fusion import fuse
    from mlflow_mleval.store.query import load_study

    times = []
    for _ in range(REPEATS):
        searched, n_runs = timed(bare, client, experiment_id)
        read, study = timed(load_study, experiment_names=[name])
        fused, _ = timed(fuse, study)
        times.append((searched, read, read + fused))
    tracemalloc.start()
    fuse(load_study(experiment_names=[name]))
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return n_runs, *np.min(times, axis=0), peak


# --- several stores

TABLES = ("runs", "tags", "params", "metrics", "latest_metrics")


def copies(uri, n):
    """So many runs of one experiment, copies of one that was imported, with times of their own."""
    import mlflow
    import sqlalchemy

    from mlflow_mleval.measures.registry import MEASURES
    from mlflow_mleval.store.importing import import_results

    mlflow.set_tracking_uri(uri)
    measures = [m.name for m in MEASURES.values() if m.family != "cost"][:20]
    import_results(results(1, 1, 0, measures), experiment_name="copies", conventions="sklearn")
    engine = sqlalchemy.create_engine(uri)
    known = sqlalchemy.MetaData()
    known.reflect(engine, only=TABLES)
    ids = [uuid4().hex for _ in range(n - 1)]
    with engine.begin() as connection:
        for name in TABLES:
            rows = connection.execute(sqlalchemy.select(known.tables[name])).mappings().all()
            made = [_copy(row, i, run) for i, run in enumerate(ids, 1) for row in rows]
            if made:
                connection.execute(known.tables[name].insert(), made)
    engine.dispose()


def _copy(row, i, run_id):
    row = dict(row) | {"run_uuid": run_id}
    if "start_time" in row:
        row["start_time"] += i
    if row.get("key") == "mleval.method":
        row["value"] = f"method {i}"
    return row


def cpu_of(pid):
    """Seconds of CPU of a process, its children, and those of them that have ended."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(cpu_of, below))


def read_in_own_process(way):
    """What a process that reads prints: its seconds of CPU and the MB of its largest set."""
    from mlflow import MlflowClient

    from mlflow_mleval.store.query import load_study

    client = MlflowClient()
    experiment_id = client.get_experiment_by_name("copies").experiment_id
    start = time.process_time()
    if way == "bare":
        bare(client, experiment_id)
    else:
        load_study(experiment_names=["copies"])
    seconds = time.process_time() - start
    # not `ru_maxrss`, which begins with that of the parent
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps([seconds, peak]))


@contextmanager
def serving(folder, uri):
    """The address of a server of one worker, and its process."""
    import requests
    from waiting import free_port

    url = f"http://127.0.0.1:{(port := free_port())}"
    command = ["-m", "mlflow", "server", "--workers", "1", "--port", str(port)]
    command += ["--backend-store-uri", uri]
    settings = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with open(Path(folder, "server.log"), "wb") as log:
        process = subprocess.Popen(
            [sys.executable, *command], stdout=log, stderr=log, start_new_session=True, env=settings
        )
        try:
            for _ in range(600):
                try:
                    if requests.get(f"{url}/health", timeout=2).ok:
                        break
                except requests.RequestException:
                    time.sleep(0.2)
            yield url, process.pid
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


@contextmanager
def postgres():
    """The URI of a database of its own, and its process."""
    from conftest import database

    cluster = database.__wrapped__()
    made = next(cluster)
    pid = int((made.log.parent / "data" / "postmaster.pid").read_text().split()[0])
    try:
        yield f"postgresql+psycopg2://postgres:{made.superuser}@127.0.0.1:{made.port}/mlflow", pid
    finally:
        os.kill(pid, signal.SIGINT)  # ends at once, whoever is still connected
        cluster.close()


def of_store(uri, pid):
    """Medians of seconds and MB of the bare search and of reading, which take turns."""
    taken = {"bare": [], "read": []}
    for _ in range(3):
        for way, figures in taken.items():
            before = cpu_of(pid)
            done = subprocess.run(
                [sys.executable, __file__, "--way", way],
                capture_output=True,
                text=True,
                check=True,
                env=os.environ | {"MLFLOW_TRACKING_URI": uri},
            )
            seconds, peak = json.loads(done.stdout)
            figures.append((seconds + cpu_of(pid) - before, peak))
    return [[median(column) for column in zip(*rows, strict=True)] for rows in taken.values()]


def stores(n):
    missed = False
    from conftest import find_postgres

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.chdir(folder)
        sqlite = f"sqlite:///{folder}/mlflow.db"
        copies(sqlite, n)
        places = {"SQLite": (sqlite, None)}
        if find_postgres() is not None:
            places["PostgreSQL"] = stack.enter_context(postgres())
            copies(places["PostgreSQL"][0], n)
        places["HTTP"] = stack.enter_context(serving(folder, sqlite))
        print(f"{n:,} runs   {'search':>8} {'read':>8} {'ratio':>6} {'MB':>6} {'MB':>6}")
        for name, (uri, pid) in places.items():
            (search, least), (read, most) = of_store(uri, pid)
            met = read <= BOUND * search and most - least <= MORE
            missed |= not met
            print(
                f"{name:12}{search:7.2f}s {read:7.2f}s {read / search:6.2f} {least:6.0f} "
                f"{most:6.0f} {'ok' if met else 'MISSED'}",
                flush=True,
            )
    return int(missed)


def main():
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.chdir(tempfile.mkdtemp())
    os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///mlflow.db"
    from mlflow import MlflowClient

    from mlflow_mleval.measures.registry import MEASURES
    from mlflow_mleval.store.importing import import_results

    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    measures = [m.name for m in MEASURES.values() if m.family != "cost"][:20]
    missed = False
    print(
        f"{'methods x datasets x folds':28} {'runs':>6} {'search':>8} {'read':>8} {'+ fuse':>8} "
        f"{'ratio':>6} {'peak':>8}"
    )
    for n_methods, n_datasets, n_folds in SHAPES:
        n_datasets = max(n_datasets * wanted // 2_000, 1)
        name = f"{n_methods} x {n_datasets} x {n_folds or 'none'}"
        report = import_results(
            results(n_methods, n_datasets, n_folds, measures),
            experiment_name=name,
            conventions="sklearn",
        )
        n_runs, search, read, rank, peak = measured(MlflowClient(), report.experiment_id, name)
        verdict = "ok" if rank <= BOUND * search else "MISSED"
        missed |= verdict == "MISSED"
        times = f"{search:7.2f}s {read:7.2f}s {rank:7.2f}s {rank / search:6.2f}"
        print(f"{name:28} {n_runs:6} {times} {peak:5.0f} MB  {verdict} (bound {BOUND})", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--way"]:
        read_in_own_process(sys.argv[2])
    elif sys.argv[1:2] == ["stores"]:
        sys.exit(stores(int(sys.argv[2]) if len(sys.argv) > 2 else 10_000))
    else:
        main()
