"""Reading a file of results: every form, and one clear error for each thing that is wrong."""

import csv
import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.harness_logs import holds_instances
from mlflow_mleval.files.results import read_results
from mlflow_mleval.store.query import load_study

HEADER = "measure,dataset,method,value\n"
FOLDED = "measure,dataset,method,value,fold\n"
SEEDED = "dataset,method,seed,f1\n"
names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30
)
names = names.map(str.strip).filter(len)
values = st.floats(allow_nan=False, allow_infinity=False) | st.just(math.nan)


def refused(said, source, **options):
    with pytest.raises(ImportFileError, match=said):
        read_results(source, **options)


def write(tmp_path, content, name="results.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_long_and_wide_csv_parquet_and_frames_say_the_same(tmp_path):
    names = {"dataset": ["d", "d", "e"], "method": ["a", "b", "a"]}
    wide = pd.DataFrame({**names, "f1": [0.5, np.nan, 0.25], "coverage": [1.0, 2.5, 3.0]})
    long = wide.melt(["dataset", "method"], var_name="measure").sample(frac=1, random_state=0)
    wide.to_csv(tmp_path / "wide.csv", index=False)
    long.to_csv(tmp_path / "long.csv", index=False)
    wide.to_parquet(tmp_path / "wide.parquet")
    long.to_parquet(tmp_path / "long.pq")
    indexed = wide.set_index(["dataset", "method"])
    indexed.to_parquet(tmp_path / "indexed.parquet")
    key = ["dataset", "method", "measure"]
    expected = read_results(wide).sort_values(key, ignore_index=True)
    assert len(expected) == 6 and expected.value.isna().sum() == 1
    names = ("wide.csv", "long.csv", "wide.parquet", "long.pq", "indexed.parquet")
    paths = [tmp_path / name for name in names]
    for source in [*paths, str(paths[0]), long, indexed]:
        found = read_results(source).sort_values(key, ignore_index=True)
        pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize(
    ("header", "rows"),
    [("Model,Dataset,f1,Seed", "a,d,0.5,1"), ("MEASURE,Dataset,method,Value,seed", "f1,d,a,0.5,1")],
)
def test_columns_are_known_by_their_usual_names_however_they_are_spelled(tmp_path, header, rows):
    path = tmp_path / "results.csv"
    path.write_text(f"{header}\n{rows}\n")
    (found,) = read_results(path).to_dict("records")
    expected = {"dataset": "d", "method": "a", "seed": "1", "measure": "f1", "value": 0.5}
    assert found == expected


def test_folds_in_both_forms(tmp_path):
    long = write(tmp_path, FOLDED + "f1,d,a,.5,1\nf1,d,a,.7,2\nf1,d,b,,\n", "long.csv")
    wide = write(tmp_path, "dataset,method,fold,f1\nd,a,1,.5\nd,a,2,.7\nd,b,,\n", "wide.csv")
    numbers = pd.array([1, 2, None], "Int64")
    expected = pd.DataFrame({"dataset": "d", "method": [*"aab"], "fold": numbers, "measure": "f1"})
    expected["value"] = [0.5, 0.7, np.nan]
    for path in (long, wide):
        pd.testing.assert_frame_equal(read_results(path), expected, check_dtype=False)
    largest = write(tmp_path, f"{FOLDED}f1,d,a,.5,{2**31 - 1}\n")
    assert read_results(largest)["fold"].tolist() == [2**31 - 1]


@given(st.dictionaries(st.tuples(names, names), values, min_size=1, max_size=6))
def test_any_names_and_numbers_survive_csv(tmp_path_factory, cells):
    rows = [(d, m, v) for (d, m), v in cells.items()]
    frame = pd.DataFrame(rows, columns=["dataset", "method", "f1"])
    path = tmp_path_factory.mktemp("any") / "results.csv"
    frame.to_csv(path, index=False, quoting=csv.QUOTE_ALL)
    found = read_results(path)
    expected = frame[["dataset", "method"]].to_numpy().tolist()
    assert found[["dataset", "method"]].to_numpy().tolist() == expected
    np.testing.assert_array_equal(found["value"], frame["f1"])


@given(st.binary(max_size=200))
def test_any_bytes_give_a_table_or_the_one_error(tmp_path_factory, content):
    path = write(tmp_path_factory.mktemp("bytes"), content)
    try:
        assert len(read_results(path))
    except ImportFileError as error:
        assert "results.csv" in str(error)


def test_encodings_spaces_blank_lines_and_line_ends_do_not_matter(tmp_path):
    text = HEADER + "f1,Datensätze,Bäume,0.5\n"
    for encoding in ("utf-8", "utf-8-sig"):
        assert read_results(write(tmp_path, text.encode(encoding)))["method"].tolist() == ["Bäume"]
    refused(r"line 2, column 2: byte 0xe4 is not UTF-8", write(tmp_path, text.encode("latin-1")))
    text = "measure, dataset, method, value\r\n f1 , d , a , 0.5 \r\n\r\nf1,d,b,\r\n\r\n"
    found = read_results(write(tmp_path, text))
    assert found[["dataset", "method"]].to_numpy().tolist() == [["d", "a"], ["d", "b"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + 'f1,d,"two\nlines",0.5\n\nf1,d,b,oops\n', "line 5, column 'value': 'oops' is"),
        ("", r"is empty\. It needs the columns"),
        ("\n\n", r"is empty"),
        (HEADER, "has a header but no rows"),
        ("dataset,value\nd,1\n", r"no column 'method' \(it has 'dataset', 'value'\)"),
        ("a,b\n1,2\n", r"no column 'dataset' and no column 'method'"),
        ("dataset,method,value\nd,a,1\n", r"no column 'measure'"),
        ("dataset,method\nd,a\n", r"no column of a measure beside dataset, method"),
        ("measure,dataset,method,value,unit\nf1,d,a,1,%\n", r"unknown column 'unit'"),
        ("measure;dataset;method;value\nf1;d;a;0,5\n", "semicolons. Separate columns by commas"),
        (",dataset,method,f1\n0,d,a,1\n", r"column 1 has no name.*index=False"),
        ("dataset,method,f1,f1\nd,a,1,2\n", r"the column 'f1' occurs twice"),
        *(
            (f'{HEADER}f1,d,a,1\nf1,d,b,"{cell}"\n', f"line 3, column 'value': '{cell}' is not a")
            for cell in ("zero", "nan", "NaN", "NA", "DNF", "inf", "-Infinity", "1e999", "1_000")
        ),
        *(
            (f'dataset,method,f1\nd,a,"{cell}"\n', f"'{cell}' is not a .* Leave the cell empty")
            for cell in ("0x1p3", "１", "0,5", "True", "nan", "NaN", "inf")
        ),
        ("dataset,method,f1,recall\nd,a,0.5,x\n", r"line 2, column 'recall': 'x'"),
        (HEADER + "f1,d,a,1\nf1,d,a,1\n", r"line 3, column 'value': f1 of 'a' on 'd' is given twi"),
        (
            "dataset,method,f1\nd,a,1\nd,a,\n",
            r"line 3, column 'f1': f1 of 'a' on 'd' is given twice",
        ),
        (FOLDED + "f1,d,a,1,1\nf1,d,a,1,1\n", r"in fold 1 is given twice"),
        (FOLDED + "f1,d,a,1,1\nf1,d,a,1,\n", r"line 3, column 'value': .* both with and without"),
        (FOLDED + "f1,d,a,1,first\n", r"line 2, column 'fold': 'first' is not a fold number"),
        *(
            (f"{FOLDED}f1,d,a,1,{fold}\n", f"'{fold}' is not a fold number")
            for fold in ("-1", "1.5", 2**31)
        ),
        (HEADER + "f1,,a,0.5\n", r"line 2, column 'dataset': the name of the dataset is empty"),
        (HEADER + "f1,d, ,0.5\n", r"line 2, column 'method': the name of the method is empty"),
        (HEADER + ",d,a,0.5\n", r"line 2, column 'measure': the name of the measure is empty"),
        (HEADER + "f1,d,a\n", r"line 2: the row has 3 cells, the header has 4"),
        (HEADER + "f1,d,a,1,2\n", r"line 2: the row has 5 cells, the header has 4"),
        (HEADER + 'f1,d,"a,1\nf1,d,b,2\n', r"line 2: a quote is opened and never closed"),
        (HEADER + "f1 (%),d,a,1\n", r"line 2, .*: 'f1 \(%\)' cannot name a metric: .*letters A-Z"),
        (HEADER + "../f1,d,a,1\n", r"cannot name a metric: .*path"),
        (HEADER + f"{'f' * 300},d,a,1\n", r"at most 238 characters"),
        ("dataset,method,naïve\nd,a,1\n", r"header, column 'naïve': cannot name a metric"),
        (HEADER + f"f1,d,{'a' * 9000},1\n", r"line 2, .*: the name of the method has 9,000 chara"),
        (HEADER + "f1,d,a,1\nf1,d,\0,1\n", r"line 3, column 3: byte 0x00 is not UTF-8 text"),
        (SEEDED + "d,a,1,.5\nd,a,,.5\n", "line 3, column 'seed': the name of the seed is empty"),
        (SEEDED + "d,a,1,.5\nd,a,a,.5\n", "line 3, column 'seed': 'a' is no number, as other seed"),
        (SEEDED + "d,a,1,.5\nd,a,1.0,.5\n", "line 3, column 'f1': .* with seed '1' is given twice"),
        ("dataset,method,seed,repeat,f1\nd,a,1,1,.5\n", "both a column 'seed' and a .* 'repeat'"),
    ],
)
def test_each_fault_is_named_by_row_and_column(tmp_path, text, message):
    with pytest.raises(ImportFileError, match=message) as caught:
        read_results(write(tmp_path, text))
    assert str(caught.value).startswith("results.csv") and "\n" not in str(caught.value)


