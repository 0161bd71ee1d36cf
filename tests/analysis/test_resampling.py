"""Rank sets and the bootstrap of PROMETHEE ranks against enumeration, simulation and the fusion
itself.
"""

import os
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mlflow_mleval.analysis import resampling as module
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.resampling import bootstrap_ranks, rank_confidence
from mlflow_mleval.study import Study

#: How often what holds with a probability is tried; MLEVAL_SIMULATIONS=400 tries it thoroughly.
SIMULATIONS = int(os.environ.get("MLEVAL_SIMULATIONS", "150"))


def table(n=8, m=4, seed=0, step=0.5):
    return pd.DataFrame(
        np.random.default_rng(seed).normal(size=(n, m)) - step * np.arange(m),
        columns=[*"abcdef"[:m]],
    )


def study(n_folds=5, datasets=("d", "e"), methods=("a", "b", "c"), seed=0, step=0.02):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product(
        [datasets, methods, range(n_folds)], names=["dataset", "method", "fold"]
    )
    folds = pd.DataFrame(rng.normal(0.6, 0.03, (len(index), 2)), index, ["f1", "hamming_loss"])
    folds["f1"] -= step * index.get_level_values(1).map({name: k for k, name in enumerate(methods)})
    return Study(
        folds.groupby(level=[0, 1]).mean(),
        {"f1": "max", "hamming_loss": "min"},
        "worst",
        folds=folds,
    )


def stepdown_by_enumeration(values):
    a, b = np.triu_indices(values.shape[1], 1)
    d = (values[:, a] - values[:, b]).T
    unit = d / np.sqrt((d**2).sum(axis=1, keepdims=True))
    observed = np.abs(unit.sum(axis=1))
    draws = np.abs(np.array(list(product([1, -1], repeat=d.shape[1]))) @ unit.T)
    p, running = np.empty(len(a)), 0.0
    left = list(range(len(a)))
    for k in np.argsort(-observed):
        running = max(running, (draws[:, left].max(axis=1) >= observed[k] - 1e-9).mean())
        p[k] = running
        left.remove(k)
    return p


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 8), st.integers(2, 5))
def test_pvalues_by_enumeration(seed, n, m):
    values = table(n, m, seed)
    found = rank_confidence(values)
    assert found.exact
    np.testing.assert_allclose(
        found.pairs["pvalue"], stepdown_by_enumeration(values.to_numpy()), atol=1e-12
    )


