"""Values and counts by fold: patterns of keys, steps, child runs, artifacts, tags."""

import numpy as np
import pandas as pd
import pytest
from mlflow.entities import Metric
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import KFold, RepeatedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import mlflow_mleval as mleval
from mlflow_mleval.store import schema
from mlflow_mleval.store.importing import import_results
from mlflow_mleval.store.repeats import FoldRule
from mlflow_mleval.store.study_artifacts import label_counts

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


def test_patterns_take_their_dots_and_brackets_literally():
    rule = FoldRule("key:val.{measure}[{fold}]")
    assert rule.match("val.f1[12]") == ("f1", 12) and rule.match("valxf1[1]") is None
    assert rule.match("val.f1[x]") is None


X, Y = make_multilabel_classification(200, n_classes=4, random_state=0)
METHODS = {"tree": DecisionTreeClassifier(random_state=0), "knn": KNeighborsClassifier()}
METHODS["stump"] = DecisionTreeClassifier(max_depth=1)


def log(cv, methods=METHODS, experiment="x"):
    where = {"dataset": "d", "experiment_name": experiment}
    return {
        name: mleval.cross_validate(one, X, Y, cv=cv, method=name, **where)
        for name, one in methods.items()
    }


def test_counts_come_back_and_are_tested(client):
    evs = log(KFold(10, shuffle=True, random_state=0))
    study = mleval.load_study(experiment_names=["x"])
    counted = mleval.with_counts(study)
    for name, ev in evs.items():
        expected = np.array([ev.fold(f).labels[["tp", "fp", "fn", "tn"]].sum() for f in range(10)])
        given = counted.folds.loc["d"].loc[name, ["tp", "fp", "fn", "tn"]]
        np.testing.assert_array_equal(given, expected)
    found = mleval.compare_folds(counted, "d", ["tpr", "fpr"])
    assert found.protocol.kind == "k-fold" and found.protocol.known
    assert found.protocol.ratio == pytest.approx(1 / 9)
    assert not any("split" in w or "sizes" in w for w in found.warnings)
    assert set(found.methods) == set(METHODS)
    counts = evs["tree"].fold(3).labels.sum()
    wanted = counts["tp"] / (counts["tp"] + counts["fn"])
    assert found.values.loc[("tree", 3), "tpr"] == pytest.approx(wanted)
    np.testing.assert_array_equal(counted.folds[study.folds.columns], study.folds)


def test_sums_over_labels_travel_in_a_tag(client, tmp_path):
    """Tables by fold need one search; what stands in the tag is what the artifact says."""
    evs = log(KFold(5, shuffle=True, random_state=0), {"knn": METHODS["knn"]})
    study, labels = mleval.load_study(experiment_names=["x"]), evs["knn"].label_names
    asked = {"experiment_names": ["x"], "measures": ["tpr", "fpr", "tp", "fn"]}
    by_tag = mleval.load_folds(**asked).folds
    by_label = label_counts(study, "d", "knn")
    whole = by_label.groupby(level="fold").sum()
    np.testing.assert_array_equal(by_tag[["tp", "fn"]], whole[["tp", "fn"]])
    assert {*study.runs["n_train"]} == {(160,) * 5} and {*study.runs["n_test"]} == {(40,) * 5}
    one = by_label.loc[str(labels[1]), "tp"].tolist()
    assert one == [evs["knn"].fold(f).labels.loc[labels[1], "tp"] for f in range(5)]
    for packed in tmp_path.rglob("data.zip"):
        packed.unlink()
    np.testing.assert_array_equal(mleval.load_folds(**asked).folds, by_tag)


def test_other_splits_and_repeated_ones_are_seen_in_the_runs(client):
    log(KFold(5, shuffle=True, random_state=0), {"tree": METHODS["tree"], "knn": METHODS["knn"]})
    log(KFold(5, shuffle=True, random_state=1), {"stump": METHODS["stump"]})
    study = mleval.load_study(experiment_names=["x"])
    found = mleval.compare_folds(study, "d", ["micro_precision"])
    assert found.table["pvalue"].isna().sum() == 2
    assert "split digests differ" in found.refusals["pairs"]
    apart = mleval.compare_folds(study, "d", ["micro_precision"], paired=False)
    assert apart.table["pvalue"].notna().all()
    two = {name: METHODS[name] for name in ("tree", "knn")}
    log(RepeatedKFold(n_splits=5, n_repeats=2, random_state=0), two, "y")
    study = mleval.load_study(experiment_names=["y"])
    found = mleval.compare_folds(study, "d", ["micro_precision", "micro_recall"])
    assert found.protocol.kind == "repeated" and found.protocol.ratio == pytest.approx(1 / 4)
    assert "naive" in found.refusals


def test_rates_of_a_table_without_counts_say_what_they_take():
    rows = [("d", method, "f1", fold, 0.5) for method in ("a", "b") for fold in (1, 2)]
    table = pd.DataFrame(rows, columns=["dataset", "method", "measure", "fold", "value"])
    with pytest.raises(
        mleval.MlevalError, match="for tpr a table needs tp, fp, fn, tn by fold: no"
    ):
        mleval.load_folds(["f1", "tpr"], results=table)
