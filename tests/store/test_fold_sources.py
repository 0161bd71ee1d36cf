"""Values by fold elsewhere than in our tag: patterns of keys, steps, child runs, artifacts."""

import numpy as np
import pandas as pd
import pytest
from mlflow.entities import Metric

import mlflow_mleval as mleval
from mlflow_mleval.store import schema
from mlflow_mleval.store.importing import import_results
from mlflow_mleval.store.repeats import FoldRule

VALUES = {"a": [0.5, 0.75, 0.25], "b": [0.5, 0.5, 0.125]}
CELLS = [["x"], ["a", "b"], [0, 1, 2]]
INDEX = pd.MultiIndex.from_product(CELLS, names=["dataset", "method", "fold"])
EXPECTED = pd.DataFrame({"f1": VALUES["a"] + VALUES["b"]}, index=INDEX)


@pytest.fixture
def run(client):
    """Makes a run as anybody might; metrics are (key, step): value."""
    experiment_id = client.create_experiment("x")

    def make(name, metrics, parent=None, status="FINISHED"):
        tags = {"mlflow.parentRunId": parent} if parent else {}
        run_id = client.create_run(experiment_id, run_name=name, tags=tags).info.run_id
        values = [Metric(key, value, 1 + step, step) for (key, step), value in metrics.items()]
        client.log_batch(run_id, values)
        client.set_terminated(run_id, status)
        return run_id

    return make


def in_keys(run, method, values):
    run(method, {(f"cv_{fold}_f1", 0): v for fold, v in enumerate(values)} | {("seconds", 0): 3})


def in_steps(run, method, values):
    run(method, {("f1", fold): v for fold, v in enumerate(values)} | {("seconds", 0): 3})


def in_children(run, method, values):
    parent = run(method, {("f1", 0): 0.99})
    for value in values:
        run("fold", {("f1", 0): value}, parent)
    run("broke off", {("f1", 0): 0.0}, parent, status="FAILED")


SHAPES = {"key:cv_{fold}_{measure}": in_keys, "steps": in_steps, "children": in_children}


@pytest.mark.parametrize("rule", SHAPES)
def test_folds_of_runs_that_others_logged(run, rule):
    for method, values in VALUES.items():
        SHAPES[rule](run, method, values)
    study = mleval.load_study(experiment_names=["x"], folds_by=rule)
    pd.testing.assert_frame_equal(study.folds, EXPECTED)
    # the mean, not the last step and not what the parent says
    assert study.values["f1"].tolist() == [0.5, 0.375]
    assert study.source["folds_by"] == rule
    assert any("f1" in note and "not logged by this project" in note for note in study.notes)
    found = mleval.compare_folds(study, "x", measures=["f1"])
    difference = np.subtract(VALUES["a"], VALUES["b"])
    assert found.pairs["pvalue"].notna().all() and difference.mean() == 0.125
    left_out = [e.name.split(" (")[0] for e in study.excluded if e.kind == "child run"]
    assert left_out == (["broke off"] * 2 if rule == "children" else [])


def test_without_the_rule_children_are_no_results_and_steps_are_no_folds(run):
    in_children(run, "a", VALUES["a"])
    in_steps(run, "b", VALUES["b"])
    study = mleval.load_study(experiment_names=["x"])
    assert study.folds is None and study.values["f1"].tolist() == [0.99, 0.125]
    assert len([e for e in study.excluded if e.kind == "child run"]) == 4
    # they are found though the filter leaves them out
    of_a = {"filter_string": "attributes.run_name = 'a'", "folds_by": "children"}
    assert len(mleval.load_study(experiment_names=["x"], **of_a).folds) == 3


@pytest.mark.filterwarnings("error::pandas.errors.PerformanceWarning")
def test_folds_in_keys_join_a_hundred_metrics_in_silence(log):
    many = {f"own_{i}": 0.5 for i in range(120)}
    log("a", {**many, **{f"{fold}/{m}": 0.5 for fold in range(2) for m in ("f1", "recall")}})
    study = mleval.load_study(experiment_names=["x"], folds_by="key:{fold}/{measure}")
    assert {"f1", "recall"} <= {*study.folds.columns}


def test_our_own_folds_stay_as_they_are(client):
    frame = EXPECTED.reset_index().assign(dataset="d")
    import_results(frame, experiment_name="y")
    study = mleval.load_study(experiment_names=["y"], folds_by="key:{fold}/{measure}")
    assert study.folds["f1"].tolist() == EXPECTED["f1"].tolist()


def test_folds_that_are_too_many_for_a_tag_are_read_where_it_points_to(client):
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, (2000, 3))
    ev = mleval.evaluate(Y, y_pred=rng.integers(0, 2, Y.shape), folds=np.arange(2000) % 500)
    run_id = mleval.log_evaluation(ev, method="a", dataset="d", experiment_name="many")
    found = schema.decode_folds(client.get_run(run_id).data.tags[schema.TAG_FOLDS]).omitted
    assert found == schema.ARTIFACT_FOLDS
    study = mleval.load_study(experiment_names=["many"], measures=["f1", "hamming_loss"])
    expected = ev.folds[["f1", "hamming_loss"]].to_numpy()
    np.testing.assert_array_equal(study.folds.to_numpy(), expected)


def test_an_import_with_very_many_folds_is_read_from_its_steps(client):
    values = np.linspace(0, 1, 2500)
    frame = pd.DataFrame({"dataset": "d", "method": "a", "fold": range(2500), "f1": values})
    import_results(frame, experiment_name="y")
    study = mleval.load_study(experiment_names=["y"])
    np.testing.assert_array_equal(study.folds["f1"], values)


def test_patterns_take_their_dots_and_brackets_literally():
    rule = FoldRule("key:val.{measure}[{fold}]")
    assert rule.match("val.f1[12]") == ("f1", 12) and rule.match("valxf1[1]") is None
    assert rule.match("val.f1[x]") is None
