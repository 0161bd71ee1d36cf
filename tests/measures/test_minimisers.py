"""Bayes-optimal predictions and the nearest-neighbour minimiser, against plain enumeration."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import GOLDEN
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

from mlflow_mleval.measures.capacities import (
    Capacity,
    NearestNeighbourMinimiser,
    bayes_optimal,
    choquet_loss,
)
from mlflow_mleval.measures.owa import binomial_loss, polynomial_loss

PAPER = json.loads((GOLDEN / "huellermeier2022.json").read_text())
LOSSES = {"binomial": binomial_loss, "polynomial": polynomial_loss}


def enumerate_all(label_sets, probabilities, loss):
    """Expected loss of each of the 2^K label sets, which are in lexicographic order."""
    candidates = np.array(list(product([0, 1], repeat=label_sets.shape[1])))
    n = len(label_sets)
    expected = [probabilities @ loss(label_sets, np.tile(c, (n, 1))) for c in candidates]
    return candidates, np.array(expected)


def first_best(candidates, expected):
    return candidates[np.argmax(expected <= expected.min() + 1e-13)]


def distribution(name):
    rows = PAPER[name]["distribution"]
    return np.array([row["y"] for row in rows]), np.array([row["p"] for row in rows])


# ---- Bayes-optimal predictions -------------------------------------------------------------------


def test_optima_of_the_paper():
    label_sets, probabilities = distribution("bayes_optimal")
    for k in range(1, 6):
        best = bayes_optimal(label_sets, probabilities, "binomial", k)
        assert best.label_set.tolist() == PAPER["bayes_optimal"]["argmin_binomial"][str(k)]
        expected = PAPER["bayes_optimal"]["expected_loss"][str(k)]
        assert best.expected_loss == pytest.approx(expected, abs=1e-12)


def test_marginal_mode_and_joint_mode():
    label_sets, probabilities = distribution("joint_vs_marginal_mode")
    expected = PAPER["joint_vs_marginal_mode"]
    for family, parameter, mode in (
        ("binomial", 1, "hamming_optimal"),
        ("binomial", 3, "subset01_optimal"),
        ("polynomial", 1000, "subset01_optimal"),
    ):
        best = bayes_optimal(label_sets, probabilities, family, parameter)
        assert best.label_set.tolist() == expected[mode]


@given(
    st.integers(1, 6),
    st.integers(1, 12),
    st.integers(0, 10**6),
    st.sampled_from(["binomial", "polynomial"]),
    st.booleans(),
)
def test_optima_are_the_first_among_all_label_sets(n_labels, n_sets, seed, family, even):
    rng = np.random.default_rng(seed)
    # with exchangeable labels and consensus
    label_sets = (rng.random((n_sets, n_labels)) < rng.choice([0.1, 0.5])).astype(int)
    weights = np.ones(n_sets) if even else rng.random(n_sets)
    weights = weights / weights.sum()
    parameter = rng.integers(1, n_labels + 1) if family == "binomial" else rng.choice([1, 1.7, 30])

    def loss(truth, pred):
        return LOSSES[family](truth, pred, parameter, per_instance=True)

    candidates, expected = enumerate_all(label_sets, weights, loss)
    best = bayes_optimal(label_sets, weights, family, parameter)
    assert best.expected_loss == pytest.approx(expected.min(), abs=1e-13)
    assert best.label_set.tolist() == first_best(candidates, expected).tolist()


@given(st.integers(1, 5), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_optima_for_a_capacity(n_labels, seed):
    rng = np.random.default_rng(seed)
    label_sets, weights = rng.integers(0, 2, (6, n_labels)), rng.dirichlet(np.ones(6))
    for capacity in (
        Capacity.weighted(rng.random(n_labels), lambda x: x**2, relevant_weight=4),
        Capacity.polynomial(n_labels, 2.5),
    ):

        def loss(truth, pred, mu=capacity):
            return choquet_loss(truth, pred, mu, per_instance=True)

        candidates, expected = enumerate_all(label_sets, weights, loss)
        best = bayes_optimal(label_sets, weights, capacity)
        assert best.label_set.tolist() == first_best(candidates, expected).tolist()
        assert best.expected_loss == pytest.approx(expected.min(), abs=1e-13)
    wanted = bayes_optimal(label_sets, weights, "polynomial", 2.5).expected_loss
    assert best.expected_loss == pytest.approx(wanted, abs=1e-13)


def test_many_labels_with_few_open_questions():
    rng = np.random.default_rng(0)
    label_sets = np.zeros((5, 200), dtype=int)
    for row in label_sets:
        row[rng.choice(200, 3, replace=False)] = 1
    # 15 labels in five groups of three exchangeable ones: 4^5 candidates in place of 2^200
    best = bayes_optimal(sparse.csr_array(label_sets), np.full(5, 0.2), "binomial", 1)
    assert best.label_set.sum() == 0
    best = bayes_optimal(label_sets, [0.3, 0.2, 0.2, 0.2, 0.1], "binomial", 200)
    assert best.label_set.tolist() == label_sets[0].tolist()
    assert best.expected_loss == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("label_sets", "given", "message"),
    [
        ([[0, 1]], ([1], "cubic", 1), "`loss` must be one of 'binomial', 'polynomial', got 'cub"),
        ([[0, 1]], ([1],), "`parameter` must be k or alpha of the binomial loss, got None"),
        ([[0, 1]], ([1], "binomial", 3), r"`k` must be an integer in 1\.\.2"),
        ([[0, 1]], ([1], "binomial", [1, 2]), r"`k` must be one number, got \[1, 2\]"),
        ([[0, 1]], ([0.9], "binomial", 1), "must not be negative and sum to 1, got .* of 0.9"),
        ([[0, 1]], ([0.5, 0.5], "binomial", 1), "must be one per label set, 1, got"),
        ([[0, 1]], ([1], Capacity.binomial(2, 1), 1), "must be left out with a capacity"),
        ([[0, 1]], ([1], Capacity.binomial(3, 1)), "`loss` must be a capacity of 2 labels"),
        ([[0, 1]] * 2, ([1.5, -0.5], "binomial", 1), "got a smallest of -0.5"),
        ([[0, 2]], ([1], "binomial", 1), "`label_sets` must hold only 0 and 1"),
        (np.eye(30), (np.full(30, 1 / 30), "binomial", 1), "the 1073741824 label sets that 30 .*"),
    ],
)
def test_bad_arguments_are_named(label_sets, given, message):
    with pytest.raises(ValueError, match=message):
        bayes_optimal(label_sets, *given)


# ---- nearest neighbours --------------------------------------------------------------------------


def make_data(n=60, n_labels=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    values = X @ rng.normal(size=(3, n_labels)) + rng.normal(size=(n, n_labels))
    return X, (values > 0.5).astype(int)


@pytest.mark.parametrize(
    ("family", "parameters"), [("binomial", [1, 2, 3, 4, 5]), ("polynomial", [1, 3, 100])]
)
@pytest.mark.parametrize("n_neighbors", [1, 4, 9])
def test_predictions_minimise_the_loss_over_the_neighbours(family, parameters, n_neighbors):
    X, Y = make_data()
    new = make_data(seed=1)[0][:15]
    minimiser = NearestNeighbourMinimiser(n_neighbors, loss=family).fit(X, Y)
    predictions = minimiser.predict_all(new, parameters)
    assert predictions.shape == (len(parameters), 15, 5)
    for i, x in enumerate(new):
        nearest = np.argsort(abs(X - x).sum(axis=1))[:n_neighbors]
        for parameter, prediction in zip(parameters, predictions, strict=True):

            def loss(truth, pred, at=parameter):
                return LOSSES[family](truth, pred, at, per_instance=True)

            even = np.full(n_neighbors, 1 / n_neighbors)
            candidates, expected = enumerate_all(Y[nearest], even, loss)
            assert prediction[i].tolist() == first_best(candidates, expected).tolist()


def test_predict_is_predict_all_for_its_own_parameter_and_hamming_is_the_majority():
    X, Y = make_data()
    for k in (1, 3, 5):
        minimiser = NearestNeighbourMinimiser(parameter=k).fit(X, sparse.csr_array(Y))
        assert (minimiser.predict(X) == minimiser.predict_all(X, [k])[0]).all()
    majority = NearestNeighbourMinimiser(5).fit(X, Y)
    neighbours = majority.neighbours_.kneighbors(X, return_distance=False)
    assert (majority.predict(X) == (Y[neighbours].mean(axis=1) > 0.5)).all()


# What check_estimator asks of every classifier and a multi-label one cannot or need not give.
CLASSES = "fits other classes than 0 and 1, or text"
SHAPE = "wants predictions in one dimension; they are a matrix of instances by labels"
NOT_APPLICABLE = {
    "check_estimators_dtypes": CLASSES,
    "check_classifier_data_not_an_array": CLASSES,
    "check_fit2d_1feature": CLASSES,
    "check_classifiers_classes": CLASSES,
    "check_classifiers_one_label": SHAPE,
    "check_classifiers_train": SHAPE,
}


def test_it_is_a_scikit_learn_estimator():
    how = {"expected_failed_checks": NOT_APPLICABLE, "on_fail": "raise", "on_skip": None}
    results = check_estimator(NearestNeighbourMinimiser(3), **how)
    assert {r["check_name"] for r in results if r["status"] == "xfail"} <= set(NOT_APPLICABLE)
    assert sum(r["status"] == "passed" for r in results) > 40


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        ({"n_neighbors": 61}, None, "`n_neighbors` must be .* from 1 to n_samples = 60, got 61"),
        ({"n_neighbors": 0}, None, "`n_neighbors` must be an integer from 1"),
        ({"parameter": 6}, None, r"`k` must be an integer in 1\.\.5"),
        ({"loss": "f1"}, None, "`loss` must be one of"),
        ({}, lambda y: 2 * y, "`y` must hold only 0 and 1, got 2"),
        ({}, lambda y: y.sum(axis=1), "`y` must be a matrix of 0 and 1, got a multiclass target"),
        ({"max_candidates": 1}, None, "`max_candidates` must be at least the"),
    ],
)
def test_bad_input_of_the_estimator_is_named(options, labels, message):
    x, y = make_data()
    with pytest.raises(ValueError, match=message):
        NearestNeighbourMinimiser(**options).fit(x, labels(y) if labels else y).predict(x)
