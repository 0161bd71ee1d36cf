"""Two lines in a script: what it evaluates with scikit-learn is evaluated in full and logged."""

from __future__ import annotations

import atexit
import copy
import functools
import inspect
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import sklearn.metrics
from mlflow.entities import Run
from mlflow.utils import autologging_utils
from mlflow.utils.autologging_utils.events import AutologgingEventLogger
from scipy import sparse
from sklearn import model_selection
from sklearn.base import ClassifierMixin, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, all_estimators

from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.hierarchical import OPTIONS, refuse_without
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.registry import CONVENTIONS, Conventions, known_measures
from mlflow_mleval.sentences import some
from mlflow_mleval.store import runs
from mlflow_mleval.training import estimators
from mlflow_mleval.training.cross_validation import (
    evaluate_folds,
    fold_predictions,
    refuse_unseen,
    split_facts,
    without_scores,
)
from mlflow_mleval.training.delivery import Delivery, forget, harmless, warn
from mlflow_mleval.training.estimators import SCORE_METHODS, Predictions
from mlflow_mleval.training.log_evaluation import LogOptions, payload_of
from mlflow_mleval.validation import one_of, refuse_keywords


def autolog(
    *,
    method: str | None = None,
    dataset: str | None = None,
    eval_data: tuple[Any, Any] | None = None,
    label_names: Sequence[Hashable] | None = None,
    hierarchy: Hierarchy | None = None,
    conventions: Conventions = "sklearn",
    measures: Iterable[str] | None = None,
    log_instances: bool = False,
    asynchronous: bool = False,
    silent: bool = False,
    disable: bool = False,
    **hierarchy_options: Any,
) -> None:
    """Log a full evaluation of whatever a script evaluates with scikit-learn: label sets, or one
    label of several classes.

    - ``fit``, then ``score`` or a metric of `sklearn.metrics` on held-out predictions: an
      evaluation of that data, in the run that was active at the fit, or that MLflow's own
      autologging made for it. The training data is not held out; of a model that was fitted
      elsewhere it is not known. Their ``sample_weight`` weighs the evaluation, too.
    - `cross_validate`, `cross_val_score`, `cross_val_predict`: an evaluation with folds, in the
      active run. The models of the folds predict once more for it.
    - A search, such as `GridSearchCV`: its winner is cross-validated once more on the search's
      folds, which takes as long as one candidate, with the tag ``mleval.selected_among``: values of
      a winner on the folds that chose it are optimistic.

    Where no run is active, a new one is made. A run holds one method on one dataset; what comes
    after the first result goes to new runs of the same experiment. Where nothing is logged, one
    line says why: of a regressor, and of what was fitted when no held-out labels were seen until
    the end. The script itself is not touched: not its values, its random state, its exceptions; a
    failure to log is one warning. Works with MLflow's own autologging in any order. Calling it
    again changes the options, for example the dataset's name in a loop over datasets.

    Parameters
    ----------
    method, dataset : str, optional
        Names of all that is logged until the next call. By default a short name of the estimator,
        such as LogisticRegression(C=10), and the size of the data with a digest. The estimator's
        parameters become those of the run.
    eval_data : tuple (X, Y), optional
        Held-out data on which to evaluate after every fit.
    label_names, hierarchy, conventions, **hierarchy_options
        As in `evaluate`. A hierarchy needs the names of its classes: as `label_names`, or as
        columns of a DataFrame.
    measures : iterable of str, optional
        Measures or sets to log as metrics; by default all.
    log_instances : bool
        Log a table with a row for each instance.
    asynchronous : bool
        Write runs in a thread while the script goes on; the end of the script and ``disable=True``
        wait for it.
    silent : bool
        No warnings.
    disable : bool
        Restore everything, and forget that a store failed.

    Raises
    ------
    ValueError, TypeError
        An unknown measure or convention; `eval_data` that is no pair.

    >>> autolog()
    >>> autolog(disable=True)
    """
    refuse_keywords(autolog, hierarchy_options, OPTIONS)
    one_of(conventions, "conventions", CONVENTIONS)
    if measures is not None:
        measures = known_measures(measures)
    if eval_data is not None and not (isinstance(eval_data, (tuple, list)) and len(eval_data) == 2):
        raise TypeError(f"`eval_data` must be a pair (X, Y), got {type(eval_data).__name__}.")
    refuse_without(hierarchy, hierarchy_options)
    if disable:
        _sklearn.stop()
        forget()
        return
    options = hierarchy_options | {"label_names": label_names, "hierarchy": hierarchy}
    options |= {"conventions": conventions, "instances": log_instances}
    logged = {"measures": measures, "log_instances": log_instances}
    sink = Sink(method, dataset, logged, silent, asynchronous)
    _sklearn.start(sink, options, eval_data)


