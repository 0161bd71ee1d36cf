"""Time and memory of PROMETHEE against one argsort of the same matrix, and of the stability
analysis.

    python tests/benchmarks/bench_fusion.py

Bounds: 20,000 methods x 16 measures in 0.2 s and 20 MB (tracemalloc, beside the input) for every
preference function; 200,000 x 16 in 8 times ``np.argsort(matrix, axis=0)``. Default thresholds,
entropy weights, everything that `promethee` returns. Values of three decimals are full of ties,
those of nine hardly have any but meet thresholds exactly. Stability: the size of the published
study (12 methods, 11 datasets, 16 measures) within a second each, 300 methods in tens of seconds.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from timing import best, peak

from mlflow_mleval.analysis import stability
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.promethee import PREFERENCES, promethee
from mlflow_mleval.measures.registry import SETS
from mlflow_mleval.study import Study

SECONDS, MEGABYTES, ARGSORTS = 0.2, 20, 8


def study(methods: int, datasets: int = 11) -> Study:
    """Methods of different skill, sixteen correlated measures."""
    rng = np.random.default_rng(0)
    skill = rng.normal(size=(methods, 1))
    values = [
        1 / (1 + np.exp(-(skill + rng.normal(size=(methods, 16))) / 2)) for _ in range(datasets)
    ]
    frame = pd.DataFrame(np.concatenate(values), columns=SETS["sixteen"])
    frame.insert(0, "method", [f"m{i}" for i in range(methods)] * datasets)
    frame.insert(0, "dataset", np.repeat([f"d{i}" for i in range(datasets)], methods))
    return Study.from_frame(frame)


def main() -> int:
    rng = np.random.default_rng(0)
    missed = 0

    def line(
        what: str, seconds: float, bound: str, ratio: float, memory: float | None, ok: bool
    ) -> None:
        nonlocal missed
        missed += not ok
        size = "" if memory is None else f"{memory:8.1f} MB"
        print(
            f"{what:44s} {1000 * seconds:9.1f} ms   {bound:24s} {ratio:6.2f} {size:12s} "
            f"{'ok' if ok else 'MISSED'}"
        )

    print(f"{'what':44s} {'time':>12s}   {'bound':24s} {'ratio':>6s} {'peak':>11s}")
    for m in (20_000, 200_000):
        for decimals in (None, 9, 3):
            matrix = rng.random((m, 16))
            matrix = matrix if decimals is None else matrix.round(decimals)
            kind = "reals" if decimals is None else f"{decimals} decimals"
            for function in PREFERENCES:

                def rank(x: np.ndarray = matrix, f: str = function) -> object:
                    return promethee(x, preference=f)

                sort, taken = best(lambda x=matrix: np.argsort(x, axis=0), rank)
                if m == 20_000:
                    memory = peak(rank)
                    ratio, bound, ok = (
                        taken / SECONDS,
                        f"{SECONDS} s, {MEGABYTES} MB",
                        taken <= SECONDS and memory <= MEGABYTES,
                    )
                else:
                    memory, ratio, bound = (
                        None,
                        taken / sort,
                        f"{ARGSORTS} argsorts of {1000 * sort:.0f} ms",
                    )
                    ok = ratio <= ARGSORTS
                line(f"{m} x 16, {kind}, {function}", taken, bound, ratio, memory, ok)
    for methods, seconds in ((12, 1.0), (300, 60.0)):
        some = study(methods)
        fusion = fuse(some)
        calls = {
            "weight_intervals": lambda f=fusion: stability.weight_intervals(f),
            "dethrone": lambda f=fusion: stability.dethrone(f),
            "rank_acceptability, 10,000 draws": lambda f=fusion: stability.rank_acceptability(f),
            "leave_one_out": lambda f=fusion: stability.leave_one_out(f),
            "sensitivity": lambda s=some: stability.sensitivity(s),
        }
        for name, call in calls.items():
            (taken,) = best(call, repeats=3 if methods == 12 else 1)
            line(
                f"{methods} x 11 x 16, {name}",
                taken,
                f"{seconds:g} s",
                taken / seconds,
                None,
                taken <= seconds,
            )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
