"""Two files of predictions become runs, which are compared by instances and gated by slices."""

import numpy as np
import pandas as pd
import pytest
from command_line import as_json, mleval

from mlflow_mleval.files import predictions

ROWS = 90


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Each larger than what is read at once."""
    monkeypatch.setattr(predictions, "_BLOCK", 1_000)
    rng = np.random.default_rng(0)
    truth = rng.random((ROWS, 2)) < 0.4
    for name, noise in (("a", 0.5), ("b", 0.8)):
        scores = 0.5 * truth + noise * rng.random(truth.shape)
        table = pd.DataFrame(truth.astype(int), columns=["true_x", "true_y"])
        table[["score_x", "score_y"]] = scores.clip(0, 1).round(3)
        table["lang"] = np.where(np.arange(ROWS) % 2, "en", "de")
        table[["instance", "sample_weight", "f1"]] = 0  # what an instance has of its own
        table.assign(patient=np.arange(ROWS) // 3).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def test_predictions_in_files_are_compared_and_gated_by_their_rows(files):
    for name in "ab":
        about = ("--method", name, "--dataset", "d", "-n", "of files", "--cluster", "patient")
        said = mleval("evaluate", str(files / f"{name}.csv"), *about, "--log-instances")
        left = said.stdout.partition("neither truth nor predictions: ")[2]
        assert " ".join(left.split()) == "instance, sample_weight"
    compared = as_json("compare", "-n", "of files", "--over", "instances", "-m", "f1")
    assert compared["n_instances"] == ROWS and compared["separated"] == [["a", "b"]]
    gate = ("gate", "a", "--champion", "b", "-n", "of files", "-m", "f1")
    verdict = as_json(*gate, "--slice", "lang", "--all")
    found = {row["slice"]: row["n"] for row in verdict["rows"]}
    assert verdict["decision"] == "ship" and found == {"": ROWS, "de": 45, "en": 45}
    mleval(*gate, "--slice", "nobody", code=1)


def test_rows_that_were_not_kept_are_asked_for(files):
    for name in "ab":
        about = ("--method", name, "--dataset", "d", "-n", "without rows")
        assert "lang" in mleval("evaluate", str(files / f"{name}.csv"), *about).stdout
    missing = mleval("compare", "-n", "without rows", "--over", "instances", code=1)
    assert "log the rows of the file" in missing.stderr
