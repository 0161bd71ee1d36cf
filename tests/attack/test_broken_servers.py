"""Six kinds of broken server: a training ends, is told once, and loses no result."""

import socket
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from contextlib import contextmanager

import mlflow
import numpy as np
import pandas as pd
import pytest
import sklearn.model_selection
from answering import answering
from command_line import mleval as run
from mlflow.data.evaluation_dataset import EvaluationDataset
from sklearn.datasets import make_multilabel_classification
from sklearn.neighbors import KNeighborsClassifier
from waiting import free_port

import mlflow_mleval as mleval
from mlflow_mleval.training import delivery
from mlflow_mleval.training.evaluator import MlevalEvaluator

pytestmark = pytest.mark.thorough
X, Y = make_multilabel_classification(90, 6, n_classes=3, random_state=0)
KINDS = ["errors", "drops", "silent", "slow", "refuses", "garbage"]


@contextmanager
def broken(kind):
    """What a server of this kind was asked, and its URL."""
    paths: list[str] = []
    over = threading.Event()

    def answer(asked):
        paths.append(asked.path)
        if kind == "errors":
            asked.send_error(500)
        elif kind == "drops":
            asked.connection.shutdown(socket.SHUT_RDWR)
        elif kind == "silent":
            over.wait(60)
        elif kind == "slow":
            asked.say(b"", **{"Content-Length": "100000"})
            while not over.wait(0.2):
                asked.wfile.write(b" ")
                asked.wfile.flush()
        elif kind == "garbage":
            asked.say(b"\x00<html>\xff{{{")

    if kind == "refuses":
        yield paths, f"http://127.0.0.1:{free_port()}"
        return
    with answering(answer) as url:
        yield paths, url
        over.set()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The limits, short."""
    monkeypatch.setenv("MLEVAL_TIMEOUT", "1.5")
    yield
    mleval.autolog(disable=True)


def script():
    model = KNeighborsClassifier().fit(X[:60], Y[:60])
    first = model.score(X[60:], Y[60:])
    folds = sklearn.model_selection.cross_validate(KNeighborsClassifier(3), X, Y, cv=3)
    last = KNeighborsClassifier(7).fit(X[:60], Y[:60]).score(X[60:], Y[60:])
    return [first, *folds["test_score"].tolist(), last]


EXPECTED = script()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_training_is_told_once_and_loses_nothing(kind, db, monkeypatch, asynchronous):
    said: list[str] = []  # not by catch_warnings: in several threads at once it loses what is said
    monkeypatch.setattr(warnings, "warn", lambda message, *_, **__: said.append(str(message)))
    with broken(kind) as (_, url):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        mleval.autolog(dataset="d", asynchronous=asynchronous)
        start = time.monotonic()
        assert script() == EXPECTED
        mleval.autolog(disable=True)
        print(f"{kind}: {time.monotonic() - start:.1f} s for three evaluations")
    (text,) = [message for message in said if "was not logged" in message]
    assert f"mleval import {db.parent / 'mleval_unsent'}" in text
    assert_imported_once(db, monkeypatch, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_asked_for_by_hand_ends_soon_and_is_kept(kind, db, monkeypatch):
    """Each call is an error of its own that says where the result is."""
    monkeypatch.setenv("MLEVAL_TIMEOUT", "0.5")
    ev = mleval.evaluate(Y, Y * 0.8 + 0.1)
    how = {"cv": 2, "scoring": mleval.scoring(["micro_f1"]), "refit": "micro_f1"}
    grid, estimator = {"n_neighbors": [1, 3]}, KNeighborsClassifier()
    search = sklearn.model_selection.GridSearchCV(estimator, grid, **how).fit(X, Y)
    table = EvaluationDataset(pd.DataFrame(np.hstack([Y, Y]), columns=list("abcxyz")))
    columns = {"targets": list("abc"), "predictions": list("xyz")}
    evaluator = {"model_type": "multilabel", "run_id": "0" * 32, "dataset": table}
    evaluator["evaluator_config"] = {"method": "e", "dataset": "d", **columns}
    calls = {
        "log_evaluation": lambda: mleval.log_evaluation(ev, method="m", dataset="d"),
        "log_search": lambda: mleval.log_search(search, dataset="d"),
        "log_profile": lambda: mleval.log_profile([5, 3, 2, 0], method="p", dataset="d"),
        "the evaluator": lambda: MlevalEvaluator().evaluate(**evaluator),
    }
    with broken(kind) as (_, url):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        for name, call in calls.items():
            start = time.monotonic()
            said = f"kept in .*mleval import {db.parent / 'mleval_unsent'}"
            with pytest.raises(mleval.MlevalError, match=said):
                call()
            print(f"{kind}: {time.monotonic() - start:.1f} s for {name}")
    assert_imported_once(db, monkeypatch, len(calls))


@pytest.mark.parametrize("kind", ["silent", "garbage"])
def test_epochs_by_hand_are_told_once_and_kept(kind, db, monkeypatch):
    ev = mleval.evaluate(Y, Y * 0.8 + 0.1)
    run_id = mlflow.MlflowClient().create_run("0").info.run_id
    monkeypatch.setenv("MLEVAL_TIMEOUT", "0.5")
    with broken(kind) as (_, url), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        for epoch in range(30):
            mleval.log_evaluation(ev, step=epoch, run_id=run_id)
        with pytest.raises(mleval.MlevalError, match="kept in"):
            mleval.log_evaluation(ev, method="m", dataset="d", run_id=run_id)
    assert len([w for w in caught if "Epochs are kept in memory" in str(w.message)]) == 1
    assert_imported_once(db, monkeypatch, 1)
    assert len(mlflow.MlflowClient().get_metric_history(run_id, "mleval.epoch/f1")) == 30


def assert_imported_once(db, monkeypatch, results):
    folder = db.parent / "mleval_unsent"
    copies = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    assert len(copies) == results == len(list(folder.iterdir()))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{db}")
    for said in (
        f"{results} results written, 0 already there",
        f"0 results written, {results} already there",
    ):
        assert said in run("import", folder).output
        assert not list(folder.glob("*.json"))
        runs = mlflow.search_runs(experiment_names=["Default"], output_format="list")
        assert [each.data.tags["mleval.status"] for each in runs] == ["complete"] * results
        for name, content in copies.items():
            (folder / name).write_bytes(content)


def test_a_store_that_failed_is_left_alone_until_it_is_asked_again(db, monkeypatch):
    with broken("errors") as (paths, url):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        mleval.autolog(dataset="d", silent=True)
        script()
        before = len(paths)
        script()
        assert len(paths) == before
    trouble = ("it was away", 0.0)
    monkeypatch.setitem(delivery._troubles, f"sqlite:///{db}", trouble)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{db}")
    monkeypatch.setenv("MLEVAL_TIMEOUT", "60")  # the machine may be busy
    script()
    assert len(mlflow.search_runs(experiment_names=["Default"], output_format="list")) == 3


def test_the_interpreter_ends_while_a_server_is_silent(db):
    with broken("silent") as (_, url):
        code = f"""
            import os
            os.environ |= {{"MLFLOW_TRACKING_URI": {url!r}, "MLEVAL_TIMEOUT": "1"}}
            import mlflow_mleval as mleval
            from sklearn.datasets import make_multilabel_classification
            from sklearn.neighbors import KNeighborsClassifier
            X, Y = make_multilabel_classification(90, 6, n_classes=3, random_state=0)
            mleval.autolog(asynchronous=True, dataset="d")
            KNeighborsClassifier().fit(X[:60], Y[:60]).score(X[60:], Y[60:])
        """
        command = [sys.executable, "-c", textwrap.dedent(code)]
        done = subprocess.run(command, cwd=db.parent, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr.count("was not logged") == 1, done.stderr
    assert len(list((db.parent / "mleval_unsent").glob("*.json"))) == 1
