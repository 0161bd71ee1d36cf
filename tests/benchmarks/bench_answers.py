"""Time to read the answers of runs of `mlflow.genai.evaluate` against MLflow's own search for the
same traces, in one process.

    python tests/benchmarks/bench_answers.py [questions]

10 runs x 10,000 questions x 5 scorers in a SQLite store. One question is evaluated by MLflow
itself; its rows in the database are then copied under other ids, for evaluating a million answers
takes hours. The peer is `MlflowClient.search_traces` page by page, results thrown away; with long
questions, which MLflow cuts in the metadata, together with the spans that hold them in full. Bound:
reading all runs and putting their answers side by side takes at most 1.5 times the bare search. The
peak is that of one run more than of the values that are kept.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sqlite3
import sys
import tempfile
import uuid
from contextlib import redirect_stderr, redirect_stdout

from timing import timed

BOUND, RUNS = 1.5, 10
LONG = "Consider this passage with care. " * 30
SCORERS = 5


def template(name, question):
    """The id of a run that MLflow made of one question."""
    import mlflow
    from mlflow.genai.scorers import scorer

    def scored(k):
        return scorer(lambda outputs: len(outputs) / (k + 1), name=f"scorer{k}")

    mlflow.set_experiment(name)
    with mlflow.start_run(run_name="method 0") as run:
        data = [{"inputs": {"question": question}, "expectations": {"answer": "one"}}]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            mlflow.genai.evaluate(
                data=data,
                predict_fn=lambda question: question[:3],
                scorers=[*map(scored, range(SCORERS))],
            )
    return run.info.run_id


def copied(path, run_id, n):
    """The run and nine others, each with n traces like the one that is there; their ids."""
    import mlflow

    runs = [run_id]
    for k in range(1, RUNS):
        with mlflow.start_run(
            run_name=f"method {k}", tags={"mlflow.runType": "genai_evaluate"}
        ) as run:
            runs.append(run.info.run_id)
    with sqlite3.connect(path) as db:
        [trace] = [
            row[0]
            for row in db.execute(
                "SELECT source_id FROM entity_associations WHERE destination_id = ?", [run_id]
            )
        ]
        keys = {
            "trace_info": "request_id",
            "trace_tags": "request_id",
            "trace_request_metadata": "request_id",
            "assessments": "trace_id",
            "spans": "trace_id",
            "entity_associations": "source_id",
        }
        for table, key in keys.items():
            about = [
                row for row in db.execute(f"PRAGMA table_xinfo({table})") if row[6] == 0
            ]  # without generated columns
            names = ", ".join(row[1] for row in about)
            rows = db.execute(f"SELECT {names} FROM {table} WHERE {key} = ?", [trace]).fetchall()
            made = (
                _like(
                    dict(zip(names.split(", "), row, strict=True)),
                    {trace: f"tr-{k}-{i}-{run_id[:16]}", run_id: run},
                    i,
                    k,
                )
                for k, run in enumerate(runs)
                for i in range(n)
                for row in rows
            )
            db.executemany(
                f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(about))})", made
            )
            db.execute(f"DELETE FROM {table} WHERE {key} = ?", [trace])
        db.executemany(
            "INSERT INTO inputs SELECT ?, source_type, source_id, destination_type, ?, step FROM "
            "inputs WHERE destination_id = ?",
            [[uuid.uuid4().hex, run, run_id] for run in runs[1:]],
        )
        db.execute("UPDATE datasets SET dataset_profile = ?", [json.dumps({"num_rows": n})])
    return runs


def _like(row, ids, i, k):
    """The row of a copy: other ids, another question, another value."""
    for column, value in row.items():
        if column in ("assessment_id", "association_id"):
            row[column] = uuid.uuid4().hex
        elif column == "timestamp_ms":
            row[column] += i
        elif column == "value" and value.replace(".", "", 1).isdigit():
            row[column] = str((i * 7919 + k) % 101 / 100)
        elif isinstance(value, str):
            for old, new in {**ids, "number 0": f"number {i}"}.items():
                value = value.replace(old, new)
            row[column] = value
    return [*row.values()]


def searched(client, experiment_id, runs, spans):
    """MLflow's own search, page by page."""
    n = 0
    for run in runs:
        token = None
        while True:
            page = client.search_traces(
                locations=[experiment_id],
                run_id=run,
                include_spans=spans,
                max_results=500,
                page_token=token,
            )
            n, token = n + len(page), page.token
            if not token:
                break
    return n


def resident():
    with open("/proc/self/status") as lines:
        found = dict(line.split(":", 1) for line in lines)
    return {key: int(found[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM")}


def main():
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["MLFLOW_GENAI_EVAL_MAX_WORKERS"] = "1"
    os.chdir(tempfile.mkdtemp())
    os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///mlflow.db"
    from mlflow import MlflowClient

    from mlflow_mleval.selection import Selection
    from mlflow_mleval.store.read_answers import load_answers

    logging.getLogger("mlflow").setLevel(logging.ERROR)
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    client, missed = MlflowClient(), False
    print(
        f"{'questions':12} {'traces':>8} {'search':>8} {'read':>8} {'ratio':>6} {'kept':>8} "
        f"{'peak':>8}"
    )
    for name, question, size in (
        ("short", "question number 0", n),
        ("long", f"{LONG} number 0", max(n // 5, 1)),
    ):
        taken, runs = timed(
            lambda name=name, question=question, size=size: copied(
                "mlflow.db", template(name, question), size
            )
        )
        print(f"made in {taken:.0f} s", file=sys.stderr)
        experiment_id = client.get_experiment_by_name(name).experiment_id
        search, n_traces = timed(searched, client, experiment_id, runs, name == "long")
        with open("/proc/self/clear_refs", "w") as file:  # the peak counts from here
            file.write("5")
        before = resident()["VmRSS"]
        read, asked = timed(load_answers, Selection(experiment_names=[name]))
        after = resident()
        assert n_traces == RUNS * size and len(asked.found[name].tables) == RUNS
        assert all(table.shape == (size, SCORERS) for table in asked.found[name].tables.values())
        verdict = "ok" if read <= BOUND * search else "MISSED"
        missed |= verdict == "MISSED"
        print(
            f"{name:12} {n_traces:8,} {search:7.1f}s {read:7.1f}s {read / search:6.2f} "
            f"{after['VmRSS'] - before:5.0f} MB {after['VmHWM'] - before:5.0f} MB  {verdict} "
            f"(bound {BOUND})",
            flush=True,
        )
    sys.exit(missed)


if __name__ == "__main__":
    main()
