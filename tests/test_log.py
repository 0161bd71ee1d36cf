"""An Evaluation in a run, and back: what is written, that it is written once and whole or not at all."""

import io
import json

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

import mlflow_mleval as mleval
from mlflow_mleval.errors import StoreError
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.tracking import schema


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


def artifacts(run_id, folder=None):
    found = set()
    for entry in MlflowClient().list_artifacts(run_id, folder):
        found |= artifacts(run_id, entry.path) if entry.is_dir else {entry.path}
    return found


def history(client, run_id):
    """Every metric entry of the run, also those that later ones hide."""
    keys = client.get_run(run_id).data.metrics
    return sorted((m.key, m.step, m.value, m.timestamp) for key in keys for m in client.get_metric_history(run_id, key))


def test_a_study_reads_what_was_logged(client):
    evs = {}
    for method in ("BR", "CC"):
        for dataset in ("yeast", "emotions"):
            ev, y = made(seed=len(evs), fit_time=dict.fromkeys(range(5), 0.5))
            evs[dataset, method] = ev
            mleval.log_evaluation(ev, method=method, dataset=dataset, experiment_name="x", y_true=y)
    study = mleval.load_study(experiment_names=["x"])
    assert study.excluded == () or {e.name for e in study.excluded} == {"fit_time"}
    assert sorted(study.values.index) == sorted(evs)
    for pair, ev in evs.items():
        means = ev.fold_means()
        assert study.values.loc[pair].to_dict() == {m: means[m] for m in study.measures}
        pd.testing.assert_frame_equal(study.folds.sort_index().loc[pair], ev.folds[study.measures], check_index_type=False)
    assert set(study.runs["conventions"]) == {"sklearn"} and study.runs["dataset_digest"].str.len().eq(64).all()


