"""Autologging of scikit-learn: what is logged, into which run, with MLflow's own autologging around, and what stays as it is."""

import gc
import pickle
import random
import sys
import types
import warnings

import joblib
import mlflow
import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.metrics
import sklearn.model_selection
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV, ShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import mlflow_mleval as mleval
from mlflow_mleval.tracking import schema
from mlflow_mleval.training.autolog.patching import places

X, Y = make_multilabel_classification(150, 8, n_classes=4, random_state=1)
X_TRAIN, X_TEST, Y_TRAIN, Y_TEST = X[:100], X[100:], Y[:100], Y[100:]
model_selection, metrics = sklearn.model_selection, sklearn.metrics  # called through the modules, as autolog() asks

CLASSES = [KNeighborsClassifier, RandomForestClassifier, ClassifierChain, MultiOutputClassifier, OneVsRestClassifier, Pipeline,
           MLPClassifier, GridSearchCV, DecisionTreeClassifier, LogisticRegression]  # fmt: skip


def functions():
    """Every function that autologging may wrap, MLflow's slots included, by where it is."""
    found = {}
    for name in ("fit", "score", "predict", "predict_proba", "decision_function"):
        for owner, slot in places(CLASSES, name):
            found |= {(id(owner), key): value for key, value in vars(owner).items() if key.endswith(slot)}
    for module in (model_selection, sys.modules["sklearn.model_selection._validation"], metrics, metrics._classification):
        found |= {(id(module), key): value for key, value in vars(module).items() if isinstance(value, types.FunctionType)}
    return found


BEFORE = functions()


@pytest.fixture(autouse=True)
def everything_is_restored():
    yield
    mleval.autolog(disable=True)
    mlflow.sklearn.autolog(disable=True)
    now = functions()
    assert now.keys() == BEFORE.keys() and all(now[key] is BEFORE[key] for key in BEFORE)


@pytest.fixture
def runs(client):
    """The runs with a result of ours, the oldest first."""

    def find(names=("Default",)):
        ids = [client.get_experiment_by_name(name).experiment_id for name in names]
        return [r for r in reversed(client.search_runs(ids)) if schema.TAG_STATUS in r.data.tags]

    return find


def value(run, measure):
    return run.data.metrics[f"mleval/{measure}"]


def assert_held_out(run, model, X=X_TEST, Y=Y_TEST):
    """The run holds what evaluate gives for the model."""
    tags = run.data.tags
    assert tags[schema.TAG_STATUS] == "complete" and tags[schema.TAG_KIND] == "evaluation"
    expected = mleval.evaluate(Y, y_pred=model.predict(X)).measures
    for name in ("f1", "micro_f1", "hamming_loss", "subset_accuracy"):
        assert value(run, name) == pytest.approx(expected[name])


# ---- what is logged --------------------------------------------------------------------------------------------------

METHODS = [
    KNeighborsClassifier(3), RandomForestClassifier(5, random_state=0), ClassifierChain(LogisticRegression()),
    MultiOutputClassifier(LinearSVC()), OneVsRestClassifier(LinearSVC()), MLPClassifier((5,), max_iter=600, random_state=0),
    make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0)),
]  # fmt: skip


@pytest.mark.parametrize("estimator", METHODS, ids=lambda e: type(e).__name__)
def test_score_after_fit_logs_a_full_evaluation(runs, estimator):
    expected = clone(estimator).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    mleval.autolog()
    model = clone(estimator)
    assert model.fit(X_TRAIN, Y_TRAIN) is model
    assert model.score(X_TEST, Y_TEST) == expected
    (run,) = runs()
    assert_held_out(run, model)
    assert {"mleval/ranking_loss", "mleval/fit_time", "mleval/predict_time"} <= run.data.metrics.keys()
    assert run.data.tags[schema.TAG_DATASET].startswith("50x4 labels-") and run.info.status == "FINISHED"


def calls_of_metrics(model):
    predicted = model.predict(X_TEST)
    yield lambda: metrics.f1_score(Y_TEST, predicted, average="micro")
    yield lambda: metrics.hamming_loss(y_true=Y_TEST, y_pred=predicted)
    yield lambda: metrics.accuracy_score(pd.DataFrame(Y_TEST), predicted)
    yield lambda: metrics.classification_report(Y_TEST, predicted, zero_division=0)


