"""What only programs read is in one tag, and runs that have it apart read and write the same."""

import json

import mlflow
import numpy as np
import pandas as pd
from command_line import mleval as run
from hypothesis import given
from hypothesis import strategies as st
from mlflow import MlflowClient

import mlflow_mleval as mleval
from mlflow_mleval.sentences import MAX_TAG
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.schema import PACKED, decode, packed, unpacked

Y = np.random.default_rng(0).integers(0, 2, (40, 4))
SCORES = np.random.default_rng(1).random(Y.shape)


def stored(run_id):
    """The tags of ours that the run really has."""
    tags = MlflowClient().get_run(run_id).data.tags
    return {key: value for key, value in tags.items() if key.startswith("mleval.")}


def logged(scores=SCORES, **options):
    ev = mleval.evaluate(Y, scores, folds=np.arange(len(Y)) % 4)
    options = {"method": "BR", "dataset": "made", "n_train": [30] * 4} | options
    return mleval.log_evaluation(ev, **options)


def read():
    """All that comes of the run."""
    study = mleval.load_study(experiment_names=["x"], missing="worst")
    columns = ["run_id", "status", "n_train", "n_test", "split_digest", "dataset_digest"]
    profile = mleval.load_profiles(experiment_names=["x"]).errors["made", "BR"]
    return study.values, study.folds, study.runs[[*columns, "selected_among"]], profile


def same(one, other):
    for mine, theirs in zip(one, other, strict=True):
        pd.testing.assert_frame_equal(pd.DataFrame(mine), pd.DataFrame(theirs))


def metrics_of(client, run_id):
    """Every value that the run ever had."""
    keys = client.get_run(run_id).data.metrics
    return {
        key: [(m.value, m.timestamp, m.step) for m in client.get_metric_history(run_id, key)]
        for key in keys
    }


def test_a_page_shows_a_handful_of_tags(db):
    tags = stored(logged(experiment_name="x"))
    shown = "method dataset status kind conventions schema dataset_digest folds run"
    assert tags.keys() == {f"mleval.{name}" for name in shown.split()}
    inside = json.loads(tags["mleval.run"])
    within = "counts claim digest own_run updated fold_sizes profile soft_profile"
    assert inside.pop("schema") == 1 and inside.keys() == {*within.split()}


def test_an_interrupted_run_is_completed_in_place(client):
    run_id = logged(experiment_name="x")
    before, tags, values = read(), stored(run_id), metrics_of(client, run_id)
    client.set_tag(run_id, schema.TAG_STATUS, schema.INCOMPLETE)
    begun = schema.TAG_CLAIM, schema.TAG_DIGEST, schema.TAG_OWN_RUN, schema.TAG_UPDATED
    marks = {key: decode(tags[schema.TAG_RUN])[key] for key in begun}
    client.set_tag(run_id, schema.TAG_RUN, packed(marks)[schema.TAG_RUN])  # as far as it came
    logged(run_id=run_id)
    same(read(), before)
    assert metrics_of(client, run_id) == values
    assert unpacked(stored(run_id)).keys() == unpacked(tags).keys()
    assert decode(stored(run_id)[schema.TAG_RUN]) == decode(tags[schema.TAG_RUN])


def test_what_finds_no_room_stands_apart_and_is_found(client):
    folds = np.arange(400) % 40
    truth = np.random.default_rng(2).integers(0, 2, (400, 9))
    ev = mleval.evaluate(truth, np.random.default_rng(3).random(truth.shape), folds=folds)
    run_id = mleval.log_evaluation(ev, method="BR", dataset="made", experiment_name="x")
    tags = stored(run_id)
    assert all(len(value) <= MAX_TAG for value in tags.values())
    assert schema.TAG_DIGEST in decode(tags[schema.TAG_RUN])
    assert tags.keys() & {schema.TAG_PROFILE, schema.TAG_SOFT_PROFILE}
    assert mleval.load_profiles(experiment_names=["x"], kind="soft").errors["made", "BR"].size


