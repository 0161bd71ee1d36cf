"""Stores that others filled: what `mleval runs` finds out in them, and that its commands work."""

import itertools
import json
import shlex
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import plain_store
import pytest
from command_line import as_json, mleval
from mlflow import MlflowClient

from mlflow_mleval.errors import CandidatesError, IncomparableRunsError, MeasureError, NoRunsError
from mlflow_mleval.store.importing import import_results
from mlflow_mleval.store.query import load_study

FORMATS = ("table", "json", "csv", "md", "latex", "html")
FOUR = ("-n", "churn", "-n", "fraud", "-n", "spam", "-n", "wine")


def found(*args):
    return as_json("runs", *args)


def candidates(data, role):
    """What may tell methods, data sets, repeats or folds."""
    return [each for each in data["candidates"] if each["role"] == role]


def chosen(data):
    return [(each["role"], each["rule"]) for each in data["candidates"] if each["chosen"]]


def commands_in(text):
    """The commands that a message gives, each on a line of its own."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line.startswith("mleval ")]


def said(*args):
    """The text without its lines' ends."""
    return " ".join(mleval("runs", *args).stdout.split())


def copied(command, *more, code=0):
    """What a line of the output does in a shell."""
    program, *args = shlex.split(command, comments=True)
    assert program == "mleval"
    return mleval(*args, *more, code=code)


def as_copied(command):
    return json.loads(copied(command, "--output", "json").stdout)


@pytest.fixture
def log(log):
    def made(experiment, metrics, params=(), tags=(), status="FINISHED", name=None):
        more = {"params": params, "tags": tags, "status": status or "RUNNING"}
        return log(name, metrics, experiment=experiment, **more)

    return made


def test_without_a_selection_it_tells_the_experiments_and_what_to_type(plain):
    data = found()
    given = {e["experiment"]: (e["runs"], e["finished"]) for e in data["experiments"] if e["runs"]}
    assert given == {"churn": (80, 77), "fraud": (79, 76), "spam": (80, 77), "wine": (61, 58)}
    # the four have measures and methods in common, and their data apart: they belong together
    way = data["commands"][0]
    assert {*FOUR} < {*shlex.split(way["command"])} and "churn, fraud" not in way["what"]
    assert all("wine" in mleval("runs", "--output", form).stdout for form in ("table", "html"))
    # and what it finds is taken where nobody says otherwise
    with_rules, unasked = as_copied(way["command"]), as_json("rank")
    assert unasked["ranking"] == with_rules["ranking"]
    assert unasked["provenance"]["taken_as"] == way["command"]


def test_experiments_that_do_not_belong_together_have_a_command_each(log):
    for data, model in itertools.product(("wine", "digits"), ("svm", "rf")):
        log(data, {"test_auc": 0.5 + len(model) / 10}, {"model": model})
    for model in ("bert", "gpt"):
        log("unrelated", {"val_acc": 0.5, "latency_s": 1}, {"model": model})
    commands = [way["command"] for way in found()["commands"]]
    assert commands == [
        "mleval rank -n unrelated --method-by param:model --directions proposed",
        "mleval rank -n digits -n wine --method-by param:model",
    ]
    ranked = [as_copied(line) for line in commands]
    assert [len(r["ranking"]) for r in ranked] == [2, 2] and [*ranked[1]["datasets"]]
    assert {*commands} <= {*commands_in(mleval("rank", code=1).stderr)}
    alone = mleval("rank", "-n", "wine").stdout
    assert "svm" in alone and "rf" in alone


