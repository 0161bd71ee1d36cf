"""An Evaluation in a run, and back: it is written once, and whole or not at all."""

import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from zipfile import ZipFile

import mlflow
import numpy as np
import pandas as pd
import pytest
import requests
from answering import answering
from mlflow import MlflowClient
from packaging.version import Version
from scipy import sparse, stats
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit
from waiting import PATIENCE

import mlflow_mleval as mleval
from mlflow_mleval.analysis.fold_protocol import fold_statistics
from mlflow_mleval.errors import IncomparableRunsError, NoRunsError, StoreError
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.registry import SETS
from mlflow_mleval.store import runs, schema

#: MLEVAL_ATTACK=N kills N times as often, over a time N times as long.
KILLS = int(os.environ.get("MLEVAL_ATTACK", "1"))


def made(n=200, k=6, folds=5, seed=0, **options):
    rng = np.random.default_rng(seed)
    y = rng.random((n, k)) < 0.4
    s = np.clip(0.3 * y + 0.7 * rng.random((n, k)), 0, 1)
    options = {"folds": np.arange(n) % folds} | options if folds else options
    return mleval.evaluate(y, s, **options), y


def artifact(run_id, path):
    return mlflow.artifacts.load_text(f"runs:/{run_id}/{path}")


def parquet(run_id, path):
    return pd.read_parquet(mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path=path))


def data(run_id, name):
    """A file of those that a run holds in one."""
    path = mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path=schema.ARTIFACT_DATA)
    with ZipFile(path) as together:
        return io.BytesIO(together.read(name))


def artifacts(run_id, folder=None):
    found = set()
    for entry in MlflowClient().list_artifacts(run_id, folder):
        found |= artifacts(run_id, entry.path) if entry.is_dir else {entry.path}
    return found


def history(client, run_id):
    """Every metric entry of the run, also those that later ones hide."""
    keys = client.get_run(run_id).data.metrics
    entries = (m for key in keys for m in client.get_metric_history(run_id, key))
    return sorted((m.key, m.step, m.value, m.timestamp) for m in entries)


def test_what_a_run_holds(client):
    names, times = [f"label {i} ✓" for i in range(6)], dict.fromkeys(range(5), 0.5)
    ev, y = made(label_names=names, fit_time=times)
    indices = [np.flatnonzero(np.arange(200) % 5 == f) for f in range(5)]
    given = {"note": "mine", "mleval.status": "dnf", "mleval.conventions": "mulan"}
    what = {"method": "BR", "dataset": "yeast", "experiment_name": "x", "tags": given}
    what |= {"test_indices": indices, "n_train": 160, "log_instances": True}
    run_id = mleval.log_evaluation(ev, **what)
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED" and run.info.run_name == "BR · yeast"
    tags, metrics = run.data.tags, run.data.metrics
    assert tags["mleval.status"] == "complete" and tags["mleval.schema"] == "1"
    assert tags["mleval.kind"] == "evaluation"
    assert tags["mleval.conventions"] == "sklearn" and tags["note"] == "mine"
    assert len(tags["mleval.split_digest"]) == 64
    expected = {f"mleval/{m}": v for m, v in ev.folds.mean().to_dict().items()}
    assert {k: v for k, v in metrics.items() if k.startswith("mleval/")} == expected
    steps = client.get_metric_history(run_id, "mleval.fold/f1")
    assert [(m.step, m.value) for m in steps] == list(ev.folds["f1"].items())
    for kind, name in (("hard", "mleval.profile"), ("soft", "mleval.soft_profile")):
        by_fold = [ev.fold(f).profile("binomial", kind=kind).losses for f in range(5)]
        profile = np.mean(by_fold, axis=0)
        steps = client.get_metric_history(run_id, f"{name}/binomial")
        assert [m.step for m in steps] == [1, 2, 3, 4, 5, 6]
        np.testing.assert_allclose([m.value for m in steps], profile, rtol=1e-15)
        steps = client.get_metric_history(run_id, f"{name}/polynomial")
        cubes = [ev.fold(f).profile("polynomial", alphas=[3], kind=kind).losses for f in range(5)]
        assert [m.step for m in steps] == [1, 2, 3, 5, 7, 10, 15, 20, 30]
        assert steps[2].value == pytest.approx(np.mean(cubes))
    found = schema.decode_profile(tags["mleval.profile"])
    assert (found.n_labels, found.folds) == (6, [0, 1, 2, 3, 4])
    assert found.n == [40] * 5 and not found.pooled
    assert found.rows[2] == np.trim_zeros(ev.sums[2].wrong, "b").tolist()
    found = schema.decode_profile(tags["mleval.soft_profile"], "soft")
    assert (found.folds, found.n) == ([0, 1, 2, 3, 4], [40] * 5)
    assert found.rows[2] == ev.sums[2].mean_errors("soft").tolist()
    assert metrics["mleval.data/n_instances"] == 200
    assert metrics["mleval.data/cardinality_true"] == pytest.approx(y.mean() * 6)
    (source,) = run.inputs.dataset_inputs
    assert source.dataset.name == "yeast"
    assert tags["mleval.dataset_digest"].startswith(source.dataset.digest)

    folds = pd.read_parquet(data(run_id, "folds.parquet")).set_index("fold")
    pd.testing.assert_frame_equal(folds[ev.folds.columns], ev.folds, check_index_type=False)
    assert folds["n_train"].tolist() == [160] * 5
    instances = parquet(run_id, "mleval/instances.parquet")
    pd.testing.assert_frame_equal(instances.drop(columns="instance"), ev.instances)
    table = pd.read_csv(data(run_id, "profile.csv"))
    soft = table.query("family == 'binomial' and kind == 'soft'")
    np.testing.assert_allclose(soft["loss"], ev.profile("binomial").losses)
    measures = pd.DataFrame(**json.load(data(run_id, "measures.json")))
    assert measures["measure"].tolist() == list(ev.measures)
    np.testing.assert_allclose(measures["over_all_instances"], list(ev.measures.values()))
    f1 = measures.set_index("measure").loc["f1"]
    np.testing.assert_allclose(f1["value"], ev.folds["f1"].mean())
    np.testing.assert_allclose(f1["std"], ev.folds["f1"].std())


