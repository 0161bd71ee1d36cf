"""PROMETHEE beside pymcdm and beside one argsort of the same matrix, and the analysis of stability.

    python tests/benchmarks/bench_fusion.py

Seconds of CPU, of everything that `promethee` returns; beside pymcdm with equal weights and the
usual preference, which gives the same flows. Bounds: 20,000 methods x 16 measures in 0.2 s and
20 MB for every preference function, also with ties; 200,000 x 16 in 8 times
``np.argsort(matrix, axis=0)``; stability of the published study within a second each.
"""

import sys
from collections.abc import Iterator
from itertools import chain

import numpy as np
from bench_large import results
from timing import Row, cpu, peak, told

from mlflow_mleval.analysis import fusion as stability
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.promethee import PREFERENCES, promethee
from mlflow_mleval.study import Study

SECONDS, MEGABYTES, ARGSORTS = 0.2, 20, 8


def of_peer() -> Iterator[Row]:
    """PROMETHEE II with equal weights beside pymcdm, which makes all pairs."""
    try:
        from pymcdm.methods import PROMETHEE_II
    except ImportError:
        print("pymcdm is not installed: nothing to compare PROMETHEE with", file=sys.stderr)
        return
    matrix, flows = np.random.default_rng(0).random((3_000, 16)), PROMETHEE_II("usual")

    def theirs():
        return flows(matrix, np.full(16, 1 / 16), np.ones(16))

    def ours():
        return promethee(matrix, preference="usual", weights="equal").flows["phi"]

    assert np.allclose(ours(), theirs())
    (their_seconds,) = cpu(theirs, repeats=3)
    (seconds,) = cpu(ours)
    yield Row("PROMETHEE of 3,000 methods × 16 measures", seconds, "pymcdm", their_seconds, 50)


def of_sizes() -> Iterator[Row]:
    """Every preference function, the slowest of which counts."""
    rng = np.random.default_rng(0)
    for decimals in (None, 9, 3):
        kind = "reals" if decimals is None else f"{decimals} decimals"
        for m in (20_000, 200_000):
            matrix = rng.random((m, 16))
            matrix = matrix if decimals is None else matrix.round(decimals)
            calls = [
                lambda f=function, matrix=matrix: promethee(matrix, preference=f)
                for function in PREFERENCES
            ]
            sort, *taken = cpu(
                lambda x=matrix: np.argsort(x, axis=0), *calls, repeats=3 if m == 20_000 else 1
            )
            slowest = max(range(len(taken)), key=taken.__getitem__)
            what = f"PROMETHEE of {m:,} methods × 16 measures, {kind}, {list(PREFERENCES)[slowest]}"
            if m == 20_000:
                note = f"{peak(calls[slowest]):.0f} MB beside the input, aim {MEGABYTES}"
                yield Row(what, taken[slowest], bound=SECONDS, note=note)
            else:
                yield Row(what, taken[slowest], "numpy, argsort of it", sort, most=ARGSORTS)


def of_stability() -> Iterator[Row]:
    def sure(fusion):
        return stability.Stability(fusion, fusion.given, None, None, 10_000, 0)

    for methods, seconds in ((12, 1.0), (300, 60.0)):
        some = Study.from_frame(results(methods, datasets=11, seeds=1, folds=1))
        fusion = fuse(some)
        calls = {
            "intervals of weights": lambda f=fusion: sure(f).intervals,
            "acceptability of ranks, 10,000 draws": lambda f=fusion: sure(f).acceptability,
            "leaving one out": lambda f=fusion: sure(f).leave_one_out,
            "sensitivity": lambda s=some: stability.sensitivity(s),
        }
        for name, call in calls.items():
            (taken,) = cpu(call, repeats=3 if methods == 12 else 1)
            yield Row(f"{name}, {methods} methods × 11 × 16", taken, bound=seconds)


if __name__ == "__main__":
    sys.exit(told(chain(of_peer(), of_sizes(), of_stability())))
