"""Capacities, the losses between Hamming and subset 0/1 and what minimises them: the integral
written out, exact fractions, published figures and plain enumeration.
"""

import json
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from places import GOLDEN
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

from mlflow_mleval.evaluation import evaluate
from mlflow_mleval.measures.capacities import (
    Capacity,
    NearestNeighbourMinimiser,
    bayes_optimal,
    choquet_loss,
)
from mlflow_mleval.measures.owa import (
    ALPHAS,
    awareness,
    binomial_loss,
    error_histogram,
    family_weights,
    loss_profile,
    order_statistic_sums,
    owa_loss,
    polynomial_loss,
    profile_from_histogram,
    profile_from_means,
)


def subsets(n_labels):
    sizes = range(n_labels + 1)
    return [frozenset(c) for size in sizes for c in combinations(range(n_labels), size)]


def random_capacity(n_labels, seed):
    """Values of a capacity without any symmetry, as a dict by set."""
    rng = np.random.default_rng(seed)
    values = {}
    for labels in subsets(n_labels):
        least = max((values[labels - {i}] for i in labels), default=0.0)
        values[labels] = least + (rng.random() if labels else 0)
    top = values[frozenset(range(n_labels))]
    return {labels: value / top for labels, value in values.items()}


def masses_of(mu):
    """The Möbius transform by its alternating sum."""
    return {
        a: sum((-1) ** (len(a) - len(b)) * value for b, value in mu.items() if b <= a) for a in mu
    }


def by_definition(truth, score, mu):
    """1 - sum of (u_(i) - u_(i-1)) mu(A_(i)), one instance at a time (eq. 14)."""
    losses = []
    for y, s in zip(truth, score, strict=True):
        u = 1 - abs(s - y)
        order, last, integral = np.argsort(u), 0.0, 0.0
        for place, i in enumerate(order):
            chain = frozenset(order[place:].tolist())
            integral += (u[i] - last) * mu(chain, frozenset(np.flatnonzero(y).tolist()))
            last = u[i]
        losses.append(1 - integral)
    return np.array(losses)


def random_pair(n, k, seed=0, grid=None):
    rng = np.random.default_rng(seed)
    score = rng.random((n, k))
    return rng.integers(0, 2, (n, k)), score if grid is None else np.round(score * grid) / grid


@given(st.integers(1, 5), st.integers(0, 10**6), st.sampled_from([None, 1, 3]))
def test_function_table_and_mobius_give_the_integral(n_labels, seed, grid):
    mu = random_capacity(n_labels, seed)
    truth, score = random_pair(6, n_labels, seed, grid)
    expected = by_definition(truth, score, lambda a, y: mu[a])
    capacities = [
        Capacity.from_function(mu.__getitem__, n_labels),
        Capacity.from_mobius(masses_of(mu), n_labels),
        Capacity.from_function(lambda a, relevant: mu[a], n_labels, relevance=True),
    ]
    for capacity in capacities:
        found = choquet_loss(truth, score, capacity, per_instance=True)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        assert [capacity(a) for a in mu] == pytest.approx([*mu.values()], abs=1e-12)
        assert choquet_loss(truth, score, capacity) == pytest.approx(expected.mean(), abs=1e-12)


@pytest.mark.parametrize("n_labels", [1, 6, 40])
def test_counting_capacities_are_the_owa_losses(n_labels):
    truth, score = random_pair(25, n_labels)
    errors, power = abs(score - truth), polynomial_loss(truth, score, 2.5)
    for capacity, expected in [
        (Capacity.counting(lambda x: x, n_labels), errors.mean()),
        (Capacity.counting(lambda x: float(x == 1), n_labels), errors.max(axis=1).mean()),
        (Capacity.counting(lambda x: x**2.5, n_labels), power),
        (Capacity.from_function(lambda a: (len(a) / n_labels) ** 2.5, n_labels), power),
        (Capacity.weighted(np.full(n_labels, 7.0), lambda x: x**2.5), power),
    ]:
        assert choquet_loss(truth, score, capacity) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n_labels", [20, 70])
