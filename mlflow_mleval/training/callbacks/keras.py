"""A callback for Keras 3, on any of its backends."""

from __future__ import annotations

from typing import Any

import keras

from mlflow_mleval.training.callbacks import EpochLog, Scored


class KerasCallback(keras.callbacks.Callback):
    """Log measures and a loss profile for each epoch of ``Model.fit``, and a full evaluation at the
    end.

    The model needs one output with K units. With sigmoid activation there are soft profiles; a
    model that returns logits needs ``threshold=0.0`` and has hard ones. `EarlyStopping` that
    restores the best weights does so when training ends: put this callback behind it in the list,
    and the evaluation is of the restored model.

    Parameters
    ----------
    x : N validation instances
        As ``Model.predict`` takes them, in the order of `y`.
    y : array, pandas.DataFrame or scipy.sparse of 0 and 1, shape (N, K), or vector of N classes
    batch_size : int, optional
        For ``Model.predict``.
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

        with mlflow.start_run():
            model.fit(x, y, epochs=20, callbacks=[KerasCallback(x_val, y_val, method="MLP", dataset="yeast")])
    """  # noqa: E501

    def __init__(self, x: Any, y: Any, *, batch_size: int | None = None, **options: Any) -> None:
        super().__init__()
        self.x, self.y, self.batch_size = x, y, batch_size
        self.epochs = EpochLog(**options)

    def on_train_begin(self, logs: Any = None) -> None:
        self.epochs.begin()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs.epoch(epoch, self._predict)

    def on_train_end(self, logs: Any = None) -> None:
        self.epochs.end(self._predict)

    def _predict(self) -> Scored:
        return self.y, self.model.predict(self.x, batch_size=self.batch_size, verbose=0)
