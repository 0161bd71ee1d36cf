"""Seconds of CPU of the tests over datasets and over folds, beside scipy, networkx and statsmodels
in the same run.

    python tests/benchmarks/bench_tests.py
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import chain

import networkx as nx
import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.multivariate.manova import MANOVA
from statsmodels.stats.multivariate import test_mvmean
from timing import Row, cpu, told

from mlflow_mleval import compare_folds, hotelling_pairs, manova, mardia
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.hierarchical_t import hierarchical_pairs
from mlflow_mleval.analysis.pairs import cliques
from mlflow_mleval.analysis.posthoc.max_t import max_t
from mlflow_mleval.analysis.posthoc.rank_tests import friedman, nemenyi, range_sf, wilcoxon_pairs
from mlflow_mleval.study import Study

SAMPLE = 200
SAMPLED = f"the peer's from {SAMPLE} pairs"
RNG = np.random.default_rng(0)


def per_pair(call: Callable[[int, int], object], m: int) -> float:
    """Seconds that a loop over all pairs of m methods would take, from a sample of them."""
    a, b = np.triu_indices(m, 1)
    some = np.random.default_rng(0).choice(len(a), SAMPLE, replace=False)
    pairs = list(zip(a[some], b[some], strict=True))
    return cpu(lambda: [call(i, j) for i, j in pairs], repeats=2)[0] * len(a) / SAMPLE


def of_ranks() -> Iterator[Row]:
    ranks = stats.rankdata(RNG.random((100, 1000)) + np.linspace(0, 0.5, 1000), axis=1)
    mean, unit = ranks.mean(axis=0), np.sqrt(12 * 100 / (1000 * 1001))

    def range_p(i: int, j: int) -> object:
        return stats.studentized_range.sf(abs(mean[i] - mean[j]) * unit, 1000, np.inf)

    (took,) = cpu(lambda: nemenyi(ranks))
    peer = "scipy, studentized_range"
    theirs = per_pair(range_p, 1000)
    yield Row("Nemenyi, 1,000 methods × 100 datasets", took, peer, theirs, 1000, SAMPLED)
    took, theirs = cpu(lambda: friedman(ranks), lambda: stats.friedmanchisquare(*ranks.T))
    peer = "scipy, friedmanchisquare"
    yield Row("Friedman, 1,000 methods × 100 datasets", took, peer, theirs)
    q = np.linspace(0, 40, 60)
    for m in (2, 10, 100, 1000):
        ours = range_sf(np.r_[q, np.linspace(0, 40, 3000)], m)[:60]
        assert np.abs(ours - stats.studentized_range.sf(q, m, np.inf)).max() < 1e-9


def of_signed_ranks() -> Iterator[Row]:
    smooth = RNG.random((30, 200))
    (took,) = cpu(lambda: wilcoxon_pairs(smooth))

    def exact(i: int, j: int) -> object:
        return stats.wilcoxon(smooth[:, i], smooth[:, j], mode="exact")

    what = "exact signed ranks, 19,900 pairs × 30"
    theirs = per_pair(exact, 200)
    yield Row(f"{what}, no ties", took, "scipy, wilcoxon", theirs, 20, SAMPLED)
    tied = smooth.round(2)
    a, b = np.triu_indices(200, 1)
    sizes = np.sort(np.abs(tied[:, a] - tied[:, b]).round(9), axis=0)
    share = (np.diff(sizes, axis=0) == 0).any(axis=0).mean()
    (took,) = cpu(lambda: wilcoxon_pairs(tied), repeats=3)
    note = "no peer is exact with ties"
    yield Row(f"{what}, {share:.1%} with ties", took, bound=5, note=note)


def of_resampling() -> Iterator[Row]:
    flows = RNG.random((100, 1000)) + np.linspace(0, 0.1, 1000)

    def permuted(i: int, j: int) -> object:
        return stats.permutation_test(
            (flows[:, i], flows[:, j]),
            lambda x, y, axis: (x - y).sum(axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=9_999,
        )

    (took,) = cpu(lambda: max_t(flows), repeats=1)
    what = "max-T, 499,500 pairs × 100 datasets, 10,000 sign changes"
    note = f"{SAMPLED}, which it does not correct"
    yield Row(what, took, "scipy, permutation_test", per_pair(permuted, 1000), 500, note)


def of_comparison() -> Iterator[Row]:
    """50 methods on 100 datasets, beside the one product of matrices that max-T cannot do without:
    10,000 sign changes of 1,225 differences.
    """
    flows = RNG.random((100, 50)) + np.linspace(0, 0.1, 50)
    a, b = np.triu_indices(50, 1)
    signs, apart = RNG.choice([-1.0, 1.0], (10_000, 100)), flows[:, a] - flows[:, b]
    took, theirs = cpu(lambda: max_t(flows), lambda: signs @ apart)
    what = "max-T, 1,225 pairs × 100 datasets, 10,000 sign changes"
    yield Row(what, took, "numpy, the product of matrices", theirs)
    frame = pd.DataFrame({"f1": flows.ravel()})
    frame["dataset"], frame["method"] = np.repeat(np.arange(100), 50), np.tile(np.arange(50), 100)
    study = Study.from_frame(frame.astype({"dataset": str, "method": str}))
    (took,) = cpu(lambda: compare(study))
    yield Row("compare of 50 methods × 100 datasets, everything", took, bound=0.2)


def of_cliques() -> Iterator[Row]:
    place = RNG.permutation(1000) / 1000
    apart = pd.DataFrame(np.abs(place[:, None] - place) > 0.1)
    graph = nx.from_pandas_adjacency(~apart & ~np.eye(1000, dtype=bool))
    ours, theirs = cpu(lambda: cliques(apart), lambda: list(nx.find_cliques(graph)), repeats=1)
    yield Row("maximal cliques, 1,000 methods on a line", ours, "networkx", theirs)


def of_folds() -> Iterator[Row]:
    methods, folds, measures = 500, 10, 4
    x = RNG.normal(size=(methods, folds, measures)) + RNG.normal(size=(1, folds, measures))
    x += 0.1 * RNG.normal(size=(methods, 1, measures))
    (took,) = cpu(lambda: hotelling_pairs(x, ratio=1 / 9))
    theirs = per_pair(lambda a, b: test_mvmean(x[a] - x[b]), methods)
    what, peer = "all 124,750 T² of 500 methods, 10 folds, 4 measures", "statsmodels, test_mvmean"
    yield Row(what, took, peer, theirs, 50, SAMPLED)
    (took,) = cpu(lambda: hotelling_pairs(x, ratio=1 / 9).posthoc_corrected)
    yield Row("the same, then a t test of each measure, corrected by Holm", took, bound=0.6)
    names = ["dataset", "method", "fold"]
    index = pd.MultiIndex.from_product([["d"], [f"m{i}" for i in range(100)], range(10)])
    frame = pd.DataFrame(x[:100].reshape(1000, 4), index.set_names(names), list("abcd"))
    formula = "a+b+c+d ~ C(method) + C(fold)"
    (theirs,) = cpu(lambda: MANOVA.from_formula(formula, frame.reset_index()).mv_test(), repeats=1)
    (took,) = cpu(lambda: manova(x, ratio=1 / 9))
    note = "the peer's of 100 methods only"
    yield Row("MANOVA of 500 methods, 10 folds, 4 measures", took, "statsmodels", theirs, 4, note)
    (took,) = cpu(lambda: mardia(x))
    yield Row("Mardia's tests of the same", took, bound=0.05)
    means = frame.groupby(level=[0, 1], sort=False).mean()
    study = Study(means, dict.fromkeys("abcd", "max"), folds=frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (took,) = cpu(lambda: compare_folds(study, "d"), repeats=3)
    yield Row("compare_folds of 100 methods, everything", took, bound=1)


def of_the_next_dataset() -> Iterator[Row]:
    for methods, datasets, bound in ((2, 10, 0.3), (8, 20, 8.0)):
        tables = {}
        for i in range(datasets):
            noise = RNG.normal(0, 0.02, (10, methods)) + RNG.normal(0, 0.02, methods)
            tables[f"d{i}"] = pd.DataFrame(noise + 0.005 * np.arange(methods))
        how = {"ropes": {"f1": 0.01}, "directions": {"f1": "max"}}

        def call(tables=tables, how=how):
            return hierarchical_pairs({"f1": tables}, rho=dict.fromkeys(tables, 0.1), **how)

        (taken,) = cpu(call, repeats=3 if methods == 2 else 1)
        pairs = "one pair" if methods == 2 else "28 pairs"
        work = f"hierarchical correlated t test, {pairs}, {datasets} datasets × 10 folds"
        yield Row(work, taken, bound=bound)


OF_DATASETS = of_ranks, of_signed_ranks, of_resampling, of_comparison, of_cliques
PARTS = *OF_DATASETS, of_folds, of_the_next_dataset
if __name__ == "__main__":
    sys.exit(told(chain(*(rows() for rows in PARTS))))
