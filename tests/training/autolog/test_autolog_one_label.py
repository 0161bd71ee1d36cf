"""Autologging of one label: known data, what is not logged, and what a run's page shows."""

import mlflow
import numpy as np
import pytest
from autolog_cases import metrics, mlflow_on, model_selection, value
from one_label_cases import DIGITS, reference_of, text_data
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import mlflow_mleval as mleval
from mlflow_mleval.store import schema

X, Y = load_iris(return_X_y=True)
Y = np.array(["setosa", "versicolor", "virginica"])[Y]
X_TRAIN, X_TEST, Y_TRAIN, Y_TEST = train_test_split(X, Y, random_state=0, stratify=Y)
DATA = {
    "iris": lambda: (X, Y, GaussianNB()),
    "cancer": lambda: (*load_breast_cancer(return_X_y=True), GaussianNB()),
    "digits": lambda: (*(p[:600] for p in load_digits(return_X_y=True)), KNeighborsClassifier()),
    "text": lambda: (*text_data(), MultinomialNB()),
}


def assert_logged(run, expected):
    for name, known in expected.items():
        assert value(run, name) == pytest.approx(known, rel=1e-12, abs=1e-12), name


@pytest.mark.parametrize("name", DATA)
def test_known_data_held_out_and_cross_validated(runs, name):
    X, y, model = DATA[name]()
    a, b, c, d = train_test_split(X, y, random_state=0, stratify=y)
    hierarchy = DIGITS if name == "digits" else None
    mleval.autolog(dataset=name, hierarchy=hierarchy)
    p = model.fit(a, c).predict_proba(b)
    if name == "cancer":
        found = metrics.roc_auc_score(d, p[:, 1])
    else:
        found = metrics.accuracy_score(d, model.predict(b))
    assert np.ndim(found) == 0
    model_selection.cross_validate(model, X, y, cv=3)
    mleval.autolog(disable=True)
    held, crossed = runs()
    assert_logged(held, reference_of(d, model.predict(b), p))
    by_fold = schema.decode_folds(crossed.data.tags[schema.TAG_FOLDS]).values
    for i, (train, test) in enumerate(model_selection.StratifiedKFold(3).split(X, y)):
        fitted = model.fit(X[train], y[train])
        known = reference_of(y[test], fitted.predict(X[test]), fitted.predict_proba(X[test]))
        known = {m: v for m, v in known.items() if name != "cancer" or "auroc" not in m}
        assert {m: by_fold[m][i] for m in known} == pytest.approx(known, rel=1e-12, abs=1e-12)
    assert ("mleval/lca_f1" in held.data.metrics) == (name == "digits")


@pytest.mark.parametrize("way", ["predict", "predict_proba", "decision_function"])
def test_cross_validated_predictions(runs, way):
    model = LinearSVC() if way == "decision_function" else GaussianNB()
    for y in (Y, Y == "setosa"):
        mleval.autolog()
        found = pred = model_selection.cross_val_predict(model, X, y, cv=3, method=way)
        if way != "predict":
            at = found.argmax(axis=1) if found.ndim == 2 else (found > 0).astype(int)
            pred = np.unique(y)[at]
        run = runs()[-1]
        by_fold = schema.decode_folds(run.data.tags[schema.TAG_FOLDS]).values["top1_accuracy"]
        assert np.mean(by_fold) == pytest.approx(metrics.accuracy_score(y, pred), rel=1e-12)
        assert ("mleval/macro_auroc" in run.data.metrics) == (way != "predict")
        assert ("mleval/log_loss" in run.data.metrics) == (way == "predict_proba")


def test_a_search_and_its_hold_out_are_one_method_and_the_hold_out_counts(runs):
    mleval.autolog(dataset="iris")
    for model, grid in (
        (KNeighborsClassifier(), {"n_neighbors": [1, 5]}),
        (DummyClassifier(), {"strategy": ["prior"]}),
    ):
        GridSearchCV(model, grid, cv=3).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    knn = "KNeighborsClassifier(n_neighbors=tuned)"
    searched, held = (run.data for run in runs()[:2])
    assert searched.tags[schema.TAG_METHOD] == held.tags[schema.TAG_METHOD] == knn
    assert searched.params == held.params and searched.tags[schema.TAG_SELECTED] == "2"
    study = mleval.load_study(experiment_names=["Default"])
    assert study.methods == [knn, "DummyClassifier(strategy=tuned)"]
    assert (study.runs["selected_among"] == 1).all()
    assert study.values.loc[("iris", knn), "top1_accuracy"] == held.metrics["mleval/top1_accuracy"]


