"""Cross-validation without patches: the numbers of scikit-learn, in one run that is read back."""

import pickle
from itertools import product

import mlflow
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, check_cv
from sklearn.model_selection import cross_validate as sklearn_cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import mlflow_mleval as mleval
from mlflow_mleval.measures.registry import SETS
from mlflow_mleval.store import schema
from mlflow_mleval.store.study_artifacts import instances_of

X, Y = make_multilabel_classification(120, 8, n_classes=4, random_state=1)
FOREST = RandomForestClassifier(7, random_state=0)
SHUFFLED = KFold(3, shuffle=True, random_state=5)


@pytest.mark.parametrize(
    ("cv", "n_jobs"), [(4, 1), (SHUFFLED, 1), pytest.param(4, 2, marks=pytest.mark.thorough)]
)
def test_the_same_numbers_as_scikit_learn(cv, n_jobs):
    ev = mleval.cross_validate(FOREST, X, Y, cv=cv, n_jobs=n_jobs, log=False)
    names = {"micro_f1": "f1_micro", "macro_recall": "recall_macro"}
    names |= {"subset_accuracy": "accuracy", "f1": "f1_samples"}
    expected = sklearn_cross_validate(FOREST, X, Y, cv=cv, scoring=list(names.values()))
    for name, theirs in names.items():
        np.testing.assert_allclose(ev.folds[name], expected[f"test_{theirs}"], rtol=1e-12)
    folds = check_cv(cv).split(X)
    assert ev.instances.index.tolist() == [row for _, test in folds for row in test]
    assert ev.measures["fit_time"] > 0 and ev.measures["predict_time"] > 0
    assert "ranking_loss" in ev.measures and "soft_hamming_loss" in ev.measures


def test_containers_of_labels_give_the_same():
    tree = DecisionTreeClassifier(random_state=0)

    def folds(value):
        ev = mleval.cross_validate(tree, X, value, cv=3, log=False)
        return ev.label_names, ev.folds.drop(columns=["fit_time", "predict_time"])

    _, expected = folds(Y)
    frame = pd.DataFrame(Y, columns=list("abcd"), index=np.arange(120)[::-1])
    for value in (frame, sparse.csr_matrix(Y), Y.tolist(), Y.astype(bool)):
        names, found = folds(value)
        pd.testing.assert_frame_equal(found, expected)
        assert value is not frame or names == tuple("abcd")


