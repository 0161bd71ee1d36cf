"""Results into a real store: one run per method and dataset; again changes nothing."""

import json
import math
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlflow.entities import Metric

from mlflow_mleval.errors import ImportFileError, StoreError
from mlflow_mleval.sentences import MAX_TAG
from mlflow_mleval.store import schema
from mlflow_mleval.store.importing import import_results
from mlflow_mleval.store.query import load_study
from mlflow_mleval.store.schema import LARGEST

STUDY = files("mlflow_mleval") / "data" / "madjarov2012.csv"
GONE = (math.nan, math.nan)


def table(**changes):
    cells = {"d_a": (0.5, 0.1), "d_b": (0.6, 0.2), "e_a": (0.7, 0.3), "e_b": GONE}
    return wide({tuple(key.split("_")): value for key, value in (cells | changes).items()})


def wide(cells):
    """A table of values of two measures by data set and method."""
    rows = [(*key, *value) for key, value in cells.items()]
    return pd.DataFrame(rows, columns=["dataset", "method", "f1", "hamming_loss"])


def folds(values, **more):
    """Values of f1 by fold for method a on d."""
    return pd.DataFrame(
        {"dataset": "d", "method": "a", "fold": range(1, len(values) + 1), "f1": values} | more
    )


def same(values, source):
    """The values of a study are those of the wide table that was imported, whatever the order."""
    expected = source.set_index(["dataset", "method"])
    assert len(values) == len(expected)
    found = values.loc[expected.index, expected.columns]
    pd.testing.assert_frame_equal(found, expected, check_exact=True)


def history(client, run):
    """Steps and values by fold, in the order in which they were logged."""
    entries = client.get_metric_history(run.info.run_id, "mleval.fold/f1")
    return [(m.step, m.value) for m in sorted(entries, key=lambda m: (m.step, m.timestamp))]


def tags(kind, status):
    """Of a run of method a on d that we did not write whole."""
    known = {"method": "a", "dataset": "d", "kind": kind, "status": status}
    return {f"mleval.{name}": value for name, value in known.items()}


def runs(client, name="x"):
    experiment = client.get_experiment_by_name(name)
    found = client.search_runs([experiment.experiment_id])
    return {r.data.tags[schema.TAG_METHOD] + r.data.tags[schema.TAG_DATASET]: r for r in found}


def test_the_published_study_arrives_whole_and_once(client, db):
    report = import_results(STUDY, experiment_name="x", conventions="mulan")
    assert (report.created, report.updated, report.unchanged, report.unfinished) == (132, 0, 0, 12)
    assert report.changes == report.absent == report.warnings == ()
    published = pd.read_csv(STUDY).set_index(["dataset", "method", "measure"])["value"].dropna()
    stored = {}
    for run in runs(client).values():
        pair = run.data.tags[schema.TAG_DATASET], run.data.tags[schema.TAG_METHOD]
        for key, value in run.data.metrics.items():
            stored[(*pair, schema.measure_of(key))] = value
    assert stored == published.to_dict()
    before = db.read_bytes()
    again = import_results(STUDY, experiment_name="x")
    assert (again.created, again.updated, again.unchanged) == (0, 0, 132) and again.changes == ()
    assert db.read_bytes() == before


def test_what_a_run_looks_like(client):
    import_results(table(), experiment_name="x", conventions="mulan")
    run = runs(client)["ad"]
    assert run.info.run_name == "a · d" and run.info.status == "FINISHED" and run.info.end_time
    assert run.data.metrics == {"mleval/f1": 0.5, "mleval/hamming_loss": 0.1}
    ours = {key: value for key, value in run.data.tags.items() if key.startswith("mleval.")}
    assert len(ours.pop("mleval.claim")) == 32 and ours.pop("mleval.run")
    more = {"mleval.schema": "1", "mleval.conventions": "mulan"}
    assert ours == tags("import", "complete") | more
    unfinished = runs(client)["be"]
    assert unfinished.info.status == "KILLED" and unfinished.data.tags["mleval.status"] == "dnf"
    assert not unfinished.data.metrics


def test_more_folds_than_one_request_or_tag_can_carry_twice_write_nothing_more(client, db):
    values = np.linspace(0.1, 0.9, 2500) ** 0.5  # more than one request or tag can carry
    many = pd.concat([folds(values), folds([0.5, 0.7]).assign(method="b")])
    import_results(many, experiment_name="x")
    run = runs(client)["ad"]
    assert run.data.tags[schema.TAG_STATUS] == "complete"
    assert run.data.metrics["mleval/f1"] == pytest.approx(values.mean())
    assert len(run.data.tags[schema.TAG_FOLDS]) <= MAX_TAG
    assert [value for _, value in history(client, run)] == values.tolist()
    before = db.read_bytes()
    assert import_results(many, experiment_name="x").unchanged == 2
    assert db.read_bytes() == before
    read = load_study(experiment_names=["x"]).folds.loc["d"].loc["a", "f1"]
    np.testing.assert_array_equal(read, values)  # from the steps where the tag has no room


