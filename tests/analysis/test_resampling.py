"""The kernel of sign changes and step-down max-T over datasets against brute force (every change of
sign, every set of hypotheses) and scipy.
"""

import os
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mlflow_mleval.analysis import resampling
from mlflow_mleval.analysis.pairs import possible_ranks
from mlflow_mleval.analysis.posthoc.max_t import datasets_needed, max_t
from mlflow_mleval.analysis.resampling import (
    Moments,
    Sample,
    Signs,
    cluster_sums,
    critical,
    sign_tests,
)


def statistics(x):
    """Of rows x units: Σx / √Σx²."""
    size = np.sqrt((x**2).sum(axis=-1))
    return x.sum(axis=-1) / np.where(size > 0, size, 1)


def by_definition(x):
    """P-values of each row, alone and as the largest over all sets of rows that hold it."""
    seen = np.abs(statistics(x))
    drawn = np.array([np.abs(statistics(x * s)) for s in product([1, -1], repeat=x.shape[1])])
    own = (drawn >= seen - 1e-9).mean(axis=0)
    corrected = np.zeros(len(x))
    for chosen in product([False, True], repeat=len(x)):
        rows = np.flatnonzero(chosen)
        if len(rows):
            p = (drawn[:, rows].max(axis=1) >= seen[rows].max() - 1e-9).mean()
            corrected[rows] = np.maximum(corrected[rows], p)
    return own, corrected


@settings(max_examples=60)
@given(
    n=st.integers(1, 7),
    h=st.integers(1, 5),
    decimals=st.sampled_from([0, 1, 12]),
    seed=st.integers(0),
)
def test_p_values_are_those_of_every_change_of_sign_and_of_every_set(n, h, decimals, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(h, n)).round(decimals)
    found = sign_tests(rows)
    own, corrected = by_definition(rows)
    assert found.exact and found.changes == 2 ** (n - 1)
    assert found.pvalue == pytest.approx(own, abs=1e-12)
    assert found.corrected == pytest.approx(corrected, abs=1e-12)
    assert found.total == pytest.approx(rows.sum(axis=1))
    order = rng.permutation(n), rng.permutation(h)
    moved = sign_tests(rows[order[1]][:, order[0]])
    assert moved.corrected == pytest.approx(corrected[order[1]], abs=1e-12)


@settings(max_examples=40)
@given(
    n=st.integers(5, 9),
    h=st.integers(1, 4),
    alpha=st.sampled_from([0.05, 0.1, 0.2]),
    **{"seed": st.integers(0)},
)
def test_limits_hold_what_the_statistic_does_not_reject_and_0_where_a_single_step_does_not(
    n, h, alpha, seed
):
    rng = np.random.default_rng(seed)
    values = rng.normal(rng.normal(size=(h, 1)), 0.5, (h, 3 * n)).T
    sums, sizes = (x.T for x in cluster_sums(values, np.arange(3 * n) % n))
    found = sign_tests(sums)
    c = critical(found.largest, alpha)
    low, high = Moments.of(sums, sizes).limits(c)
    drawn = np.array([statistics(sums * s) for s in product([1, -1], repeat=n)])
    single = (np.abs(drawn).max(axis=1)[:, None] >= found.statistic - 1e-9).mean(axis=0)
    assert ((low > 0) | (high < 0)).tolist() == (single <= alpha).tolist()
    for k in range(h):
        for end, inside in ((low[k], 1e-6), (high[k], -1e-6)):
            if np.isfinite(end):
                t = [abs(statistics(sums[k] - (end + e) * sizes[k])) for e in (inside, -inside)]
                assert t[0] <= c <= t[1]
            else:
                assert abs(statistics(sums[k] - 1e9 * sizes[k])) <= c


