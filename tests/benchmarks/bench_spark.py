"""A Spark cluster on this machine against one process, on parquet with folds; what parts weigh and
what merging them takes.

    python tests/benchmarks/bench_spark.py [million rows, 20 by default]

Each worker has a core of its own, as on a machine of its own. The second run is counted: the first
starts processes and has Java compile. Then a worker is killed in the middle of a run, and the last
is the other's alone. Exits with 1 where the results differ from those of one process or a goal is
missed: two workers 1.4 times as fast as one, and a driver below 500 MB. One process is printed
beside them: it has neither rows to carry from Java to Python nor processes to talk to, and on two
cores about as fast as two workers.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from spark_cluster import SUBMIT, Cluster

import mlflow_mleval as mleval
from mlflow_mleval.files.evaluate_spark import _merge_parts, _part, _unpacked

LABELS = [f"l{i}" for i in range(10)]
TRUE, SCORE = [f"true_{c}" for c in LABELS], [f"score_{c}" for c in LABELS]
ROWS = 250_000  # of a file


def write(folder: Path, files: int) -> None:
    """Files of skewed folds, scores of one decimal more than a float32 tells."""
    for i in range(files):
        rng = np.random.default_rng(i)
        true, score = rng.random((ROWS, 10)) < 0.2, rng.random((ROWS, 10))
        columns = [
            *true.T.astype(np.int8),
            *score.T,
            np.where(rng.random(ROWS) < 0.97, 0, rng.integers(1, 5, ROWS)),
        ]
        parquet.write_table(
            pa.table(columns, [*TRUE, *SCORE, "fold"]),
            folder / f"part-{i:03}.parquet",
            row_group_size=50_000,
        )


def in_one_process(folder: Path) -> mleval.Evaluation:
    def batches():
        for path in sorted(folder.glob("*.parquet")):
            for batch in parquet.ParquetFile(path).iter_batches(1 << 15):
                true, score = (
                    np.column_stack([batch[c].to_numpy() for c in names]) for names in (TRUE, SCORE)
                )
                yield {"y_true": true, "y_score": score, "folds": batch["fold"].to_numpy()}

    return mleval.evaluate_batches(batches(), label_names=LABELS)


def timed(call) -> tuple[float, mleval.Evaluation]:
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def peak(pid: int | str) -> float:
    return (
        int(
            next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM")).split()[
                1
            ]
        )
        / 1024
    )


def same(a: mleval.Evaluation, b: mleval.Evaluation) -> bool:
    return (
        a.measures == b.measures
        and a.folds.equals(b.folds)
        and a.truth_digest == b.truth_digest
        and a.labels.equals(b.labels)
    )


def of_parts() -> None:
    rng = np.random.default_rng(0)
    for n_labels in (10, 1_000):
        part = mleval.evaluate(
            rng.random((500, n_labels)) < 0.2, rng.random((500, n_labels)), instances=False
        )
        packed = _part(0, part)
        weight, count = len(packed["part"][0].as_py()), 10_000 if n_labels == 10 else 200
        took, merged = timed(
            lambda packed=packed, count=count: next(_merge_parts(iter([packed] * count)))
        )
        assert _unpacked(merged["part"][0].as_py()).total.n == 500 * count
        plain = len(json.dumps(part.to_dict()))
        print(
            f"a part of {n_labels:>5,} labels: {weight:,} bytes ({plain:,} as JSON); {count:,} "
            f"parts merged in {took:.2f} s"
        )


def main(millions: float) -> int:
    of_parts()
    files = max(2, round(millions * 1e6 / ROWS))
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_SUBMIT_ARGS=SUBMIT)
    with tempfile.TemporaryDirectory() as name:
        folder, work = Path(name) / "data", Path(name) / "cluster"
        folder.mkdir(), work.mkdir()
        write(folder, files)
        alone, wanted = timed(lambda: in_one_process(folder))
        with Cluster(work, pinned=True) as cluster:
            session = cluster.session(
                **{"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
            )
            session.sparkContext.setLogLevel("OFF")

            def on_spark() -> mleval.Evaluation:
                return mleval.evaluate_spark(
                    session.read.parquet(str(folder)), TRUE, SCORE, folds="fold"
                )

            on_spark()  # starts the processes on both, and has Java compile what it does often
            took, found = timed(on_spark)
            equal = same(found, wanted)
            print(
                f"{files * ROWS:,} rows x 10 labels: one process {alone:.1f} s, two workers "
                f"{took:.1f} s, {alone / took:.2f} times as fast; same result: {equal}"
            )
            timer = threading.Timer(took / 2, lambda: cluster.kill(cluster.workers[0]))
            timer.start()
            took_less, found = timed(on_spark)
            survived = same(found, wanted)
            print(
                f"a worker killed after {took / 2:.1f} s: {took_less:.1f} s; same result: "
                f"{survived}"
            )
            heap = (
                session._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
                .getHeapMemoryUsage()
                .getUsed()
                / 2**20
            )
            most = session._jvm.java.lang.Runtime.getRuntime().maxMemory() / 2**20
            print(
                f"driver: heap {heap:.0f} MB in use of at most {most:.0f} MB; Python at its "
                f"highest {peak('self'):.0f} MB, which has evaluated it all, too"
            )
            single, _ = timed(on_spark)
            print(f"one worker {single:.1f} s: two are {single / took:.2f} times as fast")
            session.stop()
    return int(not (equal and survived) or single / took < 1.4 or most > 500)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 20))