def test_functions_and_masses_of_many_labels(n_labels):
    truth, score = random_pair(12, n_labels)
    by_sets = Capacity.from_function(lambda a: (len(a) / n_labels) ** 3, n_labels)
    expected = polynomial_loss(truth, score, 3, per_instance=True)
    found = choquet_loss(truth, score, by_sets, per_instance=True)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    pairs = {(i, i + 1): 1 / (n_labels - 1) for i in range(n_labels - 1)}
    errors = abs(score - truth)
    largest = np.maximum(errors[:, 1:], errors[:, :-1]).mean(axis=1)
    neighbours = Capacity.from_mobius(pairs, n_labels)
    found = choquet_loss(truth, score, neighbours, per_instance=True)
    np.testing.assert_allclose(found, largest, atol=1e-12)
    assert neighbours({3, 4, 5, 9}) == pytest.approx(2 / (n_labels - 1))


def test_negative_masses_of_many_labels_follow_the_chains():
    truth, score = random_pair(12, 20)
    redundant = {(i,): 1.5 / 20 for i in range(20)}
    # two labels that repeat one another
    redundant |= {(i, i + 1): -1 / 20 for i in range(0, 20, 2)}
    masses = {frozenset(t): m for t, m in redundant.items()}
    errors = abs(score - truth)
    expected = sum(m * errors[:, list(t)].max(axis=1) for t, m in masses.items())  # masses sum to 1
    capacity = Capacity.from_mobius(masses, 20)
    found = choquet_loss(truth, score, capacity, per_instance=True)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    broken = Capacity.from_mobius({(0,): 1, (1,): 1, (0, 1): -2, (2,): 1}, 20)
    said = r"`capacity` must be monotone, got mu\(\{.*\}\) = .* > mu\(\{0, .*\}\)"
    with pytest.raises(ValueError, match=said):
        choquet_loss(truth, score, broken)


def test_weighted_labels_and_relevant_labels_against_the_definition():
    truth, score = random_pair(30, 5)
    weights = np.array([1, 0, 2, 3, 0.5])

    def share(labels, relevant):
        own = {i: weights[i] * (3 if i in relevant else 1) for i in range(5)}
        return (sum(own[i] for i in labels) / sum(own.values())) ** 2

    expected = by_definition(truth, score, share)
    quick = Capacity.weighted(weights, lambda x: x**2, relevant_weight=3)
    asked = Capacity.from_function(share, 5, relevance=True)
    for capacity in (quick, asked):
        found = choquet_loss(truth, score, capacity, per_instance=True)
        np.testing.assert_allclose(found, expected, atol=1e-12)
    for labels in subsets(5):
        assert quick(labels, {1, 3}) == pytest.approx(share(labels, {1, 3}), abs=1e-12)


def test_errors_on_relevant_labels_cost_more_where_relevance_is_emphasised():
    missed, invented = [[1, 0, 0, 0]], [[0, 0, 0, 0]]
    even, recall = (Capacity.weighted([1] * 4, relevant_weight=w) for w in (1, 5))
    assert choquet_loss(missed, invented, even) == choquet_loss(invented, missed, even) == 0.25
    assert choquet_loss(missed, invented, recall) == pytest.approx(5 / 8)
    assert choquet_loss(invented, missed, recall) == 0.25


def test_sparse_input_and_more_rows_than_a_block_holds():
    truth, score = random_pair(9000, 10, grid=2)
    mu = Capacity.weighted(np.arange(1, 11), lambda x: x**2)
    expected = choquet_loss(truth, score, mu)
    found = choquet_loss(sparse.csr_array(truth), sparse.csr_array(score), mu)
    assert found == pytest.approx(expected, abs=1e-14)
    halves = ([x[i::2] for x in (truth, score)] for i in range(2))
    parts = [choquet_loss(*half, mu, per_instance=True) for half in halves]
    assert np.concatenate(parts).mean() == pytest.approx(expected, abs=1e-13)


def test_a_chain_that_falls_is_named_when_it_is_needed():
    truth, score = random_pair(3, 20)
    humped = Capacity.from_function(lambda a: 1.0 if len(a) in (5, 20) else len(a) / 20, 20)
    said = r"monotone, got mu\(\{.*\}\) = 1 > mu\(\{.*\}\) = 0.3 \(of 3 such pairs\)"
    with pytest.raises(ValueError, match=said):
        choquet_loss(truth, score, humped)
    fickle = Capacity.from_function(lambda a, y: len(a) / 3 * (0.5 if y else 1), 3, relevance=True)
    with pytest.raises(ValueError, match="normalised, .* got 0 and 0.5"):
        choquet_loss([[0, 1, 0]], [[0.5, 0.5, 0.5]], fickle)


