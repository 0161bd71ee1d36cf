"""Cross-validation of classifiers with scikit-learn, evaluated in full and logged; nothing is
patched.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn import model_selection
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, get_tags

from mlflow_mleval.analysis.measure_intervals import with_clusters
from mlflow_mleval.errors import StoreError
from mlflow_mleval.evaluation import Evaluation, evaluate
from mlflow_mleval.measures.class_vectors import classes_of, is_vector
from mlflow_mleval.measures.digests import split_digest
from mlflow_mleval.measures.flat import CONVENTIONS, Conventions
from mlflow_mleval.measures.hierarchical import OPTIONS
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.naming import some
from mlflow_mleval.tracking import runs, schema, store
from mlflow_mleval.training.delivery import Delivery, bounded
from mlflow_mleval.training.estimator_names import dataset_name, method_name, params_of
from mlflow_mleval.training.log_evaluation import payload_of
from mlflow_mleval.training.scores import Predictions, predict, predict_classes, refuse_regressor
from mlflow_mleval.validation import binary_matrix, one_of, present, refuse_keywords


def cross_validate(
    estimator: Any,
    X: Any,
    Y: Any,
    *,
    cv: Any = 10,
    method: str | None = None,
    dataset: str | None = None,
    groups: Any = None,
    params: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    label_names: Sequence[Hashable] | None = None,
    hierarchy: Hierarchy | None = None,
    conventions: Conventions = "sklearn",
    log: bool = True,
    run_id: str | None = None,
    experiment_name: str | None = None,
    log_instances: bool = False,
    clusters: ArrayLike | None = None,
    **hierarchy_options: Any,
) -> Evaluation:
    """Cross-validate a classifier of label sets, or of one label: every measure on every fold, in
    one run.

    Each fold is fitted and predicted where scikit-learn fits it, so `n_jobs` speeds up both, and no
    fitted model is kept. Nothing is patched; MLflow's own autologging stays as silent as it is in
    scikit-learn's function.

    Parameters
    ----------
    estimator : object with ``fit`` and ``predict``
        Scores are taken from ``predict_proba``, else from ``decision_function``, in each shape that
        scikit-learn returns.
    X : N instances
        As the estimator takes them.
    Y : array, pandas.DataFrame or scipy.sparse of 0 and 1, shape (N, K); or vector of N classes
        A sparse one is made dense, because scikit-learn's cross-validation accepts nothing else.
    cv : int, splitter or iterable of (train, test)
        As in scikit-learn: a number of folds takes the rows in their order, without shuffling; of
        one label, stratified.
    method, dataset : str, optional
        What the run is called. By default the tags ``mleval.method`` and ``mleval.dataset`` of the
        run that it is logged to, else a short name of the estimator (its parameters become the
        run's), and the size of the data with a digest.
    groups, params, n_jobs
        As in `sklearn.model_selection.cross_validate`; `groups` goes to the splitter.
    label_names, hierarchy, conventions, **hierarchy_options
        As in `evaluate`.
    log : bool
        Whether the evaluation is written to a run: that of `run_id`, else the active one, else a
        new one.
    run_id, experiment_name, log_instances
        As in `log_evaluation`; a table of instances lets methods be compared instance by instance.
    clusters : array of shape (N,), optional
        Rows of `X` that belong together, as in `log_evaluation`; by default `groups`, if given.

    Returns
    -------
    Evaluation
        With folds 0..R-1. The index of `instances` holds the rows of `X`.

    Raises
    ------
    ValueError, TypeError
        `Y` is neither a matrix of 0 and 1 nor a vector of classes, the estimator is a regressor, a
        fold tests a class that it did not train on, or as raised by scikit-learn, the estimator or
        `evaluate`. Nothing was logged then.
    StoreError
        The store cannot be reached, or the run holds another result already; found out before the
        first fold. What goes wrong with logging after the last fold is a warning, and the
        evaluation is returned all the same.

    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, Y = make_multilabel_classification(60, n_classes=3, random_state=0)
    >>> cross_validate(KNeighborsClassifier(), X, Y, cv=5, log=False)
    Evaluation(60 instances, 3 labels, 5 folds, f1 0.7178, hamming_loss 0.2556)
    """
    further = (*OPTIONS, "train_labels", "probabilities")
    refuse_keywords(cross_validate, hierarchy_options, further)
    one_of(conventions, "conventions", CONVENTIONS)
    refuse_regressor(estimator)
    if is_vector(Y):
        found = np.unique(classes_of(Y, "Y")).tolist() if label_names is None else label_names
        n_labels = label_names = list(found)
    else:
        n_labels = binary_matrix(Y, "Y").shape[1]
    Y = Y if hasattr(Y, "shape") else np.asarray(Y)
    if log:
        target = runs.target(run_id) if experiment_name is None else None
        tags = bounded(lambda: runs.held(target, experiment_name))
        named = {} if runs.holds_result(tags) else tags
        method = method or named.get(schema.TAG_METHOD) or method_name(estimator, Y)
        dataset = dataset or named.get(schema.TAG_DATASET) or dataset_name(X, Y)
        refuse_other(tags, method, dataset)
    predictions, splits, fit_times = fold_predictions(
        estimator, X, Y, n_labels, cv=cv, groups=groups, params=params, n_jobs=n_jobs
    )
    if reason := without_scores(predictions):
        warnings.warn(store.redacted(reason), stacklevel=2)
    ev = evaluate_folds(
        predictions,
        Y,
        splits,
        fit_times,
        label_names=label_names,
        hierarchy=hierarchy,
        conventions=conventions,
        **hierarchy_options,
    )
    if (together := groups if clusters is None else clusters) is not None:
        ev = with_clusters(ev, np.asarray(together)[present(ev.instances).index])
    if log:
        payload = payload_of(
            ev,
            method=method,
            dataset=dataset,
            log_instances=log_instances,
            **split_facts(Y, splits),
        )
        payload = replace(payload, params=params_of(estimator))
        delivery = Delivery()
        delivery.send("the evaluation", payload, target, experiment_name)
        if delivery.warning:
            warnings.warn(f"{delivery.warning}. Or pass it to mleval.log_evaluation.", stacklevel=2)
    return ev


def fold_predictions(
    estimator: Any, X: Any, Y: Any, n_labels: int | list[Any], **options: Any
) -> tuple[list[Predictions], list[tuple[Any, Any]], Any]:
    """Predictions for each fold's test rows, the (train, test) rows of each fold, and the seconds
    to fit each.

    Of one label, `n_labels` are its classes. The options are those of scikit-learn's function.
    """
    found = model_selection.cross_validate(
        _Fold(estimator, n_labels),
        X,
        Y.toarray() if sparse.issparse(Y) else Y,
        scoring=_predict_fold,
        return_estimator=True,
        return_indices=True,
        error_score="raise",
        **options,
    )
    splits = list(zip(found["indices"]["train"], found["indices"]["test"], strict=True))
    return [fold.predictions_ for fold in found["estimator"]], splits, found["fit_time"]


def evaluate_folds(
    predictions: Sequence[Predictions],
    Y: Any,
    splits: Sequence[tuple[Any, Any]],
    fit_times: Any = None,
    **options: Any,
) -> Evaluation:
    """One Evaluation of the predictions for each fold's test rows, with the options of
    `evaluate`.
    """
    tests = [test for _, test in splits]
    rows, folds = np.concatenate(tests), range(len(tests))
    if is_vector(Y):
        options["probabilities"] = None if all(p.is_probability for p in predictions) else False
        if not without_scores(predictions) and len({p.y_score.ndim for p in predictions}) > 1:
            predictions = [
                replace(p, y_score=None, without_score="other folds know more classes")
                for p in predictions
            ]
    ev = evaluate(
        _safe_indexing(Y, rows),
        None if without_scores(predictions) else _stacked([p.y_score for p in predictions]),
        _stacked([p.y_pred for p in predictions]),
        folds=np.repeat(folds, [len(test) for test in tests]),
        fit_time=None
        if fit_times is None
        else dict(zip(folds, map(float, fit_times), strict=True)),
        predict_time={i: p.predict_time for i, p in enumerate(predictions)},
        **options,
    )
    if ev.instances is not None:
        ev.instances.index = rows
    return replace(ev, split=split_digest(tests))


def without_scores(predictions: Sequence[Predictions]) -> str:
    """Why there are no measures of scores; empty where every fold has scores."""
    reasons = [f"fold {i}: {p.without_score}" for i, p in enumerate(predictions) if p.without_score]
    return (
        f"no measure of scores: {len(reasons)} of {len(predictions)} folds have none "
        f"({reasons[0]})."
        if reasons
        else ""
    )


def split_facts(Y: Any, splits: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    """What pairs the folds of one run with those of another, for `log_evaluation`."""
    return {
        "y_true": Y,
        "test_indices": {i: test for i, (_, test) in enumerate(splits)},
        "n_train": {i: len(train) for i, (train, _) in enumerate(splits)},
    }


def refuse_other(tags: Mapping[str, str], method: str, dataset: str) -> None:
    """Raise StoreError where the run holds the result of another method or dataset."""
    held = tags.get(schema.TAG_METHOD), tags.get(schema.TAG_DATASET)
    if runs.holds_result(tags) and held != (method, dataset):
        raise StoreError(
            f"the run holds {held[0]} on {held[1]} already, and a run is one method on one "
            f"dataset. Start another run for {method} on {dataset}."
        )


class _Fold(BaseEstimator):
    """An estimator that is replaced by its predictions once these are made, so that no fitted model
    travels or stays.
    """

    def __init__(self, estimator: Any, n_labels: int | list[Any]) -> None:
        self.estimator = estimator
        self.n_labels = n_labels

    def __sklearn_tags__(self) -> Any:
        return (
            get_tags(self.estimator)
            if hasattr(self.estimator, "__sklearn_tags__")
            else super().__sklearn_tags__()
        )

    def get_metadata_routing(self) -> Any:
        return self.estimator.get_metadata_routing()

    def fit(self, X: Any, y: Any, **params: Any) -> _Fold:
        self.estimator.fit(X, y, **params)
        if isinstance(self.n_labels, list):
            self.trained_ = set(np.unique(classes_of(y, "Y")).tolist())
        return self


def _predict_fold(fold: _Fold, X: Any, y: Any) -> float:
    """A scorer that keeps the predictions."""
    if isinstance(fold.n_labels, list):
        refuse_unseen(y, fold.trained_)
        fold.predictions_ = predict_classes(fold.estimator, X, fold.n_labels)
    else:
        fold.predictions_ = predict(fold.estimator, X, fold.n_labels)
    fold.estimator = None
    return 0.0


def refuse_unseen(y: Any, trained: Collection[Any]) -> None:
    """Raise ValueError where a class is tested that was not trained on."""
    tested = classes_of(y, "Y")
    unseen = [name for name in np.unique(tested).tolist() if name not in trained]
    if unseen:
        raise ValueError(
            f"`Y` must hold classes that were trained on, got {some(map(repr, unseen), 8)} among "
            f"the test rows only ({int(np.isin(tested, unseen).sum())} such rows). Take fewer or "
            "stratified folds, or leave these instances out."
        )


def _stacked(parts: Sequence[Any]) -> Any:
    return (
        sparse.vstack(parts, format="csr")
        if any(map(sparse.issparse, parts))
        else np.concatenate(parts)
    )
