"""Seconds of CPU of the hierarchical correlated t test: one pair on ten datasets, and all pairs of
eight methods on twenty, with ten folds each.

    python tests/benchmarks/bench_hierarchical_t.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
from timing import Row, cpu, told

from mlflow_mleval.analysis.hierarchical_t import hierarchical_pairs


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for methods, datasets, bound in ((2, 10, 0.3), (8, 20, 8.0)):
        tables = {}
        for i in range(datasets):
            noise = rng.normal(0, 0.02, (10, methods)) + rng.normal(0, 0.02, methods)
            tables[f"d{i}"] = pd.DataFrame(noise + 0.005 * np.arange(methods))
        options = {
            "rho": dict.fromkeys(tables, 0.1),
            "ropes": {"f1": 0.01},
            "directions": {"f1": "max"},
        }
        call = lambda tables=tables, options=options: hierarchical_pairs({"f1": tables}, **options)  # noqa: E731
        (taken,) = cpu(call, repeats=3 if methods == 2 else 1)
        pairs = methods * (methods - 1) // 2
        work = f"hierarchical correlated t test, {pairs} pairs, {datasets} datasets × 10 folds"
        yield Row(work.replace("1 pairs", "one pair"), taken, bound=bound)


if __name__ == "__main__":
    sys.exit(told(rows()))