def test_a_changed_file_updates_in_place_and_says_what(client):
    import_results(table(), experiment_name="x")
    ids = {key: r.info.run_id for key, r in runs(client).items()}
    changed = table(d_a=(0.6, 0.1), d_b=(0.6, math.nan), e_a=GONE, e_b=(0.8, 0.4))
    report = import_results(changed, experiment_name="x")
    assert (report.created, report.updated, report.unchanged) == (0, 4, 0)
    assert report.changes == (
        *("a on d: f1 0.5 -> 0.6", "b on d: hamming_loss 0.2 withdrawn"),
        *("a on e: f1 0.7 withdrawn", "a on e: hamming_loss 0.3 withdrawn"),
        *("a on e: status complete -> dnf", "b on e: f1 0.8 added"),
        *("b on e: hamming_loss 0.4 added", "b on e: status dnf -> complete"),
    )
    found = runs(client)
    assert {key: r.info.run_id for key, r in found.items()} == ids
    assert found["ad"].data.metrics == {"mleval/f1": 0.6, "mleval/hamming_loss": 0.1}
    assert json.loads(found["bd"].data.tags[schema.TAG_WITHDRAWN]) == ["hamming_loss"]
    assert (found["ae"].info.status, found["be"].info.status) == ("KILLED", "FINISHED")
    study = load_study(experiment_names=["x"], measures=["f1", "hamming_loss"])
    assert study.gaps() == [("d", "b"), ("e", "a")]
    assert study.values.loc[("d", "b"), "f1"] == 0.6
    assert math.isnan(study.values.loc[("d", "b"), "hamming_loss"])
    import_results(table(), experiment_name="x")
    same(load_study(experiment_names=["x"]).values, table())
    assert import_results(table(), experiment_name="x").unchanged == 4


def test_a_smaller_later_value_wins_within_one_millisecond(client):
    """MLflow takes the largest of several values with one step and time, so times must differ."""
    for value in (0.9, 0.8, 0.7, 0.6, 0.5):
        import_results(table(d_a=(value, 0.1)), experiment_name="x")
    assert runs(client)["ad"].data.metrics["mleval/f1"] == 0.5


def test_pairs_that_the_source_does_not_mention_stay(client):
    import_results(table(), experiment_name="x")
    report = import_results(table().query("method == 'a'"), experiment_name="x")
    assert report.unchanged == 2 and report.absent == ("b on d", "b on e")
    assert len(runs(client)) == 4
    assert "left as they are, not in this source: b on d, b on e" in report.summary()


def test_conventions_are_kept_unless_stated_anew(client):
    import_results(table(), experiment_name="x", conventions="mulan")
    assert import_results(table(), experiment_name="x").unchanged == 4
    report = import_results(table(), experiment_name="x", conventions="sklearn")
    assert report.updated == 4 and report.changes[0] == "a on d: conventions mulan -> sklearn"
    with pytest.raises(ValueError, match="`conventions` must be one of"):
        import_results(table(), experiment_name="x", conventions="mine")


def test_folds_are_stored_three_ways(client):
    import_results(folds([0.5, 0.75]), experiment_name="x")
    run = runs(client)["ad"]
    assert run.data.metrics == {"mleval/f1": 0.625, "mleval.fold/f1": 0.75}
    assert history(client, run) == [(1, 0.5), (2, 0.75)]
    assert schema.decode_folds(run.data.tags[schema.TAG_FOLDS]).values == {"f1": [0.5, 0.75]}
    report = import_results(folds([0.5, 0.25]), experiment_name="x")
    assert report.changes == ("a on d: f1 0.625 -> 0.375", "a on d: values by fold changed")
    assert load_study(experiment_names=["x"]).folds["f1"].tolist() == [0.5, 0.25]
    assert history(client, run) == [(1, 0.5), (2, 0.75), (2, 0.25)]


def test_a_measure_with_an_empty_fold_did_not_finish(client):
    source = folds([0.5, math.nan, 0.75], hamming_loss=[0.1, 0.2, 0.3])
    report = import_results(source, experiment_name="x")
    expected = ("f1 of a on d has no value in fold 2 of 3: its mean counts as not finished",)
    assert report.warnings == expected
    run = runs(client)["ad"]
    assert run.data.metrics["mleval/hamming_loss"] == pytest.approx(0.2)
    assert "mleval/f1" not in run.data.metrics
    assert load_study(experiment_names=["x"]).measures == ["hamming_loss"]


