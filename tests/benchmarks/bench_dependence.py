"""Time the loss profiles against one row sort and reads of the input in the same run, and the
minimiser on a whole study.

python tests/benchmarks/bench_dependence.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse
from timing import best, peak

from mlflow_mleval.measures.capacities import Capacity, NearestNeighbourMinimiser, choquet_loss
from mlflow_mleval.measures.owa import error_histogram, loss_profile, profile_from_histogram

YEAST = Path(__file__).parents[3] / "shared" / "data" / "mulan" / "yeast.arff"


def yeast() -> tuple[np.ndarray, np.ndarray, str]:
    """2417 instances of 103 features with 14 labels; made up ones of that shape where the file is
    not at hand.
    """
    if YEAST.exists():
        rows = YEAST.read_text().split("@data", 1)[1].split()
        table = np.array([row.split(",") for row in rows], dtype=float)
        return table[:, :-14], table[:, -14:].astype(int), "yeast"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2417, 103))
    return (
        X,
        (X @ rng.normal(size=(103, 14)) + 10 * rng.normal(size=(2417, 14)) > 5).astype(int),
        "synthetic yeast",
    )


def study(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Loss by target k (rows) and surrogate k (columns), from ten folds."""
    n_labels = Y.shape[1]
    fold = np.random.default_rng(0).permutation(len(X)) % 10
    predictions = np.empty((n_labels, *Y.shape), dtype=int)
    for held in range(10):
        minimiser = NearestNeighbourMinimiser(9).fit(X[fold != held], Y[fold != held])
        predictions[:, fold == held] = minimiser.predict_all(
            X[fold == held], range(1, n_labels + 1)
        )
    return np.array([loss_profile(Y, prediction).losses for prediction in predictions]).T


def main() -> int:
    rng = np.random.default_rng(0)
    missed = False
    print(f"{'what':<58} {'time':>9} {'peer':>9} {'ratio':>6} {'bound':>5} {'memory':>9}")

    def row(what: str, took: float, peer: float, bound: float, memory: float) -> None:
        nonlocal missed
        late = took > bound * peer
        missed |= late
        print(
            f"{what:<58} {took * 1e3:>7.1f}ms {peer * 1e3:>7.1f}ms {took / peer:>6.2f} "
            f"{bound:>5.0f} {memory:>7.1f}MB  {'MISSED' if late else 'ok'}"
        )

    for n, k in [(100_000, 100), (1_000_000, 20), (20_000, 1_000), (10_000, 2_000)]:
        score, truth = rng.random((n, k)), rng.random((n, k)) < 0.05
        errors = abs(score - truth)
        for kind in (bool, np.int64, float):
            y = truth.astype(kind)
            took, peer = best(
                lambda y=y, s=score: loss_profile(y, s), lambda e=errors: np.sort(e, axis=1)
            )
            row(
                f"soft profile, all k, {n} x {k} {kind.__name__}, to a row sort",
                took,
                peer,
                2,
                peak(lambda y=y, s=score: loss_profile(y, s)),
            )
        del errors
        for kind in (bool, np.int64, float):
            y, p = truth.astype(kind), (score > 0.9).astype(kind)
            took, peer = best(
                lambda y=y, p=p: profile_from_histogram(error_histogram(y, p), "polynomial"),
                lambda y=y, p=p: y.sum() + p.sum(),
            )
            row(
                f"hard profile, 31 alpha, {n} x {k} {kind.__name__}, to a read",
                took,
                peer,
                5,
                peak(lambda y=y, p=p: error_histogram(y, p)),
            )

    def other(
        what: str, peer: str, call: Callable[[], object], beside: Callable[[], object]
    ) -> None:
        took, peer_took = best(call, beside)
        print(f"{what:<58} {took * 1e3:>7.1f}ms {peer_took * 1e3:>7.1f}ms ({peer})")

    truth, score = (
        sparse.random_array((50_000, 5_000), density=d, format="csr", rng=rng)
        for d in (0.001, 0.002)
    )
    truth.data[:] = 1
    other(
        "soft profile, all k, 50000 x 5000 sparse, 750,000 entries",
        "difference of the matrices",
        lambda: loss_profile(truth, score),
        lambda: abs(score - truth),
    )
    y, s = rng.random((100_000, 14)) < 0.3, rng.random((100_000, 14))
    mu = Capacity.weighted(np.arange(1, 15), lambda x: x**2)
    other(
        "Choquet loss, weighted labels, 100000 x 14",
        "row argsort",
        lambda: choquet_loss(y, s, mu),
        lambda: np.argsort(s, axis=1),
    )
    tabled = Capacity.from_function(lambda labels: (len(labels) / 14) ** 2, 14)
    other(
        "Choquet loss, any set function, 100000 x 14",
        "row argsort",
        lambda: choquet_loss(y, s, tabled),
        lambda: np.argsort(s, axis=1),
    )

    X, Y, name = yeast()
    start = time.perf_counter()
    losses = study(X, Y)
    took = time.perf_counter() - start
    missed |= took > 60
    print(
        f"surrogate k x target k on {name}, ten folds: {took:.1f} s of 60 s  "
        f"{'MISSED' if took > 60 else 'ok'}"
    )
    print(f"best surrogate k for each target k: {(losses.argmin(axis=1) + 1).tolist()}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