def test_made_up_names_are_no_methods_but_the_one_param_that_differs_names_them(log):
    for i in range(4):
        params = {"C": str(i), "model": "logreg", "seed": str(i % 2)}
        log("sweep", {"test_auc": 0.5 + i / 10}, params, name=f"vaunted-kite-{i}")
        more = {"penalty": str(-i)}
        log("search", {"test_auc": 0.5 + i / 10}, params | more, name=f"vaunted-kite-{i}")
    ranked = as_json("rank", "-n", "sweep")["ranking"]
    assert [row["method"] for row in ranked] == ["C=3", "C=2", "C=1", "C=0"]
    stopped = mleval("rank", "-n", "search", code=1).stderr
    assert "Nothing names the methods" in stopped


def test_the_side_that_a_name_suggests_comes_first_and_no_cost_is_asked_for(log):
    every = {"a": ("tone_loss",), "b": ("cost_usd", "tone_loss"), "c": ("cost_usd",)}
    for i, (model, metrics) in enumerate(every.items()):
        log("half", dict.fromkeys(metrics, 0.1 * i), {"model": model})
    ways = [way["what"] for way in found("-n", "half")["commands"]]
    assert ways[0] == "if smaller values of tone_loss are better"
    assert not any("cost_usd" in way for way in ways)
    stopped = mleval("report", "-n", "half", code=1).stderr
    assert "Nobody has said whether smaller or larger values are better." in stopped


@pytest.mark.parametrize(("name", "values"), [("split", "012"), ("cv_fold", "123")])
def test_runs_on_numbered_splits_are_repeats_and_a_kind_of_split_is_a_setting(log, name, values):
    for model, auc in (("gbm", 0.94), ("forest", 0.93)):
        for k in values:
            params = {"model": model, "dataset": "churn", name: k}
            log("churn", {"test_auc": auc + int(k) / 100, "log_loss": 0.1}, params)
        for kind in ("random", "scaffold"):
            log("x", {"test_auc": 0.9}, {"model": model, name: kind})
    (rule,) = candidates(found("-n", "churn"), "repeats")
    assert (rule["rule"], rule["chosen"]) == (f"param:{name}", True)
    ranked = as_json("rank", "-n", "churn")
    assert ranked["repeats"] == {"churn": {"gbm": 3, "forest": 3}}
    assert not candidates(found("-n", "x"), "repeats")


def test_pairs_that_were_never_run_are_gaps_and_failures_the_worst(log):
    for data, model in itertools.product("def", "abc"):
        if (data, model) != ("f", "c"):
            log("x", {"f1": 0.7}, {"model": model, "dataset": data})
    rules = ("-n", "x", "--method-by", "param:model", "--dataset-by", "param:dataset")
    stopped = mleval("rank", *rules, code=1).stderr
    assert "never run" in stopped and "--missing worst" not in stopped
    lines = commands_in(stopped)
    assert any("--missing drop-datasets" in line for line in lines)
    assert any("--method a --method b" in line for line in lines)
    assert all(copied(line) for line in lines)
    log("x", {}, {"model": "c", "dataset": "f"}, status="FAILED")
    worst, *_ = commands_in(mleval("rank", *rules, code=1).stderr)
    assert worst.endswith("--missing worst") and copied(worst)


def test_a_store_of_plain_runs_is_told_with_commands_that_rank_it(plain):
    data = found(*FOUR)
    metrics = {m["metric"]: (m["runs"], m["direction"]) for m in data["metrics"]}
    expected = {"test_auc": (138, "max"), "val_auc": (138, "max"), "val_loss": (126, "min")}
    assert data["problem"] is None and metrics == expected
    variables = {v["name"]: v["values"] for v in data["variables"]}
    assert variables == {"model": 7, "seed": 5, "max_depth": 8, "lr": 4}
    rules = {"method": "param:model", "dataset": "experiment", "repeats": "param:seed"}
    assert dict(chosen(data)) == rules | {"measure": "test_auc"}
    way, each = data["commands"]
    assert each["what"] == "if each experiment is of its own data"
    # candidates are not chosen by what is compared where validation data have it, too
    assert way["command"].endswith("--read children=best:val_auc --read duplicates=best:val_auc")
    ranked = as_copied(way["command"])
    assert ranked["ranking"][0]["method"] == "xgb" and len(ranked["ranking"]) == 8
    assert [*ranked["weights"]["wine"]] == ["test_auc"]
    assert "135 child runs are trials of searches over lr, max_depth" in said(*FOUR)
    # whoever prints it and copies a line gets the same
    assert way["command"] in mleval("runs", *FOUR).stdout.splitlines()


