"""Autologging with MLflow's own around, what stays as it is, and names imported earlier."""

import gc
import logging
import pickle
import random
import sys
import types
import warnings
import weakref
from inspect import signature

import mlflow
import numpy as np
import pytest
from autolog_cases import (
    BEFORE,
    EACH_ORDER,
    MORE_ORDERS,
    ORDERS,
    TWO_ORDERS,
    X_TEST,
    X_TRAIN,
    Y_TEST,
    Y_TRAIN,
    X,
    Y,
    assert_held_out,
    functions,
    metrics,
    mlflow_off,
    mlflow_on,
    model_selection,
    ours,
    value,
)
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import mlflow_mleval as mleval
from mlflow_mleval.store import schema
from mlflow_mleval.training import autolog


@pytest.mark.parametrize("order", EACH_ORDER)
@pytest.mark.parametrize("turn", [0, 1])
def test_fit_and_score_beside_mlflow(runs, client, order, turn):
    """In no run, in a run, or in one nested in it: each order of calls in two of the three."""
    depth = (list(ORDERS).index(order) + turn) % 3
    for step in ORDERS[order]:
        step()
    is_on = ORDERS[order][-1] is not mlflow_off and mlflow_on in ORDERS[order]
    opened = [mlflow.start_run(nested=i > 0) for i in range(depth)]
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
        assert run.data.params["standardscaler__copy"] == "True"
        assert "training_score" in run.data.metrics


@pytest.mark.parametrize(
    ("order", "n_jobs"),
    [
        *((order, 1) for order in TWO_ORDERS),
        *(pytest.param(order, 1, marks=pytest.mark.thorough) for order in MORE_ORDERS),
        *(pytest.param(order, 2, marks=pytest.mark.thorough) for order in ("ours only", "before")),
    ],
)
def test_cross_validation_and_searches_beside_mlflow(runs, client, order, n_jobs):
    for step in ORDERS[order]:
        step()
    model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv=3, n_jobs=n_jobs)
    assert len(client.search_runs(["0"])) == 1
    model_selection.cross_val_score(KNeighborsClassifier(3), X, Y, cv=3, n_jobs=n_jobs)
    model_selection.cross_val_predict(KNeighborsClassifier(7), X, Y, cv=3, n_jobs=n_jobs)
    assert len(client.search_runs(["0"])) == 3
    grid = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 9]}, cv=3, n_jobs=n_jobs)
    assert grid.fit(X, Y).best_params_
    assert len(runs()) == 4 and all(schema.TAG_FOLDS in r.data.tags for r in runs())
    children = client.search_runs(["0"], f"tags.mlflow.parentRunId = '{runs()[-1].info.run_id}'")
    is_on = ORDERS[order][-1] is not mlflow_off and mlflow_on in ORDERS[order]
    assert len(children) == (1 if is_on else 0)


@pytest.mark.parametrize("order", EACH_ORDER)
def test_cross_validation_and_searches_in_runs_beside_mlflow(runs, client, order):
    """The first result is the innermost run's; the search's is a run of its own."""
    depth = 1 + list(ORDERS).index(order) % 2
    for step in ORDERS[order]:
        step()
    opened = [mlflow.start_run(nested=i > 0) for i in range(depth)]
    model_selection.cross_validate(KNeighborsClassifier(), X, Y, cv=3)
    GridSearchCV(KNeighborsClassifier(3), {"n_neighbors": [1, 9]}, cv=3).fit(X, Y)
    innermost = opened[-1].info.run_id
    assert mlflow.active_run().info.run_id == innermost
    for _ in opened:
        mlflow.end_run()
    found = {run.info.run_id: run for run in runs()}
    for run in found.values():
        assert schema.TAG_FOLDS in run.data.tags and run.info.status == "FINISHED"
    assert schema.TAG_SELECTED not in found.pop(innermost).data.tags
    assert [run.data.tags[schema.TAG_SELECTED] for run in found.values()] == ["2"]


