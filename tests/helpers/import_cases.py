"""Several processes that import the same results, or gate, at the same time."""

import multiprocessing
import os

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from waiting import PATIENCE, do_not_wait_for_the_disk

import mlflow_mleval as mleval
from mlflow_mleval.errors import StoreError
from mlflow_mleval.gates import history, promotion
from mlflow_mleval.store.importing import import_results
from mlflow_mleval.store.ledger import Ledger

METHODS, DATASETS = [f"m{i}" for i in range(12)], [f"d{i}" for i in range(5)]
RESULTS = pd.DataFrame(
    [(d, m, f, 0.5 + 0.01 * f) for d in DATASETS for m in METHODS for f in (0, 1)],
    columns=["dataset", "method", "fold", "f1"],
)
# Each process is a fork of one that has imported MLflow and never used it: processes of their own,
# without seconds to start.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["mlflow_mleval", "mlflow_mleval.store.importing", "mlflow_mleval.training.log_evaluation"]
)


def at_once(call, *arguments):
    """A process for each of these arguments calls the same, and they start together."""
    settings = {name: value for name, value in os.environ.items() if name.startswith("MLFLOW_")}
    start = PROCESSES.Barrier(len(arguments))
    made = [PROCESSES.Process(target=_call, args=(settings, start, call, a)) for a in arguments]
    for process in made:
        process.start()
    for process in made:
        process.join(4 * PATIENCE)
    assert [process.exitcode for process in made] == [0] * len(made), (
        f"a process failed, or took more than {4 * PATIENCE} seconds"
    )


def _call(settings, start, call, arguments):
    os.environ.update(settings)
    do_not_wait_for_the_disk()
    start.wait(PATIENCE)
    call(*arguments)


def import_at_once(writers=4):
    at_once(_import, *[()] * writers)


def _import():
    import_results(RESULTS, experiment_name="x")


def write(process, results, settings):
    """Evaluations of one process, into the experiment `e`."""
    os.environ.update(settings)
    rng = np.random.default_rng(process)
    for i in range(results):
        ev = mleval.evaluate(rng.integers(0, 2, (20, 3)), rng.random((20, 3)))
        mleval.log_evaluation(ev, method=f"m{process}", dataset=f"d{i}", experiment_name="e")


def one_run_a_pair(client):
    experiment = client.get_experiment_by_name("x")
    found = client.search_runs([experiment.experiment_id], max_results=5000)
    pairs = {(r.data.tags["mleval.dataset"], r.data.tags["mleval.method"]) for r in found}
    assert len(found) == len(pairs) == len(METHODS) * len(DATASETS)
    assert all(r.data.metrics == {"mleval/f1": 0.505, "mleval.fold/f1": 0.51} for r in found)
    assert all(
        r.data.tags["mleval.status"] == "complete" and r.info.status == "FINISHED" for r in found
    )


GATES, MODEL = 8, "raced"


def race_for_places_and_alias():
    """Eight processes take a place in a ledger each, and move an alias from version 1, where they
    can: all places are different, and one of them has moved it.
    """
    client = MlflowClient()
    run = client.create_run(client.create_experiment("raced versions"))
    client.create_registered_model(MODEL)
    for _ in range(1 + GATES):
        client.create_model_version(MODEL, f"runs:/{run.info.run_id}/model", run.info.run_id)
    client.set_registered_model_alias(MODEL, "champion", "1")
    told = PROCESSES.SimpleQueue()
    at_once(_gate, *((told, 2 + place) for place in range(GATES)))
    found = [told.get() for _ in range(GATES)]
    assert sorted(number for number, _ in found) == list(range(1, GATES + 1))
    assert history("raced")["number"].tolist() == list(range(1, GATES + 1))
    moved = [version for _, version in found if version]
    assert moved == [str(client.get_model_version_by_alias(MODEL, "champion").version)]


def _gate(told, version):
    move = promotion(f"models:/{MODEL}/{version}", f"models:/{MODEL}/1", "champion")
    book = Ledger.open("raced", alpha=0.05)
    number = book.claim()
    values = {"decision": "ship", "candidate": str(version), "champion": "1", "units": "u"}
    book.write(number, values | {"asked": 0, "evidence": 1e6, "level": 1e-4})
    try:
        move()
    except StoreError:
        told.put((number, None))
    else:
        told.put((number, str(version)))
