"""The bootstrap of PROMETHEE ranks against enumeration, simulation and the fusion itself."""

import os

import numpy as np
import pandas as pd
import pytest

from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.resampling import bootstrap_ranks
from mlflow_mleval.study import Study

#: How often what holds with a probability is tried; MLEVAL_SIMULATIONS=400 tries it thoroughly.
SIMULATIONS = int(os.environ.get("MLEVAL_SIMULATIONS", "150"))


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
    known = study()
    with pytest.raises(ValueError, match="two folds that two methods share, got none"):
        bootstrap_ranks(fuse(Study(known.values, known.directions)))
    with pytest.raises(ValueError, match="`ratio`"):
        bootstrap_ranks(fuse(known), ratio=-1)
