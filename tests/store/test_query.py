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
from mlflow_mleval.selection import Selection
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.importing import import_results
from mlflow_mleval.store.query import load_study
from mlflow_mleval.store.reader import COLUMNS
from mlflow_mleval.store.runs import log_report
from mlflow_mleval.store.runs_table import read_store, remembered
from mlflow_mleval.store.survey import take_stock
from mlflow_mleval.study import Study

HALF = {"f1": 0.5}
SIXTEEN = "the set sixteen, the default for label sets"


@pytest.fixture
def ours(log):
    """Logs a run as this project does: its measures, its tags, and options of `log` as `run`."""

    def ours(method, dataset="d", measures=HALF, *, plain=(), run=(), **more):
        known = {"schema": "1", "status": "complete", "method": method, "dataset": dataset} | more
        tags = {f"mleval.{key}": value for key, value in known.items() if value is not None}
        metrics = {f"mleval/{name}": value for name, value in measures.items()} | dict(plain)
        options = dict(run)
        options["tags"] = tags | options.get("tags", {})
        return log(f"run of {method}", metrics, **options)

    return ours


def left_out(study, kind=None):
    return [(e.name, e.reason) for e in study.excluded if kind in (None, e.kind)]


def load(**options):
    return load_study(**({"experiment_names": ["x"]} | options))


def refused(error, said, **options):
    with pytest.raises(error, match=said):
        load(**options)


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
    rules = {f"{name}_by": f"tag:mleval.{name}" for name in ("method", "dataset", "folds")}
    rules |= {"repeats_by": "seeds", "duplicates": "error", "children": "", "step": "last"}
    told = f"{SIXTEEN} (1 of 16, as far as all runs have them)"
    known = {"filter": "", "runs_found": 4, "measures_by": told, **rules}
    known |= {"tracking_uri": f"sqlite:///{db}", "experiments": [{"id": "1", "name": "x"}]}
    assert study.source.pop("read_at") and study.source == known


def test_folds_come_from_one_tag(ours):
    def tag(*values, folds=(1, 2)):
        return schema.encode_folds(folds, {"f1": values, "recall": [0.5] * len(values)})

    def log(method, folds):
        plain = {"mleval.fold/f1": 0.4, "mleval.profile/binomial": 0.1}
        ours(method, measures={"f1": 0.3, "recall": 0.5}, plain=plain, folds=folds)

    log("a", tag(0.2, 0.4))
    log("b", tag(0.3, float("nan")))
    log("c", "{broken")
    log("e", tag(*[0.1] * 9000, folds=range(9000)))
    study = load(measures=["f1"])
    cells = [("d", "a", 1), ("d", "a", 2), ("d", "b", 1), ("d", "b", 2)]
    index = pd.MultiIndex.from_tuples(cells, names=["dataset", "method", "fold"])
    expected = pd.DataFrame({"f1": [0.2, 0.4, 0.3, np.nan]}, index=index)
    pd.testing.assert_frame_equal(study.folds, expected)
    absent, broken = [e for k in ("artifact", "tag") for e in study.excluded if e.kind == k]
    assert broken.name.startswith("mleval.folds of c on d (run ")
    assert "not in the form this package writes" in broken.reason
    assert "Not all" not in "\n".join(study.notes)
    assert "too many for one tag" in absent.reason and "e on d" in absent.name
    log("b", tag(0.1, 0.2, folds=(1, 3)))
    assert "Not all runs have the same folds on d." in load(duplicates="latest").notes


def test_statuses_that_count_and_those_that_do_not(ours):
    ours("a", run={"status": "RUNNING"})
    ours("b", status="dnf", run={"status": "KILLED"})
    ours("c", status="incomplete")
    ours("e", status=None)
    ours("f", status=None, run={"status": "FAILED"})
    study = load()
    assert study.methods == ["a", "b", "e"] and study.gaps() == [("d", "b")]
    told = ["written in part only; import or log again", "status FAILED"]
    assert [reason for _, reason in left_out(study)] == told


def test_reports_are_no_results(ours, client):
    ours("a")
    where = {"experiment_id": client.get_experiment_by_name("x").experiment_id, "run_name": "r"}
    run_id = log_report({"mleval_report.html": b"<p>"}, **where, summary="x" * 9000)
    note = client.get_run(run_id).data.tags["mlflow.note.content"]
    assert len(note) == 8000 and "mleval_summary.md" in note[-60:]
    assert load().methods == ["a"] and not left_out(load())
    with pytest.raises(ValueError, match=r"`files` must have paths below a folder.*'\.\./x'"):
        log_report({"../x": ""}, **where)
    refused(NoRunsError, "reports apart", filter_string="tags.`mleval.kind` = 'report'")


