"""What the package has put into runs can be taken out again."""

import mlflow
import numpy as np
from command_line import mleval as run
from mlflow import MlflowClient

import mlflow_mleval as mleval

Y = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0]])


def test_runs_are_left_as_they_were_but_for_metrics(db):
    mlflow.set_experiment("mixed")
    with mlflow.start_run(tags={"team": "a"}) as theirs:
        mlflow.log_metric("loss", 0.5)
        mlflow.log_text("x", "notes.txt")
        mleval.log_evaluation(mleval.evaluate(Y, Y, folds=[0, 0, 1]), method="BR", dataset="d")
    ours = mleval.log_evaluation(mleval.evaluate(Y, 1 - Y), method="CC", dataset="d")
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