def test_a_line_of_ten_megabytes(tmp_path):
    said = "line 3: no row of a table has more than 100,000 characters"
    with pytest.raises(ImportFileError, match=said) as caught:
        read_results(write(tmp_path, HEADER + "f1,d,a,1\nf1,d," + "x" * 10_000_000 + ",1\n"))
    assert len(str(caught.value)) < 300
    refused(r"line 1", write(tmp_path, "x" * 10_000_000))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.csv", b"PAR1 and no more", r"not a parquet file that can be read: .*[^.]\.$"),
        ("x.csv", b"PK\x03\x04\xff\xfe\x00 an archive", "x.csv, line 1"),
        ("x.csv", "dataset,method,instance,f1\nd,a,1,1\n", "compare them with mleval compare"),
        ("x.csv", "true:a,pred:a\n1,0\n", "Predictions are for mleval evaluate"),
        ("x.json", '{"results": {"t": 3}, "config": {}}', "lm-evaluation-harness that can be read"),
        ("x.json", '{"results": {"t": {"acc": "high"}}, "config": {}}', "holds 0 results"),
        ("x.json", '{"x": 1}', "JSON of none of the tools"),
        ("x.json", "no JSON", "JSON of none of the tools"),
        ("x.json", "[" * 100_000, "JSON of none of the tools"),
    ],
)
def test_a_file_without_a_table_of_results_is_told_from_what_it_is(tmp_path, name, content, said):
    refused(said, write(tmp_path, content, name))


