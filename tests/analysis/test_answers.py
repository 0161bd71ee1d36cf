"""Answers of several methods to the same questions, put side by side by what was asked."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mlflow_mleval.analysis.answer_comparison import (
    Answers,
    agreement,
    aligned,
    compare_answers,
    directed,
    most_different,
    questions_needed,
    sampling,
)
from mlflow_mleval.analysis.pairs import possible_ranks
from mlflow_mleval.analysis.pairs_by_unit import instance_tests
from mlflow_mleval.analysis.promethee import promethee
from mlflow_mleval.errors import (
    IncomparableRunsError,
    LostAnswersError,
    MissingResultsError,
    UndirectedError,
)


def made(values, keys=None, **more):
    """Answers with these columns; the questions are q0, q1 and so on unless given."""
    table = pd.DataFrame(values, dtype=float)
    table.index = pd.Index(
        [f"q{i:04d}" for i in range(len(table))] if keys is None else keys, name="instance"
    )
    links = [f"tr-{k}" for k in range(len(table))]
    about = pd.DataFrame({"asked": table.index, "link": links}, table.index)
    return Answers(table, about, **more)


def test_rows_align_by_their_key_in_whatever_order_they_come():
    rng = np.random.default_rng(0)
    keys = [f"k{i}" for i in range(50)]
    first = made({"f": np.arange(50.0), "g": np.zeros(50)}, keys)
    order = rng.permutation(50)
    second = made({"g": np.ones(50), "f": np.arange(50.0)[order]}, [keys[i] for i in order])
    found = aligned({"a": first, "b": second})
    assert found.measures == ["f", "g"] and not found.notes
    pd.testing.assert_frame_equal(found.tables["a"][["f"]], found.tables["b"][["f"]])


def test_lost_answers_are_a_doubt_while_few_and_an_error_when_many():
    whole, half, few = (made({"f": np.zeros(n)}, counted=100) for n in (100, 48, 97))
    for pair, said in (
        ((whole, half), "lost answers of b: 52 of .*48 of 100 instances.*b: 52 of 100"),
        ((half, half), "lost answers of a: 52 of 100 answers, b: 52 of 100 answers"),
    ):
        with pytest.raises(MissingResultsError, match=said):
            aligned(dict(zip("ab", pair, strict=True)))
    kept = aligned({"a": whole, "b": half}, shared=True)
    assert len(kept.tables["a"]) == 48 and "48 of 100 instances are known" in kept.notes[1]
    told = aligned({"a": whole, "b": few}).notes
    assert "b: 3 of 100 answers" in told[0] and "97 of 100 instances" in told[1]


def test_nothing_in_common_is_an_error():
    with pytest.raises(IncomparableRunsError, match="share none of their 4 instances"):
        aligned({"a": made({"f": [0, 1]}, ["x", "y"]), "b": made({"f": [0, 1]}, ["u", "v"])})
    said = "no measure by instance in common .a: f; b: g."
    with pytest.raises(IncomparableRunsError, match=said):
        aligned({"a": made({"f": [0, 1]}), "b": made({"g": [0, 1]})})
    with pytest.raises(MissingResultsError, match="only 1 method"):
        aligned({"a": made({"f": [0, 1]})})


def test_other_data_scorers_measures_and_failures_are_doubts_with_numbers():
    about = {"digest": "d1", "scorers": {"f": "v1"}, "notes": ("Not read.",)}
    first = made({"f": [0, np.nan, 1], "only": [1, 1, 1]}, **about)
    second = made({"f": [0, 1, 1]}, digest="d2", scorers={"f": "v2"})
    notes = "\n".join(aligned({"a": first, "b": second}).notes)
    for said in ("Not read.", "d1: a; d2: b", "left out: only", "f of a: 1 of 3"):
        assert said in notes
    assert "other versions of the scorer on f" in notes


def test_a_question_counts_once_however_often_it_was_answered():
    twice = made({"f": [0, 1, 1, 1]}, ["q", "q", "r", "s"])
    found = aligned({"a": twice, "b": made({"f": [0.0, 1.0, 0.0]}, ["q", "r", "s"])})
    assert found.tables["a"]["f"].tolist() == [0.5, 1, 1]
    assert "a: 4 answers, b: 3 answers" in found.notes[-1]


def test_means_of_repeated_answers_are_refused_where_some_are_lost():
    """What is left of them may be the best of them; of the champion that does no harm."""
    whole = made({"f": [1.0, 1.0, 0.0]}, ["q", "q", "r"])
    cut = replace(whole, counted=5)
    with pytest.raises(LostAnswersError, match="lost 2 of 5 answers of new to questions"):
        aligned({"new": cut, "old": whole}, asked_of="old")
    assert len(aligned({"new": whole, "old": cut}, asked_of="old").tables["new"]) == 2


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(1)
    hard = rng.random(400)
    right = {m: rng.random(400) > hard * c for m, c in {"a": 0.6, "b": 0.9, "c": 0.9}.items()}
    tables = {m: {"exact": y, "length": rng.normal(size=400), "judge": y} for m, y in right.items()}
    return aligned({m: made(table, passing=("exact", "judge")) for m, table in tables.items()})


def test_the_ranking_is_that_of_the_means_with_the_ranks_that_separations_leave(found):
    compared = compare_answers(found, minimize=["length"], n_resamples=199)
    means = pd.DataFrame({m: t.mean() for m, t in found.tables.items()}).T
    flows = promethee(means, minimize=["length"], preference="v_shape", weights="equal").flows
    ranking = compared.ranking
    assert ranking.index[0] == "a" and ranking["phi"].to_dict() == flows["phi"].to_dict()
    left = possible_ranks([*ranking.index], compared.separated)
    pd.testing.assert_frame_equal(ranking[["low", "high"]], left, check_names=False)
    same = made({"f": np.ones(30) * 0.3})
    tied = compare_answers(aligned({"a": same, "b": same}), maximize=["f"], n_resamples=99)
    assert tied.ranking[["rank", "low", "high"]].to_numpy().tolist() == [[1.5, 1, 2]] * 2


def test_directions_are_declared_known_of_pass_and_cost_or_confirmed(found):
    with pytest.raises(UndirectedError, match="length"):
        directed(found, named=True)
    declared = directed(found, ["length", "judge"], named=True)[1]
    assert declared == {"exact": "max", "length": "min", "judge": "min"}
    columns = {"hamming_loss": [0, 1], "latency_s": [1, 2], "size": [3, 4], "correctness": [0, 1]}
    columns["params_match"] = [0, 1]
    answers = made(columns, passing=("hamming_loss",))
    pair = aligned({"a": answers, "b": answers})
    kept, better, granted = directed(pair)
    # what the registry knows keeps its direction, passing or not
    assert better == {"hamming_loss": "min", "latency_s": "min"}
    assert "no direction is known: size, correctness, params_match" in kept.notes[-1]
    assert "smaller values of latency_s are better" in granted[0] and len(granted) == 1
    assert directed(kept, [], ["latency_s"])[1]["latency_s"] == "max"
    with pytest.raises(UndirectedError, match="no direction is known for size"):
        directed(replace(pair, measures=["size"]))
    pair = replace(pair, measures=[m for m in pair.measures if m != "params_match"])
    told, better, _ = directed(pair, ["size"], ways="proposed")
    assert better["size"] == "min" and better["correctness"] == "max"
    assert "larger values of correctness are better" in told.notes[-1]
    assert directed(pair, ["size", "correctness"], ways="proposed")[0] == pair


def test_most_different_instances_come_with_links(found):
    table = most_different(found, "a", "b", directed(found, ["length"])[1], most=5)
    assert len(table) == 5 and table["difference"].abs().is_monotonic_decreasing
    key = table.index[0]
    expected = found.tables["a"].loc[key, "exact"] - found.tables["b"].loc[key, "exact"]
    assert table.loc[key, "exact"] == expected
    assert table.loc[key, "link_a"] == found.answers["a"].about.loc[key, "link"]
    assert table.loc[key, "exact:a"] == found.tables["a"].loc[key, "exact"]
    assert table.loc[key, "exact:b"] == found.tables["b"].loc[key, "exact"]


def test_agreement_finds_the_scorer_that_says_the_same(found):
    table = agreement(found).set_index(["measure_a", "measure_b"])
    same = table.loc[("exact", "judge")]
    assert same["redundant"] and same["correlation"] == pytest.approx(1)
    assert not table.loc[("exact", "length"), "redundant"] and table["n"].eq(1200).all()


def test_variance_is_shared_between_question_and_sampling():
    rng = np.random.default_rng(2)
    n, k, between, within = 3000, 4, 0.5, 2.0
    question = np.repeat(rng.normal(0, np.sqrt(between), n), k)
    keys = np.repeat([f"q{i:05d}" for i in range(n)], k)
    answers = made({"f": question + rng.normal(0, np.sqrt(within), n * k)}, keys)
    row = sampling(aligned({"a": answers, "b": answers})).iloc[0]
    assert row["question_variance"] == pytest.approx(between, rel=0.1)
    assert row["sampling_variance"] == pytest.approx(within, rel=0.1)
    assert row["question_share"] == pytest.approx(0.2, abs=0.02)
    expected = answers.values["f"].groupby(level=0).mean().std() / np.sqrt(n)
    assert row["standard_error"] == pytest.approx(expected)
    assert row["with_questions"] < row["with_samples"] < row["standard_error"]
    assert sampling(aligned({m: made({"f": [0, 1]}) for m in "ab"})).empty


def test_questions_needed_find_the_difference_that_often():
    rng = np.random.default_rng(3)
    d = rng.normal(0.2, 1, 200)
    d = (d - d.mean()) / d.std(ddof=1) + 0.2
    pair = aligned({"a": made({"f": d}), "b": made({"f": np.zeros(200)})})
    tests = instance_tests(pair.tables, ["f"], maximize=["f"], n_resamples=99)
    row = questions_needed(tests).iloc[0]
    assert row["difference"] == pytest.approx(0.2) and row["needed"] == 197 and row["more"] == 0
    drawn = rng.normal(0.2, 1, (4000, int(row["needed"])))
    power = (np.abs(drawn.mean(1) / drawn.std(1, ddof=1)) * np.sqrt(row["needed"]) > 1.96).mean()
    assert power == pytest.approx(0.8, abs=0.03)
    told = [questions_needed(tests, stated).iloc[0] for stated in (0.1, {"f": 0.1})]
    assert [(row["difference"], row["more"]) for row in told] == [(0.1, 785 - 200)] * 2
    for wrong, said in (
        ({"g": 0.1}, "of the measures f and greater than 0, got {'g': 0.1}"),
        (0.0, "greater than 0, got {'f': 0.0}"),
    ):
        with pytest.raises(ValueError, match=said):
            questions_needed(tests, wrong)
    tests = instance_tests(pair.tables, ["f"], maximize=["f"], clusters=np.arange(200) // 10)
    assert questions_needed(tests).iloc[0]["n"] == 20