def test_where_nothing_is_logged_one_line_says_why(runs):
    with pytest.warns(UserWarning, match="nothing was logged") as told:
        mleval.autolog()
        model = GaussianNB().fit(X_TRAIN, Y_TRAIN)
        model.predict(X_TEST)
        model.score(X_TRAIN, Y_TRAIN)
        KNeighborsClassifier().fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
        mleval.autolog(disable=True)
    (text,) = (text for w in told if "nothing" in (text := str(w.message)))
    assert (
        "nothing was logged of GaussianNB: no held-out labels were seen. Call "
        "model.score(X_test, y_test)" in text
    )
    assert [r.data.tags[schema.TAG_METHOD] for r in runs()] == ["KNeighborsClassifier"]


def test_a_class_that_was_not_trained_on_is_named(runs):
    mleval.autolog()
    rare = Y != "setosa"
    with pytest.warns(UserWarning, match="'setosa' among the test rows only .50 such rows."):
        GaussianNB().fit(X[rare], Y[rare]).score(X, Y)
    with pytest.raises(ValueError, match="must hold classes that were trained on, got 'setosa'"):
        mleval.cross_validate(
            GaussianNB(), X, Y, cv=[(np.flatnonzero(rare), np.arange(60))], log=False
        )
    assert runs() == []


def test_what_a_runs_page_shows(runs):
    mleval.autolog(dataset="iris")
    LogisticRegression(C=10, max_iter=500, n_jobs=1).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    (run,) = runs()
    told = run.data.tags["mlflow.note.content"]
    name = r"LogisticRegression(C=10, max\_iter=500)"
    assert told.startswith(f"# {name} on iris\n\n38 instances · 3 classes")
    assert r"top1\_accuracy is" in told
    params, expected = run.data.params, {"C": "10", "max_iter": "500", "random_state": "None"}
    expected["estimator"] = "LogisticRegression(C=10, max_iter=500)"
    assert expected.items() <= params.items() and "n_jobs" not in params


def test_hyperparameters_are_not_logged_twice_beside_mlflow(runs):
    mlflow_on()
    mleval.autolog(dataset="iris")
    with mlflow.start_run(description="mine"):
        LogisticRegression(C=10, max_iter=500).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST)
    (run,) = runs()
    assert run.data.params["C"] == "10" and "estimator" not in run.data.params
    assert run.data.tags["mlflow.note.content"] == "mine"


@pytest.mark.parametrize("way", ["score", "positional", "metric", "pipeline"])
def test_weights_of_a_score_weigh_all_that_is_logged(runs, way):
    w = np.random.default_rng(0).gamma(0.5, 3.0, len(Y_TEST))
    mleval.autolog()
    model = make_pipeline(GaussianNB()) if way == "pipeline" else GaussianNB()
    model.fit(X_TRAIN[:, :2], Y_TRAIN)
    X_held = X_TEST[:, :2]
    p = model.predict(X_held)
    if way == "positional":
        model.score(X_held, Y_TEST, w)
    elif way == "metric":
        metrics.f1_score(Y_TEST, p, average="macro", sample_weight=w)
    model.score(X_held, Y_TEST, sample_weight=w)  # where it is the same again, it is not logged
    if way == "score":
        model.score(X_held, Y_TEST)
    mleval.autolog(disable=True)
    expected = metrics.accuracy_score(Y_TEST, p, sample_weight=w)
    assert expected != pytest.approx(metrics.accuracy_score(Y_TEST, p), rel=1e-3)
    how = {"multi_class": "ovr", "sample_weight": w}
    areas = metrics.roc_auc_score(Y_TEST, model.predict_proba(X_held), **how)
    run, *plain = runs()
    assert_logged(run, {"top1_accuracy": expected, "macro_auroc": areas})
    assert " weights-" in run.data.tags[schema.TAG_DATASET]
    assert len(plain) == (way == "score")  # of another dataset, so that no comparison mixes them
    if plain:
        assert len(mleval.load_study(experiment_names=["Default"]).datasets) == 2
