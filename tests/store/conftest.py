"""Runs as anybody might log them."""

import itertools

import pytest
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric

START = itertools.count(1_700_000_000_000, 1000)


@pytest.fixture
def log(client):
    """Logs a run as anybody might: experiment, name, tags, params, metrics, dataset input and
    end.
    """

    def log(
        name,
        metrics=(),
        *,
        experiment="x",
        tags=(),
        params=(),
        status="FINISHED",
        dataset="",
        digest="0",
        context="",
        start=0,
        profile=None,
    ):
        found = client.get_experiment_by_name(experiment)
        experiment_id = found.experiment_id if found else client.create_experiment(experiment)
        run = client.create_run(
            experiment_id, start_time=start or next(START), tags=dict(tags), run_name=name
        )
        run_id = run.info.run_id
        client.log_batch(run_id, [Metric(k, v, 1, 0) for k, v in dict(metrics).items()])
        for key, value in dict(params).items():
            client.log_param(run_id, key, value)
        if dataset:
            label = [InputTag("mlflow.data.context", context)] if context else []
            client.log_inputs(
                run_id,
                [DatasetInput(Dataset(dataset, digest, "local", "{}", profile=profile), label)],
            )
        if status != "RUNNING":
            client.set_terminated(run_id, status)
        return run_id

    return log