FROM_MOBIUS, COUNTING = Capacity.from_mobius, Capacity.counting
FROM_FUNCTION, BEST = Capacity.from_function, bayes_optimal
FALLS = [0, 0.2, 0.6, 0.5, 0.1, 0.5, 0.55, 1]
T = [[0, 1]]
RISING = "`means` must be a non-increasing sequence"
EVEN = partial(Capacity.weighted, [1, 1])
EVEN_OF_THREE = Capacity.weighted([1, 1, 1])


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
        (
            *(FROM_FUNCTION, (lambda a: FALLS[sum(1 << i for i in a)], 3)),
            r"monotone, got mu\(\{1\}\) = 0.6 > mu\(\{0, 1\}\) = 0.5 \(of 2 such pairs\)",
        ),
        (FROM_FUNCTION, (lambda a: [0, -0.5, 1][len(a)], 2), r"= 0 > mu\(\{0\}\) = -0.5"),
        (FROM_FUNCTION, (lambda a: len(a) / 4, 2), r"normalised, .* got 0 and 0.5"),
        (FROM_FUNCTION, (lambda a: len(a) / 80, 40), r"normalised, .* got 0 and 0.5"),
        (FROM_FUNCTION, (lambda a: np.nan if a else 0, 2), r"normalised, .* got 0 and nan"),
        (FROM_FUNCTION, (lambda a: [0, np.nan, 1][len(a)], 2), r"mu\(\{0\}\) = nan"),
        (FROM_MOBIUS, ({(0,): 0.5, (2,): 0.5}, 2), r"hold labels 0\.\.1, got \[2\]"),
        (FROM_MOBIUS, ({(0,): 0.5, (1,): 0.4}, 2), "normalised, .* got 0 and 0.9"),
        (FROM_MOBIUS, ({(0,): 0.5, (1,): 0.4}, 20), "normalised, .* got 0 and 0.9"),
        (FROM_MOBIUS, ({(): 0.5, (1,): 0.5}, 20), "normalised, .* got 0.5 and 1"),
        (FROM_MOBIUS, ({(): 0.5, (1,): 0.5}, 2), "normalised, .* got 0.5 and 1"),
        (FROM_MOBIUS, ({(0,): 2, (0, 1): -1}, 2), r"monotone, got mu\(\{0\}\) = 2 > mu\(\{0, 1\}"),
        (COUNTING, (lambda x: 0.1 + 0.9 * x, 2), "normalised, .* got 0.1 and 1"),
        (COUNTING, (lambda x: x + (x == 1 / 3), 3), r"got mu\(\{0\}\) = 1.33333 > mu\(\{0, 1\}"),
        (COUNTING, (float, 0), "`n_labels` must be a positive integer, got 0"),
        (Capacity.weighted, ([1, -1],), "`weights` must be finite numbers"),
        (Capacity.weighted, ([1, 1], lambda x: 4 * x * (1 - x)), "normalised"),
        (EVEN_OF_THREE, ({3},), r"must hold labels 0\.\.2, got \[3\]"),
        (choquet_loss, ([[0, 1]], [[0, 1]], EVEN_OF_THREE), "of 2 labels, .* got 3"),
        (choquet_loss, ([[0, 1]], [[0, 2]], EVEN()), r"must lie in \[0, 1\]"),
        (choquet_loss, (T, T, len), "must be a Capacity, got builtin_function_or_method"),
        (partial(EVEN, relevant_weight=0), (), r"`relevant_weight` must lie in \(0, inf\)"),
        (binomial_loss, (T, T, 3), r"`k` must be an integer in 1\.\.2, the number of .*, got 3\."),
        (binomial_loss, (T, T, 1.5), "`k` must be an integer .* got 1.5"),
        (polynomial_loss, (T, T, 0.5), "`alpha` must be a finite number of at least 1, got 0.5"),
        (polynomial_loss, (T, T, np.inf), "`alpha` must be a finite number .* got inf"),
        (family_weights, ("binomial", 0), "`n_labels` must be a positive integer"),
        (family_weights, ("binomial", 3, [0, 1, 4, 5, 6]), "got 0, 4, 5 and 1 more"),
        (binomial_loss, (T, T, [1, 2]), r"one number, got \[1, 2\]"),
        (order_statistic_sums, (T, [[0.5, np.nan]]), r"in \[0, 1\], got nan in row 0, column 1 "),
        (order_statistic_sums, (T, sparse.csr_array([[0, 1.5]])), "got 1.5 in row 0, column 1"),
        (order_statistic_sums, ([[0, 1]], [[-0.1, 2]]), r"-0.1 in row 0, column 0 \(2 such cells"),
        (error_histogram, (T, [[0, 0.5]]), "`y_pred` must hold only 0 and 1"),
        (owa_loss, (T, T, [1]), "`weights` must be one per label, 2, got"),
        (owa_loss, (T, T, [1.5, -0.5]), "`weights` must not be negative, got -0.5"),
        (owa_loss, (T, T, [1, 1]), "`weights` must sum to 1, got 2"),
        (profile_from_means, ([0.5, 0.6],), RISING),
        (profile_from_means, ([7, 6],), RISING),
        (profile_from_histogram, ([0, 0, 0],), "`histogram` must hold"),
        (profile_from_histogram, ([1, 1], "cubic"), "`family` must be one of 'binomial', 'poly"),
        (profile_from_histogram, ([1, 1, 1], "binomial", [2, 1]), "`parameters` must increase"),
        (BEST, (T, [1], "cubic", 1), "`loss` must be one of 'binomial', 'polynomial', got 'cubic'"),
        (BEST, (T, [1], "binomial", 3), r"`k` must be an integer in 1\.\.2"),
        (BEST, (T, [1], "binomial", [1, 2]), r"`k` must be one number, got \[1, 2\]"),
        (BEST, (T, [0.9], "binomial", 1), "must not be negative and sum to 1, got .* of 0.9"),
        (BEST, (T, [0.5, 0.5], "binomial", 1), "must be one per label set, 1, got"),
        (BEST, (T * 2, [1.5, -0.5], "binomial", 1), "got a smallest of -0.5"),
        (BEST, ([[0, 2]], [1], "binomial", 1), "`label_sets` must hold only 0 and 1"),
        (BEST, (np.eye(30), np.full(30, 1 / 30), "binomial", 1), "all but 18 labels, got 30"),
    ],
)
def test_bad_input_is_named(call, given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(*given)


PAPER = json.loads((GOLDEN / "huellermeier2022.json").read_text())
LOSSES = {"binomial": binomial_loss, "polynomial": polynomial_loss}


def enumerated(label_sets, probabilities, loss, at):
    """The first of the 2^K label sets, in lexicographic order, with the least expected loss."""
    candidates = np.array(list(product([0, 1], repeat=label_sets.shape[1])))
    expected = [
        probabilities @ loss(label_sets, np.tile(c, (len(label_sets), 1)), at, per_instance=True)
        for c in candidates
    ]
    return candidates[np.argmax(expected <= min(expected) + 1e-13)], min(expected)


def best_of_all(label_sets, weights, loss, *asked):
    """What is said to be best, which is the first among all label sets."""
    wanted, least = enumerated(label_sets, weights, loss, asked[-1])
    best = bayes_optimal(label_sets, weights, *asked)
    assert best.label_set.tolist() == wanted.tolist()
    assert best.expected_loss == pytest.approx(least, abs=1e-13)
    return best


def distribution(name):
    rows = PAPER[name]["distribution"]
    return np.array([row["y"] for row in rows]), np.array([row["p"] for row in rows])


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
    # with consensus
    label_sets = (rng.random((n_sets, n_labels)) < rng.choice([0.1, 0.5])).astype(int)
    weights = np.ones(n_sets) if even else rng.random(n_sets)
    weights = weights / weights.sum()
    parameter = rng.integers(1, n_labels + 1) if family == "binomial" else rng.choice([1, 1.7, 30])

    best_of_all(label_sets, weights, LOSSES[family], family, parameter)


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
        even = np.full(n_neighbors, 1 / n_neighbors)
        for parameter, prediction in zip(parameters, predictions, strict=True):
            wanted, _ = enumerated(Y[nearest], even, LOSSES[family], parameter)
            assert prediction[i].tolist() == wanted.tolist()


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
    ],
)
def test_bad_input_of_the_estimator_is_named(options, labels, message):
    x, y = make_data()
    with pytest.raises(ValueError, match=message):
        NearestNeighbourMinimiser(**options).fit(x, labels(y) if labels else y).predict(x)


