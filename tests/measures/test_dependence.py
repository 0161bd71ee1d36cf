"""Losses between Hamming and subset 0/1: weights, losses, profiles and their summaries."""

import json
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from places import GOLDEN, SHARED
from scipy import sparse

from mlflow_mleval.evaluation import evaluate
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

SHARED = SHARED / "golden"
PAPER = json.loads((GOLDEN / "huellermeier2022.json").read_text())


@st.composite
def pairs(draw, max_labels=6):
    """Truth and scores; scores on a grid, so that ties occur."""
    shape = draw(st.integers(1, 8)), draw(st.integers(1, max_labels))
    truth = draw(arrays(np.int8, shape, elements=st.integers(0, 1)))
    return truth, draw(arrays(float, shape, elements=st.integers(0, 8).map(lambda i: i / 8)))


def random_pair(n, k, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((n, k)) < 0.2).astype(int), rng.random((n, k))


# ---- weights -------------------------------------------------------------------------------------


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


# ---- published figures ---------------------------------------------------------------------------


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
    assert a.slope > b.slope and a.relative_gain < b.relative_gain


@pytest.mark.parametrize(("place", "n"), [(GOLDEN, 6), (SHARED, 62)], ids=["some", "all"])
def test_published_profiles(place, n):
    if not (path := place / "huellermeier2022_profiles.json").exists():
        pytest.skip("the 62 published profiles are not at hand")
    published = json.loads(path.read_text())
    assert len(published["records"]) == n
    for record in published["records"]:
        histogram = record["error_count_hist"]
        binomial = profile_from_histogram(histogram)
        polynomial = profile_from_histogram(histogram, "polynomial", published["alpha"])
        assert binomial.kind == polynomial.kind == "hard" and binomial.n_labels == record["K"]
        np.testing.assert_allclose(binomial.losses, record["binomial"], rtol=0, atol=1e-12)
        np.testing.assert_allclose(polynomial.losses, record["polynomial"], rtol=0, atol=1e-12)


# ---- losses --------------------------------------------------------------------------------------


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


@given(pairs())
def test_the_ends_are_hamming_and_subset_loss(pair):
    truth, score = pair
    errors, n_labels = abs(score - truth), truth.shape[1]
    profile = loss_profile(truth, score)
    assert profile.hamming == pytest.approx(errors.mean(), abs=1e-14)
    assert profile.subset == pytest.approx(errors.max(axis=1).mean(), abs=1e-14)
    assert binomial_loss(truth, score, 1) == pytest.approx(errors.mean(), abs=1e-14)
    assert polynomial_loss(truth, score, 1) == pytest.approx(errors.mean(), abs=1e-14)
    assert binomial_loss(truth, score, n_labels) == pytest.approx(profile.subset, abs=1e-14)
    assert polynomial_loss(truth, score, 1e9) == pytest.approx(profile.subset, abs=1e-14)


# ---- profiles ------------------------------------------------------------------------------------


@given(pairs(), st.sampled_from(["binomial", "polynomial"]))
def test_profiles_rise_from_end_to_end_and_do_not_depend_on_the_order_of_labels(pair, family):
    truth, score = pair
    profile = loss_profile(truth, score, family)
    assert np.all(np.diff(profile.losses) >= 0) and profile.losses[-1] <= profile.subset
    assert profile.losses[0] == pytest.approx(profile.hamming, abs=1e-15)
    assert profile.hamming - 1e-15 <= profile.area <= profile.subset + 1e-15
    assert not profile.relative_gain < -1e-9 and not profile.relative_gain > 1 + 1e-9
    turned = loss_profile(truth[:, ::-1], score[:, ::-1], family)
    np.testing.assert_allclose(turned.losses, profile.losses, atol=1e-15)


@given(pairs(), st.sampled_from(["binomial", "polynomial"]))
def test_label_sets_give_one_profile_whether_counted_or_sorted(pair, family):
    truth, pred = pair[0], pair[1] > 0.5
    hard, soft = loss_profile(truth, pred, family), loss_profile(truth, pred.astype(float), family)
    assert (hard.kind, soft.kind) == ("hard", "soft")
    np.testing.assert_allclose(hard.losses, soft.losses, atol=1e-15)
    assert hard.hamming == pytest.approx(soft.hamming, abs=1e-15)
    assert hard.subset == pytest.approx(soft.subset, abs=1e-15)


