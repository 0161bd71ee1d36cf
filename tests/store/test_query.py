"""Runs into a Study: what is read, what is left out and why, and which questions are refused."""

import gc
import itertools
import os

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, RunTag

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.pairs_by_unit import compare_all_repeats
from mlflow_mleval.errors import (
    CandidatesError,
    IncomparableRunsError,
    MeasureError,
    NoRunsError,
    StoreError,
)
from mlflow_mleval.measures.registry import SETS
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.importing import import_results
from mlflow_mleval.store.query import load_study
from mlflow_mleval.store.reader import COLUMNS
from mlflow_mleval.store.runs import log_report
from mlflow_mleval.study import Study


def ours(method, dataset, **more):
    tags = {"method": method, "dataset": dataset, "schema": "1", "status": "complete"} | more
    return {f"mleval.{key}": value for key, value in tags.items() if value is not None}


def left_out(study, kind=None):
    return [(e.name, e.reason) for e in study.excluded if kind in (None, e.kind)]


def load(**options):
    return load_study(**({"experiment_names": ["x"]} | options))


# --- runs that this project wrote


def test_the_study_is_the_table_that_was_imported(db):
    columns = {"dataset": [*"eedd"], "method": [*"baba"], "f1": [0.4, 0.3, 0.2, 0.1]}
    source = pd.DataFrame(columns)
    import_results(source, experiment_name="x", conventions="mulan")
    study = load(missing="worst")
    pd.testing.assert_frame_equal(study.values, Study.from_frame(source).values)
    assert (study.datasets, study.methods) == (["e", "d"], ["b", "a"])
    assert (study.missing, study.directions) == ("worst", {"f1": "max"})
    assert study.excluded == study.notes == () and study.folds is None
    assert list(study.runs) == list(COLUMNS)
    assert set(study.runs["conventions"]) == {"mulan"} and set(study.runs["status"]) == {"complete"}
    source = dict(study.source)
    assert source.pop("read_at") and source == {
        "tracking_uri": f"sqlite:///{db}",
        "experiments": [{"id": "1", "name": "x"}],
        "filter": "",
        "duplicates": "error",
        "repeats_by": "seeds",
        "children": "",
        "step": "last",
        "folds_by": "tag:mleval.folds",
        "method_by": "tag:mleval.method",
        "dataset_by": "tag:mleval.dataset",
        "runs_found": 4,
        "measures_by": (
            "the set sixteen, the default for label sets (1 of 16, as far as all runs have them)"
        ),
    }


def test_folds_come_from_one_tag(log):
    def tag(*values):
        return schema.encode_folds([1, 2], {"f1": values, "recall": [0.5, 0.5]})

    metrics = {
        "mleval/f1": 0.3,
        "mleval/recall": 0.5,
        "mleval.fold/f1": 0.4,
        "mleval.profile/binomial": 0.1,
    }
    log("1", metrics, tags=ours("a", "d", folds=tag(0.2, 0.4)))
    log("2", metrics, tags=ours("b", "d", folds=tag(0.3, float("nan"))))
    log("3", metrics, tags=ours("c", "d", folds="{broken"))
    log(
        "4",
        metrics,
        tags=ours("e", "d", folds=schema.encode_folds(range(9000), {"f1": [0.1] * 9000})),
    )
    study = load(measures=["f1"])
    expected = pd.DataFrame(
        {"f1": [0.2, 0.4, 0.3, np.nan]},
        index=pd.MultiIndex.from_tuples(
            [("d", "a", 1), ("d", "a", 2), ("d", "b", 1), ("d", "b", 2)],
            names=["dataset", "method", "fold"],
        ),
    )
    pd.testing.assert_frame_equal(study.folds, expected)
    (broken,) = [e for e in study.excluded if e.kind == "tag"]
    assert broken.name.startswith("mleval.folds of c on d (run ")
    assert "not in the form this package writes" in broken.reason
    log("5", metrics, tags=ours("b", "d", folds=schema.encode_folds([1, 3], {"f1": [0.1, 0.2]})))
    assert "Not all runs have the same folds on d." in load(duplicates="latest").notes
    assert "Not all" not in str(study.notes)
    assert any(
        "Values by fold of 1 run are too many for one tag" in n and "e on d" in n
        for n in study.notes
    )


def test_statuses_that_count_and_those_that_do_not(log):
    log("1", {"mleval/f1": 0.5}, tags=ours("a", "d"), status="RUNNING")
    log("2", {"mleval/f1": 0.5}, tags=ours("b", "d", status="dnf"), status="KILLED")
    log("3", {"mleval/f1": 0.5}, tags=ours("c", "d", status="incomplete"))
    log("4", {"mleval/f1": 0.5}, tags=ours("e", "d", status=None))
    log("5", {"mleval/f1": 0.5}, tags=ours("f", "d", status=None), status="FAILED")
    study = load()
    assert study.methods == ["a", "b", "e"] and study.gaps() == [("d", "b")]
    assert [reason for _, reason in left_out(study)] == [
        "written in part only; import or log again",
        "status FAILED",
    ]


