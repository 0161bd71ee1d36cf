"""Capacities and the Choquet loss, against the integral written out."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from mlflow_mleval.measures.capacities import Capacity, choquet_loss
from mlflow_mleval.measures.owa import binomial_loss, polynomial_loss


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


# ---- the integral --------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(0, 10**6), st.sampled_from([None, 1, 3]))
def test_function_table_and_mobius_give_the_integral(n_labels, seed, grid):
    mu = random_capacity(n_labels, seed)
    truth, score = random_pair(6, n_labels, seed, grid)
    expected = by_definition(truth, score, lambda a, y: mu[a])
    by_sets = Capacity.from_function(mu.__getitem__, n_labels)
    table = by_sets.values()
    capacities = [
        by_sets,
        Capacity.from_mobius(by_sets.mobius(), n_labels),
        Capacity.from_mobius({a: by_sets.mobius()[sum(1 << i for i in a)] for a in mu}, n_labels),
        Capacity.from_function(lambda a, relevant: mu[a], n_labels, relevance=True),
    ]
    for capacity in capacities:
        found = choquet_loss(truth, score, capacity, per_instance=True)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_allclose(capacity.values(), table, atol=1e-12)
        assert choquet_loss(truth, score, capacity) == pytest.approx(expected.mean(), abs=1e-12)


def test_mobius_transform_by_its_alternating_sum():
    mu = random_capacity(4, 1)
    masses = Capacity.from_function(mu.__getitem__, 4).mobius()
    for a in mu:
        expected = sum((-1) ** (len(a) - len(b)) * mu[b] for b in mu if b <= a)
        assert masses[sum(1 << i for i in a)] == pytest.approx(expected, abs=1e-12)


# ---- counting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_labels", [1, 6, 40])
def test_counting_capacities_are_the_owa_losses(n_labels):
    truth, score = random_pair(25, n_labels)
    k = max(1, n_labels // 2)
    errors, power = abs(score - truth), polynomial_loss(truth, score, 2.5)
    for capacity, expected in [
        (Capacity.counting(lambda x: x, n_labels), errors.mean()),
        (Capacity.counting(lambda x: float(x == 1), n_labels), errors.max(axis=1).mean()),
        (Capacity.binomial(n_labels, k), binomial_loss(truth, score, k)),
        (Capacity.polynomial(n_labels, 2.5), power),
        (Capacity.counting(lambda x: x**2.5, n_labels), power),
        (Capacity.from_function(lambda a: (len(a) / n_labels) ** 2.5, n_labels), power),
        (Capacity.weighted(np.full(n_labels, 7.0), lambda x: x**2.5), power),
    ]:
        assert choquet_loss(truth, score, capacity) == pytest.approx(expected, abs=1e-12)


# ---- many labels ---------------------------------------------------------------------------------


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


# ---- unequal labels ------------------------------------------------------------------------------


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
    wanted = asked.values(relevant=[1, 3])
    np.testing.assert_allclose(quick.values(relevant=[1, 3]), wanted, atol=1e-12)


# ---- input ---------------------------------------------------------------------------------------


def test_weighted_hamming_loss():
    truth, score = random_pair(30, 4)
    weights = np.array([4, 3, 2, 1])
    expected = (abs(score - truth) @ weights / 10).mean()
    assert choquet_loss(truth, score, Capacity.weighted(weights)) == pytest.approx(expected)


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


def test_violating_sets_are_named_and_counted():
    said = r"monotone, got mu\(\{1\}\) = 0.6 > mu\(\{0, 1\}\) = 0.5 \(of 2 such pairs\)"
    with pytest.raises(ValueError, match=said):
        values = np.array([0, 0.2, 0.6, 0.5, 0.1, 0.5, 0.55, 1])
        Capacity.from_function(lambda a: values[sum(1 << i for i in a)], 3)
    with pytest.raises(ValueError, match=r"monotone, got mu\(\{\}\) = 0 > mu\(\{0\}\) = -0.5"):
        Capacity.from_function(lambda a: {0: 0, 1: -0.5, 2: 1}[len(a)], 2)
    with pytest.raises(ValueError, match=r"normalised, .* got 0 and 0.5"):
        Capacity.from_function(lambda a: len(a) / 4, 2)
    with pytest.raises(ValueError, match=r"normalised, .* got 0 and 0.5"):
        Capacity.from_function(lambda a: len(a) / 80, 40)
    with pytest.raises(ValueError, match=r"normalised, .* got 0 and nan"):
        Capacity.from_function(lambda a: np.nan if a else 0, 2)
    with pytest.raises(ValueError, match=r"mu\(\{0\}\) = nan"):
        Capacity.from_function(lambda a: {0: 0, 1: np.nan, 2: 1}[len(a)], 2)


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
EVEN = partial(Capacity.weighted, [1, 1])


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
        (FROM_MOBIUS, ({(0,): 0.5, (2,): 0.5}, 2), r"of labels 0\.\.1, got \[2\]"),
        (FROM_MOBIUS, ({(0,): 0.5, (1,): 0.4}, 2), "normalised, .* got 0 and 0.9"),
        (FROM_MOBIUS, ({(0,): 0.5, (1,): 0.4}, 20), "none on the empty set, got 0.9"),
        (FROM_MOBIUS, ({(): 0.5, (1,): 0.5}, 20), "none on the empty set"),
        (FROM_MOBIUS, ({(): 0.5, (1,): 0.5}, 2), "normalised, .* got 0.5 and 1"),
        (FROM_MOBIUS, ({(0,): 2, (0, 1): -1}, 2), r"monotone, got mu\(\{0\}\) = 2 > mu\(\{0, 1\}"),
        (FROM_MOBIUS, ([0, 1], 2), r"`masses` must be a mapping, or an array of 2\*\*n_labels"),
        (COUNTING, ([0, 0.5, 1], 3), "`v` must have 4 values"),
        (COUNTING, ([0.1, 0.5, 1], 2), "normalised, .* got 0.1 and 1"),
        (COUNTING, ([0, 0.5, 0.4, 1], 3), r"got mu\(1 of 3 labels\) = 0.5 > mu\(2 of"),
        (COUNTING, ([0], 0), "`n_labels` must be a positive integer, got 0"),
        (Capacity.weighted, ([1, -1],), "`weights` must be finite numbers"),
        (Capacity.weighted, ([1, 1], lambda x: 4 * x * (1 - x)), "normalised"),
        (Capacity.binomial, (3, 4), r"`k` must be an integer in 1\.\.3"),
        (Capacity.binomial(3, 1), ({3},), r"must hold labels 0\.\.2, got \[3\]"),
        (Capacity.binomial(30, 1).values, (), "must be asked for at most 16 labels, got 30"),
        (choquet_loss, ([[0, 1]], [[0, 1]], Capacity.binomial(3, 1)), "of 2 labels, .* got 3"),
        (choquet_loss, ([[0, 1]], [[0, 2]], Capacity.binomial(2, 1)), r"must lie in \[0, 1\]"),
        (partial(EVEN, relevant_weight=0), (), r"`relevant_weight` must lie in \(0, inf\)"),
    ],
)
def test_bad_input_is_named(call, given, message):
    with pytest.raises(ValueError, match=message):
        call(*given)


def test_a_bare_function_is_no_capacity():
    said = r"`capacity` must be a Capacity, got builtin_function_or_method"
    with pytest.raises(TypeError, match=said):
        choquet_loss([[0, 1]], [[0, 1]], len)