def test_a_profile_is_the_mean_of_the_losses_of_the_instances():
    truth, score = random_pair(300, 12)
    for k, loss in enumerate(loss_profile(truth, score).losses, start=1):
        expected = binomial_loss(truth, score, k, per_instance=True).mean()
        assert loss == pytest.approx(expected, abs=1e-14)
    profile = loss_profile(truth, score, "polynomial", [1, 2.5, 40])
    for alpha, loss in zip(profile.parameters, profile.losses, strict=True):
        expected = polynomial_loss(truth, score, alpha, per_instance=True).mean()
        assert loss == pytest.approx(expected, abs=1e-14)


def test_more_rows_than_a_block_holds():
    truth, score = random_pair(9001, 15)
    errors = np.sort(abs(truth - score), axis=1)[:, ::-1]
    np.testing.assert_allclose(order_statistic_sums(truth, score), errors.sum(axis=0), rtol=1e-13)
    wrong = (truth != (score > 0.5)).sum(axis=1)
    assert (error_histogram(truth, score > 0.5) == np.bincount(wrong, minlength=16)).all()
    found = polynomial_loss(truth, score, 1, per_instance=True)
    np.testing.assert_allclose(found, errors.mean(axis=1), atol=1e-14)


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


# ---- summaries -----------------------------------------------------------------------------------


def test_area_of_the_binomial_profile_has_a_closed_form():
    # The sum over k of C(K-j,k)/C(K,k) is (K+1)/(j+1) (hockey stick), which gives the plain mean,
    # and so the trapezoids.
    for n_labels in (2, 5, 40):
        for wrong in range(n_labels + 1):
            profile = profile_from_histogram(np.arange(n_labels + 1) == wrong)
            mean = 1 - (n_labels - wrong) / (n_labels * (wrong + 1))
            area = (n_labels * mean - (profile.hamming + profile.subset) / 2) / (n_labels - 1)
            assert profile.area == pytest.approx(area, abs=1e-13)


def test_relative_gain_runs_from_evenly_spread_errors_to_errors_that_fall_together():
    # 130 errors over 100 instances, as evenly as can be
    even = profile_from_histogram([0, 70, 30, 0, 0])
    together = profile_from_histogram([350, 0, 0, 0, 130])
    assert even.relative_gain == pytest.approx(0, abs=1e-12)
    assert together.relative_gain == pytest.approx(1)
    assert 0.01 < profile_from_histogram([40, 20, 20, 10, 10]).relative_gain < 0.99
    assert np.isnan(profile_from_histogram([5, 0, 0]).relative_gain)
    assert np.isnan(profile_from_histogram([1, 1]).relative_gain)


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
            for name, values in found.items():
                expected = getattr(profile, name)
                assert values[at] == pytest.approx(expected, abs=1e-11, nan_ok=True)
        for name, values in short.items():
            np.testing.assert_allclose(values, found[name][1], atol=1e-14)


def test_the_gain_is_undefined_where_nothing_can_be_gained():
    for y_pred in ([[1, 0, 1]], [[0, 1, 0]]):
        ev = evaluate([[1, 0, 1]], y_pred=y_pred)
        assert "binomial_gain" not in ev.measures
        assert ev.absent["binomial_gain"] == "with this Hamming loss all profiles are the same"


# ---- input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bool, np.int64, np.float32])
@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array, sparse.coo_matrix])
def test_every_kind_of_number_and_of_storage_gives_the_same(kind, store):
    truth, score = random_pair(40, 7)
    score = np.where(score < 0.6, 0, np.round(score, 2)) * (truth | (score > 0.7))
    pred = score > 0.5
    for a in (truth, store(truth.astype(kind))):
        for b in (score, store(score)):
            expected = order_statistic_sums(truth, score)
            found = order_statistic_sums(a, b)
            np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)
            expected = binomial_loss(truth, score, 3, per_instance=True)
            found = binomial_loss(a, b, 3, per_instance=True)
            np.testing.assert_allclose(found, expected, atol=1e-15)
        for b in (pred, store(pred.astype(kind))):
            assert (error_histogram(a, b) == error_histogram(truth, pred)).all()
            expected = order_statistic_sums(truth, pred)
            np.testing.assert_allclose(order_statistic_sums(a, b), expected, atol=1e-15)


def test_an_entry_stored_twice_counts_as_its_sum():
    stored = np.array([0.25, 0.5]), np.array([1, 1]), np.array([0, 2])
    twice = sparse.csr_array(stored, shape=(1, 3))
    assert order_statistic_sums(sparse.csr_array([[0, 1, 0]]), twice).tolist() == [0.25, 0, 0]
    assert twice.data.tolist() == [0.25, 0.5]


T = [[0, 1]]
RISING = "`means` must be a non-increasing sequence"


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
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
    ],
)
def test_bad_input_is_named(call, given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(*given)
