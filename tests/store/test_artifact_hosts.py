"""Whatever host a run names for its artifacts learns no login, and a silent one is asked once."""

import socket

import pytest
from answering import answering

import mlflow_mleval as mleval
from mlflow_mleval.errors import StoreError
from mlflow_mleval.store import artifacts

#: Where MLflow expects artifacts on a server.
ROUTE = "/api/2.0/mlflow-artifacts/artifacts/a"


@pytest.fixture
def stranger():
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


TOKEN = {"MLFLOW_TRACKING_TOKEN": "s3cret"}
PASSWORD = {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "s3cret"}


@pytest.mark.parametrize("scheme", ["http", "mlflow-artifacts"])
@pytest.mark.parametrize("login", [TOKEN, PASSWORD])
def test_no_login_goes_to_a_host_that_a_run_names(
    scheme, login, stranger, client, tmp_path, monkeypatch
):
    host, headers = stranger
    for name, value in login.items():
        monkeypatch.setenv(name, value)
    ev = mleval.evaluate([[1, 0], [0, 1]], [[0.9, 0.2], [0.3, 0.8]])
    if scheme == "mlflow-artifacts":  # goes to such a host only from a store on a server
        monkeypatch.setattr(artifacts.mlflow, "get_tracking_uri", lambda: "http://127.0.0.1:9")
    run_id = run_at(client, f"{scheme}://{host}{ROUTE}")
    with pytest.raises(ValueError, match=f"{host} is another host.*MLEVAL_ARTIFACT_HOSTS"):
        artifacts.download(client, run_id, "a/b.json", str(tmp_path))
    assert not headers
    if scheme == "http":
        with pytest.raises((ValueError, StoreError), match="MLEVAL_ARTIFACT_HOSTS"):
            mleval.log_evaluation(ev, method="m", dataset="d", run_id=run_id)
        assert not headers
        monkeypatch.setenv("MLEVAL_ARTIFACT_HOSTS", f"other:80,{host}")
        with pytest.raises(ValueError, match="404"):
            artifacts.download(client, run_id, "a/b.json", str(tmp_path))
        assert any("Authorization" in each for each in headers)


def test_without_a_login_any_host_is_asked(stranger, client, tmp_path):
    host, headers = stranger
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
