"""`mleval compare --over` and `mleval profile`: tests over folds, over instances, and of loss
profiles of tracked runs; profiles in reports and rankings.
"""

import json
from functools import partial

import command_line
import numpy as np
import pytest

import mlflow_mleval as mleval
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.store import runs, schema
from mlflow_mleval.store.study_artifacts import instances_of, load_folds

N, K, FOLDS = 200, 4, 10


@pytest.fixture(scope="module")
def store(own_store):
    """Three methods on a multi-label dataset with folds and instances, and counts of two binary
    classifiers from a file.
    """
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, (N, K))
    how = {"dataset": "made", "experiment_name": "made", "log_instances": True}
    for method, noise in (("good", 0.3), ("also", 0.3), ("bad", 0.7)):
        scores = truth + rng.normal(0, noise, (N, K))
        ev = mleval.evaluate(truth, scores, folds=np.arange(N) % FOLDS)
        wards = {k: f"w{k // 8}" for k in range(0, N, 8)}
        wards[16] += method
        ev.instances["author"] = [f"<b>{k // 8}" for k in range(N)]
        ev.instances["ward"] = [wards.get(k, "") for k in range(N)]
        mleval.log_evaluation(ev, method=method, **how)
    rows = ["dataset,method,fold,tp,fn,fp,tn"]
    for m, a, b in (("LDA", 14, 0), ("QDA", 17, 4)):
        drawn = zip(rng.integers(a, a + 3, FOLDS), rng.integers(b, b + 3, FOLDS), strict=True)
        rows += [f"cancer,{m},{f},{t},{20 - t},{p},{35 - p}" for f, (t, p) in enumerate(drawn)]
    (own_store / "counts.csv").write_text("\n".join(rows))
    assert "2 runs created" in command_line.mleval("import", "counts.csv", "-n counts").stdout
    return own_store


mleval_ = partial(command_line.mleval, "compare")
as_json = partial(command_line.as_json, "compare")


def made(*args):
    """What is told of the dataset `made`, as JSON."""
    return as_json("-n made", *args)["datasets"]["made"]


def test_folds_are_tested_on_measures_that_are_named(store):
    found = as_json("-n made --over folds -m f1 -m hamming_loss")
    study = mleval.load_study(experiment_names=["made"], measures=["f1", "hamming_loss"])
    expected = mleval.compare_folds(study, "made", ["f1", "hamming_loss"])
    pvalues = [row["pvalue"] for row in found["pairs"]]
    assert pvalues == pytest.approx(expected.pairs["pvalue"].tolist())
    assert found["over"] == "folds"
    assert found["datasets"]["made"]["measures"] == ["f1", "hamming_loss"]
    command_line.mleval("report", "-n made -o made.html")
    page = (store / "made.html").read_text(encoding="utf-8")
    assert 'id="folds"' in page and (store / "made_data" / "fold_pairs.csv").exists()


def test_rates_come_from_the_counts_of_runs_and_from_metrics_that_were_imported(store):
    study = load_folds(["tpr", "fpr", "f1"], experiment_names=["made"])
    found = mleval.compare_folds(study, "made", ["tpr", "fpr"])
    recall = mleval.load_study(experiment_names=["made"]).folds["micro_recall"]
    expected = recall.loc["made"].loc[found.values.index].to_numpy()
    assert found.values["tpr"].to_numpy() == pytest.approx(expected)
    assert "tpr ↑" in mleval_("-n made --over folds -m tpr -m fpr").stdout
    text = mleval_("-n counts --over folds -m tpr -m fpr").stdout
    assert "separates LDA and QDA" in text and "fpr" in text


def test_measures_that_depend_are_refused_by_name_and_left_out_on_request(store):
    message = mleval_("-n counts --over folds -m tp -m fn", code=1).output
    assert "fn" in message and "cancer" in message
    counts = "-n counts --over folds -m tp -m fp -m tn -m fn"
    found = as_json(counts, "--protocol :dependent=drop")["datasets"]["cancer"]
    rates = as_json("-n counts --over folds -m tp -m fp")["datasets"]["cancer"]
    assert found["measures"] == ["tp", "fp"] and found["table"] == rates["table"]
    assert {"Left out: fn follows from tp.", "Left out: tn follows from fp."} <= {*found["doubts"]}


def test_options_say_how_folds_came_about(store):
    found = made("--over folds -m f1", "--protocol", "resampled:ratio=0.5")
    assert found["protocol"]["kind"] == "resampled" and found["protocol"]["ratio"] == 0.5
    assert "naive" in found["refusals"]
    assert made("--over folds -m f1", "--protocol", ":unpaired")["paired"] is False


