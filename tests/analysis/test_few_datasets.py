"""Fewer than six datasets: blocks of repeats, by definition. And is A better than B? The verdict
on a pair is that of the tests which the comparison holds.
"""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from report_cases import fold_study, published, published_study

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.pairs_by_unit import compare_all_repeats, flows_of_repeats
from mlflow_mleval.analysis.posthoc.max_t import max_t
from mlflow_mleval.analysis.recommendation import CLOSE, NO, YES, Verdict, question
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.decision import data, needed, sentences, verdict
from mlflow_mleval.study import Study

DIRECTIONS = {"f1": "max", "auc": "max", "hamming_loss": "min"}


def repeated(n_methods=3, n_datasets=2, n_repeats=3, seed=0, shift=0.0, noise=0.02):
    """A study of repeats; method k is better than method k + 1 by `shift` in each of them."""
    rng = np.random.default_rng(seed)
    keys = [f"d{d}" for d in range(n_datasets)], [f"m{m}" for m in range(n_methods)]
    index = pd.MultiIndex.from_product([*keys, range(n_repeats)])
    quality = 0.7 - shift * index.codes[1] + 0.1 * index.codes[0]
    values = quality[:, None] + noise * rng.standard_normal((len(index), 2))
    repeats = pd.DataFrame(
        values, index.set_names(["dataset", "method", "repeat"]), ["f1", "hamming_loss"]
    )
    repeats["hamming_loss"] = 1 - repeats["hamming_loss"]
    return of_repeats(repeats)


def of_repeats(repeats):
    means = repeats.groupby(level=[0, 1], sort=False).mean()
    return Study(means, {m: DIRECTIONS[m] for m in means}, repeats=repeats)


def by_definition(study, weights, dataset, repeat):
    """Net flows of the methods in one repeat, pair by pair."""
    flows = dict.fromkeys(study.methods, 0.0)
    for measure, weight in weights.items():
        sign = -1 if study.directions[measure] == "min" else 1
        reach = np.ptp(study.values.loc[dataset, measure])
        block = {m: sign * study.repeats.loc[(dataset, m, repeat), measure] for m in flows}
        for a, b in product(flows, repeat=2):
            prefers = np.clip((block[a] - block[b]) / reach, 0, 1)
            flows[a] += weight * prefers / (len(flows) - 1)
            flows[b] -= weight * prefers / (len(flows) - 1)
    return flows


@pytest.mark.parametrize("on", [None, "hamming_loss"])
def test_flows_within_blocks_by_definition_and_their_sign_changes(on):
    study = repeated(4, 2, 3, noise=0.05)
    fusion = fuse(study)
    flows = flows_of_repeats(fusion, on)
    assert flows.shape == (6, 4)
    for dataset, repeat in flows.index:
        weights = fusion.weights.loc[dataset] if on is None else {on: 1.0}
        expected = by_definition(study, weights, dataset, repeat)
        assert flows.loc[(dataset, repeat)].to_dict() == pytest.approx(expected)
    d = flows["m0"] - flows["m1"]
    signs = np.array([*product([1, -1], repeat=6)])
    alone = max_t(flows[["m0", "m1"]])
    expected = (np.abs(signs @ d) >= abs(d.sum()) - 1e-12).mean()
    assert alone.table["pvalue_corrected"].item() == pytest.approx(expected)
    assert max_t(flows).exact and max_t(flows).n_resamples == 32


def test_repeats_are_paired_by_seed_where_methods_share_seeds_else_in_order():
    study = repeated(2, 1, 4)
    whole = flows_of_repeats(fuse(study))
    turned = study.repeats.copy()
    last = turned.index.get_level_values(1) == "m1"
    turned[last] = turned[last].iloc[::-1].to_numpy()
    labels = turned.index.to_frame()
    labels.loc[last, "repeat"] = labels.loc[last, "repeat"][::-1].to_numpy()
    by_seed = of_repeats(turned.set_axis(pd.MultiIndex.from_frame(labels)))
    assert np.allclose(flows_of_repeats(fuse(by_seed)), whole)
    labels.loc[last, "repeat"] += 10
    in_order = of_repeats(turned.set_axis(pd.MultiIndex.from_frame(labels)))
    assert not np.allclose(flows_of_repeats(fuse(in_order)), whole)


