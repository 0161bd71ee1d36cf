"""A callback for Lightning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn

from mlflow_mleval.training.callbacks.epochs import EpochLog


class LightningCallback(Callback):
    """Log measures and a loss profile for each epoch that is validated, and a full evaluation at the end.

    Truth and scores come from what ``validation_step`` returns: a dict with ``y_true`` and ``y_score``, each of shape (B, K)
    for a batch of B instances, beside whatever else it holds. Where it returns something else, `extract` finds them. The
    batches of the last validation of an epoch count; the sanity check before training does not. The evaluation at the end is of
    the last validation, unless `best_by` is given.

    Parameters
    ----------
    extract : callable, optional
        ``(outputs, batch) -> (y_true, y_score)``, tensors or arrays of shape (B, K), from what ``validation_step`` returned.
    dataloader : int
        Which of several validation dataloaders is evaluated.
    **options
        Of `mlflow_mleval.training.callbacks.epochs.EpochLog`: method, dataset, run_id, measures, best_by, every, ... A run of
        Lightning's ``MLFlowLogger`` is not active: pass ``run_id=logger.run_id``.

    Attributes
    ----------
    epochs : EpochLog
        Its ``evaluation`` is the one at the end.

    Examples
    --------
    ::

        def validation_step(self, batch, batch_idx):
            x, y = batch
            return {"y_true": y, "y_score": torch.sigmoid(self(x))}

        with mlflow.start_run():
            Trainer(callbacks=[LightningCallback(method="MLP", dataset="yeast")]).fit(model, train, validation)
    """

    def __init__(
        self, *, extract: Callable[[Any, Any], tuple[Any, Any]] | None = None, dataloader: int = 0, **options: Any
    ) -> None:
        self.extract = extract or _from_dict
        self.dataloader = dataloader
        self.epochs = EpochLog(**options)
        self._clear()

    def _clear(self) -> None:
        self._batches: list[tuple[Any, Any]] = []
        self._latest: tuple[Any, Any] | None = None
        self._epoch: int | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._clear()
        self.epochs.begin()
        self.epochs.attempt("nothing of this training is logged", lambda: _one_process(trainer))

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._batches = []

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if dataloader_idx == self.dataloader and _counts(trainer):
            self.epochs.attempt("nothing of this training is logged", lambda: self._collect(outputs, batch))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._batches:
            self.epochs.attempt("nothing of this training is logged", self._join)
            self._epoch = trainer.current_epoch

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._epoch == trainer.current_epoch:
            self.epochs.epoch(self._epoch, self._predict)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.epochs.end(self._predict, self._epoch)
        self._clear()

    def _collect(self, outputs: Any, batch: Any) -> None:
        self._batches.append(tuple(map(_array, self.extract(outputs, batch))))

    def _join(self) -> None:
        self._latest = tuple(np.concatenate(parts) for parts in zip(*self._batches, strict=True))
        self._batches = []

    def _predict(self) -> tuple[Any, Any]:
        if self._latest is None:
            raise ValueError("There was no validation. Pass validation data to the trainer, and implement validation_step.")
        return self._latest


def _from_dict(outputs: Any, batch: Any) -> tuple[Any, Any]:
    if not isinstance(outputs, dict) or not {"y_true", "y_score"} <= outputs.keys():
        got = f"a dict with {list(outputs)}" if isinstance(outputs, dict) else type(outputs).__name__
        raise ValueError(f"validation_step must return a dict with y_true and y_score, got {got}. Or pass `extract`.")
    return outputs["y_true"], outputs["y_score"]


def _array(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    value = value.detach().cpu()
    return (value.float() if value.is_floating_point() else value).numpy()


def _counts(trainer: Trainer) -> bool:
    return trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking


def _one_process(trainer: Trainer) -> None:
    if trainer.world_size > 1:
        raise NotImplementedError(
            f"{trainer.world_size} processes validate parts of the data, some instances twice. Train with one device, or "
            "evaluate afterwards: mleval.evaluate and mleval.log_evaluation."
        )
