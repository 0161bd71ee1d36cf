"""What every callback does with its epochs: metrics, profile, evaluation, and no harm."""

import os
import random
import warnings
from contextlib import contextmanager
from itertools import product

import mlflow
import numpy as np
import pytest
from callback_cases import assert_epochs, history, one_warning, tags_of

import mlflow_mleval as mleval
from mlflow_mleval.store import schema
from mlflow_mleval.training.callbacks import EpochLog
from mlflow_mleval.training.delivery import send_unsent
from mlflow_mleval.training.run_content import EPOCH_MEASURES

NAMES = {"method": "net", "dataset": "toy"}
H = mleval.Hierarchy([("a", "b"), ("a", "c"), ("b", "d")])


def data(n=60, k=4, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((n, k)) < 0.4).astype(int), rng.random((n, k))


def epochs(count=5, **shape):
    """Truth, and scores that come nearer to it epoch by epoch up to the last but one."""
    y, noise = data(**shape)
    nearer = [*np.linspace(0.05, 0.45, count - 1), 0.2]
    return y, [a * y + (1 - a) * noise for a in nearer]


def train(log, y, scores):
    log.begin()
    for epoch, s in enumerate(scores):
        log.epoch(epoch, lambda s=s: (y, s))
    log.end(lambda: (y, scores[-1]), len(scores) - 1)


def trained(client, y, scores, **options):
    """The log of a training, and its run."""
    log = EpochLog(**NAMES, **options)
    with mlflow.start_run() as run:
        train(log, y, scores)
    return log, client.get_run(run.info.run_id)


def test_every_epoch_has_its_measures_and_profile_and_the_end_a_full_evaluation(client):
    y, scores = epochs()
    log, run = trained(client, y, scores)
    evs = [mleval.evaluate(y, s) for s in scores]
    measures = [m for m in EPOCH_MEASURES if m in evs[0].measures]
    assert_epochs(client, run.info.run_id, y, dict(enumerate(scores)), measures, 1e-15)
    points = [*product(("hard", "soft"), range(1, 5))]
    profiles = {schema.epoch_profile_key(kind, k, 4): (kind, k) for kind, k in points}
    found = {key for key in run.data.metrics if key.startswith("mleval.epoch")}
    assert found == {*profiles, *(schema.EPOCH_PREFIX + m for m in measures)}
    for key, (kind, k) in profiles.items():
        values = {i: ev.profile(kind=kind).losses[k - 1] for i, ev in enumerate(evs)}
        logged = client.get_metric_history(run.info.run_id, key)
        assert {m.step: m.value for m in logged} == pytest.approx(values, rel=1e-12)
    assert log.run_id == run.info.run_id and log.evaluation.measures == evs[-1].measures
    tags = run.data.tags
    assert (tags[schema.TAG_STATUS], tags[schema.TAG_EPOCH]) == (schema.COMPLETE, "4")
    assert schema.TAG_SELECTED not in tags and schema.TAG_DATASET_DIGEST in tags
    study = mleval.load_study(experiment_names=["Default"])
    expected = {m: log.evaluation.measures[m] for m in study.measures}
    assert study.values.loc["toy", "net"].to_dict() == expected
    assert not [m for m in study.measures if "epoch" in m]


@pytest.mark.parametrize("measure", ["micro_f1", "soft_binomial_area"])
def test_the_best_epoch_is_evaluated_and_said_to_be_chosen(client, measure):
    y, scores = epochs()
    log, run = trained(client, y, scores, best_by=measure)
    assert tags_of(client, run, schema.TAG_EPOCH, schema.TAG_SELECTED) == ("3", "5")
    assert log.evaluation.measures == mleval.evaluate(y, scores[3]).measures
    report = mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/{schema.ARTIFACT_REPORT}")
    assert "chosen among 5 candidates by these very results" in report


def test_of_epochs_that_are_equally_good_the_first_is_taken(client):
    y, (low, _, _, best, _) = epochs()
    scores = [low, best, best + 0.001, low]  # the second and the third predict the same labels
    log, run = trained(client, y, scores, best_by="micro_f1")
    assert tags_of(client, run, schema.TAG_EPOCH) == ("1",)
    assert log.evaluation.measures == mleval.evaluate(y, best).measures


def test_chosen_measures_only(client):
    _, run = trained(client, *epochs(6), measures=["ranking", "f1"])
    found = run.data.metrics
    keys = {k.removeprefix(schema.EPOCH_PREFIX) for k in found if k.startswith(schema.EPOCH_PREFIX)}
    assert keys == {"one_error", "coverage", "ranking_loss", "average_precision", "f1"}


