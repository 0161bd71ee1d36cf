"""The page and the command line on a real server with MLflow's login: an administrator, members of
unlike rights, and nobody.
"""

import base64
import json
import re
import shutil

import command_line
import pandas as pd
import pytest
import requests
from click.testing import CliRunner
from page_servers import ADMIN, api, grant, page_server, revoke, token_of_page
from waiting import PATIENCE

import mlflow_mleval as mleval
from mlflow_mleval.cli import main
from mlflow_mleval.server.mlflow_app import HEADERS

pytestmark = [pytest.mark.server, pytest.mark.thorough]
pytest.importorskip("flask_wtf", reason="no login for MLflow: pip install 'mlflow[auth]'")
ANN, BOB = ("ann", "twelve letters"), ("bob", "twelve letters more")
EVE = ("eve", "twelve letters, too")
HOSTILE = "<img src=x onerror=alert(1)>'\"\x1b[31m"
TOO_FAR = base64.b64encode(b'{"offset": 99999999999999999999}').decode()
SECRET = "undercover"  # stands in every name of what ann may not see
#: What is asked of a selection, which follows.
OF_A_SELECTION = (
    *("survey?", "answer?", "section?part=verdict&", "section?part=ranking&", "files?"),
    *("download?file=report.json&", "news?since=0&", "detail?of=method&the-method=RF&"),
    "answer?newer-than=9999999999999&",
)


@pytest.fixture(scope="module")
def team(empty_store, tmp_path_factory):
    """Ann may read experiment `mine` and edit `ours`; only the administrator sees `undercover`;
    bob sees `ours` only, and eve what nobody else asks for.
    """
    from mlflow.tracking import fluent

    from mlflow_mleval.store.importing import import_results

    folder = tmp_path_factory.mktemp("page")
    shutil.copy(empty_store, folder / "mlflow.db")
    rows = [
        (d, m, fold, (k * i % 3 + k) / 9 + (fold * (k + 1) % 3) / 99)
        for i, d in enumerate("abc")
        for k, m in enumerate(("RF", "kNN", HOSTILE))
        for fold in range(3)
    ]
    table = pd.DataFrame(rows, columns=["dataset", "method", "fold", "f1"]).assign(
        hamming_loss=lambda t: 1 - t["f1"]
    )
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
            patch.delenv(name, raising=False)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
        patch.setattr(fluent, "_active_experiment_id", None)
        from mlflow import MlflowClient

        client, ids = MlflowClient(), {}
        client.create_experiment(HOSTILE)
        for name in ("mine", "ours", "hers", f"{SECRET} experiment"):
            import_results(
                table.replace("RF", f"{SECRET} method") if SECRET in name else table,
                experiment_name=name,
            )
            ids[name.partition(" ")[0]] = client.get_experiment_by_name(name).experiment_id
    with page_server(folder, f"sqlite:///{folder / 'mlflow.db'}", base="basic-auth") as server:
        for name, password in (ANN, BOB, EVE):
            api(server, "users/create", {"username": name, "password": password}, ADMIN)
        for who, what, right in (
            ("ann", "mine", "READ"),
            ("ann", "ours", "EDIT"),
            ("bob", "ours", "READ"),
            ("eve", "mine", "READ"),
            ("eve", "hers", "READ"),
        ):
            grant(server, who, ids[what], right)
        server.ids = ids
        yield server


def test_nobody_gets_what_mlflow_gives_nobody(team):
    selection = f"experiment-id={team.ids['mine']}"
    asked = [*(f"{path}{selection}" for path in OF_A_SELECTION), "", "experiments"]
    for path in (*asked, "static?file=page.js"):
        answer = team.ask(path)
        assert answer.status_code == 401 and "mleval-token" not in answer.text
        assert answer.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]
    assert team.ask(f"store?{selection}", method="POST").status_code == 401


