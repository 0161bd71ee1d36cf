"""A callback for the Trainer of Hugging Face's transformers, and its ``compute_metrics``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy.special import expit, softmax
from transformers import (
    EvalPrediction,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from mlflow_mleval.evaluation import Evaluation, merge
from mlflow_mleval.training.callbacks import EpochLog, Scored
from mlflow_mleval.training.run_content import chosen
from mlflow_mleval.validation import from_tensor


class HuggingFaceCallback(TrainerCallback):
    """Log measures and a loss profile for each evaluation while training, and a full evaluation at
    the end.

    One object is both ``compute_metrics`` and a callback. As the former it gives the measures of
    each epoch to the Trainer, so that ``metric_for_best_model="micro_f1"`` works. With
    ``batch_eval_metrics=True``, a batch at a time is in memory, and the measures are the same
    but for rounding. The evaluation at the end is of the last evaluation while training; with
    ``load_best_model_at_end`` it is of the best one, and said to be chosen by these very data.

    The step of what is logged is the epoch, counted from 0; with ``eval_strategy="steps"`` it is
    the optimiser's step.

    Parameters
    ----------
    extract : callable, optional
        ``(predictions, label_ids) -> (y_true, y_score)``, tensors or arrays, from what the model
        returned for a batch or for all instances. By default the first output holds logits, which
        become probabilities: by the sigmoid where an instance has a row of labels or one logit, by
        the softmax where it has one class of several.
    prefix : str
        Which evaluation counts: of several validation sets, ``"eval_NAME"``.
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

        watch = HuggingFaceCallback(method="BERT", dataset="reuters")
        with mlflow.start_run():
            Trainer(model, arguments, compute_metrics=watch, callbacks=[watch], ...).train()
    """

    def __init__(
        self,
        *,
        extract: Callable[[Any, Any], Scored] | None = None,
        prefix: str = "eval",
        **options: Any,
    ) -> None:
        self.extract = extract or _from_logits
        self.prefix = prefix
        self.epochs = EpochLog(**options)
        self._training = False
        self._clear()

    def _clear(self) -> None:
        self._part: Evaluation | None = None
        self._latest: Evaluation | None = None
        #: By the optimiser's step, those of which one may be loaded in the end.
        self._by_step: dict[int, tuple[int, Evaluation]] = {}

    def __call__(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        """The measures of all instances, or, in batches, of those since the last result."""
        with self.epochs.attempt("nothing of this training is logged"):
            truth, scores = self.extract(prediction.predictions, prediction.label_ids)
            part = self.epochs.evaluate(from_tensor(truth), from_tensor(scores))
            self._part = part if self._part is None else merge([self._part, part])
        if not compute_result or self._part is None:
            return {}
        self._latest, self._part = self._part, None
        wanted = self.epochs.measures and {*self.epochs.measures, self.epochs.best_by or ""}
        return chosen(self._latest, wanted)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._clear()
        self._training = state.is_world_process_zero
        if self._training:
            self.epochs.begin()

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        if self._training and self._latest is not None and f"{self.prefix}_runtime" in metrics:
            step = round(state.epoch) - 1 if args.eval_strategy == "epoch" else state.global_step
            if not args.load_best_model_at_end:
                self._by_step.clear()
            latest = self._latest
            self._by_step[state.global_step] = step, latest
            self.epochs.epoch(step, lambda: latest)
        self._latest = None

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self._training:
            best = state.best_global_step if args.load_best_model_at_end else None
            is_chosen = best is not None and best in self._by_step
            at = best if is_chosen else max(self._by_step, default=None)
            step, last = (None, None) if at is None else self._by_step[at]
            among = len(self._by_step) if is_chosen else None
            self.epochs.end(lambda: _given(last, self.prefix), step, among=among)
            self._training = False
        self._clear()


def _from_logits(predictions: Any, label_ids: Any) -> Scored:
    truth, logits = (
        from_tensor(v[0] if isinstance(v, tuple) else v) for v in (label_ids, predictions)
    )
    logits = logits.astype(float)
    # a single logit is that of the second of two classes
    by_sigmoid = truth.ndim == 2 or logits.shape[1] == 1
    return truth, expit(logits) if by_sigmoid else softmax(logits, axis=1)


def _given(ev: Evaluation | None, prefix: str) -> Evaluation:
    if ev is None:
        raise ValueError(
            f"There was no evaluation with the prefix {prefix!r}. Pass the callback as "
            "`compute_metrics` as well, and an `eval_dataset` and an `eval_strategy` to the "
            "trainer; of several validation sets, name one: prefix='eval_NAME'."
        )
    return ev