def test_a_run_of_a_newer_schema_is_left_out_and_refused_where_it_is_named(ours):
    named = ours("a", schema="2")
    said = "schema 2, and this version of mlflow-mleval knows up to 1. Upgrade"
    refused(NoRunsError, said)
    good = ours("b")
    study = load()
    assert list(study.runs["run_id"]) == [good]
    ((name, reason),) = left_out(study)
    assert named in name and said in reason
    assert named in study.notes[0] and "a later version of mlflow-mleval wrote" in study.notes[0]
    refused(IncomparableRunsError, said, run_ids=[named, good])


def test_mixed_conventions_are_refused(ours):
    ours("a", conventions="mulan")
    ours("b", conventions="sklearn")
    said = r"mulan: 1 run \(a on d\); sklearn: 1 run \(b on d\)"
    refused(IncomparableRunsError, said)
    assert load(methods=["a"]).methods == ["a"]
    ours("c")
    told = load(exclude_methods=["b"]).notes
    assert "The conventions for empty sets and ties are unknown for 1 of 2 finished runs." in told
    assert not any("conventions" in note for note in load(methods=["c"]).notes)  # of all alike


def test_mixed_hierarchies_and_propensities_are_refused_where_they_matter(ours):
    ours("a", measures={"h_f1": 0.5}, hierarchy_digest="1")
    ours("b", "e", {"h_f1": 0.5}, hierarchy_digest="2")
    assert load(missing="worst").datasets == ["d", "e"]
    ours("b", measures={"h_f1": 0.5}, hierarchy_digest="3")
    refused(IncomparableRunsError, "runs on d used different hierarchies")
    for method, digest in (("a", "1"), ("b", "2")):
        ours(method, "p", {"psp_at_7": 0.5, "f1": 0.5}, propensities=digest)
    said = "runs on p took the propensities .* by which psp_at_7 weigh"
    refused(IncomparableRunsError, said, datasets=["p"], measures=["psp_at_7"])
    assert load(datasets=["p"], measures=["f1"]).methods == ["a", "b"]


def test_differing_data_and_splits_are_doubts_and_digests_of_mlflow_are_not_compared(ours):
    for method, digest in (("a", "1" * 64), ("b", "2" * 64)):
        ours(method, dataset_digest=digest, split_digest=digest)
        ours(method, "e", dataset_digest="3" * 64)
    notes = load().notes
    assert any(n.startswith("On d the data were not the same in all runs") for n in notes)
    assert any(n.startswith("On d the data were not split in the same way") for n in notes)
    assert not any("is unknown: some" in n or "On e" in n for n in notes)
    ours("a", "v", dataset_digest="a" * 64)
    ours("b", "v", dataset_digest="b" * 8)
    notes = load(datasets=["v"]).notes
    assert not any("were not the same" in n for n in notes)
    unknown = "Whether the data were the same in all runs on v is unknown: some"
    assert any(n.startswith(unknown) for n in notes)


def test_measures_by_default(ours):
    shared = {"f1": 0.5, "coverage": 2, "fit_time": 9, "odd": 1, "binomial_slope": 0.1}
    ours("a", measures={**shared, "recall": 0.4})
    ours("b", measures=shared)
    ours("c", measures={}, status="dnf")
    study = load()
    assert study.measures == ["f1", "coverage"] and study.minimize == ["coverage"]
    unasked = "not asked for, and not compared by default; `measures=` names it"
    for name, kind, reason in (
        ("recall", "measure", "lacking in 1 of 2 finished runs"),
        ("fit_time", "unasked", unasked),
        ("odd", "measure", "no direction is known; declare `minimize=` or `maximize=`"),
        ("binomial_slope", "unasked", unasked),
    ):
        (why,) = (e for e in study.excluded if e.name == name)
        assert why.kind == kind and why.reason.startswith(reason)
    assert len(study.excluded) == 4
    doubts = compare(study.complete("worst")).doubts
    assert any("odd" in text for text in doubts) and not any("fit_time" in text for text in doubts)
    assert load(minimize=["odd"]).measures == ["f1", "coverage", "odd"]
    assert load(minimize=["f1"]).directions["f1"] == "min"
    assert load(measures=["f1", "awareness"]).measures == ["f1", "binomial_slope"]
    assert load(minimize=["binomial_slope"]).measures == ["f1", "coverage", "binomial_slope"]


