"""The report of one run: what it says is what was evaluated, in every form, whatever the labels are
called.
"""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from html_pages import Page
from run_report_cases import example, hierarchical, report_of

import mlflow_mleval as mleval
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.run import document

CURVES = ["Precision against recall", "ROC curves", "Reliability of the probabilities"]


def test_the_summary_says_what_the_evaluation_says():
    report = example()
    assumed = report_of(report.ev).doubts()  # how many rows each fold was trained on
    assert any("one 10-fold cross-validation" in text for text in assumed)
    page = Page(document(report).to_html())
    ev, means = report.ev, report.means
    text = page.section("verdict")
    f1, half = means["f1"], report.measures.loc["f1", "half"]
    interval = f"(95% interval {f1 - half:.4f} to {f1 + half:.4f})"
    assert f"f1 is {f1:.4g} {interval}" in text
    assert f"subset_accuracy {means['subset_accuracy']:.4g}" in text
    worst = ev.labels.sort_values(["f1", "support"], ascending=[True, False]).index[0]
    assert f"The labels with the lowest F1 are {worst} (" in text
    keys = ["verdict", "doubts", "measures", "labels", "profile", "folds", "provenance"]
    assert [key for key in page.sections if key] == keys
    without = sum(
        any((part.labels["support"] == 0)[label] for part in map(ev.fold, range(10)))
        for label in ev.label_names
    )
    lacking = f"Of the labels that occur in the data, {without} lack any instance in at least one"
    assert lacking in page.section("doubts")


def test_the_tables_hold_every_measure_and_count():
    report = example(never=True)
    page = Page(document(report).to_html())
    measures = page.section("measures")
    for m, row in report.measures.iterrows():
        shown = re.search(rf"(?<![a-z_]){m} [↑↓]\s*([\d.]+)", measures)
        assert shown and float(shown[1]) == pytest.approx(row["value"], abs=1e-3)
    labels = report.ev.labels
    text = page.section("labels")
    assert "Left out: 1 label without a true or predicted instance." in text
    for label, row in labels.iloc[1:].iterrows():
        counts = r"\s*".join(f"{row[c]:.0f}" for c in ("support", "tp", "fp", "fn", "tn"))
        assert re.search(rf"{label}\s*{counts}", text)
    assert "1 of 14 labels never occur in the truth" in page.section("doubts")
    assert report.labels["f1"].is_monotonic_increasing


def test_without_folds_without_scores_and_with_one_label():
    def of(*given, **options):
        return document(report_of(mleval.evaluate(*given, **options)))

    rng = np.random.default_rng(0)
    y = rng.random((40, 3)) < 0.5
    page = Page(of(y, y_pred=rng.random((40, 3)) < 0.5).to_html())
    assert "folds" not in page.sections and "no scores were given" in page.section("doubts")
    assert "0.5" not in page.section("")[:80] and "label sets as given" in page.text
    assert "profile" not in Page(of(y[:, :1], rng.random((40, 1))).to_html()).sections
    perfect = of(y, y.astype(float), folds=np.arange(40) % 2)
    assert "## Labels" in perfect.to_markdown()


def test_errors_are_shown_by_their_path_in_the_hierarchy():
    report = hierarchical()
    page = Page(document(report).to_html())
    text = page.section("hierarchy")
    assert "animal › cat" in text and "plant › rose" in text and "max distance" in text
    assert "h_f1 is" in page.section("verdict")
    assert "profile" not in page.sections


def test_curves_are_drawn_where_they_were_asked_for():
    report = example(measures="probabilistic")
    text = Page(document(report).to_html()).section("curves")
    assert "Thin: the labels with the lowest average precision." in text
    assert "one of 15 bins of labels by their probability: their mean, and the share that" in text
    areas = report.ev.labels.sort_values("average_precision")
    for label, row in areas.iterrows():
        shown = f"{row['support']:.0f}", f"{row['average_precision']:.3f}", f"{row['auroc']:.3f}"
        assert re.search(r"\s*".join([f"{label}", *shown]), text)
    svg = document(report).figures()["ROC curves"]
    named = [n for n in areas.index if f">{n}</text>" in svg and f"<title>{n}<" in svg]
    assert named == areas.index[:5].tolist() and f"{report.curves.whole['auroc']:.3f}" in svg
    assert "curves" not in Page(document(example()).to_html()).sections
    one = report_of(mleval.evaluate(["a", "b", "b"], [0.2, 0.9, 0.4]))
    drawn = document(one).figures()
    assert list(drawn) == CURVES and ">b</text>" in drawn["ROC curves"]
    assert "the share whose class is right" in Page(document(one).to_html()).section("curves")
    asked = report_of(mleval.evaluate([[1, 0]], [[0.9, 0.1]], measures="hmc")).doubts()
    told = map(plain, asked)
    assert "Not computed, for no `hierarchy` was given: violation_rate, f_max and s_min." in told


def test_drawings_stand_alone():
    figures = document(example(measures="ece_10")).figures()
    assert list(figures) == [*CURVES, "Loss profile"]
    for text in figures.values():
        root = ET.fromstring(text)
        assert root.tag.endswith("svg") and root.find("{*}title").text and root.find("{*}desc").text
        style = root.find("{*}style").text
        assert "--c0" in style and ".faccent" in style and "prefers-color-scheme:dark" in style
        assert "body" not in style


def test_an_evaluation_reports_itself():
    report = example()
    found = report.ev.report("BR", "yeast")
    whole = found.to_dict()
    assert whole["measures"] == report.means and whole["method"] == "BR"
    assert whole["folds"]["0"] == report.ev.fold(0).measures
    lines = found.to_markdown().splitlines()
    assert lines[0] == "# BR on yeast"
    assert "## Labels" in lines
    rows = [line for line in lines if line.startswith("| ") and ("↑" in line or "↓" in line)]
    assert len(rows) == len(report.ev.measures)
    assert all(line.count("|") == 6 for line in rows)
    assert "f1 is" in str(found)
    assert "# Evaluation" in report.ev.fold(0).report().to_markdown()
    assert r"\begin{table}" in found.to_latex()
    assert len(found.render("csv").splitlines()) == len(report.means) + 1
