"""Is A better than B? The verdict on a pair is that of the tests which the comparison holds."""

import numpy as np
import pandas as pd
import pytest
from report_cases import published, published_study

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.pairs_by_unit import compare_all_repeats
from mlflow_mleval.analysis.recommendation import CLOSE, NO, YES, Verdict, question
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.decision import needed
from mlflow_mleval.report.content.decision import question_data as data
from mlflow_mleval.report.content.decision import question_sentence as sentence
from mlflow_mleval.study import Study


def rows(methods, datasets="abcdefgh", seeds=(0,), noise=0.01):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {"dataset": d, "method": m, "auc": mean + rng.normal(0, noise)}
        for d in datasets
        for m, mean in methods.items()
        for _ in seeds
    )


def repeated_rows(methods, dataset="a", seeds=6):
    frame = rows(methods, [dataset], range(seeds))
    return frame.assign(repeat=frame.groupby("method").cumcount())


def repeated(frame):
    """The study of these repeats."""
    repeats = frame.set_index(["dataset", "method", "repeat"])[["auc"]]
    return Study(repeats.groupby(level=[0, 1]).mean(), {"auc": "max"}, repeats=repeats)


def told(found, *pair):
    return plain(sentence(found, question(found, *pair)).text)


@pytest.mark.parametrize("on", ["fused", "auc"])
def test_over_datasets_it_says_what_the_deciding_test_says(on):
    frame = rows({"x": 0.95, "y": 0.94, "z": 0.7})
    frame["f1"] = frame["auc"] / 2
    found = compare(Study.from_frame(frame), on=on)
    for a in "xyz":
        for b in {*"xyz"} - {a}:
            verdict = question(found, a, b).verdict
            asked = YES if (a, b) in found.separated else NO if (b, a) in found.separated else CLOSE
            row = verdict.main
            assert (verdict.unit, verdict.word()) == ("datasets", asked)
            assert row["separated"] == (not row["low"] < 0 < row["high"])
            mirrored = question(found, b, a).verdict.main
            assert row["low"] == pytest.approx(-mirrored["high"])
    assert question(found).a == found.leader and question(found, b="x").b == "x"
    own = compare(Study.from_frame(frame), on="auc")
    asked, means = question(own, "x", "z"), own.table.mean()
    assert asked.measures.loc["auc", "difference"] == pytest.approx(means["x"] - means["z"])
    assert (asked.verdict.main["measure"], asked.verdict.word()) == ("fused", YES)


def test_one_dataset_trained_again_says_what_compare_over_repeats_says():
    close = compare(repeated(repeated_rows({"x": 0.946, "y": 0.944}, seeds=5)))
    verdict = question(close).verdict
    (tests,) = compare_all_repeats(close.study, {}).values()
    assert (verdict.unit, verdict.word()) == ("repeats", CLOSE)
    assert verdict.of == "this data trained again"
    row, expected = verdict.main, tests.pairs.iloc[0]
    assert abs(row["difference"]) == pytest.approx(abs(expected["difference"]))
    assert row["high"] - row["low"] == pytest.approx(expected["high"] - expected["low"])
    text = told(close)
    assert "φ" not in text and "net flow" not in text and "TOO CLOSE" in text
    assert "5 runs of each" in text
    assert "more runs of each, with other seeds, if the diff" in needed(close, verdict)


def test_what_does_not_decide_gives_no_verdict():
    """A on one of eight datasets is certainly better; datasets decide, and cannot say so."""
    frame = pd.concat(
        repeated_rows({"A": 0.9 if d == "a" else 0.8, "B": 0.8}, d, seeds=5) for d in "abcdefgh"
    )
    study = repeated(frame)
    assert compare_all_repeats(study, {})["a"].separated
    record = data(question(compare(study), "A", "B"))["question"]
    assert (record["over"], record["verdict"]) == ("datasets", CLOSE)
    assert {*record["rows"]["dataset"]} == {""} and not record["rows"]["separated"].any()
    few = repeated(frame.query("repeat < 2 and dataset in ('a', 'b')"))
    assert compare_all_repeats(few, {}) and compare(few).decides_over == ""
    assert question(compare(few), "A", "B").verdict.of == ""


def test_where_the_mean_is_against_the_test_the_verdict_says_so():
    frame = rows({"x": 0.92, "y": 0.9}, "abcdefghij", noise=0.001)
    frame.loc[(frame["dataset"] == "a") & (frame["method"] == "x"), "auc"] = 0.1
    found = compare(Study.from_frame(frame), on="auc")
    asked = question(found, "x", "y")
    assert asked.verdict.word() == YES and asked.measures.loc["auc", "difference"] < 0
    text = told(found, "x", "y")
    assert "as the test compares them" in text and "but y by its mean (0.06" in text