def test_every_cell_needs_three_repeats_and_further_ones_of_some_methods_are_left_out():
    study = repeated(3, 2, 5)
    most = study.repeats.drop([("d1", "m2", 3), ("d1", "m2", 4)])
    flows = flows_of_repeats(fuse(of_repeats(most)))
    assert flows.groupby(level=0).size().to_dict() == {"d0": 5, "d1": 3}
    few = most.drop(("d1", "m2", 2))
    assert flows_of_repeats(fuse(of_repeats(few))) is None
    assert flows_of_repeats(fuse(Study(study.values, study.directions))) is None


def told(c):
    return " ".join(plain(s.text) for s in verdict(c))


def test_repeats_decide_where_datasets_are_too_few_and_the_page_says_of_what_it_is():
    c = compare(repeated(3, 2, 3, shift=0.05))
    assert (c.decides, c.decides_over, c.best_set) == ("repeats", "repeats", ["m0"])
    flows = flows_of_repeats(c.fusion)
    assert c.separated == max_t(flows).significant_pairs
    assert c.letters == {"m0": "a", "m1": "b", "m2": "c"}
    assert "Step-down max-T over 6 repeats of 2 datasets, α = .05: 3 of 3 pairs" in told(c)
    rows = c.tests_over("datasets")[""]
    assert rows.pairs["n"].eq(6).all() and "training again" in rows.verdict()
    assert c.possible.to_numpy().tolist() == [[1, 1], [2, 2], [3, 3]]
    assert "repeats won/tied/lost" in c.report().render("html")
    for on in c.study.measures:  # in its own units, of the first less the second
        own = compare(c.study, on=on)
        means = own.study.values[on].groupby(level="method").mean()
        sign = -1 if own.study.directions[on] == "min" else 1
        row = own.pairs.iloc[0]
        size = sign * (means[row["method_a"]] - means[row["method_b"]])
        assert row["mean_difference"] == pytest.approx(size) and own.decides_over == "repeats"
    for format in ("html", "json"):
        assert "these two datasets" in " ".join(c.report().render(format).split())


def test_one_dataset_with_six_repeats_has_blocks_enough_and_with_five_each_measure_is_tested():
    six, five = (compare(repeated(3, 1, n, shift=0.05)) for n in (6, 5))
    assert six.separated and six.deciding.over == "repeats"
    said = " ".join(one.text for one in sentences(six))
    assert "For this data trained again, 6 runs of each." in said
    six.detail(method="m0", against="m1").to_html()
    (tests,) = compare_all_repeats(five.study, {}).values()
    assert five.decides_over == "repeats" and five.separated
    assert {*five.separated} == {*five.told_apart} == {*tests.separated}
    assert five.pairs["pvalue_repeats"].min() == tests.table["pvalue_corrected"].min()
    assert "Tests over the repeats of 1 dataset, α = .05: 3 of 3 pairs are separated" in told(five)
    (_, who, *_) = (plain(one.text) for one in sentences(five))
    assert question(five).verdict.word() == YES and who.startswith("m0 is ahead of both others")
    for format in ("html", "json"):
        assert "too close" not in five.report().render(format)


def test_where_neither_repeats_nor_folds_are_enough_nothing_is_said():
    c = compare(repeated(3, 5, 2, shift=0.05))
    assert c.decides_over == "" and not c.separated
    said = "Over 5 datasets no p-value of a pair lies below .0625. It takes 6"
    assert said in told(c) and "evidence" not in told(c) and "chance" not in told(c)
    assert "∞" not in c.report().render("md")  # limits that are none are not shown
    told_first = plain(sentences(c)[0].text)
    assert "TOO CLOSE: m0 is ahead overall" in told_first and "Five datasets cannot" in told_first


def test_datasets_decide_where_they_can_and_what_is_asked_for_where_it_is():
    assert compare(repeated(3, 6, 3, shift=0.05)).decides_over == "datasets"
    assert compare(repeated(3, 3, 3, shift=0.05), test="nemenyi").decides == "nemenyi"


def by_pair(c):
    """The p-value over folds of each two methods."""
    rows = zip(c.pairs["method_a"], c.pairs["method_b"], c.pairs["pvalue_folds"], strict=True)
    return {frozenset([a, b]): p for a, b, p in rows}


