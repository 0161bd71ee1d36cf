"""Post-hoc tests describe themselves: what a new one costs, and which one decides."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest
from report_cases import render, study_of
from scipy import stats

from mlflow_mleval.analysis import posthoc
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.posthoc.rank_tests import Wilcoxon


class Signs(Wilcoxon):
    """Signed ranks without a correction, as a module of its own would have it."""

    name = asked = key = "plain-ranks"
    title = "Plain ranks"
    column = sort = "pvalue_plain_ranks"
    head = "p (plain)"
    control, always = False, False

    def run(self, tested):
        return super().run(replace(tested, correction="none"))

    def wording(self, result):
        return "plain ranks, uncorrected"

    def sentence(self, result):
        return "Plain ranks"


@pytest.fixture
def listed(monkeypatch):
    """The module of the test, and its line in the list."""
    module = ModuleType("mlflow_mleval.analysis.posthoc.plain_ranks")
    module.Signs = Signs
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(
        posthoc, "_TESTS", (*posthoc._TESTS, ("plain-ranks", "plain_ranks", "Signs"))
    )


def test_a_new_test_is_asked_for_by_name_and_shown_everywhere(listed):
    found = compare(study_of(5, 9, gap=0.004), test="plain-ranks")
    assert found.decides == "plain-ranks" and found.decision == "Plain ranks, as asked."
    assert found.pairs["pvalue_plain_ranks"].to_list() == found.pairs["pvalue"].to_list()
    assert {*found.pairs.columns[-3:]} == {"pvalue_plain_ranks", "separated", "doubts"}
    for form in ("table", "json", "csv", "md", "latex", "html"):
        assert "plain" in render(found, form, "pairs").lower(), form
    other = compare(study_of(5, 9, gap=0.004))
    assert "plain-ranks" not in [made.test.name for made in other.posthoc]
    assert "pvalue_plain_ranks" not in other.pairs
    with pytest.raises(ValueError, match="'plain-ranks', which needs all pairs"):
        compare(study_of(4, 9), test="plain-ranks", control="m0")


def test_benjamini_hochberg_holds_the_false_discovery_rate_of_signed_ranks():
    found = compare(study_of(5, 9, gap=0.004), test="benjamini-hochberg")
    assert found.decides == "benjamini-hochberg"
    data = found.report().to_dict()["benjamini_hochberg"]
    assert data["test"] == "benjamini-hochberg"
    assert list(map(tuple, data["significant_pairs"])) == found.separated
    expected = stats.false_discovery_control(found.pairs["pvalue"])
    assert found.pairs["pvalue_benjamini_hochberg"].to_numpy() == pytest.approx(expected)
    assert set(found.separated) == {
        (r.method_a, r.method_b) if r.effect_size > 0 else (r.method_b, r.method_a)
        for r in found.pairs[found.pairs["pvalue_benjamini_hochberg"] <= 0.05].itertuples()
    }


def test_with_a_control_the_mean_ranks_are_tested_by_bonferroni_dunn():
    found = compare(study_of(4, 9), test="nemenyi", control="m0")
    assert found.decides == found.deciding.test.name == "bonferroni-dunn"
    assert found.nemenyi.control == "m0"
    expected = f"Bonferroni–Dunn, critical difference {found.deciding.critical_difference:.2f}"
    assert found.deciding.wording == expected
    assert not found.letters_apply


def test_the_deciding_test_words_itself():
    found = compare(study_of(4, 9), test="wilcoxon")
    assert found.deciding.wording == "Wilcoxon's signed ranks, Holm's correction"
    assert found.deciding.critical_difference is None
    assert compare(study_of(4, 9)).deciding.wording == "step-down max-T"
    assert compare(study_of(3, 1)).deciding is None


def test_max_t_decides_unless_another_is_asked_for():
    found = compare(study_of(4, 9, gap=0.05))
    assert found.decides == "max-t"
    assert found.decision.endswith("by all 256 changes of sign of whole datasets.")
    assert found.separated == found.max_t.significant_pairs
    assert found.pairs["pvalue_max_t"].is_monotonic_increasing
    with pytest.raises(ValueError, match="'bonferroni-dunn', which needs a control"):
        compare(study_of(4, 9), test="bonferroni-dunn")


def test_tests_name_themselves_once():
    tests = posthoc.tests()
    assert len({test.name for test in tests}) == len(tests)
    assert len({(test.asked, test.control) for test in tests}) == len(tests)
    assert [test.asked for test in tests] == [asked for asked, _, _ in posthoc._TESTS]
