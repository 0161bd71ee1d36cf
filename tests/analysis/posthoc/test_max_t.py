"""Step-down max-T by sign changes of whole datasets, as `sign_tests` and scipy have it."""

import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mlflow_mleval.analysis.pairs import possible_ranks
from mlflow_mleval.analysis.posthoc.max_t import datasets_needed, max_t
from mlflow_mleval.analysis.resampling import sign_tests

#: How often what holds with a probability is tried; MLEVAL_SIMULATIONS=400 tries it thoroughly.
SIMULATIONS = int(os.environ.get("MLEVAL_SIMULATIONS", "150"))


@settings(max_examples=30, deadline=None)
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


def test_two_methods_get_the_p_value_of_scipys_sign_changes():
    x, y = np.random.default_rng(3).normal(size=(2, 9))
    theirs = stats.permutation_test(
        (x, y),
        lambda a, b: abs(np.mean(a - b)),
        permutation_type="samples",
        n_resamples=np.inf,
        alternative="greater",
    ).pvalue
    assert max_t(np.c_[x, y]).table["pvalue_corrected"].tolist() == pytest.approx([theirs])


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