def test_many_labels_have_ten_points_of_the_profile_that_sort_by_k(client):
    metrics = trained(client, *epochs(3, k=150))[1].data.metrics
    for prefix in schema.EPOCH_PROFILE_PREFIXES.values():
        ks = [int(key.rpartition("k")[2]) for key in sorted(metrics) if key.startswith(prefix)]
        assert len(ks) == 10 and ks == sorted(ks) and (ks[0], ks[-1]) == (1, 150)


def test_scores_that_are_no_probabilities_have_hard_profiles(client):
    y, scores = epochs()
    logits = [np.log((s + 1e-9) / (1 - s + 1e-9)) for s in scores]
    _, run = trained(client, y, logits, threshold=0.0)
    hard = mleval.evaluate(y, scores[-1]).profile(kind="hard").losses[1]
    assert run.data.metrics["mleval.epoch.profile/k2"] == pytest.approx(hard, rel=1e-12)


def test_one_label_and_scores_without_columns(client):
    y, scores = epochs(3, k=1)
    _, run = trained(client, y, [s[:, 0] for s in scores], measures=["f1"])
    assert len(history(client, run.info.run_id, "f1")) == 3


def test_a_hierarchy_and_measures_on_request_count_where_they_are_asked_for(client):
    y, scores = epochs(3)
    options = {"label_names": list("abcd"), "hierarchy": H, "max_distance": 3}
    for measures, expected in ((["f1", "h_f1", "micro_ap"], 3), (["f1"], 0)):
        _, run = trained(client, y, scores, measures=measures, best_by="ece_15", **options)
        found, at = run.data.metrics, int(run.data.tags[schema.TAG_EPOCH])
        assert found["mleval/h_f1"] == mleval.evaluate(y, scores[at], **options).measures["h_f1"]
        assert len(history(client, run.info.run_id, "h_f1")) == expected
        on_request = {"mleval/micro_ap", "mleval.epoch/micro_ap"} & found.keys()
        assert len(on_request) == (2 if expected else 0) and "mleval/ece_15" in found


def test_a_measure_that_cannot_be_computed_is_said_once(client):
    y, scores = epochs()
    with one_warning(r"1 of the measures .* \(h_f1: no `hierarchy` was given\)"):
        train(EpochLog(**NAMES, measures=["f1", "h_f1"]), y, scores)


def test_without_a_run_there_is_one_warning_and_no_run(client):
    y, scores = epochs()
    with one_warning("No run is active", active=False):
        train(EpochLog(**NAMES), y, scores)
    assert not client.search_runs(["0"])


def test_a_run_can_be_named(client, monkeypatch):
    runs = [client.create_run("0") for _ in range(2)]
    monkeypatch.setenv("MLFLOW_RUN_ID", runs[1].info.run_id)
    for run, run_id in zip(runs, (runs[0].info.run_id, None), strict=True):
        train(EpochLog(**NAMES, run_id=run_id), *epochs(2))
        assert tags_of(client, run, schema.TAG_STATUS) == (schema.COMPLETE,)


def test_a_second_training_needs_a_second_run(client):
    y, scores = epochs()
    log, said = EpochLog(**NAMES), "holds a result already"
    with mlflow.start_run() as run:
        train(log, y, scores)
        with pytest.warns(UserWarning, match=said) as told:
            train(log, y, scores)
    assert len(told) == 1 and log.evaluation is None
    assert len(history(client, run.info.run_id, "f1")) == 5
    with mlflow.start_run(), warnings.catch_warnings():
        warnings.simplefilter("error")
        train(log, y, scores)
    assert log.evaluation is not None


@contextmanager
def away(db):
    """The store does not answer."""
    db.rename(db.with_suffix(".away"))
    yield
    db.unlink(missing_ok=True)
    db.with_suffix(".away").rename(db)


@pytest.mark.parametrize("since", ["the beginning", "an epoch"])
def test_a_store_that_goes_away_is_one_warning_and_all_is_kept(db, client, since):
    y, scores = epochs(4)
    log, said = EpochLog(**NAMES), "StoreError: .* Epochs are kept in memory"
    with mlflow.start_run() as run, pytest.warns(UserWarning, match=said) as told:
        if since == "an epoch":
            log.begin()
        with away(db):
            if since == "the beginning":
                log.begin()
            for epoch, s in enumerate(scores):
                log.epoch(epoch, lambda s=s: (y, s))
            log.end(lambda: (y, scores[-1]))
    folder = db.parent / "mleval_unsent"
    assert len(told) == 1 and f"mleval import {folder}" in str(told[0].message)
    (kept,) = folder.glob("*.json")
    assert "mleval.epoch/f1" not in client.get_run(run.info.run_id).data.metrics
    content = kept.read_bytes()
    expected = {i: mleval.evaluate(y, s).measures["f1"] for i, s in enumerate(scores)}
    for _ in range(2):  # the second time nothing is left to do
        kept.write_bytes(content)
        send_unsent(folder)
        assert history(client, run.info.run_id, "f1") == expected
        assert tags_of(client, run, schema.TAG_STATUS) == (schema.COMPLETE,)


