"""For LightGBM and CatBoost, which tell no callback when they end: what a ``with`` block trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mlflow_mleval.training.callbacks import EpochLog, Scored

if TYPE_CHECKING:
    from catboost import CatBoost
    from lightgbm import Booster
    from lightgbm.callback import CallbackEnv


class LightGBMCallback:
    """Log measures for each boosting round, and a full evaluation at the end of the ``with`` block.

    LightGBM predicts one label of two or more classes. It does not tell its callbacks that early
    stopping ends a training: the block does. The model at its end is then that of the best
    iteration; if it stops by the data that are evaluated here, the values are somewhat optimistic.
    `lightgbm.cv` is not supported: it trains a model a fold.

    Parameters
    ----------
    X : N validation instances
        As ``Booster.predict`` takes them.
    y : vector of N classes
        Classes that do not all occur here need ``label_names``: all of them, as the model sorts
        them.
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

        with mlflow.start_run(), LightGBMCallback(X_val, y_val, method="LightGBM", dataset="digits") as callback:
            lightgbm.LGBMClassifier().fit(X, y, callbacks=[callback])
    """  # noqa: E501

    def __init__(self, X: Any, y: Any, **options: Any) -> None:
        self.X, self.y = X, y
        self.epochs = EpochLog(**options)
        self.order = 20  # before early stopping, which lets nobody speak after it
        self._booster: Booster | None = None
        self._round: int | None = None
        self._inside = False

    def __enter__(self) -> LightGBMCallback:
        self._booster, self._inside = None, True
        self.epochs.begin()
        return self

    def __call__(self, env: CallbackEnv) -> None:
        with self.epochs.attempt("nothing of this training is logged"):
            if not self._inside:
                raise ValueError(
                    "LightGBM does not tell its callbacks when it ends. Train in a block: with "
                    "callback: ..."
                )
            from lightgbm import Booster

            if not isinstance(env.model, Booster):
                raise TypeError(
                    "lightgbm.cv trains a model for each fold. Use lightgbm.train, or "
                    "mleval.cross_validate."
                )
            self._booster = env.model
        if self._booster is not None:
            self._round = env.iteration
            self.epochs.epoch(env.iteration, self._predict)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._inside = False
        if error is None:
            best = getattr(self._booster, "best_iteration", 0)
            self.epochs.end(self._predict, best - 1 if best > 0 else self._round)
        self._booster = None

    def _predict(self) -> Scored:
        if self._booster is None:
            raise ValueError(
                "Nothing was trained with this callback. Pass it on: callbacks=[callback]."
            )
        return self.y, self._booster.predict(self.X)


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
        Of `mlflow_mleval.training.callbacks.EpochLog`: method, dataset, run_id, measures,
        best_by, ...

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

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None:
            with self.epochs.attempt("nothing of this training is logged"):
                if not self.model.is_fitted():
                    raise ValueError("The model was not trained. Call model.fit in the block.")
                if np.ndim(self.Y) == 1:
                    self.epochs.name_labels(self.model.classes_.tolist())
            if self.epochs.failure is None:
                with self.epochs.attempt("the rounds of this training are not logged"):
                    stages = self.model.staged_predict(self.X, prediction_type="Probability")
                    for i, scores in enumerate(stages):
                        self._round, self._scores = i, scores
                        self.epochs.epoch(i, lambda: (self.Y, self._scores))
            self.epochs.end(lambda: (self.Y, self._scores), self._round)
        self._scores = None