def test_a_file_that_is_not_there_or_is_a_folder_is_said(tmp_path):
    refused("No such file", tmp_path / "none.csv")
    refused("directory", tmp_path)


def frame(**columns):
    return pd.DataFrame({"dataset": ["d", "d"], "method": ["a", "b"], **columns})


@pytest.mark.parametrize(
    "value", [np.inf, "x", True, np.True_, 1j, [0.5], pd.Timestamp("2020-01-01"), "nan", 10**400]
)
def test_frames_with_something_else_than_numbers(value):
    said = r"the table, row 2, column 'f1': .* is not a finite number"
    refused(said, frame(f1=pd.Series([0.5, value], dtype=object)))


def test_frames_with_numbers_of_any_kind_and_empty_ones_that_did_not_finish():
    for expected, values in (
        (0.25, (0.25, np.float32(0.25), Decimal("0.25"), "0.25", " .25 ")),
        (math.nan, (None, np.nan, pd.NA, "", pd.NaT)),
    ):
        for value in values:
            found = read_results(frame(f1=pd.Series([0.5, value], dtype=object)))["value"]
            np.testing.assert_array_equal(found, [0.5, expected])


def test_frames_name_the_source_and_take_other_types_of_names():
    refused(r"^mine, row 1, column 'method'", frame(f1=1.0).assign(method=[None, "b"]), name="mine")
    with pytest.raises(ImportFileError, match="half a surrogate pair"):
        read_results(frame(f1=1.0).assign(method=pd.Series(["\ud800", "b"], dtype=object)))
    categorical = frame(f1=[1, 2]).astype({"dataset": "category"}).assign(method=[1, 2])
    assert read_results(categorical)["method"].tolist() == ["1", "2"]


def test_seeds_in_both_forms_and_with_folds(tmp_path):
    rows = "".join(f"f1,d,a,{cells}\n" for cells in ("1,0,.5", "1,1,.6", "2,0,.7", "2,1,"))
    long = write(tmp_path, "measure,dataset,method,seed,fold,value\n" + rows)
    folds = {"repeat": [1.0, 1, 2, 2], "fold": [0, 1, 0, 1], "f1": [0.5, 0.6, 0.7, None]}
    wide = pd.DataFrame({"dataset": "d", "method": "a", **folds})
    for source in (long, wide):
        found = read_results(source)
        assert list(found) == ["dataset", "method", "seed", "fold", "measure", "value"]
        assert found["seed"].tolist() == ["1", "1", "2", "2"]
        assert found["fold"].tolist() == [0, 1, 0, 1]
    assert read_results(wide.assign(repeat=[*"xxyy"]))["seed"].tolist() == [*"xxyy"]
    large = ["1234567890123456788", "1234567890123456789"]  # which a float does not tell apart
    rows = "".join(f"f1,d,a,{seed},.5\n" for seed in large)
    found = read_results(write(tmp_path, "measure,dataset,method,seed,value\n" + rows))
    assert found["seed"].tolist() == large