@st.composite
def pairs(draw, max_labels=6):
    """Truth and scores; scores on a grid, so that ties occur."""
    shape = draw(st.integers(1, 8)), draw(st.integers(1, max_labels))
    truth = draw(arrays(np.int8, shape, elements=st.integers(0, 1)))
    return truth, draw(arrays(float, shape, elements=st.integers(0, 8).map(lambda i: i / 8)))


@pytest.mark.parametrize(
    ("n_labels", "ks"),
    [(1, [1]), (7, range(1, 8)), (53, range(1, 54)), (1000, [1, 2, 30, 500, 999, 1000])],
)
def test_binomial_weights_agree_with_exact_fractions(n_labels, ks):
    weights = family_weights("binomial", n_labels, list(ks))
    for row, k in zip(weights, ks, strict=True):
        exact = [
            Fraction(comb(n_labels - i, k - 1), comb(n_labels, k)) for i in range(1, n_labels + 1)
        ]
        expected = [float(w) if w > 1e-290 else 0 for w in exact]
        np.testing.assert_allclose(row, expected, rtol=2e-14, atol=1e-289)


@pytest.mark.parametrize("n_labels", [1, 6, 53, 2000])
@pytest.mark.parametrize("alpha", [1, 2, 3, 10, 100, 1000])
def test_polynomial_weights_agree_with_exact_fractions(n_labels, alpha):
    steps = [Fraction(n_labels - i, n_labels) ** alpha for i in range(n_labels + 1)]
    exact = [float(a - b) for a, b in pairwise(steps)]
    found = family_weights("polynomial", n_labels, alpha)[0]
    np.testing.assert_allclose(found, exact, rtol=0, atol=2.3e-16)
    head = [i for i, w in enumerate(exact) if w > 1e-20]
    found = family_weights("polynomial", n_labels, alpha)[0][head]
    np.testing.assert_allclose(found, np.array(exact)[head], rtol=5e-14)