def test_else_folds_decide_and_contradicting_datasets_do_not():
    made = {"split_digest": "x", "n_train": 90, "n_test": 10}
    shifts = {"BR": (0.0, 0.0), "CC": (0.01, 0.01), "LP": (0.06, 0.06)}
    study = fold_study(shifts, datasets=("d0", "d1"), **made)
    c = compare(study)
    assert (c.decides, c.decides_over, c.best_set) == ("folds", "folds", ["LP"])
    assert c.separated == [("LP", "BR"), ("LP", "CC")]
    pvalues = [one.table["pvalue_corrected"].min() for one in c.folds.values()]
    assert c.pairs["pvalue_folds"].min() == min(pvalues)
    assert "Tests over the folds of 2 datasets, α = .05: 2 of 3 pairs" in told(c)
    parts = {d: study.folds.loc[[d]] for d in study.datasets}
    for turned in parts:  # there LP comes before CC and BR
        rows = pd.concat([part.iloc[:: -1 if d == turned else 1] for d, part in parts.items()])
        other_order = compare(Study(study.values, study.directions, folds=rows, runs=study.runs))
        assert by_pair(other_order) == pytest.approx(by_pair(c))
    turned = study.folds.copy()
    turned.loc["d1"] = 1.2 - turned.loc["d1"].to_numpy()
    means = turned.groupby(level=[0, 1], sort=False).mean()
    against = compare(Study(means, study.directions, folds=turned, runs=study.runs))
    assert against.folds["d1"].separated and not against.separated
    first = plain(sentences(against)[0].text)
    assert "cannot tell" not in first and "these two datasets trained again" in first
    alone = compare(study, on="recall")
    assert alone.decides_over == "folds" and alone.decides == "max-t" and not alone.separated


def test_a_leader_who_is_behind_in_each_plain_mean_is_one_doubt():
    rows = [("narrow", "d", 0.61, 0.71), ("narrow", "e", 0.62, 0.72), ("narrow", "g", 0.2, 0.3)]
    rows += [("steady", d, 0.6, 0.7) for d in "deg"]
    frame = pd.DataFrame(rows, columns=["method", "dataset", "f1", "recall"])
    found = compare(Study.from_frame(frame))
    assert found.leader == "narrow"
    (doubt,) = [text for text in map(str, found.doubts) if "depends on the yardstick" in text]
    assert "steady by the plain mean of every measure" in doubt


def rows(methods, datasets="abcdefgh", seeds=(0,), noise=0.01):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {"dataset": d, "method": m, "auc": mean + rng.normal(0, noise)}
        for d in datasets
        for m, mean in methods.items()
        for _ in seeds
    )


def repeated_rows(methods, dataset="a", seeds=6):
    frame = rows(methods, [dataset], range(seeds))
    return frame.assign(repeat=frame.groupby("method").cumcount())


def of_runs(frame):
    return of_repeats(frame.set_index(["dataset", "method", "repeat"])[["auc"]])


def asked_of(found, *pair):
    return plain(sentences(found, question(found, *pair))[0].text)


@pytest.mark.parametrize("on", ["fused", "auc"])
def test_over_datasets_it_says_what_the_deciding_test_says(on):
    frame = rows({"x": 0.95, "y": 0.94, "z": 0.7})
    frame["f1"] = frame["auc"] / 2
    found = compare(Study.from_frame(frame), on=on)
    for a in "xyz":
        for b in {*"xyz"} - {a}:
            verdict = question(found, a, b).verdict
            asked = YES if (a, b) in found.separated else NO if (b, a) in found.separated else CLOSE
            row = verdict.main
            assert (verdict.unit, verdict.word()) == ("datasets", asked)
            assert row["separated"] == (not row["low"] < 0 < row["high"])
            mirrored = question(found, b, a).verdict.main
            assert row["low"] == pytest.approx(-mirrored["high"])
    assert question(found).a == found.leader and question(found, b="x").b == "x"
    own = compare(Study.from_frame(frame), on="auc")
    asked, means = question(own, "x", "z"), own.table.mean()
    assert asked.measures.loc["auc", "difference"] == pytest.approx(means["x"] - means["z"])
    assert (asked.verdict.main["measure"], asked.verdict.word()) == ("fused", YES)