@pytest.mark.parametrize("order", EACH_ORDER)
@pytest.mark.parametrize("ours_first", [True, False])
def test_everything_is_restored_in_any_order(client, order, ours_first):
    for step in ORDERS[order]:
        step()
    for step in [lambda: mleval.autolog(disable=True), mlflow_off][:: 1 if ours_first else -1]:
        step()
    now = functions()
    assert all(now[key] is BEFORE[key] for key in BEFORE)


def test_regressors_and_several_columns_of_classes_are_left_alone_and_that_is_said_once(client):
    with pytest.warns(UserWarning, match="nothing is logged") as told:
        mleval.autolog(eval_data=(X_TEST, Y_TEST))
        regressor = RandomForestRegressor(3).fit(X_TRAIN, Y_TRAIN)
        regressor.score(X_TEST, Y_TEST)
        metrics.mean_squared_error(Y_TEST, regressor.predict(X_TEST))
        model_selection.cross_validate(regressor, X, Y, cv=3)
        several_classes = DecisionTreeClassifier().fit(X_TRAIN, Y_TRAIN + np.arange(4))
        assert several_classes.predict(X_TEST).shape == (50, 4)
        model_selection.cross_val_predict(several_classes, X, Y + np.arange(4), cv=3)
        mleval.autolog(disable=True)
    first, second = (text for w in told if "nothing" in (text := str(w.message)))
    assert "of RandomForestRegressor: it is a regressor, and mleval evaluates classifiers" in first
    columns = "its targets are several columns that are not 0 and 1"
    assert f"of DecisionTreeClassifier: {columns}" in second
    assert client.search_runs(["0"]) == []


def test_the_random_state_is_untouched(client):
    """An unseeded script gives the same numbers with and without."""

    def script():
        np.random.seed(3)  # noqa: NPY002 what is tested
        random.seed(3)
        forest = RandomForestClassifier(3)
        found = [forest.fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST), random.random()]
        crossed = model_selection.cross_validate(forest, X, Y, cv=ShuffleSplit(3, test_size=0.3))
        found += crossed["test_score"].tolist()
        cv = KFold(3, shuffle=True)
        found += model_selection.cross_val_predict(forest, X, Y, cv=cv).ravel().tolist()
        search = GridSearchCV(forest, {"max_depth": [2, 4]}, cv=cv).fit(X_TRAIN, Y_TRAIN)
        found += search.cv_results_["mean_test_score"].tolist()
        return [*found, search.score(X_TEST, Y_TEST), np.random.random(), random.random()]  # noqa: NPY002

    expected = script()
    mleval.autolog()
    assert script() == expected
    assert len(client.search_runs(["0"])) == 5


def test_exceptions_are_scikit_learns_own():
    def refused():
        knn, crossed = KNeighborsClassifier(), model_selection.cross_validate
        predicted, odd = model_selection.cross_val_predict, ShuffleSplit(2, random_state=0)
        for call in (
            lambda: knn.fit(X_TRAIN, Y_TRAIN[:5]),
            lambda: knn.fit(X_TRAIN),
            lambda: KNeighborsClassifier().score(X_TEST, Y_TEST),
            lambda: KNeighborsClassifier(-1).fit(X_TRAIN, Y_TRAIN),
            lambda: crossed(knn, X, Y, cv="x"),
            lambda: crossed(knn, X, Y, cv=3, no_such_argument=1),
            lambda: crossed(),
            lambda: crossed(KNeighborsClassifier(-1), X, Y, cv=3, error_score="raise"),
            lambda: predicted(knn, X, Y, cv=odd),
            lambda: predicted(LinearSVC(), X, Y, method="predict_proba"),
            lambda: metrics.f1_score(Y_TEST, Y_TEST[:5]),
            lambda: GridSearchCV(knn, {"no_such": [1]}).fit(X, Y),
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
    names = ("cross_validate", "cross_val_predict")
    before = [str(signature(getattr(model_selection, name))) for name in names]
    mleval.autolog()
    for name, expected in zip(names, before, strict=True):
        wrapped = getattr(model_selection, name)
        assert (str(signature(wrapped)), wrapped.__name__) == (expected, name)
    assert pickle.loads(pickle.dumps(metrics.f1_score)) is metrics.f1_score


@pytest.mark.parametrize("beside", [False, True])
def test_a_scorer_made_of_a_wrapped_metric_reaches_other_processes_beside_mlflow(runs, beside):
    if beside:
        mlflow_on()
    mleval.autolog()
    scorer = metrics.make_scorer(metrics.hamming_loss, greater_is_better=False)
    found = model_selection.cross_val_score(
        KNeighborsClassifier(), X, Y, scoring=scorer, cv=3, n_jobs=2
    )
    assert np.isfinite(found).all() and len(runs()) == 1


def test_nothing_is_kept_alive(client):
    mleval.autolog()
    model = KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN)
    predicted = model.predict(X_TEST)
    metrics.f1_score(Y_TEST, predicted, average="micro")
    gone = [weakref.ref(model), weakref.ref(predicted)]
    del model, predicted
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