def test_percent_signs_beside_numbers_out_of_100_change_no_scale(tmp_path):
    file = tmp_path / "b.csv"
    file.write_text("model,MNLI,QQP,Avg\na,84.6%,71.2,77.9\nb,90.2% ± 0.3,n/a,-\n")
    found = read_results(file)
    values = found.set_index(["method", "dataset"])["value"].dropna().to_dict()
    assert values == {("a", "MNLI"): 84.6, ("a", "QQP"): 71.2, ("b", "MNLI"): 90.2}
    told = " ".join(found.attrs["notes"])
    assert "out of 100, like the columns beside them: MNLI" in told and "others: Avg" in told


HARNESS = {
    "results": {
        "mmlu": {"acc,none": 0.5, "acc_stderr,none": 0.01, "alias": "mmlu"},
        "mmlu_law": {"acc,none": 0.4, "acc_stderr,none": 0.02},
        "gsm8k": {"exact_match,strict-match": 0.25, "exact_match_stderr,strict-match": "N/A"},
    },
    "group_subtasks": {"mmlu": ["mmlu_law"], "gsm8k": []},
    "config": {"model": "hf", "model_args": "pretrained=tiny"},
    "model_name": "tiny",
}
LIGHTEVAL = {
    "config_general": {"model_name": "org/tiny"},
    "results": {"arc|25": {"acc": 0.5, "acc_stderr": 0.1}, "all": {"acc": 0.5}},
}
ROWS = [
    {"provider": {"id": p}, "promptIdx": 0, "score": s, "success": s > 0.5}
    for p, s in (("a", 1), ("a", 0.5), ("b", 0))
]
PROMPTFOO = {"evalId": "e", "results": {"version": 3, "results": ROWS}}
PROVIDERS = {"a": {"score": 0.75, "pass_rate": 0.5}, "b": {"score": 0, "pass_rate": 0}}
EVALS = [
    {"spec": {"completion_fns": ["gpt"], "eval_name": "arithmetic.dev"}},
    {"type": "match", "data": {"correct": True}},
    {"final_report": {"accuracy": 0.75}},
]
HELM = {
    "title": "Accuracy",
    "header": [{"value": h} for h in ("Model", "Mean win rate", "MMLU - EM", "BoolQ - F1")],
    "rows": [[{"value": "tiny"}, {"value": 0.5}, {"value": 0.25}, {"value": None}]],
}


@pytest.mark.parametrize(
    ("held", "rows"),
    [
        (HARNESS, {"tiny mmlu_law acc": 0.4, "tiny gsm8k exact_match/strict-match": 0.25}),
        (LIGHTEVAL, {"org/tiny arc|25 acc": 0.5}),
        (PROMPTFOO, {f"{m} tests {k}": v for m, of in PROVIDERS.items() for k, v in of.items()}),
        (EVALS, {"gpt arithmetic.dev accuracy": 0.75}),
        (HELM, {"tiny MMLU EM": 0.25}),
    ],
    ids=["harness", "lighteval", "promptfoo", "evals", "helm"],
)
def test_files_of_other_tools_are_read_as_results(tmp_path, held, rows):
    path = tmp_path / "results.json"
    path.write_text("\n".join(map(json.dumps, held)) if held is EVALS else json.dumps(held))
    table = read_results(path)
    named = table["method"] + " " + table["dataset"] + " " + table["measure"]
    assert dict(zip(named, table["value"], strict=True)) == rows
    assert not holds_instances(path)


def test_tables_of_benchmarks_are_read_by_their_columns(tmp_path):
    amlb = tmp_path / "amlb.csv"
    head = "id,task,framework,constraint,fold,type,result,metric,duration"
    rows = [f"x,{t},{m},1h,{f},binary,0.{f + 5},auc,9" for t in "de" for m in "ab" for f in (0, 1)]
    amlb.write_text("\n".join([head, *rows]))
    study = load_study(amlb, maximize=["auc"])
    assert (study.methods, study.datasets, study.measures) == (["a", "b"], ["d", "e"], ["auc"])
    assert len(study.folds) == 8
    arena = tmp_path / "arena.csv"
    rows = [f"{d},{m},{f},0.{f + 1},rmse,regression" for d in "de" for m in "ab" for f in (0, 1)]
    arena.write_text("\n".join(["dataset,method,fold,metric_error,metric,problem_type", *rows]))
    values = load_study(arena, minimize=["metric_error"]).values["metric_error"]
    assert values.tolist() == pytest.approx([0.15] * 4)
