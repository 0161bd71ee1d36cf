"""The store of 300 runs that plain MLflow logged: means over seeds, candidates, searches."""

import plain_store
from mlflow import MlflowClient


def test_the_store_is_what_people_have(plain):
    client = MlflowClient()
    experiments = [e.experiment_id for e in client.search_experiments() if e.name in plain_store.DATASETS]
    runs = client.search_runs(experiments, max_results=1000)
    assert len(experiments) == 4 and len(runs) == plain_store.N_RUNS
    children = [r for r in runs if "mlflow.parentRunId" in r.data.tags]
    assert len(children) > 100 and {"lr", "max_depth"} <= {*children[0].data.params}
    assert sum(r.info.status == "FAILED" for r in runs) >= 5
    grid = [r for r in runs if r.data.params["model"] == "xgb" and "lr" in r.data.params]
    assert len(grid) == 24
