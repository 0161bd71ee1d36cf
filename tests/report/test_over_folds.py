"""What reports say about tests over folds: it agrees with the tests, in every format, whatever the
names are.
"""

import csv
import io
import json
import re

import numpy as np
import pytest
from drawings import NS, outside, parse
from fold_cases import fold_study, three_methods
from report_cases import NASTY, cells

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fold_comparison import compare_folds
from mlflow_mleval.report import FORMATS
from mlflow_mleval.report.blocks import glossary, plain
from mlflow_mleval.report.content.decision import verdict
from mlflow_mleval.report.content.units import (
    NOT_TRUSTED,
    document,
    fold_sentences,
    frames,
    means_table,
    pairs_table,
)
from mlflow_mleval.report.figures.lines import DETAILED, INSIDE, _ellipse, fold_scatter
from mlflow_mleval.report.text import terminal


def told(found) -> str:
    return plain(" ".join([found.verdict(), *fold_sentences(found)]))


def answered(c) -> str:
    return plain(" ".join(s.text for s in verdict(c)))


def test_sentences_and_pairs_by_mean_rank_say_which_measure_favours_whom():
    found = compare_folds(three_methods(), "birds")
    said = told(found)
    assert "separates 2 of 3 pairs on 10 folds and 2 measures together" in said
    assert "Tested on precision and recall (Holm" in said
    assert not any(word in said for word in ("uncorrected", "refused", "MANOVA", "Mardia"))
    table = pairs_table({"": found})
    assert [c.head for c in table.columns][2:4] == ["p (Holm)", "separated"]
    assert [text.split()[0] for text in cells(table, "separated")] == ["yes", "yes", "no"]
    place, heads = {m: i for i, m in enumerate(found.order)}, ("method", "against", "carried by")
    for a, b, carried in zip(*(cells(table, head) for head in heads), strict=True):
        assert place[a] < place[b]
        of_lp = {"−precision", "+recall"} if a == "LP" else {"+precision", "−recall"}
        assert {*carried.split()} == (of_lp if "LP" in (a, b) else set())


def test_a_combination_is_named_where_no_measure_carries_the_difference():
    study = fold_study({"a": (0.02, -0.02), "b": (0.0, 0.0)})
    shared = np.random.default_rng(1).normal(0, 0.1, 10)
    study.folds.iloc[:10] += shared[:, None]
    found = compare_folds(study, "birds", ["precision", "recall"])
    assert found.table["separated"].all()
    assert cells(pairs_table({"": found}), "carried by") == ["a combination"]


def test_measures_speak_only_of_pairs_that_all_of_them_together_separate():
    study = fold_study({"a": (0.0, 0.0), "b": (0.025, 0.0)})
    alone = compare_folds(study, "birds", ["precision"])
    found = compare_folds(study, "birds", ["precision", "recall"])
    assert found.orderings["precision"].pvalues.loc["a", "b"] <= 0.05
    assert alone.separated and not found.separated
    assert not found.posthoc["significant"].any()
    assert found.orderings["precision"].groups == [["b", "a"]]
    assert len(alone.orderings["precision"].groups) == 2


def test_intervals_stand_beside_every_mean():
    found = compare_folds(three_methods(), "birds")
    table = means_table({"": found})
    text = cells(table, "recall ↑")[cells(table, "method").index("LP")]
    shown = [float(x) for x in re.findall(r"[\d.]+", text)]
    row = found.means.loc[("LP", "recall")]
    assert shown == pytest.approx([row["mean"], row["low"], row["high"]], abs=5e-4)
    near = compare_folds(fold_study({"a": (0.395, 0.0), "b": (0.0, 0.0)}), "birds")
    assert near.means.loc[("a", "precision"), "high"] > 1  # which no precision is
    assert cells(means_table({"": near}), "precision ↑")[0].endswith(", 1.00]")


def test_verdicts_that_assumptions_do_not_carry_are_marked_on_their_rows():
    few = fold_study({"a": (0.0, 0.0), "b": (0.1, 0.0)}, n_folds=4)
    found = compare_folds(few, "birds", ["precision", "recall"])
    assert not found.table["doubt"].eq("").any()
    marked = cells(pairs_table({"": found}), "separated")
    assert all(text.endswith(NOT_TRUSTED) for text in marked)
    fine = compare_folds(three_methods(), "birds")
    assert NOT_TRUSTED not in "".join(cells(pairs_table({"": fine}), "separated"))


def test_repeated_cross_validation_says_that_the_uncorrected_test_was_refused():
    known = {"n_train": 90, "n_test": 10, "split_digest": "x"}
    study = fold_study({"a": (0.0, 0.0), "b": (0.1, 0.0)}, n_folds=30, **known)
    found = compare_folds(study, "birds", ["precision", "recall"])
    assert "The uncorrected test was refused" in told(found)
    assert "uncorrected" not in [c.head for c in pairs_table({"": found}).columns]


def test_a_comparison_holds_the_folds_of_every_dataset_and_why_others_have_none():
    study = three_methods()
    assert list(compare(study).folds) == ["birds", "flags"]
    lost = study.folds.drop(index=[("flags", "BR"), ("flags", "CC")])
    c = compare(type(study)(study.values, study.directions, folds=lost, runs=study.runs))
    assert list(c.folds) == ["birds"] and "two methods" in c.absent["folds.flags"]
    assert compare(type(study)(study.values, study.directions)).folds == {}


