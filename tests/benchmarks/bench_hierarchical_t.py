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

BOUND = 60.0


def main() -> int:
    rng = np.random.default_rng(0)
    tables = {
        f"d{i}": pd.DataFrame(
            rng.normal(0, 0.02, (10, 8)) + rng.normal(0, 0.02, 8) + 0.005 * np.arange(8)
        )
        for i in range(20)
    }
    found = []
    options = {
        "rho": dict.fromkeys(tables, 0.1),
        "ropes": {"f1": 0.01},
        "directions": {"f1": "max"},
    }
    (took,) = best(
        lambda: found.append(hierarchical_pairs({"f1": tables}, **options)["f1"]), repeats=1
    )
    (pairs,) = found
    print(
        f"28 pairs, 20 datasets x 10 folds, {pairs.n_resamples:,} draws: {took:.1f} s (bound "
        f"{BOUND:g} s), R-hat {pairs.rhat:.4f}, effective sample size "
        f"{pairs.effective_sample_size:,.0f}"
    )
    return int(took > BOUND)


if __name__ == "__main__":
    sys.exit(main())