def test_a_store_that_comes_back_gets_every_epoch(db, client):
    y, scores = epochs()
    log, said = EpochLog(**NAMES), "epoch 0 was not logged"
    with mlflow.start_run() as run, pytest.warns(UserWarning, match=said) as told:
        log.begin()
        with away(db):
            log.epoch(0, lambda: (y, scores[0]))
        log.epoch(1, lambda: (y, scores[1]))  # a store that failed is left alone for a while
        assert "mleval.epoch/f1" not in client.get_run(run.info.run_id).data.metrics
        log.end(lambda: (y, scores[-1]))
    assert len(told) == 1 and tags_of(client, run, schema.TAG_STATUS) == (schema.COMPLETE,)
    expected = {i: mleval.evaluate(y, scores[i]).measures["f1"] for i in range(2)}
    assert history(client, run.info.run_id, "f1") == expected


def test_a_loop_written_by_hand(client):
    y, scores = epochs()
    evs = [mleval.evaluate(y, s) for s in scores]
    with mlflow.start_run() as run:
        for epoch, ev in enumerate(evs):
            assert mleval.log_evaluation(ev, step=np.int64(epoch)) == run.info.run_id
        assert schema.TAG_STATUS not in client.get_run(run.info.run_id).data.tags
        mleval.log_evaluation(evs[-1], **NAMES)
    _, other = trained(client, y, scores)
    byhand, callback = client.get_run(run.info.run_id).data, other.data
    assert byhand.metrics == callback.metrics
    found = [history(client, of.info.run_id, "f1") for of in (run, other)]
    assert found[0] == found[1] and "mleval.epoch.profile/k2" in byhand.metrics
    assert client.get_run(run.info.run_id).info.status == "FINISHED"


def test_a_loop_by_hand_logs_the_measures_chosen_and_hierarchical_ones(client):
    y, scores = epochs()
    ev = mleval.evaluate_hierarchical([{"b"}, {"c"}], [{"d"}, {"c"}], H)
    run_id, other = (client.create_run("0").info.run_id for _ in range(2))
    mleval.log_evaluation(ev, step=3, run_id=run_id)
    assert client.get_run(run_id).data.metrics["mleval.epoch/h_f1"] == ev.measures["h_f1"]
    mleval.log_evaluation(mleval.evaluate(y, scores[0]), step=3, run_id=other, measures=["f1"])
    found = [k for k in client.get_run(other).data.metrics if k.startswith("mleval.epoch/")]
    assert found == ["mleval.epoch/f1"]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"step": 1.5}, TypeError, "`step` must be a whole number, got 1.5"),
        ({"step": True}, TypeError, "`step` must be a whole number"),
        ({"step": 1, "tags": {"a": "b"}}, ValueError, "`tags` must not be given with `step`"),
        ({"step": 1, "log_instances": True}, ValueError, "`log_instances` must not be given with"),
        ({"step": 1, "measures": ["f2"]}, ValueError, "`measures` must name"),
        ({"step": 1}, ValueError, "`step` must have a run"),
        ({"dataset": "d"}, TypeError, "`method` must be given without `step`"),
    ],
)
def test_a_loop_by_hand_is_told_what_is_wrong(client, options, error, text):
    with pytest.raises(error, match=text):
        mleval.log_evaluation(mleval.evaluate(*data()), **options)


@pytest.mark.parametrize("bad", ["scores", "raises", "shape"])
def test_what_cannot_be_evaluated_is_one_warning(client, bad):
    y, scores = epochs()

    def predict():
        if bad == "raises":
            raise RuntimeError("no predictions")
        return y, np.full(y.shape, np.nan) if bad == "scores" else scores[0][:, :2]

    log, said = EpochLog(**NAMES), "epoch 1 and later ones are not logged"
    with mlflow.start_run() as run, pytest.warns(UserWarning, match=said) as told:
        log.begin()
        log.epoch(0, lambda: (y, scores[0]))
        for epoch in (1, 2):
            log.epoch(epoch, predict)
        log.end(predict)
    assert len(told) == 1 and log.evaluation is None
    assert tags_of(client, run, schema.TAG_STATUS) == (None,)


