"""Time and memory of `evaluate` against scikit-learn's functions on the same arrays.

    python tests/benchmarks/bench_flat.py

All sixteen measures, the profiles and the tables of `evaluate` against the sixteen calls of
scikit-learn that give the same figures, in one run. scikit-learn is timed on the full arrays at
100,000 x 100 and on the first rows of the others, where its time is extrapolated linearly in the
number of rows ("x rows" in the table). Bounds: 40 times faster at 100,000 x 100; peak memory
(tracemalloc, beside the input) at most 4 times the size of the input everywhere.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
import warnings

import numpy as np
from sklearn import metrics

import mlflow_mleval as mleval
from mlflow_mleval.measures.registry import SETS

FASTER, MEMORY = 40, 4
warnings.filterwarnings("ignore")


def sklearn_sixteen(y, s, p):
    scores = (metrics.precision_score, metrics.recall_score, metrics.f1_score)
    found = [
        score(y, p, average=a, zero_division=0)
        for score in scores
        for a in ("samples", "micro", "macro")
    ]
    found += [metrics.hamming_loss(y, p), metrics.accuracy_score(y, p)]
    found += [metrics.jaccard_score(y, p, average="samples", zero_division=0)]
    found += [metrics.coverage_error(y, s) - y.any(axis=1).mean(), metrics.label_ranking_loss(y, s)]
    found += [
        metrics.label_ranking_average_precision_score(y, s),
        (y[np.arange(len(y)), s.argmax(axis=1)] == 0).mean(),
    ]
    return found


def best(call, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


def problem(n, k, kind, density=0.05):
    rng = np.random.default_rng(0)
    y = (rng.random((n, k), dtype=np.float32) < density).astype(
        np.int8 if kind == "int8" else np.int64
    )
    s = rng.random((n, k), dtype=np.float32 if kind == "int8" else np.float64)
    if kind == "ties":
        s = s.round(1)
    return y, s, (s >= 0.5).astype(y.dtype)


def main():
    missed = False
    print(
        f"{'input':34} {'evaluate':>9} {'scikit-learn':>22} {'ratio':>7} {'input':>8} "
        f"{'peak':>8} {'x':>6}"
    )
    cases = [
        (100_000, 100, "int64", 1),
        (100_000, 100, "ties", 10),
        (100_000, 100, "int8", 10),
        (100_000, 1_000, "int8", 50),
        (1_000_000, 20, "int64", 10),
        (1_000_000, 20, "int8", 10),
    ]
    for n, k, kind, part in cases:
        y, s, p = problem(n, k, kind)
        size = y.nbytes + s.nbytes + p.nbytes
        seconds, ev = best(lambda y=y, s=s, p=p: mleval.evaluate(y, s, p), 5 if n * k <= 2e7 else 2)
        assert len(ev.measures) > 16
        tracemalloc.start()
        mleval.evaluate(y, s, p).measures  # noqa: B018
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows = slice(n // part)
        theirs, found = best(lambda y=y[rows], s=s[rows], p=p[rows]: sklearn_sixteen(y, s, p), 1)
        if part == 1:
            assert np.isclose(
                sorted(found), sorted(ev.measures[m] for m in SETS["sixteen"]), atol=1e-12
            ).all()
        theirs *= part
        ok = peak <= MEMORY * size and (theirs / seconds >= FASTER or (n, k) != (100_000, 100))
        missed |= not ok
        how = f"x {part} rows" if part > 1 else "in full"
        print(
            f"{n:>9,} x {k:<5,} {kind:16} {seconds:8.3f}s {theirs:11.2f}s {how:>9} "
            f"{theirs / seconds:7.1f} {size / 1e6:6.0f}MB {peak / 1e6:6.0f}MB {peak / size:6.2f} "
            f"{'ok' if ok else 'MISSED'}"
        )
    y, s, p = problem(100_000, 100, "int64")
    folds = np.arange(len(y)) % 10
    seconds, _ = best(lambda: mleval.evaluate(y, s, p, folds=folds).folds, 3)
    print(f"100,000 x 100 in ten folds, table of folds: {seconds:.3f}s")
    seconds, _ = best(lambda: mleval.evaluate(y, s, p, conventions="mulan").measures, 3)
    print(f"100,000 x 100 by the conventions of MULAN: {seconds:.3f}s")
    ties = s.round(1)
    seconds, _ = best(lambda: mleval.evaluate(y, ties, p, conventions="mulan").measures, 1)
    print(f"100,000 x 100 the same with ties: {seconds:.3f}s")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