ONE_LABEL = "the set one-label, the default for one label"
TWO_OF_SIX = f"{ONE_LABEL} (2 of 6, as far as all runs have them)"
CLASS_SETS = "the set class-sets, the default for class sets"
NO_SET = "those known here that all runs have, for no default set applies"
BOTH_SETS = [*SETS["sixteen"], *SETS["hierarchical"]]
COSTLY = [*SETS["sixteen"], *SETS["dependence"], "weighted_f1", "fit_time"]


@pytest.mark.parametrize(
    ("have", "used", "told"),
    [
        (COSTLY, SETS["sixteen"], SIXTEEN),
        (BOTH_SETS, SETS["class-sets"], CLASS_SETS),
        ([*SETS["one-label"], "kappa", "ece_15", "weighted_f1"], SETS["one-label"], ONE_LABEL),
        (["macro_f1", "log_loss"], ["macro_f1", "log_loss"], TWO_OF_SIX),
        (["gie", "h_loss"], ["gie", "h_loss"], NO_SET),
    ],
)
def test_a_named_set_ranks_what_nobody_chose_measures_for(ours, have, used, told):
    for method in "ab":
        ours(method, measures=dict.fromkeys(have, 0.5), plain={"odd": 1.0})
    study = load()
    assert set(study.measures) == set(used) and study.source["measures_by"] == told
    assert {e.kind for e in study.excluded if e.name != "odd"} <= {"unasked"}
    costs = ["fit_time"] if "fit_time" in have else []
    study = load(minimize=["odd"], maximize=costs)
    assert len(study.measures) == len(used) + len(costs) + 1
    by = study.source["measures_by"]
    assert by.startswith(told) or "you declared" in by
    named = load(measures=have[-1:])
    assert named.measures == have[-1:]
    assert named.source["measures_by"] == f"those that you named ({have[-1]})"
    expected = f"those that you kept of {len(study.measures)}"
    assert study.select(exclude=["odd"]).source["measures_by"] == expected


def test_values_and_directions_against_the_definition_are_doubts(ours):
    high, low = (1.4, 1 + 1e-12, 7), (0.6, 0.0, 3)
    for method, values in (("a", high), ("b", low)):
        measures = dict(zip(("f1", "recall", "coverage"), values, strict=True))
        ours(method, measures=measures, conventions="sklearn")
    (note,) = load().notes
    assert note.startswith("f1 goes from 0 to 1, but not on d for a (0.6 to 1.4 over all). Is it")
    study = load(measures=["recall", "coverage"], minimize=["recall"], maximize=["coverage"])
    both = ("smaller values of recall", "larger values of coverage")
    for note, turned in zip(study.notes, both, strict=True):
        assert note.startswith(f"As declared, {turned} count as better;")
    assert load(measures=["recall"], maximize=["recall"]).notes == ()


def test_percentages_beside_shares_stop_until_they_are_named(log):
    for name, value in (("a", 76.1), ("b", 74.0), ("c", 0.75)):
        log(name, {"test_accuracy": value, "loss": value})
    refused(CandidatesError, "is a percentage in some runs.*c on x .*2 runs from 74.*percent=")
    found = load(percent="test_accuracy").values["test_accuracy"].tolist()
    assert found == pytest.approx([0.761, 0.74, 0.75])
    refused(MeasureError, "as a percentage. Did you mean 'test_accuracy'", percent="test_acuracy")
    for i, value in enumerate((0, 0, 0, 1, 2, 4, 8)):  # counts: a result of 0 is on any scale
        log(f"m{i}", {"f1": value}, experiment="counts")
    assert load(experiment_names=["counts"]).values["f1"].max() == 8


def test_measures_by_name(ours):
    ours("a", measures={"f1": 0.5, "recall": 0.4, "fit_time": 9, "odd": 1})
    ours("b", measures={"f1": 0.6, "fit_time": 8, "odd": 1})
    assert load(measures=["recall", "f1"]).gaps() == [("d", "b")]
    assert load(measures=["fit_time"]).minimize == ["fit_time"]
    assert not load(measures=["f1"]).excluded
    study = load(measures=["example", "odd"], maximize=["odd"])
    assert study.measures == ["recall", "f1", "odd"]
    assert {name for name, _ in left_out(study)} == set(SETS["example"]) - {"recall", "f1"}
    found = left_out(load(exclude_measures=["f1"], measures=["f1", "odd"], minimize=["odd"]))
    assert found == [("f1", "excluded as asked")]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"measures": ["odd"]}, r"known for 'odd'. Choose: `maximize=\['odd'\]`"),
        ({"measures": ["od"], "maximize": ["od"]}, "has 'od'; there are .*Did you mean 'odd'"),
        ({"measures": ["coverage"]}, "no finished run has 'coverage'; there are f1, odd, recall"),
        ({"exclude_measures": ["f2"]}, "no finished run has 'f2'"),
        ({"exclude_measures": ["f1"]}, "in common .* lacking in 1 of 2.*f1: excluded as asked"),
        ({"measures": []}, r"to 2 finished runs that can be used\. "),
        ({"minimize": ["odd"], "maximize": ["odd"]}, "both as minimised and as max"),
    ],
)
def test_measures_that_cannot_be_had_are_named_with_those_that_can(ours, options, said):
    ours("a", measures={"f1": 0.5, "recall": 0.4, "odd": 1})
    ours("b", measures={"f1": 0.6, "odd": 1})
    refused(ValueError if "minimize" in options else MeasureError, said, **options)


