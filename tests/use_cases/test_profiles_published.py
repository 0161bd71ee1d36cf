"""The loss profiles of the examples are the published ones, and their page is up to date."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from example_runs import run
from places import SHARED, STUDIES

from mlflow_mleval.measures.owa import profile_from_histogram


@pytest.mark.slow
def test_the_published_profiles_are_up_to_date(tmp_path, unset):
    run(STUDIES / "profiles_published.py", str(tmp_path / "out.md"), cwd=tmp_path)
    committed = (STUDIES / "profiles_published.md").read_text(encoding="utf-8")
    assert (tmp_path / "out.md").read_text(encoding="utf-8") == committed
    claim = "LP gains on BR as the loss asks for more"
    assert f"| {claim} | **holds**: 6 of 6 | **holds**: 6 of 6 |" in committed
    for name in re.findall(r"\((pictures/.*?)\)", committed):
        assert "<svg" in (STUDIES / name).read_text(encoding="utf-8")


def test_the_counts_of_the_published_profiles_give_the_published_losses():
    golden = SHARED / "golden" / "huellermeier2022_profiles.json"
    if not golden.exists():
        pytest.skip("the published losses are not at hand")
    published = json.loads(golden.read_text(encoding="utf-8"))
    table = pd.read_csv(STUDIES / "data" / "huellermeier2022_counts.csv", comment="#")
    table = table.set_index(["dataset", "algorithm"])
    assert len(table) == len(published["records"]) == 62
    for record in published["records"]:
        row = table.loc[record["dataset"], record["algorithm"]]
        counts = np.zeros(row["n_labels"] + 1, dtype=int)
        found = np.array(row["counts"].split(), dtype=int)
        counts[: len(found)] = found
        assert counts.tolist() == record["error_count_hist"] and row["folds"] == record["folds"]
        expected = record["binomial"]
        np.testing.assert_allclose(profile_from_histogram(counts).losses, expected, atol=1e-14)
        losses = profile_from_histogram(counts, "polynomial", published["alpha"]).losses
        np.testing.assert_allclose(losses, record["polynomial"], atol=1e-14)
