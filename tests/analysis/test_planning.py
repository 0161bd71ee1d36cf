"""Equivalence, power and planning against statsmodels, simulation and scipy."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import ttost_paired

from mlflow_mleval.analysis.planning import (
    equivalence,
    paired_power,
    required_size,
)


def table(n=12, m=3, seed=0, step=0.02):
    rng = np.random.default_rng(seed)
    values = rng.normal(0.7, 0.05, (n, 1)) + rng.normal(0, 0.03, (n, m)) - step * np.arange(m)
    return pd.DataFrame(values, columns=[*"abcdef"[:m]])


@pytest.mark.parametrize("margin", [0.005, 0.03, 0.1])
def test_equivalence_is_that_of_statsmodels(margin):
    values = table()
    found = equivalence(values, margin, correction="none")
    for row in found.table.itertuples():
        p, first, second = ttost_paired(
            values[row.method_a].to_numpy(), values[row.method_b].to_numpy(), -margin, margin
        )
        assert (row.pvalue, row.p_above, row.p_below) == pytest.approx(
            (p, first[1], second[1]), rel=1e-9
        )
        assert row.equivalent == (-margin < row.low and row.high < margin)


def test_equivalence_with_shared_training_data_is_more_careful():
    values = table()
    plain, corrected = (equivalence(values, 0.05, ratio=ratio).table for ratio in (None, 1 / 9))
    assert (corrected["high"] - corrected["low"] > plain["high"] - plain["low"]).all()
    assert ((corrected["pvalue"] > plain["pvalue"]) | (plain["pvalue"] > 0.5)).all()


def test_equivalence_without_variation_and_its_verdict():
    values = pd.DataFrame({"a": [0.3, 0.2, 0.5], "b": [0.2, 0.1, 0.4], "c": [0.3, 0.2, 0.5]})
    found = equivalence(values, 0.05)
    assert found.table["equivalent"].tolist() == [False, True, False]
    assert (
        found.warnings[0]
        == "Taken for certain, because they differ by the same in every row: 3 of 3 pairs."
    )
    assert found.verdict().startswith("shown to be equivalent within 0.05: 1 of 3 pairs;")


@given(st.floats(0.05, 3), st.integers(2, 200), st.sampled_from([0.05, 0.01, 0.05 / 66]))
def test_power_is_that_of_statsmodels(effect, n, alpha):
    peer = TTestPower().power(effect, n, alpha)
    assume(np.isfinite(peer))  # statsmodels has NaN where one tail is too small for floats
    assert paired_power(effect, n, alpha=alpha) == pytest.approx(peer, abs=1e-9)


def test_power_of_the_corrected_test_by_simulation():
    n, ratio, effect = 10, 1 / 9, 1.5
    rng = np.random.default_rng(0)
    rho = ratio / (1 + ratio)
    d = np.sqrt(rho) * rng.normal(size=(40_000, 1)) + np.sqrt(1 - rho) * rng.normal(
        size=(40_000, n)
    )
    d = d / np.sqrt(1 - rho) + effect
    t = d.mean(axis=1) / d.std(axis=1, ddof=1) / np.sqrt(1 / n + ratio)
    assert paired_power(effect, n, ratio=ratio) == pytest.approx(
        (np.abs(t) > stats.t.isf(0.025, n - 1)).mean(), abs=0.01
    )


@given(st.floats(0.02, 8), st.floats(0.2, 0.99), st.sampled_from([None, 0.01, 1 / 9]))
def test_the_size_is_the_least_that_has_the_power(effect, power, ratio):
    n = required_size(effect, power=power, ratio=ratio).item()
    if np.isinf(n):
        assert paired_power(effect, 2**20, ratio=ratio) < power
        return
    assert paired_power(effect, n, ratio=ratio) >= power
    assert n == 2 or paired_power(effect, n - 1, ratio=ratio) < power


def test_sizes_of_textbook_and_of_impossible_effects():
    assert required_size([0.2, 0.5, 0.8]).tolist() == [
        199,
        34,
        15,
    ]  # Cohen 1988: 196.2, 31.4, 12.3 by the normal, plus t's part
    for effect in (0.2, 0.5, 0.8):
        assert required_size(effect).item() == np.ceil(
            TTestPower().solve_power(effect, power=0.8, alpha=0.05)
        )
    assert required_size([0.0, np.inf]).tolist() == [np.inf, 2]


def test_equivalence_goes_by_the_rows_that_both_methods_have():
    values = table(n=11, m=3)
    gaps = values.mask(np.arange(11)[:, None] < [4, 0, 0])
    found = equivalence(gaps, 0.05, correction="none").table
    alone = equivalence(values.iloc[4:, :2], 0.05, correction="none").table
    assert found["n"].tolist() == [7, 7, 11]
    assert found["pvalue"][0] == pytest.approx(alone["pvalue"][0])
    with pytest.raises(ValueError, match="two rows that both methods of a pair have"):
        equivalence(values.mask(np.arange(11)[:, None] < [10, 0, 0]), 0.05)


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="`rope` must be positive"):
        equivalence(table(), 0)
    with pytest.raises(ValueError, match="`power` must lie"):
        required_size(1.0, power=1)
    with pytest.raises(ValueError, match="`n` must be at least 2"):
        paired_power(1.0, 1)