def test_a_member_is_let_in_and_sees_their_own_experiments_only(team):
    page = team.ask("", ANN)
    assert page.ok and "<script>" not in page.text and " style=" not in page.text
    assert "mleval report" in page.text.partition("<noscript>")[2]
    for name, value in HEADERS.items():
        assert page.headers[name] == value
    assert page.headers["Cache-Control"] == "private, no-store"
    cases = (
        (ANN, ["mine", "ours"], [SECRET, "img"]),
        (BOB, ["ours"], ["mine", SECRET]),
        (ADMIN, [SECRET], []),
    )
    for auth, seen, unseen in cases:
        listed = team.ask("experiments", auth).text
        assert all(f">{name}" in listed for name in seen)
        assert not any(name in listed for name in unseen)
    assert "<img" not in team.ask("experiments", ADMIN).text
    assert "ours" in (found := team.ask("experiments?search=OUR", ANN).text) and "mine" not in found
    assert team.ask("experiments?search=' OR name != '", ANN).ok
    assert requests.get(f"{team.url}/mleval", auth=ANN, timeout=PATIENCE).url.endswith("/mleval/")


def test_the_answer_is_the_report_and_every_part_of_it_is_text(team):
    selection = f"experiment-id={team.ids['mine']}"
    survey = team.ask(f"survey?{selection}", ANN)
    assert survey.ok and "3 methods, 3 datasets, 2 measures" in survey.text
    assert "<img" not in survey.text
    answer = team.ask(f"answer?{selection}", ANN).json()
    assert answer["state"] == "ready" and answer["runs"] == 9
    assert answer["about"].startswith("3 methods compared on 3 datasets")
    assert answer["experiments"] == [{"id": team.ids["mine"], "name": "mine"}]
    assert answer["selection"] == selection
    assert answer["command"] == f"mleval report -n {team.ids['mine']}"
    assert [s["key"] for s in answer["sections"][:3]] == ["decision", "ranking", "datasets"]
    assert "next_dataset" in [s["key"] for s in answer["sections"]]  # which is made when asked for
    for part in answer["sections"]:
        section = team.ask(f"section?part={part['key']}&{selection}", ANN)
        assert section.ok and section.headers["X-Mleval-Made"] == str(answer["made"])
        assert "<img" not in section.text and "\x1b" not in section.text
        assert " style=" not in section.text
    files = team.ask(f"files?{selection}", ANN).json()
    assert {"report.html", "report.json", "pairs.csv"} < {*files}
    for name in {name.rpartition(".")[2]: name for name in files}.values():
        file = team.ask(f"download?file={name}&{selection}", ANN)
        assert file.ok and len(file.content) > 50
        assert f'filename="mleval-{name}"' in file.headers["Content-Disposition"]
    data = team.ask(f"download?file=report.json&{selection}", ANN).json()
    assert data["provenance"]["command"] == answer["command"]
    assert data["provenance"]["tracking_uri"] == team.url
    for detail in (
        "of=method&the-method=kNN",
        "of=dataset&the-dataset=a",
        "of=cell&the-method=kNN&the-dataset=a",
        "of=pair&the-method=kNN&against=RF",
    ):
        found = team.ask(f"detail?{detail}&{selection}", ANN)
        assert found.ok and "<img" not in found.text, found.text
    assert "RF" not in team.ask(f"answer?{selection}&exclude-method=RF", ANN).json()["methods"]
    text = team.ask(f"download?file=report.txt&{selection}", ANN)
    assert answer["leader"] in text.text and f"{team.page}/?{selection}" in text.text
    assert text.headers["Content-Type"].startswith("text/plain") and "text" not in answer


def test_nothing_outside_an_answer_is_served(team):
    for path in (
        *("section?part=../about.json", "section?part=../../secret"),
        *("download?file=../../secret", "download?file=%2Fetc%2Fpasswd"),
        *("download?file=store.json", "static?file=../routes.py", "static?file=/etc/passwd"),
        "detail?of=file",
    ):
        answer = team.ask(f"{path}&experiment-id={team.ids['mine']}", ANN)
        assert answer.status_code in (400, 404) and answer.json()["state"] == "failed", path


