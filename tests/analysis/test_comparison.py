"""The Comparison: which test may speak, what it says, what a new one costs, and the doubts beside
it.
"""

import sys
from dataclasses import replace
from inspect import signature
from itertools import permutations
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from report_cases import render, study_of
from scipy import stats

from mlflow_mleval.analysis import posthoc
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.posthoc.rank_tests import Wilcoxon
from mlflow_mleval.analysis.recommendation import measures_of_pair
from mlflow_mleval.errors import IncomparableRunsError, MeasureError
from mlflow_mleval.study import Excluded, Study


def test_a_comparison_has_few_options():
    assert len(signature(compare).parameters) - 1 <= 16


def test_pairs_are_separated_where_corrected_signed_ranks_cannot_reject():
    found = compare(study_of(12, 11, gap=0.1))
    assert found.pairwise.warnings and not found.pairwise.significant_pairs
    assert len(found.separated) == 66 and len(found.nemenyi.significant_pairs) < 50


def test_letters_and_possible_ranks_come_from_the_same_test():
    for seed in range(5):
        found = compare(study_of(6, 9, seed=seed, gap=0.006))
        ranking = found.ranking.set_index("method")
        for a in found.order:
            better = {x for x, y in found.separated if y == a}
            worse = {y for x, y in found.separated if x == a}
            assert (ranking.low[a], ranking.high[a]) == (1 + len(better), 6 - len(worse))
            for b in found.order:
                if a != b:
                    expected = found.is_separated(a, b)
                    assert bool(set(ranking.letters[a]) & set(ranking.letters[b])) != expected
    assert compare(study_of(3, 9), control="m0").ranking["low"].isna().all()


def with_a_gap(study, *cells):
    values = study.values.copy()
    for dataset, method in cells:
        values.loc[(dataset, method)] = np.nan
    return Study(values, study.directions, "worst")


@pytest.mark.parametrize("on", ["fused", "f1"])
def test_tests_of_pairs_leave_out_what_did_not_finish_unless_that_is_a_failure(on):
    study = with_a_gap(study_of(3, 8, gap=0.1), ("d1", "m0"), ("d2", "m0"), ("d3", "m0"))
    found = compare(study, on=on)
    pairs = map(frozenset, zip(found.pairs["method_a"], found.pairs["method_b"], strict=True))
    n = dict(zip(pairs, found.pairs["n"], strict=True))
    assert n == {frozenset(["m0", "m1"]): 5, frozenset(["m0", "m2"]): 5, frozenset(["m1", "m2"]): 8}
    assert found.separated == [("m1", "m2")] and not found.pairs["doubts"].any()  # 2/2^5 > .05
    assert compare(study.complete(), on=on).separated == found.separated
    failed = compare(study, on=on, missing_is_failure=True)
    assert (failed.pairs["n"] == 8).all() and failed.pairs["wins"].max() == 8
    doubts = failed.pairs.set_index(["method_a", "method_b"])["doubts"]
    filled = [text for pair, text in doubts.items() if "m0" in pair and pair in failed.separated]
    assert all("filled by the policy worst" in text for text in filled)


def test_two_methods_one_measure():
    found = compare(study_of(2, 8, gap=0.1, measures=("f1",)))
    assert found.leader == "m0" and "redundancy" in found.absent
    assert found.separated == [("m0", "m1")]


def test_a_single_measure_is_tested_in_its_own_direction():
    found = compare(study_of(3, 12, gap=0.1), on="hamming_loss")
    assert found.order[0] == "m0" and ("m0", "m2") in found.separated
    assert (found.table.to_numpy() <= 0).all()


@pytest.mark.parametrize("on", ["fused", "f1"])
def test_other_weights_make_anew_only_what_they_change(on):
    study = with_a_gap(study_of(3, 6, gap=0.02), ("d0", "m1"))
    options = {"on": on, "stability": 5, "order": "mean-rank", "rope": 0.1}
    weights = {"f1": 3, "hamming_loss": 1}
    before, fresh = compare(study, **options), compare(fuse(study, weights=weights), **options)
    after = before.reweighed(weights)
    assert after.report().to_dict() == fresh.report().to_dict() != before.report().to_dict()
    assert after.folds is before.folds
    assert after.fusion.flows.by_measure is before.fusion.flows.by_measure
    assert after.reweighed("entropy").report().to_dict() == before.report().to_dict()


def test_doubts_about_the_values_come_before_what_was_left_out():
    excluded = (Excluded("run", "r", "status FAILED"),)
    note = "The metric f1 was not logged here."
    study = replace(study_of(3, 4), notes=(note,), excluded=excluded)
    assert compare(study).doubts[:2] == (note, "Left out: run r: status FAILED.")


