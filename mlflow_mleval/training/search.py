"""All measures at once for scikit-learn's ``scoring=``, and searches that were scored so,
logged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.evaluation import evaluate
from mlflow_mleval.measures.class_vectors import is_vector
from mlflow_mleval.measures.flat import CONVENTIONS, Conventions
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.registry import MEASURES, SETS, known_measures
from mlflow_mleval.tracking import runs, schema
from mlflow_mleval.training.cross_validation import refuse_unseen
from mlflow_mleval.training.delivery import deliver
from mlflow_mleval.training.estimator_names import method_name, params_of
from mlflow_mleval.training.scores import predict, predict_classes, refuse_regressor
from mlflow_mleval.validation import one_of


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
        options = {
            "conventions": self.conventions,
            "hierarchy": self.hierarchy,
            "instances": False,
            **self.hierarchy_options,
        }
        if one:
            options["label_names"] = classes = np.asarray(estimator.classes_).tolist()
            refuse_unseen(Y, classes)
            found = predict_classes(estimator, X, classes)
            options["probabilities"] = None if found.is_probability else False
        else:
            found = predict(estimator, X, Y.shape[1])
        ev = evaluate(Y, found.y_score, found.y_pred, **options)
        names = self.measures
        if names is None:
            scored = (
                *SETS["ranking"],
                *(m for m in SETS["one-label"] if MEASURES[m].family in ("probability", "curve")),
            )
            names = [
                m
                for m in SETS["one-label" if one else "sixteen"]
                if found.y_score is not None or m not in scored
            ]
            names += [m for m in ev.measures if m in SETS["hierarchical"]]
        values = {m: ev.measures.get(m, np.nan) for m in names}
        return {
            scorer_key(m): -v if MEASURES[m].direction == "min" else v for m, v in values.items()
        }


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
    """What scikit-learn's results call a measure: the larger must be the better.

    >>> scorer_key("f1"), scorer_key("hamming_loss")
    ('f1', 'neg_hamming_loss')
    """
    return f"neg_{measure}" if MEASURES[measure].direction == "min" else measure


def log_search(
    search: Any,
    *,
    dataset: str,
    method: str | None = None,
    run_id: str | None = None,
    experiment_name: str | None = None,
) -> str:
    """Log a fitted search that was scored by `scoring`: the best candidate's measures on every
    fold, and a table of all.

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
    results = getattr(search, "cv_results_", None)
    if results is None:
        raise ValueError(
            "`search` must be fitted, got one without cv_results_. Call search.fit(X, Y) first."
        )
    if not isinstance(search.scoring, Scoring):
        raise ValueError(
            f"`search` must be scored by mleval.scoring(), got scoring={search.scoring!r}. Pass "
            "scoring=mleval.scoring(), refit='micro_f1', or cross-validate the winner: "
            "mleval.cross_validate."
        )
    if not hasattr(search, "best_index_"):
        raise ValueError(
            f"`search` must have a best candidate, got refit={search.refit!r}. Set refit to a "
            "measure."
        )
    best, folds = search.best_index_, range(search.n_splits_)
    measures = [m for m in MEASURES if f"split0_test_{scorer_key(m)}" in results]
    by_fold = {}
    for m in measures:
        sign = -1 if MEASURES[m].direction == "min" else 1
        by_fold[m] = [sign * float(results[f"split{i}_test_{scorer_key(m)}"][best]) for i in folds]
    means = {m: float(np.mean(values)) for m, values in by_fold.items()}
    means["fit_time"] = float(results["mean_fit_time"][best])
    if method is None:
        method = method_name(search)
    payload = runs.Payload(
        method=method,
        dataset=dataset,
        means=means,
        folds=list(folds),
        by_fold=by_fold,
        tags={
            schema.TAG_CONVENTIONS: search.scoring.conventions,
            schema.TAG_SELECTED: str(len(results["params"])),
        },
        files={schema.ARTIFACT_CANDIDATES: lambda: candidates(search)},
        params=params_of(search),
    )
    return deliver(payload, run_id, experiment_name)


def candidates(search: Any) -> str:
    """CSV of the candidates of a search: parameters, means and standard deviations over the folds,
    ranks.
    """
    table = pd.DataFrame(search.cv_results_)
    return table[[c for c in table if c != "params" and not c.startswith("split")]].to_csv(
        index=False
    )
