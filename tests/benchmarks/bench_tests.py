"""Time the tests over datasets against their bounds and against scipy and networkx in the same run.

python tests/benchmarks/bench_tests.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import networkx as nx
import numpy as np
import pandas as pd
from scipy import stats
from timing import best, peak

from mlflow_mleval.analysis.pairs import cliques
from mlflow_mleval.analysis.posthoc.max_t import max_t
from mlflow_mleval.analysis.posthoc.nemenyi import nemenyi, range_sf
from mlflow_mleval.analysis.posthoc.wilcoxon import wilcoxon_pairs
from mlflow_mleval.analysis.ranks import friedman

SAMPLE = 200


def per_pair(call: Callable[[int, int], object], m: int) -> float:
    """Seconds that a loop over all pairs of m methods would take, from a sample of them."""
    a, b = np.triu_indices(m, 1)
    some = np.random.default_rng(0).choice(len(a), SAMPLE, replace=False)
    pairs = list(zip(a[some], b[some], strict=True))
    return best(lambda: [call(i, j) for i, j in pairs], repeats=2)[0] * len(a) / SAMPLE


def main() -> int:
    rng = np.random.default_rng(0)
    missed = False
    print(f"{'what':<52} {'time':>8} {'bound':>7} {'memory':>8}  {'':<7} peer")

    def row(
        what: str,
        call: Callable[[], object],
        bound: float,
        peer: str,
        peer_time: float,
        repeats: int = 7,
    ) -> None:
        nonlocal missed
        (took,) = best(call, repeats=repeats)
        late = took > bound
        missed |= late
        verdict = "MISSED" if late else "ok"
        ratio = f"{peer}: {peer_time:.3g} s, {peer_time / took:.3g} times as long"
        print(
            f"{what:<52} {took:>6.3f} s {bound:>5.1f} s {peak(call):>5.0f} MB  {verdict:<7} {ratio}"
        )

    ranks = stats.rankdata(rng.random((100, 1000)) + np.linspace(0, 0.5, 1000), axis=1)
    mean, unit = ranks.mean(axis=0), np.sqrt(12 * 100 / (1000 * 1001))
    row(
        "Nemenyi p-values, 1,000 methods x 100 datasets",
        lambda: nemenyi(ranks),
        1.0,
        f"scipy studentized_range, from {SAMPLE} pairs",
        per_pair(
            lambda i, j: stats.studentized_range.sf(abs(mean[i] - mean[j]) * unit, 1000, np.inf),
            1000,
        ),
    )
    row(
        "Friedman, 1,000 methods x 100 datasets",
        lambda: friedman(ranks),
        1.0,
        "scipy friedmanchisquare",
        best(lambda: stats.friedmanchisquare(*ranks.T))[0],
    )
    smooth = rng.random((30, 200))
    row(
        "exact signed ranks, 19,900 pairs x 30, no ties",
        lambda: wilcoxon_pairs(smooth),
        0.3,
        f"scipy wilcoxon, exact, from {SAMPLE} pairs",
        per_pair(lambda i, j: stats.wilcoxon(smooth[:, i], smooth[:, j], mode="exact"), 200),
    )
    tied = smooth.round(2)
    a, b = np.triu_indices(200, 1)
    sizes = np.sort(np.abs(tied[:, a] - tied[:, b]).round(9), axis=0)
    share = (np.diff(sizes, axis=0) == 0).any(axis=0).mean()
    row(
        f"exact signed ranks, 19,900 pairs x 30, {share:.1%} tied",
        lambda: wilcoxon_pairs(tied),
        5.0,
        f"scipy wilcoxon, only normal, from {SAMPLE} pairs",
        per_pair(
            lambda i, j: stats.wilcoxon(
                tied[:, i] - tied[:, j], zero_method="pratt", method="approx"
            ),
            200,
        ),
    )
    flows = rng.random((100, 1000)) + np.linspace(0, 0.1, 1000)

    def scipys(i: int, j: int) -> object:
        return stats.permutation_test(
            (flows[:, i], flows[:, j]),
            lambda x, y, axis: (x - y).sum(axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=9_999,
        )

    row(
        "max-T, 499,500 pairs x 100, 10,000 sign changes",
        lambda: max_t(flows),
        30.0,
        f"scipy permutation_test, no correction, from {SAMPLE} pairs",
        per_pair(scipys, 1000),
        repeats=1,
    )
    place = rng.permutation(1000) / 1000
    apart = pd.DataFrame(np.abs(place[:, None] - place) > 0.1)
    graph = nx.from_pandas_adjacency(~apart & ~np.eye(1000, dtype=bool))
    row(
        "maximal cliques, 1,000 methods on a line",
        lambda: cliques(apart),
        1.0,
        "networkx find_cliques",
        best(lambda: list(nx.find_cliques(graph)), repeats=1)[0],
    )
    q = np.linspace(0, 40, 60)
    error = max(
        np.abs(
            range_sf(np.r_[q, np.linspace(0, 40, 3000)], m)[:60]
            - stats.studentized_range.sf(q, m, np.inf)
        ).max()
        for m in (2, 10, 100, 1000)
    )
    print(
        f"largest difference of a Nemenyi p-value from scipy's: {error:.1e} (bound 1e-09) "
        f"{'ok' if error < 1e-9 else 'MISSED'}"
    )
    return int(missed or error >= 1e-9)


if __name__ == "__main__":
    sys.exit(main())
