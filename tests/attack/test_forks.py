"""Autologging in the background in processes that were forked: each writes its own, once."""

import multiprocessing

import mlflow
import pytest
from sklearn.datasets import make_multilabel_classification
from sklearn.neighbors import KNeighborsClassifier

import mlflow_mleval as mleval

pytestmark = pytest.mark.thorough
X, Y = make_multilabel_classification(90, 6, n_classes=3, random_state=0)


def evaluate(neighbours):
    mleval.autolog(dataset="d", asynchronous=True)
    KNeighborsClassifier(neighbours).fit(X[:60], Y[:60]).score(X[60:], Y[60:])


@pytest.mark.parametrize(("method", "children"), [("fork", 2), ("spawn", 1)])
def test_children_write_their_own(db, method, children):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    context, started = multiprocessing.get_context(method), []
    try:
        evaluate(1)
        started = [context.Process(target=evaluate, args=(2 + i,)) for i in range(children)]
        for child in started:
            child.start()
        for child in started:
            child.join(300)
            assert child.exitcode == 0, "a child failed, or did not end within 5 minutes"
    finally:
        mleval.autolog(disable=True)
        for child in started:
            child.kill()
    found = mlflow.search_runs(experiment_names=["Default"], output_format="list")
    expected = {"KNeighborsClassifier"}
    assert {run.data.tags["mleval.method"].partition("(")[0] for run in found} == expected
    expected = ["1", "2", "3"][: 1 + children]
    assert sorted(run.data.params["n_neighbors"] for run in found) == expected
