"""What a script does with scikit-learn, seen from outside: fits, scores, metrics, cross-validation
and searches.
"""

from __future__ import annotations

import atexit
import copy
import inspect
import sys
import warnings
import weakref
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import sklearn.metrics
from scipy import sparse
from sklearn import model_selection
from sklearn.base import ClassifierMixin, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, all_estimators

from mlflow_mleval.evaluation import Evaluation, evaluate
from mlflow_mleval.sentences import some
from mlflow_mleval.store import runs
from mlflow_mleval.training.autolog.sink import (
    FitClock,
    Patches,
    Sink,
    flush,
    imported_earlier,
    places,
)
from mlflow_mleval.training.cross_validation import (
    evaluate_folds,
    fold_predictions,
    refuse_unseen,
    split_facts,
    without_scores,
)
from mlflow_mleval.training.delivery import without_mlflow
from mlflow_mleval.training.estimators import (
    SCORE_METHODS,
    Predictions,
    as_matrix,
    columns_of_classes,
    labels_of,
    method_name,
    predict,
    sample,
)
from mlflow_mleval.training.log_evaluation import LogOptions

_VALIDATION = "sklearn.model_selection._validation"
#: Attribute that MLflow's own autologging sets on a fitted estimator.
_MLFLOW_RUN = "_mlflow_run_id"
_NONE, _SPENT = object(), object()
_PREDICTED = ("y_pred", "y_score", "y_proba", "y_prob")


@dataclass
class _Fit:
    """What is known of an estimator's last fit by the script."""

    run_id: str | None = None
    training: Any = None
    seconds: float | None = None
    evaluated: set[Any] = field(default_factory=set)


