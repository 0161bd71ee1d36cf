"""A run may name any host as the place of its artifacts: who is there learns no login, and one who
is silent is asked once.
"""

import socket
from contextlib import contextmanager

import pytest
from answering import answering

import mlflow_mleval as mleval
from mlflow_mleval.errors import StoreError
from mlflow_mleval.store import artifacts

#: Where MLflow expects artifacts on a server.
ROUTE = "/api/2.0/mlflow-artifacts/artifacts/a"


@contextmanager
def listening():
    """A server of a stranger's, and the headers of what it was asked."""
    headers = []

    def absent(asked):
        headers.append(dict(asked.headers))
        asked.send_error(404)

    with answering(absent) as url:
        yield url.removeprefix("http://"), headers


def run_at(client, address):
    experiment = client.create_experiment("elsewhere", artifact_location=address)
    return client.create_run(experiment).info.run_id


@pytest.mark.parametrize("scheme", ["http", "mlflow-artifacts"])
@pytest.mark.parametrize(
    "login",
    [
        {"MLFLOW_TRACKING_TOKEN": "s3cret"},
        {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "s3cret"},
    ],
)
def test_no_login_goes_to_a_host_that_a_run_names(scheme, login, client, tmp_path, monkeypatch):
    for name, value in login.items():
        monkeypatch.setenv(name, value)
    ev = mleval.evaluate([[1, 0], [0, 1]], [[0.9, 0.2], [0.3, 0.8]])
    with listening() as (host, headers):
        if scheme == "mlflow-artifacts":  # goes to such a host only from a store on a server
            monkeypatch.setattr(artifacts.mlflow, "get_tracking_uri", lambda: "http://127.0.0.1:9")
        run_id = run_at(client, f"{scheme}://{host}{ROUTE}")
        with pytest.raises(ValueError, match=f"{host} is another host.*MLEVAL_ARTIFACT_HOSTS"):
            artifacts.download(client, run_id, "a/b.json", str(tmp_path))
        if scheme == "http":
            with pytest.raises((ValueError, StoreError), match="MLEVAL_ARTIFACT_HOSTS"):
                mleval.log_evaluation(ev, method="m", dataset="d", run_id=run_id)
            assert not headers
            monkeypatch.setenv("MLEVAL_ARTIFACT_HOSTS", f"other:80,{host}")
            with pytest.raises(ValueError, match="404"):
                artifacts.download(client, run_id, "a/b.json", str(tmp_path))
            assert any("Authorization" in each for each in headers)
        else:
            assert not headers


def test_without_a_login_any_host_is_asked(client, tmp_path):
    with listening() as (host, headers):
        run_id = run_at(client, f"http://{host}{ROUTE}")
        with pytest.raises(ValueError, match="404"):
            artifacts.download(client, run_id, "a/b.json", str(tmp_path))
    assert headers and not any("Authorization" in each for each in headers)


def test_a_silent_host_is_asked_once(client, tmp_path, monkeypatch):
    monkeypatch.setenv("MLEVAL_TIMEOUT", "1")
    monkeypatch.setattr(artifacts, "_silent", {})
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        run_id = run_at(client, f"http://127.0.0.1:{listener.getsockname()[1]}{ROUTE}")
        with pytest.raises(ValueError, match="has not answered"):
            artifacts.download(client, run_id, "a/b.json", str(tmp_path))
        with pytest.raises(ValueError, match="gave no answer when another run asked"):
            artifacts.download(client, run_id, "a/b.json", str(tmp_path))
