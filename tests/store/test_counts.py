"""Counts by fold are read back from runs, and the tests over folds work from tracked runs alone."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import KFold, RepeatedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import mlflow_mleval as mleval

X, Y = make_multilabel_classification(200, n_classes=4, random_state=0)
METHODS = {
    "tree": DecisionTreeClassifier(random_state=0),
    "stump": DecisionTreeClassifier(max_depth=1),
    "knn": KNeighborsClassifier(),
}


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
    whole = mleval.with_counts(study, labels)
    np.testing.assert_array_equal(by_tag[["tp", "fn"]], whole.folds[["tp", "fn"]])
    one = mleval.with_counts(study, labels[1:2]).folds["tp"].tolist()
    assert one == [evs["knn"].fold(f).labels.loc[labels[1], "tp"] for f in range(5)]
    said = "no run of the study carries counts by fold of 'nothing'"
    with pytest.raises(mleval.MlevalError, match=said):
        mleval.with_counts(study, ["nothing"])
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
