"""The small parts that reports are made of, by example: names and numbers, words, scales."""

import numpy as np
import pandas as pd
import pytest

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.report import text
from mlflow_mleval.report.blocks import (
    Column,
    capitalised,
    claim,
    glossary,
    intervals,
    joined,
    listed,
    name,
)
from mlflow_mleval.report.blocks import plain as unmarked
from mlflow_mleval.report.content.decision import choices, verdict
from mlflow_mleval.report.content.gate import _rounded, short
from mlflow_mleval.report.content.study_report import Reference
from mlflow_mleval.report.data import cleaned, plain, to_json
from mlflow_mleval.report.figures import Scale, room_for, spread
from mlflow_mleval.report.html import _cell
from mlflow_mleval.report.latex import _latex_of
from mlflow_mleval.report.terminal import short_ids
from mlflow_mleval.study import Study

NAN = float("nan")


@pytest.mark.parametrize(
    ("write", "numbers", "shown"),
    [
        (text.number, (4, 0.123456, -1234.56, 1e-7, NAN), ["4", "0.1235", "−1235", "1e−07", "–"]),
        (text.large, (0.25, 950, 12_000, 10_000_000, 7e9), ["0.25", "950", "12k", "10M", "7B"]),
        (text.pvalue, (0.0123, 0.0004, 0.0499), ["p = .012", "p < .001", "p = .0499"]),
        (
            text.percent,
            (0.8196, 0.9999, 1.0, 0.0001),
            ["82%", "more than 99%", "100%", "less than 1%"],
        ),
        (text.probability_said, (0.9999, 0.256, 0.0004), [">.99", ".26", "<.01"]),
        (text.level, (0.05, 0.001), [".05", ".001"]),
        (text.confidence, (0.05, 0.001), ["95%", "99.9%"]),
        (_rounded, (1078.0, 8.0), ["1,100", "8"]),
        (short, (-0.0312, 12.34), [".031", "12"]),
    ],
)
def test_a_number_as_a_reader_sees_it(write, numbers, shown):
    assert [*map(write, numbers)] == shown


def test_numbers_in_cells():
    assert [text.fixed(x, 2) for x in (4, -0.001, -1.5, None)] == ["4.00", "0.00", "−1.50", "–"]
    assert text.aligned([0.25, -0.1234567, None]) == ["0.2500", "−0.1235", "–"]
    assert text.aligned([123.456, 2]) == ["123.5", "2.0"]
    assert [text.pvalue(p, bare=True) for p in (0.0004, 0.25, None)] == ["<.001", ".250", "–"]
    assert [text.percent(x, bare=True) for x in (0.9999, 0.0001)] == [">99%", "<1%"]
    assert intervals("", pd.DataFrame([(0.25, 0.1, 0.4)])).cells == ["0.250 [0.100, 0.400]"]


@pytest.mark.parametrize(
    ("escape", "given", "shown"),
    [
        (text.terminal, "a\x1b[31mred\n\u202eb", "a␛[31mred␊�b"),
        (text.csv_cell, "=cmd()", "'=cmd()"),
        (text.csv_cell, "-1.5", "-1.5"),
        (text.csv_cell, -1.5, "-1.5"),
        (text.csv_cell, "-x", "'-x"),
        (text.csv_cell, NAN, ""),
        (text.csv_cell, True, "true"),
        (text.latex, "a_b & 5%", r"a\_b \& 5\%"),
        (text.latex, r"\input{x}", r"\textbackslash{}input\{x\}"),
        (text.markdown, "a|b *c* <d> [e](f)", r"a\|b \*c\* &lt;d&gt; \[e\](f)"),
        (cleaned, "a\u2800b\ufe0fc\u200d\u200cd", "a�bc�d"),
        (short_ids, f"a on d (run {'0123456789abcdef' * 2})", "a on d (run 01234567…)"),
        (
            _latex_of,
            "No direction is known; declare --min or --max. 132 runs; policy worst; command: x --y",
            "No direction is known. 132 runs; policy worst",
        ),
    ],
)
def test_a_text_in_a_format(escape, given, shown):
    assert escape(given) == shown