def test_one_pair_is_the_permutation_test_of_scipy():
    values = table(m=2)
    peer = stats.permutation_test(
        (values["a"] - values["b"],), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert rank_confidence(values).pairs["pvalue"].item() == pytest.approx(peer.pvalue)


def test_random_signs_come_near_all_signs(monkeypatch):
    values = table(n=10, m=5)
    exact, drawn = rank_confidence(values), rank_confidence(values, n_resamples=500, seed=1)
    assert exact.exact and not drawn.exact
    np.testing.assert_allclose(drawn.pairs["pvalue"], exact.pairs["pvalue"], atol=0.08)
    monkeypatch.setattr(module, "BLOCK", 1000)
    pd.testing.assert_frame_equal(rank_confidence(values).pairs, exact.pairs)


def test_rank_sets_follow_from_the_separated_pairs():
    values = table(n=12, m=5, step=1.5)
    found = rank_confidence(values)
    apart = found.pairs[found.pairs["pvalue"] <= 0.05]
    for name, row in found.table.iterrows():
        first, second = apart.method_a == name, apart.method_b == name
        ahead = (first & (apart.mean_difference < 0)) | (second & (apart.mean_difference > 0))
        behind = (first | second) & ~ahead
        assert (row.low, row.high) == (1 + ahead.sum(), 5 - behind.sum())
        assert row.low <= row["rank"] <= row.high
    turned = rank_confidence(-values, direction="min")
    pd.testing.assert_frame_equal(
        turned.table[["rank", "low", "high"]], found.table[["rank", "low", "high"]]
    )


@pytest.mark.parametrize(("n", "separated"), [(5, 0.07), (6, 0.04)])
def test_alpha_says_which_pairs_narrow_the_sets(n, separated):
    values = pd.DataFrame(
        {"a": np.linspace(1, 2, n), "b": np.zeros(n)}
    )  # a is better everywhere: p = 2 / 2**n
    for alpha in (separated, 2 / 2**n - 1e-6):
        found = rank_confidence(values, alpha=alpha)
        apart = alpha >= 2 / 2**n
        assert found.alpha == alpha and found.best == (["a"] if apart else ["a", "b"])
        assert found.table.loc["b", ["low", "high"]].tolist() == ([2, 2] if apart else [1, 2])
        assert bool(found.warnings) != apart


def test_sets_hold_the_true_ranks_with_their_confidence():
    covered = []
    for seed in range(SIMULATIONS):
        rng = np.random.default_rng(seed)
        truth = np.array([0.0, 0.0, 0.0, -1.0, -1.0])
        found = rank_confidence(
            truth + rng.normal(size=(12, 5)) + rng.normal(size=(12, 1)), n_resamples=400, seed=seed
        ).table
        low, high = found["low"].sort_index(), found["high"].sort_index()
        covered.append(
            (low[:3] == 1).all()
            and (high[:3] >= 3).all()
            and (low[3:] <= 4).all()
            and (high[3:] == 5).all()
        )
    assert np.mean(covered) >= stats.binom.ppf(0.001, SIMULATIONS, 0.95) / SIMULATIONS


def test_few_datasets_are_said_to_separate_nothing():
    found = rank_confidence(table(n=4, step=5.0))
    assert (
        "4 datasets cannot narrow them" in found.warnings[0] and "it takes 6." in found.warnings[0]
    )
    assert rank_confidence(table(n=6, m=2, step=9.0)).pairs["pvalue"].item() == 2 / 2**6
    assert found.verdict().startswith(
        "With confidence 0.95 for all 4 methods at once, the best is one of 4 (a, b, c, d);"
    )
    assert "is the best;" in rank_confidence(table(n=9, step=5.0)).verdict()
    assert rank_confidence(pd.DataFrame({"a": [1.0, 2], "b": [1.0, 2]})).pairs["pvalue"].item() == 1


def test_without_spread_between_folds_every_draw_is_the_fusion():
    known = study()
    flat = known.folds.groupby(level=[0, 1]).transform("mean")
    fusion = fuse(Study(known.values, known.directions, "worst", folds=flat))
    found = bootstrap_ranks(fusion, n_resamples=5)
    for _, draw in found.draws.iterrows():
        pd.testing.assert_series_equal(draw, fusion.ranking["phi"], check_names=False)
    assert (found.table["low"] == found.table["rank"]).all() and (
        found.table["high"] == found.table["rank"]
    ).all()


def test_draws_without_correction_are_fusions_of_drawn_folds():
    known = study(datasets=("d",))
    n, ratio = 5, 0.0
    found = bootstrap_ranks(fuse(known), ratio=ratio, n_resamples=20, seed=3)
    weights = np.random.default_rng(3).multinomial(n, np.full(n, 1 / n), 20) / n
    by_fold = known.folds.to_numpy().reshape(3, n, 2)
    for draw, w in zip(found.draws.to_numpy(), weights, strict=True):
        mean = by_fold.mean(axis=1)
        moved = mean + np.sqrt(n / (n - 1)) * (np.einsum("r,irj->ij", w, by_fold) - mean)
        values = pd.DataFrame(moved, known.values.index, known.values.columns)
        expected = fuse(Study(values, known.directions)).ranking["phi"]
        np.testing.assert_allclose(draw, expected.reindex(found.draws.columns))


def test_spread_is_that_of_the_corrected_variance():
    rng = np.random.default_rng(0)
    x = rng.normal(size=10)
    weights = rng.multinomial(10, np.full(10, 0.1), 200_000) / 10
    drawn = np.sqrt((1 + 10 * (1 / 9)) * 10 / 9) * (weights @ (x - x.mean()))
    assert drawn.var() == pytest.approx((1 / 10 + 1 / 9) * x.var(ddof=1), rel=0.02)


def test_overlap_of_training_data_widens_the_spread_and_shares_sum_to_one():
    fusion = fuse(study(n_folds=10, step=0.01))
    found = {
        ratio: bootstrap_ranks(fusion, ratio=ratio, n_resamples=60, seed=1)
        for ratio in (0, 1 / 9, None)
    }
    assert found[1 / 9].draws.std().sum() > found[0].draws.std().sum()
    pd.testing.assert_frame_equal(found[1 / 9].draws, found[None].draws)
    assert (
        "taken as one cross-validation on d, e" in found[None].warnings[0] and not found[0].warnings
    )
    for result in found.values():
        np.testing.assert_allclose(result.acceptability.sum(axis=0), 1)
        np.testing.assert_allclose(result.acceptability.sum(axis=1), 1)
        assert (result.table["low"] <= result.table["high"]).all()
    assert "draws of the folds and has rank" in found[0].verdict()


def test_what_the_runs_say_of_their_folds_is_used():
    known = study(n_folds=10)
    halves = [[50] * 10] * 6
    runs = known.values.index.to_frame(index=False).assign(n_train=halves, n_test=halves)
    runs["split_digest"] = ["x", "y", "x", "z", "z", "z"]
    found = bootstrap_ranks(
        fuse(Study(known.values, known.directions, folds=known.folds, runs=runs)), n_resamples=3
    )
    assert found.ratios == {"d": 1.0, "e": 1.0}
    assert found.warnings == (
        "Methods were run on different splits, yet folds are drawn as if they were the same, on d.",
    )


def test_cells_without_folds_keep_their_values():
    known = study()
    values = known.values.copy()
    values.loc[("e", "c")] = np.nan
    folds = known.folds.drop(index=("e", "c"), level=None).drop(index=[("d", "b", 4)])
    extra = pd.concat([values, values.loc[["d"]].rename(index={"d": "f"}, level=0)])
    found = bootstrap_ranks(
        fuse(Study(extra, known.directions, "worst", folds=folds)), n_resamples=5
    )
    cells = "b on d, c on e, a on f, b on f, c on f"
    assert (
        found.warnings[0] == f"Cells without all folds of their dataset keep their values: {cells}."
    )
    assert found.warnings[1].startswith("1 dataset without folds to draw from")
    assert list(found.ratios) == ["d", "e"]


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="`n_resamples` must be at least 1"):
        rank_confidence(table(), n_resamples=0)
    with pytest.raises(ValueError, match="a value in every cell"):
        rank_confidence(table().where(lambda t: t > -1))
    known = study()
    with pytest.raises(ValueError, match="two folds that two methods share, got none"):
        bootstrap_ranks(fuse(Study(known.values, known.directions)))
    with pytest.raises(ValueError, match="`ratio`"):
        bootstrap_ranks(fuse(known), ratio=-1)
