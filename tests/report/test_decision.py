"""The answer above everything: whom to use, by how much, how sure, and what could turn it."""

import re

import pandas as pd
import pytest
from report_cases import nasty, published, published_study, render, study_of

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.recommendation import decision
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.decision import sentences
from mlflow_mleval.study import Study

CLEAR = {"stability": True, "n_resamples": 20}


def said(comparison):
    return [plain(sentence.text) for sentence in sentences(comparison)]


def test_the_published_study():
    found = published(stability=True)
    assert said(found) == [
        "Try RF-PCT first. Against BR, the next, it is 0.053 better in subset_accuracy and 0.048 "
        "worse in micro_recall, on average over the 10 datasets that both finished.",
        "It is separated from 1 of 11 others; the best is one of 11. HOMER leads if "
        "micro_recall weighs 0.21 in place of 0.063.",
    ]
    answer = decision(found)
    finished = published_study().values["subset_accuracy"].unstack()[["RF-PCT", "BR"]].dropna()
    assert answer.differences["subset_accuracy"] == pytest.approx(
        ((finished["RF-PCT"] - finished["BR"]).mean(), 10)
    )
    assert answer.turns["kind"] == "weight" and answer.best == [
        m for m in found.order if m != "PCT"
    ]
    assert "12 of 132 results are missing, which may matter." in said(published())[1]


@pytest.mark.parametrize("form", ["table", "md", "latex", "html", "json"])
def test_it_stands_above_everything_and_without_words_of_statistics(form):
    text = re.sub(
        r"<style>.*?</style>|<head>.*?</head>|<[^>]*>", "", render(published(), form), flags=re.S
    )
    assert text.index("Try RF-PCT first.") < text.index("leads the fused ranking")
    assert not re.search("V-shape|entropy|Λ", " ".join(said(published(stability=True))))


def test_how_sure_it_is():
    sure = compare(study_of(4, 8, gap=0.1), **CLEAR)
    assert said(sure) == [
        "Use m0. Against m1, the next, it is 0.1 better in f1 and 0.1 better in hamming_loss, on "
        "average.",
        "It is separated from all 3 others. Nothing that was tried puts another method first.",
    ]
    assert said(compare(study_of(2, 8, gap=0.1))) == [
        "Use m0. It is 0.098 better in f1 and 0.099 better in hamming_loss, on average.",
        "The two are separated. The ranking only counts which measures each wins, not by how much.",
    ]
    unsure = said(compare(study_of(2, 5, gap=0.001)))
    assert unsure[0].startswith("m1 is ahead of m0, but the difference is not certain. It is ")
    assert unsure[1] == "The ranking only counts which measures each wins, not by how much."
    assert (
        said(compare(study_of(3, 1)))[1]
        == "One dataset cannot say whether it would be so on others."
    )
    assert (
        said(compare(study_of(4, 9, seed=1)))[0]
        .split(".")[0]
        .endswith("is ahead, but no difference from it is certain")
    )
    against = said(compare(study_of(4, 9, gap=0.1), control="m3"))[1]
    assert against.startswith("Only m3 was compared with all others, and m0 is separated from it.")


def test_methods_that_tie():
    frame = pd.DataFrame(
        [
            {"dataset": d, "method": m, "f1": x}
            for d in "de"
            for m, x in (("a", 0.5), ("b", 0.5), ("c", 0.25))
        ]
    )
    assert said(compare(Study.from_frame(frame)))[0] == (
        "a and b tie for the first place. Against c, the next, a is 0.25 better in f1, on average."
    )
    assert (
        said(compare(Study.from_frame(frame[frame["method"] != "c"])))[0]
        == "a and b come out alike."
    )


def test_equal_weights_turn_it_where_the_others_are_not_examined():
    rows = []
    for d in range(7):
        for m, f1, recall in (
            ("special", 0.9, 0.1),
            ("plain", 0.5, 0.5),
            ("other", 0.45, 0.45 + d / 100),
            ("last", 0.4, 0.4),
        ):
            rows.append(
                {
                    "dataset": f"d{d}",
                    "method": m,
                    "f1": f1,
                    "recall": recall,
                    "precision": 0.5 + recall / 9,
                }
            )
    found = compare(Study.from_frame(pd.DataFrame(rows)), weights="entropy")
    equal = compare(found.study, weights="equal")
    if found.leaders != equal.leaders:
        assert (
            decision(found).turns["kind"] == "weights"
            and "With all measures weighed alike, " in said(found)[1]
        )
    assert not any("Weights by entropy" in text for text in equal.doubts)


def test_hostile_names_stay_text():
    assert "\x1b" not in " ".join(said(nasty()))
