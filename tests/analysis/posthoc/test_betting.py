"""Betting: tests of pairs that hold their level at any number of looks, over datasets and over
instances.
"""

import numpy as np
import pandas as pd
import pytest
from report_cases import study_of

import mlflow_mleval as mleval
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.posthoc.betting import BETS, SHARES, betting, log_capital
from mlflow_mleval.report.blocks import plain


def test_capital_is_the_mean_of_fixed_bets_and_a_fair_game():
    x = np.array([0.5, np.nan, -0.2, 1.0])
    by_hand = sum(
        w / 2 * np.prod(1 + s * b * np.nan_to_num(x))
        for b, w in zip(BETS, SHARES, strict=True)
        for s in (1, -1)
    )
    assert np.exp(log_capital(x)[-1]) == pytest.approx(by_hand)
    ends = [
        np.exp(log_capital(np.array([a, b, c]))[-1])
        for a in (1, -1)
        for b in (1, -1)
        for c in (1, -1)
    ]
    assert np.mean(ends) == pytest.approx(1)
    assert np.exp(log_capital(-x)) == pytest.approx(np.exp(log_capital(x)))


def test_a_hundred_looks_err_in_less_than_five_percent_and_repeated_max_t_in_more():
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (400, 100)) * rng.random((400, 100))
    ever = np.mean([log_capital(x).max() >= np.log(20) for x in signs])
    total, size = np.cumsum(signs, axis=1), np.sqrt(np.cumsum(signs**2, axis=1))
    assert ever <= 0.05 < 0.15 < np.mean((np.abs(total / size)[:, 5:] > 1.96).any(axis=1))


def test_evidence_never_falls_when_datasets_come_and_order_decides_nothing_but_the_path():
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.random((30, 3)) + np.array([0.4, 0.1, 0]), columns=list("abc"))
    pvalues = [betting(table[:n]).table["pvalue"].to_numpy() for n in (5, 10, 20, 30)]
    assert (np.diff(pvalues, axis=0) <= 0).all()
    turned = betting(table[::-1])
    assert turned.table["capital"].to_numpy() == pytest.approx(
        betting(table).table["capital"].to_numpy()
    )
    assert turned.order == [*range(29, -1, -1)]


def test_so_many_datasets_are_needed():
    for n, apart in (
        (betting(pd.DataFrame({"a": [1.0] * 2, "b": [-1.0] * 2})).datasets_needed, True),
        (4, False),
    ):
        assert (
            bool(betting(pd.DataFrame({"a": [1.0] * n, "b": [-1.0] * n})).significant_pairs)
            is apart
        )


def test_wrong_bounds_are_refused():
    table = pd.DataFrame({"a": [3.0, 1], "b": [0.0, 0]})
    with pytest.raises(
        ValueError,
        match="`bound` must be at least as large as any difference can be, got 2 and one of 3",
    ):
        betting(table)
    with pytest.raises(ValueError, match="`bound` must be positive"):
        betting(table, bound=0)


def test_a_comparison_decides_by_betting_in_the_order_of_arrival():
    study = study_of(3, 25, gap=0.02)
    start = pd.date_range("2026-01-01", periods=25, tz="UTC")[::-1]
    runs = pd.DataFrame({"dataset": [f"d{i}" for i in range(25)], "start_time": start})
    study = mleval.Study(study.values, study.directions, runs=runs)
    c = compare(study, test="anytime")
    assert c.decides == "anytime"
    assert c.betting.order == [f"d{i}" for i in range(24, -1, -1)]
    assert c.betting.bound == 1.5
    assert set(c.separated) == set(c.betting.significant_pairs) and ("m0", "m2") in c.separated
    assert compare(fuse(study, "usual"), test="anytime").betting.bound == 2
    data = c.report().to_dict()
    assert data["betting"]["order"][0] == "d24"
    assert data["pairwise"]["pairs"][0]["pvalue_betting"] <= 0.05
    assert "about twice as many datasets" in plain(c.report().to_markdown())


def test_few_datasets_can_show_nothing():
    c = compare(study_of(3, 6, gap=0.1), test="anytime")
    assert not c.separated and "cannot separate any pair" in c.report().to_markdown()


def of(rng, n, shift):
    a = rng.random(n) * 0.8
    return {
        "a": pd.DataFrame({"f1": a + shift}),
        "b": pd.DataFrame({"f1": np.clip(a + rng.normal(0, 0.1, n), 0, 1)}),
    }


def test_instances_are_told_apart_and_the_text_says_the_price():
    found = mleval.instance_tests(
        of(np.random.default_rng(0), 400, 0.05), ["f1"], n_resamples=99, anytime=True
    )
    row = found.table.iloc[0]
    assert row.separated
    assert row.anytime_corrected == row.anytime_pvalue == 1 / found.by_pair["statistic"][0]
    assert "about twice as many" in found.verdict()
    assert "Betting decides" in found.report().to_markdown()
    clusters = np.arange(400) // 200
    assert (
        not mleval.instance_tests(
            of(np.random.default_rng(0), 400, 0.05), ["f1"], clusters=clusters, anytime=True
        )
        .by_pair["separated"]
        .any()
    )


def test_measures_without_bounds_are_named():
    tables = {m: pd.DataFrame({"coverage": [1.0, 2], "f1": [0.1, 0.2]}) for m in "ab"}
    with pytest.raises(
        ValueError,
        match="`anytime` needs measures that are known to lie between bounds, got coverage",
    ):
        mleval.instance_tests(tables, ["f1", "coverage"], anytime=True)