def test_a_declared_metric_that_some_cells_lack_stops_as_one_that_is_asked_for(plain):
    declared = ["--method-by param:model --read duplicates=mean --max test_auc --min val_loss"]
    asked = mleval("rank", *FOUR, *declared, "-m", "test_auc", "-m", "val_loss", code=1).stderr
    expected = asked.replace(" -m test_auc -m val_loss", "")
    assert mleval("rank", *FOUR, *declared, code=1).stderr == expected
    cells = "nb on churn, nb on fraud, nb on spam; without a value of val_loss"
    assert f"3 of 28 cells have no result ({cells})" in asked
    fewer, _, pair = commands_in(asked)
    assert fewer.endswith("--missing drop-methods") and "Leave out nb:" in asked
    assert pair.endswith("--missing drop-datasets") and "--missing worst" not in asked
    assert "nb" not in [row["method"] for row in as_copied(fewer)["ranking"]]
    way, _ = found(*FOUR, *declared)["commands"]
    text = " ".join(copied(way["command"], "--output", "md").stdout.split())
    assert "--missing drop-methods" in way["command"] and "conventions" not in text
    for many in ("135 child runs, such as", "15 runs, such as", "11 runs"):
        assert f"Left out: {many}" in text


def test_steps_are_told_as_what_may_be_folds_and_not_taken(log, client):
    for model in "ab":
        run_id = log("stepped", {}, {"model": model})
        for step in range(5):
            client.log_metric(run_id, "f1", 0.5 + 0.01 * step * (model == "a"), step=step)
    data = found("-n", "stepped")
    (steps,) = candidates(data, "folds")
    assert (steps["rule"], steps["chosen"]) == ("steps", False)
    assert "2 runs logged metrics by step, the last is 4: right if" in steps["reason"]
    (way,) = data["commands"]
    assert "folds-by" not in way["command"]
    by_steps = ["--method-by", "param:model", "--read", "folds-by=steps"]
    assert found("-n", "stepped", *by_steps)["folds"] == 5


def test_values_of_the_best_epoch_count_where_that_is_asked_for(log, client):
    losses = {"a": [0.9, 0.25, 0.75], "b": [0.75, 0.625, 0.5]}
    for model, by_epoch in losses.items():
        run_id = log("epochs", {"best_epoch": 1}, {"model": model})
        for epoch, loss in enumerate(by_epoch):
            client.log_metric(run_id, "val_loss", loss, step=epoch)
            client.log_metric(run_id, "val_accuracy", 1 - loss, step=epoch)
            client.log_metric(run_id, "validation_loss", loss)  # as Keras does, without a step
    how = {"experiment_names": ["epochs"], "method_by": "param:model"}
    both = ["val_loss", "val_accuracy"]
    last = {"val_loss": [0.75, 0.5], "val_accuracy": [0.25, 0.5]}
    assert load_study(**how).values.to_dict("list") == last
    study = load_study(**how, measures=both, step="best:val_loss")
    best = {"val_loss": [0.25, 0.5], "val_accuracy": [0.75, 0.5]}
    assert study.values.to_dict("list") == best and study.source["step"] == "best:val_loss"
    assert study.runs["selected_among"].tolist() == [3, 3]
    (doubt,) = [note for note in study.notes if "chosen on the validation data" in note]
    assert "a on epochs (of 3)" in doubt
    assert "val_loss, val_accuracy are of the same data, and optimistic" in doubt
    steps = {each["rule"]: each["chosen"] for each in candidates(found(), "step")}
    assert steps == {"last": True, "best:val_loss": False}
    # nobody asks for what was chosen by, and a name that is not there leads to one that is
    assert load_study(**how, step="best:val_loss").measures == ["val_accuracy"]
    with pytest.raises(MeasureError, match="several steps of 'val_los'.*Did you mean 'val_loss'"):
        load_study(**how, step="best:val_los")


