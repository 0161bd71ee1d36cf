"""The registry of measures."""

from dataclasses import replace

import numpy as np
import pytest

import mlflow_mleval as mleval
from mlflow_mleval.analysis.measure_intervals import measure_intervals
from mlflow_mleval.measures.metric_names import directions
from mlflow_mleval.measures.registry import MEASURES, SETS, OverLabels, expand, precision, recall


def test_the_sixteen_are_the_published_ones():
    assert len(SETS["sixteen"]) == 16
    losses = [m for m in SETS["sixteen"] if MEASURES[m].direction == "min"]
    assert losses == ["hamming_loss", "one_error", "coverage", "ranking_loss"]


def test_every_entry_is_complete():
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


def test_a_new_measure_is_one_row(monkeypatch):
    """Its value, interval, direction, place in a run's report and merging follow."""
    rate = OverLabels(lambda counts: np.sqrt(precision(counts) * recall(counts)))
    row = replace(MEASURES["macro_f1"], name="macro_gmean", family="further-label", formula=rate)
    monkeypatch.setitem(MEASURES, "macro_gmean", row)
    rng = np.random.default_rng(0)
    true = rng.random((120, 4)) < 0.4
    pred = np.where(rng.random(true.shape) < 0.75, true, ~true)
    ev = mleval.evaluate(true, y_pred=pred)
    rates = ev.labels[["precision", "recall"]].prod(axis=1)
    assert ev.measures["macro_gmean"] == pytest.approx(np.sqrt(rates).mean())
    left = [
        mleval.evaluate(np.delete(true, i, 0), y_pred=np.delete(pred, i, 0), instances=False)
        for i in range(120)
    ]
    found = measure_intervals(ev).table.loc["macro_gmean", "standard_error"]
    spread = np.var([other.measures["macro_gmean"] for other in left]) * 119
    assert found == pytest.approx(np.sqrt(spread), rel=0.02)
    assert directions(["macro_gmean"]) == {"macro_gmean": "max"}
    assert "macro_gmean" in ev.report("m", "d").frames()["measures"]["measure"].tolist()
    assert mleval.merge([ev, ev]).measures["macro_gmean"] == ev.measures["macro_gmean"]
