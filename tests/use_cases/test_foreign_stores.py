"""Stores that libraries made by themselves: commands work, and a question has one answer.

``MLEVAL_FOREIGN_TABLE=1`` writes the rows into the table of `examples/guides/foreign_runs.md`.
"""

import fcntl
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from itertools import product
from pathlib import Path
from unittest.mock import ANY

import foreign_stores
import mlflow
import numpy as np
import pytest
from command_line import as_json, every_next, mleval

import mlflow_mleval
from mlflow_mleval.cli import main
from mlflow_mleval.cli.mcp import answer
from mlflow_mleval.measures.metric_names import of_training
from mlflow_mleval.selection import Selection
from mlflow_mleval.server import answers
from mlflow_mleval.server.answers import form_of
from mlflow_mleval.server.page_selection import parsed
from mlflow_mleval.store.runs_table import read_store
from mlflow_mleval.store.survey import take_stock

GUIDE = Path(__file__).parents[2] / "examples" / "guides" / "foreign_runs.md"
#: The stores that are made in one process; the others take a framework, or long.
QUICK = {
    *("scikit_learn_grid_search", "logged_by_hand", "datasets_and_seeds", "percent_beside_share"),
    *("datasets_in_names", "results_with_gaps", "dataset_inputs", "own_import", "folds_in_names"),
}
#: Others that are made in one process, for they take no framework beside scikit-learn.
PLAIN = {
    *("scikit_learn_score", "scikit_learn_metrics", "scikit_learn_pipelines", "regressors"),
    *("scikit_learn_seeds", "tags_of_a_team", "losses_by_epoch"),
}
#: Those whose printed commands are run after each change.
SOME = {"datasets_and_seeds", "datasets_in_names"}
#: The stores that the guide shows.
SHOWN = 14
#: What a bare `mleval rank` says: what it stops for, who is first then, by what measures, on how
#: many data sets, and what decides; and of the first doubt a part.
SESSIONS = {
    "datasets_and_seeds": ("", "GaussianNB", ["score"], 3, None, ""),
    "percent_beside_share": ("svm on a", "rf", ["test_accuracy"], 3, None, ""),
    "datasets_in_names": ("", "GaussianNB", ["score"], 1, "none", "--read name-as="),
    "results_with_gaps": ("2 of 20 cells", None, ["score"], 5, None, ""),
    "optuna_studies": ("", "forest", ["val_auc"], 1, "none", "optimistic"),
    "boosters": ("", None, ["val_log_loss"], 1, "none", "valid-logloss, valid-binary_logloss"),
    "models_evaluate": ("", None, None, 1, "none", ""),
}
#: The stores that go through every door: of each kind one.
THROUGH_DOORS = {*SESSIONS, "logged_by_hand", "folds_in_names", "dataset_inputs", "genai_evaluate"}
#: Those whose data sets are known by inputs of the runs, which a table of MLflow does not hold.
BY_INPUTS = {"datasets_and_seeds", "dataset_inputs"}


def _cases(*names, quick=QUICK):
    cases = []
    for make, module in foreign_stores.STORES.items():
        if names and make.__name__ not in names:
            continue
        lacking = importlib.util.find_spec(module) is None
        marks = [pytest.mark.skipif(lacking, reason=f"{module} is not installed")]
        if make.__name__ not in quick:
            marks.append(pytest.mark.thorough)
        cases.append(pytest.param(make, id=make.__name__, marks=marks))
    return cases