def test_the_same_again_changes_nothing(client):
    ev, _ = made()
    run_id = mleval.log_evaluation(ev, method="BR", dataset="yeast", experiment_name="x")
    before = client.get_run(run_id), history(client, run_id), artifacts(run_id)
    assert mleval.log_evaluation(ev, method="BR", dataset="yeast", run_id=run_id) == run_id
    after = client.get_run(run_id), history(client, run_id), artifacts(run_id)
    assert after[1:] == before[1:] and after[0].to_dictionary() == before[0].to_dictionary()
    for other in ({"method": "CC"}, {"dataset": "scene"}):
        with pytest.raises(StoreError, match="holds the evaluation of BR on yeast already"):
            mleval.log_evaluation(ev, **{"method": "BR", "dataset": "yeast"} | other, run_id=run_id)
    assert client.get_run(run_id).to_dictionary() == before[0].to_dictionary()


def test_the_active_run_or_that_of_the_environment_takes_it_and_stays_active(client, monkeypatch):
    ev, _ = made(folds=0)
    client.create_experiment("mine")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    with mlflow.start_run() as run:
        mlflow.log_metric("loss", 0.5)
        assert mleval.log_evaluation(ev, method="BR", dataset="yeast") == run.info.run_id
        assert client.get_run(run.info.run_id).info.status == "RUNNING"
        new = mleval.log_evaluation(ev, method="CC", dataset="yeast", experiment_name="other")
        assert new != run.info.run_id and mlflow.active_run().info.run_id == run.info.run_id
        mlflow.log_metric("loss", 0.4)
    found = mleval.load_study(experiment_names=["mine"]).values.loc[("yeast", "BR"), "f1"]
    assert found == ev.measures["f1"]
    created = mleval.log_evaluation(ev, method="LP", dataset="yeast")
    assert client.get_run(created).info.experiment_id == run.info.experiment_id
    assert client.get_run(new).info.status == client.get_run(created).info.status == "FINISHED"
    told = client.create_run("0").info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", told)
    assert mleval.log_evaluation(ev, method="BR", dataset="yeast") == told
    assert client.get_run(told).info.status == "RUNNING"


