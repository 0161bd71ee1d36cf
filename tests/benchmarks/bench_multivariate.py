"""Seconds of CPU of the multivariate tests over folds, beside statsmodels in the same run.

python tests/benchmarks/bench_multivariate.py
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
from statsmodels.multivariate.manova import MANOVA
from statsmodels.stats.multivariate import test_mvmean
from timing import Row, cpu, told

from mlflow_mleval import Study, compare_folds, hotelling_pairs, manova, mardia

SAMPLE = 500


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    x = (
        rng.normal(size=(500, 10, 4))
        + rng.normal(size=(1, 10, 4))
        + 0.1 * rng.normal(size=(500, 1, 4))
    )
    pairs = list(zip(*np.triu_indices(500, 1), strict=True))
    some = [pairs[i] for i in rng.choice(len(pairs), SAMPLE, replace=False)]
    (loop,) = cpu(lambda: [test_mvmean(x[a] - x[b]) for a, b in some], repeats=2)
    (took,) = cpu(lambda: hotelling_pairs(x, ratio=1 / 9))
    what = "all 124,750 T² of 500 methods, 10 folds, 4 measures"
    peer, note = "statsmodels, test_mvmean", f"the peer's from {SAMPLE} pairs"
    yield Row(what, took, peer, loop * len(pairs) / SAMPLE, 50, note)
    (took,) = cpu(lambda: hotelling_pairs(x, ratio=1 / 9).posthoc_corrected)
    yield Row("the same, then a t test of each measure, corrected by Holm", took, bound=0.6)
    frame = pd.DataFrame(x[:100].reshape(-1, 4), columns=list("abcd"))
    frame["method"], frame["fold"] = np.repeat(np.arange(100), 10), np.tile(np.arange(10), 100)
    formula = "a+b+c+d ~ C(method) + C(fold)"
    (theirs,) = cpu(lambda: MANOVA.from_formula(formula, frame).mv_test(), repeats=1)
    (took,) = cpu(lambda: manova(x, ratio=1 / 9))
    note = "the peer's of 100 methods only"
    yield Row("MANOVA of 500 methods, 10 folds, 4 measures", took, "statsmodels", theirs, 4, note)
    (took,) = cpu(lambda: mardia(x))
    yield Row("Mardia's tests of the same", took, bound=0.05)
    index = pd.MultiIndex.from_product(
        [["d"], [f"m{i}" for i in range(100)], range(10)], names=["dataset", "method", "fold"]
    )
    folds = pd.DataFrame(x[:100].reshape(1000, 4), index, list("abcd"))
    means = folds.groupby(level=[0, 1], sort=False).mean()
    study = Study(means, dict.fromkeys("abcd", "max"), folds=folds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (took,) = cpu(lambda: compare_folds(study, "d"), repeats=3)
    yield Row("compare_folds of 100 methods, everything", took, bound=1)


if __name__ == "__main__":
    sys.exit(told(rows()))