def test_names_are_cut_in_the_middle_and_still_differ():
    assert [text.shorten(x, 6) for x in ("RFML-C4.5", "PCT")] == ["RFM….5", "PCT"]
    seeds = text.shortened(["run_lr0.1_seed1_long", "run_lr0.2_seed1_long", "BR"], 11)
    assert [*seeds.values()] == ["run…1_s…ong", "run…2_s…ong", "BR"]
    words = text.shortened(["network_alpha_trained", "network_gamma_trained"], 15)
    assert [*words.values()] == ["netwo…alph…ined", "netwo…gamm…ined"]


def test_texts_fill_and_break_lines():
    assert (text.pad("木", 4), text.pad("ab", 4, ">")) == ("木  ", "  ab")
    lines = text.wrap("- ", "the quick brown fox, p = .012", 18)
    assert lines == ["- the quick brown", "  fox, p = .012"]


def test_names_in_sentences():
    assert (unmarked(name("RF")), name("RF") == "RF") == ("RF", False)
    texts = listed("ab"), listed("abc", last="or"), listed("abcdef")
    assert [*map(unmarked, texts)] == ["a and b", "a, b or c", "a, b, c and 3 more"]
    assert (joined(["a"]), joined(["a", "b", "c"])) == ("a", "a, b and c")
    said = [capitalised(x, ["random forest"]) for x in ("random forest leads", "two lead")]
    assert said == ["random forest leads", "Two lead"]


def test_words_of_reports():
    assert claim("separated", "max_t").rests_on == ("max_t", "separated", "decides")
    assert glossary("ties")["correct"] == "corrected for ties"
    function = {"preference": "v_shape", "weights": "entropy"}
    assert choices(function, 16) == "V-shape preference, entropy weights"
    bibtex = r"@book{k, author = {Dem{\v{s}}ar, Janez and Holm, Sture}, year = {1979}, }"
    assert Reference.of(bibtex).cite == "Demšar & Holm 1979"


def test_a_verdict_over_two_datasets():
    f1 = [0.5, 0.6, 0.2, 0.4]
    frame = pd.DataFrame({"dataset": [*"ddee"], "method": ["a", "b"] * 2, "f1": f1})
    lead, unable = (unmarked(s.text) for s in verdict(compare(Study.from_frame(frame))))
    assert lead == "By mean f1 over 2 datasets, b (0.5) is before a (0.35)."
    assert unable == (
        "Over 2 datasets no p-value of a pair lies below .5. It takes 6, or three repeats of every "
        "method on each."
    )


def test_plain_data_and_its_json():
    value = {"x": np.float64("nan"), 1: (np.int64(2), pd.Series({"a": 0.5}))}
    assert plain(value) == {"x": None, "1": [2, {"a": 0.5}]}
    record = {"name": "Köln\x9b2J\u202e"}
    assert to_json(record) == '{\n  "name": "Köln\\u009b2J\\u202e"\n}'


def test_places_of_drawings():
    room = [room_for(names, 100) for names in (["a", "abc"], ["abcd"], ["abcd" * 99])]
    assert room[0] < room[1] < room[2] == 100
    assert Scale(0, 10, 100, 200)(5) == 150.0
    assert Scale(0, 1, 0, 100).ticks(5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert spread([50.0, 10.0, 52.0], 10, 0, 100) == [50.0, 10.0, 60.0]


def test_a_name_in_a_cell_says_of_what_it_is():
    cells = [_cell("a<b", Column("", ["a<b"], name=what)) for what in ("measure", "method")]
    assert [*map(str, cells)] == [
        '<bdi class="name">a&lt;b</bdi>',
        '<bdi class="name" data-method="a&lt;b">a&lt;b</bdi>',
    ]