def test_warnings_as_errors_do_not_stop_the_training(client, capsys):
    y, scores = epochs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(EpochLog(**NAMES), y, scores)
    assert "No run is active" in capsys.readouterr().err


def test_an_interrupt_is_the_users(client):
    def predict():
        raise KeyboardInterrupt

    log = EpochLog(**NAMES)
    with mlflow.start_run():
        log.begin()
        with pytest.raises(KeyboardInterrupt):
            log.epoch(0, predict)


def test_the_random_state_stays(client):
    y, scores = epochs()

    def predict():
        return random.random(), np.random.random()  # noqa: NPY002

    def state():
        return random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002

    log = EpochLog(**NAMES)
    with mlflow.start_run():
        before = state()
        log.begin()
        log.epoch(0, lambda: (predict() and y, scores[0]))
        log.end(lambda: (predict() and y, scores[0]))
        assert state() == before


def test_epochs_that_share_a_request_all_arrive(client):
    _, run = trained(client, *epochs(120, n=10))
    assert sorted(history(client, run.info.run_id, "f1")) == list(range(120))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"measures": ["f2"]}, ValueError, "`measures` must name"),
        ({"best_by": "fit_time"}, ValueError, "`best_by` must name one measure"),
        ({"method": ""}, ValueError, "`method` must be"),
        ({"dataset": 3}, TypeError, "`dataset` must be text"),
        ({"treshold": 0.3}, TypeError, "has no argument 'treshold'. Did you mean 'threshold'"),
        ({"conventions": "weka"}, ValueError, "`conventions` must be"),
    ],
)
def test_bad_options_are_said_before_training(options, error, text):
    with pytest.raises(error, match=text):
        EpochLog(**(NAMES | options))


@pytest.mark.parametrize("columns", [3, 1])
def test_one_label_of_several_classes(client, columns):
    """Of two classes, scores may be for the second alone."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, max(columns, 2), 40)
    scores = rng.dirichlet(np.ones(columns), 40) if columns > 1 else rng.random((40, 1))
    log, run = trained(client, y, [scores, scores], best_by="top1_accuracy")
    expected = mleval.evaluate(y, scores if columns > 1 else scores[:, 0]).measures
    found = run.data.metrics
    wanted = {f"mleval.epoch/{m}" for m in expected if m in EPOCH_MEASURES}
    assert {m for m in found if m.startswith("mleval.epoch/")} == wanted
    assert {"mleval.epoch/top1_accuracy", "mleval.epoch/log_loss"} <= wanted
    assert "mleval.epoch/f1" not in wanted and log.evaluation.measures == expected


def test_parts_of_one_label_may_lack_classes():
    log = EpochLog(**NAMES)
    rng = np.random.default_rng(0)
    y, scores = np.repeat([0, 1, 2], 10), rng.dirichlet(np.ones(3), 30)
    parts = [log.evaluate(y[i : i + 10], scores[i : i + 10]) for i in (0, 10, 20)]
    whole = log.evaluate(y, scores).measures
    assert mleval.merge(parts).measures == pytest.approx(whole, rel=1e-12)


os.environ.setdefault("KERAS_BACKEND", "torch")


@pytest.mark.parametrize(
    "framework", ["keras", "lightning", "huggingface", "xgboost", "lightgbm", "catboost", "optuna"]
)
def test_each_framework_has_its_callback(framework):
    pytest.importorskip({"huggingface": "transformers"}.get(framework, framework))
    own = getattr(mleval.callbacks, framework)
    assert own.__name__.lower() == f"{framework}callback"
    data = () if framework in ("lightning", "huggingface", "optuna") else ([[0.0]], [[0, 1]])
    data = (None, *data) if framework == "catboost" else data
    further = {"measure": "f1"} if framework == "optuna" else {}
    callback = own(*data, method="MLP", dataset="yeast", **further)
    assert callback.epochs.method == "MLP" and callback.epochs.dataset == "yeast"


def test_names_are_listed_and_others_are_refused():
    assert {"keras", "lightning", "xgboost"} <= set(dir(mleval.callbacks))
    assert "callbacks" in mleval.__all__
    said = "no attribute 'chainer'; it has .*keras, lightgbm, lightning"
    with pytest.raises(AttributeError, match=said):
        mleval.callbacks.chainer  # noqa: B018
