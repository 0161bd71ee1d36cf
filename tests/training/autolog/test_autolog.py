"""Autologging of scikit-learn: what is logged, into which run, and what a user may choose."""

import pickle
import warnings

import joblib
import mlflow
import numpy as np
import pandas as pd
import pytest
from autolog_cases import (
    X_TEST,
    X_TRAIN,
    Y_TEST,
    Y_TRAIN,
    X,
    Y,
    assert_held_out,
    folds_of,
    metrics,
    mlflow_off,
    mlflow_on,
    model_selection,
    value,
)
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import mlflow_mleval as mleval
from mlflow_mleval.store import schema
from mlflow_mleval.training.estimators import SCORE_METHODS

#: Processes take seconds to start; and what is much like others.
THOROUGH = [("cross_validate", 2), ("predict_proba", 2), ("cross_val_score", 1)]
THOROUGH += [("decision_function", 1)]
GRID_IN_PROCESSES = pytest.param(GridSearchCV, 2, marks=pytest.mark.thorough)

METHODS = [
    *(KNeighborsClassifier(3), RandomForestClassifier(5, random_state=0)),
    *(ClassifierChain(LogisticRegression()), MultiOutputClassifier(LinearSVC())),
    make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0)),
]


@pytest.mark.parametrize("estimator", METHODS, ids=lambda e: type(e).__name__)
def test_score_after_fit_logs_a_full_evaluation(runs, client, estimator):
    expected = clone(estimator).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    mleval.autolog()  # without a table of instances
    model = clone(estimator)
    assert model.fit(X_TRAIN, Y_TRAIN) is model
    assert model.score(X_TEST, Y_TEST) == expected
    (run,) = runs()
    assert_held_out(run, model)
    further = {"mleval/ranking_loss", "mleval/fit_time", "mleval/predict_time"}
    assert further <= run.data.metrics.keys() and run.info.status == "FINISHED"
    assert run.data.tags[schema.TAG_DATASET].startswith("50x4 labels-")
    files = [f.path for f in client.list_artifacts(run.info.run_id, "mleval")]
    assert schema.ARTIFACT_INSTANCES not in files


def test_a_metric_of_predictions_logs_a_full_evaluation(runs):
    def calls(predicted):
        yield lambda: metrics.f1_score(Y_TEST, predicted, average="micro")
        yield lambda: metrics.hamming_loss(y_true=Y_TEST, y_pred=predicted)
        yield lambda: metrics.accuracy_score(pd.DataFrame(Y_TEST), predicted)
        yield lambda: metrics.classification_report(Y_TEST, predicted, zero_division=0)

    model = KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)
    expected = [call() for call in calls(model.predict(X_TEST))]
    mleval.autolog()
    for number, result in enumerate(expected):
        predicted = model.fit(X_TRAIN, Y_TRAIN).predict(X_TEST)
        assert [*calls(predicted)][number]() == result
        assert len(runs()) == number + 1
        assert_held_out(runs()[-1], model)


def test_a_metric_of_scores_logs_a_full_evaluation(runs):
    mleval.autolog()
    model = OneVsRestClassifier(LogisticRegression()).fit(X_TRAIN, Y_TRAIN)
    found = metrics.label_ranking_loss(Y_TEST, model.predict_proba(X_TEST))
    (run,) = runs()
    assert_held_out(run, model)
    assert value(run, "ranking_loss") == pytest.approx(found)


def test_the_same_data_is_evaluated_once_and_other_data_in_another_run(runs):
    mleval.autolog()
    with mlflow.start_run() as active:
        model = KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)
        model.score(X_TEST, Y_TEST)
        predicted = model.predict(X_TEST)
        metrics.f1_score(Y_TEST, predicted, average="macro")
        model.score(X_TEST.copy(), Y_TEST.copy())
        assert [r.info.run_id for r in runs()] == [active.info.run_id]
        model.score(X_TEST[:20], Y_TEST[:20])
    first, second = runs()
    assert_held_out(first, model)
    assert_held_out(second, model, X_TEST[:20], Y_TEST[:20])
    assert second.info.run_id != active.info.run_id


def test_training_data_is_not_held_out_and_a_model_from_elsewhere_is_evaluated_too(runs):
    mleval.autolog()
    model = KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)
    model.score(X_TRAIN, Y_TRAIN)
    model.score(X_TRAIN.copy(), pd.DataFrame(Y_TRAIN).to_numpy())
    metrics.f1_score(Y_TRAIN, model.predict(X_TRAIN), average="micro")
    assert runs() == []
    elsewhere = pickle.loads(pickle.dumps(model))
    elsewhere.score(X_TEST, Y_TEST)
    (run,) = runs()
    assert_held_out(run, elsewhere)


