"""Signed ranks against enumeration, scipy and published examples; what a design allows."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from mlflow_mleval.analysis.posthoc import rank_tests
from mlflow_mleval.analysis.posthoc.rank_tests import EXACT_RANKS, feasibility, wilcoxon_pairs

coarse = arrays(
    float, st.tuples(st.integers(2, 9), st.just(3)), elements=st.integers(0, 4).map(float)
)


def enumerated(difference):
    """P-value from all signs of the midranks of the nonzero differences (Pratt)."""
    ranks = stats.rankdata(np.abs(difference))[difference != 0]
    observed = ranks[(difference > 0)[difference != 0]].sum()
    sums = np.array(list(product([0, 1], repeat=len(ranks)))) @ ranks if len(ranks) else np.zeros(1)
    upper, lower = (sums >= observed).mean(), (sums <= observed).mean()
    return min(1.0, 2 * min(upper, lower))


@settings(deadline=None)
@given(coarse)
def test_pvalues_are_those_of_all_signs_with_ties_and_zeros(values):
    result = wilcoxon_pairs(values, correction="none")
    for row, (a, b) in zip(result.table.itertuples(), combinations(range(3), 2), strict=True):
        assert (row.method_a, row.method_b, row.exact) == (a, b, True)
        assert row.pvalue == pytest.approx(enumerated(values[:, a] - values[:, b]), abs=1e-14)


def test_many_datasets_are_normal_and_say_so():
    values = np.random.default_rng(0).integers(0, 50, (EXACT_RANKS + 1, 2)).astype(float)
    result = wilcoxon_pairs(values)
    expected = stats.wilcoxon(values[:, 0], values[:, 1], zero_method="pratt", method="approx")
    row = result.table.iloc[0]
    # scipy's variance of Pratt's statistic is the same sum of squared ranks
    assert row.pvalue == pytest.approx(expected.pvalue, rel=1e-9)
    assert not row.exact
    assert "normal approximations" in result.warnings[-1]
    exact = wilcoxon_pairs(values[:-1])
    assert exact.table.exact.all() and not exact.warnings
    same = wilcoxon_pairs(np.ones((EXACT_RANKS + 1, 2))).table.iloc[0]
    assert (same.pvalue, same.n_zero) == (1.0, EXACT_RANKS + 1)


def test_the_depression_scores_of_hollander_and_wolfe():
    first = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    second = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    two = wilcoxon_pairs(np.c_[first, second]).table.iloc[0]
    assert (two.statistic, round(two.pvalue / 2, 5)) == (45 - 40, 0.01953)
    assert (round(two.effect_size, 4), two.wins, two.losses) == (round((40 - 5) / 45, 4), 7, 2)


@settings(deadline=None)
@given(
    arrays(float, st.tuples(st.integers(2, 12), st.just(2)), elements=st.floats(-5, 5)),
    st.sampled_from([0.05, 0.1, 0.3]),
)
def test_the_interval_of_the_mean_difference(values, alpha):
    row = wilcoxon_pairs(values, alpha=alpha).table.iloc[0]
    difference = values[:, 0] - values[:, 1]
    if difference.std() > 1e-9:
        interval = stats.ttest_1samp(difference, 0).confidence_interval(1 - alpha)
        assert (row.mean_low, row.mean_high) == pytest.approx(tuple(interval), abs=1e-6)


def test_float_noise_makes_neither_ranks_nor_signs():
    a, b = np.array([0.3, 0.2, 0.7, 0.1 + 0.2, 0.9]), np.array([0.2, 0.1, 0.6, 0.3, 0.5])
    row = wilcoxon_pairs(np.c_[a, b]).table.iloc[0]
    assert (row.wins, row.ties, row.losses, row.statistic) == (4, 1, 0, 0)
    swapped = wilcoxon_pairs(np.c_[b, a]).table.iloc[0]
    assert swapped.effect_size == -row.effect_size == -14 / 15
    mixed = wilcoxon_pairs(np.c_[[0.3, 0.1, 0.7, 0.9], [0.2, 0.2, 0.6, 0.5]]).table.iloc[0]
    assert (mixed.statistic, mixed.effect_size) == (2, 0.6)
    # zeros where the values themselves are noise, as net flows of equal methods are
    flows = wilcoxon_pairs(np.array([[1e-17, -1e-17, 0.5, -0.5]] * 6)).table
    assert flows.ties.tolist() == [6, 0, 0, 0, 0, 0]


@settings(deadline=None)
@given(coarse, st.permutations(range(9)), st.floats(0.01, 100))
def test_order_scale_and_direction(values, order, scale):
    base = wilcoxon_pairs(values).table
    columns = ["wins", "ties", "losses", "effect_size", "statistic", "pvalue", "pvalue_corrected"]
    for same in (
        wilcoxon_pairs(values[[i for i in order if i < len(values)]]),
        wilcoxon_pairs(values * scale),
        wilcoxon_pairs(-values, direction="min"),
    ):
        pd.testing.assert_frame_equal(same.table[columns], base[columns])
    mirrored = wilcoxon_pairs(-values).table
    assert np.allclose(mirrored.effect_size, -base.effect_size)
    assert np.allclose(mirrored.pvalue, base.pvalue)
    assert base.effect_size.between(-1, 1).all()


def test_pairs_matrix_and_control():
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.random((14, 4)) + np.array([0.9, 0.6, 0.3, 0.0]), columns=list("abcd"))
    every = wilcoxon_pairs(table)
    assert (every.n_comparisons, len(every.table), every.control) == (6, 6, None)
    matrix = every.pvalues
    assert (matrix.to_numpy() == matrix.to_numpy().T).all() and (np.diag(matrix) == 1).all()
    expected = every.table.query("method_a == 'a' and method_b == 'd'").pvalue_corrected.item()
    assert matrix.loc["a", "d"] == expected
    assert ("a", "d") in every.significant_pairs and ("d", "a") not in every.significant_pairs
    against = wilcoxon_pairs(table, control="b")
    assert against.table.method_a.tolist() == ["a", "c", "d"]
    assert set(against.table.method_b) == {"b"} and against.n_comparisons == 3
    assert np.isnan(against.pvalues.loc["a", "c"])
    assert ("b", "d") in against.significant_pairs
    with pytest.raises(ValueError, match="`control`"):
        wilcoxon_pairs(table, control="e")


def test_tables_that_no_test_can_use_are_refused():
    with pytest.raises(ValueError, match=r"1 of 4 empty.*policy"):
        wilcoxon_pairs([[1, np.nan], [2, 3]])
    with pytest.raises(ValueError, match="finite, got 1 infinite"):
        wilcoxon_pairs([[1, np.inf], [2, 3]])
    with pytest.raises(ValueError, match="`correction` must be one of"):
        wilcoxon_pairs([[1, 2], [2, 3]], correction="fdr")
    with pytest.raises(ValueError, match="`alpha`"):
        wilcoxon_pairs([[1, 2], [2, 3]], alpha=5)


def test_feasibility_of_the_published_design():
    found = feasibility(11, 12)
    assert (found.n_comparisons, found.can_reject) == (66, False)
    assert round(found.smallest_corrected, 4) == 0.0645
    # 66 pairs x 2 / 2^12 = .0322: twelve datasets are enough
    assert found.datasets_needed == 12 and feasibility(12, 12).can_reject
    assert "12 datasets or at most 10 methods" in found.message
    assert feasibility(11, 12, control=True).can_reject
    assert feasibility(5, 2).message.endswith("It takes 6 datasets.")
    # 2 / 2^5000 is no longer a float
    assert feasibility(5000, 100).can_reject and feasibility(5000, 100).max_methods > 10**9


@settings(deadline=None)
@given(
    st.integers(2, 12),
    st.integers(2, 8),
    st.sampled_from(["holm", "bonferroni", "none"]),
    st.booleans(),
)
def test_feasibility_is_what_the_best_possible_table_gives(
    n_datasets, n_methods, correction, controlled
):
    ends = [0.0] * (n_methods - 1) + [1.0]
    table = np.array([np.array(ends) * (d + 1) for d in range(n_datasets)])
    control = n_methods - 1 if controlled else None
    result = wilcoxon_pairs(table, correction=correction, control=control)
    found = feasibility(n_datasets, n_methods, correction=correction, control=controlled)
    assert result.table.pvalue.min() == found.smallest_pvalue
    assert result.table.pvalue_corrected.min() == found.smallest_corrected
    assert bool(result.significant_pairs) == found.can_reject
    assert (found.message in result.warnings) == (not found.can_reject)
    needed = {"correction": correction, "control": controlled}
    assert feasibility(found.datasets_needed, n_methods, **needed).can_reject
    if found.datasets_needed > 1:
        assert not feasibility(found.datasets_needed - 1, n_methods, **needed).can_reject


def test_blocks_of_pairs_give_what_all_at_once_give(monkeypatch):
    table = np.random.default_rng(0).random((7, 9)).round(1)
    table[2, 3] = table[2, 5] = np.nan
    whole = wilcoxon_pairs(table, gaps=True).table
    monkeypatch.setattr(rank_tests, "_CELLS", 4 * 7)
    pd.testing.assert_frame_equal(wilcoxon_pairs(table, gaps=True).table, whole)
