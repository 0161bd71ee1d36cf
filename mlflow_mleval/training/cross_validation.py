"""Cross-validation with scikit-learn, evaluated in full and logged; nothing is patched."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn import model_selection
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, get_tags

from mlflow_mleval.errors import StoreError
from mlflow_mleval.evaluation import Evaluation, evaluate
from mlflow_mleval.measures.hierarchical import OPTIONS
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.inputs import split_digest
from mlflow_mleval.measures.one_label import classes_of, is_vector
from mlflow_mleval.measures.registry import CONVENTIONS, MEASURES, SETS, Conventions, known_measures
from mlflow_mleval.sentences import some
from mlflow_mleval.store import runs, schema, store
from mlflow_mleval.training.delivery import Delivery, deliver, in_bounded_time
from mlflow_mleval.training.estimators import (
    Predictions,
    dataset_name,
    method_name,
    params_of,
    predict,
    refuse_regressor,
)
from mlflow_mleval.training.log_evaluation import LogOptions, payload_of
from mlflow_mleval.validation import (
    binary_matrix,
    instance_weights,
    one_of,
    present,
    refuse_keywords,
)

#: Training and test rows of each fold.
Splits: TypeAlias = Sequence[tuple[Any, Any]]


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
    sample_weight: ArrayLike | None = None,
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
        What the run is called. By default a short name of the estimator (its parameters become the
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
    sample_weight : array of shape (N,), optional
        How much each row of `X` counts in the evaluation, as in `evaluate`. What the training is to
        heed goes by `params`.

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
    refuse_keywords(cross_validate, hierarchy_options, (*OPTIONS, "train_labels", "probabilities"))
    one_of(conventions, "conventions", CONVENTIONS)
    refuse_regressor(estimator)
    n_labels: int | list[Any]
    if is_vector(Y):
        classes = np.unique(classes_of(Y, "Y")).tolist() if label_names is None else label_names
        label_names = n_labels = list(classes)
    else:
        n_labels = binary_matrix(Y, "Y").shape[1]
    Y = Y if hasattr(Y, "shape") else np.asarray(Y)
    if sample_weight is not None:
        sample_weight = instance_weights(sample_weight, Y.shape[0])
    target = runs.target(run_id) if experiment_name is None else None
    if log:
        tags = in_bounded_time(lambda: runs.held(target, experiment_name))
        method = method or method_name(estimator)
        dataset = dataset or dataset_name(X, Y, sample_weight)
        held = tags.get(schema.TAG_METHOD), tags.get(schema.TAG_DATASET)
        if runs.holds_result(tags) and held != (method, dataset):
            raise StoreError(
                f"the run holds {held[0]} on {held[1]} already, and a run is one method on one "
                f"dataset. Start another run for {method} on {dataset}."
            )
    predictions, splits, fit_times = fold_predictions(
        estimator, X, Y, n_labels, cv=cv, groups=groups, params=params, n_jobs=n_jobs
    )
    if reason := without_scores(predictions):
        warnings.warn(store.redacted(reason), stacklevel=2)
    options = hierarchy_options | {"label_names": label_names, "hierarchy": hierarchy}
    options |= {"conventions": conventions, "sample_weight": sample_weight}
    ev = evaluate_folds(predictions, Y, splits, fit_times, **options)
    clusters = groups if clusters is None else clusters
    if clusters is not None:
        from mlflow_mleval.analysis.measure_intervals import with_clusters

        ev = with_clusters(ev, np.asarray(clusters)[present(ev.instances).index])
    if log:
        facts = replace(split_facts(Y, splits), log_instances=log_instances)
        names = present(method), present(dataset)
        payload = payload_of(ev, *names, facts, params=params_of(estimator))
        if warning := Delivery().send("the evaluation", payload, target, experiment_name):
            warnings.warn(f"{warning}. Or pass it to mleval.log_evaluation.", stacklevel=2)
    return ev


def fold_predictions(
    estimator: Any, X: Any, Y: Any, n_labels: int | list[Any], **options: Any
) -> tuple[list[Predictions], Splits, Any]:
    """Predictions for each fold's test rows, the (train, test) rows, and the seconds to fit each.
    Of one label, `n_labels` are its classes; the options are those of scikit-learn's function."""
    fold, dense = _Fold(estimator, n_labels), Y.toarray() if sparse.issparse(Y) else Y
    options |= {"scoring": _Fold.score, "return_estimator": True, "return_indices": True}
    results = model_selection.cross_validate(fold, X, dense, error_score="raise", **options)
    splits = list(zip(*(results["indices"][side] for side in ("train", "test")), strict=True))
    return [fold.predictions_ for fold in results["estimator"]], splits, results["fit_time"]