def test_limits_hold_together_as_often_as_they_say():
    rng = np.random.default_rng(0)
    truth = np.array([0.0, 0.3, 1.0, 5.0])[:, None]
    held = []
    for seed in range(200):
        rows = truth + rng.standard_exponential((4, 30)) - 1 + rng.normal(size=30)
        found = sign_tests(rows, n_resamples=499, seed=seed)
        c = critical(found.largest, 0.05)
        low, high = Moments.of(rows, np.ones(rows.shape)).limits(c)
        held.append(((low <= truth.ravel()) & (truth.ravel() <= high)).all())
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize(("n", "h"), [(40, 5), (40, 300), (1500, 3)])
def test_random_changes_are_the_same_whatever_the_blocks(n, h, monkeypatch):
    rows = np.random.default_rng(5).normal(0.02, 1, (h, n))
    found = sign_tests(rows, seed=2, n_resamples=2_000)
    for name, size in (("ROWS", 7), ("CHANGES", 333), ("UNITS", 1024)):
        monkeypatch.setattr(resampling, name, size)
    again = sign_tests(rows, seed=2, n_resamples=2_000)
    assert (found.changes, found.exact) == (2_001, False)
    assert again.corrected.tolist() == found.corrected.tolist()
    signs = Signs(n, 2_000, 2)
    drawn = np.abs(signs.sums((rows / found.size[:, None]).T))
    assert drawn[0] == pytest.approx(found.statistic)
    assert found.pvalue == pytest.approx((drawn >= found.statistic - 1e-6).mean(axis=0), abs=1e-3)
    largest = drawn.max(axis=1)
    assert critical(found.largest, 0.05) == pytest.approx(np.quantile(largest, 0.95), abs=0.02)


def test_too_few_changes_reject_nothing_and_noise_is_no_difference():
    found = sign_tests(np.ones((1, 4)))
    assert (found.pvalue.item(), critical(found.largest, 0.05)) == (2 / 2**4, np.inf)
    assert Moments.of(np.ones((1, 4)), np.ones((1, 4))).limits(np.inf)[0].item() == -np.inf
    noise = sign_tests(np.array([[0.1 + 0.2, -0.3, 1.0, -1.0]]))
    assert noise.pvalue.item() == 1.0
    with pytest.raises(ValueError, match="n_resamples"):
        sign_tests(np.ones((1, 4)), n_resamples=0)


#: How often what holds with a probability is tried; MLEVAL_SIMULATIONS=400 tries it thoroughly.
SIMULATIONS = int(os.environ.get("MLEVAL_SIMULATIONS", "150"))


@settings(max_examples=30)
@given(
    n=st.integers(2, 8),
    m=st.integers(2, 6),
    decimals=st.sampled_from([0, 1, 12]),
    gaps=st.booleans(),
    seed=st.integers(0),
)
def test_p_values_are_those_of_all_sign_changes_and_limits_agree(n, m, decimals, gaps, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, m)).round(decimals) + np.arange(m)
    if gaps:
        values[rng.random(values.shape) < 0.2] = np.nan
    found = max_t(values)
    assert found.exact and found.n_resamples == 2 ** (n - 1) and found.seed is None
    a, b = np.triu_indices(m, 1)
    expected = sign_tests(np.nan_to_num(values[:, a] - values[:, b]).T).corrected
    assert found.table["pvalue_corrected"].to_numpy() == pytest.approx(expected, abs=1e-12)
    assert (found.table["pvalue"] <= found.table["pvalue_corrected"] + 1e-12).all()
    low, mean, high = found.table[["low", "mean_difference", "high"]].to_numpy().T
    assert (low <= mean + 1e-12).all() and (mean <= high + 1e-12).all()
    outside = ((low >= 0) & (mean > 0)) | ((high <= 0) & (mean < 0))
    assert outside.tolist() == found.table["significant"].tolist()


def test_random_sign_changes_repeat():
    values = np.random.default_rng(0).normal(size=(16, 5)) + np.linspace(0, 1.5, 5)
    found, again = max_t(values, seed=4), max_t(values, seed=4)
    assert (found.exact, found.n_resamples, found.seed) == (False, 10_000, 4)
    pd.testing.assert_frame_equal(found.table, again.table)


