"""Profiles of made-up methods: independent errors, gathered errors, and something between."""

from functools import cache

import numpy as np
import pandas as pd
from report_cases import NASTY
from scipy import stats

from mlflow_mleval.analysis.comparison import Comparison, compare
from mlflow_mleval.analysis.loss_profiles import ProfileComparison, Profiles, compare_profiles
from mlflow_mleval.study import Study

#: Share of instances that are touched at all, and the chance that a label of those is wrong.
BEHAVIOUR = {"BR": (1.0, 0.13), "LP": (0.4, 0.4), "CC": (0.75, 0.2)}


def histogram(
    touched: float, wrong: float, n_labels: int, n: int, rng: np.random.Generator
) -> np.ndarray:
    """How many of `n` instances have 0, 1, …, K wrong labels."""
    share = touched * stats.binom.pmf(np.arange(n_labels + 1), n_labels, wrong)
    share[0] += 1 - touched
    return rng.multinomial(n, share / share.sum())


def profiles(
    datasets: dict[str, int],
    behaviour: dict[str, tuple[float, float]] = BEHAVIOUR,
    n_folds: int = 10,
    n: int = 200,
    seed: int = 0,
) -> Profiles:
    """`datasets` names the number of labels of each; one row a fold, all folds the same split."""
    rng = np.random.default_rng(seed)
    counts = {
        (d, m): np.array([histogram(*how, k, n, rng) for _ in range(n_folds)])
        for d, k in datasets.items()
        for m, how in behaviour.items()
    }
    counts = {pair: rows[0] if n_folds == 1 else rows for pair, rows in counts.items()}
    known = {"split_digest": "same", "n_train": 9 * n, "n_test": n}
    runs = pd.DataFrame(
        [{"dataset": d, "method": m, "run_id": f"{d}/{m}", **known} for d, m in counts]
    )
    return Profiles.from_counts(counts, runs=runs)


@cache
def whole() -> Comparison:
    """Methods compared by two measures and by their profiles."""
    found = profiles({"yeast": 14, "scene": 6, "flags": 7})
    ends = found.awareness()
    values = pd.DataFrame({"hamming_loss": ends["hamming"], "f1": 1 - ends["subset"]})
    return compare(
        Study(values, {"hamming_loss": "min", "f1": "max"}, runs=found.runs), profiles=found
    )


@cache
def compared(
    datasets: tuple[tuple[str, int], ...] = (("yeast", 14), ("scene", 6), ("flags", 7)), **options
) -> ProfileComparison:
    """Three methods compared on these datasets."""
    return compare_profiles(profiles(dict(datasets)), **options)


@cache
def hostile():
    """Names of strangers, and the comparison of methods that are called so."""
    names = [*NASTY[:5], "<script>alert(1)</script>", "\u202egnp.exe", "x" * 200]
    behaviour = {name: (1 - 0.08 * i, 0.12 + 0.03 * i) for i, name in enumerate(names)}
    datasets = {NASTY[0]: 5, "<script>alert(2)</script>": 4}
    return names, compare_profiles(profiles(datasets, behaviour, n=60))