@pytest.mark.parametrize("beside_mlflow", [False, True])
def test_functions_imported_earlier_are_named_once(monkeypatch, beside_mlflow):
    if beside_mlflow:  # the names are then those of its wrappers
        mlflow_on()
    script = types.ModuleType("script")
    script.cv, script.f1_score = model_selection.cross_validate, metrics.f1_score
    for name in ("script", "__mp_main__"):  # multiprocessing's second name of the script
        monkeypatch.setitem(sys.modules, name, script)
    said = r"imported before autolog\(\) .*not seen: .*\bcv, f1_score in script"
    with pytest.warns(UserWarning, match=said) as caught:
        mleval.autolog()
    assert len(caught) == 1 and str(caught[0].message).count("f1_score in") == 1
    mleval.autolog(disable=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mleval.autolog(silent=True)


def test_of_functions_imported_earlier_only_cross_val_score_is_seen(runs):
    """And folds are not taken for held-out data."""
    seen, unseen = model_selection.cross_val_score, model_selection.cross_validate
    mleval.autolog(silent=True)
    unseen(KNeighborsClassifier(), X, Y, cv=3)
    assert runs() == []
    seen(KNeighborsClassifier(), X, Y, cv=3)
    assert len(runs()) == 1


now = [0.0]


class Timed(KNeighborsClassifier):
    """By the clock of the test a fit takes 1 second, and whatever predicts, 1000."""

    def fit(self, X, y):
        now[0] += 1
        return super().fit(X, y)

    def predict(self, X):
        now[0] += 1000
        return super().predict(X)


@pytest.mark.parametrize(
    ("make", "order"),
    [
        *((Timed, [mlflow_on, ours]), (Timed, [ours, mlflow_on, ours]), (Timed, [ours])),
        (lambda: make_pipeline(Timed()), [ours, mlflow_on]),
    ],
)
def test_fit_time_is_that_of_the_fit_alone(runs, monkeypatch, make, order):
    monkeypatch.setattr(autolog.time, "perf_counter", lambda: now[0])
    for step in order:
        step()
    model = make().fit(X_TRAIN, Y_TRAIN)
    model.score(X_TEST, Y_TEST)
    (run,) = runs()
    assert value(run, "fit_time") == 1


def loud():
    mlflow.sklearn.autolog(log_models=False, log_datasets=False)


SEVERAL = MultiOutputClassifier(DecisionTreeClassifier())
MODELS = [RandomForestClassifier(3), KNeighborsClassifier(), SEVERAL]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    "order", [pytest.param([loud, ours], marks=pytest.mark.thorough), [ours, loud]]
)
def test_our_predictions_make_mlflow_say_nothing(runs, caplog, model, order):
    for step in order:
        step()
    model.fit(X_TRAIN, Y_TRAIN)
    caplog.clear()
    logging.getLogger("mlflow").addHandler(caplog.handler)
    try:
        model.score(X_TEST, Y_TEST)
    finally:
        logging.getLogger("mlflow").removeHandler(caplog.handler)
    assert len(runs()) == 1
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING], caplog.text