def test_reports_are_no_results(log, client):
    log("1", {"mleval/f1": 0.5}, tags=ours("a", "d"))
    files = {"mleval_report.html": "<p>ä", "mleval/ranking.csv": b"a,b\n"}
    more = {
        "params": {"missing": "worst"},
        "tags": {"team": "we"},
        "summary": "# Verdict\n" + "x" * 9000,
    }
    experiment_id = client.get_experiment_by_name("x").experiment_id
    run_id = log_report(files, experiment_id=experiment_id, run_name="r" * 300, **more)
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED" and run.data.tags["mleval.kind"] == "report"
    assert run.data.tags["team"] == "we"
    note = run.data.tags["mlflow.note.content"]
    assert note.startswith("# Verdict") and len(note) == 8000 and "mleval_summary.md" in note[-60:]
    assert sorted(f.path for f in client.list_artifacts(run_id)) == ["mleval", "mleval_report.html"]
    with open(client.download_artifacts(run_id, "mleval_report.html"), encoding="utf-8") as stored:
        assert stored.read() == "<p>ä"
    assert load().methods == ["a"] and not left_out(load())
    said = r"`files` must have paths below a folder, but the path '\.\./x' holds"
    with pytest.raises(ValueError, match=said):
        log_report({"../x": ""}, experiment_id="0", run_name="r")
    with pytest.raises(NoRunsError, match="reports apart"):
        load(filter_string="tags.team = 'we'")


def test_a_run_of_a_newer_schema_is_left_out_and_refused_where_it_is_named(log):
    named = log("1", {"mleval/f1": 0.5}, tags=ours("a", "d", schema="2"))
    said = "schema 2, and this version of mlflow-mleval knows up to 1. Upgrade"
    with pytest.raises(NoRunsError, match=said):
        load()
    good = log("2", {"mleval/f1": 0.5}, tags=ours("b", "d"))
    study = load()
    assert list(study.runs["run_id"]) == [good]
    ((name, reason),) = left_out(study)
    assert named in name and said in reason
    assert named in study.notes[0] and "a later version of mlflow-mleval wrote" in study.notes[0]
    with pytest.raises(IncomparableRunsError, match=said):
        load(run_ids=[named, good])


def test_mixed_conventions_are_refused(log):
    log("1", {"mleval/f1": 0.5}, tags=ours("a", "d", conventions="mulan"))
    log("2", {"mleval/f1": 0.5}, tags=ours("b", "d", conventions="sklearn"))
    said = r"mulan: 1 run \(a on d\); sklearn: 1 run \(b on d\)"
    with pytest.raises(IncomparableRunsError, match=said):
        load()
    assert load(methods=["a"]).methods == ["a"]
    log("3", {"mleval/f1": 0.5}, tags=ours("c", "d"))
    told = load(exclude_methods=["b"]).notes
    assert "The conventions for empty sets and ties are unknown for 1 of 2 finished runs." in told
    assert not any("conventions" in note for note in load(methods=["c"]).notes)  # of all alike


def test_mixed_hierarchies_are_refused_on_one_dataset_only(log):
    log("1", {"mleval/h_f1": 0.5}, tags=ours("a", "d", hierarchy_digest="1"))
    log("2", {"mleval/h_f1": 0.5}, tags=ours("b", "e", hierarchy_digest="2"))
    assert load(missing="worst").datasets == ["d", "e"]
    log("3", {"mleval/h_f1": 0.5}, tags=ours("b", "d", hierarchy_digest="3"))
    with pytest.raises(IncomparableRunsError, match="runs on d used different hierarchies"):
        load()


def test_mixed_propensities_are_refused_only_for_measures_that_follow_from_them(log):
    for run, digest in (("a", "1"), ("b", "2")):
        log(
            run,
            {"mleval/psp_at_7": 0.5, "mleval/f1": 0.5},
            tags=ours(run, "d", propensities=digest),
        )
    said = "runs on d took the propensities .* or leave out psp_at_7"
    with pytest.raises(IncomparableRunsError, match=said):
        load(measures=["psp_at_7"])
    assert load(measures=["f1"]).methods == ["a", "b"]


def test_differing_data_and_splits_are_doubts(log):
    log(
        "1", {"mleval/f1": 0.5}, tags=ours("a", "d", dataset_digest="1" * 64, split_digest="1" * 64)
    )
    log(
        "2", {"mleval/f1": 0.5}, tags=ours("b", "d", dataset_digest="2" * 64, split_digest="2" * 64)
    )
    log("3", {"mleval/f1": 0.5}, tags=ours("a", "e", dataset_digest="3" * 64))
    log("4", {"mleval/f1": 0.5}, tags=ours("b", "e", dataset_digest="3" * 64))
    notes = load().notes
    assert any(n.startswith("On d the data were not the same in all runs") for n in notes)
    assert any(n.startswith("On d the data were not split in the same way") for n in notes)
    assert not any("is unknown: other versions" in n for n in notes)


def test_digests_of_different_versions_do_not_compare(log):
    log("1", {"mleval/f1": 0.5}, tags=ours("a", "d", dataset_digest="a" * 64))
    log("2", {"mleval/f1": 0.5}, tags=ours("b", "d", dataset_digest="b" * 59 + "-rows"))
    notes = load().notes
    assert not any("were not the same" in n for n in notes)
    assert any(
        n.startswith("Whether the data were the same in all runs on d is unknown: other versions")
        for n in notes
    )


# --- which measures


