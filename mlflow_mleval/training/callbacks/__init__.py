"""Callbacks that log how a model develops while it is trained: one module a framework, each
imported on first use, and here what all do: measures and a loss profile an epoch as metrics, and a
full evaluation at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np

from mlflow_mleval.evaluation import Evaluation, evaluate
from mlflow_mleval.measures.hierarchical import FAMILIES, OPTIONS, refuse_without
from mlflow_mleval.measures.registry import CONVENTIONS, MEASURES, known_measures, one_measure
from mlflow_mleval.store import runs, schema
from mlflow_mleval.training.delivery import Delivery, harmless, warn
from mlflow_mleval.training.estimators import as_matrix, column
from mlflow_mleval.training.log_evaluation import LogOptions, payload_of
from mlflow_mleval.training.run_content import EpochMetrics, say
from mlflow_mleval.validation import one_of, present, refuse_keywords

#: The options of `evaluate` that need no hierarchy.
_FLAT = {"label_names": None, "conventions": "sklearn", "threshold": 0.5, "sample_weight": None}
#: Epochs that are faster than this share a request.
_SECONDS = 1.0

#: Truth and scores.
Scored: TypeAlias = tuple[Any, Any]
Predict = Callable[[], Evaluation | Scored]


class EpochLog:
    """What a callback tells of one training, epoch by epoch; never an error for the training.

    For each epoch the run gets ``mleval.epoch/<measure>`` and, at no more than ten parameters k
    from 1 to K, the binomial loss profile of the label sets as ``mleval.epoch.profile/k<k>`` and of
    the scores as ``mleval.epoch.soft_profile/k<k>``, with the epoch as step. At the end it gets the
    full evaluation of the validation data, as by `log_evaluation`. What goes wrong is one warning;
    the training goes on, with the random state it would have.

    Parameters
    ----------
    method, dataset : str
        What the evaluation at the end is called, as in `log_evaluation`.
    run_id : str, optional
        The run to log into; by default the one that is active when training begins. No run is
        started.
    measures : iterable of str, optional
        Measures or sets of measures to log for each epoch; by default those of `EPOCH_MEASURES`
        that the scores allow.
    best_by : str, optional
        Evaluate the epoch that is best by this measure, instead of the model as training leaves it.
        The values are optimistic then, for they are the best of many on these very data; the tag
        ``mleval.selected_among`` tells of how many.
    label_names, hierarchy, conventions, threshold, sample_weight, **hierarchy_options
        As in `evaluate`; weights are those of the validation data in their order, which must be
        evaluated at once and not in parts. Hierarchical measures are computed for each epoch only
        where `measures` or `best_by` name them.
    """

    def __init__(
        self,
        *,
        method: str,
        dataset: str,
        run_id: str | None = None,
        measures: Iterable[str] | None = None,
        best_by: str | None = None,
        **options: Any,
    ) -> None:
        runs.check(method=method, dataset=dataset)
        refuse_keywords(EpochLog, options, (*_FLAT, "hierarchy", *OPTIONS))
        hierarchy = options.get("hierarchy")
        refuse_without(hierarchy, filter(OPTIONS.__contains__, options))
        one_of(options.get("conventions", "sklearn"), "conventions", CONVENTIONS)
        self.method, self.dataset = method, dataset
        self.measures = None if measures is None else tuple(known_measures(measures, costs=False))
        self.best_by = None if best_by is None else one_measure(best_by, "best_by")
        self.evaluation: Evaluation | None = None  # the one at the end, once training has ended
        self.run_id: str | None = None  # of the run that is logged into
        self._chosen_run = run_id
        chosen = [m for m in (*(self.measures or ()), self.best_by) if m is not None]
        asked = [m for m in chosen if MEASURES[m].asked]
        self._options = _FLAT | options | {"measures": asked or None}
        # an epoch computes what its measures need, and no more
        self._of_epoch = {name: self._options[name] for name in (*_FLAT, "measures")}
        families = {MEASURES[m].family.partition("hierarchical-")[2] for m in chosen} - {""}
        if families and hierarchy is not None:
            kinds = sorted(families & FAMILIES.keys()) or ["set"]
            self._of_epoch = self._options | {"measures": [*kinds, *asked]}
        self.failure: Exception | None = None  # after which nothing more is done
        self._forget()

    def _forget(self) -> None:
        self._count = 0
        self._best: tuple[float, int, Evaluation | Scored] | None = None
        self._metrics: EpochMetrics | None = None
        self._sent = -math.inf

    def begin(self) -> None:
        """Training begins: find the run, and find out now whether it can take the results."""
        self.evaluation = self.run_id = self.failure = None
        self._forget()
        with self.attempt("nothing of this training is logged"):
            run_id = runs.target(self._chosen_run)
            if run_id is None:
                raise ValueError(
                    "No run is active. Train inside `with mlflow.start_run():`, or pass `run_id`."
                )
            delivery = Delivery()
            if runs.holds_result(delivery.ask(lambda: runs.held(run_id), {})):
                raise ValueError(
                    f"Run {run_id} holds a result already, and a run is one method on one dataset. "
                    "Start another."
                )
            self.run_id, self._metrics = run_id, EpochMetrics(run_id)
            say("the store did not answer when the training began", delivery)

    def epoch(self, epoch: int, predict: Predict) -> None:
        """An epoch, counted from 0, has ended; `predict`, which is only called where something is
        logged, gives the truth and the scores of the validation data, or their Evaluation."""
        if self.failure is not None:
            return
        with self.attempt(f"epoch {epoch} and later ones are not logged"):
            predicted = predict()
            ev = _evaluated(predicted, instances=False, **self._of_epoch)
            if by := self.best_by:
                if by not in ev.measures:
                    why = f"{by} cannot be computed: {ev.absent[by]}"
                    raise ValueError(f"{why}. Choose another `best_by`.")
                value = ev.measures[by] * MEASURES[by].sign
                if self._best is None or value > self._best[0]:
                    self._best = value, epoch, predicted
            absent = [m for m in self.measures or () if m not in ev.measures]
            if absent and not self._count:
                reasons = "; ".join(f"{m}: {ev.absent[m]}" for m in absent)
                warn(
                    f"mleval: {len(absent)} of the measures chosen for each epoch cannot be "
                    f"computed ({reasons})."
                )
            self._count += 1
            metrics = present(self._metrics)
            metrics.add(ev, epoch, self.measures)
            if time.monotonic() - self._sent >= _SECONDS:
                metrics.send()
                self._sent = time.monotonic()

    def end(self, predict: Predict, epoch: int | None = None, *, among: int | None = None) -> None:
        """Training has ended with the model of this epoch, which it may have chosen, by these very
        data, among so many."""
        if self.failure is not None:
            return
        with self.attempt("the evaluation at the end was not logged"):
            if self._best is None:
                predicted = predict()
            else:
                (_, epoch, predicted), among = self._best, self._count
            self.evaluation = _evaluated(predicted, **self._options)
            tags = {} if epoch is None else {schema.TAG_EPOCH: str(epoch)}
            options = LogOptions(selected_among=among, tags=tags)
            history = present(self._metrics).pending
            names = self.method, self.dataset
            payload = payload_of(self.evaluation, *names, options, history=history)
            # A store that was away for an epoch may be back, and the result of the whole training
            # is worth a try.
            what, again = "the evaluation at the end", Delivery(now=True)
            if warning := again.send(what, payload, self.run_id, None):
                warn(f"mleval: {warning}")
            self._forget()

    def attempt(self, what: str) -> AbstractContextManager[None]:
        """What fails in the block is said, and the random state stays."""
        return harmless(what, self.fail)

    def fail(self, what: str, error: Exception) -> None:
        """Something has failed: the first time it is said, and nothing more is logged."""
        if self.failure is None:
            self.failure = error
            warn(f"mleval: {what}. {type(error).__name__}: {error}")

    def evaluate(self, truth: Any, scores: Any) -> Evaluation:
        """The evaluation of a part of the validation data; classes are numbers of columns."""
        if len(truth.shape) == 1 and len(scores.shape) == 2 and scores.shape[1] > 1:
            self.name_labels(range(scores.shape[1]))  # a part may lack some of these classes
        return _evaluated((truth, scores), instances=False, **self._options)

    def name_labels(self, names: Sequence[Hashable]) -> None:
        """Labels or classes in the order of the scores' columns, where the user names none."""
        for options in (self._of_epoch, self._options):
            if options["label_names"] is None:
                options["label_names"] = tuple(names)


def _evaluated(predicted: Evaluation | Scored, **options: Any) -> Evaluation:
    if isinstance(predicted, Evaluation):
        return predicted
    truth, scores = predicted
    truth = truth if hasattr(truth, "shape") else np.asarray(truth)
    if len(truth.shape) == 2:
        return evaluate(truth, as_matrix(scores, truth.shape[1]), **options)
    return evaluate(truth, column(scores), **options)