def test_where_the_step_down_separates_an_interval_that_ends_at_zero_is_no_doubt():
    found = published()
    apart = [question(found, a, b).verdict for a, b in found.separated]
    assert {one.word() for one in apart} == {YES}
    assert any(one.main["low"] == 0 for one in apart)
    assert question(found, *found.separated[0][::-1]).verdict.word() == NO


def test_crossing_is_told_before_the_average():
    frame = pd.concat(
        repeated_rows({"A": 0.85 if web else 0.8, "B": 0.8 if web else 0.85}, name)
        for name, web in (("web", True), ("phone", False))
    )
    assert told(compare(repeated(frame)), "A", "B") == (
        "Is A better than B? TOO CLOSE: it depends. Certainly better are A on web and B on phone. "
        "For these two datasets trained again, 6 runs of each method on each."
    )


def test_a_certain_average_names_the_datasets_that_are_certainly_against_it():
    frame = pd.concat(
        repeated_rows({"A": 0.8 if d == "d" else 0.85, "B": 0.85 if d == "d" else 0.8}, d)
        for d in "abcd"
    )
    text = told(compare(repeated(frame)), "A", "B")
    assert text.startswith("Is A better than B? YES: A is better on average (net flow 0.")
    assert "), but certainly worse on d. For these four datasets" in text


def test_a_filled_gap_is_no_run():
    frame = pd.concat(repeated_rows({"A": 0.85, "B": 0.8, "C": 0.7}, d) for d in ("web", "phone"))
    frame = frame[(frame["method"] != "B") | (frame["dataset"] != "phone")]
    found = compare(repeated(frame).complete("worst"))
    assert "up to 6 runs of each" in told(found, "A", "C")


def test_where_a_gap_turns_the_order_it_says_on_which_datasets():
    """HOMER lacks one dataset, whose worst values it has in the ranking alone."""
    study = published_study()
    weights = dict.fromkeys(study.measures, 1.0) | {"micro_recall": 3.0}
    found = compare(fuse(study, weights=weights))
    assert found.order[:2] == ["RF-PCT", "HOMER"]
    assert "HOMER is ahead on the 10 datasets that both have (net flow" in told(found)


def test_single_runs_do_not_exclude_chance():
    found = compare(Study.from_frame(rows({"x": 0.95, "y": 0.94}, "a")))
    text = told(found)
    assert "TOO CLOSE" in text and text.endswith("One run each: chance is not excluded.")
    assert needed(found, question(found).verdict) == "5 more runs of each, with other seeds."
    once = repeated_rows({"x": 0.95, "y": 0.94}, seeds=2).drop(3)  # y once
    few = compare(repeated(once))
    assert told(few).endswith("Too few runs of each to exclude chance.")
    assert needed(few, question(few).verdict) == "5 more runs of each, with other seeds."
    several = compare(Study.from_frame(rows({"x": 0.95, "y": 0.94}, "abc")))
    assert "Three datasets cannot tell" in told(several)
    assert needed(several, question(several).verdict).startswith("3 more datasets, or three runs")


def verdict_of(*limits, dataset=""):
    table = [
        {"measure": f"m{i}", "dataset": dataset, "low": low, "high": high}
        | {"difference": (low + high) / 2, "separated": low > 0 or high < 0, "n": 9}
        for i, (low, high) in enumerate(limits)
    ]
    return Verdict("answers", pd.DataFrame(table), 0.05)


@pytest.mark.parametrize(
    ("limits", "margin", "word"),
    [
        ([(0.01, 0.03)], 0, YES),
        ([(0.01, 0.03)], 0.02, CLOSE),
        ([(0.01, 0.03)], 0.03, NO),
        ([(-0.03, -0.01)], 0, NO),
        ([(-0.01, 0.01)], 0, CLOSE),
        ([(-0.01, 0.01)], 0.01, NO),
        ([(0.01, 0.03), (-0.01, 0.01)], 0, YES),
        ([(0.01, 0.03), (-0.03, -0.01)], 0, CLOSE),
        ([(-0.03, -0.01), (-0.01, 0.01)], 0, NO),
    ],
)
def test_a_margin_moves_the_verdict(limits, margin, word):
    assert verdict_of(*limits).word(margin) == word


def test_methods_that_are_not_there_are_named():
    found = compare(Study.from_frame(rows({"x": 0.95, "y": 0.94})))
    for pair, offender in ((("x", "q"), "'q'"), (("x", "x"), "'x' is named twice")):
        with pytest.raises(ValueError, match=offender):
            question(found, *pair)
