"""A callback for XGBoost: `train` with several labels, `XGBClassifier` with a matrix of labels."""

from __future__ import annotations

from typing import Any

import xgboost

from mlflow_mleval.training.callbacks import EpochLog, Scored


class XGBoostCallback(xgboost.callback.TrainingCallback):
    """Log measures and a loss profile for each boosting round, and a full evaluation at the end.

    With early stopping, the model at the end is that of the best iteration, as in
    ``XGBClassifier.predict``. If it stops by the data that are evaluated here, the values are
    somewhat optimistic. `xgboost.cv` is not supported: it trains a model a fold.

    Parameters
    ----------
    X : array, DataFrame, scipy.sparse or xgboost.DMatrix of N validation instances
        An array becomes a ``DMatrix`` with its default options.
    Y : array, pandas.DataFrame or scipy.sparse of 0 and 1, shape (N, K), or vector of N classes
    **options
        Of `mlflow_mleval.training.callbacks.EpochLog`: method, dataset, run_id, measures,
        best_by, ...

    Attributes
    ----------
    epochs : EpochLog
        Its ``evaluation`` is the one at the end.

    Examples
    --------
    ::

        callback = XGBoostCallback(X_val, Y_val, method="XGBoost", dataset="yeast")
        with mlflow.start_run():
            xgboost.XGBClassifier(callbacks=[callback]).fit(X, Y)
    """

    def __init__(self, X: Any, Y: Any, **options: Any) -> None:
        super().__init__()
        self.X, self.Y = X, Y
        self.epochs = EpochLog(**options)
        self._matrix: xgboost.DMatrix | None = None

    def before_training(self, model: Any) -> Any:
        self.epochs.begin()
        with self.epochs.attempt("nothing of this training is logged"):
            if not isinstance(model, xgboost.Booster):
                raise TypeError(
                    "xgboost.cv trains a model for each fold. Use xgboost.train, or "
                    "mleval.cross_validate."
                )
            own = isinstance(self.X, xgboost.DMatrix)
            self._matrix = self.X if own else xgboost.DMatrix(self.X, enable_categorical=True)
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self.epochs.epoch(epoch, lambda: self._predict(model))
        return False

    def after_training(self, model: Any) -> Any:
        # the iteration that early stopping found
        found = model.attr("best_iteration") if isinstance(model, xgboost.Booster) else None
        best = None if found is None else int(found)
        self.epochs.end(lambda: self._predict(model, best), best)
        # Copies of the callback, as scikit-learn makes them of an estimator's parameters, could not
        # hold it.
        self._matrix = None
        return model

    def _predict(self, model: xgboost.Booster, best: int | None = None) -> Scored:
        rounds = (0, 0 if best is None else best + 1)  # (0, 0) are all
        return self.Y, model.predict(self._matrix, iteration_range=rounds)
