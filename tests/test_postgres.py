"""The team server's command, from docker/compose.yaml, as a process on a real PostgreSQL, with login and proxied artifacts."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import requests
import yaml
from click.testing import CliRunner
from conftest import MLFLOW_SETTINGS, _wait_for
from import_cases import import_at_once, one_run_a_pair

import mlflow_mleval
from mlflow_mleval.cli import main

pytestmark = pytest.mark.server
GOLDEN = Path(__file__).parent / "golden"
DOCKER = Path(__file__).parents[1] / "docker"
STUDY = Path(mlflow_mleval.__file__).parent / "data" / "madjarov2012.csv"
WORST = ["-n", "madjarov2012", "--missing", "worst"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def find_postgres() -> Path | None:
    """The folder of initdb and postgres: Debian keeps it off the PATH."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return folders[0] if folders else None


@pytest.fixture(scope="module")
def database():
    """A PostgreSQL cluster of its own, with the compose file's user, database and kind of password."""
    pytest.importorskip("psycopg2", reason="no PostgreSQL driver: pip install psycopg2-binary")
    programs = find_postgres()
    if programs is None:
        pytest.skip("no PostgreSQL on this machine: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="mleval-postgres-"))
    password, port = secrets.token_urlsafe(16), free_port()
    (folder / "password").write_text(password)
    # PostgreSQL refuses to run as root.
    other = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    if other:
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres", "postgres")
    environment = {"PATH": os.environ["PATH"], "PGPASSWORD": password, "LC_ALL": "C.UTF-8"}
    call = {"env": environment, "cwd": folder, **other}
    log = open(folder / "postgres.log", "wb")  # noqa: SIM115
    process = None
    try:
        subprocess.run([programs / "initdb", "-D", folder / "data", "-U", "mlflow", "--pwfile", folder / "password",
                        "--auth=scram-sha-256", "--no-sync", "-E", "UTF8"], check=True, stdout=log, stderr=log, **call)
        process = subprocess.Popen([programs / "postgres", "-D", folder / "data", "-p", str(port), "-k", folder, "-F",
                                    "-c", "listen_addresses=127.0.0.1"], stdout=log, stderr=log, **call)
        create = [programs / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "mlflow", "mlflow"]
        deadline = time.monotonic() + 60
        while subprocess.run(create, capture_output=True, **call).returncode:
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"PostgreSQL did not start:\n{(folder / 'postgres.log').read_text()[-2000:]}")
            time.sleep(0.2)
        yield SimpleNamespace(port=port, password=password)
    finally:
        if process is not None:
            process.terminate()
            process.wait(30)
        log.close()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def team(database, tmp_path_factory):
    """The server of docker/compose.yaml; only addresses, the place of the artifacts and the number of workers differ."""
    pytest.importorskip("flask_wtf", reason="no login for MLflow: pip install 'mlflow[auth]'")
    folder, port = tmp_path_factory.mktemp("team"), free_port()
    here = {
        "--host=0.0.0.0": "--host=127.0.0.1",
        "--port=5000": f"--port={port}",
        "--workers=4": "--workers=1",  # each loads MLflow anew
        "--artifacts-destination=s3://mlflow": f"--artifacts-destination={folder / 'artifacts'}",
        "database:5432": f"127.0.0.1:{database.port}",
    }
    seen = set()

    def localise(text: str) -> str:
        for there, local in here.items():
            if there in text:
                seen.add(there)
                text = text.replace(there, local)
        return text

    service = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]["mlflow"]
    command = [localise(part) for part in service["command"]]
    assert command[0] == "mlflow" and seen == set(here)
    (folder / "basic_auth.ini").write_text(localise((DOCKER / "basic_auth.ini").read_text()))
    admin = secrets.token_urlsafe(16)
    given = {
        "PGPASSWORD": database.password,
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "basic_auth.ini"),
        "MLFLOW_AUTH_ADMIN_PASSWORD": admin,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_urlsafe(16),
        "MLFLOW_SERVER_ALLOWED_HOSTS": "",
    }
    storage = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "MLFLOW_S3_ENDPOINT_URL"}
    unchanged = {key: value for key, value in service["environment"].items() if key not in storage | set(given)}
    assert not any("$" in value for value in unchanged.values())
    inherited = {key: value for key, value in os.environ.items() if key not in MLFLOW_SETTINGS}
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen([sys.executable, "-m", *command], cwd=folder, stdout=log, stderr=log, start_new_session=True,
                                   env=inherited | unchanged | given)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url, process, folder / "server.log")
        yield SimpleNamespace(url=url, admin=admin, folder=folder, database=database)
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


