"""The registry of measures."""

import pytest

from mlflow_mleval.measures.metric_names import directions
from mlflow_mleval.measures.registry import MEASURES, SETS, expand
from mlflow_mleval.report.content.run import FAMILIES


def test_the_sixteen_are_the_published_ones():
    assert len(SETS["sixteen"]) == 16
    assert [m for m in SETS["sixteen"] if MEASURES[m].direction == "min"] == [
        "hamming_loss",
        "one_error",
        "coverage",
        "ranking_loss",
    ]


def test_every_entry_is_complete():
    assert {m.family for m in MEASURES.values()} == set(FAMILIES)
    for name, m in MEASURES.items():
        assert name == m.name and m.direction in ("min", "max") and m.range[0] < m.range[1]
        assert m.family and m.source and m.summary


def test_sets_hold_known_measures_and_do_not_hide_one():
    assert all(member in MEASURES for members in SETS.values() for member in members)
    assert not set(SETS) & set(MEASURES)


def test_expand_keeps_order_and_unknown_names():
    assert expand(["x", "cost", "x"]) == ["x", "fit_time", "predict_time"]


def test_directions_of_the_user_come_first_and_contradictions_are_refused():
    assert directions(["f1"], minimize=["f1"]) == {"f1": "min"}
    with pytest.raises(ValueError, match="'f1' declared both"):
        directions(["f1"], ["f1"], ["f1"])
