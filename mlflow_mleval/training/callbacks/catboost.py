"""For CatBoost, whose callbacks do not see the model: what a training was like from round to round,
once it has ended.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from catboost import CatBoost

from mlflow_mleval.training.callbacks.epochs import EpochLog


class CatBoostCallback:
    """Log measures and a loss profile for each boosting round, and a full evaluation, at the end of
    the ``with`` block.

    CatBoost tells its callbacks neither what the model predicts nor when it ends. So what is
    trained in the block is not touched, and its rounds are predicted afterwards, each from the one
    before. Several labels (``MultiLogloss``, ``MultiCrossEntropy``) and one label of two or more
    classes are evaluated. A model that was cut to its best iteration is evaluated as it is; if that
    was chosen by the data that are evaluated here, the values are somewhat optimistic.

    Parameters
    ----------
    model : CatBoostClassifier or CatBoost
        The one that the block trains.
    X : N validation instances
        As ``model.predict`` takes them.
    Y : array, pandas.DataFrame or scipy.sparse of 0 and 1, shape (N, K), or vector of N classes
    **options
        Of `mlflow_mleval.training.callbacks.epochs.EpochLog`: method, dataset, run_id, measures,
        best_by, every, ...

    Attributes
    ----------
    epochs : EpochLog
        Its ``evaluation`` is the one at the end.

    Examples
    --------
    ::

        model = CatBoostClassifier(loss_function="MultiLogloss")
        with mlflow.start_run(), CatBoostCallback(model, X_val, Y_val, method="CatBoost", dataset="yeast"):
            model.fit(X, Y)
    """  # noqa: E501

    def __init__(self, model: CatBoost, X: Any, Y: Any, **options: Any) -> None:
        self.model, self.X, self.Y = model, X, Y
        self.epochs = EpochLog(**options)
        self._round: int | None = None
        self._scores: Any = None

    def __enter__(self) -> CatBoostCallback:
        self.epochs.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any
    ) -> None:
        if error is None:
            self.epochs.attempt("nothing of this training is logged", self._prepare)
            self.epochs.attempt("the rounds of this training are not logged", self._log_rounds)
            self.epochs.end(self._predict, self._round)
        self._scores = None

    def _prepare(self) -> None:
        if not self.model.is_fitted():
            raise ValueError("The model was not trained. Call model.fit in the block.")
        if np.ndim(self.Y) == 1:
            self.epochs.name_labels(self.model.classes_.tolist())

    def _log_rounds(self) -> None:
        for i, scores in enumerate(
            self.model.staged_predict(self.X, prediction_type="Probability")
        ):
            self._round, self._scores = i, scores
            self.epochs.epoch(self._round, self._predict)

    def _predict(self) -> tuple[Any, Any]:
        return self.Y, self._scores