def evaluate_folds(
    predictions: Sequence[Predictions], Y: Any, splits: Splits, fit_times: Any, **options: Any
) -> Evaluation:
    """One Evaluation of each fold's predictions; weights are those of the rows of `Y`."""
    tests = [test for _, test in splits]
    rows = np.concatenate(tests)
    if is_vector(Y) and not all(p.is_probability for p in predictions):
        options["probabilities"] = False
    if options.get("sample_weight") is not None:
        options["sample_weight"] = np.asarray(options["sample_weight"])[rows]
    times: Any = {i: p.predict_time for i, p in enumerate(predictions)}
    ev = evaluate(
        _safe_indexing(Y, rows),
        _stacked([p.y_score for p in predictions]),
        _stacked([p.y_pred for p in predictions]),
        folds=np.repeat(np.arange(len(tests)), [len(test) for test in tests]),
        fit_time=fit_times if fit_times is None else dict(enumerate(map(float, fit_times))),
        predict_time=None if None in times.values() else times,
        **options,
    )
    if ev.instances is not None:
        ev.instances.index = rows
    return replace(ev, split=split_digest(tests))


def _stacked(parts: list[Any]) -> Any:
    """Those of all folds; none where a fold has none, or knows fewer classes than others."""
    if parts[0] is None or len(set(map(np.ndim, parts))) > 1:
        return None
    if any(map(sparse.issparse, parts)):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


def without_scores(predictions: Sequence[Predictions]) -> str:
    """Why there are no measures of scores; empty where every fold has scores."""
    reasons = [f"fold {i}: {p.without_score}" for i, p in enumerate(predictions) if p.without_score]
    if not reasons:
        return ""
    of = f"{len(reasons)} of {len(predictions)}"
    return f"no measure of scores: {of} folds have none ({reasons[0]})."


def split_facts(Y: Any, splits: Splits) -> LogOptions:
    """What pairs the folds of one run with those of another."""
    return LogOptions(
        truth=Y,
        test_indices={i: test for i, (_, test) in enumerate(splits)},
        n_train={i: len(train) for i, (train, _) in enumerate(splits)},
    )


@dataclass(eq=False, repr=False)
class _Fold(BaseEstimator):
    """An estimator that gives way to its predictions, so that no fitted model travels."""

    estimator: Any
    n_labels: int | list[Any]

    def __sklearn_tags__(self) -> Any:
        if hasattr(self.estimator, "__sklearn_tags__"):
            return get_tags(self.estimator)
        return super().__sklearn_tags__()

    def get_metadata_routing(self) -> Any:
        return self.estimator.get_metadata_routing()

    def fit(self, X: Any, y: Any, **params: Any) -> _Fold:
        self.estimator.fit(X, y, **params)
        if isinstance(self.n_labels, list):
            self.trained_ = set(np.unique(classes_of(y, "Y")).tolist())
        return self

    def score(self, X: Any, y: Any) -> float:
        """A score that tells nothing: the predictions are kept."""
        if isinstance(self.n_labels, list):
            refuse_unseen(y, self.trained_)
        self.predictions_ = predict(self.estimator, X, self.n_labels)
        self.estimator = None
        return 0.0


def refuse_unseen(y: Any, trained: Collection[Any]) -> None:
    """Raise ValueError where a class is tested that was not trained on."""
    tested = classes_of(y, "Y")
    if unseen := [name for name in np.unique(tested).tolist() if name not in trained]:
        raise ValueError(
            f"`Y` must hold classes that were trained on, got {some(map(repr, unseen), 8)} among "
            f"the test rows only ({int(np.isin(tested, unseen).sum())} such rows). Take fewer or "
            "stratified folds, or leave these instances out."
        )


# ---- scoring, and searches that were scored so ---------------------------------------------------


@dataclass(frozen=True)
class Scoring:
    """What `scoring` returns: ``(estimator, X, Y) -> dict of str to float``."""

    measures: tuple[str, ...] | None
    conventions: Conventions = "sklearn"
    hierarchy: Hierarchy | None = None
    hierarchy_options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, estimator: Any, X: Any, Y: Any) -> dict[str, float]:
        refuse_regressor(estimator)
        one = is_vector(Y)
        options: dict[str, Any] = {"conventions": self.conventions, "hierarchy": self.hierarchy}
        options |= {"instances": False, **self.hierarchy_options}
        if one:
            options["label_names"] = classes = np.asarray(estimator.classes_).tolist()
            refuse_unseen(Y, classes)
        predictions = predict(estimator, X, classes if one else Y.shape[1])
        ev = predictions.evaluated(Y, **options)
        names = self.measures
        if names is None:
            names = tuple(SETS["one-label" if one else "sixteen"])
            if predictions.y_score is None:
                of_scores = ("probability", "curve") if one else ("ranking",)
                names = tuple(m for m in names if MEASURES[m].family not in of_scores)
            names += tuple(m for m in ev.measures if m in SETS["hierarchical"])
        values: dict[str, Any] = dict.fromkeys(names, np.nan) | ev.measures
        return {scorer_key(m): MEASURES[m].sign * values[m] for m in names}