def test_measures_by_default(log):
    shared = {"mleval/f1": 0.5, "mleval/coverage": 2, "mleval/fit_time": 9, "mleval/odd": 1}
    log("1", {**shared, "mleval/recall": 0.4}, tags=ours("a", "d"))
    log("2", shared, tags=ours("b", "d"))
    log("3", tags=ours("c", "d", status="dnf"))
    study = load()
    assert study.measures == ["f1", "coverage"] and study.minimize == ["coverage"]
    assert dict(left_out(study)) == {
        "recall": "lacking in 1 of 2 finished runs",
        "fit_time": "costs are used only where `measures=` names them",
        "odd": "no direction is known; declare `minimize=` or `maximize=`",
    }
    assert {e.name: e.kind for e in study.excluded} == {
        "recall": "measure",
        "fit_time": "unasked",
        "odd": "measure",
    }
    doubts = compare(study.complete("worst")).doubts
    assert any("odd" in text for text in doubts) and not any("fit_time" in text for text in doubts)
    assert load(minimize=["odd"]).measures == ["f1", "coverage", "odd"]
    assert load(minimize=["f1"]).directions["f1"] == "min"


def test_awareness_of_dependence_is_no_quality_unless_it_is_named(log):
    log(
        "1",
        {"mleval/f1": 0.5, "mleval/binomial_slope": 0.1, "mleval/binomial_gain": 0.3},
        tags=ours("a", "d"),
    )
    study = load()
    assert study.measures == ["f1"] and {e.kind for e in study.excluded} == {"unasked"}
    assert left_out(study)[0][1].startswith(
        "measures of how errors fall, not of how many there are, are used only where"
    )
    assert load(measures=["f1", "awareness"]).measures == ["f1", "binomial_slope", "binomial_gain"]
    assert load(minimize=["binomial_slope"]).measures == ["f1", "binomial_slope"]


@pytest.mark.parametrize(
    ("have", "used", "told"),
    [
        (
            [*SETS["sixteen"], *SETS["dependence"], "weighted_f1", "fit_time"],
            SETS["sixteen"],
            "the set sixteen, the default for label sets",
        ),
        (
            [*SETS["sixteen"], *SETS["hierarchical"]],
            SETS["class-sets"],
            "the set class-sets, the default for class sets",
        ),
        (
            [*SETS["one-label"], "kappa", "ece_15", "weighted_f1"],
            SETS["one-label"],
            "the set one-label, the default for one label",
        ),
        (
            ["macro_f1", "log_loss"],
            ["macro_f1", "log_loss"],
            "the set one-label, the default for one label (2 of 6, as far as all runs have them)",
        ),
        (
            ["gie", "h_loss"],
            ["gie", "h_loss"],
            "those known here that all runs have, for no default set applies",
        ),
    ],
)
def test_a_named_set_ranks_what_nobody_chose_measures_for(log, have, used, told):
    for i, method in enumerate("ab"):
        log(str(i), {**{f"mleval/{m}": 0.5 for m in have}, "odd": 1.0}, tags=ours(method, "d"))
    study = load()
    assert set(study.measures) == set(used) and study.source["measures_by"] == told
    assert {e.kind for e in study.excluded if e.name != "odd"} <= {"unasked"}
    study = load(minimize=["odd"], maximize=["fit_time"] if "fit_time" in have else [])
    extra = 2 if "fit_time" in have else 1
    assert len(study.measures) == len(used) + extra
    assert (
        study.source["measures_by"].startswith(told)
        or "you declared" in study.source["measures_by"]
    )
    named = load(measures=have[-1:])
    assert named.measures == have[-1:]
    assert named.source["measures_by"] == f"those that you named ({have[-1]})"
    expected = f"those that you kept of {len(used) + extra}"
    assert study.select(exclude=["odd"]).source["measures_by"] == expected


def test_values_and_directions_against_the_definition_are_doubts(log):
    log(
        "1",
        {"mleval/f1": 1.4, "mleval/recall": 1 + 1e-12, "mleval/coverage": 7},
        tags=ours("a", "d", conventions="sklearn"),
    )
    log(
        "2",
        {"mleval/f1": 0.6, "mleval/recall": 0.0, "mleval/coverage": 3},
        tags=ours("b", "d", conventions="sklearn"),
    )
    (note,) = load().notes
    assert note.startswith("f1 goes from 0 to 1, but not on d for a (0.6 to 1.4 over all). Is it")
    study = load(measures=["recall", "coverage"], minimize=["recall"], maximize=["coverage"])
    assert [note.split(";")[0] for note in study.notes] == [
        "As declared, smaller values of recall count as better",
        "As declared, larger values of coverage count as better",
    ]
    assert load(measures=["recall"], maximize=["recall"]).notes == ()


def test_percentages_beside_shares_stop_until_they_are_named(log):
    for name, value in (("a", 76.1), ("b", 74.0), ("c", 0.75)):
        log(name, {"test_accuracy": value, "loss": value})
    said = "in others: c on x .*2 runs from 74.*percent="
    with pytest.raises(CandidatesError, match=said) as told:
        load()
    assert "test_accuracy is a percentage in some runs" in str(told.value)
    study = load(percent="test_accuracy")
    assert study.values["test_accuracy"].tolist() == pytest.approx([0.761, 0.74, 0.75])
    with pytest.raises(MeasureError, match="as a percentage. Did you mean 'test_accuracy'"):
        load(percent="test_acuracy")


def test_counts_that_are_called_a_share_are_on_one_scale(log):
    """A result of 0 is that on any scale."""
    for i, value in enumerate((0, 0, 0, 1, 2, 4, 8)):
        log(f"m{i}", {"f1": value})
    assert load().values["f1"].max() == 8