def test_options_that_do_not_fit_are_wrong_usage(store):
    for over, named, *typed in (
        ("folds", "--on", "--on=f1"),
        ("folds", "--control", "--control=good"),
        ("folds", "--seed :draws", "--seed=:draws=99"),
        ("folds", "--weights", "--weights=equal"),
        ("folds", "--missing", "--missing=worst"),
        ("folds", "--seed", "--seed=1"),
        ("folds", "--rope", "--rope=0.1"),
        ("instances", "--protocol :unpaired", "--protocol=:unpaired"),
        ("instances", "--protocol :ratio", "--protocol=:ratio=1"),
        ("instances", "--protocol :dependent", "--protocol=:dependent=drop"),
        ("instances", "--missing", "--missing=drop-methods"),
        ("instances", "--as-in-papers", "--as-in-papers"),
    ):
        told = mleval_("-n made", "--over", over, *typed, code=2).output
        assert f"{named}: only for tests over " in told
    assert "'--seed :draws'" in mleval_("-n made --over instances --seed :draws=0", code=2).output
    shown = mleval_("-n made --protocol :dependent=drop", code=2).output
    assert "--protocol :dependent: only for tests over folds" in shown
    said = mleval_("-n made --over folds --missing worst --seed 1 --on f1", code=2).output
    assert (
        "--missing, --on: only for tests over datasets; --seed: only for tests over datasets "
        "or instances. Leave out what does not fit, or change --over." in " ".join(said.split())
    )


@pytest.mark.parametrize("over", ["folds", "instances"])
def test_measures_that_are_excluded_are_not_tested(store, over):
    args = ["--over", over, "-m f1 -m accuracy --exclude measure=accuracy"]
    assert made(*args)["measures"] == ["f1"]
    left = mleval_("-n made", *args, "--exclude measure=f1", code=1).output
    assert "no measure is left" in left


def test_instances_of_a_cross_validation_are_blocks_and_others_cluster_as_a_column_says(store):
    args = ["-n made --over instances -m f1 --seed :draws=199"]
    plain = as_json(*args)
    assert plain["n_instances"] == N and len(plain["pairs"]) == 3
    apart = {frozenset((r["method_a"], r["method_b"])) for r in plain["pairs"] if r["separated"]}
    assert apart == {frozenset(("good", "bad")), frozenset(("also", "bad"))}
    assert plain["pairs"][0]["dataset"] == "made"
    assert plain["datasets"]["made"]["n_clusters"] is None
    assert "judged by 10 models" in plain["doubts"][0]
    authors = as_json(*args, "--cluster", "author")
    assert authors["datasets"]["made"]["n_clusters"] == N // 8
    assert not any("judged by" in said for said in authors["doubts"])
    assert made("--over instances -m f1 --cluster fold")["n_clusters"] == FOLDS
    several = "puts 1 into several: 16 ('w2good' by good and 'w2also'"
    for asked, code, said in (
        ([*args, "--cluster", "ward"], 1, several),
        ([*args, "--cluster", "passage"], 1, "have no column 'passage'"),
        (["-n made --cluster x"], 2, "--cluster: only for tests over instances"),
        (["-n counts --over instances --max tp"], 1, "log_instances=True"),
    ):
        assert said in " ".join(mleval_(*asked, code=code).output.split())


def test_draws_and_seed_reach_the_test_over_instances_and_are_told(store):
    args = ["-n made --over instances -m f1 --exclude method=bad"]
    found = [as_json(*args, "--seed", f"{seed}:draws=99") for seed in (1, 1, 2)]
    tests = [record["datasets"]["made"] for record in found]
    assert [(t["n_draws"], t["seed"]) for t in tests] == [(99, 1), (99, 1), (99, 2)]
    assert found[0]["provenance"]["seed"] == 1
    assert tests[0]["table"] == tests[1]["table"] != tests[2]["table"]
    told = mleval_(*args, "--seed :draws=99 --seed 1").stdout
    assert "(99 draws, seed 1)" in " ".join(told.split())
    assert "(9,999 draws, seed 0)" in " ".join(mleval_(*args, "--output", "latex").stdout.split())


def test_values_by_instance_are_those_of_the_evaluation_in_one_order(store):
    study = mleval.load_study(experiment_names=["made"])
    with instances_of(study, "made", ["hamming_loss"]) as known:
        columns = [read("hamming_loss") for read in known.tables.values()]
    assert all(column.index.equals(columns[0].index) for column in columns)
    assert columns[0].mean() == pytest.approx(study.values.loc[("made", "good"), "hamming_loss"])
    study.runs["dataset_digest"] = [letter * 59 + "-sets" for letter in "aba"]
    with pytest.raises(IncomparableRunsError, match="other data"), instances_of(study, "made"):
        pass


def test_instances_in_another_order_are_refused(store):
    truth = np.random.default_rng(0).integers(0, 2, (N, K))
    for method, order in (("a", slice(None)), ("b", slice(None, None, -1))):
        ev = mleval.evaluate(truth[order], truth[order] * 0.9)
        mleval.log_evaluation(
            ev, method=method, dataset="turned", experiment_name="turned", log_instances=True
        )
    study = mleval.load_study(experiment_names=["turned"])
    assert study.runs["dataset_digest"].nunique() == 1
    said = "the instances of turned have other true labels, or another order, in other runs"
    with pytest.raises(IncomparableRunsError, match=said), instances_of(study, "turned"):
        pass


def test_data_that_are_known_to_be_the_same_need_no_note(store):
    study = mleval.load_study(experiment_names=["made"])
    with instances_of(study, "made") as known:
        assert known.notes == ()


