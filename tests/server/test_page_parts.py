"""Parts of the page without MLflow: selections, the door for jobs, the folder of answers, what
forged requests meet.
"""

import json
import os
import re
import tempfile
import threading
import time
from dataclasses import fields, replace
from inspect import signature
from types import SimpleNamespace
from urllib.parse import parse_qs

import pandas as pd
import pytest
import requests
from report_cases import published
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.assembling import Material
from mlflow_mleval.errors import CandidatesError, MeasureError, UnclearError, UndirectedError
from mlflow_mleval.report import FORMATS, SUFFIXES
from mlflow_mleval.report.content import document_of
from mlflow_mleval.selection import DIGEST, METHOD_RULES, Selection
from mlflow_mleval.sentences import PROPOSED, Argument, Message
from mlflow_mleval.server import desk, members
from mlflow_mleval.server.answers import chips, failure, files_of, form_of, remedies, repeats_of
from mlflow_mleval.server.desk import PROCESSES, Desk, Desks, locked, server_folder, work
from mlflow_mleval.server.page_selection import (
    COMPARING,
    SelectionError,
    as_field,
    further_options,
    offered,
    options,
    parsed,
    rendered,
)
from mlflow_mleval.study import Excluded, Study, Survey, Way


def test_a_selection_is_the_same_in_the_address_in_python_and_as_a_command():
    given = {"missing": ["worst"], "experiment-id": ["3", "1", "3"], "alpha": ["0.05"]}
    given |= {"weights": ["f1=2,a b=1"], "unpaired": ["1"], "max": ["x y", "é"]}
    given |= {"filter": ["tags.a = '&='"], "method": ["-x"], "unknown": ["?"]}
    found = parsed(given)
    assert found.choices["weights"] == {"f1": 2.0, "a b": 1.0} and found.choices["paired"] is False
    assert found.choices["maximize"] == ("x y", "é") and found.choices["alpha"] == 0.05
    assert found.experiment_ids == ("3", "1")
    again = parsed(parse_qs(found.query))
    assert again == found and again.query == found.query and "alpha" not in found.query
    assert "unknown" not in found.query
    for typed in ("--method=-x", "--filter 'tags.a = '", "--protocol :unpaired"):
        assert typed in found.command
    assert parsed({**given, "alpha": ["0.1"]}).query != found.query
    more = found.adding({"missing": "drop-methods", "maximize": ("z", "é"), "method_by": "tag:m"})
    assert more.choices["missing"] == "drop-methods"
    assert more.choices["maximize"] == ("x y", "é", "z")
    assert more.choices["method_by"] == ("tag:m",)
    assert parsed({}).query == ""
    assert {"experiment-name", "log", "output", "draws"}.isdisjoint(options())


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("missing", "x", "is not one of"),
        ("alpha", "1", "not in the range"),
        ("p", "a,b", "neither a number"),
        ("experiment-id", "../1", "no id"),
        (
            "experiment-id",
            [*map(str, range(51)), "0"],
            "51 experiments are chosen; 50 are the most",
        ),
        ("filter", "a\nb", "cannot be shown"),
        ("seed", "x", "not a valid integer"),
        ("filter", "x" * 5001, "at most"),
        ("preference", "f1=none", "neither usual"),
    ],
)
def test_a_wrong_value_names_its_field(name, value, text):
    with pytest.raises(SelectionError, match=text) as caught:
        parsed({name: value if isinstance(value, list) else [value]})
    assert caught.value.field == name


@pytest.fixture(scope="module")
def door():
    """A forwarder to an application that says what it was asked, by whom."""

    def application(environ, start_response):
        size = int(environ.get("CONTENT_LENGTH") or 0)
        keys = "REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "HTTP_AUTHORIZATION", "HTTP_COOKIE"
        keys += "HTTP_ORIGIN", "HTTP_X_USER", "login.layer"
        told = {key: environ.get(key) for key in keys}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps({**told, "body": environ["wsgi.input"].read(size).decode()}).encode()]

    return members.Door(application, members.Inside(application, "/prefix"))


ANN, BOB = (members.Caller.of({"REMOTE_USER": who}) for who in ("ann", "bob"))
MEMBER = members.Caller.of(
    {
        "HTTP_AUTHORIZATION": "Basic bWU6aXQ=",
        "HTTP_COOKIE": "session=1",
        "HTTP_ORIGIN": "http://x",
        "HTTP_X_USER": "me",
        "PATH_INFO": "/mleval/answer",
        "QUERY_STRING": "a=b",
        "CONTENT_LENGTH": "7",
        "login.layer": "said",
    }
)