def test_measures_by_name(log):
    log(
        "1",
        {"mleval/f1": 0.5, "mleval/recall": 0.4, "mleval/fit_time": 9, "mleval/odd": 1},
        tags=ours("a", "d"),
    )
    log("2", {"mleval/f1": 0.6, "mleval/fit_time": 8, "mleval/odd": 1}, tags=ours("b", "d"))
    assert load(measures=["recall", "f1"]).gaps() == [("d", "b")]
    assert load(measures=["fit_time"]).minimize == ["fit_time"]
    assert not load(measures=["f1"]).excluded
    study = load(measures=["example", "odd"], maximize=["odd"])
    assert study.measures == ["recall", "f1", "odd"]
    assert {name for name, _ in left_out(study)} == set(SETS["example"]) - {"recall", "f1"}
    found = left_out(load(exclude_measures=["f1"], measures=["f1", "odd"], minimize=["odd"]))
    assert found == [("f1", "excluded as asked")]
    said = r"no direction is known for 'odd'. Choose: `maximize=\['odd'\]`"
    with pytest.raises(MeasureError, match=said):
        load(measures=["odd"])
    said = r"no finished run has 'od'; there are .*Did you mean 'odd'\?"
    with pytest.raises(MeasureError, match=said):
        load(measures=["od"], maximize=["od"])
    with pytest.raises(MeasureError, match="no finished run has 'acuracy'; there are f1"):
        load(measures=["acuracy"])
    said = r"no finished run has 'coverage'; there are f1, fit_time, odd, recall"
    with pytest.raises(MeasureError, match=said):
        load(measures=["coverage"])
    with pytest.raises(MeasureError, match=r"no finished run has 'od'"):
        load(maximize=["od"])
    with pytest.raises(MeasureError, match=r"no finished run has 'f2'"):
        load(exclude_measures=["f2"])
    with pytest.raises(
        MeasureError,
        match=r"no measure in common to 2 finished runs that can be used \(.*f1: excluded as asked",
    ):
        load(exclude_measures=["f1"])
    with pytest.raises(ValueError, match="both as minimised and as maximised"):
        load(minimize=["odd"], maximize=["odd"])


def test_no_measure_in_common_names_what_there_is(log):
    log("1", {"mleval/f1": 0.5}, tags=ours("a", "d"))
    log("2", {"mleval/recall": 0.5}, tags=ours("b", "d"))
    said = r"in common to 2 finished .*recall, f1: lacking in 1 of 2"
    with pytest.raises(MeasureError, match=said):
        load()


@pytest.mark.parametrize(
    "values", [{"mleval/f1": float("inf")}, {"mleval/mine": 0.5}, {"mleval/recall": 0.5}, {}]
)
def test_one_run_without_what_all_others_have_is_left_out(log, values):
    for method in "abc":
        log(method, {"mleval/f1": 0.5}, tags=ours(method, "d"))
    odd = log("odd", values, tags=ours("odd", "d"))
    study = load()
    assert (study.methods, study.measures) == (["a", "b", "c"], ["f1"])
    assert [e.name for e in study.excluded if e.kind == "run"] == [f"odd on d (run {odd})"]
    with pytest.raises(MeasureError, match="no measure in common"):
        load(run_ids=[*study.runs["run_id"], odd])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_dropped_and_listed(log, value):
    log("1", {"mleval/f1": 0.5, "mleval/recall": 0.5}, tags=ours("a", "d"))
    bad = log("2", {"mleval/f1": value, "mleval/recall": 0.5, "loss": value}, tags=ours("b", "d"))
    study = load()
    assert study.measures == ["recall"]
    assert [e.name for e in study.excluded if e.kind == "cell"] == [f"b on d (run {bad})"]
    assert load(measures=["f1"]).gaps() == [("d", "b")]


# --- which runs


def test_methods_and_datasets_are_kept_or_left_out(log):
    for method, dataset in itertools.product("abc", "de"):
        log(method, {"mleval/f1": 0.5}, tags=ours(method, dataset))
    study = load(exclude_methods=["a"], datasets=["e"])
    assert (study.methods, study.datasets) == (["b", "c"], ["e"])
    with pytest.raises(NoRunsError, match="the selection has no method 'z'; it has 'a', 'b', 'c'"):
        load(methods=["a", "z"])
    with pytest.raises(NoRunsError, match="no dataset 'z'"):
        load(exclude_datasets=["z"])
    with pytest.raises(NoRunsError, match="no method is left"):
        load(exclude_methods=["a", "b", "c"])


def test_the_latest_of_several_runs_counts_where_asked_for_and_the_others_are_listed(log):
    old = log("1", {"mleval/f1": 0.5}, tags=ours("a", "d"), start=1000)
    log("2", {"mleval/f1": 0.6}, tags=ours("a", "d"), start=3000)
    other = log("3", {"mleval/f1": 0.7}, tags=ours("a", "d"), start=2000)
    study = load(duplicates="latest")
    assert study.values["f1"].tolist() == [0.6] and study.repeats is None
    reason = "2 runs were passed over, because a later one of the same method and dataset counts"
    assert left_out(study) == [(f"a on d (run {old})", reason), (f"a on d (run {other})", reason)]
    with pytest.raises(
        ValueError,
        match="`duplicates` must be one of mean, latest, latest-data, error or best:METRIC",
    ):
        load(duplicates="first")


