"""Autologging in the background in processes that were forked while results waited to be written: each writes its own, once."""

import multiprocessing

import mlflow
import pytest
from sklearn.datasets import make_multilabel_classification
from sklearn.neighbors import KNeighborsClassifier

import mlflow_mleval as mleval

X, Y = make_multilabel_classification(90, 6, n_classes=3, random_state=0)


def evaluate(neighbours):
    mleval.autolog(dataset="d", asynchronous=True)
    KNeighborsClassifier(neighbours).fit(X[:60], Y[:60]).score(X[60:], Y[60:])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_write_their_own(db, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    context = multiprocessing.get_context(method)
    try:
        evaluate(1)
        children = [context.Process(target=evaluate, args=(n,)) for n in (2, 3)]
        for child in children:
            child.start()
        for child in children:
            child.join(120)
            assert child.exitcode == 0
    finally:
        mleval.autolog(disable=True)
        for child in children:
            child.kill()
    found = mlflow.search_runs(experiment_names=["Default"], output_format="list")
    assert {run.data.tags["mleval.method"].partition("(")[0] for run in found} == {"KNeighborsClassifier"}
    assert sorted(run.data.params["n_neighbors"] for run in found) == ["1", "2", "3"]
