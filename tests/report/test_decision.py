"""The answer above everything: whom to use, by how much, how sure, and what could turn it."""

import os
import re

import numpy as np
import pandas as pd
import pytest
from report_cases import published, published_study, render, study_of

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.recommendation import METHODS, decision, question
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.decision import sentences
from mlflow_mleval.study import Study


def said(comparison):
    """What is said after the question about the leader and the next."""
    question, *others = (plain(sentence.text) for sentence in sentences(comparison))
    assert question.startswith("Is ") and re.search(r"\? (YES|NO|TOO CLOSE): ", question)
    return others


def test_the_published_study():
    found = published(stability=True)
    assert said(found) == [
        "RF-PCT is ahead, but eleven of the twelve methods may be as good; PCT is clearly worse "
        "than RF-PCT.",
        "If micro_recall counted for 21% instead of 6%, HOMER would be ahead.",
    ]
    assert said(published(order="mean-rank"))[1] == (
        "If the datasets that some method did not finish were left out, BR would be ahead."
    )
    answer = decision(found)
    assert answer.evidence == "datasets" and answer.worse == ["PCT"]
    assert answer.best_set == found.best_set == [m for m in found.order if m != "PCT"]
    shown = found.order[:METHODS]
    table = published_study().values["subset_accuracy"].unstack()[shown].dropna()
    assert answer.n_datasets == len(table) == 9
    means = answer.means["subset_accuracy"]
    assert means.to_dict() == pytest.approx(table.mean().to_dict())


@pytest.mark.parametrize("form", ["table", "md", "latex", "html", "json"])
def test_it_stands_above_everything_and_without_words_of_statistics(form):
    text = re.sub(
        r"<style>.*?</style>|<head>.*?</head>|<[^>]*>", "", render(published(), form), flags=re.S
    )
    after = "12 of 132 results are missing"
    assert text.index("RF-PCT is ahead, but eleven") < text.index(after)


def test_how_sure_it_is():
    clear = compare(study_of(4, 8, gap=0.1), stability=20)
    assert said(clear) == ["Use m0."]  # by how much, the question says
    others = " ".join(plain(one.text) for one in sentences(clear, question(clear, "m2", "m3")))
    assert others.endswith("Use m0.")
    expected = ["The ranking only counts which measures each wins, not by how much."]
    assert said(compare(study_of(2, 8, gap=0.1))) == expected
    few = compare(study_of(4, 5))
    assert said(few) == []  # the question says that it is too close to call
    assert plain(sentences(few, question(few, "m2", "m3"))[1].text).endswith("too close to call.")
    assert "any of the four methods may be as good." in said(compare(study_of(4, 9, seed=1)))[0]


def test_methods_that_tie():
    rows = (("a", 0.5), ("b", 0.5), ("c", 0.25))
    expected = ["a and b are ahead; c is clearly worse than a."]
    assert said(compare(rows_of(7, lambda d: rows, 0))) == expected
    (level,) = (plain(one.text) for one in sentences(compare(rows_of(7, lambda d: rows[:2], 0))))
    assert level.startswith("Is a better than b? TOO CLOSE: they are level in f1.")


def rows_of(n, values, noise):
    """Methods with these values on each of n datasets, and some noise."""
    rng = np.random.default_rng(0)
    found = [(f"d{d}", m, x + rng.normal(0, noise)) for d in range(n) for m, x in values(d)]
    return Study.from_frame(pd.DataFrame(found, columns=["dataset", "method", "f1"]))


def test_two_leaders_that_are_equivalent_are_called_so():
    study = rows_of(20, lambda d: (("a", 0.8), ("b", 0.8), ("c", 0.7)), 0.001)
    found = compare(study, rope=0.01)
    assert decision(found).equivalent > 0.95
    assert re.fullmatch("[ab] and [ab] are equivalent, as far as it matters.", said(found)[0])


def test_means_decide_and_not_the_number_of_wins():
    most = (("a", 0.802), ("b", 0.8), ("c", 0.5))
    found = compare(rows_of(30, lambda d: most if d < 17 else (("a", 0.7), *most[1:]), 1e-4))
    assert found.ranks.mean().idxmin() == "a" and found.leader == "b"
    assert ("b", "a") in found.separated and said(found)[0] == "Use b."


def contradictions(found):
    """Separated pairs that the order, the leader, the best set or a sentence contradicts."""
    place = {method: i for i, method in enumerate(found.order)}
    below = {worse for _, worse in found.separated}
    wrong = [(a, b) for a, b in found.separated if place[a] > place[b]]
    if found.leader in below or below & {*found.best_set} or below & {*decision(found).ahead}:
        wrong.append((found.leader, "leader"))
    text = render(found, "md", "ranking").replace("\\", "")
    named = re.search(r"(?:Use (\S+):|(\S+) (?:is|are) ahead)", text)
    if named and (named[1] or named[2]) in below:
        wrong.append(("said", named[0]))
    return wrong


def test_no_page_names_a_method_that_a_separation_puts_below_another():
    rng, study = np.random.default_rng(0), published_study()
    for _ in range(int(os.environ.get("MLEVAL_SUBSTUDIES", "4"))):
        methods = rng.choice(study.methods, rng.integers(2, 13), replace=False)
        measures = rng.choice(study.measures, rng.integers(1, 17), replace=False)
        datasets = rng.choice(study.datasets, rng.integers(6, 12), replace=False)
        part = study.select(measures=sorted(measures), methods=sorted(methods))
        part = part.select(datasets=sorted(datasets))
        found = compare(part, alpha=float(rng.choice([0.05, 0.2])))
        assert contradictions(found) == []
        assert sum(len(text.split()) for text in said(found)) <= 45
