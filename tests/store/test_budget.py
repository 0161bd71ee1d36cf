"""Whatever a store does, a command ends in its time with one line."""

import itertools
import json
import socket
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from contextlib import closing, contextmanager
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pytest
from answering import answering
from click.testing import CliRunner
from sklearn.neighbors import KNeighborsClassifier

import mlflow_mleval as mleval
from mlflow_mleval.cli import main
from mlflow_mleval.errors import MlevalError, StoreError
from mlflow_mleval.store import artifacts, budget, store
from mlflow_mleval.training import delivery

EMPTY: dict[str, str] = {}
EXPERIMENT = {"experiment_id": "1", "name": "e", "lifecycle_stage": "active"}
#: Generous: what is bounded at all ends long before, and what is not, never.
MOST = 100


def run(token):
    """A page of one run."""
    info = {"run_id": "a" * 32, "experiment_id": "1", "status": "FINISHED"}
    info |= {"lifecycle_stage": "active", "artifact_uri": "mlflow-artifacts:/1/a/artifacts"}
    return {"runs": [{"info": info, "data": {}}], "next_page_token": token}


def reply(body=b"", status="200 OK", *headers):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return ["\r\n".join([*head, "", ""]).encode() + body]


def dripping(start, drop):
    yield start
    while True:
        time.sleep(0.1)
        yield drop


def endless():
    yield b"HTTP/1.1 200 OK\r\n\r\n"
    while True:
        yield b" " * 65536


#: Ever new tokens, and never a new run.
NEW = (run(f"t{n}") for n in itertools.count())
#: What a server answers to a search of runs; it answers all else well.
SEARCHES = {
    "500": lambda: reply(b"out of order", "500 Internal Server Error"),
    "silent": lambda: dripping(b"", b""),
    "endless pages": lambda: reply(next(NEW)),
    "a token again": lambda: reply(run("same")),
    "come back later": lambda: reply(b"", "429 Too Many Requests", "Retry-After: 600"),
    "a dripping body": lambda: dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b" "),
    "dripping headers": lambda: dripping(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
    "an endless body": endless,
    "an endless error": lambda: (
        b"HTTP/1.1 500 No\r\n\r\n" if part.startswith(b"HTTP") else part for part in endless()
    ),
}
REASONS = {"endless pages": "comes to no end", "a token again": "comes to no end"}


@pytest.fixture
def serving(monkeypatch):
    """Makes a server with such searches the one that MLflow uses."""

    @contextmanager
    def serving(searches):
        over, one = threading.Event(), {"experiment": EXPERIMENT, "experiments": [EXPERIMENT]}
        server = SimpleNamespace(searches=searches, artifacts=searches, answering=set(), asked=0)
        server.experiments = lambda: reply(one)

        def answer(asked):
            server.asked += 1
            if "/experiments/" in asked.path:
                parts = server.experiments()
            elif "/runs/get" in asked.path:
                parts = reply({"run": run("")["runs"][0]})
            elif "artifact" in asked.path:
                server.answering.add(asked)
                parts = server.artifacts()
            else:
                parts = server.searches()
            try:
                for part in itertools.takewhile(lambda _: not over.is_set(), parts):
                    asked.wfile.write(part)
            finally:
                server.answering.discard(asked)

        with answering(answer) as url:
            server.port = urlsplit(url).port
            monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
            try:
                yield server
            finally:
                over.set()

    return serving


