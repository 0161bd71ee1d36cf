"""CPU of `mleval rank` as a program against a program that imports MLflow and searches the same
runs, and nothing else.

    python tests/benchmarks/bench_start.py [repeats]

The store is that of `mleval demo`: 132 runs of 12 methods on 11 datasets by 18 measures. Both are
processes of their own, so that what they import counts. Bound: 1.25 times. Least of several, in
turns.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

BOUND, REPEATS = 1.25, 5
STUDY = "madjarov2012"
SEARCH = f"""
from mlflow import MlflowClient
client = MlflowClient()
assert len(client.search_runs([client.get_experiment_by_name("{STUDY}").experiment_id])) == 132
"""
MLEVAL = "from mlflow_mleval.cli import main; main()"


def cpu(*command: str) -> float:
    """Seconds of CPU, of the program and the system, that a run of Python takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    root = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    os.chdir(tempfile.mkdtemp())
    os.environ |= {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db",
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    results = root / "mlflow_mleval" / "data" / f"{STUDY}.csv"
    cpu("-c", MLEVAL, "import", str(results), "-n", STUDY, "--conventions", "mulan")
    rank = ("-c", MLEVAL, "rank", "-n", STUDY, "--missing", "worst")
    cpu(*rank)  # compiles what is not yet compiled
    taken = [(cpu("-c", SEARCH), cpu(*rank)) for _ in range(repeats)]
    search, ranked = map(min, zip(*taken, strict=True))
    verdict = "ok" if ranked <= BOUND * search else "MISSED"
    print(
        f"search {search:.2f} s, rank {ranked:.2f} s of CPU: ratio {ranked / search:.2f}  "
        f"{verdict} (bound {BOUND})"
    )
    sys.exit(verdict != "ok")


if __name__ == "__main__":
    main()