def test_a_job_asks_in_the_members_name_and_knows_nothing_of_them(door):
    token = door.open_for(MEMBER)
    assert door.address.startswith("http://127.0.0.1:")
    headers = {"Authorization": f"Bearer {token}"}
    searched = f"{door.address}/api/2.0/mlflow/runs/search"
    sent = requests.post(searched, data=b'{"a": 1}', headers=headers, timeout=60)
    members = ("HTTP_AUTHORIZATION", "HTTP_COOKIE", "HTTP_X_USER", "login.layer")
    assert sent.json() == {
        **{name: MEMBER.environ[name] for name in members},
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/prefix/api/2.0/mlflow/runs/search",
        "QUERY_STRING": "",
        "body": '{"a": 1}',
        "HTTP_ORIGIN": None,
    }
    asked = f"{door.address}/get-artifact?run_id=1&path=a%2Fb"
    got = requests.get(asked, headers=headers, timeout=60).json()
    assert got["PATH_INFO"] == "/prefix/get-artifact"
    assert got["QUERY_STRING"] == "run_id=1&path=a%2Fb"
    door.shut(token)
    assert requests.get(asked, headers=headers, timeout=60).status_code == 401  # it died with it
    # another process of the server hands its requests on
    headers = {"Authorization": f"Bearer {door.token}"}
    told = {**MEMBER.environ, "REQUEST_METHOD": "GET", "PATH_INFO": "/mleval/answer"}
    got = requests.post(door.address, json=told, headers=headers, timeout=60).json()
    assert got["PATH_INFO"] == "/mleval/answer" and got["HTTP_X_USER"] == "me"


API = "/api/2.0/mlflow"
REFUSED = {
    "GET": [
        *("/mleval/answer", "/", "/graphql", f"{API}/users/get", f"{API}/runs/../users/get"),
        *(f"{API}/gateway-proxy", "/api/2.0/mlflow-artifacts/artifacts/x"),
    ],
    "POST": [
        *("/mleval/store", "/graphql", f"{API}/users/create", f"{API}/runs/delete"),
        *(f"{API}/experiments/create", "/static-files/a"),
    ],
    "DELETE": [f"{API}/runs/search"],
    "PUT": ["/api/2.0/mlflow-artifacts/artifacts/x"],
}
READ_ONLY = [f"{API}/runs/create", "/ajax-api/2.0/mlflow/upload-artifact"]


def test_the_door_refuses_what_no_job_needs(door):
    asked = [(method, path, True) for method, paths in REFUSED.items() for path in paths]
    for method, path, writes in (*asked, *(("POST", path, False) for path in READ_ONLY)):
        headers = {"Authorization": f"Bearer {door.open_for(MEMBER, writes)}"}
        request = requests.Request(method, door.address, headers=headers).prepare()
        request.url = door.address + path  # as it is, not tidied
        assert requests.Session().send(request, timeout=60).status_code == 403, (method, path)


def test_the_door_opens_to_its_token_only(door):
    token = door.open_for(MEMBER, True)
    asked = f"{door.address}/api/2.0/mlflow/runs/create"
    for wrong in ("", f"Bearer {token[:-1]}", f"Basic {token}", "Bearer ", f"Basic {door.token}"):
        headers = {"Authorization": wrong, "Cookie": "session=1"}
        assert requests.post(asked, headers=headers, timeout=60).status_code == 401
    headers = {"Authorization": f"Bearer {token}"}
    assert requests.post(asked, headers=headers, timeout=60).ok
    large = {**headers, "Content-Length": str(members.MOST_BYTES + 1)}
    assert requests.post(asked, headers=large, timeout=60).status_code == 413


def test_a_folder_that_others_may_enter_or_a_link_to_one_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = tmp_path / f"mleval-{os.geteuid()}"
    (tmp_path / "own").mkdir(mode=0o700)
    root.symlink_to(tmp_path / "own")
    with pytest.raises(PermissionError, match="is not a folder of this user alone"):
        server_folder()
    root.unlink()
    root.mkdir(mode=0o700)
    folder = server_folder()
    assert folder.parent == root and folder.stat().st_mode & 0o777 == 0o700
    for mode in (0o701, 0o704, 0o710, 0o740, 0o770):
        for place, said in ((root, "is not a folder of this user alone"), (folder, "set TMPDIR")):
            place.chmod(mode)
            with pytest.raises(PermissionError, match=said):
                server_folder()
            place.chmod(0o700)


