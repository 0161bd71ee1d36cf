"""The JSON report: all keys, unrounded, plain, safe; and the CSV files beside it."""

import csv
import html
import io
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_cases import PROVENANCE, nasty, published, published_study, render, study_of

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.report import text as escape
from mlflow_mleval.report.blocks import glossary
from mlflow_mleval.report.content import ranking as best_methods
from mlflow_mleval.report.content.decision import verdict
from mlflow_mleval.report.content.study_report import document
from mlflow_mleval.report.data import plain, to_json
from mlflow_mleval.study import Study


def at(record, key):
    """What stands under a dotted key."""
    for part in key.split("."):
        record = record[part]
    return record


def as_dict(comparison, provenance=None):
    return document(comparison, provenance or {}).to_dict()


CASES = {
    "published": lambda: published(stability=True),
    "one measure tested": lambda: published(on="f1", control="BR"),
    "one dataset": lambda: compare(study_of(3, 1)),
    "two methods": lambda: compare(study_of(2, 5, measures=("f1",))),
    "hostile names": lambda: nasty(stability=20),
}


@pytest.mark.parametrize("case", CASES)
def test_every_key_is_there_and_survives_json(case):
    found = CASES[case]()
    record = as_dict(found, PROVENANCE)
    assert list(record) and set(record) == set(glossary("keys"))
    assert render(found, "json") == to_json(record)  # piece by piece as in one
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    text = to_json(record)
    assert json.loads(text) == record
    expected = text.replace("\n", "").replace("\u200d", "")
    assert escape.terminal(text.replace("\n", "").replace("\u200d", "")) == expected
    for sentence in verdict(found):
        assert all(at(record, key) is not None for key in sentence.claim.rests_on), sentence


def test_the_published_study_in_numbers():
    found = published(stability=True)
    record = as_dict(found, PROVENANCE)
    first = record["ranking"][0]
    assert (first["method"], first["rank"], first["position"]) == ("RF-PCT", 4.0, 1)
    assert set(first) >= {"method", "rank", "phi_plus", "phi_minus", "phi"}
    by_dataset = [row for rows in record["datasets"].values() for row in rows]
    for row in record["ranking"]:
        own = [r for r in by_dataset if r["method"] == row["method"]]
        assert len(own) == 11
        for key in ("rank", "phi_plus", "phi_minus", "phi"):
            assert math.isclose(row[key], np.mean([r[key] for r in own]), rel_tol=1e-12)
        assert math.isclose(row["phi"], row["phi_plus"] - row["phi_minus"], abs_tol=1e-12)
    assert all(math.isclose(sum(weights.values()), 1) for weights in record["weights"].values())
    assert record["nemenyi"]["significant_pairs"] == [["RF-PCT", "PCT"]]
    assert record["decides"] == "max-t"
    assert record["separated"] == [[m, "PCT"] for m in ("RF-PCT", "RFML-C4.5", "HOMER", "BR")]
    assert record["max_t"]["significant_pairs"] == record["separated"]
    assert (first["low"], first["high"], record["ranking"][-1]["low"]) == (1, 11, 5)
    assert record["nemenyi"]["critical_difference"] == found.nemenyi.critical_difference
    assert len(record["pairwise"]["pairs"]) == 66
    assert "It takes 12 datasets" in record["pairwise"]["warnings"][0]
    assert record["stability"]["smallest_change"]["measure"] == "micro_recall"
    shares = record["stability"]["acceptability"]["shares"]
    assert all(math.isclose(sum(row), 1) for row in shares.values())
    intervals = record["stability"]["intervals"]["measures"]
    interval = next(row for row in intervals if row["measure"] == "hamming_loss")
    assert interval["rival_high"] is None and interval["weight_high"] == 1
    assert record["provenance"] == PROVENANCE
    told = [{"dataset": d, "method": m} for d, m in found.study.filled]
    assert record["study"]["filled"][0] in told
    assert record["options"]["missing"] == "worst" and record["excluded"] == []


def test_parts_that_were_not_computed_are_null_and_explained():
    found = compare(study_of(3, 1))
    record = as_dict(found)
    for key in ("friedman", "max_t", "nemenyi", "pairwise", "stability"):
        assert record[key] is None
    assert "1 dataset" in record["absent"]["friedman"] and record["decides"] == "none"
    assert record["ranking"][0]["letters"] is None and record["provenance"] == {}
    for format in ("table", "md", "latex", "html"):
        assert "No test over datasets is possible with 1 dataset." in render(found, format, "pairs")


def test_a_control_is_named():
    record = as_dict(published(control="BR", test="bonferroni-dunn"))
    assert record["nemenyi"]["test"] == "bonferroni-dunn" and record["nemenyi"]["control"] == "BR"
    assert record["ranking"][0]["letters"] is None and len(record["pairwise"]["pairs"]) == 11


_LEAVES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(pd.NaT)),
    *(st.floats().map(np.float64), st.integers(0, 9).map(np.int32), st.booleans().map(np.bool_)),
    st.just(pd.Timestamp("2025-01-01")),
)
values = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        *(st.lists(inner), st.tuples(inner)),
        st.dictionaries(st.one_of(st.text(), st.integers()), inner),
        st.lists(st.floats(), min_size=1).map(np.array),
        st.lists(st.floats()).map(lambda x: pd.DataFrame({"x": x})),
    ),
    max_leaves=12,
)


@given(values)
def test_plain_gives_data_that_json_takes(value):
    found = plain(value)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert plain(found) == found
    to_json({"x": found}).encode("utf-8")