def test_groups_params_and_iterables_reach_scikit_learn():
    def found(estimator=FOREST, **options):
        return mleval.cross_validate(estimator, X, Y, log=False, **options)

    ev = found(cv=GroupKFold(4), groups=np.arange(120) // 30)
    assert ev.fold_sizes.tolist() == [30] * 4
    weights = {"params": {"sample_weight": np.linspace(0, 1, 120)}}
    weighted = found(cv=3, **weights).measures["micro_f1"]
    assert weighted != found(cv=3).measures["micro_f1"]
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(FOREST).set_fit_request(sample_weight=True)
        assert found(routed, cv=3, **weights).measures["micro_f1"] == weighted
    halves = np.arange(60), np.arange(60, 120)
    assert found(cv=iter([halves, halves[::-1]])).fold_sizes.tolist() == [60, 60]


def test_a_precomputed_metric_is_sliced_on_both_sides():
    points = X + np.random.default_rng(0).random(X.shape)
    given = ("precomputed", metrics.pairwise_distances(points)), ("minkowski", points)
    one, other = (
        mleval.cross_validate(KNeighborsClassifier(metric=metric), data, Y, cv=3, log=False)
        for metric, data in given
    )
    assert one.measures["f1"] == other.measures["f1"]


class Sometimes(ClassifierMixin, BaseEstimator):
    """Has scores only when fitted on the first rows."""

    def fit(self, X, Y):
        self.first_, self.n_ = X[0, 0], Y.shape[1]
        return self

    def predict(self, X):
        return np.ones((len(X), self.n_), int)

    def predict_proba(self, X):
        if self.first_ != globals()["X"][0, 0]:
            raise ValueError("no scores here")
        return np.ones((len(X), self.n_))


class Failing(Sometimes):
    def fit(self, X, Y):
        raise KeyError("cannot be fitted")


def test_scores_that_a_fold_lacks_are_left_out_of_all_and_said():
    said = r"1 of 3 folds have none \(fold 0: ValueError: no scores here"
    with pytest.warns(UserWarning, match=said):
        ev = mleval.cross_validate(Sometimes(), X, Y, cv=3, log=False)
    assert ev.absent["ranking_loss"] == "no scores were given"


def test_errors_of_the_estimator_and_of_the_target_pass(client):
    for estimator, target, options, error, said in (
        (Failing(), Y, {}, KeyError, "cannot be fitted"),
        (FOREST, Y * 2, {}, ValueError, "`Y` must hold only 0 and 1"),
        (FOREST, Y[:, 0] + 0.5, {}, ValueError, "`Y` must hold classes, got 0.5 in row 0"),
        (RandomForestRegressor(), Y[:, 0], {}, TypeError, "got RandomForestRegressor: .* no regr"),
        (FOREST, Y, {"conventions": "mine"}, ValueError, "`conventions`"),
    ):
        with pytest.raises(error, match=said):
            mleval.cross_validate(estimator, X, target, cv=3, dataset="d", **options)
    assert client.search_runs(["0"]) == []


def test_runs_are_read_back_with_paired_folds(client):
    cv = KFold(5, shuffle=True, random_state=0)
    methods = {"knn": KNeighborsClassifier(), "tree": DecisionTreeClassifier(random_state=0)}
    evs, how = {}, {"cv": cv, "experiment_name": "study"}
    for (m, e), (d, n) in product(methods.items(), {"whole": 120, "half": 60}.items()):
        evs[d, m] = mleval.cross_validate(e, X[:n], Y[:n], dataset=d, method=m, **how)
    study = mleval.load_study(experiment_names=["study"])
    assert len(study.values) == 4
    for (d, m), ev in evs.items():
        assert study.values.loc[d, m].to_dict() == ev.folds.mean()[study.measures].to_dict()
        found = study.folds.sort_index().loc[d, m]
        pd.testing.assert_frame_equal(found, ev.folds[study.measures], check_index_type=False)
    digests = study.runs.groupby("dataset")["split_digest"].nunique()
    assert digests.tolist() == [1, 1] and study.runs["split_digest"].notna().all()
    assert study.runs["dataset_digest"].nunique() == 2
    assert {*study.runs["conventions"]} == {"sklearn"}
    assert {e.name for e in study.excluded if e.kind == "unasked"} >= {"fit_time", "predict_time"}
    run = client.get_run(study.runs["run_id"][0])
    assert run.info.status == "FINISHED" and '"n_train":[' in run.data.tags[schema.TAG_FOLD_SIZES]


def test_names_come_from_the_estimator_and_the_data(client):
    with mlflow.start_run() as run:
        mleval.cross_validate(KNeighborsClassifier(3), X, Y, cv=3)
    tags = client.get_run(run.info.run_id).data.tags
    assert tags[schema.TAG_METHOD] == "KNeighborsClassifier(n_neighbors=3)"
    assert tags[schema.TAG_DATASET].startswith("120x4 labels-")


def test_a_run_of_another_method_is_refused_before_the_work(client):
    with mlflow.start_run():
        mleval.cross_validate(KNeighborsClassifier(), X, Y, cv=3, dataset="d")
        said = "holds KNeighborsClassifier on d already.*Start another run for Failing"
        with pytest.raises(mleval.MlevalError, match=said):
            mleval.cross_validate(Failing(), X, Y, cv=3, dataset="d")


def test_a_store_that_is_not_there_is_said_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(mleval.MlevalError, match="cannot"):
        mleval.cross_validate(Failing(), X, Y, cv=3, dataset="d", experiment_name="x")


def test_results_that_cannot_be_logged_are_returned(client, tmp_path):
    class Stealing(KNeighborsClassifier):
        """Another process fills the run while this one fits."""

        def fit(self, X, Y):
            run = mlflow.active_run()
            mlflow.MlflowClient().set_tag(run.info.run_id, schema.TAG_STATUS, "complete")
            return super().fit(X, Y)

    said = "was not logged. StoreError: run .*: mleval import .* pass it to mleval.log_evaluation"
    with mlflow.start_run(), pytest.warns(UserWarning, match=said):
        ev = mleval.cross_validate(Stealing(), X, Y, cv=3, dataset="d")
    assert len(ev.folds) == 3


def test_mlflow_autologging_stays_silent(client):
    mlflow.sklearn.autolog(log_models=False)
    try:
        mleval.cross_validate(KNeighborsClassifier(), X, Y, cv=3, dataset="d")
    finally:
        mlflow.sklearn.autolog(disable=True)
    assert len(client.search_runs(["0"])) == 1


def test_scoring_gives_every_measure_with_larger_as_better():
    scoring = pickle.loads(pickle.dumps(mleval.scoring()))
    found = sklearn_cross_validate(FOREST, X, Y, cv=4, scoring=scoring)
    ev = mleval.cross_validate(FOREST, X, Y, cv=4, log=False)
    losses = {"hamming_loss", "one_error", "coverage", "ranking_loss"}
    for name in SETS["sixteen"]:
        shown = -found[f"test_neg_{name}"] if name in losses else found[f"test_{name}"]
        np.testing.assert_allclose(shown, ev.folds[name], rtol=1e-12)


def test_scoring_of_an_estimator_without_scores_has_no_ranking_measures():
    class Rule(ClassifierMixin, BaseEstimator):
        def fit(self, X, Y):
            return self

        def predict(self, X):
            return (X[:, :4] > 5).astype(int)

    assert "neg_ranking_loss" not in mleval.scoring()(Rule(), X, Y)
    assert np.isnan(mleval.scoring(["ranking_loss"])(Rule(), X, Y)["neg_ranking_loss"])
    said = "must be a classifier, got Ridge: mleval evaluates no regression"
    with pytest.raises(TypeError, match=said):
        mleval.scoring()(Ridge().fit(X, Y[:, 0]), X, Y[:, 0])
    for name in ("f2", "fit_time"):
        with pytest.raises(ValueError, match="`measures` must name"):
            mleval.scoring([name])


def test_scoring_with_a_hierarchy():
    h = mleval.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])
    frame = pd.DataFrame(Y, columns=list("abcd"))
    found = mleval.scoring(hierarchy=h)(FOREST.fit(X, frame), X, frame)
    expected = mleval.evaluate(frame, y_pred=FOREST.predict(X), hierarchy=h).measures
    assert found["h_f1"] == expected["h_f1"] and found["neg_h_loss"] == -expected["h_loss"]


