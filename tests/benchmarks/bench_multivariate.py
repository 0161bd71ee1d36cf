"""Time the multivariate tests over folds against their bounds and against statsmodels in the same
run.

python tests/benchmarks/bench_multivariate.py
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from statsmodels.multivariate.manova import MANOVA
from statsmodels.stats.multivariate import test_mvmean
from timing import best, peak

from mlflow_mleval import Study, compare_folds, hotelling_pairs, manova, mardia

SAMPLE = 500


def main() -> int:
    rng = np.random.default_rng(0)
    x = (
        rng.normal(size=(500, 10, 4))
        + rng.normal(size=(1, 10, 4))
        + 0.1 * rng.normal(size=(500, 1, 4))
    )
    missed = False
    print(f"{'what':<66} {'time':>8} {'bound':>7} {'memory':>8}  {'':<7} peer")

    def row(
        what: str,
        call: Callable[[], object],
        bound: float,
        peer: str = "",
        peer_time: float = 0,
        repeats: int = 9,
    ) -> None:
        nonlocal missed
        (took,) = best(call, repeats=repeats)
        late = took > bound
        missed |= late
        said = f"{peer}: {peer_time:.3g} s, {peer_time / took:.3g} times as long" if peer else ""
        print(
            f"{what:<66} {took:>6.3f} s {bound:>5.2f} s {peak(call):>5.0f} MB  "
            f"{'MISSED' if late else 'ok':<7} {said}"
        )

    pairs = list(zip(*np.triu_indices(500, 1), strict=True))
    some = [pairs[i] for i in rng.choice(len(pairs), SAMPLE, replace=False)]
    loop = (
        best(lambda: [test_mvmean(x[a] - x[b]) for a, b in some], repeats=2)[0]
        * len(pairs)
        / SAMPLE
    )
    row(
        "all 124,750 T2 of 500 methods, 10 folds, 4 measures",
        lambda: hotelling_pairs(x, ratio=1 / 9),
        0.3,
        f"statsmodels test_mvmean, from {SAMPLE} pairs",
        loop,
    )
    with_posthoc = lambda: hotelling_pairs(x, ratio=1 / 9).posthoc_corrected  # noqa: E731
    row("the same with post hoc t tests of each measure, Holm-corrected", with_posthoc, 0.6)
    frame = pd.DataFrame(x[:100].reshape(-1, 4), columns=list("abcd"))
    frame["method"], frame["fold"] = np.repeat(np.arange(100), 10), np.tile(np.arange(10), 100)
    theirs = best(
        lambda: MANOVA.from_formula("a+b+c+d ~ C(method) + C(fold)", frame).mv_test(), repeats=1
    )[0]
    row(
        "MANOVA of the same",
        lambda: manova(x, ratio=1 / 9),
        0.05,
        "statsmodels, of 100 methods only",
        theirs,
    )
    row("Mardia of the same", lambda: mardia(x), 0.05)
    index = pd.MultiIndex.from_product(
        [["d"], [f"m{i}" for i in range(100)], range(10)], names=["dataset", "method", "fold"]
    )
    folds = pd.DataFrame(x[:100].reshape(1000, 4), index, list("abcd"))
    study = Study(
        folds.groupby(level=[0, 1], sort=False).mean(), dict.fromkeys("abcd", "max"), folds=folds
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row(
            "compare_folds of 100 methods: everything",
            lambda: compare_folds(study, "d"),
            1.0,
            repeats=3,
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
