"""A store as people have it: 300 runs of plain MLflow, with repeated seeds, searches, failures and
metrics that some runs lack.

Four experiments, each one dataset; eight models, named by the param `model`, of which each is
trained with three to five seeds:

- `lgbm` is searched: each of its runs (one a seed) is a parent without metrics, whose nine children
  are trials that differ in `lr` and `max_depth`;
- `xgb` on churn has 24 runs that differ in `lr` and `max_depth` (two seeds each), `rf` on fraud 12
  that differ in `max_depth`;
- `nb` lacks `val_loss` on three of the four datasets;
- some runs failed, one still runs.

The metrics `test_auc`, `val_auc` and `val_loss` are known to no registry. The rows go straight into
the tables: by the client they take 25 seconds.
"""

import itertools
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from mlflow import MlflowClient

DATASETS = ("churn", "fraud", "spam", "wine")
#: Mean test_auc less that of the dataset; how much the seeds scatter.
MODELS = {
    "logreg": (0.0, 0.001),
    "nb": (-0.06, 0.002),
    "knn": (-0.03, 0.002),
    "tree": (-0.05, 0.008),
    "rf": (0.02, 0.004),
    "xgb": (0.035, 0.005),
    "lgbm": (0.03, 0.004),
    "mlp": (0.01, 0.012),
}
SEARCHED, WITHOUT_LOSS = "lgbm", ("churn", "fraud", "spam")
RATES, DEPTHS = (0.01, 0.03, 0.1, 0.3), (3, 5, 8)
#: Candidates: lists of params by (model, dataset).
GRIDS = {
    ("xgb", "churn"): [{"lr": lr, "max_depth": d} for lr in RATES for d in DEPTHS],
    ("rf", "fraud"): [{"max_depth": d} for d in (4, 6, 8, 10, 12, 16)],
}
N_RUNS = 300


def write(path: Path) -> None:
    """Add the runs to the SQLite store at `path`."""
    client = MlflowClient(f"sqlite:///{path}")
    experiments = {name: client.create_experiment(name) for name in DATASETS}
    with sqlite3.connect(path) as connection:
        Writer(connection, experiments).all()
    connection.close()


class Writer:
    """Puts runs straight into the tables."""

    def __init__(self, connection: sqlite3.Connection, experiments: dict[str, str]) -> None:
        self.connection, self.experiments = connection, experiments
        self.rng = np.random.default_rng(0)
        self.n_runs = 0

    def all(self) -> None:
        for at, dataset in enumerate(DATASETS):
            for k, model in enumerate(MODELS):
                seeds = range(3 + (at + k) % 3)
                if model == SEARCHED:
                    for seed in seeds:
                        self.search(dataset, model, seed)
                else:
                    grid = GRIDS.get((model, dataset))
                    for seed in range(2) if grid else seeds:
                        for params in grid or [{}]:
                            self.trained(dataset, model, {"seed": seed, **params})
        failures = itertools.cycle(itertools.product(MODELS, DATASETS))
        self.run("wine", {"model": "mlp", "seed": 9}, {}, status="RUNNING")
        while self.n_runs < N_RUNS:
            model, dataset = next(failures)
            self.run(dataset, {"model": model, "seed": 7}, {}, status="FAILED")

    def search(self, dataset: str, model: str, seed: int) -> None:
        parent = self.run(dataset, {"model": model, "seed": seed}, {})
        grid = [*itertools.product(RATES, DEPTHS)]
        for at in self.rng.permutation(len(grid))[:9]:
            self.trained(dataset, model, {"lr": grid[at][0], "max_depth": grid[at][1]}, parent)

    def trained(self, dataset: str, model: str, params: dict[str, Any], parent: str = "") -> None:
        mean, spread = MODELS[model]
        mean += 0.8 + 0.03 * DATASETS.index(dataset)
        mean -= 0.02 * abs(np.log10(params.get("lr", 0.1)) + 1)
        test, val = self.rng.normal(mean, spread), self.rng.normal(mean + 0.01, spread)
        metrics = {"test_auc": test, "val_auc": val, "val_loss": 1 - val}
        if model == "nb" and dataset in WITHOUT_LOSS:
            del metrics["val_loss"]
        self.run(dataset, {"model": model, **params}, metrics, parent)

    def run(
        self,
        dataset: str,
        params: dict[str, Any],
        metrics: dict[str, float],
        parent: str = "",
        status: str = "FINISHED",
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        number = self.n_runs = self.n_runs + 1
        run_id, start = f"{number:032x}", 1_700_000_000_000 + 60_000 * number
        name, user, script = f"run-{number}", ("alice", "bob")[number % 2], "train.py"
        usual = {"mlflow.runName": name, "mlflow.user": user, "mlflow.source.name": script}
        tags = usual | dict(tags) | ({"mlflow.parentRunId": parent} if parent else {})
        made = {"name": name, "user_id": user, "source_type": "LOCAL", "source_name": script}
        made |= {"entry_point_name": "", "source_version": "", "lifecycle_stage": "active"}
        made |= {"experiment_id": int(self.experiments[dataset]), "status": status}
        made |= {"start_time": start, "end_time": None if status == "RUNNING" else start + 5000}
        self.insert("runs", run_id, made, artifact_uri=f"mlruns/{run_id}/artifacts")
        for table, content in (("params", params), ("tags", tags)):
            for key, value in content.items():
                self.insert(table, run_id, {"key": key, "value": str(value)})
        when = {"timestamp": start, "step": 0, "is_nan": False}
        for table in ("metrics", "latest_metrics"):
            for key, value in metrics.items():
                self.insert(table, run_id, {"key": key, "value": float(value)}, **when)
        return run_id

    def insert(self, table: str, run_id: str, row: dict[str, object], **more: object) -> None:
        row = {"run_uuid": run_id, **row, **more}
        marks = ", ".join("?" * len(row))
        statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
        self.connection.execute(statement, [*row.values()])
