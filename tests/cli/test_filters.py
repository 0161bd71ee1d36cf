"""What the command line answers to filters that MLflow does not accept, and to rules that name
nothing.
"""

import re

import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

from mlflow_mleval.cli import main


def test_a_wrong_filter_is_answered_with_examples_that_work(plain):
    found = CliRunner().invoke(main, ["runs", "-n", "wine", "--filter", "alice"])
    assert found.exit_code == 1
    assert found.stderr.startswith(
        "Error: MLflow does not accept the filter 'alice': Invalid clause(s) in filter string"
    )
    client = MlflowClient()
    examples = re.search("Examples: (.*) \\(milliseconds\\)", found.stderr)[1].split("; ")
    assert len(examples) == 5
    assert all(len(client.search_runs(["0"], text)) == 0 for text in examples)
    found = CliRunner().invoke(main, ["runs", "-n", "wine", "--filter", "experiment_id = '1'"])
    assert "Valid keys" not in found.stderr
    assert found.stderr.endswith("Experiments are chosen by --experiment-name NAME.\n")
    assert "there is no `or`" in found.stderr


@pytest.mark.parametrize(
    ("flag", "rule"),
    [("--read", "folds-by=nonsense"), ("--method-by", "nonsense"), ("--dataset-by", "tag:")],
)
@pytest.mark.parametrize(
    "command", ["runs", "rank -n x", "compare -n x --over folds", "report -n x"]
)
def test_a_bad_rule_is_wrong_usage_before_a_store_is_looked_for(
    tmp_path, monkeypatch, unset, command, flag, rule
):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(main, [*command.split(), flag, rule])
    assert found.exit_code == 2 and "must be one of " in found.stderr
    assert f"Error: {flag}" in found.stderr and repr(rule.removeprefix("folds-by=")) in found.stderr
    assert not list(tmp_path.iterdir())