# ---- where autologging writes --------------------------------------------------------------------

#: What a thread writes, with its name and the sink that tells what went wrong. It is told by
#: whoever waits or logs next: while another thread is in `warnings.catch_warnings`, which many
#: libraries use, a warning of the thread that writes would be lost.
_jobs: list[tuple[Future[str], str, Sink]] = []


@functools.cache
def _writer() -> ThreadPoolExecutor:
    """One thread, so that runs are written in the order of their results."""
    # Before the interpreter refuses new threads, for which plain atexit comes too late.
    getattr(threading, "_register_atexit", atexit.register)(_tell, last=True)
    return ThreadPoolExecutor(1, "mleval-autolog")


def _tell(*, last: bool = False) -> None:
    """Tell what was not written, at the end when all is."""
    while _jobs and (last or _jobs[0][0].done()):
        job, what, sink = _jobs.pop(0)
        with harmless(what, sink.fail):
            sink.warn(job.result())


#: An evaluation, and what is known of it beside.
Evaluated: TypeAlias = tuple[Evaluation, LogOptions]
#: Of each fold what is predicted, its rows, and the seconds to fit it.
Folds: TypeAlias = tuple[list[Predictions], Any, Any]


@dataclass
class Sink:
    """Logs evaluations for a script that does not know of it; `options` are those of
    `log_evaluation`, `asynchronous` runs are written by a thread."""

    method: str | None = None
    dataset: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    silent: bool = False
    asynchronous: bool = False
    logged: set[str] = field(default_factory=set)  #: names of what was evaluated

    def fail(self, what: str, error: Exception) -> None:
        self.warn(f"{what} was not logged. {type(error).__name__}: {error}")

    def warn(self, text: str) -> None:
        """Say it, if there is something, unless silence was asked for."""
        if text and not self.silent:
            warn(f"mleval.autolog: {text}")

    def log(
        self,
        what: str,
        make: Callable[[], Evaluated],
        estimator: Any,
        X: Any,
        Y: Any,
        run_id: str | None = None,
        weights: Any = None,
    ) -> None:
        """Evaluate now, and log now or in the background: into the given run, else the active one,
        else a new one, which is made in its experiment where a run holds a result already."""
        with harmless(what, self.fail):
            _tell()
            self.logged.add(short := estimators.method_name(estimator))  # what fails is said, too
            ev, facts = make()
            names = self.method or short, self.dataset or estimators.dataset_name(X, Y, weights)
            options, params = replace(facts, **self.options), estimators.params_of(estimator)
            job = what, ev, names, runs.target(run_id), options, params
            if self.asynchronous:
                _jobs.append((_writer().submit(_write_alone, *job), what, self))
            else:
                self.warn(_write(*job))


def _write_alone(*job: Any) -> str:
    with _between_writes:
        return _write(*job)


def _write(
    what: str,
    ev: Evaluation,
    names: tuple[str, str],
    run_id: str | None,
    options: LogOptions,
    params: dict[str, str],
) -> str:
    """What the user must be told of it, empty where there is nothing to tell."""
    experiment: str | None = None
    run: Run | None = None
    delivery = Delivery()
    if (target := run_id) is not None:
        run = delivery.ask(lambda: runs.existing(target), None)
        if run and runs.holds_result(run.data.tags):
            experiment = delivery.ask(lambda: runs.experiment_of(target, run), None)
            run_id = run = None
    payload = payload_of(ev, *names, options, params=params)
    return delivery.send(what, payload, run_id, experiment, run)


def _start_anew() -> None:
    """In a forked process: what waits is the parent's, and its thread is not here."""
    _jobs.clear()
    _writer.cache_clear()
    _between_writes._at_fork_reinit()  # type: ignore[attr-defined]  # as CPython does


