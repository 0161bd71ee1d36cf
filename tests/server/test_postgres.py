"""The team server's command, from docker/compose.yaml, as a process on a real PostgreSQL, with
login and proxied artifacts.
"""

import os
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import import_cases
import mlflow
import pandas as pd
import pytest
import requests
import yaml
from command_line import as_json, mleval
from import_cases import import_at_once, one_run_a_pair, race_for_places_and_alias
from page_reader import Reader
from places import DOCKER, GOLDEN, STUDY
from waiting import PATIENCE, free_port, running

import mlflow_mleval

psycopg2 = pytest.importorskip(
    "psycopg2", reason="no PostgreSQL driver: pip install psycopg2-binary"
)
pytestmark = [pytest.mark.server, pytest.mark.thorough]
WORST = ["-n", "madjarov2012", "--missing", "worst"]


@pytest.fixture(scope="module")
def team(database, tmp_path_factory):
    """The server of docker/compose.yaml; only addresses, the place of the artifacts, the number of
    workers and how long a login is believed differ.
    """
    pytest.importorskip("flask_wtf", reason="no login for MLflow: pip install 'mlflow[auth]'")
    folder, port = tmp_path_factory.mktemp("team"), free_port()
    (folder / "artifacts").mkdir()  # in the container, a volume
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
    settings = localise((DOCKER / "basic_auth.ini").read_text())
    # to verify a password takes .1 s, for each request
    (folder / "basic_auth.ini").write_text(f"{settings.rstrip()}\nauth_cache_ttl_seconds = 60\n")
    admin = secrets.token_urlsafe(16)
    given = {
        "PGPASSWORD": database.password,
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "basic_auth.ini"),
        "MLFLOW_AUTH_ADMIN_PASSWORD": admin,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_urlsafe(16),
        "MLFLOW_SERVER_ALLOWED_HOSTS": "",
    }
    storage = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"}
    left = service["environment"].keys() - storage - {"MLFLOW_S3_ENDPOINT_URL"} - given.keys()
    unchanged = {key: service["environment"][key] for key in left}
    assert not any("$" in value for value in unchanged.values())
    url = f"http://127.0.0.1:{port}"
    with running(command, folder, url, **unchanged, **given):
        yield SimpleNamespace(url=url, admin=admin, folder=folder, database=database)


@pytest.fixture
def login(team, tmp_path, monkeypatch, unset):
    """MLflow's settings are those of a member of the team, the folder is empty."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", team.url)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", team.admin)
    monkeypatch.chdir(tmp_path)
    return team


def rows(team, statement: str) -> list[tuple]:
    of = team.database
    where = {"host": "127.0.0.1", "port": of.port, "user": "mlflow", "dbname": "mlflow"}
    connection = psycopg2.connect(**where, password=of.password)
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
        found = cursor.fetchall()
    connection.close()
    return found


def test_import_rank_report_and_read_it_back(login):
    published = pd.read_csv(STUDY)
    some = published["dataset"].isin(["emotions", "yeast", "bookmarks"])
    published[some].to_csv("madjarov2012.csv", index=False)
    for said in ("36 runs created", "0 runs created, 0 updated, 36 unchanged"):
        assert said in mleval("import", "madjarov2012.csv", "--conventions", "mulan").stdout

    found = as_json("rank", *WORST)
    rankings = pd.read_csv(GOLDEN / "eftimov2019_rankings.csv")
    rankings = rankings.query("preference == 'v_shape'").set_index(["dataset", "method"])["rank"]
    for dataset, ranked in found["datasets"].items():
        expected = rankings.loc[dataset].loc[[row["method"] for row in ranked]].tolist()
        assert [row["rank"] for row in ranked] == expected
    assert len(found["datasets"]) == 3 and len(set(found["provenance"]["run_ids"])) == 36

    mleval("report", *WORST, "--seed", ":draws=50", "--log", "-o", "report.html")
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("madjarov2012")
    (run,) = client.search_runs([experiment.experiment_id], "tags.`mleval.kind` = 'report'")
    assert run.info.status == "FINISHED" and run.info.artifact_uri.startswith("mlflow-artifacts:/")
    page = Path(client.download_artifacts(run.info.run_id, "mleval_report.html", ".")).read_bytes()
    assert page == Path("report.html").read_bytes() and b"RF-PCT" in page
    stored = list((login.folder / "artifacts").rglob("mleval_report.html"))
    assert len(stored) == 1 and stored[0].read_bytes() == page
    counted = f"SELECT count(*) FROM runs WHERE experiment_id = {experiment.experiment_id}"
    assert rows(login, counted) == [(37,)]
    assert rows(login, "SELECT username FROM users WHERE is_admin") == [("admin",)]


def test_parallel_imports_make_each_run_once(login):
    import_at_once(writers=2)
    one_run_a_pair(mlflow.MlflowClient())


def test_without_login_nothing_is_read_and_the_error_is_one_line(login, monkeypatch):
    assert requests.get(f"{login.url}/health", timeout=PATIENCE).ok
    asked = f"{login.url}/api/2.0/mlflow/experiments/get?experiment_id=0"
    assert requests.get(asked, timeout=PATIENCE).status_code == 401
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong" * 4)
    result = mleval("runs", "-n", "madjarov2012", code=1)
    assert result.stdout == "" and len(result.stderr.strip().splitlines()) == 1
    assert "401" in result.stderr and "MLFLOW_TRACKING_TOKEN" in result.stderr


def test_no_password_stands_in_the_log_or_in_the_list_of_processes(login):
    secret = (login.database.password, login.admin)
    log = (login.folder / "server.log").read_text()
    assert not re.search(r":5000\b", log) and not any(word in log for word in secret)
    lines = [path for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    commands = [path.read_bytes().decode(errors="replace") for path in lines]
    assert not any(word in command for word in secret for command in commands)
    # and it wrote only where the container may: its working folder stays as it was
    there = {path.name for path in login.folder.iterdir()}
    assert there == {"basic_auth.ini", "server.log", "artifacts"}


#: In the place of `docker`: what the scripts run in a container runs beside it, on the same
#: database and folder.
BESIDE = """#!{python}
import os, sys
words = sys.argv[1:]
with open({calls!r}, "a") as calls:
    print(*words, file=calls)