def test_a_separation_that_friedmans_test_does_not_share_is_doubted_from_three_methods_on():
    n = np.arange(20)
    a, b = np.where(n < 12, 0.9, 0.5) + n * 1e-3, np.where(n < 12, 0.5, 0.51) + n * 1.1e-3
    columns = {"a": a, "b": b, "c": np.where(n % 2, a + 1e-3, b - 5e-4)}
    frame = pd.DataFrame({"dataset": n, **columns}).melt(
        "dataset", var_name="method", value_name="f1"
    )
    found = compare(Study.from_frame(frame.astype({"dataset": str})), on="f1", test="wilcoxon")
    assert len(found.order) == 3 and found.friedman.best_pvalue > 0.5
    assert found.pairs.iloc[0].separated
    assert any("although the Friedman test" in doubt for doubt in found.doubts)


def test_a_separation_by_max_t_stands_by_itself():
    values = np.random.default_rng(1).normal([0.012, 0.006, 0], 0.01, (10, 3))
    wide = pd.DataFrame(values, columns=[*"abc"]).rename_axis("dataset").reset_index()
    frame = wide.melt("dataset", var_name="method", value_name="f1").astype({"dataset": str})
    found = compare(Study.from_frame(frame), on="f1")
    assert found.separated == [("b", "c")] and found.friedman.best_pvalue > 0.05
    assert not found.pairs["doubts"].any() and not any("Friedman" in d for d in found.doubts)


def test_a_constant_measure_is_a_doubt():
    study = study_of(3, 4)
    values = study.values.copy()
    values.loc["d1", "f1"] = 0.5
    found = compare(replace(study, values=values))
    assert "The same for all methods, so that it tells none apart: f1 on d1." in found.doubts


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"control": "zz"}, IncomparableRunsError, "'zz'"),
        ({"on": "recall"}, MeasureError, "recall"),
        ({"alpha": 1.5}, ValueError, "alpha"),
        ({"test": "t"}, ValueError, "test"),
        ({"missing_is_failure": True}, ValueError, "`missing_is_failure`"),
    ],
)
def test_bad_requests_are_named(options, kind, said):
    with pytest.raises(kind, match=said):
        compare(study_of(3, 4), **options)


def test_one_method_is_refused_with_what_was_left_out():
    excluded = (Excluded("run", "m1 · d1", "written in part only"),)
    alone = replace(study_of(3, 4).select(methods=["m0"]), excluded=excluded)
    said = "needs two. Left out: run m1 · d1: written in part only.$"
    with pytest.raises(IncomparableRunsError, match=said):
        compare(alone)


def test_leaders_that_tie_are_all_named():
    columns = {"dataset": list("dddeee"), "method": list("abc") * 2}
    frame = pd.DataFrame(columns | {"f1": [0.5, 0.4, 0.1, 0.4, 0.5, 0.1]})
    found = compare(Study.from_frame(frame), on="f1")
    assert found.leaders == ["a", "b"] and found.compared == "f1"
    assert compare(study_of(3, 4)).compared == "net flow φ"
    assert found.ranking["position"].tolist() == [1, 1, 3]


def test_the_plane_needs_three_measures_and_methods():
    assert compare(study_of(3, 4)).plane is None and compare(study_of(2, 4)).plane is None
    frame = study_of(3, 4).values.assign(recall=lambda t: t["f1"] ** 2).reset_index()
    found = compare(Study.from_frame(frame))
    assert list(found.plane.measures.index) == ["f1", "hamming_loss", "recall"]
    mean = sum(r.unicriterion for r in found.fusion.results.values()) / 4
    pd.testing.assert_frame_equal(found.mean_flows, mean)


def test_what_the_lead_survives_is_what_the_scenarios_say():
    found = compare(with_a_gap(study_of(4, 7, gap=0.004), ("d0", "m1")), stability=20)
    said = found.survivals()
    asked, *others = found.scenarios
    lost = {}
    for one in others:
        ranks = one.ranking["mean_rank"].dropna()
        if (first := ranks.index[ranks <= ranks.min() + 1e-9].tolist()) != [found.leader]:
            lost[one.key] = first
    assert said.tried == len(others) == 2 + 11
    assert [one.key for one in said.lost] == [*lost]
    assert said.methods == 3 and said.lost_methods == found.stability.leave_one_out.winner_changes
    assert set(said.rivals) == {
        m for first in lost.values() for m in first if m != found.leader
    } | {*said.lost_methods.values()}
    assert asked.chosen and compare(study_of(3, 4)).survivals() is None


@pytest.mark.parametrize("options", [{}, {"stability": 5, "rope": 0.1}])
@pytest.mark.parametrize("methods", [2, 3])
def test_progress_ends_with_the_last_step(methods, options):
    told = []
    compare(study_of(methods, 3), progress=lambda *step: told.append(step), **options)
    total = told[0][1]
    assert told[-1] == (total, total)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert total - 1 <= len(told) <= total  # redundancy needs three methods


