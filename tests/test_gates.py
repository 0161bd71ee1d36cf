"""Runs of a real store into a verdict: what counts as a unit, what is said, and the exit codes."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from itertools import product
from uuid import uuid4

import mlflow
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from command_line import as_json
from command_line import mleval as run
from mlflow import MlflowClient
from places import ROOT

import mlflow_mleval as mleval
from mlflow_mleval import gates
from mlflow_mleval.errors import IncomparableRunsError, MeasureError, NoRunsError, StoreError
from mlflow_mleval.files import predictions
from mlflow_mleval.gates import promotion
from mlflow_mleval.store import store
from mlflow_mleval.store.ledger import Ledger

N, LABELS = 240, 5
#: How far the scores of a method are from the truth.
NOISE = {"champion": 0.30, "worse": 0.45, "alike": 0.30, "better": 0.18}


def scores(truth, noise, seed):
    return np.clip(
        truth * 0.8 + 0.1 + np.random.default_rng(seed).normal(0, noise, truth.shape), 0, 1
    )


@pytest.fixture(scope="module")
def logged(own_store):
    """By method the run with instances; beside these are folds, eight datasets, and repeats."""
    rng = np.random.default_rng(0)
    truth = (rng.random((N, LABELS)) < 0.4).astype(int)
    truth[:, 0] |= truth.sum(axis=1) == 0
    ids = {}
    for seed, (name, noise) in enumerate(NOISE.items()):
        score, own = scores(truth, noise, seed), {"method": name, "dataset": "made"}
        ev = mleval.evaluate(truth, score)
        ids[name] = mleval.log_evaluation(
            ev, **own, experiment_name="instances", log_instances=True
        )
        folds = mleval.evaluate(truth, score, folds=np.arange(N) % 10)
        mleval.log_evaluation(folds, **own, experiment_name="folds")
    shifts = {"champion": 0.0, "better": 0.05, "worse": -0.05}
    for experiment, datasets, seeds in (("datasets", 8, 1), ("repeats", 2, 5)):
        rows = [
            {"dataset": f"d{d}", "method": m, "seed": s, "f1": 0.6 + by + rng.normal(0, 0.005)}
            for d, s, (m, by) in product(range(datasets), range(seeds), shifts.items())
        ]
        mleval.import_results(pd.DataFrame(rows), experiment_name=experiment)
    return ids


@pytest.fixture(autouse=True)
def inside(logged, own_store, monkeypatch, unset):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{own_store}/mlflow.db")


def import_answers(experiment, **methods):
    """Import tables of answers, a column a measure, with their instances as index."""
    frames = [pd.DataFrame(t).assign(method=m, dataset="qa") for m, t in methods.items()]
    pd.concat(frames).rename_axis("instance").to_csv("answers.csv")
    run("import", "answers.csv", "-n", experiment)


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
    assert f"than run {champion[:8]}; and 1 more row of the table." in found["worse"].text
    same = f"run {logged['better'][:8]} is at least as good as run {champion[:8]} on f1 and recall"
    assert found["better"].text == f"SHIP: {same}, within their margins."
    assert "If the two are equally good, about " in found["alike"].text
    assert found["alike"].needed > N
    with pytest.raises(AssertionError, match="BLOCK: recall is worse by"):
        assert found["worse"].ship, found["worse"]
    assert "margin  verdict" in repr(found["worse"])
    assert found["better"].to_markdown().startswith("# May run")
    assert "| f1 " in found["better"].to_markdown()
    page = found["better"].to_html()
    assert "Differences and margins" in page and "SHIP" in page
    assert "f1" in found["better"].report().render("latex")


@pytest.mark.parametrize("over", ["instances", "folds", "datasets", "repeats"])
def test_each_kind_of_unit(over):
    asked = {} if over in ("instances", "datasets") else {"over": over}
    found = mleval.gate("better", "champion", experiment_names=[over], measures=["f1"], **asked)
    assert (found.decision, found.over) == ("ship", over)
    sizes = {"instances": N, "folds": 10, "datasets": 8, "repeats": 10}
    assert found.tests.units == sizes[over]


def test_labels_are_slices_over_folds():
    rng = np.random.default_rng(1)
    truth = (rng.random((600, 4)) < [0.3, 0.3, 0.3, 0.02]).astype(int)
    good = np.where(rng.random(truth.shape) < 0.1, 1 - truth, truth)
    bad = good.copy()
    bad[:, 1] = np.where(rng.random(600) < 0.6, 0, good[:, 1])  # misses more of one label
    names = ["mail", "invoice", "letter", "rare"]
    for method, predicted in (("base", good), ("new", bad)):
        ev = mleval.evaluate(truth, y_pred=predicted, folds=np.arange(600) % 10, label_names=names)
        mleval.log_evaluation(ev, method=method, dataset="post", experiment_name="labels")
    asked = {"experiment_names": ["labels"], "measures": ["f1", "macro_f1", "macro_recall"]}
    found = mleval.gate("new", "base", **asked, margins=0.05, slices=["label"])
    worse = found.table[found.table["verdict"] == "worse"]
    assert found.over == "folds" and found.block
    assert {*worse["slice"]} == {"", "invoice"} or {*worse["slice"]} == {"invoice"}
    of_labels = found.table[found.table["slice"] != ""]
    assert {*of_labels["measure"]} == {"macro_f1", "macro_recall"}
    assert {*of_labels["slice"]} == {"mail", "invoice", "letter"}
    assert "fewer than 30 true instances are not judged: rare" in " ".join(found.notes)
    assert "and 3 more, which other formats show" in str(found)
    row = of_labels.set_index(["measure", "slice"]).loc[("macro_recall", "invoice")]
    folds = [np.arange(600) % 10 == k for k in range(10)]
    recalls = [np.mean([p[f & (truth[:, 1] == 1), 1].mean() for f in folds]) for p in (bad, good)]
    assert row.difference == pytest.approx(recalls[0] - recalls[1])


def test_slices_that_units_do_not_have_are_refused():
    asked = {"experiment_names": ["datasets"], "measures": ["f1"]}
    with pytest.raises(ValueError, match="`slices` over datasets must be among dataset, got label"):
        mleval.gate("better", "champion", **asked, slices=["label"])
    with pytest.raises(ValueError, match="`cluster` must go with answers or instances"):
        mleval.gate("better", "champion", **asked, cluster="passage", over="datasets")
    found = mleval.gate("better", "champion", **asked, slices=["dataset"])
    assert {*found.table["verdict"]} == {"not worse", "not judged"}
    assert "Slices of fewer than 30 units are not judged: d0, d1" in " ".join(found.tests.warnings)


def test_folds_are_tested_as_the_protocol_says():
    asked = ["gate", "-n", "folds", "better", "--champion", "champion", "-m", "f1"]
    silent, said = (as_json(*asked, "--all", *more) for more in ([], ["--protocol", ":ratio=0.5"]))
    assert "Say protocol and ratio" in " ".join(silent["notes"])
    assert "Say protocol and ratio" not in " ".join(said["notes"])
    assert said["rows"][0]["low"] < silent["rows"][0]["low"]
    assert "pvalue_worse" in said["rows"][0]


def test_two_datasets_cannot_decide_and_say_so():
    asked = {"experiment_names": ["repeats"], "measures": ["f1"], "over": "datasets"}
    found = mleval.gate("better", "champion", **asked)
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


@pytest.mark.parametrize("kind", ["instances", "answers"])
def test_units_that_were_changed_after_they_were_logged_decide_nothing(kind, db):
    right = np.random.default_rng(3).random(200) < 0.7
    if kind == "instances":
        truth, column = np.eye(2, dtype=int)[right.astype(int)], "f1"
        for method, predicted in (("new", truth), ("base", truth[::-1])):
            ev, name = mleval.evaluate(truth, y_pred=predicted), {"method": method, "dataset": "d"}
            mleval.log_evaluation(ev, **name, experiment_name=kind, log_instances=True)
    else:
        column = "value:f1"
        import_answers(kind, new={"f1": np.ones(200)}, base={"f1": right.astype(float)})

    def judged(**more):
        return mleval.gate("new", "base", experiment_names=[kind], measures=["f1"], **more)

    found = judged()
    (run_id,) = found.runs["candidate"]
    assert found.ship and judged(anytime=True).ship
    local = MlflowClient().download_artifacts(run_id, f"mleval/{kind}.parquet")
    table = pq.read_table(local)
    values = np.where(np.arange(200) < 2, 0.0, table[column])
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, pa.array(values)), local)
    MlflowClient().log_artifact(run_id, local, "mleval")
    found = judged(ledger=f"changed {kind}")
    who = "new" if kind == "instances" else f"run {run_id[:8]}"
    said = f"the tables have been changed: f1 of {who} was logged as 1, and the mean of its {kind}"
    assert found.more and f"RUN MORE: {said}" in found.text
    assert found.to_dict(whole=True)["changed"][0]["mean"] == pytest.approx(0.99)
    assert judged(anytime=True).more  # what was decided before, too


def test_exit_codes(logged):
    champion = ["--champion", logged["champion"], "-m", "f1"]
    for name, code in (("better", 0), ("worse", 3), ("alike", 4)):
        assert len(run("gate", logged[name], *champion, code=code).stdout.splitlines()) <= 16
    assert "f1" in run("gate", logged["better"], *champion, "--output", "csv").stdout
    run("gate", "f" * 32, *champion, code=1)
    run("gate", logged["better"], code=2)
    run("gate", logged["better"], *champion, "--over", "labels", code=2)
    run("gate", "--history", code=2)
    assert "there is no" in run("gate", "--ledger", "none", "--history", code=1).output


def test_a_store_that_is_down_is_no_verdict(logged, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    failed = run("gate", logged["better"], "--champion", logged["champion"], code=1)
    assert "cannot read the store" in failed.output
    assert not any(word in failed.output for word in ("SHIP", "BLOCK", "RUN MORE"))


def test_sides_that_cannot_be_compared(logged):
    with pytest.raises(ValueError, match="must be different runs"):
        mleval.gate(logged["better"], logged["better"])
    with pytest.raises(NoRunsError):
        mleval.gate(logged["better"], "models:/nobody@champion")
    folds = {"experiment_names": ["datasets"], "measures": ["f1"]}
    with pytest.raises(IncomparableRunsError, match="no run holds values by fold"):
        mleval.gate("better", "champion", over="folds", **folds)


@pytest.fixture
def versions(logged):
    """The name of a model with versions 1 (champion), 2 (better), 3 (worse), 4 (better)."""
    client, name = MlflowClient(), f"tagger-{uuid4().hex[:8]}"
    client.create_registered_model(name)
    for method in ("champion", "better", "worse", "better"):
        client.create_model_version(name, f"runs:/{logged[method]}/model", logged[method])
    client.set_registered_model_alias(name, "champion", "1")
    return name


def alias_of(name):
    return str(MlflowClient().get_model_version_by_alias(name, "champion").version)


def promote(name, version, code):
    sides = f"models:/{name}/{version}", "--champion", f"models:/{name}@champion"
    return run("gate", *sides, "-m", "f1", "--promote", "champion", code=code)


def test_an_alias_of_versions_moves_on_ship_alone(versions, logged):
    promote(versions, 3, code=3)
    assert alias_of(versions) == "1"
    promote(versions, 2, code=0)
    assert alias_of(versions) == "2"
    args = logged["better"], "--champion", f"models:/{versions}@champion", "--promote", "champion"
    assert "must go with versions" in run("gate", *args, code=2).output


def test_what_is_judged_is_what_was_named_when_the_gate_began(versions, logged, monkeypatch):
    MlflowClient().set_registered_model_alias(versions, "candidate", "2")
    read = gates.GateRequest.read

    def meanwhile(asked, over):
        MlflowClient().set_registered_model_alias(versions, "candidate", "3")
        return read(asked, over)

    monkeypatch.setattr(gates.GateRequest, "read", meanwhile)
    sides = [f"models:/{versions}@{alias}" for alias in ("candidate", "champion")]
    found = mleval.gate(*sides, measures=["f1"], promote="champion", log=True)
    assert found.runs["candidate"] == [logged["better"]] and found.candidate.endswith("@candidate")
    assert alias_of(versions) == "2" and f"{versions}@champion is version 2 now." in found.notes
    assert MlflowClient().get_run(logged["better"]).data.tags["mleval.gate"] == "ship"


def test_an_alias_that_moved_is_said_to_have_moved(versions, own_store):
    with contextlib.closing(sqlite3.connect(own_store / "mlflow.db")) as database:
        database.execute(
            "CREATE TRIGGER gone AFTER UPDATE OF version ON registered_model_aliases BEGIN UPDATE "
            "registered_models SET name = name || ' gone' WHERE name = NEW.name; END"
        )
        try:
            moved = promote(versions, 2, code=0)
        finally:
            database.execute("DROP TRIGGER gone")
    assert f"{versions}@champion was moved to version 2. Whether another" in moved.stderr
    assert alias_of(f"{versions} gone") == "2"


def test_an_alias_that_was_moved_meanwhile_stays(versions):
    sides = store.pinned(f"models:/{versions}/2", f"models:/{versions}@champion")
    move = promotion(*sides, "champion")
    MlflowClient().set_registered_model_alias(versions, "champion", "3")
    with pytest.raises(StoreError, match="points to version 3, and version 1 was judged"):
        move()
    assert alias_of(versions) == "3"


def test_a_ledger_ships_at_the_level_that_is_left(logged):
    def judged(method):
        return mleval.gate(logged[method], logged["champion"], measures=["f1"], ledger="prompts")

    found = [judged(method) for method in ("alike", "better", "worse", "better")]
    assert [v.decision for v in found] == ["run more", "ship", "block", "ship"]
    assert [v.entry.number for v in found] == [1, 2, 3, 4]
    assert [v.entry.ships for v in found] == [0, 0, 1, 1]
    assert [v.entry.asked for v in found] == [0, 1, 2, 3]
    assert found[3].entry.level == pytest.approx(0.05 * 6 / (np.pi * 4) ** 2 * 2)
    assert "This is gate 4 of the ledger prompts, after 1 ship; its evidence is" in found[3].text
    assert as_json("gate", "--ledger", "prompts", "--history")["gates"][1]["decision"] == "ship"
    Ledger.open("prompts").claim()  # and dies
    assert "dead, count as not shipped: 5." in judged("worse").text
    told = run("gate", "--ledger", "prompts", "--history", "--output", "html").stdout
    assert "Evidence in the ledger" in told


def test_quality_criteria_are_answered_beside(logged):
    criteria = "f1 >= 0.5 AND recall/mean > 0.999 AND f1 >= 0.96 AND judge_says >= 1 AND f1 ≈ 1"
    tag = logged["better"], "mlflow.genaiEvaluate.qualityCriteria"
    MlflowClient().set_tag(*tag, criteria)
    found = mleval.gate(logged["better"], logged["champion"], measures=MEASURES)
    MlflowClient().delete_tag(*tag)
    assert found.criteria["answer"].tolist()[:2] == ["met", "missed"]
    assert found.criteria["answer"].tolist()[3:] == ["no values here", "not understood"]
    assert "f1 >= 0.5" in str(found) and "f1 &gt;= 0.5" in found.to_markdown()


def test_a_verdict_is_stored_with_the_candidate(logged):
    run("gate", logged["better"], "--champion", logged["champion"], "-m", "f1", "--log")
    client = MlflowClient()
    assert client.get_run(logged["better"]).data.tags["mleval.gate"] == "ship"
    stored = {file.path for file in client.list_artifacts(logged["better"])}
    assert {"mleval_gate.html", "mleval_gate.md", "mleval_gate.json"} <= stored


ACTION = yaml.safe_load((ROOT / ".github/actions/gate/action.yml").read_text())


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """A folder with the command `mleval`."""
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "mleval"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mlflow_mleval "$@"\n')
    command.chmod(0o755)
    return folder


def act(commands, folder, **inputs):
    """Exit code and outputs of the action."""
    given = {key: value.get("default", "") for key, value in ACTION["inputs"].items()} | inputs
    (folder / "out").write_text("")
    for step in ACTION["runs"]["steps"]:
        named = {key: text[len("${{ inputs.") : -len(" }}")] for key, text in step["env"].items()}
        own = {key: given[name] for key, name in named.items()}
        own |= {"GITHUB_OUTPUT": str(folder / "out"), "RUNNER_TEMP": str(folder)}
        path = f"{commands}{os.pathsep}{os.environ['PATH']}"
        bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(bash, env=os.environ | own | {"PATH": path}, capture_output=True)
        if done.returncode:
            break
    return done.returncode, (folder / "out").read_text()


@pytest.mark.thorough
def test_the_action_by_hand(logged, commands, tmp_path):
    champion = {"champion": logged["champion"], "options": "--measure=f1\n--margin=f1=0.02\n"}
    code, out = act(commands, tmp_path, candidate=logged["better"], **champion)
    assert code == 0 and "decision=ship" in out and "| f1 " in out
    code, out = act(commands, tmp_path, candidate=logged["worse"], **champion)
    assert code == 3 and "decision=block" in out and "BLOCK: f1 is worse" in out
    champion["options"] = "--measure=f1\n--improve=f1"
    code, out = act(commands, tmp_path, candidate=logged["alike"], **champion)
    assert code == 0 and "decision=more" in out
    alike = {"candidate": logged["alike"], **champion}
    assert act(commands, tmp_path, **alike, **{"fail-on": "block, more"})[0] == 4
    for unknown in ("", "blocks", "block none"):
        assert act(commands, tmp_path, **alike, **{"fail-on": unknown}) == (2, "")
    code, out = act(commands, tmp_path, candidate="f" * 32, **champion)
    assert code == 1 and out == ""
    champion["options"] = "--measure=f1\n--margin=f1=0.02\n--anytime"
    for said in ("SHIP: ", "SHIP, as decided at "):  # the second look repeats the first
        code, out = act(commands, tmp_path, candidate=logged["better"], **champion)
        assert code == 0 and "decision=ship" in out and said in out
    champion["options"] = "--measure=f1\n--margin=f1=0.02\n"
    worse = {"candidate": logged["worse"], **champion, "fail-on": "BLOCK"}
    assert act(commands, tmp_path, **worse)[0] == 3
    assert act(commands, tmp_path, **worse | {"options": "--help"}) == (1, "")


def test_answers_are_judged_between_bounds_alone(db):
    rng = np.random.default_rng(0)
    base = {"exact": np.ones(300), "seconds": rng.exponential(1, 300)}
    new = {"exact": np.ones(300), "seconds": base["seconds"] + rng.normal(0, 0.01, 300)}
    new["seconds"][7] = 900.0
    import_answers("timed", base=base, new=new)
    asked = ["gate", "-n", "timed", "new", "--champion", "base", "--max", "exact"]
    asked += ["--min", "seconds", "--margin", "exact=.02,seconds=.2"]
    open_ended = run(*asked, code=0).output
    assert "seconds has no bound" in open_ended and "--bound seconds=9" in open_ended
    cut = run(*asked, "--bound", "seconds=5").output
    assert "1 of 300 differences of seconds are larger than 5" in cut
    assert "no bound" not in cut


def test_scores_of_a_table_whose_means_were_logged_need_no_direction(db):
    """Others do; what is asked is paired alike, whichever measure is chosen."""
    right = np.arange(200) % 4 > 0
    for name, moved in (("base", 0), ("new", 1)):
        with mlflow.start_run(run_name=name):
            exact = np.roll(right, moved).astype(int).tolist()
            table = {"inputs": [f"q{i}" for i in range(200)], "seconds": [2.0] * 200}
            mlflow.log_table(table | {"exact": exact, "short": exact}, "eval_results_table.json")
            mlflow.log_metrics({"exact": 0.75, "seconds": 2.0})
    asked = ["gate", "new", "--champion", "base"]
    judged = json.loads(run(*asked, "--all", "--output", "json", code=4).stdout)
    verdicts = {row["measure"]: row["verdict"] for row in judged["rows"]}
    assert verdicts == {"exact": "open", "seconds": "not judged"}
    assert "no direction is known: short" in " ".join(judged["notes"])
    asked += ["--measure", "seconds", "--margin", "seconds=1"]
    unbounded = run(*asked, code=4).stdout
    assert "nothing can be judged: seconds (it has no bound)." in unbounded
    assert as_json(*asked, "--bound", "seconds=9")["units"] == 200


def test_a_measure_of_one_dataset_is_judged_on_its_answers_and_named(db):
    rng, parts = np.random.default_rng(0), []
    for (dataset, measures), method in product(
        {"a": ["exact", "grounded"], "b": ["exact"]}.items(), ["base", "new"]
    ):
        values = {m: rng.integers(0, 2, 60) for m in measures}
        parts.append(pd.DataFrame(values).assign(method=method, dataset=dataset))
    pd.concat(parts).rename_axis("instance").to_csv("answers.csv")
    run("import", "answers.csv", "-n", "two sets")
    asked = ["gate", "-n", "two sets", "new", "--champion", "base", "--margin", ".3"]
    found = json.loads(run(*asked, "--max", "grounded", "--all", "--output", "json").stdout)
    assert {row["measure"]: row["n"] for row in found["rows"]} == {"exact": 120, "grounded": 60}
    assert "grounded is judged on a alone" in " ".join(found["notes"])


def test_what_is_lost_does_not_ship(db):
    n = 2_000
    base = pd.DataFrame({"exact": np.ones(n), "lang": np.where(np.arange(n) < 40, "es", "en")})
    import_answers("lost", base=base, new=base.iloc[98:], es=base.iloc[40:])
    base["exact"] = 0.0
    import_answers("saved", base=base, new=base.iloc[98:].assign(exact=1.0))
    asked = ["--champion", "base", "--max", "exact", "--slice", "lang", "--margin", "0.03"]
    lost = run("gate", "-n", "lost", "new", *asked, code=4).output
    assert lost.count("98 of 2,000") == 1
    lost = run("gate", "-n", "lost", "es", *asked, code=4).output
    assert "exact would be worse on 'es' if the answers that es lacks were as bad" in lost
    run("gate", "-n", "saved", "new", *asked, code=0)


def test_where_nobody_knows_how_bad_lost_units_can_be_that_is_said(db):
    rows = [(method, f"d{i}", i % 7) for method in ("base", "new") for i in range(30)]
    table = pd.DataFrame(rows[:-1], columns=["method", "dataset", "latency"])
    table.to_csv("latency.csv", index=False)
    run("import", "latency.csv", "-n", "open")
    asked = ["--champion", "base", "--min", "latency", "--margin", "1"]
    said = run("gate", "-n", "open", "new", *asked, code=4).output
    assert "nobody knows how bad those can be that new lacks" in said and "Too few" not in said
    refused = run("gate", "-n", "open", "new", *asked, "--ledger", "l", code=2).output
    assert "measures between bounds, got latency" in refused


def test_a_column_of_too_many_values_is_no_slice(db):
    n = np.arange(300)
    table = pd.DataFrame({"exact": n % 2.0, "topic": [f"t{k}" for k in n]})
    import_answers("many", base=table, new=table)
    asked = ["gate", "-n", "many", "new", "--champion", "base", "--max", "exact"]
    refused = run(*asked, "--slice", "topic", code=2).output
    assert "at most 200 values, got 'topic' with 300" in refused


def test_a_measure_is_found_by_its_word(db):
    table = pd.DataFrame({"f1_score": np.linspace(0.2, 1, 60), "recall": 1.0})
    import_answers("words", base=table, new=table)
    asked = {"experiment_names": ["words"], "maximize": ["f1_score"]}
    found = mleval.gate("new", "base", **asked, margins={"f1": 0.2})
    assert found.table.set_index("measure")["margin"].to_dict() == {"f1_score": 0.2, "recall": 0.01}
    with pytest.raises(ValueError, match="Did you mean 'recall'"):
        mleval.gate("new", "base", **asked, margins={"recal": 0.1})


def test_five_right_answers_meet_no_high_threshold(db):
    import_answers("five", base={"exact": np.ones(5)}, new={"exact": np.ones(5)})
    study = mleval.gate("new", "base", experiment_names=["five"], maximize=["exact"])
    tag = "mlflow.genaiEvaluate.qualityCriteria", "exact > 0.999 AND exact > 0.4"
    MlflowClient().set_tag(study.runs["candidate"][0], *tag)
    found = mleval.gate("new", "base", experiment_names=["five"], maximize=["exact"]).criteria
    assert found["answer"].tolist() == ["not yet known", "met"]
    assert found["low"].between(0.4, 0.6).all()


def test_runs_are_found_by_their_names_where_one_experiment_has_both(client, log):
    client.create_run(client.create_experiment("other"), run_name="old")
    for name, accuracy in (("old", 0.7), ("new", 0.9)):
        log(name, {"accuracy_score": accuracy, "example_count": 1_000}, experiment="qa")
    verdict = mleval.gate("new", "old", margins={"accuracy_score": 0.01})
    assert verdict.decision == "ship" and verdict.candidate == "new"
    client.create_run(client.create_experiment("twin"), run_name="new")
    with pytest.raises(NoRunsError, match="no run is called new or nobody"):
        mleval.gate("new", "nobody")
    with pytest.raises(NoRunsError, match=r"got files \(\S+test_gates.py\). Log what they hold"):
        mleval.gate(__file__, "new")


def test_values_outside_of_a_range_are_no_evidence(db):
    import_answers("odd", base={"f1": np.full(60, 0.9)}, new={"f1": np.full(60, 1.5)})
    asked = ["gate", "-n", "odd", "new", "--champion", "base", "-m", "f1"]
    assert "new has f1 of 1.5" in run(*asked, code=1).output


def test_a_column_that_groups_questions_is_a_doubt(db):
    sizes = {"passage": 5, "kind": 30, "id": 1}
    columns = {name: [f"{name} {i // n}" for i in range(60)] for name, n in sizes.items()}
    table = pd.DataFrame({"exact": 1.0, **columns})
    import_answers("qa", base=table, new=table)
    asked = {"experiment_names": ["qa"], "measures": ["exact"], "maximize": ["exact"]}

    def doubted(**more):
        notes = mleval.gate("new", "base", **asked, **more).notes
        return [word for note in notes if "tend to be" in note for word in sizes if word in note]

    assert doubted() == ["passage"]
    assert doubted(cluster="passage") == doubted(slices=["passage"]) == []


def test_scorers_of_only_0_and_1_need_no_direction(db):
    mlflow.tracing.reset()  # its exporter outlives a test, and the store of that one
    runs = []
    for right in (1.0, 0.0):
        with mlflow.start_run(tags={"mlflow.runType": "genai_evaluate"}) as run_of_side:
            spans = []
            for i in range(12):
                with mlflow.start_span("answer") as span:
                    span.set_inputs({"question": i})
                spans.append(span)
            mlflow.flush_trace_async_logging()
            for i, span in enumerate(spans):
                said = {"exact": right, "length": 3.0 + i % 2, "error": 1.0 - right}
                for scorer, value in said.items():
                    mlflow.log_feedback(trace_id=span.trace_id, name=scorer, value=value)
        runs.append(run_of_side.info.run_id)
    found = mleval.gate(*runs, margins={"exact": 0.02})
    assert found.table["measure"].tolist() == ["exact"] and found.directions == {"exact": "max"}
    assert any("count as pass or fail: exact" in note for note in found.notes)
    with pytest.raises(MeasureError, match="no direction is known for length") as refused:
        mleval.gate(*runs, margins={"length": 0.02})
    assert "directions='proposed'" in str(refused.value)
    proposed = mleval.gate(*runs, directions="proposed")
    assert proposed.directions == {"exact": "max", "length": "max", "error": "min"}
    assert "as proposed: larger values of length and smaller values of error are better" in str(
        proposed.notes
    )


@pytest.fixture
def growing():
    """Runs of two sides, and a function that adds answers, the champion's half of them right."""
    client, runs = MlflowClient(), []
    mlflow.set_experiment("growing")
    for _ in range(2):
        with mlflow.start_run() as run:
            runs.append(run.info.run_id)

    def answer(n, right, language="en"):
        start = answer.total
        for run_id, score in zip(runs, (right, np.arange(n) % 2), strict=True):
            rows = {"question": [f"q{start + i}" for i in range(n)], "language": [language] * n}
            client.log_table(run_id, {**rows, "score": [*map(float, score)]}, "answers.json")
        answer.total += n

    answer.total = 0
    return (*runs, answer)


