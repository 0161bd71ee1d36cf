"""Stores that libraries made by themselves: what `mleval runs` finds, that every command it prints
works, and that a question gets one answer by whatever door.

``MLEVAL_FOREIGN_TABLE=1`` writes the rows into the table of `examples/guides/foreign_runs.md`.
"""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import foreign_stores
import mlflow
import numpy as np
import pytest
from command_line import as_json, every_next, mleval

import mlflow_mleval
from mlflow_mleval.assembling import compared
from mlflow_mleval.cli import main
from mlflow_mleval.cli.mcp import answer
from mlflow_mleval.measures.metric_names import of_training
from mlflow_mleval.report.content.study_report import document
from mlflow_mleval.selection import Selection
from mlflow_mleval.server.answers import form_of
from mlflow_mleval.server.page_selection import parsed
from mlflow_mleval.store.survey import take_stock

GUIDE = Path(__file__).parents[2] / "examples" / "guides" / "foreign_runs.md"
#: The stores that are made after each change, in one process; the others take a framework, or long.
QUICK = {
    *("scikit_learn_grid_search", "logged_by_hand", "datasets_and_seeds", "percent_beside_share"),
    *("datasets_in_names", "results_with_gaps", "dataset_inputs", "candidates_of_a_search"),
    *("own_import", "shared_experiments", "folds_in_names"),
}
#: The stores that the guide shows.
SHOWN = 14
#: Stores whose data sets are known by inputs of the runs, which a table of MLflow does not hold.
BY_INPUTS = {
    "datasets_and_seeds",
    "dataset_inputs",
    "models_evaluate_datasets",
    "scikit_learn_seeds",
}


def _cases(*names):
    cases = []
    for make, module in foreign_stores.STORES.items():
        if names and make.__name__ not in names:
            continue
        lacking = importlib.util.find_spec(module) is None
        marks = [pytest.mark.skipif(lacking, reason=f"{module} is not installed")]
        if make.__name__ not in QUICK:
            marks.append(pytest.mark.thorough)
        cases.append(pytest.param(make, id=make.__name__, marks=marks))
    return cases