@pytest.mark.parametrize("number", range(4))
def test_a_metric_of_predictions_logs_a_full_evaluation(runs, number):
    model = KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)
    expected = list(calls_of_metrics(model))[number]()
    mleval.autolog()
    model.fit(X_TRAIN, Y_TRAIN)
    assert list(calls_of_metrics(model))[number]() == expected
    (run,) = runs()
    assert_held_out(run, model)


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


def test_training_data_is_not_held_out(runs):
    mleval.autolog()
    model = KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)
    model.score(X_TRAIN, Y_TRAIN)
    model.score(X_TRAIN.copy(), pd.DataFrame(Y_TRAIN).to_numpy())
    metrics.f1_score(Y_TRAIN, model.predict(X_TRAIN), average="micro")
    assert runs() == []


def test_a_second_fit_is_another_result(runs):
    mleval.autolog()
    model = KNeighborsClassifier(3).fit(X_TRAIN, Y_TRAIN)
    model.score(X_TEST, Y_TEST)
    model.set_params(n_neighbors=9).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    assert [r.data.tags[schema.TAG_METHOD] for r in runs()] == [f"KNeighborsClassifier(n_neighbors={n})" for n in (3, 9)]
    assert len({r.data.tags[schema.TAG_DATASET] for r in runs()}) == 1


def test_a_model_from_elsewhere_is_evaluated_too(runs):
    model = pickle.loads(pickle.dumps(KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)))
    mleval.autolog()
    model.score(X_TEST, Y_TEST)
    (run,) = runs()
    assert_held_out(run, model)


def own_class(calls_super):
    class Own(KNeighborsClassifier):
        def fit(self, X, y):
            return super().fit(X, y)

    class Other(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.model_ = KNeighborsClassifier(2).fit(X, y)
            return self

        def predict(self, X):
            return self.model_.predict(X)

    return Own() if calls_super else Other()


@pytest.mark.parametrize("calls_super", [True, False])
def test_classes_of_the_script_are_seen(runs, calls_super):
    model = own_class(calls_super)
    mleval.autolog(silent=True, eval_data=(X_TEST, Y_TEST))
    model.fit(X_TRAIN, Y_TRAIN).score(X_TRAIN, Y_TRAIN)
    model.score(X_TEST, Y_TEST)
    (run,) = runs()
    assert_held_out(run, model)


def test_classes_newer_than_the_call_are_not_trusted(runs):
    mleval.autolog()
    newer = own_class(calls_super=False).fit(X_TRAIN, Y_TRAIN)
    with pytest.warns(UserWarning, match="Other on held-out data was not logged. RuntimeError: its class is newer than autolog"):
        newer.score(X_TRAIN, Y_TRAIN)
    mleval.autolog(silent=True)
    newer.fit(X_TRAIN, Y_TRAIN).score(X_TRAIN, Y_TRAIN)
    newer.score(X_TEST, Y_TEST)
    (run,) = runs()
    assert_held_out(run, newer)


@pytest.mark.parametrize("backend, n_jobs", [("sequential", 1), ("threading", 2), ("loky", 2)])
def test_scorers_of_the_script_do_not_log_their_folds(runs, backend, n_jobs):
    def scorer(estimator, X, Y):
        estimator.score(X, Y)
        return metrics.f1_score(Y, estimator.predict(X), average="micro")

    earlier = model_selection.cross_validate
    mleval.autolog(silent=True)
    with joblib.parallel_backend(backend):
        found = model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv=3, scoring=scorer, n_jobs=n_jobs)
        earlier(KNeighborsClassifier(), X, Y, cv=3, scoring=scorer, n_jobs=n_jobs)
        GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 2]}, cv=3, scoring=scorer, n_jobs=n_jobs).fit(X, Y)
    assert len(runs()) == 2 and folds_of(runs()[0]).values["micro_f1"] == pytest.approx(found["test_score"].tolist())


def test_containers(runs):
    mleval.autolog(dataset="d")
    frame = pd.DataFrame(Y, columns=list("abcd"))
    for i, (train, test) in enumerate([(frame[:100], frame[100:]), (sparse.csr_matrix(Y_TRAIN), sparse.csr_matrix(Y_TEST)),
                                       (Y_TRAIN.tolist(), Y_TEST.tolist())]):  # fmt: skip
        model = OneVsRestClassifier(LogisticRegression()).fit(X_TRAIN, train)
        model.score(X_TEST, test)
        assert len(runs()) == i + 1
        assert_held_out(runs()[-1], OneVsRestClassifier(LogisticRegression()).fit(X_TRAIN, Y_TRAIN))


