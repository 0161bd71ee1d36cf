"""What autologging stands on: wrappers that come off again, the clock of a fit, and the sink that
results go to.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from types import FrameType
from typing import Any

from mlflow.entities import Run
from mlflow.utils.autologging_utils.events import AutologgingEventLogger

from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.store import runs, schema
from mlflow_mleval.training.delivery import Delivery, same_randomness, warn
from mlflow_mleval.training.estimators import dataset_name, method_name, params_of
from mlflow_mleval.training.log_evaluation import LogOptions, payload_of

# --------------------------------------------------------------------------------------------------
# Where autologging writes: the right run, the right names, in the background if asked, and never an
# error for the user.

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
        make: Callable[[], tuple[Evaluation, LogOptions]],
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
            Makes the evaluation and further options of `log_evaluation`.
        estimator, X, Y, weights
            What was evaluated on what, for the names: the same data with weights are another
            dataset.
        run_id : str or None
            The run to log to, else the active one, else a new one. A run that holds a result
            already is left alone, and a new one is made in its experiment.
        """
        with self.harmless(what):
            _tell()
            self.logged.add(short := method_name(estimator))  # what fails is said, too
            ev, facts = make()
            names = self.method or short, self.dataset or dataset_name(X, Y, weights)
            options = replace(facts, **self.options)
            job = (ev, names, runs.target(run_id), options, params_of(estimator))
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
        options: LogOptions,
        params: dict[str, str],
    ) -> None:
        method, dataset = names
        experiment: str | None = None
        run: Run | None = None
        delivery = Delivery()
        if (target := run_id) is not None:
            run = delivery.ask(lambda: runs.existing(target), None)
            tags = run.data.tags if run else {}
            if runs.holds_result(tags):
                experiment = delivery.ask(lambda: runs.experiment_of(target, run), None)
                run_id = run = None
            else:
                method = self.method or tags.get(schema.TAG_METHOD, method)
                dataset = self.dataset or tags.get(schema.TAG_DATASET, dataset)
        payload = replace(payload_of(ev, method, dataset, options), params=params)
        delivery.send(what, payload, run_id, experiment, run)
        if delivery.warning:
            self.warn(delivery.warning)


def _start_anew() -> None:
    """In a forked process: what waits is the parent's, and its thread is not here."""
    _jobs.clear()
    _news.clear()
    _writer.cache_clear()
    _between_writes._at_fork_reinit()  # type: ignore[attr-defined]  # as CPython does


# A fork in the middle of a write would copy locks that nobody opens, and settings that hold for the
# write only.
_between_writes = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_between_writes.acquire,
        after_in_parent=_between_writes.release,
        after_in_child=_start_anew,
    )


# --------------------------------------------------------------------------------------------------
# Plain wrappers that stack with MLflow's: put around functions and methods, taken off again, and
# switched off for good.
#
# MLflow keeps the function that it has replaced in a slot beside it and puts that one back when its
# autologging is switched off or on again. A wrapper around the function alone would be lost then,
# so the slot is wrapped too. A wrapper that MLflow has wrapped in turn cannot be taken out of
# there; switched off, it only passes calls on.

_SLOT = "_gorilla_original_"
#: Whose calls are no calls of the user's script.
_INTERNAL = {"sklearn", "mlflow_mleval"}
#: Its frames lie between any function of scikit-learn and whoever calls it.
_CHECKS = "sklearn.utils._param_validation"


class Patches:
    """Wrappers that are on until `restore`, and on again after the next `wrap`; a copy in another
    process is off.

    A function gets the same wrapper every time, so that names which a script has imported in
    between stay good.

    >>> import types
    >>> module = types.SimpleNamespace(double=lambda x: 2 * x)
    >>> before, patches = module.double, Patches()
    >>> patches.wrap(module, "double", lambda original, x: original(x) + 1)
    >>> module.double is before, module.double(3)  # what this package calls is no call of a script
    (False, 6)
    >>> patches.restore()
    >>> module.double is before
    True
    """

    def __init__(self) -> None:
        self.active = False
        self._wrappers: dict[int, tuple[Any, Any]] = {}
        self._by_original: dict[int, Any] = {}
        self._hooks: dict[int, Callable[..., Any]] = {}
        self._places: list[tuple[Any, str]] = []

    def __reduce__(self) -> Any:
        return Patches, ()

    def wrap(self, owner: Any, name: str, hook: Callable[..., Any], *, through: str = "") -> None:
        """Let calls that the user's script makes go to ``hook(original, *args, **kwargs)``.

        Parameters
        ----------
        owner : module, class or descriptor
            Where the function is an attribute; nothing is done where it is inherited only, or
            wrapped already.
        through : str
            A module of scikit-learn whose frames count as passing the user's call on.
        """
        self.active = True
        for slot in (name, _SLOT + name):
            current = vars(owner).get(slot)
            if current is None or id(current) in self._wrappers:
                continue
            # One wrapper a function wherever it is bound, so that pickle finds it where its name
            # says.
            wrapper = self._by_original.get(id(current)) or self._wrapper(current, hook, through)
            setattr(owner, slot, wrapper)
            self._places.append((owner, name))

    def wraps(self, cls: type, name: str) -> bool:
        """Whether calls of this method pass a wrapper."""
        owner, slot = places([cls], name)[0]
        return any(id(vars(owner).get(key)) in self._wrappers for key in (slot, _SLOT + slot))

    def originals(self) -> dict[int, Any]:
        """The wrapped functions by their id."""
        return {id(original): original for _, original in self._wrappers.values()}

    def restore(self) -> None:
        """Switch the wrappers off, and put the functions back wherever the wrappers still are."""
        self.active = False
        for owner, name in self._places:
            for slot in (name, _SLOT + name):  # MLflow may have come later
                wrapper, original = self._wrappers.get(id(vars(owner).get(slot)), (None, None))
                if wrapper is not None:
                    setattr(owner, slot, original)
        self._places.clear()

    def _wrapper(self, original: Any, hook: Callable[..., Any], through: str) -> Any:
        key = id(original)

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self.active and called_by_user(through):
                return self._hooks[key](original, *args, **kwargs)
            return original(*args, **kwargs)

        self._hooks[key] = (
            hook  # not in the closure, which is pickled with a function that MLflow has wrapped
        )
        self._wrappers[id(wrapper)] = wrapper, original
        self._by_original[key] = wrapper
        return wrapper


