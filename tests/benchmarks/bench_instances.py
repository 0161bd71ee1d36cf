"""Time the tests over instances, the Bayesian tests, planning and the bootstrap of ranks, against
bounds and scipy in the same run.

The bound on the memory of the tests over instances is the size of the table that they must not
hold: all methods and measures.

    python tests/benchmarks/bench_instances.py
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from timing import best, peak

from mlflow_mleval.analysis.beyond_pvalues import bayesian_t
from mlflow_mleval.analysis.instance_tests import instance_tests
from mlflow_mleval.analysis.posthoc.max_t import max_t

MEASURES = ["f1", "accuracy", "precision", "recall", "hamming_loss"]
METHODS, INSTANCES, SAMPLE = 20, 50_000, 5


def main() -> int:
    rng = np.random.default_rng(0)
    missed = False
    print(
        f"{'what':<58} {'time':>8} {'bound':>7} {'memory':>8}  {'':<7} peer      (load "
        f"{os.getloadavg()[0]:.1f})"
    )

    def row(
        what: str,
        call: Callable[[], object],
        bound: float,
        most: float,
        peer: str = "",
        peer_time: float = 0.0,
    ) -> None:
        nonlocal missed
        took, memory = best(call, repeats=3)[0], peak(call)
        late = took > bound or memory > most
        missed |= late
        versus = f"{peer}: {peer_time:.3g} s, {peer_time / took:.3g} times as long" if peer else ""
        print(
            f"{what:<58} {took:>6.2f} s {bound:>5.1f} s {memory:>5.0f} MB  "
            f"{'MISSED' if late else 'ok':<7} {versus}"
        )

    with tempfile.TemporaryDirectory() as folder:
        truth = rng.random((INSTANCES, len(MEASURES)))
        for k in range(METHODS):
            noisy = np.clip(truth + rng.normal(0.002 * k, 0.2, truth.shape), 0, 1).round(2)
            for measure, column in zip(MEASURES, noisy.T, strict=True):
                np.save(Path(folder) / f"{k}-{measure}.npy", column)
        readers = {
            k: lambda measure, k=k: np.load(Path(folder) / f"{k}-{measure}.npy")
            for k in range(METHODS)
        }
        some = [(a, b, m) for a, b in combinations(range(METHODS), 2) for m in MEASURES][
            :: 950 // SAMPLE
        ]
        differences = [(readers[a](m) - readers[b](m)).round(9) for a, b, m in some]
        per_signs = (
            best(lambda: [stats.wilcoxon(d, method="approx") for d in differences], repeats=1)[0]
            * 950
            / SAMPLE
        )
        row(
            f"{METHODS} methods x {INSTANCES:,} instances x {len(MEASURES)} measures, 3 tests",
            lambda: instance_tests(readers, MEASURES),
            30.0,
            8e-6 * METHODS * INSTANCES * len(MEASURES),
            f"scipy wilcoxon alone, from {SAMPLE} of 950",
            per_signs,
        )
    many = pd.DataFrame(rng.normal(size=(10, 500)))
    a, b = np.triu_indices(500, 1)
    part = list(zip(a, b, strict=True))[:: len(a) // 200]
    values = many.to_numpy()

    def one(i: int, j: int) -> float:
        d = values[:, i] - values[:, j]
        return stats.t(9, d.mean(), d.std(ddof=1) * np.sqrt(1 / 10 + 1 / 9)).cdf([-0.1, 0.1])

    loop = best(lambda: [one(i, j) for i, j in part], repeats=1)[0] * len(a) / len(part)
    row(
        "Bayesian t, 124,750 pairs x 10 folds",
        lambda: bayesian_t(many, 0.1, ratio=1 / 9),
        1.0,
        200,
        "scipy t, from 200",
        loop,
    )
    wide = pd.DataFrame(rng.normal(size=(30, 100)))
    row("max-T, 4,950 pairs x 30 datasets, 9,999 draws", lambda: max_t(wide), 5.0, 200)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
