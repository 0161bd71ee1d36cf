"""What all callbacks do: measures and a loss profile an epoch as metrics, and a full evaluation at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from mlflow.entities import Metric
from numpy.typing import ArrayLike

from mlflow_mleval.errors import StoreError
from mlflow_mleval.evaluation import Evaluation, evaluate
from mlflow_mleval.measures.flat import CONVENTIONS, Conventions
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.registry import MEASURES, SETS, expand
from mlflow_mleval.tracking import runs, schema, store
from mlflow_mleval.training.delivery import Delivery, bounded
from mlflow_mleval.training.harmless import same_randomness, warn
from mlflow_mleval.training.log_evaluation import payload_of
from mlflow_mleval.training.scores import as_matrix
from mlflow_mleval.training.unsent import home
from mlflow_mleval.validation import one_of

#: What is logged for each epoch where nobody chose: the usual measures, and the ends of the loss profile and its area.
EPOCH_MEASURES = (
    "hamming_loss", "subset_accuracy", "f1", "micro_f1", "macro_f1", "ranking_loss", "average_precision",
    "soft_hamming_loss", "soft_subset_loss", "soft_binomial_area",
)  # fmt: skip
#: Parameters of the loss profile for each epoch at most; each is a chart in MLflow.
_POINTS = 10
#: Epochs that are faster than this share a request.
_SECONDS = 1.0

Predict = Callable[[], tuple[Any, Any]]


class EpochLog:
    """What a callback tells of one training, epoch by epoch; never an error for the training.

    For each epoch the run gets ``mleval.epoch/<measure>`` and, at no more than ten parameters k from 1 to K, the binomial loss
    profile of the label sets as ``mleval.epoch.profile/k<k>`` and of the scores as ``mleval.epoch.soft_profile/k<k>``, with the
    epoch as step. At the end it gets the full evaluation of the validation data, as by `log_evaluation`. What goes wrong is one
    warning; the training goes on, with the random state it would have.

    Parameters
    ----------
    method, dataset : str
        What the evaluation at the end is called, as in `log_evaluation`.
    run_id : str, optional
        The run to log into; by default the one that is active when training begins. No run is started.
    measures : iterable of str, optional
        Measures or sets of measures to log for each epoch; by default those of `EPOCH_MEASURES` that the scores allow.
    best_by : str, optional
        Evaluate the epoch that is best by this measure, instead of the model as training leaves it. The values are optimistic
        then, for they are the best of many on these very data; the tag ``mleval.selected_among`` tells of how many.
    every : int
        Log every so many epochs; the evaluation at the end does not depend on it, except that `best_by` chooses among these.
    label_names, hierarchy, conventions, threshold, **hierarchy_options
        As in `evaluate`. Hierarchical measures are computed for each epoch only where `measures` or `best_by` name them.

    Attributes
    ----------
    evaluation : Evaluation or None
        The one at the end, once training has ended.
    run_id : str or None
        The run that is logged into.

    Raises
    ------
    ValueError, TypeError
        An unknown measure, a name that cannot be stored, an option out of range.

    >>> EpochLog(method="net", dataset="yeast", measures=["f2"])  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ValueError: `measures` must be one of 'hamming_loss', ...
    """

    def __init__(
        self,
        *,
        method: str,
        dataset: str,
        run_id: str | None = None,
        measures: Iterable[str] | None = None,
        best_by: str | None = None,
        every: int = 1,
        label_names: Sequence[Hashable] | None = None,
        hierarchy: Hierarchy | None = None,
        conventions: Conventions = "sklearn",
        threshold: ArrayLike = 0.5,
        **hierarchy_options: Any,
    ) -> None:
        runs.check(method=method, dataset=dataset)
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"`every` must be a whole number of epochs, at least 1, got {every!r}.")
        if hierarchy is None and hierarchy_options:
            raise TypeError(f"`hierarchy` must be given with {', '.join(map(repr, hierarchy_options))}. Leave these out.")
        one_of(conventions, "conventions", CONVENTIONS)
        known = [m for m in MEASURES if m not in SETS["cost"]]
        self.method, self.dataset, self.every = method, dataset, every
        self.measures = None if measures is None else tuple(one_of(m, "measures", known) for m in expand(measures))
        self.best_by = None if best_by is None else one_of(best_by, "best_by", known)
        self.evaluation: Evaluation | None = None
        self.run_id: str | None = None
        self._chosen_run = run_id
        self._flat = {"label_names": label_names, "conventions": conventions, "threshold": threshold}
        self._options = self._flat | ({} if hierarchy is None else {"hierarchy": hierarchy, **hierarchy_options})
        self._failure: Exception | None = None
        self._forget()

    def _forget(self) -> None:
        self._epochs, self._best = 0, None
        self._pending: list[Metric] = []
        self._sent = -math.inf

    def begin(self) -> None:
        """Training begins: find the run, and find out now whether it can take the results."""
        self.evaluation = self.run_id = self._failure = None
        self._forget()
        self.attempt("nothing of this training is logged", self._find_run)

    def epoch(self, epoch: int, predict: Predict) -> None:
        """An epoch, counted from 0, has ended.

        Parameters
        ----------
        epoch : int
        predict : callable
            Gives the truth and the scores of the validation data, N x K each; not called where nothing is logged.
        """
        if (epoch + 1) % self.every == 0:
            self.attempt(
                f"epoch {epoch} and later ones are not logged", lambda: self._log_epoch(epoch, *_matrices(predict()))
            )

    def end(self, predict: Predict, epoch: int | None = None) -> None:
        """Training has ended.

        Parameters
        ----------
        predict : callable
            As in `epoch`, for the model as it is now.
        epoch : int, optional
            The epoch that the model is of, where that is known.
        """
        # A store that was away for an epoch may be back, and the result of the whole training is worth a try.
        if isinstance(self._failure, StoreError) and self.run_id is not None:
            earlier, self._failure = self._failure, None
            self._attempt(lambda: self._log_end(predict, epoch, told=True))
            self._failure = self._failure or earlier
        else:
            self.attempt("the evaluation at the end was not logged", lambda: self._log_end(predict, epoch))

    def attempt(self, what: str, act: Callable[[], None]) -> None:
        """Do it unless something has failed already; say so if it fails now."""
        if self._failure is None and (error := self._attempt(act)) is not None:
            kept = f" If the store stays away, what is evaluated at the end is kept in {home()}: mleval import {home()}"
            warn(f"mleval: {what}. {type(error).__name__}: {error}{kept if isinstance(error, StoreError) else ''}")

    def _attempt(self, act: Callable[[], None]) -> Exception | None:
        try:
            with same_randomness():
                act()
        except Exception as error:
            self._failure = error
            return error
        return None

    def _find_run(self) -> None:
        run_id = runs.target(self._chosen_run)
        if run_id is None:
            raise ValueError("No run is active. Train inside `with mlflow.start_run():`, or pass `run_id`.")
        if runs.holds_result(bounded(lambda: runs.held(run_id))):
            raise ValueError(f"Run {run_id} holds a result already, and a run is one method on one dataset. Start another.")
        self.run_id = run_id

    def _log_epoch(self, epoch: int, truth: Any, scores: Any) -> None:
        ev = evaluate(truth, scores, instances=False, **self._epoch_options())
        if self.best_by:
            self._compare(epoch, ev, truth, scores)
        if not self._epochs and (absent := [m for m in self.measures or () if m not in ev.measures]):
            reasons = "; ".join(f"{m}: {ev.absent[m]}" for m in absent)
            warn(f"mleval: {len(absent)} of the measures chosen for each epoch cannot be computed ({reasons}).")
        self._epochs += 1
        now = int(time.time() * 1000)
        values = {schema.EPOCH_PREFIX + m: ev.measures[m] for m in self.measures or EPOCH_MEASURES if m in ev.measures}
        values |= _profile_metrics(ev)
        self._pending += [Metric(key, float(v), now, epoch) for key, v in values.items() if math.isfinite(v)]
        if time.monotonic() - self._sent >= _SECONDS or len(self._pending) >= runs.BATCH - len(values):
            self._send()

    def _epoch_options(self) -> dict[str, Any]:
        families = {MEASURES[m].family for m in (*(self.measures or ()), *([self.best_by] if self.best_by else []))}
        kinds = [f.removeprefix("hierarchical-") for f in sorted(families) if f.startswith("hierarchical-")]
        return self._options | {"measures": kinds} if kinds and "hierarchy" in self._options else self._flat

    def _compare(self, epoch: int, ev: Evaluation, truth: Any, scores: Any) -> None:
        if self.best_by not in ev.measures:
            raise ValueError(f"{self.best_by} cannot be computed: {ev.absent[self.best_by]}. Choose another `best_by`.")
        value = ev.measures[self.best_by] * (-1 if MEASURES[self.best_by].direction == "min" else 1)
        if self._best is None or value > self._best[0]:
            self._best = value, epoch, truth, scores

    def _send(self) -> None:
        def write() -> None:
            client = store.connect()
            with store.store_errors("write to"):
                runs.log(client, self.run_id, self._pending)

        bounded(write)
        self._pending, self._sent = [], time.monotonic()

    def _log_end(self, predict: Predict, epoch: int | None, told: bool = False) -> None:
        chosen = self._best is not None
        if chosen:
            _, epoch, truth, scores = self._best
        else:
            truth, scores = _matrices(predict())
        self.evaluation = evaluate(truth, scores, **self._options)
        payload = payload_of(
            self.evaluation, method=self.method, dataset=self.dataset, run_id=self.run_id,
            selected_among=self._epochs if chosen else None,
            tags={} if epoch is None else {schema.TAG_EPOCH: str(epoch)},
        )  # fmt: skip
        delivery = Delivery()
        delivery.ask(self._send, None)
        delivery.send("the evaluation at the end", payload, self.run_id, None)
        if delivery.warning and not told:
            warn(f"mleval: {delivery.warning}")
        self._best = None


def _profile_metrics(ev: Evaluation) -> Mapping[str, float]:
    """The binomial losses of the label sets and, where these lie in [0, 1], of the scores, at a few k from end to end."""
    n_labels = len(ev.label_names)
    ks = np.unique(np.linspace(1, n_labels, min(n_labels, _POINTS)).round().astype(int))
    profiles = {kind: ev.profile(ks=ks, kind=kind) for kind in ("hard", "soft") if kind == "hard" or ev.total.errors is not None}
    return {
        schema.epoch_profile_key(kind, int(k), n_labels): v
        for kind, profile in profiles.items()
        for k, v in zip(ks, profile.losses, strict=True)
    }


def _matrices(found: tuple[Any, Any]) -> tuple[Any, Any]:
    truth, scores = found
    truth = truth if hasattr(truth, "shape") else np.asarray(truth)
    n_labels = truth.shape[1] if truth.ndim == 2 else 1
    return (truth if truth.ndim == 2 else truth[:, None]), as_matrix(scores, n_labels)