def test_a_search_logs_its_winner(client):
    how = {"scoring": mleval.scoring(), "refit": "micro_f1", "cv": 4}
    grid = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3, 9]}, **how).fit(X, Y)
    run_id = mleval.log_search(grid, dataset="d", experiment_name="searches")
    best = mleval.cross_validate(grid.best_estimator_, X, Y, cv=4, log=False)
    study = mleval.load_study(experiment_names=["searches"])
    name = "KNeighborsClassifier(n_neighbors=tuned)"
    for m in ("micro_f1", "hamming_loss", "coverage"):
        assert study.values.loc[("d", name), m] == pytest.approx(best.folds[m].mean())
        np.testing.assert_allclose(study.folds.loc[("d", name)][m], best.folds[m])
    assert client.get_run(run_id).data.tags[schema.TAG_SELECTED] == "3"
    assert any(f"candidates are optimistic: {name} on d (among 3)" in note for note in study.notes)


def test_searches_that_cannot_be_logged():
    grid = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3]}, cv=3)
    with pytest.raises(ValueError, match="`search` must be fitted"):
        mleval.log_search(grid, dataset="d")
    with pytest.raises(ValueError, match=r"must be scored by mleval.scoring\(\), got scoring=None"):
        mleval.log_search(grid.fit(X, Y), dataset="d")
    grid = clone(grid).set_params(scoring=mleval.scoring(), refit=False)
    with pytest.raises(ValueError, match="must have a best candidate, got refit=False"):
        mleval.log_search(grid.fit(X, Y), dataset="d")


def test_methods_are_compared_instance_by_instance(client):
    """In whatever order the folds test the rows."""
    values = []
    how = {"dataset": "d", "experiment_name": "x", "log_instances": True}
    for seed, base in enumerate((DecisionTreeClassifier(random_state=0), KNeighborsClassifier())):
        cv = KFold(4, shuffle=True, random_state=seed)
        ev = mleval.cross_validate(base, X, Y, cv=cv, method=f"m{seed}", **how)
        values.append(ev.instances["f1"].sort_index())
    with instances_of(mleval.load_study(experiment_names=["x"]), "d", ["f1"]) as known:
        table = mleval.instance_tests(known.tables, known.measures).table
    expected = abs((values[0] - values[1]).mean())
    assert table["difference"].abs().tolist() == pytest.approx([expected])