@pytest.mark.parametrize("gap", [0.004, 0.01, 0.1])
def test_intervals_lie_apart_about_where_the_test_separates(gap):
    agree = total = 0
    for seed in range(8):
        found = compare(study_of(6, 12, gap, seed))
        intervals = found.comparison_intervals
        assert list(intervals.index) == found.order
        expected = found.flows.mean()[found.order]
        pd.testing.assert_series_equal(intervals["mean"], expected, check_names=False)
        for i, a in enumerate(found.order):
            for b in found.order[i + 1 :]:
                agree += (intervals.low[a] > intervals.high[b]) == found.is_separated(a, b)
                total += 1
    assert agree > 0.9 * total


def test_intervals_of_two_methods_and_of_mean_ranks_are_those_of_the_test():
    for seed in range(10):
        found = compare(study_of(2, 10, seed=seed, gap=0.006))
        (a, b), at = found.order, found.comparison_intervals
        assert (at.low[a] > at.high[b]) == found.is_separated(a, b)
    ranked = compare(study_of(5, 12, gap=0.02), test="nemenyi")
    widths = ranked.comparison_intervals.eval("high - low")
    assert np.allclose(widths, ranked.nemenyi.critical_difference)
    assert compare(study_of(3, 4)).comparison_intervals is None
    assert compare(study_of(3, 9), control="m0").comparison_intervals is None


class Signs(Wilcoxon):
    """Signed ranks without a correction, as a module of its own would have it."""

    asked = key = "plain-ranks"
    title = "Plain ranks"
    column = sort = "pvalue_plain_ranks"
    head = "p (plain)"
    control, always = False, False

    def run(self):
        tests = super().run()
        plain = tests.table["pvalue"]
        table = tests.table.assign(pvalue_corrected=plain, significant=plain <= tests.alpha)
        return replace(tests, table=table)

    wording = "plain ranks, uncorrected"

    sentence = "Plain ranks"


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
    assert found.decides == "plain-ranks" and found.decision == "Plain ranks."
    assert found.pairs["pvalue_plain_ranks"].to_list() == found.pairs["pvalue"].to_list()
    assert {*found.pairs.columns[-3:]} == {"pvalue_plain_ranks", "separated", "doubts"}
    for form in ("table", "json", "csv", "md", "latex", "html"):
        assert "plain" in render(found, form, "pairs").lower(), form
    other = compare(study_of(5, 9, gap=0.004))
    assert "plain-ranks" not in [made.asked for made in other.posthoc]
    assert "pvalue_plain_ranks" not in other.pairs
    with pytest.raises(ValueError, match="'plain-ranks', which needs all pairs"):
        compare(study_of(4, 9), test="plain-ranks", control="m0")


def test_benjamini_hochberg_holds_the_false_discovery_rate_of_signed_ranks():
    found = compare(study_of(5, 9, gap=0.004), test="benjamini-hochberg")
    many = compare(study_of(8, 8, gap=0.05), test="benjamini-hochberg")
    assert many.pairwise.warnings and not many.pairwise.significant_pairs  # by Holm's correction
    assert many.decides_over == "datasets" and many.separated
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
    assert len({test.asked for test in tests}) == len(tests)
    assert len({(test.asked, test.control) for test in tests}) == len(tests)
    assert [test.asked for test in tests] == [asked for asked, _, _ in posthoc._TESTS]


def test_who_ties_by_a_measure_does_not_lead_by_it():
    """Also where rounding tells them apart, by the order of the datasets."""
    frame = pd.DataFrame(
        [
            (dataset, method, f1, auc)
            for dataset, values in {
                "a": [(0.1, 0.3), (0.7, 0.2), (0.0, 0.1)],
                "b": [(0.7, 0.6), (0.3, 0.5), (0.0, 0.4)],
                "c": [(0.3, 0.9), (0.1, 0.8), (0.8, 0.7)],
            }.items()
            for method, (f1, auc) in zip("xyz", values, strict=True)
        ],
        columns=["dataset", "method", "f1", "auc"],
    )
    for order in permutations("abc"):
        rows = pd.concat([frame[frame["dataset"] == dataset] for dataset in order])
        found = compare(Study.from_frame(rows, maximize=["f1", "auc"]))
        assert found.measures["leader"].dropna().to_dict() == {"auc": "x"}
        tau = stats.kendalltau([1.5, 1.5, 3], [1, 2, 3]).statistic
        assert found.concordance.loc["f1", "auc"] == pytest.approx(tau)
        assert "level in f1 and " in render(found)
        assert 'data-method=""' not in render(found, "html")
        assert measures_of_pair(found, "x", "y").loc["f1", "difference"] == 0
