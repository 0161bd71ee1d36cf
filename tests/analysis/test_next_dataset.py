"""What folds or repeats of several datasets say about the next one."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report_cases import fold_study, render, study_of

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.hierarchical_t import next_dataset
from mlflow_mleval.study import Study

DATASETS = ("birds", "flags", "scene", "yeast")
KNOWN = {"split_digest": "abc", "n_train": 90, "n_test": 10}
ALIKE, BETTER = (0.0, 0.0), (0.06, 0.06)


def folds_of(*methods, datasets=DATASETS, **options):
    """A study by folds, in which LP is better than all others."""
    shifts = {m: BETTER if m == "LP" else ALIKE for m in methods}
    return fold_study(shifts, datasets=datasets, **KNOWN, **options)


@pytest.fixture(scope="module")
def found():
    return compare(folds_of("BR", "CC", "LP"), next_dataset=True)


@pytest.mark.thorough
def test_the_better_method_is_better_on_the_next_dataset_and_equal_ones_are_not(found):
    told = found.next_dataset
    assert told.over == "folds" and told.rho == dict.fromkeys(DATASETS, pytest.approx(0.1))
    for measure in ("precision", "recall"):
        assert told.pair(measure, "LP", "BR").p_better > 0.9
        assert told.pair(measure, "BR", "LP").p_worse > 0.9
        assert told.pair(measure, "BR", "CC").p_equivalent > 0.4
        rows = told.by_dataset(measure, "LP", "BR")
        assert list(rows.index) == list(DATASETS) and (rows["shrunken"].std() < rows["mean"].std())
        expected = -rows["mean"].to_numpy()
        assert told.by_dataset(measure, "BR", "LP")["mean"].to_numpy() == pytest.approx(expected)


def test_the_report_says_it_in_every_format(found):
    sentence = "On the next dataset LP would be better than"
    page, record = render(found, "html"), found.report().to_dict()["next_dataset"]
    assert sentence in render(found, "latex") and sentence in render(found, "md", "pairs")
    (text, *_) = record["sentences"]
    assert all(word in text for word in ("better than", "within 0.01 (1% of its range)", "worse"))
    assert 'id="next_dataset"' in page
    assert record["ropes"] == {"precision": 0.01, "recall": 0.01}
    assert record["ropes_from"]["recall"] == "1% of its range"
    assert {"p_better", "share_better", "freedom"} <= set(record["pairs"]["recall"]["table"][0])
    assert len(found.report().frames()["next_dataset_shrunken"]) == 2 * 3 * 4
    assert "Corani" in page


def test_a_ranking_and_studies_on_one_dataset_have_none(found):
    asked = {"next_dataset": True}
    assert compare(found.study).report().to_dict()["next_dataset"] is None
    assert compare(found.study.select(datasets=["birds"]), **asked).next_dataset is None
    assert "next_dataset" not in render(found, "html", "ranking")


def test_the_rope_is_a_share_of_the_range_or_in_units_of_the_measure_that_is_tested():
    study = folds_of("BR", "LP", datasets=DATASETS[:2], measures=("matthews", "latency"))
    told = next_dataset(study, study.measures, ["BR", "LP"])
    assert told.ropes["matthews"] == pytest.approx(0.02)  # from -1 to 1
    assert told.ropes["latency"] == pytest.approx(0.006, rel=0.1)
    assert "no bounds" in told.ropes_from["latency"]
    given = next_dataset(study, ["matthews"], ["BR", "LP"], rope=0.3, in_units=True).ropes
    assert given == {"matthews": 0.3}


@pytest.mark.parametrize(("rare", "tells"), [(-0.08, False), (0.005, True)])
def test_it_cannot_tell_where_differences_are_far_from_a_t_distribution(rare, tells):
    """85% of 40 datasets gain .005, and 15% lose .08: it said better .26, alike .42, worse .32."""
    rng = np.random.default_rng(0)
    names, runs = [f"d{k}" for k in range(40)], range(5)
    index = pd.MultiIndex.from_product([names, ["a", "b"], runs], names=["dataset", "method", "r"])
    gain = np.repeat(np.where(np.arange(40) < 34, 0.005, rare), 5)
    values = 0.6 + rng.normal(0, 0.003, len(index))
    values[index.get_level_values(1) == "a"] += gain
    repeats = pd.DataFrame({"f1": values}, index)
    study = Study(repeats.groupby(level=[0, 1]).mean(), {"f1": "max"}, repeats=repeats)
    found = compare(study, next_dataset=True)
    row = found.next_dataset.pair("f1", "a", "b")
    text = render(found, "md")
    assert np.isfinite(row.p_better) == tells == ("this cannot tell" not in text)
    assert np.isfinite(row.low) == tells
    assert tells or any("far from the t" in doubt for doubt in found.next_dataset.doubts)
    assert (text.count("far from the t"), "P first" in text) == (int(not tells), tells)


def test_without_folds_and_repeats_it_says_what_it_takes():
    study = study_of(2, 8)
    assert "It takes folds or repeats" in render(compare(study, next_dataset=True), "html")
    assert "On the next dataset" not in render(compare(study), "html")


def test_what_is_left_out_is_told():
    study = folds_of("BR", "LP", "CC")
    runs = study.runs.copy()
    runs.loc[(runs["dataset"] == "birds") & (runs["method"] == "CC"), "split_digest"] = "other"
    folds = study.folds.drop(index="yeast")
    told = next_dataset(replace(study, runs=runs, folds=folds), ["recall"], ["LP", "BR", "CC"])
    assert any("On birds, CC had another split" in text for text in told.doubts)
    assert "yeast is left out: no run on it has folds" in told.doubts
    assert told.pairs["recall"].table["n"].tolist() == [3, 2, 2]


def test_repeats_are_independent_and_make_as_many_differences_as_there_are():
    rng = np.random.default_rng(0)
    names = ["dataset", "method", "repeat"]
    index = pd.MultiIndex.from_product([DATASETS, ["BR", "LP"], range(4)], names=names)
    better = 0.05 * (index.get_level_values(1) == "LP")
    repeats = pd.DataFrame({"f1": rng.normal(0.6, 0.01, len(index)) + better}, index)
    repeats = repeats.drop(index=("birds", "LP", 3))
    study = Study(repeats.groupby(level=[0, 1]).mean(), {"f1": "max"}, repeats=repeats)
    told = next_dataset(study, ["f1"], ["LP", "BR"])
    assert told.over == "repeats" and set(told.rho.values()) == {0.0}
    assert told.by_dataset("f1", "LP", "BR")["n"].tolist() == [3, 4, 4, 4]
    assert told.pair("f1", "LP", "BR").p_better > 0.8


def test_a_method_that_lacks_a_fold_is_compared_on_the_others():
    study = folds_of("BR", "LP", "CC", datasets=DATASETS[:2])
    less = replace(study, folds=study.folds.drop(("birds", "CC", 3)))
    told = next_dataset(less, ["recall"], ["LP", "BR", "CC"])
    assert told.by_dataset("recall", "LP", "CC")["n"].tolist() == [9, 10]
    assert told.rho == dict.fromkeys(DATASETS[:2], pytest.approx(0.1))
    gap = study.folds["recall"].loc["birds", "LP"] - study.folds["recall"].loc["birds", "CC"]
    expected = gap.drop(3).mean()
    assert told.by_dataset("recall", "LP", "CC")["mean"].iloc[0] == pytest.approx(expected)
    assert told.by_dataset("recall", "LP", "BR")["n"].tolist() == [10, 10]
    assert any("CC has 9 of the 10 folds" in text for text in told.doubts)
