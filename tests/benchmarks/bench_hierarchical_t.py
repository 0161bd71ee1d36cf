"""Time the hierarchical correlated t test of all pairs of eight methods on 20 datasets x 10 folds
against its bound.

python tests/benchmarks/bench_hierarchical_t.py
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from timing import best

from mlflow_mleval.analysis.hierarchical_t import hierarchical_pairs

BOUND = 8.0


def main() -> int:
    rng = np.random.default_rng(0)
    tables = {
        f"d{i}": pd.DataFrame(
            rng.normal(0, 0.02, (10, 8)) + rng.normal(0, 0.02, 8) + 0.005 * np.arange(8)
        )
        for i in range(20)
    }
    options = {
        "rho": dict.fromkeys(tables, 0.1),
        "ropes": {"f1": 0.01},
        "directions": {"f1": "max"},
    }
    (took,) = best(lambda: hierarchical_pairs({"f1": tables}, **options), repeats=1)
    print(f"28 pairs, 20 datasets x 10 folds: {took:.1f} s (bound {BOUND:g} s)")
    return int(took > BOUND)


if __name__ == "__main__":
    sys.exit(main())