def test_eval_data_is_evaluated_after_every_fit(runs):
    mleval.autolog(eval_data=(X_TEST, Y_TEST))
    models = [e.fit(X_TRAIN, Y_TRAIN) for e in (KNeighborsClassifier(), DecisionTreeClassifier(random_state=0))]
    assert len(runs()) == 2
    for run, model in zip(runs(), models, strict=True):
        assert_held_out(run, model)


def folds_of(run):
    return schema.decode_folds(run.data.tags[schema.TAG_FOLDS])


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("call", ["cross_validate", "cross_val_score", "cross_val_predict", "predict_proba", "decision_function"])
def test_cross_validation_logs_every_fold(runs, call, n_jobs):
    estimator = OneVsRestClassifier(LogisticRegression())
    cv = KFold(4, shuffle=True, random_state=3)
    options = {"cv": cv, "n_jobs": n_jobs}
    if call in ("predict_proba", "decision_function"):
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
    found = model_selection.cross_val_predict(RandomForestClassifier(5, random_state=0), X, target, cv=4, method="predict_proba")
    (run,) = runs()
    score = np.column_stack([*(p[:, 1] for p in found[:4]), np.ones(len(Y))])
    ev = mleval.evaluate(target, score, (score > 0.5).astype(int), folds=np.repeat(range(4), [38, 38, 37, 37]))
    for name in ("ranking_loss", "micro_f1"):
        np.testing.assert_allclose(folds_of(run).values[name], ev.folds[name])


def test_what_the_user_asked_to_be_returned_is_returned(runs):
    mleval.autolog()
    found = model_selection.cross_validate(
        KNeighborsClassifier(), X, Y, cv=3, return_estimator=True, return_indices=True, return_train_score=True,
        scoring=["f1_micro", "accuracy"],
    )  # fmt: skip
    assert list(found) == ["fit_time", "score_time", "estimator", "indices", "test_f1_micro", "train_f1_micro", "test_accuracy",
                           "train_accuracy"]  # fmt: skip
    assert len(found["estimator"]) == 3 and len(runs()) == 1


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("kind", [GridSearchCV, RandomizedSearchCV])
def test_a_search_logs_its_winner_with_folds(runs, kind, n_jobs):
    space = {"n_neighbors": [1, 5, 15]}
    options = {"cv": KFold(4, shuffle=True, random_state=np.random.RandomState(5)), "n_jobs": n_jobs, "scoring": "f1_micro"}
    options |= {"n_iter": 2, "random_state": 0} if kind is RandomizedSearchCV else {}

    def search():
        options["cv"].random_state = np.random.RandomState(5)
        return kind(KNeighborsClassifier(), space, **options).fit(X_TRAIN, Y_TRAIN)

    expected = search()
    mleval.autolog()
    found = search()
    assert found.best_params_ == expected.best_params_
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    (run,) = runs()
    assert folds_of(run).values["micro_f1"] == pytest.approx(
        [found.cv_results_[f"split{i}_test_score"][found.best_index_] for i in range(4)]
    )
    assert run.data.tags[schema.TAG_SELECTED] == ("2" if kind is RandomizedSearchCV else "3")
    found.score(X_TEST, Y_TEST)
    held_out = runs()[1]
    assert_held_out(held_out, found)


def test_searches_can_be_left_out(runs):
    mleval.autolog(searches=False)
    GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 5]}, cv=3).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    (run,) = runs()
    assert schema.TAG_FOLDS not in run.data.tags


def test_searches_that_cannot_be_logged_say_so(runs):
    mleval.autolog()
    grid = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 5]}, cv=KFold(3).split(X_TRAIN))
    with pytest.warns(UserWarning, match="a search was not logged. TypeError: its splits can be drawn only once"):
        grid.fit(X_TRAIN, Y_TRAIN)
    grid = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 5]}, scoring=["f1_micro", "accuracy"], refit=False, cv=3)
    with pytest.warns(UserWarning, match=r"a search was not logged: it names no best candidate \(refit=False\)"):
        grid.fit(X_TRAIN, Y_TRAIN)
    assert runs() == []