def read(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_is_unrounded_and_its_columns_are_those_documented():
    found = published(stability=True)
    files = document(found, PROVENANCE).files()
    assert json.loads(files.pop("report.json")) == as_dict(found, PROVENANCE)
    assert {name: ", ".join(read(text)[0]) for name, text in files.items()} == {
        name: columns
        for name, columns in glossary("files").items()
        if not name.startswith(("fold_", "profile_", "next_dataset_", "instances", "repeat"))
    }
    assert all(text.count("\r\n") == text.count("\n") for text in files.values())
    assert files["ranking.csv"] == render(found, "csv")
    assert files["pairs.csv"] == render(found, "csv", "pairs")
    for row in read(files["ranking.csv"]):
        assert float(row["phi"]) == found.fusion.ranking.loc[row["method"], "phi"]
    assert len(read(files["values.csv"])) == 12 * 11 * 16
    with pytest.raises(ValueError, match="`format` must be one of"):
        render(found, "pdf")


def test_csv_of_values_reads_back_as_the_study():
    found = published()
    back = pd.read_csv(io.StringIO(document(found, {}).files()["values.csv"]))
    wide = back.pivot(index=["dataset", "method"], columns="measure", values="value")
    values = found.study.values[sorted(found.study.measures)].sort_index()
    pd.testing.assert_frame_equal(wide, values, check_names=False, check_exact=True)


@pytest.mark.parametrize("format", ["md", "latex", "html"])
@pytest.mark.parametrize("options", [{}, {"control": "BR"}, {"on": "f1", "rope": 0.01}], ids=str)
def test_what_is_about_pairs_answers_for_pairs(format, options):
    found = published(**options)
    ranking, pairs = (render(found, format, what) for what in ("ranking", "pairs"))
    flat = " ".join(re.sub(r"<[^>]*>", "", html.unescape(pairs)).replace("\\_", "_").split())
    seen = "4 of 66 pairs are separated: RF-PCT, BR, HOMER and RFML-C4.5 from PCT." in flat
    assert seen == (options == {})
    assert ("1 of 11 pairs with the control is separated" in flat) == ("control" in options)
    assert ("too small to matter" in flat) == ("rope" in options)
    assert "is ahead" not in flat and "best–worst" not in flat
    assert "is ahead" in ranking and "mlflow-mleval 0.1.0" in flat


def test_pairs_point_from_the_better_method_and_keep_the_tests_figures():
    found = published()
    frame, mean = found.pairs, found.ranks.mean()
    original = found.pairwise.table.set_index(["method_a", "method_b"])
    place = {method: i for i, method in enumerate(found.order)}
    assert len(frame) == 66 and frame["separated"].tolist() == [True] * 4 + [False] * 62
    assert frame["pvalue_max_t"].is_monotonic_increasing
    table = found.table.where(published_study().finished())
    for row in frame.itertuples():
        a, b = row.method_a, row.method_b
        assert place[a] < place[b]
        assert math.isclose(row.mean_rank_difference, mean[a] - mean[b], abs_tol=1e-12)
        difference = (table[a] - table[b]).dropna()
        assert math.isclose(row.mean_difference, difference.mean(), abs_tol=1e-12)
        assert row.flow_low <= row.flow_difference <= row.flow_high
        assert row.separated == (row.flow_low >= 0 or row.flow_high <= 0)
        assert row.wins + row.ties + row.losses == row.n == len(difference)
        assert row.wins == (difference > 1e-9).sum()
        same = (a, b) in original.index
        test = original.loc[(a, b) if same else (b, a)]
        assert (row.pvalue, row.pvalue_corrected) == (test.pvalue, test.pvalue_corrected)
        assert row.effect_size == (1 if same else -1) * test.effect_size
        assert row.pvalue_max_t == found.max_t.pvalues.loc[a, b]
        assert row.pvalue_nemenyi == found.nemenyi.pvalues.loc[a, b]


def test_every_dataset_has_its_flows_by_measure():
    frame = pd.DataFrame(
        {"dataset": "d", "method": list("abc"), "f1": [0.9, 0.6, 0.5], "recall": [0.5, 0.6, 0.9]}
    )
    found = as_dict(compare(fuse(Study.from_frame(frame), weights="equal")))["promethee"]["d"]
    assert found["unicriterion"]["a"]["f1"] == pytest.approx((0.3 + 0.4) / 0.4 / 2)
    assert found["thresholds"]["f1"]["p"] == pytest.approx(0.4)
    assert found["unicriterion"]["a"]["recall"] == pytest.approx(-0.625)
    assert found["incomparable"] == []


def test_of_very_many_methods_tables_of_pairs_hold_the_best(monkeypatch):
    found = compare(study_of(6, 3), stability=20, rope=0.01)
    whole = as_dict(found)
    assert whole["shortened"] == {} and "shortened" not in render(found, "html")
    monkeypatch.setattr(best_methods, "MOST", 4)
    short, best = as_dict(found), {*found.fusion.ranking.index[:4]}
    assert set(short["shortened"].values()) == {"the best 4 of 6 methods"}
    for key in short["shortened"]:
        old, new = (
            at(record, key.replace("DATASET", next(iter(record["promethee"]))))
            for record in (whole, short)
        )
        assert len(new) < len(old) or "reversals" in key or not old, key
    assert all({row["method_a"], row["method_b"]} <= best for row in short["pairwise"]["pairs"])
    assert len(short["pairwise"]["pairs"]) == 6
    assert "hold the best 4 of 6 methods" in render(found, "html")
    assert len(found.report().files()["pairs.csv"].splitlines()) == 1 + 6
    assert len(render(found, "csv", "pairs").splitlines()) == 1 + 15