def test_what_a_run_holds(client):
    ev, y = made(label_names=[f"label {i} ✓" for i in range(6)], fit_time=dict.fromkeys(range(5), 0.5))
    indices = [np.flatnonzero(np.arange(200) % 5 == f) for f in range(5)]
    run_id = mleval.log_evaluation(
        ev, method="BR", dataset="yeast", experiment_name="x", y_true=y, test_indices=indices, n_train=160,
        log_instances=True, tags={"note": "mine"},
    )
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED" and run.info.run_name == "BR · yeast"
    tags, metrics = run.data.tags, run.data.metrics
    assert tags["mleval.status"] == "complete" and tags["mleval.schema"] == "1" and tags["mleval.kind"] == "evaluation"
    assert tags["mleval.conventions"] == "sklearn" and tags["note"] == "mine" and len(tags["mleval.split_digest"]) == 64
    assert {k: v for k, v in metrics.items() if k.startswith("mleval/")} == {f"mleval/{m}": v for m, v in ev.fold_means().items()}
    steps = client.get_metric_history(run_id, "mleval.fold/f1")
    assert [(m.step, m.value) for m in steps] == list(ev.folds["f1"].items())
    profile = np.mean([ev.fold(f).profile("binomial").losses for f in range(5)], axis=0)
    steps = client.get_metric_history(run_id, "mleval.profile/binomial")
    assert [m.step for m in steps] == [1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose([m.value for m in steps], profile, rtol=1e-15)
    steps = client.get_metric_history(run_id, "mleval.profile/polynomial")
    assert [m.step for m in steps][:4] == [1, 2, 3, 5]
    assert steps[2].value == pytest.approx(np.mean([ev.fold(f).profile("polynomial", alphas=[3]).losses for f in range(5)]))
    found = schema.decode_profile(tags["mleval.profile"])
    np.testing.assert_allclose(found.losses, profile, rtol=1e-15)
    np.testing.assert_allclose(found.by_fold[2], ev.fold(2).profile("binomial").losses, rtol=1e-7)
    (known,) = mleval.load_study(experiment_names=["x"]).runs.to_dict("records")
    assert (known["n_train"], known["n_test"]) == ((160,) * 5, (40,) * 5) and known["split_digest"] == tags["mleval.split_digest"]
    assert metrics["mleval.data/n_instances"] == 200 and metrics["mleval.data/cardinality_true"] == pytest.approx(y.mean() * 6)
    (source,) = run.inputs.dataset_inputs
    assert source.dataset.name == "yeast" and tags["mleval.dataset_digest"].startswith(source.dataset.digest)

    folds = parquet(run_id, "mleval/folds.parquet").set_index("fold")
    pd.testing.assert_frame_equal(folds[ev.folds.columns], ev.folds, check_index_type=False)
    assert folds["n_train"].tolist() == [160] * 5
    counts = parquet(run_id, "mleval/counts.parquet").set_index(["fold", "label"])
    for fold in range(5):
        pd.testing.assert_frame_equal(counts.loc[fold], ev.fold(fold).labels[["tp", "fp", "fn", "tn"]], check_index_type=False)
    instances = parquet(run_id, "mleval/instances.parquet")
    pd.testing.assert_frame_equal(instances.drop(columns="instance"), ev.instances)
    back = Evaluation.from_dict(json.loads(artifact(run_id, "mleval/evaluation.json")))
    assert back.measures == ev.measures and back.folds.equals(ev.folds) and back.labels.equals(ev.labels)
    table = pd.read_csv(io.StringIO(artifact(run_id, "mleval/profile.csv")))
    soft = table.query("family == 'binomial' and kind == 'soft'")
    np.testing.assert_allclose(soft["loss"], ev.profile("binomial").losses)
    labels = client.load_table(run.info.experiment_id, "mleval/labels.json", [run_id])
    assert labels["label"].tolist() == list(ev.label_names) and labels["tp"].tolist() == ev.labels["tp"].tolist()
    measures = client.load_table(run.info.experiment_id, "mleval/measures.json", [run_id])
    assert measures["measure"].tolist() == list(ev.measures)
    np.testing.assert_allclose(measures["over_all_instances"], list(ev.measures.values()))
    statistics = json.loads(artifact(run_id, "mleval/statistics.json"))
    at = statistics["measures"].index("f1")
    assert statistics["mean"][at] == ev.folds["f1"].mean()
    np.testing.assert_allclose(statistics["covariance"][at][at], ev.folds["f1"].var())
    assert statistics["test_to_train"] == 0.25


def test_the_same_again_changes_nothing(client):
    ev, y = made()
    run_id = mleval.log_evaluation(ev, method="BR", dataset="yeast", experiment_name="x", y_true=y)
    before = client.get_run(run_id), history(client, run_id), artifacts(run_id)
    assert mleval.log_evaluation(ev, method="BR", dataset="yeast", run_id=run_id, y_true=y) == run_id
    after = client.get_run(run_id), history(client, run_id), artifacts(run_id)
    assert after[1:] == before[1:] and after[0].to_dictionary() == before[0].to_dictionary()
    for other in ({"method": "CC"}, {"dataset": "scene"}):
        with pytest.raises(StoreError, match="holds the evaluation of BR on yeast already"):
            mleval.log_evaluation(ev, **{"method": "BR", "dataset": "yeast"} | other, run_id=run_id)
    assert client.get_run(run_id).to_dictionary() == before[0].to_dictionary()


def test_the_active_run_takes_it_and_stays_active(client):
    ev, _ = made(folds=0)
    mlflow.set_experiment("mine")
    with mlflow.start_run() as run:
        mlflow.log_metric("loss", 0.5)
        assert mleval.log_evaluation(ev, method="BR", dataset="yeast") == run.info.run_id
        assert client.get_run(run.info.run_id).info.status == "RUNNING"
        new = mleval.log_evaluation(ev, method="CC", dataset="yeast", experiment_name="other")
        assert new != run.info.run_id and mlflow.active_run().info.run_id == run.info.run_id
        mlflow.log_metric("loss", 0.4)
    assert mleval.load_study(experiment_names=["mine"]).values.loc[("yeast", "BR"), "f1"] == ev.measures["f1"]
    created = mleval.log_evaluation(ev, method="LP", dataset="yeast")
    assert client.get_run(created).info.experiment_id == run.info.experiment_id
    assert client.get_run(new).info.status == client.get_run(created).info.status == "FINISHED"