def test_that_each_is_better_on_another_dataset_is_told_first(db):
    rows = ["dataset,method,seed,f1"]
    for data, better in (("web", "A"), ("phone", "B")):
        for seed in range(10):
            values = {m: 0.75 if m == better else 0.65 for m in "AB"}
            rows += [f"{data},{m},{seed},{x + seed / 500}" for m, x in values.items()]
    (db.parent / "cross.csv").write_text("\n".join(rows))
    command_line.mleval("import", "cross.csv")
    asked = "-n cross --over repeats"
    first = "It depends: A is better on web, B on phone (by f1)."
    assert mleval_(asked).stdout.startswith(first)
    assert as_json(asked)["verdict"].startswith(first)
    brief = json.loads(mleval_(asked, "--output brief").stdout)["decision"]
    assert brief.startswith("It depends: “A” is better on “web”, “B” on “phone” (by “f1”).")


RATES = {"BR": lambda rng, n: np.full(n, 0.12), "LP": lambda rng, n: 0.5 * (rng.random(n) < 0.35)}


@pytest.fixture(scope="module")
def profiled(own_store):
    """Two methods on two datasets with folds, and a run that carries a profile but no measure of
    it.
    """
    rng = np.random.default_rng(0)
    for dataset, k in (("yeast", 14), ("scene", 6)):
        for method, rate in RATES.items():
            counts = [
                np.bincount(rng.binomial(k, rate(rng, 120)), minlength=k + 1) for _ in range(10)
            ]
            mleval.log_profile(
                counts, method=method, dataset=dataset, experiment_name="x", n_train=1080
            )
        rows = [[*row, *[0] * (k - 2)] for row in ([80, 30, 10], [70, 40, 10])]
        tags = {schema.TAG_PROFILE: schema.encode_profile(rows, [0, 1])}
        runs.write(runs.Payload("CC", dataset, {"f1": 0.5}, tags=tags), experiment_name="x")
    runs.write(runs.Payload("none", "yeast", {"hamming_loss": 0.5}), experiment_name="bare")


def profiles(*args):
    return command_line.as_json("profile", *args)["profiles"]


def test_the_table_says_who_is_ahead_where(profiled):
    done = command_line.mleval("profile", "-n", "x")
    assert "LP overtakes BR above k" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_runs_that_a_later_one_replaces_and_repeats_are_named(profiled):
    for rows in ([[5, 1]], [[4, 2]]):
        mleval.log_profile(rows, method="BR", dataset="d", experiment_name="twice")
    told = profiles("-n twice --read duplicates=latest")["warnings"]
    (said,) = [text for text in told if "a later one" in text]
    assert said.startswith("Left out: run BR on d")
    told = profiles("-n twice")["warnings"]
    assert "Loss profiles are of the latest repeat only: BR on d." in told


def test_json_holds_what_python_computes(profiled):
    record = command_line.as_json("profile", "-n x --method BR --method LP")
    known = mleval.load_profiles(experiment_names=["x"], methods=["BR", "LP"])
    found, expected = record["profiles"], mleval.compare_profiles(known)
    assert len(found["ratios"]) == len(expected.ratios) == 20
    assert found["ratios"][0]["pvalue"] == expected.ratios["pvalue"].iloc[0]
    assert found["curves"][0]["low"] == expected.curves["low"].iloc[0]
    assert len(record["provenance"]["run_ids"]) == 4


def test_what_cannot_be_done_is_one_line(profiled):
    none = "no run of the selection has a loss profile of label sets (none on yeast: its run"
    for args, code, text in (
        ("-n bare", 1, none),
        ("-n x --kind soft", 1, "its run carries no profile of scores"),
        ("-n x --protocol repeated:ratio=-1", 2, "--protocol :ratio"),
    ):
        assert text in " ".join(command_line.mleval("profile", args, code=code).output.split())


def test_a_report_holds_the_profiles_of_its_runs(profiled):
    told = command_line.as_json("report", "-n x --exclude method=CC")
    assert told["profiles"]["ratios"]
    study = mleval.load_study(experiment_names=["x"], exclude_methods=["CC"])
    found = mleval.compare(study, profiles=mleval.profiles_of(study))
    direct = mleval.compare_profiles(mleval.profiles_of(study))
    assert found.profiles.ratios.equals(direct.ratios) and found.profiles.protocols["yeast"].known
    assert mleval.compare(study).profiles is None
    alone = mleval.profiles_of(study).select([("yeast", "BR"), ("scene", "LP")])
    alone = mleval.compare(study, profiles=alone)
    assert alone.profiles is None and "no two methods carry" in alone.absent["profiles"]


def test_awareness_ranks_runs_where_it_is_asked_for(profiled):
    asked = "-n x -m binomial_area -m binomial_slope -m binomial_gain --exclude method=CC"
    found = command_line.as_json("rank", asked)
    assert {row["method"] for row in found["ranking"]} == {"BR", "LP"}
    default = mleval.load_study(experiment_names=["x"], methods=["BR", "LP"])
    assert default.measures == ["hamming_loss", "subset_accuracy"]
    assert default.values.notna().all(axis=None)
