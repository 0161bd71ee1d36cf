"""The verdict says what the results say: no more, in every design."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_cases import fold_study, nasty, published, published_study, study_of, whole

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.report.blocks import CLAIMS, DECIDES, Beside, Figure, Table, Text, listed, plain
from mlflow_mleval.report.content.decision import verdict
from mlflow_mleval.report.content.study_report import document
from mlflow_mleval.report.text import percent
from mlflow_mleval.study import Excluded, Study


def texts(comparison):
    return [plain(sentence.text) for sentence in verdict(comparison)]


def test_the_published_study_in_words():
    assert texts(published(stability=True)) == [
        "By mean net flow over 11 datasets (16 measures, V-shape preference, entropy weights), "
        "RF-PCT (0.209) is before BR (0.125).",
        "Step-down max-T, α = .05: 4 of 66 pairs are separated: RF-PCT, BR, HOMER and RFML-C4.5 "
        "from PCT.",
        "Were any one of the datasets scene, yeast and 5 more or the methods ML-C4.5, ML-kNN and 3 "
        "more left out, BR would not be separated from PCT.",
        "RF-PCT is ahead under all 13 other choices of function, weights or policy, in 83% of "
        "random weightings and without any one other method.",
        "The separation of BR from PCT, the least sure of 4, stays under 7 of 15 such choices and "
        "filters of measures.",
    ]
    assert texts(published()) == texts(published(stability=True))[:3]


GIVEN = {"f1": "usual", "hamming_loss": "level"}, {"f1": 2, "hamming_loss": 1}
#: A comparison, and what some sentence of its verdict says.
DESIGNS = [
    (lambda: published(test="nemenyi"), "1 of 66 pairs is separated: RF-PCT from PCT."),
    (lambda: published(test="wilcoxon"), "It takes 12 datasets or at most 10 methods."),
    (lambda: published(on="macro_f1"), "By mean macro_f1 over 11 datasets, HOMER (0.3321)"),
    (lambda: published(on="macro_f1", order="mean-rank"), "HOMER (3.68) is before CC (4.41)."),
    (lambda: published(control="BR"), "1 of 11 pairs with the control is separated: BR from PCT."),
    (lambda: published(control="PCT", test="bonferroni-dunn"), "Bonferroni–Dunn, critical"),
    (lambda: compare(study_of(3, 1), on="f1"), "By f1 on d0, m1 (0.5064) is before m0 (0.5013)."),
    (lambda: compare(study_of(2, 4)), "no p-value of a pair lies below .125. It takes 6,"),
    (lambda: compare(study_of(2, 4), test="wilcoxon"), "It takes 6 datasets."),
    (lambda: compare(study_of(3, 12, gap=0.1)), "separated: m0 from m1; m0 and m1 from m2."),
    (lambda: compare(study_of(6, 14, gap=0.1, seed=1)), "15 of 15 pairs are separated."),
    (lambda: compare(study_of(4, 11)), ": none of 6 pairs is separated."),
    (
        lambda: compare(fuse(study_of(3, 4), "gaussian", "equal")),
        "Gaussian preference, equal weights",
    ),
    (lambda: compare(fuse(study_of(3, 4), *GIVEN)), "functions by measure, given weights"),
]


@pytest.mark.parametrize(("made", "said"), DESIGNS, ids=[said for _, said in DESIGNS])
def test_the_verdict_on_other_designs(made, said):
    assert said in " ".join(texts(made()))


def test_one_dataset_has_values_and_no_test_no_fusion_and_no_random_weightings():
    found = compare(study_of(3, 1, gap=0.1), stability=50)
    (said,), report = texts(found), document(found, {})
    assert said.startswith("By net flow on d0 (2 measures, ")
    assert "stability" not in [section.key for section in report.sections]
    assert "PROMETHEE" not in report.about and "2 measures" in report.about


def test_one_crash_outweighs_no_twelve_datasets_and_units_do_not_matter():
    """On 13 datasets c is a little better than b, and b than a, but for one where c crashes."""
    gains = {"a": 0.0, "b": 0.01, "c": 0.02}
    rows = [(f"d{d}", m, 0.5 + d / 50 + gain) for d in range(13) for m, gain in gains.items()]
    frame = pd.DataFrame(rows, columns=["dataset", "method", "f1"])
    frame.loc[2, "f1"] = 0.1
    study = Study.from_frame(frame)
    found = compare(study)
    assert found.table["c"].mean() < found.table["a"].mean() < found.table["b"].mean()
    assert found.leader == "c" and ("c", "a") in found.separated
    told = "c by mean net flow and mean rank, b by plain mean"
    assert any(told in doubt for doubt in found.doubts)
    assert compare(study, order="mean-rank").leader == "c"
    wide = study.values.copy()
    wide.loc[("d3", slice(None)), "f1"] *= 1_000
    scaled = compare(Study(wide, study.directions))
    pd.testing.assert_frame_equal(scaled.flows, found.flows)


def test_a_shared_lead():
    lower = {"a": 0, "b": 0, "c": 0.1, "e": 0.2}
    rows = [
        (f"d{d}", m, 0.5 - low + 0.01 * (m == "ab"[d % 2]))
        for d in range(8)
        for m, low in lower.items()
    ]
    frame = pd.DataFrame(rows, columns=["dataset", "method", "f1"])
    study = Study.from_frame(frame.assign(recall=frame["f1"]))
    said = texts(compare(study, stability=100))
    assert said[0].endswith("a (0.492) ties with b (0.492).")
    assert "is ahead under" in said[3] and "else b is" in said[3]


def test_the_only_measure_is_told_without_weights():
    found = compare(published_study().select(measures=["f1"]), stability=True)
    assert found.on == "f1" and found.stability is None
    assert not re.search("fused|weight", " ".join(texts(found)))


def test_what_was_left_out_is_counted():
    dropped = compare(published_study("drop-datasets"))
    assert sum(doubt.startswith("Left out: dataset") for doubt in dropped.doubts) == 3
    study = study_of(3, 4)
    gone = (
        *(Excluded("run", name, "unfinished") for name in ("r1", "r2")),
        Excluded("measure", "auc", "not in all runs"),
    )
    told = " ".join(compare(replace(study, excluded=gone)).doubts)
    assert all(name in told for name in ("r1", "r2", "auc"))
    values = study.values.copy()
    values.loc[("d1", "m0")] = np.nan
    one = {"study": replace(study, values=values, missing="worst")}
    start = "1 of 12 results is missing: d1 (1). The ranking gives it the dataset's worst value"
    assert compare(**one).doubts[0] == f"{start}; tests of pairs leave it out."
    assert compare(**one, missing_is_failure=True).doubts[0] == f"{start}."


def test_policies_that_leave_the_leader_out_count_as_lost():
    study = study_of(4, 8, gap=0.1)
    values = study.values.copy()
    values.loc[("d1", "m0")] = np.nan
    found = compare(Study(values, study.directions, "worst"), stability=100)
    said = " ".join(texts(found))
    lost = len(found.survivals().lost)
    assert f"is ahead under {13 - lost} of 13 other choices" in said and lost and "else m1" in said


def test_a_lead_that_nothing_shakes():
    said = texts(compare(study_of(4, 8, gap=0.1), stability=100))
    assert said[3:] == [
        "m0 is ahead under all 11 other choices of function, weights or policy, in 100% of random "
        "weightings and without any one other method.",
        "Each of the 6 separations stays under all 14 such choices and filters of measures.",
    ]


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(
    n_methods=st.integers(2, 9),
    n_datasets=st.integers(1, 13),
    seed=st.integers(0, 10_000),
    decimals=st.integers(1, 4),
    gap=st.sampled_from([0.0, 0.005, 0.02]),
    on=st.sampled_from(["fused", "f1", "hamming_loss"]),
    test=st.sampled_from(["max-t", "wilcoxon", "nemenyi"]),
)
def test_a_verdict_holds_in_any_design(n_methods, n_datasets, seed, decimals, gap, on, test):
    found = compare(study_of(n_methods, n_datasets, gap, seed, decimals), on=on, test=test)
    sentences = verdict(found)
    said = " ".join(plain(s.text) for s in sentences)
    assert 1 <= len(sentences) <= 3
    assert all(s.text[-1] == "." and s.text.count("(") == s.text.count(")") for s in sentences)
    assert not re.search(r"nan|None|\{|\}|  | 1 (methods|datasets|measures|pairs)\b", said)
    leaders, scores = found.leaders, found.scores
    assert set(leaders) == set(scores.index[np.isclose(scores, scores.max())])
    assert f" {plain(listed(leaders[:1]))} (" in said and ("ties" in said) == (len(leaders) > 1)
    expected = n_datasets > 1 and test == "wilcoxon" and bool(found.pairwise.warnings)
    assert ("cannot give a significant pair" in said) == expected
    assert ("no p-value of a pair" in said) == (test == "max-t" and 1 < n_datasets < 6)


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(
    n_methods=st.integers(3, 6),
    n_datasets=st.integers(2, 6),
    seed=st.integers(0, 10_000),
    gap=st.sampled_from([0.0, 0.01]),
)
def test_stability_in_words_agrees_with_its_numbers(n_methods, n_datasets, seed, gap):
    found = compare(study_of(n_methods, n_datasets, gap, seed), stability=50)
    said = " ".join(texts(found))
    first = found.stability.acceptability.loc[found.leader, 1]
    assert f"{percent(first)} of random weightings" in said
    unshaken = not found.stability.leave_one_out.winner_changes
    assert ("without any one other method" in said) == unshaken


def test_only_the_deciding_family_says_that_methods_differ():
    shifts = {"BR": (0.0, 0.0), "CC": (0.01, 0.0), "LP": (-0.06, 0.06)}
    made = {"split_digest": "x", "n_train": 90, "n_test": 10}
    six = compare(fold_study(shifts, datasets=tuple(f"d{k}" for k in range(6)), **made))
    two = compare(fold_study(shifts, datasets=("d0", "d1"), **made))
    assert (six.decides_over, two.decides_over) == ("datasets", "folds")
    assert any(one.separated for one in six.folds.values())
    keys = {"datasets": {"ranking", "differences"}, "folds": {"folds"}}
    for found in (six, two, whole()):
        sections = {section.key: section for section in found.report().sections}
        for key in {"folds", "instances", "answers", "profiles"} & {*sections}:
            words = " ".join(all_words(sections[key].blocks))
            if key not in keys.get(found.decides_over, ()):
                assert not re.search("separate|significant|certain|sure of", words), words
            else:
                assert "separates" in words
        differ = [one for one in found.report().to_dict()["verdict"] if one["differ"]]
        assert {one["family"] for one in differ} <= {DECIDES}
        assert {one["claim"] for one in differ} <= ({"separated", "use one"})


def all_words(blocks):
    for block in blocks:
        if isinstance(block, Beside):
            yield from all_words([*block.left, *block.right])
        elif isinstance(block, Text):
            yield from (block.title, *block.paragraphs)
        elif isinstance(block, Table):
            yield from (block.title, block.notes, *(column.head for column in block.columns))
        elif isinstance(block, Figure):
            yield from (block.title, block.caption)


def test_every_sentence_makes_a_registered_claim_of_one_deciding_family():
    for found in (published(stability=True), published(on="f1", control="BR"), nasty()):
        said = found.report().to_dict()["verdict"]
        for one in said:
            registered = CLAIMS[one["claim"]]
            assert one["family"] == registered.family and one["differ"] == registered.differ
            assert one["level"] == (0.05 if registered.family == DECIDES else None)
            assert one["rests_on"]
        differ = [one for one in said if one["differ"]]
        assert bool(differ) == bool(found.separated)
