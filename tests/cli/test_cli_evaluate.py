"""`mleval evaluate`: a file becomes a run, or a clear error and nothing at all, however large the
file is.
"""

import io
import json
import os
import subprocess
import sys
from functools import partial
from zipfile import ZipFile

import mlflow
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import mleval as command

import mlflow_mleval as mleval
from mlflow_mleval.measures.curves import percent_curves

run = partial(command, "evaluate")


def made(n=200, k=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random((n, k)) < 0.4
    return y, np.clip(0.3 * y + 0.7 * rng.random((n, k)), 0, 1), np.arange(n) % 5


@pytest.fixture
def csv(tmp_path):
    y, s, folds = made()
    tables = [
        pd.DataFrame(m, columns=[f"{kind}_{i}" for i in "abcd"])
        for kind, m in (("true", y.astype(int)), ("score", s))
    ]
    path = tmp_path / "predictions.csv"
    pd.concat(tables, axis=1).assign(fold=folds, id=range(200)).to_csv(path, index=False)
    return path


def test_a_file_becomes_a_run_that_a_study_reads(client, csv):
    y, s, folds = made()
    indices = [np.flatnonzero(folds == f) for f in range(5)]
    how = {"threshold": 0.4, "conventions": "mulan", "label_names": list("abcd")}
    ev = mleval.evaluate(y, s, folds=folds, **how)
    how = "--method BR --dataset d -n x --threshold 0.4 --conventions mulan --output json"
    found = json.loads(run(csv, how).stdout)
    assert (
        found["measures"] == pytest.approx(ev.folds.mean().to_dict())
        and found["n_instances"] == 200
    )
    assert found["folds"]["3"] == pytest.approx(ev.folds.loc[3].to_dict())
    assert found["warnings"][-1].endswith("neither truth nor predictions: id")
    assert found["conventions"] == "mulan"
    logged = client.get_run(found["run_id"])
    assert logged.data.tags["mleval.method"] == "BR" and logged.info.status == "FINISHED"
    where = {"dataset": "d", "experiment_name": "x"}
    twin = mleval.log_evaluation(ev, method="CC", test_indices=indices, **where)
    # read in blocks or given at once, it is the same data
    for tag in ("mleval.dataset_digest", "mleval.split_digest"):
        assert logged.data.tags[tag] == client.get_run(twin).data.tags[tag]
    study = mleval.load_study(experiment_names=["x"])
    expected = {m: ev.folds[m].mean() for m in study.measures}
    assert study.values.loc["d", "BR"].to_dict() == pytest.approx(expected)
    assert len(study.folds) == 10


def test_scores_of_one_label_that_are_no_probabilities_say_so(client, tmp_path):
    path, args = tmp_path / "p.csv", ["--method m --dataset d"]
    path.write_text("true,score_a,score_b\na,0.667,0.332\nb,0.5,0.5\na,0.125,0.875\n")
    assert "probabilities were rounded" in run(path, *args).stdout
    path.write_text("true,score_a,score_b\na,0.667,0.132\nb,0.5,0.5\na,0.125,0.875\n")
    told = " ".join(run(path, *args, code=1).output.split())
    assert "or pass --no-probabilities if these are other scores" in told
    told = " ".join(run(path, *args, "--no-probabilities").stdout.split())
    assert "is said to hold other scores" in told
    path.write_text("true_a,score_a\n1,0.7\n0,0.2\n")
    refused = " ".join(run(path, *args, "--no-probabilities", code=2).output.split())
    assert "--no-probabilities is for one label of several" in refused


def test_measures_on_request_bring_curves_into_the_run(client, csv, tmp_path):
    y, s, _ = made()
    edges = tmp_path / "edges.txt"
    edges.write_text("a b\na c\nc d\n")
    asked = "--method BR --dataset d -n x -m probabilistic -m hmc -m ece_7 --hierarchy"
    found = json.loads(run(csv, asked, edges, "--output json").stdout)
    assert {"ece_7", "micro_ap", "f_max", "violation_rate"} <= found["measures"].keys()
    assert found["absent"]["s_min"] == "no `train_labels` were given"
    whole = mleval.evaluate(y, s, label_names=list("abcd"), measures="probabilistic")
    for name, expected in percent_curves(whole.total).items():
        steps = client.get_metric_history(found["run_id"], f"mleval.curve/{name}")
        assert {m.step: m.value for m in steps} == expected
    place = {"run_id": found["run_id"], "artifact_path": "mleval/data.zip"}
    data = mlflow.artifacts.download_artifacts(**place)
    for name, table in (("curves", whole.curves()), ("reliability", whole.reliability())):
        with ZipFile(data) as together:
            stored = pd.read_parquet(io.BytesIO(together.read(f"{name}.parquet")))
        stored, table = (
            part.assign(label=part["label"].astype(object).fillna(""))
            .sort_values(list(part.columns[:4]))
            .reset_index(drop=True)
            for part in (stored, table)
        )
        pd.testing.assert_frame_equal(stored, table, check_dtype=False)
    assert not any("curve" in key for key in mleval.load_study(experiment_names=["x"]).measures)


def test_a_given_run_takes_the_result_once(client, csv):
    run_id = client.create_run("0").info.run_id
    for _ in range(2):
        run(csv, "--method BR --dataset d --run-id", run_id)
    assert len(client.get_metric_history(run_id, "mleval/f1")) == 1
    told = run(csv, "--method CC --dataset d --run-id", run_id, code=1).stderr
    assert "holds the evaluation of" in told


def test_formats(client, csv):
    for format in ("table", "csv", "html"):
        result = run(csv, "--method B_R|<x> --dataset d --output", format)
        assert "hamming" in result.stdout and result.stderr == ""
        assert "<x>" not in result.stdout.replace("B_R|<x>", "")


def test_lines_of_classes_with_a_hierarchy(client, tmp_path):
    texts = {"true": "3 4\n5\n\n", "pred": "3\n4 5\n2\n", "edges": "1 2\n1 3\n2 4\n2 5\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    options = ["--hierarchy", tmp_path / "edges", "--method A --dataset d --count-root"]
    options += ["--max-distance 4 --output json"]
    told = run(tmp_path / "pred", "--truth", tmp_path / "true", *options).stdout
    found = json.loads(told)
    h = mleval.Hierarchy([("1", "2"), ("1", "3"), ("2", "4"), ("2", "5")])
    ev = mleval.evaluate_hierarchical(
        [["3", "4"], ["5"], []], [["3"], ["4", "5"], ["2"]], h, count_root=True, max_distance=4
    )
    assert found["measures"] == pytest.approx(ev.measures)
    logged = client.get_run(found["run_id"]).data.tags
    assert len(logged["mleval.dataset_digest"]) == 64 and "mleval.hierarchy_digest" in logged


def test_a_broken_line_is_named_and_nothing_is_logged(client, csv):
    lines = csv.read_text().splitlines()
    lines[150] = lines[150].replace("0.", "0,", 1)
    csv.write_text("\n".join(lines))
    result = run(csv, "--method BR --dataset d -n x", code=1)
    assert "line 151" in result.stderr and result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert client.get_experiment_by_name("x") is None and not client.search_runs(["0"])


def test_usage(client, csv, tmp_path):
    run(csv, "--method", "BR", code=2)
    run(csv, "--method BR --dataset d --conventions other", code=2)
    run("nowhere.csv", "--method BR --dataset d", code=2)
    for option in (["--max-distance", 3], ["--count-root"]):
        result = run(csv, "--method BR --dataset d", *option, code=2)
        assert f"--hierarchy must be given with {option[0]}" in result.stderr
    path = tmp_path / "predicted.csv"
    names = "true_a,true_b,score_a,score_b,pred_a,pred_b"
    path.write_text(f"{names}\n1,0,0.9,0.2,1,0\n0,1,0.3,0.4,0,1\n")
    said = run(path, "--method BR --dataset d --threshold", 0.5, code=2).stderr
    assert "--threshold: " in said and "Leave it out" in said and not client.search_runs(["0"])


LIMITED = """
import resource, sys, threading
from mlflow_mleval.cli import main

small, large, room, out = sys.argv[1:]
threading.stack_size(1 << 18)  # threads reserve 8 MB each otherwise
args = ["--method", "BR", "-n", "x", "-o", out, "--dataset"]
main(["evaluate", small, *args, "small"], standalone_mode=False)  # whatever is loaded or reserved once
held = 1024 * int(open("/proc/self/status").read().partition("VmData:")[2].split()[0])
limit = held + int(room)  # a file that is mapped is no memory of the process
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    open(large, "rb").read()
    sys.exit("the limit does not hold")
except MemoryError:
    pass
main(["evaluate", large, *args, "large"])
"""  # noqa: E501


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads the size of a process as Linux tells it"
)
@pytest.mark.thorough
@pytest.mark.parametrize("suffix", ["csv", "npz", "parquet"])
def test_a_file_larger_than_the_memory_there_is(client, tmp_path, suffix):
    y, s, _ = made(20_000, 20)
    names = [str(i) for i in range(20)]
    head = [*(f"true_{name}" for name in names), *(f"score_{name}" for name in names)]
    small, large, times = tmp_path / f"small.{suffix}", tmp_path / f"large.{suffix}", 16
    for path, count in ((small, 1), (large, times)):
        if suffix == "npz":
            tiled = {"y_true": np.tile(y, (count, 1)), "y_score": np.tile(s, (count, 1))}
            np.savez(path, **tiled, label_names=names)
        elif suffix == "csv":
            table = pd.DataFrame(np.hstack([y.astype(int), s]), dtype=object)
            rows = table.to_csv(header=False, index=False)
            path.write_text(",".join(head) + "\n" + count * rows)
        else:
            table = pa.Table.from_arrays([pa.array(c) for c in [*y.T, *s.T]], head)
            how = {"compression": "none", "use_dictionary": False}
            with pq.ParquetWriter(path, table.schema, **how) as writer:
                for _ in range(count):
                    writer.write_table(table)
    room = large.stat().st_size // 2
    args = [str(small), str(large), str(room), str(tmp_path / "out.json")]
    # no address space in reserve
    env = os.environ | {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-c", LIMITED, *args]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "out.json").read_text())
    expected = mleval.evaluate(y, s, label_names=names).measures
    assert found["dataset"] == "large" and found["n_instances"] == 20_000 * times
    assert found["measures"] == pytest.approx(expected)


@pytest.mark.parametrize("form", ["csv", "npz"])
def test_a_file_of_one_label_becomes_a_run(client, tmp_path, form):
    rng, names, folds = np.random.default_rng(0), np.array(list("abc")), np.arange(90) % 3
    y, p = rng.choice(names, 90), rng.dirichlet(np.ones(3), 90)
    pred, path = names[p.argmax(axis=1)], tmp_path / f"classes.{form}"
    if form == "npz":
        np.savez(path, y_true=y, y_score=p, y_pred=pred, label_names=names, folds=folds)
    else:
        scores = {f"score_{c}": p[:, i] for i, c in enumerate(names)}
        table = pd.DataFrame({"true": y, "pred": pred, "fold": folds, **scores})
        table.to_csv(path, index=False)
    found = json.loads(run(path, "--method NB --dataset d -n x --output json").stdout)
    ev = mleval.evaluate(y, p, pred, folds=folds)
    assert found["measures"] == pytest.approx(ev.folds.mean().to_dict()) and found["n_classes"] == 3
    given = client.get_run(found["run_id"]).data.metrics["mleval/log_loss"]
    assert given == pytest.approx(ev.folds["log_loss"].mean())


def test_a_file_of_two_classes_and_what_is_wrong_with_one(client, tmp_path):
    path = tmp_path / "classes.csv"
    path.write_text("true,score,id\nno,0.2,1\nyes,0.7,2\nno,0.6,3\n")
    found = json.loads(run(path, "--method NB --dataset d -n x --output json").stdout)
    assert found["measures"]["top1_accuracy"] == pytest.approx(2 / 3)
    assert found["warnings"][-1].endswith("predictions: id")
    for text, error in (
        ("true,score\nno,0.2\nyes,x\n", "line 3, column 'score': 'x' is not a finite number"),
        ("true,score\nno,0.2\n,0.3\n", "line 3, column 'true': '' is none of the classes"),
        (
            "true,score_a,score_b\na,0.2,0.8\nc,0.5,0.5\n",
            "column 'true': 'c' is none of the classes with scores ('a', 'b')",
        ),
        (
            "true,score\na,0.2\nb,0.3\nc,0.3\n",
            "a column score is that of the second of two classes, and there are 3",
        ),
        ("true,pred\na\n", "line 2: the row has 1 cells, the header has 2"),
    ):
        path.write_text(text)
        assert error in run(path, "--method NB --dataset d -n y", code=1).output


def test_a_damaged_file_ends_the_process_with_its_error(db, tmp_path):
    """What reads ahead does not outlive the interpreter."""
    path = tmp_path / "ragged.csv"
    path.write_text("true_a,score_a\n1,.5\n0\n" + "1,.2\n" * 500_000)
    command = [sys.executable, "-m", "mlflow_mleval", "evaluate", str(path), "--method", "m"]
    running = [
        subprocess.Popen([*command, "--dataset", "d"], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in running:
        _, told = process.communicate(timeout=120)
        assert process.returncode == 1
        assert told == "Error: ragged.csv, line 3: the row has 1 cells, the header has 2.\n"