if os.environ["FAIL_AT"] and os.environ["FAIL_AT"] in " ".join(words):
    sys.exit(1)
if words[1] in ("exec", "run"):
    service = max(words.index(name) for name in ("database", "storage") if name in words)
    entry = [words[words.index("--entrypoint") + 1]] if words[1] == "run" else []
    command = [word.replace("/data", {artifacts!r}) for word in entry + words[service + 1:]]
    os.execvp(command[0], command)
"""


#: `mv` that moves one file after the other until it fails, the first time that it is asked to put
#: that file there.
MOVER = """#!/bin/sh
for to; do :; done
while [ $# -gt 1 ]; do
  if [ -n "$FAIL_TO_MOVE" ] && [ "$(basename "$1") $to" = "$FAIL_TO_MOVE" ] && [ ! -e "$0.failed" ]; then
    touch "$0.failed"
    exit 1
  fi
  "$MV" "$1" "$to" || exit 1
  shift
done
"""  # noqa: E501


@pytest.fixture
def beside(login, tmp_path):
    """Runs a script of docker/ as it is, and says what it asked of Docker; at some call or move, it
    can be made to fail.
    """
    folder = tmp_path / "beside"
    folder.mkdir()
    places = {"calls": str(folder / "calls"), "artifacts": str(login.folder / "artifacts")}
    # In the container, both roles log in by the socket without a password.
    known = {"mlflow": login.database.password, "postgres": login.database.superuser}
    for name, text, mode in (
        ("docker", BESIDE.format(python=sys.executable, **places), 0o755),
        ("passwords", "".join(f"*:*:*:{who}:{word}\n" for who, word in known.items()), 0o600),
        ("mv", MOVER, 0o755),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
    environment = {
        "PATH": f"{folder}:{login.database.programs}:{os.environ['PATH']}",
        "MV": shutil.which("mv"),
        "PGHOST": "127.0.0.1",
        "PGPORT": str(login.database.port),
        "PGPASSFILE": str(folder / "passwords"),
    }

    def run(script: str, *args, at: str = "", move: str = ""):
        (folder / "calls").write_text("")
        (folder / "mv.failed").unlink(missing_ok=True)
        how = {"env": environment | {"FAIL_AT": at, "FAIL_TO_MOVE": move}, "cwd": tmp_path}
        command = [DOCKER / script, *args]
        done = subprocess.run(command, capture_output=True, text=True, **how)
        return done, (folder / "calls").read_text().splitlines()

    return run


def test_a_backup_brings_back_what_was_lost(login, beside, tmp_path):
    lines = ["measure,dataset,method,value", "f1,yeast,BR,0.0", "f1,yeast,CC,0.0"]
    Path("few.csv").write_text("\n".join([*lines, "f1,birds,BR,0.1", "f1,birds,CC,0.1"]))
    mleval("import", "few.csv", "-n", "kept")
    client = mlflow.MlflowClient()
    run = client.search_runs([client.get_experiment_by_name("kept").experiment_id])[0].info.run_id
    client.log_text(run, "as it was", "note.txt")
    tables = {"runs", "metrics", "tags", "experiments", "users", "experiment_permissions"}
    before = {table: rows(login, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables}
    shown = mleval("runs", "-n", "kept").stdout

    done, calls = beside("backup.sh", "backup")
    assert done.returncode == 0, done.stderr
    files = [Path("backup", name) for name in ("artifacts.tar", "database.dump")]
    assert sorted(Path("backup").iterdir()) == files
    assert calls[0] == "compose stop mlflow storage" and calls[-1] == "compose up --detach --wait"
    assert all(path.stat().st_mode & 0o077 == 0 for path in (Path("backup"), *files))
    again, calls = beside("backup.sh", "backup")
    assert again.returncode == 2 and "Name a new folder." in again.stderr and calls == []
    for at in ("stop", "pg_dump", "tar"):  # what fails can be repeated
        assert beside("backup.sh", "second", at=at)[0].returncode == 1
        assert not list(Path().glob("second*"))
    assert beside("backup.sh", "second")[0].returncode == 0

    client.log_text(run, "as it must not stay", "note.txt")
    client.delete_run(run)
    client.create_experiment("made later")
    rows(login, "DELETE FROM latest_metrics RETURNING 1")
    done, calls = beside("restore.sh", "backup")
    assert done.returncode == 0, done.stderr
    assert calls[:2] == ["compose up --detach --wait database", "compose stop mlflow storage"]
    assert calls[-1] == "compose up --detach --wait"
    found = {table: rows(login, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables}
    assert found == before
    # The same server, with the same login, on the restored database.
    assert mleval("runs", "-n", "kept").stdout == shown
    assert client.get_experiment_by_name("made later") is None
    found = Path(client.download_artifacts(run, "note.txt", str(tmp_path))).read_text()
    assert found == "as it was"


def contents(login) -> dict:
    """All that a restore could change."""
    artifacts = login.folder / "artifacts"
    files = {
        path.relative_to(artifacts): path.is_file() and path.read_bytes()
        for path in artifacts.rglob("*")
    }
    databases = rows(login, "SELECT datname FROM pg_database WHERE NOT datistemplate ORDER BY 1")
    return {
        "runs": rows(login, "SELECT * FROM runs ORDER BY 1"),
        "files": files,
        "databases": databases,
    }


def changed_since_backup(beside) -> str:
    """Two experiments in a backup, the second of which has changed since then; returns its id."""
    client = mlflow.MlflowClient()
    for _ in range(2):
        run = client.create_run(client.create_experiment(secrets.token_hex(8)))
        client.log_text(run.info.run_id, "as it was", "note.txt")
    assert beside("backup.sh", "backup")[0].returncode == 0
    client.log_text(run.info.run_id, "as it is", "note.txt")
    client.delete_run(run.info.run_id)
    return run.info.experiment_id


def test_a_damaged_backup_changes_nothing(login, beside):
    changed_since_backup(beside)
    before = contents(login)
    assert before["databases"] == [("mlflow",), ("postgres",)] and any(before["files"].values())
    for name in ("database.dump", "artifacts.tar"):
        shutil.copytree("backup", f"without {name}")
        whole = Path("backup", name).read_bytes()
        Path(f"without {name}", name).write_bytes(whole[: len(whole) // 2])
        done, _ = beside("restore.sh", f"without {name}")
        assert done.returncode and done.stderr and contents(login) == before, name


def test_a_restore_that_fails_on_the_way_changes_nothing(login, beside):
    folder = changed_since_backup(beside)
    before = contents(login)
    steps = [
        *("up --detach --wait database", "stop", "createdb", "pg_restore", "tar", "pg_terminate"),
        *("TO replaced", "-eus"),
    ]
    trouble = [{"at": step} for step in steps] + [
        {"move": f"{folder} {to}"} for to in (".replaced", ".")
    ]
    for how in trouble:
        done, calls = beside("restore.sh", "backup", **how)
        assert done.returncode == 1 and calls[-1] == "compose up --detach --wait", (
            how,
            done.stderr,
        )
        assert contents(login) == before, (how, done.stderr)
        if "move" in how or how["at"] == "-eus":
            assert "All is as it was." in done.stderr

    assert beside("restore.sh", "backup")[0].returncode == 0
    after = contents(login)
    assert after["databases"] == before["databases"] and after["runs"] != before["runs"]
    texts = [text for path, text in after["files"].items() if path.parts[0] == folder and text]
    assert texts == [b"as it was"]


def test_the_role_of_mlflow_owns_its_database_and_nothing_else(login, beside):
    rights = "rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls"
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'mlflow'"
    of_tables = "FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    for restored in (False, True):
        if restored:
            for script in ("backup.sh", "restore.sh"):
                assert beside(script, "backup")[0].returncode == 0
        found = rows(login, f"SELECT {rights} FROM pg_roles WHERE rolname = current_user")
        assert found == [(False,)] and rows(login, owner) == [("mlflow",)]
        owners = rows(login, f"SELECT DISTINCT pg_get_userbyid(relowner) {of_tables}")
        assert owners == [("mlflow",)]
        with pytest.raises(psycopg2.Error, match="permission denied|must be superuser"):
            rows(login, "SELECT rolpassword FROM pg_authid")
    log = login.database.log.read_text(errors="replace")
    assert login.database.password not in log and login.database.superuser not in log


def test_a_member_reads_everything_and_writes_what_is_theirs(login, monkeypatch):
    Path("few.csv").write_text("measure,dataset,method,value\nf1,yeast,BR,0.5\nf1,yeast,CC,0.6\n")
    mleval("import", "few.csv", "-n", "the admin's")
    member, admin = {"username": "member", "password": "twelve letters"}, ("admin", login.admin)
    asked = f"{login.url}/api/2.0/mlflow/users/create"
    answer = requests.post(asked, json=member, auth=admin, timeout=PATIENCE)
    assert answer.ok, answer.text
    for name, text in member.items():
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name.upper()}", text)
    assert "BR" in mleval("runs", "-n", "the admin's").stdout
    Path("more.csv").write_text("measure,dataset,method,value\nf1,yeast,LP,0.9\n")
    refused = mleval("import", "more.csv", "-n", "the admin's", code=1)
    assert len(refused.stderr.strip().splitlines()) == 1
    assert rows(login, "SELECT count(*) FROM runs WHERE user_id = 'member'") == [(0,)]
    assert "1 runs created" in mleval("import", "more.csv", "-n", "the member's").stdout


@pytest.mark.browser
def test_the_page_answers_and_stores_in_a_browser(login, chrome):
    rows = ["method,dataset,f1"]
    for i, m in enumerate(("RF", "BR", "CC")):
        rows += [f"{m},{d},{0.9 - 0.2 * i + 0.01 * j}" for j, d in enumerate("uvw")]
    Path("live.csv").write_text("\n".join(rows))
    mleval("import", "live.csv")
    reader = Reader(chrome, login)
    reader.login("admin", password=login.admin)
    try:
        reader.open()
        reader.click("#experiments input[data-name=live]")
        facts = "document.querySelector('#facts')?.textContent"
        reader.until(f"{facts}.startsWith('3 methods, 3 datasets, 1 measure')")
        reader.click("#compare")
        reader.answered()
        assert "RF" in reader.text("#decision")
        reader.click(".menu summary")
        reader.click("#store")
        address = reader.find("#stored a").get_attribute("href")
    finally:
        chrome.get("about:blank")
        chrome.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {}})
    stored = mlflow.MlflowClient().get_run(address.partition("/runs/")[2][:32])
    assert stored.data.tags["mleval.kind"] == "report"
    assert stored.data.tags["mlflow.user"] == "admin"


def test_gates_at_once_take_places_of_their_own_and_one_moves_the_alias(login):
    race_for_places_and_alias()


WRITERS, RESULTS = 8, 50


def make(settings):
    os.environ.update(settings)
    mlflow.MlflowClient().create_experiment("e")


def read(settings):
    """What there is, in a process of its own: an open connection would keep the server from
    ending.
    """
    os.environ.update(settings)
    found = mlflow.search_runs(experiment_names=["e"], output_format="list", max_results=5000)
    study = mlflow_mleval.load_study(experiment_names=["e"])
    cells = [(r.data.tags["mleval.method"], r.data.tags["mleval.dataset"]) for r in found]
    return cells, {r.data.tags["mleval.status"] for r in found}, study.values.shape[0]


@pytest.mark.slow
def test_every_result_arrives_once(database, tmp_path, monkeypatch, unset):
    monkeypatch.chdir(tmp_path)
    settings = {
        "MLFLOW_TRACKING_URI": f"postgresql+psycopg2://mlflow@127.0.0.1:{database.port}/mlflow",
        "PGPASSWORD": database.password,
    }
    each = [(i, RESULTS, settings) for i in range(WRITERS)]
    with import_cases.PROCESSES.Pool(WRITERS) as pool:
        pool.apply(make, [settings])  # MLflow's tables are made by one
        pool.starmap(import_cases.write, each, chunksize=1)
        cells, status, compared = pool.apply(read, [settings])
    assert len(cells) == len({*cells}) == compared == WRITERS * RESULTS and status == {"complete"}