def test_one_run_without_what_all_others_have_is_left_out(ours):
    for method in "abc":
        ours(method)
    for values in ({"f1": float("inf")}, {"mine": 0.5}, {"recall": 0.5}, {}):
        odd = ours("odd", "e", values)
        study = load(missing="worst")
        assert (study.methods, study.measures) == (["a", "b", "c"], ["f1"])
        assert [e.name for e in study.excluded if e.kind == "run"] == [f"odd on e (run {odd})"]
        refused(MeasureError, "no measure in common", run_ids=[*study.runs["run_id"], odd])
        MlflowClient().delete_run(odd)


def test_values_that_are_not_finite_are_dropped_and_listed(ours):
    ours("a", measures={"f1": 0.5, "recall": 0.5})
    bad = []
    for method, value in zip("bce", (float("nan"), float("inf"), -float("inf")), strict=True):
        values = {"f1": value, "recall": 0.5}
        bad.append(f"{method} on d (run {ours(method, measures=values, plain={'loss': value})})")
    study = load()
    assert study.measures == ["recall"]
    assert sorted({e.name for e in study.excluded if e.kind == "cell"}) == bad
    assert load(measures=["f1"]).gaps() == [("d", "b"), ("d", "c"), ("d", "e")]


def test_methods_and_datasets_are_kept_or_left_out(ours):
    for method, dataset in itertools.product("abc", "de"):
        ours(method, dataset)
    study = load(exclude_methods=["a"], datasets=["e"])
    assert (study.methods, study.datasets) == (["b", "c"], ["e"])
    refused(NoRunsError, "has no method 'z'; it has 'a', 'b', 'c'", methods=["a", "z"])
    refused(NoRunsError, "no dataset 'z'", exclude_datasets=["z"])
    refused(NoRunsError, "no method is left", exclude_methods=["a", "b", "c"])


def test_the_latest_of_several_runs_counts_where_asked_for_and_no_withdrawn_value(ours, client):
    old, _, other = (
        ours("a", measures={"f1": value}, run={"start": start})
        for value, start in ((0.5, 1000), (0.6, 3000), (0.7, 2000))
    )
    study = load(duplicates="latest")
    assert study.values["f1"].tolist() == [0.6] and study.repeats is None
    reason = "2 runs were passed over, because a later one of the same method and dataset counts"
    assert left_out(study) == [(f"a on d (run {old})", reason), (f"a on d (run {other})", reason)]
    run_id = ours("b", measures={"f1": 0.5, "recall": 0.5})
    client.log_batch(run_id, tags=[RunTag(schema.TAG_WITHDRAWN, '["f1"]')])
    assert load(methods=["b"]).measures == ["recall"]


def test_filter_run_ids_and_several_experiments(ours):
    rate = {"params": {"lr": "1"}}
    a = ours("a", run=rate)
    b = ours("b", measures={"f1": 0.6}, run={"experiment": "y", **rate})
    c = ours("c", run={"experiment": "z"})
    assert load(experiment_names=["x", "y"], experiment_ids=["1"]).methods == ["a", "b"]
    fast = {"filter_string": "params.lr = '1'"}
    assert load(experiment_names=["x", "y", "z"], **fast).methods == ["a", "b"]
    assert load_study(run_ids=[c, a]).methods == ["a", "c"]
    assert load_study(run_ids=[a, b, a], **fast).methods == ["a", "b"]
    assert [e["name"] for e in load_study(run_ids=[b]).source["experiments"]] == ["y"]
    refused(NoRunsError, f"there is no run {b} in the selection", run_ids=[a, b])
    refused(NoRunsError, "no run id: ", run_ids=["' or 1=1"])
    refused(NoRunsError, "that can be used: no run fits", filter_string="params.lr = '7'")
    said = r"MLflow does not accept the filter 'nonsense': Invalid clause.*Examples: params"
    refused(StoreError, said, filter_string="nonsense")
    missing = [f"{i:032x}" for i in range(1200)]  # more than fit one filter
    refused(NoRunsError, "and 1188 more in the selection", run_ids=[a, *missing])


