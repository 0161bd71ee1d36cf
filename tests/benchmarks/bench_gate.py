"""What the tests of a gate cost beyond reading its two runs, in seconds of CPU.

python tests/benchmarks/bench_gate.py [--json]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
from timing import Row, cpu, told

from mlflow_mleval.analysis.gate_tests import Differences, Terms, gate_tests


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for work, n, measures, bound in (
        ("10,000 answers × 8 measures", 10_000, 8, 0.5),
        ("the same in ten slices", 10_000, 8, 0.5),
        ("the same in 500 clusters", 10_000, 8, None),
        ("1,000,000 answers × 2 measures", 1_000_000, 2, 2.5),
        ("1,000,000 answers × 2 measures with many values", 1_000_000, 2, 2.5),
    ):
        candidate, champion = rng.random((2, n, measures))
        if "many values" not in work:
            candidate, champion = candidate < 0.8, champion < 0.8
        names = [f"m{i}" for i in range(measures)]
        frame = pd.DataFrame(candidate.astype(float) - champion, columns=names)
        parts = {f"part {k}": np.arange(n) % 10 == k for k in range(10 * ("slices" in work))}
        clusters = np.arange(n) // 20 if "clusters" in work else None
        units = Differences(frame, parts, clusters=clusters, bounds=dict.fromkeys(names, 1.0))
        terms = Terms(dict.fromkeys(names, 0.01))
        (taken,) = cpu(lambda units=units, terms=terms: gate_tests(units, terms), repeats=3)
        yield Row(f"a gate of {work}", taken, bound=bound)


if __name__ == "__main__":
    sys.exit(told(rows()))