def test_who_guesses_anothers_selection_learns_nothing(team):
    hidden, ours = f"experiment-id={team.ids[SECRET]}", f"experiment-id={team.ids['ours']}"
    # it is in the cache now
    assert team.ask(f"answer?{hidden}", ADMIN).json()["state"] == "ready"
    for selection in (hidden, f"{ours}&{hidden}", "experiment-id=424242"):
        for path in OF_A_SELECTION:
            answer = team.ask(f"{path}{selection}", BOB)
            assert answer.status_code == 403 and SECRET not in answer.text
    # what is not theirs and what is not there are told in the same words
    asked = (team.ask(f"answer?{of}", BOB).text for of in (hidden, "experiment-id=424242"))
    assert len({re.sub(r"\d+", "N", text) for text in asked}) == 1


def test_a_change_of_rights_shows_at_once(team):
    selection = f"experiment-id={team.ids['mine']}"
    assert team.ask(f"answer?{selection}", BOB).status_code == 403
    grant(team, "bob", team.ids["mine"], "READ")
    assert team.ask(f"answer?{selection}", BOB).json()["state"] == "ready"
    judged = f"gate?{selection}&candidate=kNN&champion=RF&over=datasets"
    assert team.ask(judged, BOB).ok
    revoke(team, "bob", team.ids["mine"])
    for path in (judged, *(f"{path}{selection}" for path in OF_A_SELECTION)):
        assert team.ask(path, BOB).status_code == 403


def test_errors_name_the_field_and_offer_ways(team):
    ours = f"experiment-id={team.ids['ours']}"
    for selection, field, text in (
        (f"{ours}&filter=nonsense", "filter", "MLflow does not accept the filter"),
        ("", "experiment-id", "No experiment"),
        (f"{ours}&alpha=2", "alpha", "not in the range"),
        (f"{ours}&missing=perhaps", "missing", "not one of"),
        (f"{ours}&on=<b>", None, "<b>"),
        (f"{ours}&method-by=nothing", "method-by", "nothing"),
        (f"{ours}&newer-than=abc", "newer-than", "milliseconds"),
        (f"{ours}&newer-than={'9' * 5000}", "newer-than", "milliseconds"),
        (f"{ours}&newer-than=²", "newer-than", "milliseconds"),
    ):
        answer = team.ask(f"answer?{selection}", ANN)
        failed = answer.json()
        assert answer.status_code in (400, 409) and failed["state"] == "failed"
        assert failed.get("field") == field and text in failed["error"], failed
        assert "127.0.0.1" not in failed["error"]
    for address, field in (
        (f"news?{ours}&since=-1", "since"),
        (f"section?{ours}&part=over_time&each=-1", "each"),
        ("experiments?page-token=garbage", "page-token"),
        (f"experiments?page-token={TOO_FAR}", "page-token"),
        (f"answer?{ours}&workspace=elsewhere", "workspace"),
        ("experiments?workspace=elsewhere", "workspace"),
        (f"answer?{ours}&seed={'9' * 4999}", "seed"),
    ):
        answer = team.ask(address, ANN)
        assert (answer.status_code, answer.json().get("field")) == (400, field), answer.text
    lost = team.ask(f"answer?{ours}&filter=metrics.f1 > 5", ANN)
    assert lost.status_code == 409 and "no run that can be used" in lost.json()["error"]


