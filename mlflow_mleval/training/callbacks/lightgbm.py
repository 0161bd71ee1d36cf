"""A callback for LightGBM: `lightgbm.train` and the classifiers of its interface for
scikit-learn.
"""

from __future__ import annotations

from typing import Any

from lightgbm import Booster
from lightgbm.callback import CallbackEnv

from mlflow_mleval.training.callbacks.epochs import EpochLog


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
        Of `mlflow_mleval.training.callbacks.epochs.EpochLog`: method, dataset, run_id, measures,
        best_by, every, ...

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
        self.epochs.attempt("nothing of this training is logged", lambda: self._watch(env))
        if self._booster is not None:
            self._round = env.iteration
            self.epochs.epoch(env.iteration, self._predict)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any
    ) -> None:
        self._inside = False
        if error is None:
            best = getattr(self._booster, "best_iteration", 0)
            self.epochs.end(self._predict, best - 1 if best > 0 else self._round)
        self._booster = None

    def _watch(self, env: CallbackEnv) -> None:
        if not self._inside:
            raise ValueError(
                "LightGBM does not tell its callbacks when it ends. Train in a block: with "
                "callback: ..."
            )
        if not isinstance(env.model, Booster):
            raise TypeError(
                "lightgbm.cv trains a model for each fold. Use lightgbm.train, or "
                "mleval.cross_validate."
            )
        self._booster = env.model

    def _predict(self) -> tuple[Any, Any]:
        if self._booster is None:
            raise ValueError(
                "Nothing was trained with this callback. Pass it on: callbacks=[callback]."
            )
        return self.y, self._booster.predict(self.X)
