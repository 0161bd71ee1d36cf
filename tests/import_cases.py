"""Several processes that import the same results at the same time, for the tests on SQLite and on PostgreSQL."""

import subprocess
import sys
import time

import pandas as pd

METHODS, DATASETS = [f"m{i}" for i in range(12)], [f"d{i}" for i in range(5)]
RESULTS = pd.DataFrame([(d, m, f, 0.5 + 0.01 * f) for d in DATASETS for m in METHODS for f in (0, 1)],
                       columns=["dataset", "method", "fold", "f1"])  # fmt: skip
IMPORTER = """
import sys, time
import pandas as pd
from mlflow_mleval.tracking.importing import import_results
source = pd.read_csv(sys.argv[1])
while time.time() < float(sys.argv[2]):
    time.sleep(0.001)
print(import_results(source, experiment_name="x").summary())
"""


def import_at_once(writers=4):
    """Several processes import the same; what each says."""
    RESULTS.to_csv("results.csv", index=False)
    start = str(time.time() + 8)
    command = [sys.executable, "-c", IMPORTER, "results.csv", start]
    writing = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(writers)]
    said = [process.communicate(timeout=300) for process in writing]
    assert not any(process.returncode for process in writing), said
    return [out for out, _ in said]


def one_run_a_pair(client):
    experiment = client.get_experiment_by_name("x")
    found = client.search_runs([experiment.experiment_id], max_results=5000)
    pairs = {(r.data.tags["mleval.dataset"], r.data.tags["mleval.method"]) for r in found}
    assert len(found) == len(pairs) == len(METHODS) * len(DATASETS)
    assert all(r.data.metrics == {"mleval/f1": 0.505, "mleval.fold/f1": 0.51} for r in found)
    assert all(r.data.tags["mleval.status"] == "complete" and r.info.status == "FINISHED" for r in found)