def test_a_report_is_stored_with_the_members_own_rights_and_by_their_own_page(team):
    ours, mine = (f"experiment-id={team.ids[name]}" for name in ("ours", "mine"))
    own = {"X-Mleval-Token": token_of_page(team, ANN)}
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    forged = [{}, {"X-Mleval-Token": "0" * 64}, {"X-Mleval-Token": token_of_page(team, BOB)}]
    forged += [own | elsewhere, own | {"Sec-Fetch-Site": "same-site"}]
    for headers in (*forged, {**own, "Origin": "http://elsewhere.example"}):
        assert team.ask(f"store?{ours}", ANN, "POST", headers=headers).status_code == 403
    embedded = elsewhere | {"Sec-Fetch-Mode": "no-cors"}
    assert team.ask(f"answer?{ours}", ANN, headers=embedded).status_code == 403
    asked = team.ask(f"store?{ours}", ANN, headers=own)
    assert asked.status_code in (403, 405)
    refused = team.ask(f"store?{mine}", ANN, "POST", headers=own)
    assert refused.status_code == 403 and "right to edit" in refused.json()["error"]
    stored = team.ask(f"store?{ours}", ANN, "POST", headers=own)
    assert stored.ok and stored.json()["left_out"] == []
    run_id = stored.json()["run_id"]
    run = api(team, "runs/get", auth=ADMIN, run_id=run_id)["run"]
    tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
    assert tags["mleval.kind"] == "report" and tags["mlflow.user"] == "ann"
    assert run["info"]["status"] == "FINISHED"
    assert run["info"]["experiment_id"] == team.ids["ours"]
    place = {"run_id": run_id, "path": "mleval_report.html"}
    page = requests.get(f"{team.url}/get-artifact", params=place, auth=BOB, timeout=PATIENCE)
    assert page.ok and "kNN" in page.text and SECRET not in page.text
    assert team.ask(f"store?{ours}", ANN, "POST", headers=own).json()["run_id"] == run_id
    assert team.ask(f"news?since=0&{ours}", ANN).json() == {"new": 9}  # the report is no news


def test_other_weights_of_the_same_runs_read_no_run_again(team):
    ours = f"experiment-id={team.ids['ours']}"
    before = team.ask(f"answer?{ours}", ANN).json()
    before = team.ask(f"answer?newer-than={before['made']}&{ours}", ANN).json()
    heavier = f"weights=f1%3D3%2Chamming_loss%3D1&{ours}"
    after = team.ask(f"answer?{heavier}", ANN).json()
    assert after["state"] == "ready" and after["key"] != before["key"]
    assert after["made"] == before["made"]  # when the runs were read
    assert team.ask(f"section?part=measures&{heavier}", ANN).ok
    # who goes back finds the rest of the first answer, too, made of the same runs
    again = team.ask(f"section?part=measures&{ours}", ANN)
    assert again.ok and again.headers["X-Mleval-Made"] == str(before["made"])
    # a measure that is switched off is left out of what was read
    off = f"exclude-measure=hamming_loss&{ours}"
    less = team.ask(f"answer?{off}", ANN).json()
    assert less["made"] == before["made"] and less["key"] != before["key"]
    ranking = team.ask(f"section?part=ranking&{off}", ANN).text
    newer = team.ask(f"answer?newer-than={before['made']}&{off}", ANN).json()
    assert newer["made"] > before["made"]
    assert team.ask(f"section?part=ranking&{off}", ANN).text == ranking


def test_new_runs_are_told_and_taken_on_demand(team):
    ours = f"experiment-id={team.ids['ours']}"

    def answered(more=""):
        return team.ask(f"answer?{more}{ours}", ANN).json()

    def news(answer):
        return team.ask(f"news?since={answer['made']}&{ours}", ANN).json()["new"]

    def end(at):
        api(team, "runs/update", {"run_id": made, "status": "FINISHED", "end_time": at}, ANN)

    before = answered()
    assert news(before) == 0
    asked = {"experiment_id": team.ids["ours"], "start_time": before["made"]}
    made = api(team, "runs/create", asked, ANN)["run"]["info"]["run_id"]
    end(before["made"] + 5)
    assert news(before) == 1 and answered()["made"] == before["made"]
    after = answered(f"newer-than={before['made']}&")
    assert after["made"] > before["made"] and after["key"] == before["key"]
    assert answered()["made"] == after["made"] and after["ahead"] == 0
    # a run that ended tomorrow, by a clock that is ahead, is no news to an answer that has read it
    end(after["made"] + 86_400_000)
    later = answered(f"newer-than={after['made']}&")
    assert later["ahead"] == news(later) == 1