def test_fit_parameters_and_groups_reach_the_winner(runs):
    mleval.autolog()
    groups, weights = np.arange(100) // 25, np.linspace(0, 1, 100)
    search = GridSearchCV(RandomForestClassifier(3, random_state=0), {"max_depth": [2, 4]}, cv=model_selection.GroupKFold(4),
                          scoring="f1_micro")  # fmt: skip
    search.fit(X_TRAIN, Y_TRAIN, groups=groups, sample_weight=weights)
    (run,) = runs()
    expected = mleval.cross_validate(clone(search.best_estimator_), X_TRAIN, Y_TRAIN, cv=model_selection.GroupKFold(4), log=False,
                                     groups=groups, params={"sample_weight": weights})  # fmt: skip
    assert folds_of(run).values["micro_f1"] == pytest.approx(expected.folds["micro_f1"].tolist())


# ---- options ---------------------------------------------------------------------------------------------------------


def test_names_measures_and_instances_are_the_users_to_choose(runs, client):
    mleval.autolog(method="mine", dataset="yeast", measures=["f1", "ranking"], log_instances=True, label_names=list("abcd"))
    KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    (run,) = runs()
    assert (run.data.tags[schema.TAG_METHOD], run.data.tags[schema.TAG_DATASET]) == ("mine", "yeast")
    assert {k for k in run.data.metrics if k.startswith("mleval/")} == {
        "mleval/f1", "mleval/one_error", "mleval/coverage", "mleval/ranking_loss", "mleval/average_precision"
    }  # fmt: skip
    files = [f.path for f in client.list_artifacts(run.info.run_id, "mleval")]
    assert schema.ARTIFACT_INSTANCES in files


def test_defaults_are_light(runs, client):
    mleval.autolog()
    KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    assert schema.ARTIFACT_INSTANCES not in [f.path for f in client.list_artifacts(runs()[0].info.run_id, "mleval")]


def test_hierarchy_and_conventions(runs):
    h = mleval.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])
    mleval.autolog(hierarchy=h, label_names=list("abcd"), conventions="mulan", max_distance=4)
    model = KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)
    model.score(X_TEST, Y_TEST)
    expected = mleval.evaluate(Y_TEST, y_pred=model.predict(X_TEST), hierarchy=h, label_names=list("abcd"), max_distance=4,
                               conventions="mulan").measures  # fmt: skip
    (run,) = runs()
    assert value(run, "h_f1") == pytest.approx(expected["h_f1"]) and run.data.tags[schema.TAG_CONVENTIONS] == "mulan"


@pytest.mark.parametrize(
    "options, error",
    [({"conventions": "x"}, "conventions"), ({"measures": ["f7"]}, "measures"), ({"eval_data": X_TEST}, "eval_data"),
     ({"max_distance": 4}, "hierarchy")],
)  # fmt: skip
def test_wrong_options(options, error):
    with pytest.raises((ValueError, TypeError), match=f"`{error}` must"):
        mleval.autolog(**options)


def test_calling_again_changes_the_names(runs):
    for name in ("first", "second"):
        mleval.autolog(dataset=name)
        KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    assert [r.data.tags[schema.TAG_DATASET] for r in runs()] == ["first", "second"]


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


@pytest.mark.parametrize("steps", ["ours mlflow ours off", "mlflow ours mlflow ours off", "ours off mlflow ours"])
def test_options_change_beside_mlflow_too(runs, steps):
    for number, step in enumerate(steps.split()):
        {"ours": lambda n=number: mleval.autolog(dataset=f"{n}"), "mlflow": mlflow_on, "off": mlflow_off}[step]()
    last = len(steps.split()) - 1 - steps.split()[::-1].index("ours")
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


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_the_run_that_was_active_at_the_fit_takes_the_result(runs):
    mleval.autolog()
    with mlflow.start_run(tags={"mleval.method": "m", "mleval.dataset": "d"}) as first:
        model = KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)
    with mlflow.start_run():
        model.score(X_TEST, Y_TEST)
    (run,) = runs()
    assert run.info.run_id == first.info.run_id
    assert (run.data.tags[schema.TAG_METHOD], run.data.tags[schema.TAG_DATASET]) == ("m", "d")