def test_folders_of_servers_that_ended_go(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("_MLFLOW_SERVER_BOOT_ID", "first")
    first = server_folder()
    lock = locked(first / "desk", wait=False)
    assert lock is not None and locked(first / "desk", wait=False) is None
    os.utime(first, (0, 0))
    monkeypatch.setenv("_MLFLOW_SERVER_BOOT_ID", "second")
    second = server_folder()
    assert first != second and first.is_dir()
    os.close(lock)
    os.utime(first, (0, 0))
    assert server_folder() == second and not first.exists()


def test_one_process_of_a_server_has_the_desk(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def application(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [environ["PATH_INFO"].encode()]

    one, other = (Desks(application, members.Inside(application)) for _ in range(2))
    asked = EnvironBuilder("/mleval/news").get_environ()
    assert one.elsewhere(asked) is None and one.here() is not None
    assert other.here() is None and other.elsewhere(asked).get_data() == b"/mleval/news"
    (file,) = tmp_path.rglob("desk")
    assert file.stat().st_mode & 0o077 == 0


def test_a_request_to_write_is_believed_from_the_members_page_only():
    secret, other = b"s" * 32, members.Caller.of({"HTTP_AUTHORIZATION": "Basic eW91Oml0"})
    fine, old = members.token_of(secret, MEMBER), members.token_of(secret, MEMBER, 1)

    def met(token: str, **headers: str) -> str:
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        headers |= {"X-Mleval-Token": token, "Host": "mlflow.example"}
        asked = Request(EnvironBuilder(method="POST", headers=headers).get_environ())
        return members.forged(asked, secret, MEMBER)

    assert not met(fine) and not met(old) and not met(fine, Origin="https://mlflow.example")
    assert not met(fine, Sec_Fetch_Site="same-origin", Origin="https://proxy.example")
    others = (secret, other), (secret, MEMBER, 2), (b"t" * 32, MEMBER)
    wrong = [members.token_of(*of) for of in others]
    for token in ("", "é", fine[:-1], *wrong):
        assert "Load it again" in met(token)
    assert "another site" in met(fine, Origin="http://evil.example")
    assert "another site" in met(fine, Origin="null")
    assert "another site" in met(fine, Sec_Fetch_Site="same-site")
    assert "another site" in met(fine, Sec_Fetch_Site="none")


def test_experiments_are_listed_but_for_ledgers():
    found = {"experiment_id": "1", "name": "<e>", "last_update_time": 5000}
    ledger = found | {"tags": [{"key": "mleval.register", "value": "1" * 32}]}
    (row,) = members.listed([found, ledger])
    assert row["last"].timestamp() == 5
    page = rendered("experiments.html.j2", experiments=[row], next_token="", search="", first=True)
    assert "&lt;e&gt;" in page and "<e>" not in page


def empty_form(**more) -> str:
    """The form where the survey found nothing."""
    tables = [pd.DataFrame(columns=[name]) for name in ("experiment_id", "metric", "kind")]
    shown = {"survey": Survey(*tables, n_runs=0), "study": None, "values": offered()}
    shown |= {"problem": "", "ways": [], "repeats": "", "selection": {}, "further": {}}
    return rendered("survey.html.j2", **shown | more)


def test_the_page_offers_every_value_that_an_option_takes():
    page = empty_form(further=further_options())
    controls = {*re.findall(r'<(?:input|select)[^>]* name="([a-z-]+)"', page)}
    controls |= {"experiment-id", "filter", "pair"}  # above what the experiments hold
    of_names = {name for name in options() if name.endswith(("method", "dataset", "measure"))}
    of_metrics = {"min", "max", "directions", "folds-by"}  # shown where there are some
    assert controls | of_names | of_metrics == {*options()}
    assert "--" not in str(further_options()) and "`" not in str(further_options())
    selects = dict(re.findall(r'<select id="f-([a-z-]+)".*?>(.*?)</select>', page, re.S))
    for name, inside in selects.items():
        default, choices = options()[name].default, getattr(options()[name].type, "choices", ())
        unset = default if default in choices else None
        values = {value or unset for value in re.findall(r'<option value="(.*?)"', inside)}
        assert not choices or values - {None} == {*choices}, name
    assert {"test", "missing", "preference"} <= selects.keys()
    assert not re.search(r'name="-', page)  # a flag that is no choice, such as the help
    assert {*offered()} - {"method-by", "dataset-by", "repeats-by"} <= selects.keys()
    assert all(f'value="{rule}"' in page for rule in (*METHOD_RULES, DIGEST))
    # a rule that the survey does not propose is shown as chosen
    page = empty_form(selection={"repeats-by": ["digest"]})
    (chosen,) = re.findall(r'<label[^>]*><input [^>]*name="repeats-by"[^>]*>.*?</label>', page)
    assert 'value="digest" checked' in chosen and "the digest of the data" in chosen


def test_the_form_is_set_to_what_the_survey_proposes(client, log):
    from mlflow_mleval.store.runs_table import remembered
    from mlflow_mleval.store.survey import take_stock

    def experiment(name, differs, metrics):
        for i, model in enumerate(("xgb", "rf")):
            for data in "abc":
                for k in range(2):
                    of = {"params": {"model": model, "dataset": data, differs: k}}
                    values = dict.fromkeys(metrics, 0.5 + 0.1 * i + 0.01 * k)
                    log(f"{model}-{data}-{k}", values, experiment=name, **of)
        return client.get_experiment_by_name(name).experiment_id

    def form(**given):
        chosen = parsed({name.replace("_", "-"): value for name, value in given.items()})
        with remembered():
            return form_of(chosen, *take_stock(Selection.of(chosen.choices)))

    seeds = experiment("seeds", "seed", ["test_f1", "cost_usd"])
    set_to, study, ways = form(experiment_id=[seeds])
    rules = {"experiment-id": (seeds,), "method-by": ("param:model",)}
    rules["dataset-by"] = ("param:dataset",)
    assert dict(set_to.given) == rules and not ways
    assert len(study.methods) == 2 and len(study.datasets) == 3
    assert repeats_of(study) == "2 repeats" and study.measures == ["test_f1"]
    # what was chosen stays so
    set_to, _, _ = form(experiment_id=[seeds], method_by=["run_name"], missing=["worst"])
    assert set_to.choices["method_by"] == ("run_name",)
    # which direction is better is proposed, and how candidates are told apart, never by their cost
    agents = experiment("agents", "prompt_version", ["cost_usd", "latency_s"])
    set_to, study, _ = form(experiment_id=[agents])
    assert dict(set_to.given) == {
        **{"experiment-id": (agents,), "method-by": ("param:model", "param:prompt_version")},
        **{"dataset-by": ("param:dataset",), "min": ("cost_usd", "latency_s")},
    }
    assert len(study.methods) == 4


def test_every_stop_has_a_way_out_in_the_words_of_the_page():
    given = {"experiment-id": ["1"], "control": ["nobody"], "measure": ["f1", "none"]}
    job = {"what": "answer", "given": given, "server": "http://inside", "address": "http://out"}

    def told(error):
        found = failure(error, job)
        ways = {way["what"]: parse_qs(way["query"]) for way in found["ways"]}
        assert found["status"] == 409 and "--" not in found["error"]
        return found["error"], ways

    text, ways = told(MeasureError("the control 'nobody' is not there, declare --min at 'none'."))
    assert "“smaller is better”" in text
    assert as_field(Argument("children", "best:METRIC")) == "“child runs: best:METRIC”"
    assert ways["go on without “compared with: nobody”"].keys() == {"experiment-id", "measure"}
    assert ways["go on without “measures: none”"]["measure"] == ["f1"]
    _, ways = told(MeasureError(Message("take ", PROPOSED)))
    assert ways["take the directions that their names suggest"]["directions"] == ["proposed"]
    taken = failure(MeasureError(Message("take ", PROPOSED)), job)["taken"]
    assert parse_qs(taken)["directions"] == ["proposed"]
    choices = UndirectedError.ways_for(["val_acc", "zork"], {"val_acc": "max"}, every=True)
    _, ways = told(UndirectedError("no direction is known for zork.", choices))
    larger, smaller = ways.values()
    assert larger["max"] == ["zork"] and larger["directions"] == ["proposed"]
    assert smaller["min"] == ["zork"]
    candidates = [("the best", {"duplicates": "best:f1"}), ("the mean", {"duplicates": "mean"})]
    _, ways = told(CandidatesError("they differ", candidates))
    assert [*ways] == ["the best", "the mean"]  # in the order of whoever offers them
    so = Way("so", "rank", Selection(method_by=["param:m"]))
    _, ways = told(UnclearError("unclear", [so]))
    assert failure(UnclearError("unclear", [so]), job)["taken"] is None
    assert "method-by" in failure(UnclearError("unclear", [so], undirected=True), job)["taken"]
    assert ways["so"]["method-by"] == ["param:m"]
    proposal = (
        "A gap. The proposal is to leave out d; leave out --missing x to be told the other ways."
    )
    dropped = Selection(missing="drop-datasets")
    stop = UnclearError(proposal, [Way("a ranking of them", "rank", dropped)])
    text, ways = told(stop)
    assert text == "A gap. The proposal is to leave out d."
    assert [way["missing"] for way in ways.values()] == [["drop-datasets"], ["worst"]]
    assert next(iter(ways)) == "leave out d"


def of_two(**columns) -> Study:
    """Two methods on two datasets, alike by these measures."""
    rows = [{"dataset": d, "method": m, **columns} for d in "de" for m in "ab"]
    return Study.from_frame(pd.DataFrame(rows), maximize=[*{"tone", "hue"} & {*columns}])


def test_a_doubt_comes_with_what_removes_it():
    reason = "no direction is known; declare …"
    gone = [Excluded("measure", name, reason) for name in ("tone_loss", "gain", "latency_ms")]
    study = replace(of_two(f1=0.5), excluded=tuple(gone))
    choices = {"minimize": (), "maximize": (), "measures": None, "missing": "worst"}
    # the name of another suggests nothing, and what a method costs is no measure of it
    ((at, _, ways),) = remedies(study, choices)
    added = {"measures": ["f1", "tone_loss"], "minimize": ["tone_loss"], "maximize": []}
    assert (at, ways) == ("decision", [("“tone_loss”: smaller is better ✓", added)])
    ((at, _, ways),) = remedies(replace(study, excluded=(), filled=(("d", "a"),)), choices)
    offered = [more for _, more in ways]
    assert (at, offered) == ("ranking", [{"missing": "drop-datasets"}, {"missing": "drop-methods"}])


def test_a_direction_that_was_taken_may_be_confirmed_or_turned():
    study = of_two(f1=0.5, tone=0.5)
    choices = {"minimize": (), "maximize": (), "measures": ("f1",), "missing": "error"}
    ((_, _, (right, wrong)),) = remedies(study, choices)
    confirmed = {"measures": ["tone"], "minimize": [], "maximize": ["tone"]}
    assert right == ("“tone”: larger is better ✓", confirmed)
    assert wrong[1] == {"measures": ["tone"], "minimize": ["tone"], "maximize": []}
    assert [*remedies(study, {**choices, "maximize": ("tone",)})] == []
    both = of_two(hue=0.5, tone=0.5)
    ((_, _, (_, *turning)),) = remedies(both, {**choices, "measures": None})
    assert [way for way, _ in turning] == [f"“{m}”: no, smaller is better" for m in both.measures]


def test_runs_that_went_with_their_dataset_are_left_out():
    cells = [("d", "a"), ("d", "b"), ("e", "a")]
    rows = [{"dataset": d, "method": m, "f1": 0.5 + 0.1 * i} for i, (d, m) in enumerate(cells)]
    whole = Study.from_frame(pd.DataFrame(rows))
    study = replace(whole, runs=pd.DataFrame(rows), excluded=(Excluded("run", "x", "failed"),))
    fewer = study.complete("drop-datasets")
    told = {one["text"]: one["out"] for one in chips(fewer)}
    assert told["2 runs"] is False and told["2 runs left out"] is True


def test_the_page_offers_a_file_for_every_format_of_a_report():
    names = files_of(document_of(published()))
    suffixes = {name.rpartition(".")[2] for name in names}
    assert {"html", "md", "tex", "json", "csv", "svg"} <= suffixes
    assert {"report.txt", "report.json"} <= {*names}
    assert len(FORMATS) == len(suffixes & {*SUFFIXES}) + 2  # but the table, and JSON in brief


def test_a_login_is_verified_once_a_request():
    hashed = []

    def verify(username, password):
        hashed.append((username, password))
        return password == "right"

    check = members.verified_once(verify)

    def application(environ, start_response):
        """Verifies the login twice, as MLflow's does for who is no administrator."""
        login = environ["HTTP_LOGIN"].split(":")
        allowed = [check(*login), check(*login)]
        start_response("200 OK" if all(allowed) else "401 Unauthorized", [])
        return [b""]

    inside = members.Inside(application)
    ann, liar = (members.Caller({"HTTP_LOGIN": f"ann:{word}"}) for word in ("right", "wrong"))

    def asked(caller):
        return inside.ask(caller, "GET", "/a")

    with members.one_request():
        assert asked(ann).ok and asked(ann).ok
        assert asked(liar).status_code == 401
    assert hashed == [("ann", "right"), ("ann", "wrong")]
    hashed.clear()
    assert asked(ann).ok and asked(ann).ok
    assert len(hashed) == 2  # requests of their own: nothing is believed from one to the next


def test_what_is_read_is_the_same_whatever_the_comparison_heeds():
    beside = COMPARING - {"exclude-measure", "as-in-papers", "pair"}
    heeded = {options()[name].name for name in beside}
    assert heeded <= {*signature(compare).parameters, *signature(fuse).parameters}
    assert heeded.isdisjoint(field.name for field in fields(Selection))

    def read(**given):
        whole = parsed(
            {"filter": ["x"], **{name.replace("_", "-"): [v] for name, v in given.items()}}
        )
        return whole.query, whole.without(*COMPARING).query

    one, of_runs = read()
    other, weighted = read(weights="f1=2")
    assert of_runs == one == weighted != other
    assert read(exclude_measure="f1")[1] == one  # it can be left out of what was read


def test_measures_are_left_out_of_what_was_read_where_the_rest_is_as_without_them():
    names = ("f1", "recall", "hamming_loss")
    study = of_two(**dict.fromkeys(names, 0.5))
    material = Material(study, {"d": "no tables"})
    assert material.can_lose({"f1", "recall"}) and material.can_lose(set())
    assert not material.can_lose({*names}) and not material.can_lose({"cost"})
    tested = Material(study, {"d": SimpleNamespace(measures=["f1"])})  # by tables of instances
    assert not tested.can_lose({"f1"}) and tested.can_lose({"recall"})
    less = material.without({"recall", "f1"}).study
    assert less.measures == ["hamming_loss"]
    gone = [(one.name, one.reason) for one in less.excluded]
    assert gone == [("f1", "excluded as asked"), ("recall", "excluded as asked")]


def environment_of(told, scratch, job):
    """Do a job that fails at once, and tell what the process knew of the server's then."""
    heard, others = PROCESSES.Pipe(duplex=False)
    work(others, scratch, job)
    names = ("MLFLOW_FLASK_SERVER_SECRET_KEY", "OMP_NUM_THREADS")
    told.send((heard.recv()["made"]["status"], [os.getenv(name) for name in names]))


def test_what_computes_has_none_of_the_servers_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_FLASK_SERVER_SECRET_KEY", "key-of-the-server")
    heard, told = PROCESSES.Pipe(duplex=False)
    job = {"what": "nothing", "server": "http://127.0.0.1:9", "token": "x", "address": "http://a"}
    process = PROCESSES.Process(target=environment_of, args=(told, str(tmp_path), job))
    process.start()
    assert heard.recv() == (500, [None, "1"])
    process.join(60)


@pytest.fixture
def quiet_desk(door, tmp_path, monkeypatch):
    """A desk whose jobs are at work until they are given what they make."""

    def done(at, task):
        at.made[task.key] = made = threading.Event()
        while not made.wait(0.01):
            if task.is_left:
                return None
        return made.answer

    monkeypatch.setattr(Desk, "_done", done)
    at = Desk(door, tmp_path)
    at.made = {}
    yield at
    for key in [*at.made]:
        finish(at, key)


def finish(at, key, **answer):
    at.made[key].answer = {"made": 1, "held": b"", "texts": {}, **answer}
    at.made[key].set()


def until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_members_take_turns_and_surveys_wait_for_no_comparison(quiet_desk):
    def asks(who, key, lane="answer"):
        caller = members.Caller.of({"REMOTE_USER": who})
        return quiet_desk.ask(key, caller, {"what": lane}, lane=lane)

    def at_work(*keys):
        until(lambda: {*quiet_desk.made} == {*keys})

    assert asks("ann", "ann 1")["state"] == "working"
    at_work("ann 1")
    with quiet_desk.changed:  # nothing begins before all have asked
        asks("ann", "ann 2"), asks("ann", "ann 3"), asks("bob", "bob 1")
    at_work("ann 1", "bob 1")  # who has nothing at work goes first
    until(lambda: "waiting" in asks("ann", "ann 2")["step"])
    asks("eve", "eve 1"), asks("eve", "survey", "survey")
    at_work("ann 1", "bob 1", "survey")
    finish(quiet_desk, "ann 1", made=5)
    until(lambda: asks("bob", "ann 1").get("made") == 5)  # whoever may read it; rights come before
    until(lambda: len(quiet_desk.made) == 4)
    assert "bob 1" in quiet_desk.made and "eve 1" not in quiet_desk.made
    for key in ("ann 2", "ann 3", "eve 1"):
        quiet_desk.tasks[key].asked -= 60  # nobody waits for the rest


def test_what_nobody_waits_for_stops(quiet_desk):
    quiet_desk.ask("left", ANN, {"what": "answer"}, lane="answer")
    until(lambda: "left" in quiet_desk.made)
    assert not quiet_desk.tasks["left"].is_left
    quiet_desk.tasks["left"].asked -= desk.ABSENT + 1
    until(lambda: "left" not in quiet_desk.tasks)
    quiet_desk.ask("slow", ANN, {"what": "answer"}, lane="answer", patience=4.0)
    assert quiet_desk.tasks["slow"].patience > 12
    quiet_desk.tasks["slow"].asked -= 20
    until(lambda: "slow" not in quiet_desk.tasks)


def test_a_failure_is_told_to_whoever_asked_and_made_anew_for_others(quiet_desk):
    quiet_desk.ask("key", ANN, {"what": "answer"}, lane="answer")
    until(lambda: "key" in quiet_desk.made)
    finish(quiet_desk, "key", state="failed", status=409)
    until(lambda: quiet_desk.ask("key", ANN, {}, lane="answer")["state"] == "failed")
    assert quiet_desk.ask("key", BOB, {}, lane="answer")["state"] == "working"
    quiet_desk.tasks["key"].asked -= 60


def test_a_job_that_cannot_begin_holds_no_lane(door, tmp_path):
    at = Desk(door, tmp_path / "gone")
    for key in "abc":
        at.ask(key, ANN, {"what": "survey"}, lane="survey")
        until(lambda key=key: at.ask(key, ANN, {}, lane="survey")["state"] == "failed")
    assert not any(task.working for task in at.tasks.values())


@pytest.mark.parametrize(("ends", "status"), [("late", 504), ("left", None), ("killed", 500)])
def test_a_process_ends_with_its_job(door, tmp_path, monkeypatch, ends, status):
    monkeypatch.setattr(desk, "work", dawdle if ends != "killed" else die)
    at = Desk(door, tmp_path)
    at.limit = 0.0 if ends == "late" else 300.0
    tokens = []
    monkeypatch.setattr(door, "open_for", lambda *who, of=door.open_for: keep(tokens, of(*who)))
    asked = time.monotonic() + (-60 if ends == "left" else 600)  # however busy the machine is
    task = desk.Task("key", {"what": "answer"}, "answer", MEMBER, asked)
    found = at._done(task)
    assert found is None if status is None else found["status"] == status
    headers = {"Authorization": f"Bearer {tokens[0]}"}
    given = requests.get(f"{door.address}/get-artifact", headers=headers, timeout=60).status_code
    assert given == 401
    assert not [*tmp_path.iterdir()]


def dawdle(told, scratch, job):
    time.sleep(600)


def die(told, scratch, job):
    os._exit(1)


def keep(tokens, token):
    tokens.append(token)
    return token


def test_answers_are_let_go_where_there_is_no_room(quiet_desk):
    quiet_desk.room = 5000
    for key in "abc":
        quiet_desk.ask(key, MEMBER, {}, lane="survey")
        until(lambda key=key: key in quiet_desk.made)
        finish(quiet_desk, key, held=b"x" * 600, texts={"text": b"x" * 600})
        until(lambda key=key: key in quiet_desk.answers)
        quiet_desk.ask("a", MEMBER, {}, lane="survey")
    assert [*quiet_desk.answers] == ["c", "a"]  # what was read last stays
