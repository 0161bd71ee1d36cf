"""The answer as a paragraph to paste, and as JSON below 2 kB, of results of any kind."""

import json

import numpy as np
import pandas as pd
import pytest
from report_cases import published, render, three_methods

from mlflow_mleval import Study
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fold_comparison import compare_all_folds
from mlflow_mleval.report.blocks import Section, Text
from mlflow_mleval.report.content.study_report import document
from mlflow_mleval.report.content.units import document as document_of_tests
from mlflow_mleval.report.data import MOST
from mlflow_mleval.report.document import Document

COMMAND = "mleval report -n study"


def large(m, named):
    """Methods whose names are long, on six datasets."""
    values = np.random.default_rng(0).normal(size=(6, m)) + np.arange(m)
    frame = pd.DataFrame(values, [f"d{i}" for i in range(6)], [named(i) for i in range(m)])
    long = frame.rename_axis("dataset").melt(ignore_index=False, var_name="method", value_name="x")
    return compare(Study.from_frame(long.reset_index(), maximize=["x"]))


@pytest.mark.parametrize("what", ["report", "ranking", "pairs"])
def test_a_paragraph_says_the_decision_the_most_certain_difference_and_where_it_is_from(what):
    c = published()
    made = document(c, {"command": COMMAND}, what)
    text = made.render("text")
    first, *_ = c.report().to_dict()["answer"]["sentences"]
    assert text.startswith(first["text"]) and text.endswith(f"({COMMAND})") and "\n" not in text
    (better, worse) = c.separated[0]
    assert f"Most certain is {better} over {worse}, by 0." in text and "] in net flow φ (p" in text
    assert document(c, {"address": "http://h/mleval/?x"}).render("text").endswith("/mleval/?x")


def test_the_same_as_json_is_below_two_kilobytes():
    c = published()
    text = document(c, {"command": COMMAND}, "ranking").render("brief")
    record = json.loads(text)
    assert len(text.encode()) < MOST == 2_000
    assert record["order"] == c.order[:10] and record["methods"] == len(c.order)
    certain, (better, worse) = record["most_certain"], c.separated[0]
    assert (certain["better"], certain["worse"], certain["separated"]) == (better, worse, True)
    assert certain["low"] < certain["difference"] < certain["high"] and certain["pvalue"] < 0.05
    assert record["n_best"] == len(c.order) - 1 and worse not in record["best_set"]
    assert record["doubts"] == len(c.doubts) and record["first_doubt"] == c.doubts[0]
    assert record["command"] == COMMAND


@pytest.mark.parametrize(
    ("m", "letter"), [(60, "m"), (60, "🧪"), pytest.param(500, "m", marks=pytest.mark.thorough)]
)
def test_so_it_is_of_many_methods_with_long_names(m, letter):
    c = large(m, lambda i: f"{i:03}" + 197 * letter)
    command = f"mleval rank --method {c.order[0]}"
    text = document(c, {"command": command}, "ranking").render("brief")
    record = json.loads(text)
    assert len(text.encode()) < MOST and record["command"] is None and record["methods"] == m
    assert record["order"][0].startswith(f"{m - 1:03}") and record["n_best"] >= 1


def test_tests_over_other_units_say_it_in_the_same_way():
    tests = compare_all_folds(three_methods(), {})
    made = document_of_tests(tests, {"command": "mleval compare --over folds"})
    record = json.loads(made.render("brief"))
    assert record["methods"] == 3 and record["most_certain"]["dataset"] in ("birds", "flags")
    assert record["most_certain"]["separated"] and record["order"] == []
    assert record["n_best"] == len(record["best_set"]) < 3
    text = made.render("text")
    assert text.startswith("Tests over folds: ") and text.endswith("(mleval compare --over folds)")


def test_where_nothing_differs_it_says_so():
    frame = pd.DataFrame(
        {"dataset": [*"ddee"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.4, 0.2]}
    )
    text = render(compare(Study.from_frame(frame)), "text", "pairs")
    assert "No difference is certain; nearest to it is" in text


def test_any_other_document_says_what_its_first_section_says():
    made = Document("A title", [Section("a", "A", [Text(["One\x1b.", "Two."])])])
    assert made.render("text") == "One␛. Two."
    assert json.loads(made.render("brief"))["decision"] == "One\x1b. Two."
    assert Document("A title", [Section("a", "A", [])]).render("text") == "A title."