def test_runs_are_found_by_what_their_tag_holds(client):
    run_id = logged(experiment_name="x")
    experiment = [client.get_experiment_by_name("x").experiment_id]
    digest = decode(stored(run_id)[schema.TAG_RUN])[schema.TAG_DIGEST]
    for held in ((schema.TAG_DIGEST, digest), (schema.TAG_OWN_RUN,)):
        (found,) = store.having(client, experiment, *held)
        assert found.info.run_id == run_id
    assert store.having(client, experiment, schema.TAG_EPOCH) == []


def test_a_damaged_tag_is_named_and_mended(client):
    run_id = logged(experiment_name="x")
    whole = stored(run_id)[schema.TAG_RUN]
    client.set_tag(run_id, schema.TAG_RUN, whole[:-9])
    study = mleval.load_study(experiment_names=["x"])
    expected = [schema.TAG_RUN]
    assert [e.name.partition(" of ")[0] for e in study.excluded if e.kind == "tag"] == expected
    client.set_tag(run_id, schema.TAG_STATUS, schema.INCOMPLETE)
    logged(run_id=run_id)
    expected = decode(whole).keys() - {schema.TAG_OWN_RUN}
    assert decode(stored(run_id)[schema.TAG_RUN]).keys() == expected


TEXTS = st.sampled_from(["", "9", "x" * 3_000, '"' * 2_500]) | st.text(max_size=5)
VALUES = st.dictionaries(st.sampled_from(sorted(PACKED)), TEXTS, max_size=5)


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_each_tag_is_what_was_written_last_and_in_one_place(writings):
    raw, expected = {}, {}
    for changes in writings:
        seen = unpacked(raw)
        assert {k: v for k, v in seen.items() if k != schema.TAG_RUN} == expected
        assert unpacked(seen) == seen
        raw |= packed(changes, seen)
        expected = {k: v for k, v in (expected | changes).items() if v or k in raw}
        assert all(len(value) <= MAX_TAG for value in raw.values())
        assert schema.TAG_RUN not in raw or not decode(raw[schema.TAG_RUN]).keys() & raw.keys()


LABELS = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0]])


def test_runs_are_left_as_they_were_but_for_metrics(db):
    mlflow.set_experiment("mixed")
    with mlflow.start_run(tags={"team": "a"}) as theirs:
        mlflow.log_metric("loss", 0.5)
        mlflow.log_text("x", "notes.txt")
        mleval.log_evaluation(
            mleval.evaluate(LABELS, LABELS, folds=[0, 0, 1]), method="BR", dataset="d"
        )
    ours = mleval.log_evaluation(mleval.evaluate(LABELS, 1 - LABELS), method="CC", dataset="d")
    mlflow.MlflowClient().create_run(theirs.info.experiment_id, tags={"team": "b"})
    client, run_id = MlflowClient(), theirs.info.run_id
    before = client.get_run(run_id)

    said = run("runs", "-n", "mixed", "--forget").stdout
    assert "1 run: " in said and "1 run that mleval made" in said and "--yes does it" in said
    assert client.get_run(run_id).data.tags == before.data.tags

    run("runs", "-n", "mixed", "--forget", "--yes")
    after = client.get_run(run_id)
    kept = {k: v for k, v in before.data.tags.items() if not k.startswith("mleval.")}
    assert after.data.tags == kept and "team" in kept
    assert after.data.metrics == before.data.metrics
    assert [file.path for file in client.list_artifacts(run_id)] == ["notes.txt"]
    assert client.get_run(str(ours)).info.lifecycle_stage == "deleted"
    assert len(client.search_runs([theirs.info.experiment_id])) == 2
    assert "0 runs" in run("runs", "-n", "mixed", "--forget", "--yes").stdout
    assert "--yes goes with --forget" in run("runs", "-n", "mixed", "--yes", code=2).output