# A fork in the middle of a write would copy locks that nobody opens.
_between_writes = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_between_writes.acquire,
        after_in_parent=_between_writes.release,
        after_in_child=_start_anew,
    )


# ---- wrappers that stack with MLflow's and come off again, and the clock of a fit ----------------

# MLflow keeps the function that it has replaced in a slot beside it and puts that one back when its
# autologging is switched off or on again. A wrapper around the function alone would be lost then,
# so the slot is wrapped too. A wrapper that MLflow has wrapped in turn cannot be taken out of
# there; switched off, it only passes calls on.
_SLOT = "_gorilla_original_"
#: Whose calls are no calls of the user's script.
_INTERNAL = {"sklearn", "mlflow_mleval"}
#: Its frames lie between any function of scikit-learn and whoever calls it.
_CHECKS = "sklearn.utils._param_validation"


@dataclass(eq=False)
class Patches:
    """Wrappers that are on until `restore`, and on again after the next `wrap`; a copy in another
    process is off. A function always gets the same wrapper, which scripts may have imported."""

    active: bool = False
    _wrappers: dict[int, Any] = field(default_factory=dict)  #: by the id of what they wrap
    _hooks: dict[int, Callable[..., Any]] = field(default_factory=dict)
    _places: list[tuple[Any, str]] = field(default_factory=list)

    def __reduce__(self) -> Any:
        return Patches, ()

    def wrap(self, owner: Any, name: str, hook: Callable[..., Any], *, through: str = "") -> None:
        """Let calls of the user's script, also through frames of the module `through`, go to
        ``hook(original, *args, **kwargs)``."""
        self.active = True
        for slot in (name, _SLOT + name):
            current = vars(owner).get(slot)
            if current is not None and not self._is_ours(current):
                # One wrapper a function, so that pickle finds it where its name says.
                if id(current) not in self._wrappers:
                    self._wrappers[id(current)] = self._wrapper(current, hook, through)
                setattr(owner, slot, self._wrappers[id(current)])
                self._places.append((owner, name))

    def wraps(self, cls: type, name: str) -> bool:
        """Whether calls of this method pass a wrapper."""
        owner, slot = places_to_wrap([cls], name)[0]
        return any(self._is_ours(vars(owner).get(key)) for key in (slot, _SLOT + slot))

    def restore(self) -> None:
        """Switch the wrappers off, and put the functions back wherever the wrappers still are."""
        self.active = False
        for owner, name in self._places:
            for slot in (name, _SLOT + name):  # MLflow may have come later
                if self._is_ours(wrapper := vars(owner).get(slot)):
                    setattr(owner, slot, wrapper.__wrapped__)
        self._places.clear()

    def imported_earlier(self) -> dict[str, list[str]]:
        """Names of modules of the user that are still bound to a wrapped function, by module."""
        by_module: dict[str, list[str]] = {}
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None) or ""
            # __mp_main__ is what multiprocessing calls __main__, too
            of_package = name.partition(".")[0] in {"mlflow", "__mp_main__", *_INTERNAL}
            if of_package or "site-packages" in path or "dist-packages" in path:
                continue
            for key, value in list(getattr(module, "__dict__", {}).items()):
                wrapper = self._wrappers.get(id(value))
                if wrapper is not None and wrapper.__wrapped__ is value:
                    by_module.setdefault(name, []).append(key)
        return by_module

    def _is_ours(self, value: Any) -> bool:
        original = getattr(value, "__wrapped__", None)
        return original is not None and self._wrappers.get(id(original)) is value

    def _wrapper(self, original: Any, hook: Callable[..., Any], through: str) -> Any:
        key = id(original)

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self.active and _called_by_user(through):
                return self._hooks[key](original, *args, **kwargs)
            return original(*args, **kwargs)

        # not in the closure, which is pickled with a function that MLflow has wrapped
        self._hooks[key] = hook
        return wrapper


