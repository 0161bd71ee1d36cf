"""Time to rank stored runs against MLflow's own search for the same runs, in one process.

    python tests/benchmarks/bench_query.py [runs]

2,000 runs x 20 measures in a SQLite store, as few methods on many datasets and as many methods on
few; "with folds" each run carries five folds. The peer is `MlflowClient.search_runs` page by page,
results thrown away. Bound: reading a Study and fusing it takes at most 1.3 times the bare search.
Best of five, alternating.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tracemalloc

import numpy as np
import pandas as pd
from timing import timed

BOUND, REPEATS = 1.3, 5
SHAPES = ((20, 100, 0), (1000, 2, 0), (20, 100, 5))


def results(n_methods, n_datasets, n_folds, measures):
    rng = np.random.default_rng(0)
    names = [range(n_datasets), range(n_methods), range(max(n_folds, 1))]
    table = pd.DataFrame(
        [(f"dataset {d}", f"method {m}", f) for d in names[0] for m in names[1] for f in names[2]],
        columns=["dataset", "method", "fold"],
    )
    table[measures] = rng.random((len(table), len(measures)))
    return table if n_folds else table.drop(columns="fold")


def bare(client, experiment_id):
    token, n = None, 0
    while True:
        page = client.search_runs([experiment_id], page_token=token)
        n, token = n + len(page), page.token
        if not token:
            return n


def measured(client, experiment_id, name):
    """Runs, and the best seconds of the bare search, of reading a Study, and of reading and fusing
    it.
    """
    from mlflow_mleval.analysis.fusion import fuse
    from mlflow_mleval.store.query import load_study

    times = []
    for _ in range(REPEATS):
        searched, n_runs = timed(bare, client, experiment_id)
        read, study = timed(load_study, experiment_names=[name])
        fused, _ = timed(fuse, study)
        times.append((searched, read, read + fused))
    tracemalloc.start()
    fuse(load_study(experiment_names=[name]))
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return n_runs, *np.min(times, axis=0), peak


def main():
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.chdir(tempfile.mkdtemp())
    os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///mlflow.db"
    from mlflow import MlflowClient

    from mlflow_mleval.measures.registry import MEASURES
    from mlflow_mleval.store.importing import import_results

    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    measures = [m.name for m in MEASURES.values() if m.family != "cost"][:20]
    missed = False
    print(
        f"{'methods x datasets x folds':28} {'runs':>6} {'search':>8} {'read':>8} {'+ fuse':>8} "
        f"{'ratio':>6} {'peak':>8}"
    )
    for n_methods, n_datasets, n_folds in SHAPES:
        n_datasets = max(n_datasets * wanted // 2_000, 1)
        name = f"{n_methods} x {n_datasets} x {n_folds or 'none'}"
        report = import_results(
            results(n_methods, n_datasets, n_folds, measures),
            experiment_name=name,
            conventions="sklearn",
        )
        n_runs, search, read, rank, peak = measured(MlflowClient(), report.experiment_id, name)
        verdict = "ok" if rank <= BOUND * search else "MISSED"
        missed |= verdict == "MISSED"
        times = f"{search:7.2f}s {read:7.2f}s {rank:7.2f}s {rank / search:6.2f}"
        print(f"{name:28} {n_runs:6} {times} {peak:5.0f} MB  {verdict} (bound {BOUND})", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