def test_which_experiments(ours, monkeypatch, client):
    ours("a")
    client.create_run(client.create_experiment("tried"))  # holds no result
    assert load_study().methods == ["a"]  # it alone can be compared
    ours("b", run={"experiment": "other"})
    said = r"no experiment is chosen.*`experiment_names=\[NAME\]`.*has .*'x', 'Default'"
    refused(NoRunsError, said, experiment_names=())
    said = r"there is no experiment 'y'. The store sqlite.*has .*'x', 'Default'"
    refused(NoRunsError, said, experiment_names=["y"])
    refused(NoRunsError, "there is no experiment id '7'", experiment_ids=["7"])
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "x")
    assert load_study().methods == ["a"]
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "0")
    refused(NoRunsError, "experiment 'Default' in sqlite", experiment_names=())
    client.delete_experiment(client.get_experiment_by_name("x").experiment_id)
    refused(NoRunsError, "'x' is deleted")


def test_foreign_runs_by_default_rules(log):
    log("ml-knn", {"f1": 0.5, "loss": 3})
    log("sweet-owl-1", {"f1": 0.6}, params={"estimator_name": "SVC"}, dataset="yeast", digest="1")
    log("sweet-owl-2", {"f1": 0.7}, tags={"estimator_name": "RF"}, dataset="dataset")
    study = load(missing="worst")
    expected = {("x", "ml-knn"): 0.5, ("yeast", "SVC"): 0.6, ("x", "RF"): 0.7}
    assert study.values["f1"].to_dict() == expected
    assert study.runs["dataset_digest"].tolist() == ["", "1", "0"]
    by = {factor.what: factor.by for factor in study.factors}
    assert by["method"] == "scikit-learn's estimator (2 runs), the name of the run (1 run)"
    assert by["dataset"] == "the experiment (2 runs), the name of the dataset input (1 run)"
    assert "These may be 2 datasets, for nothing but the experiment" in study.unsure("dataset")
    said = "Taken for measures of these names, though not logged by this project: f1"
    assert any(said in note for note in study.notes)
    declare = "no direction is known; declare `minimize=` or `maximize=`"
    confirm = "or take the one that its name suggests (min) by `directions='proposed'`"
    assert left_out(study) == [("loss", f"{declare}, {confirm}")]
    log("a", {"accuracy": 0.7, "f1": 0.7}, experiment="y")
    study = load(experiment_names=["y"])
    assert study.measures == ["accuracy", "f1"]
    assert "not logged by this project: accuracy, f1." in study.notes[0]
    assert study.notes[0].endswith("share of whole sets; here it is the Jaccard index.")
    assert "Jaccard" not in load(experiment_names=["y"], measures=["f1"]).notes[0]


def test_foreign_runs_by_given_rules(log):
    log("name", {"f1": 0.5}, tags={"m": "tagged"}, params={"d": "set"}, dataset="data")
    log("other", {"f1": 0.5}, experiment="x")
    for method_by, dataset_by, expected in (
        ("tag:m", "param:d", ("tagged", "set")),
        ("param:d", "tag:m", ("set", "tagged")),
        ("run_name", "experiment", ("name", "x")),
        ("experiment", "run_name", ("x", "name")),
        ("tag:m", "input", ("tagged", "data")),
    ):
        study = load(method_by=method_by, dataset_by=dataset_by, missing="worst")
        assert expected[::-1] in study.values.index
        assert (study.source["method_by"], study.source["dataset_by"]) == (method_by, dataset_by)
        if method_by == "tag:m":
            (unnamed,) = left_out(study)
            assert unnamed[1] == "no tag:m, which was to name the method"


def test_two_periods_are_methods(log):
    for day, f1, model in ((14, 0.5, "rf"), (15, 0.6, "rf"), (16, 0.8, "rf"), (17, 0.9, "xgb")):
        start = int(pd.Timestamp(2026, 11, day, 12).timestamp() * 1000)
        log("nightly", {"f1": f1}, dataset="d", start=start, params={"seed": day, "model": model})
    periods = {"method_by": "since:2026-11-16", "maximize": ["f1"], "duplicates": "mean"}
    study = load(**periods)
    means = {"before 2026-11-16": 0.55, "since 2026-11-16": 0.85}
    assert study.values["f1"]["d"].to_dict() == pytest.approx(means)
    (doubt,) = (note for note in study.notes if note.startswith("Runs before"))
    assert doubt.endswith("since 2026-11-16 differ in model, too: a difference may be theirs.")
    alike = load(**{**periods, "filter_string": "params.model = 'rf'"})
    assert len(alike.methods) == 2 and "too: a difference" not in str(alike.notes)
    both = load(**{**periods, "method_by": ["param:model", "since:2020-01-01"]})
    assert [*both.methods] == ["rf, since 2020-01-01", "xgb, since 2020-01-01"]
    refused(ValueError, "must be since: and a span .* got 'soon'", method_by="since:soon")


