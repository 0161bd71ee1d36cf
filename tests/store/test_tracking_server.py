"""The same over HTTP, against a real tracking server."""

from importlib.resources import files

import mlflow
import numpy as np
import pandas as pd
import pytest
import requests
from sklearn.ensemble import RandomForestClassifier

import mlflow_mleval as mleval
from mlflow_mleval.errors import MissingResultsError, NoRunsError, StoreError
from mlflow_mleval.store import store
from mlflow_mleval.store.importing import import_results
from mlflow_mleval.store.query import load_study
from mlflow_mleval.store.study_artifacts import instances_of, load_folds

pytestmark = pytest.mark.server
STUDY = files("mlflow_mleval") / "data" / "madjarov2012.csv"


@pytest.fixture
def requested(monkeypatch):
    """The paths that were really asked of the server."""
    paths = []
    send = requests.Session.send

    def counting(self, request, **options):
        paths.append(request.path_url.partition("?")[0])
        return send(self, request, **options)

    monkeypatch.setattr(requests.Session, "send", counting)
    return paths


def test_import_twice_and_read_two_published_datasets(server, requested, capsys):
    source = pd.read_csv(STUDY).query("dataset in ('yeast', 'bookmarks')")
    first = import_results(source, experiment_name="published", conventions="mulan")
    assert (first.created, first.unfinished) == (24, 7)
    assert len(requested) == 4 + 3 * 24  # the last looks whether somebody else imported the same
    requested.clear()
    assert import_results(source, experiment_name="published").unchanged == 24
    assert [path.rpartition("/")[2] for path in requested] == ["get-by-name", "search"]
    requested.clear()
    study = load_study(experiment_names=["published"], missing="worst")
    assert [path.rpartition("/")[2] for path in requested] == ["get-by-name", "search"]
    assert capsys.readouterr() == ("", "")

    published = source.pivot(index=["dataset", "method"], columns="measure", values="value")
    expected = published.loc[study.values.index, study.measures]
    pd.testing.assert_frame_equal(study.values, expected, check_names=False, check_exact=True)
    assert len(study.measures) == 16 and len(study.gaps()) == 7
    assert study.source["tracking_uri"] == server


def test_one_result_takes_six_requests(server, requested):
    """Of MLflow's own calls a new run takes four; a process asks once for the server's page."""
    rng = np.random.default_rng(0)
    y, scores = rng.random((60, 4)) < 0.4, rng.random((60, 4))
    names = {"method": "m", "dataset": "d"}
    mlflow.set_experiment("requests")

    def asked(call):
        requested.clear()
        call()
        return len(requested)

    def log(**options):
        return asked(lambda: mleval.log_evaluation(mleval.evaluate(y, scores, **options), **names))

    assert log() <= 7
    assert log() <= 6
    assert log(folds=np.arange(60) % 5) <= 6
    model = RandomForestClassifier(2).fit(y, y)
    mleval.autolog()
    try:
        model.fit(scores, y)
        assert asked(lambda: model.score(scores[::-1], y)) <= 6
        with mlflow.start_run() as run:
            model.fit(scores, y)
            assert asked(lambda: model.score(scores[::-1], y)) <= 6
        with mlflow.start_run():
            assert log() <= 6
    finally:
        mleval.autolog(disable=True)
    tags = mlflow.get_run(run.info.run_id).data.tags
    assert tags["mleval.status"] == "complete" and "mleval.dataset_digest" in tags


def test_changes_and_names_of_strangers_over_http_in_pages(server, monkeypatch):
    strange = ["<img src=x onerror=alert(1)>", "\x1b[31mred", "two\nlines", "x" * 5000]
    strange += ["名前 🚀", "'; --"]
    rows = [(d, m, f, f / 4) for d in strange[:2] for m in strange for f in (1, 2)]
    table = pd.DataFrame(rows, columns=["dataset", "method", "fold", "f1"])
    import_results(table, experiment_name="strange\x1b")
    assert import_results(table, experiment_name="strange\x1b").unchanged == 12
    monkeypatch.setattr(store, "PAGE", 3)
    study = load_study(experiment_names=["strange\x1b"])
    assert study.methods == strange and study.datasets == strange[:2]
    assert max(len(mlflow.get_run(i).info.run_name) for i in study.runs["run_id"]) <= 250
    expected = table.set_index(["dataset", "method", "fold"])
    pd.testing.assert_frame_equal(study.folds, expected, check_index_type=False)
    table = table.drop(columns="fold").drop_duplicates(["dataset", "method"])
    report = import_results(table, experiment_name="strange\x1b")
    assert report.updated == len(table) and report.changes[0].endswith("f1 0.375 -> 0.25")
    assert load_study(experiment_names=["strange\x1b"]).folds is None


def test_errors_over_http(server, monkeypatch):
    with pytest.raises(NoRunsError, match="there is no experiment 'none'. The store http"):
        load_study(experiment_names=["none"])
    mlflow.create_experiment("errors")
    with pytest.raises(StoreError, match="MLflow does not accept the filter 'nonsense'"):
        load_study(experiment_names=["errors"], filter_string="nonsense")
    with pytest.raises(NoRunsError, match="there is no run 0123"):
        load_study(run_ids=["0123"])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{server}/elsewhere")
    with pytest.raises(StoreError, match="cannot read the store http.*404"):
        load_study(experiment_names=["errors"])


def test_instances_take_one_request_a_run_counts_and_imported_runs_none(server, requested):
    rng = np.random.default_rng(0)
    y, folds = rng.random((40, 3)) < 0.5, np.arange(40) % 4
    for method in ("a", "b"):
        ev = mleval.evaluate(y, rng.random(y.shape), folds=folds)
        where = {"dataset": "d", "experiment_name": "parts"}
        mleval.log_evaluation(ev, method=method, **where, log_instances=True)
    requested.clear()
    study = load_folds(["tpr"], experiment_names=["parts"])
    paths = [path.rpartition("/")[2] for path in requested]
    assert {"tp", "fn"} <= {*study.folds}
    assert paths.count("search") == 1 and "get-artifact" not in paths  # counts stand in a tag
    requested.clear()
    with instances_of(study, "d", ["hamming_loss"]) as instances:
        assert [*instances.tables] == ["a", "b"]
    assert requested == ["/get-artifact"] * 2
    table = pd.DataFrame({"dataset": "d", "method": ["a", "b"], "f1": 0.5})
    import_results(table, experiment_name="imported")
    study = load_study(experiment_names=["imported"])
    requested.clear()
    with pytest.raises(MissingResultsError, match="0 of 2 runs"), instances_of(study, "d"):
        pass
    assert not requested
