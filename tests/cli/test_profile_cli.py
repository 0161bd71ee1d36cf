"""`mleval profile`, and the profiles in `mleval report` and among the measures of `mleval rank`."""

import command_line
import numpy as np
import pytest
from command_line import as_json

import mlflow_mleval as mleval
from mlflow_mleval.measures.owa import profile_from_histogram
from mlflow_mleval.store import runs, schema

RATES = {"BR": lambda rng, n: np.full(n, 0.12), "LP": lambda rng, n: 0.5 * (rng.random(n) < 0.35)}


@pytest.fixture(scope="module")
def store(own_store):
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
    return own_store


@pytest.fixture
def run(store, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return command_line.mleval


def profiles(*args):
    return as_json("profile", *args)["profiles"]


def test_the_table_says_who_is_ahead_where(run):
    done = run("profile", "-n", "x")
    assert "LP overtakes BR above k" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_runs_that_a_later_one_replaces_and_repeats_are_named(run):
    for rows in ([[5, 1]], [[4, 2]]):
        mleval.log_profile(rows, method="BR", dataset="d", experiment_name="twice")
    told = profiles("-n twice --read duplicates=latest")["warnings"]
    (said,) = [text for text in told if "a later one" in text]
    assert said.startswith("Left out: run BR on d")
    told = profiles("-n twice")["warnings"]
    assert "Loss profiles are of the latest repeat only: BR on d." in told


def test_json_holds_what_python_computes(run):
    record = as_json("profile", "-n x --method BR --method LP")
    known = mleval.load_profiles(experiment_names=["x"], methods=["BR", "LP"])
    found, expected = record["profiles"], mleval.compare_profiles(known)
    assert len(found["ratios"]) == len(expected.ratios) == 20
    assert found["ratios"][0]["pvalue"] == expected.ratios["pvalue"].iloc[0]
    assert found["curves"][0]["low"] == expected.curves["low"].iloc[0]
    assert len(record["provenance"]["run_ids"]) == 4


def test_what_cannot_be_done_is_one_line(run):
    none = "no run of the selection has a loss profile of label sets (none on yeast: its run"
    for args, code, text in (
        ("-n bare", 1, none),
        ("-n x --kind soft", 1, "its run carries no profile of scores"),
        ("-n x --protocol repeated:ratio=-1", 2, "--protocol :ratio"),
    ):
        assert text in " ".join(run("profile", args, code=code).output.split())


def test_a_report_holds_the_profiles_of_its_runs(run):
    told = as_json("report", "-n x -m hamming_loss -m subset_accuracy")
    assert told["profiles"]["ratios"]
    study = mleval.load_study(experiment_names=["x"], measures=["hamming_loss", "subset_accuracy"])
    found = mleval.compare(study, profiles=mleval.profiles_of(study))
    direct = mleval.compare_profiles(mleval.profiles_of(study))
    assert found.profiles.ratios.equals(direct.ratios) and found.profiles.protocols["yeast"].known
    assert mleval.compare(study).profiles is None
    alone = mleval.profiles_of(study).select([("yeast", "BR"), ("scene", "LP")])
    alone = mleval.compare(study, profiles=alone)
    assert alone.profiles is None and "no two methods carry" in alone.absent["profiles"]


def test_awareness_ranks_runs_also_where_only_their_tag_knows(run):
    found = as_json("rank", "-n x -m binomial_area -m binomial_slope -m binomial_gain")
    assert {row["method"] for row in found["ranking"]} == {"BR", "LP", "CC"}
    names = {"binomial_area": "area", "binomial_gain": "relative_gain", "hamming_loss": "hamming"}
    study = mleval.load_study(experiment_names=["x"], measures=[*names])
    profiles = [profile_from_histogram(row + [0] * 12) for row in ([80, 30, 10], [70, 40, 10])]
    for measure, name in names.items():
        expected = np.mean([getattr(p, name) for p in profiles])
        assert study.values.loc[("yeast", "CC"), measure] == pytest.approx(expected)
    assert study.minimize == ["binomial_area", "hamming_loss"]
    default = mleval.load_study(experiment_names=["x"], methods=["BR", "LP"])
    assert default.measures == ["hamming_loss", "subset_accuracy"]
    assert default.values.notna().all(axis=None)