class Own(KNeighborsClassifier):
    def fit(self, X, y):
        return super().fit(X, y)


def other_class():
    """A class made at each call, which calls no other's `fit` by `super`."""

    class Other(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.model_ = KNeighborsClassifier(2).fit(X, y)
            return self

        def predict(self, X):
            return self.model_.predict(X)

    return Other()


@pytest.mark.parametrize("make", [Own, other_class])
def test_classes_of_the_script_are_seen(runs, make):
    model = make()
    mleval.autolog(silent=True, eval_data=(X_TEST, Y_TEST))
    model.fit(X_TRAIN, Y_TRAIN).score(X_TRAIN, Y_TRAIN)
    model.score(X_TEST, Y_TEST)
    (run,) = runs()
    assert_held_out(run, model)


def test_classes_newer_than_the_call_are_not_trusted(runs):
    mleval.autolog()
    newer = other_class().fit(X_TRAIN, Y_TRAIN)
    said = "Other on held-out data was not logged. RuntimeError: its class is newer than autolog"
    with pytest.warns(UserWarning, match=said):
        newer.score(X_TRAIN, Y_TRAIN)
    mleval.autolog(silent=True)
    newer.fit(X_TRAIN, Y_TRAIN).score(X_TRAIN, Y_TRAIN)
    newer.score(X_TEST, Y_TEST)
    (run,) = runs()
    assert_held_out(run, newer)


@pytest.mark.parametrize(
    ("backend", "n_jobs"),
    [("sequential", 1), ("threading", 2), pytest.param("loky", 2, marks=pytest.mark.thorough)],
)
def test_scorers_of_the_script_do_not_log_their_folds(runs, backend, n_jobs):
    def scorer(estimator, X, Y):
        estimator.score(X, Y)
        return metrics.f1_score(Y, estimator.predict(X), average="micro")

    earlier = model_selection.cross_validate
    mleval.autolog(silent=True)
    with joblib.parallel_backend(backend):
        found = model_selection.cross_validate(
            KNeighborsClassifier(), X, Y, cv=3, scoring=scorer, n_jobs=n_jobs
        )
        earlier(KNeighborsClassifier(), X, Y, cv=3, scoring=scorer, n_jobs=n_jobs)
        GridSearchCV(
            KNeighborsClassifier(), {"n_neighbors": [1, 2]}, cv=3, scoring=scorer, n_jobs=n_jobs
        ).fit(X, Y)
    assert len(runs()) == 2
    assert folds_of(runs()[0]).values["micro_f1"] == pytest.approx(found["test_score"].tolist())


def test_containers(runs):
    mleval.autolog(dataset="d")
    frame, logistic = pd.DataFrame(Y, columns=list("abcd")), LogisticRegression()
    kinds = (sparse.csr_matrix, np.ndarray.tolist)
    pairs = [(frame[:100], frame[100:]), *((kind(Y_TRAIN), kind(Y_TEST)) for kind in kinds)]
    for i, (train, test) in enumerate(pairs):
        OneVsRestClassifier(logistic).fit(X_TRAIN, train).score(X_TEST, test)
        assert len(runs()) == i + 1
        assert_held_out(runs()[-1], OneVsRestClassifier(logistic).fit(X_TRAIN, Y_TRAIN))


def test_eval_data_is_evaluated_after_every_fit(runs):
    mleval.autolog(eval_data=(X_TEST, Y_TEST))
    models = [KNeighborsClassifier(k).fit(X_TRAIN, Y_TRAIN) for k in (1, 3)]
    assert len(runs()) == 2
    for run, model in zip(runs(), models, strict=True):
        assert_held_out(run, model)


@pytest.mark.parametrize(
    ("call", "n_jobs"),
    [
        *((call, 1) for call in ("cross_validate", "cross_val_predict", "predict_proba")),
        *(pytest.param(*pair, marks=pytest.mark.thorough) for pair in THOROUGH),
    ],
)
def test_cross_validation_logs_every_fold(runs, call, n_jobs):
    estimator = OneVsRestClassifier(LogisticRegression())
    cv = KFold(4, shuffle=True, random_state=3)
    options = {"cv": cv, "n_jobs": n_jobs}
    if call in SCORE_METHODS:
        options["method"], call = call, "cross_val_predict"
    expected = getattr(model_selection, call)(estimator, X, Y, **options)
    mleval.autolog(dataset="d")
    found = getattr(model_selection, call)(estimator, X, Y, **options)
    if isinstance(found, dict):
        assert list(found) == list(expected)
        found, expected = found["test_score"], expected["test_score"]
    np.testing.assert_array_equal(found, expected)
    (run,) = runs()
    ev = mleval.cross_validate(estimator, X, Y, cv=cv, log=False)
    for name in ("micro_f1", "hamming_loss", "subset_accuracy"):
        np.testing.assert_allclose(folds_of(run).values[name], ev.folds[name])
    assert run.data.tags[schema.TAG_SPLIT_DIGEST]
    has_scores = call != "cross_val_predict" or "method" in options
    assert ("mleval/ranking_loss" in run.data.metrics) is has_scores


def test_cross_validation_pairs_with_the_call_of_ours(runs):
    mleval.autolog(dataset="d")
    model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv=5)
    mleval.cross_validate(DecisionTreeClassifier(random_state=0), X, Y, cv=5, dataset="d")
    study = mleval.load_study(experiment_names=["Default"])
    assert study.runs["split_digest"].nunique() == 1 and study.runs["dataset_digest"].nunique() == 1
    assert study.folds.shape[0] == 10