def test_no_password_lies_in_the_folder_or_the_log(team):
    assert team.ask(f"answer?experiment-id={team.ids['ours']}", ANN).json()["state"] == "ready"
    secrets = [ADMIN[1], ANN[1], BOB[1], "key-of-the-server"]
    lying = [path for path in (team.folder / "t").rglob("*") if path.is_file()]
    assert lying
    texts = [path.read_bytes() for path in (team.folder / "server.log", *lying)]
    assert not any(secret.encode() in text for secret in secrets for text in texts)
    assert all(path.stat().st_mode & 0o077 == 0 for path in (team.folder / "t").glob("mleval-*/*"))


def test_runs_reports_and_commands_name_the_address_of_the_page(team, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", team.url)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", ADMIN[0])
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", ADMIN[1])
    said = []  # to a person at a terminal
    monkeypatch.setattr("mlflow_mleval.cli.say", lambda text, quiet=False: said.append(text))
    page = f"mleval/?experiment-id={team.ids['ours']}"
    shown = CliRunner().invoke(main, ["report", "-n", "ours", "--alpha", "0.1", "--log", "-o", "-"])
    assert shown.exit_code == 0, shown.output
    live = re.search(r"compare live: (\S+)", " ".join(said))
    assert live and live[1] == f"{team.url}/{page}&alpha=0.1"
    assert team.ask(f"answer?{live[1].partition('?')[2]}", ADMIN).ok
    logged = mleval.log_evaluation(
        mleval.evaluate([[1, 0], [0, 1]], y_pred=[[1, 0], [0, 0]]),
        method="new",
        dataset="z",
        experiment_name="ours",
    )
    for run in (logged, re.search("logged as run ([0-9a-f]{32})", " ".join(said))[1]):
        found = api(team, "runs/get", auth=ADMIN, run_id=run)["run"]
        note = {t["key"]: t["value"] for t in found["data"]["tags"]}["mlflow.note.content"]
        assert f"]({page})" in note


def test_a_gate_judges_runs_that_the_member_may_read_and_stores_nothing(team):
    mine, of = team.ids["mine"], runs_of(team, "mine")
    search = {"experiment_ids": [mine], "max_results": 50}
    runs = api(team, "runs/search", search, ADMIN)["runs"]
    sides = {"candidate": of["kNN"], "champion": of["RF"], "margin": "0.5"}
    judged = team.ask("gate", ANN, params=sides)  # who may read only
    assert judged.ok and 'data-decision="' in judged.text and "<svg" in judged.text, judged.text
    assert "<img" not in judged.text and "kNN" in judged.text
    now = api(team, "runs/search", search, ADMIN)["runs"]
    written = [tag["key"] for run in now for tag in run["data"]["tags"]]
    assert len(now) == len(runs)
    assert not [key for key in written if key.startswith("mleval.gate")]
    # the verdict is there, but not for who may not read both runs
    refused = team.ask("gate", BOB, params=sides)
    assert refused.status_code == 403 and refused.json()["field"] == "candidate"
    assert "kNN" not in refused.text and team.ask("gate", params=sides).status_code == 401
    # methods of experiments, and registered versions
    methods = {"candidate": "kNN", "champion": "RF", "experiment-id": mine, "over": "folds"}
    wrong = team.ask("gate", ANN, params=methods)  # three datasets, and folds are of one
    assert wrong.status_code == 409 and "folds" in wrong.json()["error"]
    assert team.ask("gate", ANN, params=methods | {"over": "datasets"}).ok
    assert team.ask("gate", BOB, params=methods).status_code == 403
    api(team, "registered-models/create", {"name": "tagger"}, ADMIN)
    for method in ("RF", "kNN"):
        version = {"name": "tagger", "source": f"runs:/{of[method]}/m", "run_id": of[method]}
        api(team, "model-versions/create", version, ADMIN)
    versions = {"candidate": "models:/tagger/2", "champion": "models:/tagger/1", "margin": "0.5"}
    named = team.ask("gate", ADMIN, params=versions)
    assert named.ok and "tagger/2" in named.text
    assert team.ask("gate", BOB, params=versions).status_code == 403
    assert "models:/tagger" in team.ask("gate-form", ADMIN).text
    assert not any("tagger" in team.ask("gate-form", who).text for who in (ANN, BOB))
    assert of["RF"] in team.ask(f"gate-form?experiment-id={mine}", ANN).text
    assert team.ask(f"gate-form?experiment-id={mine}", BOB).status_code == 403
    # garbage names its field
    for field, value in (("margin", "x"), ("alpha", "7"), ("over", "moons"), ("champion", "")):
        answer = team.ask("gate", ANN, params=sides | {field: value})
        assert answer.status_code == 400 and answer.json()["field"] == field


