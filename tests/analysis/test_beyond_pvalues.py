"""Probabilities, equivalence, power and planning against integrals and simulation."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_cases import fold_study, study_of
from scipy import integrate, stats

from mlflow_mleval.analysis.beyond_pvalues import (
    MOST,
    bayesian_t,
    equivalence,
    paired_power,
    power_curve,
    required_size,
)
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.posthoc.max_t import level_of_a_pair, max_t
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.decision import beyond_pairs
from mlflow_mleval.report.content.decision import beyond_sentences as sentences
from mlflow_mleval.report.content.study_report import document
from mlflow_mleval.report.text import probability_said


def table(n=10, m=3, seed=0, shift=0.02):
    rng = np.random.default_rng(seed)
    values = rng.normal(0.7, 0.05, (n, 1)) + rng.normal(0, 0.03, (n, m)) - shift * np.arange(m)
    return pd.DataFrame(values, columns=[*"abcdef"[:m]])


def gaps_of(k, n=10):
    """The table, in which the first method lacks the first k rows."""
    return table(n).mask(np.arange(n)[:, None] < [k, 0, 0])


@pytest.mark.parametrize("ratio", [None, 1 / 9])
def test_correlated_t_is_the_integral_of_its_posterior(ratio):
    values = table()
    found = bayesian_t(values, 0.01, ratio=ratio)
    for row in found.table.itertuples():
        d = values[row.method_a] - values[row.method_b]
        scale = np.sqrt((1 / 10 + (ratio or 0)) * d.var())

        def density(x, d=d, scale=scale):
            return stats.t.pdf((x - d.mean()) / scale, 9) / scale

        assert row.p_equivalent == pytest.approx(integrate.quad(density, -0.01, 0.01)[0], abs=1e-9)
        expected = integrate.quad(density, 0.01, 2, points=[d.mean()])[0]
        assert row.p_a == pytest.approx(expected, abs=1e-6)
        assert row.p_a + row.p_equivalent + row.p_b == pytest.approx(1)
        assert (row.low, row.high) == pytest.approx(stats.t.interval(0.95, 9, d.mean(), scale))


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(0, 0.05), st.sampled_from([None, 0.25]))
def test_turning_the_measure_swaps_the_methods(seed, rope, ratio):
    values = table(n=5, m=2, seed=seed)
    first, turned = (bayesian_t(way * values, rope, ratio=ratio).table.iloc[0] for way in (1, -1))
    expected = (turned.p_b, turned.p_equivalent, turned.p_a)
    assert (first.p_a, first.p_equivalent, first.p_b) == pytest.approx(expected, abs=1e-12)
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
    found, shown = bayesian_t(values, 0.01, ratio=0.5), equivalence(values, 0.05)
    certain = found.table[["p_a", "p_equivalent", "p_b"]].round(9).to_numpy()
    assert certain.tolist() == np.eye(3).tolist()
    assert shown.table["equivalent"].tolist() == [False, True, False]
    said = "Taken for certain, because they differ by the same in every row: 3 of 3 pairs."
    assert found.warnings[0] == shown.warnings[0] == said


def test_verdicts():
    values = table()
    several = bayesian_t(values, 0.01)
    assert several.verdict().startswith("of 3 pairs, with probability 0.95: ")
    shown = equivalence(values, 0.05).verdict()
    assert shown.startswith("shown to be equivalent within 0.05: ")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bayesian_t(table(), -0.1), "`rope` must be zero or positive"),
        (lambda: bayesian_t(table(), 0.1, credible_level=0.4), "`credible_level` must be at least"),
        (lambda: bayesian_t(gaps_of(9), 0.1), "two rows that both methods"),
        (lambda: bayesian_t(table(), 0.1, ratio=-1), "`ratio`"),
        (lambda: equivalence(gaps_of(9), 0.05), "two rows that both methods of a pair have"),
        (lambda: equivalence(table(), 0), "`rope` must be positive"),
        (lambda: required_size(1.0, power=1), "`power` must lie"),
        (lambda: paired_power(1.0, 1), "`n` must be at least 2"),
        (lambda: power_curve([0.1, np.nan]), "at least two values, got 1"),
        (lambda: compare(study_of(3, 6), rope=-1.0), "`rope` must be zero or positive"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


#: What of equivalence does not depend on the number of pairs.
ALONE = ("method_a", "method_b", "n", "mean_difference", "low", "high", "pvalue")


@pytest.mark.parametrize(
    "test",
    [lambda x: bayesian_t(x, 0.01).table, lambda x: equivalence(x, 0.05).table[[*ALONE]]],
    ids=["bayesian t", "equivalence"],
)
def test_a_pair_goes_by_the_rows_that_both_have(test):
    values = table(n=9)
    found, whole = test(gaps_of(3, 9)), test(values)
    assert found["n"].tolist() == [6, 6, 9]
    pd.testing.assert_frame_equal(found.iloc[:1], test(values.iloc[3:, :2]))
    pd.testing.assert_series_equal(found.iloc[2], whole.iloc[2])


def test_as_many_pairs_are_called_different_by_chance_as_is_said():
    null = [bayesian_t(np.random.default_rng(k).normal(size=(12, 6)), 0.0) for k in range(40)]
    called = np.mean([(one.table["decision"] != "undecided").sum() for one in null])
    assert np.mean([one.by_chance for one in null]) == pytest.approx(called, rel=0.3)


def test_equivalence_with_shared_training_data_is_more_careful():
    values = table(12)
    plain, corrected = (equivalence(values, 0.05, ratio=ratio).table for ratio in (None, 1 / 9))
    assert (corrected["high"] - corrected["low"] > plain["high"] - plain["low"]).all()
    assert ((corrected["pvalue"] > plain["pvalue"]) | (plain["pvalue"] > 0.5)).all()


@given(st.floats(0.02, 8), st.floats(0.2, 0.99))
def test_the_size_is_the_least_that_has_the_power(effect, power):
    n = required_size(effect, power=power).item()
    assert paired_power(effect, n) >= power
    assert n == 2 or paired_power(effect, n - 1) < power


def test_sizes_of_textbook_and_of_impossible_effects():
    # Cohen 1988: 196.2, 31.4, 12.3 by the normal, plus t's part
    assert required_size([0.2, 0.5, 0.8]).tolist() == [199, 34, 15]
    assert required_size([0.0, np.inf]).tolist() == [np.inf, 2]


def test_the_power_is_that_of_max_t():
    rng = np.random.default_rng(0)
    level = level_of_a_pair(pd.DataFrame(rng.normal(size=(400, 5))))
    assert 0.05 / 10 < level < 0.05
    found = []
    for _ in range(120):
        x = rng.normal(size=(20, 5))
        x[:, 0] += 0.8 * np.sqrt(2)
        found.append(max_t(pd.DataFrame(x), n_resamples=299).table["significant"][0])
    assert np.mean(found) == pytest.approx(float(paired_power(0.8, 20, alpha=level)), abs=0.12)


def test_a_curve_rises_to_what_it_takes_and_its_interval_holds_it():
    d = np.random.default_rng(0).normal(0.03, 0.04, 15)
    found = power_curve(d, ("x", "y"), level=0.01)
    assert (found.curve["power"].diff()[1:] >= 0).all()
    assert found.needed_low <= found.needed <= found.needed_high
    assert found.needed == np.ceil(found.needed)
    assert float(paired_power(found.effect, found.needed, alpha=0.01)) >= 0.8
    turned = power_curve(-d, ("x", "y"), level=0.01)
    assert (turned.method_a, turned.needed) == ("y", found.needed)
    assert power_curve(d, level=0.01, seed=0).curve.equals(found.curve)
    assert "would take more than 1,000 datasets" in power_curve([1.0, -1.0, 2.0, -2.0]).sentence()


def test_reports_say_it_in_words(four):
    page, record = four.report().to_html(), json.loads(four.report().render("json"))["beyond"]
    told = plain(" ".join(record["sentences"]))
    assert told.startswith("Differences of f1 up to 0.01 count as too small to matter.")
    assert "by step-down max-T with a chance of 80%" in told
    assert (four.beyond.curve.n, record["curve"]["needed"]) == (10, four.beyond.curve.needed)
    assert record["rope"] == 0.01 and len(record["bayes"]["table"]) == 6
    assert "Beyond p-values" in document(four, {}, "pairs").to_text()
    nothing = compare(study_of(3, 4))
    assert nothing.beyond is None and nothing.report().to_dict()["beyond"] is None
    assert 'id="beyond"' in page and 'id="beyond"' not in nothing.report().to_html()


@pytest.fixture(scope="module")
def four():
    return compare(study_of(4, 10, gap=0.02), on="f1", rope=0.01)


def test_over_datasets_the_parts_are_those_of_their_functions(four):
    found = four.beyond
    expected = bayesian_t(four.table[four.order], 0.01)
    pd.testing.assert_frame_equal(found.bayes.table, expected.table)
    said = plain(" ".join(sentences(four)))
    assert f"different by more than 0.01 ({expected.by_chance:.1f} expected by chance)" in said
    assert found.absent == {}


def test_below_ten_datasets_one_line_says_why_there_are_no_probabilities():
    c = compare(study_of(3, 9, gap=0.05), on="f1", rope=0.01)
    assert c.beyond.bayes is None and c.beyond.pair_table(c.order) is None
    assert c.report().to_dict()["beyond"]["bayes"] is None
    why = "9 datasets: it takes at least 10"
    told = [text for text in map(plain, sentences(c)) if "Probabilities" in text]
    assert told == [f"Not computed: Probabilities ({why})."]


def test_with_a_rope_of_zero_nothing_is_equivalent():
    found = compare(study_of(3, 10), rope=0.0).beyond
    assert found.equivalence is None
    assert "rope" in found.absent["equivalence"]
    assert found.bayes is not None


def test_one_dataset_says_what_is_absent():
    known = {"split_digest": "x", "n_train": 90, "n_test": 10}
    c = compare(fold_study({"a": (0.0, 0.0), "b": (0.1, 0.1)}, **known), rope=0.01)
    said = plain(" ".join(sentences(c)))
    assert "1 dataset: it takes at least two" in said


def test_of_very_many_methods_only_the_best_are_compared_pair_by_pair():
    c = compare(study_of(MOST + 5, 8, gap=0.01), rope=0.01)
    assert c.beyond.methods == c.order[:MOST]


def test_the_table_puts_the_better_method_first_and_keeps_probabilities_with_their_methods(four):
    table = beyond_pairs(four.beyond, four.order[::-1], "f1")
    cells = [column.cells for column in table.columns]
    by_pair = {frozenset(row[:2]): row for row in zip(*cells, strict=True)}
    for row in four.beyond.bayes.table.itertuples():
        pair = frozenset((row.method_a, row.method_b))
        a, b, decided, first, _, second, difference, *_ = by_pair[pair]
        assert (a, b) == (row.method_b, row.method_a)
        assert difference.startswith("−") == (row.mean_difference > 0)
        assert (decided == "second") == (row.decision == "a")
        assert (first, second) == (probability_said(row.p_b), probability_said(row.p_a))
