"""Results an answer from files: through the store and back, compared like any other answers."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import as_json, mleval
from places import GOLDEN

from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.harness_logs import holds_instances, read_instance_results
from mlflow_mleval.store.importing import import_answers

LOGS = GOLDEN / "answers"
HEAD = "method,dataset,instance"


def run(*args, code=0):
    result = mleval(*args, code=code)
    return result.stdout if code == 0 else " ".join(result.output.split())


def compared(*args):
    return as_json("compare", "--over instances", *args)


def wide(path, seed=0, n=30):
    rng, instances = np.random.default_rng(seed), np.tile(np.arange(n), 2)
    named = {"method": np.repeat(["a", "b"], n), "dataset": "qa", "instance": instances}
    frame = pd.DataFrame({**named, "cluster": instances // 5, "asked": "<b>why</b>"})
    frame["exact"], frame["score"] = rng.integers(0, 2, 2 * n), rng.random(2 * n).round(6)
    frame.to_csv(path, index=False)
    return frame


def test_a_wide_table_comes_back_as_it_was(db, tmp_path):
    frame = wide("qa.csv")
    spelled = {"method": "Model", "dataset": "Dataset", "instance": "Instance"}
    frame.rename(columns=spelled).to_csv("qa.csv", index=False)
    assert "2 runs created" in run("import", "qa.csv", "-n", "answers")
    assert "0 runs created, 0 updated, 2 unchanged" in run("import", "qa.csv", "-n", "answers")
    args = "-n answers --max score --seed :draws=199"
    found = compared(args)["datasets"]["qa"]
    table = {row["measure"]: row for row in found["table"]}
    means = frame.groupby("method")[["exact", "score"]].mean()
    for measure in ("exact", "score"):
        expected = means.loc["a", measure] - means.loc["b", measure]
        assert table[measure]["difference"] == pytest.approx(expected)
    assert compared(args, "--cluster cluster")["datasets"]["qa"]["n_clusters"] == 6
    assert "<b>why" not in run("compare", "--over instances", args, "--output html")


def test_one_question_separates_nobody_and_says_so(db):
    wide("one.csv", n=1)
    run("import", "one.csv", "-n", "one")
    args = ("--over instances -n one --max", "score", "--max", "exact")
    assert "does not separate a and b on 1 instance and 2 measures" in run("compare", *args)
    (row, *_) = compared("-n one --max", "score")["datasets"]["qa"]["needed"]
    assert row["needed"] is None


def test_long_tables_and_parquet_say_the_same(tmp_path):
    frame = wide(tmp_path / "wide.csv")
    frame.to_parquet(tmp_path / "wide.parquet")
    long = frame.melt(["method", "dataset", "instance", "cluster", "asked"], var_name="measure")
    long.to_csv(tmp_path / "long.csv", index=False)
    first, *others = (
        read_instance_results(tmp_path / name) for name in ("wide.csv", "wide.parquet", "long.csv")
    )
    for other in others:
        for pair, answers in first.items():
            expected = other[pair].values[["exact", "score"]].sort_index()
            pd.testing.assert_frame_equal(answers.values.sort_index(), expected)
            assert other[pair].passing == answers.passing == ("exact",)


def test_an_instance_that_occurs_again_is_another_answer(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("method,dataset,instance,f1\na,d,x,0\na,d,x,1\na,d,y,0.5\n")
    (answers,) = read_instance_results(path).values()
    assert answers.values["f1"].groupby(level=0).mean().to_dict() == {"x": 0.5, "y": 0.5}
    path.write_text("method,dataset,instance,measure,value\na,d,x,f1,0\na,d,x,f1,1\n")
    assert len(read_instance_results(path)["a", "d"].values) == 2


def test_logs_of_other_tools_are_imported_and_compared(db):
    for name in ("p2", "p3"):
        assert "1 runs created" in run("import", str(LOGS / f"qa_{name}.eval"), "-n", "logs")
        Path(name).mkdir()
        written = f"{name}/samples_toy_2026-11-22T04-10-13.760672.jsonl"
        run("import", shutil.copy(LOGS / f"samples_toy_{name}.jsonl", written), "-n", "harness")
    found = compared("-n logs -m match")["datasets"]["qa"]
    assert found["methods"] == ["stub/p2", "stub/p3"] and found["n_instances"] == 12
    assert len(found["sampling"]) == 2
    found = compared("-n harness")["datasets"]["toy"]
    assert found["table"][0]["difference"] == pytest.approx(1 / 2 - 2 / 3)


def test_grades_reach_the_metrics_of_imported_logs(db):
    for name in ("p2", "p3"):
        said = run("import", str(LOGS / f"graded_{name}.eval"), "-n", "logs")
        assert "pair is left out" in said and "quality is left out, for 'poor', 'good'" in said
    told = run("import", str(LOGS / "graded_p3.eval"), "-n", "logs")
    assert "0 runs created, 0 updated, 1 unchanged" in told
    args = "-n logs --seed :draws=99 --max quality --max parts/length --cluster passage"
    found = compared(args, "--read", "grades=quality=poor,fair,good")
    rows = {row["measure"]: row for row in found["datasets"]["graded"]["table"]}
    assert rows["quality"]["difference"] == pytest.approx(7 / 6 - 8 / 6)
    doubts = " ".join(found["doubts"])
    assert "pair is left out" in doubts and "parts/grade is left out" in doubts
    assert "quality is" not in doubts
    assert found["datasets"]["graded"]["n_clusters"] == 4
    assert "1 of 6 instances name no cluster" in doubts


def test_columns_of_text_describe_the_instances_and_group_them(db):
    frame = wide("qa.csv").rename(columns={"cluster": "passage"})
    frame["passage"] = [f"p{k}" if k else "" for k in frame["passage"]]
    frame["passes"] = np.where(frame["exact"] == 1, "Yes", "no")
    frame["page"] = [k // 6 for k in range(30)] * 2
    frame.to_csv("qa.csv", index=False)
    said = run("import", "qa.csv", "-n", "answers")
    assert "passage holds text, and is no measure: --cluster passage puts instances" in said
    args = "-n answers --max score --seed :draws=99"
    found = compared(args, "-m exact -m passes --cluster passage")["datasets"]["qa"]
    exact, passes = found["table"]
    assert found["n_clusters"] == 10 and exact["wins"] == passes["wins"]
    assert exact["low"] == passes["low"]
    assert "5 of 30 instances name no cluster" in " ".join(found["doubts"])
    paged = compared(args, "--cluster page")
    of_pages = paged["datasets"]["qa"]
    assert of_pages["n_clusters"] == 5 and of_pages["measures"] == ["exact", "score", "passes"]
    assert "page names clusters, and is no measure here" in " ".join(paged["doubts"])
    named = ["method", "dataset", "instance", "passage", "asked"]
    long = frame.drop(columns=["passes", "page"]).melt(named, var_name="measure")
    long.to_csv("long.csv", index=False)
    assert read_instance_results("long.csv")["a", "qa"].about["passage"].nunique() == 6
    long.drop(columns="passage").assign(cluster=long["measure"]).to_csv("long.csv", index=False)
    with pytest.raises(ImportFileError, match="instances 0, 1, .* are in several clusters"):
        read_instance_results("long.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method,instance,f1\na,1,0.5\n", "no column 'dataset'"),
        ("method,dataset,instance\na,d,1\n", "no column of a measure"),
        (f"{HEAD},f1\na,d,1,high\na,d,2,inf\n", "line 2, column 'f1': 'high' is no .*and 1 more"),
        (f"{HEAD},f1\na,d,1,high\n", "line 2, column 'f1': 'high' is no finite number. Leave"),
        (f'{HEAD},s\na,d,1,"0,5"\n', "'s': '0,5' is no .*; call the column cluster if it is no m"),
        (f"{HEAD},passage\na,d,1,p1\n", "no column of a measure .'passage' holds text"),
        (f"{HEAD},f1\na,d,,0.5\n", "line 2, column 'instance': the name of the instance is empty"),
        (f"{HEAD},f 1\na,d,1,0.5\n", "header, column 'f 1': cannot name a metric"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(db, text, message):
    Path("bad.csv").write_text(text)
    assert holds_instances("bad.csv")
    with pytest.raises(ImportFileError, match=message):
        import_answers("bad.csv", experiment_name="x")


def test_a_damaged_table_in_the_store_is_named(client, tmp_path):
    wide("qa.csv")
    run("import", "qa.csv", "-n", "answers")
    found = client.search_runs([client.get_experiment_by_name("answers").experiment_id])
    (tmp_path / "answers.parquet").write_bytes(b"PAR1 nothing")
    client.log_artifact(found[0].info.run_id, str(tmp_path / "answers.parquet"), "mleval")
    said = run("compare", "--over", "instances", "-n", "answers", "--max", "score", code=1)
    assert f"Left out: run {found[0].info.run_id}: it is damaged" in said