def test_nested_runs(runs):
    mleval.autolog(dataset="d")
    with mlflow.start_run() as outer:
        with mlflow.start_run(nested=True) as inner:
            KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
        model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv=3)
    assert [r.info.run_id for r in sorted(runs(), key=lambda r: schema.TAG_FOLDS in r.data.tags)] == [
        inner.info.run_id, outer.info.run_id
    ]  # fmt: skip


def test_further_results_of_an_active_run_go_to_new_runs_of_its_experiment(runs, client):
    mlflow.set_experiment("mine")
    try:
        mleval.autolog(dataset="d")
        with mlflow.start_run():
            for estimator in (KNeighborsClassifier(1), KNeighborsClassifier(7), DecisionTreeClassifier()):
                model_selection.cross_validate(estimator, X, Y, cv=3)
        study = mleval.load_study(experiment_names=["mine"])
        assert len(study.values) == 3 and not [e for e in study.excluded if e.kind == "run"]
    finally:
        mlflow.set_experiment("Default")


# ---- with MLflow's own autologging -----------------------------------------------------------------------------------


def mlflow_on():
    # One child of a search: MLflow writes several at once, each with the dataset, which a new SQLite file may refuse.
    mlflow.sklearn.autolog(log_models=False, log_datasets=False, silent=True, max_tuning_runs=1)


def mlflow_off():
    mlflow.sklearn.autolog(disable=True)


def ours():
    mleval.autolog(dataset="d")


ORDERS = {
    "ours only": [ours],
    "before": [mlflow_on, ours],
    "after": [ours, mlflow_on],
    "before, then off": [mlflow_on, ours, mlflow_off],
    "after, then off": [ours, mlflow_on, mlflow_off],
    "before, off, on": [mlflow_on, ours, mlflow_off, mlflow_on],
    "after, off, on": [ours, mlflow_on, mlflow_off, mlflow_on],
    "on twice after": [mlflow_on, ours, mlflow_on],
    "ours twice around": [ours, mlflow_on, ours],
}


@pytest.mark.parametrize("inside", ["no run", "a run", "a nested run"])
@pytest.mark.parametrize("order", ORDERS)
def test_fit_and_score_beside_mlflow(runs, client, order, inside):
    for step in ORDERS[order]:
        step()
    is_on = ORDERS[order][-1] is not mlflow_off and mlflow_on in ORDERS[order]
    opened = [mlflow.start_run(nested=i > 0) for i in range(["no run", "a run", "a nested run"].index(inside))]
    model = make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(X_TRAIN, Y_TRAIN)
    model.score(X_TRAIN, Y_TRAIN)
    model.score(X_TEST, Y_TEST)
    for _ in opened:
        mlflow.end_run()
    (run,) = runs()
    assert_held_out(run, model)
    if opened:
        assert run.info.run_id == opened[-1].info.run_id
    assert len(client.search_runs(["0"])) == max(1, len(opened))
    if is_on:
        assert run.data.params["standardscaler__copy"] == "True" and "training_score" in run.data.metrics


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("order", ORDERS)
def test_cross_validation_and_searches_beside_mlflow(runs, client, order, n_jobs):
    for step in ORDERS[order]:
        step()
    model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv=3, n_jobs=n_jobs)
    assert len(client.search_runs(["0"])) == 1
    model_selection.cross_val_score(KNeighborsClassifier(3), X, Y, cv=3, n_jobs=n_jobs)
    model_selection.cross_val_predict(KNeighborsClassifier(7), X, Y, cv=3, n_jobs=n_jobs)
    assert len(client.search_runs(["0"])) == 3
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 9]}, cv=3, n_jobs=n_jobs).fit(X, Y)
    assert len(runs()) == 4 and all(schema.TAG_FOLDS in r.data.tags for r in runs())
    children = client.search_runs(["0"], f"tags.mlflow.parentRunId = '{runs()[-1].info.run_id}'")
    is_on = ORDERS[order][-1] is not mlflow_off and mlflow_on in ORDERS[order]
    assert len(children) == (1 if is_on else 0)
    assert search.best_params_