def test_one_dataset_trained_again_says_what_compare_over_repeats_says():
    close = compare(of_runs(repeated_rows({"x": 0.946, "y": 0.944}, seeds=5)))
    verdict = question(close).verdict
    (tests,) = compare_all_repeats(close.study, {}).values()
    assert (verdict.unit, verdict.word()) == ("repeats", CLOSE)
    assert verdict.of == "this data trained again"
    row, expected = verdict.main, tests.pairs.iloc[0]
    assert abs(row["difference"]) == pytest.approx(abs(expected["difference"]))
    assert row["high"] - row["low"] == pytest.approx(expected["high"] - expected["low"])
    text = asked_of(close)
    assert "φ" not in text and "net flow" not in text and "TOO CLOSE" in text
    assert "5 runs of each" in text
    assert "more runs of each, with other seeds, if the diff" in needed(close, verdict)


def test_what_does_not_decide_gives_no_verdict():
    """A on one of eight datasets is certainly better; datasets decide, and cannot say so."""
    frame = pd.concat(
        repeated_rows({"A": 0.9 if d == "a" else 0.8, "B": 0.8}, d, seeds=5) for d in "abcdefgh"
    )
    study = of_runs(frame)
    assert compare_all_repeats(study, {})["a"].separated
    found = compare(study)
    record = data(found, question(found, "A", "B"))["question"]
    assert (record["over"], record["verdict"]) == ("datasets", CLOSE)
    assert {*record["rows"]["dataset"]} == {""} and not record["rows"]["separated"].any()
    few = of_runs(frame.query("repeat < 2 and dataset in ('a', 'b')"))
    assert compare_all_repeats(few, {}) and compare(few).decides_over == ""
    assert question(compare(few), "A", "B").verdict.of == ""


def test_where_the_mean_is_against_the_test_the_verdict_says_so():
    frame = rows({"x": 0.92, "y": 0.9}, "abcdefghij", noise=0.001)
    frame.loc[(frame["dataset"] == "a") & (frame["method"] == "x"), "auc"] = 0.1
    found = compare(Study.from_frame(frame), on="auc")
    asked = question(found, "x", "y")
    assert asked.verdict.word() == YES and asked.measures.loc["auc", "difference"] < 0
    text = asked_of(found, "x", "y")
    assert "as the test compares them" in text and "but y by its mean (0.06" in text


def test_where_the_step_down_separates_an_interval_that_ends_at_zero_is_no_doubt():
    found = published()
    apart = [question(found, a, b).verdict for a, b in found.separated]
    assert {one.word() for one in apart} == {YES}
    assert any(one.main["low"] == 0 for one in apart)
    assert question(found, *found.separated[0][::-1]).verdict.word() == NO


def test_crossing_is_told_before_the_average():
    frame = pd.concat(
        repeated_rows({"A": 0.85 if web else 0.8, "B": 0.8 if web else 0.85}, name)
        for name, web in (("web", True), ("phone", False))
    )
    assert asked_of(compare(of_runs(frame)), "A", "B") == (
        "Is A better than B? TOO CLOSE: it depends. Certainly better are A on web and B on phone. "
        "For these two datasets trained again, 6 runs of each method on each."
    )


def test_a_certain_average_names_the_datasets_that_are_certainly_against_it():
    frame = pd.concat(
        repeated_rows({"A": 0.8 if d == "d" else 0.85, "B": 0.85 if d == "d" else 0.8}, d)
        for d in "abcd"
    )
    text = asked_of(compare(of_runs(frame)), "A", "B")
    assert text.startswith("Is A better than B? YES: A is better on average (net flow 0.")
    assert "), but certainly worse on d. For these four datasets" in text


def test_a_filled_gap_is_no_run():
    frame = pd.concat(repeated_rows({"A": 0.85, "B": 0.8, "C": 0.7}, d) for d in ("web", "phone"))
    frame = frame[(frame["method"] != "B") | (frame["dataset"] != "phone")]
    found = compare(of_runs(frame).complete("worst"))
    assert "up to 6 runs of each" in asked_of(found, "A", "C")


def test_where_a_gap_turns_the_order_it_says_on_which_datasets():
    """HOMER lacks one dataset, whose worst values it has in the ranking alone."""
    study = published_study()
    weights = dict.fromkeys(study.measures, 1.0) | {"micro_recall": 3.0}
    found = compare(fuse(study, weights=weights))
    assert found.order[:2] == ["RF-PCT", "HOMER"]
    assert "HOMER is ahead on the 10 datasets that both have (net flow" in asked_of(found)


