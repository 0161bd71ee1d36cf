"""The tests by themselves: tables in, results out, as in scipy.stats."""

from __future__ import annotations

from typing import Any

import mlflow_mleval

NAMES = (
    "bayesian_signed_rank", "bayesian_t", "bonferroni_dunn", "bootstrap_ranks", "equivalence", "five_by_two", "friedman",
    "hotelling", "hotelling_pairs", "instance_tests", "manova", "mardia", "nemenyi", "plan", "rank_confidence", "sign_test",
    "skillings_mack", "wilcoxon_pairs",
)  # fmt: skip
__all__ = list(NAMES)


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(NAMES)}")
    return getattr(mlflow_mleval, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})
