"""Searches of Optuna with their trials as children."""

import mlflow
import numpy as np
import pytest
from callback_cases import one_warning

import mlflow_mleval as mleval
from mlflow_mleval.store import schema

optuna = pytest.importorskip("optuna")

from mlflow_mleval.training.callbacks.optuna import OptunaCallback  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)
NAMES = {"method": "kNN", "dataset": "toy"}
rng = np.random.default_rng(0)
Y, NOISE = (rng.random((40, 3)) < 0.4).astype(int), rng.random((40, 3))


def objective(trial):
    share = trial.suggest_float("share", 0.1, 0.9)
    if trial.number == 2:
        raise optuna.TrialPruned
    return mleval.evaluate(Y, share * Y + (1 - share) * NOISE)


def search(watch, direction, trials=5, **options):
    study = optuna.create_study(direction=direction, sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(watch(objective), n_trials=trials, **options)
    return study


@pytest.mark.parametrize(
    ("measure", "direction"), [("micro_f1", "maximize"), ("soft_hamming_loss", "minimize")]
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_trials_are_children_and_the_best_is_the_parents(client, measure, direction, jobs):
    with mlflow.start_run() as run, OptunaCallback(measure=measure, **NAMES) as watch:
        study = search(watch, direction, n_jobs=jobs)
    children = client.search_runs(["0"], f"tags.`mlflow.parentRunId` = '{run.info.run_id}'")
    ended = {str(t.number): t for t in study.trials if t.value is not None}
    assert {c.data.tags[schema.TAG_TRIAL] for c in children} == ended.keys() and len(ended) == 4
    for child in children:
        trial = ended[child.data.tags[schema.TAG_TRIAL]]
        assert child.data.params == {"share": str(trial.params["share"])}
        assert child.info.status == "FINISHED"
        assert child.data.metrics[schema.METRIC_PREFIX + measure] == trial.value
        assert child.data.tags[schema.TAG_STATUS] == "complete"
    parent, best = client.get_run(run.info.run_id).data, study.best_value
    assert parent.metrics[schema.METRIC_PREFIX + measure] == best
    assert watch.epochs.evaluation.measures[measure] == best
    assert parent.tags[schema.TAG_SELECTED] == "4"
    how = {"experiment_names": ["Default"], "measures": [measure]}
    for of in ({}, {"children": f"best:{measure}"} if jobs == 1 else {}):
        found = mleval.load_study(**how, **of)
        assert found.values[measure].to_dict() == {("toy", "kNN"): best}


@pytest.mark.parametrize(
    ("measure", "direction", "made", "text"),
    [
        ("micro_f1", "minimize", objective, "must be 'maximize' for micro_f1, got minimize"),
        ("micro_f1", "maximize", lambda trial: 0.5, "must return an Evaluation, got float"),
        ("h_f1", "maximize", objective, "h_f1: no `hierarchy` was given"),
    ],
)
def test_what_would_search_for_the_wrong_thing_is_an_error(client, measure, direction, made, text):
    wrong = pytest.raises((ValueError, TypeError), match=text)
    watch = OptunaCallback(measure=measure, **NAMES)
    with wrong, mlflow.start_run() as run, watch:
        optuna.create_study(direction=direction).optimize(watch(made), n_trials=1)
    assert schema.TAG_STATUS not in client.get_run(run.info.run_id).data.tags


def test_without_a_run_the_search_goes_on(client):
    watch = OptunaCallback(measure="f1", **NAMES)
    with one_warning("No run is active", active=False), watch:
        study = search(watch, "maximize")
    assert study.best_value > 0.5 and not client.search_runs(["0"])
