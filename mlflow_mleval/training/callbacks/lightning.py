"""A callback for Lightning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from torch.utils.data import DistributedSampler

from mlflow_mleval.evaluation import Evaluation, merge
from mlflow_mleval.training.callbacks import EpochLog, Scored
from mlflow_mleval.training.delivery import same_randomness
from mlflow_mleval.validation import from_tensor


class LightningCallback(Callback):
    """Log measures and a loss profile for each epoch that is validated, and a full evaluation at
    the end.

    Truth and scores come from what ``validation_step`` returns: a dict with ``y_true`` and
    ``y_score``, each of shape (B, K) for a batch of B instances, beside whatever else it holds.
    Where it returns something else, `extract` finds them. The batches of the last validation of an
    epoch count; the sanity check before training does not. The evaluation at the end is of the last
    validation, unless `best_by` is given.

    Of several processes, each evaluates its part of the validation data, without the instances that
    the sampler repeats to make the parts equally long; the first process adds the parts up and logs
    them as one process would, but for rounding. The run must be active in the first process, or be
    named: where the strategy spawns or forks processes, pass `run_id`.

    Parameters
    ----------
    extract : callable, optional
        ``(outputs, batch) -> (y_true, y_score)``, tensors or arrays of shape (B, K), from what
        ``validation_step`` returned. Of one label of C classes, (B,) and (B, C).
    dataloader : int
        Which of several validation dataloaders is evaluated.
    **options
        Of `mlflow_mleval.training.callbacks.EpochLog`: method, dataset, run_id, measures,
        best_by, ... A run of Lightning's ``MLFlowLogger`` is not active: pass
        ``run_id=logger.run_id``.

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
    """  # noqa: E501

    def __init__(
        self,
        *,
        extract: Callable[[Any, Any], Scored] | None = None,
        dataloader: int = 0,
        **options: Any,
    ) -> None:
        self.extract = extract or _from_dict
        self.dataloader = dataloader
        self.epochs = EpochLog(**options)
        self._clear()

    def _clear(self) -> None:
        self._batches: list[Scored] = []
        self._latest: Scored | Evaluation | None = None
        self._trouble: Exception | None = None
        self._epoch: int | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._clear()
        if trainer.is_global_zero:
            self.epochs.begin()

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._batches, self._trouble = [], None

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        counts = dataloader_idx == self.dataloader and not trainer.sanity_checking
        if counts and trainer.state.fn == TrainerFn.FITTING and self._trouble is None:
            try:
                truth, scores = map(from_tensor, self.extract(outputs, batch))
                self._batches.append((truth, scores))
            except Exception as error:
                self._trouble = error

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking:
            return
        if trainer.world_size > 1:
            self._latest = self._together(trainer) or self._latest
        elif self._batches and self._trouble is None:
            truth, scores = map(np.concatenate, zip(*self._batches, strict=True))
            self._latest = truth, scores
        if self._trouble is not None:
            self.epochs.fail("nothing of this training is logged", self._trouble)
        self._batches, self._epoch = [], trainer.current_epoch

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        epoch = trainer.current_epoch
        if trainer.is_global_zero and self._epoch == epoch:
            self.epochs.epoch(epoch, self._predict)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            self.epochs.end(self._predict, self._epoch)
        self._clear()

    def _together(self, trainer: Trainer) -> Evaluation | None:
        """The evaluation of all processes' parts. Each takes part in it whatever has gone wrong, or
        the others would wait."""
        part: Any = None
        try:
            if self._trouble is not None:
                raise self._trouble
            own = _own_rows(trainer, self.dataloader)
            if self._batches and own:
                with same_randomness():
                    truth, scores = map(np.concatenate, zip(*self._batches, strict=True))
                    part = self.epochs.evaluate(truth[:own], scores[:own])
        except Exception as error:
            part = f"{type(error).__name__}: {error}"
        parts: list[Any] = [None] * trainer.world_size
        torch.distributed.all_gather_object(parts, part)
        failures = [result for result in parts if isinstance(result, str)]
        self._trouble = ValueError(failures[0]) if failures and trainer.is_global_zero else None
        evaluated = [result for result in parts if result is not None]
        return merge(evaluated) if evaluated and not failures else None

    def _predict(self) -> Scored | Evaluation:
        if self._latest is None:
            raise ValueError(
                "There was no validation. Pass validation data to the trainer, and implement "
                "validation_step."
            )
        return self._latest


def _from_dict(outputs: Any, batch: Any) -> Scored:
    if not isinstance(outputs, dict) or not {"y_true", "y_score"} <= outputs.keys():
        is_dict = isinstance(outputs, dict)
        got = f"a dict with {list(outputs)}" if is_dict else type(outputs).__name__
        raise ValueError(
            f"validation_step must return a dict with y_true and y_score, got {got}. Or pass "
            "`extract`."
        )
    return outputs["y_true"], outputs["y_score"]


def _own_rows(trainer: Trainer, which: int) -> int:
    """How many of this process's instances are its own; those behind them are repeated to make all
    parts equally long."""
    loaders: Any = trainer.val_dataloaders
    if not hasattr(loaders, "sampler"):
        loaders = list(loaders.values() if isinstance(loaders, dict) else loaders)[which]
    sampler: Any = getattr(loaders, "sampler", None)
    if not isinstance(sampler, DistributedSampler):
        raise ValueError(
            f"{trainer.world_size} processes validate, and no DistributedSampler tells which "
            f"instances each has: got {type(sampler).__name__}. Leave "
            "use_distributed_sampler=True, or evaluate afterwards: mleval.evaluate."
        )
    data: Any = sampler.dataset
    return min(sampler.num_samples, -(-(len(data) - sampler.rank) // sampler.num_replicas))