def test_weights_of_broken_exponents_do_not_cancel():
    # v(1) - v(1 - 1/K) with alpha close to 1, from the series of (1-x)^alpha in exact arithmetic
    n_labels, alpha, x = 2000, Fraction(5, 4), Fraction(1, 2000)
    term, power = Fraction(1), Fraction(1)
    for j in range(12):
        term *= -(alpha - j) * x / (j + 1)
        power += term
    expected = float(1 - power)
    assert family_weights("polynomial", n_labels, 1.25)[0, 0] == pytest.approx(expected, rel=1e-14)


def test_owa_example_of_the_paper():
    example = PAPER["owa_example"]
    for weights, loss in zip(example["weights_ascending_error"], example["loss"], strict=True):
        found = owa_loss([example["y"]], [example["s"]], weights[::-1])
        assert found == pytest.approx(loss, abs=1e-15)


def test_profiles_of_the_two_learners_and_the_misprint():
    # three independent labels, each right with probability 0.8
    a = profile_from_histogram([64, 48, 12, 1])
    b = profile_from_histogram([1, 0, 0, 1])
    np.testing.assert_allclose(a.losses, PAPER["profiles"]["A"]["by_definition"], rtol=1e-15)
    np.testing.assert_allclose(b.losses, PAPER["profiles"]["B"]["by_definition"], rtol=0)
    off = ~np.isclose(a.losses, PAPER["profiles"]["A"]["printed"])
    assert off.tolist() == [False, True, False]  # 0.36 = 1 - 0.8**2; the paper prints 0.32
    assert a.slope > b.slope