@pytest.fixture(scope="module")
def stores(empty_store, tmp_path_factory):
    """The folder of a store by its name; each is made once, in a process of its own."""
    root = tmp_path_factory.getbasetemp()
    shared = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "foreign"
    shared.mkdir(exist_ok=True)

    def folder(name):
        names = next((sorted(group) for group in (QUICK, PLAIN) if name in group), [name])
        with open(shared / f"{names[0]}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (shared / names[-1] / "truth.json").exists():
                command = [sys.executable, foreign_stores.__file__, empty_store, shared, *names]
                done = subprocess.run(command, capture_output=True, text=True, timeout=500)
                assert done.returncode == 0, done.stderr[-2000:]
        return shared / name

    return folder


@pytest.fixture
def made(request, stores, unset):
    """The store, and what is true of it."""
    folder = stores(request.param.__name__)
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    yield request.param, json.loads((folder / "truth.json").read_text())
    mlflow.set_tracking_uri(None)


def pasted(command, *more):
    """What a line of the output does in a shell."""
    program, *args = shlex.split(command)
    assert program == "mleval"
    return mleval(*args, *more)


@pytest.mark.parametrize("made", _cases(quick=SOME), indirect=True)
def test_what_runs_prints_gives_the_right_answer_on_held_out_data(made):
    make, truth = made
    found = as_json("runs")
    commands = [way["command"] for way in found["commands"] if " rank " in way["command"]]
    # what the names of runs say takes somebody who knows it
    command = next((text for text in commands if "name-as" in text), commands[0])
    for way in found["commands"]:  # every command runs when it is pasted
        if way["command"] != command:
            pasted(way["command"])
    ranked = json.loads(pasted(command, "--output", "json").stdout)
    held = {data: truth["values"][data] for data in ranked["datasets"]}
    assert len(held) == len(truth["values"])
    measures = [*ranked["weights"][next(iter(held))]]
    metrics = [metric["metric"] for metric in found.get("metrics", ())]
    assert truth["measure"] in measures and not of_training(metrics).intersection(measures)
    methods = {row["method"] for row in ranked["ranking"]}
    if "--missing worst" in command:
        held = {d: dict.fromkeys(methods, min(v.values())) | v for d, v in held.items()}
    assert all(methods == {*values} for values in held.values())
    ranges = {data: np.ptp([*values.values()]) for data, values in held.items()}
    flows = {m: sum(values[m] / ranges[d] for d, values in held.items()) for m in methods}
    best = (max if truth["larger"] else min)(flows.values())
    assert flows[ranked["ranking"][0]["method"]] == pytest.approx(best)  # two may be level
    if [*foreign_stores.STORES].index(make) < SHOWN:
        _check_row(make, command, measures)
    said, failed = answer(main.commands, "survey", {})
    # what an assistant is proposed works
    assert not failed and every_next(json.loads(said), most=5), said


def _check_row(make, command, measures):
    """The row of the guide's table; it is written where that is asked for."""
    what = make.__doc__.split("\n")[0].rstrip(".")
    row = f"| {what} | `{command}` | {', '.join(sorted(measures))} |"
    text = GUIDE.read_text()
    if os.environ.get("MLEVAL_FOREIGN_TABLE") and row not in text:
        lines = [line for line in text.splitlines() if not line.startswith(f"| {what} |")]
        at = lines.index("<!-- end of the stores -->")
        text = "\n".join([*lines[:at], row, *lines[at:]]) + "\n"
        GUIDE.write_text(text)
    assert row in text.splitlines()


#: What differs between doors: what was typed, where the runs lie, and when.
OF_A_DOOR = ("provenance",)
#: What a table has not, by the rows of `study.runs`: its runs lie in no store.
OF_A_STORE = ("run_id", "experiment_id", "experiment", "start_time")
#: What a report computes beyond a ranking: stability and profiles, and what they rest on.
OF_A_REPORT = ("absent", "options", "profiles", "references", "stability")
#: What `mleval runs` reads of inputs, by the column of a table that says it.
COLUMNS = {"experiment_name": "experiment", "dataset": "data", "dataset_digest": "digest"}
COLUMNS |= {"dataset_shape": "shape"}


def _like(made, of_store=()):
    """What is expected of another door: but for sums of floats, the same."""
    runs = [{k: v for k, v in row.items() if k not in of_store} for row in made["study"]["runs"]]
    alike = _near({**made, "study": {**made["study"], "runs": runs}})
    return alike | dict.fromkeys(OF_A_DOOR, ANY)


def _near(held):
    if isinstance(held, dict):
        return {key: _near(value) for key, value in held.items()}
    if isinstance(held, list):
        return [_near(value) for value in held]
    return pytest.approx(held, rel=1e-9, abs=1e-12) if isinstance(held, float) else held


def _said(*args, command="rank"):
    """The answer as JSON, also where it stops: by the first of its commands, all of which work."""
    result = mleval(command, *args, "--output", "json", code=None)
    if result.exit_code == 0:
        return json.loads(result.stdout)
    lines = result.stderr.splitlines()
    commands = [line.strip() for line in lines if line.strip().startswith("mleval ")]
    assert result.exit_code == 1 and "--output json" in commands[0]
    for further in () if args else commands[1:]:
        pasted(further)
    why = [line for line in lines if line.strip() not in commands]
    return {"stopped": why, **json.loads(pasted(commands[0]).stdout)}


def _exported(ids):
    """The runs as a table, with what the inputs say of their data."""
    frame = mlflow.search_runs(ids)
    read = read_store(mlflow.MlflowClient(), Selection(experiment_ids=ids)).frame
    read = read.set_index("run_id").loc[frame["run_id"]]
    return frame.assign(**{name: read[of].to_numpy() for name, of in COLUMNS.items()})


@pytest.mark.parametrize(
    "made", _cases(*THROUGH_DOORS, quick={"percent_beside_share"}), indirect=True
)
def test_a_question_gets_one_answer_by_whatever_door(made, tmp_path):
    make, _ = made
    client = mlflow.MlflowClient()
    experiments = [e for e in client.search_experiments() if e.name != "Default"]
    ids = [e.experiment_id for e in experiments]
    runs = client.search_runs(ids, max_results=1000)
    bare = _said()
    stopped = bare.get("stopped", ())
    if make.__name__ in SESSIONS:
        _check_session(make.__name__, bare, " ".join(stopped))
    doors = {
        "by id": [part for i in ids for part in ("-n", i)],
        "by run": [part for run in runs for part in ("--run-id", run.info.run_id)],
    }
    for door, args in doors.items():
        assert _said(*args) == _like(bare), door
    _check_assistant(bare, stopped)
    reported = _said(command="report")
    by_answers = reported["answer"]["evidence"] == "answers"  # which a ranking does not read
    for key in () if by_answers else bare.keys() - {*OF_A_REPORT, "stopped", "provenance"}:
        told = reported[key]
        if key == "verdict":
            told = [sentence for sentence in told if sentence["claim"] != "survives"]
        assert told == bare[key], key
    if not stopped:
        _check_page(ids, reported)
    frame = _exported(ids)
    file = tmp_path / "runs.csv"
    frame.to_csv(file, index=False)
    of_file = _said(str(file))
    if make.__name__ == "genai_evaluate":  # a table holds no answers, and none are proposed
        assert bare["stopped"].pop() == "# who answers better, answer by answer"
    assert of_file == _like(bare, OF_A_STORE)
    if make.__name__ in BY_INPUTS:  # where nobody says what the data are nothing decides
        plain = tmp_path / "plain.csv"
        mlflow.search_runs(ids).to_csv(plain, index=False)
        in_file = _said(str(plain))
        assert in_file["decides"] == "none" and "--dataset-by" in in_file["doubts"][0]
    held, of_frame = (
        mlflow_mleval.compare(mlflow_mleval.load_study(results, **_proposed(results)))
        for results in (None, frame)
    )
    assert of_frame.report().to_dict() == _like(held.report().to_dict(), OF_A_STORE)


def _check_session(name, told, why):
    """One command gives a right answer, or says what settles it."""
    stops, first, measures, n, decides, doubt = SESSIONS[name]
    assert stops in why and bool(stops) == bool(why)
    assert len(told["datasets"]) == n and first in (None, told["ranking"][0]["method"])
    assert measures in (None, [m["measure"] for m in told["measures"]])
    assert decides in (None, told["decides"]) and doubt in " ".join(told["doubts"])


def _proposed(results):
    """The rules that the survey proposes, as arguments of Python."""
    return take_stock(Selection(results=results))[1].ways[0].selection.arguments()


def _check_assistant(bare, stopped):
    """It says what the command does in brief."""
    text, failed = answer(main.commands, "rank", {})
    assert failed == bool(stopped)
    if failed:
        return
    brief, told = json.loads(mleval("rank", "--output", "brief").stdout), json.loads(text)["answer"]
    assert told["order"] == [row["method"] for row in bare["ranking"]]
    assert told["n_doubts"] == brief["doubts"] == len(bare["doubts"])
    shared = (brief.keys() & told.keys()) - {"doubts", "command"}
    assert len(shared) > 4
    for key in shared:
        assert _unquoted(told[key]) == _unquoted(brief[key]), key


def _unquoted(held):
    """An assistant gets names of others in quotes."""
    return re.sub("[“”]", "", json.dumps(held, ensure_ascii=False))


def _check_page(ids, reported):
    """The page computes what the report does, whose words it uses."""
    chosen = parsed({"experiment-id": ids})
    study, survey = take_stock(Selection.of(chosen.choices))
    set_to, of_page, _ = form_of(chosen, study, survey)
    if of_page is None:  # it leaves it to its reader to choose candidates
        return
    job = {"given": dict(set_to.given), "held": b"", "address": ""}
    page, _ = answers.report_of(answers.compared(job, lambda **told: None))
    assert json.loads(page.render("json", 100)) == _like(reported)


def _factors(*rules):
    return {factor["what"]: factor for factor in as_json("runs", *rules)["factors"]}


@pytest.mark.parametrize("made", _cases("datasets_and_seeds"), indirect=True)
def test_three_data_sets_with_three_splits_each_are_no_nine(made):
    factors = _factors()
    assert factors["dataset"]["n"] == 3 and not factors["dataset"]["doubt"]
    assert "9 digests are splits" in factors["dataset"]["by"]
    assert factors["repeat"]["by"] == "different splits of the data"
    assert as_json("rank")["friedman"]["n_datasets"] == 3
    split = as_json("rank", "-n", "benchmark", "--method-by", "estimator", "--dataset-by", "digest")
    assert len(split["datasets"]) == 9  # a user's own rule settles it
    ruled = _factors("--method-by", "estimator", "--dataset-by", "digest")
    assert "by its shape there would be 3" in ruled["dataset"]["by"]


@pytest.mark.parametrize("made", _cases("percent_beside_share"), indirect=True)
def test_percent_beside_fraction_stops_with_the_runs_and_what_settles_it(made):
    _, truth = made
    stopped = mleval("rank", code=1).stderr
    said = "test_accuracy is a percentage in some runs and a share in others: svm on a"
    assert said in " ".join(stopped.split())
    (command,) = [line for line in stopped.splitlines() if line.startswith("mleval")]
    assert "--read percent=test_accuracy" in command
    told = json.loads(pasted(command, "--output", "json").stdout)
    (held,), ranked = told["answer"]["means"].values(), told["ranking"]
    means = {m: np.mean([of[m] for of in truth["values"].values()]) for m in held}
    assert held == pytest.approx(means)
    assert ranked[0]["method"] == max(means, key=means.get)
    assert sorted(row["rank"] for row in ranked) == [row["rank"] for row in ranked]


@pytest.mark.parametrize("made", _cases("datasets_in_names"), indirect=True)
def test_a_data_set_in_names_is_proposed_and_never_taken(made):
    _, truth = made
    told = as_json("rank")
    assert told["decides"] == "none" and "--read name-as=" in told["doubts"][0]
    assert told["separated"] == [] and "seed only" not in str(told)
    found = as_json("runs")["commands"]
    (command,) = [way["command"] for way in found if "name-as" in way["command"]]
    ranked = json.loads(pasted(command, "--output", "json").stdout)
    assert {*ranked["datasets"]} == {*truth["values"]}
    assert {n for held in ranked["repeats"].values() for n in held.values()} == {3}


@pytest.mark.parametrize("made", _cases("folds_in_names"), indirect=True)
def test_folds_that_decide_are_what_decides_and_their_metrics_raise_no_doubt(made):
    told = as_json("rank")
    assert told["answer"]["evidence"] == told["decides"] == "folds" and told["doubts"] == []
    assert told["separated"] == [["rf", "svm"]] and told["cliques"] == [["rf"], ["svm"]]
    assert told["question"]["verdict"] == "YES"
    assert "folds, by test_auc, rf is separated from svm" in told["decision"]


@pytest.mark.parametrize("made", _cases("own_import"), indirect=True)
def test_what_nobody_finds_is_no_matter_of_the_names_of_runs(made):
    for wrong in ("--exclude=dataset=flags", "--dataset=flags", "--measure=nonsense"):
        assert "name-as" not in mleval("rank", "-n", "imported", wrong, code=1).stderr


@pytest.mark.parametrize("made", _cases("genai_evaluate"), indirect=True)
def test_a_report_of_answers_is_the_same_without_a_name(made):
    bare, named = (
        mleval("report", *args, "-o", "json", code=None) for args in ([], ["-n", "genai"])
    )
    assert bare.exit_code == named.exit_code == 1  # names alone say which way is better
    first, again = (said.stderr.splitlines() for said in (bare, named))
    assert "Confirm it" in first[0] and first[0] == again[0] and first[1::2] == again[1::2]


@pytest.mark.parametrize("policy", ["worst", "drop-datasets", "drop-methods"])
@pytest.mark.parametrize("made", _cases("results_with_gaps"), indirect=True)
def test_an_answer_over_gaps_counts_the_data_sets_that_it_is_over(made, policy):
    stopped = mleval("rank", code=1).stderr
    assert "2 of 20 cells have no result" in stopped and "--missing worst" in stopped
    rules = ["-n", "gaps", "--method-by", "estimator", "--missing", policy]
    ranked, compared, report = (as_json(c, *rules) for c in ("rank", "compare", "report"))
    assert len(ranked["datasets"]) == {"drop-datasets": 3}.get(policy, 5)
    for told in (compared, report):
        for key in ("question", "answer", "separated", "decision"):
            assert told[key] == ranked[key], key
    separated = {frozenset(pair) for pair in ranked["separated"]}
    for pair in compared["pairs"]:
        if pair["low"] is not None and pair["low"] <= 0 <= pair["high"]:
            assert frozenset((pair["method_a"], pair["method_b"])) not in separated


@pytest.mark.parametrize("made", _cases("models_evaluate"), indirect=True)
def test_counts_of_held_out_data_and_directions_of_libraries_raise_no_doubt(made):
    told = json.dumps(as_json("rank"))
    for wrong in ("how the training went", "declared by the user", "conventions for empty sets"):
        assert wrong not in told


def test_a_rule_without_an_experiment_takes_the_one_that_can_be_compared(client, log):
    client.create_run(client.create_experiment("tried"))
    for net, data in product("xy", "ab"):
        of = {"experiment": "good", "params": {"net": net, "set": data}}
        log(f"{net}{data}", {"test_accuracy": 0.5 + (net == "x") / 10}, **of)
    rules = {"method_by": "param:net", "dataset_by": "param:set"}
    asked = ["--method-by", "param:net", "--dataset-by", "param:set"]
    told, bare = _said("-n", "good", *asked), _said(*asked)
    del told["provenance"], bare["provenance"]  # the command, and when it ran
    assert bare == told and told["separated"] == []
    assert _said(*asked, "--filter", "params.net != 'z'")["answer"] == told["answer"]
    study = mlflow_mleval.load_study(**rules)
    assert study.methods == ["x", "y"] and study.datasets == ["a", "b"]
    text, failed = answer(main.commands, "rank", {"method_by": ["param:net"], **rules})
    assert not failed and json.loads(text)["answer"]["order"] == ["x", "y"]
    of_page, survey = take_stock(Selection(**rules))
    assert of_page.values.equals(study.values)
    assert {"tried", "good"} < {*survey.experiments.experiment}
    assert "no experiment" not in mleval("compare", "--over repeats", *asked, code=None).output


def test_a_data_set_that_is_not_there_is_answered_with_those_that_are(log):
    for model, data in product(("tiny", "large"), ("churn", "spam")):
        of = {"experiment": "tagged", "tags": {"dataset": data}, "params": {"model": model}}
        log(None, {"test_auc": 0.5 + len(model) / 100}, **of)
    stopped = mleval("rank", "-n", "tagged", "--dataset", "nonsense", code=1).stderr
    assert "it has 'churn', 'spam'" in stopped