@given(st.integers(1, 3000), st.integers(1, 30))
@settings(max_examples=25, deadline=None)
def test_the_tag_of_folds_is_exact_or_says_so(n_folds, n_measures):
    rng = np.random.default_rng(n_folds)
    values = {f"m{i}": rng.random(n_folds).tolist() for i in range(n_measures)}
    text = schema.encode_folds(range(n_folds), values)
    assert len(text) <= MAX_TAG
    found = schema.decode_folds(text)
    if found.omitted:
        assert found.omitted == "mleval.fold/" and not found.values
    else:
        tolerance = 0.5 * 10.0 ** (1 - found.digits) if found.digits else 0
        for m, column in values.items():
            np.testing.assert_allclose(found.values[m], column, rtol=tolerance)
    # one value in the last digit must change the tag: the next import is to notice
    values["m0"][-1] += 1e-15
    assert schema.encode_folds(range(n_folds), values) != text


def test_a_malformed_file_writes_nothing(client, db, tmp_path):
    before = db.read_bytes()
    path = tmp_path / "bad.csv"
    path.write_text("dataset,method,f1\nd,a,0.5\nd,b,oops\n")
    with pytest.raises(ImportFileError, match="bad.csv, line 3, column 'f1'"):
        import_results(path, experiment_name="x")
    assert db.read_bytes() == before


def test_an_interrupted_import_is_completed_by_importing_again(client):
    class Stop(Exception):
        pass

    def stop(done, total):
        if done == 2:
            raise Stop

    with pytest.raises(Stop):
        import_results(table(), experiment_name="x", progress=stop)
    assert len(runs(client)) == 2
    steps = []
    report = import_results(table(), experiment_name="x", progress=lambda *step: steps.append(step))
    assert (report.created, report.unchanged) == (2, 2)
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("written", [[], ["f1"], ["f1", "hamming_loss"]])
def test_a_half_written_run_is_skipped_and_then_completed(client, written):
    """What a crash leaves: the run, maybe metrics, but not the final status."""
    import_results(table().query("method == 'b'"), experiment_name="x")
    experiment_id = client.get_experiment_by_name("x").experiment_id
    run = client.create_run(experiment_id, run_name="a · d", tags=tags("import", "incomplete"))
    values, began = {"f1": 0.5, "hamming_loss": 0.1}, run.info.start_time
    metrics = [Metric(f"mleval/{m}", values[m], began, 0) for m in written]
    client.log_batch(run.info.run_id, metrics)
    study = load_study(experiment_names=["x"])
    assert study.methods == ["b"]
    expected = [("run", "written in part only; import or log again")]
    assert [(e.kind, e.reason) for e in study.excluded] == expected
    report = import_results(table(), experiment_name="x")
    assert (report.created, report.updated, report.unchanged) == (1, 1, 2)
    assert report.changes == ("a on d: an interrupted import was completed",)
    assert len(client.get_metric_history(run.info.run_id, "mleval/f1")) == 1
    assert runs(client)["ad"].info.status == "FINISHED"
    same(load_study(experiment_names=["x"]).values, table())


def test_of_two_runs_the_whole_one_is_kept_up_to_date_and_one_measured_here_is_left(client):
    """A request that was sent twice may leave an empty second run."""
    import_results(table(), experiment_name="x")
    whole = runs(client)["ad"]
    client.create_run(whole.info.experiment_id, tags=tags("import", "incomplete"))
    complete = tags("evaluation", "complete")
    measured = client.create_run(whole.info.experiment_id, tags=complete).info.run_id
    assert import_results(table(), experiment_name="x").unchanged == 4
    import_results(table(d_a=(0.9, 0.9)), experiment_name="x")
    assert client.get_run(whole.info.run_id).data.metrics["mleval/f1"] == 0.9
    assert client.get_run(measured).data.metrics == {}


def test_a_run_that_another_import_withdraws_before_it_is_written_to_is_made_anew(client):
    import_results(table(), experiment_name="x")
    gone = runs(client)["ae"].info.run_id
    withdraw = lambda done, _: client.delete_run(gone) if done == 1 else None  # noqa: E731
    changed = table(d_a=(0.9, 0.9), e_a=(0.8, 0.3))
    report = import_results(changed, experiment_name="x", progress=withdraw)
    assert (report.created, report.updated, report.unchanged) == (1, 1, 2)
    assert runs(client)["ae"].data.metrics["mleval/f1"] == 0.8
    assert client.get_run(gone).data.metrics["mleval/f1"] == 0.7


