"""Several processes that import the same results at the same time."""

import multiprocessing
import os

import numpy as np
import pandas as pd
from waiting import PATIENCE, do_not_wait_for_the_disk

import mlflow_mleval as mleval
from mlflow_mleval.store.importing import import_results

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