def test_a_wrong_rule_names_what_there_is(plain):
    text = mleval("runs", "-n", "wine", "--method-by", "param:modle").stdout
    in_line = " ".join(text.split())
    assert "no param:modle, which was to name the method; there is " in in_line
    assert "Did you mean 'model'?" in in_line


def test_what_mleval_logged_ends_with_the_command_that_was_selected(db):
    cells = [(d, m, i * j) for i, d in enumerate("defgh") for j, m in enumerate("abc")]
    table = pd.DataFrame(cells, columns=["dataset", "method", "f1"]).drop(index=3)
    import_results(table, experiment_name="my study")
    data = found("-n", "my study", "--dataset", "d", "--dataset", "e")
    assert data["methods"] == ["a", "b", "c"] and "candidates" not in data
    (way,) = data["commands"]
    expected = "mleval rank -n 'my study' --dataset d --dataset e --missing drop-methods"
    assert way["command"] == expected and copied(expected)
    assert found()["methods"] == ["a", "b", "c"]  # the only experiment with runs needs no name


def test_empty_failed_and_absent(client, log):
    text = said()
    assert "holds no runs" in text and "mleval import" in text and "mleval demo" in text
    log("broken", {}, status="FAILED")
    log("broken", {}, status=None)
    log("other", {"f1": 0.5}, name="a")
    text = said("-n", "broken")
    assert "No run has finished: 1 FAILED, 1 RUNNING." in text
    assert "`mlflow server` shows why" in text
    text = mleval("runs", "-n", "brokn", code=1).stderr
    assert "there is no experiment 'brokn'. Did you mean 'broken'?" in text
    assert "`mleval runs` says what they hold" in text
    assert "There is one method only, a, and nothing to compare it with." in said("-n", "other")
    assert "No run fits the filter" in said("-n", "other", "--filter", "params.x = '1'")
    assert "No run started since 2999-01-01" in said("-n", "other", "--since", "2999-01-01")
    assert "there is no run 0123" in mleval("runs", "--run-id", "0123", code=1).stderr


def test_hostile_names_stay_text(log):
    for model in ("<img src=x>", "a; rm -rf '$HOME'"):
        log("x`id`", {"f1": 0.5}, {"model": model}, {"note": "\x1b[31m" + model})
    data = found("-n", "x`id`")
    assert shlex.split(data["commands"][0]["command"])[3] == "x`id`"
    copied(data["commands"][0]["command"])
    pages = {format: mleval("runs", "-n", "x`id`", "--output", format).stdout for format in FORMATS}
    assert all("rm -rf" in page for page in pages.values())
    assert "<img" not in pages["html"] and "\x1b" not in pages["table"]
    assert '<details class="section next" id="next" open>' in pages["html"]


def test_a_file_of_runs_is_told_and_ranked_as_a_store_is(tmp_path):
    path = tmp_path / "export.csv"
    rows = [
        f"{m}-{d}-{s},finished,{m},{d},{s},{len(m) / 10 + s / 100 + ord(d) / 1000}"
        for m, d, s in itertools.product(("svm", "bert"), "abc", range(3))
    ]
    path.write_text("\n".join(["Name,State,model,data,seed,val_auc", *rows]))
    (way,) = found(str(path))["commands"]
    assert way["command"].endswith("export.csv --method-by param:model --dataset-by param:data")
    copy, bare = as_copied(way["command"]), as_json("rank", str(path))
    assert copy["ranking"] == bare["ranking"] and [*bare["datasets"]] == [*"abc"]
    assert bare["provenance"]["taken_as"] == way["command"]
    text = said(str(path))
    assert all(line in text for line in ("2, by param:model", "3, by param:data", "3, by param:s"))
    assert "not for FILE" in mleval("runs", str(path), "--forget", "--yes", code=2).stderr


