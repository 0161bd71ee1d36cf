"""Pairs with the better method first."""

import pandas as pd

from mlflow_mleval.analysis.pairs import behind, better_first

PAIRS = pd.DataFrame(
    {
        "method_a": ["x", "x", "y"],
        "method_b": ["y", "z", "z"],
        "wins": [1, 2, 3],
        "losses": [4, 5, 6],
        "mean": [-0.5, 0.25, 1.0],
        "low": [-1.0, 0.0, 0.5],
        "high": [0.0, 0.5, 2.0],
    },
    index=[7, 3, 5],
)


def test_only_what_is_behind_is_turned_and_rows_stay_where_they_are():
    found = better_first(PAIRS, behind(PAIRS, ["y", "x", "z"]))
    assert found.index.tolist() == [7, 3, 5] and found.loc[7].tolist() == [
        "y",
        "x",
        4,
        1,
        0.5,
        0.0,
        1.0,
    ]
    pd.testing.assert_frame_equal(found.loc[[3, 5]], PAIRS.loc[[3, 5]])


def test_turning_twice_changes_nothing():
    once = better_first(PAIRS, [True, False, True])
    assert (once["low"] <= once["high"]).all() and (once["low"] <= once["mean"]).all()
    pd.testing.assert_frame_equal(better_first(once, [True, False, True]), PAIRS)
