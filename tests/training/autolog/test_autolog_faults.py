"""Autologging while the store is away, hangs, or is full: the script does not notice."""

import os
import re
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn.model_selection
from answering import answering
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from waiting import PATIENCE

import mlflow_mleval as mleval
from mlflow_mleval.training import delivery

X, Y = make_multilabel_classification(120, 6, n_classes=3, random_state=0)


def script():
    """An unseeded script; all that it can notice."""
    seen, forest = [held_out()], RandomForestClassifier(3)
    crossed = sklearn.model_selection.cross_validate(forest, X, Y, cv=3)
    search = GridSearchCV(RandomForestClassifier(2), {"max_depth": [2, 4]}, cv=2).fit(X, Y)
    seen += [*crossed["test_score"].tolist(), search.best_score_]
    try:
        RandomForestClassifier(-1).fit(X, Y)
    except ValueError as error:
        seen.append(str(error))
    return [*seen, np.random.random()]  # noqa: NPY002


def held_out():
    """Its start."""
    np.random.seed(0)  # noqa: NPY002
    return RandomForestClassifier(3).fit(X[:80], Y[:80]).score(X[80:], Y[80:])


EXPECTED = script()


@pytest.fixture(autouse=True)
def off(monkeypatch, tmp_path, unset):
    monkeypatch.setenv("MLEVAL_UNSENT", str(tmp_path / "unsent"))
    yield
    mleval.autolog(disable=True)


def warned(run=script):
    """The texts of our warnings, after the script has seen what it sees without autologging."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert run() == EXPECTED
        mleval.autolog(disable=True)
    return [str(w.message) for w in caught if "mleval" in str(w.message)]


def assert_one_warning(texts, reason):
    """The first evaluation is told of, and where it is kept; the others are kept without a word."""
    (text,) = texts
    assert text.startswith(
        "mleval.autolog: RandomForestClassifier on held-out data was not logged. StoreError: "
    )
    assert reason in text and "mleval import" in text
    assert len(list(Path(os.environ["MLEVAL_UNSENT"]).glob("*.json"))) == 3


@pytest.fixture
def impatient(monkeypatch):
    for name, value in {"TIMEOUT": "1", "MAX_RETRIES": "1", "BACKOFF_FACTOR": "0"}.items():
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)


def test_no_server(monkeypatch, impatient, capsys):
    """One warning; where warnings are errors a line instead, and silence where it was asked for."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    mleval.autolog()
    assert_one_warning(warned(), "Connection refused")
    monkeypatch.setattr(delivery, "_troubles", {})
    mleval.autolog(silent=True)
    assert warned() == [] and "not logged" not in capsys.readouterr().err
    monkeypatch.setattr(delivery, "_troubles", {})
    mleval.autolog()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert script() == EXPECTED
    assert capsys.readouterr().err.count("not logged. StoreError") == 1


def test_in_the_background_a_slow_server_does_not_hold_the_script_up(monkeypatch, impatient):
    """The server answers nothing before the script is done."""
    done, in_time, said = threading.Event(), [], []
    # not by catch_warnings, of which one thread undoes what another has set
    monkeypatch.setattr(warnings, "warn", lambda message, *_, **__: said.append(str(message)))
    # longer than the busiest machine takes for the script, which is to wait for nothing
    monkeypatch.setenv("MLEVAL_TIMEOUT", "300")
    monkeypatch.setattr(delivery, "_AGAIN", 300.0)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "300")

    def slow(asked):
        in_time.append(done.wait(PATIENCE))
        asked.send_error(503)

    with answering(slow) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        mleval.autolog(asynchronous=True)
        seen = script()
        done.set()
        mleval.autolog(disable=True)  # waits until everything is written, or kept
    assert seen == EXPECTED
    assert in_time and all(in_time), f"the script waited {PATIENCE} seconds for the server"
    assert_one_warning([text for text in said if "not logged" in text], "")


def test_a_read_only_database(db, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///file:{db}?mode=ro&uri=true")
    mleval.autolog()
    assert_one_warning(warned(), "readonly database")


@pytest.mark.thorough
def test_a_full_disk(db):
    """No file may grow beyond the size that the database has."""
    script = f"""
        import sys; sys.path[:] = {sys.path}
        from test_autolog_faults import *
        import resource, signal, mlflow
        mlflow.MlflowClient().search_experiments()
        size = {db.stat().st_size}
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 100, size // 100))
        mleval.autolog()
        texts = warned()
        assert len(texts) == 3 and all("not logged" in text for text in texts), texts
        print(texts[0])
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=db.parent, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert re.search("not logged.*(full|disk I/O|too large)", done.stdout)


@pytest.mark.server
@pytest.mark.parametrize(
    "passing", [1, *(pytest.param(n, marks=pytest.mark.thorough) for n in (0, 2, 3, 5, 7))]
)
def test_a_server_that_goes_away_in_the_middle(server, monkeypatch, impatient, passing):
    import mlflow

    name, left = f"gone after {passing}", iter(range(passing))
    mlflow.MlflowClient().create_experiment(name)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", name)

    def answer(asked):
        asked.connection.close() if next(left, None) is None else asked.pass_on(server)

    with answering(answer) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        mleval.autolog()
        with pytest.warns(UserWarning, match="held-out data was not logged. StoreError"):
            assert held_out() == EXPECTED[0]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    with pytest.raises(mleval.MlevalError, match="no run that can be used"):
        mleval.load_study(experiment_names=[name])


def test_a_failure_of_ours_is_one_warning(monkeypatch, client):
    """Whatever goes wrong while evaluating: here label names that do not fit."""
    mleval.autolog(label_names=["a", "b"])
    texts = warned()
    assert len(texts) == 3
    assert all("not logged. ValueError: `label_names` must" in text for text in texts)


def test_an_interrupt_reaches_the_script(client):
    """Ctrl-C while predicting for the log is the user's; the wrappers do not swallow it."""

    class Interrupted(RandomForestClassifier):
        calls = 0

        def predict_proba(self, X):
            Interrupted.calls += 1
            if Interrupted.calls == 3:
                raise KeyboardInterrupt
            return super().predict_proba(X)

    mleval.autolog()
    model = Interrupted(3, random_state=0).fit(X[:80], Y[:80])
    with pytest.raises(KeyboardInterrupt):
        model.score(X[80:], Y[80:])