def test_cross_validated_probabilities_by_label(runs):
    """A list of arrays by label, one of them of a label that has one class only."""
    target = np.column_stack([Y, np.ones(len(Y), int)])
    mleval.autolog()
    found = model_selection.cross_val_predict(
        RandomForestClassifier(5, random_state=0), X, target, cv=4, method="predict_proba"
    )
    (run,) = runs()
    score = np.column_stack([*(p[:, 1] for p in found[:4]), np.ones(len(Y))])
    ev = mleval.evaluate(
        target, score, (score > 0.5).astype(int), folds=np.repeat(range(4), [38, 38, 37, 37])
    )
    for name in ("ranking_loss", "micro_f1"):
        np.testing.assert_allclose(folds_of(run).values[name], ev.folds[name])


def test_what_the_user_asked_to_be_returned_is_returned(runs):
    mleval.autolog()
    returned = dict.fromkeys(("return_estimator", "return_indices", "return_train_score"), True)
    scoring = ["f1_micro", "accuracy"]
    found = model_selection.cross_validate(
        KNeighborsClassifier(), X, Y, cv=3, scoring=scoring, **returned
    )
    names = [f"{side}_{score}" for score in scoring for side in ("test", "train")]
    assert list(found) == ["fit_time", "score_time", "estimator", "indices", *names]
    assert len(found["estimator"]) == 3 and len(runs()) == 1


@pytest.mark.parametrize(
    ("kind", "n_jobs"), [(GridSearchCV, 1), (RandomizedSearchCV, 1), GRID_IN_PROCESSES]
)
def test_a_search_logs_its_winner_with_folds(runs, kind, n_jobs):
    options = {"n_iter": 2, "random_state": 0} if kind is RandomizedSearchCV else {}
    options |= {"n_jobs": n_jobs, "scoring": "f1_micro"}

    def search():
        cv = KFold(4, shuffle=True, random_state=np.random.RandomState(5))
        found = kind(KNeighborsClassifier(), {"n_neighbors": [1, 5, 15]}, cv=cv, **options)
        return found.fit(X_TRAIN, Y_TRAIN)

    expected = search()
    mleval.autolog()
    found = search()
    assert found.best_params_ == expected.best_params_
    wanted = expected.cv_results_["mean_test_score"]
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], wanted)
    (run,) = runs()
    wanted = [found.cv_results_[f"split{i}_test_score"][found.best_index_] for i in range(4)]
    assert folds_of(run).values["micro_f1"] == pytest.approx(wanted)
    assert run.data.tags[schema.TAG_SELECTED] == ("2" if kind is RandomizedSearchCV else "3")
    found.score(X_TEST, Y_TEST)
    assert_held_out(runs()[1], found)


def test_searches_that_cannot_be_logged_say_so(runs):
    mleval.autolog()
    unnamed = {"cv": 3, "scoring": ["f1_micro", "accuracy"], "refit": False}
    for options, why in (
        ({"cv": KFold(3).split(X_TRAIN)}, ". TypeError: its splits can be drawn only once"),
        (unnamed, r": it names no best candidate \(refit=False\)"),
    ):
        grid = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 5]}, **options)
        with pytest.warns(UserWarning, match=f"a search was not logged{why}"):
            grid.fit(X_TRAIN, Y_TRAIN)
    assert runs() == []


