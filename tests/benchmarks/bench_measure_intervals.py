"""Time of the intervals of all measures against the evaluation itself: it may take as long again,
at 100,000 x 100.

python tests/benchmarks/bench_measure_intervals.py
"""

import numpy as np
from timing import best

import mlflow_mleval as mleval
from mlflow_mleval.analysis.measure_intervals import measure_intervals


def main():
    rng = np.random.default_rng(0)
    true, score = rng.random((100_000, 100)) < 0.03, rng.random((100_000, 100))
    (bare,) = best(lambda: mleval.evaluate(true, score, instances=False), repeats=3)
    (whole,) = best(lambda: measure_intervals(mleval.evaluate(true, score)), repeats=3)
    print(
        f"evaluation {bare:.2f} s, with instances and intervals {whole:.2f} s: "
        f"{whole / bare:.2f} times (bound 2)"
    )


if __name__ == "__main__":
    main()