def test_published_profiles():
    published = json.loads((GOLDEN / "huellermeier2022_profiles.json").read_text())
    assert len(published["records"]) == 6
    for record in published["records"]:
        histogram = record["error_count_hist"]
        binomial = profile_from_histogram(histogram)
        polynomial = profile_from_histogram(histogram, "polynomial", published["alpha"])
        assert binomial.kind == polynomial.kind == "hard" and binomial.n_labels == record["K"]
        np.testing.assert_allclose(binomial.losses, record["binomial"], rtol=0, atol=1e-12)
        np.testing.assert_allclose(polynomial.losses, record["polynomial"], rtol=0, atol=1e-12)


@given(pairs())
def test_binomial_loss_is_the_mean_over_label_subsets_of_the_largest_error(pair):
    truth, score = pair
    errors = abs(score - truth)
    for k in range(1, truth.shape[1] + 1):
        subsets = map(list, combinations(range(truth.shape[1]), k))
        expected = np.mean([errors[:, subset].max(axis=1) for subset in subsets], axis=0)
        found = binomial_loss(truth, score, k, per_instance=True)
        np.testing.assert_allclose(found, expected, atol=1e-14)
        assert binomial_loss(truth, score, k) == pytest.approx(expected.mean(), abs=1e-14)
    assert polynomial_loss(truth, score, 1) == pytest.approx(errors.mean(), abs=1e-14)
    subset = errors.max(axis=1).mean()
    assert polynomial_loss(truth, score, 1e9) == pytest.approx(subset, abs=1e-14)


@given(pairs(), st.sampled_from(["binomial", "polynomial"]))
def test_profiles_rise_from_hamming_to_subset_loss_in_any_order_of_labels(pair, family):
    truth, score = pair
    profile = loss_profile(truth, score, family)
    means = [LOSSES[family](truth, score, at) for at in profile.parameters.tolist()]
    np.testing.assert_allclose(profile.losses, means, atol=1e-14)
    assert np.all(np.diff(profile.losses) >= 0) and profile.losses[-1] <= profile.subset
    assert profile.losses[0] == pytest.approx(profile.hamming, abs=1e-15)
    assert profile.hamming - 1e-15 <= profile.area <= profile.subset + 1e-15
    turned = loss_profile(truth[:, ::-1], score[:, ::-1], family)
    np.testing.assert_allclose(turned.losses, profile.losses, atol=1e-15)
    errors, pred = abs(score - truth), score > 0.5
    assert profile.hamming == pytest.approx(errors.mean(), abs=1e-14)
    assert profile.subset == pytest.approx(errors.max(axis=1).mean(), abs=1e-14)
    hard, soft = (loss_profile(truth, sets, family) for sets in (pred, pred.astype(float)))
    assert (hard.kind, soft.kind) == ("hard", "soft")  # counted, and sorted
    np.testing.assert_allclose(hard.losses, soft.losses, atol=1e-15)
    assert (hard.hamming, hard.subset) == pytest.approx((soft.hamming, soft.subset), abs=1e-15)


def test_more_rows_than_a_block_holds():
    truth, score = random_pair(9001, 15)
    errors = np.sort(abs(truth - score), axis=1)[:, ::-1]
    np.testing.assert_allclose(order_statistic_sums(truth, score), errors.sum(axis=0), rtol=1e-13)
    wrong = (truth != (score > 0.5)).sum(axis=1)
    assert (error_histogram(truth, score > 0.5) == np.bincount(wrong, minlength=16)).all()
    found = polynomial_loss(truth, score, 1, per_instance=True)
    np.testing.assert_allclose(found, errors.mean(axis=1), atol=1e-14)


@pytest.mark.parametrize("kind", [bool, np.float32])
@pytest.mark.parametrize("store", [sparse.csr_array, sparse.coo_matrix])
def test_every_kind_of_number_and_of_storage_gives_the_same(kind, store):
    truth, score = random_pair(40, 7)
    score = np.where(score < 0.6, 0, np.round(score, 2)) * (truth | (score > 0.7))
    true, pred = store(truth.astype(kind)), score > 0.5
    expected = binomial_loss(truth, score, 3, per_instance=True)
    found = binomial_loss(true, store(score), 3, per_instance=True)
    np.testing.assert_allclose(found, expected, atol=1e-15)
    wrong = error_histogram(true, store(pred.astype(kind)))
    assert (wrong == error_histogram(truth, pred)).all()