@pytest.fixture
def silent_database(monkeypatch):
    """MLflow uses a port that takes connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        uri = f"postgresql+psycopg2://u:p@127.0.0.1:{listener.getsockname()[1]}/mlflow"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        yield


@pytest.fixture(autouse=True)
def quick(monkeypatch, unset):
    monkeypatch.setenv("MLEVAL_TIMEOUT", "1")


def failure(*command):
    """The one line with which the command ends."""
    start = time.monotonic()
    ended = CliRunner().invoke(main, list(command))
    assert time.monotonic() - start < MOST
    assert ended.exit_code == 1, ended.output
    (line,) = ended.output.splitlines()
    return line


def eventually(done):
    until = time.monotonic() + MOST
    while not done():
        assert time.monotonic() < until
        time.sleep(0.05)


def waiting():
    """The threads that deal with a store."""
    return [each for each in threading.enumerate() if each.name == "mleval-store"]


@pytest.mark.parametrize("kind", SEARCHES)
def test_a_command_ends_whatever_a_server_does(kind, serving):
    with serving(SEARCHES[kind]):
        # Those that end by themselves have the time that a busy machine takes.
        line = failure("runs", "-n", "e", "--timeout", "60" if kind in REASONS else "1")
    if kind in REASONS:
        assert REASONS[kind] in line
    else:
        assert "within 1 seconds" in line or "500" in line or "bytes" in line


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_a_server_leads_to_no_other_host(status, serving):
    with serving(lambda: reply(EMPTY)) as other:
        there = f"Location: http://localhost:{other.port}/api/2.0/mlflow/experiments/get-by-name"
        with serving(lambda: reply(b"", status, there)) as server:
            server.experiments = server.searches
            line = failure("runs", "-n", "e", "--timeout", "20")
        assert status[:3] in line and "deleted" not in line and not other.asked


def test_an_answer_without_an_experiment_is_no_deleted_one(serving):
    with serving(lambda: reply(EMPTY)) as server:
        server.experiments = server.searches
        assert "Is it an MLflow server?" in failure("runs", "-n", "e", "--timeout", "20")


def test_a_database_that_says_nothing_ends_a_command(silent_database):
    line = failure("runs", "--timeout", "1")
    assert "has not answered `connect` within 1 seconds" in line and ":p@" not in line


@pytest.mark.parametrize("kind", ["a dripping body", "dripping headers", "an endless body"])
def test_what_nobody_waits_for_is_read_no_further(kind, serving, monkeypatch):
    monkeypatch.setattr(budget, "MOST_ANSWER", 2**60)
    others = {*waiting()}
    with serving(SEARCHES[kind]):
        with pytest.raises(StoreError, match="has not answered"):
            store.search(store.connect(), ["1"])
        eventually(lambda: not {*waiting()} - others)


def test_an_artifact_that_drips_is_read_no_further(serving, monkeypatch, tmp_path):
    """Its headers drip, so that no timeout of a single read ends it."""
    monkeypatch.setenv("MLEVAL_TIMEOUT", "2")
    with serving(lambda: reply(run(""))) as server:
        client = store.connect()
        server.artifacts = SEARCHES["dripping headers"]
        with pytest.raises(StoreError, match="`download_artifacts` within 2"):
            artifacts.download(client, "a" * 32, "mleval/x.json", str(tmp_path))
        eventually(lambda: not server.answering)


def test_an_answer_has_its_largest_size(serving, monkeypatch):
    monkeypatch.setenv("MLEVAL_TIMEOUT", "60")
    monkeypatch.setattr(budget, "MOST_ANSWER", 2**20)
    refused = pytest.raises(StoreError, match="an answer has more than 1,048,576 bytes")
    with serving(SEARCHES["an endless body"]), refused:
        store.search(store.connect(), ["1"])


def test_importing_changes_nothing_of_other_libraries():
    code = """
        import mlflow.utils.request_utils as asking, requests, sqlalchemy, urllib3
        import mlflow.store.artifact.artifact_repo as fetching
        import mlflow.store.tracking.sqlalchemy_store, mlflow.sklearn
        from sqlalchemy.event.registry import _key_to_collection as listeners
        rooms = [asking, fetching, requests, requests.adapters, requests.sessions, sqlalchemy]
        rooms += [urllib3, urllib3.connection, urllib3.connectionpool, urllib3.util.retry]
        rooms += [requests.Session, requests.adapters.HTTPAdapter, sqlalchemy.engine.Engine]
        rooms += [urllib3.util.retry.Retry, urllib3.connection.HTTPConnection]
        before = [dict(vars(each)) for each in [*rooms]], {*listeners}
        import mlflow_mleval
        import mlflow_mleval.training.log_evaluation
        import mlflow_mleval.store.runs, mlflow_mleval.training.delivery
        for was, each in zip(before[0], rooms):
            now = vars(each)
            assert was.keys() == now.keys() and not [n for n in was if was[n] is not now[n]], each
        assert before[1] == {*listeners}
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_time_is_that_of_the_option_then_of_the_setting(monkeypatch):
    for setting in (1, 30):
        with budget.allowing(7):
            assert budget.seconds(30) == 7
        assert budget.seconds(30) == setting
        monkeypatch.delenv("MLEVAL_TIMEOUT", raising=False)
    wrong = CliRunner().invoke(main, ["runs", "--timeout", "0"])
    assert wrong.exit_code == 2 and "--timeout" in wrong.output