def scoring(
    measures: Iterable[str] | None = None,
    *,
    conventions: Conventions = "sklearn",
    hierarchy: Hierarchy | None = None,
    **hierarchy_options: Any,
) -> Scoring:
    """All measures at once for scikit-learn's ``scoring=``: in `cross_validate`, in searches, with
    any `n_jobs`.

    scikit-learn takes the larger value for the better one. A measure of which the smaller is better
    is therefore negated and called ``neg_<measure>``, as scikit-learn's own are. Searches need to
    be told which decides: ``refit="micro_f1"``.

    Parameters
    ----------
    measures : iterable of str, optional
        Measures or sets of them. By default the sixteen flat ones, of one label the set one-label,
        without those of scores where the estimator has none, and with a hierarchy the hierarchical
        ones. One that cannot be computed is NaN.
    conventions, hierarchy, **hierarchy_options
        As in `evaluate`; with a hierarchy, `Y` must be a DataFrame with its classes as columns.

    Returns
    -------
    Scoring
        A picklable callable.

    Raises
    ------
    ValueError
        A measure is unknown, or is a cost: scikit-learn measures these itself.

    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.model_selection import cross_validate
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, Y = make_multilabel_classification(60, n_classes=3, random_state=0)
    >>> scores = cross_validate(KNeighborsClassifier(), X, Y, cv=3, scoring=scoring(["f1", "hamming_loss"]))
    >>> sorted(scores)
    ['fit_time', 'score_time', 'test_f1', 'test_neg_hamming_loss']
    """  # noqa: E501
    one_of(conventions, "conventions", CONVENTIONS)
    if measures is not None:
        measures = tuple(known_measures(measures, costs=False))
    return Scoring(measures, conventions, hierarchy, hierarchy_options)


def scorer_key(measure: str) -> str:
    """What scikit-learn's results call a measure: the larger must be the better."""
    return f"neg_{measure}" if MEASURES[measure].sign < 0 else measure


def log_search(
    search: Any,
    *,
    dataset: str,
    method: str | None = None,
    run_id: str | None = None,
    experiment_name: str | None = None,
) -> str:
    """Log a fitted search that was scored by `scoring`: the best candidate's measures on every
    fold.

    The values of a candidate that was chosen among many on these very folds are optimistic. The tag
    ``mleval.selected_among`` tells among how many; evaluate the winner on held-out data to know how
    good it is.

    Parameters
    ----------
    search : GridSearchCV, RandomizedSearchCV or the like
        Fitted with ``scoring=mleval.scoring()`` and ``refit`` set to a measure.
    dataset : str
    method : str, optional
        By default a short name of the estimator.
    run_id, experiment_name : str, optional
        As in `log_evaluation`.

    Returns
    -------
    str
        The run's id.

    Raises
    ------
    ValueError
        The search is not fitted, was not scored by `scoring`, or has no best candidate.
    StoreError
        The run holds another result already; or the store has failed, and the result is kept in the
        folder that the text names.
    """
    if (results := getattr(search, "cv_results_", None)) is None:
        raise ValueError("`search` must be fitted, got one without cv_results_.")
    if not isinstance(search.scoring, Scoring):
        raise ValueError(
            f"`search` must be scored by mleval.scoring(), got scoring={search.scoring!r}. Pass "
            "refit='micro_f1' with it, or cross-validate the winner: mleval.cross_validate."
        )
    if not hasattr(search, "best_index_"):
        raise ValueError(f"`search` must have a best candidate, got refit={search.refit!r}.")
    best, folds = search.best_index_, range(search.n_splits_)
    measures = [m for m in MEASURES if f"split0_test_{scorer_key(m)}" in results]
    by_fold = {}
    for m in measures:
        of_folds = [float(results[f"split{i}_test_{scorer_key(m)}"][best]) for i in folds]
        by_fold[m] = [MEASURES[m].sign * value for value in of_folds]
    means = {m: float(np.mean(values)) for m, values in by_fold.items()}
    means["fit_time"] = float(results["mean_fit_time"][best])
    payload = runs.Payload(
        method=method or method_name(search),
        dataset=dataset,
        means=means,
        folds=list(folds),
        by_fold=by_fold,
        tags={
            schema.TAG_CONVENTIONS: search.scoring.conventions,
            schema.TAG_SELECTED: str(len(results["params"])),
        },
        params=params_of(search),
    )
    return deliver(payload, run_id, experiment_name)