def test_what_is_not_finite_is_not_logged(client):
    rng = np.random.default_rng(0)
    y, s = rng.random((60, 4)) < 0.4, rng.random((60, 4))
    s[:20] *= 2  # the first fold has scores outside [0, 1]
    ev = mleval.evaluate(y, s, folds=np.arange(60) // 20)
    run_id = mleval.log_evaluation(ev, method="BR", dataset="d", experiment_name="x")
    assert all(np.isfinite(m[2]) and abs(m[2]) < 1e300 for m in history(client, run_id))
    means = {"f1": np.nan, "recall": np.inf, "precision": 0.5}
    payload = runs.Payload("CC", "d", means, [1, 2], {"f1": [np.nan, 0.25]})
    run = client.get_run(runs.write(payload, experiment_name="x"))
    assert run.data.metrics == {"mleval/precision": 0.5, "mleval.fold/f1": 0.25}
    assert np.isnan(schema.decode_folds(run.data.tags["mleval.folds"]).values["f1"][0])


def test_names_of_all_kinds_and_chosen_measures_only(client):
    labels = ["<b>", "a/b", "../..", "x" * 3000, "木村 🚀", "=1+1"]
    rng = np.random.default_rng(0)
    y, s, names = rng.random((40, 6)) < 0.4, rng.random((40, 6)), ["a", "b", "c/d", "é"]
    ev = mleval.evaluate(y, s, label_names=labels, folds=names * 10)
    strange = {"method": "<img src=x>\n", "dataset": "../etc 名前"}
    how = {"experiment_name": "x", "log_instances": True, "measures": ["ranking", "f1"]}
    run_id = mleval.log_evaluation(ev, **strange, **how)
    study = mleval.load_study(experiment_names=["x"])
    assert (study.methods, study.datasets) == ([strange["method"]], [strange["dataset"]])
    logged = {key for key in client.get_run(run_id).data.metrics if key.startswith("mleval/")}
    assert logged == {f"mleval/{name}" for name in (*SETS["ranking"], "f1")}
    assert set(study.folds) == {*SETS["ranking"], "f1"}
    assert study.folds["f1"].tolist() == ev.folds["f1"].tolist()
    folds = pd.read_parquet(data(run_id, "folds.parquet"))
    assert folds["name"].tolist() == names and folds["fold"].tolist() == [0, 1, 2, 3]
    counts = pd.read_parquet(data(run_id, "counts.parquet"))
    assert counts["label"].unique().tolist() == labels
    expected = ev.instances["fold"].tolist()
    assert parquet(run_id, "mleval/instances.parquet")["fold"].tolist() == expected
    assert {p.split("/")[0] for p in artifacts(run_id)} == {"mleval", "mleval_report.html"}


def test_class_sets_with_a_hierarchy(client):
    h = mleval.Hierarchy([("animal", "cat"), ("animal", "dog"), ("plant", "rose")])
    true, found = (["cat"], ["dog"], ["rose"], ["cat"]), (["dog"], ["dog"], ["rose"], ["rose"])
    ev = mleval.evaluate_hierarchical(true, found, h)
    run_id = mleval.log_evaluation(ev, method="flat", dataset="pets", experiment_name="x")
    study = mleval.load_study(experiment_names=["x"])
    expected = {m: ev.measures[m] for m in study.measures}
    assert study.values.loc[("pets", "flat")].to_dict() == expected
    tags = client.get_run(run_id).data.tags
    other = mleval.evaluate_hierarchical([["cat"]], [["dog"]], h, max_distance=3)
    second = mleval.log_evaluation(other, method="deep", dataset="pets", experiment_name="x")
    expected = client.get_run(second).data.tags["mleval.hierarchy_digest"]
    assert tags["mleval.hierarchy_digest"] != expected
    with pytest.raises(IncomparableRunsError, match="different hierarchies"):
        mleval.load_study(experiment_names=["x"])
    assert "animal › dog" in artifact(run_id, "mleval_report.html")


def test_many_labels_are_thinned(client):
    rng = np.random.default_rng(0)
    y = sparse.random_array((300, 4_000), density=0.001, random_state=rng).astype(bool)
    ev = mleval.evaluate(y, y_pred=y, folds=np.arange(300) % 3)
    run_id = mleval.log_evaluation(
        ev, method="oracle", dataset="large", experiment_name="x", selected_among=7
    )
    run = client.get_run(run_id)
    steps = [m.step for m in client.get_metric_history(run_id, "mleval.profile/binomial")]
    assert len(steps) == 100 and (steps[0], steps[-1]) == (1, 4_000)
    assert schema.decode_profile(run.data.tags["mleval.profile"]).n_labels == 4_000
    counts = pd.read_parquet(data(run_id, "counts.parquet"))
    assert counts["tp"].sum() == y.sum() and (counts["tp"] + counts["fn"] > 0).all()
    assert "chosen among 7 candidates" in artifact(run_id, "mleval_report.html")


def test_what_cannot_be_logged_is_refused_before_anything_is_written(client):
    ev, _ = made()
    good = {"method": "BR", "dataset": "d", "experiment_name": "x"}
    for change, error, text in (
        ({"method": ""}, ValueError, "`method` must be a name .* is empty"),
        ({"method": 3}, TypeError, "`method` must be text, got int"),
        ({"dataset": "x" * 9000}, ValueError, "`dataset` must be a name"),
        ({"run_id": "0" * 32}, ValueError, "must not both be given"),
        ({"n_train": [1, 2]}, ValueError, "`n_train` must hold values of 5 folds"),
        ({"n_train": 0}, ValueError, "`n_train` must hold numbers of fitted instances, got 0"),
        ({"n_train": {9: 1}}, ValueError, "`n_train` must have the folds"),
        ({"test_indices": [[0]] * 5}, ValueError, "must hold the 40 rows of fold 0, got int64 of"),
        ({"test_indices": [["a"] * 40] * 5}, ValueError, "`test_indices` must hold the 40 rows"),
        ({"measures": ["f2"]}, ValueError, "`measures` must name .* got 'f2'"),
    ):
        with pytest.raises(error, match=text):
            mleval.log_evaluation(ev, **good | change)
    with pytest.raises(TypeError, match="`ev` must be an Evaluation, .*, got dict"):
        mleval.log_evaluation({}, method="BR", dataset="d")
    with pytest.raises(ValueError, match="kept no instances"):
        mleval.log_evaluation(made(instances=False)[0], **good, log_instances=True)
    assert client.get_experiment_by_name("x") is None
    report, newer, gone = (
        client.create_run("0", tags={f"mleval.{tag}": value}).info.run_id
        for tag, value in (("kind", "report"), ("schema", "99"), ("schema", "1"))
    )
    client.delete_run(gone)
    for run_id, text in (
        ("0" * 32, "cannot read the store"),
        (report, "holds a report already"),
        (newer, "has schema 99"),
        (gone, "is deleted"),
    ):
        with pytest.raises(StoreError, match=text):
            mleval.log_evaluation(ev, method="BR", dataset="d", run_id=run_id)


def tags_of(client, ev, **facts):
    return client.get_run(
        mleval.log_evaluation(ev, method="BR", dataset="d", experiment_name="x", **facts)
    ).data.tags


def test_the_evaluation_knows_what_is_logged_of_its_truth_and_hierarchy(client):
    h = mleval.Hierarchy([("all", c) for c in "abcdef"])
    ev, _ = made(label_names=list("abcdef"), hierarchy=h)
    tags = tags_of(client, ev)
    assert tags["mleval.dataset_digest"] == ev.truth_digest
    read = Evaluation.from_dict(json.loads(json.dumps(ev.to_dict())))
    assert read.taxonomy is None
    again = tags_of(client, read)
    for name in ("dataset_digest", "hierarchy_digest", "digest"):
        assert again[f"mleval.{name}"] == tags[f"mleval.{name}"]


def test_folds_that_test_a_part_or_parts_twice_are_of_the_whole_dataset(client):
    _, y = made()
    X = np.zeros((200, 1))
    whole = mleval.evaluate(y, y_pred=y).truth_digest
    for cv in (KFold(4), ShuffleSplit(3, random_state=0), RepeatedKFold(n_splits=2, n_repeats=2)):
        with mlflow.start_run() as run:
            mleval.cross_validate(DummyClassifier(), X, y.astype(int), cv=cv, dataset="d")
        assert client.get_run(run.info.run_id).data.tags["mleval.dataset_digest"] == whole


def test_the_digest_of_the_split_is_that_of_its_parts(client):
    ev, y = made()
    parts = [np.flatnonzero(np.arange(200) % 5 == f) for f in range(5)]
    same = [parts, [p[::-1] for p in parts], [p.tolist() for p in parts]]
    same += [dict(enumerate(parts)), np.array(parts, np.int32)]
    digests = [tags_of(client, ev, test_indices=s)["mleval.split_digest"] for s in same]
    swapped = tags_of(client, ev, test_indices=[parts[1], parts[0], *parts[2:]])
    assert {*digests} == {digests[0]} != {swapped["mleval.split_digest"]}
    split = mleval.cross_validate(DummyClassifier(), np.zeros((200, 1)), y * 1, cv=5, log=False)
    with pytest.raises(ValueError, match="`test_indices` must be those of `ev`"):
        tags_of(client, split, test_indices=parts)


def test_fold_statistics_against_scipy():
    rng = np.random.default_rng(0)
    names = ["micro_precision", "micro_recall", "f1"]
    folds = pd.DataFrame(rng.normal(size=(10, 3)), columns=names).assign(constant=0.5)
    found = fold_statistics(folds, test_to_train=1 / 9)
    for m in names:
        low, high = stats.ttest_1samp(folds[m], 0).confidence_interval()
        assert found.table.loc[m, ["low", "high"]].tolist() == pytest.approx([low, high])
        se = np.sqrt((1 / 10 + 1 / 9) * folds[m].var())  # Nadeau & Bengio 2003
        half = stats.t.ppf(0.975, 9) * se
        assert found.table.loc[m, "corrected_high"] == pytest.approx(folds[m].mean() + half)
    assert not found.warnings and fold_statistics(folds.iloc[:3]).warnings
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert json.loads(text)["mean"] == found.table["mean"].tolist()
    for bad, options in ((folds.iloc[:1], {}), (folds, {"test_to_train": -1})):
        with pytest.raises(ValueError, match="must"):
            fold_statistics(bad, **options)


def payload(files=None, seed=0):
    """More metrics than one request takes."""
    rng = np.random.default_rng(seed)
    values = {m: rng.random(60).tolist() for m in SETS["sixteen"]}
    means = {m: float(np.mean(v)) for m, v in values.items()}
    files = {"mleval/note.txt": lambda: "x", **(files or {})}
    return runs.Payload("BR", "d", means, list(range(60)), values, files=files)


def the_run(client):
    (run,) = client.search_runs([client.get_experiment_by_name("x").experiment_id])
    return run


def completed(run_id, result, client, experiment="x"):
    """Skipped as it is; whole, and with every value once, after the same was written again."""
    with pytest.raises(NoRunsError, match="written in part"):
        mleval.load_study(experiment_names=[experiment])
    assert runs.write(result, run_id=run_id) == run_id
    study = mleval.load_study(experiment_names=[experiment])
    assert study.values.loc[("d", "BR")].to_dict() == result.means and not study.excluded
    entries = history(client, run_id)
    assert len(entries) == len({e[:2] for e in entries}) == 16 + 16 * 60
    assert artifacts(run_id) == set(result.files)


@pytest.mark.thorough
@pytest.mark.parametrize("delay", np.linspace(0.0, 0.025 * KILLS, 2 * KILLS))
def test_killed_at_any_time(client, db, delay):
    script = (
        "import sys; sys.path[:] = sys.argv[1:]; import test_runs as t\n"
        "made = [t.payload(seed=i) for i in range(200)]\n"
        "print('go', flush=True)\n"
        "for p in made: t.runs.write(p, experiment_name='x')"
    )
    command = [sys.executable, "-c", script, *sys.path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "go\n"
    deadline = time.monotonic() + PATIENCE
    while not client.get_experiment_by_name("x"):
        assert time.monotonic() < deadline, f"no experiment after {PATIENCE} seconds"
        time.sleep(0.05)
    time.sleep(0.5 + delay)
    process.kill()
    process.wait()
    found = client.search_runs([client.get_experiment_by_name("x").experiment_id])
    for i, run in enumerate(sorted(found, key=lambda r: (r.info.start_time, r.info.run_id))):
        whole = run.data.tags["mleval.status"] == "complete"
        assert whole or i == len(found) - 1
        if not whole:
            runs.write(payload(seed=i), run_id=run.info.run_id)
        entries = history(client, run.info.run_id)
        assert len(entries) == len({e[:2] for e in entries}) == 16 + 16 * 60
        expected = payload(seed=i).means["f1"]
        assert client.get_run(run.info.run_id).data.metrics["mleval/f1"] == expected


def test_the_artifacts_cannot_be_written(client, tmp_path):
    (tmp_path / "file").write_text("no folder")
    client.create_experiment("x", artifact_location=str(tmp_path / "file" / "below"))
    with pytest.raises(StoreError, match="holds the result in part"):
        runs.write(payload(), experiment_name="x")
    run = the_run(client)
    assert run.info.status == "FAILED" and run.data.tags["mleval.status"] == "incomplete"
    (tmp_path / "file").unlink()
    completed(run.info.run_id, payload(), client)


def test_an_error_of_our_own_leaves_no_result(client):
    def broken():
        raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError, match="ours"):
        runs.write(payload({"mleval/last.txt": broken}), experiment_name="x")
    run = the_run(client)
    assert run.info.status == "FAILED"
    with mlflow.start_run() as active, pytest.raises(ZeroDivisionError):
        runs.write(payload({"mleval/last.txt": broken}))
    assert client.get_run(active.info.run_id).info.status == "FINISHED"
    assert client.get_run(active.info.run_id).data.tags["mleval.status"] == "incomplete"
    completed(run.info.run_id, payload({"mleval/last.txt": lambda: "whole"}), client)


def test_completing_with_other_values_takes_the_new_ones(client):
    first = payload(seed=1)
    run = client.create_run("0", tags=first.identity())
    client.log_batch(run.info.run_id, metrics=first.metrics(1000)[:500])
    runs.write(payload(seed=2), run_id=run.info.run_id)
    study = mleval.load_study(run_ids=[run.info.run_id])
    assert study.values.loc[("d", "BR")].to_dict() == payload(seed=2).means


@pytest.mark.server
def test_over_http_and_back(server, capsys):
    ev, _ = made(fit_time=dict.fromkeys(range(5), 0.5))
    mlflow.MlflowClient().create_experiment("logged")
    given = {"method": "BR", "dataset": "yeast", "log_instances": True}
    run_id = mleval.log_evaluation(ev, **given, experiment_name="logged")
    before = history(MlflowClient(), run_id)
    assert mleval.log_evaluation(ev, **given, run_id=run_id) == run_id
    assert history(MlflowClient(), run_id) == before
    study = mleval.load_study(experiment_names=["logged"])
    expected = ev.folds[study.measures]
    pd.testing.assert_frame_equal(study.folds.droplevel([0, 1]), expected, check_index_type=False)
    found = artifacts(run_id)
    assert {"mleval_report.html", "mleval/data.zip", "mleval/instances.parquet"} == found
    asked = {"path": "mleval_report.html", "run_uuid": run_id}
    page = requests.get(f"{server}/get-artifact", params=asked, timeout=PATIENCE)
    assert "BR on yeast" in page.text
    assert capsys.readouterr() == ("", "")


def test_a_server_that_is_down_is_not_waited_for(unset, monkeypatch):
    paths = []

    def down(asked):
        paths.append(asked.path)
        asked.send_error(503)

    with answering(down) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        with pytest.raises(StoreError, match="503"):
            mleval.log_evaluation(made()[0], method="A", dataset="d")
    assert len(paths) <= 3  # MLflow's own eight tries take four minutes


@pytest.mark.server
@pytest.mark.skipif(
    Version(mlflow.__version__) < Version("3.18"), reason="before, MLflow itself asks again"
)
@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("commits", [True, False])
def test_a_503_or_no_answer_for_a_new_run_makes_one_run(server, monkeypatch, commits, is_cut):
    """A server may say 503 of a run that it has made all the same, or cut the line."""
    refused = []

    def busy(asked):
        if refused or not asked.path.endswith("runs/create"):
            return asked.pass_on(server)
        refused.append(asked.answer_of(server) if commits else None)
        return asked.connection.close() if is_cut else asked.send_error(503)

    name = f"busy {commits} {is_cut}"
    with answering(busy) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # as MLflow 3.18 creates
        run_id = runs.write(payload({}), experiment_name=name)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    client = MlflowClient()
    found = client.search_runs([client.get_experiment_by_name(name).experiment_id])
    assert [run.info.run_id for run in found] == [run_id] and refused


@pytest.mark.server
def test_the_line_to_the_server_is_cut(server, monkeypatch):
    is_cut = threading.Event()

    def passed_on(asked):
        if is_cut.is_set():
            asked.connection.close()
        else:
            asked.pass_on(server)

    def cut():
        is_cut.set()
        return "cut"

    said = "holds the result in part and is skipped; log again with run_id='(.*)'"
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    with answering(passed_on) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        with pytest.raises(StoreError, match=said) as caught:
            runs.write(payload({"mleval/last.txt": cut}), experiment_name="cut")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    run_id = re.search("run_id='(.*)'", str(caught.value))[1]
    completed(run_id, payload({"mleval/last.txt": lambda: "whole"}), MlflowClient(), "cut")
    assert MlflowClient().get_run(run_id).info.status == "FINISHED"