def _called_by_user(through: str) -> bool:
    """Whether the caller's caller is the script, with no frame of scikit-learn or of this package
    in the whole stack: scikit-learn calls what the script defines."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in _INTERNAL and module not in (_CHECKS, through):
            return False
        frame = frame.f_back
    return True


def places_to_wrap(owners: Iterable[type], name: str) -> list[tuple[Any, str]]:
    """Where to wrap a method: each class in the ancestry that has it, or its descriptor."""
    slots: list[tuple[Any, str]] = []
    for owner in dict.fromkeys(base for cls in owners for base in cls.__mro__):
        method = vars(owner).get(name)
        if hasattr(method, "check") and hasattr(method, "fn"):
            slots.append((method, "fn"))
        elif callable(method):
            slots.append((owner, name))
    return slots


@dataclass(eq=False)
class FitClock:
    """Times fits without what MLflow's own autologging does around them: MLflow announces when one
    of its wrappers calls the function that it wraps. All announcements are passed on."""

    _local: threading.local = field(default_factory=threading.local)
    _before: Any = field(default_factory=AutologgingEventLogger)

    def start(self) -> None:
        if AutologgingEventLogger.get_logger() is not self:
            self._before = AutologgingEventLogger.get_logger()
            AutologgingEventLogger.set_logger(self)

    def stop(self) -> None:
        if AutologgingEventLogger.get_logger() is self:
            AutologgingEventLogger.set_logger(self._before)

    def timed(
        self, fit: Callable[..., Any], estimator: Any, *args: Any, **kwargs: Any
    ) -> tuple[Any, float]:
        """What the fit returns, and its seconds without those of MLflow."""
        outer = getattr(self._local, "fit", None)
        self._local.fit = own = _Fit(time.perf_counter())
        try:
            result = fit(estimator, *args, **kwargs)
            own.note(0)
            return result, own.seconds
        finally:
            self._local.fit = outer

    def __getattr__(self, name: str) -> Any:
        announce = getattr(self._before, name)

        def passed_on(*announced: Any) -> None:
            if fit := getattr(self._local, "fit", None):
                fit.note(_CHANGES.get(name, 0))
            announce(*announced)

        return passed_on


@dataclass
class _Fit:
    """A fit that goes on: its seconds, and how many of MLflow's wrappers are at work."""

    _last: float  #: when it was begun, or counted last
    seconds: float = 0.0
    _wrappers: int = 0

    def note(self, change: int) -> None:
        """Count the time since the last change."""
        now = time.perf_counter()
        if self._wrappers <= 0:
            self.seconds += now - self._last
        self._last = now
        self._wrappers += change


#: By how many more of MLflow's wrappers are at work, and no original function, after what it
#: announces; after the error of an original it announces nothing more.
_CHANGES = {
    "log_patch_function_start": 1,
    "log_original_function_start": -1,
    "log_original_function_success": 1,
    "log_patch_function_success": -1,
    "log_patch_function_error": -1,
}


# ---- what a script does, seen from outside -------------------------------------------------------

_VALIDATION = "sklearn.model_selection._validation"
#: Attribute that MLflow's own autologging sets on a fitted estimator.
_MLFLOW_RUN = "_mlflow_run_id"
#: Of a search whose splits can be drawn only once.
_SPENT = object()
_PREDICTED = ("y_pred", "y_score", "y_proba", "y_prob")


@dataclass
class _LastFit:
    """What is known of an estimator's last fit by the script."""

    run_id: str | None = None
    training: Any = None
    seconds: float | None = None
    evaluated: set[Any] = field(default_factory=set)