@pytest.mark.parametrize("n_labels", [1, 2, 2000])
def test_many_labels_stay_finite_and_monotone(n_labels):
    truth, score = random_pair(20, n_labels)
    for profile in (loss_profile(truth, score), loss_profile(truth, (score > 0.9).astype(int))):
        assert len(profile.losses) == n_labels and np.all(np.isfinite(profile.losses))
        assert np.all(np.diff(profile.losses) >= 0)
        assert profile.losses[-1] == profile.subset
    exact = [
        1 - Fraction(comb(n_labels - 1, k), comb(n_labels, k)) for k in range(1, n_labels + 1)
    ]  # one wrong label
    one_wrong = profile_from_histogram([0, 1] + [0] * (n_labels - 1))
    np.testing.assert_allclose(one_wrong.losses, [float(x) for x in exact], rtol=1e-14)


def gain(histogram):
    at_least = np.cumsum(histogram[::-1])[::-1]
    return awareness(at_least[1:] / at_least[0])["relative_gain"]


def test_relative_gain_runs_from_evenly_spread_errors_to_errors_that_fall_together():
    # 130 errors over 100 instances, as evenly as can be
    assert gain([0, 70, 30, 0, 0]) == pytest.approx(0, abs=1e-12)
    assert gain([350, 0, 0, 0, 130]) == pytest.approx(1)
    assert gain([40, 20, 20, 10, 10]) == pytest.approx(0.546816479400749)
    assert np.isnan(gain([5, 0, 0])) and np.isnan(gain([1, 1]))


def test_an_area_over_some_parameters_is_divided_by_their_width():
    profile = profile_from_histogram([3, 5, 2, 1, 0, 0, 1], parameters=[2, 3, 6])
    np.testing.assert_allclose(profile.positions, [0.2, 0.4, 1])
    low, middle, high = profile.losses
    expected = (0.2 * (low + middle) / 2 + 0.6 * (middle + high) / 2) / 0.8
    assert profile.area == pytest.approx(expected)
    polynomial = profile_from_histogram([3, 5, 2], "polynomial")
    assert polynomial.positions[[0, -1]].tolist() == [0, 1]
    assert len(polynomial.losses) == len(ALPHAS)
    np.testing.assert_allclose(np.diff(polynomial.positions), 1 / (len(ALPHAS) - 1))
    single = profile_from_histogram([3, 5, 2], "polynomial", [1])
    assert single.area == single.losses[0] and single.positions.tolist() == [0]


@pytest.mark.parametrize("family", ["binomial", "polynomial"])
def test_summaries_of_many_profiles_at_once(family):
    rng = np.random.default_rng(5)
    for n_labels in (1, 2, 7, 30):
        means = np.sort(rng.random((4, 3, n_labels)) ** 3, axis=-1)[..., ::-1]
        means[0, 0] = 0
        means[0, 1] = 1
        means[1, :, n_labels // 2 :] = 0
        found = awareness(means, family=family)
        short = awareness(means[1][..., : n_labels // 2], n_labels, family)
        for at in np.ndindex(4, 3):
            profile = profile_from_means(means[at], family)
            evenly = np.clip(profile.hamming * n_labels - np.arange(n_labels), 0, 1)
            even = profile_from_means(evenly, family)
            room = even.area - even.hamming
            gained = (even.area - profile.area) / room if room > 1e-12 else np.nan
            for name, values in found.items():
                expected = gained if name == "relative_gain" else getattr(profile, name)
                assert values[at] == pytest.approx(expected, abs=1e-11, nan_ok=True)
        for name, values in short.items():
            np.testing.assert_allclose(values, found[name][1], atol=1e-14)


@pytest.mark.parametrize("y_pred", [[1, 0, 1], [0, 1, 0]])
def test_the_gain_is_undefined_where_nothing_can_be_gained(y_pred):
    absent = evaluate([[1, 0, 1]], y_pred=[y_pred]).absent["binomial_gain"]
    assert absent == "it is not defined for these instances together"


def test_an_entry_stored_twice_counts_as_its_sum():
    stored = np.array([0.25, 0.5]), np.array([1, 1]), np.array([0, 2])
    twice = sparse.csr_array(stored, shape=(1, 3))
    assert order_statistic_sums(sparse.csr_array([[0, 1, 0]]), twice).tolist() == [0.25, 0, 0]
    assert twice.data.tolist() == [0.25, 0.5]