@pytest.mark.parametrize("depth, order", [(1 + i % 2, order) for i, order in enumerate(ORDERS)])
def test_cross_validation_and_searches_in_runs_beside_mlflow(runs, client, order, depth):
    """The first result is the innermost run's; the search's is a run of its own, and MLflow's notes stay where it writes them."""
    for step in ORDERS[order]:
        step()
    opened = [mlflow.start_run(nested=i > 0) for i in range(depth)]
    model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv=3)
    GridSearchCV(KNeighborsClassifier(3), {"n_neighbors": [1, 9]}, cv=3).fit(X, Y)
    assert mlflow.active_run().info.run_id == opened[-1].info.run_id
    for _ in opened:
        mlflow.end_run()
    found = {run.info.run_id: run for run in runs()}
    assert len(found) == 2 and opened[-1].info.run_id in found
    assert all(schema.TAG_FOLDS in run.data.tags and run.info.status == "FINISHED" for run in found.values())
    assert schema.TAG_SELECTED not in found.pop(opened[-1].info.run_id).data.tags
    assert [run.data.tags[schema.TAG_SELECTED] for run in found.values()] == ["2"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ours_first", [True, False])
def test_everything_is_restored_in_any_order(client, order, ours_first):
    for step in ORDERS[order]:
        step()
    for step in [lambda: mleval.autolog(disable=True), mlflow_off][:: 1 if ours_first else -1]:
        step()
    now = functions()
    assert all(now[key] is BEFORE[key] for key in BEFORE)


def test_switched_off_below_mlflow_nothing_is_logged(runs):
    ours()
    mlflow_on()
    mleval.autolog(disable=True)
    KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv=3)
    assert runs() == []


# ---- what is left alone ----------------------------------------------------------------------------------------------


def test_single_label_classifiers_and_regressors_are_left_alone(client):
    mleval.autolog(eval_data=(X_TEST, Y_TEST))
    flowers, kinds = load_iris(return_X_y=True)
    model = KNeighborsClassifier().fit(flowers, kinds)
    model.score(flowers[:50], kinds[:50])
    metrics.f1_score(kinds[:50], model.predict(flowers[:50]), average="micro")
    model_selection.cross_validate(model, flowers, kinds, cv=3)
    model_selection.cross_val_predict(model, flowers, kinds, cv=3)
    GridSearchCV(model, {"n_neighbors": [1, 5]}, cv=3).fit(flowers, kinds)
    regressor = RandomForestRegressor(3).fit(X_TRAIN, Y_TRAIN)
    regressor.score(X_TEST, Y_TEST)
    metrics.mean_squared_error(Y_TEST, regressor.predict(X_TEST))
    model_selection.cross_validate(regressor, X, Y, cv=3)
    several_classes = DecisionTreeClassifier().fit(X_TRAIN, Y_TRAIN + np.arange(4))
    assert several_classes.predict(X_TEST).shape == (50, 4)
    assert client.search_runs(["0"]) == []


def test_the_random_state_is_untouched(client):
    """An unseeded script gives the same numbers with and without."""

    def script():
        np.random.seed(3)  # noqa: NPY002 what is tested
        random.seed(3)
        model = RandomForestClassifier(3).fit(X_TRAIN, Y_TRAIN)
        found = [model.score(X_TEST, Y_TEST), random.random()]
        cv = ShuffleSplit(3, test_size=0.3)
        found += model_selection.cross_validate(RandomForestClassifier(3), X, Y, cv=cv)["test_score"].tolist()
        found += model_selection.cross_val_predict(RandomForestClassifier(3), X, Y, cv=KFold(3, shuffle=True)).ravel().tolist()
        search = GridSearchCV(RandomForestClassifier(), {"max_depth": [2, 4]}, cv=KFold(3, shuffle=True)).fit(X_TRAIN, Y_TRAIN)
        found += search.cv_results_["mean_test_score"].tolist()
        return [*found, search.score(X_TEST, Y_TEST), np.random.random(), random.random()]  # noqa: NPY002

    expected = script()
    mleval.autolog()
    assert script() == expected
    assert len(client.search_runs(["0"])) == 5


