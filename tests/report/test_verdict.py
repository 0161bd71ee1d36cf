"""The verdict says what the results say: no more, in every design."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
from fold_cases import fold_study
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profile_cases import whole
from report_cases import nasty, published, published_study, study_of

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.report.blocks import CLAIMS, DECIDES, Beside, Figure, Table, Text, listed, plain
from mlflow_mleval.report.content.differences import describe_cliques
from mlflow_mleval.report.content.verdict import verdict
from mlflow_mleval.report.text import percent
from mlflow_mleval.study import Excluded, Study


def texts(comparison):
    return [plain(sentence.text) for sentence in verdict(comparison)]


def test_the_published_study_in_words():
    assert texts(published(stability=True)) == [
        "RF-PCT leads the fused ranking of 12 methods over 11 datasets (mean net flow 0.209; 16 "
        "measures, V-shape preference, entropy weights).",
        "The evidence separates it from PCT only; among the others it separates 3 pairs "
        "(step-down max-T, α = .05).",
        "Its lead survives all 11 other combinations of preference function and weights, both "
        "other policies for missing results and the absence of any one other method.",
        "Its separation from PCT stays under all 16 other choices of function, weights, policy "
        "or measures; the other 3 stay under at least 7 of 15.",
        "It leads under 83% of 10,000 random weightings; HOMER would take or share the lead if "
        "the weight of micro_recall rose above 0.21 (now 0.063).",
    ]
    assert texts(published(test="nemenyi"))[1] == (
        "The evidence separates it from PCT only (Nemenyi, critical difference 5.02, α = .05)."
    )
    assert texts(published(test="wilcoxon"))[1] == (
        "Pairwise signed-rank tests with Holm's correction cannot reject anything with 12 "
        "methods on 11 datasets; 12 datasets or at most 10 methods would be needed."
    )


def test_without_stability_nothing_is_said_of_it():
    said = texts(published(stability=True))
    assert texts(published()) == said[:2]


def test_one_measure():
    said = texts(published(on="macro_f1"))
    assert (
        said[0]
        == "HOMER leads by macro_f1 among 12 methods over 11 datasets (mean 0.3321; larger is "
        "better)."
    )
    assert (
        said[-1]
        == "Fused over all 16 measures (V-shape preference, entropy weights), RF-PCT leads (net "
        "flow 0.209)."
    )
    assert "smaller is better" in texts(published(on="one_error"))[0]


def test_a_control():
    said = texts(published(control="PCT", test="wilcoxon"))
    assert said[1].startswith("Compared with the control PCT only, the evidence puts ")
    assert said[1].endswith("(Wilcoxon's signed ranks, Holm's correction, α = .05).")
    assert (
        "puts PCT below it, and does not separate the other 10 from it (step-down"
        in texts(published(control="BR"))[1]
    )
    said = texts(published(control="BR", test="wilcoxon"))
    assert "separates no method from it" in said[1]
    found = published(control="PCT", test="nemenyi")
    assert "Bonferroni–Dunn, critical difference" in texts(found)[1]


def test_one_dataset():
    said = texts(compare(study_of(3, 1, gap=0.1)))
    assert said[0].startswith(
        "m0 leads the fused ranking of 3 methods on d0, the only dataset (net flow "
    )
    assert said[1:] == [
        "Tests over datasets need more than one, so that none says whether it would lead on "
        "others, too."
    ]
    said = texts(compare(study_of(3, 1), on="f1"))
    assert (
        said[0]
        == "m1 leads by f1 among 3 methods on d0, the only dataset (0.5064; larger is better)."
    )


def test_two_methods():
    assert "The evidence separates it from m1 (step-down max-T, α = .05)." in texts(
        compare(study_of(2, 8, gap=0.1))
    )
    said = texts(compare(study_of(2, 4)))
    assert (
        said[1]
        == "4 datasets cannot say who is better: no p-value lies below .125. It takes 6, or three "
        "repeats of every method on each."
    )
    said = texts(compare(study_of(2, 4), test="wilcoxon"))
    assert (
        said[-1]
        == "Pairwise signed-rank tests cannot reject anything on 4 datasets; 6 datasets would be "
        "needed."
    )


def test_two_methods_have_no_third_to_leave_out():
    found = compare(study_of(2, 7, gap=0.1), stability=True, n_resamples=50)
    assert "absence" not in " ".join(texts(found)) and "stability.leave_one_out" in found.absent
    assert found.stability.leave_one_out is None


def test_everything_separated():
    said = texts(compare(study_of(3, 12, gap=0.1)))
    assert said[1] == (
        "The evidence separates it from both others; among the others it separates 1 pair "
        "(step-down max-T, α = .05)."
    )
    said = texts(compare(study_of(6, 14, gap=0.1, seed=1)))
    assert "separates it from all 5 others; among the others it separates 10 pairs" in said[1]


def test_nothing_separated_and_no_difference_at_all():
    for n_datasets, by in ((11, "Iman–Davenport"), (10, "exact")):
        said = texts(compare(study_of(4, n_datasets)))
        assert (
            "does not separate it from any other method, nor any two others from each other"
            in said[1]
        )
        assert said[2].startswith(
            f"Over all methods together, Friedman's test finds no difference ({by}, p = ."
        )


def test_the_order_goes_by_means_and_not_by_ranks():
    rows = []
    for d in range(13):  # b wins narrowly on seven datasets, a by far on the six others
        a, b = (0.5, 0.51) if d < 7 else (0.9, 0.1)
        rows += [
            {"dataset": f"d{d}", "method": m, "f1": x + d / 1000 * (m == "a")}
            for m, x in (("a", a), ("b", b))
        ]
    found = compare(Study.from_frame(pd.DataFrame(rows)), on="f1", alpha=0.3, test="wilcoxon")
    assert found.separated == [("a", "b")] and found.leader == "a"
    ranked = compare(Study.from_frame(pd.DataFrame(rows)), alpha=0.3, order="mean-rank")
    assert ranked.scores["b"] > ranked.scores["a"] and ranked.order == ["a", "b"]
    assert any("The order puts what is certain first: a before b" in d for d in ranked.doubts)


def tied(n=6):
    rows = []
    for d in range(n):
        for m, low in (("a", 0), ("b", 0), ("c", 0.1), ("e", 0.2)):
            bonus = 0.01 if m == "ab"[d % 2] else 0
            rows.append(
                {
                    "dataset": f"d{d}",
                    "method": m,
                    "f1": 0.5 - low + bonus,
                    "recall": 0.5 - low + bonus,
                }
            )
    return Study.from_frame(pd.DataFrame(rows))


def test_a_shared_lead():
    said = texts(compare(tied(8), stability=True, n_resamples=100))
    assert said[0].startswith(
        "a and b share the lead of the fused ranking of 4 methods over 8 datasets (mean net "
        "flow 0.492 each; "
    )
    assert said[1] == (
        "The evidence separates each from both others; among the others it separates 1 pair "
        "(step-down max-T, α = .05)."
    )
    assert said[-1].startswith(
        "Which of them is ahead depends on the weights: first is a under 50% and b under 50% of "
        "100 "
    )


def test_all_tie():
    frame = pd.DataFrame([{"dataset": d, "method": m, "f1": 0.5} for d in "de" for m in "abc"])
    said = texts(compare(Study.from_frame(frame), stability=True, test="nemenyi"))
    assert said[0].startswith("a, b and c all tie by f1 among 3 methods")
    assert said[1].startswith("The evidence does not separate them from each other (")


def test_the_only_measure_is_compared_as_itself():
    found = compare(published_study().select(measures=["f1"]), stability=True)
    assert found.on == "f1" and found.flows is found.table and found.stability is None
    assert not re.search("fused|weight|flow", " ".join(texts(found)))


def test_given_weights_and_functions():
    said = texts(published(weights="equal", preference="gaussian"))
    assert "Gaussian preference, equal weights" in said[0]
    study = study_of(3, 4)
    said = texts(
        compare(
            study,
            weights={"f1": 2, "hamming_loss": 1},
            preference={"f1": "usual", "hamming_loss": "level"},
        )
    )
    assert (
        "2 measures, preference usual for f1, level for hamming_loss, weights 2 for f1, 1 for "
        "hamming_loss)" in said[0]
    )
    measures = [f"m{i}" for i in range(6)]
    study = study_of(3, 4, measures=tuple(measures))
    assert (
        "weights 2 for m3, 1 for all others)"
        in texts(compare(study, weights=dict.fromkeys(measures, 1) | {"m3": 2}))[0]
    )
    assert (
        "given weights)"
        in texts(compare(study, weights={m: i + 1 for i, m in enumerate(measures)}))[0]
    )


def test_no_policy_to_vary_and_a_policy_that_leaves_the_leader_out():
    said = " ".join(texts(compare(study_of(4, 8, gap=0.1), stability=True, n_resamples=100)))
    assert "policies" not in said and "policy" not in said
    study = study_of(4, 8, gap=0.1)
    values = study.values.copy()
    values.loc[("d1", "m0")] = np.nan
    said = " ".join(
        texts(compare(Study(values, study.directions, "worst"), stability=True, n_resamples=100))
    )
    assert "(not drop-methods, which leaves it out)" in said and "where it falls, m1 leads" in said


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


def test_a_lead_that_nothing_shakes():
    said = texts(compare(study_of(4, 8, gap=0.1), stability=True, n_resamples=100))
    assert said[-3:-1] == [
        "Its lead survives all 11 other combinations of preference function and weights and the "
        "absence of any one other method.",
        "All 6 separations stay under every other choice of function, weights or measures (14 "
        "were tried).",
    ]
    assert (
        said[-1]
        == "It leads under 100% of 100 random weightings; no change of a single weight would "
        "cost it the lead."
    )


def test_hostile_names_are_cut_and_hold_no_control_characters():
    said = " ".join(texts(nasty(stability=True, n_resamples=50)))
    assert "\x1b" not in said and "\n" not in said and "x" * 60 not in said


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    n_methods=st.integers(2, 9),
    n_datasets=st.integers(1, 13),
    seed=st.integers(0, 10_000),
    decimals=st.integers(1, 4),
    gap=st.sampled_from([0.0, 0.005, 0.02]),
    on=st.sampled_from(["fused", "f1", "hamming_loss"]),
    test=st.sampled_from(["max-t", "wilcoxon", "nemenyi"]),
    correction=st.sampled_from(["holm", "none"]),
)
def test_a_verdict_holds_in_any_design(
    n_methods, n_datasets, seed, decimals, gap, on, test, correction
):
    found = compare(
        study_of(n_methods, n_datasets, gap, seed, decimals),
        on=on,
        test=test,
        correction=correction,
    )
    sentences = verdict(found)
    said = " ".join(plain(s.text) for s in sentences)
    assert 1 <= len(sentences) <= 5
    assert all(
        s.text[-1] == "." and s.text.count("(") == s.text.count(")") and s.rests_on
        for s in sentences
    )
    assert not re.search(r"nan|None|\{|\}|  | 1 (methods|datasets|measures|pairs)\b", said)
    leaders, scores = found.leaders, found.scores
    assert set(leaders) == set(scores.index[np.isclose(scores, scores.max())])
    assert sentences[0].text.startswith(listed(leaders))
    if n_datasets == 1:
        assert "separate" not in said and "Tests over datasets need more than one" in said
        return
    evidence = plain(sentences[1].text)
    if evidence.startswith("The evidence") and len(leaders) == 1:
        behind = {b for a, b in found.separated if a == leaders[0]}
        above = {a for a, b in found.separated if b == leaders[0]}
        assert ("does not separate it" in evidence) == (not behind and not above)
        if "separates it from" in evidence and evidence.split(" (")[0].endswith(" only"):
            assert evidence.split(" from ")[1].split(" only")[0] == plain(
                listed([m for m in found.order if m in behind])
            )
    assert ("cannot reject" in said) == (test == "wilcoxon" and not found.feasibility.can_reject)
    assert ("datasets cannot say" in said) == (test == "max-t" and n_datasets < 6)
    tested = found.decides_over == "datasets"
    whole = n_methods > 2 and found.friedman.best_pvalue > 0.05
    assert ("finds no difference" in said) == (tested and whole)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    n_methods=st.integers(3, 6),
    n_datasets=st.integers(1, 6),
    seed=st.integers(0, 10_000),
    gap=st.sampled_from([0.0, 0.01]),
)
def test_stability_in_words_agrees_with_its_numbers(n_methods, n_datasets, seed, gap):
    found = compare(study_of(n_methods, n_datasets, gap, seed), stability=True, n_resamples=50)
    leaders = found.leaders
    said = " ".join(texts(found))
    if len(leaders) > 1:
        assert "depends on the weights" in said
        return
    first = found.stability.acceptability.acceptability.loc[leaders[0], 1]
    assert f"It leads under {percent(first)} of 50 random weightings" in said
    single = found.stability.dethrone.single
    assert ("no change of a single weight" in said) == (single is None)
    if not found.stability.leave_one_out.winner_changes:
        assert "the absence of any one other method" in said and "other method but" not in said


def test_cliques_in_words():
    found = published()
    assert plain(describe_cliques(found.cliques, found.order)) == (
        "Not separated from each other: RF-PCT to RAkEL (11 methods); CC, CLR, QWML and 5 more."
    )
    apart = compare(study_of(3, 12, gap=0.1))
    assert describe_cliques(apart.cliques, apart.order) == "Every two methods are separated."


def test_cliques_that_overlap_are_all_told():
    found = compare(study_of(5, 12, gap=0.004, seed=2))
    said = plain(describe_cliques(found.cliques, found.order))
    for clique in found.cliques:
        assert all(m in said or f"({len(clique)} methods)" in said for m in clique)


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
        assert {one["claim"] for one in differ} <= (
            {"folds separate"} if found.decides_over == "folds" else {"separated", "use one"}
        )


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
