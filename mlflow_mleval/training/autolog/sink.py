"""Where autologging writes: the right run, the right names, in the background if asked, and never
an error for the user.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.tracking import runs, schema
from mlflow_mleval.training.delivery import Delivery
from mlflow_mleval.training.estimator_names import dataset_name, method_name, params_of
from mlflow_mleval.training.harmless import same_randomness, warn
from mlflow_mleval.training.log_evaluation import payload_of

_jobs: list[Future[None]] = []
#: What the thread has to say. It is said by whoever waits or logs next: while another thread is in
#: `warnings.catch_warnings`, which many libraries use, a warning of this one would be lost.
_news: list[str] = []
_THREAD = "mleval-autolog"


@cache
def _writer() -> ThreadPoolExecutor:
    """One thread, so that runs are written in the order of their results."""
    # Before the interpreter refuses new threads, which writing a run needs; plain atexit comes too
    # late.
    getattr(threading, "_register_atexit", atexit.register)(flush)
    return ThreadPoolExecutor(1, _THREAD)


def flush() -> None:
    """Wait until everything is written, and tell what was not."""
    wait(_jobs)
    _tell()


def _tell() -> None:
    while _news:
        warn(_news.pop(0))


@dataclass
class Sink:
    """Logs evaluations for a script that does not know of it.

    Attributes
    ----------
    method, dataset : str or None
        Names for all that is logged; by default those of the run, else made from the estimator and
        the data.
    options : dict
        Further arguments of `log_evaluation`.
    silent : bool
        Whether failures are not said.
    asynchronous : bool
        Whether runs are written by a thread while the script goes on.
    logged : set of str
        The names of the estimators of which something was evaluated.
    """

    method: str | None = None
    dataset: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    silent: bool = False
    asynchronous: bool = False
    logged: set[str] = field(default_factory=set)

    @contextmanager
    def harmless(self, what: str) -> Iterator[None]:
        """Turn an error into one warning, and leave the random state as it was."""
        try:
            with same_randomness():
                yield
        except Exception as error:
            self.warn(f"{what} was not logged. {type(error).__name__}: {error}")

    def warn(self, text: str) -> None:
        """Say it unless silence was asked for."""
        if self.silent:
            return
        text = f"mleval.autolog: {text}"
        if threading.current_thread().name.startswith(_THREAD):
            _news.append(text)
        else:
            warn(text)

    def log(
        self,
        what: str,
        make: Callable[[], tuple[Evaluation, dict[str, Any]]],
        estimator: Any,
        X: Any,
        Y: Any,
        run_id: str | None,
        weights: Any = None,
    ) -> None:
        """Evaluate now, and log now or in the background.

        Parameters
        ----------
        what : str
            What this is, for a warning.
        make : callable
            Makes the evaluation and further arguments of `log_evaluation`.
        estimator, X, Y, weights
            What was evaluated on what, for the names: the same data with weights are another
            dataset.
        run_id : str or None
            The run to log to, else the active one, else a new one. A run that holds a result
            already is left alone, and a new one is made in its experiment.
        """
        with self.harmless(what):
            _tell()
            self.logged.add(short := method_name(estimator, Y))  # what fails is said, too
            ev, facts = make()
            names = self.method or short, self.dataset or dataset_name(X, Y, weights)
            job = (ev, names, runs.target(run_id), self.options | facts, params_of(estimator))
            if self.asynchronous:
                _jobs[:] = [f for f in _jobs if not f.done()] + [
                    _writer().submit(self._write_later, what, *job)
                ]
            else:
                self._write(what, *job)

    def _write_later(self, what: str, *job: Any) -> None:
        try:
            with _between_writes:
                self._write(what, *job)
        except Exception as error:
            self.warn(f"{what} was not logged. {type(error).__name__}: {error}")

    def _write(
        self,
        what: str,
        ev: Evaluation,
        names: tuple[str, str],
        run_id: str | None,
        options: dict[str, Any],
        params: dict[str, str],
    ) -> None:
        (method, dataset), experiment = names, None
        delivery = Delivery()
        if run_id is not None:
            tags = delivery.ask(lambda: runs.held(run_id), {})
            if runs.holds_result(tags):
                experiment, run_id = delivery.ask(lambda: runs.experiment_of(run_id), None), None
            else:
                method = self.method or tags.get(schema.TAG_METHOD, method)
                dataset = self.dataset or tags.get(schema.TAG_DATASET, dataset)
        payload = replace(payload_of(ev, method=method, dataset=dataset, **options), params=params)
        delivery.send(what, payload, run_id, experiment)
        if delivery.warning:
            self.warn(delivery.warning)


def _start_anew() -> None:
    """In a forked process: what waits is the parent's, and its thread is not here."""
    _jobs.clear()
    _news.clear()
    _writer.cache_clear()
    _between_writes._at_fork_reinit()


# A fork in the middle of a write would copy locks that nobody opens, and settings that hold for the
# write only.
_between_writes = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_between_writes.acquire,
        after_in_parent=_between_writes.release,
        after_in_child=_start_anew,
    )
