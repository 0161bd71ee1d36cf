"""Tests of pairs have one table, one correction and one verdict, whatever the unit is; maximal
cliques against networkx, and letters against what they must say.
"""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_cases import study_of, three_methods

from mlflow_mleval.analysis import pairs as module
from mlflow_mleval.analysis.answer_comparison import Answers, aligned, compare_answers
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fold_comparison import compare_folds
from mlflow_mleval.analysis.loss_profiles import Profiles, compare_profiles
from mlflow_mleval.analysis.pairs import COLUMNS, cliques, holm, jointly, letters, stepped
from mlflow_mleval.analysis.pairs_by_unit import instance_tests, repeat_tests

METHODS = ["a", "b", "c"]


def values(n: int, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Three methods on n units, of which c is the best by f1 and the worst by hamming_loss."""
    rng = np.random.default_rng(seed)
    shift = {"a": 0.0, "b": 0.0, "c": 0.3}
    return {
        m: pd.DataFrame(rng.normal(0, 0.1, (n, 2)) + by, columns=["f1", "hamming_loss"])
        for m, by in shift.items()
    }


def over_instances(seed: int = 0):
    return instance_tests(values(60, seed), ["f1", "hamming_loss"], n_resamples=199)


def over_repeats():
    return repeat_tests(values(5))


def over_folds():
    return compare_folds(three_methods(), "birds")


def over_answers():
    def answers(table: pd.DataFrame) -> Answers:
        keys = pd.Index([f"q{k}" for k in range(len(table))])
        table = table.set_axis(keys)
        return Answers(table, pd.DataFrame({"link": "", "asked": keys}, keys))

    return compare_answers(aligned({m: answers(t) for m, t in values(40).items()}), n_resamples=199)


def over_profiles():
    a, b = [[64, 48, 12, 1], [60, 50, 14, 1], [66, 47, 11, 1]], [[90, 5, 0, 30]] * 2
    return compare_profiles(Profiles.from_counts({("d", "A"): a, ("d", "B"): [*b, [85, 9, 1, 30]]}))


def over_datasets():
    return compare(study_of(3, 8, gap=0.1)).tests_over("datasets")[""]


UNITS = {
    f.__name__.removeprefix("over_"): f
    for f in (over_datasets, over_folds, over_repeats, over_instances, over_answers, over_profiles)
}


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_has_the_same_table_and_verdict(unit):
    tests = UNITS[unit]()
    assert tests.unit == unit
    pairs = tests.pairs
    assert [name for name in pairs if name != "dataset"] == COLUMNS
    assert ("dataset" in pairs) == (unit == "profiles")
    assert (pairs["separated"] == (pairs["pvalue_corrected"] <= tests.alpha)).all()
    tested = pairs.dropna(subset="pvalue")
    assert (tested["pvalue_corrected"] >= tested["pvalue"] - 1e-12).all()
    inside = tested.dropna(subset="low")
    assert inside["difference"].between(inside["low"], inside["high"]).all()
    counted = pairs.dropna(subset="wins")
    assert (counted[["wins", "ties", "losses"]].sum(axis=1) == counted["n"]).all()
    apart = int(tests.by_pair["separated"].sum())
    verdict = tests.verdict()
    assert verdict.startswith(tests.test) and tests.about in verdict
    if len(tests.by_pair) > 1:
        assert f"separates {apart} of {len(tests.by_pair)} pairs {tests.extent}" in verdict
    found = tests.by_pair[tests.by_pair["separated"]][["method_a", "method_b"]].to_numpy()
    assert {*map(frozenset, tests.separated)} == {*map(frozenset, found)}


@pytest.mark.parametrize("unit", ["folds", "repeats", "instances", "answers"])
def test_every_unit_has_the_same_keys_in_json(unit):
    tests = UNITS[unit]()
    record = tests.report().to_dict()
    assert record["over"] == ("instances" if unit == "answers" else unit)
    assert record["decides"] == tests.test and record["doubts"] is not None
    assert [name for name in record["pairs"][0] if name != "dataset"] == COLUMNS
    assert {tuple(pair) for pair in record["separated"]} == set(tests.separated)


def test_the_better_of_a_separated_pair_comes_first():
    tests = over_instances()
    assert {("c", "a"), ("a", "c"), ("c", "b"), ("b", "c")} == set(tests.separated)


def test_tests_of_one_family_are_corrected_over_datasets_until_all_of_one_is_rejected():
    alone = {"d": over_instances(), "e": over_instances(1)}
    before = {d: one.pairs["pvalue_corrected"].to_numpy() for d, one in alone.items()}
    worst = np.array([p.max() for p in before.values()])
    for d, one in jointly(alone).items():
        after = one.pairs["pvalue_corrected"].to_numpy()
        assert after.tolist() == stepped(before[d], worst).tolist() and one.n_datasets == 2
        low, high = one.pairs["low"], one.pairs["high"]
        assert ((low >= 0) | (high <= 0)).tolist() == one.pairs["separated"].tolist()
        assert (low <= alone[d].pairs["low"]).all() and (high >= alone[d].pairs["high"]).all()
    for pvalues in ([0.02], [0.03, 0.01], [0.01, np.nan, 0.02]):  # a family of one is Holm's
        p = np.array(pvalues)
        np.testing.assert_array_equal(stepped(p, p[~np.isnan(p)]), holm(p))


def test_only_pairs_whose_first_method_is_behind_are_turned():
    columns = ["method_a", "method_b", "wins", "losses", "mean", "low", "high"]
    rows = [
        ["x", "y", 1, 4, -0.5, -1.0, 0.0],
        ["x", "z", 2, 5, 0.25, 0.0, 0.5],
        ["y", "z", 3, 6, 1.0, 0.5, 2.0],
    ]
    pairs = pd.DataFrame(rows, index=[7, 3, 5], columns=columns)
    found = module.better_first(pairs, module.behind(pairs, ["y", "x", "z"]))
    assert found.loc[7].tolist() == ["y", "x", 4, 1, 0.5, 0.0, 1.0]
    pd.testing.assert_frame_equal(found.iloc[1:], pairs.iloc[1:])
    turned = module.better_first(pairs, [True, False, True])
    pd.testing.assert_frame_equal(module.better_first(turned, [True, False, True]), pairs)


@pytest.mark.thorough
def test_two_datasets_separate_equal_methods_no_more_often_than_one():
    rng = np.random.default_rng(3)
    apart = 0
    for _ in range(60):
        tables = [{m: pd.DataFrame({"f1": rng.random(30)}) for m in METHODS} for _ in range(4)]
        tests = jointly(
            {str(k): instance_tests(t, ["f1"], n_resamples=199) for k, t in enumerate(tables)}
        )
        apart += any(one.separated for one in tests.values())
    assert apart <= 8  # of 3 expected; uncorrected it would be 11


@st.composite
def graphs(draw):
    """Random graphs, half of them intervals on a line."""
    n = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        x = rng.random(n)
        apart = np.abs(x[:, None] - x) > rng.random()
    else:
        apart = np.triu(rng.random((n, n)) < rng.random(), 1)
        apart = apart | apart.T
    names = [f"m{i}" for i in rng.permutation(n)]
    return pd.DataFrame(apart, names, names)


def reference(apart):
    graph = nx.from_numpy_array(~apart.to_numpy() & ~np.eye(len(apart), dtype=bool))
    return [apart.index[c].tolist() for c in sorted(sorted(c) for c in nx.find_cliques(graph))]


@given(graphs())
def test_cliques_are_the_maximal_cliques(apart):
    assert cliques(apart) == reference(apart)


@given(graphs())
def test_methods_share_a_letter_exactly_where_they_are_not_separated(apart):
    shown = letters(cliques(apart), list(apart.index))
    for a in apart.index:
        assert shown[a]
        for b in apart.index:
            assert bool(set(shown[a]) & set(shown[b])) == (a == b or not apart.loc[a, b])


def test_more_cliques_than_the_limit_are_all_shown_where_methods_are_as_many(monkeypatch):
    monkeypatch.setattr(module, "MAX_CLIQUES", 1)
    x = np.arange(9.0)
    apart = pd.DataFrame(np.abs(x[:, None] - x) > 1)
    assert cliques(apart) == [[i, i + 1] for i in range(8)]


def test_overlapping_groups_and_a_lone_method():
    x = np.array([1.0, 2.0, 2.5, 3.2, 9.0])
    apart = pd.DataFrame(np.abs(x[:, None] - x) > 1.6, list("abcde"), list("abcde"))
    groups = cliques(apart)
    assert groups == [["a", "b", "c"], ["b", "c", "d"], ["e"]]
    assert letters(groups, list("abcde")) == {"a": "a", "b": "ab", "c": "ab", "d": "b", "e": "c"}
    assert letters(groups, list("edcba"))["e"] == "a"


def test_a_graph_with_too_many_cliques_gives_some_that_hold_every_pair():
    n = 2 * int(np.log2(module.MAX_CLIQUES) + 2)
    apart = np.zeros((n, n), dtype=bool)
    for i in range(0, n, 2):
        apart[i, i + 1] = apart[i + 1, i] = True
    with pytest.warns(UserWarning, match="more than 1000 maximal cliques"):
        found = cliques(pd.DataFrame(apart))
    held = np.eye(n, dtype=bool)
    for clique in found:
        assert not apart[np.ix_(clique, clique)].any()
        others = np.setdiff1d(np.arange(n), clique)
        assert apart[np.ix_(others, clique)].any(axis=1).all()
        held[np.ix_(clique, clique)] = True
    assert (held == ~apart).all()


def test_of_too_many_cliques_those_that_hold_most_open_pairs_are_shown():
    rng, n = np.random.default_rng(0), 300
    place, noise = rng.normal(size=n), rng.normal(size=(n, n))
    apart = np.abs(place[:, None] - place) + 0.15 * (noise + noise.T) > 1.5
    np.fill_diagonal(apart, False)
    with pytest.warns(UserWarning, match="more than 1000 maximal cliques"):
        assert len(cliques(pd.DataFrame(apart))) < n  # grown in any order they are 764


def test_more_groups_than_letters():
    groups = [[i] for i in range(110)]
    shown = letters(groups, list(range(110)))
    assert [shown[i] for i in (0, 25, 26, 51, 52, 104)] == ["a", "z", "A", "Z", "a2", "a3"]
    assert len(set(shown.values())) == 110