ALL = [arg for name in plain_store.DATASETS for arg in ("-n", name)]
ALL += ["--method-by", "param:model"]
SEEDS = ["-n", "spam", "-n", "wine", "--method-by", "param:model"]


def load(*names, **options):
    names = names or plain_store.DATASETS
    return load_study(**{"experiment_names": names, "method_by": "param:model"} | options)


def runs_of(dataset, model):
    client = MlflowClient()
    experiment = client.get_experiment_by_name(dataset).experiment_id
    finished = f"params.model = '{model}' and attributes.status = 'FINISHED'"
    return client.search_runs([experiment], finished)


def test_the_mean_over_seeds_counts_with_its_spread(plain):
    study = load("spam", "wine", maximize=["test_auc"])
    values = [r.data.metrics["test_auc"] for r in runs_of("wine", "mlp")]
    assert 3 <= len(values) <= 5 and study.n_repeats["wine", "mlp"] == len(values)
    mean, spread = np.mean(values), np.std(values, ddof=1)
    for table, expected in (
        (study.values, mean),
        (study.spread, spread),
        (study.standard_errors, spread / len(values) ** 0.5),
    ):
        assert table.loc[("wine", "mlp"), "test_auc"] == pytest.approx(expected, abs=1e-15)
    assert {*study.n_repeats} == {3, 4, 5}
    expected = [str(i) for i in range(len(values))]
    assert sorted(study.over("repeats", "wine").tables["mlp"].index) == expected
    assert len(study.runs) == study.n_repeats.sum() and {*study.runs["repeat"]} == {*"01234"}
    assert study.same_split() is None
    alone = study.select(methods=["mlp"]).n_repeats
    assert alone.index.tolist() == [("spam", "mlp"), ("wine", "mlp")]


def test_spread_and_number_of_repeats_stand_in_every_format(plain):
    study = load("spam", "wine", maximize=["test_auc"])
    command = ["rank", *SEEDS, "--max", "test_auc"]
    found, cell = as_json(*command), ("wine", "mlp")
    assert found["repeats"]["wine"]["mlp"] == study.n_repeats[cell] and found["same_split"] is None
    assert found["spread"]["wine"]["mlp"]["test_auc"] == study.spread.loc[cell, "test_auc"]
    expected = study.standard_errors.loc[cell, "test_auc"]
    assert found["standard_errors"]["wine"]["mlp"]["test_auc"] == expected
    mean, spread = (table.loc[cell, "test_auc"] for table in (study.values, study.spread))
    shown = f"{mean:.4f} ± {spread:.4f} ({study.n_repeats[cell]})"
    for format in ("table", "md", "html"):
        text = mleval(*command, "--output", format, "-v").stdout
        assert shown in text
        assert "mean over 3 to 5 runs that differ in their seed only (55 runs)." in text
    assert as_json(*command, "--read", "duplicates=latest")["repeats"] == {}
    mleval("report", *command[1:], "-o", "study.html")
    assert "test_auc,wine,mlp," in Path("study_data/repeats.csv").read_text(encoding="utf-8")


