"""Beyond p-values: the parts agree with the functions behind them, and reports say what they hold
and what is absent.
"""

import json

import pandas as pd
import pytest
from fold_cases import fold_study
from report_cases import NASTY, nasty, study_of

from mlflow_mleval.analysis.beyond_pvalues import MOST, bayesian_t
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.beyond import (
    beyond_pairs,
    probability,
    sentences,
)
from mlflow_mleval.report.content.study_report import document


@pytest.fixture(scope="module")
def four():
    return compare(study_of(4, 10, gap=0.02), on="f1", rope=0.01)


def test_over_datasets_the_parts_are_those_of_their_functions(four):
    found = four.beyond
    expected = bayesian_t(four.table[four.order], 0.01)
    pd.testing.assert_frame_equal(found.bayes.table, expected.table)
    said = plain(" ".join(sentences(four)))
    assert f"different by more than 0.01 ({expected.by_chance:.1f} expected by chance)" in said
    assert found.absent == {}


def test_below_ten_datasets_one_line_says_why_there_are_no_probabilities():
    c = compare(study_of(3, 9, gap=0.05), on="f1", rope=0.01)
    assert c.beyond.bayes is None and c.beyond.pair_table(c.order) is None
    assert c.report().to_dict()["beyond"]["bayes"] is None
    why = "9 datasets: it takes at least 10"
    told = [text for text in map(plain, sentences(c)) if "Probabilities" in text]
    assert told == [f"Not computed: Probabilities ({why})."]


def test_without_a_rope_nothing_is_computed_and_with_zero_nothing_is_equivalent():
    assert compare(study_of(3, 4)).beyond is None
    found = compare(study_of(3, 10), rope=0.0).beyond
    assert found.equivalence is None
    assert "rope" in found.absent["equivalence"]
    assert found.bayes is not None
    with pytest.raises(ValueError, match="`rope` must be zero or positive"):
        compare(study_of(3, 6), rope=-1.0)


def test_one_dataset_says_what_is_absent():
    c = compare(
        fold_study({"a": (0.0, 0.0), "b": (0.1, 0.1)}, split_digest="x", n_train=90, n_test=10),
        rope=0.01,
    )
    said = plain(" ".join(sentences(c)))
    assert "1 dataset: it takes at least two" in said


def test_of_very_many_methods_only_the_best_are_compared_pair_by_pair():
    c = compare(study_of(MOST + 5, 8, gap=0.01), rope=0.01)
    assert c.beyond.methods == c.order[:MOST]


def test_the_table_puts_the_better_method_first_and_keeps_probabilities_with_their_methods(four):
    table = beyond_pairs(four.beyond, four.order[::-1], "f1", "")
    by_pair = {frozenset(row[:2]): row for row in table.rows}
    for row in four.beyond.bayes.table.itertuples():
        a, b, difference, decided, first, _, second, *_ = by_pair[
            frozenset((row.method_a, row.method_b))
        ]
        assert (a, b) == (row.method_b, row.method_a)
        assert difference.startswith("−") == (row.mean_difference > 0)
        assert (decided == "second") == (row.decision == "a")
        assert (first, second) == (probability(row.p_b), probability(row.p_a))


def test_what_does_not_matter_has_one_name(four):
    assert plain(sentences(four)[0]) == "Differences of f1 up to 0.01 count as too small to matter."
    assert not any(word in plain(" ".join(sentences(four))) for word in ("limit", "margin"))


def test_json_and_page_hold_it_and_are_silent_where_nothing_was_asked(four):
    record = json.loads(four.report().render("json"))["beyond"]
    assert record["rope"] == 0.01 and len(record["bayes"]["table"]) == 6
    assert 'id="beyond"' in four.report().to_html()
    assert "Beyond p-values" in document(four, {}, "pairs").to_text()
    nothing = compare(study_of(3, 4))
    assert nothing.report().to_dict()["beyond"] is None
    assert 'id="beyond"' not in nothing.report().to_html()


def test_names_of_strangers_are_text():
    page = nasty(rope=0.01).report().to_html()
    assert all(name not in page for name in NASTY if "<" in name)
