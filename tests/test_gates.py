"""Runs of a real store into a verdict: what counts as a unit, what is said, and the exit codes."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from command_line import as_json
from command_line import mleval as run

import mlflow_mleval as mleval
from mlflow_mleval.errors import IncomparableRunsError, NoRunsError

N, LABELS = 240, 5
#: How far the scores of a method are from the truth.
NOISE = {"champion": 0.30, "worse": 0.45, "alike": 0.30, "better": 0.18}


def scores(truth, noise, seed):
    return np.clip(
        truth * 0.8 + 0.1 + np.random.default_rng(seed).normal(0, noise, truth.shape), 0, 1
    )


@pytest.fixture(scope="module")
def place(empty_store, tmp_path_factory):
    """A folder with a store for all tests of this file."""
    folder = tmp_path_factory.mktemp("gates")
    shutil.copy(empty_store, folder / "mlflow.db")
    return folder


def enter(patch, folder):
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
    patch.chdir(folder)


@pytest.fixture(scope="module")
def logged(place):
    """By method the run with instances; beside these there are folds of the same dataset, results
    on eight datasets, and repeats on two.
    """
    with pytest.MonkeyPatch.context() as patch:
        enter(patch, place)
        rng = np.random.default_rng(0)
        truth = (rng.random((N, LABELS)) < 0.4).astype(int)
        truth[:, 0] |= truth.sum(axis=1) == 0
        ids = {}
        for seed, (name, noise) in enumerate(NOISE.items()):
            ev = mleval.evaluate(truth, scores(truth, noise, seed))
            ids[name] = mleval.log_evaluation(
                ev, method=name, dataset="made", experiment_name="instances", log_instances=True
            )
            folds = mleval.evaluate(truth, scores(truth, noise, seed), folds=np.arange(N) % 10)
            mleval.log_evaluation(folds, method=name, dataset="made", experiment_name="folds")
        rows = [
            {"dataset": f"d{d}", "method": m, "f1": 0.6 + shift + rng.normal(0, 0.005)}
            for d in range(8)
            for m, shift in (("champion", 0.0), ("better", 0.05), ("worse", -0.05))
        ]
        mleval.import_results(pd.DataFrame(rows), experiment_name="datasets")
        rows = [
            {"dataset": f"d{d}", "method": m, "seed": s, "f1": 0.6 + shift + rng.normal(0, 0.005)}
            for d in range(2)
            for s in range(5)
            for m, shift in (("champion", 0.0), ("better", 0.05))
        ]
        mleval.import_results(pd.DataFrame(rows), experiment_name="repeats")
        return ids


@pytest.fixture(autouse=True)
def inside(logged, place, monkeypatch, unset):
    enter(monkeypatch, place)


MEASURES = ["f1", "recall"]


def test_three_candidates_by_the_ids_of_their_runs(logged):
    champion = logged["champion"]
    found = {
        m: mleval.gate(logged[m], champion, measures=MEASURES) for m in NOISE if m != "champion"
    }
    assert [v.decision for v in found.values()] == ["block", "run more", "ship"]
    assert found["worse"].block and found["alike"].more and found["better"].ship
    assert {v.over for v in found.values()} == {"instances"}
    assert found["worse"].text.startswith("BLOCK: recall is worse by .")
    assert f"than run {champion[:8]}" in found["worse"].text
    assert "would be enough if the two are equally good" in found["alike"].text
    assert found["alike"].needed > N


def test_a_failed_assertion_says_why(logged):
    verdict = mleval.gate(logged["worse"], logged["champion"], measures=["f1"])
    with pytest.raises(AssertionError) as failure:
        assert verdict.ship, verdict
    assert "BLOCK: f1 is worse by" in str(failure.value)
    assert "margin  verdict" in repr(verdict)


@pytest.mark.parametrize("over", ["instances", "folds", "datasets", "repeats"])
def test_each_kind_of_unit(over):
    found = mleval.gate("better", "champion", experiment_names=[over], measures=["f1"], over=over)
    assert (found.decision, found.over) == ("ship", over)
    auto = mleval.gate("better", "champion", experiment_names=[over], measures=["f1"])
    assert auto.over == over
    sizes = {"instances": N, "folds": 10, "datasets": 8, "repeats": 10}
    assert found.tests.units == sizes[over]


def test_two_datasets_cannot_decide_and_say_so():
    found = mleval.gate(
        "better", "champion", experiment_names=["repeats"], measures=["f1"], over="datasets"
    )
    assert found.more and "too few to say how many" in found.text


def test_margins_and_what_must_improve(logged):
    sides = logged["alike"], logged["champion"]
    assert mleval.gate(*sides, measures=["f1"], margins=0.2).ship
    assert mleval.gate(*sides, measures=["f1"], margins={"f1": 0.2}, improve=["f1"]).more
    found = mleval.gate(*sides, measures=["f1", "coverage"], margins=None)
    assert found.table["verdict"].tolist()[1] == "not judged"
    assert "Without a margin" in str(found)
    with pytest.raises(ValueError, match="`margins` must name measures"):
        mleval.gate(*sides, measures=["f1"], margins={"recal": 0.1})


def test_data_stay_small(logged):
    found = mleval.gate(logged["worse"], logged["champion"])
    short, whole = found.to_dict(), found.to_dict(whole=True)
    assert len(json.dumps(short, indent=2)) < 2_000
    assert short["rows"][0]["verdict"] == "worse"
    assert len(whole["rows"]) == len(found.table)
    assert whole["runs"]["champion"] == [logged["champion"]]


def test_markdown_and_a_page_with_a_forest_plot(logged):
    found = mleval.gate(logged["better"], logged["champion"], measures=MEASURES)
    assert found.to_markdown().startswith("# May run")
    assert "| f1 " in found.to_markdown()
    page = found.to_html()
    assert "Differences and margins" in page and "SHIP" in page


def test_exit_codes(logged):
    champion = ["--champion", logged["champion"], "-m", "f1"]
    for name, code in (("better", 0), ("worse", 3), ("alike", 4)):
        assert len(run("gate", logged[name], *champion, code=code).stdout.splitlines()) <= 16
    run("gate", "f" * 32, *champion, code=1)
    run("gate", logged["better"], code=2)
    run("gate", logged["better"], *champion, "--margin", "recal=0.1", code=2)
    run("gate", logged["better"], *champion, "--over", "labels", code=2)


def test_a_store_that_is_down_is_no_verdict(logged, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    failed = run("gate", logged["better"], "--champion", logged["champion"], code=1)
    assert "cannot read the store" in failed.output
    assert not any(word in failed.output for word in ("SHIP", "BLOCK", "RUN MORE"))


def test_methods_of_an_experiment_in_every_format():
    asked = ["gate", "-n", "datasets", "better", "--champion", "champion"]
    assert as_json(*asked)["decision"] == "ship"
    assert "pvalue_worse" in as_json(*asked, "--all")["rows"][0]
    for format in ("csv", "md", "html", "latex"):
        assert "f1" in run(*asked, "--output", format).stdout


def test_sides_that_cannot_be_compared(logged):
    with pytest.raises(ValueError, match="must be different runs"):
        mleval.gate(logged["better"], logged["better"])
    with pytest.raises(NoRunsError):
        mleval.gate(logged["better"], "models:/nobody@champion")
    folds = {"experiment_names": ["datasets"], "measures": ["f1"]}
    with pytest.raises(IncomparableRunsError, match="no run holds values by fold"):
        mleval.gate("better", "champion", over="folds", **folds)
