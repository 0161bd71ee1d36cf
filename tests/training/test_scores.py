"""Scores in every shape in which scikit-learn returns them; names for what nobody named."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from mlflow_mleval.training.estimators import (
    as_matrix,
    dataset_name,
    method_name,
    params_of,
    predict,
    sample,
)

X, Y = make_multilabel_classification(80, 6, n_classes=4, random_state=0)
LOGISTIC = LogisticRegression()

#: Estimator, and the score from which on it predicts a label; None where predictions do not follow
#: from scores alone.
ESTIMATORS = [
    (RandomForestClassifier(9, random_state=0), 0.5),
    (ExtraTreesClassifier(9, random_state=0), 0.5),
    (DecisionTreeClassifier(random_state=0), 0.5),
    (KNeighborsClassifier(3), 0.5),
    (RadiusNeighborsClassifier(20.0, outlier_label=0), 0.5),
    (MultiOutputClassifier(LOGISTIC), 0.5),
    (MultiOutputClassifier(LinearSVC()), 0.0),
    (make_pipeline(StandardScaler(), MultiOutputClassifier(LinearSVC())), 0.0),
    (GridSearchCV(MultiOutputClassifier(LinearSVC()), {"estimator__C": [1, 2]}, cv=2), 0.0),
    (ClassifierChain(LOGISTIC), 0.5),
    (ClassifierChain(LinearSVC(), order=[2, 0, 3, 1]), 0.0),
    (OneVsRestClassifier(LOGISTIC), 0.5),
    (OneVsRestClassifier(LinearSVC()), 0.0),
    (RidgeClassifier(), 0.0),
    (MLPClassifier(max_iter=800, random_state=0), 0.5),
    (make_pipeline(StandardScaler(), RandomForestClassifier(9, random_state=0)), 0.5),
    (DummyClassifier(), 0.5),
]


@pytest.mark.parametrize(
    ("estimator", "cut"), ESTIMATORS, ids=lambda value: method_name(value)[:40]
)
def test_scores_explain_the_predictions(estimator, cut):
    found = predict(estimator.fit(X, Y), X, 4)
    assert found.without_score == ""
    assert found.y_score.shape == found.y_pred.shape == (80, 4)
    np.testing.assert_array_equal(found.y_pred, estimator.predict(X))
    np.testing.assert_array_equal(found.y_score > cut, found.y_pred)
    assert found.predict_time > 0


@pytest.mark.parametrize(
    "estimator",
    [
        *(RandomForestClassifier(5), KNeighborsClassifier(), DummyClassifier()),
        *(MultiOutputClassifier(DecisionTreeClassifier()), OneVsRestClassifier(LOGISTIC)),
        *(MLPClassifier(max_iter=400), ClassifierChain(DecisionTreeClassifier())),
    ],
    ids=lambda e: method_name(e)[:40],
)
def test_labels_of_one_class_score_0_or_1(estimator):
    target = Y.copy()
    target[:, 1], target[:, 2] = 0, 1
    found = predict(estimator.fit(X, target), X, 4)
    assert (found.y_score[:, 1] < 0.5).all() and (found.y_score[:, 2] > 0.5).all()
    np.testing.assert_array_equal(found.y_pred[:, [1, 2]], target[:, [1, 2]])


def test_a_chain_with_a_constant_label_scores_as_its_links_do():
    """scikit-learn refuses these; they are those of a chain over the other labels."""
    constant = np.column_stack([Y[:, 0], np.ones(80, int), Y[:, 1]])
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    chain = ClassifierChain(tree, order=[2, 1, 0]).fit(X, constant)
    with pytest.raises(ValueError, match="predict_proba of shape"):
        chain.predict_proba(X)
    last = chain.estimators_[0].predict_proba(X)
    seen = np.column_stack([X, last.argmax(axis=1), np.ones(80)])
    first = chain.estimators_[2].predict_proba(seen)
    expected = np.column_stack([first[:, 1], np.ones(80), last[:, 1]])
    np.testing.assert_array_equal(predict(chain, X, 3).y_score, expected)
    found = predict(make_pipeline("passthrough", chain), X, 3).y_score
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(predict(chain, sparse.csr_array(X), 3).y_score, expected)


def test_scores_of_the_absent_label_are_not_taken_for_scores():
    """StackingClassifier returns the probability of the first class for a label matrix."""
    trees = [("a", DecisionTreeClassifier(max_depth=3)), ("b", KNeighborsClassifier())]
    forest = RandomForestClassifier(9, random_state=0)
    stacking = StackingClassifier(trees, final_estimator=forest, cv=3).fit(X, Y)
    found = predict(stacking, X, 4)
    assert found.y_score is None and "absent" in found.without_score
    np.testing.assert_array_equal(found.y_pred, stacking.predict(X))


class Resampled(Pipeline):
    """A pipeline as of imbalanced-learn: its first step changes rows for the fit alone."""

    def fit(self, X, y):
        self[-1].fit(X[::2], y[::2])
        return self

    def predict(self, X):
        return self[-1].predict(X)

    def predict_proba(self, X):
        return self[-1].predict_proba(X)


def test_pipelines_of_others_are_asked_as_they_are():
    model = Resampled([("sampler", object()), ("last", LOGISTIC)]).fit(X, Y[:, 0])
    found = predict(model, X, [0, 1])
    np.testing.assert_array_equal(found.y_pred, model.predict(X))
    np.testing.assert_array_equal(found.y_score, model.predict_proba(X))


def test_without_scores_there_are_still_predictions():
    class Rule:
        def predict(self, X):
            return (np.asarray(X)[:, :2] > 5).astype(int)

    class Broken(Rule):
        def predict_proba(self, X):
            raise RuntimeError("no such kernel")

    found = predict(Rule(), X, 2).without_score
    assert found == "AttributeError: Rule has neither predict_proba nor decision_function"
    found = predict(Broken(), X, 2)
    assert found.without_score == "RuntimeError: no such kernel"
    assert found.y_score is None and found.y_pred.shape == (80, 2)
    with pytest.raises(ValueError, match="one column for each of the 3 labels, got shape"):
        predict(Rule(), X, 3)
    for target, classes in ((Y, 4), (Y[:, 0], [0, 1])):
        told = predict(Ridge().fit(X, target), X, classes).without_score
        assert "Ridge is a regressor and has neither predict_proba nor" in told


def test_scores_of_classes():
    kinds = np.array(["a", "b", "c"])[Y[:, 0] + Y[:, 1]]
    found = predict(LOGISTIC.fit(X, kinds), X, ["a", "b", "c", "d"])
    assert found.y_score.shape == (80, 4) and (found.y_score[:, 3] == 0).all()
    assert found.is_probability
    found = predict(LinearSVC().fit(X, kinds), X, ["a", "b", "c"])
    assert (np.array(["a", "b", "c"])[found.y_score.argmax(axis=1)] == found.y_pred).all()
    assert not found.is_probability
    found = predict(LinearSVC().fit(X, Y[:, 0]), X, [0, 1])
    assert found.y_score.shape == (80,) and ((found.y_score > 0) == found.y_pred).all()
    pairs = SVC(decision_function_shape="ovo").fit(X, kinds)
    assert "pairs of classes" in predict(pairs, X, ["a", "b", "c"]).without_score
    told = predict(LinearSVC().fit(X, kinds), X, ["a", "b", "c", "d"]).without_score
    assert "for 3 classes of 4" in told
    with pytest.raises(ValueError, match="one class for each instance, got shape .80, 4."):
        predict(KNeighborsClassifier().fit(X, Y), X, [0, 1])


@pytest.mark.parametrize("forest", [RandomForestClassifier, ExtraTreesClassifier])
def test_a_forest_is_asked_once_for_what_it_predicts_and_its_scores(forest, monkeypatch):
    several, one = forest(5, random_state=0).fit(X, Y), forest(5, random_state=0)
    one.fit(X, np.array(["no", "yes"])[Y[:, 0]])
    predicted, expected = several.predict(X), one.predict(X)
    scores = np.stack([p[:, 1] for p in several.predict_proba(X)], axis=1)
    asked, ask = [], forest.predict_proba
    monkeypatch.setattr(forest, "predict_proba", lambda *args: asked.append(1) or ask(*args))
    of_sets, of_one = predict(several, X, 4), predict(one, X, ["no", "yes"])
    assert len(asked) == 2 and not of_sets.without_score and not of_one.without_score
    np.testing.assert_array_equal(of_sets.y_pred, predicted)
    np.testing.assert_array_equal(of_sets.y_score, scores)
    np.testing.assert_array_equal(of_one.y_pred, expected)


def test_sparse_targets_and_one_label():
    model = OneVsRestClassifier(LOGISTIC).fit(X, sparse.csr_matrix(Y))
    found = predict(model, X, 4)
    assert sparse.issparse(found.y_pred)
    np.testing.assert_array_equal(found.y_score > 0.5, found.y_pred.toarray())
    found = predict(OneVsRestClassifier(LinearSVC()).fit(X, Y[:, :1]), X, 1)
    np.testing.assert_array_equal(found.y_score > 0, found.y_pred)


@pytest.mark.parametrize(
    ("raw", "classes", "expected"),
    [
        (np.array([0.2, 0.8]), None, [[0.2], [0.8]]),
        (np.array([[0.8, 0.2], [0.1, 0.9]]), None, [[0.2], [0.9]]),
        (np.array([[1.0], [1.0]]), [[0]], [[0.0], [0.0]]),
        (np.array([[1.0], [1.0]]), [[1]], [[1.0], [1.0]]),
        (np.array([[0.3], [0.4]]), None, [[0.3], [0.4]]),
        ([np.array([[0.8, 0.2], [0.1, 0.9]])], None, [[0.2], [0.9]]),
    ],
)
def test_one_label(raw, classes, expected):
    np.testing.assert_array_equal(as_matrix(raw, 1, classes), expected)


SCALED = make_pipeline(StandardScaler(), LinearSVC(C=2, random_state=1))
NAMED = {
    "KNeighborsClassifier": KNeighborsClassifier(n_jobs=2),
    "KNeighborsClassifier(n_neighbors=7)": KNeighborsClassifier(np.int64(7)),
    "LogisticRegression": LogisticRegression(C=1),
    "RandomForestClassifier": RandomForestClassifier(random_state=1, verbose=1),
    "ClassifierChain(estimator=LinearSVC(C=2), order='random')": ClassifierChain(
        LinearSVC(C=2, random_state=1), order="random"
    ),
    "Pipeline(steps=[('standardscaler', StandardScaler()), ('linearsvc', LinearSVC(C=2))])": SCALED,
    "MultiOutputClassifier(estimator=LinearSVC(C=tuned))": GridSearchCV(
        MultiOutputClassifier(LinearSVC()), {"estimator__C": [1]}
    ),
    "Pipeline(steps=[('standardscaler', tuned), ('linearsvc', LinearSVC(C=2))])": GridSearchCV(
        SCALED, [{"standardscaler": ["a"]}]
    ),
}


@pytest.mark.parametrize(("name", "estimator"), NAMED.items(), ids=NAMED)
def test_a_method_is_called_what_scikit_learn_shows_without_seeds(estimator, name):
    assert method_name(estimator) == name


def test_names_depend_on_the_estimator_alone_and_params_tell_the_rest():
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": np.arange(1, 4, 2)}, cv=2)
    before = method_name(search)
    search.fit(X, Y)
    assert before == method_name(search) == "KNeighborsClassifier(n_neighbors=tuned)"
    params = params_of(search)
    assert params["n_neighbors"] == str(search.best_params_["n_neighbors"])
    assert params["estimator"] == method_name(search.best_estimator_) != before
    seeded = params_of(RandomForestClassifier(random_state=2, verbose=1))
    assert seeded["random_state"] == "2" and "verbose" not in seeded
    long = [method_name(MLPClassifier(hidden_layer_sizes=(n,) * 29)) for n in (10, 11)]
    assert long[0] != long[1] and all(len(name) <= 120 for name in long)
    assert " at 0x" not in method_name(FunctionTransformer(lambda x: x))


def test_names_of_datasets_tell_data_apart_but_not_containers():
    assert dataset_name(X, Y).startswith("80x4 labels-")
    other = X.copy()
    other[0, 0] += 1
    assert dataset_name(other, Y) != dataset_name(X, Y)
    assert dataset_name(X, Y) == dataset_name(X.copy(), Y.copy())
    assert dataset_name(X, Y[:, 0]).startswith("80x2 classes-")
    frame = pd.DataFrame(X).assign(text="x")
    for value in (frame, sparse.csr_matrix(X), ["some", "texts"], frame["text"]):
        assert sample(value, Y) == sample(value, Y) != sample(X, Y)