def test_tags_that_somebody_broke_are_mended_and_an_end_that_was_not_written_is(client):
    import_results(folds([0.5, 0.75]), experiment_name="x")
    run_id = runs(client)["ad"].info.run_id
    for name in (schema.TAG_FOLDS, schema.TAG_WITHDRAWN, schema.TAG_UPDATED):
        client.set_tag(run_id, name, "{")
    assert load_study(experiment_names=["x"]).values["f1"].tolist() == [0.625]
    assert import_results(folds([0.5, 0.75]), experiment_name="x").updated == 1
    assert load_study(experiment_names=["x"]).folds["f1"].tolist() == [0.5, 0.75]
    client.update_run(run_id, status="RUNNING")
    expected = ("a on d: an interrupted import was completed",)
    assert import_results(folds([0.5, 0.75]), experiment_name="x").changes == expected
    assert runs(client)["ad"].info.status == "FINISHED"


def test_the_summary_is_lines(client):
    source = pd.DataFrame({"dataset": "d", "method": [f"m\n{i}" for i in range(25)], "f1": 0.5})
    assert import_results(source, experiment_name="x").summary() == (
        "experiment 'x' (id 1): 25 runs created, 0 updated, 0 unchanged; 0 did not finish"
    )
    lines = import_results(source.assign(f1=0.25), experiment_name="x").summary().splitlines()
    assert len(lines) == 22 and lines[1] == "m 0 on d: f1 0.5 -> 0.25"
    assert lines[-1] == "and 5 more changes"


def test_a_deleted_experiment_and_a_newer_schema_are_refused(client):
    import_results(table(), experiment_name="x")
    run = runs(client)["ad"]
    client.set_tag(run.info.run_id, schema.TAG_SCHEMA, "2")
    said = "schema 2, and this version of mlflow-mleval knows up to 1. Upgrade"
    with pytest.raises(StoreError, match=said):
        import_results(table(), experiment_name="x")
    client.delete_experiment(run.info.experiment_id)
    with pytest.raises(StoreError, match="'x' is deleted. Restore it"):
        import_results(table(), experiment_name="x")


names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40
)
names = names.map(str.strip).filter(len)
numbers = st.floats(-LARGEST, LARGEST)


@given(
    st.dictionaries(st.tuples(names, names), st.tuples(numbers, numbers), min_size=1, max_size=4)
)
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_names_and_numbers_come_back_unharmed(client, cells):
    experiment = f"any {hash(frozenset(cells.items()))}"
    import_results(wide(cells), experiment_name=experiment)
    same(load_study(experiment_names=[experiment]).values, wide(cells))


def test_each_seed_is_a_run_and_importing_again_changes_nothing(client, db):
    seeds = {"method": [*"aaabb"], "seed": [1, 2, 3, 1, 2], "f1": [0.5, 0.7, 0.6, 0.4, math.nan]}
    source = pd.DataFrame({"dataset": "d", **seeds})
    done = import_results(source, experiment_name="x")
    assert (done.created, done.unfinished) == (5, 1)
    found = client.search_runs([done.experiment_id])
    assert sorted(r.data.params["seed"] for r in found) == ["1", "1", "2", "2", "3"]
    assert "a · d · 3" in {r.info.run_name for r in found}
    before = db.read_bytes()
    again = import_results(source.rename(columns={"seed": "repeat"}), experiment_name="x")
    assert again.unchanged == 5
    assert db.read_bytes() == before
    study = load_study(experiment_names=["x"], measures=["f1"])
    assert study.values.loc[("d", "a"), "f1"] == pytest.approx(0.6)
    assert study.n_repeats["d", "a"] == 3
    assert study.over("repeats", "d").tables["a"]["f1"].to_dict() == {"1": 0.5, "2": 0.7, "3": 0.6}
    other = source.assign(f1=[0.5, 0.7, 0.9, 0.4, math.nan]).drop(index=0)
    changed = import_results(other, experiment_name="x")
    assert changed.updated == 1 and changed.changes == ("a on d (seed 3): f1 0.6 -> 0.9",)
    assert changed.absent == ("a on d (seed 1)",)


def test_seeds_with_folds(client):
    both = pd.concat([folds([0.5, 0.7], seed=1), folds([0.6, 0.8], seed=2)])
    import_results(both, experiment_name="x")
    study = load_study(experiment_names=["x"], measures=["f1"])
    assert study.n_repeats["d", "a"] == 2
    assert study.folds["f1"].tolist() == pytest.approx([0.55, 0.75])
