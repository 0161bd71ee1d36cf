"""The 300 runs of plain MLflow: means over seeds, candidates, searches, and commands that work."""

import shlex
from collections import defaultdict
from pathlib import Path

import numpy as np
import plain_store
import pytest
from command_line import as_json, mleval
from mlflow import MlflowClient

from mlflow_mleval.errors import CandidatesError, IncomparableRunsError, MeasureError, NoRunsError
from mlflow_mleval.store.query import load_study

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


def test_the_store_is_what_people_have(plain):
    client = MlflowClient()
    names = {e.experiment_id: e.name for e in client.search_experiments()}
    experiments = [each for each, name in names.items() if name in plain_store.DATASETS]
    runs = client.search_runs(experiments, max_results=1000)
    assert len(experiments) == 4 and len(runs) == plain_store.N_RUNS
    children = [r for r in runs if "mlflow.parentRunId" in r.data.tags]
    assert len(children) > 100 and {"lr", "max_depth"} <= {*children[0].data.params}
    assert sum(r.info.status == "FAILED" for r in runs) >= 5
    grid = [r for r in runs if r.data.params["model"] == "xgb" and "lr" in r.data.params]
    assert len(grid) == 24


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


def test_candidates_stop_and_each_way_on_is_a_command_that_works(plain):
    stopped = mleval("rank", *ALL, "--max", "test_auc", "--max", "val_auc", code=1).stderr
    assert "xgb on churn: 24 runs that differ in lr, max_depth; rf on fraud: 12 runs" in stopped
    lines = [line for line in stopped.splitlines() if line.startswith("  mleval rank ")]
    commands = [shlex.split(line) for line in lines]
    ways = [c[-1].split("=")[-1] for c in commands]
    assert ways == ["best:val_auc", "param:max_depth", "mean", "latest"]
    for command in commands:
        assert command[: len(ALL) + 2] == ["mleval", "rank", *ALL]
        ranked = as_json(*command[1:])
        methods = {row["method"] for row in ranked["ranking"]}
        each = {"xgb, lr=0.1, max_depth=3", "xgb, lr=0.01, max_depth=8", "rf"}
        assert "xgb" in methods or each <= methods


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
    assert why.startswith("trials of 3 searches (lgbm) are no results; `children='best:METRIC'`")
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
