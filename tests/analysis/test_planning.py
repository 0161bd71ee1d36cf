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
    _noncentrality,
    equivalence,
    paired_power,
    plan,
    required_size,
)
from mlflow_mleval.analysis.posthoc.max_t import max_t


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


@pytest.mark.parametrize("df", [1, 2, 9, 50])
@pytest.mark.parametrize("share", [0.025, 0.975])
def test_noncentrality_inverts_the_distribution(df, share):
    t = np.array([-200.0, -3, 0, 0.5, 2, 40])
    found = _noncentrality(t, df, share)
    np.testing.assert_allclose(
        stats.nct.cdf(np.abs(t), df, np.where(t < 0, -found, found)),
        np.where(t < 0, 1 - share, share),
    )
    np.testing.assert_allclose(_noncentrality(-t, df, 1 - share), -found, atol=1e-9)


def test_interval_of_the_effect_covers_it():
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(150):
        base = rng.normal(size=(11, 1))
        values = np.hstack([base + rng.normal(0.8, 1, (11, 1)), base])
        row = plan(values, alpha=0.1).table.iloc[0]
        covered.append(row.effect_low <= 0.8 <= row.effect_high)
    assert np.mean(covered) == pytest.approx(0.9, abs=0.07)


def test_planned_datasets_give_the_signed_rank_test_its_power():
    d = np.resize([0.9, -0.4], 12)
    row = plan(np.column_stack([d, np.zeros(12)]), correction="holm").table.iloc[0]
    assert row.effect == pytest.approx(d.mean() / d.std(ddof=1))
    drawn = np.random.default_rng(0).normal(row.effect, 1, (2000, int(row.needed)))
    assert (stats.wilcoxon(drawn, axis=1, method="approx").pvalue <= 0.05).mean() == pytest.approx(
        0.8, abs=0.04
    )


def test_plan_over_datasets_knows_what_is_feasible():
    values = table(n=11, m=12 // 2).join(table(n=11, m=6, seed=1).add_prefix("x"))
    found = plan(values, correction="holm")
    assert found.least == 12 and (found.table["power"] == 0).all()
    assert found.warnings[1].startswith(
        "Signed-rank tests of 66 pairs on 11 datasets cannot separate any"
    )
    assert (found.table["needed"] >= 12).all()
    assert (
        found.table[["needed_low", "needed", "needed_high"]].diff(axis=1).iloc[:, 1:].fillna(0) >= 0
    ).all(axis=None)
    said = (
        "11 datasets would be enough to separate 0 of 66 pairs by signed ranks, each with power "
        "0.8; 41 would be enough for"
    )
    assert said in found.verdict()
    by_max_t = plan(values)  # which can separate any number of pairs with six datasets
    assert by_max_t.least == 6
    assert by_max_t.level > 0.05 / 66
    assert (by_max_t.table["needed"] <= found.table["needed"]).all()
    few = plan(values.iloc[:4])
    assert (few.table["power"] == 0).all()
    assert few.warnings[1].startswith(
        "Changes of sign on 4 datasets cannot separate any pair, whatever"
    )
    same = pd.DataFrame(
        {
            "a": np.arange(8.0),
            "b": np.arange(8.0) + np.resize([1.0, -1], 8),
            "c": np.arange(8.0) + 5,
        }
    )
    assert plan(same).verdict().endswith("; for 1 pair no number is.")


def test_planned_datasets_give_max_t_its_power():
    rng = np.random.default_rng(3)
    found = plan(pd.DataFrame(rng.normal([1.0, 0, 0, 0], 1, (60, 4))))
    effect, needed = found.table.loc[0, ["effect", "needed"]]
    hits = []
    for _ in range(150):
        drawn = rng.normal(size=(int(needed), 4))
        drawn[:, 0] += effect * np.sqrt(2)
        hits.append(max_t(drawn, n_resamples=299).table["significant"][0])
    assert np.mean(hits) == pytest.approx(0.8, abs=0.1)


def test_equivalence_goes_by_the_rows_that_both_methods_have():
    values = table(n=11, m=3)
    gaps = values.mask(np.arange(11)[:, None] < [4, 0, 0])
    found = equivalence(gaps, 0.05, correction="none").table
    alone = equivalence(values.iloc[4:, :2], 0.05, correction="none").table
    assert found["n"].tolist() == [7, 7, 11]
    assert found["pvalue"][0] == pytest.approx(alone["pvalue"][0])
    with pytest.raises(ValueError, match="two rows that both methods of a pair have"):
        equivalence(values.mask(np.arange(11)[:, None] < [10, 0, 0]), 0.05)


def test_a_plan_goes_by_the_datasets_that_both_methods_have():
    values = table(n=11, m=3)
    gaps = values.copy()
    gaps.iloc[:4, 0], gaps.iloc[4:, 1] = np.nan, np.nan
    found = plan(gaps).table
    assert found["n"].tolist() == [0, 7, 4] and np.isnan(found["needed"][0])
    alone = plan(values.iloc[4:, [0, 2]]).table.loc[0]
    assert found["effect"][1] == pytest.approx(alone["effect"])
    assert found["low"][1] == pytest.approx(alone["low"])
    with pytest.raises(ValueError, match="two datasets that two methods share"):
        plan(gaps.iloc[3:5])


def test_plan_over_folds_with_shared_training_data():
    values = table(n=10, m=3, step=0.02)
    plain, shared = (plan(values, over="folds", ratio=ratio) for ratio in (None, 1 / 9))
    assert (shared.table["needed"] >= plain.table["needed"]).all()
    assert (shared.table["power"] <= plain.table["power"]).all()
    assert "Give a ratio" in plain.warnings[-1] and len(shared.warnings) == 1
    tiny = plan(table(n=10, m=2, step=0.0001), over="folds", ratio=1 / 9)
    assert tiny.verdict().endswith("0 of 1 pair, each with power 0.8; for 1 pair no number is.")


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="`rope` must be positive"):
        equivalence(table(), 0)
    with pytest.raises(ValueError, match="`ratio` must be None over datasets"):
        plan(table(), ratio=0.1)
    with pytest.raises(ValueError, match="`over` must be one of"):
        plan(table(), over="runs")
    with pytest.raises(ValueError, match="`correction` must be one of"):
        plan(table(), over="folds", correction="max-t")
    with pytest.raises(ValueError, match="`power` must lie"):
        required_size(1.0, power=1)
    with pytest.raises(ValueError, match="`n` must be at least 2"):
        paired_power(1.0, 1)
