"""The hierarchical measures on synthetic hierarchies, from lists of class names to the table.

    python tests/benchmarks/bench_hierarchical.py [--json]

The graphs have 1.4 parents a class: "recursive" draws parents from all classes that came before (up
to 38 levels), "layered" from the layer above (8 levels). Truth and prediction are independent: the
hardest case, for nearly all pairs of classes differ and meet far up.
"""

import sys
from collections.abc import Iterator

import numpy as np
from timing import Row, cpu, told

from mlflow_mleval.measures.hierarchical import instance_measures
from mlflow_mleval.measures.hierarchy import Hierarchy


def recursive(n, seed=0, parents=1.4):
    rng = np.random.default_rng(seed)
    child = np.arange(1, n)
    second = child[rng.random(n - 1) < parents - 1]
    edges = [np.stack([(rng.random(len(c)) * c).astype(int), c], 1) for c in (child, second)]
    return np.unique(np.concatenate(edges), axis=0).tolist()


def layered(n, seed=0, parents=1.4, depth=8):
    rng = np.random.default_rng(seed)
    share = np.geomspace(1, n, depth)
    bounds = np.rint(np.cumsum(share) / share.sum() * n).astype(int)
    bounds[0] = 1
    edges = []
    for before, lo, hi in zip([0, *bounds[:-2]], bounds[:-1], bounds[1:], strict=True):
        child = np.arange(lo, hi)
        for c in (child, child[rng.random(len(child)) < parents - 1]):
            edges.append(np.stack([rng.integers(before, lo, len(c)), c], 1))
    return np.unique(np.concatenate(edges), axis=0).tolist()


def rows() -> Iterator[Row]:
    for n, instances, bound in ((10_000, 20_000, 1.0), (300_000, 50_000, 7.0)):
        for make in (recursive, layered):
            h = Hierarchy(make(n), nodes=range(n))
            true, pred = np.random.default_rng(1).integers(0, n, (2, instances, 3)).tolist()
            for families, lca, most in (
                (["set", "pair"], "extended", bound),
                (["lca"], "extended", 3 * bound),
                *([(["lca"], "minimal", 20.0)] if n < 1e5 else []),
            ):

                def call(h=h, true=true, pred=pred, families=families, lca=lca):
                    return instance_measures(true, pred, h, measures=families, lca=lca)

                (taken,) = cpu(call, repeats=1)
                what = "set and pair measures" if "set" in families else f"{lca} LCA measures"
                work = f"{what} of {instances:,} answers, {n:,} classes ({make.__name__})"
                yield Row(work, taken, bound=most)


if __name__ == "__main__":
    sys.exit(told(rows()))