def test_of_several_inputs_the_one_for_testing_names_the_dataset(log, client):
    def add(name, digest, context):
        label = [InputTag("mlflow.data.context", context)]
        given = DatasetInput(Dataset(name, digest, "local", "{}"), label)
        client.log_inputs(run_id, [given])

    run_id = log("a", {"f1": 0.5}, dataset="train", context="training")
    add("yeast", "2", "eval")
    assert load().datasets == ["yeast"]
    add("test", "3", "test")
    assert load().datasets == ["x"]
    refused(NoRunsError, "1 run: no input, which was to name the dataset", dataset_by="input")


def test_what_of_foreign_runs_is_no_result(log):
    parent = log("search", {"f1": 0.5})
    for i in range(3):
        log(f"child {i}", {"f1": 0.4}, tags={"mlflow.parentRunId": parent})
    log("broken", {"f1": 0.9}, status="FAILED")
    log("running", {"f1": 0.9}, status="RUNNING")
    log("data preparation", {"rows": 5})
    study = load()
    assert study.methods == ["search"]
    runs = left_out(study, "run")
    assert [reason for _, reason in runs][:2] == ["status FAILED", "status RUNNING"]
    nobody_knows = "nobody knows which way its metrics are better (rows); declare `minimize="
    assert runs[2][1].startswith(nobody_knows)
    assert runs[0][0].startswith("broken (")
    children = left_out(study, "child run")
    assert [name.split(" (")[0] for name, _ in children] == ["child 0", "child 1", "child 2"]
    assert {reason for _, reason in children} == {"children of other runs are no results"}


def test_strays_among_our_runs_need_a_rule_and_our_own_children_count(ours, log):
    parent = ours("a", measures={"f1": 0.5, "recall": 0.5}, plain={"accuracy": 0.9})
    log("keras", {"accuracy": 0.9, "f1": 0.5})
    study = load()
    assert study.methods == ["a"] and study.measures == ["recall", "f1"]
    reason = "no tag mleval.method; `method_by=` and `dataset_by=` say how to read such a run"
    assert [why for _, why in left_out(study, "run")] == [reason]
    both = load(dataset_by="experiment")
    assert both.methods == ["a", "keras"] and both.measures == ["f1"]
    ours("b", run={"tags": {"mlflow.parentRunId": parent}})
    assert load().methods == ["a", "b"]


def test_nothing_that_can_be_used_says_why(log, ours):
    log("a", {"loss": 1})
    log("b", {"f1": 0.5}, status="FAILED")
    nobody = r"1 run: nobody knows .* \(loss\); declare .* suggest: `directions='proposed'`"
    refused(NoRunsError, f"'x' in .* holds no run .* used: {nobody}; 1 run: status FAILED")
    ours("c", measures={}, status="dnf")
    refused(NoRunsError, "of 1 selected run none finished")


def test_a_store_that_is_not_there(db, monkeypatch, tmp_path):
    def refused(uri, said, call=load):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        with pytest.raises(StoreError, match=said) as caught:
            call()
        return str(caught.value)

    away = refused("http://me:s3cret@127.0.0.1:9", "cannot read the store .*Is the server running")
    assert "http://me:***@127.0.0.1:9" in away and "s3cret" not in away
    refused(f"sqlite:///{tmp_path}/none.db", "there is no store at .*none.db. Set MLFLOW_TRACKING_")
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "junk.db").write_text("this is no database at all")
    refused(f"sqlite:///{tmp_path}/junk.db", "file is not a database")
    table = pd.DataFrame({"dataset": ["d"], "method": ["a"], "f1": [1]})
    below = f"sqlite:///{tmp_path}/junk.db/deep/mlflow.db"
    refused(below, "Not a directory", lambda: import_results(table, experiment_name="x"))