def test_filter_run_ids_and_several_experiments(log):
    a = log("1", {"mleval/f1": 0.5}, tags=ours("a", "d"), params={"lr": "1"})
    b = log("2", {"mleval/f1": 0.6}, tags=ours("b", "d"), experiment="y", params={"lr": "1"})
    c = log("3", {"mleval/f1": 0.6}, tags=ours("c", "d"), experiment="z")
    assert load(experiment_names=["x", "y"], experiment_ids=["1"]).methods == ["a", "b"]
    assert load(experiment_names=["x", "y", "z"], filter_string="params.lr = '1'").methods == [
        "a",
        "b",
    ]
    assert load_study(run_ids=[c, a]).methods == ["a", "c"]
    assert load_study(run_ids=[a, b, a], filter_string="params.lr = '1'").methods == ["a", "b"]
    assert [e["name"] for e in load_study(run_ids=[b]).source["experiments"]] == ["y"]
    with pytest.raises(NoRunsError, match=f"there is no run {b} in the selection"):
        load(run_ids=[a, b])
    with pytest.raises(NoRunsError, match="no run id: "):
        load_study(run_ids=["' or 1=1"])
    with pytest.raises(NoRunsError, match="holds no run that can be used: no run fits"):
        load(filter_string="params.lr = '7'")
    with pytest.raises(
        StoreError,
        match=r"MLflow does not accept the filter 'nonsense': Invalid clause.*Examples: params",
    ):
        load(filter_string="nonsense")


def test_more_run_ids_than_fit_one_filter(log):
    ids = [log(str(i), {"mleval/f1": 0.5}, tags=ours("a", str(i))) for i in range(3)]
    missing = [f"{i:032x}" for i in range(1200)]
    with pytest.raises(NoRunsError, match=r"and 1188 more in the selection"):
        load_study(run_ids=ids + missing)


def test_which_experiments(log, monkeypatch, client):
    log("1", {"mleval/f1": 0.5}, tags=ours("a", "d"))
    client.create_run(client.create_experiment("tried"))  # holds no result
    assert load_study().methods == ["a"]  # it alone can be compared
    log("2", {"mleval/f1": 0.5}, tags=ours("b", "d"), experiment="other")
    with pytest.raises(
        NoRunsError,
        match=r"no experiment is chosen.*`experiment_names=\[NAME\]`.*has .*'x', 'Default'",
    ):
        load_study()
    said = r"there is no experiment 'y'. The store sqlite.*has .*'x', 'Default'"
    with pytest.raises(NoRunsError, match=said):
        load_study(experiment_names=["y"])
    with pytest.raises(NoRunsError, match=r"there is no experiment id '7'"):
        load_study(experiment_ids=["7"])
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "x")
    assert load_study().methods == ["a"]
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "0")
    with pytest.raises(NoRunsError, match="experiment 'Default' in sqlite"):
        load_study()
    client.delete_experiment(client.get_experiment_by_name("x").experiment_id)
    with pytest.raises(NoRunsError, match="'x' is deleted"):
        load()


# --- runs that somebody else logged


def test_foreign_runs_by_default_rules(log):
    log("ml-knn", {"f1": 0.5, "loss": 3})
    log("sweet-owl-1", {"f1": 0.6}, params={"estimator_name": "SVC"}, dataset="yeast", digest="1")
    log("sweet-owl-2", {"f1": 0.7}, tags={"estimator_name": "RF"}, dataset="dataset")
    study = load(missing="worst")
    assert study.values["f1"].to_dict() == {
        ("x", "ml-knn"): 0.5,
        ("yeast", "SVC"): 0.6,
        ("x", "RF"): 0.7,
    }
    assert study.runs["dataset_digest"].tolist() == ["", "1", "0"]
    notes = "\n".join(study.notes)
    by = {factor.what: factor.by for factor in study.factors}
    assert by["method"] == "scikit-learn's estimator (2 runs), the name of the run (1 run)"
    assert by["dataset"] == "the experiment (2 runs), the name of the dataset input (1 run)"
    assert "These may be 2 datasets, for nothing but the experiment" in study.unsure("dataset")
    assert (
        "The metric f1 was not logged by this project and is taken for the measure of this name, "
        "which" in notes
    )
    declare = "no direction is known; declare `minimize=` or `maximize=`"
    confirm = "or take the one that its name suggests (min) by `directions='proposed'`"
    assert left_out(study) == [("loss", f"{declare}, {confirm}")]


@pytest.mark.parametrize(
    ("method_by", "dataset_by", "expected"),
    [
        ("tag:m", "param:d", ("tagged", "set")),
        ("param:d", "tag:m", ("set", "tagged")),
        ("run_name", "experiment", ("name", "x")),
        ("experiment", "run_name", ("x", "name")),
        ("tag:m", "input", ("tagged", "data")),
    ],
)
def test_foreign_runs_by_given_rules(log, method_by, dataset_by, expected):
    log("name", {"f1": 0.5}, tags={"m": "tagged"}, params={"d": "set"}, dataset="data")
    log("other", {"f1": 0.5}, experiment="x")
    study = load(method_by=method_by, dataset_by=dataset_by, missing="worst")
    assert expected[::-1] in study.values.index
    assert (study.source["method_by"], study.source["dataset_by"]) == (method_by, dataset_by)
    if method_by == "tag:m":
        wanted = ["no tag:m, which was to name the method"]
        assert [reason for _, reason in left_out(study)] == wanted