def test_exceptions_are_scikit_learns_own():
    def refused():
        for call in (
            lambda: KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN[:5]),
            lambda: KNeighborsClassifier().fit(X_TRAIN),
            lambda: KNeighborsClassifier().score(X_TEST, Y_TEST),
            lambda: KNeighborsClassifier(-1).fit(X_TRAIN, Y_TRAIN),
            lambda: model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv="x"),
            lambda: model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv=3, no_such_argument=1),
            lambda: model_selection.cross_validate(),
            lambda: model_selection.cross_validate(KNeighborsClassifier(-1), X, Y, cv=3, error_score="raise"),
            lambda: model_selection.cross_val_predict(KNeighborsClassifier(), X, Y, cv=ShuffleSplit(2, random_state=0)),
            lambda: model_selection.cross_val_predict(LinearSVC(), X, Y, method="predict_proba"),
            lambda: metrics.f1_score(Y_TEST, Y_TEST[:5]),
            lambda: GridSearchCV(KNeighborsClassifier(), {"no_such": [1]}).fit(X, Y),
        ):
            with pytest.raises(Exception) as caught:
                call()
            yield type(caught.value), str(caught.value)

    expected = list(refused())
    mleval.autolog()
    assert list(refused()) == expected


def test_folds_that_failed_are_not_logged_in_part(runs):
    class Fails(KNeighborsClassifier):
        def fit(self, X, y):
            if X[0, 0] == X_FIRST:
                raise RuntimeError("no fit")
            return super().fit(X, y)

    X_FIRST = X[0, 0]
    mleval.autolog()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = model_selection.cross_validate(Fails(), X, Y, cv=KFold(3))
    assert np.isnan(found["test_score"]).sum() == 2 and runs() == []
    why = "a cross-validation was not logged. RuntimeError: fold 1 gives no predictions"
    assert sum(why in str(w.message) for w in caught) == 1


def test_signatures_names_and_pickles_are_kept(client):
    import inspect

    before = {f: str(inspect.signature(getattr(model_selection, f))) for f in ("cross_validate", "cross_val_predict")}
    mleval.autolog()
    for name, signature in before.items():
        assert str(inspect.signature(getattr(model_selection, name))) == signature
        assert getattr(model_selection, name).__name__ == name
    assert pickle.loads(pickle.dumps(metrics.f1_score)) is metrics.f1_score
    scorer = metrics.make_scorer(metrics.f1_score, average="micro")
    model_selection.cross_validate(KNeighborsClassifier(), X, Y, scoring=scorer, cv=3, n_jobs=2)


def test_a_scorer_made_of_a_wrapped_metric_reaches_other_processes_beside_mlflow(runs):
    mlflow.sklearn.autolog(log_models=False, silent=True)
    mleval.autolog()
    scorer = metrics.make_scorer(metrics.hamming_loss, greater_is_better=False)
    found = model_selection.cross_val_score(KNeighborsClassifier(), X, Y, scoring=scorer, cv=3, n_jobs=2)
    assert np.isfinite(found).all() and len(runs()) == 1


def test_nothing_is_kept_alive(client):
    import weakref

    mleval.autolog()
    model = KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)
    predicted = model.predict(X_TEST)
    metrics.f1_score(Y_TEST, predicted, average="micro")
    gone = [weakref.ref(model), weakref.ref(predicted)]
    del model, predicted
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


# ---- imported earlier ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside_mlflow", [False, True])
def test_functions_imported_earlier_are_named_once(monkeypatch, beside_mlflow):
    if beside_mlflow:  # the names are then those of its wrappers
        mlflow_on()
    script = types.ModuleType("script")
    script.cv, script.f1_score = model_selection.cross_validate, metrics.f1_score
    monkeypatch.setitem(sys.modules, "script", script)
    with pytest.warns(UserWarning, match=r"imported before autolog\(\) .*not seen: .*\bcv, f1_score in script") as caught:
        mleval.autolog()
    assert len(caught) == 1
    mleval.autolog(disable=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mleval.autolog(silent=True)


def test_cross_val_score_imported_earlier_is_seen_all_the_same(runs):
    earlier = model_selection.cross_val_score
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mleval.autolog()
    earlier(KNeighborsClassifier(), X, Y, cv=3)
    assert len(runs()) == 1


def test_folds_of_a_function_imported_earlier_are_not_taken_for_held_out_data(client):
    earlier = model_selection.cross_validate
    mleval.autolog(silent=True)
    earlier(KNeighborsClassifier(), X, Y, cv=3)
    assert client.search_runs(["0"]) == []
