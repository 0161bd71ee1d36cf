"""What the values of one method by fold say together: means with intervals, covariance,
correlation.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.folds.mardia import MardiaResult, mardia
from mlflow_mleval.analysis.paired import mean_intervals
from mlflow_mleval.validation import probability

#: Measures whose joint distribution is tested: with more of them, or with each other's harmonic
#: mean, few folds tell nothing.
_PAIRS = (
    ("micro_precision", "micro_recall"),
    ("h_precision", "h_recall"),
    ("lca_precision", "lca_recall"),
)


@dataclass(frozen=True)
class FoldStatistics:
    """Several measures of one method over R folds.

    Attributes
    ----------
    table : One row a measure: ``mean``, ``std`` (R - 1 in the denominator), ``low`` and ``high`` of the interval of the mean, and
        ``corrected_low`` and ``corrected_high``, which allow for training data that the folds
        share; ``low`` and ``high`` do not, and are too narrow for cross-validation.
    covariance, correlation : Of the measures over folds; the correlation is NaN where a measure is constant.
    n_folds : R.
    confidence : Of the intervals.
    test_to_train : Ratio of the sizes of test and training part that the corrected intervals use.
    left_out : Measures without a value in some fold.
    warnings : What a reader of the intervals must know.
    mardia : Test of multivariate normality of two measures, as many as a few folds can bear; its warnings say how little that
        tells.
    no_mardia : Why there is none.
    """  # noqa: E501

    table: pd.DataFrame
    covariance: pd.DataFrame
    correlation: pd.DataFrame
    n_folds: int
    confidence: float
    test_to_train: float
    left_out: tuple[str, ...]
    warnings: tuple[str, ...]
    mardia: MardiaResult | None
    no_mardia: str

    def to_dict(self) -> dict[str, Any]:
        """The same in lists and numbers for JSON; None where a number is not defined."""
        measures = list(self.table.index)
        return {
            "n_folds": self.n_folds,
            "confidence": self.confidence,
            "test_to_train": self.test_to_train,
            "measures": measures,
            **{name: _list(self.table[name]) for name in self.table},
            "covariance": [_list(row) for row in self.covariance.to_numpy()],
            "correlation": [_list(row) for row in self.correlation.to_numpy()],
            "left_out": list(self.left_out),
            "warnings": list(self.warnings),
            "mardia": {"not_made": self.no_mardia}
            if self.mardia is None
            else _plain(asdict(self.mardia)),
        }


def fold_statistics(
    folds: pd.DataFrame, *, test_to_train: float | None = None, confidence: float = 0.95
) -> FoldStatistics:
    """Mean vector, covariance, correlation and intervals of the measures of one method over folds
    (R x measures, R >= 2).

    The intervals are those of Student's t with R - 1 degrees of freedom. The corrected ones
    multiply the variance of the mean by 1 + R * test_to_train (Nadeau & Bengio 2003), because
    training parts overlap; by default that is 1 / (R - 1), which is right for one R-fold
    cross-validation.
    """
    probability(confidence, "confidence")
    n = len(folds)
    if n < 2:
        raise ValueError(
            f"`folds` must have at least two rows, got {n}. One fold tells nothing about others."
        )
    warnings = []
    if test_to_train is None:
        test_to_train = 1 / (n - 1)
        warnings.append(
            f"the intervals take the folds for one {n}-fold cross-validation, for the sizes of "
            "their training parts are not known"
        )
    if not (np.isfinite(test_to_train) and test_to_train > 0):
        raise ValueError(f"`test_to_train` must be positive and finite, got {test_to_train!r}.")
    whole = folds.loc[:, folds.notna().all()].astype(float)
    left_out = tuple(str(m) for m in folds.columns if m not in whole)
    table = mean_intervals(whole, 1 - confidence)
    table.insert(1, "std", whole.std())
    table[["corrected_low", "corrected_high"]] = mean_intervals(
        whole, 1 - confidence, test_to_train
    )[["low", "high"]]
    varying = table["std"] > 0
    correlation = whole.corr().where(np.outer(varying, varying))
    return FoldStatistics(
        table,
        whole.cov(),
        correlation,
        n,
        confidence,
        float(test_to_train),
        left_out,
        tuple(warnings),
        *_mardia(whole),
    )


def _mardia(folds: pd.DataFrame) -> tuple[MardiaResult | None, str]:
    """Mardia's test of the first pair of measures that the folds have, or why it was not made."""
    pair = next((list(pair) for pair in _PAIRS if set(pair) <= set(folds)), list(folds.columns[:2]))
    try:
        return mardia(folds[pair].to_numpy(), measures=pair), ""
    except ValueError as error:
        return None, str(error)


def _plain(value: Any) -> Any:
    """Numbers that JSON lacks as None, tuples as lists."""
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (float, np.floating)):
        return _list([value])[0]
    return int(value) if isinstance(value, np.integer) else value


def _list(values: Any) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]
