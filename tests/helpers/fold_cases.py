"""Studies with folds, made up, for the tests of what reports say about them."""

from functools import cache

import numpy as np
import pandas as pd

from mlflow_mleval.study import Study


def fold_study(
    shifts: dict[str, tuple[float, ...]],
    measures: tuple[str, ...] = ("precision", "recall"),
    n_folds: int = 10,
    datasets: tuple[str, ...] = ("birds",),
    seed: int = 0,
    **known: object,
) -> Study:
    """Results by fold around .6 plus each method's shifts, with noise of .02; `known` is what every
    run says of itself.
    """
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product(
        [datasets, shifts, range(n_folds)], names=["dataset", "method", "fold"]
    )
    noise = rng.normal(0.6, 0.02, (len(index), len(measures)))
    shift = np.array([shifts[m] for m in index.get_level_values("method")])
    folds = pd.DataFrame(noise + shift, index, list(measures))
    means = folds.groupby(level=[0, 1], sort=False).mean()
    runs = pd.DataFrame(
        [{"dataset": d, "method": m, "run_id": f"{d}/{m}", **known} for d, m in means.index]
    )
    return Study(means, dict.fromkeys(measures, "max"), folds=folds, runs=runs)


@cache
def three_methods() -> Study:
    """BR and CC alike, LP with better recall and worse precision; the split and the sizes of the
    folds are known.
    """
    shifts = {"BR": (0.0, 0.0), "CC": (0.0, 0.0), "LP": (-0.06, 0.06)}
    return fold_study(
        shifts, datasets=("birds", "flags"), split_digest="abc", n_train=90, n_test=10
    )
