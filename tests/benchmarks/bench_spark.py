"""evaluate_spark on a cluster of this machine, beside MLlib's metrics, and two workers beside one.

    python tests/benchmarks/bench_spark.py [million rows, 1 by default]

MLlib gets the same instances as it wants them, arrays of classes, from Spark without Python
between, and keeps them, because each of its measures is a pass; ours are the whole evaluation, and
both agree. Each worker has a core of its own, and the second of two runs counts. Seconds of CPU of
all processes; two workers and one are compared by the driver and the busiest worker, which is what
elapses on machines of their own. Bounds: half of MLlib's CPU, and 1.4 times as fast as one worker.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from spark_cluster import SUBMIT, Cluster
from timing import Row, cpu_of, told

import mlflow_mleval as mleval
from mlflow_mleval.files.evaluate_spark import _merged, _unpacked

K = 10  # labels
TRUE, SCORE = [f"true_{i}" for i in range(K)], [f"score_{i}" for i in range(K)]
ROWS = 250_000  # of a file
FASTER, WORKERS = 2, 1.4
#: What MLlib calls our measures: those of MultilabelMetrics, and of RankingMetrics at k.
SETS = {
    "precision": "precision",
    "recall": "recall",
    "f1": "f1Measure",
    "accuracy": "accuracy",
    "subset_accuracy": "subsetAccuracy",
    "hamming_loss": "hammingLoss",
    "micro_precision": "microPrecision",
    "micro_recall": "microRecall",
    "micro_f1": "microF1Measure",
}
AT = {"precision": "precisionAt", "recall": "recallAt", "ndcg": "ndcgAt"}
AT_K = [f"{name}_at_{k}" for name in AT for k in (1, 3, 5)]


def _lists(mask: np.ndarray) -> pa.Array:
    """The classes of each row, as MLlib wants them."""
    ends = np.concatenate([[0], mask.sum(axis=1).cumsum()])
    return pa.ListArray.from_arrays(ends.astype(np.int32), np.nonzero(mask)[1].astype(float))


def write(folder: Path, files: int) -> None:
    """Files of instances that have at least one class, and one that is predicted."""
    for i in range(files):
        rng = np.random.default_rng(i)
        score = rng.random((ROWS, K))
        true = rng.random((ROWS, K)) < 0.1 + 0.3 * score
        true[np.arange(ROWS), rng.integers(0, K, ROWS)] = True
        score[np.arange(ROWS), rng.integers(0, K, ROWS)] = 0.5 + rng.random(ROWS) / 2
        order = np.argsort(-score, axis=1).astype(float).ravel()
        ends = np.arange(0, K * ROWS + 1, K, dtype=np.int32)
        lists = _lists(true), _lists(score >= 0.5), pa.ListArray.from_arrays(ends, order)
        columns = [*true.T.astype(np.int8), *score.T, *lists]
        names = [*TRUE, *SCORE, "classes", "predicted", "ranked"]
        table = pa.table(columns, names)
        parquet.write_table(table, folder / f"part-{i:03}.parquet", row_group_size=50_000)


def by_mllib(session: Any, path: str) -> dict[str, float]:
    """MLlib's measures by our names."""
    from pyspark import StorageLevel
    from pyspark.mllib.common import callMLlibFunc

    whole = session.read.parquet(path)
    sets = whole.select("predicted", "classes").persist(StorageLevel.MEMORY_AND_DISK)
    ranks = whole.select("ranked", "classes").persist(StorageLevel.MEMORY_AND_DISK)
    kind = session.sparkContext._jvm.org.apache.spark.mllib.evaluation.MultilabelMetrics
    of_sets, of_ranks = kind(sets._jdf), callMLlibFunc("newRankingMetrics", ranks._jdf)
    measures = {name: getattr(of_sets, theirs)() for name, theirs in SETS.items()}
    for label in range(K):
        for name in ("precision", "recall", "f1Measure"):
            measures[f"{name.removesuffix('Measure')} {label}"] = getattr(of_sets, name)(
                float(label)
            )
    measures["average_precision"] = of_ranks.meanAveragePrecision()
    for name, theirs in AT.items():
        for k in (1, 3, 5):
            measures[f"{name}_at_{k}"] = getattr(of_ranks, theirs)(k)
    sets.unpersist()
    ranks.unpersist()
    return measures


class Taken(NamedTuple):
    """What a call took: seconds of CPU of all processes, of the longest way through them (what is
    no worker's, and the busiest worker's), and elapsed.
    """

    cpu: float
    way: float
    elapsed: float


def taken(call: Callable[[], Any], cluster: Cluster) -> tuple[Taken, Any]:
    """What the second of two calls takes, and its result."""
    alive = [worker.pid for worker in cluster.workers if worker.poll() is None]
    pids = [os.getpid(), *alive]
    call()
    before, start = np.array([*map(cpu_of, pids)]), time.perf_counter()
    result = call()
    elapsed = time.perf_counter() - start
    cpu, *of_workers = np.array([*map(cpu_of, pids)]) - before
    return Taken(cpu, cpu - sum(of_workers) + max(of_workers), elapsed), result


def of_parts() -> Iterator[Row]:
    """What parts weigh, and what merging them takes."""
    rng = np.random.default_rng(0)
    for n_labels, count in ((10, 10_000), (1_000, 200)):
        true, score = rng.random((500, n_labels)) < 0.2, rng.random((500, n_labels))
        packed = next(_merged([mleval.evaluate(true, score, instances=False)]))
        start = time.process_time()
        merged = next(_merged(_unpacked(**row) for row in packed.to_pylist() * count))
        seconds = time.process_time() - start
        assert _unpacked(merged["part"][0].as_py()).total.n == 500 * count
        note = f"{len(packed['part'][0].as_py()):,} bytes each"
        yield Row(f"merging {count:,} parts of {n_labels:,} labels", seconds, note=note)


def rows(millions: float) -> Iterator[Row]:
    yield from of_parts()
    files = max(2, round(millions * 1e6 / ROWS))
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_SUBMIT_ARGS=SUBMIT)
    with tempfile.TemporaryDirectory() as name:
        folder, work = Path(name) / "data", Path(name) / "cluster"
        folder.mkdir(), work.mkdir()
        write(folder, files)
        with Cluster(work, pinned=True) as cluster:
            session = cluster.session(
                **{"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
            )

            def ours() -> mleval.Evaluation:
                df = session.read.parquet(str(folder))
                return mleval.evaluate_spark(df, TRUE, SCORE, measures=AT_K)

            both, evaluation = taken(ours, cluster)
            theirs, measures = taken(lambda: by_mllib(session, str(folder)), cluster)
            for measure, value in measures.items():
                kind, _, label = measure.partition(" ")
                of_labels = evaluation.labels
                own = of_labels[kind].iloc[int(label)] if label else evaluation.measures[kind]
                assert np.isclose(own, value), (measure, own, value)
            size = f"{files * ROWS:,} rows × {K} labels"
            what = f"{len(measures)} measures of Spark's MLlib, {size}"
            note = f"elapsed {both.elapsed:.0f} s, MLlib {theirs.elapsed:.0f} s"
            yield Row(f"{what}, two workers", both.cpu, "MLlib", theirs.cpu, FASTER, note)
            cluster.kill(cluster.workers[0])
            alone, _ = taken(ours, cluster)
            note = "of the driver and the busiest worker"
            yield Row(f"{size}, two workers", both.way, "one worker", alone.way, WORKERS, note)
            session.stop()


if __name__ == "__main__":
    given = [float(argument) for argument in sys.argv[1:] if argument != "--json"]
    sys.exit(told(rows(*given or (1,))))