def test_two_periods_are_methods(log):
    for day, f1, model in ((14, 0.5, "rf"), (15, 0.6, "rf"), (16, 0.8, "rf"), (17, 0.9, "xgb")):
        start = int(pd.Timestamp(2026, 11, day, 12).timestamp() * 1000)
        log("nightly", {"f1": f1}, dataset="d", start=start, params={"seed": day, "model": model})
    periods = {"method_by": "since:2026-11-16", "maximize": ["f1"], "duplicates": "mean"}
    study = load(**periods)
    assert {m: f1 for (_, m), f1 in study.values["f1"].items()} == {
        "before 2026-11-16": pytest.approx(0.55),
        "since 2026-11-16": pytest.approx(0.85),
    }
    (doubt,) = (note for note in study.notes if note.startswith("Runs before"))
    assert doubt.endswith("since 2026-11-16 differ in model, too: a difference may be theirs.")
    alike = load(**{**periods, "filter_string": "params.model = 'rf'"})
    assert len(alike.methods) == 2 and "too: a difference" not in str(alike.notes)
    both = load(**{**periods, "method_by": ["param:model", "since:2020-01-01"]})
    assert [*both.methods] == ["rf, since 2020-01-01", "xgb, since 2020-01-01"]
    with pytest.raises(ValueError, match="`method_by` must be since: and a span .* got 'soon'"):
        load(method_by="since:soon")


@pytest.mark.parametrize("rule", ["tag", "tag:", "metric:x", "input", "", "Run_Name"])
def test_a_rule_that_does_not_exist(db, rule):
    allowed = "tag:NAME, param:NAME, run_name, run_id, experiment, estimator, model or prompt"
    with pytest.raises(ValueError, match=f"`method_by` must be one of {allowed}, got"):
        load(method_by=rule)


def test_of_several_inputs_the_one_for_testing_names_the_dataset(log, client):
    run_id = log("a", {"f1": 0.5}, dataset="train", context="training")
    test = DatasetInput(
        Dataset("yeast", "2", "local", "{}"), [InputTag("mlflow.data.context", "eval")]
    )
    client.log_inputs(run_id, [test])
    assert load().datasets == ["yeast"]
    client.log_inputs(
        run_id,
        [
            DatasetInput(
                Dataset("test", "3", "local", "{}"), [InputTag("mlflow.data.context", "test")]
            )
        ],
    )
    assert load().datasets == ["x"]
    with pytest.raises(NoRunsError, match="1 run: no input, which was to name the dataset"):
        load(dataset_by="input")


def test_accuracy_of_others_is_a_doubt_of_its_own(log):
    for method, value in (("a", 0.7), ("b", 0.6)):
        log(method, {"accuracy": value, "f1": value})
    study = load()
    assert study.measures == ["accuracy", "f1"] and not left_out(study)
    assert study.notes[0].startswith(
        "The metrics accuracy, f1 were not logged by this project and are taken"
    )
    assert study.notes[0].endswith("right in all labels, where here it is the Jaccard index.")
    assert "Jaccard" not in load(measures=["f1"]).notes[0]


def test_what_of_foreign_runs_is_no_result(log):
    parent = log("search", {"f1": 0.5})
    for i in range(3):
        log(f"child {i}", {"f1": 0.4}, tags={"mlflow.parentRunId": parent})
    log("broken", {"f1": 0.9}, status="FAILED")
    log("running", {"f1": 0.9}, status="RUNNING")
    log("data preparation", {"rows": 5})
    study = load()
    assert study.methods == ["search"]
    runs = [e for e in study.excluded if e.kind == "run"]
    assert [e.reason for e in runs][:2] == ["status FAILED", "status RUNNING"]
    nobody_knows = "nobody knows which way its metrics are better (rows); declare `minimize="
    assert runs[2].reason.startswith(nobody_knows)
    assert runs[0].name.startswith("broken (")
    children = [e for e in study.excluded if e.kind == "child run"]
    assert [e.name.split(" (")[0] for e in children] == ["child 0", "child 1", "child 2"]
    assert {e.reason for e in children} == {"children of other runs are no results"}


def test_strays_among_our_runs_need_a_rule(log):
    log("1", {"mleval/f1": 0.5, "mleval/recall": 0.5, "accuracy": 0.9}, tags=ours("a", "d"))
    log("keras", {"accuracy": 0.9, "f1": 0.5})
    study = load()
    assert study.methods == ["a"] and study.measures == ["recall", "f1"]
    reason = "no tag mleval.method; `method_by=` and `dataset_by=` say how to read such a run"
    assert [why for _, why in left_out(study, "run")] == [reason]
    both = load(dataset_by="experiment")
    assert both.methods == ["a", "keras"] and both.measures == ["f1"]


def test_our_own_children_count(log):
    parent = log("parent", {"mleval/f1": 0.5}, tags=ours("a", "d"))
    log("child", {"mleval/f1": 0.5}, tags=ours("b", "d") | {"mlflow.parentRunId": parent})
    assert load().methods == ["a", "b"]


def test_nothing_that_can_be_used_says_why(log):
    log("a", {"loss": 1})
    log("b", {"f1": 0.5}, status="FAILED")
    with pytest.raises(
        NoRunsError,
        match=r"'x' in .* holds no run .* used: 1 run: nobody knows .* \(loss\); declare .* their "
        "names suggest: `directions='proposed'`; 1 run: status FAILED",
    ):
        load()
    log("c", tags=ours("c", "d", status="dnf"))
    with pytest.raises(NoRunsError, match="of 1 selected run none finished"):
        load()


