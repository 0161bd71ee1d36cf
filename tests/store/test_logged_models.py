"""Results of runs that hold a LoggedModel: they are its metrics, and models can be methods."""

import mlflow
import numpy as np
import pytest
from mlflow.entities import LoggedModelOutput

import mlflow_mleval as mleval
from mlflow_mleval.errors import CandidatesError, NoRunsError
from mlflow_mleval.selection import Selection
from mlflow_mleval.store.store import run_of
from mlflow_mleval.store.survey import take_stock


def logged(client, name, noise, **params):
    """A run with a model, and what it is worth on two datasets' worth of labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (60, 3))
    with mlflow.start_run() as run:
        mlflow.log_params(params)
        experiment, run_id = run.info.experiment_id, run.info.run_id
        model = client.create_logged_model(experiment, name, source_run_id=run_id)
        client.log_outputs(run_id, [LoggedModelOutput(model.model_id, 0)])
        ev = mleval.evaluate(y, np.clip(y + rng.normal(0, noise, y.shape), 0, 1))
        mleval.log_evaluation(ev, method="made", dataset="d")
    return model.model_id, ev


def test_metrics_are_linked_to_the_model_and_the_data(client):
    mlflow.set_experiment("x")
    (worse, _), (better, ev) = logged(client, "worse", 0.8), logged(client, "better", 0.2)
    experiment = client.get_experiment_by_name("x").experiment_id
    order = [{"field_name": "metrics.mleval/micro_f1", "ascending": False}]
    found = client.search_logged_models([experiment], order_by=order)
    assert [m.model_id for m in found] == [better, worse]
    metric = {m.key: m for m in found[0].metrics}["mleval/micro_f1"]
    assert metric.value == ev.measures["micro_f1"] and metric.dataset_name == "d"
    assert metric.dataset_digest
    # and no points of curves
    assert {m.key for m in found[0].metrics} == {f"mleval/{name}" for name in ev.measures}


def test_models_are_methods_on_request_and_those_of_one_name_are_told_apart(client):
    mlflow.set_experiment("x")
    ids = [logged(client, "model", noise, step=step)[0] for step, noise in ((1, 0.6), (2, 0.3))]
    names = [f"model {model[:14]}" for model in ids]
    study = mleval.load_study(experiment_names=["x"], method_by="model")
    assert set(study.methods) == {*names}
    with pytest.raises(CandidatesError, match="made on d: 2 runs that differ in step"):
        mleval.load_study(experiment_names=["x"])
    both = mleval.load_study(experiment_names=["x"], method_by=["model", "param:step"])
    assert set(both.methods) == {f"{names[0]}, step=1", f"{names[1]}, step=2"}


def test_methods_are_registered_versions_whether_a_model_or_only_its_run_is_known(client, registry):
    with mlflow.start_run() as run:
        mlflow.log_metric("mleval/micro_f1", 0.5)
    client.create_model_version("tagger", "runs:/elsewhere", run.info.run_id)
    by = {"method_by": "model", "dataset_by": "experiment", "measures": ["micro_f1"]}
    study = mleval.load_study(experiment_names=["x"], **by)
    assert study.methods == ["tagger/1", "tagger/2", "tagger/3"]
    client.create_registered_model("final")
    client.create_model_version("final", f"models:/{registry['models'][0]}", registry["runs"][0])
    study = mleval.load_study(experiment_names=["x"], **by)
    assert study.methods == ["final/1", "tagger/2", "tagger/3"]


def test_methods_are_named_by_prompts_and_by_models_that_only_metrics_tell(client):
    mlflow.set_experiment("x")
    experiment = client.get_experiment_by_name("x").experiment_id
    model = client.create_logged_model(experiment, "agent")
    prompts = (
        '[{"name": "qa", "version": "1"}]',
        '[{"name": "qa", "version": 2}, {"name": "ask", "version": "7"}]',
    )
    for k, linked in enumerate(prompts):
        with mlflow.start_run(tags={"mlflow.linkedPrompts": linked}) as run:
            mlflow.log_metric("exact/mean", k, model_id=model.model_id if k else None)

    def study_by(rule):
        return mleval.load_study(experiment_names=["x"], method_by=rule, maximize=["exact/mean"])

    assert sorted(study_by("prompt").methods) == ["qa/1", "qa/2, ask/7"]
    alone = study_by("model")
    assert alone.methods == [f"agent {model.model_id[:14]}"]
    assert "no model, which was to name the method" in alone.excluded[0].reason
    client.set_tag(run.info.run_id, "mlflow.linkedPrompts", "[3]")
    assert study_by("prompt").methods == ["qa/1"]


@pytest.fixture
def registry(client):
    """Two runs with a model each, registered as versions of "tagger"; the second is champion."""
    mlflow.set_experiment("x")
    client.create_registered_model("tagger")
    ids = [logged(client, "model", noise)[0] for noise in (0.6, 0.3)]
    runs = [client.get_logged_model(model).source_run_id for model in ids]
    for model, run in zip(ids, runs, strict=True):
        client.create_model_version("tagger", f"models:/{model}", run, model_id=model)
    client.set_registered_model_alias("tagger", "champion", "2")
    return {"models": ids, "runs": runs}


def test_a_model_stands_for_the_run_that_made_it(client, registry):
    run_ids, models = registry["runs"], registry["models"]
    for name, k in {
        "models:/tagger/1": 0,
        "models:/tagger/2": 1,
        "models:/tagger/latest": 1,
        "models:/tagger@champion": 1,
        f"models:/{models[0]}": 0,
    }.items():
        assert run_of(client, name) == run_ids[k]
        study = mleval.load_study(run_ids=[name])
        assert study.runs["run_id"].tolist() == [run_ids[k]]
    assert run_of(client, run_ids[0]) == run_ids[0]
    study, _ = take_stock(Selection(run_ids=["models:/tagger/1"]))
    assert study.runs["run_id"].tolist() == [run_ids[0]]


def test_a_model_that_is_not_there_is_told_with_those_that_are(client, registry):
    ways = "named as models:/NAME/VERSION, models:/NAME@ALIAS or models:/ID, got"
    for name, text in {
        "taggr/1": r"no model 'taggr'. Did you mean 'tagger'\? Registered in .*: 'tagger'",
        "tagger/7": "'tagger' has no '7'. It has 1, 2, @champion.",
        "tagger@champ": r"no '@champ'. Did you mean '@champion'\? It has 1, 2",
        "tagger": "no model 'tagger'.*Name one as models:/NAME/VERSION, models:/NAME@",
        "tagger@": ways,
        "": ways,
        "a'b\"c/1": "no model",
    }.items():
        with pytest.raises(NoRunsError, match=text):
            mleval.load_study(run_ids=[f"models:/{name}"])


def test_an_evaluation_is_logged_into_the_run_that_made_a_version_where_one_did(client):
    run_id = client.create_run("0").info.run_id
    client.create_registered_model("tagger")
    client.create_model_version("tagger", "file:///model", run_id)
    client.create_model_version("tagger", "file:///elsewhere")
    ev = mleval.evaluate(np.eye(3, dtype=int), np.eye(3))
    assert mleval.log_evaluation(ev, method="a", dataset="d", run_id="models:/tagger/1") == run_id
    text = "no run is known to have made models:/tagger/2: version 2 was registered from file:"
    with pytest.raises(NoRunsError, match=text):
        mleval.load_study(run_ids=["models:/tagger/2"])
