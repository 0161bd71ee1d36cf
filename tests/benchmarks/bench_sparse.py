"""Sparse scores of very many labels: all measures, beside the four at k that pyxclib has, in numpy
by its steps, and that napkinxc has, where it is installed.

>>> python tests/benchmarks/bench_sparse.py [INSTANCES LABELS]
"""

import sys
import time
from importlib.util import find_spec

import numpy as np
from scipy import sparse
from timing import Row, largest, told

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


def best_five(m):
    """The five largest values of each row and their columns, by falling value."""
    sizes = np.diff(m.indptr)
    filled = np.arange(max(5, sizes.max())) < sizes[:, None]
    values, columns = np.full(filled.shape, -np.inf), np.zeros(filled.shape, int)
    values[filled], columns[filled] = m.data, m.indices
    places = np.argpartition(-values, 4, axis=1)[:, :5]
    order = np.argsort(-np.take_along_axis(values, places, axis=1), axis=1)
    places = np.take_along_axis(places, order, axis=1)
    return np.take_along_axis(values, places, axis=1), np.take_along_axis(columns, places, axis=1)


def reference(y, s):
    """The four measures at k in numpy, by pyxclib's steps: the best five, which of them are true,
    sums; propensities are those of Jain et al.
    """
    n, n_labels = y.shape
    c = (np.log(n) - 1) * 2.5**0.55
    inverse = 1 + c * (np.bincount(y.indices, minlength=n_labels) + 1.5) ** -0.55
    columns = best_five(s)[1]
    keys = np.repeat(np.arange(n), np.diff(y.indptr)) * n_labels + y.indices
    asked = np.arange(n)[:, None] * n_labels + columns
    places = np.searchsorted(keys, asked).clip(max=len(keys) - 1)
    hits = keys[places] == asked
    weighted = hits * inverse[columns]
    largest = best_five(sparse.csr_matrix((inverse[y.indices], y.indices, y.indptr), y.shape))[0]
    largest[np.isneginf(largest)] = 0
    discounts = 1 / np.log2(np.arange(2, 7))
    ideal = discounts.cumsum()[np.minimum.outer(np.diff(y.indptr), np.arange(1, 6)) - 1]
    k = np.arange(1, 6)
    return {
        "precision": (hits.cumsum(axis=1) / k).mean(axis=0),
        "ndcg": ((hits * discounts).cumsum(axis=1) / ideal).mean(axis=0),
        "psp": (weighted.cumsum(axis=1) / k).sum(axis=0) / (largest.cumsum(axis=1) / k).sum(axis=0),
        "psndcg": ((weighted * discounts).cumsum(axis=1) / ideal).sum(axis=0)
        / ((largest * discounts).cumsum(axis=1) / ideal).sum(axis=0),
    }


def by_napkinxc(y, s):
    """The same by napkinxc."""
    from napkinxc import metrics

    weights = metrics.Jain_et_al_inverse_propensity(y)
    return {
        "precision": metrics.precision_at_k(y, s),
        "ndcg": metrics.ndcg_at_k(y, s),
        "psp": metrics.psprecision_at_k(y, s, weights),
        "psndcg": metrics.psndcg_at_k(y, s, weights),
    }


def rows(n=150_000, n_labels=670_000):
    y, s = matrices(n, n_labels)
    before, room, times = largest(), 0.0, []
    for _ in range(3):
        start = time.process_time()
        ours = mleval.evaluate(y, s, train_labels=y).measures
        times.append(time.process_time() - start)
        room = room or (largest() - before) / 1024
    seconds = sorted(times)[1]
    work = f"measures of {s.nnz:,} sparse scores, {n:,} × {n_labels:,}"
    note = f"{times[0]:.1f} s the first time, {room:.2f} GB beside the input"
    yield Row(f"{len(ours)} {work}", seconds, bound=2, note=note)
    peers = {"numpy, by the steps of pyxclib": (reference, {"most": 1.5})}
    if find_spec("napkinxc"):
        peers["napkinxc"] = (by_napkinxc, {"bound": 2})
    else:
        print("napkinxc is not installed: nothing to compare with", file=sys.stderr)
    for peer, (call, bound) in peers.items():
        start = time.process_time()
        theirs = call(y, s)
        taken = time.process_time() - start
        for name, values in theirs.items():
            for k in (1, 3, 5):
                assert np.isclose(ours[f"{name}_at_{k}"], values[k - 1], rtol=1e-6), (peer, name, k)
        note = f"{len(ours)} measures beside its four at k"
        yield Row(f"four {work}", seconds, peer, taken, note=note, **bound)


if __name__ == "__main__":
    sys.exit(told(rows(*map(int, filter(str.isdigit, sys.argv[1:])))))