def called_by_user(through: str = "") -> bool:
    """Whether the caller's caller is the script: no frame above it is one of scikit-learn or of
    this package.

    The whole stack counts, because a scorer or an estimator that the script defines is called by
    scikit-learn in turn.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in _INTERNAL and module not in (_CHECKS, through):
            return False
        frame = frame.f_back
    return True


def imported_earlier(originals: dict[int, Any]) -> dict[str, list[str]]:
    """Names of modules of the user that are still bound to a wrapped function, by module."""
    by_module: dict[str, list[str]] = {}
    # __mp_main__ is what multiprocessing calls __main__, too
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None) or ""
        if (
            name.partition(".")[0] in {"mlflow", "__mp_main__", *_INTERNAL}
            or "site-packages" in path
            or "dist-packages" in path
        ):
            continue
        bound = [
            key
            for key, value in list(vars(module).items())
            if originals.get(id(value), by_module) is value
        ]
        if bound:
            by_module[name] = bound
    return by_module


def places(owners: Iterable[type], name: str) -> list[tuple[Any, str]]:
    """Where to wrap a method of these classes: each class in their ancestry that has it, or its
    `available_if` descriptor.
    """
    slots: list[tuple[Any, str]] = []
    for owner in dict.fromkeys(base for cls in owners for base in cls.__mro__):
        method = vars(owner).get(name)
        if hasattr(method, "check") and hasattr(method, "fn"):
            slots.append((method, "fn"))
        elif callable(method):
            slots.append((owner, name))
    return slots


# --------------------------------------------------------------------------------------------------
# How long a fit took without what MLflow's own autologging does around it, such as logging the
# model.


class FitClock:
    """Times fits. MLflow announces when one of its wrappers calls the function that it wraps; all
    announcements are passed on.

    >>> FitClock().timed(lambda estimator, x: x + 1, "an estimator", 1)[0]
    2
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self._before: Any = AutologgingEventLogger()

    def start(self) -> None:
        """Listen to MLflow."""
        if AutologgingEventLogger.get_logger() is not self:
            self._before = AutologgingEventLogger.get_logger()
            AutologgingEventLogger.set_logger(self)

    def stop(self) -> None:
        """Listen no more."""
        if AutologgingEventLogger.get_logger() is self:
            AutologgingEventLogger.set_logger(self._before)

    def timed(
        self, fit: Callable[..., Any], estimator: Any, *args: Any, **kwargs: Any
    ) -> tuple[Any, float]:
        """What the fit returns, and its seconds without those of MLflow."""
        outer = getattr(self._local, "fit", None)
        self._local.fit = own = _Fit()
        try:
            result = fit(estimator, *args, **kwargs)
            own.note()
            return result, own.seconds
        finally:
            self._local.fit = outer

    def log_patch_function_start(self, *announced: Any) -> None:
        self._note(lambda stack: stack.append(True))
        self._before.log_patch_function_start(*announced)

    def log_original_function_start(self, *announced: Any) -> None:
        self._before.log_original_function_start(*announced)
        self._note(lambda stack: stack.__setitem__(-1, False))

    def log_original_function_success(self, *announced: Any) -> None:
        self._note(lambda stack: stack.__setitem__(-1, True))
        self._before.log_original_function_success(*announced)

    def log_original_function_error(self, *announced: Any) -> None:
        self._note(list.pop)  # nothing is announced after it
        self._before.log_original_function_error(*announced)

    def log_patch_function_success(self, *announced: Any) -> None:
        self._before.log_patch_function_success(*announced)
        self._note(list.pop)

    def log_patch_function_error(self, *announced: Any) -> None:
        self._before.log_patch_function_error(*announced)
        self._note(list.pop)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._before, name)

    def _note(self, change: Callable[[list[bool]], object]) -> None:
        fit = getattr(self._local, "fit", None)
        if fit is not None:
            fit.note()
            with suppress(IndexError):
                change(fit.wrappers)


class _Fit:
    """A fit that is going on: its seconds up to now, and whether each of MLflow's wrappers does
    work of its own.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.wrappers: list[bool] = []
        self._last = time.perf_counter()

    def note(self) -> None:
        """Count the time since the last change."""
        now = time.perf_counter()
        if not any(self.wrappers):
            self.seconds += now - self._last
        self._last = now