def test_what_was_decided_at_one_look_stands_at_the_next(growing):
    candidate, champion, answer = growing
    asked = {"table": "answers.json", "instance_by": "question", "maximize": ["score"]}
    asked |= {"margins": {"score": 0.1}, "bounds": {"score": 1.0}, "anytime": True}
    asked |= {"slices": ["language"]}
    answer(20, np.arange(20) % 2)
    first = mleval.gate(candidate, champion, **asked)
    assert first.more and first.stands is None
    answer(200, np.ones(200))
    found = mleval.gate(candidate, champion, **asked)
    assert found.ship and found.stands is None
    answer(2_000, np.zeros(2_000), "es")
    later = mleval.gate(candidate, champion, **asked)
    assert later.ship and (later.stands.units, later.stands.anew) == (220, "block")
    told = later.text
    assert "with 220 answers: that stands. 2,220 answers would make a new gate say BLOCK" in told
    assert any("New since the first look, and not judged: es" in note for note in later.notes)
    with pytest.raises(ValueError, match=r"`margins` must be what it was at the first look"):
        mleval.gate(candidate, champion, **asked | {"margins": {"score": 0.2}})
    assert mleval.gate(candidate, champion, **asked | {"anytime": False}).block


def test_shares_and_a_number_of_examples_are_judged_without_their_pairs():
    mlflow.set_experiment("counts")
    n, ids = 600, {}
    data = pd.DataFrame({"x": np.arange(n), "y": np.arange(n) < n - 1}).astype(int)
    for right in (493, 409, 399):
        with mlflow.start_run() as run_of_side:
            model = lambda table, right=right: (table["x"] < right).to_numpy().astype(int)  # noqa: E731
            how = {"evaluators": "default", "evaluator_config": {"log_explainer": False}}
            mlflow.models.evaluate(model, data, targets="y", model_type="classifier", **how)
        ids[right] = run_of_side.info.run_id
    for a, b, decision in ((493, 399, "ship"), (399, 493, "block"), (409, 399, "run more")):
        found = mleval.gate(ids[a], ids[b])
        assert found.decision == decision
        judged = found.table.set_index("measure")
        assert judged["n"].to_dict() == {"accuracy_score": n, "recall_score": n - 1}
        assert judged.loc["accuracy_score", "difference"] == pytest.approx((a - b) / n)
    assert any('evaluators=["default", "mleval"]' in note for note in found.notes)
    with pytest.raises(ValueError, match=r"got f1\. They have accuracy_score"):
        mleval.gate(ids[493], ids[399], margins={"f1": 0.01})


