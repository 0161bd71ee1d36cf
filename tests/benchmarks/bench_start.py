"""CPU of short programs, what they import included, each a process of its own.

    python tests/benchmarks/bench_start.py [--json]

`mleval rank` of the demo's 132 runs against a program that imports MLflow and searches the same
runs; the first evaluation; and `mleval.autolog` against MLflow's own. Least of three, in turns.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from timing import Row, told

REPEATS = 3
STUDY = "madjarov2012"
SEARCH = f"""
from mlflow import MlflowClient
client = MlflowClient()
assert len(client.search_runs([client.get_experiment_by_name("{STUDY}").experiment_id])) == 132
"""
EVALUATE = "import mlflow_mleval as mleval; mleval.evaluate([[1, 0], [0, 1]], [[0.9, 0.2], [0, 1]])"
AUTOLOG = "import mlflow.sklearn; mlflow.sklearn.autolog()"
OURS = f"{AUTOLOG}; import mlflow_mleval as mleval; mleval.autolog()"
MLEVAL = ("-c", "from mlflow_mleval.cli import main; main()")


def spent(*command: str) -> float:
    """Seconds of CPU, of the program and the system, that a run of Python takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows() -> Iterator[Row]:
    root = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    os.environ |= {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db",
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    rank = (*MLEVAL, "rank", "-n", STUDY, "--missing", "worst")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        results = root / "mlflow_mleval" / "data" / f"{STUDY}.csv"
        spent(*MLEVAL, "import", str(results), "-n", STUDY, "--conventions", "mulan")
        programs = [("-c", SEARCH), rank, ("-c", EVALUATE), ("-c", AUTOLOG), ("-c", OURS)]
        for program in programs:  # compiles what is not yet compiled
            spent(*program)
        taken = [[spent(*program) for program in programs] for _ in range(REPEATS)]
        os.chdir(root)
    search, ranked, first, theirs, ours = map(min, zip(*taken, strict=True))
    yield Row("`mleval rank` of 132 runs", ranked, "`search_runs`", search, most=1.25)
    yield Row("import and evaluate once", first, bound=0.75)
    yield Row("`autolog` beyond mlflow.sklearn's", ours - theirs, bound=0.3)


if __name__ == "__main__":
    sys.exit(told(rows()))
