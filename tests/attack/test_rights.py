"""What a member without rights gets from the command line, by MLflow's own login."""

import json
import shutil

import command_line
import mlflow
import pandas as pd
import pytest
import requests
from mlflow import MlflowClient
from page_servers import ADMIN, api, grant, page_server
from waiting import PATIENCE

from mlflow_mleval.store.importing import import_results

pytestmark = [pytest.mark.server, pytest.mark.thorough]
pytest.importorskip("flask_wtf", reason="no login for MLflow: pip install 'mlflow[auth]'")
ANN = ("ann", "twelve letters")
SECRET = "undercover"


@pytest.fixture(scope="module")
def team(empty_store, tmp_path_factory):
    """Ann may read the experiment `mine`, and not `undercover`."""
    folder = tmp_path_factory.mktemp("rights")
    shutil.copy(empty_store, folder / "mlflow.db")
    rows = [(d, m, (i * k % 5) / 9) for i, d in enumerate("abcdefg") for k, m in enumerate("xy")]
    table = pd.DataFrame(rows, columns=["dataset", "method", "f1"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
        ids, runs = {}, {}
        for name in ("mine", SECRET):
            import_results(table.replace("x", f"{name} x"), experiment_name=name)
            ids[name] = MlflowClient().get_experiment_by_name(name).experiment_id
            found = mlflow.search_runs([ids[name]], output_format="list")
            runs[name] = [run.info.run_id for run in found][:2]
    with page_server(folder, f"sqlite:///{folder / 'mlflow.db'}", base="basic-auth") as server:
        api(server, "users/create", dict(zip(("username", "password"), ANN, strict=True)), ADMIN)
        grant(server, "ann", ids["mine"], "READ")
        server.ids, server.runs = ids, runs
        yield server


@pytest.fixture
def mleval(team, unset, monkeypatch):
    """The command as ann calls it: its exit code, and all that it says."""
    for name, value in zip(("USERNAME", "PASSWORD", "URI"), (*ANN, team.url), strict=True):
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", value)
    monkeypatch.chdir(team.folder)

    def mleval(*args):
        done = command_line.mleval(*args, code=None)
        return done.exit_code, done.output

    return mleval


def test_without_rights_there_is_no_verdict_and_nothing_is_told_of_the_runs(team, mleval):
    (mine, _), (hidden, hidden_other) = team.runs["mine"], team.runs[SECRET]
    methods = ["gate", "-n", "mine", "mine x", "--champion", "y"]
    for args in (
        ["gate", mine, "--champion", hidden],
        ["gate", hidden, "--champion", mine],
        ["gate", hidden, "--champion", hidden_other],
        ["gate", "-n", SECRET, f"{SECRET} x", "--champion", "y"],
        [*methods, "--log"],
        ["runs", "-n", SECRET],
        ["rank", "-n", SECRET],
        ["compare", "--run-id", hidden, "--run-id", mine],
        ["report", "-n", "mine", "--log"],
    ):
        code, text = mleval(*args)
        typed = SECRET in " ".join(args)
        assert code == 1 and "Traceback" not in text and ANN[1] not in text, text
        assert typed or SECRET not in text
    code, text = mleval(*methods, "--ledger", "l", "--output", "json")
    assert code == 3 and json.loads(text)["ledger"], "MLflow said something, too"


def test_what_a_role_denies_is_not_there(team, mleval):
    """DENY of MLflow 3.17 and later, on runs."""

    def post(path, **content):
        url = f"{team.url}/api/3.0/mlflow/roles/{path}"
        return requests.post(url, json=content, auth=ADMIN, timeout=PATIENCE)

    made = post("create", name="no runs", workspace="default")
    if made.status_code == 404:
        pytest.skip("this MLflow has no roles")
    runs = {"resource_type": "run", "resource_pattern": "*", "permission": "DENY"}
    role = made.json()["role"]["id"]
    if not post("permissions/add", role_id=role, **runs).ok:
        pytest.skip("roles of this MLflow deny nothing")
    assert post("assign", role_id=role, username="ann").ok
    mine, other = team.runs["mine"]
    for args in (["rank", "-n", "mine"], ["gate", mine, "--champion", other]):
        code, text = mleval(*args)
        assert code == 1 and "mine x" not in text and "Traceback" not in text, text
    selection = f"experiment-id={team.ids['mine']}"
    assert team.ask(f"answer?{selection}", ANN).status_code == 409
    for path in ("experiments", "survey", "answer", "files"):
        assert "mine x" not in team.ask(f"{path}?{selection}", ANN).text
