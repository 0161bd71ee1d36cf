"""What the tests of a gate cost beyond reading its two runs, in seconds of CPU.

python tests/benchmarks/bench_gate.py [--json]
"""

import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
from timing import Row, cpu, told

from mlflow_mleval.analysis.gate_tests import Differences, Terms, gate_tests


def changed(rng: np.random.Generator, shape: tuple[int, int], share: float) -> np.ndarray:
    """Wins and losses of two that are equally good."""
    return rng.choice([-1.0, 0.0, 1.0], shape, p=[share / 2, 1 - share, share / 2])


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    few, many = (10_000, 8), (1_000_000, 2)
    cut = (0.01 * rng.standard_cauchy(many)).clip(-30, 30)
    for work, d, margin, bound in (
        ("10,000 answers × 8 measures, RUN MORE", changed(rng, few, 0.32), 0.01, 0.5),
        ("the same in ten slices, RUN MORE", changed(rng, few, 0.32), 0.01, 0.5),
        ("the same in ten slices, SHIP", rng.normal(0, 0.1, few).clip(-1, 1), 0.01, 0.5),
        ("the same in 500 clusters", changed(rng, few, 0.32), 0.01, None),
        ("1,000,000 answers × 2, 32% changed", changed(rng, many, 0.32), 0.01, 2.5),
        ("the same, 20 changed, no margin", changed(rng, many, 0.00002), 0.0, 2.5),
        ("the same, grades", rng.choice(np.arange(-4.0, 5.0), many), 0.05, 2.5),
        ("the same, many values", rng.normal(0, 0.1, many).clip(-1, 1), 0.01, 2.5),
        ("the same, a few of them cut at 30", cut, 0.0, 2.5),
    ):
        frame = pd.DataFrame(d, columns=[f"m{i}" for i in range(d.shape[1])])
        parts = {f"part {k}": np.arange(len(d)) % 10 == k for k in range(10 * ("slices" in work))}
        clusters = np.arange(len(d)) // 20 if "clusters" in work else None
        bounds = dict.fromkeys(frame, float(np.abs(d).max()))
        units, terms = (
            Differences(frame, parts, clusters, bounds),
            Terms(dict.fromkeys(frame, margin)),
        )
        (taken,) = cpu(lambda units=units, terms=terms: gate_tests(units, terms), repeats=3)
        yield Row(f"a gate of {work}", taken, bound=bound)


if __name__ == "__main__":
    sys.exit(told(rows()))
