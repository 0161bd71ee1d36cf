"""The posterior of pairs against numerical integration and the t test that it corresponds to."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from mlflow_mleval.analysis.beyond_pvalues import bayesian_t


def table(n=10, m=3, seed=0, shift=0.02):
    rng = np.random.default_rng(seed)
    values = rng.normal(0.7, 0.05, (n, 1)) + rng.normal(0, 0.03, (n, m)) - shift * np.arange(m)
    return pd.DataFrame(values, columns=[*"abcdef"[:m]])


def test_correlated_t_is_the_integral_of_its_posterior():
    values = table()
    found = bayesian_t(values, 0.01, ratio=1 / 9)
    for row in found.table.itertuples():
        d = values[row.method_a] - values[row.method_b]
        scale = np.sqrt((1 / 10 + 1 / 9) * d.var())

        def density(x, d=d, scale=scale):
            return stats.t.pdf((x - d.mean()) / scale, 9) / scale

        assert row.p_equivalent == pytest.approx(integrate.quad(density, -0.01, 0.01)[0], abs=1e-9)
        assert row.p_a == pytest.approx(
            integrate.quad(density, 0.01, 2, points=[d.mean()])[0], abs=1e-6
        )
        assert row.p_a + row.p_equivalent + row.p_b == pytest.approx(1)
        assert (row.low, row.high) == pytest.approx(stats.t.interval(0.95, 9, d.mean(), scale))


def test_without_rope_and_overlap_it_is_the_t_test():
    values = table(m=2)
    found = bayesian_t(values, 0)
    p = stats.ttest_rel(values["a"], values["b"], alternative="greater").pvalue
    assert found.table["p_b"].item() == pytest.approx(p)
    assert found.table["p_a"].item() == pytest.approx(1 - p)
    assert "Without a rope" in found.warnings[0]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.05), st.sampled_from([None, 0.25]))
def test_turning_the_measure_swaps_the_methods(seed, rope, ratio):
    values = table(n=5, m=2, seed=seed)
    first, turned = (
        bayesian_t(values, rope, direction=way, ratio=ratio).table.iloc[0] for way in ("max", "min")
    )
    assert (first.p_a, first.p_equivalent, first.p_b) == pytest.approx(
        (turned.p_b, turned.p_equivalent, turned.p_a), abs=1e-12
    )
    wider = bayesian_t(values, rope + 0.01, ratio=ratio).table.iloc[0]
    assert wider.p_equivalent >= first.p_equivalent


@pytest.mark.parametrize(
    ("shift", "decision"), [(0.05, "a"), (-0.05, "b"), (0.0, "equivalent"), (0.01, "undecided")]
)
def test_decisions(shift, decision):
    rng = np.random.default_rng(0)
    base = rng.normal(0.7, 0.05, 30)
    noise = rng.normal(0, 0.003, 30)
    values = pd.DataFrame({"a": base, "b": base - shift + noise - noise.mean()})
    assert bayesian_t(values, 0.01, ratio=1 / 9).table["decision"].item() == decision


def test_pairs_without_any_variation():
    values = pd.DataFrame({"a": [0.3, 0.2, 0.5], "b": [0.2, 0.1, 0.4], "c": [0.3, 0.2, 0.5]})
    found = bayesian_t(values, 0.01, ratio=0.5)
    assert found.table[["p_a", "p_equivalent", "p_b"]].round(9).to_numpy().tolist() == [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
    ]
    assert (
        found.warnings[0]
        == "Taken for certain, because they differ by the same in every row: 3 of 3 pairs."
    )


def test_verdicts():
    values = table()
    several = bayesian_t(values, 0.01)
    assert several.verdict().startswith("of 3 pairs, with probability 0.95: ")
    pair = bayesian_t(values[["a", "c"]], 0.01, ratio=0.1)
    assert pair.verdict().startswith("a is better than c by more than 0.01 with probability")


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="`rope` must be zero or positive"):
        bayesian_t(table(), -0.1)
    with pytest.raises(ValueError, match="`credible_level` must be at least"):
        bayesian_t(table(), 0.1, credible_level=0.4)
    with pytest.raises(ValueError, match="two rows that both methods"):
        bayesian_t(table().mask(np.arange(10)[:, None] < [9, 0, 0]), 0.1)
    with pytest.raises(ValueError, match="`ratio`"):
        bayesian_t(table(), 0.1, ratio=-1)


def test_a_pair_goes_by_the_rows_that_both_have():
    values = table(n=9)
    gaps = values.mask(np.arange(9)[:, None] < [3, 0, 0])
    found, whole = (bayesian_t(part, 0.01).table for part in (gaps, values))
    alone = bayesian_t(values.iloc[3:, :2], 0.01).table
    assert found["n"].tolist() == [6, 6, 9]
    pd.testing.assert_frame_equal(found.iloc[:1], alone)
    pd.testing.assert_series_equal(found.iloc[2], whole.iloc[2])


def test_as_many_pairs_are_called_different_by_chance_as_is_said():
    null = [bayesian_t(np.random.default_rng(k).normal(size=(12, 6)), 0.0) for k in range(40)]
    called = np.mean([(one.table["decision"] != "undecided").sum() for one in null])
    assert np.mean([one.by_chance for one in null]) == pytest.approx(called, rel=0.3)