def test_options_reach_the_tests_over_folds():
    c = compare(three_methods(), over_folds={"measures": ["recall"], "protocol": "independent"})
    found = c.folds["birds"]
    assert found.measures == ["recall"] and found.protocol.ratio is None
    assert "Student's t" in told(found) and "tells the methods apart best" not in told(found)


def test_the_verdict_says_what_the_folds_say():
    several = answered(compare(three_methods()))
    assert "Tests over the folds of 2 datasets, α = .05: none of 3 pairs is separated." in several
    known = {"split_digest": "abc", "n_train": 90, "n_test": 10}
    shown = answered(compare(fold_study({"BR": (0.0, 0.0), "LP": (0.06, 0.06)}, **known)))
    assert "by precision and recall together, LP is separated from BR." in shown
    few = fold_study({"a": (0.0, 0.0), "b": (0.1, 0.1)}, n_folds=4)
    doubtful = compare(few, over_folds={"measures": ["precision", "recall"]})
    assert "(in doubt: see the tests by fold)." in answered(doubtful)


def test_json_holds_what_the_tests_hold():
    c = compare(three_methods())
    record, found = json.loads(c.report().render("json"))["folds"]["birds"], c.folds["birds"]
    expected = found.table["pvalue"].tolist()
    assert [row["pvalue"] for row in record["table"]] == pytest.approx(expected)
    assert record["manova"]["pvalue"] == pytest.approx(found.manova.pvalue)
    assert record["protocol"]["ratio"] == pytest.approx(1 / 9)
    assert record["cliques"] == found.cliques
    assert record["sentences"] == [*map(plain, fold_sentences(found))]


def test_where_datasets_decide_nothing_by_fold_says_that_methods_differ():
    shifts = {"BR": (0.0, 0.0), "LP": (0.06, 0.06)}
    c = compare(fold_study(shifts, datasets=tuple(f"d{k}" for k in range(6))))
    assert c.decides_over == "datasets" and c.folds["d0"].table["separated"].any()
    record = json.loads(c.report().render("json"))["folds"]["d0"]
    assert "pvalue" in record["table"][0] and record["orderings"]["precision"]["order"]
    marks = {"separated", "significant", "better", "verdict", "decides", "cliques", "letters"}
    for held in (record, *record["table"], *record["posthoc"], *record["orderings"].values()):
        assert marks.isdisjoint(held)
    for frame in frames(c, "folds").values():
        assert marks.isdisjoint(frame.columns)


def test_every_table_has_a_file_with_all_rows():
    c = compare(three_methods())
    files, tables = c.report().files(), frames(c, "folds")
    assert {f"{name}.csv" for name in tables} <= set(files)
    for name, frame in tables.items():
        rows = list(csv.reader(io.StringIO(files[f"{name}.csv"])))
        assert glossary("files")[f"{name}.csv"].split(", ") == rows[0] == list(frame.columns)
        assert len(rows) == len(frame) + 1
    assert len(tables["fold_values"]) == 2 * 3 * 10 * 2
    assert set(tables["fold_pairs"]["dataset"]) == {"birds", "flags"}


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_tells_the_same_pairs(format):
    c = compare(three_methods())
    text = document(c.folds, {"time": "now"}, {"yeast": "no folds"}, ["a note"]).render(format)
    for name in ("birds", "LP") if format in ("text", "brief") else ("birds", "flags", "LP"):
        assert name in text
    if format == "table":
        assert max(map(len, text.split("\n"))) <= 100 and "yeast was not tested: no folds" in text
    if format == "json":
        assert json.loads(text)["absent"] == {"yeast": "no folds"}


def test_names_of_strangers_are_text():
    names = {name: (0.05 * i, 0.0) for i, name in enumerate(NASTY)}
    c = compare(fold_study(names, datasets=(NASTY[0], NASTY[1])))
    assert "<img" not in c.report().to_html()
    text = document(c.folds, {}).to_text()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert terminal(NASTY[0])[:10] in text


@pytest.mark.parametrize("n_methods", [2, 7, 40])
def test_figures_hold_their_names(n_methods):
    names = {f"method number {i}": (0.02 * i, -0.01 * i) for i in range(n_methods)}
    values = fold_study(names).folds.loc["birds"]
    scatter = parse(fold_scatter(values, [*names], ["precision ↑", "recall ↑"], "t"))
    assert outside(scatter) == []
    ellipses = [p for p in scatter.iter(f"{NS}path") if "A" in p.get("d")]
    assert len(ellipses) == min(n_methods, DETAILED)
    never = str(fold_scatter(values * 0 + 0.5, [*names], ["x", "y"], "t").__html__())
    assert "nan" not in never.lower()


def test_the_ellipse_holds_its_share_of_the_fitted_distribution():
    covariance = np.array([[90_000.0, 50_000.0], [50_000.0, 40_000.0]])
    radius = np.sqrt(-2 * np.log(1 - INSIDE))
    x, y, rest = re.match(r"M(\S+) (\S+)A(.*)", _ellipse((0, 0), radius, covariance)).groups()
    along = np.array([float(x), float(y)])
    long, short = np.array(rest.split()[:2], dtype=float)
    assert long * short == pytest.approx(radius**2 * np.sqrt(np.linalg.det(covariance)), rel=0.03)
    assert np.sqrt(along @ np.linalg.solve(covariance, along)) == pytest.approx(radius, rel=0.03)
    points = np.random.default_rng(0).multivariate_normal([0, 0], covariance, 20_000)
    distances = (points @ np.linalg.inv(covariance) * points).sum(axis=1)
    assert (distances <= radius**2).mean() == pytest.approx(INSIDE, abs=0.02)
