"""Runs of ours that carry what is given, many of them; texts that are spoilt, tables in bytes."""

import io
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from mlflow.entities import Metric, RunTag

from mlflow_mleval.store import schema

#: What ends, hangs or fills the memory of a careless reader.
EVIL = [
    *("Infinity", "NaN", "-1", "1e999", "1e308", "9" * 401, "null", "[]", "{}", '"x"'),
    *("[" * 300 + "]" * 300, "true", "-0.0", "18446744073709551616", '"\\ud800"', "\x1b[2J"),
    *("\u202e", "0.5", "10000000", "'", '{"a":' * 50 + "1" + "}" * 50),
]


def mutated(chance, text):
    """The text with some of it exchanged, as a store takes it."""
    for _ in range(chance.randint(1, 3)):
        start = chance.randint(0, len(text))
        end = chance.randint(start, min(len(text), start + 8))
        text = text[:start] + chance.choice([*EVIL, "", ",", ":", "[", "}"]) + text[end:]
    return text[:5000].encode("utf-8", "replace").decode().replace("\0", "0")


def parquet(**columns):
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def logged(client, experiment_id, method, dataset="d", tags=(), values=(0.5, 0.5), start=None):
    """The run of a method on a dataset."""
    ours = {"method": method, "dataset": dataset, "schema": "1", "status": "complete"}
    ours = {f"mleval.{key}": value for key, value in ours.items()}
    run = client.create_run(experiment_id, start_time=start, tags=ours, run_name=method)
    pairs = zip(("f1", "hamming_loss"), values, strict=True)
    metrics = [Metric(f"mleval/{m}", value, 1, 0) for m, value in pairs]
    tags = [RunTag(key, value) for key, value in dict(tags).items()]
    client.log_batch(run.info.run_id, metrics, tags=tags)
    client.set_terminated(run.info.run_id)
    return run


def change(db, column, value, run_id):
    """What MLflow's client does not change of a run."""
    with sqlite3.connect(db) as held:
        held.execute(f"UPDATE runs SET {column} = ? WHERE run_uuid = ?", (value, run_id))


class Writer:
    """Runs of ours in the experiment x."""

    def __init__(self, client, db):
        self.client, self.db, self.id = client, db, client.create_experiment("x")

    def log(
        self, method, tags=(), dataset="d", values=(0.5, 0.5), start=None, files=(), address=None
    ):
        run = logged(self.client, self.id, method, dataset, tags, values, start)
        for path, content in dict(files).items():
            local = Path(run.info.artifact_uri, path)
            local.parent.mkdir(parents=True, exist_ok=True)
            local.write_bytes(content)
        if address is not None:
            change(self.db, "artifact_uri", address, run.info.run_id)
        return run.info.run_id

    def good(self, n_folds, files):
        """Three methods on two datasets, with folds, a profile, and files by the run's number."""
        for i, (method, dataset) in enumerate((m, d) for m in ("a", "b", "c") for d in ("d", "e")):
            f1, loss = [0.5 + 0.01 * i, 0.6, 0.7, 0.4], [0.1, 0.2, 0.3, 0.4]
            by_fold = {"f1": f1[:n_folds], "hamming_loss": loss[:n_folds]}
            sizes = [5] * n_folds
            tags = {
                schema.TAG_FOLDS: schema.encode_folds([*range(n_folds)], by_fold),
                schema.TAG_FOLD_SIZES: schema.encode_fold_sizes(sizes, sizes),
                schema.TAG_PROFILES["hard"]: schema.encode_profile([[4, 1, 0], [3, 1, 1]], [0, 1]),
            }
            self.log(method, tags, dataset, (0.5 + 0.01 * i, 0.5), files=files(i))


def many(db, run_id, number, apart=1):
    """The ids of so many runs like that one, each of its own method and begun so much later."""
    made = [f"{i:032x}" for i in range(number)]
    with sqlite3.connect(db) as held:
        for table in ("runs", "params", "tags", "metrics", "latest_metrics"):
            asked = held.execute(f"SELECT * FROM {table} WHERE run_uuid = ?", (run_id,))
            names, rows = [column[0] for column in asked.description], asked.fetchall()
            for i, new in enumerate(made):
                for row in rows:
                    of = dict(zip(names, row, strict=True)) | {"run_uuid": new}
                    if table == "runs":
                        of["start_time"] += i * apart
                    elif of["key"] == "mleval.method":
                        of["value"] = f"many{i}"
                    marks = ", ".join("?" * len(of))
                    held.execute(
                        f"INSERT INTO {table} ({', '.join(of)}) VALUES ({marks})", [*of.values()]
                    )
    return made