@pytest.mark.parametrize("large", [0.0, 1e13])
def test_float_noise_of_a_dataset_is_no_difference_however_large_another_is(large):
    rows = {"a": [large] + [0.1 + 0.2] * 7, "b": [large] + [0.3] * 7, "c": [large] + [0.1] * 7}
    found = max_t(pd.DataFrame(rows))
    corrected = found.table.set_index(["method_a", "method_b"])["pvalue_corrected"]
    assert corrected.to_dict() == {("a", "b"): 1.0, ("a", "c"): 2 / 2**7, ("b", "c"): 2 / 2**7}
    assert {*found.significant_pairs} == {("a", "c"), ("b", "c")}


def test_a_pair_goes_by_the_datasets_that_both_finished():
    table = pd.DataFrame({"a": [3.0] * 7, "b": [2, 2, 2, 2, 2, np.nan, np.nan], "c": [1.0] * 7})
    found = max_t(table).table.set_index(["method_a", "method_b"])
    assert found["n"].to_dict() == {("a", "b"): 5, ("a", "c"): 7, ("b", "c"): 5}
    assert found["mean_difference"].tolist() == [1, 2, 1]
    assert found.loc[("a", "b"), "pvalue"] == 2 / 2**5 and not found.loc[("a", "b"), "significant"]


def test_with_a_control_only_its_pairs_are_compared_and_counted():
    values = pd.DataFrame(np.random.default_rng(2).normal(size=(10, 4)), columns=[*"abcd"])
    found = max_t(values, control="c")
    assert found.table["method_b"].unique().tolist() == ["c"] and found.n_comparisons == 3
    assert np.isnan(found.pvalues.loc["a", "b"])
    assert found.pvalues.loc["c", "a"] == found.table["pvalue_corrected"][0]
    everything = max_t(values).pvalues
    assert (found.pvalues.loc["c"].drop("c") <= everything.loc["c"].drop("c")).all()


def test_no_p_value_is_below_what_the_datasets_allow():
    assert datasets_needed(0.05) == 6 and datasets_needed(0.0625) == 5
    best = max_t(pd.DataFrame({f"m{i}": [float(i)] * 6 for i in range(30)}))
    assert best.table["pvalue_corrected"].max() == 2 / 2**6 and best.table["significant"].all()


def test_bad_input_is_refused():
    for values, words in (
        ([[1, 2]], "at least two"),
        ([[1, np.inf], [1, 2]], "finite"),
        ([[1, 2], [2, 3]], "`control`"),
    ):
        with pytest.raises(ValueError, match=words):
            max_t(values, control=7 if "control" in words else None)
    with pytest.raises(ValueError, match="n_resamples"):
        max_t([[1, 2], [2, 3]], n_resamples=0)


def test_possible_ranks_hold_the_true_ones_with_their_confidence():
    covered = []
    for seed in range(SIMULATIONS):
        rng = np.random.default_rng(seed)
        truth = np.array([0.0, 0.0, 0.0, -1.0, -1.0])
        values = pd.DataFrame(truth + rng.normal(size=(12, 5)) + rng.normal(size=(12, 1)))
        found = max_t(values, n_resamples=400, seed=seed)
        low, high = possible_ranks(found.methods, found.significant_pairs).to_numpy().T
        covered.append(
            (low[:3] == 1).all()
            and (high[:3] >= 3).all()
            and (low[3:] <= 4).all()
            and (high[3:] == 5).all()
        )
    assert np.mean(covered) >= stats.binom.ppf(0.001, SIMULATIONS, 0.95) / SIMULATIONS


@pytest.mark.parametrize("n", [10, 30, 200])
@pytest.mark.parametrize("difference", [0.05, 0.3, 0.7])
def test_limits_of_equal_differences_do_not_hang_on_their_rounding(n, difference):
    t2 = stats.t.ppf(0.95, n - 1) ** 2
    expected = (n * difference - t2) / (n + t2)  # the score test by hand: n (d - c) / (1 + c) = t²
    before = np.random.default_rng(n).integers(0, 4, n) / 10
    for sums in (np.full(n, difference), (before + difference) - before):
        low = Sample.of(sums, np.ones(n), 1.0).limit(0.05, 1, float(np.mean(sums)))
        assert low == pytest.approx(expected, abs=1e-8)