class SklearnAutolog:
    """The wrappers around scikit-learn and what they remember; there is one, and `start` changes
    its options.

    Attributes
    ----------
    sink : Sink
        Where evaluations go.
    options : dict
        Arguments of `evaluate`.
    eval_data : tuple (X, Y) or None
        Evaluate on it after each fit.
    searches : bool
        Whether the winner of a search is cross-validated once more, on the search's folds, and
        logged.
    """

    sink: Sink

    def __init__(self) -> None:
        self.patches = Patches()
        self._clock = FitClock()
        self._fits: weakref.WeakKeyDictionary[Any, _Fit] = weakref.WeakKeyDictionary()
        self._predictions: dict[int, tuple[Any, Any, Any]] = {}
        self._fitted: dict[str, None] = {}
        self._said: set[str] = set()
        atexit.register(self._say_not_logged)

    def start(
        self, sink: Sink, options: dict[str, Any], eval_data: tuple[Any, Any] | None, searches: bool
    ) -> None:
        """Put the wrappers on, and say which functions were imported too early."""
        self._said.clear()
        if was_on := self.patches.active:
            sink.logged |= self.sink.logged
        self.sink, self.options = sink, options
        self.eval_data, self.searches = eval_data, searches
        wrap = self.patches.wrap
        self._clock.start()
        for name in ("cross_validate", "cross_val_predict"):
            for owner in (sys.modules[_VALIDATION], model_selection):
                # cross_val_score calls cross_validate of its own module
                wrap(
                    owner,
                    name,
                    getattr(self, name),
                    through=_VALIDATION if name == "cross_validate" else "",
                )
        hooks = {"fit": self.fit, "score": self.score} | dict.fromkeys(
            ("predict", *SCORE_METHODS), self.predict
        )
        classes = _estimators()
        for name, hook in hooks.items():
            for owner, slot in places(classes, name):
                wrap(owner, slot, hook)
        for name in sklearn.metrics.__all__:
            metric = getattr(sklearn.metrics, name)
            if inspect.isfunction(metric) and _is_metric(metric):
                wrap(sys.modules.get(metric.__module__, sklearn.metrics), name, self.metric)
                wrap(sklearn.metrics, name, self.metric)
        if not was_on:
            self._say_imported_earlier()

    def stop(self) -> None:
        """Take the wrappers off; wait for what is being written, and say of which fits nothing was
        logged.
        """
        if self.patches.active:
            self._say_not_logged()
        self.patches.restore()
        self._clock.stop()
        flush()

    def _say_imported_earlier(self) -> None:
        earlier = imported_earlier(self.patches.originals())
        if earlier:
            names = "; ".join(
                f"{', '.join(sorted(names))} in {module}" for module, names in earlier.items()
            )
            self.sink.warn(
                f"imported before autolog() and therefore not seen: {names}. Call autolog() "
                "before these imports, or call them through their module, as "
                "sklearn.model_selection.cross_validate(...)."
            )

    def _say_not_logged(self) -> None:
        """What was fitted and never evaluated: the script has shown no labels that the model had
        not seen.
        """
        names = (
            [name for name in self._fitted if name not in self.sink.logged]
            if self.patches.active
            else []
        )
        self._fitted.clear()
        if names:
            self.sink.warn(
                f"nothing was logged of {some(names, 4)}: no held-out labels were seen. Call "
                "model.score(X_test, y_test) or a metric of sklearn.metrics on what it predicts, "
                "pass autolog(eval_data=(X_test, y_test)), or call mleval.cross_validate."
            )

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.sink.warn(text)

    def _say_why_not(self, estimator: Any, Y: Any) -> None:
        """Why a fit is none of ours, once."""
        name = type(estimator).__name__
        try:
            regressor, classifier = is_regressor(estimator), is_classifier(estimator)
            columns = (*np.shape(Y), 0)[1]
        except Exception:  # no estimator: scikit-learn will say so
            return
        if regressor:
            self._say_once(
                f"nothing is logged of {name}: it is a regressor, and mleval evaluates "
                "classifiers. MLflow's own autologging, mlflow.sklearn.autolog(), logs "
                "regression."
            )
        elif classifier and columns > 1:
            self._say_once(
                f"nothing is logged of {name}: its targets are several columns that are not 0 "
                "and 1. Evaluate each column by itself: mleval.evaluate(y[:, i], "
                "y_pred=predicted[:, i])."
            )

    # ---- fit, then evaluate ----------------------------------------------------------------------

    def fit(self, original: Any, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        cv = (
            _copied_cv(estimator)
            if self.searches and isinstance(estimator, BaseSearchCV)
            else _NONE
        )
        before = getattr(estimator, _MLFLOW_RUN, None)
        result, seconds = self._clock.timed(original, estimator, *args, **kwargs)
        X, Y = _data(args, kwargs)
        if not _concerns(estimator, Y):
            self._say_why_not(estimator, Y)
        else:
            try:
                self._fitted[method_name(estimator)] = None
                of_mlflow = getattr(estimator, _MLFLOW_RUN, None)
                run_id = of_mlflow if of_mlflow != before else runs.target()
                self._fits[estimator] = _Fit(run_id, sample(X, Y), seconds)
            except Exception as error:
                self.sink.warn(f"a fit was not noted. {type(error).__name__}: {error}")
            if cv is not _NONE:
                self._search(
                    estimator,
                    X,
                    Y,
                    cv,
                    {k: v for k, v in kwargs.items() if k not in ("X", "y", "Y")},
                )
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
            # A column of it, as of probabilities, is another array with the same base.
            keys = {id(result), id(getattr(result, "base", None))}

            def forget(_: Any) -> None:
                for key in keys:
                    self._predictions.pop(key, None)

            reference = weakref.ref(result, forget)
            self._predictions |= dict.fromkeys(
                keys - {id(None)}, (reference, estimator, _data(args, kwargs)[0])
            )
        return result

    def metric(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        predicted = (
            args[1]
            if len(args) > 1
            else next((kwargs[name] for name in _PREDICTED if name in kwargs), None)
        )
        base = getattr(predicted, "base", None)
        reference, estimator, X = self._predictions.get(
            id(predicted), self._predictions.get(id(base), (None, None, None))
        )
        seen = None if reference is None else reference()
        owners = [own for own in (seen, getattr(seen, "base", None)) if own is not None]
        if any(own is predicted or own is base for own in owners):
            Y = args[0] if args else kwargs.get("y_true")
            self._held_out(estimator, X, Y, kwargs.get("sample_weight"))
        return result

    def _held_out(self, estimator: Any, X: Any, Y: Any, weights: Any = None) -> None:
        """Evaluate on data that is not the training data, once; with other weights, once more."""
        if not _concerns(estimator, Y):
            return
        what = f"{type(estimator).__name__} on held-out data"
        with self.sink.harmless(what):
            if estimator not in self._fits and not self.patches.wraps(type(estimator), "fit"):
                raise RuntimeError(
                    "its class is newer than autolog(), which has not seen it fit. Call "
                    "autolog() after it."
                )
            fit = self._fits.setdefault(estimator, _Fit())
            key = sample(X, Y)
            weighted = key if weights is None else (*key, *sample(weights))
            if key == fit.training or weighted in fit.evaluated:
                return
            fit.evaluated.add(weighted)

            def evaluation() -> tuple[Evaluation, LogOptions]:
                labels = _labels(Y, estimator)
                predictions = _predicted(estimator, X, Y, labels)
                if predictions.without_score:
                    self.sink.warn(
                        f"no measure of scores: {type(estimator).__name__} has none "
                        f"({predictions.without_score})."
                    )
                options = self._options(labels) | {"fit_time": fit.seconds}
                ev = predictions.evaluated(Y, **options, sample_weight=weights)
                return ev, LogOptions()

            self.sink.log(what, evaluation, estimator, X, Y, fit.run_id, weights)

    def _options(self, labels: int | list[Any] | None) -> dict[str, Any]:
        """The options of `evaluate`; of one label with its classes."""
        if not isinstance(labels, list):
            return self.options
        return self.options | {"label_names": self.options["label_names"] or labels}

    # ---- folds -----------------------------------------------------------------------------------

    def cross_validate(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        call = _arguments(original, args, kwargs)
        if call is None:
            self._say_why_not(*_data_of_call(args, kwargs))
            return original(*args, **kwargs)
        asked = call.get("return_estimator", False)
        result = original(**call | {"return_estimator": True})
        estimators = result["estimator"] if asked else result.pop("estimator")
        X, Y, splits = call["X"], call["y"], call["cv"].splits

        def evaluation() -> tuple[Evaluation, LogOptions]:
            labels, predictions = labels_of(Y), []
            for i, (fitted, (_, test)) in enumerate(zip(estimators, splits, strict=True)):
                try:
                    rows, truth = _safe_indexing(X, test), _safe_indexing(Y, test)
                    predictions.append(_predicted(fitted, rows, truth, labels))
                except Exception as error:
                    raise RuntimeError(f"fold {i} gives no predictions ({error}).") from error
            return self._folds(predictions, Y, splits, result["fit_time"])

        self.sink.log("a cross-validation", evaluation, call["estimator"], X, Y, None)
        return result

    def cross_val_predict(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        call = _arguments(original, args, kwargs)
        if call is None:
            self._say_why_not(*_data_of_call(args, kwargs))
            return original(*args, **kwargs)
        way = call.get("method", "predict")
        if way not in ("predict", *SCORE_METHODS):
            return original(*args, **kwargs)
        result = original(**call)
        X, Y, splits = call["X"], call["y"], call["cv"].splits

        def evaluation() -> tuple[Evaluation, LogOptions]:
            truth, labels = np.asarray(Y), labels_of(Y)
            options = dict(self._options(labels))
            folds = np.empty(len(truth), dtype=int)
            for number, (_, test) in enumerate(splits):
                folds[test] = number
            scores, predicted = (None, result) if way == "predict" else (result, None)
            if isinstance(labels, list):
                if scores is not None:
                    scores, options["probabilities"] = columns_of_classes(
                        scores, way, labels, labels
                    )
            else:
                matrix = as_matrix(
                    result, truth.shape[1], [np.unique(column) for column in truth.T]
                )
                scores, predicted = (
                    (None, matrix) if way == "predict" else (matrix, matrix > SCORE_METHODS[way])
                )
            return evaluate(Y, scores, predicted, folds=folds, **options), split_facts(Y, splits)

        self.sink.log("a cross-validated prediction", evaluation, call["estimator"], X, Y, None)
        return result

    def _search(
        self, search: BaseSearchCV, X: Any, Y: Any, cv: Any, params: dict[str, Any]
    ) -> None:
        """Cross-validate the winner once more: a search keeps neither its models nor its
        predictions.
        """
        if not hasattr(search, "best_params_"):
            self.sink.warn(
                f"a search was not logged: it names no best candidate (refit={search.refit!r})."
            )
            return

        def evaluation() -> tuple[Evaluation, LogOptions]:
            if cv is _SPENT:
                raise TypeError(
                    "its splits can be drawn only once. Pass cv as a list or a splitter."
                )
            groups = params.pop("groups", None)
            labels: Any = labels_of(Y)
            predictions, splits, times = fold_predictions(
                best, X, Y, labels, cv=cv, n_jobs=search.n_jobs, groups=groups, params=params
            )
            ev, facts = self._folds(predictions, Y, splits, times)
            return ev, replace(facts, selected_among=len(search.cv_results_["params"]))

        best = clone(search.estimator).set_params(**clone(search.best_params_, safe=False))
        self.sink.log("a search", evaluation, search, X, Y, self._fits.get(search, _Fit()).run_id)

    def _folds(
        self, predictions: list[Predictions], Y: Any, splits: Any, times: Any
    ) -> tuple[Evaluation, LogOptions]:
        if reason := without_scores(predictions):
            self.sink.warn(reason)
        Y = Y if hasattr(Y, "shape") else np.asarray(Y)
        ev = evaluate_folds(predictions, Y, splits, times, **self._options(labels_of(Y)))
        return ev, split_facts(Y, splits)


#: The first call imports all that scikit-learn has; further ones would walk through it again.
_import_scikit_learn = cache(all_estimators)


def _estimators() -> set[type]:
    """Every class of classifiers, regressors, pipelines and searches by now, of other packages and
    the script too.
    """
    _import_scikit_learn()
    classes: set[type] = {ClassifierMixin, RegressorMixin, Pipeline, BaseSearchCV}
    new = list(classes)
    while new:
        heirs: list[type] = new.pop().__subclasses__()
        new = [heir for heir in heirs if heir not in classes] + new
        classes.update(new)
    return classes


class _Recorded:
    """A splitter that remembers what it yields; splits are still drawn one by one, as the random
    state may be shared.
    """

    def __init__(self, cv: Any) -> None:
        self._cv = cv
        self.splits: list[tuple[Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cv, name)

    def split(self, *args: Any, **kwargs: Any) -> Any:
        for train, test in self._cv.split(*args, **kwargs):
            self.splits.append((train, test))
            yield train, test

    def get_n_splits(self, *args: Any, **kwargs: Any) -> int:
        return self._cv.get_n_splits(*args, **kwargs)


def _copied_cv(search: BaseSearchCV) -> Any:
    """The splitter as it is before the fit: one with a random state of its own is another one
    afterwards.
    """
    try:
        return copy.deepcopy(search.cv)
    except TypeError:
        return _SPENT


def _arguments(function: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """The call by name, with a splitter that remembers; None where it does not concern us or
    scikit-learn will refuse it.
    """
    try:
        call = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
        if not _concerns(call["estimator"], call.get("y")):
            return None
        call["cv"] = _Recorded(
            check_cv(call.get("cv"), call["y"], classifier=is_classifier(call["estimator"]))
        )
        return call
    except Exception:
        return None


def _data(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """X and Y of a method's call; X is always given, Y is called y or Y."""
    X = args[0] if args else kwargs.get("X")
    return X, args[1] if len(args) > 1 else kwargs.get("y", kwargs.get("Y"))


def _data_of_call(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Estimator and Y of a call of a cross-validation."""
    return args[0] if args else kwargs.get("estimator"), args[2] if len(args) > 2 else kwargs.get(
        "y"
    )


def _concerns(estimator: Any, Y: Any) -> bool:
    """Whether this is a classification of label sets, or of one label of several classes."""
    try:
        labels = None if Y is None or is_regressor(estimator) else labels_of(Y)
        return isinstance(labels, int) or (labels is not None and is_classifier(estimator))
    except Exception:
        return False


def _labels(Y: Any, estimator: Any) -> Any:
    """The number of labels; of one label the classes that the estimator knows."""
    labels, trained = labels_of(Y), getattr(estimator, "classes_", None)
    known = isinstance(labels, list) and trained is not None
    return np.asarray(trained).tolist() if known else labels


def _predicted(estimator: Any, X: Any, Y: Any, labels: Any) -> Predictions:
    """What the estimator predicts for instances whose truth is Y."""
    with (
        warnings.catch_warnings(),
        without_mlflow(),
    ):  # the script has been told already what its estimator warns of
        warnings.simplefilter("ignore")
        if isinstance(labels, list) and hasattr(estimator, "classes_"):
            refuse_unseen(Y, np.asarray(estimator.classes_).tolist())
        return predict(estimator, X, labels)


def _is_metric(function: Any) -> bool:
    names = list(inspect.signature(function).parameters)
    return names[:1] == ["y_true"] and names[1:2] != [] and names[1] in _PREDICTED
