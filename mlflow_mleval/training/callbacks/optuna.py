"""Searches of Optuna: each trial a child of the active run, which gets the best's evaluation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any

from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID
from optuna import Trial
from optuna.study import StudyDirection

from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.registry import MEASURES, one_measure
from mlflow_mleval.store import runs, schema
from mlflow_mleval.training.callbacks import EpochLog
from mlflow_mleval.training.delivery import Delivery, warn
from mlflow_mleval.training.log_evaluation import LogOptions, payload_of
from mlflow_mleval.validation import present


class OptunaCallback:
    """Log each trial of a study as a child run with its evaluation, and the best one in the active
    run when the block ends.

    It wraps an objective that returns an Evaluation, of which Optuna gets one measure. The values
    of the best trial are optimistic, for it was chosen by them: the tag ``mleval.selected_among``
    tells among how many. Trials that are pruned or fail have no evaluation, and leave no run.

    Parameters
    ----------
    method, dataset : str
        What the search and its trials are called, as in `log_evaluation`.
    measure : str
        The measure by which Optuna searches; the study must have its direction.
    run_id : str, optional
        The parent; by default the run that is active when the block begins.

    Attributes
    ----------
    epochs : EpochLog
        Its ``evaluation`` is that of the best trial, once the block has ended.

    Raises
    ------
    ValueError, TypeError
        An unknown measure, or a name that cannot be stored; when a trial runs, an objective that
        returns something else, a measure that its evaluation lacks, a study of another direction.

    Examples
    --------
    ::

        def objective(trial):
            model = KNeighborsClassifier(trial.suggest_int("n_neighbors", 1, 20))
            return mleval.cross_validate(model, X, Y, log=False)

        study = optuna.create_study(direction="maximize")
        with mlflow.start_run(), OptunaCallback(method="kNN", dataset="yeast", measure="micro_f1") as watch:
            study.optimize(watch(objective), n_trials=20)
    """  # noqa: E501

    def __init__(
        self, *, method: str, dataset: str, measure: str, run_id: str | None = None
    ) -> None:
        self.measure = one_measure(measure, "measure")
        self._sign = MEASURES[self.measure].sign
        self.epochs = EpochLog(method=method, dataset=dataset, run_id=run_id)
        self._alone = Lock()  # a study with n_jobs has its trials in threads
        self._forget()

    def _forget(self) -> None:
        self._best: tuple[float, Evaluation] | None = None
        self._count = 0
        self._experiment: str | None = None

    def __enter__(self) -> OptunaCallback:
        self._forget()
        self.epochs.begin()
        if (parent := self.epochs.run_id) is not None:
            self._experiment = Delivery().ask(lambda: runs.experiment_of(parent), None)
        return self

    def __call__(self, objective: Callable[[Trial], Evaluation]) -> Callable[[Trial], float]:
        """The objective as Optuna wants it."""

        @wraps(objective)
        def evaluated(trial: Trial) -> float:
            wanted = StudyDirection.MINIMIZE if self._sign < 0 else StudyDirection.MAXIMIZE
            if trial.study.directions != [wanted]:
                got = ", ".join(found.name.lower() for found in trial.study.directions)
                want = repr(wanted.name.lower())
                raise ValueError(
                    f"`direction` of the study must be {want} for {self.measure}, got {got}. Make "
                    f"another: optuna.create_study(direction={want})."
                )
            ev = objective(trial)
            if not isinstance(ev, Evaluation):
                raise TypeError(
                    f"`objective` must return an Evaluation, got {type(ev).__name__}. Return "
                    "mleval.evaluate(...)."
                )
            if self.measure not in ev.measures:
                raise ValueError(
                    f"`measure` must be one that the trial has; {self.measure}: "
                    f"{ev.absent[self.measure]}."
                )
            value = ev.measures[self.measure]
            with self._alone:
                self._count += 1
                if self._best is None or self._sign * value > self._sign * self._best[0]:
                    self._best = value, ev
                if self.epochs.failure is None:
                    with self.epochs.attempt("this trial and later ones are not logged"):
                        self._log(trial, ev)
            return value

        return evaluated

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None:
            self.epochs.end(self._winner, among=self._count)

    def _log(self, trial: Trial, ev: Evaluation) -> None:
        parent = present(self.epochs.run_id)
        tags = {MLFLOW_PARENT_RUN_ID: parent, schema.TAG_TRIAL: str(trial.number)}
        names = self.epochs.method, self.epochs.dataset
        params = {name: str(value) for name, value in trial.params.items()}
        payload = payload_of(ev, *names, LogOptions(tags=tags), params=params)
        what = f"trial {trial.number}"
        if warning := Delivery().send(what, payload, None, self._experiment):
            warn(f"mleval: {warning}")

    def _winner(self) -> Evaluation:
        if self._best is None:
            raise ValueError(
                "No trial has ended. Pass the wrapped objective to the study: "
                "study.optimize(watch(objective))."
            )
        return self._best[1]