def test_single_runs_do_not_exclude_chance():
    found = compare(Study.from_frame(rows({"x": 0.95, "y": 0.94}, "a")))
    text = asked_of(found)
    assert "TOO CLOSE" in text and text.endswith("One run each: chance is not excluded.")
    assert needed(found, question(found).verdict) == "5 more runs of each, with other seeds."
    once = repeated_rows({"x": 0.95, "y": 0.94}, seeds=2).drop(3)  # y once
    few = compare(of_runs(once))
    assert asked_of(few).endswith("Too few runs of each to exclude chance.")
    assert needed(few, question(few).verdict) == "5 more runs of each, with other seeds."
    several = compare(Study.from_frame(rows({"x": 0.95, "y": 0.94}, "abc")))
    assert "Three datasets cannot tell" in asked_of(several)
    assert needed(several, question(several).verdict).startswith("3 more datasets, or three runs")


def verdict_of(*limits, dataset=""):
    table = [
        {"measure": f"m{i}", "dataset": dataset, "low": low, "high": high}
        | {"difference": (low + high) / 2, "separated": low > 0 or high < 0, "n": 9}
        for i, (low, high) in enumerate(limits)
    ]
    return Verdict("answers", pd.DataFrame(table), 0.05)


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        ([(0.01, 0.03)], YES),
        ([(-0.03, -0.01)], NO),
        ([(-0.01, 0.01)], CLOSE),
        ([(0.01, 0.03), (-0.01, 0.01)], YES),
        ([(0.01, 0.03), (-0.03, -0.01)], CLOSE),
        ([(-0.03, -0.01), (-0.01, 0.01)], NO),
    ],
)
def test_certain_differences_on_one_side_give_the_verdict(limits, word):
    assert verdict_of(*limits).word() == word


def test_the_surest_row_of_the_first_measure_is_told_in_whatever_order_the_datasets_are():
    open_rows, apart = [(-0.05, 0.06), (-0.02, 0.05)], [(0.01, 0.05), (0.02, 0.04)]
    for limits in (open_rows, apart, [*open_rows, *apart]):
        rows = verdict_of(*limits).rows.assign(measure="f1")
        rows["dataset"] = [f"d{i}" for i in range(len(rows))]
        for order in (rows, rows[::-1].reset_index(drop=True)):
            assert Verdict("folds", order, 0.05).main == rows.iloc[-1].to_dict()
    rows.loc[0, "measure"] = "auc"
    rows.loc[0, "separated"] = True
    assert Verdict("folds", rows, 0.05).main == rows.iloc[0].to_dict()


@pytest.mark.parametrize("format", ["html", "table", "json"])
def test_two_that_finished_no_dataset_both_are_asked_about(format):
    frame = pd.DataFrame({"dataset": [*"abcdefg"], "method": [*"xxxxyyy"], "f1": 0.5})
    frame["f1"] += frame.index / 50
    frame = pd.concat([frame, frame.assign(method="bad", f1=0.1)]).assign(auc=0.4)
    frame.loc[frame["method"] != "bad", "auc"] = 0.6
    found = compare(Study.from_frame(frame).complete("worst"))
    assert {*found.order[:2]} == {"x", "y"} and found.report().render(format)
    assert "nan" not in plain(sentences(found)[0].text) and "–" not in sentences(found)[0].text
    by_one = compare(found.study, on="f1")
    assert by_one.report().render(format)
    assert "TOO CLOSE: no dataset was finished by both." in plain(sentences(by_one)[0].text)


def test_methods_that_are_not_there_are_named():
    found = compare(Study.from_frame(rows({"x": 0.95, "y": 0.94})))
    for pair, offender in ((("x", "q"), "'q'"), (("x", "x"), "'x' is named twice")):
        with pytest.raises(ValueError, match=offender):
            question(found, *pair)


def test_what_a_policy_leaves_is_compared_or_named():
    frame = rows({"x": 0.95, "y": 0.94, "z": np.nan}, "a")
    left = compare(Study.from_frame(frame, missing="drop-methods"))
    assert sorted(left.order) == ["x", "y"]
    one = Study.from_frame(rows({"x": 0.95, "y": np.nan}), missing="drop-methods")
    with pytest.raises(IncomparableRunsError, match=r"one method only \(x\).*y: no result of"):
        compare(one)
    with pytest.raises(IncomparableRunsError, match=r"'z' is not among .* x, y\. .*z: no result"):
        compare(Study.from_frame(frame, missing="drop-methods"), control="z")