def test_tables_of_predictions_on_the_same_truth_are_not_said_to_be_other_data():
    """MLflow's digest covers the predictions that lie in the table."""
    mlflow.set_experiment("tables")
    y, ids = np.arange(600) % 2, []
    for wrong in (30, 120):
        predicted = np.where(np.arange(600) < wrong, 1 - y, y)
        with mlflow.start_run() as run_of_side:
            how = {"targets": "y", "predictions": "p", "evaluators": "default"}
            data = pd.DataFrame({"y": y, "p": predicted})
            mlflow.models.evaluate(data=data, model_type="classifier", **how)
        ids.append(run_of_side.info.run_id)
    found = mleval.gate(*ids)
    assert found.ship and any("the same with other predictions" in note for note in found.notes)


ROWS = 90


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Each larger than what is read at once."""
    monkeypatch.setattr(predictions, "_BLOCK", 1_000)
    rng = np.random.default_rng(0)
    truth = rng.random((ROWS, 2)) < 0.4
    for name, noise in (("a", 0.5), ("b", 0.8)):
        scores = 0.5 * truth + noise * rng.random(truth.shape)
        table = pd.DataFrame(truth.astype(int), columns=["true_x", "true_y"])
        table[["score_x", "score_y"]] = scores.clip(0, 1).round(3)
        table["lang"] = np.where(np.arange(ROWS) % 2, "en", "de")
        table[["instance", "sample_weight", "f1"]] = 0  # what an instance has of its own
        table.assign(patient=np.arange(ROWS) // 3).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def test_predictions_in_files_are_compared_and_gated_by_their_rows(files):
    for name in "ab":
        about = ("--method", name, "--dataset", "d", "-n", "of files", "--cluster", "patient")
        said = run("evaluate", str(files / f"{name}.csv"), *about, "--log-instances")
        left = said.stdout.partition("neither truth nor predictions: ")[2]
        assert " ".join(left.split()) == "instance, sample_weight"
    compared = as_json("compare", "-n", "of files", "--over", "instances", "-m", "f1")
    assert compared["n_instances"] == ROWS and compared["separated"] == [["a", "b"]]
    gate = ("gate", "a", "--champion", "b", "-n", "of files", "-m", "f1")
    verdict = as_json(*gate, "--slice", "lang", "--all")
    found = {row["slice"]: row["n"] for row in verdict["rows"]}
    assert verdict["decision"] == "ship" and found == {"": ROWS, "de": 45, "en": 45}
    run(*gate, "--slice", "nobody", code=1)


def test_rows_that_were_not_kept_are_asked_for(files):
    for name in "ab":
        about = ("--method", name, "--dataset", "d", "-n", "without rows")
        assert "lang" in run("evaluate", str(files / f"{name}.csv"), *about).stdout
    missing = run("compare", "-n", "without rows", "--over", "instances", code=1)
    assert "log the rows of the file" in missing.stderr
