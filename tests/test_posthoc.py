"""Post-hoc tests describe themselves: what a new one costs, and which one decides."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest
from report_cases import render, study_of
from scipy import stats

from mlflow_mleval.analysis import posthoc
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.posthoc.wilcoxon import Wilcoxon


class BenjaminiHochberg(Wilcoxon):
    """Signed ranks with the false discovery rate held, as a module of its own would have it."""

    name = asked = key = "benjamini-hochberg"
    title = "Benjamini–Hochberg"
    column = sort = "pvalue_benjamini_hochberg"
    head = "p (BH)"
    control, always = False, False

    def run(self, tested):
        found = super().run(replace(tested, correction="none"))
        corrected = stats.false_discovery_control(found.table["pvalue"])
        return replace(found, table=found.table.assign(pvalue_corrected=corrected, significant=corrected <= tested.alpha))

    def wording(self, result):
        return "Benjamini–Hochberg, false discovery rate"

    def sentence(self, result):
        return "Wilcoxon's signed ranks with the false discovery rate of Benjamini and Hochberg"


@pytest.fixture
def listed(monkeypatch):
    """The module of the test, and its line in the list."""
    module = ModuleType("mlflow_mleval.analysis.posthoc.benjamini_hochberg")
    module.BenjaminiHochberg = BenjaminiHochberg
    monkeypatch.setitem(sys.modules, module.__name__, module)
    line = ("benjamini-hochberg", "benjamini_hochberg", "BenjaminiHochberg")
    monkeypatch.setattr(posthoc, "_TESTS", (*posthoc._TESTS, line))


def test_a_new_test_is_asked_for_by_name_and_shown_everywhere(listed):
    found = compare(study_of(5, 9, gap=0.004), test="benjamini-hochberg")
    assert found.decides == "benjamini-hochberg" and found.decision.endswith("Benjamini and Hochberg, as asked.")
    expected = stats.false_discovery_control(found.pairs["pvalue"])
    assert found.pairs["pvalue_benjamini_hochberg"].to_numpy() == pytest.approx(expected)
    assert list(found.pairs.columns[-4:]) == ["pvalue_nemenyi", "pvalue_benjamini_hochberg", "separated", "doubts"]
    assert set(found.separated) == {
        (r.method_a, r.method_b) if r.effect_size > 0 else (r.method_b, r.method_a)
        for r in found.pairs[found.pairs["pvalue_benjamini_hochberg"] <= 0.05].itertuples()
    }
    for form in ("table", "json", "csv", "md", "latex", "html"):
        assert "hochberg" in render(found, form, "pairs").lower(), form


def test_a_test_that_is_not_asked_for_changes_nothing(listed):
    found = compare(study_of(5, 9, gap=0.004))
    assert [made.test.name for made in found.posthoc] == ["wilcoxon", "nemenyi"] and found.decides == "wilcoxon"
    assert "pvalue_benjamini_hochberg" not in found.pairs


def test_a_test_that_does_not_apply_is_refused(listed):
    with pytest.raises(ValueError, match="'benjamini-hochberg', which needs all pairs"):
        compare(study_of(4, 9), test="benjamini-hochberg", control="m0")


def test_with_a_control_the_mean_ranks_are_tested_by_bonferroni_dunn():
    found = compare(study_of(4, 9), test="nemenyi", control="m0")
    assert (found.deciding.test.name, found.decides) == ("bonferroni-dunn", "nemenyi") and found.nemenyi.control == "m0"
    assert found.deciding.wording == f"Bonferroni–Dunn, critical difference {found.deciding.critical_difference:.2f}"
    assert not found.letters_apply


def test_the_deciding_test_words_itself():
    found = compare(study_of(4, 9), test="wilcoxon", correction="bonferroni")
    assert found.deciding.wording == "Wilcoxon's signed ranks, Bonferroni's correction"
    assert found.deciding.critical_difference is None
    assert compare(study_of(2, 9)).deciding.wording == "Wilcoxon's signed ranks"
    assert compare(study_of(3, 1)).deciding is None


def test_tests_name_themselves_once():
    tests = posthoc.tests()
    assert len({test.name for test in tests}) == len({(test.asked, test.control) for test in tests}) == len(tests)
    assert [test.asked for test in tests] == [asked for asked, _, _ in posthoc._TESTS]
