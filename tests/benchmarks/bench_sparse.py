"""Sparse scores of very many labels: all measures, against napkinxc's four at k where it is
installed.

>>> python tests/benchmarks/bench_sparse.py [INSTANCES LABELS]
"""

import resource
import sys
import time

import numpy as np
from scipy import sparse
from timing import Row, told

import mlflow_mleval as mleval

TRUE, SCORED = 5, 50


def matrices(n, n_labels, seed=0):
    """A truth of 5 labels an instance and scores of 50, some of which are of true labels."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, n_labels, (n, TRUE))
    scored = np.concatenate([rng.integers(0, n_labels, (n, SCORED - 3)), true[:, :3]], axis=1)
    y, s = (
        sparse.csr_matrix(
            (values.ravel(), columns.ravel(), np.arange(n + 1) * columns.shape[1]),
            shape=(n, n_labels),
        )
        for columns, values in ((true, np.ones(true.shape)), (scored, rng.random(scored.shape) / 2))
    )
    for m in (y, s):
        m.sum_duplicates()
    y.data[:] = 1
    return y, s


def memory():
    """The largest resident set until now, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def rows(n=150_000, n_labels=670_000):
    y, s = matrices(n, n_labels)
    before, room, times = memory(), 0.0, []
    for _ in range(3):
        start = time.process_time()
        found = mleval.evaluate(y, s, train_labels=y).measures
        times.append(time.process_time() - start)
        room = room or memory() - before
    ours = sorted(times)[1]
    work = f"measures of {s.nnz:,} sparse scores, {n:,} × {n_labels:,}"
    note = f"{times[0]:.1f} s the first time, {room:.2f} GB beside the input"
    yield Row(f"{len(found)} {work}", ours, bound=2, note=note)
    try:
        from napkinxc import metrics
    except ImportError:
        return
    start = time.process_time()
    weights = metrics.Jain_et_al_inverse_propensity(y)
    theirs = {
        "precision": metrics.precision_at_k(y, s),
        "ndcg": metrics.ndcg_at_k(y, s),
        "psp": metrics.psprecision_at_k(y, s, weights),
        "psndcg": metrics.psndcg_at_k(y, s, weights),
    }
    seconds = time.process_time() - start
    for name, values in theirs.items():
        for k in (1, 3, 5):
            assert np.isclose(found[f"{name}_at_{k}"], values[k - 1], rtol=1e-6)
    note = f"{len(found)} measures beside its four at k"
    yield Row(f"the same {work}", ours, "napkinxc", seconds, note=note)


if __name__ == "__main__":
    sys.exit(told(rows(*map(int, filter(str.isdigit, sys.argv[1:])))))