def runs_of(team, name):
    """Runs of an experiment on its first dataset, by method."""
    search = {"experiment_ids": [team.ids[name]], "max_results": 50}
    runs = api(team, "runs/search", search, ADMIN)["runs"]
    tags = {run["info"]["run_id"]: run["data"]["tags"] for run in runs}
    of = {run_id: {tag["key"]: tag["value"] for tag in own} for run_id, own in tags.items()}
    return {own["mleval.method"]: i for i, own in of.items() if own["mleval.dataset"] == "a"}


@pytest.fixture
def as_eve(team, unset, monkeypatch):
    """The command as eve calls it: its exit code, and all that it says."""
    for name, value in zip(("USERNAME", "PASSWORD", "URI"), (*EVE, team.url), strict=True):
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", value)
    monkeypatch.chdir(team.folder)

    def called(*args):
        done = command_line.mleval(*args, code=None)
        return done.exit_code, done.output

    return called


def test_without_rights_there_is_no_verdict_and_nothing_is_told_of_the_runs(team, as_eve):
    mine, (hidden, other) = runs_of(team, "mine")["RF"], [*runs_of(team, SECRET).values()][:2]
    methods = ["gate", "-n", "mine", "kNN", "--champion", "RF", "--over", "datasets"]
    named = f"{SECRET} experiment"
    for args in (
        ["gate", mine, "--champion", hidden],
        ["gate", hidden, "--champion", mine],
        ["gate", hidden, "--champion", other],
        ["gate", "-n", named, f"{SECRET} method", "--champion", "kNN"],
        [*methods, "--log"],
        ["runs", "-n", named],
        ["rank", "-n", named],
        ["compare", "--run-id", hidden, "--run-id", mine],
        ["report", "-n", "mine", "--log"],
    ):
        code, text = as_eve(*args)
        typed = SECRET in " ".join(args)
        assert code == 1 and "Traceback" not in text and EVE[1] not in text, text
        assert typed or SECRET not in text
    code, text = as_eve(*methods, "--ledger", "l", "--output", "json")
    assert code in (3, 4) and json.loads(text)["ledger"], "MLflow said something, too"


def test_what_a_role_denies_is_not_there(team, as_eve):
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
    assert post("assign", role_id=role, username="eve").ok
    hers, other = [*runs_of(team, "hers").values()][:2]
    for args in (["rank", "-n", "hers"], ["gate", hers, "--champion", other]):
        code, text = as_eve(*args)
        assert code == 1 and "kNN" not in text and "Traceback" not in text, text
    selection = f"experiment-id={team.ids['hers']}"
    assert "kNN" in team.ask(f"answer?{selection}", ADMIN).text  # which Eve does not share
    assert team.ask(f"answer?{selection}", EVE).status_code == 409
    for path in ("experiments", "survey", "answer", "files"):
        assert "kNN" not in team.ask(f"{path}?{selection}", EVE).text
