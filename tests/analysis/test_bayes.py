"""Bayesian tests against loops, numerical integration and the tests that they correspond to."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from mlflow_mleval.analysis import beyond_pvalues
from mlflow_mleval.analysis.beyond_pvalues import bayesian_signed_rank, bayesian_t


def table(n=10, m=3, seed=0, shift=0.02):
    rng = np.random.default_rng(seed)
    values = rng.normal(0.7, 0.05, (n, 1)) + rng.normal(0, 0.03, (n, m)) - shift * np.arange(m)
    return pd.DataFrame(values, columns=[*"abcdef"[:m]])


def signed_rank_by_loops(z, rope, strength, n_resamples, seed):
    z = np.r_[0, z]
    weights = np.random.default_rng(seed).dirichlet(
        np.r_[strength, np.ones(len(z) - 1)], n_resamples
    )
    wins = np.zeros(3)
    for w in weights:
        theta = np.zeros(3)
        for i, x in enumerate(z):
            for j, y in enumerate(z):
                theta[0 if x + y > 2 * rope else 2 if x + y < -2 * rope else 1] += w[i] * w[j]
        wins[theta.argmax()] += 1
    return wins / n_resamples


@pytest.mark.parametrize("rope", [0.0, 0.01, 0.05])
def test_signed_rank_is_what_the_loops_give(rope):
    values = table(n=6, shift=0.01)
    found = bayesian_signed_rank(values, rope, n_resamples=20_000)
    for row in found.table.itertuples():
        z = (values[row.method_a] - values[row.method_b]).to_numpy()
        wins = signed_rank_by_loops(z, rope, 0.5, 3000, 1)
        assert (row.p_a, row.p_equivalent, row.p_b) == pytest.approx(tuple(wins), abs=0.04)
        assert row.mean_difference == pytest.approx(z.mean())


def test_many_pairs_at_once_are_each_pair_alone():
    table = pd.DataFrame(np.random.default_rng(2).random((6, 7)).round(2), columns=list("abcdefg"))
    found = bayesian_signed_rank(
        table, 0.02, n_resamples=2**17
    ).table  # more than one block of pairs, and of draws
    for row in found.sample(4, random_state=0).itertuples():
        alone = bayesian_signed_rank(
            table[[row.method_a, row.method_b]], 0.02, n_resamples=2**17
        ).table.iloc[0]
        assert list(row[4:10]) == pytest.approx(alone.iloc[3:9].tolist(), abs=1e-12)
        assert row.decision == alone["decision"]


@pytest.mark.parametrize("rope", [0.0, 0.1])
def test_sorted_pairs_are_as_all_sums(rope, monkeypatch):
    values = table(n=30).round(1)  # many sums meet the rope exactly
    sums = bayesian_signed_rank(values, rope, n_resamples=500)
    monkeypatch.setattr(beyond_pvalues, "MANY", 29)
    pd.testing.assert_frame_equal(
        bayesian_signed_rank(values, rope, n_resamples=500).table, sums.table
    )


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
    assert "taken as independent" in found.warnings[0] and "Without a rope" in found.warnings[1]


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10_000), st.floats(0, 0.05), st.sampled_from([bayesian_signed_rank, bayesian_t])
)
def test_turning_the_measure_swaps_the_methods(seed, rope, test):
    values = table(n=5, m=2, seed=seed)
    options = {"n_resamples": 500} if test is bayesian_signed_rank else {"ratio": 0.25}
    first, turned = (
        test(values, rope, direction=way, **options).table.iloc[0] for way in ("max", "min")
    )
    assert (first.p_a, first.p_equivalent, first.p_b) == pytest.approx(
        (turned.p_b, turned.p_equivalent, turned.p_a), abs=1e-12
    )
    wider = test(values, rope + 0.01, **options).table.iloc[0]
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
    assert bayesian_signed_rank(values, 0.01).table["decision"].item() == decision


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
        == "Taken for certain, because they differ by the same in every fold: 3 of 3 pairs."
    )
    ranked = bayesian_signed_rank(values, 0.01)
    assert ranked.table["p_equivalent"].iloc[1] == 1
    assert "too few to outweigh the prior" in ranked.warnings[0]


def test_a_difference_as_large_as_the_rope_is_equivalent_whatever_the_float_noise():
    values = pd.DataFrame({"a": [0.3, 0.1 + 0.2, 0.7, 0.8, 0.31], "b": [0.2, 0.2, 0.6, 0.7, 0.21]})
    assert bayesian_signed_rank(values, 0.1).table["p_equivalent"].item() == 1


def test_seed_and_verdict():
    values = table()
    first, again = (bayesian_signed_rank(values, 0.01, n_resamples=1000, seed=4) for _ in range(2))
    pd.testing.assert_frame_equal(first.table, again.table)
    assert first.verdict().startswith("of 3 pairs, with probability 0.95: ")
    assert "datasets drawn as these were" in first.verdict()
    pair = bayesian_t(values[["a", "c"]], 0.01, ratio=0.1)
    assert pair.verdict().startswith("a is better than c by more than 0.01 with probability")


def test_wrong_input_is_named():
    for call in (bayesian_signed_rank, bayesian_t):
        with pytest.raises(ValueError, match="`rope` must be zero or positive"):
            call(table(), -0.1)
        with pytest.raises(ValueError, match="`credible_level` must be at least"):
            call(table(), 0.1, credible_level=0.4)
    with pytest.raises(ValueError, match="a value in every cell"):
        bayesian_t(table().where(lambda t: t < 0.7), 0.1)
    with pytest.raises(ValueError, match="`prior_strength`"):
        bayesian_signed_rank(table(), 0.1, prior_strength=-1)
    with pytest.raises(ValueError, match="`ratio`"):
        bayesian_t(table(), 0.1, ratio=-1)


def test_a_pair_goes_by_the_datasets_that_both_have():
    values = pd.DataFrame(
        np.random.default_rng(0).normal([0.5, 0, 0], 1, (9, 3)), columns=list("abc")
    )
    gaps = values.mask(np.arange(9)[:, None] < [3, 0, 0])
    found, without = (
        bayesian_signed_rank(gaps, 0.1, n_resamples=500),
        bayesian_signed_rank(values, 0.1, n_resamples=500),
    )
    alone = bayesian_signed_rank(values.iloc[3:, :2], 0.1, n_resamples=500)
    assert found.table["n"].tolist() == [6, 6, 9]
    pd.testing.assert_frame_equal(found.table.iloc[:1], alone.table)
    pd.testing.assert_series_equal(found.table.iloc[2], without.table.iloc[2])
