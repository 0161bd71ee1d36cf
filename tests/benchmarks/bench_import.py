"""What an import takes beside bare MLflow calls that write the same runs.

    python tests/benchmarks/bench_import.py [runs, 2,112 by default] [--json]

Results of 16 measures into SQLite, and through a server, beside bare `create_run`, `log_batch` and
`set_terminated`. Seconds of CPU in processes of their own, in turn: the least of three, or of as
many as MLEVAL_BENCH_REPEATS says. Bound: 1.5 times the bare calls.
"""

import json
import os
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext

import numpy as np
import pandas as pd
from bench_query import serving
from timing import Row, cpu_of, of_own_process, pages, told

BOUND, N_MEASURES, N_METHODS = 1.5, 16, 16
REPEATS = int(os.environ.get("MLEVAL_BENCH_REPEATS", "3"))


def table(n):
    from mlflow_mleval.measures.registry import MEASURES

    measures = [m.name for m in MEASURES.values() if m.family != "cost"][:N_MEASURES]
    pairs = [(f"dataset {i // N_METHODS}", f"method {i % N_METHODS}") for i in range(n)]
    values = np.random.default_rng(0).random((n, N_MEASURES)).round(4)
    frame = pd.DataFrame(values, columns=measures)
    return frame.assign(**pd.DataFrame(pairs, columns=["dataset", "method"]))


def imported(n):
    from mlflow_mleval.store.importing import import_results

    import_results(table(n), experiment_name="made", conventions="sklearn")


def bare(source):
    """Writes the runs of another store with MLflow's calls alone; returns what does it."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    there = MlflowClient(source)
    held = there.get_experiment_by_name("made").experiment_id
    content = [
        (
            run.info.run_name,
            [Metric(key, value, run.info.start_time, 0) for key, value in run.data.metrics.items()],
            [Param(*item) for item in run.data.params.items()],
            [RunTag(*item) for item in run.data.tags.items() if item[0] != "mlflow.runName"],
        )
        for page in pages(there, held)
        for run in page
    ]

    def write():
        client = MlflowClient()
        experiment_id = client.create_experiment("made")
        for name, metrics, params, tags in content:
            run_id = client.create_run(experiment_id, run_name=name).info.run_id
            client.log_batch(run_id, metrics, params, tags)
            client.set_terminated(run_id)

    return write


def in_own_process(way, given):
    from mlflow import MlflowClient

    MlflowClient().search_experiments()  # makes the tables
    act = bare(given) if way == "bare" else lambda: imported(int(given))
    start = time.process_time(), time.perf_counter()
    act()
    print(json.dumps([time.process_time() - start[0], time.perf_counter() - start[1]]))


def taken(uri, way, given, pid):
    """Seconds of CPU of one way, and of the server behind it."""
    before, arguments = cpu_of(pid), ("--way", way, str(given))
    own, wall = of_own_process(__file__, *arguments, MLFLOW_TRACKING_URI=uri)
    return own + cpu_of(pid) - before, wall


def compared(n, behind_server):
    """The least seconds of CPU, and of time, of an import and of bare calls."""
    ways = {"import": [], "bare": []}
    for _ in range(REPEATS):
        with place(behind_server) as (uri, pid):
            ways["import"].append(taken(uri, "import", n, pid))
            with place(behind_server) as (other, other_pid):
                ways["bare"].append(taken(other, "bare", uri, other_pid))
    return [min(row[i] for row in rows) for rows in ways.values() for i in (0, 1)]


@contextmanager
def place(behind_server):
    """A store in a folder of its own, behind a server or not, and the server's process."""
    with tempfile.TemporaryDirectory() as folder:
        uri = f"sqlite:///{folder}/mlflow.db"
        with serving(folder, uri) if behind_server else nullcontext((uri, None)) as where:
            yield where


def rows(n):
    for name, behind_server in (("SQLite", False), ("HTTP, with its server", True)):
        ours, ours_wall, theirs, their_wall = compared(n, behind_server)
        work = f"import of {n:,} results of {N_MEASURES} measures, {name}"
        note = f"({ours_wall:.1f} s of time beside {their_wall:.1f} s)"
        yield Row(work, ours, "bare MLflow calls", theirs, note=note, most=BOUND)


if __name__ == "__main__":
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    if sys.argv[1:2] == ["--way"]:
        in_own_process(*sys.argv[2:])
    else:
        sizes = [int(given) for given in sys.argv[1:] if given.isdecimal()]
        sys.exit(told(rows(*sizes or [2_112])))