# --- the store


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("sqlite:///mlflow.db", "sqlite:///mlflow.db"),
        ("http://me:pa55@host:5000/x", "http://me:***@host:5000/x"),
        ("http://t0ken@host", "http://***@host"),
        ("http://me:p@55@host", "http://me:***@host"),
        (
            "postgresql+psycopg2://u:p@h/db?sslmode=require&password=x",
            "postgresql+psycopg2://u:***@h/db?sslmode=require&password=***",
        ),
        ("https://host/a@b", "https://host/a@b"),
    ],
)
def test_credentials_are_masked(uri, shown):
    assert store.masked(uri) == shown


def test_a_store_that_is_not_there(db, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:s3cret@127.0.0.1:9")
    said = r"cannot read the store .*refused.*Is the server running"
    with pytest.raises(StoreError, match=said) as caught:
        load()
    assert "http://me:***@127.0.0.1:9" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(StoreError, match="there is no store at .*none.db. Set MLFLOW_TRACKING_URI"):
        load()
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "junk.db").write_text("this is no database at all")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/junk.db")
    with pytest.raises(StoreError, match="file is not a database"):
        load()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/junk.db/deep/mlflow.db")
    with pytest.raises(StoreError, match="Not a directory"):
        import_results(
            pd.DataFrame({"dataset": ["d"], "method": ["a"], "f1": [1]}), experiment_name="x"
        )


def test_a_setting_holds_until_the_last_thread_that_needs_it_ends(monkeypatch):
    name = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
    monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "7")  # the user's own stays
    before = dict(os.environ)
    first, second = store.quick(), store.quick()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.environ[name] == "1" and os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "7"
    second.__exit__(None, None, None)
    assert dict(os.environ) == before


def test_many_pages_read_as_one(log, monkeypatch):
    for i in range(7):
        log(str(i), {"mleval/f1": i / 10}, tags=ours(f"m{i}", "d"))
    monkeypatch.setattr(store, "PAGE", 3)
    told = []
    assert load(progress=lambda *step: told.append(step)).methods == [f"m{i}" for i in range(7)]
    assert told == [(3, 0), (5, 0), (7, 0), (7, 7)]


def test_runs_of_one_time_may_fill_pages(client, monkeypatch):
    experiment_id = client.create_experiment("x")
    times = [5, *[7] * 8, 9, 9, 9, 9, 12]
    runs = [client.create_run(experiment_id, start_time=time) for time in times]
    monkeypatch.setattr(store, "PAGE", 3)
    sizes = [len(page) for page in store.pages(client, [experiment_id], "")]
    read = store.search(client, [experiment_id])
    ids = [run.info.run_id for run in read]
    assert sorted(ids) == sorted(run.info.run_id for run in runs) and sum(sizes) == len(runs)
    assert [run.info.start_time for run in read] == times


def test_what_was_read_of_more_experiments_is_not_read_again(client):
    ids = [client.create_experiment(name) for name in "xyz"]
    first = [client.create_run(each).info.run_id for each in ids]
    with store.remembered():
        whole = store.search(client, ids[:2])
        client.create_run(ids[0])
        for own in (ids[:1], ids[1:2], ids[:2]):
            again = store.search(client, own)
            assert again == [run for run in whole if run.info.experiment_id in own]
        assert len(store.search(client, ids[:1], "attributes.status = 'RUNNING'")) == 2
        others = [run.info.run_id for run in store.search(client, ids[1:])]
        assert sorted(others) == sorted(first[1:])
    assert len(store.search(client, ids[:1])) == 2


@pytest.mark.parametrize("wanted", [True, False])
def test_the_garbage_collector_is_as_the_user_has_it(client, monkeypatch, wanted):
    during = []

    def searched(*args, **parts):
        during.append(gc.isenabled())
        return MlflowClient.search_runs(client, *args, **parts)

    monkeypatch.setattr(client, "search_runs", searched)
    (gc.enable if wanted else gc.disable)()
    try:
        store.search(client, ["0"])
        with pytest.raises(StoreError):
            store.search(client, ["0"], "no filter")
        assert gc.isenabled() is wanted and during == [False, False]
    finally:
        gc.enable()


def test_a_withdrawn_value_is_not_read(log, client):
    run_id = log("1", {"mleval/f1": 0.5, "mleval/recall": 0.5}, tags=ours("a", "d"))
    client.log_batch(run_id, tags=[RunTag(schema.TAG_WITHDRAWN, '["f1"]')])
    assert load().measures == ["recall"]


# --- what MLflow's autologging leaves


def _autologged(log, estimator, value, **more):
    metrics = {"training_score": 1.0, f"{estimator}_score_X_test": value} | more
    log(f"{estimator} run", metrics, tags={"estimator_name": estimator})


def test_scores_named_after_estimator_and_variable_are_one_measure(log):
    _autologged(log, "SVC", 0.9)
    _autologged(log, "GaussianNB", 0.8)
    study = load()
    assert study.measures == ["score"] and study.directions == {"score": "max"}
    assert study.values["score"].tolist() == [0.9, 0.8]
    told = study.notes
    assert "score is what MLflow logged as SVC_score_X_test, GaussianNB_score_X_test." in told
    by_training = load(measures=["training_score"])
    assert by_training.notes[0] == "Training data: says nothing of new data (training_score)."
    with pytest.raises(MeasureError, match="training_score is of training data, and score not"):
        load(measures=["training_score", "score"])
    assert load(maximize=["training_score"]).measures == ["training_score"]