def test_fit_parameters_and_groups_reach_the_winner(runs):
    mleval.autolog()
    groups, weights = np.arange(100) // 25, np.linspace(0, 1, 100)
    forest, cv = RandomForestClassifier(3, random_state=0), model_selection.GroupKFold(4)
    search = GridSearchCV(forest, {"max_depth": [2, 4]}, cv=cv, scoring="f1_micro")
    search.fit(X_TRAIN, Y_TRAIN, groups=groups, sample_weight=weights)
    (run,) = runs()
    options = {"groups": groups, "params": {"sample_weight": weights}, "log": False}
    best = clone(search.best_estimator_)
    expected = mleval.cross_validate(best, X_TRAIN, Y_TRAIN, cv=cv, **options)
    assert folds_of(run).values["micro_f1"] == pytest.approx(expected.folds["micro_f1"].tolist())


def test_what_is_logged_is_the_users_to_choose(runs, client):
    names = list("abcd")
    h = mleval.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])
    how = {"hierarchy": h, "label_names": names, "conventions": "mulan", "max_distance": 4}
    asked = {"measures": ["f1", "ranking", "h_f1"], "log_instances": True}
    mleval.autolog(method="mine", dataset="yeast", **asked, **how)
    model = KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)
    model.score(X_TEST, Y_TEST)
    (run,) = runs()
    tags = run.data.tags
    assert (tags[schema.TAG_METHOD], tags[schema.TAG_DATASET]) == ("mine", "yeast")
    assert tags[schema.TAG_CONVENTIONS] == "mulan"
    names = ("f1", "h_f1", "one_error", "coverage", "ranking_loss", "average_precision")
    expected = {f"mleval/{m}" for m in names}
    assert {k for k in run.data.metrics if k.startswith("mleval/")} == expected
    ev = mleval.evaluate(Y_TEST, y_pred=model.predict(X_TEST), **how)
    assert value(run, "h_f1") == pytest.approx(ev.measures["h_f1"])
    files = [f.path for f in client.list_artifacts(run.info.run_id, "mleval")]
    assert schema.ARTIFACT_INSTANCES in files


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"conventions": "x"}, "conventions"),
        ({"measures": ["f7"]}, "measures"),
        ({"eval_data": X_TEST}, "eval_data"),
        ({"max_distance": 4}, "hierarchy"),
    ],
)
def test_wrong_options(options, error):
    with pytest.raises((ValueError, TypeError), match=f"`{error}` must"):
        mleval.autolog(**options)


def test_names_imported_between_calls_stay_good(runs):
    mleval.autolog(dataset="first")
    cross_validate, f1_score = model_selection.cross_validate, metrics.f1_score
    mleval.autolog(dataset="second")
    cross_validate(KNeighborsClassifier(), X, Y, cv=3)
    mleval.autolog(disable=True)
    cross_validate(KNeighborsClassifier(), X, Y, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mleval.autolog(dataset="third")
    f1_score(Y_TEST, KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN).predict(X_TEST), average="micro")
    assert [r.data.tags[schema.TAG_DATASET] for r in runs()] == ["second", "third"]


@pytest.mark.parametrize(
    "steps", ["ours mlflow ours off", "mlflow ours mlflow ours off", "ours off mlflow ours"]
)
def test_options_change_beside_mlflow_too(runs, steps):
    steps = steps.split()
    for number, step in enumerate(steps):
        if step == "ours":
            mleval.autolog(dataset=f"{number}")
            last = number
        else:
            {"mlflow": mlflow_on, "off": mlflow_off}[step]()
    model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv=3)
    KNeighborsClassifier(3).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    assert [r.data.tags[schema.TAG_DATASET] for r in runs()] == [f"{last}"] * 2


def test_in_the_background(runs):
    mleval.autolog(asynchronous=True)
    models = [KNeighborsClassifier(n).fit(X_TRAIN, Y_TRAIN) for n in (1, 3, 7)]
    with mlflow.start_run() as active:
        for model in models:
            model.score(X_TEST, Y_TEST)
    mleval.autolog(disable=True)
    assert len(runs()) == 3
    for run, model in zip(runs(), models, strict=True):
        assert_held_out(run, model)
    assert active.info.run_id in {r.info.run_id for r in runs()}


def test_the_run_that_was_active_at_the_fit_takes_the_result(runs):
    mleval.autolog()
    with mlflow.start_run() as first:
        model = KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)
    with mlflow.start_run():
        model.score(X_TEST, Y_TEST)
    (run,) = runs()
    assert run.info.run_id == first.info.run_id


def test_nested_runs(runs):
    mleval.autolog(dataset="d")
    with mlflow.start_run() as outer:
        with mlflow.start_run(nested=True) as inner:
            KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
        model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv=3)
    found = [r.info.run_id for r in sorted(runs(), key=lambda r: schema.TAG_FOLDS in r.data.tags)]
    assert found == [inner.info.run_id, outer.info.run_id]
