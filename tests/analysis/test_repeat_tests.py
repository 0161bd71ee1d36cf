"""Tests over independent repeats: Welch in unequal numbers, one correction."""

import numpy as np
import pandas as pd
import pytest
from command_line import as_json, mleval
from scipy import stats

from mlflow_mleval.analysis.pairs_by_unit import repeat_tests
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.report.blocks import glossary
from mlflow_mleval.store.query import load_study


def repeats(*sizes, shift=0.05, seed=0, measures=("f1", "hamming_loss")):
    rng = np.random.default_rng(seed)
    return {
        f"m{k}": pd.DataFrame(
            rng.normal(0.6 + shift * k, 0.02 + 0.01 * k, (n, len(measures))), columns=list(measures)
        )
        for k, n in enumerate(sizes)
    }


def test_welch_is_scipys_with_unequal_numbers_and_larger_is_better():
    methods = repeats(4, 7, 5)
    found = repeat_tests(methods).table
    for row in found.itertuples():
        a, b = (methods[m][row.measure] for m in (row.method_a, row.method_b))
        expected = stats.ttest_ind(a, b, equal_var=False)
        sign = -1 if row.measure == "hamming_loss" else 1
        assert (row.n_a, row.n_b, row.mean_a) == (len(a), len(b), pytest.approx(a.mean()))
        wanted = (sign * expected.statistic, expected.pvalue, expected.df)
        assert (row.statistic, row.pvalue, row.df) == pytest.approx(wanted)
        level = 1 - 0.05 / len(found)  # of all together
        interval = sorted(sign * np.array(expected.confidence_interval(level)))
        assert row.separated == (row.low >= 0 or row.high <= 0)
        if row.separated:  # by a later step of Holm's, it may be
            interval = np.maximum(interval, 0) if row.difference > 0 else np.minimum(interval, 0)
        wanted = [*interval, sign * (a.mean() - b.mean())]
        assert [row.low, row.high, row.difference] == pytest.approx(wanted)
        assert row.effect_size * row.difference > 0


def test_one_correction_holds_for_headline_and_table():
    found = repeat_tests(repeats(4, 7, 5))
    table = found.table
    corrected = np.minimum.accumulate((np.sort(table["pvalue"]) * np.arange(6, 0, -1))[::-1])[::-1]
    assert found.n_comparisons == 6
    assert table["pvalue_corrected"].min() == pytest.approx(table["pvalue"].min() * 6)
    assert table["pvalue_corrected"].max() >= corrected.max()
    expected = table.groupby(["method_a", "method_b"])["pvalue_corrected"].min().tolist()
    assert found.by_pair["pvalue_corrected"].tolist() == expected
    won = table[table["separated"]].groupby(["method_a", "method_b"]).size()
    assert found.by_pair["separated"].sum() == len(won)
    assert won.sum() == found.by_pair[["a_better", "b_better"]].sum().sum()


def test_what_cannot_be_tested_is_listed():
    methods = repeats(4, 4, 1, 4)
    methods["m3"].loc[[0, 1, 2], "f1"] = np.nan
    methods["m0"]["hamming_loss"] = methods["m3"]["hamming_loss"] = 0.25
    found = repeat_tests(methods)
    assert found.n_comparisons == found.table["pvalue"].notna().sum() == 3
    assert "4 pairs could not be tested" in found.headline()
    told = " ".join(found.warnings)
    assert "for want of a second repeat: m2." in told and "f1 in 3 of 4 of m3" in told
    assert "its values do not vary over repeats: m0 and m3 on hamming_loss." in told
    with pytest.raises(IncomparableRunsError, match="m0 has 4, m1 has 1"):
        repeat_tests(repeats(4, 1))
    said = "no pair of methods can be tested: its values do not vary"
    with pytest.raises(IncomparableRunsError, match=said):
        repeat_tests({m: pd.DataFrame({"f1": [0.5, 0.5]}) for m in "ab"})


@pytest.mark.parametrize(
    ("same", "said"),
    [(True, "how much training varies"), (False, "overlap"), (None, "training varies")],
)
def test_the_verdict_says_what_repeats_measure(same, said):
    assert said in repeat_tests(repeats(3, 3), same_split=same).verdict()


def test_equal_methods_are_rarely_separated():
    found = pd.concat(
        [repeat_tests(repeats(5, 6, shift=0, seed=k, measures=["f1"])).table for k in range(120)]
    )
    assert (found["pvalue"] <= 0.05).mean() <= 0.1  # of 0.05, two and a half deviations above


OVER = ["compare", "--over", "repeats"]
SEEDS = ["-n", "wine", "--method-by", "param:model", "--max", "test_auc"]


def test_compare_over_repeats_gives_what_the_function_gives(plain):
    found = as_json(*OVER, *SEEDS)
    study = load_study(experiment_names=["wine"], method_by="param:model", maximize=["test_auc"])
    expected = repeat_tests(
        study.over("repeats", "wine").tables, ["test_auc"], maximize=["test_auc"]
    )
    rows = found["datasets"]["wine"]["table"]
    assert [row["pvalue_corrected"] for row in rows] == expected.table["pvalue_corrected"].tolist()
    assert set(found) == {"schema_version", *glossary("pairs")} - {"n_instances"}
    assert found["over"] == "repeats"
    assert found["datasets"]["wine"]["n_repeats"]["mlp"] == study.n_repeats["wine", "mlp"]
    assert "how much training varies" in found["datasets"]["wine"]["verdict"]
    page = mleval(*OVER, *SEEDS, "--output", "html").stdout
    assert "logreg" in page and "separates" in page
    told = mleval(*OVER, *SEEDS, "--read", "duplicates=latest", code=1).output
    assert "no method has several runs on wine" in told


def test_datasets_are_corrected_together(plain):
    both, one = as_json(*OVER, "-n", "spam", *SEEDS), as_json(*OVER, *SEEDS)
    rows, alone = both["datasets"]["wine"]["table"], one["datasets"]["wine"]["table"]
    assert [r["pvalue"] for r in rows] == [r["pvalue"] for r in alone]
    expected = len(both["datasets"]["spam"]["table"]) + len(rows)
    assert both["datasets"]["wine"]["n_comparisons"] == expected
    assert min(r["pvalue_corrected"] for r in rows) > min(r["pvalue_corrected"] for r in alone)
    assert {row["dataset"] for row in both["pairs"]} == {"spam", "wine"}