def test_a_setting_holds_until_the_last_thread_that_needs_it_ends(monkeypatch):
    name = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
    monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "7")  # the user's own stays
    before = dict(os.environ)
    first, second = (store.budget.environment(**store.QUICK) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.environ[name] == "1" and os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "7"
    second.__exit__(None, None, None)
    assert dict(os.environ) == before


def test_many_pages_read_as_one_and_runs_of_one_time_may_fill_them(ours, client, monkeypatch):
    for i in range(7):
        ours(f"m{i}", measures={"f1": i / 10}, run={"experiment": "seven"})
    monkeypatch.setattr(store, "_DATABASE_PAGE", 3)
    told = []
    study = load(experiment_names=["seven"], progress=lambda *step: told.append(step))
    assert study.methods == [f"m{i}" for i in range(7)]
    assert told == [(3, 0), (5, 0), (7, 0), (7, 7)]
    experiment_id = client.create_experiment("x")
    times = [5, *[7] * 8, 9, 9, 9, 9, 12]
    runs = [client.create_run(experiment_id, start_time=time) for time in times]
    sizes = [len(page) for page in store.pages(client, [experiment_id], "")]
    read = store.search(client, [experiment_id])
    ids = [run.info.run_id for run in read]
    assert sorted(ids) == sorted(run.info.run_id for run in runs) and sum(sizes) == len(runs)
    assert [run.info.start_time for run in read] == times


def test_what_was_read_of_more_experiments_is_not_read_again(client):
    ids = [client.create_experiment(name) for name in "xyz"]
    first = [client.create_run(each).info.run_id for each in ids]

    def read(own, filter_string=""):
        selection = Selection(experiment_ids=own, filter_string=filter_string)
        table = read_store(client, selection)
        assert [*table.experiments] == own
        return table.frame["run_id"].tolist()

    with remembered():
        assert sorted(read(ids[:2])) == sorted(first[:2])
        client.create_run(ids[0])
        for own in (ids[:1], ids[1:2], ids[:2]):
            assert sorted(read(own)) == sorted(first[ids.index(own[0]) :][: len(own)])
        assert len(read(ids[:1], "attributes.status = 'RUNNING'")) == 2
        assert sorted(read(ids[1:])) == sorted(first[1:])
    assert len(read(ids[:1])) == 2


@pytest.mark.parametrize("wanted", [True, False])
def test_the_garbage_collector_is_as_the_user_has_it(client, monkeypatch, wanted):
    during, client = [], store.connect()

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


def test_scores_named_after_estimator_and_variable_are_one_measure(log):
    for estimator, value in (("SVC", 0.9), ("GaussianNB", 0.8)):
        metrics = {"training_score": 1.0, f"{estimator}_score_X_test": value}
        log(f"{estimator} run", metrics, tags={"estimator_name": estimator})
    study = load()
    assert study.measures == ["score"] and study.directions == {"score": "max"}
    assert study.values["score"].tolist() == [0.9, 0.8]
    told = study.notes
    assert "score is what MLflow logged as SVC_score_X_test, GaussianNB_score_X_test." in told
    by_training = load(measures=["training_score"])
    assert by_training.notes[0] == "Training data: says nothing of new data (training_score)."
    both = ["training_score", "score"]
    refused(MeasureError, "training_score is of training data, and score not", measures=both)
    assert load(maximize=["training_score"]).measures == ["training_score"]
    for name in "ab":
        log(name, {"training_f1_score": 0.8, "accuracy": 0.7}, experiment="y")
    of_training = load(experiment_names=["y"], maximize=["training_f1_score"])
    assert "measures of training data were asked for" in dict(left_out(of_training))["accuracy"]


def test_test_data_come_before_validation_data_and_a_proposed_direction_is_confirmed(log):
    for name, value in (("a", 0.5), ("b", 0.7)):
        keras = {"accuracy": 0.99, "loss": 0.1, "val_accuracy": value, "val_loss": 1 - value}
        log(name, keras)
    assert load().measures == ["val_accuracy", "val_loss"] and load().minimize == ["val_loss"]
    log("c", {"val_accuracy": 0.6, "val_loss": 0.4, "test_accuracy": 0.6, "lr": 0.1})
    assert dict(left_out(load()))["test_accuracy"] == "lacking in 2 of 3 finished runs"
    assert load(methods=["c"]).measures == ["test_accuracy"]
    log("d", {"val_acc": 0.5, "latency_s": 3}, experiment="y")
    refused(NoRunsError, "`directions='proposed'`", experiment_names=["y"])
    study = load(experiment_names=["y"], directions="proposed")
    assert study.directions == {"val_acc": "max", "latency_s": "min"}
    assert any("Taken from their names" in note for note in study.notes)
    refused(ValueError, "`directions` must be one of 'declared', 'proposed'", directions="guessed")


def test_runs_on_other_data_are_no_repeats_and_each_way_on_works(log):
    for method, seed in itertools.product("ab", range(4)):
        of = {"dataset": "wine", "digest": "old" if seed < 2 else "new"}
        log(method, {"f1": 0.5 + seed / 10}, params={"seed": str(seed)}, **of)
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
        value = len(m) / 10 + len(d) / 99 + int(s) / 999
        log(name.format(m=m, d=d, s=s), {"f1": value}, params=parts)
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


def test_a_method_of_two_words_tells_of_no_dataset(log):
    """Parts of the runs' names that vary together are one name."""
    for (i, m), s in itertools.product(enumerate(("random forest", "big net")), range(8)):
        params = {"model": m, "seed": str(s)}
        log(f"{m} split {s}", {"f1": 0.5 + i / 9 + s % 3 / 99}, params=params)
    study = load(method_by="param:model")
    assert study.unsure("dataset") == "" and compare(study).separated


def test_experiments_whose_runs_are_numbered_are_studies_and_methods(log):
    tops = {"svm": 0.8, "forest": 0.9}
    for study, trial in itertools.product(tops, range(4)):
        log(str(trial), {"f1": tops[study] - trial / 9}, params={"x": trial}, experiment=study)
    both = {"experiment_names": ["svm", "forest"]}
    study, held = take_stock(Selection(**both))
    (way,) = held.rankings
    assert (way.selection.method_by, way.selection.duplicates) == (("experiment",), "best:f1")
    assert way.study.datasets == ["all runs"] and {*way.study.methods} == {"svm", "forest"}
    assert any("are optimistic" in note for note in way.study.notes)


def test_the_columns_of_a_table_count_as_features_where_scikit_learn_was_fitted_on_it(log):
    """Those of an evaluation may hold its outputs."""
    for columns, model, name in itertools.product((2, 3), ("svc", "rf"), ("fitted", "evaluated")):
        profile = f'{{"num_rows": 10, "num_elements": {10 * columns}}}'
        of = {"dataset": "dataset", "digest": str(columns), "profile": profile}
        tags = {"estimator_name": model} if name == "fitted" else {}
        log(model, {"f1": columns / 10}, experiment=name, tags=tags, **of)
    fitted = load(experiment_names=["fitted"])
    assert fitted.datasets == ["fitted (2 features)", "fitted (3 features)"]
    assert load(experiment_names=["evaluated"], duplicates="mean").datasets == ["evaluated"]


@pytest.mark.filterwarnings("error::pandas.errors.PerformanceWarning")
def test_names_of_runs_are_read_by_a_pattern(log):
    many = {f"own_{i}": 1 for i in range(120)}
    for model, data, seed in itertools.product(("bert", "gpt"), ("imdb", "sst"), range(2)):
        log(f"{model}_{data}_s{seed}", {"f1": 0.5 + seed / 10, **many})
    log("scratch", {"f1": 0.1})
    study = load(name_as="{method}_{dataset}_s{seed}")
    assert (study.methods, study.datasets) == (["bert", "gpt"], ["imdb", "sst"])
    assert [e.name.split(" ")[0] for e in study.excluded if e.kind == "run"] == ["scratch"]
    assert study.repeats.index.tolist()[1] == ("imdb", "bert", "1")
    refused(NoRunsError, "has a name like '{method}-{seed}'; they have", name_as="{method}-{seed}")
    for wrong in ("{dataset}", "{method}{method}", "{method}{fold}"):
        refused(ValueError, "`name_as` must hold {method}, and maybe {dataset}", name_as=wrong)


def test_hold_out_and_cross_validation_are_no_repeats(log):
    log("a", {"f1": 0.5}, params={"seed": "1"})
    log("a", {"f1": 0.6, "f1_std": 0.1}, params={"seed": "2"})
    refused(CandidatesError, "2 runs that differ in number of folds")


def test_pipelines_and_searches_are_named_by_what_they_hold(log):
    steps = "[('standardscaler', StandardScaler()), ('svc', SVC())]"
    log("x", {"f1": 0.5}, tags={"estimator_name": "Pipeline"}, params={"steps": steps})
    search = {"estimator": f"Pipeline(steps={steps})", "best_svc__C": "10", "random_state": "1"}
    searched = {"estimator_name": "GridSearchCV"}
    log("y", {"f1": 0.6, "best_cv_score": 0.5}, tags=searched, params=search)
    other = search | {"best_svc__C": "1", "random_state": "2"}
    log("z", {"f1": 0.7, "best_cv_score": 0.5}, tags=searched, params=other)
    study = load(measures=["f1"])
    assert study.methods == ["Pipeline(StandardScaler, SVC)", "GridSearchCV(StandardScaler, SVC)"]
    assert study.n_repeats["x", study.methods[1]] == 2
