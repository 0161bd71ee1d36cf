"""What reading stored runs of 20 measures takes beside `MlflowClient.search_runs`, page by page.

    python tests/benchmarks/bench_query.py [stores] [folds] [many] [--runs N] [--json]

`stores`: 10,000 runs in SQLite, in PostgreSQL (where it is installed) and behind a server: 1.3
times as long at most, and 100 MB more. `folds`: 1,000 runs behind a server, with 30 folds each, of
which `load_folds` reads measures and rates: the same. `many`: `mleval runs` and `mleval rank` of
100,000 runs in SQLite, 1,000 methods on 100 datasets: .7 of the search, and 400 MB. CPU of reader,
server and database together, and the largest resident set of the reader, in processes of their own.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from uuid import uuid4

import numpy as np
import pandas as pd
from timing import Row, cpu_of, largest, of_own_process, pages, told

for name in ("server", "helpers"):
    sys.path.insert(0, str(Path(__file__).parents[1] / name))

#: How many times as long as the search reading may take, the commands of many runs, and MB.
BOUND, OF_MANY, MORE, MOST = 1.3, 0.7, 100, 400
PEER = "`search_runs`"
N_FOLDS, WITH_RATES = 30, ("f1", "tpr")


TABLES = ("runs", "tags", "params", "metrics", "latest_metrics")
#: What a copy has of its own, by column.
OWN = {
    "run_uuid": "copies.run",
    "artifact_uri": "replace(artifact_uri, run_uuid, copies.run)",
    "start_time": "start_time + copies.i",
    "value of tags": "CASE key WHEN 'mleval.method' THEN 'method ' || (copies.i / {each}) "
    "WHEN 'mleval.dataset' THEN 'dataset ' || (copies.i % {each}) ELSE value END",
    "value of metrics": "(copies.i * 7919 + length(key) * 104729) % 1009 / 1009.0",
}


def copies(uri, n, datasets=1, artifacts=None):
    """So many runs of the experiment "copies" for the one that is there, with times, methods,
    datasets, values and, where there is a folder of them, artifacts of their own.
    """
    import sqlalchemy

    engine = sqlalchemy.create_engine(uri)
    known = sqlalchemy.MetaData()
    known.reflect(engine, only=TABLES)
    ids = [uuid4().hex for _ in range(n - 1)]
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TEMPORARY TABLE copies (i BIGINT, run TEXT)"))
        named = [{"i": i, "run": run} for i, run in enumerate(sorted(ids), 1)]
        connection.execute(sqlalchemy.text("INSERT INTO copies VALUES (:i, :run)"), named)
        for name in TABLES:
            columns = known.tables[name].columns.keys()
            kind = name.removeprefix("latest_")
            cells = [OWN.get(f"{column} of {kind}", OWN.get(column, column)) for column in columns]
            each = ", ".join(cells).format(each=datasets)
            connection.execute(
                sqlalchemy.text(
                    f"INSERT INTO {name} ({', '.join(columns)}) "
                    f"SELECT {each} FROM {name} CROSS JOIN copies"
                )
            )
    engine.dispose()
    if artifacts is not None:
        (first,) = artifacts.iterdir()
        for run in ids:
            shutil.copytree(first, artifacts / run)


def import_one(uri):
    """A run of 20 measures that was imported."""
    import mlflow

    from mlflow_mleval.measures.registry import MEASURES
    from mlflow_mleval.store.importing import import_results

    mlflow.set_tracking_uri(uri)
    names = [m.name for m in MEASURES.values() if m.family != "cost"][:20]
    row = {"dataset": "dataset 0", "method": "method 0"} | dict.fromkeys(names, 0.5)
    import_results(pd.DataFrame([row]), experiment_name="copies", conventions="sklearn")


def log_one(uri):
    """A run that was logged, with more folds than fit into a tag."""
    import mlflow

    import mlflow_mleval as mleval

    mlflow.set_tracking_uri(uri)
    rng = np.random.default_rng(0)
    truth, scores = rng.random((1_200, 6)) < 0.3, rng.random((1_200, 6))
    folds = np.arange(len(truth)) % N_FOLDS
    made = mleval.evaluate(truth, scores, threshold=0.7, folds=folds)
    names = {"method": "method 0", "dataset": "dataset 0", "experiment_name": "copies"}
    mleval.log_evaluation(made, **names)


def read_in_own_process(way):
    """What a process that reads prints: its seconds of CPU and the MB of its largest set."""
    from mlflow import MlflowClient

    from mlflow_mleval import cli
    from mlflow_mleval.store.query import load_study
    from mlflow_mleval.store.study_artifacts import load_folds

    client = MlflowClient()
    experiment_id = client.get_experiment_by_name("copies").experiment_id
    start = time.process_time()
    if way == "bare":
        sum(map(len, pages(client, experiment_id)))
    elif way == "read":
        load_study(experiment_names=["copies"])
    elif way in ("runs", "rank"):
        with redirect_stdout(StringIO()):
            cli.main([way, "-n", "copies"], standalone_mode=False)
    else:
        study = load_folds(WITH_RATES, experiment_names=["copies"])
        rows = N_FOLDS * len(study.values)
        assert study.folds is not None and study.folds["f1"].notna().sum() == rows
        assert study.folds["tp"].notna().sum() == rows
    print(json.dumps([time.process_time() - start, largest()]))


@contextmanager
def serving(folder, uri):
    """The address of a server of one worker, and its process."""
    from waiting import free_port, running

    url = f"http://127.0.0.1:{(port := free_port())}"
    command = ["mlflow", "server", "--workers", "1", "--port", str(port)]
    with running([*command, "--backend-store-uri", uri], Path(folder), url) as process:
        yield url, process.pid


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


def taken(uri, pid, *ways):
    """Seconds and MB of each way."""
    figures = []
    for way in ways:
        before = cpu_of(pid)
        seconds, most = of_own_process(__file__, "--way", way, MLFLOW_TRACKING_URI=uri)
        figures.append((seconds + cpu_of(pid) - before, most))
    return figures


def row_of(work, uri, pid, way):
    (theirs, least), (ours, most) = taken(uri, pid, "bare", way)
    more = most - least
    note = f"{more:.0f} MB beyond the search"
    return Row(work, ours, PEER, theirs, note=note, most=BOUND, memory=more, room=MORE)


def stores(n) -> Iterator[Row]:
    from conftest import find_postgres

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.chdir(folder)
        sqlite = f"sqlite:///{folder}/mlflow.db"
        places = {"SQLite": (sqlite, None)}
        if find_postgres() is not None:
            places["PostgreSQL"] = stack.enter_context(postgres())
        for uri, _ in places.values():
            import_one(uri)
            copies(uri, n)
        places["a server"] = stack.enter_context(serving(folder, sqlite))
        for name, place in places.items():
            yield row_of(f"read {n:,} runs from {name}", *place, "read")


def folds(n) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sqlite = f"sqlite:///{folder}/mlflow.db"
        with serving(folder, sqlite) as (url, pid):
            log_one(url)
            (kept,) = Path(folder, "mlartifacts").iterdir()
            copies(sqlite, n, artifacts=kept)
            work = f"read {n:,} runs with rates by fold from a server"
            yield row_of(work, url, pid, "folds")


def many(n) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        uri = f"sqlite:///{folder}/mlflow.db"
        import_one(uri)
        copies(uri, n, datasets=100)
        ways = ("bare", "runs", "rank")
        (theirs, _), *ours = taken(uri, None, *ways)
        for way, (seconds, most) in zip(ways[1:], ours, strict=True):
            work, note = f"`mleval {way}` of {n:,} runs", f"{most:.0f} MB in all"
            bound, of = OF_MANY if way == "runs" else None, {"memory": most, "room": MOST}
            yield Row(work, seconds, PEER, theirs, note=note, most=bound, **of)


PARTS = {"stores": (stores, 10_000), "folds": (folds, 1_000), "many": (many, 100_000)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[*PARTS])
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--way")
    parser.add_argument("--json", action="store_true")  # `told` looks for it
    given = parser.parse_args()
    if given.way:
        read_in_own_process(given.way)
        return 0
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.chdir(tempfile.mkdtemp())
    asked = [part for name, part in PARTS.items() if name in given.names]
    return told(row for rows, n in asked for row in rows(given.runs or n))


if __name__ == "__main__":
    sys.exit(main())