@pytest.fixture
def login(team, tmp_path, monkeypatch, unset):
    """MLflow's settings are those of a member of the team, the folder is empty."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", team.url)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", team.admin)
    monkeypatch.chdir(tmp_path)
    return team


def mleval(*args: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(args), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def rows(team, statement: str) -> list[tuple]:
    import psycopg2

    connection = psycopg2.connect(host="127.0.0.1", port=team.database.port, user="mlflow", dbname="mlflow",
                                  password=team.database.password)
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
        found = cursor.fetchall()
    connection.close()
    return found


def test_import_rank_report_and_read_it_back(login):
    published = pd.read_csv(STUDY)
    published[published["dataset"].isin(["emotions", "yeast", "bookmarks"])].to_csv("madjarov2012.csv", index=False)
    assert "36 runs created" in mleval("import", "madjarov2012.csv", "--conventions", "mulan")
    assert "0 runs created, 0 updated, 36 unchanged" in mleval("import", "madjarov2012.csv", "--conventions", "mulan")

    found = json.loads(mleval("rank", *WORST, "--output", "json"))
    rankings = pd.read_csv(GOLDEN / "eftimov2019_rankings.csv").query("preference == 'v_shape'").set_index(["dataset", "method"])
    for dataset, ranked in found["datasets"].items():
        assert [row["rank"] for row in ranked] == rankings.loc[dataset, "rank"].loc[[row["method"] for row in ranked]].tolist()
    assert len(found["datasets"]) == 3 and len(set(found["provenance"]["run_ids"])) == 36

    mleval("report", *WORST, "--draws", "50", "--log", "-o", "report.html")
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("madjarov2012")
    (run,) = client.search_runs([experiment.experiment_id], "tags.`mleval.kind` = 'report'")
    assert run.info.status == "FINISHED" and run.info.artifact_uri.startswith("mlflow-artifacts:/")
    page = Path(client.download_artifacts(run.info.run_id, "mleval_report.html", ".")).read_bytes()
    assert page == Path("report.html").read_bytes() and b"RF-PCT" in page
    stored = list((login.folder / "artifacts").rglob("mleval_report.html"))
    assert len(stored) == 1 and stored[0].read_bytes() == page

    assert rows(login, f"SELECT count(*) FROM runs WHERE experiment_id = {experiment.experiment_id}") == [(37,)]
    assert rows(login, "SELECT username, is_admin FROM users") == [("admin", True)]


def test_parallel_imports_make_each_run_once(login):
    from mlflow import MlflowClient

    import_at_once()
    one_run_a_pair(MlflowClient())


def test_without_login_nothing_is_read_and_the_error_is_one_line(login, monkeypatch):
    assert requests.get(f"{login.url}/health", timeout=10).ok
    assert requests.get(f"{login.url}/api/2.0/mlflow/experiments/get?experiment_id=0", timeout=10).status_code == 401
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong" * 4)
    result = CliRunner().invoke(main, ["runs", "-n", "madjarov2012"])
    assert result.exit_code == 1 and result.stdout == "" and len(result.stderr.strip().splitlines()) == 1
    assert "401" in result.stderr


def test_no_password_stands_in_the_log_or_in_the_list_of_processes(login):
    secret = (login.database.password, login.admin)
    log = (login.folder / "server.log").read_text()
    assert "5000" not in log and not any(word in log for word in secret)
    commands = [path.read_bytes().decode(errors="replace") for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(word in command for word in secret for command in commands)
