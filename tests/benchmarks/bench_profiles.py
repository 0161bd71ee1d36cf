"""Loss profiles across runs: how long curves, awareness, ratios and a whole report's comparison
take.

python tests/benchmarks/bench_profiles.py
"""

from __future__ import annotations

import numpy as np
from timing import best, peak

from mlflow_mleval.analysis.loss_profiles import Profiles, compare_profiles
from mlflow_mleval.store import schema


def profiles(
    n_methods: int, n_labels: int, n_datasets: int = 1, n_folds: int = 10, n: int = 200
) -> Profiles:
    rng = np.random.default_rng(0)
    wrong = rng.binomial(n_labels, rng.beta(1, 8, size=(n_datasets, n_methods, n_folds, n)))
    counts = {
        (f"d{d}", f"m{m}"): [np.bincount(row, minlength=n_labels + 1) for row in wrong[d, m]]
        for d in range(n_datasets)
        for m in range(n_methods)
    }
    return Profiles.from_counts(counts)


def show(what: str, call) -> None:
    print(f"{what:66} {best(call, repeats=3)[0] * 1e3:8.0f} ms {peak(call):8.0f} MB")


def main() -> None:
    many = profiles(500, 100)
    show("500 methods x 10 folds x K=100: losses at every k", lambda: many.losses("d0"))
    show("the same: awareness", lambda: many.awareness())
    show(
        "the same: curves with bands, awareness, top 2",
        lambda: compare_profiles(many, top=2),
    )
    fifty = profiles(50, 100)
    show(
        "50 methods x 10 folds x K=100: 1,225 ratio curves and all tests",
        lambda: compare_profiles(fifty),
    )
    study = profiles(12, 14, n_datasets=10)
    show("12 methods x 10 datasets x K=14: everything", lambda: compare_profiles(study))
    counts = np.random.default_rng(0).binomial(174, 0.05, size=(10, 500))
    rows = [np.bincount(row, minlength=175) for row in counts]
    text = schema.encode_profile(rows, range(10))
    show(
        f"a tag of 10 folds x K=174 ({len(text)} characters): write",
        lambda: schema.encode_profile(rows, range(10)),
    )
    show("the same: read", lambda: schema.decode_profile(text))


if __name__ == "__main__":
    main()