def test_test_data_come_before_validation_data_and_training_data_do_not_count(log):
    for name, value in (("a", 0.5), ("b", 0.7)):
        keras = {"accuracy": 0.99, "loss": 0.1, "val_accuracy": value, "val_loss": 1 - value}
        log(name, keras)
    assert load().measures == ["val_accuracy", "val_loss"] and load().minimize == ["val_loss"]
    log("c", {"val_accuracy": 0.6, "val_loss": 0.4, "test_accuracy": 0.6, "lr": 0.1})
    assert dict(left_out(load()))["test_accuracy"] == "lacking in 2 of 3 finished runs"
    only = load(methods=["c"])
    assert only.measures == ["test_accuracy"]


def test_a_proposed_direction_holds_once_it_is_confirmed(log):
    log("a", {"val_acc": 0.5, "latency_s": 3})
    with pytest.raises(NoRunsError, match="`directions='proposed'`"):
        load()
    study = load(directions="proposed")
    assert study.directions == {"val_acc": "max", "latency_s": "min"}
    assert any("Taken from their names" in note for note in study.notes)
    with pytest.raises(ValueError, match="`directions` must be 'declared' or 'proposed'"):
        load(directions="guessed")


# --- runs on other data are no repeats


def _on(log, method, seed, digest):
    log(method, {"f1": 0.5 + seed / 10}, params={"seed": str(seed)}, dataset="wine", digest=digest)


def test_runs_on_other_data_are_no_repeats_and_each_way_on_works(log):
    for method in ("a", "b"):
        for seed, digest in enumerate(["old", "old", "new", "new"]):
            _on(log, method, seed, digest)
    with pytest.raises(CandidatesError, match="a on wine: 2 digests") as stopped:
        load()
    latest, apart, splits = (more for _, more in stopped.value.ways)
    assert not stopped.value.sure
    of_latest = load(**latest)
    assert of_latest.values["f1"].tolist() == pytest.approx([0.75, 0.75])
    expected = {"it is on other data than the latest runs of its dataset"}
    assert {e.reason for e in of_latest.excluded if e.kind == "run"} == expected
    assert load(**apart).datasets == ["wine old", "wine new"]
    assert load(**splits).n_repeats["wine", "a"] == 4
    assert load(duplicates="latest").values["f1"].tolist() == [0.8, 0.8]


def test_data_without_a_name_are_told_apart_by_their_shape_and_their_digests_are_splits(log):
    for features, seed, model in itertools.product((13, 30, 64), range(3), ("svc", "rf")):
        log(
            model,
            {"f1": 0.5 + seed / 10},
            params={"seed": str(seed)},
            dataset="dataset",
            digest=f"{features}/{seed}",
            profile=f'{{"features_shape": [100, {features}]}}',
        )
    study = load()
    assert study.datasets == ["x (13 features)", "x (30 features)", "x (64 features)"]
    assert {*study.n_repeats} == {3} and study.same_split() is False
    _, dataset, repeat = study.factors
    assert dataset.by.startswith("the shape of the data; 9 digests are splits of them (")
    assert (dataset.n, dataset.doubt, study.unsure("dataset")) == (3, "", "")
    assert (repeat.n, repeat.by) == (3, "param:seed and different splits of the data")
    each = load(dataset_by="digest", duplicates="mean")
    assert len(each.datasets) == 9 and "by its shape there would be 3" in each.factors[1].by


def test_where_only_experiments_tell_datasets_apart_no_test_decides_until_somebody_says_so(log):
    for data, model in itertools.product("abcdefgh", ("svc", "rf")):
        log(model, {"f1": 0.5 + (model == "rf") / 10 + ord(data) / 1e4}, experiment=data)
    study = load(experiment_names=[*"abcdefgh"])
    unsure = compare(study)
    assert unsure.deciding is None and not unsure.separated
    assert unsure.doubts[0] == study.unsure("dataset")
    assert "These may be 8 datasets" in unsure.decision and "dataset_by=" in unsure.decision
    sure = compare(load(experiment_names=[*"abcdefgh"], dataset_by="experiment"))
    assert sure.separated == [("rf", "svc")] and unsure.order == sure.order


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("{m}_{d}_s{s}", {"seed": "{s}"}, "`name_as='{method}_{dataset}_s{seed}'`"),
        ("{d}-{m}", {"model": "{m}", "seed": "{s}"}, "`name_as='{dataset}-{method}'`"),
        ("{m}", {"data": "{d}", "seed": "{s}"}, "`dataset_by='param:data'`"),
    ],
)
def test_a_name_or_param_that_tells_of_more_datasets_stops_tests_over_repeats(
    log, name, params, said
):
    for m, d, s in itertools.product(("bert", "lstm"), ("imdb", "sst"), "012345"):
        parts = {key: text.format(m=m, d=d, s=s) for key, text in params.items()}
        log(
            name.format(m=m, d=d, s=s),
            {"f1": len(m) / 10 + len(d) / 99 + int(s) / 999},
            params=parts,
        )
    how = {"method_by": "param:model"} if "model" in params else {}
    study = load(duplicates="mean", **how)
    doubt = study.unsure("dataset")
    assert said in doubt and "This may be one dataset or" in doubt
    absent = {}
    assert compare_all_repeats(study, absent) == {}
    assert [*absent.values()] == [doubt] or study.repeats is None
    assert load(duplicates="mean", **how, dataset_by="experiment").unsure("dataset") == ""
    told = {"dataset_by": "param:data"} if "data" in params else {"name_as": said[10:-2]}
    settled = load(**told)
    assert settled.unsure("dataset") == "" and {*settled.datasets} == {"imdb", "sst"}
    assert {*settled.methods} == {"bert", "lstm"} and {*settled.n_repeats} == {6}
