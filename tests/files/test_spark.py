"""A Spark DataFrame on a real cluster gives the Evaluation of one machine."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest
from command_line import as_json
from command_line import mleval as run
from spark_cluster import SUBMIT_BRIEF, Cluster

import mlflow_mleval as mleval

pytest.importorskip(
    "pyspark", reason="pyspark is not installed: pip install 'mlflow-mleval[spark]'"
)
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)
pytestmark = pytest.mark.server

LABELS = list("abcd")
TRUE, SCORE = [f"true_{c}" for c in LABELS], [f"score_{c}" for c in LABELS]
TREE = mleval.Hierarchy([("top", "a"), ("top", "b"), ("a", "c"), ("b", "d")])
N = 1200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch, Cluster(folder) as found:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_SUBMIT_ARGS", SUBMIT_BRIEF)
        yield found


@pytest.fixture(scope="module")
def spark(cluster):
    session = cluster.session()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table():
    """Instances of which nearly all are in one fold."""
    rng = np.random.default_rng(7)
    true, score = rng.random((N, 4)) < 0.3, rng.random((N, 4))
    table = pd.DataFrame(true.astype(int), columns=TRUE).join(pd.DataFrame(score, columns=SCORE))
    folds = np.where(np.arange(N) < 20, "small", "large")
    return table.assign(fold=folds, passage=np.arange(N) // 5)


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    """Four files of parquet, one without a row."""
    path = tmp_path_factory.mktemp("data")
    for i, part in enumerate((table[:500], table[500:500], table[500:510], table[510:])):
        part.to_parquet(path / f"part-{i}.parquet", row_group_size=100, index=False)
    return path


def expected(table, **options):
    true, scores = table[TRUE].to_numpy(), table[SCORE].to_numpy()
    return mleval.evaluate(true, scores, label_names=LABELS, **options)


def classes_of(table):
    """The classes of each instance."""
    return [[c for c in LABELS if row[f"true_{c}"]] for row in table.to_dict("records")]


def assert_same(found, wanted) -> None:
    """But for rounding."""
    assert found.measures == pytest.approx(wanted.measures, rel=1e-12)
    assert found.absent == wanted.absent and found.warnings == wanted.warnings
    for name in ("folds", "labels"):
        tables = getattr(found, name), getattr(wanted, name)
        pd.testing.assert_frame_equal(*tables, rtol=1e-12)
    assert found.fold_sizes.equals(wanted.fold_sizes)
    assert found.truth_digest == wanted.truth_digest and found.hierarchy == wanted.hierarchy
    for name in ("label_names", "inputs", "threshold"):
        assert getattr(found, name) == getattr(wanted, name)
    if wanted.kind != "one label":
        kind = "soft" if "y_score" in wanted.inputs else "hard"
        losses = wanted.profile(kind=kind).losses
        assert found.profile(kind=kind).losses == pytest.approx(losses, rel=1e-12)


def test_the_command_makes_a_run_of_a_folder(cluster, client, folder, table):
    engine, names = ["--engine", "spark"], ["--method BR --dataset d", "--master", cluster.url]
    found = as_json("evaluate", folder, *engine, *names)
    wanted = expected(table, folds=table["fold"])
    assert found["measures"] == pytest.approx(wanted.folds.mean().to_dict(), rel=1e-12)
    assert found["warnings"][-1].endswith("neither truth nor predictions: passage")
    logged = client.get_run(found["run_id"])
    assert logged.info.status == "FINISHED"
    assert logged.data.metrics["mleval/f1"] == found["measures"]["f1"]
    classes = folder.parent / "classes"
    classes.mkdir()
    pd.DataFrame({"true": [1], "pred": [0]}).to_parquet(classes / "p.parquet", index=False)
    told = run("evaluate", classes, *engine, *names, code=1).stderr
    assert "the command reads label columns" in " ".join(told.split())
    nothing = run("evaluate", "nowhere", *engine, *names, code=1).stderr
    assert "nowhere" in nothing and nothing.count("\n") == 1
    wrong = run("evaluate", __file__, *names, code=2).stderr
    assert "--master must go with --engine spark" in wrong


@pytest.mark.parametrize("mixed", [False, True])
def test_any_partitions_and_order_give_the_evaluation_of_one_machine(spark, folder, table, mixed):
    df = spark.read.parquet(str(folder))
    df = df.repartition(5, "score_a").sortWithinPartitions("score_b") if mixed else df
    options = {"measures": ["probabilistic", "hmc"]} if mixed else {"hierarchy": TREE}
    found = mleval.evaluate_spark(df, TRUE, SCORE, folds="fold", **options)
    assert_same(found, expected(table, folds=table["fold"], **options))
    assert spark._jvm.java.lang.Runtime.getRuntime().maxMemory() < 500e6
    assert found.taxonomy is options.get("hierarchy") and found.fold_sizes.tolist() == [N - 20, 20]


def test_lists_and_arrays_and_vectors_are_the_same_labels(spark, table):
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as f

    classes = f.array(*(f.when(f.col(f"true_{c}") == 1, c) for c in LABELS))
    scores = f.array(*SCORE)
    columns = {
        "truth": f.array(*TRUE),
        "vector": array_to_vector(scores),
        "classes": f.filter(classes, f.isnotnull),
        "scores": f.arrays_zip(f.array(*map(f.lit, LABELS)), scores),
    }
    df = spark.createDataFrame(table[:60]).coalesce(1)
    df = df.select(*(column.alias(name) for name, column in columns.items()))
    wanted = expected(table[:60])
    assert_same(mleval.evaluate_spark(df, "truth", "vector", label_names=LABELS), wanted)
    assert_same(mleval.evaluate_spark(df, "classes", "scores", label_names=LABELS), wanted)
    sets = classes_of(table[:60])
    guessing = f.expr("if(size(classes) > 1, slice(classes, 1, 1), array('d'))")
    moved = df.withColumn("guess", guessing)
    guess = [row[:1] if len(row) > 1 else ["d"] for row in sets]
    found = mleval.evaluate_spark(moved, "classes", predictions="guess", hierarchy=TREE)
    assert_same(
        found,
        mleval.evaluate(
            [*map(set, sets)], y_pred=[*map(set, guess)], label_names=TREE.nodes, hierarchy=TREE
        ),
    )


def test_one_label_of_several_classes(spark, table):
    part = table[:80].assign(true=[LABELS[i] for i in np.arange(80) % 4])
    scores = part[SCORE].div(part[SCORE].sum(axis=1), axis=0)
    part[SCORE] = scores
    df = spark.createDataFrame(part).repartition(2)
    found = mleval.evaluate_spark(df, "true", SCORE, folds="fold", label_names=LABELS)
    how = {"label_names": LABELS, "folds": part["fold"]}
    assert_same(found, mleval.evaluate(part["true"].to_numpy(), scores.to_numpy(), **how))


def test_what_cannot_be_evaluated_is_said_with_its_partition(spark, table):
    def refused(said, df, truth=TRUE, scores=SCORE, **options):
        with pytest.raises(ValueError, match=said):
            mleval.evaluate_spark(df, truth, scores, **options)

    part = table[:50].astype({"true_c": float})
    for column, value, said in (("true_c", 7, "y_true` must .*7"), ("score_a", np.inf, "y_score`")):
        broken = part.copy()
        broken.loc[30, column] = value
        refused(rf"partition \d+: `{said}", spark.createDataFrame(broken), folds="fold")
    df = spark.createDataFrame(part)
    nameless = df.selectExpr(*TRUE, *SCORE, "nullif(fold, 'large') fold")
    refused("column 'fold': the value is missing", nameless, folds="fold")
    lacking = df.selectExpr(*TRUE, *SCORE[:2], "nullif(score_c, score_c) score_c", SCORE[3])
    refused("column 'score_c': the value is missing", lacking)
    schema = "t array<string>, s array<struct<l:string,v:double>>"
    lists = spark.createDataFrame([(["a"], [("z", 0.5)])], schema)
    refused("column 's': 'z' is none of the 4 classes", lists, "t", "s", label_names=LABELS)
    refused("must name the labels in one order", df, TRUE, SCORE[::-1])
    refused("`scores` must name columns of `df` .*, got 'nothing'", df, TRUE, ["nothing"])
    said = "`label_names` must be given for one class of several"
    refused(said, df, "fold", None, predictions="fold")
    refused("`df` must have at least one row", df.limit(0))


@pytest.mark.slow
def test_spark_connect_gives_the_evaluation_of_one_machine(folder, table, tmp_path):
    """In a process of its own: one has either a server or a driver."""
    pytest.importorskip("grpc", reason="grpc is not installed: pip install 'pyspark[connect]'")
    table[:50].assign(true_c=7).to_parquet(tmp_path / "bad.parquet", index=False)
    code = """if True:
        import json, sys
        import mlflow_mleval as mleval
        from mlflow_mleval.files.evaluate_spark import evaluate_with_spark
        tree = mleval.Hierarchy([("top", "a"), ("top", "b"), ("a", "c"), ("b", "d")])
        print(json.dumps(evaluate_with_spark(sys.argv[1], hierarchy=tree)[0].to_dict()))
        evaluate_with_spark(sys.argv[2])"""
    settings = {"SPARK_REMOTE": "local[1]", "PYSPARK_SUBMIT_ARGS": "pyspark-shell"}
    settings["PYSPARK_PYTHON"] = sys.executable
    command = [sys.executable, "-c", code, str(folder), str(tmp_path)]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True)
    assert "ValueError: partition 0: `y_true` must" in done.stderr
    found = mleval.Evaluation.from_dict(json.loads(done.stdout.splitlines()[-1]))
    assert_same(found, expected(table, folds=table["fold"], hierarchy=TREE))


def test_the_table_of_instances_stays_with_spark(spark, folder, table, tmp_path):
    path = str(tmp_path / "instances")
    df = spark.read.parquet(str(folder)).where("passage < 100")
    found = mleval.spark_instances(df, TRUE, SCORE, folds="fold", cluster="passage")
    found.write.parquet(path)
    part, order = table[:500], ["passage", "soft_hamming_loss"]
    wanted = expected(part, folds=part["fold"]).instances.assign(passage=part["passage"])
    rows, wanted = (
        frame.sort_values(order).reset_index(drop=True)
        for frame in (parquet.read_table(path).to_pandas(), wanted)
    )
    pd.testing.assert_frame_equal(rows, wanted, check_dtype=False, check_exact=True)


def test_a_worker_that_dies_in_the_middle_changes_nothing(spark, cluster, folder, table):
    df = spark.read.parquet(str(folder)).repartition(16, "score_a")
    results, tracker = [], spark.sparkContext.statusTracker()
    thread = threading.Thread(
        target=lambda: results.append(mleval.evaluate_spark(df, TRUE, SCORE, folds="fold"))
    )
    thread.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(
        (info := tracker.getStageInfo(stage))
        and info.numTasks == 16
        and info.numCompletedTasks >= 3
        for stage in tracker.getActiveStageIds()
    ):
        time.sleep(0.005)
    assert thread.is_alive() and not results
    cluster.kill(cluster.workers[0])
    thread.join(120)
    assert_same(results[0], expected(table, folds=table["fold"]))