def _make(folder, names):
    """Make stores in a process of its own, for autologging stays on."""
    command = [sys.executable, foreign_stores.__file__, str(folder), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return _make(tmp_path_factory.mktemp("stores"), sorted(QUICK))


@pytest.fixture
def made(request, tmp_path, unset):
    """The store, and what is true of it."""
    make = request.param
    name = make.__name__
    quick = name in QUICK
    folder = request.getfixturevalue("quick") if quick else _make(tmp_path, [name])
    mlflow.set_tracking_uri(f"sqlite:///{folder}/{name}/mlflow.db")
    yield make, json.loads((folder / name / "truth.json").read_text())
    mlflow.set_tracking_uri(None)


def pasted(command, *more):
    """What a line of the output does in a shell."""
    program, *args = shlex.split(command)
    assert program == "mleval"
    return mleval(*args, *more)


@pytest.mark.parametrize("made", _cases(), indirect=True)
def test_what_runs_prints_gives_the_right_answer_on_held_out_data(made):
    make, truth = made
    found = json.loads(mleval("runs", "--output", "json").stdout)
    commands = [way["command"] for way in found["commands"] if " rank " in way["command"]]
    for way in found["commands"]:  # every command runs when it is pasted
        pasted(way["command"])
    ranked = json.loads(pasted(commands[0], "--output", "json").stdout)
    held = {data: truth["values"][data] for data in ranked["datasets"]}
    assert len(held) == len(truth["values"]) or "--missing drop-datasets" in commands[0]
    measures = [*ranked["weights"][next(iter(held))]]
    metrics = [metric["metric"] for metric in found.get("metrics", ())]
    assert truth["measure"] in measures and not of_training(metrics).intersection(measures)
    methods = {row["method"] for row in ranked["ranking"]}
    assert all(methods == {*values} for values in held.values())
    ranges = {data: np.ptp([*values.values()]) for data, values in held.items()}
    flows = {m: sum(values[m] / ranges[d] for d, values in held.items()) for m in methods}
    best = (max if truth["larger"] else min)(flows.values())
    assert flows[ranked["ranking"][0]["method"]] == pytest.approx(best)  # two may be level
    if [*foreign_stores.STORES].index(make) < SHOWN:
        _check_row(make, commands[0], measures)
    said, failed = answer(main.commands, "survey", {})
    assert not failed and every_next(json.loads(said)), said  # what an assistant is proposed works


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


def _said(*args):
    """The answer as JSON without what names the door, or why there is none, without its commands,
    each of which works.
    """
    result = mleval("rank", *args, "--output", "json", code=None)
    if result.exit_code == 0:
        made = json.loads(result.stdout)
        del made["provenance"]
        return made
    lines = result.stderr.splitlines()
    commands = [line.strip() for line in lines if line.strip().startswith("mleval ")]
    assert result.exit_code == 1 and all(pasted(command) for command in commands)
    return [line for line in lines if line.strip() not in commands]


def _verdict(made):
    """What a document says who is better, and by what."""
    keys = ("answer", "question", "decides", "decision", "separated", "cliques", "doubts")
    return {key: made[key] for key in keys}


def _core(made):
    """The answer without the names of data sets, which differ where a file has none."""
    if isinstance(made, list):
        return made
    keys = ("method", "rank", "phi", "low", "high")
    ranking = [{key: row[key] for key in keys} for row in made["ranking"]]
    return [{k: pytest.approx(v) if k == "phi" else v for k, v in row.items()} for row in ranking]


@pytest.mark.parametrize("made", _cases(), indirect=True)
def test_a_question_gets_one_answer_by_whatever_door(made, tmp_path):
    make, _ = made
    client = mlflow.MlflowClient()
    experiments = [e for e in client.search_experiments() if e.name != "Default"]
    ids = [e.experiment_id for e in experiments]
    runs = client.search_runs(ids, max_results=1000)
    bare = _said()
    doors = {
        "by name": [part for e in experiments for part in ("-n", e.name)],
        "by id": [part for i in ids for part in ("-n", i)],
        "by run": [part for run in runs for part in ("--run-id", run.info.run_id)],
    }
    for door, args in doors.items():
        assert _said(*args) == bare, door
    text, failed = answer(main.commands, "rank", {})
    assert failed == isinstance(bare, list)
    assert failed or json.loads(text)["answer"]["order"] == [r["method"] for r in bare["ranking"]]
    if not failed:
        said = " ".join(sentence["text"] for sentence in bare["answer"]["sentences"])
        assert re.sub("[“”]", "", json.loads(text)["answer"]["decision"]) == said
        for command in ("compare", "report"):
            assert _verdict(as_json(command)) == _verdict(bare), command
    chosen = parsed({"experiment-id": ids})
    study, survey = take_stock(Selection.of(chosen.choices))
    set_to, of_page, _ = form_of(chosen, study, survey)
    if of_page is not None and not failed:  # it leaves it to its reader to choose candidates
        page = document(compared(set_to.choices), {}, "report").render("json", 100)
        of_page, told = _verdict(json.loads(page)), _verdict(bare)
        for worded in ("decision", "doubts"):  # whose arguments each door words as its own
            del of_page[worded], told[worded]
        assert of_page == told
    frame = mlflow.search_runs(ids)
    file = tmp_path / "runs.csv"
    frame.to_csv(file, index=False)
    in_file = _said(str(file))
    if make.__name__ in BY_INPUTS:
        assert in_file["decides"] == "none" and "--dataset-by" in in_file["doubts"][0]
        return
    of_rows = {"experiment_names", "experiment_ids"}
    if make.__name__ not in ("shared_experiments", "optuna_studies"):  # by ids, for want of names
        assert _core(bare) == _core(in_file)
    if survey.rankings:
        rules = survey.rankings[0].selection.arguments().items()
        read = {name: rule for name, rule in rules if name not in of_rows}
        held = mlflow_mleval.load_study(frame, **read)
        best = mlflow_mleval.compare(held).order[0]
        titles = {f"experiment {e.experiment_id}": e.name for e in experiments}
        best = titles.get(best, best)  # a table of runs has no names of experiments
        assert best == compared(survey.rankings[0].selection.arguments()).order[0] or failed


def _ranked(*args):
    return as_json("rank", *args)


def _factors():
    found = json.loads(mleval("runs", "--output", "json").stdout)
    return {factor["what"]: factor for factor in found["factors"]}


@pytest.mark.parametrize("made", _cases("datasets_and_seeds"), indirect=True)
def test_three_data_sets_with_three_splits_each_are_no_nine(made):
    factors = _factors()
    assert factors["dataset"]["n"] == 3 and "9 digests are splits" in factors["dataset"]["by"]
    assert factors["repeat"]["by"] == "different splits of the data"
    assert _ranked()["friedman"]["n_datasets"] == 3
    split = _ranked("-n", "benchmark", "--method-by", "estimator", "--dataset-by", "digest")
    assert len(split["datasets"]) == 9  # a user's own rule settles it


@pytest.mark.parametrize("made", _cases("percent_beside_share"), indirect=True)
def test_percent_beside_fraction_stops_with_the_runs_and_what_settles_it(made):
    stopped = " ".join(mleval("rank", code=1).stderr.split())
    assert "percentage in some runs and a share in others: svm on a" in stopped
    assert "--read percent=test_accuracy" in stopped


@pytest.mark.parametrize("made", _cases("datasets_in_names"), indirect=True)
def test_a_data_set_in_names_is_proposed_and_never_taken(made):
    stopped = mleval("rank", code=1).stderr
    (command,) = [line.strip() for line in stopped.splitlines() if line.startswith("mleval")]
    ranked = json.loads(pasted(command, "--output", "json").stdout)
    assert {*ranked["datasets"]} == {"imdb", "yelp"} and len(ranked["ranking"]) == 3
    assert {len(held) for held in ranked["repeats"].values()} == {3}
    assert {n for held in ranked["repeats"].values() for n in held.values()} == {4}


@pytest.mark.parametrize("made", _cases("folds_in_names"), indirect=True)
def test_folds_that_decide_are_what_decides_and_their_metrics_raise_no_doubt(made):
    told = _ranked()
    assert told["answer"]["evidence"] == told["decides"] == "folds" and told["doubts"] == []
    assert told["separated"] == [["rf", "svm"]] and told["cliques"] == [["rf"], ["svm"]]
    assert told["question"]["verdicts"][0]["verdict"] == "YES"
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


@pytest.mark.parametrize("made", _cases("results_with_gaps"), indirect=True)
def test_an_answer_over_gaps_counts_the_data_sets_that_it_is_over(made):
    found = json.loads(mleval("runs", "--output", "json").stdout)
    ranked = json.loads(pasted(found["commands"][0]["command"], "--output", "json").stdout)
    assert len(ranked["datasets"]) == 5 == ranked["friedman"]["n_datasets"]


@pytest.mark.parametrize("made", _cases("optuna_studies"), indirect=True)
def test_numbered_trials_of_a_study_each_are_one_method_a_study(made):
    assert _factors()["method"]["n"] == 3
    assert any("optimistic" in doubt for doubt in _ranked()["doubts"])


@pytest.mark.parametrize("made", _cases("boosters"), indirect=True)
def test_log_losses_of_two_libraries_are_one_measure(made):
    ranked = _ranked()
    assert [*ranked["weights"]["boosters"]] == ["val_log_loss"]
    assert any("valid-logloss, valid-binary_logloss" in doubt for doubt in ranked["doubts"])


@pytest.mark.parametrize("made", _cases("models_evaluate"), indirect=True)
def test_counts_of_held_out_data_and_directions_of_libraries_raise_no_doubt(made):
    told = json.dumps(_ranked())
    for wrong in ("how the training went", "declared by the user", "conventions for empty sets"):
        assert wrong not in told


def test_metrics_by_hand_wait_for_their_directions_to_be_confirmed(client):
    experiment = client.create_experiment("by hand")
    for model, value in (("small", 0.8), ("large", 0.9)):
        run = client.create_run(experiment)
        client.log_param(run.info.run_id, "model", model)
        client.log_metric(run.info.run_id, "val_acc", value)
        client.log_metric(run.info.run_id, "latency_s", value)
        client.set_terminated(run.info.run_id)
    stopped = mleval("rank", code=1).stderr
    command = "mleval rank -n 'by hand' --method-by param:model --directions proposed"
    assert "proposed by their names" in stopped and command in stopped.splitlines()
    ranked = json.loads(mleval(*shlex.split(command)[1:], "--output", "json").stdout)
    assert [*ranked["weights"]["by hand"]] == ["val_acc", "latency_s"]
    assert any("larger values of val_acc are better" in doubt for doubt in ranked["doubts"])


def test_a_rule_without_an_experiment_takes_the_one_that_can_be_compared(client):
    client.create_run(client.create_experiment("tried"))
    experiment = client.create_experiment("good")
    for net in "xy":
        for data in "ab":
            run = client.create_run(experiment, run_name=f"{net}{data}").info.run_id
            client.log_param(run, "net", net)
            client.log_param(run, "set", data)
            client.log_metric(run, "test_accuracy", 0.5 + (net == "x") / 10)
            client.set_terminated(run)
    rules = {"method_by": "param:net", "dataset_by": "param:set"}
    asked = ["--method-by", "param:net", "--dataset-by", "param:set"]
    told = _said("-n", "good", *asked)
    assert _said(*asked) == told and told["separated"] == []
    assert _said(*asked, "--filter", "params.net != 'z'")["answer"] == told["answer"]
    study = mlflow_mleval.load_study(**rules)
    assert study.methods == ["x", "y"] and study.datasets == ["a", "b"]
    text, failed = answer(main.commands, "rank", {"method_by": ["param:net"], **rules})
    assert not failed and json.loads(text)["answer"]["order"] == ["x", "y"]
    of_page, survey = take_stock(Selection(**rules))
    assert of_page.values.equals(study.values) and {"tried", "good"} < {
        *survey.experiments.experiment
    }
    assert (
        mleval("compare", "--over", "repeats", *asked, code=None).output.count("no experiment") == 0
    )


def test_a_data_set_that_is_not_there_is_answered_with_those_that_are(client):
    experiment = client.create_experiment("tagged")
    for model in ("small", "large"):
        for data in ("churn", "spam"):
            run = client.create_run(experiment, tags={"dataset": data}).info.run_id
            client.log_param(run, "model", model)
            client.log_metric(run, "test_auc", 0.5 + len(model) / 100)
            client.set_terminated(run)
    stopped = mleval("rank", "-n", "tagged", "--dataset", "nonsense", code=1).stderr
    assert "it has 'churn', 'spam'" in stopped
    ruled = ["--method-by", "param:model", "--dataset", "nonsense"]
    stopped = mleval("rank", "-n", "tagged", *ruled, code=1).stderr
    assert "nothing but the experiment names the datasets" in stopped
    assert "--dataset-by tag:dataset would find churn, spam" in stopped