class SklearnAutolog:
    """The wrappers around scikit-learn and what they remember; `start` changes the options of the
    only one."""

    sink: Sink

    def __init__(self) -> None:
        self.patches = Patches()
        self._clock = FitClock()
        self._fits: weakref.WeakKeyDictionary[Any, _LastFit] = weakref.WeakKeyDictionary()
        self._predictions: dict[int, tuple[Any, Any, Any]] = {}
        self._fitted: dict[str, None] = {}
        self._said: set[str] = set()
        atexit.register(self._say_not_logged)

    def start(self, sink: Sink, options: dict[str, Any], eval_data: tuple[Any, Any] | None) -> None:
        """Put the wrappers on, and say which functions were imported too early."""
        self._said.clear()
        if was_on := self.patches.active:
            sink.logged |= self.sink.logged
        self.sink, self.options, self.eval_data = sink, options, eval_data
        wrap, module = self.patches.wrap, sys.modules[_VALIDATION]
        self._clock.start()
        for owner in (module, model_selection):
            # cross_val_score calls cross_validate of its own module
            wrap(owner, "cross_validate", self.cross_validate, through=_VALIDATION)
            wrap(owner, "cross_val_predict", self.cross_val_predict)
        _import_scikit_learn()
        # every class of estimators by now, of other packages and the script too
        classes = _heirs(ClassifierMixin, RegressorMixin, Pipeline, BaseSearchCV)
        hooks = dict.fromkeys(("predict", *SCORE_METHODS), self.predict)
        for name, hook in {"fit": self.fit, "score": self.score, **hooks}.items():
            for owner, slot in places_to_wrap(classes, name):
                wrap(owner, slot, hook)
        for name, metric in inspect.getmembers(sklearn.metrics, inspect.isfunction):
            given = [*inspect.signature(metric).parameters][:2]
            if name in sklearn.metrics.__all__ and given in [["y_true", by] for by in _PREDICTED]:
                for owner in (sys.modules.get(metric.__module__), sklearn.metrics):
                    wrap(owner, name, self.metric)
        if not was_on and (earlier := self.patches.imported_earlier()):
            bound = [f"{', '.join(sorted(names))} in {where}" for where, names in earlier.items()]
            sink.warn(
                f"imported before autolog() and therefore not seen: {'; '.join(bound)}. Call "
                "autolog() before these imports, or call them through their module, as "
                "sklearn.model_selection.cross_validate(...)."
            )

    def stop(self) -> None:
        """Take the wrappers off, wait for writes, and say of which fits nothing was logged."""
        self._say_not_logged()
        self.patches.restore()
        self._clock.stop()
        _tell(last=True)

    def _say_not_logged(self) -> None:
        """What was fitted and never evaluated, for no labels were shown that are new to it."""
        fitted, self._fitted = self._fitted, {}
        if not self.patches.active:
            return
        if names := [name for name in fitted if name not in self.sink.logged]:
            self.sink.warn(
                f"nothing was logged of {some(names, 4)}: no held-out labels were seen. Call "
                "model.score(X_test, y_test) or a metric of sklearn.metrics on what it predicts, "
                "pass autolog(eval_data=(X_test, y_test)), or call mleval.cross_validate."
            )

    def _concerns(self, estimator: Any, Y: Any) -> bool:
        """Whether this is a classification, of label sets or of one label; why not is said once."""
        try:
            regressor, classifier = is_regressor(estimator), is_classifier(estimator)
            labels, columns = estimators.labels_of(Y), (*np.shape(Y), 0)[1]
        except Exception:  # no estimator: scikit-learn will say so
            return False
        if not regressor and (isinstance(labels, int) or (classifier and labels is not None)):
            return True
        why = "its targets are several columns that are not 0 and 1. Evaluate each by itself"
        if regressor:
            why = "it is a regressor, and mleval evaluates classifiers; MLflow's own logs it"
        text = f"nothing is logged of {type(estimator).__name__}: {why}."
        if (regressor or (classifier and columns > 1)) and text not in self._said:
            self._said.add(text)
            self.sink.warn(text)
        return False

    # ---- fit, then evaluate ----------------------------------------------------------------------

    def fit(self, original: Any, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        cv = _SPENT
        if is_search := isinstance(estimator, BaseSearchCV):
            with suppress(TypeError):  # a splitter with a random state is another after the fit
                cv = copy.deepcopy(estimator.cv)
        before = getattr(estimator, _MLFLOW_RUN, None)
        result, seconds = self._clock.timed(original, estimator, *args, **kwargs)
        X, Y = _data(args, kwargs)
        if not self._concerns(estimator, Y):
            return result
        with harmless("a fit", self.sink.fail):
            self._fitted[estimators.method_name(estimator)] = None
            of_mlflow = getattr(estimator, _MLFLOW_RUN, None)
            run_id = of_mlflow if of_mlflow != before else runs.target()
            self._fits[estimator] = _LastFit(run_id, estimators.sample(X, Y), seconds)
        if is_search:
            params = {k: v for k, v in kwargs.items() if k not in ("X", "y", "Y")}
            self._search(estimator, X, Y, cv, params)
        if self.eval_data is not None:
            self._held_out(estimator, *self.eval_data)
        return result

    def score(self, original: Any, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(estimator, *args, **kwargs)
        weights = args[2] if len(args) > 2 else kwargs.get("sample_weight")
        self._held_out(estimator, *_data(args, kwargs), weights)
        return result

    def predict(self, original: Any, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(estimator, *args, **kwargs)
        if isinstance(result, (np.ndarray, pd.DataFrame)) or sparse.issparse(result):
            key = id(owner := _owner(result))
            seen = weakref.ref(owner, lambda _: self._predictions.pop(key, None))
            self._predictions[key] = seen, estimator, _data(args, kwargs)[0]
        return result

    def metric(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        named = (kwargs[name] for name in _PREDICTED if name in kwargs)
        owner = _owner(args[1] if len(args) > 1 else next(named, None))
        seen, estimator, X = self._predictions.get(id(owner), (lambda: self, None, None))
        if seen() is owner:
            Y = args[0] if args else kwargs.get("y_true")
            self._held_out(estimator, X, Y, kwargs.get("sample_weight"))
        return result

    def _held_out(self, estimator: Any, X: Any, Y: Any, weights: Any = None) -> None:
        """Evaluate on data that is not the training data, once; with other weights, once more."""
        if not self._concerns(estimator, Y):
            return
        name = type(estimator).__name__
        what = f"{name} on held-out data"
        with harmless(what, self.sink.fail):
            if estimator not in self._fits and not self.patches.wraps(type(estimator), "fit"):
                raise RuntimeError("its class is newer than autolog(), which must see it fit.")
            fit = self._fits.setdefault(estimator, _LastFit())
            key = estimators.sample(X, Y)
            weighted = key if weights is None else (*key, *estimators.sample(weights))
            if key == fit.training or weighted in fit.evaluated:
                return
            fit.evaluated.add(weighted)

            def evaluation() -> Evaluated:
                labels, trained = estimators.labels_of(Y), getattr(estimator, "classes_", None)
                if isinstance(labels, list) and trained is not None:
                    labels = np.asarray(trained).tolist()
                predictions = _predicted_labels(estimator, X, Y, labels)
                if why := predictions.without_score:
                    self.sink.warn(f"no measure of scores: {name} has none ({why}).")
                options = self._options(labels) | {"fit_time": fit.seconds}
                return predictions.evaluated(Y, **options, sample_weight=weights), LogOptions()

            self.sink.log(what, evaluation, estimator, X, Y, fit.run_id, weights)

    def _options(self, labels: int | list[Any] | None) -> dict[str, Any]:
        """The options of `evaluate`; of one label with its classes."""
        if not isinstance(labels, list):
            return self.options
        return self.options | {"label_names": self.options["label_names"] or labels}

    # ---- folds -----------------------------------------------------------------------------------

    def _call(self, function: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
        """The call by name, with a splitter that remembers; None where it is none of ours."""
        try:
            call = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
            if not self._concerns(call["estimator"], call.get("y")):
                return None
            is_classes = is_classifier(call["estimator"])
            call["cv"] = _Recorded(check_cv(call.get("cv"), call["y"], classifier=is_classes))
            return call
        except Exception:
            return None

    def cross_validate(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        call = self._call(original, args, kwargs)
        if call is None:
            return original(*args, **kwargs)
        asked = call.get("return_estimator", False)
        result = original(**call | {"return_estimator": True})
        fitted = result["estimator"] if asked else result.pop("estimator")
        X, Y, splits = call["X"], call["y"], call["cv"].splits

        def folds(labels: Any) -> Folds:
            predictions = []
            for i, (model, (_, test)) in enumerate(zip(fitted, splits, strict=True)):
                try:
                    rows, truth = _safe_indexing(X, test), _safe_indexing(Y, test)
                    predictions.append(_predicted_labels(model, rows, truth, labels))
                except Exception as error:
                    raise RuntimeError(f"fold {i} gives no predictions ({error}).") from error
            return predictions, splits, result["fit_time"]

        self._log_folds("a cross-validation", call["estimator"], X, Y, folds)
        return result

    def cross_val_predict(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        call = self._call(original, args, kwargs)
        way = call and call.get("method", "predict")
        if call is None or way not in ("predict", *SCORE_METHODS):
            return original(*args, **kwargs)
        result = original(**call)
        X, Y, splits = call["X"], call["y"], call["cv"].splits

        def folds(labels: Any) -> Folds:
            of_sets = isinstance(labels, int)
            if way == "predict":
                whole = Predictions(None, estimators.predicted(result, labels))
            else:
                own = [*map(np.unique, np.asarray(Y).T)] if of_sets else labels
                score, is_probability = estimators.scored(result, way, own, labels)
                pred = score > SCORE_METHODS[way] if of_sets else None
                whole = Predictions(score, pred, is_probability=is_probability)
            return [whole.of_rows(test) for _, test in splits], splits, None

        self._log_folds("a cross-validated prediction", call["estimator"], X, Y, folds)
        return result

    def _search(
        self, search: BaseSearchCV, X: Any, Y: Any, cv: Any, params: dict[str, Any]
    ) -> None:
        """Cross-validate the winner once more, for a search keeps no models or predictions."""
        if not hasattr(search, "best_params_"):
            self.sink.warn(
                f"a search was not logged: it names no best candidate (refit={search.refit!r})."
            )
            return

        def folds(labels: Any) -> Folds:
            if cv is _SPENT:
                raise TypeError("its splits can be drawn only once. Pass cv as a list.")
            groups = params.pop("groups", None)
            best = clone(search.estimator).set_params(**clone(search.best_params_, safe=False))
            how = {"cv": cv, "n_jobs": search.n_jobs, "groups": groups, "params": params}
            return fold_predictions(best, X, Y, labels, **how)

        run_id, among = self._fits.get(search, _LastFit()).run_id, len(search.cv_results_["params"])
        self._log_folds("a search", search, X, Y, folds, run_id, selected_among=among)

    def _log_folds(
        self,
        what: str,
        estimator: Any,
        X: Any,
        Y: Any,
        folds: Callable[[Any], Folds],
        run_id: str | None = None,
        **facts: Any,
    ) -> None:
        """Log what was predicted for each fold, which is asked for with the labels of Y."""

        def evaluation() -> Evaluated:
            labels, truth = estimators.labels_of(Y), Y if hasattr(Y, "shape") else np.asarray(Y)
            predictions, splits, times = folds(labels)
            self.sink.warn(without_scores(predictions))
            ev = evaluate_folds(predictions, truth, splits, times, **self._options(labels))
            return ev, replace(split_facts(truth, splits), **facts)

        self.sink.log(what, evaluation, estimator, X, Y, run_id)


#: The first call imports all that scikit-learn has; further ones would walk through it again.
_import_scikit_learn = functools.cache(all_estimators)


def _heirs(*classes: type) -> set[type]:
    """These classes, and all that inherit from them."""
    return {*classes}.union(*(_heirs(*cls.__subclasses__()) for cls in classes))


def _owner(array: Any) -> Any:
    """The array that holds the numbers of this one, as of a column of probabilities."""
    base = getattr(array, "base", None)
    return base if isinstance(base, np.ndarray) else array


@dataclass(eq=False, repr=False)
class _Recorded:
    """A splitter that remembers what it yields, one by one, as its random state is shared."""

    _cv: Any
    splits: list[tuple[Any, Any]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cv, name)

    def split(self, *args: Any, **kwargs: Any) -> Any:
        for train, test in self._cv.split(*args, **kwargs):
            self.splits.append((train, test))
            yield train, test


def _data(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """X and Y of a method's call; X is always given, Y is called y or Y."""
    X = args[0] if args else kwargs.get("X")
    return X, args[1] if len(args) > 1 else kwargs.get("y", kwargs.get("Y"))


def _predicted_labels(estimator: Any, X: Any, Y: Any, labels: Any) -> Predictions:
    """What the estimator predicts for instances whose truth is Y."""
    # MLflow's own autologging would log this; it is left as it is where it is off for all
    is_off = autologging_utils._AUTOLOGGING_GLOBALLY_DISABLED
    unlogged = nullcontext() if is_off else autologging_utils.disable_autologging()
    # the script has been told already what its estimator warns of
    with warnings.catch_warnings(), unlogged:
        warnings.simplefilter("ignore")
        if isinstance(labels, list) and hasattr(estimator, "classes_"):
            refuse_unseen(Y, np.asarray(estimator.classes_).tolist())
        return estimators.predict(estimator, X, labels)


_sklearn = SklearnAutolog()