def test_the_best_candidate_keeps_its_repeats_and_is_doubted_where_it_decided_by_itself(plain):
    study = load("churn", maximize=["test_auc", "val_auc"], duplicates="best:val_auc")
    grid = defaultdict(list)
    for r in runs_of("churn", "xgb"):
        grid[r.data.params["lr"], r.data.params["max_depth"]].append(r.data.metrics)
    best = max(grid.values(), key=lambda runs: np.mean([m["val_auc"] for m in runs]))
    assert study.measures == ["test_auc"] and study.n_repeats["churn", "xgb"] == 2
    expected = np.mean([m["test_auc"] for m in best])
    assert study.values.loc[("churn", "xgb"), "test_auc"] == pytest.approx(expected)
    assert any("by val_auc was taken: xgb on churn (of 12)" in note for note in study.notes)
    assert "optimistic: xgb" not in " ".join(study.notes)
    same = load("churn", maximize=["val_auc"], duplicates="best:val_auc")
    assert "optimistic: xgb on churn (among 12)" in " ".join(same.notes)
    said = "no run of xgb on churn has .val_acc., by which.*Did you mean .val_auc"
    with pytest.raises(MeasureError, match=said):
        load("churn", maximize=["test_auc"], duplicates="best:val_acc")
    with pytest.raises(MeasureError, match="no run of xgb on churn has 'f1'"):
        load("churn", maximize=["test_auc"], duplicates="best:f1")


def test_means_of_candidates_and_runs_passed_over_are_told(plain):
    mean = load("churn", maximize=["test_auc"], duplicates="mean")
    assert mean.n_repeats["churn", "xgb"] == 24
    assert any("xgb on churn (24 runs that differ in lr, max_depth)" in note for note in mean.notes)
    latest = load("churn", maximize=["test_auc"], duplicates="latest")
    passed = [e for e in latest.excluded if "passed over" in e.reason]
    assert latest.repeats is None and len(passed) == mean.n_repeats.sum() - len(latest.values)
    assert passed[0].reason.startswith(f"{len(passed)} runs were passed over")


def test_the_best_trial_of_each_search_stands_for_it_and_trials_are_no_folds(plain):
    study = load("wine", maximize=["test_auc", "val_auc"], children="best:val_auc")
    trials = runs_of("wine", "lgbm")
    of = defaultdict(list)
    for r in trials:
        if "mlflow.parentRunId" in r.data.tags:
            of[r.data.tags["mlflow.parentRunId"]].append(r.data.metrics)
    best = [max(metrics, key=lambda m: m["val_auc"]) for metrics in of.values()]
    assert study.n_repeats["wine", "lgbm"] == len(of) == 3
    expected = np.mean([m["test_auc"] for m in best])
    assert study.values.loc[("wine", "lgbm"), "test_auc"] == pytest.approx(expected)
    told = study.notes[0]
    assert "The best of several candidates by val_auc was taken: lgbm on wine (of 9)." in told
    without = load("wine", maximize=["test_auc"])
    trials = [e for e in without.excluded if e.kind == "child run"]
    assert "lgbm" not in without.methods and len(trials) == 27
    (why,) = {e.reason for e in trials}
    assert why.startswith("trials of a search are no results; `children='best:METRIC'`")
    said = "differ in lr, max_depth: they are trials of a search, not folds"
    with pytest.raises(IncomparableRunsError, match=said):
        load("wine", maximize=["test_auc"], folds_by="children")
    with pytest.raises(ValueError, match="trials of a search, or folds"):
        load("wine", maximize=["val_auc"], children="best:val_auc", folds_by="children")


def test_repeats_by_names_what_may_differ(plain):
    with pytest.raises(CandidatesError) as stopped:
        load("churn", maximize=["test_auc"], repeats_by="param:lr")
    assert "xgb on churn: 24 runs that differ in max_depth" in stopped.value.text
    assert [*stopped.value.ways[0][1].values()] == ["best:val_auc"]
    assert "`duplicates='mean'`" in str(stopped.value)
    study = load("churn", maximize=["test_auc"], repeats_by=["param:lr", "param:max_depth"])
    assert study.n_repeats["churn", "xgb"] == 24
    assert not any("same seed" in note for note in study.notes)
    with pytest.raises(NoRunsError, match="no run has tag:rep, which was to tell repeats apart"):
        load("churn", maximize=["test_auc"], repeats_by="tag:rep")