def test_a_renewed_budget_ends_only_without_progress():
    def steps():
        for _ in range(6):
            time.sleep(0.5)
            budget.mark()
        return "done"

    assert budget.bounded(steps, 2, lambda: "late", renewed=True) == "done"
    with pytest.raises(StoreError, match="late"):
        budget.bounded(lambda: time.sleep(3), 0.1, lambda: "late", renewed=True)


def test_a_new_local_store_may_take_its_time(tmp_path, monkeypatch):
    """MLflow makes its tables in more time than a training waits for the store."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/new.db")
    connect = store.connect
    monkeypatch.setenv("MLEVAL_TIMEOUT", "1")

    def slowly(**parts):
        if not (tmp_path / "new.db").exists():
            time.sleep(1.5)
        return connect(**parts)

    monkeypatch.setattr(store, "connect", slowly)
    asked = delivery.Delivery()
    assert asked.ask(lambda: len(connect().search_experiments()), 0) == 1, asked.reason


def test_a_training_outlasts_a_database_that_says_nothing(silent_database, tmp_path, monkeypatch):
    monkeypatch.setenv("MLEVAL_UNSENT", str(tmp_path / "unsent"))
    X, Y = np.arange(120.0).reshape(60, 2), np.arange(180).reshape(60, 3) % 2
    knn, names = KNeighborsClassifier(3), {"method": "m", "dataset": "d"}
    start = time.monotonic()
    for call in (
        lambda: mleval.log_evaluation(mleval.evaluate(Y, Y * 0.8), **names),
        lambda: mleval.cross_validate(knn, X, Y, cv=3, **names),
    ):
        with pytest.raises(MlevalError, match="has not done it within 1 seconds"):
            call()
    delivery._troubles.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mleval.autolog(dataset="d")
        knn.fit(X[:40], Y[:40]).score(X[40:], Y[40:])
        mleval.autolog(disable=True)
    assert time.monotonic() - start < MOST
    assert len(list((tmp_path / "unsent").glob("*.json"))) == 2


@pytest.mark.parametrize("way", ["EXCLUSIVE", "IMMEDIATE"])
def test_a_locked_file_is_waited_for_once(way, db, tmp_path, monkeypatch):
    monkeypatch.setenv("MLEVAL_UNSENT", str(tmp_path / "unsent"))
    ev = mleval.evaluate(np.eye(3, dtype=int), np.eye(3))
    with closing(sqlite3.connect(db, isolation_level=None)) as other:
        other.execute(f"BEGIN {way}")
        for seconds in ("1", "600"):
            monkeypatch.setenv("MLEVAL_TIMEOUT", seconds)
            start = time.monotonic()
            with pytest.raises(StoreError, match="is kept in"):
                mleval.log_evaluation(ev, method="m", dataset="d")
            assert time.monotonic() - start < MOST
    assert mleval.log_evaluation(ev, method="m", dataset="d")
    assert len(list((tmp_path / "unsent").glob("*.json"))) == 2


@pytest.mark.parametrize(
    ("address", "whose"),
    [("mlflow-artifacts:/0/run/artifacts", StoreError), ("mlflow-artifacts://other/0", ValueError)],
)
def test_a_silent_host_that_one_run_names_leaves_out_that_run_alone(address, whose):
    with pytest.raises(whose), artifacts._address_errors(address):
        raise StoreError("no answer")
